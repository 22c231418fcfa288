/*
 * format/bytes.h -- little-endian access to bytes, and the two bounded ways through a buffer:
 * `struct cairn_input` is consumed from the front and knows its end, `struct cairn_output` is
 * filled and knows its capacity. Nothing in cairn casts a struct over bytes from a file.
 *
 * Both are sticky: after the first access out of bounds `bad` is set, reads give zeros, writes do
 * nothing, and one check at the end is enough.
 */
#ifndef CAIRN_FORMAT_BYTES_H
#define CAIRN_FORMAT_BYTES_H

#include "format/base.h"

static inline uint16_t cairn_get16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap16(v);
#endif
	return v;
}

static inline uint32_t cairn_get32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static inline uint64_t cairn_get64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

static inline void cairn_put16(void *p, uint16_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap16(v);
#endif
	memcpy(p, &v, sizeof v);
}

static inline void cairn_put32(void *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	memcpy(p, &v, sizeof v);
}

static inline void cairn_put64(void *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	memcpy(p, &v, sizeof v);
}

struct cairn_input {
	const uint8_t *next;
	const uint8_t *end;
	bool bad;
};

static inline struct cairn_input cairn_input_of(const void *data, size_t size)
{
	return (struct cairn_input){data, size ? (const uint8_t *)data + size : data, false};
}

static inline size_t cairn_input_left(const struct cairn_input *in)
{
	return (size_t)(in->end - in->next);
}

/* The next `size` bytes, or NULL and `bad`. */
static inline const uint8_t *cairn_input_bytes(struct cairn_input *in, size_t size)
{
	if (in->bad || cairn_input_left(in) < size) {
		in->bad = true;
		return NULL;
	}
	const uint8_t *p = in->next;
	in->next += size;
	return p;
}

static inline uint8_t cairn_input8(struct cairn_input *in)
{
	const uint8_t *p = cairn_input_bytes(in, 1);
	return p ? *p : 0;
}

static inline uint16_t cairn_input16(struct cairn_input *in)
{
	const uint8_t *p = cairn_input_bytes(in, 2);
	return p ? cairn_get16(p) : 0;
}

static inline uint32_t cairn_input32(struct cairn_input *in)
{
	const uint8_t *p = cairn_input_bytes(in, 4);
	return p ? cairn_get32(p) : 0;
}

static inline uint64_t cairn_input64(struct cairn_input *in)
{
	const uint8_t *p = cairn_input_bytes(in, 8);
	return p ? cairn_get64(p) : 0;
}

struct cairn_output {
	uint8_t *start;
	uint8_t *next;
	uint8_t *end;
	bool bad;
};

static inline struct cairn_output cairn_output_of(void *data, size_t capacity)
{
	return (struct cairn_output){
	    data, data, capacity ? (uint8_t *)data + capacity : data, false};
}

static inline size_t cairn_output_size(const struct cairn_output *out)
{
	return (size_t)(out->next - out->start);
}

/* Room for `size` bytes, or NULL and `bad`. */
static inline uint8_t *cairn_output_room(struct cairn_output *out, size_t size)
{
	if (out->bad || (size_t)(out->end - out->next) < size) {
		out->bad = true;
		return NULL;
	}
	uint8_t *p = out->next;
	out->next += size;
	return p;
}

static inline void cairn_output_bytes(struct cairn_output *out, const void *data, size_t size)
{
	uint8_t *p = cairn_output_room(out, size);
	if (p && size)
		memcpy(p, data, size);
}

static inline void cairn_output_zeros(struct cairn_output *out, size_t size)
{
	uint8_t *p = cairn_output_room(out, size);
	if (p && size)
		memset(p, 0, size);
}

static inline void cairn_output8(struct cairn_output *out, uint8_t v)
{
	uint8_t *p = cairn_output_room(out, 1);
	if (p)
		*p = v;
}

static inline void cairn_output16(struct cairn_output *out, uint16_t v)
{
	uint8_t *p = cairn_output_room(out, 2);
	if (p)
		cairn_put16(p, v);
}

static inline void cairn_output32(struct cairn_output *out, uint32_t v)
{
	uint8_t *p = cairn_output_room(out, 4);
	if (p)
		cairn_put32(p, v);
}

static inline void cairn_output64(struct cairn_output *out, uint64_t v)
{
	uint8_t *p = cairn_output_room(out, 8);
	if (p)
		cairn_put64(p, v);
}

#endif
