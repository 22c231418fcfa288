/*
 * compaction/job.c -- writes one new run from cursors over old ones.
 *
 * A job is in one *phase* after the other: it copies records (many steps), then finishes the file
 * (one step: sections, footer, sync), then reads all of it back and verifies it (one step). Without
 * a record to write there is neither a file nor a second phase.
 *
 * Invariants.
 *	1. A record is written only after the input verified it: value and kind come from verified
 *	   bytes.
 *	2. The file exists from the first record that is written on. Until the job is done it is
 *	   removed by whatever ends the job: the failure itself, so that a full disk gets its room
 *	   back at once, or close.
 *	3. The first failure is kept in `failed`; nothing is done after it.
 *
 * Threads. A job belongs to one thread at a time.
 */
#include "compaction/job.h"

#include <errno.h>
#include <stdlib.h>

#include "format/error.h"

/* A step reads one record at most for this much of its budget: it ends even if all is dropped. */
#define RECORD_COST 16u

enum phase {
	COPY,
	FINISH,
	VERIFY, /* the file is complete, and not believed */
	DONE,
};

struct cairn_job {
	struct cairn_job_spec spec; /* input: NULL once it has ended */
	char *path;
	enum phase phase;
	bool started; /* the input stands on a record that has been dealt with */
	int failed;
	struct cairn_run_writer *writer; /* NULL before the first record and after FINISH */
	struct cairn_run_reader *run;    /* when DONE, until it is taken */
	struct cairn_job_result result;
};

int cairn_job_open(const struct cairn_job_spec *spec, struct cairn_job **out)
{
	*out = NULL;
	struct cairn_job *job = calloc(1, sizeof *job);
	char *path = strdup(spec->path);
	if (!job || !path) {
		free(job);
		free(path);
		cairn_cursor_close(spec->input);
		return cairn_error_at(-ENOMEM, spec->path, CAIRN_NO_OFFSET, "not enough memory");
	}
	job->spec = *spec;
	job->path = path;
	job->spec.path = path;
	job->spec.run.kinds = spec->tombstones && !spec->oldest;
	*out = job;
	return 0;
}

static void close_input(struct cairn_job *job)
{
	if (job->spec.input)
		cairn_cursor_close(job->spec.input);
	job->spec.input = NULL;
}

/* Removes what has been written. */
static void discard(struct cairn_job *job)
{
	cairn_run_writer_abort(job->writer);
	job->writer = NULL;
	if (job->phase == VERIFY)
		(void)cairn_io_remove_remains(job->spec.io, job->path, cairn_error_code());
}

/* Whether the record, if it is a tombstone, has nothing left to hide. */
static bool is_spent(const struct cairn_job_spec *spec, const struct cairn_record *record)
{
	if (record->kind != CAIRN_KIND_DELETE)
		return false;
	if (spec->oldest)
		return true;
	return spec->older_may_hold && !spec->older_may_hold(spec->context, record->key);
}

/* Writes the record under the input, or drops it. */
static int copy_record(struct cairn_job *job)
{
	struct cairn_record record;
	int code = cairn_cursor_record(job->spec.input, &record);
	if (code != 0)
		return code;
	if (is_spent(&job->spec, &record)) {
		job->result.records_dropped++;
		return 0;
	}
	if (!job->writer)
		code = cairn_run_writer_open(job->spec.io, job->path, &job->spec.run, &job->writer);
	if (code == 0)
		code = cairn_run_writer_add(job->writer, &record);
	if (code == 0 && job->spec.written)
		job->spec.written(job->spec.context, record.key);
	return code;
}

static int copy(struct cairn_job *job, uint64_t budget)
{
	struct cairn_cursor *input = job->spec.input;
	uint64_t start = cairn_job_written(job);
	uint64_t records = budget / RECORD_COST;
	do {
		int code = job->started ? cairn_cursor_next(input) : cairn_cursor_first(input);
		job->started = true;
		if (code == CAIRN_END) {
			close_input(job);
			job->result.empty = !job->writer;
			job->phase = job->writer ? FINISH : DONE;
			return job->writer ? 0 : CAIRN_END;
		}
		if (code == 0)
			code = copy_record(job);
		if (code != 0)
			return code;
	} while (cairn_job_written(job) - start < budget && records-- > 0);
	return 0;
}

static int finish(struct cairn_job *job)
{
	struct cairn_run_writer *writer = job->writer;
	job->writer = NULL; /* finish frees it, and removes the file when it fails */
	int code = cairn_run_writer_finish(writer, job->spec.sequence_low, job->spec.sequence_high,
	    &job->result.footer, &job->result.size);
	if (code == 0)
		job->phase = VERIFY;
	return code;
}

static int verify(struct cairn_job *job)
{
	struct cairn_run_expect expect = {
	    .identity = job->spec.run.identity,
	    .number = job->spec.run.number,
	    .size = job->result.size,
	    .footer_checksum = job->result.footer.checksum,
	};
	struct cairn_run_reader *run;
	int code = cairn_run_open(job->spec.io, job->path, &expect, &run);
	if (code != 0)
		return code;
	code = cairn_run_verify(run, NULL, NULL);
	if (code != 0) {
		cairn_run_close(run);
		return code;
	}
	job->run = run;
	job->phase = DONE;
	return CAIRN_END;
}

int cairn_job_step(struct cairn_job *job, uint64_t budget)
{
	if (job->failed != 0)
		return job->failed;
	int code = CAIRN_END;
	switch (job->phase) {
	case COPY:
		code = copy(job, budget);
		break;
	case FINISH:
		code = finish(job);
		break;
	case VERIFY:
		code = verify(job);
		break;
	case DONE:
		break;
	}
	if (code < 0) {
		discard(job);
		job->failed = code;
	}
	return code;
}

uint64_t cairn_job_written(const struct cairn_job *job)
{
	return job->writer ? cairn_run_writer_size(job->writer) : job->result.size;
}

const struct cairn_job_result *cairn_job_result(const struct cairn_job *job)
{
	return &job->result;
}

struct cairn_run_reader *cairn_job_take_run(struct cairn_job *job)
{
	struct cairn_run_reader *run = job->run;
	job->run = NULL;
	return run;
}

void cairn_job_close(struct cairn_job *job)
{
	if (!job)
		return;
	if (job->failed == 0)
		discard(job);
	close_input(job);
	cairn_run_close(job->run);
	free(job->path);
	free(job);
}
