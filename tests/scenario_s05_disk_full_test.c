/*
 * tests/scenario_s05_disk_full_test.c -- a full disk is an ordinary state: puts are refused by
 * name, deletes go on, reads are right, and all is well again on the same handle when there is
 * room.
 *
 * On the simulated disk, where the clock is the test's and background work is done one step at a
 * time; then on a real file system in memory, with threads, where the machine lets a test mount
 * one. CAIRN_TEST_FULL makes the disks 64 MiB large.
 */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "format/filename.h"
#include "store/store.h"
#include "tests/child.h"
#include "tests/match.h"
#include "tests/mounts.h"
#include "tests/sim_io.h"

#define KIB        1024u
#define MIB        (1024u * KIB)
#define SECOND     UINT64_C(1000000000)
#define VALUE_SIZE (4 * KIB)
#define REFUSALS   20 /* so many in a row: the disk is full */

/* ---------------------------------------------------------------- a store on any disk */

struct scene {
	cairn *db;
	struct model model; /* what was acknowledged */
	const char *path;
	uint64_t random;
	unsigned keys; /* 0 to keys - 1 were put */
};

static cairn_slice key_of(unsigned key, char text[16])
{
	return (cairn_slice){text, (size_t)snprintf(text, 16, "%08u", key)};
}

static int put(struct scene *scene, unsigned key)
{
	char text[16];
	static uint64_t words[VALUE_SIZE / 8];
	for (size_t i = 0; i < VALUE_SIZE / 8; i++)
		words[i] = test_random(&scene->random);
	cairn_slice slices[2] = {key_of(key, text), {words, sizeof words}};
	int rc = cairn_put(scene->db, slices[0], slices[1], 0);
	if (!rc)
		model_put(&scene->model, slices[0], slices[1]);
	return rc;
}

static int erase(struct scene *scene, unsigned key)
{
	char text[16];
	cairn_slice slice = key_of(key, text);
	int rc = cairn_delete(scene->db, slice, 0);
	if (!rc)
		model_delete(&scene->model, slice);
	return rc;
}

/* What a person who reads the message needs: which disk, and what to do. */
static bool says_no_space(const struct scene *scene, int rc)
{
	const char *message = cairn_message(scene->db);
	bool says = rc == -ENOSPC && strstr(message, scene->path) && strstr(message, "free some");
	if (!says)
		fprintf(stderr, "not a refusal for want of space: %d: %s\n", rc, message);
	return says;
}

/* Puts new keys until nothing goes any more. */
static bool fill(struct scene *scene)
{
	int refused = 0;
	while (refused < REFUSALS) {
		int rc = put(scene, scene->keys);
		if (rc && !says_no_space(scene, rc))
			return false;
		refused = rc ? refused + 1 : 0;
		scene->keys += !rc;
	}
	return true;
}

static bool get_thousand(struct scene *scene)
{
	static uint8_t value[VALUE_SIZE];
	for (unsigned i = 0; i < 1000; i++) {
		char text[16];
		cairn_slice key =
		    key_of((unsigned)(test_random(&scene->random) % scene->keys), text);
		size_t index = model_find(&scene->model, key), size;
		int rc = cairn_get(scene->db, key, value, sizeof value, &size);
		if (rc != (index == MODEL_NONE ? CAIRN_NOT_FOUND : 0))
			return false;
		if (!rc &&
		    !model_equal(model_value(&scene->model, index), (cairn_slice){value, size}))
			return false;
	}
	return true;
}

static bool delete_half(struct scene *scene)
{
	for (unsigned key = 0; key < scene->keys; key += 2) {
		int rc = erase(scene, key);
		if (rc) {
			fprintf(stderr, "delete %u of %u is refused: %d: %s\n", key / 2,
			    scene->keys / 2, rc, cairn_message(scene->db));
			return false;
		}
	}
	return true;
}

static unsigned disk_size(void)
{
	return test_full() ? 64 * MIB : 8 * MIB;
}

