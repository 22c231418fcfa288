/*
 * store/write.c -- put, delete, write, sync: the way of a record into log and memtable.
 *
 * 1. Check the limits; hash and checksum a single record. No lock is held.
 * 2. Take the write lock. Make room: a table that is not full, a log that is started.
 * 3. Reserve room in the log, copy the operations there and insert them into the memtable, above
 *    the published sequence: invisible still.
 * 4. Seal the log record: from here on a kill does not lose it.
 * 5. Publish the sequence: visible, all at once. Unlock.
 * 6. When asked for: wait until the log is durable up to the record.
 *
 * What can fail does so before 3, but for a log that is written by calls: when its write fails at 4
 * the handle is failed, and what the memtable has above the published sequence is never seen.
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
	int rc = 0;
	pthread_mutex_lock(&db->progress_mutex);
	while (db->progress_count == seen && !rc) {
		pthread_cond_wait(&db->progress_cond, &db->progress_mutex);
		if (atomic_load(&db->failed))
			rc = CAIRN_FAILED;
	}
	pthread_mutex_unlock(&db->progress_mutex);
	return rc == CAIRN_FAILED ? cairn_failed_error(db) : rc;
}

static uint64_t progress_seen(struct cairn *db)
{
	pthread_mutex_lock(&db->progress_mutex);
	uint64_t seen = db->progress_count;
	pthread_mutex_unlock(&db->progress_mutex);
	return seen;
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

static int start_log(struct cairn *db)
{
	cairn_write_unlock(&db->write_lock);
	pthread_mutex_lock(&db->publish_lock);
	int rc = cairn_publish_log_start(db);
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
	for (;;) {
		if (CAIRN_UNLIKELY(atomic_load_explicit(&db->failed, memory_order_relaxed)))
			return cairn_failed_error(db);
		int rc = 0;
		struct cairn_set *set = atomic_load_explicit(&db->set, memory_order_relaxed);
		struct cairn_memtable *active = set->active->memtable;
		bool fits = cairn_memtable_fits(active, operations->count, operations->payload);
		bool full = cairn_memtable_bytes(active) >= db->options.memtable_bytes;
		if (CAIRN_LIKELY(fits && !full)) {
			if (CAIRN_LIKELY(
				atomic_load_explicit(&db->log_ready, memory_order_relaxed)))
				return 0;
			rc = start_log(db);
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
		if (rc)
			return rc;
	}
}

/* 3 and 4 for one operation: into the log's body and into the table. */
static uint8_t *write_operation(struct cairn *db, struct cairn_memtable *table, uint8_t *body,
    const struct cairn_record *record, uint64_t sequence)
{
	body = cairn_log_operation_put(body, record);
	cairn_memtable_put(table, record, sequence, db->view_sequences, db->view_count + 1);
	return body;
}

static void write_batch(struct cairn *db, struct cairn_memtable *table, uint8_t *body,
    const struct cairn_batch *batch, uint64_t sequence)
{
	struct cairn_input in = cairn_input_of(batch->body.data, batch->body.size);
	struct cairn_record record;
	while (cairn_log_operation_next(&in, &record) == 0) {
		uint64_t hash = cairn_key_hash(record.key, db->identity.hash_seed);
		record.checksum = cairn_record_checksum(hash, record.kind, record.value);
		body = write_operation(db, table, body, &record, sequence++);
	}
}

/* 3 to 5. [write_lock] */
static int append(struct cairn *db, const struct operations *operations, uint64_t *end)
{
	uint64_t last = atomic_load_explicit(&db->sequence, memory_order_relaxed);
	uint8_t *body;
	int rc = cairn_log_reserve(db->log, operations->body_size, last, &body);
	if (rc)
		return rc;
	struct cairn_memtable *table =
	    atomic_load_explicit(&db->set, memory_order_relaxed)->active->memtable;
	/* What plain reads may still be looking at is kept like what a view needs. */
	db->view_sequences[db->view_count] = last;
	if (operations->single)
		write_operation(db, table, body, operations->single, last + 1);
	else
		write_batch(db, table, body, operations->batch, last + 1);
	rc = cairn_log_commit(db->log, last + 1, end);
	if (rc)
		return cairn_fail_handle(db);
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
	if (rc && !atomic_load(&db->failed))
		cairn_fail_handle(db);
	return rc;
}

static int write_operations(struct cairn *db, const struct operations *operations, unsigned flags)
{
	uint64_t end = 0, sleep_ns = 0;
	bool sync = (flags & CAIRN_SYNC) || db->options.sync_mode == CAIRN_SYNC_FULL;
	cairn_write_lock(&db->write_lock);
	int rc = make_room(db, operations);
	if (!rc)
		rc = append(db, operations, &end);
	if (!rc) {
		sleep_ns = pace(db, operations->payload);
		sync = sync || interval_over(db);
	}
	cairn_write_unlock(&db->write_lock);
	if (!rc && sync)
		rc = sync_log(db, end);
	if (sleep_ns) {
		struct timespec delay = {
		    (time_t)(sleep_ns / 1000000000), (long)(sleep_ns % 1000000000)};
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
	struct operations operations = {
	    &record, NULL, 1, key.size + value.size, cairn_log_operation_size(&record)};
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
	struct operations operations = {
	    NULL, batch, batch->count, batch->payload, batch->body.size};
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
