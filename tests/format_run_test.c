/*
 * Tests of format/run_writer and format/run_reader: what was written is read, and nothing else. The
 * oracle is the sorted array of records that was given to the writer.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/run_reader.h"
#include "format/run_writer.h"
#include "store/io_posix.h"

#define NUMBER UINT64_C(42)

static const struct cairn_identity identity = {
    .store_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
    .hash_seed = UINT64_C(0x0123456789abcdef),
};

static struct cairn_io *io;
static char *directory;
static char path[4200];

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(cairn_io_posix_open(&io), 0);
	directory = test_directory();
	snprintf(path, sizeof path, "%s/000042.kv", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cairn_io_posix_close(io);
	test_remove_directory(directory);
	return 0;
}

/* The model. */

struct records {
	struct cairn_record *record;
	size_t count;
	bool kinds;
};

static void *copy_of(const void *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	assert_non_null(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

static int compare_keys(cairn_slice a, cairn_slice b)
{
	const uint8_t *x = a.data, *y = b.data;
	for (size_t i = 0;; i++) {
		if (i == a.size || i == b.size)
			return (a.size > b.size) - (a.size < b.size);
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	}
}

static int compare_records(const void *a, const void *b)
{
	const struct cairn_record *x = a, *y = b;
	return compare_keys(x->key, y->key);
}

static void free_record(struct cairn_record *record)
{
	free((void *)(uintptr_t)record->key.data);
	free((void *)(uintptr_t)record->value.data);
}

static void free_records(struct records *records)
{
	for (size_t i = 0; i < records->count; i++)
		free_record(&records->record[i]);
	free(records->record);
}

static void seal(struct cairn_record *record)
{
	record->checksum = cairn_record_checksum(
	    cairn_key_hash(record->key, identity.hash_seed), record->kind, record->value);
}

/* A shape writes key and value number i and says their sizes. Any order; repeats are dropped. */
struct bytes {
	uint8_t key[70000];
	size_t key_size;
	uint8_t value[400000];
	size_t value_size;
	bool tombstone;
};

typedef void make_record(struct bytes *bytes, size_t i, uint64_t *random);

static void make_value(struct bytes *bytes, size_t size, uint64_t *random)
{
	bytes->value_size = size;
	for (size_t i = 0; i < size; i++)
		bytes->value[i] = (uint8_t)test_random(random);
}

static void make_counter(struct bytes *bytes, size_t i, uint64_t *random)
{
	bytes->key_size = (size_t)snprintf((char *)bytes->key, 64, "user%012zu", i * 3);
	make_value(bytes, 32, random);
}

static void make_random(struct bytes *bytes, size_t i, uint64_t *random)
{
	(void)i;
	bytes->key_size = test_random(random) % 20;
	for (size_t j = 0; j < bytes->key_size; j++)
		bytes->key[j] = (uint8_t)test_random(random);
	make_value(bytes, test_random(random) % 100, random);
}

static void make_nested(struct bytes *bytes, size_t i, uint64_t *random)
{
	bytes->key_size = i % 700;
	memset(bytes->key, i < 700 ? 0 : 'n', bytes->key_size);
	make_value(bytes, i % 5, random);
}

/* Three groups of keys that agree in twenty bytes: heads tie on every level where groups meet. */
static void make_ties(struct bytes *bytes, size_t i, uint64_t *random)
{
	bytes->key_size =
	    (size_t)snprintf((char *)bytes->key, 64, "%zu....................%06zu", i % 3, i);
	make_value(bytes, 8, random);
}

static void make_tombstones(struct bytes *bytes, size_t i, uint64_t *random)
{
	make_counter(bytes, i, random);
	bytes->tombstone = test_random(random) % 3 == 0;
	if (bytes->tombstone)
		bytes->value_size = 0;
}

/* Few, but with every record that may be alone in a block. */
static void make_large(struct bytes *bytes, size_t i, uint64_t *random)
{
	static const size_t key_sizes[] = {3, 300, 65535, 40000, 20};
	static const size_t value_sizes[] = {0, 70000, 5, 300000, 262144, 262140, 100};
	bytes->key_size = key_sizes[i % 5];
	memset(bytes->key, 'k', bytes->key_size);
	bytes->key[1] = (uint8_t)(i >> 8);
	bytes->key[2] = (uint8_t)i;
	make_value(bytes, value_sizes[i % 7], random);
}

static struct records make_records(size_t count, make_record *make, uint64_t *random)
{
	struct bytes *bytes = calloc(1, sizeof *bytes);
	struct records records = {.record = calloc(count, sizeof *records.record)};
	assert_true(bytes && records.record);
	for (size_t i = 0; i < count; i++) {
		make(bytes, i, random);
		records.record[i].key =
		    cairn_slice_of(copy_of(bytes->key, bytes->key_size), bytes->key_size);
		records.record[i].value =
		    cairn_slice_of(copy_of(bytes->value, bytes->value_size), bytes->value_size);
		records.record[i].kind = bytes->tombstone ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
		records.kinds |= bytes->tombstone;
		seal(&records.record[i]);
	}
	free(bytes);
	qsort(records.record, count, sizeof *records.record, compare_records);
	for (size_t i = 0; i < count; i++) {
		if (i > 0 &&
		    compare_records(&records.record[records.count - 1], &records.record[i]) == 0)
			free_record(&records.record[i]);
		else
			records.record[records.count++] = records.record[i];
	}
	return records;
}

/* Index of the first record with a key >= `key`. */
static size_t model_seek(const struct records *records, cairn_slice key)
{
	size_t low = 0, high = records->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (compare_keys(records->record[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool model_holds(const struct records *records, cairn_slice key)
{
	size_t i = model_seek(records, key);
	return i < records->count && compare_keys(records->record[i].key, key) == 0;
}

/* Writing and reading. */

static bool point_index; /* of the runs that are written */

static struct cairn_run_spec spec_of(bool kinds)
{
	return (struct cairn_run_spec){.identity = identity,
	    .number = NUMBER,
	    .format = CAIRN_KV02,
	    .kinds = kinds,
	    .point_index = point_index};
}

static struct cairn_run_writer *open_writer(bool kinds, uint64_t size_hint)
{
	struct cairn_run_spec spec = spec_of(kinds);
	spec.size_hint = size_hint;
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), 0);
	return writer;
}

static struct cairn_run_expect write_records(const struct records *records, uint64_t size_hint)
{
	struct cairn_run_writer *writer = open_writer(records->kinds, size_hint);
	for (size_t i = 0; i < records->count; i++) {
		assert_int_equal(cairn_run_writer_add(writer, &records->record[i]), 0);
		assert_int_equal(cairn_run_writer_records(writer), i + 1);
	}
	struct cairn_run_footer footer;
	struct cairn_run_expect expect = {.identity = identity, .number = NUMBER};
	assert_int_equal(cairn_run_writer_finish(writer, 7, 9, &footer, &expect.size), 0);
	expect.footer_checksum = footer.checksum;
	return expect;
}

static struct cairn_run_reader *open_run(const struct cairn_run_expect *expect)
{
	struct cairn_run_reader *run;
	assert_int_equal(cairn_run_open(io, path, expect, &run), 0);
	return run;
}

static struct cairn_run_reader *write_and_open(const struct records *records)
{
	struct cairn_run_expect expect = write_records(records, 0);
	return open_run(&expect);
}

static int get(struct cairn_run_reader *run, cairn_slice key, struct cairn_record *record)
{
	return cairn_run_get(run, key, cairn_key_hash(key, identity.hash_seed), record);
}

static void assert_same_record(const struct cairn_record *a, const struct cairn_record *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->checksum, b->checksum);
	assert_int_equal(compare_keys(a->key, b->key), 0);
	assert_int_equal(compare_keys(a->value, b->value), 0);
}

static void check_miss(struct cairn_run_reader *run, const struct records *records, cairn_slice key)
{
	struct cairn_record record;
	if (!model_holds(records, key))
		assert_int_equal(get(run, key, &record), CAIRN_NOT_FOUND);
}

/* Keys just above and below a key. */
static void check_neighbours(
    struct cairn_run_reader *run, const struct records *records, cairn_slice key)
{
	uint8_t *bytes = malloc(key.size + 2);
	assert_non_null(bytes);
	memcpy(bytes, key.data, key.size);
	bytes[key.size] = 0;
	check_miss(run, records, cairn_slice_of(bytes, key.size + 1));
	bytes[key.size] = 0xff;
	check_miss(run, records, cairn_slice_of(bytes, key.size + 1));
	if (key.size > 0) {
		check_miss(run, records, cairn_slice_of(bytes, key.size - 1));
		bytes[key.size - 1]++;
		check_miss(run, records, cairn_slice_of(bytes, key.size));
		bytes[key.size - 1] -= 2;
		check_miss(run, records, cairn_slice_of(bytes, key.size));
	}
	free(bytes);
}

static void check_gets(struct cairn_run_reader *run, const struct records *records)
{
	for (size_t i = 0; i < records->count; i++) {
		struct cairn_record record;
		assert_int_equal(get(run, records->record[i].key, &record), 0);
		assert_same_record(&record, &records->record[i]);
		check_neighbours(run, records, records->record[i].key);
	}
}

static void assert_stands_on(struct cairn_cursor *cursor, const struct cairn_record *want)
{
	assert_true(cursor->valid);
	assert_int_equal(compare_keys(cursor->key, want->key), 0);
	assert_int_equal(cursor->head, cairn_key_head(want->key, 0));
	assert_int_equal(cursor->kind, want->kind);
	struct cairn_record record;
	assert_int_equal(cairn_cursor_record(cursor, &record), 0);
	assert_same_record(&record, want);
}

static struct cairn_cursor *open_cursor(struct cairn_run_reader *run, enum cairn_advice advice)
{
	struct cairn_cursor *cursor;
	assert_int_equal(cairn_run_cursor_open(run, advice, &cursor), 0);
	assert_false(cursor->valid);
	return cursor;
}

static void check_walks(struct cairn_run_reader *run, const struct records *records)
{
	struct cairn_cursor *cursor = open_cursor(run, CAIRN_ADVISE_SEQUENTIAL);
	int code = cairn_cursor_first(cursor);
	for (size_t i = 0; i < records->count; i++, code = cairn_cursor_next(cursor)) {
		assert_int_equal(code, 0);
		assert_stands_on(cursor, &records->record[i]);
	}
	assert_int_equal(code, CAIRN_END);
	assert_false(cursor->valid);

	code = cairn_cursor_last(cursor);
	for (size_t i = records->count; i > 0; i--, code = cairn_cursor_prev(cursor)) {
		assert_int_equal(code, 0);
		assert_stands_on(cursor, &records->record[i - 1]);
	}
	assert_int_equal(code, CAIRN_END);
	assert_false(cursor->valid);
	cairn_cursor_close(cursor);
}

/* A key of the run, one like it, or any short one. */
static cairn_slice random_key(const struct records *records, uint8_t *bytes, uint64_t *random)
{
	cairn_slice key = records->record[test_random(random) % records->count].key;
	size_t size = key.size;
	memcpy(bytes, key.data, size);
	switch (test_random(random) % 4) {
	case 0:
		bytes[size++] = (uint8_t)test_random(random);
		break;
	case 1:
		size = size ? test_random(random) % size : 0;
		break;
	case 2:
		size = test_random(random) % 4;
		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)test_random(random);
		break;
	default:
		break;
	}
	return cairn_slice_of(bytes, size);
}

/* Random moves; `at` is where the model stands, records->count for nowhere. */
static void check_moves(
    struct cairn_run_reader *run, const struct records *records, size_t moves, uint64_t *random)
{
	uint8_t *bytes = malloc(70000);
	assert_non_null(bytes);
	struct cairn_cursor *cursor = open_cursor(run, CAIRN_ADVISE_RANDOM);
	size_t at = records->count;
	for (size_t i = 0; i < moves; i++) {
		unsigned move = test_random(random) % 8;
		int code;
		if (move < 3 && at < records->count) {
			code = cairn_cursor_next(cursor);
			at++;
		} else if (move < 6 && at < records->count) {
			code = cairn_cursor_prev(cursor);
			at = at > 0 ? at - 1 : records->count;
		} else {
			cairn_slice key = random_key(records, bytes, random);
			code = cairn_cursor_seek(cursor, key);
			at = model_seek(records, key);
		}
		assert_int_equal(code, at < records->count ? 0 : CAIRN_END);
		if (at < records->count)
			assert_stands_on(cursor, &records->record[at]);
		else
			assert_false(cursor->valid);
	}
	cairn_cursor_close(cursor);
	free(bytes);
}

static void print_finding(void *context, uint64_t offset, const char *text)
{
	(void)context;
	printf("finding at %llu: %s\n", (unsigned long long)offset, text);
}

static void check_footer(struct cairn_run_reader *run, const struct records *records)
{
	const struct cairn_run_footer *footer = cairn_run_footer(run);
	uint64_t tombstones = 0, key_bytes = 0, value_bytes = 0;
	for (size_t i = 0; i < records->count; i++) {
		tombstones += records->record[i].kind == CAIRN_KIND_DELETE;
		key_bytes += records->record[i].key.size;
		value_bytes += records->record[i].value.size;
	}
	assert_int_equal(footer->number, NUMBER);
	assert_int_equal(footer->records, records->count);
	assert_int_equal(footer->tombstones, tombstones);
	assert_int_equal(footer->key_bytes, key_bytes);
	assert_int_equal(footer->value_bytes, value_bytes);
	assert_int_equal(footer->sequence_low, 7);
	assert_int_equal(footer->sequence_high, 9);
	const struct cairn_record *first = &records->record[0];
	const struct cairn_record *last = &records->record[records->count - 1];
	assert_int_equal(compare_keys(cairn_run_first_key(run), first->key), 0);
	assert_int_equal(compare_keys(cairn_run_last_key(run), last->key), 0);
	for (size_t i = 0; i < records->count; i++)
		assert_memory_equal(
		    records->record[i].key.data, first->key.data, footer->prefix_size);
}

static void check_shape(size_t count, make_record *make, uint64_t *random)
{
	struct records records = make_records(count, make, random);
	struct cairn_run_reader *run = write_and_open(&records);
	check_footer(run, &records);
	check_gets(run, &records);
	check_walks(run, &records);
	check_moves(run, &records, 1000, random);
	assert_int_equal(cairn_run_verify(run, print_finding, NULL), 0);
	cairn_run_close(run);
	assert_int_equal(unlink(path), 0);
	free_records(&records);
}

static void check_sizes(make_record *make)
{
	static const size_t sizes[] = {1, 2, 14, 15, 16, 100, 5000};
	uint64_t random = test_seed(1);
	for (size_t i = 0; i < 2 * (sizeof sizes / sizeof sizes[0]); i++) {
		point_index = i % 2;
		check_shape(sizes[i / 2], make, &random);
	}
}

static void counters_are_read_as_written(void **state)
{
	(void)state;
	check_sizes(make_counter);
}

static void random_keys_are_read_as_written(void **state)
{
	(void)state;
	check_sizes(make_random);
}

static void nested_keys_are_read_as_written(void **state)
{
	(void)state;
	check_sizes(make_nested);
}

static void keys_with_tied_heads_are_read_as_written(void **state)
{
	(void)state;
	check_sizes(make_ties);
}

static void tombstones_are_read_as_written(void **state)
{
	(void)state;
	check_sizes(make_tombstones);
}

static void large_records_are_read_as_written(void **state)
{
	(void)state;
	uint64_t random = test_seed(2);
	check_shape(40, make_large, &random);
}

static void value_larger_than_every_buffer_is_read_as_written(void **state)
{
	(void)state;
	uint64_t random = test_seed(3);
	struct records records = make_records(20, make_counter, &random);
	struct cairn_record *large = &records.record[7];
	free((void *)(uintptr_t)large->value.data);
	size_t size = 9 * 1024 * 1024 + 13;
	uint64_t *value = malloc(size + 8);
	assert_non_null(value);
	for (size_t i = 0; i < size / 8 + 1; i++)
		value[i] = test_random(&random);
	large->value = cairn_slice_of(value, size);
	seal(large);

	struct cairn_run_reader *run = write_and_open(&records);
	check_gets(run, &records);
	check_walks(run, &records);
	assert_int_equal(cairn_run_verify(run, print_finding, NULL), 0);
	cairn_run_close(run);
	free_records(&records);
}

static uint64_t size_on_disk(void)
{
	struct stat status;
	return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static void hint_of_any_size_leaves_the_same_file(void **state)
{
	(void)state;
	uint64_t random = test_seed(4);
	struct records records = make_records(3000, make_counter, &random);
	struct cairn_run_expect plain = write_records(&records, 0);
	assert_int_equal(size_on_disk(), plain.size);
	const uint64_t hints[] = {1, plain.size - 1, plain.size, 3000000};
	for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
		assert_int_equal(unlink(path), 0);
		struct cairn_run_expect hinted = write_records(&records, hints[i]);
		assert_int_equal(size_on_disk(), plain.size);
		assert_int_equal(hinted.size, plain.size);
		assert_int_equal(hinted.footer_checksum, plain.footer_checksum);
		struct cairn_run_reader *run = open_run(&hinted);
		assert_int_equal(cairn_run_verify(run, print_finding, NULL), 0);
		cairn_run_close(run);
	}
	free_records(&records);
}

static void file_that_the_manifest_does_not_mean_is_refused(void **state)
{
	(void)state;
	uint64_t random = test_seed(5);
	struct records records = make_records(50, make_counter, &random);
	struct cairn_run_expect good = write_records(&records, 0);
	for (unsigned i = 0; i < 5; i++) {
		struct cairn_run_expect expect = good;
		expect.identity.store_id[15] ^= i == 0;
		expect.identity.hash_seed ^= i == 1;
		expect.number ^= i == 2;
		expect.size ^= i == 3;
		expect.footer_checksum ^= i == 4;
		struct cairn_run_reader *run;
		assert_int_equal(cairn_run_open(io, path, &expect, &run), CAIRN_CORRUPT);
		assert_null(run);
		assert_non_null(strstr(cairn_error_text(), path));
	}
	struct cairn_run_reader *run = open_run(&good);
	assert_int_equal(cairn_run_header(run)->number, NUMBER);
	assert_int_equal(cairn_run_size(run), good.size);
	assert_string_equal(cairn_run_path(run), path);
	cairn_run_close(run);
	free_records(&records);
}

static void missing_file_is_not_found(void **state)
{
	(void)state;
	struct cairn_run_reader *run;
	assert_int_equal(cairn_run_open(io, path, NULL, &run), -ENOENT);
	assert_null(run);
}

static void block_offsets_lead_from_block_to_block(void **state)
{
	(void)state;
	uint64_t random = test_seed(6);
	struct records records = make_records(1000, make_random, &random);
	struct cairn_run_reader *run = write_and_open(&records);
	uint64_t blocks = cairn_run_footer(run)->blocks, before = 0, offset;
	for (uint64_t i = 0; i < blocks; i++) {
		assert_int_equal(cairn_run_block_offset(run, i, &offset), 0);
		assert_true(i == 0 ? offset == 128 : offset > before);
		assert_true((cairn_run_bytes(run)[offset] & 15) > 0);
		before = offset;
	}
	assert_int_equal(cairn_run_block_offset(run, blocks, &offset), CAIRN_INVALID);
	cairn_run_close(run);
	free_records(&records);
}

/* What the writer refuses. */

static struct cairn_record record_of(const char *key, const char *value, enum cairn_kind kind)
{
	struct cairn_record record = {.key = cairn_slice_of(key, strlen(key)),
	    .value = cairn_slice_of(value, strlen(value)),
	    .kind = kind};
	seal(&record);
	return record;
}

/* `bad` behind "m" is refused, so is everything after it, and no file is left. */
static void check_refused(const struct cairn_record *bad, bool kinds, int want)
{
	for (unsigned finish = 0; finish < 2; finish++) {
		struct cairn_run_writer *writer = open_writer(kinds, 0);
		struct cairn_record good = record_of("m", "value", CAIRN_KIND_PUT);
		struct cairn_record later = record_of("z", "value", CAIRN_KIND_PUT);
		assert_int_equal(cairn_run_writer_add(writer, &good), 0);
		assert_int_equal(cairn_run_writer_add(writer, bad), want);
		assert_non_null(strstr(cairn_error_text(), path));
		assert_int_equal(cairn_run_writer_add(writer, &later), want);
		if (finish) {
			struct cairn_run_footer footer;
			uint64_t size = 1;
			assert_int_equal(
			    cairn_run_writer_finish(writer, 0, 0, &footer, &size), want);
			assert_int_equal(size, 0);
		} else {
			cairn_run_writer_abort(writer);
		}
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void keys_out_of_order_are_refused(void **state)
{
	(void)state;
	struct cairn_record below = record_of("l", "value", CAIRN_KIND_PUT);
	struct cairn_record equal = record_of("m", "other", CAIRN_KIND_PUT);
	struct cairn_record prefix = record_of("", "value", CAIRN_KIND_PUT);
	check_refused(&below, true, CAIRN_INVALID);
	check_refused(&equal, true, CAIRN_INVALID);
	check_refused(&prefix, true, CAIRN_INVALID);
}

static void tombstones_without_kinds_are_refused(void **state)
{
	(void)state;
	struct cairn_record tombstone = record_of("n", "", CAIRN_KIND_DELETE);
	struct cairn_record with_value = record_of("n", "value", CAIRN_KIND_DELETE);
	struct cairn_record neither = record_of("n", "value", (enum cairn_kind)3);
	check_refused(&tombstone, false, CAIRN_INVALID);
	check_refused(&with_value, true, CAIRN_INVALID);
	check_refused(&neither, true, CAIRN_INVALID);
}

static void records_beyond_the_limits_are_refused(void **state)
{
	(void)state;
	struct cairn_record long_key = record_of("n", "", CAIRN_KIND_PUT);
	struct cairn_record long_value = record_of("n", "", CAIRN_KIND_PUT);
	long_key.key.size = CAIRN_KEY_MAX + 1;
	long_value.value.size = (size_t)CAIRN_VALUE_MAX + 1;
	check_refused(&long_key, true, CAIRN_TOO_LARGE);
	check_refused(&long_value, true, CAIRN_TOO_LARGE);
}

static void empty_run_is_refused(void **state)
{
	(void)state;
	struct cairn_run_footer footer;
	uint64_t size;
	assert_int_equal(
	    cairn_run_writer_finish(open_writer(false, 1000), 0, 0, &footer, &size), CAIRN_INVALID);
	assert_int_equal(access(path, F_OK), -1);
	cairn_run_writer_abort(NULL);
}

static void file_that_is_there_is_left_alone(void **state)
{
	(void)state;
	uint64_t random = test_seed(7);
	struct records records = make_records(10, make_counter, &random);
	struct cairn_run_expect expect = write_records(&records, 0);
	struct cairn_run_spec spec = spec_of(false);
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), -EEXIST);
	assert_null(writer);
	struct cairn_run_reader *run = open_run(&expect);
	check_gets(run, &records);
	cairn_run_close(run);
	free_records(&records);
}

static void unknown_format_is_refused(void **state)
{
	(void)state;
	struct cairn_run_spec spec = spec_of(false);
	spec.format = CAIRN_KV03;
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), CAIRN_UNSUPPORTED);
	assert_null(writer);
	assert_int_equal(access(path, F_OK), -1);
}

