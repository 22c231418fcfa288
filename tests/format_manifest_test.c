/*
 * The bytes of a manifest, what damage does to them, and what is left in the directory when a call
 * fails half-way through the replacement.
 */
#include "tests/test.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/checksum.h"
#include "format/error.h"
#include "format/manifest.h"
#include "store/io_posix.h"

/* ---------------------------------------------------------------- makings */

static uint64_t seed_state;

static uint64_t draw(uint64_t below)
{
	return test_random(&seed_state) % below;
}

/* Numbers count upwards from 1 with gaps: no two are the same, and next_number ends up above them
 * all. */
static void fill_run(struct cairn_manifest_run *run, uint64_t *next)
{
	run->file_count = 1 + draw(4);
	run->files = calloc(run->file_count, sizeof *run->files);
	assert_non_null(run->files);
	run->rent = test_random(&seed_state);
	run->dead_bytes = test_random(&seed_state);
	for (size_t i = 0; i < run->file_count; i++) {
		run->files[i].number = *next;
		run->files[i].size = test_random(&seed_state);
		run->files[i].footer_checksum = (uint32_t)test_random(&seed_state);
		*next += 1 + draw(5);
	}
	if (draw(2)) {
		run->index.number = (*next)++;
		run->index.size = test_random(&seed_state);
		run->index.checksum = (uint32_t)test_random(&seed_state);
	}
}

static struct cairn_manifest make_manifest(size_t runs)
{
	struct cairn_manifest m = {0};
	uint64_t next = 1 + draw(9);
	for (size_t i = 0; i < sizeof m.identity.store_id; i++)
		m.identity.store_id[i] = (uint8_t)draw(256);
	m.identity.hash_seed = test_random(&seed_state);
	m.generation = test_random(&seed_state);
	m.run_format = (uint32_t)(2 + draw(2));
	m.compression = (uint32_t)(1 + draw(2));
	m.point_index = (uint32_t)(1 + draw(2));
	m.flushed_sequence = test_random(&seed_state);
	m.log_number = draw(2) ? next++ : 0;
	m.log_salt = test_random(&seed_state);
	m.log_ordinal = test_random(&seed_state);
	m.log_position = test_random(&seed_state);
	m.log_durable = test_random(&seed_state);
	m.log_bytes_written = test_random(&seed_state);
	m.flush_bytes_written = test_random(&seed_state);
	m.merge_bytes_written = test_random(&seed_state);
	m.runs = runs ? calloc(runs, sizeof *m.runs) : NULL;
	m.run_count = runs;
	for (size_t i = 0; i < runs; i++)
		fill_run(&m.runs[i], &next);
	m.next_number = next;
	return m;
}

static void assert_same_run(const struct cairn_manifest_run *a, const struct cairn_manifest_run *b)
{
	assert_int_equal(a->file_count, b->file_count);
	assert_int_equal(a->rent, b->rent);
	assert_int_equal(a->dead_bytes, b->dead_bytes);
	assert_int_equal(a->index.number, b->index.number);
	assert_int_equal(a->index.size, b->index.size);
	assert_int_equal(a->index.checksum, b->index.checksum);
	for (size_t i = 0; i < a->file_count; i++) {
		assert_int_equal(a->files[i].number, b->files[i].number);
		assert_int_equal(a->files[i].size, b->files[i].size);
		assert_int_equal(a->files[i].footer_checksum, b->files[i].footer_checksum);
	}
}

