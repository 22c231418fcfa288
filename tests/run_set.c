/*
 * tests/run_set.c -- see run_set.h.
 */
#include "tests/test.h"

#include "tests/run_set.h"

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/kv02_block.h"
#include "format/run_writer.h"

/* Whether or not there is a test around it: fuzzers make runs, too. */
#define MUST(claim)                                                                                \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			fprintf(stderr, "%s:%d: %s does not hold; last: %s\n", __FILE__, __LINE__, \
			    #claim, cairn_error_text());                                           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* ---------------------------------------------------------------- keys */

static size_t below(uint64_t *random, size_t n)
{
	return (size_t)(test_random(random) % n);
}

static size_t fill(uint8_t *key, size_t size, uint64_t *random)
{
	for (size_t i = 0; i < size; i++)
		key[i] = (uint8_t)test_random(random);
	return size;
}

static size_t text(uint8_t *key, const char *format, size_t number)
    __attribute__((format(printf, 2, 0)));

static size_t text(uint8_t *key, const char *format, size_t number)
{
	return (size_t)snprintf((char *)key, 64, format, number);
}

static size_t random_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)i;
	(void)run;
	return fill(key, below(random, 20), random); /* the empty key too */
}

/* The anchor has keys everywhere, the others in four places only. */
static size_t clustered_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	fill(key, 9, random);
	if (run < 2) {
		key[0] = (uint8_t)(0x20 + 0x40 * (i % 4));
		key[1] = (uint8_t)(i % 4 < 3 ? 0x55 + key[1] % 16 : 0x55);
	}
	return 9;
}

static size_t counter_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return text(key, "key%012zu", i * 7 + run * 3);
}

static size_t structured_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)i;
	(void)run;
	return text(key, "user:%07zu:nam", below(random, 1000000));
}

/* As structured_key, as dense as the anchor is large. */
static size_t deep_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	return text(key, "user:%07zu:nam", run == 3 ? i : below(random, 280000));
}

/* A key among those of the anchor, or one outside of it, as `other` says. */
static size_t apart(uint8_t *key, size_t i, unsigned run, bool outside, const char *other)
{
	return outside ? text(key, other, i) : text(key, "shared/m%06zu", i * 3 + run);
}

static size_t all_beyond_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return apart(key, i, run, run < 2, "shared/z%06zu");
}

static size_t all_before_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return apart(key, i, run, run < 2, "shared/a%06zu");
}

static size_t some_beyond_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return apart(key, i, run, run < 2 && i % 6 == 0, "shared/z%06zu");
}

static size_t many_beyond_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return apart(key, i, run, run < 2 && i % 10 < 3, "shared/z%06zu");
}

static size_t some_before_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)random;
	return apart(key, i, run, run < 2 && i % 6 == 0, "a%06zu");
}

/* In all runs the same. */
static size_t same_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)run;
	(void)random;
	size_t size = text(key, "%06zu", i * 13);
	return size + text(key + size, "%zu", i * i);
}

/* n, nn, nnn, …, each a prefix of the next, and keys that leave that line at some length. */
static size_t nested_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	size_t size = i % 301;
	memset(key, 'n', size);
	if (i < 301 || size == 0)
		return size;
	key[size - 1] = (uint8_t)('m' + 2 * (i / 301 % 2));
	return size + fill(key + size, 1 + run % 3 + i / 700 % 3, random);
}

/* What is common to many is longer than an lcp can say. */
static size_t long_prefix_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)run;
	memset(key, 'p', 300);
	key[100] = (uint8_t)('p' + i % 3);
	return 290 + fill(key + 290, 2 + below(random, 10), random);
}

/* Many that agree in 8 bytes behind what they share, so that heads say nothing. */
static size_t tied_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	size_t size = text(key, "%02zu", below(random, 7));
	size += text(key + size, "........%05zu", (i * 2 + run) % 5000);
	return size + fill(key + size, 1, random);
}

/* Bytes that look like the padding of heads and words. */
static size_t extreme_key(uint8_t *key, size_t i, unsigned run, uint64_t *random)
{
	(void)i;
	(void)run;
	size_t size = below(random, 20);
	for (size_t j = 0; j < size; j++)
		key[j] = below(random, 2) ? 0xff : 0;
	return size;
}

#define BLOCK CAIRN_BLOCK_RECORDS

