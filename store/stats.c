/*
 * store/stats.c -- the numbers of a store, as a struct and as JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/view.h"

static void describe_runs(const struct cairn_version *version, cairn_stats *stats)
{
	stats->run_count = version->count;
	for (size_t i = 0; i < version->count && i < CAIRN_STAT_RUNS_MAX; i++) {
		const struct cairn_run_footer *footer = cairn_run_footer(version->runs[i]->reader);
		if (version->indexes[i])
			stats->index_bytes += version->indexes[i]->file.size;
		stats->runs[i] = (cairn_run_stats){
		    .bytes = version->runs[i]->file.size,
		    .records = footer->records,
		    .tombstones = footer->tombstones,
		    .dead_bytes = cairn_run_dead_bytes(version->runs[i]),
		    .format = (int)footer->format,
		    .compression = CAIRN_NO_COMPRESSION,
		    .segments = 1,
		};
	}
}

static uint64_t table_bytes(const struct cairn_set *set)
{
	uint64_t bytes = cairn_memtable_bytes(set->active->memtable);
	for (size_t i = 0; i < set->sealed_count; i++)
		bytes += cairn_memtable_bytes(set->sealed[i]->memtable);
	return bytes;
}

static bool set_has_run(const struct cairn_set *set, const struct cairn_run *run)
{
	for (size_t i = 0; i < set->version->count; i++)
		if (set->version->runs[i] == run)
			return true;
	return false;
}

static bool set_has_table(const struct cairn_set *set, const struct cairn_table *table)
{
	bool found = set->active == table;
	for (size_t i = 0; i < set->sealed_count; i++)
		found = found || set->sealed[i] == table;
	return found;
}

/* What a view keeps that the current set does not need. */
static uint64_t pinned_bytes(const struct cairn_set *held, const struct cairn_set *current)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < held->version->count; i++)
		if (!set_has_run(current, held->version->runs[i]))
			bytes += held->version->runs[i]->file.size;
	if (!set_has_table(current, held->active))
		bytes += cairn_memtable_bytes(held->active->memtable);
	for (size_t i = 0; i < held->sealed_count; i++)
		if (!set_has_table(current, held->sealed[i]))
			bytes += cairn_memtable_bytes(held->sealed[i]->memtable);
	return bytes;
}

/* [write_lock] */
static void describe_views(struct cairn *db, const struct cairn_set *set, cairn_stats *stats)
{
	uint64_t now = db->io->ops->now(db->io);
	for (const struct cairn_view *view = db->views; view; view = view->next) {
		uint64_t bytes = pinned_bytes(view->set, set);
		stats->memory_bytes += view->set == set ? 0 : bytes;
		if (stats->view_count < CAIRN_STAT_VIEWS_MAX)
			stats->views[stats->view_count] =
			    (cairn_view_stats){(now - view->opened_at) / 1000000, bytes};
		stats->view_count++;
	}
}

static void describe_log(struct cairn *db, cairn_stats *stats)
{
	pthread_mutex_lock(&db->publish_lock);
	stats->log_bytes_written = db->manifest.log_bytes_written;
	stats->flush_bytes_written = db->manifest.flush_bytes_written;
	stats->merge_bytes_written = db->manifest.merge_bytes_written;
	if (db->log) {
		stats->log_bytes = cairn_log_bytes(db->log);
		stats->log_bytes_written +=
		    cairn_log_bytes_written(db->log) - db->log_bytes_counted;
	}
	pthread_mutex_unlock(&db->publish_lock);
}

static int last_error(struct cairn *db)
{
	int flush = atomic_load(&db->flush_trouble.code);
	int merge = atomic_load(&db->merge_trouble.code);
	return atomic_load(&db->failed) ? CAIRN_FAILED
	       : flush                  ? flush
	       : merge                  ? merge
					: atomic_load(&db->index_trouble.code);
}

int cairn_stat(cairn *db, cairn_stats *stats)
{
	if (stats)
		memset(stats, 0, sizeof *stats);
	int rc = cairn_check_handle(db);
	if (!rc && !stats)
		rc = cairn_error(CAIRN_INVALID, "no place for the numbers was given");
	if (rc)
		return cairn_report(db, rc);
	cairn_write_lock(&db->write_lock);
	const struct cairn_set *set = atomic_load(&db->set);
	describe_runs(set->version, stats);
	stats->memtable_bytes = table_bytes(set);
	stats->memory_bytes = stats->memtable_bytes;
	if (set->version->cascade)
		stats->memory_bytes += cairn_cascade_bytes(set->version->cascade);
	describe_views(db, set, stats);
	cairn_write_unlock(&db->write_lock);
	describe_log(db, stats);
	stats->io = db->io->ops->name;
	stats->sync_mode = db->options.sync_mode;
	stats->seeks_indexed = atomic_load(&db->seeks.indexed);
	stats->seeks_unindexed = atomic_load(&db->seeks.unindexed);
	stats->seeks_wide = atomic_load(&db->seeks.wide);
	stats->seeks_fallback = stats->seeks_unindexed + stats->seeks_wide;
	stats->last_error = last_error(db);
	return 0;
}

/* ------------------------------------------------------------------- JSON */

/* Text of a known greatest size is not known ahead: it grows. */
struct json {
	char *text;
	size_t size;
	bool short_of_memory;
};

