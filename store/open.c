/*
 * store/open.c -- open and close.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/filename.h"
#include "store/index.h"
#include "store/io_select.h"
#include "store/options.h"
#include "store/store.h"

/* A reader beside a writer starts over when files changed under it; this often at most. */
#define READER_TRIES 100

static void destroy_locks(struct cairn *db)
{
	pthread_mutex_destroy(&db->publish_lock);
	pthread_mutex_destroy(&db->flush_lock);
	pthread_mutex_destroy(&db->merge_lock);
	pthread_mutex_destroy(&db->error_mutex);
	pthread_mutex_destroy(&db->progress_mutex);
	pthread_cond_destroy(&db->progress_cond);
	pthread_mutex_destroy(&db->obsolete.mutex);
	pthread_mutex_destroy(&db->retired.mutex);
}

static void init_locks(struct cairn *db)
{
	pthread_mutex_init(&db->publish_lock, NULL);
	pthread_mutex_init(&db->flush_lock, NULL);
	pthread_mutex_init(&db->merge_lock, NULL);
	pthread_mutex_init(&db->error_mutex, NULL);
	pthread_mutex_init(&db->progress_mutex, NULL);
	pthread_cond_init(&db->progress_cond, NULL);
	pthread_mutex_init(&db->obsolete.mutex, NULL);
	pthread_mutex_init(&db->retired.mutex, NULL);
}

/* Lets go of what was read: sets, runs, manifest, log. What a failed or read-only open does before
 * it tries again. */
static void release_state(struct cairn *db)
{
	cairn_log_close(db->log, false);
	db->log = NULL;
	cairn_epoch_drain(&db->retired);
	cairn_set_unref(atomic_exchange(&db->set, NULL));
	cairn_table_unref(db->spare_table);
	db->spare_table = NULL;
	cairn_manifest_release(&db->manifest);
}

static void free_store(struct cairn *db)
{
	if (db->io) {
		release_state(db);
		if (!db->read_only)
			cairn_obsolete_remove(&db->obsolete, db->io);
		cairn_fork_unregister(db);
		if (db->lock)
			db->io->ops->unlock(db->lock);
		if (db->own_io)
			cairn_io_release(db->io);
	}
	cairn_forget_messages(db);
	destroy_locks(db);
	free(db->view_sequences);
	free(db->directory);
	free(db);
}

static struct cairn *new_store(struct cairn_io *io, const char *path, const cairn_options *options)
{
	struct cairn *db = calloc(1, sizeof *db);
	if (!db)
		return NULL;
	init_locks(db);
	db->io = io;
	db->options = *options;
	db->read_only = options->read_only != 0;
	db->log_reserve = options->memtable_bytes < CAIRN_RESERVE_LEAST  ? CAIRN_RESERVE_LEAST
			  : options->memtable_bytes > CAIRN_RESERVE_MOST ? CAIRN_RESERVE_MOST
									 : options->memtable_bytes;
	db->table_reserve = 2 * db->log_reserve;
	db->fork_generation = atomic_load(&cairn_fork_generation);
	db->directory = strdup(path);
	db->view_capacity = 8;
	db->view_sequences = malloc(db->view_capacity * sizeof *db->view_sequences);
	if (db->directory && db->view_sequences)
		return db;
	db->io = NULL;
	free_store(db);
	return NULL;
}

/* ------------------------------------------------------------- what is there */

struct directory_survey {
	bool manifest;
	bool runs;
	uint64_t highest_number;
	uint64_t log_number; /* of a segment with a record in it */
	int unread;          /* why it is not known of a segment */
	struct cairn_io *io;
	const char *directory;
};

/* Whether the segment holds more than its header: a record has a size that is not zero. */
static int segment_has_record(const struct directory_survey *survey, uint64_t number, bool *found)
{
	const struct cairn_io_ops *ops = survey->io->ops;
	char *path = cairn_filename(survey->directory, CAIRN_FILE_LOG, number);
	struct cairn_file *file;
	uint8_t record[CAIRN_LOG_RECORD_HEADER] = {0};
	size_t done = 0;
	*found = false;
	int rc = path ? ops->open(survey->io, path, CAIRN_OPEN_READ, &file) : -ENOMEM;
	free(path);
	if (rc)
		return rc == -ENOENT ? 0 : rc; /* a writer has removed it */
	rc = ops->read(file, record, sizeof record, CAIRN_LOG_HEADER_SIZE, &done);
	for (size_t i = 0; i < done; i++)
		*found = *found || record[i];
	ops->close(file);
	return rc;
}

