/*
 * tests/kill.h -- children that are killed while they work, at a moment that the test draws.
 *
 * When exactly the signal comes is the kernel's choice, so what a test claims must hold whenever.
 */
#ifndef CAIRN_TESTS_KILL_H
#define CAIRN_TESTS_KILL_H

#include "tests/child.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

/* Memory that the child shares; zeroed. */
static inline void *kill_share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	return memory;
}

static inline void kill_sleep(uint64_t microseconds)
{
	struct timespec time = {
	    (time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
	nanosleep(&time, NULL);
}

/* Until `*ready`, or until the child is gone. */
static inline void kill_wait(pid_t pid, const atomic_bool *ready)
{
	siginfo_t info = {0};
	while (!atomic_load(ready) && info.si_pid == 0) {
		kill_sleep(50);
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	}
}

/*
 * Runs `body` in a child and kills it, `microseconds` after it said that it is `*ready`, or after
 * its start when that is NULL. A body that ends before that has failed.
 */
static inline void run_and_kill(
    int (*body)(void *context), void *context, const atomic_bool *ready, uint64_t microseconds)
{
	pid_t pid = child_start(body, context);
	assert_true(pid > 0);
	if (ready)
		kill_wait(pid, ready);
	kill_sleep(microseconds);
	assert_int_equal(kill(pid, SIGKILL), 0);
	int status = child_end(pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("the child ended by itself, status 0x%x", (unsigned)status);
}

#endif
