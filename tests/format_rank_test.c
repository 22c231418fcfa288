/*
 * tests/format_rank_test.c -- counting the words that a query is not below: both ways against
 * counting one by one.
 */
#include "tests/test.h"

#include "format/rank.h"

#define WORDS 96u
#define MOST  56u

static unsigned count_plainly(const uint64_t *words, unsigned count, uint64_t query)
{
	unsigned rank = 0;
	for (unsigned i = 0; i < count; i++) {
		if (words[i] <= query)
			rank++;
	}
	return rank;
}

CAIRN_RANK_TARGET static unsigned count_wide(
    const uint8_t *words, uint64_t from, unsigned count, uint64_t query)
{
	return cairn_rank(words, from, count, query, true);
}

static void check(const uint64_t *words, uint64_t query)
{
	uint8_t bytes[WORDS * 8];
	for (unsigned i = 0; i < WORDS; i++)
		cairn_put64(bytes + i * 8, words[i]);
	for (uint64_t from = 0; from < 24; from++) {
		for (unsigned count = 0; count <= MOST; count++) {
			unsigned wanted = count_plainly(words + from, count, query);
			assert_int_equal(cairn_rank(bytes, from, count, query, false), wanted);
			if (cairn_rank_wide())
				assert_int_equal(count_wide(bytes, from, count, query), wanted);
		}
	}
}

/* In any order: windows of several cells lie side by side. */
static void random_words(void **state)
{
	(void)state;
	uint64_t random = test_seed(1), words[WORDS];
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < WORDS; i++)
			words[i] = test_random(&random);
		check(words, test_random(&random));
		check(words, words[test_random(&random) % WORDS]);
	}
}

static void extremes_and_equal_words(void **state)
{
	(void)state;
	static const uint64_t values[] = {0, 1, INT64_MAX, UINT64_C(1) << 63,
	    (UINT64_C(1) << 63) + 1, UINT64_MAX - 1, UINT64_MAX};
	uint64_t words[WORDS];
	for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
		for (unsigned i = 0; i < WORDS; i++)
			words[i] = values[(v + i / 7) % (sizeof values / sizeof values[0])];
		for (size_t q = 0; q < sizeof values / sizeof values[0]; q++)
			check(words, values[q]);
	}
}

static void the_portable_way_can_be_forced(void **state)
{
	(void)state;
	cairn_rank_portable_only = true;
	assert_false(cairn_rank_wide());
	cairn_rank_portable_only = false;
	if (!cairn_rank_wide())
		print_message("this machine has no AVX2: only the portable way was tested\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_words),
	    cmocka_unit_test(extremes_and_equal_words),
	    cmocka_unit_test(the_portable_way_can_be_forced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
