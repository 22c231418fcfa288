/*
 * tests/wal_log_writer_test.c -- the log writer on the POSIX back end with some of its operations
 * replaced. What it wrote is read back here by a parser of its own.
 */
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/error.h"
#include "format/filename.h"
#include "store/io_posix.h"
#include "wal/log_writer.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static const struct cairn_identity identity = {{1, 2, 3, 4, 5, 6, 7, 8}, 0x5eed};

/* A disk that can be told to misbehave, and that keeps a diary. */

static struct {
	const struct cairn_io_ops *real;
	bool unmapped;
	bool fixed_entropy;
	uint64_t entropy;
	_Atomic uint64_t room;    /* no file gets more blocks than this */
	uint64_t free;            /* said to be free; UINT64_MAX: what is */
	atomic_int good_syncs;    /* after so many syncs of files … */
	atomic_int sync_failures; /* … so many fail */
	int failure;              /* with this code do syncs and writes fail */
	bool fail_write;
	bool fail_rename;
	bool fail_sync_directory;
	int populate_result;
	atomic_uint syncs;
	uint64_t populated_to;
	char diary[8192];
	bool diary_on;
} disk;

static const char *base_name(const char *path)
{
	return strrchr(path, '/') + 1;
}

static void note(const char *what, const char *path)
{
	if (!disk.diary_on)
		return;
	size_t size = strlen(disk.diary);
	snprintf(disk.diary + size, sizeof disk.diary - size, "%s %s\n", what, base_name(path));
}

static int disk_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	note(mode == CAIRN_OPEN_CREATE ? "create" : "open", path);
	return disk.real->open(io, path, mode, file);
}

static int disk_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	note("write", file->path);
	if (disk.fail_write)
		return cairn_error_system(disk.failure, file->path, "pwrite (by the test)");
	return disk.real->write(file, data, size, offset);
}

static int disk_allocate(struct cairn_file *file, uint64_t size)
{
	if (size > disk.room)
		return cairn_error_system(-ENOSPC, file->path, "fallocate (by the test)");
	return disk.real->allocate(file, size);
}

static int disk_sync(struct cairn_file *file)
{
	note("sync", file->path);
	disk.syncs++;
	if (disk.good_syncs > 0) {
		disk.good_syncs--;
	} else if (disk.sync_failures > 0) {
		disk.sync_failures--;
		return cairn_error_system(disk.failure, file->path, "fdatasync (by the test)");
	}
	return disk.real->sync(file);
}

static int disk_map_log(struct cairn_file *file, size_t size, uint8_t **memory)
{
	*memory = NULL;
	return disk.unmapped ? 0 : disk.real->map_log(file, size, memory);
}

static int disk_populate_log(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	if (disk.populate_result)
		return cairn_error_system(disk.populate_result, file->path, "madvise");
	disk.populated_to = offset + size;
	return disk.real->populate_log(file, offset, size);
}

static int disk_rename(struct cairn_io *io, const char *from, const char *to)
{
	note("rename to", to);
	if (disk.fail_rename)
		return cairn_error_system(-EIO, from, "rename (by the test)");
	return disk.real->rename(io, from, to);
}

static int disk_unlink(struct cairn_io *io, const char *path)
{
	note("unlink", path);
	return disk.real->unlink(io, path);
}

static int disk_sync_directory(struct cairn_io *io, const char *path)
{
	note("sync directory", path);
	if (disk.fail_sync_directory)
		return cairn_error_system(-EIO, path, "fsync (by the test)");
	return disk.real->sync_directory(io, path);
}

static int disk_free_space(struct cairn_io *io, const char *path, uint64_t *bytes)
{
	*bytes = disk.free;
	return disk.free == UINT64_MAX ? disk.real->free_space(io, path, bytes) : 0;
}

static int disk_entropy(struct cairn_io *io, void *data, size_t size)
{
	if (!disk.fixed_entropy)
		return disk.real->entropy(io, data, size);
	uint64_t value = test_random(&disk.entropy);
	assert_int_equal(size, sizeof value);
	memcpy(data, &value, sizeof value);
	return 0;
}

/* A log in a directory of its own. */

struct fixture {
	struct cairn_io *io;
	struct cairn_io_ops ops;
	char *directory;
	_Atomic uint64_t next_number;
	struct cairn_log *log;
	uint64_t sequence;
	uint64_t reserve_size;
	bool urgent; /* what is appended is */
	atomic_int wakes;
};

static void wake(void *context)
{
	((struct fixture *)context)->wakes++;
}

static void open_log(struct fixture *f, uint64_t segment_min, uint64_t segment_max, bool far)
{
	struct cairn_log_config config = {
	    .io = f->io,
	    .directory = f->directory,
	    .identity = identity,
	    .segment_min = segment_min,
	    .segment_max = segment_max,
	    .reserve_size = f->reserve_size,
	    .populate_far = far,
	    .next_number = &f->next_number,
	    .wake = wake,
	    .wake_context = f,
	};
	f->sequence = 0;
	assert_int_equal(cairn_log_open(&config, &f->log), 0);
	assert_false(cairn_log_started(f->log));
	assert_int_equal(cairn_log_end(f->log), 0);
}

static void start_log(struct fixture *f, uint64_t segment_min, uint64_t segment_max)
{
	open_log(f, segment_min, segment_max, false);
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	memset(&disk, 0, sizeof disk);
	disk.room = disk.free = UINT64_MAX;
	disk.failure = -EIO;
	assert_int_equal(cairn_io_posix_open(&f->io), 0);
	disk.real = f->io->ops;
	f->ops = *disk.real;
	f->ops.open = disk_open;
	f->ops.write = disk_write;
	f->ops.allocate = disk_allocate;
	f->ops.sync = disk_sync;
	f->ops.map_log = disk_map_log;
	f->ops.populate_log = disk_populate_log;
	f->ops.rename = disk_rename;
	f->ops.unlink = disk_unlink;
	f->ops.sync_directory = disk_sync_directory;
	f->ops.free_space = disk_free_space;
	f->ops.entropy = disk_entropy;
	f->io->ops = &f->ops;
	f->directory = test_directory();
	f->next_number = 1;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	cairn_log_close(f->log, false);
	f->io->ops = disk.real;
	cairn_io_posix_close(f->io);
	test_remove_directory(f->directory);
	free(f);
	return 0;
}

/* The log does not look into bodies: any bytes will do. */
static void fill(uint8_t *body, size_t size, uint64_t sequence)
{
	for (size_t i = 0; i < size; i++)
		body[i] = (uint8_t)(sequence * 31 + i * 7 + 1);
}

static int try_append(struct fixture *f, size_t size, uint64_t *end)
{
	uint8_t *body;
	int rc = cairn_log_reserve(f->log, size, f->sequence, f->urgent, &body);
	*end = 0;
	if (rc < 0) {
		assert_null(body);
		return rc;
	}
	/* Where the padding will be: what the writer finds there must not stay. */
	memset(body, 0xff, (size_t)cairn_log_record_size(size) - CAIRN_LOG_RECORD_HEADER);
	fill(body, size, f->sequence + 1);
	rc = cairn_log_commit(f->log, f->sequence + 1, end);
	if (rc == 0)
		f->sequence++;
	return rc;
}

