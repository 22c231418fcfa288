/*
 * tests/store_failure_test.c -- whatever fails inside a call of cairn.h, the store is as it says.
 *
 * An *operation* is one call, prepared on a simulated disk. It is done in *rounds*: in the first
 * its first allocation or call of the disk fails, in the next its second, until a round passes
 * without a failure; and all of that for each *style* of failing. After each round:
 *
 * 1. The result is success or a failure that the manual knows; the message names the file.
 * 2. Views and iterators that were open answer as before.
 * 3. A crash now leaves, of the acknowledged writes, all when no byte is lost, and a prefix with
 *    everything durable in it when all is lost that may be; a failed write is there whole or not at
 *    all, and not at all when its failure said so.
 * 4. The handle works on, and what its background work could not do it does later; or it is failed,
 *    says the first cause, lets nothing be synced any more, and still reads.
 * 5. Nothing is left open or allocated; opening again needs no flag, finds the same, and removes
 *    what is left over.
 *
 * CAIRN_TEST_CASE=PATTERN takes the cases whose names match; CAIRN_TEST_FULL all styles.
 */
#include "tests/test.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <xxhash.h>

#include "format/filename.h"
#include "format/manifest.h"
#include "store/io_posix.h"
#include "store/io_uring.h"
#include "store/options.h"
#include "store/store.h"
#include "tests/alloc_fault.h"
#include "tests/model.h"
#include "tests/sim_io.h"

#define STORE      "/store"
#define COPY       "/copy"
#define SECOND     UINT64_C(1000000000)
#define MEMTABLE   65536u
#define VALUE_MAX  131072u
#define KEY_MAX    128u
#define WRITES_MAX 256u
#define PROBE      900u  /* keys that only checks write */
#define DEEP       2000u /* keys that are prefixes of each other from here on */
#define FILL_SIZE  1000u /* of values that fill tables and segments */
#define STEPS_MAX  1000u
#define CHANCES    8u         /* how often, at full size, what is left to chance gets one */
#define DELETED    UINT32_MAX /* as the size of a write's values */

/* Of the calls, at the small size, one in STEP fails. Sanitizers are slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEP 7
#else
#define STEP 1
#endif

/* ---------------------------------------------------------------- what is written */

/* Values of `size` bytes for `count` keys from `key` on, or none; with several keys the last one is
 * deleted. `version` makes values differ. */
struct write {
	unsigned key, count, size, version;
};

/* What is known of a store: the durable state, and what was acknowledged since. */
struct history {
	struct model durable;
	struct write writes[WRITES_MAX];
	size_t count;
	bool unsure; /* the last one failed, with an unknown outcome */
};

static cairn_slice key_of(unsigned key, char text[KEY_MAX])
{
	if (key < DEEP)
		return (cairn_slice){text, (size_t)snprintf(text, KEY_MAX, "key%05u", key)};
	size_t size = key - DEEP + 1;
	if (size > KEY_MAX)
		abort();
	memset(text, 'x', size);
	return (cairn_slice){text, size};
}

static cairn_slice value_of(const struct write *write, unsigned key)
{
	static char text[VALUE_MAX];
	char head[32];
	int size = snprintf(head, sizeof head, "%u of %u;", write->version, key);
	for (size_t i = 0; i < write->size; i++)
		text[i] = head[i % (size_t)size];
	return (cairn_slice){text, write->size};
}

static bool deletes(const struct write *write, unsigned i)
{
	return write->size == DELETED || (i > 0 && i == write->count - 1);
}

static void apply(struct model *model, const struct write *write)
{
	char text[KEY_MAX];
	for (unsigned i = 0; i < write->count; i++) {
		cairn_slice key = key_of(write->key + i, text);
		if (deletes(write, i))
			model_delete(model, key);
		else
			model_put(model, key, value_of(write, write->key + i));
	}
}

/* How many writes of the history are certain to have been acknowledged. */
static size_t acknowledged(const struct history *history)
{
	return history->count - history->unsure;
}

static void history_copy(struct history *copy, const struct history *history)
{
	*copy = *history;
	model_copy(&copy->durable, &history->durable);
}

/* ---------------------------------------------------------------- rounds */

struct style {
	const char *name;
	bool memory;
	struct sim_fault fault;
	bool full; /* at full size only */
};

struct operation;

struct round {
	const struct operation *operation;
	const struct style *style;
	uint64_t number; /* of the call that fails */
	uint64_t seed;   /* of what is left to chance */
	struct sim_disk *disk;
	cairn *db;
	struct history history;
	unsigned version;
	/* Opened before the operation, and what they show. */
	cairn_view *view;
	cairn_iter *iter;
	struct model seen;
	/* The operation's own. */
	cairn_view *own_view;
	cairn_iter *own_iter;
	cairn_batch *batch;
	/* How it ended. */
	int rc;
	char message[CAIRN_ERROR_TEXT_MAX];
	uint64_t faults;
	uint64_t findings; /* that were told */
	uint64_t source;   /* hash of what a repair must not change */
	bool partial;      /* a repair left something out */
	bool armed;        /* the operation is under way: the test allocates nothing */
	bool durable;      /* it made everything durable */
	bool failed;       /* the handle is */
};

/* From which disk a round starts. */
enum start {
	NEW,       /* nothing there */
	CLOSED,    /* runs, no log */
	KILLED,    /* runs, and records in the log */
	BIG_LOG,   /* runs, and a log that recovery makes a run of */
	MANY_RUNS, /* so many that recovery merges */
	INDEXED,   /* three runs, and a fractional index of the middle one */
	UNINDEXED, /* the same, and the index is lost */
	HEADLESS,  /* a log and no manifest */
	STARTS
};

enum flags {
	UNOPENED = 1,    /* the operation opens the store */
	READ_ONLY = 2,   /* with this option */
	WRITTEN_LOG = 4, /* the log is not mapped */
	NO_VIEW = 8,     /* no view is open meanwhile */
	FINDS = 16,      /* CAIRN_CORRUPT tells of failures as well */
};

struct operation {
	const char *name;
	enum start start;
	unsigned flags;
	size_t memtable_bytes; /* 0: MEMTABLE */
	void (*prepare)(struct round *r);
	/* Then values are put, but not the one that would change this. */
	uint64_t (*until)(struct round *r);
	int (*run)(struct round *r);
	void (*finish)(struct round *r); /* checks and gives back what is the operation's own */
};

static struct {
	struct sim_disk *disk;
	struct history history;
} starts[STARTS];

static uint64_t total_rounds, total_faults;
static uint64_t random_state;

static const char *last_message(const struct round *r)
{
	return r->db && *cairn_message(r->db) ? cairn_message(r->db) : cairn_error_text();
}

__attribute__((noreturn)) static void refute(
    const struct round *r, const char *what, const char *file, int line)
{
	alloc_fault_disarm();
	fprintf(stderr, "%s, %s %llu: not so: %s\n    result %d: %s\n    last failure: %s\n",
	    r->operation ? r->operation->name : "preparation", r->style ? r->style->name : "",
	    (unsigned long long)r->number, what, r->rc, r->message, last_message(r));
	_fail(file, line);
	abort();
}

#define claim(r, truth) ((truth) ? (void)0 : refute(r, #truth, __FILE__, __LINE__))

static void options_of(const struct operation *operation, cairn_options *options)
{
	cairn_options_init(options);
	options->no_background = 1;
	options->memtable_bytes =
	    operation && operation->memtable_bytes ? operation->memtable_bytes : MEMTABLE;
	options->read_only = operation && (operation->flags & READ_ONLY);
}

