/*
 * tests/store_refused_test.c -- the tests of the store once more, where the kernel refuses a ring.
 *
 * They are the same programs, which stand beside this one, started behind a filter that does not
 * let a ring be made; they run for a shorter time.
 */
#include "tests/test.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/cairn.h"
#include "tests/refuse.h"

/* What a child with `code` for io_uring_setup makes of `body`: its exit status. */
static int run_refused(int code, int (*body)(void *context), void *context)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(refuse(SYS_io_uring_setup, REFUSE_ANY_ARGUMENT, code) ? 77 : body(context));
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("skipped: this process may not install a seccomp filter\n");
		skip();
	}
	return status;
}

/* Says what did not hold and ends the function. */
#define CHILD_CHECK(claim)                                                                  \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "child: line %d: %s; last: %s\n", __LINE__, #claim, \
			    cairn_message(NULL));                                           \
			return 1;                                                           \
		}                                                                           \
	} while (0)

static int write_and_merge(void *path)
{
	cairn_options options;
	cairn_stats stats;
	char json[8192], value[] = "v";
	cairn_slice key = {"k", 1};
	size_t size;
	cairn *db;
	unsetenv("CAIRN_IO");
	cairn_options_init(&options);
	options.io_backend = CAIRN_IO_URING;
	CHILD_CHECK(cairn_open(path, &options, &db) == CAIRN_UNSUPPORTED && !db);
	CHILD_CHECK(strstr(cairn_message(NULL), "io_uring"));
	options.io_backend = 0;
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(cairn_put(db, key, (cairn_slice){value, 1}, CAIRN_SYNC) == 0);
		CHILD_CHECK(cairn_flush(db) == 0);
	}
	CHILD_CHECK(cairn_compact(db) == 0);
	CHILD_CHECK(cairn_stat(db, &stats) == 0 && strcmp(stats.io, "posix") == 0);
	CHILD_CHECK(cairn_stat_json(db, json, sizeof json, &size) == 0);
	CHILD_CHECK(strstr(json, "\"io\": \"posix\""));
	CHILD_CHECK(cairn_get(db, key, value, sizeof value, &size) == 0 && size == 1);
	CHILD_CHECK(cairn_close(db) == 0);
	CHILD_CHECK(cairn_verify(path, NULL, NULL, NULL) == 0);
	return 0;
}

static void whatever_the_refusal_it_is_posix_and_says_so(void **state)
{
	(void)state;
	static const int codes[] = {EPERM, ENOSYS, ENOMEM};
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		char *directory = test_directory();
		int status = run_refused(codes[i], write_and_merge, directory);
		test_remove_directory(directory);
		assert_int_equal(status, 0);
	}
}

/* Becomes the program of that name in the directory of this one. */
static int become(void *name)
{
	char own[PATH_MAX] = "", path[2 * PATH_MAX];
	if (readlink("/proc/self/exe", own, sizeof own - 1) < 0)
		return 1;
	snprintf(path, sizeof path, "%s/%s", dirname(own), (const char *)name);
	unsetenv("CAIRN_IO");
	setenv("CAIRN_TEST_OPERATIONS", "20000", 0);
	setenv("CAIRN_TEST_KILLS", "20", 0);
	execl(path, path, (char *)NULL);
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return 1;
}

static void pass_refused(const char *name)
{
	char text[64];
	snprintf(text, sizeof text, "%s", name);
	assert_int_equal(run_refused(EPERM, become, text), 0);
}

static void the_api_is_the_same(void **state)
{
	(void)state;
	pass_refused("store_api_test");
}

static void opening_is_the_same(void **state)
{
	(void)state;
	pass_refused("store_open_test");
}

static void the_model_holds(void **state)
{
	(void)state;
	pass_refused("store_model_test");
}

static void kills_lose_nothing(void **state)
{
	(void)state;
	pass_refused("store_kill_test");
}

static void threads_see_what_was_acknowledged(void **state)
{
	(void)state;
	pass_refused("store_threads_test");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whatever_the_refusal_it_is_posix_and_says_so),
	    cmocka_unit_test(the_api_is_the_same),
	    cmocka_unit_test(opening_is_the_same),
	    cmocka_unit_test(the_model_holds),
	    cmocka_unit_test(kills_lose_nothing),
	    cmocka_unit_test(threads_see_what_was_acknowledged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