/* ---------------------------------------------------------------- on the simulated disk */

struct fixture {
	struct sim_disk *disk;
	struct scene scene;
	cairn_options options;
	uint64_t disk_size;
};

static void open_store(struct fixture *f, struct sim_disk *disk, cairn **db)
{
	assert_int_equal(cairn_open_with(sim_disk_io(disk), f->scene.path, &f->options, db), 0);
}

static int enter(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	f->scene.path = "/store";
	f->scene.random = test_seed(5);
	f->disk = sim_disk_new(f->scene.random);
	f->disk_size = disk_size();
	cairn_options_init(&f->options);
	f->options.no_background = 1;
	f->options.sync_mode = CAIRN_SYNC_NONE; /* whoever syncs here means it */
	*state = f;
	return 0;
}

static int leave(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(cairn_close(f->scene.db), 0);
	assert_int_equal(sim_disk_open_count(f->disk), 0);
	sim_disk_free(f->disk);
	model_release(&f->scene.model);
	free(f);
	return 0;
}

/* A store with memtables of this size, alone on the disk but for a foreign file of half of it. */
static void begin(struct fixture *f, size_t memtable_bytes)
{
	size_t foreign = f->disk_size / 2;
	void *bytes = calloc(1, foreign);
	assert_non_null(bytes);
	sim_disk_put(f->disk, "/foreign", bytes, foreign);
	free(bytes);
	sim_disk_limit(f->disk, f->disk_size);
	f->options.memtable_bytes = memtable_bytes;
	open_store(f, f->disk, &f->scene.db);
}

/* The background's work of a second. */
static void pass(struct fixture *f)
{
	sim_disk_advance(f->disk, SECOND);
	for (int i = 0; i < 1000 && cairn_background_step(f->scene.db) > 0; i++)
		;
}

/* Whether a machine that loses now all that was not synced finds everything after the crash. */
static bool crash_finds_all(struct fixture *f)
{
	struct sim_disk *after = sim_disk_crash(f->disk, SIM_LOSE_ALL, 1);
	cairn *db;
	sim_disk_limit(after, UINT64_MAX);
	open_store(f, after, &db);
	bool same = match_store(db, &f->scene.model);
	assert_int_equal(cairn_close(db), 0);
	sim_disk_free(after);
	return same;
}

static void reopen(struct fixture *f)
{
	assert_int_equal(cairn_close(f->scene.db), 0);
	open_store(f, f->disk, &f->scene.db);
	assert_true(match_store(f->scene.db, &f->scene.model));
}

static void fill_disk(struct fixture *f)
{
	assert_true(fill(&f->scene));
	assert_true(f->scene.keys > f->disk_size / 4 / VALUE_SIZE);
}

static void play(struct fixture *f)
{
	struct scene *scene = &f->scene;
	fill_disk(f);
	assert_true(get_thousand(scene));
	pass(f);
	assert_true(says_no_space(scene, put(scene, scene->keys)));
	assert_true(delete_half(scene));
	pass(f);
	assert_true(get_thousand(scene));
	assert_true(match_store(scene->db, &scene->model));
	assert_int_equal(cairn_sync(scene->db), 0);
	assert_true(crash_finds_all(f));

	assert_true(sim_disk_remove(f->disk, "/foreign"));
	pass(f);
	for (unsigned key = 0; key < scene->keys / 4; key++)
		assert_int_equal(put(scene, key), 0);
	pass(f);
	assert_true(match_store(scene->db, &scene->model));
	assert_int_equal(cairn_sync(scene->db), 0);
	assert_true(crash_finds_all(f));
	reopen(f);
}

static void store_goes_on_when_runs_had_filled_the_disk(void **state)
{
	struct fixture *f = *state;
	begin(f, 256 * KIB);
	play(f);
}

static void store_goes_on_when_its_log_had_filled_the_disk(void **state)
{
	struct fixture *f = *state;
	begin(f, f->disk_size);
	play(f);
}

