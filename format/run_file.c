/*
 * format/run_file.c -- the fixed parts of a `.kv` file.
 *
 * Header, at offset 0:
 *	0      8  magic "cairn.kv"
 *	8      4  version of the file format, 1
 *	12     4  format of the blocks: 2 = KV02
 *	16     4  flags: bit 0 = blocks carry a kinds word
 *	20     4  zeros
 *	24    16  store id
 *	40     8  hash seed of the store
 *	48     8  number of the file; 0: a frozen table, which belongs to no store
 *	56    68  zeros
 *	124    4  checksum of the 124 bytes before it
 *
 * Footer, the last 512 bytes:
 *	0      8  magic "kv.cairn"
 *	8      4  version, as in the header
 *	12     4  format, as in the header
 *	16     4  flags, as in the header
 *	20     4  prefix size: bytes common to all keys
 *	24     8  number, as in the header
 *	32     8  records, tombstones included
 *	40     8  blocks
 *	48     8  tombstones
 *	56     8  sum of the sizes of the keys
 *	64     8  sum of the sizes of the values
 *	72     8  lowest sequence of what is inside
 *	80     8  highest sequence
 *	88     4  number of extents, at most 12
 *	92     4  zeros
 *	96   288  extents, zeros behind the last: u32 section, u32 checksum, u64 offset, u64 size
 *	384  124  zeros
 *	508    4  checksum of the 508 bytes before it
 *
 * Invariants.
 * 1. Magic, version and the place of the checksum are the same in every version to come, so that a
 * newer version is told from damage.
 * 2. Extents follow each other and fill the file: each starts at the first multiple of 128 behind
 * the one before it (the first behind the header), the footer at the first one behind them all.
 * 3. The checksum of an extent covers its `size` bytes. The block section has 0 instead: its key
 * areas and records have checksums of their own.
 *
 * Checksums here are unseeded. Threads: nothing here has state.
 */
#include "format/run_file.h"

#include <inttypes.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/kv02_block.h"

#define MAGIC_SIZE      8u
#define HEADER_CHECKSUM 124u
#define FOOTER_CHECKSUM 508u
#define EXTENTS         96u
#define EXTENT_SIZE     24u
#define ALIGNMENT       128u /* of sections and footer */

_Static_assert(HEADER_CHECKSUM + 4 == CAIRN_RUN_HEADER_SIZE, "the header's table adds up");
_Static_assert(FOOTER_CHECKSUM + 4 == CAIRN_RUN_FOOTER_SIZE, "the footer's table adds up");
_Static_assert(EXTENTS + CAIRN_RUN_SECTIONS_MAX * EXTENT_SIZE == 384, "extents have their place");

static const char header_magic[MAGIC_SIZE + 1] = "cairn.kv";
static const char footer_magic[MAGIC_SIZE + 1] = "kv.cairn";

/* Magic, checksum, then version: the order in which they can be believed. */
static int check_frame(
    const uint8_t *bytes, size_t size, const char *magic, const char *path, uint64_t offset)
{
	if (memcmp(bytes, magic, MAGIC_SIZE) != 0)
		return cairn_error_at(CAIRN_CORRUPT, path, offset,
		    "expected \"%s\" here: not a run, or cut short; run cairn verify, then cairn "
		    "repair",
		    magic);
	if (cairn_get32(bytes + size - 4) != cairn_checksum(bytes, size - 4, 0))
		return cairn_error_at(CAIRN_CORRUPT, path, offset,
		    "the checksum of these %zu bytes does not match; run cairn verify, then cairn "
		    "repair",
		    size);
	uint32_t version = cairn_get32(bytes + MAGIC_SIZE);
	if (version != CAIRN_RUN_VERSION)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, offset,
		    "run file version %" PRIu32 "; this cairn reads version %u", version,
		    CAIRN_RUN_VERSION);
	return 0;
}

static int check_coding(uint32_t format, uint32_t flags, const char *path, uint64_t offset)
{
	if (format != CAIRN_KV02)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, offset,
		    "block format KV%02" PRIu32 "; this cairn reads KV%02d", format, CAIRN_KV02);
	if (flags & ~CAIRN_RUN_KINDS)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, offset,
		    "flags 0x%" PRIx32 "; this cairn knows 0x%x", flags, CAIRN_RUN_KINDS);
	return 0;
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

