/*
 * tests/store_memtable_test.c -- the memtable against a sorted array of keys with all versions ever
 * written.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/checksum.h"
#include "format/error.h"
#include "store/memtable.h"

#define SEED       UINT64_C(77)
#define KEY_LARGE  65535u
#define VIEWS_MAX  6u
#define LEAST_NODE 40u /* what the bound sets aside for a key */

/* ---- the model: every version of every key, keys in order ---- */

struct version {
	uint64_t sequence;
	enum cairn_kind kind;
};

struct entry {
	uint8_t *key;
	size_t size;
	struct version *versions; /* ascending */
	size_t count, room;
};

struct model {
	struct entry *entries;
	size_t count;
};

static int bytes_compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	for (size_t i = 0; i < a_size && i < b_size; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return a_size < b_size ? -1 : a_size > b_size;
}

/* Index of the first entry with a key not below. */
static size_t model_seek(const struct model *model, const uint8_t *key, size_t size)
{
	size_t low = 0, high = model->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct entry *entry = &model->entries[middle];
		if (bytes_compare(entry->key, entry->size, key, size) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Makes the entry of a key, without versions, if there is none. */
static struct entry *model_entry(struct model *model, const uint8_t *key, size_t size)
{
	size_t i = model_seek(model, key, size);
	if (i < model->count &&
	    bytes_compare(model->entries[i].key, model->entries[i].size, key, size) == 0)
		return &model->entries[i];
	model->entries = realloc(model->entries, (model->count + 1) * sizeof *model->entries);
	assert_non_null(model->entries);
	memmove(model->entries + i + 1, model->entries + i,
	    (model->count - i) * sizeof *model->entries);
	model->count++;
	uint8_t *copy = malloc(size + 1);
	assert_non_null(copy);
	memcpy(copy, key, size);
	model->entries[i] = (struct entry){.key = copy, .size = size};
	return &model->entries[i];
}

static void entry_add(struct entry *entry, uint64_t sequence, enum cairn_kind kind)
{
	if (entry->count == entry->room) {
		entry->room = entry->room ? entry->room * 2 : 4;
		entry->versions = realloc(entry->versions, entry->room * sizeof(struct version));
		assert_non_null(entry->versions);
	}
	entry->versions[entry->count++] = (struct version){sequence, kind};
}

static const struct version *entry_visible(const struct entry *entry, uint64_t sequence)
{
	const struct version *found = NULL;
	for (size_t i = 0; i < entry->count && entry->versions[i].sequence <= sequence; i++)
		found = &entry->versions[i];
	return found;
}

static void model_release(struct model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		free(model->entries[i].key);
		free(model->entries[i].versions);
	}
	free(model->entries);
	*model = (struct model){0};
}

/* ---- records: the value tells the sequence ---- */

static size_t value_make(uint64_t sequence, uint8_t *value)
{
	uint64_t state = sequence;
	size_t size = test_random(&state) % 40;
	for (size_t i = 0; i < size; i++)
		value[i] = (uint8_t)test_random(&state);
	return size;
}

static size_t put_value(struct cairn_memtable *table, cairn_slice key, cairn_slice value,
    enum cairn_kind kind, uint64_t sequence, const uint64_t *views, size_t view_count)
{
	struct cairn_record record = {.key = key, .value = value, .kind = kind};
	record.checksum = cairn_record_checksum(cairn_key_hash(key, SEED), kind, value);
	cairn_memtable_put(table, &record, sequence, views, view_count);
	return key.size + value.size;
}

static size_t put(struct cairn_memtable *table, cairn_slice key, enum cairn_kind kind,
    uint64_t sequence, const uint64_t *views, size_t view_count)
{
	uint8_t value[64];
	size_t size = kind == CAIRN_KIND_PUT ? value_make(sequence, value) : 0;
	return put_value(
	    table, key, cairn_slice_of(value, size), kind, sequence, views, view_count);
}

static int get(const struct cairn_memtable *table, cairn_slice key, uint64_t sequence,
    struct cairn_record *record)
{
	return cairn_memtable_get(table, key, cairn_key_hash(key, SEED), sequence, record);
}

static bool record_is(const struct cairn_record *record, const struct version *version)
{
	uint8_t value[64];
	size_t size = version->kind == CAIRN_KIND_PUT ? value_make(version->sequence, value) : 0;
	return record->kind == version->kind && record->value.size == size &&
	       (size == 0 || memcmp(record->value.data, value, size) == 0);
}

static struct cairn_memtable *table_new(size_t capacity)
{
	struct cairn_memtable *table;
	assert_int_equal(cairn_memtable_new(capacity, SEED, &table), 0);
	return table;
}

static cairn_slice text(const char *s)
{
	return cairn_slice_of(s, strlen(s));
}

/* ---- keys of all shapes ---- */

static size_t key_run(uint64_t *random, uint8_t byte, size_t most, uint8_t *key)
{
	size_t size = test_random(random) % (most + 1);
	memset(key, byte, size);
	return size;
}

/* A shared prefix, now and then left early, and a few bytes of a small alphabet. */
static size_t key_prefixed(uint64_t *random, size_t prefix, uint8_t *key)
{
	size_t size = test_random(random) % 4 ? prefix : test_random(random) % (prefix + 1);
	for (size_t i = 0; i < size; i++)
		key[i] = (uint8_t)(i * 7);
	for (size_t n = test_random(random) % 4; n > 0; n--)
		key[size++] = (uint8_t)(test_random(random) % 6 * 50);
	return size;
}

static size_t key_make(uint64_t *random, uint8_t *key)
{
	size_t size = 0;
	switch (test_random(random) % 16) {
	case 0:
		return 0;
	case 1:
		return key_run(random, 'a', 40, key);
	case 2:
		return key_run(random, 0, 20, key);
	case 3:
		return key_run(random, 255, 20, key);
	case 4:
	case 5:
		return key_prefixed(random, 9 + test_random(random) % 2, key);
	case 6:
		return key_prefixed(random, 256 + 44, key);
	case 7:
		memset(key, 'L', KEY_LARGE);
		if (test_random(random) % 4)
			key[test_random(random) % 3 * (KEY_LARGE / 2)] ^=
			    (uint8_t)(test_random(random) % 3);
		return KEY_LARGE - test_random(random) % 2;
	case 8:
	case 9:
		for (uint64_t n = test_random(random) % 300; size < 16; n /= 10)
			key[15 - size++] = (uint8_t)('0' + n % 10);
		return size;
	case 10:
	case 11:
		key[0] = 'w'; /* a wide node */
		key[1] = (uint8_t)test_random(random);
		return 2;
	default:
		for (size_t n = test_random(random) % 20; size < n;)
			key[size++] = (uint8_t)test_random(random);
		return size;
	}
}

/* ---- one table, its model, its views ---- */

struct fixture {
	struct cairn_memtable *table;
	struct model model;
	uint64_t random;
	uint64_t sequence; /* last one written */
	uint64_t views[VIEWS_MAX];
	size_t view_count;
	uint8_t key[KEY_LARGE + 8];
	size_t operations, bytes;
};

static struct fixture *fixture_new(uint64_t seed, size_t keys)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	f->random = seed;
	f->table = table_new((size_t)64 << 20);
	for (size_t i = 0; i < keys; i++) {
		size_t size = key_make(&f->random, f->key);
		model_entry(&f->model, f->key, size);
	}
	return f;
}