static void assert_same(const struct cairn_manifest *a, const struct cairn_manifest *b)
{
	assert_memory_equal(a->identity.store_id, b->identity.store_id, 16);
	assert_int_equal(a->identity.hash_seed, b->identity.hash_seed);
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->next_number, b->next_number);
	assert_int_equal(a->run_format, b->run_format);
	assert_int_equal(a->compression, b->compression);
	assert_int_equal(a->point_index, b->point_index);
	assert_int_equal(a->flushed_sequence, b->flushed_sequence);
	assert_int_equal(a->log_number, b->log_number);
	assert_int_equal(a->log_salt, b->log_salt);
	assert_int_equal(a->log_ordinal, b->log_ordinal);
	assert_int_equal(a->log_position, b->log_position);
	assert_int_equal(a->log_durable, b->log_durable);
	assert_int_equal(a->log_bytes_written, b->log_bytes_written);
	assert_int_equal(a->flush_bytes_written, b->flush_bytes_written);
	assert_int_equal(a->merge_bytes_written, b->merge_bytes_written);
	assert_int_equal(a->run_count, b->run_count);
	for (size_t i = 0; i < a->run_count; i++)
		assert_same_run(&a->runs[i], &b->runs[i]);
}

static struct cairn_buffer encode(const struct cairn_manifest *m)
{
	struct cairn_buffer bytes = {0};
	assert_int_equal(cairn_manifest_encode(m, &bytes), 0);
	return bytes;
}

