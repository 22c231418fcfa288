/*
 * tests/crash_workload.h -- what a store on a simulated disk is asked to do until it crashes.
 *
 * A *workload* is a list of operations and the kind of store they are for. It follows from its name
 * and a seed alone:
 *
 *	LETTERS/mapped, LETTERS/written   the operations that the letters stand for, in turn, with a
 *	                                  log that is mapped, or written by calls
 *	random/N                          a long one; everything is drawn
 *
 * A *run* is the execution of one, which keeps the history of it. When a call fails that may fail
 * the run does what a program would: it closes the store and opens it again.
 *
 * Threads: everything happens in the calling thread, background work in operations of its own.
 */
#ifndef CAIRN_TESTS_CRASH_WORKLOAD_H
#define CAIRN_TESTS_CRASH_WORKLOAD_H

#include <stdio.h>

#include "tests/crash_check.h"

#define CRASH_STORE       "/store"
#define CRASH_COPIES_MOST 2u
#define CRASH_VIEWS_MOST  2u

enum crash_action {
	CRASH_WRITE, /* a put, a delete or a batch */
	CRASH_SYNC,
	CRASH_FLUSH,
	CRASH_MERGE, /* cairn_compact */
	CRASH_WAIT,
	CRASH_CHECKPOINT,
	CRASH_REOPEN,
	CRASH_WORK, /* some steps of background work */
	CRASH_REST, /* the clock moves, and all background work that is due then */
	CRASH_VIEW, /* opens one, or closes the oldest when there are enough */
	CRASH_DIE,  /* the machine or the process ends, and life goes on with what is left */
};

struct crash_operation {
	enum crash_action action;
	bool sync;          /* of a write: CAIRN_SYNC */
	unsigned amount;    /* of background steps */
	enum sim_loss loss; /* of a death */
	size_t count;
	struct crash_part parts[CRASH_PARTS_MOST];
};

struct crash_workload {
	char name[64];
	uint64_t seed; /* of the disk, and of what a crash loses */
	int sync_mode;
	bool written; /* the log, by calls */
	unsigned keys;
	uint64_t failing_sync; /* this sync, of a file or a directory, fails, and what it had to
				* write to a file is lost; 0: none does */
	struct crash_operation *operations;
	size_t count, capacity;
	size_t quiet;   /* no crash is looked at during the first so many operations */
	unsigned every; /* of the moments for a crash: look at one in so many */
	unsigned draws; /* of losses at one moment; 0: all of them */
};

/* How many workloads with up to four letters there are. */
#define CRASH_LETTERS    8u
#define CRASH_EXHAUSTIVE (2u * (8u + 8u * 8u + 8u * 8u * 8u + 8u * 8u * 8u * 8u))

/* One of those, all of which together look at each crash of each of them once. */
void crash_workload_short(struct crash_workload *workload, unsigned index, uint64_t seed);
void crash_workload_random(struct crash_workload *workload, uint64_t number, uint64_t seed);
/* False when that is no name. */
bool crash_workload_named(struct crash_workload *workload, const char *name, uint64_t seed);
/* Adds one by hand; what is not set is zero. */
void crash_workload_add(struct crash_workload *workload, const struct crash_operation *operation);
void crash_workload_release(struct crash_workload *workload);
void crash_workload_print(const struct crash_workload *workload, FILE *out);
/* What it takes away, in words. */
const char *crash_loss_name(enum sim_loss loss);
void crash_operation_print(const struct crash_operation *operation, FILE *out);

struct crash_copy {
	char path[16];
	size_t step; /* the steps that it has */
	bool finished;
};

struct crash_held_view {
	cairn_view *view;
	size_t step;
};

struct crash_run {
	const struct crash_workload *workload;
	struct sim_disk *disk; /* another one after each death */
	sim_watcher *watcher;  /* of all of them */
	void *watcher_context;
	struct crash_history history;
	struct crash_copy copies[CRASH_COPIES_MOST];
	size_t copy_count;
	size_t done; /* operations that have ended */
	struct crash_verdict verdict;
	cairn *db;
	cairn_batch *batch;
	uint8_t *value;
	struct crash_held_view views[CRASH_VIEWS_MOST]; /* oldest first */
	size_t view_count;
};

/*
 * Makes the disk, with `bugs` planted, and opens the store. These three are false, with the
 * verdict, when the store did what it must not do. `watcher` may be NULL.
 */
bool crash_run_begin(struct crash_run *run, const struct crash_workload *workload, unsigned bugs,
    sim_watcher *watcher, void *context);
/* The next operation. */
bool crash_run_operation(struct crash_run *run);
/* Nobody watches any more. */
void crash_run_ignore(struct crash_run *run);
/* Closes and frees everything, also after a failure. */
bool crash_run_end(struct crash_run *run);

#endif
