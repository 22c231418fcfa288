/*
 * tests/format_kv02_block_test.c -- KV02 blocks against an encoder written straight from the layout
 * table, against a sorted array, and against damage.
 *
 * Every block is read from a heap buffer of exactly limit + 64 bytes, so a sanitizer sees the first
 * byte that is read outside of what the interface allows.
 */
#include "tests/test.h"

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/kv02_block.h"

#define SLACK 64u

/* Bytes of a test, grown one at a time: slow and obvious. */
struct bytes {
	uint8_t *data;
	size_t size;
};

static void add_byte(struct bytes *b, unsigned value)
{
	if ((b->size & (b->size - 1)) == 0) {
		b->data = realloc(b->data, b->size ? 2 * b->size : 1);
		if (!b->data)
			abort();
	}
	b->data[b->size++] = (uint8_t)value;
}

static void add_number(struct bytes *b, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		add_byte(b, (unsigned)(value >> (8 * i) & 0xff));
}

struct entry {
	uint8_t *key;
	size_t key_size;
	uint8_t *value;
	size_t value_size;
	uint32_t checksum;
	bool tombstone;
};

/* Entries in key order. */
struct set {
	struct entry entry[CAIRN_BLOCK_RECORDS];
	unsigned count;
	bool kinds;
};

static int order_of(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	for (size_t i = 0; i < a_size && i < b_size; i++) {
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	}
	return a_size < b_size ? -1 : a_size > b_size ? 1 : 0;
}

static void set_free(struct set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		free(set->entry[i].key);
		free(set->entry[i].value);
	}
}

/* Puts the key where it belongs; false when it is there already or the block would pass its limit
 * of keys. */
static bool set_insert(struct set *set, const uint8_t *key, size_t key_size)
{
	size_t sum = key_size;
	unsigned at = 0;
	for (unsigned i = 0; i < set->count; i++) {
		sum += set->entry[i].key_size;
		int order = order_of(set->entry[i].key, set->entry[i].key_size, key, key_size);
		if (order == 0)
			return false;
		if (order < 0)
			at = i + 1;
	}
	if (sum > CAIRN_BLOCK_KEY_BYTES)
		return false;
	for (unsigned i = set->count; i > at; i--)
		set->entry[i] = set->entry[i - 1];
	struct entry entry = {.key = malloc(key_size + 1), .key_size = key_size};
	if (!entry.key)
		abort();
	for (size_t i = 0; i < key_size; i++)
		entry.key[i] = key[i];
	set->entry[at] = entry;
	set->count++;
	return true;
}

enum key_shape {
	KEYS_EQUAL_LENGTH,
	KEYS_UNEVEN,
	KEYS_NESTED,
	KEYS_NUL_AND_FF,
	KEYS_LONG_PREFIX,
	KEYS_PREFIX_BORDER,
	KEYS_LARGEST,
	KEY_SHAPES
};

static const char *const key_shape_name[KEY_SHAPES] = {"equal length", "uneven", "nested",
    "NUL and 0xff", "long prefix", "prefix of 250 to 260", "largest"};

/* A key of the shape, the `serial`-th of its set. Returns its size, CAIRN_KEY_MAX at most. */
static size_t make_key(enum key_shape shape, unsigned serial, uint64_t *random, uint8_t *key)
{
	size_t size = 0, common = 0;
	switch (shape) {
	case KEYS_EQUAL_LENGTH:
		size = 16;
		break;
	case KEYS_UNEVEN:
		size = test_random(random) % 301;
		break;
	case KEYS_NESTED:
		size = common = serial;
		break;
	case KEYS_NUL_AND_FF:
		size = test_random(random) % 8;
		for (size_t i = 0; i < size; i++)
			key[i] = test_random(random) & 1 ? 0x00 : 0xff;
		return size;
	case KEYS_LONG_PREFIX:
		common = 1000;
		size = common + 6;
		break;
	case KEYS_PREFIX_BORDER:
		common = 250 + test_random(random) % 11;
		size = common + test_random(random) % 7;
		break;
	case KEYS_LARGEST:
		size = serial == 0 ? CAIRN_KEY_MAX : serial == 1;
		break;
	case KEY_SHAPES:
		abort();
	}
	for (size_t i = 0; i < size; i++)
		key[i] = i < common ? 'p' : (uint8_t)('a' + test_random(random) % 3);
	return size;
}

enum value_shape {
	VALUES_EMPTY,
	VALUES_SAME,
	VALUES_UP_TO_255,
	VALUES_UP_TO_65535,
	VALUES_BEYOND_65535,
	VALUES_BORDERS,
	VALUES_SAME_AND_LARGE,
	VALUE_SHAPES
};

static size_t make_value_size(enum value_shape shape, unsigned serial, uint64_t *random)
{
	static const size_t borders[] = {0, 255, 256, 65535, 65536};
	switch (shape) {
	case VALUES_EMPTY:
		return 0;
	case VALUES_SAME:
		return 37;
	case VALUES_UP_TO_255:
		return test_random(random) % 256;
	case VALUES_UP_TO_65535:
		return test_random(random) % 10000;
	case VALUES_BEYOND_65535:
		return serial == 1 ? 70000 : test_random(random) % 300;
	case VALUES_BORDERS:
		return borders[test_random(random) % (serial < 2 ? 5 : 3)];
	case VALUES_SAME_AND_LARGE:
		return 65536;
	case VALUE_SHAPES:
		break;
	}
	abort();
}

