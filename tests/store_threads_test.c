/*
 * tests/store_threads_test.c -- four readers, two writers, and background work on one handle.
 *
 * A writer owns its keys, and every operation of it has a version, higher than the one before. A
 * value tells its key and version. For each key two numbers are public: the version that was begun
 * last, and the one that was acknowledged last. So a reader can tell what is impossible: a version
 * below the one acknowledged before it looked, or below one that it saw before; a batch half there;
 * a view that changes.
 *
 * CAIRN_TEST_OPERATIONS is the number of operations of both writers together.
 */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/cairn.h"
#include "tests/match.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define READERS      4
#define WRITERS      2
#define KEYS         300u /* of each writer, one by one */
#define BATCH_KEYS   8u   /* of each writer, always written together */
#define VALUE_MOST   1500u
#define DELETED      1u /* lowest bit of a public version */

struct key_state {
	_Atomic uint64_t begun;
	_Atomic uint64_t acknowledged; /* version * 2, and DELETED */
};

struct shared {
	cairn *db;
	char *path;
	uint64_t seed;
	unsigned long operations; /* of each writer */
	struct key_state keys[WRITERS][KEYS];
	_Atomic uint64_t batch_acknowledged[WRITERS]; /* marker of the last batch */
	_Atomic unsigned writing;                     /* writers that are not done */
	atomic_bool failed;
	pthread_mutex_t mutex;
	char failure[512]; /* the first one */
	atomic_ulong reads, scans, rounds;
};

struct thread {
	struct shared *shared;
	size_t index;
	uint64_t random;
	pthread_t thread;
	uint64_t seen[WRITERS][KEYS]; /* by a reader: the highest version */
	uint64_t seen_batch[WRITERS];
	cairn_batch *batch;
	uint64_t version;
	uint8_t value[VALUE_MOST + 64];
};

/* Keeps the first failure; the threads end then. */
static bool claim(struct shared *shared, bool holds, int line, const char *text)
{
	if (holds)
		return true;
	pthread_mutex_lock(&shared->mutex);
	if (!atomic_load(&shared->failed))
		snprintf(shared->failure, sizeof shared->failure, "line %d: %s; last: %.300s", line,
		    text, cairn_message(NULL));
	pthread_mutex_unlock(&shared->mutex);
	atomic_store(&shared->failed, true);
	return false;
}

#define CLAIM(shared, holds) claim(shared, holds, __LINE__, #holds)

static size_t draw(struct thread *thread, size_t n)
{
	return (size_t)(test_random(&thread->random) % n);
}

/* ---------------------------------------------------------------- keys and values */

static cairn_slice make_key(char text[24], size_t writer, const char *kind, size_t index)
{
	int size = snprintf(text, 24, "%zu/%s/%05zu", writer, kind, index);
	return (cairn_slice){text, (size_t)size};
}

/* Some keys are written all the time, so that a reader is overtaken while it reads. */
static size_t draw_index(struct thread *thread)
{
	return draw(thread, draw(thread, 2) ? 3 : KEYS);
}

/* "KEY VERSION SIZE " and as many bytes that follow from the version. */
static cairn_slice make_value(uint8_t *buffer, cairn_slice key, uint64_t version, size_t size)
{
	int used = snprintf((char *)buffer, 64, "%.*s %llu %zu ", (int)key.size,
	    (const char *)key.data, (unsigned long long)version, size);
	memset(buffer + used, (int)('a' + version % 26), size);
	return (cairn_slice){buffer, (size_t)used + size};
}

/* The version that a value tells; 0 when it is not whole or another key's. */
static uint64_t read_value(cairn_slice key, cairn_slice value)
{
	char head[64] = "";
	memcpy(head, value.data, value.size < 63 ? value.size : 63);
	if (value.size <= key.size || memcmp(head, key.data, key.size) || head[key.size] != ' ')
		return 0;
	char *next;
	uint64_t version = strtoull(head + key.size + 1, &next, 10);
	size_t size = strtoull(next, &next, 10);
	size_t used = (size_t)(next - head) + 1;
	if (*next != ' ' || value.size != used + size)
		return 0;
	const char *bytes = value.data;
	for (size_t i = used; i < value.size; i++)
		if (bytes[i] != (char)('a' + version % 26))
			return 0;
	return version;
}

