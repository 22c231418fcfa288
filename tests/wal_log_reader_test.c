/*
 * tests/wal_log_reader_test.c -- replay, and torn told from damaged. Logs are made by the writer,
 * remembered record by record, mistreated as files, and read.
 */
#include "tests/test.h"

#include <errno.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/error.h"
#include "format/filename.h"
#include "store/io_posix.h"
#include "wal/log_reader.h"
#include "wal/log_writer.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static const struct cairn_identity identity = {{9, 8, 7, 6}, 0xabcdef};

/* A WRITE record that was appended. */
struct written {
	uint64_t first;
	uint32_t count;
	uint8_t *body;
	size_t size;
	uint64_t start, end; /* positions */
};

struct fixture {
	struct cairn_io *io;
	const struct cairn_io_ops *real;
	struct cairn_io_ops ops;
	char *directory;
	_Atomic uint64_t next_number;
	uint64_t random;
	struct cairn_log *log;
	uint64_t sequence;
	struct written *written;
	size_t count;
	struct cairn_log_start start;
	/* The last replay. */
	struct cairn_log_summary summary;
	size_t applied; /* records that came, */
	size_t skipped; /* behind so many that did not */
	size_t stop_at; /* apply refuses this one */
	uint64_t progress, total;
	/* A read of the file `veiled` that touches `veil_offset` finds zeros there, so many times.
	 */
	char veiled[32];
	uint64_t veil_offset;
	int veil_times;
	bool fail_read;
};

static struct fixture *current; /* for the replaced operations */

static int veiled_read(
    struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	struct fixture *f = current;
	int rc = f->real->read(file, data, size, offset, done);
	if (f->fail_read && size > 8192)
		return cairn_error_system(-EIO, file->path, "pread (by the test)");
	if (rc == 0 && f->veil_times > 0 && strstr(file->path, f->veiled) &&
	    offset <= f->veil_offset && f->veil_offset + 8 <= offset + *done) {
		f->veil_times--;
		memset((uint8_t *)data + (f->veil_offset - offset), 0, 8);
	}
	return rc;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_int_equal(cairn_io_posix_open(&f->io), 0);
	f->real = f->io->ops;
	f->ops = *f->real;
	f->ops.read = veiled_read;
	f->io->ops = &f->ops;
	f->directory = test_directory();
	f->next_number = 1;
	f->random = test_seed(20);
	current = f;
	*state = f;
	return 0;
}

static void forget_records(struct fixture *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->written[i].body);
	free(f->written);
	f->written = NULL;
	f->count = 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	cairn_log_close(f->log, false);
	forget_records(f);
	f->io->ops = f->real;
	cairn_io_posix_close(f->io);
	test_remove_directory(f->directory);
	free(f);
	return 0;
}

/* Writing. */

static void start_log(struct fixture *f, uint64_t segment_min, uint64_t segment_max)
{
	struct cairn_log_config config = {
	    .io = f->io,
	    .directory = f->directory,
	    .identity = identity,
	    .segment_min = segment_min,
	    .segment_max = segment_max,
	    .next_number = &f->next_number,
	};
	assert_int_equal(cairn_log_open(&config, &f->log), 0);
	assert_int_equal(cairn_log_start(f->log, f->sequence, false), 0);
	f->start = (struct cairn_log_start){.identity = identity, .sequence = f->sequence};
	assert_true(
	    cairn_log_segment_at(f->log, 0, &f->start.number, &f->start.salt, &f->start.ordinal));
}

static uint64_t xxh(const void *data, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, size, seed);
}

/* `count` operations with values of up to `value_max` bytes, as bytes of a body. */
static uint8_t *make_body(struct fixture *f, uint32_t count, size_t value_max, size_t *size)
{
	uint8_t *body = malloc(count * (16 + value_max + 16)), *next = body;
	uint8_t *value = malloc(value_max + 1);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t key[2] = {test_random(&f->random), i};
		struct cairn_record record = {
		    .key = {key, test_random(&f->random) % 17},
		    .kind = test_random(&f->random) % 5 ? CAIRN_KIND_PUT : CAIRN_KIND_DELETE,
		};
		size_t length = test_random(&f->random) % (value_max + 1);
		for (size_t j = 0; j < length; j++)
			value[j] = (uint8_t)test_random(&f->random);
		if (record.kind == CAIRN_KIND_PUT)
			record.value = cairn_slice_of(value, length);
		uint64_t hash = xxh(key, record.key.size, identity.hash_seed);
		record.checksum = (uint32_t)xxh(value, record.value.size, hash ^ record.kind);
		next = cairn_log_operation_put(next, &record);
	}
	free(value);
	*size = (size_t)(next - body);
	return body;
}

