/*
 * format/run_reader.c -- lookups, cursors and verification of one mapped `.kv` file.
 *
 * Terms. The *place* of a key is in the last block that begins at or below it: the only one that
 * can hold it. The seek section names that block or, when 8-byte heads tie, one to its right.
 *
 * Invariants.
 * 1. Nothing is read outside the mapping: header, footer and extents were checked against its size
 * at open, block offsets are checked with the seek section, block structure with every block.
 * 2. No answer rests on unverified bytes: bounds are verified at open, the seek section before its
 * first use, a key area before it says "not here" or shows a key, a record before it is returned.
 * What looks like a find needs no key area: the record checksum binds key, kind and value.
 * 3. A key at or above the first of the run is at or above the first key of block 0. If a search
 * finds otherwise, bounds and blocks disagree, and that is damage.
 *
 * Threads. After open only `seek_verified` changes, from false to true; several threads may verify
 * at once and store the same. A cursor belongs to one thread at a time.
 */
#include "format/run_reader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/kv02_block.h"
#include "format/point_index.h"
#include "format/seek_tree.h"

#define ADVICE     "run cairn verify, then cairn repair"
#define CACHE_LINE 64u
#define FETCH_MAX  256u /* bytes; the hardware follows a longer walk by itself */

/* Bytes of the parts of a block, on average. */
struct shape {
	uint32_t heads;  /* with the control area in front */
	uint32_t tail;   /* of one key */
	uint32_t values; /* in front of the values */
	uint32_t value;  /* one, with its checksum */
};

struct cairn_run_reader {
	struct cairn_io *io;
	char *path;
	struct cairn_map map;
	struct cairn_run_header header;
	struct cairn_run_footer footer;
	const struct cairn_run_extent *blocks; /* in the footer */
	struct cairn_seek_tree seek;
	struct cairn_point_index point; /* where the file has one */
	struct shape shape;             /* of its blocks */
	cairn_slice first_key;
	cairn_slice last_key;
	uint64_t first_head; /* cairn_key_head of the two: settles most of `outside` */
	uint64_t last_head;
	atomic_bool seek_verified;
};

/* Opening. */

static int damaged(const struct cairn_run_reader *run, uint64_t offset, const char *what)
{
	return cairn_error_at(CAIRN_CORRUPT, run->path, offset, "%s; " ADVICE, what);
}

static int map_file(struct cairn_run_reader *run, const struct cairn_run_expect *expect)
{
	const struct cairn_io_ops *ops = run->io->ops;
	struct cairn_file *file;
	int code = ops->open(run->io, run->path, CAIRN_OPEN_READ, &file);
	if (code != 0)
		return code;
	struct cairn_file_status status;
	code = ops->status(file, &status);
	if (code != 0)
		goto done;
	if (expect && status.size != expect->size) {
		code = cairn_error_at(CAIRN_CORRUPT, run->path, CAIRN_NO_OFFSET,
		    "has %" PRIu64 " bytes, but the manifest says %" PRIu64 "; " ADVICE,
		    status.size, expect->size);
		goto done;
	}
	if (status.size < CAIRN_RUN_HEADER_SIZE + CAIRN_RUN_FOOTER_SIZE) {
		code = damaged(run, status.size, "the file ends here, too short for a run");
		goto done;
	}
	code = ops->map(file, (size_t)status.size, &run->map);
done:
	ops->close(file);
	return code;
}

/* Header and footer, and that they speak of the same file. */
static int read_frame(struct cairn_run_reader *run)
{
	int code = cairn_run_header_decode(&run->header, run->map.data, run->path);
	if (code != 0)
		return code;
	uint64_t at = run->map.size - CAIRN_RUN_FOOTER_SIZE;
	code = cairn_run_footer_decode(&run->footer, run->map.data + at, run->map.size, run->path);
	if (code != 0)
		return code;
	if (run->header.number != run->footer.number || run->header.format != run->footer.format ||
	    run->header.flags != run->footer.flags)
		return damaged(run, at, "the footer is not of the same file as the header");
	return 0;
}