static int survey_name(void *context, const char *name)
{
	struct directory_survey *survey = context;
	uint64_t number;
	enum cairn_file_kind kind = cairn_filename_parse(name, &number);
	/* What a crash left half written counts as well: its name is taken until it is swept. */
	if (number != CAIRN_TEMPORARY_MANIFEST_OLD && number > survey->highest_number)
		survey->highest_number = number;
	if (kind == CAIRN_FILE_MANIFEST)
		survey->manifest = true;
	if (kind == CAIRN_FILE_RUN)
		survey->runs = true;
	if (kind == CAIRN_FILE_LOG && !survey->log_number) {
		bool found;
		int rc = segment_has_record(survey, number, &found);
		survey->unread = rc ? rc : survey->unread;
		survey->log_number = found ? number : 0;
	}
	return 0;
}

/* A directory with data but no manifest is damaged, not new. */
static int check_headless(const struct directory_survey *survey)
{
	if (survey->runs || survey->log_number)
		return cairn_error(CAIRN_CORRUPT,
		    "%s: it holds %s but no MANIFEST; restore the MANIFEST from a copy or repair "
		    "the store",
		    survey->directory, survey->runs ? "runs" : "log records");
	if (survey->unread)
		return cairn_error(survey->unread,
		    "%s: it has no MANIFEST, and whether a log segment in it holds records cannot "
		    "be read: %s",
		    survey->directory, cairn_strerror(survey->unread));
	return 0;
}

int cairn_check_headless(struct cairn_io *io, const char *directory)
{
	struct directory_survey survey = {.io = io, .directory = directory};
	int rc = io->ops->list(io, directory, survey_name, &survey);
	return rc || survey.manifest ? rc : check_headless(&survey);
}

static int survey_directory(struct cairn *db, struct directory_survey *survey)
{
	*survey = (struct directory_survey){.io = db->io, .directory = db->directory};
	int rc = db->io->ops->list(db->io, db->directory, survey_name, survey);
	if (rc == -ENOENT) /* the caller's business, not a failure of the disk */
		return -ENOENT;
	if (rc)
		return rc;
	if (survey->manifest && db->options.must_not_exist)
		return cairn_error(-EEXIST, "%s: there is a store already", db->directory);
	rc = survey->manifest ? 0 : check_headless(survey);
	if (!rc && !survey->manifest && (db->read_only || db->options.must_exist))
		return cairn_error(-ENOENT, "%s: there is no store", db->directory);
	return rc;
}

/*
 * The store's own name becomes durable before anything in it counts, also when the directory was
 * there: a process that made it may have been killed before it came to this. A parent that may not
 * be synced is the business of whoever `made` a directory in it.
 */
static int sync_parent(struct cairn *db, bool made)
{
	char *parent = cairn_path_parent(db->directory);
	int rc = parent ? db->io->ops->sync_directory(db->io, parent)
			: cairn_error(-ENOMEM, "out of memory for a path");
	free(parent);
	return !made && (rc == -EACCES || rc == -EPERM || rc == -EROFS) ? 0 : rc;
}

/* Makes the directory when it is missing and may be made. Nothing is made for a store that has to
 * exist. */
static int make_directory(struct cairn *db, struct directory_survey *survey)
{
	int rc = survey_directory(db, survey);
	if (survey->manifest || (rc && rc != -ENOENT))
		return rc;
	if (db->read_only || db->options.must_exist)
		return cairn_error(-ENOENT, "%s: there is no store", db->directory);
	bool made = false;
	if (rc == -ENOENT) {
		rc = db->io->ops->make_directory(db->io, db->directory);
		made = rc == 0;
	}
	if (rc && rc != -EEXIST)
		return rc == -EROFS ? cairn_error(CAIRN_READ_ONLY,
					  "%s: the file system is read-only", db->directory)
				    : cairn_error_system(rc, db->directory, "mkdir");
	return sync_parent(db, made);
}

