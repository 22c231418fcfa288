/*
 * format/elias_fano.h -- a sequence of numbers that never fall, in few bits each.
 *
 * Coding. Of every value the lowest `low` bits are stored as they are, one after the other. What is
 * left of it, the upper part, rises slowly: it is stored in unary, in a bit string in which bit
 * (v[i] >> low) + i is set for value i. With low near log2(max / count) that takes about two bits
 * more than `low` for each value. Bits are counted from the lowest of the first byte.
 *
 *	low parts    count * low bits, then zeros up to a whole byte
 *	upper parts  count + (max >> low) bits, then zeros up to a whole byte
 *
 * There is one string of bytes only for given values, count, max and low. Without values it is
 * empty.
 */
#ifndef CAIRN_FORMAT_ELIAS_FANO_H
#define CAIRN_FORMAT_ELIAS_FANO_H

#include "format/bytes.h"

#define CAIRN_ELIAS_FANO_LOW_MAX   63u
#define CAIRN_ELIAS_FANO_COUNT_MAX (UINT64_C(1) << 48)

/* The width of the low parts that suits `count` values up to `max`. */
unsigned cairn_elias_fano_low_bits(uint64_t count, uint64_t max);

/* Bytes of the coding; false when there are more than COUNT_MAX values, or bits of upper parts. */
bool cairn_elias_fano_size(uint64_t count, uint64_t max, unsigned low, uint64_t *size);

/* Writes all of them to `out`, whatever it held. Values never fall and are <= max. */
void cairn_elias_fano_encode(
    const uint64_t *values, uint64_t count, uint64_t max, unsigned low, uint8_t *out);

/* Reading, from the first to the last. */
struct cairn_elias_fano_reader {
	const uint8_t *data; /* low parts */
	const uint8_t *upper;
	size_t size; /* of both */
	size_t upper_size;
	uint64_t count;
	uint64_t max;
	unsigned low;
	uint64_t done; /* values read */
	uint64_t last; /* of them */
	uint64_t word; /* upper bits from `word_at` on, those read cleared */
	uint64_t word_at;
};

/* `low` <= 63. False when `size` is not what the numbers ask for. The bytes must stay. */
bool cairn_elias_fano_open(struct cairn_elias_fano_reader *reader, const uint8_t *data, size_t size,
    uint64_t count, uint64_t max, unsigned low);

/*
 * The next value, for any bytes one that is not below the last one and not above max; false when
 * there is none. Not after the last.
 */
bool cairn_elias_fano_next(struct cairn_elias_fano_reader *reader, uint64_t *value);

/* After the last: whether the bytes are the one coding of what was read. */
bool cairn_elias_fano_at_end(const struct cairn_elias_fano_reader *reader);

#endif
