/*
 * tests/scenario_s17_without_uring_test.c -- S17: without io_uring, and with one that does things
 * by halves, late, in another order or not at all.
 *
 * One history of operations is run on each of them, every answer compared with a model. Random
 * bytes and the clock are the test's, so that the files can be compared as well. Expected: the same
 * answers, the same bytes in the same files as with plain reads and writes; the numbers name the
 * back end; an error of a write is the error of the flush that wrote, and not the end.
 *
 * Rings are refused by a seccomp filter, in a child for each code, since a filter stays for good.
 * The rest is done by functions of this program that stand before those of liburing: without
 * orders in `orders` they do what those do.
 */
#include "tests/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <sys/syscall.h>

#include "store/io_posix.h"
#include "store/io_select.h"
#include "store/store.h"
#include "tests/child.h"
#include "tests/match.h"
#include "tests/refuse.h"
#include "tests/sample.h"
#include "tests/tree.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define SECOND       UINT64_C(1000000000)
#define REPLACED_MAX 8u
#define WRITE_MIN    4096u /* shorter entries are not cut */

/* ---------------------------------------------------------------- in front of liburing */

static struct {
	bool late;         /* nothing is submitted before somebody waits … */
	bool reversed;     /* … and then the last one first */
	bool halves;       /* half of each longer write is done */
	bool starved;      /* three of four waits end before there is anything */
	unsigned every;    /* each entry of so many does nothing and … */
	int answer;        /* … is answered with this -errno, */
	unsigned answers;  /* so often at most */
	int broken;        /* no wait works: the ring is of no use any more */
	unsigned entries;  /* counts: that went to the kernel, … */
	unsigned turned;   /* … that did so before an older one, … */
	unsigned cut;      /* … half, … */
	unsigned replaced; /* … not at all, … */
	unsigned waits;    /* … and waits of any kind */
} orders;

/* Entries that do nothing, until their completion is replaced: by user_data. */
static uint64_t replaced[REPLACED_MAX];

static void replace(struct io_uring_sqe *entry)
{
	uint64_t user_data = entry->user_data;
	for (size_t i = 0; i < REPLACED_MAX; i++) {
		if (replaced[i])
			continue;
		io_uring_prep_nop(entry);
		entry->user_data = replaced[i] = user_data;
		orders.replaced++;
		orders.answers--;
		return;
	}
}

static void change(struct io_uring_sqe *entry)
{
	orders.entries++;
	if (orders.halves && entry->len > WRITE_MIN) {
		entry->len /= 2;
		orders.cut++;
	}
	if (orders.every && orders.answers && orders.entries % orders.every == 0)
		replace(entry);
}

static struct io_uring_sqe *entry_of(struct io_uring *ring, unsigned i)
{
	return &ring->sq.sqes[i & *ring->sq.kring_mask];
}

static void reverse(struct io_uring *ring, unsigned first, unsigned end)
{
	for (; first + 1 < end; first++, end--) {
		struct io_uring_sqe entry = *entry_of(ring, first);
		*entry_of(ring, first) = *entry_of(ring, end - 1);
		*entry_of(ring, end - 1) = entry;
		orders.turned++;
	}
}

/* What does nothing is completed before the submission returns. */
static void answer(struct io_uring *ring)
{
	struct io_uring_cqe *completion;
	unsigned head;
	io_uring_for_each_cqe(ring, head, completion)
	{
		for (size_t i = 0; i < REPLACED_MAX; i++) {
			if (completion->user_data == replaced[i]) {
				completion->res = orders.answer;
				replaced[i] = 0;
			}
		}
	}
}

static int submit(struct io_uring *ring, unsigned wanted)
{
	static int (*real)(struct io_uring * ring, unsigned wanted);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
	if (orders.reversed)
		reverse(ring, ring->sq.sqe_head, ring->sq.sqe_tail);
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
		change(entry_of(ring, i));
	int result = real(ring, wanted);
	answer(ring);
	return result;
}

int io_uring_submit(struct io_uring *ring)
{
	return orders.late ? -EAGAIN : submit(ring, 0);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wanted)
{
	static const int codes[] = {-EINTR, -EAGAIN, -EBUSY};
	unsigned i = orders.waits++ % 4;
	if (orders.broken)
		return orders.broken;
	return orders.starved && i < COUNT(codes) ? codes[i] : submit(ring, wanted);
}

/* ---------------------------------------------------------------- the history */

static uint64_t clock_now, chance;

static uint64_t tell_time(struct cairn_io *io)
{
	(void)io;
	return clock_now += 1000;
}

static int tell_chance(struct cairn_io *io, void *data, size_t size)
{
	(void)io;
	sample_bytes(&chance, data, size);
	return 0;
}

