/*
 * store/index.c -- see index.h.
 */
#include "store/index.h"

#include <errno.h>
#include <stdlib.h>

#include "format/filename.h"

/* Gives the written file its name and opens it there. */
static int adopt(struct cairn *db, const char *temporary, const char *path,
    const struct cairn_fraction_file *file, const struct cairn_run_reader *run,
    const struct cairn_run_reader *anchor, struct cairn_index **index)
{
	struct cairn_fraction *fraction;
	int rc = db->io->ops->rename(db->io, temporary, path);
	if (rc) {
		(void)cairn_io_remove_remains(db->io, temporary, rc);
		return cairn_io_remove_remains(db->io, path, rc); /* it may have had its effect */
	}
	rc = cairn_fraction_open(db->io, path, file, &db->identity, run, anchor, &fraction);
	if (!rc) {
		*index = cairn_index_new(fraction, file, &db->obsolete);
		rc = *index ? 0 : cairn_error(-ENOMEM, "out of memory for an index");
	}
	return rc ? cairn_io_remove_remains(db->io, path, rc) : 0;
}

int cairn_index_make(struct cairn *db, struct cairn_run_reader *run,
    struct cairn_run_reader *anchor, struct cairn_index **index)
{
	struct cairn_fraction_file file;
	uint64_t number = atomic_fetch_add(&db->next_number, 1);
	char *temporary = cairn_filename(db->directory, CAIRN_FILE_TEMPORARY, number);
	char *path = cairn_filename(db->directory, CAIRN_FILE_INDEX, number);
	*index = NULL;
	int rc =
	    temporary && path ? 0 : cairn_error(-ENOMEM, "out of memory for the path of an index");
	if (!rc)
		rc = cairn_fraction_build(
		    db->io, temporary, &db->identity, number, run, anchor, &file);
	if (!rc)
		rc = adopt(db, temporary, path, &file, run, anchor, index);
	free(temporary);
	free(path);
	return rc;
}

struct cairn_index *cairn_index_open(struct cairn *db, const struct cairn_fraction_file *file,
    const struct cairn_run *run, const struct cairn_run *anchor)
{
	struct cairn_fraction *fraction = NULL;
	struct cairn_index *index = NULL;
	char *path = cairn_filename(db->directory, CAIRN_FILE_INDEX, file->number);
	if (path && cairn_fraction_open(db->io, path, file, &db->identity, run->reader,
			anchor->reader, &fraction) == 0)
		index = cairn_index_new(fraction, file, &db->obsolete);
	if (!index)
		cairn_log_line(
		    db, "a fractional index is not used: %s", path ? cairn_error_text() : "memory");
	free(path);
	return index;
}

void cairn_index_discard(struct cairn *db, struct cairn_index *index)
{
	if (index && !atomic_load(&db->failed))
		atomic_store(&index->obsolete, true);
}

/* A run of the version that could have an index and has none; its place, or `count`. [publish_lock]
 */
static size_t find_unindexed(const struct cairn_version *version)
{
	size_t i = 0;
	if (version->count < 2 || version->count > CAIRN_CASCADE_RUNS_MAX)
		return version->count;
	uint64_t anchor = version->runs[version->count - 1]->file.number;
	while (i + 1 < version->count &&
	       (version->indexes[i] || version->runs[i]->unindexable == anchor ||
		   version->runs[i]->busy))
		i++;
	return i + 1 < version->count ? i : version->count;
}

/* Publishes `index` as that of `run`, if both it and the anchor are still there. [publish_lock] */
static int publish_index(struct cairn *db, struct cairn_run *run, struct cairn_index *index)
{
	struct cairn_version *current = cairn_current_version(db), *next = NULL;
	size_t place = cairn_version_place(current, run);
	int rc = CAIRN_NOT_FOUND;
	if (place + 1 < current->count && !current->indexes[place]) {
		next = cairn_version_replace(current, place, 1, run, index);
		rc = next ? cairn_publish(db, next, NULL, NULL, 0)
			  : cairn_error(-ENOMEM, "out of memory for a version");
	}
	cairn_version_unref(current);
	cairn_version_unref(next);
	return rc;
}

/* Makes and publishes the index of one run. CAIRN_NOT_FOUND: it needs none, or no longer. */
static int index_run(struct cairn *db, const struct cairn_version *version, size_t place)
{
	struct cairn_run *run = version->runs[place];
	const struct cairn_run *anchor = version->runs[version->count - 1];
	struct cairn_index *index;
	int rc = cairn_index_make(db, run->reader, anchor->reader, &index);
	if (!rc)
		rc = db->io->ops->sync_directory(db->io, db->directory);
	pthread_mutex_lock(&db->publish_lock);
	if (rc == CAIRN_NOT_FOUND)
		run->unindexable = anchor->file.number;
	else if (!rc)
		rc = publish_index(db, run, index);
	pthread_mutex_unlock(&db->publish_lock);
	if (rc)
		cairn_index_discard(db, index);
	cairn_index_unref(index);
	return rc;
}

int cairn_index_step(struct cairn *db)
{
	int rc = CAIRN_NOT_FOUND;
	pthread_mutex_lock(&db->merge_lock);
	while (rc == CAIRN_NOT_FOUND) {
		pthread_mutex_lock(&db->publish_lock);
		struct cairn_version *version = cairn_current_version(db);
		size_t place = find_unindexed(version);
		pthread_mutex_unlock(&db->publish_lock);
		bool found = place < version->count;
		if (found)
			rc = index_run(db, version, place);
		cairn_version_unref(version);
		if (!found)
			break;
	}
	bool worked = rc == 0;
	cairn_trouble_note(db, &db->index_trouble, rc < 0 ? rc : 0);
	pthread_mutex_unlock(&db->merge_lock);
	return rc < 0 ? rc : worked;
}
