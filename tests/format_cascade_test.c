/*
 * Tests of format/cascade, and of how runs are read from the blocks that it finds. The oracle is a
 * binary search over all whole keys of each run (run_set.h).
 *
 * Two claims are looked at apart. The search finds the right block or one to its right. And
 * whatever block a cursor or a lookup is told to begin at, its answer is right.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>

#include "format/bytes.h"
#include "format/cascade.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/rank.h"
#include "tests/alloc_fault.h"
#include "tests/run_set.h"

#define FEW_BLOCKS 24u /* that every search can be begun at each of */

/* Searches that differ in which newer runs have an index. */
enum cover { ALL, SOME, NONE, COVERS };

struct bench {
	struct run_set set;
	struct cairn_fraction *index[RUN_SET_RUNS_MAX];
	bool wide; /* an index has a window that nobody searches */
	struct cairn_cascade *cascade[COVERS];
	bool unindexed[COVERS];
	struct cairn_cursor *cursor[RUN_SET_RUNS_MAX];
	struct run_set_queries queries;
	/* By the search in all runs with all indexes, for each query and run. */
	struct cairn_run_aim *found;
};

static const char *hex(cairn_slice key)
{
	static char text[2 * 80 + 4];
	const uint8_t *bytes = key.data;
	size_t size = key.size < 80 ? key.size : 80;
	text[0] = 0;
	for (size_t i = 0; i < size; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	snprintf(text + 2 * size, 4, "%s", size < key.size ? "..." : "");
	return text;
}

/* Ends the case with what is to be known. */
#define CHECK(claim, bench, r, q)                                                       \
	do {                                                                            \
		if (!(claim))                                                           \
			fail_msg("%s: run %u, key %s (%zu bytes): %s; last: %s",        \
			    (bench)->set.name, (unsigned)(r), hex(q), (q).size, #claim, \
			    cairn_error_text());                                        \
	} while (0)

/* ---------------------------------------------------------------- making */

static const struct run_set_run *anchor_of(const struct run_set *set)
{
	return &set->run[set->count - 1];
}

static int note_wide(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	(void)cell;
	bool *wide = context;
	*wide |= to - from > CAIRN_FRACTION_WINDOW_MAX;
	return 0;
}

/* NULL where there is none to be. */
static struct cairn_fraction *build_index(struct run_set *set, unsigned r)
{
	struct cairn_run_reader *run = set->run[r].reader, *anchor = anchor_of(set)->reader;
	struct cairn_fraction_file file;
	struct cairn_fraction *index;
	char path[32];
	snprintf(path, sizeof path, "/%06u.ix", 100 + r);
	int code = cairn_fraction_build(set->io, path, &set->identity, 100 + r, run, anchor, &file);
	if (code == CAIRN_NOT_FOUND)
		return NULL;
	assert_int_equal(code, 0);
	assert_int_equal(
	    cairn_fraction_open(set->io, path, &file, &set->identity, run, anchor, &index), 0);
	return index;
}

static struct cairn_cascade *make_cascade(
    const struct bench *bench, enum cover cover, bool *unindexed)
{
	struct cairn_run_reader *runs[RUN_SET_RUNS_MAX];
	const struct cairn_fraction *indexes[RUN_SET_RUNS_MAX] = {NULL};
	struct cairn_cascade *cascade;
	*unindexed = false;
	for (unsigned r = 0; r < bench->set.count; r++) {
		runs[r] = bench->set.run[r].reader;
		if (cover == ALL || (cover == SOME && r % 2 == 0))
			indexes[r] = bench->index[r];
		*unindexed |= r + 1 < bench->set.count && !indexes[r];
	}
	assert_int_equal(cairn_cascade_new(runs, indexes, bench->set.count, &cascade), 0);
	return cascade;
}

static void make_bench(
    struct bench *bench, const struct run_set_spec *spec, size_t most, uint64_t *random)
{
	*bench = (struct bench){0};
	run_set_make(&bench->set, spec, test_random(random));
	for (unsigned r = 0; r + 1 < bench->set.count; r++) {
		bench->index[r] = build_index(&bench->set, r);
		if (bench->index[r])
			assert_int_equal(
			    cairn_fraction_windows(bench->index[r], note_wide, &bench->wide), 0);
	}
	for (enum cover cover = ALL; cover < COVERS; cover++)
		bench->cascade[cover] = make_cascade(bench, cover, &bench->unindexed[cover]);
	for (unsigned r = 0; r < bench->set.count; r++)
		assert_int_equal(cairn_run_cursor_open(bench->set.run[r].reader,
				     CAIRN_ADVISE_RANDOM, &bench->cursor[r]),
		    0);
	bench->queries = run_set_queries(&bench->set, most, random);
	bench->found = calloc(bench->queries.count * bench->set.count, sizeof *bench->found);
	assert_non_null(bench->found);
}

static void free_bench(struct bench *bench)
{
	for (enum cover cover = ALL; cover < COVERS; cover++)
		cairn_cascade_free(bench->cascade[cover]);
	for (unsigned r = 0; r < bench->set.count; r++) {
		cairn_cursor_close(bench->cursor[r]);
		cairn_fraction_close(bench->index[r]);
	}
	run_set_free_queries(&bench->queries);
	free(bench->found);
	run_set_free(&bench->set);
}

static const struct run_set_spec *spec_named(const char *name)
{
	const struct run_set_spec *spec = run_set_specs;
	while (strcmp(spec->name, name) != 0)
		spec++;
	return spec;
}

/* ---------------------------------------------------------------- the claims */

/* The cursor stands on that record, and knows the one in front of it. */
static void check_stands(struct bench *bench, unsigned r, cairn_slice key, size_t want)
{
	const struct run_set_run *run = &bench->set.run[r];
	struct cairn_cursor *cursor = bench->cursor[r];
	struct cairn_record record;
	CHECK(cairn_cursor_record(cursor, &record) == 0, bench, r, key);
	CHECK(run_set_is_record(run, want, &record), bench, r, key);
	if (want == 0) {
		CHECK(cairn_cursor_prev(cursor) == CAIRN_END, bench, r, key);
	} else {
		CHECK(cairn_cursor_prev(cursor) == 0, bench, r, key);
		CHECK(cairn_key_equal(cursor->key, run->key[want - 1]), bench, r, key);
	}
}

/* A search that begins at `aim`, by cursor and by lookup, answers as the oracle. */
static void check_from(struct bench *bench, unsigned r, cairn_slice key, struct cairn_run_aim aim)
{
	const struct run_set_run *run = &bench->set.run[r];
	struct cairn_cursor *cursor = bench->cursor[r];
	struct cairn_record record;
	size_t want = run_set_lower_bound(run, key);
	bool there = want < run->count && cairn_key_equal(run->key[want], key);

	cairn_run_cursor_aim(cursor, aim);
	int code = cairn_cursor_seek(cursor, key);
	CHECK(code == (want < run->count ? 0 : CAIRN_END), bench, r, key);
	CHECK(cursor->valid == (code == 0), bench, r, key);
	if (code == 0)
		check_stands(bench, r, key, want);

	uint64_t hash = cairn_key_hash(key, bench->set.identity.hash_seed);
	code = cairn_run_get_from(run->reader, key, hash, aim, &record);
	CHECK(code == (there ? 0 : CAIRN_NOT_FOUND), bench, r, key);
	CHECK(!there || run_set_is_record(run, want, &record), bench, r, key);
}

/* The right block, or one to its right. */
static void check_aims(const struct bench *bench, cairn_slice key, const struct cairn_run_aim *aims)
{
	for (unsigned r = 0; r < bench->set.count; r++) {
		const struct run_set_run *run = &bench->set.run[r];
		CHECK(aims[r].block < run->blocks, bench, r, key);
		CHECK(aims[r].block >= run_set_block(run, key), bench, r, key);
		CHECK(aims[r].offset == run->offset[aims[r].block], bench, r, key);
	}
}

static void check_how(const struct bench *bench, enum cover cover, cairn_slice key, unsigned how)
{
	bool unindexed = how & CAIRN_CASCADE_UNINDEXED, wide = how & CAIRN_CASCADE_WIDE;
	CHECK((how & ~(CAIRN_CASCADE_UNINDEXED | CAIRN_CASCADE_WIDE)) == 0, bench, cover, key);
	CHECK(unindexed == bench->unindexed[cover], bench, cover, key);
	CHECK(!wide || (bench->wide && cover != NONE), bench, cover, key);
}

/* One search in both ways of counting, which find the same. */
static void check_find(struct bench *bench, enum cover cover, cairn_slice key,
    struct cairn_run_aim *aims, unsigned *how)
{
	struct cairn_run_aim again[RUN_SET_RUNS_MAX];
	unsigned again_how;
	size_t size = bench->set.count * sizeof *aims;
	memset(aims, 0xff, size);
	memset(again, 0xff, size);
	CHECK(cairn_cascade_find(bench->cascade[cover], key, aims, how) == 0, bench, 0, key);
	cairn_rank_portable_only = true;
	CHECK(
	    cairn_cascade_find(bench->cascade[cover], key, again, &again_how) == 0, bench, 0, key);
	cairn_rank_portable_only = false;
	CHECK(memcmp(aims, again, size) == 0 && again_how == *how, bench, 0, key);
	check_aims(bench, key, aims);
	check_how(bench, cover, key, *how);
}

/* Every search, with an index for all newer runs that get one, for some, for none. */
static void check_searches(struct bench *bench)
{
	struct cairn_run_aim other[RUN_SET_RUNS_MAX];
	unsigned how;
	for (size_t i = 0; i < bench->queries.count; i++) {
		cairn_slice key = bench->queries.key[i];
		struct cairn_run_aim *found = &bench->found[i * bench->set.count];
		check_find(bench, ALL, key, found, &how);
		check_find(bench, SOME, key, other, &how);
		check_find(bench, NONE, key, other, &how);
		for (unsigned r = 0; r < bench->set.count; r++)
			check_from(bench, r, key, found[r]);
	}
}

/* 1 to 16 keys at once, in no order: each finds what it finds alone. */
static void check_batches(struct bench *bench, uint64_t *random)
{
	cairn_slice keys[CAIRN_CASCADE_KEYS_MAX];
	struct cairn_run_aim aims[CAIRN_CASCADE_KEYS_MAX * RUN_SET_RUNS_MAX];
	size_t picked[CAIRN_CASCADE_KEYS_MAX], count = bench->set.count;
	for (size_t i = 0; i < bench->queries.count; i++) {
		size_t many = 1 + i % CAIRN_CASCADE_KEYS_MAX;
		for (size_t k = 0; k < many; k++) {
			picked[k] = k ? test_random(random) % bench->queries.count : i;
			keys[k] = bench->queries.key[picked[k]];
		}
		memset(aims, 0xff, sizeof aims);
		cairn_rank_portable_only = i % 4 == 0;
		assert_int_equal(cairn_cascade_find_many(bench->cascade[ALL], keys, many, aims), 0);
		for (size_t k = 0; k < many; k++)
			CHECK(memcmp(&aims[k * count], &bench->found[picked[k] * count],
				  count * sizeof *aims) == 0,
			    bench, k, keys[k]);
		/* And nothing behind them. */
		if (many < CAIRN_CASCADE_KEYS_MAX)
			assert_true(aims[many * count].block == UINT64_MAX);
	}
	cairn_rank_portable_only = false;
}

static struct cairn_run_aim aim_at(const struct run_set_run *run, size_t block)
{
	return (struct cairn_run_aim){block, run->offset[block]};
}

/* Without trust in the block: every one of few, else the ends and some others. */
static void check_any_block(struct bench *bench, uint64_t *random)
{
	for (size_t i = 0; i < bench->queries.count; i += 3) {
		cairn_slice key = bench->queries.key[i];
		for (unsigned r = 0; r < bench->set.count; r++) {
			const struct run_set_run *run = &bench->set.run[r];
			bool few = run->blocks <= FEW_BLOCKS && i % 2 == 0;
			for (size_t n = 0; n < (few ? run->blocks : 1); n++)
				check_from(bench, r, key,
				    aim_at(run, few ? n : test_random(random) % run->blocks));
			if (i % 5 == 0) {
				check_from(bench, r, key, aim_at(run, 0));
				check_from(bench, r, key, aim_at(run, run->blocks - 1));
			}
		}
	}
}

static void search_agrees_with_the_oracle(void **state)
{
	(void)state;
	uint64_t random = test_seed(1);
	for (const struct run_set_spec *spec = run_set_specs; spec->name; spec++) {
		struct bench bench;
		make_bench(&bench, spec, test_full() ? 1000000 : 4000, &random);
		check_searches(&bench);
		check_batches(&bench, &random);
		check_any_block(&bench, &random);
		free_bench(&bench);
	}
}

/* ---------------------------------------------------------------- flags */

static void search_tells_when_a_window_is_too_wide(void **state)
{
	(void)state;
	uint64_t random = test_seed(2);
	struct cairn_run_aim aims[RUN_SET_RUNS_MAX];
	unsigned how;
	struct bench bench;
	make_bench(&bench, spec_named("some beyond"), 1000, &random);
	assert_true(bench.index[0] && bench.index[1] && bench.wide);
	const struct run_set_run *newest = &bench.set.run[0];
	cairn_slice far = newest->key[newest->count - 2];
	assert_int_equal(cairn_cascade_find(bench.cascade[ALL], far, aims, &how), 0);
	assert_int_equal(how, CAIRN_CASCADE_WIDE);
	assert_int_equal(cairn_cascade_find(bench.cascade[SOME], far, aims, &how), 0);
	assert_int_equal(how, CAIRN_CASCADE_WIDE | CAIRN_CASCADE_UNINDEXED);
	assert_int_equal(cairn_cascade_find(bench.cascade[NONE], far, aims, &how), 0);
	assert_int_equal(how, CAIRN_CASCADE_UNINDEXED);
	cairn_slice near = newest->key[newest->count / 3];
	assert_int_equal(cairn_cascade_find(bench.cascade[ALL], near, aims, &how), 0);
	assert_int_equal(how, 0);
	free_bench(&bench);
}

static void one_run_needs_no_index(void **state)
{
	(void)state;
	uint64_t random = test_seed(3);
	struct cairn_run_aim aim;
	unsigned how = 7;
	struct bench bench;
	make_bench(&bench, spec_named("alone"), 1000, &random);
	assert_int_equal(
	    cairn_cascade_find(bench.cascade[NONE], bench.queries.key[0], &aim, &how), 0);
	assert_int_equal(how, 0);
	free_bench(&bench);
}

/* Where heads do not tie, no search is sent too far to the right. */
static void heads_that_differ_lead_to_the_very_block(void **state)
{
	(void)state;
	uint64_t random = test_seed(9);
	struct bench bench;
	make_bench(&bench, spec_named("ascending"), 100000, &random);
	check_searches(&bench);
	for (size_t i = 0; i < bench.queries.count; i++) {
		cairn_slice key = bench.queries.key[i];
		const struct cairn_run_aim *aims = &bench.found[i * bench.set.count];
		for (unsigned r = 0; r < bench.set.count; r++)
			CHECK(
			    aims[r].block == run_set_block(&bench.set.run[r], key), &bench, r, key);
	}
	free_bench(&bench);
}

static void memory_is_counted(void **state)
{
	(void)state;
	uint64_t random = test_seed(4);
	struct bench bench;
	make_bench(&bench, spec_named("structured"), 100, &random);
	size_t all = cairn_cascade_bytes(bench.cascade[ALL]);
	size_t none = cairn_cascade_bytes(bench.cascade[NONE]);
	/* For two followers a line for each 16 cells, a cell being 16 blocks at least. */
	size_t lines = (anchor_of(&bench.set)->blocks + 255) / 256;
	assert_true(none > 0 && all > none && all <= none + 2 * 64 * lines + 128);
	free_bench(&bench);
}

/* ---------------------------------------------------------------- damage */

static void flip(struct run_set *set, const char *path, uint64_t offset)
{
	size_t size;
	uint8_t *bytes = sim_disk_change(set->disk, path, &size);
	assert_true(bytes && offset < size);
	bytes[offset] ^= 1;
}

/* A cascade over the runs as they are on the disk now; files opened anew. */
static void reopen(struct run_set *set)
{
	for (unsigned r = 0; r < set->count; r++) {
		cairn_run_close(set->run[r].reader);
		assert_int_equal(
		    cairn_run_open(set->io, set->run[r].path, NULL, &set->run[r].reader), 0);
	}
}

static void check_damaged_seek_section(unsigned r, uint64_t seed)
{
	struct run_set set;
	struct cairn_run_reader *runs[RUN_SET_RUNS_MAX];
	const struct cairn_fraction *none[RUN_SET_RUNS_MAX] = {NULL};
	struct cairn_cascade *cascade;
	struct cairn_run_aim aims[2 * RUN_SET_RUNS_MAX];
	unsigned how;
	run_set_make(&set, spec_named("structured"), seed);
	const struct cairn_run_extent *seek =
	    cairn_run_footer_extent(cairn_run_footer(set.run[r].reader), CAIRN_SECTION_SEEK);
	uint64_t offset = seek->offset + 200;
	cairn_run_close(set.run[r].reader);
	flip(&set, set.run[r].path, offset);
	assert_int_equal(cairn_run_open(set.io, set.run[r].path, NULL, &set.run[r].reader), 0);
	for (unsigned i = 0; i < set.count; i++)
		runs[i] = set.run[i].reader;
	assert_int_equal(cairn_cascade_new(runs, none, set.count, &cascade), 0);
	cairn_slice keys[2] = {set.run[0].key[0], set.run[1].key[1]};
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(cairn_cascade_find(cascade, keys[i], aims, &how), CAIRN_CORRUPT);
		assert_non_null(strstr(cairn_error_text(), set.run[r].path));
		assert_int_equal(cairn_cascade_find_many(cascade, keys, 2, aims), CAIRN_CORRUPT);
	}
	cairn_cascade_free(cascade);
	run_set_free(&set);
}

