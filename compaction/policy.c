/*
 * compaction/policy.c -- which runs to merge next. README.md says why the rules are these.
 *
 * Terms. A run's *class* is round(log4(bytes / memtable)): runs of one class are worth merging with
 * each other. To *rewrite* a run is to read it and to write what is left of it into another.
 *
 * Invariants.
 *	1. Pure: no state, no allocation; the same runs give the same job.
 *	2. Without writes the jobs come to an end. Every job leaves fewer runs than it found, but
 * one kind: the oldest run alone, which leaves it without tombstones, as every merge that takes the
 * oldest run does. So n runs need n - 1 merges and n jobs of the other kind at most.
 *	3. A job holds no busy run. Beside a running merge only OVERLOAD is offered, of runs newer
 *	   than it: it is short, and anything else would better wait for the merge's output.
 *	4. The budget is never above CAIRN_POLICY_RUNS_MAX: where writers wait, there is a job to
 *	   wait for.
 *
 * Sizes are those of files on disk: their sums do not overflow 64 bits.
 */
#include "compaction/policy.h"

#define BUDGET_SLACK   2u
#define OVERLOAD_SLACK 3u
#define CLASS_RUNS_MIN 4u

/* Under load a DEAD job must free this part of what it rewrites: freeing a byte rewrites four. */
#define DEAD_YIELD_MIN 0.25

static size_t floor_log2(uint64_t n)
{
	return 63u - (size_t)__builtin_clzll(n);
}

static uint64_t in_memtables(uint64_t bytes, uint64_t memtable_bytes)
{
	return bytes / (memtable_bytes ? memtable_bytes : 1);
}

size_t cairn_policy_budget(uint64_t total_bytes, uint64_t memtable_bytes)
{
	uint64_t ratio = in_memtables(total_bytes, memtable_bytes);
	size_t budget = 1 + (ratio ? floor_log2(ratio) / 2 : 0) + BUDGET_SLACK;
	return budget < CAIRN_POLICY_RUNS_MAX ? budget : CAIRN_POLICY_RUNS_MAX;
}

/* round(log4(x)) = floor((floor(log2(x)) + 1) / 2); all that is below two memtables is class 0. */
static size_t class_of(const struct cairn_policy_run *run, uint64_t memtable_bytes)
{
	uint64_t ratio = in_memtables(run->bytes, memtable_bytes);
	return ratio ? (floor_log2(ratio) + 1) / 2 : 0;
}

/* The cheapest stretch of adjacent runs of one class that is long enough. */
static bool pick_class(const struct cairn_policy_run *runs, size_t count, uint64_t memtable_bytes,
    struct cairn_policy_job *job)
{
	bool found = false;
	uint64_t cheapest = 0;
	for (size_t newest = 0, next; newest < count; newest = next) {
		size_t class = class_of(&runs[newest], memtable_bytes);
		uint64_t cost = 0;
		for (next = newest; next < count && class_of(&runs[next], memtable_bytes) == class;
		     next++)
			cost += runs[next].bytes;
		if (next - newest >= CLASS_RUNS_MIN && (!found || cost < cheapest)) {
			found = true;
			cheapest = cost;
			*job = (struct cairn_policy_job){newest, next - 1, CAIRN_POLICY_OVERLOAD};
		}
	}
	return found;
}

/* rent >= 1.5 * bytes, without the product. */
static bool has_paid(const struct cairn_policy_run *run)
{
	return run->rent >= run->bytes && run->rent - run->bytes >= run->bytes / 2;
}

static void pick_budget(
    const struct cairn_policy_run *runs, size_t count, struct cairn_policy_job *job)
{
	size_t oldest = count - 1;
	while (oldest > 1 && !has_paid(&runs[oldest]))
		oldest--;
	*job = (struct cairn_policy_job){0, oldest, CAIRN_POLICY_BUDGET};
}

static bool is_mostly_dead(const struct cairn_policy_run *run)
{
	return run->tombstones > run->records / 2;
}

