/*
 * tests/store_log_rules_test.c -- the rules of the log (wal/README.md), shown on whole stores.
 *
 * A store on a simulated disk is written, killed or left without power, mistreated, and opened.
 * What must come of it follows from a walk over the records by hand (log_walk.h) and from the
 * history of the writes (crash_history.h). What the units show (wal_log_reader_test,
 * wal_log_writer_test) is not repeated here.
 */
#include "tests/test.h"

#include <errno.h>

#include "format/error.h"
#include "format/filename.h"
#include "store/options.h"
#include "store/store.h"
#include "tests/log_life.h"
#include "tests/log_walk.h"

#define KIB    1024u
#define MIB    (1024u * 1024u)
#define SECTOR 512u

static uint64_t seed;

static void begin(struct log_life *life, size_t memtable_bytes)
{
	log_life_begin(life, seed, memtable_bytes);
}

/* Of things that are many: one in so many is looked at, and at full size each. */
static unsigned one_in(unsigned many)
{
	return test_full() ? 1 : many;
}

static struct sim_disk *copy_of(const struct log_life *life, enum sim_loss loss)
{
	return sim_disk_crash(life->disk, loss, life->history.count);
}

/* A disk on which nothing longer than this can be made under a temporary name: segments. */
static uint64_t longest;
static const struct cairn_io_ops *roomy;
static struct cairn_io_ops crowded;

static int allocate_short(struct cairn_file *file, uint64_t size)
{
	if (strstr(file->path, ".tmp") && size > longest)
		return cairn_error_system(-ENOSPC, file->path, "allocate (by the test)");
	return roomy->allocate(file, size);
}

static void crowd(struct log_life *life, uint64_t size)
{
	struct cairn_io *io = sim_disk_io(life->disk);
	longest = size;
	if (io->ops == &crowded)
		return;
	roomy = io->ops;
	crowded = *roomy;
	crowded.allocate = allocate_short;
	io->ops = &crowded;
}

/* Until the log has `segments` segments of 256 KiB. */
static void fill_segments(struct log_life *life, size_t segments, unsigned sync_every)
{
	struct log_walk walk = {.segment_count = 0};
	crowd(life, 256 * KIB);
	for (unsigned i = 1; walk.segment_count < segments; i++) {
		log_life_put(life, 8 + test_random(&life->random) % 20000,
		    sync_every && i % sync_every == 0);
		log_walk_release(&walk);
		log_walk_read(&walk, life->disk, LOG_LIFE_STORE);
	}
	for (int i = 0; i < 5; i++)
		log_life_put(life, 100, false);
	log_walk_release(&walk);
}

/* ---------------------------------------------------------------- torn or damaged */

/* What the rule says of a log some of whose records are gone. */
struct ruling {
	bool damage;
	char place[160]; /* of the damage, as messages begin */
	size_t steps;    /* that are left when it is none */
};

/* Where the replay ends when this record is not there: a segment that has lost its LINK was never
 * begun, so that is the end of the one before. */
static const struct log_segment *end_of_replay(
    const struct log_walk *walk, const struct log_entry *lost, uint64_t *offset)
{
	*offset = lost->offset;
	if (lost->type != CAIRN_LOG_LINK || lost->segment == 0)
		return &walk->segments[lost->segment];
	*offset = walk->segments[lost->segment - 1].end;
	return &walk->segments[lost->segment - 1];
}

/* Nothing of this log is in runs, so each of its WRITE records is one step more. */
static void apply_rule(const struct log_walk *walk, const bool *lost, struct ruling *ruling)
{
	size_t first = 0;
	*ruling = (struct ruling){.damage = false};
	for (; first < walk->entry_count && !lost[first]; first++)
		ruling->steps += walk->entries[first].type == CAIRN_LOG_WRITE;
	if (first == walk->entry_count)
		return;
	uint64_t offset;
	const struct log_segment *segment = end_of_replay(walk, &walk->entries[first], &offset);
	uint64_t end = cairn_log_position(segment->header.ordinal, offset);
	ruling->damage = walk->manifest.log_durable > end;
	for (size_t i = first; i < walk->entry_count; i++)
		if (!lost[i] && walk->entries[i].durable > end)
			ruling->damage = true;
	snprintf(ruling->place, sizeof ruling->place, "%s: at offset %llu: ", segment->path,
	    (unsigned long long)offset);
}

static int note_place(void *context, const cairn_finding *finding)
{
	char *place = context;
	snprintf(
	    place, 160, "%s: at offset %llu: ", finding->path, (unsigned long long)finding->offset);
	return 0;
}

static void expect_damage(struct sim_disk *disk, const char *place)
{
	cairn_options options, resolved;
	crash_options(&options);
	cairn_options_resolve(&options, &resolved);
	char found[160] = "";
	assert_int_equal(
	    cairn_verify_with(sim_disk_io(disk), LOG_LIFE_STORE, &resolved, note_place, found),
	    CAIRN_CORRUPT);
	assert_string_equal(found, place);
	/* The second time is like the first: nothing was changed by the attempt. */
	for (int i = 0; i < 2; i++) {
		cairn *db;
		int rc = cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &options, &db);
		assert_int_equal(rc, CAIRN_CORRUPT);
		assert_ptr_equal(strstr(cairn_message(NULL), place), cairn_message(NULL));
	}
}

struct outcome {
	unsigned torn, damaged;
};