/* Little-endian, one byte at a time. */
static void poke(uint8_t *p, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

/* The bytes are made consistent again, so that what lies behind the checksum is looked at. */
static void seal(struct cairn_buffer *bytes)
{
	poke(bytes->data + 16, bytes->size, 8);
	poke(bytes->data + bytes->size - 4, (uint32_t)XXH3_64bits(bytes->data, bytes->size - 4), 4);
}

static void assert_refused(const struct cairn_buffer *bytes, int code, const char *words)
{
	struct cairn_manifest m;
	memset(&m, 0xff, sizeof m);
	assert_int_equal(
	    cairn_manifest_decode(&m, bytes->data, bytes->size, "some/MANIFEST"), code);
	static const struct cairn_manifest nothing;
	assert_memory_equal(&m, &nothing, sizeof m);
	assert_non_null(strstr(cairn_error_text(), "some/MANIFEST: at offset "));
	if (!strstr(cairn_error_text(), words))
		fail_msg("\"%s\" is not in \"%s\"", words, cairn_error_text());
}

/* ---------------------------------------------------------------- bytes */

static void what_is_encoded_is_decoded(void **state)
{
	(void)state;
	for (size_t i = 0; i < 200; i++) {
		struct cairn_manifest made = make_manifest(i % 20), found;
		struct cairn_buffer bytes = encode(&made);
		assert_int_equal(
		    cairn_manifest_decode(&found, bytes.data, bytes.size, "MANIFEST"), 0);
		assert_same(&made, &found);
		cairn_manifest_release(&found);
		cairn_manifest_release(&made);
		cairn_buffer_release(&bytes);
	}
}

static void encoding_appends(void **state)
{
	(void)state;
	struct cairn_manifest made = make_manifest(2);
	struct cairn_buffer alone = encode(&made), behind = {0};
	assert_int_equal(cairn_buffer_append(&behind, "before", 6), 0);
	assert_int_equal(cairn_manifest_encode(&made, &behind), 0);
	assert_int_equal(behind.size, 6 + alone.size);
	assert_memory_equal(behind.data, "before", 6);
	assert_memory_equal(behind.data + 6, alone.data, alone.size);
	cairn_buffer_release(&alone);
	cairn_buffer_release(&behind);
	cairn_manifest_release(&made);
}

/* Written down by hand from the table at the top of format/manifest.c. */
static const uint8_t known_bytes[] = {
    'c', 'a', 'i', 'r', 'n', '.', 'm', 'f', 1, 0, 0, 0, 0, 0, 0, 0, /* magic, version, zeros */
    248, 0, 0, 0, 0, 0, 0, 0,                                       /* size */
    0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,                 /* store id */
    0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,                 /* */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,                 /* hash seed */
    9, 0, 0, 0, 0, 0, 0, 0,                                         /* generation */
    0, 1, 0, 0, 0, 0, 0, 0,                                         /* next number */
    2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0,                             /* choices */
    1, 0, 0, 0,                                                     /* runs */
    0x39, 0x30, 0, 0, 0, 0, 0, 0,                                   /* flushed sequence */
    7, 0, 0, 0, 0, 0, 0, 0,                                         /* log: number */
    8, 0, 0, 0, 0, 0, 0, 0x80,                                      /* salt */
    3, 0, 0, 0, 0, 0, 0, 0,                                         /* ordinal */
    4, 0, 0, 0, 0, 0, 0, 0,                                         /* position */
    5, 0, 0, 0, 0, 0, 0, 0,                                         /* durable */
    0x11, 0, 0, 0, 0, 0, 0, 0,                                      /* written: log */
    0x12, 0, 0, 0, 0, 0, 0, 0,                                      /* flush */
    0x13, 0, 0, 0, 0, 0, 0, 0,                                      /* merge */
    2, 0, 0, 0, 0x31, 0, 0, 0,                                      /* run: files, checksum */
    0x21, 0, 0, 0, 0, 0, 0, 0,                                      /* rent */
    0x22, 0, 0, 0, 0, 0, 0, 0,                                      /* dead bytes */
    0xfd, 0, 0, 0, 0, 0, 0, 0,                                      /* index: number */
    0x32, 0, 0, 0, 0, 0, 0, 0,                                      /* size */
    0xfe, 0, 0, 0, 0, 0, 0, 0,                                      /* number */
    0, 0, 0, 0, 1, 0, 0, 0,                                         /* size */
    0xef, 0xbe, 0xad, 0xde, 0, 0, 0, 0,                             /* checksum, zeros */
    0xff, 0, 0, 0, 0, 0, 0, 0,                                      /* number */
    0, 2, 0, 0, 0, 0, 0, 0,                                         /* size */
    1, 0, 0, 0, 0, 0, 0, 0,                                         /* checksum, zeros */
    0, 0, 0, 0,                                                     /* zeros */
};

static void the_bytes_are_those_of_the_table(void **state)
{
	(void)state;
	struct cairn_manifest_file files[] = {{254, UINT64_C(1) << 32, 0xdeadbeef}, {255, 512, 1}};
	struct cairn_manifest_run run = {files, 2, 0x21, 0x22, {0xfd, 0x32, 0x31}};
	struct cairn_manifest m = {
	    .identity.hash_seed = UINT64_C(0x1122334455667788),
	    .generation = 9,
	    .next_number = 256,
	    .run_format = CAIRN_KV02,
	    .compression = CAIRN_NO_COMPRESSION,
	    .point_index = CAIRN_NO_POINT_INDEX,
	    .flushed_sequence = 12345,
	    .log_number = 7,
	    .log_salt = UINT64_C(0x8000000000000008),
	    .log_ordinal = 3,
	    .log_position = 4,
	    .log_durable = 5,
	    .log_bytes_written = 0x11,
	    .flush_bytes_written = 0x12,
	    .merge_bytes_written = 0x13,
	    .runs = &run,
	    .run_count = 1,
	};
	for (int i = 0; i < 16; i++)
		m.identity.store_id[i] = (uint8_t)(0xa0 + i);
	struct cairn_buffer bytes = encode(&m);
	assert_int_equal(bytes.size, sizeof known_bytes + 4);
	assert_memory_equal(bytes.data, known_bytes, sizeof known_bytes);
	uint8_t checksum[4];
	poke(checksum, XXH3_64bits(known_bytes, sizeof known_bytes), 4);
	assert_memory_equal(bytes.data + sizeof known_bytes, checksum, 4);
	cairn_buffer_release(&bytes);
}

/* ---------------------------------------------------------------- damage */

static void every_flipped_byte_is_found(void **state)
{
	(void)state;
	struct cairn_manifest made = make_manifest(3);
	struct cairn_buffer bytes = encode(&made);
	for (size_t i = 0; i < bytes.size; i++) {
		uint8_t flip = (uint8_t)(1 + draw(255));
		bytes.data[i] ^= flip;
		assert_refused(&bytes, CAIRN_CORRUPT, "");
		bytes.data[i] ^= flip;
	}
	cairn_buffer_release(&bytes);
	cairn_manifest_release(&made);
}

static void every_truncation_is_found(void **state)
{
	(void)state;
	struct cairn_manifest made = make_manifest(3);
	struct cairn_buffer bytes = encode(&made);
	for (size_t size = 0; size < bytes.size; size++) {
		/* A copy of just that size: reading beyond it is seen. */
		struct cairn_buffer cut = {malloc(size ? size : 1), size, size};
		assert_non_null(cut.data);
		memcpy(cut.data, bytes.data, size);
		assert_refused(&cut, CAIRN_CORRUPT, "");
		if (size >= 28) {
			seal(&cut);
			assert_refused(&cut, CAIRN_CORRUPT, "");
		}
		free(cut.data);
	}
	assert_int_equal(cairn_buffer_append(&bytes, NULL, 8), 0);
	assert_refused(&bytes, CAIRN_CORRUPT, "has");
	seal(&bytes);
	assert_refused(&bytes, CAIRN_CORRUPT, "behind the last run");
	cairn_buffer_release(&bytes);
	cairn_manifest_release(&made);
}

/* Content that checks out and is nonsense: whatever is answered, sanitizers have nothing to say. */
static void sealed_nonsense_does_no_harm(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct cairn_manifest made = make_manifest(draw(4)), found;
		struct cairn_buffer bytes = encode(&made);
		for (uint64_t flips = 1 + draw(3); flips > 0; flips--)
			bytes.data[24 + draw(bytes.size - 28)] = (uint8_t)draw(256);
		seal(&bytes);
		int rc = cairn_manifest_decode(&found, bytes.data, bytes.size, "MANIFEST");
		if (rc == 0) {
			struct cairn_buffer again = encode(&found);
			assert_int_equal(again.size, bytes.size);
			assert_memory_equal(again.data, bytes.data, bytes.size);
			cairn_buffer_release(&again);
		} else {
			assert_true(rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
		}
		cairn_manifest_release(&found);
		cairn_manifest_release(&made);
		cairn_buffer_release(&bytes);
	}
}

struct edit {
	size_t offset;
	uint64_t value;
	int size;
	int code;
	const char *words;
};

static void what_cannot_be_is_named(void **state)
{
	(void)state;
	static const struct edit edits[] = {
	    {8, 2, 4, CAIRN_UNSUPPORTED, "version 2; this cairn reads version 1"},
	    {12, 1, 4, CAIRN_CORRUPT, "offset 12: padding"},
	    {64, 1, 4, CAIRN_UNSUPPORTED, "offset 64: run format 1"},
	    {64, 4, 4, CAIRN_UNSUPPORTED, "offset 64: run format 4"},
	    {68, 0, 4, CAIRN_UNSUPPORTED, "offset 68: compression 0"},
	    {72, 3, 4, CAIRN_UNSUPPORTED, "offset 72: point index choice 3"},
	    {76, 2, 4, CAIRN_CORRUPT, "offset 76: 2 runs"},
	    {76, 0, 4, CAIRN_CORRUPT, "offset 152: 88 bytes behind"},
	    {76, 0xffffffff, 4, CAIRN_CORRUPT, "runs cannot be"},
	    {88, 256, 8, CAIRN_CORRUPT, "offset 88: file number 256"},
	    {152, 0, 4, CAIRN_CORRUPT, "offset 152: a run of 0 files"},
	    {152, 1, 4, CAIRN_CORRUPT, "offset 216: 24 bytes behind"},
	    {152, 3, 4, CAIRN_CORRUPT, "offset 152: a run of 3 files"},
	    {152, 0xffffffff, 4, CAIRN_CORRUPT, "files cannot be"},
	    {176, 0, 8, CAIRN_CORRUPT, "offset 152: an index without a number"},
	    {176, 254, 8, CAIRN_CORRUPT, "offset 192: file number 254 stands at offset 176"},
	    {176, 256, 8, CAIRN_CORRUPT, "offset 176: file number 256"},
	    {192, 0, 8, CAIRN_CORRUPT, "offset 192: file number 0"},
	    {192, 7, 8, CAIRN_CORRUPT, "offset 192: file number 7 stands at offset 88"},
	    {216, 254, 8, CAIRN_CORRUPT, "offset 216: file number 254 stands at offset 192"},
	    {216, 256, 8, CAIRN_CORRUPT, "offset 216: file number 256"},
	    {236, 1, 4, CAIRN_CORRUPT, "offset 236: padding"},
	    {240, 1, 4, CAIRN_CORRUPT, "offset 240: padding"},
	};
	for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
		struct cairn_buffer bytes = {0};
		assert_int_equal(cairn_buffer_append(&bytes, known_bytes, sizeof known_bytes), 0);
		assert_int_equal(cairn_buffer_append(&bytes, NULL, 4), 0);
		poke(bytes.data + edits[i].offset, edits[i].value, edits[i].size);
		seal(&bytes);
		assert_refused(&bytes, edits[i].code, edits[i].words);
		cairn_buffer_release(&bytes);
	}
}

