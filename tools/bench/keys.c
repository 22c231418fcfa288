/* tools/bench/keys.c -- see keys.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/bench/engine.h"
#include "tools/bench/keys.h"

#define DIGITS 16u /* of a 64-bit number */

void cairn_bench_keys_init(
    struct bench_keys *keys, uint64_t seed, uint32_t count, size_t key_size, size_t value_size)
{
	*keys = (struct bench_keys){
	    .seed = seed, .count = count, .key_size = key_size, .value_size = value_size};
	keys->version = cairn_bench_new(count);
	keys->asked = cairn_bench_new(count);
}

void cairn_bench_keys_release(struct bench_keys *keys)
{
	free(keys->version);
	free(keys->asked);
	free(keys->order);
}

void cairn_bench_keys_forget(struct bench_keys *keys)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		keys->version[i] = 0;
		keys->asked[i] = 0;
	}
}

/* The number whose digits begin the key of a record: each step undoes nothing of its input, in as
 * many bits as the key has digits for, so that distinct records have distinct numbers. */
static uint64_t number_of(const struct bench_keys *keys, uint64_t record)
{
	if (keys->key_size >= DIGITS)
		return cairn_bench_mix(record + keys->seed);
	unsigned bits = 4 * (unsigned)keys->key_size;
	uint64_t mask = (UINT64_C(1) << bits) - 1, z = (record + keys->seed) & mask;
	for (int round = 0; round < 3; round++) {
		z ^= z >> (bits / 2);
		z = z * UINT64_C(0xbf58476d1ce4e5b9) & mask;
	}
	return z ^ (z >> (bits / 2));
}

/* The lowest `count` digits of the number, at most 16. */
static void write_digits(char *to, uint64_t number, size_t count)
{
	for (size_t i = count; i > 0; i--, number >>= 4)
		to[i - 1] = "0123456789abcdef"[number & 15];
}

void cairn_bench_key(const struct bench_keys *keys, uint64_t record, char *key)
{
	uint64_t number = number_of(keys, record);
	for (size_t at = 0; at < keys->key_size; at += DIGITS) {
		size_t left = keys->key_size - at;
		write_digits(key + at, number, left < DIGITS ? left : DIGITS);
		number = cairn_bench_mix(number + 1);
	}
}

void cairn_bench_value(
    const struct bench_keys *keys, uint64_t record, uint8_t version, uint8_t *value)
{
	uint64_t noise = cairn_bench_mix((record << 8 | version) ^ ~keys->seed);
	size_t half = (keys->value_size + 1) / 2;
	for (size_t i = 0; i < half; i += sizeof noise) {
		noise = cairn_bench_mix(noise + i + 1);
		memcpy(value + i, &noise, half - i < sizeof noise ? half - i : sizeof noise);
	}
	if (keys->value_size)
		memset(value + half, (int)(noise >> 58) + ' ', keys->value_size - half);
}

static int by_number(const void *a, const void *b, void *context)
{
	uint64_t x = number_of(context, *(const uint32_t *)a);
	uint64_t y = number_of(context, *(const uint32_t *)b);
	return (x > y) - (x < y);
}

/* The order of the numbers is that of their digits. */
const uint32_t *cairn_bench_order(struct bench_keys *keys)
{
	if (!keys->order) {
		keys->order = cairn_bench_new(keys->count * sizeof *keys->order);
		for (uint32_t i = 0; i < keys->count; i++)
			keys->order[i] = i;
		qsort_r(keys->order, keys->count, sizeof *keys->order, by_number, keys);
	}
	return keys->order;
}
