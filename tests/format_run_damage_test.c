/*
 * Damage to a `.kv` file: whatever is flipped or cut, a read gives the right answer or says that
 * the file is damaged, and verify always says so.
 *
 * The damaged bytes are opened through an I/O layer that "maps" a copy of exactly their size, so
 * that the address sanitizer sees the first byte read outside of the file.
 */
#include "tests/test.h"

#include <errno.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/run_reader.h"
#include "format/run_writer.h"
#include "store/io_posix.h"
#include "tests/forge.h"

#define NUMBER  UINT64_C(3)
#define RECORDS 32u /* three blocks */

static const struct cairn_identity identity = {
    .store_id = "sixteen bytes id", .hash_seed = UINT64_C(0xfeedfacecafebeef)};

/* The undamaged file and what it says. */

struct text_record {
	char key[40];
	char value[40];
};

static struct text_record text[RECORDS];
static struct cairn_record model[RECORDS];
static uint8_t *file_bytes;
static size_t file_size;
static bool point_index; /* whether it has one */

/*
 * Keys of uneven length with a common start, values too; every seventh is a tombstone. Tied: all
 * keys but the first agree in the 8 bytes that the seek section compares, so that searches must
 * look left.
 */
static void make_model(bool tied)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		const char *start = !tied ? "key/" : i == 0 ? "a" : "bbbbbbbbbbbb";
		snprintf(text[i].key, sizeof text[i].key, "%s%02u%.*s", start, i * 2, (int)(i % 9),
		    "suffixes");
		snprintf(text[i].value, sizeof text[i].value, "value %.*s of %u", (int)(i % 12),
		    "............", i);
		bool tombstone = i % 7 == 3;
		model[i].key = cairn_slice_of(text[i].key, strlen(text[i].key));
		model[i].value =
		    cairn_slice_of(text[i].value, tombstone ? 0 : strlen(text[i].value));
		model[i].kind = tombstone ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
		model[i].checksum =
		    cairn_record_checksum(cairn_key_hash(model[i].key, identity.hash_seed),
			model[i].kind, model[i].value);
	}
}

static void write_model(struct cairn_io *io, const char *path)
{
	struct cairn_run_spec spec = {.identity = identity,
	    .number = NUMBER,
	    .format = CAIRN_KV02,
	    .kinds = true,
	    .point_index = point_index};
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), 0);
	for (unsigned i = 0; i < RECORDS; i++)
		assert_int_equal(cairn_run_writer_add(writer, &model[i]), 0);
	struct cairn_run_footer footer;
	uint64_t size;
	assert_int_equal(cairn_run_writer_finish(writer, 1, 2, &footer, &size), 0);
	file_size = (size_t)size;
}

static void make_file(bool tied)
{
	make_model(tied);
	char *directory = test_directory();
	char path[4200];
	snprintf(path, sizeof path, "%s/000003.kv", directory);
	struct cairn_io *io;
	assert_int_equal(cairn_io_posix_open(&io), 0);
	write_model(io, path);
	file_bytes = malloc(file_size);
	assert_non_null(file_bytes);
	struct cairn_file *file;
	assert_int_equal(io->ops->open(io, path, CAIRN_OPEN_READ, &file), 0);
	assert_int_equal(cairn_io_read_exactly(file, file_bytes, file_size, 0), 0);
	io->ops->close(file);
	cairn_io_posix_close(io);
	test_remove_directory(directory);
}

static int make_plain_file(void **state)
{
	(void)state;
	make_file(false);
	return 0;
}

static int make_tied_file(void **state)
{
	(void)state;
	make_file(true);
	return 0;
}

static int make_indexed_file(void **state)
{
	(void)state;
	point_index = true;
	make_file(false);
	return 0;
}

static int free_file(void **state)
{
	(void)state;
	free(file_bytes);
	return 0;
}

/* The I/O layer whose only file is `image`. */

static struct {
	const uint8_t *data;
	size_t size;
} image;

static int image_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	(void)path;
	(void)mode;
	*file = calloc(1, sizeof **file);
	assert_non_null(*file);
	(*file)->io = io;
	return 0;
}

static void image_close(struct cairn_file *file)
{
	free(file);
}

static int image_status(struct cairn_file *file, struct cairn_file_status *status)
{
	(void)file;
	*status = (struct cairn_file_status){.size = image.size, .links = 1};
	return 0;
}

