/*
 * store/io_select.c -- which back end of format/io.h a store runs on.
 *
 * A ring that the kernel refuses is an answer, not a failure, unless the caller insists on one.
 */
#include "store/io_select.h"

#include <stdlib.h>

#include "format/error.h"
#include "store/cairn.h"
#include "store/io_posix.h"
#include "store/io_uring.h"

/* The choice of the environment, 0 when it has none. */
static int backend_of_environment(int *backend)
{
	const char *name = getenv("CAIRN_IO");
	*backend = 0;
	if (!name || !*name)
		return 0;
	if (!strcmp(name, "posix"))
		*backend = CAIRN_IO_POSIX;
	else if (!strcmp(name, "io_uring"))
		*backend = CAIRN_IO_URING;
	else
		return cairn_error(CAIRN_INVALID,
		    "environment variable CAIRN_IO is \"%s\"; set it to posix or io_uring, or "
		    "unset it",
		    name);
	return 0;
}

static int ring_refused(int code)
{
	char space[128];
	return cairn_error(CAIRN_UNSUPPORTED,
	    "io_uring: the kernel refuses a ring (%s); choose the POSIX back end",
	    strerror_r(-code, space, sizeof space));
}

int cairn_io_select(int backend, struct cairn_io **io)
{
	*io = NULL;
	if (backend == 0) {
		int result = backend_of_environment(&backend);
		if (result)
			return result;
	}
	if (backend == CAIRN_IO_POSIX)
		return cairn_io_posix_open(io);
	if (backend != CAIRN_IO_URING && backend != 0)
		return cairn_error(CAIRN_INVALID,
		    "there is no I/O back end %d; use 0, CAIRN_IO_URING or CAIRN_IO_POSIX",
		    backend);
	int result = cairn_io_uring_open(io);
	if (result && backend == CAIRN_IO_URING)
		return ring_refused(result);
	return result ? cairn_io_posix_open(io) : 0;
}

void cairn_io_release(struct cairn_io *io)
{
	if (!io)
		return;
	if (io->ops == &cairn_io_posix_ops)
		cairn_io_posix_close(io);
	else
		cairn_io_uring_close(io);
}
