/* tools/bench/workload_scan.c -- the workloads that walk over records in key order. */
#include "tools/bench/worker.h"
#include "tools/bench/workload.h"

#define SEEN (1u + 10u) /* records that a seek looks at: the one it finds, and 10 next */

/* Compares the record under the cursor with the entry. */
static int check(struct bench_worker *worker, const struct bench_entry *entry, int result)
{
	cairn_slice key, value;
	if (result < 0)
		return result;
	if (result)
		return cairn_bench_wrong(worker->pass, entry->record, "the walk ends before it");
	int rc = worker->pass->engine->record(worker->cursor, &key, &value);
	if (rc)
		return rc;
	worker->found++;
	if (!cairn_bench_same(key, entry->key))
		return cairn_bench_wrong(
		    worker->pass, entry->record, "another key stands where this should");
	if (!cairn_bench_same(value, entry->value))
		return cairn_bench_wrong(worker->pass, entry->record, "has another value");
	return 0;
}

static int check_end(struct bench_worker *worker, int result)
{
	if (result)
		return result < 0 ? result : 0;
	return cairn_bench_wrong(
	    worker->pass, 0, "(and all others were seen:) the walk does not end");
}

static int begin_cursor(struct bench_worker *worker)
{
	return worker->pass->engine->cursor_open(worker->session, &worker->cursor);
}

static int end_cursor(struct bench_worker *worker)
{
	if (worker->cursor)
		worker->pass->engine->cursor_close(worker->cursor);
	worker->cursor = NULL;
	return 0;
}

/* ---------------------------------------------------------------- seeks */

/* Entry 0 of the SEEN + 1 of each seek has the key to look for, those behind it what is there. */
static size_t prepare_seeks(struct bench_worker *worker, size_t n)
{
	const struct bench_keys *keys = &worker->pass->keys;
	for (size_t i = 0; i < n; i++) {
		size_t entry = i * (SEEN + 1);
		uint64_t rank = cairn_bench_random(worker) % keys->count;
		worker->lengths[i] = 0;
		cairn_bench_set_entry(worker, entry, keys->order[rank], 0);
		for (; rank < keys->count && worker->lengths[i] < SEEN; rank++) {
			uint8_t version = cairn_bench_version(keys, keys->order[rank]);
			if (version)
				cairn_bench_set_entry(worker, entry + ++worker->lengths[i],
				    keys->order[rank], version);
		}
	}
	return n;
}

static int seek_and_walk(
    struct bench_worker *worker, const struct bench_entry *entries, size_t length)
{
	const struct bench_engine *engine = worker->pass->engine;
	int rc = engine->seek(worker->cursor, entries[0].key);
	for (size_t i = 1; i <= length; i++) {
		rc = check(worker, &entries[i], rc);
		if (rc)
			return rc;
		if (i < SEEN)
			rc = engine->next(worker->cursor);
	}
	return length < SEEN ? check_end(worker, rc) : 0;
}

static int perform_seeks(struct bench_worker *worker, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_bench_operation_begin(&worker->tally);
		rc = seek_and_walk(worker, &worker->entries[i * (SEEN + 1)], worker->lengths[i]);
		cairn_bench_operation_end(&worker->tally);
	}
	return rc;
}

static int perform_new_seeks(struct bench_worker *worker, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_bench_operation_begin(&worker->tally);
		rc = begin_cursor(worker);
		if (!rc)
			rc = seek_and_walk(
			    worker, &worker->entries[i * (SEEN + 1)], worker->lengths[i]);
		end_cursor(worker);
		cairn_bench_operation_end(&worker->tally);
	}
	return rc;
}

