/*
 * tests/tree.h -- what stands in a directory, to say later that nothing has changed.
 *
 * The bytes of all files are kept, so this is for small directories. Directories in it are not
 * looked into.
 */
#ifndef CAIRN_TESTS_TREE_H
#define CAIRN_TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct tree_entry;

struct tree {
	struct tree_entry *entries; /* in the order of their names */
	size_t count;
};

enum tree_part {
	TREE_BYTES, /* names and contents */
	TREE_ALL,   /* and inodes, modes, links, times of change, of the directory too */
};

/* Aborts when it cannot be read. */
void tree_read(struct tree *tree, const char *path);
void tree_release(struct tree *tree);

/* From now on there is no such file in it. */
void tree_forget(struct tree *tree, const char *name);

/* The first difference is printed. */
bool tree_same(const struct tree *found, const struct tree *expected, enum tree_part part);

/* What is there now is what was there when `expected` was read. */
bool tree_unchanged(const struct tree *expected, const char *path, enum tree_part part);

#endif
