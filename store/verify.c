/*
 * store/verify.c -- reads all of a store and checks everything that can be checked, changing
 * nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/filename.h"
#include "store/io_select.h"
#include "store/options.h"
#include "store/store.h"
#include "wal/log_reader.h"

/* A writer may publish and remove while we read: then the work starts over, this often at most. */
#define TRIES 100

struct verify {
	struct cairn_io *io;
	const char *directory;
	const cairn_options *options;
	int (*report)(void *context, const cairn_finding *finding);
	void *context;
	const char *path; /* of the file being read */
	uint64_t done, total;
	uint64_t findings;
	int stopped; /* what report returned to end the work */
	/* What was found is kept until it is certain that no writer changed the files meanwhile. */
	struct finding *first, **last;
};

struct finding {
	struct finding *next;
	cairn_finding what;
	char *path;
	char *message;
};

static void add_finding(
    struct verify *verify, const char *path, uint64_t offset, int code, const char *message)
{
	verify->findings++;
	struct finding *finding = calloc(1, sizeof *finding);
	if (!finding)
		return; /* counted all the same */
	finding->path = strdup(path);
	finding->message = strdup(message);
	finding->what = (cairn_finding){finding->path ? finding->path : "", offset, code,
	    finding->message ? finding->message : ""};
	*verify->last = finding;
	verify->last = &finding->next;
}

/* The thread's last failure, as a finding: in the file that it names, or else in `path`. */
static void add_failure(struct verify *verify, const char *path, int code)
{
	size_t size = cairn_error_path_size();
	char *named = size ? strndup(cairn_error_text(), size) : NULL;
	add_finding(verify, named ? named : path, cairn_error_offset(), code, cairn_error_cause());
	free(named);
}

static void free_findings(struct verify *verify)
{
	while (verify->first) {
		struct finding *next = verify->first->next;
		free(verify->first->path);
		free(verify->first->message);
		free(verify->first);
		verify->first = next;
	}
	verify->last = &verify->first;
	verify->findings = 0;
}

static void report_findings(struct verify *verify)
{
	for (struct finding *f = verify->first; f && verify->report && !verify->stopped;
	     f = f->next)
		verify->stopped = verify->report(verify->context, &f->what);
}

static void report_progress(struct verify *verify)
{
	const cairn_options *options = verify->options;
	if (options->progress)
		options->progress(options->callback_context, "verify", verify->done, verify->total);
}

static void run_finding(void *context, uint64_t offset, const char *text)
{
	struct verify *verify = context;
	add_finding(verify, verify->path, offset, CAIRN_CORRUPT, text);
}

static int open_run(struct verify *verify, const struct cairn_manifest *manifest,
    const struct cairn_manifest_file *file, struct cairn_run_reader **run)
{
	struct cairn_run_expect expect = {
	    manifest->identity, file->number, file->size, file->footer_checksum};
	char *path = cairn_filename(verify->directory, CAIRN_FILE_RUN, file->number);
	int rc = path ? cairn_run_open(verify->io, path, &expect, run)
		      : cairn_error(-ENOMEM, "out of memory for a path");
	free(path);
	return rc;
}

/* Only shortage of memory and the like is returned; what is wrong with the file is a finding. */
static int verify_file(struct verify *verify, const struct cairn_manifest *manifest,
    const struct cairn_manifest_file *file)
{
	struct cairn_run_reader *run = NULL;
	char *path = cairn_filename(verify->directory, CAIRN_FILE_RUN, file->number);
	if (!path)
		return cairn_error(-ENOMEM, "out of memory for a path");
	uint64_t before = verify->findings;
	verify->path = path;
	int rc = open_run(verify, manifest, file, &run);
	if (!rc)
		rc = cairn_run_verify(run, run_finding, verify);
	if (rc && rc != -ENOMEM && verify->findings == before)
		add_failure(verify, path, rc);
	cairn_run_close(run);
	free(path);
	verify->done += file->size;
	report_progress(verify);
	return rc == -ENOMEM ? rc : 0;
}

/* The index of run `i` on the last run, when nothing was found in either. */
static int verify_index(struct verify *verify, const struct cairn_manifest *manifest, size_t i)
{
	const struct cairn_fraction_file *file = &manifest->runs[i].index;
	const struct cairn_manifest_run *oldest = &manifest->runs[manifest->run_count - 1];
	struct cairn_run_reader *run = NULL, *anchor = NULL;
	struct cairn_fraction *fraction = NULL;
	char *path = cairn_filename(verify->directory, CAIRN_FILE_INDEX, file->number);
	if (!path)
		return cairn_error(-ENOMEM, "out of memory for a path");
	int rc = open_run(verify, manifest, &manifest->runs[i].files[0], &run);
	if (!rc)
		rc = open_run(verify, manifest, &oldest->files[0], &anchor);
	if (!rc) {
		rc = cairn_fraction_open(
		    verify->io, path, file, &manifest->identity, run, anchor, &fraction);
		if (!rc)
			rc = cairn_fraction_verify(fraction, run, anchor);
		if (rc && rc != -ENOMEM)
			add_failure(verify, path, rc);
	}
	cairn_fraction_close(fraction);
	cairn_run_close(run);
	cairn_run_close(anchor);
	free(path);
	return rc == -ENOMEM ? rc : 0;
}