static int open_store(struct round *r)
{
	cairn_options options;
	options_of(r->operation, &options);
	return cairn_open_with(sim_disk_io(r->disk), STORE, &options, &r->db);
}

/* ---------------------------------------------------------------- writes of a round */

/* All that was acknowledged is. */
static void note_durable(struct round *r)
{
	struct history *history = &r->history;
	r->durable = r->armed;
	if (r->armed)
		return;
	for (size_t i = 0; i < history->count; i++)
		apply(&history->durable, &history->writes[i]);
	history->count = 0;
}

/* Whether a write that failed may have happened: it was its sync, or nobody knows. */
static bool leaves_doubt(const struct round *r, int rc)
{
	return rc == CAIRN_FAILED || (rc == -ENOSPC && strstr(last_message(r), ".wal: sync"));
}

static void note_write(struct round *r, const struct write *write, int rc, unsigned flags)
{
	struct history *history = &r->history;
	/* A handle that is failed refuses: no doubt about a second failure. */
	if (rc && (!leaves_doubt(r, rc) || history->unsure))
		return;
	claim(r, !history->unsure && history->count < WRITES_MAX);
	history->writes[history->count++] = *write;
	history->unsure = rc != 0;
	if (!rc && (flags & CAIRN_SYNC))
		note_durable(r);
}

/* A failed handle writes nothing: its refusal leaves no doubt. */
static int put_sized(struct round *r, unsigned key, unsigned size, unsigned flags)
{
	struct write write = {key, 1, size, ++r->version};
	char text[KEY_MAX];
	cairn_slice slice = key_of(key, text);
	int rc = size == DELETED ? cairn_delete(r->db, slice, flags)
				 : cairn_put(r->db, slice, value_of(&write, key), flags);
	if (!r->failed)
		note_write(r, &write, rc, flags);
	return rc;
}

static int put(struct round *r, unsigned key, unsigned flags)
{
	return put_sized(r, key, 30 + key % 60, flags);
}

static int erase(struct round *r, unsigned key, unsigned flags)
{
	return put_sized(r, key, DELETED, flags);
}

/* A result of 0 of one of these means that all before is durable. */
static int durable_if_0(struct round *r, int rc)
{
	if (!rc)
		note_durable(r);
	return rc;
}

static int sync_store(struct round *r)
{
	return durable_if_0(r, cairn_sync(r->db));
}

static int flush_store(struct round *r)
{
	return durable_if_0(r, cairn_flush(r->db));
}

/* Is handed back closed, whatever comes of it. */
static int close_store(struct round *r)
{
	cairn *db = r->db;
	bool writes = !r->operation || !(r->operation->flags & READ_ONLY);
	r->db = NULL;
	int rc = cairn_close(db);
	return writes ? durable_if_0(r, rc) : rc;
}

/* Whatever is due now; 0 when there is no more of it, or a failure. */
static int work(struct round *r)
{
	for (unsigned i = 0; i < STEPS_MAX; i++) {
		int rc = cairn_background_step(r->db);
		if (rc <= 0)
			return rc;
	}
	refute(r, "background work ends", __FILE__, __LINE__);
}

static int work_at_rest(struct round *r)
{
	int rc = work(r);
	sim_disk_advance(r->disk, CAIRN_REST_NS);
	return rc ? rc : work(r);
}

/* ---------------------------------------------------------------- what can be read */

static bool shows(cairn_slice slice, cairn_slice expected)
{
	return slice.data && model_equal(slice, expected);
}

/* Whether the iterator, which stands on its first record, shows the model and no more. */
static bool walks(cairn_iter *iter, const struct model *model)
{
	int rc = model->count ? 0 : cairn_iter_first(iter) == CAIRN_END ? CAIRN_END : -1;
	for (size_t i = 0; i < model->count && rc == 0; i++) {
		if (!shows(cairn_iter_key(iter), model_key(model, i)) ||
		    !shows(cairn_iter_value(iter), model_value(model, i)))
			return false;
		rc = cairn_iter_next(iter);
	}
	return rc == CAIRN_END;
}

static bool view_is(struct round *r, cairn_view *view, const struct model *model)
{
	cairn_iter *iter;
	claim(r, cairn_iter_open(view, NULL, &iter) == 0);
	claim(r, cairn_iter_first(iter) >= 0);
	bool same = walks(iter, model);
	cairn_iter_close(iter);
	return same;
}

/* The store shows the durable state and the first `least` or more of the writes after it. */
static void check_state(struct round *r, cairn *db, size_t least)
{
	const struct history *history = &r->history;
	cairn_view *view;
	struct model model;
	claim(r, cairn_view_open(db, &view) == 0);
	model_copy(&model, &history->durable);
	for (size_t i = 0; i < least; i++)
		apply(&model, &history->writes[i]);
	bool found = view_is(r, view, &model);
	for (size_t i = least; i < history->count && !found; i++) {
		apply(&model, &history->writes[i]);
		found = view_is(r, view, &model);
	}
	claim(r, found);
	model_release(&model);
	claim(r, cairn_view_close(view) == 0);
}

static void check_gets(struct round *r)
{
	static char value[VALUE_MAX];
	struct model model;
	size_t size;
	model_copy(&model, &r->history.durable);
	for (size_t i = 0; i < acknowledged(&r->history); i++)
		apply(&model, &r->history.writes[i]);
	for (size_t i = 0; i < model.count && !r->history.unsure; i++) {
		claim(r, cairn_get(r->db, model_key(&model, i), value, sizeof value, &size) == 0);
		claim(r, shows((cairn_slice){value, size}, model_value(&model, i)));
	}
	model_release(&model);
}

/* 2. */
static void check_view(struct round *r)
{
	if (!r->view)
		return;
	claim(r, walks(r->iter, &r->seen));
	for (size_t i = 0; i < r->seen.count; i += 7) {
		cairn_slice value;
		claim(r, cairn_view_get(r->view, model_key(&r->seen, i), &value) == 0);
		claim(r, shows(value, model_value(&r->seen, i)));
	}
	cairn_iter_close(r->iter);
	claim(r, cairn_view_close(r->view) == 0);
	model_release(&r->seen);
	r->view = NULL;
}

static void open_view(struct round *r)
{
	if (r->operation->flags & (NO_VIEW | UNOPENED))
		return;
	model_copy(&r->seen, &r->history.durable);
	for (size_t i = 0; i < r->history.count; i++)
		apply(&r->seen, &r->history.writes[i]);
	claim(r, cairn_view_open(r->db, &r->view) == 0);
	claim(r, cairn_iter_open(r->view, NULL, &r->iter) == 0);
	claim(r, cairn_iter_first(r->iter) >= 0);
}

/* ---------------------------------------------------------------- what is on the disk */

struct litter {
	const struct cairn_manifest *manifest;
	bool found;
};

static void look_at_file(void *context, const char *path)
{
	struct litter *litter = context;
	const struct cairn_manifest *manifest = litter->manifest;
	uint64_t number;
	if (strncmp(path, STORE "/", strlen(STORE "/")) != 0)
		return;
	enum cairn_file_kind kind = cairn_filename_parse(path + strlen(STORE "/"), &number);
	bool dead = kind == CAIRN_FILE_FOREIGN || kind == CAIRN_FILE_TEMPORARY;
	if (kind == CAIRN_FILE_LOG)
		dead = !manifest->log_number || number < manifest->log_number;
	if (kind == CAIRN_FILE_RUN || kind == CAIRN_FILE_INDEX) {
		dead = true;
		for (size_t i = 0; i < manifest->run_count; i++)
			dead = dead &&
			       number != (kind == CAIRN_FILE_RUN ? manifest->runs[i].files[0].number
								 : manifest->runs[i].index.number);
	}
	if (dead)
		fprintf(stderr, "litter: %s\n", path);
	litter->found = litter->found || dead;
}

