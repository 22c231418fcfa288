/*
 * format/run_salvage.c -- see run_salvage.h.
 */
#include "format/run_salvage.h"

#include <errno.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/kv02_block.h"

#define STEP  8u  /* blocks start at multiples of it */
#define SLACK 64u /* bytes behind a block's limit that have to be readable */

struct cairn_run_salvage {
	struct cairn_io *io;
	char *path;
	struct cairn_map map;
	struct cairn_run_header header;
	struct cairn_run_footer footer;
	bool header_right, footer_right;
};

/* ---------------------------------------------------------------- the file */

static void read_frame(struct cairn_run_salvage *salvage)
{
	const struct cairn_map *map = &salvage->map;
	if (map->size < CAIRN_RUN_HEADER_SIZE + CAIRN_RUN_FOOTER_SIZE)
		return;
	salvage->header_right =
	    cairn_run_header_decode(&salvage->header, map->data, salvage->path) == 0;
	salvage->footer_right =
	    cairn_run_footer_decode(&salvage->footer, map->data + map->size - CAIRN_RUN_FOOTER_SIZE,
		map->size, salvage->path) == 0;
}

static int map_file(struct cairn_run_salvage *salvage)
{
	const struct cairn_io_ops *ops = salvage->io->ops;
	struct cairn_file *file;
	struct cairn_file_status status;
	int code = ops->open(salvage->io, salvage->path, CAIRN_OPEN_READ, &file);
	if (code != 0)
		return code;
	code = ops->status(file, &status);
	if (code == 0 && status.size > 0)
		code = ops->map(file, (size_t)status.size, &salvage->map);
	ops->close(file);
	return code;
}

int cairn_run_salvage_open(struct cairn_io *io, const char *path, struct cairn_run_salvage **out)
{
	*out = NULL;
	struct cairn_run_salvage *salvage = calloc(1, sizeof *salvage);
	char *copy = strdup(path);
	if (!salvage || !copy) {
		free(salvage);
		free(copy);
		return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "not enough memory");
	}
	salvage->io = io;
	salvage->path = copy;
	int code = map_file(salvage);
	if (code != 0) {
		cairn_run_salvage_close(salvage);
		return code;
	}
	read_frame(salvage);
	*out = salvage;
	return 0;
}

void cairn_run_salvage_close(struct cairn_run_salvage *salvage)
{
	if (!salvage)
		return;
	if (salvage->map.data)
		salvage->io->ops->unmap(salvage->io, &salvage->map);
	free(salvage->path);
	free(salvage);
}

const struct cairn_run_header *cairn_run_salvage_header(const struct cairn_run_salvage *salvage)
{
	return salvage->header_right ? &salvage->header : NULL;
}

const struct cairn_run_footer *cairn_run_salvage_footer(const struct cairn_run_salvage *salvage)
{
	return salvage->footer_right ? &salvage->footer : NULL;
}

const char *cairn_run_salvage_path(const struct cairn_run_salvage *salvage)
{
	return salvage->path;
}

uint64_t cairn_run_salvage_size(const struct cairn_run_salvage *salvage)
{
	return salvage->map.size;
}

/* ---------------------------------------------------------------- the cursor */

struct salvage_cursor {
	struct cairn_cursor base; /* first: the callers' handle */
	struct cairn_run_salvage *salvage;
	uint64_t hash_seed;
	cairn_run_lost *lost;
	void *context;
	uint64_t end;    /* no block reaches beyond it */
	uint64_t offset; /* where to look for the next block */
	struct cairn_kv02_block block;
	unsigned record;
	struct cairn_buffer key;      /* under the cursor */
	struct cairn_buffer previous; /* the last one of the block before */
	bool has_previous;
};

static struct salvage_cursor *cursor_of(struct cairn_cursor *base)
{
	return (struct salvage_cursor *)base;
}

/* Up to the end of the blocks where the footer tells it, else of all that could hold one. */
static uint64_t end_of_blocks(const struct cairn_run_salvage *salvage)
{
	uint64_t size = salvage->map.size, end = size > SLACK ? size - SLACK : 0;
	if (!salvage->footer_right)
		return end;
	const struct cairn_run_extent *blocks =
	    cairn_run_footer_extent(&salvage->footer, CAIRN_SECTION_BLOCKS);
	return blocks->offset + blocks->size;
}

/* Cheap, and false for nearly all bytes that are no block. */
static bool heads_ascend(const struct cairn_kv02_block *block)
{
	for (unsigned i = 1; i < block->count; i++)
		if (cairn_get32(block->heads + 4 * (i - 1)) > cairn_get32(block->heads + 4 * i))
			return false;
	return true;
}

/* The padding behind the values does not matter here. */
static bool opens(struct salvage_cursor *cursor, bool kinds)
{
	struct cairn_kv02_block *block = &cursor->block;
	const uint8_t *data = cursor->salvage->map.data + cursor->offset;
	size_t limit = (size_t)(cursor->end - cursor->offset);
	return cairn_kv02_open(block, data, limit, cursor->offset, kinds) == 0 &&
	       heads_ascend(block) &&
	       cairn_get32(data + block->key_area_size) ==
		   cairn_checksum(data, block->key_area_size, cursor->offset);
}

static bool is_block(struct salvage_cursor *cursor)
{
	const struct cairn_run_salvage *salvage = cursor->salvage;
	if (salvage->header_right)
		return opens(cursor, salvage->header.flags & CAIRN_RUN_KINDS);
	if (salvage->footer_right)
		return opens(cursor, salvage->footer.flags & CAIRN_RUN_KINDS);
	return opens(cursor, false) || opens(cursor, true);
}

