/*
 * compaction/job.h -- writes one new run from cursors over old ones: the work of a flush and of a
 * merge.
 *
 * A job moves in bounded steps, so that one thread can drive several, stop, or be stopped. It
 * verifies every record that it copies, and reads its whole output back before it says that it is
 * done. It never touches its inputs and publishes nothing: its output is a temporary file until the
 * store renames it.
 *
 * Tombstones. A tombstone is dropped when no run older than the inputs can hold its key: always
 * when `oldest` is set, else when `older_may_hold` says no. Everything else is written as it is;
 * records shadowed by a newer input are not.
 */
#ifndef CAIRN_COMPACTION_JOB_H
#define CAIRN_COMPACTION_JOB_H

#include "format/io.h"
#include "format/iter.h"
#include "format/run_reader.h"
#include "format/run_writer.h"

struct cairn_job;

struct cairn_job_spec {
	struct cairn_io *io;
	const char *path;           /* of the temporary file; copied */
	struct cairn_run_spec run;  /* `kinds` in it is decided by the job */
	struct cairn_cursor *input; /* ascending, unique keys; taken over */
	bool tombstones;            /* whether the input may show any */
	bool oldest;                /* no run is older than the inputs */
	/* Whether an older run may hold the key; not asked when `oldest`; NULL = always true. */
	bool (*older_may_hold)(void *context, cairn_slice key);
	/* A record with this key was written; may be NULL. */
	void (*written)(void *context, cairn_slice key);
	void *context;
	uint64_t sequence_low;
	uint64_t sequence_high;
};

struct cairn_job_result {
	bool empty; /* everything was dropped: there is no file */
	uint64_t size;
	struct cairn_run_footer footer;
	uint64_t records_dropped; /* tombstones */
};

/* Nothing is created yet. 0 or -ENOMEM; the input is closed in either case sooner or later. */
int cairn_job_open(const struct cairn_job_spec *spec, struct cairn_job **job);

/* Works for about `budget` bytes of output. 0: more to do. CAIRN_END: all written, synced,
 * verified. Negative: failed. */
int cairn_job_step(struct cairn_job *job, uint64_t budget);

/* Bytes written so far. */
uint64_t cairn_job_written(const struct cairn_job *job);

/* After CAIRN_END only. */
const struct cairn_job_result *cairn_job_result(const struct cairn_job *job);

/* After CAIRN_END, once: the run, open at `path` as it was verified, with its pages mapped. The
 * caller closes it. NULL when it is empty. */
struct cairn_run_reader *cairn_job_take_run(struct cairn_job *job);

/* Frees it; a file that was not finished (no CAIRN_END) is removed. NULL is fine. */
void cairn_job_close(struct cairn_job *job);

#endif
