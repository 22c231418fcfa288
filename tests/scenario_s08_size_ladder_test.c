/*
 * tests/scenario_s08_size_ladder_test.c -- S08: sizes around every boundary that a format or an
 * integer has, up to the limits, and beyond them.
 *
 * Keys are the beginnings of one pattern, so each size is a key of its own; values are pieces of
 * it. Expected: within the limits what was put comes back, from memory, after replay, from a run,
 * after a merge; beyond them CAIRN_TOO_LARGE, and not a byte of the store has changed. Slices that
 * are too large have bytes behind them: address space that takes no memory.
 *
 * With CAIRN_TEST_FULL up to the limits of value and batch, 1 GiB, and a run of more than 4 GiB:
 * that needs 6 GiB of memory and 15 GiB of disk.
 */
#include "tests/test.h"

#include <sys/mman.h>

#include "store/cairn.h"
#include "tests/match.h"
#include "tests/tree.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define KIB          ((size_t)1 << 10)
#define MIB          ((size_t)1 << 20)
#define GIB          ((size_t)1 << 30)
#define VERSIONS     16u
#define LADDER_MAX   40u

/* What is beyond the limits: the first size, and those that are small in 32 bits. */
static const size_t too_large[] = {
    2 * GIB - 1, 2 * GIB, 2 * GIB + 1, 4 * GIB - 1, 4 * GIB, 4 * GIB + 1};

/* `version` 0: it was never put. */
struct rung {
	size_t key_size;
	size_t value_size;
	size_t version;
};

struct scene {
	char *directory;
	cairn *db;
	uint8_t *pattern;
	size_t pattern_size;
	uint8_t *zeros; /* 4 GiB and a little of them, none of them in memory */
	size_t count;
	struct rung ladder[LADDER_MAX];
};

static cairn_slice key_of(const struct scene *scene, const struct rung *rung)
{
	return (cairn_slice){scene->pattern, rung->key_size};
}

static cairn_slice value_of(const struct scene *scene, const struct rung *rung)
{
	return (cairn_slice){scene->pattern + rung->version, rung->value_size};
}

static void make_ladder(struct scene *scene)
{
	static const size_t keys[] = {0, 1, 127, 128, 255, 256, CAIRN_KEY_MAX - 1, CAIRN_KEY_MAX};
	static const size_t values[] = {0, 1, 127, 128, 255, 256, 64 * KIB - 1, 64 * KIB, MIB - 1,
	    MIB, MIB + 1, 16 * MIB - 1, 16 * MIB, CAIRN_VALUE_MAX - 1, CAIRN_VALUE_MAX};
	size_t most = test_full() ? CAIRN_VALUE_MAX : 16 * MIB;
	for (size_t i = 0; i < COUNT(keys); i++)
		scene->ladder[scene->count++] = (struct rung){keys[i], 100 + i, 0};
	for (size_t i = 0; i < COUNT(values); i++)
		if (values[i] <= most)
			scene->ladder[scene->count++] = (struct rung){10 + i, values[i], 0};
	scene->ladder[scene->count++] = (struct rung){CAIRN_KEY_MAX - 2, 64 * KIB, 0};
	scene->pattern_size = most + VERSIONS;
}

