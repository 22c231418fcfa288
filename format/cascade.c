/*
 * format/cascade.c -- see cascade.h.
 *
 * Terms. A *follower* is a newer run with a fractional index. Its *window* is what the index leaves
 * of it for a key. A *record* has the windows of 16 neighbouring cells, which are one node of the
 * anchor's tree, for one follower: the first block of the first window as u32, then 16 sizes of one
 * byte. Records of the followers with cells of the same level stand side by side in that level's
 * *table*.
 *
 * The search goes by phases, and each fetches what the next will read: the anchor's tree down to
 * its leaves, with the tables' lines beside its nodes; the followers' windows; the trees of all
 * other runs, level by level; heads in the windows; the anchor's leaf, which came last; the trees'
 * leaves; and the blocks. Several keys go through each phase together.
 *
 * Invariants.
 * 1. A cell is the right one, or to its right, since ties of heads send a search to the right. Then
 *    the key's true block is in front of the window or in it, and the one found is not to its left.
 * 2. For a key outside a run's bounds its tree and words say nothing: the first or last block it
 *    is. Within the bounds only the first and the last cell can have keys beyond the anchor's.
 * 3. What is read lies within sections that were measured at open; what is fetched may be anything.
 *
 * Threads. `trusted` goes from false to true and `unusable` gains bits; both are atomic.
 */
#include "format/cascade.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "format/run_inside.h"

#define CACHE_LINE  64u
#define FETCH_MAX   512u /* bytes of a block: its key area, if that is not larger */
#define CELLS       CAIRN_SEEK_FANOUT
#define RECORD_SIZE (4u + CELLS)
#define GAP_MAX     255u
#define RECORD_WIDE (UINT32_C(1) << 31) /* in place of the first block: a window passes GAP_MAX */
#define WINDOW_NONE UINT8_MAX           /* the block is known already */

struct follower {
	const struct cairn_fraction *index;
	const uint8_t *words;
	uint64_t mask; /* of the offset in a word */
	uint64_t last_cell;
	uint64_t last_block;
	size_t slot; /* where its part of a record begins */
	unsigned level;
	unsigned run;
};

struct table {
	uint8_t *records;
	size_t stride; /* from one node's records to the next's */
};

struct cairn_cascade {
	atomic_bool trusted;
	_Atomic uint64_t unusable; /* a bit for each run whose index is damaged */
	unsigned count;
	unsigned follower_count;
	uint64_t alone; /* a bit for each newer run without an index */
	size_t bytes;
	struct table table[CAIRN_SEEK_LEVELS_MAX + 1];
	struct cairn_run_reader *run[CAIRN_CASCADE_RUNS_MAX];
	struct follower follower[CAIRN_CASCADE_RUNS_MAX];
};

/* One key on its way down. */
struct search {
	cairn_slice key;
	struct cairn_run_aim *aims;
	uint64_t trees; /* a bit for each run that is searched by its own tree */
	uint64_t node;  /* of the anchor, to be searched next */
	unsigned lcp;   /* of that node */
	bool inside;    /* the key is within the anchor's bounds */
	unsigned how;
	uint64_t cell[CAIRN_SEEK_LEVELS_MAX + 1]; /* at each level of the anchor */
	uint8_t cell_lcp[CAIRN_SEEK_LEVELS_MAX + 1];
	uint8_t window[CAIRN_CASCADE_RUNS_MAX]; /* of each follower: how many blocks */
	uint32_t from[CAIRN_CASCADE_RUNS_MAX];  /* of each run: the first, or a tree's node */
	uint8_t tree_lcp[CAIRN_CASCADE_RUNS_MAX];
};

/* ---------------------------------------------------------------- making */

static bool fits(const struct cairn_fraction *index, const struct cairn_run_reader *run,
    const struct cairn_run_reader *anchor)
{
	struct cairn_fraction_base own = cairn_fraction_base_of(run);
	struct cairn_fraction_base oldest = cairn_fraction_base_of(anchor);
	return index->run.number == own.number && index->run.blocks == own.blocks &&
	       index->run.footer_checksum == own.footer_checksum &&
	       index->anchor.number == oldest.number && index->anchor.blocks == oldest.blocks &&
	       index->anchor.footer_checksum == oldest.footer_checksum &&
	       index->level <= anchor->seek.levels && index->offset_bits == run->seek.offset_bits;
}

