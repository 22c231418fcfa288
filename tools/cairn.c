/*
 * tools/cairn.c -- the command line tool: finds the command, runs it, answers for standard output.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"

static int run_version(const struct cairn_tool_command *command, int argc, char **argv);
static int run_help(const struct cairn_tool_command *command, int argc, char **argv);

static const struct cairn_tool_command own_commands[] = {
    {"version", "", "Prints the version of cairn.", "", run_version},
    {"help", "[COMMAND]", "Prints what there is to know about a command, or about all of them.", "",
	run_help},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct cairn_tool_command *const families[] = {
    cairn_tool_data_commands,
    cairn_tool_scan_commands,
    cairn_tool_load_commands,
    cairn_tool_table_commands,
    cairn_tool_stat_commands,
    cairn_tool_store_commands,
    cairn_tool_inspect_commands,
    own_commands,
};
#define FAMILIES (sizeof families / sizeof *families)

/* Whether `name` is the first word, or the first two; the second may be NULL. */
static bool names(const char *name, const char *first, const char *second)
{
	size_t size = strlen(first);
	if (strncmp(name, first, size) != 0)
		return false;
	return !name[size] || (name[size] == ' ' && second && strcmp(name + size + 1, second) == 0);
}

static const struct cairn_tool_command *find_command(const char *first, const char *second)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		for (const struct cairn_tool_command *command = families[i]; command->name;
		     command++) {
			if (names(command->name, first, second))
				return command;
		}
	}
	return NULL;
}

static int word_count(const struct cairn_tool_command *command)
{
	return strchr(command->name, ' ') ? 2 : 1;
}

static void print_overview(FILE *stream)
{
	fputs("usage: cairn COMMAND DIR ...\n\nWorks on the cairn key/value store in the directory "
	      "DIR.\n\n",
	    stream);
	for (size_t i = 0; i < FAMILIES; i++) {
		for (const struct cairn_tool_command *command = families[i]; command->name;
		     command++)
			fprintf(stream, "  %-11s %s\n", command->name, command->summary);
	}
	fputs("\ncairn COMMAND --help says more.\n\n"
	      "Exit status: 0 fine, 1 not found or problems found, 2 wrong usage, 3 failure.\n",
	    stream);
}

static int run_version(const struct cairn_tool_command *command, int argc, char **argv)
{
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 0, 0, NULL);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	printf("cairn %s\n", cairn_version());
	return CAIRN_TOOL_FINE;
}

static int run_help(const struct cairn_tool_command *command, int argc, char **argv)
{
	char *words[2];
	const struct cairn_tool_option options[] = {{.name = NULL}};
	int status = cairn_tool_parse(command, argc, argv, options, 0, 2, words);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	if (!words[0]) {
		print_overview(stdout);
		return CAIRN_TOOL_FINE;
	}
	const struct cairn_tool_command *asked = find_command(words[0], words[1]);
	if (!asked)
		return cairn_tool_misuse(command, "there is no command '%s'", words[0]);
	if (words[1] && word_count(asked) == 1)
		return cairn_tool_misuse(command, "'%s' is one operand too many", words[1]);
	cairn_tool_print_help(stdout, asked);
	return CAIRN_TOOL_FINE;
}

/* What people try before they know the commands. */
static const char *command_name(const char *argument)
{
	if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
		return "help";
	if (strcmp(argument, "--version") == 0)
		return "version";
	return argument;
}

/*
 * A program may be started without standard descriptors, and then the first file that it opens gets
 * one of their numbers: what is printed would be written into the store. Their places are taken
 * here, such that using them fails.
 */
static void occupy_standard_descriptors(void)
{
	static const int useless_mode[] = {O_WRONLY, O_RDONLY, O_RDONLY};
	for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++) {
		/* The lowest free number is the one that open takes. */
		if (fcntl(descriptor, F_GETFD) < 0 &&
		    open("/dev/null", useless_mode[descriptor]) != descriptor)
			_exit(CAIRN_TOOL_FAILURE);
	}
}

int main(int argc, char **argv)
{
	occupy_standard_descriptors();
	if (argc < 2) {
		print_overview(stderr);
		return CAIRN_TOOL_USAGE;
	}
	const struct cairn_tool_command *command = find_command(command_name(argv[1]), argv[2]);
	if (!command) {
		fprintf(stderr, "cairn: there is no command '%s'\nsee: cairn help\n", argv[1]);
		return CAIRN_TOOL_USAGE;
	}
	int words = word_count(command);
	int status = command->run(command, argc - words, argv + words);
	return cairn_tool_flush(command, stdout, "standard output", status);
}
