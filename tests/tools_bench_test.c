/*
 * tests/tools_bench_test.c -- the instrument itself: answers that are wrong are caught by every
 * workload that reads, its keys and times are what they claim to be.
 *
 * The liar is cairn's engine with one lie planted into it.
 */
#include "tests/test.h"

#include <stdatomic.h>

#include "tools/bench/engine.h"
#include "tools/bench/histogram.h"
#include "tools/bench/keys.h"
#include "tools/bench/pass.h"
#include "tools/bench/workload.h"

#define RECORDS 2000u
#define LIE_AT  7 /* the seventh answer */

/* ---------------------------------------------------------------- the liar */

enum lie {
	TRUTH,
	OTHER_BYTE,  /* in a value */
	SHORT_VALUE, /* by a byte */
	MISSING,     /* what is there */
	INVENTED,    /* what is not there */
	UNWRITTEN,   /* puts from some on only say that they wrote */
	UNDELETED,   /* deletes, the same */
	UNANSWERED,  /* a key of many */
	OUT_OF_TURN, /* answers to many, exchanged */
	SKIP,        /* a record in a walk */
	REPEAT,      /* one */
	EARLY_END,   /* of a walk */
	NO_END,
	BEYOND, /* a seek finds the record behind the one looked for */
};

static struct {
	enum lie lie;
	atomic_int left; /* answers until the lie */
	uint8_t value[256];
} liar;

/* Whether this answer is the one to lie in. */
static bool lies(enum lie lie)
{
	return liar.lie == lie && atomic_fetch_sub(&liar.left, 1) == 1;
}

/* The same, and those behind it: a later write of the same record would mend a single one. */
static bool lies_from_now(enum lie lie)
{
	return liar.lie == lie && atomic_fetch_sub(&liar.left, 1) <= 1;
}

static void spoil(cairn_slice *value)
{
	if (lies(OTHER_BYTE)) {
		memcpy(liar.value, value->data, value->size);
		liar.value[value->size - 1] ^= 1;
		value->data = liar.value;
	} else if (lies(SHORT_VALUE)) {
		value->size--;
	}
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	int rc = cairn_bench_cairn.get(session, key, value);
	if (rc == 0)
		spoil(value);
	if (rc == 0 && lies(MISSING))
		return CAIRN_BENCH_ABSENT;
	if (rc == CAIRN_BENCH_ABSENT && lies(INVENTED)) {
		*value = (cairn_slice){liar.value, 1};
		return 0;
	}
	return rc;
}

struct passing {
	int (*each)(void *context, size_t i, int result, cairn_slice value);
	void *context;
};

static int pass_on(void *context, size_t i, int result, cairn_slice value)
{
	const struct passing *passing = context;
	if (result == 0)
		spoil(&value);
	if (result == 0 && lies(MISSING))
		result = CAIRN_BENCH_ABSENT;
	if (lies(UNANSWERED))
		return 0;
	return passing->each(passing->context, lies(OUT_OF_TURN) ? i ^ 1 : i, result, value);
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	struct passing passing = {each, context};
	return cairn_bench_cairn.get_many(session, keys, n, pass_on, &passing);
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	if (lies_from_now(UNWRITTEN))
		return 0;
	return cairn_bench_cairn.put(session, key, value, sync);
}

static int remove_record(void *session, cairn_slice key)
{
	return lies_from_now(UNDELETED) ? 0 : cairn_bench_cairn.remove(session, key);
}

static int move(void *cursor, int (*step)(void *cursor))
{
	if (lies(REPEAT))
		return 0;
	if (lies(EARLY_END))
		return CAIRN_BENCH_ABSENT;
	if (lies(SKIP))
		step(cursor);
	return step(cursor);
}

static int next(void *cursor)
{
	int rc = move(cursor, cairn_bench_cairn.next);
	return liar.lie == NO_END ? 0 : rc;
}

static int prev(void *cursor)
{
	int rc = move(cursor, cairn_bench_cairn.prev);
	return liar.lie == NO_END ? 0 : rc;
}

static int seek(void *cursor, cairn_slice key)
{
	int rc = cairn_bench_cairn.seek(cursor, key);
	return rc == 0 && lies(BEYOND) ? cairn_bench_cairn.next(cursor) : rc;
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	int rc = cairn_bench_cairn.record(cursor, key, value);
	if (rc == 0)
		spoil(value);
	return rc;
}

/* ---------------------------------------------------------------- lies are caught */

