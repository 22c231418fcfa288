/*
 * store/radix.h -- an adaptive radix tree over versions of records, in one arena: one writer,
 * readers without locks.
 *
 * Terms. A *reference* is 32 bits: arena offset / 8, then one tag bit; 0 is none. A *leaf* is one
 * version of a record; the tree refers to the newest of a key, older ones hang below it
 * (store/memtable.c rules that chain). A *node* has a *depth*, the position of the byte it branches
 * on; every key below it has the same `depth` bytes in front. A key that ends at the depth of a
 * node is the node's *terminal*.
 *
 * Invariants.
 *	1. A node is complete before it is referred to. Afterwards references in it are replaced
 *	   and children added; depth, tail and what a byte or slot stands for never change.
 *	2. A full node is copied into the next larger kind and the one reference to it replaced;
 *	   the old copy stays as it was at that moment. A node above another is made without
 *	   touching the lower one, since depths are absolute.
 *	3. What replaces a reference holds every key that was below the old one. So from any node
 *	   that was ever in the tree all keys that were below it then can still be reached.
 *
 * Threads. One writer inserts; any number of readers find and walk at the same time. A path belongs
 * to one thread.
 */
#ifndef CAIRN_STORE_RADIX_H
#define CAIRN_STORE_RADIX_H

#include <stdatomic.h>

#include "format/base.h"

#define CAIRN_RADIX_UNIT       8u                   /* divides all sizes and offsets in the arena */
#define CAIRN_RADIX_REACH      (UINT64_C(16) << 30) /* bytes that references can address */
#define CAIRN_RADIX_START      CAIRN_RADIX_UNIT     /* of an empty tree: offset 0 is no reference */
#define CAIRN_RADIX_TAG        UINT32_C(1)          /* in the tree: a leaf, not a node */

/*
 * Nodes take at most this much arena for each key after the first, over all times and for every set
 * of keys. Proof: a node with c children and t terminals (0 or 1) joins c + t >= 2 subtrees, and
 * over the whole tree the sum of c + t - 1 is the number of keys - 1. A node, with the smaller
 * copies of it that were left behind, took
 *	40 bytes when c <= 4,			where c + t - 1 is at least 1;
 *	40 + 96 when c <= 16,			at least 4;
 *	40 + 96 + 464 when c <= 48,		at least 16;
 *	40 + 96 + 464 + 1040 otherwise,		at least 48.
 * That is never above 40 * (c + t - 1). Sizes and inequalities are asserted in store/radix.c.
 */
#define CAIRN_RADIX_NODE_SHARE 40u

struct cairn_leaf {
	uint64_t sequence;
	_Atomic uint32_t older; /* reference to the version below, with a tag of its own meaning */
	uint32_t value_size;
	uint32_t checksum;
	uint16_t key_size;
	uint8_t kind;
	uint8_t bytes[]; /* key, value */
};

#define CAIRN_LEAF_HEADER offsetof(struct cairn_leaf, bytes)

struct cairn_radix {
	uint8_t *arena; /* aligned to 8; may hold anything */
	size_t capacity;
	_Atomic uint32_t root;
	_Atomic size_t used;
};

/* A place in the tree: the nodes above a leaf, and where in each of them the way goes on. */
struct cairn_radix_path {
	struct cairn_radix_step *steps;
	size_t count, room;
};

static inline void *cairn_radix_at(const struct cairn_radix *radix, uint32_t ref)
{
	return radix->arena + ((size_t)(ref & ~CAIRN_RADIX_TAG) << 2);
}

static inline uint32_t cairn_radix_load(const _Atomic uint32_t *slot)
{
	return atomic_load_explicit(slot, memory_order_acquire);
}

static inline void cairn_radix_publish(_Atomic uint32_t *slot, uint32_t ref)
{
	atomic_store_explicit(slot, ref, memory_order_release);
}

static inline cairn_slice cairn_leaf_key(const struct cairn_leaf *leaf)
{
	return cairn_slice_of(leaf->bytes, leaf->key_size);
}

static inline cairn_slice cairn_leaf_value(const struct cairn_leaf *leaf)
{
	return cairn_slice_of(leaf->bytes + leaf->key_size, leaf->value_size);
}

static inline size_t cairn_radix_used(const struct cairn_radix *radix)
{
	return atomic_load_explicit(&radix->used, memory_order_relaxed);
}

/* An empty tree. The arena keeps what it holds. */
void cairn_radix_clear(struct cairn_radix *radix);

/* Takes `size` bytes, rounded up, from an arena that has them: an untagged reference. [writer] */
uint32_t cairn_radix_allocate(struct cairn_radix *radix, size_t size);

/*
 * Puts a complete leaf into the tree; `leaf` is tagged. Is there one of the same key, then that is
 * returned, the new one takes its place and refers to it (untagged) as the older. Otherwise 0.
 * [writer]
 */
uint32_t cairn_radix_insert(struct cairn_radix *radix, uint32_t leaf);

/* The newest leaf of the key, or 0. */
uint32_t cairn_radix_find(const struct cairn_radix *radix, cairn_slice key);

/*
 * Walks along the leaves in key order. Each sets *leaf to the next one, or to 0 at the end, where
 * the path is empty. 0 or -ENOMEM. Keys inserted after `first` or `seek` began may be shown or not;
 * all others are, once.
 */
int cairn_radix_path_init(struct cairn_radix_path *path);
void cairn_radix_path_release(struct cairn_radix_path *path);
int cairn_radix_first(const struct cairn_radix *radix, struct cairn_radix_path *path, bool forward,
    uint32_t *leaf); /* the last one when not forward */
int cairn_radix_seek(const struct cairn_radix *radix, struct cairn_radix_path *path,
    cairn_slice key, uint32_t *leaf); /* the first one with a key >= */
int cairn_radix_next(const struct cairn_radix *radix, struct cairn_radix_path *path, bool forward,
    uint32_t *leaf); /* the one before when not forward */

#endif
