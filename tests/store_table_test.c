/*
 * tests/store_table_test.c -- frozen tables: whatever the order and number of records, however many
 * pieces they are sorted in, the table holds them and nothing else; whatever fails, is killed or is
 * damaged, what has the table's name is a whole table. The oracle is tests/model.h.
 *
 * A *shape* says how a build looks; keys and values follow from numbers, so that a table can be
 * built and compared again.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>

#include "format/run_reader.h"
#include "store/options.h"
#include "store/store.h"
#include "store/table.h"
#include "tests/alloc_fault.h"
#include "tests/child.h"
#include "tests/model.h"
#include "tests/sample.h"
#include "tests/sim_io.h"

#define DIRECTORY    "/tables"
#define TABLE        DIRECTORY "/t.kv"
#define KEY_SIZE     64u
#define VALUE_SIZE   512u
#define TINY         1u /* memory_limit: raised to the least, 128 KiB */
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---------------------------------------------------------------- records */

/* Ascends with `number`. The first is the empty key; lengths differ. */
static cairn_slice key_of(unsigned number, char text[KEY_SIZE])
{
	if (number == 0)
		return (cairn_slice){"", 0};
	int size = snprintf(text, KEY_SIZE, "key %06u%.*s", number, (int)(number % 9), "suffixes");
	return (cairn_slice){text, (size_t)size};
}

/* Of 0 to 400 bytes. */
static cairn_slice value_of(unsigned number, unsigned version, char text[VALUE_SIZE])
{
	size_t size = number * 37 % 401;
	snprintf(text, VALUE_SIZE, "%u of %u;%0400u", version, number, number);
	return (cairn_slice){text, size};
}

enum order { ASCENDING, DESCENDING, SHUFFLED, ORDERS };

struct shape {
	unsigned count; /* records */
	enum order order;
	size_t memory_limit;
	int point_index;
	int last_wins;
	unsigned version; /* of the values */
};

/* The number of the record that is added as number `i`. */
static unsigned number_at(const struct shape *shape, unsigned i)
{
	switch (shape->order) {
	case DESCENDING:
		return shape->count - 1 - i;
	case SHUFFLED:
		/* 7919 is a prime: every number comes once. */
		return (unsigned)((uint64_t)i * 7919 % shape->count);
	case ASCENDING:
	case ORDERS:
		break;
	}
	return i;
}

static void options_of(const struct shape *shape, cairn_options *options)
{
	cairn_options_init(options);
	options->memory_limit = shape->memory_limit;
	options->point_index = shape->point_index;
	options->last_wins = shape->last_wins;
}

static int add(cairn_table_writer *writer, const char *key, const char *value)
{
	return cairn_table_writer_add(
	    writer, (cairn_slice){key, strlen(key)}, (cairn_slice){value, strlen(value)});
}

static int add_number(cairn_table_writer *writer, unsigned number, unsigned version)
{
	char key[KEY_SIZE], value[VALUE_SIZE];
	return cairn_table_writer_add(
	    writer, key_of(number, key), value_of(number, version, value));
}

static int add_all(cairn_table_writer *writer, const struct shape *shape)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < shape->count; i++)
		rc = add_number(writer, number_at(shape, i), shape->version);
	return rc;
}

/* Opens, adds all, finishes: the first failure, and then the writer is gone. */
static int build(struct cairn_io *io, const char *path, const struct shape *shape)
{
	cairn_options options;
	cairn_table_writer *writer;
	options_of(shape, &options);
	int rc = cairn_table_writer_open_with(io, path, &options, &writer);
	if (rc)
		return rc;
	rc = add_all(writer, shape);
	int finished = cairn_table_writer_finish(writer);
	return rc ? rc : finished;
}

static void fill_model(struct model *model, const struct shape *shape)
{
	char key[KEY_SIZE], value[VALUE_SIZE];
	for (unsigned i = 0; i < shape->count; i++)
		model_put(model, key_of(i, key), value_of(i, shape->version, value));
}

/* ---------------------------------------------------------------- comparing */

static void check_get(cairn_table *table, const struct model *model, cairn_slice key)
{
	cairn_slice value;
	size_t index = model_find(model, key);
	int rc = cairn_table_get(table, key, &value);
	assert_int_equal(rc, index == MODEL_NONE ? CAIRN_NOT_FOUND : 0);
	if (rc)
		assert_null(value.data);
	else
		assert_true(value.data && model_equal(value, model_value(model, index)));
}

/* The iterator moved with result `rc`: it stands on record `index`, or nowhere if that is at `end`.
 */
