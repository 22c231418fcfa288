/*
 * tools/bench/engine_rocksdb.c -- RocksDB, through its C interface.
 *
 * get is rocksdb_get_pinned, which copies nothing that lies in the block cache; get_many is
 * rocksdb_batched_multi_get_cf. A batch is a write batch.
 */
#include <stdlib.h>

#include <rocksdb/c.h>

#include "tools/bench/engine.h"
#include "tools/bench/process.h"

struct store {
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_options_t *options;
	rocksdb_cache_t *cache;
};

struct session {
	const struct store *store;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	rocksdb_writeoptions_t *write_sync;
	rocksdb_writebatch_t *batch;
	const rocksdb_snapshot_t *held;
	rocksdb_pinnableslice_t *pinned; /* of the last get */
};

struct cursor {
	rocksdb_iterator_t *iter;
};

static void version(char *text, size_t size)
{
	snprintf(
	    text, size, "%s", CAIRN_BENCH_ROCKSDB_VERSION); /* its header with the version is C++ */
}

/* 0 when `error` is NULL; else says and frees it. */
static int done(const char *call, char *error)
{
	if (!error)
		return 0;
	cairn_bench_failed("rocksdb", call, error);
	rocksdb_free(error);
	return CAIRN_BENCH_FAILED;
}

static void set_options(struct store *store)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	store->options = rocksdb_options_create();
	store->cache = rocksdb_cache_create_lru((size_t)1 << 30);
	rocksdb_block_based_options_set_filter_policy(
	    table, rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_block_cache(table, store->cache);
	rocksdb_options_set_block_based_table_factory(store->options, table);
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_set_create_if_missing(store->options, 1);
	rocksdb_options_set_write_buffer_size(store->options, (size_t)64 << 20);
	rocksdb_options_set_max_write_buffer_number(store->options, 4);
	rocksdb_options_set_compression(store->options, rocksdb_lz4_compression);
	rocksdb_options_set_max_background_jobs(store->options, 2);
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	set_options(made);
	const char *const names[] = {"default"};
	const rocksdb_options_t *const options[] = {made->options};
	char *error = NULL;
	made->db = rocksdb_open_column_families(
	    made->options, place->directory, 1, names, options, &made->family, &error);
	*store = made;
	return done("open", error);
}

static int close_store(void *store)
{
	struct store *s = store;
	rocksdb_column_family_handle_destroy(s->family);
	rocksdb_close(s->db);
	rocksdb_cache_destroy(s->cache);
	rocksdb_options_destroy(s->options);
	free(s);
	return 0;
}

static int open_session(void *store, void **session)
{
	struct session *made = cairn_bench_new(sizeof *made);
	made->store = store;
	made->read = rocksdb_readoptions_create();
	made->write = rocksdb_writeoptions_create();
	made->write_sync = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(made->write_sync, 1);
	made->batch = rocksdb_writebatch_create();
	*session = made;
	return 0;
}

static void unpin(struct session *session)
{
	if (session->pinned)
		rocksdb_pinnableslice_destroy(session->pinned);
	session->pinned = NULL;
}

static void close_session(void *session)
{
	struct session *s = session;
	unpin(s);
	rocksdb_writebatch_destroy(s->batch);
	rocksdb_writeoptions_destroy(s->write_sync);
	rocksdb_writeoptions_destroy(s->write);
	rocksdb_readoptions_destroy(s->read);
	free(s);
}

static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct session *s = session;
	char *error = NULL;
	rocksdb_put(s->store->db, sync ? s->write_sync : s->write, key.data, key.size, value.data,
	    value.size, &error);
	return done("put", error);
}

static int remove_record(void *session, cairn_slice key)
{
	struct session *s = session;
	char *error = NULL;
	rocksdb_delete(s->store->db, s->write, key.data, key.size, &error);
	return done("delete", error);
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	struct session *s = session;
	rocksdb_writebatch_put(s->batch, key.data, key.size, value.data, value.size);
	return 0;
}

static int commit(void *session, bool sync)
{
	struct session *s = session;
	char *error = NULL;
	rocksdb_write(s->store->db, sync ? s->write_sync : s->write, s->batch, &error);
	rocksdb_writebatch_clear(s->batch);
	return done("write", error);
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	struct session *s = session;
	char *error = NULL;
	unpin(s);
	s->pinned = rocksdb_get_pinned(s->store->db, s->read, key.data, key.size, &error);
	if (!s->pinned)
		return error ? done("get", error) : CAIRN_BENCH_ABSENT;
	value->data = rocksdb_pinnableslice_value(s->pinned, &value->size);
	return 0;
}

