/*
 * tests/run_set.h -- the runs of a store, newest first, of keys whose order is hard to search, and
 * what they hold: the oracle of searches in all runs.
 *
 * The oracle has sorted keys and looks at whole ones; of the files it believes where blocks begin
 * and how many records each has, which tests of runs see to.
 */
#ifndef CAIRN_TESTS_RUN_SET_H
#define CAIRN_TESTS_RUN_SET_H

#include "format/identity.h"
#include "format/run_reader.h"
#include "tests/sim_io.h"

#define RUN_SET_RUNS_MAX 8u
#define RUN_SET_KEY_MAX  1024u

/* Writes key number i of run `run` (0 is the newest) and returns its size. Any order; repeats are
 * dropped. */
typedef size_t run_set_key(uint8_t *key, size_t i, unsigned run, uint64_t *random);

struct run_set_spec {
	const char *name;
	run_set_key *make;
	size_t count[RUN_SET_RUNS_MAX]; /* of keys, newest run first; 0 behind the anchor's */
	bool tombstones;
};

/* Those that all tests of such searches go through; the last has a NULL name. */
extern const struct run_set_spec run_set_specs[];

struct run_set_run {
	uint64_t number;
	char path[32];
	cairn_slice *key;
	size_t count;
	bool tombstones;
	size_t blocks;
	size_t *first;    /* the first record of each block, and at the end `count` */
	uint64_t *offset; /* where each block is in the file */
	struct cairn_run_reader *reader;
};

struct run_set {
	const char *name;
	struct cairn_identity identity;
	struct sim_disk *disk;
	struct cairn_io *io;
	unsigned count;
	struct run_set_run run[RUN_SET_RUNS_MAX]; /* the last is the anchor */
};

/* Files are /000001.kv (the anchor), /000002.kv, … of a disk of their own. */
void run_set_make(struct run_set *set, const struct run_set_spec *spec, uint64_t seed);
void run_set_free(struct run_set *set); /* no other file of the disk is open */

/* The first record with a key >= `key`; `count` when there is none. */
size_t run_set_lower_bound(const struct run_set_run *run, cairn_slice key);

/* The block that `key` belongs to: the last that begins at or below it, block 0 where none does. */
size_t run_set_block(const struct run_set_run *run, cairn_slice key);

static inline cairn_slice run_set_fence(const struct run_set_run *run, size_t block)
{
	return run->key[run->first[block]];
}

/* Whether that is what was written as record i. */
bool run_set_is_record(const struct run_set_run *run, size_t i, const struct cairn_record *record);

/* Keys to look for: those of all runs, what is close to them, and what is not; not more than
 * about `most`. */
struct run_set_queries {
	cairn_slice *key;
	size_t count;
};

struct run_set_queries run_set_queries(const struct run_set *set, size_t most, uint64_t *random);
void run_set_free_queries(struct run_set_queries *queries);

#endif
