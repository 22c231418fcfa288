/*
 * tools/bench/engine_memory.c -- not a store: an open-addressed hash table in memory, the floor
 * under what a lookup costs on this machine.
 *
 * A slot is the hash of a key and the place of its record in one growing area of bytes, where key
 * and value lie side by side: a hit costs two cache misses, a miss one. Slots are searched one
 * after the other; at most half of them are taken. A removed record keeps its slot, without a
 * value, so that searches go on beyond it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/bench/engine.h"

struct slot {
	uint64_t hash; /* 0: empty */
	uint64_t place;
};

/* Before its bytes; value_size GONE: removed. */
struct head {
	uint32_t key_size;
	uint32_t value_size;
};

#define GONE UINT32_MAX

struct store {
	struct slot *slots;
	uint64_t mask;
	uint64_t taken;
	void *bytes;
	size_t capacity;
	size_t size;
};

static void version(char *text, size_t size)
{
	snprintf(text, size, "1");
}

static uint64_t hash_of(cairn_slice key)
{
	const uint8_t *p = key.data;
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ key.size, word;
	for (size_t left = key.size; left; left -= left < 8 ? left : 8, p += 8) {
		word = 0;
		memcpy(&word, p, left < 8 ? left : 8);
		h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	return h | 1; /* 0 means empty; the table's index is of higher bits */
}

static int open_store(const struct bench_place *place, void **store)
{
	struct store *made = cairn_bench_new(sizeof *made);
	uint64_t slots = 16;
	while (slots < 2 * place->records)
		slots *= 2;
	made->mask = slots - 1;
	made->slots = cairn_bench_new(slots * sizeof *made->slots);
	*store = made;
	return 0;
}

static int close_store(void *store)
{
	struct store *s = store;
	free(s->slots);
	free(s->bytes);
	free(s);
	return 0;
}

static int open_session(void *store, void **session)
{
	*session = store;
	return 0;
}

static void close_session(void *session)
{
	(void)session;
}

static uint64_t home(const struct store *store, uint64_t hash)
{
	return hash >> 8 & store->mask;
}

/* The slot of the key, or the empty one where it would go. */
static struct slot *find(const struct store *store, cairn_slice key, uint64_t hash)
{
	struct head head;
	for (uint64_t i = home(store, hash);; i = (i + 1) & store->mask) {
		struct slot *slot = &store->slots[i];
		if (!slot->hash)
			return slot;
		if (slot->hash != hash)
			continue;
		const uint8_t *at = (const uint8_t *)store->bytes + slot->place;
		memcpy(&head, at, sizeof head);
		if (head.key_size == key.size && memcmp(at + sizeof head, key.data, key.size) == 0)
			return slot;
	}
}

static void grow(struct store *store)
{
	struct slot *old = store->slots;
	uint64_t count = store->mask + 1;
	store->mask = 2 * count - 1;
	store->slots = cairn_bench_new(2 * count * sizeof *store->slots);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t to = home(store, old[i].hash);
		while (old[i].hash && store->slots[to].hash)
			to = (to + 1) & store->mask;
		if (old[i].hash)
			store->slots[to] = old[i];
	}
	free(old);
}

static uint64_t append(struct store *store, cairn_slice key, cairn_slice value)
{
	struct head head = {(uint32_t)key.size, (uint32_t)value.size};
	size_t size = sizeof head + key.size + value.size, place = store->size;
	if (store->size + size > store->capacity)
		cairn_bench_reserve(&store->bytes, &store->capacity, 2 * (store->size + size));
	uint8_t *at = (uint8_t *)store->bytes + place;
	memcpy(at, &head, sizeof head);
	memcpy(at + sizeof head, key.data, key.size);
	if (value.size)
		memcpy(at + sizeof head + key.size, value.data, value.size);
	store->size += size;
	return place;
}

/* A value of the same size is written over the old one, any other to a new place. */
static int put(void *session, cairn_slice key, cairn_slice value, bool sync)
{
	struct store *store = session;
	(void)sync;
	uint64_t hash = hash_of(key);
	struct slot *slot = find(store, key, hash);
	struct head head = {0};
	uint8_t *at = NULL;
	if (slot->hash) {
		at = (uint8_t *)store->bytes + slot->place;
		memcpy(&head, at, sizeof head);
	}
	if (at && head.value_size == value.size) {
		if (value.size)
			memcpy(at + sizeof head + key.size, value.data, value.size);
		return 0;
	}
	if (!slot->hash)
		store->taken++;
	*slot = (struct slot){hash, append(store, key, value)};
	if (store->taken > store->mask / 2)
		grow(store);
	return 0;
}

static int remove_record(void *session, cairn_slice key)
{
	struct store *store = session;
	struct slot *slot = find(store, key, hash_of(key));
	struct head head = {(uint32_t)key.size, GONE};
	if (slot->hash)
		memcpy((uint8_t *)store->bytes + slot->place, &head, sizeof head);
	return 0;
}

static int add(void *session, cairn_slice key, cairn_slice value)
{
	return put(session, key, value, false);
}

static int commit(void *session, bool sync)
{
	(void)session;
	(void)sync;
	return 0;
}

static int get(void *session, cairn_slice key, cairn_slice *value)
{
	const struct store *store = session;
	const struct slot *slot = find(store, key, hash_of(key));
	struct head head;
	if (!slot->hash)
		return CAIRN_BENCH_ABSENT;
	const uint8_t *at = (const uint8_t *)store->bytes + slot->place;
	memcpy(&head, at, sizeof head);
	*value = (cairn_slice){at + sizeof head + key.size, head.value_size};
	return head.value_size == GONE ? CAIRN_BENCH_ABSENT : 0;
}

static int rest(void *session)
{
	(void)session;
	return 0;
}

static int print_statistics(void *session, FILE *to)
{
	const struct store *s = session;
	fprintf(to, "%llu of %llu slots, %zu bytes of records\n", (unsigned long long)s->taken,
	    (unsigned long long)s->mask + 1, s->size);
	return 0;
}

const struct bench_engine cairn_bench_memory = {
    .name = "memory",
    .settings = "not a store: an open-addressed hash in memory, no order, no files, no log",
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
    .rest = rest,
    .compact = rest,
    .print_statistics = print_statistics,
};