/* Appends a body as `count` operations from `first` on, and remembers it. */
static void append_body(
    struct fixture *f, uint8_t *body, size_t size, uint64_t first, uint32_t count)
{
	uint8_t *room;
	uint64_t end;
	assert_int_equal(cairn_log_reserve(f->log, size, first - 1, false, &room), 0);
	memcpy(room, body, size);
	assert_int_equal(cairn_log_commit(f->log, first, &end), 0);
	f->written = realloc(f->written, (f->count + 1) * sizeof *f->written);
	f->written[f->count++] =
	    (struct written){first, count, body, size, end - cairn_log_record_size(size) / 8, end};
}

static void append(struct fixture *f, uint32_t count, size_t value_max)
{
	size_t size;
	uint8_t *body = make_body(f, count, value_max, &size);
	append_body(f, body, size, f->sequence + 1, count);
	f->sequence += count;
}

static void sync_log(struct fixture *f)
{
	assert_int_equal(cairn_log_sync(f->log, cairn_log_end(f->log)), 0);
}

static void prepare(struct fixture *f)
{
	while (cairn_log_prepare(f->log) == 1)
		;
}

static void append_until(struct fixture *f, uint64_t ordinal)
{
	while (cairn_log_position_ordinal(cairn_log_end(f->log)) < ordinal)
		append(f, 3, 500);
}

/* As if the process had been killed: nothing is trimmed or synced any more. */
static void kill_log(struct fixture *f)
{
	cairn_log_close(f->log, false);
	f->log = NULL;
}

/* Reading. */

static int apply(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body)
{
	struct fixture *f = context;
	size_t i = f->skipped + f->applied;
	if (f->applied == 0) {
		while (i < f->count && f->written[i].first != first_sequence)
			i++;
		f->skipped = i;
	}
	assert_true(i < f->count);
	if (i == f->stop_at)
		return 4711;
	assert_int_equal(first_sequence, f->written[i].first);
	assert_int_equal(count, f->written[i].count);
	assert_int_equal(body.size, f->written[i].size);
	assert_memory_equal(body.data, f->written[i].body, body.size);
	f->applied++;
	return 0;
}

static void see_progress(void *context, uint64_t done, uint64_t total)
{
	struct fixture *f = context;
	assert_true(done >= f->progress && done <= total);
	assert_true(f->total == 0 || f->total == total);
	f->progress = done;
	f->total = total;
}

static int replay(struct fixture *f)
{
	struct cairn_log_replay call = {
	    .directory = f->directory,
	    .start = f->start,
	    .apply = apply,
	    .progress = see_progress,
	    .context = f,
	};
	f->applied = 0;
	f->skipped = 0;
	f->stop_at = SIZE_MAX;
	f->progress = 0;
	f->total = 0;
	return cairn_log_read(f->io, &call, &f->summary);
}

/* Replays: records from `skipped` up to `upto` must come, and nothing else. */
static void expect_replay(struct fixture *f, size_t skipped, size_t upto)
{
	int rc = replay(f);
	if (rc)
		print_message("%s\n", cairn_error_text());
	assert_int_equal(rc, 0);
	assert_int_equal(f->applied, upto - skipped);
	if (f->applied)
		assert_int_equal(f->skipped, skipped);
	if (upto > skipped) {
		const struct written *last = &f->written[upto - 1];
		assert_int_equal(f->summary.last_sequence, last->first + last->count - 1);
	}
	assert_int_equal(f->progress, f->total);
}

/* Replays: damage, with all of `words` in the message. */
static void expect_damage(struct fixture *f, const char *word, const char *other)
{
	assert_int_equal(replay(f), CAIRN_CORRUPT);
	if (!strstr(cairn_error_text(), word) || !strstr(cairn_error_text(), other))
		print_message("%s\n", cairn_error_text());
	assert_non_null(strstr(cairn_error_text(), word));
	assert_non_null(strstr(cairn_error_text(), other));
}

/* Files. */

/* The path of a segment; valid until the next call. */
static const char *path_of(const struct fixture *f, uint64_t number)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/%06u.wal", f->directory, (unsigned)number);
	return path;
}

struct image {
	uint64_t number;
	uint8_t *bytes;
	size_t size;
};

