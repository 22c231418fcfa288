/*
 * tools/bench/keys.h -- the records of a benchmark: which there are, their keys and values, and
 * which of them a store should hold right now.
 *
 * Record i of `count` has a key of hexadecimal digits that follow from a number: the first up to
 * 16 digits are a one-to-one scramble of i + seed, so that keys are distinct and their order has
 * nothing to do with i; more digits follow from those. Records from `count` on are never written:
 * their keys lie between the others. The value of a record follows from its number and its
 * version: half noise, half a repeated byte.
 *
 * 1. `version[i]` is the version of record i that the store acknowledged last, 0 when it should
 *    not be there; `asked[i]` is the one that was asked for last. They differ during a write
 *    only. Versions count from 1 to 255 and start over.
 * 2. A record is written by one thread at a time, and may be read by others meanwhile: what they
 *    may find is a version from `version` before the read to `asked` after it.
 * 3. `order` lists all records by key once somebody has asked for it.
 */
#ifndef CAIRN_TOOLS_BENCH_KEYS_H
#define CAIRN_TOOLS_BENCH_KEYS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "store/cairn.h"

#define CAIRN_BENCH_KEY_LEAST 8u
#define CAIRN_BENCH_KEY_MOST  1024u

struct bench_keys {
	uint64_t seed;
	uint32_t count;
	size_t key_size;
	size_t value_size;
	_Atomic uint8_t *version;
	_Atomic uint8_t *asked;
	uint32_t *order;
};

/* A one-to-one scramble of 64-bit numbers. */
static inline uint64_t cairn_bench_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void cairn_bench_keys_init(
    struct bench_keys *keys, uint64_t seed, uint32_t count, size_t key_size, size_t value_size);
void cairn_bench_keys_release(struct bench_keys *keys);

/* No record should be there. */
void cairn_bench_keys_forget(struct bench_keys *keys);

void cairn_bench_key(const struct bench_keys *keys, uint64_t record, char *key);
void cairn_bench_value(
    const struct bench_keys *keys, uint64_t record, uint8_t version, uint8_t *value);

/* The records by key; made at the first call. */
const uint32_t *cairn_bench_order(struct bench_keys *keys);

/* The version that was acknowledged last. */
static inline uint8_t cairn_bench_version(const struct bench_keys *keys, uint64_t record)
{
	return atomic_load_explicit(&keys->version[record], memory_order_acquire);
}

static inline uint8_t cairn_bench_next_version(uint8_t version)
{
	return version == UINT8_MAX ? 1 : (uint8_t)(version + 1);
}

#endif