static uint64_t append(struct fixture *f, size_t size)
{
	uint64_t end;
	assert_int_equal(try_append(f, size, &end), 0);
	assert_int_equal(end, cairn_log_end(f->log));
	return end;
}

/* Appends records of 1,000 bytes until the log has `ordinal` segments. */
static void append_until(struct fixture *f, uint64_t ordinal)
{
	while (cairn_log_position_ordinal(cairn_log_end(f->log)) < ordinal)
		append(f, 1000);
}

/* Files, as somebody else sees them. */

static char *path_of(const struct fixture *f, const char *name)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/%s", f->directory, name);
	return path;
}

static uint64_t file_size(const struct fixture *f, const char *name)
{
	struct stat found;
	return stat(path_of(f, name), &found) ? UINT64_MAX : (uint64_t)found.st_size;
}

static bool exists(const struct fixture *f, const char *name)
{
	return file_size(f, name) != UINT64_MAX;
}

static int count_one(void *context, const char *name)
{
	(void)name;
	++*(int *)context;
	return 0;
}

static int files(const struct fixture *f)
{
	int count = 0;
	assert_int_equal(disk.real->list(f->io, f->directory, count_one, &count), 0);
	return count;
}

static uint8_t *read_file(const struct fixture *f, const char *name, size_t *size)
{
	FILE *file = fopen(path_of(f, name), "rb");
	assert_non_null(file);
	*size = (size_t)file_size(f, name);
	uint8_t *bytes = malloc(*size + 1);
	assert_int_equal(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

/* A parser that owes nothing to format/log_record.c. */

static uint64_t get(const uint8_t *bytes, int size)
{
	uint64_t value = 0;
	for (int i = size - 1; i >= 0; i--)
		value = value << 8 | bytes[i];
	return value;
}

struct parsed {
	uint64_t number, ordinal, salt, previous_number, previous_salt;
	uint64_t link_base, link_end;
	uint64_t end; /* where the records end */
	unsigned writes, marks;
	uint64_t durable; /* D of the last record: (segments back) << 28 | offset / 8 */
};

/* What `fill` made, then fewer than 8 zeros. */
static void parse_body(const uint8_t *bytes, uint64_t size, uint64_t sequence)
{
	uint64_t i = 0;
	while (i < size && bytes[i] == (uint8_t)(sequence * 31 + i * 7 + 1))
		i++;
	assert_true(size - i < 8);
	for (; i < size; i++)
		assert_int_equal(bytes[i], 0);
}

/* Every record of the segment, checked; stops at the first that is none. */
static struct parsed parse(const struct fixture *f, const char *name)
{
	size_t size;
	uint8_t *bytes = read_file(f, name, &size);
	struct parsed p = {0};
	assert_memory_equal(bytes, "CAIRNWAL", 8);
	assert_int_equal(get(bytes + 12, 4), (uint32_t)XXH3_64bits(bytes + 16, 4080));
	assert_memory_equal(bytes + 16, identity.store_id, 16);
	p.number = get(bytes + 48, 8);
	p.ordinal = get(bytes + 56, 8);
	p.salt = get(bytes + 64, 8);
	p.previous_number = get(bytes + 72, 8);
	p.previous_salt = get(bytes + 80, 8);
	p.end = 4096;
	while (p.end + 24 <= size) {
		const uint8_t *record = bytes + p.end;
		uint64_t seed = p.salt + p.end, length = (get(record + 8, 4) & 0xfffffff) * 8;
		if (get(record, 4) != (uint32_t)XXH3_64bits_withSeed(record + 4, 16, seed))
			break;
		assert_true(length >= 24 && p.end + length <= size);
		assert_int_equal(get(record + 4, 4),
		    (uint32_t)XXH3_64bits_withSeed(record + 20, length - 20, ~seed));
		uint64_t type = get(record + 8, 4) >> 28;
		assert_true(type == (p.end == 4096 ? 1 : type) && type <= 3);
		p.durable = get(record + 16, 4);
		if (type == 1) {
			assert_int_equal(p.end, 4096);
			p.link_base = get(record + 20, 8);
			p.link_end = get(record + 28, 8);
		} else if (type == 2) {
			p.writes++;
			parse_body(record + 20, length - 20, p.link_base + get(record + 12, 4));
		} else {
			p.marks++;
		}
		p.end += length;
	}
	free(bytes);
	return p;
}

/* Positions and bytes. */

static void record_stands_where_its_position_says(void **state)
{
	struct fixture *f = *state;
	start_log(f, MIB, MIB);
	uint64_t offset = 4096 + 40;
	assert_int_equal(cairn_log_end(f->log), cairn_log_position(1, offset));
	for (size_t size = 1; size < 300; size++) {
		offset += (20 + size + 7) / 8 * 8;
		assert_int_equal(append(f, size), cairn_log_position(1, offset));
	}
	struct parsed p = parse(f, "000001.wal");
	assert_int_equal(p.end, offset);
	assert_int_equal(p.writes, 299);
	assert_int_equal(p.number, 1);
	assert_int_equal(p.ordinal, 1);
	assert_int_equal(p.previous_number, 0);
	assert_int_equal(p.link_end, 0);
	assert_int_equal(cairn_log_bytes_written(f->log), offset - 4096);
	assert_int_equal(cairn_log_bytes(f->log), MIB);
}

static void reserved_record_may_be_given_up(void **state)
{
	struct fixture *f = *state;
	start_log(f, MIB, MIB);
	uint8_t *body;
	append(f, 10);
	assert_int_equal(cairn_log_reserve(f->log, 5000, f->sequence, false, &body), 0);
	memset(body, 0xff, 5000);
	append(f, 20);
	assert_int_equal(parse(f, "000001.wal").writes, 2);
}

static void segment_is_durable_before_its_first_record(void **state)
{
	struct fixture *f = *state;
	open_log(f, 64 * KIB, 64 * KIB, false);
	disk.diary_on = true;
	assert_int_equal(cairn_log_start(f->log, 77, false), 0);
	disk.diary_on = false;
	char expected[4096];
	snprintf(expected, sizeof expected,
	    "create 000001.tmp\nwrite 000001.tmp\nsync 000001.tmp\nrename to 000001.wal\n"
	    "sync directory %s\nopen 000001.wal\nsync 000001.wal\n",
	    base_name(f->directory));
	assert_string_equal(disk.diary, expected);
	assert_int_equal(cairn_log_durable(f->log), cairn_log_end(f->log));
	assert_int_equal(parse(f, "000001.wal").link_base, 77);
}

static void append_to_a_log_that_was_not_started_is_refused(void **state)
{
	struct fixture *f = *state;
	uint8_t *body;
	open_log(f, MIB, MIB, false);
	assert_int_equal(cairn_log_reserve(f->log, 10, 0, false, &body), CAIRN_INVALID);
	assert_int_equal(cairn_log_mark(f->log, 0), 0);
	assert_int_equal(cairn_log_sync(f->log, 0), 0);
	assert_int_equal(cairn_log_prepare(f->log), 0);
}

static void mapped_and_unmapped_logs_are_the_same_bytes(void **state)
{
	struct fixture *f = *state;
	uint8_t *bytes[2][3];
	size_t sizes[2][3];
	for (int mode = 0; mode < 2; mode++) {
		disk.unmapped = mode;
		disk.fixed_entropy = true;
		disk.entropy = 5;
		f->next_number = 1;
		start_log(f, 64 * KIB, 64 * KIB);
		for (int i = 0; i < 150; i++)
			append(f, (size_t)i * 7 + 1);
		assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
		assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
		for (int i = 0; i < 3; i++) {
			static const char *names[] = {"000001.wal", "000002.wal", "000003.wal"};
			if (i == 2)
				append_until(f, 3);
			bytes[mode][i] = read_file(f, names[i], &sizes[mode][i]);
		}
		assert_int_equal(cairn_log_drop(f->log), 0);
		cairn_log_close(f->log, false);
		f->log = NULL;
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sizes[0][i], sizes[1][i]);
		assert_memory_equal(bytes[0][i], bytes[1][i], sizes[0][i]);
		free(bytes[0][i]);
		free(bytes[1][i]);
	}
}

/* Segments. */

static void check_chain(struct fixture *f, uint64_t count)
{
	struct parsed previous = {0};
	uint64_t writes = 0;
	for (uint64_t i = 1; i <= count; i++) {
		char name[32];
		snprintf(name, sizeof name, "%06u.wal", (unsigned)i);
		struct parsed p = parse(f, name);
		assert_int_equal(p.number, i);
		assert_int_equal(p.ordinal, i);
		assert_int_equal(p.previous_number, previous.number);
		assert_true(p.previous_salt == previous.salt && p.salt != previous.salt);
		assert_int_equal(p.link_base, writes);
		assert_int_equal(p.link_end, previous.end);
		writes += p.writes;
		previous = p;
	}
	assert_int_equal(writes, f->sequence);
	assert_int_equal(cairn_log_end(f->log), cairn_log_position(count, previous.end));
}

static void segments_name_their_predecessors(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 12);
	check_chain(f, 12);
	assert_int_equal(cairn_log_bytes(f->log), 12 * 64 * KIB);
	assert_int_equal(files(f), 12);
}

