/*
 * store/options.h -- from what a program asked for to what the store does.
 */
#ifndef CAIRN_STORE_OPTIONS_H
#define CAIRN_STORE_OPTIONS_H

#include "store/cairn.h"

/*
 * Every field of *resolved with its real value, but for the stored choices, where 0 stays 0.
 * `options` may be NULL. CAIRN_INVALID, or CAIRN_UNSUPPORTED for a value that exists but is not
 * built; the message names the field.
 */
int cairn_options_resolve(const cairn_options *options, cairn_options *resolved);

#endif
