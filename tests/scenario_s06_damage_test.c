/*
 * tests/scenario_s06_damage_test.c -- S06, and the second part of S03: whatever happens to the
 * files of a closed store, a read is right or says what is damaged, and verify finds it.
 *
 * The store is on a simulated disk (sim_io.h) and has runs with big values, long keys, tombstones
 * and blocks of one record, a log of two segments, a MANIFEST and a MANIFEST.old. Each damage is
 * done to a copy of the disk. Then everything is read: every key that there ever was by get and
 * by multi_get, scans in both directions that go on behind whatever they cannot read.
 *
 * Terms. A byte is *covered* when the store needs it or promises that it is zero: then verify must
 * find any change of it. Computed from the bytes of MANIFEST and log by format/README.md, covered
 * are
 *	MANIFEST       all of it
 *	runs           all of each that the manifest names, padding included
 *	log segments   from the first live one on: header, LINK, and the records from where replay
 *	               begins to where the segment ends
 * and nothing else. Not covered: MANIFEST.old, LOCK; of the log what was flushed before the place
 * where replay begins, and whatever stands behind the end of a segment. There, changes must go
 * unnoticed: verify finds nothing and every answer is right.
 *
 * The store was closed properly, so the durable position of the manifest is a witness for every
 * record of the log, and no damage passes for a torn tail.
 *
 * A manifest of an earlier time in the place of the present one cannot be told from a crash that
 * kept it, so the state of that time is accepted for it; but that whole state, never a mixture.
 *
 * Threads: none, so the allocations of the library can be counted (the linker wraps them).
 */
#include "tests/test.h"

#include <malloc.h>

#include "format/bytes.h"
#include "store/options.h"
#include "store/store.h"
#include "tests/match.h"
#include "tests/sample.h"
#include "tests/sim_io.h"

#define DIRECTORY     "/store"
#define PATH_SIZE     64u
#define FILES_MOST    32u
#define PASTS_MOST    8u
#define LONG_KEY      33000u /* two of them do not fit into a block */
#define BIG_VALUE     66000u /* its length needs 32 bits */
#define SEED_END      11u    /* of what a store has that its pasts do not have */
#define LOG_HEADER    4096u
#define LOG_LINK_SIZE 40u
#define MEMORY_FIXED  (UINT64_C(1) << 20) /* that the library may use for any store */

/* ---------------------------------------------------------------- counting memory */

static struct {
	bool counting;
	ptrdiff_t live, most;
} memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

static void count_memory(void *block, int sign)
{
	if (!memory.counting || !block || sim_disk_busy())
		return;
	memory.live += sign * (ptrdiff_t)malloc_usable_size(block);
	if (memory.live > memory.most)
		memory.most = memory.live;
}

void *__wrap_malloc(size_t size)
{
	void *block = __real_malloc(size);
	count_memory(block, 1);
	return block;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *block = __real_calloc(count, size);
	count_memory(block, 1);
	return block;
}

void *__wrap_realloc(void *old, size_t size)
{
	count_memory(old, -1);
	void *block = __real_realloc(old, size);
	count_memory(block, 1);
	return block;
}

void __wrap_free(void *old)
{
	count_memory(old, -1);
	__real_free(old);
}

/* ---------------------------------------------------------------- a store and its past */

struct past {
	struct sim_disk *disk;
	struct model model;
};

/* Bytes [from, to) of a file. */
struct range {
	char path[PATH_SIZE];
	size_t from, to;
};

struct file_list {
	char paths[FILES_MOST][PATH_SIZE];
	size_t count;
};

struct life {
	uint64_t random;  /* for keys, sizes, kinds */
	uint64_t content; /* for the bytes of values */
	struct sim_disk *disk;
	cairn *db; /* while it is open */
	struct model model;
	struct model
	    keys; /* all that were ever used, and neighbours of them; values mean nothing */
	struct past pasts[PASTS_MOST];
	size_t past_count;
	struct file_list files; /* all but LOCK */
	struct range covered[4 * FILES_MOST];
	size_t covered_count;
	uint64_t bytes; /* of all files */
};

static void store_options(cairn_options *options, bool read_only)
{
	cairn_options_init(options);
	options->no_background = 1;
	options->memtable_bytes = 65536;
	options->read_only = read_only;
}

static int open_store(struct sim_disk *disk, bool read_only, cairn **db)
{
	cairn_options options;
	store_options(&options, read_only);
	return cairn_open_with(sim_disk_io(disk), DIRECTORY, &options, db);
}

static struct sim_disk *copy_disk(struct sim_disk *disk, uint64_t seed)
{
	return sim_disk_crash(disk, SIM_LOSE_NOTHING, seed);
}

static void remember(struct life *life)
{
	struct past *past = &life->pasts[life->past_count++];
	assert_true(life->past_count <= PASTS_MOST);
	past->disk = copy_disk(life->disk, life->past_count);
	model_copy(&past->model, &life->model);
}

