/*
 * tests/fuzz_api.c -- bytes as a program: calls of the API on a store on a simulated disk, every
 * answer compared with a model.
 *
 * Input: a byte for the sync mode, then operations: a byte for which one, more for its arguments.
 * What is missing at the end are zeros.
 *
 * After a crash the state must be one that the store had since its last durable one (the *history*,
 * as copies of the model), the last one when only the process was killed; and verify must find
 * nothing.
 */
#include <string.h>

#include "format/bytes.h"
#include "store/options.h"
#include "store/store.h"
#include "tests/fuzz.h"
#include "tests/model.h"
#include "tests/sim_io.h"

#define DIRECTORY       "/store"
#define OPERATIONS_MOST 300u
#define HISTORY_MOST    64u
#define KEY_MOST        400u
#define VALUE_MOST      20000u
#define COUNT(array)    (sizeof(array) / sizeof(array)[0])

struct program {
	struct cairn_input in;
	int sync_mode;
	struct sim_disk *disk;
	cairn *db;
	cairn_batch *batch;
	struct model model;
	struct model history[HISTORY_MOST]; /* [0]: durable; the last one: as now */
	size_t history_count;
	/* An open view, with what it has to show, and perhaps an iterator of it. */
	cairn_view *view;
	struct model seen;
	cairn_iter *iter;
	size_t low, high, at; /* of `seen`: the range, and where it stands or MODEL_NONE */
	uint8_t key[KEY_MOST], other_key[KEY_MOST], value[VALUE_MOST], answer[VALUE_MOST];
};

/* ---------------------------------------------------------------- arguments */

/* Few keys, so that they meet: some short, some of the same long beginning. */
static cairn_slice take_key(struct program *p, uint8_t *buffer)
{
	unsigned shape = cairn_input8(&p->in), last = cairn_input8(&p->in);
	size_t size = shape < 128 ? shape % 4 : shape < 240 ? 20 : KEY_MOST;
	memset(buffer, shape < 128 ? (int)(shape >> 2 & 3) : 'p', size);
	if (size)
		buffer[size - 1] = (uint8_t)last;
	return (cairn_slice){buffer, size};
}

static cairn_slice take_value(struct program *p)
{
	unsigned shape = cairn_input8(&p->in);
	size_t size = shape < 200 ? shape : shape < 250 ? shape * 10 : VALUE_MOST;
	memset(p->value, (int)cairn_input_left(&p->in) & 0xff, size);
	return (cairn_slice){p->value, size};
}

static unsigned take_below(struct program *p, unsigned n)
{
	return cairn_input8(&p->in) % n;
}

/* ---------------------------------------------------------------- history */

/* All that was written is durable. */
static void forget_history(struct program *p)
{
	for (size_t i = 0; i < p->history_count; i++)
		model_release(&p->history[i]);
	model_copy(&p->history[0], &p->model);
	p->history_count = 1;
}

static void sync_store(struct program *p)
{
	FUZZ_CHECK(cairn_sync(p->db) == 0);
	forget_history(p);
}

/* The model has changed by one write. */
static void note_write(struct program *p, unsigned flags)
{
	if (p->history_count == HISTORY_MOST) {
		sync_store(p);
		return;
	}
	model_copy(&p->history[p->history_count++], &p->model);
	if ((flags & CAIRN_SYNC) || p->sync_mode == CAIRN_SYNC_FULL)
		forget_history(p);
}

/* ---------------------------------------------------------------- opening, closing */

static void open_store(struct program *p)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 65536;
	options.sync_mode = p->sync_mode;
	FUZZ_CHECK(cairn_open_with(sim_disk_io(p->disk), DIRECTORY, &options, &p->db) == 0);
}

static void close_iterator(struct program *p)
{
	cairn_iter_close(p->iter);
	p->iter = NULL;
}

static void close_view(struct program *p)
{
	close_iterator(p);
	if (p->view)
		FUZZ_CHECK(cairn_view_close(p->view) == 0);
	p->view = NULL;
	model_release(&p->seen);
}

static void close_store(struct program *p)
{
	close_view(p);
	FUZZ_CHECK(cairn_close(p->db) == 0);
	FUZZ_CHECK(sim_disk_open_count(p->disk) == 0);
}

static int print_finding(void *context, const cairn_finding *finding)
{
	(void)context;
	fprintf(stderr, "%s: %s\n", finding->path, finding->message);
	return 0;
}

static void verify_store(struct program *p)
{
	cairn_options resolved;
	FUZZ_CHECK(cairn_options_resolve(NULL, &resolved) == 0);
	FUZZ_CHECK(cairn_verify_with(
		       sim_disk_io(p->disk), DIRECTORY, &resolved, print_finding, NULL) == 0);
}

