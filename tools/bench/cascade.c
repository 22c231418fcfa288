/*
 * tools/bench/cascade.c -- the search in all runs of a store beside other ways to find the same
 * places (command `cascade`).
 *
 * A seek places a cursor in each of four runs. The ways differ in how they find the blocks to look
 * into; what is done there is the same. Ways take turns, 5,000 seeks at a time, each time after 4
 * MiB of other memory and some seeks that are not timed; what counts is the median of the CPU
 * time. That all find the same places is checked before. Then the store itself is asked, through
 * one iterator.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "format/bytes.h"
#include "format/cascade.h"
#include "format/error.h"
#include "tools/bench/cascade_runs.h"
#include "tools/bench/command.h"
#include "tools/bench/report.h"

#define SEEKS      5000u
#define WARM_UP    300u
#define ROUNDS     25u
#define OTHER_SIZE ((size_t)4 << 20)
#define NEXT       10u

enum way { INDEX, TREES, BINARY, GIVEN, WAYS };

static const char *const way_names[WAYS] = {
    [INDEX] = "index", [TREES] = "trees", [BINARY] = "binary", [GIVEN] = "given"};

enum figure {
	WAY_NS,
	OF_TREES = WAY_NS + WAYS,
	OF_BINARY,
	OF_RUNS,  /* percent: the indexes' size of that of all runs, … */
	OF_NEWER, /* … of all runs but the oldest; … */
	OF_FLUSH, /* … their CPU time of that of all flushes */
	SEEK_NEXT_NS,
	FORWARD_NS, /* a record, keys only; … */
	FORWARD_VALUES_NS,
	BACKWARD_NS,
	BACKWARD_VALUES_NS,
	FIGURES
};

/* The first key of a block of a run, by its first 8 bytes behind what all keys share. */
struct fence {
	uint64_t head;
	struct cairn_run_aim aim;
};

struct cascade_pass {
	struct bench_runs runs;
	struct cairn_cascade *cascade[2]; /* INDEX, TREES */
	struct cairn_cursor *cursor[CAIRN_BENCH_RUNS];
	struct fence *fences[CAIRN_BENCH_RUNS];
	uint8_t (*keys)[CAIRN_BENCH_RUN_KEY]; /* of the seeks at hand; the warm-up comes first */
	struct cairn_run_aim (*given)[CAIRN_BENCH_RUNS];
	uint8_t *other;
	uint64_t random;
	double *figures; /* shared with the parent */
};

static int failed(const char *call)
{
	return cairn_bench_failed("cascade", call, cairn_error_text());
}

/* ---------------------------------------------------------------- ways */

static unsigned shared_by_all(const struct cairn_run_reader *run)
{
	return (unsigned)cairn_key_common(cairn_run_first_key(run), cairn_run_last_key(run));
}

static uint64_t head_of(const struct cairn_run_reader *run, cairn_slice key)
{
	return cairn_key_head(key, shared_by_all(run));
}

/* What a binary search needs: the fences in an array. */
static int list_fences(struct cascade_pass *pass, size_t r)
{
	struct cairn_run_reader *run = pass->runs.run[r];
	uint64_t blocks = cairn_run_footer(run)->blocks;
	pass->fences[r] = cairn_bench_new(blocks * sizeof *pass->fences[r]);
	for (uint64_t b = 0; b < blocks; b++) {
		struct fence *fence = &pass->fences[r][b];
		fence->aim.block = b;
		if (cairn_run_block_offset(run, b, &fence->aim.offset))
			return failed("cairn_run_block_offset");
	}
	int rc = cairn_cursor_first(pass->cursor[r]);
	for (uint64_t b = 0; rc == 0 && b < blocks; b++) {
		pass->fences[r][b].head = head_of(run, pass->cursor[r]->key);
		unsigned records = cairn_run_bytes(run)[pass->fences[r][b].aim.offset] & 15;
		for (unsigned i = 0; rc == 0 && i < records; i++)
			rc = cairn_cursor_next(pass->cursor[r]);
	}
	return rc < 0 ? failed("cairn_cursor_next") : 0;
}