static struct image load(const struct fixture *f, uint64_t number)
{
	struct image image = {.number = number};
	FILE *file = fopen(path_of(f, number), "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	image.size = (size_t)ftell(file);
	rewind(file);
	image.bytes = malloc(image.size + 1);
	assert_int_equal(fread(image.bytes, 1, image.size, file), image.size);
	fclose(file);
	return image;
}

static void store(const struct fixture *f, const struct image *image, size_t size)
{
	FILE *file = fopen(path_of(f, image->number), "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(image->bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void poke(
    const struct fixture *f, uint64_t number, uint64_t offset, const void *bytes, size_t size)
{
	FILE *file = fopen(path_of(f, number), "r+b");
	assert_non_null(file);
	fseek(file, (long)offset, SEEK_SET);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void zero(const struct fixture *f, uint64_t number, uint64_t offset, size_t size)
{
	uint8_t *zeros = calloc(1, size);
	poke(f, number, offset, zeros, size);
	free(zeros);
}

static uint64_t get(const uint8_t *bytes, int size)
{
	uint64_t value = 0;
	for (int i = size - 1; i >= 0; i--)
		value = value << 8 | bytes[i];
	return value;
}

static uint64_t offset_of(uint64_t position)
{
	return cairn_log_position_offset(position);
}

/* In these tests segment n of a log is file n. */
static uint64_t number_of(uint64_t position)
{
	return cairn_log_position_ordinal(position);
}

/* Whole logs. */

static void replay_is_what_was_written(void **state)
{
	struct fixture *f = *state;
	for (int round = 0; round < 8; round++) {
		f->next_number = 1 + (uint64_t)round * 1000;
		f->sequence = (uint64_t)round * 77;
		start_log(f, 64 * KIB, (uint64_t)(64 * KIB) << round % 3);
		for (int i = 0; i < 300; i++) {
			uint64_t dice = test_random(&f->random) % 100;
			if (dice < 3)
				sync_log(f);
			else if (dice < 6)
				assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
			else if (dice < 20)
				prepare(f);
			append(f, 1 + (uint32_t)dice % 7, dice == 50 ? 60000 : 200 + dice);
		}
		uint64_t end = cairn_log_end(f->log);
		cairn_log_close(f->log, round % 2);
		f->log = NULL;
		expect_replay(f, 0, f->count);
		assert_int_equal(f->summary.end, end);
		assert_int_equal(f->summary.torn_bytes, 0);
		assert_int_equal(f->summary.segments, cairn_log_position_ordinal(end));
		assert_true(f->summary.records >= f->count + f->summary.segments);
		forget_records(f);
	}
}

static void empty_log_has_nothing_to_say(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	expect_replay(f, 0, 0);
	assert_int_equal(f->summary.end, cairn_log_end(f->log));
	assert_int_equal(f->summary.last_sequence, 0);
	append(f, 1, 10);
	/* A manifest without a log: whatever lies there was dropped, or never named. */
	f->start.number = 0;
	f->start.sequence = 5;
	assert_int_equal(replay(f), 0);
	assert_int_equal(f->applied, 0);
	assert_int_equal(f->summary.last_sequence, 5);
}

static void replay_begins_at_the_position(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	for (size_t i = 0; i < f->count; i++) {
		const struct written *w = &f->written[i];
		f->start.position = w->end;
		f->start.sequence = w->first + w->count - 1;
		assert_true(cairn_log_segment_at(
		    f->log, w->end, &f->start.number, &f->start.salt, &f->start.ordinal));
		expect_replay(f, i + 1, f->count);
		assert_int_equal(f->summary.end, cairn_log_end(f->log));
	}
}

static void operations_that_are_in_runs_are_skipped(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 2);
	/* Three operations to a record: the sequence may fall into the middle of one. */
	for (uint64_t sequence = 0; sequence <= f->sequence; sequence++) {
		f->start.sequence = sequence;
		expect_replay(f, (size_t)sequence / 3, f->count);
		assert_int_equal(f->summary.last_sequence, f->sequence);
	}
	f->start.sequence = f->sequence + 100;
	expect_replay(f, f->count, f->count);
	assert_int_equal(f->summary.last_sequence, f->sequence + 100);
}

static void log_that_begins_behind_the_sequence_is_not_joined(void **state)
{
	struct fixture *f = *state;
	f->sequence = 10;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 3, 100);
	append(f, 3, 100);
	f->start.sequence = 9; /* operation 10 is nowhere, and the log's start was made durable */
	expect_damage(f, "000001.wal", "at offset 4096:");
	f->start.position = f->written[0].end;
	f->start.sequence = 12;
	expect_replay(f, 1, 1);
	f->start.sequence = 13;
	expect_replay(f, 1, 2);
}

static void refusal_of_a_record_ends_the_replay(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	struct cairn_log_replay call = {
	    .directory = f->directory, .start = f->start, .apply = apply, .context = f};
	f->stop_at = f->count - 1;
	assert_int_equal(cairn_log_read(f->io, &call, &f->summary), 4711);
	assert_int_equal(f->applied, f->count - 1);
}

static void records_may_be_longer_than_what_is_read_at_once(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 40 * MIB);
	for (int i = 0; i < 4; i++)
		append(f, 1 + (uint32_t)i * 5, 300 * KIB);
	size_t size = 18 * MIB;
	uint8_t *body = malloc(size);
	uint8_t *value = malloc(size);
	memset(value, 'v', size);
	struct cairn_record record = {.key = {"k", 1}, .kind = CAIRN_KIND_PUT};
	record.value = cairn_slice_of(value, size - 11);
	record.checksum = (uint32_t)xxh(value, size - 11, xxh("k", 1, identity.hash_seed) ^ 1);
	assert_int_equal(cairn_log_operation_size(&record), size);
	cairn_log_operation_put(body, &record);
	append_body(f, body, size, ++f->sequence, 1);
	free(value);
	for (int i = 0; i < 400; i++)
		append(f, 1, 2000);
	sync_log(f);
	expect_replay(f, 0, f->count);
	assert_int_equal(f->summary.torn_bytes, 0);
	/* And searched: the long record is lost, what follows it bears witness. */
	append(f, 1, 10);
	const struct written *lost = &f->written[4];
	zero(f, number_of(lost->start), offset_of(lost->start), 20);
	char offset[64];
	snprintf(offset, sizeof offset, "at offset %u:", (unsigned)offset_of(lost->start));
	expect_damage(f, offset, ".wal");
	assert_int_equal(f->applied, 4);
}