static void prepared_segments_are_the_same_chain(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 700; i++) {
		append(f, 1000);
		int rc;
		while ((rc = cairn_log_prepare(f->log)) == 1)
			;
		assert_int_equal(rc, 0);
	}
	uint64_t count = cairn_log_position_ordinal(cairn_log_end(f->log));
	assert_true(count > 10);
	check_chain(f, count);
}

static void spare_saves_the_writer_every_call(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	while (!exists(f, "000002.wal")) {
		append(f, 1000);
		while (cairn_log_prepare(f->log) == 1)
			;
	}
	assert_int_equal(cairn_log_position_ordinal(cairn_log_end(f->log)), 1);
	disk.diary_on = true;
	append_until(f, 2);
	assert_string_equal(disk.diary, "");
}

static void segments_double_up_to_the_largest(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 256 * KIB);
	append_until(f, 5);
	assert_int_equal(file_size(f, "000001.wal"), 64 * KIB);
	assert_int_equal(file_size(f, "000002.wal"), 128 * KIB);
	assert_int_equal(file_size(f, "000003.wal"), 256 * KIB);
	assert_int_equal(file_size(f, "000004.wal"), 256 * KIB);
	check_chain(f, 5);
}

static void record_longer_than_the_next_segment_makes_it_longer(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, MIB);
	append(f, 300 * KIB);
	assert_int_equal(file_size(f, "000002.wal"), 512 * KIB);
	check_chain(f, 2);
}

static void record_longer_than_any_segment_gets_its_own_size(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 10);
	append(f, 200001);
	assert_int_equal(file_size(f, "000002.wal"), (4096 + 40 + 200024 + 4095) / 4096 * 4096);
	/* Exactly what the largest one holds, and a byte more. */
	append(f, 64 * KIB - 4096 - 40 - 20);
	assert_int_equal(file_size(f, "000003.wal"), 64 * KIB);
	append(f, 64 * KIB - 4096 - 40 - 19);
	assert_int_equal(file_size(f, "000004.wal"), 68 * KIB);
	append(f, 5000);
	assert_int_equal(file_size(f, "000005.wal"), 64 * KIB);
	check_chain(f, 5);
}

static void record_that_no_position_could_name_is_refused(void **state)
{
	struct fixture *f = *state;
	uint8_t *body;
	start_log(f, 64 * KIB, 64 * KIB);
	size_t size = ((size_t)1 << 31) - 4096 - 40;
	assert_int_equal(cairn_log_reserve(f->log, size, 0, false, &body), CAIRN_TOO_LARGE);
	append(f, 10);
	check_chain(f, 1);
}

static void log_at_rest_has_no_spare_and_goes_on(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	assert_int_equal(cairn_log_rest(f->log), 0);
	while (!exists(f, "000002.wal")) {
		append(f, 1000);
		while (cairn_log_prepare(f->log) == 1)
			;
	}
	uint64_t bytes = cairn_log_bytes(f->log);
	assert_int_equal(cairn_log_rest(f->log), 0);
	assert_false(exists(f, "000002.wal"));
	assert_true(cairn_log_bytes(f->log) < bytes);
	append_until(f, 4);
	/* Nor a file for recycling. */
	assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	assert_int_equal(files(f), 2);
	assert_int_equal(cairn_log_rest(f->log), 0);
	assert_int_equal(files(f), 1);
	append(f, 10);
}

static void spare_that_is_too_short_makes_way(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	while (!exists(f, "000002.wal")) {
		append(f, 1000);
		while (cairn_log_prepare(f->log) == 1)
			;
	}
	/* It is not recycled: after a crash its new header could show up under its old name. */
	disk.diary_on = true;
	append(f, 100 * KIB);
	assert_non_null(strstr(disk.diary, "unlink 000002.wal\ncreate 000003.tmp\n"));
	struct parsed p = parse(f, "000003.wal");
	assert_int_equal(p.previous_number, 1);
	assert_int_equal(p.writes, 1);
	assert_int_equal(p.ordinal, 2);
	assert_false(exists(f, "000002.wal"));
	assert_int_equal(files(f), 2);
	append_until(f, 3);
	assert_int_equal(parse(f, "000004.wal").previous_number, 3);
}

