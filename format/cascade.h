/*
 * format/cascade.h -- one search that places a key in all runs of a store.
 *
 * Only the anchor's seek tree is descended. The cell of the anchor that the key falls into gives,
 * by the fractional index of each newer run (fraction.h), the few blocks of that run that the key
 * can belong to, and one look at their heads picks one. So all runs' cache misses overlap, and the
 * newer runs' trees are not touched. A run without an index, or with too wide a window at this
 * place, is searched by its own tree, all such runs in lockstep.
 *
 * In memory the windows of all runs stand side by side: for 16 cells, which are one node of the
 * anchor's tree, one line of 64 bytes has them for three runs (README.md, "The search in all
 * runs").
 *
 * A cascade borrows runs and indexes, which must outlive it. Once made it changes only in that it
 * notes what has been verified; any number of threads may search in it.
 */
#ifndef CAIRN_FORMAT_CASCADE_H
#define CAIRN_FORMAT_CASCADE_H

#include "format/fraction.h"
#include "format/run_reader.h"

#define CAIRN_CASCADE_RUNS_MAX 64u
#define CAIRN_CASCADE_KEYS_MAX 16u

struct cairn_cascade;

/* Why a search did not use the index of every newer run; flags. */
#define CAIRN_CASCADE_UNINDEXED 1u /* a run has none, or it is damaged */
#define CAIRN_CASCADE_WIDE      2u /* a window is too wide here */

/*
 * Over `count` runs (1 to CAIRN_CASCADE_RUNS_MAX), newest first; indexes[i] is the fractional index
 * of runs[i] on the last one, or NULL. 0 or -ENOMEM.
 */
int cairn_cascade_new(struct cairn_run_reader *const *runs,
    const struct cairn_fraction *const *indexes, size_t count, struct cairn_cascade **cascade);

void cairn_cascade_free(struct cairn_cascade *cascade); /* NULL is fine */

/* Bytes of memory that it takes. */
size_t cairn_cascade_bytes(const struct cairn_cascade *cascade);

/*
 * For each run the block that `key` belongs to, or one to its right, into aims[0 … count-1], its
 * memory on the way into the cache; *how gets the flags above. A key below all of a run belongs to
 * block 0. The seek sections are trusted from then on. 0, or CAIRN_CORRUPT when one of them is
 * damaged; damage to an index is not a failure.
 */
int cairn_cascade_find(
    struct cairn_cascade *cascade, cairn_slice key, struct cairn_run_aim *aims, unsigned *how);

/* The same for up to CAIRN_CASCADE_KEYS_MAX keys at once, so that their cache misses overlap:
 * aims[k * count + run]. */
int cairn_cascade_find_many(struct cairn_cascade *cascade, const cairn_slice *keys,
    size_t key_count, struct cairn_run_aim *aims);

#endif