static void check_place(
    cairn_iter *iter, int rc, const struct model *model, size_t index, size_t end)
{
	assert_int_equal(rc, index == end ? CAIRN_END : 0);
	if (rc)
		return;
	assert_true(model_equal(cairn_iter_key(iter), model_key(model, index)));
	assert_true(model_equal(cairn_iter_value(iter), model_value(model, index)));
}

static void check_scans(cairn_table *table, const struct model *model)
{
	cairn_iter *iter;
	assert_int_equal(cairn_table_iter_open(table, NULL, &iter), 0);
	int rc = cairn_iter_first(iter);
	for (size_t i = 0; i <= model->count; i++) {
		check_place(iter, rc, model, i, model->count);
		rc = cairn_iter_next(iter);
	}
	rc = cairn_iter_last(iter);
	for (size_t i = model->count; i > 0; i--) {
		check_place(iter, rc, model, i - 1, MODEL_NONE);
		rc = cairn_iter_prev(iter);
	}
	assert_int_equal(rc, CAIRN_END);
	cairn_iter_close(iter);
}

/* The part [from, to), and a seek in it. */
static void check_range(
    cairn_table *table, const struct model *model, cairn_slice from, cairn_slice to)
{
	cairn_iter *iter;
	cairn_range range = {.from = &from, .to = &to};
	size_t low = model_below(model, from), high = model_below(model, to);
	assert_int_equal(cairn_table_iter_open(table, &range, &iter), 0);
	check_place(iter, cairn_iter_first(iter), model, low, high > low ? high : low);
	if (high > low) {
		check_place(iter, cairn_iter_last(iter), model, high - 1, MODEL_NONE);
		check_place(iter, cairn_iter_seek(iter, from), model, low, MODEL_NONE);
	}
	cairn_iter_close(iter);
}

/* The table holds what the model holds, and nothing else. */
static void check_table(cairn_table *table, const struct model *model)
{
	static uint8_t bound[2][SAMPLE_KEY_SIZE];
	char key[KEY_SIZE];
	uint64_t random = 3;
	assert_int_equal(cairn_table_count(table), model->count);
	for (size_t i = 0; i < model->count; i++)
		check_get(table, model, model_key(model, i));
	for (unsigned i = 0; i < 100; i++) {
		unsigned number = (unsigned)(test_random(&random) % (model->count + 10));
		cairn_slice near = key_of(number, key);
		check_get(table, model, sample_bound(&random, bound[0]));
		check_get(table, model, (cairn_slice){near.data, near.size / 2});
		check_range(table, model, near, sample_bound(&random, bound[0]));
		check_range(
		    table, model, sample_bound(&random, bound[0]), sample_bound(&random, bound[1]));
	}
	check_scans(table, model);
}

static void check_file(struct cairn_io *io, const char *path, const struct model *model)
{
	cairn_table *table;
	assert_int_equal(cairn_table_open_with(io, path, &table), 0);
	check_table(table, model);
	assert_int_equal(cairn_table_close(table), 0);
}

static void check_shape(struct cairn_io *io, const char *path, const struct shape *shape)
{
	struct model model = {0};
	fill_model(&model, shape);
	check_file(io, path, &model);
	model_release(&model);
}

/* ---------------------------------------------------------------- disks */

static struct sim_disk *new_disk(void)
{
	struct sim_disk *disk = sim_disk_new(1);
	struct cairn_io *io = sim_disk_io(disk);
	assert_int_equal(io->ops->make_directory(io, DIRECTORY), 0);
	assert_int_equal(io->ops->sync_directory(io, "/"), 0);
	return disk;
}

static void count_file(void *context, const char *path)
{
	(void)path;
	++*(size_t *)context;
}

static size_t files_on(struct sim_disk *disk)
{
	size_t count = 0;
	sim_disk_each(disk, count_file, &count);
	return count;
}

static void free_disk(struct sim_disk *disk)
{
	assert_int_equal(sim_disk_open_count(disk), 0);
	sim_disk_free(disk);
}

/* ---------------------------------------------------------------- what is in a table */

