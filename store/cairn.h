/*
 * cairn.h -- an embedded, persistent, ordered key/value store.
 *
 * Copyright (c) 2026 the cairn authors. MIT License.
 *
 * A program links cairn and opens a directory; in it, cairn keeps records: keys and values of any
 * bytes, ordered by key. Writes go to a log and a table in memory; full tables become sorted files
 * (runs); a background thread merges runs into a cascade of sizes N, N/4, N/16, … The whole of it:
 *
 *	#include <cairn.h>
 *	#include <stdio.h>
 *
 *	int main(void)
 *	{
 *		cairn *db;
 *		char value[100];
 *		size_t size;
 *		int rc = cairn_open("fruit", NULL, &db);
 *		if (!rc)
 *			rc = cairn_put(db, (cairn_slice){"apple", 5}, (cairn_slice){"red", 3}, 0);
 *		if (!rc)
 *			rc = cairn_get(db, (cairn_slice){"apple", 5}, value, sizeof value, &size);
 *		if (rc)
 *			fprintf(stderr, "%s\n", cairn_message(NULL));
 *		return rc || cairn_close(db);
 *	}
 *
 * RESULTS. Every function that can fail returns int: 0 for success, a positive number for an answer
 * (CAIRN_NOT_FOUND, CAIRN_END), a negative one for a failure: -errno, or one of ours
 * (cairn_status.h). After a failure outputs passed by pointer are NULL or 0; cairn_message() has it
 * in words.
 *
 * SLICES are passed by value and borrowed for the call. Bytes that cairn hands out are read only
 * and say how long they are valid. An empty slice may have NULL data; what cairn hands out never
 * has.
 *
 * ORDER is that of unsigned bytes, a shorter key before a longer one that begins with it.
 *
 * LIMITS. Keys 0 to CAIRN_KEY_MAX bytes, values 0 to CAIRN_VALUE_MAX, batches up to
 * CAIRN_BATCH_MAX, counting 32 bytes for each operation beside key and value. Beyond them:
 * CAIRN_TOO_LARGE before a byte is written.
 *
 * DURABILITY. What an acknowledged write (one whose call returned 0) survives:
 *	mode                  a killed process   a kernel crash or power cut
 *	CAIRN_SYNC_FULL       yes                yes
 *	CAIRN_SYNC_INTERVAL   yes                all but the last interval (100 ms unless set)
 *	CAIRN_SYNC_NONE       yes                all but what was not synced
 * What is lost is always a suffix. In every mode the state found after a crash is the acknowledged
 * history up to some point at or after the last successful sync, with batches whole, and cairn_open
 * needs no flag to find it. A failed sync is final: later writes return CAIRN_FAILED, reads go on,
 * closing and opening again recovers. A write that returned a sync error has an unknown outcome: it
 * may be read and may survive. Damage to bytes that had been made durable is CAIRN_CORRUPT with
 * file and offset, never an answer; one window is open and documented: damage to the last sync
 * group or two of a store that was killed before any later record was written reads as a torn tail.
 *
 * NO SPACE is never final: -ENOSPC, or -EDQUOT where a quota is used up. Puts are refused while the
 * disk has no room for them and for the run that they will become; nothing was written then.
 * Deletes, and batches of nothing else, are still accepted: some thousands of them, from a reserve.
 * Reads go on, and so do flush and close as far as the reserve goes; close leaves in the log,
 * synced, what it cannot write out as a run. What failed is tried again every second at least, so
 * writes work again on the same handle soon after there is room. Deleting gives space back when
 * merges have dropped what was deleted, and a merge needs free space itself. When a sync finds no
 * space, writes are refused until all that the log holds has been written to other files. A store
 * that was closed on a full disk may need free space to be opened for writing.
 *
 * THREADS. Any number of threads may use one handle at once. A view and its iterators belong to one
 * thread at a time. A batch belongs to one thread at a time.
 *
 * PROCESSES. One process has a store open for writing (CAIRN_LOCKED for a second one, or a second
 * handle); any number may have it open read-only beside that. A handle belongs to the process that
 * opened it: after fork the child's calls on it return CAIRN_FORKED and touch nothing.
 *
 * SIGNALS. Runs are read through read-only mappings: when a disk fails to deliver a page of one,
 * the kernel sends SIGBUS, as it does for any mapped file. cairn installs no handler.
 */
#ifndef CAIRN_H
#define CAIRN_H

#include <stddef.h>
#include <stdint.h>