static void damaged_seek_section_is_a_failure(void **state)
{
	(void)state;
	uint64_t seed = test_seed(5);
	for (unsigned r = 0; r < 3; r++)
		check_damaged_seek_section(r, seed);
}

static void mend_index(struct run_set *set, const char *path, uint64_t blocks)
{
	size_t size;
	uint8_t *bytes = sim_disk_change(set->disk, path, &size);
	assert_non_null(bytes);
	uint8_t *words = bytes + CAIRN_FRACTION_HEADER_SIZE;
	cairn_put32(
	    bytes + 116, cairn_checksum(words, (size_t)cairn_fraction_words_size(blocks), 0));
	cairn_put32(bytes + 124, cairn_checksum(bytes, 124, 0));
}

/*
 * Words are not verified when an index is opened, but before they are used: by their checksum, and
 * whether they name the blocks that the run has.
 */
static void check_damaged_index(bool mended, uint64_t *random)
{
	struct bench bench;
	make_bench(&bench, spec_named("structured"), 3000, random);
	struct run_set_run *run = &bench.set.run[1];
	cairn_cascade_free(bench.cascade[ALL]);
	cairn_fraction_close(bench.index[1]);
	flip(&bench.set, "/000101.ix", CAIRN_FRACTION_HEADER_SIZE + (mended ? 8 : 7));
	if (mended)
		mend_index(&bench.set, "/000101.ix", run->blocks);
	assert_int_equal(cairn_fraction_open(bench.set.io, "/000101.ix", NULL, &bench.set.identity,
			     run->reader, anchor_of(&bench.set)->reader, &bench.index[1]),
	    0);
	bench.cascade[ALL] = make_cascade(&bench, ALL, &bench.unindexed[ALL]);
	bench.unindexed[ALL] = true;
	check_searches(&bench);
	check_batches(&bench, random);
	free_bench(&bench);
}

