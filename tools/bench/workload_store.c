/* tools/bench/workload_store.c -- the workloads that do one thing to the store as a whole. */
#include "tools/bench/workload.h"

/* What happened since `wall` and `cpu` was one operation. */
static void count_once(struct bench_pass *pass, uint64_t wall, uint64_t cpu)
{
	struct bench_phase *phase = pass->phase;
	double seconds = (double)(cairn_bench_clock(CLOCK_MONOTONIC) - wall) * 1e-9;
	double used = (double)(cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - cpu);
	phase->timed_seconds = seconds;
	phase->rates = (struct bench_rates){.operations = 1,
	    .wall = seconds > 0 ? 1 / seconds : 0,
	    .cpu = used > 0 ? 1e9 / used : 0,
	    .cpu_ns = used};
}

static int time_once(struct bench_pass *pass, int (*call)(void *session))
{
	uint64_t wall = cairn_bench_clock(CLOCK_MONOTONIC);
	uint64_t cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	int rc = call(pass->session);
	count_once(pass, wall, cpu);
	return rc;
}

static int wait_for_rest(struct bench_pass *pass)
{
	return time_once(pass, pass->engine->rest);
}

static int compact(struct bench_pass *pass)
{
	return time_once(pass, pass->engine->compact);
}

/* Nothing is measured. */
static int print_statistics(struct bench_pass *pass)
{
	pass->phase->state = CAIRN_BENCH_NOT_RUN;
	if (!pass->engine->print_statistics)
		return 0;
	fprintf(stderr, "%s: ", pass->engine->name);
	return pass->engine->print_statistics(pass->session, stderr);
}

/* The first record that should be there, or the first that was never written. */
static int get_first(struct bench_pass *pass)
{
	const struct bench_keys *keys = &pass->keys;
	char key[CAIRN_BENCH_KEY_MOST];
	cairn_slice value = {0};
	uint64_t record = 0;
	while (record < keys->count && !keys->version[record])
		record++;
	cairn_bench_key(keys, record, key);
	int rc = pass->engine->get(pass->session, (cairn_slice){key, keys->key_size}, &value);
	if (rc < 0)
		return rc;
	if (rc != (record < keys->count ? 0 : CAIRN_BENCH_ABSENT))
		return cairn_bench_wrong(pass, record, "missing after reopening, or found");
	return 0;
}

static int reopen(struct bench_pass *pass)
{
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	int rc = cairn_bench_pass_close(pass);
	uint64_t wall = cairn_bench_clock(CLOCK_MONOTONIC);
	uint64_t cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	pass->phase->close_seconds = (double)(wall - began) * 1e-9;
	if (!rc)
		rc = cairn_bench_pass_open(pass);
	if (!rc)
		rc = get_first(pass);
	count_once(pass, wall, cpu);
	return rc;
}

const struct bench_workload cairn_bench_store_workloads[] = {
    {.name = "wait",
	.summary = "flushes, and waits until no work is left to do",
	.kind = CAIRN_BENCH_ONCE,
	.run = wait_for_rest},
    {.name = "compact",
	.summary = "all work that can be done for reads: one run, all levels merged, ...",
	.kind = CAIRN_BENCH_ONCE,
	.run = compact},
    {.name = "reopen",
	.summary = "closes the store; timed: opens it and gets a record",
	.kind = CAIRN_BENCH_ONCE,
	.needs = CAIRN_BENCH_FILES,
	.run = reopen},
    {.name = "stat",
	.summary = "what the engine says of itself, on standard error",
	.kind = CAIRN_BENCH_ONCE,
	.run = print_statistics},
    {.name = NULL},
};