#include "cairn_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAIRN_API __attribute__((visibility("default")))
#else
#define CAIRN_API
#endif

#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 1
#define CAIRN_VERSION_PATCH 0

typedef struct cairn cairn;             /* an open store */
typedef struct cairn_view cairn_view;   /* a consistent point in time */
typedef struct cairn_iter cairn_iter;   /* a place in the order of a view's or table's keys */
typedef struct cairn_batch cairn_batch; /* operations that are written together or not at all */
typedef struct cairn_frozen_table cairn_table;        /* an open frozen table */
typedef struct cairn_table_writer cairn_table_writer; /* one that is being built */

/* ---------------------------------------------------------------- messages */

/* The version of the library that is linked, "0.1.0". */
CAIRN_API const char *cairn_version(void);

/* A few words for a result code; never NULL. For the whole story see cairn_message. Any thread. */
CAIRN_API const char *cairn_strerror(int code);

/*
 * The calling thread's last failure on `db`, or on anything when `db` is NULL (cairn_open that
 * failed, a closed handle), in full: file, offset, cause, what to do. "" when there was none. Valid
 * until the thread's next failure.
 */
CAIRN_API const char *cairn_message(const cairn *db);

/* ---------------------------------------------------------------- options */

/* sync_mode: see DURABILITY above. */
#define CAIRN_SYNC_INTERVAL 0
#define CAIRN_SYNC_FULL     1
#define CAIRN_SYNC_NONE     2

/* io_backend */
#define CAIRN_IO_URING      1
#define CAIRN_IO_POSIX      2

/*
 * A zeroed field is the default. Fill with cairn_options_init, then set what differs. A value that
 * this version does not support makes cairn_open fail with CAIRN_UNSUPPORTED and a message that
 * names it.
 */
typedef struct {
	size_t struct_size; /* set by cairn_options_init; the library reads no further than that */

	/* What to open. Default: the store, made when there is none. */
	int must_exist;     /* not zero: -ENOENT when there is no store */
	int must_not_exist; /* not zero: -EEXIST when there is one */
	int read_only;      /* not zero: never writes, locks, creates or deletes anything */

	/* Behaviour. */
	int sync_mode;             /* CAIRN_SYNC_… */
	unsigned sync_interval_ms; /* for CAIRN_SYNC_INTERVAL; default 100 */
	int no_background; /* not zero: no threads. A write that finds the memtable full flushes it,
			    * and the one that finds the sync interval over syncs; merges happen in
			    * cairn_compact and cairn_wait only. For tests and benchmarks. */

	/* Choices that are stored with the store. 0 keeps what it has (a new one: KV02, no
	 * compression, point indexes); a constant changes it for runs written from now on. Any run
	 * can be read whatever these say. */
	int run_format;  /* CAIRN_KV02; CAIRN_KV03 is not supported yet */
	int compression; /* CAIRN_NO_COMPRESSION; CAIRN_LZ4 is not supported yet */
	int point_index; /* CAIRN_POINT_INDEX: each run has a hash over its keys (7.5 bytes a key
			  * in the file), for single keys; CAIRN_NO_POINT_INDEX */

	/* Tuning. */
	size_t memory_limit;         /* bytes, for cairn's own memory; default 512 MiB; raised to
				      * 2 x memtable_bytes. Until now it only sizes the memtable. */
	size_t memtable_bytes;       /* bytes of memory after which a table becomes a run; default
				      * the smaller of 64 MiB and memory_limit / 8; raised to
				      * 64 KiB, at most 8 GiB */
	uint64_t segment_bytes;      /* largest file of a run; default 512 MiB. Other values are not
				      * supported yet: a run is one file of up to 32 GiB. */
	unsigned background_threads; /* merges at once; default 1, and more has no effect yet */
	int io_backend; /* CAIRN_IO_…; default: io_uring where the kernel gives a ring,
			 * else POSIX */

	/* Called during long work (replay at open, waiting for merges), a few times a second at
	 * most, by the thread that works. `what` is one word, `total` may be 0 for unknown. May be
	 * NULL. Must not call into the store. */
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
	/* Called with one line for what an operator may want to read: recoveries, failures in the
	 * background. May be NULL, may come from any thread, must not call into the store. */
	void (*log)(void *context, const char *line);
	void *callback_context;

	/* Frozen tables only (cairn_table_writer_open). */
	int last_wins; /* not zero: of records with equal keys the one added last is kept; 0: such a
			* key is a failure */
} cairn_options;