/* Torn tails. */

/* Cuts the last three records at every byte: `fill` 0 cut the file, 1 zeros, 2 random bytes behind
 * the cut. */
static void tear_everywhere(struct fixture *f, int fill)
{
	struct image image = load(f, 1);
	uint8_t *whole = malloc(image.size);
	memcpy(whole, image.bytes, image.size);
	uint64_t end = offset_of(f->written[f->count - 1].end);
	for (uint64_t cut = offset_of(f->written[f->count - 3].start); cut <= end; cut++) {
		size_t size = fill == 0 ? (size_t)cut : image.size;
		for (uint64_t i = cut; i < end && fill; i++)
			image.bytes[i] = fill == 1 ? 0 : (uint8_t)test_random(&f->random);
		store(f, &image, size);
		size_t expected = f->count;
		while (offset_of(f->written[expected - 1].end) > cut)
			expected--;
		/* The padding of a record may be cut off and be there all the same. */
		const struct written *next = &f->written[expected];
		if (expected < f->count && fill == 1 &&
		    memcmp(image.bytes + offset_of(next->start), whole + offset_of(next->start),
			offset_of(next->end) - offset_of(next->start)) == 0)
			expected++;
		expect_replay(f, 0, expected);
		assert_int_equal(f->summary.end, f->written[expected - 1].end);
		memcpy(image.bytes, whole, image.size);
	}
	store(f, &image, image.size);
	expect_replay(f, 0, f->count);
	free(image.bytes);
	free(whole);
}

static void torn_tail_is_not_damage(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 5; i++)
		append(f, 2, 60);
	sync_log(f);
	for (int i = 0; i < 3; i++)
		append(f, 1 + (uint32_t)i, 60);
	kill_log(f);
	f->start.durable = f->written[4].end;
	for (int fill = 0; fill < 3; fill++)
		tear_everywhere(f, fill);
}

static void torn_bytes_are_those_of_records_with_a_header(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 4; i++)
		append(f, 1, 50);
	kill_log(f);
	uint64_t second = offset_of(f->written[1].start);
	uint64_t third = offset_of(f->written[2].start), end = offset_of(f->written[3].end);
	zero(f, 1, second + 20, 1); /* kind: never 0 */
	expect_replay(f, 0, 1);
	assert_int_equal(f->summary.torn_bytes, end - second);
	zero(f, 1, second, 8);
	expect_replay(f, 0, 1);
	assert_int_equal(f->summary.torn_bytes, end - third);
}

static void tail_that_the_manifest_saw_durable_is_damage_when_it_is_gone(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 50);
	append(f, 1, 50);
	sync_log(f);
	f->start.durable = cairn_log_durable(f->log);
	kill_log(f);
	expect_replay(f, 0, 2);
	zero(f, 1, offset_of(f->written[1].start) + 20, 1);
	char offset[64];
	snprintf(offset, sizeof offset, "at offset %u:", (unsigned)offset_of(f->written[1].start));
	expect_damage(f, "000001.wal", offset);
	assert_non_null(strstr(cairn_error_text(), "the manifest"));
	f->start.durable = f->written[1].start;
	expect_replay(f, 0, 1);
}

static void hole_in_an_older_segment_ends_the_log(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	kill_log(f);
	/* A page of segment 2 was never written; all of 3 and 4 was. */
	size_t first = 0;
	while (number_of(f->written[first].end) < 2 || offset_of(f->written[first].end) <= 8 * KIB)
		first++;
	zero(f, 2, 8 * KIB, 4 * KIB);
	expect_replay(f, 0, first);
	assert_int_equal(f->summary.segments, 2);
	assert_true(f->summary.torn_bytes > 64 * KIB);
}

static void hole_before_a_durable_record_is_damage(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	sync_log(f);
	append(f, 1, 10); /* the witness, in segment 4 */
	kill_log(f);
	expect_replay(f, 0, f->count);
	zero(f, 2, 8 * KIB, 4 * KIB);
	expect_damage(f, "000002.wal", "000004.wal");
}

