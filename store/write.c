/*
 * store/write.c -- put, delete, write, sync: the way of a record into log and memtable.
 *
 * 1. Check the limits; hash and checksum a single record. No lock is held.
 * 2. Take the write lock. Make room: a table that is not full, a log that is started.
 * 3. Reserve room in the log, copy the operations there and seal the record: from here on a kill
 *    does not lose it.
 * 4. Insert them into the memtable, above the published sequence: invisible still.
 * 5. Publish the sequence: visible, all at once. Unlock.
 * 6. When asked for: wait until the log is durable up to the record.
 *
 * Nothing behind 3 can fail, and a failure there leaves nothing.
 *
 * A write of nothing but deletes is *urgent*: when the disk is full it may use what is kept for
 * that, of the log (wal/log_writer.h) and of the memtable.
 */
#include "store/write.h"

#include <errno.h>
#include <time.h>

#include "compaction/policy.h"
#include "format/checksum.h"
#include "store/batch.h"
#include "store/store.h"
#include "store/view.h"

/* What the delay is paid in: shorter sleeps cost more than they delay. */
#define PACE_SLEEP_NS 500000u

/* The operations of one write: a single record, or a batch. */
struct operations {
	const struct cairn_record *single; /* checksum made */
	const struct cairn_batch *batch;   /* when single is NULL */
	size_t count;
	size_t payload;
	size_t body_size;
	bool urgent;
};

int cairn_check_record(const struct cairn_record *record)
{
	if (record->key.size > CAIRN_KEY_MAX)
		return cairn_error(CAIRN_TOO_LARGE, "the key has %zu bytes; the limit is %u",
		    record->key.size, CAIRN_KEY_MAX);
	if (record->value.size > CAIRN_VALUE_MAX)
		return cairn_error(CAIRN_TOO_LARGE, "the value has %zu bytes; the limit is %u",
		    record->value.size, CAIRN_VALUE_MAX);
	if ((record->key.size && !record->key.data) || (record->value.size && !record->value.data))
		return cairn_error(CAIRN_INVALID, "a slice with a size has no data");
	return 0;
}

static int check_writable(const struct cairn *db, unsigned flags)
{
	int rc = cairn_check_handle(db);
	if (rc)
		return rc;
	if (db->read_only)
		return cairn_error(CAIRN_READ_ONLY,
		    "%s is open for reading only; open it without read_only to write",
		    db->directory);
	if (flags & ~CAIRN_SYNC)
		return cairn_error(CAIRN_INVALID, "unknown flags 0x%x", flags & ~CAIRN_SYNC);
	return 0;
}

/*
 * Waits, without the write lock, until a flush or merge has ended since `seen`, or until there is a
 * failure that makes waiting useless.
 */
static int wait_for_progress(struct cairn *db, uint64_t seen)
{
	pthread_mutex_lock(&db->progress_mutex);
	/* A handle that failed before `seen` was taken makes no more progress. */
	while (db->progress_count == seen && !atomic_load(&db->failed))
		pthread_cond_wait(&db->progress_cond, &db->progress_mutex);
	pthread_mutex_unlock(&db->progress_mutex);
	return atomic_load(&db->failed) ? cairn_failed_error(db) : 0;
}

static uint64_t progress_seen(struct cairn *db)
{
	pthread_mutex_lock(&db->progress_mutex);
	uint64_t seen = db->progress_count;
	pthread_mutex_unlock(&db->progress_mutex);
	return seen;
}

/* Whether an urgent write goes into a table that is full, because the disk is, too. */
static bool may_exceed(struct cairn *db, const struct operations *operations, bool fits)
{
	return operations->urgent && fits &&
	       (cairn_no_space(atomic_load(&db->flush_trouble.code)) ||
		   cairn_no_space(atomic_load(&db->merge_trouble.code)));
}

static int trouble_error(struct cairn *db, struct cairn_trouble *trouble)
{
	pthread_mutex_lock(&db->error_mutex);
	int code = atomic_load(&trouble->code);
	if (code)
		cairn_error(code, "%s", trouble->text);
	pthread_mutex_unlock(&db->error_mutex);
	return code;
}

