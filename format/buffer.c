/*
 * format/buffer.c -- bytes that grow.
 *
 * 1. size <= capacity <= PTRDIFF_MAX, and data is NULL exactly when capacity is 0.
 * 2. A failed call leaves all three as they were.
 *
 * A buffer belongs to one thread at a time.
 */
#include "format/buffer.h"

#include <errno.h>
#include <stdlib.h>

#define SMALLEST_CAPACITY 64u

int cairn_buffer_reserve(struct cairn_buffer *buffer, size_t more)
{
	if (more <= buffer->capacity - buffer->size)
		return 0;
	if (more > (size_t)PTRDIFF_MAX - buffer->size)
		return -ENOMEM;

	size_t needed = buffer->size + more;
	size_t capacity = buffer->capacity > PTRDIFF_MAX / 2 ? needed : buffer->capacity * 2;
	if (capacity < needed)
		capacity = needed;
	if (capacity < SMALLEST_CAPACITY)
		capacity = SMALLEST_CAPACITY;

	uint8_t *data = realloc(buffer->data, capacity);
	if (!data)
		return -ENOMEM;
	buffer->data = data;
	buffer->capacity = capacity;
	return 0;
}

int cairn_buffer_append(struct cairn_buffer *buffer, const void *data, size_t size)
{
	int rc = cairn_buffer_reserve(buffer, size);
	if (rc < 0 || size == 0)
		return rc;
	if (data)
		memcpy(buffer->data + buffer->size, data, size);
	else
		memset(buffer->data + buffer->size, 0, size);
	buffer->size += size;
	return 0;
}

void cairn_buffer_release(struct cairn_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct cairn_buffer){0};
}
