/*
 * store/radix.c -- nodes of the adaptive radix tree: searching, growing, splitting, walking.
 *
 * Terms. A node's *tail* is the 8 bytes in front of its depth. On the way down, `from` counts the
 * bytes of the key that the way has used up; the bytes between `from` and a node's depth are the
 * *skipped* ones: compared with the tail where they fit in it, else with a key of any leaf below.
 *
 * Invariants, beside those of the header.
 *	4. The children of a node of 4, 16 or 48 sit in slots in order of arrival. A reader that
 *	   sees a count, or an index byte, sees the slots that it covers.
 *	5. Unused key bytes are 0 and lie behind the used ones: the lowest match decides, and it
 *	   counts only below `count`.
 *	6. Slot 0 of a node of 4, 16 or 48 is always used.
 *
 * Why a walk may stand on old copies. Every node on its path was in the tree at some moment after
 * `first` or `seek` began: the root when it was loaded; a child, when it is loaded from a node in
 * the tree, at that moment, and when it is loaded from an old copy, at the moment that copy was
 * replaced, which is after the copy was last known to be in the tree. So by invariant 3 all keys
 * from before the beginning are below it still. Positions in nodes are byte values: children that
 * arrive or are replaced meanwhile lead the walk neither to a key twice nor past one.
 *
 * Threads. See the header. What a reader may meet half-way is atomic, with release on the writer's
 * and acquire on the readers' side; the rest is written before it is published.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "store/radix.h"

#include "format/error.h"

#define CACHE_LINE 64u
#define TAIL_SIZE  8u
#define NONE_BYTE  256u /* no byte */
#define PATH_START 32u

enum node_type { NODE4, NODE16, NODE48, NODE256 };

struct node {
	uint8_t type;
	_Atomic uint8_t count; /* children; not kept in a node of 256 */
	uint16_t depth;
	_Atomic uint32_t terminal;
	uint8_t
	    tail[TAIL_SIZE]; /* tail[8 - i] is the byte at depth - i; zeros where there is none */
};

struct node4 {
	struct node node;
	_Atomic uint32_t keys; /* byte i, counted from the lowest, leads to child i */
	_Atomic uint32_t child[4];
};

struct node16 {
	struct node node;
	_Atomic uint64_t keys[2];
	_Atomic uint32_t child[16];
};

struct node48 {
	struct node node;
	_Atomic uint8_t index[256]; /* slot + 1 */
	_Atomic uint32_t child[48];
};

struct node256 {
	struct node node;
	_Atomic uint32_t child[256];
};

/* Where the way goes on in a node: at its terminal, or at the child of byte `at` - 1. */
struct cairn_radix_step {
	uint32_t ref;
	int16_t at;
};

enum { AT_FRONT = -1, AT_TERMINAL = 0, AT_BACK = 257 };

#define SHARE CAIRN_RADIX_NODE_SHARE
#define SIZE4 ((sizeof(struct node4) + CAIRN_RADIX_UNIT - 1) / CAIRN_RADIX_UNIT * CAIRN_RADIX_UNIT)

static const size_t node_size[] = {
    SIZE4, sizeof(struct node16), sizeof(struct node48), sizeof(struct node256)};
static const unsigned node_room[] = {4, 16, 48, 256};

/* The proof of CAIRN_RADIX_NODE_SHARE. */
_Static_assert(SIZE4 <= SHARE * 1, "2 subtrees");
_Static_assert(SIZE4 + sizeof(struct node16) <= SHARE * (5 - 1), "5 children");
_Static_assert(SIZE4 + sizeof(struct node16) + sizeof(struct node48) <= SHARE * (17 - 1), "17");
_Static_assert(SIZE4 + sizeof(struct node16) + sizeof(struct node48) + sizeof(struct node256) <=
		   SHARE * (49 - 1),
    "49");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint8_t) == 1, "plain loads");
_Static_assert(
    CAIRN_RADIX_UNIT == 8, "cairn_radix_at shifts by 2: 3 for the unit, less 1 for the tag");

static bool is_leaf(uint32_t ref)
{
	return ref & CAIRN_RADIX_TAG;
}

static bool is_node(uint32_t ref)
{
	return ref && !is_leaf(ref);
}

static unsigned key_byte(cairn_slice key, size_t at)
{
	return ((const uint8_t *)key.data)[at];
}

/* Fetches one of the cache lines of what is referred to. */
static void prefetch(const struct cairn_radix *radix, uint32_t ref, unsigned line)
{
	__builtin_prefetch((const uint8_t *)cairn_radix_at(radix, ref) + line * CACHE_LINE);
}

