/*
 * tests/scenario_s14_big_log_test.c -- S14: a big log, and a user who does not wait for its replay.
 *
 * A store with a full memtable, all of it in the log, is killed. Copies of it are opened, and
 * killed in that before one of the calls that the opening makes of the disk, drawn at random: kills
 * are spread over what an open does, however fast the machine is. The next open has to do no more
 * than the first one would have had, and to find everything; the store does not grow.
 *
 * The memtable has 16 MiB, and 1 GiB at full size. Time and memory are printed. With
 * CAIRN_TEST_TIMES and at full size the goal of 3 seconds per GiB is asserted as well, for a quiet
 * machine.
 */
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "store/io_posix.h"
#include "store/store.h"
#include "tests/kill.h"

#define VALUE_SIZE      200u
#define KILLS           10u
/* A child that works on a GiB may take so long, on a machine with other work. */
#define SECONDS         1200u
#define SECONDS_FOR_GIB 3.0

/* What a child that opens a store tells. */
struct report {
	_Atomic uint64_t records; /* that the store was given */
	_Atomic uint64_t calls;   /* of the disk, during the open */
	uint64_t kill_before;     /* this one; 0: none */
	unsigned reports;         /* of progress */
	uint64_t replayed;        /* bytes, by the last one */
	uint64_t nanoseconds;
	uint64_t memory; /* most that was resident, less what was before */
};

struct scenario {
	uint64_t random;
	size_t memtable_bytes;
	cairn_options options;
	char *base;        /* directory of all copies */
	char killed[4200]; /* the store as the killed process left it */
	char copy[4200];
	uint64_t killed_size;
	struct report *report;
};

static struct report *told; /* the child's; for the calls below */
static struct cairn_io_ops ops;

/* ---------------------------------------------------------------- records */

/* Every number once, in no order. */
static cairn_slice make_key(char buffer[24], uint64_t number)
{
	int size = snprintf(
	    buffer, 24, "%016llx", (unsigned long long)(number * UINT64_C(0x9e3779b97f4a7c15)));
	return (cairn_slice){buffer, (size_t)size};
}

static cairn_slice make_value(uint64_t buffer[VALUE_SIZE / 8], uint64_t number)
{
	uint64_t random = number;
	for (size_t i = 0; i < VALUE_SIZE / 8; i++)
		buffer[i] = test_random(&random);
	return (cairn_slice){buffer, VALUE_SIZE};
}

/* Until the table is all but full; then the process is killed. */
static int fill(void *context)
{
	const struct scenario *scenario = context;
	cairn_options options = scenario->options;
	cairn_stats stats = {.memtable_bytes = 0};
	uint64_t value[VALUE_SIZE / 8];
	char key[24];
	cairn *db;
	alarm(SECONDS);
	options.no_background = 1;
	options.sync_mode = CAIRN_SYNC_NONE;
	CHILD_CHECK(cairn_open(scenario->killed, &options, &db) == 0);
	while (stats.memtable_bytes < scenario->memtable_bytes / 100 * 98) {
		for (int i = 0; i < 500; i++) {
			uint64_t number = atomic_load(&scenario->report->records);
			CHILD_CHECK(cairn_put(db, make_key(key, number), make_value(value, number),
					0) == 0);
			atomic_store(&scenario->report->records, number + 1);
		}
		CHILD_CHECK(cairn_stat(db, &stats) == 0);
	}
	CHILD_CHECK(stats.run_count == 0);
	raise(SIGKILL);
	return 1;
}

static int check_records(cairn *db, uint64_t count)
{
	uint64_t value[VALUE_SIZE / 8], found[VALUE_SIZE / 8], seen = 0;
	char key[24];
	for (uint64_t number = 0; number < count; number++) {
		size_t size;
		CHILD_CHECK(cairn_get(db, make_key(key, number), found, sizeof found, &size) == 0);
		cairn_slice expected = make_value(value, number);
		CHILD_CHECK(size == expected.size && memcmp(found, expected.data, size) == 0);
	}
	cairn_view *view;
	cairn_iter *iter;
	CHILD_CHECK(cairn_view_open(db, &view) == 0 && cairn_iter_open(view, NULL, &iter) == 0);
	for (int rc = cairn_iter_first(iter); rc == 0; rc = cairn_iter_next(iter))
		seen++;
	CHILD_CHECK(cairn_iter_status(iter) >= 0 && seen == count);
	cairn_iter_close(iter);
	return cairn_view_close(view);
}