static void oversized_file_is_not_kept(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 100 * KIB);
	append_until(f, 3);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	assert_true(exists(f, "000001.wal"));
	assert_false(exists(f, "000002.wal"));
	assert_int_equal(cairn_log_bytes(f->log), 2 * 64 * KIB);
}

/* Retire, recycle, drop, close. */

static void retired_file_becomes_the_next_segment(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	struct stat before, after;
	assert_int_equal(stat(path_of(f, "000001.wal"), &before), 0);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	assert_true(exists(f, "000001.wal"));
	assert_false(exists(f, "000002.wal"));
	assert_false(exists(f, "000003.wal"));
	assert_int_equal(cairn_log_bytes(f->log), 2 * 64 * KIB);
	disk.diary_on = true;
	append_until(f, 5);
	disk.diary_on = false;
	char expected[4096];
	snprintf(expected, sizeof expected,
	    "rename to 000005.tmp\nopen 000005.tmp\nwrite 000005.tmp\nsync 000005.tmp\n"
	    "rename to 000005.wal\nsync directory %s\nopen 000005.wal\n",
	    base_name(f->directory));
	assert_string_equal(disk.diary, expected);
	assert_int_equal(stat(path_of(f, "000005.wal"), &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_false(exists(f, "000001.wal"));
	/* The bytes of its earlier life are there, and are no records. */
	struct parsed p = parse(f, "000005.wal");
	assert_int_equal(p.writes, 1);
	size_t size;
	uint8_t *bytes = read_file(f, "000005.wal", &size);
	assert_true(get(bytes + p.end + 100, 8) != 0);
	free(bytes);
}

static void file_with_another_link_is_not_recycled(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	size_t size, size_after;
	char from[4096];
	snprintf(from, sizeof from, "%s", path_of(f, "000001.wal"));
	assert_int_equal(link(from, path_of(f, "copy")), 0);
	uint8_t *before = read_file(f, "copy", &size);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	append_until(f, 5);
	uint8_t *after = read_file(f, "copy", &size_after);
	assert_int_equal(size, size_after);
	assert_memory_equal(before, after, size);
	assert_false(exists(f, "000001.wal"));
	assert_int_equal(parse(f, "000004.wal").previous_number, 3);
	free(before);
	free(after);
}

static void kept_file_that_vanished_is_no_failure(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 2);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	assert_int_equal(unlink(path_of(f, "000001.wal")), 0);
	append_until(f, 3);
	assert_int_equal(parse(f, "000003.wal").ordinal, 3);
}

static void retire_leaves_what_is_still_needed(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	uint64_t end_of_2 = cairn_log_position(2, parse(f, "000002.wal").end);
	assert_int_equal(cairn_log_retire(f->log, end_of_2 - 1), 0);
	assert_true(exists(f, "000002.wal"));
	assert_int_equal(cairn_log_retire(f->log, end_of_2), 0);
	/* One of the two is kept for recycling. */
	assert_int_equal(files(f), 3);
	assert_true(exists(f, "000003.wal"));
	assert_true(cairn_log_durable(f->log) >= end_of_2);
	assert_int_equal(cairn_log_sync(f->log, end_of_2), 0);
	assert_int_equal(disk.syncs, 5); /* four segments made, and the LINK of the first */
	/* Not even a position behind everything retires the current one. */
	assert_int_equal(cairn_log_retire(f->log, UINT64_MAX), 0);
	append(f, 10);
	assert_int_equal(parse(f, "000004.wal").ordinal, 4);
}

static void segment_at_is_where_a_replay_begins(void **state)
{
	struct fixture *f = *state;
	uint64_t number, salt, ordinal;
	open_log(f, 64 * KIB, 64 * KIB, false);
	assert_false(cairn_log_segment_at(f->log, 0, &number, &salt, &ordinal));
	assert_int_equal(number, 0);
	f->next_number = 21;
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	append_until(f, 3);
	struct parsed second = parse(f, "000022.wal");
	uint64_t first_end = cairn_log_position(1, parse(f, "000021.wal").end);
	assert_true(cairn_log_segment_at(f->log, 0, &number, &salt, &ordinal));
	assert_int_equal(number, 21);
	assert_true(cairn_log_segment_at(f->log, first_end - 1, &number, &salt, &ordinal));
	assert_int_equal(number, 21);
	assert_int_equal(ordinal, 1);
	assert_true(cairn_log_segment_at(f->log, first_end, &number, &salt, &ordinal));
	assert_int_equal(number, 22);
	assert_true(salt == second.salt);
	assert_int_equal(ordinal, 2);
	assert_true(cairn_log_segment_at(f->log, cairn_log_end(f->log), &number, &salt, &ordinal));
	assert_int_equal(number, 23);
}

static void dropped_log_leaves_nothing_and_starts_again(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 128 * KIB);
	append_until(f, 5);
	assert_int_equal(cairn_log_retire(f->log, cairn_log_position(3, 0)), 0);
	while (cairn_log_prepare(f->log) == 1)
		;
	uint64_t old_end = append(f, 10);
	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(files(f), 0);
	assert_int_equal(cairn_log_bytes(f->log), 0);
	assert_false(cairn_log_started(f->log));
	assert_int_equal(cairn_log_end(f->log), 0);
	assert_int_equal(cairn_log_sync(f->log, old_end), 0);
	assert_int_equal(cairn_log_drop(f->log), 0);

	uint64_t number = f->next_number;
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), 0);
	assert_true(append(f, 10) > old_end);
	assert_int_equal(cairn_log_sync(f->log, old_end), 0);
	char name[32];
	snprintf(name, sizeof name, "%06u.wal", (unsigned)number);
	struct parsed p = parse(f, name);
	assert_int_equal(p.previous_number, 0);
	assert_int_equal(p.link_end, 0);
	assert_int_equal(file_size(f, name), 64 * KIB);
}

static void close_trims_the_current_segment(void **state)
{
	struct fixture *f = *state;
	start_log(f, 256 * KIB, 256 * KIB);
	for (int i = 0; i < 150; i++)
		append(f, 1000);
	while (cairn_log_prepare(f->log) == 1)
		;
	assert_int_equal(files(f), 2);
	uint64_t end = cairn_log_position_offset(cairn_log_end(f->log));
	cairn_log_close(f->log, true);
	f->log = NULL;
	assert_int_equal(files(f), 1);
	assert_int_equal(file_size(f, "000001.wal"), end);
	assert_int_equal(parse(f, "000001.wal").writes, 150);
}

/* Sync. */

static void sync_covers_older_segments_first(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	disk.diary_on = true;
	uint64_t end = append(f, 10);
	assert_true(cairn_log_durable(f->log) < cairn_log_position(2, 0));
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	assert_string_equal(
	    disk.diary, "sync 000001.wal\nsync 000002.wal\nsync 000003.wal\nsync 000004.wal\n");
	assert_int_equal(cairn_log_durable(f->log), end);
	disk.diary[0] = 0;
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	assert_string_equal(disk.diary, "");
	append(f, 10);
	assert_int_equal(cairn_log_durable(f->log), end);
	assert_int_equal(cairn_log_sync(f->log, UINT64_MAX), 0);
	assert_string_equal(disk.diary, "sync 000004.wal\n");
	assert_int_equal(cairn_log_durable(f->log), cairn_log_end(f->log));
}

