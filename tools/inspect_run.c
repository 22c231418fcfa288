/*
 * tools/inspect_run.c -- what a run says.
 *
 * All blocks are read and checked in every case; the options decide what is printed of them. The
 * way from block to block is the size that each has; behind a damaged one, the seek section. When
 * the footer is lost the blocks begin where they always begin, and end at the first thing that is
 * none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/kv02_block.h"
#include "format/point_index.h"
#include "format/run_file.h"
#include "format/seek_tree.h"
#include "tools/inspect.h"

struct run {
	struct cairn_inspection *inspection;
	struct cairn_run_header header;
	struct cairn_run_footer footer;
	struct cairn_seek_tree seek;
	bool has_footer; /* its extents lie within the file */
	bool has_seek;   /* its words can be followed */
	bool whole;      /* all blocks so far could be read */
	/* What was seen, to compare with what the footer says. */
	uint64_t blocks, records, tombstones, key_bytes, value_bytes;
	uint8_t key[CAIRN_KEY_MAX];
	uint8_t previous[CAIRN_KEY_MAX];
	size_t previous_size;
	uint32_t blocks_checksum; /* of those seen so far */
};

/* ---------------------------------------------------------------- header and footer */

static void print_part(const char *name, uint64_t offset, size_t size, const uint8_t *bytes)
{
	uint32_t checksum = cairn_get32(bytes + size - 4);
	printf("%s at %" PRIu64 ", %zu bytes, checksum 0x%08" PRIx32 " %s\n", name, offset, size,
	    checksum, cairn_inspect_verdict(checksum == cairn_checksum(bytes, size - 4, 0)));
}

static void print_coding(uint32_t format, uint32_t flags, uint64_t number)
{
	cairn_inspect_field("version", "%u", CAIRN_RUN_VERSION);
	cairn_inspect_field("block format", "KV%02" PRIu32, format);
	cairn_inspect_field("flags", "0x%" PRIx32 "%s", flags,
	    flags & CAIRN_RUN_KINDS ? " (blocks carry kinds)" : "");
	cairn_inspect_field("number", "%" PRIu64, number);
}

/* False when nothing of it can be used. */
static bool read_header(struct run *run)
{
	struct cairn_inspection *inspection = run->inspection;
	uint8_t copy[CAIRN_RUN_HEADER_SIZE];
	const struct cairn_inspect_frame frame = {"cairn.kv", 0, sizeof copy - 4, sizeof copy - 4};
	if (inspection->size < sizeof copy) {
		cairn_inspect_problem(inspection, inspection->size, "the file ends in its header");
		return false;
	}
	print_part("header", 0, sizeof copy, inspection->bytes);
	int code = cairn_run_header_decode(&run->header, inspection->bytes, inspection->path);
	if (code != 0) {
		cairn_inspect_failure(inspection);
		memcpy(copy, inspection->bytes, sizeof copy);
		cairn_inspect_mend(copy, &frame);
		if (code == CAIRN_UNSUPPORTED ||
		    cairn_run_header_decode(&run->header, copy, inspection->path) != 0)
			return false;
	}
	print_coding(run->header.format, run->header.flags, run->header.number);
	cairn_inspect_identity(&run->header.identity);
	cairn_inspect_number(inspection, run->header.number, 48);
	return true;
}

static void print_footer(const struct cairn_run_footer *footer)
{
	print_coding(footer->format, footer->flags, footer->number);
	cairn_inspect_field("records", "%" PRIu64, footer->records);
	cairn_inspect_field("tombstones", "%" PRIu64, footer->tombstones);
	cairn_inspect_field("blocks", "%" PRIu64, footer->blocks);
	cairn_inspect_field("bytes of keys", "%" PRIu64, footer->key_bytes);
	cairn_inspect_field("bytes of values", "%" PRIu64, footer->value_bytes);
	cairn_inspect_field(
	    "sequences", "%" PRIu64 " to %" PRIu64, footer->sequence_low, footer->sequence_high);
	cairn_inspect_field("common prefix", "%" PRIu32 " bytes", footer->prefix_size);
}

