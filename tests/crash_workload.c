/*
 * tests/crash_workload.c -- see crash_workload.h.
 */
#include "tests/test.h"

#include <assert.h>
#include <errno.h>

#include "store/store.h"
#include "tests/crash_workload.h"

#define WORK_MOST 60u /* background steps that follow each other */
#define A_MOMENT  UINT64_C(500000)
#define A_REST    UINT64_C(2100000000)

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static unsigned below(uint64_t *random, unsigned n)
{
	return (unsigned)(test_random(random) % n);
}

/* ---------------------------------------------------------------- making workloads */

void crash_workload_add(struct crash_workload *workload, const struct crash_operation *operation)
{
	if (workload->count == workload->capacity) {
		workload->capacity = workload->capacity ? 2 * workload->capacity : 16;
		workload->operations = need(realloc(
		    workload->operations, workload->capacity * sizeof *workload->operations));
	}
	workload->operations[workload->count++] = *operation;
}

void crash_workload_release(struct crash_workload *workload)
{
	free(workload->operations);
	*workload = (struct crash_workload){0};
}

static const char letters[] = "pdbsfmcr";
static_assert(sizeof letters - 1 == CRASH_LETTERS, "a letter for each of the exhaustive ones");

/*
 * Two keys, so that puts and deletes meet soon, and a third one that only batches have. `before` is
 * how often the letter was there before. A batch is long enough to be torn between sectors.
 */
static bool letter_operation(char letter, unsigned before, struct crash_operation *operation)
{
	*operation = (struct crash_operation){.action = CRASH_WRITE, .count = 1};
	operation->parts[0] = (struct crash_part){.key = before % 2, .size = 60, .delete = false};
	switch (letter) {
	case 'p':
		return true;
	case 'd':
		operation->parts[0].delete = true;
		return true;
	case 'b':
		operation->count = 3;
		operation->parts[0].size = 700;
		operation->parts[1] =
		    (struct crash_part){.key = !operation->parts[0].key, .size = 8, .delete = true};
		operation->parts[2] = (struct crash_part){.key = 2, .size = 700, .delete = false};
		return true;
	case 's':
		operation->action = CRASH_SYNC;
		return true;
	case 'f':
		operation->action = CRASH_FLUSH;
		return true;
	case 'm':
		operation->action = CRASH_MERGE;
		return true;
	case 'c':
		operation->action = CRASH_CHECKPOINT;
		return true;
	case 'r':
		operation->action = CRASH_REOPEN;
		return true;
	default:
		return false;
	}
}

static bool add_letters(struct crash_workload *workload, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		struct crash_operation operation;
		unsigned before = 0;
		for (size_t j = 0; j < i; j++)
			before += text[j] == text[i];
		if (!letter_operation(text[i], before, &operation))
			return false;
		crash_workload_add(workload, &operation);
	}
	return size > 0;
}

/* Crashes during all but the last operation are those of a shorter workload. */
static bool make_short(
    struct crash_workload *workload, const char *text, size_t size, bool written, uint64_t seed)
{
	uint64_t random = seed + written;
	for (size_t i = 0; i < size; i++)
		random = test_random(&random) + (unsigned char)text[i];
	*workload = (struct crash_workload){.seed = test_random(&random),
	    .sync_mode = CAIRN_SYNC_NONE,
	    .written = written,
	    .keys = 3,
	    .quiet = size - 1,
	    .every = 1};
	snprintf(workload->name, sizeof workload->name, "%.*s/%s", (int)size, text,
	    written ? "written" : "mapped");
	if (add_letters(workload, text, size))
		return true;
	crash_workload_release(workload);
	return false;
}

void crash_workload_short(struct crash_workload *workload, unsigned index, uint64_t seed)
{
	char text[8];
	size_t size = 1;
	bool written = index % 2;
	unsigned count = CRASH_LETTERS;
	for (index /= 2; index >= count; count *= CRASH_LETTERS, size++)
		index -= count;
	for (size_t i = 0; i < size; i++, index /= CRASH_LETTERS)
		text[i] = letters[index % CRASH_LETTERS];
	make_short(workload, text, size, written, seed);
}