static void expect_ruling(const struct log_life *life, const struct log_walk *walk,
    struct sim_disk *disk, const bool *lost, struct outcome *outcome)
{
	struct ruling ruling;
	apply_rule(walk, lost, &ruling);
	if (ruling.damage)
		expect_damage(disk, ruling.place);
	else
		log_life_check(life, disk, ruling.steps, ruling.steps);
	outcome->damaged += ruling.damage;
	outcome->torn += !ruling.damage;
}

static void lose_record(
    const struct log_life *life, const struct log_walk *walk, size_t which, struct outcome *outcome)
{
	struct sim_disk *disk = copy_of(life, SIM_LOSE_NOTHING);
	const struct log_entry *entry = &walk->entries[which];
	bool *lost = calloc(walk->entry_count, sizeof *lost);
	size_t size;
	uint8_t *bytes = sim_disk_change(disk, walk->segments[entry->segment].path, &size);
	memset(bytes + entry->offset, 0, (size_t)entry->size);
	lost[which] = true;
	expect_ruling(life, walk, disk, lost, outcome);
	free(lost);
	sim_disk_free(disk);
}

/* Each record of a log of three segments in turn. */
static void lose_each_record(unsigned sync_every, struct outcome *outcome)
{
	struct log_life life;
	struct log_walk walk;
	begin(&life, MIB);
	fill_segments(&life, 3, sync_every);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	for (size_t i = 0; i < walk.entry_count; i++)
		if (i % one_in(4) == 0 || walk.entries[i].type == CAIRN_LOG_LINK ||
		    i + 8 > walk.entry_count)
			lose_record(&life, &walk, i, outcome);
	printf("of records lost one at a time %u read as torn, %u as damage\n", outcome->torn,
	    outcome->damaged);
	log_walk_release(&walk);
	log_life_end(&life);
}

static void a_record_lost_before_a_witness_is_damage(void **state)
{
	(void)state;
	struct outcome outcome = {0, 0};
	lose_each_record(1, &outcome);
	/* The last one that was synced, those that were not, and what is between. */
	assert_true(outcome.torn >= 5 && outcome.torn <= 7);
	outcome = (struct outcome){0, 0};
	lose_each_record(7, &outcome);
	assert_true(outcome.torn >= 5 && outcome.damaged > 0);
}

/* Records behind the hole are whole, in its segment and in later ones: none of them is replayed. */
static void a_record_lost_before_nobody_was_promised_it_ends_the_log(void **state)
{
	(void)state;
	struct outcome outcome = {0, 0};
	lose_each_record(0, &outcome);
	/* The first LINK: the segment was synced with it. */
	assert_true(outcome.damaged <= 1);
}

/* Zeroes sectors with records in them; `lost` are the records that differ now. */
static void lose_sectors(struct log_life *life, const struct log_walk *walk, struct sim_disk *disk,
    unsigned count, bool *lost)
{
	while (count--) {
		const struct log_segment *segment =
		    &walk->segments[test_random(&life->random) % walk->segment_count];
		uint64_t sectors = (segment->end - CAIRN_LOG_HEADER_SIZE + SECTOR - 1) / SECTOR;
		uint64_t at = CAIRN_LOG_HEADER_SIZE + test_random(&life->random) % sectors * SECTOR;
		size_t size;
		memset(sim_disk_change(disk, segment->path, &size) + at, 0, SECTOR);
	}
	for (size_t i = 0; i < walk->entry_count; i++) {
		const struct log_entry *entry = &walk->entries[i];
		const char *path = walk->segments[entry->segment].path;
		size_t size;
		const uint8_t *before = sim_disk_file(life->disk, path, &size) + entry->offset;
		const uint8_t *now = sim_disk_file(disk, path, &size) + entry->offset;
		lost[i] = memcmp(before, now, (size_t)entry->size) != 0;
	}
}

static void holes_are_judged_by_what_was_durable(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	struct outcome outcome = {0, 0};
	begin(&life, MIB);
	fill_segments(&life, 3, 6);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	bool *lost = calloc(walk.entry_count, sizeof *lost);
	for (unsigned i = 0; i < (test_full() ? 600 : 30); i++) {
		struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
		lose_sectors(&life, &walk, disk, 1 + i % 4, lost);
		expect_ruling(&life, &walk, disk, lost, &outcome);
		sim_disk_free(disk);
	}
	printf("%u holes read as torn, %u as damage\n", outcome.torn, outcome.damaged);
	assert_true(outcome.damaged > 0);
	free(lost);
	log_walk_release(&walk);
	log_life_end(&life);
}

/* ---------------------------------------------------------------- the chain */

static void lose_segment(
    const struct log_life *life, const struct log_walk *walk, size_t which, struct outcome *outcome)
{
	struct sim_disk *disk = copy_of(life, SIM_LOSE_NOTHING);
	bool *lost = calloc(walk->entry_count, sizeof *lost);
	for (size_t i = 0; i < walk->entry_count; i++)
		lost[i] = walk->entries[i].segment == which;
	assert_true(sim_disk_remove(disk, walk->segments[which].path));
	if (which + 1 == walk->segment_count) {
		expect_ruling(life, walk, disk, lost, outcome);
	} else {
		cairn *db;
		char name[32];
		snprintf(name, sizeof name, "%06llu.wal",
		    (unsigned long long)walk->segments[which].header.number);
		assert_int_equal(
		    cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &life->options, &db),
		    CAIRN_CORRUPT);
		assert_non_null(strstr(cairn_message(NULL), name));
		assert_non_null(strstr(cairn_message(NULL), "missing"));
		outcome->damaged++;
	}
	free(lost);
	sim_disk_free(disk);
}

