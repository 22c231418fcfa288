/*
 * store/repair.c -- makes a new store of what can be proved of a damaged one.
 *
 * 1. What there is: the manifest, or in its place what the files say of themselves.
 * 2. The runs, oldest data first shadowed by newer: merged from what can be read of each
 *    (format/run_salvage.h) and put into the new store.
 * 3. The log on top of that, as far as it is whole (wal/log_salvage.h).
 * 4. The new store is compacted, closed, verified.
 *
 * A record whose key can be read and whose value or kind cannot hides what older runs have of the
 * key: an older value cannot be proved to be the last one, so the key is left out. Of keys that
 * cannot be read only bounds are known; older values between them are kept, and that is said.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "compaction/merge.h"
#include "format/checksum.h"
#include "format/filename.h"
#include "format/run_salvage.h"
#include "store/io_select.h"
#include "store/options.h"
#include "store/store.h"
#include "wal/log_salvage.h"

#define BATCH_BYTES    (256u << 10)
#define PROGRESS_BYTES (4u << 20)

enum soundness {
	NOT_KNOWN,
	SOUND,
	DAMAGED,
};

struct source {
	uint64_t number;
	struct cairn_run_salvage *run;
	uint64_t age; /* the last sequence in it: as its footer says, or at least */
	enum soundness soundness;
	bool dropped; /* of another store, or merged into another run */
};

struct repair {
	struct cairn_io *io;
	const char *path;
	const char *out_path;
	const cairn_options *options;
	int (*report)(void *context, const cairn_finding *finding);
	void *context;
	uint64_t findings;
	int stopped; /* what report returned to end the work */

	struct cairn_manifest manifest; /* or what stands in for it */
	bool has_manifest;
	bool identified;        /* the manifest's identity and choices are those of the store */
	struct source *sources; /* newest first */
	size_t count, capacity;
	uint64_t flushed; /* the last sequence that is in runs */

	cairn *out;
	cairn_batch *batch;
	size_t batch_bytes;
	uint64_t done, told, total;
};

/* ---------------------------------------------------------------- findings */

__attribute__((format(printf, 5, 6))) static void find(
    struct repair *repair, const char *path, uint64_t offset, int code, const char *format, ...)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	repair->findings++;
	cairn_finding finding = {path, offset, code, text};
	if (repair->report && !repair->stopped)
		repair->stopped = repair->report(repair->context, &finding);
}

/* The thread's last failure, and what it means. */
static void find_failure(struct repair *repair, const char *path, int code, const char *meaning)
{
	size_t size = cairn_error_path_size();
	char *named = size ? strndup(cairn_error_text(), size) : NULL;
	char cause[CAIRN_ERROR_TEXT_MAX];
	snprintf(cause, sizeof cause, "%s", cairn_error_cause());
	find(repair, named ? named : path, cairn_error_offset(), code, "%s: %s", cause, meaning);
	free(named);
}

static int no_memory(void)
{
	return cairn_error(-ENOMEM, "out of memory for a repair");
}

/* ---------------------------------------------------------------- 1: what there is */

static int load_manifest(struct repair *repair)
{
	int rc = cairn_manifest_load(repair->io, repair->path, &repair->manifest);
	repair->has_manifest = repair->identified = rc == 0;
	if (rc != -ENOENT && rc != -EIO && rc != CAIRN_CORRUPT)
		return rc;
	find_failure(repair, repair->path, rc,
	    "which runs and which log are the store's is told from the files themselves; keys "
	    "deleted long ago may be back");
	return 0;
}

/* Whose files these are, when there is no manifest: from the one before. */
static int load_old_manifest(struct repair *repair)
{
	char *path = cairn_filename(repair->path, CAIRN_FILE_MANIFEST_OLD, 0);
	struct cairn_file *file = NULL;
	struct cairn_file_status status = {0, 0};
	uint8_t *bytes = NULL;
	int rc =
	    path ? repair->io->ops->open(repair->io, path, CAIRN_OPEN_READ, &file) : no_memory();
	if (!rc)
		rc = repair->io->ops->status(file, &status);
	if (!rc && !(bytes = malloc(status.size ? (size_t)status.size : 1)))
		rc = no_memory();
	if (!rc)
		rc = cairn_io_read_exactly(file, bytes, (size_t)status.size, 0);
	if (!rc)
		rc = cairn_manifest_decode(&repair->manifest, bytes, (size_t)status.size, path);
	repair->identified = rc == 0;
	free(bytes);
	if (file)
		repair->io->ops->close(file);
	free(path);
	return rc == -ENOMEM ? rc : 0;
}

