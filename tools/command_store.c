/*
 * tools/command_store.c -- the commands on a store as a whole: verify, repair, compact, wait,
 * checkpoint.
 */
#include <inttypes.h>

#include "tools/command.h"

/* ---------------------------------------------------------------- verify */

static int print_finding(void *context, const cairn_finding *finding)
{
	uint64_t *count = context;
	cairn_tool_progress_clear();
	printf("%s: offset %" PRIu64 ": %s\n", finding->path, finding->offset, finding->message);
	++*count;
	return 0;
}

static int run_verify(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *directory;
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &directory);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	cairn_options store_options;
	uint64_t count = 0;
	cairn_tool_options_init(command, &store_options);
	int code = cairn_verify(directory, &store_options, print_finding, &count);
	cairn_tool_progress_clear();
	if (code != CAIRN_OK && (code != CAIRN_CORRUPT || count == 0))
		return cairn_tool_failed(command, NULL, code);
	if (count == 0) {
		puts("no problems found");
		return CAIRN_TOOL_FINE;
	}
	printf("%" PRIu64 " problem%s found\n", count, count == 1 ? "" : "s");
	return CAIRN_TOOL_NEGATIVE;
}

/* ---------------------------------------------------------------- repair */

static int run_repair(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *directories[2];
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 2, 2, directories);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	cairn_options store_options;
	uint64_t count = 0;
	cairn_tool_options_init(command, &store_options);
	int code =
	    cairn_repair(directories[0], directories[1], &store_options, print_finding, &count);
	cairn_tool_progress_clear();
	if (code < 0)
		return cairn_tool_failed(command, NULL, code);
	if (code == CAIRN_OK) {
		printf("%s has everything\n", directories[1]);
		return CAIRN_TOOL_FINE;
	}
	printf("%s has everything but what stands above (%" PRIu64 " finding%s)\n", directories[1],
	    count, count == 1 ? "" : "s");
	return CAIRN_TOOL_NEGATIVE;
}

/* ---------------------------------------------------------------- compact, wait */

static int reshape(const struct cairn_tool_command *command, const char *directory,
    cairn_options *options, int (*work)(cairn *))
{
	cairn *db;
	int status = cairn_tool_open(command, directory, CAIRN_TOOL_WRITE, options, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = work(db);
	status = code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(command, db, code);
	return cairn_tool_close(command, db, status);
}

static int run_compact(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *directory;
	cairn_options store_options;
	cairn_tool_options_init(command, &store_options);
	const struct cairn_tool_option options[] = {
	    {.name = "--run-format",
		.choice = &store_options.run_format,
		.choices = cairn_tool_run_formats},
	    {.name = "--compression",
		.choice = &store_options.compression,
		.choices = cairn_tool_compressions},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &directory);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	return reshape(command, directory, &store_options, cairn_compact);
}

static int run_wait(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *directory;
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 1, &directory);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	return reshape(command, directory, NULL, cairn_wait);
}

/* ---------------------------------------------------------------- checkpoint */

static int run_checkpoint(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *operands[2];
	cairn *db;
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 2, 2, operands);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_open(command, operands[0], CAIRN_TOOL_WRITE, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = cairn_checkpoint(db, operands[1]);
	status = code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(command, db, code);
	return cairn_tool_close(command, db, status);
}

const struct cairn_tool_command cairn_tool_store_commands[] = {
    {"verify", "DIR", "Reads all of the store and checks everything that can be checked.",
	"Prints every problem with its file and offset, and how many there are: exit status 1 when "
	"there\n"
	"are any. Changes nothing, and the store may be in use.\n",
	run_verify},
    {"repair", "DIR OUT", "Makes a store in OUT of everything that can be proved of a damaged one.",
	"OUT must not exist, and nothing is changed in DIR, which must not be open for writing.\n"
	"Prints everything that is missing or in doubt, with file, offset and keys: exit status 1 "
	"when\n"
	"there is anything. A key whose newest record is damaged is left out. Where keys cannot be "
	"read,\n"
	"or a run or the manifest is lost, older values are kept and may be out of date or "
	"deleted.\n",
	run_repair},
    {"compact", "DIR [--run-format kv02|kv03] [--compression none|lz4]",
	"Merges all runs into one, without deleted and overwritten records.",
	"Meanwhile it may need as much space again as the store has.\n\n"
	"  --run-format F    kv02 or kv03, for runs written from now on\n"
	"  --compression C   none or lz4, for runs written from now on\n",
	run_compact},
    {"wait", "DIR", "Works until nothing is left to do and the cascade of runs is at rest.", "",
	run_wait},
    {"checkpoint", "DIR OUT", "Makes a store of its own in OUT that holds what DIR holds now.",
	"OUT must not exist. Runs are hard-linked where that is possible and copied elsewhere.\n",
	run_checkpoint},
    {NULL, NULL, NULL, NULL, NULL},
};
