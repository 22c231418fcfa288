/*
 * tests/store_io_test.c -- one suite of claims about format/io.h, run over both back ends.
 *
 * What a child process finds is its exit code: 0 when all held. A child never runs cmocka's
 * asserts, which would return into the parent's tests.
 */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/error.h"
#include "format/io.h"
#include "store/io_posix.h"
#include "store/io_uring.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* In a child: says what did not hold and ends the function with a failure. */
#define CHILD_CHECK(claim)                                                         \
	do {                                                                       \
		if (!(claim)) {                                                    \
			fprintf(stderr, "child: line %d: %s\n", __LINE__, #claim); \
			return 1;                                                  \
		}                                                                  \
	} while (0)

static struct cairn_io *io; /* of the running group; NULL: the kernel gives no ring */
static const struct cairn_io_ops *ops;
static char *directory;

/* `name` in the test's directory; valid until the fourth call after this one. */
static const char *path_of(const char *name)
{
	static char paths[4][4200];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	return path;
}

static int open_posix(void **state)
{
	(void)state;
	if (cairn_io_posix_open(&io))
		return -1;
	ops = io->ops;
	return 0;
}

static int close_posix(void **state)
{
	(void)state;
	cairn_io_posix_close(io);
	return 0;
}

static int open_uring(void **state)
{
	(void)state;
	int result = cairn_io_uring_open(&io);
	if (result)
		printf("no ring here, its tests are skipped: %s\n", strerror(-result));
	ops = result ? NULL : io->ops;
	return 0;
}

static int close_uring(void **state)
{
	(void)state;
	cairn_io_uring_close(io);
	return 0;
}

static int enter(void **state)
{
	(void)state;
	directory = test_directory();
	return 0;
}

static int leave(void **state)
{
	(void)state;
	test_remove_directory(directory);
	return 0;
}

static struct cairn_file *open_file(const char *name, enum cairn_open_mode mode)
{
	struct cairn_file *file;
	assert_int_equal(ops->open(io, path_of(name), mode, &file), 0);
	assert_non_null(file);
	return file;
}

/* Makes or replaces a file by means that are not under test. */
static void put_text(const char *name, const char *text)
{
	FILE *stream = fopen(path_of(name), "w");
	assert_non_null(stream);
	assert_true(fputs(text, stream) >= 0);
	assert_int_equal(fclose(stream), 0);
}

static void assert_text(const char *name, const char *text)
{
	char found[256] = "";
	FILE *stream = fopen(path_of(name), "r");
	assert_non_null(stream);
	size_t size = fread(found, 1, sizeof found - 1, stream);
	fclose(stream);
	assert_int_equal(size, strlen(text));
	assert_string_equal(found, text);
}

static void assert_message_has(const char *text)
{
	if (!strstr(cairn_error_text(), text))
		fail_msg("\"%s\" is not in the message \"%s\"", text, cairn_error_text());
}

/* Files. */

static void a_missing_file_is_told_with_its_path(void **state)
{
	(void)state;
	struct cairn_file *file = (struct cairn_file *)&file;
	assert_int_equal(ops->open(io, path_of("none"), CAIRN_OPEN_READ, &file), -ENOENT);
	assert_null(file);
	assert_message_has(path_of("none"));
	assert_int_equal(ops->open(io, path_of("none"), CAIRN_OPEN_WRITE, &file), -ENOENT);
	assert_int_equal(ops->open(io, path_of("no/file"), CAIRN_OPEN_CREATE, &file), -ENOENT);
	assert_int_not_equal(access(path_of("none"), F_OK), 0);
}

static void create_leaves_an_existing_file_alone(void **state)
{
	(void)state;
	struct cairn_file *file;
	put_text("a", "old");
	assert_int_equal(ops->open(io, path_of("a"), CAIRN_OPEN_CREATE, &file), -EEXIST);
	assert_null(file);
	assert_text("a", "old");
	file = open_file("a", CAIRN_OPEN_WRITE);
	assert_string_equal(file->path, path_of("a"));
	ops->close(file);
	assert_text("a", "old");
}

static void what_is_written_is_read_back(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	char found[16];
	size_t done = 99;
	assert_int_equal(ops->read(file, found, sizeof found, 0, &done), 0);
	assert_int_equal(done, 0);
	assert_int_equal(ops->write(file, "world", 5, 6), 0);
	assert_int_equal(ops->write(file, "hello ", 6, 0), 0);
	assert_int_equal(ops->write(file, NULL, 0, 100), 0);
	assert_int_equal(ops->read(file, found, sizeof found, 0, &done), 0);
	assert_int_equal(done, 11);
	assert_memory_equal(found, "hello world", 11);
	assert_int_equal(ops->read(file, found, 3, 8, &done), 0);
	assert_int_equal(done, 3);
	assert_memory_equal(found, "rld", 3);
	assert_int_equal(ops->read(file, found, 4, 11, &done), 0);
	assert_int_equal(done, 0);
	ops->start_writeback(file, 0, 11);
	assert_int_equal(ops->sync(file), 0);
	ops->close(file);
	assert_text("a", "hello world");
}

static void a_file_opened_for_reading_is_not_written(void **state)
{
	(void)state;
	put_text("a", "old");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_READ);
	assert_int_equal(ops->write(file, "new", 3, 0), -EBADF);
	assert_message_has(path_of("a"));
	assert_int_equal(ops->truncate(file, 0), -EINVAL);
	assert_int_equal(ops->allocate(file, 4096), -EBADF);
	ops->close(file);
	assert_text("a", "old");
}

