/*
 * store/memtable.h -- the mutable, ordered, multi-version table of recent writes.
 *
 * An adaptive radix tree (nodes of 4, 16, 48, 256 children, path compression) in one arena
 * addressed by 32-bit references; leaves are versions of records, newest first in a chain.
 *
 * Invariants.
 * (1) One writer at a time (the holder of the store's write lock); readers need no lock.
 * (2) What a reader can reach is complete: children and versions are published with release
 *     stores, and nothing reachable is changed afterwards but references. Replaced nodes stay in
 *     the arena until it is reset.
 * (3) Under the newest version of a key stay the version it superseded and every version that a
 *     live view needs. What else was there is cut off, and the cut is marked; a reader that runs
 *     into the mark learns that its sequence was stale (CAIRN_CONFLICT) and takes a newer one. A
 *     registered view never meets it.
 */
#ifndef CAIRN_STORE_MEMTABLE_H
#define CAIRN_STORE_MEMTABLE_H

#include "format/iter.h"

struct cairn_memtable;

/*
 * A table that can take `capacity` bytes of arena (at most 16 GiB; address space is reserved,
 * memory comes as it is touched). `hash_seed` verifies record checksums. 0 or -ENOMEM.
 */
int cairn_memtable_new(size_t capacity, uint64_t hash_seed, struct cairn_memtable **table);
void cairn_memtable_free(struct cairn_memtable *table); /* NULL is fine */

/* Empties it for another life; its memory stays faulted in. Nobody may be reading. */
void cairn_memtable_reset(struct cairn_memtable *table);

/* Bytes of arena that are enough, in every case, for `operations` records of `bytes` keys and
 * values together. */
size_t cairn_memtable_bound(size_t operations, size_t bytes);

/* Whether that much is left. */
bool cairn_memtable_fits(const struct cairn_memtable *table, size_t operations, size_t bytes);

/*
 * Inserts a version; cannot fail when fits() said so. Sequences ascend from call to call. `views`
 * are the sequences of the live views, ascending, `view_count` of them: what they need is kept. The
 * published sequence stands behind them as the last, so that plain gets find their version while a
 * batch goes in. [writer]
 */
void cairn_memtable_put(struct cairn_memtable *table, const struct cairn_record *record,
    uint64_t sequence, const uint64_t *views, size_t view_count);

/*
 * The newest version of `key` not above `sequence`; `hash` is the key's cairn_key_hash. 0: *record
 * is verified, points into the arena (valid while the table lives) and may be a tombstone.
 * CAIRN_NOT_FOUND: no version that old or older. CAIRN_CONFLICT: it was cut off, `sequence` is
 * stale. CAIRN_CORRUPT: memory was damaged.
 */
int cairn_memtable_get(const struct cairn_memtable *table, cairn_slice key, uint64_t hash,
    uint64_t sequence, struct cairn_record *record);

/*
 * A cursor over what is visible at `sequence`: of each key the newest version not above it,
 * tombstones shown. 0 or -ENOMEM. Writes above `sequence` may go on beside it. A sequence that is
 * no registered view's may meet a cut: moves then return CAIRN_CONFLICT.
 */
int cairn_memtable_cursor_open(
    const struct cairn_memtable *table, uint64_t sequence, struct cairn_cursor **cursor);

/* Faults in the next `ahead` bytes of arena behind what is used, in steps; 1 when it did something.
 * Any one thread. */
int cairn_memtable_populate(struct cairn_memtable *table, size_t ahead);

/* Any thread; each is a moment's value. */
size_t cairn_memtable_bytes(const struct cairn_memtable *table); /* arena used */
size_t cairn_memtable_capacity(const struct cairn_memtable *table);
uint64_t cairn_memtable_operations(const struct cairn_memtable *table); /* versions inserted */
uint64_t cairn_memtable_deletes(const struct cairn_memtable *table);    /* tombstones among them */
uint64_t cairn_memtable_overwrites(
    const struct cairn_memtable *table); /* versions over an older one in this table */
uint64_t cairn_memtable_payload(
    const struct cairn_memtable *table); /* bytes of keys and values inserted */
/* Sequences inserted first and last; 0, 0 when empty. */
void cairn_memtable_sequences(const struct cairn_memtable *table, uint64_t *low, uint64_t *high);

#endif