static void fill_values(struct set *set, enum value_shape shape, uint64_t *random)
{
	for (unsigned i = 0; i < set->count; i++) {
		struct entry *e = &set->entry[i];
		e->tombstone = set->kinds && test_random(random) % 4 == 0;
		e->value_size = e->tombstone ? 0 : make_value_size(shape, i, random);
		e->value = malloc(e->value_size + 1);
		if (!e->value)
			abort();
		uint64_t pattern = test_random(random);
		for (size_t j = 0; j < e->value_size; j++)
			e->value[j] = (uint8_t)(pattern >> j % 57);
		e->checksum = (uint32_t)test_random(random);
	}
}

/* Up to `count` entries: fewer when the shape has no more keys, or when they would not fit into a
 * block. */
static void set_make(struct set *set, enum key_shape keys, enum value_shape values, unsigned count,
    bool kinds, uint64_t *random)
{
	static uint8_t key[CAIRN_KEY_MAX];
	*set = (struct set){.kinds = kinds};
	if (values == VALUES_SAME_AND_LARGE && count > 4)
		count = 4;
	for (unsigned serial = 0; serial < 4 * count && set->count < count; serial++)
		set_insert(set, key, make_key(keys, serial, random, key));
	fill_values(set, values, random);
}

/* Calls `check` for sets of every shape and, where they are small, of every number of records. */
static void for_each_set(void (*check)(const struct set *set, uint64_t *random), uint64_t seed)
{
	for (enum key_shape keys = 0; keys < KEY_SHAPES; keys++) {
		for (enum value_shape values = 0; values < VALUE_SHAPES; values++) {
			bool large = keys == KEYS_LARGEST || values >= VALUES_BEYOND_65535;
			for (unsigned n = 1; n <= CAIRN_BLOCK_RECORDS; n += large ? 7 : 1) {
				uint64_t random = seed + keys * 1000 + values * 100 + n;
				struct set set;
				set_make(&set, keys, values, n, (n + values) % 2 == 1, &random);
				check(&set, &random);
				set_free(&set);
			}
		}
	}
}

/* The layout table, line by line. */
struct layout {
	size_t prefix;
	bool suffixes_differ;
	bool values_differ;
	unsigned value_bytes; /* of each length, when they differ */
	bool wide;
};

static size_t prefix_of(const struct set *set)
{
	for (size_t at = 0;; at++) {
		for (unsigned i = 0; i < set->count; i++) {
			const struct entry *e = &set->entry[i];
			if (at == e->key_size || e->key[at] != set->entry[0].key[at])
				return at;
		}
	}
}

static struct layout layout_of(const struct set *set)
{
	struct layout layout = {.prefix = prefix_of(set), .value_bytes = 1};
	layout.wide = layout.prefix > 255;
	for (unsigned i = 0; i < set->count; i++) {
		const struct entry *e = &set->entry[i];
		if (e->key_size != set->entry[0].key_size)
			layout.suffixes_differ = true;
		if (e->value_size != set->entry[0].value_size)
			layout.values_differ = true;
		if (e->key_size - layout.prefix > 255)
			layout.wide = true;
		if (e->value_size > 255 && layout.value_bytes < 2)
			layout.value_bytes = 2;
		if (e->value_size > 65535)
			layout.value_bytes = 4;
	}
	if (!layout.values_differ && set->entry[0].value_size > 65535)
		layout.wide = true;
	return layout;
}

static void oracle_control(const struct set *set, const struct layout *layout, struct bytes *out)
{
	unsigned control = set->count;
	if (layout->suffixes_differ)
		control += 16;
	if (layout->values_differ)
		control += layout->value_bytes == 1 ? 32 : layout->value_bytes == 2 ? 64 : 96;
	if (layout->wide)
		control += 128;
	add_byte(out, control);
	add_number(out, layout->prefix, layout->wide ? 2 : 1);
	for (unsigned i = 0; i < (layout->suffixes_differ ? set->count : 1); i++)
		add_number(out, set->entry[i].key_size - layout->prefix, layout->wide ? 2 : 1);
	if (layout->values_differ) {
		for (unsigned i = 0; i < set->count; i++)
			add_number(out, set->entry[i].value_size, layout->value_bytes);
	} else {
		add_number(out, set->entry[0].value_size, layout->wide ? 4 : 2);
	}
	if (set->kinds) {
		unsigned kinds = 0;
		for (unsigned i = 0; i < set->count; i++)
			kinds += set->entry[i].tombstone ? 1u << i : 0;
		add_number(out, kinds, 2);
	}
}

static struct bytes oracle_encode(const struct set *set, uint64_t offset)
{
	struct bytes out = {NULL, 0};
	struct layout layout = layout_of(set);
	oracle_control(set, &layout, &out);
	for (unsigned i = 0; i < set->count; i++) {
		uint32_t head = 0;
		for (size_t j = layout.prefix; j < layout.prefix + 4; j++) {
			const struct entry *e = &set->entry[i];
			head = head * 256 + (j < e->key_size ? e->key[j] : 0);
		}
		add_number(&out, head, 4);
	}
	for (size_t j = 0; j < layout.prefix; j++)
		add_byte(&out, set->entry[0].key[j]);
	for (unsigned i = 0; i < set->count; i++) {
		for (size_t j = layout.prefix + 4; j < set->entry[i].key_size; j++)
			add_byte(&out, set->entry[i].key[j]);
	}
	add_number(&out, cairn_checksum(out.data, out.size, offset), 4);
	for (unsigned i = 0; i < set->count; i++) {
		for (size_t j = 0; j < set->entry[i].value_size; j++)
			add_byte(&out, set->entry[i].value[j]);
		add_number(&out, set->entry[i].checksum, 4);
	}
	while (out.size % 8 != 0)
		add_byte(&out, 0);
	return out;
}

