/*
 * tests/sim_io_test.c -- the simulated disk keeps what was synced, may lose what was not, and never
 * makes up a third thing.
 */
#include "tests/test.h"

#include <errno.h>

#include "tests/sim_io.h"

#define ROUNDS 200
#define SIZE   20000u

struct fixture {
	struct sim_disk *disk;
	struct cairn_io *io;
};

static int enter(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	f->disk = sim_disk_new(1);
	f->io = sim_disk_io(f->disk);
	assert_int_equal(f->io->ops->make_directory(f->io, "/d"), 0);
	assert_int_equal(f->io->ops->sync_directory(f->io, "/"), 0);
	*state = f;
	return 0;
}

static int leave(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(sim_disk_open_count(f->disk), 0);
	sim_disk_free(f->disk);
	free(f);
	return 0;
}

/* A file of SIZE bytes `byte`, synced with its name. */
static struct cairn_file *make_file(struct fixture *f, const char *path, int byte)
{
	static uint8_t bytes[SIZE];
	struct cairn_file *file;
	memset(bytes, byte, sizeof bytes);
	assert_int_equal(f->io->ops->open(f->io, path, CAIRN_OPEN_CREATE, &file), 0);
	assert_int_equal(f->io->ops->write(file, bytes, sizeof bytes, 0), 0);
	assert_int_equal(f->io->ops->sync(file), 0);
	assert_int_equal(f->io->ops->sync_directory(f->io, "/d"), 0);
	return file;
}

static void overwrite(struct fixture *f, struct cairn_file *file, int byte)
{
	static uint8_t bytes[SIZE];
	memset(bytes, byte, sizeof bytes);
	assert_int_equal(f->io->ops->write(file, bytes, sizeof bytes, 0), 0);
}

/* How many bytes of a file are `byte`; SIZE_MAX when there is none. */
static size_t count_bytes(const struct sim_disk *disk, const char *path, uint8_t byte)
{
	size_t size, count = 0;
	const uint8_t *data = sim_disk_file(disk, path, &size);
	for (size_t i = 0; data && i < size; i++)
		count += data[i] == byte;
	return data ? count : SIZE_MAX;
}

static size_t count_after(const struct fixture *f, enum sim_loss loss, uint64_t seed, uint8_t byte)
{
	struct sim_disk *after = sim_disk_crash(f->disk, loss, seed);
	size_t count = count_bytes(after, "/d/a", byte);
	sim_disk_free(after);
	return count;
}

static void what_is_synced_survives_every_crash(void **state)
{
	struct fixture *f = *state;
	f->io->ops->close(make_file(f, "/d/a", 'x'));
	for (unsigned loss = 0; loss < SIM_LOSSES; loss++)
		for (uint64_t seed = 0; seed < ROUNDS; seed++)
			assert_int_equal(count_after(f, (enum sim_loss)loss, seed, 'x'), SIZE);
}

static void bytes_that_are_not_synced_are_lost_in_the_pieces_that_were_asked_for(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	overwrite(f, file, 'y');
	assert_int_equal(count_after(f, SIM_LOSE_NOTHING, 1, 'y'), SIZE);
	assert_int_equal(count_after(f, SIM_LOSE_NAMES, 1, 'y'), SIZE);
	assert_int_equal(count_after(f, SIM_LOSE_ALL, 1, 'y'), 0);
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		static const struct {
			enum sim_loss loss;
			size_t unit;
		} cases[] = {
		    {SIM_LOSE_SECTORS, 512}, {SIM_LOSE_BYTES, 512}, {SIM_LOSE_PAGES, 4096}};
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			size_t new = count_after(f, cases[i].loss, seed, 'y');
			size_t old = count_after(f, cases[i].loss, seed, 'x');
			assert_int_equal(new + old, SIZE);
			assert_true(new % cases[i].unit == 0 ||
				    new % cases[i].unit == SIZE % cases[i].unit);
		}
	}
	f->io->ops->close(file);
}

static void a_lost_tail_is_a_tail(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	size_t kept_most = 0, kept_least = SIZE;
	overwrite(f, file, 'y');
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		struct sim_disk *after = sim_disk_crash(f->disk, SIM_LOSE_TAIL, seed);
		size_t size, kept = count_bytes(after, "/d/a", 'y');
		const uint8_t *data = sim_disk_file(after, "/d/a", &size);
		assert_int_equal(size, SIZE);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(data[i], i < kept ? 'y' : 'x');
		kept_most = kept > kept_most ? kept : kept_most;
		kept_least = kept < kept_least ? kept : kept_least;
		sim_disk_free(after);
	}
	assert_true(kept_most > SIZE * 9 / 10 && kept_least < SIZE / 10);
	f->io->ops->close(file);
}