static void fixture_free(struct fixture *f)
{
	cairn_memtable_free(f->table);
	model_release(&f->model);
	free(f);
}

static size_t pick(struct fixture *f, size_t n)
{
	return test_random(&f->random) % n;
}

static void fixture_write(struct fixture *f)
{
	struct entry *entry = &f->model.entries[pick(f, f->model.count)];
	enum cairn_kind kind = pick(f, 5) ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE;
	f->sequence += pick(f, 10) ? 1 : 2;
	assert_true(cairn_memtable_fits(f->table, 1, entry->size + 64));
	f->bytes += put(f->table, cairn_slice_of(entry->key, entry->size), kind, f->sequence,
	    f->views, f->view_count);
	f->operations++;
	entry_add(entry, f->sequence, kind);
	assert_true(
	    cairn_memtable_bytes(f->table) <= cairn_memtable_bound(f->operations, f->bytes));
}

static void fixture_view(struct fixture *f)
{
	if (f->view_count == VIEWS_MAX || (f->view_count && pick(f, 2))) {
		size_t i = pick(f, f->view_count);
		f->view_count--;
		memmove(f->views + i, f->views + i + 1, (f->view_count - i) * sizeof *f->views);
	} else {
		f->views[f->view_count++] = f->sequence;
	}
}

/* A view's sequence, or the newest one. */
static uint64_t fixture_sequence(struct fixture *f)
{
	size_t i = pick(f, f->view_count + 1);
	return i == f->view_count ? f->sequence : f->views[i];
}

static void check_get(const struct fixture *f, const struct entry *entry, uint64_t sequence)
{
	struct cairn_record record;
	const struct version *version = entry_visible(entry, sequence);
	cairn_slice key = cairn_slice_of(entry->key, entry->size);
	assert_int_equal(get(f->table, key, sequence, &record), version ? 0 : CAIRN_NOT_FOUND);
	if (!version)
		return;
	assert_true(record_is(&record, version));
	assert_int_equal(
	    bytes_compare(record.key.data, record.key.size, entry->key, entry->size), 0);
}

/* At a sequence that nobody registered: the truth, or a conflict below the last two versions. */
static void check_stale(struct fixture *f, const struct entry *entry)
{
	struct cairn_record record;
	uint64_t sequence = pick(f, f->sequence + 1);
	const struct version *version = entry_visible(entry, sequence);
	int rc = get(f->table, cairn_slice_of(entry->key, entry->size), sequence, &record);
	if (rc == CAIRN_CONFLICT) {
		assert_true(entry->count > 2);
		assert_true(sequence < entry->versions[entry->count - 2].sequence);
		return;
	}
	assert_int_equal(rc, version ? 0 : CAIRN_NOT_FOUND);
	if (version)
		assert_true(record_is(&record, version));
}

static void check_gets(struct fixture *f)
{
	for (size_t i = 0; i < f->model.count; i++) {
		const struct entry *entry = &f->model.entries[i];
		for (size_t v = 0; v < f->view_count; v++)
			check_get(f, entry, f->views[v]);
		check_get(f, entry, f->sequence);
		check_stale(f, entry);
	}
	for (size_t i = 0; i < 50; i++) {
		size_t size = key_make(&f->random, f->key);
		struct entry none = {.key = f->key, .size = size};
		size_t at = model_seek(&f->model, f->key, size);
		const struct entry *near = at < f->model.count ? &f->model.entries[at] : &none;
		bool known = bytes_compare(near->key, near->size, f->key, size) == 0;
		check_get(f, known ? near : &none, fixture_sequence(f));
	}
}

/* The visible entry at or after (before) `i`; the count when there is none. */
static size_t visible_from(const struct fixture *f, size_t i, bool forward, uint64_t sequence)
{
	for (; i < f->model.count; i += forward ? 1 : (size_t)-1)
		if (entry_visible(&f->model.entries[i], sequence))
			return i;
	return f->model.count;
}

