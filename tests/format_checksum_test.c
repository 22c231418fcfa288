/*
 * tests/format_checksum_test.c -- hashes and checksums that stand in files, so they may never
 * change.
 */
#include "tests/test.h"

#include "format/checksum.h"

#define SEED UINT64_C(0x0123456789abcdef)

/* XXH3 takes another path at each of these sizes. Byte i of the input is 7 i + 1. */
static const struct {
	size_t size;
	uint64_t seed;
	uint64_t hash;
} hashes[] = {
    {0, 0, UINT64_C(0x2d06800538d394c2)},
    {1, 0, UINT64_C(0xe12ef9d2eb86ceeb)},
    {3, 0, UINT64_C(0x5c83885a0fb5d516)},
    {4, 0, UINT64_C(0x244f36de481e7522)},
    {8, 0, UINT64_C(0x96cc97a6768fd7a9)},
    {9, 0, UINT64_C(0x4781d83b8e99d495)},
    {16, 0, UINT64_C(0x913bd4a8038027a7)},
    {17, 0, UINT64_C(0x2bf6f66973a6179d)},
    {128, 0, UINT64_C(0xc4399c7829d0628f)},
    {129, 0, UINT64_C(0x8433489056750b32)},
    {240, 0, UINT64_C(0x3c0bb96864e543a1)},
    {241, 0, UINT64_C(0xbff7215089202d8f)},
    {1024, 0, UINT64_C(0xac8e32e4ea3ba062)},
    {0, SEED, UINT64_C(0xcc1ca35a1b089c5c)},
    {1, SEED, UINT64_C(0xd2736045b9a2490d)},
    {3, SEED, UINT64_C(0x11365ce648dc7635)},
    {4, SEED, UINT64_C(0x28d99f64fc66e532)},
    {8, SEED, UINT64_C(0xcb86ef9e93670a9c)},
    {9, SEED, UINT64_C(0x5ac558fc81143731)},
    {16, SEED, UINT64_C(0x15858679e82eb84b)},
    {17, SEED, UINT64_C(0x389ca3975c0b4bd0)},
    {128, SEED, UINT64_C(0x512b0e9e14050cdb)},
    {129, SEED, UINT64_C(0x04799dffb66b5964)},
    {240, SEED, UINT64_C(0x3a6140889d4ae6a9)},
    {241, SEED, UINT64_C(0xf9117ad03e1517c7)},
    {1024, SEED, UINT64_C(0x98c81a8c34144782)},
};

static void hashes_are_known(void **state)
{
	(void)state;
	uint8_t bytes[1024];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(7 * i + 1);
	for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
		uint64_t seed = hashes[i].seed, hash = hashes[i].hash;
		assert_true(cairn_hash(bytes, hashes[i].size, seed) == hash);
		assert_int_equal(cairn_checksum(bytes, hashes[i].size, seed), hash & 0xffffffff);
		assert_true(cairn_key_hash(cairn_slice_of(bytes, hashes[i].size), seed) == hash);
	}
}

static void the_empty_slice_needs_no_address(void **state)
{
	(void)state;
	assert_true(cairn_hash(NULL, 0, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(cairn_key_hash((cairn_slice){NULL, 0}, 0) == UINT64_C(0x2d06800538d394c2));
	assert_int_equal(cairn_record_checksum(0, CAIRN_KIND_DELETE, (cairn_slice){NULL, 0}),
	    cairn_record_checksum(0, CAIRN_KIND_DELETE, (cairn_slice){"", 0}));
}

static uint32_t record_checksum(
    const char *key, enum cairn_kind kind, const char *value, uint64_t seed)
{
	uint64_t hash = cairn_key_hash(cairn_slice_of(key, strlen(key)), seed);
	return cairn_record_checksum(hash, kind, cairn_slice_of(value, strlen(value)));
}

static void record_checksums_are_known(void **state)
{
	(void)state;
	assert_int_equal(record_checksum("", CAIRN_KIND_PUT, "", 0), 0x608830b4);
	assert_int_equal(record_checksum("key", CAIRN_KIND_PUT, "value", 0), 0xc6aed2b9);
	assert_int_equal(record_checksum("key", CAIRN_KIND_DELETE, "", 0), 0xdca4b678);
	assert_int_equal(record_checksum("key", CAIRN_KIND_PUT, "value", SEED), 0x034c5959);
	assert_int_equal(record_checksum("", CAIRN_KIND_PUT, "value", SEED), 0x457c8e9c);
}

static void key_kind_value_and_store_are_bound_together(void **state)
{
	(void)state;
	static const char *const keys[] = {"", "k", "l", "kk"};
	static const char *const values[] = {"", "k", "v", "vv"};
	static const enum cairn_kind kinds[] = {CAIRN_KIND_PUT, CAIRN_KIND_DELETE};
	static const uint64_t seeds[] = {0, 1, 3, SEED};
	uint32_t seen[4 * 4 * 2 * 4];
	size_t count = 0;
	for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
		uint32_t checksum = record_checksum(
		    keys[i % 4], kinds[i / 16 % 2], values[i / 4 % 4], seeds[i / 32]);
		for (size_t j = 0; j < count; j++)
			assert_int_not_equal(checksum, seen[j]);
		seen[count++] = checksum;
	}
}

static void every_flipped_bit_of_a_record_shows(void **state)
{
	(void)state;
	uint8_t key[20], value[100];
	uint64_t random = test_seed(1);
	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (uint8_t)test_random(&random);
	for (size_t i = 0; i < sizeof value; i++)
		value[i] = (uint8_t)test_random(&random);
	cairn_slice k = cairn_slice_of(key, sizeof key), v = cairn_slice_of(value, sizeof value);
	uint32_t right = cairn_record_checksum(cairn_key_hash(k, SEED), CAIRN_KIND_PUT, v);
	for (size_t bit = 0; bit < 8 * (sizeof key + sizeof value); bit++) {
		uint8_t *byte = bit / 8 < sizeof key ? &key[bit / 8] : &value[bit / 8 - sizeof key];
		*byte = (uint8_t)(*byte ^ 1u << bit % 8);
		assert_int_not_equal(
		    cairn_record_checksum(cairn_key_hash(k, SEED), CAIRN_KIND_PUT, v), right);
		*byte = (uint8_t)(*byte ^ 1u << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hashes_are_known),
	    cmocka_unit_test(the_empty_slice_needs_no_address),
	    cmocka_unit_test(record_checksums_are_known),
	    cmocka_unit_test(key_kind_value_and_store_are_bound_together),
	    cmocka_unit_test(every_flipped_bit_of_a_record_shows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
