/*
 * compaction/merge.c -- k-way merge of cursors that are kept in order.
 *
 * For a few dozen inputs at most, a list in order is as good as heaps and trees (README.md,
 * "Merge"): an input that has moved on rarely passes more than one or two others.
 *
 * Terms. The inputs that stand on a record wait in a *line*, in the order in which the merge will
 * show them: ascending, or descending backwards. The *leader*, first in line, is shown. The *age*
 * of an input is its index: 0 is the newest.
 *
 * Invariants, while the cursor stands on a record.
 *	1. The keys in line differ, each from each: of two that tie, the older has been moved on. So
 *	   none of them shows a record that another shadows.
 *	2. The heads in line are those of the inputs' keys, inverted backwards, so that they ascend
 *	   in both directions.
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

struct waiting {
	uint64_t head;
	struct cairn_cursor *input;
	size_t age;
};

struct merge {
	struct cairn_cursor cursor;  /* first: what users see */
	struct cairn_merge_aim *aim; /* NULL: nobody */
	uint64_t invert;             /* heads: all bits backwards, none forwards */
	size_t waiting;
	struct waiting *line; /* behind the inputs */
	size_t count;
	struct cairn_cursor *input[]; /* newest first */
};

static struct merge *merge_of(struct cairn_cursor *cursor)
{
	return (struct merge *)cursor;
}

static bool is_backward(const struct merge *merge)
{
	return merge->invert != 0;
}

/* <0: `a` comes before `b` in the direction of the merge. */
static inline int compare(
    const struct merge *merge, const struct waiting *a, const struct waiting *b)
{
	if (CAIRN_LIKELY(a->head != b->head))
		return a->head < b->head ? -1 : 1;
	int order = cairn_cursor_compare(a->input, b->input);
	return is_backward(merge) ? -order : order;
}

/* Moves an input on in the direction of the merge; result as of the input's move. */
static inline int step(const struct merge *merge, struct waiting *moving)
{
	struct cairn_cursor *input = moving->input;
	int code = is_backward(merge) ? cairn_cursor_prev(input) : cairn_cursor_next(input);
	moving->head = input->head ^ merge->invert;
	return code;
}

/* Ends a move that failed or found nothing. */
static int stand_nowhere(struct merge *merge, int code)
{
	merge->cursor.valid = false;
	return code;
}

static inline int show_leader(struct merge *merge)
{
	const struct cairn_cursor *leader = merge->line[0].input;
	merge->cursor.key = leader->key;
	merge->cursor.head = leader->head;
	merge->cursor.kind = leader->kind;
	merge->cursor.valid = true;
	return 0;
}

static int end_move(struct merge *merge)
{
	return merge->waiting ? show_leader(merge) : stand_nowhere(merge, CAIRN_END);
}

/* Nobody takes the free place at `at`: those behind move up. */
static void close_gap(struct merge *merge, size_t at)
{
	merge->waiting--;
	memmove(
	    &merge->line[at], &merge->line[at + 1], (merge->waiting - at) * sizeof *merge->line);
}

/*
 * Finds the place of `moving`, at `at` or behind it; the place at `at` is free. Those that come
 * before it move up. Of two that tie the older moves on, and looks for its place from there.
 */
static inline int join(struct merge *merge, struct waiting moving, size_t at)
{
	for (; at + 1 < merge->waiting; at++) {
		struct waiting *next = &merge->line[at + 1];
		int order = compare(merge, &moving, next);
		if (order < 0)
			break;
		merge->line[at] = *next;
		if (order > 0)
			continue;
		if (moving.age < next->age) {
			merge->line[at] = moving;
			moving = *next;
		}
		int code = step(merge, &moving);
		if (code != 0) {
			close_gap(merge, at + 1);
			return code < 0 ? code : 0;
		}
	}
	merge->line[at] = moving;
	return 0;
}