static int image_map(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	(void)file;
	uint8_t *copy = malloc(size);
	assert_non_null(copy);
	memcpy(copy, image.data, size);
	*map = (struct cairn_map){copy, size};
	return 0;
}

static void image_unmap(struct cairn_io *io, struct cairn_map *map)
{
	(void)io;
	free((void *)(uintptr_t)map->data);
	*map = (struct cairn_map){0};
}

static void image_advise(struct cairn_io *io, const struct cairn_map *map, uint64_t offset,
    uint64_t size, enum cairn_advice advice)
{
	(void)io;
	(void)advice;
	assert_true(offset <= map->size && size <= map->size - offset);
}

static const struct cairn_io_ops image_ops = {
    .name = "image",
    .open = image_open,
    .close = image_close,
    .status = image_status,
    .map = image_map,
    .unmap = image_unmap,
    .advise = image_advise,
};

static struct cairn_io image_io = {&image_ops};

static int open_image(const uint8_t *data, size_t size, struct cairn_run_reader **run)
{
	image.data = data;
	image.size = size;
	return cairn_run_open(&image_io, "dir/000003.kv", NULL, run);
}

/* Reading with damage. `damaged` counts the answers that said so; a wrong answer fails the test. */

static bool same(cairn_slice a, cairn_slice b)
{
	return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static void expect_corrupt(int code, size_t *damaged)
{
	assert_int_equal(code, CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), "dir/000003.kv: at offset "));
	++*damaged;
}

static int get(struct cairn_run_reader *run, cairn_slice key, struct cairn_record *record)
{
	return cairn_run_get(run, key, cairn_key_hash(key, identity.hash_seed), record);
}

static void check_gets(struct cairn_run_reader *run, size_t *damaged)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		struct cairn_record record;
		int code = get(run, model[i].key, &record);
		if (code != 0) {
			expect_corrupt(code, damaged);
			continue;
		}
		assert_true(same(record.key, model[i].key));
		assert_true(same(record.value, model[i].value));
		assert_int_equal(record.kind, model[i].kind);
	}
}

/* Keys that differ from those of the file by their last byte, or by one bit of any. */
static void check_misses(struct cairn_run_reader *run, size_t *damaged)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		char key[42];
		size_t size = model[i].key.size;
		memcpy(key, model[i].key.data, size);
		key[i % size] ^= (char)(1 << i % 7);
		key[size] = '!';
		struct cairn_record record;
		int code = get(run, cairn_slice_of(key, size + 1), &record);
		if (code != CAIRN_NOT_FOUND)
			expect_corrupt(code, damaged);
	}
}

/* One step of a walk that must show model[i]. False when it cannot go on. */
static bool check_step(struct cairn_cursor *cursor, int code, unsigned i, size_t *damaged)
{
	if (code != 0) {
		expect_corrupt(code, damaged);
		assert_false(cursor->valid);
		return false;
	}
	assert_true(same(cursor->key, model[i].key));
	struct cairn_record record;
	code = cairn_cursor_record(cursor, &record);
	if (code != 0) {
		expect_corrupt(code, damaged);
		return true;
	}
	assert_true(same(record.value, model[i].value));
	assert_int_equal(record.kind, model[i].kind);
	return true;
}

static void check_scans(struct cairn_run_reader *run, size_t *damaged)
{
	struct cairn_cursor *cursor;
	assert_int_equal(cairn_run_cursor_open(run, CAIRN_ADVISE_SEQUENTIAL, &cursor), 0);
	int code = cairn_cursor_first(cursor);
	unsigned i = 0;
	while (i < RECORDS && check_step(cursor, code, i, damaged)) {
		code = cairn_cursor_next(cursor);
		i++;
	}
	if (i == RECORDS)
		assert_int_equal(code, CAIRN_END);

	code = cairn_cursor_last(cursor);
	i = RECORDS;
	while (i > 0 && check_step(cursor, code, i - 1, damaged)) {
		code = cairn_cursor_prev(cursor);
		i--;
	}
	if (i == 0)
		assert_int_equal(code, CAIRN_END);

	for (i = 0; i < RECORDS; i++)
		check_step(cursor, cairn_cursor_seek(cursor, model[i].key), i, damaged);
	cairn_cursor_close(cursor);
}

struct findings {
	size_t count;
	uint64_t last;
};

static void count_finding(void *context, uint64_t offset, const char *finding)
{
	struct findings *findings = context;
	assert_true(offset < file_size && *finding);
	findings->count++;
	findings->last = offset;
}