static int load_key(struct salvage_cursor *cursor, unsigned record, struct cairn_buffer *key)
{
	uint32_t size = cairn_kv02_key_size(&cursor->block, record);
	key->size = 0;
	if (cairn_buffer_reserve(key, size ? size : 1) != 0)
		return cairn_error_at(
		    -ENOMEM, cursor->salvage->path, CAIRN_NO_OFFSET, "not enough memory");
	cairn_kv02_key(&cursor->block, record, key->data);
	key->size = size;
	return 0;
}

static cairn_slice slice_of(const struct cairn_buffer *buffer)
{
	return cairn_slice_of(buffer->data, buffer->size);
}

static void report_lost(struct salvage_cursor *cursor, uint64_t from, const cairn_slice *before)
{
	cairn_slice after = slice_of(&cursor->previous);
	cursor->lost(cursor->context, cursor->salvage->path, from,
	    cursor->has_previous ? &after : NULL, before);
}

/* Finds the next block whose keys are above those before: 0, CAIRN_END or a failure. */
static int find_block(struct salvage_cursor *cursor)
{
	uint64_t from = cursor->offset;
	for (; cursor->offset < cursor->end; cursor->offset += STEP) {
		if (!is_block(cursor))
			continue;
		int code = load_key(cursor, 0, &cursor->key);
		if (code != 0)
			return code;
		cairn_slice first = slice_of(&cursor->key);
		if (cursor->has_previous &&
		    cairn_key_compare(first, slice_of(&cursor->previous)) <= 0)
			continue;
		if (cursor->offset > from)
			report_lost(cursor, from, &first);
		code = load_key(cursor, cursor->block.count - 1, &cursor->previous);
		cursor->has_previous = true;
		cursor->offset += cursor->block.size;
		return code;
	}
	if (from < cursor->end || !cursor->salvage->footer_right)
		report_lost(cursor, from, NULL);
	return CAIRN_END;
}

static int stand_nowhere(struct salvage_cursor *cursor, int code)
{
	cursor->base.valid = false;
	cursor->base.key = cairn_slice_of(NULL, 0);
	return code;
}

static int stand_on(struct salvage_cursor *cursor, unsigned record)
{
	int code = load_key(cursor, record, &cursor->key);
	if (code != 0)
		return stand_nowhere(cursor, code);
	cursor->record = record;
	cursor->base.key = slice_of(&cursor->key);
	cursor->base.head = cairn_key_head(cursor->base.key, 0);
	cursor->base.kind =
	    cursor->block.tombstones >> record & 1 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
	cursor->base.valid = true;
	return 0;
}

static int enter_next(struct salvage_cursor *cursor)
{
	int code = find_block(cursor);
	return code == 0 ? stand_on(cursor, 0) : stand_nowhere(cursor, code);
}

static int salvage_first(struct cairn_cursor *base)
{
	struct salvage_cursor *cursor = cursor_of(base);
	cursor->offset = CAIRN_RUN_HEADER_SIZE;
	cursor->has_previous = false;
	return enter_next(cursor);
}

static int salvage_next(struct cairn_cursor *base)
{
	struct salvage_cursor *cursor = cursor_of(base);
	if (cursor->record + 1 < cursor->block.count)
		return stand_on(cursor, cursor->record + 1);
	return enter_next(cursor);
}

static int salvage_record(struct cairn_cursor *base, struct cairn_record *record)
{
	struct salvage_cursor *cursor = cursor_of(base);
	cairn_kv02_record(&cursor->block, cursor->record, record);
	record->key = base->key;
	uint64_t hash = cairn_key_hash(base->key, cursor->hash_seed);
	if (record->checksum == cairn_record_checksum(hash, record->kind, record->value))
		return 0;
	uint64_t offset =
	    (uint64_t)((const uint8_t *)record->value.data - cursor->salvage->map.data);
	*record = (struct cairn_record){0};
	return cairn_error_at(
	    CAIRN_CORRUPT, cursor->salvage->path, offset, "the record fails its checksum");
}

static void salvage_close(struct cairn_cursor *base)
{
	struct salvage_cursor *cursor = cursor_of(base);
	cairn_buffer_release(&cursor->key);
	cairn_buffer_release(&cursor->previous);
	free(cursor);
}

/* Repair reads forwards. */
static int salvage_refuse(struct cairn_cursor *base)
{
	return stand_nowhere(
	    cursor_of(base), cairn_error(CAIRN_INVALID, "what was salvaged is read forwards only"));
}

static int salvage_refuse_seek(struct cairn_cursor *base, cairn_slice key)
{
	(void)key;
	return salvage_refuse(base);
}

static const struct cairn_cursor_ops salvage_cursor_ops = {
    .first = salvage_first,
    .last = salvage_refuse,
    .seek = salvage_refuse_seek,
    .next = salvage_next,
    .prev = salvage_refuse,
    .record = salvage_record,
    .close = salvage_close,
};

int cairn_run_salvage_cursor(struct cairn_run_salvage *salvage, uint64_t hash_seed,
    cairn_run_lost *lost, void *context, struct cairn_cursor **out)
{
	*out = NULL;
	struct salvage_cursor *cursor = calloc(1, sizeof *cursor);
	if (!cursor)
		return cairn_error_at(-ENOMEM, salvage->path, CAIRN_NO_OFFSET, "not enough memory");
	cursor->base.ops = &salvage_cursor_ops;
	cursor->salvage = salvage;
	cursor->hash_seed = hash_seed;
	cursor->lost = lost;
	cursor->context = context;
	cursor->end = end_of_blocks(salvage);
	*out = &cursor->base;
	return 0;
}
