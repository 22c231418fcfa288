/*
 * tests/store_rest_test.c -- what happens when no write comes: the cascade, the log, the clock.
 *
 * The clock is the test's, and background work is done one step at a time, so nothing here waits.
 */
#include "tests/test.h"

#include <dirent.h>

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

struct fixture {
	char *directory;
	char path[4200];
	struct cairn_io *io;
	struct cairn_io_ops ops;
	cairn *db;
	struct model model;
};

static void open_store(struct fixture *fixture)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 65536;
	assert_int_equal(cairn_open_with(fixture->io, fixture->path, &options, &fixture->db), 0);
}

static int enter(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	assert_non_null(fixture);
	fixture->directory = test_directory();
	snprintf(fixture->path, sizeof fixture->path, "%s/store", fixture->directory);
	assert_int_equal(cairn_io_posix_open(&fixture->io), 0);
	fixture->ops = cairn_io_posix_ops;
	fixture->ops.now = tell_time;
	fixture->io->ops = &fixture->ops;
	clock_now = 1000 * SECOND;
	open_store(fixture);
	*state = fixture;
	return 0;
}

static int leave(void **state)
{
	struct fixture *fixture = *state;
	int rc = cairn_close(fixture->db);
	cairn_io_posix_close(fixture->io);
	model_release(&fixture->model);
	test_remove_directory(fixture->directory);
	free(fixture);
	return rc;
}

static void put(struct fixture *fixture, unsigned key, size_t size)
{
	char text[16];
	static uint8_t value[30000];
	cairn_slice slices[2] = {
	    {text, (size_t)snprintf(text, sizeof text, "%08u", key)}, {value, size}};
	assert_true(size <= sizeof value);
	assert_int_equal(cairn_put(fixture->db, slices[0], slices[1], 0), 0);
	model_put(&fixture->model, slices[0], slices[1]);
}

static void erase(struct fixture *fixture, unsigned key)
{
	char text[16];
	cairn_slice slice = {text, (size_t)snprintf(text, sizeof text, "%08u", key)};
	assert_int_equal(cairn_delete(fixture->db, slice, 0), 0);
	model_delete(&fixture->model, slice);
}

/* A run of `count` records of 1,000 bytes. */
static void make_run(struct fixture *fixture, unsigned from, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		put(fixture, from + i, 1000);
	assert_int_equal(cairn_flush(fixture->db), 0);
}

/* Everything that is due now. */
static void work(struct fixture *fixture)
{
	int rc = 1;
	for (int i = 0; rc > 0; i++) {
		assert_true(i < 1000);
		rc = cairn_background_step(fixture->db);
	}
	assert_int_equal(rc, 0);
}

static void pass(struct fixture *fixture, uint64_t nanoseconds)
{
	clock_now += nanoseconds;
	work(fixture);
}

static cairn_stats numbers(struct fixture *fixture)
{
	cairn_stats stats;
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.last_error, 0);
	return stats;
}

static size_t runs(struct fixture *fixture)
{
	return numbers(fixture).run_count;
}

static void the_exact_cascade_waits_for_two_seconds_without_writes(void **state)
{
	struct fixture *fixture = *state;
	for (unsigned i = 0; i < 3; i++)
		make_run(fixture, 100 * i, 30);
	work(fixture);
	assert_int_equal(runs(fixture), 3);
	pass(fixture, 2 * SECOND - 1);
	assert_int_equal(runs(fixture), 3);
	pass(fixture, 1);
	assert_int_equal(runs(fixture), 1);
	assert_true(match_cascade(fixture->db));
	assert_true(match_store(fixture->db, &fixture->model));
}

static void a_write_begins_the_wait_anew(void **state)
{
	struct fixture *fixture = *state;
	for (unsigned i = 0; i < 3; i++)
		make_run(fixture, 100 * i, 30);
	work(fixture);
	for (int i = 0; i < 5; i++) {
		pass(fixture, SECOND + SECOND / 2);
		assert_int_equal(runs(fixture), 3);
		put(fixture, 1000 + (unsigned)i, 10);
		work(fixture);
	}
	pass(fixture, 2 * SECOND - 1);
	assert_int_equal(runs(fixture), 3);
	pass(fixture, 1);
	assert_int_equal(runs(fixture), 1);
	assert_true(match_store(fixture->db, &fixture->model));
}

static void runs_of_falling_sizes_are_left_alone(void **state)
{
	struct fixture *fixture = *state;
	make_run(fixture, 0, 55);
	make_run(fixture, 100, 55);
	make_run(fixture, 200, 55);
	make_run(fixture, 300, 55);
	assert_int_equal(cairn_compact(fixture->db), 0);
	make_run(fixture, 400, 40);
	make_run(fixture, 500, 8);
	uint64_t before = numbers(fixture).merge_bytes_written;
	work(fixture);
	pass(fixture, 10 * SECOND);
	assert_int_equal(runs(fixture), 3);
	assert_true(match_cascade(fixture->db));
	assert_int_equal(numbers(fixture).merge_bytes_written, before);
}

