/*
 * format/io.c -- what can be said with the operations of a cairn_io alone.
 *
 * An invariant: the message of the first failure survives the cleanup behind it.
 */
#include "format/io.h"

#include <errno.h>
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

/* Removes what a failed replacement left behind; returns `code`, with its message. */
static int discard(struct cairn_io *io, const char *temporary, int code)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	snprintf(text, sizeof text, "%s", cairn_error_text());
	if (io->ops->unlink(io, temporary) == 0)
		return code;
	return cairn_error(code, "%s", text);
}

/* A temporary file of a replacement that was cut short may still be there: it is worth nothing. */
static int create_afresh(struct cairn_io *io, const char *path, struct cairn_file **file)
{
	int rc = io->ops->open(io, path, CAIRN_OPEN_CREATE, file);
	if (rc != -EEXIST)
		return rc;
	rc = io->ops->unlink(io, path);
	if (rc < 0)
		return rc;
	return io->ops->open(io, path, CAIRN_OPEN_CREATE, file);
}

int cairn_io_replace(struct cairn_io *io, const char *directory, const char *temporary,
    const char *path, const void *data, size_t size)
{
	struct cairn_file *file = NULL;
	int rc = create_afresh(io, temporary, &file);
	if (rc < 0)
		return rc;
	rc = io->ops->write(file, data, size, 0);
	if (rc == 0)
		rc = io->ops->sync(file);
	io->ops->close(file);
	if (rc == 0)
		rc = io->ops->rename(io, temporary, path);
	if (rc < 0)
		return discard(io, temporary, rc);
	return io->ops->sync_directory(io, directory);
}
