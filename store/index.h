/*
 * store/index.h -- fractional indexes: made with the runs that flushes and merges write, and later
 * for runs that have none.
 */
#ifndef CAIRN_STORE_INDEX_H
#define CAIRN_STORE_INDEX_H

#include "store/store.h"

/*
 * Makes the index of `run` on `anchor`, verified by being opened, under its final name; the
 * directory is not synced. 0; CAIRN_NOT_FOUND: these two need none; or a failure, after which
 * nothing is left.
 */
int cairn_index_make(struct cairn *db, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor, struct cairn_index **index);

/* Opens the index of `run` that a manifest names. NULL, and a line in the log, when it cannot be
 * used: nothing needs it. */
struct cairn_index *cairn_index_open(struct cairn *db, const struct cairn_fraction_file *file,
    const struct cairn_run *run, const struct cairn_run *anchor);

/* The index will not be published: its file goes with its last reference, unless the handle has
 * failed. NULL is fine. */
void cairn_index_discard(struct cairn *db, struct cairn_index *index);

#endif