/* The cursor is where it should be after a move that returned `rc`. */
static void check_at(
    const struct fixture *f, struct cairn_cursor *cursor, int rc, size_t i, uint64_t sequence)
{
	struct cairn_record record;
	if (i == f->model.count) {
		assert_int_equal(rc, CAIRN_END);
		assert_false(cursor->valid);
		return;
	}
	const struct entry *entry = &f->model.entries[i];
	const struct version *version = entry_visible(entry, sequence);
	assert_int_equal(rc, 0);
	assert_true(cursor->valid);
	assert_int_equal(
	    bytes_compare(cursor->key.data, cursor->key.size, entry->key, entry->size), 0);
	uint64_t head = 0;
	for (size_t b = 0; b < 8; b++)
		head = head << 8 | (b < entry->size ? entry->key[b] : 0);
	assert_true(cursor->head == head);
	assert_int_equal(cursor->kind, version->kind);
	assert_int_equal(cairn_cursor_record(cursor, &record), 0);
	assert_true(record.key.data == cursor->key.data && record.key.size == cursor->key.size);
	assert_true(record_is(&record, version));
}

/* One random move of a cursor that stands on entry `at` (nowhere: the count), to the new one. */
static size_t check_move(
    struct fixture *f, struct cairn_cursor *cursor, size_t at, uint64_t sequence)
{
	size_t move = pick(f, 40), count = f->model.count;
	int rc;
	if (at == count || move < 3) {
		bool known = pick(f, 2);
		const struct entry *entry = &f->model.entries[pick(f, count)];
		size_t size = known ? entry->size : key_make(&f->random, f->key);
		if (known)
			memcpy(f->key, entry->key, size);
		rc = cairn_cursor_seek(cursor, cairn_slice_of(f->key, size));
		at = visible_from(f, model_seek(&f->model, f->key, size), true, sequence);
	} else if (move == 3) {
		rc = cairn_cursor_first(cursor);
		at = visible_from(f, 0, true, sequence);
	} else if (move == 4) {
		rc = cairn_cursor_last(cursor);
		at = visible_from(f, count - 1, false, sequence);
	} else if (move < 22) {
		rc = cairn_cursor_next(cursor);
		at = visible_from(f, at + 1, true, sequence);
	} else {
		rc = cairn_cursor_prev(cursor);
		at = visible_from(f, at - 1, false, sequence);
	}
	check_at(f, cursor, rc, at, sequence);
	return at;
}

static void check_scans(struct fixture *f)
{
	struct cairn_cursor *cursor;
	uint64_t sequence = fixture_sequence(f);
	assert_int_equal(cairn_memtable_cursor_open(f->table, sequence, &cursor), 0);
	int rc = cairn_cursor_first(cursor);
	size_t at = visible_from(f, 0, true, sequence);
	while (check_at(f, cursor, rc, at, sequence), rc == 0) {
		rc = cairn_cursor_next(cursor);
		at = visible_from(f, at + 1, true, sequence);
	}
	rc = cairn_cursor_last(cursor);
	at = visible_from(f, f->model.count - 1, false, sequence);
	while (check_at(f, cursor, rc, at, sequence), rc == 0) {
		rc = cairn_cursor_prev(cursor);
		at = visible_from(f, at - 1, false, sequence);
	}
	for (size_t i = 0; i < 200; i++)
		at = check_move(f, cursor, at, sequence);
	cairn_cursor_close(cursor);
}

static void every_view_reads_what_it_saw_in_every_way(void **state)
{
	(void)state;
	uint64_t seed = test_seed(20250701);
	for (uint64_t round = 0; round < 3; round++) {
		struct fixture *f = fixture_new(seed + round, round ? 120 : 500);
		for (size_t i = 0; i < 2400; i++) {
			fixture_write(f);
			if (pick(f, 30) == 0)
				fixture_view(f);
			if (i % 300 == 0 || i == 3 || i == 20) {
				check_gets(f);
				check_scans(f);
			}
		}
		check_gets(f);
		check_scans(f);
		fixture_free(f);
	}
}

/* Cursors stay open while the nodes that they stand on grow, are split and are replaced. */
static void a_cursor_sees_its_view_whole_while_keys_arrive(void **state)
{
	(void)state;
	struct fixture *f = fixture_new(test_seed(20250702), 700);
	struct cairn_cursor *cursors[4];
	size_t at[4];
	for (size_t i = 0; i < 30; i++)
		fixture_write(f);
	for (size_t life = 0; life < 12; life++) {
		for (size_t c = 0; c < 4; c++) {
			fixture_write(f);
			f->views[c] = f->sequence;
			assert_int_equal(
			    cairn_memtable_cursor_open(f->table, f->sequence, &cursors[c]), 0);
			at[c] = f->model.count;
		}
		f->view_count = 4;
		for (size_t i = 0; i < 300; i++) {
			fixture_write(f);
			size_t c = pick(f, 4);
			at[c] = check_move(f, cursors[c], at[c], f->views[c]);
		}
		for (size_t c = 0; c < 4; c++)
			cairn_cursor_close(cursors[c]);
		f->view_count = 0;
	}
	fixture_free(f);
}

/* ---- nodes ---- */

static void check_children(const struct cairn_memtable *table, const bool *there, size_t prefix,
    bool terminal, uint64_t sequence)
{
	struct cairn_record record;
	struct cairn_cursor *cursor;
	uint8_t key[32];
	memset(key, 'k', sizeof key);
	int rc = get(table, cairn_slice_of(key, prefix), sequence, &record);
	assert_int_equal(rc, terminal ? 0 : CAIRN_NOT_FOUND);
	assert_int_equal(cairn_memtable_cursor_open(table, sequence, &cursor), 0);
	rc = cairn_cursor_first(cursor);
	if (terminal) {
		assert_int_equal(cursor->key.size, prefix);
		rc = cairn_cursor_next(cursor);
	}
	for (unsigned byte = 0; byte < 256; byte++) {
		key[prefix] = (uint8_t)byte;
		cairn_slice child = cairn_slice_of(key, prefix + 1);
		int found = get(table, child, sequence, &record);
		assert_int_equal(found, there[byte] ? 0 : CAIRN_NOT_FOUND);
		if (!there[byte])
			continue;
		assert_int_equal(rc, 0);
		assert_true(cairn_key_equal(cursor->key, child));
		rc = cairn_cursor_next(cursor);
	}
	assert_int_equal(rc, CAIRN_END);
	cairn_cursor_close(cursor);
}

