/*
 * wal/log_reader.c -- reads a log back: replay, and the rule that tells a torn tail from damage.
 *
 * Every file that the directory lists at or above the first live segment gets a place in the chain
 * by its header alone:
 *	OURS       a chain of predecessors leads to the first live segment
 *	ELSEWHERE  it leads to the first segment of another log: one that no manifest ever named,
 *	           because the process ended before, so nobody was promised anything in it
 *	ORPHAN     it leads to a file that is not there: an error when the segment holds a record
 * A segment can have two successors: one that was prepared, and one that was made in its stead
 * because a record was longer. Only one of them has a LINK.
 *
 * Invariants.
 * (1) Bytes are believed only after their checksum; memory is allocated for bytes that a file has.
 * (2) A record is applied only when all before it were.
 */
#include "wal/log_reader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/buffer.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/filename.h"
#include "wal/segment.h"

#define WINDOW_SIZE (UINT64_C(16) << 20)

enum membership {
	ORPHAN,
	OURS,
	ELSEWHERE,
};

struct segment {
	char *path;
	struct cairn_log_segment_header header;
	uint64_t size; /* of the file */
	enum membership membership;
	bool linked; /* its LINK checks out */
	struct cairn_segment_link link;
};

/* The piece of one file that is in memory. */
struct window {
	struct cairn_file *file;
	uint64_t file_size;
	uint64_t offset;
	struct cairn_buffer bytes;
};

struct reader {
	struct cairn_io *io;
	const struct cairn_log_replay *replay;
	struct cairn_log_summary *summary;
	struct segment *segments; /* by number */
	size_t count;
	struct window window;
	const struct segment *open; /* the one in the window */
	/* Replay. */
	bool started;  /* `last` is known */
	uint64_t last; /* sequence of the last operation read */
	uint64_t base; /* of the segment being replayed */
	uint64_t done; /* bytes, for progress */
	uint64_t total;
};

/* What stands at a place. */
enum verdict {
	RECORD,
	NOT_A_RECORD,    /* a checksum is wrong, or the bytes are not there */
	OUT_OF_SEQUENCE, /* or it is whole, but not what follows the record before */
};

