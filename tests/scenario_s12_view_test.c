/*
 * tests/scenario_s12_view_test.c -- S12: a view stays as it was while everything under it is
 * overwritten, deleted and merged; it is shown with its age and what it keeps; and it lets go.
 *
 * Expected: a view equals the model at its birth, to the byte, also where an iterator was half way
 * through it; within 10 s after its release no old file is left; closing what is in use is
 * CAIRN_BUSY and harms nothing. The clock is the test's and background work is done one step at a
 * time, so that ten seconds take none; one case has the threads of a store as users have it.
 *
 * 50,000 keys; with CAIRN_TEST_FULL 1,000,000.
 */
#include "tests/test.h"

#include <dirent.h>
#include <sched.h>
#include <time.h>

#include "store/io_posix.h"
#include "store/store.h"
#include "tests/match.h"

#define SECOND UINT64_C(1000000000)

static uint64_t clock_now;

static uint64_t tell_time(struct cairn_io *io)
{
	(void)io;
	return clock_now;
}

struct scene {
	char *directory;
	struct cairn_io *io;
	struct cairn_io_ops ops;
	cairn *db;
	unsigned keys;
	struct model model;
};

/* What stands at one time of a store: a view, a place in it, and what they must show. */
struct moment {
	struct model model;
	cairn_view *view;
	cairn_iter *iter;
	size_t at; /* the iterator stands on this record of the model */
};

static int enter(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	cairn_options options;
	assert_non_null(scene);
	scene->directory = test_directory();
	scene->keys = test_full() ? 1000000 : 50000;
	assert_int_equal(cairn_io_posix_open(&scene->io), 0);
	scene->ops = cairn_io_posix_ops;
	scene->ops.now = tell_time;
	scene->io->ops = &scene->ops;
	clock_now = 1000 * SECOND;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 1u << 20;
	assert_int_equal(cairn_open_with(scene->io, scene->directory, &options, &scene->db), 0);
	*state = scene;
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	int rc = cairn_close(scene->db);
	cairn_io_posix_close(scene->io);
	model_release(&scene->model);
	test_remove_directory(scene->directory);
	free(scene);
	return rc;
}

static cairn_slice key_of(char buffer[16], unsigned i)
{
	return (cairn_slice){buffer, (size_t)snprintf(buffer, 16, "%08u", i)};
}

/* The value says which round it is of; its size differs from round to round. */
static void put(struct scene *scene, unsigned i, unsigned round)
{
	char key[16], value[128];
	int size = snprintf(value, sizeof value, "%u of round %u %0*u", i, round,
	    (int)(20 + 13 * round + i % 10), 0u);
	cairn_slice slice = {value, (size_t)size};
	assert_true(size < (int)sizeof value);
	assert_int_equal(cairn_put(scene->db, key_of(key, i), slice, 0), 0);
	model_put(&scene->model, key_of(key, i), slice);
}

static void erase(struct scene *scene, unsigned i)
{
	char key[16];
	assert_int_equal(cairn_delete(scene->db, key_of(key, i), 0), 0);
	model_delete(&scene->model, key_of(key, i));
}

/* Everything that is due now. */
static void work(struct scene *scene)
{
	int rc;
	while ((rc = cairn_background_step(scene->db)) > 0)
		;
	assert_int_equal(rc, 0);
}

static cairn_stats numbers(struct scene *scene)
{
	cairn_stats stats;
	assert_int_equal(cairn_stat(scene->db, &stats), 0);
	assert_int_equal(stats.last_error, 0);
	return stats;
}

static uint64_t bytes_of_runs(struct scene *scene)
{
	uint64_t bytes = 0;
	cairn_stats stats = numbers(scene);
	for (size_t i = 0; i < stats.run_count; i++)
		bytes += stats.runs[i].bytes;
	return bytes;
}

static size_t count_runs(const char *path)
{
	size_t count = 0;
	DIR *directory = opendir(path);
	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory));)
		count += strstr(entry->d_name, ".kv") != NULL;
	closedir(directory);
	return count;
}

