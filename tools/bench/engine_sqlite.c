/*
 * tools/bench/engine_sqlite.c -- SQLite: a table without row ids, keyed by the key.
 *
 * A session is a connection with its statements, prepared once. A value is read where SQLite has
 * it; the statement is reset at the next call. How durable a commit is, is a setting of the
 * connection, which changes between transactions only.
 */
#include <stdlib.h>

#include <sqlite3.h>

#include "tools/bench/engine.h"

enum statement { PUT, REMOVE, GET, BEGIN, COMMIT, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [PUT] = "REPLACE INTO bench VALUES (?1, ?2)",
    [REMOVE] = "DELETE FROM bench WHERE k = ?1",
    [GET] = "SELECT v FROM bench WHERE k = ?1",
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
};

struct store {
	char *path;
	struct session *first; /* makes the table; the first session of all */
};

struct session {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	bool full; /* synchronous = FULL now */
	bool batch;
};

enum walk { FROM_FIRST, FROM_LAST, FROM_KEY, WALKS };

struct cursor {
	struct session *session;
	sqlite3_stmt *walks[WALKS];
	sqlite3_stmt *now;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%s", sqlite3_libversion());
}

static int failed(const struct session *session, const char *call)
{
	return cairn_bench_failed("sqlite", call, sqlite3_errmsg(session->db));
}

/* Runs a statement that gives no rows that matter. */
static int run(struct session *session, enum statement which)
{
	sqlite3_stmt *statement = session->statements[which];
	int rc;
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
		continue;
	sqlite3_reset(statement);
	return rc == SQLITE_DONE ? 0 : failed(session, texts[which]);
}

static int set_up(struct session *session)
{
	char *error = NULL;
	int rc = sqlite3_exec(session->db,
	    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
	    "PRAGMA cache_size = -1048576; PRAGMA mmap_size = 2147483648;"
	    "PRAGMA busy_timeout = 60000;"
	    "CREATE TABLE IF NOT EXISTS bench (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID",
	    NULL, NULL, &error);
	sqlite3_free(error);
	for (int i = 0; rc == SQLITE_OK && i < STATEMENTS; i++)
		rc = sqlite3_prepare_v3(session->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
		    &session->statements[i], NULL);
	return rc == SQLITE_OK ? 0 : failed(session, "set up");
}