static void build(struct cairn_kv02_builder *builder, const struct set *set)
{
	builder->kinds = set->kinds;
	for (unsigned i = 0; i < set->count; i++) {
		const struct entry *e = &set->entry[i];
		struct cairn_record record = {
		    .key = cairn_slice_of(e->key, e->key_size),
		    .value = cairn_slice_of(e->value, e->value_size),
		    .checksum = e->checksum,
		    .kind = e->tombstone ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT,
		};
		assert_false(cairn_kv02_builder_full(builder, e->key_size, e->value_size));
		assert_int_equal(cairn_kv02_builder_add(builder, &record), 0);
	}
}

/* A heap buffer of exactly limit + SLACK bytes: the block cut at `limit`, then bytes that are not
 * zero. */
static uint8_t *image_of(const uint8_t *block, size_t size, size_t limit)
{
	uint8_t *image = malloc(limit + SLACK);
	if (!image)
		abort();
	memset(image, 0xa5, limit + SLACK);
	memcpy(image, block, size < limit ? size : limit);
	return image;
}

static const uint64_t file_offset = 0x123456780;

static void check_encoding(const struct set *set, uint64_t *random)
{
	(void)random;
	struct bytes expected = oracle_encode(set, file_offset);
	struct cairn_kv02_builder builder = {0};
	struct cairn_buffer out = {0};
	assert_int_equal(cairn_buffer_append(&out, "in front", 8), 0);
	for (int round = 0; round < 2; round++) {
		out.size = 8;
		build(&builder, set);
		cairn_slice first = cairn_kv02_builder_first_key(&builder);
		assert_int_equal(first.size, set->entry[0].key_size);
		assert_memory_equal(first.data, set->entry[0].key, first.size);
		assert_int_equal(cairn_kv02_builder_finish(&builder, file_offset, &out), 0);
		assert_int_equal(builder.count, 0);
		assert_int_equal(out.size, 8 + expected.size);
		assert_memory_equal(out.data, "in front", 8);
		assert_memory_equal(out.data + 8, expected.data, expected.size);
	}
	cairn_kv02_builder_release(&builder);
	cairn_buffer_release(&out);
	free(expected.data);
}

static void a_block_is_what_the_layout_table_says(void **state)
{
	(void)state;
	for_each_set(check_encoding, test_seed(1));
}

static void check_record(const struct cairn_kv02_block *block, unsigned i, const struct entry *e)
{
	assert_int_equal(cairn_kv02_key_size(block, i), e->key_size);
	uint8_t *key = malloc(e->key_size);
	if (!key && e->key_size)
		abort();
	cairn_kv02_key(block, i, key);
	assert_int_equal(order_of(key, e->key_size, e->key, e->key_size), 0);
	free(key);

	struct cairn_record record = {.key = {"untouched", 9}};
	cairn_kv02_record(block, i, &record);
	assert_int_equal(record.key.size, 9);
	assert_int_equal(record.value.size, e->value_size);
	assert_int_equal(memcmp(record.value.data, e->value, e->value_size), 0);
	assert_int_equal(record.checksum, e->checksum);
	assert_int_equal(record.kind, e->tombstone ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT);
}

static void check_round_trip(const struct set *set, uint64_t *random)
{
	struct bytes bytes = oracle_encode(set, file_offset);
	/* With something behind it, and as the last block of its section. */
	size_t limits[] = {bytes.size, bytes.size + 1, bytes.size + test_random(random) % 1000};
	for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
		uint8_t *image = image_of(bytes.data, bytes.size, limits[l]);
		struct cairn_kv02_block block;
		assert_int_equal(
		    cairn_kv02_open(&block, image, limits[l], file_offset, set->kinds), 0);
		assert_int_equal(block.count, set->count);
		assert_int_equal(block.size, bytes.size);
		assert_int_equal(block.offset, file_offset);
		assert_true(cairn_kv02_check_keys(&block));
		assert_true(cairn_kv02_check_padding(&block));
		for (unsigned i = 0; i < set->count; i++)
			check_record(&block, i, &set->entry[i]);
		free(image);
	}
	free(bytes.data);
}

static void what_was_written_is_read_back(void **state)
{
	(void)state;
	for_each_set(check_round_trip, test_seed(2));
}

static void a_key_of_no_bytes_needs_no_room(void **state)
{
	(void)state;
	struct set set = {.count = 0};
	uint64_t random = 1;
	set_insert(&set, NULL, 0);
	fill_values(&set, VALUES_SAME, &random);
	struct bytes bytes = oracle_encode(&set, 0);
	uint8_t *image = image_of(bytes.data, bytes.size, bytes.size);
	struct cairn_kv02_block block;
	assert_int_equal(cairn_kv02_open(&block, image, bytes.size, 0, false), 0);
	cairn_kv02_key(&block, 0, NULL);
	bool equal = false;
	assert_int_equal(cairn_kv02_lower_bound(&block, (cairn_slice){NULL, 0}, &equal), 0);
	assert_true(equal);
	free(image);
	free(bytes.data);
	set_free(&set);
}

static int sign(int n)
{
	return n < 0 ? -1 : n > 0;
}

