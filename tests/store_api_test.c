/*
 * tests/store_api_test.c -- what cairn.h says of an open store: limits, arguments, edges, answers.
 *
 * Opening is in store_open_test.c. A store here has no threads of its own, so nothing happens that
 * a test did not ask for.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "store/cairn.h"
#include "tests/match.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A store in a directory of its own, open for writing. */
struct fixture {
	char *directory;
	char path[4200];
	cairn *db;
};

static cairn_slice text(const char *string)
{
	return (cairn_slice){string, strlen(string)};
}

/* For every function that takes a slice: bytes that are not there. */
static const cairn_slice missing = {NULL, 1};
static const cairn_slice empty = {NULL, 0};

static cairn *open_store(const char *path)
{
	cairn_options options;
	cairn *db;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 1u << 20;
	assert_int_equal(cairn_open(path, &options, &db), 0);
	return db;
}

static int enter(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	assert_non_null(fixture);
	fixture->directory = test_directory();
	snprintf(fixture->path, sizeof fixture->path, "%s/store", fixture->directory);
	fixture->db = open_store(fixture->path);
	*state = fixture;
	return 0;
}

static int leave(void **state)
{
	struct fixture *fixture = *state;
	int rc = cairn_close(fixture->db);
	test_remove_directory(fixture->directory);
	free(fixture);
	return rc;
}

static void reopen(struct fixture *fixture)
{
	assert_int_equal(cairn_close(fixture->db), 0);
	fixture->db = open_store(fixture->path);
}

static void put(cairn *db, const char *key, const char *value)
{
	assert_int_equal(cairn_put(db, text(key), text(value), 0), 0);
}

/* NULL: there is no such key. */
static void assert_holds(cairn *db, const char *key, const char *value)
{
	char found[64];
	size_t size;
	int rc = cairn_get(db, text(key), found, sizeof found, &size);
	assert_int_equal(rc, value ? 0 : CAIRN_NOT_FOUND);
	assert_int_equal(size, value ? strlen(value) : 0);
	if (value)
		assert_memory_equal(found, value, size);
}

static void assert_slice(cairn_slice found, const char *expected)
{
	assert_non_null(found.data);
	assert_int_equal(found.size, strlen(expected));
	assert_memory_equal(found.data, expected, found.size);
}

static void assert_nothing(cairn_slice found)
{
	assert_null(found.data);
	assert_int_equal(found.size, 0);
}

static void assert_says(const cairn *db, const char *part)
{
	if (!strstr(cairn_message(db), part))
		fail_msg("\"%s\" is not in \"%s\"", part, cairn_message(db));
}

/* ---------------------------------------------------------------- limits */

static void keys_have_sizes_up_to_the_limit(void **state)
{
	struct fixture *fixture = *state;
	char *bytes = malloc(CAIRN_KEY_MAX + 1), found[8];
	size_t sizes[] = {0, 1, 127, 128, 255, 256, CAIRN_KEY_MAX - 1, CAIRN_KEY_MAX}, size;
	assert_non_null(bytes);
	memset(bytes, 'k', CAIRN_KEY_MAX + 1);
	for (size_t i = 0; i < COUNT(sizes); i++)
		assert_int_equal(cairn_put(fixture->db, (cairn_slice){bytes, sizes[i]},
				     (cairn_slice){&"abcdefgh"[i], 1}, 0),
		    0);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT(sizes); i++) {
			assert_int_equal(cairn_get(fixture->db, (cairn_slice){bytes, sizes[i]},
					     found, sizeof found, &size),
			    0);
			assert_int_equal(size, 1);
			assert_int_equal(found[0], "abcdefgh"[i]);
		}
		if (round == 0)
			assert_int_equal(cairn_flush(fixture->db), 0);
		reopen(fixture);
	}
	free(bytes);
}

/* The slices say that there is more than there is: it must not be read. */
static void beyond_a_limit_nothing_is_written(void **state)
{
	struct fixture *fixture = *state;
	cairn_slice key = {"k", CAIRN_KEY_MAX + 1}, value = {"v", (size_t)CAIRN_VALUE_MAX + 1};
	cairn_slice endless = {"e", SIZE_MAX};
	cairn_stats before, after;
	put(fixture->db, "k", "v");
	assert_int_equal(cairn_stat(fixture->db, &before), 0);

	assert_int_equal(cairn_put(fixture->db, key, text("v"), 0), CAIRN_TOO_LARGE);
	assert_says(fixture->db, "65536");
	assert_says(fixture->db, "65535");
	assert_int_equal(cairn_put(fixture->db, text("k"), value, 0), CAIRN_TOO_LARGE);
	assert_says(fixture->db, "1073741824");
	assert_says(fixture->db, "1073741823");
	assert_int_equal(cairn_put(fixture->db, endless, text("v"), 0), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_put(fixture->db, text("k"), endless, 0), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_delete(fixture->db, key, 0), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_delete(fixture->db, endless, 0), CAIRN_TOO_LARGE);

	assert_int_equal(cairn_stat(fixture->db, &after), 0);
	assert_int_equal(after.log_bytes_written, before.log_bytes_written);
	assert_holds(fixture->db, "k", "v");
}

static void a_key_beyond_the_limit_is_nowhere(void **state)
{
	struct fixture *fixture = *state;
	char *bytes = malloc(CAIRN_KEY_MAX + 1);
	cairn_slice key = {bytes, CAIRN_KEY_MAX + 1}, value;
	cairn_view *view;
	cairn_iter *iter;
	size_t size = 7;
	assert_non_null(bytes);
	memset(bytes, 'k', CAIRN_KEY_MAX + 1);
	put(fixture->db, "a", "1");
	put(fixture->db, "z", "2");
	assert_int_equal(cairn_get(fixture->db, key, NULL, 0, &size), CAIRN_NOT_FOUND);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	assert_int_equal(cairn_view_get(view, key, &value), CAIRN_NOT_FOUND);
	assert_nothing(value);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	assert_int_equal(cairn_iter_seek(iter, key), 0);
	assert_slice(cairn_iter_key(iter), "z");
	assert_int_equal(cairn_iter_seek_le(iter, key), 0);
	assert_slice(cairn_iter_key(iter), "a");
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	free(bytes);
}