/* ---------------------------------------------------------------- writers */

static unsigned draw_flags(struct thread *thread)
{
	return draw(thread, 1000) == 0 ? CAIRN_SYNC : 0;
}

static size_t draw_size(struct thread *thread)
{
	return draw(thread, draw(thread, 20) ? 120 : VALUE_MOST);
}

static bool write_one(struct thread *thread)
{
	struct shared *shared = thread->shared;
	char text[24];
	size_t index = draw_index(thread);
	struct key_state *state = &shared->keys[thread->index][index];
	cairn_slice key = make_key(text, thread->index, "one", index);
	uint64_t version = ++thread->version;
	bool delete = draw(thread, 4) == 0;
	atomic_store(&state->begun, version);
	int rc = delete ? cairn_delete(shared->db, key, draw_flags(thread))
			: cairn_put(shared->db, key,
			      make_value(thread->value, key, version, draw_size(thread)),
			      draw_flags(thread));
	if (!CLAIM(shared, rc == 0))
		return false;
	atomic_store(&state->acknowledged, version * 2 + (delete ? DELETED : 0));
	return true;
}

static bool write_together(struct thread *thread)
{
	struct shared *shared = thread->shared;
	char text[24];
	uint64_t marker = ++thread->version;
	cairn_batch_clear(thread->batch);
	for (size_t i = 0; i < BATCH_KEYS; i++) {
		cairn_slice key = make_key(text, thread->index, "together", i);
		cairn_slice value = make_value(thread->value, key, marker, draw_size(thread));
		if (!CLAIM(shared, cairn_batch_put(thread->batch, key, value) == 0))
			return false;
	}
	if (!CLAIM(shared, cairn_write(shared->db, thread->batch, draw_flags(thread)) == 0))
		return false;
	atomic_store(&shared->batch_acknowledged[thread->index], marker);
	return true;
}

static void *write_keys(void *context)
{
	struct thread *thread = context;
	struct shared *shared = thread->shared;
	bool fine = write_together(thread);
	for (unsigned long i = 0; fine && i < shared->operations; i++) {
		fine = draw(thread, 12) ? write_one(thread) : write_together(thread);
		fine = fine && !atomic_load(&shared->failed);
	}
	atomic_fetch_sub(&shared->writing, 1);
	return NULL;
}

/* ---------------------------------------------------------------- readers */

/* Whether an answer is possible; `before` and `begun` were acknowledged before and begun after. */
static bool is_possible(struct thread *thread, size_t writer, size_t index, uint64_t before,
    uint64_t begun, bool found, uint64_t version)
{
	uint64_t *seen = &thread->seen[writer][index];
	if (!found)
		return (before & DELETED) || before == 0 || begun > before / 2;
	if (version < before / 2 || version > begun || version < *seen)
		return false;
	if (version == before / 2 && (before & DELETED))
		return false;
	*seen = version;
	return true;
}

static bool get_one(struct thread *thread)
{
	struct shared *shared = thread->shared;
	char text[24];
	size_t writer = draw(thread, WRITERS), index = draw_index(thread), size;
	struct key_state *state = &shared->keys[writer][index];
	cairn_slice key = make_key(text, writer, "one", index);
	uint64_t before = atomic_load(&state->acknowledged), version = 0;
	int rc = cairn_get(shared->db, key, thread->value, sizeof thread->value, &size);
	uint64_t begun = atomic_load(&state->begun);
	if (!CLAIM(shared, rc == 0 || rc == CAIRN_NOT_FOUND))
		return false;
	if (rc == 0) {
		version = read_value(key, (cairn_slice){thread->value, size});
		if (!CLAIM(shared, version > 0))
			return false;
	}
	return CLAIM(shared, is_possible(thread, writer, index, before, begun, rc == 0, version));
}