/* Asks the block and a plain walk over the array. The key is copied to a buffer of its own size. */
static void check_query(
    const struct cairn_kv02_block *block, const struct set *set, const uint8_t *key, size_t size)
{
	uint8_t *copy = malloc(size);
	if (!copy && size)
		abort();
	if (size)
		memcpy(copy, key, size);
	unsigned expected = 0;
	while (expected < set->count &&
	       order_of(set->entry[expected].key, set->entry[expected].key_size, key, size) < 0)
		expected++;
	bool found = expected < set->count && order_of(set->entry[expected].key,
						  set->entry[expected].key_size, key, size) == 0;

	bool equal = !found;
	assert_int_equal(
	    cairn_kv02_lower_bound(block, cairn_slice_of(copy, size), &equal), expected);
	assert_int_equal(equal, found);
	for (unsigned i = 0; i < set->count; i++) {
		const struct entry *e = &set->entry[i];
		assert_int_equal(sign(cairn_kv02_compare(block, i, cairn_slice_of(copy, size))),
		    order_of(e->key, e->key_size, key, size));
	}
	free(copy);
}

/* The key itself and those next to it: longer, shorter, a byte up or down somewhere. */
static void check_neighbours(const struct cairn_kv02_block *block, const struct set *set,
    const struct entry *e, uint64_t *random)
{
	size_t size = e->key_size;
	uint8_t *key = malloc(size + 5);
	if (!key)
		abort();
	memcpy(key, e->key, size);
	for (size_t zeros = 0; zeros <= 5; zeros++) {
		if (zeros)
			key[size + zeros - 1] = 0;
		check_query(block, set, key, size + zeros);
	}
	key[size] = 0xff;
	check_query(block, set, key, size + 1);
	for (size_t cut = 1; cut <= 6 && cut <= size; cut++)
		check_query(block, set, key, size - cut);
	for (int round = 0; round < 8 && size > 0; round++) {
		size_t at = round < 2 ? size - 1 : test_random(random) % size;
		uint8_t old = key[at];
		key[at] = (uint8_t)(round & 1 ? old + 1 : old - 1);
		check_query(block, set, key, size);
		check_query(block, set, key, at + 1);
		key[at] = old;
	}
	free(key);
}

static void check_search(const struct set *set, uint64_t *random)
{
	static uint8_t key[CAIRN_KEY_MAX];
	struct bytes bytes = oracle_encode(set, file_offset);
	uint8_t *image = image_of(bytes.data, bytes.size, bytes.size);
	struct cairn_kv02_block block;
	assert_int_equal(cairn_kv02_open(&block, image, bytes.size, file_offset, set->kinds), 0);
	check_query(&block, set, NULL, 0);
	for (unsigned i = 0; i < set->count; i++)
		check_neighbours(&block, set, &set->entry[i], random);
	for (enum key_shape shape = 0; shape < KEYS_LARGEST; shape++) {
		for (unsigned serial = 0; serial < 10; serial++)
			check_query(&block, set, key, make_key(shape, serial, random, key));
	}
	free(image);
	free(bytes.data);
}

/* Values do not matter to a search: one shape of them is enough, and more seeds instead. */
static void searches_agree_with_a_sorted_array(void **state)
{
	(void)state;
	uint64_t seed = test_seed(3);
	for (enum key_shape shape = 0; shape < KEY_SHAPES; shape++) {
		print_message("keys: %s\n", key_shape_name[shape]);
		unsigned rounds = shape == KEYS_LARGEST ? 2 : 2 * CAIRN_BLOCK_RECORDS;
		for (unsigned round = 0; round < rounds; round++) {
			uint64_t random = seed + (uint64_t)shape * 1000 + round;
			struct set set;
			set_make(&set, shape, VALUES_EMPTY, 1 + round % CAIRN_BLOCK_RECORDS, false,
			    &random);
			check_search(&set, &random);
			set_free(&set);
		}
	}
}

/* Suffixes whose padded heads tie in every way that there is. */
static void zero_padded_heads_that_tie_are_told_apart(void **state)
{
	(void)state;
	uint64_t random = 4;
	for (int prefix = 0; prefix < 2; prefix++) {
		struct set set = {.count = 0};
		uint8_t key[16] = {'p', 'q'};
		for (size_t size = 0; size < 7; size++) {
			size_t start = prefix ? 2 : 0;
			memset(key + start, 0, sizeof key - start);
			assert_true(set_insert(&set, key, start + size));
			if (size > 0) {
				key[start + size - 1] = 1;
				assert_true(set_insert(&set, key, start + size));
			}
		}
		fill_values(&set, VALUES_SAME, &random);
		check_search(&set, &random);
		set_free(&set);
	}
}

static volatile uint64_t touched; /* so that no read is optimised away */

/* Reads everything that the interface can reach; what it finds is not the question. */
static void touch_all(const struct cairn_kv02_block *block)
{
	static const char *const queries[] = {"", "a", "b", "aaaa", "bbbbbbbb", "\xff\xff\xff\xff"};
	static uint8_t key[CAIRN_KEY_MAX];
	uint64_t sum = cairn_kv02_check_keys(block);
	for (unsigned i = 0; i < block->count; i++) {
		uint32_t size = cairn_kv02_key_size(block, i);
		assert_true(size <= CAIRN_KEY_MAX);
		cairn_kv02_key(block, i, key);
		bool equal;
		assert_true(cairn_kv02_lower_bound(block, cairn_slice_of(key, size), &equal) <=
			    block->count);
		unsigned mirror = block->count - 1 - i;
		sum += (uint64_t)cairn_kv02_compare(block, mirror, cairn_slice_of(key, size));
		struct cairn_record record;
		cairn_kv02_record(block, i, &record);
		const uint8_t *value = record.value.data;
		for (size_t j = 0; j < record.value.size; j++)
			sum += value[j];
		sum += record.checksum;
	}
	for (size_t q = 0; q < sizeof queries / sizeof queries[0]; q++) {
		bool equal;
		cairn_slice query = cairn_slice_of(queries[q], strlen(queries[q]));
		unsigned at = cairn_kv02_lower_bound(block, query, &equal);
		assert_true(equal ? at < block->count : at <= block->count);
	}
	touched += sum;
}