static int out_of_memory(const char *path)
{
	return cairn_error_at(
	    -ENOMEM, path, CAIRN_NO_OFFSET, "no memory to read the log; free some and try again");
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Files in pieces. */

static void close_segment(struct reader *reader)
{
	if (reader->window.file)
		reader->io->ops->close(reader->window.file);
	reader->window.file = NULL;
	reader->window.bytes.size = 0;
	reader->open = NULL;
}

static int open_segment(struct reader *reader, const struct segment *segment)
{
	if (reader->open == segment)
		return 0;
	close_segment(reader);
	int rc =
	    reader->io->ops->open(reader->io, segment->path, CAIRN_OPEN_READ, &reader->window.file);
	if (rc < 0)
		return rc;
	reader->window.file_size = segment->size;
	reader->open = segment;
	return 0;
}

/*
 * At least `size` bytes from `offset` on, all of them in the file: *bytes, with *there bytes of
 * them. What was shown before is gone.
 */
static int show(
    struct reader *reader, uint64_t offset, uint64_t size, const uint8_t **bytes, uint64_t *there)
{
	struct window *window = &reader->window;
	assert(offset + size <= window->file_size);
	if (offset < window->offset || offset + size > window->offset + window->bytes.size) {
		uint64_t wanted = least(most(size, WINDOW_SIZE), window->file_size - offset);
		window->bytes.size = 0;
		if (cairn_buffer_reserve(&window->bytes, (size_t)wanted) < 0)
			return out_of_memory(window->file->path);
		int rc =
		    cairn_io_read_exactly(window->file, window->bytes.data, (size_t)wanted, offset);
		if (rc < 0)
			return rc;
		window->offset = offset;
		window->bytes.size = (size_t)wanted;
	}
	*bytes = window->bytes.data + (offset - window->offset);
	*there = window->offset + window->bytes.size - offset;
	return 0;
}

static struct cairn_log_place place_of(const struct segment *segment, uint64_t offset)
{
	return (struct cairn_log_place){segment->header.salt, segment->header.ordinal, offset};
}

static uint64_t position_of(const struct segment *segment, uint64_t offset)
{
	return cairn_log_position(segment->header.ordinal, offset);
}

/* 1 when a whole record stands at `offset` of the open segment (header and body check out), 0, or a
 * failure. */
static int read_record(struct reader *reader, uint64_t offset, struct cairn_log_record *record)
{
	struct cairn_log_place place = place_of(reader->open, offset);
	uint64_t left = most(reader->window.file_size, offset) - offset, there;
	const uint8_t *bytes = NULL;
	if (left < CAIRN_LOG_RECORD_HEADER)
		return 0;
	int rc = show(reader, offset, CAIRN_LOG_RECORD_HEADER, &bytes, &there);
	if (rc < 0)
		return rc;
	if (!cairn_log_record_peek(record, bytes, (size_t)left, &place))
		return 0;
	rc = show(reader, offset, record->size, &bytes, &there);
	if (rc < 0)
		return rc;
	record->body = bytes + CAIRN_LOG_RECORD_HEADER;
	return cairn_log_record_check(record, &place);
}

/* The segments of the directory. */

struct listing {
	struct cairn_buffer numbers;
	uint64_t first;
};

static int list_one(void *context, const char *name)
{
	struct listing *listing = context;
	uint64_t number;
	if (cairn_filename_parse(name, &number) != CAIRN_FILE_LOG || number < listing->first)
		return 0;
	return cairn_buffer_append(&listing->numbers, &number, sizeof number);
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

static int check_identity(
    const struct reader *reader, const struct segment *segment, uint64_t number)
{
	const struct cairn_identity *ours = &reader->replay->start.identity;
	const struct cairn_identity *its = &segment->header.identity;
	if (memcmp(ours->store_id, its->store_id, sizeof ours->store_id) != 0 ||
	    ours->hash_seed != its->hash_seed)
		return cairn_error_at(CAIRN_CORRUPT, segment->path, 16,
		    "this log segment belongs to another store; move it out of the directory and "
		    "restore the right one from a copy, or repair the store");
	if (segment->header.number != number)
		return cairn_error_at(CAIRN_CORRUPT, segment->path, 48,
		    "this file was log segment %" PRIu64 " and has been renamed; rename it back",
		    segment->header.number);
	return 0;
}

/* Fills in what the file's header and LINK say. */
static int load_segment(struct reader *reader, struct segment *segment, uint64_t number)
{
	struct cairn_file_status status;
	struct cairn_log_record record;
	uint8_t *bytes = malloc(CAIRN_LOG_HEADER_SIZE);
	int rc = bytes ? open_segment(reader, segment) : out_of_memory(segment->path);
	if (rc == 0)
		rc = reader->io->ops->status(reader->window.file, &status);
	if (rc == 0)
		rc = cairn_io_read_exactly(reader->window.file, bytes, CAIRN_LOG_HEADER_SIZE, 0);
	if (rc == 0)
		rc = cairn_log_segment_header_decode(&segment->header, bytes, segment->path);
	if (rc == 0)
		rc = check_identity(reader, segment, number);
	if (rc < 0)
		goto done;
	segment->size = status.size;
	reader->window.file_size = least(status.size, CAIRN_SEGMENT_FIRST);
	rc = read_record(reader, CAIRN_LOG_HEADER_SIZE, &record);
	if (rc > 0)
		segment->linked = cairn_segment_link_get(&record, &segment->link);
done:
	close_segment(reader);
	free(bytes);
	return rc < 0 ? rc : 0;
}

static int load_segments(struct reader *reader)
{
	struct listing listing = {.first = reader->replay->start.number};
	const char *directory = reader->replay->directory;
	int rc = reader->io->ops->list(reader->io, directory, list_one, &listing);
	size_t count = listing.numbers.size / sizeof(uint64_t);
	if (rc == 0 && count) {
		qsort(listing.numbers.data, count, sizeof(uint64_t), compare_numbers);
		reader->segments = calloc(count, sizeof *reader->segments);
		rc = reader->segments ? 0 : -ENOMEM;
	}
	if (rc == -ENOMEM)
		rc = out_of_memory(directory);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct segment *segment = &reader->segments[i];
		uint64_t number;
		memcpy(&number, listing.numbers.data + i * sizeof number, sizeof number);
		segment->path = cairn_filename(directory, CAIRN_FILE_LOG, number);
		if (!segment->path) {
			rc = out_of_memory(directory);
			break;
		}
		reader->count = i + 1;
		rc = load_segment(reader, segment, number);
	}
	cairn_buffer_release(&listing.numbers);
	return rc;
}

/* The chain. */

static bool follows(const struct segment *segment, const struct segment *previous)
{
	return segment->header.previous_number == previous->header.number &&
	       segment->header.previous_salt == previous->header.salt &&
	       segment->header.ordinal == previous->header.ordinal + 1;
}

static int check_first(const struct reader *reader)
{
	const struct cairn_log_start *start = &reader->replay->start;
	const struct segment *first = reader->segments;
	if (reader->count == 0 || first->header.number != start->number)
		return cairn_error_at(CAIRN_CORRUPT, reader->replay->directory, CAIRN_NO_OFFSET,
		    "log segment %06" PRIu64 ".wal, where the log begins, is missing; "
		    "restore it from a copy or repair the store",
		    start->number);
	if (first->header.salt != start->salt || first->header.ordinal != start->ordinal)
		return cairn_error_at(CAIRN_CORRUPT, first->path, 56,
		    "this is not the log segment that the manifest names; "
		    "restore both from the same copy or repair the store");
	return 0;
}

/* A predecessor has the smaller number, so it has its membership already. */
static void find_membership(struct reader *reader, size_t i)
{
	struct segment *segment = &reader->segments[i];
	segment->membership = segment->header.previous_number ? ORPHAN : ELSEWHERE;
	if (i == 0)
		segment->membership = OURS;
	for (size_t j = 0; j < i; j++) {
		if (follows(segment, &reader->segments[j]))
			segment->membership = reader->segments[j].membership;
	}
}

/* The segment with a LINK that follows `segment`: *next, or NULL. */
static int find_next(
    const struct reader *reader, const struct segment *segment, const struct segment **next)
{
	*next = NULL;
	for (size_t i = 0; i < reader->count; i++) {
		const struct segment *candidate = &reader->segments[i];
		if (!candidate->linked || !follows(candidate, segment))
			continue;
		if (*next)
			return cairn_error_at(CAIRN_CORRUPT, candidate->path, CAIRN_LOG_HEADER_SIZE,
			    "two log segments with records follow one; the other is %s; "
			    "restore the store from a copy or repair it",
			    (*next)->path);
		*next = candidate;
	}
	return 0;
}

/* Looking ahead. */

struct search {
	/* A header that checks out, with its place: 1 ends the search. May move the window. */
	int (*candidate)(struct reader *reader, uint64_t offset,
	    const struct cairn_log_record *record, void *context);
	void *context;
};

/* Offers all records of the segment from `offset` on whose headers check out, and returns what
 * ended it. */
static int search_segment(struct reader *reader, const struct segment *segment, uint64_t offset,
    const struct search *search)
{
	int rc = open_segment(reader, segment);
	uint64_t end = segment->size;
	while (rc == 0 && offset + CAIRN_LOG_RECORD_HEADER <= end) {
		const uint8_t *bytes;
		uint64_t there, i = 0;
		rc = show(reader, offset, CAIRN_LOG_RECORD_HEADER, &bytes, &there);
		bool found = false;
		struct cairn_log_record record;
		for (; rc == 0 && !found && i + CAIRN_LOG_RECORD_HEADER <= there; i += 8) {
			/* Most of what is searched are zeros. */
			if (cairn_get32(bytes + i + 8) == 0)
				continue;
			struct cairn_log_place place = place_of(segment, offset + i);
			found = cairn_log_record_peek(
			    &record, bytes + i, (size_t)(end - offset - i), &place);
		}
		offset += i;
		if (found)
			rc = search->candidate(reader, offset - 8, &record, search->context);
	}
	return rc;
}

static int is_whole(
    struct reader *reader, uint64_t offset, const struct cairn_log_record *record, void *context)
{
	struct cairn_log_record whole;
	(void)record;
	*(uint64_t *)context = offset;
	return read_record(reader, offset, &whole);
}

/* A segment that no link reaches must not hold a record: it would be lost. */
static int check_orphan(struct reader *reader, const struct segment *segment)
{
	uint64_t offset = 0;
	struct search search = {is_whole, &offset};
	int rc = search_segment(reader, segment, CAIRN_LOG_HEADER_SIZE, &search);
	if (rc > 0)
		rc = cairn_error_at(CAIRN_CORRUPT, segment->path, offset,
		    "here is a log record, but segment %06" PRIu64
		    ".wal, which comes before this one, is missing; "
		    "restore it from a copy or repair the store",
		    segment->header.previous_number);
	return rc;
}

struct witness {
	uint64_t missing; /* position of what did not check out */
	const struct segment *segment;
	uint64_t offset;
	uint64_t bytes; /* of records behind it whose headers check out */
};

static int is_witness(
    struct reader *reader, uint64_t offset, const struct cairn_log_record *record, void *context)
{
	struct witness *witness = context;
	witness->segment = reader->open;
	witness->offset = offset;
	witness->bytes += record->size;
	if (record->durable <= witness->missing ||
	    record->durable > position_of(reader->open, offset))
		return 0;
	struct cairn_log_record whole;
	return read_record(reader, offset, &whole);
}

/* 1 when a record behind `offset` of the segment says that what stood there had been durable. */
static int find_witness(
    struct reader *reader, const struct segment *segment, uint64_t offset, struct witness *witness)
{
	struct search search = {is_witness, witness};
	witness->missing = position_of(segment, offset);
	int rc = search_segment(reader, segment, offset, &search);
	for (size_t i = 0; i < reader->count && rc == 0; i++) {
		const struct segment *later = &reader->segments[i];
		if (later->membership == OURS && later->header.ordinal > segment->header.ordinal)
			rc = search_segment(reader, later, CAIRN_LOG_HEADER_SIZE, &search);
	}
	return rc;
}

/* The log is damaged there, unless a writer that is at work put the record there in the meantime.
 */
static int report_damage(struct reader *reader, const struct segment *segment, uint64_t offset,
    enum verdict verdict, const struct witness *witness)
{
	struct cairn_log_record record;
	int rc = open_segment(reader, segment);
	if (rc < 0)
		return rc;
	reader->window.bytes.size = 0;
	rc = read_record(reader, offset, &record);
	if (rc < 0)
		return rc;
	if (rc > 0 && verdict == NOT_A_RECORD)
		return cairn_error_at(CAIRN_CONFLICT, segment->path, offset,
		    "the log grew while it was read; read it again");
	uint64_t sequence = reader->started ? reader->last : reader->replay->start.sequence;
	if (!witness)
		return cairn_error_at(CAIRN_CORRUPT, segment->path, offset,
		    "no log record here, but the manifest says that there was one on the disk; "
		    "operations from sequence %" PRIu64 " on are at risk; "
		    "restore the file from a copy or repair the store",
		    sequence + 1);
	return cairn_error_at(CAIRN_CORRUPT, segment->path, offset,
	    "no log record here, but the one at offset %" PRIu64
	    " of %s says that there was one on the disk; "
	    "operations from sequence %" PRIu64 " on are at risk; "
	    "restore the file from a copy or repair the store",
	    witness->offset, witness->segment->path, sequence + 1);
}

/* The replay ends at `offset`, where no record checks out: 0 when what stood there may be missing.
 */
static int end_replay(
    struct reader *reader, const struct segment *segment, uint64_t offset, enum verdict verdict)
{
	struct witness witness = {0};
	uint64_t position = position_of(segment, offset);
	reader->summary->end = position;
	if (reader->replay->start.durable > position)
		return report_damage(reader, segment, offset, verdict, NULL);
	int rc = find_witness(reader, segment, offset, &witness);
	if (rc > 0)
		return report_damage(reader, segment, offset, verdict, &witness);
	reader->summary->torn_bytes = witness.bytes;
	return rc;
}

/* Replay. */

static int malformed(const struct segment *segment, uint64_t offset, const char *what)
{
	return cairn_error_at(CAIRN_CORRUPT, segment->path, offset,
	    "the checksums of this log record are right, but %s; it was damaged in memory before "
	    "it "
	    "was written; restore the store from a copy or repair it",
	    what);
}

/* Counts the operations of a WRITE record and checks each; *used is where their bytes end. */
static int check_operations(const struct reader *reader, const struct segment *segment,
    uint64_t offset, const struct cairn_log_record *record, uint32_t *count, size_t *used)
{
	struct cairn_input body = cairn_input_of(record->body, record->body_size);
	struct cairn_record operation;
	uint64_t seed = reader->replay->start.identity.hash_seed;
	int rc;
	*count = 0;
	*used = 0;
	while ((rc = cairn_log_operation_next(&body, &operation)) == 0) {
		uint64_t hash = cairn_key_hash(operation.key, seed);
		if (cairn_record_checksum(hash, operation.kind, operation.value) !=
		    operation.checksum)
			return malformed(segment, offset, "an operation in it has a wrong one");
		(*count)++;
	}
	if (rc != CAIRN_END || *count == 0)
		return malformed(segment, offset, "its operations do not make sense");
	*used = (size_t)(body.next - record->body);
	return 0;
}

static bool write_in_sequence(const struct reader *reader, const struct cairn_log_record *record)
{
	uint64_t first = reader->base + record->sequence_delta;
	if (reader->started)
		return first == reader->last + 1;
	return first > reader->base && first <= reader->replay->start.sequence + 1;
}

static bool link_in_sequence(const struct reader *reader, const struct cairn_segment_link *link)
{
	if (reader->started)
		return link->base == reader->last;
	return link->base <= reader->replay->start.sequence;
}

static int apply_write(struct reader *reader, const struct segment *segment, uint64_t offset,
    const struct cairn_log_record *record)
{
	const struct cairn_log_replay *replay = reader->replay;
	uint64_t first = reader->base + record->sequence_delta;
	uint32_t count;
	size_t used;
	int rc = check_operations(reader, segment, offset, record, &count, &used);
	if (rc < 0)
		return rc;
	reader->started = true;
	reader->last = first + count - 1;
	if (reader->last <= replay->start.sequence)
		return 0;
	return replay->apply(replay->context, first, count, cairn_slice_of(record->body, used));
}

static int apply_link(struct reader *reader, const struct segment *segment, uint64_t offset,
    const struct cairn_log_record *record)
{
	struct cairn_segment_link link;
	if (offset != CAIRN_LOG_HEADER_SIZE || !cairn_segment_link_get(record, &link))
		return malformed(segment, offset, "it is not a link that could stand here");
	reader->started = true;
	reader->last = link.base;
	reader->base = link.base;
	return 0;
}

static bool all_zeros(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/*
 * Reads the record at `offset` and lets it have its effect when there is one: *verdict, and *size
 * when it is RECORD. `limit` is where the segment's contents end.
 */
static int step(struct reader *reader, const struct segment *segment, uint64_t offset,
    uint64_t limit, enum verdict *verdict, uint64_t *size)
{
	struct cairn_log_record record;
	struct cairn_segment_link link;
	*verdict = NOT_A_RECORD;
	int rc = read_record(reader, offset, &record);
	if (rc <= 0)
		return rc;
	*verdict = OUT_OF_SEQUENCE;
	if (record.size > limit - offset)
		return 0;
	*verdict = RECORD;
	*size = record.size;
	switch (record.type) {
	case CAIRN_LOG_LINK:
		if (cairn_segment_link_get(&record, &link) && !link_in_sequence(reader, &link))
			break;
		return apply_link(reader, segment, offset, &record);
	case CAIRN_LOG_WRITE:
		if (offset == CAIRN_LOG_HEADER_SIZE)
			return malformed(segment, offset, "a link belongs here");
		if (!write_in_sequence(reader, &record))
			break;
		return apply_write(reader, segment, offset, &record);
	case CAIRN_LOG_MARK:
		if (!all_zeros(record.body, record.body_size))
			return malformed(segment, offset, "a mark has nothing to say");
		return 0;
	}
	*verdict = OUT_OF_SEQUENCE;
	return 0;
}

static void report_progress(struct reader *reader, uint64_t offset)
{
	const struct cairn_log_replay *replay = reader->replay;
	if (replay->progress)
		replay->progress(replay->context, reader->done + offset, reader->total);
}

/*
 * Replays the segment from *offset to where it ends: *clean when that is `limit`, where the
 * successor says that it ended.
 */
static int replay_segment(struct reader *reader, const struct segment *segment, uint64_t *offset,
    uint64_t limit, enum verdict *verdict)
{
	int rc = open_segment(reader, segment);
	uint64_t reported = 0;
	*verdict = RECORD;
	while (rc == 0 && *offset < limit) {
		uint64_t size = 0;
		rc = step(reader, segment, *offset, limit, verdict, &size);
		if (rc != 0 || *verdict != RECORD)
			break;
		*offset += size;
		reader->summary->records++;
		if (*offset - reported >= WINDOW_SIZE) {
			reported = *offset;
			report_progress(reader, *offset);
		}
	}
	return rc;
}

/* Where reading begins. The sequences of a segment are told from its LINK, also when that was read
 * before; when it is gone that is the record that is missing. */
static int enter_first(struct reader *reader, uint64_t *offset)
{
	const struct cairn_log_start *start = &reader->replay->start;
	const struct segment *first = reader->segments;
	*offset = CAIRN_LOG_HEADER_SIZE;
	if (cairn_log_position_ordinal(start->position) > start->ordinal)
		return cairn_error_at(CAIRN_CORRUPT, reader->replay->directory, CAIRN_NO_OFFSET,
		    "the manifest's log position lies outside the segment that it names; "
		    "restore the store from a copy or repair it");
	if (!first->linked)
		return 0;
	if (cairn_log_position_ordinal(start->position) == start->ordinal)
		*offset = most(*offset, cairn_log_position_offset(start->position));
	reader->base = first->link.base;
	return 0;
}

static int replay_chain(struct reader *reader)
{
	const struct segment *segment = reader->segments, *next;
	uint64_t offset;
	int rc = enter_first(reader, &offset);
	while (rc == 0) {
		enum verdict verdict = OUT_OF_SEQUENCE;
		rc = find_next(reader, segment, &next);
		uint64_t limit = next ? next->link.previous_end : UINT64_MAX;
		reader->summary->segments++;
		/* Without its LINK a segment's sequences are not known. */
		if (rc == 0 && segment->linked)
			rc = replay_segment(reader, segment, &offset, limit, &verdict);
		if (rc == 0 && (!next || offset != limit))
			return end_replay(reader, segment, offset, verdict);
		reader->done += segment->size;
		segment = next;
		offset = CAIRN_LOG_HEADER_SIZE;
	}
	return rc;
}

static void report_unnamed(const struct reader *reader)
{
	const struct cairn_log_replay *replay = reader->replay;
	for (size_t i = 0; i < reader->count; i++)
		if (reader->segments[i].membership == ELSEWHERE)
			replay->unnamed(replay->context, reader->segments[i].header.number);
}

static int read_log(struct reader *reader)
{
	int rc = load_segments(reader);
	if (rc == 0)
		rc = check_first(reader);
	for (size_t i = 0; i < reader->count && rc == 0; i++) {
		find_membership(reader, i);
		if (reader->segments[i].membership == ORPHAN)
			rc = check_orphan(reader, &reader->segments[i]);
		else if (reader->segments[i].membership == OURS)
			reader->total += reader->segments[i].size;
	}
	if (rc == 0)
		rc = replay_chain(reader);
	if (rc == 0 && reader->replay->unnamed)
		report_unnamed(reader);
	return rc;
}

int cairn_log_read(
    struct cairn_io *io, const struct cairn_log_replay *replay, struct cairn_log_summary *summary)
{
	struct reader reader = {.io = io, .replay = replay, .summary = summary};
	*summary = (struct cairn_log_summary){.last_sequence = replay->start.sequence};
	if (replay->start.number == 0)
		return 0;
	int rc = read_log(&reader);
	if (reader.started)
		summary->last_sequence = most(reader.last, replay->start.sequence);
	if (rc == 0 && replay->progress)
		replay->progress(replay->context, reader.total, reader.total);
	close_segment(&reader);
	cairn_buffer_release(&reader.window.bytes);
	for (size_t i = 0; i < reader.count; i++)
		free(reader.segments[i].path);
	free(reader.segments);
	return rc;
}
