/*
 * tests/format_buffer_test.c -- bytes that grow.
 */
#include "tests/test.h"

#include "format/buffer.h"

#include <errno.h>

static void a_zeroed_buffer_is_empty_and_can_be_released(void **state)
{
	(void)state;
	struct cairn_buffer buffer = {0};
	cairn_buffer_release(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.size, 0);
	assert_int_equal(buffer.capacity, 0);
}

static void appended_bytes_stand_one_behind_the_other(void **state)
{
	(void)state;
	static uint8_t expected[100000];
	uint64_t random = test_seed(1);
	struct cairn_buffer buffer = {0};
	size_t size = 0;
	while (size < sizeof expected - 600) {
		size_t more = test_random(&random) % 600;
		for (size_t i = 0; i < more; i++)
			expected[size + i] = (uint8_t)test_random(&random);
		assert_int_equal(cairn_buffer_append(&buffer, expected + size, more), 0);
		size += more;
		assert_int_equal(buffer.size, size);
		assert_true(buffer.capacity >= size);
	}
	assert_memory_equal(buffer.data, expected, size);
	cairn_buffer_release(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.size, 0);
	assert_int_equal(buffer.capacity, 0);
}

static void no_data_means_zeros(void **state)
{
	(void)state;
	struct cairn_buffer buffer = {0};
	assert_int_equal(cairn_buffer_append(&buffer, "abcdefgh", 8), 0);
	buffer.size = 2; /* what stands behind is old, not zero */
	assert_int_equal(cairn_buffer_append(&buffer, NULL, 4), 0);
	assert_int_equal(buffer.size, 6);
	assert_memory_equal(buffer.data, "ab\0\0\0\0", 6);
	cairn_buffer_release(&buffer);
}

static void reserved_room_does_not_move_and_is_not_content(void **state)
{
	(void)state;
	struct cairn_buffer buffer = {0};
	assert_int_equal(cairn_buffer_append(&buffer, "x", 1), 0);
	assert_int_equal(cairn_buffer_reserve(&buffer, 1000), 0);
	assert_int_equal(buffer.size, 1);
	assert_true(buffer.capacity - buffer.size >= 1000);
	const uint8_t *data = buffer.data;
	assert_int_equal(cairn_buffer_append(&buffer, NULL, 1000), 0);
	assert_ptr_equal(buffer.data, data);
	assert_int_equal(buffer.data[0], 'x');
	cairn_buffer_release(&buffer);
}

static void growing_byte_by_byte_moves_seldom(void **state)
{
	(void)state;
	struct cairn_buffer buffer = {0};
	unsigned grown = 0;
	for (unsigned i = 0; i < 1u << 16; i++) {
		size_t before = buffer.capacity;
		assert_int_equal(cairn_buffer_append(&buffer, "x", 1), 0);
		grown += buffer.capacity != before;
	}
	assert_true(grown < 20);
	cairn_buffer_release(&buffer);
}

static void nothing_appended_to_nothing_needs_no_memory(void **state)
{
	(void)state;
	struct cairn_buffer buffer = {0};
	assert_int_equal(cairn_buffer_reserve(&buffer, 0), 0);
	assert_int_equal(cairn_buffer_append(&buffer, NULL, 0), 0);
	assert_int_equal(cairn_buffer_append(&buffer, "", 0), 0);
	assert_int_equal(buffer.capacity, 0);
	assert_null(buffer.data);
}

static void sizes_that_no_memory_has_change_nothing(void **state)
{
	(void)state;
	static const size_t too_large[] = {SIZE_MAX, SIZE_MAX - 3, SIZE_MAX / 2 + 1, PTRDIFF_MAX};
	struct cairn_buffer buffer = {0};
	assert_int_equal(cairn_buffer_append(&buffer, "four", 4), 0);
	struct cairn_buffer before = buffer;
	for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++) {
		assert_int_equal(cairn_buffer_reserve(&buffer, too_large[i]), -ENOMEM);
		assert_int_equal(cairn_buffer_append(&buffer, NULL, too_large[i]), -ENOMEM);
		assert_ptr_equal(buffer.data, before.data);
		assert_int_equal(buffer.size, before.size);
		assert_int_equal(buffer.capacity, before.capacity);
	}
	assert_memory_equal(buffer.data, "four", 4);
	cairn_buffer_release(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_zeroed_buffer_is_empty_and_can_be_released),
	    cmocka_unit_test(appended_bytes_stand_one_behind_the_other),
	    cmocka_unit_test(no_data_means_zeros),
	    cmocka_unit_test(reserved_room_does_not_move_and_is_not_content),
	    cmocka_unit_test(growing_byte_by_byte_moves_seldom),
	    cmocka_unit_test(nothing_appended_to_nothing_needs_no_memory),
	    cmocka_unit_test(sizes_that_no_memory_has_change_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
