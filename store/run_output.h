/*
 * store/run_output.h -- from a cursor to an opened run under its final name: what a flush and a
 * merge have in common.
 */
#ifndef CAIRN_STORE_RUN_OUTPUT_H
#define CAIRN_STORE_RUN_OUTPUT_H

#include "store/shadow.h"
#include "store/store.h"

struct cairn_run_output {
	struct cairn *db;
	struct cairn_run *const *older; /* the runs older than the inputs, … */
	size_t older_count;             /* … none: tombstones are dropped */
	struct cairn_shadow *shadow;    /* is told of every record; NULL: nobody is */
	bool tombstones;                /* whether the input may show any */
	bool stoppable;                 /* give up with CAIRN_BUSY when the store is closing */
	uint64_t size_hint;
	uint64_t sequence_low;
	uint64_t sequence_high;
	/* Progress of a long one; may be NULL. */
	void (*progress)(void *context, uint64_t bytes);
	void *context;
};

/*
 * Writes what `input` shows (taken over) as a run, verifies it, renames it and syncs the directory.
 * *run is NULL when the output is empty. *bytes is what was written. After a failure nothing is
 * left.
 */
int cairn_run_output(const struct cairn_run_output *output, struct cairn_cursor *input,
    struct cairn_run **run, uint64_t *bytes);

/* The run will not be published: its file goes with its last reference, unless the handle has
 * failed, since then a manifest that names it may be on disk. */
void cairn_run_output_discard(struct cairn *db, struct cairn_run *run);

#endif