/* Zeroes all, sets struct_size. */
CAIRN_API void cairn_options_init(cairn_options *options);

/* ---------------------------------------------------------------- open, close */

/*
 * Opens the store in directory `path`; `options` NULL means all defaults. Nothing of `options`
 * needs to outlive the call but the callback context. After a crash this is where the log is
 * replayed.
 *
 * On success *db is a handle for any thread of this process. On failure *db is NULL and
 * cairn_message(NULL) has the reason: CAIRN_LOCKED (names the pid that has it), CAIRN_CORRUPT (file
 * and offset; also a directory with runs or log records but no MANIFEST), CAIRN_UNSUPPORTED (a
 * newer format, or an option this version does not have), CAIRN_READ_ONLY (opening for writing
 * where nothing can be written), CAIRN_INVALID, -ENOENT, -EEXIST, -errno.
 *
 * A read-only handle sees the state at the moment of the call, replaying the log into memory, and
 * stays there.
 */
CAIRN_API int cairn_open(const char *path, const cairn_options *options, cairn **db);

/*
 * Ends the background work (waits for a step, not for a merge), writes a memtable of more than 128
 * KiB out as a run and leaves a smaller one in the log, syncs the log in every mode, frees the
 * handle. No other thread may be using it.
 *
 * CAIRN_BUSY while a view is open: nothing has changed. Any other failure (of a sync, or of an
 * earlier write) is returned after everything was released all the same. NULL is fine.
 */
CAIRN_API int cairn_close(cairn *db);

/* ---------------------------------------------------------------- writing */

/* Flag for put, delete and write: return only when this and all earlier writes are durable. */
#define CAIRN_SYNC 1u

/*
 * Sets `key` to `value`; deletes `key` (also when it is not there: success). On return the write is
 * visible to every read that begins from now on and acknowledged as the sync mode says. A writer
 * may be slowed while merges are behind.
 *
 * CAIRN_TOO_LARGE, CAIRN_READ_ONLY, -ENOSPC or -EDQUOT (see NO SPACE; from the sync of this write:
 * its outcome is unknown; else nothing was written, and it may be tried again),
 * CAIRN_FAILED (an earlier sync or background write failed, or the sync of this write: then its
 * outcome is unknown; the message has the first cause). A failure of the flush that a full memtable
 * waits for is returned as it is; nothing was written then.
 */
CAIRN_API int cairn_put(cairn *db, cairn_slice key, cairn_slice value, unsigned flags);
CAIRN_API int cairn_delete(cairn *db, cairn_slice key, unsigned flags);

/* An empty batch, or NULL when memory is short. */
CAIRN_API cairn_batch *cairn_batch_new(void);

/* Adds an operation; key and value are copied. A later operation on a key wins over an earlier one.
 * CAIRN_TOO_LARGE (one of the limits would be passed) or -ENOMEM: the batch is as before. */
CAIRN_API int cairn_batch_put(cairn_batch *batch, cairn_slice key, cairn_slice value);
CAIRN_API int cairn_batch_delete(cairn_batch *batch, cairn_slice key);

CAIRN_API void cairn_batch_clear(cairn_batch *batch);         /* empty again, memory kept */
CAIRN_API size_t cairn_batch_count(const cairn_batch *batch); /* operations */
CAIRN_API void cairn_batch_free(cairn_batch *batch);          /* NULL is fine */

/* Writes all operations of the batch as one: readers and crashes see all or none. The batch is not
 * changed and may be written again. Fails as cairn_put does. An empty batch writes nothing (and
 * syncs when asked to). */
CAIRN_API int cairn_write(cairn *db, const cairn_batch *batch, unsigned flags);

/* Returns when every write acknowledged before the call is durable. */
CAIRN_API int cairn_sync(cairn *db);

/* ---------------------------------------------------------------- reading */

/*
 * Reads the value of `key` as of now. On 0 *size is the size of the whole value and the first
 * min(size, capacity) bytes of it are in `buffer`; the whole value was verified. CAIRN_NOT_FOUND,
 * CAIRN_CORRUPT. `buffer` may be NULL when capacity is 0; after anything but 0 its content is
 * undefined.
 */
CAIRN_API int cairn_get(cairn *db, cairn_slice key, void *buffer, size_t capacity, size_t *size);

/*
 * Reads `n` keys as of one moment. `each` is called once per key, in the caller's order, with 0 and
 * the value (valid during the call), or CAIRN_NOT_FOUND or a failure and an empty slice. When it
 * returns non-zero the rest is left out and that is returned. Else returns 0, or the first failure.
 */