static int take_lock(struct cairn *db)
{
	char *path = cairn_filename(db->directory, CAIRN_FILE_LOCK, 0);
	int rc = path ? db->io->ops->lock(db->io, path, &db->lock)
		      : cairn_error(-ENOMEM, "out of memory for a path");
	free(path);
	if (rc == -EACCES || rc == -EROFS || rc == -EPERM)
		return cairn_error(CAIRN_READ_ONLY,
		    "%s: the store cannot be written here (%s); open it with read_only",
		    db->directory, cairn_strerror(rc));
	return rc;
}

/* ------------------------------------------------------------- reading it in */

static int new_manifest(struct cairn *db)
{
	struct cairn_manifest *manifest = &db->manifest;
	*manifest = (struct cairn_manifest){.next_number = 1,
	    .run_format = CAIRN_KV02,
	    .compression = CAIRN_NO_COMPRESSION,
	    .point_index = CAIRN_POINT_INDEX};
	uint8_t random[sizeof manifest->identity.store_id + 8];
	int rc = db->io->ops->entropy(db->io, random, sizeof random);
	memcpy(manifest->identity.store_id, random, sizeof manifest->identity.store_id);
	manifest->identity.hash_seed = cairn_get64(random + sizeof manifest->identity.store_id);
	return rc;
}

static int open_run(
    struct cairn *db, const struct cairn_manifest_run *described, struct cairn_run **run)
{
	const struct cairn_manifest_file *file = &described->files[0];
	struct cairn_run_expect expect = {
	    db->identity, file->number, file->size, file->footer_checksum};
	struct cairn_run_reader *reader;
	if (described->file_count != 1)
		return cairn_error(CAIRN_UNSUPPORTED,
		    "%s: a run of %zu files; this version reads runs of one file", db->directory,
		    described->file_count);
	char *path = cairn_filename(db->directory, CAIRN_FILE_RUN, file->number);
	int rc = path ? cairn_run_open(db->io, path, &expect, &reader)
		      : cairn_error(-ENOMEM, "out of memory for a path");
	if (rc == -ENOENT)
		rc = cairn_error(CAIRN_CORRUPT,
		    "%s: the run is missing that the MANIFEST names; restore it from a copy or "
		    "repair the store",
		    path);
	free(path);
	if (rc)
		return rc;
	*run = cairn_run_new(reader, file, &db->obsolete);
	if (!*run)
		return cairn_error(-ENOMEM, "out of memory for a run");
	(*run)->rent = described->rent;
	atomic_store(&(*run)->dead_bytes, described->dead_bytes);
	return 0;
}

/* What cannot be used is left out, and made anew by a handle that may write. */
static void open_indexes(
    struct cairn *db, struct cairn_run *const *runs, struct cairn_index **indexes)
{
	size_t count = db->manifest.run_count;
	for (size_t i = 0; i + 1 < count; i++) {
		const struct cairn_fraction_file *file = &db->manifest.runs[i].index;
		if (file->number)
			indexes[i] = cairn_index_open(db, file, runs[i], runs[count - 1]);
	}
}

static int open_runs(struct cairn *db, struct cairn_version **version)
{
	size_t count = db->manifest.run_count, opened = 0;
	struct cairn_run **runs = calloc(count + 1, sizeof(struct cairn_run *));
	struct cairn_index **indexes = calloc(count + 1, sizeof(struct cairn_index *));
	int rc = runs && indexes ? 0 : cairn_error(-ENOMEM, "out of memory for the list of runs");
	for (; !rc && opened < count; opened += !rc)
		rc = open_run(db, &db->manifest.runs[opened], &runs[opened]);
	if (!rc) {
		open_indexes(db, runs, indexes);
		*version = cairn_version_new(runs, indexes, count);
		if (!*version)
			rc = cairn_error(-ENOMEM, "out of memory for the list of runs");
	}
	while (opened > 0) {
		cairn_index_unref(indexes[--opened]);
		cairn_run_unref(runs[opened]);
	}
	free(runs);
	free(indexes);
	return rc;
}

/* Stored choices: a constant in the options changes them, 0 takes them over. */
static void settle_choices(struct cairn *db)
{
	cairn_options *options = &db->options;
	struct cairn_manifest *manifest = &db->manifest;
	if (options->run_format)
		manifest->run_format = (uint32_t)options->run_format;
	if (options->compression)
		manifest->compression = (uint32_t)options->compression;
	if (options->point_index)
		manifest->point_index = (uint32_t)options->point_index;
	options->run_format = (int)manifest->run_format;
	options->compression = (int)manifest->compression;
	options->point_index = (int)manifest->point_index;
}

