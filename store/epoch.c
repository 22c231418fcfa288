/*
 * store/epoch.c -- see epoch.h.
 */
#include "store/epoch.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "format/error.h"

/* A cache line each: a slot is written by every read of its thread. */
struct slot {
	alignas(64) _Atomic uint64_t epoch; /* 0 = not reading */
	_Atomic bool taken;
	struct slot *next; /* immutable once in the list */
};

static _Atomic uint64_t current_epoch = 1;
static _Atomic(struct slot *) slots; /* only grows */
static pthread_key_t slot_key;
static pthread_once_t slot_key_once = PTHREAD_ONCE_INIT;
static int slot_key_error;

static _Thread_local struct slot *my_slot;
static _Thread_local unsigned my_depth;

static void give_slot_back(void *slot)
{
	atomic_store(&((struct slot *)slot)->taken, false);
}

static void make_slot_key(void)
{
	slot_key_error = pthread_key_create(&slot_key, give_slot_back);
}

static struct slot *find_free_slot(void)
{
	for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
		bool taken = false;
		if (atomic_compare_exchange_strong(&slot->taken, &taken, true))
			return slot;
	}
	return NULL;
}

static struct slot *add_slot(void)
{
	struct slot *slot = aligned_alloc(alignof(struct slot), sizeof *slot);
	if (!slot)
		return NULL;
	atomic_init(&slot->epoch, 0);
	atomic_init(&slot->taken, true);
	slot->next = atomic_load(&slots);
	while (!atomic_compare_exchange_weak(&slots, &slot->next, slot))
		;
	return slot;
}

static int take_slot(void)
{
	pthread_once(&slot_key_once, make_slot_key);
	if (slot_key_error)
		return cairn_error(-slot_key_error, "no thread-specific key is left for reading");
	struct slot *slot = find_free_slot();
	if (!slot)
		slot = add_slot();
	if (!slot || pthread_setspecific(slot_key, slot)) {
		if (slot)
			give_slot_back(slot);
		return cairn_error(-ENOMEM, "out of memory for a reading thread");
	}
	my_slot = slot;
	return 0;
}

int cairn_epoch_enter(void)
{
	if (my_depth == 0) {
		if (!my_slot) {
			int rc = take_slot();
			if (rc)
				return rc;
		}
		/* An exchange, for the full barrier: the loads that follow must not pass it. */
		atomic_exchange(&my_slot->epoch, atomic_load(&current_epoch));
	}
	my_depth++;
	return 0;
}

void cairn_epoch_exit(void)
{
	if (--my_depth == 0)
		atomic_store_explicit(&my_slot->epoch, 0, memory_order_release);
}

/* The lowest epoch that a reader shows; UINT64_MAX when nobody reads. */
static uint64_t oldest_reader(void)
{
	uint64_t oldest = UINT64_MAX;
	for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
		uint64_t epoch = atomic_load(&slot->epoch);
		if (epoch && epoch < oldest)
			oldest = epoch;
	}
	return oldest;
}

static void free_items(struct cairn_epoch_item *item)
{
	while (item) {
		struct cairn_epoch_item *next = item->next;
		item->free(item);
		item = next;
	}
}

void cairn_epoch_retire(struct cairn_epoch_list *list, struct cairn_epoch_item *item)
{
	item->tag = atomic_fetch_add(&current_epoch, 1);
	pthread_mutex_lock(&list->mutex);
	item->next = list->head;
	list->head = item;
	pthread_mutex_unlock(&list->mutex);
	cairn_epoch_collect(list);
}

void cairn_epoch_collect(struct cairn_epoch_list *list)
{
	struct cairn_epoch_item *free_now = NULL;
	pthread_mutex_lock(&list->mutex);
	if (list->head) {
		uint64_t oldest = oldest_reader();
		struct cairn_epoch_item **link = &list->head;
		while (*link) {
			struct cairn_epoch_item *item = *link;
			if (item->tag < oldest) {
				*link = item->next;
				item->next = free_now;
				free_now = item;
			} else {
				link = &item->next;
			}
		}
	}
	pthread_mutex_unlock(&list->mutex);
	free_items(free_now);
}

void cairn_epoch_drain(struct cairn_epoch_list *list)
{
	pthread_mutex_lock(&list->mutex);
	struct cairn_epoch_item *all = list->head;
	list->head = NULL;
	pthread_mutex_unlock(&list->mutex);
	free_items(all);
}

void cairn_epoch_after_fork(void)
{
	for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
		if (slot != my_slot) {
			atomic_store(&slot->epoch, 0);
			atomic_store(&slot->taken, false);
		}
	}
}
