/*
 * format/run_file.h -- header and footer of a `.kv` file: what writer and reader of runs share.
 *
 * File:  header (128) | blocks | seek section | [point index] | first key, last key |
 *	  footer (512, last)
 * Sections start at multiples of 128, zero padded in between.
 */
#ifndef CAIRN_FORMAT_RUN_FILE_H
#define CAIRN_FORMAT_RUN_FILE_H

#include "format/identity.h"

#define CAIRN_RUN_VERSION      1u
#define CAIRN_RUN_HEADER_SIZE  128u
#define CAIRN_RUN_FOOTER_SIZE  512u
#define CAIRN_RUN_SECTIONS_MAX 12u

/* Flags of a run. */
#define CAIRN_RUN_KINDS        1u /* blocks carry a kinds word */

enum cairn_run_section {
	CAIRN_SECTION_BLOCKS = 1, /* checksum: of each block, seeded with that of those before it */
	CAIRN_SECTION_SEEK = 2,
	CAIRN_SECTION_BOUNDS = 3, /* u32 size, first key, u32 size, last key */
	CAIRN_SECTION_POINT = 4,  /* the point index, where the run has one (point_index.h) */
};

struct cairn_run_extent {
	uint32_t section; /* enum cairn_run_section; readers skip what they do not know */
	uint32_t checksum;
	uint64_t offset;
	uint64_t size;
};

struct cairn_run_header {
	struct cairn_identity identity;
	uint64_t number; /* the file's own, as in its name when it was written; 0: a frozen table */
	uint32_t format; /* CAIRN_KV02 */
	uint32_t flags;
};

struct cairn_run_footer {
	uint64_t number;
	uint32_t format;
	uint32_t flags;
	uint64_t records; /* tombstones included */
	uint64_t blocks;
	uint64_t tombstones;
	uint64_t key_bytes; /* sums over the records, before coding */
	uint64_t value_bytes;
	uint64_t
	    sequence_low; /* ages of what is inside: for repair and cross-checks, never for reads */
	uint64_t sequence_high;
	uint32_t prefix_size; /* bytes common to all keys of the file */
	uint32_t extents;
	struct cairn_run_extent extent[CAIRN_RUN_SECTIONS_MAX];
	uint32_t checksum; /* of the footer itself; names this very file in the manifest */
};

void cairn_run_header_encode(const struct cairn_run_header *header, uint8_t *bytes);
/* 0, or CAIRN_CORRUPT / CAIRN_UNSUPPORTED (a newer version, both numbers named) with message. */
int cairn_run_header_decode(
    struct cairn_run_header *header, const uint8_t *bytes, const char *path);

/* Sets footer->checksum. */
void cairn_run_footer_encode(struct cairn_run_footer *footer, uint8_t *bytes);
/* Checks everything that can be checked without the rest of the file: extents inside file_size,
 * ascending, counts plausible. `file_size` >= header + footer. */
int cairn_run_footer_decode(
    struct cairn_run_footer *footer, const uint8_t *bytes, uint64_t file_size, const char *path);

/* The extent of a section, or NULL. */
const struct cairn_run_extent *cairn_run_footer_extent(
    const struct cairn_run_footer *footer, enum cairn_run_section section);

#endif
