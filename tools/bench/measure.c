/* tools/bench/measure.c -- see measure.h. */
#include <string.h>

#include "tools/bench/measure.h"

void cairn_bench_tally_start(struct bench_tally *tally, unsigned every)
{
	memset(tally, 0, sizeof *tally);
	tally->every = every;
}

/* The first block gives rates, however few there are. */
void cairn_bench_block_begin(struct bench_tally *tally)
{
	tally->sampling = tally->blocks++ % tally->every == tally->every - 1;
	tally->cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	tally->wall = cairn_bench_clock(CLOCK_MONOTONIC);
}

void cairn_bench_block_end(struct bench_tally *tally, uint64_t operations)
{
	uint64_t wall = cairn_bench_clock(CLOCK_MONOTONIC) - tally->wall;
	uint64_t cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - tally->cpu;
	tally->all_operations += operations;
	tally->all_wall_ns += wall;
	tally->all_cpu_ns += cpu;
	if (wall > tally->longest_block_ns)
		tally->longest_block_ns = wall;
	if (tally->sampling && tally->every > 1)
		return;
	tally->operations += operations;
	tally->wall_ns += wall;
	tally->cpu_ns += cpu;
}
