/*
 * wal/segment.c -- one file of the log: how it comes to be, what stands at its start, how it goes.
 */
#include "wal/segment.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "format/error.h"
#include "format/filename.h"

#define SIZE_UNIT 4096u

static_assert((CAIRN_LOG_RECORD_HEADER + CAIRN_SEGMENT_LINK_SIZE + 7) / 8 * 8 == 40,
    "CAIRN_SEGMENT_FIRST is behind the LINK");

static int out_of_memory(const char *directory)
{
	return cairn_error_at(-ENOMEM, directory, CAIRN_NO_OFFSET,
	    "no memory for a log segment; free some and try again");
}

/* Blocks for the whole segment, or for half of it, or half of that. */
static int allocate_what_fits(
    struct cairn_file *file, const struct cairn_segment_plan *plan, uint64_t *size)
{
	const struct cairn_io_ops *ops = file->io->ops;
	uint64_t wanted = plan->size;
	for (;;) {
		int rc = ops->allocate(file, wanted);
		if (rc == 0)
			*size = wanted;
		if (!cairn_no_space(rc) || wanted <= plan->size_least)
			return rc;
		wanted = cairn_round_up(wanted / 2, SIZE_UNIT);
		if (wanted < plan->size_least)
			wanted = plan->size_least;
		/* The attempt may have kept what it got. */
		rc = ops->truncate(file, 0);
		if (rc < 0)
			return rc;
	}
}

static int write_header(struct cairn_file *file, const struct cairn_segment_plan *plan)
{
	uint8_t *bytes = malloc(CAIRN_LOG_HEADER_SIZE);
	if (!bytes)
		return out_of_memory(plan->directory);
	cairn_log_segment_header_encode(&plan->header, bytes);
	int rc = file->io->ops->write(file, bytes, CAIRN_LOG_HEADER_SIZE, 0);
	free(bytes);
	return rc < 0 ? rc : file->io->ops->sync(file);
}

/* A new file at `path`, header and blocks durable. */
static int make_fresh(const struct cairn_segment_plan *plan, const char *path, uint64_t *size)
{
	const struct cairn_io_ops *ops = plan->io->ops;
	struct cairn_file *file = NULL;
	int rc = ops->open(plan->io, path, CAIRN_OPEN_CREATE, &file);
	if (rc < 0)
		return rc;
	rc = allocate_what_fits(file, plan, size);
	if (rc == 0)
		rc = write_header(file, plan);
	ops->close(file);
	return rc;
}

/* Whether the opened file may get another life. What it is short of is added where there is room.
 */
static bool is_reusable(
    struct cairn_file *file, const struct cairn_segment_plan *plan, uint64_t *size)
{
	struct cairn_file_status status;
	if (file->io->ops->status(file, &status) < 0 || status.links != 1 ||
	    status.size > plan->size_most)
		return false;
	*size = status.size & ~(uint64_t)(SIZE_UNIT - 1);
	if (*size < plan->size && file->io->ops->allocate(file, plan->size) == 0)
		*size = plan->size;
	return *size >= plan->size_least;
}

/*
 * The file of an earlier segment as `path`, with its new header durable: its blocks are written
 * already, so syncs of it are cheaper. It must have its new name before the links are counted:
 * nobody links to a name that is not there. False when a fresh file is the way, for whatever
 * reason; the old one is gone then.
 */
static bool take_over(const struct cairn_segment_plan *plan, const char *path, uint64_t *size)
{
	const struct cairn_io_ops *ops = plan->io->ops;
	char *old = cairn_filename(plan->directory, CAIRN_FILE_LOG, plan->recycle);
	struct cairn_file *file = NULL;
	bool taken = false;
	if (!old)
		return false;
	if (ops->rename(plan->io, old, path) < 0) {
		ops->unlink(plan->io, old);
		goto done;
	}
	if (ops->open(plan->io, path, CAIRN_OPEN_WRITE, &file) == 0) {
		taken = is_reusable(file, plan, size) && write_header(file, plan) == 0;
		ops->close(file);
	}
	if (!taken)
		ops->unlink(plan->io, path);
done:
	free(old);
	return taken;
}

