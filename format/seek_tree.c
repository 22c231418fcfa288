/*
 * format/seek_tree.c -- builds, checks and searches the seek section of a run.
 *
 * Terms. A *node* is 16 neighbours of one level; the *fence* behind a node is the first key of the
 * next one, or the last key of the run. Everything in a node, and every query that belongs there,
 * lies between its first key and its fence and shares the bytes that these two share.
 *
 * Invariants.
 * 1. Only the first 255 + 8 bytes of a key can matter: an lcp is at most 255, a head 8 bytes.
 * 2. A node's lcp is known once its fence is, so at most 16 keys a level wait for it.
 * 3. A search counts the entries with a head <= the query's. On the right path these are all
 * entries with a key <= the query, and more only when heads tie: errors are always to the right.
 * 4. Counts are clamped to the real entries, so no query ever lands on padding.
 *
 * Threads. A builder belongs to one thread; an open tree never changes.
 */
#include "format/seek_tree.h"

#include <errno.h>
#include <stdlib.h>

#define HEADER_SIZE   128u
#define PART_SIZE     128u /* every part of the section starts at a multiple of this */
#define NODE_SIZE     (CAIRN_SEEK_FANOUT * 8u)
#define LCP_MAX       255u
#define KEPT_KEY_SIZE (LCP_MAX + 8u)

_Static_assert(NODE_SIZE == PART_SIZE, "a node is one part: two cache lines");

struct kept_key {
	uint16_t size;
	uint8_t bytes[KEPT_KEY_SIZE];
};

struct builder_level {
	struct cairn_buffer heads; /* of closed nodes, as u64 */
	struct cairn_buffer lcps;  /* one for each closed node of the level below */
	unsigned waiting;          /* entries of the open node, whose lcp is not known yet */
	struct kept_key key[CAIRN_SEEK_FANOUT];
};

struct cairn_seek_builder {
	uint64_t blocks;
	struct cairn_buffer offsets; /* offset / 8 of each block, as u64 */
	struct builder_level level[CAIRN_SEEK_LEVELS_MAX + 1];
};

static uint64_t nodes_of(uint64_t entries)
{
	return entries / CAIRN_SEEK_FANOUT + (entries % CAIRN_SEEK_FANOUT != 0);
}

static unsigned bits_of(uint64_t n)
{
	return n ? 64 - (unsigned)__builtin_clzll(n) : 0;
}

int cairn_seek_builder_new(struct cairn_seek_builder **builder)
{
	*builder = calloc(1, sizeof **builder);
	return *builder ? 0 : -ENOMEM;
}

void cairn_seek_builder_free(struct cairn_seek_builder *builder)
{
	if (!builder)
		return;
	for (unsigned l = 0; l <= CAIRN_SEEK_LEVELS_MAX; l++) {
		cairn_buffer_release(&builder->level[l].heads);
		cairn_buffer_release(&builder->level[l].lcps);
	}
	cairn_buffer_release(&builder->offsets);
	free(builder);
}

static cairn_slice kept_slice(const struct kept_key *key)
{
	return cairn_slice_of(key->bytes, key->size);
}

static void keep_key(struct kept_key *kept, cairn_slice key)
{
	kept->size = (uint16_t)(key.size < KEPT_KEY_SIZE ? key.size : KEPT_KEY_SIZE);
	if (kept->size)
		memcpy(kept->bytes, key.data, kept->size);
}

/* Takes the heads of the waiting entries of `level` at the lcp that the fence decides. */
static int close_node(struct builder_level *level, cairn_slice fence, uint8_t *lcp)
{
	size_t common = cairn_key_common(kept_slice(&level->key[0]), fence);
	*lcp = (uint8_t)(common < LCP_MAX ? common : LCP_MAX);
	if (cairn_buffer_reserve(&level->heads, NODE_SIZE) != 0)
		return -ENOMEM;
	for (unsigned i = 0; i < level->waiting; i++) {
		cairn_put64(level->heads.data + level->heads.size,
		    cairn_key_head(kept_slice(&level->key[i]), *lcp));
		level->heads.size += 8;
	}
	level->waiting = 0;
	return 0;
}

