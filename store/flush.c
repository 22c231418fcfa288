/*
 * store/flush.c -- memtables become runs.
 *
 * Sealed tables are flushed oldest first, one at a time. The table stays readable until the
 * manifest that names its run is durable; the set that readers get next has the run and not the
 * table.
 */
#include <errno.h>
#include <stdlib.h>

#include "compaction/job.h"
#include "format/filename.h"
#include "store/run_output.h"
#include "store/store.h"

struct cairn_table *cairn_new_table(struct cairn *db, size_t operations, size_t bytes)
{
	/* A margin above the limit, so that the write that passes it fits and the next one rotates;
	 * and room that only deletes may take, for when that is not possible. */
	size_t capacity = db->options.memtable_bytes + db->options.memtable_bytes / 4 +
			  (256u << 10) + db->table_reserve;
	size_t bound = cairn_memtable_bound(operations, bytes) + db->table_reserve;
	struct cairn_memtable *memtable;
	if (bound + (64u << 10) > capacity)
		capacity = bound + (64u << 10);
	if (cairn_memtable_new(capacity, db->identity.hash_seed, &memtable))
		return NULL;
	return cairn_table_new(memtable);
}

/* Keeps the room for the publisher's next set as large as the current one. [write_lock] */
static int grow_next_set(struct cairn *db, size_t sealed_count)
{
	if (!db->next_set)
		return 0;
	struct cairn_set *larger = cairn_set_room(sealed_count);
	if (!larger)
		return -ENOMEM;
	free(db->next_set);
	db->next_set = larger;
	return 0;
}

int cairn_seal(struct cairn *db)
{
	struct cairn_set *old = atomic_load(&db->set), *set = NULL;
	if (cairn_memtable_operations(old->active->memtable) == 0)
		return 0;
	struct cairn_table *table = db->spare_table ? db->spare_table : cairn_new_table(db, 0, 0);
	db->spare_table = NULL;
	size_t count = old->sealed_count + 1;
	struct cairn_table **sealed = malloc(count * sizeof(struct cairn_table *));
	if (table && sealed && grow_next_set(db, count) == 0) {
		sealed[0] = old->active;
		for (size_t i = 1; i < count; i++)
			sealed[i] = old->sealed[i - 1];
		set = cairn_set_new(table, sealed, count, old->version);
	}
	free(sealed);
	cairn_table_unref(table);
	if (!set)
		return cairn_error(-ENOMEM, "out of memory for a memtable");
	old->active->log_end = cairn_log_end(db->log);
	old->active->last_sequence = atomic_load(&db->sequence);
	cairn_replace_set(db, set);
	return 0;
}

/* The oldest sealed table and the version below it, with references; NULL when none waits. */
static struct cairn_table *oldest_sealed(struct cairn *db, struct cairn_version **version)
{
	struct cairn_table *table = NULL;
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	if (set->sealed_count) {
		table = set->sealed[set->sealed_count - 1];
		*version = set->version;
		cairn_table_ref(table);
		cairn_version_ref(*version);
	}
	cairn_write_unlock(&db->write_lock);
	return table;
}

static int publish_flush(struct cairn *db, struct cairn_table *table,
    const struct cairn_run_result *made, const struct cairn_shadow *shadow)
{
	pthread_mutex_lock(&db->publish_lock);
	struct cairn_version *current = cairn_current_version(db);
	struct cairn_version *next = cairn_version_replace(current, 0, 0, made->run, made->index);
	int rc = next ? 0 : cairn_error(-ENOMEM, "out of memory for a version");
	if (!rc) {
		db->manifest.flush_bytes_written += made->bytes;
		cairn_shadow_charge(shadow, current);
		rc = cairn_publish(db, next, table, NULL, 0);
		if (rc) {
			cairn_shadow_discharge(shadow, current);
			db->manifest.flush_bytes_written -= made->bytes;
		}
	}
	pthread_mutex_unlock(&db->publish_lock);
	cairn_version_unref(current);
	cairn_version_unref(next);
	return rc;
}

/* The most that the flush of a table takes on the disk, its manifest included. */
static uint64_t flush_room(const struct cairn_table *table)
{
	uint64_t bytes = cairn_memtable_bytes(table->memtable);
	return bytes + bytes / 8 + CAIRN_PUBLISH_ROOM;
}

