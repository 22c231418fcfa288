/*
 * format/kv02_block.c -- writing and reading KV02 blocks (layout: kv02_block.h).
 *
 * Terms. The control area is everything in front of the heads; its first byte alone decides its
 * shape. A suffix is a key without the block's prefix; its head is the first 4 bytes, its tail the
 * others.
 *
 * 1. A set of records has one encoding: wide and the forms of the lengths are the smallest that
 *    hold them, and open refuses any other.
 * 2. After open every length has been bounded by `limit`. Loads that take a whole column reach at
 *    most 64 bytes behind `limit`, which the caller has promised.
 * 3. Heads are zero padded, so equal heads order nothing when a suffix is shorter than 4 bytes; but
 *    then the longer of two suffixes goes on with zeros only, and their sizes order them.
 *
 * Threads. A builder belongs to one thread; an open block may be read by any number.
 */
#include "format/kv02_block.h"

#include <assert.h>

#include "format/bytes.h"
#include "format/checksum.h"

#define CONTROL_COUNT    0x0fu
#define CONTROL_SUFFIXES 0x10u /* lengths differ */
#define CONTROL_VALUES   5     /* shift of the value lengths' form */
#define CONTROL_WIDE     0x80u

#define HEAD_SIZE        CAIRN_KV02_HEAD_SIZE
#define CHECKSUM_SIZE    4u
#define BLOCK_ALIGN      8u
#define LANES            (CAIRN_BLOCK_RECORDS + 1)

/* How value lengths are stored: the number in bits 5-6 of the first byte. */
enum value_form {
	VALUES_EQUAL = 0,
	VALUES_8 = 1,
	VALUES_16 = 2,
	VALUES_32 = 3,
};

/* Where things stand in a control area. */
struct control {
	unsigned count;
	bool wide;
	bool suffixes_differ;
	enum value_form form;
	unsigned suffix_lengths; /* offsets of the first one */
	unsigned value_lengths;
	unsigned kinds;
	unsigned size;
};

static inline struct control control_of(unsigned first, bool kinds)
{
	struct control c;
	c.count = first & CONTROL_COUNT;
	c.wide = (first & CONTROL_WIDE) != 0;
	c.suffixes_differ = (first & CONTROL_SUFFIXES) != 0;
	c.form = (enum value_form)(first >> CONTROL_VALUES & 3);

	unsigned length = c.wide ? 2 : 1;
	unsigned values = c.form == VALUES_EQUAL ? 2 * length : c.count << (c.form - 1);
	c.suffix_lengths = 1 + length;
	c.value_lengths = c.suffix_lengths + (c.suffixes_differ ? c.count * length : length);
	c.kinds = c.value_lengths + values;
	c.size = c.kinds + (kinds ? 2 : 0);
	return c;
}

static uint32_t tail_size(uint32_t suffix_size)
{
	return suffix_size > HEAD_SIZE ? suffix_size - HEAD_SIZE : 0;
}

static enum value_form smallest_form(uint32_t longest)
{
	return longest <= UINT8_MAX ? VALUES_8 : longest <= UINT16_MAX ? VALUES_16 : VALUES_32;
}

static bool needs_wide(uint32_t prefix, uint32_t longest_suffix, bool values_equal, uint32_t value)
{
	return (prefix | longest_suffix) > UINT8_MAX || (values_equal && value > UINT16_MAX);
}

/* Writing. */

/* Whether `more` on top of `used` passes `limit`. */
static bool passes(size_t used, size_t more, size_t limit)
{
	return used > limit || more > limit - used;
}

bool cairn_kv02_builder_full(
    const struct cairn_kv02_builder *builder, size_t key_size, size_t value_size)
{
	if (builder->count == 0)
		return false;
	size_t value_bytes = builder->values.size - builder->count * CHECKSUM_SIZE;
	return builder->count == CAIRN_BLOCK_RECORDS ||
	       passes(builder->keys.size, key_size, CAIRN_BLOCK_KEY_BYTES) ||
	       passes(value_bytes, value_size, CAIRN_BLOCK_VALUE_BYTES);
}