/* A node that is going to be searched: its children are fetched while its head is looked at. */
static struct node *node_at(const struct cairn_radix *radix, uint32_t ref)
{
	prefetch(radix, ref, 1);
	return cairn_radix_at(radix, ref);
}

static cairn_slice leaf_key(const struct cairn_radix *radix, uint32_t ref)
{
	return cairn_leaf_key(cairn_radix_at(radix, ref));
}

void cairn_radix_clear(struct cairn_radix *radix)
{
	atomic_store_explicit(&radix->root, 0, memory_order_relaxed);
	atomic_store_explicit(&radix->used, CAIRN_RADIX_START, memory_order_relaxed);
}

uint32_t cairn_radix_allocate(struct cairn_radix *radix, size_t size)
{
	size_t used = cairn_radix_used(radix);
	size = cairn_round_up(size, CAIRN_RADIX_UNIT);
	assert(size <= radix->capacity - used);
	atomic_store_explicit(&radix->used, used + size, memory_order_relaxed);
	return (uint32_t)(used / CAIRN_RADIX_UNIT << 1);
}

/* Which byte of `keys` is `byte`, counted from the lowest; 8: none. */
static unsigned match(uint64_t keys, unsigned byte)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x = keys ^ ones * byte;
	uint64_t zero = (x - ones) & ~x & ones << 7; /* its lowest bit is exact */
	return zero ? (unsigned)__builtin_ctzll(zero) / 8 : 8;
}

static unsigned node_count(const struct node *node)
{
	return atomic_load_explicit(&node->count, memory_order_acquire);
}

/* The key bytes of a node of 4 or 16, to be loaded after its count. */
static uint64_t node_keys(const struct node *node, unsigned word)
{
	if (node->type == NODE4)
		return atomic_load_explicit(
		    &((const struct node4 *)node)->keys, memory_order_relaxed);
	return atomic_load_explicit(
	    &((const struct node16 *)node)->keys[word], memory_order_relaxed);
}

static _Atomic uint32_t *node_children(struct node *node)
{
	switch (node->type) {
	case NODE4:
		return ((struct node4 *)node)->child;
	case NODE16:
		return ((struct node16 *)node)->child;
	case NODE48:
		return ((struct node48 *)node)->child;
	default:
		return ((struct node256 *)node)->child;
	}
}

/* Slot + 1 of the child of `byte` in a node of 48, or 0. */
static unsigned node48_index(const struct node *node, unsigned byte)
{
	return atomic_load_explicit(
	    &((const struct node48 *)node)->index[byte], memory_order_acquire);
}

/* The used slot of the child of `byte`, or NULL. */
static _Atomic uint32_t *node_slot(struct node *node, unsigned byte)
{
	unsigned count, i;
	switch (node->type) {
	case NODE4:
		count = node_count(node);
		i = match(node_keys(node, 0), byte);
		return i < count ? &((struct node4 *)node)->child[i] : NULL;
	case NODE16:
		count = node_count(node);
		i = match(node_keys(node, 0), byte);
		if (i == 8)
			i += match(node_keys(node, 1), byte);
		return i < count ? &((struct node16 *)node)->child[i] : NULL;
	case NODE48:
		i = node48_index(node, byte);
		return i ? &((struct node48 *)node)->child[i - 1] : NULL;
	default: {
		_Atomic uint32_t *slot = &((struct node256 *)node)->child[byte];
		return cairn_radix_load(slot) ? slot : NULL;
	}
	}
}

/*
 * The nearest child at or behind `first`, in the order of byte ^ flip (flip 0: upwards, 255:
 * downwards): its place in that order, and the child; or NONE_BYTE.
 */
static unsigned node_nearest(struct node *node, unsigned first, unsigned flip, uint32_t *child)
{
	unsigned best = NONE_BYTE, slot = 0;
	if (node->type <= NODE16) {
		unsigned count = node_count(node);
		for (unsigned word = 0; word * 8 < count; word++) {
			uint64_t keys = node_keys(node, word);
			for (unsigned i = word * 8; i < count && i < word * 8 + 8;
			     i++, keys >>= 8) {
				unsigned place = (unsigned)(keys & 255) ^ flip;
				if (place >= first && place < best) {
					best = place;
					slot = i;
				}
			}
		}
		if (best != NONE_BYTE)
			*child = cairn_radix_load(&node_children(node)[slot]);
		return best;
	}
	for (unsigned place = first; place < NONE_BYTE; place++) {
		unsigned byte = place ^ flip;
		if (node->type == NODE48) {
			if (!(slot = node48_index(node, byte)))
				continue;
			*child = cairn_radix_load(&((struct node48 *)node)->child[slot - 1]);
			return place;
		}
		if ((*child = cairn_radix_load(&((struct node256 *)node)->child[byte])))
			return place;
	}
	return NONE_BYTE;
}