/* ---------------------------------------------------------------- the file */

/*
 * The POSIX back end with a counter in front of the calls that change something: the call number
 * `fail_at` does not happen and fails with -EIO. Any call of `refuse_link` fails with -EPERM.
 */
static struct cairn_io_ops failing_ops;
static struct cairn_io failing_io = {&failing_ops};
static unsigned calls, fail_at;
static bool refuse_link;

static int fails(void)
{
	return ++calls == fail_at ? cairn_error(-EIO, "made to fail") : 0;
}

static int failing_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	*file = NULL;
	return fails() ? -EIO : cairn_io_posix_ops.open(io, path, mode, file);
}

static int failing_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	if (fails()) {
		cairn_io_posix_ops.write(file, data, size / 2, offset);
		return -EIO;
	}
	return cairn_io_posix_ops.write(file, data, size, offset);
}

static int failing_sync(struct cairn_file *file)
{
	return fails() ? -EIO : cairn_io_posix_ops.sync(file);
}

static int failing_rename(struct cairn_io *io, const char *from, const char *to)
{
	return fails() ? -EIO : cairn_io_posix_ops.rename(io, from, to);
}

static int failing_link(struct cairn_io *io, const char *from, const char *to)
{
	if (refuse_link)
		return cairn_error(-EPERM, "no links here");
	return fails() ? -EIO : cairn_io_posix_ops.link(io, from, to);
}

