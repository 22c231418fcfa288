/*
 * format/run_verify.c -- reads all of a `.kv` file and tells every damage.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "format/buffer.h"
#include "format/error.h"
#include "format/run_inside.h"

#define MAP_PIECE 1048576u

struct verifier {
	struct cairn_run_reader *run;
	void (*each)(void *context, uint64_t offset, const char *text);
	void *context;
	uint64_t findings;
	bool whole; /* every block so far could be read, so totals and tree can be compared */
	uint32_t blocks_checksum;
	struct cairn_run_footer seen; /* the counts, by counting */
	bool point_usable;
	uint64_t hash[CAIRN_BLOCK_RECORDS]; /* of the keys of a block */
	struct cairn_seek_builder *seek;
	struct cairn_buffer key;
	struct cairn_buffer previous; /* the key before it */
};

__attribute__((format(printf, 3, 4))) static void report(
    struct verifier *v, uint64_t offset, const char *format, ...)
{
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	v->findings++;
	if (v->each)
		v->each(v->context, offset, text);
}

/* Header and footer were right at open; this sees what has happened to them since. */
static void verify_frame(struct verifier *v)
{
	const struct cairn_run_reader *run = v->run;
	uint64_t at = run->map.size - CAIRN_RUN_FOOTER_SIZE;
	struct cairn_run_header header;
	struct cairn_run_footer footer;
	if (cairn_run_header_decode(&header, run->map.data, run->path) != 0)
		report(v, 0, "the header is damaged");
	if (cairn_run_footer_decode(&footer, run->map.data + at, run->map.size, run->path) != 0)
		report(v, at, "the footer is damaged");
}

static void verify_zeros(struct verifier *v, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (v->run->map.data[i] != 0) {
			report(v, i, "padding between sections is not zero");
			return;
		}
	}
}

/* The point index has checksums of its own. */
static void verify_point_index(struct verifier *v)
{
	const struct cairn_run_reader *run = v->run;
	uint64_t page;
	if (!run->point.section)
		return;
	v->point_usable = cairn_point_check(&run->point, &page);
	if (!v->point_usable)
		report(v, (uint64_t)(run->point.section - run->map.data) + page * CAIRN_POINT_PAGE,
		    "the point index is damaged");
}

/* Whether a search by hash finds the record there. */
static bool indexed(const struct cairn_run_reader *run, uint64_t hash, uint64_t offset, unsigned i)
{
	struct cairn_point_probe probe;
	uint64_t found;
	unsigned record;
	int code = cairn_point_first(&run->point, hash, &probe, &found, &record);
	while (code == 0 && (found != offset || record != i))
		code = cairn_point_next(&run->point, &probe, &found, &record);
	return code == 0;
}

/* Checksums of the sections and the gaps around them. False when the seek section cannot be used.
 */
static bool verify_sections(struct verifier *v)
{
	struct cairn_run_reader *run = v->run;
	bool seek_usable = true;
	uint64_t end = CAIRN_RUN_HEADER_SIZE;
	for (unsigned i = 0; i < run->footer.extents; i++) {
		const struct cairn_run_extent *extent = &run->footer.extent[i];
		verify_zeros(v, end, extent->offset);
		end = extent->offset + extent->size;
		if (extent == run->blocks || extent->section == CAIRN_SECTION_POINT ||
		    cairn_run_extent_matches(run, extent))
			continue;
		report(
		    v, extent->offset, "section %" PRIu32 " fails its checksum", extent->section);
		if (extent->section == CAIRN_SECTION_SEEK)
			seek_usable = false;
	}
	verify_zeros(v, end, run->map.size - CAIRN_RUN_FOOTER_SIZE);
	if (seek_usable &&
	    !cairn_seek_check(&run->seek, run->blocks->offset, cairn_run_blocks_end(run))) {
		const struct cairn_run_extent *seek =
		    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
		report(v, seek->offset, "the seek section names impossible blocks");
		seek_usable = false;
	}
	return seek_usable;
}

