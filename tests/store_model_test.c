/*
 * tests/store_model_test.c -- random operations on a store, every answer compared with a model.
 *
 * A walk draws operations from one random generator: puts, deletes, batches, reads, views that stay
 * open while writes go on, steps of their iterators, flush, compact, wait, reopen, copies. The
 * table in memory is small, so there are hundreds of flushes and merges. Each opening
 * draws anew: with or without threads, the ring (where the kernel gives one) or POSIX, the sync
 * mode.
 *
 * CAIRN_TEST_OPERATIONS is the length of a walk.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "store/cairn.h"
#include "tests/match.h"
#include "tests/sample.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define VIEWS        4
#define BATCH_MOST   24
#define LOOKUPS_MOST 16
#define STEPS_MOST   30

/* A view, what it must see, and perhaps an iterator of it, with what that must see. */
struct sight {
	cairn_view *view;
	struct model model;
	cairn_iter *iter;
	size_t low, high; /* the model's records in the iterator's range: low and up, below high */
	size_t at;        /* where the iterator stands, MODEL_NONE: nowhere */
};

struct walk {
	uint64_t seed;
	uint64_t random;
	unsigned long long done;
	char *path;
	cairn *db;
	struct model model;
	struct sight sights[VIEWS];
	cairn_batch *batch;
	uint8_t key[SAMPLE_KEY_SIZE];
	uint8_t bounds[3][SAMPLE_KEY_SIZE];
	uint8_t value[SAMPLE_VALUE_SIZE];
	uint8_t answer[SAMPLE_VALUE_SIZE];
	unsigned long long compactions, reopenings, copies;
};

static size_t draw(struct walk *walk, size_t n)
{
	return (size_t)(test_random(&walk->random) % n);
}

/* Ends the test, saying where the walk was, unless the claim holds. */
#define HOLDS(walk, claim)                                                                     \
	do {                                                                                   \
		if (!(claim)) {                                                                \
			print_error("seed %llu, operation %llu: %s does not hold; last: %s\n", \
			    (unsigned long long)(walk)->seed, (walk)->done, #claim,            \
			    cairn_message(NULL));                                              \
			fail();                                                                \
		}                                                                              \
	} while (0)

/* ---------------------------------------------------------------- writing */

static unsigned draw_flags(struct walk *walk)
{
	return draw(walk, 500) == 0 ? CAIRN_SYNC : 0;
}

static void put(struct walk *walk)
{
	cairn_slice key = sample_key(&walk->random, walk->key);
	cairn_slice value = sample_value(&walk->random, walk->value);
	HOLDS(walk, cairn_put(walk->db, key, value, draw_flags(walk)) == 0);
	model_put(&walk->model, key, value);
}

static void erase(struct walk *walk)
{
	cairn_slice key = sample_key(&walk->random, walk->key);
	HOLDS(walk, cairn_delete(walk->db, key, draw_flags(walk)) == 0);
	model_delete(&walk->model, key);
}

/* Some keys come twice and more: the last operation on a key counts. */
static void write_batch(struct walk *walk)
{
	size_t count = draw(walk, BATCH_MOST + 1);
	cairn_slice key = {"", 0};
	cairn_batch_clear(walk->batch);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || draw(walk, 4))
			key = sample_key(&walk->random, walk->key);
		if (draw(walk, 3)) {
			cairn_slice value = sample_value(&walk->random, walk->value);
			HOLDS(walk, cairn_batch_put(walk->batch, key, value) == 0);
			model_put(&walk->model, key, value);
		} else {
			HOLDS(walk, cairn_batch_delete(walk->batch, key) == 0);
			model_delete(&walk->model, key);
		}
	}
	HOLDS(walk, cairn_batch_count(walk->batch) == count);
	HOLDS(walk, cairn_write(walk->db, walk->batch, draw_flags(walk)) == 0);
}

/* ---------------------------------------------------------------- reading */

/* Whether an answer for a key is right by the model. */
static bool is_answer(const struct model *model, cairn_slice key, int rc, cairn_slice value)
{
	size_t index = model_find(model, key);
	if (index == MODEL_NONE)
		return rc == CAIRN_NOT_FOUND && value.size == 0;
	return rc == 0 && value.data && model_equal(value, model_value(model, index));
}

