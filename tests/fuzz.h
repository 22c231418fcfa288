/*
 * tests/fuzz.h -- what the fuzzing harnesses share. Each defines LLVMFuzzerTestOneInput; libFuzzer
 * calls it with what it makes up, fuzz_replay.c with the files of a corpus.
 *
 * An input that must not be there ends the process, so that both see it.
 */
#ifndef CAIRN_TESTS_FUZZ_H
#define CAIRN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(claim)                                                                          \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			fprintf(stderr, "%s:%d: %s does not hold; last: %s\n", __FILE__, __LINE__, \
			    #claim, cairn_error_text());                                           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* A block of exactly `size` bytes, so that the address sanitizer sees a read behind them. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	FUZZ_CHECK(copy);
	for (size_t i = 0; i < size; i++)
		copy[i] = data[i];
	return copy;
}

#endif