/*
 * All tables are full: lets go of the write lock, gets one flushed or waits for that, takes the
 * lock again. A flush that keeps failing is returned, so that no writer waits for ever; the next
 * write tries again.
 */
static int wait_for_flush(struct cairn *db)
{
	uint64_t seen = progress_seen(db);
	int rc = 0;
	cairn_write_unlock(&db->write_lock);
	if (db->options.no_background) {
		rc = cairn_flush_step(db);
	} else {
		rc = trouble_error(db, &db->flush_trouble);
		cairn_event_set(&db->flusher.wake);
		if (!rc)
			rc = wait_for_progress(db, seen);
	}
	cairn_write_lock(&db->write_lock);
	return rc < 0 ? rc : 0;
}

/* Too many runs: waits for a merge in the same way. */
static int wait_for_merge(struct cairn *db)
{
	uint64_t seen = progress_seen(db);
	cairn_write_unlock(&db->write_lock);
	int rc = trouble_error(db, &db->merge_trouble);
	cairn_event_set(&db->merger.wake);
	if (!rc)
		rc = wait_for_progress(db, seen);
	cairn_write_lock(&db->write_lock);
	return rc;
}

static int start_log(struct cairn *db, bool urgent)
{
	cairn_write_unlock(&db->write_lock);
	pthread_mutex_lock(&db->publish_lock);
	int rc = cairn_publish_log_start(db, urgent);
	pthread_mutex_unlock(&db->publish_lock);
	cairn_write_lock(&db->write_lock);
	return rc;
}

/* Puts a new active table in place of an empty or a sealed one. */
static int renew_table(struct cairn *db, const struct operations *operations)
{
	struct cairn_set *old = atomic_load(&db->set);
	struct cairn_table *table = cairn_new_table(db, operations->count, operations->payload);
	struct cairn_set *set = NULL;
	if (table)
		set = cairn_set_new(table, old->sealed, old->sealed_count, old->version);
	cairn_table_unref(table);
	if (!set)
		return cairn_error(-ENOMEM, "out of memory for a memtable");
	cairn_replace_set(db, set);
	return 0;
}

/*
 * 2. Ends with the write lock held, as it began, but may let go of it in between, so every step
 * starts over. On 0 the active table takes the operations and the log is ready.
 */
static int make_room(struct cairn *db, const struct operations *operations)
{
	size_t kept = operations->urgent ? 0 : db->table_reserve;
	for (;;) {
		if (CAIRN_UNLIKELY(atomic_load_explicit(&db->failed, memory_order_relaxed)))
			return cairn_failed_error(db);
		int rc = 0;
		struct cairn_set *set = atomic_load_explicit(&db->set, memory_order_relaxed);
		struct cairn_memtable *active = set->active->memtable;
		bool fits =
		    cairn_memtable_fits(active, operations->count, operations->payload + kept);
		bool full = cairn_memtable_bytes(active) >= db->options.memtable_bytes;
		if (CAIRN_LIKELY(fits && !full) || may_exceed(db, operations, fits)) {
			if (CAIRN_LIKELY(
				atomic_load_explicit(&db->log_ready, memory_order_relaxed)))
				return 0;
			rc = start_log(db, operations->urgent);
			if (rc)
				return rc;
		} else if (cairn_memtable_operations(active) == 0) {
			rc = renew_table(db, operations);
		} else if (set->sealed_count >= CAIRN_SEALED_MAX) {
			rc = wait_for_flush(db);
		} else if (!db->options.no_background &&
			   set->version->count > CAIRN_POLICY_RUNS_MAX) {
			rc = wait_for_merge(db);
		} else {
			rc = cairn_seal(db);
			cairn_event_set(&db->flusher.wake);
			if (!rc && db->options.no_background)
				rc = wait_for_flush(db);
		}
		if (rc && !may_exceed(db, operations, fits))
			return rc;
	}
}