static void add_follower(struct cairn_cascade *c, unsigned run, const struct cairn_fraction *index)
{
	struct table *table = &c->table[index->level];
	c->follower[c->follower_count++] = (struct follower){.index = index,
	    .words = index->words,
	    .mask = cairn_seek_offset_mask(index->offset_bits),
	    .last_cell = index->cells - 1,
	    .last_block = index->run.blocks - 1,
	    .slot = table->stride,
	    .level = index->level,
	    .run = run};
	table->stride += RECORD_SIZE;
}

struct filling {
	const struct table *table;
	size_t slot;
};

static int fill_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	const struct filling *filling = context;
	uint8_t *record =
	    filling->table->records + cell / CELLS * filling->table->stride + filling->slot;
	if (cell % CELLS == 0)
		cairn_put32(record, (uint32_t)from);
	if (to - from > GAP_MAX)
		cairn_put32(record, RECORD_WIDE);
	else
		record[4 + cell % CELLS] = (uint8_t)(to - from);
	return 0;
}

static int make_tables(struct cairn_cascade *c)
{
	const struct cairn_run_reader *anchor = c->run[c->count - 1];
	for (unsigned level = 1; level <= anchor->seek.levels; level++) {
		struct table *table = &c->table[level];
		if (table->stride == 0)
			continue;
		table->stride = (size_t)cairn_round_up(table->stride, CACHE_LINE);
		size_t nodes = (size_t)((anchor->seek.entries[level] + CELLS - 1) / CELLS);
		size_t size = nodes * table->stride;
		table->records = aligned_alloc(CACHE_LINE, size);
		if (!table->records)
			return -ENOMEM;
		memset(table->records, 0, size);
		c->bytes += size;
	}
	for (unsigned i = 0; i < c->follower_count; i++) {
		const struct follower *f = &c->follower[i];
		struct filling filling = {&c->table[f->level], f->slot};
		int code = cairn_fraction_windows(f->index, fill_window, &filling);
		assert(code == 0); /* it was the same at open */
		(void)code;
	}
	return 0;
}

int cairn_cascade_new(struct cairn_run_reader *const *runs,
    const struct cairn_fraction *const *indexes, size_t count, struct cairn_cascade **cascade)
{
	assert(count > 0 && count <= CAIRN_CASCADE_RUNS_MAX);
	*cascade = NULL;
	struct cairn_cascade *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->count = (unsigned)count;
	c->bytes = sizeof *c;
	for (unsigned i = 0; i < count; i++) {
		c->run[i] = runs[i];
		if (i + 1 == count)
			break;
		if (indexes[i] && fits(indexes[i], runs[i], runs[count - 1]))
			add_follower(c, i, indexes[i]);
		else
			c->alone |= UINT64_C(1) << i;
	}
	int code = make_tables(c);
	if (code != 0) {
		cairn_cascade_free(c);
		return code;
	}
	*cascade = c;
	return 0;
}

void cairn_cascade_free(struct cairn_cascade *cascade)
{
	if (!cascade)
		return;
	for (unsigned level = 0; level <= CAIRN_SEEK_LEVELS_MAX; level++)
		free(cascade->table[level].records);
	free(cascade);
}

size_t cairn_cascade_bytes(const struct cairn_cascade *cascade)
{
	return cascade->bytes;
}

/* Verifies what searches will read. */
static int verify(struct cairn_cascade *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		int code = cairn_run_trust_order(c->run[i]);
		if (code != 0)
			return code;
	}
	for (unsigned i = 0; i < c->follower_count; i++) {
		if (cairn_fraction_check_words(c->follower[i].index, c->run[c->follower[i].run]) !=
		    0)
			atomic_fetch_or(&c->unusable, UINT64_C(1) << c->follower[i].run);
	}
	atomic_store_explicit(&c->trusted, true, memory_order_release);
	return 0;
}

static inline int trust(struct cairn_cascade *c)
{
	if (CAIRN_LIKELY(atomic_load_explicit(&c->trusted, memory_order_acquire)))
		return 0;
	return verify(c);
}

/* ---------------------------------------------------------------- phases */