static int run(enum lie lie, const char *workloads, unsigned threads)
{
	struct bench_engine engine = cairn_bench_cairn;
	static struct bench_phase phases[CAIRN_BENCH_PHASES];
	char *directory = test_directory();
	char store[4200];
	snprintf(store, sizeof store, "%s/store", directory);
	struct bench_options options = {.records = RECORDS,
	    .key_size = 16,
	    .value_size = 100,
	    .threads = threads,
	    .seed = 1,
	    .cap = 0.3,
	    .directory = store};
	engine.get = get;
	engine.get_many = get_many;
	engine.put = put;
	engine.remove = remove_record;
	engine.next = next;
	engine.prev = prev;
	engine.seek = seek;
	engine.record = record;
	liar.lie = lie;
	atomic_store(&liar.left, LIE_AT);
	assert_true(cairn_bench_parse_workloads(&options, workloads));
	int rc = cairn_bench_pass(&engine, &options, phases);
	test_remove_directory(directory);
	return rc;
}

static void lie_is_caught(enum lie lie, const char *workload)
{
	char list[128];
	snprintf(list, sizeof list, "fillbatch,%s", workload);
	if (run(lie, list, 1) != CAIRN_BENCH_WRONG)
		fail_msg("lie %d was not caught by %s", (int)lie, workload);
}

static void the_truth_is_accepted(void **state)
{
	(void)state;
	char list[1024] = "fillseq,fillrandom,fillsync,fillbatch";
	const struct bench_workload *workload;
	for (size_t i = 0; (workload = cairn_bench_workload_at(i)); i++) {
		size_t size = strlen(list);
		if (!workload->fresh)
			snprintf(list + size, sizeof list - size, ",%s", workload->name);
	}
	assert_int_equal(run(TRUTH, list, 1), 0);
	assert_int_equal(run(TRUTH, list, 3), 0);
}

static void reads_after_deletes_and_new_writes_are_right(void **state)
{
	(void)state;
	assert_int_equal(run(TRUTH,
			     "fillbatch,deleterandom,readrandom,seekrandom,readseq,readreverse,"
			     "overwrite,compact,readrandom,seekheld,readseq,readwhilewriting,"
			     "deleterandom,deleterandom,deleterandom,readreverse",
			     1),
	    0);
}

static void lies_of_gets_are_caught(void **state)
{
	static const char *const workloads[] = {
	    "readrandom", "readheld", "multireadrandom", "readwhilewriting"};
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		lie_is_caught(OTHER_BYTE, workloads[i]);
		lie_is_caught(SHORT_VALUE, workloads[i]);
		lie_is_caught(MISSING, workloads[i]);
	}
	lie_is_caught(INVENTED, "readmissing");
	lie_is_caught(UNANSWERED, "multireadrandom");
	lie_is_caught(OUT_OF_TURN, "multireadrandom");
}

static void lies_of_writes_are_caught_by_reads(void **state)
{
	static const char *const after[] = {"readrandom", "readheld", "multireadrandom",
	    "seekrandom", "seekheld", "readseq", "readreverse"};
	char list[64];
	(void)state;
	for (size_t i = 0; i < 7; i++) {
		snprintf(list, sizeof list, "overwrite,%s", after[i]);
		lie_is_caught(UNWRITTEN, list);
		snprintf(list, sizeof list, "deleterandom,%s", after[i]);
		lie_is_caught(UNDELETED, list);
	}
	lie_is_caught(UNWRITTEN, "readwhilewriting");
}

static void lies_of_walks_are_caught(void **state)
{
	static const char *const workloads[] = {"seekrandom", "seekheld", "readseq", "readreverse"};
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		lie_is_caught(OTHER_BYTE, workloads[i]);
		lie_is_caught(SHORT_VALUE, workloads[i]);
		lie_is_caught(SKIP, workloads[i]);
		lie_is_caught(REPEAT, workloads[i]);
		lie_is_caught(EARLY_END, workloads[i]);
		lie_is_caught(NO_END, workloads[i]);
	}
	lie_is_caught(BEYOND, "seekrandom");
	lie_is_caught(BEYOND, "seekheld");
}

/* ---------------------------------------------------------------- keys */

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, 8);
}

