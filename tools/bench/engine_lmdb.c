/*
 * tools/bench/engine_lmdb.c -- LMDB.
 *
 * A get renews the session's read transaction, which is reset at the next call: the value is read
 * where it lies in the map. A batch is a write transaction. A cursor has a read transaction of its
 * own, as it may stay while the session goes on.
 */
#include <stdlib.h>

#include <lmdb.h>

#include "tools/bench/engine.h"

#define MAP_BYTES ((size_t)16 << 30)

struct store {
	MDB_env *env;
	MDB_dbi dbi;
};

struct session {
	const struct store *store;
	MDB_txn *read;
	bool reading; /* the read transaction is live */
	bool held;    /* and stays so */
	MDB_txn *batch;
};

struct cursor {
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_val key, value;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%d.%d.%d", MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH);
}

static int done(const char *call, int rc)
{
	return rc ? cairn_bench_failed("lmdb", call, mdb_strerror(rc)) : 0;
}

static int answer(const char *call, int rc)
{
	return rc == MDB_NOTFOUND ? CAIRN_BENCH_ABSENT : done(call, rc);
}

/* The same bytes: lmdb has one kind of value for what it reads and what it writes. */
static MDB_val value_of(cairn_slice slice)
{
	union {
		const void *from;
		void *to;
	} pointer = {slice.data};
	return (MDB_val){slice.size, pointer.to};
}

static int open_table(struct store *store)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(store->env, NULL, 0, &txn);
	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &store->dbi);
	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	int rc = mdb_env_create(&made->env);
	if (!rc)
		rc = mdb_env_set_mapsize(made->env, MAP_BYTES);
	if (!rc)
		rc = mdb_env_open(
		    made->env, place->directory, MDB_NOSYNC | MDB_WRITEMAP | MDB_NOTLS, 0666);
	if (!rc)
		rc = open_table(made);
	*store = made;
	return done("open", rc);
}

static int close_store(void *store)
{
	struct store *s = store;
	mdb_env_close(s->env);
	free(s);
	return 0;
}

static int open_session(void *store, void **session)
{
	struct session *made = cairn_bench_new(sizeof *made);
	made->store = store;
	int rc = mdb_txn_begin(made->store->env, NULL, MDB_RDONLY, &made->read);
	if (!rc)
		mdb_txn_reset(made->read);
	*session = made;
	return done("txn_begin", rc);
}

/* Ends the read transaction of the last get. */
static void end_read(struct session *session)
{
	if (session->reading && !session->held) {
		mdb_txn_reset(session->read);
		session->reading = false;
	}
}

static int begin_read(struct session *session)
{
	if (session->held)
		return 0;
	end_read(session);
	session->reading = true;
	return done("txn_renew", mdb_txn_renew(session->read));
}

static void close_session(void *session)
{
	struct session *s = session;
	mdb_txn_abort(s->read);
	free(s);
}

static int sync_store(const struct session *session, bool sync)
{
	return sync ? done("env_sync", mdb_env_sync(session->store->env, 1)) : 0;
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	MDB_txn *txn;
	MDB_val k = value_of(key), v = value_of(value);
	end_read(s);
	int rc = mdb_txn_begin(s->store->env, NULL, 0, &txn);
	if (!rc)
		rc = mdb_put(txn, s->store->dbi, &k, &v, 0);
	if (!rc)
		rc = mdb_txn_commit(txn);
	return rc ? done("put", rc) : sync_store(s, sync);
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	MDB_txn *txn;
	MDB_val k = value_of(key);
	end_read(s);
	int rc = mdb_txn_begin(s->store->env, NULL, 0, &txn);
	if (rc)
		return done("txn_begin", rc);
	rc = mdb_del(txn, s->store->dbi, &k, NULL);
	if (rc && rc != MDB_NOTFOUND) {
		mdb_txn_abort(txn);
		return done("del", rc);
	}
	return done("del", mdb_txn_commit(txn));
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	MDB_val k = value_of(key), v = value_of(value);
	int rc = 0;
	if (!s->batch) {
		end_read(s);
		rc = mdb_txn_begin(s->store->env, NULL, 0, &s->batch);
	}
	if (!rc)
		rc = mdb_put(s->batch, s->store->dbi, &k, &v, 0);
	return done("put", rc);
}

static int commit(void *session, bool sync)
{
	struct session *s = session;
	int rc = s->batch ? done("txn_commit", mdb_txn_commit(s->batch)) : 0;
	s->batch = NULL;
	return rc ? rc : sync_store(s, sync);
}

static int find(struct session *session, cairn_slice key, cairn_slice *value)
{
	MDB_val k = value_of(key), v = {0, NULL};
	int rc = mdb_get(session->read, session->store->dbi, &k, &v);
	*value = (cairn_slice){v.mv_data, v.mv_size};
	return answer("get", rc);
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	int rc = begin_read(session);
	return rc ? rc : find(session, key, value);
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	int rc = begin_read(session);
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_slice value = {0};
		rc = find(session, keys[i], &value);
		if (rc >= 0)
			rc = each(context, i, rc, value);
	}
	return rc;
}

static int hold(void *session)
{
	struct session *s = session;
	int rc = begin_read(s);
	s->held = !rc;
	return rc;
}

static int let_go(void *session)
{
	struct session *s = session;
	s->held = false;
	end_read(s);
	return 0;
}

static int open_cursor(void *session, void **cursor)
{
	struct session *s = session;
	struct cursor *made = cairn_bench_new(sizeof *made);
	int rc = mdb_txn_begin(s->store->env, NULL, MDB_RDONLY, &made->txn);
	if (!rc)
		rc = mdb_cursor_open(made->txn, s->store->dbi, &made->cursor);
	*cursor = made;
	return done("cursor_open", rc);
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	mdb_cursor_close(c->cursor);
	mdb_txn_abort(c->txn);
	free(c);
}

static int move(struct cursor *cursor, MDB_cursor_op how)
{
	return answer(
	    "cursor_get", mdb_cursor_get(cursor->cursor, &cursor->key, &cursor->value, how));
}

static int first(void *cursor)
{
	return move(cursor, MDB_FIRST);
}

static int last(void *cursor)
{
	return move(cursor, MDB_LAST);
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	c->key = value_of(key);
	return move(c, MDB_SET_RANGE);
}

static int next(void *cursor)
{
	return move(cursor, MDB_NEXT);
}

static int prev(void *cursor)
{
	return move(cursor, MDB_PREV);
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	const struct cursor *c = cursor;
	*key = (cairn_slice){c->key.mv_data, c->key.mv_size};
	*value = (cairn_slice){c->value.mv_data, c->value.mv_size};
	return 0;
}

static int rest(void *session)
{
	return sync_store(session, true);
}

static int print_statistics(void *session, FILE *to)
{
	struct session *s = session;
	MDB_stat stat;
	int rc = mdb_env_stat(s->store->env, &stat);
	if (!rc)
		fprintf(to, "depth %u, %zu branch, %zu leaf and %zu overflow pages of %u bytes\n",
		    stat.ms_depth, stat.ms_branch_pages, stat.ms_leaf_pages, stat.ms_overflow_pages,
		    stat.ms_psize);
	return done("stat", rc);
}

const struct bench_engine cairn_bench_lmdb = {
    .name = "lmdb",
    .settings = "MDB_NOSYNC|MDB_WRITEMAP|MDB_NOTLS (a power cut may corrupt its file), map 16 "
		"GiB; a transaction per put, read transaction renewed per get, zero copy, "
		"no checksums",
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
    .rest = rest,
    .compact = rest,
    .print_statistics = print_statistics,
};
