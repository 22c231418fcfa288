/*
 * tests/compaction_policy_test.c -- the rules one by one, and what they add up to in a simulation.
 *
 * The simulator holds no data. Keys are drawn evenly, so a run is a number of puts and of
 * tombstones among `keys` possible ones, and what is left of an older run under a newer one is
 * known in expectation. Its bounds are figures measured with it (it prints them), plus a fifth.
 */
#include "tests/test.h"

#include "compaction/policy.h"

#define MIB      UINT64_C(1048576)
#define MEMTABLE (64 * MIB)

static struct cairn_policy_run run_of(uint64_t bytes)
{
	return (struct cairn_policy_run){.bytes = bytes, .records = bytes / 100 + 1};
}

static void fill(struct cairn_policy_run *runs, const uint64_t *mebibytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		runs[i] = run_of(mebibytes[i] * MIB);
}

static void assert_job(const struct cairn_policy_run *runs, size_t count, bool at_rest,
    size_t newest, size_t oldest, enum cairn_policy_reason reason)
{
	struct cairn_policy_job job;
	assert_true(cairn_policy_next(runs, count, MEMTABLE, at_rest, &job));
	assert_int_equal(job.reason, reason);
	assert_int_equal(job.newest, newest);
	assert_int_equal(job.oldest, oldest);
}

static void assert_no_job(const struct cairn_policy_run *runs, size_t count, bool at_rest)
{
	struct cairn_policy_job job;
	assert_false(cairn_policy_next(runs, count, MEMTABLE, at_rest, &job));
}

static void the_budget_grows_by_one_for_each_factor_of_four(void **state)
{
	(void)state;
	uint64_t bound = 4; /* in memtables: the first total whose budget is larger */
	size_t budget = 3;
	for (uint64_t total = 1; total < 5000; total++) {
		if (total == bound) {
			bound *= 4;
			budget++;
		}
		assert_int_equal(cairn_policy_budget(total * MEMTABLE, MEMTABLE), budget);
		assert_int_equal(
		    cairn_policy_budget(total * MEMTABLE + MEMTABLE - 1, MEMTABLE), budget);
	}
	assert_int_equal(cairn_policy_budget(0, MEMTABLE), 3);
	assert_int_equal(cairn_policy_budget(MEMTABLE - 1, MEMTABLE), 3);
	assert_int_equal(cairn_policy_budget(0, 0), 3);
}

static void the_budget_never_passes_where_writers_wait(void **state)
{
	(void)state;
	assert_int_equal(cairn_policy_budget(UINT64_MAX, 1), CAIRN_POLICY_RUNS_MAX);
	assert_int_equal(cairn_policy_budget(UINT64_MAX, 0), CAIRN_POLICY_RUNS_MAX);
}

static void within_the_budget_nothing_is_done_under_load(void **state)
{
	(void)state;
	struct cairn_policy_run runs[3];
	fill(runs, (const uint64_t[]){64, 64, 64}, 3);
	assert_no_job(runs, 0, false);
	assert_no_job(runs, 1, false);
	assert_no_job(runs, 2, false);
	assert_no_job(runs, 3, false);
}

static void over_budget_the_deepest_run_that_paid_is_reached(void **state)
{
	(void)state;
	struct cairn_policy_run runs[6];
	fill(runs, (const uint64_t[]){64, 64, 64, 128, 256, 512}, 6);
	assert_job(runs, 6, false, 0, 1, CAIRN_POLICY_BUDGET);
	runs[3].rent = 192 * MIB - 1;
	assert_job(runs, 6, false, 0, 1, CAIRN_POLICY_BUDGET);
	runs[3].rent = 192 * MIB;
	assert_job(runs, 6, false, 0, 3, CAIRN_POLICY_BUDGET);
	runs[5].rent = 768 * MIB;
	assert_job(runs, 6, false, 0, 5, CAIRN_POLICY_BUDGET);
}

static void what_was_rewritten_is_charged_to_older_runs_only(void **state)
{
	(void)state;
	struct cairn_policy_run runs[4] = {{.rent = 1}, {.rent = 2}, {.rent = 3}, {.rent = 4}};
	cairn_policy_charge(runs, 4, 1, 10);
	assert_int_equal(runs[0].rent, 1);
	assert_int_equal(runs[1].rent, 2);
	assert_int_equal(runs[2].rent, 13);
	assert_int_equal(runs[3].rent, 14);
	cairn_policy_charge(runs, 4, 3, 10);
	assert_int_equal(runs[3].rent, 14);
}