/* Half of the keys have 8 equal bytes in front, so that searches in a run must look left. */
static cairn_slice draw_key(struct life *life, char buffer[PATH_SIZE])
{
	const char *format = test_random(&life->random) & 1 ? "%03u" : "the same beginning/%03u";
	int size =
	    snprintf(buffer, PATH_SIZE, format, (unsigned)(test_random(&life->random) % 150));
	return (cairn_slice){buffer, (size_t)size};
}

static void put(struct life *life, cairn_batch *batch, cairn_slice key, cairn_slice value)
{
	assert_int_equal(
	    batch ? cairn_batch_put(batch, key, value) : cairn_put(life->db, key, value, 0), 0);
	model_put(&life->model, key, value);
	model_put(&life->keys, key, (cairn_slice){"", 0});
}

static void erase(struct life *life, cairn_batch *batch, cairn_slice key)
{
	assert_int_equal(
	    batch ? cairn_batch_delete(batch, key) : cairn_delete(life->db, key, 0), 0);
	model_delete(&life->model, key);
	model_put(&life->keys, key, (cairn_slice){"", 0});
}

/* Puts and deletes, directly or into a batch. */
static void write_records(struct life *life, cairn_batch *batch, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char text[PATH_SIZE];
		uint8_t bytes[300];
		cairn_slice key = draw_key(life, text);
		size_t size = (size_t)(test_random(&life->random) % sizeof bytes);
		if (test_random(&life->random) % 4 == 0)
			erase(life, batch, key);
		else
			put(life, batch, key, sample_bytes(&life->content, bytes, size));
	}
}

static void write_batch(struct life *life, size_t count)
{
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	write_records(life, batch, count);
	assert_int_equal(cairn_write(life->db, batch, 0), 0);
	cairn_batch_free(batch);
}

/* In one batch, so that they come into one run: two keys that fill a block each, a big value. */
static void write_big_records(struct life *life)
{
	static uint8_t bytes[BIG_VALUE];
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	memset(bytes, 'p', LONG_KEY);
	for (uint8_t i = 0; i < 2; i++) {
		bytes[LONG_KEY - 1] = i;
		put(life, batch, (cairn_slice){bytes, LONG_KEY}, (cairn_slice){"v", i});
	}
	put(life, batch, (cairn_slice){"", 0}, sample_bytes(&life->content, bytes, BIG_VALUE));
	write_records(life, batch, 20);
	assert_int_equal(cairn_write(life->db, batch, 0), 0);
	cairn_batch_free(batch);
}

static void flush(struct life *life)
{
	assert_int_equal(cairn_flush(life->db), 0);
}

static void close_store(struct life *life)
{
	assert_int_equal(cairn_close(life->db), 0);
	life->db = NULL;
}

static void begin_life(struct life *life, uint64_t seed)
{
	life->random = life->content = seed;
	life->disk = sim_disk_new(seed);
	assert_int_equal(open_store(life->disk, false, &life->db), 0);
	write_records(life, NULL, 40);
	remember(life);
	flush(life);
	remember(life);
	write_records(life, NULL, 40);
	assert_int_equal(cairn_compact(life->db), 0);
	remember(life);
	write_records(life, NULL, 60);
	flush(life);
	write_big_records(life);
	flush(life);
	remember(life);
	close_store(life);
	remember(life);
}

/* A newest run and a log, the same numbers of files for every seed. */
static void end_life(struct life *life, uint64_t seed, uint64_t content)
{
	life->random = seed;
	life->content = content;
	assert_int_equal(open_store(life->disk, false, &life->db), 0);
	write_records(life, NULL, 240);
	flush(life);
	remember(life);
	for (int i = 0; i < 6; i++) {
		write_records(life, NULL, 12);
		write_batch(life, 20);
	}
	close_store(life);
}

/* ---------------------------------------------------------------- what is covered */

static void add_file(void *context, const char *path)
{
	struct life *life = context;
	size_t size;
	sim_disk_file(life->disk, path, &size);
	life->bytes += size;
	if (strcmp(path, DIRECTORY "/LOCK") == 0)
		return;
	assert_true(life->files.count < FILES_MOST && strlen(path) < PATH_SIZE);
	snprintf(life->files.paths[life->files.count++], PATH_SIZE, "%s", path);
}

static void cover(struct life *life, const char *path, size_t from, size_t to)
{
	struct range *range = &life->covered[life->covered_count++];
	size_t size;
	assert_non_null(sim_disk_file(life->disk, path, &size));
	assert_true(from <= to && to <= size);
	*range = (struct range){.from = from, .to = to};
	snprintf(range->path, PATH_SIZE, "%s", path);
}

