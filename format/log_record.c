/*
 * format/log_record.c -- the bytes of a log segment: its header and its records.
 *
 * 1. A decoder reads no byte outside the bytes it was given, whatever they hold.
 * 2. A durable position (D) is rounded down where its 32 bits cannot say it, never up: it may vouch
 * for too little, not for too much.
 *
 * No state: any thread may call.
 */
#include "format/log_record.h"

#include <assert.h>

#include "format/checksum.h"
#include "format/error.h"
#include "format/varint.h"

static const uint8_t magic[8] = {'C', 'A', 'I', 'R', 'N', 'W', 'A', 'L'};

#define HEADER_CHECKED 16u /* the checksum of a segment header covers the bytes from here */
#define HEADER_USED    88u

#define UNITS_MASK     ((UINT32_C(1) << 28) - 1) /* sizes and offsets in words of 28 + 4 bits */
#define BACK_MAX       15u

/* Segment header. */

void cairn_log_segment_header_encode(
    const struct cairn_log_segment_header *header, uint8_t bytes[CAIRN_LOG_HEADER_SIZE])
{
	memset(bytes, 0, CAIRN_LOG_HEADER_SIZE);
	memcpy(bytes, magic, sizeof magic);
	cairn_put32(bytes + 8, CAIRN_LOG_VERSION);
	memcpy(bytes + 16, header->identity.store_id, sizeof header->identity.store_id);
	cairn_put64(bytes + 32, header->identity.hash_seed);
	cairn_put64(bytes + 48, header->number);
	cairn_put64(bytes + 56, header->ordinal);
	cairn_put64(bytes + 64, header->salt);
	cairn_put64(bytes + 72, header->previous_number);
	cairn_put64(bytes + 80, header->previous_salt);
	cairn_put32(bytes + 12,
	    cairn_checksum(bytes + HEADER_CHECKED, CAIRN_LOG_HEADER_SIZE - HEADER_CHECKED, 0));
}

static bool all_zeros(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

static int check_segment_header(const uint8_t bytes[CAIRN_LOG_HEADER_SIZE], const char *path)
{
	if (memcmp(bytes, magic, sizeof magic) != 0)
		return cairn_error_at(CAIRN_CORRUPT, path, 0,
		    "this is not a log segment; restore it from a copy or repair the store");
	uint32_t version = cairn_get32(bytes + 8);
	if (version != CAIRN_LOG_VERSION)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, 8,
		    "log format version %u, this program knows version %u; use a newer one",
		    version, CAIRN_LOG_VERSION);
	uint32_t checksum =
	    cairn_checksum(bytes + HEADER_CHECKED, CAIRN_LOG_HEADER_SIZE - HEADER_CHECKED, 0);
	if (checksum != cairn_get32(bytes + 12))
		return cairn_error_at(CAIRN_CORRUPT, path, 12,
		    "the checksum of the segment header is wrong; "
		    "restore the file from a copy or repair the store");
	if (!all_zeros(bytes + 40, 8) ||
	    !all_zeros(bytes + HEADER_USED, CAIRN_LOG_HEADER_SIZE - HEADER_USED))
		return cairn_error_at(CAIRN_CORRUPT, path, 0,
		    "the padding of the segment header is not zero; "
		    "restore the file from a copy or repair the store");
	return 0;
}

int cairn_log_segment_header_decode(struct cairn_log_segment_header *header,
    const uint8_t bytes[CAIRN_LOG_HEADER_SIZE], const char *path)
{
	*header = (struct cairn_log_segment_header){0};
	int rc = check_segment_header(bytes, path);
	if (rc < 0)
		return rc;
	memcpy(header->identity.store_id, bytes + 16, sizeof header->identity.store_id);
	header->identity.hash_seed = cairn_get64(bytes + 32);
	header->number = cairn_get64(bytes + 48);
	header->ordinal = cairn_get64(bytes + 56);
	header->salt = cairn_get64(bytes + 64);
	header->previous_number = cairn_get64(bytes + 72);
	header->previous_salt = cairn_get64(bytes + 80);
	return 0;
}

/* Records. */

static uint64_t place_seed(const struct cairn_log_place *place)
{
	return place->salt + place->offset;
}

static uint32_t durable_encode(uint64_t durable, const struct cairn_log_place *place)
{
	uint64_t own = cairn_log_position(place->ordinal, place->offset);
	if (CAIRN_UNLIKELY(durable > own))
		durable = own;
	uint64_t back = place->ordinal - cairn_log_position_ordinal(durable);
	if (CAIRN_UNLIKELY(back > BACK_MAX))
		return BACK_MAX << 28;
	return (uint32_t)back << 28 | ((uint32_t)durable & UNITS_MASK);
}

static uint64_t durable_decode(uint32_t word, const struct cairn_log_place *place)
{
	uint64_t back = word >> 28;
	uint64_t units = word & UNITS_MASK;
	/* "Farther away than can be said" vouches for nothing. */
	if (back > place->ordinal || (back == BACK_MAX && units == 0))
		return 0;
	return cairn_log_position(place->ordinal - back, units << 3);
}

