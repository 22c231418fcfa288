/*
 * tools/bench/engine.h -- what the benchmark asks of a store, and nothing more.
 *
 * An engine is a table of calls, one file each (engine_NAME.c), listed in engine.c. A store is an
 * open directory of it; a session is what one thread reads and writes it through; a cursor walks
 * over all records in the order of their keys.
 *
 * 1. Calls return 0, CAIRN_BENCH_ABSENT where the answer is "no such record", or a failure that
 *    was said by cairn_bench_failed.
 * 2. What a read hands out is valid until the next call on the same session or cursor: engines that
 *    can answer without copying do so, by the cheapest call that is safe.
 * 3. A get sees every write acknowledged before it, unless the session holds a snapshot.
 * 4. A session belongs to one thread. Several sessions read at once; several write only where the
 *    engine has CAIRN_BENCH_CONCURRENT.
 * 5. Calls that an engine lacks are NULL; what needs them is left out and printed as "-".
 */
#ifndef CAIRN_TOOLS_BENCH_ENGINE_H
#define CAIRN_TOOLS_BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "store/cairn.h"

enum cairn_bench_result {
	CAIRN_BENCH_FINE = 0,
	CAIRN_BENCH_ABSENT = 1,
	CAIRN_BENCH_WRONG = -1000,   /* a wrong answer, which ends the run */
	CAIRN_BENCH_FAILED = -1001,  /* the engine or the system failed */
	CAIRN_BENCH_NO_SUCH = -1002, /* this build of the engine cannot do that; not said */
};

enum cairn_bench_trait {
	CAIRN_BENCH_ORDERED = 1,    /* has cursors */
	CAIRN_BENCH_STATIC = 2,     /* filled once, finished, then only read */
	CAIRN_BENCH_DURABLE = 4,    /* a write that was asked to be durable is */
	CAIRN_BENCH_CONCURRENT = 8, /* any number of writers and readers at once */
	CAIRN_BENCH_FILES = 16,     /* can be closed and opened again */
	CAIRN_BENCH_SURVIVES = 32,  /* any acknowledged write survives a killed process */
};

#define CAIRN_BENCH_MANY 16u /* keys in a get_many, at most */

/* Where a store lives, and what it should be prepared for. */
struct bench_place {
	const char *directory; /* is there */
	uint64_t records;      /* about so many will come */
	size_t key_size, value_size;
	int sync_mode;                /* cairn only: of writes that are not asked to be durable */
	const cairn_options *variant; /* cairn, table: more options, or NULL */
};

struct bench_engine {
	const char *name;
	const char *settings; /* in one line: what is not the engine's default, how it is read */
	unsigned traits;
	void (*version)(char *text, size_t size);

	int (*open)(const struct bench_place *place, void **store); /* makes it or opens it */
	int (*close)(void *store);
	int (*session_open)(void *store, void **session);
	void (*session_close)(void *session);

	int (*put)(void *session, cairn_slice key, cairn_slice value, bool sync);
	int (*remove)(void *session, cairn_slice key);
	/* A batch: records are added, then become part of the store together. */
	int (*add)(void *session, cairn_slice key, cairn_slice value);
	int (*commit)(void *session, bool sync);
	/* Static engines: the end of writing. */
	int (*finish)(void *session);

	int (*get)(void *session, cairn_slice key, cairn_slice *value);
	/* Calls `each` for every key (at most CAIRN_BENCH_MANY), in their order; ends early when
	 * that returns non-zero. NULL: the engine has no such call, and gets stand in for it. */
	int (*get_many)(void *session, const cairn_slice *keys, size_t n,
	    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context);
	/* All gets between the two see one moment. */
	int (*hold)(void *session);
	int (*let_go)(void *session);

	/* A cursor sees the moment it was opened, or that of its last first, last or seek. next
	 * follows first, seek or next; prev follows last or prev. */
	int (*cursor_open)(void *session, void **cursor);
	void (*cursor_close)(void *cursor);
	int (*first)(void *cursor);
	int (*last)(void *cursor);
	int (*seek)(void *cursor, cairn_slice key); /* the first record with a key >= key */
	int (*next)(void *cursor);
	int (*prev)(void *cursor);
	int (*record)(void *cursor, cairn_slice *key, cairn_slice *value);

	int (*flush)(void *session);   /* what is in memory becomes a file of its own */
	int (*rest)(void *session);    /* flush, and wait until no work is left to do */
	int (*compact)(void *session); /* all work that can be done for reads */
	int (*print_statistics)(void *session, FILE *to);
};

/* The engines of this build; ends with NULL. */
extern const struct bench_engine *const cairn_bench_engines[];

extern const struct bench_engine cairn_bench_cairn;
extern const struct bench_engine cairn_bench_table;
extern const struct bench_engine cairn_bench_memory;
extern const struct bench_engine cairn_bench_rocksdb;
extern const struct bench_engine cairn_bench_leveldb;
extern const struct bench_engine cairn_bench_lmdb;
extern const struct bench_engine cairn_bench_sqlite;
extern const struct bench_engine cairn_bench_wiredtiger;
extern const struct bench_engine cairn_bench_cdb;

/* The engine whose name are these bytes, or NULL. */
const struct bench_engine *cairn_bench_engine(const char *name, size_t size);

/* Says on standard error what went wrong in an engine; returns CAIRN_BENCH_FAILED. */
int cairn_bench_failed(const char *engine, const char *call, const char *reason);

/* A zeroed object, or the end of the program. */
void *cairn_bench_new(size_t size);

/* "DIRECTORY/NAME", valid until the next call in this thread. */
const char *cairn_bench_path(const char *directory, const char *name);

/* Makes *buffer at least `size` bytes long, or ends the program; `*capacity` is kept for that. */
void cairn_bench_reserve(void **buffer, size_t *capacity, size_t size);

#endif
