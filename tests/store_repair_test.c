/*
 * tests/store_repair_test.c -- what cairn_repair makes of a damaged store: nothing that cannot be
 * proved, unless it says so.
 *
 * The store lies on a simulated disk: three runs that shadow each other, tombstones, and a log of
 * several segments. The oracle is a history: the operations, and a model of what they make of an
 * empty store. A repair that finds nothing must give exactly the last state; one that reports
 * losses may differ, and by how much is what each case claims.
 */
#include "tests/test.h"

#include <errno.h>

#include "store/options.h"
#include "store/store.h"
#include "tests/match.h"
#include "tests/sim_io.h"

#define SOURCE    "/source"
#define OUT       "/out"
#define KEYS      600u
#define LOG_TAIL  400u /* operations that are in the log only */
#define VALUE_MAX 400u

struct operation {
	unsigned key;
	size_t value_size; /* 0: a delete */
};

struct fixture {
	struct sim_disk *disk;
	struct operation *operations;
	size_t count;
	size_t flushed; /* of them, in runs */
	cairn_options options;
	/* Of the last repair. */
	struct sim_disk *repaired;
	unsigned findings;
	unsigned stop_after; /* 0: never */
	char first[1024];    /* finding, in words */
};

static cairn_slice key_of(unsigned key, char text[16])
{
	return (cairn_slice){text, (size_t)snprintf(text, 16, "key-%06u", key)};
}

/* The value that operation `i` gives its key. */
static cairn_slice value_of(const struct fixture *f, size_t i, uint8_t bytes[VALUE_MAX])
{
	uint64_t random = i;
	for (size_t k = 0; k < f->operations[i].value_size; k++)
		bytes[k] = (uint8_t)test_random(&random);
	return (cairn_slice){bytes, f->operations[i].value_size};
}

static void apply(struct fixture *f, cairn *db, unsigned key, size_t value_size)
{
	char text[16];
	uint8_t bytes[VALUE_MAX];
	f->operations = realloc(f->operations, (f->count + 1) * sizeof *f->operations);
	assert_non_null(f->operations);
	f->operations[f->count] = (struct operation){key, value_size};
	cairn_slice value = value_of(f, f->count++, bytes);
	if (value_size)
		assert_int_equal(cairn_put(db, key_of(key, text), value, 0), 0);
	else
		assert_int_equal(cairn_delete(db, key_of(key, text), 0), 0);
}

/* The state after the first `count` operations. */
static void state_after(const struct fixture *f, size_t count, struct model *model)
{
	char text[16];
	uint8_t bytes[VALUE_MAX];
	for (size_t i = 0; i < count; i++) {
		cairn_slice key = key_of(f->operations[i].key, text);
		if (f->operations[i].value_size)
			model_put(model, key, value_of(f, i, bytes));
		else
			model_delete(model, key);
	}
}

static void make_run(struct fixture *f, cairn *db, uint64_t *random, unsigned operations)
{
	for (unsigned i = 0; i < operations; i++) {
		unsigned key = (unsigned)(test_random(random) % KEYS);
		size_t size = test_random(random) % 5 ? 1 + test_random(random) % VALUE_MAX : 0;
		apply(f, db, key, size);
	}
	assert_int_equal(cairn_flush(db), 0);
	f->flushed = f->count;
}

static int enter(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	cairn_options options;
	cairn *db;
	uint64_t random = 17;
	assert_non_null(f);
	f->disk = sim_disk_new(random);
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 65536;
	options.sync_mode = CAIRN_SYNC_NONE;
	assert_int_equal(cairn_options_resolve(&options, &f->options), 0);
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &options, &db), 0);
	for (unsigned i = 0; i < 120; i++)
		apply(f, db, i * 5, 300);
	assert_int_equal(cairn_flush(db), 0);
	make_run(f, db, &random, 100);
	make_run(f, db, &random, 60);
	/* So that the log begins where the runs end. */
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &options, &db), 0);
	for (unsigned i = 0; i < LOG_TAIL; i++)
		apply(f, db, (unsigned)(test_random(&random) % KEYS),
		    i % 5 ? 1 + test_random(&random) % 100 : 0);
	assert_int_equal(cairn_sync(db), 0);
	assert_int_equal(cairn_close(db), 0);
	*state = f;
	return 0;
}

