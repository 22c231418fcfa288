/*
 * store/compact.c -- merges: asks the policy what to merge, does it, publishes it.
 *
 * One merge at a time (merge_lock). Its inputs are marked busy under publish_lock; flushes may
 * publish newer runs while it works, so its place in the version is looked up again at the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "compaction/merge.h"
#include "compaction/policy.h"
#include "store/run_output.h"
#include "store/store.h"

struct merge {
	struct cairn *db;
	struct cairn_version *version; /* when it began */
	size_t newest, oldest;
	uint64_t input_bytes;
	uint64_t dead_before; /* of the inputs, when it began */
	bool stoppable;
	const char *what; /* of the progress callback */
	uint64_t progress_at;
};

static void describe_policy(const struct cairn_version *version, struct cairn_policy_run *runs)
{
	for (size_t i = 0; i < version->count; i++) {
		const struct cairn_run *run = version->runs[i];
		const struct cairn_run_footer *footer = cairn_run_footer(run->reader);
		runs[i] = (struct cairn_policy_run){.bytes = run->file.size,
		    .records = footer->records,
		    .tombstones = footer->tombstones,
		    .rent = run->rent,
		    .busy = run->busy};
	}
}

/* Marks the inputs busy, or free again. [publish_lock] */
static void mark_busy(struct merge *merge, bool busy)
{
	for (size_t i = merge->newest; i <= merge->oldest; i++)
		merge->version->runs[i]->busy = busy;
}

/* [publish_lock] */
static uint64_t dead_inputs(const struct merge *merge)
{
	uint64_t bytes = 0;
	for (size_t i = merge->newest; i <= merge->oldest; i++)
		bytes += atomic_load(&merge->version->runs[i]->dead_bytes);
	return bytes;
}

/* [publish_lock] */
static void claim(struct merge *merge)
{
	mark_busy(merge, true);
	merge->dead_before = dead_inputs(merge);
}

/* The most that the output of a merge takes, its manifest, and the flush of what is in the log. */
static uint64_t room_for_output(struct cairn *db, uint64_t input_bytes)
{
	return input_bytes + input_bytes / 64 + CAIRN_PUBLISH_ROOM + cairn_flush_room(db);
}

/* A job that the disk has no room for becomes one of its newest runs, when at least two of them
 * fit: it makes fewer runs, too. */
static void cut_to_room(
    struct cairn *db, const struct cairn_policy_run *runs, struct cairn_policy_job *job)
{
	uint64_t free_bytes, bytes = runs[job->newest].bytes;
	size_t oldest = job->newest;
	if (db->io->ops->free_space(db->io, db->directory, &free_bytes))
		return;
	while (oldest < job->oldest &&
	       room_for_output(db, bytes + runs[oldest + 1].bytes) <= free_bytes)
		bytes += runs[++oldest].bytes;
	if (oldest > job->newest)
		job->oldest = oldest;
}

/* What to merge next, or false. Marks it. */
static bool pick(struct cairn *db, bool at_rest, struct merge *merge, int *rc)
{
	struct cairn_policy_job job;
	bool found = false;
	pthread_mutex_lock(&db->publish_lock);
	merge->version = cairn_current_version(db);
	struct cairn_policy_run *runs = calloc(merge->version->count + 1, sizeof *runs);
	*rc = runs ? 0 : cairn_error(-ENOMEM, "out of memory for a merge");
	if (runs) {
		describe_policy(merge->version, runs);
		found = cairn_policy_next(
		    runs, merge->version->count, db->options.memtable_bytes, at_rest, &job);
		if (found) {
			cut_to_room(db, runs, &job);
			merge->newest = job.newest;
			merge->oldest = job.oldest;
			claim(merge);
		}
	}
	pthread_mutex_unlock(&db->publish_lock);
	free(runs);
	return found;
}

static int check_space(struct cairn *db, uint64_t needed)
{
	uint64_t free_bytes;
	int rc = db->io->ops->free_space(db->io, db->directory, &free_bytes);
	if (!rc && free_bytes < needed)
		rc = cairn_error(-ENOSPC,
		    "%s: a merge needs up to %llu bytes of space and %llu are free; free some "
		    "space",
		    db->directory, (unsigned long long)needed, (unsigned long long)free_bytes);
	return rc;
}

