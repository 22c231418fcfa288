/*
 * tools/bench/main.c -- cairn-bench: how fast stores are here and now, every answer checked.
 *
 * Exit status: 0 when all answers were right, 1 when one was wrong, 2 wrong usage, 3 failure.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bench/command.h"
#include "tools/bench/report.h"

enum { FINE = 0, WRONG = 1, USAGE = 2, FAILURE = 3 };

static const char run_workloads[] =
    "fillrandom,wait,readrandom,readmissing,seekrandom,readseq,readreverse,reopen";

static const char compare_workloads[] =
    "fillseq,fillbatch,fillsync,fillrandom,readrandom,compact,readrandom,readheld,readmissing,"
    "multireadrandom,seekrandom,seekheld,readseq,readreverse,reopen,overwrite,readrandom,wait,"
    "readrandom,readwhilewriting,deleterandom,readrandom";

static const char usage_text[] =
    "usage: cairn-bench [OPTION...]\n"
    "       cairn-bench compare [--engines A,B,...] [OPTION...]\n"
    "       cairn-bench seeds [--engines A,B,...] [--num N] [--passes N] [--dir DIR]\n"
    "       cairn-bench kill [--engines A,B,...] [--num N] [--passes N] [--dir DIR]\n"
    "       cairn-bench cascade [--num N] [--value-size N] [--passes N] [--dir DIR]\n"
    "       cairn-bench engines\n"
    "\n"
    "Times workloads on stores that it makes and removes, and checks every answer: the right\n"
    "value, no answer where there should be none, all records in order. A wrong one ends the\n"
    "run with exit status 1. Results go to standard output, progress to standard error.\n"
    "\n"
    "Without a command: one engine, all about it. compare: several in turns, medians over the\n"
    "passes, and ratios to the first, in Markdown. seeds: the tables of three other projects,\n"
    "theirs beside ours. kill: kills processes that write and counts what is lost. cascade: the\n"
    "search in all runs beside other ways to find the same places, for 131072, 1000000 and\n"
    "10000000 records, those that are at most N. engines: what this build can measure.\n"
    "\n"
    "  --engine NAME     default cairn\n"
    "  --engines A,B,..  by commas; default: all of this build\n"
    "  --workloads LIST  by commas, in the order in which they run (below)\n"
    "  --num N           records; default 1000000\n"
    "  --key-size N      bytes, 8 to 1024; default 16\n"
    "  --value-size N    bytes, at most 65536; default 100; half of each is noise\n"
    "  --threads N       that share the work of each workload; default 1\n"
    "  --passes N        1 to 9, each on a new store in a new process; default 3\n"
    "  --cap SECONDS     ends a workload after so long; a fill is completed by batches,\n"
    "                    untimed. 0: never. Default: 0; compare: 15\n"
    "  --sync MODE       cairn's mode: interval (default), full, none\n"
    "  --no-point-index  cairn's runs have none; reads go by the seek sections\n"
    "  --seed N          of keys, values and choices; default 1\n"
    "  --dir DIR         a directory to be made and removed; default $TMPDIR/cairn-bench-PID,\n"
    "                    or below /tmp\n"
    "  --json            all figures of all passes as one JSON object\n"
    "  --help            this\n"
    "\n"
    "Workloads:\n";

static void print_usage(FILE *to)
{
	const struct bench_workload *workload;
	fputs(usage_text, to);
	for (size_t i = 0; (workload = cairn_bench_workload_at(i)); i++)
		fprintf(to, "  %-17s %s\n", workload->name, workload->summary);
	fprintf(to, "\nDefault: %s;\nof compare: ", run_workloads);
	fprintf(to, "%s\n", compare_workloads);
}

/* ---------------------------------------------------------------- options */

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
	char *end;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && end != text && *text != '-' && !*end && *number >= least &&
	       *number <= most;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;
	*seconds = strtod(text, &end);
	return end != text && !*end && *seconds >= 0 && *seconds < 1e6;
}

static bool parse_sync(const char *text, int *mode)
{
	static const char *const names[] = {[CAIRN_SYNC_INTERVAL] = "interval",
	    [CAIRN_SYNC_FULL] = "full",
	    [CAIRN_SYNC_NONE] = "none"};
	for (int i = 0; i < 3; i++) {
		if (strcmp(text, names[i]) == 0) {
			*mode = i;
			return true;
		}
	}
	return false;
}

static bool parse_engines(struct bench_series *series, const char *list)
{
	series->engine_count = 0;
	for (size_t size; *list; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		const struct bench_engine *engine = cairn_bench_engine(list, size);
		if (!engine || series->engine_count == CAIRN_BENCH_ENGINES) {
			fprintf(stderr,
			    "cairn-bench: this build has no engine %.*s (cairn-bench engines "
			    "lists those it has)\n",
			    (int)size, list);
			return false;
		}
		series->engines[series->engine_count++] = engine;
	}
	return series->engine_count > 0;
}

static const struct option long_options[] = {{"engine", required_argument, NULL, 'e'},
    {"engines", required_argument, NULL, 'e'}, {"workloads", required_argument, NULL, 'w'},
    {"num", required_argument, NULL, 'n'}, {"key-size", required_argument, NULL, 'k'},
    {"value-size", required_argument, NULL, 'v'}, {"threads", required_argument, NULL, 't'},
    {"passes", required_argument, NULL, 'p'}, {"cap", required_argument, NULL, 'c'},
    {"sync", required_argument, NULL, 'y'}, {"no-point-index", no_argument, NULL, 'i'},
    {"seed", required_argument, NULL, 's'}, {"dir", required_argument, NULL, 'd'},
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};