/* Failures of the I/O layer. The back end's table of functions is exchanged under its feet. */

static int fuse; /* operations that still succeed */

static int burn(int code)
{
	return fuse-- > 0 ? 0 : cairn_error(code, "%s: injected", path);
}

static int failing_open(
    struct cairn_io *self, const char *name, enum cairn_open_mode mode, struct cairn_file **file)
{
	*file = NULL;
	int code = burn(-EMFILE);
	return code ? code : cairn_io_posix_ops.open(self, name, mode, file);
}

static int failing_allocate(struct cairn_file *file, uint64_t size)
{
	int code = burn(-ENOSPC);
	return code ? code : cairn_io_posix_ops.allocate(file, size);
}

static int failing_truncate(struct cairn_file *file, uint64_t size)
{
	int code = burn(-EIO);
	return code ? code : cairn_io_posix_ops.truncate(file, size);
}

static int failing_sync(struct cairn_file *file)
{
	int code = burn(-EIO);
	return code ? code : cairn_io_posix_ops.sync(file);
}

static int failing_queue_open(struct cairn_io *self, unsigned depth, struct cairn_queue **queue)
{
	*queue = NULL;
	int code = burn(-ENOMEM);
	return code ? code : cairn_io_posix_ops.queue_open(self, depth, queue);
}