/* The last segment of a store that was killed has no witness left when its file is gone. */
static void a_missing_segment_is_an_error_when_it_has_a_successor(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	struct outcome outcome = {0, 0};
	begin(&life, MIB);
	fill_segments(&life, 3, 3);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	for (size_t i = 0; i < walk.segment_count; i++)
		lose_segment(&life, &walk, i, &outcome);
	assert_int_equal(outcome.damaged, 2);
	assert_int_equal(outcome.torn, 1);
	log_walk_release(&walk);
	log_life_end(&life);
}

static void a_missing_last_segment_of_a_closed_store_is_an_error(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	struct outcome outcome = {0, 0};
	begin(&life, 64 * KIB);
	for (int i = 0; i < 3; i++)
		log_life_put(&life, i < 2 ? 20000 : 30000, false);
	log_life_close(&life);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	assert_int_equal(walk.segment_count, 2);
	lose_segment(&life, &walk, 1, &outcome);
	assert_int_equal(outcome.damaged, 1);
	log_walk_release(&walk);
	log_life_end(&life);
}

static void replace_file(struct sim_disk *disk, const char *path, const char *by)
{
	size_t size;
	const uint8_t *bytes = sim_disk_file(disk, by, &size);
	uint8_t *copy = malloc(size);
	memcpy(copy, bytes, size);
	sim_disk_put(disk, path, copy, size);
	free(copy);
}

static void expect_refusal(const struct log_life *life, struct sim_disk *disk, const char *path)
{
	cairn *db;
	assert_int_equal(
	    cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &life->options, &db), CAIRN_CORRUPT);
	assert_non_null(strstr(cairn_message(NULL), path));
	sim_disk_free(disk);
}

static void segments_that_changed_places_are_an_error(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	begin(&life, MIB);
	fill_segments(&life, 3, 3);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	for (size_t i = 0; i < walk.segment_count; i++) {
		for (size_t k = i + 1; k < walk.segment_count; k++) {
			const char *a = walk.segments[i].path, *b = walk.segments[k].path;
			struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
			replace_file(disk, "/aside", a);
			replace_file(disk, a, b);
			replace_file(disk, b, "/aside");
			expect_refusal(&life, disk, a);
		}
	}
	log_walk_release(&walk);
	log_life_end(&life);
}

/* ---------------------------------------------------------------- headers */

enum header_fault {
	HEADER_OF_ZEROS,
	HEADER_OF_NOISE,
	HEADER_FLIPPED,
	HEADER_OF_ANOTHER_STORE,
	HEADER_OF_ANOTHER_NUMBER,
	HEADER_CUT,
	HEADER_FAULTS
};

/* Does it to the file at `path`. */
static void spoil_header(
    struct log_life *life, struct sim_disk *disk, const char *path, enum header_fault fault)
{
	size_t size;
	uint8_t *bytes = sim_disk_change(disk, path, &size);
	struct cairn_log_segment_header header;
	assert_int_equal(cairn_log_segment_header_decode(&header, bytes, path), 0);
	switch (fault) {
	case HEADER_OF_ZEROS:
		memset(bytes, 0, CAIRN_LOG_HEADER_SIZE);
		break;
	case HEADER_OF_NOISE:
		for (size_t i = 0; i < CAIRN_LOG_HEADER_SIZE; i++)
			bytes[i] = (uint8_t)test_random(&life->random);
		break;
	case HEADER_FLIPPED:
		bytes[test_random(&life->random) % CAIRN_LOG_HEADER_SIZE] ^= 4;
		break;
	case HEADER_OF_ANOTHER_STORE:
		header.identity.store_id[3] ^= 1;
		cairn_log_segment_header_encode(&header, bytes);
		break;
	case HEADER_OF_ANOTHER_NUMBER:
		header.number += 700;
		cairn_log_segment_header_encode(&header, bytes);
		break;
	case HEADER_CUT:
		sim_disk_put(disk, path, "CAIRNWAL", 8);
		break;
	case HEADER_FAULTS:
		break;
	}
}

/* One whose log does not begin with the first number that there is. */
static void begin_later(struct log_life *life)
{
	begin(life, 64 * KIB);
	for (int i = 0; i < 12; i++) {
		log_life_put(life, 20000, i % 4 == 0);
		log_life_work(life);
	}
	log_life_put(life, 30000, true);
	log_life_put(life, 100, true);
}

static void a_bad_header_is_an_error_from_the_first_live_segment_on(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	begin_later(&life);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	assert_true(walk.segments[0].header.number > 1);
	for (enum header_fault fault = 0; fault < HEADER_FAULTS; fault++) {
		for (size_t i = 0; i < walk.segment_count; i++) {
			struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
			spoil_header(&life, disk, walk.segments[i].path, fault);
			expect_refusal(&life, disk, walk.segments[i].path);
		}
	}
	log_walk_release(&walk);
	log_life_end(&life);
}

