/*
 * tests/log_life.h -- a store on a simulated disk, of which every write is remembered: what the
 * tests of the log's rules mistreat.
 *
 * Each put is a step of the history (crash_history.h), and one record of the log.
 *
 * Threads: a life belongs to one thread; its store has no others.
 */
#ifndef CAIRN_TESTS_LOG_LIFE_H
#define CAIRN_TESTS_LOG_LIFE_H

#include "tests/crash_check.h"
#include "tests/crash_history.h"
#include "tests/sim_io.h"

#define LOG_LIFE_STORE "/store"

struct log_life {
	uint64_t random;
	struct sim_disk *disk;
	cairn_options options;
	cairn *db; /* NULL while it is closed */
	struct crash_history history;
};

/* A new store on a new disk. Each of these functions fails the test when the store refuses. */
void log_life_begin(struct log_life *life, uint64_t seed, size_t memtable_bytes);
/* Frees all, and closes the store if it is open. */
void log_life_end(struct log_life *life);

/* One of a hundred keys, with a value of `size` bytes. */
void log_life_put(struct log_life *life, size_t size, bool sync);
void log_life_sync(struct log_life *life);
/* All background work that is due. */
void log_life_work(struct log_life *life);

void log_life_open(struct log_life *life);
void log_life_close(struct log_life *life);
/* The process is killed, and the store opened again by the next one. */
void log_life_kill(struct log_life *life);

/* The store on `disk`, which is used up, has `least` to `most` steps; how many. */
size_t log_life_check(
    const struct log_life *life, struct sim_disk *disk, size_t least, size_t most);

#endif
