/*
 * tools/bench/environment.h -- where figures were measured: they mean little without it.
 */
#ifndef CAIRN_TOOLS_BENCH_ENVIRONMENT_H
#define CAIRN_TOOLS_BENCH_ENVIRONMENT_H

#include <stdint.h>

struct bench_environment {
	char cpu[128];
	long cpus;
	uint64_t memory_mib;
	char kernel[128];
	char file_system[64];
	char compiler[128];
	const char *build;  /* CMake's build type and the sanitizers */
	const char *commit; /* when the build was configured */
	double clock_ns;    /* of one clock_gettime(CLOCK_MONOTONIC) */
	double thread_clock_ns;
};

/* `directory`, or the nearest parent that is there, is what the file system is asked for. */
void cairn_bench_environment(struct bench_environment *environment, const char *directory);

#endif