static void files_and_locks_are_closed_by_exec(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	struct cairn_lock *lock;
	assert_int_equal(ops->lock(io, path_of("LOCK"), &lock), 0);
	int seen = 0;
	for (int descriptor = 3; descriptor < 64; descriptor++) {
		char link[64], target[4200];
		snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
		ssize_t size = readlink(link, target, sizeof target - 1);
		if (size < 0)
			continue;
		target[size] = '\0';
		if (!strstr(target, strrchr(directory, '/')))
			continue;
		assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
		seen++;
	}
	assert_int_equal(seen, 2);
	ops->unlock(lock);
	ops->close(file);
}

static void status_tells_size_and_links(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_READ);
	struct cairn_file_status status;
	assert_int_equal(ops->status(file, &status), 0);
	assert_int_equal(status.size, 5);
	assert_int_equal(status.links, 1);
	assert_int_equal(ops->link(io, path_of("a"), path_of("b")), 0);
	assert_int_equal(ops->status(file, &status), 0);
	assert_int_equal(status.links, 2);
	ops->close(file);
}

static void truncate_cuts_and_extends(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_WRITE);
	char found[8];
	size_t done;
	assert_int_equal(ops->truncate(file, 2), 0);
	assert_int_equal(ops->truncate(file, 4), 0);
	assert_int_equal(ops->read(file, found, sizeof found, 0, &done), 0);
	assert_int_equal(done, 4);
	assert_memory_equal(found, "12\0\0", 4);
	ops->close(file);
}

static void allocate_brings_size_and_blocks_and_keeps_bytes(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_WRITE);
	struct stat status;
	char found[8];
	size_t done;
	assert_int_equal(ops->allocate(file, 300001), 0);
	assert_int_equal(ops->allocate(file, 100), 0);
	assert_int_equal(ops->allocate(file, 0), 0);
	assert_int_equal(stat(path_of("a"), &status), 0);
	assert_int_equal(status.st_size, 300001);
	assert_true((uint64_t)status.st_blocks * 512 >= 300001);
	assert_int_equal(ops->read(file, found, sizeof found, 0, &done), 0);
	assert_memory_equal(found, "12345\0\0\0", 8);
	ops->close(file);
}

static void a_short_file_is_not_read_exactly(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_READ);
	char found[8];
	assert_int_equal(cairn_io_read_exactly(file, found, 3, 2), 0);
	assert_memory_equal(found, "345", 3);
	assert_int_equal(cairn_io_read_exactly(file, found, 4, 2), CAIRN_CORRUPT);
	assert_message_has(path_of("a"));
	assert_message_has("offset 2");
	ops->close(file);
}

/* Mappings. */

static void a_map_outlives_its_file(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_READ);
	struct cairn_map map;
	assert_int_equal(ops->map(file, 5, &map), 0);
	ops->close(file);
	assert_int_equal(map.size, 5);
	static const enum cairn_advice advices[] = {CAIRN_ADVISE_SEQUENTIAL, CAIRN_ADVISE_RANDOM,
	    CAIRN_ADVISE_NEED, CAIRN_ADVISE_MAP, CAIRN_ADVISE_DONE};
	for (size_t i = 0; i < COUNT(advices); i++) {
		ops->advise(io, &map, 0, 5, advices[i]);
		ops->advise(io, &map, 3, UINT64_MAX, advices[i]);
		ops->advise(io, &map, UINT64_MAX, 1, advices[i]);
		assert_memory_equal(map.data, "12345", 5);
	}
	ops->unmap(io, &map);
	assert_null(map.data);
	ops->unmap(io, &map);
}

