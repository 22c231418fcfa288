/*
 * tools/inspect_fraction.c -- what a fractional index says.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/fraction.h"
#include "tools/inspect.h"

/* What the windows are like. */
struct summary {
	uint64_t empty;
	uint64_t too_wide;
	uint64_t widest;
};

static int count_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	struct summary *summary = context;
	(void)cell;
	if (to == from)
		summary->empty++;
	if (to - from > CAIRN_FRACTION_WINDOW_MAX)
		summary->too_wide++;
	if (to - from > summary->widest)
		summary->widest = to - from;
	return 0;
}

static void print_base(const char *name, const struct cairn_fraction_base *base)
{
	cairn_inspect_field(name,
	    "%06" PRIu64 ".kv, %" PRIu64 " records, %" PRIu64
	    " blocks, footer checksum 0x%08" PRIx32,
	    base->number, base->records, base->blocks, base->footer_checksum);
}

static void print_fraction(const struct cairn_fraction *fraction)
{
	struct summary summary = {0};
	(void)cairn_fraction_windows(fraction, count_window, &summary);
	cairn_inspect_field("version", "%u", CAIRN_FRACTION_VERSION);
	cairn_inspect_identity(&fraction->identity);
	cairn_inspect_field("number", "%" PRIu64, fraction->number);
	print_base("run", &fraction->run);
	print_base("anchor", &fraction->anchor);
	cairn_inspect_field("cells", "%" PRIu64 " of %" PRIu64 " blocks (level %u)",
	    fraction->cells, UINT64_C(1) << 4 * fraction->level, fraction->level);
	cairn_inspect_field("edges", "%u, %u bytes", fraction->first_edge, fraction->last_edge);
	cairn_inspect_field("windows",
	    "%" PRIu64 " blocks at most, %" PRIu64 " empty, %" PRIu64 " too wide", summary.widest,
	    summary.empty, summary.too_wide);
	cairn_inspect_field(
	    "coding", "%u low bits, offsets of %u bits", fraction->low_bits, fraction->offset_bits);
	cairn_inspect_field(
	    "size", "heads %zu, places %zu bytes", fraction->words_size, fraction->places_size);
}

int cairn_inspect_fraction(struct cairn_inspection *inspection)
{
	struct cairn_fraction fraction;
	if (cairn_fraction_decode(
		inspection->path, inspection->bytes, inspection->size, &fraction) != 0) {
		cairn_inspect_failure(inspection);
		return 0;
	}
	print_fraction(&fraction);
	cairn_inspect_number(inspection, fraction.number, 48);
	if (cairn_fraction_check_words(&fraction, NULL) != 0)
		cairn_inspect_failure(inspection);
	return 0;
}
