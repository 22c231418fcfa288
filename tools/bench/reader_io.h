/*
 * tools/bench/reader_io.h -- as much of format/io.h as reading finished files takes, so that the
 * benchmark can search runs in ways that the store does not offer.
 */
#ifndef CAIRN_TOOLS_BENCH_READER_IO_H
#define CAIRN_TOOLS_BENCH_READER_IO_H

#include "format/io.h"

extern struct cairn_io cairn_bench_reader_io;

#endif
