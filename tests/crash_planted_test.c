/*
 * tests/crash_planted_test.c -- the checker is checked: bugs that stores have had are planted, and
 * the explorer finds each of them; without them it finds nothing.
 *
 * Some are in the simulated disk (sim_io.h). The others stand between parts of the library: the
 * linker puts the functions below in the place of those that they are named after (--wrap), and
 * they do as they should until `planted` says otherwise. The library itself has no switch.
 */
#include "tests/test.h"

#include "compaction/job.h"
#include "tests/crash_explorer.h"
#include "wal/log_reader.h"

#define STATES_MOST  10000u
#define STATES_CLEAN 300u /* to be looked at without a bug */

enum planted { NOTHING, HALF_A_BATCH, TOMBSTONE_DROPPED };

static enum planted planted;

/* ---------------------------------------------------------------- half a batch is applied */

int __real_cairn_log_read(
    struct cairn_io *io, const struct cairn_log_replay *replay, struct cairn_log_summary *summary);
int __wrap_cairn_log_read(
    struct cairn_io *io, const struct cairn_log_replay *replay, struct cairn_log_summary *summary);

static int apply_half(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	const struct cairn_log_replay *replay = context;
	struct cairn_input in = cairn_input_of(body.data, body.size);
	struct cairn_record record;
	uint32_t half = count > 1 ? count / 2 : count;
	for (uint32_t i = 0; i < half; i++)
		cairn_log_operation_next(&in, &record);
	size_t size = (size_t)(in.next - (const uint8_t *)body.data);
	return replay->apply(replay->context, first_sequence, half, (cairn_slice){body.data, size});
}

int __wrap_cairn_log_read(
    struct cairn_io *io, const struct cairn_log_replay *replay, struct cairn_log_summary *summary)
{
	struct cairn_log_replay halved = *replay;
	if (planted == HALF_A_BATCH) {
		halved.apply = apply_half;
		halved.progress = NULL;
		halved.context = (void *)(uintptr_t)replay;
	}
	return __real_cairn_log_read(io, &halved, summary);
}

/* ---------------------------------------------------------------- a tombstone goes too early */

int __real_cairn_job_open(const struct cairn_job_spec *spec, struct cairn_job **job);
int __wrap_cairn_job_open(const struct cairn_job_spec *spec, struct cairn_job **job);

int __wrap_cairn_job_open(const struct cairn_job_spec *spec, struct cairn_job **job)
{
	struct cairn_job_spec changed = *spec;
	if (planted == TOMBSTONE_DROPPED)
		changed.oldest = true; /* "nothing older can have the key" */
	return __real_cairn_job_open(&changed, job);
}

/* ---------------------------------------------------------------- exploring */

/* A kind of workloads: number `i` of them. */
typedef void make_workload(struct crash_workload *workload, unsigned i);

/* Short ones and random ones in turn. */
static void make_any(struct crash_workload *workload, unsigned i)
{
	if (i % 2)
		crash_workload_random(workload, i, 1);
	else
		crash_workload_short(workload, i * 2887u % CRASH_EXHAUSTIVE, 1);
}

/* Another sync fails in each. */
static void make_failing(struct crash_workload *workload, unsigned i)
{
	make_any(workload, i);
	workload->failing_sync = 1 + i % 23;
}

/*
 * Records of one length only, and a log whose segments are filled and used again: what an earlier
 * life left there lies where the next record will be.
 */
static void make_even(struct crash_workload *workload, unsigned i)
{
	*workload = (struct crash_workload){
	    .name = "even", .seed = i, .sync_mode = CAIRN_SYNC_NONE, .keys = 5, .every = 5};
	for (unsigned k = 0; k < 120; k++) {
		struct crash_operation write = {.action = CRASH_WRITE, .count = 1};
		write.parts[0] = (struct crash_part){.key = k % 5, .size = 1500, .delete = false};
		crash_workload_add(workload, &write);
		crash_workload_add(
		    workload, &(struct crash_operation){.action = CRASH_WORK, .amount = 2});
	}
}

/* Until the first violation, or so many states. */
static struct crash_counts explore(make_workload *make, unsigned disk_bugs, uint64_t most)
{
	struct crash_counts counts = {0};
	const struct crash_settings settings = {.bugs = disk_bugs};
	for (unsigned i = 0; counts.checked < most && !counts.violations; i++) {
		struct crash_workload workload;
		make(&workload, i);
		crash_explore(&workload, &settings, &counts);
		crash_workload_release(&workload);
	}
	return counts;
}

static void expect_nothing(make_workload *make)
{
	planted = NOTHING;
	assert_int_equal(explore(make, 0, STATES_CLEAN).violations, 0);
}

static void expect_found(
    const char *what, make_workload *make, enum planted bug, unsigned disk_bugs)
{
	planted = bug;
	struct crash_counts counts = explore(make, disk_bugs, STATES_MOST);
	planted = NOTHING;
	printf("%s: found after %llu states\n", what, (unsigned long long)counts.checked);
	assert_int_equal(counts.violations, 1);
	assert_true(counts.checked <= STATES_MOST);
}

static void without_a_bug_nothing_is_found(void **state)
{
	(void)state;
	expect_nothing(make_any);
	expect_nothing(make_failing);
	expect_nothing(make_even);
}

static void a_directory_that_is_not_synced_is_found(void **state)
{
	(void)state;
	expect_found("no directory is synced", make_any, NOTHING, SIM_BUG_SKIP_DIRECTORY_SYNC);
}

static void a_failed_sync_that_is_tried_again_is_found(void **state)
{
	(void)state;
	expect_found("a failed sync is tried again", make_failing, NOTHING, SIM_BUG_RETRY_SYNC);
}

static void a_salt_that_is_always_the_same_is_found(void **state)
{
	(void)state;
	expect_found("every salt is the same", make_even, NOTHING, SIM_BUG_SAME_ENTROPY);
}

static void half_a_batch_is_found(void **state)
{
	(void)state;
	expect_found("half a batch is applied", make_any, HALF_A_BATCH, 0);
}

static void a_tombstone_dropped_early_is_found(void **state)
{
	(void)state;
	expect_found("a tombstone is dropped early", make_any, TOMBSTONE_DROPPED, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_a_bug_nothing_is_found),
	    cmocka_unit_test(a_directory_that_is_not_synced_is_found),
	    cmocka_unit_test(a_failed_sync_that_is_tried_again_is_found),
	    cmocka_unit_test(a_salt_that_is_always_the_same_is_found),
	    cmocka_unit_test(half_a_batch_is_found),
	    cmocka_unit_test(a_tombstone_dropped_early_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