/* Opens and maps the file under its final name: messages about it will say that name. */
static int open_segment(const struct cairn_segment_plan *plan, const char *path, uint64_t size,
    struct cairn_segment **segment)
{
	struct cairn_segment *opened = calloc(1, sizeof *opened);
	if (!opened)
		return out_of_memory(plan->directory);
	opened->header = plan->header;
	opened->size = size;
	opened->synced = CAIRN_LOG_HEADER_SIZE;
	opened->references = 1;
	atomic_init(&opened->populated, 0);
	int rc = plan->io->ops->open(plan->io, path, CAIRN_OPEN_WRITE, &opened->file);
	if (rc == 0)
		rc = plan->io->ops->map_log(opened->file, (size_t)size, &opened->memory);
	if (rc < 0) {
		cairn_segment_close(opened);
		return rc;
	}
	*segment = opened;
	return 0;
}

/* Makes the file under its temporary name and gives it the final one, durably. */
static int make_file(
    const struct cairn_segment_plan *plan, const char *temporary, const char *path, uint64_t *size)
{
	struct cairn_io *io = plan->io;
	int rc = 0;
	if (!plan->recycle || !take_over(plan, temporary, size))
		rc = make_fresh(plan, temporary, size);
	if (rc == 0)
		rc = io->ops->rename(io, temporary, path);
	if (rc < 0)
		return cairn_io_remove_remains(io, temporary, rc);
	rc = io->ops->sync_directory(io, plan->directory);
	return rc < 0 ? cairn_io_remove_remains(io, path, rc) : 0;
}

int cairn_segment_create(const struct cairn_segment_plan *plan, struct cairn_segment **segment)
{
	assert(plan->size % SIZE_UNIT == 0 && plan->size_least % SIZE_UNIT == 0);
	assert(plan->size_least <= plan->size && plan->size <= plan->size_most);
	struct cairn_segment_plan salted = *plan;
	uint64_t size = 0;
	*segment = NULL;
	char *temporary =
	    cairn_filename(plan->directory, CAIRN_FILE_TEMPORARY, plan->header.number);
	char *path = cairn_filename(plan->directory, CAIRN_FILE_LOG, plan->header.number);
	int rc = temporary && path ? 0 : out_of_memory(plan->directory);
	if (rc == 0)
		rc = plan->io->ops->entropy(
		    plan->io, &salted.header.salt, sizeof salted.header.salt);
	if (rc == 0)
		rc = make_file(&salted, temporary, path, &size);
	if (rc == 0) {
		rc = open_segment(&salted, path, size, segment);
		if (rc < 0)
			cairn_io_remove_remains(plan->io, path, rc);
	}
	free(path);
	free(temporary);
	return rc;
}

int cairn_segment_set_aside(
    struct cairn_io *io, const char *directory, uint64_t number, uint64_t size)
{
	char *path = cairn_filename(directory, CAIRN_FILE_LOG, number);
	struct cairn_file *file = NULL;
	int rc =
	    path ? io->ops->open(io, path, CAIRN_OPEN_CREATE, &file) : out_of_memory(directory);
	if (rc == 0) {
		rc = io->ops->allocate(file, size);
		io->ops->close(file);
		if (rc < 0)
			cairn_io_remove_remains(io, path, rc);
	}
	free(path);
	return rc;
}

void cairn_segment_close(struct cairn_segment *segment)
{
	if (!segment)
		return;
	if (segment->file)
		segment->file->io->ops->close(segment->file);
	free(segment);
}

int cairn_segment_remove(struct cairn_io *io, const char *directory, uint64_t number)
{
	char *path = cairn_filename(directory, CAIRN_FILE_LOG, number);
	if (!path)
		return out_of_memory(directory);
	int rc = io->ops->unlink(io, path);
	free(path);
	return rc;
}

/* The body of a LINK record. */

void cairn_segment_link_put(
    uint8_t body[CAIRN_SEGMENT_LINK_SIZE], const struct cairn_segment_link *link)
{
	cairn_put64(body, link->base);
	cairn_put64(body + 8, link->previous_end);
}

bool cairn_segment_link_get(const struct cairn_log_record *record, struct cairn_segment_link *link)
{
	static const uint8_t padding[8];
	size_t padding_size = (size_t)cairn_log_record_size(CAIRN_SEGMENT_LINK_SIZE) -
			      CAIRN_LOG_RECORD_HEADER - CAIRN_SEGMENT_LINK_SIZE;
	if (record->type != CAIRN_LOG_LINK ||
	    record->body_size != CAIRN_SEGMENT_LINK_SIZE + padding_size || record->sequence_delta)
		return false;
	link->base = cairn_get64(record->body);
	link->previous_end = cairn_get64(record->body + 8);
	return memcmp(record->body + CAIRN_SEGMENT_LINK_SIZE, padding, padding_size) == 0;
}