/* No file is there that nobody needs. */
static void check_litter(struct round *r, struct sim_disk *disk)
{
	struct cairn_manifest manifest;
	claim(r, cairn_manifest_load(sim_disk_io(disk), STORE, &manifest) == 0);
	struct litter litter = {&manifest, false};
	sim_disk_each(disk, look_at_file, &litter);
	cairn_manifest_release(&manifest);
	claim(r, !litter.found);
}

/* As whoever comes later: by its path alone. */
static cairn *open_other(struct round *r, struct sim_disk *disk, const char *path)
{
	cairn_options options;
	cairn *db;
	options_of(NULL, &options);
	if (cairn_open_with(sim_disk_io(disk), path, &options, &db))
		refute(r, cairn_message(NULL), __FILE__, __LINE__);
	return db;
}

static int verify(struct sim_disk *disk, const char *path)
{
	cairn_options options;
	if (cairn_options_resolve(NULL, &options))
		abort();
	return cairn_verify_with(sim_disk_io(disk), path, &options, NULL, NULL);
}

/* The disk holds a store that opens as it is, with `least` writes or more. What it then shows is
 * durable, whatever the disk promised that it was read from: *after is the disk if all else is
 * lost. Takes the disk. */
static uint64_t check_disk(
    struct round *r, struct sim_disk *disk, size_t least, struct sim_disk **after)
{
	cairn *db = open_other(r, disk, STORE);
	uint64_t sequence = atomic_load(&db->sequence);
	check_state(r, db, least);
	check_litter(r, disk);
	if (after)
		*after = sim_disk_crash(disk, SIM_LOSE_ALL, r->seed);
	claim(r, cairn_close(db) == 0);
	claim(r, verify(disk, STORE) == 0);
	claim(r, sim_disk_open_count(disk) == 0);
	sim_disk_free(disk);
	return sequence;
}

/* 3. */
static void check_power_cut(struct round *r)
{
	check_disk(r, sim_disk_crash(r->disk, SIM_LOSE_ALL, r->seed), 0, NULL);
}

static void check_kill(struct round *r)
{
	struct sim_disk *killed = sim_disk_crash(r->disk, SIM_LOSE_NOTHING, r->seed), *after;
	uint64_t seen = check_disk(r, killed, acknowledged(&r->history), &after);
	claim(r, check_disk(r, after, 0, NULL) == seen);
}

/* ---------------------------------------------------------------- the end of a round */

/* 1. */
static void check_result(struct round *r)
{
	claim(r, r->rc <= 0);
	if (r->rc == 0)
		return;
	const struct sim_fault *fault = &r->style->fault;
	bool known =
	    r->style->memory ? r->rc == -ENOMEM : r->rc == fault->code || r->rc == CAIRN_FAILED;
	known = known || (r->rc == CAIRN_CORRUPT && (r->operation->flags & FINDS));
	claim(r, r->faults > 0);
	claim(r, known);
	claim(r, *r->message);
	/* A queue and random numbers have no file. */
	claim(r, r->style->memory || strchr(r->message, '/') || strstr(r->message, "queue") ||
		     strstr(r->message, "entropy"));
}

static void check_is_failed(struct round *r)
{
	cairn_stats stats;
	claim(r, !r->style->memory);
	claim(r, strstr(cairn_message(r->db), strerror(-r->style->fault.code)));
	claim(r, strstr(cairn_message(r->db), STORE));
	claim(r, r->rc != CAIRN_FAILED || strstr(cairn_message(r->db), r->message));
	claim(r, cairn_sync(r->db) == CAIRN_FAILED);
	claim(r, put(r, PROBE, CAIRN_SYNC) == CAIRN_FAILED);
	claim(r, cairn_flush(r->db) == CAIRN_FAILED);
	claim(r, cairn_wait(r->db) == CAIRN_FAILED);
	claim(r, cairn_stat(r->db, &stats) == 0 && stats.last_error == CAIRN_FAILED);
}

static void check_works(struct round *r)
{
	cairn_stats stats;
	claim(r, sync_store(r) == 0);
	sim_disk_advance(r->disk, 60 * SECOND);
	claim(r, work_at_rest(r) == 0);
	claim(r, cairn_stat(r->db, &stats) == 0 && stats.last_error == 0);
	claim(r, flush_store(r) == 0);
	claim(r, cairn_wait(r->db) == 0);
	/* Where removing a file may have failed, the next open does it. */
	if (r->style->fault.kinds)
		check_litter(r, r->disk);
}

/* What a handle shows that works on is what will be. */
static void end_doubt(struct round *r)
{
	struct history *history = &r->history;
	cairn_stats stats;
	cairn_view *view;
	struct model model;
	claim(r, cairn_stat(r->db, &stats) == 0);
	if (!history->unsure || stats.last_error == CAIRN_FAILED)
		return;
	model_copy(&model, &history->durable);
	for (size_t i = 0; i < history->count; i++)
		apply(&model, &history->writes[i]);
	claim(r, cairn_view_open(r->db, &view) == 0);
	history->count -= !view_is(r, view, &model);
	history->unsure = false;
	claim(r, cairn_view_close(view) == 0);
	model_release(&model);
}

/* 4. */
static void check_handle(struct round *r)
{
	if (r->operation->flags & READ_ONLY) {
		check_state(r, r->db, r->history.count);
		claim(r, close_store(r) == 0);
		return;
	}
	end_doubt(r);
	int rc = put(r, PROBE, 0);
	r->failed = rc == CAIRN_FAILED;
	claim(r, rc == 0 || r->failed);
	/* That one was refused, and not the one with an unknown outcome. */
	if (r->failed && r->history.unsure &&
	    r->history.writes[r->history.count - 1].key == PROBE) {
		r->history.count--;
		r->history.unsure = false;
	}
	(r->failed ? check_is_failed : check_works)(r);
	check_state(r, r->db, acknowledged(&r->history));
	check_gets(r);
	rc = close_store(r);
	claim(r, r->failed ? rc == CAIRN_FAILED : rc == 0);
}

static void check_round(struct round *r)
{
	check_result(r);
	check_view(r);
	if (r->operation->finish)
		r->operation->finish(r);
	if (r->operation->start == HEADLESS)
		return;
	check_power_cut(r);
	check_kill(r);
	if (!r->db)
		return;
	check_handle(r);
	check_power_cut(r);
	if (r->history.count) /* else all is durable, and a kill leaves the same */
		check_kill(r);
}

/* ---------------------------------------------------------------- the loop */

static void end_round(struct round *r)
{
	claim(r, !r->db && sim_disk_open_count(r->disk) == 0); /* 5. */
	model_release(&r->history.durable);
	sim_disk_free(r->disk);
}

static void begin_round(struct round *r, size_t fill)
{
	const struct operation *operation = r->operation;
	r->disk = sim_disk_crash(starts[operation->start].disk, SIM_LOSE_NOTHING, r->seed);
	r->version = 1000;
	history_copy(&r->history, &starts[operation->start].history);
	if (operation->flags & WRITTEN_LOG)
		sim_disk_refuse_map_log(r->disk);
	if (!(operation->flags & UNOPENED))
		claim(r, open_store(r) == 0);
	if (operation->prepare)
		operation->prepare(r);
	for (size_t i = 0; i < fill; i++)
		claim(r, put_sized(r, (unsigned)i % 50, FILL_SIZE, 0) == 0);
	open_view(r);
}

