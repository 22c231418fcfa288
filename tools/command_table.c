/*
 * tools/command_table.c -- the commands on frozen tables: table build, table get, table scan.
 */
#include <string.h>

#include "tools/records.h"
#include "tools/scan.h"

/* ---------------------------------------------------------------- build */

static int add_records(struct cairn_records *records, cairn_table_writer *writer)
{
	cairn_slice key, value;
	int status = CAIRN_TOOL_GO_ON;
	while (status == CAIRN_TOOL_GO_ON) {
		status = cairn_records_next(records, &key, &value);
		if (status != CAIRN_TOOL_GO_ON)
			break;
		int code = cairn_table_writer_add(writer, key, value);
		if (code != CAIRN_OK)
			status = cairn_records_fail(records, cairn_tool_message(NULL, code));
	}
	return status;
}

static int build(
    struct cairn_records *records, const char *path, const cairn_options *table_options)
{
	cairn_table_writer *writer;
	int code = cairn_table_writer_open(path, table_options, &writer);
	if (code != CAIRN_OK)
		return cairn_tool_failed(records->command, NULL, code);
	int status = add_records(records, writer);
	if (status != CAIRN_TOOL_FINE) {
		cairn_table_writer_abort(writer);
		return status;
	}
	code = cairn_table_writer_finish(writer);
	return code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(records->command, NULL, code);
}

static int run_build(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct cairn_records records;
	bool hex = false, no_point_index = false, last_wins = false;
	int format = CAIRN_RECORDS_TSV;
	char *operands[2];
	cairn_options table_options;
	cairn_options_init(&table_options);
	const struct cairn_tool_option options[] = {
	    {.name = "--format", .choice = &format, .choices = cairn_records_formats},
	    {.name = "--last-wins", .flag = &last_wins},
	    {.name = "--run-format",
		.choice = &table_options.run_format,
		.choices = cairn_tool_run_formats},
	    {.name = "--compression",
		.choice = &table_options.compression,
		.choices = cairn_tool_compressions},
	    {.name = "--no-point-index", .flag = &no_point_index},
	    {.name = "--hex", .flag = &hex},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 2, operands);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	table_options.last_wins = last_wins;
	if (no_point_index)
		table_options.point_index = CAIRN_NO_POINT_INDEX;
	status = cairn_records_open(
	    &records, command, operands[1], format, hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	status = build(&records, operands[0], &table_options);
	cairn_records_close(&records);
	return status;
}

/* ---------------------------------------------------------------- get, scan */

/* CAIRN_TOOL_GO_ON, or CAIRN_TOOL_FAILURE, and that has been said. */
static int open_table(
    const struct cairn_tool_command *command, const char *path, cairn_table **table)
{
	int code = cairn_table_open(path, table);
	return code == CAIRN_OK ? CAIRN_TOOL_GO_ON : cairn_tool_failed(command, NULL, code);
}

static int run_get(const struct cairn_tool_command *command, int argc, char **argv)
{
	bool hex = false, raw = false;
	char *operands[2];
	const struct cairn_tool_option options[] = {
	    {.name = "--hex", .flag = &hex}, {.name = "--raw", .flag = &raw}, {.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 2, 2, operands);
	cairn_slice key, value;
	cairn_table *table;
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_bytes(
		    command, "KEY", hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT, operands[1], &key);
	if (status == CAIRN_TOOL_GO_ON)
		status = open_table(command, operands[0], &table);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = cairn_table_get(table, key, &value);
	status = CAIRN_TOOL_FINE;
	if (code == CAIRN_OK)
		cairn_tool_print_value(value, hex, raw);
	else if (code == CAIRN_NOT_FOUND)
		status = CAIRN_TOOL_NEGATIVE;
	else
		status = cairn_tool_failed(command, NULL, code);
	cairn_table_close(table);
	return status;
}

static int run_scan(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct cairn_scan scan;
	char *path;
	cairn_table *table;
	cairn_iter *iter = NULL;
	int status = cairn_scan_parse(command, argc, argv, &scan, &path);
	if (status == CAIRN_TOOL_GO_ON)
		status = open_table(command, path, &table);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	int code = cairn_table_iter_open(table, &scan.range, &iter);
	if (code == CAIRN_OK)
		code = cairn_scan_print(&scan, iter);
	status = code == CAIRN_OK ? CAIRN_TOOL_FINE : cairn_tool_failed(command, NULL, code);
	cairn_iter_close(iter);
	cairn_table_close(table);
	return status;
}

const struct cairn_tool_command cairn_tool_table_commands[] = {
    {"table build",
	"TABLE [FILE|-] [--format tsv|lines|dump] [--last-wins]\n"
	"    [--run-format kv02|kv03] [--compression none|lz4] [--no-point-index] [--hex]",
	"Makes the frozen table TABLE, one file, of the records in FILE or standard input.",
	"They may come in any order. When all is written and verified, the file TABLE is replaced "
	"in one\n"
	"step; until then, and after a failure, it is as it was.\n\n" //
	CAIRN_RECORDS_FORMAT_HELP
	"  --last-wins          of records with equal keys keep the last; without it they are a "
	"failure\n"
	"  --run-format F       kv02 or kv03\n"
	"  --compression C      none or lz4\n"
	"  --no-point-index     no point index\n"
	"  --hex                hexadecimal digits instead of text\n",
	run_build},
    {"table get", "TABLE KEY [--hex] [--raw]",
	"Prints the value of KEY in a frozen table and a newline.",
	"KEY is text: \\\\ is a backslash and \\xNN the byte with that hexadecimal number; all "
	"other bytes\n"
	"stand for themselves. Write -- before operands that begin with -.\n\n"
	"  --hex   KEY is hexadecimal digits, and so is what is printed\n"
	"  --raw   print the bytes of the value and nothing else\n\n"
	"Exit status 1, and nothing is printed, when there is no such key.\n",
	run_get},
    {"table scan", "TABLE " CAIRN_SCAN_SYNOPSIS,
	"Prints records of a frozen table in the order of their keys, as scan does.",
	CAIRN_SCAN_HELP, run_scan},
    {NULL, NULL, NULL, NULL, NULL},
};
