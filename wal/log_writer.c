/*
 * wal/log_writer.c -- the write-ahead log of one open store: append, group commit, segments.
 *
 * The mutex guards the list of segments and what is marked so below. The append path does not take
 * it, only the change to another segment does; nothing that reads or writes a disk happens under
 * it. Segments are counted: the list holds one reference, and so does whoever syncs or faults one
 * in outside the mutex.
 *
 * `making` is the right to make a segment or the reserve: a segment's header names its predecessor,
 * so two may not be made at once. The writer waits for it, the preparing thread does not.
 *
 * Ordinals go on when a log was dropped and is started again: a thread that still waits for a
 * position of the old one finds it below everything new.
 */
#include "wal/log_writer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/buffer.h"
#include "format/error.h"
#include "wal/group_commit.h"
#include "wal/segment.h"

#define SIZE_UNIT          4096u
/* An offset / 8 has 28 bits in a position. */
#define SEGMENT_LIMIT      ((UINT64_C(1) << 31) - SIZE_UNIT)

#define POPULATE_AHEAD     UINT64_C(1048576)
#define POPULATE_STEP      UINT64_C(262144)
#define LOOK_STEP          65536u /* of log between two looks for something to prepare */

#define RUN_MARGIN         65536u /* of a run and a manifest, what does not grow with the records */

#define RESERVE_TAIL(size) ((size) / 8)

#define SETTLE_LEAST       65536u /* of bytes to sync */

#define SMALL_RECORD       40u

#define SCRATCH_KEPT       1048576u /* a larger buffer is given back after its record */

struct cairn_log {
	/* The writer's own. */
	uint8_t *memory; /* the current segment's mapping; NULL: use `scratch`, write */
	struct cairn_log_place place; /* of the next record */
	uint64_t size;                /* of the current segment; 0 = not started */
	uint64_t limit;               /* where records end that are not urgent, without a look at
				       * the reserve; behind it that look is due */
	uint64_t base;                /* its base sequence */
	uint8_t *room;                /* the record under way … */
	size_t reserved;              /* … and the size of its body */
	uint64_t look_at;             /* offset for the next look_ahead */
	uint64_t vouched;             /* D of the last record */
	uint64_t write_end;           /* position behind the last WRITE record */
	struct cairn_file *file;      /* the current segment's */
	struct cairn_buffer scratch;
	struct cairn_log_config config;
	char *directory;

	/* Written by the writer, read by all. */
	_Alignas(CAIRN_CACHE_LINE) _Atomic uint64_t end;
	_Atomic uint64_t bytes_written;
	struct cairn_group group;

	_Alignas(CAIRN_CACHE_LINE) _Atomic uint64_t durable; /* written under the mutex */
	atomic_int stopped;      /* 0, or what appends return; written under the mutex */
	atomic_bool has_spare;   /* written under the mutex */
	atomic_bool has_reserve; /* written by whoever has `making` */

	pthread_mutex_t mutex;
	pthread_cond_t made; /* `making` became false */
	/* Guarded by the mutex. */
	struct cairn_segment *oldest;  /* of the live ones */
	struct cairn_segment *current; /* the newest; changed by the writer only */
	struct cairn_segment *spare;
	uint64_t kept_number; /* a retired file for the next spare; 0 = none */
	uint64_t kept_size;
	uint64_t next_size;   /* of the next segment */
	uint64_t needed_from; /* position: what is before it has been retired */
	uint64_t ordinal;     /* of the newest segment that was current */
	bool making;
	char cause[CAIRN_ERROR_TEXT_MAX]; /* of what stopped it */
	/* Of whoever has `making`. */
	uint64_t reserve_number;
	bool reserve_lent;
};

/* Failure. */

int cairn_log_stopped(const struct cairn_log *log)
{
	return atomic_load_explicit(&log->stopped, memory_order_acquire);
}

static bool has_stopped(const struct cairn_log *log)
{
	return CAIRN_UNLIKELY(cairn_log_stopped(log) != 0);
}

/* 0 when the log was dropped meanwhile, and so may go on. */
static int report_stop(struct cairn_log *log)
{
	pthread_mutex_lock(&log->mutex);
	int code = cairn_log_stopped(log);
	if (code)
		cairn_error(code, "%s", log->cause);
	pthread_mutex_unlock(&log->mutex);
	return code;
}

/* [mutex] The thread's message is the cause, unless another came first that is as final. */
static void stop(struct cairn_log *log, int code)
{
	int before = cairn_log_stopped(log);
	if (before == CAIRN_FAILED || before == code)
		return;
	snprintf(log->cause, sizeof log->cause, "%s (%s)", cairn_error_text(),
	    code == CAIRN_FAILED
		? "the log takes no more writes; close the store and open it again"
		: "no writes until the memtable has been written out as a run, which is tried "
		  "again and again and needs room as well");
	atomic_store_explicit(&log->stopped, code, memory_order_release);
}

