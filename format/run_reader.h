/*
 * format/run_reader.h -- one `.kv` file opened for reading: lookups, cursors, verification.
 *
 * Threads. After open, everything but close may be used from any number of threads at once; the
 * only thing that changes is the flag that says that the seek section was verified, which is
 * atomic. Memory. The file is mapped, not read; lookups allocate nothing.
 */
#ifndef CAIRN_FORMAT_RUN_READER_H
#define CAIRN_FORMAT_RUN_READER_H

#include "format/io.h"
#include "format/iter.h"
#include "format/point_index.h"
#include "format/run_file.h"

struct cairn_run_reader;

/* What the manifest says of the file; the file must agree. NULL: take the file's word. */
struct cairn_run_expect {
	struct cairn_identity identity;
	uint64_t number;
	uint64_t size;
	uint32_t footer_checksum;
};

/*
 * Opens and maps the file, checks header, footer, bounds and, against `expect`, that it is the
 * right one. CAIRN_CORRUPT (file and offset named), CAIRN_UNSUPPORTED for a newer version, -ENOENT,
 * -errno. The descriptor is closed again; the mapping stays until close.
 */
int cairn_run_open(struct cairn_io *io, const char *path, const struct cairn_run_expect *expect,
    struct cairn_run_reader **run);

/* The file gets the name `path`, by which messages will call it. 0 or -ENOMEM, and then nothing has
 * changed. */
int cairn_run_renamed(struct cairn_run_reader *run, const char *path);

void cairn_run_close(struct cairn_run_reader *run); /* NULL is fine */

const struct cairn_run_header *cairn_run_header(const struct cairn_run_reader *run);
const struct cairn_run_footer *cairn_run_footer(const struct cairn_run_reader *run);
uint64_t cairn_run_size(const struct cairn_run_reader *run);
const char *cairn_run_path(const struct cairn_run_reader *run);

/* Whether it has a point index: gets by hash need no search by order. */
bool cairn_run_has_point_index(const struct cairn_run_reader *run);

/* First and last key; valid until close. */
cairn_slice cairn_run_first_key(const struct cairn_run_reader *run);
cairn_slice cairn_run_last_key(const struct cairn_run_reader *run);

/*
 * Looks `key` up; `hash` is its cairn_key_hash with the store's seed. 0: *record is the verified
 * record (its value points into the mapping, its key is the caller's), which may be a tombstone.
 * CAIRN_NOT_FOUND: proved by a verified key area. CAIRN_CORRUPT otherwise. No allocation.
 */
int cairn_run_get(
    struct cairn_run_reader *run, cairn_slice key, uint64_t hash, struct cairn_record *record);

/*
 * The same in three steps, so that the cache misses of several runs and keys overlap: prefetch all
 * runs' lines, probe (0: the key may be here, and its record is on its way; CAIRN_NOT_FOUND: it is
 * not; CAIRN_CORRUPT), and settle what probe left open, as cairn_run_get. Between probe and settle
 * nothing has to happen. `cold` asks the kernel for pages that may not be in memory as well: a
 * system call for each.
 */
struct cairn_run_probe {
	struct cairn_point_probe point;
	uint64_t offset; /* of the block that may hold the key, … */
	unsigned record; /* … and which of its records it may be */
	bool by_order;   /* no point index, or a damaged page of it: search by the seek section */
};

void cairn_run_prefetch(const struct cairn_run_reader *run, uint64_t hash, bool cold);
int cairn_run_probe(
    struct cairn_run_reader *run, uint64_t hash, bool cold, struct cairn_run_probe *probe);
int cairn_run_settle(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    struct cairn_run_probe *probe, struct cairn_record *record);

/* A block, and where it begins in the file (cairn_run_block_offset): where to begin a search that
 * somebody else has begun. */
struct cairn_run_aim {
	uint64_t block;
	uint64_t offset;
};

/*
 * Looks `key` up by order, beginning at a block that a search in several runs at once (cascade.h)
 * found: the answer does not depend on which it is, only the time. Results as cairn_run_get.
 */
int cairn_run_get_from(struct cairn_run_reader *run, cairn_slice key, uint64_t hash,
    struct cairn_run_aim aim, struct cairn_record *record);

/*
 * A cursor over the run, standing nowhere. 0 or -ENOMEM. `advice` tells what it is for: SEQUENTIAL
 * asks for pages ahead (merges), RANDOM does not.
 */
int cairn_run_cursor_open(
    struct cairn_run_reader *run, enum cairn_advice advice, struct cairn_cursor **cursor);

/*
 * The next seek of `cursor`, a run's, begins at a block that a search in several runs at once
 * found: the answer does not depend on which it is. The seek section has been trusted.
 */
void cairn_run_cursor_aim(struct cairn_cursor *cursor, struct cairn_run_aim aim);

/*
 * Reads all of it: every section's checksum, every block, record checksum, the order of keys, the
 * tree, the counts, the padding. Calls `each` for every finding (offset and text); returns 0 when
 * nothing was found, CAIRN_CORRUPT when something was, or a failure. `each` may be NULL.
 */
int cairn_run_verify(struct cairn_run_reader *run,
    void (*each)(void *context, uint64_t offset, const char *text), void *context);

/* For inspection: the place of block `index` in the file. */
int cairn_run_block_offset(struct cairn_run_reader *run, uint64_t index, uint64_t *offset);
const uint8_t *cairn_run_bytes(const struct cairn_run_reader *run);

#endif
