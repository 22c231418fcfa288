/*
 * wal/segment.h -- one file of the log: how it comes to be, what stands at its start, how it goes.
 *
 * Invariants.
 * (1) A file is called NNNNNN.wal only when its header and all its blocks are durable. One that was
 *     set aside is the exception: it has blocks and nothing in them, and a number below the log's,
 *     where no reader looks.
 * (2) A file that had another life is taken over only when nobody else holds a link to it.
 * (3) A failed creation leaves no file behind, as far as the disk lets it.
 *
 * Threads. A segment belongs to the log that holds it; creation touches nothing that is shared.
 */
#ifndef CAIRN_WAL_SEGMENT_H
#define CAIRN_WAL_SEGMENT_H

#include <stdatomic.h>

#include "format/io.h"
#include "format/log_record.h"

/* A full disk makes segments smaller, down to this, before it is reported. */
#define CAIRN_SEGMENT_SHRUNK    262144u

#define CAIRN_SEGMENT_LINK_SIZE 16u
/* Where the record behind the LINK, of 40 bytes, stands: no segment's contents end before. */
#define CAIRN_SEGMENT_FIRST     (CAIRN_LOG_HEADER_SIZE + 40u)

struct cairn_segment {
	struct cairn_segment *next; /* the next newer one */
	struct cairn_log_segment_header header;
	struct cairn_file *file;
	uint8_t *memory; /* its mapping, or NULL: append by write */
	uint64_t size;
	uint64_t end;               /* behind its last record; 0 while it takes appends */
	uint64_t synced;            /* bytes before this are durable */
	_Atomic uint64_t populated; /* pages before this are faulted in */
	unsigned references;
};

/* A segment to be made. */
struct cairn_segment_plan {
	struct cairn_io *io;
	const char *directory;
	struct cairn_log_segment_header header; /* all but the salt */
	uint64_t size;                          /* multiples of 4096: wanted, … */
	uint64_t size_least;                    /* … enough when the disk is full, … */
	uint64_t size_most;                     /* … and the longest that may be taken over */
	uint64_t recycle; /* number of a file to take over, which is gone afterwards; 0 = none */
};

/*
 * Makes the file, durable under its name, with one reference. 0 or a failure: -ENOSPC only when
 * `size_least` did not fit either.
 */
int cairn_segment_create(const struct cairn_segment_plan *plan, struct cairn_segment **segment);

/*
 * Makes a file with blocks for `size` bytes, called NUMBER.wal, to be taken over later. It need not
 * survive a crash: nothing is synced.
 */
int cairn_segment_set_aside(
    struct cairn_io *io, const char *directory, uint64_t number, uint64_t size);

/* Closes and frees; the file stays. NULL is fine. */
void cairn_segment_close(struct cairn_segment *segment);

/* Removes the file called NUMBER.wal. */
int cairn_segment_remove(struct cairn_io *io, const char *directory, uint64_t number);

/* The body of a LINK record. */
struct cairn_segment_link {
	uint64_t base;         /* the last sequence before this segment */
	uint64_t previous_end; /* offset behind the last record of the predecessor; 0 = none */
};

void cairn_segment_link_put(
    uint8_t body[CAIRN_SEGMENT_LINK_SIZE], const struct cairn_segment_link *link);
/* False when `record`, which is whole, is not a well-formed LINK. */
bool cairn_segment_link_get(const struct cairn_log_record *record, struct cairn_segment_link *link);

#endif