static void no_map_reaches_behind_the_file(void **state)
{
	(void)state;
	put_text("a", "12345");
	struct cairn_file *file = open_file("a", CAIRN_OPEN_WRITE);
	struct cairn_map map = {(const uint8_t *)&map, 1};
	assert_int_equal(ops->map(file, 6, &map), CAIRN_CORRUPT);
	assert_message_has(path_of("a"));
	assert_null(map.data);
	assert_int_equal(map.size, 0);
	assert_true(ops->map(file, 0, &map) < 0);
	uint8_t *memory = (uint8_t *)&map;
	assert_int_equal(ops->map_log(file, 6, &memory), CAIRN_CORRUPT);
	assert_null(memory);
	ops->close(file);
}

static void stores_into_a_log_map_reach_the_file(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	uint8_t *memory;
	char found[4];
	size_t done;
	assert_int_equal(ops->populate_log(file, 0, 4096), 0);
	assert_int_equal(ops->allocate(file, 100000), 0);
	assert_int_equal(ops->map_log(file, 100000, &memory), 0);
	if (memory) {
		assert_int_equal(ops->populate_log(file, 0, 100000), 0);
		assert_int_equal(ops->populate_log(file, 70001, 5), 0);
		assert_int_equal(ops->populate_log(file, 100000, 5), 0);
		memcpy(memory, "kept", 4);
		ops->settle_log(file, 0, 70001);
		ops->settle_log(file, 90000, 1);
		assert_memory_equal(memory, "kept", 4);
		memcpy(memory + 99990, "word", 4);
		assert_int_equal(ops->sync(file), 0);
		assert_int_equal(ops->read(file, found, 4, 99990, &done), 0);
		assert_memory_equal(found, "word", 4);
		ops->unmap_log(file);
		assert_int_equal(ops->map_log(file, 4096, &memory), 0);
	}
	ops->unmap_log(file);
	ops->unmap_log(file);
	ops->close(file);
}

static void a_log_map_that_cannot_be_populated_says_so(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	uint8_t *memory;
	assert_int_equal(ops->allocate(file, 65536), 0);
	assert_int_equal(ops->map_log(file, 65536, &memory), 0);
	assert_int_equal(ops->truncate(file, 0), 0);
	if (memory) {
		/* 0 on a kernel that cannot populate: then nothing was touched either. */
		int result = ops->populate_log(file, 4096, 4096);
		assert_true(result == -EIO || result == 0);
		assert_int_equal(ops->populate_log(file, 5000, 1), result);
		if (result)
			assert_message_has(path_of("a"));
	}
	ops->close(file);
}

/* Processes. */