static int check_expected(const struct cairn_run_reader *run, const struct cairn_run_expect *expect)
{
	const struct cairn_identity *identity = &run->header.identity;
	const char *wrong = NULL;
	if (memcmp(identity->store_id, expect->identity.store_id, sizeof identity->store_id) != 0 ||
	    identity->hash_seed != expect->identity.hash_seed)
		wrong = "the file belongs to another store";
	else if (run->header.number != expect->number)
		wrong = "the file carries another number than the manifest says";
	else if (run->footer.checksum != expect->footer_checksum)
		wrong = "the footer is not the one that the manifest names";
	if (!wrong)
		return 0;
	return damaged(run, run->map.size - CAIRN_RUN_FOOTER_SIZE, wrong);
}

static const uint8_t *extent_bytes(
    const struct cairn_run_reader *run, const struct cairn_run_extent *extent)
{
	return run->map.data + extent->offset;
}

/* Whether the bytes of a section (not the blocks) match its checksum. */
static bool extent_matches(
    const struct cairn_run_reader *run, const struct cairn_run_extent *extent)
{
	return cairn_checksum(extent_bytes(run, extent), (size_t)extent->size, 0) ==
	       extent->checksum;
}

static cairn_slice read_bound(struct cairn_input *in)
{
	uint32_t size = cairn_input32(in);
	return cairn_slice_of(cairn_input_bytes(in, size), size);
}

static int read_bounds(struct cairn_run_reader *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BOUNDS);
	if (!extent_matches(run, extent))
		return damaged(run, extent->offset, "first and last key fail their checksum");
	struct cairn_input in = cairn_input_of(extent_bytes(run, extent), (size_t)extent->size);
	run->first_key = read_bound(&in);
	run->last_key = read_bound(&in);
	if (in.bad || cairn_input_left(&in) != 0)
		return damaged(run, extent->offset, "first and last key do not fill their section");

	int order = cairn_key_compare(run->first_key, run->last_key);
	if (run->first_key.size > CAIRN_KEY_MAX || run->last_key.size > CAIRN_KEY_MAX ||
	    order > 0 || (order == 0) != (run->footer.records == 1) ||
	    cairn_key_common(run->first_key, run->last_key) != run->footer.prefix_size)
		return damaged(run, extent->offset, "first and last key contradict the footer");
	run->first_head = cairn_key_head(run->first_key, 0);
	run->last_head = cairn_key_head(run->last_key, 0);
	return 0;
}

static void guess_shape(struct cairn_run_reader *run)
{
	const struct cairn_run_footer *footer = &run->footer;
	uint64_t value_bytes = footer->value_bytes + footer->records * sizeof(uint32_t);
	uint64_t keys = run->blocks->size > value_bytes ? run->blocks->size - value_bytes : 0;
	uint64_t records = (footer->records + footer->blocks - 1) / footer->blocks;
	run->shape.heads = (uint32_t)(CAIRN_KV02_CONTROL_LEAST + records * sizeof(uint32_t));
	run->shape.values = (uint32_t)(keys / footer->blocks);
	if (run->shape.values > run->shape.heads)
		run->shape.tail = (uint32_t)((run->shape.values - run->shape.heads) / records);
	run->shape.value = (uint32_t)(value_bytes / footer->records);
}

static int open_point_index(struct cairn_run_reader *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_POINT);
	if (!extent)
		return 0;
	int code = cairn_point_open(&run->point, extent_bytes(run, extent), (size_t)extent->size,
	    extent->checksum, run->footer.records);
	if (code == -ENOMEM)
		return cairn_error_at(-ENOMEM, run->path, CAIRN_NO_OFFSET, "not enough memory");
	if (code != 0)
		return damaged(run, extent->offset, "the point index fails its checksum");
	guess_shape(run);
	return 0;
}

static int read_sections(struct cairn_run_reader *run)
{
	int code = read_bounds(run);
	if (code != 0)
		return code;
	run->blocks = cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BLOCKS);
	const struct cairn_run_extent *seek =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
	if (cairn_seek_open(
		&run->seek, extent_bytes(run, seek), (size_t)seek->size, run->footer.blocks) != 0)
		return damaged(run, seek->offset, "the seek section contradicts the footer");
	return open_point_index(run);
}