/* Into a buffer that is large enough, or not. */
static void get(struct walk *walk)
{
	cairn_slice key = draw(walk, 10) ? sample_key(&walk->random, walk->key)
					 : sample_bound(&walk->random, walk->key);
	size_t capacity = draw(walk, 4) ? sizeof walk->answer : draw(walk, 100);
	size_t size = 1;
	int rc = cairn_get(walk->db, key, capacity ? walk->answer : NULL, capacity, &size);
	size_t index = model_find(&walk->model, key);
	if (index == MODEL_NONE) {
		HOLDS(walk, rc == CAIRN_NOT_FOUND && size == 0);
		return;
	}
	cairn_slice value = model_value(&walk->model, index);
	size_t copied = value.size < capacity ? value.size : capacity;
	HOLDS(walk, rc == 0 && size == value.size);
	HOLDS(walk, copied == 0 || memcmp(walk->answer, value.data, copied) == 0);
}

struct lookups {
	struct walk *walk;
	const cairn_slice *keys;
	size_t next;
	size_t stop;
};

static int check_lookup(void *context, size_t i, int result, cairn_slice value)
{
	struct lookups *lookups = context;
	struct walk *walk = lookups->walk;
	HOLDS(walk, i == lookups->next);
	HOLDS(walk, is_answer(&walk->model, lookups->keys[i], result, value));
	return lookups->next++ == lookups->stop ? 77 : 0;
}

static void multi_get(struct walk *walk)
{
	cairn_slice keys[LOOKUPS_MOST];
	size_t count = draw(walk, COUNT(keys) + 1);
	for (size_t i = 0; i < count; i++) {
		cairn_slice key = sample_key(&walk->random, walk->key);
		uint8_t *copy = malloc(key.size + 1);
		HOLDS(walk, copy);
		memcpy(copy, key.data, key.size);
		keys[i] = (cairn_slice){copy, key.size};
	}
	struct lookups lookups = {walk, keys, 0, draw(walk, 2 * LOOKUPS_MOST)};
	bool stopped = lookups.stop < count;
	int rc = cairn_multi_get(walk->db, keys, count, check_lookup, &lookups);
	HOLDS(walk, rc == (stopped ? 77 : 0));
	HOLDS(walk, lookups.next == (stopped ? lookups.stop + 1 : count));
	for (size_t i = 0; i < count; i++)
		free((void *)(uintptr_t)keys[i].data);
}

/* ---------------------------------------------------------------- views */

static void close_iter(struct sight *sight)
{
	cairn_iter_close(sight->iter);
	sight->iter = NULL;
}

static void close_sight(struct walk *walk, struct sight *sight)
{
	if (!sight->view)
		return;
	if (sight->iter)
		HOLDS(walk, cairn_view_close(sight->view) == CAIRN_BUSY);
	close_iter(sight);
	HOLDS(walk, cairn_view_close(sight->view) == 0);
	model_release(&sight->model);
	sight->view = NULL;
}

static struct sight *open_sight(struct walk *walk)
{
	struct sight *sight = &walk->sights[draw(walk, VIEWS)];
	close_sight(walk, sight);
	HOLDS(walk, cairn_view_open(walk->db, &sight->view) == 0);
	model_copy(&sight->model, &walk->model);
	return sight;
}

static void open_view(struct walk *walk)
{
	open_sight(walk);
}

static void close_view(struct walk *walk)
{
	close_sight(walk, &walk->sights[draw(walk, VIEWS)]);
}

/* One of those that are open; a new one when there is none in the place that was drawn. */
static struct sight *some_sight(struct walk *walk)
{
	struct sight *sight = &walk->sights[draw(walk, VIEWS)];
	return sight->view ? sight : open_sight(walk);
}

static void get_from_view(struct walk *walk)
{
	struct sight *sight = some_sight(walk);
	cairn_slice key = sample_key(&walk->random, walk->key), value;
	int rc = cairn_view_get(sight->view, key, &value);
	HOLDS(walk, is_answer(&sight->model, key, rc, value));
}

static void scan_view(struct walk *walk)
{
	struct sight *sight = some_sight(walk);
	HOLDS(walk, match_view(sight->view, &sight->model));
}

