/*
 * format/iter.h -- a cursor over records in key order: the shape shared by runs, memtables and
 * merges.
 *
 * A cursor stands on a record or nowhere. Each move returns 0 (it stands on a record; `key`, `head`
 * and `kind` describe it), CAIRN_END (nothing there; it stands nowhere) or a failure (it stands
 * nowhere). `next` and `prev` need a record to stand on. `key` is valid until the next move or
 * close.
 *
 * Keys that a cursor shows are verified (the key area's checksum); values are not until `record` is
 * called, and a `kind` of DELETE must not be believed before `record` returned 0 either.
 * A cursor belongs to one thread at a time and does not keep alive what it reads.
 */
#ifndef CAIRN_FORMAT_ITER_H
#define CAIRN_FORMAT_ITER_H

#include "format/base.h"

struct cairn_cursor {
	const struct cairn_cursor_ops *ops;
	cairn_slice key;
	uint64_t head; /* cairn_key_head(key, 0): most comparisons end here */
	enum cairn_kind kind;
	bool valid; /* stands on a record */
};

struct cairn_cursor_ops {
	int (*first)(struct cairn_cursor *cursor);
	int (*last)(struct cairn_cursor *cursor);
	int (*seek)(struct cairn_cursor *cursor, cairn_slice key); /* first record with a key >= */
	int (*next)(struct cairn_cursor *cursor);
	int (*prev)(struct cairn_cursor *cursor);
	/* The whole record under the cursor, its checksum verified: 0 or CAIRN_CORRUPT naming file
	 * and offset. Its slices are valid as long as `key` is. The cursor does not move. */
	int (*record)(struct cairn_cursor *cursor, struct cairn_record *record);
	/* Frees the cursor. NULL is not allowed. */
	void (*close)(struct cairn_cursor *cursor);
};

static inline int cairn_cursor_first(struct cairn_cursor *c)
{
	return c->ops->first(c);
}

static inline int cairn_cursor_last(struct cairn_cursor *c)
{
	return c->ops->last(c);
}

static inline int cairn_cursor_seek(struct cairn_cursor *c, cairn_slice key)
{
	return c->ops->seek(c, key);
}

static inline int cairn_cursor_next(struct cairn_cursor *c)
{
	return c->ops->next(c);
}

static inline int cairn_cursor_prev(struct cairn_cursor *c)
{
	return c->ops->prev(c);
}

static inline int cairn_cursor_record(struct cairn_cursor *c, struct cairn_record *record)
{
	return c->ops->record(c, record);
}

static inline void cairn_cursor_close(struct cairn_cursor *c)
{
	c->ops->close(c);
}

/* Order of the records that two cursors stand on. Beyond the heads, the next 8 bytes settle most,
 * and equal keys of 16. */
static inline int cairn_cursor_compare(const struct cairn_cursor *a, const struct cairn_cursor *b)
{
	if (a->head != b->head)
		return a->head < b->head ? -1 : 1;
	if (a->key.size < 16 || b->key.size < 16)
		return cairn_key_compare(a->key, b->key);
	uint64_t x = cairn_key_head(a->key, 8), y = cairn_key_head(b->key, 8);
	if (x != y)
		return x < y ? -1 : 1;
	if (a->key.size == 16 || b->key.size == 16)
		return (a->key.size > 16) - (b->key.size > 16);
	return cairn_key_compare(a->key, b->key);
}

#endif