static int failing_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	int code = burn(-EIO);
	return code ? code : cairn_io_posix_ops.queue_submit(queue, request);
}

/* The write is handed back, with a failure in it. */
static int failing_wait(struct cairn_queue *queue, struct cairn_write_request **request)
{
	int code = cairn_io_posix_ops.queue_wait(queue, request);
	if (code == 0 && *request && fuse-- <= 0)
		(*request)->result = -ENOSPC;
	return code;
}

/* Writes all of it; the first failure, from whichever call. */
static int try_to_write(const struct records *records)
{
	struct cairn_run_spec spec = spec_of(records->kinds);
	spec.size_hint = 100000;
	struct cairn_run_writer *writer;
	int code = cairn_run_writer_open(io, path, &spec, &writer);
	if (code != 0)
		return code;
	for (size_t i = 0; i < records->count && code == 0; i++)
		code = cairn_run_writer_add(writer, &records->record[i]);
	struct cairn_run_footer footer;
	uint64_t size;
	int finished = cairn_run_writer_finish(writer, 0, 0, &footer, &size);
	assert_true(code == 0 || finished == code);
	return finished;
}

/* The call that the table breaks fails at its first, second, … time, until it has no such time. */
static void check_failures(
    const struct cairn_io_ops *ops, const struct records *records, unsigned calls)
{
	unsigned failures = 0;
	io->ops = ops;
	for (;; failures++) {
		fuse = (int)failures;
		int code = try_to_write(records);
		if (code == 0)
			break;
		assert_true(code < 0);
		assert_non_null(strstr(cairn_error_text(), path));
		assert_int_equal(access(path, F_OK), -1);
	}
	io->ops = &cairn_io_posix_ops;
	assert_int_equal(failures, calls);
	assert_int_equal(unlink(path), 0);
}

