/*
 * format/error.h -- the one birthplace of a failure's message.
 *
 * Whoever finds a failure names it once, here, with the file, the offset and what to do; callers
 * only pass the code up. The text is kept per thread until the next failure of that thread; the
 * store attaches it to a handle at the border of the API (cairn_message). Set a breakpoint on
 * cairn_error to see where a failure comes from.
 */
#ifndef CAIRN_FORMAT_ERROR_H
#define CAIRN_FORMAT_ERROR_H

#include <errno.h>

#include "format/base.h"

#define CAIRN_ERROR_TEXT_MAX 1024

/* Records the message, returns `code`. Allocates nothing, cuts what does not fit. */
int cairn_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As cairn_error, for a file: "PATH: at offset N: …". Offset CAIRN_NO_OFFSET leaves that part out.
 */
#define CAIRN_NO_OFFSET UINT64_MAX
int cairn_error_at(int code, const char *path, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* As cairn_error_at for a failed system call: -errno, "PATH: CALL: text of errno", advice for
 * ENOSPC etc. */
int cairn_error_system(int code, const char *path, const char *call);

/* Whether a failure says that the disk is full, or this user's share of it. */
static inline bool cairn_no_space(int code)
{
	return code == -ENOSPC || code == -EDQUOT;
}

/* A key for a message: printable bytes as they are, others as \xNN, cut when it is long. Returns
 * `text`. */
#define CAIRN_ERROR_KEY_MAX 168
char *cairn_error_key(cairn_slice key, char text[CAIRN_ERROR_KEY_MAX]);

/* The thread's last message; "" before the first. Valid until the thread's next failure. */
const char *cairn_error_text(void);

/* The code that belongs to it; 0 before the first. */
int cairn_error_code(void);

/* The same failure in parts: the bytes of the text that are the file's path (0 = it names none),
 * the offset (0 when there is none), and the text behind them. */
size_t cairn_error_path_size(void);
uint64_t cairn_error_offset(void);
const char *cairn_error_cause(void);

#endif