static int leave(void **state)
{
	struct fixture *f = *state;
	sim_disk_free(f->repaired);
	sim_disk_free(f->disk);
	free(f->operations);
	free(f);
	return 0;
}

static int count_finding(void *context, const cairn_finding *finding)
{
	struct fixture *f = context;
	assert_non_null(finding->path);
	assert_true(finding->code < 0);
	assert_true(strlen(finding->message) > 0);
	if (f->findings++ == 0)
		snprintf(f->first, sizeof f->first, "%s: %s", finding->path, finding->message);
	return f->stop_after && f->findings >= f->stop_after ? 77 : 0;
}

static void check_file(void *context, const char *path)
{
	struct sim_disk **disks = context;
	size_t size, other_size;
	const uint8_t *bytes = sim_disk_file(disks[0], path, &size);
	const uint8_t *other = sim_disk_file(disks[1], path, &other_size);
	if (strncmp(path, SOURCE "/", strlen(SOURCE "/")) != 0)
		return;
	assert_non_null(other);
	assert_int_equal(size, other_size);
	assert_memory_equal(bytes, other, size);
}

/* The source is what it was: no file more or less, and each the same to the byte. */
static void check_source(struct sim_disk *before, struct sim_disk *after)
{
	struct sim_disk *there[] = {before, after}, *back[] = {after, before};
	sim_disk_each(before, check_file, there);
	sim_disk_each(after, check_file, back);
}

/* Repairs a copy of `disk`. */
static int repair(struct fixture *f, struct sim_disk *disk)
{
	f->findings = 0;
	f->first[0] = 0;
	sim_disk_free(f->repaired);
	f->repaired = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
	int rc =
	    cairn_repair_with(sim_disk_io(f->repaired), SOURCE, OUT, &f->options, count_finding, f);
	assert_true(rc < 0 || rc == 77 || rc == (f->findings ? CAIRN_PARTIAL : 0));
	assert_int_equal(sim_disk_open_count(f->repaired), 0);
	check_source(disk, f->repaired);
	return rc;
}

