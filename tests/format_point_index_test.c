/*
 * tests/format_point_index_test.c -- a search by hash meets the place of every key that was put in,
 * whatever collides, and a damaged page never says "not found". The oracle is the list of keys.
 */
#include "tests/test.h"

#include "format/point_index.h"

struct key {
	uint64_t hash;
	uint64_t offset;
	unsigned record;
};

struct fixture {
	struct key *keys;
	size_t count;
	struct cairn_buffer section;
	uint32_t checksum;
	struct cairn_point_index index;
};

static void build(struct fixture *f)
{
	struct cairn_point_builder builder = {0};
	f->section.size = 0;
	for (size_t i = 0; i < f->count; i++)
		assert_int_equal(cairn_point_builder_add(&builder, f->keys[i].hash,
				     f->keys[i].offset, f->keys[i].record),
		    0);
	assert_int_equal(cairn_point_builder_finish(&builder, &f->section, &f->checksum), 0);
	assert_null(builder.entries.data);
	assert_int_equal(
	    cairn_point_open(&f->index, f->section.data, f->section.size, f->checksum, f->count),
	    0);
}

static void release(struct fixture *f)
{
	cairn_point_close(&f->index);
	cairn_buffer_release(&f->section);
	free(f->keys);
	*f = (struct fixture){0};
}

static void make_keys(struct fixture *f, size_t count, uint64_t seed)
{
	f->keys = calloc(count, sizeof *f->keys);
	assert_non_null(f->keys);
	f->count = count;
	for (size_t i = 0; i < count; i++)
		f->keys[i] =
		    (struct key){test_random(&seed), 128 + i / 15 * 640, (unsigned)(i % 15)};
}

/* How many candidates a search shows; *met says whether `wanted` is one (NULL: none is). */
static size_t search(
    const struct cairn_point_index *index, uint64_t hash, const struct key *wanted, bool *met)
{
	struct cairn_point_probe probe;
	uint64_t offset;
	unsigned record;
	size_t count = 0;
	*met = false;
	int rc = cairn_point_first(index, hash, &probe, &offset, &record);
	for (; rc == 0; count++) {
		if (wanted && offset == wanted->offset && record == wanted->record)
			*met = true;
		rc = cairn_point_next(index, &probe, &offset, &record);
	}
	assert_int_equal(rc, CAIRN_NOT_FOUND);
	return count;
}

static void check_all_found(const struct fixture *f)
{
	uint64_t page;
	for (size_t i = 0; i < f->count; i++) {
		bool met;
		search(&f->index, f->keys[i].hash, &f->keys[i], &met);
		assert_true(met);
	}
	assert_true(cairn_point_check(&f->index, &page));
}

static void every_key_is_found_in_an_index_of_any_size(void **state)
{
	(void)state;
	uint64_t seed = test_seed(1);
	const size_t sizes[] = {1, 2, 7, 8, 9, 10, 11, 14, 15, 16, 17, 79, 80, 81, 10000, 1000000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct fixture f = {0};
		make_keys(&f, sizes[i], seed + i);
		build(&f);
		check_all_found(&f);
		release(&f);
	}
}

static void a_miss_rarely_meets_a_candidate_and_rarely_a_second_line(void **state)
{
	(void)state;
	struct fixture f = {0};
	size_t candidates = 0, count = 100000;
	uint64_t seed = test_seed(2), other = ~seed;
	make_keys(&f, count, seed);
	build(&f);
	for (size_t i = 0; i < count; i++) {
		bool met;
		candidates += search(&f.index, test_random(&other), NULL, &met);
	}
	/* 8 fingerprints of 16 bits a line: one in 8,192. */
	assert_true(candidates < count / 1000);
	release(&f);
}

static void keys_with_one_hash_are_all_shown(void **state)
{
	(void)state;
	struct fixture f = {0};
	make_keys(&f, 1000, test_seed(3));
	for (size_t i = 100; i < 145; i++)
		f.keys[i].hash = f.keys[100].hash;
	build(&f);
	check_all_found(&f);
	bool met;
	assert_true(search(&f.index, f.keys[100].hash, NULL, &met) >= 45);
	release(&f);
}

/* The last line overflows into the first. */
static void lines_that_overflow_wrap_around(void **state)
{
	(void)state;
	struct fixture f = {0};
	make_keys(&f, 500, test_seed(4));
	for (size_t i = 0; i < f.count; i += 5)
		f.keys[i].hash |= UINT64_C(0xffffffff) << 32;
	build(&f);
	check_all_found(&f);
	release(&f);
}

static void an_index_that_is_one_overflow_is_still_exact(void **state)
{
	(void)state;
	struct fixture f = {0};
	make_keys(&f, 400, test_seed(5));
	for (size_t i = 0; i < f.count; i++)
		f.keys[i].hash = f.keys[i].hash << 32 >> 32 | UINT64_C(77) << 50;
	build(&f);
	check_all_found(&f);
	release(&f);
}

