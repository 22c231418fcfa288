/*
 * tools/command_scan.c -- the commands that print records in the order of their keys: scan, dump.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"

/* What to print, and how. */
struct scan {
	cairn_range range;
	enum cairn_escape escape;
	bool reverse;
	bool only_keys;
	uint64_t limit;
	FILE *stream;
};

static bool print_record(const struct scan *scan, cairn_slice key, cairn_slice value)
{
	cairn_escape_print(scan->stream, scan->escape, key);
	if (!scan->only_keys) {
		putc_unlocked('\t', scan->stream);
		cairn_escape_print(scan->stream, scan->escape, value);
	}
	putc_unlocked('\n', scan->stream);
	return !ferror_unlocked(scan->stream);
}

/* Ends early, with success, when the stream fails: whoever flushes it at the end will say so. */
static int print_records(const struct scan *scan, cairn_iter *iter)
{
	uint64_t left = scan->limit;
	if (left == 0)
		return CAIRN_OK;
	int code = scan->reverse ? cairn_iter_last(iter) : cairn_iter_first(iter);
	while (code == CAIRN_OK) {
		cairn_slice value = {"", 0};
		if (!scan->only_keys) {
			value = cairn_iter_value(iter);
			code = cairn_iter_status(iter);
		}
		if (code != CAIRN_OK)
			break;
		if (!print_record(scan, cairn_iter_key(iter), value) || --left == 0)
			break;
		code = scan->reverse ? cairn_iter_prev(iter) : cairn_iter_next(iter);
	}
	return code == CAIRN_END ? CAIRN_OK : code;
}

/* Larger writes than stdio's own, unless somebody is watching. The stream must not have been
 * written to. */
static void write_widely(FILE *stream)
{
	static char buffer[1 << 18];
	if (!isatty(fileno(stream)))
		setvbuf(stream, buffer, _IOFBF, sizeof buffer);
}

static int scan_store(
    const struct cairn_tool_command *command, const char *path, const struct scan *scan)
{
	cairn *db;
	cairn_view *view = NULL;
	cairn_iter *iter = NULL;
	int status = cairn_tool_open(command, path, CAIRN_TOOL_READ, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	write_widely(scan->stream);
	status = CAIRN_TOOL_FINE;
	int code = cairn_view_open(db, &view);
	if (code == CAIRN_OK)
		code = cairn_iter_open(view, &scan->range, &iter);
	if (code == CAIRN_OK)
		code = print_records(scan, iter);
	if (code != CAIRN_OK)
		status = cairn_tool_failed(command, db, code);
	cairn_iter_close(iter);
	cairn_view_close(view);
	return cairn_tool_close(command, db, status);
}

/* An end of the range: an option that was not given leaves it open. */
static int decode_end(const struct cairn_tool_command *command, const char *option,
    enum cairn_escape escape, char *argument, cairn_slice *bytes, const cairn_slice **end)
{
	if (!argument)
		return CAIRN_TOOL_GO_ON;
	*end = bytes;
	return cairn_tool_bytes(command, option, escape, argument, bytes);
}

static int run_scan(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct scan scan = {.limit = UINT64_MAX, .stream = stdout};
	bool hex = false;
	char *directory, *from = NULL, *to = NULL, *prefix = NULL;
	cairn_slice from_bytes, to_bytes, prefix_bytes;
	const struct cairn_tool_option options[] = {
	    {.name = "--from", .text = &from},
	    {.name = "--to", .text = &to},
	    {.name = "--prefix", .text = &prefix},
	    {.name = "--reverse", .flag = &scan.reverse},
	    {.name = "--limit", .number = &scan.limit},
	    {.name = "--keys", .flag = &scan.only_keys},
	    {.name = "--hex", .flag = &hex},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &directory);
	scan.escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	if (status == CAIRN_TOOL_GO_ON)
		status =
		    decode_end(command, "--from", scan.escape, from, &from_bytes, &scan.range.from);
	if (status == CAIRN_TOOL_GO_ON)
		status = decode_end(command, "--to", scan.escape, to, &to_bytes, &scan.range.to);
	if (status == CAIRN_TOOL_GO_ON)
		status = decode_end(
		    command, "--prefix", scan.escape, prefix, &prefix_bytes, &scan.range.prefix);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	return scan_store(command, directory, &scan);
}

static int dump_to_file(const struct cairn_tool_command *command, const char *directory,
    const char *path, struct scan *scan)
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
	struct scan scan = {.limit = UINT64_MAX, .stream = stdout};
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
    {"scan", "DIR [--from K] [--to K] [--prefix P] [--reverse] [--limit N] [--keys] [--hex]",
	"Prints records in the order of their keys: key TAB value, one on a line.",
	"Keys and values are printed, and K and P read, as text: a backslash is \\\\ and every "
	"byte outside\n"
	"0x20 to 0x7e is \\xNN.\n\n"
	"  --from K     begin with the first key not below K\n"
	"  --to K       end before the first key not below K\n"
	"  --prefix P   only keys that begin with P\n"
	"  --reverse    from the last key to the first\n"
	"  --limit N    at most N records\n"
	"  --keys       keys only\n"
	"  --hex        hexadecimal digits instead of text\n",
	run_scan},
    {"dump", "DIR [FILE|-] [--hex]",
	"Writes all records to FILE, or to standard output, in the form of cairn scan.",
	"The same records give the same bytes, and cairn load --format dump reads them back.\n\n"
	"  --hex   hexadecimal digits instead of text; load needs --hex as well\n",
	run_dump},
    {NULL, NULL, NULL, NULL, NULL},
};