/*
 * A key that begins a node is also an entry of the level above, and so on up: the first key of all
 * goes to every level, and `finish` ignores the levels that got no second one.
 */
int cairn_seek_builder_add(
    struct cairn_seek_builder *builder, cairn_slice first_key, uint64_t offset)
{
	uint8_t number[8];
	cairn_put64(number, offset / 8);
	if (cairn_buffer_append(&builder->offsets, number, sizeof number) != 0)
		return -ENOMEM;
	for (unsigned l = 0; l < CAIRN_SEEK_LEVELS_MAX; l++) {
		struct builder_level *level = &builder->level[l];
		if (level->waiting == CAIRN_SEEK_FANOUT) {
			uint8_t lcp;
			if (close_node(level, first_key, &lcp) != 0 ||
			    cairn_buffer_append(&level[1].lcps, &lcp, 1) != 0)
				return -ENOMEM;
		}
		keep_key(&level->key[level->waiting++], first_key);
		if (level->waiting > 1)
			break;
	}
	builder->blocks++;
	return 0;
}

/* Appends `part`, filled up with `padding` to where the next part starts. */
static int append_part(struct cairn_buffer *out, const struct cairn_buffer *part, int padding)
{
	size_t size = (size_t)cairn_round_up(part->size, PART_SIZE);
	if (cairn_buffer_reserve(out, size) != 0)
		return -ENOMEM;
	memcpy(out->data + out->size, part->data, part->size);
	memset(out->data + out->size + part->size, padding, size - part->size);
	out->size += size;
	return 0;
}

/* Turns the heads of the blocks into words: the offset takes the place of the lowest P bits. */
static void fold_offsets(struct cairn_seek_builder *builder, unsigned offset_bits)
{
	uint8_t *word = builder->level[0].heads.data;
	const uint8_t *number = builder->offsets.data;
	uint64_t mask = cairn_seek_offset_mask(offset_bits);
	for (uint64_t i = 0; i < builder->blocks; i++, word += 8, number += 8)
		cairn_put64(word, (cairn_get64(word) & ~mask) | cairn_get64(number));
}

int cairn_seek_builder_finish(
    struct cairn_seek_builder *builder, cairn_slice last_key, struct cairn_buffer *out)
{
	unsigned top = 0;
	uint8_t lcp = 0;
	for (uint64_t entries = builder->blocks;; entries = nodes_of(entries)) {
		if (close_node(&builder->level[top], last_key, &lcp) != 0)
			return -ENOMEM;
		if (entries <= CAIRN_SEEK_FANOUT)
			break;
		top++;
		if (cairn_buffer_append(&builder->level[top].lcps, &lcp, 1) != 0)
			return -ENOMEM;
	}

	uint64_t largest = cairn_get64(builder->offsets.data + (builder->blocks - 1) * 8);
	unsigned offset_bits = bits_of(largest);
	uint8_t header[HEADER_SIZE] = {0};
	cairn_put64(header, builder->blocks);
	header[8] = (uint8_t)offset_bits;
	header[9] = (uint8_t)top;
	header[10] = lcp;
	if (cairn_buffer_append(out, header, sizeof header) != 0)
		return -ENOMEM;

	fold_offsets(builder, offset_bits);
	if (append_part(out, &builder->level[0].heads, 0xff) != 0)
		return -ENOMEM;
	for (unsigned l = 1; l <= top; l++) {
		if (append_part(out, &builder->level[l].heads, 0xff) != 0 ||
		    append_part(out, &builder->level[l].lcps, 0) != 0)
			return -ENOMEM;
	}
	return 0;
}

static bool all_bytes_are(const uint8_t *data, size_t size, uint8_t value)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] != value)
			return false;
	}
	return true;
}

