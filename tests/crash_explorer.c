/*
 * tests/crash_explorer.c -- see crash_explorer.h.
 *
 * What may be found. The *floor* of a disk is how many steps survive when it loses what it has not
 * synced. A killed process leaves all acknowledged steps, on a disk with the floor that it had. A
 * power cut leaves at least the floor, on a disk where nothing is left to lose: whatever recovery
 * finds there first it must find ever after, so its floor is what was found.
 */
#include "tests/test.h"

#include <malloc.h>

#include "format/filename.h"
#include "format/manifest.h"
#include "tests/crash_explorer.h"

#define DEPTH_MOST     2u
/* While a small store is checked there are about so many calls that change the disk. */
#define CALLS_OF_CHECK 24u

/* What was found on a disk that was checked: so many steps, the last of them with this number. */
struct seen_disk {
	uint64_t fingerprint; /* 0: free */
	size_t step;
	uint64_t number;
};

/* Open addressing, by fingerprint. */
struct seen {
	struct seen_disk *list;
	size_t count, capacity;
};

/* A crash, and the disk that it left. */
struct image {
	struct sim_disk *disk;
	enum sim_loss loss;
	uint64_t loss_seed;
	size_t least, most; /* what may be found there */
	size_t floor;       /* of a disk that has more to lose */
	bool settled;       /* it has not */
	char when[320];
};

/* A crash that is to happen while a disk is checked. */
struct trap {
	uint64_t call; /* before this one; 0: not at all */
	uint64_t calls;
	enum sim_loss loss;
	uint64_t loss_seed;
	struct sim_disk *disk; /* that it left; NULL: it did not happen */
	char when[160];
};

struct explorer {
	const struct crash_workload *workload;
	const struct crash_settings *settings;
	struct crash_counts *counts;
	struct crash_run run;
	struct seen seen;
	size_t operation; /* that is under way */
	uint64_t calls;   /* that changed the disk, while it was looked at */
	uint64_t moments;
	uint64_t states;
	bool stopped;
	bool violated;
};

/* ---------------------------------------------------------------- what was seen */

static struct seen_disk *seen_place(const struct seen *seen, uint64_t fingerprint)
{
	size_t i = (size_t)fingerprint & (seen->capacity - 1);
	while (seen->list[i].fingerprint && seen->list[i].fingerprint != fingerprint)
		i = (i + 1) & (seen->capacity - 1);
	return &seen->list[i];
}

static void seen_grow(struct seen *seen)
{
	struct seen bigger = {.capacity = seen->capacity ? 2 * seen->capacity : 256};
	bigger.list = calloc(bigger.capacity, sizeof *bigger.list);
	if (!bigger.list)
		abort();
	for (size_t i = 0; i < seen->capacity; i++)
		if (seen->list[i].fingerprint)
			*seen_place(&bigger, seen->list[i].fingerprint) = seen->list[i];
	bigger.count = seen->count;
	free(seen->list);
	*seen = bigger;
}

static uint64_t last_number(const struct crash_history *history, size_t step)
{
	return step ? history->steps[step - 1].number : 0;
}

static void seen_add(struct explorer *explorer, uint64_t fingerprint, size_t step)
{
	struct seen *seen = &explorer->seen;
	if (2 * seen->count >= seen->capacity)
		seen_grow(seen);
	struct seen_disk *disk = seen_place(seen, fingerprint);
	seen->count += !disk->fingerprint;
	*disk = (struct seen_disk){fingerprint, step, last_number(&explorer->run.history, step)};
}

/* Whether the disk was checked, and what was found is right for this crash, too. */
static bool seen_has(
    const struct explorer *explorer, uint64_t fingerprint, const struct image *image)
{
	const struct seen *seen = &explorer->seen;
	const struct seen_disk *disk = seen->count ? seen_place(seen, fingerprint) : NULL;
	return disk && disk->fingerprint && disk->step >= image->least &&
	       disk->step <= image->most &&
	       disk->number == last_number(&explorer->run.history, disk->step);
}