static int failing_unlink(struct cairn_io *io, const char *path)
{
	return fails() ? -EIO : cairn_io_posix_ops.unlink(io, path);
}

static int failing_sync_directory(struct cairn_io *io, const char *path)
{
	return fails() ? -EIO : cairn_io_posix_ops.sync_directory(io, path);
}

static void arm(unsigned at)
{
	failing_ops = cairn_io_posix_ops;
	failing_ops.open = failing_open;
	failing_ops.write = failing_write;
	failing_ops.sync = failing_sync;
	failing_ops.rename = failing_rename;
	failing_ops.link = failing_link;
	failing_ops.unlink = failing_unlink;
	failing_ops.sync_directory = failing_sync_directory;
	calls = 0;
	fail_at = at;
}

struct place {
	struct cairn_io *io;
	char *directory;
	struct cairn_manifest made[3];
};

static int place_set_up(void **state)
{
	struct place *place = calloc(1, sizeof *place);
	assert_non_null(place);
	assert_int_equal(cairn_io_posix_open(&place->io), 0);
	place->directory = test_directory();
	for (size_t i = 0; i < 3; i++)
		place->made[i] = make_manifest(1 + i);
	refuse_link = false;
	*state = place;
	return 0;
}

static int place_tear_down(void **state)
{
	struct place *place = *state;
	for (size_t i = 0; i < 3; i++)
		cairn_manifest_release(&place->made[i]);
	test_remove_directory(place->directory);
	cairn_io_posix_close(place->io);
	free(place);
	return 0;
}

static void path_of(const struct place *place, const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", place->directory, name);
}

static bool is_there(const struct place *place, const char *name)
{
	char path[4200];
	path_of(place, name, path, sizeof path);
	return access(path, F_OK) == 0;
}

