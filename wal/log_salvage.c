/*
 * wal/log_salvage.c -- see log_salvage.h.
 *
 * 1. Every segment whose header checks out is taken note of, with what its LINK says.
 * 2. Where the log begins: as the manifest says, or at the likeliest segment.
 * 3. When replay (log_reader.h) finds nothing wrong from there on, its word counts: what it calls a
 *    torn tail is none of repair's business.
 * 4. Else records are read up to the first that does not check out, and what is left out is told.
 *
 * Invariants.
 * (1) A record is applied only when all before it were, but for the gap that skip_gap tells of.
 * (2) Nothing is left out without a word, except what is in runs or was read already.
 */
#include "wal/log_salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/buffer.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/filename.h"
#include "wal/segment.h"

/* No position lies behind it. */
#define SEGMENT_MOST (UINT64_C(8) << 28)

/* One segment whose header checks out. */
struct found {
	char *path;
	struct cairn_log_segment_header header;
	bool linked; /* its LINK checks out */
	struct cairn_segment_link link;
	struct cairn_buffer bytes; /* the whole file, while it is read */
	bool used;
};

struct salvager {
	struct cairn_io *io;
	const struct cairn_log_salvage *call;
	struct found *segments;
	size_t count, capacity;
	uint64_t last; /* sequence of the last operation that is in runs, or was read */
	unsigned told, gaps;
	char cause[CAIRN_ERROR_TEXT_MAX]; /* why replay refused the log; "" when it did not */
	char *cause_path;                 /* NULL: the directory */
	uint64_t cause_offset;
};

__attribute__((format(printf, 4, 5))) static void tell(
    struct salvager *s, const char *path, uint64_t offset, const char *format, ...)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	s->told++;
	s->call->lost(s->call->context, path, offset, text);
}

static int out_of_memory(const char *path)
{
	return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "no memory to read the log");
}

static bool read_record(
    const struct found *segment, uint64_t offset, struct cairn_log_record *record)
{
	struct cairn_log_place place = {segment->header.salt, segment->header.ordinal, offset};
	size_t left = segment->bytes.size > offset ? segment->bytes.size - (size_t)offset : 0;
	return left >= CAIRN_LOG_RECORD_HEADER &&
	       cairn_log_record_peek(record, segment->bytes.data + offset, left, &place) &&
	       cairn_log_record_check(record, &place);
}

/* ---------------------------------------------------------------- finding segments */

static int read_bytes(struct salvager *s, struct found *segment, uint64_t most)
{
	struct cairn_file *file;
	struct cairn_file_status status;
	int rc = s->io->ops->open(s->io, segment->path, CAIRN_OPEN_READ, &file);
	if (rc)
		return rc;
	rc = s->io->ops->status(file, &status);
	size_t size = rc ? 0 : (size_t)(status.size < most ? status.size : most), done = 0;
	segment->bytes.size = 0;
	if (!rc && cairn_buffer_reserve(&segment->bytes, size ? size : 1))
		rc = out_of_memory(segment->path);
	if (!rc)
		rc = s->io->ops->read(file, segment->bytes.data, size, 0, &done);
	segment->bytes.size = done;
	s->io->ops->close(file);
	return rc;
}

/* Whether the file is a segment of this store; says so when it is not. */
static bool is_segment(struct salvager *s, struct found *segment, uint64_t number)
{
	const char *path = segment->path;
	if (segment->bytes.size < CAIRN_LOG_HEADER_SIZE) {
		tell(s, path, segment->bytes.size,
		    "the log segment ends inside of its header; all operations in it are lost");
		return false;
	}
	int rc = cairn_log_segment_header_decode(&segment->header, segment->bytes.data, path);
	if (rc)
		tell(s, path, cairn_error_offset(), "%s; all operations in it are lost",
		    rc == CAIRN_UNSUPPORTED ? cairn_error_cause()
					    : "the header of the log segment is damaged");
	else if (!cairn_identity_equal(&segment->header.identity, &s->call->start.identity))
		tell(s, path, 16, "the log segment belongs to another store; it is left out");
	else if (segment->header.number != number)
		tell(s, path, 48, "the file was log segment %" PRIu64 "; it is left out",
		    segment->header.number);
	else
		return true;
	return false;
}