/* Of what a disk shows, and of what it would show without that which is not synced. */
static uint64_t image_fingerprint(const struct image *image)
{
	uint64_t fingerprint = sim_disk_fingerprint(image->disk);
	if (!image->settled) {
		struct sim_disk *durable = sim_disk_crash(image->disk, SIM_LOSE_ALL, 0);
		fingerprint += sim_disk_fingerprint(durable) * UINT64_C(0x2545f4914f6cdd1d);
		sim_disk_free(durable);
	}
	return fingerprint | 1;
}

/* ---------------------------------------------------------------- violations */

static void report(struct explorer *explorer, const struct image *image, const char *text)
{
	FILE *out = explorer->settings->report;
	explorer->violated = explorer->stopped = true;
	explorer->counts->violations++;
	if (!out)
		return;
	fprintf(out, "VIOLATION in %s, state %llu\n", explorer->workload->name,
	    (unsigned long long)explorer->states);
	crash_workload_print(explorer->workload, out);
	if (explorer->operation < explorer->workload->count) {
		fprintf(out, "  %sin operation %zu: ",
		    explorer->run.db ? "" : "while the store is opened or closed, ",
		    explorer->operation + 1);
		crash_operation_print(&explorer->workload->operations[explorer->operation], out);
		fprintf(out, "\n");
	}
	if (image)
		fprintf(out,
		    "  crash %s; lost: %s, seed %llu\n  expected: the state after %zu to %zu "
		    "steps\n",
		    image->when, crash_loss_name(image->loss), (unsigned long long)image->loss_seed,
		    image->least, image->most);
	fprintf(out, "  found: %s\n", text);
	if (explorer->settings->replay)
		fprintf(
		    out, "  again: %s %s", explorer->settings->replay, explorer->workload->name);
	if (explorer->settings->replay && image)
		fprintf(out, " --state %llu", (unsigned long long)explorer->states);
	fprintf(out, "\n");
	fflush(out);
}

static void export(const struct explorer *explorer, struct sim_disk *disk)
{
	const char *directory = explorer->settings->export;
	int rc = sim_disk_export(disk, CRASH_STORE, directory);
	if (explorer->settings->report)
		fprintf(explorer->settings->report,
		    rc ? "  %s could not be written\n" : "  the store is in %s\n", directory);
}

/* ---------------------------------------------------------------- one disk */

static void spring(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct trap *trap = context;
	if (++trap->calls != trap->call)
		return;
	trap->disk = sim_disk_crash(disk, trap->loss, trap->loss_seed);
	snprintf(trap->when, sizeof trap->when, "before call %llu (%s %.60s) of the check of that",
	    (unsigned long long)trap->call, sim_call_name(call), path);
}

static struct trap draw_trap(uint64_t random, unsigned depth)
{
	struct trap trap = {0};
	if (depth == DEPTH_MOST || test_random(&random) % 3)
		return trap;
	trap.call = 1 + test_random(&random) % CALLS_OF_CHECK;
	trap.loss = (enum sim_loss)(test_random(&random) % SIM_LOSSES);
	trap.loss_seed = test_random(&random);
	return trap;
}

/* A checkpoint, for one of them, and always one that is being made. */
static bool check_copy(struct explorer *explorer, const struct image *image, uint64_t random,
    struct crash_verdict *verdict)
{
	const struct crash_run *run = &explorer->run;
	if (!run->copy_count)
		return true;
	const struct crash_copy *copy = &run->copies[run->copy_count - 1];
	if (copy->finished)
		copy = &run->copies[random % run->copy_count];
	return crash_check_copy(
	    image->disk, copy->path, &run->history, copy->step, copy->finished, verdict);
}

static bool check_disk(struct explorer *explorer, struct image *image, struct trap *trap,
    uint64_t random, struct crash_verdict *verdict)
{
	/* A crash that leaves all there is makes a copy. */
	struct sim_disk *original =
	    explorer->settings->export ? sim_disk_crash(image->disk, SIM_LOSE_NOTHING, 0) : NULL;
	if (trap->call)
		sim_disk_watch(image->disk, spring, trap);
	bool ok = crash_check(
	    image->disk, CRASH_STORE, &explorer->run.history, image->least, image->most, verdict);
	sim_disk_watch(image->disk, NULL, NULL);
	size_t step = verdict->step;
	if (ok)
		ok = check_copy(explorer, image, random, verdict);
	verdict->step = step;
	if (!ok)
		report(explorer, image, verdict->text);
	if (!ok && original)
		export(explorer, original);
	sim_disk_free(original);
	return ok;
}

