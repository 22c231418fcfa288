/*
 * store/batch.h -- operations collected to be written as one; kept in the bytes of a log record's
 * body but for the record checksums, which need a store's seed.
 */
#ifndef CAIRN_STORE_BATCH_H
#define CAIRN_STORE_BATCH_H

#include "format/buffer.h"
#include "store/cairn.h"

/* What one operation counts against CAIRN_BATCH_MAX beside key and value. */
#define CAIRN_BATCH_OVERHEAD 32u

struct cairn_batch {
	struct cairn_buffer body; /* operations as in format/log_record.h, checksums zero */
	size_t count;
	size_t deletes; /* of the count */
	size_t payload; /* bytes of keys and values */
};

#endif