static void failed_write_leaves_no_file(void **state)
{
	(void)state;
	uint64_t random = test_seed(8);
	struct records records = make_records(60, make_large, &random);
	unsigned chunks = (unsigned)(write_records(&records, 0).size / 2097152 + 1);
	assert_true(chunks > 2);
	assert_int_equal(unlink(path), 0);
	struct cairn_io_ops ops = cairn_io_posix_ops;
	ops.open = failing_open;
	check_failures(&ops, &records, 1);
	ops = cairn_io_posix_ops;
	ops.allocate = failing_allocate;
	check_failures(&ops, &records, 1);
	ops = cairn_io_posix_ops;
	ops.truncate = failing_truncate;
	check_failures(&ops, &records, 1);
	ops = cairn_io_posix_ops;
	ops.sync = failing_sync;
	check_failures(&ops, &records, 1);
	ops = cairn_io_posix_ops;
	ops.queue_open = failing_queue_open;
	check_failures(&ops, &records, 1);
	ops = cairn_io_posix_ops;
	ops.queue_submit = failing_submit;
	check_failures(&ops, &records, chunks);
	ops = cairn_io_posix_ops;
	ops.queue_wait = failing_wait;
	check_failures(&ops, &records, chunks);
	free_records(&records);
}

/* A queue that writes as late as it may, the newest first: nothing is written before it must be. */

