/*
 * format/fraction.h -- the fractional index of one run, `NNNNNN.ix`: where its blocks fall among
 * those of the anchor, the oldest run of the store.
 *
 * Terms. A *cell* of stride 16^g is that many blocks of the anchor, one behind the other: what one
 * entry of level g of its seek tree stands for. Its *fence* is the first key of its first block.
 * The *place* of a block of the run is the cell that its first key falls into: the last one whose
 * fence is below it, the first cell where none is. V[j] counts the blocks in cells before j:
 * 0 = V[0] <= V[1] <= … <= V[cells] = blocks. So the blocks V[j] … V[j+1]-1, a *window*, and the
 * one before them are all that a key of cell j can have to do with.
 *
 * The *word* of a block is its head, 8 bytes of its first key from where the keys of its cell begin
 * to differ, with block offset / 8 in place of the lowest P bits, as in the seek tree. A query of
 * the cell shares the bytes in front of the head: those that the two fences around the cell share
 * (the seek tree has their number, the cell's *lcp*). For the first and the last cell, where keys
 * may lie beyond the anchor's bounds, the file has numbers of its own, the *edges*.
 *
 * An index is derived from two files that never change: it names them, is refused beside any other,
 * and can be made anew at any time. No answer depends on it (run_reader.h, cairn_run_cursor_aim).
 *
 * File, little endian:
 *	0      8  magic "cairn.ix"
 *	8      4  version, 1
 *	12     1  g, the level of the cells, 1 to 9
 *	13     1  P, bits of a block offset / 8, at most 32
 *	14     1  edge of the first cell: bytes that all its keys and queries share, 255 at most
 *	15     1  edge of the last cell; of both, when there is only one
 *	16     1  width of the low parts of V
 *	17     7  zeros
 *	24    16  store id
 *	40     8  hash seed of the store
 *	48     8  number of this file
 *	56     8  of the run: its number, …
 *	64     8  … records, …
 *	72     8  … blocks, …
 *	80     4  … checksum of its footer
 *	84     4  checksum of V
 *	88     8  of the anchor: number, …
 *	96     8  … records, …
 *	104    8  … blocks, …
 *	112    4  … checksum of its footer
 *	116    4  checksum of the words
 *	120    4  zeros
 *	124    4  checksum of the 124 bytes before it: names the file in the manifest
 *	128       words: blocks x u64, then at least 8 all-ones words, up to a multiple of 128 bytes
 *	          V[1] … V[cells - 1], Elias-Fano coded (elias_fano.h) with `blocks` as the maximum
 */
#ifndef CAIRN_FORMAT_FRACTION_H
#define CAIRN_FORMAT_FRACTION_H

#include "format/identity.h"
#include "format/io.h"
#include "format/run_reader.h"

#define CAIRN_FRACTION_VERSION     1u
#define CAIRN_FRACTION_HEADER_SIZE 128u

/* What the manifest says of the file. */
struct cairn_fraction_file {
	uint64_t number; /* 0: there is none */
	uint64_t size;
	uint32_t checksum; /* of the header, and by way of it of everything */
};

/* A `.kv` file that an index was built on. */
struct cairn_fraction_base {
	uint64_t number;
	uint64_t records;
	uint64_t blocks;
	uint32_t footer_checksum;
};

struct cairn_fraction {
	struct cairn_io *io;
	char *path;
	struct cairn_map map;
	struct cairn_identity identity;
	uint64_t number;
	struct cairn_fraction_base run;
	struct cairn_fraction_base anchor;
	unsigned level; /* g */
	unsigned offset_bits;
	unsigned first_edge;
	unsigned last_edge;
	unsigned low_bits;
	uint64_t cells;
	const uint8_t *words;
	size_t words_size;
	uint32_t words_checksum;
	const uint8_t *places; /* the coding of V, verified at open */
	size_t places_size;
	uint32_t places_checksum;
};

/* Bytes of the words of so many blocks, with the padding that searches may read. */
static inline uint64_t cairn_fraction_words_size(uint64_t blocks)
{
	return cairn_round_up(blocks * 8 + 64, 128);
}

/* What the manifest and indexes call a run's file by. */
struct cairn_fraction_base cairn_fraction_base_of(const struct cairn_run_reader *run);

/*
 * Builds the index of `run` on `anchor` and writes it to `path` (must not exist), synced, but not
 * its directory. 0: *file describes it. CAIRN_NOT_FOUND: these two need none, since the run is so
 * small or the anchor so small that there is nothing to gain, or since more than a quarter of the
 * run's blocks would fall into windows too wide to be searched; nothing is written. Otherwise a
 * failure, after which nothing is left. Takes time and memory (at most 48 bytes a block) in
 * proportion to the run, however large the anchor is.
 */
int cairn_fraction_build(struct cairn_io *io, const char *path,
    const struct cairn_identity *identity, uint64_t number, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor, struct cairn_fraction_file *file);

/*
 * Opens and maps an index: header and V are verified, the words are not. `expect` is what the
 * manifest says (NULL: nothing); `run` and `anchor` are the files that it must have been built on
 * (NULL: whatever it says). CAIRN_CORRUPT with file, offset and cause, also when it was built on
 * other files, which are named; CAIRN_UNSUPPORTED for a newer version; -ENOENT, -errno.
 */
int cairn_fraction_open(struct cairn_io *io, const char *path,
    const struct cairn_fraction_file *expect, const struct cairn_identity *identity,
    const struct cairn_run_reader *run, const struct cairn_run_reader *anchor,
    struct cairn_fraction **fraction);

/* The same from memory, which is borrowed, as `path` is: for inspection. It is not to be closed. */
int cairn_fraction_decode(
    const char *path, const uint8_t *bytes, size_t size, struct cairn_fraction *fraction);

void cairn_fraction_close(struct cairn_fraction *fraction); /* NULL is fine */

/*
 * Verifies the words, and that they name the very blocks that the trusted seek section of `run`
 * does (NULL: not that): 0 or CAIRN_CORRUPT with file and offset.
 */
int cairn_fraction_check_words(
    const struct cairn_fraction *fraction, const struct cairn_run_reader *run);

/* Builds the index again in memory: 0 when the file has the very same bytes, CAIRN_CORRUPT when it
 * has not, or a failure. */
int cairn_fraction_verify(const struct cairn_fraction *fraction, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor);

/* The most blocks that a window may have to be searched. */
#define CAIRN_FRACTION_WINDOW_MAX 32u

/* The header's bytes; sets nothing. Returns the checksum that ends them. For the builder. */
uint32_t cairn_fraction_header_encode(const struct cairn_fraction *fraction, uint8_t *bytes);

/* For expanding V in order: calls `each` with every window of cells 0, 1, …; stops at a non-zero
 * return. 0, or what it returned. */
int cairn_fraction_windows(const struct cairn_fraction *fraction,
    int (*each)(void *context, uint64_t cell, uint64_t from, uint64_t to), void *context);

#endif
