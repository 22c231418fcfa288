/*
 * format/run_inside.h -- the inside of an open run: what its files (run_reader.c, run_cursor.c,
 * run_verify.c) share, and nobody else includes but cascade.c, which searches in several at once.
 *
 * Terms. The *place* of a key is in the last block that begins at or below it: the only one that
 * can hold it. A search names that block or, when 8-byte heads tie, one to its right.
 */
#ifndef CAIRN_FORMAT_RUN_INSIDE_H
#define CAIRN_FORMAT_RUN_INSIDE_H

#include <stdatomic.h>

#include "format/checksum.h"
#include "format/kv02_block.h"
#include "format/run_reader.h"
#include "format/seek_tree.h"

/* Bytes of the parts of a block, on average. */
struct cairn_run_shape {
	uint32_t heads;  /* with the control area in front */
	uint32_t tail;   /* of one key */
	uint32_t values; /* in front of the values */
	uint32_t value;  /* one, with its checksum */
};

struct cairn_run_reader {
	struct cairn_io *io;
	char *path;
	struct cairn_map map;
	struct cairn_run_header header;
	struct cairn_run_footer footer;
	const struct cairn_run_extent *blocks; /* in the footer */
	struct cairn_seek_tree seek;
	struct cairn_point_index point; /* where the file has one */
	struct cairn_run_shape shape;   /* of its blocks */
	cairn_slice first_key;
	cairn_slice last_key;
	uint64_t
	    first_head;     /* of the two, behind the prefix that all keys share: settles most of */
	uint64_t last_head; /* `outside` */
	atomic_bool seek_verified;
};

/* CAIRN_CORRUPT, with file, offset, `what` and what to do about it as the message. */
int cairn_run_damaged(const struct cairn_run_reader *run, uint64_t offset, const char *what);

/* Makes the seek section safe to use: verifies it the first time. 0 or CAIRN_CORRUPT. */
int cairn_run_verify_order(struct cairn_run_reader *run);

static inline int cairn_run_trust_order(struct cairn_run_reader *run)
{
	if (CAIRN_LIKELY(atomic_load_explicit(&run->seek_verified, memory_order_acquire)))
		return 0;
	return cairn_run_verify_order(run);
}

static inline const uint8_t *cairn_run_extent_bytes(
    const struct cairn_run_reader *run, const struct cairn_run_extent *extent)
{
	return run->map.data + extent->offset;
}

/* Whether the bytes of a section (not the blocks) match its checksum. */
static inline bool cairn_run_extent_matches(
    const struct cairn_run_reader *run, const struct cairn_run_extent *extent)
{
	return cairn_checksum(cairn_run_extent_bytes(run, extent), (size_t)extent->size, 0) ==
	       extent->checksum;
}

static inline uint64_t cairn_run_blocks_end(const struct cairn_run_reader *run)
{
	return run->blocks->offset + run->blocks->size;
}

/* Opens the block at `offset`, inside the block section; no message. */
static inline int cairn_run_open_block_at(
    const struct cairn_run_reader *run, uint64_t offset, struct cairn_kv02_block *block)
{
	return cairn_kv02_open(block, run->map.data + offset,
	    (size_t)(cairn_run_blocks_end(run) - offset), offset,
	    run->header.flags & CAIRN_RUN_KINDS);
}

/* The same, with a message. */
static inline int cairn_run_open_named(
    const struct cairn_run_reader *run, uint64_t offset, struct cairn_kv02_block *block)
{
	if (CAIRN_UNLIKELY(cairn_run_open_block_at(run, offset, block) != 0))
		return cairn_run_damaged(run, offset, "the block here has no valid structure");
	return 0;
}

/* Opens block `index` (< blocks) by the trusted seek section. */
static inline int cairn_run_open_block(
    const struct cairn_run_reader *run, uint64_t index, struct cairn_kv02_block *block)
{
	return cairn_run_open_named(run, cairn_seek_offset(&run->seek, index), block);
}

static inline int cairn_run_check_keys(
    const struct cairn_run_reader *run, const struct cairn_kv02_block *block)
{
	if (CAIRN_UNLIKELY(!cairn_kv02_check_keys(block)))
		return cairn_run_damaged(
		    run, block->offset, "the keys of the block here fail their checksum");
	return 0;
}

static inline int cairn_run_check_record(
    const struct cairn_run_reader *run, const struct cairn_record *record, uint64_t hash)
{
	if (CAIRN_LIKELY(
		record->checksum == cairn_record_checksum(hash, record->kind, record->value)))
		return 0;
	uint64_t offset = (uint64_t)((const uint8_t *)record->value.data - run->map.data);
	return cairn_run_damaged(run, offset, "the record with this value fails its checksum");
}

/* Whether `key` lies outside the bounds of the run. */
static inline bool cairn_run_outside(const struct cairn_run_reader *run, cairn_slice key)
{
	size_t prefix = run->footer.prefix_size;
	if (CAIRN_LIKELY(cairn_key_begins(key, run->first_key.data, prefix))) {
		uint64_t head = cairn_key_head(key, prefix);
		if (CAIRN_LIKELY(head > run->first_head && head < run->last_head))
			return false;
	}
	return cairn_key_compare(key, run->first_key) < 0 ||
	       cairn_key_compare(key, run->last_key) > 0;
}

/* Where a key is, or belongs: before record `record` of block `index`, which may be its end. */
struct cairn_run_place {
	uint64_t index;
	unsigned record;
	bool equal;
};

/*
 * Places `key`, given that it belongs to block `aim` or to the left of it; `block` is then open.
 * Its keys are not verified yet. A key below all others is placed at the very first record. Needs
 * the seek section to be trusted.
 */
int cairn_run_place(struct cairn_run_reader *run, cairn_slice key, struct cairn_run_aim aim,
    struct cairn_kv02_block *block, struct cairn_run_place *place);

/* The block to look into for a key within the bounds. */
static inline struct cairn_run_aim cairn_run_aim_by_order(
    const struct cairn_run_reader *run, cairn_slice key)
{
	uint64_t block = cairn_seek_find(&run->seek, key);
	return (struct cairn_run_aim){block, cairn_seek_offset(&run->seek, block)};
}

#endif