static void far_over_budget_the_cheapest_class_goes_first(void **state)
{
	(void)state;
	struct cairn_policy_run runs[12];
	/* 4096 MiB in all: the budget is 6. Classes 0: < 128 MiB, 1: < 512, 2: < 2048. */
	fill(runs, (const uint64_t[]){127, 64, 127, 200, 128, 300, 511, 600, 700, 800, 600}, 11);
	assert_job(runs, 11, false, 3, 6, CAIRN_POLICY_OVERLOAD);
	fill(runs, (const uint64_t[]){64, 32, 127, 1, 128, 300, 511, 600, 700, 800, 600, 200}, 12);
	assert_job(runs, 12, false, 0, 3, CAIRN_POLICY_OVERLOAD);
	/* Nine are not far over; twelve without four of a class in a row are not of one class. */
	assert_job(runs, 8, false, 0, 1, CAIRN_POLICY_BUDGET);
	fill(runs, (const uint64_t[]){64, 64, 64, 200, 64, 64, 64, 200, 64, 64, 64, 200}, 12);
	assert_job(runs, 12, false, 0, 1, CAIRN_POLICY_BUDGET);
}

static void a_run_of_tombstones_goes_where_it_frees_most(void **state)
{
	(void)state;
	struct cairn_policy_run runs[3] = {
	    {.bytes = 10000, .records = 500, .tombstones = 251},
	    {.bytes = 50000, .records = 500},
	    {.bytes = 400000, .records = 4000},
	};
	/* The next older run alone pays: 251 of its records for 60,000 bytes. */
	assert_job(runs, 3, false, 0, 1, CAIRN_POLICY_DEAD);
	runs[0].tombstones = 250;
	assert_no_job(runs, 3, false);
	/* Nothing to hide in run 1, so the oldest is worth it: 900 of 1000. */
	runs[0] = (struct cairn_policy_run){.bytes = 20000, .records = 1000, .tombstones = 900};
	runs[1] = (struct cairn_policy_run){.bytes = 1000, .records = 10};
	runs[2] = (struct cairn_policy_run){.bytes = 100000, .records = 1000};
	assert_job(runs, 3, false, 0, 2, CAIRN_POLICY_DEAD);
}

static void few_tombstones_over_much_data_wait_for_rest(void **state)
{
	(void)state;
	struct cairn_policy_run runs[2] = {
	    {.bytes = 2000, .records = 100, .tombstones = 100},
	    {.bytes = 1000 * MIB, .records = 10 * MIB},
	};
	assert_no_job(runs, 2, false);
	assert_job(runs, 2, true, 0, 1, CAIRN_POLICY_DEAD);
}

static void the_oldest_run_is_rewritten_alone_when_mostly_dead(void **state)
{
	(void)state;
	struct cairn_policy_run runs[2] = {
	    run_of(MIB),
	    {.bytes = 100 * MIB, .records = 1000, .tombstones = 501},
	};
	assert_job(runs, 2, false, 1, 1, CAIRN_POLICY_DEAD);
	runs[1].tombstones = 500;
	assert_no_job(runs, 2, false);
	assert_no_job(runs, 2, true);
}

static void a_single_run_loses_its_last_tombstone_at_rest(void **state)
{
	(void)state;
	struct cairn_policy_run run = {.bytes = 1000, .records = 10, .tombstones = 1};
	assert_no_job(&run, 1, false);
	assert_job(&run, 1, true, 0, 0, CAIRN_POLICY_DEAD);
	run.tombstones = 0;
	assert_no_job(&run, 1, true);
}

static void at_rest_the_smallest_newest_group_restores_the_cascade(void **state)
{
	(void)state;
	struct cairn_policy_run runs[4];
	fill(runs, (const uint64_t[]){1, 4, 16, 64}, 4);
	assert_no_job(runs, 3, true);
	fill(runs, (const uint64_t[]){1, 3, 20, 100}, 4);
	assert_job(runs, 4, true, 0, 1, CAIRN_POLICY_BUDGET);
	assert_job(runs, 3, true, 0, 1, CAIRN_POLICY_REST);
	fill(runs, (const uint64_t[]){1, 9, 20}, 3);
	assert_job(runs, 3, true, 0, 2, CAIRN_POLICY_REST);
	/* The pair that is wrong lies deep: all that is newer goes with it. */
	fill(runs, (const uint64_t[]){1, 32, 80}, 3);
	assert_job(runs, 3, true, 0, 2, CAIRN_POLICY_REST);
	/* A quarter to the byte. */
	runs[0] = run_of(25);
	runs[1] = run_of(100);
	assert_no_job(runs, 2, true);
	runs[0] = run_of(26);
	assert_job(runs, 2, true, 0, 1, CAIRN_POLICY_REST);
	runs[0] = run_of(25);
	runs[1] = run_of(99);
	assert_job(runs, 2, true, 0, 1, CAIRN_POLICY_REST);
}

