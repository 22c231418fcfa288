/*
 * format/elias_fano.c -- see elias_fano.h.
 */
#include "format/elias_fano.h"

#include <assert.h>

static uint64_t bytes_of(uint64_t bits)
{
	return bits / 8 + (bits % 8 != 0);
}

unsigned cairn_elias_fano_low_bits(uint64_t count, uint64_t max)
{
	if (count == 0 || max < count)
		return 0;
	return 63 - (unsigned)__builtin_clzll(max / count);
}

bool cairn_elias_fano_size(uint64_t count, uint64_t max, unsigned low, uint64_t *size)
{
	*size = 0;
	if (count > CAIRN_ELIAS_FANO_COUNT_MAX || max >> low > CAIRN_ELIAS_FANO_COUNT_MAX)
		return false;
	if (count > 0)
		*size = bytes_of(count * low) + bytes_of(count + (max >> low));
	return true;
}

/* The 8 bytes at `at`, those behind `size` as zeros. */
static uint64_t load(const uint8_t *data, size_t size, uint64_t at)
{
	uint8_t tail[8] = {0};
	if (at + 8 <= size)
		return cairn_get64(data + at);
	if (at < size)
		memcpy(tail, data + at, size - (size_t)at);
	return cairn_get64(tail);
}

static uint64_t low_mask(unsigned low)
{
	return (UINT64_C(1) << low) - 1;
}

/* Sets bits bit … bit + low - 1 of zeroed bytes. */
static void put_low(uint8_t *out, uint64_t bit, uint64_t value, unsigned low)
{
	for (unsigned done = 0; done < low;) {
		unsigned shift = (unsigned)((bit + done) % 8);
		out[(bit + done) / 8] |= (uint8_t)(value >> done << shift);
		done += 8 - shift;
	}
}

void cairn_elias_fano_encode(
    const uint64_t *values, uint64_t count, uint64_t max, unsigned low, uint8_t *out)
{
	uint64_t size;
	bool fits = cairn_elias_fano_size(count, max, low, &size);
	assert(fits);
	if (!fits || size == 0)
		return;
	memset(out, 0, (size_t)size);
	uint8_t *upper = out + bytes_of(count * low);
	for (uint64_t i = 0; i < count; i++) {
		assert(values[i] <= max && (i == 0 || values[i - 1] <= values[i]));
		put_low(out, i * low, values[i] & low_mask(low), low);
		uint64_t bit = (values[i] >> low) + i;
		upper[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
}

bool cairn_elias_fano_open(struct cairn_elias_fano_reader *reader, const uint8_t *data, size_t size,
    uint64_t count, uint64_t max, unsigned low)
{
	uint64_t needed;
	*reader = (struct cairn_elias_fano_reader){
	    .data = data, .size = size, .count = count, .max = max, .low = low};
	if (!cairn_elias_fano_size(count, max, low, &needed) || needed != size)
		return false;
	if (size == 0)
		return true;
	size_t lows = (size_t)bytes_of(count * low);
	reader->upper = data + lows;
	reader->upper_size = size - lows;
	reader->word = load(reader->upper, reader->upper_size, 0);
	return true;
}

/* The low part of value `i`, which up to nine bytes may have a share in. */
static uint64_t get_low(const struct cairn_elias_fano_reader *reader, uint64_t i)
{
	uint64_t bit = i * reader->low;
	unsigned shift = (unsigned)(bit % 8);
	uint64_t part = load(reader->data, reader->size, bit / 8) >> shift;
	if (shift + reader->low > 64)
		part |= load(reader->data, reader->size, bit / 8 + 8) << (64 - shift);
	return part & low_mask(reader->low);
}

bool cairn_elias_fano_next(struct cairn_elias_fano_reader *reader, uint64_t *value)
{
	while (reader->word == 0) {
		reader->word_at += 64;
		if (reader->word_at / 8 >= reader->upper_size)
			return false;
		reader->word = load(reader->upper, reader->upper_size, reader->word_at / 8);
	}
	uint64_t bit = reader->word_at + (unsigned)__builtin_ctzll(reader->word);
	reader->word &= reader->word - 1;
	uint64_t upper = bit - reader->done;
	uint64_t next = upper << reader->low | get_low(reader, reader->done);
	if (upper > reader->max >> reader->low || next > reader->max || next < reader->last)
		return false;
	reader->done++;
	reader->last = next;
	*value = next;
	return true;
}

bool cairn_elias_fano_at_end(const struct cairn_elias_fano_reader *reader)
{
	if (reader->size == 0)
		return true;
	uint64_t used = reader->count * reader->low, spare = bytes_of(used) * 8 - used;
	if (spare > 0 && reader->data[bytes_of(used) - 1] >> (8 - spare) != 0)
		return false;
	if (reader->word != 0)
		return false;
	for (size_t i = (size_t)(reader->word_at / 8) + 8; i < reader->upper_size; i++) {
		if (reader->upper[i] != 0)
			return false;
	}
	return true;
}
