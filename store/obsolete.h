/*
 * store/obsolete.h -- files that no manifest names and no reader needs, waiting to be removed.
 *
 * Removing a big file takes the file system tens of milliseconds, so whoever drops the last
 * reference only notes the file; the background, or close, removes it.
 */
#ifndef CAIRN_STORE_OBSOLETE_H
#define CAIRN_STORE_OBSOLETE_H

#include <pthread.h>
#include <stdatomic.h>

#include "format/io.h"

struct cairn_obsolete {
	pthread_mutex_t mutex;
	struct cairn_obsolete_file *head;
};

/* Notes a path; takes a copy. When memory is short the file stays until the next open removes it.
 */
void cairn_obsolete_add(struct cairn_obsolete *obsolete, const char *path);

/* Removes all noted files. 1 when there was one. Failures are ordinary: the next open tries again.
 */
int cairn_obsolete_remove(struct cairn_obsolete *obsolete, struct cairn_io *io);

#endif
