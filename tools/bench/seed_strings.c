/*
 * tools/bench/seed_strings.c -- lookups in string tables of four runs, as Everett compared byte
 * and bit coded files (command `seeds`).
 *
 * N records of 32-byte values, then a quarter, a sixteenth and a 64th of them again with new
 * values, each a run of its own; cairn does so without background work, other engines hold the
 * same records in the shape they choose. Keys are structured (16 bytes: a table, a row) or
 * hash-like (128 bytes of noise). A trial is 8,192 lookups over a list of 4,096 keys: one after
 * the other, or each chosen by what the one before it found. All gets are as of one moment where
 * the engine can do that. Times are of the thread's CPU; every answer is compared.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tools/bench/command.h"

#define RUNS      4u
#define KEY_MOST  128u
#define VALUE     32u
#define LIST      4096u
#define LOOKUPS   8192u
#define TRIALS    3u
#define ROW_COUNT 4096u /* of a structured table */

enum kind { HIT, MISS, MIXED, KINDS };
enum order { INDEPENDENT, DEPENDENT, ORDERS };

struct shape {
	uint32_t records;
	size_t key_size;
	double theirs_byte, theirs_bit; /* µs of an independent hit */
	double bit_bytes;               /* their bit coded files, beside the byte coded */
};

static const struct shape shapes[] = {
    {8192, 16, 2.668, 5.737, -0.04864},
    {131072, 16, 3.288, 6.820, -0.05030},
    {8192, 128, 3.083, 6.430, 0.00979},
    {131072, 128, 3.954, 7.918, 0.01090},
    {524288, 128, 4.583, 8.462, 0.01135},
};

/* A way to hold the table: an engine, and for cairn the options of its runs. */
struct way {
	const char *name;
	const struct bench_engine *engine;
	int run_format;
	int point_index;
};

/* What one process measured; shared with the one that prints. */
struct outcome {
	double ns[TRIALS][KINDS][ORDERS];
	uint64_t bytes; /* cairn: lengths of its .kv and .ix; else all on disk */
	uint64_t index_bytes;
};

struct query {
	uint8_t key[KEY_MOST];
	uint8_t value[VALUE];
	bool present;
};

struct table {
	const struct shape *shape;
	const struct way *way;
	const char *directory;
	struct outcome *outcome;
	void *store;
	void *session;
	struct query *queries;
};

static void make_key(const struct shape *shape, uint64_t record, bool present, uint8_t *key)
{
	char text[32];
	uint64_t number = 2 * record + !present, row = number % (2ul * ROW_COUNT);
	if (shape->key_size == 16) {
		snprintf(text, sizeof text, "tab%03u/row%06u",
		    (unsigned)(number / (2ul * ROW_COUNT)) % 1000, (unsigned)row);
		memcpy(key, text, shape->key_size);
		return;
	}
	for (size_t at = 0; at < shape->key_size; at += sizeof number) {
		number = cairn_bench_mix(number + 1 + at);
		memcpy(key + at, &number, sizeof number);
	}
}

/* The newest run that has the record; run r repeats one record in 4^r. */
static unsigned newest_run(uint64_t record)
{
	unsigned run = 0;
	while (run + 1 < RUNS && record % (UINT64_C(4) << (2 * run)) == 1)
		run++;
	return run;
}

static void make_value(uint64_t record, unsigned run, uint8_t *value)
{
	for (size_t at = 0; at < VALUE; at += 8) {
		uint64_t noise = cairn_bench_mix(record * RUNS + run + (at << 40) + 1);
		memcpy(value + at, &noise, sizeof noise);
	}
}

/* ---------------------------------------------------------------- building */

static int open_table(struct table *table)
{
	cairn_options variant;
	cairn_options_init(&variant);
	variant.no_background = 1;
	variant.memory_limit = (size_t)2 << 30;
	variant.memtable_bytes = (size_t)512 << 20;
	variant.run_format = table->way->run_format;
	variant.point_index = table->way->point_index;
	struct bench_place place = {.directory = table->directory,
	    .records = table->shape->records,
	    .key_size = table->shape->key_size,
	    .value_size = VALUE,
	    .variant = &variant};
	int rc = table->way->engine->open(&place, &table->store);
	return rc ? rc : table->way->engine->session_open(table->store, &table->session);
}

static int close_table(struct table *table)
{
	const struct bench_engine *engine = table->way->engine;
	engine->session_close(table->session);
	return engine->close(table->store);
}

