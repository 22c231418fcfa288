/*
 * tests/crash_history.c -- see crash_history.h.
 */
#include "tests/crash_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_DIGITS 6u

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void crash_history_init(struct crash_history *history, unsigned keys)
{
	*history = (struct crash_history){.keys = keys};
}

void crash_history_release(struct crash_history *history)
{
	free(history->steps);
	*history = (struct crash_history){0};
}

const struct crash_step *crash_history_begin(
    struct crash_history *history, const struct crash_part *parts, size_t count)
{
	if (count > CRASH_PARTS_MOST)
		abort();
	if (history->count == history->capacity) {
		history->capacity = history->capacity ? 2 * history->capacity : 64;
		history->steps =
		    need(realloc(history->steps, history->capacity * sizeof *history->steps));
	}
	struct crash_step *step = &history->steps[history->count++];
	*step = (struct crash_step){.number = ++history->last_number, .count = count};
	memcpy(step->parts, parts, count * sizeof *parts);
	return step;
}

void crash_history_acknowledge(struct crash_history *history)
{
	history->acknowledged = history->count;
}

void crash_history_sync(struct crash_history *history)
{
	history->durable = history->acknowledged;
}

void crash_history_lose(struct crash_history *history)
{
	history->acknowledged = history->durable;
}

void crash_history_settle(struct crash_history *history, size_t count)
{
	history->count = history->acknowledged = history->durable = count;
}

/* ---------------------------------------------------------------- keys and values */

cairn_slice crash_key(char buffer[CRASH_KEY_SIZE], unsigned key)
{
	memcpy(buffer, "key", 3);
	for (unsigned i = KEY_DIGITS; i > 0; i--, key /= 10)
		buffer[2 + i] = (char)('0' + key % 10);
	return (cairn_slice){buffer, 3 + KEY_DIGITS};
}

/* The key's number, or `keys` when it is none of them. */
static unsigned key_number(cairn_slice key, unsigned keys)
{
	const char *text = key.data;
	unsigned number = 0;
	char again[CRASH_KEY_SIZE];
	if (key.size != 3 + KEY_DIGITS)
		return keys;
	for (unsigned i = 0; i < KEY_DIGITS; i++)
		number = number * 10 + (unsigned)(text[3 + i] - '0');
	if (number >= keys || memcmp(crash_key(again, number).data, text, key.size) != 0)
		return keys;
	return number;
}

/* Bytes 8 i to 8 i + 7 of a value; the first ones are the number of the step. */
static uint64_t value_word(uint64_t number, size_t part, size_t i)
{
	return number + i * (number * UINT64_C(0x9e3779b97f4a7c15) + part + 1);
}

cairn_slice crash_value(uint8_t *buffer, const struct crash_step *step, size_t part)
{
	size_t size = step->parts[part].size;
	for (size_t i = 0; 8 * i < size; i++) {
		uint64_t word = value_word(step->number, part, i);
		memcpy(buffer + 8 * i, &word, size - 8 * i < 8 ? size - 8 * i : 8);
	}
	return (cairn_slice){buffer, size};
}

static bool is_value(cairn_slice value, const struct crash_step *step, size_t part)
{
	const uint8_t *data = value.data;
	size_t words = value.size / 8;
	uint64_t differ = 0, found, last = value_word(step->number, part, words);
	if (value.size != step->parts[part].size)
		return false;
	for (size_t i = 0; i < words; i++) {
		memcpy(&found, data + 8 * i, sizeof found);
		differ |= found ^ value_word(step->number, part, i);
	}
	return !differ && memcmp(data + 8 * words, &last, value.size % 8) == 0;
}

static const struct crash_step *find_step(const struct crash_history *history, uint64_t number)
{
	size_t low = 0, high = history->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (history->steps[middle].number == number)
			return &history->steps[middle];
		if (history->steps[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool crash_history_recognize(
    const struct crash_history *history, cairn_slice key, cairn_slice value, uint64_t *state)
{
	unsigned found = key_number(key, history->keys);
	uint64_t number;
	if (found == history->keys || value.size < sizeof number)
		return false;
	memcpy(&number, value.data, sizeof number);
	const struct crash_step *step = find_step(history, number);
	if (!step)
		return false;
	for (size_t i = step->count; i-- > 0;) {
		const struct crash_part *part = &step->parts[i];
		if (part->key != found)
			continue;
		state[found] = number;
		return !part->delete &&is_value(value, step, i);
	}
	return false;
}

/* ---------------------------------------------------------------- states */

static void apply(const struct crash_step *step, uint64_t *state)
{
	for (size_t i = 0; i < step->count; i++)
		state[step->parts[i].key] = step->parts[i].delete ? 0 : step->number;
}

void crash_history_state(const struct crash_history *history, size_t count, uint64_t *state)
{
	memset(state, 0, history->keys * sizeof *state);
	for (size_t i = 0; i < count; i++)
		apply(&history->steps[i], state);
}

static size_t count_wrong(
    const struct crash_history *history, const uint64_t *state, const uint64_t *expected)
{
	size_t wrong = 0;
	for (unsigned key = 0; key < history->keys; key++)
		wrong += state[key] != expected[key];
	return wrong;
}

/* In the range: the number of steps after which the fewest keys differ, *wrong of them. */
static size_t closest(const struct crash_history *history, const uint64_t *state, size_t least,
    size_t most, size_t *wrong)
{
	uint64_t *expected = need(calloc(history->keys, sizeof *expected));
	crash_history_state(history, least, expected);
	size_t now = count_wrong(history, state, expected), best = least;
	*wrong = now;
	for (size_t count = least + 1; count <= most; count++) {
		const struct crash_step *step = &history->steps[count - 1];
		for (size_t i = 0; i < step->count; i++) {
			unsigned key = step->parts[i].key;
			now -= state[key] != expected[key];
			expected[key] = step->parts[i].delete ? 0 : step->number;
			now += state[key] != expected[key];
		}
		if (now <= *wrong) {
			*wrong = now;
			best = count;
		}
	}
	free(expected);
	return best;
}

bool crash_history_match(const struct crash_history *history, const uint64_t *state, size_t least,
    size_t most, size_t *count)
{
	size_t wrong;
	*count = closest(history, state, least, most, &wrong);
	return wrong == 0;
}

void crash_history_explain(const struct crash_history *history, const uint64_t *state, size_t least,
    size_t most, char *text, size_t size)
{
	size_t wrong, shown = 0;
	size_t count = closest(history, state, least, most, &wrong);
	uint64_t *expected = need(calloc(history->keys, sizeof *expected));
	crash_history_state(history, count, expected);
	int used = snprintf(text, size,
	    "the state after no number of steps from %zu to %zu; most like the one after %zu "
	    "(step %llu), where %zu keys differ:",
	    least, most, count, count ? (unsigned long long)history->steps[count - 1].number : 0,
	    wrong);
	for (unsigned key = 0; key < history->keys && shown < 5; key++) {
		if (state[key] == expected[key] || used < 0 || (size_t)used >= size)
			continue;
		shown++;
		used += snprintf(text + used, size - (size_t)used,
		    " key %u has the value of step %llu, not of %llu;", key,
		    (unsigned long long)state[key], (unsigned long long)expected[key]);
	}
	free(expected);
}