static void number_path(char path[PATH_SIZE], uint64_t number, const char *suffix)
{
	snprintf(path, PATH_SIZE, DIRECTORY "/%06llu.%s", (unsigned long long)number, suffix);
}

static void cover_runs(struct life *life, const uint8_t *manifest)
{
	const uint8_t *run = manifest + 152;
	for (uint32_t i = cairn_get32(manifest + 76); i > 0; i--) {
		uint32_t files = cairn_get32(run);
		uint64_t index = cairn_get64(run + 24);
		char path[PATH_SIZE];
		if (index) {
			number_path(path, index, "ix");
			cover(life, path, 0, (size_t)cairn_get64(run + 32));
		}
		run += 40;
		for (; files > 0; files--, run += 24) {
			number_path(path, cairn_get64(run), "kv");
			cover(life, path, 0, (size_t)cairn_get64(run + 8));
		}
	}
}

/* What the manifest names. */
static uint64_t first_segment(const struct life *life)
{
	size_t size;
	return cairn_get64(sim_disk_file(life->disk, DIRECTORY "/MANIFEST", &size) + 88);
}

/* The segment that names `number` as its predecessor; 0: none. */
static uint64_t next_segment(struct life *life, uint64_t number)
{
	for (size_t i = 0; i < life->files.count; i++) {
		size_t size;
		const char *path = life->files.paths[i];
		const uint8_t *bytes = sim_disk_file(life->disk, path, &size);
		if (strstr(path, ".wal") && cairn_get64(bytes + 72) == number)
			return cairn_get64(bytes + 48);
	}
	return 0;
}

static void cover_log(struct life *life, const uint8_t *manifest)
{
	uint64_t number = first_segment(life), ordinal = cairn_get64(manifest + 104);
	uint64_t position = cairn_get64(manifest + 112), durable = cairn_get64(manifest + 120);
	const uint64_t offset_bits = (UINT64_C(1) << 28) - 1;
	assert_true(number != 0);
	size_t from = position >> 28 == ordinal ? (size_t)(position & offset_bits) * 8 : 0;
	from = from < LOG_HEADER + LOG_LINK_SIZE ? LOG_HEADER + LOG_LINK_SIZE : from;
	for (; number; number = next_segment(life, number), ordinal++) {
		char path[PATH_SIZE], next_path[PATH_SIZE];
		uint64_t next = next_segment(life, number);
		size_t size, to = (size_t)(durable & offset_bits) * 8;
		number_path(path, number, "wal");
		number_path(next_path, next, "wal");
		if (next) /* its LINK says where this one ended */
			to = (size_t)cairn_get64(
			    sim_disk_file(life->disk, next_path, &size) + LOG_HEADER + 28);
		else
			assert_true(ordinal == durable >> 28);
		cover(life, path, 0, LOG_HEADER + LOG_LINK_SIZE);
		cover(life, path, from, to);
		from = LOG_HEADER + LOG_LINK_SIZE;
	}
}

/* Of a store that was closed. */
static void find_covered(struct life *life)
{
	size_t size;
	sim_disk_each(life->disk, add_file, life);
	const uint8_t *manifest = sim_disk_file(life->disk, DIRECTORY "/MANIFEST", &size);
	assert_non_null(manifest);
	cover(life, DIRECTORY "/MANIFEST", 0, size);
	cover_runs(life, manifest);
	cover_log(life, manifest);
}

/* Whether covered bytes of `disk` are not those of the store. The size of a run counts as well. */
static bool is_damaged(const struct life *life, struct sim_disk *disk)
{
	for (size_t i = 0; i < life->covered_count; i++) {
		const struct range *range = &life->covered[i];
		size_t size, now_size;
		const uint8_t *bytes = sim_disk_file(life->disk, range->path, &size);
		const uint8_t *now = sim_disk_file(disk, range->path, &now_size);
		if (!now || now_size < range->to ||
		    (!strstr(range->path, ".wal") && now_size != size))
			return true;
		if (memcmp(bytes + range->from, now + range->from, range->to - range->from) != 0)
			return true;
	}
	return false;
}

/* ---------------------------------------------------------------- reading all of it */

struct tally {
	size_t damages, covered, found;
	size_t opened, open_refused, compacted, compact_refused;
	size_t right, refused; /* answers */
	size_t older;          /* states of an earlier time */
};

struct reading {
	const struct life *life;
	const struct model *model;
	cairn *db;
	const char *damage; /* in words */
	bool wants_offset;  /* of every refusal */
	struct tally *tally;
	size_t right, refused;
};

/* The directory, and a file in it. */
static bool names_file(const char *message)
{
	return strstr(message, DIRECTORY) &&
	       (strstr(message, "MANIFEST") || strstr(message, ".kv") || strstr(message, ".wal"));
}