static int grow_sources(struct repair *repair)
{
	if (repair->count < repair->capacity)
		return 0;
	size_t capacity = repair->capacity ? 2 * repair->capacity : 16;
	struct source *grown = realloc(repair->sources, capacity * sizeof *grown);
	if (!grown)
		return no_memory();
	repair->sources = grown;
	repair->capacity = capacity;
	return 0;
}

/* Whether another run lies there than the manifest names. Damage is another matter. */
static bool is_other_run(const struct repair *repair, const struct cairn_run_salvage *run,
    const struct cairn_manifest_file *file)
{
	const struct cairn_run_header *header = cairn_run_salvage_header(run);
	const struct cairn_run_footer *footer = cairn_run_salvage_footer(run);
	const struct cairn_identity *ours = &repair->manifest.identity;
	return (header && (header->number != file->number ||
			      !cairn_identity_equal(&header->identity, ours))) ||
	       (footer && footer->checksum != file->footer_checksum);
}

/* `named` is what the manifest says of the file; NULL without one. */
static int open_source(struct repair *repair, const char *path, uint64_t number,
    const struct cairn_manifest_file *named)
{
	struct source source = {.number = number};
	int rc = cairn_run_salvage_open(repair->io, path, &source.run);
	if (rc == -ENOENT || rc == -EIO) {
		find_failure(repair, path, rc,
		    "all that the run held is lost; values from older runs may be out of date or "
		    "deleted");
		return 0;
	}
	if (!rc && named && is_other_run(repair, source.run, named)) {
		find(repair, path, 0, CAIRN_CORRUPT,
		    "this is not the run that the MANIFEST names; all that the right one held is "
		    "lost, and values from older runs may be out of date or deleted");
		cairn_run_salvage_close(source.run);
		return 0;
	}
	if (!rc)
		repair->sources[repair->count++] = source;
	return rc;
}

static int add_source(
    struct repair *repair, uint64_t number, const struct cairn_manifest_file *named)
{
	char *path = cairn_filename(repair->path, CAIRN_FILE_RUN, number);
	int rc = path ? grow_sources(repair) : no_memory();
	if (!rc)
		rc = open_source(repair, path, number, named);
	free(path);
	return rc;
}

/* The runs that the manifest names. */
static int add_named(struct repair *repair)
{
	const struct cairn_manifest *manifest = &repair->manifest;
	int rc = 0;
	for (size_t i = 0; !rc && i < manifest->run_count; i++) {
		const struct cairn_manifest_run *run = &manifest->runs[i];
		for (size_t k = 0; !rc && k < run->file_count; k++)
			rc = add_source(repair, run->files[k].number, &run->files[k]);
	}
	repair->flushed = manifest->flushed_sequence;
	return rc;
}

static int add_listed(void *context, const char *name)
{
	uint64_t number;
	return cairn_filename_parse(name, &number) == CAIRN_FILE_RUN
		   ? add_source(context, number, NULL)
		   : 0;
}

static const struct cairn_run_footer *footer_of(const struct source *source)
{
	return cairn_run_salvage_footer(source->run);
}

/* Without a footer a run is taken for as old as the files that were there before it. */
static void set_ages(struct repair *repair)
{
	for (size_t i = 0; i < repair->count; i++) {
		struct source *source = &repair->sources[i];
		const struct cairn_run_footer *own = footer_of(source);
		for (size_t k = 0; k < repair->count && !own; k++) {
			const struct source *other = &repair->sources[k];
			const struct cairn_run_footer *footer = footer_of(other);
			if (footer && other->number < source->number &&
			    footer->sequence_high > source->age)
				source->age = footer->sequence_high;
		}
		source->age = own ? own->sequence_high : source->age;
	}
}

static int compare_sources(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	if (x->age != y->age)
		return x->age > y->age ? -1 : 1;
	return x->number > y->number ? -1 : x->number < y->number;
}

