/*
 * compaction/pace.c -- how long a writer is slowed.
 *
 * The delay is a multiple of what the write costs at full speed: nine times it leaves a tenth of
 * the ingest. Pure, all in integers.
 */
#include "compaction/pace.h"

#include "compaction/policy.h"

#define FREE_RUNS 16u /* writers are not slowed up to here, nor within the budget */

/*
 * Nanoseconds of a put at full speed, log and memtable. 130-145 were measured for 116 bytes; what
 * two copies of larger ones cost is an estimate.
 */
static int64_t full_speed_cost(size_t bytes)
{
	return 100 + (int64_t)(bytes / 3);
}

int64_t cairn_pace_delay(const struct cairn_pace_debt *debt, size_t bytes)
{
	if (debt->runs > CAIRN_POLICY_RUNS_MAX || debt->sealed_memtables >= debt->sealed_max)
		return CAIRN_PACE_STOP;
	size_t start = debt->budget > FREE_RUNS ? debt->budget : FREE_RUNS;
	if (debt->runs <= start)
		return 0;
	/* Ingest falls to the part 1 - 0.9 * over / span of full speed; the delay is what is
	 * missing of that. */
	int64_t over = (int64_t)(debt->runs - start);
	int64_t span = (int64_t)(CAIRN_POLICY_RUNS_MAX - start);
	return full_speed_cost(bytes) * 9 * over / (10 * span - 9 * over);
}
