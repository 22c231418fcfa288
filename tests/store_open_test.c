/*
 * tests/store_open_test.c -- what cairn.h says of opening: options, locks, forks, and directories
 * in which something is missing, newer or damaged.
 *
 * Bytes are changed at the places that the format names, and checksums made right again, so that
 * only what is meant is wrong.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "store/cairn.h"
#include "tests/match.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A directory and the place of a store in it, which is not made yet. */
struct fixture {
	char *directory;
	char path[4200];
};

static cairn_slice text(const char *string)
{
	return (cairn_slice){string, strlen(string)};
}

static int enter(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	assert_non_null(fixture);
	fixture->directory = test_directory();
	snprintf(fixture->path, sizeof fixture->path, "%s/store", fixture->directory);
	*state = fixture;
	return 0;
}

static int leave(void **state)
{
	struct fixture *fixture = *state;
	test_remove_directory(fixture->directory);
	free(fixture);
	return 0;
}

static cairn_options quiet(void)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	return options;
}

static cairn_options reading(void)
{
	cairn_options options = quiet();
	options.read_only = 1;
	return options;
}

static void assert_says(const char *part)
{
	if (!strstr(cairn_message(NULL), part))
		fail_msg("\"%s\" is not in \"%s\"", part, cairn_message(NULL));
}

static cairn *open_store(const char *path)
{
	cairn_options options = quiet();
	cairn *db;
	int rc = cairn_open(path, &options, &db);
	if (rc)
		fail_msg("%s: %d: %s", path, rc, cairn_message(NULL));
	return db;
}

/* Opening fails with `code` and a message that has all of `parts`, separated by '|'. */
static void assert_refused(
    const char *path, const cairn_options *options, int code, const char *parts)
{
	cairn *db = (cairn *)&db;
	char part[256];
	int rc = cairn_open(path, options, &db);
	if (rc != code)
		fail_msg("%s: answered %d, not %d: %s", path, rc, code, cairn_message(NULL));
	assert_null(db);
	while (*parts) {
		size_t size = strcspn(parts, "|");
		snprintf(part, sizeof part, "%.*s", (int)size, parts);
		assert_says(part);
		parts += size + (parts[size] == '|');
	}
}

static void put(cairn *db, const char *key, const char *value)
{
	assert_int_equal(cairn_put(db, text(key), text(value), 0), 0);
}

static bool holds(cairn *db, const char *key, const char *value)
{
	char found[64];
	size_t size;
	return cairn_get(db, text(key), found, sizeof found, &size) == 0 && size == strlen(value) &&
	       memcmp(found, value, size) == 0;
}

static bool is_there(const char *path)
{
	struct stat status;
	return lstat(path, &status) == 0;
}

/* A store with "a" in a run and "b" in the log, closed. */
static void make_store(const char *path)
{
	cairn *db = open_store(path);
	put(db, "a", "1");
	assert_int_equal(cairn_flush(db), 0);
	put(db, "b", "2");
	assert_int_equal(cairn_close(db), 0);
}

/* ---------------------------------------------------------------- options */

static void zero_is_the_default(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options;
	memset(&options, 0x55, sizeof options);
	cairn_options_init(&options);
	assert_int_equal(options.struct_size, sizeof options);
	for (size_t i = sizeof options.struct_size; i < sizeof options; i++)
		assert_int_equal(((const unsigned char *)&options)[i], 0);
	cairn *db;
	cairn_stats stats;
	assert_int_equal(cairn_open(fixture->path, NULL, &db), 0);
	assert_int_equal(cairn_stat(db, &stats), 0);
	assert_int_equal(stats.sync_mode, CAIRN_SYNC_INTERVAL);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_open(fixture->path, &options, &db), 0);
	assert_int_equal(cairn_close(db), 0);
}

static void what_is_not_built_is_refused_by_name(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = quiet();
	char parts[64];
	snprintf(parts, sizeof parts, "run_format|3|%s", cairn_version());
	options.run_format = CAIRN_KV03;
	assert_refused(fixture->path, &options, CAIRN_UNSUPPORTED, parts);
	options = quiet();
	options.compression = CAIRN_LZ4;
	assert_refused(fixture->path, &options, CAIRN_UNSUPPORTED, "compression|2");
	options = quiet();
	options.segment_bytes = 1u << 20;
	assert_refused(fixture->path, &options, CAIRN_UNSUPPORTED, "segment_bytes|1048576");
	assert_false(is_there(fixture->path));
}

