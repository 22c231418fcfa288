/*
 * store/fork.c -- a handle belongs to the process that opened it.
 *
 * The child of a fork gets a copy of the handle's memory but not its threads, and its share of the
 * lock's descriptor. A handler that runs in the child counts the generation up, so that every call
 * on an inherited handle answers CAIRN_FORKED, and abandons the locks: their descriptors are
 * closed, and they stay the parent's.
 */
#include <pthread.h>

#include "store/store.h"

static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct cairn *handles; /* guarded by handles_mutex */
_Atomic uint32_t cairn_fork_generation = 1;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&handles_mutex);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&handles_mutex);
}

static void in_child(void)
{
	atomic_fetch_add(&cairn_fork_generation, 1);
	for (struct cairn *db = handles; db; db = db->next_open)
		if (db->lock)
			db->io->ops->abandon_lock(db->lock);
	handles = NULL;
	cairn_epoch_after_fork();
	pthread_mutex_unlock(&handles_mutex);
}

static void register_handlers(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

uint32_t cairn_fork_watch(void)
{
	pthread_once(&registered, register_handlers);
	return atomic_load_explicit(&cairn_fork_generation, memory_order_relaxed);
}

void cairn_fork_register(struct cairn *db)
{
	pthread_once(&registered, register_handlers);
	pthread_mutex_lock(&handles_mutex);
	db->next_open = handles;
	handles = db;
	pthread_mutex_unlock(&handles_mutex);
}

void cairn_fork_unregister(struct cairn *db)
{
	pthread_mutex_lock(&handles_mutex);
	struct cairn **link = &handles;
	while (*link && *link != db)
		link = &(*link)->next_open;
	if (*link)
		*link = db->next_open;
	pthread_mutex_unlock(&handles_mutex);
}

int cairn_check_handle(const struct cairn *db)
{
	if (CAIRN_UNLIKELY(!db))
		return cairn_error(CAIRN_INVALID, "the handle is NULL");
	if (CAIRN_UNLIKELY(cairn_is_inherited(db)))
		return cairn_error(CAIRN_FORKED,
		    "%s was opened by the parent process; open it here after the parent closed it",
		    db->directory);
	return 0;
}