/* ---------------------------------------------------------------- calls of the disk */

static atomic_bool opening; /* behind it nobody is counted or killed any more */

static void count_call(void)
{
	if (atomic_load(&opening) && atomic_fetch_add(&told->calls, 1) + 1 == told->kill_before)
		raise(SIGKILL);
}

static int counted_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	count_call();
	return cairn_io_posix_ops.read(file, data, size, offset, done);
}

static int counted_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	count_call();
	return cairn_io_posix_ops.write(file, data, size, offset);
}

static int counted_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	count_call();
	return cairn_io_posix_ops.queue_submit(queue, request);
}

static int counted_sync(struct cairn_file *file)
{
	count_call();
	return cairn_io_posix_ops.sync(file);
}

static int counted_rename(struct cairn_io *io, const char *from, const char *to)
{
	count_call();
	return cairn_io_posix_ops.rename(io, from, to);
}

static int counted_unlink(struct cairn_io *io, const char *path)
{
	count_call();
	return cairn_io_posix_ops.unlink(io, path);
}

static int counted_sync_directory(struct cairn_io *io, const char *path)
{
	count_call();
	return cairn_io_posix_ops.sync_directory(io, path);
}

static void count_calls(void)
{
	ops = cairn_io_posix_ops;
	ops.read = counted_read;
	ops.write = counted_write;
	ops.queue_submit = counted_submit;
	ops.sync = counted_sync;
	ops.rename = counted_rename;
	ops.unlink = counted_unlink;
	ops.sync_directory = counted_sync_directory;
}

/* ---------------------------------------------------------------- opens */

static void see_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	if (strcmp(what, "replay") != 0)
		return;
	told->reports++;
	told->replayed = total > done ? total : done;
}

static uint64_t resident_most(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

/* Opens the copy, tells, and checks what is in it. */
static int open_copy(void *context)
{
	const struct scenario *scenario = context;
	cairn_options options = scenario->options;
	uint64_t resident = resident_most();
	struct cairn_io *io;
	cairn *db;
	alarm(SECONDS);
	told = scenario->report;
	told->reports = 0;
	atomic_store(&told->calls, 0);
	options.progress = see_progress;
	count_calls();
	CHILD_CHECK(cairn_io_posix_open(&io) == 0);
	io->ops = &ops;
	uint64_t begin = io->ops->now(io);
	atomic_store(&opening, true);
	CHILD_CHECK(cairn_open_with(io, scenario->copy, &options, &db) == 0);
	told->nanoseconds = io->ops->now(io) - begin;
	atomic_store(&opening, false);
	told->memory = resident_most() - resident;
	CHILD_CHECK(check_records(db, atomic_load(&told->records)) == 0);
	CHILD_CHECK(cairn_close(db) == 0);
	cairn_io_posix_close(io);
	return 0;
}

static uint64_t size_of(const char *path)
{
	DIR *directory = opendir(path);
	uint64_t size = 0;
	assert_non_null(directory);
	for (struct dirent *entry; (entry = readdir(directory));) {
		struct stat found;
		assert_int_equal(
		    fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW), 0);
		size += S_ISREG(found.st_mode) ? (uint64_t)found.st_size : 0;
	}
	closedir(directory);
	return size;
}

static void remove_copy(const struct scenario *scenario)
{
	char command[8800];
	snprintf(command, sizeof command, "rm -rf -- '%s'", scenario->copy);
	assert_int_equal(system(command), 0);
}

static void make_copy(const struct scenario *scenario)
{
	char command[8800];
	remove_copy(scenario);
	snprintf(command, sizeof command, "cp -R -- '%s' '%s'", scenario->killed, scenario->copy);
	assert_int_equal(system(command), 0);
}

static void open_whole(struct scenario *scenario)
{
	scenario->report->kill_before = 0;
	run_in_child(open_copy, scenario);
}

