/*
 * tools/scan.h -- the records of an iterator, printed: what the commands that scan share.
 */
#ifndef CAIRN_TOOLS_SCAN_H
#define CAIRN_TOOLS_SCAN_H

#include "tools/command.h"

/* What to print, and how. */
struct cairn_scan {
	cairn_range range;   /* points into … */
	cairn_slice ends[3]; /* … these */
	enum cairn_escape escape;
	bool reverse;
	bool only_keys;
	uint64_t limit;
	FILE *stream;
};

/* The options that cairn_scan_parse reads, and what --help says of them. */
#define CAIRN_SCAN_SYNOPSIS \
	"[--from K] [--to K] [--prefix P] [--reverse] [--limit N] [--keys] [--hex]"
#define CAIRN_SCAN_HELP                                                                          \
	"Keys and values are printed, and K and P read, as text: a backslash is \\\\ and every " \
	"byte outside\n"                                                                         \
	"0x20 to 0x7e is \\xNN.\n\n"                                                             \
	"  --from K     begin with the first key not below K\n"                                  \
	"  --to K       end before the first key not below K\n"                                  \
	"  --prefix P   only keys that begin with P\n"                                           \
	"  --reverse    from the last key to the first\n"                                        \
	"  --limit N    at most N records\n"                                                     \
	"  --keys       keys only\n"                                                             \
	"  --hex        hexadecimal digits instead of text\n"

/* Reads the arguments of a command that scans its one operand, `path`, to standard output. As
 * cairn_tool_parse. The range stands in the arguments. */
int cairn_scan_parse(const struct cairn_tool_command *command, int argc, char **argv,
    struct cairn_scan *scan, char **path);

/*
 * Prints what the iterator shows. CAIRN_OK or its failure. Ends early, with success, when the
 * stream fails: whoever flushes it at the end will say so. The stream must not have been written
 * to.
 */
int cairn_scan_print(const struct cairn_scan *scan, cairn_iter *iter);

#endif
