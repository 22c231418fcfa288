/*
 * tests/scenario_s01_torn_tail_test.c -- S01: the end of the log is missing, byte by byte.
 *
 * A store with 200 synced puts is killed. Then its log is cut at a length within the last three
 * records, or what would have been cut is zeros, or random bytes. Each such store must open without
 * a flag, twice, and be what the writes were up to the last record that is still whole: nobody was
 * promised the others by a record that is still there (wal/README.md, "What stays open").
 *
 * The small size takes one length in 499, and those about the records' ends.
 */
#include "tests/test.h"

#include "store/store.h"
#include "tests/log_walk.h"
#include "tests/match.h"
#include "tests/sample.h"

#define STORE  "/store"
#define PUTS   200u
#define TAIL   3u
#define VALUE  9000u
#define STRIDE 499u

struct scenario {
	uint64_t random;
	struct sim_disk *disk; /* as the killed process left it */
	struct model
	    models[TAIL + 1]; /* after all puts but the last three, but two, but one, all */
	struct log_walk walk;
	const struct log_entry *tail;      /* the last three */
	const struct log_segment *segment; /* they are in */
};

enum way {
	CUT,
	ZEROS,
	NOISE,
};

static void store_options(cairn_options *options)
{
	cairn_options_init(options);
	options->no_background = 1;
	options->memtable_bytes = 4u << 20;
}

static void write_store(struct scenario *scenario)
{
	static uint8_t value[VALUE + 8];
	struct model model = {.count = 0};
	struct sim_disk *disk = sim_disk_new(scenario->random);
	cairn_options options;
	cairn *db;
	store_options(&options);
	assert_int_equal(cairn_open_with(sim_disk_io(disk), STORE, &options, &db), 0);
	for (unsigned i = 1; i <= PUTS; i++) {
		char text[16];
		uint64_t number = test_random(&scenario->random) % 150;
		int size = snprintf(text, sizeof text, "key%03u", (unsigned)number);
		cairn_slice key = {text, (size_t)size};
		cairn_slice written = sample_bytes(
		    &scenario->random, value, test_random(&scenario->random) % (VALUE + 1));
		assert_int_equal(cairn_put(db, key, written, CAIRN_SYNC), 0);
		model_put(&model, key, written);
		if (i + TAIL >= PUTS)
			model_copy(&scenario->models[i + TAIL - PUTS], &model);
	}
	scenario->disk = sim_disk_crash(disk, SIM_LOSE_NOTHING, 1);
	assert_int_equal(cairn_close(db), 0);
	sim_disk_free(disk);
	model_release(&model);
}

static int set_up(void **state)
{
	static struct scenario scenario;
	scenario = (struct scenario){.random = test_seed(1)};
	write_store(&scenario);
	log_walk_read(&scenario.walk, scenario.disk, STORE);
	const struct log_walk *walk = &scenario.walk;
	scenario.tail = &walk->entries[walk->entry_count - TAIL];
	scenario.segment = &walk->segments[walk->segment_count - 1];
	for (unsigned i = 0; i < TAIL; i++) {
		assert_int_equal(scenario.tail[i].type, CAIRN_LOG_WRITE);
		assert_int_equal(scenario.tail[i].segment, walk->segment_count - 1);
	}
	*state = &scenario;
	return 0;
}

static int tear_down(void **state)
{
	struct scenario *scenario = *state;
	for (unsigned i = 0; i <= TAIL; i++)
		model_release(&scenario->models[i]);
	log_walk_release(&scenario->walk);
	sim_disk_free(scenario->disk);
	return 0;
}

/* The killed store's disk, its log spoiled from `length` on. */
static struct sim_disk *spoil(struct scenario *scenario, enum way way, uint64_t length)
{
	struct sim_disk *disk = sim_disk_crash(scenario->disk, SIM_LOSE_NOTHING, length);
	const char *path = scenario->segment->path;
	size_t size;
	uint8_t *bytes = sim_disk_change(disk, path, &size);
	uint8_t *from = bytes + length;
	size_t count = (size_t)(scenario->segment->end - length);
	if (way == ZEROS)
		memset(from, 0, count);
	for (size_t i = 0; way == NOISE && i < count; i++)
		from[i] = (uint8_t)test_random(&scenario->random);
	if (way == CUT) {
		uint8_t *head = malloc((size_t)length);
		memcpy(head, bytes, (size_t)length);
		sim_disk_put(disk, path, head, (size_t)length);
		free(head);
	}
	return disk;
}

/* How many of the last three records are as they were. */
static size_t count_whole(const struct scenario *scenario, const struct sim_disk *disk)
{
	size_t whole = 0, size, before;
	const uint8_t *now = sim_disk_file(disk, scenario->segment->path, &size);
	const uint8_t *then = sim_disk_file(scenario->disk, scenario->segment->path, &before);
	for (; whole < TAIL; whole++) {
		const struct log_entry *entry = &scenario->tail[whole];
		if (entry->offset + entry->size > size ||
		    memcmp(now + entry->offset, then + entry->offset, (size_t)entry->size) != 0)
			break;
	}
	return whole;
}

static void check_length(struct scenario *scenario, enum way way, uint64_t length)
{
	struct sim_disk *disk = spoil(scenario, way, length);
	const struct model *model = &scenario->models[count_whole(scenario, disk)];
	cairn_options options;
	store_options(&options);
	for (int opening = 1; opening <= 2; opening++) {
		cairn *db;
		int rc = cairn_open_with(sim_disk_io(disk), STORE, &options, &db);
		if (rc)
			fail_msg("length %llu, opening %d: %s", (unsigned long long)length, opening,
			    cairn_message(NULL));
		if (!match_store(db, model))
			fail_msg("length %llu, opening %d", (unsigned long long)length, opening);
		assert_int_equal(cairn_close(db), 0);
	}
	sim_disk_free(disk);
}

/* Whether it is close to where a record, its header or its body ends. */
static bool is_special(const struct scenario *scenario, uint64_t length)
{
	for (unsigned i = 0; i < TAIL; i++) {
		uint64_t from = length - scenario->tail[i].offset;
		uint64_t left = scenario->tail[i].offset + scenario->tail[i].size - length;
		if (from <= CAIRN_LOG_RECORD_HEADER + 1 || left <= 9)
			return true;
	}
	return false;
}

static void sweep(struct scenario *scenario, enum way way)
{
	uint64_t first = scenario->tail[0].offset, lengths = 0;
	for (uint64_t length = first; length <= scenario->segment->end; length++) {
		if (!test_full() && (length - first) % STRIDE != 0 &&
		    !(is_special(scenario, length) && length % 6 == 2 * way))
			continue;
		check_length(scenario, way, length);
		lengths++;
	}
	printf("%llu of %llu lengths\n", (unsigned long long)lengths,
	    (unsigned long long)(scenario->segment->end - first + 1));
}

static void a_log_that_was_cut_opens_up_to_its_last_whole_record(void **state)
{
	sweep(*state, CUT);
}

static void a_log_that_ends_in_zeros_opens_up_to_its_last_whole_record(void **state)
{
	sweep(*state, ZEROS);
}

static void a_log_that_ends_in_noise_opens_up_to_its_last_whole_record(void **state)
{
	sweep(*state, NOISE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_log_that_was_cut_opens_up_to_its_last_whole_record),
	    cmocka_unit_test(a_log_that_ends_in_zeros_opens_up_to_its_last_whole_record),
	    cmocka_unit_test(a_log_that_ends_in_noise_opens_up_to_its_last_whole_record),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
