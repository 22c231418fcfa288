/*
 * tests/scenario_s07_odd_keys_test.c -- S07: keys that are easily taken for one another.
 *
 * The empty key, keys of NULs only and of 0xff only, each the beginning of the next, all lengths
 * from 0 to 65 behind equal bytes, and what differs in the last byte only. Half of the values are
 * empty, the others say whose they are. Expected: the order of unsigned bytes with the shorter
 * first, an empty value that is found, an absent key that is not, no two keys that meet: in memory,
 * after replay, in one run, over several, after a merge. Oracle: the model.
 *
 * The same through the command line is scenario_s07_odd_keys_cli_test.sh.
 */
#include "tests/test.h"

#include "store/cairn.h"
#include "tests/match.h"

#define LENGTH_MAX 65u
#define KEYS_MAX   1400u

struct key {
	uint8_t bytes[LENGTH_MAX + 2];
	size_t size;
};

struct scene {
	char *directory;
	cairn *db;
	struct model model;
	size_t count;
	struct key keys[KEYS_MAX]; /* no key twice */
};

static cairn_slice slice_of(const struct key *key)
{
	/* Behind NULL there can be no byte to look at. */
	return (cairn_slice){key->size ? key->bytes : NULL, key->size};
}

static void add_key(struct scene *scene, const uint8_t *bytes, size_t size)
{
	struct key key = {.size = size};
	memcpy(key.bytes, bytes, size);
	for (size_t i = 0; i < scene->count; i++)
		if (model_equal(slice_of(&scene->keys[i]), slice_of(&key)))
			return;
	assert_true(scene->count < KEYS_MAX);
	scene->keys[scene->count++] = key;
}

/* All lengths of one byte, alone and followed by what stands before, behind and far from it. */
static void add_row(struct scene *scene, uint8_t byte)
{
	uint8_t bytes[LENGTH_MAX + 1];
	memset(bytes, byte, sizeof bytes);
	for (size_t size = 0; size <= LENGTH_MAX; size++) {
		add_key(scene, bytes, size);
		const uint8_t last[] = {0, (uint8_t)(byte - 1), (uint8_t)(byte + 1), 0xff};
		for (size_t i = 0; i < sizeof last && size < LENGTH_MAX; i++) {
			bytes[size] = last[i];
			add_key(scene, bytes, size + 1);
		}
		bytes[size] = byte;
	}
}

static void put(struct scene *scene, size_t i)
{
	char text[32];
	size_t size = (size_t)snprintf(text, sizeof text, "value of key %zu", i);
	cairn_slice key = slice_of(&scene->keys[i]);
	cairn_slice value = i % 2 ? (cairn_slice){text, size} : (cairn_slice){NULL, 0};
	assert_int_equal(cairn_put(scene->db, key, value, 0), 0);
	model_put(&scene->model, key, value);
}

static void erase(struct scene *scene, size_t i)
{
	cairn_slice key = slice_of(&scene->keys[i]);
	assert_int_equal(cairn_delete(scene->db, key, 0), 0);
	model_delete(&scene->model, key);
}

static void open_store(struct scene *scene)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	assert_int_equal(cairn_open(scene->directory, &options, &scene->db), 0);
}

static void reopen(struct scene *scene)
{
	assert_int_equal(cairn_close(scene->db), 0);
	open_store(scene);
}

/* An empty store. Keys are put in an order that has nothing to do with theirs. */
static int enter(void **state)
{
	static const uint8_t rows[] = {0xff, 'a', 0x80, 0x00, 0x7f};
	struct scene *scene = calloc(1, sizeof *scene);
	assert_non_null(scene);
	scene->directory = test_directory();
	for (size_t i = 0; i < sizeof rows; i++)
		add_row(scene, rows[i]);
	open_store(scene);
	*state = scene;
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	int rc = cairn_close(scene->db);
	model_release(&scene->model);
	test_remove_directory(scene->directory);
	free(scene);
	return rc;
}

/* What get says of key i: found with that length, or not found with none. */
static void assert_get(struct scene *scene, size_t i)
{
	char found[32];
	size_t size = 99, at = model_find(&scene->model, slice_of(&scene->keys[i]));
	int rc = cairn_get(scene->db, slice_of(&scene->keys[i]), found, sizeof found, &size);
	assert_int_equal(rc, at == MODEL_NONE ? CAIRN_NOT_FOUND : 0);
	cairn_slice expected = {"", 0};
	if (at != MODEL_NONE)
		expected = model_value(&scene->model, at);
	assert_true(model_equal((cairn_slice){found, size}, expected));
}