static void scan_store(struct walk *walk)
{
	HOLDS(walk, match_store(walk->db, &walk->model));
}

static void close_all_views(struct walk *walk)
{
	for (size_t i = 0; i < VIEWS; i++)
		close_sight(walk, &walk->sights[i]);
}

/* ---------------------------------------------------------------- iterators */

static bool is_in_range(cairn_slice key, const cairn_range *range)
{
	return (!range->from || model_compare(key, *range->from) >= 0) &&
	       (!range->to || model_compare(key, *range->to) < 0) &&
	       (!range->prefix || model_begins_with(key, *range->prefix));
}

/* The records in a range stand side by side. */
static void find_range(struct sight *sight, const cairn_range *range)
{
	const struct model *model = &sight->model;
	size_t i = 0;
	while (i < model->count && !is_in_range(model_key(model, i), range))
		i++;
	sight->low = i;
	while (i < model->count && is_in_range(model_key(model, i), range))
		i++;
	sight->high = i;
}

static void open_iter(struct walk *walk, struct sight *sight)
{
	cairn_slice bounds[3];
	cairn_range range = {NULL, NULL, NULL, 0};
	const cairn_slice **fields[] = {&range.from, &range.to, &range.prefix};
	for (size_t i = 0; i < COUNT(bounds); i++) {
		bounds[i] = sample_bound(&walk->random, walk->bounds[i]);
		if (i == 2 && bounds[i].size)
			bounds[i].size = draw(walk, bounds[i].size < 4 ? bounds[i].size : 4);
		if (draw(walk, 3) == 0)
			*fields[i] = &bounds[i];
	}
	bool whole = !range.from && !range.to && !range.prefix;
	close_iter(sight);
	HOLDS(walk, cairn_iter_open(
			sight->view, whole && draw(walk, 2) ? NULL : &range, &sight->iter) == 0);
	find_range(sight, &range);
	sight->at = MODEL_NONE;
	/* The range was copied. */
	memset(walk->bounds, 0x5a, sizeof walk->bounds);
}

static size_t within(const struct sight *sight, size_t index)
{
	return index >= sight->low && index < sight->high ? index : MODEL_NONE;
}

/* The model's move for `key`: to the first record not below it, or the last one not above it. */
static size_t model_seek(const struct sight *sight, cairn_slice key, bool backwards)
{
	size_t index = model_below(&sight->model, key);
	if (!backwards)
		return within(sight, index < sight->low ? sight->low : index);
	bool equal =
	    index < sight->model.count && model_equal(model_key(&sight->model, index), key);
	index += equal;
	index = index > sight->high ? sight->high : index;
	return index == 0 ? MODEL_NONE : within(sight, index - 1);
}

enum move { FIRST, LAST, SEEK, SEEK_LE, NEXT, PREV };

/* Makes one move; whether the iterator stands where the model does. */
static int make_move(struct sight *sight, enum move move, cairn_slice key)
{
	switch (move) {
	case FIRST:
		sight->at = within(sight, sight->low);
		return cairn_iter_first(sight->iter);
	case LAST:
		sight->at = sight->high ? within(sight, sight->high - 1) : MODEL_NONE;
		return cairn_iter_last(sight->iter);
	case SEEK:
		sight->at = model_seek(sight, key, false);
		return cairn_iter_seek(sight->iter, key);
	case SEEK_LE:
		sight->at = model_seek(sight, key, true);
		return cairn_iter_seek_le(sight->iter, key);
	case NEXT:
		if (sight->at != MODEL_NONE)
			sight->at = within(sight, sight->at + 1);
		return cairn_iter_next(sight->iter);
	case PREV:
		if (sight->at != MODEL_NONE)
			sight->at = sight->at ? within(sight, sight->at - 1) : MODEL_NONE;
		return cairn_iter_prev(sight->iter);
	default:
		return CAIRN_INVALID;
	}
}

