/*
 * tests/scenario_s09_lock_test.c -- S09: one process writes, by whatever path it comes, until it
 * closes or ends; and what becomes of a handle, its lock and its descriptors across fork and exec.
 *
 * Every refusal names the pid that has the store. What a child may not do is checked in it; that it
 * has done nothing is checked by its parent, which goes on writing.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "store/io_posix.h"
#include "store/io_select.h"
#include "store/store.h"
#include "tests/child.h"
#include "tests/match.h"
#include "tests/mounts.h"
#include "tests/tree.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A directory, in it the place of a store and another path that leads there. */
struct scene {
	char *directory;
	char path[4200];
	char other[4200];
	cairn *db;
};

static cairn_slice text(const char *string)
{
	return (cairn_slice){string, strlen(string)};
}

static int enter(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	assert_non_null(scene);
	scene->directory = test_directory();
	snprintf(scene->path, sizeof scene->path, "%s/store", scene->directory);
	snprintf(scene->other, sizeof scene->other, "%s/other", scene->directory);
	*state = scene;
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	test_remove_directory(scene->directory);
	free(scene);
	return 0;
}

static int open_quietly(const char *path, cairn **db)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	return cairn_open(path, &options, db);
}

static cairn *open_store(const char *path)
{
	cairn *db;
	int rc = open_quietly(path, &db);
	if (rc)
		fail_msg("%s: %d: %s", path, rc, cairn_message(NULL));
	return db;
}

static bool refused_by(const char *path, long pid)
{
	char owner[64];
	cairn *db = (cairn *)&db;
	snprintf(owner, sizeof owner, "locked by pid %ld", pid);
	return open_quietly(path, &db) == CAIRN_LOCKED && !db &&
	       strstr(cairn_message(NULL), owner) && strstr(cairn_message(NULL), path);
}

static bool holds(cairn *db, const char *key, const char *value)
{
	char found[64];
	size_t size;
	return cairn_get(db, text(key), found, sizeof found, &size) == 0 &&
	       model_equal((cairn_slice){found, size}, text(value));
}

/* ---------------------------------------------------------------- the second one is refused */

static int find_it_locked(void *path)
{
	for (int i = 0; i < 3; i++)
		CHILD_CHECK(refused_by(path, getppid()));
	return 0;
}

/* A refusal closes a descriptor of the same file: that must not unlock it for those who come next.
 */
static void a_refused_open_leaves_the_lock_alone(void **state)
{
	struct scene *scene = *state;
	assert_int_equal(symlink(scene->path, scene->other), 0);
	cairn *db = open_store(scene->path);
	const char *paths[] = {scene->path, scene->other};
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT(paths); i++) {
			assert_true(refused_by(paths[i], getpid()));
			run_in_child(find_it_locked, (void *)(uintptr_t)paths[i]);
		}
		assert_int_equal(cairn_put(db, text("k"), text("v"), CAIRN_SYNC), 0);
	}
	assert_int_equal(cairn_close(db), 0);
	db = open_store(scene->other);
	assert_true(holds(db, "k", "v"));
	assert_true(refused_by(scene->path, getpid()));
	assert_int_equal(cairn_close(db), 0);
}

/* The child makes the mount, the store's owner is itself and then its parent. */
static int meet_behind_a_mount(void *context)
{
	struct scene *scene = context;
	cairn *db;
	CHILD_CHECK(open_quietly(scene->path, &db) == 0);
	CHILD_CHECK(cairn_put(db, text("k"), text("v"), 0) == 0);
	CHILD_CHECK(refused_by(scene->other, getpid()));
	CHILD_CHECK(child_end(child_start(find_it_locked, scene->other)) == 0);
	CHILD_CHECK(cairn_close(db) == 0);
	CHILD_CHECK(open_quietly(scene->other, &db) == 0);
	CHILD_CHECK(holds(db, "k", "v"));
	CHILD_CHECK(refused_by(scene->path, getpid()));
	CHILD_CHECK(child_end(child_start(find_it_locked, scene->path)) == 0);
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
}

static int meet_behind_a_mount_of_its_own(void *context)
{
	struct scene *scene = context;
	int result = mounts_enter();
	if (!result)
		result = mounts_bind(scene->path, scene->other);
	return result ? result : meet_behind_a_mount(scene);
}