static void beside_a_running_merge_only_a_class_is_merged(void **state)
{
	(void)state;
	struct cairn_policy_run runs[8];
	fill(runs, (const uint64_t[]){64, 64, 64, 64, 512, 512, 512, 512}, 8);
	runs[6].busy = runs[7].busy = true;
	assert_job(runs, 8, true, 0, 3, CAIRN_POLICY_OVERLOAD);
	runs[3].busy = runs[4].busy = runs[5].busy = true;
	assert_no_job(runs, 8, true);
	/* At rest nothing is restored before the outcome of the merge is known. */
	fill(runs, (const uint64_t[]){64, 64, 64, 64}, 4);
	runs[3].busy = true;
	assert_no_job(runs, 4, true);
}

/* Applies a job in the crudest way; `shadowed` of 256 bytes are lost by merging. */
static size_t apply(struct cairn_policy_run *runs, size_t count, const struct cairn_policy_job *job,
    uint64_t shadowed)
{
	struct cairn_policy_run sum = {0};
	for (size_t i = job->newest; i <= job->oldest; i++) {
		sum.bytes += runs[i].bytes - runs[i].bytes / 256 * shadowed;
		sum.records += runs[i].records;
		sum.tombstones += runs[i].tombstones;
	}
	if (job->oldest == count - 1) {
		sum.records -= sum.tombstones;
		sum.tombstones = 0;
	}
	cairn_policy_charge(runs, count, job->oldest, sum.bytes);
	size_t written = sum.records > 0;
	if (written)
		runs[job->newest] = sum;
	memmove(&runs[job->newest + written], &runs[job->oldest + 1],
	    (count - job->oldest - 1) * sizeof *runs);
	return count - (job->oldest + 1 - job->newest) + written;
}

static size_t random_runs(uint64_t *seed, struct cairn_policy_run *runs)
{
	size_t count = (size_t)(test_random(seed) % 40);
	for (size_t i = 0; i < count; i++) {
		runs[i].records = 1 + test_random(seed) % (UINT64_C(1) << test_random(seed) % 24);
		runs[i].tombstones =
		    test_random(seed) % 3 ? 0 : test_random(seed) % (runs[i].records + 1);
		runs[i].bytes = runs[i].records * (20 + test_random(seed) % 1000);
		runs[i].rent = test_random(seed) % (4 * runs[i].bytes);
		runs[i].busy = false;
	}
	return count;
}

static void busy_runs_are_in_no_job(void **state)
{
	(void)state;
	uint64_t seed = test_seed(1);
	struct cairn_policy_run runs[40];
	size_t jobs = 0;
	for (int round = 0; round < 20000; round++) {
		size_t count = random_runs(&seed, runs);
		for (size_t i = 0; i < count; i++)
			runs[i].busy = test_random(&seed) % 16 == 0;
		struct cairn_policy_job job;
		if (!cairn_policy_next(runs, count, MIB, round % 2, &job))
			continue;
		jobs++;
		assert_true(job.newest <= job.oldest && job.oldest < count);
		assert_true(job.newest < job.oldest || job.oldest == count - 1);
		for (size_t i = job.newest; i <= job.oldest; i++)
			assert_false(runs[i].busy);
	}
	assert_true(jobs > 1000);
}

static void at_rest_any_runs_come_to_the_exact_cascade(void **state)
{
	(void)state;
	uint64_t seed = test_seed(2);
	for (int round = 0; round < 20000; round++) {
		struct cairn_policy_run runs[40];
		size_t count = random_runs(&seed, runs);
		size_t jobs = 0, jobs_max = 2 * count;
		struct cairn_policy_job job;
		while (cairn_policy_next(runs, count, MIB, true, &job)) {
			assert_true(++jobs <= jobs_max);
			count = apply(runs, count, &job, test_random(&seed) % 128);
		}
		for (size_t i = 0; i < count; i++) {
			assert_true(2 * runs[i].tombstones <= runs[i].records);
			assert_true(i + 1 == count || 4 * runs[i].bytes <= runs[i + 1].bytes);
		}
		assert_true(count != 1 || runs[0].tombstones == 0);
	}
}

