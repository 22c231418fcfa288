/*
 * format/fraction.c -- fractional indexes: header, opening, reading in order.
 *
 * What is believed when. The header by its checksum, which the manifest names; V by its own, and by
 * being decoded once: monotone, and ending where the run ends. Words have a checksum that is left
 * to whoever is about to search in them, since they are the bulk of the file.
 */
#include "format/fraction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/elias_fano.h"
#include "format/error.h"
#include "format/run_inside.h"

#define MAGIC_SIZE      8u
#define HEADER_CHECKSUM 124u
#define BLOCKS_MAX      (UINT64_C(1) << 31) /* more than any file has */
#define ADVICE          "it is rebuilt when the store is open for writing"

_Static_assert(HEADER_CHECKSUM + 4 == CAIRN_FRACTION_HEADER_SIZE, "the header's table adds up");

static const char magic[MAGIC_SIZE + 1] = "cairn.ix";

struct cairn_fraction_base cairn_fraction_base_of(const struct cairn_run_reader *run)
{
	const struct cairn_run_footer *footer = cairn_run_footer(run);
	return (struct cairn_fraction_base){
	    footer->number, footer->records, footer->blocks, footer->checksum};
}

static bool base_equal(const struct cairn_fraction_base *a, const struct cairn_fraction_base *b)
{
	return a->number == b->number && a->records == b->records && a->blocks == b->blocks &&
	       a->footer_checksum == b->footer_checksum;
}

static void put_base(uint8_t *bytes, const struct cairn_fraction_base *base, uint32_t checksum)
{
	cairn_put64(bytes, base->number);
	cairn_put64(bytes + 8, base->records);
	cairn_put64(bytes + 16, base->blocks);
	cairn_put32(bytes + 24, base->footer_checksum);
	cairn_put32(bytes + 28, checksum);
}

uint32_t cairn_fraction_header_encode(const struct cairn_fraction *fraction, uint8_t *bytes)
{
	memset(bytes, 0, CAIRN_FRACTION_HEADER_SIZE);
	memcpy(bytes, magic, MAGIC_SIZE);
	cairn_put32(bytes + MAGIC_SIZE, CAIRN_FRACTION_VERSION);
	bytes[12] = (uint8_t)fraction->level;
	bytes[13] = (uint8_t)fraction->offset_bits;
	bytes[14] = (uint8_t)fraction->first_edge;
	bytes[15] = (uint8_t)fraction->last_edge;
	bytes[16] = (uint8_t)fraction->low_bits;
	memcpy(bytes + 24, fraction->identity.store_id, sizeof fraction->identity.store_id);
	cairn_put64(bytes + 40, fraction->identity.hash_seed);
	cairn_put64(bytes + 48, fraction->number);
	put_base(bytes + 56, &fraction->run, fraction->places_checksum);
	put_base(bytes + 88, &fraction->anchor, fraction->words_checksum);
	uint32_t checksum = cairn_checksum(bytes, HEADER_CHECKSUM, 0);
	cairn_put32(bytes + HEADER_CHECKSUM, checksum);
	return checksum;
}

static int damaged(const struct cairn_fraction *fraction, uint64_t offset, const char *what)
{
	return cairn_error_at(CAIRN_CORRUPT, fraction->path, offset, "%s; " ADVICE, what);
}

static int map_file(struct cairn_fraction *fraction, const struct cairn_fraction_file *expect)
{
	const struct cairn_io_ops *ops = fraction->io->ops;
	struct cairn_file *file;
	struct cairn_file_status status;
	int code = ops->open(fraction->io, fraction->path, CAIRN_OPEN_READ, &file);
	if (code != 0)
		return code;
	code = ops->status(file, &status);
	if (code == 0 && expect && status.size != expect->size)
		code = cairn_error_at(CAIRN_CORRUPT, fraction->path, CAIRN_NO_OFFSET,
		    "has %" PRIu64 " bytes, but the manifest says %" PRIu64 "; " ADVICE,
		    status.size, expect->size);
	if (code == 0 && status.size > 0)
		code = ops->map(file, (size_t)status.size, &fraction->map);
	ops->close(file);
	return code;
}

/* Magic, checksum, then version: the order in which they can be believed. */
static int check_frame(const struct cairn_fraction *fraction)
{
	const uint8_t *bytes = fraction->map.data;
	if (memcmp(bytes, magic, MAGIC_SIZE) != 0)
		return damaged(fraction, 0, "expected \"cairn.ix\" here: not a fractional index");
	if (cairn_get32(bytes + HEADER_CHECKSUM) != cairn_checksum(bytes, HEADER_CHECKSUM, 0))
		return damaged(fraction, 0, "the checksum of the header does not match");
	uint32_t version = cairn_get32(bytes + MAGIC_SIZE);
	if (version != CAIRN_FRACTION_VERSION)
		return cairn_error_at(CAIRN_UNSUPPORTED, fraction->path, MAGIC_SIZE,
		    "fractional index version %" PRIu32 "; this cairn reads version %u", version,
		    CAIRN_FRACTION_VERSION);
	return 0;
}

