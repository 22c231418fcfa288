/*
 * tests/compaction_merge_test.c -- the merge against a table that says, for every key, which input
 * is the newest to have it. The inputs are arrays; the bytes of their keys die with every move, so
 * that a key used too long is seen.
 */
#include "tests/test.h"

#include <errno.h>

#include "compaction/merge.h"

#define INPUTS_MAX 9
#define KEYS       60 /* in all: number n stands for the n-th in order */

/* ---- Keys: in groups of five with 9 bytes in common, so that heads tie; the first is empty ----
 */

static size_t key_bytes(int number, uint8_t *bytes)
{
	if (number == 0)
		return 0;
	memcpy(bytes, "AAAAAAAAA", 9);
	bytes[3] = (uint8_t)('A' + number / 5);
	/* The shortest of a group is a prefix of the others; high bytes must compare as unsigned.
	 */
	size_t size = 9;
	if (number % 5 > 0)
		bytes[size++] = (uint8_t)(number % 5 * 50);
	return size;
}

static cairn_slice key_of(int number)
{
	static uint8_t bytes[KEYS][16];
	return cairn_slice_of(bytes[number], key_bytes(number, bytes[number]));
}

/* ---- An input: an array of key numbers ---- */

struct input {
	struct cairn_cursor cursor;
	int id;
	const bool *has; /* by key number */
	int at;          /* -1: nowhere */
	uint8_t *bytes;  /* of the key shown */
	int fail_after;  /* moves, -1 = never */
	unsigned moves;
	unsigned *closed;
};

static int show(struct input *input, int at)
{
	free(input->bytes);
	input->bytes = NULL;
	input->moves++;
	input->cursor.valid = false;
	input->cursor.key = cairn_slice_of(NULL, 0);
	input->at = -1;
	if (input->fail_after >= 0 && input->fail_after-- == 0)
		return -EIO;
	if (at < 0 || at >= KEYS)
		return CAIRN_END;
	input->at = at;
	uint8_t bytes[16];
	size_t size = key_bytes(at, bytes);
	input->bytes = malloc(size + 1);
	assert_non_null(input->bytes);
	memcpy(input->bytes, bytes, size);
	input->cursor.key = cairn_slice_of(input->bytes, size);
	input->cursor.head = cairn_key_head(input->cursor.key, 0);
	input->cursor.kind = (at + input->id) % 3 ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE;
	input->cursor.valid = true;
	return 0;
}

static int upwards(struct input *input, int at)
{
	while (at < KEYS && !input->has[at])
		at++;
	return show(input, at);
}

static int downwards(struct input *input, int at)
{
	while (at >= 0 && !input->has[at])
		at--;
	return show(input, at);
}

static int input_first(struct cairn_cursor *cursor)
{
	return upwards((struct input *)cursor, 0);
}

static int input_last(struct cairn_cursor *cursor)
{
	return downwards((struct input *)cursor, KEYS - 1);
}

static int input_seek(struct cairn_cursor *cursor, cairn_slice key)
{
	int at = 0;
	while (at < KEYS && cairn_key_compare(key_of(at), key) < 0)
		at++;
	return upwards((struct input *)cursor, at);
}

static int input_next(struct cairn_cursor *cursor)
{
	struct input *input = (struct input *)cursor;
	assert_true(cursor->valid);
	return upwards(input, input->at + 1);
}

static int input_prev(struct cairn_cursor *cursor)
{
	struct input *input = (struct input *)cursor;
	assert_true(cursor->valid);
	return downwards(input, input->at - 1);
}

static int input_record(struct cairn_cursor *cursor, struct cairn_record *record)
{
	struct input *input = (struct input *)cursor;
	assert_true(cursor->valid);
	*record = (struct cairn_record){
	    .key = cursor->key,
	    .value = cairn_slice_of(&input->id, sizeof input->id),
	    .checksum = (uint32_t)input->at,
	    .kind = cursor->kind,
	};
	return 0;
}

static void input_close(struct cairn_cursor *cursor)
{
	struct input *input = (struct input *)cursor;
	++*input->closed;
	free(input->bytes);
	free(input);
}

