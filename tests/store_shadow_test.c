/*
 * tests/store_shadow_test.c -- the dead bytes of runs are about what newer runs hide of them.
 *
 * The oracle walks all runs, newest first, and counts the keys that it has met before. With all
 * records of a run alike its dead bytes are that count's share of the file. A sample of one key in
 * 16 says n records with a standard deviation of sqrt(15 n); four of them are allowed, and some
 * keys that only look alike. The seed is fixed.
 */
#include "tests/test.h"

#include <errno.h>

#include "store/shadow.h"
#include "store/store.h"
#include "tests/sim_io.h"

#define STORE "/store"
#define KEYS  20000u

struct fixture {
	struct sim_disk *disk;
	cairn *db;
	int point_index;
};

static void open_store(struct fixture *f)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.sync_mode = CAIRN_SYNC_NONE;
	options.memtable_bytes = 65536;
	options.point_index = f->point_index;
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), STORE, &options, &f->db), 0);
}

static void enter(struct fixture *f, int point_index)
{
	*f = (struct fixture){.disk = sim_disk_new(1), .point_index = point_index};
	open_store(f);
}

static void leave(struct fixture *f)
{
	assert_int_equal(cairn_close(f->db), 0);
	sim_disk_free(f->disk);
}

static void reopen(struct fixture *f)
{
	assert_int_equal(cairn_close(f->db), 0);
	open_store(f);
}

static cairn_slice key_of(unsigned number, char text[9])
{
	snprintf(text, 9, "%08u", number);
	return (cairn_slice){text, 8};
}

static void put(struct fixture *f, unsigned number)
{
	char key[9];
	assert_int_equal(cairn_put(f->db, key_of(number, key), (cairn_slice){"a value", 7}, 0), 0);
}

static void erase(struct fixture *f, unsigned number)
{
	char key[9];
	assert_int_equal(cairn_delete(f->db, key_of(number, key), 0), 0);
}

static void flush(struct fixture *f)
{
	assert_int_equal(cairn_flush(f->db), 0);
}

/* How many keys of the run are among those met before; then all of them are. */
static unsigned meet(const struct cairn_run *run, bool met[KEYS])
{
	struct cairn_cursor *cursor;
	unsigned before = 0;
	assert_int_equal(cairn_run_cursor_open(run->reader, CAIRN_ADVISE_RANDOM, &cursor), 0);
	int rc = cairn_cursor_first(cursor);
	for (; rc == 0; rc = cairn_cursor_next(cursor)) {
		char text[9] = {0};
		memcpy(text, cursor->key.data, 8);
		unsigned number = (unsigned)strtoul(text, NULL, 10);
		before += met[number];
		met[number] = true;
	}
	assert_int_equal(rc, CAIRN_END);
	cairn_cursor_close(cursor);
	return before;
}

static bool is_about(const cairn_run_stats *run, unsigned hidden)
{
	double estimate = (double)run->dead_bytes * (double)run->records / (double)run->bytes;
	double difference = estimate - hidden;
	return difference * difference <= 4 * 4 * 15 * (hidden + 8.0);
}

/* Returns how many records are hidden in all. */
static unsigned check(struct fixture *f)
{
	static bool met[KEYS];
	cairn_stats stats;
	unsigned sum = 0;
	struct cairn_version *version = cairn_current_version(f->db);
	memset(met, 0, sizeof met);
	assert_int_equal(cairn_stat(f->db, &stats), 0);
	assert_int_equal(stats.run_count, version->count);
	for (size_t i = 0; i < version->count; i++) {
		unsigned hidden = meet(version->runs[i], met);
		assert_true(is_about(&stats.runs[i], hidden));
		assert_true(stats.runs[i].dead_bytes <= stats.runs[i].bytes);
		sum += hidden;
	}
	cairn_version_unref(version);
	return sum;
}

/* ---------------------------------------------------------------- estimates */

static void overwrites_and_deletes_are_counted_once(void **state)
{
	(void)state;
	struct fixture f;
	enter(&f, 0);
	for (unsigned i = 0; i < KEYS; i++)
		put(&f, i);
	flush(&f);
	assert_int_equal(check(&f), 0);
	for (unsigned i = 0; i < KEYS; i += 2)
		put(&f, i);
	flush(&f);
	assert_int_equal(check(&f), KEYS / 2);
	for (unsigned i = 0; i < KEYS; i += 5)
		erase(&f, i);
	flush(&f);
	assert_int_equal(check(&f), KEYS / 2 + KEYS / 5);
	leave(&f);
}