int cairn_run_open(struct cairn_io *io, const char *path, const struct cairn_run_expect *expect,
    struct cairn_run_reader **out)
{
	*out = NULL;
	struct cairn_run_reader *run = calloc(1, sizeof *run);
	char *copy = strdup(path);
	if (!run || !copy) {
		free(run);
		free(copy);
		return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "not enough memory");
	}
	run->io = io;
	run->path = copy;
	atomic_init(&run->seek_verified, false);

	int code = map_file(run, expect);
	if (code == 0)
		code = read_frame(run);
	if (code == 0 && expect)
		code = check_expected(run, expect);
	if (code == 0)
		code = read_sections(run);
	if (code != 0) {
		cairn_run_close(run);
		return code;
	}
	*out = run;
	return 0;
}

int cairn_run_renamed(struct cairn_run_reader *run, const char *path)
{
	char *copy = strdup(path);
	if (!copy)
		return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "not enough memory");
	free(run->path);
	run->path = copy;
	return 0;
}

void cairn_run_close(struct cairn_run_reader *run)
{
	if (!run)
		return;
	if (run->map.data)
		run->io->ops->unmap(run->io, &run->map);
	cairn_point_close(&run->point);
	free(run->path);
	free(run);
}

const struct cairn_run_header *cairn_run_header(const struct cairn_run_reader *run)
{
	return &run->header;
}

const struct cairn_run_footer *cairn_run_footer(const struct cairn_run_reader *run)
{
	return &run->footer;
}

uint64_t cairn_run_size(const struct cairn_run_reader *run)
{
	return run->map.size;
}

const char *cairn_run_path(const struct cairn_run_reader *run)
{
	return run->path;
}

cairn_slice cairn_run_first_key(const struct cairn_run_reader *run)
{
	return run->first_key;
}

cairn_slice cairn_run_last_key(const struct cairn_run_reader *run)
{
	return run->last_key;
}

const uint8_t *cairn_run_bytes(const struct cairn_run_reader *run)
{
	return run->map.data;
}

/* Searching. */

static uint64_t blocks_end(const struct cairn_run_reader *run)
{
	return run->blocks->offset + run->blocks->size;
}

static int verify_seek_section(struct cairn_run_reader *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
	if (!extent_matches(run, extent))
		return damaged(run, extent->offset, "the seek section fails its checksum");
	if (!cairn_seek_check(&run->seek, run->blocks->offset, blocks_end(run)))
		return damaged(run, extent->offset, "the seek section names impossible blocks");
	atomic_store_explicit(&run->seek_verified, true, memory_order_release);
	return 0;
}

/* Makes the seek section safe to use. */
static inline int trust_seek_section(struct cairn_run_reader *run)
{
	if (CAIRN_LIKELY(atomic_load_explicit(&run->seek_verified, memory_order_acquire)))
		return 0;
	return verify_seek_section(run);
}

int cairn_run_block_offset(struct cairn_run_reader *run, uint64_t index, uint64_t *offset)
{
	*offset = 0;
	if (index >= run->footer.blocks)
		return cairn_error_at(CAIRN_INVALID, run->path, CAIRN_NO_OFFSET,
		    "block %" PRIu64 " asked for, but there are %" PRIu64, index,
		    run->footer.blocks);
	int code = trust_seek_section(run);
	if (code == 0)
		*offset = cairn_seek_offset(&run->seek, index);
	return code;
}

/* Opens the block at `offset`, inside the block section; no message. */
static int open_block_at(
    const struct cairn_run_reader *run, uint64_t offset, struct cairn_kv02_block *block)
{
	return cairn_kv02_open(block, run->map.data + offset, (size_t)(blocks_end(run) - offset),
	    offset, run->header.flags & CAIRN_RUN_KINDS);
}

/* Opens block `index` (< blocks) by the trusted seek section. */
static int open_block(
    const struct cairn_run_reader *run, uint64_t index, struct cairn_kv02_block *block)
{
	uint64_t offset = cairn_seek_offset(&run->seek, index);
	if (CAIRN_UNLIKELY(open_block_at(run, offset, block) != 0))
		return damaged(run, offset, "the block here has no valid structure");
	return 0;
}

static int check_keys(const struct cairn_run_reader *run, const struct cairn_kv02_block *block)
{
	if (CAIRN_UNLIKELY(!cairn_kv02_check_keys(block)))
		return damaged(
		    run, block->offset, "the keys of the block here fail their checksum");
	return 0;
}

