/*
 * tests/format_log_record_test.c -- the bytes of a log segment against format/log_record.h, written
 * out a second time here.
 */
#include "tests/test.h"

#include <xxhash.h>

#include "format/error.h"
#include "format/log_record.h"

#define HEADER 4096

static void put(uint8_t *bytes, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *bytes, int size)
{
	uint64_t value = 0;
	for (int i = size - 1; i >= 0; i--)
		value = value << 8 | bytes[i];
	return value;
}

static uint64_t sum(const uint8_t *bytes, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, size, seed) & 0xffffffffu;
}

/* Segment header. */

static const struct cairn_log_segment_header some_header = {
    .identity = {.store_id = "0123456789abcde", .hash_seed = 0x1122334455667788},
    .number = 0x0102030405060708,
    .ordinal = 9,
    .salt = 0xfedcba9876543210,
    .previous_number = 0x0102030405060707,
    .previous_salt = 0xa5a5a5a55a5a5a5a,
};

static void oracle_header(uint8_t bytes[HEADER])
{
	memset(bytes, 0, HEADER);
	memcpy(bytes, "CAIRNWAL", 8);
	put(bytes + 8, 1, 4);
	memcpy(bytes + 16, "0123456789abcde", 16);
	put(bytes + 32, 0x1122334455667788, 8);
	put(bytes + 48, 0x0102030405060708, 8);
	put(bytes + 56, 9, 8);
	put(bytes + 64, 0xfedcba9876543210, 8);
	put(bytes + 72, 0x0102030405060707, 8);
	put(bytes + 80, 0xa5a5a5a55a5a5a5a, 8);
	put(bytes + 12, sum(bytes + 16, HEADER - 16, 0), 4);
}

static void header_is_encoded_as_documented(void **state)
{
	(void)state;
	static uint8_t bytes[HEADER], expected[HEADER];
	memset(bytes, 0xee, sizeof bytes);
	oracle_header(expected);
	cairn_log_segment_header_encode(&some_header, bytes);
	assert_memory_equal(bytes, expected, HEADER);
	/* A known answer: the checksum is what it was when the format was made. */
	assert_int_equal(get(bytes + 12, 4), 0xc1dee424);

	struct cairn_log_segment_header header;
	assert_int_equal(cairn_log_segment_header_decode(&header, bytes, "x.wal"), 0);
	assert_memory_equal(header.identity.store_id, some_header.identity.store_id, 16);
	assert_true(header.identity.hash_seed == some_header.identity.hash_seed);
	assert_true(header.number == some_header.number);
	assert_true(header.ordinal == some_header.ordinal);
	assert_true(header.salt == some_header.salt);
	assert_true(header.previous_number == some_header.previous_number);
	assert_true(header.previous_salt == some_header.previous_salt);
}

static void no_flipped_bit_of_a_header_is_missed(void **state)
{
	(void)state;
	static uint8_t bytes[HEADER];
	struct cairn_log_segment_header header;
	oracle_header(bytes);
	for (unsigned bit = 0; bit < HEADER * 8; bit += bit < 128 * 8 ? 1 : 61) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int rc = cairn_log_segment_header_decode(&header, bytes, "000007.wal");
		bool version = bit / 8 >= 8 && bit / 8 < 12;
		assert_int_equal(rc, version ? CAIRN_UNSUPPORTED : CAIRN_CORRUPT);
		assert_non_null(strstr(cairn_error_text(), "000007.wal"));
		assert_true(header.salt == 0 && header.number == 0);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(cairn_log_segment_header_decode(&header, bytes, "000007.wal"), 0);
}

static void another_version_is_refused_with_both_numbers(void **state)
{
	(void)state;
	static uint8_t bytes[HEADER];
	struct cairn_log_segment_header header;
	oracle_header(bytes);
	put(bytes + 8, 4711, 4);
	assert_int_equal(
	    cairn_log_segment_header_decode(&header, bytes, "x.wal"), CAIRN_UNSUPPORTED);
	assert_non_null(strstr(cairn_error_text(), "4711"));
	assert_non_null(strstr(cairn_error_text(), "version 1"));
}