static void record_tells_what_was_durable(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t end = append(f, 10);
	assert_int_equal(parse(f, "000001.wal").durable, (4096 + 40) / 8);
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	append(f, 10);
	assert_int_equal(parse(f, "000001.wal").durable, cairn_log_position_offset(end) / 8);
	append_until(f, 3);
	assert_int_equal(
	    parse(f, "000003.wal").durable, UINT64_C(2) << 28 | cairn_log_position_offset(end) / 8);
}

static void mark_is_appended_once(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t end = append(f, 10);
	assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
	assert_int_equal(cairn_log_end(f->log), end);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
		assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
	}
	assert_int_equal(cairn_log_end(f->log), end + 24 / 8);
	struct parsed p = parse(f, "000001.wal");
	assert_int_equal(p.marks, 1);
	assert_int_equal(p.durable, cairn_log_position_offset(end) / 8);
}

static void mark_that_does_not_fit_is_said_by_the_link(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 64 * KIB - 4096 - 40 - 20 - 16);
	assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
	assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
	struct parsed p = parse(f, "000002.wal");
	assert_int_equal(p.marks, 0);
	assert_int_equal(p.durable, UINT64_C(1) << 28 | (64 * KIB - 16) / 8);
}

static void failed_sync_is_final(void **state)
{
	struct fixture *f = *state;
	uint8_t *body;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t durable = append(f, 10), end;
	assert_int_equal(cairn_log_sync(f->log, durable), 0);
	end = append(f, 10);
	disk.sync_failures = 1;
	unsigned syncs = disk.syncs;
	for (int i = 0; i < 3; i++) {
		cairn_error(0, "something else");
		assert_int_equal(cairn_log_sync(f->log, end), CAIRN_FAILED);
		assert_non_null(strstr(cairn_error_text(), "000001.wal"));
		assert_non_null(strstr(cairn_error_text(), "fdatasync (by the test)"));
		assert_non_null(strstr(cairn_error_text(), "open it again"));
	}
	assert_int_equal(disk.syncs, syncs + 1);
	assert_int_equal(cairn_log_reserve(f->log, 10, f->sequence, false, &body), CAIRN_FAILED);
	assert_non_null(strstr(cairn_error_text(), "fdatasync (by the test)"));
	assert_int_equal(cairn_log_prepare(f->log), 0);
	assert_int_equal(cairn_log_durable(f->log), durable);
	/* What was durable before stays so. */
	assert_int_equal(cairn_log_sync(f->log, durable), 0);
}

static void *sync_to_the_end(void *context)
{
	struct fixture *f = context;
	return (void *)(intptr_t)cairn_log_sync(f->log, cairn_log_end(f->log));
}

static void failed_sync_fails_all_who_wait(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[4];
	start_log(f, MIB, MIB);
	append(f, 10);
	disk.sync_failures = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, sync_to_the_end, f), 0);
	for (int i = 0; i < 4; i++) {
		void *rc;
		assert_int_equal(pthread_join(threads[i], &rc), 0);
		assert_int_equal((intptr_t)rc, CAIRN_FAILED);
	}
}

static void failed_write_of_an_unmapped_record_is_final(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	disk.unmapped = true;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t before = append(f, 10);
	disk.fail_write = true;
	assert_int_equal(try_append(f, 10, &end), CAIRN_FAILED);
	disk.fail_write = false;
	assert_int_equal(try_append(f, 10, &end), CAIRN_FAILED);
	assert_non_null(strstr(cairn_error_text(), "pwrite (by the test)"));
	assert_int_equal(cairn_log_end(f->log), before);
	assert_int_equal(parse(f, "000001.wal").writes, 1);
}

static void failed_link_of_an_unmapped_segment_is_final(void **state)
{
	struct fixture *f = *state;
	uint8_t *body;
	disk.unmapped = true;
	start_log(f, 64 * KIB, 64 * KIB);
	while (!exists(f, "000002.wal")) {
		append(f, 1000);
		while (cairn_log_prepare(f->log) == 1)
			;
	}
	uint64_t before = cairn_log_end(f->log);
	disk.fail_write = true;
	assert_int_equal(
	    cairn_log_reserve(f->log, 50 * KIB, f->sequence, false, &body), CAIRN_FAILED);
	assert_int_equal(cairn_log_end(f->log), before);
	assert_false(exists(f, "000002.wal"));
}

/* "No space", found late: until the log is dropped, because all that it held is in runs. */
static void sync_without_space_stops_the_log_until_it_is_dropped(void **state)
{
	struct fixture *f = *state;
	uint8_t *body;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t durable = append(f, 10), end;
	assert_int_equal(cairn_log_sync(f->log, durable), 0);
	end = append(f, 10);
	disk.failure = -ENOSPC;
	disk.sync_failures = 1;
	unsigned syncs = disk.syncs;
	for (int i = 0; i < 3; i++) {
		cairn_error(0, "something else");
		assert_int_equal(cairn_log_sync(f->log, end), -ENOSPC);
		assert_non_null(strstr(cairn_error_text(), "000001.wal"));
		assert_non_null(strstr(cairn_error_text(), "written out as a run"));
	}
	assert_int_equal(disk.syncs, syncs + 1);
	assert_int_equal(cairn_log_stopped(f->log), -ENOSPC);
	assert_int_equal(cairn_log_reserve(f->log, 10, f->sequence, true, &body), -ENOSPC);
	assert_int_equal(cairn_log_prepare(f->log), 0);
	assert_int_equal(cairn_log_durable(f->log), durable);

	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(cairn_log_stopped(f->log), 0);
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), 0);
	assert_int_equal(cairn_log_sync(f->log, append(f, 10)), 0);
}

static void sync_without_space_does_not_hide_a_worse_failure(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t end = append(f, 10);
	disk.failure = -EDQUOT;
	disk.sync_failures = 1;
	assert_int_equal(cairn_log_sync(f->log, end), -EDQUOT);
	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), 0);
	end = append(f, 10);
	disk.failure = -EIO;
	disk.sync_failures = 1;
	assert_int_equal(cairn_log_sync(f->log, end), CAIRN_FAILED);
	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), CAIRN_FAILED);
}

static void unmapped_record_without_space_may_be_tried_again(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	disk.unmapped = true;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t before = append(f, 10);
	disk.failure = -ENOSPC;
	disk.fail_write = true;
	assert_int_equal(try_append(f, 10, &end), -ENOSPC);
	assert_int_equal(cairn_log_end(f->log), before);
	disk.fail_write = false;
	append(f, 10);
	assert_int_equal(parse(f, "000001.wal").writes, 2);
}

/* A full disk, and others that refuse to make a segment. */

