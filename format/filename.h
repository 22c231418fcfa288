/*
 * format/filename.h -- the names of the files in a store's directory.
 */
#ifndef CAIRN_FORMAT_FILENAME_H
#define CAIRN_FORMAT_FILENAME_H

#include "format/base.h"

enum cairn_file_kind {
	CAIRN_FILE_FOREIGN, /* not ours: never touched */
	CAIRN_FILE_LOCK,
	CAIRN_FILE_MANIFEST,
	CAIRN_FILE_MANIFEST_OLD,
	CAIRN_FILE_LOG,       /* NNNNNN.wal */
	CAIRN_FILE_RUN,       /* NNNNNN.kv */
	CAIRN_FILE_INDEX,     /* NNNNNN.ix */
	CAIRN_FILE_TEMPORARY, /* NNNNNN.tmp and two of the manifest's: removed at open, without a
				 word */
};

/* The numbers of the temporary files that have no number in their name. */
#define CAIRN_TEMPORARY_MANIFEST     UINT64_C(0)
#define CAIRN_TEMPORARY_MANIFEST_OLD UINT64_MAX

/*
 * The path of a file in `directory`, allocated with malloc; NULL when memory is short. Numbers have
 * at least six digits and no more leading zeros than that. `number` is ignored for LOCK and the
 * manifests.
 */
char *cairn_filename(const char *directory, enum cairn_file_kind kind, uint64_t number);

/* What a bare name is; *number is set for the numbered kinds, else 0. Accepts exactly what
 * cairn_filename makes. */
enum cairn_file_kind cairn_filename_parse(const char *name, uint64_t *number);

/* The directory that `path` is an entry of ("." for a bare name), allocated with malloc; NULL when
 * memory is short. */
char *cairn_path_parent(const char *path);

#endif