static int open_inputs(struct merge *merge, struct cairn_cursor **input)
{
	size_t count = merge->oldest - merge->newest + 1, opened = 0;
	struct cairn_cursor **cursors = calloc(count, sizeof(struct cairn_cursor *));
	int rc = cursors ? 0 : cairn_error(-ENOMEM, "out of memory for a merge");
	for (; !rc && opened < count; opened += !rc)
		rc = cairn_run_cursor_open(merge->version->runs[merge->newest + opened]->reader,
		    CAIRN_ADVISE_SEQUENTIAL, &cursors[opened]);
	if (!rc)
		rc = cairn_merge_open(cursors, count, input);
	else
		while (opened > 0)
			cairn_cursor_close(cursors[--opened]);
	free(cursors);
	return rc;
}

static void report_progress(void *context, uint64_t bytes)
{
	struct merge *merge = context;
	struct cairn *db = merge->db;
	uint64_t now = db->io->ops->now(db->io);
	if (now < merge->progress_at)
		return;
	merge->progress_at = now + 250000000;
	db->options.progress(db->options.callback_context, merge->what, bytes, merge->input_bytes);
}

/* What is dead of the output: what the runs in front of the inputs hid when it was written, and
 * what flushes have hidden of the inputs since. [publish_lock] */
static void count_dead(
    const struct merge *merge, const struct cairn_shadow *shadow, struct cairn_run *run)
{
	uint64_t since = dead_inputs(merge) - merge->dead_before;
	atomic_store(&run->dead_bytes, cairn_shadow_of(shadow, run) + since);
}

static void charge(struct merge *merge, uint64_t bytes)
{
	for (size_t i = merge->oldest + 1; i < merge->version->count; i++)
		merge->version->runs[i]->rent += bytes;
}

/* [publish_lock] */
static int publish_merge(struct merge *merge, const struct cairn_run_result *made)
{
	struct cairn *db = merge->db;
	struct cairn_run **inputs = &merge->version->runs[merge->newest];
	size_t count = merge->oldest - merge->newest + 1;
	struct cairn_version *current = cairn_current_version(db);
	/* Flushes may have put newer runs in front of the inputs. */
	size_t place = cairn_version_place(current, inputs[0]);
	struct cairn_version *next =
	    cairn_version_replace(current, place, count, made->run, made->index);
	int rc = next ? 0 : cairn_error(-ENOMEM, "out of memory for a version");
	if (!rc) {
		db->manifest.merge_bytes_written += made->bytes;
		rc = cairn_publish(db, next, NULL, inputs, count);
		if (rc)
			db->manifest.merge_bytes_written -= made->bytes;
		else
			charge(merge, made->bytes);
	}
	cairn_version_unref(current);
	cairn_version_unref(next);
	return rc;
}

static void sum_inputs(struct merge *merge, struct cairn_run_output *output)
{
	output->sequence_low = UINT64_MAX;
	for (size_t i = merge->newest; i <= merge->oldest; i++) {
		const struct cairn_run *run = merge->version->runs[i];
		const struct cairn_run_footer *footer = cairn_run_footer(run->reader);
		merge->input_bytes += run->file.size;
		output->tombstones = output->tombstones || footer->tombstones > 0;
		if (footer->sequence_low < output->sequence_low)
			output->sequence_low = footer->sequence_low;
		if (footer->sequence_high > output->sequence_high)
			output->sequence_high = footer->sequence_high;
	}
}

/* Does a picked merge; frees the marks. */
static int run_merge(struct merge *merge)
{
	struct cairn *db = merge->db;
	struct cairn_shadow shadow;
	struct cairn_run_output output = {
	    .db = db,
	    .older = &merge->version->runs[merge->oldest + 1],
	    .older_count = merge->version->count - merge->oldest - 1,
	    .shadow = merge->newest ? &shadow : NULL,
	    .stoppable = merge->stoppable,
	    .progress = db->options.progress ? report_progress : NULL,
	    .context = merge,
	};
	sum_inputs(merge, &output);
	output.size_hint = merge->input_bytes;
	struct cairn_cursor *input;
	struct cairn_run_result made = {0};
	int rc =
	    cairn_shadow_init(&shadow, merge->version, 0, merge->newest, db->identity.hash_seed);
	if (!rc)
		rc = check_space(db, room_for_output(db, merge->input_bytes));
	if (!rc)
		rc = open_inputs(merge, &input);
	if (!rc)
		rc = cairn_run_output(&output, input, &made);
	pthread_mutex_lock(&db->publish_lock);
	if (!rc && made.run)
		count_dead(merge, &shadow, made.run);
	if (!rc)
		rc = publish_merge(merge, &made);
	mark_busy(merge, false);
	pthread_mutex_unlock(&db->publish_lock);
	cairn_run_result_release(db, &made, rc != 0);
	cairn_shadow_release(&shadow);
	return rc;
}