static struct cairn_run_aim find_fence(
    const struct cairn_run_reader *run, const struct fence *fences, cairn_slice key)
{
	uint64_t head = head_of(run, key), low = 0, high = cairn_run_footer(run)->blocks;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (fences[middle].head <= head)
			low = middle;
		else
			high = middle;
	}
	return fences[low].aim;
}

static void prefetch_given(const struct cascade_pass *pass, const struct cairn_run_aim *aims)
{
	for (size_t r = 0; r < CAIRN_BENCH_RUNS; r++)
		for (size_t line = 0; line < 4; line++)
			__builtin_prefetch(
			    cairn_run_bytes(pass->runs.run[r]) + aims[r].offset + 64 * line);
}

/* Key `i` of those at hand: its place in all runs. */
static inline int seek(struct cascade_pass *pass, enum way way, size_t i)
{
	cairn_slice key = cairn_slice_of(pass->keys[i], CAIRN_BENCH_RUN_KEY);
	struct cairn_run_aim found[CAIRN_BENCH_RUNS], *aims = found;
	unsigned how;
	int rc = 0;
	if (way == GIVEN)
		prefetch_given(pass, aims = pass->given[i]);
	else if (way != BINARY)
		rc = cairn_cascade_find(pass->cascade[way], key, found, &how);
	for (size_t r = 0; rc >= 0 && r < CAIRN_BENCH_RUNS; r++) {
		if (way == BINARY)
			aims[r] = find_fence(pass->runs.run[r], pass->fences[r], key);
		cairn_run_cursor_aim(pass->cursor[r], aims[r]);
		rc = cairn_cursor_seek(pass->cursor[r], key);
	}
	return rc < 0 ? failed("seek") : 0;
}

/* ---------------------------------------------------------------- timing */

static void choose_keys(struct cascade_pass *pass)
{
	for (size_t i = 0; i < WARM_UP + SEEKS; i++)
		cairn_bench_run_key(
		    &pass->runs, cairn_bench_mix(++pass->random) % pass->runs.count, pass->keys[i]);
}

static int find_given(struct cascade_pass *pass)
{
	int rc = 0;
	unsigned how;
	for (size_t i = 0; rc == 0 && i < WARM_UP + SEEKS; i++)
		rc = cairn_cascade_find(pass->cascade[TREES],
		    cairn_slice_of(pass->keys[i], CAIRN_BENCH_RUN_KEY), pass->given[i], &how);
	return rc ? failed("cairn_cascade_find") : 0;
}

/* What the cursors stand on, as a number. */
static uint64_t mix_places(const struct cascade_pass *pass, uint64_t mixed)
{
	for (size_t r = 0; r < CAIRN_BENCH_RUNS; r++) {
		const struct cairn_cursor *cursor = pass->cursor[r];
		mixed = cairn_bench_mix(mixed + cursor->valid);
		for (size_t at = 0; cursor->valid && at < cursor->key.size; at += 8)
			mixed = cairn_bench_mix(
			    mixed ^ cairn_get64((const uint8_t *)cursor->key.data + at));
	}
	return mixed;
}

/* The first of the four must be exact, and then the others must agree. */
static int check_ways(struct cascade_pass *pass)
{
	uint64_t expected = 0;
	for (unsigned way = 0; way < WAYS; way++) {
		uint64_t mixed = 0;
		for (size_t i = 0; i < SEEKS; i++) {
			int rc = seek(pass, (enum way)way, i);
			const struct cairn_cursor *oldest = pass->cursor[CAIRN_BENCH_RUNS - 1];
			if (rc)
				return rc;
			mixed = mix_places(pass, mixed);
			if (oldest->valid && oldest->key.size == CAIRN_BENCH_RUN_KEY &&
			    memcmp(oldest->key.data, pass->keys[i], CAIRN_BENCH_RUN_KEY) == 0)
				continue;
			fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: the key is not found\n",
			    way_names[way]);
			return CAIRN_BENCH_WRONG;
		}
		expected = way == 0 ? mixed : expected;
		if (mixed != expected) {
			fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: another place than %s\n",
			    way_names[way], way_names[0]);
			return CAIRN_BENCH_WRONG;
		}
	}
	return 0;
}

