/*
 * format/kv02_block.h -- a KV02 block: 1 to 15 consecutive records, byte aligned, struct of arrays.
 *
 * Layout, all integers little endian, n = number of records (format/README.md has an example):
 *
 *	control   u8   bits 0-3 n; bit 4: suffix lengths differ; bits 5-6: value lengths
 *	               0 = all equal, 1 = u8 each, 2 = u16 each, 3 = u32 each; bit 7: wide
 *	          u8   (wide: u16) prefix length: bytes common to all keys; the whole key when n = 1
 *	          u8   (wide: u16) suffix length, one for all, or n of them when bit 4 is set
 *	          u16  (wide: u32) value length, one for all, or n x u8/u16/u32 by bits 5-6
 *	          u16  kinds, only in runs with CAIRN_RUN_KINDS: bit i set = record i is a tombstone
 *	heads     n x u32  the first 4 suffix bytes of each key as a big-endian number, zero padded
 *	prefix    the common bytes
 *	tails     the suffix bytes beyond the 4th of each key, back to back
 *	checksum  u32  XXH3 of everything above, seeded with the block's offset in the file
 *	values    each value followed by its u32 record checksum
 *	padding   0 to 7 zero bytes: blocks start at multiples of 8
 *
 * A block stands alone. The key area (everything up to the checksum) can be read without touching a
 * value, any record without touching the others.
 */
#ifndef CAIRN_FORMAT_KV02_BLOCK_H
#define CAIRN_FORMAT_KV02_BLOCK_H

#include "format/buffer.h"

#define CAIRN_BLOCK_RECORDS  15u
#define CAIRN_KV02_HEAD_SIZE 4u /* bytes of a key's suffix in the column of heads */
#define CAIRN_KV02_CONTROL_LEAST \
	5u /* bytes of the control area where lengths are equal and short */
#define CAIRN_BLOCK_VALUE_BYTES 262144u /* a block closes before its values pass this, … */
#define CAIRN_BLOCK_KEY_BYTES   65536u  /* … or its keys this; a larger record stands alone */

/*
 * Writing. A zeroed builder is empty. Records are copied, so they need not outlive the call.
 * `kinds` says whether the run carries kinds; without it every record must be a PUT.
 */
struct cairn_kv02_builder {
	struct cairn_buffer keys;   /* back to back */
	struct cairn_buffer values; /* back to back, each with its record checksum behind it */
	uint32_t key_size[CAIRN_BLOCK_RECORDS];
	uint32_t value_size[CAIRN_BLOCK_RECORDS];
	uint16_t tombstones;
	unsigned count;
	bool kinds;
};

/* Whether the next record must start a new block. Always false when empty. */
bool cairn_kv02_builder_full(
    const struct cairn_kv02_builder *builder, size_t key_size, size_t value_size);

/* Adds a record behind the others (ascending keys: the caller's promise). 0 or -ENOMEM. Not when
 * full. */
int cairn_kv02_builder_add(struct cairn_kv02_builder *builder, const struct cairn_record *record);

/* Appends the block, padding included, to `out` and empties the builder. `offset` is where the
 * block will stand in its file. 0 or -ENOMEM, and then nothing has changed. Needs at least one
 * record. */
int cairn_kv02_builder_finish(
    struct cairn_kv02_builder *builder, uint64_t offset, struct cairn_buffer *out);

/* The first key of the block being built. */
cairn_slice cairn_kv02_builder_first_key(const struct cairn_kv02_builder *builder);

void cairn_kv02_builder_release(struct cairn_kv02_builder *builder);

/*
 * Reading. Opening checks the structure against `limit` (bytes up to the end of the block section),
 * so nothing below ever reads outside of them; it does not check the checksum.
 */
struct cairn_kv02_block {
	const uint8_t *data;
	uint64_t offset; /* in the file */
	unsigned count;
	uint32_t prefix_size;
	uint32_t key_area_size; /* up to, not including, the checksum */
	size_t size;            /* all of it, padding included */
	uint16_t tombstones;    /* 0 in a run without kinds */
	bool equal_suffixes;    /* suffix_size[0] and value_size[0] then stand for all */
	bool equal_values;
	const uint8_t *heads;
	const uint8_t *prefix;
	const uint8_t *tails;
	const uint8_t *values;
	/* The next three hold all n entries, equal or not, when the block is open. */
	uint32_t suffix_size[CAIRN_BLOCK_RECORDS + 1];
	uint32_t tail_start[CAIRN_BLOCK_RECORDS + 1];
	size_t
	    value_start[CAIRN_BLOCK_RECORDS + 1]; /* from `values`; the record checksum counts in */
};

/* 0 or CAIRN_CORRUPT (no message: the caller knows the file). `data` needs 64 readable bytes behind
 * `limit`. */
int cairn_kv02_open(
    struct cairn_kv02_block *block, const uint8_t *data, size_t limit, uint64_t offset, bool kinds);

/* Whether the key area's checksum is right. */
bool cairn_kv02_check_keys(const struct cairn_kv02_block *block);

/* Whether the padding is: what no search looks at, since it is far from the keys, for verify. */
bool cairn_kv02_check_padding(const struct cairn_kv02_block *block);

/* Whether keys that ascend stand in it in their one encoding: what no search looks at, for verify.
 */
bool cairn_kv02_is_canonical(const struct cairn_kv02_block *block);

/* Index of the first record with a key >= `key`, or count; *equal says whether it is that key. */
unsigned cairn_kv02_lower_bound(const struct cairn_kv02_block *block, cairn_slice key, bool *equal);

/* Size of key i; rebuild it into `key` (that many bytes). */
uint32_t cairn_kv02_key_size(const struct cairn_kv02_block *block, unsigned i);
void cairn_kv02_key(const struct cairn_kv02_block *block, unsigned i, uint8_t *key);

/* Compares key i with `key` without rebuilding it: <0, 0, >0 as key i is to `key`. */
int cairn_kv02_compare(const struct cairn_kv02_block *block, unsigned i, cairn_slice key);

/* Value, record checksum and kind of record i; record->key is left alone. Nothing is verified. */
void cairn_kv02_record(
    const struct cairn_kv02_block *block, unsigned i, struct cairn_record *record);

/*
 * Whether record i of the block at `data` has the key `key`, without opening the block: 0 and the
 * record, of which nothing is verified; CAIRN_NOT_FOUND when the key is another; CAIRN_CORRUPT when
 * there is no such record within `limit`. For whoever knows the place of a record already. `limit`
 * as in cairn_kv02_open.
 */
int cairn_kv02_pick(const uint8_t *data, size_t limit, bool kinds, unsigned i, cairn_slice key,
    struct cairn_record *record);

#endif
