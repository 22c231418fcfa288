/*
 * tools/lines.h -- the lines of a file or pipe, of any length, in few large reads.
 */
#ifndef CAIRN_TOOLS_LINES_H
#define CAIRN_TOOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_lines {
	int descriptor;
	size_t size_max; /* of one line */
	uint64_t number; /* of the line returned last, from 1 */
	char *data;
	size_t capacity;
	size_t start;   /* of the next line in data */
	size_t scanned; /* no newline between start and here */
	size_t end;     /* of what has been read */
	bool ended;
};

/* Starts at the place where `descriptor` stands, which stays the caller's. */
void cairn_lines_init(struct cairn_lines *lines, int descriptor, size_t size_max);

/*
 * The next line without its newline; the last one need not have one. The bytes are the caller's to
 * change until the next call. 1; 0 at the end; -errno, or -EFBIG when the line is longer than
 * size_max: `number` is then that of the line that could not be read.
 */
int cairn_lines_next(struct cairn_lines *lines, char **line, size_t *size);

void cairn_lines_release(struct cairn_lines *lines);

#endif