static int time_way(struct cascade_pass *pass, enum way way, double *ns)
{
	int rc = 0;
	for (size_t at = 0; at < OTHER_SIZE; at += 64)
		pass->other[at]++;
	for (size_t i = 0; rc == 0 && i < WARM_UP; i++)
		rc = seek(pass, way, i);
	uint64_t before = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = WARM_UP; rc == 0 && i < WARM_UP + SEEKS; i++)
		rc = seek(pass, way, i);
	*ns = (double)(cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - before) / SEEKS;
	return rc;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare_doubles);
	return values[count / 2];
}

static int time_ways(struct cascade_pass *pass)
{
	double ns[WAYS][ROUNDS];
	int rc = 0;
	for (unsigned round = 0; rc == 0 && round < ROUNDS; round++) {
		choose_keys(pass);
		rc = find_given(pass);
		for (unsigned way = 0; rc == 0 && way < WAYS; way++)
			rc = time_way(pass, (enum way)way, &ns[way][round]);
	}
	for (unsigned way = 0; rc == 0 && way < WAYS; way++)
		pass->figures[WAY_NS + way] = median(ns[way], ROUNDS);
	pass->figures[OF_TREES] = pass->figures[INDEX] / pass->figures[TREES];
	pass->figures[OF_BINARY] = pass->figures[INDEX] / pass->figures[BINARY];
	return rc;
}

/* ---------------------------------------------------------------- the files */

static int prepare(struct cascade_pass *pass)
{
	const struct cairn_fraction *none[CAIRN_BENCH_RUNS] = {NULL};
	const struct cairn_fraction *const *indexes[] = {
	    (const struct cairn_fraction *const *)pass->runs.index, none};
	for (unsigned way = INDEX; way <= TREES; way++)
		if (cairn_cascade_new(
			pass->runs.run, indexes[way], CAIRN_BENCH_RUNS, &pass->cascade[way]))
			return failed("cairn_cascade_new");
	for (size_t r = 0; r < CAIRN_BENCH_RUNS; r++) {
		if (cairn_run_cursor_open(pass->runs.run[r], CAIRN_ADVISE_RANDOM, &pass->cursor[r]))
			return failed("cairn_run_cursor_open");
		if (list_fences(pass, r))
			return CAIRN_BENCH_FAILED;
	}
	pass->keys = cairn_bench_new((WARM_UP + SEEKS) * sizeof *pass->keys);
	pass->given = cairn_bench_new((WARM_UP + SEEKS) * sizeof *pass->given);
	pass->other = cairn_bench_new(OTHER_SIZE);
	return 0;
}

static void release(struct cascade_pass *pass)
{
	for (unsigned way = INDEX; way <= TREES; way++)
		cairn_cascade_free(pass->cascade[way]);
	for (size_t r = 0; r < CAIRN_BENCH_RUNS; r++) {
		if (pass->cursor[r])
			cairn_cursor_close(pass->cursor[r]);
		free(pass->fences[r]);
	}
	free(pass->keys);
	free(pass->given);
	free(pass->other);
	cairn_bench_runs_close(&pass->runs);
}

static int search_files(struct cascade_pass *pass)
{
	const struct bench_runs *runs = &pass->runs;
	int rc = cairn_bench_runs_open(&pass->runs);
	if (!rc)
		rc = prepare(pass);
	if (!rc) {
		choose_keys(pass);
		rc = find_given(pass);
	}
	if (!rc)
		rc = check_ways(pass);
	if (!rc)
		rc = time_ways(pass);
	if (!rc) {
		pass->figures[OF_RUNS] =
		    100.0 * (double)runs->index_bytes / (double)runs->run_bytes;
		pass->figures[OF_NEWER] =
		    100.0 * (double)runs->index_bytes / (double)runs->newer_bytes;
		pass->figures[OF_FLUSH] = 100.0 * (double)runs->index_ns / (double)runs->flush_ns;
	}
	release(pass);
	return rc;
}