/* Writes, flushes and whatever the background does then, with many states in between. */
static void check_random_work(int point_index)
{
	struct fixture f;
	uint64_t random = test_seed(1);
	unsigned most = 0;
	enter(&f, point_index);
	for (unsigned round = 0; round < 60; round++) {
		unsigned first = (unsigned)(test_random(&random) % KEYS);
		unsigned count = (unsigned)(test_random(&random) % 3000);
		unsigned step = 1 + (unsigned)(test_random(&random) % 7);
		bool erases = test_random(&random) % 4 == 0;
		for (unsigned i = 0; i < count; i++)
			(erases ? erase : put)(&f, (first + i * step) % KEYS);
		flush(&f);
		while (test_random(&random) % 4 && cairn_background_step(f.db) > 0)
			;
		if (round % 16 == 15)
			reopen(&f);
		unsigned hidden = check(&f);
		most = hidden > most ? hidden : most;
	}
	assert_true(most > KEYS / 4); /* there was something to estimate */
	leave(&f);
}

static void the_estimate_follows_flushes_merges_and_reopening(void **state)
{
	(void)state;
	check_random_work(CAIRN_POINT_INDEX);
}

static void without_point_indexes_the_seek_sections_are_asked(void **state)
{
	(void)state;
	check_random_work(CAIRN_NO_POINT_INDEX);
}

static void one_run_has_nothing_dead(void **state)
{
	(void)state;
	struct fixture f;
	cairn_stats stats;
	enter(&f, 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3000; i++)
			put(&f, i);
		flush(&f);
	}
	assert_true(check(&f) > 0);
	assert_int_equal(cairn_compact(f.db), 0);
	assert_int_equal(cairn_stat(f.db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_int_equal(stats.runs[0].dead_bytes, 0);
	leave(&f);
}

/* ---------------------------------------------------------------- publishing */

/* Flushes 500 overwritten records while call number `call` fails. Returns whether it did. */
static bool fail_a_flush(struct fixture *f, uint64_t call, bool *told)
{
	cairn_stats before, after;
	for (unsigned i = 0; i < 500; i++)
		put(f, i);
	assert_int_equal(cairn_stat(f->db, &before), 0);
	sim_disk_arm(f->disk, &(struct sim_fault){.call = call, .code = -EIO});
	int rc = cairn_flush(f->db);
	bool failed = sim_disk_faults(f->disk) > 0;
	sim_disk_arm(f->disk, &(struct sim_fault){0});
	assert_int_equal(cairn_stat(f->db, &after), 0);
	*told = rc != 0;
	for (size_t i = 0; rc && i < before.run_count; i++)
		assert_int_equal(after.runs[i].dead_bytes, before.runs[i].dead_bytes);
	return failed;
}

static void a_flush_that_fails_hides_nothing(void **state)
{
	(void)state;
	uint64_t call = 0, told_of = 0;
	bool failed;
	do {
		struct fixture f;
		bool told;
		enter(&f, 0);
		for (unsigned i = 0; i < 500; i++)
			put(&f, i);
		flush(&f);
		failed = fail_a_flush(&f, ++call, &told);
		told_of += told;
		(void)cairn_close(f.db);
		sim_disk_free(f.disk);
	} while (failed);
	assert_true(told_of > 5);
}

/* Merges of the older runs end while a flush works. */
static void what_was_merged_meanwhile_is_charged_to_what_it_became(void **state)
{
	(void)state;
	struct fixture f;
	struct cairn_shadow shadow;
	char key[9];
	enter(&f, 0);
	for (unsigned i = 0; i < 3000; i++)
		put(&f, i);
	flush(&f);
	for (unsigned i = 3000; i < 6000; i++)
		put(&f, i);
	flush(&f);
	struct cairn_version *before = cairn_current_version(f.db);
	assert_true(before->count > 1);
	assert_int_equal(
	    cairn_shadow_init(&shadow, before, 0, before->count, f.db->identity.hash_seed), 0);
	for (unsigned i = 0; i < 6000; i += 2)
		cairn_shadow_note(&shadow, key_of(i, key));
	assert_int_equal(cairn_compact(f.db), 0);
	struct cairn_version *after = cairn_current_version(f.db);
	assert_int_equal(after->count, 1);
	cairn_shadow_charge(&shadow, after);
	cairn_stats stats;
	assert_int_equal(cairn_stat(f.db, &stats), 0);
	assert_true(is_about(&stats.runs[0], 3000));
	cairn_shadow_discharge(&shadow, after);
	assert_int_equal(cairn_run_dead_bytes(after->runs[0]), 0);
	cairn_shadow_release(&shadow);
	cairn_version_unref(before);
	cairn_version_unref(after);
	leave(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(overwrites_and_deletes_are_counted_once),
	    cmocka_unit_test(the_estimate_follows_flushes_merges_and_reopening),
	    cmocka_unit_test(without_point_indexes_the_seek_sections_are_asked),
	    cmocka_unit_test(one_run_has_nothing_dead),
	    cmocka_unit_test(a_flush_that_fails_hides_nothing),
	    cmocka_unit_test(what_was_merged_meanwhile_is_charged_to_what_it_became),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
