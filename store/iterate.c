/*
 * store/iterate.c -- iterators: a cursor over a view's set, or over a table, without tombstones,
 * within bounds.
 *
 * States. Standing on a record, or nowhere. `pending` holds the failure of a value until the next
 * move has returned it. The range is kept as two bounds: `lower` (inclusive; empty = open, since no
 * key is below the empty one) and `upper` (exclusive, when `bounded`).
 */
#include <errno.h>
#include <stdlib.h>

#include "format/buffer.h"
#include "store/iterate.h"
#include "store/view.h"

struct cairn_iter {
	struct cairn *db;         /* NULL: of a table, which needs no handle */
	struct cairn_view *view;  /* likewise */
	_Atomic unsigned *in_use; /* of a table: counts its iterators */
	struct cairn_cursor *cursor;
	struct cairn_buffer lower;
	struct cairn_buffer upper;
	struct cairn_buffer sought; /* the key of a seek: it may be the iterator's own */
	bool bounded;
	bool valid;
	int status;
	int pending;
};

static cairn_slice lower_of(const cairn_iter *iter)
{
	return cairn_slice_of(iter->lower.data, iter->lower.size);
}

static cairn_slice upper_of(const cairn_iter *iter)
{
	return cairn_slice_of(iter->upper.data, iter->upper.size);
}

static int set_bound(struct cairn_buffer *bound, cairn_slice key)
{
	bound->size = 0;
	if (cairn_buffer_append(bound, key.data, key.size))
		return cairn_error(-ENOMEM, "out of memory for a key");
	return 0;
}

static int raise_lower(cairn_iter *iter, cairn_slice key)
{
	return cairn_key_compare(key, lower_of(iter)) > 0 ? set_bound(&iter->lower, key) : 0;
}

static int reduce_upper(cairn_iter *iter, cairn_slice key)
{
	if (iter->bounded && cairn_key_compare(key, upper_of(iter)) >= 0)
		return 0;
	iter->bounded = true;
	return set_bound(&iter->upper, key);
}

/* The least key above all that begin with `prefix`: its last byte below 0xff counted up. There may
 * be none. */
static int bound_by_prefix(cairn_iter *iter, cairn_slice prefix)
{
	const uint8_t *bytes = prefix.data;
	size_t size = prefix.size;
	int rc = raise_lower(iter, prefix);
	while (size > 0 && bytes[size - 1] == 0xff)
		size--;
	if (rc || size == 0)
		return rc;
	struct cairn_buffer successor = {0};
	rc = set_bound(&successor, cairn_slice_of(bytes, size));
	if (!rc) {
		successor.data[size - 1]++;
		rc = reduce_upper(iter, cairn_slice_of(successor.data, size));
	}
	cairn_buffer_release(&successor);
	return rc;
}

static int set_range(cairn_iter *iter, const cairn_range *range)
{
	if (!range)
		return 0;
	if (range->flags)
		return cairn_error(CAIRN_INVALID, "unknown range flags 0x%x", range->flags);
	const cairn_slice *given[] = {range->from, range->to, range->prefix};
	for (size_t i = 0; i < 3; i++)
		if (given[i] && given[i]->size && !given[i]->data)
			return cairn_error(CAIRN_INVALID, "a slice with a size has no data");
	int rc = range->from ? raise_lower(iter, *range->from) : 0;
	if (!rc && range->to)
		rc = reduce_upper(iter, *range->to);
	if (!rc && range->prefix)
		rc = bound_by_prefix(iter, *range->prefix);
	return rc;
}

/* Whether calls may go on. */
static int check_iter(const cairn_iter *iter)
{
	return iter->db ? cairn_check_handle(iter->db) : 0;
}

static void free_iter(cairn_iter *iter)
{
	cairn_cursor_close(iter->cursor);
	cairn_buffer_release(&iter->lower);
	cairn_buffer_release(&iter->upper);
	cairn_buffer_release(&iter->sought);
	free(iter);
}