int cairn_kv02_builder_add(struct cairn_kv02_builder *builder, const struct cairn_record *record)
{
	bool tombstone = record->kind == CAIRN_KIND_DELETE;
	assert(!cairn_kv02_builder_full(builder, record->key.size, record->value.size));
	assert(record->key.size <= CAIRN_KEY_MAX && record->value.size <= CAIRN_VALUE_MAX);
	assert(!tombstone || (builder->kinds && record->value.size == 0));

	size_t keys = builder->keys.size, values = builder->values.size;
	uint8_t checksum[CHECKSUM_SIZE];
	cairn_put32(checksum, record->checksum);
	int rc = cairn_buffer_append(&builder->keys, record->key.data, record->key.size);
	if (rc == 0)
		rc = cairn_buffer_append(&builder->values, record->value.data, record->value.size);
	if (rc == 0)
		rc = cairn_buffer_append(&builder->values, checksum, sizeof checksum);
	if (rc < 0) {
		builder->keys.size = keys;
		builder->values.size = values;
		return rc;
	}

	unsigned i = builder->count++;
	builder->key_size[i] = (uint32_t)record->key.size;
	builder->value_size[i] = (uint32_t)record->value.size;
	if (tombstone)
		builder->tombstones = (uint16_t)(builder->tombstones | 1u << i);
	return 0;
}

cairn_slice cairn_kv02_builder_first_key(const struct cairn_kv02_builder *builder)
{
	assert(builder->count > 0);
	return cairn_slice_of(builder->keys.data, builder->key_size[0]);
}

/* Everything about a block that must be known before its first byte is written. */
struct plan {
	unsigned first; /* byte of the block */
	uint32_t prefix;
	uint32_t tails;
};

static uint32_t common_prefix(const struct cairn_kv02_builder *builder)
{
	if (builder->count == 1)
		return builder->key_size[0];
	uint32_t last_size = builder->key_size[builder->count - 1];
	cairn_slice first = cairn_kv02_builder_first_key(builder);
	cairn_slice last =
	    cairn_slice_of(builder->keys.data + builder->keys.size - last_size, last_size);
	return (uint32_t)cairn_key_common(first, last);
}

static struct plan plan_of(const struct cairn_kv02_builder *builder)
{
	struct plan plan = {.prefix = common_prefix(builder)};
	uint32_t suffix = 0, value = 0;
	bool suffixes_differ = false, values_differ = false;
	for (unsigned i = 0; i < builder->count; i++) {
		uint32_t size = builder->key_size[i] - plan.prefix;
		plan.tails += tail_size(size);
		suffix = size > suffix ? size : suffix;
		value = builder->value_size[i] > value ? builder->value_size[i] : value;
		suffixes_differ |= builder->key_size[i] != builder->key_size[0];
		values_differ |= builder->value_size[i] != builder->value_size[0];
	}
	plan.first = builder->count;
	if (suffixes_differ)
		plan.first |= CONTROL_SUFFIXES;
	if (values_differ)
		plan.first |= (unsigned)smallest_form(value) << CONTROL_VALUES;
	if (needs_wide(plan.prefix, suffix, !values_differ, value))
		plan.first |= CONTROL_WIDE;
	return plan;
}

static void put_length(struct cairn_output *out, unsigned bytes, uint32_t length)
{
	if (bytes == 1)
		cairn_output8(out, (uint8_t)length);
	else if (bytes == 2)
		cairn_output16(out, (uint16_t)length);
	else
		cairn_output32(out, length);
}