static void moment_begin(struct moment *moment, struct scene *scene, size_t at)
{
	model_copy(&moment->model, &scene->model);
	moment->at = at;
	assert_int_equal(cairn_view_open(scene->db, &moment->view), 0);
	assert_int_equal(cairn_iter_open(moment->view, NULL, &moment->iter), 0);
	assert_int_equal(cairn_iter_seek(moment->iter, model_key(&moment->model, at)), 0);
}

static void assert_stands(const struct moment *moment, cairn_iter *iter, size_t at)
{
	assert_true(model_equal(cairn_iter_key(iter), model_key(&moment->model, at)));
	assert_true(model_equal(cairn_iter_value(iter), model_value(&moment->model, at)));
}

/* The iterator goes on from where it stood, a step back and then so many on. */
static void moment_go_on(struct moment *moment, size_t steps)
{
	assert_stands(moment, moment->iter, moment->at);
	assert_int_equal(cairn_iter_prev(moment->iter), 0);
	assert_stands(moment, moment->iter, moment->at - 1);
	assert_int_equal(cairn_iter_next(moment->iter), 0);
	for (size_t i = 0; i < steps && moment->at + 1 < moment->model.count; i++) {
		assert_int_equal(cairn_iter_next(moment->iter), 0);
		assert_stands(moment, moment->iter, ++moment->at);
	}
}

static void moment_check(struct moment *moment)
{
	cairn_slice value;
	assert_true(match_view(moment->view, &moment->model));
	for (size_t i = 0; i < moment->model.count; i += 1 + i % 7) {
		cairn_slice key = model_key(&moment->model, i);
		assert_int_equal(cairn_view_get(moment->view, key, &value), 0);
		assert_true(model_equal(value, model_value(&moment->model, i)));
	}
	moment_go_on(moment, moment->model.count / 8);
}

static void moment_end(struct moment *moment)
{
	cairn_iter_close(moment->iter);
	assert_int_equal(cairn_view_close(moment->view), 0);
	model_release(&moment->model);
}

/* Round 0 in runs, one merged and two that lie over it, and the last part still in memory. */
static void fill(struct scene *scene)
{
	for (unsigned i = 0; i < scene->keys; i++)
		put(scene, i, 0);
	assert_int_equal(cairn_compact(scene->db), 0);
	for (unsigned i = 0; i < scene->keys; i += 100) {
		put(scene, i + 1, 1);
		erase(scene, i + 2);
		if (i == scene->keys / 2)
			assert_int_equal(cairn_flush(scene->db), 0);
	}
	assert_int_equal(cairn_flush(scene->db), 0);
	for (unsigned i = 0; i < scene->keys; i += 1000) {
		put(scene, i + 2, 2);
		erase(scene, i + 3);
	}
}

static void overwrite_all(struct scene *scene, unsigned round)
{
	for (unsigned i = 0; i < scene->keys; i++)
		put(scene, (unsigned)((uint64_t)i * 7919 % scene->keys), round);
}

/* From the end, where the model has the least to move. */
static void erase_all(struct scene *scene)
{
	for (unsigned i = scene->keys; i-- > 0;)
		erase(scene, i);
}

static void a_view_equals_the_model_at_its_birth(void **state)
{
	struct scene *scene = *state;
	struct moment first, second;
	fill(scene);
	moment_begin(&first, scene, scene->model.count / 3);
	uint64_t held = bytes_of_runs(scene);
	moment_check(&first);

	clock_now += 7 * SECOND;
	overwrite_all(scene, 3);
	work(scene);
	moment_go_on(&first, 1000);
	moment_begin(&second, scene, scene->model.count / 2);
	assert_int_equal(cairn_compact(scene->db), 0);
	moment_check(&first);
	moment_check(&second);

	erase_all(scene);
	work(scene);
	moment_go_on(&second, 1000);
	assert_int_equal(cairn_compact(scene->db), 0);
	clock_now += 5 * SECOND;
	work(scene);
	cairn_stats stats = numbers(scene);
	assert_int_equal(stats.run_count, 0);
	assert_int_equal(stats.view_count, 2);
	assert_int_equal(stats.views[0].age_ms, 12000);
	assert_int_equal(stats.views[1].age_ms, 5000);
	assert_true(stats.views[0].bytes >= held);
	assert_true(stats.views[1].bytes > 0);
	assert_true(stats.memory_bytes > 0);
	assert_true(match_store(scene->db, &scene->model));
	moment_check(&first);
	moment_check(&second);
	moment_end(&first);
	moment_check(&second);
	moment_end(&second);
}