const struct run_set_spec run_set_specs[] = {
    {"random", random_key, {250, 400, 1500, 6000}, false},
    {"random, tombstones", random_key, {700, 900, 1500, 3000}, true},
    {"random, small anchor", random_key, {3000, 5000, 500}, false},
    {"clustered", clustered_key, {500, 1000, 6000}, false},
    {"ascending", counter_key, {1000, 1000, 4000}, false},
    {"structured", structured_key, {300, 1500, 6000}, true},
    {"all beyond", all_beyond_key, {300, 1000, 3000}, false},
    {"all before", all_before_key, {300, 1000, 3000}, false},
    {"some beyond", some_beyond_key, {4500, 24000, 30000}, false},
    {"many beyond", many_beyond_key, {4500, 6000, 7000}, false},
    {"some before", some_before_key, {4500, 24000, 30000}, false},
    {"same", same_key, {2000, 2000, 2000}, true},
    {"nested", nested_key, {301, 900, 2500}, false},
    {"long prefixes", long_prefix_key, {400, 1000, 3000}, false},
    {"tied heads", tied_key, {700, 1500, 3000}, false},
    {"extremes", extreme_key, {400, 800, 4000}, false},
    {"alone", random_key, {1000}, false},
    {"one record", random_key, {400, 1}, false},
    {"one block", random_key, {400, 15, BLOCK}, false},
    {"one node", structured_key, {400, 1, 16 * BLOCK}, false},
    {"one node and a record", structured_key, {400, 15, 16 * BLOCK + 1}, false},
    {"one node each", counter_key, {16 * BLOCK, 16 * BLOCK + 1, 17 * BLOCK}, false},
    {"two levels", counter_key, {400, 256 * BLOCK}, false},
    {"two levels and a record", counter_key, {255 * BLOCK, 400, 256 * BLOCK + 1}, false},
    {"eight", structured_key, {1, 40, 250, 300, 700, 900, 3000, 9000}, true},
    {"deep", deep_key, {17 * BLOCK, 300, 20000, 265000}, false},
    {NULL, NULL, {0}, false},
};

/* ---------------------------------------------------------------- making */

static int compare_keys(const void *a, const void *b)
{
	return cairn_key_compare(*(const cairn_slice *)a, *(const cairn_slice *)b);
}

static cairn_slice copy_key(const void *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	MUST(copy);
	if (size)
		memcpy(copy, data, size);
	return cairn_slice_of(copy, size);
}

static void free_key(cairn_slice key)
{
	free((void *)(uintptr_t)key.data);
}

static void make_keys(
    struct run_set_run *run, const struct run_set_spec *spec, unsigned index, uint64_t *random)
{
	uint8_t bytes[RUN_SET_KEY_MAX];
	size_t count = spec->count[index];
	run->key = calloc(count, sizeof *run->key);
	MUST(run->key);
	for (size_t i = 0; i < count; i++) {
		size_t size = spec->make(bytes, i, index, random);
		run->key[i] = copy_key(bytes, size);
	}
	qsort(run->key, count, sizeof *run->key, compare_keys);
	for (size_t i = 0; i < count; i++) {
		if (run->count > 0 && cairn_key_equal(run->key[i], run->key[run->count - 1]))
			free_key(run->key[i]);
		else
			run->key[run->count++] = run->key[i];
	}
	run->tombstones = spec->tombstones;
}

/* A value says which record of which run it is. */
static cairn_slice make_value(
    const struct run_set_run *run, size_t i, uint8_t buffer[16], enum cairn_kind *kind)
{
	*kind = run->tombstones && i % 3 == 1 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
	memset(buffer, 0x2e, 16);
	cairn_put64(buffer, run->number << 32 | i);
	return cairn_slice_of(buffer, *kind == CAIRN_KIND_DELETE ? 0 : 8 + i % 7);
}

static void write_run(const struct run_set *set, struct run_set_run *run)
{
	struct cairn_run_spec spec = {.identity = set->identity,
	    .number = run->number,
	    .format = CAIRN_KV02,
	    .kinds = run->tombstones};
	struct cairn_run_writer *writer;
	struct cairn_run_footer footer;
	uint8_t buffer[16];
	uint64_t size;
	MUST(cairn_run_writer_open(set->io, run->path, &spec, &writer) == 0);
	for (size_t i = 0; i < run->count; i++) {
		struct cairn_record record = {.key = run->key[i]};
		record.value = make_value(run, i, buffer, &record.kind);
		uint64_t hash = cairn_key_hash(record.key, set->identity.hash_seed);
		record.checksum = cairn_record_checksum(hash, record.kind, record.value);
		MUST(cairn_run_writer_add(writer, &record) == 0);
	}
	MUST(cairn_run_writer_finish(writer, 1, run->count, &footer, &size) == 0);
	MUST(cairn_run_open(set->io, run->path, NULL, &run->reader) == 0);
}

/* Where blocks begin: a block's first byte has its number of records in the lower half. */
static void find_blocks(struct run_set_run *run)
{
	run->blocks = (size_t)cairn_run_footer(run->reader)->blocks;
	run->first = calloc(run->blocks + 1, sizeof *run->first);
	run->offset = calloc(run->blocks, sizeof *run->offset);
	MUST(run->first && run->offset);
	for (size_t b = 0; b < run->blocks; b++) {
		MUST(cairn_run_block_offset(run->reader, b, &run->offset[b]) == 0);
		run->first[b + 1] =
		    run->first[b] + (cairn_run_bytes(run->reader)[run->offset[b]] & 15);
	}
	MUST(run->first[run->blocks] == run->count);
	/* The next open is to find the seek section unverified. */
	cairn_run_close(run->reader);
}

