/*
 * Tests of format/seek_tree. The oracle is a walk over the whole first keys.
 */
#include "tests/test.h"

#include "format/checksum.h"
#include "format/seek_tree.h"

#define FIRST_OFFSET 128u

/* First keys of blocks, ascending and distinct, with offsets; the last key of the run is the last
 * one's. */
struct keys {
	cairn_slice *key;
	uint64_t *offset;
	size_t count;
	cairn_slice last;
	uint64_t limit;
};

struct section {
	struct cairn_buffer bytes;
	struct cairn_seek_tree tree;
};

static int compare_slices(const void *a, const void *b)
{
	return cairn_key_compare(*(const cairn_slice *)a, *(const cairn_slice *)b);
}

static cairn_slice new_key(const void *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	assert_non_null(copy);
	if (size)
		memcpy(copy, data, size);
	return cairn_slice_of(copy, size);
}

/* Shapes of keys: `make` writes key number i (any order, repeats are dropped). */
typedef size_t make_key(uint8_t *key, size_t i, uint64_t *random);

static size_t make_random(uint8_t *key, size_t i, uint64_t *random)
{
	(void)i;
	size_t size = test_random(random) % 20; /* the empty key too */
	for (size_t j = 0; j < size; j++)
		key[j] = (uint8_t)test_random(random);
	return size;
}

static size_t make_counter(uint8_t *key, size_t i, uint64_t *random)
{
	(void)random;
	return (size_t)snprintf((char *)key, 64, "user/%012zu/profile", i * 7);
}

/* a, aa, aaa, …: each key is a prefix of the next. */
static size_t make_nested(uint8_t *key, size_t i, uint64_t *random)
{
	(void)random;
	size_t size = i % 1000;
	memset(key, 'a', size);
	return size;
}

/* Many keys that agree in 8 bytes behind what they share. */
static size_t make_ties(uint8_t *key, size_t i, uint64_t *random)
{
	size_t size = (size_t)snprintf((char *)key, 64, "%02zu........%08zu", i / 5000, i);
	key[size] = (uint8_t)test_random(random);
	return size + 1;
}

/* Common prefixes beyond what an lcp can say. */
static size_t make_long_prefix(uint8_t *key, size_t i, uint64_t *random)
{
	memset(key, 'p', 400);
	key[100] = (uint8_t)('p' + i % 3);
	for (size_t j = 0; j < 6; j++)
		key[300 + j] = (uint8_t)test_random(random);
	return 306;
}

/* Zero and 0xff bytes only: where padding and heads look alike. */
static size_t make_extremes(uint8_t *key, size_t i, uint64_t *random)
{
	(void)i;
	size_t size = test_random(random) % 18;
	for (size_t j = 0; j < size; j++)
		key[j] = test_random(random) & 1 ? 0xff : 0;
	return size;
}

static void drop_repeats(struct keys *keys)
{
	size_t kept = 0;
	for (size_t i = 0; i < keys->count; i++) {
		if (kept > 0 && cairn_key_equal(keys->key[i], keys->key[kept - 1]))
			free((void *)(uintptr_t)keys->key[i].data);
		else
			keys->key[kept++] = keys->key[i];
	}
	keys->count = kept;
}

static struct keys make_keys(size_t count, make_key *make, uint64_t *random)
{
	uint8_t bytes[1024];
	struct keys keys = {.count = count};
	keys.key = calloc(count, sizeof *keys.key);
	keys.offset = calloc(count, sizeof *keys.offset);
	assert_true(keys.key && keys.offset);
	for (size_t i = 0; i < count; i++) {
		size_t size = make(bytes, i, random);
		keys.key[i] = new_key(bytes, size);
	}
	qsort(keys.key, count, sizeof *keys.key, compare_slices);
	drop_repeats(&keys);
	keys.limit = FIRST_OFFSET;
	for (size_t i = 0; i < keys.count; i++) {
		keys.offset[i] = keys.limit;
		keys.limit += 8 * (1 + test_random(random) % 300);
	}
	keys.last = keys.key[keys.count - 1];
	return keys;
}

static void free_keys(struct keys *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free((void *)(uintptr_t)keys->key[i].data);
	free(keys->key);
	free(keys->offset);
}