/* How long the values of a workload are. */
struct shape {
	unsigned least, most;
	unsigned rare; /* one of 32 may be as long as this */
};

static struct shape draw_shape(uint64_t *random)
{
	/* Where all records have one length, what an older life of a log left behind lies where
	 * the next record would: only its checksum can tell. */
	static const struct shape shapes[] = {{100, 100, 100}, {500, 500, 500}, {3000, 3000, 3000},
	    {8, 100, 4000}, {8, 2000, 9000}, {1000, 9000, 30000}};
	return shapes[below(random, sizeof shapes / sizeof *shapes)];
}

static uint32_t draw_size(uint64_t *random, const struct shape *shape)
{
	unsigned most = below(random, 32) ? shape->most : shape->rare;
	return shape->least + below(random, most - shape->least + 1);
}

static void draw_write(uint64_t *random, const struct crash_workload *workload,
    const struct shape *shape, struct crash_operation *operation)
{
	bool batch = below(random, 7) == 0;
	operation->sync = below(random, 10) == 0;
	operation->count = batch ? 2 + below(random, CRASH_PARTS_MOST - 1) : 1;
	for (size_t i = 0; i < operation->count; i++)
		operation->parts[i] = (struct crash_part){.key = below(random, workload->keys),
		    .size = draw_size(random, shape),
		    .delete = below(random, 5) == 0};
}

static enum crash_action draw_action(uint64_t *random, bool calm)
{
	/* In the order of the actions. Calm ones leave the log alone, so that its segments fill. */
	static const unsigned weights[2][CRASH_DIE + 1] = {
	    {53, 8, 4, 3, 2, 2, 6, 12, 3, 4, 3}, {77, 3, 1, 0, 0, 0, 1, 14, 1, 1, 2}};
	unsigned drawn = below(random, 100);
	for (unsigned i = 0; i < CRASH_DIE; i++) {
		if (drawn < weights[calm][i])
			return (enum crash_action)i;
		drawn -= weights[calm][i];
	}
	return CRASH_DIE;
}

/* A run of `keys` records, in batches. */
static void add_run(struct crash_workload *workload, unsigned keys)
{
	for (unsigned key = 0; key < keys;) {
		struct crash_operation batch = {.action = CRASH_WRITE};
		while (key < keys && batch.count < CRASH_PARTS_MOST)
			batch.parts[batch.count++] = (struct crash_part){.key = key++, .size = 40};
		crash_workload_add(workload, &batch);
	}
	crash_workload_add(workload, &(struct crash_operation){.action = CRASH_FLUSH});
}

/* Two runs of more than 16 blocks, so that there is a fractional index, and later ones of as many
 * keys. What leads there is quiet up to the last batch of the second run. */
static void begin_with_index(struct crash_workload *workload)
{
	workload->keys = 300;
	add_run(workload, 300);
	add_run(workload, 270);
	workload->quiet = workload->count - 2;
}

void crash_workload_random(struct crash_workload *workload, uint64_t number, uint64_t seed)
{
	uint64_t random = seed + number * UINT64_C(0x2545f4914f6cdd1d);
	unsigned count = 20 + below(&random, 180);
	bool calm = below(&random, 2);
	struct shape shape = draw_shape(&random);
	*workload = (struct crash_workload){.seed = test_random(&random),
	    .sync_mode = (int)below(&random, 3),
	    .written = below(&random, 3) == 0,
	    .keys = 2 + below(&random, below(&random, 4) ? 20 : 150),
	    .failing_sync = below(&random, 4) ? 0 : 1 + below(&random, 40),
	    .every = 1 + below(&random, 1 + count / 8),
	    .draws = 3};
	snprintf(workload->name, sizeof workload->name, "random/%llu", (unsigned long long)number);
	if (number % 4 == 3)
		begin_with_index(workload);
	for (unsigned i = 0; i < count; i++) {
		struct crash_operation operation = {.action = draw_action(&random, calm)};
		operation.amount = 1 + below(&random, 4);
		operation.loss = (enum sim_loss)below(&random, SIM_LOSSES);
		if (operation.action == CRASH_WRITE)
			draw_write(&random, workload, &shape, &operation);
		crash_workload_add(workload, &operation);
	}
}

