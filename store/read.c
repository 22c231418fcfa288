/*
 * store/read.c -- get: a read as of now.
 *
 * It takes no lock: the reader enters an epoch, loads the set, then the published sequence.
 * Whatever was acknowledged before the call is in that set at or below that sequence. A sequence
 * may be stale when it is used (the versions that it needs were cut off): then the newest one is
 * loaded, which is visible by then.
 */
#include "format/checksum.h"
#include "store/store.h"

/* In an epoch. */
static int find_now(struct cairn *db, cairn_slice key, struct cairn_record *record)
{
	uint64_t hash = cairn_key_hash(key, db->identity.hash_seed);
	int rc;
	do {
		struct cairn_set *set = atomic_load(&db->set);
		uint64_t sequence = atomic_load_explicit(&db->sequence, memory_order_acquire);
		rc = cairn_set_find(set, key, hash, sequence, record);
	} while (CAIRN_UNLIKELY(rc == CAIRN_CONFLICT));
	return rc == 0 && record->kind == CAIRN_KIND_DELETE ? CAIRN_NOT_FOUND : rc;
}

int cairn_get(cairn *db, cairn_slice key, void *buffer, size_t capacity, size_t *size)
{
	if (size)
		*size = 0;
	int rc = cairn_check_handle(db);
	if (!rc && (!size || (capacity && !buffer) || (key.size && !key.data)))
		rc = cairn_error(CAIRN_INVALID, "a place for the answer or the key is missing");
	if (!rc && key.size > CAIRN_KEY_MAX)
		return CAIRN_NOT_FOUND;
	if (!rc)
		rc = cairn_epoch_enter();
	if (rc)
		return cairn_report(db, rc);
	struct cairn_record record;
	rc = find_now(db, key, &record);
	if (rc == 0) {
		*size = record.value.size;
		if (record.value.size < capacity)
			capacity = record.value.size;
		if (capacity)
			memcpy(buffer, record.value.data, capacity);
	}
	cairn_epoch_exit();
	return cairn_report(db, rc);
}
