/*
 * tests/format_io_test.c -- what is said with the operations of a cairn_io alone, over one that has
 * as many bytes to read as it is told.
 */
#include "tests/test.h"

#include "format/error.h"
#include "format/io.h"

#include <errno.h>

struct short_io {
	struct cairn_io base;
	struct cairn_file file;
	int failure; /* of every read; 0 = none */
	size_t readable;
};

static int short_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	(void)offset;
	struct short_io *io = (struct short_io *)file->io;
	*done = 0;
	if (io->failure)
		return cairn_error_system(io->failure, file->path, "read");
	*done = size < io->readable ? size : io->readable;
	memset(data, 'r', *done);
	return 0;
}

static void a_file_that_ends_too_early_is_damaged(void **state)
{
	(void)state;
	static const struct cairn_io_ops ops = {.read = short_read};
	static char path[] = "d/t";
	struct short_io io = {.base = {&ops}, .readable = 8};
	io.file = (struct cairn_file){&io.base, path};
	char bytes[8];
	assert_int_equal(cairn_io_read_exactly(&io.file, bytes, 8, 4096), 0);
	assert_memory_equal(bytes, "rrrrrrrr", 8);
	io.readable = 7;
	assert_int_equal(cairn_io_read_exactly(&io.file, bytes, 8, 4096), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), "d/t: at offset 4096: "));
	assert_non_null(strstr(cairn_error_text(), "7 of 8"));
	io.failure = -EIO;
	assert_int_equal(cairn_io_read_exactly(&io.file, bytes, 8, 4096), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_that_ends_too_early_is_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
