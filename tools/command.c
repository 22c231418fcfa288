/*
 * tools/command.c -- arguments, complaints and the opening of stores, for all commands.
 *
 * The progress line on a terminal is the one piece of state: the library may report progress and
 * log lines from its own threads, so it is kept under the lock of stderr.
 */
#include "tools/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

const struct cairn_tool_choice cairn_tool_run_formats[] = {
    {"kv02", CAIRN_KV02},
    {"kv03", CAIRN_KV03},
    {NULL, 0},
};

const struct cairn_tool_choice cairn_tool_compressions[] = {
    {"none", CAIRN_NO_COMPRESSION},
    {"lz4", CAIRN_LZ4},
    {NULL, 0},
};

/* ---------------------------------------------------------------- what went wrong */

static bool progress_shown;

void cairn_tool_progress_clear(void)
{
	flockfile(stderr);
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
	funlockfile(stderr);
}

static void complain(
    const struct cairn_tool_command *command, const char *format, va_list arguments)
{
	flockfile(stderr);
	cairn_tool_progress_clear();
	fprintf(stderr, "cairn %s: ", command->name);
	vfprintf(stderr, format, arguments);
	putc('\n', stderr);
	funlockfile(stderr);
}

int cairn_tool_fail(const struct cairn_tool_command *command, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	complain(command, format, arguments);
	va_end(arguments);
	return CAIRN_TOOL_FAILURE;
}

const char *cairn_tool_message(const cairn *db, int code)
{
	const char *message = cairn_message(db);
	return *message ? message : cairn_strerror(code);
}

int cairn_tool_failed(const struct cairn_tool_command *command, const cairn *db, int code)
{
	return cairn_tool_fail(command, "%s", cairn_tool_message(db, code));
}

static void print_usage(FILE *stream, const struct cairn_tool_command *command)
{
	const char *space = *command->synopsis ? " " : "";
	fprintf(stream, "usage: cairn %s%s%s\n", command->name, space, command->synopsis);
}

int cairn_tool_misuse(const struct cairn_tool_command *command, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	complain(command, format, arguments);
	va_end(arguments);
	print_usage(stderr, command);
	fprintf(stderr, "see: cairn help %s\n", command->name);
	return CAIRN_TOOL_USAGE;
}

int cairn_tool_flush(
    const struct cairn_tool_command *command, FILE *stream, const char *name, int status)
{
	errno = 0;
	if (fflush(stream) == 0 && !ferror(stream))
		return status;
	return cairn_tool_fail(command, "%s: what was written is not complete: %s", name,
	    errno ? strerror(errno) : "an earlier write failed");
}

void cairn_tool_print_value(cairn_slice value, bool hex, bool raw)
{
	if (hex && !raw)
		cairn_escape_print(stdout, CAIRN_ESCAPE_HEX, value);
	else
		fwrite(value.data, 1, value.size, stdout);
	if (!raw)
		putchar('\n');
}

/* ---------------------------------------------------------------- arguments */

void cairn_tool_print_help(FILE *stream, const struct cairn_tool_command *command)
{
	print_usage(stream, command);
	fprintf(stream, "\n%s\n", command->summary);
	if (*command->help)
		fprintf(stream, "\n%s", command->help);
}

static int set_number(const struct cairn_tool_command *command,
    const struct cairn_tool_option *option, const char *argument)
{
	uint64_t value = 0;
	const char *p = argument;
	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');
		if (value > (UINT64_MAX - digit) / 10)
			break;
		value = value * 10 + digit;
	}
	if (p == argument || *p)
		return cairn_tool_misuse(command,
		    "%s takes a number from 0 to %" PRIu64 ", not '%s'", option->name, UINT64_MAX,
		    argument);
	*option->number = value;
	return CAIRN_TOOL_GO_ON;
}

static int set_choice(const struct cairn_tool_command *command,
    const struct cairn_tool_option *option, const char *argument)
{
	for (const struct cairn_tool_choice *choice = option->choices; choice->name; choice++) {
		if (strcmp(choice->name, argument) == 0) {
			*option->choice = choice->value;
			return CAIRN_TOOL_GO_ON;
		}
	}
	char names[128] = "";
	size_t used = 0;
	for (const struct cairn_tool_choice *choice = option->choices; choice->name; choice++)
		used += (size_t)snprintf(
		    names + used, sizeof names - used, "%s%s", used ? ", " : "", choice->name);
	return cairn_tool_misuse(
	    command, "%s takes one of %s, not '%s'", option->name, names, argument);
}

