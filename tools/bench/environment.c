/* tools/bench/environment.c -- see environment.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/bench/environment.h"
#include "tools/bench/process.h"

#define CLOCK_CALLS 500
#define CLOCK_TRIES 40 /* the quickest counts: others may have been let in during some */

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void read_cpu(char *text, size_t size)
{
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "re");
	snprintf(text, size, "unknown");
	while (file && fgets(line, sizeof line, file)) {
		const char *name = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && name) {
			snprintf(text, size, "%.*s", (int)strcspn(name + 2, "\n"), name + 2);
			break;
		}
	}
	if (file)
		fclose(file);
}

/* The line of /proc/self/mountinfo whose third word is the device; its file system's name is the
 * first word after " - ". */
static void read_file_system(const char *directory, char *text, size_t size)
{
	char path[4096], device[32], line[4096];
	struct stat st;
	snprintf(path, sizeof path, "%s", directory);
	while (stat(path, &st) && strrchr(path, '/'))
		*strrchr(path, '/') = 0;
	snprintf(text, size, "unknown");
	if (stat(*path ? path : "/", &st))
		return;
	snprintf(device, sizeof device, " %u:%u ", major(st.st_dev), minor(st.st_dev));
	FILE *file = fopen("/proc/self/mountinfo", "re");
	while (file && fgets(line, sizeof line, file)) {
		const char *name = strstr(line, " - ");
		if (strstr(line, device) && name)
			snprintf(text, size, "%.*s", (int)strcspn(name + 3, " "), name + 3);
	}
	if (file)
		fclose(file);
}

static double cost_of(clockid_t clock)
{
	uint64_t least = UINT64_MAX;
	for (int try = 0; try < CLOCK_TRIES; try++) {
		uint64_t began = cairn_bench_clock(CLOCK_MONOTONIC);
		for (int i = 0; i < CLOCK_CALLS; i++)
			cairn_bench_clock(clock);
		uint64_t took = cairn_bench_clock(CLOCK_MONOTONIC) - began;
		least = took < least ? took : least;
	}
	return (double)least / CLOCK_CALLS;
}

void cairn_bench_environment(struct bench_environment *environment, const char *directory)
{
	struct utsname name;
	uname(&name);
	read_cpu(environment->cpu, sizeof environment->cpu);
	environment->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	environment->memory_mib =
	    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
	snprintf(environment->kernel, sizeof environment->kernel, "%.32s %.64s", name.sysname,
	    name.release);
	read_file_system(directory, environment->file_system, sizeof environment->file_system);
	snprintf(environment->compiler, sizeof environment->compiler, "%s", COMPILER);
	environment->build = CAIRN_BENCH_BUILD;
	environment->commit = CAIRN_BENCH_COMMIT;
	environment->clock_ns = cost_of(CLOCK_MONOTONIC);
	environment->thread_clock_ns = cost_of(CLOCK_THREAD_CPUTIME_ID);
}
