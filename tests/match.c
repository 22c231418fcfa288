/*
 * tests/match.c -- see match.h.
 */
#include "tests/match.h"

#include <stdio.h>

static void print_slice(const char *what, cairn_slice slice)
{
	const unsigned char *bytes = slice.data;
	printf("  %s: %zu bytes%s", what, slice.size, slice.data ? "" : " at NULL");
	for (size_t i = 0; slice.data && i < slice.size && i < 32; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}

static bool differs(const char *what, cairn_slice found, cairn_slice expected)
{
	printf("%s differs\n", what);
	print_slice("found", found);
	print_slice("expected", expected);
	return false;
}

static bool match_record(cairn_iter *iter, const struct model *model, size_t index)
{
	cairn_slice key = cairn_iter_key(iter), value = cairn_iter_value(iter);
	if (!key.data || !model_equal(key, model_key(model, index)))
		return differs("a key", key, model_key(model, index));
	if (!value.data || !model_equal(value, model_value(model, index))) {
		print_slice("key", key);
		return differs("a value", value, model_value(model, index));
	}
	return true;
}

/* What a scan answered behind the last record that was expected. */
static bool match_end(cairn_iter *iter, int rc, size_t seen, const struct model *model)
{
	if (seen == model->count && rc == CAIRN_END)
		return true;
	printf("scan answered %d (%s) after %zu of %zu records\n", rc,
	    rc < 0 ? cairn_message(NULL) : cairn_strerror(rc), seen, model->count);
	if (rc == 0)
		print_slice("on", cairn_iter_key(iter));
	return false;
}

static bool match_scan(cairn_iter *iter, const struct model *model, bool forwards)
{
	size_t seen = 0;
	int rc = forwards ? cairn_iter_first(iter) : cairn_iter_last(iter);
	while (rc == 0 && seen < model->count) {
		if (!match_record(iter, model, forwards ? seen : model->count - 1 - seen))
			return false;
		seen++;
		rc = forwards ? cairn_iter_next(iter) : cairn_iter_prev(iter);
	}
	return match_end(iter, rc, seen, model);
}

static bool succeeded(int rc, const char *call)
{
	if (rc)
		printf("%s answered %d (%s)\n", call, rc, cairn_message(NULL));
	return rc == 0;
}

bool match_view(cairn_view *view, const struct model *model)
{
	cairn_iter *iter;
	if (!succeeded(cairn_iter_open(view, NULL, &iter), "cairn_iter_open"))
		return false;
	bool same = match_scan(iter, model, true) && match_scan(iter, model, false);
	cairn_iter_close(iter);
	return same;
}

bool match_store(cairn *db, const struct model *model)
{
	cairn_view *view;
	if (!succeeded(cairn_view_open(db, &view), "cairn_view_open"))
		return false;
	bool same = match_view(view, model);
	return succeeded(cairn_view_close(view), "cairn_view_close") && same;
}

bool match_path(const char *path, const cairn_options *options, const struct model *model)
{
	cairn *db;
	if (!succeeded(cairn_open(path, options, &db), "cairn_open"))
		return false;
	bool same = match_store(db, model);
	return succeeded(cairn_close(db), "cairn_close") && same;
}

static int print_finding(void *context, const cairn_finding *finding)
{
	(void)context;
	printf("verify: %s: at offset %llu: %s\n", finding->path,
	    (unsigned long long)finding->offset, finding->message);
	return 0;
}

bool match_verify(const char *path)
{
	return succeeded(cairn_verify(path, NULL, print_finding, NULL), "cairn_verify");
}

bool match_cascade(cairn *db)
{
	cairn_stats stats;
	if (!succeeded(cairn_stat(db, &stats), "cairn_stat"))
		return false;
	bool cascade = stats.run_count <= CAIRN_STAT_RUNS_MAX;
	for (size_t i = 1; i < stats.run_count && cascade; i++)
		cascade = stats.runs[i - 1].bytes <= stats.runs[i].bytes / 4;
	for (size_t i = 0; i < stats.run_count && !cascade; i++)
		printf("run %zu has %llu bytes\n", i, (unsigned long long)stats.runs[i].bytes);
	return cascade;
}