/* Reads one byte that says: the other side got that far. False when it ended instead. */
static bool hear(int descriptor)
{
	char byte;
	ssize_t n;
	do
		n = read(descriptor, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

static void tell(int descriptor)
{
	if (write(descriptor, "!", 1) != 1)
		_exit(2);
}

struct child {
	pid_t pid;
	int from; /* read what the child tells */
	int to;   /* tell the child */
};

/* Runs `body` in a child; its result is the exit code. A child that hangs is killed and so fails.
 */
static struct child start_child(int (*body)(int in, int out))
{
	int down[2], up[2];
	assert_int_equal(pipe(down), 0);
	assert_int_equal(pipe(up), 0);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(30);
		close(down[1]);
		close(up[0]);
		_exit(body(down[0], up[1]));
	}
	close(down[0]);
	close(up[1]);
	return (struct child){pid, up[0], down[1]};
}

static int end_child(struct child child)
{
	int status;
	close(child.from);
	close(child.to);
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	return status;
}

static int child_result(int (*body)(int in, int out))
{
	return end_child(start_child(body));
}

static void kill_child(struct child child)
{
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	int status = end_child(child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int store_into_log_and_hang(int in, int out)
{
	struct cairn_file *file;
	uint8_t *memory;
	CHILD_CHECK(!ops->open(io, path_of("log"), CAIRN_OPEN_CREATE, &file));
	CHILD_CHECK(!ops->allocate(file, 1 << 20));
	CHILD_CHECK(!ops->map_log(file, 1 << 20, &memory));
	for (size_t i = 0; memory && i < 1 << 20; i++)
		memory[i] = (uint8_t)(i % 251);
	for (size_t i = 0; !memory && i < 1 << 20; i++) {
		uint8_t byte = (uint8_t)(i % 251);
		CHILD_CHECK(!ops->write(file, &byte, 1, i));
	}
	tell(out);
	return hear(in);
}

static void stores_into_a_log_map_survive_sigkill(void **state)
{
	(void)state;
	struct child child = start_child(store_into_log_and_hang);
	assert_true(hear(child.from));
	kill_child(child);
	struct cairn_file *file = open_file("log", CAIRN_OPEN_READ);
	uint8_t *found = malloc(1 << 20);
	assert_non_null(found);
	assert_int_equal(cairn_io_read_exactly(file, found, 1 << 20, 0), 0);
	for (size_t i = 0; i < 1 << 20; i++)
		if (found[i] != i % 251)
			fail_msg("byte %zu is %d", i, found[i]);
	free(found);
	ops->close(file);
}

static uint8_t *inherited;

static int inherited_memory_is_gone(int in, int out)
{
	(void)in;
	(void)out;
	CHILD_CHECK(msync(inherited, 4096, MS_ASYNC) == -1 && errno == ENOMEM);
	return 0;
}

static void a_child_does_not_inherit_a_log_map(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("log", CAIRN_OPEN_CREATE);
	assert_int_equal(ops->allocate(file, 4096), 0);
	assert_int_equal(ops->map_log(file, 4096, &inherited), 0);
	if (inherited)
		assert_int_equal(child_result(inherited_memory_is_gone), 0);
	ops->close(file);
}

/* Directories. */

static void a_directory_is_made_once(void **state)
{
	(void)state;
	assert_int_equal(ops->make_directory(io, path_of("d")), 0);
	assert_int_equal(ops->make_directory(io, path_of("d")), -EEXIST);
	assert_int_equal(ops->make_directory(io, path_of("x/y")), -ENOENT);
	assert_message_has(path_of("x/y"));
	assert_int_equal(ops->sync_directory(io, path_of("d")), 0);
	assert_int_equal(ops->sync_directory(io, path_of("x")), -ENOENT);
	put_text("file", "");
	assert_int_equal(ops->sync_directory(io, path_of("file")), -ENOTDIR);
}

static void rename_replaces(void **state)
{
	(void)state;
	put_text("a", "new");
	put_text("b", "old");
	assert_int_equal(ops->rename(io, path_of("a"), path_of("b")), 0);
	assert_text("b", "new");
	assert_int_equal(ops->rename(io, path_of("a"), path_of("b")), -ENOENT);
	assert_message_has(path_of("a"));
	assert_message_has(path_of("b"));
	assert_text("b", "new");
}

static void link_does_not_replace(void **state)
{
	(void)state;
	put_text("a", "new");
	put_text("b", "old");
	assert_int_equal(ops->link(io, path_of("a"), path_of("b")), -EEXIST);
	assert_message_has(path_of("a"));
	assert_message_has(path_of("b"));
	assert_text("b", "old");
	assert_int_equal(ops->unlink(io, path_of("b")), 0);
	assert_int_equal(ops->unlink(io, path_of("b")), -ENOENT);
	assert_message_has(path_of("b"));
	assert_int_equal(ops->link(io, path_of("a"), path_of("b")), 0);
	assert_text("b", "new");
}

struct listing {
	unsigned seen; /* a bit for each of a, b, c */
	unsigned calls;
	unsigned stop_after;
};

static int note_name(void *context, const char *name)
{
	struct listing *listing = context;
	if (strlen(name) != 1 || *name < 'a' || *name > 'c')
		return -EINVAL;
	listing->seen |= 1u << (*name - 'a');
	return ++listing->calls == listing->stop_after ? 77 : 0;
}

static void list_names_everything_once(void **state)
{
	(void)state;
	put_text("a", "");
	put_text("b", "");
	assert_int_equal(mkdir(path_of("c"), 0777), 0);
	struct listing all = {0};
	assert_int_equal(ops->list(io, directory, note_name, &all), 0);
	assert_int_equal(all.seen, 7);
	assert_int_equal(all.calls, 3);
	struct listing stopped = {.stop_after = 2};
	assert_int_equal(ops->list(io, directory, note_name, &stopped), 77);
	assert_int_equal(stopped.calls, 2);
	struct listing none = {0};
	assert_int_equal(ops->list(io, path_of("x"), note_name, &none), -ENOENT);
	assert_message_has(path_of("x"));
	assert_int_equal(none.calls, 0);
}

static void free_space_is_of_the_file_system(void **state)
{
	(void)state;
	uint64_t bytes = 0;
	assert_int_equal(ops->free_space(io, directory, &bytes), 0);
	assert_true(bytes > 4096);
	assert_int_equal(ops->free_space(io, path_of("x"), &bytes), -ENOENT);
	assert_int_equal(bytes, 0);
}

/* Locks. */

static struct cairn_lock *take(const char *name)
{
	struct cairn_lock *lock;
	assert_int_equal(ops->lock(io, path_of(name), &lock), 0);
	assert_non_null(lock);
	return lock;
}

static bool refuses(const char *name, pid_t owner)
{
	struct cairn_lock *lock = (struct cairn_lock *)&lock;
	char claim[64];
	snprintf(claim, sizeof claim, "locked by pid %ld", (long)owner);
	int result = ops->lock(io, path_of(name), &lock);
	bool refused = result == CAIRN_LOCKED && !lock && strstr(cairn_error_text(), claim) &&
		       strstr(cairn_error_text(), path_of(name)) &&
		       strstr(cairn_error_text(), "close it");
	refused = refused && ops->probe_lock(io, path_of(name)) == CAIRN_LOCKED &&
		  strstr(cairn_error_text(), claim);
	if (!refused)
		fprintf(stderr, "%s: %d, \"%s\"\n", name, result, cairn_error_text());
	return refused;
}

static void assert_owner_text(const char *name, pid_t owner)
{
	char text[32];
	snprintf(text, sizeof text, "%ld\n", (long)owner);
	assert_text(name, text);
}

static void a_second_handle_is_refused_by_any_path(void **state)
{
	(void)state;
	struct cairn_lock *lock = take("LOCK");
	assert_int_equal(symlink("LOCK", path_of("symbolic")), 0);
	assert_int_equal(link(path_of("LOCK"), path_of("hard")), 0);
	assert_int_equal(symlink(".", path_of("around")), 0);
	assert_true(refuses("LOCK", getpid()));
	assert_true(refuses("symbolic", getpid()));
	assert_true(refuses("hard", getpid()));
	assert_true(refuses("around/LOCK", getpid()));
	assert_message_has("this process");
	assert_owner_text("LOCK", getpid());
	struct cairn_lock *other = take("LOCK2");
	ops->unlock(lock);
	assert_int_equal(access(path_of("LOCK"), F_OK), 0);
	lock = take("symbolic");
	assert_true(refuses("LOCK", getpid()));
	assert_true(refuses("LOCK2", getpid()));
	ops->unlock(other);
	ops->unlock(lock);
}

static void a_probe_of_a_lock_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(ops->probe_lock(io, path_of("LOCK")), -ENOENT);
	assert_int_equal(access(path_of("LOCK"), F_OK), -1);
	struct cairn_lock *lock = take("LOCK");
	assert_int_equal(ops->probe_lock(io, path_of("LOCK")), CAIRN_LOCKED);
	assert_owner_text("LOCK", getpid());
	ops->unlock(lock);
	assert_int_equal(ops->probe_lock(io, path_of("LOCK")), 0);
	lock = take("LOCK");
	ops->unlock(lock);
}

static int is_refused_by_parent(int in, int out)
{
	(void)in;
	(void)out;
	CHILD_CHECK(refuses("LOCK", getppid()));
	CHILD_CHECK(refuses("symbolic", getppid()));
	return 0;
}

static struct cairn_lock *held_by_parent;

/* Once the lock is out of the child's own table, what refuses is the parent's lock on the file. */
static int is_refused_after_abandoning(int in, int out)
{
	ops->abandon_lock(held_by_parent);
	CHILD_CHECK(!is_refused_by_parent(in, out));
	struct cairn_lock *own;
	CHILD_CHECK(!ops->lock(io, path_of("own"), &own));
	ops->unlock(own);
	return 0;
}

static void a_second_process_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	held_by_parent = take("LOCK");
	assert_int_equal(symlink("LOCK", path_of("symbolic")), 0);
	/* Another descriptor of the file was closed: a lock of the process would be gone now. */
	assert_true(refuses("LOCK", getpid()));
	assert_owner_text("LOCK", getpid());
	assert_int_equal(child_result(is_refused_after_abandoning), 0);
	assert_int_equal(child_result(is_refused_after_abandoning), 0);
	assert_owner_text("LOCK", getpid());
	ops->unlock(held_by_parent);
}

static int lock_and_hang(int in, int out)
{
	struct cairn_lock *lock;
	CHILD_CHECK(!ops->lock(io, path_of("LOCK"), &lock));
	tell(out);
	return hear(in);
}

static void a_killed_owner_is_no_owner(void **state)
{
	(void)state;
	struct child child = start_child(lock_and_hang);
	assert_true(hear(child.from));
	assert_true(refuses("LOCK", child.pid));
	assert_true(refuses("LOCK", child.pid));
	assert_owner_text("LOCK", child.pid);
	kill_child(child);
	ops->unlock(take("LOCK"));
	assert_owner_text("LOCK", getpid());
}

static void an_owner_without_a_pid_is_an_owner(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "0\n", "-5\n", "nobody\n", "12"};
	struct child child = start_child(lock_and_hang);
	assert_true(hear(child.from));
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct cairn_lock *lock;
		put_text("LOCK", texts[i]);
		assert_int_equal(ops->lock(io, path_of("LOCK"), &lock), CAIRN_LOCKED);
		assert_message_has("another process");
		assert_text("LOCK", texts[i]);
	}
	kill_child(child);
}