static void padding_of_a_header_is_checked(void **state)
{
	(void)state;
	static const size_t places[] = {40, 47, 88, 89, 1000, HEADER - 1};
	static uint8_t bytes[HEADER];
	struct cairn_log_segment_header header;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		oracle_header(bytes);
		bytes[places[i]] = 1;
		put(bytes + 12, sum(bytes + 16, HEADER - 16, 0), 4);
		assert_int_equal(
		    cairn_log_segment_header_decode(&header, bytes, "x.wal"), CAIRN_CORRUPT);
	}
}

/* Records. */

#define BODY "five small boxes"
#define SIZE 40 /* 20 + 16, padded */

static const struct cairn_log_place some_place = {0xfffffffffffff000, 7, 0x2008};

/* A sealed WRITE of BODY at `some_place` with D `durable`. */
static void sealed(uint8_t bytes[SIZE], uint64_t durable)
{
	memset(bytes, 0xee, SIZE);
	memcpy(bytes + 20, BODY, 16);
	memset(bytes + 36, 0, 4);
	cairn_log_record_seal(bytes, &some_place, CAIRN_LOG_WRITE, SIZE, 0x01020304, durable);
}

static void record_is_encoded_as_documented(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[SIZE], expected[SIZE] = {0};
	uint64_t seed = 0xfffffffffffff000 + UINT64_C(0x2008);
	memcpy(expected + 20, BODY, 16);
	put(expected + 4, sum(expected + 20, SIZE - 20, ~seed), 4);
	put(expected + 8, UINT64_C(2) << 28 | SIZE / 8, 4);
	put(expected + 12, 0x01020304, 4);
	put(expected + 16, UINT64_C(2) << 28 | 0x1230 / 8, 4);
	put(expected, sum(expected + 4, 16, seed), 4);
	sealed(bytes, cairn_log_position(5, 0x1230));
	assert_memory_equal(bytes, expected, SIZE);
	assert_int_equal(get(bytes, 4), 0x4a03116c);
	assert_int_equal(get(bytes + 4, 4), 0xd0058863);

	struct cairn_log_record record;
	assert_true(cairn_log_record_peek(&record, bytes, SIZE, &some_place));
	assert_int_equal(record.type, CAIRN_LOG_WRITE);
	assert_int_equal(record.size, SIZE);
	assert_int_equal(record.sequence_delta, 0x01020304);
	assert_int_equal(record.durable, cairn_log_position(5, 0x1230));
	assert_ptr_equal(record.body, bytes + 20);
	assert_int_equal(record.body_size, SIZE - 20);
	assert_true(cairn_log_record_check(&record, &some_place));
}

static void record_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[SIZE];
	struct cairn_log_record record;
	sealed(bytes, 0);
	for (size_t limit = 0; limit < SIZE; limit++) {
		/* On the heap, so that a sanitizer sees a look beyond the end. */
		uint8_t *cut = malloc(limit + 1);
		memcpy(cut, bytes, limit);
		assert_false(cairn_log_record_peek(&record, cut, limit, &some_place));
		free(cut);
	}
	assert_true(cairn_log_record_peek(&record, bytes, SIZE, &some_place));
	assert_true(cairn_log_record_peek(&record, bytes, SIZE + 8, &some_place));
}

