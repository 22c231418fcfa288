/*
 * format/run_reader.c -- opens a `.kv` file, and looks single keys up in it.
 *
 * Invariants, here and in run_cursor.c.
 * 1. Nothing is read outside the mapping: header, footer and extents were checked against its size
 * at open, block offsets are checked with the seek section, block structure with every block.
 * 2. No answer rests on unverified bytes: bounds are verified at open, the seek section before its
 * first use, a key area before it says "not here" or shows a key, a record before it is returned.
 * What looks like a find needs no key area: the record checksum binds key, kind and value.
 * 3. A key at or above the first of the run is at or above the first key of block 0. If a search
 * finds otherwise, bounds and blocks disagree, and that is damage.
 *
 * Threads. After open only `seek_verified` changes, from false to true; several threads may verify
 * at once and store the same.
 */
#include "format/run_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/error.h"
#include "format/run_inside.h"

#define ADVICE     "run cairn verify, then cairn repair"
#define CACHE_LINE 64u
#define FETCH_MAX  256u /* bytes; the hardware follows a longer walk by itself */

/* Opening. */

int cairn_run_damaged(const struct cairn_run_reader *run, uint64_t offset, const char *what)
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
		code =
		    cairn_run_damaged(run, status.size, "the file ends here, too short for a run");
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
		return cairn_run_damaged(
		    run, at, "the footer is not of the same file as the header");
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
	return cairn_run_damaged(run, run->map.size - CAIRN_RUN_FOOTER_SIZE, wrong);
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
	if (!cairn_run_extent_matches(run, extent))
		return cairn_run_damaged(
		    run, extent->offset, "first and last key fail their checksum");
	struct cairn_input in =
	    cairn_input_of(cairn_run_extent_bytes(run, extent), (size_t)extent->size);
	run->first_key = read_bound(&in);
	run->last_key = read_bound(&in);
	if (in.bad || cairn_input_left(&in) != 0)
		return cairn_run_damaged(
		    run, extent->offset, "first and last key do not fill their section");

	int order = cairn_key_compare(run->first_key, run->last_key);
	if (run->first_key.size > CAIRN_KEY_MAX || run->last_key.size > CAIRN_KEY_MAX ||
	    order > 0 || (order == 0) != (run->footer.records == 1) ||
	    cairn_key_common(run->first_key, run->last_key) != run->footer.prefix_size)
		return cairn_run_damaged(
		    run, extent->offset, "first and last key contradict the footer");
	run->first_head = cairn_key_head(run->first_key, run->footer.prefix_size);
	run->last_head = cairn_key_head(run->last_key, run->footer.prefix_size);
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
	int code = cairn_point_open(&run->point, cairn_run_extent_bytes(run, extent),
	    (size_t)extent->size, extent->checksum, run->footer.records);
	if (code == -ENOMEM)
		return cairn_error_at(-ENOMEM, run->path, CAIRN_NO_OFFSET, "not enough memory");
	if (code != 0)
		return cairn_run_damaged(run, extent->offset, "the point index fails its checksum");
	return 0;
}

