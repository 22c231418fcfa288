/*
 * tests/fuzz_run.c -- any bytes as a `.kv` file.
 *
 * Input: a byte of which bit 0 says that all checksums are to be made right, from those of records
 * up to that of the footer, so that what is behind them is reached, and bit 1 that the file is to
 * say of itself that it is a frozen table; then the file.
 *
 * Whatever the bytes are, every call comes to an end and answers one of its codes. When verify
 * finds nothing, the file is as good as any: then all reads succeed and agree.
 */
#include <string.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/kv02_block.h"
#include "format/run_reader.h"
#include "store/table.h"
#include "tests/forge.h"
#include "tests/fuzz.h"
#include "tests/sim_io.h"

#define PATH        "/000003.kv"
#define HEADER_SIZE 128u
#define FOOTER_SIZE 512u

/* ---------------------------------------------------------------- right checksums */

static void mend_records(const struct cairn_kv02_block *block, uint8_t *bytes, uint64_t seed)
{
	uint8_t *values = bytes + (block->values - block->data);
	for (unsigned i = 0; i < block->count; i++) {
		struct cairn_record record;
		uint32_t size = cairn_kv02_key_size(block, i);
		uint8_t *key = malloc(size ? size : 1);
		FUZZ_CHECK(key);
		cairn_kv02_key(block, i, key);
		cairn_kv02_record(block, i, &record);
		uint64_t hash = cairn_key_hash(cairn_slice_of(key, size), seed);
		cairn_put32(values + block->value_start[i + 1] - 4,
		    cairn_record_checksum(hash, record.kind, record.value));
		free(key);
	}
}

/* As far as blocks can be told. */
static void mend_blocks(uint8_t *bytes, uint64_t offset, uint64_t end)
{
	bool kinds = cairn_get32(bytes + 16) & CAIRN_RUN_KINDS;
	uint64_t seed = cairn_get64(bytes + 40);
	struct cairn_kv02_block block;
	while (offset < end && cairn_kv02_open(&block, bytes + offset, (size_t)(end - offset),
				   offset, kinds) == 0) {
		uint8_t *checksum = bytes + offset + block.key_area_size;
		cairn_put32(checksum, cairn_checksum(bytes + offset, block.key_area_size, offset));
		mend_records(&block, bytes + offset, seed);
		offset += block.size;
	}
}

static void mend(uint8_t *bytes, size_t size)
{
	if (size < HEADER_SIZE + FOOTER_SIZE)
		return;
	for (unsigned i = 0; i < 12; i++) {
		const uint8_t *extent = bytes + size - FOOTER_SIZE + 96 + (size_t)i * 24;
		uint64_t offset = cairn_get64(extent + 8), length = cairn_get64(extent + 16);
		uint64_t most = size - FOOTER_SIZE;
		if (cairn_get32(extent) == CAIRN_SECTION_BLOCKS && offset <= most &&
		    length <= most - offset)
			mend_blocks(bytes, offset, offset + length);
	}
	forge_run(bytes, size);
}

static void make_table(uint8_t *bytes, size_t size)
{
	if (size < HEADER_SIZE + FOOTER_SIZE)
		return;
	uint8_t *footer = bytes + size - FOOTER_SIZE;
	cairn_put64(bytes + 48, CAIRN_TABLE_NUMBER);
	cairn_put64(footer + 24, CAIRN_TABLE_NUMBER);
	cairn_put32(footer + FOOTER_SIZE - 4, cairn_checksum(footer, FOOTER_SIZE - 4, 0));
	cairn_put32(bytes + HEADER_SIZE - 4, cairn_checksum(bytes, HEADER_SIZE - 4, 0));
}

/* ---------------------------------------------------------------- reading */

static bool is_answer(int rc)
{
	return rc == 0 || rc == CAIRN_NOT_FOUND || rc == CAIRN_CORRUPT;
}

static int get(struct cairn_run_reader *run, cairn_slice key, struct cairn_record *record)
{
	uint64_t hash = cairn_key_hash(key, cairn_run_header(run)->identity.hash_seed);
	int rc = cairn_run_get(run, key, hash, record);
	FUZZ_CHECK(is_answer(rc));
	return rc;
}

/* The record under the cursor. */
static void read_record(struct cairn_run_reader *run, struct cairn_cursor *cursor, bool good)
{
	struct cairn_record record, again;
	int rc = cairn_cursor_record(cursor, &record);
	int found = get(run, cursor->key, &again);
	FUZZ_CHECK(rc == 0 || rc == CAIRN_CORRUPT);
	FUZZ_CHECK(!good || (rc == 0 && found == 0));
	if (good)
		FUZZ_CHECK(again.kind == record.kind && again.checksum == record.checksum &&
			   again.value.data == record.value.data &&
			   again.value.size == record.value.size);
}