static int check_record(
    const struct cairn_run_reader *run, const struct cairn_record *record, uint64_t hash)
{
	if (CAIRN_LIKELY(
		record->checksum == cairn_record_checksum(hash, record->kind, record->value)))
		return 0;
	uint64_t offset = (uint64_t)((const uint8_t *)record->value.data - run->map.data);
	return damaged(run, offset, "the record with this value fails its checksum");
}

/* Whether `key` lies outside the bounds of the run. */
static inline bool outside(const struct cairn_run_reader *run, cairn_slice key)
{
	uint64_t head = cairn_key_head(key, 0);
	if (CAIRN_LIKELY(head > run->first_head && head < run->last_head))
		return false;
	return cairn_key_compare(key, run->first_key) < 0 ||
	       cairn_key_compare(key, run->last_key) > 0;
}

/* Where a key is, or belongs: before record `record` of block `index`, which may be its end. */
struct place {
	uint64_t index;
	unsigned record;
	bool equal;
};

/* Opens block `index`; *above says whether its first key is above `key`. */
static int open_and_compare(const struct cairn_run_reader *run, uint64_t index, cairn_slice key,
    struct cairn_kv02_block *block, bool *above)
{
	int code = open_block(run, index, block);
	*above = code == 0 && cairn_kv02_compare(block, 0, key) > 0;
	return code;
}

/*
 * Block place->index begins above `key`: finds the last block that does not, by galloping over
 * first keys and then halving. Both neighbours that decide must be verified: the one on the right
 * is here, the one on the left by the caller, as after any search.
 */
static int look_left(const struct cairn_run_reader *run, cairn_slice key,
    struct cairn_kv02_block *block, struct place *place)
{
	uint64_t low, high = place->index;
	for (uint64_t step = 1;; step *= 2) {
		if (high == 0)
			return damaged(run, run->blocks->offset,
			    "the first key is not the one that the bounds name");
		low = high > step ? high - step : 0;
		bool above;
		int code = open_and_compare(run, low, key, block, &above);
		if (code != 0)
			return code;
		if (!above)
			break;
		high = low;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		bool above;
		int code = open_and_compare(run, middle, key, block, &above);
		if (code != 0)
			return code;
		if (above)
			high = middle;
		else
			low = middle;
	}
	int code = open_block(run, high, block);
	if (code == 0)
		code = check_keys(run, block);
	if (code == 0)
		code = open_block(run, low, block);
	if (code != 0)
		return code;
	place->index = low;
	place->record = cairn_kv02_lower_bound(block, key, &place->equal);
	return 0;
}

/* Places a key that is inside the bounds; `block` is then open. Its keys are not verified yet. */
static int find_place(struct cairn_run_reader *run, cairn_slice key, struct cairn_kv02_block *block,
    struct place *place)
{
	int code = trust_seek_section(run);
	if (code != 0)
		return code;
	place->index = cairn_seek_find(&run->seek, key);
	code = open_block(run, place->index, block);
	if (code != 0)
		return code;
	place->record = cairn_kv02_lower_bound(block, key, &place->equal);
	if (CAIRN_UNLIKELY(place->record == 0 && !place->equal))
		return look_left(run, key, block, place);
	return 0;
}

/* By the seek section. */
static int get_by_order(
    struct cairn_run_reader *run, cairn_slice key, uint64_t hash, struct cairn_record *record)
{
	if (outside(run, key))
		return CAIRN_NOT_FOUND;
	struct cairn_kv02_block block;
	struct place place;
	int code = find_place(run, key, &block, &place);
	if (code != 0)
		return code;
	if (!place.equal) {
		code = check_keys(run, &block);
		return code != 0 ? code : CAIRN_NOT_FOUND;
	}
	cairn_kv02_record(&block, place.record, record);
	record->key = key;
	code = check_record(run, record, hash);
	if (CAIRN_UNLIKELY(code != 0))
		*record = (struct cairn_record){0};
	return code;
}

/* Starts to read pages that may not be in memory. */
static void ask_for(const struct cairn_run_reader *run, const uint8_t *from, size_t size)
{
	uint64_t offset = (uint64_t)(from - run->map.data), left = run->map.size - offset;
	run->io->ops->advise(
	    run->io, &run->map, offset, size < left ? size : left, CAIRN_ADVISE_NEED);
}

