/* tools/bench/report.c -- all about one engine, as text (report.h). */
#include <inttypes.h>

#include "tools/bench/measure.h"
#include "tools/bench/report.h"

void cairn_bench_print_environment(FILE *to, const struct bench_environment *e)
{
	fprintf(to,
	    "%s, %ld CPUs, %" PRIu64 " MiB; %s; %s; %s, %s; commit %s; clock_gettime takes %.0f "
	    "ns, of a thread's CPU time %.0f ns\n",
	    e->cpu, e->cpus, e->memory_mib, e->kernel, e->file_system, e->compiler, e->build,
	    e->commit, e->clock_ns, e->thread_clock_ns);
}

void cairn_bench_print_engine(FILE *to, const struct bench_engine *engine)
{
	char version[64];
	engine->version(version, sizeof version);
	fprintf(to, "%s %s: %s\n", engine->name, version, engine->settings);
}

void cairn_bench_print_choices(FILE *to, const struct bench_options *options)
{
	if (options->sync_mode == CAIRN_SYNC_FULL)
		fprintf(to, ", cairn with sync mode full");
	if (options->sync_mode == CAIRN_SYNC_NONE)
		fprintf(to, ", cairn with sync mode none");
	if (options->variant && options->variant->point_index == CAIRN_NO_POINT_INDEX)
		fprintf(to, ", cairn without point indexes");
}

static void print_times(FILE *to, const struct bench_series *series, size_t phase)
{
	static const double parts[] = {0.5, 0.9, 0.99, 0.999, 0.9999};
	struct bench_histogram latencies = cairn_bench_latencies(series, 0, phase);
	struct bench_summary block =
	    cairn_bench_summarize(series, 0, phase, CAIRN_BENCH_LONGEST_BLOCK);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		fprintf(
		    to, " %8.2f", (double)cairn_bench_histogram_at(&latencies, parts[i]) * 1e-3);
	fprintf(to, " %9.2f %9.2f\n", (double)latencies.max * 1e-3, block.most * 1e3);
}

static void print_rates(FILE *to, const struct bench_series *series, size_t phase)
{
	const struct bench_workload *workload = series->options.phases[phase];
	struct bench_summary rate = cairn_bench_summarize(series, 0, phase, CAIRN_BENCH_WALL_RATE);
	struct bench_summary cpu = cairn_bench_summarize(series, 0, phase, CAIRN_BENCH_CPU_NS);
	struct bench_summary writer =
	    cairn_bench_summarize(series, 0, phase, CAIRN_BENCH_WRITER_RATE);
	const char *mark = rate.state == CAIRN_BENCH_CAPPED ? "*" : "";
	if (rate.state == CAIRN_BENCH_NOT_RUN) {
		fprintf(to, "%-17s %12s\n", workload->name, "-");
		return;
	}
	if (workload->kind == CAIRN_BENCH_ONCE) {
		struct bench_summary seconds =
		    cairn_bench_summarize(series, 0, phase, CAIRN_BENCH_SECONDS);
		fprintf(to, "%-17s %9.3f ms %9.3f ms\n", workload->name, seconds.least * 1e3,
		    seconds.median * 1e3);
		return;
	}
	fprintf(to, "%-16s%1s %12.0f %12.0f %10.0f", workload->name, mark, rate.most, rate.median,
	    cpu.median);
	print_times(to, series, phase);
	if (writer.median > 0)
		fprintf(to, "%-17s %12.0f %12.0f\n", "  its writer", writer.most, writer.median);
}

static void print_footprint(FILE *to, const struct bench_series *series, size_t phase)
{
	static const enum bench_figure figures[] = {CAIRN_BENCH_WRITTEN_MIB,
	    CAIRN_BENCH_PHASE_AMPLIFICATION, CAIRN_BENCH_AMPLIFICATION, CAIRN_BENCH_DISK_MIB,
	    CAIRN_BENCH_SPACE, CAIRN_BENCH_RESIDENT_MIB, CAIRN_BENCH_ANONYMOUS_MIB,
	    CAIRN_BENCH_PEAK_MIB, CAIRN_BENCH_PROCESS_CPU_NS, CAIRN_BENCH_OTHERS};
	fprintf(to, "%-17s", series->options.phases[phase]->name);
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
		struct bench_summary summary = cairn_bench_summarize(series, 0, phase, figures[i]);
		fprintf(to, " %9.2f", summary.median);
	}
	struct bench_phase *first = cairn_bench_series_at(series, 0, 0, phase);
	if (first->found && first->found <= first->rates.operations)
		fprintf(to, "  %" PRIu64 " of %" PRIu64 " found", first->found,
		    first->rates.operations);
	fprintf(to, "\n");
}

void cairn_bench_print_report(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment)
{
	const struct bench_options *o = &series->options;
	cairn_bench_print_engine(to, series->engines[0]);
	cairn_bench_print_environment(to, environment);
	fprintf(to,
	    "%" PRIu32 " records, %zu + %zu bytes, %u thread%s, seed %" PRIu64 ", %u pass%s",
	    o->records, o->key_size, o->value_size, o->threads, o->threads == 1 ? "" : "s", o->seed,
	    series->passes, series->passes == 1 ? "" : "es");
	cairn_bench_print_choices(to, o);
	fprintf(to, "\n\n");
	fprintf(to, "%-17s %12s %12s %10s %8s %8s %8s %8s %8s %9s %9s\n", "workload", "best /s",
	    "median /s", "cpu ns/op", "p50 us", "p90", "p99", "p99.9", "p99.99", "max", "block ms");
	for (size_t i = 0; i < o->phase_count; i++)
		print_rates(to, series, i);
	fprintf(to, "\n%-17s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "at its end", "MiB writ.",
	    "/ user B", "/ in all", "disk MiB", "/ held B", "resident", "anonymous", "peak",
	    "all ns/op", "others");
	for (size_t i = 0; i < o->phase_count; i++)
		if (cairn_bench_series_at(series, 0, 0, i)->state != CAIRN_BENCH_NOT_RUN)
			print_footprint(to, series, i);
	fprintf(to,
	    "\n* ended by --cap; rates are those until then. All answers were checked. Rates are "
	    "of\nblocks timed as a whole, percentiles of every %uth block, timed one by one; no\n"
	    "operation took longer than the longest block. all ns/op: CPU of all threads of the\n"
	    "process; others: CPUs that others kept busy.\n",
	    CAIRN_BENCH_SAMPLE_EVERY);
}