static void wake_log_keeper(void *db)
{
	cairn_event_set(&((struct cairn *)db)->log_keeper.wake);
}

static int open_log(struct cairn *db)
{
	size_t most = db->options.memtable_bytes;
	most = most > (64u << 20) ? 64u << 20 : most;
	struct cairn_log_config config = {
	    .io = db->io,
	    .directory = db->directory,
	    .identity = db->identity,
	    .segment_min = most < (1u << 20) ? most : 1u << 20,
	    .segment_max = most,
	    .reserve_size = db->log_reserve,
	    .populate_far = db->options.sync_mode == CAIRN_SYNC_NONE,
	    .next_number = &db->next_number,
	    .wake = db->options.no_background ? NULL : wake_log_keeper,
	    .wake_context = db,
	};
	return cairn_log_open(&config, &db->log);
}

/* An empty table over the manifest's runs. */
static int open_set(struct cairn *db)
{
	struct cairn_version *version = NULL;
	struct cairn_set *set = NULL;
	int rc = open_runs(db, &version);
	struct cairn_table *table = rc ? NULL : cairn_new_table(db, 0, 0);
	if (table)
		set = cairn_set_new(table, NULL, 0, version);
	cairn_table_unref(table);
	cairn_version_unref(version);
	if (!rc && !set)
		rc = cairn_error(-ENOMEM, "out of memory for a memtable");
	if (!rc)
		cairn_replace_set(db, set);
	return rc;
}

/* Everything from the manifest on. */
static int read_store(struct cairn *db, const struct directory_survey *survey)
{
	int rc = survey->manifest ? cairn_manifest_load(db->io, db->directory, &db->manifest)
				  : new_manifest(db);
	if (rc)
		return rc;
	settle_choices(db);
	db->identity = db->manifest.identity;
	uint64_t next = db->manifest.next_number;
	atomic_store(
	    &db->next_number, survey->highest_number >= next ? survey->highest_number + 1 : next);
	atomic_store(&db->sequence, db->manifest.flushed_sequence);
	rc = open_log(db);
	if (!rc)
		rc = open_set(db);
	if (!rc)
		rc = cairn_recover(db);
	db->synced_sequence = db->marked_sequence = atomic_load(&db->sequence);
	return rc;
}

/* ------------------------------------------------------------- beside a writer */

/* Whether the manifest on disk is still the one that was read. */
static bool unchanged(struct cairn *db, uint64_t generation)
{
	struct cairn_manifest now;
	bool same =
	    cairn_manifest_load(db->io, db->directory, &now) == 0 && now.generation == generation;
	cairn_manifest_release(&now);
	return same;
}

/*
 * Reads without a lock. A writer may publish, recycle and remove meanwhile, so the result counts
 * only if the manifest is the same afterwards; and a failure only when it shows twice, since the
 * tail of the log was perhaps being written.
 */