void cairn_run_prefetch(const struct cairn_run_reader *run, uint64_t hash, bool cold)
{
	if (CAIRN_UNLIKELY(!run->point.section))
		return;
	if (CAIRN_LIKELY(!cold)) {
		__builtin_prefetch(cairn_point_line(&run->point, hash));
		return;
	}
	struct cairn_point_need need[2];
	unsigned count = cairn_point_need(&run->point, hash, need);
	for (unsigned i = 0; i < count; i++)
		ask_for(run, need[i].data, need[i].size);
}

static void fetch(const uint8_t *from, size_t size)
{
	size_t most = size < FETCH_MAX ? size : FETCH_MAX;
	for (size_t at = 0; at < most; at += CACHE_LINE)
		__builtin_prefetch(from + at);
	__builtin_prefetch(from + most);
}

/* Starts to fetch what a look at the record will touch: the block's control area and heads, and
 * the tail of the key and the value where they are most likely to be. */
static void prefetch_record(
    const struct cairn_run_reader *run, uint64_t offset, unsigned record, bool cold)
{
	const struct shape *shape = &run->shape;
	const uint8_t *block = run->map.data + offset;
	const uint8_t *value = block + shape->values + (size_t)record * shape->value;
	if (CAIRN_UNLIKELY(cold)) {
		ask_for(run, block, (size_t)(value - block) + shape->value);
		return;
	}
	fetch(block, shape->heads);
	fetch(block + shape->heads + (size_t)record * shape->tail, shape->tail);
	fetch(value, shape->value);
}

/* The search goes on at `code`, which cairn_point_first or _next returned. */
static int find_candidate(
    struct cairn_run_reader *run, bool cold, struct cairn_run_probe *probe, int code)
{
	if (CAIRN_LIKELY(code != 0)) {
		/* A damaged page cannot say anything; the seek section can. */
		probe->by_order = code == CAIRN_CORRUPT;
		return probe->by_order ? 0 : code;
	}
	if (CAIRN_UNLIKELY(probe->offset < run->blocks->offset || probe->offset >= blocks_end(run)))
		return damaged(run, (uint64_t)(run->point.section - run->map.data),
		    "the point index names an impossible block");
	prefetch_record(run, probe->offset, probe->record, cold);
	return 0;
}

int cairn_run_probe(
    struct cairn_run_reader *run, uint64_t hash, bool cold, struct cairn_run_probe *probe)
{
	probe->by_order = !run->point.section;
	if (CAIRN_UNLIKELY(probe->by_order))
		return 0;
	return find_candidate(run, cold, probe,
	    cairn_point_first(&run->point, hash, &probe->point, &probe->offset, &probe->record));
}

/* A fingerprint matched and the key did not: that is ordinary, unless the key is damaged. */
static int check_other_key(const struct cairn_run_reader *run, uint64_t offset)
{
	struct cairn_kv02_block block;
	if (open_block_at(run, offset, &block) != 0)
		return damaged(run, offset, "the block here has no valid structure");
	return check_keys(run, &block);
}

/* Whether the candidate is the key: 0, CAIRN_NOT_FOUND or a failure. */
static int look_at(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    const struct cairn_run_probe *probe, struct cairn_record *record)
{
	int code = cairn_kv02_pick(run->map.data + probe->offset,
	    (size_t)(blocks_end(run) - probe->offset), run->header.flags & CAIRN_RUN_KINDS,
	    probe->record, key, record);
	if (CAIRN_LIKELY(code == 0))
		return check_record(run, record, hash);
	if (code != CAIRN_NOT_FOUND)
		return damaged(
		    run, probe->offset, "the record that the point index names is not here");
	code = check_other_key(run, probe->offset);
	return code != 0 ? code : CAIRN_NOT_FOUND;
}

int cairn_run_settle(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    struct cairn_run_probe *probe, struct cairn_record *record)
{
	int code = 0;
	while (code == 0 && !probe->by_order) {
		code = look_at(run, key, hash, probe, record);
		if (CAIRN_LIKELY(code == 0))
			return 0;
		if (code == CAIRN_NOT_FOUND)
			code = find_candidate(run, false, probe,
			    cairn_point_next(
				&run->point, &probe->point, &probe->offset, &probe->record));
	}
	*record = (struct cairn_record){0};
	return code != 0 ? code : get_by_order(run, key, hash, record);
}