static void names_are_not_durable_before_their_directory_is_synced(void **state)
{
	struct fixture *f = *state;
	f->io->ops->close(make_file(f, "/d/a", 'x'));
	assert_int_equal(f->io->ops->rename(f->io, "/d/a", "/d/b"), 0);
	assert_int_equal(f->io->ops->link(f->io, "/d/b", "/d/c"), 0);
	unsigned seen[8] = {0};
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		struct sim_disk *after = sim_disk_crash(f->disk, SIM_LOSE_NAMES, seed);
		size_t a = count_bytes(after, "/d/a", 'x'), b = count_bytes(after, "/d/b", 'x');
		size_t c = count_bytes(after, "/d/c", 'x');
		assert_true((a == SIZE) != (b == SIZE)); /* a rename is whole */
		seen[(unsigned)(a == SIZE) | (unsigned)(c == SIZE) << 1]++;
		sim_disk_free(after);
	}
	for (int i = 0; i < 4; i++)
		assert_true(seen[i] > 0); /* in any order */
	assert_int_equal(f->io->ops->sync_directory(f->io, "/d"), 0);
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		struct sim_disk *after = sim_disk_crash(f->disk, SIM_LOSE_SECTORS, seed);
		assert_true(count_bytes(after, "/d/a", 'x') == SIZE_MAX);
		assert_int_equal(count_bytes(after, "/d/b", 'x'), SIZE);
		assert_int_equal(count_bytes(after, "/d/c", 'x'), SIZE);
		sim_disk_free(after);
	}
}

static void stores_into_a_log_map_are_bytes_like_others(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	uint8_t *memory;
	assert_int_equal(f->io->ops->map_log(file, SIZE, &memory), 0);
	memset(memory, 'y', 1000);
	assert_int_equal(count_after(f, SIM_LOSE_NOTHING, 1, 'y'), 1000);
	assert_int_equal(count_after(f, SIM_LOSE_ALL, 1, 'y'), 0);
	assert_int_equal(f->io->ops->sync(file), 0);
	memset(memory, 'z', 2000);
	assert_int_equal(count_after(f, SIM_LOSE_ALL, 1, 'y'), 1000);
	f->io->ops->close(file);
	assert_int_equal(count_bytes(f->disk, "/d/a", 'z'), 2000);
}

static void a_crash_leaves_the_disk_alone_and_is_left_alone_by_it(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	uint64_t before = sim_disk_fingerprint(f->disk);
	struct sim_disk *after = sim_disk_crash(f->disk, SIM_LOSE_NOTHING, 1);
	assert_true(sim_disk_fingerprint(after) == before);
	overwrite(f, file, 'y');
	assert_int_equal(count_bytes(after, "/d/a", 'x'), SIZE);
	size_t size;
	sim_disk_change(after, "/d/a", &size)[7] = 'z';
	assert_int_equal(count_bytes(f->disk, "/d/a", 'y'), SIZE);
	assert_true(sim_disk_fingerprint(after) != before);
	sim_disk_free(after);
	f->io->ops->close(file);
}

static void what_a_killed_process_did_not_sync_can_still_be_lost(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	overwrite(f, file, 'y');
	assert_int_equal(f->io->ops->rename(f->io, "/d/a", "/d/b"), 0);
	assert_int_equal(f->io->ops->link(f->io, "/d/b", "/d/c"), 0);
	struct sim_disk *killed = sim_disk_crash(f->disk, SIM_LOSE_NOTHING, 1);
	assert_int_equal(count_bytes(killed, "/d/b", 'y'), SIZE);
	struct sim_disk *cut = sim_disk_crash(killed, SIM_LOSE_ALL, 1);
	assert_int_equal(count_bytes(cut, "/d/a", 'x'), SIZE);
	assert_true(count_bytes(cut, "/d/b", 'x') == SIZE_MAX);
	sim_disk_free(cut);
	/* Two names are one file on the other disk, too. */
	struct cairn_io *io = sim_disk_io(killed);
	struct cairn_file *other;
	assert_int_equal(io->ops->open(io, "/d/c", CAIRN_OPEN_WRITE, &other), 0);
	assert_int_equal(io->ops->write(other, "z", 1, 0), 0);
	assert_int_equal(io->ops->sync(other), 0);
	io->ops->close(other);
	assert_int_equal(count_bytes(killed, "/d/b", 'z'), 1);
	assert_int_equal(count_bytes(f->disk, "/d/b", 'z'), 0);
	assert_int_equal(io->ops->sync_directory(io, "/d"), 0);
	cut = sim_disk_crash(killed, SIM_LOSE_ALL, 1);
	assert_int_equal(count_bytes(cut, "/d/b", 'y'), SIZE - 1);
	sim_disk_free(cut);
	sim_disk_free(killed);
	f->io->ops->close(file);
}