static struct cairn_fraction_base get_base(const uint8_t *bytes, uint32_t *checksum)
{
	*checksum = cairn_get32(bytes + 28);
	return (struct cairn_fraction_base){cairn_get64(bytes), cairn_get64(bytes + 8),
	    cairn_get64(bytes + 16), cairn_get32(bytes + 24)};
}

static bool all_bytes_are(const uint8_t *data, size_t size, uint8_t value)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] != value)
			return false;
	}
	return true;
}

static int read_header(struct cairn_fraction *fraction)
{
	if (fraction->map.size < CAIRN_FRACTION_HEADER_SIZE)
		return damaged(fraction, fraction->map.size,
		    "the file ends here, too short for a fractional index");
	int code = check_frame(fraction);
	if (code != 0)
		return code;
	const uint8_t *bytes = fraction->map.data;
	fraction->level = bytes[12];
	fraction->offset_bits = bytes[13];
	fraction->first_edge = bytes[14];
	fraction->last_edge = bytes[15];
	fraction->low_bits = bytes[16];
	memcpy(fraction->identity.store_id, bytes + 24, sizeof fraction->identity.store_id);
	fraction->identity.hash_seed = cairn_get64(bytes + 40);
	fraction->number = cairn_get64(bytes + 48);
	fraction->run = get_base(bytes + 56, &fraction->places_checksum);
	fraction->anchor = get_base(bytes + 88, &fraction->words_checksum);
	bool zeros = all_bytes_are(bytes + 17, 7, 0) && all_bytes_are(bytes + 120, 4, 0);
	if (!zeros || fraction->level == 0 || fraction->level > CAIRN_SEEK_LEVELS_MAX ||
	    fraction->offset_bits > 32 || fraction->run.blocks == 0 ||
	    fraction->run.blocks >= BLOCKS_MAX || fraction->anchor.blocks == 0 ||
	    fraction->anchor.blocks >= BLOCKS_MAX)
		return damaged(fraction, 0, "the header says what no header can say");
	return 0;
}

/* What the file was found beside must be what it was built on. */
static int check_base(const struct cairn_fraction *fraction, const char *what,
    const struct cairn_fraction_base *built_on, const struct cairn_run_reader *run)
{
	if (!run)
		return 0;
	struct cairn_fraction_base here = cairn_fraction_base_of(run);
	if (base_equal(built_on, &here))
		return 0;
	return cairn_error_at(CAIRN_CORRUPT, fraction->path, CAIRN_NO_OFFSET,
	    "was built on another %s: file %" PRIu64 " with %" PRIu64
	    " records and checksum %08" PRIx32 ", and here is file %" PRIu64 " with %" PRIu64
	    " and %08" PRIx32 "; " ADVICE,
	    what, built_on->number, built_on->records, built_on->footer_checksum, here.number,
	    here.records, here.footer_checksum);
}

static int check_expected(
    const struct cairn_fraction *fraction, const struct cairn_fraction_file *expect)
{
	if (expect && (fraction->number != expect->number ||
			  cairn_get32(fraction->map.data + HEADER_CHECKSUM) != expect->checksum))
		return damaged(fraction, 0, "this is not the index that the manifest names");
	return 0;
}

/* Where words and V are, by the numbers in the header. */
static int find_parts(struct cairn_fraction *fraction)
{
	struct cairn_input in = cairn_input_of(fraction->map.data + CAIRN_FRACTION_HEADER_SIZE,
	    fraction->map.size - CAIRN_FRACTION_HEADER_SIZE);
	uint64_t stride = UINT64_C(1) << 4 * fraction->level;
	fraction->cells = (fraction->anchor.blocks + stride - 1) / stride;
	uint64_t words_size = cairn_fraction_words_size(fraction->run.blocks);
	if (words_size > cairn_input_left(&in))
		return damaged(fraction, fraction->map.size, "the file ends too early");
	fraction->words_size = (size_t)words_size;
	fraction->words = cairn_input_bytes(&in, fraction->words_size);
	fraction->places_size = cairn_input_left(&in);
	fraction->places = cairn_input_bytes(&in, fraction->places_size);
	if (cairn_checksum(fraction->places, fraction->places_size, 0) != fraction->places_checksum)
		return damaged(fraction, CAIRN_FRACTION_HEADER_SIZE + fraction->words_size,
		    "the places of the blocks fail their checksum");
	return 0;
}