static inline void fetch(const uint8_t *from, size_t size)
{
	for (size_t at = 0; at < size; at += CACHE_LINE)
		__builtin_prefetch(from + at);
}

/* The search in run `run` ends at a block: fetches what a search in it and the checksum of its keys
 * will read. */
static inline void take_aim(
    const struct cairn_cascade *c, struct search *s, unsigned run, uint64_t block, uint64_t offset)
{
	const struct cairn_run_reader *reader = c->run[run];
	size_t size = reader->shape.values < FETCH_MAX ? reader->shape.values : FETCH_MAX;
	s->aims[run] = (struct cairn_run_aim){block, offset};
	fetch(reader->map.data + offset, size);
	__builtin_prefetch(reader->map.data + offset + size);
}

static inline void take_aim_by_tree(
    const struct cairn_cascade *c, struct search *s, unsigned run, uint64_t block)
{
	take_aim(c, s, run, block, cairn_seek_offset(&c->run[run]->seek, block));
}

static inline void fetch_node(const struct cairn_cascade *c, unsigned level, uint64_t node)
{
	const struct cairn_run_reader *anchor = c->run[c->count - 1];
	const struct table *table = &c->table[level];
	if (level == 0) {
		fetch(anchor->seek.words + node * 128, 128);
		return;
	}
	fetch(anchor->seek.heads[level] + node * 128, 128);
	__builtin_prefetch(anchor->seek.lcps[level] + node * CELLS);
	if (table->records)
		fetch(table->records + node * table->stride, table->stride);
}

/* Where the key stands to the anchor as a whole. */
static inline void begin(
    const struct cairn_cascade *c, struct search *s, cairn_slice key, struct cairn_run_aim *aims)
{
	const struct cairn_run_reader *anchor = c->run[c->count - 1];
	s->key = key;
	s->aims = aims;
	s->trees = c->alone | atomic_load_explicit(&c->unusable, memory_order_relaxed);
	s->how = s->trees ? CAIRN_CASCADE_UNINDEXED : 0;
	s->node = 0;
	s->lcp = anchor->seek.top_lcp;
	s->inside = !cairn_run_outside(anchor, key);
	if (CAIRN_LIKELY(s->inside))
		return;
	bool above = cairn_key_compare(key, anchor->last_key) > 0;
	for (unsigned level = 1; level <= anchor->seek.levels; level++)
		s->cell[level] = above ? anchor->seek.entries[level] - 1 : 0;
	take_aim_by_tree(c, s, c->count - 1, above ? anchor->seek.blocks - 1 : 0);
}

CAIRN_RANK_INLINE void descend(
    const struct cairn_cascade *c, struct search *s, unsigned level, bool wide)
{
	const struct cairn_seek_tree *tree = &c->run[c->count - 1]->seek;
	if (CAIRN_UNLIKELY(!s->inside))
		return;
	uint64_t entry = cairn_seek_step(tree->heads[level], tree->entries[level], s->node,
	    cairn_key_head(s->key, s->lcp), wide);
	fetch_node(c, level - 1, entry);
	s->cell[level] = entry;
	s->cell_lcp[level] = tree->lcps[level][entry];
	s->lcp = s->cell_lcp[level];
	s->node = entry;
}

/* The sum of the first `count` (< 16) of 16 bytes. */
static inline uint32_t sum_bytes(const uint8_t *bytes, unsigned count)
{
#ifdef __SSE2__
	static const uint8_t masks[32] = {
	    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
	__m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(masks + 16 - count));
	__m128i some = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)bytes), mask);
	__m128i sums = _mm_sad_epu8(some, _mm_setzero_si128());
	return (uint32_t)(_mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4));
#else
	uint32_t sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += bytes[i];
	return sum;
#endif
}

/* Whether the key is outside the run's bounds; then its block is known. */
static bool settle_outside(const struct cairn_cascade *c, struct search *s, unsigned run)
{
	const struct cairn_run_reader *reader = c->run[run];
	if (CAIRN_LIKELY(!cairn_run_outside(reader, s->key)))
		return false;
	bool above = cairn_key_compare(s->key, reader->last_key) > 0;
	take_aim_by_tree(c, s, run, above ? reader->footer.blocks - 1 : 0);
	return true;
}

static inline bool is_edge(const struct follower *f, uint64_t cell)
{
	return cell == 0 || cell == f->last_cell;
}

