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

/* The 8 bytes of `key` from offset `skip` as a big-endian number, zero padded: compares as the
 * bytes do. */
static inline uint64_t cairn_key_head(cairn_slice key, size_t skip)
{
	if (skip >= key.size)
		return 0;
	const uint8_t *p = (const uint8_t *)key.data + skip;
	size_t n = key.size - skip;
	uint64_t head = 0;
	if (CAIRN_LIKELY(n >= 8)) {
		memcpy(&head, p, 8);
	} else {
		memcpy(&head, p, n);
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	head = __builtin_bswap64(head);
#endif
	return head;
}

/* `alignment` is a power of two. */
static inline uint64_t cairn_round_up(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) & ~(alignment - 1);
}

#endif
