/*
 * store/version.c -- see version.h.
 */
#include "store/version.h"

#include <errno.h>
#include <stdlib.h>

#include "compaction/merge.h"
#include "format/error.h"
#include "store/obsolete.h"

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

struct cairn_version *cairn_version_new(struct cairn_run *const *runs, size_t count)
{
	struct cairn_version *version = malloc(sizeof *version + count * sizeof *runs);
	if (!version)
		return NULL;
	atomic_init(&version->references, 1);
	version->count = count;
	for (size_t i = 0; i < count; i++) {
		version->runs[i] = runs[i];
		cairn_run_ref(runs[i]);
	}
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
	for (size_t i = 0; i < version->count; i++)
		cairn_run_unref(version->runs[i]);
	free(version);
}

size_t cairn_version_place(const struct cairn_version *version, const struct cairn_run *run)
{
	size_t i = 0;
	while (i < version->count && version->runs[i] != run)
		i++;
	return i;
}

struct cairn_version *cairn_version_replace(
    const struct cairn_version *version, size_t at, size_t count, struct cairn_run *run)
{
	size_t added = run ? 1 : 0;
	size_t total = version->count - count + added;
	struct cairn_version *next = malloc(sizeof *next + total * sizeof *next->runs);
	if (!next)
		return NULL;
	atomic_init(&next->references, 1);
	next->count = total;
	size_t n = 0;
	for (size_t i = 0; i < at; i++)
		next->runs[n++] = version->runs[i];
	if (run)
		next->runs[n++] = run;
	for (size_t i = at + count; i < version->count; i++)
		next->runs[n++] = version->runs[i];
	for (size_t i = 0; i < n; i++)
		cairn_run_ref(next->runs[i]);
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

int cairn_set_find(const struct cairn_set *set, cairn_slice key, uint64_t hash, uint64_t sequence,
    struct cairn_record *record)
{
	for (size_t i = 0; i < set->version->count; i++)
		cairn_run_prefetch(set->version->runs[i]->reader, hash, false);
	int rc = cairn_set_find_in_tables(set, key, hash, sequence, record);
	for (size_t i = 0; rc == CAIRN_NOT_FOUND && i < set->version->count; i++)
		rc = cairn_run_get(set->version->runs[i]->reader, key, hash, record);
	return rc;
}

int cairn_set_cursor(const struct cairn_set *set, uint64_t sequence, struct cairn_cursor **cursor)
{
	*cursor = NULL;
	size_t most = 1 + set->sealed_count + set->version->count, count = 0;
	struct cairn_cursor **inputs = calloc(most, sizeof(struct cairn_cursor *));
	int rc = inputs ? 0 : cairn_error(-ENOMEM, "out of memory for an iterator");
	if (!rc && cairn_memtable_operations(set->active->memtable))
		rc = cairn_memtable_cursor_open(set->active->memtable, sequence, &inputs[count++]);
	for (size_t i = 0; !rc && i < set->sealed_count; i++)
		rc = cairn_memtable_cursor_open(
		    set->sealed[i]->memtable, sequence, &inputs[count++]);
	for (size_t i = 0; !rc && i < set->version->count; i++)
		rc = cairn_run_cursor_open(
		    set->version->runs[i]->reader, CAIRN_ADVISE_RANDOM, &inputs[count++]);
	if (!rc) {
		rc = cairn_merge_open(inputs, count, cursor);
	} else {
		while (count > 0)
			if (inputs[--count])
				cairn_cursor_close(inputs[count]);
	}
	free(inputs);
	return rc;
}