static void whatever_is_below_the_first_live_segment_is_litter(void **state)
{
	(void)state;
	struct log_life life;
	struct log_walk walk;
	size_t steps = 0;
	begin_later(&life);
	log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
	for (enum header_fault fault = 0; fault < HEADER_FAULTS; fault++) {
		struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
		char path[64];
		snprintf(path, sizeof path, LOG_LIFE_STORE "/%06llu.wal",
		    (unsigned long long)walk.segments[0].header.number - 1);
		replace_file(disk, path, walk.segments[0].path);
		spoil_header(&life, disk, path, fault);
		steps = life.history.acknowledged;
		log_life_check(&life, disk, steps, steps);
		sim_disk_free(disk);
	}
	log_walk_release(&walk);
	log_life_end(&life);
}

/* ---------------------------------------------------------------- earlier lives of a file */

/* Headers of segments that there were. */
struct past {
	struct cairn_log_segment_header list[64];
	size_t count;
};

static void remember(struct past *past, const struct log_walk *walk)
{
	for (size_t i = 0; i < walk->segment_count; i++) {
		const struct cairn_log_segment_header *header = &walk->segments[i].header;
		if (past->count && past->list[past->count - 1].number >= header->number)
			continue;
		assert_true(past->count < sizeof past->list / sizeof past->list[0]);
		past->list[past->count++] = *header;
	}
}

/* Whether a record of an earlier segment, whole, stands where the next one will be put. */
static bool has_stale_record(
    const struct log_life *life, const struct log_walk *walk, const struct past *past)
{
	const struct log_segment *last = &walk->segments[walk->segment_count - 1];
	uint64_t offset = cairn_log_position_offset(cairn_log_end(life->db->log));
	size_t size;
	const uint8_t *bytes = sim_disk_file(life->disk, last->path, &size) + offset;
	for (size_t i = 0; i < past->count; i++) {
		struct cairn_log_place place = {past->list[i].salt, past->list[i].ordinal, offset};
		struct cairn_log_record record;
		if (past->list[i].number != last->header.number &&
		    cairn_log_record_peek(&record, bytes, size - (size_t)offset, &place) &&
		    cairn_log_record_check(&record, &place))
			return true;
	}
	return false;
}

/*
 * All records are of one size, so that those of a file's earlier life begin where the next ones
 * will be put. The tables in memory are small: a segment is needed no longer when the next one is
 * full.
 */
static void live_in_recycled_files(struct log_life *life, unsigned *stale, unsigned *wrong)
{
	struct past past = {.count = 0};
	for (unsigned i = 0; i < 500; i++) {
		struct log_walk walk;
		log_life_put(life, 1000, false);
		log_life_work(life);
		log_walk_read(&walk, life->disk, LOG_LIFE_STORE);
		remember(&past, &walk);
		if (i % one_in(15) == 0 && has_stale_record(life, &walk, &past)) {
			struct sim_disk *disk = copy_of(life, SIM_LOSE_NOTHING);
			struct crash_verdict verdict;
			size_t steps = life->history.acknowledged;
			(*stale)++;
			*wrong += !crash_check(
			    disk, LOG_LIFE_STORE, &life->history, steps, steps, &verdict);
			sim_disk_free(disk);
		}
		log_walk_release(&walk);
	}
}

static void records_of_an_earlier_life_of_the_file_are_none(void **state)
{
	(void)state;
	struct log_life life;
	unsigned stale = 0, wrong = 0;
	begin(&life, 64 * KIB);
	live_in_recycled_files(&life, &stale, &wrong);
	printf("%u times a whole record of the past stood behind the tail\n", stale);
	assert_true(stale > 15);
	assert_int_equal(wrong, 0);
	log_life_end(&life);
}

/* What the case above would say if it were not for the salt. */
static void without_the_salt_the_past_would_come_back(void **state)
{
	(void)state;
	struct log_life life = {.random = seed, .disk = sim_disk_new(seed)};
	unsigned stale = 0, wrong = 0;
	sim_disk_plant(life.disk, SIM_BUG_SAME_ENTROPY);
	crash_options(&life.options);
	crash_history_init(&life.history, 100);
	log_life_open(&life);
	live_in_recycled_files(&life, &stale, &wrong);
	assert_true(wrong > 0);
	log_life_end(&life);
}

/* ---------------------------------------------------------------- files that others hold */

struct keeper {
	uint64_t call; /* before which the segment is linked */
	uint64_t calls;
	bool busy;
	size_t size; /* of what was linked, and was in use then */
	uint8_t *bytes;
};

/* A person links the oldest segment to a place of their own. */
static void keep_segment(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct keeper *keeper = context;
	struct log_walk walk;
	(void)call;
	(void)path;
	if (keeper->busy || ++keeper->calls != keeper->call)
		return;
	keeper->busy = true;
	log_walk_read(&walk, disk, LOG_LIFE_STORE);
	if (walk.segment_count) {
		const struct cairn_io_ops *ops = sim_disk_io(disk)->ops;
		const struct log_segment *segment = &walk.segments[0];
		size_t size;
		keeper->size = (size_t)segment->end;
		keeper->bytes = malloc(keeper->size);
		memcpy(keeper->bytes, sim_disk_file(disk, segment->path, &size), keeper->size);
		assert_int_equal(ops->link(sim_disk_io(disk), segment->path, "/kept"), 0);
	}
	log_walk_release(&walk);
	keeper->busy = false;
}

