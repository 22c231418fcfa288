/*
 * tools/bench/pass.h -- one pass: a list of workloads, one after the other, on one engine, and what
 * was measured of each.
 */
#ifndef CAIRN_TOOLS_BENCH_PASS_H
#define CAIRN_TOOLS_BENCH_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/bench/engine.h"
#include "tools/bench/histogram.h"
#include "tools/bench/keys.h"
#include "tools/bench/process.h"

#define CAIRN_BENCH_PHASES  64u /* workloads in a list */
#define CAIRN_BENCH_THREADS 256u

struct bench_workload;

struct bench_options {
	uint32_t records;
	size_t key_size;
	size_t value_size;
	unsigned threads;
	uint64_t seed;
	int sync_mode;         /* cairn's */
	double cap;            /* seconds for a workload; 0: no end */
	const char *directory; /* is made, and removed at the end */
	const struct bench_workload *phases[CAIRN_BENCH_PHASES];
	size_t phase_count;
	const cairn_options *variant; /* cairn only */
};

enum bench_state {
	CAIRN_BENCH_NOT_RUN, /* the engine cannot do that */
	CAIRN_BENCH_COMPLETE,
	CAIRN_BENCH_CAPPED, /* ended by the cap; the rates are those until then */
};

/* Two kinds of work go on at once in readwhilewriting only. */
struct bench_rates {
	uint64_t operations; /* all of them */
	double wall;         /* operations per second, the sum of the threads */
	double cpu;          /* the same by the CPU time of each thread */
	double cpu_ns;       /* of the calling thread for each operation */
};

/* What was measured of one workload. */
struct bench_phase {
	enum bench_state state;
	struct bench_rates rates;
	struct bench_rates writer;
	uint64_t found;       /* of the operations that look for a record */
	double seconds;       /* all of it, with what is not timed */
	double timed_seconds; /* of the longest thread */
	double close_seconds; /* reopen only */
	struct bench_histogram latency;
	double longest_block;  /* seconds: no operation took longer */
	double process_cpu_ns; /* for each operation: all threads of the process, without the making
				* of keys and values */
	double others;         /* CPUs that others kept busy */
	uint64_t bytes_written; /* by the process during this phase */
	uint64_t user_bytes;    /* keys and values that were written in it */
	uint64_t total_written; /* since the store was made */
	uint64_t total_user_bytes;
	uint64_t live_bytes;        /* keys and values that the store holds at its end */
	uint64_t disk_bytes;        /* and what it takes on disk */
	struct bench_memory memory; /* at its end, and the peak during it */
};

struct bench_pass {
	const struct bench_engine *engine;
	const struct bench_options *options;
	struct bench_keys keys;
	void *store;
	void *session;       /* the main thread's */
	uint64_t user_bytes; /* since the store was made */
	struct bench_usage made;
	const struct bench_workload *workload; /* at hand */
	struct bench_phase *phase;
	unsigned phase_number;
};

/* Runs all workloads of the options on a store of its own, fills `phases`, one for each, and
 * removes the store. 0, CAIRN_BENCH_WRONG or CAIRN_BENCH_FAILED. */
int cairn_bench_pass(const struct bench_engine *engine, const struct bench_options *options,
    struct bench_phase *phases);

/* For workloads: the store, new and empty; closed; open again with a session. */
int cairn_bench_pass_fresh(struct bench_pass *pass);
int cairn_bench_pass_close(struct bench_pass *pass);
int cairn_bench_pass_open(struct bench_pass *pass);

/* Says which answer was wrong; returns CAIRN_BENCH_WRONG. */
int cairn_bench_wrong(const struct bench_pass *pass, uint64_t record, const char *what);

#endif
