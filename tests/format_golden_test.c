/*
 * The golden `.kv` files, without and with a point index, and the fractional index of the second on
 * the first: written once by version 1 of the formats and never again. Today's reader must read
 * them, today's writer must write the same bytes. If it does not, the format has changed: that
 * needs a new version, and a new file beside these.
 */
#include "tests/test.h"

#include "format/checksum.h"
#include "format/fraction.h"
#include "format/run_reader.h"
#include "format/run_writer.h"
#include "store/io_posix.h"

#define RECORDS 300u /* 20 blocks: words and one level above them */
#define NUMBER  UINT64_C(17)

static const struct cairn_identity identity = {
    .store_id = "golden store id!", .hash_seed = UINT64_C(0x1122334455667788)};

struct text_record {
	char key[64];
	char value[64];
	struct cairn_record record;
};

/* Uneven keys and values, an empty key, tombstones, one record that does not fit bytes of length.
 */
static void make_records(struct text_record *text, char *long_value, size_t long_size)
{
	memset(long_value, 'v', long_size);
	for (unsigned i = 0; i < RECORDS; i++) {
		struct cairn_record *record = &text[i].record;
		const char *group = i < 100 ? "animal" : i < 200 ? "mineral" : "vegetable";
		int key_size = snprintf(text[i].key, sizeof text[i].key, "%s/%03u%.*s", group, i,
		    (int)(i % 11), "-0123456789");
		int value_size = snprintf(text[i].value, sizeof text[i].value, "number %u", i);
		record->kind = i % 10 == 4 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
		record->key = cairn_slice_of(text[i].key, i ? (size_t)key_size : 0);
		record->value = cairn_slice_of(text[i].value, (size_t)value_size);
		if (i == 150)
			record->value = cairn_slice_of(long_value, long_size);
		if (record->kind == CAIRN_KIND_DELETE)
			record->value.size = 0;
		record->checksum = cairn_record_checksum(
		    cairn_key_hash(record->key, identity.hash_seed), record->kind, record->value);
	}
}

static const struct {
	const char *path;
	bool point_index;
} golden[] = {
    {CAIRN_TEST_GOLDEN_DIR "/kv02.kv", false},
    {CAIRN_TEST_GOLDEN_DIR "/kv02-point.kv", true},
};

static struct text_record text[RECORDS];
static char long_value[1000];

static void *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	if (!file)
		fail_msg("cannot open %s", path);
	void *data = malloc(1 << 20);
	assert_non_null(data);
	*size = fread(data, 1, 1 << 20, file);
	fclose(file);
	return data;
}

static void print_finding(void *context, uint64_t offset, const char *finding)
{
	(void)context;
	printf("finding at %llu: %s\n", (unsigned long long)offset, finding);
}

static void check_golden(struct cairn_io *io, const char *path)
{
	struct cairn_run_reader *run;
	assert_int_equal(cairn_run_open(io, path, NULL, &run), 0);
	assert_int_equal(cairn_run_header(run)->number, NUMBER);
	assert_memory_equal(&cairn_run_header(run)->identity, &identity, sizeof identity);
	assert_int_equal(cairn_run_footer(run)->records, RECORDS);
	assert_int_equal(cairn_run_footer(run)->sequence_low, 1000);
	assert_int_equal(cairn_run_footer(run)->sequence_high, 1299);
	assert_int_equal(cairn_run_verify(run, print_finding, NULL), 0);

	struct cairn_cursor *cursor;
	assert_int_equal(cairn_run_cursor_open(run, CAIRN_ADVISE_SEQUENTIAL, &cursor), 0);
	int code = cairn_cursor_first(cursor);
	for (unsigned i = 0; i < RECORDS; i++, code = cairn_cursor_next(cursor)) {
		const struct cairn_record *want = &text[i].record;
		struct cairn_record record;
		assert_int_equal(code, 0);
		assert_int_equal(cairn_cursor_record(cursor, &record), 0);
		assert_int_equal(record.kind, want->kind);
		assert_int_equal(record.key.size, want->key.size);
		assert_memory_equal(record.key.data, want->key.data, want->key.size);
		assert_int_equal(record.value.size, want->value.size);
		assert_memory_equal(record.value.data, want->value.data, want->value.size);
		assert_int_equal(cairn_run_get(run, want->key,
				     cairn_key_hash(want->key, identity.hash_seed), &record),
		    0);
	}
	assert_int_equal(code, CAIRN_END);
	cairn_cursor_close(cursor);
	cairn_run_close(run);
}

