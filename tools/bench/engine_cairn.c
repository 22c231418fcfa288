/*
 * tools/bench/engine_cairn.c -- cairn itself, through cairn.h as any program would.
 *
 * get is cairn_get: it answers as of now and copies the value out. With a snapshot held it is
 * cairn_view_get, which does neither. A cursor has a view of its own.
 */
#include <stdlib.h>

#include "tools/bench/engine.h"

struct store {
	cairn *db;
	size_t value_size;
};

struct session {
	cairn *db;
	cairn_batch *batch;
	cairn_view *held;
	void *value; /* of the last get */
	size_t capacity;
};

struct cursor {
	cairn_view *view;
	cairn_iter *iter;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%s", cairn_version());
}

static int failed(const char *call)
{
	return cairn_bench_failed("cairn", call, cairn_message(NULL));
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
	cairn_options options;
	cairn_options_init(&options);
	if (place->variant)
		options = *place->variant;
	options.sync_mode = place->sync_mode;
	cairn *db;
	int rc = cairn_open(place->directory, &options, &db);
	if (rc)
		return rc == CAIRN_UNSUPPORTED ? CAIRN_BENCH_NO_SUCH : failed("open");
	struct store *made = cairn_bench_new(sizeof *made);
	*made = (struct store){.db = db, .value_size = place->value_size};
	*store = made;
	return 0;
}

static int close_store(void *store)
{
	struct store *s = store;
	int rc = done("close", cairn_close(s->db));
	free(s);
	return rc;
}

static int open_session(void *store, void **session)
{
	const struct store *s = store;
	struct session *made = cairn_bench_new(sizeof *made);
	made->db = s->db;
	made->batch = cairn_batch_new();
	cairn_bench_reserve(&made->value, &made->capacity, s->value_size + 1);
	*session = made;
	return made->batch ? 0 : failed("batch_new");
}

static void close_session(void *session)
{
	struct session *s = session;
	cairn_batch_free(s->batch);
	free(s->value);
	free(s);
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	return done("put", cairn_put(s->db, key, value, sync ? CAIRN_SYNC : 0));
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	return done("delete", cairn_delete(s->db, key, 0));
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	return done("batch_put", cairn_batch_put(s->batch, key, value));
}

static int commit(void *session, bool sync)
{
	struct session *s = session;
	int rc = done("write", cairn_write(s->db, s->batch, sync ? CAIRN_SYNC : 0));
	cairn_batch_clear(s->batch);
	return rc;
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	if (s->held)
		return answer("view_get", cairn_view_get(s->held, key, value));
	size_t size;
	int rc = cairn_get(s->db, key, s->value, s->capacity, &size);
	*value = (cairn_slice){s->value, size};
	return answer("get", rc);
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	struct session *s = session;
	int rc = cairn_multi_get(s->db, keys, n, each, context);
	return !rc || rc == CAIRN_BENCH_WRONG ? rc : failed("multi_get");
}

static int hold(void *session)
{
	struct session *s = session;
	return done("view_open", cairn_view_open(s->db, &s->held));
}

static int let_go(void *session)
{
	struct session *s = session;
	cairn_view *view = s->held;
	s->held = NULL;
	return done("view_close", cairn_view_close(view));
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	cairn_iter_close(c->iter);
	cairn_view_close(c->view);
	free(c);
}

static int open_cursor(void *session, void **cursor)
{
	struct session *s = session;
	struct cursor *made = cairn_bench_new(sizeof *made);
	int rc = cairn_view_open(s->db, &made->view);
	if (!rc)
		rc = cairn_iter_open(made->view, NULL, &made->iter);
	if (rc) {
		close_cursor(made);
		return failed("iter_open");
	}
	*cursor = made;
	return 0;
}

static int first(void *cursor)
{
	struct cursor *c = cursor;
	return answer("iter_first", cairn_iter_first(c->iter));
}

static int last(void *cursor)
{
	struct cursor *c = cursor;
	return answer("iter_last", cairn_iter_last(c->iter));
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	return answer("iter_seek", cairn_iter_seek(c->iter, key));
}

static int next(void *cursor)
{
	struct cursor *c = cursor;
	return answer("iter_next", cairn_iter_next(c->iter));
}

static int prev(void *cursor)
{
	struct cursor *c = cursor;
	return answer("iter_prev", cairn_iter_prev(c->iter));
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	struct cursor *c = cursor;
	*key = cairn_iter_key(c->iter);
	*value = cairn_iter_value(c->iter);
	return value->data ? 0 : failed("iter_value");
}

static int flush(void *session)
{
	struct session *s = session;
	return done("flush", cairn_flush(s->db));
}

static int rest(void *session)
{
	struct session *s = session;
	int rc = cairn_flush(s->db);
	if (!rc)
		rc = cairn_wait(s->db);
	return done("wait", rc);
}

static int compact(void *session)
{
	struct session *s = session;
	return done("compact", cairn_compact(s->db));
}

static int print_statistics(void *session, FILE *to)
{
	struct session *s = session;
	size_t size;
	int rc = cairn_stat_json(s->db, NULL, 0, &size);
	char *text = cairn_bench_new(size + 1);
	if (!rc)
		rc = cairn_stat_json(s->db, text, size + 1, &size);
	if (!rc)
		fprintf(to, "%s\n", text);
	free(text);
	return done("stat_json", rc);
}

const struct bench_engine cairn_bench_cairn = {
    .name = "cairn",
    .settings = "defaults: memtable 64 MiB, point index, no compression; cairn_get (copies), "
		"held: cairn_view_get (zero copy); every value verified by its checksum",
    .traits = CAIRN_BENCH_ORDERED | CAIRN_BENCH_DURABLE | CAIRN_BENCH_CONCURRENT |
	      CAIRN_BENCH_FILES | CAIRN_BENCH_SURVIVES,
    .version = version,
    .open = open_store,
    .close = close_store,
    .session_open = open_session,
    .session_close = close_session,
    .put = put,
    .remove = remove_record,
    .add = add,
    .commit = commit,
    .get = get,
    .get_many = get_many,
    .hold = hold,
    .let_go = let_go,
    .cursor_open = open_cursor,
    .cursor_close = close_cursor,
    .first = first,
    .last = last,
    .seek = seek,
    .next = next,
    .prev = prev,
    .record = record,
    .flush = flush,
    .rest = rest,
    .compact = compact,
    .print_statistics = print_statistics,
};
