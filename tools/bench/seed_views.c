/*
 * tools/bench/seed_views.c -- a dictionary that is filled, committed and searched in ten rounds,
 * as Metakit timed its mapped views (command `seeds`).
 *
 * 45,407 words drawn from a dictionary with a fixed seed; the key of round r > 0 is the word, a
 * space and r; the value is the row number in 8 bytes. Adds are those to a batch, the commit
 * makes it durable, then words of all rounds so far are looked for. Where finds end up depends on
 * the engine: so small a store may still lie in memory, so that they are timed once more at rest.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tools/bench/command.h"

#define WORDS     45407u
#define ROUNDS    10u
#define FINDS     10000u
#define WORD_MOST 64u
#define SYNTHETIC 8u /* letters of a word that had to be made up */

static const char *const dictionaries[] = {
    "/usr/share/dict/american-english", "/usr/share/dict/words"};

struct words {
	char (*words)[WORD_MOST];
	uint32_t count;
	const char *from; /* NULL: made up */
};

struct outcome {
	double adds[ROUNDS]; /* per second */
	double commit_ms[ROUNDS];
	double find_us[ROUNDS];
	double find_at_rest_us;
	uint64_t bytes;
};

struct way {
	const char *name;
	const struct bench_engine *engine;
	int point_index; /* cairn only */
};

struct views {
	const struct words *words;
	const struct way *way;
	const char *directory;
	struct outcome *outcome;
	void *store;
	void *session;
};

/* ---------------------------------------------------------------- words */

static void make_up(struct words *words)
{
	words->from = NULL;
	for (uint32_t i = 0; i < words->count; i++) {
		uint64_t noise = cairn_bench_mix(i + 1);
		size_t length = 3 + noise % SYNTHETIC;
		for (size_t at = 0; at < length; at++, noise /= 26)
			words->words[i][at] = (char)('a' + noise % 26);
		snprintf(words->words[i] + length, WORD_MOST - length, "%u", i);
	}
}

/* Lines of the file, each with the same chance to be among the `count` that stay. */
static bool draw(struct words *words, const char *path)
{
	char line[WORD_MOST];
	uint64_t seen = 0;
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		uint64_t at = seen < words->count ? seen : cairn_bench_mix(seen) % (seen + 1);
		if (at < words->count)
			memcpy(words->words[at], line, sizeof line);
		seen++;
	}
	fclose(file);
	words->from = path;
	return seen >= words->count;
}

static void init_words(struct words *words, uint32_t count)
{
	*words = (struct words){.count = count};
	words->words = cairn_bench_new(count * sizeof *words->words);
	for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++)
		if (draw(words, dictionaries[i]))
			return;
	make_up(words);
}

static cairn_slice key_of(const struct words *words, uint64_t row, char *text)
{
	const char *word = words->words[row % words->count];
	unsigned round = (unsigned)(row / words->count);
	int size = round ? snprintf(text, WORD_MOST + 8, "%s %u", word, round)
			 : snprintf(text, WORD_MOST + 8, "%s", word);
	return (cairn_slice){text, (size_t)size};
}

/* ---------------------------------------------------------------- rounds */

static double seconds_since(uint64_t began)
{
	return (double)(cairn_bench_clock(CLOCK_MONOTONIC) - began) * 1e-9;
}

/* Keys are made before they are added, in pieces that stay in the cache. */
static int fill(struct views *views, uint64_t from, double *seconds)
{
	enum { PIECE = 256 };
	char text[PIECE][WORD_MOST + 8];
	cairn_slice keys[PIECE];
	uint64_t to = from + views->words->count;
	int rc = 0;
	*seconds = 0;
	while (!rc && from < to) {
		size_t n = to - from < PIECE ? (size_t)(to - from) : PIECE;
		for (size_t i = 0; i < n; i++)
			keys[i] = key_of(views->words, from + i, text[i]);
		uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
		for (size_t i = 0; !rc && i < n; i++, from++)
			rc = views->way->engine->add(
			    views->session, keys[i], (cairn_slice){&from, sizeof from});
		*seconds += seconds_since(began);
	}
	return rc;
}

static int find_one(struct views *views, uint64_t row)
{
	char text[WORD_MOST + 8];
	cairn_slice value = {0};
	int rc = views->way->engine->get(views->session, key_of(views->words, row, text), &value);
	if (rc < 0)
		return rc;
	if (!rc && value.size == sizeof row && memcmp(value.data, &row, sizeof row) == 0)
		return 0;
	fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: dictionary: %s\n", views->way->name, text);
	return CAIRN_BENCH_WRONG;
}

/* Making the key counts in: about 0.1 µs. */
static int find(struct views *views, uint64_t rows, double *us)
{
	int rc = 0;
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	for (uint64_t i = 0; !rc && i < FINDS; i++)
		rc = find_one(views, cairn_bench_mix(i + rows) % rows);
	*us = seconds_since(began) * 1e6 / FINDS;
	return rc;
}