/* What may be found behind a crash while `image` was checked, when `step` was found there. */
static struct image nested_image(const struct image *image, const struct trap *trap, size_t step)
{
	struct image nested = {.disk = trap->disk,
	    .loss = trap->loss,
	    .loss_seed = trap->loss_seed,
	    .least = step,
	    .most = step,
	    .floor = image->settled ? step : image->floor};
	nested.settled = trap->loss != SIM_LOSE_NOTHING;
	if (nested.settled)
		nested.least = nested.floor;
	snprintf(nested.when, sizeof nested.when, "%.130s (lost: %s, seed %llu), again %.110s",
	    image->when, crash_loss_name(image->loss), (unsigned long long)image->loss_seed,
	    trap->when);
	return nested;
}

/* Takes the disk. */
static void check_image(
    struct explorer *explorer, struct image *image, uint64_t random, unsigned depth)
{
	uint64_t fingerprint = image_fingerprint(image);
	if (seen_has(explorer, fingerprint, image)) {
		explorer->counts->skipped++;
		sim_disk_free(image->disk);
		return;
	}
	struct trap trap = draw_trap(random, depth);
	struct crash_verdict verdict;
	explorer->counts->checked++;
	bool ok = check_disk(explorer, image, &trap, random, &verdict);
	sim_disk_free(image->disk);
	if (ok) {
		seen_add(explorer, fingerprint, verdict.step);
		if (trap.disk) {
			struct image nested = nested_image(image, &trap, verdict.step);
			check_image(explorer, &nested, test_random(&random), depth + 1);
		}
	} else {
		sim_disk_free(trap.disk);
	}
}

/* ---------------------------------------------------------------- one moment */

static void crash(struct explorer *explorer, enum sim_loss loss, uint64_t random, const char *when)
{
	const struct crash_history *history = &explorer->run.history;
	unsigned losses = explorer->settings->losses;
	explorer->states++;
	if (explorer->stopped || (losses && !(losses & 1u << loss)) ||
	    (explorer->settings->only && explorer->settings->only != explorer->states))
		return;
	bool killed = loss == SIM_LOSE_NOTHING;
	struct image image = {.loss = loss,
	    .loss_seed = test_random(&random),
	    .least = killed ? history->acknowledged : history->durable,
	    .most = history->count,
	    .floor = history->durable,
	    .settled = !killed};
	image.disk = sim_disk_crash(explorer->run.disk, loss, image.loss_seed);
	snprintf(image.when, sizeof image.when, "%s", when);
	check_image(explorer, &image, test_random(&random), 0);
}

/* How often each loss is tried where all are. */
static const unsigned tries[SIM_LOSSES] = {1, 1, 3, 3, 2, 2, 1};

static void crash_in_all_ways(struct explorer *explorer, uint64_t random, const char *when)
{
	for (unsigned loss = 0; loss < SIM_LOSSES; loss++)
		for (unsigned i = 0; i < tries[loss]; i++)
			crash(explorer, (enum sim_loss)loss, test_random(&random), when);
}

static void crash_in_some_ways(struct explorer *explorer, uint64_t random, const char *when)
{
	crash(explorer, SIM_LOSE_NOTHING, test_random(&random), when);
	crash(explorer, SIM_LOSE_ALL, test_random(&random), when);
	for (unsigned i = 0; i < explorer->workload->draws; i++) {
		unsigned loss =
		    SIM_LOSE_TAIL + (unsigned)(test_random(&random) % (SIM_LOSSES - SIM_LOSE_TAIL));
		crash(explorer, (enum sim_loss)loss, test_random(&random), when);
	}
}