/* Everything that can be asked of a damaged file. Returns how often reads said that it is. */
static size_t read_damaged(const uint8_t *data, size_t size)
{
	struct cairn_run_reader *run;
	size_t damaged = 0;
	int code = open_image(data, size, &run);
	if (code != 0) {
		assert_true(code == CAIRN_CORRUPT || code == CAIRN_UNSUPPORTED);
		assert_null(run);
		return 1;
	}
	check_gets(run, &damaged);
	check_misses(run, &damaged);
	check_scans(run, &damaged);

	struct findings findings = {0};
	assert_int_equal(cairn_run_verify(run, count_finding, &findings),
	    data == file_bytes ? 0 : CAIRN_CORRUPT);
	assert_int_equal(findings.count > 0, data != file_bytes);
	cairn_run_close(run);
	return damaged;
}

static void undamaged_file_reads_without_a_word(void **state)
{
	(void)state;
	assert_int_equal(read_damaged(file_bytes, file_size), 0);
}

/* Where the point index is, if there is one. */
static bool in_point_index(size_t at)
{
	for (const uint8_t *extent = file_bytes + file_size - 512 + 96;
	     extent < file_bytes + file_size - 128; extent += 24)
		if (cairn_get32(extent) == CAIRN_SECTION_POINT)
			return at - cairn_get64(extent + 8) < cairn_get64(extent + 16);
	return false;
}

/* A flip in padding changes no answer, so reads may pass it over, and where the point index is
 * damaged they go by the seek section; but nothing else. */
static void every_flipped_bit_is_found_by_verify_and_never_read(void **state)
{
	(void)state;
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	memcpy(copy, file_bytes, file_size);
	size_t unnoticed = 0;
	for (size_t i = 0; i < file_size; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			copy[i] ^= (uint8_t)(1u << bit);
			if (read_damaged(copy, file_size) == 0) {
				assert_true(file_bytes[i] == 0 || in_point_index(i));
				unnoticed += !in_point_index(i);
			}
			copy[i] = file_bytes[i];
		}
	}
	assert_true(unnoticed < 3 * 128 * 8);
	free(copy);
}

static void every_inverted_and_cleared_byte_is_found(void **state)
{
	(void)state;
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	memcpy(copy, file_bytes, file_size);
	for (size_t i = 0; i < file_size; i++) {
		copy[i] = (uint8_t)~file_bytes[i];
		read_damaged(copy, file_size);
		if (file_bytes[i] != 0) {
			copy[i] = 0;
			read_damaged(copy, file_size);
		}
		copy[i] = file_bytes[i];
	}
	free(copy);
}

static void file_cut_at_any_length_is_refused(void **state)
{
	(void)state;
	struct cairn_run_reader *run;
	for (size_t size = 0; size < file_size; size++) {
		assert_int_equal(open_image(file_bytes, size, &run), CAIRN_CORRUPT);
		assert_null(run);
	}
}

static void file_that_goes_on_behind_its_footer_is_refused(void **state)
{
	(void)state;
	uint8_t *copy = calloc(1, file_size + 1024);
	assert_non_null(copy);
	memcpy(copy, file_bytes, file_size);
	struct cairn_run_reader *run;
	for (size_t more = 1; more < 1024; more++)
		assert_int_equal(open_image(copy, file_size + more, &run), CAIRN_CORRUPT);
	/* A second footer, where the length wants one. */
	memcpy(copy + file_size, file_bytes + file_size - 512, 512);
	assert_int_equal(open_image(copy, file_size + 512, &run), CAIRN_CORRUPT);
	free(copy);
}

/* Forgery: damage under checksums that were made right again. */

/* Only that it comes to an end, inside of the file; its answers are those of the forger. */
static void read_forged(const uint8_t *data)
{
	struct cairn_run_reader *run;
	if (open_image(data, file_size, &run) != 0)
		return;
	for (unsigned i = 0; i < RECORDS; i++) {
		struct cairn_record record;
		int code = get(run, model[i].key, &record);
		assert_true(code == 0 || code == CAIRN_NOT_FOUND || code == CAIRN_CORRUPT);
	}
	struct cairn_cursor *cursor;
	assert_int_equal(cairn_run_cursor_open(run, CAIRN_ADVISE_RANDOM, &cursor), 0);
	for (unsigned i = 0; i < RECORDS; i++)
		cairn_cursor_seek(cursor, model[i].key);
	size_t steps = 0;
	for (int code = cairn_cursor_first(cursor); code == 0; code = cairn_cursor_next(cursor))
		assert_true(steps++ < file_size);
	for (int code = cairn_cursor_last(cursor); code == 0; code = cairn_cursor_prev(cursor))
		assert_true(steps++ < 2 * file_size);
	cairn_cursor_close(cursor);
	cairn_run_verify(run, NULL, NULL);
	cairn_run_close(run);
}

