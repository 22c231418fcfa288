/*
 * store/io_posix.c -- format/io.h over the system calls of Linux.
 *
 * Invariants:
 * 1. Transfers are continued until they are whole and repeated after EINTR. A sync is never
 *    repeated, whatever it failed with: the kernel reports a lost page once, so a second sync that
 *    succeeds would prove nothing.
 * 2. A failure is recorded here, with path and call, where errno is at hand.
 * 3. A lock is held by two things at once: an open-file-description lock, which keeps other
 *    processes out and dies with its last descriptor, and an entry in the lock table of this
 *    process, by device and inode, which keeps other handles out by whatever path they come.
 * 4. The lock table's mutex is held across every fork, by the thread that forks, so a child finds
 *    the table whole and the mutex free. It then empties the table: a child holds no lock, not
 *    even one that was just being taken or given back.
 *
 * Threads: as format/io.h says. The lock table is the only state that handles share.
 */
#include "store/io_posix.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "format/error.h"

/* Linux 5.14; the C library's headers may be older than the kernel. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ZERO_FILL_STEP 65536u

/* File systems that write every block to a new place, from statfs(2) and their own sources. */
#define BTRFS_MAGIC    0x9123683eu
#define ZFS_MAGIC      0x2fc12fc1u
#define BCACHEFS_MAGIC 0xca451a4eu

struct posix_file {
	struct cairn_file base;
	int descriptor;
	uint8_t *log; /* NULL: not mapped */
	size_t log_size;
};

static struct posix_file *posix_file_of(struct cairn_file *file)
{
	return (struct posix_file *)file;
}

int cairn_io_posix_descriptor(const struct cairn_file *file)
{
	return ((const struct posix_file *)file)->descriptor;
}

static int call_failed(const char *path, const char *call)
{
	return cairn_error_system(-errno, path, call);
}

static int out_of_memory(const char *path)
{
	return cairn_error_system(-ENOMEM, path, "malloc");
}

static int open_retrying(const char *path, int flags)
{
	int descriptor;
	do
		descriptor = open(path, flags | O_CLOEXEC, 0666);
	while (descriptor < 0 && errno == EINTR);
	return descriptor;
}

/* Files. */

static int posix_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	static const int flags[] = {
	    [CAIRN_OPEN_READ] = O_RDONLY,
	    [CAIRN_OPEN_WRITE] = O_RDWR,
	    [CAIRN_OPEN_CREATE] = O_RDWR | O_CREAT | O_EXCL,
	};
	*file = NULL;
	struct posix_file *opened = calloc(1, sizeof *opened);
	char *copy = strdup(path);
	if (!opened || !copy) {
		free(opened);
		free(copy);
		return out_of_memory(path);
	}
	int descriptor = open_retrying(path, flags[mode]);
	if (descriptor < 0) {
		int result = call_failed(path, "open");
		free(opened);
		free(copy);
		return result;
	}
	opened->base.io = io;
	opened->base.path = copy;
	opened->descriptor = descriptor;
	*file = &opened->base;
	return 0;
}

static void posix_unmap_log(struct cairn_file *file)
{
	struct posix_file *f = posix_file_of(file);
	if (f->log)
		munmap(f->log, f->log_size);
	f->log = NULL;
	f->log_size = 0;
}

static void posix_close(struct cairn_file *file)
{
	if (!file)
		return;
	posix_unmap_log(file);
	close(posix_file_of(file)->descriptor);
	free(file->path);
	free(file);
}

static int posix_status(struct cairn_file *file, struct cairn_file_status *status)
{
	struct stat found;
	*status = (struct cairn_file_status){0, 0};
	if (fstat(posix_file_of(file)->descriptor, &found))
		return call_failed(file->path, "fstat");
	status->size = (uint64_t)found.st_size;
	status->links = (uint64_t)found.st_nlink;
	return 0;
}

