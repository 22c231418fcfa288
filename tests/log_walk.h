/*
 * tests/log_walk.h -- what stands in the log of a store on a simulated disk, record by record.
 *
 * Follows the chain from the segment that the manifest names, with format/ alone: nothing of wal/,
 * whose reader is what the tests that use this look at. A record counts when its header and body
 * check out, and a segment's records end at the first one that does not.
 *
 * Threads: a walk belongs to one thread.
 */
#ifndef CAIRN_TESTS_LOG_WALK_H
#define CAIRN_TESTS_LOG_WALK_H

#include "format/log_record.h"
#include "format/manifest.h"
#include "tests/sim_io.h"

struct log_segment {
	char path[64];
	struct cairn_log_segment_header header;
	uint64_t end; /* offset behind its last record */
};

struct log_entry {
	size_t segment; /* index */
	uint64_t offset, size;
	enum cairn_log_type type;
	uint64_t position;
	uint64_t durable; /* D */
};

struct log_walk {
	struct cairn_manifest manifest;
	struct log_segment *segments; /* oldest first */
	size_t segment_count;
	struct log_entry *entries; /* in the order of positions */
	size_t entry_count;
};

/* Aborts when there is no manifest, or none that can be read. */
void log_walk_read(struct log_walk *walk, const struct sim_disk *disk, const char *directory);
void log_walk_release(struct log_walk *walk);

#endif