/* Some leaf below. */
static cairn_slice any_key(const struct cairn_radix *radix, uint32_t ref)
{
	while (!is_leaf(ref)) {
		struct node *node = cairn_radix_at(radix, ref);
		ref = cairn_radix_load(&node->terminal);
		if (ref)
			break;
		if (node->type == NODE256)
			node_nearest(node, 0, 0, &ref);
		else
			ref = cairn_radix_load(&node_children(node)[0]);
	}
	return leaf_key(radix, ref);
}

static size_t common_from(cairn_slice a, cairn_slice b, size_t from)
{
	return from +
	       cairn_key_common(cairn_slice_of((const uint8_t *)a.data + from, a.size - from),
		   cairn_slice_of((const uint8_t *)b.data + from, b.size - from));
}

/* How many of the node's first `depth` bytes the key has too; of `from` that is known already. */
static size_t node_common(const struct cairn_radix *radix, uint32_t ref, const struct node *node,
    cairn_slice key, size_t from)
{
	size_t depth = node->depth, end = key.size < depth ? key.size : depth;
	if (from == end)
		return end;
	if (depth - from > TAIL_SIZE) {
		size_t common = common_from(any_key(radix, ref), key, from);
		return common < end ? common : end;
	}
	while (from < end && node->tail[TAIL_SIZE - (depth - from)] == key_byte(key, from))
		from++;
	return from;
}

/* A node to be filled and published; `key` is any key that will be below it. */
static uint32_t node_new(
    struct cairn_radix *radix, enum node_type type, cairn_slice key, size_t depth)
{
	uint32_t ref = cairn_radix_allocate(radix, node_size[type]);
	struct node *node = cairn_radix_at(radix, ref);
	size_t tail = depth < TAIL_SIZE ? depth : TAIL_SIZE;
	memset(node, 0, node_size[type]);
	node->type = (uint8_t)type;
	node->depth = (uint16_t)depth;
	if (tail)
		memcpy(
		    node->tail + TAIL_SIZE - tail, (const uint8_t *)key.data + depth - tail, tail);
	return ref;
}

/* Adds a child for a new byte to a node that has room. */
static void node_add(struct node *node, unsigned byte, uint32_t child)
{
	unsigned count = node_count(node);
	switch (node->type) {
	case NODE4: {
		struct node4 *n = (struct node4 *)node;
		uint32_t keys = (uint32_t)node_keys(node, 0) | (uint32_t)byte << 8 * count;
		cairn_radix_publish(&n->child[count], child);
		atomic_store_explicit(&n->keys, keys, memory_order_relaxed);
		break;
	}
	case NODE16: {
		struct node16 *n = (struct node16 *)node;
		uint64_t keys = node_keys(node, count / 8) | (uint64_t)byte << 8 * (count % 8);
		cairn_radix_publish(&n->child[count], child);
		atomic_store_explicit(&n->keys[count / 8], keys, memory_order_relaxed);
		break;
	}
	case NODE48: {
		struct node48 *n = (struct node48 *)node;
		cairn_radix_publish(&n->child[count], child);
		atomic_store_explicit(&n->index[byte], (uint8_t)(count + 1), memory_order_release);
		break;
	}
	default:
		cairn_radix_publish(&((struct node256 *)node)->child[byte], child);
		return;
	}
	atomic_store_explicit(&node->count, (uint8_t)(count + 1), memory_order_release);
}

/* A copy of a full node as the next larger kind. */
static uint32_t node_grow(struct cairn_radix *radix, struct node *old)
{
	uint32_t ref = cairn_radix_allocate(radix, node_size[old->type + 1]);
	struct node *node = cairn_radix_at(radix, ref);
	memset(node, 0, node_size[old->type + 1]);
	node->type = (uint8_t)(old->type + 1);
	node->depth = old->depth;
	memcpy(node->tail, old->tail, TAIL_SIZE);
	cairn_radix_publish(&node->terminal, cairn_radix_load(&old->terminal));
	if (old->type == NODE48) {
		for (unsigned byte = 0; byte < 256; byte++) {
			unsigned i = node48_index(old, byte);
			if (i)
				node_add(node, byte, cairn_radix_load(&node_children(old)[i - 1]));
		}
		return ref;
	}
	for (unsigned i = 0; i < node_room[old->type]; i++) {
		unsigned byte = node_keys(old, i / 8) >> 8 * (i % 8) & 255;
		node_add(node, byte, cairn_radix_load(&node_children(old)[i]));
	}
	return ref;
}