/* A back end whose clock and random bytes are those of the test. */
struct tamed_io {
	struct cairn_io *io;
	const struct cairn_io_ops *real;
	struct cairn_io_ops ops;
};

static int tamed_open(struct tamed_io *tamed, int backend)
{
	int rc = cairn_io_select(backend, &tamed->io);
	if (rc)
		return rc;
	tamed->real = tamed->io->ops;
	tamed->ops = *tamed->real;
	tamed->ops.now = tell_time;
	tamed->ops.entropy = tell_chance;
	tamed->io->ops = &tamed->ops;
	clock_now = 1000 * SECOND;
	chance = 17;
	return 0;
}

static void tamed_close(struct tamed_io *tamed)
{
	tamed->io->ops = tamed->real;
	cairn_io_release(tamed->io);
}

struct walk {
	struct tamed_io tamed;
	const char *path;
	const char *name; /* of the back end, as stat has it */
	cairn *db;
	uint64_t random;
	struct model model;
	uint8_t key[SAMPLE_KEY_SIZE];
	uint8_t value[SAMPLE_VALUE_SIZE];
};

static int walk_open(struct walk *walk)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 2u << 20;
	return cairn_open_with(walk->tamed.io, walk->path, &options, &walk->db);
}

/* Most values are small; these make runs of more writes than a queue takes at once. */
static cairn_slice walk_value(struct walk *walk)
{
	if (test_random(&walk->random) % 3)
		return sample_value(&walk->random, walk->value);
	return sample_bytes(&walk->random, walk->value, test_random(&walk->random) % 30000);
}

static int walk_put(struct walk *walk)
{
	cairn_slice key = sample_key(&walk->random, walk->key), value = walk_value(walk);
	model_put(&walk->model, key, value);
	return cairn_put(walk->db, key, value, test_random(&walk->random) % 50 ? 0 : CAIRN_SYNC);
}

static int walk_delete(struct walk *walk)
{
	cairn_slice key = sample_key(&walk->random, walk->key);
	model_delete(&walk->model, key);
	return cairn_delete(walk->db, key, 0);
}

static int walk_batch(struct walk *walk)
{
	cairn_batch *batch = cairn_batch_new();
	int rc = batch ? 0 : -ENOMEM;
	for (size_t i = test_random(&walk->random) % 10; i > 0 && !rc; i--) {
		cairn_slice key = sample_key(&walk->random, walk->key);
		cairn_slice value = walk_value(walk);
		model_put(&walk->model, key, value);
		rc = cairn_batch_put(batch, key, value);
	}
	if (!rc)
		rc = cairn_write(walk->db, batch, 0);
	cairn_batch_free(batch);
	return rc;
}

static int walk_get(struct walk *walk)
{
	cairn_slice key = sample_key(&walk->random, walk->key);
	size_t size, at = model_find(&walk->model, key);
	int rc = cairn_get(walk->db, key, walk->value, sizeof walk->value, &size);
	if (at == MODEL_NONE)
		return rc == CAIRN_NOT_FOUND ? 0 : CAIRN_CORRUPT;
	cairn_slice found = {walk->value, size};
	return rc || model_equal(found, model_value(&walk->model, at)) ? rc : CAIRN_CORRUPT;
}

/* What the background does when nobody has written for a while. */
static int walk_rest(struct walk *walk)
{
	int rc;
	clock_now += test_random(&walk->random) % 3 * SECOND;
	while ((rc = cairn_background_step(walk->db)) > 0)
		;
	return rc;
}

static int walk_step(struct walk *walk)
{
	uint64_t what = test_random(&walk->random) % 1000;
	if (what < 550)
		return walk_put(walk);
	if (what < 700)
		return walk_delete(walk);
	if (what < 750)
		return walk_batch(walk);
	if (what < 980)
		return walk_get(walk);
	if (what < 990)
		return walk_rest(walk);
	return what < 997 ? cairn_flush(walk->db) : cairn_compact(walk->db);
}

/* Now and then everything is compared, also behind a reopening. */
static int walk_check(struct walk *walk)
{
	cairn_stats stats;
	CHILD_CHECK(cairn_stat(walk->db, &stats) == 0);
	CHILD_CHECK(strcmp(stats.io, walk->name) == 0);
	CHILD_CHECK(stats.last_error == 0);
	CHILD_CHECK(match_store(walk->db, &walk->model));
	CHILD_CHECK(cairn_close(walk->db) == 0);
	CHILD_CHECK(walk_open(walk) == 0);
	CHILD_CHECK(match_store(walk->db, &walk->model));
	return 0;
}

