/*
 * wal/log_salvage.c -- see log_salvage.h.
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

/* One segment whose header checks out. */
struct found {
	char *path;
	struct cairn_log_segment_header header;
	struct cairn_buffer bytes; /* the whole file, while it is read */
	bool used;
};

struct salvager {
	struct cairn_io *io;
	const struct cairn_log_salvage *call;
	struct found *segments;
	size_t count, capacity;
	uint64_t last; /* sequence of the last operation that is in runs, or was read */
	int rc;        /* of the listing */
};

__attribute__((format(printf, 4, 5))) static void tell(
    struct salvager *s, const char *path, uint64_t offset, const char *format, ...)
{
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	s->call->lost(s->call->context, path, offset, text);
}

static int out_of_memory(const char *path)
{
	return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "no memory to read the log");
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
	size_t size = (size_t)(status.size < most ? status.size : most), done = 0;
	segment->bytes.size = 0;
	if (!rc && cairn_buffer_reserve(&segment->bytes, size ? size : 1))
		rc = out_of_memory(segment->path);
	if (!rc)
		rc = s->io->ops->read(file, segment->bytes.data, size, 0, &done);
	segment->bytes.size = done;
	s->io->ops->close(file);
	return rc;
}

static bool same_store(const struct cairn_identity *a, const struct cairn_identity *b)
{
	return memcmp(a->store_id, b->store_id, sizeof a->store_id) == 0 &&
	       a->hash_seed == b->hash_seed;
}

/* Whether the file is a segment of this store; says so when it is not. */
static bool is_segment(struct salvager *s, struct found *segment, uint64_t number)
{
	if (segment->bytes.size < CAIRN_LOG_HEADER_SIZE)
		tell(s, segment->path, segment->bytes.size,
		    "the log segment ends inside of its header; it is left out");
	else if (cairn_log_segment_header_decode(
		     &segment->header, segment->bytes.data, segment->path))
		tell(s, segment->path, 0,
		    "the header of the log segment is damaged; it is left out");
	else if (!same_store(&segment->header.identity, &s->call->start.identity))
		tell(s, segment->path, 16,
		    "the log segment belongs to another store; it is left out");
	else if (segment->header.number != number)
		tell(s, segment->path, 48, "the file was log segment %" PRIu64 "; it is left out",
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
	struct found *segment = &s->segments[s->count];
	*segment =
	    (struct found){.path = cairn_filename(s->call->directory, CAIRN_FILE_LOG, number)};
	int rc = segment->path ? read_bytes(s, segment, CAIRN_LOG_HEADER_SIZE)
			       : out_of_memory(s->call->directory);
	bool taken = !rc && is_segment(s, segment, number);
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
	if (cairn_filename_parse(name, &number) == CAIRN_FILE_LOG &&
	    number >= s->call->start.number)
		s->rc = add_segment(s, number);
	return s->rc;
}

/* ---------------------------------------------------------------- the order of segments */

static bool follows(const struct found *segment, const struct found *previous)
{
	return segment->header.previous_number == previous->header.number &&
	       segment->header.previous_salt == previous->header.salt;
}

static bool has_predecessor(const struct salvager *s, const struct found *segment)
{
	for (size_t i = 0; i < s->count; i++)
		if (follows(segment, &s->segments[i]))
			return true;
	return false;
}

/* The segment that the manifest names, or without one the oldest of the latest log: the first of
 * those that follow nothing, by the highest number. NULL when there is none. */
static struct found *first_segment(struct salvager *s)
{
	const struct cairn_log_start *start = &s->call->start;
	struct found *first = NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct found *segment = &s->segments[i];
		if (s->call->manifest) {
			if (segment->header.number == start->number &&
			    segment->header.salt == start->salt)
				return segment;
		} else if (!has_predecessor(s, segment) &&
			   (!first || segment->header.number > first->header.number)) {
			first = segment;
		}
	}
	return first;
}