static struct {
	struct cairn_write_request *waiting[2];
	unsigned waiting_count;
	struct cairn_write_request *done[64];
	unsigned done_count;
} late;

static void late_write(struct cairn_write_request *request)
{
	request->result =
	    cairn_io_posix_ops.write(request->file, request->data, request->size, request->offset);
}

static int late_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	(void)queue;
	if (late.waiting_count == 2) {
		struct cairn_write_request *newest = late.waiting[--late.waiting_count];
		assert_true(late.done_count < 64);
		late_write(newest);
		late.done[late.done_count++] = newest;
	}
	late.waiting[late.waiting_count++] = request;
	return 0;
}

static int late_wait(struct cairn_queue *queue, struct cairn_write_request **request)
{
	(void)queue;
	*request = NULL;
	if (late.done_count > 0) {
		*request = late.done[--late.done_count];
	} else if (late.waiting_count > 0) {
		*request = late.waiting[--late.waiting_count];
		late_write(*request);
	}
	return 0;
}

static void late_close(struct cairn_queue *queue)
{
	while (late.waiting_count > 0)
		late_write(late.waiting[--late.waiting_count]);
	late.done_count = 0;
	cairn_io_posix_ops.queue_close(queue);
}

static void writes_may_finish_late_and_in_any_order(void **state)
{
	(void)state;
	uint64_t random = test_seed(10);
	struct records records = make_records(30, make_large, &random);
	struct cairn_io_ops ops = cairn_io_posix_ops;
	ops.queue_submit = late_submit;
	ops.queue_wait = late_wait;
	ops.queue_close = late_close;
	io->ops = &ops;
	struct cairn_run_reader *run = write_and_open(&records);
	check_walks(run, &records);
	assert_int_equal(cairn_run_verify(run, print_finding, NULL), 0);
	cairn_run_close(run);
	assert_int_equal(unlink(path), 0);

	for (size_t count = 0; count < records.count; count++) {
		struct cairn_run_writer *writer = open_writer(false, 0);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(cairn_run_writer_add(writer, &records.record[i]), 0);
		cairn_run_writer_abort(writer);
		assert_int_equal(access(path, F_OK), -1);
	}
	io->ops = &cairn_io_posix_ops;
	free_records(&records);
}

