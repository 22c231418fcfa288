/*
 * tests/compaction_job_test.c -- jobs over real files. The oracle is a table: for every key and
 * every run, what the run says of it. Failures come from a disk that can be told to fail.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>

#include "compaction/job.h"
#include "compaction/merge.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/run_reader.h"
#include "store/io_posix.h"

#define RUNS 4
#define KEYS 2000

enum said {
	NOTHING, /* must be 0 */
	PUT,
	DELETED,
};

static const struct cairn_identity identity = {
    .store_id = "not any store's", .hash_seed = UINT64_C(0x5eed)};

static struct cairn_io *io;
static struct cairn_io_ops
    failing; /* the operations of `io`: those of POSIX but for what a test changes */
static char *directory;
static char output[4200];

/* What the failing operations do next. */
static struct {
	int writes_left; /* then -ENOSPC; -1 = no limit */
	int sync_code;
	bool damage; /* a sync changes a byte of what it made durable */
	int creates;
} disk;

static enum said said[RUNS][KEYS]; /* run 0 is the newest */
static size_t value_step;          /* sizes of values are multiples of it, up to 198 */
static struct cairn_run_reader *run[RUNS];

/* ---- The disk ---- */

static int fail_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	if (disk.writes_left == 0)
		return cairn_error(-ENOSPC, "the disk is full");
	disk.writes_left -= disk.writes_left > 0;
	return cairn_io_posix_ops.queue_submit(queue, request);
}

static int fail_sync(struct cairn_file *file)
{
	if (disk.damage) {
		uint8_t byte;
		assert_int_equal(cairn_io_read_exactly(file, &byte, 1, 300), 0);
		byte ^= 1;
		assert_int_equal(file->io->ops->write(file, &byte, 1, 300), 0);
	}
	return disk.sync_code ? cairn_error(disk.sync_code, "sync failed")
			      : cairn_io_posix_ops.sync(file);
}

static int count_open(
    struct cairn_io *at, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	disk.creates += mode == CAIRN_OPEN_CREATE;
	return cairn_io_posix_ops.open(at, path, mode, file);
}

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(cairn_io_posix_open(&io), 0);
	failing = cairn_io_posix_ops;
	failing.queue_submit = fail_submit;
	failing.sync = fail_sync;
	failing.open = count_open;
	io->ops = &failing;
	memset(&disk, 0, sizeof disk);
	disk.writes_left = -1;
	directory = test_directory();
	snprintf(output, sizeof output, "%s/000100.tmp", directory);
	memset(said, 0, sizeof said);
	value_step = 3;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < RUNS; i++) {
		cairn_run_close(run[i]);
		run[i] = NULL;
	}
	cairn_io_posix_close(io);
	test_remove_directory(directory);
	return 0;
}