static void assert_view_get(struct scene *scene, cairn_view *view, size_t i)
{
	cairn_slice value = {NULL, 99};
	size_t at = model_find(&scene->model, slice_of(&scene->keys[i]));
	int rc = cairn_view_get(view, slice_of(&scene->keys[i]), &value);
	assert_int_equal(rc, at == MODEL_NONE ? CAIRN_NOT_FOUND : 0);
	/* Found and empty is told from absent by the data, too. */
	assert_int_equal(value.data != NULL, at != MODEL_NONE);
	if (at != MODEL_NONE)
		assert_true(model_equal(value, model_value(&scene->model, at)));
	else
		assert_int_equal(value.size, 0);
}

/* The iterator moved with result `rc` to the model's record `at`, or to none. */
static void assert_on(cairn_iter *iter, int rc, const struct model *model, size_t at)
{
	bool inside = at < model->count; /* one below 0 is not, either */
	assert_int_equal(rc, inside ? 0 : CAIRN_END);
	assert_int_equal(cairn_iter_key(iter).data != NULL, inside);
	if (!inside)
		return;
	assert_true(model_equal(cairn_iter_key(iter), model_key(model, at)));
	assert_true(model_equal(cairn_iter_value(iter), model_value(model, at)));
}

static void assert_seeks(struct scene *scene, cairn_iter *iter, size_t i)
{
	const struct model *model = &scene->model;
	cairn_slice key = slice_of(&scene->keys[i]);
	size_t at = model_below(model, key);
	bool there = at < model->count && model_equal(model_key(model, at), key);
	assert_on(iter, cairn_iter_seek(iter, key), model, at);
	if (at > 0 && at < model->count)
		assert_on(iter, cairn_iter_prev(iter), model, at - 1);
	size_t below = there ? at : at - 1;
	assert_on(iter, cairn_iter_seek_le(iter, key), model, below);
	if (below < model->count)
		assert_on(iter, cairn_iter_next(iter), model, below + 1);
}

static void assert_all(struct scene *scene)
{
	cairn_view *view;
	cairn_iter *iter;
	assert_true(match_store(scene->db, &scene->model));
	assert_int_equal(cairn_view_open(scene->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	for (size_t i = 0; i < scene->count; i++) {
		assert_get(scene, i);
		assert_view_get(scene, view, i);
		assert_seeks(scene, iter, i);
	}
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
}

/* Wherever the records are. */
static void assert_everywhere(struct scene *scene)
{
	assert_all(scene);
	reopen(scene);
	assert_all(scene);
	assert_int_equal(cairn_flush(scene->db), 0);
	assert_all(scene);
	reopen(scene);
	assert_int_equal(cairn_compact(scene->db), 0);
	assert_all(scene);
	assert_true(match_verify(scene->directory));
}

static void every_key_is_its_own(void **state)
{
	struct scene *scene = *state;
	for (size_t i = 0; i < scene->count; i++)
		put(scene, i);
	assert_int_equal(scene->model.count, scene->count);
	assert_everywhere(scene);
}

/* The other keys are absent, and close to those that are there. */
static void absent_is_not_empty(void **state)
{
	struct scene *scene = *state;
	for (size_t i = 0; i < scene->count; i += 3)
		put(scene, i);
	assert_everywhere(scene);
}

/* Newer runs shadow some keys, with values that were empty before or are now, and hide others. */
static void runs_do_not_mix_keys_up(void **state)
{
	struct scene *scene = *state;
	for (size_t round = 0; round < 4; round++) {
		for (size_t i = round; i < scene->count; i += 2)
			put(scene, i);
		assert_int_equal(cairn_flush(scene->db), 0);
		for (size_t i = round; i < scene->count; i += 5)
			erase(scene, i);
	}
	assert_everywhere(scene);
}

/* One at a time, with the key's record in memory or in a run; every seventh in a test that is to
 * take seconds. */
static void deleting_one_deletes_one(void **state)
{
	struct scene *scene = *state;
	for (size_t i = 0; i < scene->count; i++)
		put(scene, i);
	for (int flushed = 0; flushed < 2; flushed++) {
		for (size_t i = 0; i < scene->count; i += test_full() ? 1 : 7) {
			erase(scene, i);
			for (size_t j = 0; j < scene->count; j++)
				assert_get(scene, j);
			put(scene, i);
		}
		assert_int_equal(cairn_flush(scene->db), 0);
	}
	for (size_t i = 0; i < scene->count; i += 2)
		erase(scene, i);
	assert_everywhere(scene);
	for (size_t i = 1; i < scene->count; i += 2)
		erase(scene, i);
	assert_int_equal(scene->model.count, 0);
	assert_everywhere(scene);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(every_key_is_its_own),
	    TEST(absent_is_not_empty),
	    TEST(runs_do_not_mix_keys_up),
	    TEST(deleting_one_deletes_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
