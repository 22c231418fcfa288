/*
 * store/recover.c -- from a manifest and a log to the state that was acknowledged.
 *
 * A writing open, as a list:
 *
 * 1. The manifest was loaded and its runs were opened (open.c). Runs that it does not name, and
 *    logs where it names none, that say they are another store's end the open: where the manifest
 *    is the wrong one, step 5 would remove them.
 * 2. The log is replayed into a memtable. When that is full it is flushed, as a run with a manifest
 *    of its own that leaves the log fields alone: a recovery that is killed has lost no work, and
 *    the next one skips what is in runs. What that one left half made goes here already, temporary
 *    files and its fresh log, so that many of them do not fill the disk.
 * 3. What is left in the memtable is flushed as well if it is much, else its records are copied
 *    into a fresh log, synced. What was read back from a file that may never have been synced is
 *    durable from here on, and short lives do not leave many tiny runs behind.
 * 4. A manifest that names the fresh log, or none, is published.
 * 5. Only now are the other files removed: whatever the manifest does not name.
 * 6. After a crash that found far too many runs, merges catch up here: lives too short for a
 *    background merge still end up with a store that shrinks.
 *
 * A read-only open does the first two alone, into memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "compaction/policy.h"
#include "format/filename.h"
#include "format/log_record.h"
#include "format/run_file.h"
#include "store/store.h"
#include "wal/log_reader.h"

/* Runs above the budget that a recovery does not leave behind. */
#define RUNS_OVER_BUDGET 3u

struct recovery {
	struct cairn *db;
	uint64_t progress_at;
	uint64_t copied_to; /* position behind the last record copied */
};

void cairn_log_start_of(const struct cairn_manifest *manifest, struct cairn_log_start *start)
{
	*start = (struct cairn_log_start){
	    .identity = manifest->identity,
	    .number = manifest->log_number,
	    .salt = manifest->log_salt,
	    .ordinal = manifest->log_ordinal,
	    .position = manifest->log_position,
	    .durable = manifest->log_durable,
	    .sequence = manifest->flushed_sequence,
	};
}

/* ---------------------------------------------------------------- whose files these are */

static bool in_version(const struct cairn_version *version, uint64_t number)
{
	for (size_t i = 0; i < version->count; i++)
		if (version->runs[i]->file.number == number)
			return true;
	return false;
}

static bool indexed_by(const struct cairn_version *version, uint64_t number)
{
	for (size_t i = 0; i < version->count; i++)
		if (version->indexes[i] && version->indexes[i]->file.number == number)
			return true;
	return false;
}

/* Whether a run or a log says of itself that it is of another store. What cannot be read says
 * nothing: a crash leaves such files. */
static bool is_foreign(struct cairn *db, struct cairn_file *file, enum cairn_file_kind kind)
{
	uint8_t bytes[CAIRN_LOG_HEADER_SIZE];
	struct cairn_run_header run;
	struct cairn_log_segment_header log;
	size_t size = kind == CAIRN_FILE_RUN ? CAIRN_RUN_HEADER_SIZE : CAIRN_LOG_HEADER_SIZE;
	if (cairn_io_read_exactly(file, bytes, size, 0))
		return false;
	if (kind == CAIRN_FILE_RUN)
		return cairn_run_header_decode(&run, bytes, "") == 0 &&
		       !cairn_identity_equal(&run.identity, &db->identity);
	return cairn_log_segment_header_decode(&log, bytes, "") == 0 &&
	       !cairn_identity_equal(&log.identity, &db->identity);
}

struct claim {
	struct cairn *db;
	const struct cairn_version *version;
	int rc;
};

/* For one name; non-zero ends the listing. */
static int refuse_foreign(void *context, const char *name)
{
	struct claim *claim = context;
	struct cairn *db = claim->db;
	struct cairn_file *file;
	uint64_t number;
	enum cairn_file_kind kind = cairn_filename_parse(name, &number);
	/* Where the manifest names a log, replay judges it: older segments may be anyone's. */
	if (kind == CAIRN_FILE_RUN ? in_version(claim->version, number)
				   : kind != CAIRN_FILE_LOG || db->manifest.log_number)
		return 0;
	char *path = cairn_filename(db->directory, kind, number);
	if (!path) {
		claim->rc = cairn_error(-ENOMEM, "out of memory for a path");
	} else if (db->io->ops->open(db->io, path, CAIRN_OPEN_READ, &file) == 0) {
		if (is_foreign(db, file, kind))
			claim->rc = cairn_error_at(CAIRN_CORRUPT, path, 0,
			    "the file belongs to another store than the MANIFEST beside it; put "
			    "the "
			    "right MANIFEST back, or take this file away");
		db->io->ops->close(file);
	}
	free(path);
	return claim->rc;
}