/* 3: the batch with its checksums, into the log's body. */
static void log_batch(struct cairn *db, uint8_t *body, const struct cairn_batch *batch)
{
	struct cairn_input in = cairn_input_of(batch->body.data, batch->body.size);
	struct cairn_record record;
	while (cairn_log_operation_next(&in, &record) == 0) {
		uint64_t hash = cairn_key_hash(record.key, db->identity.hash_seed);
		record.checksum = cairn_record_checksum(hash, record.kind, record.value);
		body = cairn_log_operation_put(body, &record);
	}
}

/* 4: what was logged. */
static void insert_batch(struct cairn *db, struct cairn_memtable *table, const uint8_t *body,
    size_t size, uint64_t sequence)
{
	struct cairn_input in = cairn_input_of(body, size);
	struct cairn_record record;
	while (cairn_log_operation_next(&in, &record) == 0)
		cairn_memtable_put(
		    table, &record, sequence++, db->view_sequences, db->view_count + 1);
}

/* 3 to 5. [write_lock] */
static int append(struct cairn *db, const struct operations *operations, uint64_t *end)
{
	uint64_t last = atomic_load_explicit(&db->sequence, memory_order_relaxed);
	uint8_t *body;
	int rc = cairn_log_reserve(db->log, operations->body_size, last, operations->urgent, &body);
	if (rc)
		return rc == CAIRN_FAILED ? cairn_fail_handle(db) : rc;
	if (operations->single)
		cairn_log_operation_put(body, operations->single);
	else
		log_batch(db, body, operations->batch);
	rc = cairn_log_commit(db->log, last + 1, end);
	if (rc)
		return cairn_no_space(rc) ? rc : cairn_fail_handle(db);
	struct cairn_memtable *table =
	    atomic_load_explicit(&db->set, memory_order_relaxed)->active->memtable;
	/* What plain reads may still be looking at is kept like what a view needs. */
	db->view_sequences[db->view_count] = last;
	if (operations->single)
		cairn_memtable_put(
		    table, operations->single, last + 1, db->view_sequences, db->view_count + 1);
	else
		insert_batch(db, table, body, operations->body_size, last + 1);
	atomic_store_explicit(&db->sequence, last + operations->count, memory_order_release);
	return 0;
}

/* What this write owes for merges that are behind: nanoseconds to sleep now, without the lock.
 * [write_lock] */
static uint64_t pace(struct cairn *db, size_t bytes)
{
	int64_t per_kib = atomic_load_explicit(&db->pace_ns_per_kib, memory_order_relaxed);
	if (CAIRN_LIKELY(per_kib == 0))
		return 0;
	db->pace_owed_ns += (uint64_t)per_kib * bytes / 1024;
	if (db->pace_owed_ns < PACE_SLEEP_NS)
		return 0;
	uint64_t owed = db->pace_owed_ns;
	db->pace_owed_ns = 0;
	return owed;
}

/* Without background threads the write that finds the interval over syncs. [write_lock] */
static bool interval_over(struct cairn *db)
{
	if (CAIRN_LIKELY(!db->options.no_background) ||
	    db->options.sync_mode != CAIRN_SYNC_INTERVAL)
		return false;
	uint64_t now = db->io->ops->now(db->io);
	if (now < db->next_sync_at)
		return false;
	db->next_sync_at = now + (uint64_t)db->options.sync_interval_ms * 1000000;
	return true;
}

static int sync_log(struct cairn *db, uint64_t position)
{
	int rc = cairn_log_sync(db->log, position);
	return rc ? cairn_log_failed(db, rc) : 0;
}

/* What is left to do for a write that is visible. */
struct rest {
	uint64_t end; /* of its log record */
	uint64_t sleep_ns;
	bool sync;
};

/*
 * The log has no room, with `code`: what it holds goes into runs, early, so that it can go on in
 * its old files. 0 when that is worth another try. [write_lock], let go in between
 */