/* A failure with `code` stops the log: for good, unless there is just no space. */
static int fail(struct cairn_log *log, int code)
{
	pthread_mutex_lock(&log->mutex);
	stop(log, cairn_no_space(code) ? code : CAIRN_FAILED);
	pthread_mutex_unlock(&log->mutex);
	return report_stop(log);
}

/* The same for a sync of `segment`. One that has left the list is in runs, nothing was lost: 0. */
static int fail_sync(struct cairn_log *log, const struct cairn_segment *segment, int code)
{
	pthread_mutex_lock(&log->mutex);
	const struct cairn_segment *live = log->oldest;
	while (live && live != segment)
		live = live->next;
	if (live)
		stop(log, cairn_no_space(code) ? code : CAIRN_FAILED);
	pthread_mutex_unlock(&log->mutex);
	return live ? code : 0;
}

/* Segments and their files. */

static void release_segment(struct cairn_log *log, struct cairn_segment *segment)
{
	pthread_mutex_lock(&log->mutex);
	bool last = --segment->references == 0;
	pthread_mutex_unlock(&log->mutex);
	if (last)
		cairn_segment_close(segment);
}

/* [mutex] The longest usable file is kept; the number of the one that is not wanted then, or 0. */
static uint64_t keep_file(struct cairn_log *log, uint64_t number, uint64_t size)
{
	if (size < log->config.segment_min || size > log->config.segment_max ||
	    (log->kept_number && size <= log->kept_size))
		return number;
	uint64_t other = log->kept_number;
	log->kept_number = number;
	log->kept_size = size;
	return other;
}

/* Lets go of a segment that has left the list or was the spare; its file is kept for recycling or
 * removed. */
static int discard_segment(struct cairn_log *log, struct cairn_segment *segment, bool recycle)
{
	uint64_t unwanted = segment->header.number;
	if (recycle) {
		pthread_mutex_lock(&log->mutex);
		unwanted = keep_file(log, unwanted, segment->size);
		pthread_mutex_unlock(&log->mutex);
	}
	release_segment(log, segment);
	return unwanted ? cairn_segment_remove(log->config.io, log->directory, unwanted) : 0;
}

/* [mutex] */
static void set_spare(struct cairn_log *log, struct cairn_segment *spare)
{
	log->spare = spare;
	atomic_store_explicit(&log->has_spare, spare != NULL, memory_order_relaxed);
}

static void begin_making(struct cairn_log *log)
{
	pthread_mutex_lock(&log->mutex);
	while (log->making)
		pthread_cond_wait(&log->made, &log->mutex);
	log->making = true;
	pthread_mutex_unlock(&log->mutex);
}

static void end_making(struct cairn_log *log)
{
	pthread_mutex_lock(&log->mutex);
	log->making = false;
	pthread_cond_broadcast(&log->made);
	pthread_mutex_unlock(&log->mutex);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* [mutex] What the segment behind the current one is to be, with room for a record of
 * `record_size`. */
static struct cairn_segment_plan plan_segment(struct cairn_log *log, uint64_t record_size)
{
	uint64_t needed = cairn_round_up(CAIRN_SEGMENT_FIRST + record_size, SIZE_UNIT);
	uint64_t size = log->next_size;
	while (size < needed && size < log->config.segment_max)
		size = least(2 * size, log->config.segment_max);
	size = most(size, needed);

	struct cairn_segment_plan plan = {
	    .io = log->config.io,
	    .directory = log->directory,
	    .header = {.identity = log->config.identity, .ordinal = log->ordinal + 1},
	    .size = size,
	    .size_least = most(needed, least(size, CAIRN_SEGMENT_SHRUNK)),
	    .size_most = most(size, log->config.segment_max),
	};
	plan.header.number = atomic_fetch_add(log->config.next_number, 1);
	if (log->current) {
		plan.header.previous_number = log->current->header.number;
		plan.header.previous_salt = log->current->header.salt;
	}
	return plan;
}

/* [mutex] Room in live segments for what is not in runs. */
static uint64_t needed_bytes(const struct cairn_log *log)
{
	uint64_t bytes = 0;
	for (const struct cairn_segment *segment = log->oldest; segment; segment = segment->next) {
		bool whole =
		    segment->header.ordinal != cairn_log_position_ordinal(log->needed_from);
		bytes +=
		    segment->size -
		    (whole ? 0 : least(cairn_log_position_offset(log->needed_from), segment->size));
	}
	return bytes;
}

/* The most that runs of so much log take, and a manifest. */
static uint64_t run_size(uint64_t log_bytes)
{
	return log_bytes + log_bytes / 8 + RUN_MARGIN;
}

/*
 * What is in the log becomes a run one day, on the same disk: a log must not grow into the room for
 * that. Makes the planned segment, beside which there are `needed` bytes of log, as short as that
 * takes. The file to recycle makes way for a shorter one when it is too long.
 */
static int leave_room_for_run(
    struct cairn_log *log, struct cairn_segment_plan *plan, uint64_t kept_size, uint64_t needed)
{
	struct cairn_io *io = log->config.io;
	uint64_t free_bytes, recycled = most(kept_size, plan->size);
	if (io->ops->free_space(io, log->directory, &free_bytes) < 0)
		return 0; /* it will show */
	if (plan->recycle && free_bytes >= run_size(needed + recycled) + (recycled - kept_size))
		return 0;
	if (plan->recycle && cairn_segment_remove(io, log->directory, plan->recycle) == 0)
		free_bytes += kept_size;
	plan->recycle = 0;
	while (free_bytes < run_size(needed + plan->size) + plan->size &&
	       plan->size > plan->size_least)
		plan->size = most(plan->size_least, cairn_round_up(plan->size / 2, SIZE_UNIT));
	if (free_bytes >= run_size(needed + plan->size) + plan->size)
		return 0;
	return cairn_error_at(-ENOSPC, log->directory, CAIRN_NO_OFFSET,
	    "%" PRIu64 " bytes are free, too few for more of the log and for the run that it is "
	    "to become; free some space and try again",
	    free_bytes);
}

/* The caller has `making`. */
static int make_segment(
    struct cairn_log *log, uint64_t record_size, bool urgent, struct cairn_segment **segment)
{
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment_plan plan = plan_segment(log, record_size);
	uint64_t needed = needed_bytes(log), kept_size = log->kept_size;
	plan.recycle = log->kept_number;
	log->kept_number = 0;
	log->kept_size = 0;
	pthread_mutex_unlock(&log->mutex);
	int rc = urgent ? 0 : leave_room_for_run(log, &plan, kept_size, needed);
	if (rc == 0)
		rc = cairn_segment_create(&plan, segment);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&log->mutex);
	if ((*segment)->size <= log->config.segment_max)
		log->next_size = least(2 * (*segment)->size, log->config.segment_max);
	pthread_mutex_unlock(&log->mutex);
	return 0;
}