/* In how many keys the new store differs from the state after `count` operations. */
static size_t differences(struct fixture *f, size_t count)
{
	struct model model = {0};
	cairn_options options;
	cairn *db;
	cairn_view *view;
	cairn_iter *iter;
	size_t different = 0, i = 0;
	state_after(f, count, &model);
	cairn_options_init(&options);
	options.read_only = 1;
	assert_int_equal(cairn_open_with(sim_disk_io(f->repaired), OUT, &options, &db), 0);
	assert_int_equal(cairn_view_open(db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	int rc = cairn_iter_first(iter);
	while (rc == 0 || i < model.count) {
		int order = rc ? 1
			    : i == model.count
				? -1
				: model_compare(cairn_iter_key(iter), model_key(&model, i));
		if (order == 0)
			different += !model_equal(cairn_iter_value(iter), model_value(&model, i));
		else
			different++;
		if (order <= 0)
			rc = cairn_iter_next(iter);
		if (order >= 0)
			i++;
	}
	assert_int_equal(rc, CAIRN_END);
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	assert_int_equal(cairn_close(db), 0);
	model_release(&model);
	return different;
}

static struct sim_disk *copy_of(struct fixture *f)
{
	return sim_disk_crash(f->disk, SIM_LOSE_NOTHING, 0);
}

/* The files of one kind, by number. */
struct files {
	const char *ending;
	char path[16][64];
	size_t count;
};

static void list_file(void *context, const char *path)
{
	struct files *files = context;
	size_t size = strlen(path), end = strlen(files->ending);
	if (strncmp(path, SOURCE "/", strlen(SOURCE "/")) == 0 && size > end &&
	    strcmp(path + size - end, files->ending) == 0 && files->count < 16)
		snprintf(files->path[files->count++], sizeof files->path[0], "%s", path);
}

static struct files files_of(struct sim_disk *disk, const char *ending)
{
	struct files files = {.ending = ending};
	sim_disk_each(disk, list_file, &files);
	return files;
}

static void flip(struct sim_disk *disk, const char *path, size_t at, unsigned bit)
{
	size_t size;
	uint8_t *bytes = sim_disk_change(disk, path, &size);
	assert_non_null(bytes);
	assert_true(at < size);
	bytes[at] ^= (uint8_t)(1u << bit);
}

static void remove_manifests(struct sim_disk *disk)
{
	assert_true(sim_disk_remove(disk, SOURCE "/MANIFEST"));
	sim_disk_remove(disk, SOURCE "/MANIFEST.old");
}

/* ---------------------------------------------------------------- nothing is wrong */

static void a_healthy_store_repairs_to_an_equal_one(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(files_of(f->disk, ".kv").count, 3);
	assert_int_equal(repair(f, f->disk), 0);
	assert_int_equal(differences(f, f->count), 0);
}

static void a_store_that_was_killed_is_healthy(void **state)
{
	struct fixture *f = *state;
	cairn *db;
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 50; i++)
		apply(f, db, i, 50);
	struct sim_disk *disk = copy_of(f);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(repair(f, disk), 0);
	assert_int_equal(differences(f, f->count), 0);
	sim_disk_free(disk);
}

static void a_directory_that_is_there_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f);
	struct cairn_io *io = sim_disk_io(disk);
	assert_int_equal(io->ops->make_directory(io, OUT), 0);
	sim_disk_put(disk, OUT "/mine", "x", 1);
	assert_int_equal(repair(f, disk), -EEXIST);
	size_t size;
	assert_non_null(sim_disk_file(f->repaired, OUT "/mine", &size));
	sim_disk_free(disk);
}

static void what_is_no_store_is_refused_and_nothing_is_left(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = sim_disk_new(1);
	struct cairn_io *io = sim_disk_io(disk);
	assert_int_equal(io->ops->make_directory(io, SOURCE), 0);
	sim_disk_put(disk, SOURCE "/000001.kv", "not a run", 9);
	assert_int_equal(repair(f, disk), CAIRN_CORRUPT);
	io = sim_disk_io(f->repaired);
	assert_int_equal(io->ops->remove_directory(io, OUT), -ENOENT);
	sim_disk_free(disk);
}

static void whoever_is_told_may_stop(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f);
	remove_manifests(disk);
	f->stop_after = 1;
	assert_int_equal(repair(f, disk), 77);
	f->stop_after = 0;
	struct cairn_io *io = sim_disk_io(f->repaired);
	assert_int_equal(io->ops->remove_directory(io, OUT), -ENOENT);
	sim_disk_free(disk);
}

/* ---------------------------------------------------------------- the manifest */

static void without_a_manifest_the_files_tell(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f);
	assert_true(sim_disk_remove(disk, SOURCE "/MANIFEST"));
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_int_equal(f->findings, 1);
	assert_non_null(strstr(f->first, "deleted long ago"));
	assert_int_equal(differences(f, f->count), 0);

	sim_disk_remove(disk, SOURCE "/MANIFEST.old");
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_int_equal(differences(f, f->count), 0);
	sim_disk_free(disk);
}

static void a_damaged_manifest_is_like_none(void **state)
{
	struct fixture *f = *state;
	size_t size;
	sim_disk_file(f->disk, SOURCE "/MANIFEST", &size);
	for (size_t at = 0; at < size; at += 13) {
		struct sim_disk *disk = copy_of(f);
		flip(disk, SOURCE "/MANIFEST", at, at % 8);
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		assert_int_equal(differences(f, f->count), 0);
		sim_disk_free(disk);
	}
}