bool crash_workload_named(struct crash_workload *workload, const char *name, uint64_t seed)
{
	const char *slash = strchr(name, '/');
	if (!slash)
		return false;
	if (strncmp(name, "random/", 7) == 0) {
		crash_workload_random(workload, strtoull(slash + 1, NULL, 10), seed);
		return true;
	}
	bool written = strcmp(slash + 1, "written") == 0;
	if (!written && strcmp(slash + 1, "mapped") != 0)
		return false;
	return make_short(workload, name, (size_t)(slash - name), written, seed);
}

/* ---------------------------------------------------------------- printing them */

static void print_write(const struct crash_operation *operation, FILE *out)
{
	fprintf(out, operation->count > 1 ? "batch (" : "");
	for (size_t i = 0; i < operation->count; i++) {
		const struct crash_part *part = &operation->parts[i];
		fprintf(out, i ? ", " : "");
		if (part->delete)
			fprintf(out, "delete %u", part->key);
		else
			fprintf(out, "put %u %u bytes", part->key, part->size);
	}
	fprintf(out, "%s%s", operation->count > 1 ? ")" : "", operation->sync ? " synced" : "");
}

const char *crash_loss_name(enum sim_loss loss)
{
	static const char *const names[SIM_LOSSES] = {"nothing (the process is killed)",
	    "all that is not synced", "tails", "sectors", "pages", "changes of names", "bytes"};
	return names[loss];
}

void crash_operation_print(const struct crash_operation *operation, FILE *out)
{
	static const char *const words[] = {"write", "sync", "flush", "merge all", "wait",
	    "checkpoint", "reopen", "background work", "rest", "view", "death"};
	if (operation->action == CRASH_WRITE)
		print_write(operation, out);
	else if (operation->action == CRASH_WORK)
		fprintf(out, "%u background steps", operation->amount);
	else if (operation->action == CRASH_DIE)
		fprintf(out, "death, lost: %s", crash_loss_name(operation->loss));
	else
		fprintf(out, "%s", words[operation->action]);
}

void crash_workload_print(const struct crash_workload *workload, FILE *out)
{
	static const char *const modes[] = {"interval", "full", "none"};
	unsigned step = 0;
	fprintf(out, "  sync mode %s, log %s, %u keys\n", modes[workload->sync_mode],
	    workload->written ? "written" : "mapped", workload->keys);
	if (workload->failing_sync)
		fprintf(out, "  sync %llu fails\n", (unsigned long long)workload->failing_sync);
	for (size_t i = 0; i < workload->count; i++) {
		const struct crash_operation *operation = &workload->operations[i];
		fprintf(out, "  %3zu. ", i + 1);
		crash_operation_print(operation, out);
		if (operation->action == CRASH_WRITE)
			fprintf(out, ", step %u", ++step);
		fprintf(out, "\n");
	}
}

/* ---------------------------------------------------------------- running them */

/* A call on the store failed: false with the reason, unless it may. */
static bool may_fail(struct crash_run *run, const char *what, int rc)
{
	return run->workload->failing_sync ||
	       crash_blame(&run->verdict, "%s: %d: %s", what, rc, cairn_message(NULL));
}

static bool close_view(struct crash_run *run)
{
	struct crash_held_view held = run->views[0];
	size_t step;
	memmove(run->views, run->views + 1, --run->view_count * sizeof *run->views);
	uint64_t *state = need(calloc(run->history.keys, sizeof *state));
	bool ok = crash_read_view(held.view, &run->history, state, &run->verdict);
	if (ok && !crash_history_match(&run->history, state, held.step, held.step, &step)) {
		crash_history_explain(&run->history, state, held.step, held.step, run->verdict.text,
		    sizeof run->verdict.text);
		ok = false;
	}
	free(state);
	cairn_view_close(held.view);
	return ok;
}

