/*
 * store/seek.c -- see seek.h.
 */
#include "store/seek.h"

#include <errno.h>
#include <stdlib.h>

#include "format/error.h"
#include "format/run_reader.h"

#define COUNTED_AT_ONCE 256u

struct seek_aim {
	struct cairn_merge_aim base; /* first: what the merge knows */
	struct cairn_cascade *cascade;
	struct cairn_seek_counts *counts;
	unsigned seeks; /* since the counts were told */
	unsigned unindexed;
	unsigned wide;
	size_t count;
	struct cairn_cursor *cursor[];
};

static void tell_counts(struct seek_aim *aim)
{
	unsigned indexed = aim->seeks - aim->unindexed - aim->wide;
	atomic_fetch_add_explicit(&aim->counts->indexed, indexed, memory_order_relaxed);
	atomic_fetch_add_explicit(&aim->counts->unindexed, aim->unindexed, memory_order_relaxed);
	atomic_fetch_add_explicit(&aim->counts->wide, aim->wide, memory_order_relaxed);
	aim->seeks = aim->unindexed = aim->wide = 0;
}

static void count_seek(struct seek_aim *aim, unsigned how)
{
	aim->seeks++;
	if (how & CAIRN_CASCADE_UNINDEXED)
		aim->unindexed++;
	else if (how & CAIRN_CASCADE_WIDE)
		aim->wide++;
	if (CAIRN_UNLIKELY(aim->seeks == COUNTED_AT_ONCE))
		tell_counts(aim);
}

/* When the search fails, the cursors are left to search by themselves, and one of them to fail. */
static void take_aim(struct cairn_merge_aim *base, cairn_slice key)
{
	struct seek_aim *aim = (struct seek_aim *)base;
	struct cairn_run_aim aims[CAIRN_CASCADE_RUNS_MAX];
	unsigned how;
	if (cairn_cascade_find(aim->cascade, key, aims, &how) != 0)
		return;
	for (size_t i = 0; i < aim->count; i++)
		cairn_run_cursor_aim(aim->cursor[i], aims[i]);
	count_seek(aim, how);
}

static void close_aim(struct cairn_merge_aim *base)
{
	struct seek_aim *aim = (struct seek_aim *)base;
	tell_counts(aim);
	free(aim);
}

int cairn_seek_aim_new(struct cairn_cascade *cascade, struct cairn_cursor *const *cursors,
    size_t count, struct cairn_seek_counts *counts, struct cairn_merge_aim **out)
{
	struct seek_aim *aim = calloc(1, sizeof *aim + count * sizeof(struct cairn_cursor *));
	*out = NULL;
	if (!aim)
		return cairn_error(-ENOMEM, "out of memory for an iterator");
	aim->base = (struct cairn_merge_aim){.aim = take_aim, .close = close_aim};
	aim->cascade = cascade;
	aim->counts = counts;
	aim->count = count;
	for (size_t i = 0; i < count; i++)
		aim->cursor[i] = cursors[i];
	*out = &aim->base;
	return 0;
}