/* ---- The simulator ---- */

#define SIM_RUNS   512
#define SIM_JOBS   4
#define PUT_BYTES  116.0
#define TOMB_BYTES 20.0

struct sim_run {
	double puts;
	double tombstones;
	uint64_t rent;
	int job; /* index of the running job that it takes part in, -1 = none */
};

struct sim {
	double keys;     /* that exist; 0: every key is new (ascending load) */
	double memtable; /* records */
	struct sim_run run[SIM_RUNS];
	size_t count;
	double left[SIM_JOBS]; /* bytes that running jobs still have to write; the last one works */
	int jobs;
	double flushed; /* bytes */
	double merged;
	double peak; /* bytes on disk: runs, and the output of a merge */
	size_t runs_max;
	double runs_sum;
	size_t samples;
};

static double bytes_of(const struct sim_run *run)
{
	return run->puts * PUT_BYTES + run->tombstones * TOMB_BYTES;
}

/* What a merge of the runs leaves. */
static struct sim_run sim_merged(const struct sim *sim, size_t newest, size_t oldest)
{
	struct sim_run out = {.job = -1};
	for (size_t i = newest; i <= oldest; i++) {
		double shown = sim->keys > 0 ? 1 - (out.puts + out.tombstones) / sim->keys : 1;
		out.puts += sim->run[i].puts * shown;
		out.tombstones += sim->run[i].tombstones * shown;
	}
	if (oldest + 1 == sim->count)
		out.tombstones = 0;
	return out;
}

static double sim_total(const struct sim *sim)
{
	double total = 0;
	for (size_t i = 0; i < sim->count; i++)
		total += bytes_of(&sim->run[i]);
	return total;
}

static void sim_see(struct sim *sim, double output)
{
	double bytes = sim_total(sim) + output;
	if (bytes > sim->peak)
		sim->peak = bytes;
	if (sim->count > sim->runs_max)
		sim->runs_max = sim->count;
	sim->runs_sum += (double)sim->count;
	sim->samples++;
}

static size_t sim_view(const struct sim *sim, struct cairn_policy_run *runs)
{
	assert_true(sim->count <= SIM_RUNS);
	for (size_t i = 0; i < sim->count; i++) {
		const struct sim_run *run = &sim->run[i];
		runs[i] = (struct cairn_policy_run){
		    .bytes = (uint64_t)bytes_of(run),
		    .records = (uint64_t)(run->puts + run->tombstones),
		    .tombstones = (uint64_t)run->tombstones,
		    .rent = run->rent,
		    .busy = run->job >= 0,
		};
	}
	return sim->count;
}

static bool sim_next(const struct sim *sim, bool at_rest, struct cairn_policy_job *job)
{
	struct cairn_policy_run runs[SIM_RUNS];
	size_t count = sim_view(sim, runs);
	return cairn_policy_next(runs, count, (uint64_t)(sim->memtable * PUT_BYTES), at_rest, job);
}

static void sim_replace(struct sim *sim, size_t newest, size_t oldest)
{
	struct sim_run out = sim_merged(sim, newest, oldest);
	double bytes = bytes_of(&out);
	sim_see(sim, bytes);
	sim->merged += bytes;
	for (size_t i = oldest + 1; i < sim->count; i++)
		sim->run[i].rent += (uint64_t)bytes;
	size_t written = out.puts + out.tombstones >= 1;
	if (written)
		sim->run[newest] = out;
	memmove(&sim->run[newest + written], &sim->run[oldest + 1],
	    (sim->count - oldest - 1) * sizeof sim->run[0]);
	sim->count -= oldest + 1 - newest - written;
}

/* Merges that take no time. Returns how many. */
static size_t sim_settle(struct sim *sim, bool at_rest)
{
	struct cairn_policy_job job;
	size_t jobs = 0;
	for (; sim_next(sim, at_rest, &job); jobs++) {
		assert_true(jobs < SIM_RUNS);
		sim_replace(sim, job.newest, job.oldest);
	}
	return jobs;
}