static int add_segment(struct salvager *s, uint64_t number)
{
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 16;
		struct found *grown = realloc(s->segments, capacity * sizeof *grown);
		if (!grown)
			return out_of_memory(s->call->directory);
		s->segments = grown;
		s->capacity = capacity;
	}
	struct cairn_log_record record;
	struct found *segment = &s->segments[s->count];
	*segment =
	    (struct found){.path = cairn_filename(s->call->directory, CAIRN_FILE_LOG, number)};
	int rc = segment->path ? read_bytes(s, segment, CAIRN_SEGMENT_FIRST)
			       : out_of_memory(s->call->directory);
	bool taken = !rc && is_segment(s, segment, number);
	segment->linked = taken && read_record(segment, CAIRN_LOG_HEADER_SIZE, &record) &&
			  cairn_segment_link_get(&record, &segment->link);
	cairn_buffer_release(&segment->bytes);
	if (taken)
		s->count++;
	else
		free(segment->path);
	return rc;
}

static int list_one(void *context, const char *name)
{
	struct salvager *s = context;
	uint64_t number;
	return cairn_filename_parse(name, &number) == CAIRN_FILE_LOG &&
		       number >= s->call->start.number
		   ? add_segment(s, number)
		   : 0;
}

/* ---------------------------------------------------------------- reading one */

/* Whole operations with right checksums: how many, or 0. */
static uint32_t count_operations(const struct salvager *s, cairn_slice body)
{
	struct cairn_input in = cairn_input_of(body.data, body.size);
	struct cairn_record record;
	uint32_t count = 0;
	int rc;
	for (; (rc = cairn_log_operation_next(&in, &record)) == 0; count++) {
		uint64_t hash = cairn_key_hash(record.key, s->call->start.identity.hash_seed);
		if (record.checksum != cairn_record_checksum(hash, record.kind, record.value))
			return 0;
	}
	return rc == CAIRN_END ? count : 0;
}

/* Takes over `count` operations: 0, CAIRN_END when they are not the next ones, or what apply
 * returned. */
static int take(struct salvager *s, uint64_t first, uint32_t count, cairn_slice body)
{
	uint64_t end = first + count - 1;
	if (first > s->last + 1)
		return CAIRN_END;
	if (end <= s->last)
		return 0; /* in runs */
	int rc = s->call->apply(s->call->context, first, count, body);
	if (!rc)
		s->last = end;
	return rc;
}

/*
 * How many writes of this segment can be read from `offset` on that are neither in runs nor were
 * read. With *witness set to whether one of them proves that what stands at `offset` had been made
 * durable: only then is it damage, else the tail of a crash (log_reader.h).
 */
static unsigned count_behind(
    const struct salvager *s, const struct found *segment, uint64_t offset, bool *witness)
{
	uint64_t ordinal = segment->header.ordinal, missing = cairn_log_position(ordinal, offset);
	struct cairn_log_record record;
	unsigned count = 0;
	*witness = false;
	while (offset < segment->bytes.size) {
		if (!read_record(segment, offset, &record)) {
			offset += 8;
			continue;
		}
		bool known =
		    segment->linked && segment->link.base + record.sequence_delta <= s->last;
		count += record.type == CAIRN_LOG_WRITE && !known;
		if (record.durable > missing &&
		    record.durable <= cairn_log_position(ordinal, offset))
			*witness = true;
		offset += record.size;
	}
	return count;
}

/* Where reading of a segment begins and what its sequences count from. False when that cannot be
 * told. */