static void remove_name(const struct place *place, const char *name)
{
	char path[4200];
	path_of(place, name, path, sizeof path);
	unlink(path);
}

static void assert_current(const struct place *place, const struct cairn_manifest *expected)
{
	struct cairn_manifest found;
	assert_int_equal(cairn_manifest_load(place->io, place->directory, &found), 0);
	assert_same(expected, &found);
	cairn_manifest_release(&found);
}

/* The file is what the manifest encodes to; read without the code under test. */
static void assert_file_is(
    const struct place *place, const char *name, const struct cairn_manifest *expected)
{
	char path[4200];
	path_of(place, name, path, sizeof path);
	struct cairn_buffer bytes = encode(expected);
	uint8_t *found = malloc(bytes.size + 1);
	FILE *file = fopen(path, "rb");
	assert_non_null(found);
	assert_non_null(file);
	assert_int_equal(fread(found, 1, bytes.size + 1, file), bytes.size);
	assert_memory_equal(found, bytes.data, bytes.size);
	fclose(file);
	free(found);
	cairn_buffer_release(&bytes);
}

static void store(const struct place *place, size_t i)
{
	bool renamed = false;
	assert_int_equal(
	    cairn_manifest_store(place->io, place->directory, &place->made[i], &renamed), 0);
	assert_true(renamed);
}

static void what_is_stored_is_loaded(void **state)
{
	struct place *place = *state;
	for (size_t i = 0; i < 3; i++) {
		store(place, i);
		assert_current(place, &place->made[i]);
		assert_false(is_there(place, "MANIFEST.tmp"));
		assert_false(is_there(place, "MANIFEST.old.tmp"));
		if (i > 0)
			assert_file_is(place, "MANIFEST.old", &place->made[i - 1]);
		else
			assert_false(is_there(place, "MANIFEST.old"));
	}
}

static void a_missing_manifest_is_enoent(void **state)
{
	struct place *place = *state;
	struct cairn_manifest m = {.run_count = 7};
	assert_int_equal(cairn_manifest_load(place->io, place->directory, &m), -ENOENT);
	assert_int_equal(m.run_count, 0);
}

static void a_damaged_file_is_refused_by_name(void **state)
{
	struct place *place = *state;
	char path[4200];
	store(place, 0);
	path_of(place, "MANIFEST", path, sizeof path);
	static const off_t sizes[] = {0, 10, 23, 24, 100, 100000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct cairn_manifest m;
		assert_int_equal(truncate(path, sizes[i]), 0);
		assert_int_equal(
		    cairn_manifest_load(place->io, place->directory, &m), CAIRN_CORRUPT);
		assert_int_equal(m.run_count, 0);
		assert_non_null(strstr(cairn_error_text(), path));
	}
}

static void what_could_not_be_read_is_not_published(void **state)
{
	struct place *place = *state;
	bool renamed = true;
	store(place, 0);
	uint64_t number = place->made[1].runs[0].files[0].number;
	place->made[1].runs[0].files[0].number = place->made[1].next_number;
	assert_int_equal(
	    cairn_manifest_store(place->io, place->directory, &place->made[1], &renamed),
	    CAIRN_CORRUPT);
	assert_false(renamed);
	assert_current(place, &place->made[0]);
	place->made[1].runs[0].files[0].number = number;
	store(place, 1);
}

static void leftovers_of_a_crash_are_no_obstacle(void **state)
{
	struct place *place = *state;
	static const char *const names[] = {"MANIFEST.tmp", "MANIFEST.old.tmp"};
	store(place, 0);
	for (size_t i = 0; i < 2; i++) {
		char path[4200];
		path_of(place, names[i], path, sizeof path);
		FILE *file = fopen(path, "wb");
		assert_non_null(file);
		assert_true(fputs("half of something that is longer than a manifest", file) >= 0);
		fclose(file);
	}
	store(place, 1);
	assert_current(place, &place->made[1]);
	assert_file_is(place, "MANIFEST.old", &place->made[0]);
	for (size_t i = 0; i < 2; i++)
		assert_false(is_there(place, names[i]));
}