/* Under load, too: more runs than the budget do not wait for rest. */
static void beyond_the_budget_nobody_waits_for_rest(void **state)
{
	struct fixture *fixture = *state;
	for (unsigned i = 0; i < 20; i++) {
		make_run(fixture, 100 * (i % 4), 30);
		work(fixture);
		assert_true(runs(fixture) <= 6);
	}
	assert_true(numbers(fixture).merge_bytes_written > 0);
	assert_true(match_store(fixture->db, &fixture->model));
}

static void deletes_and_overwrites_are_flushed_at_rest(void **state)
{
	struct fixture *fixture = *state;
	make_run(fixture, 0, 40);
	put(fixture, 1000, 10);
	work(fixture);
	pass(fixture, 3 * SECOND);
	assert_int_equal(runs(fixture), 1);
	assert_true(numbers(fixture).log_bytes > 0); /* the one record stays there */

	put(fixture, 1000, 11);
	work(fixture);
	pass(fixture, 2 * SECOND);
	assert_int_equal(numbers(fixture).log_bytes, 0);
	assert_int_equal(runs(fixture), 2);

	for (unsigned i = 0; i < 40; i++)
		erase(fixture, i);
	erase(fixture, 1000);
	work(fixture);
	assert_true(numbers(fixture).log_bytes > 0);
	pass(fixture, 2 * SECOND);
	assert_int_equal(runs(fixture), 0);
	assert_int_equal(numbers(fixture).log_bytes, 0);
	assert_true(match_store(fixture->db, &fixture->model));
}

static size_t count_files(const char *path, const char *ending)
{
	size_t count = 0;
	DIR *directory = opendir(path);
	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory));) {
		size_t length = strlen(entry->d_name), tail = strlen(ending);
		count += length > tail && strcmp(entry->d_name + length - tail, ending) == 0;
	}
	closedir(directory);
	return count;
}

static void a_log_without_unflushed_records_goes_at_rest(void **state)
{
	struct fixture *fixture = *state;
	make_run(fixture, 0, 40);
	work(fixture);
	assert_true(count_files(fixture->path, ".wal") > 0);
	pass(fixture, 2 * SECOND);
	assert_int_equal(count_files(fixture->path, ".wal"), 0);
	assert_int_equal(count_files(fixture->path, ".kv"), 1);
	put(fixture, 5000, 10);
	assert_int_equal(cairn_close(fixture->db), 0);
	open_store(fixture);
	assert_true(match_store(fixture->db, &fixture->model));
}

/* A view keeps the files that it needs, and no longer than it is open. */
static void merged_runs_go_when_the_last_view_goes(void **state)
{
	struct fixture *fixture = *state;
	struct model then;
	cairn_view *view;
	for (unsigned i = 0; i < 3; i++)
		make_run(fixture, 100 * i, 30);
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	model_copy(&then, &fixture->model);
	work(fixture);
	for (unsigned i = 0; i < 30; i++)
		erase(fixture, i);
	work(fixture);
	pass(fixture, 7 * SECOND);
	assert_int_equal(runs(fixture), 1);
	assert_true(count_files(fixture->path, ".kv") >= 4);
	cairn_stats stats = numbers(fixture);
	assert_int_equal(stats.view_count, 1);
	assert_int_equal(stats.views[0].age_ms, 7000);
	assert_true(stats.views[0].bytes > 90000);
	assert_true(match_view(view, &then));
	assert_int_equal(cairn_view_close(view), 0);
	work(fixture);
	assert_int_equal(count_files(fixture->path, ".kv"), 1);
	assert_true(match_store(fixture->db, &fixture->model));
	model_release(&then);
}

/* Long enough for the interval to be over: the write that finds it so syncs. */
static void without_threads_a_write_syncs_when_the_interval_is_over(void **state)
{
	struct fixture *fixture = *state;
	put(fixture, 1, 10);
	clock_now += SECOND;
	put(fixture, 2, 10);
	uint64_t durable = cairn_log_durable(fixture->db->log);
	assert_true(durable == cairn_log_end(fixture->db->log));
	clock_now += SECOND / 10 - 1;
	put(fixture, 3, 10);
	assert_true(cairn_log_durable(fixture->db->log) == durable);
	clock_now += 1;
	put(fixture, 4, 10);
	assert_true(cairn_log_durable(fixture->db->log) == cairn_log_end(fixture->db->log));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_exact_cascade_waits_for_two_seconds_without_writes),
	    TEST(a_write_begins_the_wait_anew),
	    TEST(runs_of_falling_sizes_are_left_alone),
	    TEST(beyond_the_budget_nobody_waits_for_rest),
	    TEST(deletes_and_overwrites_are_flushed_at_rest),
	    TEST(a_log_without_unflushed_records_goes_at_rest),
	    TEST(merged_runs_go_when_the_last_view_goes),
	    TEST(without_threads_a_write_syncs_when_the_interval_is_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
