/*
 * tests/store_kill_test.c -- processes that are killed while they write, and what is found then.
 *
 * History is a row of operations, each made from its number alone. A child opens the store, goes on
 * where history ended and says in shared memory which operation was acknowledged; the parent kills
 * it, opens the store and compares: what was acknowledged is there, and beyond it at most the one
 * operation that was under way, whole. The store lives on through all the kills of a mode.
 *
 * CAIRN_TEST_KILLS is the number of kills in each mode.
 */
#include "tests/test.h"

#include <errno.h>

#include "store/cairn.h"
#include "tests/kill.h"
#include "tests/match.h"
#include "tests/sample.h"

#define RUNS_MOST  24u
#define BATCH_MOST 12u
#define VALUE_MOST 9000u

/* What a child tells. */
struct ledger {
	atomic_bool opened;
	_Atomic uint64_t acknowledged;
};

struct life {
	uint64_t seed;
	uint64_t random;
	uint64_t keys; /* how many there are */
	size_t value_most;
	cairn_options options;
	char *path;
	struct ledger *ledger;
	uint64_t history; /* the last operation that is in the model, and in the store */
	struct model model;
	size_t runs_seen; /* by the last check … */
	size_t runs_most; /* … and at most */
	unsigned early,
	    beyond; /* kills before the store was open; operations found beyond the last one */
	bool shrunk;
};

/* ---------------------------------------------------------------- history */

struct operation {
	bool batch;
	size_t count;
	struct {
		bool delete;
		char key_bytes[16];
		cairn_slice key;
	} parts[BATCH_MOST];
	cairn_slice value; /* the same for all parts, and no other operation's */
	uint8_t value_bytes[VALUE_MOST];
};

/* The first part of a batch is a put, so that its value tells whether the batch is there. */
static void make_operation(const struct life *life, uint64_t number, struct operation *operation)
{
	uint64_t random = life->seed + number * UINT64_C(0x2545f4914f6cdd1d);
	uint64_t kind = test_random(&random) % 10;
	operation->batch = kind == 0;
	operation->count = operation->batch ? 2 + test_random(&random) % (BATCH_MOST - 1) : 1;
	for (size_t i = 0; i < operation->count; i++) {
		char *key = operation->parts[i].key_bytes;
		int size = snprintf(key, sizeof operation->parts[i].key_bytes, "key%06llu",
		    (unsigned long long)(test_random(&random) % life->keys));
		operation->parts[i].key = (cairn_slice){key, (size_t)size};
		operation->parts[i].delete =
		    operation->batch ? i > 0 && test_random(&random) % 4 == 0 : kind > 7;
	}
	size_t size = 8 + test_random(&random) % (life->value_most - 8);
	operation->value = sample_bytes(&random, operation->value_bytes, size);
	memcpy(operation->value_bytes, &number, sizeof number);
	/* A later part may not take back what tells that the batch is there. */
	for (size_t i = 1; i < operation->count; i++)
		if (model_equal(operation->parts[i].key, operation->parts[0].key))
			operation->parts[i].delete = false;
}

static void apply_to_model(struct model *model, const struct operation *operation)
{
	for (size_t i = 0; i < operation->count; i++) {
		if (operation->parts[i].delete)
			model_delete(model, operation->parts[i].key);
		else
			model_put(model, operation->parts[i].key, operation->value);
	}
}

static int write_batch(cairn *db, cairn_batch *batch, const struct operation *operation)
{
	int rc = 0;
	cairn_batch_clear(batch);
	for (size_t i = 0; i < operation->count && !rc; i++)
		rc = operation->parts[i].delete
			 ? cairn_batch_delete(batch, operation->parts[i].key)
			 : cairn_batch_put(batch, operation->parts[i].key, operation->value);
	return rc ? rc : cairn_write(db, batch, 0);
}

static int apply_to_store(cairn *db, cairn_batch *batch, const struct operation *operation)
{
	if (operation->batch)
		return write_batch(db, batch, operation);
	if (operation->parts[0].delete)
		return cairn_delete(db, operation->parts[0].key, 0);
	return cairn_put(db, operation->parts[0].key, operation->value, 0);
}

