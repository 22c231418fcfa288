/*
 * tools/command_scan.c -- the commands that print records in the order of their keys: scan, dump.
 */
#include <errno.h>
#include <string.h>

#include "tools/scan.h"

static int scan_store(
    const struct cairn_tool_command *command, const char *path, const struct cairn_scan *scan)
{
	cairn *db;
	cairn_view *view = NULL;
	cairn_iter *iter = NULL;
	int status = cairn_tool_open(command, path, CAIRN_TOOL_READ, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	status = CAIRN_TOOL_FINE;
	int code = cairn_view_open(db, &view);
	if (code == CAIRN_OK)
		code = cairn_iter_open(view, &scan->range, &iter);
	if (code == CAIRN_OK)
		code = cairn_scan_print(scan, iter);
	if (code != CAIRN_OK)
		status = cairn_tool_failed(command, db, code);
	cairn_iter_close(iter);
	cairn_view_close(view);
	return cairn_tool_close(command, db, status);
}

static int run_scan(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct cairn_scan scan;
	char *directory;
	int status = cairn_scan_parse(command, argc, argv, &scan, &directory);
	return status == CAIRN_TOOL_GO_ON ? scan_store(command, directory, &scan) : status;
}

static int dump_to_file(const struct cairn_tool_command *command, const char *directory,
    const char *path, struct cairn_scan *scan)
{
	scan->stream = fopen(path, "we");
	if (!scan->stream)
		return cairn_tool_fail(command, "%s: %s", path, strerror(errno));
	int status = scan_store(command, directory, scan);
	status = cairn_tool_flush(command, scan->stream, path, status);
	if (fclose(scan->stream) != 0 && status == CAIRN_TOOL_FINE)
		status = cairn_tool_fail(command, "%s: close: %s", path, strerror(errno));
	return status;
}

static int run_dump(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct cairn_scan scan = {.limit = UINT64_MAX, .stream = stdout};
	bool hex = false;
	char *operands[2];
	const struct cairn_tool_option options[] = {
	    {.name = "--hex", .flag = &hex}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 2, operands);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	scan.escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	if (operands[1] && strcmp(operands[1], "-") != 0)
		return dump_to_file(command, operands[0], operands[1], &scan);
	return scan_store(command, operands[0], &scan);
}

const struct cairn_tool_command cairn_tool_scan_commands[] = {
    {"scan", "DIR " CAIRN_SCAN_SYNOPSIS,
	"Prints records in the order of their keys: key TAB value, one on a line.", CAIRN_SCAN_HELP,
	run_scan},
    {"dump", "DIR [FILE|-] [--hex]",
	"Writes all records to FILE, or to standard output, in the form of cairn scan.",
	"The same records give the same bytes, and cairn load --format dump reads them back.\n\n"
	"  --hex   hexadecimal digits instead of text; load needs --hex as well\n",
	run_dump},
    {NULL, NULL, NULL, NULL, NULL},
};
