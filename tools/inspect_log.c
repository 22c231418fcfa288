/*
 * tools/inspect_log.c -- what a segment of the log says.
 *
 * The records are followed from the first one as a replay follows them (wal/log_reader.h), but with
 * this one file alone: what later segments or the manifest vouch for is not known here.
 */
#include <inttypes.h>

#include "format/checksum.h"
#include "format/log_record.h"
#include "tools/inspect.h"

struct log {
	struct cairn_inspection *inspection;
	struct cairn_log_segment_header header;
	uint64_t offset; /* of the next record */
	uint64_t records;
	uint64_t base; /* sequence before the segment's first; known from the LINK */
	uint64_t last; /* sequence of the last operation */
};

static struct cairn_log_place place_at(const struct log *log, uint64_t offset)
{
	return (struct cairn_log_place){log->header.salt, log->header.ordinal, offset};
}

/* False when no record can be checked. */
static bool read_header(struct log *log)
{
	struct cairn_inspection *inspection = log->inspection;
	const uint8_t *bytes = inspection->bytes;
	uint8_t copy[CAIRN_LOG_HEADER_SIZE];
	const struct cairn_inspect_frame frame = {"CAIRNWAL", 16, sizeof copy, 12};
	if (inspection->size < sizeof copy) {
		cairn_inspect_problem(inspection, inspection->size, "the file ends in its header");
		return false;
	}
	uint32_t checksum = cairn_checksum(bytes + frame.from, frame.to - frame.from, 0);
	printf("header at 0, %zu bytes, checksum 0x%08" PRIx32 " %s\n", sizeof copy,
	    cairn_get32(bytes + frame.at),
	    cairn_inspect_verdict(checksum == cairn_get32(bytes + frame.at)));
	int code = cairn_log_segment_header_decode(&log->header, bytes, inspection->path);
	if (code != 0) {
		cairn_inspect_failure(inspection);
		memcpy(copy, bytes, sizeof copy);
		cairn_inspect_mend(copy, &frame);
		if (cairn_log_segment_header_decode(&log->header, copy, inspection->path) != 0)
			return false;
	}
	return true;
}

static void print_header(const struct log *log)
{
	const struct cairn_log_segment_header *header = &log->header;
	cairn_inspect_field("version", "%u", CAIRN_LOG_VERSION);
	cairn_inspect_identity(&header->identity);
	cairn_inspect_field("number", "%" PRIu64, header->number);
	cairn_inspect_field("ordinal", "%" PRIu64, header->ordinal);
	cairn_inspect_field("salt", "0x%016" PRIx64, header->salt);
	if (header->previous_number)
		cairn_inspect_field("predecessor", "%06" PRIu64 ".wal, salt 0x%016" PRIx64,
		    header->previous_number, header->previous_salt);
	else
		cairn_inspect_field("predecessor", "none");
	cairn_inspect_number(log->inspection, header->number, 48);
}

/* ---------------------------------------------------------------- records */

static void print_record(
    const struct log *log, const char *type, const struct cairn_log_record *record)
{
	printf("record at %" PRIu64 ", %s, %" PRIu64 " bytes, D ", log->offset, type, record->size);
	if (record->durable)
		printf("%" PRIu64 ":%" PRIu64, cairn_log_position_ordinal(record->durable),
		    cairn_log_position_offset(record->durable));
	else
		printf("none");
}

static void print_operation(const struct log *log, const struct cairn_record *operation, bool good)
{
	printf("  %s, value %zu bytes, checksum 0x%08" PRIx32 " %s, key ",
	    operation->kind == CAIRN_KIND_PUT ? "PUT" : "DELETE", operation->value.size,
	    operation->checksum, cairn_inspect_verdict(good));
	cairn_inspect_key(log->inspection, operation->key);
}

static uint64_t count_operations(const struct cairn_log_record *record, int *code)
{
	struct cairn_input body = cairn_input_of(record->body, record->body_size);
	struct cairn_record operation;
	uint64_t count = 0;
	while ((*code = cairn_log_operation_next(&body, &operation)) == 0)
		count++;
	return count;
}

static void check_operations(struct log *log, const struct cairn_log_record *record)
{
	struct cairn_input body = cairn_input_of(record->body, record->body_size);
	struct cairn_record operation;
	while (cairn_log_operation_next(&body, &operation) == 0) {
		uint64_t hash = cairn_key_hash(operation.key, log->header.identity.hash_seed);
		bool good = operation.checksum ==
			    cairn_record_checksum(hash, operation.kind, operation.value);
		if (log->inspection->records)
			print_operation(log, &operation, good);
		if (!good)
			cairn_inspect_problem(log->inspection, log->offset,
			    "an operation of this record fails its checksum");
	}
}

