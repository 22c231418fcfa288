/*
 * tools/bench/engine_wiredtiger.c -- WiredTiger, a B-tree with a log.
 *
 * A session has one cursor for gets and writes, which is reset at the next call: values are read
 * where they lie in the cache. Without sync a commit stays in buffers of the process.
 */
#include <stdlib.h>
#include <string.h>

#include <wiredtiger.h>

#include "tools/bench/engine.h"

#define TABLE "table:bench"

struct store {
	WT_CONNECTION *connection;
};

struct session {
	WT_SESSION *session;
	WT_CURSOR *cursor;
	bool batch; /* a transaction is open for it */
};

struct cursor {
	WT_CURSOR *cursor;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%d.%d.%d", WIREDTIGER_VERSION_MAJOR, WIREDTIGER_VERSION_MINOR,
	    WIREDTIGER_VERSION_PATCH);
}

static int done(const char *call, int rc)
{
	return rc ? cairn_bench_failed("wiredtiger", call, wiredtiger_strerror(rc)) : 0;
}

static int answer(const char *call, int rc)
{
	return rc == WT_NOTFOUND ? CAIRN_BENCH_ABSENT : done(call, rc);
}

static int create_table(struct store *store)
{
	WT_SESSION *session;
	int rc = store->connection->open_session(store->connection, NULL, NULL, &session);
	if (rc)
		return rc;
	rc = session->create(session, TABLE, "key_format=u,value_format=u,block_compressor=snappy");
	int closed = session->close(session, NULL);
	return rc ? rc : closed;
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	int rc = wiredtiger_open(place->directory, NULL,
	    "create,cache_size=1GB,log=(enabled=true),transaction_sync=(enabled=false),"
	    "extensions=[libwiredtiger_snappy.so]",
	    &made->connection);
	if (!rc)
		rc = create_table(made);
	*store = made;
	return done("open", rc);
}

static int close_store(void *store)
{
	struct store *s = store;
	int rc = s->connection->close(s->connection, NULL);
	free(s);
	return done("close", rc);
}

static int open_session(void *store, void **session)
{
	struct store *s = store;
	struct session *made = cairn_bench_new(sizeof *made);
	int rc =
	    s->connection->open_session(s->connection, NULL, "isolation=snapshot", &made->session);
	if (!rc)
		rc = made->session->open_cursor(made->session, TABLE, NULL, NULL, &made->cursor);
	*session = made;
	return done("open_session", rc);
}

static void close_session(void *session)
{
	struct session *s = session;
	s->session->close(s->session, NULL);
	free(s);
}

static WT_ITEM item_of(cairn_slice slice)
{
	return (WT_ITEM){.data = slice.data, .size = slice.size};
}

static int insert(struct session *session, cairn_slice key, cairn_slice value)
{
	WT_ITEM k = item_of(key), v = item_of(value);
	session->cursor->set_key(session->cursor, &k);
	session->cursor->set_value(session->cursor, &v);
	return done("insert", session->cursor->insert(session->cursor));
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	if (!sync)
		return insert(s, key, value);
	int rc = done("begin", s->session->begin_transaction(s->session, NULL));
	if (!rc)
		rc = insert(s, key, value);
	if (!rc)
		rc = done("commit", s->session->commit_transaction(s->session, "sync=on"));
	return rc;
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	WT_ITEM k = item_of(key);
	s->cursor->set_key(s->cursor, &k);
	int rc = answer("remove", s->cursor->remove(s->cursor));
	return rc < 0 ? rc : 0;
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	int rc = 0;
	if (!s->batch)
		rc = done("begin", s->session->begin_transaction(s->session, NULL));
	s->batch = true;
	return rc ? rc : insert(s, key, value);
}

static int commit(void *session, bool sync)
{
	struct session *s = session;
	s->batch = false;
	return done("commit", s->session->commit_transaction(s->session, sync ? "sync=on" : NULL));
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	WT_ITEM k = item_of(key), v = {0};
	s->cursor->set_key(s->cursor, &k);
	int rc = s->cursor->search(s->cursor);
	if (!rc)
		rc = s->cursor->get_value(s->cursor, &v);
	*value = (cairn_slice){v.data, v.size};
	return answer("search", rc);
}

static int hold(void *session)
{
	struct session *s = session;
	s->cursor->reset(s->cursor);
	return done("begin", s->session->begin_transaction(s->session, "isolation=snapshot"));
}

static int let_go(void *session)
{
	struct session *s = session;
	return done("commit", s->session->commit_transaction(s->session, NULL));
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	int rc = hold(session);
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_slice value;
		rc = get(session, keys[i], &value);
		if (rc >= 0)
			rc = each(context, i, rc, value);
	}
	int ended = let_go(session);
	return rc ? rc : ended;
}

static int open_cursor(void *session, void **cursor)
{
	struct session *s = session;
	struct cursor *made = cairn_bench_new(sizeof *made);
	s->cursor->reset(s->cursor); /* while it stands somewhere its snapshot lives on */
	int rc = s->session->open_cursor(s->session, TABLE, NULL, NULL, &made->cursor);
	*cursor = made;
	return done("open_cursor", rc);
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	c->cursor->close(c->cursor);
	free(c);
}

static int next(void *cursor)
{
	struct cursor *c = cursor;
	return answer("next", c->cursor->next(c->cursor));
}

static int prev(void *cursor)
{
	struct cursor *c = cursor;
	return answer("prev", c->cursor->prev(c->cursor));
}

static int first(void *cursor)
{
	struct cursor *c = cursor;
	int rc = done("reset", c->cursor->reset(c->cursor));
	return rc ? rc : next(cursor);
}

static int last(void *cursor)
{
	struct cursor *c = cursor;
	int rc = done("reset", c->cursor->reset(c->cursor));
	return rc ? rc : prev(cursor);
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	WT_ITEM k = item_of(key);
	int order;
	c->cursor->set_key(c->cursor, &k);
	int rc = answer("search_near", c->cursor->search_near(c->cursor, &order));
	return rc || order >= 0 ? rc : next(cursor);
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	struct cursor *c = cursor;
	WT_ITEM k = {0}, v = {0};
	int rc = c->cursor->get_key(c->cursor, &k);
	if (!rc)
		rc = c->cursor->get_value(c->cursor, &v);
	*key = (cairn_slice){k.data, k.size};
	*value = (cairn_slice){v.data, v.size};
	return done("get_key", rc);
}

static int rest(void *session)
{
	struct session *s = session;
	s->cursor->reset(s->cursor);
	return done("checkpoint", s->session->checkpoint(s->session, NULL));
}

static int compact(void *session)
{
	struct session *s = session;
	int rc = rest(session);
	return rc ? rc : done("compact", s->session->compact(s->session, TABLE, "timeout=0"));
}

const struct bench_engine cairn_bench_wiredtiger = {
    .name = "wiredtiger",
    .settings = "b-tree, snappy, cache 1 GB, log on, transaction_sync off (a killed process loses "
		"what is in the log's buffers; synced: commit sync=on); zero copy from the cache",
    .traits =
	CAIRN_BENCH_ORDERED | CAIRN_BENCH_DURABLE | CAIRN_BENCH_CONCURRENT | CAIRN_BENCH_FILES,
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
    .rest = rest,
    .compact = compact,
};