static void a_table_holds_what_was_added_in_any_order(void **state)
{
	(void)state;
	static const unsigned counts[] = {0, 1, 14, 15, 16, 10000};
	static const size_t limits[] = {0, TINY};
	for (size_t i = 0; i < COUNT(counts) * COUNT(limits) * ORDERS * 2; i++) {
		struct shape shape = {
		    .count = counts[i / 2 / ORDERS / COUNT(limits)],
		    .memory_limit = limits[i / 2 / ORDERS % COUNT(limits)],
		    .order = (enum order)(i / 2 % ORDERS),
		    .point_index = i % 2 ? CAIRN_NO_POINT_INDEX : 0,
		};
		struct sim_disk *disk = new_disk();
		assert_int_equal(build(sim_disk_io(disk), TABLE, &shape), 0);
		assert_int_equal(files_on(disk), 1);
		check_shape(sim_disk_io(disk), TABLE, &shape);
		free_disk(disk);
	}
}

/* So many pieces that those of one level become one of the next, and those again. */
static void very_many_pieces_are_merged_in_levels(void **state)
{
	(void)state;
	struct shape shape = {.count = 9000, .order = SHUFFLED, .memory_limit = TINY};
	struct model model = {0};
	struct sim_disk *disk = new_disk();
	cairn_table_writer *writer;
	cairn_options options;
	char key[KEY_SIZE], value[VALUE_SIZE];
	unsigned rounds = test_full() ? 60 : 6;
	shape.last_wins = 1;
	options_of(&shape, &options);
	assert_int_equal(
	    cairn_table_writer_open_with(sim_disk_io(disk), TABLE, &options, &writer), 0);
	for (unsigned i = 0; i < rounds * shape.count; i++) {
		unsigned number = number_at(&shape, i % shape.count);
		assert_int_equal(add_number(writer, number, i), 0);
		if (i / shape.count == rounds - 1)
			model_put(&model, key_of(number, key), value_of(number, i, value));
	}
	assert_int_equal(cairn_table_writer_finish(writer), 0);
	check_file(sim_disk_io(disk), TABLE, &model);
	model_release(&model);
	free_disk(disk);
}

static void of_equal_keys_the_last_added_wins(void **state)
{
	(void)state;
	static uint8_t key[SAMPLE_KEY_SIZE], value[SAMPLE_VALUE_SIZE];
	uint64_t random = test_seed(20);
	for (unsigned round = 0; round < 4; round++) {
		struct model model = {0};
		struct sim_disk *disk = new_disk();
		struct shape shape = {.memory_limit = round % 2 ? TINY : 0, .last_wins = 1};
		cairn_options options;
		cairn_table_writer *writer;
		options_of(&shape, &options);
		assert_int_equal(
		    cairn_table_writer_open_with(sim_disk_io(disk), TABLE, &options, &writer), 0);
		for (unsigned i = 0; i < 4000; i++) {
			cairn_slice k = sample_key(&random, key), v = sample_value(&random, value);
			/* Ascending keys with repetitions as well. */
			if (round / 2)
				k = key_of(i / 3, (char *)key);
			assert_int_equal(cairn_table_writer_add(writer, k, v), 0);
			model_put(&model, k, v);
		}
		assert_int_equal(cairn_table_writer_finish(writer), 0);
		check_file(sim_disk_io(disk), TABLE, &model);
		model_release(&model);
		free_disk(disk);
	}
}

/* The key of record 5 comes again behind record `behind`. */
static void check_duplicate(struct shape shape, unsigned behind)
{
	struct sim_disk *disk = new_disk();
	cairn_options options;
	cairn_table_writer *writer;
	options_of(&shape, &options);
	assert_int_equal(
	    cairn_table_writer_open_with(sim_disk_io(disk), TABLE, &options, &writer), 0);
	int rc = 0;
	for (unsigned i = 0; !rc && i < shape.count; i++) {
		rc = add_number(writer, number_at(&shape, i), 1);
		if (!rc && number_at(&shape, i) == behind)
			rc = add_number(writer, 5, 1);
	}
	int finished = cairn_table_writer_finish(writer);
	assert_int_equal(finished, CAIRN_INVALID);
	assert_true(rc == 0 || rc == finished);
	assert_non_null(strstr(cairn_message(NULL), "key 000005suffi "));
	assert_non_null(strstr(cairn_message(NULL), "last_wins"));
	assert_int_equal(files_on(disk), 0);
	free_disk(disk);
}

static void a_key_that_comes_twice_fails_the_build_and_is_named(void **state)
{
	(void)state;
	for (enum order order = ASCENDING; order < ORDERS; order++) {
		check_duplicate((struct shape){.count = 20, .order = order}, 5);
		check_duplicate((struct shape){.count = 20, .order = order}, 4);
		struct shape many = {.count = 5000, .order = order, .memory_limit = TINY};
		check_duplicate(many, 5);
		check_duplicate(many, 4);
		check_duplicate(many, 4999);
		check_duplicate(many, 2500);
	}
}