/* Somebody else takes every byte that the store has left. */
static void leave_no_room(struct fixture *f)
{
	sim_disk_limit(f->disk, sim_disk_used(f->disk));
}

static void deletes_are_accepted_until_the_reserve_is_used_up(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	begin(f, f->disk_size);
	fill_disk(f);
	leave_no_room(f);
	unsigned deletes = 0;
	int rc = 0;
	for (; !rc; deletes += !rc)
		rc = erase(scene, deletes % scene->keys);
	assert_true(says_no_space(scene, rc));
	/* A log record of a delete of 8 bytes has 40; there is a MiB of reserve, and an eighth of
	 * it is for close. */
	assert_true(deletes > MIB * 7 / 8 / 40 - 200);
	assert_true(deletes < 2 * MIB / 40);
	assert_true(match_store(scene->db, &scene->model));

	sim_disk_limit(f->disk, f->disk_size + 4 * MIB);
	assert_int_equal(erase(scene, 1), 0);
	for (unsigned key = 0; key < 100; key++)
		assert_int_equal(put(scene, key), 0);
	/* There is a new reserve. */
	leave_no_room(f);
	for (unsigned key = 0; key < 20000; key++)
		assert_int_equal(erase(scene, key % scene->keys), 0);
	assert_true(match_store(scene->db, &scene->model));
	sim_disk_limit(f->disk, UINT64_MAX);
}

/* One batch, of deletes only, is urgent too; one with a put is not. */
static void batch_of_deletes_is_accepted_and_one_with_a_put_is_not(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	char text[16];
	begin(f, f->disk_size);
	fill_disk(f);
	leave_no_room(f);
	cairn_batch *batch = cairn_batch_new();
	for (unsigned key = 0; key < 100; key++) {
		assert_int_equal(cairn_batch_delete(batch, key_of(key, text)), 0);
		model_delete(&scene->model, key_of(key, text));
	}
	assert_int_equal(cairn_write(scene->db, batch, 0), 0);
	cairn_batch_clear(batch);
	for (unsigned key = 100; key < 1000; key++)
		assert_int_equal(cairn_batch_delete(batch, key_of(key, text)), 0);
	static const uint8_t value[VALUE_SIZE];
	assert_int_equal(
	    cairn_batch_put(batch, key_of(0, text), (cairn_slice){value, sizeof value}), 0);
	assert_true(says_no_space(scene, cairn_write(scene->db, batch, 0)));
	cairn_batch_free(batch);
	assert_true(match_store(scene->db, &scene->model));
	sim_disk_limit(f->disk, UINT64_MAX);
}

static void close_finds_its_room(struct fixture *f, size_t memtable_bytes)
{
	struct scene *scene = &f->scene;
	begin(f, memtable_bytes);
	fill_disk(f);
	leave_no_room(f);
	for (unsigned key = 0; key < 50; key++)
		assert_int_equal(erase(scene, key), 0);
	assert_int_equal(cairn_close(scene->db), 0);
	scene->db = NULL;
	assert_true(crash_finds_all(f));
	sim_disk_limit(f->disk, UINT64_MAX);
	open_store(f, f->disk, &scene->db);
	assert_true(match_store(scene->db, &scene->model));
}

static void close_needs_no_other_room_than_the_reserve(void **state)
{
	close_finds_its_room(*state, 256 * KIB);
}

static void close_leaves_a_memtable_in_the_log_that_finds_no_room(void **state)
{
	struct fixture *f = *state;
	close_finds_its_room(f, f->disk_size);
}

/* A flush that the reserve has room for gives back what its log takes. */
static void flush_takes_the_reserve_when_that_is_enough(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	begin(f, 64 * KIB);
	assert_int_equal(put(scene, 0), 0);
	for (; scene->keys < 10; scene->keys++)
		assert_int_equal(put(scene, scene->keys), 0);
	leave_no_room(f);
	assert_int_equal(cairn_flush(scene->db), 0);
	assert_true(match_store(scene->db, &scene->model));
	sim_disk_limit(f->disk, UINT64_MAX);
}

