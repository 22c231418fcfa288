/*
 * tests/store_fraction_test.c -- fractional indexes in a store: made with runs, named by the
 * manifest, replaced, lost, damaged, swapped, made anew; and never needed.
 *
 * The oracle is an array: which keys there are, and the version of their values. With an index,
 * without one and with a bad one the same seeks must give the same answers.
 */
#include "tests/test.h"

#include <errno.h>

#include "format/manifest.h"
#include "store/store.h"
#include "tests/sim_io.h"

#define STORE   "/store"
#define COPY    "/copy"
#define KEYS    2000u
#define QUERIES 300u
#define LINES   32u

struct fixture {
	struct sim_disk *disk;
	cairn *db;
	cairn_options options;
	unsigned version[KEYS]; /* of the value; 0: the key is not there */
	unsigned next_version;
	unsigned lines; /* of the log callback */
	char line[LINES][512];
};

static void note_line(void *context, const char *line)
{
	struct fixture *f = context;
	snprintf(f->line[f->lines++ % LINES], sizeof f->line[0], "%s", line);
}

static bool was_told(const struct fixture *f, const char *words)
{
	for (unsigned i = 0; i < LINES; i++) {
		if (strstr(f->line[i], words))
			return true;
	}
	return false;
}

static void open_store(struct fixture *f)
{
	assert_int_equal(cairn_open_with(sim_disk_io(f->disk), STORE, &f->options, &f->db), 0);
}

static void enter(struct fixture *f, int point_index)
{
	memset(f, 0, sizeof *f);
	f->disk = sim_disk_new(1);
	cairn_options_init(&f->options);
	f->options.no_background = 1;
	f->options.sync_mode = CAIRN_SYNC_NONE;
	f->options.point_index = point_index;
	f->options.log = note_line;
	f->options.callback_context = f;
	open_store(f);
}

static void leave(struct fixture *f)
{
	assert_int_equal(cairn_close(f->db), 0);
	assert_int_equal(sim_disk_open_count(f->disk), 0);
	sim_disk_free(f->disk);
}

static void close_store(struct fixture *f)
{
	assert_int_equal(cairn_close(f->db), 0);
	f->db = NULL;
}

static void reopen(struct fixture *f)
{
	close_store(f);
	open_store(f);
}

static cairn_slice key_of(unsigned number, char text[32])
{
	return (cairn_slice){text, (size_t)snprintf(text, 32, "user:%07u:x", number)};
}

static cairn_slice value_of(unsigned number, unsigned version, char text[48])
{
	return (cairn_slice){
	    text, (size_t)snprintf(text, 48, "value %u of key %u", version, number)};
}

static void put(struct fixture *f, unsigned number)
{
	char key[32], value[48];
	f->version[number] = ++f->next_version;
	assert_int_equal(
	    cairn_put(f->db, key_of(number, key), value_of(number, f->version[number], value), 0),
	    0);
}

static void erase(struct fixture *f, unsigned number)
{
	char key[32];
	f->version[number] = 0;
	assert_int_equal(cairn_delete(f->db, key_of(number, key), 0), 0);
}

/* Every `step`th key from `first` on, in a run of its own; one in five of them deleted if asked. */
static void write_run(struct fixture *f, unsigned first, unsigned step, bool deletes)
{
	for (unsigned i = first, n = 0; i < KEYS; i += step, n++)
		(deletes && n % 5 == 4 ? erase : put)(f, i);
	assert_int_equal(cairn_flush(f->db), 0);
}

/* Three runs: 2000, 500 and 285 records. */
static void write_cascade(struct fixture *f)
{
	write_run(f, 0, 1, false);
	write_run(f, 1, 4, true);
	write_run(f, 3, 7, true);
}

/* ---------------------------------------------------------------- what is there */

struct listing {
	unsigned indexes, temporaries;
	char last[64]; /* path of an index */
};

static void note_path(void *context, const char *path)
{
	struct listing *listing = context;
	if (strncmp(path, STORE "/", sizeof STORE) != 0)
		return;
	if (strstr(path, ".ix")) {
		listing->indexes++;
		snprintf(listing->last, sizeof listing->last, "%s", path);
	}
	listing->temporaries += strstr(path, ".tmp") != NULL;
}