static void a_lock_file_of_nobody_is_free(void **state)
{
	(void)state;
	put_text("LOCK", "1\nand a long text that somebody left here\n");
	ops->unlock(take("LOCK"));
	assert_owner_text("LOCK", getpid());
}

static void a_lock_that_cannot_be_made_is_a_failure(void **state)
{
	(void)state;
	struct cairn_lock *lock = (struct cairn_lock *)&lock;
	assert_int_equal(ops->lock(io, path_of("x/LOCK"), &lock), -ENOENT);
	assert_null(lock);
	assert_message_has(path_of("x/LOCK"));
	assert_int_equal(ops->lock(io, directory, &lock), -EISDIR);
}

static int abandon_and_hang(int in, int out)
{
	ops->abandon_lock(held_by_parent);
	tell(out);
	return !hear(in);
}

static int hang(int in, int out)
{
	tell(out);
	return !hear(in);
}

static void a_living_child_does_not_keep_the_lock(void **state)
{
	(void)state;
	int (*const bodies[])(int, int) = {abandon_and_hang, hang};
	for (size_t i = 0; i < COUNT(bodies); i++) {
		held_by_parent = take("LOCK");
		struct child child = start_child(bodies[i]);
		assert_true(hear(child.from));
		assert_true(refuses("LOCK", getpid()));
		ops->unlock(held_by_parent);
		struct child next = start_child(lock_and_hang);
		assert_true(hear(next.from));
		assert_true(refuses("LOCK", next.pid));
		kill_child(next);
		tell(child.to);
		assert_int_equal(end_child(child), 0);
	}
}