int cairn_seek_open(struct cairn_seek_tree *tree, const uint8_t *data, size_t size, uint64_t blocks)
{
	*tree = (struct cairn_seek_tree){0};
	if (size < HEADER_SIZE || blocks == 0 || blocks > size / 8)
		return CAIRN_CORRUPT;
	tree->blocks = cairn_get64(data);
	tree->offset_bits = data[8];
	tree->levels = data[9];
	tree->top_lcp = data[10];
	if (tree->blocks != blocks || tree->offset_bits > 32 ||
	    tree->levels > CAIRN_SEEK_LEVELS_MAX || !all_bytes_are(data + 11, HEADER_SIZE - 11, 0))
		return CAIRN_CORRUPT;

	struct cairn_input in = cairn_input_of(data + HEADER_SIZE, size - HEADER_SIZE);
	uint64_t entries = blocks;
	tree->entries[0] = entries;
	tree->words = cairn_input_bytes(&in, (size_t)nodes_of(entries) * NODE_SIZE);
	for (unsigned l = 1; l <= tree->levels; l++) {
		entries = nodes_of(entries);
		tree->entries[l] = entries;
		tree->heads[l] = cairn_input_bytes(&in, (size_t)nodes_of(entries) * NODE_SIZE);
		tree->lcps[l] = cairn_input_bytes(&in, (size_t)cairn_round_up(entries, PART_SIZE));
	}
	bool one_more = tree->levels > 0 && tree->entries[tree->levels - 1] <= CAIRN_SEEK_FANOUT;
	if (in.bad || cairn_input_left(&in) != 0 || entries > CAIRN_SEEK_FANOUT || one_more)
		return CAIRN_CORRUPT;
	return 0;
}

/* Whether what stands behind the real entries of a part is `value` up to the part's end. */
static bool padding_is(const uint8_t *part, uint64_t used, uint8_t value)
{
	size_t end = (size_t)cairn_round_up(used, PART_SIZE);
	return all_bytes_are(part + used, end - (size_t)used, value);
}

bool cairn_seek_check(const struct cairn_seek_tree *tree, uint64_t first, uint64_t limit)
{
	uint64_t previous = 0;
	for (uint64_t i = 0; i < tree->blocks; i++) {
		uint64_t offset = cairn_seek_offset(tree, i);
		if (offset < first || offset >= limit || (i > 0 && offset <= previous))
			return false;
		previous = offset;
	}
	if (bits_of(previous / 8) != tree->offset_bits)
		return false;
	if (!padding_is(tree->words, tree->blocks * 8, 0xff))
		return false;
	for (unsigned l = 1; l <= tree->levels; l++) {
		if (!padding_is(tree->heads[l], tree->entries[l] * 8, 0xff) ||
		    !padding_is(tree->lcps[l], tree->entries[l], 0))
			return false;
	}
	return true;
}

CAIRN_RANK_INLINE uint64_t find(const struct cairn_seek_tree *tree, cairn_slice key, bool wide)
{
	uint64_t node = 0;
	unsigned lcp = tree->top_lcp;
	for (unsigned l = tree->levels; l > 0; l--) {
		node = cairn_seek_step(
		    tree->heads[l], tree->entries[l], node, cairn_key_head(key, lcp), wide);
		lcp = tree->lcps[l][node];
	}
	uint64_t query = cairn_key_head(key, lcp) | cairn_seek_offset_mask(tree->offset_bits);
	return cairn_seek_step(tree->words, tree->blocks, node, query, wide);
}

CAIRN_RANK_TARGET static uint64_t find_wide(const struct cairn_seek_tree *tree, cairn_slice key)
{
	return find(tree, key, true);
}

uint64_t cairn_seek_find(const struct cairn_seek_tree *tree, cairn_slice key)
{
	return cairn_rank_wide() ? find_wide(tree, key) : find(tree, key, false);
}
