/*
 * tools/bench/seed_table.c -- gets from an immutable table, as `bit` compared itself with sparkey,
 * cdb and a map in memory (command `seeds`).
 *
 * A table is filled in no order and then finished, or compacted; gets are timed in one and in two
 * threads. Their records' sizes are not stated; ours are those of the options.
 */
#include "tools/bench/command.h"

enum { FILL, COMPACT, GET, HELD, MISS };

static const char phases[] = "fillrandom,compact,readrandom,readheld,readmissing";

static void print_theirs(void)
{
	static const struct {
		const char *name;
		double one, two, build; /* ns, ns, ms; 0: not stated */
	} theirs[] = {
	    {"theirs: bit (Go), checksum on every get", 286.1, 145.6, 6780},
	    {"theirs: Go map", 131.1, 67.5, 0},
	    {"theirs: go-sparkey", 777.1, 420.7, 210},
	    {"theirs: cdb in Go", 1673, 1686, 157},
	};
	for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
		printf("| %s | %.0f | | %.0f | |", theirs[i].name, theirs[i].one, theirs[i].two);
		printf(theirs[i].build > 0 ? " %.0f | |\n" : " | |\n", theirs[i].build);
	}
}

static void print_ns(const struct bench_series *series, size_t engine, size_t phase)
{
	struct bench_summary rate =
	    cairn_bench_summarize(series, engine, phase, CAIRN_BENCH_WALL_RATE);
	if (rate.state == CAIRN_BENCH_NOT_RUN)
		printf(" |");
	else
		printf(" %.0f |", 1e9 / rate.median);
}

static void print_ours(const struct bench_series *one, const struct bench_series *two)
{
	for (size_t i = 0; i < one->engine_count; i++) {
		bool built = one->engines[i]->traits & CAIRN_BENCH_STATIC;
		printf("| %s%s |", one->engines[i]->name,
		    built                                   ? ""
		    : one->engines[i] == &cairn_bench_cairn ? ", compacted"
							    : "");
		print_ns(one, i, GET);
		print_ns(one, i, HELD);
		print_ns(two, i, GET);
		print_ns(one, i, MISS);
		printf(" %.0f |",
		    1e3 * (cairn_bench_summarize(one, i, FILL, CAIRN_BENCH_SECONDS).median +
			      cairn_bench_summarize(one, i, COMPACT, CAIRN_BENCH_SECONDS).median));
		printf(" %.1f |\n",
		    cairn_bench_summarize(one, i, COMPACT, CAIRN_BENCH_DISK_MIB).median);
	}
}

int cairn_bench_seed_table(struct bench_command *command)
{
	struct bench_series one = command->series, two;
	cairn_bench_parse_workloads(&one.options, phases);
	one.options.threads = 1;
	two = one;
	two.options.threads = 2;
	int rc = cairn_bench_series_run(&one);
	if (!rc)
		rc = cairn_bench_series_run(&two);
	if (!rc) {
		printf("\n## Immutable table (bit)\n\nTheirs: 1M keys, another machine. Ours: %u "
		       "records of %zu + %zu bytes; held: all gets as of one moment.\n\n",
		    one.options.records, one.options.key_size, one.options.value_size);
		printf("| ns of wall time per get | 1 thread | held | 2 threads | miss | build ms "
		       "| MiB |\n|---|--:|--:|--:|--:|--:|--:|\n");
		print_theirs();
		print_ours(&one, &two);
	}
	cairn_bench_series_release(&one);
	cairn_bench_series_release(&two);
	return rc;
}