static size_t files_in_directory(void)
{
	size_t count = 0;
	DIR *dir = opendir(directory);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* ---- Runs ---- */

struct text {
	char key[16];
	char value[10000];
};

/* What run `number` says of a key: the value tells the run, and has a size of its own. */
static struct cairn_record record_of(struct text *text, int number, int key, enum said what)
{
	snprintf(text->key, sizeof text->key, "key%07d", key * 7);
	memset(text->value, 'a' + number, sizeof text->value);
	struct cairn_record record = {
	    .key = cairn_slice_of(text->key, strlen(text->key)),
	    .value =
		cairn_slice_of(text->value, what == PUT ? (size_t)(key % 199) * value_step : 0),
	    .kind = what == PUT ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE,
	};
	record.checksum = cairn_record_checksum(
	    cairn_key_hash(record.key, identity.hash_seed), record.kind, record.value);
	return record;
}

static void run_path(int number, char *path)
{
	snprintf(path, 4200, "%s/%06d.kv", directory, number + 1);
}

static void write_run(int number)
{
	char path[4200];
	run_path(number, path);
	struct cairn_run_spec spec = {.identity = identity,
	    .number = (uint64_t)number + 1,
	    .format = CAIRN_KV02,
	    .kinds = true};
	struct cairn_run_writer *writer;
	assert_int_equal(cairn_run_writer_open(io, path, &spec, &writer), 0);
	for (int key = 0; key < KEYS; key++) {
		if (said[number][key] == NOTHING)
			continue;
		struct text text;
		struct cairn_record record = record_of(&text, number, key, said[number][key]);
		assert_int_equal(cairn_run_writer_add(writer, &record), 0);
	}
	struct cairn_run_footer footer;
	uint64_t size;
	assert_int_equal(cairn_run_writer_finish(writer, 1, 9, &footer, &size), 0);
}

static void open_run(int number)
{
	char path[4200];
	run_path(number, path);
	assert_int_equal(cairn_run_open(io, path, NULL, &run[number]), 0);
}

/* Fills all runs: `deletes` of ten records are tombstones. */
static void random_runs(uint64_t *seed, uint64_t deletes)
{
	for (int i = 0; i < RUNS; i++) {
		for (int key = 0; key < KEYS; key++)
			if (test_random(seed) % 3 == 0)
				said[i][key] = test_random(seed) % 10 < deletes ? DELETED : PUT;
		write_run(i);
		open_run(i);
	}
	disk.creates = 0;
}

/* A cursor over runs newest … oldest. */
static struct cairn_cursor *merge_runs(int newest, int oldest)
{
	struct cairn_cursor *cursors[RUNS], *merged;
	size_t count = 0;
	for (int i = newest; i <= oldest; i++)
		assert_int_equal(
		    cairn_run_cursor_open(run[i], CAIRN_ADVISE_SEQUENTIAL, &cursors[count++]), 0);
	assert_int_equal(cairn_merge_open(cursors, count, &merged), 0);
	return merged;
}

static struct cairn_job_spec spec_of(int newest, int oldest)
{
	return (struct cairn_job_spec){
	    .io = io,
	    .path = output,
	    .run = {.identity = identity, .number = 100, .format = CAIRN_KV02},
	    .input = merge_runs(newest, oldest),
	    .tombstones = true,
	    .oldest = oldest == RUNS - 1,
	    .sequence_low = 17,
	    .sequence_high = 99,
	};
}

static int run_job(struct cairn_job *job, uint64_t budget)
{
	int code;
	while ((code = cairn_job_step(job, budget)) == 0)
		;
	return code;
}

/* ---- The oracle ---- */

/* Whether a run older than `oldest` has the key at all. */
static bool is_below(int oldest, int key)
{
	for (int i = oldest + 1; i < RUNS; i++)
		if (said[i][key] != NOTHING)
			return true;
	return false;
}

/* Which run's record of the key the output of a merge must have, -1 = none. `exact`: it asked what
 * is below. */
static int wanted(int newest, int oldest, int key, bool exact)
{
	for (int i = newest; i <= oldest; i++) {
		if (said[i][key] == PUT)
			return i;
		if (said[i][key] == DELETED) {
			bool drop = oldest == RUNS - 1 || (exact && !is_below(oldest, key));
			return drop ? -1 : i;
		}
	}
	return -1;
}

/* The output file has exactly what is wanted. Returns the number of its records. */
static uint64_t assert_output(
    int newest, int oldest, bool exact, const struct cairn_job_result *result)
{
	struct cairn_run_expect expect = {.identity = identity,
	    .number = 100,
	    .size = result->size,
	    .footer_checksum = result->footer.checksum};
	struct cairn_run_reader *reader;
	struct cairn_cursor *cursor;
	assert_int_equal(cairn_run_open(io, output, &expect, &reader), 0);
	assert_int_equal(cairn_run_cursor_open(reader, CAIRN_ADVISE_SEQUENTIAL, &cursor), 0);
	int code = cairn_cursor_first(cursor);
	uint64_t records = 0;
	for (int key = 0; key < KEYS; key++) {
		int from = wanted(newest, oldest, key, exact);
		if (from < 0)
			continue;
		struct text text;
		struct cairn_record want = record_of(&text, from, key, said[from][key]), got;
		assert_int_equal(code, 0);
		assert_int_equal(cairn_cursor_record(cursor, &got), 0);
		assert_true(cairn_key_equal(got.key, want.key));
		assert_true(cairn_key_equal(got.value, want.value));
		assert_int_equal(got.kind, want.kind);
		assert_int_equal(got.checksum, want.checksum);
		records++;
		code = cairn_cursor_next(cursor);
	}
	assert_int_equal(code, CAIRN_END);
	cairn_cursor_close(cursor);
	assert_int_equal(cairn_run_footer(reader)->records, records);
	assert_int_equal(cairn_run_footer(reader)->sequence_low, 17);
	assert_int_equal(cairn_run_footer(reader)->sequence_high, 99);
	cairn_run_close(reader);
	return records;
}

/* ---- Tests ---- */

static void merging_everything_leaves_the_newest_puts(void **state)
{
	(void)state;
	uint64_t seed = test_seed(1);
	random_runs(&seed, 4);
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), CAIRN_END);
	const struct cairn_job_result *result = cairn_job_result(job);
	assert_false(result->empty);
	assert_output(0, RUNS - 1, false, result);
	assert_int_equal(result->footer.tombstones, 0);
	assert_int_equal(result->footer.flags & CAIRN_RUN_KINDS, 0);
	assert_true(result->records_dropped > 0);
	assert_int_equal(cairn_job_written(job), result->size);
	cairn_job_close(job);
	assert_int_equal(files_in_directory(), RUNS + 1);
}

