/*
 * tools/bench/kill.c -- processes that are killed while they write: what is lost of what had been
 * acknowledged, and how long it takes to open the store again (command `kill`).
 *
 * A child writes records 0, 1, 2, ... and counts in shared memory those whose put has returned.
 * It is killed by SIGKILL once it has written about half of them, at another number in each
 * round; synced writes, being slow, a hundredth of that. A second child then opens the store and
 * looks at every record:
 *
 * 1. Those acknowledged should be there: others are lost. A value that was never written is a
 *    wrong answer.
 * 2. The one after the last may be there: its put had not returned. None beyond it may be.
 * 3. What is there should be a prefix: records found behind the first lost one are counted.
 *
 * A loss is a wrong answer where the engine promises that there is none: of synced writes, and of
 * all by those with CAIRN_BENCH_SURVIVES.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/command.h"
#include "tools/bench/report.h"

#define SYNC_PART   100u /* synced, the child gets so much less far */
#define PATIENCE_MS 120000u
#define VERSION     1

struct shared {
	atomic_uint_fast64_t acknowledged;
	uint64_t lost;
	uint64_t behind; /* there, behind the first that is lost */
	double recovery_ms;
};

struct round {
	const struct bench_engine *engine;
	const struct bench_options *options;
	struct bench_keys keys;
	bool sync;
	struct shared *shared;
	void *store;
	void *session;
};

/* Of one engine and mode, over all rounds. */
struct outcome {
	uint64_t acknowledged, lost, behind;
	unsigned refused; /* the store could not be opened again */
	double recovery_ms[CAIRN_BENCH_PASSES];
	unsigned rounds;
};

static int open_store(struct round *round)
{
	const struct bench_options *o = round->options;
	struct bench_place place = {.directory = o->directory,
	    .records = o->records,
	    .key_size = o->key_size,
	    .value_size = o->value_size,
	    .sync_mode = o->sync_mode};
	int rc = round->engine->open(&place, &round->store);
	return rc ? rc : round->engine->session_open(round->store, &round->session);
}

static cairn_slice key_of(const struct round *round, uint64_t record)
{
	static char key[CAIRN_BENCH_KEY_MOST];
	cairn_bench_key(&round->keys, record, key);
	return (cairn_slice){key, round->keys.key_size};
}

/* ---------------------------------------------------------------- the child that writes */

static void write_until_killed(struct round *round)
{
	uint8_t *value = cairn_bench_new(round->keys.value_size + 1);
	int rc = open_store(round);
	for (uint64_t i = 0; !rc && i < round->keys.count; i++) {
		cairn_bench_value(&round->keys, i, VERSION, value);
		rc = round->engine->put(round->session, key_of(round, i),
		    (cairn_slice){value, round->keys.value_size}, round->sync);
		if (!rc)
			atomic_store_explicit(
			    &round->shared->acknowledged, i + 1, memory_order_release);
	}
	if (rc)
		_exit(3);
	for (;;)
		pause();
}

/* Returns when the child has come so far, and was killed. */
static int kill_at(struct round *round, pid_t child, uint64_t target)
{
	int status;
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	while (atomic_load_explicit(&round->shared->acknowledged, memory_order_acquire) < target &&
	       waitpid(child, &status, WNOHANG) == 0) {
		if (cairn_bench_clock(CLOCK_MONOTONIC) - began > PATIENCE_MS * UINT64_C(1000000))
			break;
		usleep(100);
	}
	kill(child, SIGKILL);
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
		return 0;
	return cairn_bench_failed(round->engine->name, "kill", "the child ended by itself");
}

static int write_and_kill(struct round *round, uint64_t target)
{
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		return cairn_bench_failed("kill", "fork", "no process could be made");
	if (child == 0)
		write_until_killed(round);
	return kill_at(round, child, target);
}

/* ---------------------------------------------------------------- the child that looks */

static int wrong(const struct round *round, uint64_t record, const char *what)
{
	fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: after a kill: record %llu: %s\n",
	    round->engine->name, (unsigned long long)record, what);
	return CAIRN_BENCH_WRONG;
}

/* Sets *there; a value that was never written is wrong. */
static int look_at(struct round *round, uint64_t record, uint8_t *expected, bool *there)
{
	cairn_slice value = {0};
	int rc = round->engine->get(round->session, key_of(round, record), &value);
	*there = rc == 0;
	if (rc)
		return rc < 0 ? rc : 0;
	cairn_bench_value(&round->keys, record, VERSION, expected);
	if (value.size == round->keys.value_size &&
	    (!value.size || memcmp(value.data, expected, value.size) == 0))
		return 0;
	return wrong(round, record, "has another value");
}