int cairn_run_get(
    struct cairn_run_reader *run, cairn_slice key, uint64_t hash, struct cairn_record *record)
{
	struct cairn_run_probe probe;
	*record = (struct cairn_record){0};
	int code = cairn_run_probe(run, hash, false, &probe);
	return code != 0 ? code : cairn_run_settle(run, key, hash, &probe, record);
}

/* The cursor. */

#define COMMON_KEY_SIZE 256u /* what the key buffer holds at first */

struct run_cursor {
	struct cairn_cursor base; /* first: the callers' handle */
	struct cairn_run_reader *run;
	struct cairn_kv02_block block;
	bool entered; /* `block` is block `index`, open and its keys verified */
	uint64_t index;
	unsigned record;
	struct cairn_buffer key;
};

static struct run_cursor *run_cursor_of(struct cairn_cursor *base)
{
	return (struct run_cursor *)base;
}

/* The end of every move that finds nothing. */
static int stand_nowhere(struct run_cursor *cursor, int code)
{
	cursor->base.valid = false;
	cursor->base.key = cairn_slice_of(NULL, 0);
	return code;
}

static int grow_key(struct run_cursor *cursor, uint32_t size)
{
	if (cairn_buffer_reserve(&cursor->key, size) == 0)
		return 0;
	return stand_nowhere(cursor,
	    cairn_error_at(-ENOMEM, cursor->run->path, CAIRN_NO_OFFSET, "not enough memory"));
}

/* The end of every move that finds a record: `record` of the block that was entered. */
static inline int stand_on(struct run_cursor *cursor, unsigned record)
{
	const struct cairn_kv02_block *block = &cursor->block;
	uint32_t size = cairn_kv02_key_size(block, record);
	if (CAIRN_UNLIKELY(size > cursor->key.capacity)) {
		int code = grow_key(cursor, size);
		if (code != 0)
			return code;
	}
	cairn_kv02_key(block, record, cursor->key.data);
	cursor->record = record;
	cursor->base.key = cairn_slice_of(cursor->key.data, size);
	cursor->base.head = cairn_key_head(cursor->base.key, 0);
	cursor->base.kind = block->tombstones >> record & 1 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
	cursor->base.valid = true;
	return 0;
}

/* Opens block `index` (< blocks) and verifies its keys, unless it is the one that is open. */
static int enter_block(struct run_cursor *cursor, uint64_t index)
{
	if (cursor->entered && cursor->index == index)
		return 0;
	cursor->entered = false;
	int code = trust_seek_section(cursor->run);
	if (code == 0)
		code = open_block(cursor->run, index, &cursor->block);
	if (code == 0)
		code = check_keys(cursor->run, &cursor->block);
	if (code != 0)
		return code;
	cursor->index = index;
	cursor->entered = true;
	return 0;
}

static int stand_on_first_of(struct run_cursor *cursor, uint64_t index)
{
	int code = enter_block(cursor, index);
	return code == 0 ? stand_on(cursor, 0) : stand_nowhere(cursor, code);
}

static int stand_on_last_of(struct run_cursor *cursor, uint64_t index)
{
	int code = enter_block(cursor, index);
	return code == 0 ? stand_on(cursor, cursor->block.count - 1) : stand_nowhere(cursor, code);
}

static int run_cursor_first(struct cairn_cursor *base)
{
	return stand_on_first_of(run_cursor_of(base), 0);
}

static int run_cursor_last(struct cairn_cursor *base)
{
	struct run_cursor *cursor = run_cursor_of(base);
	return stand_on_last_of(cursor, cursor->run->footer.blocks - 1);
}

static int run_cursor_next(struct cairn_cursor *base)
{
	struct run_cursor *cursor = run_cursor_of(base);
	assert(base->valid);
	if (CAIRN_LIKELY(cursor->record + 1 < cursor->block.count))
		return stand_on(cursor, cursor->record + 1);
	if (cursor->index + 1 == cursor->run->footer.blocks)
		return stand_nowhere(cursor, CAIRN_END);
	return stand_on_first_of(cursor, cursor->index + 1);
}