static void a_batch_counts_32_bytes_for_each_operation(void **state)
{
	(void)state;
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	cairn_slice value = {"v", CAIRN_BATCH_MAX - 32 + 1};
	assert_int_equal(cairn_batch_put(batch, empty, value), CAIRN_TOO_LARGE);
	assert_says(NULL, "1073741824");
	value.size = CAIRN_BATCH_MAX - 32;
	assert_int_equal(cairn_batch_put(batch, text("k"), value), CAIRN_TOO_LARGE);
	value.size = (size_t)CAIRN_VALUE_MAX + 1;
	assert_int_equal(cairn_batch_put(batch, empty, value), CAIRN_TOO_LARGE);
	assert_int_equal(
	    cairn_batch_put(batch, (cairn_slice){"k", CAIRN_KEY_MAX + 1}, empty), CAIRN_TOO_LARGE);
	assert_int_equal(
	    cairn_batch_delete(batch, (cairn_slice){"k", CAIRN_KEY_MAX + 1}), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_count(batch), 0);
	assert_int_equal(cairn_batch_put(batch, text("k"), text("v")), 0);
	value.size = CAIRN_BATCH_MAX - 2 * 32 - 2 + 1;
	assert_int_equal(cairn_batch_put(batch, empty, value), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_count(batch), 1);
	cairn_batch_free(batch);
}