static int claim_files(struct cairn *db)
{
	struct claim claim = {db, cairn_current_version(db), 0};
	int rc = db->io->ops->list(db->io, db->directory, refuse_foreign, &claim);
	cairn_version_unref((struct cairn_version *)(uintptr_t)claim.version);
	return claim.rc ? claim.rc : rc;
}

/* ---------------------------------------------------------------- replay */

static void report_progress(void *context, uint64_t done, uint64_t total)
{
	struct recovery *recovery = context;
	struct cairn *db = recovery->db;
	uint64_t now = db->io->ops->now(db->io);
	if (!db->options.progress || now < recovery->progress_at)
		return;
	recovery->progress_at = now + 250000000;
	db->options.progress(db->options.callback_context, "replay", done, total);
}

static int flush_sealed(struct cairn *db)
{
	int rc;
	do
		rc = cairn_flush_step(db);
	while (rc > 0);
	return rc;
}

/* Room for a record of `count` operations in the active table. */
static int make_room(struct cairn *db, uint32_t count, size_t bytes)
{
	struct cairn_set *set = atomic_load(&db->set);
	struct cairn_memtable *active = set->active->memtable;
	bool full = cairn_memtable_bytes(active) >= db->options.memtable_bytes;
	if (!full && cairn_memtable_fits(active, count, bytes))
		return 0;
	db->spare_table = cairn_new_table(db, count, bytes);
	if (!db->spare_table)
		return cairn_error(-ENOMEM, "out of memory for a memtable");
	if (cairn_memtable_operations(active) == 0) {
		struct cairn_set *next =
		    cairn_set_new(db->spare_table, set->sealed, set->sealed_count, set->version);
		cairn_table_unref(db->spare_table);
		db->spare_table = NULL;
		if (!next)
			return cairn_error(-ENOMEM, "out of memory for a memtable");
		cairn_replace_set(db, next);
		return 0;
	}
	int rc = cairn_seal(db);
	return rc || db->read_only ? rc : flush_sealed(db);
}

static int apply(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	struct recovery *recovery = context;
	struct cairn *db = recovery->db;
	int rc = make_room(db, count, body.size);
	if (rc)
		return rc;
	struct cairn_memtable *table = atomic_load(&db->set)->active->memtable;
	struct cairn_input in = cairn_input_of(body.data, body.size);
	struct cairn_record record;
	uint64_t sequence = first_sequence;
	while (cairn_log_operation_next(&in, &record) == 0)
		cairn_memtable_put(table, &record, sequence++, NULL, 0);
	atomic_store(&db->sequence, sequence - 1);
	return 0;
}

static int copy(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	struct recovery *recovery = context;
	uint8_t *room;
	(void)count;
	int rc = cairn_log_reserve(recovery->db->log, body.size, first_sequence - 1, true, &room);
	if (rc)
		return rc;
	memcpy(room, body.data, body.size);
	return cairn_log_commit(recovery->db->log, first_sequence, &recovery->copied_to);
}

/* A failure is no harm: step 5 tries again. */
static void remove_file(struct cairn *db, enum cairn_file_kind kind, uint64_t number)
{
	char *path = cairn_filename(db->directory, kind, number);
	if (path)
		db->io->ops->unlink(db->io, path);
	free(path);
}

static void remove_unnamed(void *context, uint64_t number)
{
	remove_file(((struct recovery *)context)->db, CAIRN_FILE_LOG, number);
}

static int remove_temporary(void *context, const char *name)
{
	uint64_t number;
	if (cairn_filename_parse(name, &number) == CAIRN_FILE_TEMPORARY)
		remove_file(context, CAIRN_FILE_TEMPORARY, number);
	return 0;
}

static int replay(struct recovery *recovery,
    int (*each)(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body),
    struct cairn_log_summary *summary)
{
	struct cairn *db = recovery->db;
	struct cairn_log_replay call = {
	    .directory = db->directory,
	    .apply = each,
	    .progress = report_progress,
	    .context = recovery,
	};
	/* No manifest names our own fresh log yet. */
	if (!db->read_only && !cairn_log_started(db->log))
		call.unnamed = remove_unnamed;
	cairn_log_start_of(&db->manifest, &call.start);
	return cairn_log_read(db->io, &call, summary);
}