static int connect_session(const char *path, struct session **session)
{
	struct session *made = cairn_bench_new(sizeof *made);
	*session = made;
	int rc = sqlite3_open_v2(path, &made->db,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	return rc == SQLITE_OK ? set_up(made) : failed(made, "open");
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	made->path = sqlite3_mprintf("%s/data.sqlite", place->directory);
	*store = made;
	return connect_session(made->path, &made->first);
}

static void close_session(void *session)
{
	struct session *s = session;
	for (int i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(s->statements[i]);
	sqlite3_close(s->db);
	free(s);
}

static int close_store(void *store)
{
	struct store *s = store;
	if (s->first)
		close_session(s->first);
	sqlite3_free(s->path);
	free(s);
	return 0;
}

/* The first session is the connection that opened the store, later ones get their own. */
static int open_session(void *store, void **session)
{
	struct store *s = store;
	struct session *made = s->first;
	s->first = NULL;
	*session = made;
	if (made)
		return 0;
	int rc = connect_session(s->path, &made);
	*session = made;
	return rc;
}

static void bind(sqlite3_stmt *statement, int at, cairn_slice slice)
{
	sqlite3_bind_blob64(statement, at, slice.size ? slice.data : "", slice.size, SQLITE_STATIC);
}

/* Ends the read of the last get. */
static void end_read(struct session *session)
{
	sqlite3_reset(session->statements[GET]);
}

static int execute(struct session *session, const char *text)
{
	int rc = sqlite3_exec(session->db, text, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : failed(session, text);
}

/* Not prepared: preparing a pragma may already do what it says. */
static int set_sync(struct session *session, bool sync)
{
	if (session->full == sync)
		return 0;
	session->full = sync;
	return execute(session, sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

static int insert(struct session *session, cairn_slice key, cairn_slice value)
{
	bind(session->statements[PUT], 1, key);
	bind(session->statements[PUT], 2, value);
	return run(session, PUT);
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	end_read(s);
	int rc = set_sync(s, sync);
	return rc ? rc : insert(s, key, value);
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	end_read(s);
	bind(s->statements[REMOVE], 1, key);
	return run(s, REMOVE);
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	int rc = 0;
	if (!s->batch) {
		end_read(s);
		rc = run(s, BEGIN);
	}
	s->batch = true;
	return rc ? rc : insert(s, key, value);
}

/* The setting may not change within a transaction, and before it begins nobody knows how it will
 * end: what should be durable is committed first, and synced by an empty change after it. */
static int commit(void *session, bool sync)
{
	struct session *s = session;
	int rc = run(s, COMMIT);
	s->batch = false;
	if (rc || !sync)
		return rc;
	rc = set_sync(s, true);
	if (!rc)
		rc = execute(s, "PRAGMA user_version = 1");
	if (!rc)
		rc = set_sync(s, false);
	return rc;
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	sqlite3_stmt *statement = s->statements[GET];
	end_read(s);
	bind(statement, 1, key);
	int rc = sqlite3_step(statement);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? CAIRN_BENCH_ABSENT : failed(s, "get");
	value->data = sqlite3_column_blob(statement, 0);
	value->size = (size_t)sqlite3_column_bytes(statement, 0);
	return 0;
}

static int hold(void *session)
{
	struct session *s = session;
	end_read(s);
	return run(s, BEGIN);
}

static int let_go(void *session)
{
	struct session *s = session;
	end_read(s);
	return run(s, COMMIT);
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	int rc = hold(session);
	for (size_t i = 0; !rc && i < n; i++) {
		cairn_slice value = {0};
		rc = get(session, keys[i], &value);
		if (rc >= 0)
			rc = each(context, i, rc, value);
	}
	int ended = let_go(session);
	return rc ? rc : ended;
}

static int open_cursor(void *session, void **cursor)
{
	static const char *const queries[WALKS] = {
	    [FROM_FIRST] = "SELECT k, v FROM bench ORDER BY k",
	    [FROM_LAST] = "SELECT k, v FROM bench ORDER BY k DESC",
	    [FROM_KEY] = "SELECT k, v FROM bench WHERE k >= ?1 ORDER BY k",
	};
	struct cursor *made = cairn_bench_new(sizeof *made);
	int rc = SQLITE_OK;
	made->session = session;
	for (int i = 0; rc == SQLITE_OK && i < WALKS; i++)
		rc = sqlite3_prepare_v2(made->session->db, queries[i], -1, &made->walks[i], NULL);
	*cursor = made;
	return rc == SQLITE_OK ? 0 : failed(made->session, "prepare");
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	for (int i = 0; i < WALKS; i++)
		sqlite3_finalize(c->walks[i]);
	free(c);
}

static int step(void *cursor)
{
	struct cursor *c = cursor;
	int rc = sqlite3_step(c->now);
	if (rc == SQLITE_ROW)
		return 0;
	return rc == SQLITE_DONE ? CAIRN_BENCH_ABSENT : failed(c->session, "step");
}

static void start(struct cursor *cursor, enum walk walk)
{
	if (cursor->now)
		sqlite3_reset(cursor->now);
	cursor->now = cursor->walks[walk];
}

static int first(void *cursor)
{
	start(cursor, FROM_FIRST);
	return step(cursor);
}

static int last(void *cursor)
{
	start(cursor, FROM_LAST);
	return step(cursor);
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	start(c, FROM_KEY);
	bind(c->now, 1, key);
	return step(c);
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	const struct cursor *c = cursor;
	key->data = sqlite3_column_blob(c->now, 0);
	key->size = (size_t)sqlite3_column_bytes(c->now, 0);
	value->data = sqlite3_column_blob(c->now, 1);
	value->size = (size_t)sqlite3_column_bytes(c->now, 1);
	return 0;
}

static int rest(void *session)
{
	struct session *s = session;
	end_read(s);
	int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return rc == SQLITE_OK ? 0 : failed(s, "checkpoint");
}

const struct bench_engine cairn_bench_sqlite = {
    .name = "sqlite",
    .settings = "WITHOUT ROWID, WAL, synchronous NORMAL (a power cut may lose commits; synced: "
		"FULL), cache 1 GiB, mmap 2 GiB, NOMUTEX, prepared statements",
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
    .next = step,
    .prev = step,
    .record = record,
    .rest = rest,
    .compact = rest,
};
