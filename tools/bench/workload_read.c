/* tools/bench/workload_read.c -- the workloads that look for records by their keys. */
#include <stdatomic.h>

#include "tools/bench/worker.h"
#include "tools/bench/workload.h"

#define RACE_SECONDS 3.0

static size_t prepare_any(struct bench_worker *worker, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t record = cairn_bench_random(worker) % worker->pass->keys.count;
		cairn_bench_set_entry(
		    worker, i, record, cairn_bench_version(&worker->pass->keys, record));
	}
	return n;
}

static size_t prepare_missing(struct bench_worker *worker, size_t n)
{
	uint32_t count = worker->pass->keys.count;
	for (size_t i = 0; i < n; i++)
		cairn_bench_set_entry(worker, i, count + cairn_bench_random(worker) % count, 0);
	return n;
}

/* Whether the engine's answer is that of the entry. */
static int check(
    struct bench_worker *worker, const struct bench_entry *entry, int result, cairn_slice value)
{
	if (result < 0)
		return result;
	worker->found += result == 0;
	if (!entry->version && !result)
		return cairn_bench_wrong(
		    worker->pass, entry->record, "found, and should not be there");
	if (entry->version && result)
		return cairn_bench_wrong(worker->pass, entry->record, "missing");
	if (entry->version && !cairn_bench_same(value, entry->value))
		return cairn_bench_wrong(worker->pass, entry->record, "has another value");
	return 0;
}

static int perform_get(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct bench_entry *entry = &worker->entries[i];
		cairn_slice value = {0};
		cairn_bench_operation_begin(&worker->tally);
		int result = engine->get(worker->session, entry->key, &value);
		cairn_bench_operation_end(&worker->tally);
		rc = check(worker, entry, result, value);
	}
	return rc;
}

static struct bench_work gets(const struct bench_pass *pass)
{
	return (struct bench_work){.operations = pass->keys.count,
	    .entries = 1,
	    .every = CAIRN_BENCH_SAMPLE_EVERY,
	    .prepare = prepare_any,
	    .perform = perform_get};
}

static int readrandom(struct bench_pass *pass)
{
	struct bench_work work = gets(pass);
	return cairn_bench_run_work(pass, &work, NULL);
}

static int readmissing(struct bench_pass *pass)
{
	struct bench_work work = gets(pass);
	work.prepare = prepare_missing;
	return cairn_bench_run_work(pass, &work, NULL);
}

/* ---------------------------------------------------------------- one moment for all */

static int begin_held(struct bench_worker *worker)
{
	return worker->pass->engine->hold(worker->session);
}

static int end_held(struct bench_worker *worker)
{
	return worker->pass->engine->let_go(worker->session);
}

static int readheld(struct bench_pass *pass)
{
	struct bench_work work = gets(pass);
	if (!pass->engine->hold) {
		pass->phase->state = CAIRN_BENCH_NOT_RUN;
		return 0;
	}
	work.begin = begin_held;
	work.end = end_held;
	return cairn_bench_run_work(pass, &work, NULL);
}

/* ---------------------------------------------------------------- many at once */

struct group {
	struct bench_worker *worker;
	size_t first; /* entry */
	size_t size;
	size_t next; /* that an answer is due for */
};

static int check_one(void *context, size_t i, int result, cairn_slice value)
{
	struct group *group = context;
	const struct bench_entry *entry = &group->worker->entries[group->first + group->next];
	if (i != group->next || i >= group->size)
		return cairn_bench_wrong(
		    group->worker->pass, entry->record, "answered out of turn");
	group->next++;
	return check(group->worker, entry, result, value);
}

/* For engines without such a call. */
static int get_each(const struct bench_engine *engine, struct group *group)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < group->size; i++) {
		cairn_slice value = {0};
		cairn_slice key = group->worker->entries[group->first + i].key;
		int result = engine->get(group->worker->session, key, &value);
		rc = check_one(group, i, result, value);
	}
	return rc;
}

