/*
 * tests/scenario_s13_random_walk_test.c -- S13: iterators walk about at random over a view, within
 * random bounds, while a writer changes, flushes and merges what the view does not see.
 *
 * 10,000 keys lie in the memtable and in five runs, most of them in all, four in ten of the records
 * tombstones. The walk has several legs, each with a view and a stack of runs of its own. Expected:
 * after each step the iterator stands where a place in a sorted array does, on the same key and
 * value.
 *
 * 200,000 steps; with CAIRN_TEST_FULL 5,000,000.
 */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/cairn.h"
#include "tests/match.h"

#define KEYS       10000u
#define KEY_MOST   40u
#define VALUE_MOST 48u
#define RUNS       5u
#define LEGS       10u
#define STEPS      200000u
#define FULL_STEPS 5000000u

struct scene {
	char *directory;
	cairn *db;
	struct model model; /* what the store holds */
	uint64_t random;
	atomic_bool done; /* the writer is to stop */
};

/* An iterator, and the same as a place in an array, which is only read while the writer is at work:
 * it shares keys and values with the model. */
struct walk {
	const struct model *model;
	cairn_view *view;
	cairn_iter *iter;
	size_t low, high; /* the records within its bounds: low … high - 1 */
	size_t at;        /* it stands here, or nowhere: MODEL_NONE */
	uint64_t random;
};

static uint64_t below(uint64_t *random, uint64_t limit)
{
	return test_random(random) % limit;
}

/* ---------------------------------------------------------------- records */

/* Keys of uneven length, many with much in common, some a prefix of others. */
static cairn_slice key_of(char text[KEY_MOST], uint64_t i)
{
	static const char *const shapes[] = {"%05u", "walk/%03u/%02u", "walk/%03u/%02u/leaf",
	    "a long beginning that is shared/%03u%02u"};
	int size =
	    snprintf(text, KEY_MOST, shapes[i % 4], (unsigned)(i / 100), (unsigned)(i % 100));
	if (i % 4 == 0)
		size = snprintf(text, KEY_MOST, shapes[0], (unsigned)i);
	return (cairn_slice){text, (size_t)size};
}

static void change(struct scene *scene, uint64_t *random)
{
	char key[KEY_MOST], value[VALUE_MOST];
	cairn_slice name = key_of(key, below(random, KEYS));
	if (below(random, 10) < 4) {
		assert_int_equal(cairn_delete(scene->db, name, 0), 0);
		model_delete(&scene->model, name);
		return;
	}
	int size = snprintf(value, sizeof value, "%.*s %llu", (int)below(random, 20),
	    "values have no length", (unsigned long long)test_random(random));
	cairn_slice text = {value, (size_t)size};
	assert_int_equal(cairn_put(scene->db, name, text, 0), 0);
	model_put(&scene->model, name, text);
}

/* So many changes to so many keys leave each key in a run with a chance of 7 in 8. */
static void change_most(struct scene *scene)
{
	for (unsigned i = 0; i < 2 * KEYS; i++)
		change(scene, &scene->random);
}

static void stack(struct scene *scene)
{
	cairn_stats stats;
	for (unsigned i = 0; i < RUNS; i++) {
		change_most(scene);
		assert_int_equal(cairn_flush(scene->db), 0);
	}
	change_most(scene);
	assert_int_equal(cairn_stat(scene->db, &stats), 0);
	assert_true(stats.run_count >= RUNS);
}

static void *write_on(void *context)
{
	struct scene *scene = context;
	uint64_t random = test_random(&scene->random);
	for (unsigned i = 1; !atomic_load(&scene->done); i++) {
		change(scene, &random);
		if (i % 2000 == 0)
			assert_int_equal(cairn_flush(scene->db), 0);
		if (i % 16000 == 0)
			assert_int_equal(cairn_wait(scene->db), 0);
	}
	return NULL;
}

/* ---------------------------------------------------------------- steps */