/* How many values have to be put before the one that has the effect. */
static size_t count_fill(const struct operation *operation)
{
	struct round r = {.operation = operation};
	size_t count = 0;
	if (!operation->until)
		return 0;
	begin_round(&r, 0);
	uint64_t before = operation->until(&r);
	while (operation->until(&r) == before)
		claim(&r, put_sized(&r, (unsigned)count++ % 50, FILL_SIZE, 0) == 0);
	check_view(&r);
	claim(&r, close_store(&r) == 0);
	end_round(&r);
	return count - 1;
}

static void run_armed(struct round *r)
{
	struct sim_fault fault = r->style->fault;
	fault.call = r->style->memory ? 0 : r->number;
	sim_disk_arm(r->disk, &fault);
	if (r->style->memory)
		alloc_fault_arm(r->number, fault.for_ever);
	r->armed = true;
	r->rc = r->operation->run(r);
	r->armed = false;
	r->faults = r->style->memory ? alloc_faults() : sim_disk_faults(r->disk);
	alloc_fault_disarm();
	sim_disk_arm(r->disk, &(struct sim_fault){.call = 0});
	if (r->durable)
		note_durable(r);
	if (r->rc < 0)
		snprintf(r->message, sizeof r->message, "%s", last_message(r));
}

/* False when there was no call left to fail. */
static bool pass_round(
    const struct operation *operation, const struct style *style, uint64_t number, size_t fill)
{
	struct round r = {.operation = operation,
	    .style = style,
	    .number = number,
	    .seed = test_random(&random_state)};
	int64_t live = alloc_live();
	begin_round(&r, fill);
	run_armed(&r);
	if (r.faults == 0 && operation->start != HEADLESS)
		claim(&r, r.rc == 0);
	check_round(&r);
	end_round(&r);
	claim(&r, alloc_live() == live);
	total_rounds++;
	return r.faults > 0;
}

static const unsigned syncs = 1u << SIM_SYNC | 1u << SIM_SYNC_DIRECTORY;

static const struct style styles[] = {
    {"allocation", true, {.call = 0}, false},
    {"allocations from", true, {.for_ever = true}, false},
    {"EIO, in part, at call", false, {.code = -EIO, .partly = true}, false},
    {"EIO from call", false, {.code = -EIO, .for_ever = true}, false},
    {"ENOSPC from call", false, {.code = -ENOSPC, .for_ever = true}, false},
    {"EIO from read", false, {.kinds = 1u << SIM_READ, .code = -EIO, .for_ever = true}, false},
    {"dropped pages at sync", false, {.kinds = 1u << SIM_SYNC, .code = -EIO, .drop_pages = true},
	false},
    {"EIO at call", false, {.code = -EIO}, true},
    {"ENOSPC at call", false, {.code = -ENOSPC}, true},
    {"ENOSPC, in part, at call", false, {.code = -ENOSPC, .partly = true}, true},
    {"EIO, in part, from call", false, {.code = -EIO, .partly = true, .for_ever = true}, true},
    {"EIO from sync", false, {.kinds = syncs, .code = -EIO, .for_ever = true}, true},
    {"ENOSPC and dropped pages at sync", false,
	{.kinds = 1u << SIM_SYNC, .code = -ENOSPC, .drop_pages = true}, true},
};

static void pass_operation(void **state)
{
	const struct operation *operation = *state;
	size_t fill = count_fill(operation);
	uint64_t memory = 0, disk = 0, step = test_full() ? 1 : STEP;
	for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
		if (styles[i].full && !test_full())
			continue;
		uint64_t *faults = styles[i].memory ? &memory : &disk;
		size_t passes = test_full() && styles[i].fault.partly ? CHANCES : 1;
		for (size_t pass = 0; pass < passes; pass++)
			for (uint64_t number = 1 + i % step;
			     pass_round(operation, &styles[i], number, fill); number += step)
				++*faults;
	}
	printf("%-28s %5llu allocations and %5llu calls failed\n", operation->name,
	    (unsigned long long)memory, (unsigned long long)disk);
	total_faults += memory + disk;
}

/* ---------------------------------------------------------------- operations: open and close */

static int run_open(struct round *r)
{
	int rc = open_store(r);
	claim(r, !rc == !!r->db);
	return rc;
}

static int run_open_headless(struct round *r)
{
	int rc = open_store(r);
	claim(r, rc < 0 && !r->db);
	size_t size;
	claim(r, !sim_disk_file(r->disk, STORE "/MANIFEST", &size));
	return rc == CAIRN_CORRUPT ? 0 : rc;
}

/* The records are there still. */
static void finish_headless(struct round *r)
{
	r->rc = 0;
	claim(r, open_store(r) == CAIRN_CORRUPT);
}

static void write_some(struct round *r)
{
	for (unsigned i = 0; i < 4; i++)
		claim(r, put(r, 10 + 40 * i, 0) == 0);
	claim(r, erase(r, 11, CAIRN_SYNC) == 0);
	claim(r, put(r, 12, 0) == 0);
	claim(r, erase(r, 13, 0) == 0);
}

/* More than what close leaves in the log. */
static void write_much(struct round *r)
{
	for (unsigned i = 0; i < 40; i++)
		claim(r, put_sized(r, 3 * i, 4000, 0) == 0);
}

/* So many that the run of them gets a fractional index. */
static void write_indexed(struct round *r)
{
	for (unsigned i = 0; i < 250; i++)
		claim(r, put(r, i, 0) == 0);
}

/* ---------------------------------------------------------------- operations: writes */

static uint64_t log_segment(struct round *r)
{
	return cairn_log_position_ordinal(cairn_log_end(r->db->log));
}

static uint64_t log_reserve(struct round *r)
{
	return cairn_log_reserve_bytes(r->db->log);
}

static uint64_t bytes_flushed(struct round *r)
{
	cairn_stats stats;
	claim(r, cairn_stat(r->db, &stats) == 0);
	return stats.flush_bytes_written;
}

/* Until the segment is more than half full, and the table is empty again. */
static void fill_half_segment(struct round *r)
{
	for (unsigned i = 0; i < 45; i++)
		claim(r, put_sized(r, i, 1000, 0) == 0);
	claim(r, flush_store(r) == 0);
}

static void prepare_spare(struct round *r)
{
	fill_half_segment(r);
	claim(r, work(r) == 0);
}

static void prepare_interval(struct round *r)
{
	write_some(r);
	sim_disk_advance(r->disk, SECOND);
}

static int run_put(struct round *r)
{
	return put(r, 20, 0);
}

static int run_put_sync(struct round *r)
{
	return put(r, 20, CAIRN_SYNC);
}

/* As long as what was put before, so that it has the effect that the next of those would have. */
static int run_put_next(struct round *r)
{
	return put_sized(r, 20, FILL_SIZE, CAIRN_SYNC);
}

static int run_put_large(struct round *r)
{
	return put_sized(r, 20, 100000, 0);
}

static int run_delete(struct round *r)
{
	return erase(r, 21, 0);
}

static int run_sync(struct round *r)
{
	return sync_store(r);
}

/* ---------------------------------------------------------------- operations: batches */

static const struct write batch_write = {20, 5, 300, 999};