/* ---------------------------------------------------------------- the manual */

static void every_value_is_there_until_the_table_is_closed(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	const struct shape old = {.count = 100, .version = 1}, new = {.count = 50, .version = 2};
	cairn_table *table;
	cairn_slice value;
	char key[KEY_SIZE], expected[VALUE_SIZE];
	assert_int_equal(build(io, TABLE, &old), 0);
	assert_int_equal(cairn_table_open_with(io, TABLE, &table), 0);
	assert_int_equal(cairn_table_get(table, key_of(70, key), &value), 0);
	assert_int_equal(build(io, TABLE, &new), 0);
	assert_true(model_equal(value, value_of(70, 1, expected)));
	assert_int_equal(cairn_table_count(table), 100);
	assert_int_equal(cairn_table_close(table), 0);
	check_shape(io, TABLE, &new);
	free_disk(disk);
}

static void a_table_with_an_iterator_stays_open(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	const struct shape shape = {.count = 3};
	const cairn_range wrong = {.flags = 1};
	cairn_table *table;
	cairn_iter *iter;
	assert_int_equal(build(sim_disk_io(disk), TABLE, &shape), 0);
	assert_int_equal(cairn_table_open_with(sim_disk_io(disk), TABLE, &table), 0);
	assert_int_equal(cairn_table_iter_open(table, &wrong, &iter), CAIRN_INVALID);
	assert_null(iter);
	assert_int_equal(cairn_table_iter_open(table, NULL, &iter), 0);
	assert_int_equal(cairn_table_close(table), CAIRN_BUSY);
	assert_int_equal(cairn_iter_first(iter), 0);
	assert_int_equal(cairn_iter_status(iter), 0);
	cairn_iter_close(iter);
	assert_int_equal(cairn_table_close(table), 0);
	free_disk(disk);
}