/* The reserve. What is said to have `making` below has it throughout. */

static bool misses_reserve(const struct cairn_log *log)
{
	return log->config.reserve_size &&
	       !atomic_load_explicit(&log->has_reserve, memory_order_relaxed);
}

uint64_t cairn_log_reserve_bytes(const struct cairn_log *log)
{
	return misses_reserve(log) ? 0 : log->config.reserve_size;
}

/* [making] */
static int make_reserve(struct cairn_log *log)
{
	if (!misses_reserve(log))
		return 0;
	if (log->reserve_lent)
		return cairn_error_at(-ENOSPC, log->directory, CAIRN_NO_OFFSET,
		    "the disk is full, and a memtable is being written out in the room that was "
		    "kept for that; free some space and try again");
	int rc = cairn_segment_set_aside(
	    log->config.io, log->directory, log->reserve_number, log->config.reserve_size);
	if (rc == 0)
		atomic_store_explicit(&log->has_reserve, true, memory_order_relaxed);
	return rc;
}

/* [making] */
static int remove_reserve(struct cairn_log *log)
{
	if (!log->config.reserve_size || misses_reserve(log))
		return 0;
	atomic_store_explicit(&log->has_reserve, false, memory_order_relaxed);
	return cairn_segment_remove(log->config.io, log->directory, log->reserve_number);
}

/* [making] The reserve as the next segment, for a record that fits. Its last part is left alone:
 * cut off at close, it is the room for a manifest. */
static int spend_reserve(
    struct cairn_log *log, uint64_t record_size, struct cairn_segment **segment)
{
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment_plan plan = plan_segment(log, record_size);
	pthread_mutex_unlock(&log->mutex);
	plan.size = plan.size_least = plan.size_most = log->config.reserve_size;
	plan.recycle = log->reserve_number;
	atomic_store_explicit(&log->has_reserve, false, memory_order_relaxed);
	int rc = cairn_segment_create(&plan, segment);
	if (rc == 0)
		(*segment)->size -= RESERVE_TAIL(plan.size);
	return rc;
}

static void set_limit(struct cairn_log *log)
{
	log->limit = misses_reserve(log) ? log->size / 2 : log->size;
}

bool cairn_log_lend_reserve(struct cairn_log *log)
{
	begin_making(log);
	bool lend = cairn_log_reserve_bytes(log) != 0;
	if (lend) {
		(void)remove_reserve(log);
		log->reserve_lent = true;
		set_limit(log);
	}
	end_making(log);
	return lend;
}

void cairn_log_return_reserve(struct cairn_log *log)
{
	begin_making(log);
	log->reserve_lent = false;
	end_making(log);
}

/* Open and close. */

