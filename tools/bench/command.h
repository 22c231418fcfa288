/*
 * tools/bench/command.h -- the commands of cairn-bench and what they get to work with.
 */
#ifndef CAIRN_TOOLS_BENCH_COMMAND_H
#define CAIRN_TOOLS_BENCH_COMMAND_H

#include <stdbool.h>

#include "tools/bench/environment.h"
#include "tools/bench/series.h"

struct bench_command {
	struct bench_series series; /* engines, passes, options */
	struct bench_environment environment;
	cairn_options variant; /* of cairn, where the command has none of its own */
	bool json;
};

/* Each prints its results on standard output. 0, CAIRN_BENCH_WRONG or CAIRN_BENCH_FAILED. */
int cairn_bench_seeds(struct bench_command *command);
int cairn_bench_kill(struct bench_command *command);
int cairn_bench_cascade(struct bench_command *command);

/* The three tables of the seeds. */
int cairn_bench_seed_strings(struct bench_command *command);
int cairn_bench_seed_table(struct bench_command *command);
int cairn_bench_seed_views(struct bench_command *command);

#endif