/* Whether all of it can be read, as a run of this store. */
static int find_soundness(struct repair *repair, struct source *source)
{
	struct cairn_run_reader *run;
	if (source->soundness != NOT_KNOWN)
		return 0;
	int rc = cairn_run_open(repair->io, cairn_run_salvage_path(source->run), NULL, &run);
	if (!rc) {
		rc = cairn_run_verify(run, NULL, NULL);
		cairn_run_close(run);
	}
	source->soundness = rc ? DAMAGED : SOUND;
	return rc == -ENOMEM ? rc : 0;
}

/* Whether `other` was made of `source`, among others, as far as their ages tell. */
static bool covers(const struct source *other, const struct source *source)
{
	const struct cairn_run_footer *new = footer_of(other), *old = footer_of(source);
	return other != source && !other->dropped &&
	       new &&old &&new->sequence_low <= old->sequence_low &&new->sequence_high >=
		   old->sequence_high &&
	       other->number > source->number;
}

/* Drops what was merged into runs that are sound: it may hold what was deleted since. */
static int drop_replaced(struct repair *repair)
{
	int rc = 0;
	for (size_t i = 0; i < repair->count; i++) {
		struct source *source = &repair->sources[i];
		for (size_t k = 0; !rc && k < repair->count && !source->dropped; k++) {
			struct source *other = &repair->sources[k];
			if (!covers(other, source))
				continue;
			rc = find_soundness(repair, other);
			source->dropped = other->soundness == SOUND;
		}
	}
	return rc;
}

/* Every operation went into one run: of two that both claim it neither is known to be right. */
static void find_overlaps(struct repair *repair)
{
	const struct source *newer = NULL;
	for (size_t i = 0; i < repair->count; i++) {
		const struct source *source = &repair->sources[i];
		if (source->dropped || !footer_of(source))
			continue;
		if (newer && footer_of(newer)->sequence_low <= source->age)
			find(repair, cairn_run_salvage_path(newer->run),
			    cairn_run_salvage_size(newer->run) - CAIRN_RUN_FOOTER_SIZE,
			    CAIRN_CORRUPT,
			    "the operations that went into this run and into %06" PRIu64
			    ".kv overlap; where both have a key, its value may be out of date or "
			    "deleted",
			    source->number);
		newer = source;
	}
}

/* The runs of the directory, put in order by what they say of themselves. */
static int add_found(struct repair *repair)
{
	int rc = repair->io->ops->list(repair->io, repair->path, add_listed, repair);
	if (rc)
		return rc;
	set_ages(repair);
	if (repair->count)
		qsort(repair->sources, repair->count, sizeof *repair->sources, compare_sources);
	return 0;
}

/* What the ages of runs say, when there is no manifest: the last sequence that is in one, and which
 * of them are of the past. */
static int use_ages(struct repair *repair)
{
	for (size_t i = 0; i < repair->count; i++) {
		const struct source *source = &repair->sources[i];
		const struct cairn_run_footer *footer = footer_of(source);
		if (source->dropped)
			continue;
		if (footer && footer->sequence_high > repair->flushed)
			repair->flushed = footer->sequence_high;
		if (!footer)
			find(repair, cairn_run_salvage_path(source->run),
			    cairn_run_salvage_size(source->run), CAIRN_CORRUPT,
			    "how old the run is cannot be told; it is taken for as old as its "
			    "number says, and values of its keys may be out of date or deleted");
	}
	int rc = drop_replaced(repair);
	if (!rc)
		find_overlaps(repair);
	return rc;
}

/* How many runs are of the same store. */
static size_t count_kin(const struct repair *repair, const struct cairn_identity *identity)
{
	size_t count = 0;
	for (size_t i = 0; i < repair->count; i++) {
		const struct cairn_run_header *header =
		    cairn_run_salvage_header(repair->sources[i].run);
		count += header && cairn_identity_equal(&header->identity, identity);
	}
	return count;
}

/* Without any manifest the store is the one that most runs are of, or else the newest. */
static void identify(struct repair *repair)
{
	size_t most = 0;
	for (size_t i = 0; i < repair->count; i++) {
		const struct cairn_run_header *header =
		    cairn_run_salvage_header(repair->sources[i].run);
		size_t kin = header ? count_kin(repair, &header->identity) : 0;
		if (kin > most) {
			repair->manifest.identity = header->identity;
			most = kin;
		}
	}
	repair->identified = most > 0;
}

