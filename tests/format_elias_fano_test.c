/*
 * tests/format_elias_fano_test.c -- the coding of rising numbers, against an oracle that handles
 * one bit at a time.
 */
#include "tests/test.h"

#include <stdlib.h>

#include "format/elias_fano.h"

#define COUNT_MOST 1000u
#define GUARD      16u

struct sequence {
	uint64_t count;
	uint64_t max;
	uint64_t value[COUNT_MOST];
};

/* ---------------------------------------------------------------- the oracle */

static bool get_bit(const uint8_t *bytes, uint64_t i)
{
	return bytes[i / 8] >> i % 8 & 1;
}

static void set_bit(uint8_t *bytes, uint64_t i)
{
	bytes[i / 8] = (uint8_t)(bytes[i / 8] | 1u << i % 8);
}

static uint64_t whole_bytes(uint64_t bits)
{
	while (bits % 8 != 0)
		bits++;
	return bits;
}

static uint64_t oracle_size(const struct sequence *s, unsigned low)
{
	if (s->count == 0)
		return 0;
	return (whole_bytes(s->count * low) + whole_bytes(s->count + (s->max >> low))) / 8;
}

static uint8_t *oracle_encode(const struct sequence *s, unsigned low)
{
	uint8_t *bytes = calloc(oracle_size(s, low) + 1, 1);
	assert_non_null(bytes);
	for (uint64_t i = 0; i < s->count; i++) {
		for (unsigned b = 0; b < low; b++) {
			if (s->value[i] >> b & 1)
				set_bit(bytes, i * low + b);
		}
		set_bit(bytes, whole_bytes(s->count * low) + (s->value[i] >> low) + i);
	}
	return bytes;
}

/* ---------------------------------------------------------------- checks */

/* Encodes into memory that is dirty and guarded, and as long as it must be. */
static uint8_t *encode(const struct sequence *s, unsigned low, uint8_t dirt, uint64_t *size)
{
	assert_true(cairn_elias_fano_size(s->count, s->max, low, size));
	assert_int_equal(*size, oracle_size(s, low));
	uint8_t *bytes = malloc(*size + GUARD);
	assert_non_null(bytes);
	memset(bytes, dirt, *size + GUARD);
	cairn_elias_fano_encode(s->value, s->count, s->max, low, bytes);
	for (unsigned i = 0; i < GUARD; i++)
		assert_int_equal(bytes[*size + i], dirt);
	uint8_t *exact = realloc(bytes, *size ? *size : 1);
	assert_non_null(exact);
	return exact;
}

static void check_decoding(
    const struct sequence *s, unsigned low, const uint8_t *bytes, uint64_t size)
{
	struct cairn_elias_fano_reader reader;
	uint64_t value;
	assert_true(cairn_elias_fano_open(&reader, bytes, (size_t)size, s->count, s->max, low));
	for (uint64_t i = 0; i < s->count; i++) {
		assert_true(cairn_elias_fano_next(&reader, &value));
		assert_int_equal(value, s->value[i]);
	}
	assert_true(cairn_elias_fano_at_end(&reader));
	assert_false(
	    cairn_elias_fano_open(&reader, bytes, (size_t)size + 1, s->count, s->max, low));
	if (size > 0)
		assert_false(
		    cairn_elias_fano_open(&reader, bytes, (size_t)size - 1, s->count, s->max, low));
}

static void check_width(const struct sequence *s, unsigned low)
{
	uint64_t size;
	uint8_t *wanted = oracle_encode(s, low);
	const uint8_t dirt[] = {0x00, 0xff, 0xa5};
	for (size_t i = 0; i < sizeof dirt; i++) {
		uint8_t *bytes = encode(s, low, dirt[i], &size);
		assert_memory_equal(bytes, wanted, size);
		check_decoding(s, low, bytes, size);
		free(bytes);
	}
	free(wanted);
}

/* With every width whose upper parts are not absurdly long. */
static void check_all_widths(const struct sequence *s)
{
	for (unsigned low = 0; low <= CAIRN_ELIAS_FANO_LOW_MAX; low++) {
		if (s->max >> low <= 100000)
			check_width(s, low);
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

static void fill(struct sequence *s, uint64_t count, uint64_t max, uint64_t *random)
{
	s->count = count;
	s->max = max;
	for (uint64_t i = 0; i < count; i++)
		s->value[i] =
		    max == UINT64_MAX ? test_random(random) : test_random(random) % (max + 1);
	qsort(s->value, (size_t)count, sizeof s->value[0], by_number);
}

static const uint64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 129, COUNT_MOST};

/* ---------------------------------------------------------------- tests */

static void random_values_at_every_width(void **state)
{
	(void)state;
	uint64_t random = test_seed(1);
	static struct sequence s;
	for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		for (unsigned bits = 0; bits <= 64; bits += 1 + bits / 8) {
			uint64_t max = bits == 0 ? 0 : UINT64_MAX >> (64 - bits);
			fill(&s, counts[c], max, &random);
			check_all_widths(&s);
		}
	}
}