static void lost_last_record_of_a_segment_is_a_hole(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	kill_log(f);
	size_t last = 0;
	while (number_of(f->written[last + 1].end) == 1)
		last++;
	zero(f, 1, offset_of(f->written[last].start), 20);
	expect_replay(f, 0, last);
	assert_int_equal(f->summary.segments, 1);
}

static void lost_link_ends_the_log_or_is_damage(void **state)
{
	struct fixture *f = *state;
	for (int synced = 0; synced < 2; synced++) {
		f->next_number = 1;
		f->sequence = 0;
		start_log(f, 64 * KIB, 64 * KIB);
		append_until(f, 3);
		if (synced)
			sync_log(f);
		append_until(f, 4);
		kill_log(f);
		size_t second = 0;
		while (number_of(f->written[second].end) < 2)
			second++;
		zero(f, 2, 4096, 40);
		if (synced)
			expect_damage(f, "000001.wal", "000003.wal");
		else
			expect_replay(f, 0, second);
		/* That of the first segment was durable from the beginning. */
		zero(f, 1, 4096, 40);
		expect_damage(f, "000001.wal", "at offset 4096:");
		forget_records(f);
		for (uint64_t i = 1; i <= 4; i++)
			assert_int_equal(unlink(path_of(f, i)), 0);
	}
}

static void stale_bytes_of_a_recycled_segment_are_never_records(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	uint64_t retired = 0;
	for (uint64_t ordinal = 2; ordinal < 12; ordinal++) {
		append_until(f, ordinal);
		retired = f->written[f->count - 2].end;
		assert_int_equal(cairn_log_retire(f->log, retired), 0);
		prepare(f);
		/* At this point all of the segment but its start is the past. */
		f->start.position = retired;
		f->start.sequence = f->written[f->count - 1].first - 1;
		assert_true(cairn_log_segment_at(
		    f->log, retired, &f->start.number, &f->start.salt, &f->start.ordinal));
		expect_replay(f, f->count - 1, f->count);
		assert_int_equal(f->summary.torn_bytes, 0);
		assert_int_equal(f->summary.end, cairn_log_end(f->log));
	}
	struct image image = load(f, f->start.number);
	assert_true(get(image.bytes + 32 * KIB, 8) != 0);
	free(image.bytes);
}

static void record_out_of_sequence_does_not_count(void **state)
{
	struct fixture *f = *state;
	size_t size;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 3, 50);
	uint8_t *body = make_body(f, 1, 50, &size);
	append_body(f, body, size, f->sequence + 2, 1);
	expect_replay(f, 0, 1);
	assert_int_equal(f->summary.end, f->written[0].end);
	assert_true(f->summary.torn_bytes > 0);
	/* The same again: an operation that was there already. */
	body = make_body(f, 1, 50, &size);
	append_body(f, body, size, f->sequence, 1);
	expect_replay(f, 0, 1);
	/* Not even that is an excuse when it had been durable. */
	sync_log(f);
	append(f, 1, 50);
	expect_damage(f, "000001.wal", "at offset");
}

/* Damage. */

static void damage_before_a_witness_is_reported(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 6; i++) {
		append(f, 2, 40);
		sync_log(f);
	}
	append(f, 1, 10);
	kill_log(f);
	struct image image = load(f, 1);
	for (size_t i = 0; i < 6; i++) {
		uint64_t start = offset_of(f->written[i].start), end = offset_of(f->written[i].end);
		char offset[64];
		snprintf(offset, sizeof offset, "at offset %u:", (unsigned)start);
		for (uint64_t byte = start; byte < end; byte++) {
			uint8_t wrong = (uint8_t)(image.bytes[byte] ^ (1 << byte % 8));
			poke(f, 1, byte, &wrong, 1);
			expect_damage(f, "000001.wal", offset);
			assert_int_equal(f->applied, i);
			assert_non_null(strstr(cairn_error_text(), "at risk"));
			poke(f, 1, byte, image.bytes + byte, 1);
		}
	}
	expect_replay(f, 0, 7);
	free(image.bytes);
}

static void mark_bears_witness_for_the_last_record(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 50);
	append(f, 1, 50);
	sync_log(f);
	uint64_t last = offset_of(f->written[1].start);
	struct image image = load(f, 1);
	zero(f, 1, last, 20);
	expect_replay(f, 0, 1); /* the open end of rule 8 */
	poke(f, 1, last, image.bytes + last, 20);
	assert_int_equal(cairn_log_mark(f->log, f->sequence), 0);
	expect_replay(f, 0, 2);
	zero(f, 1, last, 20);
	expect_damage(f, "000001.wal", "at offset");
	free(image.bytes);
}