static int empty_log(struct cairn *db, int code)
{
	const struct cairn_set *set = atomic_load(&db->set);
	bool active = cairn_memtable_operations(set->active->memtable) != 0;
	if (cairn_log_stopped(db->log) || (!active && !set->sealed_count))
		return code;
	int rc = active && set->sealed_count < CAIRN_SEALED_MAX ? cairn_seal(db) : 0;
	return rc ? rc : wait_for_flush(db);
}

/* 2 to 5. */
static int write_once(struct cairn *db, const struct operations *operations, struct rest *rest)
{
	int rc;
	cairn_write_lock(&db->write_lock);
	do {
		rc = make_room(db, operations);
		if (rc)
			break;
		rc = append(db, operations, &rest->end);
	} while (CAIRN_UNLIKELY(cairn_no_space(rc)) && !(rc = empty_log(db, rc)));
	if (!rc) {
		rest->sleep_ns = pace(db, operations->payload);
		rest->sync = rest->sync || interval_over(db);
	}
	cairn_write_unlock(&db->write_lock);
	return rc;
}

/* "No space" has stopped the log: the flusher will make it go on. Without one the write does that,
 * and is tried again. */
static int write_after_flush(
    struct cairn *db, const struct operations *operations, struct rest *rest, int code)
{
	if (!db->options.no_background)
		return cairn_log_failed(db, code);
	int rc = cairn_flush_all(db);
	return rc ? rc : write_once(db, operations, rest);
}

static int write_operations(struct cairn *db, const struct operations *operations, unsigned flags)
{
	struct rest rest = {
	    .sync = (flags & CAIRN_SYNC) || db->options.sync_mode == CAIRN_SYNC_FULL};
	int rc = write_once(db, operations, &rest);
	if (CAIRN_UNLIKELY(cairn_no_space(rc)) && cairn_no_space(cairn_log_stopped(db->log)))
		rc = write_after_flush(db, operations, &rest, rc);
	if (!rc && rest.sync)
		rc = sync_log(db, rest.end);
	if (rest.sleep_ns) {
		struct timespec delay = {
		    (time_t)(rest.sleep_ns / 1000000000), (long)(rest.sleep_ns % 1000000000)};
		nanosleep(&delay, NULL);
	}
	return rc;
}

static int write_single(
    struct cairn *db, enum cairn_kind kind, cairn_slice key, cairn_slice value, unsigned flags)
{
	struct cairn_record record = {key, value, 0, kind};
	int rc = check_writable(db, flags);
	if (!rc)
		rc = cairn_check_record(&record);
	if (rc)
		return cairn_report(db, rc);
	uint64_t hash = cairn_key_hash(key, db->identity.hash_seed);
	record.checksum = cairn_record_checksum(hash, kind, value);
	struct operations operations = {&record, NULL, 1, key.size + value.size,
	    cairn_log_operation_size(&record), kind == CAIRN_KIND_DELETE};
	return cairn_report(db, write_operations(db, &operations, flags));
}

int cairn_put(cairn *db, cairn_slice key, cairn_slice value, unsigned flags)
{
	return write_single(db, CAIRN_KIND_PUT, key, value, flags);
}

int cairn_delete(cairn *db, cairn_slice key, unsigned flags)
{
	return write_single(db, CAIRN_KIND_DELETE, key, (cairn_slice){"", 0}, flags);
}

int cairn_write(cairn *db, const cairn_batch *batch, unsigned flags)
{
	int rc = check_writable(db, flags);
	if (!rc && !batch)
		rc = cairn_error(CAIRN_INVALID, "the batch is NULL");
	if (rc)
		return cairn_report(db, rc);
	if (batch->count == 0)
		return flags & CAIRN_SYNC ? cairn_sync(db) : 0;
	struct operations operations = {NULL, batch, batch->count, batch->payload, batch->body.size,
	    batch->deletes == batch->count};
	return cairn_report(db, write_operations(db, &operations, flags));
}

int cairn_sync(cairn *db)
{
	int rc = check_writable(db, 0);
	if (!rc && atomic_load(&db->failed))
		rc = cairn_failed_error(db);
	if (!rc)
		rc = sync_log(db, cairn_log_end(db->log));
	return cairn_report(db, rc);
}