/* What the keys of a batch say: one marker, for all of them. */
struct together {
	struct shared *shared;
	const cairn_slice *keys;
	uint64_t marker;
};

static int check_together(void *context, size_t i, int result, cairn_slice value)
{
	struct together *together = context;
	if (!CLAIM(together->shared, result == 0 || result == CAIRN_NOT_FOUND))
		return 1;
	uint64_t marker = result ? 0 : read_value(together->keys[i], value);
	if (!CLAIM(together->shared, result || marker > 0))
		return 1;
	if (i == 0)
		together->marker = marker;
	return !CLAIM(together->shared, marker == together->marker);
}

static bool look_at_batch(struct thread *thread, cairn_view *view)
{
	struct shared *shared = thread->shared;
	char texts[BATCH_KEYS][24];
	cairn_slice keys[BATCH_KEYS], value;
	struct together together = {shared, keys, 0};
	size_t writer = draw(thread, WRITERS);
	uint64_t before = view ? 0 : atomic_load(&shared->batch_acknowledged[writer]);
	for (size_t i = 0; i < BATCH_KEYS; i++)
		keys[i] = make_key(texts[i], writer, "together", i);
	int rc =
	    view ? 0 : cairn_multi_get(shared->db, keys, BATCH_KEYS, check_together, &together);
	if (!CLAIM(shared, rc == 0))
		return false;
	for (size_t i = 0; view && i < BATCH_KEYS; i++) {
		rc = cairn_view_get(view, keys[i], &value);
		if (check_together(&together, i, rc, value))
			return false;
	}
	if (view)
		return true;
	if (!CLAIM(
		shared, together.marker >= before && together.marker >= thread->seen_batch[writer]))
		return false;
	thread->seen_batch[writer] = together.marker;
	return true;
}

/* Who has seen one key of a batch sees all of them. */
static bool get_in_turn(struct thread *thread)
{
	struct shared *shared = thread->shared;
	char text[24];
	size_t writer = draw(thread, WRITERS), first = draw(thread, BATCH_KEYS);
	uint64_t seen = 0;
	for (size_t i = 0; i < BATCH_KEYS; i++) {
		cairn_slice key = make_key(text, writer, "together", (first + i) % BATCH_KEYS);
		size_t size;
		int rc = cairn_get(shared->db, key, thread->value, sizeof thread->value, &size);
		uint64_t marker = rc ? 0 : read_value(key, (cairn_slice){thread->value, size});
		if (!CLAIM(shared, rc == 0 ? marker > 0 : rc == CAIRN_NOT_FOUND) ||
		    !CLAIM(shared, marker >= seen))
			return false;
		seen = marker;
	}
	return true;
}

/* Adds up everything in the view, in either direction; 0 after a failure. */
static uint64_t scan(struct thread *thread, cairn_iter *iter, bool forwards)
{
	struct shared *shared = thread->shared;
	uint64_t sum = 1, count = 0;
	char last[24] = "";
	size_t last_size = 0;
	int rc = forwards ? cairn_iter_first(iter) : cairn_iter_last(iter);
	for (; rc == 0; count++) {
		cairn_slice key = cairn_iter_key(iter), value = cairn_iter_value(iter);
		if (!CLAIM(shared, key.size < sizeof last && value.data))
			return 0;
		int order = model_compare(key, (cairn_slice){last, last_size});
		uint64_t version = read_value(key, value);
		if (!CLAIM(shared, version > 0) ||
		    !CLAIM(shared, count == 0 || (forwards ? order > 0 : order < 0)))
			return 0;
		memcpy(last, key.data, key.size);
		last_size = key.size;
		sum += version * (version + value.size);
		rc = forwards ? cairn_iter_next(iter) : cairn_iter_prev(iter);
	}
	return CLAIM(shared, rc == CAIRN_END) ? sum : 0;
}