static void sim_flush(struct sim *sim, double puts, double tombstones)
{
	memmove(&sim->run[1], &sim->run[0], sim->count * sizeof sim->run[0]);
	sim->run[0] = (struct sim_run){.puts = puts, .tombstones = tombstones, .job = -1};
	if (sim->count++ == 0)
		sim->run[0].tombstones = 0;
	sim->flushed += bytes_of(&sim->run[0]);
	sim_see(sim, 0);
}

static double sim_amplification(const struct sim *sim)
{
	return (sim->flushed + sim->merged) / sim->flushed;
}

static void sim_print(const struct sim *sim, const char *name)
{
	struct sim_run live = sim_merged(sim, 0, sim->count - 1);
	printf("%s: write amplification %.2f, runs %.1f / %zu, peak space %.2f of live\n", name,
	    sim_amplification(sim), sim->runs_sum / (double)sim->samples, sim->runs_max,
	    sim->peak / bytes_of(&live));
}

static void assert_comes_to_rest(struct sim *sim)
{
	size_t runs = sim->count;
	size_t jobs = sim_settle(sim, true);
	assert_true(jobs <= 2 * runs);
	struct cairn_policy_run view[SIM_RUNS];
	size_t count = sim_view(sim, view);
	for (size_t i = 0; i + 1 < count; i++)
		assert_true(4 * view[i].bytes <= view[i + 1].bytes);
}

static void assert_bounds(
    struct sim *sim, const char *name, double amplification, size_t runs_max, double space)
{
	sim_print(sim, name);
	struct sim_run live = sim_merged(sim, 0, sim->count - 1);
	assert_true(sim_amplification(sim) <= 1.2 * amplification);
	assert_true((double)sim->runs_max <= 1.2 * (double)runs_max);
	assert_true(sim->peak <= 1.2 * space * bytes_of(&live));
	assert_comes_to_rest(sim);
}

/* Overwrites evenly until three times the keys were put. */
static void overwrite_evenly(struct sim *sim, double ratio)
{
	*sim = (struct sim){.memtable = 1e6, .keys = ratio * 1e6};
	for (double put = 0; put < 3 * sim->keys; put += sim->memtable) {
		sim_flush(sim, sim->memtable, 0);
		sim_settle(sim, false);
	}
}

static void even_overwrites_stay_in_bounds(void **state)
{
	(void)state;
	static struct sim sim;
	overwrite_evenly(&sim, 16);
	assert_bounds(&sim, "overwrite, 16 memtables", 2.85, 6, 2.46);
	overwrite_evenly(&sim, 100);
	assert_bounds(&sim, "overwrite, 100 memtables", 4.54, 7, 2.41);
	overwrite_evenly(&sim, 400);
	assert_bounds(&sim, "overwrite, 400 memtables", 6.52, 8, 2.32);
	overwrite_evenly(&sim, 1600);
	assert_bounds(&sim, "overwrite, 1600 memtables", 8.21, 9, 2.24);
}

static void ascending_loads_stay_in_bounds(void **state)
{
	(void)state;
	static struct sim sim;
	sim = (struct sim){.memtable = 1e6};
	for (int i = 0; i < 400; i++) {
		sim_flush(&sim, sim.memtable, 0);
		sim_settle(&sim, false);
	}
	assert_bounds(&sim, "ascending, 400 memtables", 6.35, 8, 1.96);
}

static void tiny_flushes_stay_in_bounds(void **state)
{
	(void)state;
	static struct sim sim;
	uint64_t seed = test_seed(3);
	sim = (struct sim){.memtable = 1e6, .keys = 1e8};
	for (int i = 0; i < 5000; i++) {
		sim_flush(&sim, 1000.0 + (double)(test_random(&seed) % 20000), 0);
		sim_settle(&sim, false);
	}
	assert_bounds(&sim, "flushes of 0.1-2 % of a memtable", 13.3, 6, 2.02);
}

/* 63 % of the keys go, evenly. Merging for their sake alone must not cost more than a few times
 * what is freed. */
static void even_deletes_stay_in_bounds(void **state)
{
	(void)state;
	static struct sim sim;
	overwrite_evenly(&sim, 100);
	sim_settle(&sim, true);
	sim.merged = 0;
	double before = sim_total(&sim);
	for (double deleted = 0; deleted < sim.keys; deleted += sim.memtable) {
		sim_flush(&sim, 0, sim.memtable);
		sim_settle(&sim, false);
	}
	printf("deletes, 100 memtables: rewritten %.2f, left %.2f of what was live\n",
	    sim.merged / before, sim_total(&sim) / before);
	assert_true(sim.merged <= 1.2 * 3.97 * before);
	assert_true(sim_total(&sim) <= 1.2 * 0.37 * before);
	assert_comes_to_rest(&sim);
}

