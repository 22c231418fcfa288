/*
 * format/filename.c -- the names of the files in a store's directory.
 *
 * 1. parse(basename of filename(kind, number)) is (kind, number) for every kind but FOREIGN.
 * 2. Two different names never parse to the same kind and number.
 *
 * No state: any thread may call.
 */
#include "format/filename.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_DIGITS 6 /* at least */
#define KINDS         (CAIRN_FILE_TEMPORARY + 1)

/* A kind that stands only here has no numbers. */
static const struct fixed {
	const char *name;
	enum cairn_file_kind kind;
	uint64_t number;
} fixed_names[] = {
    {"LOCK", CAIRN_FILE_LOCK, 0},
    {"MANIFEST", CAIRN_FILE_MANIFEST, 0},
    {"MANIFEST.old", CAIRN_FILE_MANIFEST_OLD, 0},
    {"MANIFEST.tmp", CAIRN_FILE_TEMPORARY, CAIRN_TEMPORARY_MANIFEST},
    {"MANIFEST.old.tmp", CAIRN_FILE_TEMPORARY, CAIRN_TEMPORARY_MANIFEST_OLD},
};
#define FIXED_NAMES (sizeof fixed_names / sizeof *fixed_names)

static const char *const ending[KINDS] = {
    [CAIRN_FILE_LOG] = ".wal",
    [CAIRN_FILE_RUN] = ".kv",
    [CAIRN_FILE_INDEX] = ".ix",
    [CAIRN_FILE_TEMPORARY] = ".tmp",
};

/* NULL when files of this kind and number have a number in their name. */
static const char *fixed_name(enum cairn_file_kind kind, uint64_t number)
{
	for (size_t i = 0; i < FIXED_NAMES; i++) {
		const struct fixed *fixed = &fixed_names[i];
		if (fixed->kind == kind && (!ending[kind] || fixed->number == number))
			return fixed->name;
	}
	return NULL;
}

static char *join(const char *directory, const char *name)
{
	size_t size = strlen(directory) + 1 + strlen(name) + 1;
	char *path = malloc(size);
	if (path)
		snprintf(path, size, "%s/%s", directory, name);
	return path;
}

char *cairn_filename(const char *directory, enum cairn_file_kind kind, uint64_t number)
{
	assert(kind != CAIRN_FILE_FOREIGN);
	const char *fixed = fixed_name(kind, number);
	if (fixed)
		return join(directory, fixed);
	char name[32];
	snprintf(name, sizeof name, "%0*" PRIu64 "%s", NUMBER_DIGITS, number, ending[kind]);
	return join(directory, name);
}

/* Consumes a number in its one valid form: returns what stands behind it, or NULL. */
static const char *parse_number(const char *text, uint64_t *number)
{
	uint64_t value = 0;
	const char *p = text;
	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return NULL;
		value = value * 10 + digit;
	}
	size_t digits = (size_t)(p - text);
	if (digits < NUMBER_DIGITS || (digits > NUMBER_DIGITS && *text == '0'))
		return NULL;
	*number = value;
	return p;
}

enum cairn_file_kind cairn_filename_parse(const char *name, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < FIXED_NAMES; i++) {
		if (strcmp(name, fixed_names[i].name) == 0) {
			*number = fixed_names[i].number;
			return fixed_names[i].kind;
		}
	}
	uint64_t value;
	const char *rest = parse_number(name, &value);
	if (!rest)
		return CAIRN_FILE_FOREIGN;
	for (enum cairn_file_kind kind = 0; kind < KINDS; kind++) {
		if (!ending[kind] || strcmp(rest, ending[kind]) != 0)
			continue;
		if (fixed_name(kind, value))
			return CAIRN_FILE_FOREIGN;
		*number = value;
		return kind;
	}
	return CAIRN_FILE_FOREIGN;
}

char *cairn_path_parent(const char *path)
{
	size_t size = strlen(path);
	while (size > 1 && path[size - 1] == '/')
		size--;
	while (size > 0 && path[size - 1] != '/')
		size--;
	while (size > 1 && path[size - 1] == '/')
		size--;
	return size ? strndup(path, size) : strdup(".");
}
