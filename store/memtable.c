/*
 * store/memtable.c -- versions of records over the radix tree: their chains, their room, a cursor.
 *
 * Terms. A version *supersedes* the one that was the newest of its key before. A *link* is the
 * `older` field of a leaf: a reference to a version below it in the chain, and the GAP bit when
 * versions between the two were cut out. A GAP without a reference: all that was below is cut off.
 *
 * Invariants.
 *	1. A link without GAP leads to the very version that was superseded, or says that there was
 *	   none. A reader whom it brings to a version not above its sequence, or to none, has the
 *	   truth, whatever the sequence is. Over a GAP the truth may have been cut: no answer.
 *	2. A version is cut out only when no view lies at or above the version next below it and
 *	   below the one kept above it. So what a view sees stays, and what superseded that stays
 *	   too, for the link between them must have no GAP. "No version yet" is also something to
 *	   see, at sequence 0. A chain is at most 2 + 2 * views long.
 *	3. The links of a version that was cut out stay as they were. They lead to versions that are
 *	   in the chain, or were cut out later under the same rule: a reader that stands there finds
 *	   what its view needs.
 *	4. used <= reserved <= capacity. Beside the leaves `reserved` counts CAIRN_RADIX_NODE_SHARE
 *	   for each key, which is proven to cover all nodes that these keys can ever take: a node
 *	   that is about to grow has been paid for already.
 *
 * Threads. Counters are written by the writer alone, so they need no atomic read-modify-write.
 */
#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "store/memtable.h"

#include "format/checksum.h"
#include "format/error.h"
#include "store/radix.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define GAP           CAIRN_RADIX_TAG
#define HUGE_PAGE     ((size_t)2 << 20)
#define GRAIN         ((size_t)64 << 10) /* a multiple of every page size */
#define POPULATE_STEP ((size_t)1 << 20)
#define CACHE_LINE    64

struct cairn_memtable {
	struct cairn_radix radix;
	uint64_t hash_seed;
	void *map;
	size_t map_size;          /* 0: allocated */
	_Atomic size_t populated; /* arena faulted in so far */

	/* Written by every put; apart from what readers need. */
	alignas(CACHE_LINE) _Atomic size_t reserved;
	_Atomic uint64_t operations;
	_Atomic uint64_t deletes;
	_Atomic uint64_t overwrites;
	_Atomic uint64_t payload;
	_Atomic uint64_t low, high;
};

