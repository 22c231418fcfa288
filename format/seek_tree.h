/*
 * format/seek_tree.h -- the seek section of a run: a static search tree over the first keys of its
 * blocks.
 *
 * Shape. Fan-out 16. Level 0 is one u64 word per block: its head, in which block offset / 8 takes
 * the place of the lowest P bits, P the number of bits of the largest offset / 8 (P <= 32).
 * A node of level L > 0 is 16 u64 heads; entry j of level L stands for node j of level L-1.
 * Heads are the 8 key bytes from the node's *lcp*: the bytes that the first key of the node and the
 * first key of the node behind it have in common (for the last node of a level: that its first key
 * and the last key of the run have in common), clamped to 255. Beside the heads of each level L > 0
 * stands one u8 per entry: the lcp of the node that the entry stands for; the lcp of the top node
 * stands in the section's header. Levels are added until one node holds all.
 *
 * Why the lcp is enough. A query between two fences shares the bytes that the fences share, so no
 * prefix is stored or compared. Heads may tie; a search then goes right, so an error is always to
 * the right, and the run reader mends it by looking left (run_reader.c).
 *
 * Section, little endian, starting at a multiple of 128 in the file:
 *	0   u64  number of blocks n (>= 1)
 *	8   u8   P
 *	9   u8   number of levels above the words (0 when n <= 16)
 *	10  u8   lcp of the top node
 *	11  117 zero bytes
 *	128 words: n x u64, then all-ones words up to a multiple of 16
 *	    for each level 1, 2, …: its heads, padded with all-ones to a multiple of 16,
 *	    then its lcps, padded with zero bytes to a multiple of 128
 */
#ifndef CAIRN_FORMAT_SEEK_TREE_H
#define CAIRN_FORMAT_SEEK_TREE_H

#include "format/buffer.h"
#include "format/bytes.h"
#include "format/rank.h"

#define CAIRN_SEEK_FANOUT     16u
#define CAIRN_SEEK_LEVELS_MAX 9u /* 16^9 blocks are more than any file has */

/* Writing: streaming, 17 bytes a block are kept. */
struct cairn_seek_builder;

int cairn_seek_builder_new(struct cairn_seek_builder **builder);

/* A block begins at `offset` (a multiple of 8, ascending) with `first_key` (ascending). 0 or
 * -ENOMEM. */
int cairn_seek_builder_add(
    struct cairn_seek_builder *builder, cairn_slice first_key, uint64_t offset);

/* Appends the section to `out`. Needs one block at least. `last_key` is the last of the run. 0 or
 * -ENOMEM. */
int cairn_seek_builder_finish(
    struct cairn_seek_builder *builder, cairn_slice last_key, struct cairn_buffer *out);

void cairn_seek_builder_free(struct cairn_seek_builder *builder); /* NULL is fine */

/* Reading: a view of the section's bytes, which must stay where they are. */
struct cairn_seek_tree {
	uint64_t blocks;
	unsigned offset_bits;
	unsigned levels;
	unsigned top_lcp;
	const uint8_t *words;
	const uint8_t *heads[CAIRN_SEEK_LEVELS_MAX + 1]; /* [1 … levels] */
	const uint8_t *lcps[CAIRN_SEEK_LEVELS_MAX + 1];
	uint64_t entries[CAIRN_SEEK_LEVELS_MAX + 1];
};

/* Checks the header and the sizes against `size` and `blocks`: 0 or CAIRN_CORRUPT (no message). */
int cairn_seek_open(
    struct cairn_seek_tree *tree, const uint8_t *data, size_t size, uint64_t blocks);

/* Checks every word: offsets strictly ascending multiples of 8 within [first, limit), padding as
 * written. */
bool cairn_seek_check(const struct cairn_seek_tree *tree, uint64_t first, uint64_t limit);

/*
 * One step of a search: the entry of node `node` of a level with `entries` heads to go to, which is
 * the last one <= `query`, or the first when there is none. Padding is never counted.
 */
CAIRN_RANK_INLINE uint64_t cairn_seek_step(
    const uint8_t *heads, uint64_t entries, uint64_t node, uint64_t query, bool wide)
{
	uint64_t start = node * CAIRN_SEEK_FANOUT, left = entries - start;
	uint64_t count = cairn_rank(heads, start, CAIRN_SEEK_FANOUT, query, wide);
	if (CAIRN_UNLIKELY(count > left))
		count = left;
	return start + count - (count > 0);
}

/* What takes the place of the lowest bits of a word. */
static inline uint64_t cairn_seek_offset_mask(unsigned offset_bits)
{
	return (UINT64_C(1) << offset_bits) - 1;
}

/* The block to look into for a key between the first and last of the run: the right one, or one to
 * its right. */
uint64_t cairn_seek_find(const struct cairn_seek_tree *tree, cairn_slice key);

/* Where block `block` (< blocks) begins in the file. */
static inline uint64_t cairn_seek_offset(const struct cairn_seek_tree *tree, uint64_t block)
{
	uint64_t word = cairn_get64(tree->words + block * 8);
	return (word & cairn_seek_offset_mask(tree->offset_bits)) * 8;
}

#endif