static void read_footer(struct run *run)
{
	struct cairn_inspection *inspection = run->inspection;
	uint8_t copy[CAIRN_RUN_FOOTER_SIZE];
	const struct cairn_inspect_frame frame = {"kv.cairn", 0, sizeof copy - 4, sizeof copy - 4};
	if (inspection->size < CAIRN_RUN_HEADER_SIZE + sizeof copy) {
		cairn_inspect_problem(
		    inspection, inspection->size, "the file ends here, before its footer");
		return;
	}
	uint64_t at = inspection->size - sizeof copy;
	const uint8_t *bytes = inspection->bytes + at;
	print_part("footer", at, sizeof copy, bytes);
	int code = cairn_run_footer_decode(&run->footer, bytes, inspection->size, inspection->path);
	if (code != 0) {
		cairn_inspect_failure(inspection);
		memcpy(copy, bytes, sizeof copy);
		cairn_inspect_mend(copy, &frame);
		if (cairn_run_footer_decode(
			&run->footer, copy, inspection->size, inspection->path) != 0)
			return;
	}
	run->has_footer = true;
	print_footer(&run->footer);
	if (run->footer.number != run->header.number || run->footer.format != run->header.format ||
	    run->footer.flags != run->header.flags)
		cairn_inspect_problem(
		    inspection, at, "the footer is not of the same file as the header");
}

/* ---------------------------------------------------------------- sections */

static const char *section_name(uint32_t section)
{
	static const char *const names[] = {
	    [CAIRN_SECTION_BLOCKS] = "blocks",
	    [CAIRN_SECTION_SEEK] = "seek",
	    [CAIRN_SECTION_BOUNDS] = "bounds",
	    [CAIRN_SECTION_POINT] = "point",
	};
	return section < sizeof names / sizeof *names && names[section] ? names[section]
									: "unknown";
}

static cairn_slice extent_bytes(const struct run *run, const struct cairn_run_extent *extent)
{
	return cairn_slice_of(run->inspection->bytes + extent->offset, (size_t)extent->size);
}

static void check_zeros(struct run *run, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (run->inspection->bytes[i] != 0) {
			cairn_inspect_problem(run->inspection, i, "padding is not zero");
			return;
		}
	}
}

static void read_sections(struct run *run)
{
	uint64_t end = CAIRN_RUN_HEADER_SIZE;
	puts("sections");
	for (unsigned i = 0; i < run->footer.extents; i++) {
		const struct cairn_run_extent *extent = &run->footer.extent[i];
		cairn_slice bytes = extent_bytes(run, extent);
		/* That of the blocks is checked with them, that of a point index with its pages. */
		bool checked = extent->section != CAIRN_SECTION_BLOCKS &&
			       extent->section != CAIRN_SECTION_POINT;
		bool good =
		    !checked || extent->checksum == cairn_checksum(bytes.data, bytes.size, 0);
		printf("  %" PRIu32 " %-7s at %" PRIu64 ", %" PRIu64 " bytes, checksum 0x%08" PRIx32
		       "%s%s\n",
		    extent->section, section_name(extent->section), extent->offset, extent->size,
		    extent->checksum, checked ? " " : "",
		    checked ? cairn_inspect_verdict(good) : "");
		if (!good)
			cairn_inspect_problem(run->inspection, extent->offset,
			    "section %" PRIu32 " fails its checksum", extent->section);
		check_zeros(run, end, extent->offset);
		end = extent->offset + extent->size;
	}
	check_zeros(run, end, run->inspection->size - CAIRN_RUN_FOOTER_SIZE);
}

static void read_bounds(struct run *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BOUNDS);
	cairn_slice bytes = extent_bytes(run, extent);
	struct cairn_input in = cairn_input_of(bytes.data, bytes.size);
	static const char *const names[] = {"first key", "last key"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		uint32_t size = cairn_input32(&in);
		const uint8_t *key = cairn_input_bytes(&in, size);
		if (!key) {
			cairn_inspect_problem(
			    run->inspection, extent->offset, "%s: not in the section", names[i]);
			return;
		}
		printf("  %-17s", names[i]);
		cairn_inspect_key(run->inspection, cairn_slice_of(key, size));
	}
	if (cairn_input_left(&in) > 0)
		cairn_inspect_problem(run->inspection, extent->offset + extent->size,
		    "%zu bytes behind the last key", cairn_input_left(&in));
}

