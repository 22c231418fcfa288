/*
 * Tests of format/fraction: what is in an index, what is refused, and what is left after a failure.
 * The oracle computes places, edges and words from whole keys, and reads V one bit at a time.
 */
#include "tests/test.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/fraction.h"
#include "format/seek_tree.h"
#include "tests/alloc_fault.h"
#include "tests/run_set.h"

#define PATH        "/000077.ix"
#define NUMBER      UINT64_C(77)
#define HEADER_SIZE 128u
#define LCP_MAX     255u
#define UNSEARCHED  32u /* more blocks than that in a window, and nobody searches it */

static const struct run_set_run *anchor_of(const struct run_set *set)
{
	return &set->run[set->count - 1];
}

static size_t file_size(const struct run_set *set, const char *path)
{
	size_t size;
	return sim_disk_file(set->disk, path, &size) ? size : 0;
}

static int build(struct run_set *set, unsigned r, struct cairn_fraction_file *file)
{
	return cairn_fraction_build(set->io, PATH, &set->identity, NUMBER, set->run[r].reader,
	    anchor_of(set)->reader, file);
}

static int open_at(struct run_set *set, const char *path, unsigned r,
    const struct cairn_fraction_file *expect, struct cairn_fraction **index)
{
	return cairn_fraction_open(set->io, path, expect, &set->identity, set->run[r].reader,
	    anchor_of(set)->reader, index);
}

/* ---------------------------------------------------------------- the oracle */

struct oracle {
	const struct run_set *set;
	const struct run_set_run *run;
	const struct run_set_run *anchor;
	unsigned level;
	size_t cells;
	size_t *v; /* V[0] … V[cells] */
	unsigned first_edge;
	unsigned last_edge;
};

static cairn_slice fence_of(const struct oracle *o, size_t cell)
{
	return run_set_fence(o->anchor, cell << 4 * o->level);
}

static unsigned common(cairn_slice a, cairn_slice b)
{
	size_t size = cairn_key_common(a, b);
	return size < LCP_MAX ? (unsigned)size : LCP_MAX;
}

/* A quarter of a block of the run in each cell, on average, to four; not above the anchor's tree,
 * whose top level is not of one entry. */
static unsigned level_of(const struct run_set_run *run, const struct run_set_run *anchor)
{
	unsigned level = 1;
	while (anchor->blocks > (size_t)1 << 4 * (level + 1) &&
	       run->blocks * 4 << 4 * level < anchor->blocks)
		level++;
	return level;
}

static void find_places(struct oracle *o)
{
	o->v = calloc(o->cells + 1, sizeof *o->v);
	assert_non_null(o->v);
	size_t cell = 0;
	for (size_t block = 0; block < o->run->blocks; block++) {
		cairn_slice key = run_set_fence(o->run, block);
		while (cell + 1 < o->cells && cairn_key_compare(fence_of(o, cell + 1), key) < 0)
			cell++;
		o->v[cell + 1]++;
	}
	for (size_t j = 0; j < o->cells; j++)
		o->v[j + 1] += o->v[j];
	assert_int_equal(o->v[o->cells], o->run->blocks);
}

static void find_edges(struct oracle *o)
{
	cairn_slice low = o->run->key[0], high = o->run->key[o->run->count - 1];
	cairn_slice first = o->anchor->key[0], last = o->anchor->key[o->anchor->count - 1];
	if (cairn_key_compare(first, low) < 0)
		low = first;
	if (cairn_key_compare(last, high) > 0)
		high = last;
	assert_true(o->cells > 1);
	o->first_edge = common(low, fence_of(o, 1));
	o->last_edge = common(fence_of(o, o->cells - 1), high);
}

/* False when there is to be no index. */
static bool make_oracle(struct oracle *o, const struct run_set *set, unsigned r)
{
	*o = (struct oracle){.set = set, .run = &set->run[r], .anchor = anchor_of(set)};
	if (o->run->blocks <= 16 || o->anchor->blocks <= 16)
		return false;
	o->level = level_of(o->run, o->anchor);
	o->cells = ((o->anchor->blocks - 1) >> 4 * o->level) + 1;
	find_places(o);
	find_edges(o);
	size_t unsearched = 0;
	for (size_t j = 0; j < o->cells; j++) {
		if (o->v[j + 1] - o->v[j] > UNSEARCHED)
			unsearched += o->v[j + 1] - o->v[j];
	}
	return unsearched * 4 <= o->run->blocks;
}

