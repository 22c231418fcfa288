/*
 * tests/child.h -- work in a child process, for what would leave marks on this one: forks, locks,
 * kills, filters, mounts.
 *
 * A child cannot use cmocka's assertions. Its body is a function that returns 0 when all went well
 * and uses CHILD_CHECK; the assertion is the parent's.
 */
#ifndef CAIRN_TESTS_CHILD_H
#define CAIRN_TESTS_CHILD_H

#include "tests/test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "store/cairn.h"

/* What a body returns when the machine does not let it do its work; it says why. */
#define CHILD_SKIP    77

/* A child that hangs is a failure: it is killed after so many seconds. */
#define CHILD_SECONDS 60

/* Says what did not hold and ends the function, with a failure. */
#define CHILD_CHECK(claim)                                                                  \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "child: %s:%d: %s; last: %s\n", __FILE__, __LINE__, \
			    #claim, cairn_message(NULL));                                   \
			return 1;                                                           \
		}                                                                           \
	} while (0)

/* Starts a child that lives for `body`; its pid, for child_end. */
static inline pid_t child_start(int (*body)(void *context), void *context)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	alarm(CHILD_SECONDS);
	int result = body(context);
	fflush(NULL);
	_exit(result);
}

/* Its status, as of waitpid; -1 when there is none. */
static inline int child_end(pid_t pid)
{
	int status = -1;
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Runs `body` in a child, which has to return 0; a CHILD_SKIP skips the case. */
static inline void run_in_child(int (*body)(void *context), void *context)
{
	pid_t pid = child_start(body, context);
	assert_true(pid > 0);
	int status = child_end(pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIP)
		skip();
	assert_int_equal(status, 0);
}

#endif
