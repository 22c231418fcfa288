/*
 * tests/format_io_test.c -- what is said with the operations of a cairn_io alone, over one that
 * keeps a journal of its calls and fails where it is told to.
 */
#include "tests/test.h"

#include "format/error.h"
#include "format/io.h"

#include <errno.h>

struct journal_io {
	struct cairn_io base;
	struct cairn_file file;
	char journal[1024];
	const char *failing; /* the call that fails with -EIO */
	bool leftover;       /* whether the temporary file is there at first */
	size_t readable;
};

static int note(struct cairn_io *io, const char *call, const char *what)
{
	struct journal_io *j = (struct journal_io *)io;
	size_t size = strlen(j->journal);
	snprintf(j->journal + size, sizeof j->journal - size, "%s %s\n", call, what);
	if (j->failing && strcmp(j->failing, call) == 0)
		return cairn_error_system(-EIO, what, call);
	return 0;
}

static int journal_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	struct journal_io *j = (struct journal_io *)io;
	assert_int_equal(mode, CAIRN_OPEN_CREATE);
	*file = NULL;
	int rc = note(io, "open", path);
	if (rc == 0 && j->leftover)
		rc = cairn_error_system(-EEXIST, path, "open");
	if (rc == 0)
		*file = &j->file;
	return rc;
}

static void journal_close(struct cairn_file *file)
{
	note(file->io, "close", file->path);
}

static int journal_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	(void)offset;
	struct journal_io *j = (struct journal_io *)file->io;
	*done = 0;
	int rc = note(file->io, "read", file->path);
	if (rc < 0)
		return rc;
	*done = size < j->readable ? size : j->readable;
	memset(data, 'r', *done);
	return 0;
}

static int journal_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	assert_int_equal(size, 7);
	assert_memory_equal(data, "content", 7);
	assert_int_equal(offset, 0);
	return note(file->io, "write", file->path);
}

static int journal_sync(struct cairn_file *file)
{
	return note(file->io, "sync", file->path);
}

static int journal_rename(struct cairn_io *io, const char *from, const char *to)
{
	assert_string_equal(from, "d/t");
	return note(io, "rename", to);
}

static int journal_unlink(struct cairn_io *io, const char *path)
{
	((struct journal_io *)io)->leftover = false;
	return note(io, "unlink", path);
}

static int journal_sync_directory(struct cairn_io *io, const char *path)
{
	return note(io, "sync_directory", path);
}

static const struct cairn_io_ops journal_ops = {
    .name = "journal",
    .open = journal_open,
    .close = journal_close,
    .read = journal_read,
    .write = journal_write,
    .sync = journal_sync,
    .rename = journal_rename,
    .unlink = journal_unlink,
    .sync_directory = journal_sync_directory,
};

static void start(struct journal_io *j, const char *failing)
{
	static char path[] = "d/t";
	*j = (struct journal_io){.base = {&journal_ops}, .failing = failing};
	j->file = (struct cairn_file){&j->base, path};
}

static int replace(struct journal_io *j)
{
	return cairn_io_replace(&j->base, "d", "d/t", "d/MANIFEST", "content", 7);
}

static void a_replacement_is_synced_before_it_gets_its_name(void **state)
{
	(void)state;
	struct journal_io j;
	start(&j, NULL);
	assert_int_equal(replace(&j), 0);
	assert_string_equal(j.journal, "open d/t\nwrite d/t\nsync d/t\nclose d/t\n"
				       "rename d/MANIFEST\nsync_directory d\n");
}

static void a_leftover_temporary_file_is_in_nobodys_way(void **state)
{
	(void)state;
	struct journal_io j;
	start(&j, NULL);
	j.leftover = true;
	assert_int_equal(replace(&j), 0);
	assert_string_equal(j.journal, "open d/t\nunlink d/t\nopen d/t\nwrite d/t\nsync d/t\n"
				       "close d/t\nrename d/MANIFEST\nsync_directory d\n");
}

static void a_failed_replacement_is_removed_and_its_message_stays(void **state)
{
	(void)state;
	static const struct {
		const char *failing, *journal;
	} cases[] = {
	    {"open", "open d/t\n"},
	    {"write", "open d/t\nwrite d/t\nclose d/t\nunlink d/t\n"},
	    {"sync", "open d/t\nwrite d/t\nsync d/t\nclose d/t\nunlink d/t\n"},
	    {"rename", "open d/t\nwrite d/t\nsync d/t\nclose d/t\nrename d/MANIFEST\nunlink d/t\n"},
	    /* It has its name by then: there is nothing to remove. */
	    {"sync_directory", "open d/t\nwrite d/t\nsync d/t\nclose d/t\nrename d/MANIFEST\n"
			       "sync_directory d\n"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct journal_io j;
		start(&j, cases[i].failing);
		assert_int_equal(replace(&j), -EIO);
		assert_string_equal(j.journal, cases[i].journal);
		assert_non_null(strstr(cairn_error_text(), cases[i].failing));
	}
}

static int unlink_that_fails(struct cairn_io *io, const char *path)
{
	(void)io;
	return cairn_error_system(-EROFS, path, "unlink");
}

static void a_failed_cleanup_does_not_hide_the_cause(void **state)
{
	(void)state;
	struct cairn_io_ops ops = journal_ops;
	ops.unlink = unlink_that_fails;
	struct journal_io j;
	start(&j, "write");
	j.base.ops = &ops;
	assert_int_equal(replace(&j), -EIO);
	assert_non_null(strstr(cairn_error_text(), "d/t: write: "));
	start(&j, NULL);
	j.base.ops = &ops;
	j.leftover = true;
	assert_int_equal(replace(&j), -EROFS);
	assert_non_null(strstr(cairn_error_text(), "d/t: unlink: "));
}

static void a_file_that_ends_too_early_is_damaged(void **state)
{
	(void)state;
	struct journal_io j;
	char bytes[8];
	start(&j, NULL);
	j.readable = 8;
	assert_int_equal(cairn_io_read_exactly(&j.file, bytes, 8, 4096), 0);
	assert_memory_equal(bytes, "rrrrrrrr", 8);
	j.readable = 7;
	assert_int_equal(cairn_io_read_exactly(&j.file, bytes, 8, 4096), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), "d/t: at offset 4096: "));
	assert_non_null(strstr(cairn_error_text(), "7 of 8"));
	start(&j, "read");
	assert_int_equal(cairn_io_read_exactly(&j.file, bytes, 8, 4096), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_replacement_is_synced_before_it_gets_its_name),
	    cmocka_unit_test(a_leftover_temporary_file_is_in_nobodys_way),
	    cmocka_unit_test(a_failed_replacement_is_removed_and_its_message_stays),
	    cmocka_unit_test(a_failed_cleanup_does_not_hide_the_cause),
	    cmocka_unit_test(a_file_that_ends_too_early_is_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