/* The source is address space that was never written to: it takes no memory. */
static void a_batch_may_be_filled_to_its_limit(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	skip(); /* a gigabyte that is touched takes long and much more than a gigabyte */
#endif
	cairn_slice value = {NULL, CAIRN_BATCH_MAX - 32};
	void *zeros = mmap(
	    NULL, CAIRN_BATCH_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cairn_batch *batch = cairn_batch_new();
	assert_true(zeros != MAP_FAILED && batch);
	(void)madvise(zeros, CAIRN_BATCH_MAX, MADV_HUGEPAGE);
	value.data = zeros;
	assert_int_equal(cairn_batch_put(batch, empty, value), 0);
	assert_int_equal(cairn_batch_count(batch), 1);
	assert_int_equal(cairn_batch_delete(batch, empty), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_count(batch), 1);
	cairn_batch_clear(batch);
	assert_int_equal(cairn_batch_count(batch), 0);
	assert_int_equal(cairn_batch_put(batch, text("k"), text("v")), 0);
	value.size = CAIRN_BATCH_MAX - 2 * 32 - 2 - 1;
	assert_int_equal(cairn_batch_put(batch, empty, value), 0);
	assert_int_equal(cairn_batch_delete(batch, empty), CAIRN_TOO_LARGE);
	assert_int_equal(cairn_batch_count(batch), 2);
	cairn_batch_free(batch);
	munmap(zeros, CAIRN_BATCH_MAX);
}

/* ---------------------------------------------------------------- arguments */

static int ignore_answer(void *context, size_t i, int result, cairn_slice value)
{
	(void)context;
	(void)i;
	(void)result;
	(void)value;
	return 0;
}

static void a_handle_is_needed(void **state)
{
	(void)state;
	cairn_batch *batch = cairn_batch_new();
	cairn_view *view = (cairn_view *)state;
	cairn_stats stats;
	char buffer[1];
	size_t size = 7;
	assert_non_null(batch);
	assert_int_equal(cairn_put(NULL, empty, empty, 0), CAIRN_INVALID);
	assert_int_equal(cairn_delete(NULL, empty, 0), CAIRN_INVALID);
	assert_int_equal(cairn_write(NULL, batch, 0), CAIRN_INVALID);
	assert_int_equal(cairn_sync(NULL), CAIRN_INVALID);
	assert_int_equal(cairn_get(NULL, empty, buffer, 1, &size), CAIRN_INVALID);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_multi_get(NULL, NULL, 0, ignore_answer, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_view_open(NULL, &view), CAIRN_INVALID);
	assert_null(view);
	assert_int_equal(cairn_flush(NULL), CAIRN_INVALID);
	assert_int_equal(cairn_compact(NULL), CAIRN_INVALID);
	assert_int_equal(cairn_wait(NULL), CAIRN_INVALID);
	assert_int_equal(cairn_checkpoint(NULL, "x"), CAIRN_INVALID);
	assert_int_equal(cairn_stat(NULL, &stats), CAIRN_INVALID);
	size = 7;
	assert_int_equal(cairn_stat_json(NULL, buffer, 1, &size), CAIRN_INVALID);
	assert_int_equal(size, 0);
	cairn_batch_free(batch);
}

static void nothing_is_fine_to_close(void **state)
{
	(void)state;
	assert_int_equal(cairn_close(NULL), 0);
	assert_int_equal(cairn_view_close(NULL), 0);
	cairn_iter_close(NULL);
	cairn_batch_free(NULL);
}

static void an_answer_needs_a_place(void **state)
{
	struct fixture *fixture = *state;
	cairn *db = fixture->db;
	cairn_view *view;
	char buffer[8];
	size_t size = 7;
	assert_int_equal(cairn_get(db, empty, buffer, sizeof buffer, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_get(db, empty, NULL, 1, &size), CAIRN_INVALID);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_multi_get(db, &empty, 1, NULL, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_multi_get(db, NULL, 1, ignore_answer, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_multi_get(db, NULL, 0, ignore_answer, NULL), 0);
	assert_int_equal(cairn_view_open(db, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_stat(db, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_stat_json(db, buffer, sizeof buffer, NULL), CAIRN_INVALID);
	size = 7;
	assert_int_equal(cairn_stat_json(db, NULL, 1, &size), CAIRN_INVALID);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_checkpoint(db, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_write(db, NULL, 0), CAIRN_INVALID);
	assert_int_equal(cairn_verify(NULL, NULL, NULL, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_view_open(db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_view_close(view), 0);
}

static void a_size_needs_bytes(void **state)
{
	struct fixture *fixture = *state;
	cairn *db = fixture->db;
	cairn_batch *batch = cairn_batch_new();
	cairn_view *view;
	cairn_iter *iter;
	cairn_slice value = text("x");
	size_t size = 7;
	assert_non_null(batch);
	assert_int_equal(cairn_put(db, missing, empty, 0), CAIRN_INVALID);
	assert_int_equal(cairn_put(db, empty, missing, 0), CAIRN_INVALID);
	assert_int_equal(cairn_delete(db, missing, 0), CAIRN_INVALID);
	assert_int_equal(cairn_batch_put(batch, missing, empty), CAIRN_INVALID);
	assert_int_equal(cairn_batch_put(batch, empty, missing), CAIRN_INVALID);
	assert_int_equal(cairn_batch_delete(batch, missing), CAIRN_INVALID);
	assert_int_equal(cairn_batch_count(batch), 0);
	assert_int_equal(cairn_get(db, missing, NULL, 0, &size), CAIRN_INVALID);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_multi_get(db, &missing, 1, ignore_answer, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_view_open(db, &view), 0);
	assert_int_equal(cairn_view_get(view, missing, &value), CAIRN_INVALID);
	assert_nothing(value);
	for (int i = 0; i < 3; i++) {
		cairn_range range = {i == 0 ? &missing : NULL, i == 1 ? &missing : NULL,
		    i == 2 ? &missing : NULL, 0};
		iter = (cairn_iter *)state;
		assert_int_equal(cairn_iter_open(view, &range, &iter), CAIRN_INVALID);
		assert_null(iter);
	}
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	assert_int_equal(cairn_iter_seek(iter, missing), CAIRN_INVALID);
	assert_int_equal(cairn_iter_seek_le(iter, missing), CAIRN_INVALID);
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	cairn_batch_free(batch);
}

static void unknown_flags_are_refused(void **state)
{
	struct fixture *fixture = *state;
	cairn *db = fixture->db;
	cairn_batch *batch = cairn_batch_new();
	cairn_view *view;
	cairn_iter *iter = (cairn_iter *)state;
	cairn_range range = {NULL, NULL, NULL, 1};
	assert_non_null(batch);
	assert_int_equal(cairn_batch_put(batch, text("k"), text("v")), 0);
	assert_int_equal(cairn_put(db, text("k"), text("v"), 2), CAIRN_INVALID);
	assert_int_equal(cairn_put(db, text("k"), text("v"), CAIRN_SYNC | 4), CAIRN_INVALID);
	assert_int_equal(cairn_delete(db, text("k"), 1u << 31), CAIRN_INVALID);
	assert_int_equal(cairn_write(db, batch, 2), CAIRN_INVALID);
	assert_holds(db, "k", NULL);
	assert_int_equal(cairn_view_open(db, &view), 0);
	assert_int_equal(cairn_iter_open(view, &range, &iter), CAIRN_INVALID);
	assert_null(iter);
	assert_int_equal(cairn_view_close(view), 0);
	cairn_batch_free(batch);
}

/* ---------------------------------------------------------------- records */

static void empty_keys_and_values_are_records(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *view;
	cairn_iter *iter;
	cairn_slice value;
	size_t size = 7;
	assert_int_equal(cairn_get(fixture->db, empty, NULL, 0, &size), CAIRN_NOT_FOUND);
	assert_int_equal(size, 0);
	assert_int_equal(cairn_put(fixture->db, empty, empty, 0), 0);
	for (int round = 0; round < 3; round++) {
		size = 7;
		assert_int_equal(cairn_get(fixture->db, text(""), NULL, 0, &size), 0);
		assert_int_equal(size, 0);
		assert_int_equal(cairn_view_open(fixture->db, &view), 0);
		assert_int_equal(cairn_view_get(view, empty, &value), 0);
		assert_slice(value, "");
		assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
		assert_int_equal(cairn_iter_seek(iter, empty), 0);
		assert_slice(cairn_iter_key(iter), "");
		assert_slice(cairn_iter_value(iter), "");
		assert_int_equal(cairn_iter_seek_le(iter, empty), 0);
		assert_slice(cairn_iter_key(iter), "");
		cairn_iter_close(iter);
		assert_int_equal(cairn_view_close(view), 0);
		if (round == 0)
			reopen(fixture);
		else
			assert_int_equal(cairn_flush(fixture->db), 0);
	}
	assert_int_equal(cairn_delete(fixture->db, empty, 0), 0);
	assert_int_equal(cairn_get(fixture->db, empty, NULL, 0, &size), CAIRN_NOT_FOUND);
}

static void get_copies_what_fits(void **state)
{
	struct fixture *fixture = *state;
	char found[8];
	size_t size;
	put(fixture->db, "k", "12345");
	for (int round = 0; round < 2; round++) {
		for (size_t capacity = 0; capacity <= sizeof found; capacity++) {
			size_t copied = capacity < 5 ? capacity : 5;
			memset(found, '-', sizeof found);
			assert_int_equal(
			    cairn_get(fixture->db, text("k"), found, capacity, &size), 0);
			assert_int_equal(size, 5);
			assert_memory_equal(found, "12345", copied);
			for (size_t i = copied; i < sizeof found; i++)
				assert_int_equal(found[i], '-');
		}
		assert_int_equal(cairn_get(fixture->db, text("k"), NULL, 0, &size), 0);
		assert_int_equal(size, 5);
		assert_int_equal(cairn_flush(fixture->db), 0);
	}
}

static void deleting_what_is_not_there_is_success(void **state)
{
	struct fixture *fixture = *state;
	assert_int_equal(cairn_delete(fixture->db, text("k"), 0), 0);
	assert_int_equal(cairn_delete(fixture->db, text("k"), CAIRN_SYNC), 0);
	put(fixture->db, "k", "v");
	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_int_equal(cairn_delete(fixture->db, text("k"), 0), 0);
	assert_int_equal(cairn_delete(fixture->db, text("k"), 0), 0);
	assert_holds(fixture->db, "k", NULL);
	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_holds(fixture->db, "k", NULL);
}

static void the_later_operation_of_a_batch_wins(void **state)
{
	struct fixture *fixture = *state;
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	assert_int_equal(cairn_write(fixture->db, batch, 0), 0);
	assert_int_equal(cairn_write(fixture->db, batch, CAIRN_SYNC), 0);
	put(fixture->db, "c", "0");
	assert_int_equal(cairn_batch_put(batch, text("a"), text("1")), 0);
	assert_int_equal(cairn_batch_put(batch, text("a"), text("2")), 0);
	assert_int_equal(cairn_batch_put(batch, text("b"), text("3")), 0);
	assert_int_equal(cairn_batch_delete(batch, text("b")), 0);
	assert_int_equal(cairn_batch_delete(batch, text("c")), 0);
	assert_int_equal(cairn_batch_put(batch, text("c"), text("4")), 0);
	assert_int_equal(cairn_batch_count(batch), 6);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(cairn_write(fixture->db, batch, 0), 0);
		assert_int_equal(cairn_batch_count(batch), 6);
		assert_holds(fixture->db, "a", "2");
		assert_holds(fixture->db, "b", NULL);
		assert_holds(fixture->db, "c", "4");
		put(fixture->db, "a", "9");
		assert_int_equal(cairn_delete(fixture->db, text("c"), 0), 0);
	}
	cairn_batch_clear(batch);
	assert_int_equal(cairn_batch_count(batch), 0);
	assert_int_equal(cairn_write(fixture->db, batch, 0), 0);
	assert_holds(fixture->db, "a", "9");
	cairn_batch_free(batch);
}

struct answers {
	char text[64];
	size_t stop;
	int stop_with;
};

static int note_answer(void *context, size_t i, int result, cairn_slice value)
{
	struct answers *answers = context;
	size_t used = strlen(answers->text);
	if (result)
		assert_int_equal(value.size, 0);
	else
		assert_non_null(value.data);
	snprintf(answers->text + used, sizeof answers->text - used, "%zu:%s ", i,
	    result < 0   ? "failure"
	    : result > 0 ? "none"
			 : (value.size ? (const char[]){*(const char *)value.data, 0} : "empty"));
	return i == answers->stop ? answers->stop_with : 0;
}

static void multi_get_answers_in_the_callers_order(void **state)
{
	struct fixture *fixture = *state;
	cairn_slice keys[] = {text("b"), text("nowhere"), text("a"), missing, empty, text("b")};
	struct answers answers = {"", SIZE_MAX, 0};
	put(fixture->db, "a", "1");
	assert_int_equal(cairn_flush(fixture->db), 0);
	put(fixture->db, "b", "2");
	put(fixture->db, "", "");
	assert_int_equal(
	    cairn_multi_get(fixture->db, keys, COUNT(keys), note_answer, &answers), CAIRN_INVALID);
	assert_string_equal(answers.text, "0:2 1:none 2:1 3:failure 4:empty 5:2 ");
	answers = (struct answers){"", 1, 55};
	assert_int_equal(
	    cairn_multi_get(fixture->db, keys, COUNT(keys), note_answer, &answers), 55);
	assert_string_equal(answers.text, "0:2 1:none ");
	answers = (struct answers){"", 2, -55};
	assert_int_equal(
	    cairn_multi_get(fixture->db, keys, COUNT(keys), note_answer, &answers), -55);
	assert_string_equal(answers.text, "0:2 1:none 2:1 ");
	answers = (struct answers){"", SIZE_MAX, 0};
	assert_int_equal(cairn_multi_get(fixture->db, keys, 3, note_answer, &answers), 0);
}

/* ---------------------------------------------------------------- views */

static void a_view_stays_as_it_was(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *view;
	cairn_iter *iter;
	cairn_slice value;
	put(fixture->db, "a", "old");
	put(fixture->db, "b", "old");
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	for (int round = 0; round < 3; round++) {
		put(fixture->db, "a", "new");
		assert_int_equal(cairn_delete(fixture->db, text("b"), 0), 0);
		put(fixture->db, "c", "new");
		assert_int_equal(cairn_view_get(view, text("a"), &value), 0);
		assert_slice(value, "old");
		assert_int_equal(cairn_view_get(view, text("b"), &value), 0);
		assert_slice(value, "old");
		assert_int_equal(cairn_view_get(view, text("c"), &value), CAIRN_NOT_FOUND);
		assert_nothing(value);
		assert_int_equal(cairn_iter_last(iter), 0);
		assert_slice(cairn_iter_key(iter), "b");
		assert_slice(cairn_iter_value(iter), "old");
		assert_int_equal(cairn_compact(fixture->db), 0);
	}
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	assert_holds(fixture->db, "a", "new");
	assert_holds(fixture->db, "b", NULL);
}

static void what_is_in_use_is_busy_and_unharmed(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *view;
	cairn_iter *iter;
	put(fixture->db, "a", "1");
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	assert_int_equal(cairn_iter_first(iter), 0);

	assert_int_equal(cairn_close(fixture->db), CAIRN_BUSY);
	assert_says(fixture->db, "1 views are open");
	assert_int_equal(cairn_view_close(view), CAIRN_BUSY);
	assert_says(fixture->db, "1 iterators");
	assert_slice(cairn_iter_value(iter), "1");
	put(fixture->db, "b", "2");
	assert_holds(fixture->db, "b", "2");
	assert_int_equal(cairn_iter_next(iter), CAIRN_END);

	cairn_iter_close(iter);
	assert_int_equal(cairn_close(fixture->db), CAIRN_BUSY);
	assert_int_equal(cairn_view_close(view), 0);
	reopen(fixture);
	assert_holds(fixture->db, "b", "2");
}

static void views_are_counted_and_the_oldest_described(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *views[CAIRN_STAT_VIEWS_MAX + 4];
	cairn_stats stats;
	put(fixture->db, "k", "old");
	for (size_t i = 0; i < COUNT(views); i++)
		assert_int_equal(cairn_view_open(fixture->db, &views[i]), 0);
	put(fixture->db, "k", "new");
	assert_int_equal(cairn_compact(fixture->db), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.view_count, COUNT(views));
	for (size_t i = 0; i < CAIRN_STAT_VIEWS_MAX; i++) {
		assert_true(stats.views[i].bytes > 0); /* the table of the old value */
		assert_true(i == 0 || stats.views[i].age_ms <= stats.views[i - 1].age_ms);
	}
	for (size_t i = 0; i < COUNT(views); i++)
		assert_int_equal(cairn_view_close(views[(i * 7) % COUNT(views)]), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.view_count, 0);
}

/* ---------------------------------------------------------------- iterators */

static void assert_stands(cairn_iter *iter, int rc, const char *key)
{
	assert_int_equal(rc, key ? 0 : CAIRN_END);
	assert_int_equal(cairn_iter_status(iter), 0);
	if (key) {
		assert_slice(cairn_iter_key(iter), key);
	} else {
		assert_nothing(cairn_iter_key(iter));
		assert_nothing(cairn_iter_value(iter));
	}
}

/* A view of "b", "d" and "f" in a run and in memory. */
static cairn_view *open_three(struct fixture *fixture)
{
	cairn_view *view;
	put(fixture->db, "b", "1");
	put(fixture->db, "d", "2");
	assert_int_equal(cairn_flush(fixture->db), 0);
	put(fixture->db, "f", "3");
	put(fixture->db, "e", "dead");
	assert_int_equal(cairn_delete(fixture->db, text("e"), 0), 0);
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	return view;
}

static void beyond_the_ends_is_nowhere(void **state)
{
	cairn_view *view = open_three(*state);
	cairn_iter *iter;
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	assert_nothing(cairn_iter_key(iter));
	assert_nothing(cairn_iter_value(iter));
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_prev(iter), NULL);
	assert_stands(iter, cairn_iter_last(iter), "f");
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_prev(iter), NULL);
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_first(iter), "b");
	assert_stands(iter, cairn_iter_prev(iter), NULL);
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_seek(iter, text("c")), "d");
	assert_stands(iter, cairn_iter_next(iter), "f");
	assert_stands(iter, cairn_iter_prev(iter), "d");
	assert_stands(iter, cairn_iter_prev(iter), "b");
	assert_stands(iter, cairn_iter_seek(iter, text("g")), NULL);
	assert_stands(iter, cairn_iter_prev(iter), NULL);
	assert_stands(iter, cairn_iter_seek_le(iter, text("a")), NULL);
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_seek_le(iter, text("e")), "d");
	assert_stands(iter, cairn_iter_seek_le(iter, text("d")), "d");
	assert_stands(iter, cairn_iter_seek(iter, text("d")), "d");
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
}

/* What one range must answer: its first and last key, and seeks from outside of it. */
static void assert_range(
    cairn_view *view, const cairn_range *range, const char *first, const char *last)
{
	cairn_iter *iter;
	assert_int_equal(cairn_iter_open(view, range, &iter), 0);
	assert_stands(iter, cairn_iter_first(iter), first);
	assert_stands(iter, cairn_iter_prev(iter), NULL);
	assert_stands(iter, cairn_iter_last(iter), last);
	assert_stands(iter, cairn_iter_next(iter), NULL);
	assert_stands(iter, cairn_iter_seek(iter, empty), first);
	assert_stands(iter, cairn_iter_seek(iter, text("~")), NULL);
	assert_stands(iter, cairn_iter_seek_le(iter, empty), NULL);
	assert_stands(iter, cairn_iter_seek_le(iter, text("~")), last);
	cairn_iter_close(iter);
}

static void a_range_ends_where_it_says(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *view = open_three(fixture);
	cairn_slice a = text("a"), b = text("b"), d = text("d"), f = text("f"), g = text("g");
	cairn_slice dd = text("dd");
	const struct {
		cairn_range range;
		const char *first, *last;
	} cases[] = {
	    {{NULL, NULL, NULL, 0}, "b", "f"},
	    {{&b, &f, NULL, 0}, "b", "d"},
	    {{&a, &g, NULL, 0}, "b", "f"},
	    {{&d, NULL, NULL, 0}, "d", "f"},
	    {{&dd, NULL, NULL, 0}, "f", "f"},
	    {{NULL, &d, NULL, 0}, "b", "b"},
	    {{NULL, &b, NULL, 0}, NULL, NULL},
	    {{&g, NULL, NULL, 0}, NULL, NULL},
	    {{&d, &d, NULL, 0}, NULL, NULL},
	    {{&f, &b, NULL, 0}, NULL, NULL},
	    {{NULL, NULL, &d, 0}, "d", "d"},
	    {{NULL, NULL, &empty, 0}, "b", "f"},
	    {{&empty, NULL, NULL, 0}, "b", "f"},
	    {{NULL, &empty, NULL, 0}, NULL, NULL},
	    {{&dd, NULL, &d, 0}, NULL, NULL},
	    {{&b, &d, &d, 0}, NULL, NULL},
	    {{&b, &g, &d, 0}, "d", "d"},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_range(view, &cases[i].range, cases[i].first, cases[i].last);
	assert_int_equal(cairn_view_close(view), 0);
}

static void a_prefix_may_have_no_key_above_it(void **state)
{
	struct fixture *fixture = *state;
	static const char *keys[] = {"\xfe\xff", "\xff", "\xff\x01", "\xff\xff", "\xff\xff\xff"};
	cairn_view *view;
	cairn_slice one = text("\xff"), two = text("\xff\xff"), low = text("\xfe\xff");
	cairn_range range = {NULL, NULL, &one, 0};
	for (size_t i = 0; i < COUNT(keys); i++)
		put(fixture->db, keys[i], "v");
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	cairn_iter *iter;
	assert_int_equal(cairn_iter_open(view, &range, &iter), 0);
	assert_stands(iter, cairn_iter_first(iter), "\xff");
	assert_stands(iter, cairn_iter_last(iter), "\xff\xff\xff");
	cairn_iter_close(iter);
	range.prefix = &two;
	assert_int_equal(cairn_iter_open(view, &range, &iter), 0);
	assert_stands(iter, cairn_iter_first(iter), "\xff\xff");
	cairn_iter_close(iter);
	range.prefix = &low;
	assert_int_equal(cairn_iter_open(view, &range, &iter), 0);
	assert_stands(iter, cairn_iter_last(iter), "\xfe\xff");
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
}

static void an_empty_store_has_no_records(void **state)
{
	struct fixture *fixture = *state;
	cairn_view *view;
	cairn_range all = {NULL, NULL, NULL, 0};
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	assert_range(view, &all, NULL, NULL);
	assert_range(view, NULL, NULL, NULL);
	assert_int_equal(cairn_view_close(view), 0);
}

/* ---------------------------------------------------------------- messages */

static void every_code_has_words(void **state)
{
	(void)state;
#define CHECK_TEXT(name, number, words)                     \
	assert_int_equal(name, number);                     \
	assert_string_equal(cairn_strerror(number), words); \
	assert_true((number) < 0 ? (number) < -20000 : (number) >= 0);
	CAIRN_STATUS_MAP(CHECK_TEXT)
#undef CHECK_TEXT
	assert_string_equal(cairn_strerror(-ENOENT), strerror(ENOENT));
	assert_non_null(cairn_strerror(-9999));
	assert_non_null(cairn_strerror(9999));
	assert_non_null(cairn_strerror(INT32_MIN));
	char version[32];
	snprintf(version, sizeof version, "%d.%d.%d", CAIRN_VERSION_MAJOR, CAIRN_VERSION_MINOR,
	    CAIRN_VERSION_PATCH);
	assert_string_equal(cairn_version(), version);
}

struct thread_of_messages {
	cairn *db;
	char fresh[256], own[256];
};

static void *fail_elsewhere(void *context)
{
	struct thread_of_messages *thread = context;
	snprintf(thread->fresh, sizeof thread->fresh, "%s%s", cairn_message(thread->db),
	    cairn_message(NULL));
	cairn_put(thread->db, text("k"), text("v"), 64);
	snprintf(thread->own, sizeof thread->own, "%s", cairn_message(thread->db));
	return NULL;
}

static void a_message_belongs_to_a_thread_and_a_handle(void **state)
{
	struct fixture *fixture = *state;
	char path[4300];
	snprintf(path, sizeof path, "%s/other", fixture->directory);
	cairn *other = open_store(path);
	assert_string_equal(cairn_message(other), "");
	assert_int_equal(
	    cairn_put(fixture->db, (cairn_slice){"k", 70000}, empty, 0), CAIRN_TOO_LARGE);
	assert_says(fixture->db, "70000");
	assert_says(NULL, "70000");
	assert_string_equal(cairn_message(other), "");
	assert_int_equal(cairn_put(other, (cairn_slice){"k", 80000}, empty, 0), CAIRN_TOO_LARGE);
	assert_says(other, "80000");
	assert_says(NULL, "80000");
	assert_says(fixture->db, "70000");

	pthread_t thread;
	struct thread_of_messages messages = {.db = other};
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &messages), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(messages.fresh, "");
	assert_non_null(strstr(messages.own, "0x40"));
	assert_says(other, "80000");

	/* Success leaves it, and a closed handle takes it along. */
	put(other, "k", "v");
	assert_holds(other, "none", NULL);
	assert_says(other, "80000");
	assert_int_equal(cairn_close(other), 0);
	assert_says(fixture->db, "70000");
}

static void *open_and_work(void *context)
{
	struct thread_of_messages *thread = context;
	char path[4300];
	snprintf(path, sizeof path, "%s", thread->fresh);
	thread->fresh[0] = 0;
	cairn *db = open_store(path);
	put(db, "k", "v");
	assert_holds(db, "none", NULL);
	assert_int_equal(cairn_compact(db), 0);
	assert_int_equal(cairn_close(db), 0);
	db = open_store(path);
	assert_int_equal(cairn_close(db), 0);
	snprintf(thread->own, sizeof thread->own, "%s", cairn_message(NULL));
	return NULL;
}

static void without_a_failure_there_is_no_message(void **state)
{
	struct fixture *fixture = *state;
	pthread_t thread;
	struct thread_of_messages messages = {.own = "none yet"};
	snprintf(messages.fresh, sizeof messages.fresh, "%s/fresh", fixture->directory);
	assert_int_equal(pthread_create(&thread, NULL, open_and_work, &messages), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(messages.own, "");
}

/* ---------------------------------------------------------------- numbers */

static void numbers_say_what_there_is(void **state)
{
	struct fixture *fixture = *state;
	cairn_stats stats;
	memset(&stats, 0x55, sizeof stats);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 0);
	assert_int_equal(stats.view_count, 0);
	assert_int_equal(stats.last_error, 0);
	assert_int_equal(stats.sync_mode, CAIRN_SYNC_INTERVAL);
	assert_int_equal(stats.log_bytes_written, 0);
	assert_int_equal(stats.index_bytes, 0);
	assert_true(!strcmp(stats.io, "posix") || !strcmp(stats.io, "io_uring"));

	put(fixture->db, "a", "1");
	put(fixture->db, "b", "2");
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_true(stats.memtable_bytes > 0 && stats.memory_bytes >= stats.memtable_bytes);
	assert_true(stats.log_bytes > 0 && stats.log_bytes_written > 0);
	assert_int_equal(stats.flush_bytes_written, 0);

	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_int_equal(cairn_delete(fixture->db, text("a"), 0), 0);
	put(fixture->db, "c", "3");
	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 2);
	assert_int_equal(stats.runs[0].records, 2);
	assert_int_equal(stats.runs[0].tombstones, 1);
	assert_int_equal(stats.runs[1].records, 2);
	assert_int_equal(stats.runs[1].tombstones, 0);
	assert_int_equal(stats.runs[0].format, CAIRN_KV02);
	assert_int_equal(stats.runs[0].compression, CAIRN_NO_COMPRESSION);
	assert_int_equal(stats.runs[0].segments, 1);
	assert_int_equal(stats.flush_bytes_written, stats.runs[0].bytes + stats.runs[1].bytes);
	assert_int_equal(stats.merge_bytes_written, 0);

	assert_int_equal(cairn_compact(fixture->db), 0);
	cairn_stats before = stats;
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_int_equal(stats.runs[0].records, 2);
	assert_int_equal(stats.runs[0].tombstones, 0);
	assert_int_equal(stats.merge_bytes_written, stats.runs[0].bytes);
	assert_int_equal(stats.log_bytes, 0);

	/* Over the store's life, not the handle's. */
	reopen(fixture);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.log_bytes_written, before.log_bytes_written);
	assert_int_equal(stats.flush_bytes_written, before.flush_bytes_written);
}