static bool look_at_view(struct thread *thread)
{
	struct shared *shared = thread->shared;
	cairn_view *view = NULL;
	cairn_iter *iter = NULL;
	bool fine = CLAIM(shared, cairn_view_open(shared->db, &view) == 0) &&
		    CLAIM(shared, cairn_iter_open(view, NULL, &iter) == 0);
	if (fine) {
		uint64_t forwards = scan(thread, iter, true);
		fine = look_at_batch(thread, view) && look_at_batch(thread, view);
		uint64_t backwards = scan(thread, iter, false);
		fine = fine && CLAIM(shared, forwards > 0 && forwards == backwards);
	}
	cairn_iter_close(iter);
	atomic_fetch_add(&shared->scans, 1);
	return CLAIM(shared, cairn_view_close(view) == 0) && fine;
}

static void *read_keys(void *context)
{
	struct thread *thread = context;
	struct shared *shared = thread->shared;
	bool fine = true;
	while (fine && atomic_load(&shared->writing) && !atomic_load(&shared->failed)) {
		size_t drawn = draw(thread, 400);
		fine = drawn == 0   ? look_at_view(thread)
		       : drawn < 40 ? look_at_batch(thread, NULL)
		       : drawn < 80 ? get_in_turn(thread)
				    : get_one(thread);
		atomic_fetch_add(&shared->reads, 1);
	}
	return NULL;
}

/* ---------------------------------------------------------------- the keeper */

static bool copy_store(struct thread *thread)
{
	struct shared *shared = thread->shared;
	char copy[4200], command[4300];
	snprintf(copy, sizeof copy, "%s-copy", shared->path);
	bool fine = CLAIM(shared, cairn_checkpoint(shared->db, copy) == 0) &&
		    CLAIM(shared, cairn_verify(copy, NULL, NULL, NULL) == 0);
	snprintf(command, sizeof command, "rm -rf -- '%s'", copy);
	return CLAIM(shared, system(command) == 0) && fine;
}

/* A handle of its own beside the writing one. A writer may be too fast for it. */
static bool read_beside(struct thread *thread)
{
	struct shared *shared = thread->shared;
	cairn_options options;
	cairn *db;
	cairn_options_init(&options);
	options.read_only = 1;
	int rc = cairn_open(shared->path, &options, &db);
	if (rc == CAIRN_CONFLICT)
		return true;
	if (!CLAIM(shared, rc == 0))
		return false;
	struct shared aside = {.db = db, .mutex = PTHREAD_MUTEX_INITIALIZER};
	struct thread reader = {.shared = &aside, .random = thread->random};
	bool fine = look_at_view(&reader);
	if (!fine)
		claim(shared, false, __LINE__, aside.failure);
	return CLAIM(shared, cairn_close(db) == 0) && fine;
}

static bool look_at_numbers(struct thread *thread)
{
	struct shared *shared = thread->shared;
	cairn_stats stats;
	char json[64];
	size_t size;
	return CLAIM(shared, cairn_stat(shared->db, &stats) == 0) &&
	       CLAIM(shared, stats.last_error == 0 && stats.run_count <= 27) &&
	       CLAIM(shared, cairn_stat_json(shared->db, json, sizeof json, &size) == 0);
}

static bool flush(struct thread *thread)
{
	return CLAIM(thread->shared, cairn_flush(thread->shared->db) == 0);
}

static bool compact(struct thread *thread)
{
	return CLAIM(thread->shared, cairn_compact(thread->shared->db) == 0);
}

static bool sync_store(struct thread *thread)
{
	return CLAIM(thread->shared, cairn_sync(thread->shared->db) == 0);
}

/* The more often, the more often it stands here. Not cairn_wait: it returns when writers rest. */
static bool (*const keepings[])(struct thread *thread) = {flush, flush, compact, copy_store,
    copy_store, read_beside, read_beside, sync_store, look_at_numbers, look_at_numbers};

static void *keep_store(void *context)
{
	struct thread *thread = context;
	struct shared *shared = thread->shared;
	bool fine = true;
	while (fine && atomic_load(&shared->writing) && !atomic_load(&shared->failed)) {
		fine = keepings[draw(thread, COUNT(keepings))](thread);
		atomic_fetch_add(&shared->rounds, 1);
	}
	return NULL;
}