static int walk_all(struct walk *walk)
{
	walk->random = 17;
	CHILD_CHECK(walk_open(walk) == 0);
	for (unsigned i = 1, end = test_full() ? 50000 : 1200; i <= end; i++) {
		CHILD_CHECK(walk_step(walk) == 0);
		if (i % 500 == 0 && walk_check(walk))
			return 1;
	}
	CHILD_CHECK(cairn_compact(walk->db) == 0);
	CHILD_CHECK(walk_put(walk) == 0);
	if (walk_check(walk))
		return 1;
	CHILD_CHECK(cairn_close(walk->db) == 0);
	CHILD_CHECK(cairn_verify(walk->path, NULL, NULL, NULL) == 0);
	model_release(&walk->model);
	return 0;
}

/* ---------------------------------------------------------------- on each back end */

/* How a child gets its back end, and the directory that it leaves for comparison. */
struct trial {
	char path[4200];
	int backend;
	const char *name;  /* that it has to have */
	int refuse_before; /* the kernel gives no ring: with this errno */
	int refuse_after;  /* it gives none any more */
};

struct scene {
	char *directory;
	struct tree plain; /* what plain reads and writes leave */
};

static int refuse_rings(int code)
{
	if (!code || refuse(SYS_io_uring_setup, REFUSE_ANY_ARGUMENT, code) == 0)
		return 0;
	printf("skipped: this process may not install a seccomp filter\n");
	return CHILD_SKIP;
}

static int try_walk(void *context)
{
	struct trial *trial = context;
	struct walk *walk = calloc(1, sizeof *walk);
	CHILD_CHECK(walk);
	walk->path = trial->path;
	walk->name = trial->name;
	unsetenv("CAIRN_IO");
	int result = refuse_rings(trial->refuse_before);
	if (result)
		return result;
	CHILD_CHECK(tamed_open(&walk->tamed, trial->backend) == 0);
	result = refuse_rings(trial->refuse_after);
	if (!result)
		result = walk_all(walk);
	tamed_close(&walk->tamed);
	free(walk);
	if (result)
		return result;
	bool in_ring = trial->backend == CAIRN_IO_URING && !trial->refuse_after;
	CHILD_CHECK((orders.entries > 0) == in_ring);
	CHILD_CHECK((orders.turned > 0) == orders.reversed);
	CHILD_CHECK((orders.cut > 0) == orders.halves);
	CHILD_CHECK((orders.replaced > 0) == (orders.every > 0));
	return 0;
}

static void read_files(struct tree *tree, const char *path)
{
	tree_read(tree, path);
	tree_forget(tree, "LOCK"); /* the pid is in it */
}

static void assert_same(const struct scene *scene, struct trial *trial)
{
	struct tree found;
	static unsigned number;
	snprintf(trial->path, sizeof trial->path, "%s/trial%u", scene->directory, number++);
	run_in_child(try_walk, trial);
	read_files(&found, trial->path);
	assert_true(tree_same(&found, &scene->plain, TREE_BYTES));
	tree_release(&found);
}

static int enter(void **state)
{
	static struct scene scene;
	struct trial plain = {.backend = CAIRN_IO_POSIX, .name = "posix"};
	scene.directory = test_directory();
	snprintf(plain.path, sizeof plain.path, "%s/plain", scene.directory);
	*state = &scene;
	if (child_end(child_start(try_walk, &plain)))
		return -1;
	read_files(&scene.plain, plain.path);
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	tree_release(&scene->plain);
	test_remove_directory(scene->directory);
	return 0;
}

static int no_orders(void **state)
{
	(void)state;
	memset(&orders, 0, sizeof orders);
	return 0;
}

static void skip_without_ring(void)
{
	struct cairn_io *io;
	if (cairn_io_select(CAIRN_IO_URING, &io)) {
		printf("skipped: %s\n", cairn_error_text());
		skip();
	}
	cairn_io_release(io);
}

static void a_ring_that_is_refused_is_not_missed(void **state)
{
	static const int codes[] = {ENOSYS, EPERM, ENOMEM};
	for (size_t i = 0; i < COUNT(codes); i++) {
		struct trial trial = {.name = "posix", .refuse_before = codes[i]};
		assert_same(*state, &trial);
	}
}

static void a_ring_that_is_refused_later_is_not_missed(void **state)
{
	skip_without_ring();
	struct trial trial = {
	    .backend = CAIRN_IO_URING, .name = "io_uring", .refuse_after = ENOMEM};
	assert_same(*state, &trial);
}

static void assert_same_by_ring(void **state)
{
	skip_without_ring();
	struct trial trial = {.backend = CAIRN_IO_URING, .name = "io_uring"};
	assert_same(*state, &trial);
}

