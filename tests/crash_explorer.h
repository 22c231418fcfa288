/*
 * tests/crash_explorer.h -- every crash that could happen during a workload, and what a store makes
 * of it.
 *
 * A workload runs once. Before each call that changes the disk, and after each operation, the
 * explorer makes the disks that crashes at that moment could leave, and checks each of them
 * (crash_check.h). While one is opened it may crash again, which is checked as well: such a
 * *nested* crash, up to two deep, belongs to the state that it began with. Nor may a file go that
 * the durable manifest names.
 *
 * *States* are numbered within a workload; the same workload has the same ones each time. Equal
 * disks are checked once.
 *
 * Threads: an explorer uses its thread alone.
 */
#ifndef CAIRN_TESTS_CRASH_EXPLORER_H
#define CAIRN_TESTS_CRASH_EXPLORER_H

#include "tests/crash_workload.h"

struct crash_settings {
	unsigned bugs;               /* planted in the disk: enum sim_bug */
	uint64_t calls_most;         /* no crash behind so many calls; 0: no limit */
	unsigned losses;             /* 1u << enum sim_loss: only these; 0: all */
	uint64_t only;               /* this state alone; 0: all */
	const char *replay;          /* command that the number of a state is put behind; or NULL */
	const char *export;          /* directory for the disk of a violation; or NULL */
	FILE *report;                /* for what violations look like; or NULL */
	bool (*stop)(void *context); /* asked from time to time; or NULL */
	void *context;
};

struct crash_counts {
	uint64_t checked;    /* states, nested ones included */
	uint64_t skipped;    /* those that had been seen */
	uint64_t violations; /* a workload ends with its first one */
	uint64_t calls;      /* of the workload that change the disk, while it was looked at */
};

/* Adds to `counts`. True when there was no violation. */
bool crash_explore(const struct crash_workload *workload, const struct crash_settings *settings,
    struct crash_counts *counts);

#endif
