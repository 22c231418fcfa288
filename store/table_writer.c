/*
 * store/table_writer.c -- builds a frozen table from records in any order.
 *
 * Terms. Records are *gathered* in memory, and a full *batch* of them is sorted and written. A
 * *piece* is a run in a file beside the table's, under a name of its own; the one being written is
 * the *open* one.
 *
 * 1. A batch goes behind the open piece when its keys are above those there; else that piece ends
 * and another begins. So keys that ascend, or that fit into memory, make one piece: the table.
 * 2. While keys ascend, batches are small; a key that does not ascend lets the batch grow to the
 * memory limit.
 * 3. Pieces are in the order of their records' arrival: where keys are equal, the later piece wins.
 * FAN_IN pieces of one level, side by side, become one of the next level at once; the end merges
 * the rest.
 * 4. What gets the table's name has been synced, read back and verified.
 * 5. After the first failure nothing is done but to remove the pieces.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "compaction/merge.h"
#include "format/buffer.h"
#include "format/bytes.h"
#include "format/checksum.h"
#include "format/filename.h"
#include "format/run_reader.h"
#include "format/run_writer.h"
#include "store/io_select.h"
#include "store/options.h"
#include "store/store.h"
#include "store/table.h"
#include "store/write.h"

#define STREAM_BYTES ((size_t)256 << 10) /* a batch while keys ascend */
#define FAN_IN       32u
#define LEVELS       6u /* pieces of the last level become one of it again */

/* A gathered record: key and value stand one behind the other in the batch's bytes. */
struct gathered {
	uint64_t head; /* cairn_key_head: most comparisons end here */
	size_t at;
	uint32_t key_size;
	uint32_t value_size;
};

struct piece {
	unsigned number; /* in its name */
	unsigned level;
	uint64_t records;
};

struct cairn_table_writer {
	struct cairn_io *io;
	bool owns_io;
	uint32_t fork_generation;
	char *path;
	char *piece_path; /* room for one: to remove a piece must need no memory */
	size_t piece_path_size;
	cairn_options options;
	uint64_t random; /* in the names of the pieces: no other build has it */
	struct cairn_run_spec spec;

	struct cairn_buffer bytes; /* of the gathered records, … */
	struct cairn_buffer list;  /* … which are an array of struct gathered here */
	bool ascending;            /* the batch is in order, and above the open piece */

	struct cairn_run_writer *open; /* NULL: none */
	unsigned next_number;
	unsigned count;
	struct piece pieces[FAN_IN * LEVELS];

	int failed;
	char failed_text[CAIRN_ERROR_TEXT_MAX];
};

static int no_memory(void)
{
	return cairn_error(-ENOMEM, "out of memory for a table");
}

static int duplicate(cairn_slice key)
{
	char text[CAIRN_ERROR_KEY_MAX];
	return cairn_error(CAIRN_INVALID,
	    "the key %s comes twice; set last_wins to keep the last of equal keys",
	    cairn_error_key(key, text));
}

/* ---------------------------------------------------------------- pieces */

/* Valid until the next call. */
static const char *piece_path(const struct cairn_table_writer *writer, unsigned number)
{
	snprintf(writer->piece_path, writer->piece_path_size, "%s.%016" PRIx64 ".%u.tmp",
	    writer->path, writer->random, number);
	return writer->piece_path;
}

static void remove_piece(const struct cairn_table_writer *writer, const struct piece *piece)
{
	(void)cairn_io_remove_remains(
	    writer->io, piece_path(writer, piece->number), cairn_error_code());
}

static int open_piece(const struct cairn_table_writer *writer, const struct piece *piece,
    struct cairn_run_reader **run)
{
	return cairn_run_open(writer->io, piece_path(writer, piece->number), NULL, run);
}

static int begin_piece(struct cairn_table_writer *writer)
{
	const char *path = piece_path(writer, writer->next_number);
	int rc = cairn_run_writer_open(writer->io, path, &writer->spec, &writer->open);
	if (rc == 0 || rc == -EEXIST)
		return rc;
	return cairn_io_remove_remains(writer->io, path, rc); /* it may have been made */
}