static bool keep_before(uint64_t call)
{
	struct log_life life;
	struct keeper keeper = {.call = call};
	begin(&life, 64 * KIB);
	sim_disk_watch(life.disk, keep_segment, &keeper);
	for (int i = 0; i < 200; i++) {
		log_life_put(&life, 2000, false);
		log_life_work(&life);
	}
	log_life_close(&life);
	bool reached = keeper.calls >= call;
	if (keeper.bytes) {
		size_t size;
		const uint8_t *bytes = sim_disk_file(life.disk, "/kept", &size);
		assert_true(size >= keeper.size);
		assert_memory_equal(bytes, keeper.bytes, keeper.size);
	}
	free(keeper.bytes);
	sim_disk_watch(life.disk, NULL, NULL);
	log_life_end(&life);
	return reached;
}

static void a_segment_that_somebody_holds_is_never_written_over(void **state)
{
	(void)state;
	uint64_t call = 1;
	while (keep_before(call))
		call += one_in(9);
	assert_true(call > 100);
}

/* ---------------------------------------------------------------- crashes of a recovery */

/* A killed store with much to recover: some synced, some not, in two segments. */
static void begin_unsynced(struct log_life *life)
{
	begin(life, 256 * KIB);
	for (int i = 0; i < 9; i++)
		log_life_put(life, 16000, i == 4);
	for (int i = 0; i < 5; i++)
		log_life_put(life, 500, false);
}

struct every_call {
	const struct log_life *life;
	size_t least, most; /* steps after a loss of power … */
	size_t killed;      /* … and after a kill, at least */
	uint64_t calls;
};

static void crash_here(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct every_call *every = context;
	(void)call;
	(void)path;
	every->calls++;
	for (enum sim_loss loss = 0; loss < SIM_LOSSES; loss++) {
		if ((every->calls + loss) % one_in(SIM_LOSSES) != 0)
			continue;
		struct sim_disk *after = sim_disk_crash(disk, loss, every->calls);
		size_t least = loss == SIM_LOSE_NOTHING ? every->killed : every->least;
		log_life_check(every->life, after, least, every->most);
		sim_disk_free(after);
	}
}

/* Opens the store on `disk`, and looks at every crash there; `disk` is freed. */
static void crash_everywhere(struct every_call *every, struct sim_disk *disk)
{
	cairn_options options;
	cairn *db;
	crash_options(&options);
	every->calls = 0;
	sim_disk_watch(disk, crash_here, every);
	assert_int_equal(cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &options, &db), 0);
	sim_disk_watch(disk, NULL, NULL);
	assert_int_equal(cairn_close(db), 0);
	assert_true(every->calls > 20);
	sim_disk_free(disk);
}

static void a_crash_anywhere_in_a_recovery_leaves_what_it_was_recovering(void **state)
{
	(void)state;
	struct log_life life;
	begin_unsynced(&life);
	const struct crash_history *history = &life.history;
	/* Of a killed process, whose pages are still to be written. */
	struct every_call every = {
	    &life, history->durable, history->acknowledged, history->acknowledged, 0};
	crash_everywhere(&every, copy_of(&life, SIM_LOSE_NOTHING));
	/* Of a machine that lost some: what it found stays. */
	for (enum sim_loss loss = SIM_LOSE_ALL; loss < SIM_LOSSES; loss++) {
		struct sim_disk *disk = copy_of(&life, loss);
		struct sim_disk *look = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
		size_t steps = log_life_check(&life, look, history->durable, history->acknowledged);
		sim_disk_free(look);
		every = (struct every_call){&life, steps, steps, steps, 0};
		crash_everywhere(&every, disk);
	}
	log_life_end(&life);
}

struct one_call {
	uint64_t call;
	uint64_t calls;
	enum sim_loss loss;
	struct sim_disk *after;
};

static void crash_once(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct one_call *one = context;
	(void)call;
	(void)path;
	if (++one->calls == one->call)
		one->after = sim_disk_crash(disk, one->loss, one->call);
}

/* The disk after a recovery that was interrupted, by a kill or by a loss of power, before some call
 * or right behind its last one. `disk` is freed. */
static struct sim_disk *interrupt(struct log_life *life, struct sim_disk *disk, bool power)
{
	struct one_call one = {.call = 1 + test_random(&life->random) % 60};
	cairn_options options;
	cairn *db;
	crash_options(&options);
	if (power)
		one.loss = SIM_LOSE_ALL + test_random(&life->random) % (SIM_LOSSES - 1);
	sim_disk_watch(disk, crash_once, &one);
	assert_int_equal(cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &options, &db), 0);
	sim_disk_watch(disk, NULL, NULL);
	if (!one.after)
		one.after = sim_disk_crash(disk, one.loss, one.call);
	assert_int_equal(cairn_close(db), 0);
	sim_disk_free(disk);
	return one.after;
}

static void a_recovery_interrupted_ten_times_in_a_row_loses_nothing(void **state)
{
	(void)state;
	struct log_life life;
	begin_unsynced(&life);
	const struct crash_history *history = &life.history;
	int rounds = test_full() ? 400 : 12;
	for (int round = 0; round < rounds; round++) {
		size_t steps = history->acknowledged;
		struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
		/* The first half of the rounds has kills only. */
		for (int i = 0; i < 10; i++) {
			bool power = round >= rounds / 2 && test_random(&life.random) % 2;
			disk = interrupt(&life, disk, power);
			if (!power)
				continue;
			/* Once it is known what is left, that stays. */
			struct sim_disk *look = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
			size_t least = steps == history->acknowledged ? history->durable : steps;
			steps = log_life_check(&life, look, least, steps);
			sim_disk_free(look);
		}
		log_life_check(&life, disk, steps, steps);
		sim_disk_free(disk);
	}
	log_life_end(&life);
}

