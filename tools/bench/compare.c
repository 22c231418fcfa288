/*
 * tools/bench/compare.c -- engines side by side, in Markdown (report.h).
 *
 * A ratio says how much better an engine is than the first one: above 1 is better, whether more or
 * less of the figure is.
 */
#include <inttypes.h>

#include "tools/bench/report.h"

static bool is_once(const struct bench_series *series, size_t phase)
{
	return series->options.phases[phase]->kind == CAIRN_BENCH_ONCE;
}

static void print_head(FILE *to, const struct bench_series *series, const char *title)
{
	fprintf(to, "\n### %s\n\n| workload |", title);
	for (size_t i = 0; i < series->engine_count; i++)
		fprintf(to, " %s |", series->engines[i]->name);
	fprintf(to, "\n|---|");
	for (size_t i = 0; i < series->engine_count; i++)
		fprintf(to, "--:|");
	fprintf(to, "\n");
}

/* The workload, and what came before it when there are several of its name. */
static void print_name(FILE *to, const struct bench_series *series, size_t phase)
{
	const struct bench_options *o = &series->options;
	bool several = false;
	for (size_t i = 0; i < o->phase_count; i++)
		several = several || (i != phase && o->phases[i] == o->phases[phase]);
	fprintf(to, "| %s", o->phases[phase]->name);
	if (several && phase)
		fprintf(to, ", after %s", o->phases[phase - 1]->name);
	fprintf(to, " |");
}

static void print_number(FILE *to, double value)
{
	fprintf(to, " %.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

/* A cell: the median, its ratio to that of the first engine, the spread. */
static void print_cell(FILE *to, const struct bench_series *series, size_t engine, size_t phase,
    enum bench_figure figure, double unit, bool less_is_better)
{
	struct bench_summary ours = cairn_bench_summarize(series, engine, phase, figure);
	struct bench_summary first = cairn_bench_summarize(series, 0, phase, figure);
	if (ours.state == CAIRN_BENCH_NOT_RUN) {
		fprintf(to, " - |");
		return;
	}
	print_number(to, ours.median * unit);
	if (ours.state == CAIRN_BENCH_CAPPED)
		fprintf(to, "*");
	if (first.state != CAIRN_BENCH_NOT_RUN && first.median > 0 && ours.median > 0) {
		double ratio =
		    less_is_better ? first.median / ours.median : ours.median / first.median;
		fprintf(to, " (%.2f×)", ratio);
	}
	if (series->passes > 1)
		fprintf(to, " ±%.0f%%", ours.spread * 50);
	fprintf(to, " |");
}

static void print_cells(FILE *to, const struct bench_series *series, size_t phase,
    enum bench_figure figure, double unit, bool less_is_better)
{
	for (size_t engine = 0; engine < series->engine_count; engine++)
		print_cell(to, series, engine, phase, figure, unit, less_is_better);
	fprintf(to, "\n");
}

static void print_row(FILE *to, const struct bench_series *series, size_t phase,
    enum bench_figure figure, double unit, bool less_is_better)
{
	print_name(to, series, phase);
	print_cells(to, series, phase, figure, unit, less_is_better);
}

static bool has_writer(const struct bench_series *series, size_t phase)
{
	for (size_t engine = 0; engine < series->engine_count; engine++)
		if (cairn_bench_series_at(series, engine, 0, phase)->writer.operations)
			return true;
	return false;
}

static void print_rates(FILE *to, const struct bench_series *series)
{
	print_head(to, series, "Thousand operations per second of wall time");
	for (size_t i = 0; i < series->options.phase_count; i++) {
		if (is_once(series, i))
			continue;
		print_row(to, series, i, CAIRN_BENCH_WALL_RATE, 1e-3, false);
		if (has_writer(series, i)) {
			fprintf(to, "| ... its writer |");
			print_cells(to, series, i, CAIRN_BENCH_WRITER_RATE, 1e-3, false);
		}
	}
	print_head(to, series, "Thousand operations per second of the calling thread's CPU time");
	for (size_t i = 0; i < series->options.phase_count; i++)
		if (!is_once(series, i))
			print_row(to, series, i, CAIRN_BENCH_CPU_RATE, 1e-3, false);
	print_head(to, series, "CPU microseconds of all threads of the process per operation");
	for (size_t i = 0; i < series->options.phase_count; i++)
		if (series->options.phases[i]->kind == CAIRN_BENCH_WRITES)
			print_row(to, series, i, CAIRN_BENCH_PROCESS_CPU_NS, 1e-3, true);
}

static void print_latency_cell(
    FILE *to, const struct bench_series *series, size_t engine, size_t phase)
{
	static const double parts[] = {0.5, 0.99, 0.999, 0.9999};
	struct bench_histogram latencies = cairn_bench_latencies(series, engine, phase);
	struct bench_summary block =
	    cairn_bench_summarize(series, engine, phase, CAIRN_BENCH_LONGEST_BLOCK);
	if (!latencies.count) {
		fprintf(to, " - |");
		return;
	}
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		print_number(to, (double)cairn_bench_histogram_at(&latencies, parts[i]) * 1e-3);
		fprintf(to, " /");
	}
	print_number(to, (double)latencies.max * 1e-3);
	fprintf(to, " / %.1f |", block.most * 1e3);
}

static void print_latencies(FILE *to, const struct bench_series *series)
{
	print_head(to, series,
	    "Latency, µs: p50 / p99 / p99.9 / p99.99 / largest sampled / ms of the longest block");
	for (size_t i = 0; i < series->options.phase_count; i++) {
		if (is_once(series, i))
			continue;
		print_name(to, series, i);
		for (size_t engine = 0; engine < series->engine_count; engine++)
			print_latency_cell(to, series, engine, i);
		fprintf(to, "\n");
	}
}

static void print_onces(FILE *to, const struct bench_series *series)
{
	print_head(to, series, "Milliseconds (reopen: to the first get)");
	for (size_t i = 0; i < series->options.phase_count; i++)
		if (is_once(series, i))
			print_row(to, series, i, CAIRN_BENCH_SECONDS, 1e3, true);
}

static void print_footprint(FILE *to, const struct bench_series *series)
{
	static const struct {
		const char *title;
		enum bench_figure figure;
		bool writes; /* say something after writes, and what settles them, only */
	} tables[] = {
	    {"Bytes written per user byte, since the store was new", CAIRN_BENCH_AMPLIFICATION,
		true},
	    {"The same, of that workload alone", CAIRN_BENCH_PHASE_AMPLIFICATION, true},
	    {"Bytes on disk per byte of keys and values held", CAIRN_BENCH_SPACE, true},
	    {"Resident memory, MiB", CAIRN_BENCH_RESIDENT_MIB, false},
	    {"Of which anonymous, MiB", CAIRN_BENCH_ANONYMOUS_MIB, false},
	    {"Peak of resident memory, MiB", CAIRN_BENCH_PEAK_MIB, false},
	};
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
		print_head(to, series, tables[t].title);
		for (size_t i = 0; i < series->options.phase_count; i++) {
			bool reads = series->options.phases[i]->kind == CAIRN_BENCH_READS;
			if (!(reads && tables[t].writes))
				print_row(to, series, i, tables[t].figure, 1, true);
		}
	}
}