static int merge_step(struct cairn *db, bool at_rest, bool stoppable, const char *what)
{
	struct merge merge = {.db = db, .stoppable = stoppable, .what = what};
	int rc;
	pthread_mutex_lock(&db->merge_lock);
	bool found = pick(db, at_rest, &merge, &rc);
	if (found)
		rc = run_merge(&merge);
	cairn_trouble_note(db, &db->merge_trouble, rc == CAIRN_BUSY ? 0 : rc);
	cairn_version_unref(merge.version);
	cairn_update_pace(db);
	pthread_mutex_unlock(&db->merge_lock);
	if (found || rc)
		cairn_progress(db);
	return rc ? rc : found;
}

int cairn_merge_step(struct cairn *db, bool at_rest)
{
	return merge_step(db, at_rest, true, "merge");
}

/* Whether one run without tombstones, in the right format, is all there is, or nothing. */
static bool is_compact(const struct cairn *db, const struct cairn_version *version)
{
	if (version->count == 0)
		return true;
	const struct cairn_run_footer *footer = cairn_run_footer(version->runs[0]->reader);
	return version->count == 1 && footer->tombstones == 0 &&
	       footer->format == (uint32_t)db->options.run_format;
}

/* All runs into one. */
static int merge_all(struct cairn *db)
{
	struct merge merge = {.db = db, .what = "compact"};
	int rc = 0;
	pthread_mutex_lock(&db->merge_lock);
	pthread_mutex_lock(&db->publish_lock);
	merge.version = cairn_current_version(db);
	bool needed = !is_compact(db, merge.version);
	if (needed) {
		merge.oldest = merge.version->count - 1;
		claim(&merge);
	}
	pthread_mutex_unlock(&db->publish_lock);
	if (needed) {
		rc = run_merge(&merge);
		cairn_trouble_note(db, &db->merge_trouble, rc);
	}
	cairn_version_unref(merge.version);
	cairn_update_pace(db);
	pthread_mutex_unlock(&db->merge_lock);
	cairn_progress(db);
	return rc;
}

/* The log goes when every record of it is in a run, its spares in any case. */
static int end_log(struct cairn *db)
{
	pthread_mutex_lock(&db->publish_lock);
	int rc = cairn_publish_log_end(db);
	if (!rc)
		rc = cairn_log_rest(db->log);
	pthread_mutex_unlock(&db->publish_lock);
	return rc < 0 ? rc : 0;
}

static int check_shaping(struct cairn *db)
{
	int rc = cairn_check_handle(db);
	if (!rc && db->read_only)
		rc = cairn_error(CAIRN_READ_ONLY, "%s is open for reading only", db->directory);
	return rc;
}

int cairn_compact(cairn *db)
{
	int rc = check_shaping(db);
	if (!rc)
		rc = cairn_flush(db);
	if (!rc)
		rc = merge_all(db);
	if (!rc)
		rc = end_log(db);
	if (!rc)
		cairn_obsolete_remove(&db->obsolete, db->io);
	return cairn_report(db, rc);
}

/* Whether the active table holds what only a flush can turn into space given back. */
static bool memtable_hides(struct cairn *db)
{
	cairn_write_lock(&db->write_lock);
	const struct cairn_memtable *table = atomic_load(&db->set)->active->memtable;
	bool hides = cairn_memtable_deletes(table) || cairn_memtable_overwrites(table);
	cairn_write_unlock(&db->write_lock);
	return hides;
}

int cairn_wait(cairn *db)
{
	int rc = check_shaping(db);
	if (!rc && atomic_load(&db->failed))
		rc = cairn_failed_error(db);
	if (!rc && memtable_hides(db))
		rc = cairn_flush(db);
	while (!rc) {
		int flushed = cairn_flush_step(db);
		int merged = flushed < 0 ? 0 : merge_step(db, true, false, "wait");
		int indexed = flushed || merged ? 0 : cairn_index_step(db);
		rc = flushed < 0 ? flushed : merged < 0 ? merged : indexed < 0 ? indexed : 0;
		if (!flushed && !merged && !indexed)
			break;
	}
	if (!rc)
		rc = end_log(db);
	if (!rc)
		cairn_obsolete_remove(&db->obsolete, db->io);
	return cairn_report(db, rc);
}