static bool close_views(struct crash_run *run)
{
	bool ok = true;
	while (run->view_count)
		ok = close_view(run) && ok;
	return ok;
}

static bool close_store(struct crash_run *run)
{
	bool ok = close_views(run);
	int rc = cairn_close(run->db);
	run->db = NULL;
	if (!rc)
		crash_history_sync(&run->history);
	return ok && (!rc || may_fail(run, "close", rc));
}

/* What it holds then is history, and durable. */
static bool open_store(struct crash_run *run)
{
	struct crash_history *history = &run->history;
	cairn_options options;
	size_t step;
	crash_options(&options);
	options.sync_mode = run->workload->sync_mode;
	options.sync_interval_ms = 1;
	int rc = cairn_open_with(sim_disk_io(run->disk), CRASH_STORE, &options, &run->db);
	if (rc && run->workload->failing_sync) /* one call fails, not two */
		rc = cairn_open_with(sim_disk_io(run->disk), CRASH_STORE, &options, &run->db);
	if (rc)
		return crash_blame(&run->verdict, "open: %d: %s", rc, cairn_message(NULL));
	uint64_t *state = need(calloc(history->keys, sizeof *state));
	bool ok = crash_read(run->db, history, state, &run->verdict);
	if (ok &&
	    !crash_history_match(history, state, history->acknowledged, history->count, &step)) {
		crash_history_explain(history, state, history->acknowledged, history->count,
		    run->verdict.text, sizeof run->verdict.text);
		ok = false;
	}
	if (ok)
		crash_history_settle(history, step);
	free(state);
	return ok;
}

static int write_batch(struct crash_run *run, const struct crash_step *step, unsigned flags)
{
	char key[CRASH_KEY_SIZE];
	int rc = 0;
	cairn_batch_clear(run->batch);
	for (size_t i = 0; i < step->count && !rc; i++) {
		cairn_slice slice = crash_key(key, step->parts[i].key);
		rc = step->parts[i].delete
			 ? cairn_batch_delete(run->batch, slice)
			 : cairn_batch_put(run->batch, slice, crash_value(run->value, step, i));
	}
	return rc ? rc : cairn_write(run->db, run->batch, flags);
}

static int write_step(struct crash_run *run, const struct crash_operation *operation)
{
	struct crash_history *history = &run->history;
	const struct crash_step *step =
	    crash_history_begin(history, operation->parts, operation->count);
	unsigned flags = operation->sync ? CAIRN_SYNC : 0;
	char key[CRASH_KEY_SIZE];
	int rc;
	if (step->count > 1)
		rc = write_batch(run, step, flags);
	else if (step->parts[0].delete)
		rc = cairn_delete(run->db, crash_key(key, step->parts[0].key), flags);
	else
		rc = cairn_put(run->db, crash_key(key, step->parts[0].key),
		    crash_value(run->value, step, 0), flags);
	if (rc)
		return rc;
	crash_history_acknowledge(history);
	if (flags || run->workload->sync_mode == CAIRN_SYNC_FULL)
		crash_history_sync(history);
	return 0;
}

/* Something that leaves all that was acknowledged durable. */
static int synced(struct crash_run *run, int rc)
{
	if (!rc)
		crash_history_sync(&run->history);
	return rc;
}

static int checkpoint(struct crash_run *run)
{
	if (run->copy_count == CRASH_COPIES_MOST)
		return 0;
	struct crash_copy *copy = &run->copies[run->copy_count++];
	*copy = (struct crash_copy){.step = run->history.count};
	snprintf(copy->path, sizeof copy->path, "/copy-%zu", run->copy_count);
	int rc = synced(run, cairn_checkpoint(run->db, copy->path));
	copy->finished = !rc;
	return rc;
}

static int work(struct crash_run *run, unsigned most)
{
	int rc = 1;
	for (unsigned i = 0; i < most && rc > 0; i++)
		rc = cairn_background_step(run->db);
	return rc < 0 ? rc : 0;
}