static int finish_piece(struct cairn_table_writer *writer, struct piece *piece)
{
	struct cairn_run_footer footer;
	uint64_t size;
	struct cairn_run_writer *run = writer->open;
	writer->open = NULL;
	int rc = cairn_run_writer_finish(run, 0, 0, &footer, &size);
	piece->number = writer->next_number++;
	piece->records = footer.records;
	return rc;
}

/* ---------------------------------------------------------------- merging */

/* All of `runs`, which are in the order of pieces, as one cursor. */
static int merge_cursor(
    struct cairn_run_reader **runs, unsigned count, struct cairn_cursor **merged)
{
	struct cairn_cursor *cursors[FAN_IN * LEVELS];
	unsigned opened = 0;
	int rc = 0;
	for (; !rc && opened < count; opened += !rc)
		rc = cairn_run_cursor_open(
		    runs[count - 1 - opened], CAIRN_ADVISE_SEQUENTIAL, &cursors[opened]);
	if (!rc)
		return cairn_merge_open(cursors, count, merged);
	while (opened > 0)
		cairn_cursor_close(cursors[--opened]);
	return rc;
}

/* CAIRN_INVALID when more than one of `runs` has the key. */
static int check_unique(const struct cairn_table_writer *writer, struct cairn_run_reader **runs,
    unsigned count, cairn_slice key)
{
	uint64_t hash = cairn_key_hash(key, writer->spec.identity.hash_seed);
	unsigned found = 0;
	for (unsigned i = 0; i < count; i++) {
		struct cairn_record record;
		int rc = cairn_run_get(runs[i], key, hash, &record);
		if (rc < 0)
			return rc;
		found += rc == 0;
	}
	return found > 1 ? duplicate(key) : 0;
}

/* Fails with the first key that several of `runs` have. */
static int find_duplicate(
    const struct cairn_table_writer *writer, struct cairn_run_reader **runs, unsigned count)
{
	struct cairn_cursor *cursor;
	int rc = merge_cursor(runs, count, &cursor);
	if (rc)
		return rc;
	for (rc = cairn_cursor_first(cursor); rc == 0; rc = cairn_cursor_next(cursor)) {
		rc = check_unique(writer, runs, count, cursor->key);
		if (rc)
			break;
	}
	cairn_cursor_close(cursor);
	return rc;
}

/* Writes all that the cursor shows into the open piece. */
static int copy(struct cairn_table_writer *writer, struct cairn_cursor *cursor)
{
	int rc = cairn_cursor_first(cursor);
	while (rc == 0) {
		struct cairn_record record;
		rc = cairn_cursor_record(cursor, &record);
		if (!rc)
			rc = cairn_run_writer_add(writer->open, &record);
		if (!rc)
			rc = cairn_cursor_next(cursor);
	}
	return rc == CAIRN_END ? 0 : rc;
}

/* Merges `runs`, which have `records` in sum, into *merged. */
static int merge_runs(struct cairn_table_writer *writer, struct cairn_run_reader **runs,
    unsigned count, uint64_t records, struct piece *merged)
{
	struct cairn_cursor *cursor;
	int rc = merge_cursor(runs, count, &cursor);
	if (rc)
		return rc;
	rc = begin_piece(writer);
	if (!rc)
		rc = copy(writer, cursor);
	cairn_cursor_close(cursor);
	if (!rc && !writer->options.last_wins && cairn_run_writer_records(writer->open) != records)
		rc = find_duplicate(writer, runs, count);
	return rc ? rc : finish_piece(writer, merged);
}

/* Makes one of the last `count` pieces. */
static int merge_last(struct cairn_table_writer *writer, unsigned count)
{
	struct piece *inputs = &writer->pieces[writer->count - count];
	struct piece merged = {.level = inputs->level + (inputs->level + 1 < LEVELS)};
	struct cairn_run_reader *runs[FAN_IN * LEVELS];
	unsigned opened = 0;
	uint64_t records = 0;
	int rc = 0;
	for (; !rc && opened < count; opened += !rc) {
		rc = open_piece(writer, &inputs[opened], &runs[opened]);
		records += inputs[opened].records;
	}
	if (!rc)
		rc = merge_runs(writer, runs, count, records, &merged);
	while (opened > 0)
		cairn_run_close(runs[--opened]);
	if (rc)
		return rc;
	for (unsigned i = 0; i < count; i++)
		remove_piece(writer, &inputs[i]);
	*inputs = merged;
	writer->count -= count - 1;
	return 0;
}