static inline void open_window(const struct cairn_cascade *c, struct search *s, unsigned i)
{
	const struct follower *f = &c->follower[i];
	const struct table *table = &c->table[f->level];
	uint64_t cell = s->cell[f->level];
	const uint8_t *record = table->records + cell / CELLS * table->stride + f->slot;
	uint32_t first = cairn_get32(record);
	unsigned size = record[4 + cell % CELLS];
	s->window[i] = WINDOW_NONE;
	if (CAIRN_UNLIKELY(s->trees >> f->run & 1))
		return;
	if (CAIRN_UNLIKELY(is_edge(f, cell)) && settle_outside(c, s, f->run))
		return;
	if (CAIRN_UNLIKELY(first == RECORD_WIDE || size > CAIRN_FRACTION_WINDOW_MAX)) {
		s->trees |= UINT64_C(1) << f->run;
		s->how |= CAIRN_CASCADE_WIDE;
		return;
	}
	uint32_t from = first + sum_bytes(record + 4, cell % CELLS);
	s->from[f->run] = from;
	s->window[i] = (uint8_t)size;
	/* And the word before the window, which is the one when all in it are above the key. */
	const uint8_t *words = f->words + (size_t)from * 8;
	__builtin_prefetch(words - 8 * (from > 0));
	__builtin_prefetch(words + 8 * size);
	if (CAIRN_UNLIKELY(size > CACHE_LINE / 8))
		fetch(words + CACHE_LINE, (size - CACHE_LINE / 8) * 8);
}

CAIRN_RANK_INLINE void search_window(
    const struct cairn_cascade *c, struct search *s, unsigned i, bool wide)
{
	const struct follower *f = &c->follower[i];
	uint64_t cell = s->cell[f->level];
	if (CAIRN_UNLIKELY(s->window[i] == WINDOW_NONE))
		return;
	unsigned lcp = CAIRN_LIKELY(!is_edge(f, cell)) ? s->cell_lcp[f->level]
		       : cell == 0                     ? f->index->first_edge
						       : f->index->last_edge;
	uint64_t query = cairn_key_head(s->key, lcp) | f->mask;
	uint64_t from = s->from[f->run];
	uint64_t block = from + cairn_rank(f->words, from, s->window[i], query, wide);
	block -= block > 0;
	take_aim(c, s, f->run, block, (cairn_get64(f->words + block * 8) & f->mask) * 8);
}

CAIRN_RANK_INLINE void search_leaf(const struct cairn_cascade *c, struct search *s, bool wide)
{
	const struct cairn_seek_tree *tree = &c->run[c->count - 1]->seek;
	if (CAIRN_UNLIKELY(!s->inside))
		return;
	uint64_t query = cairn_key_head(s->key, s->lcp) | cairn_seek_offset_mask(tree->offset_bits);
	take_aim_by_tree(
	    c, s, c->count - 1, cairn_seek_step(tree->words, tree->blocks, s->node, query, wide));
}

/* ---------------------------------------------------------------- runs without an index */

#define FOR_EACH_TREE(run, trees)                                                              \
	for (uint64_t left = (trees); left && ((run) = (unsigned)__builtin_ctzll(left), true); \
	     left &= left - 1)

static void plant_trees(const struct cairn_cascade *c, struct search *s)
{
	unsigned run;
	uint64_t trees = s->trees;
	FOR_EACH_TREE(run, trees)
	{
		s->from[run] = 0;
		s->tree_lcp[run] = (uint8_t)c->run[run]->seek.top_lcp;
		if (settle_outside(c, s, run))
			s->trees &= ~(UINT64_C(1) << run);
	}
}

CAIRN_RANK_INLINE void descend_trees(
    const struct cairn_cascade *c, struct search *s, unsigned level, bool wide)
{
	unsigned run;
	FOR_EACH_TREE(run, s->trees)
	{
		const struct cairn_seek_tree *tree = &c->run[run]->seek;
		if (level > tree->levels)
			continue;
		uint64_t entry = cairn_seek_step(tree->heads[level], tree->entries[level],
		    s->from[run], cairn_key_head(s->key, s->tree_lcp[run]), wide);
		const uint8_t *next = level > 1 ? tree->heads[level - 1] : tree->words;
		fetch(next + entry * 128, 128);
		if (level > 1)
			__builtin_prefetch(tree->lcps[level - 1] + entry * CELLS);
		s->from[run] = (uint32_t)entry;
		s->tree_lcp[run] = tree->lcps[level][entry];
	}
}

