/*
 * tools/bench/process.h -- clocks, and what the kernel knows about this process, its files and the
 * machine.
 */
#ifndef CAIRN_TOOLS_BENCH_PROCESS_H
#define CAIRN_TOOLS_BENCH_PROCESS_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, … */
static inline uint64_t cairn_bench_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* What the whole process has used up so far, and the machine with it. */
struct bench_usage {
	uint64_t wall_ns;
	uint64_t cpu_ns;        /* of all its threads */
	uint64_t busy_ns;       /* of all CPUs, whoever it was; the hypervisor's share too */
	uint64_t bytes_written; /* /proc/self/io, write_bytes: made dirty, or written directly */
};

struct bench_memory {
	uint64_t resident;
	uint64_t anonymous;
	uint64_t peak; /* resident, since cairn_bench_reset_peak */
};

void cairn_bench_usage(struct bench_usage *usage);
void cairn_bench_memory_now(struct bench_memory *memory);
void cairn_bench_reset_peak(void);

/* Bytes that the files below a directory take on disk; with `suffix`, the lengths of those whose
 * name ends with it. */
uint64_t cairn_bench_disk_bytes(const char *directory);
uint64_t cairn_bench_file_bytes(const char *directory, const char *suffix);

/* Removes a directory and all in it; what is not there is no failure. 0 or -errno. */
int cairn_bench_remove(const char *directory);

void cairn_bench_sleep_ms(unsigned ms);

/* Returns when the process has used next to no CPU for 200 ms. */
void cairn_bench_wait_until_idle(void);

#endif
