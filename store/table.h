/*
 * store/table.h -- what the two halves of frozen tables share; and tables on a given I/O layer,
 * which the caller keeps (NULL: their own), for tests.
 */
#ifndef CAIRN_STORE_TABLE_H
#define CAIRN_STORE_TABLE_H

#include "format/io.h"
#include "store/cairn.h"

/* The number in the header of a table's file. Those of a store's runs begin at 1. */
#define CAIRN_TABLE_NUMBER UINT64_C(0)

/* table.c: cairn_table_open on `io`. */
int cairn_table_open_with(struct cairn_io *io, const char *path, cairn_table **table);

/* table_writer.c: cairn_table_writer_open on `io`. */
int cairn_table_writer_open_with(struct cairn_io *io, const char *path,
    const cairn_options *options, cairn_table_writer **writer);

#endif