/* An iterator over `cursor`, which it takes over, also on failure. */
static int make_iter(struct cairn_cursor *cursor, const cairn_range *range, cairn_iter **iter)
{
	cairn_iter *made = calloc(1, sizeof *made);
	if (!made) {
		cairn_cursor_close(cursor);
		return cairn_error(-ENOMEM, "out of memory for an iterator");
	}
	made->cursor = cursor;
	int rc = set_range(made, range);
	if (rc) {
		free_iter(made);
		return rc;
	}
	*iter = made;
	return 0;
}

int cairn_iter_open(cairn_view *view, const cairn_range *range, cairn_iter **iter)
{
	struct cairn_cursor *cursor;
	if (iter)
		*iter = NULL;
	int rc = cairn_check_handle(view ? view->db : NULL);
	if (!rc && !iter)
		rc = cairn_error(CAIRN_INVALID, "no place for the iterator was given");
	if (!rc)
		rc = cairn_set_cursor(view->set, view->sequence, &view->db->seeks, &cursor);
	if (!rc)
		rc = make_iter(cursor, range, iter);
	if (rc)
		return cairn_report(view ? view->db : NULL, rc);
	(*iter)->db = view->db;
	(*iter)->view = view;
	view->iterators++;
	return 0;
}

int cairn_iter_over(struct cairn_cursor *cursor, const cairn_range *range, _Atomic unsigned *in_use,
    cairn_iter **iter)
{
	int rc = make_iter(cursor, range, iter);
	if (rc)
		return rc;
	(*iter)->in_use = in_use;
	atomic_fetch_add(in_use, 1);
	return 0;
}

void cairn_iter_close(cairn_iter *iter)
{
	if (!iter || check_iter(iter))
		return;
	cairn_view *view = iter->view;
	_Atomic unsigned *in_use = iter->in_use;
	free_iter(iter);
	if (view)
		view->iterators--;
	else
		atomic_fetch_sub(in_use, 1); /* last: the table may be closed from now on */
}

/* Every move ends here, also one that could not begin. */
static int arrive(cairn_iter *iter, int rc)
{
	iter->valid = rc == 0;
	iter->status = rc < 0 ? rc : 0;
	return CAIRN_LIKELY(rc >= 0) ? rc : cairn_report(iter->db, rc);
}

/* Every move begins here: non-zero is its result. */
static int depart(cairn_iter *iter)
{
	int rc = check_iter(iter);
	if (!rc && iter->pending) {
		rc = iter->pending;
		iter->pending = 0;
	}
	return rc;
}

/* Whether the cursor stands on a tombstone, verified: 1, 0 or a failure. */
static int on_tombstone(struct cairn_cursor *cursor)
{
	struct cairn_record record;
	if (CAIRN_LIKELY(cursor->kind != CAIRN_KIND_DELETE))
		return 0;
	int rc = cairn_cursor_record(cursor, &record);
	return rc ? rc : 1;
}

/* The cursor has moved with result `rc`: on to the first live record from there that is within
 * bounds. */
static int settle(cairn_iter *iter, int rc, int (*move)(struct cairn_cursor *cursor))
{
	struct cairn_cursor *cursor = iter->cursor;
	bool forward = move == cursor->ops->next;
	while (rc == 0) {
		if (forward ? iter->bounded && cairn_key_compare(cursor->key, upper_of(iter)) >= 0
			    : cairn_key_compare(cursor->key, lower_of(iter)) < 0)
			return CAIRN_END;
		int dead = on_tombstone(cursor);
		if (dead <= 0)
			return dead;
		rc = move(cursor);
	}
	return rc;
}

static int seek_forward(cairn_iter *iter, cairn_slice key)
{
	if (cairn_key_compare(key, lower_of(iter)) < 0)
		key = lower_of(iter);
	return settle(iter, cairn_cursor_seek(iter->cursor, key), iter->cursor->ops->next);
}