/* 0 or -ENOMEM. */
static int verify_record(struct verifier *v, const struct cairn_kv02_block *block, unsigned i)
{
	struct cairn_run_reader *run = v->run;
	uint32_t size = cairn_kv02_key_size(block, i);
	v->key.size = 0;
	if (cairn_buffer_reserve(&v->key, size) != 0)
		return -ENOMEM;
	if (size > 0)
		cairn_kv02_key(block, i, v->key.data);
	v->key.size = size;

	struct cairn_record record;
	record.key = cairn_slice_of(v->key.data, size);
	cairn_kv02_record(block, i, &record);
	uint64_t hash = cairn_key_hash(record.key, run->header.identity.hash_seed);
	if (record.checksum != cairn_record_checksum(hash, record.kind, record.value))
		report(v, (uint64_t)((const uint8_t *)record.value.data - run->map.data),
		    "record %u of the block at offset %" PRIu64 " fails its checksum", i,
		    block->offset);
	v->hash[i] = hash;
	if (v->point_usable)
		__builtin_prefetch(cairn_point_line(&run->point, hash));
	cairn_slice before = cairn_slice_of(v->previous.data, v->previous.size);
	if (v->seen.records == 0 && !cairn_key_equal(record.key, run->first_key))
		report(v, block->offset, "the first key is not the one that the bounds name");
	if (v->seen.records > 0 && cairn_key_compare(before, record.key) >= 0)
		report(v, block->offset, "the key of record %u is not above the one before it", i);
	if (i == 0 && cairn_seek_builder_add(v->seek, record.key, block->offset) != 0)
		return -ENOMEM;

	v->seen.records++;
	v->seen.tombstones += record.kind == CAIRN_KIND_DELETE;
	v->seen.key_bytes += record.key.size;
	v->seen.value_bytes += record.value.size;
	struct cairn_buffer swap = v->previous;
	v->previous = v->key;
	v->key = swap;
	return 0;
}

/* The block at `offset`; *size is 0 when it cannot be told where it ends. 0 or -ENOMEM. */
static int verify_block(struct verifier *v, uint64_t offset, uint64_t *size)
{
	struct cairn_kv02_block block;
	*size = 0;
	if (cairn_run_open_block_at(v->run, offset, &block) != 0) {
		report(v, offset, "the block here has no valid structure");
		v->whole = false;
		return 0;
	}
	if (!cairn_kv02_check_keys(&block) || !cairn_kv02_check_padding(&block)) {
		report(v, offset, "the keys or the padding of the block here are damaged");
		v->whole = false;
		return 0;
	}
	if (!cairn_kv02_is_canonical(&block))
		report(v, offset, "the keys of the block here are encoded in an unknown way");
	v->seen.blocks++;
	v->blocks_checksum = cairn_checksum(block.data, block.size, v->blocks_checksum);
	for (unsigned i = 0; i < block.count; i++) {
		int code = verify_record(v, &block, i);
		if (code != 0)
			return code;
	}
	/* Lines of the index miss the cache: those of a whole block are fetched at once. */
	for (unsigned i = 0; v->point_usable && i < block.count; i++)
		if (!indexed(v->run, v->hash[i], block.offset, i))
			report(v, block.offset, "the point index does not lead to record %u", i);
	*size = block.size;
	return 0;
}

/* Maps the next piece of the file when the walk comes to it: cheaper than the faults one by one. */
static void map_ahead(const struct verifier *v, uint64_t offset, uint64_t *mapped)
{
	struct cairn_run_reader *run = v->run;
	uint64_t left = run->map.size - offset;
	if (offset < *mapped)
		return;
	*mapped = offset + (left < MAP_PIECE ? left : MAP_PIECE);
	run->io->ops->advise(run->io, &run->map, offset, *mapped - offset, CAIRN_ADVISE_MAP);
}

