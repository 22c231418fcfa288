/*
 * cairn_status.h -- the words that every layer of cairn and every user of it share:
 * result codes, the slice, record limits, run formats. Installed beside <cairn.h>.
 */
#ifndef CAIRN_STATUS_H
#define CAIRN_STATUS_H

#include <stddef.h>

/*
 * Every function of cairn that can fail returns an int.
 *   0          success
 *   positive   an answer that is not a failure: not found, end
 *   negative   a failure: -errno from the system, or one of the codes below -20000
 * The numbers end up in users' logs; they are only ever added to.
 */
#define CAIRN_STATUS_MAP(X)                                                                   \
	X(CAIRN_OK, 0, "success")                                                             \
	X(CAIRN_NOT_FOUND, 1, "key not found")                                                \
	X(CAIRN_END, 2, "no more records in this direction")                                  \
	X(CAIRN_PARTIAL, 3, "repaired, with something missing or in doubt")                   \
	X(CAIRN_CORRUPT, -20001, "stored data failed verification")                           \
	X(CAIRN_FAILED, -20002, "an earlier write failed; close the store and open it again") \
	X(CAIRN_LOCKED, -20003, "the store is open for writing elsewhere")                    \
	X(CAIRN_READ_ONLY, -20004, "the store was opened for reading only")                   \
	X(CAIRN_INVALID, -20005, "an argument is not valid")                                  \
	X(CAIRN_TOO_LARGE, -20006, "a key, value or batch is larger than its limit")          \
	X(CAIRN_UNSUPPORTED, -20007, "not supported by this version of cairn")                \
	X(CAIRN_CONFLICT, -20008, "the store changed while it was being read")                \
	X(CAIRN_BUSY, -20009, "still in use")                                                 \
	X(CAIRN_FORKED, -20010, "the handle was opened by the parent process")

enum cairn_status {
#define CAIRN_STATUS_ENUM(name, number, text) name = (number),
	CAIRN_STATUS_MAP(CAIRN_STATUS_ENUM)
#undef CAIRN_STATUS_ENUM
};

/* Bytes that somebody else owns. An empty slice may have any `data`, NULL included. */
typedef struct {
	const void *data;
	size_t size;
} cairn_slice;

/* Limits, in bytes, both ends included. Checked before a byte is written. */
#define CAIRN_KEY_MAX        65535u
#define CAIRN_VALUE_MAX      1073741823u /* 1 GiB - 1 */
#define CAIRN_BATCH_MAX      1073741824u /* 1 GiB: keys + values + 32 for each operation */

/* The coding of a sorted run. 0 in an option means: what the store already uses. */
#define CAIRN_KV02           2 /* byte aligned */
#define CAIRN_KV03           3 /* bit packed */

/* Compression of the values of a run. */
#define CAIRN_NO_COMPRESSION 1
#define CAIRN_LZ4            2

/* Whether runs carry a point index (a hash over their keys). */
#define CAIRN_POINT_INDEX    1
#define CAIRN_NO_POINT_INDEX 2

#endif
