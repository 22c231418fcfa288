/*
 * tests/scenario_s02_power_cut_test.c -- S02: 2,000 random operations with a sync every 10, stopped
 * after each of the first 3,000 calls that change the disk (300 in the small size): all that was
 * not synced is lost, or a random part of the pages and directory entries.
 */
#include "tests/test.h"

#include "tests/crash_explorer.h"

#define OPERATIONS 2000u
#define SYNC_EVERY 10u
#define CALLS_FULL 3000u
#define CALLS      300u
#define KEYS       300u

static void add_write(struct crash_workload *workload, uint64_t *random)
{
	struct crash_operation operation = {.action = CRASH_WRITE, .count = 1};
	uint64_t kind = test_random(random) % 10;
	if (kind == 0)
		operation.count = 2 + test_random(random) % (CRASH_PARTS_MOST - 1);
	for (size_t i = 0; i < operation.count; i++)
		operation.parts[i] =
		    (struct crash_part){.key = (unsigned)(test_random(random) % KEYS),
			.size = 8 + (uint32_t)(test_random(random) % 2000),
			.delete = kind == 0 ? test_random(random) % 4 == 0 : kind > 7};
	crash_workload_add(workload, &operation);
}

static void make_workload(struct crash_workload *workload, bool written, uint64_t seed)
{
	uint64_t random = seed;
	*workload = (struct crash_workload){.name = "S02",
	    .seed = seed,
	    .sync_mode = CAIRN_SYNC_NONE,
	    .written = written,
	    .keys = KEYS,
	    .every = 1};
	for (unsigned i = 0; i < OPERATIONS; i++) {
		add_write(workload, &random);
		if ((i + 1) % SYNC_EVERY == 0)
			crash_workload_add(
			    workload, &(struct crash_operation){.action = CRASH_SYNC});
	}
}

static struct crash_counts explore(bool written, uint64_t calls)
{
	struct crash_workload workload;
	struct crash_counts counts = {0};
	const struct crash_settings settings = {.losses = 1u << SIM_LOSE_ALL | 1u << SIM_LOSE_PAGES,
	    .calls_most = calls,
	    .report = stdout};
	make_workload(&workload, written, test_seed(2));
	bool ok = crash_explore(&workload, &settings, &counts);
	crash_workload_release(&workload);
	printf("%llu states\n", (unsigned long long)counts.checked);
	assert_true(ok);
	return counts;
}

static void a_power_cut_after_any_call_leaves_a_prefix(void **state)
{
	uint64_t calls = test_full() ? CALLS_FULL : CALLS;
	(void)state;
	/* Where every put is a call there are enough of them. */
	struct crash_counts counts = explore(true, calls);
	assert_true(counts.calls > calls);
	assert_true(counts.checked > calls);
}

static void a_power_cut_beside_a_mapped_log_leaves_a_prefix(void **state)
{
	uint64_t calls = test_full() ? CALLS_FULL : CALLS / 6;
	(void)state;
	assert_true(explore(false, calls).checked > CALLS / 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_power_cut_after_any_call_leaves_a_prefix),
	    cmocka_unit_test(a_power_cut_beside_a_mapped_log_leaves_a_prefix),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