/* Sets small enough to damage every byte of them. */
static void for_each_small_set(
    void (*check)(const struct set *set, uint64_t *random), uint64_t seed)
{
	static const enum key_shape keys[] = {
	    KEYS_EQUAL_LENGTH, KEYS_UNEVEN, KEYS_NESTED, KEYS_NUL_AND_FF, KEYS_PREFIX_BORDER};
	static const enum value_shape values[] = {VALUES_EMPTY, VALUES_SAME, VALUES_UP_TO_255};
	for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
		for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
			for (unsigned n = 1; n <= CAIRN_BLOCK_RECORDS; n += k == 1 ? 2 : 7) {
				uint64_t random = seed + k * 1000 + v * 100 + n;
				struct set set;
				set_make(
				    &set, keys[k], values[v], n, (k + v + n) % 2 == 0, &random);
				check(&set, &random);
				set_free(&set);
			}
		}
	}
}

/* How many records do not have the value and checksum that they should have. */
static unsigned damaged_records(const struct cairn_kv02_block *block, const struct set *set)
{
	unsigned damaged = 0;
	for (unsigned i = 0; i < set->count; i++) {
		const struct entry *e = &set->entry[i];
		struct cairn_record record;
		cairn_kv02_record(block, i, &record);
		assert_int_equal(record.value.size, e->value_size);
		if (record.checksum != e->checksum ||
		    memcmp(record.value.data, e->value, e->value_size) != 0)
			damaged++;
	}
	return damaged;
}

static void check_flips(const struct set *set, uint64_t *random)
{
	struct bytes bytes = oracle_encode(set, file_offset);
	uint8_t *image = image_of(bytes.data, bytes.size, bytes.size);
	struct cairn_kv02_block block;
	assert_int_equal(cairn_kv02_open(&block, image, bytes.size, file_offset, set->kinds), 0);
	size_t values_at = (size_t)(block.values - image);
	size_t padding_at = values_at + block.value_start[block.count];

	for (size_t at = 0; at < bytes.size; at++) {
		const uint64_t flips[] = {0x01, 0x80, 1 + test_random(random) % 255};
		for (size_t f = 0; f < sizeof flips / sizeof flips[0]; f++) {
			image[at] = (uint8_t)(bytes.data[at] ^ flips[f]);
			int rc =
			    cairn_kv02_open(&block, image, bytes.size, file_offset, set->kinds);
			if (rc == 0)
				touch_all(&block);
			else
				assert_int_equal(rc, CAIRN_CORRUPT);
			bool believed = rc == 0 && cairn_kv02_check_keys(&block) &&
					cairn_kv02_check_padding(&block);
			assert_int_equal(believed, at >= values_at && at < padding_at);
			if (believed)
				assert_int_equal(damaged_records(&block, set), 1);
		}
		image[at] = bytes.data[at];
	}
	free(image);
	free(bytes.data);
}

static void no_flipped_byte_is_believed(void **state)
{
	(void)state;
	for_each_small_set(check_flips, test_seed(5));
}

static void check_truncations(const struct set *set, uint64_t *random)
{
	(void)random;
	struct bytes bytes = oracle_encode(set, file_offset);
	for (size_t limit = 0; limit < bytes.size; limit++) {
		uint8_t *image = image_of(bytes.data, bytes.size, limit);
		struct cairn_kv02_block block;
		assert_int_equal(
		    cairn_kv02_open(&block, image, limit, file_offset, set->kinds), CAIRN_CORRUPT);
		free(image);
	}
	free(bytes.data);
}

static void a_cut_block_does_not_open(void **state)
{
	(void)state;
	for_each_small_set(check_truncations, test_seed(6));
}

static void a_block_elsewhere_in_the_file_is_not_believed(void **state)
{
	(void)state;
	uint64_t random = test_seed(7);
	struct set set;
	set_make(&set, KEYS_EQUAL_LENGTH, VALUES_SAME, 15, false, &random);
	struct bytes bytes = oracle_encode(&set, file_offset);
	uint8_t *image = image_of(bytes.data, bytes.size, bytes.size);
	struct cairn_kv02_block block;
	assert_int_equal(cairn_kv02_open(&block, image, bytes.size, file_offset + 8, false), 0);
	assert_false(cairn_kv02_check_keys(&block));
	free(image);
	free(bytes.data);
	set_free(&set);
}

/* Somebody who can compute checksums: the structure alone must keep every read in bounds. */
static void check_forgeries(const struct set *set, uint64_t *random)
{
	struct bytes bytes = oracle_encode(set, file_offset);
	unsigned opened = 0;
	for (int round = 0; round < 300; round++) {
		size_t limit =
		    test_random(random) % 4 ? bytes.size : 1 + test_random(random) % bytes.size;
		uint8_t *image = image_of(bytes.data, bytes.size, limit);
		size_t reach = round & 1 || limit < 40 ? limit : 40;
		for (unsigned i = 0; i < 1 + test_random(random) % 4; i++)
			image[test_random(random) % reach] = (uint8_t)test_random(random);
		struct cairn_kv02_block block;
		bool kinds = test_random(random) & 1;
		if (cairn_kv02_open(&block, image, limit, file_offset, kinds) == 0) {
			assert_true(block.size <= limit);
			cairn_put32(image + block.key_area_size,
			    cairn_checksum(image, block.key_area_size, file_offset));
			touch_all(&block);
			opened++;
		}
		free(image);
	}
	assert_true(opened > 0);
	free(bytes.data);
}