/* Every block. Behind a damaged one the seek section, if it is usable, says where to go on. */
static int verify_blocks(struct verifier *v, bool seek_usable)
{
	struct cairn_run_reader *run = v->run;
	uint64_t end = cairn_run_blocks_end(run), offset = run->blocks->offset, index = 0,
		 mapped = 0;
	while (offset < end) {
		uint64_t size;
		map_ahead(v, offset, &mapped);
		int code = verify_block(v, offset, &size);
		if (code != 0)
			return code;
		index++;
		uint64_t next = size > 0 ? offset + size : end;
		if (seek_usable && index < run->footer.blocks) {
			uint64_t named = cairn_seek_offset(&run->seek, index);
			if (size > 0 && named != next)
				report(v, next,
				    "a block ends here, but the next begins at %" PRIu64, named);
			next = named;
		}
		offset = next;
	}
	return 0;
}

/* What the file says as a whole against what its blocks were seen to hold. */
static void verify_totals(struct verifier *v)
{
	const struct cairn_run_reader *run = v->run;
	const struct cairn_run_footer *said = &run->footer, *seen = &v->seen;
	uint64_t at = run->map.size - CAIRN_RUN_FOOTER_SIZE;
	const struct {
		const char *what;
		uint64_t said, seen;
	} totals[] = {
	    {"blocks", said->blocks, seen->blocks},
	    {"records", said->records, seen->records},
	    {"tombstones", said->tombstones, seen->tombstones},
	    {"bytes of keys", said->key_bytes, seen->key_bytes},
	    {"bytes of values", said->value_bytes, seen->value_bytes},
	};
	for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
		if (totals[i].said != totals[i].seen)
			report(v, at, "the footer says %" PRIu64 " %s, there are %" PRIu64,
			    totals[i].said, totals[i].what, totals[i].seen);
	}
	/* With a finding it is wrong anyway. */
	if (v->findings == 0 && v->blocks_checksum != run->blocks->checksum)
		report(v, run->blocks->offset, "the blocks are not those that the footer means");
	if (!cairn_key_equal(cairn_slice_of(v->previous.data, v->previous.size), run->last_key))
		report(v, at, "the last key is not the one that the bounds name");
}

/* Builds the seek section again from the blocks: the stored one must be the same. */
static int verify_tree(struct verifier *v)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&v->run->footer, CAIRN_SECTION_SEEK);
	struct cairn_buffer bytes = {0};
	int code = cairn_seek_builder_finish(v->seek, v->run->last_key, &bytes);
	if (code == 0 &&
	    (bytes.size != extent->size ||
		memcmp(bytes.data, cairn_run_extent_bytes(v->run, extent), bytes.size) != 0))
		report(v, extent->offset, "the seek section is not the one of these blocks");
	cairn_buffer_release(&bytes);
	return code;
}

int cairn_run_verify(struct cairn_run_reader *run,
    void (*each)(void *context, uint64_t offset, const char *text), void *context)
{
	struct verifier v = {.run = run, .each = each, .context = context, .whole = true};
	int code = cairn_seek_builder_new(&v.seek);
	if (code != 0)
		goto done;
	verify_frame(&v);
	bool seek_usable = verify_sections(&v);
	verify_point_index(&v);
	code = verify_blocks(&v, seek_usable);
	if (code == 0 && v.whole) {
		verify_totals(&v);
		code = verify_tree(&v);
	}
done:
	cairn_seek_builder_free(v.seek);
	cairn_buffer_release(&v.key);
	cairn_buffer_release(&v.previous);
	if (code != 0)
		return cairn_error_at(code, run->path, CAIRN_NO_OFFSET, "not enough memory");
	if (v.findings > 0)
		return cairn_error_at(CAIRN_CORRUPT, run->path, CAIRN_NO_OFFSET,
		    "%" PRIu64 " findings; run cairn repair", v.findings);
	return 0;
}
