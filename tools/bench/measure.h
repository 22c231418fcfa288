/*
 * tools/bench/measure.h -- how operations are timed.
 *
 * A thread does its operations in blocks. What a block needs, its keys and the values to compare
 * with, is made before it and not timed. Two kinds of blocks take turns:
 *
 * 1. In most, nothing but the block as a whole is timed, by the wall clock and by the CPU time of
 *    the thread: these give the rates. The checks of the answers (a comparison with bytes that lie
 *    ready) count in.
 * 2. In every `every`th, each operation is timed on its own: these give the percentiles, and no
 *    rates. Each time has one call of the clock in it (environment.h says what that costs).
 *
 * Where an operation is long beside a call of the clock, `every` is 1 and all blocks are both.
 * Operations of the first kind are not timed one by one, so the longest of them is not known, but
 * that it took no longer than the longest block.
 */
#ifndef CAIRN_TOOLS_BENCH_MEASURE_H
#define CAIRN_TOOLS_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/bench/histogram.h"
#include "tools/bench/process.h"

#define CAIRN_BENCH_SAMPLE_EVERY 8u

/* One thread's times of one workload. */
struct bench_tally {
	unsigned every;
	uint64_t blocks;
	bool sampling;                        /* this block */
	uint64_t wall;                        /* when it began */
	uint64_t cpu;                         /* and on the thread's clock */
	uint64_t stamp;                       /* when the operation at hand began, while sampling */
	uint64_t operations, wall_ns, cpu_ns; /* of the blocks that give rates */
	uint64_t all_operations, all_wall_ns, all_cpu_ns;
	uint64_t longest_block_ns;
	struct bench_histogram latency;
};

void cairn_bench_tally_start(struct bench_tally *tally, unsigned every);
void cairn_bench_block_begin(struct bench_tally *tally);
void cairn_bench_block_end(struct bench_tally *tally, uint64_t operations);

static inline void cairn_bench_operation_begin(struct bench_tally *tally)
{
	if (tally->sampling)
		tally->stamp = cairn_bench_clock(CLOCK_MONOTONIC);
}

static inline void cairn_bench_operation_end(struct bench_tally *tally)
{
	if (tally->sampling)
		cairn_bench_histogram_add(
		    &tally->latency, cairn_bench_clock(CLOCK_MONOTONIC) - tally->stamp);
}

#endif