static void keys_are_distinct_and_the_order_is_theirs(void **state)
{
	static const size_t sizes[] = {8, 11, 16, 40};
	char last[CAIRN_BENCH_KEY_MOST], key[CAIRN_BENCH_KEY_MOST];
	(void)state;
	for (size_t s = 0; s < 4; s++) {
		struct bench_keys keys;
		cairn_bench_keys_init(&keys, 42, RECORDS, sizes[s], 10);
		const uint32_t *order = cairn_bench_order(&keys);
		for (uint32_t i = 0; i < RECORDS; i++) {
			cairn_bench_key(&keys, order[i], key);
			assert_true(i == 0 || memcmp(last, key, sizes[s]) < 0);
			memcpy(last, key, sizes[s]);
		}
		cairn_bench_keys_release(&keys);
	}
}

static void keys_that_were_never_written_are_others(void **state)
{
	static char all[2 * RECORDS][8];
	struct bench_keys keys;
	(void)state;
	cairn_bench_keys_init(&keys, 7, RECORDS, 8, 10);
	for (uint32_t i = 0; i < 2 * RECORDS; i++)
		cairn_bench_key(&keys, i, all[i]);
	qsort(all, 2 * RECORDS, sizeof *all, by_bytes);
	for (uint32_t i = 1; i < 2 * RECORDS; i++)
		assert_true(memcmp(all[i - 1], all[i], 8) < 0);
	cairn_bench_keys_release(&keys);
}

static void values_differ_by_record_and_version_and_are_half_noise(void **state)
{
	uint8_t a[100], b[100];
	struct bench_keys keys;
	(void)state;
	cairn_bench_keys_init(&keys, 7, RECORDS, 16, sizeof a);
	cairn_bench_value(&keys, 5, 1, a);
	cairn_bench_value(&keys, 5, 2, b);
	assert_memory_not_equal(a, b, 50);
	cairn_bench_value(&keys, 6, 1, b);
	assert_memory_not_equal(a, b, 50);
	cairn_bench_value(&keys, 5, 1, b);
	assert_memory_equal(a, b, sizeof a);
	for (size_t i = 51; i < sizeof a; i++)
		assert_int_equal(a[i], a[50]);
	cairn_bench_keys_release(&keys);
}

/* ---------------------------------------------------------------- times */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void percentiles_are_those_of_the_sorted_times(void **state)
{
	static const double parts[] = {0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
	enum { COUNT = 20000 };
	static uint64_t times[COUNT];
	static struct bench_histogram histogram;
	uint64_t random = test_seed(3);
	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		times[i] = test_random(&random) >> (24 + test_random(&random) % 40);
		cairn_bench_histogram_add(&histogram, times[i]);
	}
	qsort(times, COUNT, sizeof *times, ascending);
	for (size_t i = 0; i < 7; i++) {
		uint64_t exact = times[(size_t)(parts[i] * COUNT) - 1];
		uint64_t told = cairn_bench_histogram_at(&histogram, parts[i]);
		assert_true(told >= exact);
		assert_true((double)told <= (double)exact * (1 + 1.0 / 32));
	}
	assert_int_equal(cairn_bench_histogram_at(&histogram, 1), times[COUNT - 1]);
}

static void no_times_have_no_percentiles(void **state)
{
	static struct bench_histogram histogram;
	(void)state;
	assert_int_equal(cairn_bench_histogram_at(&histogram, 0.5), 0);
}

static void times_beyond_the_last_bucket_are_counted(void **state)
{
	static struct bench_histogram histogram;
	(void)state;
	cairn_bench_histogram_add(&histogram, UINT64_MAX);
	assert_int_equal(histogram.count, 1);
	assert_int_equal(histogram.max, UINT64_MAX);
	assert_int_equal(
	    cairn_bench_histogram_at(&histogram, 0.5), (UINT64_C(1) << CAIRN_BENCH_TIME_BITS) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_truth_is_accepted),
	    cmocka_unit_test(reads_after_deletes_and_new_writes_are_right),
	    cmocka_unit_test(lies_of_gets_are_caught),
	    cmocka_unit_test(lies_of_writes_are_caught_by_reads),
	    cmocka_unit_test(lies_of_walks_are_caught),
	    cmocka_unit_test(keys_are_distinct_and_the_order_is_theirs),
	    cmocka_unit_test(keys_that_were_never_written_are_others),
	    cmocka_unit_test(values_differ_by_record_and_version_and_are_half_noise),
	    cmocka_unit_test(percentiles_are_those_of_the_sorted_times),
	    cmocka_unit_test(no_times_have_no_percentiles),
	    cmocka_unit_test(times_beyond_the_last_bucket_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
