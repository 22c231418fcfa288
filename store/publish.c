/*
 * store/publish.c -- the one place where a store changes what it consists of.
 *
 * The order is always: output files synced, directory synced, manifest durable, then readers see
 * it, then what the old manifest alone needed is let go. One thread at a time (publish_lock), so
 * the version that a publisher started from is still the current one when it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

int cairn_failed_error(struct cairn *db)
{
	pthread_mutex_lock(&db->error_mutex);
	int rc = cairn_error(CAIRN_FAILED,
	    "%s takes no more writes since one failed; close it and open it again; the cause was: "
	    "%s",
	    db->directory, db->failed_text);
	pthread_mutex_unlock(&db->error_mutex);
	return rc;
}

int cairn_fail_handle(struct cairn *db)
{
	pthread_mutex_lock(&db->error_mutex);
	bool first = !atomic_load(&db->failed);
	if (first)
		snprintf(db->failed_text, sizeof db->failed_text, "%s", cairn_error_text());
	atomic_store(&db->failed, true);
	pthread_mutex_unlock(&db->error_mutex);
	if (first)
		cairn_log_line(db, "no more writes: %s", cairn_error_text());
	cairn_progress(db);
	return cairn_failed_error(db);
}

int cairn_log_failed(struct cairn *db, int code)
{
	if (!cairn_no_space(code))
		return cairn_fail_handle(db);
	cairn_event_set(&db->flusher.wake);
	return code;
}

void cairn_replace_set(struct cairn *db, struct cairn_set *set)
{
	struct cairn_set *old = atomic_exchange(&db->set, set);
	if (old)
		cairn_epoch_retire(&db->retired, &old->retired);
}

struct cairn_version *cairn_current_version(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	struct cairn_version *version = atomic_load(&db->set)->version;
	cairn_version_ref(version);
	cairn_write_unlock(&db->write_lock);
	return version;
}

/* Fills the manifest's runs from a version; `files` has room for as many. */
static void describe_runs(const struct cairn_version *version, struct cairn_manifest *manifest,
    struct cairn_manifest_file *files, struct cairn_manifest_run *runs)
{
	for (size_t i = 0; i < version->count; i++) {
		const struct cairn_run *run = version->runs[i];
		files[i] = run->file;
		runs[i] = (struct cairn_manifest_run){.files = &files[i],
		    .file_count = 1,
		    .rent = run->rent,
		    .dead_bytes = cairn_run_dead_bytes(run)};
		if (version->indexes[i])
			runs[i].index = version->indexes[i]->file;
	}
	manifest->runs = runs;
	manifest->run_count = version->count;
}

/* Writes db->manifest with the runs of `version`. A failure behind the rename fails the handle. */
static int write_manifest(struct cairn *db, const struct cairn_version *version)
{
	bool renamed = false;
	size_t count = version->count ? version->count : 1;
	struct cairn_manifest_file *files = calloc(count, sizeof *files);
	struct cairn_manifest_run *runs = calloc(count, sizeof *runs);
	int rc = files && runs ? 0 : cairn_error(-ENOMEM, "out of memory for a manifest");
	if (!rc) {
		struct cairn_manifest next = db->manifest;
		describe_runs(version, &next, files, runs);
		next.generation++;
		next.next_number = atomic_load(&db->next_number);
		rc = cairn_manifest_store(db->io, db->directory, &next, &renamed);
		if (!rc)
			db->manifest.generation = next.generation;
	}
	free(files);
	free(runs);
	return rc && renamed ? cairn_fail_handle(db) : rc;
}

static void clear_log_fields(struct cairn_manifest *m)
{
	m->log_number = m->log_salt = m->log_ordinal = m->log_position = m->log_durable = 0;
}

/* Where replay has to start when everything before `position` is in runs. */
static void set_log_fields(struct cairn *db, uint64_t position)
{
	struct cairn_manifest *m = &db->manifest;
	m->log_position = position;
	m->log_durable = cairn_log_durable(db->log);
	if (!cairn_log_segment_at(db->log, position, &m->log_number, &m->log_salt, &m->log_ordinal))
		clear_log_fields(m);
	/* A position at the very end of a segment that is full is the start of the next one. */
	else if (cairn_log_position_ordinal(position) < m->log_ordinal)
		m->log_position = cairn_log_position(m->log_ordinal, CAIRN_LOG_HEADER_SIZE);
}

/* Nothing may fail behind a durable manifest: the memory for the next set is taken before. */
static int reserve_set(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	db->next_set = cairn_set_room(atomic_load(&db->set)->sealed_count);
	int rc = db->next_set ? 0 : cairn_error(-ENOMEM, "out of memory for a version");
	cairn_write_unlock(&db->write_lock);
	return rc;
}

static struct cairn_set *take_reserved_set(struct cairn *db)
{
	struct cairn_set *set = db->next_set;
	db->next_set = NULL;
	return set;
}

static void drop_reserved_set(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	free(take_reserved_set(db));
	cairn_write_unlock(&db->write_lock);
}

