/*
 * tools/bench/cascade_runs.h -- a store of four runs, N, N/4, N/16 and N/64 records, newer ones
 * with new values for keys of the oldest, and its files opened one by one.
 */
#ifndef CAIRN_TOOLS_BENCH_CASCADE_RUNS_H
#define CAIRN_TOOLS_BENCH_CASCADE_RUNS_H

#include "format/fraction.h"
#include "store/cairn.h"

#define CAIRN_BENCH_RUNS     4u
#define CAIRN_BENCH_RUN_KEY  16u
#define CAIRN_BENCH_VALUE_TO 65536u

struct bench_runs {
	const char *directory; /* of the store */
	uint64_t count;        /* records of the oldest */
	size_t value_size;
	bool structured; /* keys are user:0000000:nam, …; else 16 random bytes */
	uint64_t seed;

	struct cairn_run_reader *run[CAIRN_BENCH_RUNS]; /* newest first */
	struct cairn_fraction *index[CAIRN_BENCH_RUNS]; /* NULL: has none, as the oldest */
	uint64_t run_bytes;                             /* of the files: of all runs, … */
	uint64_t newer_bytes;                           /* … of all but the oldest, … */
	uint64_t index_bytes;                           /* … of the indexes */
	uint64_t flush_ns; /* CPU time that the runs took to make, … */
	uint64_t index_ns; /* … and that their indexes take */
};

/* The key of record i, CAIRN_BENCH_RUN_KEY bytes. */
void cairn_bench_run_key(const struct bench_runs *runs, uint64_t i, uint8_t *key);

/* The store with its options; it has no threads. */
int cairn_bench_runs_store(const struct bench_runs *runs, cairn **db);

/* Makes the store in a new directory, and closes it. 0 or CAIRN_BENCH_FAILED, which was said. */
int cairn_bench_runs_make(struct bench_runs *runs);

/* Opens its files; makes the indexes again in memory, to see that they are right and what it
 * costs. */
int cairn_bench_runs_open(struct bench_runs *runs);
void cairn_bench_runs_close(struct bench_runs *runs);

#endif