static void damaged_index_is_done_without(void **state)
{
	(void)state;
	uint64_t random = test_seed(6);
	check_damaged_index(false, &random);
	check_damaged_index(true, &random);
}

/* ---------------------------------------------------------------- memory and threads */

static void failed_allocation_leaves_nothing(void **state)
{
	(void)state;
	uint64_t random = test_seed(7);
	struct bench bench;
	make_bench(&bench, spec_named("deep"), 100, &random);
	struct cairn_run_reader *runs[RUN_SET_RUNS_MAX];
	const struct cairn_fraction *indexes[RUN_SET_RUNS_MAX] = {NULL};
	for (unsigned r = 0; r < bench.set.count; r++) {
		runs[r] = bench.set.run[r].reader;
		indexes[r] = bench.index[r];
	}
	unsigned failures = 0;
	int64_t live = alloc_live();
	for (int code = -ENOMEM; code != 0; failures++) {
		struct cairn_cascade *cascade = (struct cairn_cascade *)1;
		alloc_fault_arm(failures + 1, false);
		code = cairn_cascade_new(runs, indexes, bench.set.count, &cascade);
		uint64_t faults = alloc_faults();
		alloc_fault_disarm();
		assert_int_equal(code, faults ? -ENOMEM : 0);
		assert_int_equal(cascade == NULL, code != 0);
		cairn_cascade_free(cascade);
		assert_true(alloc_live() == live);
	}
	assert_true(failures > 2);
	cairn_cascade_free(NULL);
	free_bench(&bench);
}