static struct section make_section(const struct keys *keys)
{
	struct section section = {0};
	struct cairn_seek_builder *builder;
	assert_int_equal(cairn_seek_builder_new(&builder), 0);
	for (size_t i = 0; i < keys->count; i++)
		assert_int_equal(cairn_seek_builder_add(builder, keys->key[i], keys->offset[i]), 0);
	assert_int_equal(cairn_seek_builder_finish(builder, keys->last, &section.bytes), 0);
	cairn_seek_builder_free(builder);
	assert_int_equal(
	    cairn_seek_open(&section.tree, section.bytes.data, section.bytes.size, keys->count), 0);
	return section;
}

/* The last block whose first key is <= `key`. */
static size_t oracle(const struct keys *keys, cairn_slice key)
{
	size_t found = 0;
	for (size_t i = 0; i < keys->count; i++) {
		if (cairn_key_compare(keys->key[i], key) <= 0)
			found = i;
	}
	return found;
}

/*
 * Whether no heads can tie around block `right` for `key`: everything that could be compared
 * differs within the 4 bytes (the fewest that a word keeps) behind what is shared with a neighbour,
 * in the 255 bytes that an lcp reaches.
 */
static bool decided_early(const struct keys *keys, cairn_slice key, size_t right)
{
	if (right + 1 == keys->count)
		return true;
	cairn_slice next = keys->key[right + 1];
	size_t common = cairn_key_common(key, next);
	return common < 4 && common < next.size && common < key.size;
}

static void check_query(
    const struct keys *keys, const struct cairn_seek_tree *tree, cairn_slice key, size_t right)
{
	uint64_t found = cairn_seek_find(tree, key);
	assert_true(found >= right && found < keys->count);
	assert_int_equal(cairn_seek_offset(tree, found), keys->offset[found]);
	if (decided_early(keys, key, right))
		assert_int_equal(found, right);
}

static bool in_bounds(const struct keys *keys, cairn_slice key)
{
	return cairn_key_compare(key, keys->key[0]) >= 0 && cairn_key_compare(key, keys->last) <= 0;
}

/* Queries around first keys: the key itself, a little more, a little less. */
static void check_around(const struct keys *keys, const struct cairn_seek_tree *tree, size_t i)
{
	uint8_t bytes[1100];
	size_t size = keys->key[i].size;
	if (size)
		memcpy(bytes, keys->key[i].data, size);
	check_query(keys, tree, keys->key[i], i);

	bytes[size] = 0;
	cairn_slice above = cairn_slice_of(bytes, size + 1);
	if (in_bounds(keys, above))
		check_query(keys, tree, above,
		    i + (i + 1 < keys->count && cairn_key_equal(above, keys->key[i + 1])));
	memset(bytes + size, 0xff, 20);
	cairn_slice far_above = cairn_slice_of(bytes, size + 20);
	if (in_bounds(keys, far_above))
		check_query(keys, tree, far_above, oracle(keys, far_above));
	if (size > 0) {
		cairn_slice below = cairn_slice_of(bytes, size - 1);
		if (in_bounds(keys, below))
			check_query(keys, tree, below, oracle(keys, below));
	}
}

static void check_shape(size_t count, make_key *make, uint64_t *random)
{
	struct keys keys = make_keys(count, make, random);
	struct section section = make_section(&keys);
	assert_int_equal(section.bytes.size % 128, 0);
	assert_true(cairn_seek_check(&section.tree, FIRST_OFFSET, keys.limit));

	for (size_t i = 0; i < keys.count; i++)
		check_query(&keys, &section.tree, keys.key[i], i);
	size_t step = keys.count / 200 + 1;
	for (size_t i = 0; i < keys.count; i += step)
		check_around(&keys, &section.tree, i);
	check_around(&keys, &section.tree, keys.count - 1);
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

static const size_t sizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097};

static void check_sizes(make_key *make)
{
	uint64_t random = test_seed(1);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_shape(sizes[i], make, &random);
}

static void search_is_right_or_to_the_right_with_random_keys(void **state)
{
	(void)state;
	check_sizes(make_random);
}

static void search_is_right_or_to_the_right_with_counters(void **state)
{
	(void)state;
	check_sizes(make_counter);
}

static void search_is_right_or_to_the_right_with_nested_prefixes(void **state)
{
	(void)state;
	check_sizes(make_nested);
}

static void search_is_right_or_to_the_right_with_ties(void **state)
{
	(void)state;
	check_sizes(make_ties);
}

