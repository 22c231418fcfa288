/*
 * format/buffer.h -- bytes that grow. A zeroed buffer is an empty one; release makes it empty
 * again.
 */
#ifndef CAIRN_FORMAT_BUFFER_H
#define CAIRN_FORMAT_BUFFER_H

#include "format/base.h"

struct cairn_buffer {
	uint8_t *data;
	size_t size;
	size_t capacity;
};

/* Room for `more` bytes behind `size`. 0 or -ENOMEM, and then nothing has changed. */
int cairn_buffer_reserve(struct cairn_buffer *buffer, size_t more);

/* Appends a copy. 0 or -ENOMEM, and then nothing has changed. `data` may be NULL for zeros. */
int cairn_buffer_append(struct cairn_buffer *buffer, const void *data, size_t size);

void cairn_buffer_release(struct cairn_buffer *buffer);

#endif