/* Threads. */

struct share {
	struct cairn_run_reader *run;
	const struct records *records;
	size_t wrong;
};

static void *read_all(void *context)
{
	struct share *share = context;
	for (size_t i = 0; i < share->records->count; i++) {
		struct cairn_record record;
		const struct cairn_record *want = &share->records->record[i];
		if (get(share->run, want->key, &record) != 0 ||
		    compare_keys(record.value, want->value) != 0)
			share->wrong++;
	}
	return NULL;
}

static void threads_may_touch_a_run_first_at_once(void **state)
{
	(void)state;
	uint64_t random = test_seed(9);
	struct records records = make_records(2000, make_counter, &random);
	struct cairn_run_reader *run = write_and_open(&records);
	pthread_t threads[4];
	struct share shares[4];
	for (unsigned i = 0; i < 4; i++) {
		shares[i] = (struct share){run, &records, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, read_all, &shares[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(shares[i].wrong, 0);
	}
	cairn_run_close(run);
	free_records(&records);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(counters_are_read_as_written),
	    CASE(random_keys_are_read_as_written),
	    CASE(nested_keys_are_read_as_written),
	    CASE(keys_with_tied_heads_are_read_as_written),
	    CASE(tombstones_are_read_as_written),
	    CASE(large_records_are_read_as_written),
	    CASE(value_larger_than_every_buffer_is_read_as_written),
	    CASE(hint_of_any_size_leaves_the_same_file),
	    CASE(file_that_the_manifest_does_not_mean_is_refused),
	    CASE(missing_file_is_not_found),
	    CASE(block_offsets_lead_from_block_to_block),
	    CASE(keys_out_of_order_are_refused),
	    CASE(tombstones_without_kinds_are_refused),
	    CASE(records_beyond_the_limits_are_refused),
	    CASE(empty_run_is_refused),
	    CASE(file_that_is_there_is_left_alone),
	    CASE(unknown_format_is_refused),
	    CASE(failed_write_leaves_no_file),
	    CASE(writes_may_finish_late_and_in_any_order),
	    CASE(threads_may_touch_a_run_first_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
