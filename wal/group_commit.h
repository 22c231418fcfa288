/*
 * wal/group_commit.h -- who syncs, and when: one thread for all that wait.
 *
 * Terms. A *round* is one sync by one *leader*; the others *follow*. Before it syncs, a leader
 * *gathers*: it waits, for at most 30 µs, until as many records were appended as the last round had
 * company, because their threads come back at about the same time. One thread alone never waits.
 *
 * Invariants.
 * (1) There is one leader at a time; from lead to end nothing but the leader touches its fields.
 * (2) A thread that follows a round which ends, or ended since it asked for the number, does not
 *     sleep.
 * (3) A wake-up that the leader misses costs it the 30 µs, nothing else: that is why appending
 *     needs no fence.
 *
 * Threads. Appended is called by one thread at a time, all others by any.
 */
#ifndef CAIRN_WAL_GROUP_COMMIT_H
#define CAIRN_WAL_GROUP_COMMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CAIRN_CACHE_LINE 64

struct cairn_group {
	/* What an append touches … */
	_Alignas(CAIRN_CACHE_LINE) _Atomic uint64_t appended; /* records, ever */
	_Atomic uint64_t target; /* the leader sleeps until so many; UINT64_MAX: it does not */
	/* … apart from what waiting threads beat upon. */
	_Alignas(CAIRN_CACHE_LINE) _Atomic uint32_t led; /* 1: there is a leader */
	_Atomic uint32_t rounds;                         /* rounds ended: followers sleep here */
	_Atomic uint32_t arrivals; /* times that the target was reached: the leader sleeps here */
	/* The leader's. */
	uint64_t covered;  /* records appended when the last sync began */
	uint64_t before;   /* `covered` of the round before */
	uint64_t expected; /* records in the last round and those that arrived during it */
};

void cairn_group_init(struct cairn_group *group);

void cairn_group_arrived(struct cairn_group *group);

/* A record was appended. */
static inline void cairn_group_appended(struct cairn_group *group)
{
	uint64_t appended = atomic_load_explicit(&group->appended, memory_order_relaxed) + 1;
	atomic_store_explicit(&group->appended, appended, memory_order_relaxed);
	if (__builtin_expect(
		appended >= atomic_load_explicit(&group->target, memory_order_relaxed), 0))
		cairn_group_arrived(group);
}

/* The number of the round to follow. Asked for before looking at what is durable. */
static inline uint32_t cairn_group_round(struct cairn_group *group)
{
	return atomic_load_explicit(&group->rounds, memory_order_acquire);
}

/* Makes the caller the leader, unless there is one. */
bool cairn_group_lead(struct cairn_group *group);
/* The leader: waits for company. What was appended when it returns belongs to the round. */
void cairn_group_gather(struct cairn_group *group);
/* The leader: its sync is over, well or not. */
void cairn_group_synced(struct cairn_group *group);
/* Ends the leadership and wakes all that follow. */
void cairn_group_end(struct cairn_group *group);

/* Sleeps until the round ends. */
void cairn_group_follow(struct cairn_group *group, uint32_t round);

#endif