/* A log without runs. */
static int identify_by_log(void *context, const char *name)
{
	struct repair *repair = context;
	uint64_t number;
	uint8_t *bytes;
	struct cairn_file *file = NULL;
	struct cairn_log_segment_header header;
	if (repair->identified || cairn_filename_parse(name, &number) != CAIRN_FILE_LOG)
		return 0;
	char *path = cairn_filename(repair->path, CAIRN_FILE_LOG, number);
	bytes = malloc(CAIRN_LOG_HEADER_SIZE);
	int rc = path && bytes ? repair->io->ops->open(repair->io, path, CAIRN_OPEN_READ, &file)
			       : no_memory();
	if (!rc)
		rc = cairn_io_read_exactly(file, bytes, CAIRN_LOG_HEADER_SIZE, 0);
	if (!rc)
		rc = cairn_log_segment_header_decode(&header, bytes, path);
	if (!rc) {
		repair->manifest.identity = header.identity;
		repair->identified = true;
	}
	if (file)
		repair->io->ops->close(file);
	free(bytes);
	free(path);
	return rc == -ENOMEM ? rc : 0;
}

static void drop_foreign(struct repair *repair)
{
	for (size_t i = 0; i < repair->count; i++) {
		struct source *source = &repair->sources[i];
		const struct cairn_run_header *header = cairn_run_salvage_header(source->run);
		if (!header || cairn_identity_equal(&header->identity, &repair->manifest.identity))
			continue;
		source->dropped = true;
		find(repair, cairn_run_salvage_path(source->run), 0, CAIRN_CORRUPT,
		    "the run belongs to another store; it is left out");
	}
}

static int survey(struct repair *repair)
{
	int rc = load_manifest(repair);
	if (!rc && !repair->has_manifest)
		rc = load_old_manifest(repair);
	if (!rc)
		rc = repair->has_manifest ? add_named(repair) : add_found(repair);
	if (!rc && !repair->identified)
		identify(repair);
	if (!rc && !repair->identified)
		rc = repair->io->ops->list(repair->io, repair->path, identify_by_log, repair);
	if (rc)
		return rc;
	if (!repair->identified)
		return cairn_error(CAIRN_CORRUPT,
		    "%s: neither a manifest nor a run nor a log can be recognised; there is "
		    "nothing to repair",
		    repair->path);
	if (repair->has_manifest)
		return 0;
	drop_foreign(repair);
	return use_ages(repair);
}

/* ---------------------------------------------------------------- the new store */

static int open_out(struct repair *repair)
{
	cairn_options options = *repair->options;
	const struct cairn_manifest *manifest = &repair->manifest;
	options.must_exist = options.read_only = 0;
	options.must_not_exist = 1;
	options.sync_mode = CAIRN_SYNC_NONE;
	if (!options.run_format)
		options.run_format = (int)manifest->run_format;
	if (!options.compression)
		options.compression = (int)manifest->compression;
	if (!options.point_index)
		options.point_index = (int)manifest->point_index;
	int rc = cairn_open_with(repair->io, repair->out_path, &options, &repair->out);
	if (!rc && !(repair->batch = cairn_batch_new()))
		rc = no_memory();
	return rc;
}

static void report_progress(struct repair *repair, size_t bytes)
{
	const cairn_options *options = repair->options;
	repair->done += bytes;
	if (!options->progress || repair->done - repair->told < PROGRESS_BYTES)
		return;
	repair->told = repair->done;
	options->progress(options->callback_context, "repair", repair->done,
	    repair->done > repair->total ? repair->done : repair->total);
}

static int write_batch(struct repair *repair)
{
	int rc = cairn_write(repair->out, repair->batch, 0);
	cairn_batch_clear(repair->batch);
	report_progress(repair, repair->batch_bytes);
	repair->batch_bytes = 0;
	return rc;
}

