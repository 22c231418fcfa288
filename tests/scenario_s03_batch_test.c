/*
 * tests/scenario_s03_batch_test.c -- S03: a batch is there whole or not at all.
 *
 * A batch puts the 64 keys of one of four groups, 100 bytes to 40 KB each, all with its number as
 * their marker. A child writes one after the other and is killed; each group must then have one
 * marker, that of the last acknowledged batch of this group or of the one that was under way.
 *
 * CAIRN_TEST_KILLS is the number of kills: 20, and 200 at full size.
 */
#include "tests/test.h"

#include "store/store.h"
#include "tests/kill.h"
#include "tests/log_walk.h"
#include "tests/sim_io.h"

#define KEYS   64u
#define GROUPS 4u
#define MOST   40960u
#define STORE  "/store"

struct ledger {
	atomic_bool ready;
	_Atomic uint64_t acknowledged;
};

struct scenario {
	char *path;
	uint64_t random;
	cairn_options options;
	struct ledger *ledger;
	uint64_t history; /* batches that the store has */
	uint64_t wait;    /* a child is ready when it has written so many more */
	unsigned beyond;  /* batches that were there and not acknowledged */
};

/* ---------------------------------------------------------------- batches */

static cairn_slice make_key(char buffer[16], uint64_t batch, unsigned i)
{
	int size = snprintf(buffer, 16, "%u/%02u", (unsigned)(batch % GROUPS), i);
	return (cairn_slice){buffer, (size_t)size};
}

/* The marker over and over, in a size of its own. */
static cairn_slice make_value(uint8_t *buffer, uint64_t batch, unsigned i)
{
	uint64_t random = batch * KEYS + i;
	size_t size = 100 + test_random(&random) % (MOST - 100);
	for (size_t at = 0; at < size; at += sizeof batch)
		memcpy(buffer + at, &batch, size - at < sizeof batch ? size - at : sizeof batch);
	return (cairn_slice){buffer, size};
}

static int write_batch(cairn *db, uint64_t number, unsigned flags)
{
	static uint8_t value[MOST];
	char key[16];
	cairn_batch *batch = cairn_batch_new();
	int rc = batch ? 0 : -1;
	for (unsigned i = 0; i < KEYS && !rc; i++)
		rc = cairn_batch_put(batch, make_key(key, number, i), make_value(value, number, i));
	if (!rc)
		rc = cairn_write(db, batch, flags);
	cairn_batch_free(batch);
	return rc;
}

/* Whether the store has the keys of this batch's group as it left them; 0 stands for no batch. */
static bool has_batch(cairn *db, uint64_t number, unsigned group)
{
	static uint8_t expected[MOST], found[MOST];
	char buffer[16];
	for (unsigned i = 0; i < KEYS; i++) {
		size_t size;
		cairn_slice key = make_key(buffer, number ? number : group, i);
		int rc = cairn_get(db, key, found, sizeof found, &size);
		if (number == 0 && rc == CAIRN_NOT_FOUND)
			continue;
		assert_true(rc == 0 || rc == CAIRN_NOT_FOUND);
		cairn_slice value = make_value(expected, number, i);
		if (rc || number == 0 || size != value.size || memcmp(found, value.data, size) != 0)
			return false;
	}
	return true;
}

/* The last of the first `count` batches that wrote this group; 0 when there is none. */
static uint64_t last_of_group(uint64_t count, unsigned group)
{
	while (count && count % GROUPS != group)
		count--;
	return count;
}

static bool has_batches(cairn *db, uint64_t count)
{
	bool all = true;
	for (unsigned group = 0; group < GROUPS && all; group++)
		all = has_batch(db, last_of_group(count, group), group);
	return all;
}

/* ---------------------------------------------------------------- kills */

static int write_until_killed(void *context)
{
	const struct scenario *scenario = context;
	cairn *db;
	CHILD_CHECK(cairn_open(scenario->path, &scenario->options, &db) == 0);
	for (uint64_t number = scenario->history + 1;; number++) {
		if (number > scenario->history + scenario->wait)
			atomic_store(&scenario->ledger->ready, true);
		CHILD_CHECK(write_batch(db, number, 0) == 0);
		atomic_store(&scenario->ledger->acknowledged, number);
	}
}

