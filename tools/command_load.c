/*
 * tools/command_load.c -- the command load: many records from a file or pipe, in batches.
 *
 * 1. A record is in the store or not as a whole, and so is a batch; records become part of it in
 * the order of the lines. `acknowledged` counts those whose batch was acknowledged.
 * 2. A batch is written before it would pass BATCH_BYTES; a record beyond that is written by
 * itself, so that a value of the largest size needs no batch around it.
 * 3. No memory is taken per record: lines are decoded where they were read.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/lines.h"

#define BATCH_BYTES     ((size_t)16 << 20) /* counted as cairn.h does: */
#define OPERATION_BYTES 32u
/* Every byte of the longest record as \xNN, and the TAB. */
#define LINE_MAX_SIZE   (4 * ((size_t)CAIRN_KEY_MAX + CAIRN_VALUE_MAX) + 1)

enum format { FORMAT_TSV, FORMAT_LINES };

static const struct cairn_tool_choice formats[] = {
    {"tsv", FORMAT_TSV},
    {"lines", FORMAT_LINES},
    {"dump", FORMAT_TSV},
    {NULL, 0},
};

struct load {
	const struct cairn_tool_command *command;
	cairn *db;
	cairn_batch *batch;
	struct cairn_lines lines;
	int format;
	enum cairn_escape escape;
	bool progress;
	bool no_wait;
	uint64_t batch_records; /* in a full batch */
	size_t batch_bytes;     /* in the batch at hand */
	uint64_t acknowledged;
};

static int acknowledge(struct load *load, uint64_t records)
{
	load->acknowledged += records;
	if (!load->progress)
		return CAIRN_TOOL_GO_ON;
	printf("acknowledged %" PRIu64 "\n", load->acknowledged);
	return cairn_tool_flush(load->command, stdout, "standard output", CAIRN_TOOL_GO_ON);
}

static int write_batch(struct load *load)
{
	size_t count = cairn_batch_count(load->batch);
	if (count == 0)
		return CAIRN_TOOL_GO_ON;
	int code = cairn_write(load->db, load->batch, 0);
	if (code != CAIRN_OK)
		return cairn_tool_failed(load->command, load->db, code);
	cairn_batch_clear(load->batch);
	load->batch_bytes = 0;
	return acknowledge(load, count);
}

static int line_failed(const struct load *load, const char *what)
{
	return cairn_tool_fail(load->command, "line %" PRIu64 ": %s", load->lines.number, what);
}

static int add_record(struct load *load, cairn_slice key, cairn_slice value)
{
	size_t bytes = key.size + value.size + OPERATION_BYTES;
	if (load->batch_bytes + bytes > BATCH_BYTES) {
		int status = write_batch(load);
		if (status != CAIRN_TOOL_GO_ON)
			return status;
	}
	if (bytes > BATCH_BYTES) {
		int code = cairn_put(load->db, key, value, 0);
		return code == CAIRN_OK ? acknowledge(load, 1)
					: line_failed(load, cairn_tool_message(load->db, code));
	}
	int code = cairn_batch_put(load->batch, key, value);
	if (code != CAIRN_OK)
		return line_failed(load, cairn_tool_message(NULL, code));
	load->batch_bytes += bytes;
	if (cairn_batch_count(load->batch) < load->batch_records)
		return CAIRN_TOOL_GO_ON;
	return write_batch(load);
}

/* Decodes a part of the line in place, when there is anything to decode. */
static int decode(const struct load *load, char *line, char *part, size_t size, cairn_slice *bytes)
{
	size_t decoded = size;
	bool plain = load->escape == CAIRN_ESCAPE_TEXT && !memchr(part, '\\', size);
	if (!plain && !cairn_escape_decode(load->escape, part, size, part, &decoded))
		return cairn_tool_fail(load->command, "line %" PRIu64 ": at byte %zu: expected %s",
		    load->lines.number, (size_t)(part - line) + decoded + 1,
		    cairn_escape_expected(load->escape));
	*bytes = (cairn_slice){part, decoded};
	return CAIRN_TOOL_GO_ON;
}

static int add_tsv(struct load *load, char *line, size_t size)
{
	cairn_slice key, value;
	char *tab = memchr(line, '\t', size);
	if (!tab)
		return line_failed(load, "there is no TAB between key and value");
	size_t key_size = (size_t)(tab - line);
	int status = decode(load, line, line, key_size, &key);
	if (status == CAIRN_TOOL_GO_ON)
		status = decode(load, line, tab + 1, size - key_size - 1, &value);
	return status == CAIRN_TOOL_GO_ON ? add_record(load, key, value) : status;
}

static int add_line(struct load *load, char *line, size_t size)
{
	cairn_slice key;
	char number[32];
	int digits = snprintf(number, sizeof number, "%" PRIu64, load->lines.number);
	int status = decode(load, line, line, size, &key);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	return add_record(load, key, (cairn_slice){number, (size_t)digits});
}

static int read_failed(const struct load *load, int code)
{
	return line_failed(
	    load, code == -EFBIG ? "longer than a line of the longest record" : strerror(-code));
}