static const struct cairn_cursor_ops input_ops = {
    .first = input_first,
    .last = input_last,
    .seek = input_seek,
    .next = input_next,
    .prev = input_prev,
    .record = input_record,
    .close = input_close,
};

/* ---- Inputs, their merge and the oracle ---- */

struct bench {
	bool has[INPUTS_MAX][KEYS];
	size_t count;
	struct input *input[INPUTS_MAX];
	struct cairn_cursor *merged;
	unsigned closed;
};

static void setup(struct bench *bench)
{
	struct cairn_cursor *cursors[INPUTS_MAX];
	bench->closed = 0;
	for (size_t i = 0; i < bench->count; i++) {
		struct input *input = calloc(1, sizeof *input);
		assert_non_null(input);
		input->cursor.ops = &input_ops;
		input->id = (int)i;
		input->has = bench->has[i];
		input->at = -1;
		input->fail_after = -1;
		input->closed = &bench->closed;
		bench->input[i] = input;
		cursors[i] = &input->cursor;
	}
	assert_int_equal(cairn_merge_open(cursors, bench->count, &bench->merged), 0);
	memset(cursors, 0xff, sizeof cursors);
	assert_false(bench->merged->valid);
}

static void teardown(struct bench *bench)
{
	cairn_cursor_close(bench->merged);
	assert_int_equal(bench->closed, bench->count);
}

/* The newest input that has the key, -1 = none. */
static int owner(const struct bench *bench, int key)
{
	for (size_t i = 0; i < bench->count; i++)
		if (bench->has[i][key])
			return (int)i;
	return -1;
}

/* The nearest key from `key` on that any input has, KEYS or -1 = none. */
static int nearest(const struct bench *bench, int key, int direction)
{
	while (key >= 0 && key < KEYS && owner(bench, key) < 0)
		key += direction;
	return key;
}

/* The merge stands where `code` and `key` say. */
static void assert_stands(const struct bench *bench, int code, int key)
{
	struct cairn_cursor *merged = bench->merged;
	if (key < 0 || key >= KEYS) {
		assert_int_equal(code, CAIRN_END);
		assert_false(merged->valid);
		return;
	}
	assert_int_equal(code, 0);
	assert_true(merged->valid);
	assert_true(cairn_key_equal(merged->key, key_of(key)));
	assert_int_equal(merged->head, cairn_key_head(key_of(key), 0));
	struct cairn_record record;
	assert_int_equal(cairn_cursor_record(merged, &record), 0);
	int id;
	memcpy(&id, record.value.data, sizeof id);
	assert_int_equal(id, owner(bench, key));
	assert_int_equal(record.checksum, key);
	assert_int_equal(record.kind, merged->kind);
	assert_int_equal(record.kind, (key + id) % 3 ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE);
}

/* One random move. Returns its code; *key is where the oracle says that the merge stands. */
static int move(const struct bench *bench, uint64_t *seed, int *key)
{
	struct cairn_cursor *merged = bench->merged;
	uint64_t dice = test_random(seed) % 32;
	if (merged->valid && dice < 14) {
		*key = nearest(bench, *key + 1, 1);
		return cairn_cursor_next(merged);
	}
	if (merged->valid && dice < 28) {
		*key = nearest(bench, *key - 1, -1);
		return cairn_cursor_prev(merged);
	}
	if (dice % 4 == 0) {
		*key = nearest(bench, 0, 1);
		return cairn_cursor_first(merged);
	}
	if (dice % 4 == 1) {
		*key = nearest(bench, KEYS - 1, -1);
		return cairn_cursor_last(merged);
	}
	int to = (int)(test_random(seed) % KEYS);
	*key = nearest(bench, to, 1);
	return cairn_cursor_seek(merged, key_of(to));
}

static void random_inputs(struct bench *bench, uint64_t *seed)
{
	memset(bench, 0, sizeof *bench);
	bench->count = (size_t)(test_random(seed) % (INPUTS_MAX + 1));
	for (size_t i = 0; i < bench->count; i++) {
		uint64_t density = test_random(seed) % 20; /* 0: an empty input */
		for (int key = 0; key < KEYS; key++)
			bench->has[i][key] = test_random(seed) % 20 < density;
	}
}