static void witness_must_be_whole_and_plausible(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 50);
	append(f, 1, 50);
	sync_log(f);
	append(f, 1, 50);
	kill_log(f);
	zero(f, 1, offset_of(f->written[1].start), 20);
	expect_damage(f, "000001.wal", "at offset");
	/* Its body is damaged too: it says nothing any more. */
	struct image image = load(f, 1);
	uint64_t witness = offset_of(f->written[2].start);
	zero(f, 1, witness + 20, 1);
	expect_replay(f, 0, 1);
	/* A position behind itself, under right checksums: no writer ever said that. */
	uint8_t *header = image.bytes + witness;
	uint64_t salt = get(image.bytes + 64, 8);
	for (int i = 0; i < 4; i++)
		header[16 + i] = (uint8_t)((witness / 8 + 1) >> 8 * i);
	uint64_t sum = xxh(header + 4, 16, salt + witness);
	for (int i = 0; i < 4; i++)
		header[i] = (uint8_t)(sum >> 8 * i);
	store(f, &image, image.size);
	expect_replay(f, 0, 1);
	free(image.bytes);
}

static void any_flipped_bit_yields_a_prefix_or_an_error(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	for (int i = 0; i < 250; i++) {
		append(f, 2, 600);
		if (i % 10 == 0)
			sync_log(f);
	}
	kill_log(f);
	uint64_t segments = number_of(f->written[f->count - 1].end);
	assert_true(segments >= 3);
	int errors = 0;
	for (int i = 0; i < 400; i++) {
		uint64_t number = 1 + test_random(&f->random) % segments;
		uint64_t byte = test_random(&f->random) % (i % 4 ? 64 * KIB : 4300);
		struct image image = load(f, number);
		uint8_t wrong = (uint8_t)(image.bytes[byte] ^ (1 << i % 8));
		poke(f, number, byte, &wrong, 1);
		int rc = replay(f); /* what it applied was compared */
		assert_true(rc == 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
		errors += rc != 0;
		if (number + 1 < segments && byte < 60000)
			assert_true(rc < 0);
		poke(f, number, byte, image.bytes + byte, 1);
		free(image.bytes);
	}
	assert_true(errors > 200);
	expect_replay(f, 0, f->count);
}

/* A WRITE that is sound but for what it says. */
static void expect_malformed(struct fixture *f, const void *bytes, size_t size)
{
	uint8_t *body = malloc(size + 1);
	memcpy(body, bytes, size);
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 50);
	append_body(f, body, size, f->sequence + 1, 1);
	char offset[64];
	snprintf(offset, sizeof offset, "at offset %u:", (unsigned)offset_of(f->written[1].start));
	expect_damage(f, offset, "checksums of this log record are right");
	assert_int_equal(f->applied, 1);
	kill_log(f);
	forget_records(f);
	f->sequence = 0;
}

static void sound_record_that_makes_no_sense_is_damage(void **state)
{
	struct fixture *f = *state;
	uint8_t good[32];
	struct cairn_record record = {.key = {"key", 3}, .kind = CAIRN_KIND_DELETE};
	record.checksum = (uint32_t)xxh(NULL, 0, xxh("key", 3, identity.hash_seed) ^ 2);
	size_t size = (size_t)(cairn_log_operation_put(good, &record) - good);
	expect_malformed(f, "", 0);
	expect_malformed(f, "\0\0\0\0\0\0\0\0", 8);
	expect_malformed(f, "\7\3abckey", 9);
	expect_malformed(f, good, size - 3);
	good[2] ^= 1; /* the checksum of the operation */
	expect_malformed(f, good, size);
	good[2] ^= 1;
	memcpy(good + size, "\2\377\1", 3); /* a second operation that is cut */
	expect_malformed(f, good, size + 3);
}

/* Segments that are missing, foreign, or litter. */

static void missing_segment_is_an_error(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 5);
	f->start.durable = 0;
	kill_log(f);
	for (uint64_t number = 1; number < 5; number++) {
		struct image image = load(f, number);
		assert_int_equal(unlink(path_of(f, number)), 0);
		char name[32];
		snprintf(name, sizeof name, "%06u.wal", (unsigned)number);
		expect_damage(f, name, "missing");
		assert_int_equal(f->applied, 0);
		store(f, &image, image.size);
		free(image.bytes);
	}
	expect_replay(f, 0, f->count);
}

static void missing_last_segment_is_an_error_when_it_was_durable(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	sync_log(f);
	f->start.durable = cairn_log_durable(f->log);
	kill_log(f);
	assert_int_equal(unlink(path_of(f, 3)), 0);
	expect_damage(f, "000002.wal", "the manifest");
}

static void swapped_segments_are_an_error(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	kill_log(f);
	struct image two = load(f, 2), three = load(f, 3);
	two.number = 3;
	three.number = 2;
	store(f, &two, two.size);
	store(f, &three, three.size);
	expect_damage(f, "000002.wal", "renamed");
	free(two.bytes);
	free(three.bytes);
}