static void print_others(FILE *to, const struct bench_series *series)
{
	print_head(to, series, "CPUs that others kept busy meanwhile (0: a quiet machine)");
	for (size_t i = 0; i < series->options.phase_count; i++) {
		print_name(to, series, i);
		for (size_t engine = 0; engine < series->engine_count; engine++) {
			struct bench_summary s =
			    cairn_bench_summarize(series, engine, i, CAIRN_BENCH_OTHERS);
			fprintf(to, s.state == CAIRN_BENCH_NOT_RUN ? " - |" : " %.2f |", s.median);
		}
		fprintf(to, "\n");
	}
}

void cairn_bench_print_comparison(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment)
{
	const struct bench_options *o = &series->options;
	fprintf(to,
	    "%" PRIu32 " records, %zu + %zu bytes, %u thread%s, seed %" PRIu64
	    ", median of %u passes in turns",
	    o->records, o->key_size, o->value_size, o->threads, o->threads == 1 ? "" : "s", o->seed,
	    series->passes);
	cairn_bench_print_choices(to, o);
	fprintf(to, "; (ratio to %s: above 1 is better); ± half the spread; * ended by --cap",
	    series->engines[0]->name);
	if (o->cap > 0)
		fprintf(to, " %g s", o->cap);
	fprintf(to, "; every answer was checked.\n\n");
	cairn_bench_print_environment(to, environment);
	fprintf(to, "\n");
	for (size_t i = 0; i < series->engine_count; i++) {
		fprintf(to, "- ");
		cairn_bench_print_engine(to, series->engines[i]);
	}
	print_rates(to, series);
	print_latencies(to, series);
	print_onces(to, series);
	print_footprint(to, series);
	print_others(to, series);
}