/* Adds the operations of batch_write that are not in the batch yet. */
static int fill_batch(struct round *r)
{
	char text[KEY_MAX];
	int rc = 0;
	for (unsigned i = (unsigned)cairn_batch_count(r->batch); i < batch_write.count && !rc;
	     i++) {
		cairn_slice key = key_of(batch_write.key + i, text);
		rc = deletes(&batch_write, i) ? cairn_batch_delete(r->batch, key)
					      : cairn_batch_put(r->batch, key,
						    value_of(&batch_write, batch_write.key + i));
		claim(r, cairn_batch_count(r->batch) == i + !rc);
	}
	return rc;
}

static int run_batch(struct round *r)
{
	r->batch = cairn_batch_new();
	return r->batch ? fill_batch(r) : cairn_error(-ENOMEM, "cairn_batch_new gave NULL");
}

/* A batch to which something could not be added is as before: the rest can be. */
static void finish_batch(struct round *r)
{
	if (!r->batch)
		r->batch = cairn_batch_new();
	claim(r, fill_batch(r) == 0);
	int rc = cairn_write(r->db, r->batch, 0);
	claim(r, rc == 0);
	note_write(r, &batch_write, rc, 0);
	cairn_batch_free(r->batch);
}

static void prepare_batch(struct round *r)
{
	write_some(r);
	r->batch = cairn_batch_new();
	claim(r, r->batch && fill_batch(r) == 0);
}

static int write_batch(struct round *r, unsigned flags)
{
	int rc = cairn_write(r->db, r->batch, flags);
	note_write(r, &batch_write, rc, flags);
	return rc;
}

static int run_write(struct round *r)
{
	return write_batch(r, 0);
}

static int run_write_sync(struct round *r)
{
	return write_batch(r, CAIRN_SYNC);
}

static void prepare_empty_batch(struct round *r)
{
	write_some(r);
	r->batch = cairn_batch_new();
	claim(r, r->batch);
}

static int run_write_empty(struct round *r)
{
	return durable_if_0(r, cairn_write(r->db, r->batch, CAIRN_SYNC));
}

static void free_batch(struct round *r)
{
	cairn_batch_free(r->batch);
}

/* ---------------------------------------------------------------- operations: reads */

static int run_get(struct round *r)
{
	char text[KEY_MAX], value[200];
	size_t size = 1;
	int rc = cairn_get(r->db, key_of(10, text), value, sizeof value, &size);
	claim(r, rc == 0 ? size > 0 : size == 0);
	return rc;
}

struct answers {
	struct round *round;
	size_t count;
};

static int take_answer(void *context, size_t i, int result, cairn_slice value)
{
	struct answers *answers = context;
	claim(answers->round, i == answers->count++);
	claim(answers->round, !result == !!value.data);
	return 0;
}

static int run_multi_get(struct round *r)
{
	char text[4][KEY_MAX];
	cairn_slice keys[4];
	struct answers answers = {r, 0};
	for (unsigned i = 0; i < 4; i++)
		keys[i] = key_of(40 * i, text[i]);
	int rc = cairn_multi_get(r->db, keys, 4, take_answer, &answers);
	claim(r, answers.count == (rc ? 0 : 4));
	return rc;
}

/* As many views as there is room for the sequences of; the next one needs more. */
static cairn_view *many_views[8];

static void open_many_views(struct round *r)
{
	write_some(r);
	for (size_t i = 0; i < sizeof many_views / sizeof *many_views - 2; i++)
		claim(r, cairn_view_open(r->db, &many_views[i]) == 0);
}

static int run_view_open(struct round *r)
{
	int rc = cairn_view_open(r->db, &r->own_view);
	claim(r, !rc == !!r->own_view);
	return rc;
}

static void close_many_views(struct round *r)
{
	claim(r, cairn_view_close(r->own_view) == 0);
	for (size_t i = 0; i < sizeof many_views / sizeof *many_views - 2; i++)
		claim(r, cairn_view_close(many_views[i]) == 0);
}

static int run_view_get(struct round *r)
{
	char text[KEY_MAX];
	cairn_slice value;
	int rc = cairn_view_get(r->view, key_of(10, text), &value);
	claim(r, !rc == !!value.data);
	return rc;
}

/* Keys that are prefixes of each other make a path longer than what an iterator starts with. */
static void open_own_view(struct round *r)
{
	write_some(r);
	for (unsigned i = 0; i < 70; i++)
		claim(r, put(r, DEEP + i, 0) == 0);
	claim(r, cairn_view_open(r->db, &r->own_view) == 0);
}

static int run_iter_open(struct round *r)
{
	char text[3][KEY_MAX];
	cairn_slice from = key_of(5, text[0]), to = key_of(90, text[1]);
	cairn_slice prefix = {key_of(1, text[2]).data, 4};
	int rc = cairn_iter_open(r->own_view, &(cairn_range){&from, &to, &prefix, 0}, &r->own_iter);
	claim(r, !rc == !!r->own_iter);
	return rc;
}

static void open_own_iter(struct round *r)
{
	open_own_view(r);
	claim(r, cairn_iter_open(r->own_view, NULL, &r->own_iter) == 0);
}

/* After a move: the iterator stands on a record exactly when it was one. */
static int moved(struct round *r, int rc)
{
	cairn_slice key = cairn_iter_key(r->own_iter);
	claim(r, (rc == 0) == !!key.data);
	claim(r, cairn_iter_status(r->own_iter) == rc);
	if (rc)
		return rc;
	claim(r, !!cairn_iter_value(r->own_iter).data == !cairn_iter_status(r->own_iter));
	return cairn_iter_status(r->own_iter);
}

static int run_iter_first(struct round *r)
{
	int rc = moved(r, cairn_iter_first(r->own_iter));
	for (int i = 0; i < 3 && !rc; i++)
		rc = moved(r, cairn_iter_next(r->own_iter));
	return rc;
}

static int run_iter_last(struct round *r)
{
	int rc = moved(r, cairn_iter_last(r->own_iter));
	for (int i = 0; i < 3 && !rc; i++)
		rc = moved(r, cairn_iter_prev(r->own_iter));
	return rc;
}

static int run_iter_seek(struct round *r)
{
	char text[KEY_MAX];
	return moved(r, cairn_iter_seek(r->own_iter, key_of(DEEP + 60, text)));
}

static int run_iter_seek_le(struct round *r)
{
	char text[KEY_MAX];
	return moved(r, cairn_iter_seek_le(r->own_iter, key_of(DEEP + 60, text)));
}

static void prepare_seek(struct round *r)
{
	open_own_iter(r);
	claim(r, cairn_iter_last(r->own_iter) == 0); /* from where a failed seek must not stand */
}

/* It tries afresh. */
static void close_own(struct round *r)
{
	if (r->own_iter)
		claim(r, cairn_iter_first(r->own_iter) == 0);
	cairn_iter_close(r->own_iter);
	claim(r, cairn_view_close(r->own_view) == 0);
}

/* ---------------------------------------------------------------- operations: shaping */

static int run_compact(struct round *r)
{
	return durable_if_0(r, cairn_compact(r->db));
}

static int run_wait(struct round *r)
{
	return cairn_wait(r->db);
}

/* A log that has rotated, a file of it kept for the next spare, more than half of it used. */
static void prepare_log_keeping(struct round *r)
{
	prepare_spare(r);
	for (unsigned i = 0; i < 45; i++)
		claim(r, put_sized(r, i, 1000, 0) == 0);
	claim(r, flush_store(r) == 0);
	for (unsigned i = 0; i < 15; i++)
		claim(r, put_sized(r, i, 1000, 0) == 0);
}