static void search_is_right_or_to_the_right_with_long_prefixes(void **state)
{
	(void)state;
	check_sizes(make_long_prefix);
}

static void search_is_right_or_to_the_right_with_extremes(void **state)
{
	(void)state;
	check_sizes(make_extremes);
}

static void five_levels_of_nodes_find_every_block(void **state)
{
	(void)state;
	uint64_t random = test_seed(2);
	check_shape(70000, make_counter, &random);
	check_shape(70000, make_random, &random);
}

/* Keys that differ from each neighbour within a head's 32 certain bits: no tie, so no error at all.
 */
static void search_is_exact_without_ties(void **state)
{
	(void)state;
	uint64_t random = test_seed(3);
	struct keys keys = {.count = 5000};
	keys.key = calloc(keys.count, sizeof *keys.key);
	keys.offset = calloc(keys.count, sizeof *keys.offset);
	assert_true(keys.key && keys.offset);
	keys.limit = FIRST_OFFSET;
	for (size_t i = 0; i < keys.count; i++) {
		char bytes[16];
		snprintf(bytes, sizeof bytes, "%c%c%c%cx", (int)('A' + i / 1000),
		    (int)('0' + i / 100 % 10), (int)('0' + i / 10 % 10), (int)('0' + i % 10));
		keys.key[i] = new_key(bytes, 5);
		keys.offset[i] = keys.limit;
		keys.limit += 8;
	}
	keys.last = keys.key[keys.count - 1];
	struct section section = make_section(&keys);
	for (size_t i = 0; i < keys.count; i++) {
		assert_int_equal(cairn_seek_find(&section.tree, keys.key[i]), i);
		uint8_t above[6];
		memcpy(above, keys.key[i].data, 5);
		above[5] = (uint8_t)test_random(&random);
		if (i + 1 < keys.count)
			assert_int_equal(
			    cairn_seek_find(&section.tree, cairn_slice_of(above, 6)), i);
	}
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

static void padding_is_never_found(void **state)
{
	(void)state;
	uint64_t random = test_seed(4);
	uint8_t query[300];
	memset(query, 0xff, sizeof query);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct keys keys = make_keys(sizes[i], make_extremes, &random);
		struct section section = make_section(&keys);
		for (size_t size = 0; size <= sizeof query; size += 7)
			assert_true(cairn_seek_find(&section.tree, cairn_slice_of(query, size)) <
				    keys.count);
		cairn_buffer_release(&section.bytes);
		free_keys(&keys);
	}
}