/* ---------------------------------------------------------------- reading one */

static bool read_record(
    const struct found *segment, uint64_t offset, struct cairn_log_record *record)
{
	struct cairn_log_place place = {segment->header.salt, segment->header.ordinal, offset};
	size_t left = segment->bytes.size > offset ? segment->bytes.size - (size_t)offset : 0;
	return left >= CAIRN_LOG_RECORD_HEADER &&
	       cairn_log_record_peek(record, segment->bytes.data + offset, left, &place) &&
	       cairn_log_record_check(record, &place);
}

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

/* Takes over a WRITE record: 0, CAIRN_END when it is not the next one, or what apply returned. */
static int take(struct salvager *s, uint64_t base, const struct cairn_log_record *record)
{
	uint64_t first = base + record->sequence_delta;
	cairn_slice body = {record->body, record->body_size};
	uint32_t count = count_operations(s, body);
	if (count == 0 || first > s->last + 1)
		return CAIRN_END;
	uint64_t end = first + count - 1;
	if (end <= s->call->start.sequence || end <= s->last)
		return 0; /* in runs */
	int rc = s->call->apply(s->call->context, first, count, body);
	if (!rc)
		s->last = end;
	return rc;
}

/*
 * How many writes of this segment can be read behind `offset`, which are left out. With *witness
 * set to whether one of them proves that what stands at `offset` had been made durable: only then
 * is it damage, else the tail of a crash (log_reader.h).
 */
static unsigned count_behind(const struct found *segment, uint64_t offset, bool *witness)
{
	uint64_t ordinal = segment->header.ordinal, missing = cairn_log_position(ordinal, offset);
	struct cairn_log_record record;
	unsigned count = 0;
	*witness = false;
	while (offset < segment->bytes.size) {
		bool whole = read_record(segment, offset, &record);
		count += whole && record.type == CAIRN_LOG_WRITE;
		if (whole && record.durable > missing &&
		    record.durable <= cairn_log_position(ordinal, offset))
			*witness = true;
		offset += whole ? record.size : 8;
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
	struct cairn_segment_link link;
	*offset = CAIRN_LOG_HEADER_SIZE;
	if (s->call->manifest && cairn_log_position_ordinal(position) == segment->header.ordinal &&
	    cairn_log_position_offset(position) > *offset)
		*offset = cairn_log_position_offset(position);
	if (read_record(segment, CAIRN_LOG_HEADER_SIZE, &record) &&
	    cairn_segment_link_get(&record, &link)) {
		*base = link.base;
		return true;
	}
	/* The manifest knows which operation stands where it tells to begin. */
	if (*offset == CAIRN_LOG_HEADER_SIZE || !read_record(segment, *offset, &record) ||
	    record.type != CAIRN_LOG_WRITE)
		return false;
	*base = start->sequence + 1 - record.sequence_delta;
	return true;
}

/* Without a manifest a log may begin behind the last run that is left. */
static void skip_gap(struct salvager *s, const struct found *segment, uint64_t base)
{
	if (s->call->manifest || base <= s->last || s->last != s->call->start.sequence)
		return;
	tell(s, segment->path, CAIRN_LOG_HEADER_SIZE,
	    "operations %" PRIu64 " to %" PRIu64
	    " are in no run and no log; older values of their keys may be out of date",
	    s->last + 1, base);
	s->last = base;
}

/* Reads a segment to its end. *end is where its last record in order ends; 0, CAIRN_END when there
 * is damage, or a failure. */
static int read_segment(struct salvager *s, struct found *segment, uint64_t *end)
{
	struct cairn_log_record record;
	uint64_t base;
	bool witness;
	*end = CAIRN_LOG_HEADER_SIZE;
	int rc = read_bytes(s, segment, UINT64_MAX);
	if (rc)
		return rc;
	if (!enter(s, segment, end, &base)) {
		unsigned behind = count_behind(segment, *end, &witness);
		if (behind)
			tell(s, segment->path, *end,
			    "the first record of the log segment is damaged; %u behind it are "
			    "left out",
			    behind);
		return behind ? CAIRN_END : 0;
	}
	skip_gap(s, segment, base);
	while (!rc && read_record(segment, *end, &record)) {
		if (record.type == CAIRN_LOG_WRITE)
			rc = take(s, base, &record);
		if (!rc)
			*end += record.size;
	}
	if (rc && rc != CAIRN_END)
		return rc;
	unsigned behind = count_behind(segment, *end, &witness);
	if (!witness)
		return 0;
	tell(s, segment->path, *end,
	    "the log is damaged here; what stood here is lost, and %u records behind are left out",
	    behind);
	return CAIRN_END;
}

/* ---------------------------------------------------------------- reading all */

/* The segment with a LINK that follows; its predecessor's end as it says. NULL: none. */
static struct found *next_segment(struct salvager *s, const struct found *segment, uint64_t *end)
{
	for (size_t i = 0; i < s->count; i++) {
		struct found *next = &s->segments[i];
		struct cairn_log_record record;
		struct cairn_segment_link link;
		if (!follows(next, segment) || read_bytes(s, next, CAIRN_SEGMENT_FIRST))
			continue;
		bool linked = read_record(next, CAIRN_LOG_HEADER_SIZE, &record) &&
			      cairn_segment_link_get(&record, &link);
		cairn_buffer_release(&next->bytes);
		if (linked) {
			*end = link.previous_end;
			return next;
		}
	}
	return NULL;
}

static void tell_unused(struct salvager *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct found *segment = &s->segments[i];
		if (segment->used || read_bytes(s, segment, UINT64_MAX))
			continue;
		bool witness;
		unsigned count = count_behind(segment, CAIRN_LOG_HEADER_SIZE, &witness);
		if (count)
			tell(s, segment->path, CAIRN_LOG_HEADER_SIZE,
			    "nothing leads to this log segment; %u records in it are left out",
			    count);
		cairn_buffer_release(&segment->bytes);
	}
}

