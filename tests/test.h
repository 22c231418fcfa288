/*
 * tests/test.h -- what every test includes first: cmocka wants these headers before it.
 */
#ifndef CAIRN_TESTS_TEST_H
#define CAIRN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A small random generator (splitmix64): the same numbers everywhere for one seed. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* CAIRN_TEST_SEED, or `fallback`; printed, so that a failure can be run again. */
static inline uint64_t test_seed(uint64_t fallback)
{
	const char *text = getenv("CAIRN_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : fallback;
	printf("seed %llu (set CAIRN_TEST_SEED to change it)\n", (unsigned long long)seed);
	return seed;
}

/* Whether CAIRN_TEST_FULL is set: tests with a small and a full size then take the full one. */
static inline bool test_full(void)
{
	const char *text = getenv("CAIRN_TEST_FULL");
	return text && *text && strcmp(text, "0") != 0;
}

/* A new directory under $TMPDIR; the caller removes it. */
static inline char *test_directory(void)
{
	const char *base = getenv("TMPDIR");
	char *path = malloc(4096);
	if (!path)
		abort();
	snprintf(path, 4096, "%s/cairn-test-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(path))
		abort();
	return path;
}

/* Removes a directory made by test_directory, with all in it, and frees the path. */
static inline void test_remove_directory(char *path)
{
	char command[4200];
	snprintf(command, sizeof command, "rm -rf -- '%s'", path);
	if (system(command) != 0)
		fprintf(stderr, "could not remove %s\n", path);
	free(path);
}

#endif
