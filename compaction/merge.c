/*
 * compaction/merge.c -- k-way merge of cursors by a linear search for the smallest.
 *
 * For a few dozen inputs at most, a scan over cached heads is as good as heaps and trees
 * (README.md, "Merge").
 *
 * Terms. The *leader* is the input whose record is shown; the *second* is the one that comes next
 * after it; *before* is <, or > backwards.
 *
 * Invariants, while the cursor stands on a record.
 *	1. Every other input stands behind the leader's key in the direction of the last move, or
 *	   nowhere. So none of them shows a record that the leader shadows.
 *	2. `second` is the first of the others, NULL when none stands anywhere. While the leader is
 *	   before it, no other input needs to be looked at.
 *	3. A failure of an input leaves the cursor nowhere; the others may stand anywhere. Only
 *	   moves that place all inputs anew (first, last, seek) are allowed then.
 *
 * Threads. A merge and its inputs belong to one thread at a time.
 */
#include "compaction/merge.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "format/error.h"

struct merge {
	struct cairn_cursor cursor; /* first: what users see */
	struct cairn_cursor *leader;
	struct cairn_cursor *second;
	struct cairn_merge_aim *aim; /* NULL: nobody */
	bool backward;
	size_t count;
	struct cairn_cursor *input[]; /* newest first */
};

static struct merge *merge_of(struct cairn_cursor *cursor)
{
	return (struct merge *)cursor;
}

/* <0: `a` comes before `b` in the direction of the merge. */
static inline int compare(
    const struct merge *merge, const struct cairn_cursor *a, const struct cairn_cursor *b)
{
	int order = cairn_cursor_compare(a, b);
	return merge->backward ? -order : order;
}

static int step(const struct merge *merge, struct cairn_cursor *input)
{
	return merge->backward ? cairn_cursor_prev(input) : cairn_cursor_next(input);
}

/* Ends a move that failed or found nothing. */
static int stand_nowhere(struct merge *merge, int code)
{
	merge->cursor.valid = false;
	return code;
}

static int show_leader(struct merge *merge)
{
	merge->cursor.key = merge->leader->key;
	merge->cursor.head = merge->leader->head;
	merge->cursor.kind = merge->leader->kind;
	merge->cursor.valid = true;
	return 0;
}

/*
 * Finds leader and second among inputs that stand anywhere. An input that ties with the leader so
 * far is older than it, so its record is shadowed, whoever leads in the end: it moves on at once.
 */
static int elect(struct merge *merge)
{
	struct cairn_cursor *leader = NULL, *second = NULL;
	for (size_t i = 0; i < merge->count; i++) {
		struct cairn_cursor *input = merge->input[i];
		if (!input->valid)
			continue;
		int order = leader ? compare(merge, input, leader) : -1;
		if (order == 0) {
			int code = step(merge, input);
			if (code < 0)
				return stand_nowhere(merge, code);
			if (code == CAIRN_END)
				continue;
			order = 1;
		}
		if (order < 0) {
			second = leader;
			leader = input;
		} else if (!second || compare(merge, input, second) < 0) {
			second = input;
		}
	}
	merge->leader = leader;
	merge->second = second;
	return leader ? show_leader(merge) : stand_nowhere(merge, CAIRN_END);
}

/* One move in the direction of the merge. */
static int advance(struct merge *merge)
{
	struct cairn_cursor *leader = merge->leader;
	int code = step(merge, leader);
	if (code < 0)
		return stand_nowhere(merge, code);
	if (code == 0 && (!merge->second || compare(merge, leader, merge->second) < 0))
		return show_leader(merge);
	return elect(merge);
}

/* All inputs are about to be sought. */
static void take_aim(const struct merge *merge, cairn_slice key)
{
	if (merge->aim)
		merge->aim->aim(merge->aim, key);
}

/* Places `input` on its first record behind `key` in the direction of the merge. */
static int place_behind(const struct merge *merge, struct cairn_cursor *input, cairn_slice key)
{
	int code = cairn_cursor_seek(input, key);
	if (merge->backward && code == CAIRN_END)
		return cairn_cursor_last(input);
	if (merge->backward && code == 0)
		return cairn_cursor_prev(input);
	if (code == 0 && cairn_key_equal(input->key, key))
		return cairn_cursor_next(input);
	return code;
}

/* Turns the merge around: the others go to the other side of the leader's key, which stays. */
static int turn(struct merge *merge)
{
	merge->backward = !merge->backward;
	take_aim(merge, merge->leader->key);
	for (size_t i = 0; i < merge->count; i++) {
		struct cairn_cursor *input = merge->input[i];
		if (input == merge->leader)
			continue;
		int code = place_behind(merge, input, merge->leader->key);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	merge->second = merge->leader; /* not known: the leader's step will not be before itself */
	return 0;
}

static int merge_next(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	assert(cursor->valid);
	int code = merge->backward ? turn(merge) : 0;
	return code < 0 ? code : advance(merge);
}

static int merge_prev(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	assert(cursor->valid);
	int code = merge->backward ? 0 : turn(merge);
	return code < 0 ? code : advance(merge);
}

static int merge_first(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	merge->backward = false;
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_first(merge->input[i]);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return elect(merge);
}

static int merge_last(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	merge->backward = true;
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_last(merge->input[i]);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return elect(merge);
}

static int merge_seek(struct cairn_cursor *cursor, cairn_slice key)
{
	struct merge *merge = merge_of(cursor);
	merge->backward = false;
	take_aim(merge, key);
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_seek(merge->input[i], key);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return elect(merge);
}

static int merge_record(struct cairn_cursor *cursor, struct cairn_record *record)
{
	assert(cursor->valid);
	return cairn_cursor_record(merge_of(cursor)->leader, record);
}

static void close_all(struct cairn_cursor **inputs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cairn_cursor_close(inputs[i]);
}

static void merge_close(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	close_all(merge->input, merge->count);
	if (merge->aim)
		merge->aim->close(merge->aim);
	free(merge);
}

static const struct cairn_cursor_ops merge_ops = {
    .first = merge_first,
    .last = merge_last,
    .seek = merge_seek,
    .next = merge_next,
    .prev = merge_prev,
    .record = merge_record,
    .close = merge_close,
};

int cairn_merge_open(struct cairn_cursor **inputs, size_t count, struct cairn_cursor **merged)
{
	*merged = NULL;
	if (count == 1) { /* nothing to merge: it is its own cursor, and costs nothing */
		*merged = inputs[0];
		return 0;
	}
	struct merge *merge = calloc(1, sizeof *merge + count * sizeof(struct cairn_cursor *));
	if (!merge) {
		close_all(inputs, count);
		return cairn_error(-ENOMEM, "not enough memory to merge %zu runs", count);
	}
	merge->cursor.ops = &merge_ops;
	merge->count = count;
	for (size_t i = 0; i < count; i++)
		merge->input[i] = inputs[i];
	*merged = &merge->cursor;
	return 0;
}

void cairn_merge_set_aim(struct cairn_cursor *merged, struct cairn_merge_aim *aim)
{
	assert(merged->ops == &merge_ops);
	merge_of(merged)->aim = aim;
}