void cairn_run_header_encode(const struct cairn_run_header *header, uint8_t *bytes)
{
	memset(bytes, 0, CAIRN_RUN_HEADER_SIZE);
	memcpy(bytes, header_magic, MAGIC_SIZE);
	cairn_put32(bytes + 8, CAIRN_RUN_VERSION);
	cairn_put32(bytes + 12, header->format);
	cairn_put32(bytes + 16, header->flags);
	memcpy(bytes + 24, header->identity.store_id, sizeof header->identity.store_id);
	cairn_put64(bytes + 40, header->identity.hash_seed);
	cairn_put64(bytes + 48, header->number);
	cairn_put32(bytes + HEADER_CHECKSUM, cairn_checksum(bytes, HEADER_CHECKSUM, 0));
}

int cairn_run_header_decode(struct cairn_run_header *header, const uint8_t *bytes, const char *path)
{
	*header = (struct cairn_run_header){0};
	int code = check_frame(bytes, CAIRN_RUN_HEADER_SIZE, header_magic, path, 0);
	if (code != 0)
		return code;
	uint32_t format = cairn_get32(bytes + 12);
	uint32_t flags = cairn_get32(bytes + 16);
	code = check_coding(format, flags, path, 0);
	if (code != 0)
		return code;
	if (!all_zero(bytes + 20, 4) || !all_zero(bytes + 56, 68))
		return cairn_error_at(CAIRN_CORRUPT, path, 0,
		    "padding of the header is not zero; run cairn verify, then cairn repair");
	header->format = format;
	header->flags = flags;
	memcpy(header->identity.store_id, bytes + 24, sizeof header->identity.store_id);
	header->identity.hash_seed = cairn_get64(bytes + 40);
	header->number = cairn_get64(bytes + 48);
	return 0;
}

void cairn_run_footer_encode(struct cairn_run_footer *footer, uint8_t *bytes)
{
	memset(bytes, 0, CAIRN_RUN_FOOTER_SIZE);
	memcpy(bytes, footer_magic, MAGIC_SIZE);
	cairn_put32(bytes + 8, CAIRN_RUN_VERSION);
	cairn_put32(bytes + 12, footer->format);
	cairn_put32(bytes + 16, footer->flags);
	cairn_put32(bytes + 20, footer->prefix_size);
	cairn_put64(bytes + 24, footer->number);
	cairn_put64(bytes + 32, footer->records);
	cairn_put64(bytes + 40, footer->blocks);
	cairn_put64(bytes + 48, footer->tombstones);
	cairn_put64(bytes + 56, footer->key_bytes);
	cairn_put64(bytes + 64, footer->value_bytes);
	cairn_put64(bytes + 72, footer->sequence_low);
	cairn_put64(bytes + 80, footer->sequence_high);
	cairn_put32(bytes + 88, footer->extents);
	uint8_t *p = bytes + EXTENTS;
	for (unsigned i = 0; i < footer->extents; i++, p += EXTENT_SIZE) {
		cairn_put32(p, footer->extent[i].section);
		cairn_put32(p + 4, footer->extent[i].checksum);
		cairn_put64(p + 8, footer->extent[i].offset);
		cairn_put64(p + 16, footer->extent[i].size);
	}
	footer->checksum = cairn_checksum(bytes, FOOTER_CHECKSUM, 0);
	cairn_put32(bytes + FOOTER_CHECKSUM, footer->checksum);
}

static void read_footer(struct cairn_run_footer *footer, const uint8_t *bytes)
{
	footer->format = cairn_get32(bytes + 12);
	footer->flags = cairn_get32(bytes + 16);
	footer->prefix_size = cairn_get32(bytes + 20);
	footer->number = cairn_get64(bytes + 24);
	footer->records = cairn_get64(bytes + 32);
	footer->blocks = cairn_get64(bytes + 40);
	footer->tombstones = cairn_get64(bytes + 48);
	footer->key_bytes = cairn_get64(bytes + 56);
	footer->value_bytes = cairn_get64(bytes + 64);
	footer->sequence_low = cairn_get64(bytes + 72);
	footer->sequence_high = cairn_get64(bytes + 80);
	footer->extents = cairn_get32(bytes + 88);
	const uint8_t *p = bytes + EXTENTS;
	for (unsigned i = 0; i < footer->extents && i < CAIRN_RUN_SECTIONS_MAX; i++) {
		footer->extent[i].section = cairn_get32(p);
		footer->extent[i].checksum = cairn_get32(p + 4);
		footer->extent[i].offset = cairn_get64(p + 8);
		footer->extent[i].size = cairn_get64(p + 16);
		p += EXTENT_SIZE;
	}
	footer->checksum = cairn_get32(bytes + FOOTER_CHECKSUM);
}