static unsigned cell_lcp(const struct oracle *o, size_t cell)
{
	if (cell == 0)
		return o->first_edge;
	if (cell + 1 == o->cells)
		return o->last_edge;
	return common(fence_of(o, cell), fence_of(o, cell + 1));
}

static unsigned offset_bits(const struct run_set_run *run)
{
	unsigned bits = 0;
	while (run->offset[run->blocks - 1] / 8 >> bits)
		bits++;
	return bits;
}

static uint64_t head(cairn_slice key, size_t skip)
{
	const uint8_t *bytes = key.data;
	uint64_t value = 0;
	for (size_t i = skip; i < skip + 8; i++)
		value = value << 8 | (i < key.size ? bytes[i] : 0);
	return value;
}

static size_t words_size(const struct oracle *o)
{
	return (o->run->blocks * 8 + 64 + 127) / 128 * 128;
}

static void put_words(const struct oracle *o, uint8_t *words)
{
	unsigned bits = offset_bits(o->run);
	memset(words, 0xff, words_size(o));
	for (size_t j = 0; j < o->cells; j++) {
		for (size_t block = o->v[j]; block < o->v[j + 1]; block++) {
			cairn_slice key = run_set_fence(o->run, block);
			uint64_t word = head(key, cell_lcp(o, j)) >> bits << bits;
			cairn_put64(words + block * 8, word | o->run->offset[block] / 8);
		}
	}
}

static bool bit_of(const uint8_t *bytes, size_t bit)
{
	return bytes[bit / 8] >> bit % 8 & 1;
}

/*
 * V[1] … V[cells-1]: the low parts side by side, up to a whole byte; then for each value, in steps
 * of 2^low, as many zeros as it is further than the one before it and a one; zeros.
 */
static void check_places(const struct oracle *o, const uint8_t *bytes, size_t size, unsigned low)
{
	size_t count = o->cells - 1, max = o->run->blocks;
	unsigned want_low = 0;
	while (count << (want_low + 1) <= max)
		want_low++;
	assert_int_equal(low, want_low);
	size_t upper = (count * low + 7) / 8, bits = count + (max >> low), bit = 0;
	assert_int_equal(size, upper + (bits + 7) / 8);
	for (size_t i = 0; i < count; i++) {
		while (bit < bits && !bit_of(bytes + upper, bit))
			bit++;
		assert_true(bit < bits);
		size_t value = (bit++ - i) << low;
		for (unsigned b = 0; b < low; b++)
			value |= (size_t)bit_of(bytes, i * low + b) << b;
		assert_int_equal(value, o->v[i + 1]);
	}
	for (; bit < (bits + 7) / 8 * 8; bit++)
		assert_false(bit_of(bytes + upper, bit));
	for (bit = count * low; bit < upper * 8; bit++)
		assert_false(bit_of(bytes, bit));
}

static void put_base(uint8_t *bytes, const struct run_set_run *run)
{
	cairn_put64(bytes, run->number);
	cairn_put64(bytes + 8, run->count);
	cairn_put64(bytes + 16, run->blocks);
	cairn_put32(bytes + 24, cairn_run_footer(run->reader)->checksum);
}

static void mend_header(uint8_t *bytes)
{
	cairn_put32(bytes + 124, cairn_checksum(bytes, 124, 0));
}

/* Of an index with those words and places. */
static void put_header(const struct oracle *o, const uint8_t *words, const uint8_t *places,
    size_t places_size, unsigned low, uint8_t *header)
{
	memset(header, 0, HEADER_SIZE);
	memcpy(header, "cairn.ix", 8);
	cairn_put32(header + 8, 1);
	header[12] = (uint8_t)o->level;
	header[13] = (uint8_t)offset_bits(o->run);
	header[14] = (uint8_t)o->first_edge;
	header[15] = (uint8_t)o->last_edge;
	header[16] = (uint8_t)low;
	memcpy(header + 24, o->set->identity.store_id, 16);
	cairn_put64(header + 40, o->set->identity.hash_seed);
	cairn_put64(header + 48, NUMBER);
	put_base(header + 56, o->run);
	cairn_put32(header + 84, cairn_checksum(places, places_size, 0));
	put_base(header + 88, o->anchor);
	cairn_put32(header + 116, cairn_checksum(words, words_size(o), 0));
	mend_header(header);
}

static void assert_same_bytes(const uint8_t *have, const uint8_t *want, size_t size, size_t at)
{
	for (size_t i = 0; i < size; i++) {
		if (have[i] != want[i])
			fail_msg("byte %zu is %02x, not %02x", at + i, have[i], want[i]);
	}
}