struct last_moment {
	enum sim_call call;
	const char *name; /* of the file that it is about */
	struct sim_disk *after;
};

static void kill_there(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct last_moment *moment = context;
	if (!moment->after && call == moment->call && strstr(path, moment->name))
		moment->after = sim_disk_crash(disk, SIM_LOSE_NOTHING, 0);
}

/* Recoveries of a log of `puts` puts, each killed before that call. */
static void kill_recoveries(int puts, enum sim_call call, const char *name)
{
	struct log_life life;
	begin(&life, 256 * KIB);
	for (int i = 0; i < puts; i++)
		log_life_put(&life, 14000, true);
	struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
	uint64_t before = sim_disk_used(disk);
	for (int i = 0; i < 20; i++) {
		struct last_moment moment = {call, name, NULL};
		cairn_options options;
		cairn *db;
		crash_options(&options);
		sim_disk_watch(disk, kill_there, &moment);
		assert_int_equal(
		    cairn_open_with(sim_disk_io(disk), LOG_LIFE_STORE, &options, &db), 0);
		sim_disk_watch(disk, NULL, NULL);
		assert_int_equal(cairn_close(db), 0);
		sim_disk_free(disk);
		disk = moment.after;
		assert_non_null(disk);
		assert_true(sim_disk_used(disk) <= before + 128 * KIB);
	}
	sim_disk_free(disk);
	log_life_end(&life);
}

static void recoveries_that_are_killed_do_not_fill_the_disk(void **state)
{
	(void)state;
	/* Little, in a fresh log that no manifest names yet. */
	kill_recoveries(2, SIM_RENAME, "MANIFEST");
	/* Much, in a run that is not finished. */
	kill_recoveries(4, SIM_RENAME, ".tmp");
}

/* The page cache still has what the kernel gave up on; reading it back proves nothing. */
static void pages_that_a_failed_sync_dropped_are_written_anew_by_recovery(void **state)
{
	(void)state;
	struct log_life life;
	begin_unsynced(&life);
	struct sim_fault fault = {
	    .call = 1, .kinds = 1u << SIM_SYNC, .code = -EIO, .drop_pages = true};
	sim_disk_arm(life.disk, &fault);
	assert_int_equal(cairn_sync(life.db), CAIRN_FAILED);
	sim_disk_arm(life.disk, &(struct sim_fault){0});
	struct sim_disk *disk = copy_of(&life, SIM_LOSE_NOTHING);
	size_t steps = life.history.acknowledged;
	struct every_call every = {&life, life.history.durable, steps, steps, 0};
	crash_everywhere(&every, disk);
	assert_int_equal(cairn_close(life.db), CAIRN_FAILED);
	life.db = NULL;
	log_life_end(&life);
}

static void find_salt(void *context, const char *path)
{
	const struct log_walk *walk = ((void **)context)[0];
	const struct sim_disk *disk = ((void **)context)[1];
	struct cairn_log_segment_header header;
	size_t size;
	const uint8_t *bytes = sim_disk_file(disk, path, &size);
	if (!strstr(path, ".wal"))
		return;
	assert_int_equal(cairn_log_segment_header_decode(&header, bytes, path), 0);
	for (size_t i = 0; i < walk->segment_count; i++)
		assert_true(walk->segments[i].header.salt != header.salt);
}

static void recovery_leaves_no_segment_of_the_earlier_life(void **state)
{
	(void)state;
	struct log_life life;
	begin(&life, 256 * KIB);
	/* Little, which is copied; much, which becomes a run. */
	for (int round = 0; round < 6; round++) {
		struct log_walk walk;
		for (int i = 0; i < (round % 2 ? 12 : 2); i++)
			log_life_put(&life, 16000, i == 1);
		log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
		assert_true(walk.segment_count > 0);
		log_life_kill(&life);
		void *context[] = {&walk, life.disk};
		sim_disk_each(life.disk, find_salt, context);
		log_walk_release(&walk);
	}
	log_life_end(&life);
}

/* ---------------------------------------------------------------- what is called durable */

/* The furthest position that a record or the manifest vouches for. */
static uint64_t find_claim(const struct log_walk *walk)
{
	uint64_t claim = walk->manifest.log_durable;
	for (size_t i = 0; i < walk->entry_count; i++) {
		const struct log_entry *entry = &walk->entries[i];
		assert_true(entry->durable <= entry->position);
		claim = entry->durable > claim ? entry->durable : claim;
	}
	return claim;
}

/* Everything before that position is there when all that was not synced is lost. */
static void check_claims(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct log_walk walk;
	size_t size;
	char manifest[] = LOG_LIFE_STORE "/MANIFEST";
	(void)call;
	(void)path;
	if (!sim_disk_file(disk, manifest, &size))
		return;
	log_walk_read(&walk, disk, LOG_LIFE_STORE);
	struct sim_disk *durable = sim_disk_crash(disk, SIM_LOSE_ALL, 0);
	uint64_t claim = find_claim(&walk);
	for (size_t i = 0; i < walk.segment_count; i++) {
		const struct log_segment *segment = &walk.segments[i];
		uint64_t ordinal = segment->header.ordinal, upto = 0;
		size_t kept_size;
		if (ordinal < cairn_log_position_ordinal(claim))
			upto = segment->end;
		else if (ordinal == cairn_log_position_ordinal(claim))
			upto = cairn_log_position_offset(claim);
		const uint8_t *seen = sim_disk_file(disk, segment->path, &size);
		const uint8_t *kept = sim_disk_file(durable, segment->path, &kept_size);
		assert_true(upto <= segment->end);
		assert_true(upto == 0 || (kept && kept_size >= upto));
		assert_true(upto == 0 || memcmp(seen, kept, (size_t)upto) == 0);
	}
	*(unsigned *)context += walk.segment_count > 0;
	sim_disk_free(durable);
	log_walk_release(&walk);
}

