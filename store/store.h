/*
 * store/store.h -- the inside of an open store: what the files of store/ share.
 *
 * Locks, in the order in which they may be taken (README.md, "Threads"):
 *
 *	flush_lock    one flush at a time
 *	merge_lock    one merge at a time
 *	publish_lock  one manifest at a time; guards `manifest`, and `busy` … `unindexable` of runs
 *	write_lock    appends, the set's replacement, views
 *	leaf mutexes  error_mutex, progress_mutex, those inside modules
 */
#ifndef CAIRN_STORE_STORE_H
#define CAIRN_STORE_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "format/error.h"
#include "format/io.h"
#include "store/cairn.h"
#include "store/event.h"
#include "store/obsolete.h"
#include "store/seek.h"
#include "store/version.h"
#include "wal/log_writer.h"

#define CAIRN_CLOSE_FLUSH_BYTES 131072u      /* close leaves a smaller memtable in the log */
#define CAIRN_SEALED_MAX        2u           /* memtables that may wait for their flush */
#define CAIRN_REST_NS           2000000000u  /* no write for this long: at rest */
#define CAIRN_STEP_BYTES        (256u << 10) /* of output between two looks at `closing` */
#define CAIRN_PUBLISH_ROOM      (64u << 10)  /* on disk: a manifest, a run but its records */
#define CAIRN_RESERVE_LEAST     (256u << 10) /* the log's reserve is as long as a memtable … */
#define CAIRN_RESERVE_MOST      (1u << 20)   /* … between these */

/* One background thread; `wake` ends its wait. */
struct cairn_worker {
	struct cairn *db;
	pthread_t thread;
	bool started;
	struct cairn_event wake;
};

/* The last failure of a kind of background work. `code` 0: its last try went well. */
struct cairn_trouble {
	_Atomic int code;
	uint64_t retry_at; /* io clock; guarded by the lock of that work */
	uint64_t backoff;
	char text[CAIRN_ERROR_TEXT_MAX]; /* guarded by error_mutex */
};

struct cairn {
	/* Immutable after open. */
	struct cairn_io *io;
	bool own_io;
	char *directory;
	cairn_options options; /* every field resolved to its real value */
	bool read_only;
	size_t log_reserve; /* what the log keeps for deletes on a full disk (wal/log_writer.h) … */
	size_t table_reserve; /* … and every memtable, which takes more for each */
	struct cairn_identity identity;
	uint32_t fork_generation;
	struct cairn_lock *lock;
	struct cairn
	    *next_open; /* the process's list of handles; guarded by its own lock (fork.c) */

	/* The read side. Swapped under write_lock, loaded in an epoch or under write_lock. */
	_Atomic(struct cairn_set *) set;
	_Atomic uint64_t sequence; /* last published operation */
	struct cairn_epoch_list retired;

	/* Guarded by write_lock. */
	struct cairn_write_lock write_lock;
	struct cairn_view *views; /* oldest first */
	struct cairn_view *views_last;
	size_t view_count;
	uint64_t *view_sequences; /* ascending, one per view, with room for one more */
	size_t view_capacity;
	uint64_t pace_owed_ns;
	uint64_t next_sync_at; /* io clock; no_background with sync interval only */
	struct cairn_table *spare_table;
	struct cairn_set *next_set; /* while a manifest is made durable: room for the set to show
				     * then, large enough for the current one's tables */

	/* Log. */
	struct cairn_log *log;
	_Atomic uint64_t next_number;
	atomic_bool log_ready; /* a durable manifest names the log: records may be acknowledged. Set
				* under publish_lock; cleared under publish_lock and write_lock */

	/* Guarded by publish_lock. Its runs are not kept here but in the set's version. */
	pthread_mutex_t publish_lock;
	struct cairn_manifest manifest;
	uint64_t
	    log_bytes_counted; /* of the log's bytes written, those in manifest.log_bytes_written */
	bool recovering;       /* replay is under way: the manifest's log fields stay as they are */

	/* Background. */
	pthread_mutex_t flush_lock;
	pthread_mutex_t merge_lock;
	struct cairn_worker flusher;
	struct cairn_worker merger;
	struct cairn_worker log_keeper; /* prepares segments, faults memory in */
	struct cairn_worker syncer;
	atomic_bool closing;
	atomic_bool failed;              /* sticky: no more writes */
	_Atomic int64_t pace_ns_per_kib; /* delay owed by each KiB written; 0 = none */
	atomic_bool resting;             /* no writes for a while: nothing is prepared ahead */
	uint64_t rest_sequence; /* merger only: sequence at the last look, and since when */
	uint64_t rest_since;
	uint64_t synced_sequence; /* syncer only: what it has synced, and left a mark behind */
	uint64_t marked_sequence;
	struct cairn_trouble flush_trouble;
	struct cairn_trouble merge_trouble;
	struct cairn_trouble index_trouble;
	struct cairn_seek_counts seeks;
	char failed_text[CAIRN_ERROR_TEXT_MAX]; /* guarded by error_mutex */
	pthread_mutex_t error_mutex;
	pthread_mutex_t
	    progress_mutex; /* with progress_cond: a flush or merge ended, well or not */
	pthread_cond_t progress_cond;
	uint64_t progress_count;

	struct cairn_obsolete obsolete;
};

/* message.c. Keeps the thread's message for `db` when rc < 0; returns rc. Every public function
 * ends in it. */
int cairn_report(const struct cairn *db, int rc);
void cairn_forget_messages(const struct cairn *db);