static void bad_header_is_an_error_from_the_first_live_segment_on(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 4);
	f->start.position = cairn_log_position(2, 4096);
	assert_true(cairn_log_segment_at(f->log, cairn_log_position(2, 4096), &f->start.number,
	    &f->start.salt, &f->start.ordinal));
	assert_int_equal(f->start.number, 2);
	size_t second = 0;
	while (number_of(f->written[second].end) < 2)
		second++;
	f->start.sequence = f->written[second].first - 1;
	kill_log(f);
	expect_replay(f, second, f->count);
	for (uint64_t number = 1; number <= 5; number++) {
		struct image image = {.number = number, .bytes = (uint8_t *)"", .size = 0};
		bool there = number < 5;
		if (there)
			image = load(f, number);
		store(f, &image, 0); /* an empty file */
		if (number < 2)
			expect_replay(f, second, f->count);
		else
			expect_damage(f, strrchr(path_of(f, number), '/') + 1, "ends");
		if (there) {
			store(f, &image, image.size);
			poke(f, number, 200, "x", 1);
			if (number < 2)
				expect_replay(f, second, f->count);
			else
				expect_damage(f, strrchr(path_of(f, number), '/') + 1, "checksum");
			store(f, &image, image.size);
			free(image.bytes);
		} else {
			assert_int_equal(unlink(path_of(f, number)), 0);
		}
	}
	poke(f, 3, 8, "\2", 1);
	assert_int_equal(replay(f), CAIRN_UNSUPPORTED);
}

static void segment_of_another_store_is_an_error(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 10);
	f->start.identity.store_id[15] ^= 1;
	expect_damage(f, "000001.wal", "another store");
	f->start.identity.store_id[15] ^= 1;
	f->start.identity.hash_seed++;
	expect_damage(f, "000001.wal", "another store");
	f->start.identity.hash_seed--;
	f->start.salt++;
	expect_damage(f, "000001.wal", "manifest");
	f->start.salt--;
	f->start.ordinal++;
	expect_damage(f, "000001.wal", "manifest");
	f->start.ordinal--;
	f->start.position = cairn_log_position(2, 4096);
	expect_damage(f, "position", "outside");
	f->start.position = 0;
	expect_replay(f, 0, 1);
}

static void prepared_segment_without_records_is_litter(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	while (cairn_log_bytes(f->log) < 128 * KIB) {
		append(f, 3, 500);
		prepare(f);
	}
	assert_int_equal(number_of(cairn_log_end(f->log)), 1);
	expect_replay(f, 0, f->count);
	assert_int_equal(f->summary.segments, 1);
	/* A longer record takes its place; put the file of the spare back beside it. */
	struct image spare = load(f, 2);
	append(f, 40, 10000);
	store(f, &spare, spare.size);
	append_until(f, 3);
	expect_replay(f, 0, f->count);
	assert_int_equal(f->summary.segments, 3);
	assert_int_equal(f->summary.torn_bytes, 0);
	free(spare.bytes);
}

static void unreached_segment_is_litter_without_records_only(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	kill_log(f);
	size_t first_only = 0;
	while (number_of(f->written[first_only].end) < 2)
		first_only++;
	assert_int_equal(unlink(path_of(f, 2)), 0);
	expect_damage(f, "000003.wal", "000002.wal");
	/* Even its last record alone would be lost. */
	uint64_t start = offset_of(f->written[f->count - 1].start);
	zero(f, 3, 4096, start - 4096);
	expect_damage(f, "000003.wal", "000002.wal");
	zero(f, 3, start, 8);
	expect_replay(f, 0, first_only);
}

static void log_that_no_manifest_named_is_ignored(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	kill_log(f);
	struct cairn_log_start start = f->start;
	struct written *written = f->written;
	size_t count = f->count;
	/* A recovery that copied records to a fresh log, and died. */
	f->written = NULL;
	f->count = 0;
	f->sequence = 0;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	sync_log(f);
	uint64_t fresh = f->start.number;
	expect_replay(f, 0, f->count);
	kill_log(f);
	forget_records(f);
	f->written = written;
	f->count = count;
	f->start = start;
	expect_replay(f, 0, count);
	assert_true(fresh > 3);
}

static void two_successors_with_records_are_an_error(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 2);
	kill_log(f);
	struct image twin = load(f, 2);
	twin.number = 7;
	twin.bytes[48] = 7;
	uint64_t sum = xxh(twin.bytes + 16, 4096 - 16, 0);
	for (int i = 0; i < 4; i++)
		twin.bytes[12 + i] = (uint8_t)(sum >> 8 * i);
	store(f, &twin, twin.size);
	expect_damage(f, "000007.wal", "000002.wal");
	free(twin.bytes);
}

/* Puts another LINK into segment 2, D unknown. */
static void forge_link(struct fixture *f, uint64_t base, uint64_t previous_end)
{
	_Alignas(8) uint8_t record[40] = {0};
	struct image image = load(f, 2);
	for (int i = 0; i < 8; i++) {
		record[20 + i] = (uint8_t)(base >> 8 * i);
		record[28 + i] = (uint8_t)(previous_end >> 8 * i);
	}
	struct cairn_log_place place = {get(image.bytes + 64, 8), 2, 4096};
	cairn_log_record_seal(record, &place, CAIRN_LOG_LINK, sizeof record, 0, 0);
	poke(f, 2, 4096, record, sizeof record);
	free(image.bytes);
}

