/*
 * format/run_salvage.h -- what can still be read of a damaged `.kv` file: for repair, and nothing
 * else.
 *
 * Blocks stand alone and their key areas are checksummed with the place where they stand. So no
 * section is needed to find them: they are read from the front, and behind damage the next one is
 * searched for at every 8-byte step.
 *
 * Threads. One at a time.
 */
#ifndef CAIRN_FORMAT_RUN_SALVAGE_H
#define CAIRN_FORMAT_RUN_SALVAGE_H

#include "format/io.h"
#include "format/iter.h"
#include "format/run_file.h"

struct cairn_run_salvage;

/* Maps the file. 0 or a failure of the disk or of memory; damage is not one. */
int cairn_run_salvage_open(
    struct cairn_io *io, const char *path, struct cairn_run_salvage **salvage);
void cairn_run_salvage_close(struct cairn_run_salvage *salvage); /* NULL is fine */

/* NULL when it does not check out. */
const struct cairn_run_header *cairn_run_salvage_header(const struct cairn_run_salvage *salvage);
const struct cairn_run_footer *cairn_run_salvage_footer(const struct cairn_run_salvage *salvage);
const char *cairn_run_salvage_path(const struct cairn_run_salvage *salvage);
uint64_t cairn_run_salvage_size(const struct cairn_run_salvage *salvage);

/*
 * Told of each stretch of the file from which no keys could be read: it begins at `offset`, and the
 * records in it have keys above *after and below *before (NULL: there is no such bound).
 */
typedef void cairn_run_lost(void *context, const char *path, uint64_t offset,
    const cairn_slice *after, const cairn_slice *before);

/*
 * A cursor over the records whose keys can be read, forwards only (first, next, record, close). Its
 * `record` verifies with `hash_seed`, as a run's does: CAIRN_CORRUPT when key or value cannot be
 * proved, and the cursor can go on. Does not outlive the salvage.
 */
int cairn_run_salvage_cursor(struct cairn_run_salvage *salvage, uint64_t hash_seed,
    cairn_run_lost *lost, void *context, struct cairn_cursor **cursor);

#endif
