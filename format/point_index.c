/*
 * format/point_index.c -- see point_index.h.
 *
 * Writing gathers hash and place of every key and fills the lines at the end, when their number is
 * known. The lines are met in random order, so some keys ahead are looked at before their turn.
 */
#include "format/point_index.h"

#include <errno.h>
#include <stdlib.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "format/checksum.h"

#define HEADER_SIZE   64u
#define FILTER_BITS   28u
#define FILTER_MASK   ((UINT32_C(1) << FILTER_BITS) - 1)
#define FILTER_AT     20u
#define PAYLOADS_AT   24u
#define RECORD_BITS   4u
#define PAYLOAD_MOST  36u /* bits: 32 GiB / 8, and the record number */
#define CHECKSUM_SIZE 4u
#define AHEAD         16u /* keys whose lines are fetched before their turn */

struct entry {
	uint64_t hash;
	uint64_t payload;
};

static size_t page_count(size_t size)
{
	return (size + CAIRN_POINT_PAGE - 1) / CAIRN_POINT_PAGE;
}

static uint32_t page_checksum(const uint8_t *section, size_t size, size_t page)
{
	size_t start = page * CAIRN_POINT_PAGE;
	size_t left = size - start;
	return cairn_checksum(
	    section + start, left < CAIRN_POINT_PAGE ? left : CAIRN_POINT_PAGE, page);
}

/* Of header and page checksums: by way of the pages, of everything. */
static uint32_t section_checksum(const uint8_t *section, size_t size)
{
	uint64_t seed = cairn_hash(section, HEADER_SIZE, 0);
	return cairn_checksum(section + size, page_count(size) * CHECKSUM_SIZE, seed);
}

static uint32_t filter_bit(uint64_t hash)
{
	return UINT32_C(1) << (FILTER_BITS * (hash >> 24 & 255) / 256);
}

static unsigned used_slots(uint32_t filter)
{
	return filter >> FILTER_BITS;
}

/* ---------------------------------------------------------------- writing */

int cairn_point_builder_add(
    struct cairn_point_builder *builder, uint64_t hash, uint64_t offset, unsigned record)
{
	struct entry entry = {hash, offset / 8 << RECORD_BITS | record};
	if (offset / 8 > builder->last_offset)
		builder->last_offset = offset / 8;
	return cairn_buffer_append(&builder->entries, &entry, sizeof entry);
}

/* Filled to 80 %. */
static uint32_t lines_for(uint64_t keys)
{
	return (uint32_t)((keys * 10 + CAIRN_POINT_SLOTS * 8 - 1) / (CAIRN_POINT_SLOTS * 8));
}

static void put_entry(
    const struct cairn_point_index *index, uint8_t *lines, const struct entry *entry)
{
	uint32_t at = cairn_point_home(index, entry->hash);
	for (;;) {
		uint8_t *line = lines + (size_t)at * CAIRN_POINT_LINE;
		uint32_t filter = cairn_get32(line + FILTER_AT);
		unsigned slot = used_slots(filter);
		if (slot < CAIRN_POINT_SLOTS) {
			uint32_t print = (uint32_t)entry->hash << index->shift;
			cairn_put16(line + 2 * slot, (uint16_t)(print | entry->payload >> 32));
			cairn_put32(line + PAYLOADS_AT + 4 * slot, (uint32_t)entry->payload);
			cairn_put32(line + FILTER_AT, filter + (UINT32_C(1) << FILTER_BITS));
			return;
		}
		cairn_put32(line + FILTER_AT, filter | filter_bit(entry->hash));
		at = at + 1 == index->line_count ? 0 : at + 1;
	}
}

static void fill_lines(
    const struct cairn_point_index *index, uint8_t *lines, const struct cairn_buffer *entries)
{
	const uint8_t *from = entries->data;
	for (uint64_t i = 0; i < index->keys; i++) {
		struct entry entry, ahead;
		if (i + AHEAD < index->keys) {
			memcpy(&ahead, from + (i + AHEAD) * sizeof ahead, sizeof ahead);
			__builtin_prefetch(
			    lines + (size_t)cairn_point_home(index, ahead.hash) * CAIRN_POINT_LINE,
			    1);
		}
		memcpy(&entry, from + i * sizeof entry, sizeof entry);
		put_entry(index, lines, &entry);
	}
}

static unsigned payload_bits(uint64_t last_offset)
{
	unsigned bits = RECORD_BITS + 1;
	while (last_offset >> (bits - RECORD_BITS))
		bits++;
	return bits;
}

