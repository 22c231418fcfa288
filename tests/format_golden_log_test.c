/*
 * The golden store: a MANIFEST and a log segment, written once by version 1 of their formats and
 * never again (the runs beside them are there to make it a store; format_golden_test.c is for
 * runs). Today's decoders must read them, today's encoders must give the same bytes. If they do
 * not, a format has changed: that needs a new version, and new files beside these.
 *
 * format/README.md explains these files byte by byte.
 */
#include "tests/test.h"

#include "format/checksum.h"
#include "format/log_record.h"
#include "format/manifest.h"

#define STORE        CAIRN_TEST_GOLDEN_DIR "/store/"
#define SALT         UINT64_C(0x0102030405060702)
#define SEGMENT_SIZE 4408u
#define POSITION(at) (UINT64_C(1) << 28 | (at) / 8)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct cairn_identity identity = {
    .store_id = "example store id", .hash_seed = UINT64_C(0x1122334455667788)};

struct text_operation {
	enum cairn_kind kind;
	const char *key;
	const char *value;
};

/* The records behind the LINK. */
static const struct text_record {
	enum cairn_log_type type;
	uint64_t offset;
	uint64_t durable; /* offset of D */
	uint32_t sequence_delta;
	size_t operations;
	struct text_operation operation[3];
} records[] = {
    {CAIRN_LOG_WRITE, 4136, 4136, 1, 3,
	{{CAIRN_KIND_PUT, "apple", "red"}, {CAIRN_KIND_PUT, "banana", "yellow"},
	    {CAIRN_KIND_PUT, "cherry", "red"}}},
    {CAIRN_LOG_WRITE, 4208, 4136, 4, 3,
	{{CAIRN_KIND_DELETE, "banana", ""}, {CAIRN_KIND_PUT, "blackberry", "black"},
	    {CAIRN_KIND_PUT, "blueberry", "blue"}}},
    {CAIRN_LOG_WRITE, 4288, 4136, 7, 1, {{CAIRN_KIND_PUT, "cherry", "dark red"}}},
    {CAIRN_LOG_WRITE, 4336, 4336, 8, 2,
	{{CAIRN_KIND_DELETE, "apple", ""}, {CAIRN_KIND_PUT, "date", ""}}},
    {CAIRN_LOG_MARK, 4384, 4384, 0, 0, {{0}}},
};

struct file {
	uint8_t *data;
	size_t size;
};

static struct file read_file(const char *path)
{
	FILE *stream = fopen(path, "rb");
	if (!stream)
		fail_msg("cannot open %s", path);
	struct file file = {.data = malloc(1 << 16)};
	assert_non_null(file.data);
	file.size = fread(file.data, 1, 1 << 16, stream);
	fclose(stream);
	return file;
}

static struct cairn_record record_of(const struct text_operation *operation)
{
	struct cairn_record record = {
	    .key = cairn_slice_of(operation->key, strlen(operation->key)),
	    .value = cairn_slice_of(operation->value, strlen(operation->value)),
	    .kind = operation->kind,
	};
	record.checksum = cairn_record_checksum(
	    cairn_key_hash(record.key, identity.hash_seed), record.kind, record.value);
	return record;
}

/* ---------------------------------------------------------------- manifest */

static void golden_manifest_is_read(void **state)
{
	(void)state;
	struct file file = read_file(STORE "MANIFEST");
	struct cairn_manifest manifest;
	assert_int_equal(cairn_manifest_decode(&manifest, file.data, file.size, "MANIFEST"), 0);
	assert_memory_equal(&manifest.identity, &identity, sizeof identity);
	assert_int_equal(manifest.generation, 5);
	assert_int_equal(manifest.next_number, 4);
	assert_int_equal(manifest.run_format, CAIRN_KV02);
	assert_int_equal(manifest.compression, CAIRN_NO_COMPRESSION);
	assert_int_equal(manifest.point_index, CAIRN_NO_POINT_INDEX);
	assert_int_equal(manifest.flushed_sequence, 6);
	assert_int_equal(manifest.log_number, 1);
	assert_int_equal(manifest.log_salt, SALT);
	assert_int_equal(manifest.log_ordinal, 1);
	assert_int_equal(manifest.log_position, POSITION(4288));
	assert_int_equal(manifest.log_durable, POSITION(4408));
	assert_int_equal(manifest.log_bytes_written, 192);
	assert_int_equal(manifest.flush_bytes_written, 2304);
	assert_int_equal(manifest.merge_bytes_written, 0);

	static const struct cairn_manifest_file files[] = {
	    {3, 1152, UINT32_C(0x97ab3452)}, {2, 1152, UINT32_C(0x110f77dd)}};
	assert_int_equal(manifest.run_count, COUNT(files));
	for (size_t i = 0; i < COUNT(files); i++) {
		assert_int_equal(manifest.runs[i].file_count, 1);
		assert_int_equal(manifest.runs[i].rent, 0);
		assert_int_equal(manifest.runs[i].dead_bytes, 0);
		assert_int_equal(manifest.runs[i].files[0].number, files[i].number);
		assert_int_equal(manifest.runs[i].files[0].size, files[i].size);
		assert_int_equal(
		    manifest.runs[i].files[0].footer_checksum, files[i].footer_checksum);
	}
	cairn_manifest_release(&manifest);
	free(file.data);
}

