/*
 * store/iterate.h -- iterators over what is not a view.
 */
#ifndef CAIRN_STORE_ITERATE_H
#define CAIRN_STORE_ITERATE_H

#include <stdatomic.h>

#include "format/iter.h"
#include "store/cairn.h"

/*
 * An iterator over `cursor`, which it takes over (also on failure), that belongs to no handle: its
 * messages are those of cairn_message(NULL). *in_use counts it until it is closed.
 */
int cairn_iter_over(struct cairn_cursor *cursor, const cairn_range *range, _Atomic unsigned *in_use,
    cairn_iter **iter);

#endif
