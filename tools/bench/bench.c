/*
 * tools/bench/bench.c -- cairn-bench: how fast the store is here and now, every answer checked.
 *
 * Workloads have db_bench's names. Keys are 16 hexadecimal digits of a mixed number, values are
 * half compressible; both follow from the seed, so that a wrong answer is seen. Each pass starts
 * with a new store. Reported are the best and the median pass, in operations per second by wall
 * clock and in nanoseconds of CPU of the calling thread.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/cairn.h"

#define KEY_SIZE   16u
#define VALUE_MOST 65536u
#define PASSES     9u
#define SCAN_NEXT  10u

struct bench {
	const char *directory;
	uint64_t count;
	size_t value_size;
	unsigned passes;
	uint64_t seed;
	int sync_mode;
	cairn *db;
	uint8_t value[VALUE_MOST];
	uint8_t read[VALUE_MOST];
};

struct workload {
	const char *name;
	int (*run)(struct bench *bench);
	double rate[PASSES]; /* operations per second */
	double cpu[PASSES];  /* nanoseconds per operation */
};

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void hex_key(uint64_t number, char key[KEY_SIZE])
{
	for (size_t i = 0; i < KEY_SIZE; i++)
		key[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
}

/* Record `i`: its key, and a value whose first half is noise and whose second half repeats. */
static cairn_slice key_of(const struct bench *bench, uint64_t i, char key[KEY_SIZE])
{
	hex_key(mix(i + bench->seed), key);
	return (cairn_slice){key, KEY_SIZE};
}

static cairn_slice value_of(struct bench *bench, cairn_slice key)
{
	uint64_t noise;
	memcpy(&noise, key.data, sizeof noise);
	size_t half = bench->value_size / 2;
	for (size_t i = 0; i < half; i += 8) {
		noise = mix(noise + i);
		memcpy(bench->value + i, &noise, half - i < 8 ? half - i : 8);
	}
	memset(bench->value + half, (int)(noise & 0x3f) + ' ', bench->value_size - half);
	return (cairn_slice){bench->value, bench->value_size};
}

static bool same(cairn_slice a, cairn_slice b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static int wrong(const char *what)
{
	fprintf(stderr, "cairn-bench: a wrong answer: %s\n", what);
	return 1;
}

static int failed(int rc)
{
	fprintf(stderr, "cairn-bench: %s\n", cairn_message(NULL));
	return rc;
}

/* ---------------------------------------------------------------- workloads */

static int fillrandom(struct bench *bench)
{
	char key[KEY_SIZE];
	int rc = 0;
	for (uint64_t i = 0; !rc && i < bench->count; i++) {
		cairn_slice k = key_of(bench, i, key);
		rc = cairn_put(bench->db, k, value_of(bench, k), 0);
	}
	return rc ? failed(rc) : 0;
}

static int fillseq(struct bench *bench)
{
	char key[KEY_SIZE];
	int rc = 0;
	for (uint64_t i = 0; !rc && i < bench->count; i++) {
		hex_key(i, key);
		cairn_slice k = {key, KEY_SIZE};
		rc = cairn_put(bench->db, k, value_of(bench, k), 0);
	}
	return rc ? failed(rc) : 0;
}

/* Any of the records, in an order that has nothing to do with that of the fill. */
static uint64_t pick(const struct bench *bench, uint64_t i)
{
	return mix(i ^ UINT64_C(0x5bd1e995)) % bench->count;
}

static int readrandom(struct bench *bench)
{
	char key[KEY_SIZE];
	size_t size;
	for (uint64_t i = 0; i < bench->count; i++) {
		cairn_slice k = key_of(bench, pick(bench, i), key);
		int rc = cairn_get(bench->db, k, bench->read, sizeof bench->read, &size);
		if (rc < 0)
			return failed(rc);
		if (rc || !same((cairn_slice){bench->read, size}, value_of(bench, k)))
			return wrong("a record is missing or has another value");
	}
	return 0;
}

static int readmissing(struct bench *bench)
{
	char key[KEY_SIZE];
	size_t size;
	for (uint64_t i = 0; i < bench->count; i++) {
		cairn_slice k = key_of(bench, pick(bench, i), key);
		key[KEY_SIZE - 1] = 'x';
		int rc = cairn_get(bench->db, k, bench->read, sizeof bench->read, &size);
		if (rc < 0)
			return failed(rc);
		if (rc != CAIRN_NOT_FOUND)
			return wrong("a record is there that was never written");
	}
	return 0;
}

/* From the record that the iterator stands on: `limit` records in order, each with its value. */
static int walk(struct bench *bench, cairn_iter *iter, int (*move)(cairn_iter *iter),
    uint64_t limit, uint64_t *seen)
{
	char last[KEY_SIZE];
	int rc = 0;
	for (*seen = 0; !rc && *seen < limit; ++*seen) {
		cairn_slice key = cairn_iter_key(iter), value = cairn_iter_value(iter);
		if (key.size != KEY_SIZE || !same(value, value_of(bench, key)))
			return wrong("a scan shows a record with another value");
		int order = *seen ? memcmp(key.data, last, KEY_SIZE) : 0;
		if (*seen && (move == cairn_iter_next ? order <= 0 : order >= 0))
			return wrong("a scan is out of order");
		memcpy(last, key.data, KEY_SIZE);
		rc = move(iter);
	}
	return rc < 0 ? failed(rc) : 0;
}

/* Opens a view and an iterator, runs `use`, closes both. */
static int with_iterator(struct bench *bench, int (*use)(struct bench *bench, cairn_iter *iter))
{
	cairn_view *view;
	cairn_iter *iter = NULL;
	int rc = cairn_view_open(bench->db, &view);
	if (!rc)
		rc = cairn_iter_open(view, NULL, &iter);
	if (rc)
		failed(rc);
	else
		rc = use(bench, iter);
	cairn_iter_close(iter);
	cairn_view_close(view);
	return rc;
}

static int seek_all(struct bench *bench, cairn_iter *iter)
{
	char key[KEY_SIZE];
	uint64_t seen;
	int rc = 0;
	for (uint64_t i = 0; !rc && i < bench->count; i++) {
		cairn_slice k = key_of(bench, pick(bench, i), key);
		rc = cairn_iter_seek(iter, k);
		if (rc)
			return rc < 0 ? failed(rc) : wrong("a seek finds nothing");
		if (!same(cairn_iter_key(iter), k))
			return wrong("a seek finds another key");
		rc = walk(bench, iter, cairn_iter_next, SCAN_NEXT + 1, &seen);
	}
	return rc;
}

static int seekrandom(struct bench *bench)
{
	return with_iterator(bench, seek_all);
}

static int walk_all(struct bench *bench, cairn_iter *iter, int start, int (*move)(cairn_iter *))
{
	uint64_t seen = 0;
	if (start < 0)
		return failed(start);
	int rc = start ? 0 : walk(bench, iter, move, UINT64_MAX, &seen);
	return rc ? rc : seen == bench->count ? 0 : wrong("a scan shows another number of records");
}

static int scan_forward(struct bench *bench, cairn_iter *iter)
{
	return walk_all(bench, iter, cairn_iter_first(iter), cairn_iter_next);
}

static int scan_backward(struct bench *bench, cairn_iter *iter)
{
	return walk_all(bench, iter, cairn_iter_last(iter), cairn_iter_prev);
}

static int readseq(struct bench *bench)
{
	return with_iterator(bench, scan_forward);
}

static int readreverse(struct bench *bench)
{
	return with_iterator(bench, scan_backward);
}

static int wait_for_rest(struct bench *bench)
{
	int rc = cairn_flush(bench->db);
	if (!rc)
		rc = cairn_wait(bench->db);
	return rc ? failed(rc) : 0;
}

static struct workload workloads[] = {
    {.name = "fillrandom", .run = fillrandom},
    {.name = "fillseq", .run = fillseq},
    {.name = "wait", .run = wait_for_rest},
    {.name = "readrandom", .run = readrandom},
    {.name = "readmissing", .run = readmissing},
    {.name = "seekrandom", .run = seekrandom},
    {.name = "readseq", .run = readseq},
    {.name = "readreverse", .run = readreverse},
};

/* ---------------------------------------------------------------- passes */

static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int time_workload(struct bench *bench, struct workload *workload, unsigned pass)
{
	double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
	int rc = workload->run(bench);
	double count = (double)bench->count;
	workload->rate[pass] = count / (seconds(CLOCK_MONOTONIC) - wall);
	workload->cpu[pass] = (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) * 1e9 / count;
	return rc;
}

/* The workload that `list` names at its start, and how long the name is; NULL when it is none. */
static struct workload *find_workload(const char *list, size_t *size)
{
	*size = strcspn(list, ",");
	for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
		if (strlen(workloads[i].name) == *size &&
		    memcmp(workloads[i].name, list, *size) == 0)
			return &workloads[i];
	return NULL;
}

static int check_list(const char *list)
{
	for (size_t size; *list; list += size + (list[size] == ',')) {
		if (!find_workload(list, &size)) {
			fprintf(
			    stderr, "cairn-bench: no workload is called %.*s\n", (int)size, list);
			return 2;
		}
	}
	return 0;
}

static int remove_store(const char *directory)
{
	char command[4200];
	snprintf(command, sizeof command, "rm -rf -- '%s'", directory);
	return system(command) ? 3 : 0;
}

static int run_pass(struct bench *bench, const char *list, unsigned pass)
{
	cairn_options options;
	cairn_options_init(&options);
	options.must_not_exist = 1;
	options.sync_mode = bench->sync_mode;
	int rc = cairn_open(bench->directory, &options, &bench->db);
	if (rc)
		return failed(rc);
	for (size_t size; !rc && *list; list += size + (list[size] == ','))
		rc = time_workload(bench, find_workload(list, &size), pass);
	int closed = cairn_close(bench->db);
	if (!rc && closed)
		rc = failed(closed);
	return rc ? rc : remove_store(bench->directory);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_results(struct bench *bench, const char *list)
{
	printf("%-12s %14s %14s %12s   (%" PRIu64 " records, %u + %zu bytes, %u passes)\n",
	    "workload", "best /s", "median /s", "cpu ns/op", bench->count, KEY_SIZE,
	    bench->value_size, bench->passes);
	for (size_t size; *list; list += size + (list[size] == ',')) {
		struct workload *w = find_workload(list, &size);
		qsort(w->rate, bench->passes, sizeof *w->rate, ascending);
		qsort(w->cpu, bench->passes, sizeof *w->cpu, ascending);
		printf("%-12s %14.0f %14.0f %12.0f\n", w->name, w->rate[bench->passes - 1],
		    w->rate[bench->passes / 2], w->cpu[bench->passes / 2]);
	}
}

static void usage(FILE *to)
{
	fputs("usage: cairn-bench [--num N] [--value-size N] [--passes N] [--seed N]\n"
	      "                   [--sync interval|full|none] [--workloads LIST] [--dir DIR]\n\n"
	      "Times workloads on a new store, several passes, every answer checked. Prints the "
	      "best\n"
	      "and the median pass by wall clock, and the calling thread's CPU time.\n\n"
	      "  --workloads LIST  by commas, in the order in which they run; default\n"
	      "                    "
	      "fillrandom,wait,readrandom,readmissing,seekrandom,readseq,readreverse\n"
	      "                    fillrandom, fillseq   N puts, log on\n"
	      "                    wait                  flush and wait until the cascade is at "
	      "rest\n"
	      "                    readrandom            N gets of records that are there\n"
	      "                    readmissing           N gets of records that are not\n"
	      "                    seekrandom            N times: seek, then 10 next\n"
	      "                    readseq, readreverse  the whole store in order\n"
	      "  --num N           records; default 1000000\n"
	      "  --value-size N    bytes; default 100, at most 65536\n"
	      "  --passes N        1 to 9; default 3\n"
	      "  --sync MODE       what the store promises; default interval\n"
	      "  --dir DIR         a directory to be made and removed; default\n"
	      "                    $TMPDIR/cairn-bench-PID, or below /tmp\n",
	    to);
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
	char *end;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && end != text && !*end && *number >= least && *number <= most;
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

/* 0: go on. Else leave with that status, less one. */
static int parse(int argc, char **argv, struct bench *bench, const char **list)
{
	static const struct option options[] = {{"num", required_argument, NULL, 'n'},
	    {"value-size", required_argument, NULL, 'v'}, {"passes", required_argument, NULL, 'p'},
	    {"seed", required_argument, NULL, 's'}, {"sync", required_argument, NULL, 'y'},
	    {"workloads", required_argument, NULL, 'w'}, {"dir", required_argument, NULL, 'd'},
	    {"help", no_argument, NULL, 'h'}, {0}};
	uint64_t number = 0;
	bool good = true;
	for (int c; good && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 'n':
			good = parse_number(optarg, 1, UINT64_C(1) << 40, &bench->count);
			break;
		case 'v':
			good = parse_number(optarg, 0, VALUE_MOST, &number);
			bench->value_size = (size_t)number;
			break;
		case 'p':
			good = parse_number(optarg, 1, PASSES, &number);
			bench->passes = (unsigned)number;
			break;
		case 's':
			good = parse_number(optarg, 0, UINT64_MAX, &bench->seed);
			break;
		case 'y':
			good = parse_sync(optarg, &bench->sync_mode);
			break;
		case 'w':
			*list = optarg;
			break;
		case 'd':
			bench->directory = optarg;
			break;
		case 'h':
			usage(stdout);
			return 1;
		default:
			good = false;
		}
	}
	if (good && optind == argc)
		return 0;
	usage(stderr);
	return 3;
}

int main(int argc, char **argv)
{
	static struct bench bench = {.count = 1000000, .value_size = 100, .passes = 3, .seed = 1};
	const char *list = "fillrandom,wait,readrandom,readmissing,seekrandom,readseq,readreverse";
	const char *base = getenv("TMPDIR");
	char directory[4096];
	snprintf(directory, sizeof directory, "%s/cairn-bench-%ld", base && *base ? base : "/tmp",
	    (long)getpid());
	bench.directory = directory;
	int rc = parse(argc, argv, &bench, &list);
	if (rc)
		return rc - 1;
	rc = check_list(list);
	for (unsigned pass = 0; !rc && pass < bench.passes; pass++) {
		fprintf(stderr, "pass %u of %u\n", pass + 1, bench.passes);
		rc = run_pass(&bench, list, pass);
	}
	if (!rc)
		print_results(&bench, list);
	return rc < 0 ? 3 : rc;
}
