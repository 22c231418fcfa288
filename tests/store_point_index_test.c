/*
 * tests/store_point_index_test.c -- single keys by way of point indexes: each is found and its
 * neighbours are not, whatever collides and whatever is damaged, and many at once are answered as
 * one by one. The oracle is what was put, or tests/model.h.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/run_file.h"
#include "store/options.h"
#include "store/store.h"
#include "tests/alloc_fault.h"
#include "tests/model.h"
#include "tests/sim_io.h"

#define STORE        "/store"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct fixture {
	struct sim_disk *disk;
	cairn *db;
};

static int open_with(struct fixture *f, int point_index)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.sync_mode = CAIRN_SYNC_NONE;
	options.point_index = point_index;
	return cairn_open_with(sim_disk_io(f->disk), STORE, &options, &f->db);
}

static void reopen(struct fixture *f, int point_index)
{
	assert_int_equal(cairn_close(f->db), 0);
	assert_int_equal(open_with(f, point_index), 0);
}

static int enter(void **state)
{
	static struct fixture f;
	f = (struct fixture){.disk = sim_disk_new(1)};
	*state = &f;
	return open_with(&f, 0);
}

static int leave(void **state)
{
	struct fixture *f = *state;
	int rc = cairn_close(f->db);
	sim_disk_free(f->disk);
	return rc;
}

static void put(struct fixture *f, cairn_slice key, cairn_slice value)
{
	assert_int_equal(cairn_put(f->db, key, value, 0), 0);
}

static cairn_slice text_slice(const char *text)
{
	return (cairn_slice){text, strlen(text)};
}

static void put_text(struct fixture *f, const char *key, const char *value)
{
	put(f, text_slice(key), text_slice(value));
}

static bool holds(struct fixture *f, const char *key, const char *value)
{
	char found[64];
	size_t size;
	int rc = cairn_get(f->db, text_slice(key), found, sizeof found, &size);
	return rc == 0 && size == strlen(value) && memcmp(found, value, size) == 0;
}

static int get_code(struct fixture *f, cairn_slice key)
{
	size_t size;
	return cairn_get(f->db, key, NULL, 0, &size);
}

/* ---------------------------------------------------------------- every key, no other */

/* Of the keys 0, 1, 2, … as 8 bytes, those at odd places are never there. */
static cairn_slice numbered(uint64_t number, uint8_t bytes[8])
{
	uint64_t scrambled = number * UINT64_C(0x9e3779b97f4a7c15);
	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(scrambled >> (56 - 8 * i));
	return (cairn_slice){bytes, 8};
}

static void check_size(size_t count)
{
	struct fixture f = {.disk = sim_disk_new(1)};
	uint8_t key[8], value[8];
	assert_int_equal(open_with(&f, 0), 0);
	for (size_t i = 0; i < count; i++)
		put(&f, numbered(2 * i, key), numbered(i, value));
	assert_int_equal(cairn_flush(f.db), 0);
	for (size_t i = 0; i < count; i++) {
		uint8_t found[8];
		size_t size;
		assert_int_equal(
		    cairn_get(f.db, numbered(2 * i, key), found, sizeof found, &size), 0);
		assert_int_equal(size, 8);
		assert_memory_equal(found, numbered(i, value).data, 8);
	}
	for (size_t i = 0; i < count + 100; i++)
		assert_int_equal(get_code(&f, numbered(2 * i + 1, key)), CAIRN_NOT_FOUND);
	assert_int_equal(leave((void *[]){&f}), 0);
}

static void every_key_is_found_and_no_other(void **state)
{
	(void)state;
	static const size_t sizes[] = {0, 1, 7, 8, 9, 14, 15, 16, 17, 10000, 100000, 1000000};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	size_t most = test_full() ? 1000000 : 10000;
#else
	size_t most = test_full() ? 1000000 : 100000;
#endif
	for (size_t i = 0; i < COUNT(sizes) && sizes[i] <= most; i++)
		check_size(sizes[i]);
}

/* ---------------------------------------------------------------- collisions */

/* A key whose hash has the lowest 16 bits of `like`: in runs of up to 8 keys, the same slot. */
static cairn_slice colliding(struct fixture *f, const char *like, char text[32])
{
	uint64_t seed = f->db->identity.hash_seed;
	uint64_t wanted = cairn_key_hash(text_slice(like), seed) & 0xffff;
	for (unsigned i = 0;; i++) {
		snprintf(text, 32, "collides%u", i);
		if ((cairn_key_hash(text_slice(text), seed) & 0xffff) == wanted)
			return text_slice(text);
	}
}

static void a_collision_does_not_hide_a_key_of_an_older_run(void **state)
{
	struct fixture *f = *state;
	char other[32];
	put_text(f, "old", "1");
	assert_int_equal(cairn_flush(f->db), 0);
	put(f, colliding(f, "old", other), text_slice("2"));
	assert_int_equal(cairn_flush(f->db), 0);
	assert_true(holds(f, "old", "1"));
	assert_true(holds(f, other, "2"));
	assert_int_equal(cairn_delete(f->db, text_slice(other), 0), 0);
	assert_int_equal(cairn_flush(f->db), 0);
	assert_true(holds(f, "old", "1"));
	assert_int_equal(get_code(f, text_slice(other)), CAIRN_NOT_FOUND);
}

