/*
 * store/background.c -- the four threads, and the same work one step at a time.
 *
 *	flusher     flushes what is sealed; first in line, never paced
 *	merger      merges by the policy; when no write came for two seconds, by the at-rest rules
 *	log keeper  prepares log segments and faults memory in, ahead of the writers
 *	syncer      syncs the log every interval; notes in an idle log what of it is durable
 *
 * A worker that fails backs off, doubling, and leaves its failure in a `trouble`, for stat and for
 * those who wait for it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "compaction/pace.h"
#include "compaction/policy.h"
#include "store/store.h"

#define BACKOFF_FIRST_NS  100000000u
#define BACKOFF_MOST_NS   UINT64_C(30000000000)
#define POLL_NS           250000000u
#define TABLE_AHEAD_BYTES (4u << 20)

void cairn_log_line(struct cairn *db, const char *format, ...)
{
	char line[CAIRN_ERROR_TEXT_MAX + 64];
	if (!db->options.log)
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	db->options.log(db->options.callback_context, line);
}

void cairn_progress(struct cairn *db)
{
	pthread_mutex_lock(&db->progress_mutex);
	db->progress_count++;
	pthread_cond_broadcast(&db->progress_cond);
	pthread_mutex_unlock(&db->progress_mutex);
}

void cairn_trouble_note(struct cairn *db, struct cairn_trouble *trouble, int rc)
{
	bool news = rc && atomic_load(&trouble->code) != rc;
	pthread_mutex_lock(&db->error_mutex);
	if (rc)
		snprintf(trouble->text, sizeof trouble->text, "%s", cairn_error_text());
	atomic_store(&trouble->code, rc);
	pthread_mutex_unlock(&db->error_mutex);
	if (!rc) {
		trouble->backoff = 0;
		trouble->retry_at = 0;
		return;
	}
	trouble->backoff = trouble->backoff ? trouble->backoff * 2 : BACKOFF_FIRST_NS;
	if (cairn_no_space(rc) && trouble->backoff > 1000000000)
		trouble->backoff = 1000000000; /* room may come back at any time */
	if (trouble->backoff > BACKOFF_MOST_NS)
		trouble->backoff = BACKOFF_MOST_NS;
	trouble->retry_at = db->io->ops->now(db->io) + trouble->backoff;
	if (news)
		cairn_log_line(db, "background: %s", cairn_error_text());
}

static bool may_try(struct cairn *db, const struct cairn_trouble *trouble)
{
	return !atomic_load(&db->failed) &&
	       (!atomic_load(&trouble->code) || db->io->ops->now(db->io) >= trouble->retry_at);
}

void cairn_update_pace(struct cairn *db)
{
	uint64_t total = 0;
	struct cairn_version *version = cairn_current_version(db);
	for (size_t i = 0; i < version->count; i++)
		total += version->runs[i]->file.size;
	struct cairn_pace_debt debt = {
	    .runs = version->count,
	    .budget = cairn_policy_budget(total, db->options.memtable_bytes),
	    .sealed_max = CAIRN_SEALED_MAX,
	};
	cairn_version_unref(version);
	int64_t delay = cairn_pace_delay(&debt, 1024);
	/* The hard stop is in the write path, where it can wait for a merge. */
	atomic_store(&db->pace_ns_per_kib, delay == CAIRN_PACE_STOP ? 0 : delay);
}

static int flush_once(struct cairn *db)
{
	if (!may_try(db, &db->flush_trouble))
		return 0;
	return cairn_no_space(cairn_log_stopped(db->log)) ? cairn_flush_all(db)
							  : cairn_flush_step(db);
}

/* Whether no write came for CAIRN_REST_NS, by what the merger saw at its looks. */
static bool at_rest(struct cairn *db)
{
	uint64_t now = db->io->ops->now(db->io);
	uint64_t sequence = atomic_load(&db->sequence);
	if (sequence != db->rest_sequence || !db->rest_since) {
		db->rest_sequence = sequence;
		db->rest_since = now;
	}
	bool rest = now - db->rest_since >= CAIRN_REST_NS;
	atomic_store(&db->resting, rest);
	return rest;
}

/* At rest: seals a memtable whose deletes or overwrites hold space. 1 when it did. */
static int seal_at_rest(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	const struct cairn_memtable *table = set->active->memtable;
	bool due = set->sealed_count < CAIRN_SEALED_MAX &&
		   (cairn_memtable_deletes(table) || cairn_memtable_overwrites(table));
	int rc = due ? cairn_seal(db) : 0;
	cairn_write_unlock(&db->write_lock);
	if (rc || !due)
		return rc;
	cairn_event_set(&db->flusher.wake);
	return 1;
}

static int merge_once(struct cairn *db)
{
	bool rest = at_rest(db);
	cairn_obsolete_remove(&db->obsolete, db->io);
	cairn_epoch_collect(&db->retired);
	if (!may_try(db, &db->merge_trouble))
		return 0;
	int rc = rest ? seal_at_rest(db) : 0;
	if (!rc)
		rc = cairn_merge_step(db, rest);
	if (!rc && may_try(db, &db->index_trouble))
		rc = cairn_index_step(db);
	if (!rc && rest && atomic_load(&db->log_ready)) {
		pthread_mutex_lock(&db->publish_lock);
		rc = cairn_publish_log_end(db);
		if (!rc)
			cairn_log_rest(db->log);
		pthread_mutex_unlock(&db->publish_lock);
	}
	return rc;
}

