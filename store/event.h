/*
 * store/event.h -- the two waits that the store is built from, on futexes.
 *
 * An event is a flag that one thread waits for: a set before the wait is not lost, several sets are
 * one. A write lock spins briefly, since it is mostly held for less than a system call takes, then
 * sleeps.
 */
#ifndef CAIRN_STORE_EVENT_H
#define CAIRN_STORE_EVENT_H

#include <stdatomic.h>
#include <stdint.h>

struct cairn_event {
	_Atomic uint32_t set;
};

/* Wakes the waiter, or the next wait. Any thread; no system call while the event is set already. */
void cairn_event_set(struct cairn_event *event);

/* Returns when the event was set (and clears it), or after about `timeout_ns`. One thread. */
void cairn_event_wait(struct cairn_event *event, uint64_t timeout_ns);

struct cairn_write_lock {
	_Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody sleeps */
};

void cairn_write_lock(struct cairn_write_lock *lock);
void cairn_write_unlock(struct cairn_write_lock *lock);

#endif