/* ---------------------------------------------------------------- the child */

/* Writes until it is killed; returns only after a failure. */
static int live(void *context)
{
	const struct life *life = context;
	struct ledger *ledger = life->ledger;
	struct operation *operation = malloc(sizeof *operation);
	cairn_batch *batch = cairn_batch_new();
	cairn *db;
	CHILD_CHECK(operation && batch);
	CHILD_CHECK(cairn_open(life->path, &life->options, &db) == 0);
	atomic_store(&ledger->opened, true);
	for (uint64_t number = life->history + 1;; number++) {
		make_operation(life, number, operation);
		CHILD_CHECK(apply_to_store(db, batch, operation) == 0);
		atomic_store(&ledger->acknowledged, number);
	}
}

/* ---------------------------------------------------------------- the parent */

static void start_and_kill(struct life *life, bool during_open, uint64_t microseconds)
{
	struct ledger *ledger = life->ledger;
	atomic_store(&ledger->opened, false);
	atomic_store(&ledger->acknowledged, life->history);
	run_and_kill(live, life, during_open ? NULL : &ledger->opened, microseconds);
	life->early += !atomic_load(&ledger->opened);
}

static cairn *open_again(const struct life *life, bool read_only)
{
	cairn_options options = life->options;
	cairn *db;
	options.read_only = read_only;
	options.must_exist = life->history > 0;
	int rc = cairn_open(life->path, &options, &db);
	if (rc)
		fail_msg("opening after a kill: %d: %s", rc, cairn_message(NULL));
	return db;
}

/* Whether what was under way at the kill is there. A delete of what is not there never shows. */
static bool is_there(cairn *db, const struct model *model, const struct operation *operation)
{
	uint8_t found[VALUE_MOST];
	size_t size;
	cairn_slice key = operation->parts[0].key;
	int rc = cairn_get(db, key, found, sizeof found, &size);
	assert_true(rc == 0 || rc == CAIRN_NOT_FOUND);
	if (operation->parts[0].delete)
		return rc == CAIRN_NOT_FOUND && model_find(model, key) != MODEL_NONE;
	return rc == 0 && model_equal((cairn_slice){found, size}, operation->value);
}

static void note_runs(struct life *life, cairn *db)
{
	cairn_stats stats;
	assert_int_equal(cairn_stat(db, &stats), 0);
	life->shrunk = life->shrunk || stats.run_count < life->runs_seen;
	life->runs_seen = stats.run_count;
	if (stats.run_count > life->runs_most)
		life->runs_most = stats.run_count;
	assert_true(stats.run_count <= RUNS_MOST);
}

/* Nothing acknowledged is lost, nothing is half there. */
static void check_store(struct life *life, cairn *db)
{
	struct operation *operation = malloc(sizeof *operation);
	uint64_t acknowledged = atomic_load(&life->ledger->acknowledged);
	assert_non_null(operation);
	while (life->history < acknowledged) {
		make_operation(life, ++life->history, operation);
		apply_to_model(&life->model, operation);
	}
	make_operation(life, life->history + 1, operation);
	if (is_there(db, &life->model, operation)) {
		apply_to_model(&life->model, operation);
		life->history++;
		life->beyond++;
	}
	/* Once found, it is history. */
	atomic_store(&life->ledger->acknowledged, life->history);
	free(operation);
	if (!match_store(db, &life->model))
		fail_msg("seed %llu: the store is not history up to operation %llu",
		    (unsigned long long)life->seed, (unsigned long long)life->history);
	note_runs(life, db);
}

/* The first look leaves recovery to the next child, which may be killed in it. */
static void look(struct life *life)
{
	bool read_only = life->history > 0 && test_random(&life->random) % 2;
	cairn *db = open_again(life, read_only);
	check_store(life, db);
	assert_int_equal(cairn_close(db), 0);
	if (test_random(&life->random) % 8 == 0) {
		assert_true(match_verify(life->path));
		db = open_again(life, false);
		check_store(life, db);
		assert_int_equal(cairn_close(db), 0);
	}
}