static void what_only_a_view_kept_goes_with_it(void **state)
{
	struct scene *scene = *state;
	struct moment old, young;
	fill(scene);
	moment_begin(&old, scene, 1000);
	erase_all(scene);
	assert_int_equal(cairn_compact(scene->db), 0);
	for (unsigned i = 0; i < scene->keys; i += 10)
		put(scene, i, 4);
	assert_int_equal(cairn_flush(scene->db), 0);
	moment_begin(&young, scene, 1000);
	size_t held = numbers(scene).run_count;
	overwrite_all(scene, 5);
	assert_int_equal(cairn_compact(scene->db), 0);
	clock_now += 30 * SECOND;
	work(scene);
	assert_true(count_runs(scene->directory) > held + 1); /* however long it lasts */

	moment_end(&old);
	for (unsigned i = 0; i < 10; i++, clock_now += SECOND)
		work(scene);
	assert_int_equal(count_runs(scene->directory), held + 1); /* the younger's, and the new */
	moment_check(&young);
	moment_end(&young);
	for (unsigned i = 0; i < 10; i++, clock_now += SECOND)
		work(scene);
	cairn_stats stats = numbers(scene);
	assert_int_equal(stats.view_count, 0);
	assert_int_equal(stats.run_count, 1);
	assert_int_equal(count_runs(scene->directory), 1);
	assert_true(match_store(scene->db, &scene->model));
	assert_true(match_verify(scene->directory));
}

static void closing_what_is_in_use_harms_nothing(void **state)
{
	struct scene *scene = *state;
	struct moment moment;
	fill(scene);
	moment_begin(&moment, scene, 1000);
	for (unsigned round = 1; round < 4; round++) {
		assert_int_equal(cairn_view_close(moment.view), CAIRN_BUSY);
		assert_non_null(strstr(cairn_message(scene->db), "iterator"));
		assert_int_equal(cairn_close(scene->db), CAIRN_BUSY);
		assert_non_null(strstr(cairn_message(scene->db), "view"));
		for (unsigned i = 0; i < scene->keys; i += 50)
			put(scene, i, round);
		assert_int_equal(cairn_compact(scene->db), 0);
		moment_check(&moment);
		assert_true(match_store(scene->db, &scene->model));
		assert_int_equal(numbers(scene).view_count, 1);
	}
	cairn_iter_close(moment.iter);
	assert_int_equal(cairn_close(scene->db), CAIRN_BUSY);
	assert_true(match_view(moment.view, &moment.model));
	assert_int_equal(cairn_view_close(moment.view), 0);
	model_release(&moment.model);
}

/* ---------------------------------------------------------------- with threads */

static uint64_t seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* The threads of the store do the work, and the clock is the machine's. */
static void the_threads_of_a_store_do_the_same(void **state)
{
	struct scene *scene = *state;
	struct moment moment;
	cairn_options options;
	assert_int_equal(cairn_close(scene->db), 0);
	cairn_options_init(&options);
	options.memtable_bytes = 1u << 20;
	assert_int_equal(cairn_open(scene->directory, &options, &scene->db), 0);
	fill(scene);
	moment_begin(&moment, scene, 1000);
	overwrite_all(scene, 3);
	moment_go_on(&moment, 1000);
	assert_int_equal(cairn_close(scene->db), CAIRN_BUSY);
	assert_int_equal(cairn_wait(scene->db), 0);
	erase_all(scene);
	assert_int_equal(cairn_compact(scene->db), 0);
	moment_check(&moment);
	assert_true(numbers(scene).views[0].bytes > 0);
	moment_end(&moment);
	uint64_t released = seconds_now();
	while (count_runs(scene->directory) > 0) {
		assert_true(seconds_now() - released <= 10);
		assert_int_equal(cairn_wait(scene->db), 0);
		sched_yield();
	}
	assert_true(match_store(scene->db, &scene->model));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_view_equals_the_model_at_its_birth),
	    TEST(what_only_a_view_kept_goes_with_it),
	    TEST(closing_what_is_in_use_harms_nothing),
	    TEST(the_threads_of_a_store_do_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