/* The value is not asked for every time: a move may not depend on that. */
static void check_place(struct walk *walk, struct sight *sight, int rc)
{
	cairn_slice key = cairn_iter_key(sight->iter);
	HOLDS(walk, cairn_iter_status(sight->iter) == 0);
	if (sight->at == MODEL_NONE) {
		HOLDS(walk, rc == CAIRN_END && !key.data && key.size == 0);
		HOLDS(walk, !cairn_iter_value(sight->iter).data);
		return;
	}
	HOLDS(walk, rc == 0 && key.data);
	HOLDS(walk, model_equal(key, model_key(&sight->model, sight->at)));
	if (draw(walk, 2)) {
		cairn_slice value = cairn_iter_value(sight->iter);
		HOLDS(walk, value.data);
		HOLDS(walk, model_equal(value, model_value(&sight->model, sight->at)));
	}
}

/* Goes one way for a while, then the other, then elsewhere. */
static void iterate(struct walk *walk)
{
	struct sight *sight = some_sight(walk);
	if (!sight->iter || draw(walk, 3) == 0)
		open_iter(walk, sight);
	enum move move = (enum move)draw(walk, 6);
	for (size_t steps = draw(walk, STEPS_MOST + 1); steps > 0; steps--) {
		cairn_slice key = sample_bound(&walk->random, walk->key);
		check_place(walk, sight, make_move(sight, move, key));
		if (move < NEXT || draw(walk, 4) == 0)
			move = draw(walk, 8) ? (draw(walk, 2) ? NEXT : PREV)
					     : (enum move)draw(walk, 6);
	}
}

/* ---------------------------------------------------------------- the whole store */

static void flush(struct walk *walk)
{
	HOLDS(walk, cairn_flush(walk->db) == 0);
}

static void compact(struct walk *walk)
{
	cairn_stats stats;
	HOLDS(walk, cairn_compact(walk->db) == 0);
	HOLDS(walk, cairn_stat(walk->db, &stats) == 0);
	HOLDS(walk, stats.run_count == (walk->model.count > 0));
	HOLDS(walk, stats.run_count == 0 || stats.runs[0].tombstones == 0);
	HOLDS(walk, stats.run_count == 0 || stats.runs[0].records == walk->model.count);
	walk->compactions++;
}

static void wait_for_rest(struct walk *walk)
{
	HOLDS(walk, cairn_wait(walk->db) == 0);
	HOLDS(walk, match_cascade(walk->db));
}

static void sync_store(struct walk *walk)
{
	HOLDS(walk, cairn_sync(walk->db) == 0);
}

static void open_store(struct walk *walk)
{
	static const int backends[] = {0, CAIRN_IO_POSIX};
	cairn_options options;
	cairn_options_init(&options);
	options.memtable_bytes = (size_t)65536 << draw(walk, 3);
	options.no_background = draw(walk, 2) != 0;
	options.io_backend = backends[draw(walk, COUNT(backends))];
	/* Waiting for the disk at every write is left to walks that are short. */
	options.sync_mode = draw(walk, 2) ? CAIRN_SYNC_INTERVAL : CAIRN_SYNC_NONE;
	options.sync_interval_ms = 1 + (unsigned)draw(walk, 100);
	HOLDS(walk, cairn_open(walk->path, &options, &walk->db) == 0);
}

static void reopen(struct walk *walk)
{
	bool viewed = false;
	cairn_stats stats;
	for (size_t i = 0; i < VIEWS; i++)
		viewed = viewed || walk->sights[i].view;
	if (viewed)
		HOLDS(walk, cairn_close(walk->db) == CAIRN_BUSY);
	close_all_views(walk);
	HOLDS(walk, cairn_stat(walk->db, &stats) == 0 && stats.last_error == 0);
	HOLDS(walk, cairn_close(walk->db) == 0);
	open_store(walk);
	HOLDS(walk, match_store(walk->db, &walk->model));
	walk->reopenings++;
}

/* Another handle beside this one, whose threads go on. */
static void read_beside(struct walk *walk)
{
	cairn_options options;
	cairn_options_init(&options);
	options.read_only = 1;
	HOLDS(walk, match_path(walk->path, &options, &walk->model));
}

static void checkpoint(struct walk *walk)
{
	char copy[4200], command[4300];
	snprintf(copy, sizeof copy, "%s-copy", walk->path);
	HOLDS(walk, cairn_checkpoint(walk->db, copy) == 0);
	HOLDS(walk, match_verify(copy));
	HOLDS(walk, match_path(copy, NULL, &walk->model));
	HOLDS(walk, match_verify(copy));
	snprintf(command, sizeof command, "rm -rf -- '%s'", copy);
	HOLDS(walk, system(command) == 0);
	walk->copies++;
}