/* A key that may be there, or one that is not. */
static cairn_slice any_key(char text[KEY_MOST], uint64_t *random)
{
	cairn_slice key = key_of(text, below(random, KEYS));
	switch (below(random, 4)) {
	case 0:
		key.size = below(random, key.size + 1);
		break;
	case 1:
		text[below(random, key.size)] = (char)below(random, 256);
		break;
	default:
		break;
	}
	return key;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The first record that does not begin with `prefix`, from where those that do would begin. */
static size_t prefix_end(const struct model *model, cairn_slice prefix)
{
	size_t end = model_below(model, prefix);
	while (end < model->count && model_begins_with(model_key(model, end), prefix))
		end++;
	return end;
}

/* A new iterator with bounds of its own. */
static void set_out(struct walk *walk)
{
	char texts[3][KEY_MOST];
	cairn_slice keys[3];
	cairn_range range = {0};
	uint64_t bounds = below(&walk->random, 12); /* four in twelve have none */
	for (unsigned i = 0; i < 3; i++)
		keys[i] = any_key(texts[i], &walk->random);
	keys[2].size = smaller(keys[2].size, 1 + below(&walk->random, 8));
	walk->low = 0;
	walk->high = walk->model->count;
	if (bounds < 8 && bounds & 1) {
		range.from = &keys[0];
		walk->low = model_below(walk->model, keys[0]);
	}
	if (bounds < 8 && bounds & 2) {
		range.to = &keys[1];
		walk->high = model_below(walk->model, keys[1]);
	}
	if (bounds < 8 && bounds & 4) {
		range.prefix = &keys[2];
		walk->low = larger(walk->low, model_below(walk->model, keys[2]));
		walk->high = smaller(walk->high, prefix_end(walk->model, keys[2]));
	}
	walk->at = MODEL_NONE;
	cairn_iter_close(walk->iter);
	assert_int_equal(cairn_iter_open(walk->view, &range, &walk->iter), 0);
}

static size_t first_from(const struct walk *walk, size_t place)
{
	size_t at = larger(place, walk->low);
	return at < walk->high ? at : MODEL_NONE;
}

static size_t last_before(const struct walk *walk, size_t place)
{
	size_t end = smaller(place, walk->high);
	return end > walk->low ? end - 1 : MODEL_NONE;
}

static int seek(struct walk *walk)
{
	char text[KEY_MOST];
	cairn_slice key = any_key(text, &walk->random);
	walk->at = first_from(walk, model_below(walk->model, key));
	return cairn_iter_seek(walk->iter, key);
}

static int seek_le(struct walk *walk)
{
	char text[KEY_MOST];
	cairn_slice key = any_key(text, &walk->random);
	size_t place = model_below(walk->model, key);
	bool there = model_find(walk->model, key) != MODEL_NONE;
	walk->at = last_before(walk, place + there);
	return cairn_iter_seek_le(walk->iter, key);
}

static int first(struct walk *walk)
{
	walk->at = first_from(walk, walk->low);
	return cairn_iter_first(walk->iter);
}

static int last(struct walk *walk)
{
	walk->at = last_before(walk, walk->high);
	return cairn_iter_last(walk->iter);
}

static int next(struct walk *walk)
{
	if (walk->at != MODEL_NONE)
		walk->at = first_from(walk, walk->at + 1);
	return cairn_iter_next(walk->iter);
}

static int prev(struct walk *walk)
{
	if (walk->at != MODEL_NONE)
		walk->at = last_before(walk, walk->at);
	return cairn_iter_prev(walk->iter);
}

static void take_step(struct walk *walk)
{
	static int (*const steps[])(struct walk *) = {
	    seek, seek, seek_le, first, last, next, next, next, prev, prev, next, prev};
	int rc = steps[below(&walk->random, sizeof steps / sizeof *steps)](walk);
	cairn_slice key = cairn_iter_key(walk->iter), value = cairn_iter_value(walk->iter);
	if (walk->at == MODEL_NONE) {
		assert_int_equal(rc, CAIRN_END);
		assert_null(key.data);
		return;
	}
	assert_int_equal(rc, 0);
	assert_true(model_equal(key, model_key(walk->model, walk->at)));
	assert_true(model_equal(value, model_value(walk->model, walk->at)));
}

/* ---------------------------------------------------------------- the walk */

static int enter(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	cairn_options options;
	assert_non_null(scene);
	scene->directory = test_directory();
	scene->random = test_seed(13);
	cairn_options_init(&options);
	options.no_background = 1;
	assert_int_equal(cairn_open(scene->directory, &options, &scene->db), 0);
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

static void walk_a_leg(struct scene *scene, unsigned steps)
{
	pthread_t writer;
	struct model model;
	struct walk walk = {.model = &model, .random = test_random(&scene->random)};
	stack(scene);
	model_copy(&model, &scene->model);
	assert_int_equal(cairn_view_open(scene->db, &walk.view), 0);
	atomic_store(&scene->done, false);
	assert_int_equal(pthread_create(&writer, NULL, write_on, scene), 0);
	for (unsigned i = 0; i < steps; i++) {
		if (i % 64 == 0)
			set_out(&walk);
		take_step(&walk);
	}
	atomic_store(&scene->done, true);
	assert_int_equal(pthread_join(writer, NULL), 0);
	cairn_iter_close(walk.iter);
	assert_true(match_view(walk.view, &model));
	cairn_view_close(walk.view);
	model_release(&model);
	assert_true(match_store(scene->db, &scene->model));
}

static void every_step_of_a_random_walk_is_right(void **state)
{
	cairn_stats stats;
	for (unsigned leg = 0; leg < LEGS; leg++)
		walk_a_leg(*state, (test_full() ? FULL_STEPS : STEPS) / LEGS);
	assert_int_equal(cairn_stat(((struct scene *)*state)->db, &stats), 0);
	assert_true(stats.seeks_indexed > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(every_step_of_a_random_walk_is_right, enter, leave),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
