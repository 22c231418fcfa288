/*
 * tools/records.h -- records read from the lines of a file or of standard input, as scan and dump
 * print them.
 */
#ifndef CAIRN_TOOLS_RECORDS_H
#define CAIRN_TOOLS_RECORDS_H

#include "tools/command.h"
#include "tools/lines.h"

/* What a line is; the choices of --format. */
enum cairn_records_format {
	CAIRN_RECORDS_TSV,   /* key TAB value */
	CAIRN_RECORDS_LINES, /* a key; its value is the number of the line */
};
extern const struct cairn_tool_choice cairn_records_formats[];

/* What --help of a command with the option --format says of it. */
#define CAIRN_RECORDS_FORMAT_HELP                                                              \
	"  --format F           what a line is\n"                                              \
	"                         tsv    key TAB value (as without this option)\n"             \
	"                         lines  a key; its value is the number of the line, from 1\n" \
	"                         dump   what cairn dump writes\n"                             \
	"                       where \\\\ is a backslash and \\xNN the byte with that "       \
	"hexadecimal number\n"

struct cairn_records {
	const struct cairn_tool_command *command;
	int format;
	enum cairn_escape escape;
	int descriptor;
	struct cairn_lines lines;
	char line_number[24]; /* the value of a line */
};

/* Opens `path`; standard input for NULL and "-". CAIRN_TOOL_GO_ON, or a status when that failed,
 * and that has been said: then there is nothing to close. */
int cairn_records_open(struct cairn_records *records, const struct cairn_tool_command *command,
    const char *path, int format, enum cairn_escape escape);
void cairn_records_close(struct cairn_records *records);

/*
 * The next record, valid until the next call: no memory is taken for it, lines are decoded where
 * they were read. CAIRN_TOOL_GO_ON; CAIRN_TOOL_FINE at the end; CAIRN_TOOL_FAILURE, and what is
 * wrong with the line has been said.
 */
int cairn_records_next(struct cairn_records *records, cairn_slice *key, cairn_slice *value);

/* Says what is wrong with the record returned last. CAIRN_TOOL_FAILURE. */
int cairn_records_fail(const struct cairn_records *records, const char *what);

#endif