/* The terminal comes at the end, so that every kind of node is met without it. */
static void a_node_of_any_width_finds_and_orders_its_children(void **state)
{
	(void)state;
	uint64_t random = test_seed(20250703);
	for (size_t prefix = 0; prefix < 24; prefix += 7) {
		struct cairn_memtable *table = table_new((size_t)1 << 20);
		uint8_t key[32], order[256];
		bool there[256] = {false};
		uint64_t sequence = 0;
		memset(key, 'k', sizeof key);
		for (size_t i = 0; i < 256; i++) {
			size_t j = test_random(&random) % (i + 1);
			order[i] = order[j];
			order[j] = (uint8_t)i;
		}
		for (size_t i = 0; i < 256; i++) {
			key[prefix] = order[i];
			put(table, cairn_slice_of(key, prefix + 1), CAIRN_KIND_PUT, ++sequence,
			    NULL, 0);
			there[order[i]] = true;
			if (i < 6 || (i > 13 && i < 19) || (i > 45 && i < 51) || i > 253)
				check_children(table, there, prefix, false, sequence);
		}
		put(table, cairn_slice_of(key, prefix), CAIRN_KIND_PUT, ++sequence, NULL, 0);
		check_children(table, there, prefix, true, sequence);
		cairn_memtable_free(table);
	}
}

static void a_terminal_lives_through_the_growth_of_its_node(void **state)
{
	(void)state;
	for (size_t prefix = 0; prefix < 24; prefix += 7) {
		struct cairn_memtable *table = table_new((size_t)1 << 20);
		uint8_t key[32];
		bool there[256] = {false};
		uint64_t sequence = 0;
		memset(key, 'k', sizeof key);
		put(table, cairn_slice_of(key, prefix), CAIRN_KIND_PUT, ++sequence, NULL, 0);
		for (unsigned i = 256; i-- > 0;) {
			key[prefix] = (uint8_t)i;
			put(table, cairn_slice_of(key, prefix + 1), CAIRN_KIND_PUT, ++sequence,
			    NULL, 0);
			there[i] = true;
			check_children(table, there, prefix, true, sequence);
		}
		cairn_memtable_free(table);
	}
}

static void a_chain_of_prefixes_may_be_as_deep_as_a_key_is_long(void **state)
{
	(void)state;
	enum { DEPTH = 2000 };
	uint8_t key[DEPTH] = {0};
	struct cairn_memtable *table = table_new((size_t)16 << 20);
	struct cairn_cursor *cursor;
	for (size_t size = 0; size < DEPTH; size++)
		put(table, cairn_slice_of(key, size), CAIRN_KIND_PUT, size + 1, NULL, 0);
	assert_int_equal(cairn_memtable_cursor_open(table, DEPTH, &cursor), 0);
	assert_int_equal(cairn_cursor_last(cursor), 0);
	for (size_t size = DEPTH; size-- > 1;) {
		assert_int_equal(cursor->key.size, size);
		assert_int_equal(cairn_cursor_prev(cursor), 0);
	}
	for (size_t size = 0; size < DEPTH - 1; size++) {
		assert_int_equal(cursor->key.size, size);
		assert_int_equal(cairn_cursor_next(cursor), 0);
	}
	assert_int_equal(cairn_cursor_next(cursor), CAIRN_END);
	cairn_cursor_close(cursor);
	cairn_memtable_free(table);
}

/* ---- room ---- */

/* All nodes with two children, all leaves with the most rounding: nothing needs more arena. */
static void the_bound_is_reached_but_never_passed(void **state)
{
	(void)state;
	enum { BITS = 10 };
	struct cairn_memtable *table = table_new(cairn_memtable_bound(1u << BITS, BITS * 9216u));
	uint8_t key[BITS], value[BITS + 8] = {0};
	size_t each = SIZE_MAX, bytes = 0;
	for (size_t extra = 0; extra < 8; extra++) { /* which value size rounds worst */
		cairn_memtable_reset(table);
		put_value(table, cairn_slice_of(key, 0), cairn_slice_of(value, BITS + extra),
		    CAIRN_KIND_PUT, 1, NULL, 0);
		size_t slack = cairn_memtable_bound(1, BITS + extra) - cairn_memtable_bytes(table);
		if (slack == LEAST_NODE)
			each = extra;
		assert_true(slack >= LEAST_NODE);
	}
	assert_true(each != SIZE_MAX);
	cairn_memtable_reset(table);
	for (size_t i = 0; i < 1u << BITS; i++) {
		for (size_t b = 0; b < BITS; b++)
			key[b] = i >> b & 1 ? 'y' : 'n';
		bytes += put_value(table, cairn_slice_of(key, BITS), cairn_slice_of(value, each),
		    CAIRN_KIND_PUT, i + 1, NULL, 0);
		size_t bound = cairn_memtable_bound(i + 1, bytes),
		       used = cairn_memtable_bytes(table);
		assert_int_equal(bound - used, LEAST_NODE);
	}
	cairn_memtable_free(table);
}