static void forged_blocks_are_read_in_bounds(void **state)
{
	(void)state;
	for_each_small_set(check_forgeries, test_seed(8));
}

static void random_bytes_are_read_in_bounds(void **state)
{
	(void)state;
	uint64_t random = test_seed(9);
	for (int round = 0; round < 20000; round++) {
		size_t limit = 1 + test_random(&random) % 400;
		uint8_t *image = malloc(limit + SLACK);
		if (!image)
			abort();
		/* Small numbers: lengths that have a chance to fit. */
		unsigned mask = round & 1 ? 0xff : 0x0f;
		for (size_t i = 0; i < limit + SLACK; i++)
			image[i] = (uint8_t)(test_random(&random) & mask);
		image[0] = (uint8_t)test_random(&random);
		struct cairn_kv02_block block;
		if (cairn_kv02_open(&block, image, limit, 0, round & 2) == 0)
			touch_all(&block);
		free(image);
	}
}

/* Opens `size` bytes in front of `room` zeros. */
static int open_bytes(const uint8_t *bytes, size_t size, size_t room, bool kinds)
{
	uint8_t *image = calloc(1, size + room + SLACK);
	if (!image)
		abort();
	memcpy(image, bytes, size);
	struct cairn_kv02_block block;
	int rc = cairn_kv02_open(&block, image, size + room, 0, kinds);
	if (rc == 0)
		touch_all(&block);
	free(image);
	return rc;
}

#define OPEN(kinds, ...) \
	open_bytes(      \
	    (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), 200000, kinds)

static void impossible_structures_do_not_open(void **state)
{
	(void)state;
	/* No records. */
	assert_int_equal(OPEN(false, 0x00, 0, 0, 0, 0), CAIRN_CORRUPT);
	/* A key of 65535 bytes, and one more. */
	assert_int_equal(OPEN(false, 0x82, 0xfe, 0xff, 1, 0, 0, 0, 0, 0), 0);
	assert_int_equal(OPEN(false, 0x82, 0xff, 0xff, 1, 0, 0, 0, 0, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x92, 0xfe, 0xff, 0, 0, 1, 0, 0, 0, 0, 0), 0);
	assert_int_equal(OPEN(false, 0x92, 0xfe, 0xff, 0, 0, 2, 0, 0, 0, 0, 0), CAIRN_CORRUPT);
	/* Two keys that are the same; one that is not all prefix. */
	assert_int_equal(OPEN(false, 0x02, 3, 0, 0, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x12, 3, 0, 0, 0, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x01, 3, 1, 0, 0), CAIRN_CORRUPT);
	/* Kinds: bits of records that are not there, a tombstone with a value. */
	assert_int_equal(OPEN(true, 0x02, 3, 1, 0, 0, 0x03, 0x00), 0);
	assert_int_equal(OPEN(true, 0x02, 3, 1, 0, 0, 0x04, 0x00), CAIRN_CORRUPT);
	assert_int_equal(OPEN(true, 0x02, 3, 1, 0, 0, 0x00, 0x80), CAIRN_CORRUPT);
	assert_int_equal(OPEN(true, 0x02, 3, 1, 1, 0, 0x01, 0x00), CAIRN_CORRUPT);
	assert_int_equal(OPEN(true, 0x22, 3, 1, 0, 1, 0x01, 0x00), 0);
	assert_int_equal(OPEN(true, 0x22, 3, 1, 0, 1, 0x02, 0x00), CAIRN_CORRUPT);
}

static void forms_larger_than_needed_do_not_open(void **state)
{
	(void)state;
	/* Lengths written one by one that are all the same. */
	assert_int_equal(OPEN(false, 0x12, 3, 1, 1, 0, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x22, 3, 1, 7, 7), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x21, 3, 0, 7), CAIRN_CORRUPT);
	/* u16 where u8 would do, u32 where u16 would. */
	assert_int_equal(OPEN(false, 0x42, 3, 1, 7, 0, 0, 1), 0);
	assert_int_equal(OPEN(false, 0x42, 3, 1, 7, 0, 255, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x62, 3, 1, 7, 0, 0, 0, 0, 0, 1, 0), 0);
	assert_int_equal(OPEN(false, 0x62, 3, 1, 7, 0, 0, 0, 255, 255, 0, 0), CAIRN_CORRUPT);
	/* Wide for nothing: prefix, suffix or the one value length must need it. */
	assert_int_equal(OPEN(false, 0x82, 255, 0, 255, 0, 255, 255, 0, 0), CAIRN_CORRUPT);
	assert_int_equal(OPEN(false, 0x82, 0, 1, 255, 0, 255, 255, 0, 0), 0);
	assert_int_equal(OPEN(false, 0x82, 255, 0, 0, 1, 255, 255, 0, 0), 0);
	assert_int_equal(OPEN(false, 0x82, 255, 0, 255, 0, 0, 0, 1, 0), 0);
	assert_int_equal(OPEN(false, 0xe2, 3, 0, 1, 0, 7, 0, 0, 0, 0, 0, 1, 0), CAIRN_CORRUPT);
}