static void what_cannot_be_asked_for_is_refused(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	const struct shape shape = {.count = 3};
	cairn_options options;
	cairn_table_writer *writer;
	cairn_table *table;
	cairn_slice value;
	cairn_options_init(&options);
	options.compression = CAIRN_LZ4;
	assert_int_equal(
	    cairn_table_writer_open_with(io, TABLE, &options, &writer), CAIRN_UNSUPPORTED);
	assert_null(writer);
	assert_int_equal(cairn_table_writer_open("", NULL, &writer), CAIRN_INVALID);
	assert_int_equal(cairn_table_writer_open(NULL, NULL, &writer), CAIRN_INVALID);
	assert_int_equal(cairn_table_writer_open(TABLE, NULL, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_table_writer_finish(NULL), CAIRN_INVALID);
	assert_int_equal(add(NULL, "a", "b"), CAIRN_INVALID);
	cairn_table_writer_abort(NULL);
	assert_int_equal(cairn_table_open(NULL, &table), CAIRN_INVALID);
	assert_null(table);
	assert_int_equal(cairn_table_open(TABLE, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_table_open_with(io, TABLE, &table), -ENOENT);
	assert_int_equal(cairn_table_close(NULL), 0);

	assert_int_equal(build(io, TABLE, &shape), 0);
	assert_int_equal(cairn_table_open_with(io, TABLE, &table), 0);
	assert_int_equal(cairn_table_get(table, (cairn_slice){NULL, 3}, &value), CAIRN_INVALID);
	assert_int_equal(cairn_table_get(table, (cairn_slice){"", 0}, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_table_get(NULL, (cairn_slice){"", 0}, &value), CAIRN_INVALID);
	assert_int_equal(cairn_table_get(table, (cairn_slice){TABLE, CAIRN_KEY_MAX + 1}, &value),
	    CAIRN_NOT_FOUND);
	assert_int_equal(cairn_table_iter_open(table, NULL, NULL), CAIRN_INVALID);
	assert_int_equal(cairn_table_close(table), 0);
	free_disk(disk);
}

static void a_refused_record_leaves_the_writer_as_it_was(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	cairn_table_writer *writer;
	cairn_table *table;
	assert_int_equal(cairn_table_writer_open_with(io, TABLE, NULL, &writer), 0);
	const cairn_slice small = {"k", 1};
	assert_int_equal(
	    cairn_table_writer_add(writer, (cairn_slice){TABLE, CAIRN_KEY_MAX + 1}, small),
	    CAIRN_TOO_LARGE);
	assert_int_equal(cairn_table_writer_add(
			     writer, small, (cairn_slice){TABLE, (size_t)CAIRN_VALUE_MAX + 1}),
	    CAIRN_TOO_LARGE);
	assert_int_equal(
	    cairn_table_writer_add(writer, small, (cairn_slice){NULL, 1}), CAIRN_INVALID);
	assert_int_equal(cairn_table_writer_add(writer, small, (cairn_slice){NULL, 0}), 0);
	assert_int_equal(cairn_table_writer_finish(writer), 0);
	assert_int_equal(cairn_table_open_with(io, TABLE, &table), 0);
	assert_int_equal(cairn_table_count(table), 1);
	assert_int_equal(cairn_table_close(table), 0);
	free_disk(disk);
}

static void a_failed_writer_stays_failed_and_says_why(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	cairn_table_writer *writer;
	assert_int_equal(cairn_table_writer_open_with(sim_disk_io(disk), TABLE, NULL, &writer), 0);
	assert_int_equal(add(writer, "twice", "1"), 0);
	assert_int_equal(add(writer, "twice", "2"), CAIRN_INVALID);
	assert_int_equal(add(writer, "x", "3"), CAIRN_INVALID);
	assert_non_null(strstr(cairn_message(NULL), "the key twice"));
	assert_int_equal(cairn_table_writer_finish(writer), CAIRN_INVALID);
	assert_non_null(strstr(cairn_message(NULL), "the key twice"));
	assert_int_equal(files_on(disk), 0);
	free_disk(disk);
}

static void an_aborted_build_leaves_nothing(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	const struct shape shape = {.count = 2000, .order = SHUFFLED, .memory_limit = TINY};
	cairn_options options;
	cairn_table_writer *writer;
	options_of(&shape, &options);
	assert_int_equal(
	    cairn_table_writer_open_with(sim_disk_io(disk), TABLE, &options, &writer), 0);
	assert_int_equal(add_all(writer, &shape), 0);
	assert_true(files_on(disk) > 1);
	cairn_table_writer_abort(writer);
	assert_int_equal(files_on(disk), 0);
	free_disk(disk);
}

static void two_builds_of_one_path_do_not_disturb_each_other(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	cairn_table_writer *writer[2];
	cairn_options options;
	struct shape shapes[2];
	for (unsigned i = 0; i < 2; i++) {
		shapes[i] = (struct shape){
		    .count = 2000, .order = SHUFFLED, .memory_limit = TINY, .version = i};
		options_of(&shapes[i], &options);
		assert_int_equal(cairn_table_writer_open_with(io, TABLE, &options, &writer[i]), 0);
	}
	for (unsigned i = 0; i < 2000; i++)
		for (unsigned w = 0; w < 2; w++)
			assert_int_equal(
			    add_number(writer[w], number_at(&shapes[w], i), shapes[w].version), 0);
	for (unsigned w = 0; w < 2; w++) {
		assert_int_equal(cairn_table_writer_finish(writer[w]), 0);
		check_shape(io, TABLE, &shapes[w]);
	}
	assert_int_equal(files_on(disk), 1);
	free_disk(disk);
}

static void refuse_run(void *context, const char *path)
{
	struct sim_disk *disk = context;
	size_t size = strlen(path);
	cairn_table *table;
	if (size < 3 || strcmp(path + size - 3, ".kv") != 0)
		return;
	assert_int_equal(cairn_table_open_with(sim_disk_io(disk), path, &table), CAIRN_INVALID);
	assert_null(table);
	assert_non_null(strstr(cairn_message(NULL), path));
}

/* What it holds may be deleted in a newer run. */
static void a_run_of_a_store_is_refused(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	cairn_options options;
	cairn *db;
	cairn_options_init(&options);
	options.no_background = 1;
	assert_int_equal(cairn_open_with(sim_disk_io(disk), "/store", &options, &db), 0);
	assert_int_equal(cairn_put(db, (cairn_slice){"k", 1}, (cairn_slice){"v", 1}, 0), 0);
	assert_int_equal(cairn_flush(db), 0);
	sim_disk_each(disk, refuse_run, disk);
	assert_non_null(strstr(cairn_message(NULL), "of a store"));
	assert_int_equal(cairn_close(db), 0);
	free_disk(disk);
}

struct inherited {
	cairn_table *table;
	cairn_table_writer *writer;
};

static int use_in_child(void *context)
{
	const struct inherited *inherited = context;
	cairn_iter *iter;
	cairn_slice value;
	char key[KEY_SIZE];
	CHILD_CHECK(add(inherited->writer, "k", "v") == CAIRN_FORKED);
	CHILD_CHECK(cairn_table_writer_finish(inherited->writer) == CAIRN_FORKED);
	cairn_table_writer_abort(inherited->writer);
	CHILD_CHECK(cairn_table_get(inherited->table, key_of(7, key), &value) == 0);
	CHILD_CHECK(cairn_table_iter_open(inherited->table, NULL, &iter) == 0);
	CHILD_CHECK(cairn_iter_first(iter) == 0);
	cairn_iter_close(iter);
	CHILD_CHECK(cairn_table_close(inherited->table) == 0);
	return 0;
}

static void a_child_reads_its_parents_table_and_cannot_write(void **state)
{
	(void)state;
	char *directory = test_directory();
	char path[4200];
	const struct shape shape = {.count = 50}, other = {.count = 60};
	struct inherited inherited;
	snprintf(path, sizeof path, "%s/t.kv", directory);
	assert_int_equal(build(NULL, path, &shape), 0);
	assert_int_equal(cairn_table_open(path, &inherited.table), 0);
	assert_int_equal(cairn_table_writer_open(path, NULL, &inherited.writer), 0);
	assert_int_equal(add_all(inherited.writer, &other), 0);
	run_in_child(use_in_child, &inherited);
	assert_int_equal(cairn_table_close(inherited.table), 0);
	assert_int_equal(cairn_table_writer_finish(inherited.writer), 0);
	check_shape(NULL, path, &other);
	test_remove_directory(directory);
}

/* ---------------------------------------------------------------- threads, memory */

struct reader {
	pthread_t thread;
	cairn_table *table;
	unsigned wrong;
};

static void *read_all(void *context)
{
	struct reader *reader = context;
	char key[KEY_SIZE], expected[VALUE_SIZE];
	cairn_slice value;
	cairn_iter *iter;
	unsigned seen = 0;
	for (unsigned i = 0; i < 3000; i++)
		reader->wrong += cairn_table_get(reader->table, key_of(i, key), &value) !=
				     (i < 2000 ? 0 : CAIRN_NOT_FOUND) ||
				 (i < 2000 && !model_equal(value, value_of(i, 0, expected)));
	if (cairn_table_iter_open(reader->table, NULL, &iter))
		return NULL;
	for (int rc = cairn_iter_first(iter); rc == 0; rc = cairn_iter_next(iter))
		seen += cairn_iter_value(iter).data != NULL;
	cairn_iter_close(iter);
	reader->wrong += seen != 2000;
	return NULL;
}

static void threads_read_one_table_at_once(void **state)
{
	(void)state;
	char *directory = test_directory();
	char path[4200];
	struct reader readers[4];
	cairn_table *table;
	const struct shape shapes[] = {
	    {.count = 2000}, {.count = 2000, .point_index = CAIRN_NO_POINT_INDEX}};
	snprintf(path, sizeof path, "%s/t.kv", directory);
	for (size_t s = 0; s < COUNT(shapes); s++) {
		assert_int_equal(build(NULL, path, &shapes[s]), 0);
		assert_int_equal(cairn_table_open(path, &table), 0);
		for (size_t i = 0; i < COUNT(readers); i++) {
			readers[i] = (struct reader){.table = table};
			assert_int_equal(
			    pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
		}
		for (size_t i = 0; i < COUNT(readers); i++) {
			assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
			assert_int_equal(readers[i].wrong, 0);
		}
		assert_int_equal(cairn_table_close(table), 0);
	}
	test_remove_directory(directory);
}

static void a_get_allocates_nothing(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	const struct shape shape = {.count = 500};
	cairn_table *table;
	assert_int_equal(build(sim_disk_io(disk), TABLE, &shape), 0);
	assert_int_equal(cairn_table_open_with(sim_disk_io(disk), TABLE, &table), 0);
	unsigned found = 0;
	alloc_fault_arm(0, false);
	for (unsigned i = 0; i < 600; i++) {
		char key[KEY_SIZE];
		cairn_slice value;
		found += cairn_table_get(table, key_of(i, key), &value) == 0;
	}
	alloc_fault_disarm();
	assert_int_equal(alloc_calls(), 0);
	assert_int_equal(found, 500);
	assert_int_equal(cairn_table_close(table), 0);
	free_disk(disk);
}

/* ---------------------------------------------------------------- damage */

static int verify_file(struct cairn_io *io, const char *path)
{
	struct cairn_run_reader *run;
	int rc = cairn_run_open(io, path, NULL, &run);
	if (rc)
		return rc;
	rc = cairn_run_verify(run, NULL, NULL);
	cairn_run_close(run);
	return rc;
}

/* Whether a scan is right up to its end, or to where it says that the table is damaged. */
static bool scan_is_right(cairn_table *table, const struct model *model)
{
	cairn_iter *iter;
	size_t i = 0;
	bool right = true;
	assert_int_equal(cairn_table_iter_open(table, NULL, &iter), 0);
	int rc = cairn_iter_first(iter);
	for (; rc == 0 && right; rc = cairn_iter_next(iter), i++) {
		cairn_slice value = cairn_iter_value(iter);
		right = i < model->count &&
			model_equal(cairn_iter_key(iter), model_key(model, i)) &&
			(value.data ? model_equal(value, model_value(model, i))
				    : cairn_iter_status(iter) == CAIRN_CORRUPT);
	}
	cairn_iter_close(iter);
	return right && (rc == CAIRN_CORRUPT || (rc == CAIRN_END && i == model->count));
}

/* Every answer of a damaged table is the right one or says that it is damaged. */
static void check_damaged(struct cairn_io *io, const struct model *model, size_t at)
{
	cairn_table *table;
	char key[KEY_SIZE];
	int rc = cairn_table_open_with(io, TABLE, &table);
	bool right = rc == 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED;
	for (unsigned i = 0; rc == 0 && right && i < model->count + 2; i++) {
		cairn_slice value;
		int found = cairn_table_get(table, key_of(i, key), &value);
		right = found == CAIRN_CORRUPT ||
			(i < model->count ? found == 0 && model_equal(value, model_value(model, i))
					  : found == CAIRN_NOT_FOUND);
	}
	if (rc == 0) {
		right = right && scan_is_right(table, model);
		assert_int_equal(cairn_table_close(table), 0);
	}
	if (!right)
		fail_msg("wrong with damage at byte %zu", at);
	if (verify_file(io, TABLE) == 0)
		fail_msg("verify finds nothing with damage at byte %zu", at);
}

static void a_damaged_table_never_answers_wrongly(void **state)
{
	(void)state;
	static const unsigned counts[] = {0, 1, 40};
	for (size_t c = 0; c < COUNT(counts); c++) {
		struct sim_disk *disk = new_disk();
		struct model model = {0};
		const struct shape shape = {.count = counts[c], .version = 7};
		size_t size;
		assert_int_equal(build(sim_disk_io(disk), TABLE, &shape), 0);
		fill_model(&model, &shape);
		assert_non_null(sim_disk_file(disk, TABLE, &size));
		for (size_t at = 0; at < size; at++) {
			uint8_t flip = (uint8_t)(1u << at % 8);
			sim_disk_change(disk, TABLE, &size)[at] ^= flip;
			check_damaged(sim_disk_io(disk), &model, at);
			sim_disk_change(disk, TABLE, &size)[at] ^= flip;
		}
		check_file(sim_disk_io(disk), TABLE, &model);
		model_release(&model);
		free_disk(disk);
	}
}

/* ---------------------------------------------------------------- crashes, failures */

static const struct shape old_shape = {.count = 60, .version = 1};
static const struct shape new_shape = {
    .count = 500, .order = SHUFFLED, .memory_limit = TINY, .version = 2};

/* What has the table's name is the old table or the new one. */
static bool is_new(struct cairn_io *io)
{
	cairn_table *table;
	cairn_slice value;
	char key[KEY_SIZE], expected[VALUE_SIZE];
	assert_int_equal(cairn_table_open_with(io, TABLE, &table), 0);
	const struct shape *found =
	    cairn_table_count(table) == new_shape.count ? &new_shape : &old_shape;
	assert_int_equal(cairn_table_count(table), found->count);
	for (unsigned i = 0; i < found->count; i++) {
		assert_int_equal(cairn_table_get(table, key_of(i, key), &value), 0);
		assert_true(model_equal(value, value_of(i, found->version, expected)));
	}
	assert_int_equal(cairn_table_close(table), 0);
	return found == &new_shape;
}

static void crash_here(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	(void)call;
	(void)path;
	for (enum sim_loss loss = SIM_LOSE_NOTHING; loss < SIM_LOSSES; loss++) {
		struct sim_disk *crashed = sim_disk_crash(disk, loss, 1);
		size_t *states = context;
		(void)is_new(sim_disk_io(crashed));
		++*states;
		sim_disk_free(crashed);
	}
}

static void a_crash_leaves_the_old_table_or_the_new_one(void **state)
{
	(void)state;
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	size_t states = 0;
	assert_int_equal(build(io, TABLE, &old_shape), 0);
	sim_disk_watch(disk, crash_here, &states);
	assert_int_equal(build(io, TABLE, &new_shape), 0);
	sim_disk_watch(disk, NULL, NULL);
	assert_true(states > 100);
	for (enum sim_loss loss = SIM_LOSE_NOTHING; loss < SIM_LOSSES; loss++) {
		struct sim_disk *crashed = sim_disk_crash(disk, loss, 2);
		assert_true(is_new(sim_disk_io(crashed)));
		sim_disk_free(crashed);
	}
	free_disk(disk);
}

/* The build of round `number` fails there, or is through: then it returns false. */
static bool failure_round(const struct sim_fault *style, bool memory, uint64_t number)
{
	int64_t live = alloc_live();
	struct sim_disk *disk = new_disk();
	struct cairn_io *io = sim_disk_io(disk);
	struct sim_fault fault = *style;
	assert_int_equal(build(io, TABLE, &old_shape), 0);
	fault.call = number;
	if (memory)
		alloc_fault_arm(number, style->for_ever);
	else
		sim_disk_arm(disk, &fault);
	int rc = build(io, TABLE, &new_shape);
	alloc_fault_disarm();
	uint64_t faults = memory ? alloc_faults() : sim_disk_faults(disk);
	sim_disk_arm(disk, &(struct sim_fault){0});

	if (rc)
		assert_int_equal(rc, memory ? -ENOMEM : style->code);
	else
		assert_true(is_new(io));
	(void)is_new(io); /* and else one of the two, whole */
	/* Only when files cannot be removed they stay. */
	if (!(style->for_ever || style->kinds == 1u << SIM_UNLINK))
		assert_int_equal(files_on(disk), 1);
	free_disk(disk);
	assert_int_equal(alloc_live(), live);
	return faults > 0;
}

static void a_failed_build_leaves_the_old_table_and_nothing_else(void **state)
{
	(void)state;
	const unsigned unlink_only = 1u << SIM_UNLINK;
	const struct {
		bool memory;
		struct sim_fault fault;
	} styles[] = {
	    {.memory = true},
	    {.memory = true, .fault = {.for_ever = true}},
	    {.fault = {.kinds = ~unlink_only, .code = -EIO}},
	    {.fault = {.kinds = ~unlink_only, .code = -ENOSPC, .partly = true}},
	    {.fault = {.kinds = ~unlink_only, .code = -EIO, .partly = true, .drop_pages = true}},
	    {.fault = {.kinds = unlink_only, .code = -EIO}},
	    {.fault = {.code = -EIO, .for_ever = true}},
	};
	uint64_t rounds = 0;
	for (size_t i = 0; i < COUNT(styles); i++)
		for (uint64_t number = 1; failure_round(&styles[i].fault, styles[i].memory, number);
		     number++)
			rounds++;
	printf("%llu failures\n", (unsigned long long)rounds);
	assert_true(rounds > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_table_holds_what_was_added_in_any_order),
	    cmocka_unit_test(very_many_pieces_are_merged_in_levels),
	    cmocka_unit_test(of_equal_keys_the_last_added_wins),
	    cmocka_unit_test(a_key_that_comes_twice_fails_the_build_and_is_named),
	    cmocka_unit_test(every_value_is_there_until_the_table_is_closed),
	    cmocka_unit_test(a_table_with_an_iterator_stays_open),
	    cmocka_unit_test(what_cannot_be_asked_for_is_refused),
	    cmocka_unit_test(a_refused_record_leaves_the_writer_as_it_was),
	    cmocka_unit_test(a_failed_writer_stays_failed_and_says_why),
	    cmocka_unit_test(an_aborted_build_leaves_nothing),
	    cmocka_unit_test(two_builds_of_one_path_do_not_disturb_each_other),
	    cmocka_unit_test(a_run_of_a_store_is_refused),
	    cmocka_unit_test(a_child_reads_its_parents_table_and_cannot_write),
	    cmocka_unit_test(threads_read_one_table_at_once),
	    cmocka_unit_test(a_get_allocates_nothing),
	    cmocka_unit_test(a_damaged_table_never_answers_wrongly),
	    cmocka_unit_test(a_crash_leaves_the_old_table_or_the_new_one),
	    cmocka_unit_test(a_failed_build_leaves_the_old_table_and_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
