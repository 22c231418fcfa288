/*
 * tests/crash_history.h -- what was asked of a store, and which part of it a store holds.
 *
 * A *step* is one write: a put, a delete, or a batch, whole. Every value tells the step and the
 * part of it that wrote it, and all its bytes follow from these, so that the state of a store is
 * one number for each key: that of the step whose value it has, 0 for none.
 *
 * Keys are numbered from 0. This is the oracle of the crash tests; it shares nothing with the
 * library but the slice.
 *
 * Threads: a history belongs to one thread.
 */
#ifndef CAIRN_TESTS_CRASH_HISTORY_H
#define CAIRN_TESTS_CRASH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/cairn_status.h"

#define CRASH_KEY_SIZE   16u
#define CRASH_VALUE_MOST 40000u
#define CRASH_PARTS_MOST 8u

struct crash_part {
	unsigned key;
	uint32_t size; /* of the value, at least 8 */
	bool delete;
};

struct crash_step {
	uint64_t number; /* ascending; none is used twice, also when steps were given up */
	size_t count;
	struct crash_part parts[CRASH_PARTS_MOST]; /* a later one wins over an earlier one */
};

struct crash_history {
	unsigned keys;
	struct crash_step *steps; /* all that were begun, the last one perhaps not ended */
	size_t count, capacity;
	uint64_t last_number;
	size_t acknowledged; /* so many steps survive the end of the process … */
	size_t durable;      /* … and so many that of the machine */
};

void crash_history_init(struct crash_history *history, unsigned keys);
void crash_history_release(struct crash_history *history);

/* A step begins. Valid until the next one does. */
const struct crash_step *crash_history_begin(
    struct crash_history *history, const struct crash_part *parts, size_t count);
/* All steps that were begun are acknowledged. */
void crash_history_acknowledge(struct crash_history *history);
/* All steps that were acknowledged are durable. */
void crash_history_sync(struct crash_history *history);
/* The machine ended: acknowledged is what was durable. */
void crash_history_lose(struct crash_history *history);
/* A store was opened, and holds the first `count` steps: durably so, and the rest is given up. */
void crash_history_settle(struct crash_history *history, size_t count);

cairn_slice crash_key(char buffer[CRASH_KEY_SIZE], unsigned key);
/* The value that part `part` of a step writes, in `buffer`. */
cairn_slice crash_value(uint8_t *buffer, const struct crash_step *step, size_t part);

/* Notes in `state` that a store has this record; false when no step wrote it. */
bool crash_history_recognize(
    const struct crash_history *history, cairn_slice key, cairn_slice value, uint64_t *state);

/* The state after the first `count` steps. */
void crash_history_state(const struct crash_history *history, size_t count, uint64_t *state);

/*
 * Whether `state` is the one after some number of steps from `least` to `most`; *count is the
 * highest such number.
 */
bool crash_history_match(const struct crash_history *history, const uint64_t *state, size_t least,
    size_t most, size_t *count);

/* In words, how `state` differs from the state in that range that is most like it. */
void crash_history_explain(const struct crash_history *history, const uint64_t *state, size_t least,
    size_t most, char *text, size_t size);

#endif
