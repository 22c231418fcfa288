/*
 * tools/bench/engine_table.c -- a frozen table of cairn, through cairn.h: built once, then mapped.
 *
 * Fills are builds. A build reads everything back before the table gets its name; that is in its
 * time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/engine.h"

/* Either of the two is open. */
struct store {
	char *path;
	cairn_table_writer *writer;
	cairn_table *table;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%s", cairn_version());
}

static int failed(const char *call)
{
	return cairn_bench_failed("table", call, cairn_message(NULL));
}

/* 0 or a failure. */
static int done(const char *call, int rc)
{
	return rc < 0 ? failed(call) : 0;
}

/* 0, absent or a failure. */
static int answer(const char *call, int rc)
{
	return rc < 0 ? failed(call) : rc ? CAIRN_BENCH_ABSENT : 0;
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	const char *path = cairn_bench_path(place->directory, "data.kv");
	size_t size = strlen(path) + 1;
	made->path = cairn_bench_new(size);
	memcpy(made->path, path, size);
	int rc = cairn_table_open(path, &made->table);
	if (rc == -ENOENT)
		rc = cairn_table_writer_open(path, place->variant, &made->writer);
	if (rc) {
		free(made->path);
		free(made);
		return rc == CAIRN_UNSUPPORTED ? CAIRN_BENCH_NO_SUCH : failed("open");
	}
	*store = made;
	return 0;
}

static int close_store(void *store)
{
	struct store *s = store;
	cairn_table_writer_abort(s->writer);
	int rc = done("close", cairn_table_close(s->table));
	free(s->path);
	free(s);
	return rc;
}

/* There is nothing that a session would have to itself. */
static int open_session(void *store, void **session)
{
	*session = store;
	return 0;
}

static void close_session(void *session)
{
	(void)session;
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct store *s = session;
	return done("add", cairn_table_writer_add(s->writer, key, value));
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
	struct store *s = session;
	int rc = cairn_table_writer_finish(s->writer);
	s->writer = NULL;
	if (!rc)
		rc = cairn_table_open(s->path, &s->table);
	return done("finish", rc);
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct store *s = session;
	return answer("get", cairn_table_get(s->table, key, value));
}

static int open_cursor(void *session, void **cursor)
{
	struct store *s = session;
	cairn_iter *iter;
	int rc = done("iter_open", cairn_table_iter_open(s->table, NULL, &iter));
	*cursor = iter;
	return rc;
}

static void close_cursor(void *cursor)
{
	cairn_iter_close(cursor);
}

static int first(void *cursor)
{
	return answer("iter_first", cairn_iter_first(cursor));
}

static int last(void *cursor)
{
	return answer("iter_last", cairn_iter_last(cursor));
}

static int seek(void *cursor, cairn_slice key)
{
	return answer("iter_seek", cairn_iter_seek(cursor, key));
}

static int next(void *cursor)
{
	return answer("iter_next", cairn_iter_next(cursor));
}

static int prev(void *cursor)
{
	return answer("iter_prev", cairn_iter_prev(cursor));
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	*key = cairn_iter_key(cursor);
	*value = cairn_iter_value(cursor);
	return value->data ? 0 : failed("iter_value");
}

static int rest(void *session)
{
	(void)session;
	return 0;
}

static int print_statistics(void *session, FILE *to)
{
	const struct store *s = session;
	fprintf(to, "%llu records\n", (unsigned long long)cairn_table_count(s->table));
	return 0;
}

const struct bench_engine cairn_bench_table = {
    .name = "table",
    .settings = "frozen table of cairn: written once (fills are builds, sorted, verified), mapped, "
		"zero copy; point index; every value verified by its checksum",
    .traits = CAIRN_BENCH_STATIC | CAIRN_BENCH_FILES | CAIRN_BENCH_ORDERED,
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
    .cursor_open = open_cursor,
    .cursor_close = close_cursor,
    .first = first,
    .last = last,
    .seek = seek,
    .next = next,
    .prev = prev,
    .record = record,
    .rest = rest,
    .compact = rest,
    .print_statistics = print_statistics,
};
