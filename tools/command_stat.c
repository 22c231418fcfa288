/*
 * tools/command_stat.c -- the command stat: what a store consists of, as a table or as JSON.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

#define SIZE_TEXT_MAX 32

/* 1023 B, 1.0 KiB, 61.2 MiB … */
static const char *size_text(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	if (bytes < 1024) {
		snprintf(text, SIZE_TEXT_MAX, "%" PRIu64 " B", bytes);
		return text;
	}
	double value = (double)bytes / 1024;
	size_t unit = 0;
	for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++)
		value /= 1024;
	snprintf(text, SIZE_TEXT_MAX, "%.1f %s", value, units[unit]);
	return text;
}

static void print_size(const char *name, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];
	printf("%-18s %s\n", name, size_text(bytes, text));
}

static const char *choice_name(const struct cairn_tool_choice *choices, int value)
{
	for (; choices->name; choices++) {
		if (choices->value == value)
			return choices->name;
	}
	return "?";
}

static void print_run(size_t number, const cairn_run_stats *run, const cairn_run_stats *older)
{
	char size[SIZE_TEXT_MAX], dead[SIZE_TEXT_MAX], ratio[SIZE_TEXT_MAX] = "-";
	if (older && run->bytes)
		snprintf(ratio, sizeof ratio, "%.1f", (double)older->bytes / (double)run->bytes);
	printf("%4zu  %10s  %7s  %12" PRIu64 "  %10" PRIu64 "  %10s  %-6s  %-11s  %5u\n", number,
	    size_text(run->bytes, size), ratio, run->records, run->tombstones,
	    size_text(run->dead_bytes, dead), choice_name(cairn_tool_run_formats, run->format),
	    choice_name(cairn_tool_compressions, run->compression), run->segments);
}

static void print_runs(const cairn_stats *stats)
{
	size_t shown =
	    stats->run_count < CAIRN_STAT_RUNS_MAX ? stats->run_count : CAIRN_STAT_RUNS_MAX;
	uint64_t bytes = 0, records = 0;
	if (shown)
		printf(" run        size  x older       records  tombstones        dead  format  "
		       "compression  files\n");
	for (size_t i = 0; i < shown; i++) {
		const cairn_run_stats *older = i + 1 < shown ? &stats->runs[i + 1] : NULL;
		print_run(i + 1, &stats->runs[i], older);
		bytes += stats->runs[i].bytes;
		records += stats->runs[i].records;
	}
	if (stats->run_count > shown)
		printf("and %zu older ones\n", stats->run_count - shown);
	if (shown)
		putchar('\n');
	printf("%-18s %zu, newest first\n", "runs", stats->run_count);
	printf("%-18s %" PRIu64 ", tombstones and old versions included\n", "records in runs",
	    records);
	print_size("bytes in runs", bytes);
}

static const char *sync_mode_name(int mode)
{
	switch (mode) {
	case CAIRN_SYNC_INTERVAL:
		return "interval";
	case CAIRN_SYNC_FULL:
		return "full";
	case CAIRN_SYNC_NONE:
		return "none";
	default:
		return "?";
	}
}

static void print_views(const cairn_stats *stats)
{
	char size[SIZE_TEXT_MAX];
	size_t shown =
	    stats->view_count < CAIRN_STAT_VIEWS_MAX ? stats->view_count : CAIRN_STAT_VIEWS_MAX;
	printf("%-18s %zu\n", "views", stats->view_count);
	for (size_t i = 0; i < shown; i++)
		printf("%-18s open for %" PRIu64 " ms, keeps %s\n", "", stats->views[i].age_ms,
		    size_text(stats->views[i].bytes, size));
}

static void print_stats(const cairn_stats *stats)
{
	print_runs(stats);
	print_size("memtables", stats->memtable_bytes);
	print_size("log", stats->log_bytes);
	print_size("indexes", stats->index_bytes);
	print_size("memory", stats->memory_bytes);
	printf("%-18s %s\n", "io", stats->io ? stats->io : "?");
	printf("%-18s %s\n", "sync mode", sync_mode_name(stats->sync_mode));
	print_views(stats);
	printf("%-18s %" PRIu64 " by index, %" PRIu64 " without (%" PRIu64
	       " for lack of one, %" PRIu64 " in too wide a window)\n",
	    "seeks", stats->seeks_indexed, stats->seeks_fallback, stats->seeks_unindexed,
	    stats->seeks_wide);
	print_size("written: log", stats->log_bytes_written);
	print_size("written: flushes", stats->flush_bytes_written);
	print_size("written: merges", stats->merge_bytes_written);
	printf("%-18s %s\n", "last error",
	    stats->last_error ? cairn_strerror(stats->last_error) : "none");
}

static int stat_as_text(const struct cairn_tool_command *command, cairn *db)
{
	cairn_stats stats;
	int code = cairn_stat(db, &stats);
	if (code != CAIRN_OK)
		return cairn_tool_failed(command, db, code);
	print_stats(&stats);
	return CAIRN_TOOL_FINE;
}

/* The text may have grown since its size was asked for: numbers in it change by themselves. */
static int stat_as_json(const struct cairn_tool_command *command, cairn *db)
{
	char *text = NULL;
	size_t capacity = 4096, size;
	for (;;) {
		char *larger = realloc(text, capacity);
		int code = larger ? cairn_stat_json(db, larger, capacity, &size) : CAIRN_OK;
		text = larger ? larger : text;
		if (!larger || code != CAIRN_OK) {
			free(text);
			return larger ? cairn_tool_failed(command, db, code)
				      : cairn_tool_fail(command, "out of memory");
		}
		if (size < capacity)
			break;
		capacity = size + 256;
	}
	puts(text);
	free(text);
	return CAIRN_TOOL_FINE;
}

static int run_stat(const struct cairn_tool_command *command, int argc, char **argv)
{
	bool json = false;
	char *directory;
	cairn *db;
	const struct cairn_tool_option options[] = {
	    {.name = "--json", .flag = &json}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &directory);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_open(command, directory, CAIRN_TOOL_READ, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	status = json ? stat_as_json(command, db) : stat_as_text(command, db);
	return cairn_tool_close(command, db, status);
}

const struct cairn_tool_command cairn_tool_stat_commands[] = {
    {"stat", "DIR [--json]",
	"Prints what the store consists of: its runs, newest first, and the rest.",
	"\"x older\" is how many times larger the next older run is: 4.0 and more in a cascade at "
	"rest.\n"
	"Views, memory and seeks are those of this command's own handle.\n\n"
	"  --json   one JSON object instead of a table\n",
	run_stat},
    {NULL, NULL, NULL, NULL, NULL},
};
