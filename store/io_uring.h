/*
 * store/io_uring.h -- format/io.h with a queue that has several writes under way at once, by
 * io_uring.
 */
#ifndef CAIRN_STORE_IO_URING_H
#define CAIRN_STORE_IO_URING_H

#include "format/io.h"

/*
 * -errno without a message when the kernel gives no ring: too old, switched off, or forbidden to
 * this process. That is ordinary; the POSIX back end does everything too.
 */
int cairn_io_uring_open(struct cairn_io **io);
void cairn_io_uring_close(struct cairn_io *io);

#endif