/* A crash leaves the inputs of a merge beside its output, and then the manifests are lost. */
static void inputs_of_a_merge_do_not_come_back(void **state)
{
	struct fixture *f = *state;
	struct files inputs = files_of(f->disk, ".kv");
	struct sim_disk *before = copy_of(f);
	cairn *db;
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &f->options, &db), 0);
	assert_int_equal(cairn_compact(db), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(files_of(f->disk, ".kv").count, 1);
	for (size_t i = 0; i < inputs.count; i++) {
		size_t size;
		const uint8_t *bytes = sim_disk_file(before, inputs.path[i], &size);
		sim_disk_put(f->disk, inputs.path[i], bytes, size);
	}
	remove_manifests(f->disk);
	assert_int_equal(repair(f, f->disk), CAIRN_PARTIAL);
	assert_int_equal(differences(f, f->count), 0);
	sim_disk_free(before);
}

static void files_of_another_store_are_left_out(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f), *other = sim_disk_new(99);
	cairn *db;
	char text[16];
	assert_int_equal(cairn_open_with(sim_disk_io(other), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(cairn_put(db, key_of(i, text), (cairn_slice){"foreign", 7}, 0), 0);
	assert_int_equal(cairn_flush(db), 0);
	assert_int_equal(cairn_put(db, key_of(1, text), (cairn_slice){"foreign", 7}, 0), 0);
	assert_int_equal(cairn_close(db), 0);
	struct files runs = files_of(other, ".kv"), logs = files_of(other, ".wal");
	size_t size;
	const uint8_t *bytes = sim_disk_file(other, runs.path[0], &size);
	sim_disk_put(disk, SOURCE "/000900.kv", bytes, size);
	bytes = sim_disk_file(other, logs.path[0], &size);
	sim_disk_put(disk, SOURCE "/000901.wal", bytes, size);
	sim_disk_remove(disk, SOURCE "/MANIFEST"); /* MANIFEST.old says whose store it is */
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_int_equal(f->findings, 3);
	assert_int_equal(differences(f, f->count), 0);
	sim_disk_free(disk);
	sim_disk_free(other);
}

/* ---------------------------------------------------------------- a run */

/* One bit anywhere: at most the records of a block are missing or old, and then it is said. */
static void a_flipped_bit_in_a_run_costs_a_block_at_most(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	uint64_t random = test_seed(5);
	size_t losses = 0, step = test_full() ? 1 : 37;
	for (size_t i = 0; i < runs.count; i++) {
		size_t size;
		sim_disk_file(f->disk, runs.path[i], &size);
		for (size_t at = test_random(&random) % step; at < size; at += step) {
			struct sim_disk *disk = copy_of(f);
			flip(disk, runs.path[i], at, test_random(&random) % 8);
			int rc = repair(f, disk);
			assert_true(rc == 0 || rc == CAIRN_PARTIAL);
			size_t different = differences(f, f->count);
			assert_true(different <= 15);
			assert_true(rc == CAIRN_PARTIAL || different == 0);
			losses += different > 0;
			sim_disk_free(disk);
		}
	}
	assert_true(losses > 10);
}

static void a_record_that_fails_takes_its_older_versions_along(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	size_t size, hidden = 0;
	const char *newest = runs.path[runs.count - 1];
	sim_disk_file(f->disk, newest, &size);
	struct model model = {0};
	state_after(f, f->count, &model);
	for (size_t at = 200; at + 600 < size; at += 97) {
		struct sim_disk *disk = copy_of(f);
		flip(disk, newest, at, 3);
		assert_true(repair(f, disk) >= 0);
		const char *end = strstr(f->first, " is left out");
		const char *begin = strstr(f->first, "the key key-");
		if (begin && end) {
			cairn_options options;
			cairn *db;
			char value[VALUE_MAX];
			cairn_slice key = {begin + 8, (size_t)(end - begin) - 8};
			size_t place = model_find(&model, key);
			cairn_options_init(&options);
			options.read_only = 1;
			assert_int_equal(
			    cairn_open_with(sim_disk_io(f->repaired), OUT, &options, &db), 0);
			int rc = cairn_get(db, key, value, sizeof value, &size);
			/* The log may have a newer one. */
			if (rc == 0)
				assert_true(
				    place != MODEL_NONE && model_equal((cairn_slice){value, size},
							       model_value(&model, place)));
			else
				assert_int_equal(rc, CAIRN_NOT_FOUND);
			hidden += rc == CAIRN_NOT_FOUND;
			assert_int_equal(cairn_close(db), 0);
			sim_disk_file(f->disk, newest, &size);
		}
		sim_disk_free(disk);
	}
	assert_true(hidden > 0);
	model_release(&model);
}

static void a_run_that_was_cut_gives_what_is_left(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	for (size_t i = 0; i < runs.count; i++) {
		size_t size;
		const uint8_t *bytes = sim_disk_file(f->disk, runs.path[i], &size);
		for (size_t cut = 0; cut < size; cut += size / 9) {
			struct sim_disk *disk = copy_of(f);
			sim_disk_put(disk, runs.path[i], bytes, cut);
			assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
			differences(f, f->count);
			sim_disk_free(disk);
		}
	}
}

static void a_missing_run_is_told(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	for (size_t i = 0; i < runs.count; i++) {
		struct sim_disk *disk = copy_of(f);
		assert_true(sim_disk_remove(disk, runs.path[i]));
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		assert_int_equal(f->findings, 1);
		assert_non_null(strstr(f->first, "all that the run held is lost"));
		assert_true(differences(f, f->count) > 0);
		sim_disk_free(disk);
	}
}

/* ---------------------------------------------------------------- the log */

/* A prefix of the history: the state after some number of operations. */
static bool is_prefix(struct fixture *f)
{
	for (size_t k = f->flushed; k <= f->count; k++)
		if (differences(f, k) == 0)
			return true;
	return false;
}

static void of_a_damaged_log_a_prefix_is_proved(void **state)
{
	struct fixture *f = *state;
	struct files logs = files_of(f->disk, ".wal");
	size_t shorter = 0;
	assert_int_equal(logs.count, 1);
	for (size_t at = 4096; at < 20000; at += 997) {
		struct sim_disk *disk = copy_of(f);
		flip(disk, logs.path[0], at, at % 8);
		int rc = repair(f, disk);
		assert_true(rc == 0 || rc == CAIRN_PARTIAL);
		assert_true(is_prefix(f));
		size_t different = differences(f, f->count);
		assert_true(rc == CAIRN_PARTIAL || different == 0);
		shorter += different > 0;
		sim_disk_free(disk);
	}
	assert_true(shorter > 5);
}

static void a_missing_log_is_told(void **state)
{
	struct fixture *f = *state;
	struct files logs = files_of(f->disk, ".wal");
	struct sim_disk *disk = copy_of(f);
	assert_true(sim_disk_remove(disk, logs.path[0]));
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_non_null(strstr(f->first, "is missing"));
	assert_int_equal(differences(f, f->flushed), 0);
	sim_disk_free(disk);
}

/* Without the newest run and without a manifest the log begins behind a gap. */
static void a_gap_between_runs_and_log_is_told(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	struct sim_disk *disk = copy_of(f);
	remove_manifests(disk);
	assert_true(sim_disk_remove(disk, runs.path[runs.count - 1]));
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_int_equal(f->findings, 2);
	sim_disk_free(disk);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(a_healthy_store_repairs_to_an_equal_one),
	    CASE(a_store_that_was_killed_is_healthy),
	    CASE(a_directory_that_is_there_is_left_alone),
	    CASE(what_is_no_store_is_refused_and_nothing_is_left),
	    CASE(whoever_is_told_may_stop),
	    CASE(without_a_manifest_the_files_tell),
	    CASE(a_damaged_manifest_is_like_none),
	    CASE(inputs_of_a_merge_do_not_come_back),
	    CASE(files_of_another_store_are_left_out),
	    CASE(a_flipped_bit_in_a_run_costs_a_block_at_most),
	    CASE(a_record_that_fails_takes_its_older_versions_along),
	    CASE(a_run_that_was_cut_gives_what_is_left),
	    CASE(a_missing_run_is_told),
	    CASE(of_a_damaged_log_a_prefix_is_proved),
	    CASE(a_missing_log_is_told),
	    CASE(a_gap_between_runs_and_log_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