/* Static engines get each record once, as it is in the end. */
static int write_run(struct table *table, unsigned run)
{
	const struct bench_engine *engine = table->way->engine;
	bool once = engine->traits & CAIRN_BENCH_STATIC;
	uint64_t step = once ? 1 : UINT64_C(1) << (2 * run);
	uint8_t key[KEY_MOST], value[VALUE];
	int rc = 0;
	for (uint64_t i = step > 1; !rc && i < table->shape->records; i += step) {
		make_key(table->shape, i, true, key);
		make_value(i, once ? newest_run(i) : run, value);
		rc = engine->put(table->session, (cairn_slice){key, table->shape->key_size},
		    (cairn_slice){value, VALUE}, false);
	}
	if (!rc && engine->flush)
		rc = engine->flush(table->session);
	return rc;
}

/* What cairn made of it must be four runs. */
static int check_runs(struct table *table)
{
	cairn *db;
	cairn_stats stats;
	cairn_options options;
	cairn_options_init(&options);
	options.read_only = 1;
	int rc = cairn_open(table->directory, &options, &db);
	if (!rc)
		rc = cairn_stat(db, &stats);
	if (rc)
		return cairn_bench_failed("cairn", "stat", cairn_message(NULL));
	cairn_close(db);
	table->outcome->index_bytes = stats.index_bytes;
	table->outcome->bytes = cairn_bench_file_bytes(table->directory, ".kv") +
				cairn_bench_file_bytes(table->directory, ".ix");
	if (stats.run_count != RUNS)
		return cairn_bench_failed("cairn", "string table", "not four runs");
	return 0;
}

static int build(struct table *table)
{
	const struct bench_engine *engine = table->way->engine;
	unsigned runs = engine->traits & CAIRN_BENCH_STATIC ? 1 : RUNS;
	int rc = open_table(table);
	for (unsigned run = 0; !rc && run < runs; run++)
		rc = write_run(table, run);
	if (!rc && engine->finish)
		rc = engine->finish(table->session);
	if (rc || !(engine->traits & CAIRN_BENCH_FILES))
		return rc;
	if (engine != &cairn_bench_cairn)
		rc = engine->compact(table->session);
	if (!rc)
		rc = close_table(table);
	table->outcome->bytes = cairn_bench_disk_bytes(table->directory);
	if (!rc && engine == &cairn_bench_cairn)
		rc = check_runs(table);
	return rc ? rc : open_table(table);
}

/* ---------------------------------------------------------------- looking up */

static void make_queries(struct table *table, enum kind kind)
{
	for (size_t i = 0; i < LIST; i++) {
		struct query *query = &table->queries[i];
		uint64_t record = cairn_bench_mix(i + 1) % table->shape->records;
		query->present = kind == HIT || (kind == MIXED && i % 2);
		make_key(table->shape, record, query->present, query->key);
		make_value(record, newest_run(record), query->value);
	}
}

static int look_up(struct table *table, const struct query *query, size_t *next)
{
	cairn_slice value = {0};
	cairn_slice key = {query->key, table->shape->key_size};
	int rc = table->way->engine->get(table->session, key, &value);
	if (rc < 0)
		return rc;
	if (rc != (query->present ? 0 : CAIRN_BENCH_ABSENT) ||
	    (!rc && (value.size != VALUE || memcmp(value.data, query->value, VALUE) != 0))) {
		fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: string table\n", table->way->name);
		return CAIRN_BENCH_WRONG;
	}
	*next += rc ? (size_t)rc : *(const uint8_t *)value.data % 2 + 1u;
	return 0;
}

/* Nanoseconds of CPU for a lookup. */
static int time_trial(struct table *table, enum order order, double *ns)
{
	size_t chosen = 0;
	int rc = 0;
	uint64_t cpu = cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; !rc && i < LOOKUPS; i++)
		rc = look_up(
		    table, &table->queries[(order == DEPENDENT ? chosen : i) % LIST], &chosen);
	*ns = (double)(cairn_bench_clock(CLOCK_THREAD_CPUTIME_ID) - cpu) / LOOKUPS;
	return rc;
}

static int time_all(struct table *table)
{
	double warm;
	int rc = 0;
	for (int kind = 0; !rc && kind < KINDS; kind++) {
		make_queries(table, (enum kind)kind);
		rc = time_trial(table, INDEPENDENT, &warm);
		for (unsigned t = 0; !rc && t < TRIALS * ORDERS; t++)
			rc = time_trial(table, (enum order)(t % ORDERS),
			    &table->outcome->ns[t / ORDERS][kind][t % ORDERS]);
	}
	return rc;
}

static int measure(void *context)
{
	struct table *table = context;
	const struct bench_engine *engine = table->way->engine;
	cairn_bench_remove(table->directory);
	if (mkdir(table->directory, 0777))
		return cairn_bench_failed("seeds", "mkdir", table->directory);
	table->queries = cairn_bench_new(LIST * sizeof *table->queries);
	int rc = build(table);
	if (!rc && engine->hold)
		rc = engine->hold(table->session);
	if (!rc)
		rc = time_all(table);
	if (!rc && engine->hold)
		rc = engine->let_go(table->session);
	if (!rc)
		rc = close_table(table);
	free(table->queries);
	return rc;
}