static void put_control(struct cairn_output *out, const struct cairn_kv02_builder *builder,
    const struct plan *plan, const struct control *control)
{
	unsigned bytes = control->wide ? 2 : 1;
	cairn_output8(out, (uint8_t)plan->first);
	put_length(out, bytes, plan->prefix);

	unsigned lengths = control->suffixes_differ ? control->count : 1;
	for (unsigned i = 0; i < lengths; i++)
		put_length(out, bytes, builder->key_size[i] - plan->prefix);

	if (control->form == VALUES_EQUAL) {
		put_length(out, 2 * bytes, builder->value_size[0]);
	} else {
		for (unsigned i = 0; i < control->count; i++)
			put_length(out, 1u << (control->form - 1), builder->value_size[i]);
	}
	if (builder->kinds)
		cairn_output16(out, builder->tombstones);
}

static void put_keys(
    struct cairn_output *out, const struct cairn_kv02_builder *builder, uint32_t prefix)
{
	/* The buffer has nothing in it when the only key is the empty one. */
	const uint8_t *keys = builder->keys.size ? builder->keys.data : (const uint8_t *)"";
	const uint8_t *key = keys;
	for (unsigned i = 0; i < builder->count; key += builder->key_size[i++]) {
		uint64_t head = cairn_key_head(cairn_slice_of(key, builder->key_size[i]), prefix);
		cairn_output32(out, (uint32_t)(head >> 32));
	}
	cairn_output_bytes(out, keys, prefix);
	key = keys;
	for (unsigned i = 0; i < builder->count; key += builder->key_size[i++]) {
		uint32_t tail = tail_size(builder->key_size[i] - prefix);
		if (tail)
			cairn_output_bytes(out, key + prefix + HEAD_SIZE, tail);
	}
}

/* Makes the builder ready for the next block; gives back what only an oversized record needed. */
static void empty(struct cairn_kv02_builder *builder)
{
	if (builder->values.capacity > 4 * (size_t)CAIRN_BLOCK_VALUE_BYTES)
		cairn_buffer_release(&builder->values);
	builder->keys.size = 0;
	builder->values.size = 0;
	builder->tombstones = 0;
	builder->count = 0;
}

int cairn_kv02_builder_finish(
    struct cairn_kv02_builder *builder, uint64_t offset, struct cairn_buffer *out)
{
	assert(builder->count > 0);
	struct plan plan = plan_of(builder);
	struct control control = control_of(plan.first, builder->kinds);
	size_t key_area = control.size + builder->count * HEAD_SIZE + plan.prefix + plan.tails;
	size_t end = key_area + CHECKSUM_SIZE + builder->values.size;
	size_t size = cairn_round_up(end, BLOCK_ALIGN);

	int rc = cairn_buffer_reserve(out, size);
	if (rc < 0)
		return rc;
	struct cairn_output bytes = cairn_output_of(out->data + out->size, size);
	put_control(&bytes, builder, &plan, &control);
	put_keys(&bytes, builder, plan.prefix);
	assert(cairn_output_size(&bytes) == key_area);
	cairn_output32(&bytes, cairn_checksum(bytes.start, key_area, offset));
	cairn_output_bytes(&bytes, builder->values.data, builder->values.size);
	cairn_output_zeros(&bytes, size - end);
	assert(!bytes.bad && cairn_output_size(&bytes) == size);

	out->size += size;
	empty(builder);
	return 0;
}

void cairn_kv02_builder_release(struct cairn_kv02_builder *builder)
{
	cairn_buffer_release(&builder->keys);
	cairn_buffer_release(&builder->values);
	empty(builder);
}

/* Reading. */

/* What the lengths of one kind add up to, and what a smaller form would have had to hold. */
struct lengths {
	uint64_t total; /* bytes of tails, or of values with their checksums */
	uint32_t longest;
	uint32_t differences; /* 0: all are the same */
};

static inline uint32_t get_length(const uint8_t *p, unsigned i, unsigned bytes)
{
	return bytes == 1 ? p[i] : bytes == 2 ? cairn_get16(p + 2 * i) : cairn_get32(p + 4 * i);
}