/* Many nodes are full; then as many records as fits() allows make each of them grow. */
static void what_fits_may_make_every_node_grow_at_once(void **state)
{
	(void)state;
	static const size_t widths[] = {2, 3, 4, 5, 15, 16, 17, 47, 48, 49};
	enum { NODES = 200, KEY = 3 };
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		size_t width = widths[w], total = NODES * (width + 1);
		size_t capacity = cairn_memtable_bound(total, total * KEY);
		struct cairn_memtable *table = table_new(capacity);
		uint64_t sequence = 0;
		assert_true(cairn_memtable_fits(table, total, total * KEY));
		assert_false(cairn_memtable_fits(table, total + 1, total * KEY));
		assert_false(cairn_memtable_fits(table, total, total * KEY + 1));
		for (size_t child = 0; child <= width; child++) {
			if (child == width)
				assert_true(cairn_memtable_fits(table, NODES, NODES * KEY));
			for (size_t node = 0; node < NODES; node++) {
				uint8_t key[KEY] = {'g', (uint8_t)node, (uint8_t)(child * 5)};
				assert_true(cairn_memtable_fits(table, 1, KEY));
				put_value(table, cairn_slice_of(key, KEY), cairn_slice_of(NULL, 0),
				    CAIRN_KIND_PUT, ++sequence, NULL, 0);
				assert_true(cairn_memtable_bytes(table) <= capacity);
			}
		}
		cairn_memtable_free(table);
	}
}

static void the_bound_holds_for_every_set_of_keys(void **state)
{
	(void)state;
	uint64_t random = test_seed(20250704);
	struct cairn_memtable *table = table_new((size_t)8 << 20);
	for (size_t round = 0; round < 60; round++) {
		size_t alphabet = 1 + test_random(&random) % (round % 2 ? 6 : 256);
		size_t longest = 1 + test_random(&random) % 12, bytes = 0;
		cairn_memtable_reset(table);
		for (size_t i = 1; i < 1500; i++) {
			uint8_t key[16];
			size_t size = test_random(&random) % (longest + 1);
			for (size_t b = 0; b < size; b++)
				key[b] = (uint8_t)(test_random(&random) % alphabet);
			bytes += put(table, cairn_slice_of(key, size), CAIRN_KIND_PUT, i, NULL, 0);
			size_t used = cairn_memtable_bytes(table);
			assert_true(used <= cairn_memtable_bound(i, bytes));
		}
	}
	cairn_memtable_free(table);
}

static void a_table_filled_while_it_fits_holds_everything(void **state)
{
	(void)state;
	uint64_t random = test_seed(20250705), sequence = 0;
	struct cairn_memtable *table = table_new((size_t)128 << 10);
	struct model model = {0};
	for (;;) {
		uint8_t key[8];
		size_t size = 2 + test_random(&random) % 3;
		for (size_t b = 0; b < size; b++)
			key[b] = (uint8_t)(test_random(&random) % (b == 1 ? 49 : 7));
		if (!cairn_memtable_fits(table, 1, size + 64))
			break;
		put(table, cairn_slice_of(key, size), CAIRN_KIND_PUT, ++sequence, NULL, 0);
		entry_add(model_entry(&model, key, size), sequence, CAIRN_KIND_PUT);
	}
	assert_true(cairn_memtable_bytes(table) <= cairn_memtable_capacity(table));
	for (size_t i = 0; i < model.count; i++) {
		struct cairn_record record;
		const struct entry *entry = &model.entries[i];
		cairn_slice key = cairn_slice_of(entry->key, entry->size);
		assert_int_equal(get(table, key, sequence, &record), 0);
		assert_true(record_is(&record, &entry->versions[entry->count - 1]));
	}
	model_release(&model);
	cairn_memtable_free(table);
}

static void sizes_beyond_reason_do_not_fit(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(4096);
	assert_false(cairn_memtable_fits(table, SIZE_MAX, 0));
	assert_false(cairn_memtable_fits(table, 1, SIZE_MAX));
	assert_false(cairn_memtable_fits(table, SIZE_MAX / 70, SIZE_MAX / 2));
	cairn_memtable_free(table);
	assert_int_equal(cairn_memtable_new(((size_t)16 << 30) + 1, SEED, &table), -ENOMEM);
	assert_null(table);
	assert_true(cairn_error_text()[0] != '\0');
	cairn_memtable_free(table);
}

static void a_record_may_be_as_large_as_a_table_has_room(void **state)
{
	(void)state;
	size_t size = (size_t)20 << 20;
	uint8_t *value = malloc(size);
	assert_non_null(value);
	memset(value, 'V', size);
	struct cairn_memtable *table = table_new(cairn_memtable_bound(2, size + 8));
	struct cairn_record record;
	put(table, text("a"), CAIRN_KIND_PUT, 1, NULL, 0);
	assert_true(cairn_memtable_fits(table, 1, size + 1 - 40));
	put_value(table, text("b"), cairn_slice_of(value, size - 40), CAIRN_KIND_PUT, 2, NULL, 0);
	assert_int_equal(get(table, text("b"), 2, &record), 0);
	assert_int_equal(record.value.size, size - 40);
	cairn_memtable_free(table);
	free(value);
}

static void a_reset_table_is_empty_and_as_good_as_new(void **state)
{
	(void)state;
	struct fixture *f = fixture_new(test_seed(20250706), 200);
	size_t empty = cairn_memtable_bytes(f->table);
	for (size_t life = 0; life < 3; life++) {
		uint64_t low, high;
		for (size_t i = 0; i < 800; i++)
			fixture_write(f);
		check_gets(f);
		check_scans(f);
		cairn_memtable_reset(f->table);
		assert_int_equal(cairn_memtable_bytes(f->table), empty);
		assert_int_equal(cairn_memtable_operations(f->table), 0);
		cairn_memtable_sequences(f->table, &low, &high);
		assert_true(low == 0 && high == 0);
		f->operations = f->bytes = 0;
		for (size_t i = 0; i < f->model.count; i++)
			f->model.entries[i].count = 0;
		check_gets(f);
		check_scans(f);
	}
	fixture_free(f);
}

