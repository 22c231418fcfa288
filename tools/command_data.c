/*
 * tools/command_data.c -- the commands on one record: put, get, del.
 */
#include "tools/command.h"

#define KEY_HELP                                                                                \
	"KEY and VALUE are text: \\\\ is a backslash and \\xNN the byte with that hexadecimal " \
	"number; all\n"                                                                         \
	"other bytes stand for themselves. Write -- before operands that begin with -.\n\n"

static int run_put(const struct cairn_tool_command *command, int argc, char **argv)
{
	bool hex = false;
	char *operands[3];
	const struct cairn_tool_option options[] = {
	    {.name = "--hex", .flag = &hex}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 3, 3, operands);
	enum cairn_escape escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	cairn_slice key, value;
	cairn *db;
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_bytes(command, "KEY", escape, operands[1], &key);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_bytes(command, "VALUE", escape, operands[2], &value);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_open(command, operands[0], CAIRN_TOOL_CREATE, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = cairn_put(db, key, value, 0);
	status = code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(command, db, code);
	return cairn_tool_close(command, db, status);
}

static int run_del(const struct cairn_tool_command *command, int argc, char **argv)
{
	bool hex = false;
	char *operands[2];
	const struct cairn_tool_option options[] = {
	    {.name = "--hex", .flag = &hex}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 2, 2, operands);
	enum cairn_escape escape = hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT;
	cairn_slice key;
	cairn *db;
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_bytes(command, "KEY", escape, operands[1], &key);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_open(command, operands[0], CAIRN_TOOL_WRITE, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = cairn_delete(db, key, 0);
	status = code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(command, db, code);
	return cairn_tool_close(command, db, status);
}

/* Through a view: a value of any size is printed from where it lies. */
static int get_from(
    const struct cairn_tool_command *command, cairn *db, cairn_slice key, bool hex, bool raw)
{
	cairn_view *view;
	cairn_slice value;
	int code = cairn_view_open(db, &view);
	if (code != CAIRN_OK)
		return cairn_tool_failed(command, db, code);
	int status = CAIRN_TOOL_FINE;
	code = cairn_view_get(view, key, &value);
	if (code == CAIRN_OK)
		cairn_tool_print_value(value, hex, raw);
	else if (code == CAIRN_NOT_FOUND)
		status = CAIRN_TOOL_NEGATIVE;
	else
		status = cairn_tool_failed(command, db, code);
	cairn_view_close(view);
	return status;
}

static int run_get(const struct cairn_tool_command *command, int argc, char **argv)
{
	bool hex = false, raw = false;
	char *operands[2];
	const struct cairn_tool_option options[] = {
	    {.name = "--hex", .flag = &hex}, {.name = "--raw", .flag = &raw}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 2, 2, operands);
	cairn_slice key;
	cairn *db;
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_bytes(
		    command, "KEY", hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT, operands[1], &key);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_open(command, operands[0], CAIRN_TOOL_READ, NULL, &db);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	return cairn_tool_close(command, db, get_from(command, db, key, hex, raw));
}

const struct cairn_tool_command cairn_tool_data_commands[] = {
    {"put", "DIR KEY VALUE [--hex]", "Sets KEY to VALUE. Makes the store DIR when there is none.",
	KEY_HELP "  --hex   KEY and VALUE are hexadecimal digits, two for each byte\n", run_put},
    {"get", "DIR KEY [--hex] [--raw]", "Prints the value of KEY and a newline.",
	KEY_HELP "  --hex   KEY is hexadecimal digits, and so is what is printed\n"
		 "  --raw   print the bytes of the value and nothing else\n\n"
		 "Exit status 1, and nothing is printed, when there is no such key.\n",
	run_get},
    {"del", "DIR KEY [--hex]", "Deletes KEY; a key that is not there is no failure.",
	KEY_HELP "  --hex   KEY is hexadecimal digits, two for each byte\n", run_del},
    {NULL, NULL, NULL, NULL, NULL},
};