/* Of a code that says that something is damaged. */
static void check_refusal(const struct reading *reading, int rc, const char *message)
{
	bool good = (rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED) && names_file(message) &&
		    (!reading->wants_offset || strstr(message, ": at offset "));
	if (!good)
		fail_msg("%s: answer %d: %s", reading->damage, rc, message);
}

/* False: a wrong answer. */
static bool judge(struct reading *reading, cairn_slice key, int rc, cairn_slice value)
{
	size_t index = model_find(reading->model, key);
	if (rc < 0) {
		check_refusal(reading, rc, cairn_message(NULL));
		reading->refused++;
		return true;
	}
	reading->right++;
	if (index == MODEL_NONE)
		return rc == CAIRN_NOT_FOUND;
	return rc == 0 && model_equal(value, model_value(reading->model, index));
}

static bool read_gets(struct reading *reading)
{
	static uint8_t buffer[BIG_VALUE];
	const struct model *keys = &reading->life->keys;
	bool right = true;
	for (size_t i = 0; i < keys->count && right; i++) {
		size_t size;
		cairn_slice key = model_key(keys, i);
		int rc = cairn_get(reading->db, key, buffer, sizeof buffer, &size);
		right =
		    size <= sizeof buffer && judge(reading, key, rc, (cairn_slice){buffer, size});
	}
	return right;
}

static int judge_one(void *context, size_t i, int rc, cairn_slice value)
{
	struct reading *reading = context;
	return !judge(reading, model_key(&reading->life->keys, i), rc, value);
}

static bool read_multi_get(struct reading *reading)
{
	const struct model *all = &reading->life->keys;
	cairn_slice *keys = malloc(all->count * sizeof *keys);
	assert_non_null(keys);
	for (size_t i = 0; i < all->count; i++)
		keys[i] = model_key(all, i);
	int rc = cairn_multi_get(reading->db, keys, all->count, judge_one, reading);
	free(keys);
	return rc <= 0;
}

/* The record under the iterator, which has to be number `index`. */
static bool read_record(struct reading *reading, cairn_iter *iter, size_t index, int *rc)
{
	if (!model_equal(cairn_iter_key(iter), model_key(reading->model, index)))
		return false;
	cairn_slice value = cairn_iter_value(iter);
	*rc = cairn_iter_status(iter);
	return (value.data != NULL) == (*rc == 0) &&
	       judge(reading, model_key(reading->model, index), *rc, value);
}

/* What cannot be read is left out: the scan goes on by a search for the next key. */
static bool read_scan(struct reading *reading, cairn_iter *iter, bool forwards)
{
	const struct model *model = reading->model;
	int rc = forwards ? cairn_iter_first(iter) : cairn_iter_last(iter);
	for (size_t i = 0; i < model->count; i++) {
		size_t index = forwards ? i : model->count - 1 - i;
		if (rc < 0) {
			cairn_slice key = model_key(model, index);
			rc = forwards ? cairn_iter_seek(iter, key) : cairn_iter_seek_le(iter, key);
		}
		if (rc > 0 || (rc == 0 && !read_record(reading, iter, index, &rc)))
			return false;
		if (rc == 0)
			rc = forwards ? cairn_iter_next(iter) : cairn_iter_prev(iter);
		else
			judge(reading, model_key(model, index), rc, (cairn_slice){NULL, 0});
	}
	return rc < 0 || rc == CAIRN_END;
}

static bool read_scans(struct reading *reading)
{
	cairn_view *view;
	cairn_iter *iter;
	assert_int_equal(cairn_view_open(reading->db, &view), 0);
	assert_int_equal(cairn_iter_open(view, NULL, &iter), 0);
	bool right = read_scan(reading, iter, true) && read_scan(reading, iter, false);
	cairn_iter_close(iter);
	assert_int_equal(cairn_view_close(view), 0);
	return right;
}

/* False when an answer is neither right by `model` nor a refusal. */
static bool read_all(struct reading *reading, const struct model *model)
{
	reading->model = model;
	reading->right = reading->refused = 0;
	return read_gets(reading) && read_multi_get(reading) && read_scans(reading);
}

/* ---------------------------------------------------------------- examining a damaged store */

struct damage {
	const char *text;
	bool wants_offset;         /* of every refusal; not everything has a place */
	bool may_change;           /* what is covered has no say: a file was added */
	const struct model *older; /* a state that is accepted as well */
	bool write, compact;       /* try these too */
};

static int check_finding(void *context, const cairn_finding *finding)
{
	const struct reading *reading = context;
	if (strncmp(finding->path, DIRECTORY, strlen(DIRECTORY)) != 0 || !*finding->message)
		fail_msg(
		    "%s: verify says: %s: %s", reading->damage, finding->path, finding->message);
	return 0;
}

