/*
 * compaction/merge.h -- many cursors as one: k-way merge, newest first, both directions.
 *
 * Input 0 is the newest. Of records with equal keys only the newest input's is shown; tombstones
 * are shown like any record and hide what is older. Used by merges (forward only) and by the
 * store's iterators (both ways).
 *
 * Cost. Heads (8 key bytes) are compared first; while the leading cursor stays below the second,
 * moves touch no other input. A change of direction repositions the other inputs once.
 */
#ifndef CAIRN_COMPACTION_MERGE_H
#define CAIRN_COMPACTION_MERGE_H

#include "format/iter.h"

/*
 * A cursor over `count` inputs (0 is fine: an empty one). Takes the inputs over and closes them
 * with itself, also when it fails (-ENOMEM). The array stays the caller's.
 */
int cairn_merge_open(struct cairn_cursor **inputs, size_t count, struct cairn_cursor **merged);

/*
 * Whoever can place many cursors at once is told before a merge seeks its inputs one by one.
 * `close` is called when the merged cursor is closed.
 */
struct cairn_merge_aim {
	void (*aim)(struct cairn_merge_aim *aim, cairn_slice key);
	void (*close)(struct cairn_merge_aim *aim);
};

/* `merged` is of two inputs at least; it takes `aim` over. At most once. */
void cairn_merge_set_aim(struct cairn_cursor *merged, struct cairn_merge_aim *aim);

#endif
