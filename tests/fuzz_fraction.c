/*
 * tests/fuzz_fraction.c -- any bytes as a `.ix` file, beside two runs that are always the same.
 *
 * Input: a byte of which bit 0 says that the checksums are to be made right, and bit 1 that the
 * file is to say that it was built on these runs; then the file.
 *
 * Whatever the bytes are, every call comes to an end and answers one of its codes. Whatever an
 * index that was opened says, the answers of the store are right: it can only send a search to a
 * block that is not the best to begin at. One that verify finds nothing in sends no search to the
 * left of the right block.
 */
#include <string.h>

#include "format/bytes.h"
#include "format/cascade.h"
#include "format/checksum.h"
#include "format/rank.h"
#include "tests/fuzz.h"
#include "tests/run_set.h"

#define PATH        "/000009.ix"
#define HEADER_SIZE 128u
#define RUNS        2u

/* Made once, and never changed but for the one file. */
static struct run_set set;
static struct cairn_cursor *cursors[RUNS];
static struct run_set_queries queries;

static size_t make_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	uint64_t number = cairn_hash(&i, sizeof i, run);
	return (size_t)snprintf((char *)key, 64, "%.*s:%04u", (int)(number % 12),
	    "long common prefix", (unsigned)(number >> 32) % 10000);
}

static void make_runs(void)
{
	static const struct run_set_spec spec = {"fuzz", make_key, {1000, 5000}, true};
	uint64_t random = 1;
	run_set_make(&set, &spec, 1);
	queries = run_set_queries(&set, 120, &random);
	for (unsigned r = 0; r < RUNS; r++)
		FUZZ_CHECK(cairn_run_cursor_open(
			       set.run[r].reader, CAIRN_ADVISE_RANDOM, &cursors[r]) == 0);
}

/* ---------------------------------------------------------------- the file */

static void put_base(uint8_t *bytes, const struct run_set_run *run)
{
	cairn_put64(bytes, run->number);
	cairn_put64(bytes + 8, run->count);
	cairn_put64(bytes + 16, run->blocks);
	cairn_put32(bytes + 24, cairn_run_footer(run->reader)->checksum);
}

static void make_beside(uint8_t *bytes, size_t size)
{
	if (size < HEADER_SIZE)
		return;
	memcpy(bytes + 24, set.identity.store_id, 16);
	cairn_put64(bytes + 40, set.identity.hash_seed);
	put_base(bytes + 56, &set.run[0]);
	put_base(bytes + 88, &set.run[1]);
}

static void mend(uint8_t *bytes, size_t size)
{
	if (size < HEADER_SIZE)
		return;
	uint64_t blocks = cairn_get64(bytes + 72), left = size - HEADER_SIZE;
	uint64_t words = blocks < size ? cairn_fraction_words_size(blocks) : UINT64_MAX;
	if (words <= left) {
		uint8_t *places = bytes + HEADER_SIZE + words;
		cairn_put32(bytes + 84, cairn_checksum(places, (size_t)(left - words), 0));
		cairn_put32(bytes + 116, cairn_checksum(bytes + HEADER_SIZE, (size_t)words, 0));
	}
	cairn_put32(bytes + 124, cairn_checksum(bytes, 124, 0));
}

/* ---------------------------------------------------------------- what it leads to */

struct windows {
	uint64_t cell;
	uint64_t end;
};

static int check_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	struct windows *windows = context;
	FUZZ_CHECK(cell == windows->cell++ && from == windows->end && to >= from);
	windows->end = to;
	return 0;
}

/* A search that begins at `aim` answers as the oracle. */
static void check_answer(unsigned r, cairn_slice key, struct cairn_run_aim aim)
{
	const struct run_set_run *run = &set.run[r];
	struct cairn_record record;
	size_t want = run_set_lower_bound(run, key);
	bool there = want < run->count && cairn_key_equal(run->key[want], key);
	FUZZ_CHECK(aim.block < run->blocks && aim.offset == run->offset[aim.block]);

	cairn_run_cursor_aim(cursors[r], aim);
	int code = cairn_cursor_seek(cursors[r], key);
	FUZZ_CHECK(code == (want < run->count ? 0 : CAIRN_END));
	if (code == 0)
		FUZZ_CHECK(cairn_cursor_record(cursors[r], &record) == 0 &&
			   run_set_is_record(run, want, &record));

	uint64_t hash = cairn_key_hash(key, set.identity.hash_seed);
	code = cairn_run_get_from(run->reader, key, hash, aim, &record);
	FUZZ_CHECK(code == (there ? 0 : CAIRN_NOT_FOUND));
	FUZZ_CHECK(!there || run_set_is_record(run, want, &record));
}