/* Makes the next memtable, its first pages in memory, before a writer needs it. */
static int prepare_table(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	bool missing = !db->spare_table;
	cairn_write_unlock(&db->write_lock);
	if (!missing)
		return 0;
	struct cairn_table *table = cairn_new_table(db, 0, 0);
	if (!table)
		return 0;
	while (cairn_memtable_populate(table->memtable, TABLE_AHEAD_BYTES) > 0)
		;
	cairn_write_lock(&db->write_lock);
	if (!db->spare_table) {
		db->spare_table = table;
		table = NULL;
	}
	cairn_write_unlock(&db->write_lock);
	cairn_table_unref(table);
	return 1;
}

static int populate_active(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	struct cairn_table *table = atomic_load(&db->set)->active;
	cairn_table_ref(table);
	cairn_write_unlock(&db->write_lock);
	int rc = cairn_memtable_populate(table->memtable, TABLE_AHEAD_BYTES);
	cairn_table_unref(table);
	return rc;
}

static int keep_log_once(struct cairn *db)
{
	if (atomic_load(&db->failed) || atomic_load(&db->resting) || !atomic_load(&db->log_ready))
		return 0;
	int worked = cairn_log_prepare(db->log);
	if (populate_active(db) > 0)
		worked = 1;
	if (worked <= 0)
		worked = prepare_table(db);
	return worked;
}

/*
 * Syncs when something was written since the last time; when nothing was, leaves a mark in the log
 * that says how much of it is durable, once.
 */
static int sync_once(struct cairn *db)
{
	uint64_t sequence = atomic_load(&db->sequence);
	int rc = 0;
	if (atomic_load(&db->failed) || !atomic_load(&db->log_ready))
		return 0;
	if (sequence != db->synced_sequence) {
		if (db->options.sync_mode == CAIRN_SYNC_INTERVAL)
			rc = cairn_log_sync(db->log, cairn_log_end(db->log));
		if (rc)
			return cairn_log_failed(db, rc);
		db->synced_sequence = sequence;
		return 1;
	}
	if (sequence == db->marked_sequence)
		return 0;
	db->marked_sequence = sequence;
	cairn_write_lock(&db->write_lock);
	if (atomic_load(&db->log_ready) && sequence == atomic_load(&db->sequence))
		rc = cairn_log_mark(db->log, sequence);
	cairn_write_unlock(&db->write_lock);
	return rc;
}

int cairn_background_step(struct cairn *db)
{
	int rc = flush_once(db);
	if (!rc)
		rc = keep_log_once(db);
	if (!rc)
		rc = merge_once(db);
	if (!rc)
		rc = sync_once(db);
	return rc;
}

/* A worker's life: work while there is some, else wait for `poll_ns` or a wake. */
static void work(struct cairn_worker *worker, int (*once)(struct cairn *db), uint64_t poll_ns)
{
	while (!atomic_load(&worker->db->closing)) {
		if (once(worker->db) <= 0 && !atomic_load(&worker->db->closing))
			cairn_event_wait(&worker->wake, poll_ns);
	}
}

static void *flusher_main(void *worker)
{
	work(worker, flush_once, POLL_NS);
	return NULL;
}

static void *merger_main(void *worker)
{
	work(worker, merge_once, POLL_NS);
	return NULL;
}

static void *log_keeper_main(void *worker)
{
	work(worker, keep_log_once, POLL_NS);
	return NULL;
}

/* Unlike the others it does not go on at once when there was work: the interval is the point. */
static void *syncer_main(void *context)
{
	struct cairn_worker *worker = context;
	uint64_t interval = (uint64_t)worker->db->options.sync_interval_ms * 1000000;
	while (!atomic_load(&worker->db->closing)) {
		cairn_event_wait(&worker->wake, interval);
		if (!atomic_load(&worker->db->closing))
			sync_once(worker->db);
	}
	return NULL;
}

static int start(struct cairn *db, struct cairn_worker *worker, void *(*main)(void *worker))
{
	worker->db = db;
	int error = pthread_create(&worker->thread, NULL, main, worker);
	worker->started = !error;
	return error ? cairn_error(-error, "no background thread could be started: %s",
			   cairn_strerror(-error))
		     : 0;
}

int cairn_background_start(struct cairn *db)
{
	if (db->options.no_background || db->read_only)
		return 0;
	int rc = start(db, &db->flusher, flusher_main);
	if (!rc)
		rc = start(db, &db->merger, merger_main);
	if (!rc)
		rc = start(db, &db->log_keeper, log_keeper_main);
	if (!rc)
		rc = start(db, &db->syncer, syncer_main);
	return rc;
}

void cairn_background_stop(struct cairn *db)
{
	struct cairn_worker *workers[] = {&db->flusher, &db->merger, &db->log_keeper, &db->syncer};
	atomic_store(&db->closing, true);
	for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
		cairn_event_set(&workers[i]->wake);
	for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
		if (workers[i]->started)
			pthread_join(workers[i]->thread, NULL);
		workers[i]->started = false;
	}
}