static void full_disk_makes_segments_shorter(void **state)
{
	struct fixture *f = *state;
	open_log(f, MIB, 4 * MIB, false);
	disk.room = 300 * KIB;
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	assert_int_equal(file_size(f, "000001.wal"), 256 * KIB);
	append_until(f, 2);
	assert_int_equal(file_size(f, "000002.wal"), 256 * KIB);
	disk.room = UINT64_MAX;
	append_until(f, 4);
	assert_int_equal(file_size(f, "000003.wal"), 512 * KIB);
	assert_int_equal(file_size(f, "000004.wal"), MIB);
}

static void full_disk_is_no_failure_of_the_log(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	open_log(f, MIB, MIB, false);
	disk.room = 255 * KIB;
	assert_int_equal(cairn_log_start(f->log, 0, false), -ENOSPC);
	assert_false(cairn_log_started(f->log));
	assert_int_equal(files(f), 0);
	disk.room = UINT64_MAX;
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	while (cairn_log_position_offset(cairn_log_end(f->log)) < MIB - 1100)
		append(f, 1000);
	disk.room = 100 * KIB;
	uint64_t before = cairn_log_end(f->log);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(try_append(f, 2000, &end), -ENOSPC);
		assert_non_null(strstr(cairn_error_text(), "free some space"));
	}
	assert_int_equal(files(f), 1);
	disk.room = UINT64_MAX;
	assert_int_equal(cairn_log_end(f->log), before);
	assert_int_equal(try_append(f, 2000, &end), 0);
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	assert_int_equal(cairn_log_position_ordinal(end), 2);
}

static void record_that_needs_more_than_there_is_waits_for_room(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	start_log(f, 64 * KIB, 64 * KIB);
	disk.room = 400 * KIB;
	assert_int_equal(try_append(f, 500 * KIB, &end), -ENOSPC);
	append(f, 100 * KIB);
	disk.room = UINT64_MAX;
	append(f, 500 * KIB);
	assert_int_equal(files(f), 3);
}

static void segment_that_cannot_be_made_leaves_no_file(void **state)
{
	struct fixture *f = *state;
	bool *failures[] = {&disk.fail_write, &disk.fail_rename, &disk.fail_sync_directory};
	open_log(f, 64 * KIB, 64 * KIB, false);
	for (int i = 0; i < 3; i++) {
		*failures[i] = true;
		assert_int_equal(cairn_log_start(f->log, 0, false), -EIO);
		assert_non_null(strstr(cairn_error_text(), "by the test"));
		assert_int_equal(files(f), 0);
		*failures[i] = false;
	}
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	append_until(f, 2);
	for (int i = 0; i < 3; i++) {
		uint64_t end;
		while (cairn_log_position_offset(cairn_log_end(f->log)) < 62 * KIB)
			append(f, 1000);
		*failures[i] = true;
		assert_int_equal(try_append(f, 8000, &end), -EIO);
		*failures[i] = false;
		assert_int_equal(files(f), 2);
	}
	append_until(f, 3);
	assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
}

static void first_segment_that_cannot_be_synced_is_not_started(void **state)
{
	struct fixture *f = *state;
	open_log(f, 64 * KIB, 64 * KIB, false);
	/* The sync of the header, then that of the LINK. */
	for (int good = 0; good < 2; good++) {
		disk.good_syncs = good;
		disk.sync_failures = 1;
		assert_int_equal(cairn_log_start(f->log, 0, false), -EIO);
		assert_non_null(strstr(cairn_error_text(), "fdatasync (by the test)"));
		assert_false(cairn_log_started(f->log));
		assert_int_equal(cairn_log_end(f->log), 0);
		assert_int_equal(files(f), 0);
	}
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	append(f, 10);
	assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
}

/* Preparation. */

static void pages_are_faulted_in_a_mebibyte_ahead(void **state)
{
	struct fixture *f = *state;
	start_log(f, 8 * MIB, 8 * MIB);
	while (cairn_log_prepare(f->log) == 1)
		;
	assert_true(disk.populated_to >= MIB && disk.populated_to < MIB + 512 * KIB);
	int wakes = f->wakes;
	while (cairn_log_position_offset(cairn_log_end(f->log)) < 300 * KIB)
		append(f, 1000);
	assert_int_equal(f->wakes, wakes);
	while (cairn_log_position_offset(cairn_log_end(f->log)) < 900 * KIB)
		append(f, 1000);
	assert_true(f->wakes > wakes);
	while (cairn_log_prepare(f->log) == 1)
		;
	assert_true(disk.populated_to >= 1900 * KIB && disk.populated_to < 2500 * KIB);
	assert_false(exists(f, "000002.wal"));
}

static void far_populate_takes_the_whole_segment(void **state)
{
	struct fixture *f = *state;
	open_log(f, 8 * MIB, 8 * MIB, true);
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	while (cairn_log_prepare(f->log) == 1)
		;
	assert_int_equal(disk.populated_to, 8 * MIB);
	assert_int_equal(cairn_log_prepare(f->log), 0);
}

static void writer_that_ran_ahead_is_caught_up_with(void **state)
{
	struct fixture *f = *state;
	start_log(f, 8 * MIB, 8 * MIB);
	while (cairn_log_position_offset(cairn_log_end(f->log)) < 3 * MIB)
		append(f, 10000);
	assert_int_equal(cairn_log_prepare(f->log), 1);
	assert_true(disk.populated_to > 3 * MIB);
}

static void page_that_the_disk_refuses_fails_the_log(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	start_log(f, MIB, MIB);
	disk.populate_result = -ENOMEM;
	assert_int_equal(cairn_log_prepare(f->log), -ENOMEM);
	append(f, 10);
	disk.populate_result = -EIO;
	assert_int_equal(cairn_log_prepare(f->log), CAIRN_FAILED);
	assert_int_equal(try_append(f, 10, &end), CAIRN_FAILED);
	assert_non_null(strstr(cairn_error_text(), "madvise"));
}

static void spare_is_wanted_in_the_second_half(void **state)
{
	struct fixture *f = *state;
	start_log(f, 256 * KIB, 256 * KIB);
	while (cairn_log_prepare(f->log) == 1)
		;
	assert_false(exists(f, "000002.wal"));
	int wakes = f->wakes;
	while (cairn_log_position_offset(cairn_log_end(f->log)) < 127 * KIB)
		append(f, 1000);
	assert_int_equal(f->wakes, wakes);
	assert_int_equal(cairn_log_prepare(f->log), 0);
	while (cairn_log_position_offset(cairn_log_end(f->log)) < 200 * KIB)
		append(f, 1000);
	assert_true(f->wakes > wakes);
	assert_int_equal(cairn_log_prepare(f->log), 1);
	assert_true(exists(f, "000002.wal"));
	assert_int_equal(cairn_log_bytes(f->log), 512 * KIB);
}

/* Threads. */

struct crowd {
	struct fixture *f;
	pthread_mutex_t write_lock;
	atomic_bool stop;
	unsigned each;
};