/* ---------------------------------------------------------------- printing */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(
    const struct outcome *outcomes, unsigned passes, enum kind kind, enum order order)
{
	double all[CAIRN_BENCH_PASSES * TRIALS];
	size_t n = 0;
	for (unsigned pass = 0; pass < passes; pass++)
		for (unsigned trial = 0; trial < TRIALS; trial++)
			all[n++] = outcomes[pass].ns[trial][kind][order];
	qsort(all, n, sizeof *all, ascending);
	return all[n / 2];
}

static void print_outcomes(const char *name, const struct outcome *outcomes, unsigned passes)
{
	printf("| %s |", name);
	for (int order = 0; order < ORDERS; order++)
		for (int kind = 0; kind < KINDS; kind++)
			printf(" %.0f |",
			    median(outcomes, passes, (enum kind)kind, (enum order)order));
	printf(" %llu |\n", (unsigned long long)outcomes->bytes);
}

static int run_way(struct bench_command *command, const struct shape *shape, const struct way *way,
    struct outcome *outcomes)
{
	unsigned passes = command->series.passes;
	int rc = 0;
	for (unsigned pass = 0; !rc && pass < passes; pass++) {
		struct table table = {.shape = shape,
		    .way = way,
		    .directory = command->series.options.directory,
		    .outcome = &outcomes[pass]};
		rc = cairn_bench_in_child(measure, &table, way->name);
	}
	if (!rc)
		print_outcomes(way->name, outcomes, passes);
	if (rc == CAIRN_BENCH_NO_SUCH) {
		printf("| %s | not built yet | | | | | | |\n", way->name);
		rc = 0;
	}
	return rc;
}

static int run_shape(
    struct bench_command *command, const struct shape *shape, struct outcome *outcomes)
{
	static const struct way ours[] = {
	    {"cairn KV02, point index", &cairn_bench_cairn, CAIRN_KV02, CAIRN_POINT_INDEX},
	    {"cairn KV02, index alone", &cairn_bench_cairn, CAIRN_KV02, CAIRN_NO_POINT_INDEX},
	    {"cairn KV03, point index", &cairn_bench_cairn, CAIRN_KV03, CAIRN_POINT_INDEX},
	    {"cairn KV03, index alone", &cairn_bench_cairn, CAIRN_KV03, CAIRN_NO_POINT_INDEX},
	};
	const struct bench_series *series = &command->series;
	int rc = 0;
	printf("\n%u records, %s %zu-byte keys\n\n", shape->records,
	    shape->key_size == 16 ? "structured" : "hash-like", shape->key_size);
	printf("| ns per lookup | hit | miss | mixed | hit, dependent | miss, dep. | mixed, dep. | "
	       "bytes |\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
	printf("| theirs, byte | %.0f | | | | | | |\n", shape->theirs_byte * 1e3);
	printf("| theirs, bit | %.0f | | | | | | byte %+.1f %% |\n", shape->theirs_bit * 1e3,
	    shape->bit_bytes * 100);
	for (size_t i = 0; !rc && i < sizeof ours / sizeof *ours; i++)
		rc = run_way(command, shape, &ours[i], outcomes);
	for (size_t i = 0; !rc && i < series->engine_count; i++) {
		struct way other = {series->engines[i]->name, series->engines[i], 0, 0};
		if (other.engine != &cairn_bench_cairn)
			rc = run_way(command, shape, &other, outcomes);
	}
	return rc;
}

int cairn_bench_seed_strings(struct bench_command *command)
{
	size_t size = CAIRN_BENCH_PASSES * sizeof(struct outcome);
	struct outcome *outcomes =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc = 0;
	if (outcomes == MAP_FAILED)
		return cairn_bench_failed("seeds", "mmap", "memory is short");
	printf("\n## String tables of four runs N, N/4, N/16, N/64 (Everett)\n\n"
	       "Theirs: on an Apple machine, medians of 9 trials, independent hits. Ours: %u "
	       "trials of %u lookups, CPU time.\n",
	    command->series.passes * TRIALS, LOOKUPS);
	for (size_t i = 0; !rc && i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].records <= command->series.options.records)
			rc = run_shape(command, &shapes[i], outcomes);
	if (!rc && !outcomes->index_bytes)
		printf("\nFractional indexes are not built yet: without a point index each run's "
		       "own tree is searched.\n");
	munmap(outcomes, size);
	return rc;
}
