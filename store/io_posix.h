/*
 * store/io_posix.h -- format/io.h over the system calls of Linux.
 *
 * The io_uring back end is this one with another queue; what it builds on is declared here.
 */
#ifndef CAIRN_STORE_IO_POSIX_H
#define CAIRN_STORE_IO_POSIX_H

#include "format/io.h"

int cairn_io_posix_open(struct cairn_io **io);
void cairn_io_posix_close(struct cairn_io *io);

extern const struct cairn_io_ops cairn_io_posix_ops;

/* The descriptor of a file that was opened through cairn_io_posix_ops. It stays the file's. */
int cairn_io_posix_descriptor(const struct cairn_file *file);

/*
 * The finished requests of a queue that nobody has waited for yet. Zeroed is empty. Room is
 * reserved when a request is submitted, so that finishing it cannot fail.
 */
struct cairn_finished {
	struct cairn_write_request **requests;
	size_t count;
	size_t capacity;
};

/* Room for `total` requests. 0 or -ENOMEM with the message recorded. */
int cairn_finished_reserve(struct cairn_finished *finished, size_t total);
void cairn_finished_push(struct cairn_finished *finished, struct cairn_write_request *request);
/* NULL when there is none. */
struct cairn_write_request *cairn_finished_pop(struct cairn_finished *finished);
void cairn_finished_release(struct cairn_finished *finished);

#endif
