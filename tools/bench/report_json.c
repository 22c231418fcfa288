/* tools/bench/report_json.c -- all figures of all passes, as one JSON object (report.h). */
#include <inttypes.h>

#include "tools/bench/report.h"

static void print_string(FILE *to, const char *name, const char *text)
{
	fprintf(to, "\"%s\": \"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			fprintf(to, "\\u%04x", (unsigned)*text);
		else
			fputc(*text, to);
	}
	fprintf(to, "\"");
}

static void print_environment(FILE *to, const struct bench_environment *e)
{
	const char *const texts[][2] = {{"cpu", e->cpu}, {"kernel", e->kernel},
	    {"file_system", e->file_system}, {"compiler", e->compiler}, {"build", e->build},
	    {"commit", e->commit}};
	fprintf(to, "\"environment\": {");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		print_string(to, texts[i][0], texts[i][1]);
		fprintf(to, ", ");
	}
	fprintf(to,
	    "\"cpus\": %ld, \"memory_mib\": %" PRIu64
	    ", \"clock_ns\": %.1f, \"thread_clock_ns\": %.1f}",
	    e->cpus, e->memory_mib, e->clock_ns, e->thread_clock_ns);
}

static void print_latency(FILE *to, const struct bench_histogram *latency)
{
	static const struct {
		const char *name;
		double part;
	} parts[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999},
	    {"p99.99", 0.9999}, {"max", 1}};
	fprintf(to, "\"latency_ns\": {\"sampled\": %" PRIu64, latency->count);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		fprintf(to, ", \"%s\": %" PRIu64, parts[i].name,
		    cairn_bench_histogram_at(latency, parts[i].part));
	fprintf(to, "}");
}

static void print_pass(FILE *to, const struct bench_phase *phase)
{
	static const char *const names[CAIRN_BENCH_FIGURES] = {
	    [CAIRN_BENCH_WALL_RATE] = "rate_wall",
	    [CAIRN_BENCH_CPU_RATE] = "rate_cpu",
	    [CAIRN_BENCH_CPU_NS] = "cpu_ns",
	    [CAIRN_BENCH_PROCESS_CPU_NS] = "process_cpu_ns",
	    [CAIRN_BENCH_WRITER_RATE] = "writer_rate_wall",
	    [CAIRN_BENCH_SECONDS] = "timed_seconds",
	    [CAIRN_BENCH_CLOSE_SECONDS] = "close_seconds",
	    [CAIRN_BENCH_LONGEST_BLOCK] = "longest_block_seconds",
	    [CAIRN_BENCH_AMPLIFICATION] = "written_per_user_byte_in_all",
	    [CAIRN_BENCH_PHASE_AMPLIFICATION] = "written_per_user_byte",
	    [CAIRN_BENCH_SPACE] = "disk_per_byte_held",
	    [CAIRN_BENCH_DISK_MIB] = "disk_mib",
	    [CAIRN_BENCH_WRITTEN_MIB] = "written_mib",
	    [CAIRN_BENCH_RESIDENT_MIB] = "resident_mib",
	    [CAIRN_BENCH_ANONYMOUS_MIB] = "anonymous_mib",
	    [CAIRN_BENCH_PEAK_MIB] = "peak_mib",
	    [CAIRN_BENCH_OTHERS] = "others_cpus",
	};
	fprintf(to,
	    "{\"capped\": %s, \"operations\": %" PRIu64 ", \"found\": %" PRIu64
	    ", \"seconds\": %.6f",
	    phase->state == CAIRN_BENCH_CAPPED ? "true" : "false", phase->rates.operations,
	    phase->found, phase->seconds);
	for (int i = 0; i < CAIRN_BENCH_FIGURES; i++)
		fprintf(to, ", \"%s\": %.6g", names[i],
		    cairn_bench_figure(phase, (enum bench_figure)i));
	fprintf(to, ", ");
	print_latency(to, &phase->latency);
	fprintf(to, "}");
}

static void print_phase(FILE *to, const struct bench_series *series, size_t engine, size_t phase)
{
	fprintf(to, "    {");
	print_string(to, "workload", series->options.phases[phase]->name);
	fprintf(to, ", \"passes\": [");
	for (unsigned pass = 0; pass < series->passes; pass++) {
		const struct bench_phase *p = cairn_bench_series_at(series, engine, pass, phase);
		if (p->state == CAIRN_BENCH_NOT_RUN)
			break;
		fprintf(to, pass ? ",\n      " : "\n      ");
		print_pass(to, p);
	}
	fprintf(to, "]}");
}

static void print_engine(FILE *to, const struct bench_series *series, size_t engine)
{
	char version[64];
	series->engines[engine]->version(version, sizeof version);
	fprintf(to, "  {");
	print_string(to, "engine", series->engines[engine]->name);
	fprintf(to, ", ");
	print_string(to, "version", version);
	fprintf(to, ", ");
	print_string(to, "settings", series->engines[engine]->settings);
	fprintf(to, ", \"workloads\": [\n");
	for (size_t i = 0; i < series->options.phase_count; i++) {
		print_phase(to, series, engine, i);
		fprintf(to, i + 1 < series->options.phase_count ? ",\n" : "\n");
	}
	fprintf(to, "  ]}");
}

void cairn_bench_print_json(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment)
{
	const struct bench_options *o = &series->options;
	fprintf(to, "{");
	print_environment(to, environment);
	fprintf(to,
	    ",\n\"records\": %" PRIu32 ", \"key_size\": %zu, \"value_size\": %zu, \"threads\": %u, "
	    "\"seed\": %" PRIu64 ", \"passes\": %u, \"cap_seconds\": %g, "
	    "\"sync_mode\": %d, \"point_index\": %s,\n\"engines\": [\n",
	    o->records, o->key_size, o->value_size, o->threads, o->seed, series->passes, o->cap,
	    o->sync_mode,
	    o->variant && o->variant->point_index == CAIRN_NO_POINT_INDEX ? "false" : "true");
	for (size_t i = 0; i < series->engine_count; i++) {
		print_engine(to, series, i);
		fprintf(to, i + 1 < series->engine_count ? ",\n" : "\n");
	}
	fprintf(to, "]}\n");
}
