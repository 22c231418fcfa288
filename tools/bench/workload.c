/* tools/bench/workload.c -- all workloads, and lists of them (workload.h). */
#include <string.h>

#include "tools/bench/workload.h"

static const struct bench_workload *const families[] = {cairn_bench_write_workloads,
    cairn_bench_read_workloads, cairn_bench_scan_workloads, cairn_bench_store_workloads};

const struct bench_workload *cairn_bench_workload_at(size_t i)
{
	for (size_t family = 0; family < sizeof families / sizeof *families; family++) {
		for (const struct bench_workload *w = families[family]; w->name; w++)
			if (i-- == 0)
				return w;
	}
	return NULL;
}

static const struct bench_workload *find(const char *name, size_t size)
{
	const struct bench_workload *workload;
	for (size_t i = 0; (workload = cairn_bench_workload_at(i)); i++)
		if (strlen(workload->name) == size && memcmp(workload->name, name, size) == 0)
			return workload;
	return NULL;
}

bool cairn_bench_parse_workloads(struct bench_options *options, const char *list)
{
	options->phase_count = 0;
	for (size_t size; *list; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		const struct bench_workload *workload = find(list, size);
		if (!workload) {
			fprintf(
			    stderr, "cairn-bench: no workload is called %.*s\n", (int)size, list);
			return false;
		}
		if (options->phase_count == CAIRN_BENCH_PHASES) {
			fprintf(
			    stderr, "cairn-bench: more than %u workloads\n", CAIRN_BENCH_PHASES);
			return false;
		}
		options->phases[options->phase_count++] = workload;
	}
	return options->phase_count > 0;
}

bool cairn_bench_can(const struct bench_engine *engine, const struct bench_workload *workload)
{
	return (engine->traits & workload->needs) == workload->needs &&
	       !(engine->traits & workload->not_for);
}