static void tombstones_stay_while_older_runs_may_hold_the_key(void **state)
{
	(void)state;
	uint64_t seed = test_seed(2);
	random_runs(&seed, 4);
	struct cairn_job_spec spec = spec_of(0, 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), CAIRN_END);
	const struct cairn_job_result *result = cairn_job_result(job);
	assert_output(0, 1, false, result);
	assert_true(result->footer.tombstones > 0);
	assert_int_equal(result->records_dropped, 0);
	cairn_job_close(job);
}

static int number_of(cairn_slice key)
{
	char text[16] = {0};
	memcpy(text, key.data, key.size);
	return atoi(text + 3) / 7;
}

static bool ask_older(void *context, cairn_slice key)
{
	return is_below(*(int *)context, number_of(key));
}

static void tombstones_go_where_no_older_run_has_the_key(void **state)
{
	(void)state;
	uint64_t seed = test_seed(3);
	random_runs(&seed, 4);
	int oldest = 2;
	struct cairn_job_spec spec = spec_of(1, oldest);
	spec.older_may_hold = ask_older;
	spec.context = &oldest;
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), CAIRN_END);
	const struct cairn_job_result *result = cairn_job_result(job);
	assert_output(1, oldest, true, result);
	assert_true(result->records_dropped > 0);
	assert_true(result->footer.tombstones > 0);
	cairn_job_close(job);
}

static void an_empty_output_never_is_a_file(void **state)
{
	(void)state;
	uint64_t seed = test_seed(4);
	random_runs(&seed, 10);
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), CAIRN_END);
	assert_true(cairn_job_result(job)->empty);
	assert_true(cairn_job_result(job)->records_dropped > KEYS / 2);
	assert_int_equal(cairn_job_result(job)->size, 0);
	assert_int_equal(cairn_job_step(job, 1), CAIRN_END);
	cairn_job_close(job);
	assert_int_equal(disk.creates, 0);
	assert_int_equal(files_in_directory(), RUNS);
}

static void an_empty_input_never_is_a_file(void **state)
{
	(void)state;
	struct cairn_job_spec spec = {.io = io, .path = output};
	assert_int_equal(cairn_merge_open(NULL, 0, &spec.input), 0);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(cairn_job_step(job, 1000), CAIRN_END);
	assert_true(cairn_job_result(job)->empty);
	cairn_job_close(job);
	assert_int_equal(disk.creates, 0);
}

static void a_step_writes_about_its_budget(void **state)
{
	(void)state;
	uint64_t seed = test_seed(5);
	random_runs(&seed, 4);
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	uint64_t budget = 4096, last = 0;
	int steps = 0;
	/* The last two steps, which write sections and verify, are not copying. */
	while (cairn_job_step(job, budget) == 0) {
		uint64_t written = cairn_job_written(job);
		assert_true(written >= last && written <= last + budget + 4096);
		last = written;
		steps++;
	}
	assert_true(steps > (int)(cairn_job_result(job)->size / budget / 2));
	assert_output(0, RUNS - 1, false, cairn_job_result(job));
	cairn_job_close(job);
}

static void a_step_ends_also_when_all_is_dropped(void **state)
{
	(void)state;
	uint64_t seed = test_seed(6);
	random_runs(&seed, 10);
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	int steps = 1;
	while (cairn_job_step(job, 160) == 0)
		steps++;
	assert_true(steps > KEYS / 2 / 11);
	assert_true(cairn_job_result(job)->empty);
	cairn_job_close(job);
}

static void a_budget_of_nothing_still_gets_on(void **state)
{
	(void)state;
	uint64_t seed = test_seed(7);
	random_runs(&seed, 4);
	struct cairn_job_spec spec = spec_of(0, 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 0), CAIRN_END);
	assert_output(0, 1, false, cairn_job_result(job));
	cairn_job_close(job);
}

static void a_job_given_up_leaves_nothing(void **state)
{
	(void)state;
	uint64_t seed = test_seed(8);
	random_runs(&seed, 4);
	int steps_whole = 0;
	for (int stop = 0;; stop++) {
		struct cairn_job_spec spec = spec_of(0, 1);
		struct cairn_job *job;
		assert_int_equal(cairn_job_open(&spec, &job), 0);
		int code = 0;
		for (steps_whole = 0; steps_whole < stop && code == 0; steps_whole++)
			code = cairn_job_step(job, 1 << 16);
		cairn_job_close(job);
		assert_int_equal(files_in_directory(), RUNS + (code == CAIRN_END));
		if (code == CAIRN_END)
			break;
	}
	assert_true(steps_whole >= 4);
	cairn_job_close(NULL);
}