/* Reads one JSON value, with everything in it; NULL when it is none. */
static const char *skip_json(const char *p);

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
	if (*p++ != '"')
		return NULL;
	while (*p && *p != '"') {
		if ((unsigned char)*p < 0x20)
			return NULL;
		p += *p == '\\' && p[1] ? 2 : 1;
	}
	return *p ? p + 1 : NULL;
}

static const char *skip_members(const char *p, char close, bool named)
{
	p = skip_space(p + 1);
	if (*p == close)
		return p + 1;
	for (;;) {
		if (named) {
			p = skip_string(skip_space(p));
			p = p ? skip_space(p) : NULL;
			if (!p || *p++ != ':')
				return NULL;
		}
		p = skip_json(p);
		if (!p || (*p != ',' && *p != close))
			return NULL;
		if (*p++ == close)
			return p;
	}
}

static const char *skip_json(const char *p)
{
	p = skip_space(p);
	if (*p == '{')
		p = skip_members(p, '}', true);
	else if (*p == '[')
		p = skip_members(p, ']', false);
	else if (*p == '"')
		p = skip_string(p);
	else if (strncmp(p, "null", 4) == 0)
		p += 4;
	else
		p = strspn(p, "0123456789") ? p + strspn(p, "0123456789") : NULL;
	return p ? skip_space(p) : NULL;
}

