/*
 * store/view.h -- a consistent point in time: a set and a sequence, pinned until closed.
 *
 * A view is taken and registered as one step under the write lock, so writers know every sequence
 * that is needed. After that it belongs to its thread: reading through it takes no lock and no
 * atomic read-modify-write.
 */
#ifndef CAIRN_STORE_VIEW_H
#define CAIRN_STORE_VIEW_H

#include "store/store.h"

struct cairn_view {
	struct cairn *db;
	struct cairn_set *set;
	uint64_t sequence;
	uint64_t opened_at; /* io clock */
	unsigned iterators; /* open ones */
	struct cairn_view *prev, *next;
};

#endif