/* Registered before the back end's own handlers, as a library might be that uses it. */
static bool abandon_in_handler;

static void abandon_when_forked(void)
{
	if (abandon_in_handler)
		ops->abandon_lock(held_by_parent);
}

static void a_fork_handler_can_abandon(void **state)
{
	(void)state;
	held_by_parent = take("LOCK");
	assert_int_equal(symlink("LOCK", path_of("symbolic")), 0);
	abandon_in_handler = true;
	int status = child_result(is_refused_by_parent);
	abandon_in_handler = false;
	assert_int_equal(status, 0);
	ops->unlock(held_by_parent);
}

static bool busy;

static void *lock_and_unlock(void *argument)
{
	const char *path = argument;
	while (__atomic_load_n(&busy, __ATOMIC_RELAXED)) {
		struct cairn_lock *lock;
		if (ops->lock(io, path, &lock))
			return argument;
		ops->unlock(lock);
	}
	return NULL;
}

static int can_lock(int in, int out)
{
	struct cairn_lock *lock;
	(void)in;
	(void)out;
	ops->abandon_lock(held_by_parent);
	CHILD_CHECK(!ops->lock(io, path_of("own"), &lock));
	ops->unlock(lock);
	return 0;
}

static void a_fork_beside_a_locking_thread_finds_the_table_whole(void **state)
{
	(void)state;
	char path[4200];
	snprintf(path, sizeof path, "%s", path_of("busy"));
	held_by_parent = take("LOCK");
	pthread_t thread;
	void *failed;
	__atomic_store_n(&busy, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&thread, NULL, lock_and_unlock, path), 0);
	int status = 0;
	for (int i = 0; i < 30 && !status; i++)
		status = child_result(can_lock);
	__atomic_store_n(&busy, false, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(status, 0);
	ops->unlock(held_by_parent);
}

/* Time and chance. */

static void time_does_not_go_back(void **state)
{
	(void)state;
	uint64_t last = ops->now(io);
	for (int i = 0; i < 1000; i++) {
		uint64_t now = ops->now(io);
		assert_true(now >= last);
		last = now;
	}
}

static void entropy_differs(void **state)
{
	(void)state;
	uint8_t a[300], b[300];
	memset(a, 0, sizeof a);
	memset(b, 0, sizeof b);
	assert_int_equal(ops->entropy(io, a, sizeof a), 0);
	assert_int_equal(ops->entropy(io, b, sizeof b), 0);
	assert_memory_not_equal(a, b, sizeof a);
	assert_memory_not_equal(a + 284, b + 284, 16);
	assert_int_equal(ops->entropy(io, NULL, 0), 0);
}

/* Queues. */

static struct cairn_queue *open_queue(unsigned depth)
{
	struct cairn_queue *queue;
	assert_int_equal(ops->queue_open(io, depth, &queue), 0);
	assert_non_null(queue);
	return queue;
}