static bool verify_finds(struct reading *reading, struct sim_disk *disk)
{
	cairn_options options, resolved;
	store_options(&options, true);
	assert_int_equal(cairn_options_resolve(&options, &resolved), 0);
	int rc = cairn_verify_with(sim_disk_io(disk), DIRECTORY, &resolved, check_finding, reading);
	if (rc > 0)
		fail_msg("%s: verify answers %d", reading->damage, rc);
	return rc < 0;
}

/* All reads of an open store. `clean`: verify found nothing, so nothing may be refused. */
static void check_answers(struct reading *reading, const struct model *older, bool clean)
{
	bool now = read_all(reading, &reading->life->model);
	bool then = !now && older && read_all(reading, older);
	if (!now && !then)
		fail_msg(
		    "%s: a wrong answer; last message: %s", reading->damage, cairn_message(NULL));
	if (clean && reading->refused)
		fail_msg("%s: refused, but verify found nothing; last message: %s", reading->damage,
		    cairn_message(NULL));
	reading->tally->right += reading->right;
	reading->tally->refused += reading->refused;
	reading->tally->older += then;
}

/* False when the store could not be opened, and then nothing of it has changed. */
static bool try_open(struct reading *reading, struct sim_disk *disk, bool read_only)
{
	uint64_t before = sim_disk_fingerprint(disk);
	int rc = open_store(disk, read_only, &reading->db);
	reading->tally->opened += rc == 0;
	reading->tally->open_refused += rc < 0;
	if (rc == 0)
		return true;
	check_refusal(reading, rc, cairn_message(NULL));
	if (sim_disk_fingerprint(disk) != before)
		fail_msg("%s: an open that failed has changed the store", reading->damage);
	return false;
}

static void examine_reading(
    struct reading *reading, const struct damage *damage, struct sim_disk *disk, bool clean)
{
	uint64_t before = sim_disk_fingerprint(disk);
	if (try_open(reading, disk, true)) {
		check_answers(reading, damage->older, clean);
		assert_int_equal(cairn_close(reading->db), 0);
	} else if (clean) {
		fail_msg("%s: refused, but verify found nothing", reading->damage);
	}
	assert_true(sim_disk_fingerprint(disk) == before);
}

/* A merge passes over damage only where no record is: what comes out is then whole. */
static bool try_compact(struct reading *reading)
{
	int rc = cairn_compact(reading->db);
	reading->tally->compacted += rc == 0;
	reading->tally->compact_refused += rc < 0;
	if (rc)
		check_refusal(reading, rc, cairn_message(NULL));
	else if (!match_store(reading->db, &reading->life->model))
		fail_msg("%s: damage was merged", reading->damage);
	return rc == 0;
}

static void examine_writing(
    struct reading *reading, const struct damage *damage, struct sim_disk *disk, bool clean)
{
	if (!try_open(reading, disk, false))
		return;
	check_answers(reading, damage->older, clean);
	bool healed = damage->compact && try_compact(reading);
	assert_int_equal(cairn_close(reading->db), 0);
	if (verify_finds(reading, disk) != (!clean && !healed))
		fail_msg("%s: verify says otherwise after writing", reading->damage);
}

/* Takes the disk. */
static void examine(const struct life *life, struct sim_disk *disk, const struct damage *damage,
    struct tally *tally)
{
	struct reading reading = {.life = life,
	    .damage = damage->text,
	    .wants_offset = damage->wants_offset,
	    .tally = tally};
	bool damaged = is_damaged(life, disk);
	memory.live = 0;
	memory.counting = true;
	bool found = verify_finds(&reading, disk);
	tally->damages++;
	tally->covered += damaged;
	tally->found += found;
	if (!damage->may_change && found != damaged)
		fail_msg("%s: verify finds %s", damage->text, found ? "it" : "nothing");
	examine_reading(&reading, damage, disk, !found);
	memory.counting = false;
	if (damage->write)
		examine_writing(&reading, damage, disk, !found);
	assert_int_equal(sim_disk_open_count(disk), 0);
	sim_disk_free(disk);
}

static void print_tally(const struct life *life, const char *what, const struct tally *tally)
{
	printf("%s: %zu, %zu of covered bytes, %zu found by verify; opened %zu, refused %zu; "
	       "answers: %zu right, %zu refused; merges: %zu done, %zu refused; older states %zu; "
	       "memory %td of %llu\n",
	    what, tally->damages, tally->covered, tally->found, tally->opened, tally->open_refused,
	    tally->right, tally->refused, tally->compacted, tally->compact_refused, tally->older,
	    memory.most, (unsigned long long)life->bytes);
	assert_true((uint64_t)memory.most <= 4 * life->bytes + MEMORY_FIXED);
}

/* ---------------------------------------------------------------- bits, cuts, pages */

static size_t draw(struct life *life, size_t n)
{
	return (size_t)(test_random(&life->random) % n);
}

static const char *draw_file(struct life *life)
{
	return life->files.paths[draw(life, life->files.count)];
}