static void keys_of_the_test_are_in_order(void **state)
{
	(void)state;
	for (int i = 0; i + 1 < KEYS; i++)
		assert_true(cairn_key_compare(key_of(i), key_of(i + 1)) < 0);
}

static void whole_passes_show_the_newest_of_every_key(void **state)
{
	(void)state;
	uint64_t seed = test_seed(1);
	for (int round = 0; round < 500; round++) {
		struct bench bench;
		random_inputs(&bench, &seed);
		setup(&bench);
		int code = cairn_cursor_first(bench.merged), key = nearest(&bench, 0, 1);
		assert_stands(&bench, code, key);
		while (bench.merged->valid) {
			key = nearest(&bench, key + 1, 1);
			code = cairn_cursor_next(bench.merged);
			assert_stands(&bench, code, key);
		}
		code = cairn_cursor_last(bench.merged);
		key = nearest(&bench, KEYS - 1, -1);
		assert_stands(&bench, code, key);
		while (bench.merged->valid) {
			key = nearest(&bench, key - 1, -1);
			code = cairn_cursor_prev(bench.merged);
			assert_stands(&bench, code, key);
		}
		teardown(&bench);
	}
}

static void any_sequence_of_moves_agrees_with_the_model(void **state)
{
	(void)state;
	uint64_t seed = test_seed(2);
	for (int round = 0; round < 500; round++) {
		struct bench bench;
		random_inputs(&bench, &seed);
		setup(&bench);
		int key = -1;
		for (int i = 0; i < 300; i++) {
			int code = move(&bench, &seed, &key);
			assert_stands(&bench, code, key);
		}
		teardown(&bench);
	}
}

static void a_failing_input_leaves_the_merge_nowhere(void **state)
{
	(void)state;
	uint64_t seed = test_seed(3);
	int failures = 0, recoveries = 0;
	for (int round = 0; round < 2000; round++) {
		struct bench bench;
		random_inputs(&bench, &seed);
		setup(&bench);
		int key = -1;
		for (int i = 0; i < 40; i++) {
			if (bench.count > 0 && i % 10 == 5)
				bench.input[test_random(&seed) % bench.count]->fail_after =
				    (int)(test_random(&seed) % 8);
			int code = move(&bench, &seed, &key);
			if (code == -EIO) {
				assert_false(bench.merged->valid);
				failures++;
				continue;
			}
			assert_stands(&bench, code, key);
			recoveries += failures > 0;
		}
		teardown(&bench);
	}
	assert_true(failures > 1000 && recoveries > 1000);
}

static void no_inputs_are_an_empty_merge(void **state)
{
	(void)state;
	struct bench bench = {.count = 0};
	setup(&bench);
	assert_int_equal(cairn_cursor_first(bench.merged), CAIRN_END);
	assert_int_equal(cairn_cursor_last(bench.merged), CAIRN_END);
	assert_int_equal(cairn_cursor_seek(bench.merged, key_of(0)), CAIRN_END);
	teardown(&bench);
}

static void while_the_leader_is_ahead_no_other_input_moves(void **state)
{
	(void)state;
	struct bench bench = {.count = 4};
	for (int key = 0; key < 40; key++)
		bench.has[2][key] = true;
	bench.has[0][40] = bench.has[1][41] = bench.has[3][42] = true;
	setup(&bench);
	int code = cairn_cursor_first(bench.merged);
	for (int key = 0; key < 42; key++) {
		assert_stands(&bench, code, key);
		code = cairn_cursor_next(bench.merged);
	}
	assert_stands(&bench, code, 42);
	assert_int_equal(bench.input[0]->moves, 2);
	assert_int_equal(bench.input[1]->moves, 2);
	assert_int_equal(bench.input[2]->moves, 41);
	assert_int_equal(bench.input[3]->moves, 1);
	teardown(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_of_the_test_are_in_order),
	    cmocka_unit_test(whole_passes_show_the_newest_of_every_key),
	    cmocka_unit_test(any_sequence_of_moves_agrees_with_the_model),
	    cmocka_unit_test(a_failing_input_leaves_the_merge_nowhere),
	    cmocka_unit_test(no_inputs_are_an_empty_merge),
	    cmocka_unit_test(while_the_leader_is_ahead_no_other_input_moves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
