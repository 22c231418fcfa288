/*
 * tools/inspect.c -- `cairn inspect`: what one file of a store says, byte by byte.
 *
 * The file is read into memory whole, not mapped: a file that is cut meanwhile, or a disk that
 * fails, shall be a message and not a signal.
 */
#include "tools/inspect.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "tools/command.h"

#define MAGIC_SIZE 8u

/* ---------------------------------------------------------------- what the parts share */

void cairn_inspect_problem(
    struct cairn_inspection *inspection, uint64_t offset, const char *format, ...)
{
	va_list arguments;
	inspection->problems++;
	printf("BAD at offset %" PRIu64 ": ", offset);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

void cairn_inspect_failure(struct cairn_inspection *inspection)
{
	cairn_inspect_problem(inspection, cairn_error_offset(), "%s", cairn_error_cause());
}

void cairn_inspect_field(const char *name, const char *format, ...)
{
	va_list arguments;
	printf("  %-17s", name);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

void cairn_inspect_identity(const struct cairn_identity *identity)
{
	printf("  %-17s", "store id");
	cairn_escape_print(
	    stdout, CAIRN_ESCAPE_HEX, (cairn_slice){identity->store_id, sizeof identity->store_id});
	putchar('\n');
	cairn_inspect_field("hash seed", "0x%016" PRIx64, identity->hash_seed);
}

void cairn_inspect_key(const struct cairn_inspection *inspection, cairn_slice key)
{
	cairn_escape_print(stdout, inspection->escape, key);
	putchar('\n');
}

const char *cairn_inspect_verdict(bool good)
{
	return good ? "ok" : "BAD";
}

void cairn_inspect_number(struct cairn_inspection *inspection, uint64_t number, uint64_t offset)
{
	bool numbered = inspection->named == CAIRN_FILE_RUN ||
			inspection->named == CAIRN_FILE_INDEX ||
			inspection->named == CAIRN_FILE_LOG;
	if (numbered && number != inspection->named_number)
		cairn_inspect_problem(inspection, offset,
		    "the file says that its number is %" PRIu64 ", but its name %" PRIu64, number,
		    inspection->named_number);
}

void cairn_inspect_mend(uint8_t *copy, const struct cairn_inspect_frame *frame)
{
	memcpy(copy, frame->magic, MAGIC_SIZE);
	cairn_put32(
	    copy + frame->at, cairn_checksum(copy + frame->from, frame->to - frame->from, 0));
}

/* ---------------------------------------------------------------- what kind of file it is */

static const struct kind {
	const char *magic;
	enum cairn_file_kind kind;
	const char *noun;
	int (*inspect)(struct cairn_inspection *inspection);
} kinds[] = {
    {"cairn.kv", CAIRN_FILE_RUN, "run", cairn_inspect_run},
    {"cairn.ix", CAIRN_FILE_INDEX, "fractional index", cairn_inspect_fraction},
    {"CAIRNWAL", CAIRN_FILE_LOG, "log segment", cairn_inspect_log},
    {"cairn.mf", CAIRN_FILE_MANIFEST, "manifest", cairn_inspect_manifest},
    {"cairn.mf", CAIRN_FILE_MANIFEST_OLD, "manifest", cairn_inspect_manifest},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const struct kind *kind_by_magic(const struct cairn_inspection *inspection)
{
	for (size_t i = 0; i < KINDS && inspection->size >= MAGIC_SIZE; i++) {
		if (memcmp(inspection->bytes, kinds[i].magic, MAGIC_SIZE) == 0)
			return &kinds[i];
	}
	return NULL;
}

static const struct kind *kind_by_name(const struct cairn_inspection *inspection)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].kind == inspection->named)
			return &kinds[i];
	}
	return NULL;
}

static void inspect_lock(const struct cairn_inspection *inspection)
{
	size_t digits = 0;
	while (digits < inspection->size && isdigit(inspection->bytes[digits]))
		digits++;
	printf("%s: lock, %zu bytes\n", inspection->path, inspection->size);
	cairn_inspect_field("last owner", "%.*s", digits ? (int)digits : 4,
	    digits ? (const char *)inspection->bytes : "none");
}

/* A file without a magic that is known, whose name is no help either. */
static void inspect_other(struct cairn_inspection *inspection)
{
	const char *noun = inspection->named == CAIRN_FILE_TEMPORARY ? "temporary file" : "file";
	printf("%s: %s, %zu bytes\n", inspection->path, noun, inspection->size);
	if (inspection->named == CAIRN_FILE_TEMPORARY)
		puts("nothing of it was finished; the next opening of the store removes it");
	else
		cairn_inspect_problem(inspection, 0, "this is not a file of a store");
}