/* One length for all fills every lane: a loop of fixed length becomes vector stores. */
static struct lengths fill_suffixes(struct cairn_kv02_block *block, uint32_t size)
{
	uint32_t tail = tail_size(size);
	for (unsigned i = 0; i < LANES; i++) {
		block->suffix_size[i] = size;
		block->tail_start[i] = i * tail;
	}
	return (struct lengths){(uint64_t)block->count * tail, size, 0};
}

static struct lengths fill_values(struct cairn_kv02_block *block, uint32_t size)
{
	size_t step = (size_t)size + CHECKSUM_SIZE, start = 0;
	for (unsigned i = 0; i < LANES; i += 4, start += 4 * step) {
		block->value_start[i] = start;
		block->value_start[i + 1] = start + step;
		block->value_start[i + 2] = start + 2 * step;
		block->value_start[i + 3] = start + 3 * step;
	}
	return (struct lengths){block->count * ((uint64_t)size + CHECKSUM_SIZE), size, 0};
}

static inline struct lengths read_suffixes(
    struct cairn_kv02_block *block, const uint8_t *p, unsigned bytes)
{
	struct lengths seen = {0};
	uint32_t first = get_length(p, 0, bytes);
	for (unsigned i = 0; i < block->count; i++) {
		uint32_t size = get_length(p, i, bytes);
		block->suffix_size[i] = size;
		block->tail_start[i] = (uint32_t)seen.total;
		seen.total += tail_size(size);
		seen.longest = size > seen.longest ? size : seen.longest;
		seen.differences |= size ^ first;
	}
	block->tail_start[block->count] = (uint32_t)seen.total;
	return seen;
}

static inline struct lengths read_values(
    struct cairn_kv02_block *block, const uint8_t *p, unsigned bytes)
{
	struct lengths seen = {0};
	uint32_t first = get_length(p, 0, bytes);
	for (unsigned i = 0; i < block->count; i++) {
		uint32_t size = get_length(p, i, bytes);
		block->value_start[i] = (size_t)seen.total;
		seen.total += (uint64_t)size + CHECKSUM_SIZE;
		seen.longest = size > seen.longest ? size : seen.longest;
		seen.differences |= size ^ first;
	}
	block->value_start[block->count] = (size_t)seen.total;
	return seen;
}

/* The lengths of keys; false when no writer would have stored them so. */
static bool open_suffixes(
    struct cairn_kv02_block *block, const struct control *control, struct lengths *seen)
{
	const uint8_t *p = block->data + control->suffix_lengths;
	block->prefix_size = control->wide ? cairn_get16(block->data + 1) : block->data[1];
	block->equal_suffixes = !control->suffixes_differ;
	if (CAIRN_LIKELY(block->equal_suffixes))
		*seen = fill_suffixes(block, control->wide ? cairn_get16(p) : p[0]);
	else
		*seen = control->wide ? read_suffixes(block, p, 2) : read_suffixes(block, p, 1);

	/* A lone key is all prefix; of several only one can be. */
	bool distinct = (block->count == 1) == (seen->longest == 0);
	return distinct && (seen->differences != 0) == control->suffixes_differ &&
	       block->prefix_size + seen->longest <= CAIRN_KEY_MAX;
}

static bool open_values(
    struct cairn_kv02_block *block, const struct control *control, struct lengths *seen)
{
	const uint8_t *p = block->data + control->value_lengths;
	block->equal_values = control->form == VALUES_EQUAL;
	if (block->equal_values) {
		*seen = fill_values(block, control->wide ? cairn_get32(p) : cairn_get16(p));
		return seen->longest <= CAIRN_VALUE_MAX;
	}
	if (control->form == VALUES_8)
		*seen = read_values(block, p, 1);
	else if (control->form == VALUES_16)
		*seen = read_values(block, p, 2);
	else
		*seen = read_values(block, p, 4);
	return seen->differences != 0 && smallest_form(seen->longest) == control->form &&
	       seen->longest <= CAIRN_VALUE_MAX;
}