static void what_no_version_has_is_invalid(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = quiet();
	options.run_format = 9;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "run_format|9");
	options = quiet();
	options.compression = -1;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "compression|-1");
	options = quiet();
	options.point_index = 3;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "point_index|3");
	options = quiet();
	options.sync_mode = 3;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "sync_mode|3");
	options.sync_mode = -1;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "sync_mode|-1");
	options = quiet();
	options.io_backend = 3;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "io_backend|3");
	options = quiet();
	options.memtable_bytes = ((size_t)8 << 30) + 1;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "memtable_bytes|8589934593");
	options = quiet();
	options.must_exist = options.must_not_exist = 1;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "must_exist|must_not_exist");
	options = reading();
	options.must_not_exist = 1;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "read_only|must_not_exist");
	options = quiet();
	options.struct_size = 0;
	assert_refused(fixture->path, &options, CAIRN_INVALID, "struct_size");
	assert_false(is_there(fixture->path));
}

/* A program that was built with an older header has a shorter struct, and other things behind it.
 */
static void options_are_read_no_further_than_they_say(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = quiet();
	cairn *db;
	options.must_not_exist = 1;
	options.sync_mode = 77;
	options.run_format = 77;
	options.struct_size = offsetof(cairn_options, sync_mode);
	assert_int_equal(cairn_open(fixture->path, &options, &db), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_refused(fixture->path, &options, -EEXIST, "store");
}

static void choices_are_stored_with_the_store(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = quiet();
	cairn_stats stats;
	cairn *db;
	options.run_format = CAIRN_KV02;
	options.compression = CAIRN_NO_COMPRESSION;
	options.point_index = CAIRN_NO_POINT_INDEX;
	options.sync_mode = CAIRN_SYNC_FULL;
	assert_int_equal(cairn_open(fixture->path, &options, &db), 0);
	put(db, "a", "1");
	assert_int_equal(cairn_flush(db), 0);
	assert_int_equal(cairn_stat(db, &stats), 0);
	assert_int_equal(stats.sync_mode, CAIRN_SYNC_FULL);
	assert_int_equal(cairn_close(db), 0);
	/* The sync mode is a choice of the handle. */
	db = open_store(fixture->path);
	assert_int_equal(cairn_stat(db, &stats), 0);
	assert_int_equal(stats.sync_mode, CAIRN_SYNC_INTERVAL);
	assert_int_equal(stats.runs[0].format, CAIRN_KV02);
	assert_int_equal(cairn_close(db), 0);
}

/* ---------------------------------------------------------------- to be or not to be */

static void a_store_is_made_only_when_it_may_be(void **state)
{
	struct fixture *fixture = *state;
	cairn_options must = quiet(), must_not = quiet(), read_only = reading();
	must.must_exist = 1;
	must_not.must_not_exist = 1;
	for (int round = 0; round < 2; round++) { /* no directory, an empty directory */
		assert_refused(fixture->path, &must, -ENOENT, fixture->path);
		assert_refused(fixture->path, &read_only, -ENOENT, fixture->path);
		if (round == 0) {
			assert_false(is_there(fixture->path));
			assert_int_equal(mkdir(fixture->path, 0777), 0);
		}
	}
	cairn *db;
	assert_int_equal(cairn_open(fixture->path, &must_not, &db), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_refused(fixture->path, &must_not, -EEXIST, fixture->path);
	assert_int_equal(cairn_open(fixture->path, &must, &db), 0);
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(cairn_open(fixture->path, &read_only, &db), 0);
	assert_int_equal(cairn_close(db), 0);
}

static void a_path_that_cannot_be_is_refused(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = quiet();
	char path[4300];
	assert_refused(NULL, &options, CAIRN_INVALID, "path");
	assert_refused("", &options, CAIRN_INVALID, "path");
	assert_int_equal(cairn_open(fixture->path, &options, NULL), CAIRN_INVALID);
	assert_false(is_there(fixture->path));
	snprintf(path, sizeof path, "%s/nowhere/store", fixture->directory);
	assert_refused(path, &options, -ENOENT, path);
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fclose(file);
	assert_refused(fixture->path, &options, -ENOTDIR, fixture->path);
	snprintf(path, sizeof path, "%s/below", fixture->path);
	assert_refused(path, &options, -ENOTDIR, path);
}

static void what_is_not_ours_is_left_alone(void **state)
{
	struct fixture *fixture = *state;
	static const char *names[] = {
	    "notes.txt", "1.kv", "MANIFEST.bak", "000001.wal.gz", "x.tmp"};
	char path[4300];
	assert_int_equal(mkdir(fixture->path, 0777), 0);
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(path, sizeof path, "%s/%s", fixture->path, names[i]);
		FILE *file = fopen(path, "w");
		assert_non_null(file);
		fputs("mine", file);
		fclose(file);
	}
	make_store(fixture->path);
	make_store(fixture->path);
	for (size_t i = 0; i < COUNT(names); i++) {
		struct stat status;
		snprintf(path, sizeof path, "%s/%s", fixture->path, names[i]);
		assert_int_equal(stat(path, &status), 0);
		assert_int_equal(status.st_size, 4);
	}
}

/* ---------------------------------------------------------------- reading only */

static int sum_entry(const char *path, uint64_t *sum)
{
	struct stat status;
	if (lstat(path, &status))
		return -errno;
	const uint64_t parts[] = {(uint64_t)status.st_ino, (uint64_t)status.st_size,
	    (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec,
	    (uint64_t)status.st_ctim.tv_nsec, (uint64_t)status.st_nlink};
	for (size_t i = 0; i < COUNT(parts); i++)
		*sum += parts[i] * (2 * i + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return 0;
}

/* Changes when a file of the directory is made, removed or written to. */
static uint64_t directory_sum(const char *path)
{
	uint64_t sum = 0;
	DIR *directory = opendir(path);
	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory));) {
		char name[4500];
		snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		if (strcmp(entry->d_name, ".."))
			assert_int_equal(sum_entry(name, &sum), 0);
	}
	closedir(directory);
	return sum;
}

