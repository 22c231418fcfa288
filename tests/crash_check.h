/*
 * tests/crash_check.h -- what must hold of a simulated disk after a crash.
 *
 *	1. The store opens, without a flag.
 *	2. Prefix: it holds the state after some number of steps of its history within a range that
 *	   the caller gives, each step whole (crash_history.h).
 *	3. No file is left that neither the manifest nor the rules of the log explain.
 *	4. cairn_verify finds nothing.
 *	5. What it showed once it shows again, when it was closed, or was written to and synced,
 *	   and then lost all that it had not synced; what was written is there as well.
 *
 * Threads: everything happens in the calling thread.
 */
#ifndef CAIRN_TESTS_CRASH_CHECK_H
#define CAIRN_TESTS_CRASH_CHECK_H

#include "store/cairn.h"
#include "tests/crash_history.h"
#include "tests/sim_io.h"

struct crash_verdict {
	size_t step;     /* the store has the first so many steps, when all is well */
	char text[2048]; /* what is wrong, when not all is well */
};

/* `format` is in the verdict; false. */
bool crash_blame(struct crash_verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Options for a store on a simulated disk: no thread, tables and segments as small as can be. */
void crash_options(cairn_options *options);

/* The state that a view, or an open store, shows. False when it has what no step wrote, or does not
 * answer. */
bool crash_read_view(cairn_view *view, const struct crash_history *history, uint64_t *state,
    struct crash_verdict *verdict);
bool crash_read(
    cairn *db, const struct crash_history *history, uint64_t *state, struct crash_verdict *verdict);

/*
 * All of the above, for the store at `path`, with `least` to `most` steps. The disk is used up: it
 * is what recovery made of it.
 */
bool crash_check(struct sim_disk *disk, const char *path, const struct crash_history *history,
    size_t least, size_t most, struct crash_verdict *verdict);

/*
 * For a checkpoint made after `step` steps. When it was `finished` it must open and be that state;
 * before, it may also be no store.
 */
bool crash_check_copy(struct sim_disk *disk, const char *path, const struct crash_history *history,
    size_t step, bool finished, struct crash_verdict *verdict);

#endif