static void begin(struct life *life, int sync_mode)
{
	*life = (struct life){.seed = test_seed(7000 + (uint64_t)sync_mode), .keys = 500};
	life->random = life->seed;
	life->path = test_directory();
	life->ledger = kill_share(sizeof *life->ledger);
	cairn_options_init(&life->options);
	life->options.sync_mode = sync_mode;
	life->options.sync_interval_ms = 5;
	/* Where every write waits for the disk, few fill a table. */
	life->value_most = sync_mode == CAIRN_SYNC_FULL ? VALUE_MOST : 300;
}

/* In the end the cascade is restored, and nothing is left that has no use. */
static void end(struct life *life)
{
	cairn *db = open_again(life, false);
	check_store(life, db);
	assert_int_equal(cairn_wait(db), 0);
	assert_true(match_cascade(db));
	check_store(life, db);
	assert_true(life->runs_seen <= 4);
	assert_int_equal(cairn_close(db), 0);
	assert_true(match_verify(life->path));
	assert_true(match_path(life->path, NULL, &life->model));
	printf(
	    "%llu operations, %u kills during open, %u operations found beyond the acknowledged; "
	    "at most %zu runs, %zu in the end\n",
	    (unsigned long long)life->history, life->early, life->beyond, life->runs_most,
	    life->runs_seen);
	munmap(life->ledger, sizeof *life->ledger);
	model_release(&life->model);
	test_remove_directory(life->path);
}

static unsigned long kills(void)
{
	const char *text = getenv("CAIRN_TEST_KILLS");
	return text ? strtoul(text, NULL, 0) : 200;
}

static void kill_at_random(int sync_mode)
{
	struct life life;
	begin(&life, sync_mode);
	for (unsigned long i = kills(); i > 0; i--) {
		uint64_t drawn = test_random(&life.random) % 100, time = test_random(&life.random);
		life.options.memtable_bytes = (size_t)65536 << (time >> 40) % 3;
		if (drawn < 30)
			start_and_kill(&life, true, time % 15000);
		else
			start_and_kill(&life, false, 1000 + time % (drawn < 95 ? 29000 : 150000));
		look(&life);
	}
	end(&life);
}

static void a_kill_loses_nothing_in_interval_mode(void **state)
{
	(void)state;
	kill_at_random(CAIRN_SYNC_INTERVAL);
}

static void a_kill_loses_nothing_in_full_mode(void **state)
{
	(void)state;
	kill_at_random(CAIRN_SYNC_FULL);
}

static void a_kill_loses_nothing_without_sync(void **state)
{
	(void)state;
	kill_at_random(CAIRN_SYNC_NONE);
}

/*
 * No life is long enough for a merge in the background, and nobody closes or opens the store but
 * those who are killed; still the runs do not pile up.
 */
static void short_lives_do_not_keep_the_cascade_from_shrinking(void **state)
{
	(void)state;
	struct life life;
	begin(&life, CAIRN_SYNC_NONE);
	life.keys = 50000;
	life.value_most = 2000;
	life.options.memtable_bytes = 65536;
	/* On a slow machine a life writes little: some more of them then. */
	unsigned long least = kills() / 4, most = least + 400;
	for (unsigned long i = 0; i < least || (i < most && !life.shrunk); i++) {
		start_and_kill(&life, false, 20000);
		cairn *db = open_again(&life, true);
		check_store(&life, db);
		assert_int_equal(cairn_close(db), 0);
	}
	assert_true(life.shrunk);
	end(&life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_kill_loses_nothing_in_interval_mode),
	    cmocka_unit_test(a_kill_loses_nothing_in_full_mode),
	    cmocka_unit_test(a_kill_loses_nothing_without_sync),
	    cmocka_unit_test(short_lives_do_not_keep_the_cascade_from_shrinking),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