CAIRN_API int cairn_multi_get(cairn *db, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context);

/*
 * Opens a view: the state as of now, unchanged by whatever is written later, until it is closed. A
 * view keeps the files and memory that it needs; cairn_stat shows its age. Close views in good
 * time.
 */
CAIRN_API int cairn_view_open(cairn *db, cairn_view **view);

/* CAIRN_BUSY while an iterator of the view is open: nothing has changed. NULL is fine. */
CAIRN_API int cairn_view_close(cairn_view *view);

/*
 * Reads the value of `key` in the view without copying it: *value is valid until the next call on
 * this view or its close. No lock, no allocation. CAIRN_NOT_FOUND, CAIRN_CORRUPT.
 */
CAIRN_API int cairn_view_get(cairn_view *view, cairn_slice key, cairn_slice *value);

/* A part of the key space. NULL fields are open ends; all that are given hold at once. */
typedef struct {
	const cairn_slice *from;   /* inclusive */
	const cairn_slice *to;     /* exclusive */
	const cairn_slice *prefix; /* keys that begin with it */
	unsigned flags;            /* 0 */
} cairn_range;

/*
 * An iterator over the keys of the view inside `range` (NULL: all of them), standing nowhere yet.
 * The range is copied.
 */
CAIRN_API int cairn_iter_open(cairn_view *view, const cairn_range *range, cairn_iter **iter);
CAIRN_API void cairn_iter_close(cairn_iter *iter); /* NULL is fine */

/*
 * Moves. 0: the iterator stands on a record. CAIRN_END: there is none in that direction within the
 * range; it stands nowhere, and a next or prev from there is CAIRN_END again. A failure: it stands
 * nowhere; the next first, last or seek tries afresh.
 */
CAIRN_API int cairn_iter_first(cairn_iter *iter);
CAIRN_API int cairn_iter_last(cairn_iter *iter);
CAIRN_API int cairn_iter_seek(
    cairn_iter *iter, cairn_slice key); /* the first record with a key >= key */
CAIRN_API int cairn_iter_seek_le(
    cairn_iter *iter, cairn_slice key); /* the last record with a key <= key */
CAIRN_API int cairn_iter_next(cairn_iter *iter);
CAIRN_API int cairn_iter_prev(cairn_iter *iter);

/*
 * The record under the iterator, valid until it moves or closes; {NULL, 0} when it stands nowhere.
 * The value is verified at this call: {NULL, 0} when that fails, and then cairn_iter_status and the
 * next move return the failure. An empty value has data that is not NULL.
 */
CAIRN_API cairn_slice cairn_iter_key(const cairn_iter *iter);
CAIRN_API cairn_slice cairn_iter_value(cairn_iter *iter);

/* 0, or the failure of the last move or value. */
CAIRN_API int cairn_iter_status(const cairn_iter *iter);

/* ---------------------------------------------------------------- frozen tables */

/*
 * A frozen table is one file of records that never changes: built once, in one go, then read by any
 * number of processes, without a store around it. It has what a store's runs have: order, a point
 * index, and a checksum on every record that is checked at every read. One table holds up to
 * 32 GiB.
 *
 *	cairn_table_writer *writer;
 *	cairn_table *table;
 *	cairn_slice key = {"apple", 5}, value = {"red", 3};
 *	int rc = cairn_table_writer_open("fruit.kv", NULL, &writer);
 *	if (!rc) {
 *		rc = cairn_table_writer_add(writer, key, value);
 *		int finished = cairn_table_writer_finish(writer);
 *		rc = rc ? rc : finished;
 *	}
 *	if (!rc)
 *		rc = cairn_table_open("fruit.kv", &table);
 *	if (!rc) {
 *		rc = cairn_table_get(table, key, &value);
 *		cairn_table_close(table);
 *	}
 *
 * Messages of all these calls are those of cairn_message(NULL).
 */