CAIRN_RANK_INLINE void search_trees(const struct cairn_cascade *c, struct search *s, bool wide)
{
	unsigned run;
	FOR_EACH_TREE(run, s->trees)
	{
		const struct cairn_seek_tree *tree = &c->run[run]->seek;
		uint64_t query = cairn_key_head(s->key, s->tree_lcp[run]) |
				 cairn_seek_offset_mask(tree->offset_bits);
		take_aim_by_tree(c, s, run,
		    cairn_seek_step(tree->words, tree->blocks, s->from[run], query, wide));
	}
}

static unsigned tallest_tree(const struct cairn_cascade *c, const struct search *s, size_t count)
{
	unsigned run, tallest = 0;
	uint64_t trees = 0;
	for (size_t k = 0; k < count; k++)
		trees |= s[k].trees;
	FOR_EACH_TREE(run, trees)
	{
		if (c->run[run]->seek.levels > tallest)
			tallest = c->run[run]->seek.levels;
	}
	return tallest;
}

/* ---------------------------------------------------------------- the search */

CAIRN_RANK_INLINE void search_alone(
    const struct cairn_cascade *c, struct search *s, size_t count, bool wide)
{
	for (size_t k = 0; k < count; k++)
		plant_trees(c, &s[k]);
	for (unsigned level = tallest_tree(c, s, count); level > 0; level--)
		for (size_t k = 0; k < count; k++)
			descend_trees(c, &s[k], level, wide);
}

CAIRN_RANK_INLINE void find(
    const struct cairn_cascade *c, struct search *s, size_t count, bool wide)
{
	uint64_t trees = 0;
	for (unsigned level = c->run[c->count - 1]->seek.levels; level > 0; level--)
		for (size_t k = 0; k < count; k++)
			descend(c, &s[k], level, wide);
	for (size_t k = 0; k < count; k++) {
		for (unsigned i = 0; i < c->follower_count; i++)
			open_window(c, &s[k], i);
		trees |= s[k].trees;
	}
	if (CAIRN_UNLIKELY(trees))
		search_alone(c, s, count, wide);
	for (size_t k = 0; k < count; k++)
		for (unsigned i = 0; i < c->follower_count; i++)
			search_window(c, &s[k], i, wide);
	for (size_t k = 0; k < count; k++) {
		search_leaf(c, &s[k], wide);
		search_trees(c, &s[k], wide);
	}
}

CAIRN_RANK_TARGET static void find_one_wide(const struct cairn_cascade *c, struct search *s)
{
	find(c, s, 1, true);
}

CAIRN_RANK_TARGET static void find_many_wide(
    const struct cairn_cascade *c, struct search *s, size_t count)
{
	find(c, s, count, true);
}

int cairn_cascade_find(
    struct cairn_cascade *cascade, cairn_slice key, struct cairn_run_aim *aims, unsigned *how)
{
	struct search search;
	int code = trust(cascade);
	*how = 0;
	if (CAIRN_UNLIKELY(code != 0))
		return code;
	begin(cascade, &search, key, aims);
	if (CAIRN_LIKELY(cairn_rank_wide()))
		find_one_wide(cascade, &search);
	else
		find(cascade, &search, 1, false);
	*how = search.how;
	return 0;
}

int cairn_cascade_find_many(struct cairn_cascade *cascade, const cairn_slice *keys,
    size_t key_count, struct cairn_run_aim *aims)
{
	struct search searches[CAIRN_CASCADE_KEYS_MAX];
	assert(key_count <= CAIRN_CASCADE_KEYS_MAX);
	int code = trust(cascade);
	if (CAIRN_UNLIKELY(code != 0))
		return code;
	for (size_t k = 0; k < key_count; k++)
		begin(cascade, &searches[k], keys[k], aims + k * cascade->count);
	if (CAIRN_LIKELY(cairn_rank_wide()))
		find_many_wide(cascade, searches, key_count);
	else
		find(cascade, searches, key_count, false);
	return 0;
}