static void places_beyond_2_gib_take_bits_from_the_fingerprint(void **state)
{
	(void)state;
	for (unsigned bits = 30; bits <= 35; bits++) {
		struct fixture f = {0};
		make_keys(&f, 2000, test_seed(6) + bits);
		for (size_t i = 0; i < f.count; i++)
			f.keys[i].offset = ((UINT64_C(1) << bits) / f.count * i + 128) / 8 * 8;
		f.keys[f.count - 1].offset = (UINT64_C(1) << bits) - 8;
		build(&f);
		assert_int_equal(f.index.shift, bits <= 31 ? 0 : bits - 31);
		check_all_found(&f);
		release(&f);
	}
}

/* Every byte, one bit each: refused at open, or a search cannot tell and says so, or is right. */
/* What is asked for from the disk: once all of it is there nothing else is read. */
static void a_search_reads_what_it_says_that_it_needs(void **state)
{
	(void)state;
	struct fixture f = {0};
	make_keys(&f, 1000, test_seed(9));
	build(&f);
	const uint8_t *section = f.index.section;
	size_t checksums = f.index.size;
	for (size_t i = 0; i < f.count; i++) {
		struct cairn_point_need need[2];
		const uint8_t *line = cairn_point_line(&f.index, f.keys[i].hash);
		size_t page = (size_t)(line - section) / CAIRN_POINT_PAGE;
		bool met;
		unsigned count = cairn_point_need(&f.index, f.keys[i].hash, need);
		if (count == 2) {
			assert_ptr_equal(need[0].data, section + page * CAIRN_POINT_PAGE);
			assert_true(need[0].size == CAIRN_POINT_PAGE ||
				    need[0].data + need[0].size == section + checksums);
			assert_ptr_equal(need[1].data, section + checksums + page * 4);
			assert_int_equal(need[1].size, 4);
		}
		search(&f.index, f.keys[i].hash, &f.keys[i], &met);
		assert_int_equal(cairn_point_need(&f.index, f.keys[i].hash, need), 1);
		assert_ptr_equal(need[0].data, line);
		assert_int_equal(need[0].size, CAIRN_POINT_LINE);
	}
	release(&f);
}

static void a_damaged_index_never_says_not_found(void **state)
{
	(void)state;
	struct fixture f = {0};
	make_keys(&f, 1200, test_seed(7));
	build(&f);
	cairn_point_close(&f.index);
	size_t refused = 0;
	for (size_t at = 0; at < f.section.size; at++) {
		struct cairn_point_index index;
		uint64_t page;
		f.section.data[at] ^= (uint8_t)(1u << at % 8);
		int rc =
		    cairn_point_open(&index, f.section.data, f.section.size, f.checksum, f.count);
		if (rc != 0) {
			assert_int_equal(rc, CAIRN_CORRUPT);
			refused++;
		} else {
			assert_false(cairn_point_check(&index, &page));
			assert_int_equal(page, at / CAIRN_POINT_PAGE);
			for (size_t i = at % 7; i < f.count; i += 97) {
				const struct key *key = &f.keys[i];
				struct cairn_point_probe probe;
				uint64_t offset;
				unsigned record;
				rc = cairn_point_first(&index, key->hash, &probe, &offset, &record);
				while (rc == 0 && (offset != key->offset || record != key->record))
					rc = cairn_point_next(&index, &probe, &offset, &record);
				assert_true(rc == 0 || rc == CAIRN_CORRUPT);
			}
		}
		cairn_point_close(&index);
		f.section.data[at] ^= (uint8_t)(1u << at % 8);
	}
	assert_true(refused >= 64); /* the header at least */
	release(&f);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	(void)state;
	struct fixture f = {0};
	struct cairn_point_index index;
	make_keys(&f, 100, test_seed(8));
	build(&f);
	for (size_t size = 0; size < f.section.size; size++)
		assert_int_equal(
		    cairn_point_open(&index, f.section.data, size, f.checksum, f.count),
		    CAIRN_CORRUPT);
	assert_int_equal(cairn_point_open(&index, f.section.data, f.section.size, f.checksum, 99),
	    CAIRN_CORRUPT);
	release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_is_found_in_an_index_of_any_size),
	    cmocka_unit_test(a_miss_rarely_meets_a_candidate_and_rarely_a_second_line),
	    cmocka_unit_test(keys_with_one_hash_are_all_shown),
	    cmocka_unit_test(lines_that_overflow_wrap_around),
	    cmocka_unit_test(an_index_that_is_one_overflow_is_still_exact),
	    cmocka_unit_test(places_beyond_2_gib_take_bits_from_the_fingerprint),
	    cmocka_unit_test(a_search_reads_what_it_says_that_it_needs),
	    cmocka_unit_test(a_damaged_index_never_says_not_found),
	    cmocka_unit_test(sizes_that_cannot_be_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
