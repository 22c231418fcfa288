/*
 * tests/log_walk.c -- see log_walk.h.
 */
#include "tests/log_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No test has a gap of so many numbers between two segments. */
#define NUMBERS_AHEAD 1000u

static void *grow(void *list, size_t count, size_t size)
{
	void *grown = realloc(list, (count + 1) * size);
	if (!grown)
		abort();
	return grown;
}

static void read_manifest(struct log_walk *walk, const struct sim_disk *disk, const char *directory)
{
	char path[64];
	size_t size;
	snprintf(path, sizeof path, "%s/MANIFEST", directory);
	const uint8_t *bytes = sim_disk_file(disk, path, &size);
	if (!bytes || cairn_manifest_decode(&walk->manifest, bytes, size, path))
		abort();
}

static bool read_header(const struct sim_disk *disk, struct log_segment *segment)
{
	size_t size;
	const uint8_t *bytes = sim_disk_file(disk, segment->path, &size);
	return bytes && size >= CAIRN_LOG_HEADER_SIZE &&
	       cairn_log_segment_header_decode(&segment->header, bytes, segment->path) == 0;
}

/* Whether a record checks out at `offset`. */
static bool read_entry(const struct sim_disk *disk, const struct log_segment *segment,
    uint64_t offset, struct log_entry *entry)
{
	size_t size;
	const uint8_t *bytes = sim_disk_file(disk, segment->path, &size);
	struct cairn_log_place place = {segment->header.salt, segment->header.ordinal, offset};
	struct cairn_log_record record;
	if (offset > size ||
	    !cairn_log_record_peek(&record, bytes + offset, size - (size_t)offset, &place) ||
	    !cairn_log_record_check(&record, &place))
		return false;
	*entry = (struct log_entry){
	    .offset = offset,
	    .size = record.size,
	    .type = record.type,
	    .position = cairn_log_position(place.ordinal, offset),
	    .durable = record.durable,
	};
	return true;
}

static void add_segment(
    struct log_walk *walk, const struct sim_disk *disk, struct log_segment *segment)
{
	struct log_entry entry;
	segment->end = CAIRN_LOG_HEADER_SIZE;
	while (read_entry(disk, segment, segment->end, &entry)) {
		entry.segment = walk->segment_count;
		walk->entries = grow(walk->entries, walk->entry_count, sizeof entry);
		walk->entries[walk->entry_count++] = entry;
		segment->end += entry.size;
	}
	walk->segments = grow(walk->segments, walk->segment_count, sizeof *segment);
	walk->segments[walk->segment_count++] = *segment;
}

/* The segment with a first record that names the last one as its predecessor. */
static bool find_successor(const struct log_walk *walk, const struct sim_disk *disk,
    const char *directory, struct log_segment *segment)
{
	const struct cairn_log_segment_header *last =
	    &walk->segments[walk->segment_count - 1].header;
	struct log_entry link;
	for (uint64_t number = last->number + 1; number < last->number + NUMBERS_AHEAD; number++) {
		snprintf(segment->path, sizeof segment->path, "%s/%06llu.wal", directory,
		    (unsigned long long)number);
		if (read_header(disk, segment) && segment->header.previous_number == last->number &&
		    segment->header.previous_salt == last->salt &&
		    read_entry(disk, segment, CAIRN_LOG_HEADER_SIZE, &link))
			return true;
	}
	return false;
}

void log_walk_read(struct log_walk *walk, const struct sim_disk *disk, const char *directory)
{
	struct log_segment segment;
	*walk = (struct log_walk){.segments = NULL};
	read_manifest(walk, disk, directory);
	if (!walk->manifest.log_number)
		return;
	snprintf(segment.path, sizeof segment.path, "%s/%06llu.wal", directory,
	    (unsigned long long)walk->manifest.log_number);
	if (!read_header(disk, &segment))
		return;
	do
		add_segment(walk, disk, &segment);
	while (find_successor(walk, disk, directory, &segment));
}

void log_walk_release(struct log_walk *walk)
{
	cairn_manifest_release(&walk->manifest);
	free(walk->segments);
	free(walk->entries);
	*walk = (struct log_walk){.segments = NULL};
}