/* `arriving`, newer than all in line, comes into line. Most come last: newer runs are smaller. */
static int arrive(struct merge *merge, struct waiting arriving)
{
	size_t at = merge->waiting++;
	int order = 1;
	while (at > 0 && (order = compare(merge, &arriving, &merge->line[at - 1])) < 0) {
		merge->line[at] = merge->line[at - 1];
		at--;
	}
	if (CAIRN_LIKELY(order != 0)) {
		merge->line[at] = arriving;
		return 0;
	}
	struct waiting shadowed = merge->line[at - 1];
	merge->line[at - 1] = arriving;
	int code = step(merge, &shadowed);
	if (CAIRN_LIKELY(code == 0))
		return join(merge, shadowed, at);
	close_gap(merge, at);
	return code < 0 ? code : 0;
}

/* Every input that stands anywhere comes into line. */
static int line_up(struct merge *merge)
{
	merge->waiting = 0;
	for (size_t i = merge->count; i-- > 0;) {
		struct cairn_cursor *input = merge->input[i];
		if (!input->valid)
			continue;
		int code = arrive(merge, (struct waiting){input->head ^ merge->invert, input, i});
		if (CAIRN_UNLIKELY(code != 0))
			return stand_nowhere(merge, code);
	}
	return end_move(merge);
}

/* One move in the direction of the merge. */
static inline int advance(struct merge *merge)
{
	struct waiting leader = merge->line[0];
	int code = step(merge, &leader);
	if (CAIRN_LIKELY(code == 0)) {
		code = join(merge, leader, 0);
		return CAIRN_LIKELY(code == 0) ? show_leader(merge) : stand_nowhere(merge, code);
	}
	close_gap(merge, 0);
	return code < 0 ? stand_nowhere(merge, code) : end_move(merge);
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
	if (is_backward(merge) && code == CAIRN_END)
		return cairn_cursor_last(input);
	if (is_backward(merge) && code == 0)
		return cairn_cursor_prev(input);
	if (code == 0 && cairn_key_equal(input->key, key))
		return cairn_cursor_next(input);
	return code;
}

/* Turns the merge around and moves: the others go to the other side of the leader's key, and then
 * the leader leaves it. */
static int turn(struct merge *merge)
{
	struct waiting leader = merge->line[0];
	merge->invert = ~merge->invert;
	take_aim(merge, leader.input->key);
	for (size_t i = 0; i < merge->count; i++) {
		if (i == leader.age)
			continue;
		int code = place_behind(merge, merge->input[i], leader.input->key);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	int code = step(merge, &leader);
	return code < 0 ? stand_nowhere(merge, code) : line_up(merge);
}

static int merge_next(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	assert(cursor->valid);
	return CAIRN_UNLIKELY(is_backward(merge)) ? turn(merge) : advance(merge);
}

static int merge_prev(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	assert(cursor->valid);
	return CAIRN_LIKELY(is_backward(merge)) ? advance(merge) : turn(merge);
}

static int merge_first(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	merge->invert = 0;
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_first(merge->input[i]);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return line_up(merge);
}

static int merge_last(struct cairn_cursor *cursor)
{
	struct merge *merge = merge_of(cursor);
	merge->invert = UINT64_MAX;
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_last(merge->input[i]);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return line_up(merge);
}

static int merge_seek(struct cairn_cursor *cursor, cairn_slice key)
{
	struct merge *merge = merge_of(cursor);
	merge->invert = 0;
	take_aim(merge, key);
	for (size_t i = 0; i < merge->count; i++) {
		int code = cairn_cursor_seek(merge->input[i], key);
		if (code < 0)
			return stand_nowhere(merge, code);
	}
	return line_up(merge);
}

static int merge_record(struct cairn_cursor *cursor, struct cairn_record *record)
{
	assert(cursor->valid);
	return cairn_cursor_record(merge_of(cursor)->line[0].input, record);
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
	size_t inputs_size = count * sizeof(struct cairn_cursor *);
	struct merge *merge = calloc(1, sizeof *merge + inputs_size + count * sizeof *merge->line);
	if (!merge) {
		close_all(inputs, count);
		return cairn_error(-ENOMEM, "not enough memory to merge %zu runs", count);
	}
	merge->cursor.ops = &merge_ops;
	merge->count = count;
	merge->line = (struct waiting *)(void *)((uint8_t *)merge->input + inputs_size);
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