static void check_file(const struct oracle *o)
{
	size_t size;
	const uint8_t *file = sim_disk_file(o->set->disk, PATH, &size);
	assert_true(file && size >= HEADER_SIZE + words_size(o));
	uint8_t *want = malloc(HEADER_SIZE + words_size(o));
	assert_non_null(want);
	const uint8_t *places = file + HEADER_SIZE + words_size(o);
	size_t places_size = size - HEADER_SIZE - words_size(o);
	put_words(o, want + HEADER_SIZE);
	assert_same_bytes(file + HEADER_SIZE, want + HEADER_SIZE, words_size(o), HEADER_SIZE);
	check_places(o, places, places_size, file[16]);
	put_header(o, want + HEADER_SIZE, places, places_size, file[16], want);
	assert_same_bytes(file, want, HEADER_SIZE, 0);
	free(want);
}

/* ---------------------------------------------------------------- what is in an index */

static int check_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	const struct oracle *o = context;
	assert_true(cell < o->cells);
	assert_int_equal(from, o->v[cell]);
	assert_int_equal(to, o->v[cell + 1]);
	return 0;
}

static int stop_at_the_second(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	(void)from;
	(void)to;
	*(uint64_t *)context = cell;
	return cell == 1 ? 5 : 0;
}

static void check_base(const struct cairn_fraction_base *base, const struct run_set_run *run)
{
	assert_int_equal(base->number, run->number);
	assert_int_equal(base->records, run->count);
	assert_int_equal(base->blocks, run->blocks);
	assert_int_equal(base->footer_checksum, cairn_run_footer(run->reader)->checksum);
}

/* What decode says of the file as it is on the disk now; in memory that ends where it does. */
static int decode_file(const struct run_set *set, struct cairn_fraction *index)
{
	size_t size;
	const uint8_t *file = sim_disk_file(set->disk, PATH, &size);
	uint8_t *copy = malloc(size ? size : 1);
	assert_true(file && copy);
	memcpy(copy, file, size);
	int code = cairn_fraction_decode(PATH, copy, size, index);
	free(copy);
	return code;
}

/* From memory the same is read. */
static void check_decoded(const struct run_set *set, const struct cairn_fraction *index)
{
	struct cairn_fraction decoded;
	assert_int_equal(decode_file(set, &decoded), 0);
	assert_int_equal(decoded.number, index->number);
	assert_int_equal(decoded.level, index->level);
	assert_int_equal(decoded.offset_bits, index->offset_bits);
	assert_int_equal(decoded.first_edge, index->first_edge);
	assert_int_equal(decoded.last_edge, index->last_edge);
	assert_int_equal(decoded.low_bits, index->low_bits);
	assert_int_equal(decoded.cells, index->cells);
	assert_int_equal(decoded.run.footer_checksum, index->run.footer_checksum);
	assert_int_equal(decoded.anchor.footer_checksum, index->anchor.footer_checksum);
}

static void check_open(
    struct oracle *o, struct run_set *set, unsigned r, const struct cairn_fraction_file *file)
{
	struct cairn_fraction *index;
	uint64_t cell;
	assert_int_equal(open_at(set, PATH, r, file, &index), 0);
	assert_int_equal(index->number, NUMBER);
	assert_true(cairn_identity_equal(&index->identity, &set->identity));
	assert_int_equal(index->level, o->level);
	assert_int_equal(index->offset_bits, offset_bits(o->run));
	assert_int_equal(index->first_edge, o->first_edge);
	assert_int_equal(index->last_edge, o->last_edge);
	assert_int_equal(index->cells, o->cells);
	check_base(&index->run, o->run);
	check_base(&index->anchor, o->anchor);
	check_decoded(set, index);
	assert_int_equal(cairn_fraction_windows(index, check_window, o), 0);
	assert_int_equal(cairn_fraction_windows(index, stop_at_the_second, &cell), 5);
	assert_int_equal(cell, 1);
	assert_int_equal(cairn_fraction_check_words(index, NULL), 0);
	assert_int_equal(cairn_fraction_check_words(index, o->run->reader), 0);
	assert_int_equal(cairn_fraction_verify(index, o->run->reader, o->anchor->reader), 0);
	cairn_fraction_close(index);
}

/* Whether there is one. */
static bool check_index(struct run_set *set, unsigned r)
{
	struct oracle oracle;
	struct cairn_fraction_file file = {1, 2, 3};
	size_t open = sim_disk_open_count(set->disk);
	bool wanted = make_oracle(&oracle, set, r);
	assert_int_equal(build(set, r, &file), wanted ? 0 : CAIRN_NOT_FOUND);
	if (wanted) {
		assert_int_equal(file.number, NUMBER);
		assert_int_equal(file.size, file_size(set, PATH));
		check_file(&oracle);
		check_open(&oracle, set, r, &file);
	}
	assert_int_equal(sim_disk_remove(set->disk, PATH), wanted);
	assert_int_equal(sim_disk_open_count(set->disk), open);
	free(oracle.v);
	return wanted;
}

