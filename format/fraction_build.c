/*
 * format/fraction_build.c -- makes the fractional index of a run.
 *
 * For every block of the run its first key is looked for in the anchor's seek tree, down to the
 * level of the cells. Heads decide; only where they tie is the whole fence read, from the anchor's
 * block. So the work is one short search per block of the run, and keys that follow each other meet
 * the same nodes.
 *
 * Invariant of the descent: the first key of the node is below the key sought, and its fence is
 * not. Both share the node's lcp, and so does the key between them: heads at the lcp compare
 * rightly.
 */
#include "format/fraction.h"

#include <errno.h>
#include <stdlib.h>

#include "format/checksum.h"
#include "format/elias_fano.h"
#include "format/error.h"
#include "format/run_inside.h"

#define NEEDED_BLOCKS CAIRN_SEEK_FANOUT /* up to here a seek tree is a single node */
#define EDGE_MAX      255u
#define AHEAD         6u /* blocks whose first lines are fetched before their turn */

struct builder {
	struct cairn_run_reader *run;
	struct cairn_run_reader *anchor;
	struct cairn_fraction made; /* path and map are not set */
	struct cairn_buffer file;   /* header and words, then the places */
	uint64_t *starts;           /* V[1] … V[cells - 1] */
	struct cairn_buffer key;
	struct cairn_buffer fence;
};

static int no_memory(const struct builder *b)
{
	return cairn_error_at(
	    -ENOMEM, b->run->path, CAIRN_NO_OFFSET, "not enough memory for its fractional index");
}

/* The first key of a block, into `buffer`. */
static int first_key(const struct cairn_run_reader *run, uint64_t block,
    struct cairn_buffer *buffer, cairn_slice *key)
{
	struct cairn_kv02_block open;
	int code = cairn_run_open_block(run, block, &open);
	if (code != 0)
		return code;
	uint32_t size = cairn_kv02_key_size(&open, 0);
	buffer->size = 0;
	if (cairn_buffer_reserve(buffer, size + 1u) != 0)
		return cairn_error_at(-ENOMEM, run->path, CAIRN_NO_OFFSET, "not enough memory");
	cairn_kv02_key(&open, 0, buffer->data);
	*key = cairn_slice_of(buffer->data, size);
	return 0;
}

static uint64_t stride_of(unsigned level)
{
	return UINT64_C(1) << 4 * level;
}

/* ---------------------------------------------------------------- the place of a key */

/* Of entries low … high - 1 of `level`, whose heads all tie with that of `key`: how many are below
 * it. */
