/*
 * wal/log_writer.h -- the write-ahead log of one open store: append, group commit, segments.
 *
 * Terms (bytes and positions: format/log_record.h). *Live* segments hold records that may still be
 * needed. The *current* one takes appends. A *spare* is prepared: header written and synced,
 * renamed, directory synced; it becomes current when the current one is full. The *reserve* is a
 * file that only has its blocks: on a full disk it becomes a segment for *urgent* records, those
 * that give space back. Segments are preallocated and mapped; an append is a copy into the mapping,
 * no system call. Where the file system refuses (cairn_io map_log), it is one write.
 *
 * Invariants.
 * (1) A segment's header is durable under its name before its first record is stored.
 * (2) A record's header is stored after its body, so a killed process leaves whole records only.
 * (3) durable() never passes a byte that no successful sync covers; a sync covers all older
 *     segments first.
 * (4) After a failed sync, a failed append through `write`, or when the disk cannot bring a page of
 *     the mapping in, the log is stopped: every later append, and every later sync of what is not
 *     durable yet, returns the same code with the first cause in the message; nothing is retried.
 *     The code is CAIRN_FAILED, and final; or -ENOSPC or -EDQUOT from a sync, until the log is
 *     dropped because all that it held is in runs.
 * (5) A file with more than one link is never recycled: a checkpoint or a person holds it.
 * (6) A recycled file gets its new header, synced, under its new name before its first new record.
 * (7) A record that is not urgent goes into the second half of a segment, or into another segment,
 *     only while a reserve is kept: a full disk is met with room for urgent ones.
 * (8) A segment is made for records that are not urgent only while the disk has room for a run of
 *     all that the log will hold then: a log that has filled the disk can still be emptied.
 *
 * Threads. Functions marked [writer] are called by one thread at a time: the holder of the store's
 * write lock. All others may be called from any thread at any time.
 */
#ifndef CAIRN_WAL_LOG_WRITER_H
#define CAIRN_WAL_LOG_WRITER_H

#include <stdatomic.h>

#include "format/io.h"
#include "format/log_record.h"

struct cairn_log;

struct cairn_log_config {
	struct cairn_io *io;
	const char *directory; /* copied */
	struct cairn_identity identity;
	uint64_t segment_min;  /* size of the first segment; each next is twice as long … */
	uint64_t segment_max;  /* … up to this. A longer record gets a segment of its own size. */
	uint64_t reserve_size; /* of the reserve; 0: none is kept */
	bool populate_far;     /* no syncs are likely: fault whole segments in ahead, else 1 MiB */
	/* Numbers for new files: the next one is fetched and incremented. */
	_Atomic uint64_t *next_number;
	/* Called [writer] when cairn_log_prepare has something to do; may be NULL. Must not block.
	 */
	void (*wake)(void *context);
	void *wake_context;
};

/* A log without a segment. 0 or -ENOMEM. */
int cairn_log_open(const struct cairn_log_config *config, struct cairn_log **log);

/* Whether it has a current segment. [writer] */
bool cairn_log_started(const struct cairn_log *log);

/*
 * Makes the first segment (no predecessor; ordinal 1, or the next one when a log was dropped
 * before, so that positions never go back), durable, with its LINK; base sequence `sequence`. The
 * caller must make a manifest that names it durable before it acknowledges a record. [writer]
 * -ENOSPC (after trying smaller sizes down to 256 KiB) or another failure: still not started, not
 * failed. `urgent` as for cairn_log_reserve.
 */
int cairn_log_start(struct cairn_log *log, uint64_t sequence, bool urgent);

/*
 * Room for a WRITE record with `body_size` bytes: *body is where to put them. Rotates to the spare,
 * or makes one on the spot, when the current segment is too full; for an `urgent` record also to
 * the reserve. -ENOSPC is not sticky: it works again when there is room. `sequence` is the last one
 * given out before this record (a new segment's base). A manifest names the log before the first
 * record that is not urgent: the reserve's number is below its own. [writer]
 */
int cairn_log_reserve(
    struct cairn_log *log, size_t body_size, uint64_t sequence, bool urgent, uint8_t **body);

/*
 * Seals the record reserved last (its body is in place) as holding operations from `first_sequence`
 * on. *end is the position behind it: wait for that to be durable. After a failure nothing was
 * appended; -ENOSPC (where there is no mapping) is not sticky. The body can be read until the next
 * cairn_log_reserve. [writer]
 */
int cairn_log_commit(struct cairn_log *log, uint64_t first_sequence, uint64_t *end);

/* Appends a MARK when durable() moved over a WRITE record since the last record was appended.
 * [writer] */
int cairn_log_mark(struct cairn_log *log, uint64_t sequence);

/* Position behind the last record; 0 when not started. Any thread. */
uint64_t cairn_log_end(const struct cairn_log *log);

/* Everything before this position is durable. Any thread. */
uint64_t cairn_log_durable(const struct cairn_log *log);

/*
 * Returns when everything before `position` is durable, or what stopped the log (invariant 4). One
 * of the waiting threads syncs for all (group commit), after waiting at most 30 µs for as many
 * appends as the last round had.
 */
int cairn_log_sync(struct cairn_log *log, uint64_t position);

/* 0, or the code that stopped the log. Any thread. */
int cairn_log_stopped(const struct cairn_log *log);

/*
 * One piece of work ahead of the writer: makes spare or reserve, or faults the next pages in. 1
 * when it did something and may have more, 0 when there is nothing to do, negative on failure (the
 * writer will meet the cause itself and report it). One thread at a time. A manifest names the log.
 */
int cairn_log_prepare(struct cairn_log *log);

/*
 * Number, salt and ordinal of the live segment with which a replay from `position` begins (for the
 * manifest): the one that it lies in, or the next one when it is the end of an older one. False
 * when there is none.
 */
bool cairn_log_segment_at(
    struct cairn_log *log, uint64_t position, uint64_t *number, uint64_t *salt, uint64_t *ordinal);

/* Of live segments, spares and reserve together. */
uint64_t cairn_log_bytes(struct cairn_log *log);
/* Bytes of records appended since open. */
uint64_t cairn_log_bytes_written(const struct cairn_log *log);

/*
 * The manifest no longer needs anything before `position`, durably: segments that end at or before
 * it and are not current are recycled (one, as the next spare's file) or removed.
 */
int cairn_log_retire(struct cairn_log *log, uint64_t position);

/* Gives the spare and the file kept for the next one back: the log is at rest. The reserve stays:
 * it goes with the log. Any thread. */
int cairn_log_rest(struct cairn_log *log);

/* Bytes of the reserve; 0 while there is none. */
uint64_t cairn_log_reserve_bytes(const struct cairn_log *log);

/*
 * Removes the reserve so that something else can have its blocks: a run, a manifest. False when
 * there was none. None is made before it is returned, which any thread may do. [writer]
 */
bool cairn_log_lend_reserve(struct cairn_log *log);
void cairn_log_return_reserve(struct cairn_log *log);

/*
 * Ends the log: forgets all segments, current and spare included, and removes their files and the
 * reserve. The caller has made a manifest durable that names no log. The log can be started again,
 * also when "no space" had stopped it. [writer]
 */
int cairn_log_drop(struct cairn_log *log);

/* Cuts the current segment's file behind the last record. Nothing will be appended any more.
 * [writer] */
void cairn_log_trim(struct cairn_log *log);

/*
 * Removes spares and reserve and, when `trim`, cuts the current segment's file as well; closes and
 * frees. Does not sync: the caller has. NULL is fine. [writer]
 */
void cairn_log_close(struct cairn_log *log, bool trim);

#endif
