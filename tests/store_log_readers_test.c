/*
 * tests/store_log_readers_test.c -- readers beside a writer that changes the files between any two
 * of their calls.
 *
 * Reader and writer share a simulated disk and a thread: before a call of the reader the writer
 * makes its move, whatever that is. What the reader finds must be the writer's history up to some
 * moment between its begin and its end, or it says that it was outrun (CAIRN_CONFLICT). It never
 * takes for damage what was only under way.
 */
#include "tests/test.h"

#include "store/options.h"
#include "store/store.h"
#include "tests/log_life.h"

#define KIB 1024u

enum move {
	MOVE_PUT,
	MOVE_SYNCED_PUT,
	MOVE_ON,      /* to the next segment, and to a record there that vouches for its first */
	MOVE_RECYCLE, /* so much that a file of the log has another life */
	MOVE_FLUSH,
	MOVE_COMPACT,
	MOVE_WORK,
	MOVE_REST, /* spares go, and so does the log */
	MOVE_REOPEN,
	MOVES
};

static const char *const move_names[MOVES] = {"put", "synced put", "next segment", "other lives",
    "flush", "compact", "background work", "rest", "close and open"};

struct beside {
	struct log_life life;
	struct cairn_io_ops ops;
	bool reading; /* the calls are the reader's */
	uint64_t calls;
	uint64_t call; /* before which the writer moves */
	bool again;    /* and before each call behind it … */
	bool at_will;  /* … or not, whatever comes to its mind */
	enum move move;
};

static uint64_t seed;
static struct beside *current;

/* ---------------------------------------------------------------- the writer */

static void make_move(struct log_life *life, enum move move)
{
	switch (move) {
	case MOVE_PUT:
	case MOVE_SYNCED_PUT:
		log_life_put(life, 300, move == MOVE_SYNCED_PUT);
		break;
	case MOVE_ON:
		log_life_put(life, 19500, true);
		log_life_put(life, 300, false);
		break;
	case MOVE_RECYCLE:
		for (int i = 0; i < 6; i++) {
			log_life_put(life, 25000, false);
			log_life_work(life);
		}
		break;
	case MOVE_FLUSH:
		log_life_put(life, 300, false);
		assert_int_equal(cairn_flush(life->db), 0);
		break;
	case MOVE_COMPACT:
		log_life_put(life, 300, false);
		assert_int_equal(cairn_compact(life->db), 0);
		break;
	case MOVE_WORK:
		log_life_work(life);
		break;
	case MOVE_REST:
		assert_int_equal(cairn_flush(life->db), 0);
		log_life_work(life);
		sim_disk_advance(life->disk, 3 * UINT64_C(1000000000));
		log_life_work(life);
		break;
	case MOVE_REOPEN:
		log_life_close(life);
		log_life_open(life);
		break;
	case MOVES:
		break;
	}
}

/* A reader opens all runs, and each call is one more move: they must not become more and more. */
static void keep_runs_few(cairn *db)
{
	cairn_stats stats;
	assert_int_equal(cairn_stat(db, &stats), 0);
	if (stats.run_count > 8)
		assert_int_equal(cairn_wait(db), 0);
}

/* Before each call of the reader. */
static void moment(void)
{
	struct beside *beside = current;
	if (!beside->reading)
		return;
	beside->calls++;
	if (beside->calls != beside->call && !(beside->again && beside->calls > beside->call))
		return;
	uint64_t *random = &beside->life.random;
	if (beside->at_will && test_random(random) % 8)
		return;
	beside->reading = false;
	make_move(&beside->life, beside->at_will ? test_random(random) % MOVES : beside->move);
	keep_runs_few(beside->life.db);
	beside->reading = true;
}

static const struct cairn_io_ops *real;

static int moved_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	moment();
	return real->open(io, path, mode, file);
}

static int moved_status(struct cairn_file *file, struct cairn_file_status *status)
{
	moment();
	return real->status(file, status);
}

static int moved_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	moment();
	return real->read(file, data, size, offset, done);
}

static int moved_map(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	moment();
	return real->map(file, size, map);
}

static int moved_list(struct cairn_io *io, const char *path,
    int (*each)(void *context, const char *name), void *context)
{
	moment();
	return real->list(io, path, each, context);
}

static void begin(struct beside *beside)
{
	*beside = (struct beside){.calls = 0};
	log_life_begin(&beside->life, seed, 64 * KIB);
	struct cairn_io *io = sim_disk_io(beside->life.disk);
	real = io->ops;
	beside->ops = *real;
	beside->ops.open = moved_open;
	beside->ops.status = moved_status;
	beside->ops.read = moved_read;
	beside->ops.map = moved_map;
	beside->ops.list = moved_list;
	io->ops = &beside->ops;
	current = beside;
}

static void end(struct beside *beside)
{
	sim_disk_io(beside->life.disk)->ops = real;
	log_life_end(&beside->life);
}

/* ---------------------------------------------------------------- the reader */

/* A log whose segment is all but full, with a tail that is not synced, and a run. The table is not
 * so full that the next put flushes it. */
static void write_some(struct log_life *life)
{
	assert_int_equal(cairn_flush(life->db), 0);
	log_life_work(life);
	log_life_put(life, 20000, true);
	log_life_put(life, 20000, false);
	log_life_work(life);
	for (int i = 0; i < 4; i++)
		log_life_put(life, 500, i == 2);
}