static void a_read_only_handle_changes_nothing(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = reading();
	cairn_batch *batch = cairn_batch_new();
	cairn_stats stats;
	cairn *db;
	char copy[4300];
	assert_non_null(batch);
	make_store(fixture->path);
	uint64_t before = directory_sum(fixture->path);
	assert_int_equal(cairn_open(fixture->path, &options, &db), 0);
	assert_int_equal(cairn_batch_put(batch, text("k"), text("v")), 0);
	snprintf(copy, sizeof copy, "%s/copy", fixture->directory);
	assert_int_equal(cairn_put(db, text("k"), text("v"), 0), CAIRN_READ_ONLY);
	assert_non_null(strstr(cairn_message(db), fixture->path));
	assert_int_equal(cairn_delete(db, text("a"), CAIRN_SYNC), CAIRN_READ_ONLY);
	assert_int_equal(cairn_write(db, batch, 0), CAIRN_READ_ONLY);
	assert_int_equal(cairn_sync(db), CAIRN_READ_ONLY);
	assert_int_equal(cairn_flush(db), CAIRN_READ_ONLY);
	assert_int_equal(cairn_compact(db), CAIRN_READ_ONLY);
	assert_int_equal(cairn_wait(db), CAIRN_READ_ONLY);
	assert_int_equal(cairn_checkpoint(db, copy), CAIRN_READ_ONLY);
	assert_false(is_there(copy));
	assert_true(holds(db, "a", "1") && holds(db, "b", "2"));
	assert_int_equal(cairn_stat(db, &stats), 0);
	assert_int_equal(stats.run_count, 1);
	assert_true(match_verify(fixture->path));
	assert_int_equal(cairn_close(db), 0);
	assert_true(directory_sum(fixture->path) == before);
	cairn_batch_free(batch);
}

static void a_read_only_handle_stays_where_it_was(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = reading();
	cairn *db = open_store(fixture->path), *readers[3];
	static const char *values[] = {"0", "1", "2"};
	for (size_t i = 0; i < COUNT(readers); i++) {
		put(db, "k", values[i]);
		if (i == 1)
			assert_int_equal(cairn_flush(db), 0);
		assert_int_equal(cairn_open(fixture->path, &options, &readers[i]), 0);
	}
	put(db, "k", "3");
	assert_int_equal(cairn_compact(db), 0);
	assert_int_equal(cairn_close(db), 0);
	db = open_store(fixture->path);
	assert_true(holds(db, "k", "3"));
	for (size_t i = 0; i < COUNT(readers); i++) {
		assert_true(holds(readers[i], "k", values[i]));
		assert_int_equal(cairn_close(readers[i]), 0);
	}
	assert_int_equal(cairn_close(db), 0);
}