static size_t rounds(size_t small, size_t full)
{
	return test_full() ? full : small;
}

static void undamaged_store_reads_without_a_word(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	struct damage damage = {.text = "nothing", .write = true, .compact = true};
	assert_true(life->files.count >= 8);
	examine(life, copy_disk(life->disk, 1), &damage, &tally);
	assert_int_equal(tally.found + tally.open_refused + tally.refused, 0);
	print_tally(life, "undamaged", &tally);
}

static void one_flipped_bit_is_found_and_never_read(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	for (size_t i = 0; i < rounds(2000, 100000); i++) {
		struct sim_disk *disk = copy_disk(life->disk, i);
		const char *path = draw_file(life);
		char text[2 * PATH_SIZE];
		size_t size;
		uint8_t *bytes = sim_disk_change(disk, path, &size);
		size_t bit = draw(life, size * 8);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		snprintf(text, sizeof text, "%s: bit %zu of byte %zu", path, bit % 8, bit / 8);
		struct damage damage = {
		    .text = text, .wants_offset = true, .write = i % 4 == 0, .compact = i % 8 == 0};
		examine(life, disk, &damage, &tally);
	}
	assert_true(tally.covered < tally.damages && tally.refused && tally.open_refused);
	print_tally(life, "flipped bits", &tally);
}

static void a_cut_file_is_found_and_never_read(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	for (size_t i = 0; i < rounds(200, 5000); i++) {
		struct sim_disk *disk = copy_disk(life->disk, i);
		const char *path = draw_file(life);
		char text[2 * PATH_SIZE];
		size_t size;
		const uint8_t *bytes = sim_disk_file(life->disk, path, &size);
		size = draw(life, size);
		sim_disk_put(disk, path, bytes, size);
		snprintf(text, sizeof text, "%s: cut to %zu bytes", path, size);
		struct damage damage = {.text = text, .write = i % 4 == 0, .compact = i % 8 == 0};
		examine(life, disk, &damage, &tally);
	}
	print_tally(life, "cuts", &tally);
}

/* Blocks of a disk that were never written, or with something else. */
static void spoil_units(struct life *life, size_t unit, bool garbage, const char *what)
{
	struct tally tally = {0};
	for (size_t i = 0; i < rounds(100, 2500); i++) {
		struct sim_disk *disk = copy_disk(life->disk, i);
		const char *path = draw_file(life);
		char text[2 * PATH_SIZE];
		size_t size;
		uint8_t *bytes = sim_disk_change(disk, path, &size);
		size_t at = draw(life, (size + unit - 1) / unit) * unit;
		size_t count = size - at < unit ? size - at : unit;
		if (garbage)
			sample_bytes(&life->random, bytes + at, count);
		else
			memset(bytes + at, 0, count);
		snprintf(text, sizeof text, "%s: %zu bytes at %zu %s", path, count, at, what);
		struct damage damage = {
		    .text = text, .wants_offset = true, .write = i % 4 == 0, .compact = i % 8 == 0};
		examine(life, disk, &damage, &tally);
	}
	print_tally(life, what, &tally);
}

static void zeroed_and_overwritten_blocks_are_found_and_never_read(void **state)
{
	spoil_units(*state, 512, false, "zeroed sectors");
	spoil_units(*state, 4096, false, "zeroed pages");
	spoil_units(*state, 4096, true, "pages of garbage");
}

/* ---------------------------------------------------------------- whole files */

/* The file `from` of `source` in the place of `to`; none when `from` is NULL. */
static void replace_file(struct life *life, struct sim_disk *source, const char *from,
    const char *to, struct damage damage, struct tally *tally)
{
	struct sim_disk *disk = copy_disk(life->disk, 1);
	char text[4 * PATH_SIZE];
	size_t size;
	if (from) {
		const uint8_t *bytes = sim_disk_file(source, from, &size);
		sim_disk_put(disk, to, bytes, size);
	} else {
		assert_true(sim_disk_remove(disk, to));
	}
	snprintf(text, sizeof text, "%s: %s in the place of %s", damage.text,
	    from ? from : "nothing", to);
	damage.text = text;
	examine(life, disk, &damage, tally);
}

static void a_missing_file_is_named(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	struct damage damage = {.text = "missing", .write = true};
	for (size_t i = 0; i < life->files.count; i++)
		replace_file(life, NULL, NULL, life->files.paths[i], damage, &tally);
	assert_true(tally.covered == life->files.count - 1); /* nobody misses MANIFEST.old */
	print_tally(life, "missing files", &tally);
}

static bool is_manifest(const char *path)
{
	return strcmp(path, DIRECTORY "/MANIFEST") == 0;
}