struct outcome {
	unsigned read, outrun;
};

/* What a reader that opens now finds. */
static void open_beside(struct beside *beside, struct outcome *outcome)
{
	cairn_options options = beside->life.options;
	const struct crash_history *history = &beside->life.history;
	size_t least = history->acknowledged, count;
	uint64_t state[100];
	struct crash_verdict verdict;
	cairn *db;
	options.read_only = 1;
	beside->calls = 0;
	beside->reading = true;
	int rc = cairn_open_with(sim_disk_io(beside->life.disk), LOG_LIFE_STORE, &options, &db);
	beside->reading = false;
	if (rc == CAIRN_CONFLICT) {
		outcome->outrun++;
		return;
	}
	if (rc)
		fail_msg("%s before call %llu: %d: %s", move_names[beside->move],
		    (unsigned long long)beside->call, rc, cairn_message(NULL));
	outcome->read++;
	if (!crash_read(db, history, state, &verdict))
		fail_msg("%s", verdict.text);
	if (!crash_history_match(history, state, least, history->acknowledged, &count))
		fail_msg("%s before call %llu: the state is none between %zu and %zu",
		    move_names[beside->move], (unsigned long long)beside->call, least,
		    history->acknowledged);
	assert_int_equal(cairn_close(db), 0);
}

static int print_finding(void *context, const cairn_finding *finding)
{
	(void)context;
	printf("%s: at offset %llu: %s\n", finding->path, (unsigned long long)finding->offset,
	    finding->message);
	return 0;
}

static void verify_beside(struct beside *beside, struct outcome *outcome)
{
	cairn_options resolved;
	cairn_options_resolve(&beside->life.options, &resolved);
	beside->calls = 0;
	beside->reading = true;
	int rc = cairn_verify_with(
	    sim_disk_io(beside->life.disk), LOG_LIFE_STORE, &resolved, print_finding, NULL);
	beside->reading = false;
	if (rc && rc != CAIRN_CONFLICT)
		fail_msg("%s before call %llu: verify: %d", move_names[beside->move],
		    (unsigned long long)beside->call, rc);
	outcome->read += rc == 0;
	outcome->outrun += rc == CAIRN_CONFLICT;
}

typedef void reader(struct beside *beside, struct outcome *outcome);

/* One move before each of the reader's calls in turn. */
static void move_once(reader *read)
{
	struct beside beside;
	struct outcome outcome = {0, 0};
	begin(&beside);
	for (beside.move = 0; beside.move < MOVES; beside.move++) {
		beside.call = 0;
		do {
			beside.call++;
			write_some(&beside.life);
			read(&beside, &outcome);
		} while (beside.calls >= beside.call);
		assert_true(beside.call > 8);
	}
	printf("%u times read, %u times outrun\n", outcome.read, outcome.outrun);
	assert_int_equal(outcome.outrun, 0);
	end(&beside);
}

static void an_open_sees_some_moment_whenever_the_writer_moves(void **state)
{
	(void)state;
	move_once(open_beside);
}

static void verify_finds_nothing_whenever_the_writer_moves(void **state)
{
	(void)state;
	move_once(verify_beside);
}

/* A move before every call: some of them make each try of a reader worthless. */
static void move_on_and_on(reader *read)
{
	static const enum move moves[] = {
	    MOVE_PUT, MOVE_SYNCED_PUT, MOVE_ON, MOVE_FLUSH, MOVE_REST};
	struct beside beside;
	struct outcome outcome = {0, 0};
	begin(&beside);
	beside.again = true;
	beside.call = 1;
	for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
		beside.move = moves[i];
		write_some(&beside.life);
		read(&beside, &outcome);
	}
	printf("%u times read, %u times outrun\n", outcome.read, outcome.outrun);
	assert_true(outcome.outrun > 0 && outcome.read > 0);
	end(&beside);
}

static void move_at_will(reader *read)
{
	struct beside beside;
	struct outcome outcome = {0, 0};
	begin(&beside);
	beside.again = beside.at_will = true;
	for (int i = 0; i < (test_full() ? 5000 : 30); i++) {
		write_some(&beside.life);
		beside.call = 1 + test_random(&beside.life.random) % 20;
		read(&beside, &outcome);
	}
	printf("%u times read, %u times outrun\n", outcome.read, outcome.outrun);
	assert_true(outcome.read > 0);
	end(&beside);
}

static void an_open_sees_some_moment_whatever_the_writer_does(void **state)
{
	(void)state;
	move_at_will(open_beside);
}

static void verify_finds_nothing_whatever_the_writer_does(void **state)
{
	(void)state;
	move_at_will(verify_beside);
}

static void an_open_that_is_outrun_says_so(void **state)
{
	(void)state;
	move_on_and_on(open_beside);
}

static void a_verify_that_is_outrun_says_so(void **state)
{
	(void)state;
	move_on_and_on(verify_beside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_open_sees_some_moment_whenever_the_writer_moves),
	    cmocka_unit_test(verify_finds_nothing_whenever_the_writer_moves),
	    cmocka_unit_test(an_open_sees_some_moment_whatever_the_writer_does),
	    cmocka_unit_test(verify_finds_nothing_whatever_the_writer_does),
	    cmocka_unit_test(an_open_that_is_outrun_says_so),
	    cmocka_unit_test(a_verify_that_is_outrun_says_so),
	};
	seed = test_seed(52);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