static void populate_faults_in_what_lies_ahead(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new((size_t)1 << 20);
	struct cairn_record record;
	unsigned char resident[16] = {0};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	put(table, text("k"), CAIRN_KIND_PUT, 1, NULL, 0);
	assert_int_equal(get(table, text("k"), 1, &record), 0);
	if (!cairn_memtable_populate(table, (size_t)512 << 10)) {
		cairn_memtable_free(table);
		skip(); /* the kernel does not know how */
	}
	uintptr_t middle = ((uintptr_t)record.key.data + ((size_t)256 << 10)) & ~(page - 1);
	assert_int_equal(mincore((void *)middle, page * 16, resident), 0);
	for (size_t i = 0; i < 16; i++)
		assert_true(resident[i] & 1);
	assert_int_equal(cairn_memtable_populate(table, (size_t)512 << 10), 0);
	assert_int_equal(cairn_memtable_populate(table, SIZE_MAX), 1);
	assert_int_equal(cairn_memtable_populate(table, SIZE_MAX), 0);
	cairn_memtable_reset(table);
	assert_int_equal(cairn_memtable_populate(table, SIZE_MAX), 0);
	cairn_memtable_free(table);
}

static void counters_tell_what_was_inserted(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	uint64_t low, high;
	cairn_memtable_sequences(table, &low, &high);
	assert_true(low == 0 && high == 0);
	size_t payload = put(table, text("one"), CAIRN_KIND_PUT, 11, NULL, 0);
	payload += put(table, text("two"), CAIRN_KIND_PUT, 12, NULL, 0);
	payload += put(table, text("one"), CAIRN_KIND_DELETE, 15, NULL, 0);
	assert_int_equal(cairn_memtable_operations(table), 3);
	assert_int_equal(cairn_memtable_deletes(table), 1);
	assert_int_equal(cairn_memtable_overwrites(table), 1);
	assert_int_equal(cairn_memtable_payload(table), payload);
	assert_int_equal(cairn_memtable_capacity(table), 65536);
	cairn_memtable_sequences(table, &low, &high);
	assert_true(low == 11 && high == 15);
	cairn_memtable_free(table);
}

/* ---- versions ---- */

static void expect(const struct cairn_memtable *table, uint64_t sequence, int rc, uint64_t version)
{
	struct cairn_record record;
	assert_int_equal(get(table, text("key"), sequence, &record), rc);
	if (rc == 0)
		assert_true(record_is(&record, &(struct version){version, CAIRN_KIND_PUT}));
}

static void without_views_the_newest_two_versions_stay(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	put(table, text("key"), CAIRN_KIND_PUT, 10, NULL, 0);
	expect(table, 9, CAIRN_NOT_FOUND, 0);
	put(table, text("key"), CAIRN_KIND_PUT, 20, NULL, 0);
	expect(table, 9, CAIRN_NOT_FOUND, 0);
	expect(table, 19, 0, 10);
	put(table, text("key"), CAIRN_KIND_PUT, 30, NULL, 0);
	for (uint64_t s = 0; s < 20; s++)
		expect(table, s, CAIRN_CONFLICT, 0);
	expect(table, 20, 0, 20);
	expect(table, 29, 0, 20);
	expect(table, 30, 0, 30);
	cairn_memtable_free(table);
}

static void a_view_keeps_what_it_needs_and_nothing_between(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	const uint64_t views[] = {5, 35};
	for (uint64_t s = 10; s <= 100; s += 10)
		put(table, text("key"), CAIRN_KIND_PUT, s, views, s > 35 ? 2 : 1);
	expect(table, 5, CAIRN_NOT_FOUND, 0); /* it came after that view: no conflict */
	expect(table, 35, 0, 30);
	expect(table, 60, CAIRN_CONFLICT, 0);
	expect(table, 85, CAIRN_CONFLICT, 0);
	expect(table, 95, 0, 90);
	expect(table, 100, 0, 100);
	put(table, text("key"), CAIRN_KIND_PUT, 110, views + 1, 1); /* the view at 5 is gone */
	expect(table, 35, 0, 30);
	expect(table, 5, CAIRN_CONFLICT, 0);
	put(table, text("key"), CAIRN_KIND_PUT, 120, NULL, 0);
	expect(table, 35, CAIRN_CONFLICT, 0);
	expect(table, 110, 0, 110);
	cairn_memtable_free(table);
}

static void a_view_does_not_keep_what_lies_under_its_version(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	const uint64_t view = 20;
	for (uint64_t s = 10; s <= 50; s += 10)
		put(table, text("key"), CAIRN_KIND_PUT, s, &view, s > view);
	expect(table, view, 0, 20);
	expect(table, 15, CAIRN_CONFLICT, 0);
	cairn_memtable_free(table);
}

static void a_batch_over_one_key_leaves_the_published_version(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	const uint64_t published = 10;
	put(table, text("key"), CAIRN_KIND_PUT, 10, NULL, 0);
	for (uint64_t s = 11; s < 20; s++) {
		put(table, text("key"), CAIRN_KIND_PUT, s, &published, 1);
		expect(table, published, 0, 10);
	}
	cairn_memtable_free(table);
}

static void a_cursor_at_a_stale_sequence_meets_the_cut(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	struct cairn_cursor *cursor;
	put(table, text("a"), CAIRN_KIND_PUT, 1, NULL, 0);
	for (uint64_t s = 2; s < 6; s++)
		put(table, text("key"), CAIRN_KIND_PUT, s, NULL, 0);
	assert_int_equal(cairn_memtable_cursor_open(table, 2, &cursor), 0);
	assert_int_equal(cairn_cursor_first(cursor), 0);
	assert_int_equal(cairn_cursor_next(cursor), CAIRN_CONFLICT);
	assert_false(cursor->valid);
	assert_int_equal(cairn_cursor_last(cursor), CAIRN_CONFLICT);
	assert_int_equal(cairn_cursor_seek(cursor, text("b")), CAIRN_CONFLICT);
	cairn_cursor_close(cursor);
	cairn_memtable_free(table);
}

