/*
 * tests/compaction_pace_test.c -- writers are slowed evenly, and stopped only at the limit.
 */
#include "tests/test.h"

#include "compaction/pace.h"
#include "compaction/policy.h"

#define BYTES 116u

static int64_t delay_at(size_t runs)
{
	struct cairn_pace_debt debt = {.runs = runs, .budget = 7, .sealed_max = 2};
	return cairn_pace_delay(&debt, BYTES);
}

static void up_to_sixteen_runs_cost_nothing(void **state)
{
	(void)state;
	for (size_t runs = 0; runs <= 16; runs++)
		assert_int_equal(delay_at(runs), 0);
	assert_true(delay_at(17) > 0);
}

static void ingest_falls_linearly_to_a_tenth(void **state)
{
	(void)state;
	/* Full speed from the delay at the limit, which is nine times it. */
	double full = (double)delay_at(CAIRN_POLICY_RUNS_MAX) / 9;
	assert_true(full >= 130 && full <= 145); /* measured for a put of 116 bytes */
	for (size_t runs = 16; runs <= CAIRN_POLICY_RUNS_MAX; runs++) {
		double ingest = full / (full + (double)delay_at(runs));
		double wanted = 1 - 0.9 * (double)(runs - 16) / 8;
		assert_true(ingest > wanted - 0.01 && ingest < wanted + 0.01);
	}
}

static void beyond_the_limit_writers_wait(void **state)
{
	(void)state;
	assert_true(delay_at(CAIRN_POLICY_RUNS_MAX) > 0);
	assert_int_equal(delay_at(CAIRN_POLICY_RUNS_MAX + 1), CAIRN_PACE_STOP);
	assert_int_equal(delay_at(SIZE_MAX), CAIRN_PACE_STOP);
}

static void writers_wait_for_a_flush_when_all_memtables_are_sealed(void **state)
{
	(void)state;
	struct cairn_pace_debt debt = {.runs = 1, .budget = 3, .sealed_max = 2};
	debt.sealed_memtables = 1;
	assert_int_equal(cairn_pace_delay(&debt, BYTES), 0);
	debt.sealed_memtables = 2;
	assert_int_equal(cairn_pace_delay(&debt, BYTES), CAIRN_PACE_STOP);
	debt.sealed_memtables = 3;
	assert_int_equal(cairn_pace_delay(&debt, BYTES), CAIRN_PACE_STOP);
}

static void runs_within_the_budget_cost_nothing(void **state)
{
	(void)state;
	for (size_t budget = 0; budget <= CAIRN_POLICY_RUNS_MAX; budget++) {
		struct cairn_pace_debt debt = {.budget = budget, .sealed_max = 1};
		int64_t last = 0;
		for (debt.runs = 0; debt.runs <= CAIRN_POLICY_RUNS_MAX; debt.runs++) {
			int64_t delay = cairn_pace_delay(&debt, BYTES);
			assert_true(delay >= last);
			assert_true(debt.runs > budget || delay == 0);
			last = delay;
		}
		assert_int_equal(cairn_pace_delay(&debt, BYTES), CAIRN_PACE_STOP);
	}
}

static void the_delay_grows_with_the_write(void **state)
{
	(void)state;
	struct cairn_pace_debt debt = {.runs = 20, .budget = 7, .sealed_max = 2};
	int64_t last = cairn_pace_delay(&debt, 0);
	assert_true(last > 0);
	for (size_t bytes = 64; bytes <= (size_t)2 * CAIRN_BATCH_MAX; bytes *= 2) {
		int64_t delay = cairn_pace_delay(&debt, bytes);
		assert_true(delay > last);
		last = delay;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(up_to_sixteen_runs_cost_nothing),
	    cmocka_unit_test(ingest_falls_linearly_to_a_tenth),
	    cmocka_unit_test(beyond_the_limit_writers_wait),
	    cmocka_unit_test(writers_wait_for_a_flush_when_all_memtables_are_sealed),
	    cmocka_unit_test(runs_within_the_budget_cost_nothing),
	    cmocka_unit_test(the_delay_grows_with_the_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