static void check_batches(struct scenario *scenario)
{
	cairn *db;
	int rc = cairn_open(scenario->path, &scenario->options, &db);
	if (rc)
		fail_msg("opening after a kill: %d: %s", rc, cairn_message(NULL));
	scenario->history = atomic_load(&scenario->ledger->acknowledged);
	if (!has_batches(db, scenario->history)) {
		scenario->history++;
		scenario->beyond++;
		if (!has_batches(db, scenario->history))
			fail_msg("neither %llu batches are there nor one more",
			    (unsigned long long)scenario->history - 1);
	}
	assert_int_equal(cairn_close(db), 0);
	atomic_store(&scenario->ledger->acknowledged, scenario->history);
}

static unsigned long kills(void)
{
	const char *text = getenv("CAIRN_TEST_KILLS");
	return text ? strtoul(text, NULL, 0) : test_full() ? 200 : 20;
}

static void a_killed_process_leaves_whole_batches(void **state)
{
	(void)state;
	struct scenario scenario = {.random = test_seed(3)};
	scenario.path = test_directory();
	scenario.ledger = kill_share(sizeof *scenario.ledger);
	cairn_options_init(&scenario.options);
	for (unsigned long i = kills(); i > 0; i--) {
		uint64_t drawn = test_random(&scenario.random);
		scenario.options.sync_mode = (int)(drawn % 3);
		/* A batch is longer than the smallest of these. */
		scenario.options.memtable_bytes = (size_t)1 << (19 + drawn / 3 % 5);
		scenario.wait = drawn / 15 % 4;
		bool during_open = drawn / 60 % 5 == 0;
		atomic_store(&scenario.ledger->ready, false);
		run_and_kill(write_until_killed, &scenario,
		    during_open ? NULL : &scenario.ledger->ready, drawn / 300 % 30000);
		check_batches(&scenario);
	}
	printf("%llu batches, %u of them not acknowledged\n", (unsigned long long)scenario.history,
	    scenario.beyond);
	assert_true(scenario.history > 0);
	munmap(scenario.ledger, sizeof *scenario.ledger);
	test_remove_directory(scenario.path);
}

/* ---------------------------------------------------------------- zeros */

/* Of three synced batches, in the log of a store that was killed, one has lost its second half. */
static void a_batch_with_zeros_in_its_second_half_is_missed_or_left_out(void **state)
{
	(void)state;
	struct sim_disk *disk = sim_disk_new(3);
	struct log_walk walk;
	cairn_options options;
	cairn *db, *broken;
	cairn_options_init(&options);
	options.no_background = 1;
	assert_int_equal(cairn_open_with(sim_disk_io(disk), STORE, &options, &db), 0);
	for (uint64_t number = 1; number <= 3; number++)
		assert_int_equal(write_batch(db, number, CAIRN_SYNC), 0);
	log_walk_read(&walk, disk, STORE);
	for (size_t i = 0, batch = 0; i < walk.entry_count; i++) {
		const struct log_entry *entry = &walk.entries[i];
		const char *path = walk.segments[entry->segment].path;
		if (entry->type != CAIRN_LOG_WRITE)
			continue;
		struct sim_disk *copy = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
		char place[128];
		size_t size;
		uint8_t *half =
		    sim_disk_change(copy, path, &size) + entry->offset + entry->size / 2;
		memset(half, 0, (size_t)entry->size / 2);
		snprintf(place, sizeof place, "%s: at offset %llu: ", path,
		    (unsigned long long)entry->offset);
		int rc = cairn_open_with(sim_disk_io(copy), STORE, &options, &broken);
		/* Behind the last one stands no record that vouches for it. */
		assert_int_equal(rc, ++batch < 3 ? CAIRN_CORRUPT : 0);
		if (rc)
			assert_non_null(strstr(cairn_message(NULL), place));
		else
			assert_true(has_batches(broken, 2));
		assert_int_equal(cairn_close(broken), 0);
		sim_disk_free(copy);
	}
	log_walk_release(&walk);
	assert_int_equal(cairn_close(db), 0);
	sim_disk_free(disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_killed_process_leaves_whole_batches),
	    cmocka_unit_test(a_batch_with_zeros_in_its_second_half_is_missed_or_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