static void a_collision_does_not_hide_a_key_of_the_same_line(void **state)
{
	struct fixture *f = *state;
	char other[32];
	put_text(f, "one", "1");
	put(f, colliding(f, "one", other), text_slice("2"));
	assert_int_equal(cairn_flush(f->db), 0);
	assert_true(holds(f, "one", "1"));
	assert_true(holds(f, other, "2"));
	assert_int_equal(cairn_delete(f->db, text_slice("one"), 0), 0);
	assert_int_equal(cairn_flush(f->db), 0);
	assert_int_equal(get_code(f, text_slice("one")), CAIRN_NOT_FOUND);
	assert_true(holds(f, other, "2"));
}

/* ---------------------------------------------------------------- with and without */

static void runs_with_and_without_an_index_are_read_alike(void **state)
{
	struct fixture *f = *state;
	static const int choices[] = {
	    CAIRN_NO_POINT_INDEX, CAIRN_POINT_INDEX, CAIRN_NO_POINT_INDEX};
	static const char *const values[] = {"first", "second", "third"};
	for (size_t i = 0; i < COUNT(choices); i++) {
		reopen(f, choices[i]);
		put_text(f, "all", values[i]);
		put_text(f, values[i], "own");
		assert_int_equal(cairn_flush(f->db), 0);
	}
	assert_true(holds(f, "all", "third"));
	for (size_t i = 0; i < COUNT(values); i++)
		assert_true(holds(f, values[i], "own"));
	assert_int_equal(get_code(f, text_slice("none")), CAIRN_NOT_FOUND);
}

/* ---------------------------------------------------------------- damage */

static void find_run(void *context, const char *path)
{
	char *found = context;
	if (strstr(path, ".kv"))
		snprintf(found, 64, "%s", path);
}

/* A page of the index that fails says nothing: searches go by the order of keys, and are right. */
static void a_damaged_page_does_not_hide_a_key(void **state)
{
	struct fixture *f = *state;
	char path[64] = "";
	uint8_t key[8];
	size_t size;
	cairn_options options;
	for (uint64_t i = 0; i < 2000; i++)
		put(f, numbered(2 * i, key), text_slice("value"));
	assert_int_equal(cairn_flush(f->db), 0);
	assert_int_equal(cairn_close(f->db), 0);
	sim_disk_each(f->disk, find_run, path);
	uint8_t *bytes = sim_disk_change(f->disk, path, &size);
	struct cairn_run_footer footer;
	assert_int_equal(
	    cairn_run_footer_decode(&footer, bytes + size - CAIRN_RUN_FOOTER_SIZE, size, path), 0);
	const struct cairn_run_extent *extent =
	    cairn_run_footer_extent(&footer, CAIRN_SECTION_POINT);
	assert_non_null(extent);
	for (uint64_t at = 4096; at < extent->size - 64; at += 4096)
		bytes[extent->offset + at] ^= 1;
	assert_int_equal(open_with(f, 0), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		assert_int_equal(get_code(f, numbered(2 * i, key)), 0);
		assert_int_equal(get_code(f, numbered(2 * i + 1, key)), CAIRN_NOT_FOUND);
	}
	assert_int_equal(cairn_options_resolve(NULL, &options), 0);
	assert_int_equal(
	    cairn_verify_with(sim_disk_io(f->disk), STORE, &options, NULL, NULL), CAIRN_CORRUPT);
}

/* ---------------------------------------------------------------- many at once */

struct answers {
	const struct model *model;
	const cairn_slice *keys;
	size_t seen;
	size_t stop_at;
};

static int check_answer(void *context, size_t i, int result, cairn_slice value)
{
	struct answers *answers = context;
	assert_int_equal(i, answers->seen++);
	size_t at = answers->keys[i].size > CAIRN_KEY_MAX
			? MODEL_NONE
			: model_find(answers->model, answers->keys[i]);
	if (answers->keys[i].size > CAIRN_KEY_MAX)
		assert_true(result < 0 || result == CAIRN_NOT_FOUND);
	else
		assert_int_equal(result, at == MODEL_NONE ? CAIRN_NOT_FOUND : 0);
	if (at != MODEL_NONE)
		assert_true(model_equal(value, model_value(answers->model, at)));
	else
		assert_null(value.data);
	return answers->seen == answers->stop_at ? 7 : 0;
}

/* Several runs, with tombstones and what they hide, and a memtable. */
static void write_history(struct fixture *f, struct model *model, uint64_t *random)
{
	uint8_t key[8], value[8];
	for (unsigned i = 0; i < 6000; i++) {
		cairn_slice k = numbered(test_random(random) % 3000, key);
		cairn_slice v = {numbered(i, value).data, test_random(random) % 9};
		if (test_random(random) % 4) {
			put(f, k, v);
			model_put(model, k, v);
		} else {
			assert_int_equal(cairn_delete(f->db, k, 0), 0);
			model_delete(model, k);
		}
		if (i % 1500 == 1000)
			assert_int_equal(cairn_flush(f->db), 0);
	}
}