static void lengths_that_add_up_to_too_much_do_not_wrap(void **state)
{
	(void)state;
	uint8_t bytes[128];
	memset(bytes, 0xff, sizeof bytes);
	for (unsigned control = 1; control < 256; control++) {
		bytes[0] = (uint8_t)control;
		for (size_t limit = 0; limit <= sizeof bytes; limit++) {
			for (int kinds = 0; kinds < 2; kinds++) {
				uint8_t *image = image_of(bytes, sizeof bytes, limit);
				struct cairn_kv02_block block;
				assert_int_equal(
				    cairn_kv02_open(&block, image, limit, 0, kinds), CAIRN_CORRUPT);
				free(image);
			}
		}
	}
	/* Four of the largest values and an empty one: a sum that is small modulo 2^32. */
	uint8_t sum[200] = {0x65, 0, 1};
	for (unsigned i = 0; i < 4; i++)
		cairn_put32(sum + 3 + 4 * i, CAIRN_VALUE_MAX);
	struct cairn_kv02_block block;
	size_t limit = sizeof sum - SLACK;
	assert_int_equal(cairn_kv02_open(&block, sum, limit, 0, false), CAIRN_CORRUPT);
	assert_int_equal(cairn_kv02_open(&block, sum, SIZE_MAX / 2, 0, false), 0);
	assert_true(block.size > UINT32_MAX);
}

/* At a limit without end, so that nothing but the length itself is wrong. */
static void a_value_above_its_limit_does_not_open(void **state)
{
	(void)state;
	uint8_t alone[SLACK * 2] = {0x81}, together[SLACK * 2] = {0x62, 0, 1};
	struct cairn_kv02_block block;
	cairn_put32(alone + 5, CAIRN_VALUE_MAX);
	cairn_put32(together + 3, CAIRN_VALUE_MAX);
	assert_int_equal(cairn_kv02_open(&block, alone, SIZE_MAX / 2, 0, false), 0);
	assert_true(block.size > CAIRN_VALUE_MAX);
	assert_int_equal(cairn_kv02_open(&block, alone, CAIRN_VALUE_MAX, 0, false), CAIRN_CORRUPT);
	assert_int_equal(cairn_kv02_open(&block, together, SIZE_MAX / 2, 0, false), 0);
	cairn_put32(alone + 5, CAIRN_VALUE_MAX + 1);
	cairn_put32(together + 3, CAIRN_VALUE_MAX + 1);
	assert_int_equal(cairn_kv02_open(&block, alone, SIZE_MAX / 2, 0, false), CAIRN_CORRUPT);
	assert_int_equal(cairn_kv02_open(&block, together, SIZE_MAX / 2, 0, false), CAIRN_CORRUPT);
}

static void add_sizes(struct cairn_kv02_builder *builder, size_t key_size, size_t value_size)
{
	uint8_t *zeros = calloc(1, key_size + value_size + 1);
	if (!zeros)
		abort();
	struct cairn_record record = {.key = cairn_slice_of(zeros, key_size),
	    .value = cairn_slice_of(zeros, value_size),
	    .kind = CAIRN_KIND_PUT};
	assert_int_equal(cairn_kv02_builder_add(builder, &record), 0);
	free(zeros);
}

static void fifteen_records_fill_a_block(void **state)
{
	(void)state;
	struct cairn_kv02_builder builder = {0};
	for (unsigned i = 0; i < CAIRN_BLOCK_RECORDS; i++) {
		assert_false(cairn_kv02_builder_full(&builder, i, 0));
		add_sizes(&builder, i, 0);
	}
	assert_true(cairn_kv02_builder_full(&builder, 0, 0));
	cairn_kv02_builder_release(&builder);
	assert_false(cairn_kv02_builder_full(&builder, 0, 0));
}

static void values_fill_a_block_when_the_next_would_pass_256_kib(void **state)
{
	(void)state;
	struct cairn_kv02_builder builder = {0};
	add_sizes(&builder, 1, 200000);
	add_sizes(&builder, 2, 62143);
	assert_false(cairn_kv02_builder_full(&builder, 3, 1));
	assert_true(cairn_kv02_builder_full(&builder, 3, 2));
	assert_true(cairn_kv02_builder_full(&builder, 3, SIZE_MAX));
	add_sizes(&builder, 3, 1);
	assert_false(cairn_kv02_builder_full(&builder, 4, 0));
	assert_true(cairn_kv02_builder_full(&builder, 4, 1));
	cairn_kv02_builder_release(&builder);
}

static void keys_fill_a_block_when_the_next_would_pass_64_kib(void **state)
{
	(void)state;
	struct cairn_kv02_builder builder = {0};
	add_sizes(&builder, 1, 0);
	add_sizes(&builder, 2, 0);
	assert_false(cairn_kv02_builder_full(&builder, 65533, 0));
	assert_true(cairn_kv02_builder_full(&builder, 65534, 0));
	assert_true(cairn_kv02_builder_full(&builder, SIZE_MAX, 0));
	add_sizes(&builder, 65533, 0);
	assert_true(cairn_kv02_builder_full(&builder, 1, 0));
	cairn_kv02_builder_release(&builder);
}