int cairn_point_builder_finish(
    struct cairn_point_builder *builder, struct cairn_buffer *out, uint32_t *checksum)
{
	unsigned bits = payload_bits(builder->last_offset);
	struct cairn_point_index index = {.keys = builder->entries.size / sizeof(struct entry),
	    .shift = bits > 32 ? bits - 32 : 0};
	index.line_count = lines_for(index.keys);
	size_t size = HEADER_SIZE + (size_t)index.line_count * CAIRN_POINT_LINE;
	size_t whole = size + page_count(size) * CHECKSUM_SIZE;
	if (cairn_buffer_reserve(out, whole) != 0)
		return -ENOMEM;

	uint8_t *section = out->data + out->size;
	memset(section, 0, whole);
	cairn_put64(section, index.keys);
	cairn_put32(section + 8, index.line_count);
	section[12] = (uint8_t)bits;
	fill_lines(&index, section + HEADER_SIZE, &builder->entries);
	for (size_t i = 0; i < page_count(size); i++)
		cairn_put32(section + size + i * CHECKSUM_SIZE, page_checksum(section, size, i));
	*checksum = section_checksum(section, size);
	out->size += whole;
	cairn_point_builder_release(builder);
	return 0;
}

void cairn_point_builder_release(struct cairn_point_builder *builder)
{
	cairn_buffer_release(&builder->entries);
	builder->last_offset = 0;
}

/* ---------------------------------------------------------------- reading */

int cairn_point_open(struct cairn_point_index *index, const uint8_t *data, size_t size,
    uint32_t checksum, uint64_t keys)
{
	*index = (struct cairn_point_index){0};
	if (size < HEADER_SIZE)
		return CAIRN_CORRUPT;
	uint64_t lines = cairn_get32(data + 8);
	uint64_t used = HEADER_SIZE + lines * CAIRN_POINT_LINE;
	unsigned bits = data[12];
	if (lines == 0 || bits > PAYLOAD_MOST || cairn_get64(data) != keys ||
	    keys > lines * CAIRN_POINT_SLOTS || used > size ||
	    size - used != page_count((size_t)used) * CHECKSUM_SIZE ||
	    section_checksum(data, (size_t)used) != checksum)
		return CAIRN_CORRUPT;
	index->trusted = calloc((page_count((size_t)used) + 63) / 64, sizeof *index->trusted);
	if (!index->trusted)
		return -ENOMEM;
	index->section = data;
	index->lines = data + HEADER_SIZE;
	index->keys = keys;
	index->line_count = (uint32_t)lines;
	index->shift = bits > 32 ? bits - 32 : 0;
	index->size = (size_t)used;
	return 0;
}

void cairn_point_close(struct cairn_point_index *index)
{
	free(index->trusted);
	*index = (struct cairn_point_index){0};
}

static bool verify_page(const struct cairn_point_index *index, size_t page)
{
	uint32_t stored = cairn_get32(index->section + index->size + page * CHECKSUM_SIZE);
	if (stored != page_checksum(index->section, index->size, page))
		return false;
	atomic_fetch_or_explicit(
	    &index->trusted[page / 64], UINT64_C(1) << page % 64, memory_order_relaxed);
	return true;
}

static inline size_t page_of(uint32_t line)
{
	return (HEADER_SIZE + (size_t)line * CAIRN_POINT_LINE) / CAIRN_POINT_PAGE;
}

static inline bool is_trusted(const struct cairn_point_index *index, size_t page)
{
	uint64_t word = atomic_load_explicit(&index->trusted[page / 64], memory_order_relaxed);
	return word >> page % 64 & 1;
}

/* Makes the page of a line safe to use. */
static inline bool trust_line(const struct cairn_point_index *index, uint32_t line)
{
	size_t page = page_of(line);
	return CAIRN_LIKELY(is_trusted(index, page)) || verify_page(index, page);
}

unsigned cairn_point_need(
    const struct cairn_point_index *index, uint64_t hash, struct cairn_point_need need[2])
{
	size_t page = page_of(cairn_point_home(index, hash));
	if (is_trusted(index, page)) {
		need[0] =
		    (struct cairn_point_need){cairn_point_line(index, hash), CAIRN_POINT_LINE};
		return 1;
	}
	size_t start = page * CAIRN_POINT_PAGE, left = index->size - start;
	need[0] = (struct cairn_point_need){
	    index->section + start, left < CAIRN_POINT_PAGE ? left : CAIRN_POINT_PAGE};
	need[1] = (struct cairn_point_need){
	    index->section + index->size + page * CHECKSUM_SIZE, CHECKSUM_SIZE};
	return 2;
}