/* An open that is killed before one of its first `calls` calls. */
static void open_and_kill(struct scenario *scenario, uint64_t calls)
{
	scenario->report->kill_before = 1 + test_random(&scenario->random) % calls;
	int status = child_end(child_start(open_copy, scenario));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---------------------------------------------------------------- the scenario */

static int set_up(void **state)
{
	static struct scenario scenario;
	scenario = (struct scenario){.random = test_seed(14), .base = test_directory()};
	scenario.memtable_bytes = (size_t)(test_full() ? 1024 : 16) << 20;
	cairn_options_init(&scenario.options);
	scenario.options.memtable_bytes = scenario.memtable_bytes;
	scenario.options.memory_limit = 2 * scenario.memtable_bytes;
	snprintf(scenario.killed, sizeof scenario.killed, "%s/killed", scenario.base);
	snprintf(scenario.copy, sizeof scenario.copy, "%s/copy", scenario.base);
	scenario.report = kill_share(sizeof *scenario.report);
	int status = child_end(child_start(fill, &scenario));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	scenario.killed_size = size_of(scenario.killed);
	printf("%llu records in a store of %llu MiB\n",
	    (unsigned long long)atomic_load(&scenario.report->records),
	    (unsigned long long)scenario.killed_size >> 20);
	*state = &scenario;
	return 0;
}

static int tear_down(void **state)
{
	struct scenario *scenario = *state;
	munmap(scenario->report, sizeof *scenario->report);
	test_remove_directory(scenario->base);
	return 0;
}

static void a_full_log_is_replayed_with_progress(void **state)
{
	struct scenario *scenario = *state;
	const struct report *report = scenario->report;
	make_copy(scenario);
	open_whole(scenario);
	double gib = (double)report->replayed / (1 << 30);
	double seconds = (double)report->nanoseconds / 1e9;
	printf("opened in %.2f s, %.2f s per GiB of log; %llu MiB resident, with a limit of %llu; "
	       "%u reports of progress\n",
	    seconds, seconds / gib, (unsigned long long)report->memory >> 20,
	    (unsigned long long)scenario->options.memory_limit >> 20, report->reports);
	assert_true(report->reports > 0 && report->replayed > 0);
	assert_true(size_of(scenario->copy) <= scenario->killed_size / 10 * 12);
	if (test_full() && getenv("CAIRN_TEST_TIMES"))
		assert_true(seconds / gib <= SECONDS_FOR_GIB);
}

/* What a whole open of a copy costs: calls of the disk, bytes replayed, bytes in the end. */
struct cost {
	uint64_t calls, replayed, size;
};

static struct cost find_cost(struct scenario *scenario)
{
	make_copy(scenario);
	open_whole(scenario);
	return (struct cost){atomic_load(&scenario->report->calls), scenario->report->replayed,
	    size_of(scenario->copy)};
}

static void check_cost(struct scenario *scenario, const struct cost *cost)
{
	open_whole(scenario);
	assert_true(scenario->report->replayed <= cost->replayed);
	assert_true(size_of(scenario->copy) <= cost->size / 10 * 12);
}

static void an_open_that_was_killed_costs_the_next_one_nothing(void **state)
{
	struct scenario *scenario = *state;
	struct cost cost = find_cost(scenario);
	for (unsigned i = 0; i < KILLS; i++) {
		make_copy(scenario);
		open_and_kill(scenario, cost.calls);
		check_cost(scenario, &cost);
	}
}

/* What one leaves half written, the next one takes away before it begins. */
static void opens_that_are_killed_again_and_again_do_not_fill_the_disk(void **state)
{
	struct scenario *scenario = *state;
	struct cost cost = find_cost(scenario);
	uint64_t most = 0;
	make_copy(scenario);
	for (unsigned i = 0; i < KILLS; i++) {
		/* Before the run is published: a later open would be done sooner. */
		open_and_kill(scenario, cost.calls / 2);
		uint64_t size = size_of(scenario->copy);
		most = size > most ? size : most;
	}
	printf("%llu calls, at most %llu MiB after a kill\n", (unsigned long long)cost.calls,
	    (unsigned long long)most >> 20);
	/* The log and one run of what is in it. */
	assert_true(most <= scenario->killed_size / 10 * 22);
	check_cost(scenario, &cost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_full_log_is_replayed_with_progress),
	    cmocka_unit_test(an_open_that_was_killed_costs_the_next_one_nothing),
	    cmocka_unit_test(opens_that_are_killed_again_and_again_do_not_fill_the_disk),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
