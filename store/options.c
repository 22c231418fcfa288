/*
 * store/options.c -- see options.h.
 */
#include "store/options.h"

#include <string.h>

#include "format/error.h"

#define MEMORY_DEFAULT   ((size_t)512 << 20)
#define MEMTABLE_DEFAULT ((size_t)64 << 20)
#define MEMTABLE_LEAST   ((size_t)64 << 10)
#define MEMTABLE_MOST    ((size_t)8 << 30)
#define SEGMENT_DEFAULT  ((uint64_t)512 << 20)

void cairn_options_init(cairn_options *options)
{
	memset(options, 0, sizeof *options);
	options->struct_size = sizeof *options;
}

static int copy_options(const cairn_options *options, cairn_options *resolved)
{
	cairn_options_init(resolved);
	if (!options)
		return 0;
	size_t size = options->struct_size;
	if (size < sizeof options->struct_size || size > 4096)
		return cairn_error(CAIRN_INVALID,
		    "options.struct_size is %zu; call cairn_options_init first", size);
	memcpy(resolved, options, size < sizeof *resolved ? size : sizeof *resolved);
	resolved->struct_size = sizeof *resolved;
	return 0;
}

static int not_built(const char *name, long long value)
{
	return cairn_error(CAIRN_UNSUPPORTED,
	    "options.%s = %lld is not supported by version %s of cairn", name, value,
	    cairn_version());
}

static int unknown(const char *name, long long value)
{
	return cairn_error(
	    CAIRN_INVALID, "options.%s = %lld is not one of its values", name, value);
}

static int check_choices(const cairn_options *options)
{
	if (options->run_format == CAIRN_KV03)
		return not_built("run_format", CAIRN_KV03);
	if (options->run_format && options->run_format != CAIRN_KV02)
		return unknown("run_format", options->run_format);
	if (options->compression == CAIRN_LZ4)
		return not_built("compression", CAIRN_LZ4);
	if (options->compression && options->compression != CAIRN_NO_COMPRESSION)
		return unknown("compression", options->compression);
	if (options->point_index && options->point_index != CAIRN_POINT_INDEX &&
	    options->point_index != CAIRN_NO_POINT_INDEX)
		return unknown("point_index", options->point_index);
	if (options->segment_bytes && options->segment_bytes != SEGMENT_DEFAULT)
		return not_built("segment_bytes", (long long)options->segment_bytes);
	return 0;
}

static int check_behaviour(const cairn_options *options)
{
	if (options->sync_mode < CAIRN_SYNC_INTERVAL || options->sync_mode > CAIRN_SYNC_NONE)
		return unknown("sync_mode", options->sync_mode);
	if (options->io_backend < 0 || options->io_backend > CAIRN_IO_POSIX)
		return unknown("io_backend", options->io_backend);
	if (options->must_exist && options->must_not_exist)
		return cairn_error(CAIRN_INVALID,
		    "options.must_exist and options.must_not_exist exclude each other");
	if (options->read_only && options->must_not_exist)
		return cairn_error(CAIRN_INVALID,
		    "options.read_only and options.must_not_exist exclude each other");
	if (options->memtable_bytes > MEMTABLE_MOST)
		return cairn_error(CAIRN_INVALID, "options.memtable_bytes is %zu; the most is %zu",
		    options->memtable_bytes, MEMTABLE_MOST);
	return 0;
}

int cairn_options_resolve(const cairn_options *options, cairn_options *resolved)
{
	int rc = copy_options(options, resolved);
	if (!rc)
		rc = check_behaviour(resolved);
	if (!rc)
		rc = check_choices(resolved);
	if (rc)
		return rc;
	if (!resolved->sync_interval_ms)
		resolved->sync_interval_ms = 100;
	if (!resolved->memory_limit)
		resolved->memory_limit = MEMORY_DEFAULT;
	if (!resolved->memtable_bytes) {
		size_t share = resolved->memory_limit / 8;
		resolved->memtable_bytes = share < MEMTABLE_DEFAULT ? share : MEMTABLE_DEFAULT;
	}
	if (resolved->memtable_bytes < MEMTABLE_LEAST)
		resolved->memtable_bytes = MEMTABLE_LEAST;
	if (resolved->memory_limit < 2 * resolved->memtable_bytes)
		resolved->memory_limit = 2 * resolved->memtable_bytes;
	if (!resolved->segment_bytes)
		resolved->segment_bytes = SEGMENT_DEFAULT;
	if (!resolved->background_threads)
		resolved->background_threads = 1;
	return 0;
}