static int rest(struct crash_run *run)
{
	int rc = work(run, WORK_MOST);
	sim_disk_advance(run->disk, A_REST);
	return rc ? rc : work(run, WORK_MOST);
}

static int open_view(struct crash_run *run)
{
	struct crash_held_view *held = &run->views[run->view_count];
	*held = (struct crash_held_view){.step = run->history.count};
	int rc = cairn_view_open(run->db, &held->view);
	run->view_count += !rc;
	return rc;
}

static int execute(struct crash_run *run, const struct crash_operation *operation)
{
	switch (operation->action) {
	case CRASH_WRITE:
		return write_step(run, operation);
	case CRASH_SYNC:
		return synced(run, cairn_sync(run->db));
	case CRASH_FLUSH:
		return synced(run, cairn_flush(run->db));
	case CRASH_MERGE:
		return synced(run, cairn_compact(run->db));
	case CRASH_WAIT:
		return cairn_wait(run->db);
	case CRASH_CHECKPOINT:
		return checkpoint(run);
	case CRASH_WORK:
		sim_disk_advance(run->disk, A_MOMENT);
		return work(run, operation->amount);
	case CRASH_REST:
		return rest(run);
	case CRASH_VIEW:
		return open_view(run);
	case CRASH_REOPEN:
	case CRASH_DIE:
		break;
	}
	return 0;
}

static bool reopen(struct crash_run *run)
{
	return close_store(run) && open_store(run);
}

static bool die(struct crash_run *run, enum sim_loss loss)
{
	struct sim_disk *before = run->disk;
	run->disk = sim_disk_crash(before, loss, run->workload->seed + run->done);
	/* Whatever the handle still writes is not there any more. */
	sim_disk_watch(before, NULL, NULL);
	bool ok = close_views(run);
	(void)cairn_close(run->db);
	run->db = NULL;
	sim_disk_free(before);
	if (loss != SIM_LOSE_NOTHING)
		crash_history_lose(&run->history);
	sim_disk_watch(run->disk, run->watcher, run->watcher_context);
	return ok && open_store(run);
}

bool crash_run_begin(struct crash_run *run, const struct crash_workload *workload, unsigned bugs,
    sim_watcher *watcher, void *context)
{
	*run = (struct crash_run){.workload = workload,
	    .disk = sim_disk_new(workload->seed),
	    .watcher = watcher,
	    .watcher_context = context};
	if (workload->written)
		sim_disk_refuse_map_log(run->disk);
	sim_disk_plant(run->disk, bugs);
	sim_disk_arm(run->disk, &(struct sim_fault){.call = workload->failing_sync,
				    .kinds = 1u << SIM_SYNC | 1u << SIM_SYNC_DIRECTORY,
				    .code = -EIO,
				    .partly = true,
				    .drop_pages = true});
	sim_disk_watch(run->disk, watcher, context);
	run->batch = need(cairn_batch_new());
	run->value = need(malloc(CRASH_VALUE_MOST));
	crash_history_init(&run->history, workload->keys);
	return open_store(run);
}

bool crash_run_operation(struct crash_run *run)
{
	const struct crash_operation *operation = &run->workload->operations[run->done];
	bool ok = true;
	int rc = 0;
	if (operation->action == CRASH_REOPEN)
		ok = reopen(run);
	else if (operation->action == CRASH_DIE)
		ok = die(run, operation->loss);
	else if (operation->action == CRASH_VIEW && run->view_count == CRASH_VIEWS_MOST)
		ok = close_view(run);
	else
		rc = execute(run, operation);
	if (rc)
		ok = may_fail(run, "operation", rc) && reopen(run);
	run->done++;
	return ok;
}

void crash_run_ignore(struct crash_run *run)
{
	sim_disk_watch(run->disk, NULL, NULL);
	run->watcher = NULL;
}

bool crash_run_end(struct crash_run *run)
{
	bool ok = !run->db || close_store(run);
	cairn_batch_free(run->batch);
	free(run->value);
	crash_history_release(&run->history);
	sim_disk_free(run->disk);
	return ok;
}