static int read_chain(struct salvager *s)
{
	const struct cairn_log_start *start = &s->call->start;
	struct found *segment = first_segment(s);
	if (!segment && s->call->manifest && start->number)
		tell(s, s->call->directory, 0,
		    "log segment %06" PRIu64 ".wal, where the log begins, is missing",
		    start->number);
	int rc = 0;
	while (segment && !rc) {
		uint64_t end, linked_end;
		segment->used = true;
		rc = read_segment(s, segment, &end);
		struct found *next = rc ? NULL : next_segment(s, segment, &linked_end);
		if (next && linked_end != end) {
			tell(s, segment->path, end,
			    "the log segment ends here, but records up to offset %" PRIu64
			    " were written; what follows is left out",
			    linked_end);
			rc = CAIRN_END;
		}
		uint64_t durable = start->durable, at = segment->header.ordinal;
		if (!next && !rc && cairn_log_position(at, end) < durable) {
			tell(s, segment->path, end,
			    "the log ends here, but more of it had been made durable");
			rc = CAIRN_END;
		}
		cairn_buffer_release(&segment->bytes);
		segment = next;
	}
	return rc == CAIRN_END ? 0 : rc;
}

int cairn_log_salvage(struct cairn_io *io, const struct cairn_log_salvage *salvage, uint64_t *last)
{
	struct salvager s = {.io = io, .call = salvage, .last = salvage->start.sequence};
	int rc = 0;
	if (!salvage->manifest || salvage->start.number)
		rc = io->ops->list(io, salvage->directory, list_one, &s);
	if (!rc)
		rc = read_chain(&s);
	if (!rc)
		tell_unused(&s);
	*last = s.last;
	for (size_t i = 0; i < s.count; i++) {
		cairn_buffer_release(&s.segments[i].bytes);
		free(s.segments[i].path);
	}
	free(s.segments);
	return rc;
}
