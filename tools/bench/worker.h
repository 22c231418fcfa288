/*
 * tools/bench/worker.h -- a thread that does a share of a workload, block by block.
 */
#ifndef CAIRN_TOOLS_BENCH_WORKER_H
#define CAIRN_TOOLS_BENCH_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench/measure.h"
#include "tools/bench/pass.h"

#define CAIRN_BENCH_ENTRIES 1024u /* records that a block can speak of */
#define CAIRN_BENCH_BLOCK   512u  /* operations of a block, at most */
#define CAIRN_BENCH_BATCH   1000u /* the same, of one that is a batch */

struct bench_worker;

/* What the threads of a workload do. */
struct bench_work {
	uint64_t operations; /* of all threads together, or of each when `each` is set */
	bool each;
	bool complete;         /* what a cap leaves out is done untimed after all */
	bool batch;            /* a block is one batch, of up to CAIRN_BENCH_BATCH operations */
	bool short_operations; /* a block is as long as there are entries */
	bool sync;             /* writes are durable */
	size_t entries;        /* records that one operation speaks of */
	unsigned every;        /* measure.h */
	double seconds;        /* ends after so long; 0: does not */
	size_t user_bytes;     /* that one operation writes */
	/* Makes the next block, of at most n operations; returns how many there are. 0 ends it. */
	size_t (*prepare)(struct bench_worker *worker, size_t n);
	int (*perform)(struct bench_worker *worker, size_t n);
	int (*begin)(struct bench_worker *worker); /* these two may be NULL */
	int (*end)(struct bench_worker *worker);
};

/* A record as the block wants it. */
struct bench_entry {
	uint64_t record;
	cairn_slice key;
	cairn_slice value; /* to write or to find */
	uint8_t version;   /* 0: should not be there */
};

struct bench_worker {
	struct bench_pass *pass;
	const struct bench_work *work;
	pthread_t thread;
	unsigned number; /* among `threads` */
	unsigned threads;
	void *session;
	void *cursor;
	uint64_t random;
	uint64_t share; /* operations to do */
	uint64_t done;
	uint64_t found;
	uint64_t from; /* the first record of its share of the records */
	uint64_t count;
	uint64_t rank; /* scans: how far it has come in the order of the records */
	bool capped;
	atomic_bool *stop; /* set by others; may be NULL */
	int rc;
	uint64_t harness_cpu_ns; /* of this thread, beside what was timed */
	struct bench_tally tally;
	struct bench_entry *entries;
	uint8_t *bytes;                    /* keys and values of the entries, then one more value */
	size_t lengths[CAIRN_BENCH_BLOCK]; /* scans: records to see at each seek */
};

/* Runs the work in the threads of the options, and `beside` (may be NULL) in one more thread until
 * they are done; fills pass->phase. */
int cairn_bench_run_work(
    struct bench_pass *pass, const struct bench_work *work, const struct bench_work *beside);

/* `readers`, beside one thread that overwrites until they are done. */
int cairn_bench_overwrite_beside(struct bench_pass *pass, const struct bench_work *readers);

uint64_t cairn_bench_random(struct bench_worker *worker);

/* Fills the entry: its key and, unless the version is 0, its value. */
void cairn_bench_set_entry(struct bench_worker *worker, size_t i, uint64_t record, uint8_t version);

/* Room for one more value. */
uint8_t *cairn_bench_spare_value(const struct bench_worker *worker);

/* Compares what was read with an entry that should be there. */
static inline bool cairn_bench_same(cairn_slice a, cairn_slice b)
{
	return a.size == b.size && (a.size == 0 || __builtin_memcmp(a.data, b.data, a.size) == 0);
}

#endif