static void *commit_many(void *context)
{
	struct crowd *crowd = context;
	for (unsigned i = 0; i < crowd->each; i++) {
		uint64_t end;
		pthread_mutex_lock(&crowd->write_lock);
		int rc = try_append(crowd->f, 100, &end);
		pthread_mutex_unlock(&crowd->write_lock);
		if (rc < 0 || cairn_log_sync(crowd->f->log, end) < 0 ||
		    cairn_log_durable(crowd->f->log) < end)
			return crowd;
	}
	return NULL;
}

static void committers_share_syncs(void **state)
{
	struct fixture *f = *state;
	struct crowd crowd = {.f = f, .each = 200};
	pthread_t threads[4];
	pthread_mutex_init(&crowd.write_lock, NULL);
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, commit_many, &crowd), 0);
	for (int i = 0; i < 4; i++) {
		void *failed;
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	pthread_mutex_destroy(&crowd.write_lock);
	uint64_t segments = cairn_log_position_ordinal(cairn_log_end(f->log));
	check_chain(f, segments);
	assert_int_equal(f->sequence, 800);
	assert_true(disk.syncs <= 800 + 2 * segments);
}

static void *sync_for_ever(void *context)
{
	struct crowd *crowd = context;
	while (!crowd->stop) {
		uint64_t end = cairn_log_end(crowd->f->log);
		if (cairn_log_sync(crowd->f->log, end) < 0 ||
		    cairn_log_durable(crowd->f->log) < end)
			return crowd;
	}
	return NULL;
}

static void *prepare_for_ever(void *context)
{
	struct crowd *crowd = context;
	while (!crowd->stop) {
		if (cairn_log_prepare(crowd->f->log) < 0)
			return crowd;
	}
	return NULL;
}

static void *retire_for_ever(void *context)
{
	struct crowd *crowd = context;
	uint64_t number, salt, ordinal;
	while (!crowd->stop) {
		uint64_t end = cairn_log_end(crowd->f->log);
		uint64_t position = cairn_log_position(cairn_log_position_ordinal(end), 0);
		if (cairn_log_retire(crowd->f->log, position) < 0 ||
		    !cairn_log_segment_at(crowd->f->log, end, &number, &salt, &ordinal) ||
		    cairn_log_bytes(crowd->f->log) == 0)
			return crowd;
	}
	return NULL;
}

static void everybody_may_work_beside_the_writer(void **state)
{
	struct fixture *f = *state;
	struct crowd crowd = {.f = f};
	void *(*work[])(void *) = {
	    sync_for_ever, sync_for_ever, sync_for_ever, prepare_for_ever, retire_for_ever};
	pthread_t threads[5];
	start_log(f, 64 * KIB, 128 * KIB);
	for (int i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], &crowd), 0);
	uint64_t end = 0;
	int failures = 0;
	for (int i = 0; i < 3000; i++)
		failures += try_append(f, (size_t)(i % 97) * 10 + 1, &end) != 0;
	/* Records that no spare can take, so that writer and preparer meet. */
	for (int i = 0; i < 10; i++)
		failures += try_append(f, i % 2 ? 140 * KIB : 40 * KIB, &end) != 0;
	crowd.stop = true;
	for (int i = 0; i < 5; i++) {
		void *failed;
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(failures, 0);
	assert_int_equal(cairn_log_sync(f->log, end), 0);
	assert_int_equal(cairn_log_retire(f->log, end), 0);
	/* The current one, perhaps a spare, perhaps one to recycle. */
	assert_true(files(f) <= 3);
	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(files(f), 0);
}

/* The reserve. */

/* A log that keeps one of 256 KiB aside, as 000001.wal. */
static void start_log_with_reserve(struct fixture *f, uint64_t segment_min, uint64_t segment_max)
{
	f->reserve_size = 256 * KIB;
	start_log(f, segment_min, segment_max);
	assert_false(exists(f, "000001.wal"));
	assert_true(exists(f, "000002.wal"));
}

/* Appends records of 1,000 bytes until one is refused for want of space. */
static unsigned append_until_refused(struct fixture *f)
{
	unsigned records = 0;
	uint64_t end;
	int rc;
	while ((rc = try_append(f, 1000, &end)) == 0)
		records++;
	assert_int_equal(rc, -ENOSPC);
	assert_non_null(strstr(cairn_error_text(), f->directory));
	assert_non_null(strstr(cairn_error_text(), "free some"));
	return records;
}

static void prepare_all(struct fixture *f)
{
	while (cairn_log_prepare(f->log) == 1)
		;
}

static void reserve_is_made_ahead_and_goes_with_the_log(void **state)
{
	struct fixture *f = *state;
	start_log_with_reserve(f, MIB, MIB);
	append(f, 200 * KIB);
	prepare_all(f);
	assert_int_equal(files(f), 1);
	int wakes = f->wakes;
	append(f, 100 * KIB);
	assert_true(f->wakes > wakes);
	prepare_all(f);
	assert_int_equal(file_size(f, "000001.wal"), 256 * KIB);
	assert_int_equal(cairn_log_reserve_bytes(f->log), 256 * KIB);
	assert_int_equal(cairn_log_bytes(f->log), MIB + 256 * KIB);
	assert_int_equal(cairn_log_rest(f->log), 0);
	assert_true(exists(f, "000001.wal"));
	assert_int_equal(cairn_log_drop(f->log), 0);
	assert_int_equal(files(f), 0);

	/* Of another log it has another number: files have theirs once. */
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), 0);
	append(f, 600 * KIB);
	assert_int_equal(file_size(f, "000003.wal"), 256 * KIB);
	assert_true(exists(f, "000004.wal"));
	cairn_log_close(f->log, false);
	f->log = NULL;
	assert_int_equal(files(f), 1);
}

static void without_a_reserve_half_a_segment_is_for_urgent_records(void **state)
{
	struct fixture *f = *state;
	start_log_with_reserve(f, 64 * KIB, 64 * KIB);
	disk.room = 0;
	assert_int_equal(append_until_refused(f), 27);
	f->urgent = true;
	assert_true(append_until_refused(f) >= 30);
	f->urgent = false;
	assert_int_equal(append_until_refused(f), 0);
	disk.room = UINT64_MAX;
	append_until(f, 3);
	assert_true(exists(f, "000001.wal"));
}

