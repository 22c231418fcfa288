/*
 * tests/match.h -- whether a store holds what a model says. The first difference is printed.
 */
#ifndef CAIRN_TESTS_MATCH_H
#define CAIRN_TESTS_MATCH_H

#include "store/cairn.h"
#include "tests/model.h"

/* All of a view, scanned forwards and backwards. */
bool match_view(cairn_view *view, const struct model *model);

/* All of a store, through a view of its own. */
bool match_store(cairn *db, const struct model *model);

/* The store at `path`, through a handle of its own with `options`, which may be read-only. */
bool match_path(const char *path, const cairn_options *options, const struct model *model);

/* cairn_verify finds nothing. */
bool match_verify(const char *path);

/* Every run is at most a quarter of the next older one. */
bool match_cascade(cairn *db);

#endif