static void a_damaged_value_is_never_returned(void **state)
{
	(void)state;
	struct cairn_memtable *table = table_new(65536);
	struct cairn_record record;
	struct cairn_cursor *cursor;
	put_value(table, text("key"), text("value"), CAIRN_KIND_PUT, 1, NULL, 0);
	assert_int_equal(get(table, text("key"), 1, &record), 0);
	uint8_t *value = (uint8_t *)(uintptr_t)record.value.data;
	value[2] ^= 4;
	assert_int_equal(get(table, text("key"), 1, &record), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_error_text(), "checksum"));
	assert_int_equal(cairn_memtable_cursor_open(table, 1, &cursor), 0);
	assert_int_equal(cairn_cursor_first(cursor), 0);
	assert_int_equal(cairn_cursor_record(cursor, &record), CAIRN_CORRUPT);
	value[2] ^= 4;
	assert_int_equal(cairn_cursor_record(cursor, &record), 0);
	value[-1] ^= 4; /* the key's last byte: the hash of what is there is another */
	assert_int_equal(cairn_cursor_record(cursor, &record), CAIRN_CORRUPT);
	cairn_cursor_close(cursor);
	cairn_memtable_free(table);
}

/* ---- one writer, three readers: the plan is known, so every answer can be checked ---- */

enum { PLAN_KEYS = 700, PLAN_WRITES = 8000, READERS = 3 };

struct plan {
	struct model model; /* all versions that will be written */
	size_t *entry;      /* of each write */
	enum cairn_kind *kind;
};

struct race {
	struct cairn_memtable *table;
	struct plan plan;
	pthread_mutex_t lock; /* the writer's, and views are registered under it */
	uint64_t views[READERS];
	bool viewing[READERS];
	_Atomic uint64_t published;
	_Atomic int done;
	pthread_barrier_t start;
};

struct reader {
	struct race *race;
	unsigned number;
	uint64_t random;
	const char *failure;
	uint64_t answers, conflicts;
};

/* Keys come into use one by one, so nodes grow and split all the time. */
static void plan_make(struct plan *plan, uint64_t seed)
{
	uint8_t *key = malloc(KEY_LARGE);
	plan->entry = malloc(PLAN_WRITES * sizeof *plan->entry);
	plan->kind = malloc(PLAN_WRITES * sizeof *plan->kind);
	assert_true(key && plan->entry && plan->kind);
	for (size_t i = 0; i < PLAN_KEYS; i++) {
		size_t size = key_make(&seed, key);
		model_entry(&plan->model, key, size < 1000 ? size : 1000);
	}
	free(key);
	size_t keys = plan->model.count;
	for (size_t i = 0; i < PLAN_WRITES; i++) {
		size_t in_use = 1 + i * keys / PLAN_WRITES;
		size_t hot = test_random(&seed) % 4 ? in_use : 1 + in_use / 50;
		size_t entry = test_random(&seed) % hot * 487 % keys; /* in no order */
		plan->entry[i] = entry;
		plan->kind[i] = test_random(&seed) % 6 ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE;
		entry_add(&plan->model.entries[entry], i + 1, plan->kind[i]);
	}
}

static int ascending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

static void race_write(struct race *race)
{
	for (size_t i = 0; i < PLAN_WRITES; i++) {
		const struct entry *entry = &race->plan.model.entries[race->plan.entry[i]];
		uint64_t views[READERS];
		size_t count = 0;
		pthread_mutex_lock(&race->lock);
		for (size_t r = 0; r < READERS; r++)
			if (race->viewing[r])
				views[count++] = race->views[r];
		qsort(views, count, sizeof *views, ascending);
		put(race->table, cairn_slice_of(entry->key, entry->size), race->plan.kind[i], i + 1,
		    views, count);
		atomic_store_explicit(&race->published, i + 1, memory_order_release);
		pthread_mutex_unlock(&race->lock);
		if (i % 32 == 0)
			sched_yield();
	}
	atomic_store(&race->done, 1);
}

static const char *answer_check(
    int rc, const struct cairn_record *record, const struct entry *entry, uint64_t sequence)
{
	const struct version *version = entry_visible(entry, sequence);
	if (rc != (version ? 0 : CAIRN_NOT_FOUND))
		return "get: wrong result";
	return version && !record_is(record, version) ? "get: wrong version" : NULL;
}

/* Often written ones come up often. */
static const struct entry *race_entry(struct reader *reader)
{
	const struct plan *plan = &reader->race->plan;
	return &plan->model.entries[plan->entry[test_random(&reader->random) % PLAN_WRITES]];
}

/* A get without a view: again with a newer sequence when it was overtaken. */
static const char *read_published(struct reader *reader)
{
	const struct entry *entry = race_entry(reader);
	cairn_slice key = cairn_slice_of(entry->key, entry->size);
	struct cairn_record record;
	for (;;) {
		uint64_t sequence =
		    atomic_load_explicit(&reader->race->published, memory_order_acquire);
		if (test_random(&reader->random) % 16 == 0)
			sched_yield(); /* invites the writer in between */
		int rc = get(reader->race->table, key, sequence, &record);
		reader->answers++;
		if (rc != CAIRN_CONFLICT)
			return answer_check(rc, &record, entry, sequence);
		reader->conflicts++;
	}
}

/* Walks `most` records from entry `i` on: each visible one, once, in order. */
static const char *walk_check(struct reader *reader, struct cairn_cursor *cursor, int rc, size_t i,
    bool forward, uint64_t sequence, size_t most)
{
	const struct model *model = &reader->race->plan.model;
	for (; i < model->count && most > 0; i += forward ? 1 : (size_t)-1) {
		const struct entry *entry = &model->entries[i];
		const struct version *version = entry_visible(entry, sequence);
		struct cairn_record record;
		if (!version)
			continue;
		if (rc)
			return "cursor: a record is missing";
		if (bytes_compare(cursor->key.data, cursor->key.size, entry->key, entry->size))
			return "cursor: wrong key";
		if (cairn_cursor_record(cursor, &record) || !record_is(&record, version))
			return "cursor: wrong record";
		reader->answers++;
		most--;
		rc = forward ? cairn_cursor_next(cursor) : cairn_cursor_prev(cursor);
	}
	return most > 0 && rc != CAIRN_END ? "cursor: no end" : NULL;
}