/* Whether the last FAN_IN pieces are of one level. Levels never rise from one piece to the next. */
static bool level_full(const struct cairn_table_writer *writer)
{
	return writer->count >= FAN_IN && writer->pieces[writer->count - FAN_IN].level ==
					      writer->pieces[writer->count - 1].level;
}

static int end_piece(struct cairn_table_writer *writer)
{
	struct piece ended = {.level = 0};
	int rc = finish_piece(writer, &ended);
	if (rc)
		return rc;
	writer->pieces[writer->count++] = ended;
	while (!rc && level_full(writer))
		rc = merge_last(writer, FAN_IN);
	return rc;
}

/* ---------------------------------------------------------------- batches */

static struct gathered *gathered(const struct cairn_table_writer *writer)
{
	return (struct gathered *)(void *)writer->list.data;
}

static size_t gathered_count(const struct cairn_table_writer *writer)
{
	return writer->list.size / sizeof(struct gathered);
}

static cairn_slice gathered_key(const struct gathered *record, const uint8_t *bytes)
{
	return cairn_slice_of(bytes + record->at, record->key_size);
}

/* By key, and equal ones in the order in which they came. */
static int compare_gathered(const void *a, const void *b, void *bytes)
{
	const struct gathered *x = a, *y = b;
	if (x->head != y->head)
		return x->head < y->head ? -1 : 1;
	int order = cairn_key_compare(gathered_key(x, bytes), gathered_key(y, bytes));
	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* Writes a sorted batch into the open piece. */
static int write_batch(struct cairn_table_writer *writer)
{
	const uint8_t *bytes = writer->bytes.data;
	const struct gathered *list = gathered(writer);
	size_t count = gathered_count(writer);
	int rc = 0;
	for (size_t i = 0; !rc && i < count; i++) {
		cairn_slice key = gathered_key(&list[i], bytes);
		cairn_slice value =
		    cairn_slice_of(bytes + list[i].at + list[i].key_size, list[i].value_size);
		if (!writer->ascending && i + 1 < count &&
		    cairn_key_equal(key, gathered_key(&list[i + 1], bytes))) {
			rc = writer->options.last_wins ? 0 : duplicate(key);
			continue;
		}
		uint64_t hash = cairn_key_hash(key, writer->spec.identity.hash_seed);
		struct cairn_record record = {.key = key,
		    .value = value,
		    .kind = CAIRN_KIND_PUT,
		    .checksum = cairn_record_checksum(hash, CAIRN_KIND_PUT, value)};
		rc = cairn_run_writer_add(writer->open, &record);
	}
	return rc;
}

/* Room that only an oversized record needed is given back. */
static void empty_batch(struct cairn_table_writer *writer)
{
	if (writer->bytes.capacity > writer->options.memory_limit)
		cairn_buffer_release(&writer->bytes);
	writer->bytes.size = 0;
	writer->list.size = 0;
}

/* Sorts and writes the batch. */
static int drain(struct cairn_table_writer *writer)
{
	struct gathered *list = gathered(writer);
	uint8_t *bytes = writer->bytes.data;
	size_t count = gathered_count(writer);
	int rc = 0;
	if (count == 0)
		return 0;
	if (!writer->ascending)
		qsort_r(list, count, sizeof *list, compare_gathered, bytes);
	if (writer->open && cairn_key_compare(gathered_key(list, bytes),
				cairn_run_writer_last_key(writer->open)) <= 0)
		rc = end_piece(writer);
	if (!rc && !writer->open)
		rc = begin_piece(writer);
	if (!rc)
		rc = write_batch(writer);
	empty_batch(writer);
	return rc;
}

/* Whether `size` more bytes are too many for the batch. Sorting takes as much again as the list. */
static bool batch_full(const struct cairn_table_writer *writer, size_t size)
{
	size_t most = writer->ascending ? STREAM_BYTES : writer->options.memory_limit / 2;
	size_t used = writer->bytes.size + 2 * writer->list.size;
	return used > 0 && used + size > most;
}

/* Sees whether `key` still ascends. */
static int note_order(struct cairn_table_writer *writer, cairn_slice key)
{
	size_t count = gathered_count(writer);
	int order = 1; /* of the key to the last one */
	if (count > 0 && !writer->ascending)
		return 0;
	if (count > 0)
		order = cairn_key_compare(
		    key, gathered_key(&gathered(writer)[count - 1], writer->bytes.data));
	else if (writer->open)
		order = cairn_key_compare(key, cairn_run_writer_last_key(writer->open));
	writer->ascending = order > 0;
	return order == 0 && !writer->options.last_wins ? duplicate(key) : 0;
}

static int gather(struct cairn_table_writer *writer, cairn_slice key, cairn_slice value)
{
	int rc = note_order(writer, key);
	if (!rc && batch_full(writer, key.size + value.size + 2 * sizeof(struct gathered))) {
		rc = drain(writer);
		if (!rc)
			rc = note_order(writer, key);
	}
	if (rc)
		return rc;
	struct gathered record = {.head = cairn_key_head(key, 0),
	    .at = writer->bytes.size,
	    .key_size = (uint32_t)key.size,
	    .value_size = (uint32_t)value.size};
	if (cairn_buffer_reserve(&writer->bytes, key.size + value.size) ||
	    cairn_buffer_reserve(&writer->list, sizeof record))
		return no_memory();
	(void)cairn_buffer_append(&writer->bytes, key.data, key.size);
	(void)cairn_buffer_append(&writer->bytes, value.data, value.size);
	(void)cairn_buffer_append(&writer->list, &record, sizeof record);
	return 0;
}

/* ---------------------------------------------------------------- open, close */

/* 0, or the reason why no call on this writer may go on. */
static int check_writer(const struct cairn_table_writer *writer)
{
	if (!writer)
		return cairn_error(CAIRN_INVALID, "the writer is NULL");
	if (writer->fork_generation !=
	    atomic_load_explicit(&cairn_fork_generation, memory_order_relaxed))
		return cairn_error(
		    CAIRN_FORKED, "%s is being built by the parent process", writer->path);
	return 0;
}

static int open_writer(struct cairn_table_writer *writer, const char *path)
{
	struct cairn_identity *identity = &writer->spec.identity;
	uint8_t random[sizeof identity->store_id + 16];
	writer->fork_generation = cairn_fork_watch();
	writer->piece_path_size = strlen(path) + sizeof ".0123456789abcdef.4294967295.tmp";
	writer->piece_path = malloc(writer->piece_path_size);
	writer->path = strdup(path);
	if (!writer->piece_path || !writer->path)
		return no_memory();
	int rc = writer->io->ops->entropy(writer->io, random, sizeof random);
	memcpy(identity->store_id, random, sizeof identity->store_id);
	identity->hash_seed = cairn_get64(random + sizeof identity->store_id);
	writer->random = cairn_get64(random + sizeof identity->store_id + 8);
	writer->spec.number = CAIRN_TABLE_NUMBER;
	writer->spec.format = writer->options.run_format ? writer->options.run_format : CAIRN_KV02;
	writer->spec.point_index = writer->options.point_index != CAIRN_NO_POINT_INDEX;
	return rc;
}

/* Everything but what has the table's name. */
static void free_writer(struct cairn_table_writer *writer)
{
	cairn_run_writer_abort(writer->open);
	for (unsigned i = 0; i < writer->count; i++)
		remove_piece(writer, &writer->pieces[i]);
	if (writer->owns_io)
		cairn_io_release(writer->io);
	cairn_buffer_release(&writer->bytes);
	cairn_buffer_release(&writer->list);
	free(writer->piece_path);
	free(writer->path);
	free(writer);
}

/* On `io`, or where that is NULL on one that the options select. */
static int open_on(struct cairn_io *io, const char *path, const cairn_options *options,
    cairn_table_writer **writer)
{
	struct cairn_table_writer *made = calloc(1, sizeof *made);
	if (!made)
		return no_memory();
	made->io = io;
	int rc = cairn_options_resolve(options, &made->options);
	if (!rc && !io) {
		rc = cairn_io_select(made->options.io_backend, &made->io);
		made->owns_io = rc == 0;
	}
	if (!rc)
		rc = open_writer(made, path);
	if (rc) {
		free_writer(made);
		return rc;
	}
	*writer = made;
	return 0;
}

int cairn_table_writer_open_with(struct cairn_io *io, const char *path,
    const cairn_options *options, cairn_table_writer **writer)
{
	if (writer)
		*writer = NULL;
	int rc = path && *path && writer
		     ? open_on(io, path, options, writer)
		     : cairn_error(CAIRN_INVALID, "a path and a place for the writer are needed");
	return cairn_report(NULL, rc);
}

int cairn_table_writer_open(
    const char *path, const cairn_options *options, cairn_table_writer **writer)
{
	return cairn_table_writer_open_with(NULL, path, options, writer);
}

/* Keeps the first failure. */
static int fail(struct cairn_table_writer *writer, int rc)
{
	if (rc) {
		writer->failed = rc;
		snprintf(writer->failed_text, sizeof writer->failed_text, "%s", cairn_error_text());
	}
	return rc;
}

int cairn_table_writer_add(cairn_table_writer *writer, cairn_slice key, cairn_slice value)
{
	const struct cairn_record record = {.key = key, .value = value};
	int rc = check_writer(writer);
	if (!rc && writer->failed)
		rc = cairn_error(writer->failed, "%s", writer->failed_text);
	if (!rc)
		rc = cairn_check_record(&record);
	if (!rc)
		rc = fail(writer, gather(writer, key, value));
	return cairn_report(NULL, rc);
}

void cairn_table_writer_abort(cairn_table_writer *writer)
{
	if (!check_writer(writer))
		free_writer(writer);
}

/* ---------------------------------------------------------------- the end */

/* A run has one record at least; a table need not (table.c). */
static int make_empty(struct cairn_table_writer *writer)
{
	struct cairn_record nothing = {.key = {"", 0}, .value = {"", 0}, .kind = CAIRN_KIND_DELETE};
	uint64_t hash = cairn_key_hash(nothing.key, writer->spec.identity.hash_seed);
	nothing.checksum = cairn_record_checksum(hash, nothing.kind, nothing.value);
	writer->spec.kinds = true;
	int rc = begin_piece(writer);
	return rc ? rc : cairn_run_writer_add(writer->open, &nothing);
}

/* Brings all that was added into one piece. */
static int unite(struct cairn_table_writer *writer)
{
	int rc = drain(writer);
	if (!rc && !writer->open && writer->count == 0)
		rc = make_empty(writer);
	if (!rc && writer->open)
		rc = end_piece(writer);
	return rc || writer->count == 1 ? rc : merge_last(writer, writer->count);
}

static int verify(const struct cairn_table_writer *writer)
{
	struct cairn_run_reader *run;
	int rc = open_piece(writer, &writer->pieces[0], &run);
	if (rc)
		return rc;
	rc = cairn_run_verify(run, NULL, NULL);
	cairn_run_close(run);
	if (rc == CAIRN_CORRUPT)
		cairn_error_at(rc, writer->path, CAIRN_NO_OFFSET,
		    "what was written for it reads back damaged; check the disk and build again");
	return rc;
}

/* Gives the one piece the table's name. */
static int publish(struct cairn_table_writer *writer)
{
	const struct cairn_io_ops *ops = writer->io->ops;
	char *parent = cairn_path_parent(writer->path);
	int rc = parent ? ops->rename(writer->io, piece_path(writer, writer->pieces[0].number),
			      writer->path)
			: no_memory();
	if (!rc) {
		writer->count = 0;
		rc = ops->sync_directory(writer->io, parent);
	}
	free(parent);
	return rc;
}

int cairn_table_writer_finish(cairn_table_writer *writer)
{
	int rc = check_writer(writer);
	if (rc)
		return cairn_report(NULL, rc);
	rc = writer->failed ? cairn_error(writer->failed, "%s", writer->failed_text) : 0;
	if (!rc)
		rc = unite(writer);
	if (!rc)
		rc = verify(writer);
	if (!rc)
		rc = publish(writer);
	free_writer(writer);
	return cairn_report(NULL, rc);
}