/*
 * Begins a table that will be the file `path`. Until it is finished nothing is changed there; what
 * is written meanwhile lies beside it, in files `path`.R.N.tmp with a random R. So writers do not
 * disturb each other, and of several for one path the last to finish wins. A killed build leaves
 * such files behind: they are of no use, and can be removed when no build of that path is running.
 *
 * Of `options`, which may be NULL, these are looked at: run_format, compression, point_index
 * (default: there is one), memory_limit, io_backend, last_wins.
 *
 * Memory: keys in ascending order take little; of others as many as go into half of memory_limit
 * are sorted at a time. Not counted in that: a single record that is larger, and with a point index
 * 24 bytes for each record of the table. Space beside `path`: the table, and when it was built in
 * several parts, because keys did not ascend, as much again.
 *
 * A writer belongs to one thread at a time, and to the process that opened it: in a child of fork,
 * calls on it are CAIRN_FORKED and touch nothing.
 */
CAIRN_API int cairn_table_writer_open(
    const char *path, const cairn_options *options, cairn_table_writer **writer);

/*
 * Adds a record; key and value are copied. Keys may come in any order; ascending is fastest.
 *
 * CAIRN_TOO_LARGE (key or value) and CAIRN_INVALID for a slice without data leave the writer as it
 * was. After any other failure it is failed: add and finish return that failure, and only finish
 * and abort make sense. Among them: CAIRN_INVALID for a key that came before, without last_wins;
 * the message names the key, and it may be a later call, or finish, that finds it. CAIRN_TOO_LARGE
 * when the table would pass 32 GiB, -ENOSPC, -EIO, -ENOMEM.
 */
CAIRN_API int cairn_table_writer_add(
    cairn_table_writer *writer, cairn_slice key, cairn_slice value);

/*
 * Completes the table: it is synced, read back and verified whole, and only then renamed to `path`,
 * durably on 0. A file that was there is replaced in one step; whoever has it open keeps the old
 * one. A table without records is fine. Frees the writer in any case.
 *
 * After a failure `path` is as it was, and nothing is left beside it (unless the disk does not even
 * let files be removed). Only when the last step fails, the rename or the sync of its directory,
 * may the new table stand there, whole.
 */
CAIRN_API int cairn_table_writer_finish(cairn_table_writer *writer);

/* Gives the table up, removes what was written and frees the writer. NULL is fine. */
CAIRN_API void cairn_table_writer_abort(cairn_table_writer *writer);

/*
 * Opens the table at `path`: nothing is written or locked, and the file may be replaced or removed
 * while it is open. It is mapped, not read into memory (see SIGNALS).
 *
 * CAIRN_CORRUPT (file and offset), CAIRN_UNSUPPORTED for a newer format, CAIRN_INVALID for a file
 * that belongs to a store: what it holds may be deleted or out of date there. -ENOENT, -errno.
 */
CAIRN_API int cairn_table_open(const char *path, cairn_table **table);

/* CAIRN_BUSY while an iterator of the table is open: nothing has changed. No other thread may be
 * using it. NULL is fine. */
CAIRN_API int cairn_table_close(cairn_table *table);

/*
 * Reads the value of `key` without copying it: *value is valid until the table is closed. Verified;
 * no lock, no allocation; any number of threads at once, and children of fork. CAIRN_NOT_FOUND,
 * CAIRN_CORRUPT.
 */
CAIRN_API int cairn_table_get(cairn_table *table, cairn_slice key, cairn_slice *value);

/* How many records there are. */
CAIRN_API uint64_t cairn_table_count(const cairn_table *table);

/* As cairn_iter_open, for the keys of a table. Any thread may open one; it then belongs to one
 * thread at a time. */
CAIRN_API int cairn_table_iter_open(
    cairn_table *table, const cairn_range *range, cairn_iter **iter);

/* ---------------------------------------------------------------- shaping */

/* Writes what is in memory out as a run, and waits for that. Durable, log included, on 0. */
CAIRN_API int cairn_flush(cairn *db);

/* Flushes, then merges all runs into one, in the store's format, without tombstones. Takes time
 * and, for its duration, up to as much space again as the store has. */
CAIRN_API int cairn_compact(cairn *db);

/*
 * Returns when nothing is left to do: what was written before is flushed if it holds deletes or
 * overwrites, and every run is at most a quarter of the next older one. A failure of the background
 * work is returned, not waited out. While others keep writing there may always be something left.
 */
CAIRN_API int cairn_wait(cairn *db);

/* ---------------------------------------------------------------- the whole store */

/*
 * Makes a store of its own in the new directory `path` that holds what this one holds now: runs are
 * hard-linked where that is possible and copied elsewhere, the log is flushed first. Synced, and
 * ready to be opened, on 0. -EEXIST when `path` is there; after a failure what was made is removed.
 */
CAIRN_API int cairn_checkpoint(cairn *db, const char *path);