int cairn_log_open(const struct cairn_log_config *config, struct cairn_log **log)
{
	*log = NULL;
	struct cairn_log *opened = aligned_alloc(CAIRN_CACHE_LINE, sizeof *opened);
	char *directory = strdup(config->directory);
	if (!opened || !directory) {
		free(opened);
		free(directory);
		return cairn_error_at(-ENOMEM, config->directory, CAIRN_NO_OFFSET,
		    "no memory for the log; free some and try again");
	}
	*opened = (struct cairn_log){.config = *config, .directory = directory};
	struct cairn_log_config *own = &opened->config;
	own->directory = directory;
	own->segment_min =
	    most(SIZE_UNIT * 2, cairn_round_up(least(own->segment_min, SEGMENT_LIMIT), SIZE_UNIT));
	own->segment_max = most(
	    own->segment_min, cairn_round_up(least(own->segment_max, SEGMENT_LIMIT), SIZE_UNIT));
	own->reserve_size = cairn_round_up(least(own->reserve_size, SEGMENT_LIMIT), SIZE_UNIT);
	opened->next_size = own->segment_min;
	cairn_group_init(&opened->group);
	pthread_mutex_init(&opened->mutex, NULL);
	pthread_cond_init(&opened->made, NULL);
	*log = opened;
	return 0;
}

/* [mutex] Every live segment and the spare, as one list; the log has none of them afterwards. */
static struct cairn_segment *take_all(struct cairn_log *log)
{
	struct cairn_segment *all = log->oldest;
	if (log->spare) {
		log->spare->next = all;
		all = log->spare;
	}
	log->oldest = NULL;
	log->current = NULL;
	set_spare(log, NULL);
	return all;
}

static void forget_current(struct cairn_log *log)
{
	log->memory = NULL;
	log->file = NULL;
	log->size = 0;
	log->limit = 0;
	log->place = (struct cairn_log_place){0};
}

/* Removes what nobody needs, a file for recycling included; goes on after a failure and returns the
 * first. */
static int remove_kept(struct cairn_log *log)
{
	pthread_mutex_lock(&log->mutex);
	uint64_t number = log->kept_number;
	log->kept_number = 0;
	log->kept_size = 0;
	pthread_mutex_unlock(&log->mutex);
	return number ? cairn_segment_remove(log->config.io, log->directory, number) : 0;
}

int cairn_log_rest(struct cairn_log *log)
{
	begin_making(log);
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *spare = log->spare;
	set_spare(log, NULL);
	pthread_mutex_unlock(&log->mutex);
	int kept = remove_kept(log);
	int rc = spare ? discard_segment(log, spare, false) : 0;
	end_making(log);
	return rc < 0 ? rc : kept;
}

int cairn_log_drop(struct cairn_log *log)
{
	begin_making(log);
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *segment = take_all(log);
	uint64_t end = atomic_load_explicit(&log->end, memory_order_relaxed);
	if (end > atomic_load_explicit(&log->durable, memory_order_relaxed))
		atomic_store_explicit(&log->durable, end, memory_order_release);
	atomic_store_explicit(&log->end, 0, memory_order_release);
	log->next_size = log->config.segment_min;
	if (cairn_no_space(cairn_log_stopped(log)))
		atomic_store_explicit(&log->stopped, 0, memory_order_release);
	pthread_mutex_unlock(&log->mutex);
	forget_current(log);
	int rc = remove_reserve(log);
	end_making(log);

	int kept = remove_kept(log);
	rc = rc < 0 ? rc : kept;
	while (segment) {
		struct cairn_segment *next = segment->next;
		int removed = discard_segment(log, segment, false);
		rc = rc < 0 ? rc : removed;
		segment = next;
	}
	return rc;
}

void cairn_log_trim(struct cairn_log *log)
{
	const struct cairn_io_ops *ops = log->config.io->ops;
	if (!log->size || has_stopped(log))
		return;
	if (log->memory)
		ops->unmap_log(log->file);
	log->memory = log->current->memory = NULL;
	/* A file that stays long is read a little slower the next time: nothing to report. */
	(void)ops->truncate(log->file, log->place.offset);
}

void cairn_log_close(struct cairn_log *log, bool trim)
{
	if (!log)
		return;
	if (trim)
		cairn_log_trim(log);
	(void)remove_kept(log);
	(void)remove_reserve(log);
	if (log->spare)
		(void)discard_segment(log, log->spare, false);
	for (struct cairn_segment *segment = log->oldest, *next; segment; segment = next) {
		next = segment->next;
		cairn_segment_close(segment);
	}
	pthread_cond_destroy(&log->made);
	pthread_mutex_destroy(&log->mutex);
	cairn_buffer_release(&log->scratch);
	free(log->directory);
	free(log);
}

/* Append. */

/*
 * Seals and stores the record that was put together at `bytes`: in its place in the mapping, or
 * somewhere else when there is none. Nobody is told of it yet.
 */
