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

/* What was written. */
struct cairn_run_result {
	struct cairn_run *run;     /* NULL when the output is empty */
	struct cairn_index *index; /* on the last of the older runs; NULL: it has none */
	uint64_t bytes;
};

/*
 * Writes what `input` shows (taken over) as a run, with its fractional index, verifies it, renames
 * it and syncs the directory. After a failure nothing is left. That an index could not be made is
 * no failure.
 */
int cairn_run_output(const struct cairn_run_output *output, struct cairn_cursor *input,
    struct cairn_run_result *result);

/* Drops the references. With `discard` it will not be published: its files go with their last
 * references, unless the handle has failed, since then a manifest that names them may be on disk.
 */
void cairn_run_result_release(struct cairn *db, struct cairn_run_result *result, bool discard);

#endif
