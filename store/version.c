/*
 * store/version.c -- see version.h.
 */
#include "store/version.h"

#include <errno.h>
#include <stdlib.h>

#include "compaction/merge.h"
#include "format/error.h"
#include "store/obsolete.h"
#include "store/seek.h"

static void ref(_Atomic uint32_t *references)
{
	atomic_fetch_add_explicit(references, 1, memory_order_relaxed);
}

/* True when that was the last one; everything done through the others is then visible here. */
static bool unref(_Atomic uint32_t *references)
{
	return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

struct cairn_run *cairn_run_new(struct cairn_run_reader *reader,
    const struct cairn_manifest_file *file, struct cairn_obsolete *graveyard)
{
	struct cairn_run *run = calloc(1, sizeof *run);
	if (!run) {
		cairn_run_close(reader);
		return NULL;
	}
	atomic_init(&run->references, 1);
	atomic_init(&run->obsolete, false);
	atomic_init(&run->dead_bytes, 0);
	run->file = *file;
	run->reader = reader;
	run->graveyard = graveyard;
	return run;
}

uint64_t cairn_run_dead_bytes(const struct cairn_run *run)
{
	uint64_t bytes = atomic_load(&run->dead_bytes);
	return bytes < run->file.size ? bytes : run->file.size;
}

void cairn_run_ref(struct cairn_run *run)
{
	ref(&run->references);
}

void cairn_run_unref(struct cairn_run *run)
{
	if (!run || !unref(&run->references))
		return;
	if (atomic_load(&run->obsolete))
		cairn_obsolete_add(run->graveyard, cairn_run_path(run->reader));
	cairn_run_close(run->reader);
	free(run);
}

struct cairn_index *cairn_index_new(struct cairn_fraction *fraction,
    const struct cairn_fraction_file *file, struct cairn_obsolete *graveyard)
{
	struct cairn_index *index = calloc(1, sizeof *index);
	if (!index) {
		cairn_fraction_close(fraction);
		return NULL;
	}
	atomic_init(&index->references, 1);
	atomic_init(&index->obsolete, false);
	index->file = *file;
	index->fraction = fraction;
	index->graveyard = graveyard;
	return index;
}

void cairn_index_ref(struct cairn_index *index)
{
	if (index)
		ref(&index->references);
}

void cairn_index_unref(struct cairn_index *index)
{
	if (!index || !unref(&index->references))
		return;
	if (atomic_load(&index->obsolete))
		cairn_obsolete_add(index->graveyard, index->fraction->path);
	cairn_fraction_close(index->fraction);
	free(index);
}

/* Room for `count` runs and their indexes, all of them NULL. */
static struct cairn_version *version_room(size_t count)
{
	struct cairn_version *version = calloc(1,
	    sizeof *version + count * (sizeof(struct cairn_run *) + sizeof(struct cairn_index *)));
	if (!version)
		return NULL;
	atomic_init(&version->references, 1);
	version->count = count;
	version->indexes = (struct cairn_index **)(void *)(version->runs + count);
	return version;
}

static bool is_built_on(const struct cairn_index *index, const struct cairn_run *anchor)
{
	const struct cairn_fraction_base *base = &index->fraction->anchor;
	return base->number == anchor->file.number &&
	       base->footer_checksum == anchor->file.footer_checksum;
}

/* Takes references to all that stands in the version, whose indexes are checked, and makes the
 * search over its runs. Without memory for that they are searched one by one. */
static void finish_version(struct cairn_version *version)
{
	struct cairn_run_reader *readers[CAIRN_CASCADE_RUNS_MAX];
	const struct cairn_fraction *fractions[CAIRN_CASCADE_RUNS_MAX];
	size_t count = version->count;
	for (size_t i = 0; i < count; i++) {
		struct cairn_index *index = version->indexes[i];
		if (index && (i + 1 == count || !is_built_on(index, version->runs[count - 1])))
			version->indexes[i] = index = NULL;
		cairn_run_ref(version->runs[i]);
		cairn_index_ref(index);
		if (count <= CAIRN_CASCADE_RUNS_MAX) {
			readers[i] = version->runs[i]->reader;
			fractions[i] = index ? index->fraction : NULL;
		}
	}
	if (count >= 2 && count <= CAIRN_CASCADE_RUNS_MAX)
		(void)cairn_cascade_new(readers, fractions, count, &version->cascade);
}

struct cairn_version *cairn_version_new(
    struct cairn_run *const *runs, struct cairn_index *const *indexes, size_t count)
{
	struct cairn_version *version = version_room(count);
	if (!version)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		version->runs[i] = runs[i];
		version->indexes[i] = indexes[i];
	}
	finish_version(version);
	return version;
}

