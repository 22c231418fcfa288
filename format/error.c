/*
 * format/error.c -- the message of a thread's last failure.
 *
 * 1. The text always ends with a NUL; what does not fit is cut.
 * 2. A message may be made from the text that it replaces: it is put together aside, then copied.
 *
 * Every thread has its own text; nothing is shared.
 */
#include "format/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_text[CAIRN_ERROR_TEXT_MAX];
static _Thread_local int last_code;
static _Thread_local size_t last_path_size; /* of the text, what is the path … */
static _Thread_local size_t last_cause;     /* … and where the cause begins */
static _Thread_local uint64_t last_offset;

struct message {
	char text[CAIRN_ERROR_TEXT_MAX];
	size_t size;
};

static void message_add_list(struct message *message, const char *format, va_list arguments)
{
	size_t room = sizeof message->text - message->size;
	int wanted = vsnprintf(message->text + message->size, room, format, arguments);
	if (wanted > 0)
		message->size += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

__attribute__((format(printf, 2, 3))) static void message_add(
    struct message *message, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_add_list(message, format, arguments);
	va_end(arguments);
}

static int message_publish(const struct message *message, int code)
{
	last_code = code;
	last_path_size = 0;
	last_cause = 0;
	last_offset = 0;
	memcpy(last_text, message->text, message->size);
	last_text[message->size] = '\0';
	return code;
}

int cairn_error(int code, const char *format, ...)
{
	struct message message = {.size = 0};
	va_list arguments;
	va_start(arguments, format);
	message_add_list(&message, format, arguments);
	va_end(arguments);
	return message_publish(&message, code);
}

int cairn_error_at(int code, const char *path, uint64_t offset, const char *format, ...)
{
	struct message message = {.size = 0};
	message_add(&message, "%s", path);
	size_t path_size = message.size;
	message_add(&message, ": ");
	if (offset != CAIRN_NO_OFFSET)
		message_add(&message, "at offset %" PRIu64 ": ", offset);
	size_t cause = message.size;
	va_list arguments;
	va_start(arguments, format);
	message_add_list(&message, format, arguments);
	va_end(arguments);
	message_publish(&message, code);
	last_path_size = path_size;
	last_cause = cause;
	last_offset = offset != CAIRN_NO_OFFSET ? offset : 0;
	return code;
}

/* What a person can do about it, or NULL when the text of errno already says all that is known. */
static const char *advice(int error)
{
	switch (error) {
	case ENOSPC:
		return "free some space and try again";
	case EDQUOT:
		return "free some space or raise the quota, and try again";
	case EACCES:
	case EPERM:
		return "check owner and permissions of the file and of the directories above it";
	case EROFS:
		return "mount the file system for writing, or open the store for reading only";
	case EMFILE:
		return "raise the limit of open files of this process (ulimit -n)";
	case ENFILE:
		return "raise the limit of open files of the system (sysctl fs.file-max)";
	case EIO:
		return "the disk may be failing; look into the system log and save a copy of the "
		       "store";
	case ENOMEM:
		return "free some memory or raise the memory limit of this process, and try again";
	default:
		return NULL;
	}
}

int cairn_error_system(int code, const char *path, const char *call)
{
	char space[128];
	const char *text = strerror_r(-code, space, sizeof space);
	const char *todo = advice(-code);
	return cairn_error_at(code, path, CAIRN_NO_OFFSET, "%s: %s%s%s", call, text,
	    todo ? "; " : "", todo ? todo : "");
}

const char *cairn_error_text(void)
{
	return last_text;
}

int cairn_error_code(void)
{
	return last_code;
}

size_t cairn_error_path_size(void)
{
	return last_path_size;
}

uint64_t cairn_error_offset(void)
{
	return last_offset;
}

const char *cairn_error_cause(void)
{
	return last_text + last_cause;
}

#define KEY_SHOWN 40u

char *cairn_error_key(cairn_slice key, char text[CAIRN_ERROR_KEY_MAX])
{
	const uint8_t *bytes = key.data;
	size_t size = 0;
	for (size_t i = 0; i < key.size && i < KEY_SHOWN; i++) {
		bool plain = bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\';
		int added = snprintf(
		    text + size, CAIRN_ERROR_KEY_MAX - size, plain ? "%c" : "\\x%02x", bytes[i]);
		size += (size_t)added;
	}
	snprintf(text + size, CAIRN_ERROR_KEY_MAX - size, "%s", key.size > KEY_SHOWN ? "..." : "");
	return text;
}