static bool enter(struct salvager *s, const struct found *segment, uint64_t *offset, uint64_t *base)
{
	const struct cairn_log_start *start = &s->call->start;
	uint64_t position = start->position;
	struct cairn_log_record record;
	*offset = CAIRN_LOG_HEADER_SIZE;
	if (s->call->manifest && cairn_log_position_ordinal(position) == segment->header.ordinal &&
	    cairn_log_position_offset(position) > *offset)
		*offset = cairn_log_position_offset(position);
	*base = segment->link.base;
	if (segment->linked)
		return true;
	/* The manifest knows which operation stands where it tells to begin. */
	if (*offset == CAIRN_LOG_HEADER_SIZE || !read_record(segment, *offset, &record) ||
	    record.type != CAIRN_LOG_WRITE)
		return false;
	*base = start->sequence + 1 - record.sequence_delta;
	return true;
}

/* Without a manifest a log may begin behind the last run that is left. */
static void skip_gap(struct salvager *s, const struct found *head)
{
	if (s->call->manifest || !head->linked || head->link.base <= s->last)
		return;
	tell(s, head->path, CAIRN_LOG_HEADER_SIZE,
	    "operations %" PRIu64 " to %" PRIu64 " are in no run and no log; "
	    "older values of their keys may be out of date or deleted",
	    s->last + 1, head->link.base);
	s->last = head->link.base;
	s->gaps++;
}

/* Records from *end on, to the first that does not check out, which is at *end then. 0, CAIRN_END
 * when that was told, or what apply returned. */
static int read_records(
    struct salvager *s, const struct found *segment, uint64_t base, uint64_t *end)
{
	struct cairn_log_record record;
	for (; read_record(segment, *end, &record); *end += record.size) {
		if (record.type != CAIRN_LOG_WRITE)
			continue;
		cairn_slice body = {record.body, record.body_size};
		uint32_t count = count_operations(s, body);
		if (count == 0) {
			tell(s, segment->path, *end,
			    "the log record was damaged before it was written; "
			    "it is left out with all that is behind it");
			return CAIRN_END;
		}
		int rc = take(s, base + record.sequence_delta, count, body);
		if (rc)
			return rc == CAIRN_END ? 0 : rc;
	}
	return 0;
}

/* Reads a segment to its end. *end is where its last record in order ends; 0, CAIRN_END when there
 * is damage, or a failure. */
static int read_segment(struct salvager *s, struct found *segment, uint64_t *end)
{
	uint64_t base;
	bool witness;
	*end = CAIRN_LOG_HEADER_SIZE;
	int rc = read_bytes(s, segment, SEGMENT_MOST);
	if (rc)
		return rc;
	if (!enter(s, segment, end, &base)) {
		unsigned behind = count_behind(s, segment, *end, &witness);
		if (behind)
			tell(s, segment->path, *end,
			    "the first record of the log segment is damaged; "
			    "%u records behind it are left out",
			    behind);
		return behind ? CAIRN_END : 0;
	}
	rc = read_records(s, segment, base, end);
	if (rc)
		return rc;
	unsigned behind = count_behind(s, segment, *end, &witness);
	if (!witness)
		return 0;
	tell(s, segment->path, *end,
	    "the log is damaged here: operations from sequence %" PRIu64 " on are lost, "
	    "%u records that can be read behind it among them; "
	    "older values of their keys may be out of date or deleted",
	    s->last + 1, behind);
	return CAIRN_END;
}

/* ---------------------------------------------------------------- the order of segments */

static bool follows(const struct found *segment, const struct found *previous)
{
	return segment->header.previous_number == previous->header.number &&
	       segment->header.previous_salt == previous->header.salt;
}

/* The one segment with a LINK that follows, or NULL: of two it cannot be told which is right. */
static struct found *next_segment(struct salvager *s, const struct found *segment)
{
	struct found *next = NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct found *candidate = &s->segments[i];
		if (candidate->used || !candidate->linked || !follows(candidate, segment))
			continue;
		if (next)
			return NULL;
		next = candidate;
	}
	return next;
}