static void inspect_write(struct log *log, const struct cairn_log_record *record)
{
	int code;
	uint64_t count = count_operations(record, &code);
	uint64_t first = log->base + record->sequence_delta;
	print_record(log, "WRITE", record);
	printf(", sequences %" PRIu64 " to %" PRIu64 ", %" PRIu64 " operation%s, ok\n", first,
	    first + count - 1, count, count == 1 ? "" : "s");
	if (code != CAIRN_END || count == 0)
		cairn_inspect_problem(
		    log->inspection, log->offset, "the operations of this record make no sense");
	check_operations(log, record);
	log->last = first + count - 1;
}

static void inspect_link(struct log *log, const struct cairn_log_record *record)
{
	uint64_t previous_end = cairn_get64(record->body + 8);
	log->base = log->last = cairn_get64(record->body);
	print_record(log, "LINK", record);
	printf(", behind sequence %" PRIu64, log->base);
	if (previous_end)
		printf(", predecessor ends at %" PRIu64, previous_end);
	puts(", ok");
}

/* What keeps a record whose checksums are right from being the next one, or NULL. */
static const char *misplaced(const struct log *log, const struct cairn_log_record *record)
{
	bool first = log->offset == CAIRN_LOG_HEADER_SIZE;
	switch (record->type) {
	case CAIRN_LOG_LINK:
		if (!first || record->size != cairn_log_record_size(16))
			return "a LINK that cannot stand here";
		return NULL;
	case CAIRN_LOG_WRITE:
		if (first)
			return "a LINK belongs here";
		if (log->base + record->sequence_delta != log->last + 1)
			return "its sequence is not the next one";
		return NULL;
	case CAIRN_LOG_MARK:
		return first ? "a LINK belongs here" : NULL;
	}
	return NULL;
}

/* The size of the whole record that stands at log->offset and belongs there, or 0. */
static uint64_t inspect_record(struct log *log)
{
	struct cairn_log_record record;
	struct cairn_log_place place = place_at(log, log->offset);
	if (!cairn_log_record_peek(&record, log->inspection->bytes + log->offset,
		log->inspection->size - (size_t)log->offset, &place) ||
	    !cairn_log_record_check(&record, &place))
		return 0;
	const char *wrong = misplaced(log, &record);
	if (wrong) {
		cairn_inspect_problem(
		    log->inspection, log->offset, "a whole record, but: %s", wrong);
		return 0;
	}
	switch (record.type) {
	case CAIRN_LOG_LINK:
		inspect_link(log, &record);
		break;
	case CAIRN_LOG_WRITE:
		inspect_write(log, &record);
		break;
	case CAIRN_LOG_MARK:
		print_record(log, "MARK", &record);
		puts(", ok");
		break;
	}
	return record.size;
}

/* ---------------------------------------------------------------- behind the records */

/* Whether the record vouches for what stood at log->offset. */
static bool is_witness(const struct log *log, const struct cairn_log_record *record,
    const struct cairn_log_place *place)
{
	return record->durable > cairn_log_position(log->header.ordinal, log->offset) &&
	       record->durable <= cairn_log_position(log->header.ordinal, place->offset) &&
	       cairn_log_record_check(record, place);
}

/* Looks for records behind the end: they tell damage from a torn tail. */
static void look_behind(struct log *log)
{
	struct cairn_inspection *inspection = log->inspection;
	uint64_t torn = 0, size = inspection->size;
	for (uint64_t at = log->offset; at + CAIRN_LOG_RECORD_HEADER <= size; at += 8) {
		struct cairn_log_record record;
		struct cairn_log_place place = place_at(log, at);
		if (!cairn_log_record_peek(
			&record, inspection->bytes + at, (size_t)(size - at), &place))
			continue;
		torn += record.size;
		if (is_witness(log, &record, &place)) {
			cairn_inspect_problem(inspection, log->offset,
			    "no record here, but the one at %" PRIu64
			    " says that there was one on the disk",
			    at);
			return;
		}
	}
	if (torn)
		printf("behind them, the headers of %" PRIu64
		       " bytes of records are right: a write that a crash cut short\n",
		    torn);
	else if (log->offset < size)
		printf("behind them, in %" PRIu64 " bytes, there is none of this segment\n",
		    size - log->offset);
}

int cairn_inspect_log(struct cairn_inspection *inspection)
{
	struct log log = {.inspection = inspection, .offset = CAIRN_LOG_HEADER_SIZE};
	if (!read_header(&log))
		return 0;
	print_header(&log);
	for (uint64_t size; log.offset < inspection->size; log.offset += size, log.records++) {
		size = inspect_record(&log);
		if (size == 0)
			break;
	}
	printf("the records end at %" PRIu64 ": there are %" PRIu64, log.offset, log.records);
	if (log.records)
		printf(", the last sequence is %" PRIu64, log.last);
	putchar('\n');
	look_behind(&log);
	return 0;
}
