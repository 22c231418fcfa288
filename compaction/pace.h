/*
 * compaction/pace.h -- how long a writer is slowed: a pure function of the debt.
 */
#ifndef CAIRN_COMPACTION_PACE_H
#define CAIRN_COMPACTION_PACE_H

#include "format/base.h"

struct cairn_pace_debt {
	size_t runs;
	size_t budget;           /* cairn_policy_budget */
	size_t sealed_memtables; /* waiting to be flushed, … */
	size_t sealed_max;       /* … and how many may wait */
};

enum { CAIRN_PACE_STOP = -1 };

/*
 * Nanoseconds to delay a write of `bytes`, or CAIRN_PACE_STOP: wait until a flush or merge ended.
 * Zero while runs are within 16, then growing so that ingest falls linearly, to a tenth at
 * CAIRN_POLICY_RUNS_MAX.
 */
int64_t cairn_pace_delay(const struct cairn_pace_debt *debt, size_t bytes);

#endif