void run_set_make(struct run_set *set, const struct run_set_spec *spec, uint64_t seed)
{
	uint64_t random = seed;
	*set = (struct run_set){.name = spec->name, .disk = sim_disk_new(seed)};
	set->io = sim_disk_io(set->disk);
	fill(set->identity.store_id, sizeof set->identity.store_id, &random);
	set->identity.hash_seed = test_random(&random);
	while (set->count < RUN_SET_RUNS_MAX && spec->count[set->count])
		set->count++;
	for (unsigned i = 0; i < set->count; i++) {
		struct run_set_run *run = &set->run[i];
		run->number = set->count - i;
		snprintf(run->path, sizeof run->path, "/%06u.kv", set->count - i);
		make_keys(run, spec, i, &random);
		write_run(set, run);
		find_blocks(run);
		MUST(cairn_run_open(set->io, run->path, NULL, &run->reader) == 0);
	}
}

void run_set_free(struct run_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		struct run_set_run *run = &set->run[i];
		cairn_run_close(run->reader);
		for (size_t k = 0; k < run->count; k++)
			free_key(run->key[k]);
		free(run->key);
		free(run->first);
		free(run->offset);
	}
	MUST(sim_disk_open_count(set->disk) == 0);
	sim_disk_free(set->disk);
}

/* ---------------------------------------------------------------- the oracle */

size_t run_set_lower_bound(const struct run_set_run *run, cairn_slice key)
{
	size_t low = 0, high = run->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (cairn_key_compare(run->key[middle], key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t run_set_block(const struct run_set_run *run, cairn_slice key)
{
	size_t low = 0, high = run->blocks; /* the block is in front of `high`, not of `low` */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (cairn_key_compare(run_set_fence(run, middle), key) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

bool run_set_is_record(const struct run_set_run *run, size_t i, const struct cairn_record *record)
{
	uint8_t buffer[16];
	enum cairn_kind kind;
	cairn_slice value = make_value(run, i, buffer, &kind);
	return i < run->count && record->kind == kind &&
	       cairn_key_equal(record->key, run->key[i]) && cairn_key_equal(record->value, value);
}

/* ---------------------------------------------------------------- queries */

static void add_query(struct run_set_queries *queries, const void *data, size_t size)
{
	if ((queries->count & (queries->count - 1)) == 0) {
		size_t capacity = queries->count ? 2 * queries->count : 1;
		queries->key = realloc(queries->key, capacity * sizeof *queries->key);
		MUST(queries->key);
	}
	queries->key[queries->count++] = copy_key(data, size);
}

/* It, and those just above and below. */
static void add_around(struct run_set_queries *queries, cairn_slice key)
{
	uint8_t bytes[RUN_SET_KEY_MAX + 1] = {0};
	if (key.size)
		memcpy(bytes, key.data, key.size);
	add_query(queries, bytes, key.size);
	bytes[key.size] = 0;
	add_query(queries, bytes, key.size + 1);
	bytes[key.size] = 0xff;
	add_query(queries, bytes, key.size + 1);
	if (key.size == 0)
		return;
	add_query(queries, bytes, key.size - 1);
	bytes[key.size - 1]++;
	add_query(queries, bytes, key.size);
	bytes[key.size - 1] = (uint8_t)(bytes[key.size - 1] - 2);
	add_query(queries, bytes, key.size);
}

static void add_others(struct run_set_queries *queries, uint64_t *random)
{
	uint8_t bytes[64] = {0};
	add_query(queries, bytes, 0);
	memset(bytes, 0xff, sizeof bytes);
	for (size_t size = 1; size <= sizeof bytes; size++)
		add_query(queries, bytes, size);
	memset(bytes, 0, sizeof bytes);
	for (size_t size = 1; size <= 16; size++)
		add_query(queries, bytes, size);
	for (unsigned i = 0; i < 300; i++)
		add_query(queries, bytes, fill(bytes, below(random, 24), random));
}

struct run_set_queries run_set_queries(const struct run_set *set, size_t most, uint64_t *random)
{
	struct run_set_queries queries = {0};
	for (unsigned r = 0; r < set->count; r++) {
		const struct run_set_run *run = &set->run[r];
		size_t step = 1 + run->count * set->count * 6 / most;
		for (size_t i = 0; i < run->count; i += step)
			add_around(&queries, run->key[i]);
		add_around(&queries, run->key[run->count - 1]);
	}
	add_others(&queries, random);
	return queries;
}

void run_set_free_queries(struct run_set_queries *queries)
{
	for (size_t i = 0; i < queries->count; i++)
		free_key(queries->key[i]);
	free(queries->key);
}