/* A mark needs a sync before it, and no write since. */
static void prepare_mark(struct round *r)
{
	write_some(r);
	claim(r, sync_store(r) == 0);
}

static int run_background(struct round *r)
{
	return work_at_rest(r);
}

static int run_checkpoint(struct round *r)
{
	return durable_if_0(r, cairn_checkpoint(r->db, COPY));
}

static int refuse_link(struct cairn_io *io, const char *from, const char *to)
{
	(void)io;
	(void)from;
	return cairn_error_system(-EXDEV, to, "link");
}

static struct cairn_io_ops without_links;

static void prepare_without_links(struct round *r)
{
	write_some(r);
	without_links = *sim_disk_io(r->disk)->ops;
	without_links.link = refuse_link;
	sim_disk_io(r->disk)->ops = &without_links;
}

static void find_copy(void *context, const char *path)
{
	if (strncmp(path, COPY "/", strlen(COPY "/")) == 0)
		*(bool *)context = true;
}

/* What was made is a store of its own and durable, or it is gone. What undoes it may fail, too. */
static void finish_checkpoint(struct round *r)
{
	bool there = false;
	sim_disk_each(r->disk, find_copy, &there);
	if (r->rc) {
		claim(r, !there || r->style->fault.for_ever);
		return;
	}
	struct sim_disk *after = sim_disk_crash(r->disk, SIM_LOSE_ALL, r->seed);
	cairn *db = open_other(r, after, COPY);
	check_state(r, db, r->history.count);
	claim(r, cairn_close(db) == 0);
	claim(r, verify(after, COPY) == 0);
	sim_disk_free(after);
}

/* ---------------------------------------------------------------- operations: looking */

static int count_finding(void *context, const cairn_finding *finding)
{
	struct round *r = context;
	claim(r, finding->path && finding->message);
	r->findings++;
	return 0;
}

static int run_verify(struct round *r)
{
	cairn_options options;
	uint64_t before = sim_disk_fingerprint(r->disk);
	int rc = cairn_options_resolve(NULL, &options);
	if (!rc)
		rc = cairn_verify_with(sim_disk_io(r->disk), STORE, &options, count_finding, r);
	claim(r, sim_disk_fingerprint(r->disk) == before);
	/* A store that is well is not called damaged because memory is short. */
	claim(r, rc != CAIRN_CORRUPT || !r->style->memory);
	return rc;
}

struct source {
	struct sim_disk *disk;
	uint64_t hash;
};

static void add_to_hash(void *context, const char *path)
{
	struct source *source = context;
	size_t size;
	if (strncmp(path, STORE "/", strlen(STORE "/")) != 0)
		return;
	const uint8_t *bytes = sim_disk_file(source->disk, path, &size);
	source->hash = XXH3_64bits_withSeed(path, strlen(path), source->hash);
	source->hash = XXH3_64bits_withSeed(bytes, size, source->hash);
}

static uint64_t hash_of_source(struct round *r)
{
	struct source source = {r->disk, 0};
	sim_disk_each(r->disk, add_to_hash, &source);
	return source.hash;
}

static void prepare_repair(struct round *r)
{
	r->source = hash_of_source(r);
}

static int run_repair(struct round *r)
{
	cairn_options options;
	int rc = cairn_options_resolve(NULL, &options);
	options.no_background = 1;
	if (!rc)
		rc = cairn_repair_with(
		    sim_disk_io(r->disk), STORE, COPY, &options, count_finding, r);
	/* What cannot be read is left out and told; a want of memory leaves nothing out. */
	r->partial = rc == CAIRN_PARTIAL;
	claim(r, !r->partial || (!r->style->memory && r->findings > 0));
	return r->partial ? 0 : rc;
}

/* Nothing in it that was never written. */
static void check_part(struct round *r, cairn *db)
{
	cairn_view *view;
	cairn_iter *iter;
	char text[KEY_MAX];
	claim(r, cairn_view_open(db, &view) == 0 && cairn_iter_open(view, NULL, &iter) == 0);
	int rc = cairn_iter_first(iter);
	for (; rc == 0; rc = cairn_iter_next(iter)) {
		cairn_slice key = cairn_iter_key(iter), value = cairn_iter_value(iter);
		struct write write = {.count = 1, .size = (unsigned)value.size};
		unsigned number =
		    (unsigned)strtoul((const char *)key.data + strlen("key"), NULL, 10);
		write.version = (unsigned)strtoul(value.data, NULL, 10);
		claim(r, write.version > 0 && write.version <= r->version);
		claim(r, shows(key, key_of(number, text)));
		claim(r, shows(value, value_of(&write, number)));
	}
	claim(r, rc == CAIRN_END && cairn_iter_status(iter) == 0);
	cairn_iter_close(iter);
	claim(r, cairn_view_close(view) == 0);
}

/* The new store is whole and durable, or it is gone. */
static void finish_repair(struct round *r)
{
	bool there = false;
	sim_disk_each(r->disk, find_copy, &there);
	claim(r, hash_of_source(r) == r->source);
	claim(r, r->faults > 0 || !r->partial);
	if (r->rc) {
		claim(r, !there || r->style->fault.for_ever);
		return;
	}
	struct sim_disk *after = sim_disk_crash(r->disk, SIM_LOSE_ALL, r->seed);
	cairn *db = open_other(r, after, COPY);
	if (r->partial)
		check_part(r, db);
	else
		check_state(r, db, r->history.count);
	claim(r, cairn_close(db) == 0);
	claim(r, verify(after, COPY) == 0);
	sim_disk_free(after);
}

static int run_stat(struct round *r)
{
	cairn_stats stats;
	return cairn_stat(r->db, &stats);
}

static int run_stat_json(struct round *r)
{
	char text[4096];
	size_t size = 1;
	int rc = cairn_stat_json(r->db, text, sizeof text, &size);
	claim(r, rc == 0 ? size == strlen(text) : size == 0);
	return rc;
}

