/*
 * wal/group_commit.c -- who syncs, and when: one thread for all that wait.
 */
#include "wal/group_commit.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY    UINT64_MAX
#define GATHER_NS 30000

/* The classic futex call takes a timespec of two longs, whatever the C library's time_t is. */
struct old_timespec {
	long seconds;
	long nanoseconds;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, const struct old_timespec *limit)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, limit, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void cairn_group_init(struct cairn_group *group)
{
	*group = (struct cairn_group){.covered = 0};
	atomic_init(&group->target, NOBODY);
}

void cairn_group_arrived(struct cairn_group *group)
{
	atomic_store_explicit(&group->target, NOBODY, memory_order_relaxed);
	atomic_fetch_add_explicit(&group->arrivals, 1, memory_order_release);
	futex_wake(&group->arrivals);
}

bool cairn_group_lead(struct cairn_group *group)
{
	uint32_t none = 0;
	return atomic_compare_exchange_strong_explicit(
	    &group->led, &none, 1, memory_order_acquire, memory_order_relaxed);
}

/* Seven eighths of the last company: a thread that does not come back shall not cost every round
 * the full wait. */
static uint64_t company(const struct cairn_group *group)
{
	return group->expected - group->expected / 8;
}

void cairn_group_gather(struct cairn_group *group)
{
	static const struct old_timespec limit = {0, GATHER_NS};
	uint64_t target = group->covered + company(group);
	uint32_t arrivals = atomic_load_explicit(&group->arrivals, memory_order_acquire);
	if (company(group) > 1 &&
	    atomic_load_explicit(&group->appended, memory_order_relaxed) < target) {
		atomic_store_explicit(&group->target, target, memory_order_seq_cst);
		if (atomic_load_explicit(&group->appended, memory_order_seq_cst) < target)
			futex_wait(&group->arrivals, arrivals, &limit);
		atomic_store_explicit(&group->target, NOBODY, memory_order_relaxed);
	}
	group->before = group->covered;
	group->covered = atomic_load_explicit(&group->appended, memory_order_relaxed);
}

void cairn_group_synced(struct cairn_group *group)
{
	uint64_t appended = atomic_load_explicit(&group->appended, memory_order_relaxed);
	group->expected = appended - group->before;
}

void cairn_group_end(struct cairn_group *group)
{
	atomic_store_explicit(&group->led, 0, memory_order_release);
	atomic_fetch_add_explicit(&group->rounds, 1, memory_order_release);
	futex_wake(&group->rounds);
}

void cairn_group_follow(struct cairn_group *group, uint32_t round)
{
	futex_wait(&group->rounds, round, NULL);
}
