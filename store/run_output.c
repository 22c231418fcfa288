/*
 * store/run_output.c -- see run_output.h.
 */
#include "store/run_output.h"

#include <errno.h>
#include <stdlib.h>

#include "compaction/job.h"
#include "format/filename.h"
#include "store/index.h"

/* Whether a run older than the inputs may have `key`: by key range. */
static bool older_may_hold(void *context, cairn_slice key)
{
	const struct cairn_run_output *output = context;
	for (size_t i = 0; i < output->older_count; i++) {
		const struct cairn_run_reader *run = output->older[i]->reader;
		if (cairn_key_compare(key, cairn_run_first_key(run)) >= 0 &&
		    cairn_key_compare(key, cairn_run_last_key(run)) <= 0)
			return true;
	}
	return false;
}

static void note_written(void *context, cairn_slice key)
{
	const struct cairn_run_output *output = context;
	cairn_shadow_note(output->shadow, key);
}

static int run_job(const struct cairn_run_output *output, struct cairn_job *job)
{
	int rc = 0;
	while (rc == 0) {
		if (output->stoppable && atomic_load(&output->db->closing))
			return cairn_error(CAIRN_BUSY, "the store is closing");
		rc = cairn_job_step(job, CAIRN_STEP_BYTES);
		if (output->progress)
			output->progress(output->context, cairn_job_written(job));
	}
	return rc == CAIRN_END ? 0 : rc;
}

/* The index of the new run: not to have it is no failure. */
static void make_index(const struct cairn_run_output *output, struct cairn_run_reader *reader,
    struct cairn_run_result *result)
{
	if (output->older_count == 0)
		return;
	const struct cairn_run *anchor = output->older[output->older_count - 1];
	int rc = cairn_index_make(output->db, reader, anchor->reader, &result->index);
	if (rc < 0)
		cairn_log_line(
		    output->db, "a run stays without its fractional index: %s", cairn_error_text());
}

/* Gives the verified file its name, durably, and its index with it. Takes `reader` over. */
static int adopt(const struct cairn_run_output *output, const char *temporary, const char *path,
    const struct cairn_manifest_file *file, struct cairn_run_reader *reader,
    struct cairn_run_result *result)
{
	struct cairn *db = output->db;
	struct cairn_io *io = db->io;
	make_index(output, reader, result);
	int rc = cairn_run_renamed(reader, path);
	if (!rc)
		rc = io->ops->rename(io, temporary, path);
	if (rc) {
		cairn_run_close(reader);
		/* A rename may have had its effect. */
		(void)cairn_io_remove_remains(io, temporary, rc);
		return cairn_io_remove_remains(io, path, rc);
	}
	rc = io->ops->sync_directory(io, db->directory);
	if (rc) {
		cairn_run_close(reader);
		return cairn_io_remove_remains(io, path, rc);
	}
	result->run = cairn_run_new(reader, file, &db->obsolete);
	if (!result->run)
		rc = cairn_error(-ENOMEM, "out of memory for a run");
	return rc ? cairn_io_remove_remains(io, path, rc) : 0;
}

int cairn_run_output(const struct cairn_run_output *output, struct cairn_cursor *input,
    struct cairn_run_result *result)
{
	struct cairn *db = output->db;
	uint64_t number = atomic_fetch_add(&db->next_number, 1);
	char *temporary = cairn_filename(db->directory, CAIRN_FILE_TEMPORARY, number);
	char *path = cairn_filename(db->directory, CAIRN_FILE_RUN, number);
	struct cairn_job *job = NULL;
	*result = (struct cairn_run_result){0};
	int rc = 0;
	if (!temporary || !path) {
		cairn_cursor_close(input);
		rc = cairn_error(-ENOMEM, "out of memory for a run");
		goto done;
	}
	struct cairn_job_spec spec = {
	    .io = db->io,
	    .path = temporary,
	    .run = {.identity = db->identity,
		.number = number,
		.format = db->options.run_format,
		.point_index = db->options.point_index == CAIRN_POINT_INDEX,
		.size_hint = output->size_hint},
	    .input = input,
	    .tombstones = output->tombstones,
	    .oldest = output->older_count == 0,
	    .older_may_hold = older_may_hold,
	    .written = output->shadow ? note_written : NULL,
	    .context = (void *)(uintptr_t)output,
	    .sequence_low = output->sequence_low,
	    .sequence_high = output->sequence_high,
	};
	rc = cairn_job_open(&spec, &job);
	if (!rc)
		rc = run_job(output, job);
	if (!rc && !cairn_job_result(job)->empty) {
		const struct cairn_job_result *made = cairn_job_result(job);
		struct cairn_manifest_file file = {number, made->size, made->footer.checksum};
		rc = adopt(output, temporary, path, &file, cairn_job_take_run(job), result);
		result->bytes = file.size;
	}
done:
	if (rc)
		cairn_run_result_release(db, result, true);
	cairn_job_close(job);
	free(temporary);
	free(path);
	return rc;
}

void cairn_run_result_release(struct cairn *db, struct cairn_run_result *result, bool discard)
{
	if (discard && result->run && !atomic_load(&db->failed))
		atomic_store(&result->run->obsolete, true);
	if (discard)
		cairn_index_discard(db, result->index);
	cairn_index_unref(result->index);
	cairn_run_unref(result->run);
	*result = (struct cairn_run_result){0};
}