/* All of it in one direction; *count records. */
static void scan(struct cairn_run_reader *run, bool forwards, bool good, uint64_t *count)
{
	struct cairn_cursor *cursor;
	struct cairn_buffer before = {0};
	FUZZ_CHECK(cairn_run_cursor_open(run, CAIRN_ADVISE_SEQUENTIAL, &cursor) == 0);
	int rc = forwards ? cairn_cursor_first(cursor) : cairn_cursor_last(cursor);
	for (*count = 0; rc == 0; ++*count) {
		/* A record takes 8 bytes of the file and more, but blocks can be named twice. */
		FUZZ_CHECK(*count < cairn_run_size(run) * CAIRN_BLOCK_RECORDS);
		read_record(run, cursor, good);
		cairn_slice last = cairn_slice_of(before.data, before.size);
		int order = cairn_key_compare(last, cursor->key);
		FUZZ_CHECK(!good || *count == 0 || (forwards ? order < 0 : order > 0));
		before.size = 0;
		FUZZ_CHECK(cairn_buffer_append(&before, cursor->key.data, cursor->key.size) == 0);
		rc = forwards ? cairn_cursor_next(cursor) : cairn_cursor_prev(cursor);
	}
	FUZZ_CHECK(rc == CAIRN_END || (rc == CAIRN_CORRUPT && !good));
	cairn_buffer_release(&before);
	cairn_cursor_close(cursor);
}

/* A key of the file or close to one, by get and by seek. */
static void look_up(struct cairn_run_reader *run, cairn_slice key, bool good)
{
	struct cairn_record record;
	struct cairn_cursor *cursor;
	int found = get(run, key, &record);
	FUZZ_CHECK(cairn_run_cursor_open(run, CAIRN_ADVISE_RANDOM, &cursor) == 0);
	int rc = cairn_cursor_seek(cursor, key);
	FUZZ_CHECK(rc == 0 || rc == CAIRN_END || rc == CAIRN_CORRUPT);
	if (good && rc == 0)
		FUZZ_CHECK((found == 0) == cairn_key_equal(cursor->key, key) &&
			   cairn_key_compare(cursor->key, key) >= 0);
	FUZZ_CHECK(!good || (found != CAIRN_CORRUPT && rc != CAIRN_CORRUPT));
	cairn_cursor_close(cursor);
}

static void look_up_near(struct cairn_run_reader *run, cairn_slice key, bool good)
{
	uint8_t *bytes = fuzz_copy(key.data, key.size);
	look_up(run, key, good);
	for (size_t i = 0; i < key.size && i < 16; i++) {
		bytes[i] ^= 1;
		look_up(run, cairn_slice_of(bytes, i + 1), good);
		look_up(run, cairn_slice_of(bytes, key.size), good);
	}
	free(bytes);
}

/* Whether verify finds nothing. */
static bool read_run(struct cairn_run_reader *run)
{
	int rc = cairn_run_verify(run, NULL, NULL);
	uint64_t up, down, offset;
	FUZZ_CHECK(rc == 0 || rc == CAIRN_CORRUPT);
	bool good = rc == 0;
	scan(run, true, good, &up);
	scan(run, false, good, &down);
	FUZZ_CHECK(!good || (up == down && up == cairn_run_footer(run)->records));
	look_up_near(run, cairn_run_first_key(run), good);
	look_up_near(run, cairn_run_last_key(run), good);
	rc = cairn_run_block_offset(run, cairn_run_footer(run)->blocks - 1, &offset);
	FUZZ_CHECK(rc == 0 ? offset < cairn_run_size(run) : rc == CAIRN_CORRUPT && !good);
	return good;
}

/* All of it in order, each record also by get. */
static void scan_table(cairn_table *table, uint64_t most, bool good)
{
	cairn_iter *iter;
	uint64_t count = 0;
	FUZZ_CHECK(cairn_table_iter_open(table, NULL, &iter) == 0);
	int rc = cairn_iter_first(iter);
	for (; rc == 0; rc = cairn_iter_next(iter), count++) {
		FUZZ_CHECK(count < most);
		cairn_slice value = cairn_iter_value(iter), found;
		int got = cairn_table_get(table, cairn_iter_key(iter), &found);
		FUZZ_CHECK(is_answer(got) && (got == 0) == (found.data != NULL));
		FUZZ_CHECK(!good || (got == 0 && value.data && found.size == value.size &&
					(value.size == 0 || found.data == value.data)));
	}
	FUZZ_CHECK(rc == CAIRN_END || (rc == CAIRN_CORRUPT && !good));
	FUZZ_CHECK(!good || count == cairn_table_count(table));
	cairn_iter_close(iter);
}

static void read_table(struct cairn_io *io, const struct cairn_run_reader *run, bool good)
{
	cairn_table *table;
	bool is_table = cairn_run_header(run)->number == CAIRN_TABLE_NUMBER;
	int rc = cairn_table_open_with(io, PATH, &table);
	FUZZ_CHECK(rc == (is_table ? 0 : CAIRN_INVALID));
	if (is_table)
		scan_table(table, cairn_run_size(run) * CAIRN_BLOCK_RECORDS, good);
	FUZZ_CHECK(cairn_table_close(table) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	uint8_t *bytes = fuzz_copy(data + 1, --size);
	if (data[0] & 1)
		mend(bytes, size);
	if (data[0] & 2)
		make_table(bytes, size);
	struct sim_disk *disk = sim_disk_new(1);
	struct cairn_run_reader *run;
	sim_disk_put(disk, PATH, bytes, size);
	int rc = cairn_run_open(sim_disk_io(disk), PATH, NULL, &run);
	FUZZ_CHECK(rc == 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
	if (rc == 0)
		read_table(sim_disk_io(disk), run, read_run(run));
	else
		FUZZ_CHECK(strstr(cairn_error_text(), PATH ": at offset "));
	cairn_run_close(run);
	FUZZ_CHECK(sim_disk_open_count(disk) == 0);
	sim_disk_free(disk);
	free(bytes);
	return 0;
}
