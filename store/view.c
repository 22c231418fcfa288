/*
 * store/view.c -- see view.h.
 */
#include "store/view.h"

#include <errno.h>
#include <stdlib.h>

#include "format/checksum.h"

/* Room for the sequences of all views and for the published one behind them (write.c). [write_lock]
 */
static int reserve_sequences(struct cairn *db)
{
	if (db->view_count + 2 <= db->view_capacity)
		return 0;
	size_t capacity = db->view_capacity * 2;
	uint64_t *sequences = realloc(db->view_sequences, capacity * sizeof *sequences);
	if (!sequences)
		return cairn_error(-ENOMEM, "out of memory for a view");
	db->view_sequences = sequences;
	db->view_capacity = capacity;
	return 0;
}

/* [write_lock] */
static int register_view(struct cairn *db, struct cairn_view *view)
{
	int rc = reserve_sequences(db);
	if (rc)
		return rc;
	view->set = atomic_load_explicit(&db->set, memory_order_relaxed);
	cairn_set_ref(view->set);
	view->sequence = atomic_load_explicit(&db->sequence, memory_order_relaxed);
	view->prev = db->views_last;
	*(db->views_last ? &db->views_last->next : &db->views) = view;
	db->views_last = view;
	db->view_sequences[db->view_count++] = view->sequence;
	return 0;
}

/* [write_lock] */
static void unregister_view(struct cairn *db, struct cairn_view *view)
{
	*(view->prev ? &view->prev->next : &db->views) = view->next;
	*(view->next ? &view->next->prev : &db->views_last) = view->prev;
	size_t i = 0;
	for (const struct cairn_view *v = db->views; v; v = v->next)
		db->view_sequences[i++] = v->sequence;
	db->view_count = i;
}

int cairn_view_open(cairn *db, cairn_view **view)
{
	if (view)
		*view = NULL;
	int rc = cairn_check_handle(db);
	if (!rc && !view)
		rc = cairn_error(CAIRN_INVALID, "no place for the view was given");
	if (rc)
		return cairn_report(db, rc);
	struct cairn_view *made = calloc(1, sizeof *made);
	if (!made)
		return cairn_report(db, cairn_error(-ENOMEM, "out of memory for a view"));
	made->db = db;
	made->opened_at = db->io->ops->now(db->io);
	cairn_write_lock(&db->write_lock);
	rc = register_view(db, made);
	cairn_write_unlock(&db->write_lock);
	if (rc)
		free(made);
	else
		*view = made;
	return cairn_report(db, rc);
}

int cairn_view_close(cairn_view *view)
{
	if (!view)
		return 0;
	struct cairn *db = view->db;
	int rc = cairn_check_handle(db);
	if (!rc && view->iterators)
		rc = cairn_error(CAIRN_BUSY, "%u iterators of the view are open; close them first",
		    view->iterators);
	if (rc)
		return cairn_report(db, rc);
	cairn_write_lock(&db->write_lock);
	unregister_view(db, view);
	cairn_write_unlock(&db->write_lock);
	cairn_set_unref(view->set);
	free(view);
	if (db->options.no_background)
		cairn_obsolete_remove(&db->obsolete, db->io);
	return 0;
}

int cairn_view_get(cairn_view *view, cairn_slice key, cairn_slice *value)
{
	*value = (cairn_slice){NULL, 0};
	struct cairn *db = view->db;
	int rc = cairn_check_handle(db);
	if (!rc && key.size && !key.data)
		rc = cairn_error(CAIRN_INVALID, "a slice with a size has no data");
	if (!rc && key.size > CAIRN_KEY_MAX)
		return CAIRN_NOT_FOUND;
	struct cairn_record record;
	if (!rc)
		rc = cairn_set_find(view->set, key, cairn_key_hash(key, db->identity.hash_seed),
		    view->sequence, &record);
	if (rc)
		return cairn_report(db, rc);
	if (record.kind == CAIRN_KIND_DELETE)
		return CAIRN_NOT_FOUND;
	*value = record.value.size ? record.value : (cairn_slice){"", 0};
	return 0;
}