/* Shows the set in which `version` is current and `flushed` is no longer needed. */
static void show_version(
    struct cairn *db, struct cairn_version *version, const struct cairn_table *flushed)
{
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	struct cairn_set *next = take_reserved_set(db);
	cairn_set_fill(next, set->active, set->sealed, set->sealed_count, version);
	size_t n = 0;
	for (size_t i = 0; i < next->sealed_count; i++) {
		if (next->sealed[i] == flushed)
			cairn_table_unref(next->sealed[i]);
		else
			next->sealed[n++] = next->sealed[i];
	}
	next->sealed_count = n;
	cairn_replace_set(db, next);
	cairn_write_unlock(&db->write_lock);
}

/* What the manifest that was replaced named and the new one does not. */
static void retire_indexes(const struct cairn_version *before, const struct cairn_version *after)
{
	for (size_t i = 0; i < before->count; i++) {
		size_t k = 0;
		while (k < after->count && after->indexes[k] != before->indexes[i])
			k++;
		if (before->indexes[i] && k == after->count)
			atomic_store(&before->indexes[i]->obsolete, true);
	}
}

int cairn_publish(struct cairn *db, struct cairn_version *version, struct cairn_table *flushed,
    struct cairn_run *const *obsoleted, size_t obsoleted_count)
{
	if (atomic_load(&db->failed))
		return cairn_failed_error(db);
	int rc = reserve_set(db);
	if (rc)
		return rc;
	struct cairn_manifest before = db->manifest;
	if (flushed) {
		db->manifest.flushed_sequence = flushed->last_sequence;
		if (!db->recovering)
			set_log_fields(db, flushed->log_end);
	} else if (!db->recovering && db->manifest.log_number) {
		db->manifest.log_durable = cairn_log_durable(db->log);
	}
	db->manifest.log_bytes_written += cairn_log_bytes_written(db->log) - db->log_bytes_counted;
	rc = write_manifest(db, version);
	if (rc) {
		db->manifest = before;
		drop_reserved_set(db);
		return rc;
	}
	db->log_bytes_counted = cairn_log_bytes_written(db->log);
	struct cairn_version *old = cairn_current_version(db);
	show_version(db, version, flushed);
	retire_indexes(old, version);
	cairn_version_unref(old);
	for (size_t i = 0; i < obsoleted_count; i++)
		atomic_store(&obsoleted[i]->obsolete, true);
	if (flushed && !db->recovering)
		cairn_log_retire(db->log, flushed->log_end);
	return 0;
}

int cairn_publish_log_start(struct cairn *db, bool urgent)
{
	if (atomic_load(&db->log_ready))
		return 0;
	if (atomic_load(&db->failed))
		return cairn_failed_error(db);
	struct cairn_manifest before = db->manifest;
	struct cairn_version *version = NULL;
	cairn_write_lock(&db->write_lock);
	int rc = cairn_log_started(db->log)
		     ? 0
		     : cairn_log_start(db->log, atomic_load(&db->sequence), urgent);
	cairn_write_unlock(&db->write_lock);
	if (!rc) {
		set_log_fields(db, cairn_log_end(db->log));
		version = cairn_current_version(db);
		rc = write_manifest(db, version);
	}
	if (rc)
		db->manifest = before;
	else
		atomic_store(&db->log_ready, true);
	cairn_version_unref(version);
	return rc;
}

int cairn_publish_recovered(struct cairn *db, uint64_t log_position)
{
	struct cairn_version *version = cairn_current_version(db);
	set_log_fields(db, log_position);
	int rc = write_manifest(db, version);
	cairn_version_unref(version);
	if (!rc)
		atomic_store(&db->log_ready, cairn_log_started(db->log));
	return rc;
}

int cairn_publish_durable(struct cairn *db)
{
	struct cairn_version *version = cairn_current_version(db);
	db->manifest.log_durable = cairn_log_durable(db->log);
	int rc = write_manifest(db, version);
	cairn_version_unref(version);
	return rc;
}

/* Whether every record of the log is in a run. [write_lock] */
static bool nothing_unflushed(struct cairn *db)
{
	const struct cairn_set *set = atomic_load(&db->set);
	return set->sealed_count == 0 && cairn_memtable_operations(set->active->memtable) == 0;
}

int cairn_publish_log_end(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	bool end =
	    atomic_load(&db->log_ready) && nothing_unflushed(db) && !atomic_load(&db->failed);
	if (end)
		atomic_store(&db->log_ready, false);
	cairn_write_unlock(&db->write_lock);
	if (!end)
		return 0;
	struct cairn_manifest before = db->manifest;
	struct cairn_version *version = cairn_current_version(db);
	clear_log_fields(&db->manifest);
	int rc = write_manifest(db, version);
	cairn_version_unref(version);
	if (rc) {
		db->manifest = before;
		atomic_store(&db->log_ready, !atomic_load(&db->failed));
		return rc;
	}
	cairn_write_lock(&db->write_lock);
	rc = cairn_log_drop(db->log);
	cairn_write_unlock(&db->write_lock);
	return rc < 0 ? rc : 1;
}