static void a_bind_mount_is_the_same_store(void **state)
{
	struct scene *scene = *state;
	assert_int_equal(mkdir(scene->path, 0777), 0);
	assert_int_equal(mkdir(scene->other, 0777), 0);
	run_in_child(meet_behind_a_mount_of_its_own, scene);
}

/* ---------------------------------------------------------------- nobody has it any more */

static int wait_to_be_killed(void *context)
{
	(void)context;
	pause();
	return 1;
}

struct owner {
	const char *path;
	int pipes[2];
};

/* Opens the store, leaves a child of its own behind, and tells its pid. */
static int own_the_store(void *context)
{
	const struct owner *owner = context;
	cairn *db;
	CHILD_CHECK(cairn_open(owner->path, NULL, &db) == 0);
	CHILD_CHECK(cairn_put(db, text("k"), text("v"), 0) == 0);
	pid_t left = child_start(wait_to_be_killed, NULL);
	CHILD_CHECK(left > 0);
	CHILD_CHECK(write(owner->pipes[1], &left, sizeof left) == (ssize_t)sizeof left);
	pause();
	return 1;
}

/* Also when a child of it lives on, which has inherited its descriptors. */
static void a_killed_owner_lets_go(void **state)
{
	struct scene *scene = *state;
	struct owner owner = {.path = scene->path};
	pid_t left;
	assert_int_equal(pipe(owner.pipes), 0);
	pid_t pid = child_start(own_the_store, &owner);
	assert_true(pid > 0);
	assert_int_equal(read(owner.pipes[0], &left, sizeof left), sizeof left);
	assert_true(refused_by(scene->path, pid));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(child_end(pid), SIGKILL);
	cairn *db = open_store(scene->path);
	assert_int_equal(kill(left, 0), 0); /* it does live */
	assert_true(holds(db, "k", "v"));
	assert_int_equal(cairn_close(db), 0);
	assert_int_equal(kill(left, SIGKILL), 0);
	close(owner.pipes[0]);
	close(owner.pipes[1]);
}

/* A file is no lock: what stands in it is for people. */
static void a_lock_file_of_nobody_is_no_lock(void **state)
{
	struct scene *scene = *state;
	static const char *contents[] = {
	    "", "1\n", "999999999\n", "-1\n", "no pid", "\n\n\n", "12345678901234567890123\n"};
	char path[4300], owner[32], found[64] = "";
	snprintf(path, sizeof path, "%s/LOCK", scene->path);
	assert_int_equal(mkdir(scene->path, 0777), 0);
	for (size_t i = 0; i < COUNT(contents); i++) {
		FILE *file = fopen(path, "w");
		assert_non_null(file);
		assert_true(fputs(contents[i], file) >= 0);
		assert_int_equal(fclose(file), 0);
		cairn *db = open_store(scene->path);
		assert_int_equal(cairn_put(db, text("k"), text(contents[i]), 0), 0);
		assert_true(refused_by(scene->path, getpid()));
		file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(found, sizeof found, file));
		fclose(file);
		snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
		assert_string_equal(found, owner);
		assert_int_equal(cairn_close(db), 0);
	}
}

/* ---------------------------------------------------------------- after fork */

struct inherited {
	const char *path;
	cairn *db;
	cairn_view *view;
	cairn_iter *iter;
	cairn_batch *batch;
	struct tree tree;
};

static int no_answer(void *context, size_t i, int result, cairn_slice value)
{
	(void)i;
	(void)result;
	(void)value;
	*(bool *)context = true;
	return 0;
}