static void index_is_what_the_oracle_computes(void **state)
{
	(void)state;
	uint64_t random = test_seed(1);
	unsigned some = 0, none = 0;
	for (const struct run_set_spec *spec = run_set_specs; spec->name; spec++) {
		struct run_set set;
		run_set_make(&set, spec, test_random(&random));
		printf("%s:", spec->name);
		for (unsigned r = 0; r + 1 < set.count; r++) {
			bool there = check_index(&set, r);
			printf(" %zu of %zu%s", set.run[r].blocks, anchor_of(&set)->blocks,
			    there ? "," : " none,");
			some += there;
			none += !there;
		}
		printf("\n");
		run_set_free(&set);
	}
	assert_true(some > 20 && none > 10);
}

static const struct run_set_spec *spec_named(const char *name)
{
	const struct run_set_spec *spec = run_set_specs;
	while (strcmp(spec->name, name) != 0)
		spec++;
	return spec;
}

static void check_none(const char *name, unsigned r)
{
	struct run_set set;
	struct cairn_fraction_file file = {1, 2, 3};
	run_set_make(&set, spec_named(name), 1);
	assert_int_equal(build(&set, r, &file), CAIRN_NOT_FOUND);
	assert_int_equal(file.number, 0);
	assert_int_equal(file_size(&set, PATH), 0);
	run_set_free(&set);
}

static void index_without_gain_is_not_made(void **state)
{
	(void)state;
	check_none("one node", 0);
	check_none("one node each", 0);
	check_none("one node and a record", 1);
	check_none("all beyond", 1);
	check_none("all before", 1);
}

/* ---------------------------------------------------------------- what is refused */

/* Six numbered cells, twenty blocks: a file of some hundred bytes. */
static const struct run_set_spec *small_spec(void)
{
	static struct run_set_spec spec;
	spec =
	    (struct run_set_spec){"small", spec_named("structured")->make, {310, 320, 1500}, false};
	return &spec;
}

static void make_small(struct run_set *set, struct cairn_fraction_file *file)
{
	run_set_make(set, small_spec(), 5);
	assert_int_equal(build(set, 0, file), 0);
}

/* A copy of the index, to be damaged. */
static uint8_t *copy_file(const struct run_set *set, size_t *size)
{
	const uint8_t *file = sim_disk_file(set->disk, PATH, size);
	assert_non_null(file);
	uint8_t *copy = malloc(*size + 1);
	assert_non_null(copy);
	memcpy(copy, file, *size);
	copy[*size] = 0;
	return copy;
}

static void assert_refused(int code, int want, struct cairn_fraction *const *index)
{
	assert_int_equal(code, want);
	assert_null(*index);
	assert_non_null(strstr(cairn_error_text(), PATH));
}

/* The file as it is on the disk now is refused by open, whatever open is told, and by decode. */
static void check_refused(struct run_set *set, int want)
{
	struct cairn_fraction decoded;
	assert_int_equal(decode_file(set, &decoded), want);
	assert_non_null(strstr(cairn_error_text(), PATH));
	struct cairn_fraction *index = (struct cairn_fraction *)1;
	assert_refused(
	    cairn_fraction_open(set->io, PATH, NULL, NULL, NULL, NULL, &index), want, &index);
	index = (struct cairn_fraction *)1;
	assert_refused(open_at(set, PATH, 0, NULL, &index), want, &index);
}

/* It is opened, since words are not looked at, and then found. */
static void check_found_in_words(struct run_set *set)
{
	struct cairn_fraction *index;
	assert_int_equal(open_at(set, PATH, 0, NULL, &index), 0);
	assert_int_equal(cairn_fraction_check_words(index, NULL), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), PATH ": at offset "));
	assert_int_equal(cairn_fraction_verify(index, set->run[0].reader, anchor_of(set)->reader),
	    CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), PATH));
	cairn_fraction_close(index);
}

