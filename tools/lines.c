/*
 * tools/lines.c -- the lines of a file or pipe.
 *
 * 1. start <= scanned <= end <= capacity.
 * 2. No byte is looked at twice in search of a newline, and none is moved more than once for each
 * doubling of the buffer or read: the work is linear in the input, however long its lines.
 *
 * One thread at a time.
 */
#include "tools/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAPACITY_FIRST ((size_t)1 << 20)

void cairn_lines_init(struct cairn_lines *lines, int descriptor, size_t size_max)
{
	*lines = (struct cairn_lines){.descriptor = descriptor, .size_max = size_max};
}

/* Room behind `end`, by moving the rest of the buffer to its front or by growing. */
static int make_room(struct cairn_lines *lines)
{
	size_t rest = lines->end - lines->start;
	if (rest > lines->size_max)
		return -EFBIG;
	if (lines->start > 0) {
		memmove(lines->data, lines->data + lines->start, rest);
		lines->scanned -= lines->start;
		lines->end = rest;
		lines->start = 0;
	}
	if (lines->end <= lines->capacity / 2 && lines->capacity > 0)
		return 0;
	size_t capacity = lines->capacity ? lines->capacity * 2 : CAPACITY_FIRST;
	char *data = realloc(lines->data, capacity);
	if (!data)
		return -ENOMEM;
	lines->data = data;
	lines->capacity = capacity;
	return 0;
}

static int read_more(struct cairn_lines *lines)
{
	int rc = make_room(lines);
	if (rc < 0)
		return rc;
	ssize_t got;
	do
		got =
		    read(lines->descriptor, lines->data + lines->end, lines->capacity - lines->end);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	lines->ended = got == 0;
	lines->end += (size_t)got;
	return 0;
}

static char *find_newline(const struct cairn_lines *lines)
{
	size_t unseen = lines->end - lines->scanned;
	return unseen ? memchr(lines->data + lines->scanned, '\n', unseen) : NULL;
}

static int hand_out(struct cairn_lines *lines, size_t end, size_t next, char **line, size_t *size)
{
	lines->number++;
	if (end - lines->start > lines->size_max)
		return -EFBIG;
	*line = lines->data + lines->start;
	*size = end - lines->start;
	lines->start = lines->scanned = next;
	return 1;
}

int cairn_lines_next(struct cairn_lines *lines, char **line, size_t *size)
{
	*line = NULL;
	*size = 0;
	for (;;) {
		char *newline = find_newline(lines);
		if (newline) {
			size_t end = (size_t)(newline - lines->data);
			return hand_out(lines, end, end + 1, line, size);
		}
		lines->scanned = lines->end;
		if (lines->ended && lines->start == lines->end)
			return 0;
		if (lines->ended)
			return hand_out(lines, lines->end, lines->end, line, size);
		int rc = read_more(lines);
		if (rc < 0) {
			lines->number++;
			return rc;
		}
	}
}

void cairn_lines_release(struct cairn_lines *lines)
{
	free(lines->data);
	*lines = (struct cairn_lines){.descriptor = -1};
}
