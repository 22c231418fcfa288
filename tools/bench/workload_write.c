/* tools/bench/workload_write.c -- the workloads that write. */
#include <stdatomic.h>

#include "tools/bench/worker.h"
#include "tools/bench/workload.h"

#define SYNC_PART  100u /* fillsync writes one record in so many */
#define SYNC_LEAST 100u

/* The next version of the record becomes entry `i`. */
static void ask(struct bench_worker *worker, size_t i, uint64_t record)
{
	_Atomic uint8_t *asked = &worker->pass->keys.asked[record];
	uint8_t version =
	    cairn_bench_next_version(atomic_load_explicit(asked, memory_order_relaxed));
	atomic_store_explicit(asked, version, memory_order_release);
	cairn_bench_set_entry(worker, i, record, version);
}

static void acknowledge(struct bench_worker *worker, const struct bench_entry *entry)
{
	atomic_store_explicit(
	    &worker->pass->keys.version[entry->record], entry->version, memory_order_release);
}

static size_t prepare_any_order(struct bench_worker *worker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ask(worker, i, worker->from + worker->done + i);
	return n;
}

static size_t prepare_key_order(struct bench_worker *worker, size_t n)
{
	const uint32_t *order = worker->pass->keys.order;
	for (size_t i = 0; i < n; i++)
		ask(worker, i, order[worker->from + worker->done + i]);
	return n;
}

static size_t prepare_overwrite(struct bench_worker *worker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ask(worker, i, worker->from + cairn_bench_random(worker) % worker->count);
	return n;
}

static size_t prepare_delete(struct bench_worker *worker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cairn_bench_set_entry(
		    worker, i, worker->from + cairn_bench_random(worker) % worker->count, 0);
	return n;
}

static int write_each(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	for (size_t i = 0; i < n; i++) {
		const struct bench_entry *entry = &worker->entries[i];
		cairn_bench_operation_begin(&worker->tally);
		int rc = engine->put(worker->session, entry->key, entry->value, worker->work->sync);
		cairn_bench_operation_end(&worker->tally);
		if (rc)
			return rc;
		acknowledge(worker, entry);
	}
	return 0;
}

static int write_batch(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	int rc = 0;
	cairn_bench_operation_begin(&worker->tally);
	for (size_t i = 0; !rc && i < n; i++)
		rc = engine->add(worker->session, worker->entries[i].key, worker->entries[i].value);
	if (!rc)
		rc = engine->commit(worker->session, worker->work->sync);
	cairn_bench_operation_end(&worker->tally);
	for (size_t i = 0; !rc && i < n; i++)
		acknowledge(worker, &worker->entries[i]);
	return rc;
}

static int perform_write(struct bench_worker *worker, size_t n)
{
	return worker->work->batch ? write_batch(worker, n) : write_each(worker, n);
}

static int perform_delete(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	for (size_t i = 0; i < n; i++) {
		const struct bench_entry *entry = &worker->entries[i];
		cairn_bench_operation_begin(&worker->tally);
		int rc = engine->remove(worker->session, entry->key);
		cairn_bench_operation_end(&worker->tally);
		if (rc)
			return rc;
		worker->pass->keys.asked[entry->record] = 0;
		acknowledge(worker, entry);
	}
	return 0;
}

/* What static engines do at the end of their fill is part of its time. */
static int end_fill(struct bench_worker *worker)
{
	const struct bench_engine *engine = worker->pass->engine;
	if (!engine->finish || worker->rc)
		return 0;
	worker->tally.blocks = 0; /* a block that gives rates */
	cairn_bench_block_begin(&worker->tally);
	int rc = engine->finish(worker->session);
	cairn_bench_block_end(&worker->tally, 0);
	return rc;
}

static size_t record_bytes(const struct bench_pass *pass)
{
	return pass->keys.key_size + pass->keys.value_size;
}

static struct bench_work fill(const struct bench_pass *pass)
{
	return (struct bench_work){.operations = pass->keys.count,
	    .complete = !pass->engine->finish,
	    .entries = 1,
	    .every = CAIRN_BENCH_SAMPLE_EVERY,
	    .user_bytes = record_bytes(pass),
	    .prepare = prepare_any_order,
	    .perform = perform_write,
	    .end = end_fill};
}

static int fillrandom(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	return cairn_bench_run_work(pass, &work, NULL);
}

static int fillseq(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	work.prepare = prepare_key_order;
	cairn_bench_order(&pass->keys);
	return cairn_bench_run_work(pass, &work, NULL);
}

static int fillbatch(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	work.batch = true;
	work.every = 1;
	return cairn_bench_run_work(pass, &work, NULL);
}

static int fillsync(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	uint64_t part = pass->keys.count / SYNC_PART;
	work.operations = part < SYNC_LEAST ? SYNC_LEAST : part;
	if (work.operations > pass->keys.count)
		work.operations = pass->keys.count;
	work.sync = true;
	work.every = 1;
	work.complete = false;
	return cairn_bench_run_work(pass, &work, NULL);
}

static int overwrite(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	work.prepare = prepare_overwrite;
	work.complete = false;
	return cairn_bench_run_work(pass, &work, NULL);
}

static int deleterandom(struct bench_pass *pass)
{
	struct bench_work work = fill(pass);
	work.prepare = prepare_delete;
	work.perform = perform_delete;
	work.complete = false;
	work.user_bytes = pass->keys.key_size;
	return cairn_bench_run_work(pass, &work, NULL);
}

int cairn_bench_overwrite_beside(struct bench_pass *pass, const struct bench_work *readers)
{
	struct bench_work work = fill(pass);
	work.operations = UINT64_MAX;
	work.prepare = prepare_overwrite;
	work.complete = false;
	return cairn_bench_run_work(pass, readers, &work);
}

const struct bench_workload cairn_bench_write_workloads[] = {
    {.name = "fillseq",
	.summary = "a new store; N puts, in the order of the keys",
	.fresh = true,
	.run = fillseq},
    {.name = "fillrandom",
	.summary = "a new store; N puts of distinct keys, in no order",
	.fresh = true,
	.run = fillrandom},
    {.name = "fillbatch",
	.summary = "the same, 1000 in a batch; latencies are of a batch",
	.fresh = true,
	.run = fillbatch},
    {.name = "fillsync",
	.summary = "a new store; N/100 puts, durable one by one",
	.needs = CAIRN_BENCH_DURABLE,
	.fresh = true,
	.run = fillsync},
    {.name = "overwrite",
	.summary = "N puts of keys drawn from all",
	.not_for = CAIRN_BENCH_STATIC,
	.run = overwrite},
    {.name = "deleterandom",
	.summary = "N deletes of keys drawn from all, some more than once",
	.not_for = CAIRN_BENCH_STATIC,
	.run = deleterandom},
    {.name = NULL},
};