static int put(struct repair *repair, const struct cairn_record *record)
{
	int rc = record->kind == CAIRN_KIND_DELETE
		     ? cairn_batch_delete(repair->batch, record->key)
		     : cairn_batch_put(repair->batch, record->key, record->value);
	repair->batch_bytes += record->key.size + record->value.size;
	return rc || repair->batch_bytes < BATCH_BYTES ? rc : write_batch(repair);
}

/* ---------------------------------------------------------------- 2: the runs */

static void lost_keys(void *context, const char *path, uint64_t offset, const cairn_slice *after,
    const cairn_slice *before)
{
	char low[CAIRN_ERROR_KEY_MAX], high[CAIRN_ERROR_KEY_MAX];
	find(context, path, offset, CAIRN_CORRUPT,
	    "keys are lost here, from %s%s to %s%s; values between them that come from older runs "
	    "may be out of date or deleted",
	    after ? "behind " : "the first", after ? cairn_error_key(*after, low) : "",
	    before ? "before " : "the last", before ? cairn_error_key(*before, high) : "");
}

static int open_cursors(struct repair *repair, struct cairn_cursor **merged)
{
	struct cairn_cursor **cursors = calloc(repair->count + 1, sizeof(struct cairn_cursor *));
	size_t opened = 0;
	int rc = cursors ? 0 : no_memory();
	for (size_t i = 0; !rc && i < repair->count; i++) {
		if (repair->sources[i].dropped)
			continue;
		rc = cairn_run_salvage_cursor(repair->sources[i].run,
		    repair->manifest.identity.hash_seed, lost_keys, repair, &cursors[opened]);
		opened += !rc;
		repair->total += cairn_run_salvage_size(repair->sources[i].run);
	}
	if (!rc)
		rc = cairn_merge_open(cursors, opened, merged);
	else
		while (opened > 0)
			cairn_cursor_close(cursors[--opened]);
	free(cursors);
	return rc;
}

static int take_record(struct repair *repair, struct cairn_cursor *cursor)
{
	struct cairn_record record;
	char text[CAIRN_ERROR_KEY_MAX];
	int rc = cairn_cursor_record(cursor, &record);
	if (rc == CAIRN_CORRUPT) {
		char meaning[CAIRN_ERROR_TEXT_MAX];
		snprintf(meaning, sizeof meaning, "the key %s is left out",
		    cairn_error_key(cursor->key, text));
		find_failure(repair, repair->path, rc, meaning);
		return 0;
	}
	return rc || record.kind == CAIRN_KIND_DELETE ? rc : put(repair, &record);
}

static int merge_runs(struct repair *repair)
{
	struct cairn_cursor *cursor;
	int rc = open_cursors(repair, &cursor);
	if (rc)
		return rc;
	for (rc = cairn_cursor_first(cursor); rc == 0; rc = cairn_cursor_next(cursor)) {
		rc = take_record(repair, cursor);
		if (!rc && repair->stopped)
			rc = repair->stopped;
		if (rc)
			break;
	}
	cairn_cursor_close(cursor);
	return rc == CAIRN_END ? write_batch(repair) : rc;
}

/* ---------------------------------------------------------------- 3: the log */

static int apply_log(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	struct repair *repair = context;
	struct cairn_input in = cairn_input_of(body.data, body.size);
	struct cairn_record record;
	int rc = 0;
	(void)first_sequence;
	(void)count;
	while (!rc && cairn_log_operation_next(&in, &record) == 0)
		rc = put(repair, &record);
	return rc;
}

static void lost_records(void *context, const char *path, uint64_t offset, const char *text)
{
	find(context, path, offset, CAIRN_CORRUPT, "%s", text);
}

static int replay_log(struct repair *repair)
{
	struct cairn_log_salvage call = {
	    .directory = repair->path,
	    .manifest = repair->has_manifest,
	    .apply = apply_log,
	    .lost = lost_records,
	    .context = repair,
	};
	uint64_t last;
	if (repair->has_manifest)
		cairn_log_start_of(&repair->manifest, &call.start);
	call.start.identity = repair->manifest.identity;
	call.start.sequence = repair->flushed;
	int rc = cairn_log_salvage(repair->io, &call, &last);
	return rc ? rc : write_batch(repair);
}

/* ---------------------------------------------------------------- 4: the end */