/* Changes the first byte of `pattern` in a run's file. */
static void damage_run(int number, const char *pattern)
{
	char path[4200];
	run_path(number, path);
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	static char bytes[1 << 20];
	size_t size = fread(bytes, 1, sizeof bytes, file);
	char *found = memmem(bytes, size, pattern, strlen(pattern));
	assert_non_null(found);
	assert_int_equal(fseek(file, found - bytes, SEEK_SET), 0);
	assert_int_equal(fputc('#', file), '#');
	assert_int_equal(fclose(file), 0);
}

static void a_damaged_record_is_not_copied(void **state)
{
	(void)state;
	for (int key = 0; key < KEYS; key++)
		said[3][key] = PUT;
	said[2][5] = PUT;
	write_run(2);
	write_run(3);
	/* In the first value of 150 bytes or more. */
	char pattern[151] = {0};
	memset(pattern, 'a' + 3, 150);
	damage_run(3, pattern);
	open_run(2);
	open_run(3);
	struct cairn_job_spec spec = spec_of(2, 3);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1000), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), "000004.kv"));
	assert_int_equal(files_in_directory(), 2);
	assert_int_equal(cairn_job_step(job, 1000), CAIRN_CORRUPT);
	cairn_job_close(job);
	assert_int_equal(files_in_directory(), 2);
}

static void an_output_damaged_on_its_way_is_not_believed(void **state)
{
	(void)state;
	uint64_t seed = test_seed(9);
	random_runs(&seed, 4);
	disk.damage = true;
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), CAIRN_CORRUPT);
	assert_int_equal(files_in_directory(), RUNS);
	cairn_job_close(job);
}

static void a_full_disk_gets_its_room_back(void **state)
{
	(void)state;
	uint64_t seed = test_seed(10);
	value_step = 50; /* some MiB: a write takes two of them */
	random_runs(&seed, 4);
	int code = 0, writes = 0;
	for (; code != CAIRN_END; writes++) {
		disk.writes_left = writes;
		struct cairn_job_spec spec = spec_of(0, RUNS - 1);
		struct cairn_job *job;
		assert_int_equal(cairn_job_open(&spec, &job), 0);
		code = run_job(job, 1 << 12);
		assert_true(code == -ENOSPC || code == CAIRN_END);
		/* Before the job is closed. */
		assert_int_equal(files_in_directory(), RUNS + (code == CAIRN_END));
		cairn_job_close(job);
	}
	assert_true(writes > 2); /* so one failed in the middle of the output */
}

static void a_failed_sync_leaves_no_file(void **state)
{
	(void)state;
	uint64_t seed = test_seed(11);
	random_runs(&seed, 4);
	disk.sync_code = -EIO;
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), -EIO);
	assert_int_equal(cairn_job_step(job, 1), -EIO);
	cairn_job_close(job);
	assert_int_equal(files_in_directory(), RUNS);
}

static void a_file_that_is_in_the_way_is_not_touched(void **state)
{
	(void)state;
	uint64_t seed = test_seed(12);
	random_runs(&seed, 4);
	FILE *file = fopen(output, "wb");
	assert_non_null(file);
	fclose(file);
	struct cairn_job_spec spec = spec_of(0, RUNS - 1);
	struct cairn_job *job;
	assert_int_equal(cairn_job_open(&spec, &job), 0);
	assert_int_equal(run_job(job, 1 << 20), -EEXIST);
	cairn_job_close(job);
	assert_int_equal(files_in_directory(), RUNS + 1);
}

#define JOB_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    JOB_TEST(merging_everything_leaves_the_newest_puts),
	    JOB_TEST(tombstones_stay_while_older_runs_may_hold_the_key),
	    JOB_TEST(tombstones_go_where_no_older_run_has_the_key),
	    JOB_TEST(an_empty_output_never_is_a_file),
	    JOB_TEST(an_empty_input_never_is_a_file),
	    JOB_TEST(a_step_writes_about_its_budget),
	    JOB_TEST(a_step_ends_also_when_all_is_dropped),
	    JOB_TEST(a_budget_of_nothing_still_gets_on),
	    JOB_TEST(a_job_given_up_leaves_nothing),
	    JOB_TEST(a_damaged_record_is_not_copied),
	    JOB_TEST(an_output_damaged_on_its_way_is_not_believed),
	    JOB_TEST(a_full_disk_gets_its_room_back),
	    JOB_TEST(a_failed_sync_leaves_no_file),
	    JOB_TEST(a_file_that_is_in_the_way_is_not_touched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