/* They are derived from the runs: where those are damaged, that is what counts. */
static int verify_indexes(struct verify *verify, const struct cairn_manifest *manifest)
{
	int rc = 0;
	for (size_t i = 0; !rc && verify->findings == 0 && i < manifest->run_count; i++)
		if (manifest->runs[i].index.number)
			rc = verify_index(verify, manifest, i);
	return rc;
}

static int ignore_record(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	(void)context;
	(void)first_sequence;
	(void)count;
	(void)body;
	return 0;
}

static int verify_log(struct verify *verify, const struct cairn_manifest *manifest)
{
	struct cairn_log_summary summary;
	struct cairn_log_replay replay = {.directory = verify->directory, .apply = ignore_record};
	cairn_log_start_of(manifest, &replay.start);
	int rc = cairn_log_read(verify->io, &replay, &summary);
	if (rc && rc != -ENOMEM && rc != CAIRN_CONFLICT)
		add_failure(verify, verify->directory, rc);
	return rc == -ENOMEM || rc == CAIRN_CONFLICT ? rc : 0;
}

static int verify_once(struct verify *verify, const struct cairn_manifest *manifest)
{
	int rc = 0;
	verify->done = verify->total = 0;
	for (size_t i = 0; i < manifest->run_count; i++)
		for (size_t k = 0; k < manifest->runs[i].file_count; k++)
			verify->total += manifest->runs[i].files[k].size;
	for (size_t i = 0; !rc && i < manifest->run_count; i++)
		for (size_t k = 0; !rc && k < manifest->runs[i].file_count; k++)
			rc = verify_file(verify, manifest, &manifest->runs[i].files[k]);
	if (!rc)
		rc = verify_indexes(verify, manifest);
	return rc ? rc : verify_log(verify, manifest);
}

static bool same_manifest(struct verify *verify, uint64_t generation)
{
	struct cairn_manifest now;
	bool same = cairn_manifest_load(verify->io, verify->directory, &now) == 0 &&
		    now.generation == generation;
	cairn_manifest_release(&now);
	return same;
}

/* Findings in the log count when they show twice: its tail may have been under way. */
static int verify_settled(struct verify *verify)
{
	uint64_t seen = 0;
	for (int i = 0; i < TRIES; i++) {
		struct cairn_manifest manifest;
		free_findings(verify);
		int rc = cairn_manifest_load(verify->io, verify->directory, &manifest);
		bool headless = rc == -ENOENT;
		if (headless)
			rc = cairn_check_headless(verify->io, verify->directory);
		if (rc == -ENOENT || (headless && !rc))
			return cairn_error(-ENOENT, "%s: there is no store", verify->directory);
		if (rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED) {
			add_failure(verify, verify->directory, rc);
			return 0;
		}
		if (!rc)
			rc = verify_once(verify, &manifest);
		bool same = !rc && same_manifest(verify, manifest.generation);
		cairn_manifest_release(&manifest);
		if (rc && rc != CAIRN_CONFLICT)
			return rc;
		if (same && verify->findings == seen)
			return 0;
		seen = same ? verify->findings : 0;
	}
	return cairn_error(CAIRN_CONFLICT,
	    "%s: a writer changes the store faster than it can be read; try again",
	    verify->directory);
}

int cairn_verify_with(struct cairn_io *io, const char *path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context)
{
	struct verify verify = {
	    .io = io, .directory = path, .options = options, .report = report, .context = context};
	verify.last = &verify.first;
	int rc = verify_settled(&verify);
	if (!rc)
		report_findings(&verify);
	if (!rc && verify.stopped)
		rc = verify.stopped;
	else if (!rc && verify.findings)
		rc = cairn_error(CAIRN_CORRUPT, "%s: %llu problems were found", path,
		    (unsigned long long)verify.findings);
	free_findings(&verify);
	return rc;
}

int cairn_verify(const char *path, const cairn_options *options,
    int (*report)(void *context, const cairn_finding *finding), void *context)
{
	cairn_options resolved;
	struct cairn_io *io;
	if (!path)
		return cairn_report(NULL, cairn_error(CAIRN_INVALID, "a path is needed"));
	int rc = cairn_options_resolve(options, &resolved);
	if (!rc)
		rc = cairn_io_select(resolved.io_backend, &io);
	if (rc)
		return cairn_report(NULL, rc);
	rc = cairn_verify_with(io, path, &resolved, report, context);
	cairn_io_release(io);
	return rc < 0 ? cairn_report(NULL, rc) : rc;
}