static void swapped_files_are_found(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	for (size_t i = 0; i < life->files.count; i++) {
		for (size_t k = 0; k < i; k++) {
			const char *a = life->files.paths[i], *b = life->files.paths[k];
			struct sim_disk *disk = copy_disk(life->disk, 1);
			char text[4 * PATH_SIZE];
			size_t size;
			const uint8_t *bytes = sim_disk_file(life->disk, a, &size);
			sim_disk_put(disk, b, bytes, size);
			bytes = sim_disk_file(life->disk, b, &size);
			sim_disk_put(disk, a, bytes, size);
			snprintf(text, sizeof text, "swapped: %s and %s", a, b);
			/* MANIFEST.old is a manifest of this store, and says the same of it. */
			struct damage damage = {.text = text,
			    .may_change = is_manifest(b) && strstr(a, "MANIFEST.old")};
			examine(life, disk, &damage, &tally);
		}
	}
	print_tally(life, "swapped files", &tally);
}

/* Whether both have the part of their names behind the number or, without one, the whole name. */
static bool same_kind(const char *a, const char *b)
{
	const char *x = strrchr(a, '.'), *y = strrchr(b, '.');
	return strcmp(x ? x : a, y ? y : b) == 0;
}

/* Each file of `source` in the place of each of its kind. */
static void replace_each(
    struct life *life, struct sim_disk *source, struct damage damage, struct tally *tally)
{
	struct life other = {.disk = source};
	sim_disk_each(source, add_file, &other);
	for (size_t i = 0; i < other.files.count; i++) {
		for (size_t k = 0; k < life->files.count; k++) {
			const char *from = other.files.paths[i], *to = life->files.paths[k];
			if (!same_kind(from, to))
				continue;
			struct damage one = damage;
			one.may_change = damage.older && is_manifest(to);
			one.older = is_manifest(to) ? damage.older : NULL;
			replace_file(life, source, from, to, one, tally);
		}
	}
}

static void a_file_of_an_earlier_time_is_found(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	for (size_t i = 0; i < life->past_count; i++) {
		struct damage damage = {.text = "earlier", .older = &life->pasts[i].model};
		replace_each(life, life->pasts[i].disk, damage, &tally);
	}
	print_tally(life, "files of an earlier time", &tally);
}

static void release_life(struct life *life)
{
	sim_disk_free(life->disk);
	model_release(&life->model);
	model_release(&life->keys);
	for (size_t i = 0; i < life->past_count; i++) {
		sim_disk_free(life->pasts[i].disk);
		model_release(&life->pasts[i].model);
	}
}

/* Written by a copy of this store: the same id, the same numbers, even the same old runs. */
static void replace_by_twin(struct life *life, uint64_t seed, const char *what)
{
	struct life twin = {.disk = copy_disk(life->pasts[4].disk, 77)};
	struct tally tally = {0};
	end_life(&twin, seed, 77);
	replace_each(life, twin.disk, (struct damage){.text = what}, &tally);
	assert_true(tally.covered > 0);
	print_tally(life, what, &tally);
	release_life(&twin);
}

static void a_file_of_a_restored_copy_is_found(void **state)
{
	replace_by_twin(*state, SEED_END + 1, "files of a copy that went its own way");
}

/* The same keys and sizes in the same order: only the bytes of values differ. */
static void a_file_of_a_copy_with_equal_keys_is_found(void **state)
{
	replace_by_twin(*state, SEED_END, "files of a copy with equal keys");
}

static void a_file_of_another_store_is_found(void **state)
{
	struct life *life = *state, other = {0};
	struct tally tally = {0};
	begin_life(&other, 99);
	end_life(&other, 98, 98);
	replace_each(life, other.disk, (struct damage){.text = "foreign"}, &tally);
	print_tally(life, "files of another store", &tally);
	release_life(&other);
}

/* A copy under a number that nobody uses: before all others, and behind them. */
static void a_second_copy_of_a_file_does_no_harm(void **state)
{
	struct life *life = *state;
	struct tally tally = {0};
	static const char *const names[] = {"000001.kv", "000001.wal", "900000.kv", "900000.wal"};
	struct damage damage = {.text = "twice", .may_change = true};
	for (size_t i = 0; i < life->files.count; i++) {
		for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
			char to[PATH_SIZE];
			size_t size;
			snprintf(to, sizeof to, DIRECTORY "/%s", names[k]);
			assert_null(sim_disk_file(life->disk, to, &size));
			if (same_kind(life->files.paths[i], to))
				replace_file(
				    life, life->disk, life->files.paths[i], to, damage, &tally);
		}
	}
	print_tally(life, "second copies", &tally);
}

/* ---------------------------------------------------------------- S03 */