/* One thing that cairn_verify found. */
typedef struct {
	const char *path;    /* the file */
	uint64_t offset;     /* where in it */
	int code;            /* CAIRN_CORRUPT, CAIRN_UNSUPPORTED, -errno */
	const char *message; /* in words */
} cairn_finding;

/*
 * Reads all of the store at `path` and checks everything that can be checked: it need not be closed
 * elsewhere, and nothing is changed. `report` (may be NULL) is called for every finding and stops
 * the work by returning non-zero, which is then returned. 0: all is well. CAIRN_CORRUPT: something
 * was found. `options` may be NULL; only progress and io_backend are looked at.
 */
CAIRN_API int cairn_verify(const char *path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context);

/*
 * Makes a store in the new directory `out_path` of everything that can be proved of the one at
 * `path`, in which nothing is changed and which nobody may have open for writing (CAIRN_LOCKED, or
 * CAIRN_CONFLICT when it was changed meanwhile). 0: it is all there. CAIRN_PARTIAL: the new store
 * was made, and `report` (may be NULL) was called for everything that is missing or in doubt; it
 * stops the work by returning non-zero, which is then returned.
 *
 * What is proved: records whose checksums are right, and of the log what stands before the first
 * damage. A key whose newest record cannot be proved is left out, older values of it included.
 * Where not even keys can be read, older values in that range are kept and reported: they may be
 * out of date or deleted. The same goes for all keys when a whole run or the manifest is lost.
 *
 * -EEXIST when `out_path` is there, CAIRN_CORRUPT when nothing can be recognised, CAIRN_UNSUPPORTED
 * when the manifest is of a newer version; after a failure what was made is removed. `options` may
 * be NULL; io_backend, memory limits, callbacks, the stored choices (0 keeps those of the source)
 * and no_background (while the new store is made) are looked at.
 */
CAIRN_API int cairn_repair(const char *path, const char *out_path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context);

/* ---------------------------------------------------------------- numbers */

#define CAIRN_STAT_RUNS_MAX  64
#define CAIRN_STAT_VIEWS_MAX 16

typedef struct {
	uint64_t bytes;
	uint64_t records; /* tombstones included */
	uint64_t tombstones;
	uint64_t dead_bytes; /* shadowed or deleted by newer runs, estimated from a sixteenth of the
			      * keys */
	int format;          /* CAIRN_KV02, … */
	int compression;     /* CAIRN_NO_COMPRESSION, … */
	unsigned segments;   /* files */
} cairn_run_stats;

typedef struct {
	uint64_t age_ms;
	uint64_t bytes; /* of files and memory that only views keep */
} cairn_view_stats;

typedef struct {
	size_t run_count; /* all of them; the first CAIRN_STAT_RUNS_MAX are described */
	cairn_run_stats runs[CAIRN_STAT_RUNS_MAX]; /* newest first */
	uint64_t memtable_bytes; /* memory of the tables that are not flushed yet */
	uint64_t log_bytes;      /* files of the log, spares included */
	uint64_t index_bytes;    /* files of fractional indexes */
	uint64_t memory_bytes;   /* cairn's own memory */
	const char *io;          /* "io_uring", "posix" */
	int sync_mode;
	size_t view_count; /* all of them; the oldest CAIRN_STAT_VIEWS_MAX are described */
	cairn_view_stats views[CAIRN_STAT_VIEWS_MAX];
	/* Seeks of this handle's iterators in two runs or more; an iterator's are counted now and
	 * then, and when it is closed. */
	uint64_t seeks_indexed;     /* all newer runs were placed by their fractional indexes */
	uint64_t seeks_fallback;    /* some searched by themselves: the sum of the next two, … */
	uint64_t seeks_unindexed;   /* … since a run has no index that can be used, … */
	uint64_t seeks_wide;        /* … or since an index leaves too much of a run there */
	uint64_t log_bytes_written; /* over the store's life */
	uint64_t flush_bytes_written;
	uint64_t merge_bytes_written;
	int last_error; /* of the background work; 0 when its last try went well */
} cairn_stats;

CAIRN_API int cairn_stat(cairn *db, cairn_stats *stats);

/* The same, and the last error in words, as one JSON object. *size is the size of the whole text;
 * like cairn_get it copies what fits, and puts a NUL behind it when there is room. */
CAIRN_API int cairn_stat_json(cairn *db, char *buffer, size_t capacity, size_t *size);

#ifdef __cplusplus
}
#endif

#endif