static int get_group(const struct bench_engine *engine, struct group *group)
{
	struct bench_worker *worker = group->worker;
	cairn_slice keys[CAIRN_BENCH_MANY];
	if (!engine->get_many)
		return get_each(engine, group);
	for (size_t i = 0; i < group->size; i++)
		keys[i] = worker->entries[group->first + i].key;
	int rc = engine->get_many(worker->session, keys, group->size, check_one, group);
	if (!rc && group->next < group->size)
		rc = cairn_bench_wrong(worker->pass,
		    worker->entries[group->first + group->next].record, "not answered");
	return rc;
}

static int perform_many(struct bench_worker *worker, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i += CAIRN_BENCH_MANY) {
		struct group group = {
		    worker, i, n - i < CAIRN_BENCH_MANY ? n - i : CAIRN_BENCH_MANY, 0};
		cairn_bench_operation_begin(&worker->tally);
		rc = get_group(worker->pass->engine, &group);
		cairn_bench_operation_end(&worker->tally);
	}
	return rc;
}

static int multireadrandom(struct bench_pass *pass)
{
	struct bench_work work = gets(pass);
	work.perform = perform_many;
	return cairn_bench_run_work(pass, &work, NULL);
}

/* ---------------------------------------------------------------- beside a writer */

/* What was read may be of any version from `low`, acknowledged before the read, to `high`, asked
 * for by its end. */
static int check_range(struct bench_worker *worker, const struct bench_entry *entry, uint8_t low,
    uint8_t high, cairn_slice value)
{
	const struct bench_keys *keys = &worker->pass->keys;
	uint8_t *expected = cairn_bench_spare_value(worker);
	cairn_slice slice = {expected, keys->value_size};
	for (uint8_t version = low ? low : 1; high; version = cairn_bench_next_version(version)) {
		cairn_bench_value(keys, entry->record, version, expected);
		if (cairn_bench_same(value, slice))
			return 0;
		if (version == high)
			break;
	}
	return cairn_bench_wrong(
	    worker->pass, entry->record, "has a value that was neither there nor being written");
}

static int check_racing(struct bench_worker *worker, const struct bench_entry *entry, uint8_t low,
    int result, cairn_slice value)
{
	if (result < 0)
		return result;
	worker->found += result == 0;
	if (result)
		return low ? cairn_bench_wrong(worker->pass, entry->record, "missing") : 0;
	if (low && low == entry->version && cairn_bench_same(value, entry->value))
		return 0;
	uint8_t high =
	    atomic_load_explicit(&worker->pass->keys.asked[entry->record], memory_order_acquire);
	return check_range(worker, entry, low, high, value);
}

static int perform_racing(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct bench_entry *entry = &worker->entries[i];
		cairn_slice value = {0};
		uint8_t low = cairn_bench_version(&worker->pass->keys, entry->record);
		cairn_bench_operation_begin(&worker->tally);
		int result = engine->get(worker->session, entry->key, &value);
		cairn_bench_operation_end(&worker->tally);
		rc = check_racing(worker, entry, low, result, value);
	}
	return rc;
}

static int readwhilewriting(struct bench_pass *pass)
{
	struct bench_work work = gets(pass);
	work.operations = UINT64_MAX;
	work.each = true;
	work.seconds = RACE_SECONDS;
	work.perform = perform_racing;
	return cairn_bench_overwrite_beside(pass, &work);
}

const struct bench_workload cairn_bench_read_workloads[] = {
    {.name = "readrandom",
	.summary = "N gets of keys drawn from all, each as of now",
	.kind = CAIRN_BENCH_READS,
	.run = readrandom},
    {.name = "readheld",
	.summary = "the same, all as of one moment (a view, transaction or snapshot)",
	.kind = CAIRN_BENCH_READS,
	.run = readheld},
    {.name = "readmissing",
	.summary = "N gets of keys that were never written, and lie between the others",
	.kind = CAIRN_BENCH_READS,
	.run = readmissing},
    {.name = "multireadrandom",
	.summary = "N gets, 16 in a call; latencies are of a call",
	.kind = CAIRN_BENCH_READS,
	.run = multireadrandom},
    {.name = "readwhilewriting",
	.summary = "gets for 3 seconds, while one more thread overwrites as fast as it can",
	.kind = CAIRN_BENCH_READS,
	.needs = CAIRN_BENCH_CONCURRENT,
	.run = readwhilewriting},
    {.name = NULL},
};