struct files {
	size_t runs;
	size_t temporaries;
};

static void count_file(void *context, const char *path)
{
	struct files *files = context;
	uint64_t number;
	enum cairn_file_kind kind = cairn_filename_parse(strrchr(path, '/') + 1, &number);
	files->runs += kind == CAIRN_FILE_RUN;
	files->temporaries += kind == CAIRN_FILE_TEMPORARY;
}

static bool no_litter(struct fixture *f)
{
	struct files files = {0, 0};
	cairn_stats stats;
	sim_disk_each(f->disk, count_file, &files);
	assert_int_equal(cairn_stat(f->scene.db, &stats), 0);
	return files.temporaries == 0 && files.runs == stats.run_count;
}

/* Once in a second, and no more. A try makes so many calls of the kind. */
static void expect_a_try_per_second(struct fixture *f, enum sim_call call, unsigned calls)
{
	sim_disk_arm(f->disk, &(struct sim_fault){.call = UINT64_MAX, .kinds = 1u << call});
	for (int i = 0; i < 200; i++) {
		sim_disk_advance(f->disk, SECOND / 20);
		while (cairn_background_step(f->scene.db) > 0)
			;
	}
	assert_in_range(sim_disk_calls(f->disk), 8 * calls, 12 * calls);
}

static void expect_trouble(struct fixture *f)
{
	cairn_stats stats;
	assert_int_equal(cairn_stat(f->scene.db, &stats), 0);
	assert_int_equal(stats.last_error, -ENOSPC);
	assert_true(says_no_space(&f->scene, cairn_wait(f->scene.db)));
	assert_true(no_litter(f));
}

static void expect_no_trouble(struct fixture *f)
{
	cairn_stats stats;
	sim_disk_limit(f->disk, UINT64_MAX);
	pass(f);
	assert_int_equal(cairn_stat(f->scene.db, &stats), 0);
	assert_int_equal(stats.last_error, 0);
	assert_int_equal(cairn_wait(f->scene.db), 0);
	assert_true(match_cascade(f->scene.db));
	assert_true(match_store(f->scene.db, &f->scene.model));
	assert_true(no_litter(f));
}

static void flush_without_room_backs_off_and_is_told_and_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	begin(f, 3 * MIB);
	sim_disk_limit(f->disk, UINT64_MAX);
	for (; scene->keys < 2 * MIB / VALUE_SIZE; scene->keys++)
		assert_int_equal(put(scene, scene->keys), 0);
	leave_no_room(f);
	assert_true(says_no_space(scene, cairn_flush(scene->db)));
	expect_trouble(f);
	expect_a_try_per_second(f, SIM_CREATE, 1);
	expect_trouble(f);
	expect_no_trouble(f);
}

/* A merge that cannot fit is not begun. */
static void merge_without_room_backs_off_and_is_told_and_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	begin(f, 256 * KIB);
	fill_disk(f);
	assert_int_equal(cairn_flush(f->scene.db), 0);
	leave_no_room(f);
	for (int i = 0; i < 5; i++)
		pass(f);
	expect_trouble(f);
	uint64_t used = sim_disk_used(f->disk);
	expect_a_try_per_second(f, SIM_FREE_SPACE, 2);
	assert_int_equal(sim_disk_used(f->disk), used);
	expect_trouble(f);
	expect_no_trouble(f);
}

/* ---------------------------------------------------------------- no space, late */

/* The next sync, or all, finds that there is no room after all, and the kernel drops the pages. */
static void fail_syncs(struct fixture *f, bool for_ever)
{
	sim_disk_arm(f->disk, &(struct sim_fault){.call = 1,
				  .kinds = 1u << SIM_SYNC,
				  .code = -ENOSPC,
				  .for_ever = for_ever,
				  .drop_pages = true});
}

static void disarm(struct fixture *f)
{
	sim_disk_arm(f->disk, &(struct sim_fault){.call = 0});
}

