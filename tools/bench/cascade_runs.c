/* tools/bench/cascade_runs.c -- see cascade_runs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/bytes.h"
#include "format/error.h"
#include "format/filename.h"
#include "tools/bench/cascade_runs.h"
#include "tools/bench/engine.h"
#include "tools/bench/keys.h"
#include "tools/bench/process.h"
#include "tools/bench/reader_io.h"

#define MEMTABLE_BYTES ((size_t)8 << 30) /* no run may be flushed before it is whole */
#define FILES_MOST     64u /* numbers that a store of this age can have given to files */

void cairn_bench_run_key(const struct bench_runs *runs, uint64_t i, uint8_t *key)
{
	char text[CAIRN_BENCH_RUN_KEY + 16];
	if (runs->structured) {
		snprintf(text, sizeof text, "user:%07u:nam", (unsigned)(i % 10000000));
		memcpy(key, text, CAIRN_BENCH_RUN_KEY);
		return;
	}
	uint64_t noise = cairn_bench_mix(i + runs->seed + 1);
	cairn_put64(key, noise);
	cairn_put64(key + 8, cairn_bench_mix(noise));
}

static int failed(const char *call)
{
	return cairn_bench_failed("cascade", call, cairn_error_text());
}

/* ---------------------------------------------------------------- making */

int cairn_bench_runs_store(const struct bench_runs *runs, cairn **db)
{
	cairn_options options;
	cairn_options_init(&options);
	options.sync_mode = CAIRN_SYNC_NONE;
	options.no_background = 1;
	options.memtable_bytes = MEMTABLE_BYTES;
	return cairn_open(runs->directory, &options, db) ? failed("cairn_open") : 0;
}

/* Run `age`, of which 0 is the oldest, has a record of the oldest with a chance of 1 in 4^age. */
static bool has(const struct bench_runs *runs, uint64_t i, unsigned age)
{
	uint64_t noise = cairn_bench_mix(i + (runs->seed << 32) + ((uint64_t)age << 56));
	return (noise & ((UINT64_C(1) << 2 * age) - 1)) == 0;
}

static int put_run(const struct bench_runs *runs, cairn *db, unsigned age)
{
	static uint8_t value[CAIRN_BENCH_VALUE_TO];
	uint8_t key[CAIRN_BENCH_RUN_KEY];
	int rc = 0;
	for (uint64_t i = 0; !rc && i < runs->count; i++) {
		if (!has(runs, i, age))
			continue;
		cairn_bench_run_key(runs, i, key);
		memset(value, (int)(i + age), runs->value_size);
		rc = cairn_put(
		    db, (cairn_slice){key, sizeof key}, (cairn_slice){value, runs->value_size}, 0);
	}
	return rc ? failed("cairn_put") : 0;
}

int cairn_bench_runs_make(struct bench_runs *runs)
{
	cairn *db;
	int rc = cairn_bench_runs_store(runs, &db);
	if (rc)
		return rc;
	for (unsigned age = 0; !rc && age < CAIRN_BENCH_RUNS; age++) {
		rc = put_run(runs, db, age);
		uint64_t before = cairn_bench_clock(CLOCK_PROCESS_CPUTIME_ID);
		if (!rc && cairn_flush(db))
			rc = failed("cairn_flush");
		runs->flush_ns += cairn_bench_clock(CLOCK_PROCESS_CPUTIME_ID) - before;
	}
	if (cairn_close(db) && !rc)
		rc = failed("cairn_close");
	return rc;
}

/* ---------------------------------------------------------------- opening */

/* Calls `open` with the path of each file of the kind that is there, newest first. */
static int each_file(struct bench_runs *runs, enum cairn_file_kind kind,
    int (*open)(struct bench_runs *runs, const char *path))
{
	int rc = 0;
	for (uint64_t number = FILES_MOST; !rc && number > 0; number--) {
		char *path = cairn_filename(runs->directory, kind, number);
		if (!path)
			return cairn_bench_failed("cascade", "malloc", "memory is short");
		if (access(path, F_OK) == 0)
			rc = open(runs, path);
		free(path);
	}
	return rc;
}

static int open_run(struct bench_runs *runs, const char *path)
{
	size_t at = 0;
	while (at < CAIRN_BENCH_RUNS && runs->run[at])
		at++;
	if (at == CAIRN_BENCH_RUNS)
		return cairn_bench_failed("cascade", path, "is a run too many");
	if (cairn_run_open(&cairn_bench_reader_io, path, NULL, &runs->run[at]))
		return failed("cairn_run_open");
	runs->run_bytes += cairn_run_size(runs->run[at]);
	if (at + 1 < CAIRN_BENCH_RUNS)
		runs->newer_bytes += cairn_run_size(runs->run[at]);
	return 0;
}

static int open_index(struct bench_runs *runs, const char *path)
{
	struct cairn_run_reader *anchor = runs->run[CAIRN_BENCH_RUNS - 1];
	struct cairn_fraction *index;
	if (cairn_fraction_open(&cairn_bench_reader_io, path, NULL,
		&cairn_run_header(anchor)->identity, NULL, anchor, &index))
		return failed("cairn_fraction_open");
	for (size_t i = 0; i + 1 < CAIRN_BENCH_RUNS; i++) {
		if (cairn_run_header(runs->run[i])->number != index->run.number)
			continue;
		runs->index[i] = index;
		runs->index_bytes += index->map.size;
		uint64_t before = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
		if (cairn_fraction_verify(index, runs->run[i], anchor))
			return failed("cairn_fraction_verify");
		runs->index_ns += cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - before;
		return 0;
	}
	cairn_fraction_close(index);
	return cairn_bench_failed("cascade", path, "is the index of none of the runs");
}

int cairn_bench_runs_open(struct bench_runs *runs)
{
	int rc = each_file(runs, CAIRN_FILE_RUN, open_run);
	if (!rc && !runs->run[CAIRN_BENCH_RUNS - 1])
		rc = cairn_bench_failed("cascade", runs->directory, "has too few runs");
	return rc ? rc : each_file(runs, CAIRN_FILE_INDEX, open_index);
}

void cairn_bench_runs_close(struct bench_runs *runs)
{
	for (size_t i = 0; i < CAIRN_BENCH_RUNS; i++) {
		cairn_fraction_close(runs->index[i]);
		cairn_run_close(runs->run[i]);
	}
}