/* Starts the policy's next job, if there is one and it may interrupt the job at work. */
static void sim_start(struct sim *sim)
{
	struct cairn_policy_job job;
	if (sim->jobs == SIM_JOBS || !sim_next(sim, false, &job))
		return;
	struct sim_run out = sim_merged(sim, job.newest, job.oldest);
	double cost = bytes_of(&out);
	if (sim->jobs > 0 && cost > sim->left[sim->jobs - 1] / 2)
		return;
	for (size_t i = job.newest; i <= job.oldest; i++)
		sim->run[i].job = sim->jobs;
	sim->left[sim->jobs++] = cost;
}

/* The job at work is done. */
static void sim_finish(struct sim *sim)
{
	int job = --sim->jobs;
	size_t newest = 0;
	while (sim->run[newest].job != job)
		newest++;
	size_t oldest = newest;
	while (oldest + 1 < sim->count && sim->run[oldest + 1].job == job)
		oldest++;
	sim_replace(sim, newest, oldest);
}

/* Jobs stand on a stack, the newest one is at work: `speed` bytes of output for each byte put. */
static void sim_work(struct sim *sim, double speed)
{
	double power = speed * sim->memtable * PUT_BYTES;
	for (;;) {
		sim_start(sim);
		if (sim->jobs == 0 || power <= 0)
			return;
		double *left = &sim->left[sim->jobs - 1];
		double done = power < *left ? power : *left;
		power -= done;
		*left -= done;
		if (*left > 0)
			return;
		sim_finish(sim);
	}
}

static void a_merger_of_finite_speed_keeps_up(void **state)
{
	(void)state;
	static const struct {
		double speed, amplification;
		size_t runs;
		double space;
	} row[] = {
	    {4, 4.91, 25, 2.89},
	    {6, 5.84, 21, 2.56},
	    {9, 6.21, 17, 2.47},
	    {14, 6.02, 15, 2.45},
	};
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		static struct sim sim;
		sim = (struct sim){.memtable = 1e6, .keys = 4e8};
		for (double put = 0; put < 3 * sim.keys; put += sim.memtable) {
			sim_flush(&sim, sim.memtable, 0);
			sim_work(&sim, row[i].speed);
		}
		sim_work(&sim, 1e9);
		assert_int_equal(sim.jobs, 0);
		char name[64];
		snprintf(
		    name, sizeof name, "overwrite, 400 memtables, merges at %.0fx", row[i].speed);
		assert_bounds(&sim, name, row[i].amplification, row[i].runs, row[i].space);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_budget_grows_by_one_for_each_factor_of_four),
	    cmocka_unit_test(the_budget_never_passes_where_writers_wait),
	    cmocka_unit_test(within_the_budget_nothing_is_done_under_load),
	    cmocka_unit_test(over_budget_the_deepest_run_that_paid_is_reached),
	    cmocka_unit_test(what_was_rewritten_is_charged_to_older_runs_only),
	    cmocka_unit_test(far_over_budget_the_cheapest_class_goes_first),
	    cmocka_unit_test(a_run_of_tombstones_goes_where_it_frees_most),
	    cmocka_unit_test(few_tombstones_over_much_data_wait_for_rest),
	    cmocka_unit_test(the_oldest_run_is_rewritten_alone_when_mostly_dead),
	    cmocka_unit_test(a_single_run_loses_its_last_tombstone_at_rest),
	    cmocka_unit_test(at_rest_the_smallest_newest_group_restores_the_cascade),
	    cmocka_unit_test(beside_a_running_merge_only_a_class_is_merged),
	    cmocka_unit_test(busy_runs_are_in_no_job),
	    cmocka_unit_test(at_rest_any_runs_come_to_the_exact_cascade),
	    cmocka_unit_test(even_overwrites_stay_in_bounds),
	    cmocka_unit_test(ascending_loads_stay_in_bounds),
	    cmocka_unit_test(tiny_flushes_stay_in_bounds),
	    cmocka_unit_test(even_deletes_stay_in_bounds),
	    cmocka_unit_test(a_merger_of_finite_speed_keeps_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