/* Some records, and a sync of them that fails. */
static void fail_a_sync(struct fixture *f, bool for_ever)
{
	struct scene *scene = &f->scene;
	begin(f, 256 * KIB);
	for (; scene->keys < 20; scene->keys++)
		assert_int_equal(put(scene, scene->keys), 0);
	fail_syncs(f, for_ever);
	assert_true(says_no_space(scene, cairn_sync(scene->db)));
	assert_true(says_no_space(scene, cairn_sync(scene->db)));
	assert_true(match_store(scene->db, &scene->model));
}

static void expect_cured(struct fixture *f)
{
	struct scene *scene = &f->scene;
	for (; scene->keys < 40; scene->keys++)
		assert_int_equal(put(scene, scene->keys), 0);
	assert_int_equal(cairn_sync(scene->db), 0);
	assert_true(match_store(scene->db, &scene->model));
	assert_true(crash_finds_all(f));
}

static void sync_without_space_is_cured_by_the_next_write(void **state)
{
	struct fixture *f = *state;
	fail_a_sync(f, false);
	expect_cured(f);
}

static void sync_without_space_is_cured_by_the_background(void **state)
{
	struct fixture *f = *state;
	fail_a_sync(f, false);
	assert_int_equal(cairn_background_step(f->scene.db), 0);
	assert_int_equal(cairn_sync(f->scene.db), 0);
	assert_true(crash_finds_all(f));
	expect_cured(f);
}

static void sync_without_space_is_cured_by_a_flush(void **state)
{
	struct fixture *f = *state;
	fail_a_sync(f, false);
	assert_int_equal(cairn_flush(f->scene.db), 0);
	assert_true(crash_finds_all(f));
	expect_cured(f);
}

static void sync_without_space_is_cured_by_close(void **state)
{
	struct fixture *f = *state;
	fail_a_sync(f, false);
	assert_int_equal(cairn_close(f->scene.db), 0);
	f->scene.db = NULL;
	assert_true(crash_finds_all(f));
	open_store(f, f->disk, &f->scene.db);
	expect_cured(f);
}

static void writes_are_refused_while_there_is_no_cure(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	fail_a_sync(f, true);
	for (int i = 0; i < 5; i++) {
		assert_true(says_no_space(scene, put(scene, 100)));
		assert_true(says_no_space(scene, erase(scene, 1)));
		assert_true(says_no_space(scene, cairn_sync(scene->db)));
		pass(f);
	}
	assert_true(no_litter(f));
	assert_true(match_store(scene->db, &scene->model));
	disarm(f);
	expect_cured(f);
}

/* Where a log is written by calls, the disk may refuse a record: that leaves no trace. */
static void record_that_finds_no_room_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct scene *scene = &f->scene;
	sim_disk_refuse_map_log(f->disk);
	begin(f, 256 * KIB);
	assert_int_equal(put(scene, scene->keys++), 0);
	for (unsigned i = 0; i < 30; i++) {
		sim_disk_arm(f->disk, &(struct sim_fault){.call = 1,
					  .kinds = 1u << SIM_WRITE,
					  .code = -ENOSPC,
					  .for_ever = true,
					  .partly = true});
		assert_true(says_no_space(scene, put(scene, 0)));
		disarm(f);
		assert_true(match_store(scene->db, &scene->model));
		assert_int_equal(put(scene, scene->keys++), 0);
	}
	assert_int_equal(cairn_sync(scene->db), 0);
	assert_true(crash_finds_all(f));
	reopen(f);
}

/* ---------------------------------------------------------------- on a real one */

struct place {
	char *directory;
	unsigned size; /* of the disk */
	size_t memtable_bytes;
};