static void every_flipped_bit_is_found(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	size_t size;
	make_small(&set, &file);
	uint8_t *bytes = copy_file(&set, &size);
	size_t words_end = HEADER_SIZE + (set.run[0].blocks * 8 + 64 + 127) / 128 * 128;
	assert_true(words_end < size);
	for (size_t bit = 0; bit < size * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		sim_disk_put(set.disk, PATH, bytes, size);
		if (bit / 8 < HEADER_SIZE || bit / 8 >= words_end)
			check_refused(&set, CAIRN_CORRUPT);
		else
			check_found_in_words(&set);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(bytes);
	run_set_free(&set);
}

static void every_other_length_is_refused(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	size_t size;
	make_small(&set, &file);
	uint8_t *bytes = copy_file(&set, &size);
	for (size_t length = 0; length <= size + 1; length++) {
		sim_disk_put(set.disk, PATH, bytes, length);
		if (length != size)
			check_refused(&set, CAIRN_CORRUPT);
	}
	free(bytes);
	run_set_free(&set);
}

static void newer_version_is_not_supported(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	size_t size;
	make_small(&set, &file);
	uint8_t *bytes = copy_file(&set, &size);
	cairn_put32(bytes + 8, 4711);
	mend_header(bytes);
	sim_disk_put(set.disk, PATH, bytes, size);
	check_refused(&set, CAIRN_UNSUPPORTED);
	assert_non_null(strstr(cairn_error_text(), "4711"));
	assert_non_null(strstr(cairn_error_text(), "version 1"));
	free(bytes);
	run_set_free(&set);
}

static void file_that_the_manifest_does_not_mean_is_refused(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	for (unsigned i = 0; i < 3; i++) {
		struct cairn_fraction_file expect = file;
		struct cairn_fraction *index = (struct cairn_fraction *)1;
		expect.number ^= i == 0;
		expect.size ^= i == 1;
		expect.checksum ^= i == 2;
		assert_refused(open_at(&set, PATH, 0, &expect, &index), CAIRN_CORRUPT, &index);
	}
	struct cairn_fraction *index = (struct cairn_fraction *)1;
	assert_int_equal(open_at(&set, "/000078.ix", 0, &file, &index), -ENOENT);
	assert_null(index);
	cairn_fraction_close(NULL);
	run_set_free(&set);
}

static void index_of_another_store_is_refused(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	for (unsigned i = 0; i < 2; i++) {
		struct cairn_identity other = set.identity;
		struct cairn_fraction *index = (struct cairn_fraction *)1;
		other.store_id[15] ^= i == 0;
		other.hash_seed ^= i == 1;
		int code = cairn_fraction_open(set.io, PATH, &file, &other, NULL, NULL, &index);
		assert_refused(code, CAIRN_CORRUPT, &index);
	}
	run_set_free(&set);
}

static void assert_error_has(const char *format, uint64_t number)
    __attribute__((format(printf, 1, 0)));

static void assert_error_has(const char *format, uint64_t number)
{
	char text[64];
	snprintf(text, sizeof text, format, number);
	if (!strstr(cairn_error_text(), text))
		fail_msg("no \"%s\" in: %s", text, cairn_error_text());
}

/* The message tells apart what the index was built on and what is here. */
static void check_other_base(struct run_set *set, const struct cairn_run_reader *run,
    const struct cairn_run_reader *anchor, const struct cairn_run_reader *was,
    const struct cairn_run_reader *is)
{
	const struct cairn_run_footer *old = cairn_run_footer(was), *now = cairn_run_footer(is);
	struct cairn_fraction *index = (struct cairn_fraction *)1;
	int code = cairn_fraction_open(set->io, PATH, NULL, &set->identity, run, anchor, &index);
	assert_refused(code, CAIRN_CORRUPT, &index);
	assert_error_has("file %" PRIu64, old->number);
	assert_error_has("file %" PRIu64, now->number);
	assert_error_has("%08" PRIx64, old->checksum);
	assert_error_has("%08" PRIx64, now->checksum);
}

static void index_of_other_runs_is_refused(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	struct cairn_run_reader *run = set.run[0].reader, *other = set.run[1].reader;
	struct cairn_run_reader *anchor = anchor_of(&set)->reader;
	check_other_base(&set, other, anchor, run, other);
	check_other_base(&set, other, NULL, run, other);
	check_other_base(&set, run, other, anchor, other);
	check_other_base(&set, NULL, other, anchor, other);
	run_set_free(&set);
}

/* The same numbers, made at another time, of other records. */
static void index_of_runs_made_anew_is_refused(void **state)
{
	(void)state;
	struct run_set set, anew;
	struct cairn_fraction_file file;
	struct run_set_spec spec = *small_spec();
	make_small(&set, &file);
	spec.tombstones = true;
	run_set_make(&anew, &spec, 5);
	for (unsigned r = 0; r < 3; r++) {
		assert_int_equal(set.run[r].number, anew.run[r].number);
		assert_int_equal(set.run[r].count, anew.run[r].count);
	}
	struct cairn_run_reader *run = set.run[0].reader, *anchor = set.run[2].reader;
	check_other_base(&set, anew.run[0].reader, anchor, run, anew.run[0].reader);
	check_other_base(&set, run, anew.run[2].reader, anchor, anew.run[2].reader);
	run_set_free(&anew);
	run_set_free(&set);
}

/* Whatever the header says behind a right checksum: refused at once, or not what verify makes. */
static void forged_header_is_found(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	struct cairn_fraction *index;
	size_t size;
	make_small(&set, &file);
	uint8_t *bytes = copy_file(&set, &size);
	for (size_t bit = 0; bit < 124 * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		mend_header(bytes);
		sim_disk_put(set.disk, PATH, bytes, size);
		int code = cairn_fraction_open(set.io, PATH, NULL, NULL, NULL, NULL, &index);
		if (code == 0)
			code = cairn_fraction_verify(
			    index, set.run[0].reader, anchor_of(&set)->reader);
		/* Store and number it can only believe. */
		bool believed = bit / 8 >= 24 && bit / 8 < 56;
		bool version = bit / 8 >= 8 && bit / 8 < 12;
		assert_int_equal(code, believed ? 0 : version ? CAIRN_UNSUPPORTED : CAIRN_CORRUPT);
		if (code != 0)
			assert_non_null(strstr(cairn_error_text(), PATH));
		cairn_fraction_close(index);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(bytes);
	run_set_free(&set);
}

/* Words behind a right checksum that name other blocks than the run has are told by its seek
 * section. */
static void words_that_name_other_blocks_are_found(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	struct cairn_fraction *index;
	size_t size;
	make_small(&set, &file);
	const struct run_set_run *run = &set.run[0];
	size_t words = (run->blocks * 8 + 64 + 127) / 128 * 128;
	uint8_t *bytes = copy_file(&set, &size);
	for (size_t block = 0; block <= run->blocks; block++) {
		uint8_t *word = bytes + HEADER_SIZE + block * 8;
		*word ^= block < run->blocks;
		cairn_put32(bytes + 116, cairn_checksum(bytes + HEADER_SIZE, words, 0));
		mend_header(bytes);
		sim_disk_put(set.disk, PATH, bytes, size);
		assert_int_equal(open_at(&set, PATH, 0, NULL, &index), 0);
		assert_int_equal(cairn_fraction_check_words(index, NULL), 0);
		assert_int_equal(cairn_fraction_check_words(index, run->reader),
		    block < run->blocks ? CAIRN_CORRUPT : 0);
		if (block < run->blocks)
			assert_non_null(strstr(cairn_error_text(), PATH));
		cairn_fraction_close(index);
		*word ^= block < run->blocks;
	}
	free(bytes);
	run_set_free(&set);
}

static void file_that_is_there_is_left_alone(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	sim_disk_put(set.disk, PATH, "mine", 4);
	assert_int_equal(build(&set, 0, &file), -EEXIST);
	size_t size;
	assert_memory_equal(sim_disk_file(set.disk, PATH, &size), "mine", 4);
	assert_int_equal(size, 4);
	run_set_free(&set);
}

/* ---------------------------------------------------------------- failures */

/* Call number 1, 2, … of these kinds fails, until none is left to fail; returns how many did. */
static unsigned check_io_failures(struct run_set *set, unsigned kinds, bool partly, int code)
{
	struct cairn_fraction_file file;
	size_t open = sim_disk_open_count(set->disk);
	for (unsigned n = 1;; n++) {
		(void)sim_disk_remove(set->disk, PATH);
		struct sim_fault fault = {
		    .call = n, .kinds = kinds, .code = code, .partly = partly};
		sim_disk_arm(set->disk, &fault);
		int got = build(set, 0, &file);
		uint64_t faults = sim_disk_faults(set->disk);
		sim_disk_arm(set->disk, &(struct sim_fault){0});
		assert_int_equal(sim_disk_open_count(set->disk), open);
		assert_int_equal(got, faults ? code : 0);
		if (!faults)
			return n - 1;
		assert_int_equal(file_size(set, PATH), 0);
		assert_null(sim_disk_file(set->disk, PATH, &(size_t){0}));
	}
}

static void failed_build_leaves_no_file(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	assert_true(check_io_failures(&set, 0, false, -EIO) >= 3);
	assert_true(check_io_failures(&set, 0, false, -ENOSPC) >= 3);
	unsigned bytes = 1u << SIM_WRITE | 1u << SIM_ALLOCATE | 1u << SIM_TRUNCATE | 1u << SIM_SYNC;
	assert_true(check_io_failures(&set, bytes, true, -ENOSPC) >= 2);
	run_set_free(&set);
}

/* A crash after a build that returned finds the bytes, once the directory is synced. */
static void build_is_durable(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	assert_int_equal(set.io->ops->sync_directory(set.io, "/"), 0);
	struct sim_disk *after = sim_disk_crash(set.disk, SIM_LOSE_ALL, 1);
	size_t size, want_size;
	const uint8_t *bytes = sim_disk_file(after, PATH, &size);
	const uint8_t *want = sim_disk_file(set.disk, PATH, &want_size);
	assert_true(bytes && size == want_size && size == file.size);
	assert_memory_equal(bytes, want, size);
	sim_disk_free(after);
	run_set_free(&set);
}

static void failed_open_leaves_nothing(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	make_small(&set, &file);
	size_t open = sim_disk_open_count(set.disk);
	for (unsigned n = 1;; n++) {
		struct cairn_fraction *index = (struct cairn_fraction *)1;
		struct sim_fault fault = {.call = n, .code = -EIO};
		sim_disk_arm(set.disk, &fault);
		int code = open_at(&set, PATH, 0, &file, &index);
		uint64_t faults = sim_disk_faults(set.disk);
		sim_disk_arm(set.disk, &(struct sim_fault){0});
		assert_int_equal(code, faults ? -EIO : 0);
		assert_int_equal(index == NULL, faults > 0);
		cairn_fraction_close(index);
		assert_int_equal(sim_disk_open_count(set.disk), open);
		if (!faults)
			break;
	}
	run_set_free(&set);
}

/* What is tried with memory that runs out; `index` is open. */
typedef int attempt(struct run_set *set, struct cairn_fraction *index);

static int try_build(struct run_set *set, struct cairn_fraction *index)
{
	(void)index;
	struct cairn_fraction_file file;
	int code = build(set, 0, &file);
	if (code != 0)
		assert_null(sim_disk_file(set->disk, PATH, &(size_t){0}));
	return code;
}

static int try_open(struct run_set *set, struct cairn_fraction *index)
{
	(void)index;
	struct cairn_fraction *another = (struct cairn_fraction *)1;
	int code = open_at(set, "/good.ix", 0, NULL, &another);
	assert_int_equal(another == NULL, code != 0);
	cairn_fraction_close(another);
	return code;
}

static int try_verify(struct run_set *set, struct cairn_fraction *index)
{
	return cairn_fraction_verify(index, set->run[0].reader, anchor_of(set)->reader);
}

static unsigned check_memory(struct run_set *set, attempt *try)
{
	for (unsigned n = 1;; n++) {
		struct cairn_fraction *index;
		(void)sim_disk_remove(set->disk, PATH);
		assert_int_equal(open_at(set, "/good.ix", 0, NULL, &index), 0);
		int64_t live = alloc_live();
		alloc_fault_arm(n, false);
		int code = try(set, index);
		uint64_t faults = alloc_faults();
		alloc_fault_disarm();
		assert_int_equal(code, faults ? -ENOMEM : 0);
		assert_true(!faults || alloc_live() == live);
		cairn_fraction_close(index);
		if (!faults)
			return n - 1;
	}
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	int64_t live = alloc_live();
	size_t size;
	make_small(&set, &file);
	uint8_t *bytes = copy_file(&set, &size);
	sim_disk_put(set.disk, "/good.ix", bytes, size);
	free(bytes);
	assert_true(check_memory(&set, try_build) >= 3);
	assert_true(check_memory(&set, try_open) >= 2);
	assert_true(check_memory(&set, try_verify) >= 3);
	run_set_free(&set);
	assert_true(alloc_live() == live);
}

static void check_damaged_run(unsigned r)
{
	struct run_set set;
	struct cairn_fraction_file file;
	run_set_make(&set, small_spec(), 5);
	struct run_set_run *run = &set.run[r];
	uint64_t offset =
	    cairn_run_footer_extent(cairn_run_footer(run->reader), CAIRN_SECTION_SEEK)->offset;
	size_t size;
	cairn_run_close(run->reader);
	uint8_t *bytes = sim_disk_change(set.disk, run->path, &size);
	assert_non_null(bytes);
	bytes[offset + 150] ^= 4;
	assert_int_equal(cairn_run_open(set.io, run->path, NULL, &run->reader), 0);
	assert_int_equal(build(&set, 0, &file), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), run->path));
	assert_null(sim_disk_file(set.disk, PATH, &size));
	run_set_free(&set);
}