/* ---------------------------------------------------------------- the store */

static int seek_and_next(struct cascade_pass *pass, cairn_iter *iter)
{
	double ns[ROUNDS];
	uint8_t key[CAIRN_BENCH_RUN_KEY];
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t spent = 0;
		for (size_t i = 0; i < SEEKS; i++) {
			uint64_t record = cairn_bench_mix(++pass->random) % pass->runs.count;
			cairn_bench_run_key(&pass->runs, record, key);
			uint64_t before = i == 0 ? cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) : 0;
			int rc = cairn_iter_seek(iter, (cairn_slice){key, sizeof key});
			for (unsigned n = 0; rc == 0 && n < NEXT; n++)
				rc = cairn_iter_next(iter);
			if (rc < 0)
				return failed("cairn_iter_seek");
			spent = i == 0 ? before : spent;
		}
		ns[round] = (double)(cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - spent) / SEEKS;
	}
	pass->figures[SEEK_NEXT_NS] = median(ns, ROUNDS);
	return 0;
}

/* All records once, from one end to the other. */
static int scan(
    struct cascade_pass *pass, cairn_iter *iter, bool backward, bool values, enum figure figure)
{
	int (*const begin)(cairn_iter *) = backward ? cairn_iter_last : cairn_iter_first;
	int (*const move)(cairn_iter *) = backward ? cairn_iter_prev : cairn_iter_next;
	uint64_t count = 0, bytes = 0;
	uint64_t before = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	int rc = begin(iter);
	for (; rc == 0; rc = move(iter), count++)
		bytes += values ? cairn_iter_value(iter).size : cairn_iter_key(iter).size;
	uint64_t spent = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - before;
	size_t each = values ? pass->runs.value_size : CAIRN_BENCH_RUN_KEY;
	if (rc < 0)
		return failed("scan");
	if (count != pass->runs.count || bytes != count * each) {
		fprintf(stderr, "cairn-bench: WRONG ANSWER: a scan found other records\n");
		return CAIRN_BENCH_WRONG;
	}
	pass->figures[figure] = (double)spent / (double)count;
	return 0;
}

static int scan_all_ways(struct cascade_pass *pass, cairn_iter *iter)
{
	int rc = scan(pass, iter, false, true, FORWARD_VALUES_NS);
	if (!rc)
		rc = scan(pass, iter, false, false, FORWARD_NS);
	if (!rc)
		rc = scan(pass, iter, true, false, BACKWARD_NS);
	return rc ? rc : scan(pass, iter, true, true, BACKWARD_VALUES_NS);
}

static int use_store(struct cascade_pass *pass)
{
	cairn *db;
	cairn_view *view = NULL;
	cairn_iter *iter = NULL;
	int rc = cairn_bench_runs_store(&pass->runs, &db);
	if (rc)
		return rc;
	if (cairn_view_open(db, &view) || cairn_iter_open(view, NULL, &iter))
		rc = failed("cairn_iter_open");
	if (!rc)
		rc = scan_all_ways(pass, iter);
	if (!rc)
		rc = seek_and_next(pass, iter);
	cairn_iter_close(iter);
	cairn_view_close(view);
	if (cairn_close(db) && !rc)
		rc = failed("cairn_close");
	return rc;
}

static int do_pass(void *context)
{
	struct cascade_pass *pass = context;
	cairn_bench_remove(pass->runs.directory);
	if (mkdir(pass->runs.directory, 0777))
		return cairn_bench_failed("cascade", "mkdir", pass->runs.directory);
	int rc = cairn_bench_runs_make(&pass->runs);
	if (!rc)
		rc = search_files(pass);
	return rc ? rc : use_store(pass);
}

