/*
 * store/version.h -- what a read reads: runs, versions (immutable lists of runs), memory tables,
 * and sets of it all.
 *
 *	run      one opened `.kv` file; when the durable manifest no longer names it and its last
 *	         reader is gone, the file is removed
 *	index    one opened `.ix` file, likewise: the fractional index of a run on the last one
 *	version  the runs of one manifest, newest first, with their indexes and the search over all
 *	table    one memtable with the place in the log where it ends
 *	set      the active table, the sealed ones, a version: all that holds records at one moment
 *
 * All are reference counted and immutable once published, but for the active table's content and a
 * run's `busy`, `rent`, `dead_bytes`, `unindexable` (changed under the store's publish lock) and
 * `obsolete` (atomic).
 */
#ifndef CAIRN_STORE_VERSION_H
#define CAIRN_STORE_VERSION_H

#include <stdatomic.h>

#include "format/cascade.h"
#include "format/fraction.h"
#include "format/manifest.h"
#include "format/run_reader.h"
#include "store/epoch.h"
#include "store/memtable.h"

struct cairn_obsolete;
struct cairn_seek_counts;

struct cairn_run {
	_Atomic uint32_t references;
	atomic_bool
	    obsolete;  /* the durable manifest does not name it: remove the file at the end */
	bool busy;     /* input of a merge */
	uint64_t rent; /* compaction/policy.h */
	_Atomic uint64_t dead_bytes; /* shadow.h; read by cairn_run_dead_bytes */
	uint64_t unindexable; /* number of an anchor on which an index of it is not worth having */
	struct cairn_manifest_file file;
	struct cairn_run_reader *reader;
	struct cairn_obsolete *graveyard; /* takes the file over when it is obsolete */
};

struct cairn_index {
	_Atomic uint32_t references;
	atomic_bool obsolete;
	struct cairn_fraction_file file;
	struct cairn_fraction *fraction;
	struct cairn_obsolete *graveyard;
};

struct cairn_version {
	_Atomic uint32_t references;
	size_t count;
	struct cairn_cascade *cascade; /* NULL: runs are searched one by one */
	struct cairn_index **indexes;  /* of each run, NULL for those that have none */
	struct cairn_run *runs[];      /* newest first */
};

struct cairn_table {
	_Atomic uint32_t references;
	struct cairn_memtable *memtable;
	uint64_t log_end; /* position behind its last record; set when it is sealed */
	uint64_t last_sequence;
};

struct cairn_set {
	_Atomic uint32_t references;
	struct cairn_epoch_item retired;
	struct cairn_table *active;
	struct cairn_version *version;
	size_t sealed_count;
	struct cairn_table *sealed[]; /* newest first */
};

/* Wraps an opened reader, which it takes over (also on failure). One reference. NULL when memory is
 * short. */
struct cairn_run *cairn_run_new(struct cairn_run_reader *reader,
    const struct cairn_manifest_file *file, struct cairn_obsolete *graveyard);
void cairn_run_ref(struct cairn_run *run);
void cairn_run_unref(struct cairn_run *run); /* NULL is fine, as for all of these */

/* What newer runs shadow or delete of its file, by estimate. Any thread. */
uint64_t cairn_run_dead_bytes(const struct cairn_run *run);

/* The same for an index. */
struct cairn_index *cairn_index_new(struct cairn_fraction *fraction,
    const struct cairn_fraction_file *file, struct cairn_obsolete *graveyard);
void cairn_index_ref(struct cairn_index *index);
void cairn_index_unref(struct cairn_index *index);

/* A version of `count` runs and their indexes, references taken. NULL when memory is short. */
struct cairn_version *cairn_version_new(
    struct cairn_run *const *runs, struct cairn_index *const *indexes, size_t count);
void cairn_version_ref(struct cairn_version *version);
void cairn_version_unref(struct cairn_version *version);

/* Where the run stands; `count` when it does not. */
size_t cairn_version_place(const struct cairn_version *version, const struct cairn_run *run);

/*
 * The version with `run` (NULL: none) in place of `count` runs from `at` on. Indexes that were
 * built on another last run than it has, among them `index`, that of `run` (NULL: none), are left
 * out. * NULL when memory is short.
 */
struct cairn_version *cairn_version_replace(const struct cairn_version *version, size_t at,
    size_t count, struct cairn_run *run, struct cairn_index *index);

/* Takes `memtable` over (also on failure). One reference. */
struct cairn_table *cairn_table_new(struct cairn_memtable *memtable);
void cairn_table_ref(struct cairn_table *table);
void cairn_table_unref(struct cairn_table *table);

/* A set of these, references taken. NULL when memory is short. */
struct cairn_set *cairn_set_new(struct cairn_table *active, struct cairn_table *const *sealed,
    size_t sealed_count, struct cairn_version *version);
/* The same in two steps, the second of which cannot fail: room (freed by free while it is not
 * filled) for a set of up to `sealed_count` sealed tables. */
struct cairn_set *cairn_set_room(size_t sealed_count);
void cairn_set_fill(struct cairn_set *set, struct cairn_table *active,
    struct cairn_table *const *sealed, size_t sealed_count, struct cairn_version *version);
void cairn_set_ref(struct cairn_set *set);
void cairn_set_unref(struct cairn_set *set);

/*
 * The newest record of `key` visible at `sequence`, in tables first, then in runs. 0: *record,
 * verified, perhaps a tombstone; it points into the set's memory. CAIRN_NOT_FOUND, CAIRN_CONFLICT
 * (see memtable.h), CAIRN_CORRUPT.
 */
int cairn_set_find(const struct cairn_set *set, cairn_slice key, uint64_t hash, uint64_t sequence,
    struct cairn_record *record);

/* The same without the runs. */
int cairn_set_find_in_tables(const struct cairn_set *set, cairn_slice key, uint64_t hash,
    uint64_t sequence, struct cairn_record *record);

/* A merged cursor over everything in the set that is visible at `sequence`. The set must outlive
 * it, and so must `counts`, which its seeks are counted in. */
int cairn_set_cursor(const struct cairn_set *set, uint64_t sequence,
    struct cairn_seek_counts *counts, struct cairn_cursor **cursor);

#endif