static void link_that_contradicts_its_predecessor_is_not_followed(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 3);
	kill_log(f);
	size_t second = 0;
	while (number_of(f->written[second].end) < 2)
		second++;
	const struct written *last = &f->written[second - 1];
	uint64_t base = last->first + last->count - 1, end = offset_of(last->end);
	forge_link(f, base, end);
	expect_replay(f, 0, f->count);
	forge_link(f, base + 1, end);
	expect_replay(f, 0, second);
	forge_link(f, base - 1, end);
	expect_replay(f, 0, second);
	forge_link(f, base, end + 8);
	expect_replay(f, 0, second);
	forge_link(f, base, end - 8);
	expect_replay(f, 0, second - 1);
	forge_link(f, base, offset_of(last->start));
	expect_replay(f, 0, second - 1);
}

static void segment_at_another_place_of_the_chain_is_no_successor(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 2);
	kill_log(f);
	struct image two = load(f, 2);
	two.bytes[56]++; /* ordinal */
	uint64_t sum = xxh(two.bytes + 16, 4096 - 16, 0);
	for (int i = 0; i < 4; i++)
		two.bytes[12 + i] = (uint8_t)(sum >> 8 * i);
	struct cairn_log_place place = {get(two.bytes + 64, 8), 3, 4096};
	cairn_log_record_seal(two.bytes + 4096, &place, CAIRN_LOG_LINK, 40, 0, 0);
	store(f, &two, two.size);
	expect_damage(f, "000002.wal", "missing");
	free(two.bytes);
}

/* The disk, and a writer at work. */

static void failing_disk_is_passed_on(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append_until(f, 2);
	f->fail_read = true;
	assert_int_equal(replay(f), -EIO);
	assert_non_null(strstr(cairn_error_text(), "pread (by the test)"));
}

static void record_that_came_while_it_was_read_is_no_damage(void **state)
{
	struct fixture *f = *state;
	start_log(f, 64 * KIB, 64 * KIB);
	append(f, 1, 50);
	append(f, 1, 50);
	sync_log(f);
	append(f, 1, 50);
	snprintf(f->veiled, sizeof f->veiled, "000001.wal");
	f->veil_offset = offset_of(f->written[1].start);
	f->veil_times = 1;
	assert_int_equal(replay(f), CAIRN_CONFLICT);
	expect_replay(f, 0, 3);
	f->veil_times = 1000;
	expect_damage(f, "000001.wal", "at offset");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(replay_is_what_was_written),
	    CASE(empty_log_has_nothing_to_say),
	    CASE(replay_begins_at_the_position),
	    CASE(operations_that_are_in_runs_are_skipped),
	    CASE(log_that_begins_behind_the_sequence_is_not_joined),
	    CASE(refusal_of_a_record_ends_the_replay),
	    CASE(records_may_be_longer_than_what_is_read_at_once),
	    CASE(torn_tail_is_not_damage),
	    CASE(torn_bytes_are_those_of_records_with_a_header),
	    CASE(tail_that_the_manifest_saw_durable_is_damage_when_it_is_gone),
	    CASE(hole_in_an_older_segment_ends_the_log),
	    CASE(hole_before_a_durable_record_is_damage),
	    CASE(lost_last_record_of_a_segment_is_a_hole),
	    CASE(lost_link_ends_the_log_or_is_damage),
	    CASE(stale_bytes_of_a_recycled_segment_are_never_records),
	    CASE(record_out_of_sequence_does_not_count),
	    CASE(damage_before_a_witness_is_reported),
	    CASE(mark_bears_witness_for_the_last_record),
	    CASE(witness_must_be_whole_and_plausible),
	    CASE(any_flipped_bit_yields_a_prefix_or_an_error),
	    CASE(sound_record_that_makes_no_sense_is_damage),
	    CASE(missing_segment_is_an_error),
	    CASE(missing_last_segment_is_an_error_when_it_was_durable),
	    CASE(swapped_segments_are_an_error),
	    CASE(bad_header_is_an_error_from_the_first_live_segment_on),
	    CASE(segment_of_another_store_is_an_error),
	    CASE(prepared_segment_without_records_is_litter),
	    CASE(unreached_segment_is_litter_without_records_only),
	    CASE(log_that_no_manifest_named_is_ignored),
	    CASE(two_successors_with_records_are_an_error),
	    CASE(link_that_contradicts_its_predecessor_is_not_followed),
	    CASE(segment_at_another_place_of_the_chain_is_no_successor),
	    CASE(failing_disk_is_passed_on),
	    CASE(record_that_came_while_it_was_read_is_no_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