/* Powers of two, and what is next to them, as largest value and as values. */
static void boundaries(void **state)
{
	(void)state;
	static struct sequence s;
	for (unsigned bits = 0; bits < 64; bits++) {
		for (int step = -1; step <= 1; step++) {
			uint64_t max = (UINT64_C(1) << bits) + (uint64_t)(int64_t)step;
			uint64_t below = max > 0 ? max - 1 : 0;
			s = (struct sequence){4, max, {0, below, max, max}};
			check_all_widths(&s);
			s = (struct sequence){3, max, {max, max, max}};
			check_all_widths(&s);
			s = (struct sequence){1, max, {max / 2}};
			check_all_widths(&s);
			s = (struct sequence){2, max, {0, 0}};
			check_all_widths(&s);
		}
	}
}

static void runs_of_equal_values_and_long_gaps(void **state)
{
	(void)state;
	static struct sequence s;
	s.count = COUNT_MOST;
	s.max = 100000;
	for (uint64_t i = 0; i < s.count; i++)
		s.value[i] = i / 100 * 11111;
	check_all_widths(&s);
	for (uint64_t i = 0; i < s.count; i++)
		s.value[i] = i < s.count - 1 ? 0 : s.max;
	check_all_widths(&s);
}

static void the_width_is_the_logarithm_of_the_distance(void **state)
{
	(void)state;
	assert_int_equal(cairn_elias_fano_low_bits(0, 100), 0);
	assert_int_equal(cairn_elias_fano_low_bits(100, 99), 0);
	assert_int_equal(cairn_elias_fano_low_bits(100, 100), 0);
	assert_int_equal(cairn_elias_fano_low_bits(100, 199), 0);
	assert_int_equal(cairn_elias_fano_low_bits(100, 200), 1);
	assert_int_equal(cairn_elias_fano_low_bits(100, 399), 1);
	assert_int_equal(cairn_elias_fano_low_bits(100, 400), 2);
	assert_int_equal(cairn_elias_fano_low_bits(1, UINT64_MAX), 63);
}

static void impossible_sizes_are_refused(void **state)
{
	(void)state;
	uint64_t size;
	struct cairn_elias_fano_reader reader;
	assert_false(cairn_elias_fano_size(UINT64_MAX, 10, 3, &size));
	assert_false(cairn_elias_fano_size(1, UINT64_MAX, 0, &size));
	assert_false(cairn_elias_fano_size(CAIRN_ELIAS_FANO_COUNT_MAX + 1, 0, 63, &size));
	assert_false(cairn_elias_fano_open(&reader, NULL, 0, UINT64_MAX, UINT64_MAX, 63));
	assert_false(cairn_elias_fano_open(&reader, NULL, 0, 1, 1, 0));
}

/* Whatever the bytes are: values that never fall and never pass the largest, from within them. */
static bool reads_back(const struct sequence *s, unsigned low, const uint8_t *bytes, uint64_t size)
{
	struct cairn_elias_fano_reader reader;
	uint64_t value, last = 0;
	bool same = true;
	assert_true(cairn_elias_fano_open(&reader, bytes, (size_t)size, s->count, s->max, low));
	for (uint64_t i = 0; i < s->count; i++) {
		if (!cairn_elias_fano_next(&reader, &value))
			return false;
		assert_true(value >= last && value <= s->max);
		last = value;
		same = same && value == s->value[i];
	}
	return cairn_elias_fano_at_end(&reader) && same;
}

static void no_flipped_bit_reads_as_the_same_values(void **state)
{
	(void)state;
	uint64_t random = test_seed(2);
	static struct sequence s;
	for (uint64_t count = 1; count <= 130; count += 43) {
		fill(&s, count, 5000, &random);
		for (unsigned low = 0; low <= 14; low += 2) {
			uint64_t size;
			uint8_t *bytes = encode(&s, low, 0, &size);
			assert_true(reads_back(&s, low, bytes, size));
			for (uint64_t bit = 0; bit < size * 8; bit++) {
				bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
				assert_false(reads_back(&s, low, bytes, size));
				bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
			}
			free(bytes);
		}
	}
}

static void arbitrary_bytes_stay_within_bounds(void **state)
{
	(void)state;
	uint64_t random = test_seed(3);
	static struct sequence s;
	for (unsigned round = 0; round < 3000; round++) {
		s.count = 1 + test_random(&random) % 100;
		unsigned low = (unsigned)(test_random(&random) % 64);
		s.max = test_random(&random) >> test_random(&random) % 64;
		if (s.max >> low > 1000)
			continue;
		uint64_t size = oracle_size(&s, low);
		uint8_t *bytes = malloc(size);
		assert_non_null(bytes);
		for (uint64_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)test_random(&random);
		(void)reads_back(&s, low, bytes, size);
		free(bytes);
	}
}

static void the_oracle_reads_what_it_wrote(void **state)
{
	(void)state;
	struct sequence s = {3, 9, {1, 4, 9}};
	uint8_t *bytes = oracle_encode(&s, 1);
	assert_true(get_bit(bytes, 0) && !get_bit(bytes, 1) && get_bit(bytes, 2));
	assert_true(get_bit(bytes, 8) && get_bit(bytes, 11) && get_bit(bytes, 14));
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_oracle_reads_what_it_wrote),
	    cmocka_unit_test(random_values_at_every_width),
	    cmocka_unit_test(boundaries),
	    cmocka_unit_test(runs_of_equal_values_and_long_gaps),
	    cmocka_unit_test(the_width_is_the_logarithm_of_the_distance),
	    cmocka_unit_test(impossible_sizes_are_refused),
	    cmocka_unit_test(no_flipped_bit_reads_as_the_same_values),
	    cmocka_unit_test(arbitrary_bytes_stay_within_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