static int posix_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	int descriptor = posix_file_of(file)->descriptor;
	size_t have = 0;
	*done = 0;
	while (have < size) {
		ssize_t n =
		    pread(descriptor, (uint8_t *)data + have, size - have, (off_t)(offset + have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return call_failed(file->path, "pread");
		if (n == 0)
			break;
		have += (size_t)n;
	}
	*done = have;
	return 0;
}

static int posix_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	int descriptor = posix_file_of(file)->descriptor;
	size_t done = 0;
	while (done < size) {
		ssize_t n = pwrite(
		    descriptor, (const uint8_t *)data + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO; /* no progress and no reason: do not ask again for ever */
		if (n <= 0)
			return call_failed(file->path, "pwrite");
		done += (size_t)n;
	}
	return 0;
}

static int write_zeros(struct cairn_file *file, uint64_t offset, uint64_t end)
{
	uint8_t *zeros = calloc(1, ZERO_FILL_STEP);
	if (!zeros)
		return out_of_memory(file->path);
	int result = 0;
	while (!result && offset < end) {
		size_t step =
		    end - offset < ZERO_FILL_STEP ? (size_t)(end - offset) : ZERO_FILL_STEP;
		result = posix_write(file, zeros, step, offset);
		offset += step;
	}
	free(zeros);
	return result;
}

/*
 * What fallocate does, for file systems that refuse it: zeros into every hole below `size`, the end
 * of the file being one, and nothing over data.
 */
static int fill_holes(struct cairn_file *file, uint64_t size)
{
	int descriptor = posix_file_of(file)->descriptor;
	uint64_t offset = 0;
	while (offset < size) {
		off_t hole = lseek(descriptor, (off_t)offset, SEEK_HOLE);
		if (hole < 0 && errno == ENXIO)
			hole = (off_t)offset; /* the end of the file */
		if (hole < 0)
			return call_failed(file->path, "lseek");
		off_t data = lseek(descriptor, hole, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return call_failed(file->path, "lseek");
		uint64_t end = data < 0 || (uint64_t)data > size ? size : (uint64_t)data;
		int result = write_zeros(file, (uint64_t)hole, end);
		if (result)
			return result;
		offset = end;
	}
	return 0;
}

static int posix_allocate(struct cairn_file *file, uint64_t size)
{
	if (size == 0)
		return 0;
	int failed;
	do
		failed = fallocate(posix_file_of(file)->descriptor, 0, 0, (off_t)size);
	while (failed && errno == EINTR);
	if (!failed)
		return 0;
	if (errno == EOPNOTSUPP || errno == ENOSYS)
		return fill_holes(file, size);
	return call_failed(file->path, "fallocate");
}

static int posix_truncate(struct cairn_file *file, uint64_t size)
{
	int failed;
	do
		failed = ftruncate(posix_file_of(file)->descriptor, (off_t)size);
	while (failed && errno == EINTR);
	return failed ? call_failed(file->path, "ftruncate") : 0;
}

static int posix_sync(struct cairn_file *file)
{
	return fdatasync(posix_file_of(file)->descriptor) ? call_failed(file->path, "fdatasync")
							  : 0;
}

static void posix_start_writeback(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	(void)sync_file_range(
	    posix_file_of(file)->descriptor, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

/* Mappings. */

/* An access behind the end of the file would be a SIGBUS: refuse to map what is not there. */
static int check_mappable(struct cairn_file *file, size_t size)
{
	struct cairn_file_status status;
	if (size == 0)
		return cairn_error_at(CAIRN_INVALID, file->path, CAIRN_NO_OFFSET,
		    "a mapping of 0 bytes was asked for");
	int result = posix_status(file, &status);
	if (!result && status.size < size)
		result = cairn_error_at(CAIRN_CORRUPT, file->path, status.size,
		    "the file ends here, %zu bytes were expected; restore it from a copy", size);
	return result;
}

static int posix_map(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	*map = (struct cairn_map){NULL, 0};
	int result = check_mappable(file, size);
	if (result)
		return result;
	void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, posix_file_of(file)->descriptor, 0);
	if (data == MAP_FAILED)
		return call_failed(file->path, "mmap");
	*map = (struct cairn_map){data, size};
	return 0;
}

static void posix_unmap(struct cairn_io *io, struct cairn_map *map)
{
	(void)io;
	if (map->data)
		munmap((void *)(uintptr_t)map->data, map->size);
	*map = (struct cairn_map){NULL, 0};
}

/* madvise over the pages that hold a byte of the range; what lies outside the mapping is left out.
 */
static int advise_pages(
    const uint8_t *data, size_t mapped, uint64_t offset, uint64_t size, int advice)
{
	if (offset >= mapped || size == 0)
		return 0;
	uint64_t end = size < mapped - offset ? offset + size : mapped;
	uint64_t start = offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	int failed;
	do
		failed = madvise((void *)(uintptr_t)(data + start), (size_t)(end - start), advice);
	while (failed && errno == EINTR);
	return failed;
}

static void posix_advise(struct cairn_io *io, const struct cairn_map *map, uint64_t offset,
    uint64_t size, enum cairn_advice advice)
{
	static const int advices[] = {
	    [CAIRN_ADVISE_SEQUENTIAL] = MADV_SEQUENTIAL,
	    [CAIRN_ADVISE_RANDOM] = MADV_RANDOM,
	    [CAIRN_ADVISE_NEED] = MADV_WILLNEED,
	    [CAIRN_ADVISE_MAP] = MADV_POPULATE_READ,
	    [CAIRN_ADVISE_DONE] = MADV_DONTNEED,
	};
	(void)io;
	(void)advise_pages(map->data, map->size, offset, size, advices[advice]);
}

/* There a store into a mapping can find no room for the new block, and the answer is SIGBUS. */
static int copies_on_write(struct cairn_file *file, bool *answer)
{
	struct statfs found;
	if (fstatfs(posix_file_of(file)->descriptor, &found))
		return call_failed(file->path, "fstatfs");
	uint32_t magic = (uint32_t)found.f_type;
	*answer = magic == BTRFS_MAGIC || magic == ZFS_MAGIC || magic == BCACHEFS_MAGIC;
	return 0;
}

static int posix_map_log(struct cairn_file *file, size_t size, uint8_t **memory)
{
	struct posix_file *f = posix_file_of(file);
	assert(!f->log);
	bool use_write = false;
	*memory = NULL;
	int result = check_mappable(file, size);
	if (!result)
		result = copies_on_write(file, &use_write);
	if (result || use_write)
		return result;
	void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->descriptor, 0);
	if (data == MAP_FAILED)
		return call_failed(file->path, "mmap");
	if (madvise(data, size, MADV_DONTFORK)) {
		result = call_failed(file->path, "madvise");
		munmap(data, size);
		return result;
	}
	f->log = data;
	f->log_size = size;
	*memory = data;
	return 0;
}

static int posix_populate_log(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	struct posix_file *f = posix_file_of(file);
	if (!f->log || !advise_pages(f->log, f->log_size, offset, size, MADV_POPULATE_WRITE))
		return 0;
	if (errno == EINVAL)
		return 0; /* a kernel without it: the stores fault the pages in themselves */
	if (errno == EFAULT)
		return cairn_error_at(-EIO, file->path, offset,
		    "the pages from here cannot be faulted in; the disk is full or failing");
	return call_failed(file->path, "madvise");
}

/*
 * Writing back a page that is mapped makes the kernel protect it first, with an interrupt of every
 * processor that runs a thread of ours. Taking the pages out of the map beforehand costs one such
 * interrupt for all, not one for each; what they hold stays in the page cache (wal/README.md).
 */
static void posix_settle_log(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	struct posix_file *f = posix_file_of(file);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = (offset + page - 1) & ~(page - 1), to = (offset + size) & ~(page - 1);
	if (f->log && from < to && to <= f->log_size)
		madvise(f->log + from, (size_t)(to - from), MADV_DONTNEED);
}

/* Directories. */

static int two_paths_failed(const char *from, const char *call, const char *to)
{
	int code = -errno;
	char call_and_target[CAIRN_ERROR_TEXT_MAX];
	snprintf(call_and_target, sizeof call_and_target, "%s to %s", call, to);
	return cairn_error_system(code, from, call_and_target);
}

static int posix_make_directory(struct cairn_io *io, const char *path)
{
	(void)io;
	if (!mkdir(path, 0777))
		return 0;
	return errno == EEXIST ? -EEXIST : call_failed(path, "mkdir");
}

static int posix_remove_directory(struct cairn_io *io, const char *path)
{
	(void)io;
	return rmdir(path) ? call_failed(path, "rmdir") : 0;
}

static int posix_rename(struct cairn_io *io, const char *from, const char *to)
{
	(void)io;
	return rename(from, to) ? two_paths_failed(from, "rename", to) : 0;
}

static int posix_link(struct cairn_io *io, const char *from, const char *to)
{
	(void)io;
	return link(from, to) ? two_paths_failed(from, "link", to) : 0;
}

static int posix_unlink(struct cairn_io *io, const char *path)
{
	(void)io;
	return unlink(path) ? call_failed(path, "unlink") : 0;
}

static int posix_sync_directory(struct cairn_io *io, const char *path)
{
	(void)io;
	int descriptor = open_retrying(path, O_RDONLY | O_DIRECTORY);
	if (descriptor < 0)
		return call_failed(path, "open");
	int result = fsync(descriptor) ? call_failed(path, "fsync") : 0;
	close(descriptor);
	return result;
}

static int posix_list(struct cairn_io *io, const char *path,
    int (*each)(void *context, const char *name), void *context)
{
	(void)io;
	DIR *directory = opendir(path);
	if (!directory)
		return call_failed(path, "opendir");
	int result = 0;
	while (!result) {
		errno = 0;
		struct dirent *entry = readdir(directory);
		if (!entry) {
			result = errno ? call_failed(path, "readdir") : 0;
			break;
		}
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			result = each(context, entry->d_name);
	}
	closedir(directory);
	return result;
}

static int posix_free_space(struct cairn_io *io, const char *path, uint64_t *bytes)
{
	struct statvfs found;
	(void)io;
	*bytes = 0;
	int failed;
	do
		failed = statvfs(path, &found);
	while (failed && errno == EINTR);
	if (failed)
		return call_failed(path, "statvfs");
	/* No size at all: the file system does not say. */
	*bytes = found.f_blocks ? (uint64_t)found.f_bavail * found.f_frsize : UINT64_MAX;
	return 0;
}

/* Locks. */

struct posix_lock {
	struct cairn_lock base;
	int descriptor;
	dev_t device;
	ino_t inode;
	struct posix_lock *next;
};

static struct {
	pthread_mutex_t mutex;
	struct posix_lock *first;
} lock_table = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;
static int fork_handlers_result;

static void before_fork(void)
{
	pthread_mutex_lock(&lock_table.mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock_table.mutex);
}

static void after_fork_in_child(void)
{
	for (struct posix_lock *lock = lock_table.first; lock; lock = lock->next)
		close(lock->descriptor);
	lock_table.first = NULL;
	pthread_mutex_unlock(&lock_table.mutex);
}

static void register_fork_handlers(void)
{
	fork_handlers_result =
	    -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static struct posix_lock *find_lock(dev_t device, ino_t inode)
{
	struct posix_lock *lock = lock_table.first;
	while (lock && (lock->device != device || lock->inode != inode))
		lock = lock->next;
	return lock;
}

static void remove_lock(struct posix_lock *lock)
{
	struct posix_lock **place = &lock_table.first;
	while (*place && *place != lock)
		place = &(*place)->next;
	if (*place)
		*place = lock->next;
}

static int set_lock(int descriptor, short type)
{
	struct flock whole_file = {.l_type = type, .l_whence = SEEK_SET};
	int failed;
	do
		failed = fcntl(descriptor, F_OFD_SETLK, &whole_file);
	while (failed && errno == EINTR);
	return failed;
}

/* The pid stands there for people to read; nothing depends on it, a full disk included. */
static void write_owner(int descriptor)
{
	char text[24];
	int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	ssize_t written = pwrite(descriptor, text, (size_t)size, 0);
	int failed = ftruncate(descriptor, written == size ? size : 0);
	(void)failed;
}

static int refused_by_owner(const char *path, int descriptor)
{
	char text[24] = "";
	ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
	char *end = text;
	long pid = size > 0 ? strtol(text, &end, 10) : 0;
	if (pid <= 0 || *end != '\n')
		return cairn_error_at(CAIRN_LOCKED, path, CAIRN_NO_OFFSET,
		    "locked by another process; close it there first");
	return cairn_error_at(
	    CAIRN_LOCKED, path, CAIRN_NO_OFFSET, "locked by pid %ld; close it there first", pid);
}

static int refused_by_self(const char *path)
{
	return cairn_error_at(CAIRN_LOCKED, path, CAIRN_NO_OFFSET,
	    "locked by pid %ld (this process); close it there first", (long)getpid());
}

/* Fills in `lock`, whose descriptor is open, and takes it. The caller holds the table's mutex. */
static int take_lock(struct posix_lock *lock, const char *path)
{
	struct stat found;
	if (fstat(lock->descriptor, &found))
		return call_failed(path, "fstat");
	if (find_lock(found.st_dev, found.st_ino))
		return refused_by_self(path);
	if (set_lock(lock->descriptor, F_WRLCK)) {
		if (errno == EAGAIN || errno == EACCES)
			return refused_by_owner(path, lock->descriptor);
		return call_failed(path, "fcntl(F_OFD_SETLK)");
	}
	write_owner(lock->descriptor);
	lock->device = found.st_dev;
	lock->inode = found.st_ino;
	lock->next = lock_table.first;
	lock_table.first = lock;
	return 0;
}

static int posix_lock(struct cairn_io *io, const char *path, struct cairn_lock **lock)
{
	*lock = NULL;
	pthread_once(&fork_handlers, register_fork_handlers);
	if (fork_handlers_result)
		return cairn_error_system(fork_handlers_result, path, "pthread_atfork");
	struct posix_lock *taken = calloc(1, sizeof *taken);
	if (!taken)
		return out_of_memory(path);
	taken->base.io = io;
	/* Opened under the mutex too: no child may inherit a descriptor that the table does not
	 * know. */
	pthread_mutex_lock(&lock_table.mutex);
	taken->descriptor = open_retrying(path, O_RDWR | O_CREAT);
	int result = taken->descriptor < 0 ? call_failed(path, "open") : take_lock(taken, path);
	if (result && taken->descriptor >= 0)
		close(taken->descriptor);
	pthread_mutex_unlock(&lock_table.mutex);
	if (result)
		free(taken);
	else
		*lock = &taken->base;
	return result;
}

static void posix_unlock(struct cairn_lock *lock)
{
	struct posix_lock *held = (struct posix_lock *)lock;
	if (!held)
		return;
	pthread_mutex_lock(&lock_table.mutex);
	remove_lock(held);
	/* Closing alone would leave it locked while a child has not let go of its share. */
	(void)set_lock(held->descriptor, F_UNLCK);
	close(held->descriptor);
	pthread_mutex_unlock(&lock_table.mutex);
	free(held);
}

/* As take_lock, but nothing is taken. */
static int check_lock(int descriptor, const char *path)
{
	struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat found;
	if (fstat(descriptor, &found))
		return call_failed(path, "fstat");
	if (find_lock(found.st_dev, found.st_ino))
		return refused_by_self(path);
	if (fcntl(descriptor, F_OFD_GETLK, &whole_file))
		return call_failed(path, "fcntl(F_OFD_GETLK)");
	return whole_file.l_type == F_UNLCK ? 0 : refused_by_owner(path, descriptor);
}

static int posix_probe_lock(struct cairn_io *io, const char *path)
{
	(void)io;
	pthread_once(&fork_handlers, register_fork_handlers);
	pthread_mutex_lock(&lock_table.mutex);
	int descriptor = open_retrying(path, O_RDONLY);
	int result = descriptor < 0 ? call_failed(path, "open") : check_lock(descriptor, path);
	if (descriptor >= 0)
		close(descriptor);
	pthread_mutex_unlock(&lock_table.mutex);
	return result;
}

/* after_fork_in_child has done it, or will before fork returns. The memory stays: after a fork of a
 * process with threads, not every allocator can free. */
static void posix_abandon_lock(struct cairn_lock *lock)
{
	(void)lock;
}

/* Time and chance. */

static uint64_t posix_now(struct cairn_io *io)
{
	struct timespec now;
	(void)io;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int posix_entropy(struct cairn_io *io, void *data, size_t size)
{
	(void)io;
	for (size_t done = 0; done < size;) {
		ssize_t n = getrandom((uint8_t *)data + done, size - done, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return call_failed("random numbers", "getrandom");
		done += (size_t)n;
	}
	return 0;
}

/* The queue: a write is over before submit returns. */

int cairn_finished_reserve(struct cairn_finished *finished, size_t total)
{
	if (total <= finished->capacity)
		return 0;
	size_t capacity = finished->capacity ? 2 * finished->capacity : 8;
	if (capacity < total)
		capacity = total;
	void *grown =
	    reallocarray(finished->requests, capacity, sizeof(struct cairn_write_request *));
	if (!grown)
		return out_of_memory("queue of writes");
	finished->requests = grown;
	finished->capacity = capacity;
	return 0;
}

void cairn_finished_push(struct cairn_finished *finished, struct cairn_write_request *request)
{
	assert(finished->count < finished->capacity);
	finished->requests[finished->count++] = request;
}

struct cairn_write_request *cairn_finished_pop(struct cairn_finished *finished)
{
	return finished->count ? finished->requests[--finished->count] : NULL;
}

void cairn_finished_release(struct cairn_finished *finished)
{
	free(finished->requests);
	*finished = (struct cairn_finished){0};
}

struct posix_queue {
	struct cairn_queue base;
	struct cairn_finished finished;
};

static int posix_queue_open(struct cairn_io *io, unsigned depth, struct cairn_queue **queue)
{
	*queue = NULL;
	struct posix_queue *opened = calloc(1, sizeof *opened);
	if (!opened)
		return out_of_memory("queue of writes");
	int result = cairn_finished_reserve(&opened->finished, depth);
	if (result) {
		free(opened);
		return result;
	}
	opened->base.io = io;
	*queue = &opened->base;
	return 0;
}

static int posix_queue_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	struct cairn_finished *finished = &((struct posix_queue *)queue)->finished;
	int result = cairn_finished_reserve(finished, finished->count + 1);
	if (result)
		return result;
	request->result = posix_write(request->file, request->data, request->size, request->offset);
	cairn_finished_push(finished, request);
	return 0;
}

static int posix_queue_wait(struct cairn_queue *queue, struct cairn_write_request **request)
{
	*request = cairn_finished_pop(&((struct posix_queue *)queue)->finished);
	return 0;
}

static void posix_queue_close(struct cairn_queue *queue)
{
	if (!queue)
		return;
	cairn_finished_release(&((struct posix_queue *)queue)->finished);
	free(queue);
}

const struct cairn_io_ops cairn_io_posix_ops = {
    .name = "posix",
    .open = posix_open,
    .close = posix_close,
    .status = posix_status,
    .read = posix_read,
    .write = posix_write,
    .allocate = posix_allocate,
    .truncate = posix_truncate,
    .sync = posix_sync,
    .start_writeback = posix_start_writeback,
    .map = posix_map,
    .unmap = posix_unmap,
    .advise = posix_advise,
    .map_log = posix_map_log,
    .populate_log = posix_populate_log,
    .settle_log = posix_settle_log,
    .unmap_log = posix_unmap_log,
    .make_directory = posix_make_directory,
    .remove_directory = posix_remove_directory,
    .rename = posix_rename,
    .link = posix_link,
    .unlink = posix_unlink,
    .sync_directory = posix_sync_directory,
    .list = posix_list,
    .free_space = posix_free_space,
    .lock = posix_lock,
    .unlock = posix_unlock,
    .probe_lock = posix_probe_lock,
    .abandon_lock = posix_abandon_lock,
    .now = posix_now,
    .entropy = posix_entropy,
    .queue_open = posix_queue_open,
    .queue_submit = posix_queue_submit,
    .queue_wait = posix_queue_wait,
    .queue_close = posix_queue_close,
};

int cairn_io_posix_open(struct cairn_io **io)
{
	*io = calloc(1, sizeof **io);
	if (!*io)
		return out_of_memory("I/O back end");
	(*io)->ops = &cairn_io_posix_ops;
	return 0;
}

void cairn_io_posix_close(struct cairn_io *io)
{
	free(io);
}