void cairn_log_record_seal(uint8_t *bytes, const struct cairn_log_place *place,
    enum cairn_log_type type, uint64_t size, uint32_t sequence_delta, uint64_t durable)
{
	assert(size % 8 == 0 && size >= cairn_log_record_size(0));
	assert(size / 8 <= CAIRN_LOG_RECORD_MAX && (uintptr_t)bytes % 8 == 0);
	uint64_t seed = place_seed(place);
	cairn_put32(bytes + 4, cairn_checksum(bytes + CAIRN_LOG_RECORD_HEADER,
				   (size_t)size - CAIRN_LOG_RECORD_HEADER, ~seed));
	cairn_put32(bytes + 8, (uint32_t)(size / 8) | (uint32_t)type << 28);
	cairn_put32(bytes + 12, sequence_delta);
	cairn_put32(bytes + 16, durable_encode(durable, place));
	uint32_t first_word;
	cairn_put32(&first_word, cairn_checksum(bytes + 4, CAIRN_LOG_RECORD_HEADER - 4, seed));
	__atomic_store_n((uint32_t *)(void *)bytes, first_word, __ATOMIC_RELEASE);
}

bool cairn_log_record_peek(struct cairn_log_record *record, const uint8_t *bytes, size_t limit,
    const struct cairn_log_place *place)
{
	if (limit < CAIRN_LOG_RECORD_HEADER)
		return false;
	uint32_t word = cairn_get32(bytes + 8);
	uint32_t type = word >> 28;
	uint64_t size = (uint64_t)(word & UNITS_MASK) * 8;
	/* A look-ahead asks at every 8 bytes: nearly all candidates end here, unhashed. */
	if (size < cairn_log_record_size(0) || size > limit)
		return false;
	if (type != CAIRN_LOG_LINK && type != CAIRN_LOG_WRITE && type != CAIRN_LOG_MARK)
		return false;
	uint32_t checksum =
	    cairn_checksum(bytes + 4, CAIRN_LOG_RECORD_HEADER - 4, place_seed(place));
	if (checksum != cairn_get32(bytes))
		return false;
	*record = (struct cairn_log_record){
	    .type = (enum cairn_log_type)type,
	    .size = size,
	    .sequence_delta = cairn_get32(bytes + 12),
	    .durable = durable_decode(cairn_get32(bytes + 16), place),
	    .body_checksum = cairn_get32(bytes + 4),
	    .body = bytes + CAIRN_LOG_RECORD_HEADER,
	    .body_size = (size_t)size - CAIRN_LOG_RECORD_HEADER,
	};
	return true;
}

bool cairn_log_record_check(
    const struct cairn_log_record *record, const struct cairn_log_place *place)
{
	return cairn_checksum(record->body, record->body_size, ~place_seed(place)) ==
	       record->body_checksum;
}

/* Operations. */

size_t cairn_log_operation_size(const struct cairn_record *operation)
{
	size_t size =
	    1 + cairn_varint_size((uint32_t)operation->key.size) + 4 + operation->key.size;
	if (operation->kind == CAIRN_KIND_PUT)
		size += cairn_varint_size((uint32_t)operation->value.size) + operation->value.size;
	return size;
}

static uint8_t *put_slice(uint8_t *next, cairn_slice slice)
{
	if (slice.size)
		memcpy(next, slice.data, slice.size);
	return next + slice.size;
}

uint8_t *cairn_log_operation_put(uint8_t *next, const struct cairn_record *operation)
{
	*next++ = (uint8_t)operation->kind;
	next = cairn_varint_put(next, (uint32_t)operation->key.size);
	if (operation->kind == CAIRN_KIND_PUT)
		next = cairn_varint_put(next, (uint32_t)operation->value.size);
	cairn_put32(next, operation->checksum);
	next = put_slice(next + 4, operation->key);
	if (operation->kind == CAIRN_KIND_PUT)
		next = put_slice(next, operation->value);
	return next;
}

int cairn_log_operation_next(struct cairn_input *body, struct cairn_record *operation)
{
	*operation = (struct cairn_record){0};
	size_t left = cairn_input_left(body);
	if (left < 8 && all_zeros(body->next, left))
		return CAIRN_END;
	uint8_t kind = cairn_input8(body);
	if (kind != CAIRN_KIND_PUT && kind != CAIRN_KIND_DELETE)
		return CAIRN_CORRUPT;
	size_t key_size = cairn_input_varint(body);
	size_t value_size = kind == CAIRN_KIND_PUT ? cairn_input_varint(body) : 0;
	uint32_t checksum = cairn_input32(body);
	const uint8_t *key = cairn_input_bytes(body, key_size);
	const uint8_t *value = cairn_input_bytes(body, value_size);
	if (body->bad || key_size > CAIRN_KEY_MAX || value_size > CAIRN_VALUE_MAX)
		return CAIRN_CORRUPT;
	operation->key = cairn_slice_of(key, key_size);
	operation->value = cairn_slice_of(value, value_size);
	operation->checksum = checksum;
	operation->kind = (enum cairn_kind)kind;
	return 0;
}