void cairn_version_ref(struct cairn_version *version)
{
	ref(&version->references);
}

void cairn_version_unref(struct cairn_version *version)
{
	if (!version || !unref(&version->references))
		return;
	cairn_cascade_free(version->cascade);
	for (size_t i = 0; i < version->count; i++) {
		cairn_index_unref(version->indexes[i]);
		cairn_run_unref(version->runs[i]);
	}
	free(version);
}

size_t cairn_version_place(const struct cairn_version *version, const struct cairn_run *run)
{
	size_t i = 0;
	while (i < version->count && version->runs[i] != run)
		i++;
	return i;
}

static void copy_part(struct cairn_version *to, size_t at, const struct cairn_version *from,
    size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to->runs[at + i] = from->runs[first + i];
		to->indexes[at + i] = from->indexes[first + i];
	}
}

struct cairn_version *cairn_version_replace(const struct cairn_version *version, size_t at,
    size_t count, struct cairn_run *run, struct cairn_index *index)
{
	size_t added = run ? 1 : 0, behind = version->count - at - count;
	struct cairn_version *next = version_room(at + added + behind);
	if (!next)
		return NULL;
	copy_part(next, 0, version, 0, at);
	if (run) {
		next->runs[at] = run;
		next->indexes[at] = index;
	}
	copy_part(next, at + added, version, at + count, behind);
	finish_version(next);
	return next;
}

struct cairn_table *cairn_table_new(struct cairn_memtable *memtable)
{
	struct cairn_table *table = calloc(1, sizeof *table);
	if (!table) {
		cairn_memtable_free(memtable);
		return NULL;
	}
	atomic_init(&table->references, 1);
	table->memtable = memtable;
	return table;
}

void cairn_table_ref(struct cairn_table *table)
{
	ref(&table->references);
}

void cairn_table_unref(struct cairn_table *table)
{
	if (!table || !unref(&table->references))
		return;
	cairn_memtable_free(table->memtable);
	free(table);
}

static void free_retired_set(struct cairn_epoch_item *item)
{
	cairn_set_unref(
	    (struct cairn_set *)(void *)((char *)item - offsetof(struct cairn_set, retired)));
}

struct cairn_set *cairn_set_room(size_t sealed_count)
{
	return calloc(1, sizeof(struct cairn_set) + sealed_count * sizeof(struct cairn_table *));
}

void cairn_set_fill(struct cairn_set *set, struct cairn_table *active,
    struct cairn_table *const *sealed, size_t sealed_count, struct cairn_version *version)
{
	atomic_init(&set->references, 1);
	set->retired.free = free_retired_set;
	set->active = active;
	set->version = version;
	set->sealed_count = sealed_count;
	cairn_table_ref(active);
	cairn_version_ref(version);
	for (size_t i = 0; i < sealed_count; i++) {
		set->sealed[i] = sealed[i];
		cairn_table_ref(sealed[i]);
	}
}

struct cairn_set *cairn_set_new(struct cairn_table *active, struct cairn_table *const *sealed,
    size_t sealed_count, struct cairn_version *version)
{
	struct cairn_set *set = cairn_set_room(sealed_count);
	if (set)
		cairn_set_fill(set, active, sealed, sealed_count, version);
	return set;
}

void cairn_set_ref(struct cairn_set *set)
{
	ref(&set->references);
}

void cairn_set_unref(struct cairn_set *set)
{
	if (!set || !unref(&set->references))
		return;
	cairn_table_unref(set->active);
	for (size_t i = 0; i < set->sealed_count; i++)
		cairn_table_unref(set->sealed[i]);
	cairn_version_unref(set->version);
	free(set);
}