static void a_sync_that_dropped_pages_does_not_write_them_later(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	overwrite(f, file, 'y');
	sim_disk_arm(
	    f->disk, &(struct sim_fault){
			 .call = 1, .kinds = 1u << SIM_SYNC, .code = -EIO, .drop_pages = true});
	assert_int_equal(f->io->ops->sync(file), -EIO);
	assert_int_equal(sim_disk_faults(f->disk), 1);
	assert_int_equal(f->io->ops->sync(file), 0);
	assert_int_equal(count_bytes(f->disk, "/d/a", 'y'), SIZE);
	size_t kept = count_after(f, SIM_LOSE_ALL, 1, 'y');
	assert_true(kept > 0 && kept < SIZE);
	/* What is written anew is written. */
	overwrite(f, file, 'z');
	assert_int_equal(f->io->ops->sync(file), 0);
	assert_int_equal(count_after(f, SIM_LOSE_ALL, 1, 'z'), SIZE);
	f->io->ops->close(file);
}

static void the_call_that_was_asked_for_fails(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	uint8_t byte;
	size_t done;
	sim_disk_arm(
	    f->disk, &(struct sim_fault){.call = 3, .kinds = 1u << SIM_READ, .code = -EIO});
	for (int i = 1; i <= 5; i++) {
		assert_int_equal(f->io->ops->read(file, &byte, 1, 0, &done), i == 3 ? -EIO : 0);
		assert_int_equal(done, i == 3 ? 0 : 1);
	}
	assert_int_equal(sim_disk_calls(f->disk), 5);
	sim_disk_arm(f->disk, &(struct sim_fault){.call = 2, .code = -ENOSPC, .for_ever = true});
	for (int i = 1; i <= 5; i++)
		assert_int_equal(f->io->ops->sync(file), i < 2 ? 0 : -ENOSPC);
	assert_int_equal(sim_disk_faults(f->disk), 4);
	f->io->ops->close(file);
}

static void a_full_disk_takes_what_fits(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	sim_disk_limit(f->disk, SIZE + 100);
	assert_int_equal(f->io->ops->allocate(file, SIZE + 101), -ENOSPC);
	assert_int_equal(f->io->ops->allocate(file, SIZE + 100), 0);
	assert_int_equal(f->io->ops->write(file, "y", 1, SIZE + 100), -ENOSPC);
	assert_int_equal(f->io->ops->truncate(file, 10), 0);
	assert_int_equal(sim_disk_used(f->disk), 10);
	assert_int_equal(f->io->ops->write(file, "y", 1, SIZE), 0);
	f->io->ops->close(file);
	assert_int_equal(f->io->ops->unlink(f->io, "/d/a"), 0);
}

static void the_same_seed_gives_the_same_disk(void **state)
{
	struct fixture *f = *state;
	struct cairn_file *file = make_file(f, "/d/a", 'x');
	overwrite(f, file, 'y');
	for (unsigned loss = 0; loss < SIM_LOSSES; loss++) {
		uint64_t found[3];
		for (uint64_t i = 0; i < 3; i++) {
			struct sim_disk *after =
			    sim_disk_crash(f->disk, (enum sim_loss)loss, 5 + i / 2);
			found[i] = sim_disk_fingerprint(after);
			sim_disk_free(after);
		}
		assert_true(found[0] == found[1]);
		if (loss == SIM_LOSE_SECTORS)
			assert_true(found[0] != found[2]);
	}
	f->io->ops->close(file);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(what_is_synced_survives_every_crash),
	    CASE(bytes_that_are_not_synced_are_lost_in_the_pieces_that_were_asked_for),
	    CASE(a_lost_tail_is_a_tail),
	    CASE(names_are_not_durable_before_their_directory_is_synced),
	    CASE(stores_into_a_log_map_are_bytes_like_others),
	    CASE(a_crash_leaves_the_disk_alone_and_is_left_alone_by_it),
	    CASE(what_a_killed_process_did_not_sync_can_still_be_lost),
	    CASE(a_sync_that_dropped_pages_does_not_write_them_later),
	    CASE(the_call_that_was_asked_for_fails),
	    CASE(a_full_disk_takes_what_fits),
	    CASE(the_same_seed_gives_the_same_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
