/*
 * tests/tree.c -- see tree.h.
 */
#include "tests/tree.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree_entry {
	char name[256];
	struct stat status;
	uint8_t *bytes; /* NULL: not a file */
};

static void stop(const char *path)
{
	perror(path);
	abort();
}

static uint8_t *read_bytes(const char *path, size_t size)
{
	FILE *file = fopen(path, "rbe");
	uint8_t *bytes = malloc(size + 1);
	if (!file || !bytes || fread(bytes, 1, size, file) != size)
		stop(path);
	fclose(file);
	return bytes;
}

static void read_entry(struct tree_entry *entry, const char *directory, const char *name)
{
	char path[4600];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	snprintf(entry->name, sizeof entry->name, "%s", name);
	if (lstat(path, &entry->status))
		stop(path);
	entry->bytes =
	    S_ISREG(entry->status.st_mode) ? read_bytes(path, (size_t)entry->status.st_size) : NULL;
}

void tree_read(struct tree *tree, const char *path)
{
	struct dirent **names;
	int count = scandir(path, &names, NULL, alphasort);
	if (count < 0)
		stop(path);
	*tree = (struct tree){calloc((size_t)count, sizeof *tree->entries), 0};
	if (!tree->entries)
		abort();
	for (int i = 0; i < count; i++) {
		if (strcmp(names[i]->d_name, ".."))
			read_entry(&tree->entries[tree->count++], path, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

void tree_release(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		free(tree->entries[i].bytes);
	free(tree->entries);
	*tree = (struct tree){NULL, 0};
}

void tree_forget(struct tree *tree, const char *name)
{
	size_t kept = 0;
	for (size_t i = 0; i < tree->count; i++) {
		if (strcmp(tree->entries[i].name, name) == 0)
			free(tree->entries[i].bytes);
		else
			tree->entries[kept++] = tree->entries[i];
	}
	tree->count = kept;
}

static bool differs(const char *name, const char *what)
{
	printf("\"%s\": %s\n", name, what);
	return false;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_status(const char *name, const struct stat *a, const struct stat *b)
{
	if (a->st_ino != b->st_ino || a->st_mode != b->st_mode || a->st_nlink != b->st_nlink)
		return differs(name, "another inode, mode or number of links");
	if (!same_time(&a->st_mtim, &b->st_mtim))
		return differs(name, "another time of modification");
	if (!same_time(&a->st_ctim, &b->st_ctim))
		return differs(name, "another time of change");
	return true;
}

static bool same_bytes(const struct tree_entry *a, const struct tree_entry *b)
{
	if (!a->bytes || !b->bytes)
		return a->bytes == b->bytes || differs(a->name, "is no file any more, or was none");
	if (a->status.st_size != b->status.st_size)
		return differs(a->name, "another size");
	for (size_t i = 0; i < (size_t)a->status.st_size; i++) {
		if (a->bytes[i] != b->bytes[i]) {
			printf("at offset %zu:\n", i);
			return differs(a->name, "other bytes");
		}
	}
	return true;
}

bool tree_same(const struct tree *found, const struct tree *expected, enum tree_part part)
{
	for (size_t i = 0; i < found->count || i < expected->count; i++) {
		const struct tree_entry *a = i < found->count ? &found->entries[i] : NULL;
		const struct tree_entry *b = i < expected->count ? &expected->entries[i] : NULL;
		if (!b || (a && strcmp(a->name, b->name) < 0))
			return differs(a->name, "was not there");
		if (!a || strcmp(a->name, b->name))
			return differs(b->name, "is not there any more");
		if (!same_bytes(a, b))
			return false;
		if (part == TREE_ALL && !same_status(a->name, &a->status, &b->status))
			return false;
	}
	return true;
}

bool tree_unchanged(const struct tree *expected, const char *path, enum tree_part part)
{
	struct tree found;
	tree_read(&found, path);
	bool same = tree_same(&found, expected, part);
	tree_release(&found);
	return same;
}
