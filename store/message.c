/*
 * store/message.c -- what went wrong, per thread and handle.
 *
 * format/error.h keeps one text per thread, of failures that somebody on the way up may have cured;
 * here a failure that leaves the API is kept, once as the thread's last one and once for its
 * handle, for the few handles that a thread works with at a time.
 */
#include <stdio.h>

#include "store/store.h"

#define HANDLES 4

static _Thread_local struct {
	const struct cairn *db;
	char text[CAIRN_ERROR_TEXT_MAX];
} messages[HANDLES];
static _Thread_local unsigned next_message;
static _Thread_local char last_text[CAIRN_ERROR_TEXT_MAX];

static char *message_of(const struct cairn *db)
{
	for (unsigned i = 0; i < HANDLES; i++)
		if (messages[i].db == db)
			return messages[i].text;
	return NULL;
}

int cairn_report(const struct cairn *db, int rc)
{
	if (CAIRN_LIKELY(rc >= 0))
		return rc;
	if (cairn_error_code() != rc)
		cairn_error(rc, "%s", cairn_strerror(rc));
	snprintf(last_text, sizeof last_text, "%s", cairn_error_text());
	if (!db)
		return rc;
	char *text = message_of(db);
	if (!text) {
		unsigned i = next_message++ % HANDLES;
		messages[i].db = db;
		text = messages[i].text;
	}
	snprintf(text, CAIRN_ERROR_TEXT_MAX, "%s", cairn_error_text());
	return rc;
}

void cairn_forget_messages(const struct cairn *db)
{
	for (unsigned i = 0; i < HANDLES; i++)
		if (messages[i].db == db)
			messages[i].db = NULL;
}

const char *cairn_message(const cairn *db)
{
	if (!db)
		return last_text;
	const char *text = message_of(db);
	return text ? text : "";
}

const char *cairn_strerror(int code)
{
	switch (code) {
#define STATUS_TEXT(name, number, text) \
	case name:                      \
		return text;
		CAIRN_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
	default:
		break;
	}
	const char *text = code < 0 && code > -4096 ? strerrordesc_np(-code) : NULL;
	return text ? text : "unknown result";
}

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

const char *cairn_version(void)
{
	return TEXT(CAIRN_VERSION_MAJOR) "." TEXT(CAIRN_VERSION_MINOR) "." TEXT(
	    CAIRN_VERSION_PATCH);
}
