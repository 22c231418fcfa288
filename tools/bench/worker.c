/* tools/bench/worker.c -- see worker.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/bench/worker.h"

#define BLOCK_BYTES \
	((size_t)256 << 10) /* of keys and values in a block: the second cache's share */

uint64_t cairn_bench_random(struct bench_worker *worker)
{
	worker->random += UINT64_C(0x9e3779b97f4a7c15);
	return cairn_bench_mix(worker->random);
}

static size_t entry_bytes(const struct bench_worker *worker)
{
	return worker->pass->keys.key_size + worker->pass->keys.value_size;
}

uint8_t *cairn_bench_spare_value(const struct bench_worker *worker)
{
	return worker->bytes + CAIRN_BENCH_ENTRIES * entry_bytes(worker);
}

void cairn_bench_set_entry(struct bench_worker *worker, size_t i, uint64_t record, uint8_t version)
{
	const struct bench_keys *keys = &worker->pass->keys;
	uint8_t *key = worker->bytes + i * entry_bytes(worker), *value = key + keys->key_size;
	cairn_bench_key(keys, record, (char *)key);
	if (version)
		cairn_bench_value(keys, record, version, value);
	worker->entries[i] = (struct bench_entry){.record = record,
	    .key = {key, keys->key_size},
	    .value = {value, version ? keys->value_size : 0},
	    .version = version};
}

/* ---------------------------------------------------------------- one thread */

static void init_worker(struct bench_worker *worker, struct bench_pass *pass,
    const struct bench_work *work, unsigned number, unsigned threads)
{
	uint64_t records = pass->keys.count;
	*worker =
	    (struct bench_worker){.pass = pass, .work = work, .number = number, .threads = threads};
	worker->random = cairn_bench_mix(pass->keys.seed ^ ((uint64_t)pass->phase_number << 32)) +
			 number * UINT64_C(0x632be59bd9b4e019);
	worker->from = records * number / threads;
	worker->count = records * (number + 1) / threads - worker->from;
	worker->share = work->each ? work->operations
				   : work->operations * (number + 1) / threads -
					 work->operations * number / threads;
	worker->entries = cairn_bench_new(CAIRN_BENCH_ENTRIES * sizeof *worker->entries);
	worker->bytes =
	    cairn_bench_new(CAIRN_BENCH_ENTRIES * entry_bytes(worker) + pass->keys.value_size + 1);
	cairn_bench_tally_start(&worker->tally, work->every);
}

static void release_worker(struct bench_worker *worker)
{
	free(worker->entries);
	free(worker->bytes);
}

static size_t block_most(const struct bench_worker *worker)
{
	if (worker->work->batch)
		return CAIRN_BENCH_BATCH;
	size_t fit = BLOCK_BYTES / (entry_bytes(worker) * worker->work->entries);
	size_t most = CAIRN_BENCH_ENTRIES / worker->work->entries;
	if (most > CAIRN_BENCH_BLOCK && !worker->work->short_operations)
		most = CAIRN_BENCH_BLOCK;
	return fit < 1 ? 1 : fit < most ? fit : most;
}

/* A workload that lasts a given time is not capped, though a cap may shorten it. */
static bool should_end(struct bench_worker *worker, uint64_t began)
{
	double limit = worker->work->seconds, cap = worker->pass->options->cap;
	uint64_t now = cairn_bench_clock(CLOCK_MONOTONIC);
	if (worker->done == worker->share || (worker->stop && atomic_load(worker->stop)))
		return true;
	if (limit > 0)
		return (double)(now - began) >= 1e9 * (cap > 0 && cap < limit ? cap : limit);
	worker->capped = cap > 0 && (double)worker->tally.all_wall_ns >= cap * 1e9;
	return worker->capped;
}

static int do_blocks(struct bench_worker *worker)
{
	const struct bench_work *work = worker->work;
	size_t most = block_most(worker);
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	int rc = 0;
	while (!rc && !should_end(worker, began)) {
		uint64_t left = worker->share - worker->done;
		size_t n = work->prepare(worker, left < most ? (size_t)left : most);
		cairn_bench_block_begin(&worker->tally);
		rc = work->perform(worker, n);
		cairn_bench_block_end(&worker->tally, n);
		worker->done += n;
		if (n == 0)
			break;
	}
	return rc;
}

static void do_work(struct bench_worker *worker)
{
	const struct bench_work *work = worker->work;
	uint64_t cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	worker->rc = work->begin ? work->begin(worker) : 0;
	if (!worker->rc)
		worker->rc = do_blocks(worker);
	int ended = work->end ? work->end(worker) : 0;
	if (!worker->rc)
		worker->rc = ended;
	worker->harness_cpu_ns = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
	worker->harness_cpu_ns -= worker->tally.all_cpu_ns;
}

static void *run_thread(void *context)
{
	struct bench_worker *worker = context;
	const struct bench_engine *engine = worker->pass->engine;
	worker->rc = engine->session_open(worker->pass->store, &worker->session);
	if (worker->rc)
		return NULL;
	do_work(worker);
	engine->session_close(worker->session);
	return NULL;
}

