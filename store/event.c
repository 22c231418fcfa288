/*
 * store/event.c -- see event.h.
 */
#include "store/event.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Long enough for a put by another thread to end, far shorter than a sleep and a wake. */
#define SPINS 100

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
	__asm__ volatile("yield");
#endif
}

void cairn_event_set(struct cairn_event *event)
{
	if (atomic_load_explicit(&event->set, memory_order_relaxed))
		return;
	if (atomic_exchange(&event->set, 1) == 0)
		futex_wake(&event->set);
}

void cairn_event_wait(struct cairn_event *event, uint64_t timeout_ns)
{
	if (atomic_exchange(&event->set, 0))
		return;
	struct timespec timeout = {
	    (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
	futex_wait(&event->set, 0, &timeout);
	atomic_exchange(&event->set, 0);
}

void cairn_write_lock(struct cairn_write_lock *lock)
{
	uint32_t state = 0;
	for (int i = 0; i < SPINS; i++) {
		state = 0;
		if (atomic_compare_exchange_strong_explicit(
			&lock->state, &state, 1, memory_order_acquire, memory_order_relaxed))
			return;
		relax();
	}
	/* From here on "held and somebody sleeps": the holder's unlock will wake one sleeper, us or
	 * another. */
	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
		futex_wait(&lock->state, 2, NULL);
}

void cairn_write_unlock(struct cairn_write_lock *lock)
{
	if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
		futex_wake(&lock->state);
}
