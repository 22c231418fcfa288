/*
 * tests/model.h -- the oracle: what a store must answer, as a sorted array.
 *
 * Slow and obvious, and shares nothing with the library but the slice. Keys and values are counted
 * blobs that never change, so a copy of a model (what a view must see) copies pointers only.
 *
 * Threads: a model and its copies belong to one thread.
 */
#ifndef CAIRN_TESTS_MODEL_H
#define CAIRN_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "format/cairn_status.h"

struct model_blob;

struct model_record {
	struct model_blob *key;
	struct model_blob *value;
};

/* Zeroed is empty. */
struct model {
	struct model_record *records; /* ascending, no key twice */
	size_t count;
	size_t capacity;
};

#define MODEL_NONE ((size_t)-1) /* no index: there is no such record */

/* The order of keys: unsigned bytes, a shorter key before a longer one that begins with it. */
int model_compare(cairn_slice a, cairn_slice b);
bool model_begins_with(cairn_slice key, cairn_slice prefix);
bool model_equal(cairn_slice a, cairn_slice b);

void model_put(struct model *model, cairn_slice key, cairn_slice value);
void model_delete(struct model *model, cairn_slice key);
void model_copy(struct model *copy, const struct model *model);
void model_release(struct model *model);

/* The index of `key`, or MODEL_NONE. */
size_t model_find(const struct model *model, cairn_slice key);
/* How many keys are below `key`: the index of the first that is not, or the count. */
size_t model_below(const struct model *model, cairn_slice key);

cairn_slice model_key(const struct model *model, size_t index);
cairn_slice model_value(const struct model *model, size_t index);

#endif