static void live_a_little(struct log_life *life)
{
	switch (test_random(&life->random) % 40) {
	case 0:
		assert_int_equal(cairn_flush(life->db), 0);
		crash_history_sync(&life->history);
		break;
	case 1:
		sim_disk_advance(life->disk, 3 * UINT64_C(1000000000));
		log_life_work(life);
		break;
	case 2:
		log_life_close(life);
		log_life_open(life);
		break;
	case 3:
		log_life_sync(life);
		break;
	default:
		log_life_put(life, 8 + test_random(&life->random) % 6000,
		    test_random(&life->random) % 5 == 0);
		if (test_random(&life->random) % 4 == 0)
			log_life_work(life);
	}
}

static void nothing_is_called_durable_that_is_not(void **state)
{
	(void)state;
	static const int modes[] = {CAIRN_SYNC_NONE, CAIRN_SYNC_INTERVAL, CAIRN_SYNC_FULL};
	unsigned checks = 0;
	for (size_t mode = 0; mode < 3; mode++) {
		struct log_life life;
		begin(&life, 64 * KIB);
		life.options.sync_mode = modes[mode];
		life.options.sync_interval_ms = 1;
		for (int i = 0; i < 150; i++) {
			/* A kill leaves pages that its successor must not take for durable. */
			if (i % 40 == 20) {
				struct sim_disk *after = copy_of(&life, SIM_LOSE_NOTHING);
				sim_disk_watch(life.disk, NULL, NULL);
				assert_int_equal(cairn_close(life.db), 0);
				sim_disk_free(life.disk);
				life.disk = after;
				sim_disk_watch(life.disk, check_claims, &checks);
				log_life_open(&life);
				crash_history_settle(&life.history, life.history.acknowledged);
			}
			sim_disk_watch(life.disk, check_claims, &checks);
			live_a_little(&life);
			check_claims(&checks, life.disk, SIM_SYNC, "");
		}
		sim_disk_watch(life.disk, NULL, NULL);
		log_life_end(&life);
	}
	printf("%u looks at what is called durable\n", checks);
}

static void an_idle_store_vouches_for_its_last_record(void **state)
{
	(void)state;
	for (int idle = 0; idle < 2; idle++) {
		struct log_life life;
		struct log_walk walk;
		struct outcome outcome = {0, 0};
		begin(&life, 64 * KIB);
		for (int i = 0; i < 3; i++)
			log_life_put(&life, 700, true);
		if (idle)
			log_life_work(&life);
		log_walk_read(&walk, life.disk, LOG_LIFE_STORE);
		const struct log_entry *last = &walk.entries[walk.entry_count - 1];
		assert_int_equal(last->type, idle ? CAIRN_LOG_MARK : CAIRN_LOG_WRITE);
		lose_record(&life, &walk, walk.entry_count - 1 - (size_t)idle, &outcome);
		assert_int_equal(outcome.damaged, idle);
		log_walk_release(&walk);
		log_life_end(&life);
	}
}

/* ---------------------------------------------------------------- names */

struct names_crash {
	const struct log_life *life;
	unsigned crashes;
};

/* Every subset of the changes of names is as likely as any other. */
static void lose_names(void *context, struct sim_disk *disk, enum sim_call call, const char *path)
{
	struct names_crash *crash = context;
	const struct crash_history *history = &crash->life->history;
	(void)path;
	if (call == SIM_WRITE || call == SIM_ALLOCATE)
		return;
	for (uint64_t draw = 0; draw < (test_full() ? 40 : 2); draw++) {
		struct sim_disk *after = sim_disk_crash(disk, SIM_LOSE_NAMES, draw);
		size_t size;
		if (sim_disk_file(after, LOG_LIFE_STORE "/MANIFEST", &size))
			log_life_check(crash->life, after, history->durable, history->count);
		sim_disk_free(after);
		crash->crashes++;
	}
}

/* Segments are made, recycled, given back at rest and dropped, and the log is ended. */
static void names_may_be_lost_in_any_order(void **state)
{
	(void)state;
	struct log_life life;
	begin(&life, 64 * KIB);
	struct names_crash crash = {&life, 0};
	for (int i = 0; i < 24; i++) {
		log_life_put(&life, 12000, i % 3 == 0);
		sim_disk_watch(life.disk, lose_names, &crash);
		log_life_work(&life);
		if (i % 9 == 8) {
			sim_disk_advance(life.disk, 3 * UINT64_C(1000000000));
			log_life_work(&life);
		}
		if (i % 12 == 11) {
			sim_disk_watch(life.disk, NULL, NULL);
			log_life_close(&life);
			sim_disk_watch(life.disk, lose_names, &crash);
			log_life_open(&life);
		}
		sim_disk_watch(life.disk, NULL, NULL);
	}
	printf("%u crashes\n", crash.crashes);
	assert_true(crash.crashes > 100);
	log_life_end(&life);
}

