/*
 * wal/log_reader.h -- reads a log back: replay, and the rule that tells a torn tail from damage.
 *
 * Replay starts at the manifest's position and follows the chain: a successor is the file whose
 * header names the segment just read (number and salt) as its predecessor. Its LINK says where the
 * predecessor ended: reaching that offset exactly is a clean end.
 *
 * Torn or damaged. At a record that does not check out, at position X, everything behind X, in this
 * segment and in all that follow it, is searched at every 8-byte step for a *witness*: a record of
 * this chain whose header and body check out and whose D lies beyond X and not beyond itself. The
 * manifest's durable position is a witness too.
 *
 *	a witness   bytes at X had been made durable and are gone: CAIRN_CORRUPT, with file, offset
 *	            and what is at risk
 *	none        the tail was never durable: torn. Replay ends at X, what is behind is ignored
 *
 * A whole record whose sequence is not the next one does not check out either. Damage to the last
 * sync group or two of a store that was killed before any later record was written cannot be told
 * from a torn tail; nothing else is mistaken for one.
 */
#ifndef CAIRN_WAL_LOG_READER_H
#define CAIRN_WAL_LOG_READER_H

#include "format/io.h"
#include "format/log_record.h"

/* Where to start and what is known: from the manifest. */
struct cairn_log_start {
	struct cairn_identity identity;
	uint64_t number; /* of the first live segment; 0 = the log is empty */
	uint64_t salt;
	uint64_t ordinal;
	uint64_t position; /* begin reading here; before the first live segment = at its start */
	uint64_t durable;  /* at least this much was made durable */
	uint64_t sequence; /* operations up to this one are in runs: skipped */
};

struct cairn_log_replay {
	const char *directory;
	struct cairn_log_start start;
	/*
	 * Called for each WRITE record with an operation above start.sequence, in order: `body` is
	 * verified, holds `count` operations with sequences from first_sequence on, all of them
	 * well formed and with a right record checksum. A non-zero return stops the replay and is
	 * returned.
	 */
	int (*apply)(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body);
	/* Progress: bytes read of bytes there are. May be NULL. */
	void (*progress)(void *context, uint64_t done, uint64_t total);
	/* Called behind a replay that succeeded, for each segment of a log that no manifest ever
	 * named: what an interrupted recovery left of its fresh one. May be NULL. */
	void (*unnamed)(void *context, uint64_t number);
	void *context;
};

struct cairn_log_summary {
	uint64_t last_sequence; /* highest applied or skipped; start.sequence when none */
	uint64_t end;           /* position behind the last whole record */
	uint64_t records;
	uint64_t segments;
	/* Of records ignored behind the end: those whose headers still check out, whole or not. 0 =
	 * a clean end, or one where no header is left: that cannot be told from an older life's
	 * bytes. */
	uint64_t torn_bytes;
};

/*
 * Replays. 0, CAIRN_CORRUPT (damaged, a missing or foreign segment, a segment holding records that
 * no link reaches), CAIRN_UNSUPPORTED (a segment of a newer version), or a failure of the disk.
 * Beside a writer at work also CAIRN_CONFLICT (what was missing has come meanwhile: read again),
 * and no failure means anything before the manifest was found unchanged. A segment that begins
 * another log than the manifest's, and what follows it, was never named by one and is ignored.
 * Files are read with `read`, never through a mapping, one segment in memory at a time (in pieces
 * when it is long). Changes nothing on disk.
 */
int cairn_log_read(
    struct cairn_io *io, const struct cairn_log_replay *replay, struct cairn_log_summary *summary);

#endif
