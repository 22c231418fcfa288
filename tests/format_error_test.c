/*
 * tests/format_error_test.c -- what a failure's message says, and whose it is.
 */
#include "tests/test.h"

#include "format/error.h"

#include <errno.h>
#include <pthread.h>

static void *text_of_a_new_thread(void *result)
{
	*(bool *)result = strcmp(cairn_error_text(), "") == 0;
	cairn_error(CAIRN_INVALID, "of the other thread");
	return NULL;
}

static void every_thread_has_its_own_text_and_begins_with_none(void **state)
{
	(void)state;
	cairn_error(CAIRN_INVALID, "of this thread");
	bool empty = false;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, text_of_a_new_thread, &empty), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(empty);
	assert_string_equal(cairn_error_text(), "of this thread");
}

static void the_code_comes_back_and_the_text_stays(void **state)
{
	(void)state;
	assert_int_equal(cairn_error(CAIRN_TOO_LARGE, "key of %d bytes, %s", 70000, "limit 65535"),
	    CAIRN_TOO_LARGE);
	assert_string_equal(cairn_error_text(), "key of 70000 bytes, limit 65535");
	assert_int_equal(cairn_error(CAIRN_INVALID, "next"), CAIRN_INVALID);
	assert_string_equal(cairn_error_text(), "next");
	assert_int_equal(cairn_error(CAIRN_INVALID, "%s", ""), CAIRN_INVALID);
	assert_string_equal(cairn_error_text(), "");
}

static void a_place_in_a_file_stands_in_front(void **state)
{
	(void)state;
	assert_int_equal(
	    cairn_error_at(CAIRN_CORRUPT, "dir/000007.kv", 4096, "bad block %d", 3), CAIRN_CORRUPT);
	assert_string_equal(cairn_error_text(), "dir/000007.kv: at offset 4096: bad block 3");
	cairn_error_at(CAIRN_CORRUPT, "f", 0, "x");
	assert_string_equal(cairn_error_text(), "f: at offset 0: x");
	cairn_error_at(CAIRN_CORRUPT, "f", UINT64_MAX - 1, "x");
	assert_string_equal(cairn_error_text(), "f: at offset 18446744073709551614: x");
	cairn_error_at(CAIRN_CORRUPT, "100%s", CAIRN_NO_OFFSET, "x");
	assert_string_equal(cairn_error_text(), "100%s: x");
}

static void a_message_can_be_made_of_the_one_before(void **state)
{
	(void)state;
	cairn_error(CAIRN_CORRUPT, "first");
	cairn_error(CAIRN_CORRUPT, "%s; then %s", "second", cairn_error_text());
	assert_string_equal(cairn_error_text(), "second; then first");
	cairn_error_at(CAIRN_CORRUPT, cairn_error_text(), 1, "%s", cairn_error_text());
	assert_string_equal(
	    cairn_error_text(), "second; then first: at offset 1: second; then first");
}

static void what_does_not_fit_is_cut(void **state)
{
	(void)state;
	char path[2 * CAIRN_ERROR_TEXT_MAX];
	for (size_t size = CAIRN_ERROR_TEXT_MAX - 8; size < CAIRN_ERROR_TEXT_MAX + 8; size++) {
		memset(path, 'p', size);
		path[size] = '\0';
		size_t kept = size < CAIRN_ERROR_TEXT_MAX - 1 ? size : CAIRN_ERROR_TEXT_MAX - 1;
		assert_int_equal(cairn_error(CAIRN_CORRUPT, "%s", path), CAIRN_CORRUPT);
		assert_int_equal(strlen(cairn_error_text()), kept);
		assert_memory_equal(cairn_error_text(), path, kept);

		assert_int_equal(cairn_error_at(-EIO, path, 12, "text %d", 1), -EIO);
		assert_int_equal(strlen(cairn_error_text()), CAIRN_ERROR_TEXT_MAX - 1);
		assert_memory_equal(cairn_error_text(), path, kept);
	}
	memset(path, 'p', CAIRN_ERROR_TEXT_MAX - 5);
	path[CAIRN_ERROR_TEXT_MAX - 5] = '\0';
	cairn_error_at(CAIRN_CORRUPT, path, CAIRN_NO_OFFSET, "abc");
	assert_string_equal(cairn_error_text() + CAIRN_ERROR_TEXT_MAX - 5, ": ab");
}

static void a_failed_call_says_what_to_do(void **state)
{
	(void)state;
	assert_int_equal(cairn_error_system(-ENOSPC, "dir/000001.wal", "fallocate"), -ENOSPC);
	assert_string_equal(cairn_error_text(),
	    "dir/000001.wal: fallocate: No space left on device; free some space and try again");

	static const struct {
		int error;
		const char *advice; /* a part of it */
	} cases[] = {
	    {EDQUOT, "quota"},
	    {EACCES, "permissions"},
	    {EPERM, "permissions"},
	    {EROFS, "reading only"},
	    {EMFILE, "ulimit -n"},
	    {ENFILE, "fs.file-max"},
	    {EIO, "system log"},
	    {ENOMEM, "memory"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(cairn_error_system(-cases[i].error, "f", "call"), -cases[i].error);
		char start[256];
		snprintf(start, sizeof start, "f: call: %s; ", strerror(cases[i].error));
		assert_memory_equal(cairn_error_text(), start, strlen(start));
		assert_non_null(strstr(cairn_error_text() + strlen(start), cases[i].advice));
	}
}

static void a_failure_that_explains_itself_has_no_advice(void **state)
{
	(void)state;
	assert_int_equal(cairn_error_system(-ENOENT, "dir/MANIFEST", "open"), -ENOENT);
	assert_string_equal(cairn_error_text(), "dir/MANIFEST: open: No such file or directory");
}

static void a_failure_comes_in_parts(void **state)
{
	(void)state;
	cairn_error_at(CAIRN_CORRUPT, "d/f", 77, "%s", "bad");
	assert_int_equal(cairn_error_code(), CAIRN_CORRUPT);
	assert_int_equal(cairn_error_path_size(), 3);
	assert_int_equal(cairn_error_offset(), 77);
	assert_string_equal(cairn_error_cause(), "bad");
	cairn_error_at(-EIO, "d/f", CAIRN_NO_OFFSET, "worse");
	assert_int_equal(cairn_error_path_size(), 3);
	assert_int_equal(cairn_error_offset(), 0);
	assert_string_equal(cairn_error_cause(), "worse");
	cairn_error(CAIRN_INVALID, "no file");
	assert_int_equal(cairn_error_code(), CAIRN_INVALID);
	assert_int_equal(cairn_error_path_size(), 0);
	assert_int_equal(cairn_error_offset(), 0);
	assert_string_equal(cairn_error_cause(), "no file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_thread_has_its_own_text_and_begins_with_none),
	    cmocka_unit_test(the_code_comes_back_and_the_text_stays),
	    cmocka_unit_test(a_place_in_a_file_stands_in_front),
	    cmocka_unit_test(a_message_can_be_made_of_the_one_before),
	    cmocka_unit_test(what_does_not_fit_is_cut),
	    cmocka_unit_test(a_failed_call_says_what_to_do),
	    cmocka_unit_test(a_failure_that_explains_itself_has_no_advice),
	    cmocka_unit_test(a_failure_comes_in_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
