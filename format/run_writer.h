/*
 * format/run_writer.h -- writes one `.kv` file from records in ascending key order.
 *
 * Bytes go out in 2 MiB pieces through a queue of the I/O layer, two under way at once, with
 * early write-back, so that the sync at the end is short. Memory: the pieces, one block, 17 bytes a
 * block; for a point index 16 bytes a record, and at the end 8 more.
 */
#ifndef CAIRN_FORMAT_RUN_WRITER_H
#define CAIRN_FORMAT_RUN_WRITER_H

#include "format/io.h"
#include "format/run_file.h"

struct cairn_run_writer;

struct cairn_run_spec {
	struct cairn_identity identity;
	uint64_t number;
	int format;         /* CAIRN_KV02 */
	bool kinds;         /* whether tombstones may come */
	bool point_index;   /* whether the file gets one */
	uint64_t size_hint; /* expected size of the file, 0 = unknown: blocks are reserved ahead */
};

/* Creates `path` (must not exist). The writer keeps a copy of path and spec. */
int cairn_run_writer_open(struct cairn_io *io, const char *path, const struct cairn_run_spec *spec,
    struct cairn_run_writer **writer);

/*
 * Adds a record; its bytes are copied. CAIRN_INVALID when its key is not above the last one or when
 * a tombstone comes without spec.kinds. After a failure only abort is allowed.
 */
int cairn_run_writer_add(struct cairn_run_writer *writer, const struct cairn_record *record);

/* Bytes of the file so far (written or waiting). */
uint64_t cairn_run_writer_size(const struct cairn_run_writer *writer);
uint64_t cairn_run_writer_records(const struct cairn_run_writer *writer);
/* Of the record added last, valid until the next; empty before the first. */
cairn_slice cairn_run_writer_last_key(const struct cairn_run_writer *writer);

/*
 * Writes what is left, the sections and the footer, truncates to size and syncs the file (not its
 * directory), then frees the writer: also after a failure, which removes the file. Needs one record
 * at least.
 * `*footer` and `*size` describe the finished file.
 */
int cairn_run_writer_finish(struct cairn_run_writer *writer, uint64_t sequence_low,
    uint64_t sequence_high, struct cairn_run_footer *footer, uint64_t *size);

/* Removes the file and frees the writer. NULL is fine. */
void cairn_run_writer_abort(struct cairn_run_writer *writer);

#endif