static int run_seeks(struct bench_pass *pass, bool held)
{
	struct bench_work work = {.operations = pass->keys.count,
	    .entries = SEEN + 1,
	    .every = CAIRN_BENCH_SAMPLE_EVERY,
	    .prepare = prepare_seeks,
	    .perform = held ? perform_seeks : perform_new_seeks,
	    .begin = held ? begin_cursor : NULL,
	    .end = held ? end_cursor : NULL};
	cairn_bench_order(&pass->keys);
	return cairn_bench_run_work(pass, &work, NULL);
}

static int seekrandom(struct bench_pass *pass)
{
	return run_seeks(pass, false);
}

static int seekheld(struct bench_pass *pass)
{
	return run_seeks(pass, true);
}

/* ---------------------------------------------------------------- all of it */

/* The next n records that should be there. None: the walk should be at its end. */
static size_t prepare_walk(struct bench_worker *worker, size_t n, bool forward)
{
	const struct bench_keys *keys = &worker->pass->keys;
	size_t i = 0;
	for (; i < n && worker->rank < keys->count; worker->rank++) {
		uint64_t at = forward ? worker->rank : keys->count - 1 - worker->rank;
		uint8_t version = cairn_bench_version(keys, keys->order[at]);
		if (version)
			cairn_bench_set_entry(worker, i++, keys->order[at], version);
	}
	return i;
}

static size_t prepare_forward(struct bench_worker *worker, size_t n)
{
	return prepare_walk(worker, n, true);
}

static size_t prepare_backward(struct bench_worker *worker, size_t n)
{
	return prepare_walk(worker, n, false);
}

static int perform_walk(
    struct bench_worker *worker, size_t n, int (*start)(void *cursor), int (*move)(void *cursor))
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_bench_operation_begin(&worker->tally);
		rc = worker->done + i ? move(worker->cursor) : start(worker->cursor);
		rc = check(worker, &worker->entries[i], rc);
		cairn_bench_operation_end(&worker->tally);
	}
	if (n)
		return rc;
	return check_end(worker, worker->done ? move(worker->cursor) : start(worker->cursor));
}

static int perform_forward(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	return perform_walk(worker, n, engine->first, engine->next);
}

static int perform_backward(struct bench_worker *worker, size_t n)
{
	const struct bench_engine *engine = worker->pass->engine;
	return perform_walk(worker, n, engine->last, engine->prev);
}

/* One more than there are, to come to the end. */
static int run_walk(struct bench_pass *pass, bool forward)
{
	struct bench_work work = {.operations = (uint64_t)pass->keys.count + 1,
	    .each = true,
	    .short_operations = true,
	    .entries = 1,
	    .every = CAIRN_BENCH_SAMPLE_EVERY,
	    .prepare = forward ? prepare_forward : prepare_backward,
	    .perform = forward ? perform_forward : perform_backward,
	    .begin = begin_cursor,
	    .end = end_cursor};
	cairn_bench_order(&pass->keys);
	return cairn_bench_run_work(pass, &work, NULL);
}

static int readseq(struct bench_pass *pass)
{
	return run_walk(pass, true);
}

static int readreverse(struct bench_pass *pass)
{
	return run_walk(pass, false);
}

const struct bench_workload cairn_bench_scan_workloads[] = {
    {.name = "seekrandom",
	.summary = "N times: a new cursor, seek to a key drawn from all, 10 next",
	.kind = CAIRN_BENCH_READS,
	.needs = CAIRN_BENCH_ORDERED,
	.run = seekrandom},
    {.name = "seekheld",
	.summary = "the same with one cursor for all",
	.kind = CAIRN_BENCH_READS,
	.needs = CAIRN_BENCH_ORDERED,
	.run = seekheld},
    {.name = "readseq",
	.summary = "all records in the order of their keys",
	.kind = CAIRN_BENCH_READS,
	.needs = CAIRN_BENCH_ORDERED,
	.run = readseq},
    {.name = "readreverse",
	.summary = "all records in the opposite order",
	.kind = CAIRN_BENCH_READS,
	.needs = CAIRN_BENCH_ORDERED,
	.run = readreverse},
    {.name = NULL},
};