int cairn_set_find_in_tables(const struct cairn_set *set, cairn_slice key, uint64_t hash,
    uint64_t sequence, struct cairn_record *record)
{
	int rc = cairn_memtable_get(set->active->memtable, key, hash, sequence, record);
	for (size_t i = 0; rc == CAIRN_NOT_FOUND && i < set->sealed_count; i++)
		rc = cairn_memtable_get(set->sealed[i]->memtable, key, hash, sequence, record);
	return rc;
}

/* In the runs from `from` on, those without a point index placed by one search in all of them. */
static int find_by_order(const struct cairn_version *version, size_t from, cairn_slice key,
    uint64_t hash, struct cairn_record *record)
{
	struct cairn_run_aim aims[CAIRN_CASCADE_RUNS_MAX];
	unsigned how;
	int rc = cairn_cascade_find(version->cascade, key, aims, &how);
	if (rc == 0)
		rc = CAIRN_NOT_FOUND;
	for (size_t i = from; rc == CAIRN_NOT_FOUND && i < version->count; i++) {
		struct cairn_run_reader *run = version->runs[i]->reader;
		rc = cairn_run_has_point_index(run)
			 ? cairn_run_get(run, key, hash, record)
			 : cairn_run_get_from(run, key, hash, aims[i], record);
	}
	return rc;
}

int cairn_set_find(const struct cairn_set *set, cairn_slice key, uint64_t hash, uint64_t sequence,
    struct cairn_record *record)
{
	const struct cairn_version *version = set->version;
	for (size_t i = 0; i < version->count; i++)
		cairn_run_prefetch(version->runs[i]->reader, hash, false);
	int rc = cairn_set_find_in_tables(set, key, hash, sequence, record);
	for (size_t i = 0; rc == CAIRN_NOT_FOUND && i < version->count; i++) {
		struct cairn_run_reader *run = version->runs[i]->reader;
		if (CAIRN_UNLIKELY(!cairn_run_has_point_index(run)) && version->cascade)
			return find_by_order(version, i, key, hash, record);
		rc = cairn_run_get(run, key, hash, record);
	}
	return rc;
}

/* The inputs of a merged cursor: everything in the set. */
static int open_inputs(
    const struct cairn_set *set, uint64_t sequence, struct cairn_cursor **inputs, size_t *count)
{
	int rc = 0;
	if (cairn_memtable_operations(set->active->memtable))
		rc = cairn_memtable_cursor_open(
		    set->active->memtable, sequence, &inputs[(*count)++]);
	for (size_t i = 0; !rc && i < set->sealed_count; i++)
		rc = cairn_memtable_cursor_open(
		    set->sealed[i]->memtable, sequence, &inputs[(*count)++]);
	for (size_t i = 0; !rc && i < set->version->count; i++)
		rc = cairn_run_cursor_open(
		    set->version->runs[i]->reader, CAIRN_ADVISE_RANDOM, &inputs[(*count)++]);
	return rc;
}

int cairn_set_cursor(const struct cairn_set *set, uint64_t sequence,
    struct cairn_seek_counts *counts, struct cairn_cursor **cursor)
{
	*cursor = NULL;
	const struct cairn_version *version = set->version;
	size_t count = 0;
	struct cairn_merge_aim *aim = NULL;
	struct cairn_cursor **inputs =
	    calloc(1 + set->sealed_count + version->count, sizeof(struct cairn_cursor *));
	int rc = inputs ? open_inputs(set, sequence, inputs, &count)
			: cairn_error(-ENOMEM, "out of memory for an iterator");
	if (!rc && version->cascade)
		rc = cairn_seek_aim_new(version->cascade, inputs + count - version->count,
		    version->count, counts, &aim);
	if (rc) {
		while (count > 0)
			if (inputs[--count])
				cairn_cursor_close(inputs[count]);
	} else {
		rc = cairn_merge_open(inputs, count, cursor);
		if (rc && aim)
			aim->close(aim);
		else if (aim)
			cairn_merge_set_aim(*cursor, aim);
	}
	free(inputs);
	return rc;
}
