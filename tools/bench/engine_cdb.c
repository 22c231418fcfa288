/*
 * tools/bench/engine_cdb.c -- tinycdb: a hash table in one file, written once, then mapped.
 *
 * Its lookup keeps state in the handle, so each session has a copy of it; the mapping is shared.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cdb.h>

#include "tools/bench/engine.h"

#define TEXT_OF_(x) #x
#define TEXT_OF(x)  TEXT_OF_(x)

struct store {
	int file;
	bool built;
	struct cdb_make make;
	struct cdb cdb;
};

struct session {
	struct store *store;
	struct cdb cdb;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%s", TEXT_OF(TINYCDB_VERSION));
}

static int failed(const char *call)
{
	return cairn_bench_failed("cdb", call, strerror(errno));
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	made->file = open(
	    cairn_bench_path(place->directory, "data.cdb"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	int rc = made->file < 0 ? -1 : 0;
	made->built = !rc && lseek(made->file, 0, SEEK_END) > 0;
	if (!rc)
		rc = made->built ? cdb_init(&made->cdb, made->file)
				 : cdb_make_start(&made->make, made->file);
	if (rc) {
		rc = failed("open");
		if (made->file >= 0)
			close(made->file);
		free(made);
		return rc;
	}
	*store = made;
	return 0;
}

static int finish_store(struct store *store)
{
	if (cdb_make_finish(&store->make) || cdb_init(&store->cdb, store->file))
		return failed("finish");
	store->built = true;
	return 0;
}

static int close_store(void *store)
{
	struct store *s = store;
	int rc = s->built ? 0 : finish_store(s); /* else nothing would free what was added */
	if (!rc)
		cdb_free(&s->cdb);
	close(s->file);
	free(s);
	return rc;
}

static int open_session(void *store, void **session)
{
	struct session *made = cairn_bench_new(sizeof *made);
	made->store = store;
	made->cdb = made->store->cdb;
	*session = made;
	return 0;
}

static void close_session(void *session)
{
	free(session);
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	return cdb_make_add(
		   &s->store->make, key.data, (unsigned)key.size, value.data, (unsigned)value.size)
		   ? failed("add")
		   : 0;
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	(void)sync;
	return add(session, key, value);
}

static int commit(void *session, bool sync)
{
	(void)session;
	(void)sync;
	return 0;
}

static int finish(void *session)
{
	struct session *s = session;
	int rc = finish_store(s->store);
	s->cdb = s->store->cdb;
	return rc;
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	int found = cdb_find(&s->cdb, key.data, (unsigned)key.size);
	if (found <= 0)
		return found ? failed("find") : CAIRN_BENCH_ABSENT;
	*value = (cairn_slice){cdb_getdata(&s->cdb), cdb_datalen(&s->cdb)};
	return 0;
}

static int rest(void *session)
{
	(void)session;
	return 0;
}

static int print_statistics(void *session, FILE *to)
{
	const struct session *s = session;
	fprintf(to, "%u bytes\n", s->cdb.cdb_fsize);
	return 0;
}

const struct bench_engine cairn_bench_cdb = {
    .name = "cdb",
    .settings = "tinycdb: written once (fills are builds, without log or order), mapped, zero "
		"copy, no checksums, at most 4 GiB",
    .traits = CAIRN_BENCH_STATIC | CAIRN_BENCH_FILES,
    .version = version,
    .open = open_store,
    .close = close_store,
    .session_open = open_session,
    .session_close = close_session,
    .put = put,
    .add = add,
    .commit = commit,
    .finish = finish,
    .get = get,
    .rest = rest,
    .compact = rest,
    .print_statistics = print_statistics,
};