/* ---------------------------------------------------------------- the test */

/* With the writers gone: every key is as it was acknowledged last. */
static void check_end(struct shared *shared)
{
	struct thread reader = {.shared = shared, .random = shared->seed};
	for (size_t writer = 0; writer < WRITERS; writer++) {
		for (size_t i = 0; i < KEYS; i++) {
			char text[24];
			size_t size;
			uint64_t last = atomic_load(&shared->keys[writer][i].acknowledged);
			cairn_slice key = make_key(text, writer, "one", i);
			int rc =
			    cairn_get(shared->db, key, reader.value, sizeof reader.value, &size);
			assert_int_equal(rc, last == 0 || (last & DELETED) ? CAIRN_NOT_FOUND : 0);
			if (rc == 0)
				assert_true(
				    read_value(key, (cairn_slice){reader.value, size}) == last / 2);
		}
	}
	for (int i = 0; i < 8; i++)
		assert_true(look_at_batch(&reader, NULL));
	assert_true(look_at_view(&reader));
}

static void run_threads(struct shared *shared)
{
	static struct thread threads[WRITERS + READERS + 1];
	void *(*const mains[])(void *) = {write_keys, read_keys, keep_store};
	for (size_t i = 0; i < WRITERS + READERS + 1; i++) {
		size_t kind = (i >= WRITERS) + (size_t)(i >= WRITERS + READERS);
		threads[i] = (struct thread){.shared = shared,
		    .index = i,
		    .random = shared->seed + 1000 * i,
		    .batch = cairn_batch_new()};
		assert_non_null(threads[i].batch);
		assert_int_equal(
		    pthread_create(&threads[i].thread, NULL, mains[kind], &threads[i]), 0);
	}
	for (size_t i = 0; i < WRITERS + READERS + 1; i++) {
		assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
		cairn_batch_free(threads[i].batch);
	}
	if (atomic_load(&shared->failed))
		fail_msg("%s", shared->failure);
}

static void readers_see_what_was_acknowledged(int io_backend)
{
	static struct shared shared;
	const char *text = getenv("CAIRN_TEST_OPERATIONS");
	cairn_options options;
	memset(&shared, 0, sizeof shared);
	shared.seed = test_seed(42 + (uint64_t)io_backend);
	shared.path = test_directory();
	shared.operations = (text ? strtoul(text, NULL, 0) : 100000) / WRITERS;
	atomic_store(&shared.writing, WRITERS);
	pthread_mutex_init(&shared.mutex, NULL);
	cairn_options_init(&options);
	options.memtable_bytes = 128u << 10;
	options.sync_interval_ms = 10;
	options.io_backend = io_backend;
	assert_int_equal(cairn_open(shared.path, &options, &shared.db), 0);
	run_threads(&shared);
	check_end(&shared);
	assert_int_equal(cairn_wait(shared.db), 0);
	assert_true(match_cascade(shared.db));
	assert_int_equal(cairn_close(shared.db), 0);
	assert_true(match_verify(shared.path));
	assert_int_equal(cairn_open(shared.path, &options, &shared.db), 0);
	check_end(&shared);
	assert_int_equal(cairn_close(shared.db), 0);
	printf("%lu operations, %lu reads, %lu scans, %lu rounds of the keeper\n",
	    shared.operations * WRITERS, atomic_load(&shared.reads), atomic_load(&shared.scans),
	    atomic_load(&shared.rounds));
	pthread_mutex_destroy(&shared.mutex);
	test_remove_directory(shared.path);
}

static void readers_see_what_was_acknowledged_where_it_may_be_a_ring(void **state)
{
	(void)state;
	readers_see_what_was_acknowledged(0);
}

static void readers_see_what_was_acknowledged_on_posix(void **state)
{
	(void)state;
	readers_see_what_was_acknowledged(CAIRN_IO_POSIX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(readers_see_what_was_acknowledged_where_it_may_be_a_ring),
	    cmocka_unit_test(readers_see_what_was_acknowledged_on_posix),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
