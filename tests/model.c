/*
 * tests/model.c -- see model.h.
 */
#include "tests/model.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct model_blob {
	size_t references;
	size_t size;
	uint8_t bytes[];
};

static struct model_blob *new_blob(cairn_slice content)
{
	struct model_blob *blob = malloc(sizeof *blob + content.size);
	if (!blob)
		abort();
	blob->references = 1;
	blob->size = content.size;
	if (content.size)
		memcpy(blob->bytes, content.data, content.size);
	return blob;
}

static void drop_blob(struct model_blob *blob)
{
	if (--blob->references == 0)
		free(blob);
}

static cairn_slice slice_of(const struct model_blob *blob)
{
	return (cairn_slice){blob->bytes, blob->size};
}

int model_compare(cairn_slice a, cairn_slice b)
{
	const uint8_t *x = a.data, *y = b.data;
	for (size_t i = 0; i < a.size && i < b.size; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return a.size < b.size ? -1 : a.size > b.size;
}

bool model_begins_with(cairn_slice key, cairn_slice prefix)
{
	return key.size >= prefix.size &&
	       (prefix.size == 0 || memcmp(key.data, prefix.data, prefix.size) == 0);
}

bool model_equal(cairn_slice a, cairn_slice b)
{
	return a.size == b.size && model_begins_with(a, b);
}

cairn_slice model_key(const struct model *model, size_t index)
{
	return slice_of(model->records[index].key);
}

cairn_slice model_value(const struct model *model, size_t index)
{
	return slice_of(model->records[index].value);
}

size_t model_below(const struct model *model, cairn_slice key)
{
	size_t low = 0, high = model->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (model_compare(model_key(model, middle), key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t model_find(const struct model *model, cairn_slice key)
{
	size_t index = model_below(model, key);
	bool found = index < model->count && model_equal(model_key(model, index), key);
	return found ? index : MODEL_NONE;
}

static void insert(struct model *model, size_t index, struct model_record record)
{
	if (model->count == model->capacity) {
		model->capacity = model->capacity ? 2 * model->capacity : 64;
		model->records = realloc(model->records, model->capacity * sizeof *model->records);
		if (!model->records)
			abort();
	}
	struct model_record *place = model->records + index;
	memmove(place + 1, place, (model->count - index) * sizeof *place);
	*place = record;
	model->count++;
}

void model_put(struct model *model, cairn_slice key, cairn_slice value)
{
	size_t index = model_below(model, key);
	if (index < model->count && model_equal(model_key(model, index), key)) {
		drop_blob(model->records[index].value);
		model->records[index].value = new_blob(value);
	} else {
		insert(model, index, (struct model_record){new_blob(key), new_blob(value)});
	}
}

void model_delete(struct model *model, cairn_slice key)
{
	size_t index = model_find(model, key);
	if (index == MODEL_NONE)
		return;
	struct model_record *place = model->records + index;
	drop_blob(place->key);
	drop_blob(place->value);
	model->count--;
	memmove(place, place + 1, (model->count - index) * sizeof *place);
}

void model_copy(struct model *copy, const struct model *model)
{
	*copy = (struct model){NULL, model->count, model->count};
	if (model->count == 0)
		return;
	copy->records = malloc(model->count * sizeof *copy->records);
	if (!copy->records)
		abort();
	for (size_t i = 0; i < model->count; i++) {
		copy->records[i] = model->records[i];
		copy->records[i].key->references++;
		copy->records[i].value->references++;
	}
}

void model_release(struct model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		drop_blob(model->records[i].key);
		drop_blob(model->records[i].value);
	}
	free(model->records);
	*model = (struct model){NULL, 0, 0};
}
