/*
 * tests/scenario_s04_manifest_switch_test.c -- S04: a store with 3 runs and a live log is stopped
 * before and after each call made while a flush and then a merge is published and old files are
 * removed. What the crash leaves is the old set of runs or the new one, with all keys and no other.
 *
 * The orders {rename lost, unlink kept} and {unlink lost, rename kept} are among the losses tried.
 * The first must not come about for a file that the old manifest names: that is what the order of
 * the calls is for.
 */
#include "tests/test.h"

#include "format/manifest.h"
#include "tests/crash_workload.h"

#define KEYS      40u
#define RUNS      3u
#define RUNS_MOST 8u
#define SETS_MOST 8u
#define DISKS     4096u

/* The runs that a manifest names. */
struct set {
	size_t count;
	uint64_t numbers[RUNS_MOST];
};

struct fixture {
	struct crash_workload workload;
	struct crash_run run;
	uint64_t seeds;              /* tried with each loss */
	struct set found[SETS_MOST]; /* in what crashes left, each once */
	size_t found_count;
	uint64_t checked[DISKS]; /* fingerprints of disks that were opened */
	size_t checked_count;
	unsigned states, renames_lost, unlinks_lost;
};

/* ---------------------------------------------------------------- what a disk has */

static struct set read_set(struct sim_disk *disk, uint64_t *generation)
{
	struct cairn_manifest manifest;
	struct set set = {0};
	assert_int_equal(cairn_manifest_load(sim_disk_io(disk), CRASH_STORE, &manifest), 0);
	assert_true(manifest.run_count <= RUNS_MOST);
	set.count = manifest.run_count;
	for (size_t i = 0; i < set.count; i++)
		set.numbers[i] = manifest.runs[i].files[0].number;
	*generation = manifest.generation;
	cairn_manifest_release(&manifest);
	return set;
}

static bool same_set(const struct set *a, const struct set *b)
{
	return a->count == b->count &&
	       memcmp(a->numbers, b->numbers, a->count * sizeof *a->numbers) == 0;
}

static bool is_there(const struct sim_disk *disk, uint64_t run)
{
	char path[40];
	size_t size;
	snprintf(path, sizeof path, CRASH_STORE "/%06llu.kv", (unsigned long long)run);
	return sim_disk_file(disk, path, &size) != NULL;
}

static void note_set(struct fixture *f, const struct set *set)
{
	for (size_t i = 0; i < f->found_count; i++)
		if (same_set(&f->found[i], set))
			return;
	assert_true(f->found_count < SETS_MOST);
	f->found[f->found_count++] = *set;
}

/* ---------------------------------------------------------------- crashes */

/* Everything was synced before: there is one state that may be found, on each disk once. */
static void check_store(struct fixture *f, struct sim_disk *disk)
{
	struct crash_verdict verdict;
	uint64_t fingerprint = sim_disk_fingerprint(disk);
	size_t steps = f->run.history.count;
	for (size_t i = 0; i < f->checked_count; i++)
		if (f->checked[i] == fingerprint)
			return;
	assert_true(f->checked_count < DISKS);
	f->checked[f->checked_count++] = fingerprint;
	if (!crash_check(disk, CRASH_STORE, &f->run.history, steps, steps, &verdict))
		fail_msg("disk %zu: %s", f->checked_count, verdict.text);
}

static void check(struct fixture *f, enum sim_loss loss, uint64_t seed)
{
	struct sim_disk *after = sim_disk_crash(f->run.disk, loss, seed);
	uint64_t now, then;
	read_set(f->run.disk, &now);
	struct set set = read_set(after, &then);
	note_set(f, &set);
	for (size_t i = 0; i < set.count; i++)
		assert_true(is_there(after, set.numbers[i]));
	f->renames_lost += then < now;
	for (uint64_t run = 1; then == now && run < 100; run++)
		f->unlinks_lost += is_there(after, run) && !is_there(f->run.disk, run);
	check_store(f, after);
	sim_disk_free(after);
	f->states++;
}

static void check_all(struct fixture *f)
{
	for (unsigned loss = 0; loss < SIM_LOSSES; loss++)
		for (uint64_t seed = 0; seed < f->seeds; seed++)
			check(f, (enum sim_loss)loss, seed);
}

static void before_call(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	(void)disk;
	(void)call;
	(void)path;
	check_all(context);
}

/* Does the next operation, and stops it everywhere: the runs are those before it or behind it. */
static void stop_everywhere(struct fixture *f)
{
	uint64_t generation;
	struct set old = read_set(f->run.disk, &generation);
	f->found_count = f->checked_count = 0;
	f->states = f->renames_lost = f->unlinks_lost = 0;
	sim_disk_watch(f->run.disk, before_call, f);
	assert_true(crash_run_operation(&f->run));
	sim_disk_watch(f->run.disk, NULL, NULL);
	check_all(f);
	struct set new = read_set(f->run.disk, &generation);
	assert_false(same_set(&old, &new));
	for (size_t i = 0; i < f->found_count; i++)
		assert_true(same_set(&f->found[i], &old) || same_set(&f->found[i], &new));
	assert_int_equal(f->found_count, 2);
	assert_true(f->renames_lost > 0);
	printf("%u crashes, %zu different disks; a rename was lost in %u, an unlink %u times\n",
	    f->states, f->checked_count, f->renames_lost, f->unlinks_lost);
}

/* ---------------------------------------------------------------- the store */

static void add(struct crash_workload *workload, enum crash_action action)
{
	crash_workload_add(workload, &(struct crash_operation){.action = action});
}

/* Puts, overwrites and deletes, some of which hide what older runs have. */
static void add_writes(struct crash_workload *workload, unsigned round)
{
	for (unsigned i = 0; i < KEYS / 2; i++) {
		struct crash_operation operation = {.action = CRASH_WRITE, .count = 1};
		operation.parts[0] =
		    (struct crash_part){.key = (i * (round + 1) + 7 * round) % KEYS,
			.size = 200,
			.delete = i % 4 == round % 4};
		crash_workload_add(workload, &operation);
	}
}

static void stop_a_flush_and_a_merge(bool written)
{
	struct fixture f = {.seeds = test_full() ? 64 : 8};
	f.workload = (struct crash_workload){.name = "S04",
	    .seed = test_seed(4),
	    .sync_mode = CAIRN_SYNC_NONE,
	    .written = written,
	    .keys = KEYS};
	for (unsigned round = 0; round < RUNS; round++) {
		add_writes(&f.workload, round);
		add(&f.workload, CRASH_FLUSH);
	}
	add_writes(&f.workload, RUNS);
	add(&f.workload, CRASH_SYNC);
	size_t made = f.workload.count;
	add(&f.workload, CRASH_FLUSH);
	add(&f.workload, CRASH_MERGE);
	assert_true(crash_run_begin(&f.run, &f.workload, 0, NULL, NULL));
	while (f.run.done < made)
		assert_true(crash_run_operation(&f.run));
	uint64_t generation;
	assert_int_equal(read_set(f.run.disk, &generation).count, RUNS);
	stop_everywhere(&f);
	stop_everywhere(&f);
	assert_true(f.unlinks_lost > 0);
	assert_true(crash_run_end(&f.run));
	crash_workload_release(&f.workload);
}

static void a_flush_and_a_merge_switch_from_old_to_new(void **state)
{
	(void)state;
	stop_a_flush_and_a_merge(false);
}

static void they_do_so_beside_a_log_that_is_written(void **state)
{
	(void)state;
	stop_a_flush_and_a_merge(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flush_and_a_merge_switch_from_old_to_new),
	    cmocka_unit_test(they_do_so_beside_a_log_that_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