static const struct operation operations[] = {
    {"open, new", NEW, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, closed", CLOSED, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, replay", KILLED, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, replay, log written", KILLED, UNOPENED | WRITTEN_LOG, 0, NULL, NULL, run_open, NULL},
    {"open, replay and flush", BIG_LOG, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, replay and merge", MANY_RUNS, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, read only", BIG_LOG, UNOPENED | READ_ONLY, 0, NULL, NULL, run_open, NULL},
    {"open, no manifest", HEADLESS, UNOPENED, 0, NULL, NULL, run_open_headless, finish_headless},
    {"close", KILLED, NO_VIEW, 0, write_some, NULL, close_store, NULL},
    {"close, log written", CLOSED, NO_VIEW | WRITTEN_LOG, 0, write_some, NULL, close_store, NULL},
    {"close, flush", CLOSED, NO_VIEW, 262144, write_much, NULL, close_store, NULL},
    {"close, read only", KILLED, NO_VIEW | READ_ONLY, 0, NULL, NULL, close_store, NULL},
    {"put", CLOSED, 0, 0, write_some, NULL, run_put, NULL},
    {"put, log written", CLOSED, WRITTEN_LOG, 0, write_some, NULL, run_put, NULL},
    {"put, first", CLOSED, 0, 0, NULL, NULL, run_put, NULL},
    {"put, sync", CLOSED, 0, 0, write_some, NULL, run_put_sync, NULL},
    {"put, sync, first", CLOSED, 0, 0, NULL, NULL, run_put_sync, NULL},
    {"put, interval", CLOSED, 0, 0, prepare_interval, NULL, run_put, NULL},
    {"put, large", CLOSED, 0, 0, write_some, NULL, run_put_large, NULL},
    {"put, reserve", CLOSED, 0, 0, NULL, log_reserve, run_put_next, NULL},
    {"put, rotate", CLOSED, 0, 0, fill_half_segment, log_segment, run_put_next, NULL},
    {"put, rotate, log written", CLOSED, WRITTEN_LOG, 0, fill_half_segment, log_segment,
	run_put_next, NULL},
    {"put, rotate to spare", CLOSED, 0, 0, prepare_spare, log_segment, run_put_next, NULL},
    {"put, flush", CLOSED, 0, 0, NULL, bytes_flushed, run_put_next, NULL},
    {"delete", CLOSED, 0, 0, write_some, NULL, run_delete, NULL},
    {"delete, first", CLOSED, 0, 0, NULL, NULL, run_delete, NULL},
    {"batch", CLOSED, 0, 0, write_some, NULL, run_batch, finish_batch},
    {"write", CLOSED, 0, 0, prepare_batch, NULL, run_write, free_batch},
    {"write, sync", CLOSED, 0, 0, prepare_batch, NULL, run_write_sync, free_batch},
    {"write, nothing, sync", CLOSED, 0, 0, prepare_empty_batch, NULL, run_write_empty, free_batch},
    {"sync", CLOSED, 0, 0, write_some, NULL, run_sync, NULL},
    {"get", CLOSED, 0, 0, write_some, NULL, run_get, NULL},
    {"multi_get", CLOSED, 0, 0, write_some, NULL, run_multi_get, NULL},
    {"view_open", CLOSED, 0, 0, open_many_views, NULL, run_view_open, close_many_views},
    {"view_get", CLOSED, 0, 0, write_some, NULL, run_view_get, NULL},
    {"iter_open", CLOSED, 0, 0, open_own_view, NULL, run_iter_open, close_own},
    {"iter_first, iter_next", CLOSED, 0, 0, open_own_iter, NULL, run_iter_first, close_own},
    {"iter_last, iter_prev", CLOSED, 0, 0, open_own_iter, NULL, run_iter_last, close_own},
    {"iter_seek", CLOSED, 0, 0, prepare_seek, NULL, run_iter_seek, close_own},
    {"iter_seek_le", CLOSED, 0, 0, prepare_seek, NULL, run_iter_seek_le, close_own},
    {"flush", CLOSED, 0, 0, write_some, NULL, flush_store, NULL},
    {"flush, nothing", CLOSED, 0, 0, NULL, NULL, flush_store, NULL},
    {"compact", CLOSED, 0, 0, write_some, NULL, run_compact, NULL},
    {"wait", CLOSED, 0, 0, write_some, NULL, run_wait, NULL},
    {"background, rest", CLOSED, 0, 0, write_some, NULL, run_background, NULL},
    {"background, log", CLOSED, 0, 0, prepare_log_keeping, NULL, run_background, NULL},
    {"background, log written", CLOSED, WRITTEN_LOG, 0, prepare_log_keeping, NULL, run_background,
	NULL},
    {"background, mark", CLOSED, 0, 0, prepare_mark, NULL, run_background, NULL},
    {"checkpoint", CLOSED, 0, 0, write_some, NULL, run_checkpoint, finish_checkpoint},
    {"checkpoint, copy", CLOSED, 0, 0, prepare_without_links, NULL, run_checkpoint,
	finish_checkpoint},
    {"verify", KILLED, UNOPENED | FINDS, 0, NULL, NULL, run_verify, NULL},
    {"repair", KILLED, UNOPENED | FINDS, 0, prepare_repair, NULL, run_repair, finish_repair},
    {"open, index", INDEXED, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"open, index lost", UNINDEXED, UNOPENED, 0, NULL, NULL, run_open, NULL},
    {"flush, index", INDEXED, 0, 0, write_indexed, NULL, flush_store, NULL},
    {"wait, index lost", UNINDEXED, 0, 0, NULL, NULL, run_wait, NULL},
    {"background, index lost", UNINDEXED, 0, 0, NULL, NULL, run_background, NULL},
    {"iter_open, index", INDEXED, 0, 0, open_own_view, NULL, run_iter_open, close_own},
    {"iter_seek, index", INDEXED, 0, 0, prepare_seek, NULL, run_iter_seek, close_own},
    {"checkpoint, index", INDEXED, 0, 0, NULL, NULL, run_checkpoint, finish_checkpoint},
    {"verify, index", INDEXED, UNOPENED | FINDS, 0, NULL, NULL, run_verify, NULL},
    {"stat", CLOSED, 0, 0, write_some, NULL, run_stat, NULL},
    {"stat_json", CLOSED, 0, 0, write_some, NULL, run_stat_json, NULL},
};

#define OPERATIONS (sizeof operations / sizeof *operations)

/* ---------------------------------------------------------------- the disks to start from */

static void keep_start(struct round *r, enum start start)
{
	starts[start].disk = sim_disk_crash(r->disk, SIM_LOSE_NOTHING, 0);
	history_copy(&starts[start].history, &r->history);
}

static void continue_from(struct round *r, enum start start)
{
	*r = (struct round){.version = 500};
	r->disk = sim_disk_crash(starts[start].disk, SIM_LOSE_NOTHING, 0);
	history_copy(&r->history, &starts[start].history);
	claim(r, open_store(r) == 0);
}

static void end_start(struct round *r)
{
	if (r->db)
		claim(r, close_store(r) == 0);
	end_round(r);
}

/* Three runs, with records that newer ones shadow and delete. */
static void write_runs(struct round *r)
{
	for (unsigned i = 0; i < 120; i++)
		claim(r, put(r, i, 0) == 0);
	claim(r, flush_store(r) == 0);
	for (unsigned i = 30; i < 80; i++)
		claim(r, (i < 40 ? erase : put)(r, i, 0) == 0);
	claim(r, flush_store(r) == 0);
	for (unsigned i = 0; i < 12; i++)
		claim(r, (i < 5 ? erase : put)(r, 10 * i, 0) == 0);
	claim(r, flush_store(r) == 0);
}

static void write_big_log(struct round *r)
{
	for (unsigned i = 0; i < 45; i++)
		claim(r, put_sized(r, 2 * i, 1000, i == 40 ? CAIRN_SYNC : 0) == 0);
}

static void write_many_runs(struct round *r)
{
	for (unsigned i = 0; i < 8; i++) {
		claim(r, put(r, 7 * i, 0) == 0);
		claim(r, flush_store(r) == 0);
	}
	write_some(r);
}

/* The oldest run of 17 blocks and more, as many in the next, a few records on top. */
static void write_cascade(struct round *r)
{
	for (unsigned i = 0; i < 300; i++)
		claim(r, put(r, i, i == 150 ? CAIRN_SYNC : 0) == 0);
	claim(r, durable_if_0(r, cairn_compact(r->db)) == 0);
	write_indexed(r);
	claim(r, flush_store(r) == 0);
	for (unsigned i = 0; i < 12; i++)
		claim(r, (i < 5 ? erase : put)(r, 10 * i, 0) == 0);
	claim(r, flush_store(r) == 0);
}

static void remove_index(void *disk, const char *path)
{
	uint64_t number;
	if (cairn_filename_parse(strrchr(path, '/') + 1, &number) == CAIRN_FILE_INDEX)
		sim_disk_remove(disk, path);
}

/* A store with an index, and one that has lost it. */
static void make_indexed_starts(struct round *r)
{
	cairn_stats stats;
	continue_from(r, CLOSED);
	write_cascade(r);
	claim(r, cairn_stat(r->db, &stats) == 0 && stats.index_bytes > 0);
	claim(r, close_store(r) == 0);
	keep_start(r, INDEXED);
	keep_start(r, UNINDEXED);
	sim_disk_each(starts[UNINDEXED].disk, remove_index, starts[UNINDEXED].disk);
	end_start(r);
}

static void remove_head(void *disk, const char *path)
{
	uint64_t number;
	enum cairn_file_kind kind = cairn_filename_parse(strrchr(path, '/') + 1, &number);
	if (kind != CAIRN_FILE_LOG)
		sim_disk_remove(disk, path);
}

static void make_starts(void)
{
	struct round r = {.disk = sim_disk_new(1)};
	char text[KEY_MAX];
	size_t size;
	keep_start(&r, NEW);
	claim(&r, open_store(&r) == 0);
	write_runs(&r);
	/* Takes the slot that this thread's reads have from now on. */
	claim(&r, cairn_get(r.db, key_of(1, text), NULL, 0, &size) == 0);
	claim(&r, close_store(&r) == 0);
	keep_start(&r, CLOSED);
	end_start(&r);
	static const struct {
		enum start start;
		void (*write)(struct round *r);
	} killed[] = {{KILLED, write_some}, {BIG_LOG, write_big_log}, {MANY_RUNS, write_many_runs}};
	for (size_t i = 0; i < sizeof killed / sizeof *killed; i++) {
		continue_from(&r, CLOSED);
		killed[i].write(&r);
		keep_start(&r, killed[i].start);
		end_start(&r);
	}
	make_indexed_starts(&r);
	continue_from(&r, KILLED);
	claim(&r, put(&r, 1, 0) == 0);
	keep_start(&r, HEADLESS);
	sim_disk_each(starts[HEADLESS].disk, remove_head, starts[HEADLESS].disk);
	end_start(&r);
}

/* ---------------------------------------------------------------- what has no operation */

struct reader {
	cairn *db;
	int without_memory, with_memory;
	size_t size;
	char message[CAIRN_ERROR_TEXT_MAX];
};

static void *get_twice(void *context)
{
	struct reader *reader = context;
	char text[KEY_MAX];
	size_t size;
	alloc_fault_arm(1, true);
	reader->without_memory = cairn_get(reader->db, key_of(1, text), NULL, 0, &reader->size);
	alloc_fault_disarm();
	snprintf(reader->message, sizeof reader->message, "%s", cairn_message(reader->db));
	reader->with_memory = cairn_get(reader->db, key_of(1, text), NULL, 0, &size);
	return NULL;
}

/* A thread's first get takes a slot for good, a new one when no thread has left one. */
static void a_reader_without_memory_for_its_slot_is_told(void **state)
{
	(void)state;
	struct round r;
	struct reader reader = {.size = 1};
	pthread_t thread;
	continue_from(&r, CLOSED);
	reader.db = r.db;
	assert_int_equal(pthread_create(&thread, NULL, get_twice, &reader), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(reader.without_memory, -ENOMEM);
	assert_int_equal(reader.size, 0);
	assert_string_not_equal(reader.message, "");
	assert_int_equal(reader.with_memory, 0);
	end_start(&r);
}

/* On this machine's disk: a simulated one is for one thread. */
static void a_background_thread_that_does_not_start_fails_the_open(void **state)
{
	(void)state;
	char *directory = test_directory(), path[4200];
	snprintf(path, sizeof path, "%s/store", directory);
	unsigned failed = 0;
	for (uint64_t number = 1;; number++) {
		cairn *db;
		alloc_fault_arm(number, false);
		int rc = cairn_open(path, NULL, &db);
		bool injected = alloc_faults() > 0;
		alloc_fault_disarm();
		assert_true(rc == 0 ? !!db : !db && *cairn_message(NULL));
		assert_true(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
		failed += rc == -EAGAIN;
		assert_int_equal(cairn_close(db), 0);
		if (!injected)
			break;
	}
	assert_int_equal(failed, 4); /* once for each thread */
	test_remove_directory(directory);
}

/* Most of a store's life; ends with the handle closed, whatever fails. */
static int live(struct cairn_io *io, const char *path)
{
	cairn_options options;
	cairn *db;
	char text[KEY_MAX];
	options_of(NULL, &options);
	int rc = cairn_open_with(io, path, &options, &db);
	if (!rc)
		rc = cairn_put(db, key_of(PROBE, text), (cairn_slice){"probe", 5}, CAIRN_SYNC);
	if (!rc)
		rc = cairn_compact(db);
	int closed = cairn_close(db);
	return rc ? rc : closed;
}

/* Memory runs out in every fifth call, at full size in each. */
static uint64_t live_without_memory(struct cairn_io *io)
{
	char *directory = test_directory(), path[4200];
	uint64_t number = 1, step = test_full() ? 1 : 5;
	int rc;
	bool injected;
	snprintf(path, sizeof path, "%s/store", directory);
	do {
		assert_int_equal(sim_disk_export(starts[KILLED].disk, STORE, path), 0);
		int64_t before = alloc_live();
		alloc_fault_arm(number, false);
		rc = live(io, path);
		injected = alloc_faults() > 0;
		alloc_fault_disarm();
		assert_true(rc == 0 || rc == -ENOMEM);
		assert_true(injected || rc == 0);
		assert_int_equal(alloc_live(), before);
		assert_int_equal(live(io, path), 0);
		number += step;
	} while (injected);
	test_remove_directory(directory);
	return (number - 1) / step - 1;
}

static void back_ends_pass_the_want_of_memory_on(void **state)
{
	(void)state;
	struct cairn_io *io;
	uint64_t failed = 0;
	assert_int_equal(cairn_io_posix_open(&io), 0);
	failed += live_without_memory(io);
	cairn_io_posix_close(io);
	if (cairn_io_uring_open(&io) == 0) {
		failed += live_without_memory(io);
		cairn_io_uring_close(io);
	}
	printf("%-28s %5llu allocations failed\n", "back ends", (unsigned long long)failed);
	total_faults += failed;
}

static int enter_all(void **state)
{
	(void)state;
	random_state = test_seed(1);
	make_starts();
	return 0;
}

static int leave_all(void **state)
{
	(void)state;
	for (size_t i = 0; i < STARTS; i++) {
		model_release(&starts[i].history.durable);
		sim_disk_free(starts[i].disk);
	}
	printf("%llu rounds, %llu failures injected\n", (unsigned long long)total_rounds,
	    (unsigned long long)total_faults);
	return 0;
}

int main(void)
{
	struct CMUnitTest tests[3 + OPERATIONS] = {
	    cmocka_unit_test(a_reader_without_memory_for_its_slot_is_told),
	    cmocka_unit_test(a_background_thread_that_does_not_start_fails_the_open),
	    cmocka_unit_test(back_ends_pass_the_want_of_memory_on),
	};
	for (size_t i = 0; i < OPERATIONS; i++)
		tests[3 + i] = (struct CMUnitTest){operations[i].name, pass_operation, NULL, NULL,
		    (void *)(uintptr_t)&operations[i]};
	/* Buffers of runs stay in the heap: mapping them anew each time is most of the time. */
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	cmocka_set_test_filter(getenv("CAIRN_TEST_CASE"));
	return cmocka_run_group_tests_name("store_failure_test", tests, enter_all, leave_all);
}