static struct listing list(struct fixture *f)
{
	struct listing listing = {0};
	sim_disk_each(f->disk, note_path, &listing);
	return listing;
}

/* How many runs the version has an index for; each is named and its bytes are counted. */
static unsigned count_indexes(struct fixture *f)
{
	unsigned count = 0;
	uint64_t bytes = 0;
	cairn_stats stats;
	struct cairn_version *version = cairn_current_version(f->db);
	for (size_t i = 0; i < version->count; i++) {
		if (version->indexes[i]) {
			count++;
			bytes += version->indexes[i]->file.size;
		}
	}
	cairn_version_unref(version);
	assert_int_equal(cairn_stat(f->db, &stats), 0);
	assert_int_equal(stats.index_bytes, bytes);
	return count;
}

static void assert_indexes(struct fixture *f, unsigned count)
{
	cairn_obsolete_remove(&f->db->obsolete, f->db->io);
	assert_int_equal(count_indexes(f), count);
	struct listing listing = list(f);
	assert_int_equal(listing.indexes, count);
	assert_int_equal(listing.temporaries, 0);
}

/* ---------------------------------------------------------------- answers */

static unsigned next_live(const struct fixture *f, unsigned number)
{
	while (number < KEYS && !f->version[number])
		number++;
	return number;
}

static void assert_stands_on(const struct fixture *f, cairn_iter *iter, int rc, unsigned number)
{
	char key[32], value[48];
	assert_int_equal(rc, number < KEYS ? 0 : CAIRN_END);
	if (rc)
		return;
	cairn_slice wanted = key_of(number, key), found = cairn_iter_key(iter);
	assert_int_equal(found.size, wanted.size);
	assert_memory_equal(found.data, wanted.data, wanted.size);
	wanted = value_of(number, f->version[number], value);
	found = cairn_iter_value(iter);
	assert_int_equal(found.size, wanted.size);
	assert_memory_equal(found.data, wanted.data, wanted.size);
}

static void assert_get(struct fixture *f, cairn_view *view, unsigned number)
{
	char key[32], text[48];
	cairn_slice found, wanted = value_of(number, f->version[number], text);
	int rc = cairn_view_get(view, key_of(number, key), &found);
	assert_int_equal(rc, f->version[number] ? 0 : CAIRN_NOT_FOUND);
	if (rc)
		return;
	assert_int_equal(found.size, wanted.size);
	assert_memory_equal(found.data, wanted.data, wanted.size);
}

struct many {
	struct fixture *f;
	unsigned first;
	unsigned answers;
};

static int check_one(void *context, size_t i, int result, cairn_slice value)
{
	struct many *many = context;
	char text[48];
	unsigned number = many->first + (unsigned)i, version = many->f->version[number];
	cairn_slice wanted = value_of(number, version, text);
	assert_int_equal(result, version ? 0 : CAIRN_NOT_FOUND);
	if (version) {
		assert_int_equal(value.size, wanted.size);
		assert_memory_equal(value.data, wanted.data, wanted.size);
	}
	many->answers++;
	return 0;
}

static void assert_multi_get(struct fixture *f, unsigned first, unsigned count)
{
	char text[100][32];
	cairn_slice keys[100];
	struct many many = {f, first, 0};
	for (unsigned i = 0; i < count; i++)
		keys[i] = key_of(first + i, text[i]);
	assert_int_equal(cairn_multi_get(f->db, keys, count, check_one, &many), 0);
	assert_int_equal(many.answers, count);
}

