/*
 * store/batch.c -- see batch.h.
 */
#include "store/batch.h"

#include <errno.h>
#include <stdlib.h>

#include "format/error.h"
#include "format/log_record.h"
#include "store/store.h"
#include "store/write.h"

cairn_batch *cairn_batch_new(void)
{
	return calloc(1, sizeof(cairn_batch));
}

static int add(cairn_batch *batch, enum cairn_kind kind, cairn_slice key, cairn_slice value)
{
	struct cairn_record record = {key, value, 0, kind};
	if (!batch)
		return cairn_error(CAIRN_INVALID, "the batch is NULL");
	int rc = cairn_check_record(&record);
	if (rc)
		return rc;
	size_t payload = batch->payload + key.size + value.size;
	if (payload + (batch->count + 1) * CAIRN_BATCH_OVERHEAD > CAIRN_BATCH_MAX)
		return cairn_error(CAIRN_TOO_LARGE,
		    "the batch would pass its limit of %u bytes (keys, values and %u for each "
		    "operation); write it and begin a new one",
		    CAIRN_BATCH_MAX, CAIRN_BATCH_OVERHEAD);
	size_t size = cairn_log_operation_size(&record);
	if (cairn_buffer_reserve(&batch->body, size))
		return cairn_error(
		    -ENOMEM, "out of memory for a batch of %zu bytes", batch->body.size + size);
	cairn_log_operation_put(batch->body.data + batch->body.size, &record);
	batch->body.size += size;
	batch->payload = payload;
	batch->count++;
	batch->deletes += kind == CAIRN_KIND_DELETE;
	return 0;
}

int cairn_batch_put(cairn_batch *batch, cairn_slice key, cairn_slice value)
{
	return cairn_report(NULL, add(batch, CAIRN_KIND_PUT, key, value));
}

int cairn_batch_delete(cairn_batch *batch, cairn_slice key)
{
	return cairn_report(NULL, add(batch, CAIRN_KIND_DELETE, key, (cairn_slice){"", 0}));
}

void cairn_batch_clear(cairn_batch *batch)
{
	batch->body.size = 0;
	batch->count = 0;
	batch->deletes = 0;
	batch->payload = 0;
}

size_t cairn_batch_count(const cairn_batch *batch)
{
	return batch->count;
}

void cairn_batch_free(cairn_batch *batch)
{
	if (!batch)
		return;
	cairn_buffer_release(&batch->body);
	free(batch);
}