struct share {
	const struct bench *bench;
	struct cairn_cascade *cascade;
	size_t start;
	size_t wrong;
};

static void *search_all(void *context)
{
	struct share *share = context;
	const struct bench *bench = share->bench;
	size_t count = bench->set.count;
	for (size_t i = 0; i < bench->queries.count; i++) {
		size_t q = (i + share->start) % bench->queries.count;
		struct cairn_run_aim aims[RUN_SET_RUNS_MAX];
		unsigned how;
		if (cairn_cascade_find(share->cascade, bench->queries.key[q], aims, &how) != 0 ||
		    memcmp(aims, &bench->found[q * count], count * sizeof *aims) != 0)
			share->wrong++;
	}
	return NULL;
}

static void threads_may_search_first_at_once(void **state)
{
	(void)state;
	uint64_t random = test_seed(8);
	struct bench bench;
	bool unindexed;
	make_bench(&bench, spec_named("structured"), 3000, &random);
	check_searches(&bench);
	for (unsigned r = 0; r < bench.set.count; r++)
		cairn_cursor_close(bench.cursor[r]);
	reopen(&bench.set);
	struct cairn_cascade *fresh = make_cascade(&bench, ALL, &unindexed);
	pthread_t threads[4];
	struct share shares[4];
	for (unsigned i = 0; i < 4; i++) {
		shares[i] = (struct share){&bench, fresh, i * 1000u, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, search_all, &shares[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(shares[i].wrong, 0);
	}
	cairn_cascade_free(fresh);
	for (unsigned r = 0; r < bench.set.count; r++)
		assert_int_equal(cairn_run_cursor_open(bench.set.run[r].reader, CAIRN_ADVISE_RANDOM,
				     &bench.cursor[r]),
		    0);
	free_bench(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(search_agrees_with_the_oracle),
	    cmocka_unit_test(search_tells_when_a_window_is_too_wide),
	    cmocka_unit_test(one_run_needs_no_index),
	    cmocka_unit_test(heads_that_differ_lead_to_the_very_block),
	    cmocka_unit_test(memory_is_counted),
	    cmocka_unit_test(damaged_seek_section_is_a_failure),
	    cmocka_unit_test(damaged_index_is_done_without),
	    cmocka_unit_test(failed_allocation_leaves_nothing),
	    cmocka_unit_test(threads_may_search_first_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
