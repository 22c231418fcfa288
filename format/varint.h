/*
 * format/varint.h -- unsigned integers in 1 to 5 bytes: 7 bits each, lowest first, high bit = more.
 * Only the shortest form of a number is valid.
 */
#ifndef CAIRN_FORMAT_VARINT_H
#define CAIRN_FORMAT_VARINT_H

#include "format/bytes.h"

#define CAIRN_VARINT32_MAX 5

static inline size_t cairn_varint_size(uint32_t v)
{
	return v < 1u << 7 ? 1 : v < 1u << 14 ? 2 : v < 1u << 21 ? 3 : v < 1u << 28 ? 4 : 5;
}

/* Writes cairn_varint_size(v) bytes at `p`; returns the byte behind them. */
static inline uint8_t *cairn_varint_put(uint8_t *p, uint32_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* Consumes one number; an overlong, oversized or cut one makes the input bad and gives 0. */
static inline uint32_t cairn_input_varint(struct cairn_input *in)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift <= 28; shift += 7) {
		uint8_t byte = cairn_input8(in);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			if (v > UINT32_MAX || (byte == 0 && shift > 0))
				in->bad = true;
			return in->bad ? 0 : (uint32_t)v;
		}
	}
	in->bad = true;
	return 0;
}

#endif