static int inspect(struct cairn_inspection *inspection)
{
	const struct kind *named = kind_by_name(inspection);
	const struct kind *kind = kind_by_magic(inspection);
	if (inspection->named == CAIRN_FILE_LOCK) {
		inspect_lock(inspection);
		return 0;
	}
	if (!kind)
		kind = named;
	if (!kind) {
		inspect_other(inspection);
		return 0;
	}
	printf("%s: %s, %zu bytes\n", inspection->path, kind->noun, inspection->size);
	if (named && named->inspect != kind->inspect)
		cairn_inspect_problem(
		    inspection, 0, "this is a %s with the name of a %s", kind->noun, named->noun);
	return kind->inspect(inspection);
}

/* ---------------------------------------------------------------- the command */

static int out_of_memory(
    const struct cairn_tool_command *command, const struct cairn_inspection *inspection)
{
	return cairn_tool_fail(
	    command, "%s: not enough memory for its %zu bytes", inspection->path, inspection->size);
}

static int read_open(
    const struct cairn_tool_command *command, struct cairn_inspection *inspection, FILE *file)
{
	struct stat status;
	if (fstat(fileno(file), &status))
		return cairn_tool_fail(command, "%s: %s", inspection->path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return cairn_tool_fail(command, "%s: not a regular file%s", inspection->path,
		    S_ISDIR(status.st_mode) ? "; name one in this directory" : "");
	inspection->size = (size_t)status.st_size;
	inspection->bytes = malloc(inspection->size + CAIRN_INSPECT_SLACK);
	if (!inspection->bytes)
		return out_of_memory(command, inspection);
	inspection->size = fread(inspection->bytes, 1, inspection->size, file);
	if (ferror(file))
		return cairn_tool_fail(command, "%s: at offset %zu: %s", inspection->path,
		    inspection->size, strerror(errno));
	memset(inspection->bytes + inspection->size, 0, CAIRN_INSPECT_SLACK);
	return CAIRN_TOOL_GO_ON;
}

static int read_file(const struct cairn_tool_command *command, struct cairn_inspection *inspection)
{
	FILE *file = fopen(inspection->path, "rb");
	if (!file)
		return cairn_tool_fail(command, "%s: %s", inspection->path, strerror(errno));
	int status = read_open(command, inspection, file);
	fclose(file);
	return status;
}

static int print_total(const struct cairn_inspection *inspection)
{
	if (inspection->problems == 0) {
		puts("no problems found");
		return CAIRN_TOOL_FINE;
	}
	printf("%" PRIu64 " problem%s found\n", inspection->problems,
	    inspection->problems == 1 ? "" : "s");
	return CAIRN_TOOL_NEGATIVE;
}

static int run_inspect(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct cairn_inspection inspection = {.escape = CAIRN_ESCAPE_TEXT};
	char *path;
	bool hex = false;
	const struct cairn_tool_option options[] = {
	    {.name = "--blocks", .flag = &inspection.blocks},
	    {.name = "--records", .flag = &inspection.records},
	    {.name = "--hex", .flag = &hex},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &path);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	const char *slash = strrchr(path, '/');
	inspection.path = path;
	inspection.named = cairn_filename_parse(slash ? slash + 1 : path, &inspection.named_number);
	if (hex)
		inspection.escape = CAIRN_ESCAPE_HEX;
	status = read_file(command, &inspection);
	if (status == CAIRN_TOOL_GO_ON)
		status = inspect(&inspection) == 0 ? print_total(&inspection)
						   : out_of_memory(command, &inspection);
	free(inspection.bytes);
	return status;
}

const struct cairn_tool_command cairn_tool_inspect_commands[] = {
    {"inspect", "FILE [--blocks] [--records] [--hex]",
	"Prints what one file of a store says, and what is wrong with it.",
	"FILE is any file of a store: MANIFEST, NNNNNN.kv, NNNNNN.ix, NNNNNN.wal. Every checksum "
	"in it is\n"
	"checked, whatever is printed; exit status 1 when something is wrong. Each problem has "
	"its\n"
	"offset. The rest of the store is not looked at; cairn verify does that.\n\n"
	"  --blocks    every block of a run\n"
	"  --records   every record of a run in its block, every operation of a log record\n"
	"  --hex       keys as hexadecimal digits instead of text\n",
	run_inspect},
    {NULL, NULL, NULL, NULL, NULL},
};
