/*
 * format/point_index.h -- the point index of a run: a hash over its keys that names the place of
 * each, in lines of 64 bytes that hold ten.
 *
 * A run never changes, so its index is built once, after the last record, and filled to 80 %. One
 * line nearly always decides a miss; a find leads straight to the record, past seek section and
 * block search. Fingerprints are 12 to 16 bits, so a candidate may be another key: the caller
 * compares, and goes on when it differs.
 *
 * Section, little endian, starting at a multiple of 128 in the file:
 *	0   u64  number of keys n (>= 1)
 *	8   u32  number of lines L (>= 1)
 *	12  u8   P: bits of a payload, (block offset / 8) << 4 | record number in the block; <= 36
 *	13   51 zero bytes
 *	64  L lines:
 *	    0   10 x u16  fingerprint << S | payload >> 32, where S = max(P - 32, 0)
 *	    20  u32       bits 0-27: overflow filter; bits 28-31: slots in use, the first ones
 *	    24  10 x u32  low bits of the payload; slots that are not in use are zero
 *	    u32 for each 4096 bytes of all that, the last of which may be shorter: XXH3, seeded with
 *	        the number of the page
 *
 * A key with hash h belongs to line (h >> 32) * L >> 32, with the low 16 - S bits of h as its
 * fingerprint. When that line is full it sets bit 28 * b / 256 of the line's filter, b being bits
 * 24 to 31 of h, and goes to the next line, the first being next to the last. So a search goes on
 * to the next line only where that bit is set.
 *
 * The checksum of the section in the footer is that of the first 64 bytes and the page checksums;
 * it is verified at open, a page before its first use.
 */
#ifndef CAIRN_FORMAT_POINT_INDEX_H
#define CAIRN_FORMAT_POINT_INDEX_H

#include <stdatomic.h>

#include "format/buffer.h"
#include "format/bytes.h"

#define CAIRN_POINT_LINE  64u
#define CAIRN_POINT_SLOTS 10u
#define CAIRN_POINT_PAGE  4096u

/* Writing: 16 bytes a key are kept until the end. A zeroed builder is empty. */
struct cairn_point_builder {
	struct cairn_buffer entries;
	uint64_t last_offset; /* the highest offset / 8 */
};

/* Record `record` (< 16) of the block at `offset` (a multiple of 8, <= 32 GiB) has the key hash
 * `hash`. 0 or -ENOMEM. */
int cairn_point_builder_add(
    struct cairn_point_builder *builder, uint64_t hash, uint64_t offset, unsigned record);

/* Appends the section to `out` and empties the builder; *checksum is for the footer. Needs one key
 * at least. 0 or -ENOMEM. */
int cairn_point_builder_finish(
    struct cairn_point_builder *builder, struct cairn_buffer *out, uint32_t *checksum);

void cairn_point_builder_release(struct cairn_point_builder *builder);

/* Reading: a view of the section's bytes, which must stay where they are. Any number of threads;
 * what changes is atomic. */
struct cairn_point_index {
	const uint8_t *section; /* NULL: there is no index */
	const uint8_t *lines;
	uint64_t keys;
	uint32_t line_count;
	unsigned shift;            /* S */
	size_t size;               /* header and lines */
	_Atomic uint64_t *trusted; /* a bit for each page that was verified */
};

/* Checks sizes, header and `checksum`; does not touch the lines. 0, CAIRN_CORRUPT or -ENOMEM, no
 * message. */
int cairn_point_open(struct cairn_point_index *index, const uint8_t *data, size_t size,
    uint32_t checksum, uint64_t keys);
void cairn_point_close(struct cairn_point_index *index);

/* What a search of one index stands at. */
struct cairn_point_probe {
	uint64_t hash;
	uint32_t line;
	uint32_t lines_left; /* bounds the walk over lines, whatever they say */
	unsigned candidates; /* bit i: slot i of `line` is still to be looked at */
};

static inline uint32_t cairn_point_home(const struct cairn_point_index *index, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * index->line_count >> 32);
}

/* The line where a search for `hash` begins, to be fetched ahead. */
static inline const uint8_t *cairn_point_line(const struct cairn_point_index *index, uint64_t hash)
{
	return index->lines + (size_t)cairn_point_home(index, hash) * CAIRN_POINT_LINE;
}

/* What the first step of a search for `hash` reads, to be asked for from the disk. Returns how many
 * of `need` it filled in. */
struct cairn_point_need {
	const uint8_t *data;
	size_t size;
};
unsigned cairn_point_need(
    const struct cairn_point_index *index, uint64_t hash, struct cairn_point_need need[2]);

/*
 * The first, then the next place where the key may be: 0 with *offset (a multiple of 8; below
 * 32 GiB, else unchecked) and *record. CAIRN_NOT_FOUND: the key is not in the run, by verified
 * bytes. CAIRN_CORRUPT: a page is damaged; the index cannot tell (no message).
 */
int cairn_point_first(const struct cairn_point_index *index, uint64_t hash,
    struct cairn_point_probe *probe, uint64_t *offset, unsigned *record);
int cairn_point_next(const struct cairn_point_index *index, struct cairn_point_probe *probe,
    uint64_t *offset, unsigned *record);

/* All of it: page checksums, unused slots, padding. *page is the number of the first bad page. */
bool cairn_point_check(const struct cairn_point_index *index, uint64_t *page);

#endif
