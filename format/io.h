/*
 * format/io.h -- everything cairn needs from an operating system, as an interface.
 *
 * format/, wal/ and compaction/ are handed a `struct cairn_io *` and cannot tell what stands behind
 * it: the POSIX back end, the io_uring back end (both in store/), or a simulated disk in a test.
 *
 * Conventions. Every function returns 0, or a negative code with the message recorded
 * (format/error.h) unless it says otherwise. Output pointers are NULL or 0 after a failure. EINTR
 * and short transfers are handled below this line. Paths are NUL terminated; files are opened
 * close-on-exec. A cairn_io may be used from any thread; a file, map or queue from one thread at a
 * time, except that `read`, `sync` and `status` on one file may run beside each other and beside
 * stores into its log map.
 *
 * What is durable. Bytes of a file (written by `write`, by a queue or through a log map) once a
 * `sync` of that file that began after them returned 0; the size and the existence of blocks count
 * as bytes. A directory entry (create, rename, link, unlink) once a `sync_directory` that began
 * after it returned 0. Nothing else is. A killed process loses nothing that was stored into a log
 * map.
 */
#ifndef CAIRN_FORMAT_IO_H
#define CAIRN_FORMAT_IO_H

#include "format/base.h"

struct cairn_io {
	const struct cairn_io_ops *ops;
};

/* An implementation puts these at the start of its own structs. `path` is owned by the file. */
struct cairn_file {
	struct cairn_io *io;
	char *path;
};

struct cairn_queue {
	struct cairn_io *io;
};

struct cairn_lock {
	struct cairn_io *io;
};

/* A read-only mapping of a whole file. It outlives the file that it was made from. */
struct cairn_map {
	const uint8_t *data;
	size_t size;
};

enum cairn_open_mode {
	CAIRN_OPEN_READ,   /* must exist */
	CAIRN_OPEN_WRITE,  /* read and write, must exist */
	CAIRN_OPEN_CREATE, /* read and write, must not exist (-EEXIST) */
};

struct cairn_file_status {
	uint64_t size;
	uint64_t links;
};

/* What a mapping will be used for next: a hint, never an error. */
enum cairn_advice {
	CAIRN_ADVISE_SEQUENTIAL,
	CAIRN_ADVISE_RANDOM,
	CAIRN_ADVISE_NEED, /* soon: start reading */
	CAIRN_ADVISE_MAP,  /* now: read, and map in one go what single faults would */
	CAIRN_ADVISE_DONE, /* not again soon */
};

/*
 * One write of a queue. The caller owns the request and its bytes and leaves both alone from submit
 * until wait hands the request back. `result` is 0 when all of it was written, or negative.
 */
struct cairn_write_request {
	struct cairn_file *file;
	const void *data;
	size_t size;
	uint64_t offset;
	int result;
};

struct cairn_io_ops {
	const char *name; /* "posix", "io_uring": shown by stat */

	/* Files. -ENOENT when a file that must exist does not. */
	int (*open)(struct cairn_io *io, const char *path, enum cairn_open_mode mode,
	    struct cairn_file **file);
	void (*close)(struct cairn_file *file);
	int (*status)(struct cairn_file *file, struct cairn_file_status *status);
	/* Reads up to `size` bytes; *done is smaller only at the end of the file. */
	int (*read)(
	    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done);
	int (*write)(struct cairn_file *file, const void *data, size_t size, uint64_t offset);
	/* Makes the file `size` bytes long with blocks behind them all: later stores into a map
	 * find room. */
	int (*allocate)(struct cairn_file *file, uint64_t size);
	int (*truncate)(struct cairn_file *file, uint64_t size);
	int (*sync)(struct cairn_file *file);
	/* Starts writing the range back, waits for nothing. A hint. */
	void (*start_writeback)(struct cairn_file *file, uint64_t offset, uint64_t size);