static void make_pattern(struct scene *scene)
{
	uint64_t random = 8;
	scene->pattern = malloc(scene->pattern_size + sizeof random);
	assert_non_null(scene->pattern);
	for (size_t i = 0; i < scene->pattern_size; i += sizeof random) {
		uint64_t next = test_random(&random);
		memcpy(scene->pattern + i, &next, sizeof next);
	}
	scene->zeros = mmap(
	    NULL, 4 * GIB + 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(scene->zeros != MAP_FAILED);
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

static int enter(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	assert_non_null(scene);
	scene->directory = test_directory();
	make_ladder(scene);
	make_pattern(scene);
	open_store(scene);
	*state = scene;
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	int rc = cairn_close(scene->db);
	munmap(scene->zeros, 4 * GIB + 4096);
	free(scene->pattern);
	test_remove_directory(scene->directory);
	free(scene);
	return rc;
}

/* With another value than before. */
static void put(struct scene *scene, struct rung *rung)
{
	rung->version++;
	assert_true(rung->version < VERSIONS);
	assert_int_equal(cairn_put(scene->db, key_of(scene, rung), value_of(scene, rung), 0), 0);
}

static void assert_value(const struct scene *scene, const struct rung *rung, cairn_slice found)
{
	assert_int_equal(found.size, rung->value_size);
	assert_int_equal(memcmp(found.data, value_of(scene, rung).data, found.size), 0);
}

/* Every rung is there, by get, by view and by scan, and nothing else is. */
static void assert_ladder(struct scene *scene)
{
	cairn_view *view;
	cairn_iter *iter;
	cairn_slice value;
	uint8_t start[3] = {0};
	size_t size, there = 0, seen = 0;
	assert_int_equal(cairn_view_open(scene->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	for (size_t i = 0; i < scene->count; i++) {
		const struct rung *rung = &scene->ladder[i];
		if (!rung->version)
			continue;
		there++;
		cairn_slice key = key_of(scene, rung);
		assert_int_equal(cairn_get(scene->db, key, start, sizeof start, &size), 0);
		assert_int_equal(size, rung->value_size);
		assert_memory_equal(
		    start, value_of(scene, rung).data, size < sizeof start ? size : sizeof start);
		assert_int_equal(cairn_view_get(view, key, &value), 0);
		assert_value(scene, rung, value);
		assert_int_equal(cairn_iter_seek_le(iter, key), 0);
		assert_int_equal(cairn_iter_key(iter).size, key.size);
		assert_value(scene, rung, cairn_iter_value(iter));
	}
	for (int rc = cairn_iter_first(iter); rc != CAIRN_END; rc = cairn_iter_next(iter), seen++) {
		assert_int_equal(rc, 0);
		assert_non_null(cairn_iter_value(iter).data);
	}
	assert_int_equal(seen, there);
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
}

static void within_the_limits_all_comes_back(void **state)
{
	struct scene *scene = *state;
	for (size_t i = 0; i < scene->count; i++)
		put(scene, &scene->ladder[i]);
	assert_ladder(scene);
	reopen(scene);
	assert_ladder(scene);
	assert_int_equal(cairn_flush(scene->db), 0);
	assert_ladder(scene);
	for (size_t i = 0; i < scene->count; i += 2)
		put(scene, &scene->ladder[i]);
	assert_ladder(scene);
	assert_int_equal(cairn_flush(scene->db), 0);
	assert_int_equal(cairn_compact(scene->db), 0);
	assert_ladder(scene);
	reopen(scene);
	assert_ladder(scene);
	assert_true(match_verify(scene->directory));
}

/* Each beside one of the small ones. The largest values leave no room for another. */
static void a_batch_takes_what_a_put_takes(void **state)
{
	struct scene *scene = *state;
	for (size_t i = 8; i < scene->count; i++) {
		struct rung *pair[] = {&scene->ladder[i], &scene->ladder[i % 8]};
		cairn_batch *batch = cairn_batch_new();
		assert_non_null(batch);
		for (size_t j = 0; j < 2 && pair[0]->value_size < CAIRN_BATCH_MAX / 2; j++) {
			pair[j]->version++;
			assert_int_equal(cairn_batch_put(batch, key_of(scene, pair[j]),
					     value_of(scene, pair[j])),
			    0);
		}
		assert_int_equal(cairn_write(scene->db, batch, 0), 0);
		cairn_batch_free(batch);
	}
	assert_ladder(scene);
	reopen(scene);
	assert_ladder(scene);
	assert_int_equal(cairn_compact(scene->db), 0);
	assert_ladder(scene);
}

static void a_batch_may_have_any_number_of_operations(void **state)
{
	struct scene *scene = *state;
	static const unsigned counts[] = {0, 1, 127, 128, 255, 256, 65535, 65536};
	cairn_batch *batch = cairn_batch_new();
	struct model model = {0};
	char key[16];
	assert_non_null(batch);
	for (unsigned i = 0; i < COUNT(counts); i++) {
		for (unsigned j = 0; j < counts[i]; j++) {
			cairn_slice slice = {
			    key, (size_t)snprintf(key, sizeof key, "%u %05u", i, j)};
			assert_int_equal(cairn_batch_put(batch, slice, slice), 0);
			model_put(&model, slice, slice);
		}
		assert_int_equal(cairn_batch_count(batch), counts[i]);
		assert_int_equal(cairn_write(scene->db, batch, 0), 0);
		cairn_batch_clear(batch);
	}
	assert_true(match_store(scene->db, &model));
	reopen(scene);
	assert_true(match_store(scene->db, &model));
	assert_int_equal(cairn_compact(scene->db), 0);
	assert_true(match_store(scene->db, &model));
	model_release(&model);
	cairn_batch_free(batch);
}

/* Every function that writes, with a key or a value of a size that is too large. */
static void assert_refused(struct scene *scene, cairn_batch *batch, size_t size)
{
	cairn_slice large = {scene->zeros, size}, small = {"s", 1};
	if (size > CAIRN_VALUE_MAX) {
		assert_int_equal(cairn_put(scene->db, small, large, 0), CAIRN_TOO_LARGE);
		assert_int_equal(cairn_batch_put(batch, small, large), CAIRN_TOO_LARGE);
	}
	assert_int_equal(cairn_put(scene->db, large, small, 0), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_put(scene->db, large, small, CAIRN_SYNC), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_delete(scene->db, large, 0), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_put(batch, large, small), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_delete(batch, large), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_get(scene->db, large, NULL, 0, &size), CAIRN_NOT_FOUND);
}

static void beyond_the_limits_not_a_byte_is_written(void **state)
{
	struct scene *scene = *state;
	struct tree before;
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	/* A run, and a log that is not flushed. */
	for (size_t i = 0; i < 12; i++) {
		put(scene, &scene->ladder[i]);
		if (i == 6)
			assert_int_equal(cairn_flush(scene->db), 0);
	}
	assert_int_equal(cairn_batch_put(batch, (cairn_slice){"b", 1}, (cairn_slice){"", 0}), 0);
	tree_read(&before, scene->directory);
	assert_refused(scene, batch, CAIRN_KEY_MAX + 1);
	assert_refused(scene, batch, CAIRN_KEY_MAX + 2);
	assert_refused(scene, batch, (size_t)CAIRN_VALUE_MAX + 1);
	for (size_t i = 0; i < COUNT(too_large); i++)
		assert_refused(scene, batch, too_large[i]);
	/* One byte more than the batch that has an operation has room for. */
	cairn_slice rest = {scene->zeros, CAIRN_BATCH_MAX - 2 * 32 - 1};
	assert_int_equal(cairn_batch_put(batch, (cairn_slice){"k", 1}, rest), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_count(batch), 1);
	assert_true(tree_unchanged(&before, scene->directory, TREE_BYTES));
	assert_ladder(scene);
	reopen(scene);
	assert_ladder(scene);
	put(scene, &scene->ladder[0]);
	assert_ladder(scene);
	tree_release(&before);
	cairn_batch_free(batch);
}

/* ---------------------------------------------------------------- with CAIRN_TEST_FULL */

static void a_full_batch_is_written(void **state)
{
	struct scene *scene = *state;
	if (!test_full())
		skip();
	for (size_t less = 0; less < 2; less++) {
		struct rung *rung = &scene->ladder[1 + less];
		cairn_batch *batch = cairn_batch_new();
		assert_non_null(batch);
		rung->value_size = CAIRN_BATCH_MAX - 32 - rung->key_size - less;
		rung->version = 1;
		assert_int_equal(
		    cairn_batch_put(batch, key_of(scene, rung), value_of(scene, rung)), 0);
		assert_int_equal(cairn_write(scene->db, batch, 0), 0);
		cairn_batch_free(batch);
		assert_ladder(scene);
		reopen(scene);
		assert_ladder(scene);
	}
}

/* The small ones behind it are beyond what 32 bits reach. */
static void a_run_may_have_more_than_4_gib(void **state)
{
	struct scene *scene = *state;
	cairn_stats stats;
	if (!test_full())
		skip();
	for (size_t i = 0; i < 5; i++)
		scene->ladder[i].value_size = CAIRN_VALUE_MAX - i;
	for (size_t i = 0; i < 8; i++) {
		put(scene, &scene->ladder[i]);
		assert_int_equal(cairn_flush(scene->db), 0);
	}
	assert_ladder(scene);
	assert_int_equal(cairn_compact(scene->db), 0);
	assert_int_equal(cairn_stat(scene->db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_true(stats.runs[0].bytes > 4 * GIB);
	assert_ladder(scene);
	reopen(scene);
	assert_ladder(scene);
	assert_true(match_verify(scene->directory));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(within_the_limits_all_comes_back),
	    TEST(a_batch_takes_what_a_put_takes),
	    TEST(a_batch_may_have_any_number_of_operations),
	    TEST(beyond_the_limits_not_a_byte_is_written),
	    TEST(a_full_batch_is_written),
	    TEST(a_run_may_have_more_than_4_gib),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