static void check_many(cairn *db, const struct model *model, uint64_t *random)
{
	static uint8_t bytes[100][8];
	cairn_slice keys[100];
	for (unsigned round = 0; round < 500; round++) {
		size_t n = test_random(random) % (COUNT(keys) + 1);
		for (size_t i = 0; i < n; i++)
			keys[i] = numbered(test_random(random) % 4000, bytes[i]);
		struct answers answers = {model, keys, 0, 0};
		assert_int_equal(cairn_multi_get(db, keys, n, check_answer, &answers), 0);
		assert_int_equal(answers.seen, n);
	}
}

static void many_keys_are_answered_as_one_by_one(void **state)
{
	struct fixture *f = *state;
	uint64_t random = test_seed(5);
	struct model model = {0};
	write_history(f, &model, &random);
	check_many(f->db, &model, &random);
	model_release(&model);
}

/* Takes what nobody has mapped out of memory, where the file system can. */
static void drop_from_memory(const char *directory)
{
	DIR *listing = opendir(directory);
	assert_non_null(listing);
	const struct dirent *entry;
	while ((entry = readdir(listing))) {
		int file = openat(dirfd(listing), entry->d_name, O_RDONLY | O_CLOEXEC);
		assert_true(file >= 0);
		(void)fsync(file);
		(void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		close(file);
	}
	closedir(listing);
}

static void what_is_not_in_memory_is_answered_alike(void **state)
{
	(void)state;
	uint64_t random = test_seed(6);
	struct model model = {0};
	struct fixture f = {0};
	char *directory = test_directory();
	assert_int_equal(cairn_open(directory, NULL, &f.db), 0);
	write_history(&f, &model, &random);
	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(cairn_close(f.db), 0);
		drop_from_memory(directory);
		assert_int_equal(cairn_open(directory, NULL, &f.db), 0);
		check_many(f.db, &model, &random);
	}
	assert_int_equal(cairn_close(f.db), 0);
	model_release(&model);
	test_remove_directory(directory);
}

static void whoever_has_enough_stops(void **state)
{
	struct fixture *f = *state;
	struct model model = {0};
	cairn_slice keys[40];
	for (size_t i = 0; i < COUNT(keys); i++)
		keys[i] = text_slice("the same");
	for (size_t stop_at = 1; stop_at <= COUNT(keys); stop_at++) {
		struct answers answers = {&model, keys, 0, stop_at};
		assert_int_equal(
		    cairn_multi_get(f->db, keys, COUNT(keys), check_answer, &answers), 7);
		assert_int_equal(answers.seen, stop_at);
	}
}

/* One that no store can hold, among others. */
static void an_impossible_key_is_answered_alone(void **state)
{
	struct fixture *f = *state;
	struct model model = {0};
	static uint8_t large[CAIRN_KEY_MAX + 1];
	cairn_slice keys[20];
	uint8_t bytes[COUNT(keys)][8];
	for (size_t i = 0; i < COUNT(keys); i++) {
		keys[i] = numbered(i, bytes[i]);
		put(f, keys[i], keys[i]);
		model_put(&model, keys[i], keys[i]);
	}
	assert_int_equal(cairn_flush(f->db), 0);
	keys[9] = (cairn_slice){large, sizeof large};
	struct answers answers = {&model, keys, 0, 0};
	size_t size;
	assert_int_equal(cairn_multi_get(f->db, keys, COUNT(keys), check_answer, &answers),
	    cairn_get(f->db, keys[9], NULL, 0, &size) < 0
		? cairn_get(f->db, keys[9], NULL, 0, &size)
		: 0);
	assert_int_equal(answers.seen, COUNT(keys));
	model_release(&model);
}

/* ---------------------------------------------------------------- what a get costs */

static void a_get_through_a_view_allocates_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t random = test_seed(6);
	struct model model = {0};
	uint8_t key[8];
	cairn_view *view;
	size_t found = 0;
	write_history(f, &model, &random);
	assert_int_equal(cairn_view_open(f->db, &view), 0);
	alloc_fault_arm(0, false);
	for (uint64_t i = 0; i < 4000; i++) {
		cairn_slice value;
		found += cairn_view_get(view, numbered(i, key), &value) == 0;
	}
	uint64_t calls = alloc_calls();
	alloc_fault_disarm();
	assert_int_equal(calls, 0);
	assert_int_equal(found, model.count);
	assert_int_equal(cairn_view_close(view), 0);
	model_release(&model);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_is_found_and_no_other),
	    TEST(a_collision_does_not_hide_a_key_of_an_older_run),
	    TEST(a_collision_does_not_hide_a_key_of_the_same_line),
	    TEST(runs_with_and_without_an_index_are_read_alike),
	    TEST(a_damaged_page_does_not_hide_a_key),
	    TEST(many_keys_are_answered_as_one_by_one),
	    cmocka_unit_test(what_is_not_in_memory_is_answered_alike),
	    TEST(whoever_has_enough_stops),
	    TEST(an_impossible_key_is_answered_alone),
	    TEST(a_get_through_a_view_allocates_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