static void the_numbers_are_one_json_object(void **state)
{
	struct fixture *fixture = *state;
	static const char *names[] = {"runs", "bytes", "records", "tombstones", "dead_bytes",
	    "format", "compression", "segments", "memtable_bytes", "log_bytes", "index_bytes",
	    "memory_bytes", "io", "sync_mode", "views", "age_ms", "seeks_indexed", "seeks_fallback",
	    "bytes_written", "log", "flush", "merge", "last_error"};
	cairn_view *view;
	char json[8192], quoted[32];
	size_t size;
	put(fixture->db, "a", "1");
	assert_int_equal(cairn_flush(fixture->db), 0);
	put(fixture->db, "b", "1");
	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_int_equal(cairn_view_open(fixture->db, &view), 0);
	assert_int_equal(cairn_stat_json(fixture->db, json, sizeof json, &size), 0);
	assert_true(size < sizeof json);
	assert_int_equal(strlen(json), size);
	const char *end = skip_json(json);
	assert_true(end && *end == 0 && json[0] == '{');
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(quoted, sizeof quoted, "\"%s\":", names[i]);
		assert_non_null(strstr(json, quoted));
	}
	assert_non_null(strstr(json, "\"last_error\": null"));
	assert_non_null(strstr(json, "\"sync_mode\": \"interval\""));
	assert_int_equal(cairn_view_close(view), 0);
}