static int put_record(struct cairn_log *log, uint8_t *bytes, enum cairn_log_type type,
    size_t body_size, uint64_t first_sequence)
{
	uint64_t size = cairn_log_record_size(body_size);
	for (uint8_t *p = bytes + CAIRN_LOG_RECORD_HEADER + body_size; p < bytes + size; p++)
		*p = 0;
	uint64_t durable = atomic_load_explicit(&log->durable, memory_order_acquire);
	cairn_log_record_seal(
	    bytes, &log->place, type, size, (uint32_t)(first_sequence - log->base), durable);
	if (CAIRN_UNLIKELY(!log->memory)) {
		int rc =
		    log->config.io->ops->write(log->file, bytes, (size_t)size, log->place.offset);
		if (rc < 0)
			return rc;
	}
	log->place.offset += size;
	log->vouched = durable;
	uint64_t total = atomic_load_explicit(&log->bytes_written, memory_order_relaxed);
	atomic_store_explicit(&log->bytes_written, total + size, memory_order_relaxed);
	return 0;
}

/* A LINK or MARK: small enough to be put together here. */
static int put_small_record(
    struct cairn_log *log, enum cairn_log_type type, const void *body, size_t body_size)
{
	_Alignas(8) uint8_t aside[SMALL_RECORD];
	assert(cairn_log_record_size(body_size) <= sizeof aside);
	uint8_t *bytes = log->memory ? log->memory + log->place.offset : aside;
	memcpy(bytes + CAIRN_LOG_RECORD_HEADER, body, body_size);
	return put_record(log, bytes, type, body_size, log->base);
}

static uint64_t publish_end(struct cairn_log *log)
{
	uint64_t end = cairn_log_position(log->place.ordinal, log->place.offset);
	atomic_store_explicit(&log->end, end, memory_order_release);
	return end;
}

/* The writer's side of a new segment, with its LINK in place. */
static int enter_segment(
    struct cairn_log *log, struct cairn_segment *segment, uint64_t sequence, uint64_t previous_end)
{
	log->memory = segment->memory;
	log->file = segment->file;
	log->size = segment->size;
	set_limit(log);
	log->base = sequence;
	log->look_at = 0;
	log->place = (struct cairn_log_place){
	    segment->header.salt, segment->header.ordinal, CAIRN_LOG_HEADER_SIZE};
	uint8_t body[CAIRN_SEGMENT_LINK_SIZE];
	cairn_segment_link_put(body, &(struct cairn_segment_link){sequence, previous_end});
	return put_small_record(log, CAIRN_LOG_LINK, body, sizeof body);
}

/* Shows the segment, whose LINK is in place, to the other threads. */
static void show_segment(
    struct cairn_log *log, struct cairn_segment *segment, uint64_t previous_end)
{
	pthread_mutex_lock(&log->mutex);
	if (log->current) {
		log->current->end = previous_end;
		log->current->next = segment;
	} else {
		log->oldest = segment;
	}
	log->current = segment;
	log->ordinal = segment->header.ordinal;
	pthread_mutex_unlock(&log->mutex);
}

bool cairn_log_started(const struct cairn_log *log)
{
	return log->size != 0;
}