static const char *read_cursor(struct reader *reader, uint64_t sequence)
{
	const struct model *model = &reader->race->plan.model;
	struct cairn_cursor *cursor;
	if (cairn_memtable_cursor_open(reader->race->table, sequence, &cursor))
		return "cursor: not opened";
	const char *failure =
	    walk_check(reader, cursor, cairn_cursor_first(cursor), 0, true, sequence, SIZE_MAX);
	if (!failure)
		failure = walk_check(reader, cursor, cairn_cursor_last(cursor), model->count - 1,
		    false, sequence, SIZE_MAX);
	for (size_t n = 0; n < 10 && !failure; n++) {
		const struct entry *entry = race_entry(reader);
		int rc = cairn_cursor_seek(cursor, cairn_slice_of(entry->key, entry->size));
		failure = walk_check(
		    reader, cursor, rc, (size_t)(entry - model->entries), true, sequence, 5);
	}
	cairn_cursor_close(cursor);
	return failure;
}

static const char *read_view(struct reader *reader)
{
	struct race *race = reader->race;
	struct cairn_record record;
	pthread_mutex_lock(&race->lock);
	uint64_t sequence = atomic_load(&race->published);
	race->views[reader->number] = sequence;
	race->viewing[reader->number] = true;
	pthread_mutex_unlock(&race->lock);
	const char *failure = read_cursor(reader, sequence);
	for (size_t n = 0; n < 50 && !failure; n++) {
		const struct entry *entry = race_entry(reader);
		int rc =
		    get(race->table, cairn_slice_of(entry->key, entry->size), sequence, &record);
		failure = answer_check(rc, &record, entry, sequence);
		reader->answers++;
	}
	if (!failure)
		failure = read_cursor(reader, sequence);
	pthread_mutex_lock(&race->lock);
	race->viewing[reader->number] = false;
	pthread_mutex_unlock(&race->lock);
	return failure;
}

static void *race_read(void *argument)
{
	struct reader *reader = argument;
	bool last;
	pthread_barrier_wait(&reader->race->start);
	do {
		last = atomic_load(&reader->race->done);
		reader->failure = read_view(reader);
		for (size_t n = 0; n < 500 && !reader->failure; n++)
			reader->failure = read_published(reader);
	} while (!last && !reader->failure);
	return NULL;
}

static void readers_are_right_beside_a_writer(void **state)
{
	(void)state;
	uint64_t seed = test_seed(20250707);
	struct race race = {.table = table_new((size_t)8 << 20)};
	struct reader readers[READERS];
	pthread_t threads[READERS];
	plan_make(&race.plan, seed);
	assert_int_equal(pthread_mutex_init(&race.lock, NULL), 0);
	assert_int_equal(pthread_barrier_init(&race.start, NULL, READERS + 1), 0);
	for (unsigned r = 0; r < READERS; r++) {
		readers[r] = (struct reader){.race = &race, .number = r, .random = seed + r};
		assert_int_equal(pthread_create(&threads[r], NULL, race_read, &readers[r]), 0);
	}
	pthread_barrier_wait(&race.start);
	race_write(&race);
	for (unsigned r = 0; r < READERS; r++)
		pthread_join(threads[r], NULL);
	for (unsigned r = 0; r < READERS; r++) {
		printf("reader %u: %llu answers, %llu conflicts\n", r,
		    (unsigned long long)readers[r].answers,
		    (unsigned long long)readers[r].conflicts);
		if (readers[r].failure)
			fail_msg("%s", readers[r].failure);
		assert_true(readers[r].answers > 500);
	}
	pthread_barrier_destroy(&race.start);
	pthread_mutex_destroy(&race.lock);
	cairn_memtable_free(race.table);
	model_release(&race.plan.model);
	free(race.plan.entry);
	free(race.plan.kind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_view_reads_what_it_saw_in_every_way),
	    cmocka_unit_test(a_cursor_sees_its_view_whole_while_keys_arrive),
	    cmocka_unit_test(a_node_of_any_width_finds_and_orders_its_children),
	    cmocka_unit_test(a_terminal_lives_through_the_growth_of_its_node),
	    cmocka_unit_test(a_chain_of_prefixes_may_be_as_deep_as_a_key_is_long),
	    cmocka_unit_test(the_bound_is_reached_but_never_passed),
	    cmocka_unit_test(what_fits_may_make_every_node_grow_at_once),
	    cmocka_unit_test(the_bound_holds_for_every_set_of_keys),
	    cmocka_unit_test(a_table_filled_while_it_fits_holds_everything),
	    cmocka_unit_test(sizes_beyond_reason_do_not_fit),
	    cmocka_unit_test(a_record_may_be_as_large_as_a_table_has_room),
	    cmocka_unit_test(a_reset_table_is_empty_and_as_good_as_new),
	    cmocka_unit_test(populate_faults_in_what_lies_ahead),
	    cmocka_unit_test(counters_tell_what_was_inserted),
	    cmocka_unit_test(without_views_the_newest_two_versions_stay),
	    cmocka_unit_test(a_view_keeps_what_it_needs_and_nothing_between),
	    cmocka_unit_test(a_view_does_not_keep_what_lies_under_its_version),
	    cmocka_unit_test(a_batch_over_one_key_leaves_the_published_version),
	    cmocka_unit_test(a_cursor_at_a_stale_sequence_meets_the_cut),
	    cmocka_unit_test(a_damaged_value_is_never_returned),
	    cmocka_unit_test(readers_are_right_beside_a_writer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
