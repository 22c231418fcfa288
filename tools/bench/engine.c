/* tools/bench/engine.c -- the engines of this build, and what they share (engine.h). */
#include <stdlib.h>
#include <string.h>

#include "tools/bench/engine.h"

const struct bench_engine *const cairn_bench_engines[] = {
    &cairn_bench_cairn,
    &cairn_bench_table,
#ifdef CAIRN_BENCH_ROCKSDB
    &cairn_bench_rocksdb,
#endif
#ifdef CAIRN_BENCH_LEVELDB
    &cairn_bench_leveldb,
#endif
#ifdef CAIRN_BENCH_LMDB
    &cairn_bench_lmdb,
#endif
#ifdef CAIRN_BENCH_SQLITE
    &cairn_bench_sqlite,
#endif
#ifdef CAIRN_BENCH_WIREDTIGER
    &cairn_bench_wiredtiger,
#endif
#ifdef CAIRN_BENCH_CDB
    &cairn_bench_cdb,
#endif
    &cairn_bench_memory,
    NULL,
};

const struct bench_engine *cairn_bench_engine(const char *name, size_t size)
{
	for (size_t i = 0; cairn_bench_engines[i]; i++)
		if (strlen(cairn_bench_engines[i]->name) == size &&
		    memcmp(cairn_bench_engines[i]->name, name, size) == 0)
			return cairn_bench_engines[i];
	return NULL;
}

int cairn_bench_failed(const char *engine, const char *call, const char *reason)
{
	fprintf(stderr, "cairn-bench: %s: %s: %s\n", engine, call, reason);
	return CAIRN_BENCH_FAILED;
}

static void *checked(void *memory)
{
	if (!memory) {
		fputs("cairn-bench: memory is short\n", stderr);
		exit(3);
	}
	return memory;
}

void *cairn_bench_new(size_t size)
{
	return checked(calloc(1, size ? size : 1));
}

const char *cairn_bench_path(const char *directory, const char *name)
{
	static _Thread_local char path[4096];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

void cairn_bench_reserve(void **buffer, size_t *capacity, size_t size)
{
	if (size > *capacity) {
		*buffer = checked(realloc(*buffer, size));
		*capacity = size;
	}
}