/* The option that `argument` names; *value is what stands behind a "=" in it, or NULL. */
static const struct cairn_tool_option *find_option(
    const struct cairn_tool_option *options, char *argument, char **value)
{
	size_t size = strcspn(argument, "=");
	*value = argument[size] ? argument + size + 1 : NULL;
	for (const struct cairn_tool_option *option = options; option->name; option++) {
		if (strlen(option->name) == size && memcmp(option->name, argument, size) == 0)
			return option;
	}
	return NULL;
}

/* Reads the option at argv[*at] and moves *at to the last argument that belongs to it. */
static int read_option(const struct cairn_tool_command *command,
    const struct cairn_tool_option *options, int argc, char **argv, int *at)
{
	char *value;
	const struct cairn_tool_option *option = find_option(options, argv[*at], &value);
	if (!option)
		return cairn_tool_misuse(command,
		    "there is no option '%s' (write -- before operands that begin with -)",
		    argv[*at]);
	if (option->flag) {
		if (value)
			return cairn_tool_misuse(command, "%s takes no argument", option->name);
		*option->flag = true;
		return CAIRN_TOOL_GO_ON;
	}
	if (!value && *at + 1 == argc)
		return cairn_tool_misuse(command, "%s takes an argument", option->name);
	if (!value)
		value = argv[++*at];
	if (option->number)
		return set_number(command, option, value);
	if (option->choice)
		return set_choice(command, option, value);
	*option->text = value;
	return CAIRN_TOOL_GO_ON;
}

int cairn_tool_parse(const struct cairn_tool_command *command, int argc, char **argv,
    const struct cairn_tool_option *options, size_t least, size_t most, char **operands)
{
	size_t count = 0;
	bool only_operands = false;
	for (size_t i = 0; i < most; i++)
		operands[i] = NULL;
	for (int i = 1; i < argc; i++) {
		char *argument = argv[i];
		if (only_operands || argument[0] != '-' || !argument[1]) {
			if (count == most)
				return cairn_tool_misuse(
				    command, "'%s' is one operand too many", argument);
			operands[count++] = argument;
		} else if (strcmp(argument, "--") == 0) {
			only_operands = true;
		} else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
			cairn_tool_print_help(stdout, command);
			return CAIRN_TOOL_FINE;
		} else {
			int status = read_option(command, options, argc, argv, &i);
			if (status != CAIRN_TOOL_GO_ON)
				return status;
		}
	}
	if (count < least)
		return cairn_tool_misuse(command, "an operand is missing");
	return CAIRN_TOOL_GO_ON;
}

int cairn_tool_bytes(const struct cairn_tool_command *command, const char *what,
    enum cairn_escape escape, char *argument, cairn_slice *bytes)
{
	size_t size = 0;
	if (!cairn_escape_decode(escape, argument, strlen(argument), argument, &size))
		return cairn_tool_misuse(command, "%s: at character %zu: expected %s", what,
		    size + 1, cairn_escape_expected(escape));
	*bytes = (cairn_slice){argument, size};
	return CAIRN_TOOL_GO_ON;
}

/* ---------------------------------------------------------------- stores */

static void show_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
	const struct cairn_tool_command *command = context;
	flockfile(stderr);
	if (total)
		fprintf(stderr, "\rcairn %s: %s %.0f%%\033[K", command->name, what,
		    100.0 * ((double)done / (double)total));
	else
		fprintf(stderr, "\rcairn %s: %s %" PRIu64 "\033[K", command->name, what, done);
	progress_shown = true;
	funlockfile(stderr);
}

static void show_log_line(void *context, const char *line)
{
	cairn_tool_fail(context, "%s", line);
}

void cairn_tool_options_init(const struct cairn_tool_command *command, cairn_options *options)
{
	cairn_options_init(options);
	if (isatty(STDERR_FILENO))
		options->progress = show_progress;
	options->log = show_log_line;
	options->callback_context = (void *)command; /* only read */
}

int cairn_tool_open(const struct cairn_tool_command *command, const char *path,
    enum cairn_tool_access access, cairn_options *options, cairn **db)
{
	cairn_options defaults;
	if (!options) {
		cairn_tool_options_init(command, &defaults);
		options = &defaults;
	}
	options->must_exist = access != CAIRN_TOOL_CREATE;
	options->read_only = access == CAIRN_TOOL_READ;
	int code = cairn_open(path, options, db);
	return code == CAIRN_OK ? CAIRN_TOOL_GO_ON : cairn_tool_failed(command, NULL, code);
}

int cairn_tool_close(const struct cairn_tool_command *command, cairn *db, int status)
{
	int code = cairn_close(db);
	cairn_tool_progress_clear();
	return code == CAIRN_OK ? status : cairn_tool_failed(command, NULL, code);
}