static void search(struct cairn_cascade *cascade, cairn_slice key, bool good, bool words)
{
	struct cairn_run_aim aims[RUNS], again[RUNS];
	unsigned how;
	FUZZ_CHECK(cairn_cascade_find(cascade, key, aims, &how) == 0);
	FUZZ_CHECK(words == !(how & CAIRN_CASCADE_UNINDEXED));
	for (unsigned r = 0; r < RUNS; r++) {
		check_answer(r, key, aims[r]);
		FUZZ_CHECK(!(good || r == 1 || !words) ||
			   aims[r].block >= run_set_block(&set.run[r], key));
	}
	cairn_rank_portable_only = true;
	FUZZ_CHECK(cairn_cascade_find_many(cascade, &key, 1, again) == 0);
	cairn_rank_portable_only = false;
	FUZZ_CHECK(memcmp(aims, again, sizeof aims) == 0);
}

static void use(struct cairn_fraction *index)
{
	struct cairn_run_reader *runs[RUNS] = {set.run[0].reader, set.run[1].reader};
	const struct cairn_fraction *indexes[RUNS] = {index, NULL};
	struct cairn_cascade *cascade;
	struct windows windows = {0, 0};
	FUZZ_CHECK(cairn_fraction_windows(index, check_window, &windows) == 0);
	FUZZ_CHECK(windows.cell == index->cells && windows.end == set.run[0].blocks);
	int words = cairn_fraction_check_words(index, runs[0]);
	int good = cairn_fraction_verify(index, runs[0], runs[1]);
	FUZZ_CHECK(words == 0 || words == CAIRN_CORRUPT);
	FUZZ_CHECK(good == CAIRN_CORRUPT || (good == 0 && words == 0));

	FUZZ_CHECK(cairn_cascade_new(runs, indexes, RUNS, &cascade) == 0);
	for (size_t i = 0; i < queries.count; i++)
		search(cascade, queries.key[i], good == 0, words == 0);
	cairn_cascade_free(cascade);
}

/* Opens it, knowing what it is to belong to or not. */
static struct cairn_fraction *open_file(
    const struct cairn_run_reader *run, const struct cairn_run_reader *anchor)
{
	struct cairn_fraction *index;
	int code = cairn_fraction_open(set.io, PATH, NULL, NULL, run, anchor, &index);
	FUZZ_CHECK(code == 0 || code == CAIRN_CORRUPT || code == CAIRN_UNSUPPORTED);
	FUZZ_CHECK((index != NULL) == (code == 0));
	FUZZ_CHECK(code == 0 || strstr(cairn_error_text(), PATH));
	return index;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (set.count == 0)
		make_runs();
	uint8_t *bytes = fuzz_copy(data + 1, --size);
	if (data[0] & 2)
		make_beside(bytes, size);
	if (data[0] & 1)
		mend(bytes, size);
	sim_disk_put(set.disk, PATH, bytes, size);
	size_t open = sim_disk_open_count(set.disk);
	struct cairn_fraction decoded;
	int code = cairn_fraction_decode(PATH, bytes, size, &decoded);
	struct cairn_fraction *alone = open_file(NULL, NULL);
	FUZZ_CHECK((code == 0) == (alone != NULL));
	cairn_fraction_close(alone);
	struct cairn_fraction *index = open_file(set.run[0].reader, set.run[1].reader);
	if (index)
		use(index);
	cairn_fraction_close(index);
	FUZZ_CHECK(sim_disk_open_count(set.disk) == open);
	free(bytes);
	return 0;
}