static void json_that_does_not_fit_is_cut(void **state)
{
	struct fixture *fixture = *state;
	char whole[4096], cut[4096];
	size_t size, again;
	assert_int_equal(cairn_stat_json(fixture->db, whole, sizeof whole, &size), 0);
	assert_true(size + 1 < sizeof whole);
	for (size_t capacity = 0; capacity <= size + 1; capacity++) {
		memset(cut, '~', sizeof cut);
		assert_int_equal(cairn_stat_json(fixture->db, cut, capacity, &again), 0);
		assert_int_equal(again, size);
		assert_memory_equal(cut, whole, capacity);
		assert_int_equal(cut[capacity], '~');
	}
	assert_int_equal(cairn_stat_json(fixture->db, NULL, 0, &again), 0);
	assert_int_equal(again, size);
}

/* ---------------------------------------------------------------- shaping */

static void flush_makes_a_run_and_wait_only_where_it_helps(void **state)
{
	struct fixture *fixture = *state;
	cairn_stats stats;
	assert_int_equal(cairn_flush(fixture->db), 0);
	assert_int_equal(cairn_compact(fixture->db), 0);
	assert_int_equal(cairn_wait(fixture->db), 0);
	assert_int_equal(cairn_sync(fixture->db), 0);
	put(fixture->db, "a", "1");
	assert_int_equal(cairn_wait(fixture->db), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 0);
	put(fixture->db, "a", "2");
	assert_int_equal(cairn_wait(fixture->db), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_int_equal(stats.log_bytes, 0);
	assert_int_equal(cairn_delete(fixture->db, text("a"), 0), 0);
	assert_int_equal(cairn_wait(fixture->db), 0);
	assert_int_equal(cairn_compact(fixture->db), 0);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 0);
	assert_holds(fixture->db, "a", NULL);
}

