/*
 * store/seek.h -- seeks of iterators: one search places the cursors of all runs.
 */
#ifndef CAIRN_STORE_SEEK_H
#define CAIRN_STORE_SEEK_H

#include <stdatomic.h>

#include "compaction/merge.h"
#include "format/cascade.h"

/* Of a handle. Iterators add to it now and then and when they are closed. */
struct cairn_seek_counts {
	_Atomic uint64_t indexed;   /* every newer run by its fractional index */
	_Atomic uint64_t unindexed; /* not, because a run has none that can be used */
	_Atomic uint64_t wide;      /* not, because of too wide a window, and for no other reason */
};

/*
 * For a merged cursor whose last `count` inputs, `cursors`, are those of the runs of `cascade`, in
 * their order. The array stays the caller's. 0 or -ENOMEM.
 */
int cairn_seek_aim_new(struct cairn_cascade *cascade, struct cairn_cursor *const *cursors,
    size_t count, struct cairn_seek_counts *counts, struct cairn_merge_aim **aim);

#endif