/* Adds a child for a new byte to the node that `link` refers to, which may have to grow for it. */
static void add_child(
    struct cairn_radix *radix, _Atomic uint32_t *link, unsigned byte, uint32_t child)
{
	struct node *node = cairn_radix_at(radix, cairn_radix_load(link));
	if (node->type == NODE256 || node_count(node) < node_room[node->type]) {
		node_add(node, byte, child);
		return;
	}
	uint32_t grown = node_grow(radix, node);
	node_add(cairn_radix_at(radix, grown), byte, child);
	cairn_radix_publish(link, grown);
}

/* Puts a node over what `link` refers to, where the new key parts from all that are there. */
static void split(struct cairn_radix *radix, _Atomic uint32_t *link, size_t depth, uint32_t leaf)
{
	uint32_t side[2] = {cairn_radix_load(link), leaf};
	uint32_t ref = node_new(radix, NODE4, leaf_key(radix, leaf), depth);
	struct node *node = cairn_radix_at(radix, ref);
	for (unsigned i = 0; i < 2; i++) {
		cairn_slice key = any_key(radix, side[i]);
		if (key.size == depth)
			cairn_radix_publish(&node->terminal, side[i]);
		else
			node_add(node, key_byte(key, depth), side[i]);
	}
	cairn_radix_publish(link, ref);
}

/* Supersedes the leaf in `link`, if it is one of the same key. */
static bool supersede(struct cairn_radix *radix, _Atomic uint32_t *link, uint32_t leaf)
{
	uint32_t old = cairn_radix_load(link);
	if (!cairn_key_equal(leaf_key(radix, old), leaf_key(radix, leaf)))
		return false;
	struct cairn_leaf *newer = cairn_radix_at(radix, leaf);
	atomic_store_explicit(&newer->older, old & ~CAIRN_RADIX_TAG, memory_order_relaxed);
	cairn_radix_publish(link, leaf);
	return true;
}

uint32_t cairn_radix_insert(struct cairn_radix *radix, uint32_t leaf)
{
	cairn_slice key = leaf_key(radix, leaf);
	_Atomic uint32_t *link = &radix->root;
	size_t from = 0;
	for (;;) {
		uint32_t ref = cairn_radix_load(link);
		if (!ref) {
			cairn_radix_publish(link, leaf);
			return 0;
		}
		if (is_leaf(ref)) {
			if (supersede(radix, link, leaf))
				return ref;
			split(radix, link, common_from(leaf_key(radix, ref), key, from), leaf);
			return 0;
		}
		struct node *node = node_at(radix, ref);
		size_t common = node_common(radix, ref, node, key, from);
		if (common < node->depth) {
			split(radix, link, common, leaf);
			return 0;
		}
		from = node->depth;
		if (key.size == from) {
			link = &node->terminal;
			continue;
		}
		_Atomic uint32_t *slot = node_slot(node, key_byte(key, from));
		if (!slot) {
			add_child(radix, link, key_byte(key, from), leaf);
			return 0;
		}
		link = slot;
		from++;
	}
}

uint32_t cairn_radix_find(const struct cairn_radix *radix, cairn_slice key)
{
	uint32_t ref = cairn_radix_load(&radix->root);
	size_t from = 0;
	while (is_node(ref)) {
		struct node *node = node_at(radix, ref);
		size_t depth = node->depth;
		if (key.size < depth)
			return 0;
		/* Skipped bytes that the tail does not hold are compared at the leaf. */
		if (depth - from <= TAIL_SIZE && node_common(radix, ref, node, key, from) < depth)
			return 0;
		if (key.size == depth) {
			ref = cairn_radix_load(&node->terminal);
			break;
		}
		_Atomic uint32_t *slot = node_slot(node, key_byte(key, depth));
		if (!slot)
			return 0;
		ref = cairn_radix_load(slot);
		from = depth + 1;
	}
	if (!ref)
		return 0;
	for (unsigned line = 0; line < 3; line++)
		prefetch(radix, ref, line); /* key and value of most records */
	return cairn_key_equal(leaf_key(radix, ref), key) ? ref : 0;
}

int cairn_radix_path_init(struct cairn_radix_path *path)
{
	memset(path, 0, sizeof *path);
	path->room = PATH_START;
	path->steps = malloc(path->room * sizeof *path->steps);
	return path->steps ? 0 : -ENOMEM;
}

void cairn_radix_path_release(struct cairn_radix_path *path)
{
	free(path->steps);
}

