/*
 * tools/bench/series.h -- several passes on one or more engines, and figures over all of them.
 *
 * Engines alternate within each pass, so that what the machine does meanwhile hits all alike. Each
 * pass on an engine is a process of its own: memory, threads and caches of one do not meet another,
 * and the results lie in memory that the processes share.
 */
#ifndef CAIRN_TOOLS_BENCH_SERIES_H
#define CAIRN_TOOLS_BENCH_SERIES_H

#include "tools/bench/pass.h"
#include "tools/bench/workload.h"

#define CAIRN_BENCH_ENGINES 16u
#define CAIRN_BENCH_PASSES  9u

struct bench_series {
	const struct bench_engine *engines[CAIRN_BENCH_ENGINES];
	size_t engine_count;
	unsigned passes;
	struct bench_options options;
	struct bench_phase *phases; /* shared; by engine, pass and workload */
};

/* 0, CAIRN_BENCH_WRONG or CAIRN_BENCH_FAILED. */
int cairn_bench_series_run(struct bench_series *series);
void cairn_bench_series_release(struct bench_series *series);

struct bench_phase *cairn_bench_series_at(
    const struct bench_series *series, size_t engine, unsigned pass, size_t phase);

/* Runs `work` in a child. Its result when it is CAIRN_BENCH_…; one that dies is CAIRN_BENCH_FAILED,
 * and said. */
int cairn_bench_in_child(int (*work)(void *context), void *context, const char *name);

/* ---------------------------------------------------------------- figures */

enum bench_figure {
	CAIRN_BENCH_WALL_RATE, /* operations per second */
	CAIRN_BENCH_CPU_RATE,
	CAIRN_BENCH_CPU_NS,
	CAIRN_BENCH_PROCESS_CPU_NS,
	CAIRN_BENCH_WRITER_RATE,
	CAIRN_BENCH_SECONDS, /* that are timed */
	CAIRN_BENCH_CLOSE_SECONDS,
	CAIRN_BENCH_LONGEST_BLOCK, /* seconds */
	CAIRN_BENCH_AMPLIFICATION, /* bytes written for each user byte, since the store is new */
	CAIRN_BENCH_PHASE_AMPLIFICATION,
	CAIRN_BENCH_SPACE, /* on disk for each byte of keys and values that it holds */
	CAIRN_BENCH_DISK_MIB,
	CAIRN_BENCH_WRITTEN_MIB,
	CAIRN_BENCH_RESIDENT_MIB,
	CAIRN_BENCH_ANONYMOUS_MIB,
	CAIRN_BENCH_PEAK_MIB,
	CAIRN_BENCH_OTHERS,
	CAIRN_BENCH_FIGURES,
};

double cairn_bench_figure(const struct bench_phase *phase, enum bench_figure figure);

/* Over the passes. The spread is (largest - smallest) / median. */
struct bench_summary {
	double least, median, most, spread;
	enum bench_state state;
};

struct bench_summary cairn_bench_summarize(
    const struct bench_series *series, size_t engine, size_t phase, enum bench_figure figure);

/* The times of all passes together. */
struct bench_histogram cairn_bench_latencies(
    const struct bench_series *series, size_t engine, size_t phase);

#endif
