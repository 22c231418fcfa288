/*
 * format/run_cursor.c -- a cursor over the records of one `.kv` file.
 *
 * The invariants are those of run_reader.c. A cursor belongs to one thread at a time.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "format/error.h"
#include "format/run_inside.h"

#define COMMON_KEY_SIZE 256u /* what the key buffer holds at first */
#define PIECE           16u

struct run_cursor {
	struct cairn_cursor base; /* first: the callers' handle */
	struct cairn_run_reader *run;
	struct cairn_kv02_block block;
	bool entered;    /* `block` is block `index`, open and its keys verified */
	bool has_prefix; /* its prefix stands in `key`, and the head is in prefix_head */
	uint64_t index;
	unsigned record;
	bool aimed; /* the next seek begins at `aim` */
	struct cairn_run_aim aim;
	uint64_t prefix_head;
	struct cairn_buffer key; /* its size means nothing: the room is used */
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

/* Room for a key of `size` bytes, and for what is copied too much. */
static int grow_key(struct run_cursor *cursor, size_t size)
{
	if (cairn_buffer_reserve(&cursor->key, size) == 0)
		return 0;
	return stand_nowhere(cursor,
	    cairn_error_at(-ENOMEM, cursor->run->path, CAIRN_NO_OFFSET, "not enough memory"));
}

/* The bytes common to all keys of the block stay in the buffer while the cursor is in it. */
static int take_prefix(struct run_cursor *cursor)
{
	const struct cairn_kv02_block *block = &cursor->block;
	if (block->prefix_size + PIECE > cursor->key.capacity) {
		int code = grow_key(cursor, block->prefix_size + PIECE);
		if (code != 0)
			return code;
	}
	memcpy(cursor->key.data, block->prefix, block->prefix_size);
	cursor->prefix_head = cairn_key_head(cairn_slice_of(block->prefix, block->prefix_size), 0);
	cursor->has_prefix = true;
	return 0;
}

/* The suffix of a key goes behind the prefix, in pieces: a call of memcpy would take longer. What
 * is read too much is of the file still, since its footer follows. */
static inline void copy_suffix(uint8_t *to, uint32_t head, const uint8_t *tail, size_t size)
{
	cairn_put32(to, __builtin_bswap32(head));
	for (size_t at = 0; at + CAIRN_KV02_HEAD_SIZE < size; at += PIECE)
		memcpy(to + CAIRN_KV02_HEAD_SIZE + at, tail + at, PIECE);
}

/* The first 8 bytes of the key, of which the prefix may be a part. */
static inline uint64_t head_of(
    const struct run_cursor *cursor, uint32_t head, const uint8_t *tail, size_t size)
{
	uint32_t prefix = cursor->block.prefix_size;
	if (prefix >= 8)
		return cursor->prefix_head;
	uint64_t suffix = (uint64_t)head << 32;
	if (size > CAIRN_KV02_HEAD_SIZE)
		suffix |=
		    cairn_key_head(cairn_slice_of(tail, size - CAIRN_KV02_HEAD_SIZE), 0) >> 32;
	return cursor->prefix_head | suffix >> 8 * prefix;
}

/* The end of every move that finds a record: `record` of the block that was entered. */
static inline int stand_on(struct run_cursor *cursor, unsigned record)
{
	const struct cairn_kv02_block *block = &cursor->block;
	size_t suffix = block->suffix_size[record], size = block->prefix_size + suffix;
	int code = cursor->has_prefix ? 0 : take_prefix(cursor);
	if (CAIRN_UNLIKELY(size + 2 * PIECE > cursor->key.capacity) && code == 0)
		code = grow_key(cursor, size + 2 * PIECE);
	if (CAIRN_UNLIKELY(code != 0))
		return code;
	uint32_t head = cairn_get32(block->heads + record * CAIRN_KV02_HEAD_SIZE);
	const uint8_t *tail = block->tails + block->tail_start[record];
	copy_suffix(cursor->key.data + block->prefix_size, head, tail, suffix);
	cursor->record = record;
	cursor->base.key = cairn_slice_of(cursor->key.data, size);
	cursor->base.head = head_of(cursor, head, tail, suffix);
	cursor->base.kind = block->tombstones >> record & 1 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
	cursor->base.valid = true;
	return 0;
}

/* Opens block `index` (< blocks) and verifies its keys, unless it is the one that is open. */
static int enter_block(struct run_cursor *cursor, uint64_t index)
{
	if (cursor->entered && cursor->index == index)
		return 0;
	cursor->entered = cursor->has_prefix = false;
	int code = cairn_run_trust_order(cursor->run);
	if (code == 0)
		code = cairn_run_open_block(cursor->run, index, &cursor->block);
	if (code == 0)
		code = cairn_run_check_keys(cursor->run, &cursor->block);
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

/* Enters the block that `key`, which belongs to block `aim` or to the left of it, has its place
 * in. */
static int enter_place(struct run_cursor *cursor, cairn_slice key, struct cairn_run_aim aim,
    struct cairn_run_place *place)
{
	struct cairn_run_reader *run = cursor->run;
	bool was_entered = cursor->entered;
	cursor->entered = cursor->has_prefix = false;
	int code = cairn_run_place(run, key, aim, &cursor->block, place);
	if (code == 0 && !(was_entered && cursor->index == place->index))
		code = cairn_run_check_keys(run, &cursor->block);
	if (code != 0)
		return stand_nowhere(cursor, code);
	cursor->index = place->index;
	cursor->entered = true;
	return 0;
}

/* By the seek section. */
static int seek_by_order(struct run_cursor *cursor, cairn_slice key)
{
	struct cairn_run_reader *run = cursor->run;
	struct cairn_run_place place;
	if (cairn_run_outside(run, key)) {
		if (cairn_key_compare(key, run->first_key) < 0)
			return stand_on_first_of(cursor, 0);
		return stand_nowhere(cursor, CAIRN_END);
	}
	int code = cairn_run_trust_order(run);
	if (code != 0)
		return stand_nowhere(cursor, code);
	code = enter_place(cursor, key, cairn_run_aim_by_order(run, key), &place);
	if (code != 0)
		return code;
	if (CAIRN_LIKELY(place.record < cursor->block.count))
		return stand_on(cursor, place.record);
	if (place.index + 1 < run->footer.blocks)
		return stand_on_first_of(cursor, place.index + 1);
	return stand_nowhere(cursor, cairn_run_damaged(run, cursor->block.offset,
					 "the last key is not the one that the bounds name"));
}

/*
 * From the block that somebody else found. If he was wrong, too far to the right is mended by
 * cairn_run_place; too far to the left shows in the next block, and then he is not believed.
 */
static int seek_aimed(struct run_cursor *cursor, cairn_slice key)
{
	struct cairn_run_reader *run = cursor->run;
	struct cairn_run_place place;
	int code = enter_place(cursor, key, cursor->aim, &place);
	if (code != 0)
		return code;
	if (CAIRN_LIKELY(place.record < cursor->block.count))
		return stand_on(cursor, place.record);
	if (place.index + 1 == run->footer.blocks && cairn_key_compare(key, run->last_key) > 0)
		return stand_nowhere(cursor, CAIRN_END);
	if (place.index + 1 == run->footer.blocks)
		return seek_by_order(cursor, key);
	code = stand_on_first_of(cursor, place.index + 1);
	if (code == 0 && CAIRN_UNLIKELY(cairn_key_compare(cursor->base.key, key) < 0))
		return seek_by_order(cursor, key);
	return code;
}

static int run_cursor_seek(struct cairn_cursor *base, cairn_slice key)
{
	struct run_cursor *cursor = run_cursor_of(base);
	bool aimed = cursor->aimed;
	cursor->aimed = false;
	return aimed ? seek_aimed(cursor, key) : seek_by_order(cursor, key);
}

void cairn_run_cursor_aim(struct cairn_cursor *base, struct cairn_run_aim aim)
{
	struct run_cursor *cursor = run_cursor_of(base);
	cursor->aim = aim;
	cursor->aimed = true;
}

static int run_cursor_record(struct cairn_cursor *base, struct cairn_record *record)
{
	struct run_cursor *cursor = run_cursor_of(base);
	assert(base->valid);
	cairn_kv02_record(&cursor->block, cursor->record, record);
	record->key = base->key;
	uint64_t hash = cairn_key_hash(base->key, cursor->run->header.identity.hash_seed);
	int code = cairn_run_check_record(cursor->run, record, hash);
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