static uint64_t counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void counter_set(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void counter_add(_Atomic uint64_t *count, uint64_t n)
{
	counter_set(count, counter(count) + n);
}

static size_t reserved_bytes(const struct cairn_memtable *table)
{
	return atomic_load_explicit(&table->reserved, memory_order_relaxed);
}

/*
 * Small tables come and go with every open of a small store, and most of that would be the kernel's
 * work: the allocator keeps their pages.
 */
static int region_allocate(struct cairn_memtable *table, size_t capacity)
{
	table->map = aligned_alloc(GRAIN, cairn_round_up(capacity, GRAIN));
	table->map_size = 0;
	table->radix.arena = table->map;
	table->radix.capacity = capacity;
	return table->map ? 0 : -ENOMEM;
}

static int region_map(struct cairn_memtable *table, size_t capacity)
{
	size_t size = cairn_round_up(capacity, GRAIN);
	table->map_size = size + HUGE_PAGE;
	table->map = mmap(NULL, table->map_size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table->map == MAP_FAILED)
		return -ENOMEM;
	table->radix.arena = (uint8_t *)table->map + (-(uintptr_t)table->map & (HUGE_PAGE - 1));
	table->radix.capacity = capacity;
	(void)madvise(table->radix.arena, size, MADV_HUGEPAGE); /* a wish */
	return 0;
}

int cairn_memtable_new(size_t capacity, uint64_t hash_seed, struct cairn_memtable **out)
{
	struct cairn_memtable *table = NULL;
	*out = NULL;
	if (capacity >= CAIRN_RADIX_START && capacity <= CAIRN_RADIX_REACH)
		table = aligned_alloc(CACHE_LINE, sizeof *table);
	if (!table)
		goto failed;
	memset(table, 0, sizeof *table);
	if (capacity < HUGE_PAGE ? region_allocate(table, capacity) : region_map(table, capacity))
		goto failed;
	table->hash_seed = hash_seed;
	cairn_memtable_reset(table);
	*out = table;
	return 0;
failed:
	free(table);
	return cairn_error(-ENOMEM,
	    "memtable: no address space for %zu bytes (16 GiB at most); use smaller "
	    "memtables or raise the limit of this process (ulimit -v)",
	    capacity);
}

void cairn_memtable_free(struct cairn_memtable *table)
{
	if (!table)
		return;
	if (table->map_size)
		munmap(table->map, table->map_size);
	else
		free(table->map);
	free(table);
}

void cairn_memtable_reset(struct cairn_memtable *table)
{
	cairn_radix_clear(&table->radix);
	atomic_store_explicit(&table->reserved, CAIRN_RADIX_START, memory_order_relaxed);
	counter_set(&table->operations, 0);
	counter_set(&table->deletes, 0);
	counter_set(&table->overwrites, 0);
	counter_set(&table->payload, 0);
	counter_set(&table->low, 0);
	counter_set(&table->high, 0);
}

static size_t leaf_size(size_t payload)
{
	return cairn_round_up(CAIRN_LEAF_HEADER + payload, CAIRN_RADIX_UNIT);
}

/* A leaf is its header, the payload and less than a unit of rounding; for nodes see invariant 4. */
size_t cairn_memtable_bound(size_t operations, size_t bytes)
{
	size_t each = CAIRN_LEAF_HEADER + CAIRN_RADIX_UNIT - 1 + CAIRN_RADIX_NODE_SHARE, bound;
	if (__builtin_mul_overflow(operations, each, &bound) ||
	    __builtin_add_overflow(bound, bytes, &bound) ||
	    __builtin_add_overflow(bound, CAIRN_RADIX_START, &bound))
		return SIZE_MAX;
	return bound;
}

bool cairn_memtable_fits(const struct cairn_memtable *table, size_t operations, size_t bytes)
{
	size_t free_bytes = table->radix.capacity - (reserved_bytes(table) - CAIRN_RADIX_START);
	return cairn_memtable_bound(operations, bytes) <= free_bytes;
}

static uint32_t leaf_new(
    struct cairn_memtable *table, const struct cairn_record *record, uint64_t sequence)
{
	size_t size = CAIRN_LEAF_HEADER + record->key.size + record->value.size;
	uint32_t ref = cairn_radix_allocate(&table->radix, size);
	struct cairn_leaf *leaf = cairn_radix_at(&table->radix, ref);
	leaf->sequence = sequence;
	atomic_store_explicit(&leaf->older, 0, memory_order_relaxed);
	leaf->value_size = (uint32_t)record->value.size;
	leaf->checksum = record->checksum;
	leaf->key_size = (uint16_t)record->key.size;
	leaf->kind = (uint8_t)record->kind;
	if (record->key.size)
		memcpy(leaf->bytes, record->key.data, record->key.size);
	if (record->value.size)
		memcpy(leaf->bytes + record->key.size, record->value.data, record->value.size);
	return ref | CAIRN_RADIX_TAG;
}

/* Cuts what no view needs below `kept`, which was just superseded. */
static void prune(
    struct cairn_memtable *table, struct cairn_leaf *kept, const uint64_t *views, size_t view_count)
{
	for (;;) {
		uint32_t link = cairn_radix_load(&kept->older);
		if (!(link & ~GAP))
			return;
		while (view_count && views[view_count - 1] >= kept->sequence)
			view_count--;
		if (!view_count) {
			cairn_radix_publish(&kept->older, GAP);
			return;
		}
		struct cairn_leaf *leaf = cairn_radix_at(&table->radix, link);
		uint32_t below = cairn_radix_load(&leaf->older);
		const struct cairn_leaf *last =
		    below & ~GAP ? cairn_radix_at(&table->radix, below) : NULL;
		if (last && views[view_count - 1] < last->sequence)
			cairn_radix_publish(&kept->older, below | GAP);
		else
			kept = leaf;
	}
}

static void count_put(struct cairn_memtable *table, const struct cairn_record *record,
    uint64_t sequence, bool overwrite)
{
	size_t payload = record->key.size + record->value.size;
	size_t reserved = leaf_size(payload) + (overwrite ? 0 : CAIRN_RADIX_NODE_SHARE);
	atomic_store_explicit(
	    &table->reserved, reserved_bytes(table) + reserved, memory_order_relaxed);
	assert(cairn_radix_used(&table->radix) <= reserved_bytes(table));
	counter_add(&table->payload, payload);
	if (overwrite)
		counter_add(&table->overwrites, 1);
	if (record->kind == CAIRN_KIND_DELETE)
		counter_add(&table->deletes, 1);
	if (counter(&table->operations) == 0)
		counter_set(&table->low, sequence);
	counter_set(&table->high, sequence);
	atomic_store_explicit(
	    &table->operations, counter(&table->operations) + 1, memory_order_release);
}

void cairn_memtable_put(struct cairn_memtable *table, const struct cairn_record *record,
    uint64_t sequence, const uint64_t *views, size_t view_count)
{
	uint32_t superseded = cairn_radix_insert(&table->radix, leaf_new(table, record, sequence));
	if (superseded)
		prune(table, cairn_radix_at(&table->radix, superseded), views, view_count);
	count_put(table, record, sequence, superseded != 0);
}

/*
 * The version that `sequence` sees, in the chain from `ref` down. CAIRN_CONFLICT comes without a
 * message: it is an everyday answer for a get that was overtaken, and its caller tries again.
 */
static int visible(const struct cairn_memtable *table, uint32_t ref, uint64_t sequence,
    const struct cairn_leaf **found)
{
	const struct cairn_leaf *leaf = cairn_radix_at(&table->radix, ref);
	uint32_t link = 0;
	while (leaf->sequence > sequence) {
		link = cairn_radix_load(&leaf->older);
		if (!(link & ~GAP))
			return link & GAP ? CAIRN_CONFLICT : CAIRN_NOT_FOUND;
		leaf = cairn_radix_at(&table->radix, link);
	}
	if (link & GAP)
		return CAIRN_CONFLICT;
	*found = leaf;
	return 0;
}

static int verified(const struct cairn_memtable *table, const struct cairn_leaf *leaf,
    uint64_t hash, struct cairn_record *record)
{
	size_t offset = (size_t)((const uint8_t *)leaf - table->radix.arena);
	size_t size = leaf_size((size_t)leaf->key_size + leaf->value_size);
	enum cairn_kind kind = (enum cairn_kind)leaf->kind;
	if (CAIRN_UNLIKELY(
		size > table->radix.capacity - offset ||
		cairn_record_checksum(hash, kind, cairn_leaf_value(leaf)) != leaf->checksum))
		return cairn_error(CAIRN_CORRUPT,
		    "memtable: the record of sequence %llu does not match its checksum any more: "
		    "memory was damaged; check the memory of this machine, and for stray writes "
		    "of this process",
		    (unsigned long long)leaf->sequence);
	*record = (struct cairn_record){
	    .key = cairn_leaf_key(leaf),
	    .value = cairn_leaf_value(leaf),
	    .checksum = leaf->checksum,
	    .kind = kind,
	};
	return 0;
}

int cairn_memtable_get(const struct cairn_memtable *table, cairn_slice key, uint64_t hash,
    uint64_t sequence, struct cairn_record *record)
{
	const struct cairn_leaf *leaf;
	uint32_t ref = cairn_radix_find(&table->radix, key);
	if (!ref)
		return CAIRN_NOT_FOUND;
	int rc = visible(table, ref, sequence, &leaf);
	return rc ? rc : verified(table, leaf, hash, record);
}

struct memtable_cursor {
	struct cairn_cursor cursor;
	const struct cairn_memtable *table;
	uint64_t sequence;
	const struct cairn_leaf *leaf;
	struct cairn_radix_path path;
};

static struct memtable_cursor *of(struct cairn_cursor *cursor)
{
	return (struct memtable_cursor *)cursor;
}

/* Stands on the first visible version from the leaf `ref` on; `rc` is how the way there went. */
static int settle(struct memtable_cursor *c, int rc, uint32_t ref, bool forward)
{
	while (!rc && ref) {
		rc = visible(c->table, ref, c->sequence, &c->leaf);
		if (!rc) {
			c->cursor.key = cairn_leaf_key(c->leaf);
			c->cursor.head = cairn_key_head(c->cursor.key, 0);
			c->cursor.kind = (enum cairn_kind)c->leaf->kind;
			c->cursor.valid = true;
			return 0;
		}
		if (rc == CAIRN_NOT_FOUND)
			rc = cairn_radix_next(&c->table->radix, &c->path, forward, &ref);
	}
	c->cursor.valid = false;
	return rc ? rc : CAIRN_END;
}

static int cursor_first(struct cairn_cursor *cursor)
{
	struct memtable_cursor *c = of(cursor);
	uint32_t ref;
	int rc = cairn_radix_first(&c->table->radix, &c->path, true, &ref);
	return settle(c, rc, ref, true);
}

static int cursor_last(struct cairn_cursor *cursor)
{
	struct memtable_cursor *c = of(cursor);
	uint32_t ref;
	int rc = cairn_radix_first(&c->table->radix, &c->path, false, &ref);
	return settle(c, rc, ref, false);
}

static int cursor_seek(struct cairn_cursor *cursor, cairn_slice key)
{
	struct memtable_cursor *c = of(cursor);
	uint32_t ref;
	int rc = cairn_radix_seek(&c->table->radix, &c->path, key, &ref);
	return settle(c, rc, ref, true);
}

static int cursor_next(struct cairn_cursor *cursor)
{
	struct memtable_cursor *c = of(cursor);
	uint32_t ref;
	int rc = cairn_radix_next(&c->table->radix, &c->path, true, &ref);
	return settle(c, rc, ref, true);
}

static int cursor_prev(struct cairn_cursor *cursor)
{
	struct memtable_cursor *c = of(cursor);
	uint32_t ref;
	int rc = cairn_radix_next(&c->table->radix, &c->path, false, &ref);
	return settle(c, rc, ref, false);
}

static int cursor_record(struct cairn_cursor *cursor, struct cairn_record *record)
{
	struct memtable_cursor *c = of(cursor);
	uint64_t hash = cairn_key_hash(cursor->key, c->table->hash_seed);
	return verified(c->table, c->leaf, hash, record);
}

static void cursor_close(struct cairn_cursor *cursor)
{
	struct memtable_cursor *c = of(cursor);
	cairn_radix_path_release(&c->path);
	free(c);
}

static const struct cairn_cursor_ops cursor_ops = {
    .first = cursor_first,
    .last = cursor_last,
    .seek = cursor_seek,
    .next = cursor_next,
    .prev = cursor_prev,
    .record = cursor_record,
    .close = cursor_close,
};

int cairn_memtable_cursor_open(
    const struct cairn_memtable *table, uint64_t sequence, struct cairn_cursor **cursor)
{
	struct memtable_cursor *c = calloc(1, sizeof *c);
	*cursor = NULL;
	if (!c || cairn_radix_path_init(&c->path)) {
		free(c);
		return cairn_error(-ENOMEM, "memtable cursor: no memory; free some and try again");
	}
	c->cursor.ops = &cursor_ops;
	c->table = table;
	c->sequence = sequence;
	*cursor = &c->cursor;
	return 0;
}

int cairn_memtable_populate(struct cairn_memtable *table, size_t ahead)
{
	size_t used = cairn_radix_used(&table->radix);
	size_t size = cairn_round_up(table->radix.capacity, GRAIN);
	size_t from = atomic_load_explicit(&table->populated, memory_order_relaxed);
	size_t to = ahead < size - used ? cairn_round_up(used + ahead, GRAIN) : size;
	int did = 0;
	if (from < used)
		from = used & ~(GRAIN - 1);
	while (from < to) {
		size_t step = to - from < POPULATE_STEP ? to - from : POPULATE_STEP;
		int failed = madvise(table->radix.arena + from, step, MADV_POPULATE_WRITE);
		if (failed && errno != EINVAL)
			break; /* memory is short: leave it to the writer */
		/* A kernel that does not know the advice will not learn it. */
		from = failed ? size : from + step;
		did |= !failed;
		atomic_store_explicit(&table->populated, from, memory_order_relaxed);
	}
	return did;
}

size_t cairn_memtable_bytes(const struct cairn_memtable *table)
{
	return cairn_radix_used(&table->radix);
}

size_t cairn_memtable_capacity(const struct cairn_memtable *table)
{
	return table->radix.capacity;
}

uint64_t cairn_memtable_operations(const struct cairn_memtable *table)
{
	return counter(&table->operations);
}

uint64_t cairn_memtable_deletes(const struct cairn_memtable *table)
{
	return counter(&table->deletes);
}

uint64_t cairn_memtable_overwrites(const struct cairn_memtable *table)
{
	return counter(&table->overwrites);
}

uint64_t cairn_memtable_payload(const struct cairn_memtable *table)
{
	return counter(&table->payload);
}

void cairn_memtable_sequences(const struct cairn_memtable *table, uint64_t *low, uint64_t *high)
{
	bool any = atomic_load_explicit(&table->operations, memory_order_acquire) != 0;
	*low = any ? counter(&table->low) : 0;
	*high = any ? counter(&table->high) : 0;
}
