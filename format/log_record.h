/*
 * format/log_record.h -- the bytes of a log segment: its header and its records.
 *
 * A log is a chain of segments. Position: one u64 for a place in the chain,
 * `ordinal << 28 | offset / 8`, where ordinal counts the segments of a log and offset is in the
 * segment's file. Positions of one log are totally ordered; 0 is before everything.
 *
 * Segment file: header (4096 bytes) | records, each starting at a multiple of 8, back to back.
 *
 *	0    8   magic "CAIRNWAL"
 *	8    4   version
 *	12   4   checksum of bytes 16 … 4095
 *	16   16  store id
 *	32   8   hash seed
 *	40   8   zeros
 *	48   8   number (as in the file's name)
 *	56   8   ordinal
 *	64   8   salt: random; seeds every checksum of the segment's records
 *	72   8   number of the predecessor (0 = none: the first of its log)
 *	80   8   salt of the predecessor
 *	88       zeros
 *
 * Record, at offset X of its segment, seed s = salt + X (mod 2^64):
 *
 *	0    4   header checksum: XXH3(bytes 4 … 19, seed s)
 *	4    4   body checksum: XXH3(body, padding included, seed ~s)
 *	8    4   bits 0-27 size of the record, header and padding included, / 8; bits 28-31 type
 *	12   4   first sequence - base sequence of the segment (mod 2^32; 0 for LINK and MARK)
 *	16   4   durable position D known when the record was written: bits 28-31 how many segments
 *	         back (0 = this one), bits 0-27 offset / 8 there. 0 = nothing of this segment is
 *	         known durable; 15 back and offset 0 when it is farther away than can be said
 *	20       body, zero padded so that the record ends at a multiple of 8
 *
 * Body by type:
 *
 *	LINK   first record of every segment: u64 base sequence (the last one before this segment),
 *	       u64 end offset of the predecessor (0 = none)
 *	WRITE  1 or more operations, sequences ascending by one: u8 kind (never 0), varint key size,
 *	       varint value size (PUT only), u32 record checksum, key, value. All or nothing.
 *	MARK   empty: written when a store goes idle after a sync, only to carry D
 */
#ifndef CAIRN_FORMAT_LOG_RECORD_H
#define CAIRN_FORMAT_LOG_RECORD_H

#include "format/bytes.h"
#include "format/identity.h"

#define CAIRN_LOG_VERSION       1u
#define CAIRN_LOG_HEADER_SIZE   4096u
#define CAIRN_LOG_RECORD_HEADER 20u
#define CAIRN_LOG_RECORD_MAX    ((UINT64_C(1) << 28) - 1) /* in units of 8 bytes */

enum cairn_log_type {
	CAIRN_LOG_LINK = 1,
	CAIRN_LOG_WRITE = 2,
	CAIRN_LOG_MARK = 3,
};

static inline uint64_t cairn_log_position(uint64_t ordinal, uint64_t offset)
{
	return ordinal << 28 | offset >> 3;
}

static inline uint64_t cairn_log_position_ordinal(uint64_t position)
{
	return position >> 28;
}

static inline uint64_t cairn_log_position_offset(uint64_t position)
{
	return (position & ((UINT64_C(1) << 28) - 1)) << 3;
}

struct cairn_log_segment_header {
	struct cairn_identity identity;
	uint64_t number;
	uint64_t ordinal;
	uint64_t salt;
	uint64_t previous_number;
	uint64_t previous_salt;
};

void cairn_log_segment_header_encode(
    const struct cairn_log_segment_header *header, uint8_t bytes[CAIRN_LOG_HEADER_SIZE]);
/* 0, CAIRN_CORRUPT or CAIRN_UNSUPPORTED (both versions named), with message. */
int cairn_log_segment_header_decode(struct cairn_log_segment_header *header,
    const uint8_t bytes[CAIRN_LOG_HEADER_SIZE], const char *path);

struct cairn_log_record {
	enum cairn_log_type type;
	uint64_t size;           /* whole record, bytes */
	uint32_t sequence_delta; /* first sequence - base sequence */
	uint64_t durable;        /* D, as a position */
	uint32_t body_checksum;
	const uint8_t *body;
	size_t body_size; /* padding included */
};

/* Where the record stands: what its checksums are seeded with and D is relative to. */
struct cairn_log_place {
	uint64_t salt;
	uint64_t ordinal;
	uint64_t offset;
};

/* Whole size of a record with `body_size` unpadded bytes of body. */
static inline uint64_t cairn_log_record_size(uint64_t body_size)
{
	return cairn_round_up(CAIRN_LOG_RECORD_HEADER + body_size, 8);
}

/*
 * Seals a record whose body (padding included) stands at `bytes` + 20: makes both checksums and
 * stores the header, its first word (checksum) last, with release order: a process killed before
 * that leaves no record.
 */
void cairn_log_record_seal(uint8_t *bytes, const struct cairn_log_place *place,
    enum cairn_log_type type, uint64_t size, uint32_t sequence_delta, uint64_t durable);

/*
 * Reads the header of a record that starts at `bytes`, `limit` bytes before the end of what is
 * readable: true when the header's checksum is right and the record fits. The body is not looked
 * at.
 */
bool cairn_log_record_peek(struct cairn_log_record *record, const uint8_t *bytes, size_t limit,
    const struct cairn_log_place *place);

/* Whether the body of a peeked record checks out. */
bool cairn_log_record_check(
    const struct cairn_log_record *record, const struct cairn_log_place *place);

/* Operations of a WRITE body. */
size_t cairn_log_operation_size(const struct cairn_record *operation);
uint8_t *cairn_log_operation_put(uint8_t *next, const struct cairn_record *operation);

/*
 * Consumes the next operation: 0, CAIRN_END at the end of the body (only zeros, fewer than 8, may
 * follow), or CAIRN_CORRUPT (no message). Slices point into the body.
 */
int cairn_log_operation_next(struct cairn_input *body, struct cairn_record *operation);

#endif