static int count_below(struct builder *b, unsigned level, uint64_t low, uint64_t high,
    cairn_slice key, uint64_t *below)
{
	uint64_t start = low;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		cairn_slice fence;
		int code = first_key(b->anchor, middle * stride_of(level), &b->fence, &fence);
		if (code != 0)
			return code;
		if (cairn_key_compare(fence, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*below = low - start;
	return 0;
}

/* Goes from node `*node` of `level`, whose keys share `lcp` bytes, to the last of its entries that
 * begins below `key`. */
CAIRN_RANK_INLINE int descend(
    struct builder *b, unsigned level, unsigned lcp, cairn_slice key, uint64_t *node, bool wide)
{
	const struct cairn_seek_tree *tree = &b->anchor->seek;
	uint64_t start = *node * CAIRN_SEEK_FANOUT, left = tree->entries[level] - start;
	unsigned count = left < CAIRN_SEEK_FANOUT ? (unsigned)left : CAIRN_SEEK_FANOUT;
	uint64_t head = cairn_key_head(key, lcp);
	const uint8_t *heads = tree->heads[level];
	uint64_t not_above = cairn_rank(heads, start, count, head, wide), below = not_above;
	while (below > 0 && CAIRN_UNLIKELY(cairn_get64(heads + (start + below - 1) * 8) == head))
		below--;
	if (CAIRN_UNLIKELY(below < not_above)) {
		uint64_t more;
		int code = count_below(b, level, start + below, start + not_above, key, &more);
		if (code != 0)
			return code;
		below += more;
	}
	*node = start + below - (below > 0);
	return 0;
}

/* The cell that `key` falls into. */
CAIRN_RANK_INLINE int place(struct builder *b, cairn_slice key, uint64_t *cell, bool wide)
{
	const struct cairn_seek_tree *tree = &b->anchor->seek;
	*cell = 0;
	if (cairn_key_compare(key, b->anchor->first_key) <= 0)
		return 0;
	if (cairn_key_compare(key, b->anchor->last_key) > 0) {
		*cell = b->made.cells - 1;
		return 0;
	}
	unsigned lcp = tree->top_lcp;
	for (unsigned level = tree->levels; level >= b->made.level; level--) {
		int code = descend(b, level, lcp, key, cell, wide);
		if (code != 0)
			return code;
		lcp = tree->lcps[level][*cell];
	}
	return 0;
}

/* ---------------------------------------------------------------- the parts */

static unsigned clamped_common(cairn_slice a, cairn_slice b)
{
	size_t common = cairn_key_common(a, b);
	return common < EDGE_MAX ? (unsigned)common : EDGE_MAX;
}

static cairn_slice lower(cairn_slice a, cairn_slice b)
{
	return cairn_key_compare(a, b) < 0 ? a : b;
}

static cairn_slice higher(cairn_slice a, cairn_slice b)
{
	return cairn_key_compare(a, b) > 0 ? a : b;
}

/* There are two cells at least: a level above the blocks has two entries. */
static int find_edges(struct builder *b)
{
	struct cairn_fraction *made = &b->made;
	uint64_t stride = stride_of(made->level);
	cairn_slice fence;
	int code = first_key(b->anchor, stride, &b->fence, &fence);
	if (code != 0)
		return code;
	made->first_edge = clamped_common(lower(b->run->first_key, b->anchor->first_key), fence);
	code = first_key(b->anchor, stride * (made->cells - 1), &b->fence, &fence);
	if (code != 0)
		return code;
	made->last_edge = clamped_common(fence, higher(b->run->last_key, b->anchor->last_key));
	return 0;
}

/* The cells are about as many as the blocks of the run: a quarter of a block to four in each. */
static unsigned choose_level(
    const struct cairn_run_reader *run, const struct cairn_run_reader *anchor)
{
	unsigned level = 1;
	while (level < anchor->seek.levels &&
	       4 * run->footer.blocks * stride_of(level) < anchor->footer.blocks)
		level++;
	return level;
}

static unsigned cell_lcp(
    const struct cairn_fraction *made, const struct cairn_seek_tree *tree, uint64_t cell)
{
	return cell == 0                 ? made->first_edge
	       : cell + 1 == made->cells ? made->last_edge
					 : tree->lcps[made->level][cell];
}

/* Blocks are too far apart for the hardware to see that they come one after the other. */
static inline void fetch_block(const struct cairn_run_reader *run, uint64_t block)
{
	if (CAIRN_UNLIKELY(block >= run->footer.blocks))
		return;
	const uint8_t *start = run->map.data + cairn_seek_offset(&run->seek, block);
	__builtin_prefetch(start);
	__builtin_prefetch(start + 64);
}

/* The words, and in `starts` how many blocks each cell but the first has in front of it. */
CAIRN_RANK_INLINE int place_all(struct builder *b, bool wide)
{
	struct cairn_fraction *made = &b->made;
	uint64_t mask = cairn_seek_offset_mask(made->offset_bits), reached = 0;
	for (uint64_t i = 0; i < made->run.blocks; i++) {
		cairn_slice key;
		uint64_t cell;
		fetch_block(b->run, i + AHEAD);
		int code = first_key(b->run, i, &b->key, &key);
		if (code == 0)
			code = place(b, key, &cell, wide);
		if (code != 0)
			return code;
		for (; reached < cell; reached++)
			b->starts[reached] = i;
		unsigned lcp = cell_lcp(made, &b->anchor->seek, cell);
		uint64_t offset = cairn_seek_offset(&b->run->seek, i);
		cairn_put64(
		    b->file.data + b->file.size, (cairn_key_head(key, lcp) & ~mask) | offset / 8);
		b->file.size += 8;
	}
	for (; reached + 1 < made->cells; reached++)
		b->starts[reached] = made->run.blocks;
	memset(b->file.data + b->file.size, 0xff,
	    CAIRN_FRACTION_HEADER_SIZE + made->words_size - b->file.size);
	b->file.size = CAIRN_FRACTION_HEADER_SIZE + made->words_size;
	return 0;
}

CAIRN_RANK_TARGET static int place_all_wide(struct builder *b)
{
	return place_all(b, true);
}

static int place_blocks(struct builder *b)
{
	return cairn_rank_wide() ? place_all_wide(b) : place_all(b, false);
}

/* Whether more than a quarter of the blocks lie in windows that nobody will search. */
static bool is_skewed(const struct builder *b)
{
	uint64_t wide = 0, from = 0;
	for (uint64_t cell = 0; cell < b->made.cells; cell++) {
		uint64_t to = cell + 1 < b->made.cells ? b->starts[cell] : b->made.run.blocks;
		if (to - from > CAIRN_FRACTION_WINDOW_MAX)
			wide += to - from;
		from = to;
	}
	return wide > b->made.run.blocks / 4;
}

static int encode_places(struct builder *b)
{
	struct cairn_fraction *made = &b->made;
	uint64_t size;
	made->low_bits = cairn_elias_fano_low_bits(made->cells - 1, made->run.blocks);
	if (!cairn_elias_fano_size(made->cells - 1, made->run.blocks, made->low_bits, &size) ||
	    cairn_buffer_reserve(&b->file, (size_t)size) != 0)
		return no_memory(b);
	cairn_elias_fano_encode(b->starts, made->cells - 1, made->run.blocks, made->low_bits,
	    b->file.data + b->file.size);
	made->places_checksum = cairn_checksum(b->file.data + b->file.size, (size_t)size, 0);
	b->file.size += (size_t)size;
	return 0;
}

static int reserve(struct builder *b)
{
	struct cairn_fraction *made = &b->made;
	made->words_size = (size_t)cairn_fraction_words_size(made->run.blocks);
	b->starts = malloc((size_t)made->cells * sizeof *b->starts);
	if (!b->starts ||
	    cairn_buffer_reserve(&b->file, CAIRN_FRACTION_HEADER_SIZE + made->words_size) != 0)
		return no_memory(b);
	b->file.size = CAIRN_FRACTION_HEADER_SIZE;
	return 0;
}

/* All bytes of the file, into b->file. */
static int make(struct builder *b)
{
	struct cairn_fraction *made = &b->made;
	if (b->run->footer.blocks <= NEEDED_BLOCKS || b->anchor->footer.blocks <= NEEDED_BLOCKS)
		return CAIRN_NOT_FOUND;
	int code = cairn_run_trust_order(b->run);
	if (code == 0)
		code = cairn_run_trust_order(b->anchor);
	if (code != 0)
		return code;
	made->run = cairn_fraction_base_of(b->run);
	made->anchor = cairn_fraction_base_of(b->anchor);
	made->level = choose_level(b->run, b->anchor);
	made->cells = b->anchor->seek.entries[made->level];
	made->offset_bits = b->run->seek.offset_bits;
	code = find_edges(b);
	if (code == 0)
		code = reserve(b);
	if (code == 0)
		code = place_blocks(b);
	if (code == 0 && is_skewed(b))
		code = CAIRN_NOT_FOUND;
	if (code == 0)
		code = encode_places(b);
	if (code != 0)
		return code;
	made->words_checksum =
	    cairn_checksum(b->file.data + CAIRN_FRACTION_HEADER_SIZE, made->words_size, 0);
	(void)cairn_fraction_header_encode(made, b->file.data);
	return 0;
}

static void release(struct builder *b)
{
	free(b->starts);
	cairn_buffer_release(&b->file);
	cairn_buffer_release(&b->key);
	cairn_buffer_release(&b->fence);
}

static int write_file(struct cairn_io *io, const char *path, const struct cairn_buffer *bytes)
{
	struct cairn_file *file;
	int code = io->ops->open(io, path, CAIRN_OPEN_CREATE, &file);
	if (code != 0)
		return code;
	code = io->ops->write(file, bytes->data, bytes->size, 0);
	if (code == 0)
		code = io->ops->sync(file);
	io->ops->close(file);
	return code == 0 ? 0 : cairn_io_remove_remains(io, path, code);
}

int cairn_fraction_build(struct cairn_io *io, const char *path,
    const struct cairn_identity *identity, uint64_t number, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor, struct cairn_fraction_file *file)
{
	struct builder b = {.run = run, .anchor = anchor};
	b.made.identity = *identity;
	b.made.number = number;
	*file = (struct cairn_fraction_file){0};
	int code = make(&b);
	if (code == 0)
		code = write_file(io, path, &b.file);
	if (code == 0)
		*file = (struct cairn_fraction_file){
		    number, b.file.size, cairn_get32(b.file.data + CAIRN_FRACTION_HEADER_SIZE - 4)};
	release(&b);
	return code;
}

int cairn_fraction_verify(const struct cairn_fraction *fraction, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor)
{
	struct builder b = {.run = run, .anchor = anchor};
	b.made.identity = fraction->identity;
	b.made.number = fraction->number;
	int code = make(&b);
	if (code == CAIRN_NOT_FOUND ||
	    (code == 0 && (b.file.size != fraction->map.size ||
			      memcmp(b.file.data, fraction->map.data, b.file.size) != 0)))
		code = cairn_error_at(CAIRN_CORRUPT, fraction->path, CAIRN_NO_OFFSET,
		    "is not the fractional index of these runs; it is rebuilt when the store is "
		    "open for writing");
	release(&b);
	return code;
}
