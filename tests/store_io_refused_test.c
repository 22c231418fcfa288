/*
 * tests/store_io_refused_test.c -- the back ends on a kernel that refuses, or does things by
 * halves.
 *
 * System calls are refused by a seccomp filter, in a child, since a filter stays for good. What a
 * filter cannot do is done by functions of this program that stand before those of the C library
 * and of liburing (pwrite, pread, fdatasync, fstatfs, io_uring_submit): without orders in `orders`
 * they do what those do.
 */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/error.h"
#include "store/cairn.h"
#include "store/io_posix.h"
#include "store/io_select.h"
#include "store/io_uring.h"
#include "tests/refuse.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* In a child: says what did not hold and ends the function with a failure. */
#define CHILD_CHECK(claim)                                                         \
	do {                                                                       \
		if (!(claim)) {                                                    \
			fprintf(stderr, "child: line %d: %s\n", __LINE__, #claim); \
			return 1;                                                  \
		}                                                                  \
	} while (0)

/* Functions in front of the real ones. */

static struct {
	bool halves;          /* transfers stop after half, every second one with EINTR before it */
	unsigned calls;       /* of transfers while `halves` */
	int sync_errno;       /* fdatasync fails with it */
	unsigned syncs;       /* calls of fdatasync */
	uint32_t file_system; /* fstatfs names this one */
	bool ring_halves;     /* a write of more than 1 byte goes into the ring as half of it */
	bool ring_pipe;       /* entries write to `pipe` in place of their file */
	int pipe;
	int ring_answer;       /* the next entry writes nothing and is answered with this -errno */
	unsigned ring_full;    /* so many submissions are refused with EAGAIN */
	unsigned ring_entries; /* entries that went into rings */
} orders;

/* What to let through of a transfer of `size`: 0 is EINTR. */
static size_t share_of(size_t size)
{
	if (!orders.halves)
		return size;
	if (orders.calls++ % 2 == 0) {
		errno = EINTR;
		return 0;
	}
	return (size + 1) / 2;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
	size_t share = share_of(size);
	return share || !size ? syscall(SYS_pwrite64, descriptor, data, share, offset) : -1;
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset)
{
	size_t share = share_of(size);
	return share || !size ? syscall(SYS_pread64, descriptor, data, share, offset) : -1;
}

int fdatasync(int descriptor)
{
	orders.syncs++;
	errno = orders.sync_errno;
	return errno ? -1 : (int)syscall(SYS_fdatasync, descriptor);
}

int fstatfs(int descriptor, struct statfs *found)
{
	(void)descriptor;
	memset(found, 0, sizeof *found);
	found->f_type = (__typeof__(found->f_type))orders.file_system;
	return 0;
}

/* Follows the orders for one entry; whether its completion is to be replaced. */
static bool change_entry(struct io_uring_sqe *entry)
{
	if (orders.ring_halves && entry->len > 1)
		entry->len /= 2;
	if (orders.ring_pipe) {
		entry->fd = orders.pipe;
		entry->off = 0;
	}
	if (!orders.ring_answer)
		return false;
	uint64_t user_data = entry->user_data;
	io_uring_prep_nop(entry);
	entry->user_data = user_data;
	return true;
}

int io_uring_submit(struct io_uring *ring)
{
	struct io_uring_cqe *completion;
	unsigned head;
	uint64_t replaced = 0;
	if (orders.ring_full) {
		orders.ring_full--;
		return -EAGAIN;
	}
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *entry = &ring->sq.sqes[i & *ring->sq.kring_mask];
		orders.ring_entries++;
		if (change_entry(entry))
			replaced = entry->user_data;
	}
	int result = io_uring_submit_and_wait(ring, 0);
	/* What writes nothing is completed before the call returns. */
	io_uring_for_each_cqe(ring, head, completion)
	{
		if (replaced && completion->user_data == replaced) {
			completion->res = orders.ring_answer;
			orders.ring_answer = 0;
		}
	}
	return result;
}

/* Children under a filter. */

static char directory[4096];

static const char *path_of(const char *name)
{
	static char paths[4][4200];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	return path;
}

static int enter(void **state)
{
	char *made = test_directory();
	snprintf(directory, sizeof directory, "%s", made);
	memset(&orders, 0, sizeof orders);
	*state = made;
	return 0;
}