static bool make_foreign_file(const char *path, unsigned size)
{
	int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	bool made = descriptor >= 0 && !posix_fallocate(descriptor, 0, (off_t)size);
	if (descriptor >= 0)
		close(descriptor);
	return made;
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Until it goes: the background may have to notice first that there is room. */
static bool put_within_five_seconds(struct scene *scene, unsigned key)
{
	double limit = seconds() + 5;
	int rc;
	while ((rc = put(scene, key)) && seconds() < limit) {
		if (!says_no_space(scene, rc))
			return false;
		usleep(10000);
	}
	return rc == 0;
}

static int play_with_threads(void *context)
{
	const struct place *place = context;
	struct scene scene = {.path = place->directory, .random = 5};
	char path[4200], foreign[4200], size[32];
	snprintf(path, sizeof path, "%s/store", place->directory);
	snprintf(foreign, sizeof foreign, "%s/foreign", place->directory);
	snprintf(size, sizeof size, "size=%u", place->size);
	if (mounts_enter())
		return CHILD_SKIP;
	if (mount("none", place->directory, "tmpfs", 0, size))
		return mounts_refused("mount(tmpfs)");
	CHILD_CHECK(make_foreign_file(foreign, place->size / 2));

	cairn_options options;
	cairn_options_init(&options);
	options.memtable_bytes = place->memtable_bytes;
	options.io_backend = CAIRN_IO_POSIX; /* rings that follow each other confuse TSan */
	CHILD_CHECK(cairn_open(path, &options, &scene.db) == 0);
	CHILD_CHECK(fill(&scene));
	/* A merge may have taken most of the rest just now. */
	CHILD_CHECK(scene.keys > place->size / 8 / VALUE_SIZE);
	CHILD_CHECK(get_thousand(&scene));
	CHILD_CHECK(delete_half(&scene));
	CHILD_CHECK(match_store(scene.db, &scene.model));

	CHILD_CHECK(unlink(foreign) == 0);
	CHILD_CHECK(put_within_five_seconds(&scene, 0));
	for (unsigned key = 1; key < scene.keys / 4; key++)
		CHILD_CHECK(put_within_five_seconds(&scene, key));
	CHILD_CHECK(match_store(scene.db, &scene.model));
	CHILD_CHECK(cairn_close(scene.db) == 0);
	CHILD_CHECK(match_path(path, &options, &scene.model));
	CHILD_CHECK(match_verify(path));
	model_release(&scene.model);
	return 0;
}

static unsigned real_size(void)
{
	return test_full() ? 64 * MIB : 16 * MIB;
}

static void play_on_a_real_disk(size_t memtable_bytes)
{
	struct place place = {test_directory(), real_size(), memtable_bytes};
	run_in_child(play_with_threads, &place);
	test_remove_directory(place.directory);
}

static void threads_go_on_when_runs_had_filled_a_real_disk(void **state)
{
	(void)state;
	play_on_a_real_disk(real_size() / 64);
}

static void threads_go_on_when_the_log_had_filled_a_real_disk(void **state)
{
	(void)state;
	play_on_a_real_disk(0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(store_goes_on_when_runs_had_filled_the_disk),
	    TEST(store_goes_on_when_its_log_had_filled_the_disk),
	    TEST(deletes_are_accepted_until_the_reserve_is_used_up),
	    TEST(batch_of_deletes_is_accepted_and_one_with_a_put_is_not),
	    TEST(close_needs_no_other_room_than_the_reserve),
	    TEST(close_leaves_a_memtable_in_the_log_that_finds_no_room),
	    TEST(flush_takes_the_reserve_when_that_is_enough),
	    TEST(flush_without_room_backs_off_and_is_told_and_leaves_nothing),
	    TEST(merge_without_room_backs_off_and_is_told_and_leaves_nothing),
	    TEST(sync_without_space_is_cured_by_the_next_write),
	    TEST(sync_without_space_is_cured_by_the_background),
	    TEST(sync_without_space_is_cured_by_a_flush),
	    TEST(sync_without_space_is_cured_by_close),
	    TEST(writes_are_refused_while_there_is_no_cure),
	    TEST(record_that_finds_no_room_is_not_there),
	    cmocka_unit_test(threads_go_on_when_runs_had_filled_a_real_disk),
	    cmocka_unit_test(threads_go_on_when_the_log_had_filled_a_real_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