/*
 * The part of the bytes of runs newest … oldest that a merge of them would free. Every tombstone is
 * believed to hide a record of the next runs of the interval. That is optimistic, and so prefers
 * what is near and cheap; when the output is still mostly tombstones, its next job goes deeper. In
 * the oldest run tombstones themselves go.
 */
static double estimate_yield(
    const struct cairn_policy_run *runs, size_t count, size_t newest, size_t oldest)
{
	double pending = 0, freed = 0, rewritten = 0, tombstone_bytes = 0;
	for (size_t i = newest; i <= oldest; i++) {
		double records = (double)runs[i].records, tombstones = (double)runs[i].tombstones;
		double record_bytes = records > 0 ? (double)runs[i].bytes / records : 0;
		double hidden = pending < records - tombstones ? pending : records - tombstones;
		freed += hidden * record_bytes;
		pending += tombstones - hidden;
		tombstone_bytes += tombstones * record_bytes;
		rewritten += (double)runs[i].bytes;
	}
	if (oldest == count - 1)
		freed += tombstone_bytes;
	return rewritten > 0 ? freed / rewritten : 0;
}

/*
 * Of the intervals that take a run that is mostly tombstones to the next older one, that with the
 * best yield. Reached with no more runs than the budget allows, so the loops are short.
 */
static bool pick_dead(
    const struct cairn_policy_run *runs, size_t count, bool at_rest, struct cairn_policy_job *job)
{
	bool found = false;
	double best = 0;
	for (size_t dead = 0; dead < count; dead++) {
		bool last_remains = at_rest && count == 1 && runs[dead].tombstones > 0;
		if (!is_mostly_dead(&runs[dead]) && !last_remains)
			continue;
		size_t next = dead + 1 < count ? dead + 1 : dead;
		for (size_t newest = dead + 1; newest-- > 0;) {
			for (size_t oldest = next; oldest < count; oldest++) {
				double yield = estimate_yield(runs, count, newest, oldest);
				if (!at_rest && yield < DEAD_YIELD_MIN)
					continue;
				if (found && yield <= best)
					continue;
				found = true;
				best = yield;
				*job = (struct cairn_policy_job){newest, oldest, CAIRN_POLICY_DEAD};
			}
		}
	}
	return found;
}

/*
 * The smallest newest group that restores the cascade. `kept` is the newest run of the older end
 * that already holds it: all that is newer, and from there on what the group would be too large
 * for, is merged.
 */
static bool pick_rest(
    const struct cairn_policy_run *runs, size_t count, struct cairn_policy_job *job)
{
	size_t kept = count - 1;
	while (kept > 0 && runs[kept - 1].bytes <= runs[kept].bytes / 4)
		kept--;
	if (kept == 0)
		return false;
	size_t oldest = 0;
	uint64_t group = runs[0].bytes;
	while (oldest < count - 1 && (oldest + 1 < kept || group > runs[oldest + 1].bytes / 4))
		group += runs[++oldest].bytes;
	*job = (struct cairn_policy_job){0, oldest, CAIRN_POLICY_REST};
	return true;
}

bool cairn_policy_next(const struct cairn_policy_run *runs, size_t count, uint64_t memtable_bytes,
    bool at_rest, struct cairn_policy_job *job)
{
	size_t newer = count; /* runs newer than any running merge */
	uint64_t total = 0;
	for (size_t i = count; i-- > 0;) {
		total += runs[i].bytes;
		if (runs[i].busy)
			newer = i;
	}
	bool merging = newer < count;
	size_t budget = cairn_policy_budget(total, memtable_bytes);
	size_t overload = merging ? budget : budget + OVERLOAD_SLACK;
	if (count > overload && pick_class(runs, newer, memtable_bytes, job))
		return true;
	if (count == 0 || merging)
		return false;
	if (count > budget) {
		pick_budget(runs, count, job);
		return true;
	}
	return pick_dead(runs, count, at_rest, job) || (at_rest && pick_rest(runs, count, job));
}

void cairn_policy_charge(struct cairn_policy_run *runs, size_t count, size_t oldest, uint64_t bytes)
{
	for (size_t i = oldest + 1; i < count; i++)
		runs[i].rent += bytes;
}