static void a_ring_writes_the_same_bytes(void **state)
{
	assert_same_by_ring(state);
}

static void completions_may_come_in_any_order(void **state)
{
	orders.late = orders.reversed = true;
	assert_same_by_ring(state);
}

static void completions_may_be_short(void **state)
{
	orders.halves = true;
	assert_same_by_ring(state);
}

static void completions_may_say_try_again(void **state)
{
	static const int codes[] = {-EINTR, -EAGAIN, -ECANCELED};
	orders.every = 3;
	orders.answers = UINT32_MAX;
	for (size_t i = 0; i < COUNT(codes); i++) {
		orders.answer = codes[i];
		assert_same_by_ring(state);
	}
}

static void waiting_may_end_without_a_completion(void **state)
{
	orders.late = orders.starved = true;
	assert_same_by_ring(state);
}

static void all_of_it_at_once(void **state)
{
	orders.late = orders.reversed = orders.halves = orders.starved = true;
	orders.every = 5;
	orders.answers = UINT32_MAX;
	orders.answer = -EAGAIN;
	assert_same_by_ring(state);
}

/* ---------------------------------------------------------------- errors */

/* A store with a run and a memtable of some writes, in a ring. */
static struct walk *begin_errors(const struct scene *scene)
{
	static char path[4200];
	static unsigned number;
	struct walk *walk = calloc(1, sizeof *walk);
	assert_non_null(walk);
	snprintf(path, sizeof path, "%s/errors%u", scene->directory, number++);
	walk->path = path;
	walk->random = 4;
	assert_int_equal(tamed_open(&walk->tamed, CAIRN_IO_URING), 0);
	assert_int_equal(walk_open(walk), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(walk_put(walk), 0);
	assert_int_equal(cairn_flush(walk->db), 0);
	for (int i = 0; i < 60; i++)
		assert_int_equal(walk_put(walk), 0);
	return walk;
}

static void end_errors(struct walk *walk)
{
	assert_true(match_store(walk->db, &walk->model));
	assert_int_equal(cairn_flush(walk->db), 0);
	assert_int_equal(cairn_compact(walk->db), 0);
	assert_true(match_store(walk->db, &walk->model));
	assert_int_equal(cairn_close(walk->db), 0);
	assert_int_equal(walk_open(walk), 0);
	assert_true(match_store(walk->db, &walk->model));
	assert_int_equal(cairn_close(walk->db), 0);
	assert_true(match_verify(walk->path));
	model_release(&walk->model);
	tamed_close(&walk->tamed);
	free(walk);
}

/* Each of the writes of a flush in turn. */
static void an_error_of_a_write_is_told_and_not_the_end(void **state)
{
	static const int codes[] = {-ENOSPC, -EIO, -EDQUOT};
	skip_without_ring();
	for (size_t i = 0; i < COUNT(codes); i++) {
		struct walk *walk = begin_errors(*state);
		unsigned failed = 0;
		orders.answer = codes[i];
		for (unsigned every = 1; every < 10; every++) {
			orders.entries = 0;
			orders.every = every;
			orders.answers = 1;
			int rc = cairn_flush(walk->db);
			if (orders.answers) /* there were not that many, so it is flushed */
				break;
			assert_int_equal(rc, codes[i]);
			assert_non_null(strstr(cairn_message(walk->db), walk->path));
			assert_true(match_store(walk->db, &walk->model));
			failed++;
		}
		assert_true(failed > 0);
		no_orders(state);
		end_errors(walk);
	}
}

static void a_ring_that_breaks_is_told_and_not_the_end(void **state)
{
	skip_without_ring();
	struct walk *walk = begin_errors(*state);
	orders.late = true;
	orders.broken = -EBADF;
	assert_int_equal(cairn_flush(walk->db), -EBADF);
	assert_non_null(strstr(cairn_message(walk->db), "io_uring"));
	assert_int_equal(cairn_compact(walk->db), -EBADF);
	no_orders(state);
	end_errors(walk);
}

#define TEST(name) cmocka_unit_test_setup(name, no_orders)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_ring_that_is_refused_is_not_missed),
	    TEST(a_ring_that_is_refused_later_is_not_missed),
	    TEST(a_ring_writes_the_same_bytes),
	    TEST(completions_may_come_in_any_order),
	    TEST(completions_may_be_short),
	    TEST(completions_may_say_try_again),
	    TEST(waiting_may_end_without_a_completion),
	    TEST(all_of_it_at_once),
	    TEST(an_error_of_a_write_is_told_and_not_the_end),
	    TEST(a_ring_that_breaks_is_told_and_not_the_end),
	};
	return cmocka_run_group_tests(tests, enter, leave);
}