/* In a child, which may give up rights. Its result is an exit status. */
static int open_without_rights(const char *path)
{
	cairn_options options = reading();
	cairn *db;
	struct model model = {0};
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 77;
	model_put(&model, text("a"), text("1"));
	model_put(&model, text("b"), text("2"));
	if (!match_path(path, &options, &model) || !match_verify(path))
		return 1;
	options.read_only = 0;
	if (cairn_open(path, &options, &db) != CAIRN_READ_ONLY || db)
		return 2;
	return strstr(cairn_message(NULL), path) ? 0 : 3;
}

static void where_nothing_can_be_written_it_says_so(void **state)
{
	struct fixture *fixture = *state;
	char command[4300];
	make_store(fixture->path);
	snprintf(command, sizeof command, "chmod -R a+rX,a-w '%s'", fixture->directory);
	assert_int_equal(system(command), 0);
	uint64_t before = directory_sum(fixture->path);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* From inside: directories above may let nobody through. */
		const char *name = strrchr(fixture->path, '/') + 1;
		int result = chdir(fixture->directory) ? 1 : open_without_rights(name);
		if (result)
			printf("child: %s\n", cairn_message(NULL));
		fflush(stdout);
		_exit(result);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(directory_sum(fixture->path) == before);
	snprintf(command, sizeof command, "chmod -R u+w '%s'", fixture->directory);
	assert_int_equal(system(command), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------- other processes */

/* Runs `body` in a child, which has to return 0. */
static void run_in_child(int (*body)(void *context), void *context)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		_exit(body(context));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Says what did not hold and ends the function, in a child. */
#define CHILD_CHECK(claim)                                                                  \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "child: line %d: %s; last: %s\n", __LINE__, #claim, \
			    cairn_message(NULL));                                           \
			return 1;                                                           \
		}                                                                           \
	} while (0)

static int find_it_locked(void *path)
{
	cairn_options options = quiet();
	cairn *db;
	char pid[32];
	snprintf(pid, sizeof pid, "pid %ld", (long)getppid());
	CHILD_CHECK(cairn_open(path, &options, &db) == CAIRN_LOCKED && !db);
	CHILD_CHECK(strstr(cairn_message(NULL), pid));
	CHILD_CHECK(strstr(cairn_message(NULL), path));
	options = reading();
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	CHILD_CHECK(holds(db, "k", "v"));
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
}

static void one_handle_writes(void **state)
{
	struct fixture *fixture = *state;
	char link[4300], pid[64];
	cairn_options options = quiet(), read_only = reading();
	cairn *db = open_store(fixture->path), *reader;
	put(db, "k", "v");
	snprintf(link, sizeof link, "%s/link", fixture->directory);
	snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
	assert_int_equal(symlink(fixture->path, link), 0);
	assert_refused(fixture->path, &options, CAIRN_LOCKED, pid);
	assert_refused(link, &options, CAIRN_LOCKED, pid);
	run_in_child(find_it_locked, fixture->path);
	assert_int_equal(cairn_open(link, &read_only, &reader), 0);
	assert_true(holds(reader, "k", "v"));
	assert_int_equal(cairn_close(reader), 0);
	/* A reader that closes, or is refused, does not unlock. */
	assert_refused(fixture->path, &options, CAIRN_LOCKED, pid);
	assert_int_equal(cairn_close(db), 0);
	db = open_store(link);
	assert_int_equal(cairn_close(db), 0);
}