static int read_beside_writer(struct cairn *db, const struct directory_survey *survey)
{
	char seen[CAIRN_ERROR_TEXT_MAX] = "";
	for (int i = 0; i < READER_TRIES; i++) {
		int rc = read_store(db, survey);
		uint64_t generation = db->manifest.generation;
		if (rc && generation ==
			      0) /* the manifest itself; it is replaced whole, so that is final */
			return rc;
		char text[CAIRN_ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s", rc ? cairn_error_text() : "");
		bool same = unchanged(db, generation);
		if (same && rc == 0)
			return 0;
		same = same && rc != CAIRN_CONFLICT;
		if (same && strcmp(seen, text) == 0)
			return cairn_error(rc, "%s", text);
		snprintf(seen, sizeof seen, "%s", same ? text : "");
		release_state(db);
	}
	return cairn_error(CAIRN_CONFLICT,
	    "%s: a writer changes the store faster than it can be read; try again", db->directory);
}

/* ------------------------------------------------------------- open */

static int open_store(struct cairn *db)
{
	struct directory_survey survey;
	int rc = make_directory(db, &survey);
	if (rc)
		return rc;
	if (db->read_only)
		return read_beside_writer(db, &survey);
	rc = take_lock(db);
	if (!rc)
		rc = survey_directory(db, &survey); /* again, now that nobody changes it */
	if (!rc)
		rc = read_store(db, &survey);
	if (!rc)
		rc = cairn_background_start(db);
	if (rc)
		cairn_background_stop(db);
	return rc;
}

static int open_resolved(struct cairn_io *io, bool own_io, const char *path,
    const cairn_options *options, struct cairn **db)
{
	struct cairn *made = new_store(io, path, options);
	if (!made) {
		if (own_io)
			cairn_io_release(io);
		return cairn_error(-ENOMEM, "out of memory for a store");
	}
	made->own_io = own_io;
	cairn_fork_register(made);
	int rc = open_store(made);
	if (rc) {
		char text[CAIRN_ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s", cairn_error_text());
		free_store(made);
		return cairn_error(rc, "%s", text);
	}
	*db = made;
	return 0;
}

int cairn_open_with(
    struct cairn_io *io, const char *path, const cairn_options *options, struct cairn **db)
{
	cairn_options resolved;
	*db = NULL;
	int rc = cairn_options_resolve(options, &resolved);
	return cairn_report(NULL, rc ? rc : open_resolved(io, false, path, &resolved, db));
}

int cairn_open(const char *path, const cairn_options *options, cairn **db)
{
	cairn_options resolved;
	struct cairn_io *io;
	if (db)
		*db = NULL;
	int rc = path && *path && db
		     ? cairn_options_resolve(options, &resolved)
		     : cairn_error(CAIRN_INVALID, "a path and a place for the handle are needed");
	if (!rc)
		rc = cairn_io_select(resolved.io_backend, &io);
	if (!rc)
		rc = open_resolved(io, true, path, &resolved, db);
	return cairn_report(NULL, rc);
}

/* ------------------------------------------------------------- close */

/* On a full disk, a log that takes no more has blocks that the manifest may need. */
static void find_room_to_publish(struct cairn *db)
{
	uint64_t free_bytes;
	if (db->io->ops->free_space(db->io, db->directory, &free_bytes) ||
	    free_bytes >= CAIRN_PUBLISH_ROOM)
		return;
	(void)cairn_log_lend_reserve(db->log);
	cairn_log_trim(db->log);
}

/* The writes that close makes: a big memtable to a run, a small one stays in the log; both durable,
 * and said to be. */
static int finish_writes(struct cairn *db)
{
	if (atomic_load(&db->failed))
		return cairn_failed_error(db);
	const struct cairn_set *set = atomic_load(&db->set);
	bool spent = cairn_no_space(cairn_log_stopped(db->log));
	int rc = 0;
	if (set->sealed_count || spent ||
	    cairn_memtable_bytes(set->active->memtable) > CAIRN_CLOSE_FLUSH_BYTES)
		rc = cairn_flush(db);
	/* What could not be flushed is in the log, which is well when there was just no room. */
	if (cairn_no_space(rc) && !spent)
		rc = 0;
	find_room_to_publish(db);
	if (atomic_load(&db->log_ready)) {
		int synced = cairn_log_sync(db->log, cairn_log_end(db->log));
		rc = synced ? synced : rc;
	}
	if (!rc && atomic_load(&db->log_ready)) {
		pthread_mutex_lock(&db->publish_lock);
		rc = cairn_publish_log_end(db);
		if (rc == 0)
			rc = cairn_publish_durable(db);
		pthread_mutex_unlock(&db->publish_lock);
	}
	return rc < 0 ? rc : 0;
}

int cairn_close(cairn *db)
{
	if (!db)
		return 0;
	int rc = cairn_check_handle(db);
	if (!rc && db->view_count)
		rc = cairn_error(CAIRN_BUSY, "%s: %zu views are open; close them first",
		    db->directory, db->view_count);
	if (rc)
		return cairn_report(db, rc);
	char text[CAIRN_ERROR_TEXT_MAX] = "";
	cairn_background_stop(db);
	if (!db->read_only) {
		rc = finish_writes(db);
		if (rc)
			snprintf(text, sizeof text, "%s", cairn_error_text());
		cairn_log_close(db->log, rc == 0);
		db->log = NULL;
	}
	free_store(db);
	return rc ? cairn_report(NULL, cairn_error(rc, "%s", text)) : 0;
}
