/*
 * format/rank.c -- see rank.h.
 */
#include "format/rank.h"

bool cairn_rank_portable_only;