static int run_cursor_prev(struct cairn_cursor *base)
{
	struct run_cursor *cursor = run_cursor_of(base);
	assert(base->valid);
	if (CAIRN_LIKELY(cursor->record > 0))
		return stand_on(cursor, cursor->record - 1);
	if (cursor->index == 0)
		return stand_nowhere(cursor, CAIRN_END);
	return stand_on_last_of(cursor, cursor->index - 1);
}

static int run_cursor_seek(struct cairn_cursor *base, cairn_slice key)
{
	struct run_cursor *cursor = run_cursor_of(base);
	struct cairn_run_reader *run = cursor->run;
	if (outside(run, key)) {
		if (cairn_key_compare(key, run->first_key) < 0)
			return stand_on_first_of(cursor, 0);
		return stand_nowhere(cursor, CAIRN_END);
	}

	bool was_entered = cursor->entered;
	struct place place;
	cursor->entered = false;
	int code = find_place(run, key, &cursor->block, &place);
	if (code == 0 && !(was_entered && cursor->index == place.index))
		code = check_keys(run, &cursor->block);
	if (code != 0)
		return stand_nowhere(cursor, code);
	cursor->index = place.index;
	cursor->entered = true;

	if (CAIRN_LIKELY(place.record < cursor->block.count))
		return stand_on(cursor, place.record);
	if (place.index + 1 < run->footer.blocks)
		return stand_on_first_of(cursor, place.index + 1);
	return stand_nowhere(cursor,
	    damaged(run, cursor->block.offset, "the last key is not the one that the bounds name"));
}

static int run_cursor_record(struct cairn_cursor *base, struct cairn_record *record)
{
	struct run_cursor *cursor = run_cursor_of(base);
	assert(base->valid);
	cairn_kv02_record(&cursor->block, cursor->record, record);
	record->key = base->key;
	uint64_t hash = cairn_key_hash(base->key, cursor->run->header.identity.hash_seed);
	int code = check_record(cursor->run, record, hash);
	if (CAIRN_UNLIKELY(code != 0))
		*record = (struct cairn_record){0};
	return code;
}

static void run_cursor_close(struct cairn_cursor *base)
{
	struct run_cursor *cursor = run_cursor_of(base);
	cairn_buffer_release(&cursor->key);
	free(cursor);
}

static const struct cairn_cursor_ops run_cursor_ops = {
    .first = run_cursor_first,
    .last = run_cursor_last,
    .seek = run_cursor_seek,
    .next = run_cursor_next,
    .prev = run_cursor_prev,
    .record = run_cursor_record,
    .close = run_cursor_close,
};

int cairn_run_cursor_open(
    struct cairn_run_reader *run, enum cairn_advice advice, struct cairn_cursor **out)
{
	*out = NULL;
	struct run_cursor *cursor = calloc(1, sizeof *cursor);
	if (!cursor || cairn_buffer_reserve(&cursor->key, COMMON_KEY_SIZE) != 0) {
		free(cursor);
		return cairn_error_at(-ENOMEM, run->path, CAIRN_NO_OFFSET, "not enough memory");
	}
	cursor->base.ops = &run_cursor_ops;
	cursor->run = run;
	if (advice == CAIRN_ADVISE_SEQUENTIAL)
		run->io->ops->advise(
		    run->io, &run->map, run->blocks->offset, run->blocks->size, advice);
	*out = &cursor->base;
	return 0;
}

/* Verification. */

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
		    extent_matches(run, extent))
			continue;
		report(
		    v, extent->offset, "section %" PRIu32 " fails its checksum", extent->section);
		if (extent->section == CAIRN_SECTION_SEEK)
			seek_usable = false;
	}
	verify_zeros(v, end, run->map.size - CAIRN_RUN_FOOTER_SIZE);
	if (seek_usable && !cairn_seek_check(&run->seek, run->blocks->offset, blocks_end(run))) {
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
	if (open_block_at(v->run, offset, &block) != 0) {
		report(v, offset, "the block here has no valid structure");
		v->whole = false;
		return 0;
	}
	if (!cairn_kv02_check_keys(&block)) {
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
	uint64_t end = blocks_end(run), offset = run->blocks->offset, index = 0, mapped = 0;
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
	if (code == 0 && (bytes.size != extent->size ||
			     memcmp(bytes.data, extent_bytes(v->run, extent), bytes.size) != 0))
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