static void look(struct explorer *explorer, const char *when)
{
	const struct crash_workload *workload = explorer->workload;
	const struct crash_settings *settings = explorer->settings;
	if (settings->stop && settings->stop(settings->context))
		explorer->stopped = true;
	if (explorer->stopped || explorer->operation < workload->quiet)
		return;
	uint64_t random = workload->seed + ++explorer->moments * UINT64_C(0x9e6c63d0876a9a47);
	if (test_random(&random) % workload->every)
		return;
	if (workload->draws)
		crash_in_some_ways(explorer, random, when);
	else
		crash_in_all_ways(explorer, random, when);
}

/* ---------------------------------------------------------------- removals */

/* The number of a file of the store, and what it is. */
static enum cairn_file_kind store_file(const char *path, uint64_t *number)
{
	static const char directory[] = CRASH_STORE "/";
	size_t size = sizeof directory - 1;
	*number = 0;
	if (strncmp(path, directory, size) != 0)
		return CAIRN_FILE_FOREIGN;
	return cairn_filename_parse(path + size, number);
}

static bool names_file(
    const struct cairn_manifest *manifest, enum cairn_file_kind kind, uint64_t number)
{
	if (kind == CAIRN_FILE_LOG)
		return manifest->log_number == number;
	for (size_t i = 0; i < manifest->run_count; i++) {
		if (kind == CAIRN_FILE_INDEX && manifest->runs[i].index.number == number)
			return true;
		for (size_t j = 0; kind == CAIRN_FILE_RUN && j < manifest->runs[i].file_count; j++)
			if (manifest->runs[i].files[j].number == number)
				return true;
	}
	return false;
}

/* No name goes that the manifest needs which a power cut would leave. */
static void check_removal(struct explorer *explorer, enum sim_call call, const char *path)
{
	uint64_t number;
	enum cairn_file_kind kind = store_file(path, &number);
	struct cairn_manifest manifest;
	if (explorer->stopped || explorer->settings->only ||
	    (call != SIM_UNLINK && call != SIM_RENAME) ||
	    (kind != CAIRN_FILE_RUN && kind != CAIRN_FILE_INDEX && kind != CAIRN_FILE_LOG))
		return;
	struct sim_disk *disk = sim_disk_crash(explorer->run.disk, SIM_LOSE_ALL, 0);
	if (cairn_manifest_load(sim_disk_io(disk), CRASH_STORE, &manifest) == 0 &&
	    names_file(&manifest, kind, number)) {
		char text[200];
		snprintf(text, sizeof text, "%s of %.100s, which the durable manifest names",
		    sim_call_name(call), path);
		report(explorer, NULL, text);
	}
	cairn_manifest_release(&manifest);
	sim_disk_free(disk);
}

/* ---------------------------------------------------------------- a workload */

static void watch(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct explorer *explorer = context;
	uint64_t most = explorer->settings->calls_most;
	char when[120];
	(void)disk;
	if (explorer->operation >= explorer->workload->quiet)
		explorer->calls++;
	if (most && explorer->calls > most)
		explorer->stopped = true;
	check_removal(explorer, call, path);
	snprintf(when, sizeof when, "before call %llu (%s %.60s)",
	    (unsigned long long)explorer->calls, sim_call_name(call), path);
	look(explorer, when);
}

static bool run_all(struct explorer *explorer)
{
	const struct crash_workload *workload = explorer->workload;
	struct crash_run *run = &explorer->run;
	bool ok = crash_run_begin(run, workload, explorer->settings->bugs, watch, explorer);
	while (ok && run->done < workload->count) {
		explorer->operation = run->done;
		ok = crash_run_operation(run);
		/* What was stored into a mapped log changed the disk without a call. */
		if (ok)
			look(explorer, "after the operation");
	}
	crash_run_ignore(run);
	return ok;
}

bool crash_explore(const struct crash_workload *workload, const struct crash_settings *settings,
    struct crash_counts *counts)
{
	struct explorer explorer = {.workload = workload, .settings = settings, .counts = counts};
	/* A state takes and gives back some log segments: not by way of the kernel each time. */
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	bool ok = run_all(&explorer);
	ok = crash_run_end(&explorer.run) && ok;
	if (!ok && !explorer.violated)
		report(&explorer, NULL, explorer.run.verdict.text);
	free(explorer.seen.list);
	counts->calls += explorer.calls;
	return !explorer.violated;
}