static int use_the_handle(const struct inherited *old)
{
	cairn_slice key = text("k");
	cairn_view *view = old->view;
	cairn_stats stats, zeros;
	size_t size = 99;
	bool answered = false;
	CHILD_CHECK(cairn_put(old->db, key, key, CAIRN_SYNC) == CAIRN_FORKED);
	CHILD_CHECK(strstr(cairn_message(old->db), old->path));
	CHILD_CHECK(cairn_delete(old->db, key, 0) == CAIRN_FORKED);
	CHILD_CHECK(cairn_write(old->db, old->batch, 0) == CAIRN_FORKED);
	CHILD_CHECK(cairn_sync(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_get(old->db, key, NULL, 0, &size) == CAIRN_FORKED && size == 0);
	CHILD_CHECK(cairn_multi_get(old->db, &key, 1, no_answer, &answered) == CAIRN_FORKED);
	CHILD_CHECK(!answered);
	CHILD_CHECK(cairn_view_open(old->db, &view) == CAIRN_FORKED && !view);
	CHILD_CHECK(cairn_flush(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_compact(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_wait(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_checkpoint(old->db, "made-by-a-child") == CAIRN_FORKED);
	CHILD_CHECK(access("made-by-a-child", F_OK) != 0);
	memset(&stats, 0x55, sizeof stats);
	memset(&zeros, 0, sizeof zeros);
	CHILD_CHECK(cairn_stat(old->db, &stats) == CAIRN_FORKED);
	CHILD_CHECK(!memcmp(&stats, &zeros, sizeof stats));
	size = 99;
	CHILD_CHECK(cairn_stat_json(old->db, NULL, 0, &size) == CAIRN_FORKED && size == 0);
	return 0;
}

static int use_view_and_iterator(const struct inherited *old)
{
	cairn_slice key = text("k"), value = key;
	cairn_iter *iter = old->iter;
	CHILD_CHECK(cairn_view_get(old->view, key, &value) == CAIRN_FORKED && !value.data);
	CHILD_CHECK(cairn_iter_open(old->view, NULL, &iter) == CAIRN_FORKED && !iter);
	/* It stood on a record when the fork came. */
	CHILD_CHECK(cairn_iter_status(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(!cairn_iter_key(old->iter).data && !cairn_iter_key(old->iter).size);
	CHILD_CHECK(!cairn_iter_value(old->iter).data && !cairn_iter_value(old->iter).size);
	CHILD_CHECK(cairn_iter_next(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_prev(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_first(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_last(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_seek(old->iter, key) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_seek_le(old->iter, key) == CAIRN_FORKED);
	CHILD_CHECK(cairn_iter_status(old->iter) == CAIRN_FORKED);
	CHILD_CHECK(!cairn_iter_key(old->iter).data);
	return 0;
}

/* Closing is a use as well, and comes in any order. */
static int close_what_was_inherited(const struct inherited *old)
{
	CHILD_CHECK(cairn_close(old->db) == CAIRN_FORKED);
	CHILD_CHECK(cairn_view_close(old->view) == CAIRN_FORKED);
	cairn_iter_close(old->iter);
	CHILD_CHECK(cairn_view_close(old->view) == CAIRN_FORKED);
	CHILD_CHECK(cairn_close(old->db) == CAIRN_FORKED);
	return 0;
}

/* A batch is memory of its own, and a store of its own can be opened. */
static int live_on(const char *path, const cairn_batch *batch)
{
	cairn *db;
	CHILD_CHECK(open_quietly(path, &db) == 0);
	CHILD_CHECK(cairn_write(db, batch, CAIRN_SYNC) == 0);
	CHILD_CHECK(cairn_put(db, text("mine"), text("1"), 0) == 0);
	CHILD_CHECK(cairn_compact(db) == 0);
	CHILD_CHECK(holds(db, "k", "batch") && holds(db, "mine", "1"));
	CHILD_CHECK(refused_by(path, getpid()));
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
}

static int live_as_a_child(void *context)
{
	const struct inherited *old = context;
	char path[4300];
	snprintf(path, sizeof path, "%s.childs", old->path);
	if (use_the_handle(old) || use_view_and_iterator(old) || close_what_was_inherited(old))
		return 1;
	CHILD_CHECK(refused_by(old->path, getppid()));
	CHILD_CHECK(tree_unchanged(&old->tree, old->path, TREE_ALL));
	return live_on(path, old->batch);
}

/* As a program ends that has not noticed: with everything open, by exit. */
static int leave_by_exit(void *context)
{
	const struct inherited *old = context;
	CHILD_CHECK(cairn_put(old->db, text("k"), text("child"), 0) == CAIRN_FORKED);
	exit(0);
}

static void open_for_children(struct scene *scene, struct inherited *old)
{
	scene->db = old->db = open_store(scene->path);
	old->path = scene->path;
	old->batch = cairn_batch_new();
	assert_non_null(old->batch);
	assert_int_equal(cairn_batch_put(old->batch, text("k"), text("batch")), 0);
	assert_int_equal(cairn_put(old->db, text("a"), text("1"), 0), 0);
	assert_int_equal(cairn_flush(old->db), 0);
	assert_int_equal(cairn_put(old->db, text("k"), text("v"), CAIRN_SYNC), 0);
	assert_int_equal(cairn_view_open(old->db, &old->view), 0);
	assert_int_equal(cairn_iter_open(old->view, NULL, &old->iter), 0);
	assert_int_equal(cairn_iter_first(old->iter), 0);
	tree_read(&old->tree, scene->path);
}

static void an_inherited_handle_does_nothing(void **state)
{
	struct scene *scene = *state;
	struct inherited old;
	open_for_children(scene, &old);
	run_in_child(live_as_a_child, &old);
	run_in_child(leave_by_exit, &old);
	assert_true(tree_unchanged(&old.tree, scene->path, TREE_ALL));
	run_in_child(find_it_locked, scene->path);

	assert_true(model_equal(cairn_iter_value(old.iter), text("1")));
	assert_int_equal(cairn_iter_next(old.iter), 0);
	assert_true(model_equal(cairn_iter_value(old.iter), text("v")));
	cairn_iter_close(old.iter);
	assert_int_equal(cairn_view_close(old.view), 0);
	assert_int_equal(cairn_put(old.db, text("k"), text("w"), CAIRN_SYNC), 0);
	assert_int_equal(cairn_compact(old.db), 0);
	assert_true(holds(old.db, "a", "1") && holds(old.db, "k", "w"));
	assert_int_equal(cairn_close(old.db), 0);
	assert_true(match_verify(scene->path));
	tree_release(&old.tree);
	cairn_batch_free(old.batch);
}

/* The child of a thread that was in the middle of taking or giving back the lock. */
static struct {
	const char *path;
	int pipes[2]; /* the store is closed: the child may open it */
	pid_t pid;
	bool at_unlock;
} split;

static int open_after_the_parent(void *context)
{
	cairn *db;
	char byte;
	(void)context;
	close(split.pipes[1]);
	CHILD_CHECK(read(split.pipes[0], &byte, 1) == 0);
	CHILD_CHECK(open_quietly(split.path, &db) == 0);
	CHILD_CHECK(holds(db, "k", "v"));
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
}

static int lock_and_fork(struct cairn_io *io, const char *path, struct cairn_lock **lock)
{
	struct cairn_lock *taken;
	int rc = cairn_io_posix_ops.lock(io, path, &taken);
	if (!split.at_unlock)
		split.pid = child_start(open_after_the_parent, NULL);
	*lock = rc ? NULL : taken;
	return rc;
}

static void fork_and_unlock(struct cairn_lock *lock)
{
	if (split.at_unlock)
		split.pid = child_start(open_after_the_parent, NULL);
	cairn_io_posix_ops.unlock(lock);
}

static void a_fork_beside_open_or_close_leaves_no_lock_behind(void **state)
{
	struct scene *scene = *state;
	struct cairn_io *io;
	struct cairn_io_ops ops = cairn_io_posix_ops;
	cairn_options options;
	assert_int_equal(cairn_io_posix_open(&io), 0);
	ops.lock = lock_and_fork;
	ops.unlock = fork_and_unlock;
	io->ops = &ops;
	cairn_options_init(&options);
	options.no_background = 1;
	for (int at_unlock = 0; at_unlock < 2; at_unlock++) {
		cairn *db;
		split.path = scene->path;
		split.at_unlock = at_unlock;
		assert_int_equal(pipe(split.pipes), 0);
		assert_int_equal(cairn_open_with(io, scene->path, &options, &db), 0);
		assert_int_equal(cairn_put(db, text("k"), text("v"), 0), 0);
		assert_int_equal(cairn_close(db), 0);
		close(split.pipes[1]);
		assert_true(split.pid > 0);
		assert_int_equal(child_end(split.pid), 0);
		close(split.pipes[0]);
	}
	cairn_io_posix_close(io);
}

/* ---------------------------------------------------------------- beside other threads */

/* What the other threads do until they are told to stop. Assertions are not for them. */
struct bustle {
	struct scene *scene;
	atomic_bool stop;
	atomic_int failure;
	_Atomic unsigned rounds[4];
};

static void note(struct bustle *bustle, int rc)
{
	if (rc < 0)
		atomic_store(&bustle->failure, rc);
}

static void *bustle_write(void *context)
{
	struct bustle *bustle = context;
	char key[16], value[1000] = "v";
	for (unsigned i = 0; !atomic_load(&bustle->stop); i++) {
		snprintf(key, sizeof key, "%u", i % 5000);
		note(bustle, cairn_put(bustle->scene->db, text(key),
				 (cairn_slice){value, sizeof value}, i % 100 ? 0 : CAIRN_SYNC));
		atomic_fetch_add(&bustle->rounds[0], 1);
	}
	return NULL;
}

static void *bustle_read(void *context)
{
	struct bustle *bustle = context;
	cairn_view *view;
	cairn_iter *iter;
	size_t size;
	while (!atomic_load(&bustle->stop)) {
		note(bustle, cairn_get(bustle->scene->db, text("17"), NULL, 0, &size));
		note(bustle, cairn_view_open(bustle->scene->db, &view));
		note(bustle, cairn_iter_open(view, NULL, &iter));
		note(bustle, cairn_iter_last(iter));
		cairn_iter_close(iter);
		note(bustle, cairn_view_close(view));
		atomic_fetch_add(&bustle->rounds[1], 1);
	}
	return NULL;
}

static void *bustle_shape(void *context)
{
	struct bustle *bustle = context;
	while (!atomic_load(&bustle->stop)) {
		note(bustle, cairn_flush(bustle->scene->db));
		note(bustle, cairn_compact(bustle->scene->db));
		atomic_fetch_add(&bustle->rounds[2], 1);
	}
	return NULL;
}

/* Takes locks and gives them back, and is refused. */
static void *bustle_open(void *context)
{
	struct bustle *bustle = context;
	cairn *db, *second;
	while (!atomic_load(&bustle->stop)) {
		note(bustle, open_quietly(bustle->scene->other, &db));
		if (open_quietly(bustle->scene->other, &second) != CAIRN_LOCKED)
			note(bustle, -EINVAL);
		note(bustle, cairn_close(db));
		atomic_fetch_add(&bustle->rounds[3], 1);
	}
	return NULL;
}

static int open_beside_the_bustle(const struct scene *scene)
{
#ifdef __SANITIZE_ADDRESS__
	(void)scene;
	return 0; /* its malloc may hang in the child of a process with threads */
#else
	char path[4300];
	cairn *db;
	CHILD_CHECK(refused_by(scene->path, getppid()));
	snprintf(path, sizeof path, "%s/childs", scene->directory);
	CHILD_CHECK(open_quietly(path, &db) == 0);
	CHILD_CHECK(cairn_put(db, text("k"), text("child"), CAIRN_SYNC) == 0);
	CHILD_CHECK(cairn_compact(db) == 0);
	CHILD_CHECK(holds(db, "k", "child"));
	CHILD_CHECK(cairn_close(db) == 0);
	return 0;
#endif
}

static int live_beside_the_bustle(void *context)
{
	const struct scene *scene = context;
	size_t size;
	CHILD_CHECK(cairn_put(scene->db, text("k"), text("child"), 0) == CAIRN_FORKED);
	CHILD_CHECK(cairn_get(scene->db, text("17"), NULL, 0, &size) == CAIRN_FORKED);
	CHILD_CHECK(cairn_close(scene->db) == CAIRN_FORKED);
	return open_beside_the_bustle(scene);
}

/* A child that deadlocks is killed, after CHILD_SECONDS. */
static void a_fork_beside_other_threads_does_not_hang(void **state)
{
	struct scene *scene = *state;
	static void *(*const works[])(void *context) = {
	    bustle_write, bustle_read, bustle_shape, bustle_open};
	struct bustle bustle = {.scene = scene};
	pthread_t threads[COUNT(works)];
	assert_int_equal(cairn_open(scene->path, NULL, &scene->db), 0);
	assert_int_equal(cairn_put(scene->db, text("17"), text(""), 0), 0);
	for (size_t i = 0; i < COUNT(works); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, works[i], &bustle), 0);
	int status = 0;
	for (int i = 0; i < (test_full() ? 1000 : 16) && !status; i++)
		status = child_end(child_start(live_beside_the_bustle, scene));
	atomic_store(&bustle.stop, true);
	for (size_t i = 0; i < COUNT(works); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(&bustle.failure), 0);
	for (size_t i = 0; i < COUNT(works); i++)
		assert_true(atomic_load(&bustle.rounds[i]) > 0);
	assert_int_equal(cairn_close(scene->db), 0);
	assert_true(match_verify(scene->path));
}

/* ---------------------------------------------------------------- after exec */

static const char list_command[] = "exec ls -l /proc/self/fd";

/* By fork, which runs the handlers, and exec. */
static int list_by_exec(void *output)
{
	if (dup2(*(int *)output, STDOUT_FILENO) < 0)
		return 1;
	execl("/bin/sh", "sh", "-c", list_command, (char *)NULL);
	return 1;
}

static FILE *start_by_exec(pid_t *pid)
{
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	*pid = child_start(list_by_exec, &pipes[1]);
	close(pipes[1]);
	return fdopen(pipes[0], "r");
}

/* Whether a program that is started now has nothing of the store or of a ring. */
static void assert_nothing_inherited(const struct scene *scene, bool spawned)
{
	char line[5000];
	pid_t pid = 0;
	unsigned lines = 0;
	FILE *list = spawned ? popen(list_command, "r") : start_by_exec(&pid);
	assert_non_null(list);
	for (; fgets(line, sizeof line, list); lines++) {
		if (strstr(line, scene->directory) || strstr(line, "io_uring") ||
		    strstr(line, "eventfd"))
			fail_msg("inherited: %s", line);
	}
	assert_true(lines > 3); /* it did list its own */
	if (spawned) {
		assert_int_equal(pclose(list), 0);
	} else {
		fclose(list);
		assert_int_equal(child_end(pid), 0);
	}
}

/* The store as a program has it that works: runs, a log, a view, threads, merges under way. */
static void check_exec(struct scene *scene, int backend)
{
	struct bustle bustle = {.scene = scene};
	pthread_t writer, shaper;
	cairn_options options;
	cairn_view *view;
	cairn_options_init(&options);
	options.io_backend = backend;
	options.memtable_bytes = 1u << 20;
	assert_int_equal(cairn_open(scene->path, &options, &scene->db), 0);
	assert_int_equal(cairn_put(scene->db, text("k"), text("v"), 0), 0);
	assert_int_equal(cairn_flush(scene->db), 0);
	assert_int_equal(cairn_view_open(scene->db, &view), 0);
	assert_int_equal(pthread_create(&writer, NULL, bustle_write, &bustle), 0);
	assert_int_equal(pthread_create(&shaper, NULL, bustle_shape, &bustle), 0);
	for (int i = 0; i < (test_full() ? 1000 : 16); i++)
		assert_nothing_inherited(scene, i % 2);
	atomic_store(&bustle.stop, true);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_int_equal(pthread_join(shaper, NULL), 0);
	assert_int_equal(atomic_load(&bustle.failure), 0);
	assert_true(atomic_load(&bustle.rounds[2]) > 0);
	assert_int_equal(cairn_view_close(view), 0);
	assert_int_equal(cairn_close(scene->db), 0);
}

static void a_program_inherits_nothing_by_posix(void **state)
{
	check_exec(*state, CAIRN_IO_POSIX);
}

static void a_program_inherits_nothing_by_io_uring(void **state)
{
	struct cairn_io *io;
	if (cairn_io_select(CAIRN_IO_URING, &io)) {
		printf("skipped: %s\n", cairn_error_text());
		skip();
	}
	cairn_io_release(io);
	check_exec(*state, CAIRN_IO_URING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_refused_open_leaves_the_lock_alone),
	    TEST(a_bind_mount_is_the_same_store),
	    TEST(a_killed_owner_lets_go),
	    TEST(a_lock_file_of_nobody_is_no_lock),
	    TEST(an_inherited_handle_does_nothing),
	    TEST(a_fork_beside_open_or_close_leaves_no_lock_behind),
	    TEST(a_fork_beside_other_threads_does_not_hang),
	    TEST(a_program_inherits_nothing_by_posix),
	    TEST(a_program_inherits_nothing_by_io_uring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