int cairn_log_start(struct cairn_log *log, uint64_t sequence, bool urgent)
{
	assert(!cairn_log_started(log));
	int rc = has_stopped(log) ? report_stop(log) : 0;
	if (rc < 0)
		return rc;
	struct cairn_segment *first = NULL;
	begin_making(log);
	/* Below the number of the log, so that no reader looks at the reserve. */
	if (log->config.reserve_size)
		log->reserve_number = atomic_fetch_add(log->config.next_number, 1);
	rc = make_segment(log, 0, urgent, &first);
	end_making(log);
	if (rc < 0)
		return rc;
	rc = enter_segment(log, first, sequence, 0);
	if (rc == 0)
		rc = first->file->io->ops->sync(first->file);
	if (rc < 0) {
		char text[CAIRN_ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s", cairn_error_text());
		forget_current(log);
		(void)discard_segment(log, first, false);
		return cairn_error(rc, "%s", text);
	}
	first->synced = log->place.offset;
	show_segment(log, first, 0);
	pthread_mutex_lock(&log->mutex);
	atomic_store_explicit(&log->durable, publish_end(log), memory_order_release);
	pthread_mutex_unlock(&log->mutex);
	return 0;
}

/* The spare, if it can take the record, or a segment made on the spot, of the reserve if there is
 * no other way for an urgent one. [making] */
static int next_segment(
    struct cairn_log *log, uint64_t record_size, bool urgent, struct cairn_segment **segment)
{
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *spare = log->spare;
	set_spare(log, NULL);
	pthread_mutex_unlock(&log->mutex);
	if (spare && CAIRN_SEGMENT_FIRST + record_size <= spare->size) {
		*segment = spare;
		return 0;
	}
	/*
	 * Two segments must not wait for the same place. The file is not recycled: its number is
	 * not below the live ones, so after a crash its new header must not show up under the old
	 * name.
	 */
	if (spare)
		(void)discard_segment(log, spare, false);
	int rc = make_segment(log, record_size, urgent, segment);
	if (cairn_no_space(rc) && urgent &&
	    CAIRN_SEGMENT_FIRST + record_size + RESERVE_TAIL(log->config.reserve_size) <=
		cairn_log_reserve_bytes(log))
		rc = spend_reserve(log, record_size, segment);
	return rc;
}

static int rotate(struct cairn_log *log, uint64_t record_size, uint64_t sequence, bool urgent)
{
	if (!cairn_log_started(log))
		return cairn_error_at(CAIRN_INVALID, log->directory, CAIRN_NO_OFFSET,
		    "an append to a log that was not started");
	if (record_size > SEGMENT_LIMIT - CAIRN_SEGMENT_FIRST)
		return cairn_error_at(CAIRN_TOO_LARGE, log->directory, CAIRN_NO_OFFSET,
		    "a log record of %llu bytes is too long; split the batch",
		    (unsigned long long)record_size);
	struct cairn_segment *next = NULL;
	uint64_t previous_end = log->place.offset;
	begin_making(log);
	int rc = next_segment(log, record_size, urgent, &next);
	if (rc == 0) {
		rc = enter_segment(log, next, sequence, previous_end);
		if (rc == 0)
			show_segment(log, next, previous_end);
		else
			rc = fail(log, rc);
	}
	end_making(log);
	if (rc == 0)
		publish_end(log);
	else if (next)
		(void)discard_segment(log, next, false);
	return rc;
}

/*
 * Room for a record that goes beyond the limit. A reserve that cannot be had stops a record that is
 * not urgent when the disk is full; other reasons will show where they matter.
 */
static int make_way(struct cairn_log *log, uint64_t record_size, uint64_t sequence, bool urgent)
{
	if (!urgent && cairn_log_started(log) && misses_reserve(log)) {
		begin_making(log);
		int rc = make_reserve(log);
		end_making(log);
		if (cairn_no_space(rc))
			return rc;
	}
	if (!urgent)
		log->limit = log->size;
	if (record_size <= log->size - log->place.offset)
		return 0;
	return rotate(log, record_size, sequence, urgent);
}

/* Where a record of `size` bytes is put together; NULL when memory is short. */
static uint8_t *record_room(struct cairn_log *log, uint64_t size)
{
	if (CAIRN_LIKELY(log->memory != NULL))
		return log->memory + log->place.offset;
	if (log->scratch.capacity > SCRATCH_KEPT)
		cairn_buffer_release(&log->scratch);
	if (cairn_buffer_reserve(&log->scratch, (size_t)size) == 0)
		return log->scratch.data;
	cairn_error_at(-ENOMEM, log->directory, CAIRN_NO_OFFSET,
	    "no memory for a log record of %llu bytes; free some and try again",
	    (unsigned long long)size);
	return NULL;
}

int cairn_log_reserve(
    struct cairn_log *log, size_t body_size, uint64_t sequence, bool urgent, uint8_t **body)
{
	uint64_t size = cairn_log_record_size(body_size);
	*body = NULL;
	int rc = has_stopped(log) ? report_stop(log) : 0;
	if (rc == 0 && CAIRN_UNLIKELY(log->place.offset + size > log->limit))
		rc = make_way(log, size, sequence, urgent);
	if (CAIRN_UNLIKELY(rc < 0))
		return rc;
	uint8_t *bytes = record_room(log, size);
	if (CAIRN_UNLIKELY(!bytes))
		return -ENOMEM;
	log->room = bytes;
	log->reserved = body_size;
	*body = bytes + CAIRN_LOG_RECORD_HEADER;
	return 0;
}

/* How far ahead of the writer pages shall be there. */
static uint64_t populate_ahead(const struct cairn_log *log)
{
	return log->config.populate_far ? SEGMENT_LIMIT : POPULATE_AHEAD;
}

/* Whether a reserve or a spare is to be made for a writer at `offset` of a segment. */
static bool reserve_due(const struct cairn_log *log, uint64_t offset, uint64_t size)
{
	return misses_reserve(log) && offset > size / 4;
}

static bool spare_due(const struct cairn_log *log, uint64_t offset, uint64_t size)
{
	return !atomic_load_explicit(&log->has_spare, memory_order_relaxed) && offset > size / 2;
}

/* Wakes the preparing thread when half of what it keeps ready is used up. */
static void look_ahead(struct cairn_log *log)
{
	uint64_t offset = log->place.offset;
	log->look_at = offset + least(LOOK_STEP, log->size / 8);
	if (!log->config.wake)
		return;
	uint64_t populated = atomic_load_explicit(&log->current->populated, memory_order_relaxed);
	uint64_t wanted = least(offset + populate_ahead(log) / 2, log->size);
	if ((log->memory && populated < wanted) || reserve_due(log, offset, log->size) ||
	    spare_due(log, offset, log->size))
		log->config.wake(log->config.wake_context);
}

int cairn_log_commit(struct cairn_log *log, uint64_t first_sequence, uint64_t *end)
{
	*end = 0;
	int rc = put_record(log, log->room, CAIRN_LOG_WRITE, log->reserved, first_sequence);
	/* For want of space nothing was appended: the next record goes to the same place. */
	if (CAIRN_UNLIKELY(rc < 0))
		return cairn_no_space(rc) ? rc : fail(log, rc);
	log->write_end = publish_end(log);
	*end = log->write_end;
	cairn_group_appended(&log->group);
	if (CAIRN_UNLIKELY(log->place.offset >= log->look_at))
		look_ahead(log);
	return 0;
}

/*
 * A MARK, too, becomes durable one day; one more for its sake would never end. So only what was
 * said to users counts: WRITE records that are durable and that no D covers.
 */
static bool mark_is_due(const struct cairn_log *log)
{
	uint64_t durable = atomic_load_explicit(&log->durable, memory_order_acquire);
	return least(durable, log->write_end) > log->vouched;
}

int cairn_log_mark(struct cairn_log *log, uint64_t sequence)
{
	if (!cairn_log_started(log) || !mark_is_due(log))
		return 0;
	if (has_stopped(log))
		return report_stop(log);
	uint64_t size = cairn_log_record_size(0);
	if (size > log->size - log->place.offset) {
		int rc = rotate(log, size, sequence, false);
		/* The LINK of the new segment has said it. */
		if (rc < 0 || !mark_is_due(log))
			return rc;
	}
	int rc = put_small_record(log, CAIRN_LOG_MARK, "", 0);
	if (rc < 0)
		return cairn_no_space(rc) ? rc : fail(log, rc);
	publish_end(log);
	return 0;
}

uint64_t cairn_log_end(const struct cairn_log *log)
{
	return atomic_load_explicit(&log->end, memory_order_acquire);
}

uint64_t cairn_log_bytes_written(const struct cairn_log *log)
{
	return atomic_load_explicit(&log->bytes_written, memory_order_relaxed);
}

/* Sync. */

uint64_t cairn_log_durable(const struct cairn_log *log)
{
	return atomic_load_explicit(&log->durable, memory_order_acquire);
}

static uint64_t segment_end(const struct cairn_segment *segment)
{
	return cairn_log_position(segment->header.ordinal, segment->end);
}

/* The oldest segment with bytes before `end` that no sync covers, with a reference, or NULL. */
static struct cairn_segment *borrow_unsynced(struct cairn_log *log, uint64_t end, uint64_t *upto)
{
	uint64_t ordinal = cairn_log_position_ordinal(end);
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *segment = log->oldest;
	for (; segment; segment = segment->next) {
		if (segment->header.ordinal > ordinal) {
			segment = NULL;
			break;
		}
		*upto = segment->header.ordinal < ordinal ? segment->end
							  : cairn_log_position_offset(end);
		if (segment->synced < *upto) {
			segment->references++;
			break;
		}
	}
	pthread_mutex_unlock(&log->mutex);
	return segment;
}

static void raise_durable(struct cairn_log *log, uint64_t position)
{
	pthread_mutex_lock(&log->mutex);
	if (position > atomic_load_explicit(&log->durable, memory_order_relaxed))
		atomic_store_explicit(&log->durable, position, memory_order_release);
	pthread_mutex_unlock(&log->mutex);
}

/* The leader's sync: everything that was appended when it began. A segment that is gone meanwhile
 * is in runs. */
static int sync_appended(struct cairn_log *log)
{
	uint64_t end = cairn_log_end(log);
	struct cairn_segment *segment;
	uint64_t upto;
	while ((segment = borrow_unsynced(log, end, &upto))) {
		/* A group of small commits is a page or two: not worth a call. */
		if (segment->memory && upto - segment->synced > SETTLE_LEAST)
			segment->file->io->ops->settle_log(
			    segment->file, segment->synced, upto - segment->synced);
		int rc = segment->file->io->ops->sync(segment->file);
		if (rc == 0) {
			pthread_mutex_lock(&log->mutex);
			segment->synced = upto;
			pthread_mutex_unlock(&log->mutex);
		} else {
			rc = fail_sync(log, segment, rc);
		}
		release_segment(log, segment);
		if (rc < 0)
			return rc;
	}
	raise_durable(log, end);
	return 0;
}

int cairn_log_sync(struct cairn_log *log, uint64_t position)
{
	/* A position behind the end is one of a log that was dropped, or means all there is. */
	position = least(position, cairn_log_end(log));
	for (;;) {
		uint32_t round = cairn_group_round(&log->group);
		if (cairn_log_durable(log) >= position)
			return 0;
		int rc = has_stopped(log) ? report_stop(log) : 0;
		if (rc < 0)
			return rc;
		if (!cairn_group_lead(&log->group)) {
			cairn_group_follow(&log->group, round);
			continue;
		}
		/* The leader before may have ended in between. */
		if (cairn_log_durable(log) < position && !has_stopped(log)) {
			cairn_group_gather(&log->group);
			(void)sync_appended(log);
			cairn_group_synced(&log->group);
		}
		cairn_group_end(&log->group);
	}
}

/* Preparation. */

/* [mutex] The pages of `segment` that are to be faulted in next, for a writer at `offset`. */
static bool pages_due(const struct cairn_log *log, const struct cairn_segment *segment,
    uint64_t offset, uint64_t *from, uint64_t *size)
{
	if (!segment || !segment->memory)
		return false;
	uint64_t populated = atomic_load_explicit(&segment->populated, memory_order_relaxed);
	uint64_t wanted = least(offset + populate_ahead(log), segment->size);
	*from = most(populated, offset & ~(uint64_t)(SIZE_UNIT - 1));
	*size = least(POPULATE_STEP, segment->size - *from);
	return populated < wanted;
}

static int populate(
    struct cairn_log *log, struct cairn_segment *segment, uint64_t from, uint64_t size)
{
	int rc = segment->file->io->ops->populate_log(segment->file, from, size);
	if (rc == 0)
		atomic_store_explicit(&segment->populated, from + size, memory_order_relaxed);
	release_segment(log, segment);
	/* A store into that page would be answered by a signal: better no more stores. */
	if (rc == -EIO)
		return fail(log, rc);
	return rc < 0 ? rc : 1;
}

/* The caller has set `making`. */
static int make_spare(struct cairn_log *log)
{
	struct cairn_segment *spare = NULL;
	int rc = make_segment(log, 0, false, &spare);
	if (rc == 0) {
		pthread_mutex_lock(&log->mutex);
		set_spare(log, spare);
		pthread_mutex_unlock(&log->mutex);
	}
	end_making(log);
	return rc < 0 ? rc : 1;
}

/* The caller has set `making`. */
static int set_reserve_aside(struct cairn_log *log)
{
	int rc = make_reserve(log);
	end_making(log);
	return rc < 0 ? rc : 1;
}

int cairn_log_prepare(struct cairn_log *log)
{
	if (has_stopped(log))
		return 0;
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *current = log->current, *segment = NULL;
	uint64_t end = atomic_load_explicit(&log->end, memory_order_relaxed);
	uint64_t from = 0, size = 0;
	int (*make)(struct cairn_log * log) = NULL;
	/* While the writer changes segments `end` is in another one. */
	if (current && cairn_log_position_ordinal(end) == current->header.ordinal) {
		uint64_t offset = cairn_log_position_offset(end);
		if (pages_due(log, current, offset, &from, &size))
			segment = current;
		else if (!log->making && reserve_due(log, offset, current->size))
			make = set_reserve_aside;
		else if (!log->making && spare_due(log, offset, current->size))
			make = make_spare;
		else if (pages_due(log, log->spare, 0, &from, &size))
			segment = log->spare;
	}
	if (segment)
		segment->references++;
	log->making = log->making || make;
	pthread_mutex_unlock(&log->mutex);
	if (segment)
		return populate(log, segment, from, size);
	return make ? make(log) : 0;
}

/* Live segments. */

bool cairn_log_segment_at(
    struct cairn_log *log, uint64_t position, uint64_t *number, uint64_t *salt, uint64_t *ordinal)
{
	pthread_mutex_lock(&log->mutex);
	struct cairn_segment *segment = log->oldest;
	while (segment && segment != log->current && segment_end(segment) <= position)
		segment = segment->next;
	*number = segment ? segment->header.number : 0;
	*salt = segment ? segment->header.salt : 0;
	*ordinal = segment ? segment->header.ordinal : 0;
	pthread_mutex_unlock(&log->mutex);
	return segment != NULL;
}

uint64_t cairn_log_bytes(struct cairn_log *log)
{
	pthread_mutex_lock(&log->mutex);
	uint64_t bytes =
	    log->kept_size + (log->spare ? log->spare->size : 0) + cairn_log_reserve_bytes(log);
	for (struct cairn_segment *segment = log->oldest; segment; segment = segment->next)
		bytes += segment->size;
	pthread_mutex_unlock(&log->mutex);
	return bytes;
}

/* Takes the oldest segment off the list when nothing behind `position` is in it. Its bytes are in
 * runs: durable. */
static struct cairn_segment *take_retired(struct cairn_log *log, uint64_t position)
{
	struct cairn_segment *segment = NULL;
	pthread_mutex_lock(&log->mutex);
	if (log->oldest && log->oldest != log->current && segment_end(log->oldest) <= position) {
		segment = log->oldest;
		log->oldest = segment->next;
		if (segment_end(segment) >
		    atomic_load_explicit(&log->durable, memory_order_relaxed))
			atomic_store_explicit(
			    &log->durable, segment_end(segment), memory_order_release);
	}
	pthread_mutex_unlock(&log->mutex);
	return segment;
}

int cairn_log_retire(struct cairn_log *log, uint64_t position)
{
	struct cairn_segment *segment;
	int rc = 0;
	pthread_mutex_lock(&log->mutex);
	log->needed_from = most(log->needed_from, position);
	pthread_mutex_unlock(&log->mutex);
	while ((segment = take_retired(log, position))) {
		int removed = discard_segment(log, segment, true);
		rc = rc < 0 ? rc : removed;
	}
	return rc;
}
