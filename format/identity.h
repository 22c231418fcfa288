/*
 * format/identity.h -- what makes the files of one store belong together. Stands in the header of
 * every file; chosen at random when the store is made, never changed.
 */
#ifndef CAIRN_FORMAT_IDENTITY_H
#define CAIRN_FORMAT_IDENTITY_H

#include "format/base.h"

struct cairn_identity {
	uint8_t store_id[16];
	uint64_t hash_seed; /* of key hashes and record checksums (format/checksum.h) */
};

static inline bool cairn_identity_equal(
    const struct cairn_identity *a, const struct cairn_identity *b)
{
	return memcmp(a->store_id, b->store_id, sizeof a->store_id) == 0 &&
	       a->hash_seed == b->hash_seed;
}

#endif