static int path_push(struct cairn_radix_path *path, uint32_t ref, int at)
{
	if (path->count == path->room) {
		size_t room = path->room * 2;
		struct cairn_radix_step *steps = realloc(path->steps, room * sizeof *steps);
		if (!steps)
			return cairn_error(-ENOMEM,
			    "memtable cursor: no memory for a path of %zu nodes; free some memory "
			    "and try again",
			    room);
		path->steps = steps;
		path->room = room;
	}
	path->steps[path->count++] = (struct cairn_radix_step){ref, (int16_t)at};
	return 0;
}

/* Moves on inside one node: the next child or terminal in the direction, or 0. */
static uint32_t step_on(struct node *node, int16_t *at, bool forward)
{
	uint32_t child = 0;
	if (forward && *at < AT_TERMINAL) {
		*at = AT_TERMINAL;
		child = cairn_radix_load(&node->terminal);
		if (child)
			return child;
	}
	if (!forward && *at <= AT_TERMINAL)
		return 0;
	unsigned flip = forward ? 0 : 255;
	unsigned first = (unsigned)(forward ? *at : AT_BACK - *at);
	unsigned place = node_nearest(node, first, flip, &child);
	if (place != NONE_BYTE) {
		*at = (int16_t)(1 + (int)(place ^ flip));
		return child;
	}
	if (forward)
		return 0;
	*at = AT_TERMINAL;
	return cairn_radix_load(&node->terminal);
}

/* Fetches the children of a small node all at once: waiting for leaves is most of a walk's time. */
static void prefetch_children(const struct cairn_radix *radix, struct node *node)
{
	if (node->type > NODE16)
		return;
	_Atomic uint32_t *child = node_children(node);
	unsigned count = node_count(node);
	for (unsigned i = 0; i < count; i++)
		prefetch(radix, cairn_radix_load(&child[i]), 0);
}

/* Fetches the node that the walk comes to after the one it enters now. */
static void prefetch_sibling(
    const struct cairn_radix *radix, struct cairn_radix_step step, bool forward)
{
	uint32_t ref = step_on(cairn_radix_at(radix, step.ref), &step.at, forward);
	for (unsigned line = 0; is_node(ref) && line < 2; line++)
		prefetch(radix, ref, line);
}

int cairn_radix_next(
    const struct cairn_radix *radix, struct cairn_radix_path *path, bool forward, uint32_t *leaf)
{
	*leaf = 0;
	while (path->count) {
		struct cairn_radix_step *step = &path->steps[path->count - 1];
		uint32_t child = step_on(cairn_radix_at(radix, step->ref), &step->at, forward);
		if (is_leaf(child)) {
			*leaf = child;
			return 0;
		}
		if (!child) {
			path->count--;
			continue;
		}
		prefetch_sibling(radix, *step, forward);
		int rc = path_push(path, child, forward ? AT_FRONT : AT_BACK);
		if (rc)
			return rc;
		prefetch_children(radix, cairn_radix_at(radix, child));
	}
	return 0;
}

/* The first or last leaf at or below `ref`, which may be none. */
static int enter(const struct cairn_radix *radix, struct cairn_radix_path *path, uint32_t ref,
    bool forward, uint32_t *leaf)
{
	*leaf = ref;
	if (!is_node(ref))
		return 0;
	int rc = path_push(path, ref, forward ? AT_FRONT : AT_BACK);
	return rc ? rc : cairn_radix_next(radix, path, forward, leaf);
}

int cairn_radix_first(
    const struct cairn_radix *radix, struct cairn_radix_path *path, bool forward, uint32_t *leaf)
{
	path->count = 0;
	return enter(radix, path, cairn_radix_load(&radix->root), forward, leaf);
}

int cairn_radix_seek(
    const struct cairn_radix *radix, struct cairn_radix_path *path, cairn_slice key, uint32_t *leaf)
{
	uint32_t ref = cairn_radix_load(&radix->root);
	size_t from = 0;
	path->count = 0;
	*leaf = 0;
	while (is_node(ref)) {
		struct node *node = node_at(radix, ref);
		size_t common = node_common(radix, ref, node, key, from);
		if (common < node->depth || key.size == common)
			break; /* all below is on one side of the key */
		int rc = path_push(path, ref, 1 + (int)key_byte(key, common));
		if (rc)
			return rc;
		_Atomic uint32_t *slot = node_slot(node, key_byte(key, common));
		if (!slot)
			return cairn_radix_next(radix, path, true, leaf);
		ref = cairn_radix_load(slot);
		from = common + 1;
	}
	if (!ref || cairn_key_compare(any_key(radix, ref), key) >= 0)
		return enter(radix, path, ref, true, leaf);
	return cairn_radix_next(radix, path, true, leaf);
}