static void the_same_manifest_gives_the_same_bytes(void **state)
{
	(void)state;
	struct file file = read_file(STORE "MANIFEST");
	struct cairn_manifest manifest;
	struct cairn_buffer bytes = {0};
	assert_int_equal(cairn_manifest_decode(&manifest, file.data, file.size, "MANIFEST"), 0);
	assert_int_equal(cairn_manifest_encode(&manifest, &bytes), 0);
	assert_int_equal(bytes.size, file.size);
	assert_memory_equal(bytes.data, file.data, file.size);
	cairn_buffer_release(&bytes);
	cairn_manifest_release(&manifest);
	free(file.data);
}

/* ---------------------------------------------------------------- segment */

static void read_record(const struct file *file, uint64_t offset, struct cairn_log_record *record)
{
	struct cairn_log_place place = {SALT, 1, offset};
	assert_true(
	    cairn_log_record_peek(record, file->data + offset, file->size - offset, &place));
	assert_true(cairn_log_record_check(record, &place));
}

static void golden_segment_is_read(void **state)
{
	(void)state;
	struct file file = read_file(STORE "000001.wal");
	struct cairn_log_segment_header header;
	assert_int_equal(file.size, SEGMENT_SIZE);
	assert_int_equal(cairn_log_segment_header_decode(&header, file.data, "000001.wal"), 0);
	assert_memory_equal(&header.identity, &identity, sizeof identity);
	assert_int_equal(header.number, 1);
	assert_int_equal(header.ordinal, 1);
	assert_int_equal(header.salt, SALT);
	assert_int_equal(header.previous_number, 0);
	assert_int_equal(header.previous_salt, 0);

	struct cairn_log_record link;
	read_record(&file, CAIRN_LOG_HEADER_SIZE, &link);
	assert_int_equal(link.type, CAIRN_LOG_LINK);
	assert_int_equal(link.size, 40);
	assert_int_equal(link.durable, 0);
	assert_int_equal(cairn_get64(link.body), 0);
	assert_int_equal(cairn_get64(link.body + 8), 0);
	free(file.data);
}

static void golden_records_are_read(void **state)
{
	(void)state;
	struct file file = read_file(STORE "000001.wal");
	for (size_t i = 0; i < COUNT(records); i++) {
		const struct text_record *want = &records[i];
		struct cairn_log_record record;
		read_record(&file, want->offset, &record);
		assert_int_equal(record.type, want->type);
		assert_int_equal(record.sequence_delta, want->sequence_delta);
		assert_int_equal(record.durable, POSITION(want->durable));
		uint64_t next = i + 1 < COUNT(records) ? records[i + 1].offset : SEGMENT_SIZE;
		assert_int_equal(want->offset + record.size, next);

		struct cairn_input body = cairn_input_of(record.body, record.body_size);
		struct cairn_record operation;
		for (size_t j = 0; j < want->operations; j++) {
			struct cairn_record right = record_of(&want->operation[j]);
			assert_int_equal(cairn_log_operation_next(&body, &operation), 0);
			assert_int_equal(operation.kind, right.kind);
			assert_int_equal(operation.checksum, right.checksum);
			assert_true(cairn_key_equal(operation.key, right.key));
			assert_true(cairn_key_equal(operation.value, right.value));
		}
		assert_int_equal(cairn_log_operation_next(&body, &operation), CAIRN_END);
	}
	free(file.data);
}

/* Puts the record together at its place in `bytes`. */
static void seal_record(uint8_t *bytes, const struct text_record *record)
{
	uint8_t *body = bytes + record->offset + CAIRN_LOG_RECORD_HEADER, *next = body;
	for (size_t i = 0; i < record->operations; i++) {
		struct cairn_record operation = record_of(&record->operation[i]);
		next = cairn_log_operation_put(next, &operation);
	}
	struct cairn_log_place place = {SALT, 1, record->offset};
	cairn_log_record_seal(bytes + record->offset, &place, record->type,
	    cairn_log_record_size((uint64_t)(next - body)), record->sequence_delta,
	    POSITION(record->durable));
}

static void the_same_records_give_the_same_segment(void **state)
{
	(void)state;
	struct file file = read_file(STORE "000001.wal");
	uint8_t *bytes = calloc(1, SEGMENT_SIZE);
	assert_non_null(bytes);
	struct cairn_log_segment_header header = {
	    .identity = identity, .number = 1, .ordinal = 1, .salt = SALT};
	cairn_log_segment_header_encode(&header, bytes);
	struct cairn_log_place place = {SALT, 1, CAIRN_LOG_HEADER_SIZE};
	cairn_log_record_seal(
	    bytes + CAIRN_LOG_HEADER_SIZE, &place, CAIRN_LOG_LINK, cairn_log_record_size(16), 0, 0);
	for (size_t i = 0; i < COUNT(records); i++)
		seal_record(bytes, &records[i]);
	assert_int_equal(file.size, SEGMENT_SIZE);
	assert_memory_equal(bytes, file.data, SEGMENT_SIZE);
	free(bytes);
	free(file.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_manifest_is_read),
	    cmocka_unit_test(the_same_manifest_gives_the_same_bytes),
	    cmocka_unit_test(golden_segment_is_read),
	    cmocka_unit_test(golden_records_are_read),
	    cmocka_unit_test(the_same_records_give_the_same_segment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
