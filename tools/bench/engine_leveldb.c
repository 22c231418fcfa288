/*
 * tools/bench/engine_leveldb.c -- LevelDB, through its C interface.
 *
 * Its get returns a copy made with malloc: there is no other. It cannot be asked to flush, nor
 * whether it has work left; at rest means here that its thread has used no CPU for a while.
 */
#include <stdlib.h>

#include <leveldb/c.h>

#include "tools/bench/engine.h"
#include "tools/bench/process.h"

struct store {
	leveldb_t *db;
	leveldb_options_t *options;
	leveldb_cache_t *cache;
	leveldb_filterpolicy_t *filter;
};

struct session {
	const struct store *store;
	leveldb_readoptions_t *read;
	leveldb_writeoptions_t *write;
	leveldb_writeoptions_t *write_sync;
	leveldb_writebatch_t *batch;
	const leveldb_snapshot_t *held;
	char *value; /* of the last get */
};

struct cursor {
	leveldb_iterator_t *iter;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "%d.%d", leveldb_major_version(), leveldb_minor_version());
}

/* 0 when `error` is NULL; else says and frees it. */
static int done(const char *call, char *error)
{
	if (!error)
		return 0;
	cairn_bench_failed("leveldb", call, error);
	leveldb_free(error);
	return CAIRN_BENCH_FAILED;
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	char *error = NULL;
	made->options = leveldb_options_create();
	made->cache = leveldb_cache_create_lru((size_t)1 << 30);
	made->filter = leveldb_filterpolicy_create_bloom(10);
	leveldb_options_set_create_if_missing(made->options, 1);
	leveldb_options_set_write_buffer_size(made->options, (size_t)64 << 20);
	leveldb_options_set_compression(made->options, leveldb_snappy_compression);
	leveldb_options_set_cache(made->options, made->cache);
	leveldb_options_set_filter_policy(made->options, made->filter);
	made->db = leveldb_open(made->options, place->directory, &error);
	*store = made;
	return done("open", error);
}

static int close_store(void *store)
{
	struct store *s = store;
	leveldb_close(s->db);
	leveldb_filterpolicy_destroy(s->filter);
	leveldb_cache_destroy(s->cache);
	leveldb_options_destroy(s->options);
	free(s);
	return 0;
}

static int open_session(void *store, void **session)
{
	struct session *made = cairn_bench_new(sizeof *made);
	made->store = store;
	made->read = leveldb_readoptions_create();
	made->write = leveldb_writeoptions_create();
	made->write_sync = leveldb_writeoptions_create();
	leveldb_writeoptions_set_sync(made->write_sync, 1);
	made->batch = leveldb_writebatch_create();
	*session = made;
	return 0;
}

static void drop_value(struct session *session)
{
	if (session->value)
		leveldb_free(session->value);
	session->value = NULL;
}

static void close_session(void *session)
{
	struct session *s = session;
	drop_value(s);
	leveldb_writebatch_destroy(s->batch);
	leveldb_writeoptions_destroy(s->write_sync);
	leveldb_writeoptions_destroy(s->write);
	leveldb_readoptions_destroy(s->read);
	free(s);
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	char *error = NULL;
	leveldb_put(s->store->db, sync ? s->write_sync : s->write, key.data, key.size, value.data,
	    value.size, &error);
	return done("put", error);
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	char *error = NULL;
	leveldb_delete(s->store->db, s->write, key.data, key.size, &error);
	return done("delete", error);
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	leveldb_writebatch_put(s->batch, key.data, key.size, value.data, value.size);
	return 0;
}

static int commit(void *session, bool sync)
{
	struct session *s = session;
	char *error = NULL;
	leveldb_write(s->store->db, sync ? s->write_sync : s->write, s->batch, &error);
	leveldb_writebatch_clear(s->batch);
	return done("write", error);
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	char *error = NULL;
	drop_value(s);
	s->value = leveldb_get(s->store->db, s->read, key.data, key.size, &value->size, &error);
	value->data = s->value;
	if (error)
		return done("get", error);
	return s->value ? 0 : CAIRN_BENCH_ABSENT;
}

static int hold(void *session)
{
	struct session *s = session;
	s->held = leveldb_create_snapshot(s->store->db);
	leveldb_readoptions_set_snapshot(s->read, s->held);
	return 0;
}

static int let_go(void *session)
{
	struct session *s = session;
	leveldb_readoptions_set_snapshot(s->read, NULL);
	leveldb_release_snapshot(s->store->db, s->held);
	return 0;
}

static int open_cursor(void *session, void **cursor)
{
	struct session *s = session;
	struct cursor *made = cairn_bench_new(sizeof *made);
	made->iter = leveldb_create_iterator(s->store->db, s->read);
	*cursor = made;
	return 0;
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	leveldb_iter_destroy(c->iter);
	free(c);
}

/* Where the iterator stands after a move. */
static int stand(const struct cursor *cursor)
{
	char *error = NULL;
	if (leveldb_iter_valid(cursor->iter))
		return 0;
	leveldb_iter_get_error(cursor->iter, &error);
	return error ? done("iterator", error) : CAIRN_BENCH_ABSENT;
}

static int first(void *cursor)
{
	struct cursor *c = cursor;
	leveldb_iter_seek_to_first(c->iter);
	return stand(c);
}

static int last(void *cursor)
{
	struct cursor *c = cursor;
	leveldb_iter_seek_to_last(c->iter);
	return stand(c);
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	leveldb_iter_seek(c->iter, key.data, key.size);
	return stand(c);
}

static int next(void *cursor)
{
	struct cursor *c = cursor;
	leveldb_iter_next(c->iter);
	return stand(c);
}

static int prev(void *cursor)
{
	struct cursor *c = cursor;
	leveldb_iter_prev(c->iter);
	return stand(c);
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	struct cursor *c = cursor;
	key->data = leveldb_iter_key(c->iter, &key->size);
	value->data = leveldb_iter_value(c->iter, &value->size);
	return 0;
}

static int rest(void *session)
{
	(void)session;
	cairn_bench_wait_until_idle();
	return 0;
}

static int compact(void *session)
{
	struct session *s = session;
	leveldb_compact_range(s->store->db, NULL, 0, NULL, 0);
	return 0;
}

static int print_statistics(void *session, FILE *to)
{
	struct session *s = session;
	char *text = leveldb_property_value(s->store->db, "leveldb.stats");
	fprintf(to, "%s\n", text ? text : "none");
	leveldb_free(text);
	return 0;
}

const struct bench_engine cairn_bench_leveldb = {
    .name = "leveldb",
    .settings = "write buffer 64 MiB, snappy, bloom 10, block cache 1 GiB; get copies (there is "
		"no other), checksums not verified on reads (its default)",
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
    .print_statistics = print_statistics,
};
