/*
 * format/io.c -- what can be said with the operations of a cairn_io alone.
 */
#include "format/io.h"

#include <stdio.h>

#include "format/error.h"

int cairn_io_read_exactly(struct cairn_file *file, void *data, size_t size, uint64_t offset)
{
	size_t done = 0;
	int rc = file->io->ops->read(file, data, size, offset, &done);
	if (rc < 0)
		return rc;
	if (done < size)
		return cairn_error_at(CAIRN_CORRUPT, file->path, offset,
		    "the file ends after %zu of %zu bytes that belong here; "
		    "restore it from a copy or repair the store",
		    done, size);
	return 0;
}

int cairn_io_remove_remains(struct cairn_io *io, const char *path, int code)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	snprintf(text, sizeof text, "%s", cairn_error_text());
	return io->ops->unlink(io, path) < 0 ? cairn_error(code, "%s", text) : code;
}