static int do_round(struct views *views, unsigned round)
{
	struct outcome *outcome = views->outcome;
	uint64_t words = views->words->count;
	double seconds;
	int rc = fill(views, round * words, &seconds);
	outcome->adds[round] = (double)words / seconds;
	uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
	if (!rc)
		rc = views->way->engine->commit(views->session, true);
	outcome->commit_ms[round] = seconds_since(began) * 1e3;
	return rc ? rc : find(views, (round + 1) * words, &outcome->find_us[round]);
}

static int open_views(struct views *views)
{
	cairn_options variant;
	cairn_options_init(&variant);
	variant.point_index = views->way->point_index;
	struct bench_place place = {.directory = views->directory,
	    .records = ROUNDS * views->words->count,
	    .key_size = WORD_MOST,
	    .value_size = sizeof(uint64_t),
	    .variant = &variant};
	int rc = views->way->engine->open(&place, &views->store);
	return rc ? rc : views->way->engine->session_open(views->store, &views->session);
}

static int measure(void *context)
{
	struct views *views = context;
	const struct bench_engine *engine = views->way->engine;
	cairn_bench_remove(views->directory);
	if (mkdir(views->directory, 0777))
		return cairn_bench_failed("seeds", "mkdir", views->directory);
	int rc = open_views(views);
	for (unsigned round = 0; !rc && round < ROUNDS; round++)
		rc = do_round(views, round);
	if (!rc)
		rc = engine->rest(views->session);
	if (!rc)
		rc = find(views, (uint64_t)ROUNDS * views->words->count,
		    &views->outcome->find_at_rest_us);
	views->outcome->bytes = cairn_bench_disk_bytes(views->directory);
	if (rc)
		return rc;
	engine->session_close(views->session);
	return engine->close(views->store);
}

/* ---------------------------------------------------------------- printing */

static void print_theirs(void)
{
	printf(
	    "| theirs: hash, blocked (PIII/650, 2002) | 10 | 11 | 98 | 222 | 78 | 99 | | 27.4 |\n"
	    "| theirs: ordered, blocked | 7.7 | 4.1 | 79 | 453 | 136 | 229 | | |\n"
	    "| theirs: both | 6.8 | abandoned | 98 | | 118 | | | |\n");
}

static void print_outcome(const char *name, const struct outcome *o)
{
	unsigned last = ROUNDS - 1;
	printf("| %s | %.0f | %.0f | %.1f | %.1f | %.2f | %.2f | %.2f | %.1f |\n", name,
	    o->adds[0] * 1e-3, o->adds[last] * 1e-3, o->commit_ms[0], o->commit_ms[last],
	    o->find_us[0], o->find_us[last], o->find_at_rest_us, (double)o->bytes * 1e-6);
}

static int run_way(struct views *views)
{
	int rc = cairn_bench_in_child(measure, views, views->way->name);
	if (!rc)
		print_outcome(views->way->name, views->outcome);
	if (rc != CAIRN_BENCH_NO_SUCH)
		return rc;
	printf("| %s | not built yet | | | | | | | |\n", views->way->name);
	return 0;
}

static int run_ways(struct bench_command *command, struct views *views)
{
	static const struct way ours[] = {
	    {"cairn, ordered", &cairn_bench_cairn, CAIRN_NO_POINT_INDEX},
	    {"cairn, both ordered and hashed", &cairn_bench_cairn, CAIRN_POINT_INDEX},
	};
	const struct bench_series *series = &command->series;
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof ours / sizeof *ours; i++) {
		views->way = &ours[i];
		rc = run_way(views);
	}
	for (size_t i = 0; !rc && i < series->engine_count; i++) {
		struct way other = {series->engines[i]->name, series->engines[i], 0};
		views->way = &other;
		if (other.engine != &cairn_bench_cairn &&
		    !(other.engine->traits & CAIRN_BENCH_STATIC))
			rc = run_way(views);
	}
	return rc;
}

int cairn_bench_seed_views(struct bench_command *command)
{
	struct words words;
	struct views views = {.words = &words, .directory = command->series.options.directory};
	uint32_t records = command->series.options.records;
	init_words(&words, records < WORDS ? records : WORDS);
	views.outcome = mmap(
	    NULL, sizeof *views.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (views.outcome == MAP_FAILED)
		return cairn_bench_failed("seeds", "mmap", "memory is short");
	printf("\n## Mapped views (Metakit): %u words a round, %u rounds\n\nWords: %s%s.\n\n",
	    words.count, ROUNDS, words.from ? "drawn from " : "made up: no dictionary is installed",
	    words.from ? words.from : "");
	printf(
	    "| | thousand adds/s, round 1 | round %u | durable commit ms, 1 | %u | find us, 1 | %u "
	    "| at rest | MB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	    ROUNDS, ROUNDS, ROUNDS);
	print_theirs();
	fflush(stdout);
	int rc = run_ways(command, &views);
	munmap(views.outcome, sizeof *views.outcome);
	free(words.words);
	return rc;
}
