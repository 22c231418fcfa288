/*
 * store/epoch.h -- lets readers use a published object without a lock or a reference, and its owner
 * free it later.
 *
 * A reader brackets its use with enter and exit. Who takes an object out of sight hands it to
 * retire; it is freed once every reader that might still see it has left.
 *
 * Why it is right. enter stores the epoch it saw into the thread's slot, then loads the object;
 * retire comes after the object was unlinked and tags it with the epoch, advancing it. All are
 * sequentially consistent, so a reader that got the old object shows an epoch not above the tag
 * until it exits.
 *
 * Threads get a slot at their first enter and give it back when they end. enter nests.
 */
#ifndef CAIRN_STORE_EPOCH_H
#define CAIRN_STORE_EPOCH_H

#include <pthread.h>
#include <stdint.h>

struct cairn_epoch_item {
	struct cairn_epoch_item *next;
	uint64_t tag;
	void (*free)(struct cairn_epoch_item *item);
};

/* The retired objects of one store. */
struct cairn_epoch_list {
	pthread_mutex_t mutex;
	struct cairn_epoch_item *head; /* newest first */
};

/* 0, or -ENOMEM when a new thread gets no slot: it must not read then. */
int cairn_epoch_enter(void);
void cairn_epoch_exit(void);

/* `item` is out of sight; item->free is called when nobody can see it any more. Any thread. */
void cairn_epoch_retire(struct cairn_epoch_list *list, struct cairn_epoch_item *item);

/* Frees what can be freed now. Any thread. */
void cairn_epoch_collect(struct cairn_epoch_list *list);

/* Frees all: the caller knows that no reader of this store is left. */
void cairn_epoch_drain(struct cairn_epoch_list *list);

/* In a forked child: the other threads' slots are nobody's now. */
void cairn_epoch_after_fork(void);

#endif