static void forged_frames_and_sections_do_no_harm(void **state)
{
	(void)state;
	uint64_t random = test_seed(1);
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	uint64_t sections = cairn_get64(file_bytes + file_size - 512 + 96 + 24 + 8);
	for (size_t i = 0; i < 6000; i++) {
		memcpy(copy, file_bytes, file_size);
		for (uint64_t n = 1 + test_random(&random) % 3; n > 0; n--) {
			size_t at =
			    (size_t)(sections + test_random(&random) % (file_size - sections));
			if (test_random(&random) % 8 == 0)
				at = test_random(&random) % 128;
			copy[at] = test_random(&random) & 1 ? (uint8_t)test_random(&random)
							    : copy[at] ^ 0x80u;
		}
		forge_run(copy, file_size);
		read_forged(copy);
	}
	free(copy);
}

static void every_forged_byte_of_the_footer_does_no_harm(void **state)
{
	(void)state;
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	for (size_t at = file_size - 512; at < file_size - 4; at++) {
		for (size_t i = 0; i < sizeof values; i++) {
			memcpy(copy, file_bytes, file_size);
			copy[at] = values[i];
			forge_run(copy, file_size);
			read_forged(copy);
		}
	}
	free(copy);
}

/* A sound seek section of other blocks: only verify compares it with the blocks. */
static void seek_section_of_other_keys_is_found_by_verify(void **state)
{
	(void)state;
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	memcpy(copy, file_bytes, file_size);
	uint64_t seek = cairn_get64(copy + file_size - 512 + 96 + 24 + 8);
	copy[seek + 128 + 15] ^= 1; /* the head of block 1 */
	forge_run(copy, file_size);
	struct cairn_run_reader *run;
	struct findings findings = {0};
	assert_int_equal(open_image(copy, file_size, &run), 0);
	assert_int_equal(cairn_run_verify(run, count_finding, &findings), CAIRN_CORRUPT);
	assert_int_equal(findings.count, 1);
	assert_int_equal(findings.last, seek);
	cairn_run_close(run);
	free(copy);
}

static void newer_version_is_named_not_called_damaged(void **state)
{
	(void)state;
	uint8_t *copy = malloc(file_size);
	assert_non_null(copy);
	struct cairn_run_reader *run;
	const size_t places[] = {8, file_size - 512 + 8};
	for (size_t i = 0; i < 2; i++) {
		memcpy(copy, file_bytes, file_size);
		cairn_put32(copy + places[i], 77);
		forge_run(copy, file_size);
		assert_int_equal(open_image(copy, file_size, &run), CAIRN_UNSUPPORTED);
		assert_non_null(strstr(cairn_error_text(), "version 77"));
		assert_non_null(strstr(cairn_error_text(), "version 1"));
	}
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(undamaged_file_reads_without_a_word),
	    cmocka_unit_test(every_flipped_bit_is_found_by_verify_and_never_read),
	    cmocka_unit_test(every_inverted_and_cleared_byte_is_found),
	    cmocka_unit_test(file_cut_at_any_length_is_refused),
	    cmocka_unit_test(file_that_goes_on_behind_its_footer_is_refused),
	    cmocka_unit_test(forged_frames_and_sections_do_no_harm),
	    cmocka_unit_test(every_forged_byte_of_the_footer_does_no_harm),
	    cmocka_unit_test(seek_section_of_other_keys_is_found_by_verify),
	    cmocka_unit_test(newer_version_is_named_not_called_damaged),
	};
	const struct CMUnitTest tied_tests[] = {
	    cmocka_unit_test(undamaged_file_reads_without_a_word),
	    cmocka_unit_test(every_flipped_bit_is_found_by_verify_and_never_read),
	};
	return cmocka_run_group_tests(tests, make_plain_file, free_file) +
	       cmocka_run_group_tests(tied_tests, make_tied_file, free_file) +
	       cmocka_run_group_tests(tests, make_indexed_file, free_file);
}
