/*
 * tests/fuzz_log.c -- any bytes as a log of up to four segments.
 *
 * Input:
 *	byte 0   bit 0: checksums are made right; bits 1-2: segments - 1
 *	byte 1   where replay begins, in units of 8 behind the header of the first segment
 *	byte 2   the same for the durable position; bits 6-7: how many segments further
 *	byte 3   sequence up to which operations are in runs
 *	then for each segment: u8 for its header, u16 size (the last one: whatever is left), bytes
 *
 * As they are, the bytes are the file. With right checksums the header is made up, from the byte
 * before the size, and the bytes are records: sizes are bent to what is there, types to those
 * that exist, and then all three kinds of checksum are computed.
 */
#include <string.h>

#include "format/checksum.h"
#include "format/filename.h"
#include "tests/fuzz.h"
#include "tests/sim_io.h"
#include "wal/log_reader.h"

#define SEGMENTS_MOST 4u
#define UNITS_MOST    64u

/* Of the log in tests/golden, which is one of the seeds. */
static const struct cairn_identity identity = {
    .store_id = "example store id", .hash_seed = UINT64_C(0x1122334455667788)};
#define SALT UINT64_C(0x0102030405060702)

/* ---------------------------------------------------------------- making the segments */

static void mend_operations(uint8_t *body, size_t size)
{
	struct cairn_input in = cairn_input_of(body, size);
	struct cairn_record operation;
	while (cairn_log_operation_next(&in, &operation) == 0) {
		uint64_t hash = cairn_key_hash(operation.key, identity.hash_seed);
		uint8_t *checksum = body + ((const uint8_t *)operation.key.data - body) - 4;
		cairn_put32(checksum, cairn_record_checksum(hash, operation.kind, operation.value));
	}
}

static void mend_records(uint8_t *bytes, size_t size, uint64_t salt)
{
	size_t at = CAIRN_LOG_HEADER_SIZE;
	while (at + 24 <= size) {
		uint8_t *record = bytes + at;
		uint32_t word = cairn_get32(record + 8);
		size_t units = 3 + (word & 0xfffffff) % UNITS_MOST, left = (size - at) / 8;
		units = units < left ? units : left;
		uint32_t type = word >> 28 & 3;
		if (type == 0)
			break; /* garbage from here on */
		cairn_put32(record + 8, (uint32_t)units | type << 28);
		if (type == CAIRN_LOG_WRITE)
			mend_operations(record + 20, units * 8 - 20);
		cairn_put32(record + 4, cairn_checksum(record + 20, units * 8 - 20, ~(salt + at)));
		cairn_put32(record, cairn_checksum(record + 4, 16, salt + at));
		at += units * 8;
	}
}

/* Bits 0-1 of `choice`: the predecessor is the segment before, none, the one before that, or one
 * that is not there. */
static uint8_t *make_segment(const uint8_t *data, size_t *size, uint64_t number, unsigned choice)
{
	const uint64_t previous[] = {number - 1, 0, number - 2, number + 100};
	uint64_t before = number == 1 ? 0 : previous[choice & 3];
	struct cairn_log_segment_header header = {
	    .identity = identity,
	    .number = number,
	    .ordinal = before ? before + 1 : 1,
	    .salt = SALT + number - 1,
	    .previous_number = before,
	    .previous_salt = before ? SALT + before - 1 : 0,
	};
	uint8_t *bytes = malloc(CAIRN_LOG_HEADER_SIZE + *size);
	FUZZ_CHECK(bytes);
	cairn_log_segment_header_encode(&header, bytes);
	if (*size)
		memcpy(bytes + CAIRN_LOG_HEADER_SIZE, data, *size);
	*size += CAIRN_LOG_HEADER_SIZE;
	mend_records(bytes, *size, header.salt);
	return bytes;
}