/* What is wrong between the end of a segment and the one behind it, which may be NULL. */
static bool tell_end(
    struct salvager *s, const struct found *segment, uint64_t end, const struct found *next)
{
	if (next && next->link.previous_end != end)
		tell(s, segment->path, end,
		    "the log segment ends here, but records up to offset %" PRIu64
		    " were written; operations from sequence %" PRIu64 " on are lost",
		    next->link.previous_end, s->last + 1);
	else if (!next && cairn_log_position(segment->header.ordinal, end) < s->call->start.durable)
		tell(s, segment->path, end,
		    "the log ends here, but more of it had been made durable; "
		    "operations from sequence %" PRIu64 " on are lost",
		    s->last + 1);
	else
		return false;
	return true;
}

/* From the segment `head` on to the first damage. */
static int read_chain(struct salvager *s, struct found *head)
{
	int rc = 0;
	for (struct found *segment = head; segment && !rc;) {
		uint64_t end;
		segment->used = true;
		rc = read_segment(s, segment, &end);
		cairn_buffer_release(&segment->bytes);
		struct found *next = rc ? NULL : next_segment(s, segment);
		if (!rc && tell_end(s, segment, end, next))
			rc = CAIRN_END;
		segment = next;
	}
	return rc == CAIRN_END ? 0 : rc;
}

/* ---------------------------------------------------------------- where the log begins */

static struct found *named_segment(struct salvager *s)
{
	const struct cairn_log_start *start = &s->call->start;
	for (size_t i = 0; i < s->count; i++)
		if (s->segments[i].header.number == start->number &&
		    s->segments[i].header.salt == start->salt)
			return &s->segments[i];
	tell(s, s->call->directory, 0,
	    "log segment %06" PRIu64 ".wal, where the log begins, is missing: "
	    "operations from sequence %" PRIu64 " on are lost, "
	    "and older values of their keys may be out of date or deleted",
	    start->number, s->last + 1);
	return NULL;
}

static int ignore_record(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	(void)context;
	(void)first_sequence;
	(void)count;
	(void)body;
	return 0;
}

static void ignore_loss(void *context, const char *path, uint64_t offset, const char *text)
{
	(void)context;
	(void)path;
	(void)offset;
	(void)text;
}

/* The sequence up to which the chain that begins there can be read. */
static int find_reach(struct salvager *s, struct found *head, uint64_t *reach)
{
	struct cairn_log_salvage call = *s->call;
	struct salvager probe = *s;
	call.apply = ignore_record;
	call.lost = ignore_loss;
	probe.call = &call;
	skip_gap(&probe, head);
	int rc = read_chain(&probe, head);
	*reach = probe.last;
	for (size_t i = 0; i < s->count; i++)
		s->segments[i].used = false;
	return rc;
}

/*
 * Without a manifest: the segment whose chain reaches farthest without a gap behind the runs, so
 * that it does not matter what became of segments whose operations are in runs. Of equal ones the
 * newest, which a recovery made of the other. If all leave a gap, the one that leaves the smallest.
 * None when there is nothing that is not in runs.
 */
static int likeliest_segment(struct salvager *s, struct found **likeliest)
{
	uint64_t best_gap = 0, best_reach = 0;
	struct found *best = NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct found *head = &s->segments[i];
		uint64_t reach;
		if (!head->linked)
			continue;
		int rc = find_reach(s, head, &reach);
		if (rc)
			return rc;
		if (reach <= s->last)
			continue;
		uint64_t gap = head->link.base > s->last ? head->link.base - s->last : 0;
		bool newer = best && head->header.number > best->header.number;
		if (!best || gap < best_gap ||
		    (gap == best_gap && (reach > best_reach || (reach == best_reach && newer)))) {
			best = head;
			best_gap = gap;
			best_reach = reach;
		}
	}
	*likeliest = best;
	return 0;
}

/* ---------------------------------------------------------------- a log that is sound */