static void golden_files_are_read(void **state)
{
	for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
		check_golden(*state, golden[i].path);
}

static void check_bytes(struct cairn_io *io, const char *golden_path, bool point_index)
{
	char *directory = test_directory();
	char path[4200];
	snprintf(path, sizeof path, "%s/000017.kv", directory);
	struct cairn_run_spec spec = {.identity = identity,
	    .number = NUMBER,
	    .format = CAIRN_KV02,
	    .kinds = true,
	    .point_index = point_index};
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), 0);
	for (unsigned i = 0; i < RECORDS; i++)
		assert_int_equal(cairn_run_writer_add(writer, &text[i].record), 0);
	struct cairn_run_footer footer;
	uint64_t size;
	assert_int_equal(cairn_run_writer_finish(writer, 1000, 1299, &footer, &size), 0);

	size_t written_size, golden_size;
	void *written = read_file(path, &written_size);
	void *golden_bytes = read_file(golden_path, &golden_size);
	assert_int_equal(written_size, size);
	assert_int_equal(written_size, golden_size);
	assert_memory_equal(written, golden_bytes, golden_size);
	free(written);
	free(golden_bytes);
	test_remove_directory(directory);
}

static void the_same_records_give_the_same_bytes(void **state)
{
	for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
		check_bytes(*state, golden[i].path, golden[i].point_index);
}

#define INDEX_NUMBER UINT64_C(9)

static void open_both(
    struct cairn_io *io, struct cairn_run_reader **run, struct cairn_run_reader **anchor)
{
	assert_int_equal(cairn_run_open(io, golden[1].path, NULL, run), 0);
	assert_int_equal(cairn_run_open(io, golden[0].path, NULL, anchor), 0);
}

static int note_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	uint64_t *ends = context;
	(void)from;
	ends[cell] = to;
	return 0;
}

static void the_golden_index_is_read(void **state)
{
	struct cairn_run_reader *run, *anchor;
	struct cairn_fraction *index;
	uint64_t ends[2];
	open_both(*state, &run, &anchor);
	assert_int_equal(cairn_fraction_open(*state, CAIRN_TEST_GOLDEN_DIR "/kv02-point.ix", NULL,
			     &identity, run, anchor, &index),
	    0);
	assert_int_equal(index->number, INDEX_NUMBER);
	assert_int_equal(index->level, 1);
	assert_int_equal(index->cells, 2);
	assert_int_equal(index->first_edge, 0);
	assert_int_equal(index->last_edge, 11);
	assert_int_equal(cairn_fraction_windows(index, note_window, ends), 0);
	assert_int_equal(ends[0], 17);
	assert_int_equal(ends[1], 20);
	cairn_fraction_close(index);
	cairn_run_close(run);
	cairn_run_close(anchor);
}

static void the_same_runs_give_the_same_index(void **state)
{
	struct cairn_run_reader *run, *anchor;
	struct cairn_fraction_file file;
	char *directory = test_directory();
	char path[4200];
	size_t written_size, golden_size;
	snprintf(path, sizeof path, "%s/000009.ix", directory);
	open_both(*state, &run, &anchor);
	assert_int_equal(
	    cairn_fraction_build(*state, path, &identity, INDEX_NUMBER, run, anchor, &file), 0);
	void *written = read_file(path, &written_size);
	void *kept = read_file(CAIRN_TEST_GOLDEN_DIR "/kv02-point.ix", &golden_size);
	assert_int_equal(written_size, file.size);
	assert_int_equal(written_size, golden_size);
	assert_memory_equal(written, kept, golden_size);
	free(written);
	free(kept);
	cairn_run_close(run);
	cairn_run_close(anchor);
	test_remove_directory(directory);
}

static int set_up(void **state)
{
	struct cairn_io *io;
	make_records(text, long_value, sizeof long_value);
	assert_int_equal(cairn_io_posix_open(&io), 0);
	*state = io;
	return 0;
}

static int tear_down(void **state)
{
	cairn_io_posix_close(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_files_are_read),
	    cmocka_unit_test(the_same_records_give_the_same_bytes),
	    cmocka_unit_test(the_golden_index_is_read),
	    cmocka_unit_test(the_same_runs_give_the_same_index),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