static bool holds(struct program *p, const struct model *model)
{
	cairn_view *view;
	cairn_iter *iter;
	size_t i = 0;
	bool same = true;
	FUZZ_CHECK(cairn_view_open(p->db, &view) == 0);
	FUZZ_CHECK(cairn_iter_open(view, NULL, &iter) == 0);
	int rc = cairn_iter_first(iter);
	for (; rc == 0 && same; rc = cairn_iter_next(iter), i++)
		same = i < model->count && model_equal(cairn_iter_key(iter), model_key(model, i)) &&
		       model_equal(cairn_iter_value(iter), model_value(model, i));
	FUZZ_CHECK(rc == 0 || rc == CAIRN_END);
	cairn_iter_close(iter);
	FUZZ_CHECK(cairn_view_close(view) == 0);
	return same && i == model->count;
}

static void reopen(struct program *p)
{
	close_store(p);
	verify_store(p);
	open_store(p);
	FUZZ_CHECK(holds(p, &p->model));
	forget_history(p);
}

/* The newest state that it can be, since equal states can follow each other. */
static void crash(struct program *p)
{
	enum sim_loss loss = (enum sim_loss)take_below(p, SIM_LOSSES);
	struct sim_disk *after = sim_disk_crash(p->disk, loss, cairn_input8(&p->in));
	close_store(p);
	sim_disk_free(p->disk);
	p->disk = after;
	open_store(p);
	size_t i = p->history_count;
	while (i > 0 && !holds(p, &p->history[i - 1]))
		i--;
	FUZZ_CHECK(loss == SIM_LOSE_NOTHING ? i == p->history_count : i > 0);
	model_release(&p->model);
	model_copy(&p->model, &p->history[i - 1]);
	forget_history(p);
	verify_store(p);
}

/* ---------------------------------------------------------------- writing */

static unsigned take_flags(struct program *p)
{
	return take_below(p, 16) == 1 ? CAIRN_SYNC : 0;
}

static void put(struct program *p)
{
	unsigned flags = take_flags(p);
	cairn_slice key = take_key(p, p->key), value = take_value(p);
	FUZZ_CHECK(cairn_put(p->db, key, value, flags) == 0);
	model_put(&p->model, key, value);
	note_write(p, flags);
}

static void erase(struct program *p)
{
	unsigned flags = take_flags(p);
	cairn_slice key = take_key(p, p->key);
	FUZZ_CHECK(cairn_delete(p->db, key, flags) == 0);
	model_delete(&p->model, key);
	note_write(p, flags);
}

static void write_batch(struct program *p)
{
	unsigned flags = take_flags(p), count = take_below(p, 20);
	cairn_batch_clear(p->batch);
	for (unsigned i = 0; i < count; i++) {
		cairn_slice key = take_key(p, p->key);
		if (take_below(p, 4)) {
			cairn_slice value = take_value(p);
			FUZZ_CHECK(cairn_batch_put(p->batch, key, value) == 0);
			model_put(&p->model, key, value);
		} else {
			FUZZ_CHECK(cairn_batch_delete(p->batch, key) == 0);
			model_delete(&p->model, key);
		}
	}
	FUZZ_CHECK(cairn_write(p->db, p->batch, flags) == 0);
	note_write(p, flags);
}

static void flush(struct program *p)
{
	FUZZ_CHECK(cairn_flush(p->db) == 0);
	forget_history(p);
}

static void compact(struct program *p)
{
	FUZZ_CHECK(cairn_compact(p->db) == 0);
	forget_history(p);
	FUZZ_CHECK(holds(p, &p->model));
}

static void work_in_background(struct program *p)
{
	sim_disk_advance(p->disk, UINT64_C(50000000) * cairn_input8(&p->in));
	int rc = 1;
	for (unsigned steps = take_below(p, 8); steps > 0 && rc > 0; steps--)
		rc = cairn_background_step(p->db);
	FUZZ_CHECK(rc >= 0);
}

/* ---------------------------------------------------------------- reading */

static bool is_answer(const struct model *model, cairn_slice key, int rc, cairn_slice value)
{
	size_t index = model_find(model, key);
	if (index == MODEL_NONE)
		return rc == CAIRN_NOT_FOUND;
	return rc == 0 && model_equal(value, model_value(model, index));
}

static void get(struct program *p)
{
	cairn_slice key = take_key(p, p->key);
	size_t size;
	int rc = cairn_get(p->db, key, p->answer, sizeof p->answer, &size);
	FUZZ_CHECK(is_answer(&p->model, key, rc, (cairn_slice){p->answer, size}));
}

struct questions {
	struct program *program;
	cairn_slice keys[4];
};

static int check_answer(void *context, size_t i, int rc, cairn_slice value)
{
	struct questions *questions = context;
	FUZZ_CHECK(is_answer(&questions->program->model, questions->keys[i], rc, value));
	return 0;
}

static void multi_get(struct program *p)
{
	uint8_t buffers[4][KEY_MOST];
	struct questions questions = {.program = p};
	size_t count = take_below(p, 5);
	for (size_t i = 0; i < count; i++)
		questions.keys[i] = take_key(p, buffers[i]);
	FUZZ_CHECK(cairn_multi_get(p->db, questions.keys, count, check_answer, &questions) == 0);
}