static int leave(void **state)
{
	memset(&orders, 0, sizeof orders);
	test_remove_directory(*state);
	return 0;
}

/* Runs `body` in a child, its result is the child's exit code; skips where there are no filters. */
static void run_in_child(int (*body)(int code), int code)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(30);
		if (refuse(SYS_acct, REFUSE_ANY_ARGUMENT, EPERM))
			_exit(77);
		_exit(body(code));
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("skipped: this process may not install a seccomp filter\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* Writes through a queue, a file and a lock, and reads it back. */
static int works(struct cairn_io *io)
{
	const struct cairn_io_ops *ops = io->ops;
	struct cairn_lock *lock;
	struct cairn_file *file;
	struct cairn_queue *queue;
	CHILD_CHECK(!ops->lock(io, path_of("LOCK"), &lock));
	CHILD_CHECK(!ops->open(io, path_of("a"), CAIRN_OPEN_CREATE, &file));
	CHILD_CHECK(!ops->queue_open(io, 2, &queue));
	struct cairn_write_request requests[] = {
	    {file, "one ", 4, 0, 9}, {file, "two ", 4, 4, 9}, {file, "three", 5, 8, 9}};
	for (size_t i = 0; i < COUNT(requests); i++)
		CHILD_CHECK(!ops->queue_submit(queue, &requests[i]));
	struct cairn_write_request *request;
	for (size_t i = 0; i < COUNT(requests); i++) {
		CHILD_CHECK(!ops->queue_wait(queue, &request) && request);
		CHILD_CHECK(request->result == 0);
	}
	CHILD_CHECK(!ops->queue_wait(queue, &request) && !request);
	ops->queue_close(queue);
	CHILD_CHECK(!ops->sync(file));
	char found[13];
	CHILD_CHECK(!cairn_io_read_exactly(file, found, sizeof found, 0));
	CHILD_CHECK(!memcmp(found, "one two three", sizeof found));
	ops->close(file);
	ops->unlock(lock);
	CHILD_CHECK(!ops->unlink(io, path_of("a")));
	return 0;
}

static bool ring_is_given(void)
{
	struct cairn_io *io;
	if (cairn_io_uring_open(&io))
		return false;
	cairn_io_uring_close(io);
	return true;
}

static void skip_without_ring(void)
{
	if (!ring_is_given()) {
		printf("skipped: the kernel gives no ring\n");
		skip();
	}
}

/* The choice of a back end. */

static int choose_without_ring(int code)
{
	struct cairn_io *io = (struct cairn_io *)&io;
	unsetenv("CAIRN_IO");
	CHILD_CHECK(!refuse(SYS_io_uring_setup, REFUSE_ANY_ARGUMENT, code));
	CHILD_CHECK(cairn_io_uring_open(&io) == -code && !io);
	CHILD_CHECK(!cairn_io_select(0, &io));
	CHILD_CHECK(!strcmp(io->ops->name, "posix"));
	CHILD_CHECK(!works(io));
	cairn_io_release(io);
	CHILD_CHECK(cairn_io_select(CAIRN_IO_URING, &io) == CAIRN_UNSUPPORTED && !io);
	CHILD_CHECK(strstr(cairn_error_text(), "io_uring"));
	CHILD_CHECK(strstr(cairn_error_text(), strerror(code)));
	CHILD_CHECK(!setenv("CAIRN_IO", "io_uring", 1));
	CHILD_CHECK(cairn_io_select(0, &io) == CAIRN_UNSUPPORTED && !io);
	return 0;
}

static void a_refused_ring_is_ordinary(void **state)
{
	(void)state;
	static const int codes[] = {EPERM, ENOSYS, ENOMEM, EMFILE, EINVAL};
	for (size_t i = 0; i < COUNT(codes); i++)
		run_in_child(choose_without_ring, codes[i]);
}

/* Kernels before 5.6 have rings that cannot say what they can do, and no plain write in them. */
static int choose_with_an_old_ring(int code)
{
	struct cairn_io *io;
	unsetenv("CAIRN_IO");
	CHILD_CHECK(!refuse(SYS_io_uring_register, REFUSE_ANY_ARGUMENT, code));
	CHILD_CHECK(!cairn_io_select(0, &io));
	CHILD_CHECK(!strcmp(io->ops->name, "posix"));
	CHILD_CHECK(!works(io));
	cairn_io_release(io);
	return 0;
}

static void a_ring_of_an_old_kernel_is_not_used(void **state)
{
	(void)state;
	run_in_child(choose_with_an_old_ring, EINVAL);
}

static int lose_the_ring_later(int code)
{
	struct cairn_io *io;
	CHILD_CHECK(!cairn_io_select(CAIRN_IO_URING, &io));
	CHILD_CHECK(!works(io));
	CHILD_CHECK(orders.ring_entries == 3);
	CHILD_CHECK(!refuse(SYS_io_uring_setup, REFUSE_ANY_ARGUMENT, code));
	CHILD_CHECK(!works(io));
	CHILD_CHECK(orders.ring_entries == 3);
	CHILD_CHECK(!strcmp(io->ops->name, "io_uring"));
	cairn_io_release(io);
	return 0;
}

static void a_queue_whose_ring_is_refused_writes_itself(void **state)
{
	(void)state;
	skip_without_ring();
	run_in_child(lose_the_ring_later, ENOMEM);
}

static void the_environment_decides_only_an_open_choice(void **state)
{
	(void)state;
	struct cairn_io *io;
	assert_int_equal(setenv("CAIRN_IO", "posix", 1), 0);
	assert_int_equal(cairn_io_select(0, &io), 0);
	assert_string_equal(io->ops->name, "posix");
	cairn_io_release(io);
	if (ring_is_given()) {
		assert_int_equal(cairn_io_select(CAIRN_IO_URING, &io), 0);
		assert_string_equal(io->ops->name, "io_uring");
		cairn_io_release(io);
		assert_int_equal(setenv("CAIRN_IO", "io_uring", 1), 0);
		assert_int_equal(cairn_io_select(0, &io), 0);
		assert_string_equal(io->ops->name, "io_uring");
		cairn_io_release(io);
		assert_int_equal(setenv("CAIRN_IO", "", 1), 0);
		assert_int_equal(cairn_io_select(0, &io), 0);
		assert_string_equal(io->ops->name, "io_uring");
		cairn_io_release(io);
	}
	assert_int_equal(setenv("CAIRN_IO", "floppy", 1), 0);
	assert_int_equal(cairn_io_select(0, &io), CAIRN_INVALID);
	assert_null(io);
	assert_non_null(strstr(cairn_error_text(), "floppy"));
	assert_int_equal(cairn_io_select(CAIRN_IO_POSIX, &io), 0);
	assert_string_equal(io->ops->name, "posix");
	cairn_io_release(io);
	assert_int_equal(unsetenv("CAIRN_IO"), 0);
	assert_int_equal(cairn_io_select(3, &io), CAIRN_INVALID);
	assert_null(io);
	cairn_io_release(NULL);
}

/* Files and mappings. */

static struct cairn_file *open_file(struct cairn_io **io, const char *name)
{
	struct cairn_file *file;
	if (cairn_io_posix_open(io))
		return NULL;
	return (*io)->ops->open(*io, path_of(name), CAIRN_OPEN_CREATE, &file) ? NULL : file;
}

static void close_file(struct cairn_io *io, struct cairn_file *file)
{
	io->ops->close(file);
	cairn_io_posix_close(io);
}

static int allocate_without_fallocate(int code)
{
	enum { SIZE = 300001, HOLE_END = 200000 };
	struct cairn_io *io;
	struct cairn_file *file = open_file(&io, "a");
	CHILD_CHECK(file && !refuse(SYS_fallocate, REFUSE_ANY_ARGUMENT, code));
	/* Data, a hole, data, and nothing. */
	CHILD_CHECK(!io->ops->write(file, "12345", 5, 0));
	CHILD_CHECK(!io->ops->write(file, "67890", 5, HOLE_END));
	CHILD_CHECK(!io->ops->allocate(file, SIZE));
	CHILD_CHECK(!io->ops->allocate(file, 4));
	struct stat status;
	CHILD_CHECK(!stat(path_of("a"), &status));
	CHILD_CHECK(status.st_size == SIZE && (uint64_t)status.st_blocks * 512 >= SIZE);
	static char found[SIZE];
	CHILD_CHECK(!cairn_io_read_exactly(file, found, SIZE, 0));
	for (size_t i = 0; i < SIZE; i++) {
		char expected = i < 5 ? "12345"[i] : 0;
		if (i >= HOLE_END && i < HOLE_END + 5)
			expected = "67890"[i - HOLE_END];
		CHILD_CHECK(found[i] == expected);
	}
	close_file(io, file);
	CHILD_CHECK(!unlink(path_of("a")));
	return 0;
}

static void a_file_system_without_fallocate_gets_zeros(void **state)
{
	(void)state;
	run_in_child(allocate_without_fallocate, EOPNOTSUPP);
	run_in_child(allocate_without_fallocate, ENOSYS);
}

static int allocate_on_a_full_disk(int code)
{
	struct cairn_io *io;
	struct cairn_file *file = open_file(&io, "a");
	struct cairn_file_status status;
	CHILD_CHECK(file && !refuse(SYS_fallocate, REFUSE_ANY_ARGUMENT, code));
	CHILD_CHECK(io->ops->allocate(file, 65536) == -code);
	CHILD_CHECK(strstr(cairn_error_text(), path_of("a")));
	CHILD_CHECK(!io->ops->status(file, &status) && status.size == 0);
	close_file(io, file);
	return 0;
}

static void no_space_is_not_zero_filled(void **state)
{
	(void)state;
	run_in_child(allocate_on_a_full_disk, ENOSPC);
}

static int populate_is_refused(int code)
{
	struct cairn_io *io;
	uint8_t *memory;
	struct cairn_file *file = open_file(&io, "a");
	CHILD_CHECK(file && !refuse(SYS_madvise, MADV_POPULATE_WRITE, code));
	CHILD_CHECK(!io->ops->allocate(file, 65536));
	CHILD_CHECK(!io->ops->map_log(file, 65536, &memory) && memory);
	int result = io->ops->populate_log(file, 0, 65536);
	if (code == EINVAL)
		CHILD_CHECK(result == 0);
	else
		CHILD_CHECK(result < 0 && strstr(cairn_error_text(), path_of("a")));
	memory[65535] = 1;
	close_file(io, file);
	CHILD_CHECK(!unlink(path_of("a")));
	return 0;
}

static void a_kernel_that_cannot_populate_is_ordinary(void **state)
{
	(void)state;
	run_in_child(populate_is_refused, EINVAL);
	run_in_child(populate_is_refused, EFAULT);
	run_in_child(populate_is_refused, ENOMEM);
}

static void a_log_on_copy_on_write_is_not_mapped(void **state)
{
	(void)state;
	static const uint32_t file_systems[] = {0x9123683eu, 0x2fc12fc1u, 0xca451a4eu};
	struct cairn_io *io;
	struct cairn_file *file = open_file(&io, "a");
	assert_non_null(file);
	assert_int_equal(io->ops->allocate(file, 4096), 0);
	for (size_t i = 0; i < COUNT(file_systems); i++) {
		uint8_t *memory = (uint8_t *)&memory;
		orders.file_system = file_systems[i];
		assert_int_equal(io->ops->map_log(file, 4096, &memory), 0);
		assert_null(memory);
		assert_int_equal(io->ops->populate_log(file, 0, 4096), 0);
		io->ops->unmap_log(file);
	}
	uint8_t *memory;
	orders.file_system = 0xef53; /* ext4 */
	assert_int_equal(io->ops->map_log(file, 4096, &memory), 0);
	assert_non_null(memory);
	close_file(io, file);
}

static void a_failed_sync_is_not_repeated(void **state)
{
	(void)state;
	static const int codes[] = {EIO, EINTR, ENOSPC};
	struct cairn_io *io;
	struct cairn_file *file = open_file(&io, "a");
	assert_non_null(file);
	for (size_t i = 0; i < COUNT(codes); i++) {
		orders.syncs = 0;
		orders.sync_errno = codes[i];
		assert_int_equal(io->ops->sync(file), -codes[i]);
		assert_int_equal(orders.syncs, 1);
		assert_non_null(strstr(cairn_error_text(), path_of("a")));
	}
	close_file(io, file);
}

static void short_and_interrupted_transfers_are_continued(void **state)
{
	(void)state;
	uint8_t data[1000], found[1100];
	size_t done;
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	struct cairn_io *io;
	struct cairn_file *file = open_file(&io, "a");
	assert_non_null(file);
	orders.halves = true;
	assert_int_equal(io->ops->write(file, data, sizeof data, 0), 0);
	assert_int_equal(io->ops->read(file, found, sizeof found, 0, &done), 0);
	assert_true(orders.calls > 20);
	assert_int_equal(done, sizeof data);
	assert_memory_equal(found, data, sizeof data);
	orders.halves = false;
	assert_int_equal(cairn_io_read_exactly(file, found, sizeof data, 0), 0);
	assert_memory_equal(found, data, sizeof data);
	close_file(io, file);
}

/* A write that meets the limit is cut short there, and its rest fails. */
static int write_beyond_the_limit(int backend)
{
	struct cairn_io *io;
	struct cairn_file *file;
	struct cairn_queue *queue;
	uint8_t data[10000] = {0};
	struct rlimit limit = {5000, 5000};
	CHILD_CHECK(!cairn_io_select(backend, &io));
	CHILD_CHECK(!io->ops->open(io, path_of("a"), CAIRN_OPEN_CREATE, &file));
	CHILD_CHECK(!io->ops->queue_open(io, 2, &queue));
	signal(SIGXFSZ, SIG_IGN);
	CHILD_CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	struct cairn_write_request big = {file, data, sizeof data, 0, 9}, *request;
	CHILD_CHECK(!io->ops->queue_submit(queue, &big));
	CHILD_CHECK(!io->ops->queue_wait(queue, &request) && request == &big);
	CHILD_CHECK(big.result == -EFBIG);
	CHILD_CHECK(strstr(cairn_error_text(), path_of("a")));
	struct cairn_file_status status;
	CHILD_CHECK(!io->ops->status(file, &status) && status.size == 5000);
	io->ops->queue_close(queue);
	io->ops->close(file);
	cairn_io_release(io);
	CHILD_CHECK(!unlink(path_of("a")));
	return 0;
}

static void the_failure_of_the_rest_is_the_failure_of_the_write(void **state)
{
	(void)state;
	run_in_child(write_beyond_the_limit, CAIRN_IO_POSIX);
	if (ring_is_given())
		run_in_child(write_beyond_the_limit, CAIRN_IO_URING);
}

/* Rings. */

enum { RING_WRITES = 7, RING_WRITE = 3001 };

struct ring_test {
	struct cairn_io *io;
	struct cairn_file *file;
	struct cairn_queue *queue;
	struct cairn_write_request requests[RING_WRITES];
	uint8_t data[RING_WRITES * RING_WRITE];
};

static void ring_start(struct ring_test *test)
{
	memset(test, 0, sizeof *test);
	assert_int_equal(cairn_io_select(CAIRN_IO_URING, &test->io), 0);
	const struct cairn_io_ops *ops = test->io->ops;
	assert_int_equal(ops->open(test->io, path_of("a"), CAIRN_OPEN_CREATE, &test->file), 0);
	assert_int_equal(ops->queue_open(test->io, 3, &test->queue), 0);
	for (size_t i = 0; i < sizeof test->data; i++)
		test->data[i] = (uint8_t)(i * 5 + i / 256);
	for (size_t i = 0; i < RING_WRITES; i++)
		test->requests[i] = (struct cairn_write_request){
		    test->file, test->data + i * RING_WRITE, RING_WRITE, i * RING_WRITE, 9};
}

static void ring_finish(struct ring_test *test)
{
	const struct cairn_io_ops *ops = test->io->ops;
	struct cairn_write_request *request;
	for (size_t i = 0; i < RING_WRITES; i++) {
		assert_int_equal(ops->queue_wait(test->queue, &request), 0);
		assert_non_null(request);
		assert_int_equal(request->result, 0);
	}
	assert_int_equal(ops->queue_wait(test->queue, &request), 0);
	assert_null(request);
	ops->queue_close(test->queue);
	static uint8_t found[sizeof test->data];
	assert_int_equal(cairn_io_read_exactly(test->file, found, sizeof found, 0), 0);
	assert_memory_equal(found, test->data, sizeof found);
	ops->close(test->file);
	cairn_io_release(test->io);
}

static void ring_submit_all(struct ring_test *test)
{
	for (size_t i = 0; i < RING_WRITES; i++)
		assert_int_equal(test->io->ops->queue_submit(test->queue, &test->requests[i]), 0);
}

static void short_writes_of_a_ring_are_continued(void **state)
{
	(void)state;
	skip_without_ring();
	static struct ring_test test;
	ring_start(&test);
	orders.ring_halves = true;
	ring_submit_all(&test);
	ring_finish(&test);
	assert_true(orders.ring_entries > 10 * RING_WRITES);
}

static void a_write_that_the_kernel_puts_off_is_started_again(void **state)
{
	(void)state;
	skip_without_ring();
	static const int codes[] = {-EAGAIN, -EINTR, -ECANCELED};
	for (size_t i = 0; i < COUNT(codes); i++) {
		static struct ring_test test;
		ring_start(&test);
		orders.ring_entries = 0;
		orders.ring_answer = codes[i];
		ring_submit_all(&test);
		ring_finish(&test);
		assert_int_equal(orders.ring_answer, 0);
		assert_int_equal(orders.ring_entries, RING_WRITES + 1);
		assert_int_equal(unlink(path_of("a")), 0);
	}
}

static void an_entry_that_is_not_taken_at_once_is_offered_again(void **state)
{
	(void)state;
	skip_without_ring();
	static struct ring_test test;
	ring_start(&test);
	orders.ring_full = RING_WRITES;
	ring_submit_all(&test);
	ring_finish(&test);
	assert_int_equal(orders.ring_full, 0);
	assert_int_equal(orders.ring_entries, 0);
}

/* A pipe that takes nothing more, and its other end. */
static void fill_pipe(int ends[2])
{
	static const char byte[1] = "x";
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	while (write(ends[1], byte, 1) == 1)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
}

static int pipe_to_drain;
static volatile sig_atomic_t drained;

static void drain_pipe(int number)
{
	char bytes[4096];
	int before = errno;
	(void)number;
	while (read(pipe_to_drain, bytes, sizeof bytes) > 0)
		drained = 1;
	errno = before;
}

/* The write cannot finish before the signal's handler ran, which interrupts whoever waits for it.
 */
static void a_signal_does_not_end_a_wait(void **state)
{
	(void)state;
	skip_without_ring();
	int ends[2];
	fill_pipe(ends);
	pipe_to_drain = ends[0];
	struct cairn_io *io;
	struct cairn_file *file;
	struct cairn_queue *queue;
	assert_int_equal(cairn_io_select(CAIRN_IO_URING, &io), 0);
	assert_int_equal(io->ops->open(io, path_of("a"), CAIRN_OPEN_CREATE, &file), 0);
	assert_int_equal(io->ops->queue_open(io, 1, &queue), 0);
	struct cairn_write_request only = {file, "12345", 5, 0, 9}, *request;
	orders.pipe = ends[1];
	orders.ring_pipe = true;
	assert_int_equal(io->ops->queue_submit(queue, &only), 0);
	struct sigaction action = {.sa_handler = drain_pipe}, before;
	struct itimerval soon = {.it_value = {0, 1000}, .it_interval = {0, 1000}}, never = {0};
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	int result = io->ops->queue_wait(queue, &request);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_int_equal(result, 0);
	assert_ptr_equal(request, &only);
	assert_int_equal(only.result, 0);
	assert_int_equal(drained, 1);
	io->ops->queue_close(queue);
	io->ops->close(file);
	cairn_io_release(io);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, enter, leave)
	static const struct CMUnitTest tests[] = {
	    TEST(a_refused_ring_is_ordinary),
	    TEST(a_ring_of_an_old_kernel_is_not_used),
	    TEST(a_queue_whose_ring_is_refused_writes_itself),
	    TEST(the_environment_decides_only_an_open_choice),
	    TEST(a_file_system_without_fallocate_gets_zeros),
	    TEST(no_space_is_not_zero_filled),
	    TEST(a_kernel_that_cannot_populate_is_ordinary),
	    TEST(a_log_on_copy_on_write_is_not_mapped),
	    TEST(a_failed_sync_is_not_repeated),
	    TEST(short_and_interrupted_transfers_are_continued),
	    TEST(the_failure_of_the_rest_is_the_failure_of_the_write),
	    TEST(short_writes_of_a_ring_are_continued),
	    TEST(a_write_that_the_kernel_puts_off_is_started_again),
	    TEST(an_entry_that_is_not_taken_at_once_is_offered_again),
	    TEST(a_signal_does_not_end_a_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
