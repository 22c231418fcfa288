/*
 * tools/records.c -- see records.h.
 */
#include "tools/records.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Every byte of the longest record as \xNN, and the TAB. */
#define LINE_MAX_SIZE (4 * ((size_t)CAIRN_KEY_MAX + CAIRN_VALUE_MAX) + 1)

const struct cairn_tool_choice cairn_records_formats[] = {
    {"tsv", CAIRN_RECORDS_TSV},
    {"lines", CAIRN_RECORDS_LINES},
    {"dump", CAIRN_RECORDS_TSV},
    {NULL, 0},
};

int cairn_records_open(struct cairn_records *records, const struct cairn_tool_command *command,
    const char *path, int format, enum cairn_escape escape)
{
	int descriptor = STDIN_FILENO;
	if (path && strcmp(path, "-") != 0)
		descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		return cairn_tool_fail(command, "%s: %s", path, strerror(errno));
	posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
	*records = (struct cairn_records){
	    .command = command, .format = format, .escape = escape, .descriptor = descriptor};
	cairn_lines_init(&records->lines, descriptor, LINE_MAX_SIZE);
	return CAIRN_TOOL_GO_ON;
}

void cairn_records_close(struct cairn_records *records)
{
	cairn_lines_release(&records->lines);
	if (records->descriptor != STDIN_FILENO)
		close(records->descriptor);
}

int cairn_records_fail(const struct cairn_records *records, const char *what)
{
	return cairn_tool_fail(
	    records->command, "line %" PRIu64 ": %s", records->lines.number, what);
}

/* Decodes a part of the line in place, when there is anything to decode. */
static int decode(
    const struct cairn_records *records, char *line, char *part, size_t size, cairn_slice *bytes)
{
	size_t decoded = size;
	bool plain = records->escape == CAIRN_ESCAPE_TEXT && !memchr(part, '\\', size);
	if (!plain && !cairn_escape_decode(records->escape, part, size, part, &decoded))
		return cairn_tool_fail(records->command,
		    "line %" PRIu64 ": at byte %zu: expected %s", records->lines.number,
		    (size_t)(part - line) + decoded + 1, cairn_escape_expected(records->escape));
	*bytes = (cairn_slice){part, decoded};
	return CAIRN_TOOL_GO_ON;
}

static int decode_tsv(const struct cairn_records *records, char *line, size_t size,
    cairn_slice *key, cairn_slice *value)
{
	char *tab = memchr(line, '\t', size);
	if (!tab)
		return cairn_records_fail(records, "there is no TAB between key and value");
	size_t key_size = (size_t)(tab - line);
	int status = decode(records, line, line, key_size, key);
	if (status == CAIRN_TOOL_GO_ON)
		status = decode(records, line, tab + 1, size - key_size - 1, value);
	return status;
}

static int decode_line(
    struct cairn_records *records, char *line, size_t size, cairn_slice *key, cairn_slice *value)
{
	int digits = snprintf(
	    records->line_number, sizeof records->line_number, "%" PRIu64, records->lines.number);
	*value = (cairn_slice){records->line_number, (size_t)digits};
	return decode(records, line, line, size, key);
}

int cairn_records_next(struct cairn_records *records, cairn_slice *key, cairn_slice *value)
{
	char *line;
	size_t size;
	int code = cairn_lines_next(&records->lines, &line, &size);
	if (code < 0)
		return cairn_records_fail(records,
		    code == -EFBIG ? "longer than a line of the longest record" : strerror(-code));
	if (code == 0)
		return CAIRN_TOOL_FINE;
	return records->format == CAIRN_RECORDS_TSV ? decode_tsv(records, line, size, key, value)
						    : decode_line(records, line, size, key, value);
}