	/* Read-only mapping of the first `size` bytes (which the file has). */
	int (*map)(struct cairn_file *file, size_t size, struct cairn_map *map);
	void (*unmap)(struct cairn_io *io, struct cairn_map *map);
	void (*advise)(struct cairn_io *io, const struct cairn_map *map, uint64_t offset,
	    uint64_t size, enum cairn_advice advice);

	/*
	 * Writable shared mapping of a log segment, `size` bytes, not inherited by fork. One per
	 * file. 0 with *memory NULL means: this file system is better served by `write` (copy on
	 * write).
	 */
	int (*map_log)(struct cairn_file *file, size_t size, uint8_t **memory);
	/* Faults the pages of the range in, so that stores will not wait. The only place where a
	 * bad disk can answer with a code instead of a signal. */
	int (*populate_log)(struct cairn_file *file, uint64_t offset, uint64_t size);
	/* No more stores will go to the range (inner whole pages of it count): a hint that makes
	 * the next sync cheaper for the threads that store elsewhere in the map. */
	void (*settle_log)(struct cairn_file *file, uint64_t offset, uint64_t size);
	void (*unmap_log)(struct cairn_file *file);

	/* Directories. rename replaces `to`; link fails with -EEXIST. */
	int (*make_directory)(struct cairn_io *io, const char *path);
	int (*remove_directory)(struct cairn_io *io, const char *path); /* must be empty */
	int (*rename)(struct cairn_io *io, const char *from, const char *to);
	int (*link)(struct cairn_io *io, const char *from, const char *to);
	int (*unlink)(struct cairn_io *io, const char *path);
	int (*sync_directory)(struct cairn_io *io, const char *path);
	/* Calls `each` with every name but "." and ".."; stops at its first non-zero return and
	 * returns it. */
	int (*list)(struct cairn_io *io, const char *path,
	    int (*each)(void *context, const char *name), void *context);
	/* UINT64_MAX where nobody can tell. */
	int (*free_space)(struct cairn_io *io, const char *path, uint64_t *bytes);

	/*
	 * Exclusive lock on the file `path`, created when missing. CAIRN_LOCKED, with the owner's
	 * pid in the message, when another process or another handle of this one holds it (the same
	 * file by another path included). The file is left behind by unlock.
	 */
	int (*lock)(struct cairn_io *io, const char *path, struct cairn_lock **lock);
	void (*unlock)(struct cairn_lock *lock);
	/* CAIRN_LOCKED, as from `lock`, when somebody holds it, 0 when nobody does; -ENOENT without
	 * such a file. Changes nothing. */
	int (*probe_lock)(struct cairn_io *io, const char *path);
	/* In a forked child: lets go of the child's share without unlocking for the parent. */
	void (*abandon_lock)(struct cairn_lock *lock);

	/* Monotonic nanoseconds; random bytes that no other store has. */
	uint64_t (*now)(struct cairn_io *io);
	int (*entropy)(struct cairn_io *io, void *data, size_t size);

	/*
	 * A queue of writes, `depth` of them under way at once at most. submit may wait for room;
	 * wait returns one finished request, in any order, or *request NULL when none is under way.
	 * Failures of single writes stand in their requests. close waits for those under way; how
	 * they end is not told.
	 */
	int (*queue_open)(struct cairn_io *io, unsigned depth, struct cairn_queue **queue);
	int (*queue_submit)(struct cairn_queue *queue, struct cairn_write_request *request);
	int (*queue_wait)(struct cairn_queue *queue, struct cairn_write_request **request);
	void (*queue_close)(struct cairn_queue *queue);
};

/*
 * Reads exactly `size` bytes or fails: CAIRN_CORRUPT, naming file and offset, when the file is
 * shorter.
 */
int cairn_io_read_exactly(struct cairn_file *file, void *data, size_t size, uint64_t offset);

/*
 * Removes a file that a failure with `code` left behind. Returns `code`, and its message stays,
 * whatever comes of the removal: nothing names the file, and the next open of the store removes it.
 */
int cairn_io_remove_remains(struct cairn_io *io, const char *path, int code);

#endif