static void open_view(struct program *p)
{
	close_view(p);
	FUZZ_CHECK(cairn_view_open(p->db, &p->view) == 0);
	model_copy(&p->seen, &p->model);
}

static void view_get(struct program *p)
{
	if (!p->view)
		open_view(p);
	cairn_slice key = take_key(p, p->key), value;
	int rc = cairn_view_get(p->view, key, &value);
	FUZZ_CHECK(is_answer(&p->seen, key, rc, value));
}

/* Ranges [from, to), each end perhaps open, or a prefix. */
static void open_iterator(struct program *p)
{
	if (!p->view)
		open_view(p);
	close_iterator(p);
	unsigned ends = take_below(p, 8);
	cairn_slice from = take_key(p, p->key), to = take_key(p, p->other_key);
	cairn_range range = {.from = ends & 1 ? &from : NULL,
	    .to = ends & 2 ? &to : NULL,
	    .prefix = ends == 4 ? &from : NULL};
	FUZZ_CHECK(cairn_iter_open(p->view, &range, &p->iter) == 0);
	p->low = ends & 1 || ends == 4 ? model_below(&p->seen, from) : 0;
	p->high = ends & 2 ? model_below(&p->seen, to) : p->seen.count;
	if (ends == 4)
		for (p->high = p->low; p->high < p->seen.count &&
				       model_begins_with(model_key(&p->seen, p->high), from);)
			p->high++;
	p->high = p->high < p->low ? p->low : p->high;
	p->at = MODEL_NONE;
}

/* Where the iterator has to be after the move, and whether it is. */
static void check_iterator(struct program *p, int rc, size_t at)
{
	p->at = at != MODEL_NONE && at >= p->low && at < p->high ? at : MODEL_NONE;
	FUZZ_CHECK(rc == (p->at == MODEL_NONE ? CAIRN_END : 0));
	if (p->at == MODEL_NONE) {
		FUZZ_CHECK(!cairn_iter_key(p->iter).data && !cairn_iter_value(p->iter).data);
		return;
	}
	FUZZ_CHECK(model_equal(cairn_iter_key(p->iter), model_key(&p->seen, p->at)));
	FUZZ_CHECK(model_equal(cairn_iter_value(p->iter), model_value(&p->seen, p->at)));
}

static void seek(struct program *p)
{
	if (!p->iter)
		open_iterator(p);
	cairn_slice key = take_key(p, p->key);
	size_t at = model_below(&p->seen, key);
	check_iterator(p, cairn_iter_seek(p->iter, key), at < p->low ? p->low : at);
}

static void seek_le(struct program *p)
{
	if (!p->iter)
		open_iterator(p);
	cairn_slice key = take_key(p, p->key);
	size_t above = model_below(&p->seen, key);
	above += model_find(&p->seen, key) != MODEL_NONE;
	above = above < p->high ? above : p->high;
	check_iterator(p, cairn_iter_seek_le(p->iter, key), above > 0 ? above - 1 : MODEL_NONE);
}

static void move(struct program *p)
{
	if (!p->iter)
		open_iterator(p);
	switch (take_below(p, 6)) {
	case 0:
		check_iterator(p, cairn_iter_first(p->iter), p->low);
		break;
	case 1:
		check_iterator(p, cairn_iter_last(p->iter), p->high > 0 ? p->high - 1 : MODEL_NONE);
		break;
	case 2:
	case 3:
		check_iterator(
		    p, cairn_iter_next(p->iter), p->at == MODEL_NONE ? MODEL_NONE : p->at + 1);
		break;
	default:
		check_iterator(p, cairn_iter_prev(p->iter),
		    p->at == MODEL_NONE || p->at == 0 ? MODEL_NONE : p->at - 1);
		break;
	}
}

/* ---------------------------------------------------------------- the program */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const operations[])(struct program *) = {put, put, put, put, erase, erase,
	    write_batch, get, multi_get, open_view, view_get, open_iterator, seek, seek_le, move,
	    move, flush, compact, work_in_background, sync_store, close_view, reopen, crash};
	struct program *p = calloc(1, sizeof *p);
	FUZZ_CHECK(p);
	p->in = cairn_input_of(data, size);
	p->sync_mode = (int)take_below(p, 3);
	p->disk = sim_disk_new(1);
	p->batch = cairn_batch_new();
	FUZZ_CHECK(p->batch);
	open_store(p);
	forget_history(p);
	for (unsigned i = 0; i < OPERATIONS_MOST && cairn_input_left(&p->in) > 0; i++)
		operations[take_below(p, COUNT(operations))](p);
	reopen(p);
	close_store(p);
	for (size_t i = 0; i < p->history_count; i++)
		model_release(&p->history[i]);
	model_release(&p->model);
	cairn_batch_free(p->batch);
	sim_disk_free(p->disk);
	free(p);
	return 0;
}
