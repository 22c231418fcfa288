/*
 * tools/escape.c -- bytes as text and back.
 *
 * 1. What print writes holds no byte below 0x20 or above 0x7e, so records can be told apart by TAB
 * and newline.
 * 2. Decoding what print wrote gives the same bytes.
 * 3. Decoded bytes are never more than the text had: decoding in place is safe.
 *
 * No state: any thread may call.
 */
#include "tools/escape.h"

#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte of two digits, or -1. */
static int hex_byte(const char *digits)
{
	int high = hex_digit(digits[0]);
	int low = hex_digit(digits[1]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool decode_hex(const char *text, size_t size, char *out, size_t *out_size)
{
	for (size_t i = 0; i < size; i += 2) {
		int byte = size - i < 2 ? -1 : hex_byte(text + i);
		if (byte < 0) {
			*out_size = i;
			return false;
		}
		out[i / 2] = (char)byte;
	}
	*out_size = size / 2;
	return true;
}

/* The size of the escape at `text` and its byte; 0 when it is none. */
static size_t decode_one(const char *text, size_t size, char *byte)
{
	if (size >= 2 && text[1] == '\\') {
		*byte = '\\';
		return 2;
	}
	int value = size >= 4 && text[1] == 'x' ? hex_byte(text + 2) : -1;
	if (value < 0)
		return 0;
	*byte = (char)value;
	return 4;
}

static bool decode_text(const char *text, size_t size, char *out, size_t *out_size)
{
	const char *p = text, *end = text + size;
	char *to = out;
	while (p < end) {
		const char *escape = memchr(p, '\\', (size_t)(end - p));
		size_t plain = (size_t)((escape ? escape : end) - p);
		if (to != p)
			memmove(to, p, plain);
		to += plain;
		p += plain;
		if (!escape)
			break;
		size_t used = decode_one(p, (size_t)(end - p), to);
		if (used == 0) {
			*out_size = (size_t)(p - text);
			return false;
		}
		to++;
		p += used;
	}
	*out_size = (size_t)(to - out);
	return true;
}

bool cairn_escape_decode(
    enum cairn_escape escape, const char *text, size_t size, void *out, size_t *out_size)
{
	if (escape == CAIRN_ESCAPE_HEX)
		return decode_hex(text, size, out, out_size);
	return decode_text(text, size, out, out_size);
}

const char *cairn_escape_expected(enum cairn_escape escape)
{
	return escape == CAIRN_ESCAPE_HEX ? "two hexadecimal digits" : "\\\\ or \\xNN";
}

static bool stands_for_itself(unsigned char c)
{
	return c >= 0x20 && c <= 0x7e && c != '\\';
}

static void print_digits(FILE *stream, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	putc_unlocked(digits[c >> 4], stream);
	putc_unlocked(digits[c & 15], stream);
}

static void print_text(FILE *stream, const unsigned char *p, size_t size)
{
	size_t i = 0;
	while (i < size) {
		size_t start = i;
		while (i < size && stands_for_itself(p[i]))
			i++;
		if (i > start)
			fwrite_unlocked(p + start, 1, i - start, stream);
		if (i == size)
			break;
		if (p[i] == '\\') {
			fwrite_unlocked("\\\\", 1, 2, stream);
		} else {
			fwrite_unlocked("\\x", 1, 2, stream);
			print_digits(stream, p[i]);
		}
		i++;
	}
}

bool cairn_escape_print(FILE *stream, enum cairn_escape escape, cairn_slice bytes)
{
	const unsigned char *p = bytes.data;
	if (escape == CAIRN_ESCAPE_TEXT) {
		print_text(stream, p, bytes.size);
	} else {
		for (size_t i = 0; i < bytes.size; i++)
			print_digits(stream, p[i]);
	}
	return !ferror_unlocked(stream);
}