/* fork.c. Counted up in the child of every fork. */
extern _Atomic uint32_t cairn_fork_generation;
/* Whether the parent of this process opened it. Inline: iterators ask for every record. */
static inline bool cairn_is_inherited(const struct cairn *db)
{
	return db->fork_generation !=
	       atomic_load_explicit(&cairn_fork_generation, memory_order_relaxed);
}
void cairn_fork_register(struct cairn *db);
/* The generation of this process, counted up in children from now on: for what is no handle. */
uint32_t cairn_fork_watch(void);
void cairn_fork_unregister(struct cairn *db);

/* 0, or the reason why no call on this handle may go on: CAIRN_INVALID for NULL, CAIRN_FORKED. */
int cairn_check_handle(const struct cairn *db);

/* open.c: cairn_open on a given I/O layer, which the caller keeps; for tests. */
int cairn_open_with(
    struct cairn_io *io, const char *path, const cairn_options *options, struct cairn **db);

/* open.c: CAIRN_CORRUPT when the directory holds data and no MANIFEST, -ENOENT when it is missing,
 * 0 when nothing is lost. */
int cairn_check_headless(struct cairn_io *io, const char *directory);
/* verify.c: cairn_verify on a given I/O layer, with resolved options; for tests as well. */
int cairn_verify_with(struct cairn_io *io, const char *path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context);

/* repair.c: cairn_repair on a given I/O layer, with resolved options; for tests as well. */
int cairn_repair_with(struct cairn_io *io, const char *path, const char *out_path,
    const cairn_options *options, int (*report)(void *context, const cairn_finding *finding),
    void *context);

/* checkpoint.c: removes a directory that was just made, with all that a store has in it, because of
 * the failure `rc`, whose message stays. Returns rc. */
int cairn_remove_new_store(struct cairn_io *io, const char *directory, int rc);

/* recover.c. The state that the log holds, into tables and runs; for a writing handle a fresh log
 * and manifest. */
int cairn_recover(struct cairn *db);
/* The log fields of a manifest as the reader wants them. */
struct cairn_log_start;
void cairn_log_start_of(const struct cairn_manifest *manifest, struct cairn_log_start *start);

/* publish.c. All need publish_lock held, and return CAIRN_FAILED when the handle is. */

/*
 * Makes `version` with the manifest's other fields the durable manifest, then shows it to readers:
 * replaces the set's version and drops `flushed` (NULL: none) from its sealed tables. After a
 * failure nothing has changed, unless the handle is now failed. `obsoleted` are runs that the new
 * manifest no longer names.
 */
int cairn_publish(struct cairn *db, struct cairn_version *version, struct cairn_table *flushed,
    struct cairn_run *const *obsoleted, size_t obsoleted_count);
/* Starts the log if it is not, durably named by a manifest; `urgent` as in wal/log_writer.h. */
int cairn_publish_log_start(struct cairn *db, bool urgent);
/* The manifest of a store just recovered: its log, when it is started, begins at `log_position`. */
int cairn_publish_recovered(struct cairn *db, uint64_t log_position);
/* A manifest that says what of the log is durable now: damage to it will be told from a torn tail.
 */
int cairn_publish_durable(struct cairn *db);
/* Ends the log when nothing unflushed is in it; 1 when it did, 0 when it could not. */
int cairn_publish_log_end(struct cairn *db);
/* The handle is failed from now on, with the thread's message as the reason; returns CAIRN_FAILED.
 */
int cairn_fail_handle(struct cairn *db);
/* What a failure of the log means: as above, but that a flush cures "no space", which is `code`
 * again; the flusher is woken. */
int cairn_log_failed(struct cairn *db, int code);
/* CAIRN_FAILED with the first cause as message. */
int cairn_failed_error(struct cairn *db);
/* Swaps the set [write_lock]. Takes the reference over. */
void cairn_replace_set(struct cairn *db, struct cairn_set *set);
/* The current version, with a reference. */
struct cairn_version *cairn_current_version(struct cairn *db);

/* flush.c */
/* Seals the active table when it is not empty. 0, or -ENOMEM. [write_lock] */
int cairn_seal(struct cairn *db);
/* Flushes the oldest sealed table: 1 when it did, 0 when there was none, or a failure. Takes
 * flush_lock. */
int cairn_flush_step(struct cairn *db);
/*
 * Flushes all that was written before the call, and not what others go on writing. A log that "no
 * space" has stopped ends with that: the next write starts another.
 */
int cairn_flush_all(struct cairn *db);
/* The most that flushes of all that is not flushed take on the disk. */
uint64_t cairn_flush_room(struct cairn *db);
/* A new table that can take `operations` of `bytes`, the active one from now on, not yet in a set.
 */
struct cairn_table *cairn_new_table(struct cairn *db, size_t operations, size_t bytes);

/* compact.c */
/* One merge, if one is due: 1, 0 or a failure. Takes merge_lock. */
int cairn_merge_step(struct cairn *db, bool at_rest);

/* index.c */
/* Gives a fractional index to one run that could have one and has none: 1, 0 when there is no such
 * run, or a failure. Takes merge_lock. */
int cairn_index_step(struct cairn *db);

/* background.c */
int cairn_background_start(struct cairn *db);
void cairn_background_stop(struct cairn *db);
/* One piece of any background work that is due now by the clock of `io`: 1, 0 or a failure. For
 * tests. */
int cairn_background_step(struct cairn *db);
/* Wakes whoever waits for a flush or merge to end. */
void cairn_progress(struct cairn *db);
void cairn_trouble_note(struct cairn *db, struct cairn_trouble *trouble, int rc);
void cairn_update_pace(struct cairn *db);
void cairn_log_line(struct cairn *db, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
