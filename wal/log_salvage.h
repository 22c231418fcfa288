/*
 * wal/log_salvage.h -- what of a log can still be proved: for repair, and nothing else.
 *
 * A log is a history, and what can be proved is a prefix of it: whole records, one after the other,
 * from a known sequence on. So reading ends at the first damage, whatever can be read behind it;
 * that is counted, and told. Where replay (log_reader.h) finds nothing wrong the result is the
 * same, a torn tail included. Unlike it, this goes as far as it can, with or without a manifest
 * that says where the log begins.
 */
#ifndef CAIRN_WAL_LOG_SALVAGE_H
#define CAIRN_WAL_LOG_SALVAGE_H

#include "wal/log_reader.h"

struct cairn_log_salvage {
	const char *directory;
	/* As the manifest has it. Without a manifest number is 0, and `sequence` the last one that
	 * a run is known to hold. */
	struct cairn_log_start start;
	bool manifest;
	/* As for a replay. */
	int (*apply)(void *context, uint64_t first_sequence, uint32_t count, cairn_slice body);
	/* Something could not be proved. */
	void (*lost)(void *context, const char *path, uint64_t offset, const char *text);
	void *context;
};

/* 0, what apply returned, or a failure of the disk or of memory. *last is the sequence of the last
 * operation applied or skipped. */
int cairn_log_salvage(struct cairn_io *io, const struct cairn_log_salvage *salvage, uint64_t *last);

#endif