static int check_window(void *context, uint64_t cell, uint64_t from, uint64_t to)
{
	(void)context;
	(void)cell;
	(void)from;
	(void)to;
	return 0;
}

int cairn_fraction_open(struct cairn_io *io, const char *path,
    const struct cairn_fraction_file *expect, const struct cairn_identity *identity,
    const struct cairn_run_reader *run, const struct cairn_run_reader *anchor,
    struct cairn_fraction **out)
{
	*out = NULL;
	struct cairn_fraction *fraction = calloc(1, sizeof *fraction);
	char *copy = strdup(path);
	if (!fraction || !copy) {
		free(fraction);
		free(copy);
		return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "not enough memory");
	}
	fraction->io = io;
	fraction->path = copy;
	int code = map_file(fraction, expect);
	if (code == 0)
		code = read_header(fraction);
	if (code == 0 && identity && !cairn_identity_equal(identity, &fraction->identity))
		code = damaged(fraction, 0, "the file belongs to another store");
	if (code == 0)
		code = check_expected(fraction, expect);
	if (code == 0)
		code = check_base(fraction, "run", &fraction->run, run);
	if (code == 0)
		code = check_base(fraction, "anchor", &fraction->anchor, anchor);
	if (code == 0)
		code = find_parts(fraction);
	if (code == 0)
		code = cairn_fraction_windows(fraction, check_window, NULL);
	if (code != 0) {
		cairn_fraction_close(fraction);
		return code;
	}
	*out = fraction;
	return 0;
}

int cairn_fraction_decode(
    const char *path, const uint8_t *bytes, size_t size, struct cairn_fraction *fraction)
{
	*fraction = (struct cairn_fraction){
	    .path = (char *)(uintptr_t)path, .map = {.data = bytes, .size = size}};
	int code = read_header(fraction);
	if (code == 0)
		code = find_parts(fraction);
	return code == 0 ? cairn_fraction_windows(fraction, check_window, NULL) : code;
}

void cairn_fraction_close(struct cairn_fraction *fraction)
{
	if (!fraction)
		return;
	if (fraction->map.data)
		fraction->io->ops->unmap(fraction->io, &fraction->map);
	free(fraction->path);
	free(fraction);
}

/* Whether the words name the blocks that the run has. */
static bool names_blocks_of(
    const struct cairn_fraction *fraction, const struct cairn_run_reader *run)
{
	uint64_t mask = cairn_seek_offset_mask(fraction->offset_bits);
	if (run->seek.offset_bits != fraction->offset_bits ||
	    run->seek.blocks != fraction->run.blocks)
		return false;
	for (uint64_t i = 0; i < fraction->run.blocks; i++) {
		uint64_t offset = (cairn_get64(fraction->words + i * 8) & mask) * 8;
		if (offset != cairn_seek_offset(&run->seek, i))
			return false;
	}
	return true;
}

int cairn_fraction_check_words(
    const struct cairn_fraction *fraction, const struct cairn_run_reader *run)
{
	if (cairn_checksum(fraction->words, fraction->words_size, 0) != fraction->words_checksum)
		return damaged(fraction, CAIRN_FRACTION_HEADER_SIZE,
		    "the heads of the blocks fail their checksum");
	if (run && !names_blocks_of(fraction, run))
		return damaged(fraction, CAIRN_FRACTION_HEADER_SIZE,
		    "the heads are not those of the blocks of the run");
	return 0;
}

static int bad_places(const struct cairn_fraction *fraction)
{
	return damaged(fraction, CAIRN_FRACTION_HEADER_SIZE + fraction->words_size,
	    "the places of the blocks contradict the header");
}

int cairn_fraction_windows(const struct cairn_fraction *fraction,
    int (*each)(void *context, uint64_t cell, uint64_t from, uint64_t to), void *context)
{
	struct cairn_elias_fano_reader reader;
	if (fraction->low_bits > CAIRN_ELIAS_FANO_LOW_MAX ||
	    !cairn_elias_fano_open(&reader, fraction->places, fraction->places_size,
		fraction->cells - 1, fraction->run.blocks, fraction->low_bits))
		return bad_places(fraction);
	uint64_t from = 0;
	for (uint64_t cell = 0; cell < fraction->cells; cell++) {
		uint64_t to = fraction->run.blocks;
		if (cell + 1 < fraction->cells && !cairn_elias_fano_next(&reader, &to))
			return bad_places(fraction);
		int code = each(context, cell, from, to);
		if (code != 0)
			return code;
		from = to;
	}
	return cairn_elias_fano_at_end(&reader) ? 0 : bad_places(fraction);
}