static int read_sections(struct cairn_run_reader *run)
{
	int code = read_bounds(run);
	if (code != 0)
		return code;
	run->blocks = cairn_run_footer_extent(&run->footer, CAIRN_SECTION_BLOCKS);
	guess_shape(run);
	const struct cairn_run_extent *seek =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
	if (cairn_seek_open(&run->seek, cairn_run_extent_bytes(run, seek), (size_t)seek->size,
		run->footer.blocks) != 0)
		return cairn_run_damaged(
		    run, seek->offset, "the seek section contradicts the footer");
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

bool cairn_run_has_point_index(const struct cairn_run_reader *run)
{
	return run->point.section;
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

int cairn_run_verify_order(struct cairn_run_reader *run)
{
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&run->footer, CAIRN_SECTION_SEEK);
	if (!cairn_run_extent_matches(run, extent))
		return cairn_run_damaged(
		    run, extent->offset, "the seek section fails its checksum");
	if (!cairn_seek_check(&run->seek, run->blocks->offset, cairn_run_blocks_end(run)))
		return cairn_run_damaged(
		    run, extent->offset, "the seek section names impossible blocks");
	atomic_store_explicit(&run->seek_verified, true, memory_order_release);
	return 0;
}

int cairn_run_block_offset(struct cairn_run_reader *run, uint64_t index, uint64_t *offset)
{
	*offset = 0;
	if (index >= run->footer.blocks)
		return cairn_error_at(CAIRN_INVALID, run->path, CAIRN_NO_OFFSET,
		    "block %" PRIu64 " asked for, but there are %" PRIu64, index,
		    run->footer.blocks);
	int code = cairn_run_trust_order(run);
	if (code == 0)
		*offset = cairn_seek_offset(&run->seek, index);
	return code;
}

/* Opens block `index`; *above says whether its first key is above `key`. */
static int open_and_compare(const struct cairn_run_reader *run, uint64_t index, cairn_slice key,
    struct cairn_kv02_block *block, bool *above)
{
	int code = cairn_run_open_block(run, index, block);
	*above = code == 0 && cairn_kv02_compare(block, 0, key) > 0;
	return code;
}

/*
 * Block place->index begins above `key`: finds the last block that does not, by galloping over
 * first keys and then halving. Both neighbours that decide must be verified: the one on the right
 * is here, the one on the left by the caller, as after any search.
 */
static int look_left(const struct cairn_run_reader *run, cairn_slice key,
    struct cairn_kv02_block *block, struct cairn_run_place *place)
{
	uint64_t low, high = place->index;
	for (uint64_t step = 1;; step *= 2) {
		if (high == 0)
			return cairn_run_damaged(run, run->blocks->offset,
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
	int code = cairn_run_open_block(run, high, block);
	if (code == 0)
		code = cairn_run_check_keys(run, block);
	if (code == 0)
		code = cairn_run_open_block(run, low, block);
	if (code != 0)
		return code;
	place->index = low;
	place->record = cairn_kv02_lower_bound(block, key, &place->equal);
	return 0;
}

int cairn_run_place(struct cairn_run_reader *run, cairn_slice key, struct cairn_run_aim aim,
    struct cairn_kv02_block *block, struct cairn_run_place *place)
{
	place->index = aim.block;
	int code = cairn_run_open_named(run, aim.offset, block);
	if (code != 0)
		return code;
	place->record = cairn_kv02_lower_bound(block, key, &place->equal);
	if (CAIRN_LIKELY(place->record > 0 || place->equal))
		return 0;
	if (cairn_key_compare(key, run->first_key) < 0) {
		place->index = 0;
		place->record = 0;
		return aim.block == 0 ? 0 : cairn_run_open_block(run, 0, block);
	}
	return look_left(run, key, block, place);
}

/* Looks `key` up in the block that was found for it. */
static int get_at(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    const struct cairn_kv02_block *block, const struct cairn_run_place *place,
    struct cairn_record *record)
{
	if (!place->equal) {
		int code = cairn_run_check_keys(run, block);
		return code != 0 ? code : CAIRN_NOT_FOUND;
	}
	cairn_kv02_record(block, place->record, record);
	record->key = key;
	int code = cairn_run_check_record(run, record, hash);
	if (CAIRN_UNLIKELY(code != 0))
		*record = (struct cairn_record){0};
	return code;
}

/* By the seek section. */
static int get_by_order(
    struct cairn_run_reader *run, cairn_slice key, uint64_t hash, struct cairn_record *record)
{
	if (cairn_run_outside(run, key))
		return CAIRN_NOT_FOUND;
	struct cairn_kv02_block block;
	struct cairn_run_place place;
	int code = cairn_run_trust_order(run);
	if (code == 0)
		code = cairn_run_place(run, key, cairn_run_aim_by_order(run, key), &block, &place);
	return code != 0 ? code : get_at(run, key, hash, &block, &place, record);
}

/* Whether the next block shows that `key`, above all of block `index`, has its place further on. */
static int was_too_far_left(
    const struct cairn_run_reader *run, cairn_slice key, uint64_t index, bool *wrong)
{
	struct cairn_kv02_block next;
	*wrong = cairn_key_compare(key, run->last_key) <= 0;
	if (index + 1 == run->footer.blocks)
		return 0;
	int code = cairn_run_open_block(run, index + 1, &next);
	if (code == 0)
		code = cairn_run_check_keys(run, &next);
	*wrong = code == 0 && cairn_kv02_compare(&next, 0, key) <= 0;
	return code;
}

int cairn_run_get_from(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    struct cairn_run_aim aim, struct cairn_record *record)
{
	struct cairn_kv02_block block;
	struct cairn_run_place place;
	bool wrong = false;
	*record = (struct cairn_record){0};
	int code = cairn_run_trust_order(run);
	if (code == 0)
		code = cairn_run_place(run, key, aim, &block, &place);
	if (code == 0 && place.record == block.count)
		code = was_too_far_left(run, key, place.index, &wrong);
	if (code != 0)
		return code;
	return wrong ? get_by_order(run, key, hash, record)
		     : get_at(run, key, hash, &block, &place, record);
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
	const struct cairn_run_shape *shape = &run->shape;
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
	if (CAIRN_UNLIKELY(
		probe->offset < run->blocks->offset || probe->offset >= cairn_run_blocks_end(run)))
		return cairn_run_damaged(run, (uint64_t)(run->point.section - run->map.data),
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
	if (cairn_run_open_block_at(run, offset, &block) != 0)
		return cairn_run_damaged(run, offset, "the block here has no valid structure");
	return cairn_run_check_keys(run, &block);
}

/* Whether the candidate is the key: 0, CAIRN_NOT_FOUND or a failure. */
static int look_at(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    const struct cairn_run_probe *probe, struct cairn_record *record)
{
	int code = cairn_kv02_pick(run->map.data + probe->offset,
	    (size_t)(cairn_run_blocks_end(run) - probe->offset),
	    run->header.flags & CAIRN_RUN_KINDS, probe->record, key, record);
	if (CAIRN_LIKELY(code == 0))
		return cairn_run_check_record(run, record, hash);
	if (code != CAIRN_NOT_FOUND)
		return cairn_run_damaged(
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