/* Passes one answer on and releases it. */
static int pass_on(rocksdb_pinnableslice_t *pinned, char *error, size_t i,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	if (error)
		return done("multi_get", error);
	cairn_slice value = {0};
	if (pinned)
		value.data = rocksdb_pinnableslice_value(pinned, &value.size);
	int rc = each(context, i, pinned ? 0 : CAIRN_BENCH_ABSENT, value);
	if (pinned)
		rocksdb_pinnableslice_destroy(pinned);
	return rc;
}

static int get_many(void *session, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	struct session *s = session;
	const char *data[CAIRN_BENCH_MANY] = {NULL};
	size_t sizes[CAIRN_BENCH_MANY] = {0};
	rocksdb_pinnableslice_t *pinned[CAIRN_BENCH_MANY];
	char *errors[CAIRN_BENCH_MANY];
	int rc = 0;
	for (size_t i = 0; i < n; i++) {
		data[i] = keys[i].data;
		sizes[i] = keys[i].size;
	}
	rocksdb_batched_multi_get_cf(
	    s->store->db, s->read, s->store->family, n, data, sizes, pinned, errors, false);
	for (size_t i = 0; i < n; i++) {
		int passed = pass_on(pinned[i], errors[i], i, each, context);
		rc = rc ? rc : passed;
	}
	return rc;
}

static int hold(void *session)
{
	struct session *s = session;
	s->held = rocksdb_create_snapshot(s->store->db);
	rocksdb_readoptions_set_snapshot(s->read, s->held);
	return 0;
}

static int let_go(void *session)
{
	struct session *s = session;
	unpin(s);
	rocksdb_readoptions_set_snapshot(s->read, NULL);
	rocksdb_release_snapshot(s->store->db, s->held);
	return 0;
}

static int open_cursor(void *session, void **cursor)
{
	struct session *s = session;
	struct cursor *made = cairn_bench_new(sizeof *made);
	made->iter = rocksdb_create_iterator(s->store->db, s->read);
	*cursor = made;
	return 0;
}

static void close_cursor(void *cursor)
{
	struct cursor *c = cursor;
	rocksdb_iter_destroy(c->iter);
	free(c);
}

/* Where the iterator stands after a move. */
static int stand(const struct cursor *cursor)
{
	char *error = NULL;
	if (rocksdb_iter_valid(cursor->iter))
		return 0;
	rocksdb_iter_get_error(cursor->iter, &error);
	return error ? done("iterator", error) : CAIRN_BENCH_ABSENT;
}

static int first(void *cursor)
{
	struct cursor *c = cursor;
	rocksdb_iter_seek_to_first(c->iter);
	return stand(c);
}

static int last(void *cursor)
{
	struct cursor *c = cursor;
	rocksdb_iter_seek_to_last(c->iter);
	return stand(c);
}

static int seek(void *cursor, cairn_slice key)
{
	struct cursor *c = cursor;
	rocksdb_iter_seek(c->iter, key.data, key.size);
	return stand(c);
}

static int next(void *cursor)
{
	struct cursor *c = cursor;
	rocksdb_iter_next(c->iter);
	return stand(c);
}

static int prev(void *cursor)
{
	struct cursor *c = cursor;
	rocksdb_iter_prev(c->iter);
	return stand(c);
}

static int record(void *cursor, cairn_slice *key, cairn_slice *value)
{
	struct cursor *c = cursor;
	key->data = rocksdb_iter_key(c->iter, &key->size);
	value->data = rocksdb_iter_value(c->iter, &value->size);
	return 0;
}

static int flush(void *session)
{
	struct session *s = session;
	char *error = NULL;
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
	rocksdb_flush(s->store->db, options, &error);
	rocksdb_flushoptions_destroy(options);
	return done("flush", error);
}

static bool busy(const struct store *store)
{
	static const char *const properties[] = {"rocksdb.mem-table-flush-pending",
	    "rocksdb.compaction-pending", "rocksdb.num-running-flushes",
	    "rocksdb.num-running-compactions"};
	uint64_t value;
	for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
		if (rocksdb_property_int(store->db, properties[i], &value) == 0 && value)
			return true;
	return false;
}

static int rest(void *session)
{
	struct session *s = session;
	int rc = flush(session);
	while (!rc && busy(s->store))
		cairn_bench_sleep_ms(1);
	return rc;
}

static int compact(void *session)
{
	struct session *s = session;
	int rc = flush(session);
	if (!rc)
		rocksdb_compact_range(s->store->db, NULL, 0, NULL, 0);
	return rc ? rc : rest(session);
}

static int print_statistics(void *session, FILE *to)
{
	struct session *s = session;
	char *text = rocksdb_property_value(s->store->db, "rocksdb.levelstats");
	fprintf(to, "%s\n", text ? text : "none");
	rocksdb_free(text);
	return 0;
}

const struct bench_engine cairn_bench_rocksdb = {
    .name = "rocksdb",
    .settings = "memtable 64 MiB x4, lz4, bloom 10, block cache 1 GiB, max_background_jobs 2; "
		"get_pinned, batched_multi_get",
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