static int finish(struct repair *repair)
{
	int rc = cairn_compact(repair->out);
	int closed = cairn_close(repair->out);
	repair->out = NULL;
	rc = rc ? rc : closed;
	return rc ? rc
		  : cairn_verify_with(repair->io, repair->out_path, repair->options, NULL, NULL);
}

static void release(struct repair *repair)
{
	cairn_batch_free(repair->batch);
	for (size_t i = 0; i < repair->count; i++)
		cairn_run_salvage_close(repair->sources[i].run);
	free(repair->sources);
	cairn_manifest_release(&repair->manifest);
}

static int repair_into(struct repair *repair)
{
	int rc = survey(repair);
	if (!rc)
		rc = repair->stopped;
	if (!rc)
		rc = open_out(repair);
	if (!rc)
		rc = merge_runs(repair);
	if (!rc)
		rc = replay_log(repair);
	if (!rc)
		rc = repair->stopped;
	if (!rc)
		rc = finish(repair);
	if (rc && repair->out) {
		char text[CAIRN_ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s", cairn_error_text());
		cairn_close(repair->out);
		if (rc < 0)
			cairn_error(rc, "%s", text);
	}
	return rc;
}

static int ignore_name(void *context, const char *name)
{
	(void)context;
	(void)name;
	return 0;
}

/* The directory is there, and no writer at work. One that comes later changes the manifest, which
 * is seen at the end: without touching anything that is all that can be done. */
static int check_source(struct repair *repair)
{
	const struct cairn_io_ops *ops = repair->io->ops;
	int rc = ops->list(repair->io, repair->path, ignore_name, NULL);
	if (rc)
		return rc;
	char *path = cairn_filename(repair->path, CAIRN_FILE_LOCK, 0);
	rc = path ? ops->probe_lock(repair->io, path) : no_memory();
	free(path);
	return rc == CAIRN_LOCKED || rc == -ENOMEM ? rc : 0;
}

static int refuse_change(struct repair *repair)
{
	struct cairn_manifest now;
	if (!repair->has_manifest)
		return 0;
	int rc = cairn_manifest_load(repair->io, repair->path, &now);
	bool same = rc == 0 && now.generation == repair->manifest.generation;
	cairn_manifest_release(&now);
	if (same)
		return 0;
	if (rc && rc != -ENOENT && rc != CAIRN_CORRUPT)
		return rc;
	return cairn_error(CAIRN_CONFLICT,
	    "%s was changed while it was read; close it elsewhere and try again", repair->path);
}

static int make_out(struct repair *repair)
{
	int rc = repair->io->ops->make_directory(repair->io, repair->out_path);
	if (rc == -EEXIST)
		return cairn_error(
		    rc, "%s: it exists; a repair needs a new directory", repair->out_path);
	return rc ? cairn_error_system(rc, repair->out_path, "mkdir") : 0;
}

int cairn_repair_with(struct cairn_io *io, const char *path, const char *out_path,
    const cairn_options *options, int (*report)(void *context, const cairn_finding *finding),
    void *context)
{
	struct repair repair = {.io = io,
	    .path = path,
	    .out_path = out_path,
	    .options = options,
	    .report = report,
	    .context = context};
	int rc = check_source(&repair);
	if (!rc)
		rc = make_out(&repair);
	if (rc)
		return rc;
	rc = repair_into(&repair);
	if (!rc)
		rc = refuse_change(&repair);
	if (rc)
		rc = cairn_remove_new_store(io, out_path, rc);
	uint64_t findings = repair.findings;
	release(&repair);
	return rc ? rc : findings ? CAIRN_PARTIAL : 0;
}

int cairn_repair(const char *path, const char *out_path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context)
{
	cairn_options resolved;
	struct cairn_io *io;
	if (!path || !out_path || !*out_path)
		return cairn_report(NULL, cairn_error(CAIRN_INVALID, "two paths are needed"));
	int rc = cairn_options_resolve(options, &resolved);
	if (!rc)
		rc = cairn_io_select(resolved.io_backend, &io);
	if (rc)
		return cairn_report(NULL, rc);
	rc = cairn_repair_with(io, path, out_path, &resolved, report, context);
	cairn_io_release(io);
	return rc < 0 ? cairn_report(NULL, rc) : rc;
}