/* A crash behind the link: both names are one file, and renaming one over the other does nothing.
 */
static void an_old_one_that_is_the_current_one_is_no_obstacle(void **state)
{
	struct place *place = *state;
	char current[4200], old[4200];
	store(place, 0);
	path_of(place, "MANIFEST", current, sizeof current);
	path_of(place, "MANIFEST.old", old, sizeof old);
	assert_int_equal(link(current, old), 0);
	store(place, 1);
	assert_file_is(place, "MANIFEST.old", &place->made[0]);
	assert_false(is_there(place, "MANIFEST.old.tmp"));
}

static void a_refused_link_is_ordinary(void **state)
{
	struct place *place = *state;
	bool renamed = false;
	store(place, 0);
	arm(0);
	refuse_link = true;
	assert_int_equal(
	    cairn_manifest_store(&failing_io, place->directory, &place->made[1], &renamed), 0);
	assert_true(renamed);
	assert_current(place, &place->made[1]);
	assert_false(is_there(place, "MANIFEST.old"));
}

/* What is there after the call number `at` failed: the old one or the new one, as `renamed` says.
 */
static int store_with_failure(struct place *place, unsigned at)
{
	bool renamed = at % 2;
	static const char *const names[] = {"MANIFEST.old", "MANIFEST.tmp", "MANIFEST.old.tmp"};
	for (size_t i = 0; i < 3; i++)
		remove_name(place, names[i]);
	store(place, 0);
	store(place, 1);
	arm(at);
	int rc = cairn_manifest_store(&failing_io, place->directory, &place->made[2], &renamed);
	assert_true(rc == 0 || rc == -EIO);
	if (rc == -EIO)
		assert_string_equal(cairn_error_text(), "made to fail");
	else
		assert_true(renamed);
	assert_current(place, &place->made[renamed ? 2 : 1]);
	assert_true(is_there(place, "MANIFEST.old"));
	return rc;
}

static void a_failure_leaves_the_old_or_the_new_and_says_which(void **state)
{
	struct place *place = *state;
	unsigned failed = 0, at = 1;
	int last = 0;
	for (;; at++) {
		int rc = store_with_failure(place, at);
		if (calls < at)
			break;
		failed += rc < 0;
		last = rc;
		/* And the next one goes through, whatever the failed one left. */
		store(place, 0);
		assert_current(place, &place->made[0]);
		assert_false(is_there(place, "MANIFEST.tmp"));
		assert_false(is_there(place, "MANIFEST.old.tmp"));
	}
	/* open, write, sync, rename, directory sync must not be survived, the last of them behind
	 * the rename. */
	assert_int_equal(failed, 5);
	assert_int_equal(last, -EIO);
	assert_int_equal(at, 11);
}

int main(void)
{
	seed_state = test_seed(20260101);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_encoded_is_decoded),
	    cmocka_unit_test(encoding_appends),
	    cmocka_unit_test(the_bytes_are_those_of_the_table),
	    cmocka_unit_test(every_flipped_byte_is_found),
	    cmocka_unit_test(every_truncation_is_found),
	    cmocka_unit_test(sealed_nonsense_does_no_harm),
	    cmocka_unit_test(what_cannot_be_is_named),
#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, place_set_up, place_tear_down)
	    IN_A_PLACE(what_is_stored_is_loaded),
	    IN_A_PLACE(a_missing_manifest_is_enoent),
	    IN_A_PLACE(a_damaged_file_is_refused_by_name),
	    IN_A_PLACE(what_could_not_be_read_is_not_published),
	    IN_A_PLACE(leftovers_of_a_crash_are_no_obstacle),
	    IN_A_PLACE(an_old_one_that_is_the_current_one_is_no_obstacle),
	    IN_A_PLACE(a_refused_link_is_ordinary),
	    IN_A_PLACE(a_failure_leaves_the_old_or_the_new_and_says_which),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