/* Seeks, steps both ways, gets, and a walk over everything. */
static void check_answers(struct fixture *f)
{
	uint64_t random = 7;
	cairn_view *view;
	cairn_iter *iter;
	char key[32];
	assert_int_equal(cairn_view_open(f->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	for (unsigned i = 0; i < QUERIES; i++) {
		unsigned number = (unsigned)(test_random(&random) % KEYS);
		unsigned live = next_live(f, number);
		assert_stands_on(f, iter, cairn_iter_seek(iter, key_of(number, key)), live);
		if (live < KEYS) {
			unsigned behind = next_live(f, live + 1);
			assert_stands_on(f, iter, cairn_iter_next(iter), behind);
			if (behind < KEYS)
				assert_stands_on(f, iter, cairn_iter_prev(iter), live);
		}
		assert_get(f, view, number);
	}
	unsigned live = next_live(f, 0);
	assert_stands_on(f, iter, cairn_iter_first(iter), live);
	while (live < KEYS) {
		live = next_live(f, live + 1);
		assert_stands_on(f, iter, cairn_iter_next(iter), live);
	}
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	for (unsigned first = 0; first + 100 <= KEYS; first += 331)
		assert_multi_get(f, first, 100);
}

/* The answers, and how many of the seeks were by index. */
static void check_seeks(struct fixture *f, bool by_index)
{
	cairn_stats before, after;
	assert_int_equal(cairn_stat(f->db, &before), 0);
	check_answers(f);
	assert_int_equal(cairn_stat(f->db, &after), 0);
	uint64_t indexed = after.seeks_indexed - before.seeks_indexed;
	uint64_t unindexed = after.seeks_unindexed - before.seeks_unindexed;
	assert_int_equal(after.seeks_fallback, after.seeks_unindexed + after.seeks_wide);
	assert_true(
	    by_index ? indexed >= QUERIES && unindexed == 0 : unindexed >= QUERIES && indexed == 0);
}

/* ---------------------------------------------------------------- life */

static void flushes_make_indexes(void **state)
{
	(void)state;
	const int choices[] = {CAIRN_POINT_INDEX, CAIRN_NO_POINT_INDEX};
	for (size_t i = 0; i < 2; i++) {
		struct fixture f;
		enter(&f, choices[i]);
		write_run(&f, 0, 1, false);
		assert_indexes(&f, 0);
		check_answers(&f);
		write_run(&f, 1, 4, true);
		assert_indexes(&f, 1);
		write_run(&f, 3, 7, true);
		assert_indexes(&f, 2);
		check_seeks(&f, true);
		reopen(&f);
		assert_indexes(&f, 2);
		check_seeks(&f, true);
		assert_int_equal(f.lines, 0);
		leave(&f);
	}
}

static void small_runs_have_none(void **state)
{
	(void)state;
	struct fixture f;
	enter(&f, 0);
	write_run(&f, 0, 1, false);
	write_run(&f, 5, 9, false); /* 222 records: 15 blocks */
	assert_indexes(&f, 0);
	check_seeks(&f, false);
	assert_int_equal(cairn_index_step(f.db), 0);
	assert_indexes(&f, 0);
	leave(&f);
}

/* A new oldest run: the indexes of the newer ones are of no use, and made anew. */
static void a_merge_into_the_anchor_makes_all_stale(void **state)
{
	(void)state;
	struct fixture f;
	enter(&f, 0);
	write_cascade(&f);
	assert_indexes(&f, 2);
	assert_int_equal(cairn_compact(f.db), 0);
	assert_indexes(&f, 0);
	check_answers(&f);
	write_run(&f, 2, 6, true);
	assert_indexes(&f, 1);
	check_seeks(&f, true);
	leave(&f);
}

static void a_view_keeps_the_index_that_it_began_with(void **state)
{
	(void)state;
	struct fixture f;
	cairn_view *view;
	cairn_iter *iter;
	char key[32];
	enter(&f, 0);
	write_cascade(&f);
	assert_int_equal(cairn_view_open(f.db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	assert_int_equal(cairn_compact(f.db), 0);
	assert_int_equal(count_indexes(&f), 0);
	assert_int_equal(list(&f).indexes, 2);
	for (unsigned i = 0; i < KEYS; i += 17)
		assert_stands_on(&f, iter, cairn_iter_seek(iter, key_of(i, key)), next_live(&f, i));
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	assert_indexes(&f, 0);
	leave(&f);
}

/* ---------------------------------------------------------------- loss and damage */

static char *an_index(struct fixture *f, char path[64])
{
	struct listing listing = list(f);
	assert_true(listing.indexes > 0);
	snprintf(path, 64, "%s", listing.last);
	return path;
}

static int note_finding(void *context, const cairn_finding *finding)
{
	char(*path)[64] = context;
	snprintf(*path, sizeof *path, "%s", finding->path);
	return 0;
}

/* Verify names the file, and it alone. */
static void assert_found_by_verify(struct fixture *f, const char *path)
{
	char found[64] = "";
	assert_int_equal(
	    cairn_verify_with(sim_disk_io(f->disk), STORE, &f->options, note_finding, &found),
	    path ? CAIRN_CORRUPT : 0);
	assert_string_equal(found, path ? path : "");
}

/* The store was closed, and one of its two indexes spoilt. */
static void check_spoilt(struct fixture *f, const char *path, const char *words)
{
	memset(f->line, 0, sizeof f->line);
	assert_found_by_verify(f, path);
	f->options.read_only = 1;
	open_store(f);
	assert_true(was_told(f, path) && was_told(f, words));
	assert_int_equal(count_indexes(f), 1);
	check_seeks(f, false);
	close_store(f);
	f->options.read_only = 0;
	open_store(f);
	check_seeks(f, false);
	assert_indexes(f, 1);
	assert_int_equal(cairn_index_step(f->db), 1);
	assert_int_equal(cairn_index_step(f->db), 0);
	assert_indexes(f, 2);
	check_seeks(f, true);
	close_store(f);
	assert_found_by_verify(f, NULL);
}

static void a_lost_index_is_made_anew(void **state)
{
	(void)state;
	struct fixture f;
	char path[64];
	enter(&f, 0);
	write_cascade(&f);
	close_store(&f);
	assert_true(sim_disk_remove(f.disk, an_index(&f, path)));
	check_spoilt(&f, path, "No such file");
	open_store(&f);
	leave(&f);
}

static void flip(struct fixture *f, const char *path, size_t at)
{
	size_t size;
	uint8_t *bytes = sim_disk_change(f->disk, path, &size);
	assert_non_null(bytes);
	assert_true(at < size);
	bytes[at] ^= 0x20;
}

static size_t size_of(struct fixture *f, const char *path)
{
	size_t size;
	assert_non_null(sim_disk_file(f->disk, path, &size));
	return size;
}

static void a_damaged_index_is_refused_and_made_anew(void **state)
{
	(void)state;
	struct fixture f;
	char path[64];
	enter(&f, 0);
	write_cascade(&f);
	close_store(&f);
	const size_t at[] = {0, 60, 127, SIZE_MAX};
	for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
		size_t last = size_of(&f, an_index(&f, path)) - 1;
		flip(&f, path, at[i] < last ? at[i] : last);
		check_spoilt(&f, path, "rebuilt");
	}
	open_store(&f);
	leave(&f);
}

/* Heads are looked at when they are needed; then the run is searched by its own tree. */
static void damaged_heads_are_not_used(void **state)
{
	(void)state;
	struct fixture f;
	char path[64];
	enter(&f, CAIRN_NO_POINT_INDEX);
	write_cascade(&f);
	close_store(&f);
	flip(&f, an_index(&f, path), 128 + 40);
	assert_found_by_verify(&f, path);
	open_store(&f);
	assert_int_equal(count_indexes(&f), 2);
	check_seeks(&f, false);
	leave(&f);
}

static void replace(struct fixture *f, const char *path, const struct fixture *from)
{
	size_t size;
	const uint8_t *bytes = sim_disk_file(from->disk, path, &size);
	assert_non_null(bytes);
	sim_disk_put(f->disk, path, bytes, size);
}

/* The store next door did the same: number and size are right. */
static void an_index_of_another_store_is_refused(void **state)
{
	(void)state;
	struct fixture f, other;
	char path[64];
	enter(&f, 0);
	write_cascade(&f);
	close_store(&f);
	other = f;
	other.disk = sim_disk_new(2);
	other.options.callback_context = &other;
	open_store(&other);
	write_cascade(&other);
	close_store(&other);
	replace(&f, an_index(&f, path), &other);
	check_spoilt(&f, path, "another store");
	open_store(&f);
	leave(&f);
	sim_disk_free(other.disk);
}

static void an_index_of_another_time_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	char path[64];
	size_t size;
	enter(&f, 0);
	write_cascade(&f);
	close_store(&f);
	const uint8_t *bytes = sim_disk_file(f.disk, an_index(&f, path), &size);
	uint8_t *old = malloc(size);
	assert_non_null(old);
	memcpy(old, bytes, size);
	open_store(&f);
	assert_int_equal(cairn_compact(f.db), 0);
	write_run(&f, 1, 4, true);
	write_run(&f, 3, 7, true);
	close_store(&f);
	sim_disk_put(f.disk, an_index(&f, path), old, size);
	check_spoilt(&f, path, path);
	free(old);
	open_store(&f);
	leave(&f);
}

/* ---------------------------------------------------------------- the whole store */

static void a_checkpoint_has_them(void **state)
{
	(void)state;
	struct fixture f;
	cairn *copy;
	enter(&f, 0);
	write_cascade(&f);
	assert_int_equal(cairn_checkpoint(f.db, COPY), 0);
	cairn *original = f.db;
	assert_int_equal(cairn_open_with(sim_disk_io(f.disk), COPY, &f.options, &copy), 0);
	f.db = copy;
	assert_int_equal(count_indexes(&f), 2);
	check_seeks(&f, true);
	assert_int_equal(cairn_close(copy), 0);
	f.db = original;
	leave(&f);
}

/* Every call of a flush fails in turn: the index is derived, and its failure is not the flush's. */
static bool fail_a_flush(uint64_t call, unsigned *without)
{
	struct fixture f;
	enter(&f, 0);
	write_run(&f, 0, 1, false);
	for (unsigned i = 1; i < KEYS; i += 4)
		put(&f, i);
	sim_disk_arm(f.disk, &(struct sim_fault){.call = call, .code = -EIO});
	int rc = cairn_flush(f.db);
	bool failed = sim_disk_faults(f.disk) > 0;
	sim_disk_arm(f.disk, &(struct sim_fault){0});
	if (rc == 0)
		*without += count_indexes(&f) == 0;
	check_answers(&f);
	(void)cairn_close(f.db);
	open_store(&f);
	check_answers(&f);
	assert_int_equal(cairn_wait(f.db), 0);
	check_answers(&f);
	close_store(&f);
	assert_found_by_verify(&f, NULL);
	open_store(&f);
	assert_indexes(&f, count_indexes(&f));
	leave(&f);
	return failed;
}

static void a_flush_does_without_an_index_that_fails(void **state)
{
	(void)state;
	unsigned without = 0;
	uint64_t call = 1;
	while (fail_a_flush(call, &without))
		call++;
	assert_true(without >= 4); /* create, write, sync, rename, open again … */
}

/* A step of the background that fails leaves nothing, and works the next time. */
static bool fail_a_step(uint64_t call)
{
	struct fixture f;
	char path[64];
	enter(&f, 0);
	write_cascade(&f);
	close_store(&f);
	assert_true(sim_disk_remove(f.disk, an_index(&f, path)));
	open_store(&f);
	sim_disk_arm(f.disk, &(struct sim_fault){.call = call, .code = -EIO});
	int rc = cairn_index_step(f.db);
	bool failed = sim_disk_faults(f.disk) > 0;
	sim_disk_arm(f.disk, &(struct sim_fault){0});
	assert_true(failed ? rc < 0 || rc == 1 : rc == 1);
	check_answers(&f);
	(void)cairn_close(f.db);
	open_store(&f);
	(void)cairn_index_step(f.db);
	assert_indexes(&f, 2);
	check_seeks(&f, true);
	leave(&f);
	return failed;
}

static void a_step_that_fails_is_done_later(void **state)
{
	(void)state;
	uint64_t call = 1;
	while (fail_a_step(call))
		call++;
	assert_true(call > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(flushes_make_indexes),
	    cmocka_unit_test(small_runs_have_none),
	    cmocka_unit_test(a_merge_into_the_anchor_makes_all_stale),
	    cmocka_unit_test(a_view_keeps_the_index_that_it_began_with),
	    cmocka_unit_test(a_lost_index_is_made_anew),
	    cmocka_unit_test(a_damaged_index_is_refused_and_made_anew),
	    cmocka_unit_test(damaged_heads_are_not_used),
	    cmocka_unit_test(an_index_of_another_store_is_refused),
	    cmocka_unit_test(an_index_of_another_time_is_refused),
	    cmocka_unit_test(a_checkpoint_has_them),
	    cmocka_unit_test(a_flush_does_without_an_index_that_fails),
	    cmocka_unit_test(a_step_that_fails_is_done_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
