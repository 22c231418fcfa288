/*
 * tools/escape.h -- bytes as text and back: how keys and values look on a command line, in what
 * scan and dump print and in what load reads.
 */
#ifndef CAIRN_TOOLS_ESCAPE_H
#define CAIRN_TOOLS_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "store/cairn.h"

enum cairn_escape {
	CAIRN_ESCAPE_TEXT, /* backslash as \\, all but 0x20 to 0x7e as \xNN; read, other bytes stand
			      for themselves */
	CAIRN_ESCAPE_HEX,  /* two digits for each byte */
};

/*
 * The bytes that `text` stands for. `out` has room for `size` bytes and may be `text` itself. False
 * when the text is not valid: then *out_size is the offset in it of what is wrong, and `out` is
 * spoiled.
 */
bool cairn_escape_decode(
    enum cairn_escape escape, const char *text, size_t size, void *out, size_t *out_size);

/* What valid text has at the offset of a failed decode: for a complaint. */
const char *cairn_escape_expected(enum cairn_escape escape);

/* Writes `bytes` as text. False when the stream has failed. The caller has the stream to itself. */
bool cairn_escape_print(FILE *stream, enum cairn_escape escape, cairn_slice bytes);

#endif