static bool set_option(struct bench_command *command, int option)
{
	struct bench_options *o = &command->series.options;
	uint64_t number = 0;
	bool good;
	switch (option) {
	case 'e':
		return parse_engines(&command->series, optarg);
	case 'w':
		return cairn_bench_parse_workloads(o, optarg);
	case 'n':
		good = parse_number(optarg, 1, UINT32_MAX / 2, &number);
		o->records = (uint32_t)number;
		return good;
	case 'k':
		good = parse_number(optarg, CAIRN_BENCH_KEY_LEAST, CAIRN_BENCH_KEY_MOST, &number);
		o->key_size = (size_t)number;
		return good;
	case 'v':
		good = parse_number(optarg, 0, 65536, &number);
		o->value_size = (size_t)number;
		return good;
	case 't':
		good = parse_number(optarg, 1, CAIRN_BENCH_THREADS, &number);
		o->threads = (unsigned)number;
		return good;
	case 'p':
		good = parse_number(optarg, 1, CAIRN_BENCH_PASSES, &number);
		command->series.passes = (unsigned)number;
		return good;
	case 'c':
		return parse_seconds(optarg, &o->cap);
	case 'y':
		return parse_sync(optarg, &o->sync_mode);
	case 'i':
		command->variant.point_index = CAIRN_NO_POINT_INDEX;
		return true;
	case 's':
		return parse_number(optarg, 0, UINT64_MAX, &o->seed);
	case 'd':
		o->directory = optarg;
		return true;
	case 'j':
		command->json = true;
		return true;
	default:
		return false;
	}
}

/* ---------------------------------------------------------------- commands */

static int print_results(struct bench_command *command,
    void (*print)(FILE *to, const struct bench_series *, const struct bench_environment *))
{
	struct bench_series *series = &command->series;
	int rc = cairn_bench_series_run(series);
	if (!rc)
		(command->json ? cairn_bench_print_json : print)(
		    stdout, series, &command->environment);
	cairn_bench_series_release(series);
	return rc;
}

static int run(struct bench_command *command)
{
	command->series.engine_count = 1;
	return print_results(command, cairn_bench_print_report);
}

static int compare(struct bench_command *command)
{
	return print_results(command, cairn_bench_print_comparison);
}

static int print_engines(struct bench_command *command)
{
	(void)command;
	for (size_t i = 0; cairn_bench_engines[i]; i++)
		cairn_bench_print_engine(stdout, cairn_bench_engines[i]);
	return 0;
}

static const struct command {
	const char *name;
	const char *workloads;
	double cap;
	int (*run)(struct bench_command *command);
} commands[] = {
    {"", run_workloads, 0, run}, /* when none is named */
    {"compare", compare_workloads, 15, compare},
    {"seeds", run_workloads, 0, cairn_bench_seeds},
    {"kill", run_workloads, 0, cairn_bench_kill},
    {"cascade", run_workloads, 0, cairn_bench_cascade},
    {"engines", run_workloads, 0, print_engines},
};

/* The command that the first word names, and takes the word away. */
static const struct command *take_command(int *argc, char ***argv)
{
	for (size_t i = 1; *argc > 1 && i < sizeof commands / sizeof *commands; i++) {
		if (strcmp((*argv)[1], commands[i].name) == 0) {
			--*argc;
			++*argv;
			return &commands[i];
		}
	}
	return &commands[0];
}

static void set_defaults(struct bench_command *command, const struct command *which)
{
	struct bench_series *series = &command->series;
	series->passes = 3;
	series->options = (struct bench_options){.records = 1000000,
	    .key_size = 16,
	    .value_size = 100,
	    .threads = 1,
	    .seed = 1,
	    .cap = which->cap,
	    .variant = &command->variant};
	cairn_options_init(&command->variant);
	cairn_bench_parse_workloads(&series->options, which->workloads);
	while (cairn_bench_engines[series->engine_count]) {
		series->engines[series->engine_count] = cairn_bench_engines[series->engine_count];
		series->engine_count++;
	}
}

static bool directory_is_new(const char *directory)
{
	struct stat st;
	if (lstat(directory, &st)) {
		if (errno == ENOENT)
			return true;
		fprintf(stderr, "cairn-bench: %s: %s\n", directory, strerror(errno));
		return false;
	}
	fprintf(stderr,
	    "cairn-bench: %s is there already; --dir names a directory to be made and removed\n",
	    directory);
	return false;
}

static int execute(struct bench_command *command, const struct command *which)
{
	char directory[4096];
	const char *base = getenv("TMPDIR");
	snprintf(directory, sizeof directory, "%s/cairn-bench-%ld", base && *base ? base : "/tmp",
	    (long)getpid());
	if (!command->series.options.directory)
		command->series.options.directory = directory;
	if (!directory_is_new(command->series.options.directory))
		return FAILURE;
	cairn_bench_environment(&command->environment, command->series.options.directory);
	int rc = which->run(command);
	cairn_bench_remove(command->series.options.directory);
	if (!rc && (fflush(stdout) || ferror(stdout))) {
		fprintf(stderr, "cairn-bench: standard output: %s\n", strerror(errno));
		return FAILURE;
	}
	return rc == 0 ? FINE : rc == CAIRN_BENCH_WRONG ? WRONG : FAILURE;
}

int main(int argc, char **argv)
{
	static struct bench_command command;
	const struct command *which = take_command(&argc, &argv);
	set_defaults(&command, which);
	for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		if (c == 'h') {
			print_usage(stdout);
			return FINE;
		}
		if (!set_option(&command, c)) {
			print_usage(stderr);
			return USAGE;
		}
	}
	if (optind != argc) {
		print_usage(stderr);
		return USAGE;
	}
	return execute(&command, which);
}
