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

#endif
