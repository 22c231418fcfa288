/*
 * tools/scan.c -- see scan.h.
 */
#include "tools/scan.h"

#include <unistd.h>

static bool print_record(const struct cairn_scan *scan, cairn_slice key, cairn_slice value)
{
	cairn_escape_print(scan->stream, scan->escape, key);
	if (!scan->only_keys) {
		putc_unlocked('\t', scan->stream);
		cairn_escape_print(scan->stream, scan->escape, value);
	}
	putc_unlocked('\n', scan->stream);
	return !ferror_unlocked(scan->stream);
}

/* Larger writes than stdio's own, unless somebody is watching. */
static void write_widely(FILE *stream)
{
	static char buffer[1 << 18];
	if (!isatty(fileno(stream)))
		setvbuf(stream, buffer, _IOFBF, sizeof buffer);
}

int cairn_scan_print(const struct cairn_scan *scan, cairn_iter *iter)
{
	uint64_t left = scan->limit;
	write_widely(scan->stream);
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

/* An end of the range: an option that was not given leaves it open. */
static int decode_end(const struct cairn_tool_command *command, const char *option,
    enum cairn_escape escape, char *argument, cairn_slice *bytes, const cairn_slice **end)
{
	if (!argument)
		return CAIRN_TOOL_GO_ON;
	*end = bytes;
	return cairn_tool_bytes(command, option, escape, argument, bytes);
}

/* The ends of the range, of which each may be NULL. */
struct ends {
	char *from, *to, *prefix;
};

static int decode_range(
    const struct cairn_tool_command *command, const struct ends *ends, struct cairn_scan *scan)
{
	cairn_range *range = &scan->range;
	int status =
	    decode_end(command, "--from", scan->escape, ends->from, &scan->ends[0], &range->from);
	if (status == CAIRN_TOOL_GO_ON)
		status =
		    decode_end(command, "--to", scan->escape, ends->to, &scan->ends[1], &range->to);
	if (status == CAIRN_TOOL_GO_ON)
		status = decode_end(command, "--prefix", scan->escape, ends->prefix, &scan->ends[2],
		    &range->prefix);
	return status;
}

int cairn_scan_parse(const struct cairn_tool_command *command, int argc, char **argv,
    struct cairn_scan *scan, char **path)
{
	*scan = (struct cairn_scan){.limit = UINT64_MAX, .stream = stdout};
	struct ends ends = {NULL, NULL, NULL};
	bool hex = false;
	const struct cairn_tool_option options[] = {
	    {.name = "--from", .text = &ends.from},
	    {.name = "--to", .text = &ends.to},
	    {.name = "--prefix", .text = &ends.prefix},
	    {.name = "--reverse", .flag = &scan->reverse},
	    {.name = "--limit", .number = &scan->limit},
	    {.name = "--keys", .flag = &scan->only_keys},
	    {.name = "--hex", .flag = &hex},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, path);
	scan->escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	return status == CAIRN_TOOL_GO_ON ? decode_range(command, &ends, scan) : status;
}
