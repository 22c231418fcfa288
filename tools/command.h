/*
 * tools/command.h -- what the commands of `cairn` share: how a command is described, how its
 * arguments are read, how a store is opened for it and how it says what went wrong.
 *
 * A family of commands is a file that defines a table of `struct cairn_tool_command`; tools/cairn.c
 * lists the tables.
 */
#ifndef CAIRN_TOOLS_COMMAND_H
#define CAIRN_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/cairn.h"
#include "tools/escape.h"

enum cairn_tool_exit {
	CAIRN_TOOL_GO_ON = -1, /* not an exit status: there is still something to do */
	CAIRN_TOOL_FINE = 0,
	CAIRN_TOOL_NEGATIVE = 1, /* not found, problems found */
	CAIRN_TOOL_USAGE = 2,
	CAIRN_TOOL_FAILURE = 3,
};

struct cairn_tool_command {
	const char *name;     /* one word, or two with a space between them */
	const char *synopsis; /* "DIR KEY VALUE [--hex]" */
	const char *summary;  /* one line */
	const char
	    *help; /* the rest of its manual, options included, wrapped, ends with a newline */
	/* argv[0] is the command's name, or its last word. Returns the exit status. */
	int (*run)(const struct cairn_tool_command *command, int argc, char **argv);
};

/* The families; each ends with an entry whose name is NULL. */
extern const struct cairn_tool_command cairn_tool_data_commands[];
extern const struct cairn_tool_command cairn_tool_scan_commands[];
extern const struct cairn_tool_command cairn_tool_load_commands[];
extern const struct cairn_tool_command cairn_tool_table_commands[];
extern const struct cairn_tool_command cairn_tool_stat_commands[];
extern const struct cairn_tool_command cairn_tool_store_commands[];
extern const struct cairn_tool_command cairn_tool_inspect_commands[];

void cairn_tool_print_help(FILE *stream, const struct cairn_tool_command *command);

/* ---------------------------------------------------------------- arguments */

/* A name and the number that an option set to it means. Lists end with a NULL name. */
struct cairn_tool_choice {
	const char *name;
	int value;
};

/* An option, and the one place that it sets. Lists end with a NULL name. */
struct cairn_tool_option {
	const char *name; /* "--limit" */
	bool *flag;       /* takes no argument */
	char **text;
	uint64_t *number;
	int *choice;
	const struct cairn_tool_choice *choices; /* of `choice` */
};

/* The choices of options that more than one command has. */
extern const struct cairn_tool_choice cairn_tool_run_formats[];
extern const struct cairn_tool_choice cairn_tool_compressions[];

/*
 * Reads argv[1] … : options anywhere before "--" ("--name value" or "--name=value"), the rest
 * operands, between `least` and `most` of them, put into `operands` (those not given are NULL).
 * CAIRN_TOOL_GO_ON, or the exit status when the arguments were wrong or --help was asked for; both
 * have been said.
 */
int cairn_tool_parse(const struct cairn_tool_command *command, int argc, char **argv,
    const struct cairn_tool_option *options, size_t least, size_t most, char **operands);

/*
 * The bytes of an argument, decoded in place: command line arguments are ours to change. `what`
 * names it in the complaint. CAIRN_TOOL_GO_ON or CAIRN_TOOL_USAGE.
 */
int cairn_tool_bytes(const struct cairn_tool_command *command, const char *what,
    enum cairn_escape escape, char *argument, cairn_slice *bytes);

/* ---------------------------------------------------------------- what went wrong */

/* "cairn COMMAND: …" on stderr. Returns CAIRN_TOOL_FAILURE. */
int cairn_tool_fail(const struct cairn_tool_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The library's words for its last failure on `db`, which was `code`; never empty. */
const char *cairn_tool_message(const cairn *db, int code);

/* "cairn COMMAND: " and those words. Returns CAIRN_TOOL_FAILURE. */
int cairn_tool_failed(const struct cairn_tool_command *command, const cairn *db, int code);

/* As cairn_tool_fail, with how the command is called behind it. Returns CAIRN_TOOL_USAGE. */
int cairn_tool_misuse(const struct cairn_tool_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Flushes `stream`, known to people as `name`, and says so when something written to it was lost.
 * `status` or CAIRN_TOOL_FAILURE. */
int cairn_tool_flush(
    const struct cairn_tool_command *command, FILE *stream, const char *name, int status);

/* Prints a value to standard output: its bytes and a newline; as digits when `hex`, and with `raw`
 * the bytes alone. */
void cairn_tool_print_value(cairn_slice value, bool hex, bool raw);

/* ---------------------------------------------------------------- stores */

enum cairn_tool_access {
	CAIRN_TOOL_READ,
	CAIRN_TOOL_WRITE,
	CAIRN_TOOL_CREATE, /* write, and make the store when there is none */
};

/* Prepares options that show progress on stderr when that is a terminal, and the store's log lines.
 */
void cairn_tool_options_init(const struct cairn_tool_command *command, cairn_options *options);

/* Takes the progress line off the terminal, before something else is written there. */
void cairn_tool_progress_clear(void);

/* `options` NULL: as cairn_tool_options_init leaves them. CAIRN_TOOL_GO_ON or CAIRN_TOOL_FAILURE,
 * and that has been said. */
int cairn_tool_open(const struct cairn_tool_command *command, const char *path,
    enum cairn_tool_access access, cairn_options *options, cairn **db);

/* Closes it; `status` or, when that failed, CAIRN_TOOL_FAILURE. */
int cairn_tool_close(const struct cairn_tool_command *command, cairn *db, int status);

#endif