static void close_leaves_a_small_table_in_the_log(void **state)
{
	struct fixture *fixture = *state;
	char *value = calloc(1, 100000);
	cairn_stats stats;
	assert_non_null(value);
	put(fixture->db, "a", "1");
	reopen(fixture);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 0);
	assert_holds(fixture->db, "a", "1");
	for (const char *key = "bc"; *key; key++)
		assert_int_equal(
		    cairn_put(fixture->db, (cairn_slice){key, 1}, (cairn_slice){value, 100000}, 0),
		    0);
	reopen(fixture);
	assert_int_equal(cairn_stat(fixture->db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_int_equal(stats.log_bytes, 0);
	assert_holds(fixture->db, "a", "1");
	free(value);
}

/* ---------------------------------------------------------------- copies and checks */

static void a_checkpoint_is_a_store_of_its_own(void **state)
{
	struct fixture *fixture = *state;
	char path[4300];
	snprintf(path, sizeof path, "%s/copy", fixture->directory);
	put(fixture->db, "a", "1");
	assert_int_equal(cairn_flush(fixture->db), 0);
	put(fixture->db, "b", "2");
	assert_int_equal(cairn_checkpoint(fixture->db, path), 0);
	assert_int_equal(cairn_checkpoint(fixture->db, path), -EEXIST);
	assert_says(fixture->db, path);
	put(fixture->db, "a", "later");
	assert_int_equal(cairn_compact(fixture->db), 0);

	cairn *copy = open_store(path);
	assert_holds(copy, "a", "1");
	assert_holds(copy, "b", "2");
	put(copy, "b", "mine");
	assert_int_equal(cairn_compact(copy), 0);
	assert_int_equal(cairn_close(copy), 0);
	assert_true(match_verify(path));
	assert_holds(fixture->db, "b", "2");
	assert_true(match_verify(fixture->path));

	snprintf(path, sizeof path, "%s/nowhere/copy", fixture->directory);
	assert_int_equal(cairn_checkpoint(fixture->db, path), -ENOENT);
	assert_says(fixture->db, path);
}

static void an_empty_store_can_be_copied(void **state)
{
	struct fixture *fixture = *state;
	char path[4300];
	snprintf(path, sizeof path, "%s/copy", fixture->directory);
	assert_int_equal(cairn_checkpoint(fixture->db, path), 0);
	struct model none = {0};
	assert_true(match_path(path, NULL, &none));
}

struct findings {
	size_t count;
	int stop_with;
	char path[4300];
	int code;
	bool worded;
};

static int note_finding(void *context, const cairn_finding *finding)
{
	struct findings *findings = context;
	findings->count++;
	findings->code = finding->code;
	findings->worded = finding->message && finding->message[0];
	snprintf(findings->path, sizeof findings->path, "%s", finding->path);
	return findings->stop_with;
}

/* The path of the first file whose name ends so. */
static void find_file(const char *directory, const char *ending, char *path, size_t size)
{
	DIR *opened = opendir(directory);
	assert_non_null(opened);
	path[0] = 0;
	for (const struct dirent *entry; (entry = readdir(opened));) {
		size_t length = strlen(entry->d_name), tail = strlen(ending);
		if (length > tail && strcmp(entry->d_name + length - tail, ending) == 0)
			assert_true(
			    snprintf(path, size, "%s/%s", directory, entry->d_name) < (int)size);
	}
	closedir(opened);
	assert_true(path[0] != 0);
}

static void flip_byte(const char *path, long offset)
{
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	assert_int_equal(fseek(file, offset, SEEK_SET), 0);
	int byte = fgetc(file);
	assert_true(byte != EOF);
	assert_int_equal(fseek(file, offset, SEEK_SET), 0);
	assert_int_equal(fputc(byte ^ 0x10, file), byte ^ 0x10);
	assert_int_equal(fclose(file), 0);
}

static void verify_reports_what_it_finds(void **state)
{
	struct fixture *fixture = *state;
	struct findings findings = {0};
	char path[4600];
	assert_int_equal(cairn_verify("/nowhere/at/all", NULL, note_finding, &findings), -ENOENT);
	put(fixture->db, "a", "1");
	put(fixture->db, "b", "2");
	assert_int_equal(cairn_compact(fixture->db), 0);
	assert_int_equal(cairn_verify(fixture->path, NULL, note_finding, &findings), 0);
	assert_int_equal(findings.count, 0);

	find_file(fixture->path, ".kv", path, sizeof path);
	flip_byte(path, 128 + 20);
	assert_int_equal(cairn_verify(fixture->path, NULL, note_finding, &findings), CAIRN_CORRUPT);
	assert_true(findings.count > 0 && findings.worded);
	assert_int_equal(findings.code, CAIRN_CORRUPT);
	assert_string_equal(findings.path, path);
	assert_says(NULL, fixture->path);
	assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), CAIRN_CORRUPT);
	findings = (struct findings){.stop_with = 5};
	assert_int_equal(cairn_verify(fixture->path, NULL, note_finding, &findings), 5);
	assert_int_equal(findings.count, 1);
	flip_byte(path, 128 + 20);
	assert_int_equal(cairn_verify(fixture->path, NULL, note_finding, &findings), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(keys_have_sizes_up_to_the_limit),
	    TEST(beyond_a_limit_nothing_is_written),
	    TEST(a_key_beyond_the_limit_is_nowhere),
	    TEST(a_batch_counts_32_bytes_for_each_operation),
	    TEST(a_batch_may_be_filled_to_its_limit),
	    TEST(a_handle_is_needed),
	    TEST(nothing_is_fine_to_close),
	    TEST(an_answer_needs_a_place),
	    TEST(a_size_needs_bytes),
	    TEST(unknown_flags_are_refused),
	    TEST(empty_keys_and_values_are_records),
	    TEST(get_copies_what_fits),
	    TEST(deleting_what_is_not_there_is_success),
	    TEST(the_later_operation_of_a_batch_wins),
	    TEST(multi_get_answers_in_the_callers_order),
	    TEST(a_view_stays_as_it_was),
	    TEST(what_is_in_use_is_busy_and_unharmed),
	    TEST(views_are_counted_and_the_oldest_described),
	    TEST(beyond_the_ends_is_nowhere),
	    TEST(a_range_ends_where_it_says),
	    TEST(a_prefix_may_have_no_key_above_it),
	    TEST(an_empty_store_has_no_records),
	    TEST(every_code_has_words),
	    TEST(a_message_belongs_to_a_thread_and_a_handle),
	    TEST(without_a_failure_there_is_no_message),
	    TEST(numbers_say_what_there_is),
	    TEST(the_numbers_are_one_json_object),
	    TEST(json_that_does_not_fit_is_cut),
	    TEST(flush_makes_a_run_and_wait_only_where_it_helps),
	    TEST(close_leaves_a_small_table_in_the_log),
	    TEST(a_checkpoint_is_a_store_of_its_own),
	    TEST(an_empty_store_can_be_copied),
	    TEST(verify_reports_what_it_finds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
