/*
 * tests/format_varint_test.c -- varints, and the bounds of the two ways through a buffer (bytes.h).
 */
#include "tests/test.h"

#include "format/varint.h"

/* Borders of every length, and random numbers of every length. */
static uint32_t number_of(unsigned i, uint64_t *random)
{
	if (i < 32)
		return UINT32_C(1) << i;
	if (i < 64)
		return (UINT32_C(1) << (i - 32)) - 1;
	if (i == 64)
		return UINT32_MAX;
	return (uint32_t)(test_random(random) & UINT32_MAX) >> i % 32;
}

static void a_number_is_seven_bits_a_byte_lowest_first(void **state)
{
	(void)state;
	static const struct {
		uint32_t number;
		size_t size;
		uint8_t bytes[CAIRN_VARINT32_MAX];
	} cases[] = {
	    {0, 1, {0x00}},
	    {1, 1, {0x01}},
	    {127, 1, {0x7f}},
	    {128, 2, {0x80, 0x01}},
	    {300, 2, {0xac, 0x02}},
	    {16383, 2, {0xff, 0x7f}},
	    {16384, 3, {0x80, 0x80, 0x01}},
	    {2097151, 3, {0xff, 0xff, 0x7f}},
	    {2097152, 4, {0x80, 0x80, 0x80, 0x01}},
	    {268435455, 4, {0xff, 0xff, 0xff, 0x7f}},
	    {268435456, 5, {0x80, 0x80, 0x80, 0x80, 0x01}},
	    {UINT32_MAX, 5, {0xff, 0xff, 0xff, 0xff, 0x0f}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t bytes[CAIRN_VARINT32_MAX];
		assert_ptr_equal(cairn_varint_put(bytes, cases[i].number), bytes + cases[i].size);
		assert_int_equal(cairn_varint_size(cases[i].number), cases[i].size);
		assert_memory_equal(bytes, cases[i].bytes, cases[i].size);
		struct cairn_input in = cairn_input_of(cases[i].bytes, cases[i].size);
		assert_int_equal(cairn_input_varint(&in), cases[i].number);
		assert_false(in.bad);
		assert_int_equal(cairn_input_left(&in), 0);
	}
}

static void what_was_put_is_consumed_and_no_more(void **state)
{
	(void)state;
	uint64_t random = test_seed(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t number = number_of(i, &random);
		uint8_t bytes[CAIRN_VARINT32_MAX + 1];
		memset(bytes, 0xee, sizeof bytes);
		size_t size = (size_t)(cairn_varint_put(bytes, number) - bytes);
		assert_int_equal(size, cairn_varint_size(number));
		assert_int_equal(bytes[size], 0xee);
		struct cairn_input in = cairn_input_of(bytes, sizeof bytes);
		assert_int_equal(cairn_input_varint(&in), number);
		assert_false(in.bad);
		assert_int_equal(cairn_input_left(&in), sizeof bytes - size);
	}
}

static void a_cut_number_is_bad(void **state)
{
	(void)state;
	uint64_t random = test_seed(2);
	for (unsigned i = 0; i < 1000; i++) {
		uint8_t bytes[CAIRN_VARINT32_MAX];
		size_t size = (size_t)(cairn_varint_put(bytes, number_of(i, &random)) - bytes);
		for (size_t cut = 0; cut < size; cut++) {
			uint8_t *exact = malloc(cut + 1);
			assert_non_null(exact);
			memcpy(exact, bytes, cut);
			struct cairn_input in = cairn_input_of(exact, cut);
			assert_int_equal(cairn_input_varint(&in), 0);
			assert_true(in.bad);
			free(exact);
		}
	}
}

static void only_the_shortest_form_that_fits_is_a_number(void **state)
{
	(void)state;
	static const uint8_t bad[][6] = {
	    {0x80, 0x00},                         /* 0 in two bytes */
	    {0xff, 0x00},                         /* 127 in two bytes */
	    {0x80, 0x80, 0x00},                   /* 0 in three */
	    {0xff, 0xff, 0xff, 0x00},             /* 2^21 - 1 in four */
	    {0xff, 0xff, 0xff, 0xff, 0x00},       /* 2^28 - 1 in five */
	    {0x80, 0x80, 0x80, 0x80, 0x10},       /* 2^32 */
	    {0xff, 0xff, 0xff, 0xff, 0x7f},       /* 2^35 - 1 */
	    {0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, /* six bytes */
	    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct cairn_input in = cairn_input_of(bad[i], sizeof bad[i]);
		assert_int_equal(cairn_input_varint(&in), 0);
		assert_true(in.bad);
	}
}

static void numbers_are_little_endian(void **state)
{
	(void)state;
	const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88};
	assert_int_equal(cairn_get16(bytes), 0x0201);
	assert_int_equal(cairn_get32(bytes), 0x04030201);
	assert_true(cairn_get64(bytes) == UINT64_C(0x8807060504030201));
	uint8_t put[8];
	cairn_put64(put, UINT64_C(0x8807060504030201));
	assert_memory_equal(put, bytes, 8);
	cairn_put32(put, 0xaabbccdd);
	assert_memory_equal(put, "\xdd\xcc\xbb\xaa\x05", 5);
	cairn_put16(put, 0x1122);
	assert_memory_equal(put, "\x22\x11\xbb", 3);
}

static void input_is_consumed_from_the_front(void **state)
{
	(void)state;
	const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
	struct cairn_input in = cairn_input_of(bytes, sizeof bytes);
	assert_int_equal(cairn_input8(&in), 0x01);
	assert_int_equal(cairn_input16(&in), 0x0302);
	assert_int_equal(cairn_input32(&in), 0x07060504);
	assert_true(cairn_input64(&in) == UINT64_C(0x0f0e0d0c0b0a0908));
	assert_int_equal(cairn_input_left(&in), 2);
	assert_ptr_equal(cairn_input_bytes(&in, 2), bytes + 15);
	assert_ptr_equal(cairn_input_bytes(&in, 0), bytes + 17);
	assert_false(in.bad);
}

/* Reads the `which`-th way; what comes back as a number. */
static uint64_t read_some(struct cairn_input *in, unsigned which)
{
	switch (which) {
	case 0:
		return cairn_input8(in);
	case 1:
		return cairn_input16(in);
	case 2:
		return cairn_input32(in);
	case 3:
		return cairn_input64(in);
	case 4:
		return cairn_input_bytes(in, 16) != NULL;
	default:
		return cairn_input_bytes(in, SIZE_MAX) != NULL;
	}
}

static void input_past_its_end_is_bad_and_stays_bad(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 4, 8, 16, SIZE_MAX};
	uint8_t bytes[16];
	memset(bytes, 0xff, sizeof bytes);
	for (unsigned which = 0; which < 6; which++) {
		for (size_t left = 0; left < sizes[which] && left < sizeof bytes; left++) {
			struct cairn_input in = cairn_input_of(bytes + sizeof bytes - left, left);
			assert_true(read_some(&in, which) == 0);
			assert_true(in.bad);
			for (unsigned then = 0; then < 6; then++)
				assert_true(read_some(&in, then) == 0);
			assert_int_equal(cairn_input_varint(&in), 0);
			assert_true(in.bad);
			assert_int_equal(cairn_input_left(&in), left);
		}
	}
}