/* What is wrong with the extents (invariants 2 and 3), or NULL. `end`: where the footer begins. */
static const char *check_extents(const struct cairn_run_footer *footer, uint64_t end)
{
	uint64_t next = CAIRN_RUN_HEADER_SIZE;
	for (unsigned i = 0; i < footer->extents; i++) {
		const struct cairn_run_extent *extent = &footer->extent[i];
		if (extent->offset != next || extent->offset > end ||
		    extent->size > end - extent->offset)
			return "a section is not where it must be";
		if (cairn_run_footer_extent(footer, extent->section) != extent)
			return "a section is named twice";
		next = cairn_round_up(extent->offset + extent->size, ALIGNMENT);
	}
	if (next != end)
		return "the sections do not fill the file";
	const struct cairn_run_extent *blocks =
	    cairn_run_footer_extent(footer, CAIRN_SECTION_BLOCKS);
	if (!blocks || !cairn_run_footer_extent(footer, CAIRN_SECTION_SEEK) ||
	    !cairn_run_footer_extent(footer, CAIRN_SECTION_BOUNDS))
		return "a section is missing";
	return NULL;
}

/* What is wrong with the counts, or NULL. A block has 1 to 15 records and 8 bytes at least. */
static const char *check_counts(const struct cairn_run_footer *footer)
{
	uint64_t room = cairn_run_footer_extent(footer, CAIRN_SECTION_BLOCKS)->size;
	if (footer->blocks == 0 || footer->blocks > room / 8)
		return "the number of blocks cannot be";
	if (footer->records < footer->blocks ||
	    footer->records > footer->blocks * CAIRN_BLOCK_RECORDS)
		return "the number of records cannot be";
	if (footer->tombstones > footer->records ||
	    (footer->tombstones > 0 && !(footer->flags & CAIRN_RUN_KINDS)))
		return "the number of tombstones cannot be";
	if (footer->key_bytes / CAIRN_KEY_MAX > footer->records || footer->value_bytes > room)
		return "the sizes of keys and values cannot be";
	if (footer->prefix_size > CAIRN_KEY_MAX ||
	    footer->prefix_size > footer->key_bytes / footer->records)
		return "the size of the common prefix cannot be";
	if (footer->sequence_low > footer->sequence_high)
		return "the sequence interval is upside down";
	return NULL;
}

int cairn_run_footer_decode(
    struct cairn_run_footer *footer, const uint8_t *bytes, uint64_t file_size, const char *path)
{
	*footer = (struct cairn_run_footer){0};
	uint64_t at = file_size - CAIRN_RUN_FOOTER_SIZE;
	int code = check_frame(bytes, CAIRN_RUN_FOOTER_SIZE, footer_magic, path, at);
	if (code != 0)
		return code;
	read_footer(footer, bytes);
	code = check_coding(footer->format, footer->flags, path, at);
	if (code != 0)
		return code;

	const char *wrong = NULL;
	size_t used = EXTENTS + (size_t)footer->extents * EXTENT_SIZE;
	if (footer->extents > CAIRN_RUN_SECTIONS_MAX)
		wrong = "the number of sections cannot be";
	else if (!all_zero(bytes + 92, 4) || !all_zero(bytes + used, FOOTER_CHECKSUM - used))
		wrong = "padding of the footer is not zero";
	else
		wrong = check_extents(footer, at);
	if (!wrong)
		wrong = check_counts(footer);
	if (wrong) {
		*footer = (struct cairn_run_footer){0};
		return cairn_error_at(
		    CAIRN_CORRUPT, path, at, "%s; run cairn verify, then cairn repair", wrong);
	}
	return 0;
}

const struct cairn_run_extent *cairn_run_footer_extent(
    const struct cairn_run_footer *footer, enum cairn_run_section section)
{
	for (unsigned i = 0; i < footer->extents && i < CAIRN_RUN_SECTIONS_MAX; i++) {
		if (footer->extent[i].section == (uint32_t)section)
			return &footer->extent[i];
	}
	return NULL;
}
