/*
 * tests/forge.c -- see forge.h.
 */
#include "tests/forge.h"

#include "format/bytes.h"
#include "format/checksum.h"

#define HEADER_SIZE   128u
#define FOOTER_SIZE   512u
#define EXTENTS_AT    96u
#define EXTENT_SIZE   24u
#define EXTENTS       12u
#define SECTION_POINT 4u

/* That of a section or a frame of which it is the last 4 bytes. */
static void forge_last(uint8_t *bytes, size_t size)
{
	cairn_put32(bytes + size - 4, cairn_checksum(bytes, size - 4, 0));
}

/* Those of the pages; returns that of the whole. */
static uint32_t forge_point_index(uint8_t *data, size_t size)
{
	if (size < 64)
		return 0;
	size_t used = 64 + 64 * (size_t)cairn_get32(data + 8), pages = (used + 4095) / 4096;
	if (used > size || size - used != 4 * pages)
		return 0;
	for (size_t i = 0; i < pages; i++) {
		size_t left = used - 4096 * i;
		cairn_put32(data + used + 4 * i,
		    cairn_checksum(data + 4096 * i, left < 4096 ? left : 4096, i));
	}
	return cairn_checksum(data + used, 4 * pages, cairn_hash(data, 64, 0));
}

void forge_run(uint8_t *data, size_t size)
{
	uint8_t *footer = data + size - FOOTER_SIZE;
	for (unsigned i = 0; i < EXTENTS; i++) {
		uint8_t *extent = footer + EXTENTS_AT + (size_t)i * EXTENT_SIZE;
		uint64_t offset = cairn_get64(extent + 8), length = cairn_get64(extent + 16);
		uint32_t section = cairn_get32(extent);
		uint64_t most = size - FOOTER_SIZE;
		if (section <= 1 || offset > most || length > most - offset)
			continue;
		cairn_put32(extent + 4, section == SECTION_POINT
					    ? forge_point_index(data + offset, (size_t)length)
					    : cairn_checksum(data + offset, (size_t)length, 0));
	}
	forge_last(footer, FOOTER_SIZE);
	forge_last(data, HEADER_SIZE);
}
