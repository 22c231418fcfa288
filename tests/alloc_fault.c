/*
 * tests/alloc_fault.c -- see alloc_fault.h.
 */
#include "tests/alloc_fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "tests/sim_io.h"

static _Thread_local struct {
	bool armed, for_ever;
	uint64_t call, calls, faults;
} fault;
static _Atomic int64_t live;

void alloc_fault_arm(uint64_t call, bool for_ever)
{
	fault.call = call;
	fault.for_ever = for_ever;
	fault.calls = fault.faults = 0;
	fault.armed = true;
}

void alloc_fault_disarm(void)
{
	fault.armed = false;
}

uint64_t alloc_faults(void)
{
	return fault.faults;
}

uint64_t alloc_calls(void)
{
	return fault.calls;
}

int64_t alloc_live(void)
{
	return atomic_load(&live);
}

/* Whether the allocation that is asked for now fails. */
static bool fails(void)
{
	if (!fault.armed || sim_disk_busy())
		return false;
	fault.calls++;
	bool now =
	    fault.call && (fault.for_ever ? fault.calls >= fault.call : fault.calls == fault.call);
	fault.faults += now;
	if (now)
		errno = ENOMEM;
	return now;
}

/* What an allocation returned, counted. */
static void *counted(void *memory)
{
	if (memory)
		atomic_fetch_add(&live, 1);
	return memory;
}

/* The linker's names for what is wrapped, and for what is put in front of it. */
#define WRAPPED(type, name, ...)         \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

WRAPPED(void *, malloc, size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

WRAPPED(void *, calloc, size_t count, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(count, size));
}

WRAPPED(void *, aligned_alloc, size_t alignment, size_t size)
{
	return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

WRAPPED(void *, reallocarray, void *memory, size_t count, size_t size)
{
	if (fails())
		return NULL;
	void *moved = __real_reallocarray(memory, count, size);
	return memory ? moved : counted(moved);
}

WRAPPED(void *, realloc, void *memory, size_t size)
{
	return __wrap_reallocarray(memory, 1, size);
}

WRAPPED(char *, strdup, const char *text)
{
	return fails() ? NULL : counted(__real_strdup(text));
}

WRAPPED(char *, strndup, const char *text, size_t size)
{
	return fails() ? NULL : counted(__real_strndup(text, size));
}

WRAPPED(void, free, void *memory)
{
	if (memory)
		atomic_fetch_sub(&live, 1);
	__real_free(memory);
}

WRAPPED(void *, mmap, void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	if ((flags & MAP_ANONYMOUS) && fails())
		return MAP_FAILED;
	void *memory = __real_mmap(at, size, protection, flags, file, offset);
	return memory == MAP_FAILED ? memory : counted(memory);
}

WRAPPED(int, munmap, void *memory, size_t size)
{
	atomic_fetch_sub(&live, 1);
	return __real_munmap(memory, size);
}

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
    void *(*body)(void *), void *context)
{
	return fails() ? EAGAIN : __real_pthread_create(thread, attributes, body, context);
}