static size_t value_size(const struct cairn_kv02_block *block, unsigned i)
{
	return block->value_start[i + 1] - block->value_start[i] - CHECKSUM_SIZE;
}

/* False when the kinds name records that are not there, or a tombstone with a value. */
static bool open_kinds(struct cairn_kv02_block *block, const struct control *control)
{
	block->tombstones = cairn_get16(block->data + control->kinds);
	if (block->tombstones >> block->count != 0)
		return false;
	for (unsigned i = 0; i < block->count; i++) {
		if (block->tombstones >> i & 1 && value_size(block, i) != 0)
			return false;
	}
	return true;
}

int cairn_kv02_open(
    struct cairn_kv02_block *block, const uint8_t *data, size_t limit, uint64_t offset, bool kinds)
{
	if (limit == 0)
		return CAIRN_CORRUPT;
	struct control control = control_of(data[0], kinds);
	if (control.count == 0 || control.size > limit)
		return CAIRN_CORRUPT;

	block->data = data;
	block->offset = offset;
	block->count = control.count;
	block->tombstones = 0;
	struct lengths suffixes, values;
	if (!open_suffixes(block, &control, &suffixes) || !open_values(block, &control, &values))
		return CAIRN_CORRUPT;
	if (control.wide &&
	    !needs_wide(block->prefix_size, suffixes.longest, block->equal_values, values.longest))
		return CAIRN_CORRUPT;
	if (kinds && !open_kinds(block, &control))
		return CAIRN_CORRUPT;

	uint32_t heads = control.count * HEAD_SIZE;
	uint64_t key_area = control.size + heads + block->prefix_size + suffixes.total;
	uint64_t size = cairn_round_up(key_area + CHECKSUM_SIZE + values.total, BLOCK_ALIGN);
	if (size > limit)
		return CAIRN_CORRUPT;
	block->key_area_size = (uint32_t)key_area;
	block->size = (size_t)size;
	block->heads = data + control.size;
	block->prefix = block->heads + heads;
	block->tails = block->prefix + block->prefix_size;
	block->values = data + key_area + CHECKSUM_SIZE;
	return 0;
}

bool cairn_kv02_check_keys(const struct cairn_kv02_block *block)
{
	uint32_t stored = cairn_get32(block->data + block->key_area_size);
	return stored == cairn_checksum(block->data, block->key_area_size, block->offset);
}

bool cairn_kv02_check_padding(const struct cairn_kv02_block *block)
{
	const uint8_t *end = block->data + block->size;
	for (const uint8_t *p = block->values + block->value_start[block->count]; p < end; p++) {
		if (*p != 0)
			return false;
	}
	return true;
}

static uint32_t head_of(const struct cairn_kv02_block *block, unsigned i)
{
	return cairn_get32(block->heads + i * HEAD_SIZE);
}

bool cairn_kv02_is_canonical(const struct cairn_kv02_block *block)
{
	for (unsigned i = 0; i < block->count; i++) {
		uint32_t size = block->suffix_size[i];
		if (size < HEAD_SIZE && head_of(block, i) << 8 * size != 0)
			return false;
	}
	/* With an equal first byte in all suffixes the prefix could be longer. */
	return block->count == 1 || block->suffix_size[0] == 0 ||
	       head_of(block, 0) >> 24 != head_of(block, block->count - 1) >> 24;
}

/* The head that `key` would have in a block whose prefix it begins with. */
static uint32_t head_of_key(cairn_slice key, size_t prefix)
{
	size_t size = key.size - prefix;
	const uint8_t *p = key.data;
	if (CAIRN_LIKELY(size >= HEAD_SIZE))
		return __builtin_bswap32(cairn_get32(p + prefix));
	uint32_t head = 0;
	for (size_t i = 0; i < size; i++)
		head |= (uint32_t)p[prefix + i] << (24 - 8 * i);
	return head;
}