static void verify(struct walk *walk)
{
	HOLDS(walk, match_verify(walk->path));
}

/* ---------------------------------------------------------------- walks */

static const struct {
	unsigned weight;
	void (*run)(struct walk *walk);
} operations[] = {
    {3400, put},
    {1700, erase},
    {400, write_batch},
    {2000, get},
    {250, multi_get},
    {150, open_view},
    {150, close_view},
    {950, get_from_view},
    {956, iterate},
    {10, scan_view},
    {10, scan_store},
    {5, flush},
    {2, compact},
    {5, wait_for_rest},
    {4, sync_store},
    {3, reopen},
    {2, read_beside},
    {1, checkpoint},
    {2, verify},
};

static void take_steps(struct walk *walk, unsigned long long count)
{
	size_t total = 0;
	for (size_t i = 0; i < COUNT(operations); i++)
		total += operations[i].weight;
	for (; walk->done < count; walk->done++) {
		size_t drawn = draw(walk, total), i = 0;
		while (drawn >= operations[i].weight)
			drawn -= operations[i++].weight;
		operations[i].run(walk);
	}
}

static unsigned long long directory_bytes(const char *path)
{
	unsigned long long bytes = 0;
	DIR *directory = opendir(path);
	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory));) {
		char name[4500];
		struct stat status;
		snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		if (stat(name, &status) == 0 && S_ISREG(status.st_mode))
			bytes += (unsigned long long)status.st_size;
	}
	closedir(directory);
	return bytes;
}

/* What was deleted takes no room. */
static void empty_store(struct walk *walk)
{
	cairn_stats stats;
	close_all_views(walk);
	while (walk->model.count > 0) {
		size_t index = draw(walk, walk->model.count);
		HOLDS(walk, cairn_delete(walk->db, model_key(&walk->model, index), 0) == 0);
		model_delete(&walk->model, model_key(&walk->model, index));
	}
	HOLDS(walk, match_store(walk->db, &walk->model));
	HOLDS(walk, cairn_compact(walk->db) == 0);
	HOLDS(walk, match_store(walk->db, &walk->model));
	HOLDS(walk, cairn_stat(walk->db, &stats) == 0 && stats.run_count == 0);
	HOLDS(walk, directory_bytes(walk->path) < (2u << 20));
}

static void take_walk(unsigned which)
{
	const char *text = getenv("CAIRN_TEST_OPERATIONS");
	unsigned long long count = text ? strtoull(text, NULL, 0) : 200000;
	struct walk *walk = calloc(1, sizeof *walk);
	assert_non_null(walk);
	walk->seed = walk->random = test_seed(101) + which;
	walk->path = test_directory();
	walk->batch = cairn_batch_new();
	assert_non_null(walk->batch);
	open_store(walk);
	take_steps(walk, count);
	cairn_stats stats;
	HOLDS(walk, cairn_stat(walk->db, &stats) == 0);
	empty_store(walk);
	reopen(walk);
	HOLDS(walk, cairn_close(walk->db) == 0);
	printf(
	    "%llu operations, %llu reopenings, %llu compactions, %llu copies; KiB written to log, "
	    "by flushes, by merges: %llu, %llu, %llu\n",
	    walk->done, walk->reopenings, walk->compactions, walk->copies,
	    (unsigned long long)stats.log_bytes_written / 1024,
	    (unsigned long long)stats.flush_bytes_written / 1024,
	    (unsigned long long)stats.merge_bytes_written / 1024);
	cairn_batch_free(walk->batch);
	model_release(&walk->model);
	test_remove_directory(walk->path);
	free(walk);
}

static void every_answer_is_the_models_first_walk(void **state)
{
	(void)state;
	take_walk(0);
}

static void every_answer_is_the_models_second_walk(void **state)
{
	(void)state;
	take_walk(1);
}

static void every_answer_is_the_models_third_walk(void **state)
{
	(void)state;
	take_walk(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_answer_is_the_models_first_walk),
	    cmocka_unit_test(every_answer_is_the_models_second_walk),
	    cmocka_unit_test(every_answer_is_the_models_third_walk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
