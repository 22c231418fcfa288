/*
 * tests/crash_check.c -- see crash_check.h.
 */
#include "tests/crash_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/filename.h"
#include "format/manifest.h"
#include "store/options.h"
#include "store/store.h"

#define MEMTABLE_BYTES 65536u

struct check {
	struct sim_disk *disk;
	const char *path;
	const struct crash_history *history;
	struct crash_verdict *verdict;
	uint64_t *state; /* that was found at first */
};

bool crash_blame(struct crash_verdict *verdict, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(verdict->text, sizeof verdict->text, format, arguments);
	va_end(arguments);
	return false;
}

void crash_options(cairn_options *options)
{
	cairn_options_init(options);
	options->no_background = 1;
	options->memtable_bytes = MEMTABLE_BYTES;
	options->sync_mode = CAIRN_SYNC_NONE;
}

static uint64_t *new_state(const struct crash_history *history)
{
	uint64_t *state = calloc(history->keys, sizeof *state);
	if (!state)
		abort();
	return state;
}

/* A record that no history has; a check that ended in a crash may have left it behind. */
static const cairn_slice probe = {"probe", 5};

/* ---------------------------------------------------------------- reading a store */

static bool is_probe(cairn_slice key)
{
	return key.size == probe.size && memcmp(key.data, probe.data, key.size) == 0;
}

static bool recognize(cairn_iter *iter, const struct crash_history *history, uint64_t *state,
    struct crash_verdict *verdict)
{
	cairn_slice key = cairn_iter_key(iter), value = cairn_iter_value(iter);
	if (!value.data)
		return crash_blame(verdict, "the value of key \"%.*s\" cannot be read: %s",
		    (int)key.size, (const char *)key.data, cairn_message(NULL));
	if (!is_probe(key) && !crash_history_recognize(history, key, value, state))
		return crash_blame(verdict, "key \"%.*s\" has %zu bytes that no step wrote",
		    (int)(key.size < 40 ? key.size : 40), (const char *)key.data, value.size);
	return true;
}

bool crash_read_view(cairn_view *view, const struct crash_history *history, uint64_t *state,
    struct crash_verdict *verdict)
{
	cairn_iter *iter;
	bool ok = true;
	memset(state, 0, history->keys * sizeof *state);
	int rc = cairn_iter_open(view, NULL, &iter);
	if (rc)
		return crash_blame(verdict, "no iterator opens: %s", cairn_message(NULL));
	for (rc = cairn_iter_first(iter); rc == 0 && ok; rc = cairn_iter_next(iter))
		ok = recognize(iter, history, state, verdict);
	if (ok && rc != CAIRN_END)
		ok = crash_blame(verdict, "a scan fails: %s", cairn_message(NULL));
	cairn_iter_close(iter);
	return ok;
}

bool crash_read(
    cairn *db, const struct crash_history *history, uint64_t *state, struct crash_verdict *verdict)
{
	cairn_view *view;
	if (cairn_view_open(db, &view))
		return crash_blame(verdict, "no view opens: %s", cairn_message(db));
	bool ok = crash_read_view(view, history, state, verdict);
	cairn_view_close(view);
	return ok;
}

static bool match(const struct check *check, const uint64_t *state, size_t least, size_t most)
{
	struct crash_verdict *verdict = check->verdict;
	if (crash_history_match(check->history, state, least, most, &verdict->step))
		return true;
	crash_history_explain(
	    check->history, state, least, most, verdict->text, sizeof verdict->text);
	return false;
}

/* ---------------------------------------------------------------- files */

struct survey {
	const struct check *check;
	struct cairn_manifest manifest;
	bool explained;
};

static bool names_run(const struct cairn_manifest *manifest, uint64_t number)
{
	for (size_t i = 0; i < manifest->run_count; i++)
		for (size_t j = 0; j < manifest->runs[i].file_count; j++)
			if (manifest->runs[i].files[j].number == number)
				return true;
	return false;
}

static bool names_index(const struct cairn_manifest *manifest, uint64_t number)
{
	for (size_t i = 0; i < manifest->run_count; i++)
		if (manifest->runs[i].index.number == number)
			return true;
	return false;
}

static int explain_name(void *context, const char *name)
{
	struct survey *survey = context;
	const struct cairn_manifest *manifest = &survey->manifest;
	uint64_t number;
	bool explained = false;
	switch (cairn_filename_parse(name, &number)) {
	case CAIRN_FILE_LOCK:
	case CAIRN_FILE_MANIFEST:
	case CAIRN_FILE_MANIFEST_OLD:
		explained = true;
		break;
	case CAIRN_FILE_RUN:
		explained = names_run(manifest, number);
		break;
	case CAIRN_FILE_LOG:
		explained = manifest->log_number && number >= manifest->log_number;
		break;
	case CAIRN_FILE_INDEX:
		explained = names_index(manifest, number);
		break;
	case CAIRN_FILE_TEMPORARY:
	case CAIRN_FILE_FOREIGN:
		break;
	}
	if (explained)
		return 0;
	survey->explained = crash_blame(
	    survey->check->verdict, "%s/%s has no use after an open", survey->check->path, name);
	return 1;
}