static int look_at_all(struct round *round, uint8_t *expected)
{
	struct shared *shared = round->shared;
	uint64_t acknowledged = shared->acknowledged;
	bool there;
	int rc = 0;
	for (uint64_t i = 0; !rc && i < acknowledged; i++) {
		rc = look_at(round, i, expected, &there);
		shared->lost += !there;
		shared->behind += there && shared->lost;
	}
	for (uint64_t i = acknowledged; !rc && i < acknowledged + 3; i++) {
		rc = look_at(round, i, expected, &there);
		if (!rc && there && (i > acknowledged || i >= round->keys.count))
			rc = wrong(round, i, "is there, and was not written");
	}
	return rc;
}

static int recover(void *context)
{
	struct round *round = context;
	uint8_t *expected = cairn_bench_new(round->keys.value_size + 1);
	bool there;
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	int rc = open_store(round);
	if (!rc)
		rc = look_at(round, 0, expected, &there);
	round->shared->recovery_ms = (double)(cairn_bench_clock(CLOCK_MONOTONIC) - began) * 1e-6;
	if (!rc)
		rc = look_at_all(round, expected);
	if (!rc) {
		round->engine->session_close(round->session);
		rc = round->engine->close(round->store);
	}
	free(expected);
	return rc;
}

/* ---------------------------------------------------------------- rounds */

static int run_round(struct round *round, unsigned number, struct outcome *outcome)
{
	uint64_t half = round->keys.count / 2;
	uint64_t target = half + cairn_bench_mix(number + 1) % (half / 2 + 1);
	if (round->sync)
		target = target / SYNC_PART + 1;
	memset(round->shared, 0, sizeof *round->shared);
	cairn_bench_remove(round->options->directory);
	if (mkdir(round->options->directory, 0777))
		return cairn_bench_failed("kill", "mkdir", round->options->directory);
	int rc = write_and_kill(round, target);
	if (rc)
		return rc;
	rc = cairn_bench_in_child(recover, round, round->engine->name);
	outcome->acknowledged += round->shared->acknowledged;
	outcome->refused += rc == CAIRN_BENCH_FAILED;
	if (rc)
		return rc == CAIRN_BENCH_FAILED ? 0 : rc;
	outcome->lost += round->shared->lost;
	outcome->behind += round->shared->behind;
	outcome->recovery_ms[outcome->rounds++] = round->shared->recovery_ms;
	return 0;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_outcome(const struct round *round, struct outcome *o)
{
	printf("| %s | %s | %llu | %llu | %llu | %u |", round->engine->name,
	    round->sync ? "on" : "off", (unsigned long long)o->acknowledged,
	    (unsigned long long)o->lost, (unsigned long long)o->behind, o->refused);
	qsort(o->recovery_ms, o->rounds, sizeof *o->recovery_ms, ascending);
	if (o->rounds)
		printf(" %.1f | %.1f |\n", o->recovery_ms[o->rounds / 2],
		    o->recovery_ms[o->rounds - 1]);
	else
		printf(" - | - |\n");
	fflush(stdout);
}

static int run_rounds(struct round *round, unsigned rounds)
{
	struct outcome outcome = {0};
	bool promised = round->sync || round->engine->traits & CAIRN_BENCH_SURVIVES;
	int rc = 0;
	for (unsigned i = 0; !rc && i < rounds; i++) {
		fprintf(stderr, "round %u of %u: %s, sync %s\n", i + 1, rounds, round->engine->name,
		    round->sync ? "on" : "off");
		rc = run_round(round, i, &outcome);
	}
	if (rc)
		return rc;
	print_outcome(round, &outcome);
	return promised && outcome.lost ? CAIRN_BENCH_WRONG : 0;
}

static int run_engines(struct bench_command *command, struct round *round)
{
	const struct bench_series *series = &command->series;
	int worst = 0;
	for (size_t i = 0; i < series->engine_count; i++) {
		round->engine = series->engines[i];
		for (int sync = 0; sync < 2; sync++) {
			if (!(round->engine->traits & CAIRN_BENCH_DURABLE))
				continue;
			round->sync = sync;
			int rc = run_rounds(round, series->passes);
			worst = worst ? worst : rc;
		}
	}
	return worst;
}

int cairn_bench_kill(struct bench_command *command)
{
	const struct bench_options *o = &command->series.options;
	struct round round = {.options = o};
	round.shared = mmap(
	    NULL, sizeof *round.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (round.shared == MAP_FAILED)
		return cairn_bench_failed("kill", "mmap", "memory is short");
	cairn_bench_keys_init(&round.keys, o->seed, o->records, o->key_size, o->value_size);
	cairn_bench_print_environment(stdout, &command->environment);
	printf("\nKilled while writing up to %u records of %zu + %zu bytes, %u rounds each.\n\n"
	       "| engine | sync | acknowledged | lost | there behind the first loss | not opened "
	       "again | recovery ms, median | largest |\n|---|---|--:|--:|--:|--:|--:|--:|\n",
	    o->records, o->key_size, o->value_size, command->series.passes);
	int rc = run_engines(command, &round);
	cairn_bench_keys_release(&round.keys);
	munmap(round.shared, sizeof *round.shared);
	return rc;
}
