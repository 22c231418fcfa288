/*
 * store/table.c -- frozen tables: one `.kv` file read by itself.
 *
 * A table is a run that belongs to no store: its header has an identity of its own and the number
 * CAIRN_TABLE_NUMBER. A run holds one record at least, so a table without any is a run with one
 * tombstone, which no read shows.
 *
 * Threads. Nothing changes after open but the count of iterators, and what run_reader.h says.
 */
#include "store/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/checksum.h"
#include "format/run_reader.h"
#include "store/io_select.h"
#include "store/iterate.h"
#include "store/store.h"

struct cairn_frozen_table {
	struct cairn_io *io;
	bool owns_io;
	struct cairn_run_reader *run;
	_Atomic unsigned iterators;
};

static void free_table(struct cairn_frozen_table *table)
{
	cairn_run_close(table->run);
	if (table->owns_io)
		cairn_io_release(table->io);
	free(table);
}

static int open_run(struct cairn_frozen_table *table, const char *path)
{
	int rc = cairn_run_open(table->io, path, NULL, &table->run);
	if (rc)
		return rc;
	uint64_t number = cairn_run_header(table->run)->number;
	if (number == CAIRN_TABLE_NUMBER)
		return 0;
	return cairn_error_at(CAIRN_INVALID, path, CAIRN_NO_OFFSET,
	    "is run %" PRIu64 " of a store, not a table; open the store, or build a table of it",
	    number);
}

/* On `io`, or where that is NULL on one of its own. */
static int open_table(struct cairn_io *io, const char *path, cairn_table **table)
{
	struct cairn_frozen_table *made = calloc(1, sizeof *made);
	if (!made)
		return cairn_error(-ENOMEM, "out of memory for a table");
	int rc = 0;
	made->io = io;
	if (!io) {
		rc = cairn_io_select(CAIRN_IO_POSIX, &made->io); /* it maps, and never writes */
		made->owns_io = rc == 0;
	}
	if (!rc)
		rc = open_run(made, path);
	if (rc) {
		free_table(made);
		return rc;
	}
	*table = made;
	return 0;
}

int cairn_table_open_with(struct cairn_io *io, const char *path, cairn_table **table)
{
	if (table)
		*table = NULL;
	int rc = path && *path && table
		     ? open_table(io, path, table)
		     : cairn_error(CAIRN_INVALID, "a path and a place for the table are needed");
	return cairn_report(NULL, rc);
}

int cairn_table_open(const char *path, cairn_table **table)
{
	return cairn_table_open_with(NULL, path, table);
}

int cairn_table_close(cairn_table *table)
{
	if (!table)
		return 0;
	unsigned iterators = atomic_load(&table->iterators);
	if (iterators > 0)
		return cairn_report(
		    NULL, cairn_error(CAIRN_BUSY, "%u iterators of the table are open", iterators));
	free_table(table);
	return 0;
}

int cairn_table_get(cairn_table *table, cairn_slice key, cairn_slice *value)
{
	struct cairn_record record;
	if (value)
		*value = (cairn_slice){NULL, 0};
	if (CAIRN_UNLIKELY(!table || !value || (key.size && !key.data)))
		return cairn_report(
		    NULL, cairn_error(CAIRN_INVALID,
			      "a table, a key and a place for the value are needed"));
	if (CAIRN_UNLIKELY(key.size > CAIRN_KEY_MAX))
		return CAIRN_NOT_FOUND;
	uint64_t seed = cairn_run_header(table->run)->identity.hash_seed;
	int rc = cairn_run_get(table->run, key, cairn_key_hash(key, seed), &record);
	if (rc)
		return cairn_report(NULL, rc);
	if (CAIRN_UNLIKELY(record.kind == CAIRN_KIND_DELETE))
		return CAIRN_NOT_FOUND;
	*value = record.value.size ? record.value : (cairn_slice){"", 0};
	return 0;
}

uint64_t cairn_table_count(const cairn_table *table)
{
	const struct cairn_run_footer *footer = cairn_run_footer(table->run);
	return footer->records - footer->tombstones;
}

int cairn_table_iter_open(cairn_table *table, const cairn_range *range, cairn_iter **iter)
{
	struct cairn_cursor *cursor;
	if (iter)
		*iter = NULL;
	if (!table || !iter)
		return cairn_report(NULL,
		    cairn_error(CAIRN_INVALID, "a table and a place for the iterator are needed"));
	int rc = cairn_run_cursor_open(table->run, CAIRN_ADVISE_RANDOM, &cursor);
	if (!rc)
		rc = cairn_iter_over(cursor, range, &table->iterators, iter);
	return cairn_report(NULL, rc);
}
