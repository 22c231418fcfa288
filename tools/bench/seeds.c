/*
 * tools/bench/seeds.c -- the tables of three other projects on the shapes of data that they used,
 * theirs beside ours. Theirs were measured on other machines, which the tables name; what this
 * build cannot do yet is printed as such.
 */
#include "tools/bench/command.h"
#include "tools/bench/report.h"

int cairn_bench_seeds(struct bench_command *command)
{
	int (*const tables[])(struct bench_command * command) = {
	    cairn_bench_seed_strings, cairn_bench_seed_table, cairn_bench_seed_views};
	int rc = 0;
	cairn_bench_print_environment(stdout, &command->environment);
	for (size_t i = 0; i < command->series.engine_count; i++)
		cairn_bench_print_engine(stdout, command->series.engines[i]);
	for (size_t i = 0; !rc && i < sizeof tables / sizeof *tables; i++) {
		rc = tables[i](command);
		fflush(stdout);
	}
	return rc;
}
