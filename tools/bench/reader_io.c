/* tools/bench/reader_io.c -- see reader_io.h. What only writers call is NULL. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/error.h"
#include "tools/bench/reader_io.h"

struct reader_file {
	struct cairn_file base; /* first: what readers know */
	int descriptor;
};

static int descriptor_of(const struct cairn_file *file)
{
	return ((const struct reader_file *)file)->descriptor;
}

static void close_file(struct cairn_file *base)
{
	struct reader_file *file = (struct reader_file *)base;
	close(file->descriptor);
	free(base->path);
	free(file);
}

static int open_file(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	(void)mode;
	*file = NULL;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return cairn_error_system(-errno, path, "open");
	struct reader_file *made = malloc(sizeof *made);
	char *copy = strdup(path);
	if (!made || !copy) {
		free(made);
		free(copy);
		close(descriptor);
		return cairn_error(-ENOMEM, "%s: not enough memory", path);
	}
	*made = (struct reader_file){{io, copy}, descriptor};
	*file = &made->base;
	return 0;
}

static int file_status(struct cairn_file *file, struct cairn_file_status *status)
{
	struct stat st;
	*status = (struct cairn_file_status){0};
	if (fstat(descriptor_of(file), &st))
		return cairn_error_system(-errno, file->path, "fstat");
	status->size = (uint64_t)st.st_size;
	status->links = (uint64_t)st.st_nlink;
	return 0;
}

static int map_file(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	int flags = MAP_SHARED | MAP_POPULATE;
	void *data = mmap(NULL, size, PROT_READ, flags, descriptor_of(file), 0);
	*map = (struct cairn_map){0};
	if (data == MAP_FAILED)
		return cairn_error_system(-errno, file->path, "mmap");
	*map = (struct cairn_map){data, size};
	return 0;
}

static void unmap_file(struct cairn_io *io, struct cairn_map *map)
{
	(void)io;
	munmap((void *)(uintptr_t)map->data, map->size);
	*map = (struct cairn_map){0};
}

static void take_advice(struct cairn_io *io, const struct cairn_map *map, uint64_t offset,
    uint64_t size, enum cairn_advice advice)
{
	(void)io, (void)map, (void)offset, (void)size, (void)advice;
}

static const struct cairn_io_ops reader_ops = {.name = "reader",
    .open = open_file,
    .close = close_file,
    .status = file_status,
    .map = map_file,
    .unmap = unmap_file,
    .advise = take_advice};

struct cairn_io cairn_bench_reader_io = {&reader_ops};