/* As replay finds it: torn tails and all. */
static int replay(
    struct salvager *s, const struct found *head, struct cairn_log_replay *replay, uint64_t *last)
{
	struct cairn_log_summary summary;
	replay->directory = s->call->directory;
	replay->start = s->call->start;
	if (!s->call->manifest) {
		replay->start.number = head->header.number;
		replay->start.salt = head->header.salt;
		replay->start.ordinal = head->header.ordinal;
		replay->start.sequence = s->last;
	}
	int rc = cairn_log_read(s->io, replay, &summary);
	*last = summary.last_sequence;
	return rc;
}

/* All that follows `head` belongs to the log, also what is behind a torn tail. With a manifest
 * nothing else does. */
static void mark_used(struct salvager *s, struct found *head)
{
	head->used = true;
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < s->count; i++) {
			struct found *segment = &s->segments[i];
			bool used = s->call->manifest;
			for (size_t k = 0; k < s->count && !used; k++)
				used = s->segments[k].used && follows(segment, &s->segments[k]);
			more = more || (used && !segment->used);
			segment->used = segment->used || used;
		}
	}
}

static void note_cause(struct salvager *s)
{
	size_t size = cairn_error_path_size();
	s->cause_path = size ? strndup(cairn_error_text(), size) : NULL;
	s->cause_offset = cairn_error_offset();
	snprintf(s->cause, sizeof s->cause, "%s", cairn_error_cause());
}

/* *sound says whether nothing was wrong; then all of it was applied. */
static int read_if_sound(struct salvager *s, struct found *head, bool *sound)
{
	uint64_t last;
	struct cairn_log_replay check = {.apply = ignore_record};
	struct cairn_log_replay apply = {.apply = s->call->apply, .context = s->call->context};
	int rc = replay(s, head, &check, &last);
	*sound = rc == 0;
	if (rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED || rc == CAIRN_CONFLICT) {
		note_cause(s);
		return 0;
	}
	if (!rc)
		rc = replay(s, head, &apply, &last);
	s->last = last;
	mark_used(s, head);
	return rc;
}

/* ---------------------------------------------------------------- all of it */

static int read_log(struct salvager *s, struct found *head)
{
	bool sound = false;
	skip_gap(s, head);
	int rc = read_if_sound(s, head, &sound);
	return rc || sound ? rc : read_chain(s, head);
}

static int tell_unused(struct salvager *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct found *segment = &s->segments[i];
		bool witness;
		if (segment->used)
			continue;
		int rc = read_bytes(s, segment, SEGMENT_MOST);
		unsigned count = rc ? 0 : count_behind(s, segment, CAIRN_LOG_HEADER_SIZE, &witness);
		cairn_buffer_release(&segment->bytes);
		if (rc)
			return rc;
		if (count)
			tell(s, segment->path, CAIRN_LOG_HEADER_SIZE,
			    "%u records of this log segment are lost: what comes before them is "
			    "missing or damaged; older values of their keys may be out of date or "
			    "deleted",
			    count);
	}
	return 0;
}

static int salvage_log(struct salvager *s)
{
	struct found *head = NULL;
	int rc = s->io->ops->list(s->io, s->call->directory, list_one, s);
	if (!rc && s->call->manifest)
		head = named_segment(s);
	else if (!rc)
		rc = likeliest_segment(s, &head);
	if (!rc && head)
		rc = read_log(s, head);
	if (!rc)
		rc = tell_unused(s);
	/* Reading it as far as it goes did not come upon what is wrong. */
	if (!rc && s->cause[0] && s->told == s->gaps)
		tell(s, s->cause_path ? s->cause_path : s->call->directory, s->cause_offset, "%s",
		    s->cause);
	return rc;
}

int cairn_log_salvage(struct cairn_io *io, const struct cairn_log_salvage *salvage, uint64_t *last)
{
	struct salvager s = {.io = io, .call = salvage, .last = salvage->start.sequence};
	int rc = 0;
	if (!salvage->manifest || salvage->start.number)
		rc = salvage_log(&s);
	*last = s.last;
	for (size_t i = 0; i < s.count; i++) {
		cairn_buffer_release(&s.segments[i].bytes);
		free(s.segments[i].path);
	}
	free(s.segments);
	free(s.cause_path);
	return rc;
}