static bool explain_files(const struct check *check)
{
	struct cairn_io *io = sim_disk_io(check->disk);
	struct survey survey = {.check = check, .explained = true};
	if (cairn_manifest_load(io, check->path, &survey.manifest))
		return crash_blame(
		    check->verdict, "no manifest after an open: %s", cairn_error_text());
	int rc = io->ops->list(io, check->path, explain_name, &survey);
	cairn_manifest_release(&survey.manifest);
	return rc < 0 ? crash_blame(check->verdict, "no list of files: %s", cairn_error_text())
		      : survey.explained;
}

static int note_finding(void *context, const cairn_finding *finding)
{
	struct crash_verdict *verdict = context;
	crash_blame(verdict, "verify: %s: at offset %llu: %s", finding->path,
	    (unsigned long long)finding->offset, finding->message);
	return 1;
}

static bool verify(const struct check *check)
{
	cairn_options options, resolved;
	crash_options(&options);
	cairn_options_resolve(&options, &resolved);
	int rc = cairn_verify_with(
	    sim_disk_io(check->disk), check->path, &resolved, note_finding, check->verdict);
	if (rc < 0)
		crash_blame(check->verdict, "verify fails: %s", cairn_error_text());
	return rc == 0;
}

/* ---------------------------------------------------------------- opening it */

static bool open_store(const struct check *check, struct sim_disk *disk, cairn **db)
{
	cairn_options options;
	crash_options(&options);
	int rc = cairn_open_with(sim_disk_io(disk), check->path, &options, db);
	return rc == 0 || crash_blame(check->verdict, "open: %d: %s", rc, cairn_message(NULL));
}

/* Also when the check has failed before. */
static bool close_store(const struct check *check, cairn *db, bool ok)
{
	int rc = cairn_close(db);
	if (!ok)
		return false;
	return rc == 0 || crash_blame(check->verdict, "close: %d: %s", rc, cairn_message(NULL));
}

static bool first_look(const struct check *check, cairn *db, size_t least, size_t most)
{
	return crash_read(db, check->history, check->state, check->verdict) &&
	       match(check, check->state, least, most) && explain_files(check) && verify(check);
}

static bool write_probe(const struct check *check, cairn *db)
{
	int rc = cairn_put(db, probe, probe, CAIRN_SYNC);
	return rc == 0 ||
	       crash_blame(check->verdict, "a put after the open: %d: %s", rc, cairn_message(db));
}

/* It is there, and goes. */
static bool take_probe(const struct check *check, cairn *db)
{
	char found[8];
	size_t size;
	int rc = cairn_get(db, probe, found, sizeof found, &size);
	if (rc || size != probe.size || memcmp(found, probe.data, size) != 0)
		return crash_blame(check->verdict, "a put that was synced is not there: %d", rc);
	rc = cairn_delete(db, probe, 0);
	return rc == 0 || crash_blame(check->verdict, "a delete: %d: %s", rc, cairn_message(db));
}

/* What the disk has without that which is not synced shows the same state. */
static bool look_again(const struct check *check, struct sim_disk *disk, bool probed)
{
	uint64_t *state = new_state(check->history);
	cairn *db;
	size_t step = check->verdict->step;
	bool ok = open_store(check, disk, &db);
	if (ok)
		ok = close_store(check, db,
		    (!probed || take_probe(check, db)) &&
			crash_read(db, check->history, state, check->verdict));
	if (ok && memcmp(state, check->state, check->history->keys * sizeof *state) != 0)
		ok = match(check, state, step, step);
	free(state);
	return ok;
}

static bool second_look(const struct check *check, bool probed)
{
	struct sim_disk *disk = sim_disk_crash(check->disk, SIM_LOSE_ALL, 0);
	bool ok = look_again(check, disk, probed);
	sim_disk_free(disk);
	if (!ok) {
		char text[sizeof check->verdict->text];
		snprintf(text, sizeof text, "%s", check->verdict->text);
		crash_blame(check->verdict, "opened again after %s and a power cut: %.1900s",
		    probed ? "a put" : "a close", text);
	}
	return ok;
}

bool crash_check(struct sim_disk *disk, const char *path, const struct crash_history *history,
    size_t least, size_t most, struct crash_verdict *verdict)
{
	struct check check = {disk, path, history, verdict, NULL};
	cairn *db;
	*verdict = (struct crash_verdict){0};
	if (!open_store(&check, disk, &db))
		return false;
	check.state = new_state(history);
	bool ok = first_look(&check, db, least, most);
	/* By a coin: the power cut comes while it is in use, or after it was closed. */
	uint8_t coin = 0;
	sim_disk_io(disk)->ops->entropy(sim_disk_io(disk), &coin, sizeof coin);
	bool probed = coin & 1;
	if (ok && probed)
		ok = write_probe(&check, db) && second_look(&check, true);
	ok = close_store(&check, db, ok);
	if (ok && !probed)
		ok = second_look(&check, false);
	free(check.state);
	return ok;
}

bool crash_check_copy(struct sim_disk *disk, const char *path, const struct crash_history *history,
    size_t step, bool finished, struct crash_verdict *verdict)
{
	struct check check = {disk, path, history, verdict, NULL};
	cairn_options options;
	cairn *db;
	crash_options(&options);
	options.must_exist = 1;
	int rc = cairn_open_with(sim_disk_io(disk), path, &options, &db);
	if (rc)
		return !finished || crash_blame(verdict, "%s: a finished checkpoint: %d: %s", path,
					rc, cairn_message(NULL));
	check.state = new_state(history);
	bool ok = close_store(&check, db, first_look(&check, db, step, step));
	free(check.state);
	return ok;
}