static void read_seek(struct run *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
	const struct cairn_run_extent *blocks =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BLOCKS);
	cairn_slice bytes = extent_bytes(run, extent);
	struct cairn_seek_tree *seek = &run->seek;
	if (cairn_seek_open(seek, bytes.data, bytes.size, run->footer.blocks) != 0) {
		cairn_inspect_problem(run->inspection, extent->offset,
		    "the seek section is not one of %" PRIu64 " blocks", run->footer.blocks);
		return;
	}
	cairn_inspect_field("seek tree", "%u bits of offset, %u levels, lcp at the top %u",
	    seek->offset_bits, seek->levels, seek->top_lcp);
	run->has_seek = cairn_seek_check(seek, blocks->offset, blocks->offset + blocks->size);
	if (!run->has_seek)
		cairn_inspect_problem(
		    run->inspection, extent->offset, "the seek section names impossible blocks");
}

static void read_point(struct run *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_POINT);
	struct cairn_point_index index;
	uint64_t page;
	if (!extent)
		return;
	cairn_slice bytes = extent_bytes(run, extent);
	int code =
	    cairn_point_open(&index, bytes.data, bytes.size, extent->checksum, run->footer.records);
	if (code != 0) {
		cairn_inspect_problem(run->inspection, extent->offset,
		    code == CAIRN_CORRUPT ? "the point index fails its checksum"
					  : "out of memory for the point index");
		return;
	}
	cairn_inspect_field("point index", "%" PRIu32 " lines, %u bits of the hash in a slot",
	    index.line_count, 16 - index.shift);
	if (!cairn_point_check(&index, &page))
		cairn_inspect_problem(run->inspection, extent->offset + page * CAIRN_POINT_PAGE,
		    "page %" PRIu64 " of the point index is damaged", page);
	cairn_point_close(&index);
}

/* ---------------------------------------------------------------- blocks */

static void check_order(struct run *run, const struct cairn_kv02_block *block, cairn_slice key)
{
	cairn_slice previous = cairn_slice_of(run->previous, run->previous_size);
	if (run->records > 0 && cairn_key_compare(previous, key) >= 0)
		cairn_inspect_problem(
		    run->inspection, block->offset, "a key is not above the one before it");
	if (key.size)
		memcpy(run->previous, key.data, key.size);
	run->previous_size = key.size;
}

static void inspect_record(struct run *run, const struct cairn_kv02_block *block, unsigned i)
{
	struct cairn_inspection *inspection = run->inspection;
	struct cairn_record record;
	cairn_kv02_key(block, i, run->key);
	record.key = cairn_slice_of(run->key, cairn_kv02_key_size(block, i));
	cairn_kv02_record(block, i, &record);
	uint64_t at = (uint64_t)((const uint8_t *)record.value.data - inspection->bytes);
	uint64_t hash = cairn_key_hash(record.key, run->header.identity.hash_seed);
	bool good = record.checksum == cairn_record_checksum(hash, record.kind, record.value);
	if (inspection->records) {
		printf("  record %u, %s, value at %" PRIu64 ", %zu bytes, checksum 0x%08" PRIx32
		       " %s, key ",
		    i, record.kind == CAIRN_KIND_PUT ? "PUT" : "DELETE", at, record.value.size,
		    record.checksum, cairn_inspect_verdict(good));
		cairn_inspect_key(inspection, record.key);
	}
	if (!good)
		cairn_inspect_problem(inspection, at,
		    "record %u of the block at %" PRIu64 " fails its checksum", i, block->offset);
	check_order(run, block, record.key);
	run->records++;
	run->tombstones += record.kind == CAIRN_KIND_DELETE;
	run->key_bytes += record.key.size;
	run->value_bytes += record.value.size;
}

static void print_block(const struct run *run, const struct cairn_kv02_block *block, bool good)
{
	printf("block %" PRIu64 " at %" PRIu64 ", %zu bytes, %u records, key area %" PRIu32
	       ", prefix %" PRIu32 ", checksum 0x%08" PRIx32 " %s\n",
	    run->blocks, block->offset, block->size, block->count, block->key_area_size,
	    block->prefix_size, cairn_get32(block->data + block->key_area_size),
	    cairn_inspect_verdict(good));
}

