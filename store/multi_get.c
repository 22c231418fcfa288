/*
 * store/multi_get.c -- many gets as of one moment, in groups whose cache misses overlap.
 *
 * A get waits for memory three times: for a line of a point index, for the block that it names, for
 * the value. A group takes each step for all of its keys before the next, and only starts to fetch
 * what the next will need.
 *
 * Data that is not in memory is waited for in the same places, but by faults, which nothing starts
 * ahead. So a thread that met such faults asks the kernel for the pages first, for a while.
 */
#include <sys/resource.h>

#include "format/checksum.h"
#include "store/store.h"
#include "store/view.h"

#define GROUP       CAIRN_CASCADE_KEYS_MAX
#define COLD_GROUPS 64u /* for how long pages are asked for after the last group that met faults */
#define SLOW_GROUP  50000 /* nanoseconds; one in memory takes less than 10000 */

struct lookup {
	cairn_slice key;
	uint64_t hash;
	size_t run; /* the one that may have the key */
	struct cairn_run_probe probe;
	const struct cairn_run_aim
	    *aims; /* in each run, for those without a point index; or NULL */
	struct cairn_record record;
	int rc;
};

static void start(const struct cairn_view *view, const cairn_slice *keys, size_t n, bool cold,
    struct lookup *group)
{
	const struct cairn_version *version = view->set->version;
	for (size_t i = 0; i < n; i++) {
		group[i].key = keys[i];
		group[i].hash = cairn_key_hash(keys[i], view->db->identity.hash_seed);
		for (size_t k = 0; k < version->count; k++)
			cairn_run_prefetch(version->runs[k]->reader, group[i].hash, cold);
	}
}

/* Goes on to the next run that may have the key; CAIRN_NOT_FOUND behind the last. */
static void find_run(const struct cairn_version *version, bool cold, struct lookup *lookup)
{
	lookup->rc = CAIRN_NOT_FOUND;
	for (; lookup->rc == CAIRN_NOT_FOUND && lookup->run < version->count; lookup->run++) {
		lookup->rc = cairn_run_probe(
		    version->runs[lookup->run]->reader, lookup->hash, cold, &lookup->probe);
		if (lookup->rc == 0)
			return;
	}
}

static int settle_in(struct cairn_run_reader *run, struct lookup *lookup)
{
	if (lookup->probe.by_order && lookup->aims)
		return cairn_run_get_from(
		    run, lookup->key, lookup->hash, lookup->aims[lookup->run], &lookup->record);
	return cairn_run_settle(run, lookup->key, lookup->hash, &lookup->probe, &lookup->record);
}

static void settle(const struct cairn_version *version, struct lookup *lookup)
{
	while (lookup->rc == 0) {
		lookup->rc = settle_in(version->runs[lookup->run]->reader, lookup);
		if (lookup->rc != CAIRN_NOT_FOUND)
			return;
		lookup->run++;
		find_run(version, false, lookup);
	}
}

/* Places all keys of the group in all runs, if there is a run that has to be searched by order. On
 * a failure they are searched one by one, and one of those fails. */
static void place_group(const struct cairn_version *version, const cairn_slice *keys, size_t n,
    struct cairn_run_aim *aims, struct lookup *group)
{
	bool wanted = false;
	for (size_t k = 0; k < version->count; k++)
		wanted = wanted || !cairn_run_has_point_index(version->runs[k]->reader);
	wanted = wanted && version->cascade &&
		 cairn_cascade_find_many(version->cascade, keys, n, aims) == 0;
	for (size_t i = 0; i < n; i++)
		group[i].aims = wanted ? aims + i * version->count : NULL;
}

static void find_group(const struct cairn_view *view, const cairn_slice *keys, size_t n, bool cold,
    struct lookup *group)
{
	const struct cairn_version *version = view->set->version;
	struct cairn_run_aim aims[GROUP * CAIRN_CASCADE_RUNS_MAX];
	start(view, keys, n, cold, group);
	place_group(version, keys, n, aims, group);
	for (size_t i = 0; i < n; i++)
		group[i].rc = cairn_set_find_in_tables(
		    view->set, keys[i], group[i].hash, view->sequence, &group[i].record);
	bool open[GROUP];
	for (size_t i = 0; i < n; i++) {
		open[i] = group[i].rc == CAIRN_NOT_FOUND;
		group[i].run = 0;
		if (open[i])
			find_run(version, cold, &group[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (open[i])
			settle(version, &group[i]);
}

/* Groups of this thread, of any store, that are still to ask for their pages. */
static _Thread_local unsigned cold_groups;

/* A group that began at `start` is done: did it wait for pages to be read? To ask the kernel takes
 * about as long as two gets, so only slow groups do. */
static void judge(struct cairn_io *io, uint64_t start)
{
	static _Thread_local long known;
	struct rusage usage;
	if (cold_groups > 0)
		cold_groups--;
	if (CAIRN_LIKELY(io->ops->now(io) - start < SLOW_GROUP) || getrusage(RUSAGE_THREAD, &usage))
		return;
	if (usage.ru_majflt != known)
		cold_groups = COLD_GROUPS;
	known = usage.ru_majflt;
}

/* Hands the answers out in order; what each returned. *rc: the first failure. */
static int answer(cairn_view *view, const struct lookup *group, size_t first, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context, int *rc)
{
	int stopped = 0;
	for (size_t i = 0; i < n && !stopped; i++) {
		const struct cairn_record *record = &group[i].record;
		cairn_slice value = {NULL, 0};
		int found = group[i].rc;
		if (found < 0) /* once more, alone: the message is of this key then */
			found = cairn_view_get(view, group[i].key, &value);
		else if (found == 0 && record->kind == CAIRN_KIND_DELETE)
			found = CAIRN_NOT_FOUND;
		else if (found == 0)
			value = record->value.size ? record->value : (cairn_slice){"", 0};
		if (found < 0 && *rc == 0)
			*rc = found;
		stopped = each(context, first + i, found, value);
	}
	return stopped;
}

/* A key that no store can hold is left to the single get, which says so. */
static bool is_possible(cairn_slice key)
{
	return key.size <= CAIRN_KEY_MAX && (key.data || key.size == 0);
}

static int get_all(cairn_view *view, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	struct cairn_io *io = view->db->io;
	struct lookup group[GROUP];
	int rc = 0, stopped = 0;
	for (size_t done = 0, taken; done < n && !stopped; done += taken) {
		for (taken = 0; taken < GROUP && done + taken < n; taken++)
			if (!is_possible(keys[done + taken]))
				break;
		uint64_t start = io->ops->now(io);
		if (taken) {
			find_group(view, keys + done, taken, cold_groups > 0, group);
			judge(io, start);
		} else {
			taken = 1;
			group[0] = (struct lookup){.key = keys[done], .rc = CAIRN_INVALID};
		}
		stopped = answer(view, group, done, taken, each, context, &rc);
	}
	return stopped ? stopped : rc;
}

int cairn_multi_get(cairn *db, const cairn_slice *keys, size_t n,
    int (*each)(void *context, size_t i, int result, cairn_slice value), void *context)
{
	cairn_view *view = NULL;
	int rc = cairn_check_handle(db);
	if (!rc && ((n && !keys) || !each))
		rc = cairn_error(CAIRN_INVALID, "no keys or no function for the answers");
	if (rc)
		return cairn_report(db, rc);
	rc = cairn_view_open(db, &view);
	if (rc)
		return rc;
	rc = get_all(view, keys, n, each, context);
	cairn_view_close(view);
	return rc;
}
