/*
 * tests/log_life.c -- see log_life.h.
 */
#include "tests/test.h"

#include "store/store.h"
#include "tests/log_life.h"

#define KEYS 100u

void log_life_open(struct log_life *life)
{
	int rc =
	    cairn_open_with(sim_disk_io(life->disk), LOG_LIFE_STORE, &life->options, &life->db);
	if (rc)
		fail_msg("open: %d: %s", rc, cairn_message(NULL));
}

void log_life_begin(struct log_life *life, uint64_t seed, size_t memtable_bytes)
{
	*life = (struct log_life){.random = seed, .disk = sim_disk_new(seed)};
	crash_options(&life->options);
	life->options.memtable_bytes = memtable_bytes;
	crash_history_init(&life->history, KEYS);
	log_life_open(life);
}

void log_life_close(struct log_life *life)
{
	int rc = cairn_close(life->db);
	life->db = NULL;
	if (rc)
		fail_msg("close: %d: %s", rc, cairn_message(NULL));
	crash_history_sync(&life->history);
}

void log_life_end(struct log_life *life)
{
	if (life->db)
		log_life_close(life);
	crash_history_release(&life->history);
	sim_disk_free(life->disk);
}

void log_life_put(struct log_life *life, size_t size, bool sync)
{
	static uint8_t value[CRASH_VALUE_MOST];
	char key[CRASH_KEY_SIZE];
	struct crash_part part = {
	    .key = (unsigned)(test_random(&life->random) % KEYS), .size = (uint32_t)size};
	const struct crash_step *step = crash_history_begin(&life->history, &part, 1);
	int rc = cairn_put(
	    life->db, crash_key(key, part.key), crash_value(value, step, 0), sync ? CAIRN_SYNC : 0);
	if (rc)
		fail_msg("put: %d: %s", rc, cairn_message(NULL));
	crash_history_acknowledge(&life->history);
	if (sync)
		crash_history_sync(&life->history);
}

void log_life_sync(struct log_life *life)
{
	assert_int_equal(cairn_sync(life->db), 0);
	crash_history_sync(&life->history);
}

void log_life_work(struct log_life *life)
{
	int rc;
	while ((rc = cairn_background_step(life->db)) > 0)
		;
	assert_int_equal(rc, 0);
}

void log_life_kill(struct log_life *life)
{
	struct sim_disk *after =
	    sim_disk_crash(life->disk, SIM_LOSE_NOTHING, test_random(&life->random));
	assert_int_equal(cairn_close(life->db), 0);
	sim_disk_free(life->disk);
	life->disk = after;
	log_life_open(life);
	crash_history_settle(&life->history, life->history.acknowledged);
}

size_t log_life_check(const struct log_life *life, struct sim_disk *disk, size_t least, size_t most)
{
	struct crash_verdict verdict;
	if (!crash_check(disk, LOG_LIFE_STORE, &life->history, least, most, &verdict))
		fail_msg("steps %zu to %zu: %s", least, most, verdict.text);
	return verdict.step;
}
