/*
 * tests/format_filename_test.c -- names of files, both ways.
 */
#include "tests/test.h"

#include "format/filename.h"

static const struct {
	enum cairn_file_kind kind;
	uint64_t number;
	const char *name;
} names[] = {
    {CAIRN_FILE_LOCK, 0, "LOCK"},
    {CAIRN_FILE_MANIFEST, 0, "MANIFEST"},
    {CAIRN_FILE_MANIFEST_OLD, 0, "MANIFEST.old"},
    {CAIRN_FILE_TEMPORARY, 0, "MANIFEST.tmp"},
    {CAIRN_FILE_TEMPORARY, 1, "000001.tmp"},
    {CAIRN_FILE_LOG, 0, "000000.wal"},
    {CAIRN_FILE_LOG, 1, "000001.wal"},
    {CAIRN_FILE_LOG, 999999, "999999.wal"},
    {CAIRN_FILE_LOG, 1000000, "1000000.wal"},
    {CAIRN_FILE_RUN, 42, "000042.kv"},
    {CAIRN_FILE_RUN, UINT64_MAX, "18446744073709551615.kv"},
    {CAIRN_FILE_INDEX, 123456, "123456.ix"},
};

#define NAMES (sizeof names / sizeof names[0])

static void every_file_has_its_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < NAMES; i++) {
		char expected[64];
		snprintf(expected, sizeof expected, "some/store/%s", names[i].name);
		char *path = cairn_filename("some/store", names[i].kind, names[i].number);
		assert_non_null(path);
		assert_string_equal(path, expected);
		free(path);
	}
}

static void every_name_is_understood(void **state)
{
	(void)state;
	for (size_t i = 0; i < NAMES; i++) {
		uint64_t number = 77;
		assert_int_equal(cairn_filename_parse(names[i].name, &number), names[i].kind);
		assert_int_equal(number, names[i].number);
	}
}

static void a_fixed_name_has_no_number(void **state)
{
	(void)state;
	static const enum cairn_file_kind kinds[] = {
	    CAIRN_FILE_LOCK, CAIRN_FILE_MANIFEST, CAIRN_FILE_MANIFEST_OLD};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		char *with = cairn_filename("d", kinds[i], 5);
		char *without = cairn_filename("d", kinds[i], 0);
		assert_string_equal(with, without);
		free(with);
		free(without);
	}
}

static void any_number_survives_the_way_there_and_back(void **state)
{
	(void)state;
	static const enum cairn_file_kind kinds[] = {
	    CAIRN_FILE_LOG, CAIRN_FILE_RUN, CAIRN_FILE_INDEX, CAIRN_FILE_TEMPORARY};
	uint64_t random = test_seed(1);
	for (unsigned i = 0; i < 10000; i++) {
		enum cairn_file_kind kind = kinds[i % 4];
		uint64_t expected = test_random(&random) >> test_random(&random) % 64;
		char *path = cairn_filename(".", kind, expected);
		assert_non_null(path);
		uint64_t number;
		assert_int_equal(cairn_filename_parse(path + 2, &number), kind);
		assert_int_equal(number, expected);
		free(path);
	}
}

static void what_is_not_ours_is_foreign(void **state)
{
	(void)state;
	static const char *const foreign[] = {"", ".", "..", "lock", "LOCK ", "LOCK.old", "MANIFES",
	    "MANIFESTO", "MANIFEST.", "MANIFEST.old2", "MANIFEST.OLD", "MANIFEST.tmp.tmp",
	    "manifest",
	    /* Too few digits, too many zeros, no digits. */
	    "1.kv", "00001.kv", "0000001.kv", "0999999.kv", "0000000.wal", ".kv", "kv",
	    /* No number of 64 bits. */
	    "18446744073709551616.kv", "18446744073709551620.kv", "99999999999999999999.kv",
	    "184467440737095516150.kv", "100000000000000000000000000001.kv",
	    /* Signs, spaces, other bases. */
	    "+000001.kv", "-000001.kv", " 000001.kv", "0x0001.kv", "00000a.kv", "000001 .kv",
	    /* Endings. */
	    "000001", "000001.", "000001.k", "000001.kvx", "000001.KV", "000001kv", "000001.kv.tmp",
	    "000001.kv ", "000001.wal~", "000001.log", "000001.kv/", "d/000001.kv", "./LOCK",
	    /* Number 0 of the temporary files is called MANIFEST.tmp. */
	    "000000.tmp"};
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
		uint64_t number = 77;
		if (cairn_filename_parse(foreign[i], &number) != CAIRN_FILE_FOREIGN)
			fail_msg("\"%s\" was taken for ours", foreign[i]);
		assert_int_equal(number, 0);
	}
}

/* Whatever is accepted is exactly what cairn_filename makes: names near to ours, a byte changed. */
static void nothing_is_accepted_that_is_not_made(void **state)
{
	(void)state;
	static const char alphabet[] = "0123456789.kvwalixtmpoldMANIFESTLOCK";
	uint64_t random = test_seed(2);
	unsigned accepted = 0;
	for (unsigned i = 0; i < 50000; i++) {
		char name[64];
		strcpy(name, names[test_random(&random) % NAMES].name);
		size_t at = test_random(&random) % strlen(name);
		name[at] = alphabet[test_random(&random) % (sizeof alphabet - 1)];
		uint64_t number;
		enum cairn_file_kind kind = cairn_filename_parse(name, &number);
		if (kind == CAIRN_FILE_FOREIGN)
			continue;
		accepted++;
		char *path = cairn_filename("d", kind, number);
		assert_non_null(path);
		assert_string_equal(path + 2, name);
		free(path);
	}
	assert_true(accepted > 1000);
}

static void a_path_has_a_parent(void **state)
{
	(void)state;
	static const struct {
		const char *path, *parent;
	} cases[] = {{"a", "."}, {"a/", "."}, {"a/b", "a"}, {"a/b//", "a"}, {"a//b", "a"},
	    {"./a", "."}, {"/a", "/"}, {"/a/", "/"}, {"/a/b", "/a"}, {"/", "/"},
	    {"../a/b", "../a"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *parent = cairn_path_parent(cases[i].path);
		assert_non_null(parent);
		assert_string_equal(parent, cases[i].parent);
		free(parent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_file_has_its_name),
	    cmocka_unit_test(every_name_is_understood),
	    cmocka_unit_test(a_fixed_name_has_no_number),
	    cmocka_unit_test(any_number_survives_the_way_there_and_back),
	    cmocka_unit_test(what_is_not_ours_is_foreign),
	    cmocka_unit_test(nothing_is_accepted_that_is_not_made),
	    cmocka_unit_test(a_path_has_a_parent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
