/*
 * store/io_select.h -- which back end of format/io.h a store runs on.
 */
#ifndef CAIRN_STORE_IO_SELECT_H
#define CAIRN_STORE_IO_SELECT_H

#include "format/io.h"

/*
 * `backend` is cairn_options.io_backend: CAIRN_IO_URING, CAIRN_IO_POSIX, or 0 for io_uring where
 * the kernel gives a ring and POSIX where it does not. The environment variable CAIRN_IO, "posix"
 * or "io_uring", decides in place of a 0. CAIRN_UNSUPPORTED when a ring was asked for by name and
 * refused.
 */
int cairn_io_select(int backend, struct cairn_io **io);

/* Closes what cairn_io_select opened. */
void cairn_io_release(struct cairn_io *io);

#endif