/* The slots of a line whose fingerprint is that of `hash`: bit i for slot i. */
static inline unsigned match_line(
    const struct cairn_point_index *index, const uint8_t *line, uint64_t hash)
{
	unsigned used = used_slots(cairn_get32(line + FILTER_AT));
	unsigned shift = index->shift, found = 0;
	unsigned most = used < CAIRN_POINT_SLOTS ? used : CAIRN_POINT_SLOTS;
	uint16_t print = (uint16_t)(hash << shift);
#ifdef __SSE2__
	__m128i wanted = _mm_set1_epi16((short)print);
	__m128i mask = _mm_set1_epi16((short)(uint16_t)(0xffffu << shift));
	__m128i low = _mm_loadu_si128((const __m128i *)(const void *)line);
	__m128i high = _mm_cvtsi32_si128((int)cairn_get32(line + 16));
	low = _mm_cmpeq_epi16(_mm_and_si128(low, mask), wanted);
	high = _mm_cmpeq_epi16(_mm_and_si128(high, mask), wanted);
	found = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
	for (unsigned i = 0; i < CAIRN_POINT_SLOTS; i++)
		if ((cairn_get16(line + 2 * i) & (uint16_t)(0xffffu << shift)) == print)
			found |= 1u << i;
#endif
	return found & ((1u << most) - 1);
}

static int enter_line(const struct cairn_point_index *index, struct cairn_point_probe *probe)
{
	if (CAIRN_UNLIKELY(!trust_line(index, probe->line)))
		return CAIRN_CORRUPT;
	probe->candidates =
	    match_line(index, index->lines + (size_t)probe->line * CAIRN_POINT_LINE, probe->hash);
	return 0;
}

int cairn_point_next(const struct cairn_point_index *index, struct cairn_point_probe *probe,
    uint64_t *offset, unsigned *record)
{
	const uint8_t *line = index->lines + (size_t)probe->line * CAIRN_POINT_LINE;
	while (CAIRN_LIKELY(!probe->candidates)) {
		uint32_t filter = cairn_get32(line + FILTER_AT) & FILTER_MASK;
		if (CAIRN_LIKELY(!(filter & filter_bit(probe->hash))) || probe->lines_left == 0)
			return CAIRN_NOT_FOUND;
		probe->lines_left--;
		probe->line = probe->line + 1 == index->line_count ? 0 : probe->line + 1;
		int rc = enter_line(index, probe);
		if (rc != 0)
			return rc;
		line = index->lines + (size_t)probe->line * CAIRN_POINT_LINE;
	}
	unsigned slot = (unsigned)__builtin_ctz(probe->candidates);
	probe->candidates &= probe->candidates - 1;
	uint64_t high = cairn_get16(line + 2 * slot) & ((1u << index->shift) - 1);
	uint64_t payload = high << 32 | cairn_get32(line + PAYLOADS_AT + 4 * slot);
	*offset = payload >> RECORD_BITS << 3;
	*record = payload & ((1u << RECORD_BITS) - 1);
	return 0;
}

int cairn_point_first(const struct cairn_point_index *index, uint64_t hash,
    struct cairn_point_probe *probe, uint64_t *offset, unsigned *record)
{
	*probe = (struct cairn_point_probe){
	    hash, cairn_point_home(index, hash), index->line_count - 1, 0};
	int rc = enter_line(index, probe);
	return rc != 0 ? rc : cairn_point_next(index, probe, offset, record);
}

/* Whether the slots that are not in use are zero, and how many are. */
static bool check_line(const uint8_t *line, uint64_t *used)
{
	unsigned slots = used_slots(cairn_get32(line + FILTER_AT));
	if (slots > CAIRN_POINT_SLOTS)
		return false;
	*used += slots;
	for (unsigned i = slots; i < CAIRN_POINT_SLOTS; i++)
		if (cairn_get16(line + 2 * i) || cairn_get32(line + PAYLOADS_AT + 4 * i))
			return false;
	return true;
}

bool cairn_point_check(const struct cairn_point_index *index, uint64_t *page)
{
	uint64_t used = 0;
	for (*page = 0; *page < page_count(index->size); (*page)++)
		if (!verify_page(index, (size_t)*page))
			return false;
	for (uint32_t i = 0; i < index->line_count; i++) {
		size_t at = HEADER_SIZE + (size_t)i * CAIRN_POINT_LINE;
		*page = at / CAIRN_POINT_PAGE;
		if (!check_line(index->section + at, &used))
			return false;
	}
	*page = 0;
	for (unsigned i = 13; i < HEADER_SIZE; i++)
		if (index->section[i])
			return false;
	return used == index->keys;
}
