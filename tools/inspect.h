/*
 * tools/inspect.h -- what the parts of `cairn inspect` share: one file of a store in memory, and
 * how its contents are printed and its faults are told.
 *
 * A part prints what its kind of file says, in the order of format/README.md, and goes on behind
 * a fault as far as anything can be believed. Nothing here trusts a byte: all reading is done by
 * the decoders of format/, which are made for hostile bytes.
 *
 * Standard output belongs to one thread.
 */
#ifndef CAIRN_TOOLS_INSPECT_H
#define CAIRN_TOOLS_INSPECT_H

#include "format/filename.h"
#include "format/identity.h"
#include "tools/escape.h"

/* Zeros behind the file's last byte, which cairn_kv02_open wants to be there. */
#define CAIRN_INSPECT_SLACK 64u

struct cairn_inspection {
	const char *path;
	uint8_t *bytes;
	size_t size;
	enum cairn_file_kind named; /* what the name says, … */
	uint64_t named_number;      /* … and its number, 0 when it has none */
	bool blocks;
	bool records;
	enum cairn_escape escape;
	uint64_t problems;
};

/* The parts. 0, or -ENOMEM. */
int cairn_inspect_run(struct cairn_inspection *inspection);
int cairn_inspect_log(struct cairn_inspection *inspection);
int cairn_inspect_fraction(struct cairn_inspection *inspection);
int cairn_inspect_manifest(struct cairn_inspection *inspection);

/* A fault: printed where it was found, counted. */
void cairn_inspect_problem(struct cairn_inspection *inspection, uint64_t offset, const char *format,
    ...) __attribute__((format(printf, 3, 4)));
/* The same with the words of the decoder that failed last. */
void cairn_inspect_failure(struct cairn_inspection *inspection);

/* One line of what a file says. */
void cairn_inspect_field(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cairn_inspect_identity(const struct cairn_identity *identity);
/* Ends a line with a key. */
void cairn_inspect_key(const struct cairn_inspection *inspection, cairn_slice key);
const char *cairn_inspect_verdict(bool good); /* "ok", "BAD" */

/* Compares the number at `offset` of the file with the one in its name. */
void cairn_inspect_number(struct cairn_inspection *inspection, uint64_t number, uint64_t offset);

/*
 * Makes good the magic and the checksum of a damaged part, in a copy of it: then a decoder shows
 * what else stands there. The checksum covers the bytes from `from` up to `to` and is put at `at`.
 */
struct cairn_inspect_frame {
	const char *magic;
	size_t from, to, at;
};
void cairn_inspect_mend(uint8_t *copy, const struct cairn_inspect_frame *frame);

#endif