/* <0, >0: all keys of the block are below, above `key`; 0: `key` begins with the prefix. */
static int compare_prefix(const struct cairn_kv02_block *block, cairn_slice key)
{
	if (CAIRN_LIKELY(cairn_key_begins(key, block->prefix, block->prefix_size)))
		return 0;
	size_t shared = block->prefix_size < key.size ? block->prefix_size : key.size;
	int order = shared ? memcmp(block->prefix, key.data, shared) : 0;
	if (order)
		return order;
	return key.size < block->prefix_size;
}

/* Key i against a key with the same prefix and an equal head. */
static int compare_tail(const struct cairn_kv02_block *block, unsigned i, cairn_slice key)
{
	size_t before = (size_t)block->prefix_size + HEAD_SIZE;
	size_t mine = tail_size(block->suffix_size[i]);
	size_t other = key.size > before ? key.size - before : 0;
	size_t shared = mine < other ? mine : other;
	if (shared) {
		const uint8_t *tail = block->tails + block->tail_start[i];
		int order = memcmp(tail, (const uint8_t *)key.data + before, shared);
		if (order)
			return order;
	}
	size_t size = block->prefix_size + block->suffix_size[i];
	return size < key.size ? -1 : size > key.size;
}

unsigned cairn_kv02_lower_bound(const struct cairn_kv02_block *block, cairn_slice key, bool *equal)
{
	*equal = false;
	int order = compare_prefix(block, key);
	if (order)
		return order < 0 ? block->count : 0;

	/* One pass over all lanes, those behind the last head masked out: vector code. */
	uint32_t head = head_of_key(key, block->prefix_size);
	uint32_t count = block->count, below = 0, same = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t lane = cairn_get32(block->heads + i * HEAD_SIZE);
		below += (uint32_t)((lane < head) & (i < count));
		same += (uint32_t)((lane == head) & (i < count));
	}

	unsigned low = below, high = below + same;
	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		order = compare_tail(block, middle, key);
		if (order == 0) {
			*equal = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t cairn_kv02_key_size(const struct cairn_kv02_block *block, unsigned i)
{
	assert(i < block->count);
	return block->prefix_size + block->suffix_size[i];
}

void cairn_kv02_key(const struct cairn_kv02_block *block, unsigned i, uint8_t *key)
{
	assert(i < block->count);
	uint32_t suffix = block->suffix_size[i];
	uint8_t head[HEAD_SIZE];
	cairn_put32(head, __builtin_bswap32(head_of(block, i)));
	if (block->prefix_size) {
		memcpy(key, block->prefix, block->prefix_size);
		key += block->prefix_size;
	}
	if (CAIRN_LIKELY(suffix >= HEAD_SIZE)) {
		memcpy(key, head, HEAD_SIZE);
		memcpy(key + HEAD_SIZE, block->tails + block->tail_start[i], suffix - HEAD_SIZE);
	} else {
		for (uint32_t j = 0; j < suffix; j++)
			key[j] = head[j];
	}
}

int cairn_kv02_compare(const struct cairn_kv02_block *block, unsigned i, cairn_slice key)
{
	assert(i < block->count);
	int order = compare_prefix(block, key);
	if (order)
		return order;
	uint32_t mine = head_of(block, i), other = head_of_key(key, block->prefix_size);
	if (mine != other)
		return mine < other ? -1 : 1;
	return compare_tail(block, i, key);
}

void cairn_kv02_record(
    const struct cairn_kv02_block *block, unsigned i, struct cairn_record *record)
{
	assert(i < block->count);
	const uint8_t *value = block->values + block->value_start[i];
	size_t size = value_size(block, i);
	record->value = cairn_slice_of(value, size);
	record->checksum = cairn_get32(value + size);
	record->kind = block->tombstones >> i & 1 ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT;
}

/* Where something of record i begins, how long it is, and how long all of them are together. */
struct span {
	uint64_t before;
	uint64_t all;
	uint32_t size;
};

/* Of the tails; `size` is that of the suffix. */
static inline struct span suffix_span(
    const uint8_t *lengths, unsigned bytes, bool differ, unsigned count, unsigned i)
{
	struct span span = {0};
	span.size = get_length(lengths, differ ? i : 0, bytes);
	if (CAIRN_LIKELY(!differ)) {
		span.before = (uint64_t)i * tail_size(span.size);
		span.all = (uint64_t)count * tail_size(span.size);
		return span;
	}
	for (unsigned k = 0; k < count; k++) {
		uint32_t tail = tail_size(get_length(lengths, k, bytes));
		span.before += k < i ? tail : 0;
		span.all += tail;
	}
	return span;
}

/* Of the values up to record i, with their checksums; `all` is left alone. */
static inline struct span value_span(
    const uint8_t *lengths, const struct control *control, unsigned i)
{
	struct span span = {0};
	if (CAIRN_LIKELY(control->form == VALUES_EQUAL)) {
		span.size = control->wide ? cairn_get32(lengths) : cairn_get16(lengths);
		span.before = (uint64_t)i * ((uint64_t)span.size + CHECKSUM_SIZE);
		return span;
	}
	unsigned bytes = 1u << (control->form - 1);
	for (unsigned k = 0; k < i; k++)
		span.before += (uint64_t)get_length(lengths, k, bytes) + CHECKSUM_SIZE;
	span.size = get_length(lengths, i, bytes);
	return span;
}

/* `key` has the right size: prefix and suffix; the suffix's head and tail are given. */
static inline bool is_key(cairn_slice key, const uint8_t *prefix, uint32_t prefix_size,
    const uint8_t *head, const uint8_t *tail)
{
	const uint8_t *wanted = key.data;
	if (prefix_size && memcmp(prefix, wanted, prefix_size) != 0)
		return false;
	if (cairn_get32(head) != head_of_key(key, prefix_size))
		return false;
	size_t before = (size_t)prefix_size + HEAD_SIZE;
	return key.size <= before || memcmp(tail, wanted + before, key.size - before) == 0;
}

int cairn_kv02_pick(const uint8_t *data, size_t limit, bool kinds, unsigned i, cairn_slice key,
    struct cairn_record *record)
{
	if (limit == 0)
		return CAIRN_CORRUPT;
	struct control control = control_of(data[0], kinds);
	if (i >= control.count || control.size > limit)
		return CAIRN_CORRUPT;
	uint32_t prefix_size = control.wide ? cairn_get16(data + 1) : data[1];
	struct span suffix = suffix_span(data + control.suffix_lengths, control.wide ? 2 : 1,
	    control.suffixes_differ, control.count, i);
	struct span value = value_span(data + control.value_lengths, &control, i);
	uint64_t heads = control.size, prefix = heads + control.count * HEAD_SIZE;
	uint64_t tails = prefix + prefix_size, values = tails + suffix.all + CHECKSUM_SIZE;
	uint64_t end = values + value.before + value.size + CHECKSUM_SIZE;
	if (end > limit || value.size > CAIRN_VALUE_MAX)
		return CAIRN_CORRUPT;
	if (key.size != prefix_size + suffix.size ||
	    !is_key(key, data + prefix, prefix_size, data + heads + i * HEAD_SIZE,
		data + tails + suffix.before))
		return CAIRN_NOT_FOUND;
	const uint8_t *bytes = data + values + value.before;
	bool tombstone = kinds && cairn_get16(data + control.kinds) >> i & 1;
	*record = (struct cairn_record){key, cairn_slice_of(bytes, value.size),
	    cairn_get32(bytes + value.size), tombstone ? CAIRN_KIND_DELETE : CAIRN_KIND_PUT};
	return 0;
}