static void start_thread(struct bench_worker *worker)
{
	if (pthread_create(&worker->thread, NULL, run_thread, worker)) {
		fputs("cairn-bench: a thread could not be started\n", stderr);
		exit(3);
	}
}

/* ---------------------------------------------------------------- all threads */

/* One worker does its share in this thread, several each in their own. */
static int run_workers(struct bench_worker *workers, unsigned count)
{
	int rc = 0;
	if (count == 1) {
		workers[0].session = workers[0].pass->session;
		do_work(&workers[0]);
		return workers[0].rc;
	}
	for (unsigned i = 0; i < count; i++)
		start_thread(&workers[i]);
	for (unsigned i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		rc = rc ? rc : workers[i].rc;
	}
	return rc;
}

static void add_rates(struct bench_rates *rates, const struct bench_worker *workers, unsigned count)
{
	uint64_t cpu = 0, operations = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct bench_tally *t = &workers[i].tally;
		rates->operations += t->all_operations;
		operations += t->operations;
		cpu += t->cpu_ns;
		if (t->wall_ns)
			rates->wall += (double)t->operations * 1e9 / (double)t->wall_ns;
		if (t->cpu_ns)
			rates->cpu += (double)t->operations * 1e9 / (double)t->cpu_ns;
	}
	if (operations)
		rates->cpu_ns = (double)cpu / (double)operations;
}

static void add_latencies(struct bench_phase *phase, const struct bench_worker *worker)
{
	const struct bench_tally *t = &worker->tally;
	cairn_bench_histogram_merge(&phase->latency, &t->latency);
	phase->found += worker->found;
	if ((double)t->longest_block_ns * 1e-9 > phase->longest_block)
		phase->longest_block = (double)t->longest_block_ns * 1e-9;
	if ((double)t->all_wall_ns * 1e-9 > phase->timed_seconds)
		phase->timed_seconds = (double)t->all_wall_ns * 1e-9;
	if (worker->capped)
		phase->state = CAIRN_BENCH_CAPPED;
}

static void settle(struct bench_pass *pass, const struct bench_usage *before,
    const struct bench_worker *workers, unsigned count)
{
	struct bench_phase *phase = pass->phase;
	struct bench_usage after;
	uint64_t harness = 0, operations = 0;
	cairn_bench_usage(&after);
	for (unsigned i = 0; i < count; i++) {
		harness += workers[i].harness_cpu_ns;
		operations += workers[i].done;
		phase->user_bytes += workers[i].done * workers[i].work->user_bytes;
	}
	uint64_t cpu = after.cpu_ns - before->cpu_ns;
	if (operations && cpu > harness)
		phase->process_cpu_ns = (double)(cpu - harness) / (double)operations;
	pass->user_bytes += phase->user_bytes;
}

/* What a cap left out of a fill is loaded by batches, so that later workloads find it. */
static int complete(struct bench_pass *pass, struct bench_worker *worker)
{
	struct bench_work rest = *worker->work;
	rest.batch = true;
	rest.sync = false;
	worker->work = &rest;
	worker->session = pass->session;
	int rc = 0;
	while (!rc && worker->done < worker->share) {
		uint64_t left = worker->share - worker->done;
		size_t n = rest.prepare(
		    worker, left < CAIRN_BENCH_BATCH ? (size_t)left : CAIRN_BENCH_BATCH);
		rc = rest.perform(worker, n);
		worker->done += n;
		pass->phase->user_bytes += n * rest.user_bytes;
		pass->user_bytes += n * rest.user_bytes;
	}
	return rc;
}

/* Where only one may write, one does. */
static unsigned threads_for(const struct bench_pass *pass, const struct bench_work *work)
{
	bool one = work->user_bytes && !(pass->engine->traits & CAIRN_BENCH_CONCURRENT);
	return one ? 1 : pass->options->threads;
}

int cairn_bench_run_work(
    struct bench_pass *pass, const struct bench_work *work, const struct bench_work *beside)
{
	unsigned threads = threads_for(pass, work);
	struct bench_worker *workers = cairn_bench_new((threads + 1) * sizeof *workers);
	struct bench_worker *extra = &workers[threads];
	struct bench_usage before;
	atomic_bool stop = false;
	for (unsigned i = 0; i < threads; i++)
		init_worker(&workers[i], pass, work, i, threads);
	if (beside) {
		init_worker(extra, pass, beside, 0, 1);
		extra->random += 1; /* not the records that a reader looks for */
		extra->stop = &stop;
	}
	cairn_bench_usage(&before);
	if (beside)
		start_thread(extra);
	int rc = run_workers(workers, threads);
	if (beside) {
		atomic_store(&stop, true);
		pthread_join(extra->thread, NULL);
		rc = rc ? rc : extra->rc;
		add_rates(&pass->phase->writer, extra, 1);
	}
	add_rates(&pass->phase->rates, workers, threads);
	settle(pass, &before, workers, threads + (beside != NULL));
	for (unsigned i = 0; i < threads; i++)
		add_latencies(pass->phase, &workers[i]);
	for (unsigned i = 0; !rc && work->complete && i < threads; i++)
		rc = complete(pass, &workers[i]);
	for (unsigned i = 0; i < threads + (beside != NULL); i++)
		release_worker(&workers[i]);
	free(workers);
	return rc;
}
