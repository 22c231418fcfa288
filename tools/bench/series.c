/* tools/bench/series.c -- see series.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/series.h"

#define MIB 1048576.0

static size_t phases_size(const struct bench_series *series)
{
	return series->engine_count * series->passes * series->options.phase_count *
	       sizeof *series->phases;
}

struct bench_phase *cairn_bench_series_at(
    const struct bench_series *series, size_t engine, unsigned pass, size_t phase)
{
	return &series->phases[(engine * series->passes + pass) * series->options.phase_count +
			       phase];
}

/* ---------------------------------------------------------------- processes */

/* A child's exit status for each result of its work. */
enum child_exit { CHILD_FINE, CHILD_WRONG, CHILD_FAILED = 3, CHILD_NO_SUCH };

static int exit_of(int rc)
{
	return rc == 0                     ? CHILD_FINE
	       : rc == CAIRN_BENCH_WRONG   ? CHILD_WRONG
	       : rc == CAIRN_BENCH_NO_SUCH ? CHILD_NO_SUCH
					   : CHILD_FAILED;
}

int cairn_bench_in_child(int (*work)(void *context), void *context, const char *name)
{
	int status;
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		return cairn_bench_failed(name, "fork", "no process could be made");
	if (child == 0) {
		int rc = work(context);
		fflush(NULL);
		_exit(exit_of(rc));
	}
	if (waitpid(child, &status, 0) != child)
		return cairn_bench_failed(name, "waitpid", "the process is lost");
	if (!WIFEXITED(status))
		return cairn_bench_failed(name, "its process died", strsignal(WTERMSIG(status)));
	switch (WEXITSTATUS(status)) {
	case CHILD_FINE:
		return 0;
	case CHILD_WRONG:
		return CAIRN_BENCH_WRONG;
	case CHILD_NO_SUCH:
		return CAIRN_BENCH_NO_SUCH;
	default:
		return CAIRN_BENCH_FAILED;
	}
}

struct turn {
	struct bench_series *series;
	size_t engine;
	unsigned pass;
};

static int take_turn(void *context)
{
	const struct turn *turn = context;
	const struct bench_series *series = turn->series;
	return cairn_bench_pass(series->engines[turn->engine], &series->options,
	    cairn_bench_series_at(series, turn->engine, turn->pass, 0));
}

int cairn_bench_series_run(struct bench_series *series)
{
	int rc = 0;
	series->phases = mmap(
	    NULL, phases_size(series), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (series->phases == MAP_FAILED)
		return cairn_bench_failed("results", "mmap", "memory is short");
	for (unsigned pass = 0; !rc && pass < series->passes; pass++) {
		for (size_t engine = 0; !rc && engine < series->engine_count; engine++) {
			const char *name = series->engines[engine]->name;
			struct turn turn = {series, engine, pass};
			fprintf(stderr, "pass %u of %u: %s\n", pass + 1, series->passes, name);
			rc = cairn_bench_in_child(take_turn, &turn, name);
		}
	}
	return rc;
}

void cairn_bench_series_release(struct bench_series *series)
{
	if (series->phases && series->phases != MAP_FAILED)
		munmap(series->phases, phases_size(series));
}

/* ---------------------------------------------------------------- figures */

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

double cairn_bench_figure(const struct bench_phase *phase, enum bench_figure figure)
{
	const double figures[CAIRN_BENCH_FIGURES] = {
	    [CAIRN_BENCH_WALL_RATE] = phase->rates.wall,
	    [CAIRN_BENCH_CPU_RATE] = phase->rates.cpu,
	    [CAIRN_BENCH_CPU_NS] = phase->rates.cpu_ns,
	    [CAIRN_BENCH_PROCESS_CPU_NS] = phase->process_cpu_ns,
	    [CAIRN_BENCH_WRITER_RATE] = phase->writer.wall,
	    [CAIRN_BENCH_SECONDS] = phase->timed_seconds,
	    [CAIRN_BENCH_CLOSE_SECONDS] = phase->close_seconds,
	    [CAIRN_BENCH_LONGEST_BLOCK] = phase->longest_block,
	    [CAIRN_BENCH_AMPLIFICATION] = ratio(phase->total_written, phase->total_user_bytes),
	    [CAIRN_BENCH_PHASE_AMPLIFICATION] = ratio(phase->bytes_written, phase->user_bytes),
	    [CAIRN_BENCH_SPACE] = ratio(phase->disk_bytes, phase->live_bytes),
	    [CAIRN_BENCH_DISK_MIB] = (double)phase->disk_bytes / MIB,
	    [CAIRN_BENCH_WRITTEN_MIB] = (double)phase->bytes_written / MIB,
	    [CAIRN_BENCH_RESIDENT_MIB] = (double)phase->memory.resident / MIB,
	    [CAIRN_BENCH_ANONYMOUS_MIB] = (double)phase->memory.anonymous / MIB,
	    [CAIRN_BENCH_PEAK_MIB] = (double)phase->memory.peak / MIB,
	    [CAIRN_BENCH_OTHERS] = phase->others,
	};
	return figures[figure];
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct bench_summary cairn_bench_summarize(
    const struct bench_series *series, size_t engine, size_t phase, enum bench_figure figure)
{
	double values[CAIRN_BENCH_PASSES];
	unsigned n = series->passes;
	struct bench_summary summary = {.state = CAIRN_BENCH_NOT_RUN};
	for (unsigned pass = 0; pass < n; pass++) {
		const struct bench_phase *p = cairn_bench_series_at(series, engine, pass, phase);
		values[pass] = cairn_bench_figure(p, figure);
		if (p->state > summary.state)
			summary.state = p->state;
	}
	qsort(values, n, sizeof *values, ascending);
	summary.least = values[0];
	summary.most = values[n - 1];
	summary.median = (values[(n - 1) / 2] + values[n / 2]) / 2;
	if (summary.median > 0)
		summary.spread = (summary.most - summary.least) / summary.median;
	return summary;
}

struct bench_histogram cairn_bench_latencies(
    const struct bench_series *series, size_t engine, size_t phase)
{
	struct bench_histogram all = {0};
	for (unsigned pass = 0; pass < series->passes; pass++)
		cairn_bench_histogram_merge(
		    &all, &cairn_bench_series_at(series, engine, pass, phase)->latency);
	return all;
}
