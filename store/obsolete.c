/*
 * store/obsolete.c -- see obsolete.h.
 */
#include "store/obsolete.h"

#include <stdlib.h>

struct cairn_obsolete_file {
	struct cairn_obsolete_file *next;
	char path[];
};

void cairn_obsolete_add(struct cairn_obsolete *obsolete, const char *path)
{
	size_t size = strlen(path) + 1;
	struct cairn_obsolete_file *file = malloc(sizeof *file + size);
	if (!file)
		return;
	memcpy(file->path, path, size);
	pthread_mutex_lock(&obsolete->mutex);
	file->next = obsolete->head;
	obsolete->head = file;
	pthread_mutex_unlock(&obsolete->mutex);
}

int cairn_obsolete_remove(struct cairn_obsolete *obsolete, struct cairn_io *io)
{
	pthread_mutex_lock(&obsolete->mutex);
	struct cairn_obsolete_file *file = obsolete->head;
	obsolete->head = NULL;
	pthread_mutex_unlock(&obsolete->mutex);
	int found = file != NULL;
	while (file) {
		struct cairn_obsolete_file *next = file->next;
		io->ops->unlink(io, file->path);
		free(file);
		file = next;
	}
	return found;
}