static void an_owner_that_is_killed_lets_go(void **state)
{
	struct fixture *fixture = *state;
	int pipes[2];
	char byte;
	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		cairn *db;
		alarm(60);
		if (cairn_open(fixture->path, NULL, &db) || cairn_put(db, text("k"), text("v"), 0))
			_exit(1);
		if (write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(pipes[0]);
	close(pipes[1]);
	cairn *db = open_store(fixture->path);
	assert_true(holds(db, "k", "v"));
	assert_int_equal(cairn_close(db), 0);
}

static int ignore_answer(void *context, size_t i, int result, cairn_slice value)
{
	(void)context;
	(void)i;
	(void)result;
	return value.size > 0;
}

struct inherited {
	struct fixture *fixture;
	cairn *db;
	cairn_view *view;
	cairn_iter *iter;
	cairn_batch *batch;
};

/* Every call on what the parent opened. */
static int use_what_was_inherited(const struct inherited *old)
{
	cairn_slice key = text("k"), value;
	cairn_stats stats;
	cairn_view *view;
	cairn_iter *iter;
	size_t size;
	CHILD_CHECK(cairn_put(old->db, key, key, 0) == CAIRN_FORKED);
	CHILD_CHECK(strstr(cairn_message(old->db), old->fixture->path));
	CHILD_CHECK(cairn_delete(old->db, key, 0) == CAIRN_FORKED);
	CHILD_CHECK(cairn_write(old->db, old->batch, 0) == CAIRN_FORKED);
	CHILD_CHECK(cairn_sync(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_get(old->db, key, NULL, 0, &size) == CAIRN_FORKED && size == 0);
	CHILD_CHECK(cairn_multi_get(old->db, &key, 1, ignore_answer, NULL) == CAIRN_FORKED);
	CHILD_CHECK(cairn_view_open(old->db, &view) == CAIRN_FORKED && !view);
	CHILD_CHECK(cairn_view_get(old->view, key, &value) == CAIRN_FORKED && !value.data);
	CHILD_CHECK(cairn_iter_open(old->view, NULL, &iter) == CAIRN_FORKED && !iter);
	CHILD_CHECK(cairn_iter_first(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_last(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_seek(old->iter, key) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_seek_le(old->iter, key) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_next(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_prev(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(!cairn_iter_value(old->iter).data);
	cairn_iter_close(old->iter);
	CHILD_CHECK(cairn_view_close(old->view) == CAIRN_FORKED);
	CHILD_CHECK(cairn_flush(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_compact(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_wait(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_checkpoint(old->db, "nowhere") == CAIRN_FORKED);
	CHILD_CHECK(cairn_stat(old->db, &stats) == CAIRN_FORKED);
	CHILD_CHECK(cairn_stat_json(old->db, NULL, 0, &size) == CAIRN_FORKED && size == 0);
	CHILD_CHECK(cairn_close(old->db) == CAIRN_FORKED);
	return 0;
}

static int live_as_a_child(void *context)
{
	const struct inherited *old = context;
	char path[4300];
	cairn *db;
	if (use_what_was_inherited(old) || find_it_locked(old->fixture->path))
		return 1;
	snprintf(path, sizeof path, "%s/childs", old->fixture->directory);
	cairn_options options;
	cairn_options_init(&options);
#ifdef __SANITIZE_THREAD__
	options.no_background = 1; /* it knows no threads in the child of a process that had some */
#endif
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	CHILD_CHECK(cairn_put(db, text("mine"), text("1"), CAIRN_SYNC) == 0);
	CHILD_CHECK(holds(db, "mine", "1"));
	CHILD_CHECK(cairn_compact(db) == 0);
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
}

static void a_handle_belongs_to_its_process(void **state)
{
	struct inherited own = {.fixture = *state};
	const char *path = own.fixture->path;
	/* With threads, which the child does not have. */
	assert_int_equal(cairn_open(path, NULL, &own.db), 0);
	own.batch = cairn_batch_new();
	assert_non_null(own.batch);
	assert_int_equal(cairn_batch_put(own.batch, text("k"), text("batch")), 0);
	put(own.db, "k", "v");
	assert_int_equal(cairn_view_open(own.db, &own.view), 0);
	assert_int_equal(cairn_iter_open(own.view, NULL, &own.iter), 0);
	assert_int_equal(cairn_iter_first(own.iter), 0);
	run_in_child(live_as_a_child, &own);

	/* The child's end unlocked nothing, and nothing of the handle has changed. */
	run_in_child(find_it_locked, own.fixture->path);
	assert_true(model_equal(cairn_iter_value(own.iter), text("v")));
	cairn_iter_close(own.iter);
	assert_int_equal(cairn_view_close(own.view), 0);
	put(own.db, "k", "w");
	assert_true(holds(own.db, "k", "w"));
	assert_int_equal(cairn_close(own.db), 0);
	cairn_batch_free(own.batch);
	cairn *db = open_store(path);
	assert_true(holds(db, "k", "w"));
	assert_int_equal(cairn_close(db), 0);
}

/* ---------------------------------------------------------------- missing files */

/* The path of a file of the store: the first whose name ends so, in the order of names. */
static bool find_file(const char *directory, const char *ending, char *path, size_t size)
{
	char best[256] = "";
	DIR *opened = opendir(directory);
	assert_non_null(opened);
	for (const struct dirent *entry; (entry = readdir(opened));) {
		size_t length = strlen(entry->d_name), tail = strlen(ending);
		if (length >= tail && strcmp(entry->d_name + length - tail, ending) == 0 &&
		    (!best[0] || strcmp(entry->d_name, best) < 0))
			snprintf(best, sizeof best, "%s", entry->d_name);
	}
	closedir(opened);
	snprintf(path, size, "%s/%s", directory, best);
	return best[0] != 0;
}

static void assert_damaged(const char *path, int code, const char *parts)
{
	cairn_options options = quiet(), read_only = reading();
	uint64_t before = directory_sum(path);
	assert_refused(path, &read_only, code, parts);
	assert_true(directory_sum(path) == before);
	assert_refused(path, &options, code, parts);
	assert_refused(path, &options, code, parts);
	assert_refused(path, &read_only, code, parts);
}

static void remove_file(const char *directory, const char *ending, char *path, size_t size)
{
	assert_true(find_file(directory, ending, path, size));
	assert_int_equal(unlink(path), 0);
}

static void data_without_a_manifest_is_damage(void **state)
{
	struct fixture *fixture = *state;
	char path[4500];
	make_store(fixture->path);
	remove_file(fixture->path, "MANIFEST", path, sizeof path);
	assert_damaged(fixture->path, CAIRN_CORRUPT, "runs|MANIFEST|/store");
	remove_file(fixture->path, ".kv", path, sizeof path);
	assert_damaged(fixture->path, CAIRN_CORRUPT, "log records|MANIFEST|/store");
}

/* A lock, temporary files and a segment without a record are left by an opening that was killed. */
static void a_lock_and_an_empty_segment_are_no_store(void **state)
{
	struct fixture *fixture = *state;
	cairn_options must = quiet();
	char path[4500];
	static const char zeros[100000];
	must.must_exist = 1;
	assert_int_equal(mkdir(fixture->path, 0777), 0);
	static const struct {
		const char *name;
		size_t size;
	} files[] = {{"LOCK", 0}, {"000001.wal", sizeof zeros}, {"000002.wal", 0},
	    {"000003.tmp", 10}, {"MANIFEST.tmp", 20}};
	for (size_t i = 0; i < COUNT(files); i++) {
		snprintf(path, sizeof path, "%s/%s", fixture->path, files[i].name);
		FILE *file = fopen(path, "w");
		assert_non_null(file);
		assert_int_equal(fwrite(zeros, 1, files[i].size, file), files[i].size);
		fclose(file);
	}
	assert_refused(fixture->path, &must, -ENOENT, "store");
	make_store(fixture->path);
	assert_true(match_verify(fixture->path));
}

static void a_missing_run_is_named(void **state)
{
	struct fixture *fixture = *state;
	char path[4500];
	make_store(fixture->path);
	remove_file(fixture->path, ".kv", path, sizeof path);
	assert_damaged(fixture->path, CAIRN_CORRUPT, strrchr(path, '/'));
	assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), CAIRN_CORRUPT);
}

static void a_missing_first_segment_is_named(void **state)
{
	struct fixture *fixture = *state;
	char path[4500];
	make_store(fixture->path);
	remove_file(fixture->path, ".wal", path, sizeof path);
	assert_damaged(fixture->path, CAIRN_CORRUPT, ".wal");
	assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), CAIRN_CORRUPT);
}

/* Segments of 1, 2 and 4 MiB, full of records; the process ends without a close. */
static int fill_three_segments(void *path)
{
	static char value[30000];
	cairn_options options = quiet();
	cairn *db;
	char key[16];
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	for (int i = 0; i < 150; i++) {
		snprintf(key, sizeof key, "%d", i);
		CHILD_CHECK(cairn_put(db, text(key), (cairn_slice){value, sizeof value}, 0) == 0);
	}
	return 0;
}

static void a_missing_segment_in_the_chain_is_damage(void **state)
{
	struct fixture *fixture = *state;
	char first[4500], second[4500], away[4600];
	run_in_child(fill_three_segments, fixture->path);
	/* The first one out of the way, to find the second. */
	assert_true(find_file(fixture->path, ".wal", first, sizeof first));
	snprintf(away, sizeof away, "%s.away", first);
	assert_int_equal(rename(first, away), 0);
	assert_true(find_file(fixture->path, ".wal", second, sizeof second));
	assert_int_equal(rename(away, first), 0);
	snprintf(away, sizeof away, "%s.away", second);
	assert_int_equal(rename(second, away), 0);
	assert_damaged(fixture->path, CAIRN_CORRUPT, ".wal");
	assert_int_equal(rename(away, second), 0);
	cairn *db = open_store(fixture->path);
	size_t size;
	assert_int_equal(cairn_get(db, text("149"), NULL, 0, &size), 0);
	assert_int_equal(size, 30000);
	assert_int_equal(cairn_close(db), 0);
}

/* ---------------------------------------------------------------- changed files */

static uint8_t *read_file(const char *path, size_t *size)
{
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	*size = (size_t)status.st_size;
	uint8_t *bytes = malloc(*size + 1);
	FILE *file = fopen(path, "rb");
	assert_true(bytes && file);
	assert_int_equal(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fflush(file), 0);
	assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
	fclose(file);
}

/* Where the formats have their version and their checksum, and what the checksum covers. */
struct frame {
	const char *ending;
	size_t version_at;
	size_t checksum_at;
	size_t covered_from, covered_to;
};

static void a_newer_version_is_named_with_both_numbers(void **state)
{
	struct fixture *fixture = *state;
	char path[4500], parts[4600];
	make_store(fixture->path);
	assert_true(find_file(fixture->path, "MANIFEST", path, sizeof path));
	size_t size;
	free(read_file(path, &size));
	const struct frame frames[] = {
	    {"MANIFEST", 8, size - 4, 0, size - 4},
	    {".kv", 8, 124, 0, 124},
	    {".wal", 8, 12, 16, 4096},
	};
	for (size_t i = 0; i < COUNT(frames); i++) {
		const struct frame *frame = &frames[i];
		assert_true(find_file(fixture->path, frame->ending, path, sizeof path));
		uint8_t *bytes = read_file(path, &size);
		assert_int_equal(cairn_get32(bytes + frame->version_at), 1);
		assert_int_equal(cairn_get32(bytes + frame->checksum_at),
		    cairn_checksum(
			bytes + frame->covered_from, frame->covered_to - frame->covered_from, 0));
		cairn_put32(bytes + frame->version_at, 7);
		cairn_put32(
		    bytes + frame->checksum_at, cairn_checksum(bytes + frame->covered_from,
						    frame->covered_to - frame->covered_from, 0));
		write_file(path, bytes, size);
		snprintf(parts, sizeof parts, "%s|version 7|version 1", strrchr(path, '/') + 1);
		assert_damaged(fixture->path, CAIRN_UNSUPPORTED, parts);
		assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), CAIRN_CORRUPT);
		cairn_put32(bytes + frame->version_at, 1);
		cairn_put32(
		    bytes + frame->checksum_at, cairn_checksum(bytes + frame->covered_from,
						    frame->covered_to - frame->covered_from, 0));
		write_file(path, bytes, size);
		free(bytes);
	}
	assert_true(match_verify(fixture->path));
	cairn *db = open_store(fixture->path);
	assert_true(holds(db, "a", "1") && holds(db, "b", "2"));
	assert_int_equal(cairn_close(db), 0);
}

/* Every byte of it, and every length. */
static void a_damaged_manifest_is_never_believed(void **state)
{
	struct fixture *fixture = *state;
	cairn_options options = reading();
	char path[4500];
	cairn *db;
	size_t size;
	make_store(fixture->path);
	assert_true(find_file(fixture->path, "MANIFEST", path, sizeof path));
	uint8_t *bytes = read_file(path, &size);
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= (uint8_t)(1u << (i % 8));
		write_file(path, bytes, size);
		assert_int_equal(cairn_open(fixture->path, &options, &db), CAIRN_CORRUPT);
		assert_says(path);
		bytes[i] ^= (uint8_t)(1u << (i % 8));
	}
	for (size_t i = 0; i < size; i++) {
		write_file(path, bytes, i);
		assert_int_equal(cairn_open(fixture->path, &options, &db), CAIRN_CORRUPT);
		assert_says(path);
	}
	options.read_only = 0;
	assert_refused(fixture->path, &options, CAIRN_CORRUPT, "MANIFEST");
	write_file(path, bytes, size);
	free(bytes);
	db = open_store(fixture->path);
	assert_true(holds(db, "a", "1") && holds(db, "b", "2"));
	assert_int_equal(cairn_close(db), 0);
}

/* A file of another store in the place of ours, in order in itself. */
static void a_file_of_another_store_is_refused(void **state)
{
	struct fixture *fixture = *state;
	static const char *endings[] = {".kv", ".wal"};
	char other[4300], path[4500], foreign[4500];
	size_t size, foreign_size;
	make_store(fixture->path);
	snprintf(other, sizeof other, "%s/other", fixture->directory);
	make_store(other);
	for (size_t i = 0; i < COUNT(endings); i++) {
		assert_true(find_file(fixture->path, endings[i], path, sizeof path));
		assert_true(find_file(other, endings[i], foreign, sizeof foreign));
		uint8_t *bytes = read_file(path, &size);
		uint8_t *foreign_bytes = read_file(foreign, &foreign_size);
		write_file(path, foreign_bytes, foreign_size);
		assert_damaged(fixture->path, CAIRN_CORRUPT, strrchr(path, '/'));
		write_file(path, bytes, size);
		free(bytes);
		free(foreign_bytes);
	}
	cairn *db = open_store(fixture->path);
	assert_int_equal(cairn_close(db), 0);
}

/* The manifest of another store, an empty one, which names none of our files: nothing is swept. */
static void a_manifest_of_another_store_is_refused(void **state)
{
	struct fixture *fixture = *state;
	char empty[4300], manifest[4400], other[4400], path[4500];
	size_t size, other_size;
	make_store(fixture->path);
	snprintf(empty, sizeof empty, "%s/empty", fixture->directory);
	cairn *db = open_store(empty);
	assert_int_equal(cairn_close(db), 0);
	snprintf(manifest, sizeof manifest, "%s/MANIFEST", fixture->path);
	snprintf(other, sizeof other, "%s/MANIFEST", empty);
	uint8_t *bytes = read_file(manifest, &size), *other_bytes = read_file(other, &other_size);
	write_file(manifest, other_bytes, other_size);
	assert_damaged(fixture->path, CAIRN_CORRUPT, "another store");
	assert_true(find_file(fixture->path, ".kv", path, sizeof path));
	assert_true(find_file(fixture->path, ".wal", path, sizeof path));
	write_file(manifest, bytes, size);
	db = open_store(fixture->path);
	assert_true(holds(db, "a", "1") && holds(db, "b", "2"));
	assert_int_equal(cairn_close(db), 0);
	free(bytes);
	free(other_bytes);
}

/* Data and no manifest: open and verify agree. */
static void a_store_without_its_manifest_is_damaged(void **state)
{
	struct fixture *fixture = *state;
	char manifest[4400];
	assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), -ENOENT);
	make_store(fixture->path);
	snprintf(manifest, sizeof manifest, "%s/MANIFEST", fixture->path);
	assert_int_equal(unlink(manifest), 0);
	assert_int_equal(cairn_verify(fixture->path, NULL, NULL, NULL), CAIRN_CORRUPT);
	assert_damaged(fixture->path, CAIRN_CORRUPT, "MANIFEST");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(zero_is_the_default),
	    TEST(what_is_not_built_is_refused_by_name),
	    TEST(what_no_version_has_is_invalid),
	    TEST(options_are_read_no_further_than_they_say),
	    TEST(choices_are_stored_with_the_store),
	    TEST(a_store_is_made_only_when_it_may_be),
	    TEST(a_path_that_cannot_be_is_refused),
	    TEST(what_is_not_ours_is_left_alone),
	    TEST(a_read_only_handle_changes_nothing),
	    TEST(a_read_only_handle_stays_where_it_was),
	    TEST(where_nothing_can_be_written_it_says_so),
	    TEST(one_handle_writes),
	    TEST(an_owner_that_is_killed_lets_go),
	    TEST(a_handle_belongs_to_its_process),
	    TEST(data_without_a_manifest_is_damage),
	    TEST(a_lock_and_an_empty_segment_are_no_store),
	    TEST(a_missing_run_is_named),
	    TEST(a_missing_first_segment_is_named),
	    TEST(a_missing_segment_in_the_chain_is_damage),
	    TEST(a_newer_version_is_named_with_both_numbers),
	    TEST(a_damaged_manifest_is_never_believed),
	    TEST(a_file_of_another_store_is_refused),
	    TEST(a_manifest_of_another_store_is_refused),
	    TEST(a_store_without_its_manifest_is_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