static void wait_for_all(struct cairn_queue *queue, size_t expected)
{
	struct cairn_write_request *request;
	for (size_t i = 0; i < expected; i++) {
		assert_int_equal(ops->queue_wait(queue, &request), 0);
		assert_non_null(request);
		assert_int_equal(request->result, 0);
		request->result = 1; /* seen: handed back once */
	}
	assert_int_equal(ops->queue_wait(queue, &request), 0);
	assert_null(request);
}

enum { WRITES = 200, WRITE_MAX = 20000 };

/* `waits_between`: whether some requests are taken back before all are submitted. */
static void queue_writes_arrive(unsigned depth, bool waits_between, uint64_t *random)
{
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	struct cairn_queue *queue = open_queue(depth);
	struct cairn_write_request *requests = calloc(WRITES, sizeof *requests);
	uint8_t *data = malloc((size_t)WRITES * WRITE_MAX), *found;
	assert_true(requests && data);
	size_t total = 0, back = 0;
	for (size_t i = 0; i < WRITES; i++) {
		size_t size = (size_t)(test_random(random) % WRITE_MAX);
		if (i % 10 == 9)
			size = i % 20 == 9 ? 0 : 1;
		for (size_t j = 0; j < size; j++)
			data[total + j] = (uint8_t)test_random(random);
		requests[i] = (struct cairn_write_request){file, data + total, size, total, 2};
		assert_int_equal(ops->queue_submit(queue, &requests[i]), 0);
		total += size;
		if (waits_between && test_random(random) % 2) {
			struct cairn_write_request *request;
			assert_int_equal(ops->queue_wait(queue, &request), 0);
			assert_non_null(request);
			assert_int_equal(request->result, 0);
			request->result = 1;
			back++;
		}
	}
	wait_for_all(queue, WRITES - back);
	for (size_t i = 0; i < WRITES; i++)
		assert_int_equal(requests[i].result, 1);
	ops->queue_close(queue);
	struct cairn_file_status status;
	assert_int_equal(ops->status(file, &status), 0);
	assert_int_equal(status.size, total);
	found = malloc(total);
	assert_non_null(found);
	assert_int_equal(cairn_io_read_exactly(file, found, total, 0), 0);
	assert_memory_equal(found, data, total);
	free(found);
	free(data);
	free(requests);
	ops->close(file);
	assert_int_equal(ops->unlink(io, path_of("a")), 0);
}

static void every_write_of_a_queue_arrives(void **state)
{
	(void)state;
	static const unsigned depths[] = {0, 1, 4, 33};
	uint64_t random = test_seed(20260917);
	for (size_t i = 0; i < COUNT(depths); i++) {
		queue_writes_arrive(depths[i], true, &random);
		queue_writes_arrive(depths[i], false, &random);
	}
}

static void an_empty_queue_has_nothing_to_wait_for(void **state)
{
	(void)state;
	struct cairn_queue *queue = open_queue(4);
	wait_for_all(queue, 0);
	ops->queue_close(queue);
}

static void a_failed_write_stands_in_its_request(void **state)
{
	(void)state;
	put_text("a", "old");
	struct cairn_file *readable = open_file("a", CAIRN_OPEN_READ);
	struct cairn_file *writable = open_file("b", CAIRN_OPEN_CREATE);
	struct cairn_queue *queue = open_queue(4);
	struct cairn_write_request bad = {readable, "new", 3, 0, 2};
	struct cairn_write_request good = {writable, "new", 3, 0, 2};
	struct cairn_write_request *request;
	assert_int_equal(ops->queue_submit(queue, &bad), 0);
	assert_int_equal(ops->queue_submit(queue, &good), 0);
	assert_int_equal(ops->queue_wait(queue, &request), 0);
	assert_true(request == &bad || request == &good);
	struct cairn_write_request *other = request == &bad ? &good : &bad;
	assert_int_equal(ops->queue_wait(queue, &request), 0);
	assert_ptr_equal(request, other);
	assert_int_equal(bad.result, -EBADF);
	assert_message_has(path_of("a"));
	assert_int_equal(good.result, 0);
	ops->queue_close(queue);
	ops->close(readable);
	ops->close(writable);
	assert_text("a", "old");
	assert_text("b", "new");
}

static void close_waits_for_what_is_under_way(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	struct cairn_queue *queue = open_queue(2);
	struct cairn_write_request requests[] = {
	    {file, "hello ", 6, 0, 2}, {file, "wor", 3, 6, 2}, {file, "ld", 2, 9, 2}};
	for (size_t i = 0; i < COUNT(requests); i++)
		assert_int_equal(ops->queue_submit(queue, &requests[i]), 0);
	ops->queue_close(queue);
	for (size_t i = 0; i < COUNT(requests); i++)
		assert_int_equal(requests[i].result, 0);
	assert_text("a", "hello world");
	ops->close(file);
}

