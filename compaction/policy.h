/*
 * compaction/policy.h -- which runs to merge next: a pure function of their sizes.
 *
 * Runs are numbered from 0, the newest. A job is an interval of adjacent runs; its output takes
 * their place. README.md has the rules with the simulations behind them.
 */
#ifndef CAIRN_COMPACTION_POLICY_H
#define CAIRN_COMPACTION_POLICY_H

#include "format/base.h"

struct cairn_policy_run {
	uint64_t bytes;
	uint64_t records; /* tombstones included */
	uint64_t tombstones;
	uint64_t rent; /* bytes rewritten on this run's newer side since it was made */
	bool busy;     /* takes part in a running merge: in no other job */
};

enum cairn_policy_reason {
	CAIRN_POLICY_BUDGET,   /* more runs than the budget: merge down to the deepest that has paid
				  its rent */
	CAIRN_POLICY_OVERLOAD, /* far over the budget: the cheapest class first */
	CAIRN_POLICY_DEAD,     /* a run that is mostly tombstones */
	CAIRN_POLICY_REST,     /* idle: restore N, N/4, N/16, … */
};

struct cairn_policy_job {
	size_t newest; /* merge runs newest … oldest, both included; may be one run (the oldest, to
			  drop its dead) */
	size_t oldest;
	enum cairn_policy_reason reason;
};

/* Ordinary under load: 1 + floor(log4(total / memtable)) + 2 runs, at most RUNS_MAX below. */
size_t cairn_policy_budget(uint64_t total_bytes, uint64_t memtable_bytes);

/* Beyond this many runs writers wait. */
#define CAIRN_POLICY_RUNS_MAX 24u

/*
 * The next job, or false when there is nothing to do. `at_rest` says that no write came for a
 * while: then, and only then, the exact cascade is restored: every run at most a quarter of the
 * next older one.
 */
bool cairn_policy_next(const struct cairn_policy_run *runs, size_t count, uint64_t memtable_bytes,
    bool at_rest, struct cairn_policy_job *job);

/* Rent after a merge of runs newest … oldest that wrote `bytes`: what every older run owes is
 * increased. */
void cairn_policy_charge(
    struct cairn_policy_run *runs, size_t count, size_t oldest, uint64_t bytes);

#endif