/* Step 3. *position is where the fresh log's records begin. */
static int keep_rest(struct recovery *recovery, uint64_t *position)
{
	struct cairn *db = recovery->db;
	struct cairn_log_summary summary;
	const struct cairn_memtable *rest = atomic_load(&db->set)->active->memtable;
	*position = 0;
	if (cairn_memtable_operations(rest) == 0)
		return 0;
	if (cairn_memtable_bytes(rest) > db->options.memtable_bytes / 2) {
		int rc = cairn_seal(db);
		return rc ? rc : flush_sealed(db);
	}
	int rc = cairn_log_start(db->log, db->manifest.flushed_sequence, true);
	if (rc)
		return rc;
	*position = cairn_log_end(db->log);
	rc = replay(recovery, copy, &summary);
	return rc ? rc : cairn_log_sync(db->log, recovery->copied_to);
}

struct litter {
	struct cairn *db;
	const struct cairn_version *version;
	uint64_t fresh; /* files from this number on were made by this recovery */
};

/* Step 5, for one name. */
static int remove_litter(void *context, const char *name)
{
	const struct litter *litter = context;
	uint64_t number;
	bool dead = false;
	enum cairn_file_kind kind = cairn_filename_parse(name, &number);
	switch (kind) {
	case CAIRN_FILE_TEMPORARY:
		dead = true;
		break;
	case CAIRN_FILE_INDEX:
		dead = !indexed_by(litter->version, number);
		break;
	case CAIRN_FILE_RUN:
		dead = !in_version(litter->version, number);
		break;
	case CAIRN_FILE_LOG:
		/* The fresh log is the writer's, also where the manifest names its second segment
		 * because the first had no room for the first record. */
		dead = number < litter->fresh;
		break;
	case CAIRN_FILE_FOREIGN:
	case CAIRN_FILE_LOCK:
	case CAIRN_FILE_MANIFEST:
	case CAIRN_FILE_MANIFEST_OLD:
		break;
	}
	if (dead)
		remove_file(litter->db, kind, number);
	return 0;
}

static int sweep(struct cairn *db, uint64_t fresh)
{
	struct litter litter = {db, cairn_current_version(db), fresh};
	int rc = db->io->ops->list(db->io, db->directory, remove_litter, &litter);
	cairn_version_unref((struct cairn_version *)(uintptr_t)litter.version);
	return rc;
}

/* Step 6. */
static int catch_up(struct cairn *db)
{
	for (;;) {
		uint64_t total = 0;
		struct cairn_version *version = cairn_current_version(db);
		size_t count = version->count;
		for (size_t i = 0; i < count; i++)
			total += version->runs[i]->file.size;
		cairn_version_unref(version);
		if (count <=
		    cairn_policy_budget(total, db->options.memtable_bytes) + RUNS_OVER_BUDGET)
			return 0;
		int rc = cairn_merge_step(db, false);
		if (rc <= 0)
			return 0; /* a store that cannot merge can still be read: the background
				     will say why */
	}
}

int cairn_recover(struct cairn *db)
{
	struct recovery recovery = {.db = db};
	struct cairn_log_summary summary;
	uint64_t position;
	int rc = claim_files(db);
	if (!rc && !db->read_only)
		rc = db->io->ops->list(db->io, db->directory, remove_temporary, db);
	if (rc)
		return rc;
	db->recovering = true;
	rc = replay(&recovery, apply, &summary);
	db->recovering = false;
	if (rc || db->read_only)
		return rc;
	if (summary.torn_bytes)
		cairn_log_line(db,
		    "recovery: %llu bytes of a write that was under way at the crash are left out",
		    (unsigned long long)summary.torn_bytes);
	uint64_t fresh = atomic_load(&db->next_number);
	db->recovering = true;
	rc = keep_rest(&recovery, &position);
	db->recovering = false;
	if (rc)
		return rc;
	pthread_mutex_lock(&db->publish_lock);
	rc = cairn_publish_recovered(db, position);
	pthread_mutex_unlock(&db->publish_lock);
	if (!rc)
		rc = sweep(db, fresh);
	if (!rc && summary.records)
		rc = catch_up(db);
	return rc;
}