struct submission {
	struct cairn_queue *queue;
	struct cairn_write_request *requests;
};

static void *submit_and_end(void *argument)
{
	struct submission *submission = argument;
	for (size_t i = 0; i < 8; i++)
		if (ops->queue_submit(submission->queue, &submission->requests[i]))
			return argument;
	return NULL;
}

static void writes_outlive_the_thread_that_submitted_them(void **state)
{
	(void)state;
	struct cairn_file *file = open_file("a", CAIRN_OPEN_CREATE);
	struct submission submission = {open_queue(8), calloc(8, sizeof *submission.requests)};
	uint8_t *data = malloc(1 << 20);
	assert_true(submission.requests && data);
	memset(data, 0x5a, 1 << 20);
	for (size_t i = 0; i < 8; i++)
		submission.requests[i] =
		    (struct cairn_write_request){file, data, 1 << 20, i << 20, 2};
	pthread_t thread;
	void *failed;
	assert_int_equal(pthread_create(&thread, NULL, submit_and_end, &submission), 0);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	wait_for_all(submission.queue, 8);
	ops->queue_close(submission.queue);
	uint8_t *found = malloc(1 << 20);
	assert_non_null(found);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(cairn_io_read_exactly(file, found, 1 << 20, i << 20), 0);
		assert_memory_equal(found, data, 1 << 20);
	}
	free(found);
	free(data);
	free(submission.requests);
	ops->close(file);
}

#define SUITE(X)                                                \
	X(a_missing_file_is_told_with_its_path)                 \
	X(create_leaves_an_existing_file_alone)                 \
	X(what_is_written_is_read_back)                         \
	X(a_file_opened_for_reading_is_not_written)             \
	X(files_and_locks_are_closed_by_exec)                   \
	X(status_tells_size_and_links)                          \
	X(truncate_cuts_and_extends)                            \
	X(allocate_brings_size_and_blocks_and_keeps_bytes)      \
	X(a_short_file_is_not_read_exactly)                     \
	X(a_map_outlives_its_file)                              \
	X(no_map_reaches_behind_the_file)                       \
	X(stores_into_a_log_map_reach_the_file)                 \
	X(a_log_map_that_cannot_be_populated_says_so)           \
	X(stores_into_a_log_map_survive_sigkill)                \
	X(a_child_does_not_inherit_a_log_map)                   \
	X(a_directory_is_made_once)                             \
	X(rename_replaces)                                      \
	X(link_does_not_replace)                                \
	X(list_names_everything_once)                           \
	X(free_space_is_of_the_file_system)                     \
	X(a_second_handle_is_refused_by_any_path)               \
	X(a_probe_of_a_lock_changes_nothing)                    \
	X(a_second_process_is_refused_and_changes_nothing)      \
	X(a_killed_owner_is_no_owner)                           \
	X(an_owner_without_a_pid_is_an_owner)                   \
	X(a_lock_file_of_nobody_is_free)                        \
	X(a_lock_that_cannot_be_made_is_a_failure)              \
	X(a_living_child_does_not_keep_the_lock)                \
	X(a_fork_handler_can_abandon)                           \
	X(a_fork_beside_a_locking_thread_finds_the_table_whole) \
	X(time_does_not_go_back)                                \
	X(entropy_differs)                                      \
	X(every_write_of_a_queue_arrives)                       \
	X(an_empty_queue_has_nothing_to_wait_for)               \
	X(a_failed_write_stands_in_its_request)                 \
	X(close_waits_for_what_is_under_way)                    \
	X(writes_outlive_the_thread_that_submitted_them)

/* Without a back end there is nothing to run a claim on. */
#define SKIPPING(claim)                         \
	static void uring_##claim(void **state) \
	{                                       \
		if (!io)                        \
			skip();                 \
		claim(state);                   \
	}
SUITE(SKIPPING)

#define ON_POSIX(claim) cmocka_unit_test_setup_teardown(claim, enter, leave),
#define ON_URING(claim) cmocka_unit_test_setup_teardown(uring_##claim, enter, leave),

int main(void)
{
	static const struct CMUnitTest posix[] = {SUITE(ON_POSIX)};
	static const struct CMUnitTest uring[] = {SUITE(ON_URING)};
	signal(SIGPIPE, SIG_IGN);
	if (pthread_atfork(NULL, NULL, abandon_when_forked))
		return 1;
	int failed = cmocka_run_group_tests(posix, open_posix, close_posix);
	return failed + cmocka_run_group_tests(uring, open_uring, close_uring);
}