static void no_flipped_bit_of_a_record_is_missed(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[SIZE];
	struct cairn_log_record record;
	sealed(bytes, 0);
	for (unsigned bit = 0; bit < SIZE * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		bool peeked = cairn_log_record_peek(&record, bytes, SIZE, &some_place);
		assert_int_equal(peeked, bit / 8 >= 20);
		if (peeked)
			assert_false(cairn_log_record_check(&record, &some_place));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void record_is_bound_to_its_place(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[SIZE];
	struct cairn_log_record record;
	sealed(bytes, 0);
	struct cairn_log_place elsewhere = some_place, salted = some_place;
	elsewhere.offset += 8;
	salted.salt ^= 1;
	assert_false(cairn_log_record_peek(&record, bytes, SIZE, &elsewhere));
	assert_false(cairn_log_record_peek(&record, bytes, SIZE, &salted));
	assert_true(cairn_log_record_peek(&record, bytes, SIZE, &some_place));
	assert_false(cairn_log_record_check(&record, &elsewhere));
	assert_false(cairn_log_record_check(&record, &salted));
}

static void header_word_with_right_checksum_is_not_yet_believed(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[SIZE];
	struct cairn_log_record record;
	uint64_t seed = some_place.salt + some_place.offset;
	for (uint32_t type = 0; type < 16; type++) {
		for (uint32_t units = 0; units <= SIZE / 8; units++) {
			sealed(bytes, 0);
			put(bytes + 8, type << 28 | units, 4);
			put(bytes, sum(bytes + 4, 16, seed), 4);
			bool good = type >= 1 && type <= 3 && units >= 3;
			assert_int_equal(
			    cairn_log_record_peek(&record, bytes, SIZE, &some_place), good);
		}
	}
}

static void zeros_are_no_record(void **state)
{
	(void)state;
	static const uint8_t zeros[64];
	struct cairn_log_record record;
	for (uint64_t salt = 0; salt < 1000; salt++) {
		struct cairn_log_place place = {salt, 1, 4096};
		assert_false(cairn_log_record_peek(&record, zeros, sizeof zeros, &place));
	}
}

/* What a record at (ordinal, offset) says when `durable` was known. */
static uint64_t said(uint64_t ordinal, uint64_t offset, uint64_t durable)
{
	_Alignas(8) uint8_t bytes[24] = {0};
	struct cairn_log_place place = {3, ordinal, offset};
	struct cairn_log_record record;
	cairn_log_record_seal(bytes, &place, CAIRN_LOG_MARK, 24, 0, durable);
	assert_true(cairn_log_record_peek(&record, bytes, 24, &place));
	return record.durable;
}

static void durable_position_is_said_or_understated(void **state)
{
	(void)state;
	for (uint64_t back = 0; back < 20; back++) {
		uint64_t durable = cairn_log_position(20 - back, 4136);
		assert_int_equal(said(20, 8192, durable), back <= 15 ? durable : 0);
	}
	uint64_t last = cairn_log_position(19, 0x7ffffff8);
	assert_int_equal(said(20, 8192, last), last);
}

static void nothing_durable_vouches_for_nothing(void **state)
{
	(void)state;
	for (uint64_t ordinal = 1; ordinal < 40; ordinal++)
		assert_int_equal(said(ordinal, 4096, 0), 0);
	/* The start of a segment 15 back is spelled like "farther away": it may only say less. */
	assert_int_equal(said(20, 4096, cairn_log_position(5, 0)), 0);
	assert_int_equal(said(20, 4096, cairn_log_position(6, 0)), cairn_log_position(6, 0));
}

static void record_does_not_vouch_for_itself(void **state)
{
	(void)state;
	uint64_t own = cairn_log_position(20, 8192);
	assert_int_equal(said(20, 8192, own), own);
	assert_int_equal(said(20, 8192, own + 1), own);
	assert_int_equal(said(20, 8192, cairn_log_position(21, 4096)), own);
}

static void durable_segment_of_a_time_before_the_log_is_refused(void **state)
{
	(void)state;
	_Alignas(8) uint8_t bytes[24] = {0};
	struct cairn_log_place place = {3, 2, 4096};
	struct cairn_log_record record;
	cairn_log_record_seal(bytes, &place, CAIRN_LOG_MARK, 24, 0, 0);
	put(bytes + 16, UINT64_C(9) << 28 | 5, 4); /* nine segments before the second */
	put(bytes, sum(bytes + 4, 16, 3 + 4096), 4);
	assert_true(cairn_log_record_peek(&record, bytes, 24, &place));
	assert_int_equal(record.durable, 0);
}

/* Operations. */

static struct cairn_record operation_of(
    enum cairn_kind kind, const void *key, size_t key_size, const void *value, size_t value_size)
{
	return (struct cairn_record){
	    .key = {key, key_size},
	    .value = {value, value_size},
	    .checksum = 0xdeadbeef,
	    .kind = kind,
	};
}

static void operations_are_encoded_as_documented(void **state)
{
	(void)state;
	static const uint8_t expected[] = {
	    1, 3, 2, 0xef, 0xbe, 0xad, 0xde, 'k', 'e', 'y', 'v', 'w', /* put */
	    2, 3, 0xef, 0xbe, 0xad, 0xde, 'k', 'e', 'y',              /* delete */
	    1, 0, 0, 0xef, 0xbe, 0xad, 0xde,                          /* put of nothing */
	};
	struct cairn_record operations[] = {
	    operation_of(CAIRN_KIND_PUT, "key", 3, "vw", 2),
	    operation_of(CAIRN_KIND_DELETE, "key", 3, NULL, 0),
	    operation_of(CAIRN_KIND_PUT, NULL, 0, NULL, 0),
	};
	uint8_t bytes[sizeof expected], *next = bytes;
	size_t size = 0;
	for (size_t i = 0; i < 3; i++) {
		next = cairn_log_operation_put(next, &operations[i]);
		size += cairn_log_operation_size(&operations[i]);
		assert_int_equal(next - bytes, size);
	}
	assert_int_equal(size, sizeof expected);
	assert_memory_equal(bytes, expected, sizeof expected);
}

static void operations_come_back_as_they_went(void **state)
{
	(void)state;
	uint64_t random = test_seed(11);
	static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, 65535};
	enum { COUNT = 7 * 7 };
	struct cairn_record operations[COUNT];
	size_t total = 0;
	uint8_t *data = malloc(65536 * 2);
	for (size_t i = 0; i < 65536 * 2; i++)
		data[i] = (uint8_t)test_random(&random);
	for (size_t i = 0; i < COUNT; i++) {
		operations[i] =
		    operation_of(test_random(&random) % 4 ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE,
			data, sizes[i / 7], data + 65536, sizes[i % 7]);
		operations[i].checksum = (uint32_t)test_random(&random);
		if (operations[i].kind == CAIRN_KIND_DELETE)
			operations[i].value.size = 0;
		total += cairn_log_operation_size(&operations[i]);
	}
	uint8_t *bytes = calloc(1, total + 7), *next = bytes;
	for (size_t i = 0; i < COUNT; i++)
		next = cairn_log_operation_put(next, &operations[i]);
	for (size_t padding = 0; padding < 8; padding++) {
		struct cairn_input in = cairn_input_of(bytes, total + padding);
		struct cairn_record record;
		for (size_t i = 0; i < COUNT; i++) {
			assert_int_equal(cairn_log_operation_next(&in, &record), 0);
			assert_int_equal(record.kind, operations[i].kind);
			assert_int_equal(record.checksum, operations[i].checksum);
			assert_int_equal(record.key.size, operations[i].key.size);
			assert_memory_equal(record.key.data, data, record.key.size);
			assert_int_equal(record.value.size, operations[i].value.size);
			assert_memory_equal(record.value.data, data + 65536, record.value.size);
		}
		assert_int_equal(cairn_log_operation_next(&in, &record), CAIRN_END);
		assert_ptr_equal(in.next, bytes + total);
	}
	free(bytes);
	free(data);
}

/* What the first operation of these bytes, on the heap, comes to. */
static int next_of(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	memcpy(copy, bytes, size);
	struct cairn_input in = cairn_input_of(copy, size);
	struct cairn_record record;
	int rc = cairn_log_operation_next(&in, &record);
	free(copy);
	return rc;
}

static void padding_of_operations_is_checked(void **state)
{
	(void)state;
	uint8_t zeros[16] = {0};
	for (size_t size = 0; size < 16; size++)
		assert_int_equal(next_of(zeros, size), size < 8 ? CAIRN_END : CAIRN_CORRUPT);
	for (size_t i = 1; i < 7; i++) {
		uint8_t bytes[7] = {0};
		bytes[i] = 1;
		assert_int_equal(next_of(bytes, 7), CAIRN_CORRUPT);
	}
}

static void malformed_operation_is_corrupt(void **state)
{
	(void)state;
	uint8_t whole[64];
	struct cairn_record operation = operation_of(CAIRN_KIND_PUT, "some key", 8, "value", 5);
	size_t size = (size_t)(cairn_log_operation_put(whole, &operation) - whole);
	assert_int_equal(next_of(whole, size), 0);
	for (size_t cut = 1; cut < size; cut++)
		assert_int_equal(next_of(whole, cut), CAIRN_CORRUPT);
	for (unsigned kind = 3; kind < 256; kind++) {
		whole[0] = (uint8_t)kind;
		assert_int_equal(next_of(whole, size), CAIRN_CORRUPT);
	}
	static const uint8_t overlong[] = {2, 0x81, 0x00, 1, 2, 3, 4, 'k', 0, 0, 0, 0};
	assert_int_equal(next_of(overlong, sizeof overlong), CAIRN_CORRUPT);
	static const uint8_t endless[] = {
	    2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	assert_int_equal(next_of(endless, sizeof endless), CAIRN_CORRUPT);
}

static void key_or_value_beyond_the_limit_is_corrupt(void **state)
{
	(void)state;
	size_t size = 1 + 3 + 4 + CAIRN_KEY_MAX + 1;
	uint8_t *bytes = calloc(1, size);
	memcpy(bytes, (uint8_t[]){2, 0xff, 0xff, 0x03}, 4);
	assert_int_equal(next_of(bytes, size - 1), 0);
	memcpy(bytes, (uint8_t[]){2, 0x80, 0x80, 0x04}, 4);
	assert_int_equal(next_of(bytes, size), CAIRN_CORRUPT);
	free(bytes);
	static const uint8_t huge_value[] = {1, 0, 0x80, 0x80, 0x80, 0x80, 0x04, 1, 2, 3, 4, 5};
	assert_int_equal(next_of(huge_value, sizeof huge_value), CAIRN_CORRUPT);
}

static void positions_are_ordered(void **state)
{
	(void)state;
	assert_int_equal(cairn_log_position(3, 4096), (UINT64_C(3) << 28) + 512);
	assert_true(cairn_log_position(1, 0x7ffffff8) < cairn_log_position(2, 0));
	assert_int_equal(cairn_log_position_ordinal(cairn_log_position(77, 4136)), 77);
	assert_int_equal(cairn_log_position_offset(cairn_log_position(77, 0x7ffffff8)), 0x7ffffff8);
	assert_int_equal(cairn_log_record_size(0), 24);
	assert_int_equal(cairn_log_record_size(4), 24);
	assert_int_equal(cairn_log_record_size(5), 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(header_is_encoded_as_documented),
	    cmocka_unit_test(no_flipped_bit_of_a_header_is_missed),
	    cmocka_unit_test(another_version_is_refused_with_both_numbers),
	    cmocka_unit_test(padding_of_a_header_is_checked),
	    cmocka_unit_test(record_is_encoded_as_documented),
	    cmocka_unit_test(record_that_does_not_fit_is_refused),
	    cmocka_unit_test(no_flipped_bit_of_a_record_is_missed),
	    cmocka_unit_test(record_is_bound_to_its_place),
	    cmocka_unit_test(header_word_with_right_checksum_is_not_yet_believed),
	    cmocka_unit_test(zeros_are_no_record),
	    cmocka_unit_test(durable_position_is_said_or_understated),
	    cmocka_unit_test(nothing_durable_vouches_for_nothing),
	    cmocka_unit_test(record_does_not_vouch_for_itself),
	    cmocka_unit_test(durable_segment_of_a_time_before_the_log_is_refused),
	    cmocka_unit_test(operations_are_encoded_as_documented),
	    cmocka_unit_test(operations_come_back_as_they_went),
	    cmocka_unit_test(padding_of_operations_is_checked),
	    cmocka_unit_test(malformed_operation_is_corrupt),
	    cmocka_unit_test(key_or_value_beyond_the_limit_is_corrupt),
	    cmocka_unit_test(positions_are_ordered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