static void output_fills_its_room_exactly(void **state)
{
	(void)state;
	uint8_t bytes[22];
	memset(bytes, 0xee, sizeof bytes);
	struct cairn_output out = cairn_output_of(bytes, 21);
	cairn_output8(&out, 0x01);
	cairn_output16(&out, 0x0302);
	cairn_output32(&out, 0x07060504);
	cairn_output64(&out, UINT64_C(0x0f0e0d0c0b0a0908));
	cairn_output_bytes(&out, "abc", 3);
	cairn_output_bytes(&out, NULL, 0);
	cairn_output_zeros(&out, 3);
	assert_false(out.bad);
	assert_int_equal(cairn_output_size(&out), 21);
	assert_memory_equal(bytes,
	    "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	    "abc\0\0\0\xee",
	    22);
}

static void write_some(struct cairn_output *out, unsigned which)
{
	switch (which) {
	case 0:
		cairn_output8(out, 0xff);
		break;
	case 1:
		cairn_output16(out, 0xffff);
		break;
	case 2:
		cairn_output32(out, 0xffffffff);
		break;
	case 3:
		cairn_output64(out, UINT64_MAX);
		break;
	case 4:
		cairn_output_bytes(out, "0123456789abcdef", 16);
		break;
	case 5:
		cairn_output_zeros(out, 16);
		break;
	default:
		assert_null(cairn_output_room(out, SIZE_MAX));
		break;
	}
}

static void output_past_its_room_is_bad_and_writes_nothing(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 4, 8, 16, 16, SIZE_MAX};
	for (unsigned which = 0; which < 7; which++) {
		for (size_t room = 0; room < sizes[which] && room < 16; room++) {
			uint8_t bytes[32], untouched[32];
			memset(bytes, 0xee, sizeof bytes);
			memset(untouched, 0xee, sizeof untouched);
			struct cairn_output out = cairn_output_of(bytes, room);
			write_some(&out, which);
			assert_true(out.bad);
			for (unsigned then = 0; then < 7; then++)
				write_some(&out, then);
			assert_true(out.bad);
			assert_null(cairn_output_room(&out, 0));
			assert_int_equal(cairn_output_size(&out), 0);
			assert_memory_equal(bytes, untouched, sizeof bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_number_is_seven_bits_a_byte_lowest_first),
	    cmocka_unit_test(what_was_put_is_consumed_and_no_more),
	    cmocka_unit_test(a_cut_number_is_bad),
	    cmocka_unit_test(only_the_shortest_form_that_fits_is_a_number),
	    cmocka_unit_test(numbers_are_little_endian),
	    cmocka_unit_test(input_is_consumed_from_the_front),
	    cmocka_unit_test(input_past_its_end_is_bad_and_stays_bad),
	    cmocka_unit_test(output_fills_its_room_exactly),
	    cmocka_unit_test(output_past_its_room_is_bad_and_writes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