static void put_segments(struct sim_disk *disk, struct cairn_input *in, unsigned choices)
{
	unsigned count = 1 + (choices >> 1) % SEGMENTS_MOST;
	for (unsigned i = 1; i <= count; i++) {
		unsigned choice = cairn_input8(in);
		size_t size = cairn_input16(in), left = cairn_input_left(in);
		size = i == count || size > left ? left : size;
		const uint8_t *data = cairn_input_bytes(in, size);
		uint8_t *made = choices & 1 && data ? make_segment(data, &size, i, choice) : NULL;
		char *path = cairn_filename("/store", CAIRN_FILE_LOG, i);
		FUZZ_CHECK(path);
		sim_disk_put(disk, path, made ? made : data, data ? size : 0);
		free(path);
		free(made);
	}
}

/* ---------------------------------------------------------------- reading them */

struct replayed {
	uint64_t flushed; /* sequence */
	uint64_t last;    /* 0: nothing yet */
	uint64_t hash;
};

/* Operations come in order, without gaps, and make sense. */
static int apply(void *context, uint64_t first, uint32_t count, cairn_slice body)
{
	struct replayed *replayed = context;
	struct cairn_input in = cairn_input_of(body.data, body.size);
	struct cairn_record operation;
	FUZZ_CHECK(replayed->last ? first == replayed->last + 1 : first <= replayed->flushed + 1);
	for (uint32_t i = 0; i < count; i++) {
		FUZZ_CHECK(cairn_log_operation_next(&in, &operation) == 0);
		replayed->hash =
		    cairn_record_checksum(replayed->hash, operation.kind, operation.key);
	}
	FUZZ_CHECK(count > 0 && cairn_log_operation_next(&in, &operation) == CAIRN_END);
	replayed->last = first + count - 1;
	FUZZ_CHECK(replayed->last > replayed->flushed);
	return 0;
}

static int read_log(struct sim_disk *disk, const struct cairn_log_start *start,
    struct replayed *replayed, struct cairn_log_summary *summary)
{
	struct cairn_log_replay replay = {
	    .directory = "/store", .start = *start, .apply = apply, .context = replayed};
	*replayed = (struct replayed){.flushed = start->sequence};
	int rc = cairn_log_read(sim_disk_io(disk), &replay, summary);
	FUZZ_CHECK(rc == 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
	FUZZ_CHECK(rc == 0 || strstr(cairn_error_text(), "/store"));
	FUZZ_CHECK(sim_disk_open_count(disk) == 0);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cairn_input in = cairn_input_of(data, size);
	unsigned choices = cairn_input8(&in), position = cairn_input8(&in);
	unsigned durable = cairn_input8(&in), sequence = cairn_input8(&in);
	struct cairn_log_start start = {
	    .identity = identity,
	    .number = 1,
	    .salt = SALT,
	    .ordinal = 1,
	    .position = cairn_log_position(1, CAIRN_LOG_HEADER_SIZE + UINT64_C(8) * position),
	    .durable = cairn_log_position(
		1 + durable / 64, CAIRN_LOG_HEADER_SIZE + UINT64_C(8) * (durable % 64)),
	    .sequence = sequence,
	};
	struct sim_disk *disk = sim_disk_new(1);
	struct cairn_io *io = sim_disk_io(disk);
	struct replayed first, second;
	struct cairn_log_summary summary, again;
	FUZZ_CHECK(io->ops->make_directory(io, "/store") == 0);
	put_segments(disk, &in, choices);
	int rc = read_log(disk, &start, &first, &summary);
	FUZZ_CHECK(read_log(disk, &start, &second, &again) == rc);
	FUZZ_CHECK(first.hash == second.hash && first.last == second.last);
	FUZZ_CHECK(memcmp(&summary, &again, sizeof summary) == 0);
	FUZZ_CHECK(summary.last_sequence >= start.sequence && summary.last_sequence >= first.last);
	/* What the manifest says was durable is there, or else that is said. */
	FUZZ_CHECK(rc != 0 || summary.end >= start.durable);
	sim_disk_free(disk);
	return 0;
}
