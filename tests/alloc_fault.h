/*
 * tests/alloc_fault.h -- memory that runs out at a call of the test's choice, and a count of what
 * was not given back.
 *
 * For programs that are linked with --wrap for each of malloc, calloc, realloc, reallocarray,
 * aligned_alloc, strdup, strndup, free, mmap, munmap and pthread_create: their calls, in the
 * library's objects and in the test's, come here. What libraries of the system do inside is not
 * seen.
 *
 * Threads: an armed fault belongs to the thread that armed it; the count is of all threads.
 */
#ifndef CAIRN_TESTS_ALLOC_FAULT_H
#define CAIRN_TESTS_ALLOC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From now on the allocation number `call` of this thread, counted from 1, fails, and with
 * `for_ever` all after it; 0 only counts. A thread that is to be made and a mapping without a file
 * count as allocations; those of a simulated disk do not.
 */
void alloc_fault_arm(uint64_t call, bool for_ever);
void alloc_fault_disarm(void);

/* How many failed since the last arming, and how many were counted. */
uint64_t alloc_faults(void);
uint64_t alloc_calls(void);

/* Allocations and mappings that were made and not given back. */
int64_t alloc_live(void);

#endif
