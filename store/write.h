/*
 * store/write.h -- what of the write path others need.
 */
#ifndef CAIRN_STORE_WRITE_H
#define CAIRN_STORE_WRITE_H

#include "format/base.h"

/* 0, or CAIRN_TOO_LARGE / CAIRN_INVALID with the limit in the message. */
int cairn_check_record(const struct cairn_record *record);

#endif
