/*
 * tests/store_repair_test.c -- what cairn_repair makes of a damaged store: nothing that cannot be
 * proved, unless it says so.
 *
 * The store lies on a simulated disk: three runs that shadow each other, tombstones, and a log.
 * The oracle is a history: the operations, and a model of what they make of an empty store. A
 * repair that finds nothing must give exactly the last state; one that reports losses may differ,
 * and by how much is what each case claims.
 */
#include "tests/test.h"

#include <errno.h>

#include "store/options.h"
#include "store/store.h"
#include "tests/match.h"
#include "tests/sim_io.h"

#define SOURCE      "/source"
#define OUT         "/out"
#define KEYS        600u
#define LOG_TAIL    400u /* operations that are in the log only */
#define USUAL_VALUE 400u
#define VALUE_MAX   8000u
#define DOUBTS_MAX  32u

struct operation {
	unsigned key;
	size_t value_size; /* 0: a delete */
};

/* Keys of which a finding says that they are left out, or may be old: between two, or one. */
struct doubt {
	char low[16], high[16]; /* "": no bound */
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
	char said[16384];    /* all findings, in words */
	struct doubt doubts[DOUBTS_MAX];
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

/* From the state after the first `done` operations to the one after the first `count`. */
static void state_after(const struct fixture *f, size_t done, size_t count, struct model *model)
{
	char text[16];
	uint8_t bytes[VALUE_MAX];
	for (size_t i = done; i < count; i++) {
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
		size_t size = test_random(random) % 5 ? 1 + test_random(random) % USUAL_VALUE : 0;
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

/* Copies the word behind `before`, if it is in the text. */
static bool word_behind(const char *text, const char *before, char word[16])
{
	const char *found = strstr(text, before);
	word[0] = 0;
	return found && sscanf(found + strlen(before), "%15[a-z0-9-]", word) == 1;
}

static int count_finding(void *context, const cairn_finding *finding)
{
	struct fixture *f = context;
	struct doubt *doubt = &f->doubts[f->findings % DOUBTS_MAX];
	assert_non_null(finding->path);
	assert_true(finding->code < 0);
	assert_true(strlen(finding->message) > 0);
	f->findings++;
	size_t size = strlen(f->said);
	snprintf(
	    f->said + size, sizeof f->said - size, "%s: %s\n", finding->path, finding->message);
	if (word_behind(finding->message, "the key ", doubt->low)) {
		memcpy(doubt->high, doubt->low, sizeof doubt->high);
	} else {
		word_behind(finding->message, "from behind ", doubt->low);
		word_behind(finding->message, "to before ", doubt->high);
	}
	return f->stop_after && f->findings >= f->stop_after ? 77 : 0;
}

/* Whether one of the findings is about the key. */
static bool is_in_doubt(const struct fixture *f, cairn_slice key)
{
	assert_true(f->findings <= DOUBTS_MAX);
	for (unsigned i = 0; i < f->findings; i++) {
		cairn_slice low = {f->doubts[i].low, strlen(f->doubts[i].low)};
		cairn_slice high = {f->doubts[i].high, strlen(f->doubts[i].high)};
		if (model_compare(low, key) <= 0 &&
		    (high.size == 0 || model_compare(key, high) <= 0))
			return true;
	}
	return false;
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
	f->said[0] = 0;
	sim_disk_free(f->repaired);
	f->repaired = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
	int rc =
	    cairn_repair_with(sim_disk_io(f->repaired), SOURCE, OUT, &f->options, count_finding, f);
	assert_true(rc < 0 || rc == 77 || rc == (f->findings ? CAIRN_PARTIAL : 0));
	assert_int_equal(sim_disk_open_count(f->repaired), 0);
	check_source(disk, f->repaired);
	return rc;
}

/* Adds what a store holds to a model. */
static void read_store(struct sim_disk *disk, const char *path, struct model *model)
{
	cairn_options options;
	cairn *db;
	cairn_view *view;
	cairn_iter *iter;
	cairn_options_init(&options);
	options.read_only = 1;
	assert_int_equal(cairn_open_with(sim_disk_io(disk), path, &options, &db), 0);
	assert_int_equal(cairn_view_open(db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	int rc = cairn_iter_first(iter);
	for (; rc == 0; rc = cairn_iter_next(iter))
		model_put(model, cairn_iter_key(iter), cairn_iter_value(iter));
	assert_int_equal(rc, CAIRN_END);
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	assert_int_equal(cairn_close(db), 0);
}

/* In how many keys they differ. With `f`, all of those must be in doubt. */
static size_t compare(const struct fixture *f, const struct model *a, const struct model *b)
{
	size_t different = 0, i = 0, k = 0;
	while (i < a->count || k < b->count) {
		int order = i == a->count   ? 1
			    : k == b->count ? -1
					    : model_compare(model_key(a, i), model_key(b, k));
		cairn_slice key = order <= 0 ? model_key(a, i) : model_key(b, k);
		if (order || !model_equal(model_value(a, i), model_value(b, k))) {
			different++;
			assert_true(!f || is_in_doubt(f, key));
		}
		i += order <= 0;
		k += order >= 0;
	}
	return different;
}

/* After how many operations, `from` or more, the state is that; NEVER when it is no such state. */
#define NEVER SIZE_MAX
static size_t operations_of(const struct fixture *f, const struct model *model, size_t from)
{
	struct model state = {0};
	size_t found = NEVER;
	state_after(f, 0, from, &state);
	for (size_t k = from; k <= f->count && found == NEVER; k++) {
		if (k > from)
			state_after(f, k - 1, k, &state);
		if (compare(NULL, &state, model) == 0)
			found = k;
	}
	model_release(&state);
	return found;
}

/* In how many keys the new store differs from the state after `count` operations. */
static size_t differences(struct fixture *f, size_t count)
{
	struct model expected = {0}, found = {0};
	state_after(f, 0, count, &expected);
	read_store(f->repaired, OUT, &found);
	size_t different = compare(NULL, &expected, &found);
	model_release(&expected);
	model_release(&found);
	return different;
}

/* The same for the last state; every difference must have been told. */
static size_t told_differences(struct fixture *f)
{
	struct model expected = {0}, found = {0};
	state_after(f, 0, f->count, &expected);
	read_store(f->repaired, OUT, &found);
	size_t different = compare(f, &expected, &found);
	model_release(&expected);
	model_release(&found);
	return different;
}

/* Of how many operations, `from` or more, the new store is the result; NEVER when of none. */
static size_t operations_proved(struct fixture *f, size_t from)
{
	struct model found = {0};
	read_store(f->repaired, OUT, &found);
	size_t operations = operations_of(f, &found, from);
	model_release(&found);
	return operations;
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

	disk = sim_disk_new(1);
	assert_int_equal(repair(f, disk), -ENOENT);
	assert_int_equal(f->findings, 0);
	sim_disk_free(disk);
}

/* One call after the other fails. What cannot be read of the manifest or a run is like damage. */
static void after_a_failure_nothing_is_left(void **state)
{
	struct fixture *f = *state;
	struct sim_fault fault = {.call = 1, .code = -EIO};
	unsigned failures = 0;
	for (bool more = true; more; fault.call += test_full() ? 1 : 3) {
		struct sim_disk *disk = copy_of(f);
		struct cairn_io *io = sim_disk_io(disk);
		f->findings = 0;
		sim_disk_arm(disk, &fault);
		int rc = cairn_repair_with(io, SOURCE, OUT, &f->options, count_finding, f);
		more = sim_disk_faults(disk) > 0;
		sim_disk_arm(disk, &(struct sim_fault){0});
		assert_int_equal(sim_disk_open_count(disk), 0);
		check_source(f->disk, disk);
		if (rc < 0) {
			assert_int_equal(io->ops->remove_directory(io, OUT), -ENOENT);
			failures++;
		} else {
			assert_int_equal(rc, f->findings ? CAIRN_PARTIAL : 0);
		}
		sim_disk_free(disk);
	}
	assert_true(failures > 10);
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

static void a_store_that_is_open_for_writing_is_refused(void **state)
{
	struct fixture *f = *state;
	struct cairn_io *io = sim_disk_io(f->disk);
	cairn *db;
	assert_int_equal(cairn_open_with(io, SOURCE, &f->options, &db), 0);
	assert_int_equal(
	    cairn_repair_with(io, SOURCE, OUT, &f->options, count_finding, f), CAIRN_LOCKED);
	assert_int_equal(io->ops->remove_directory(io, OUT), -ENOENT);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_repair_with(io, SOURCE, OUT, &f->options, count_finding, f), 0);
	assert_int_equal(f->findings, 0);
}

/* ---------------------------------------------------------------- crashes */

struct crashes {
	struct fixture *f;
	uint64_t random;
	unsigned one_in; /* of the calls, that many are followed by a crash */
	size_t seen;
};

/*
 * After a crash repair makes what opening the store makes. Without the manifests it cannot tell
 * how much of that a crash could lose, and takes all that it can prove.
 */
static void check_crash(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct crashes *crashes = context;
	struct fixture *f = crashes->f;
	struct model opened = {0}, repaired = {0};
	(void)call;
	(void)path;
	if (test_random(&crashes->random) % crashes->one_in)
		return;
	enum sim_loss loss = (enum sim_loss)(test_random(&crashes->random) % SIM_LOSSES);
	struct sim_disk *crashed = sim_disk_crash(disk, loss, test_random(&crashes->random));
	read_store(crashed, SOURCE, &opened);
	assert_int_equal(repair(f, crashed), 0);
	read_store(f->repaired, OUT, &repaired);
	assert_int_equal(compare(NULL, &opened, &repaired), 0);
	size_t least = operations_of(f, &opened, 0);
	assert_true(least != NEVER);
	remove_manifests(crashed);
	assert_int_equal(repair(f, crashed), CAIRN_PARTIAL);
	assert_true(operations_proved(f, least) != NEVER);
	crashes->seen++;
	model_release(&opened);
	model_release(&repaired);
	sim_disk_free(crashed);
}

static void write_much(struct fixture *f, uint64_t *random)
{
	cairn *db;
	struct cairn_io *io = sim_disk_io(f->disk);
	for (unsigned life = 0; life < 2; life++) {
		assert_int_equal(cairn_open_with(io, SOURCE, &f->options, &db), 0);
		for (unsigned i = 0; i < 800; i++) {
			apply(f, db, (unsigned)(test_random(random) % KEYS),
			    i % 5 ? 1 + test_random(random) % USUAL_VALUE : 0);
			if (i % 50 == 0)
				assert_int_equal(cairn_sync(db), 0);
		}
		if (life)
			assert_int_equal(cairn_compact(db), 0);
		assert_int_equal(cairn_close(db), 0);
	}
}

static void what_a_crash_leaves_is_no_damage(void **state)
{
	struct fixture *f = *state;
	struct crashes crashes = {f, test_seed(11), test_full() ? 1 : 8, 0};
	uint64_t random = crashes.random;
	sim_disk_watch(f->disk, check_crash, &crashes);
	write_much(f, &random);
	sim_disk_watch(f->disk, NULL, NULL);
	assert_true(crashes.seen > 20);
}

/* A recovery that is killed leaves a log that no manifest names yet. */
static void what_a_crash_of_a_recovery_leaves_is_no_damage(void **state)
{
	struct fixture *f = *state;
	cairn *db;
	struct crashes crashes = {f, test_seed(12), 1, 0};
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 50; i++)
		apply(f, db, i, 50);
	struct sim_disk *killed = copy_of(f);
	assert_int_equal(cairn_close(db), 0);
	sim_disk_watch(killed, check_crash, &crashes);
	assert_int_equal(cairn_open_with(sim_disk_io(killed), SOURCE, &f->options, &db), 0);
	sim_disk_watch(killed, NULL, NULL);
	assert_int_equal(cairn_close(db), 0);
	assert_true(crashes.seen > 5);
	sim_disk_free(killed);
}

/* ---------------------------------------------------------------- the manifest */

static void without_a_manifest_the_files_tell(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f);
	assert_true(sim_disk_remove(disk, SOURCE "/MANIFEST"));
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_int_equal(f->findings, 1);
	assert_non_null(strstr(f->said, "deleted long ago"));
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

/* A crash leaves inputs of a merge beside its output, not all of them, and then the manifests are
 * lost: what one input holds, another may have deleted. */
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
	remove_manifests(f->disk);
	for (unsigned left = 1; left < 1u << inputs.count; left++) {
		struct sim_disk *disk = copy_of(f);
		for (size_t i = 0; i < inputs.count; i++) {
			size_t size;
			const uint8_t *bytes = sim_disk_file(before, inputs.path[i], &size);
			if (left >> i & 1)
				sim_disk_put(disk, inputs.path[i], bytes, size);
		}
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		assert_int_equal(f->findings, 1);
		assert_int_equal(differences(f, f->count), 0);
		sim_disk_free(disk);
	}
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

/* The store is the one that most files are of, when nothing else says which. */
static void without_any_manifest_the_few_are_the_foreign(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *disk = copy_of(f), *other = sim_disk_new(98);
	cairn *db;
	char text[16];
	size_t size;
	assert_int_equal(cairn_open_with(sim_disk_io(other), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 5 * f->count; i++)
		assert_int_equal(cairn_put(db, key_of(i, text), (cairn_slice){"", 0}, 0), 0);
	assert_int_equal(cairn_compact(db), 0);
	assert_int_equal(cairn_close(db), 0);
	struct files runs = files_of(other, ".kv");
	const uint8_t *bytes = sim_disk_file(other, runs.path[0], &size);
	sim_disk_put(disk, SOURCE "/000900.kv", bytes, size);
	remove_manifests(disk);
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_non_null(strstr(f->said, "000900.kv: the run belongs to another store"));
	assert_int_equal(differences(f, f->count), 0);
	sim_disk_free(disk);
	sim_disk_free(other);
}

/* A copy of the store that went its own way has runs with the same name on them. */
static void runs_of_two_histories_are_told(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *copy = copy_of(f);
	cairn *db;
	char text[16];
	size_t size;
	assert_int_equal(cairn_open_with(sim_disk_io(copy), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(cairn_put(db, key_of(i, text), (cairn_slice){"other", 5}, 0), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_open_with(sim_disk_io(copy), SOURCE, &f->options, &db), 0);
	assert_int_equal(cairn_flush(db), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &f->options, &db), 0);
	apply(f, db, 1, 10);
	assert_int_equal(cairn_flush(db), 0);
	for (unsigned i = 0; i < 50; i++)
		apply(f, db, i, 10);
	assert_int_equal(cairn_flush(db), 0);
	assert_int_equal(cairn_close(db), 0);
	struct files runs = files_of(copy, ".kv");
	const uint8_t *bytes = sim_disk_file(copy, runs.path[runs.count - 1], &size);
	sim_disk_put(f->disk, SOURCE "/000900.kv", bytes, size);
	remove_manifests(f->disk);
	assert_int_equal(repair(f, f->disk), CAIRN_PARTIAL);
	assert_non_null(strstr(f->said, "overlap"));
	sim_disk_free(copy);
}

/* ---------------------------------------------------------------- a run */

/* Whole, and of this store, but not the one that belongs there. */
static void a_run_in_the_place_of_another_is_left_out(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	struct sim_disk *disk = copy_of(f);
	size_t size;
	const uint8_t *bytes = sim_disk_file(f->disk, runs.path[0], &size);
	sim_disk_put(disk, runs.path[2], bytes, size);
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_non_null(strstr(f->said, "not the run that the MANIFEST names"));
	assert_int_equal(f->findings, 1);

	/* So it is as if that one were missing. */
	struct model found = {0}, expected = {0};
	read_store(f->repaired, OUT, &found);
	sim_disk_remove(disk, runs.path[2]);
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	read_store(f->repaired, OUT, &expected);
	assert_int_equal(compare(NULL, &found, &expected), 0);
	model_release(&found);
	model_release(&expected);
	sim_disk_free(disk);
}

static void a_run_of_unknown_age_is_told(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	for (size_t i = 0; i < runs.count; i++) {
		struct sim_disk *disk = copy_of(f);
		size_t size;
		sim_disk_file(disk, runs.path[i], &size);
		flip(disk, runs.path[i], size - 1, 0);
		remove_manifests(disk);
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		assert_non_null(strstr(f->said, "how old the run is cannot be told"));
		assert_int_equal(differences(f, f->count), 0);
		sim_disk_free(disk);
	}
}

/* One bit anywhere: at most the records of a block are missing or old, and then it is said. */
static void a_flipped_bit_in_a_run_costs_a_block_at_most(void **state)
{
	struct fixture *f = *state;
	struct files runs = files_of(f->disk, ".kv");
	uint64_t random = test_seed(5);
	size_t losses = 0, step = test_full() ? 1 : 101;
	for (size_t i = 0; i < runs.count; i++) {
		size_t size;
		sim_disk_file(f->disk, runs.path[i], &size);
		for (size_t at = test_random(&random) % step; at < size; at += step) {
			struct sim_disk *disk = copy_of(f);
			flip(disk, runs.path[i], at, test_random(&random) % 8);
			int rc = repair(f, disk);
			assert_true(rc == 0 || rc == CAIRN_PARTIAL);
			size_t different = told_differences(f);
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
	state_after(f, 0, f->count, &model);
	for (size_t at = 200; at + 600 < size; at += 97) {
		struct sim_disk *disk = copy_of(f);
		flip(disk, newest, at, 3);
		assert_true(repair(f, disk) >= 0);
		const char *end = strstr(f->said, " is left out");
		const char *begin = strstr(f->said, "the key key-");
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
			told_differences(f);
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
		assert_non_null(strstr(f->said, "all that the run held is lost"));
		assert_true(differences(f, f->count) > 0);
		sim_disk_free(disk);
	}
}

/* ---------------------------------------------------------------- the log */

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
		assert_true(operations_proved(f, f->flushed) != NEVER);
		size_t different = differences(f, f->count);
		assert_true(rc == CAIRN_PARTIAL || different == 0);
		shorter += different > 0;
		sim_disk_free(disk);
	}
	assert_true(shorter > 5);
}

/* Killed with a log that was synced now and then. */
static struct sim_disk *kill_with_syncs(struct fixture *f)
{
	cairn *db;
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &f->options, &db), 0);
	for (unsigned i = 0; i < 60; i++) {
		apply(f, db, i * 7, 100);
		if (i % 6 == 5)
			assert_int_equal(cairn_sync(db), 0);
	}
	struct sim_disk *disk = copy_of(f);
	assert_int_equal(cairn_close(db), 0);
	return disk;
}

/* The log itself tells what the damage took: by records behind it that know of a sync. */
static void without_a_manifest_a_damaged_log_is_told(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *killed = kill_with_syncs(f);
	struct files logs = files_of(killed, ".wal");
	size_t told = 0;
	remove_manifests(killed);
	assert_int_equal(logs.count, 1);
	for (size_t at = CAIRN_LOG_HEADER_SIZE; at < 9000; at += 97) {
		struct sim_disk *disk = sim_disk_crash(killed, SIM_LOSE_NOTHING, 0);
		flip(disk, logs.path[0], at, at % 8);
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		assert_true(operations_proved(f, f->flushed) != NEVER);
		bool found = strstr(f->said, " are lost") != NULL;
		assert_true(found || differences(f, f->count) == 0);
		told += found;
		sim_disk_free(disk);
	}
	assert_true(told > 20);
	sim_disk_free(killed);
}

static void a_missing_log_is_told(void **state)
{
	struct fixture *f = *state;
	struct files logs = files_of(f->disk, ".wal");
	struct sim_disk *disk = copy_of(f);
	assert_true(sim_disk_remove(disk, logs.path[0]));
	assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
	assert_non_null(strstr(f->said, "is missing"));
	assert_int_equal(differences(f, f->flushed), 0);
	sim_disk_free(disk);
}

/* A store that was killed with a log of three segments, of which the last was not synced. */
static struct sim_disk *kill_with_segments(struct fixture *f)
{
	cairn *db;
	cairn_options options = f->options;
	options.memtable_bytes = 4u << 20; /* segments of 1, 2 and 4 MiB */
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), SOURCE, &options, &db), 0);
	for (unsigned i = 0; i < 480; i++) {
		apply(f, db, i, VALUE_MAX);
		if (i == 450)
			assert_int_equal(cairn_sync(db), 0);
	}
	struct sim_disk *disk = copy_of(f);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(repair(f, disk), 0);
	assert_int_equal(differences(f, f->count), 0);
	return disk;
}

/* With the manifests and without: nothing is missing, or a part of the history that was told. Among
 * the files are some that hold no part of the log. */
static void behind_a_missing_segment_nothing_is_proved(void **state)
{
	struct fixture *f = *state;
	struct sim_disk *killed = kill_with_segments(f);
	struct files segments = files_of(killed, ".wal");
	size_t losses = 0;
	/* Without the last one the log just ends earlier. */
	for (size_t i = 0; i + 1 < segments.count; i++) {
		struct sim_disk *disk = sim_disk_crash(killed, SIM_LOSE_NOTHING, 0);
		assert_true(sim_disk_remove(disk, segments.path[i]));
		int rc = repair(f, disk);
		size_t proved = operations_proved(f, f->flushed);
		assert_int_equal(rc, proved == f->count ? 0 : CAIRN_PARTIAL);
		assert_true(proved != NEVER);
		losses += rc == CAIRN_PARTIAL;
		if (rc)
			assert_non_null(strstr(f->said, " are lost"));
		remove_manifests(disk);
		assert_int_equal(repair(f, disk), CAIRN_PARTIAL);
		if (proved < f->count)
			assert_true(f->findings > 1);
		else
			assert_int_equal(differences(f, f->count), 0);
		sim_disk_free(disk);
	}
	assert_true(losses >= 2);
	sim_disk_free(killed);
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

/* ---------------------------------------------------------------- anything */

/* Whether some operation gave its key that value. */
static bool was_written(const struct fixture *f, cairn_slice key, cairn_slice value)
{
	char text[16];
	uint8_t bytes[VALUE_MAX];
	for (size_t i = 0; i < f->count; i++)
		if (f->operations[i].value_size == value.size &&
		    model_equal(key_of(f->operations[i].key, text), key) &&
		    model_equal(value_of(f, i, bytes), value))
			return true;
	return false;
}

struct mishap {
	struct sim_disk *disk;
	uint64_t *random;
};

/* One file in three is gone, cut or has bytes changed. */
static void damage_file(void *context, const char *path)
{
	const struct mishap *mishap = context;
	uint64_t *random = mishap->random;
	size_t size;
	uint8_t *bytes = sim_disk_change(mishap->disk, path, &size);
	uint64_t kind = test_random(random) % 16;
	for (uint64_t i = 0; kind < 4 && size && i <= test_random(random) % 4; i++)
		bytes[test_random(random) % size] = (uint8_t)test_random(random);
	if (kind == 4)
		sim_disk_put(mishap->disk, path, bytes, test_random(random) % (size + 1));
	if (kind == 5)
		sim_disk_remove(mishap->disk, path);
}

/* Nothing is made up, and every way ends in an answer. */
static void whatever_is_damaged_only_what_was_written_is_there(void **state)
{
	struct fixture *f = *state;
	uint64_t random = test_seed(19);
	size_t made = 0, rounds = test_full() ? 5000 : 100;
	for (size_t i = 0; i < rounds; i++) {
		struct sim_disk *disk = copy_of(f), *names = copy_of(f);
		struct mishap mishap = {disk, &random};
		struct model found = {0};
		sim_disk_each(names, damage_file, &mishap);
		int rc = repair(f, disk);
		assert_true(rc >= 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
		if (rc >= 0) {
			made++;
			read_store(f->repaired, OUT, &found);
		}
		for (size_t k = 0; k < found.count; k++)
			assert_true(was_written(f, model_key(&found, k), model_value(&found, k)));
		model_release(&found);
		sim_disk_free(disk);
		sim_disk_free(names);
	}
	assert_true(made > rounds / 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(a_healthy_store_repairs_to_an_equal_one),
	    CASE(a_store_that_was_killed_is_healthy),
	    CASE(a_store_that_is_open_for_writing_is_refused),
	    CASE(what_a_crash_leaves_is_no_damage),
	    CASE(what_a_crash_of_a_recovery_leaves_is_no_damage),
	    CASE(a_directory_that_is_there_is_left_alone),
	    CASE(what_is_no_store_is_refused_and_nothing_is_left),
	    CASE(after_a_failure_nothing_is_left),
	    CASE(whoever_is_told_may_stop),
	    CASE(without_a_manifest_the_files_tell),
	    CASE(a_damaged_manifest_is_like_none),
	    CASE(inputs_of_a_merge_do_not_come_back),
	    CASE(files_of_another_store_are_left_out),
	    CASE(without_any_manifest_the_few_are_the_foreign),
	    CASE(runs_of_two_histories_are_told),
	    CASE(a_flipped_bit_in_a_run_costs_a_block_at_most),
	    CASE(a_run_in_the_place_of_another_is_left_out),
	    CASE(a_run_of_unknown_age_is_told),
	    CASE(a_record_that_fails_takes_its_older_versions_along),
	    CASE(a_run_that_was_cut_gives_what_is_left),
	    CASE(a_missing_run_is_told),
	    CASE(of_a_damaged_log_a_prefix_is_proved),
	    CASE(without_a_manifest_a_damaged_log_is_told),
	    CASE(a_missing_log_is_told),
	    CASE(behind_a_missing_segment_nothing_is_proved),
	    CASE(a_gap_between_runs_and_log_is_told),
	    CASE(whatever_is_damaged_only_what_was_written_is_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