static void reserve_becomes_a_segment_for_urgent_records(void **state)
{
	struct fixture *f = *state;
	struct stat before, after;
	start_log_with_reserve(f, 64 * KIB, 64 * KIB);
	append(f, 40 * KIB);
	assert_int_equal(stat(path_of(f, "000001.wal"), &before), 0);
	disk.room = 0;
	append_until_refused(f);
	assert_true(exists(f, "000001.wal"));
	f->urgent = true;
	unsigned records = append_until_refused(f);
	/* An eighth of it is cut off at close: room for a manifest. */
	assert_in_range(records, 210, 256 * 7 / 8 * KIB / 1024);
	assert_false(exists(f, "000001.wal"));
	assert_int_equal(cairn_log_reserve_bytes(f->log), 0);
	f->urgent = false;
	assert_int_equal(append_until_refused(f), 0);

	/* With room again all goes on, and there is a reserve first. */
	disk.room = UINT64_MAX;
	append_until(f, 3);
	assert_int_equal(file_size(f, "000001.wal"), 256 * KIB);
	uint64_t number = f->next_number;
	char name[32];
	struct parsed p = {0};
	for (uint64_t i = 3; i < number; i++) {
		snprintf(name, sizeof name, "%06u.wal", (unsigned)i);
		if (file_size(f, name) != 256 * KIB)
			continue;
		p = parse(f, name);
		assert_int_equal(stat(path_of(f, name), &after), 0);
	}
	assert_int_equal(p.ordinal, 2);
	assert_int_equal(p.previous_number, 2);
	assert_int_equal(p.writes, records);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void urgent_record_that_the_reserve_cannot_hold_leaves_it_alone(void **state)
{
	struct fixture *f = *state;
	uint64_t end;
	start_log_with_reserve(f, 64 * KIB, 64 * KIB);
	append(f, 40 * KIB);
	disk.room = 0;
	f->urgent = true;
	assert_int_equal(try_append(f, 230 * KIB, &end), -ENOSPC);
	assert_true(exists(f, "000001.wal"));
	append(f, 200 * KIB);
	assert_false(exists(f, "000001.wal"));
}

static void lent_reserve_stays_away_until_it_is_returned(void **state)
{
	struct fixture *f = *state;
	start_log_with_reserve(f, 64 * KIB, 64 * KIB);
	assert_false(cairn_log_lend_reserve(f->log));
	append(f, 40 * KIB);
	assert_true(cairn_log_lend_reserve(f->log));
	assert_false(exists(f, "000001.wal"));
	assert_false(cairn_log_lend_reserve(f->log));
	assert_int_equal(append_until_refused(f), 0);
	prepare_all(f);
	assert_false(exists(f, "000001.wal"));
	cairn_log_return_reserve(f->log);
	append(f, 1000);
	assert_true(exists(f, "000001.wal"));
}

static void segment_leaves_room_for_the_run_of_what_it_holds(void **state)
{
	struct fixture *f = *state;
	open_log(f, MIB, 8 * MIB, false);
	/* A segment of a MiB, a run of nine eighths of that, and 64 KiB. */
	disk.free = MIB + MIB / 8 * 9 + 64 * KIB - 1;
	assert_int_equal(cairn_log_start(f->log, 0, false), 0);
	assert_int_equal(file_size(f, "000001.wal"), 512 * KIB);
	disk.free = 512 * KIB / 8 * 9 + 64 * KIB + 256 * KIB / 8 * 17 - 1;
	append(f, 400 * KIB);
	assert_int_equal(append_until_refused(f), 107);
	disk.free++;
	append_until(f, 2);
	assert_int_equal(file_size(f, "000003.wal"), 256 * KIB);
	/* What is in runs counts no more, and its file is used again. */
	assert_int_equal(cairn_log_retire(f->log, cairn_log_end(f->log)), 0);
	disk.free = MIB;
	append_until(f, 3);
}

static void urgent_record_does_not_leave_room_for_a_run(void **state)
{
	struct fixture *f = *state;
	open_log(f, 64 * KIB, 64 * KIB, false);
	disk.free = 0;
	assert_int_equal(cairn_log_start(f->log, 0, false), -ENOSPC);
	assert_int_equal(cairn_log_start(f->log, 0, true), 0);
	append_until_refused(f);
	f->urgent = true;
	append_until(f, 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(record_stands_where_its_position_says),
	    CASE(reserved_record_may_be_given_up),
	    CASE(segment_is_durable_before_its_first_record),
	    CASE(append_to_a_log_that_was_not_started_is_refused),
	    CASE(mapped_and_unmapped_logs_are_the_same_bytes),
	    CASE(segments_name_their_predecessors),
	    CASE(prepared_segments_are_the_same_chain),
	    CASE(spare_saves_the_writer_every_call),
	    CASE(segments_double_up_to_the_largest),
	    CASE(record_longer_than_the_next_segment_makes_it_longer),
	    CASE(record_longer_than_any_segment_gets_its_own_size),
	    CASE(record_that_no_position_could_name_is_refused),
	    CASE(log_at_rest_has_no_spare_and_goes_on),
	    CASE(spare_that_is_too_short_makes_way),
	    CASE(oversized_file_is_not_kept),
	    CASE(retired_file_becomes_the_next_segment),
	    CASE(file_with_another_link_is_not_recycled),
	    CASE(kept_file_that_vanished_is_no_failure),
	    CASE(retire_leaves_what_is_still_needed),
	    CASE(segment_at_is_where_a_replay_begins),
	    CASE(dropped_log_leaves_nothing_and_starts_again),
	    CASE(close_trims_the_current_segment),
	    CASE(sync_covers_older_segments_first),
	    CASE(record_tells_what_was_durable),
	    CASE(mark_is_appended_once),
	    CASE(mark_that_does_not_fit_is_said_by_the_link),
	    CASE(failed_sync_is_final),
	    CASE(failed_sync_fails_all_who_wait),
	    CASE(sync_without_space_stops_the_log_until_it_is_dropped),
	    CASE(sync_without_space_does_not_hide_a_worse_failure),
	    CASE(unmapped_record_without_space_may_be_tried_again),
	    CASE(failed_write_of_an_unmapped_record_is_final),
	    CASE(failed_link_of_an_unmapped_segment_is_final),
	    CASE(full_disk_makes_segments_shorter),
	    CASE(full_disk_is_no_failure_of_the_log),
	    CASE(record_that_needs_more_than_there_is_waits_for_room),
	    CASE(segment_that_cannot_be_made_leaves_no_file),
	    CASE(first_segment_that_cannot_be_synced_is_not_started),
	    CASE(pages_are_faulted_in_a_mebibyte_ahead),
	    CASE(far_populate_takes_the_whole_segment),
	    CASE(writer_that_ran_ahead_is_caught_up_with),
	    CASE(page_that_the_disk_refuses_fails_the_log),
	    CASE(spare_is_wanted_in_the_second_half),
	    CASE(committers_share_syncs),
	    CASE(everybody_may_work_beside_the_writer),
	    CASE(reserve_is_made_ahead_and_goes_with_the_log),
	    CASE(without_a_reserve_half_a_segment_is_for_urgent_records),
	    CASE(reserve_becomes_a_segment_for_urgent_records),
	    CASE(urgent_record_that_the_reserve_cannot_hold_leaves_it_alone),
	    CASE(lent_reserve_stays_away_until_it_is_returned),
	    CASE(segment_leaves_room_for_the_run_of_what_it_holds),
	    CASE(urgent_record_does_not_leave_room_for_a_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
