/*
 * format/checksum.h -- every hash and checksum of cairn: XXH3, 64 bits or the low 32 of them.
 * The one user of xxhash.
 *
 * The record checksum binds key, kind and value together without storing more than four bytes:
 *	h        = XXH3_64(key, seed of the store)
 *	checksum = low 32 bits of XXH3_64(value, h ^ kind)
 * It is made once, by the call that writes the record, and carried unchanged through log, memtable,
 * runs and merges, so bytes damaged in memory on the way to disk never get a valid checksum.
 */
#ifndef CAIRN_FORMAT_CHECKSUM_H
#define CAIRN_FORMAT_CHECKSUM_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "format/base.h"

static inline uint64_t cairn_hash(const void *data, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, size, seed);
}

static inline uint32_t cairn_checksum(const void *data, size_t size, uint64_t seed)
{
	return (uint32_t)cairn_hash(data, size, seed);
}

static inline uint64_t cairn_key_hash(cairn_slice key, uint64_t seed)
{
	return cairn_hash(key.data, key.size, seed);
}

static inline uint32_t cairn_record_checksum(
    uint64_t key_hash, enum cairn_kind kind, cairn_slice value)
{
	return cairn_checksum(value.data, value.size, key_hash ^ (uint64_t)kind);
}

#endif