uint64_t cairn_flush_room(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	uint64_t bytes = flush_room(set->active);
	for (size_t i = 0; i < set->sealed_count; i++)
		bytes += flush_room(set->sealed[i]);
	cairn_write_unlock(&db->write_lock);
	return bytes;
}

/* Frees the blocks of the log's reserve when that makes the difference between a disk that has no
 * room for `needed` bytes and one that has. */
static bool lend_reserve(struct cairn *db, uint64_t needed)
{
	uint64_t reserve = cairn_log_reserve_bytes(db->log), free_bytes;
	if (!reserve || db->io->ops->free_space(db->io, db->directory, &free_bytes))
		return false;
	if (free_bytes >= needed || free_bytes + reserve < needed)
		return false;
	cairn_write_lock(&db->write_lock);
	bool lent = cairn_log_lend_reserve(db->log);
	cairn_write_unlock(&db->write_lock);
	return lent;
}

static int flush_table(
    struct cairn *db, struct cairn_table *table, const struct cairn_version *version)
{
	struct cairn_shadow shadow;
	int rc = cairn_shadow_init(&shadow, version, 0, version->count, db->identity.hash_seed);
	if (rc)
		return rc;
	struct cairn_run_output output = {
	    .db = db,
	    .older = version->runs,
	    .older_count = version->count,
	    .shadow = version->count ? &shadow : NULL,
	    .tombstones = cairn_memtable_deletes(table->memtable) > 0,
	    .size_hint = cairn_memtable_payload(table->memtable) +
			 cairn_memtable_payload(table->memtable) / 8,
	};
	cairn_memtable_sequences(table->memtable, &output.sequence_low, &output.sequence_high);
	struct cairn_cursor *input;
	struct cairn_run_result made = {0};
	bool lent = lend_reserve(db, flush_room(table));
	rc = cairn_memtable_cursor_open(table->memtable, table->last_sequence, &input);
	if (!rc)
		rc = cairn_run_output(&output, input, &made);
	if (!rc)
		rc = publish_flush(db, table, &made, &shadow);
	cairn_run_result_release(db, &made, rc != 0);
	cairn_shadow_release(&shadow);
	if (lent)
		cairn_log_return_reserve(db->log);
	return rc;
}

int cairn_flush_step(struct cairn *db)
{
	struct cairn_version *version = NULL;
	pthread_mutex_lock(&db->flush_lock);
	struct cairn_table *table = oldest_sealed(db, &version);
	int rc = 0;
	if (table) {
		rc = flush_table(db, table, version);
		cairn_trouble_note(db, &db->flush_trouble, rc);
		if (!rc)
			cairn_update_pace(db);
	}
	pthread_mutex_unlock(&db->flush_lock);
	cairn_version_unref(version);
	if (!table)
		return 0;
	cairn_table_unref(table);
	cairn_progress(db);
	if (!rc)
		cairn_event_set(&db->merger.wake);
	return rc ? rc : 1;
}

/* Whether a sealed table holds operations up to `sequence`. */
static bool waits_for_flush(struct cairn *db, uint64_t sequence)
{
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	bool waits =
	    set->sealed_count && set->sealed[set->sealed_count - 1]->last_sequence <= sequence;
	cairn_write_unlock(&db->write_lock);
	return waits;
}

int cairn_flush_all(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	int rc = atomic_load(&db->failed) ? cairn_failed_error(db) : cairn_seal(db);
	uint64_t last = atomic_load(&db->sequence);
	cairn_write_unlock(&db->write_lock);
	while (rc >= 0 && waits_for_flush(db, last))
		rc = cairn_flush_step(db);
	if (rc >= 0 && cairn_no_space(cairn_log_stopped(db->log))) {
		pthread_mutex_lock(&db->publish_lock);
		rc = cairn_publish_log_end(db);
		pthread_mutex_unlock(&db->publish_lock);
	}
	return rc < 0 ? rc : 0;
}

int cairn_flush(cairn *db)
{
	int rc = cairn_check_handle(db);
	if (!rc && db->read_only)
		rc = cairn_error(CAIRN_READ_ONLY, "%s is open for reading only", db->directory);
	if (!rc)
		rc = cairn_flush_all(db);
	return cairn_report(db, rc);
}