__attribute__((format(printf, 2, 3))) static void add(struct json *json, const char *format, ...)
{
	char piece[512];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(piece, sizeof piece, format, arguments);
	va_end(arguments);
	char *grown =
	    json->short_of_memory ? NULL : realloc(json->text, json->size + (size_t)size + 1);
	if (!grown) {
		json->short_of_memory = true;
		return;
	}
	memcpy(grown + json->size, piece, (size_t)size + 1);
	json->text = grown;
	json->size += (size_t)size;
}

static void add_string(struct json *json, const char *text)
{
	add(json, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			add(json, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			add(json, "\\u%04x", c);
		else
			add(json, "%c", c);
	}
	add(json, "\"");
}

static const char *sync_mode_name(int mode)
{
	return mode == CAIRN_SYNC_FULL ? "full" : mode == CAIRN_SYNC_NONE ? "none" : "interval";
}

static void add_runs(struct json *json, const cairn_stats *stats)
{
	add(json, "\"runs\": [");
	for (size_t i = 0; i < stats->run_count && i < CAIRN_STAT_RUNS_MAX; i++) {
		const cairn_run_stats *run = &stats->runs[i];
		add(json,
		    "%s\n  {\"bytes\": %" PRIu64 ", \"records\": %" PRIu64
		    ", \"tombstones\": %" PRIu64 ", \"dead_bytes\": %" PRIu64
		    ", \"format\": \"%s\", \"compression\": \"%s\", \"segments\": %u}",
		    i ? "," : "", run->bytes, run->records, run->tombstones, run->dead_bytes,
		    run->format == CAIRN_KV03 ? "kv03" : "kv02",
		    run->compression == CAIRN_LZ4 ? "lz4" : "none", run->segments);
	}
	add(json, "],\n");
}

static void add_views(struct json *json, const cairn_stats *stats)
{
	add(json, "\"views\": [");
	for (size_t i = 0; i < stats->view_count && i < CAIRN_STAT_VIEWS_MAX; i++)
		add(json, "%s{\"age_ms\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", i ? ", " : "",
		    stats->views[i].age_ms, stats->views[i].bytes);
	add(json, "],\n");
}

static void last_error_text(struct cairn *db, char *text, size_t size)
{
	pthread_mutex_lock(&db->error_mutex);
	const char *from = atomic_load(&db->failed)               ? db->failed_text
			   : atomic_load(&db->flush_trouble.code) ? db->flush_trouble.text
			   : atomic_load(&db->merge_trouble.code) ? db->merge_trouble.text
			   : atomic_load(&db->index_trouble.code) ? db->index_trouble.text
								  : "";
	snprintf(text, size, "%s", from);
	pthread_mutex_unlock(&db->error_mutex);
}

static void describe(struct cairn *db, const cairn_stats *stats, struct json *json)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	last_error_text(db, text, sizeof text);
	add(json, "{");
	add_runs(json, stats);
	add(json,
	    "\"memtable_bytes\": %" PRIu64 ",\n\"log_bytes\": %" PRIu64
	    ",\n\"index_bytes\": %" PRIu64 ",\n\"memory_bytes\": %" PRIu64 ",\n",
	    stats->memtable_bytes, stats->log_bytes, stats->index_bytes, stats->memory_bytes);
	add(json, "\"io\": \"%s\",\n\"sync_mode\": \"%s\",\n", stats->io,
	    sync_mode_name(stats->sync_mode));
	add_views(json, stats);
	add(json,
	    "\"seeks_indexed\": %" PRIu64 ",\n\"seeks_fallback\": %" PRIu64
	    ",\n\"seeks_unindexed\": %" PRIu64 ",\n\"seeks_wide\": %" PRIu64 ",\n",
	    stats->seeks_indexed, stats->seeks_fallback, stats->seeks_unindexed, stats->seeks_wide);
	add(json,
	    "\"bytes_written\": {\"log\": %" PRIu64 ", \"flush\": %" PRIu64 ", \"merge\": %" PRIu64
	    "},\n",
	    stats->log_bytes_written, stats->flush_bytes_written, stats->merge_bytes_written);
	add(json, "\"last_error\": ");
	if (stats->last_error)
		add_string(json, text);
	else
		add(json, "null");
	add(json, "}");
}

int cairn_stat_json(cairn *db, char *buffer, size_t capacity, size_t *size)
{
	if (size)
		*size = 0;
	int rc = size && (buffer || !capacity)
		     ? 0
		     : cairn_error(CAIRN_INVALID, "a place for the text is missing");
	cairn_stats *stats = malloc(sizeof *stats);
	if (!rc && !stats)
		rc = cairn_error(-ENOMEM, "out of memory for the numbers");
	if (!rc)
		rc = cairn_stat(db, stats);
	struct json json = {0};
	if (!rc) {
		describe(db, stats, &json);
		if (json.short_of_memory)
			rc = cairn_error(-ENOMEM, "out of memory for the numbers");
	}
	if (!rc) {
		*size = json.size;
		if (capacity)
			memcpy(buffer, json.text, json.size < capacity ? json.size + 1 : capacity);
	}
	free(json.text);
	free(stats);
	return cairn_report(db, rc);
}
