/*
 * tools/bench/workload.h -- the workloads by name (db_bench's, where it has the same).
 */
#ifndef CAIRN_TOOLS_BENCH_WORKLOAD_H
#define CAIRN_TOOLS_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/bench/pass.h"

enum bench_kind {
	CAIRN_BENCH_WRITES, /* rates by the wall clock say most */
	CAIRN_BENCH_READS,  /* rates by CPU time do */
	CAIRN_BENCH_ONCE,   /* one thing that takes a while */
};

struct bench_workload {
	const char *name;
	const char *summary; /* for --help */
	enum bench_kind kind;
	unsigned needs; /* traits of an engine */
	unsigned not_for;
	bool fresh; /* begins with an empty store */
	int (*run)(struct bench_pass *pass);
};

/* End with a NULL name. */
extern const struct bench_workload cairn_bench_write_workloads[];
extern const struct bench_workload cairn_bench_read_workloads[];
extern const struct bench_workload cairn_bench_scan_workloads[];
extern const struct bench_workload cairn_bench_store_workloads[];

/* All of them, by turns; NULL beyond the last. */
const struct bench_workload *cairn_bench_workload_at(size_t i);

/* Sets the workloads of the options from a list with commas. One that is none: says so, false. */
bool cairn_bench_parse_workloads(struct bench_options *options, const char *list);

/* Whether the engine can do it. */
bool cairn_bench_can(const struct bench_engine *engine, const struct bench_workload *workload);

#endif
