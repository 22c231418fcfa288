/*
 * tests/sample.h -- random keys and values of the shapes that matter.
 *
 * There are about two thousand keys, so that overwrites and deletes of keys that exist are common.
 */
#ifndef CAIRN_TESTS_SAMPLE_H
#define CAIRN_TESTS_SAMPLE_H

#include <stdint.h>

#include "format/cairn_status.h"

/* What the buffers below have to hold. */
#define SAMPLE_KEY_SIZE   CAIRN_KEY_MAX
#define SAMPLE_VALUE_SIZE 300000u

/* One of the keys, in `buffer`. */
cairn_slice sample_key(uint64_t *random, uint8_t *buffer);

/* A place in the order of keys: one of them, or something close to one. */
cairn_slice sample_bound(uint64_t *random, uint8_t *buffer);

/* Most have tens of bytes, few have 64 KiB, very few more than a small memtable holds. */
cairn_slice sample_value(uint64_t *random, uint8_t *buffer);

/* `size` random bytes. */
cairn_slice sample_bytes(uint64_t *random, uint8_t *buffer, size_t size);

#endif