/* The layout of the header's comment, byte by byte, for 17 blocks: words, one level. */
static void section_has_the_documented_layout(void **state)
{
	(void)state;
	uint64_t random = test_seed(5);
	struct keys keys = make_keys(17, make_counter, &random);
	struct section section = make_section(&keys);
	const uint8_t *bytes = section.bytes.data;
	assert_int_equal(section.bytes.size, 128 + 256 + 128 + 128);
	assert_int_equal(cairn_get64(bytes), 17);
	unsigned bits = bytes[8];
	assert_true(keys.offset[16] / 8 < UINT64_C(1) << bits);
	assert_true(keys.offset[16] / 8 >= UINT64_C(1) << (bits - 1));
	assert_int_equal(bytes[9], 1);
	size_t lcp = cairn_key_common(keys.key[0], keys.key[16]);
	assert_int_equal(bytes[10], lcp);
	for (unsigned i = 11; i < 128; i++)
		assert_int_equal(bytes[i], 0);

	uint64_t mask = (UINT64_C(1) << bits) - 1;
	for (unsigned i = 0; i < 32; i++) {
		uint64_t word = cairn_get64(bytes + 128 + (size_t)i * 8);
		size_t at = i < 16 ? lcp : keys.key[16].size; /* the last node holds one key */
		uint64_t want = UINT64_MAX;
		if (i < 17)
			want = (cairn_key_head(keys.key[i], at) & ~mask) | keys.offset[i] / 8;
		assert_int_equal(word, want);
	}
	for (unsigned i = 0; i < 16; i++) {
		uint64_t want = UINT64_MAX;
		if (i < 2)
			want = cairn_key_head(keys.key[i * 16], lcp);
		assert_int_equal(cairn_get64(bytes + 384 + (size_t)i * 8), want);
	}
	assert_int_equal(bytes[512], lcp);
	assert_int_equal(bytes[513], keys.key[16].size);
	for (unsigned i = 514; i < 640; i++)
		assert_int_equal(bytes[i], 0);
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

static void open_refuses_other_sizes_and_counts(void **state)
{
	(void)state;
	uint64_t random = test_seed(6);
	struct keys keys = make_keys(300, make_counter, &random);
	struct section section = make_section(&keys);
	struct cairn_seek_tree tree;
	for (size_t size = 0; size < section.bytes.size; size++) {
		uint8_t *cut = malloc(size + 1);
		assert_non_null(cut);
		memcpy(cut, section.bytes.data, size);
		assert_int_equal(cairn_seek_open(&tree, cut, size, keys.count), CAIRN_CORRUPT);
		free(cut);
	}
	const uint64_t counts[] = {0, 1, 16, 288, 305, 4096, UINT64_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		cairn_put64(section.bytes.data, counts[i]);
		assert_int_equal(
		    cairn_seek_open(&tree, section.bytes.data, section.bytes.size, counts[i]),
		    CAIRN_CORRUPT);
	}
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

/* Damage to the header is refused by open, to offsets or padding by check; what gets through must
 * not lead a search out of the tree. */
static void damage_never_leads_out_of_the_tree(void **state)
{
	(void)state;
	uint64_t random = test_seed(7);
	struct keys keys = make_keys(300, make_random, &random);
	struct section section = make_section(&keys);
	for (size_t i = 0; i < section.bytes.size; i++) {
		uint8_t flip = (uint8_t)(1u << test_random(&random) % 8);
		section.bytes.data[i] ^= flip;
		struct cairn_seek_tree tree;
		if (cairn_seek_open(&tree, section.bytes.data, section.bytes.size, keys.count) ==
		    0) {
			for (size_t k = 0; k < keys.count; k += 13)
				assert_true(cairn_seek_find(&tree, keys.key[k]) < keys.count);
		}
		section.bytes.data[i] ^= flip;
	}
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

static bool check_with(struct section *section, size_t at, uint8_t flip, const struct keys *keys)
{
	section->bytes.data[at] ^= flip;
	bool good = cairn_seek_check(&section->tree, FIRST_OFFSET, keys->limit);
	section->bytes.data[at] ^= flip;
	return good;
}

static void check_sees_offsets_and_padding(void **state)
{
	(void)state;
	uint64_t random = test_seed(8);
	struct keys keys = make_keys(300, make_counter, &random);
	struct section section = make_section(&keys);
	size_t levels = 128 + 304 * 8;
	assert_false(check_with(&section, 128, 0x20, &keys));               /* first offset */
	assert_false(check_with(&section, 128 + 299 * 8 + 1, 0x80, &keys)); /* last offset */
	assert_false(check_with(&section, 128 + 300 * 8, 1, &keys));        /* padding of words */
	assert_false(check_with(&section, levels + 32 * 8 - 1, 1, &keys));  /* of heads */
	assert_false(check_with(&section, levels + 32 * 8 + 19, 1, &keys)); /* of lcps */
	assert_true(check_with(&section, 128, 0, &keys));
	assert_false(cairn_seek_check(&section.tree, FIRST_OFFSET + 8, keys.limit));
	assert_false(cairn_seek_check(&section.tree, FIRST_OFFSET, keys.offset[299]));
	cairn_buffer_release(&section.bytes);
	free_keys(&keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(search_is_right_or_to_the_right_with_random_keys),
	    cmocka_unit_test(search_is_right_or_to_the_right_with_counters),
	    cmocka_unit_test(search_is_right_or_to_the_right_with_nested_prefixes),
	    cmocka_unit_test(search_is_right_or_to_the_right_with_ties),
	    cmocka_unit_test(search_is_right_or_to_the_right_with_long_prefixes),
	    cmocka_unit_test(search_is_right_or_to_the_right_with_extremes),
	    cmocka_unit_test(five_levels_of_nodes_find_every_block),
	    cmocka_unit_test(search_is_exact_without_ties),
	    cmocka_unit_test(padding_is_never_found),
	    cmocka_unit_test(section_has_the_documented_layout),
	    cmocka_unit_test(open_refuses_other_sizes_and_counts),
	    cmocka_unit_test(damage_never_leads_out_of_the_tree),
	    cmocka_unit_test(check_sees_offsets_and_padding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
