/*
 * format/base.h -- slices, records and small arithmetic that every layer uses.
 */
#ifndef CAIRN_FORMAT_BASE_H
#define CAIRN_FORMAT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/cairn_status.h"

#define CAIRN_LIKELY(x)   __builtin_expect(!!(x), 1)
#define CAIRN_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* What a record says of its key. Stored in logs and runs; 0 is never a kind. */
enum cairn_kind {
	CAIRN_KIND_PUT = 1,
	CAIRN_KIND_DELETE = 2, /* a tombstone; its value is empty */
};

/*
 * One record on its way through the layers. `checksum` is the record checksum (format/checksum.h):
 * computed once when the user wrote the record and carried unchanged ever after.
 */
struct cairn_record {
	cairn_slice key;
	cairn_slice value;
	uint32_t checksum;
	enum cairn_kind kind;
};

static inline cairn_slice cairn_slice_of(const void *data, size_t size)
{
	return (cairn_slice){data, size};
}

/* Order of keys: unsigned bytes, shorter first. <0, 0, >0 as memcmp. */
static inline int cairn_key_compare(cairn_slice a, cairn_slice b)
{
	size_t n = a.size < b.size ? a.size : b.size;
	int order = n ? memcmp(a.data, b.data, n) : 0;
	if (order)
		return order;
	return a.size < b.size ? -1 : a.size > b.size;
}

static inline bool cairn_key_equal(cairn_slice a, cairn_slice b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Length of the longest common prefix. */
static inline size_t cairn_key_common(cairn_slice a, cairn_slice b)
{
	const uint8_t *x = a.data, *y = b.data;
	size_t n = a.size < b.size ? a.size : b.size, i = 0;
	while (i < n && x[i] == y[i])
		i++;
	return i;
}

/*
 * Whether `key` begins with the `size` bytes at `prefix`, behind which 8 more can be read. As good
 * as memcmp, and without a call for short ones.
 */
static inline bool cairn_key_begins(cairn_slice key, const void *prefix, size_t size)
{
	uint64_t a, b, c, d;
	if (size > 16 || key.size < 8 || key.size < size)
		return key.size >= size && (size == 0 || memcmp(key.data, prefix, size) == 0);
	memcpy(&a, key.data, 8);
	memcpy(&b, prefix, 8);
	if (size <= 8) {
		uint64_t differ = a ^ b;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		differ = __builtin_bswap64(differ);
#endif
		return size == 0 || differ >> (64 - 8 * size) == 0;
	}
	memcpy(&c, (const uint8_t *)key.data + size - 8, 8);
	memcpy(&d, (const uint8_t *)prefix + size - 8, 8);
	return ((a ^ b) | (c ^ d)) == 0;
}

/* The 8 bytes of `key` from offset `skip` as a big-endian number, zero padded: compares as the
 * bytes do. */
static inline uint64_t cairn_key_head(cairn_slice key, size_t skip)
{
	if (skip >= key.size)
		return 0;
	const uint8_t *p = key.data;
	size_t left = key.size - skip, dropped = 0;
	uint64_t head = 0;
	if (CAIRN_LIKELY(left >= 8)) {
		memcpy(&head, p + skip, 8);
	} else if (key.size >= 8) { /* its last 8 bytes, without those before `skip` */
		memcpy(&head, p + key.size - 8, 8);
		dropped = 8 - left;
	} else {
		memcpy(&head, p + skip, left);
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	head = __builtin_bswap64(head);
#endif
	return head << 8 * dropped;
}

/* `alignment` is a power of two. */
static inline uint64_t cairn_round_up(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) & ~(alignment - 1);
}

#endif