/* To the last record below `key`, or not above it when `inclusive`. */
static int seek_backward(cairn_iter *iter, cairn_slice key, bool inclusive)
{
	struct cairn_cursor *cursor = iter->cursor;
	int rc = cairn_cursor_seek(cursor, key);
	if (rc == CAIRN_END)
		rc = cairn_cursor_last(cursor);
	else if (rc == 0 && !(inclusive && cairn_key_equal(cursor->key, key)))
		rc = cairn_cursor_prev(cursor);
	return settle(iter, rc, cursor->ops->prev);
}

static int seek_last(cairn_iter *iter)
{
	if (iter->bounded)
		return seek_backward(iter, upper_of(iter), false);
	return settle(iter, cairn_cursor_last(iter->cursor), iter->cursor->ops->prev);
}

int cairn_iter_first(cairn_iter *iter)
{
	int rc = depart(iter);
	return arrive(iter, rc ? rc : seek_forward(iter, lower_of(iter)));
}

int cairn_iter_last(cairn_iter *iter)
{
	int rc = depart(iter);
	return arrive(iter, rc ? rc : seek_last(iter));
}

/* Takes a copy of the key to seek: a caller may pass what cairn_iter_key returned. */
static int take_key(cairn_iter *iter, cairn_slice *key)
{
	if (key->size && !key->data)
		return cairn_error(CAIRN_INVALID, "a slice with a size has no data");
	int rc = set_bound(&iter->sought, *key);
	*key = cairn_slice_of(iter->sought.data, iter->sought.size);
	return rc;
}

int cairn_iter_seek(cairn_iter *iter, cairn_slice key)
{
	int rc = depart(iter);
	if (!rc)
		rc = take_key(iter, &key);
	return arrive(iter, rc ? rc : seek_forward(iter, key));
}

int cairn_iter_seek_le(cairn_iter *iter, cairn_slice key)
{
	int rc = depart(iter);
	if (!rc)
		rc = take_key(iter, &key);
	if (rc)
		return arrive(iter, rc);
	if (iter->bounded && cairn_key_compare(key, upper_of(iter)) >= 0)
		return arrive(iter, seek_last(iter));
	return arrive(iter, seek_backward(iter, key, true));
}

static int step(cairn_iter *iter, int (*move)(struct cairn_cursor *cursor))
{
	int rc = depart(iter);
	if (rc)
		return arrive(iter, rc);
	if (!iter->valid)
		return iter->status ? cairn_report(iter->db, iter->status) : CAIRN_END;
	return arrive(iter, settle(iter, move(iter->cursor), move));
}

int cairn_iter_next(cairn_iter *iter)
{
	return step(iter, iter->cursor->ops->next);
}

int cairn_iter_prev(cairn_iter *iter)
{
	return step(iter, iter->cursor->ops->prev);
}

cairn_slice cairn_iter_key(const cairn_iter *iter)
{
	if (!iter->valid || (iter->db && cairn_is_inherited(iter->db)))
		return (cairn_slice){NULL, 0};
	cairn_slice key = iter->cursor->key;
	return key.size ? key : (cairn_slice){"", 0};
}

cairn_slice cairn_iter_value(cairn_iter *iter)
{
	struct cairn_record record;
	if (!iter->valid)
		return (cairn_slice){NULL, 0};
	int rc = check_iter(iter);
	if (!rc)
		rc = iter->pending ? iter->pending : cairn_cursor_record(iter->cursor, &record);
	if (rc) {
		iter->pending = rc;
		iter->status = cairn_report(iter->db, rc);
		return (cairn_slice){NULL, 0};
	}
	return record.value.size ? record.value : (cairn_slice){"", 0};
}

int cairn_iter_status(const cairn_iter *iter)
{
	int rc = check_iter(iter);
	return rc ? cairn_report(iter->db, rc) : iter->status;
}