/* Offsets of the WRITE records of the one segment of a log, by format/README.md. */
static size_t find_writes(const uint8_t *segment, size_t size, size_t *offsets, size_t most)
{
	size_t count = 0, at = LOG_HEADER;
	while (at + 20 <= size && cairn_get32(segment + at + 8)) {
		uint32_t word = cairn_get32(segment + at + 8);
		if (word >> 28 == 2 && count < most)
			offsets[count++] = at;
		at += (size_t)(word & ((1u << 28) - 1)) * 8;
	}
	return count;
}

/* Of 64 keys with one value each, the same in all of them, of 100 bytes or, some, much more. */
static void write_marked_batch(struct life *life, char mark)
{
	static char value[30000];
	cairn_batch *batch = cairn_batch_new();
	assert_non_null(batch);
	memset(value, mark, sizeof value);
	for (unsigned i = 0; i < 64; i++) {
		char key[8];
		snprintf(key, sizeof key, "%02u", i);
		size_t size = i == 40 && mark == 'b' ? sizeof value : 100 + i;
		put(life, batch, (cairn_slice){key, 2}, (cairn_slice){value, size});
	}
	assert_int_equal(cairn_write(life->db, batch, 0), 0);
	cairn_batch_free(batch);
}

static void check_half_zeroed(const struct life *life, size_t batch, struct tally *tally)
{
	struct sim_disk *disk = copy_disk(life->disk, 1);
	size_t size, offsets[4];
	char path[PATH_SIZE];
	number_path(path, first_segment(life), "wal");
	uint8_t *bytes = sim_disk_change(disk, path, &size);
	assert_int_equal(find_writes(bytes, size, offsets, 4), 3);
	size_t at = offsets[batch], half = (cairn_get32(bytes + at + 8) & ((1u << 28) - 1)) * 4;
	memset(bytes + at + half, 0, half);
	char expected[2 * PATH_SIZE];
	snprintf(expected, sizeof expected, "%s: at offset %zu: ", path, at);
	cairn *db;
	assert_int_equal(open_store(disk, true, &db), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_message(NULL), expected));
	struct damage damage = {.text = expected, .wants_offset = true, .write = true};
	examine(life, disk, &damage, tally);
}

static void a_batch_with_zeros_in_its_second_half_is_refused_whole(void **state)
{
	(void)state;
	struct life life = {.random = 3, .disk = sim_disk_new(3)};
	struct tally tally = {0};
	cairn_options options;
	store_options(&options, false);
	options.memtable_bytes = 1u << 20; /* all three stay in the log */
	assert_int_equal(cairn_open_with(sim_disk_io(life.disk), DIRECTORY, &options, &life.db), 0);
	for (char mark = 'a'; mark <= 'c'; mark++)
		write_marked_batch(&life, mark);
	close_store(&life);
	find_covered(&life);
	for (size_t batch = 0; batch < 3; batch++)
		check_half_zeroed(&life, batch, &tally);
	assert_int_equal(tally.found, 3);
	release_life(&life);
}

/* ---------------------------------------------------------------- the store */

/* Keys that are not there, beside those that are. */
static void add_neighbours(struct life *life)
{
	for (unsigned i = 0; i < 150; i += 10) {
		char key[PATH_SIZE];
		int size = snprintf(key, sizeof key, "the same beginning/%03u!", i);
		model_put(&life->keys, (cairn_slice){key, (size_t)size}, (cairn_slice){"", 0});
	}
	model_put(&life->keys, (cairn_slice){"\xff", 1}, (cairn_slice){"", 0});
}

static int enter(void **state)
{
	static struct life life;
	uint64_t seed = test_seed(6);
	begin_life(&life, seed);
	end_life(&life, SEED_END, seed);
	add_neighbours(&life);
	find_covered(&life);
	for (size_t i = 0; i < life.files.count; i++) {
		size_t size;
		sim_disk_file(life.disk, life.files.paths[i], &size);
		printf("%s: %zu bytes\n", life.files.paths[i], size);
	}
	*state = &life;
	return 0;
}

static int leave(void **state)
{
	release_life(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(undamaged_store_reads_without_a_word),
	    cmocka_unit_test(one_flipped_bit_is_found_and_never_read),
	    cmocka_unit_test(a_cut_file_is_found_and_never_read),
	    cmocka_unit_test(zeroed_and_overwritten_blocks_are_found_and_never_read),
	    cmocka_unit_test(a_missing_file_is_named),
	    cmocka_unit_test(swapped_files_are_found),
	    cmocka_unit_test(a_file_of_an_earlier_time_is_found),
	    cmocka_unit_test(a_file_of_a_restored_copy_is_found),
	    cmocka_unit_test(a_file_of_a_copy_with_equal_keys_is_found),
	    cmocka_unit_test(a_file_of_another_store_is_found),
	    cmocka_unit_test(a_second_copy_of_a_file_does_no_harm),
	    cmocka_unit_test(a_batch_with_zeros_in_its_second_half_is_refused_whole),
	};
	return cmocka_run_group_tests(tests, enter, leave);
}