static void a_larger_record_stands_alone(void **state)
{
	(void)state;
	struct cairn_kv02_builder builder = {0};
	struct cairn_buffer out = {0};
	size_t large = 5 * (size_t)CAIRN_BLOCK_VALUE_BYTES;
	assert_false(cairn_kv02_builder_full(&builder, CAIRN_KEY_MAX, CAIRN_VALUE_MAX));
	add_sizes(&builder, 1, large);
	assert_true(cairn_kv02_builder_full(&builder, 2, 0));
	assert_int_equal(cairn_kv02_builder_finish(&builder, 0, &out), 0);
	assert_true(builder.values.capacity < large);
	struct cairn_kv02_block block;
	assert_int_equal(cairn_buffer_append(&out, NULL, SLACK), 0);
	assert_int_equal(cairn_kv02_open(&block, out.data, out.size - SLACK, 0, false), 0);
	struct cairn_record record;
	cairn_kv02_record(&block, 0, &record);
	assert_int_equal(record.value.size, large);
	cairn_buffer_release(&out);
	cairn_kv02_builder_release(&builder);
}

/* A buffer that cannot grow: it says that all the address space is taken. */
static struct cairn_buffer exhausted(void)
{
	return (struct cairn_buffer){.size = PTRDIFF_MAX, .capacity = PTRDIFF_MAX};
}

static void without_memory_nothing_changes(void **state)
{
	(void)state;
	uint64_t random = test_seed(10);
	struct set set;
	set_make(&set, KEYS_UNEVEN, VALUES_UP_TO_255, 10, true, &random);
	struct bytes expected = oracle_encode(&set, file_offset);
	struct cairn_kv02_builder builder = {0};
	struct cairn_buffer out = exhausted();

	builder.values = exhausted();
	struct cairn_record record = {.key = {"key", 3}, .kind = CAIRN_KIND_PUT};
	assert_true(cairn_kv02_builder_add(&builder, &record) < 0);
	assert_int_equal(builder.count, 0);
	assert_int_equal(builder.keys.size, 0);
	builder.values = (struct cairn_buffer){0};

	build(&builder, &set);
	assert_true(cairn_kv02_builder_finish(&builder, file_offset, &out) < 0);
	assert_int_equal(out.size, PTRDIFF_MAX);
	out = (struct cairn_buffer){0};
	assert_int_equal(cairn_kv02_builder_finish(&builder, file_offset, &out), 0);
	assert_int_equal(out.size, expected.size);
	assert_memory_equal(out.data, expected.data, expected.size);
	cairn_buffer_release(&out);
	cairn_kv02_builder_release(&builder);
	free(expected.data);
	set_free(&set);
}

/* Bytes that stand in files: they never change, whatever encoder and oracle agree on. */
static void known_records_have_known_bytes(void **state)
{
	(void)state;
	static const uint8_t expected[] = {
	    0x33, 0x04,             /* 3 records, suffix lengths differ, u8 value lengths; prefix */
	    0x00, 0x01, 0x06,       /* suffix lengths */
	    0x02, 0x00, 0x01,       /* value lengths */
	    0x02, 0x00,             /* record 1 is a tombstone */
	    0x00, 0x00, 0x00, 0x00, /* heads: "" */
	    0x00, 0x00, 0x00, '1',  /* "1" */
	    'e', 'r', 't', 's',     /* "stre" */
	    'k', 'e', 'y', ':',     /* prefix */
	    'e', 't',               /* tails */
	    0x5d, 0x02, 0x94, 0x1b, /* checksum, seeded with the offset */
	    'v', '0', 0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 'w', 0x33, 0x33, 0x33, 0x33,
	    0x00, /* padding */
	};
	const struct cairn_record records[] = {
	    {{"key:", 4}, {"v0", 2}, 0x11111111, CAIRN_KIND_PUT},
	    {{"key:1", 5}, {NULL, 0}, 0x22222222, CAIRN_KIND_DELETE},
	    {{"key:street", 10}, {"w", 1}, 0x33333333, CAIRN_KIND_PUT},
	};
	struct cairn_kv02_builder builder = {.kinds = true};
	struct cairn_buffer out = {0};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(cairn_kv02_builder_add(&builder, &records[i]), 0);
	assert_int_equal(cairn_kv02_builder_finish(&builder, 4096, &out), 0);
	assert_int_equal(out.size, sizeof expected);
	assert_memory_equal(out.data, expected, sizeof expected);
	cairn_buffer_release(&out);
	cairn_kv02_builder_release(&builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_block_is_what_the_layout_table_says),
	    cmocka_unit_test(known_records_have_known_bytes),
	    cmocka_unit_test(what_was_written_is_read_back),
	    cmocka_unit_test(a_key_of_no_bytes_needs_no_room),
	    cmocka_unit_test(searches_agree_with_a_sorted_array),
	    cmocka_unit_test(zero_padded_heads_that_tie_are_told_apart),
	    cmocka_unit_test(no_flipped_byte_is_believed),
	    cmocka_unit_test(a_cut_block_does_not_open),
	    cmocka_unit_test(a_block_elsewhere_in_the_file_is_not_believed),
	    cmocka_unit_test(forged_blocks_are_read_in_bounds),
	    cmocka_unit_test(random_bytes_are_read_in_bounds),
	    cmocka_unit_test(impossible_structures_do_not_open),
	    cmocka_unit_test(forms_larger_than_needed_do_not_open),
	    cmocka_unit_test(lengths_that_add_up_to_too_much_do_not_wrap),
	    cmocka_unit_test(a_value_above_its_limit_does_not_open),
	    cmocka_unit_test(fifteen_records_fill_a_block),
	    cmocka_unit_test(values_fill_a_block_when_the_next_would_pass_256_kib),
	    cmocka_unit_test(keys_fill_a_block_when_the_next_would_pass_64_kib),
	    cmocka_unit_test(a_larger_record_stands_alone),
	    cmocka_unit_test(without_memory_nothing_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