static void no_index_is_built_on_damaged_runs(void **state)
{
	(void)state;
	check_damaged_run(0);
	check_damaged_run(2);
}

/* ---------------------------------------------------------------- cost */

/* A copy of the anchor of which every page that is read is counted. */
static struct {
	uint8_t *start;
	size_t size, page_size;
	volatile sig_atomic_t pages;
} watched;

static void count_page(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	uint8_t *at = info->si_addr;
	if (at < watched.start || at >= watched.start + watched.size)
		_exit(3);
	at -= (size_t)(at - watched.start) % watched.page_size;
	if (mprotect(at, watched.page_size, PROT_READ) != 0)
		_exit(4);
	watched.pages++;
}

static int watched_map(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	size_t done;
	watched.page_size = (size_t)sysconf(_SC_PAGESIZE);
	watched.size = (size + watched.page_size - 1) / watched.page_size * watched.page_size;
	watched.start =
	    mmap(NULL, watched.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(watched.start != MAP_FAILED);
	assert_int_equal(file->io->ops->read(file, watched.start, size, 0, &done), 0);
	*map = (struct cairn_map){watched.start, size};
	return 0;
}

static void watched_unmap(struct cairn_io *io, struct cairn_map *map)
{
	(void)io;
	assert_ptr_equal(map->data, watched.start);
	assert_int_equal(munmap(watched.start, watched.size), 0);
	*map = (struct cairn_map){NULL, 0};
}

static void build_reads_little_of_the_anchor(void **state)
{
	(void)state;
	struct run_set set;
	struct cairn_fraction_file file;
	struct cairn_record record;
	run_set_make(&set, spec_named("deep"), 9);
	struct run_set_run *anchor = &set.run[set.count - 1];
	const struct cairn_io_ops *real = set.io->ops;
	struct cairn_io_ops ops = *real;
	ops.map = watched_map;
	ops.unmap = watched_unmap;
	cairn_run_close(anchor->reader);
	set.io->ops = &ops;
	assert_int_equal(cairn_run_open(set.io, anchor->path, NULL, &anchor->reader), 0);
	/* The seek section is verified once, as before any other use. */
	uint64_t hash = cairn_key_hash(anchor->key[5], set.identity.hash_seed);
	assert_int_equal(cairn_run_get(anchor->reader, anchor->key[5], hash, &record), 0);

	struct sigaction action = {.sa_sigaction = count_page, .sa_flags = SA_SIGINFO}, before;
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	assert_int_equal(mprotect(watched.start, watched.size, PROT_NONE), 0);
	int code = build(&set, 1, &file);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_int_equal(mprotect(watched.start, watched.size, PROT_READ), 0);
	size_t pages = (size_t)watched.pages, all = watched.size / watched.page_size;
	printf("%zu of %zu pages for %zu blocks\n", pages, all, set.run[1].blocks);
	assert_int_equal(code, 0);
	/* Of each level above the cells a head and an lcp for each block, and a fence at times. */
	assert_true(pages > 0 && pages <= 8 * set.run[1].blocks && pages < all / 10);
	cairn_run_close(anchor->reader);
	set.io->ops = real;
	assert_int_equal(cairn_run_open(set.io, anchor->path, NULL, &anchor->reader), 0);
	run_set_free(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(index_is_what_the_oracle_computes),
	    cmocka_unit_test(index_without_gain_is_not_made),
	    cmocka_unit_test(every_flipped_bit_is_found),
	    cmocka_unit_test(every_other_length_is_refused),
	    cmocka_unit_test(newer_version_is_not_supported),
	    cmocka_unit_test(file_that_the_manifest_does_not_mean_is_refused),
	    cmocka_unit_test(index_of_another_store_is_refused),
	    cmocka_unit_test(index_of_other_runs_is_refused),
	    cmocka_unit_test(index_of_runs_made_anew_is_refused),
	    cmocka_unit_test(forged_header_is_found),
	    cmocka_unit_test(words_that_name_other_blocks_are_found),
	    cmocka_unit_test(file_that_is_there_is_left_alone),
	    cmocka_unit_test(failed_build_leaves_no_file),
	    cmocka_unit_test(build_is_durable),
	    cmocka_unit_test(failed_open_leaves_nothing),
	    cmocka_unit_test(memory_that_runs_out_leaves_nothing),
	    cmocka_unit_test(no_index_is_built_on_damaged_runs),
	    cmocka_unit_test(build_reads_little_of_the_anchor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