/* The size of the block at `offset`; 0 when there is none that can be believed. */
static uint64_t inspect_block(struct run *run, uint64_t offset, uint64_t end)
{
	struct cairn_inspection *inspection = run->inspection;
	struct cairn_kv02_block block;
	bool kinds = run->header.flags & CAIRN_RUN_KINDS;
	if (cairn_kv02_open(
		&block, inspection->bytes + offset, (size_t)(end - offset), offset, kinds) != 0) {
		if (run->has_footer)
			cairn_inspect_problem(
			    inspection, offset, "the block here has no valid structure");
		return 0;
	}
	bool good = cairn_kv02_check_keys(&block) && cairn_kv02_check_padding(&block);
	if (!good && !run->has_footer)
		return 0;
	if (inspection->blocks || inspection->records)
		print_block(run, &block, good);
	if (!good) {
		cairn_inspect_problem(
		    inspection, offset, "the keys or the padding of the block here are damaged");
		return 0;
	}
	run->blocks_checksum = cairn_checksum(block.data, block.size, run->blocks_checksum);
	for (unsigned i = 0; i < block.count; i++)
		inspect_record(run, &block, i);
	return block.size;
}

/* Where the block behind the one at `offset` begins, or `end`. */
static uint64_t next_block(struct run *run, uint64_t offset, uint64_t size, uint64_t end)
{
	uint64_t next = size ? offset + size : end;
	if (!run->has_seek || run->blocks >= run->footer.blocks)
		return next;
	uint64_t named = cairn_seek_offset(&run->seek, run->blocks);
	if (size && named != next)
		cairn_inspect_problem(run->inspection, next,
		    "a block ends here, but the seek section has the next at %" PRIu64, named);
	return named;
}

static void read_blocks(struct run *run)
{
	uint64_t offset = CAIRN_RUN_HEADER_SIZE, end = run->inspection->size;
	if (run->has_footer) {
		const struct cairn_run_extent *extent =
		    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BLOCKS);
		offset = extent->offset;
		end = extent->offset + extent->size;
	}
	run->whole = true;
	while (offset < end) {
		uint64_t size = inspect_block(run, offset, end);
		if (size == 0 && !run->has_footer) {
			printf("%" PRIu64 " blocks with %" PRIu64 " records were found; at %" PRIu64
			       " there is no block\n",
			    run->blocks, run->records, offset);
			return;
		}
		run->whole = run->whole && size;
		run->blocks++;
		offset = next_block(run, offset, size, end);
	}
}

static void check_totals(struct run *run)
{
	const struct cairn_run_footer *said = &run->footer;
	const struct {
		const char *what;
		uint64_t said, seen;
	} totals[] = {
	    {"blocks", said->blocks, run->blocks},
	    {"records", said->records, run->records},
	    {"tombstones", said->tombstones, run->tombstones},
	    {"bytes of keys", said->key_bytes, run->key_bytes},
	    {"bytes of values", said->value_bytes, run->value_bytes},
	};
	for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
		if (totals[i].said != totals[i].seen)
			cairn_inspect_problem(run->inspection,
			    run->inspection->size - CAIRN_RUN_FOOTER_SIZE,
			    "the footer says %" PRIu64 " %s, there are %" PRIu64, totals[i].said,
			    totals[i].what, totals[i].seen);
	}
}

static void check_blocks(struct run *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BLOCKS);
	/* With a problem in a block it is wrong anyway. */
	if (run->inspection->problems == 0 && run->blocks_checksum != extent->checksum)
		cairn_inspect_problem(run->inspection, extent->offset,
		    "the blocks are not those that the footer means");
}

int cairn_inspect_run(struct cairn_inspection *inspection)
{
	struct run *run = calloc(1, sizeof *run);
	if (!run)
		return -ENOMEM;
	run->inspection = inspection;
	if (read_header(run)) {
		read_footer(run);
		if (run->has_footer) {
			read_sections(run);
			read_bounds(run);
			read_seek(run);
			read_point(run);
		}
		read_blocks(run);
		if (run->has_footer && run->whole) {
			check_totals(run);
			check_blocks(run);
		}
	}
	free(run);
	return 0;
}