/* ---------------------------------------------------------------- printing */

typedef double pass_figures[FIGURES];

static void print_head(void)
{
	printf(
	    "\nNanoseconds of CPU time; medians. A seek into four runs, N, N/4, N/16 and N/64: by\n"
	    "fractional indexes, by the runs' own trees in lockstep, by a binary search in one\n"
	    "run after the other, and when all blocks are given.\n\n");
	printf("| N | keys");
	for (unsigned way = 0; way < WAYS; way++)
		printf(" | %s", way_names[way]);
	printf(
	    " | index : trees | : binary | seek + %u next | next | with value | prev | with value "
	    "| .ix, %% of .kv | of newer .kv | %% of flush time |\n",
	    NEXT);
	printf("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
}

static double median_of(const pass_figures *passes, unsigned count, unsigned figure)
{
	double values[CAIRN_BENCH_PASSES];
	for (unsigned i = 0; i < count; i++)
		values[i] = passes[i][figure];
	return median(values, count);
}

static void print_row(const struct bench_runs *runs, const pass_figures *passes, unsigned count)
{
	static const enum figure columns[] = {SEEK_NEXT_NS, FORWARD_NS, FORWARD_VALUES_NS,
	    BACKWARD_NS, BACKWARD_VALUES_NS, OF_RUNS, OF_NEWER, OF_FLUSH};
	printf("| %llu | %s", (unsigned long long)runs->count,
	    runs->structured ? "structured" : "random");
	for (unsigned way = 0; way < WAYS; way++)
		printf(" | %.0f", median_of(passes, count, WAY_NS + way));
	printf(" | %.2f", median_of(passes, count, OF_TREES));
	printf(" | %.2f", median_of(passes, count, OF_BINARY));
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		printf(columns[i] == SEEK_NEXT_NS ? " | %.0f"
		       : columns[i] < OF_RUNS     ? " | %.1f"
						  : " | %.2f",
		    median_of(passes, count, columns[i]));
	printf(" |\n");
	fflush(stdout);
}

static int measure(
    struct bench_command *command, uint64_t count, bool structured, pass_figures *figures)
{
	const struct bench_options *o = &command->series.options;
	int rc = 0;
	struct bench_runs runs = {.directory = o->directory,
	    .count = count,
	    .value_size = o->value_size,
	    .structured = structured,
	    .seed = o->seed};
	for (unsigned i = 0; !rc && i < command->series.passes; i++) {
		struct cascade_pass pass = {
		    .runs = runs, .random = o->seed << 32 | i << 24, .figures = figures[i]};
		fprintf(stderr, "cairn-bench: %llu %s keys, pass %u of %u\n",
		    (unsigned long long)count, structured ? "structured" : "random", i + 1,
		    command->series.passes);
		rc = cairn_bench_in_child(do_pass, &pass, "cascade");
	}
	if (!rc)
		print_row(&runs, (const pass_figures *)figures, command->series.passes);
	return rc;
}

int cairn_bench_cascade(struct bench_command *command)
{
	static const uint64_t sizes[] = {131072, 1000000, 10000000};
	uint64_t most = command->series.options.records;
	size_t size = CAIRN_BENCH_PASSES * sizeof(pass_figures);
	pass_figures *figures =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc = 0;
	if (figures == MAP_FAILED)
		return cairn_bench_failed("cascade", "mmap", "memory is short");
	cairn_bench_print_environment(stdout, &command->environment);
	print_head();
	for (size_t i = 0; !rc && i < sizeof sizes / sizeof *sizes; i++) {
		uint64_t count = most < sizes[0] ? most : sizes[i];
		if (count > most || (i > 0 && count < sizes[i]))
			break;
		rc = measure(command, count, true, figures);
		if (!rc)
			rc = measure(command, count, false, figures);
	}
	munmap(figures, size);
	return rc;
}
