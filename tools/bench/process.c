/* tools/bench/process.c -- see process.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bench/process.h"

#define IDLE_NS        UINT64_C(200000000) /* so long */
#define IDLE_CPU_NS    UINT64_C(2000000)   /* with no more CPU than that */
#define OPEN_WHEN_WALK 32                  /* descriptors */

static void read_file(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
	text[length < 0 ? 0 : length] = 0;
	if (file >= 0)
		close(file);
}

/* The number after `name` in a file of "name: number" lines; 0 when there is none. */
static uint64_t number_after(const char *text, const char *name)
{
	unsigned long long number = 0;
	const char *at = strstr(text, name);
	if (at)
		sscanf(at + strlen(name), "%llu", &number);
	return number;
}

/* The first line of /proc/stat counts ticks since boot: user, nice, system, idle, iowait, irq,
 * softirq, steal. */
static uint64_t machine_busy_ns(void)
{
	char text[4096];
	unsigned long long t[8] = {0};
	read_file("/proc/stat", text, sizeof text);
	sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
	    &t[4], &t[5], &t[6], &t[7]);
	uint64_t ticks = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
	return ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

void cairn_bench_usage(struct bench_usage *usage)
{
	char text[4096];
	read_file("/proc/self/io", text, sizeof text);
	usage->wall_ns = cairn_bench_clock(CLOCK_MONOTONIC);
	usage->cpu_ns = cairn_bench_clock(CLOCK_PROCESS_CPUTIME_ID);
	usage->busy_ns = machine_busy_ns();
	usage->bytes_written = number_after(text, "\nwrite_bytes:");
}

void cairn_bench_memory_now(struct bench_memory *memory)
{
	char text[8192];
	read_file("/proc/self/status", text, sizeof text);
	memory->resident = 1024 * number_after(text, "VmRSS:");
	memory->anonymous = 1024 * number_after(text, "RssAnon:");
	memory->peak = 1024 * number_after(text, "VmHWM:");
}

/* Where that is refused, the peak is that of the whole process so far. */
void cairn_bench_reset_peak(void)
{
	int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return;
	if (write(file, "5", 1) != 1)
		fputs("cairn-bench: the peak of memory could not be reset\n", stderr);
	close(file);
}

/* ---------------------------------------------------------------- files */

static _Thread_local struct {
	const char *suffix;
	uint64_t bytes;
} sum;

static int add_blocks(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)at;
	if (type == FTW_F)
		sum.bytes += 512 * (uint64_t)st->st_blocks;
	return 0;
}

static int add_length(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)at;
	size_t length = strlen(path), suffix = strlen(sum.suffix);
	if (type == FTW_F && length >= suffix && strcmp(path + length - suffix, sum.suffix) == 0)
		sum.bytes += (uint64_t)st->st_size;
	return 0;
}

uint64_t cairn_bench_disk_bytes(const char *directory)
{
	sum.bytes = 0;
	nftw(directory, add_blocks, OPEN_WHEN_WALK, FTW_PHYS);
	return sum.bytes;
}

uint64_t cairn_bench_file_bytes(const char *directory, const char *suffix)
{
	sum.bytes = 0;
	sum.suffix = suffix;
	nftw(directory, add_length, OPEN_WHEN_WALK, FTW_PHYS);
	return sum.bytes;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

int cairn_bench_remove(const char *directory)
{
	if (nftw(directory, remove_one, OPEN_WHEN_WALK, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
		return -errno;
	return 0;
}

/* ---------------------------------------------------------------- waiting */

void cairn_bench_sleep_ms(unsigned ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&time, NULL);
}

void cairn_bench_wait_until_idle(void)
{
	uint64_t since = cairn_bench_clock(CLOCK_MONOTONIC);
	uint64_t cpu = cairn_bench_clock(CLOCK_PROCESS_CPUTIME_ID);
	for (;;) {
		cairn_bench_sleep_ms(5);
		uint64_t now = cairn_bench_clock(CLOCK_MONOTONIC);
		uint64_t used = cairn_bench_clock(CLOCK_PROCESS_CPUTIME_ID);
		if (used - cpu > IDLE_CPU_NS) {
			since = now;
			cpu = used;
		} else if (now - since >= IDLE_NS) {
			return;
		}
	}
}