/* ---------------------------------------------------------------- sizes, kinds of disks */

static uint64_t size_of_last(const struct log_life *life, size_t *segments)
{
	struct log_walk walk;
	size_t size = 0;
	log_walk_read(&walk, life->disk, LOG_LIFE_STORE);
	*segments = walk.segment_count;
	if (walk.segment_count)
		sim_disk_file(life->disk, walk.segments[walk.segment_count - 1].path, &size);
	log_walk_release(&walk);
	return size;
}

static void segments_double_up_to_the_memtable(void **state)
{
	(void)state;
	static const uint64_t expected[] = {1 * MIB, 2 * MIB, 4 * MIB};
	struct log_life life;
	size_t segments = 0, seen = 0;
	begin(&life, 5 * MIB);
	do {
		log_life_put(&life, CRASH_VALUE_MOST, false);
		uint64_t size = size_of_last(&life, &segments);
		if (segments > seen)
			assert_int_equal(size, expected[seen++]);
	} while (seen < 3);
	log_life_end(&life);
}

static void no_segment_is_longer_than_the_memtable(void **state)
{
	(void)state;
	struct log_life life;
	size_t segments;
	begin(&life, 100 * KIB);
	for (int i = 0; i < 30; i++) {
		log_life_put(&life, 8000, false);
		log_life_work(&life);
		assert_int_equal(size_of_last(&life, &segments), 100 * KIB);
	}
	log_life_end(&life);
}

static void a_full_disk_makes_segments_short_before_it_is_reported(void **state)
{
	(void)state;
	struct log_life life;
	size_t segments;
	begin(&life, 4 * MIB);
	crowd(&life, 255 * KIB);
	cairn_slice key = {"full", 4};
	assert_int_equal(cairn_put(life.db, key, key, 0), -ENOSPC);
	assert_non_null(strstr(cairn_message(life.db), LOG_LIFE_STORE));
	crowd(&life, 256 * KIB);
	log_life_put(&life, 10000, false);
	assert_int_equal(size_of_last(&life, &segments), 256 * KIB);
	/* When there is room again they double again. */
	crowd(&life, UINT64_MAX);
	do
		log_life_put(&life, 10000, false);
	while (size_of_last(&life, &segments) && segments == 1);
	assert_int_equal(size_of_last(&life, &segments), 512 * KIB);
	log_life_end(&life);
}

static void a_log_that_is_written_is_the_same_bytes_as_one_that_is_mapped(void **state)
{
	(void)state;
	struct log_life lives[2];
	for (size_t i = 0; i < 2; i++) {
		begin(&lives[i], 64 * KIB);
		log_life_close(&lives[i]);
	}
	sim_disk_refuse_map_log(lives[1].disk);
	for (size_t i = 0; i < 2; i++)
		log_life_open(&lives[i]);
	for (unsigned step = 0; step < 400; step++) {
		for (size_t i = 0; i < 2; i++)
			live_a_little(&lives[i]);
		assert_int_equal(
		    sim_disk_fingerprint(lives[0].disk), sim_disk_fingerprint(lives[1].disk));
	}
	for (size_t i = 0; i < 2; i++)
		log_life_end(&lives[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_lost_before_a_witness_is_damage),
	    cmocka_unit_test(a_record_lost_before_nobody_was_promised_it_ends_the_log),
	    cmocka_unit_test(holes_are_judged_by_what_was_durable),
	    cmocka_unit_test(a_missing_segment_is_an_error_when_it_has_a_successor),
	    cmocka_unit_test(a_missing_last_segment_of_a_closed_store_is_an_error),
	    cmocka_unit_test(segments_that_changed_places_are_an_error),
	    cmocka_unit_test(a_bad_header_is_an_error_from_the_first_live_segment_on),
	    cmocka_unit_test(whatever_is_below_the_first_live_segment_is_litter),
	    cmocka_unit_test(records_of_an_earlier_life_of_the_file_are_none),
	    cmocka_unit_test(without_the_salt_the_past_would_come_back),
	    cmocka_unit_test(a_segment_that_somebody_holds_is_never_written_over),
	    cmocka_unit_test(a_crash_anywhere_in_a_recovery_leaves_what_it_was_recovering),
	    cmocka_unit_test(a_recovery_interrupted_ten_times_in_a_row_loses_nothing),
	    cmocka_unit_test(recoveries_that_are_killed_do_not_fill_the_disk),
	    cmocka_unit_test(pages_that_a_failed_sync_dropped_are_written_anew_by_recovery),
	    cmocka_unit_test(recovery_leaves_no_segment_of_the_earlier_life),
	    cmocka_unit_test(nothing_is_called_durable_that_is_not),
	    cmocka_unit_test(an_idle_store_vouches_for_its_last_record),
	    cmocka_unit_test(names_may_be_lost_in_any_order),
	    cmocka_unit_test(segments_double_up_to_the_memtable),
	    cmocka_unit_test(no_segment_is_longer_than_the_memtable),
	    cmocka_unit_test(a_full_disk_makes_segments_short_before_it_is_reported),
	    cmocka_unit_test(a_log_that_is_written_is_the_same_bytes_as_one_that_is_mapped),
	};
	seed = test_seed(51);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