static int load_lines(struct load *load)
{
	int status = CAIRN_TOOL_GO_ON;
	while (status == CAIRN_TOOL_GO_ON) {
		char *line;
		size_t size;
		int code = cairn_lines_next(&load->lines, &line, &size);
		if (code < 0)
			return read_failed(load, code);
		if (code == 0)
			return write_batch(load);
		status = load->format == FORMAT_TSV ? add_tsv(load, line, size)
						    : add_line(load, line, size);
	}
	return status;
}

/* Until what was loaded stands in runs and the cascade is at rest. */
static int settle(struct load *load)
{
	int code = cairn_flush(load->db);
	if (code == CAIRN_OK)
		code = cairn_wait(load->db);
	return code == CAIRN_OK ? CAIRN_TOOL_FINE
				: cairn_tool_failed(load->command, load->db, code);
}

static int load_into(struct load *load)
{
	load->batch = cairn_batch_new();
	if (!load->batch)
		return cairn_tool_fail(load->command, "%s", strerror(ENOMEM));
	int status = load_lines(load);
	if (status != CAIRN_TOOL_GO_ON)
		cairn_tool_fail(load->command,
		    "stopped; the first %" PRIu64 " records are in the store", load->acknowledged);
	else
		status = load->no_wait ? CAIRN_TOOL_FINE : settle(load);
	cairn_batch_free(load->batch);
	return status;
}

static int open_input(const struct cairn_tool_command *command, const char *path, int *descriptor)
{
	*descriptor = STDIN_FILENO;
	if (path && strcmp(path, "-") != 0)
		*descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (*descriptor < 0)
		return cairn_tool_fail(command, "%s: %s", path, strerror(errno));
	posix_fadvise(*descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
	return CAIRN_TOOL_GO_ON;
}

/* The input comes first: a misspelt file leaves no store behind. */
static int load_file(
    struct load *load, const char *directory, const char *path, cairn_options *options)
{
	int descriptor;
	int status = open_input(load->command, path, &descriptor);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	cairn_lines_init(&load->lines, descriptor, LINE_MAX_SIZE);
	status = cairn_tool_open(load->command, directory, CAIRN_TOOL_CREATE, options, &load->db);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_close(load->command, load->db, load_into(load));
	cairn_lines_release(&load->lines);
	if (descriptor != STDIN_FILENO)
		close(descriptor);
	return status;
}

static int run_load(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct load load = {.command = command, .batch_records = 1000};
	bool hex = false, no_point_index = false;
	char *operands[2];
	cairn_options store_options;
	cairn_tool_options_init(command, &store_options);
	const struct cairn_tool_option options[] = {
	    {.name = "--format", .choice = &load.format, .choices = formats},
	    {.name = "--batch", .number = &load.batch_records},
	    {.name = "--run-format",
		.choice = &store_options.run_format,
		.choices = cairn_tool_run_formats},
	    {.name = "--compression",
		.choice = &store_options.compression,
		.choices = cairn_tool_compressions},
	    {.name = "--no-point-index", .flag = &no_point_index},
	    {.name = "--hex", .flag = &hex},
	    {.name = "--progress", .flag = &load.progress},
	    {.name = "--no-wait", .flag = &load.no_wait},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 2, operands);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	if (load.batch_records == 0)
		return cairn_tool_misuse(command, "--batch takes a number from 1");
	load.escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	if (no_point_index)
		store_options.point_index = CAIRN_NO_POINT_INDEX;
	return load_file(&load, operands[0], operands[1], &store_options);
}

const struct cairn_tool_command cairn_tool_load_commands[] = {
    {"load",
	"DIR [FILE|-] [--format tsv|lines|dump] [--batch N] [--run-format kv02|kv03]\n"
	"    [--compression none|lz4] [--no-point-index] [--hex] [--progress] [--no-wait]",
	"Reads records from FILE, or from standard input, and makes the store DIR when there is "
	"none.",
	"  --format F           what a line is\n"
	"                         tsv    key TAB value (as without this option)\n"
	"                         lines  a key; its value is the number of the line, from 1\n"
	"                         dump   what cairn dump writes\n"
	"                       where \\\\ is a backslash and \\xNN the byte with that hexadecimal "
	"number\n"
	"  --batch N            write N records at once, all or none of them (1000); fewer when "
	"they\n"
	"                       would be more than 16 MiB\n"
	"  --run-format F       kv02 or kv03, for runs written from now on\n"
	"  --compression C      none or lz4, for runs written from now on\n"
	"  --no-point-index     no point index in runs written from now on\n"
	"  --hex                hexadecimal digits instead of text\n"
	"  --progress           print \"acknowledged N\" when N records are written\n"
	"  --no-wait            do not wait until all is flushed and merged\n\n"
	"A bad line ends the work; the batches before it stay in the store, and it says how many "
	"records\n"
	"those are.\n",
	run_load},
    {NULL, NULL, NULL, NULL, NULL},
};
