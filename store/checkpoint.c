/*
 * store/checkpoint.c -- a store of its own from a pinned version of this one.
 *
 * The log is flushed first and never linked: a checkpoint starts with an empty log. Runs never
 * change, so a hard link is as good as a copy; where links are refused the bytes are copied and
 * synced. Its manifest comes last: a checkpoint that was cut short is no store.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/filename.h"
#include "store/store.h"

#define COPY_BYTES (1u << 20)

static int copy_bytes(struct cairn_file *from, struct cairn_file *to, uint64_t size, void *buffer)
{
	int rc = 0;
	for (uint64_t at = 0; !rc && at < size;) {
		size_t piece = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;
		rc = cairn_io_read_exactly(from, buffer, piece, at);
		if (!rc)
			rc = to->io->ops->write(to, buffer, piece, at);
		at += piece;
	}
	return rc ? rc : to->io->ops->sync(to);
}

static int copy_file(struct cairn_io *io, const char *from, const char *to, uint64_t size)
{
	struct cairn_file *source = NULL, *target = NULL;
	void *buffer = malloc(COPY_BYTES);
	int rc = buffer ? 0 : cairn_error(-ENOMEM, "out of memory for a copy");
	if (!rc)
		rc = io->ops->open(io, from, CAIRN_OPEN_READ, &source);
	if (!rc)
		rc = io->ops->open(io, to, CAIRN_OPEN_CREATE, &target);
	if (!rc)
		rc = copy_bytes(source, target, size, buffer);
	if (source)
		io->ops->close(source);
	if (target)
		io->ops->close(target);
	free(buffer);
	return rc;
}

/* Links the file `from` into `directory`, or copies it. */
static int take_file(struct cairn_io *io, const char *from, uint64_t size,
    enum cairn_file_kind kind, uint64_t number, const char *directory)
{
	char *to = cairn_filename(directory, kind, number);
	if (!to)
		return cairn_error(-ENOMEM, "out of memory for a path");
	int rc = io->ops->link(io, from, to);
	if (rc == -EXDEV || rc == -EPERM || rc == -EMLINK || rc == -EOPNOTSUPP || rc == -ENOSYS)
		rc = copy_file(io, from, to, size);
	free(to);
	return rc;
}

static int take_run(
    struct cairn_io *io, const struct cairn_version *version, size_t i, const char *directory)
{
	const struct cairn_run *run = version->runs[i];
	const struct cairn_index *index = version->indexes[i];
	int rc = take_file(io, cairn_run_path(run->reader), run->file.size, CAIRN_FILE_RUN,
	    run->file.number, directory);
	if (!rc && index)
		rc = take_file(io, index->fraction->path, index->file.size, CAIRN_FILE_INDEX,
		    index->file.number, directory);
	return rc;
}

static int write_manifest(struct cairn *db, const struct cairn_version *version,
    const struct cairn_manifest *source, const char *directory)
{
	bool renamed;
	struct cairn_manifest manifest = *source;
	struct cairn_manifest_file *files = calloc(version->count + 1, sizeof *files);
	struct cairn_manifest_run *runs = calloc(version->count + 1, sizeof *runs);
	int rc = files && runs ? 0 : cairn_error(-ENOMEM, "out of memory for a manifest");
	if (!rc) {
		pthread_mutex_lock(&db->publish_lock); /* guards `rent` */
		for (size_t i = 0; i < version->count; i++) {
			const struct cairn_run *run = version->runs[i];
			files[i] = run->file;
			runs[i] = (struct cairn_manifest_run){.files = &files[i],
			    .file_count = 1,
			    .rent = run->rent,
			    .dead_bytes = cairn_run_dead_bytes(run)};
			if (version->indexes[i])
				runs[i].index = version->indexes[i]->file;
		}
		pthread_mutex_unlock(&db->publish_lock);
		manifest.runs = runs;
		manifest.run_count = version->count;
		manifest.generation = 1;
		manifest.next_number = atomic_load(&db->next_number);
		manifest.log_number = manifest.log_salt = manifest.log_ordinal = 0;
		manifest.log_position = manifest.log_durable = 0;
		rc = cairn_manifest_store(db->io, directory, &manifest, &renamed);
	}
	free(files);
	free(runs);
	return rc;
}

static int fill(struct cairn *db, const struct cairn_version *version,
    const struct cairn_manifest *source, const char *directory)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < version->count; i++)
		rc = take_run(db->io, version, i, directory);
	if (!rc)
		rc = db->io->ops->sync_directory(db->io, directory);
	return rc ? rc : write_manifest(db, version, source, directory);
}

struct leftovers {
	struct cairn_io *io;
	const char *directory;
};

static int remove_leftover(void *context, const char *name)
{
	const struct leftovers *leftovers = context;
	uint64_t number;
	enum cairn_file_kind kind = cairn_filename_parse(name, &number);
	char *path =
	    kind == CAIRN_FILE_FOREIGN ? NULL : cairn_filename(leftovers->directory, kind, number);
	if (path)
		leftovers->io->ops->unlink(leftovers->io, path);
	free(path);
	return 0;
}

int cairn_remove_new_store(struct cairn_io *io, const char *directory, int rc)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	struct leftovers leftovers = {io, directory};
	snprintf(text, sizeof text, "%s", cairn_error_text());
	io->ops->list(io, directory, remove_leftover, &leftovers);
	io->ops->remove_directory(io, directory);
	return cairn_error(rc, "%s", text);
}

static int sync_parent(struct cairn_io *io, const char *path)
{
	char *parent = cairn_path_parent(path);
	int rc = parent ? io->ops->sync_directory(io, parent)
			: cairn_error(-ENOMEM, "out of memory for a path");
	free(parent);
	return rc;
}

static int checkpoint(struct cairn *db, const char *path)
{
	struct cairn_io *io = db->io;
	int rc = io->ops->make_directory(io, path);
	if (rc == -EEXIST)
		return cairn_error(rc, "%s: it exists; a checkpoint needs a new directory", path);
	if (rc)
		return cairn_error_system(rc, path, "mkdir");
	/* Version and flushed sequence of one moment. */
	pthread_mutex_lock(&db->publish_lock);
	struct cairn_version *version = cairn_current_version(db);
	struct cairn_manifest source = db->manifest;
	pthread_mutex_unlock(&db->publish_lock);
	rc = fill(db, version, &source, path);
	if (!rc)
		rc = sync_parent(io, path);
	cairn_version_unref(version);
	return rc ? cairn_remove_new_store(io, path, rc) : 0;
}

int cairn_checkpoint(cairn *db, const char *path)
{
	int rc = cairn_check_handle(db);
	if (!rc && !path)
		rc = cairn_error(CAIRN_INVALID, "a path is needed");
	if (!rc && db->read_only)
		rc = cairn_error(CAIRN_READ_ONLY,
		    "%s is open for reading only; a checkpoint flushes first", db->directory);
	if (!rc)
		rc = cairn_flush(db);
	if (!rc)
		rc = checkpoint(db, path);
	return cairn_report(db, rc);
}
