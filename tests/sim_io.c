/*
 * tests/sim_io.c -- a simulated disk (sim_io.h).
 *
 * Bytes are counted and shared: what a file shows, what the kernel believes to be on the disk and
 * what is there are one piece while nothing differs, and a disk made by a crash shares it too. A
 * piece with more than one owner never changes; its owner makes a copy first. Only the bytes of a
 * log that is mapped change without a call, so those have one owner while they are mapped.
 */
#include "tests/sim_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/checksum.h"
#include "format/error.h"

#define SECTOR     512u
#define PAGE       4096u
#define CLOCK_TICK 1000u
#define NO_LIMIT   (UINT64_C(1) << 50)

struct bytes {
	unsigned owners;
	bool hashed;
	uint64_t hash; /* when hashed */
	size_t size, capacity;
	uint8_t *data;
};

struct inode {
	struct sim_disk *disk;
	unsigned references; /* of names, changes and whatever is open */
	unsigned links;      /* names that programs see */
	bool directory, locked, mapped;
	struct bytes *seen;     /* by programs */
	struct bytes *believed; /* to be on the disk, by the kernel */
	struct bytes *durable;
	struct inode *copy; /* while a crash is made: the same file on the other disk */
};

struct name {
	char *path;
	struct inode *inode; /* NULL in a change: no such name from then on */
};

/* Ascending by path. */
struct names {
	struct name *list;
	size_t count, capacity;
};

/* What one call did to the names of a directory and no sync of it covers: all of it or nothing. */
struct change {
	char *directory;
	struct name names[2];
	size_t count;
};

struct mapping {
	const uint8_t *data;
	struct bytes *bytes;
};

struct sim_disk {
	struct cairn_io io;
	uint64_t random;
	uint64_t clock;
	uint64_t used, limit;
	bool refuses_map_log;
	unsigned bugs;
	struct names seen, durable;
	struct change *changes; /* oldest first */
	size_t change_count, change_capacity;
	struct mapping *mappings;
	size_t mapping_count;
	size_t open_count;
	sim_watcher *watcher;
	void *watcher_context;
	struct sim_fault fault;
	uint64_t calls, faults;
};

struct sim_file {
	struct cairn_file base;
	struct inode *inode;
	bool writable, log_mapped;
};

struct sim_lock {
	struct cairn_lock base;
	struct inode *inode;
};

struct sim_queue {
	struct cairn_queue base;
	unsigned depth;
	struct cairn_write_request **waiting, **done;
	size_t waiting_count, done_count;
};

/* ---------------------------------------------------------------- memory */

static _Thread_local unsigned inside;

bool sim_disk_busy(void)
{
	return inside > 0;
}

/* The disk itself never fails for want of memory. */
static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void *resize(void *memory, size_t count, size_t size)
{
	return need(realloc(memory, (count ? count : 1) * size));
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static bool coin(uint64_t *state)
{
	return next_random(state) & 1;
}

/* ---------------------------------------------------------------- bytes */

/* `size` zeros. Without slack behind them, so that a read past the end is seen. */
static struct bytes *bytes_new(size_t size)
{
	struct bytes *bytes = need(calloc(1, sizeof *bytes));
	bytes->owners = 1;
	bytes->size = bytes->capacity = size;
	bytes->data = need(calloc(size ? size : 1, 1));
	return bytes;
}

static struct bytes *bytes_share(struct bytes *bytes)
{
	bytes->owners++;
	return bytes;
}

static void bytes_drop(struct bytes *bytes)
{
	if (--bytes->owners)
		return;
	free(bytes->data);
	free(bytes);
}

static struct bytes *bytes_copy(const struct bytes *bytes)
{
	struct bytes *copy = need(calloc(1, sizeof *copy));
	copy->owners = 1;
	copy->size = copy->capacity = bytes->size;
	copy->data = need(malloc(bytes->size ? bytes->size : 1));
	memcpy(copy->data, bytes->data, bytes->size);
	return copy;
}

static void bytes_replace(struct bytes **place, struct bytes *bytes)
{
	struct bytes *old = *place;
	*place = bytes;
	bytes_drop(old);
}

/* For a change: with this owner alone. */
static struct bytes *bytes_own(struct bytes **place)
{
	if ((*place)->owners > 1)
		bytes_replace(place, bytes_copy(*place));
	(*place)->hashed = false;
	return *place;
}

static void bytes_resize(struct bytes *bytes, size_t size)
{
	if (size > bytes->capacity) {
		bytes->capacity = size > 2 * bytes->capacity ? size : 2 * bytes->capacity;
		bytes->data = resize(bytes->data, bytes->capacity, 1);
	}
	if (size > bytes->size)
		memset(bytes->data + bytes->size, 0, size - bytes->size);
	bytes->size = size;
}

static uint64_t bytes_hash(struct bytes *bytes, bool may_change)
{
	if (bytes->hashed && !may_change)
		return bytes->hash;
	bytes->hash = cairn_key_hash((cairn_slice){bytes->data, bytes->size}, 0);
	bytes->hashed = !may_change;
	return bytes->hash;
}

/* The part of [offset, offset + unit) that `bytes` has. */
static size_t bytes_within(const struct bytes *bytes, size_t offset, size_t unit)
{
	if (offset >= bytes->size)
		return 0;
	return bytes->size - offset < unit ? bytes->size - offset : unit;
}

/* Whether two files differ there; what is behind the end of one counts as zeros. */
static bool bytes_differ(const struct bytes *a, const struct bytes *b, size_t offset, size_t unit)
{
	static const uint8_t zeros[PAGE];
	size_t in_a = bytes_within(a, offset, unit), in_b = bytes_within(b, offset, unit);
	size_t both = in_a < in_b ? in_a : in_b;
	if (memcmp(a->data + (both ? offset : 0), b->data + (both ? offset : 0), both) != 0)
		return true;
	const struct bytes *longer = in_a > in_b ? a : b;
	size_t rest = (in_a > in_b ? in_a : in_b) - both;
	return rest && memcmp(longer->data + offset + both, zeros, rest) != 0;
}

/* Makes `to` what `from` is there, as far as `to` reaches. */
static void bytes_take(struct bytes *to, const struct bytes *from, size_t offset, size_t unit)
{
	size_t in_to = bytes_within(to, offset, unit), in_from = bytes_within(from, offset, unit);
	size_t both = in_to < in_from ? in_to : in_from;
	if (in_to == 0)
		return;
	memcpy(to->data + offset, from->data + (both ? offset : 0), both);
	memset(to->data + offset + both, 0, in_to - both);
}

/* ---------------------------------------------------------------- inodes */

static struct inode *inode_new(struct sim_disk *disk, struct bytes *bytes, bool directory)
{
	struct inode *inode = need(calloc(1, sizeof *inode));
	inode->disk = disk;
	inode->references = 1;
	inode->directory = directory;
	inode->seen = bytes;
	inode->believed = bytes_share(bytes);
	inode->durable = bytes_share(bytes);
	return inode;
}

static struct inode *inode_share(struct inode *inode)
{
	if (inode)
		inode->references++;
	return inode;
}

static void inode_drop(struct inode *inode)
{
	if (!inode || --inode->references)
		return;
	bytes_drop(inode->seen);
	bytes_drop(inode->believed);
	bytes_drop(inode->durable);
	free(inode);
}

/* What programs see, to be changed, at least or exactly `size` long. */
static struct bytes *inode_change(struct inode *inode, size_t size, bool exactly)
{
	if (inode->mapped && size > inode->seen->capacity)
		abort(); /* the mapping would move */
	struct bytes *bytes = bytes_own(&inode->seen);
	size_t before = bytes->size;
	if (exactly || size > before)
		bytes_resize(bytes, size);
	if (inode->links)
		inode->disk->used += bytes->size - before;
	return bytes;
}

static void inode_sync(struct inode *inode)
{
	bool as_believed = inode->believed == inode->durable;
	struct bytes *before = bytes_share(inode->believed);
	bytes_replace(
	    &inode->believed, inode->mapped ? bytes_copy(inode->seen) : bytes_share(inode->seen));
	if (as_believed) {
		bytes_replace(&inode->durable, bytes_share(inode->believed));
	} else {
		struct bytes *durable = bytes_own(&inode->durable);
		bytes_resize(durable, inode->seen->size);
		for (size_t at = 0; at < durable->size; at += SECTOR)
			if (bytes_differ(inode->seen, before, at, SECTOR))
				bytes_take(durable, inode->seen, at, SECTOR);
	}
	bytes_drop(before);
}

/* The kernel writes some of what changed, fails, and may forget that the rest was to be written. */
static void inode_fail_sync(struct inode *inode, uint64_t *random, bool forget)
{
	struct bytes *durable = bytes_own(&inode->durable);
	if (coin(random))
		bytes_resize(durable, inode->seen->size);
	for (size_t at = 0; at < durable->size; at += SECTOR)
		if (coin(random) && bytes_differ(inode->seen, inode->believed, at, SECTOR))
			bytes_take(durable, inode->seen, at, SECTOR);
	if (forget)
		bytes_replace(&inode->believed, bytes_copy(inode->seen));
}

/* ---------------------------------------------------------------- names */

static size_t names_place(const struct names *names, const char *path, bool *found)
{
	size_t low = 0, high = names->count;
	*found = false;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(names->list[middle].path, path);
		if (order == 0)
			*found = true;
		if (order >= 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct inode *names_find(const struct names *names, const char *path)
{
	bool found;
	size_t place = names_place(names, path, &found);
	return found ? names->list[place].inode : NULL;
}

/* `inode` NULL removes the name. */
static void names_set(struct names *names, const char *path, struct inode *inode)
{
	bool found;
	size_t place = names_place(names, path, &found);
	if (names->count == names->capacity) {
		names->capacity = names->capacity ? 2 * names->capacity : 16;
		names->list = resize(names->list, names->capacity, sizeof *names->list);
	}
	struct name *at = names->list + place;
	if (found && inode) {
		inode_share(inode);
		inode_drop(at->inode);
		at->inode = inode;
	} else if (found) {
		inode_drop(at->inode);
		free(at->path);
		memmove(at, at + 1, (--names->count - place) * sizeof *at);
	} else if (inode) {
		memmove(at + 1, at, (names->count++ - place) * sizeof *at);
		*at = (struct name){need(strdup(path)), inode_share(inode)};
	}
}

static void names_copy(struct names *copy, const struct names *names)
{
	*copy = (struct names){resize(NULL, names->count, sizeof *copy->list), names->count,
	    names->count ? names->count : 1};
	for (size_t i = 0; i < names->count; i++)
		copy->list[i] = (struct name){
		    need(strdup(names->list[i].path)), inode_share(names->list[i].inode)};
}

static void names_release(struct names *names)
{
	for (size_t i = 0; i < names->count; i++) {
		inode_drop(names->list[i].inode);
		free(names->list[i].path);
	}
	free(names->list);
	*names = (struct names){0};
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return need(strdup("/"));
	return need(strndup(path, (size_t)(slash - path)));
}

static bool is_directory(const struct names *names, const char *path)
{
	if (strcmp(path, "/") == 0)
		return true;
	const struct inode *inode = names_find(names, path);
	return inode && inode->directory;
}

static bool has_parent(const struct names *names, const char *path)
{
	char *parent = parent_of(path);
	bool found = is_directory(names, parent);
	free(parent);
	return found;
}

/* ---------------------------------------------------------------- changes of names */

static void change_release(struct change *change)
{
	for (size_t i = 0; i < change->count; i++) {
		inode_drop(change->names[i].inode);
		free(change->names[i].path);
	}
	free(change->directory);
}

static void change_apply(const struct change *change, struct names *names)
{
	for (size_t i = 0; i < change->count; i++)
		names_set(names, change->names[i].path, change->names[i].inode);
}

/* Programs see it at once. The room of a file comes and goes with the names that they see. */
static void change_name(struct sim_disk *disk, const char *path, struct inode *inode)
{
	struct inode *old = names_find(&disk->seen, path);
	if (inode && inode->links++ == 0)
		disk->used += inode->seen->size;
	if (old && --old->links == 0)
		disk->used -= old->seen->size;
	names_set(&disk->seen, path, inode);
}

/* One call's work on names: `path` becomes `inode`, and `other`, when not NULL, goes. */
static void change_names(
    struct sim_disk *disk, const char *path, struct inode *inode, const char *other)
{
	struct change change = {.directory = parent_of(path), .count = 1};
	change.names[0] = (struct name){need(strdup(path)), inode_share(inode)};
	if (other)
		change.names[change.count++] = (struct name){need(strdup(other)), NULL};
	if (disk->change_count == disk->change_capacity) {
		disk->change_capacity = disk->change_capacity ? 2 * disk->change_capacity : 16;
		disk->changes = resize(disk->changes, disk->change_capacity, sizeof change);
	}
	disk->changes[disk->change_count++] = change;
	if (other)
		change_name(disk, other, NULL);
	change_name(disk, path, inode);
}

static void make_names_durable(struct sim_disk *disk, const char *directory)
{
	size_t kept = 0;
	for (size_t i = 0; i < disk->change_count; i++) {
		struct change *change = &disk->changes[i];
		if (strcmp(change->directory, directory) != 0) {
			disk->changes[kept++] = *change;
			continue;
		}
		change_apply(change, &disk->durable);
		change_release(change);
	}
	disk->change_count = kept;
}

/* ---------------------------------------------------------------- crashes */

static struct bytes *lose_units(const struct inode *inode, size_t unit, uint64_t *random)
{
	const struct bytes *seen = inode->seen, *durable = inode->durable;
	struct bytes *kept = bytes_copy(durable);
	if (seen->size != durable->size && coin(random))
		bytes_resize(kept, seen->size);
	for (size_t at = 0; at < kept->size; at += unit)
		if (bytes_differ(seen, durable, at, unit) && coin(random))
			bytes_take(kept, seen, at, unit);
	return kept;
}

/* The first place from `from` on, below `end`, where the two differ, or `end`. */
static size_t first_difference(
    const struct bytes *a, const struct bytes *b, size_t from, size_t end)
{
	while (from < end && !bytes_differ(a, b, from, 1))
		from++;
	return from;
}

/* What changed is kept up to a random byte, and all of the rest is as it was. */
static struct bytes *lose_tail(const struct inode *inode, uint64_t *random)
{
	const struct bytes *seen = inode->seen, *durable = inode->durable;
	size_t longer = seen->size > durable->size ? seen->size : durable->size;
	size_t first = SIZE_MAX, last = 0;
	for (size_t at = 0; at < longer; at += SECTOR) {
		if (!bytes_differ(seen, durable, at, SECTOR))
			continue;
		last = at + SECTOR < longer ? at + SECTOR : longer;
		if (first == SIZE_MAX)
			first = first_difference(seen, durable, at, last);
	}
	struct bytes *kept = bytes_copy(durable);
	if (seen->size > durable->size)
		bytes_resize(kept, seen->size);
	if (first == SIZE_MAX)
		return kept;
	size_t cut = first + (size_t)(next_random(random) % (last - first + 1));
	for (size_t at = first; at < cut; at += SECTOR)
		bytes_take(kept, seen, at, cut - at < SECTOR ? cut - at : SECTOR);
	if (seen->size < durable->size && cut == last)
		bytes_resize(kept, seen->size);
	return kept;
}

static struct bytes *lose_bytes(const struct inode *inode, enum sim_loss loss, uint64_t *random)
{
	if (!inode->mapped && inode->seen == inode->durable)
		return bytes_share(inode->seen);
	switch (loss) {
	case SIM_LOSE_ALL:
		return bytes_share(inode->durable);
	case SIM_LOSE_TAIL:
		return lose_tail(inode, random);
	case SIM_LOSE_SECTORS:
	case SIM_LOSE_BYTES:
		return lose_units(inode, SECTOR, random);
	case SIM_LOSE_PAGES:
		return lose_units(inode, PAGE, random);
	case SIM_LOSE_NOTHING:
	case SIM_LOSE_NAMES:
	case SIM_LOSSES:
		break;
	}
	return inode->mapped ? bytes_copy(inode->seen) : bytes_share(inode->seen);
}

/* The names that are there after the crash, with this disk's inodes. */
static void lose_names(
    const struct sim_disk *disk, enum sim_loss loss, uint64_t *random, struct names *names)
{
	if (loss == SIM_LOSE_BYTES) {
		names_copy(names, &disk->seen);
		return;
	}
	names_copy(names, &disk->durable);
	size_t prefix = next_random(random) % (disk->change_count + 1);
	for (size_t i = 0; i < disk->change_count; i++) {
		bool kept =
		    loss == SIM_LOSE_TAIL ? i < prefix : loss != SIM_LOSE_ALL && coin(random);
		if (kept)
			change_apply(&disk->changes[i], names);
	}
}

/* A disk of the same kind, with nothing on it. */
static struct sim_disk *empty_copy(const struct sim_disk *disk, uint64_t *random)
{
	struct sim_disk *copy = sim_disk_new(next_random(random));
	copy->clock = disk->clock;
	copy->limit = disk->limit;
	copy->refuses_map_log = disk->refuses_map_log;
	copy->bugs = disk->bugs;
	return copy;
}

/* The file that `inode` is on the other disk, the same in all three views. NULL stays NULL. */
static struct inode *copy_whole(struct sim_disk *after, struct inode *inode)
{
	if (!inode || inode->copy)
		return inode ? inode->copy : NULL;
	struct bytes *seen = inode->mapped ? bytes_copy(inode->seen) : bytes_share(inode->seen);
	inode->copy = inode_new(after, seen, inode->directory);
	bytes_replace(&inode->copy->believed, bytes_share(inode->believed));
	bytes_replace(&inode->copy->durable, bytes_share(inode->durable));
	return inode->copy;
}

static void forget_copy(struct inode *inode)
{
	inode->copy = NULL;
}

/* Names and changes have references of their own now. */
static void drop_copy(struct inode *inode)
{
	inode_drop(inode->copy);
	inode->copy = NULL;
}

/* Every inode that has a name, or had one; some more than once. */
static void each_inode(const struct sim_disk *disk, void (*each)(struct inode *inode))
{
	for (size_t i = 0; i < disk->seen.count; i++)
		each(disk->seen.list[i].inode);
	for (size_t i = 0; i < disk->durable.count; i++)
		each(disk->durable.list[i].inode);
	for (size_t i = 0; i < disk->change_count; i++)
		for (size_t j = 0; j < disk->changes[i].count; j++)
			if (disk->changes[i].names[j].inode)
				each(disk->changes[i].names[j].inode);
}

static void copy_changes(struct sim_disk *after, const struct sim_disk *disk)
{
	after->change_count = after->change_capacity = disk->change_count;
	after->changes = resize(NULL, disk->change_count, sizeof *after->changes);
	for (size_t i = 0; i < disk->change_count; i++) {
		const struct change *from = &disk->changes[i];
		struct change *to = &after->changes[i];
		*to = (struct change){
		    .directory = need(strdup(from->directory)), .count = from->count};
		for (size_t j = 0; j < from->count; j++)
			to->names[j] = (struct name){need(strdup(from->names[j].path)),
			    inode_share(copy_whole(after, from->names[j].inode))};
	}
}

/* The disk after the end of a process: what was not synced still is not. */
static struct sim_disk *outlive(const struct sim_disk *disk, uint64_t seed)
{
	uint64_t random = seed ^ UINT64_C(0x6b696c6c);
	struct sim_disk *after = empty_copy(disk, &random);
	each_inode(disk, forget_copy);
	for (size_t i = 0; i < disk->durable.count; i++)
		names_set(&after->durable, disk->durable.list[i].path,
		    copy_whole(after, disk->durable.list[i].inode));
	for (size_t i = 0; i < disk->seen.count; i++)
		change_name(
		    after, disk->seen.list[i].path, copy_whole(after, disk->seen.list[i].inode));
	copy_changes(after, disk);
	each_inode(disk, drop_copy);
	return after;
}

/* The disk of a machine that starts again: what it finds is durable. */
static struct sim_disk *restart(const struct sim_disk *disk, enum sim_loss loss, uint64_t seed)
{
	uint64_t random = seed ^ UINT64_C(0x6372617368);
	struct names names;
	lose_names(disk, loss, &random, &names);
	struct sim_disk *after = empty_copy(disk, &random);
	for (size_t i = 0; i < names.count; i++)
		names.list[i].inode->copy = NULL;
	for (size_t i = 0; i < names.count; i++) {
		struct inode *inode = names.list[i].inode;
		if (!has_parent(&after->seen, names.list[i].path))
			continue;
		struct inode *copy = inode->copy;
		if (!copy)
			copy = inode_new(after, lose_bytes(inode, loss, &random), inode->directory);
		change_name(after, names.list[i].path, copy);
		names_set(&after->durable, names.list[i].path, copy);
		if (!inode->copy)
			inode_drop(copy); /* the names have it now */
		inode->copy = copy;
	}
	names_release(&names);
	return after;
}

struct sim_disk *sim_disk_crash(const struct sim_disk *disk, enum sim_loss loss, uint64_t seed)
{
	inside++;
	struct sim_disk *after =
	    loss == SIM_LOSE_NOTHING ? outlive(disk, seed) : restart(disk, loss, seed);
	inside--;
	return after;
}

uint64_t sim_disk_fingerprint(const struct sim_disk *disk)
{
	uint64_t hash = disk->seen.count;
	for (size_t i = 0; i < disk->seen.count; i++) {
		const struct name *name = &disk->seen.list[i];
		uint64_t words[3] = {hash, bytes_hash(name->inode->seen, name->inode->mapped),
		    name->inode->seen->size};
		hash = cairn_key_hash((cairn_slice){words, sizeof words}, name->inode->directory);
		hash = cairn_key_hash((cairn_slice){name->path, strlen(name->path)}, hash);
	}
	return hash;
}

/* ---------------------------------------------------------------- what every call begins with */

const char *sim_call_name(enum sim_call call)
{
	static const char *const names[SIM_CALLS] = {"open", "create", "status", "read", "write",
	    "allocate", "truncate", "sync", "map", "map_log", "populate", "make_directory",
	    "remove_directory", "rename", "link", "unlink", "sync_directory", "list", "free_space",
	    "lock", "entropy", "queue_open", "queue_submit", "queue_wait"};
	return names[call];
}

static struct sim_disk *disk_of(const struct cairn_io *io)
{
	return (struct sim_disk *)(uintptr_t)io;
}

/* Every call is between begin and end. begin returns the failure that is injected, or 0. */
static int begin(struct sim_disk *disk, enum sim_call call, const char *path)
{
	if (disk->watcher && (sim_changes & 1u << call))
		disk->watcher(disk->watcher_context, disk, call, path);
	inside++;
	const struct sim_fault *fault = &disk->fault;
	if (!fault->call || (fault->kinds && !(fault->kinds & 1u << call)))
		return 0;
	disk->calls++;
	if (disk->calls != fault->call && !(fault->for_ever && disk->calls > fault->call))
		return 0;
	disk->faults++;
	return fault->code;
}

/* With the message of a failure that has none yet. */
static int end(int rc, const char *path, enum sim_call call)
{
	inside--;
	return rc ? cairn_error_system(rc, path, sim_call_name(call)) : 0;
}

/* Whether a call that is made to fail has its effect all the same. */
static bool takes_effect(struct sim_disk *disk, int fault)
{
	return !fault || (disk->fault.partly && coin(&disk->random));
}

/* Of `size` bytes that a failing call was to write: how many it writes. */
static size_t part_of(struct sim_disk *disk, int fault, size_t size)
{
	if (!fault)
		return size;
	return disk->fault.partly ? (size_t)(next_random(&disk->random) % (size + 1)) : 0;
}

static int check_room(const struct sim_disk *disk, const struct inode *inode, uint64_t size)
{
	uint64_t more = size > inode->seen->size ? size - inode->seen->size : 0;
	return disk->used + more > disk->limit ? -ENOSPC : 0;
}

/* ---------------------------------------------------------------- files */

static struct sim_file *file_of(struct cairn_file *file)
{
	return (struct sim_file *)file;
}

static int find_or_make(struct sim_disk *disk, const char *path, bool make, struct inode **inode)
{
	*inode = names_find(&disk->seen, path);
	if (!make)
		return !*inode ? -ENOENT : (*inode)->directory ? -EISDIR : 0;
	if (*inode)
		return -EEXIST;
	if (!has_parent(&disk->seen, path))
		return -ENOENT;
	*inode = inode_new(disk, bytes_new(0), false);
	change_names(disk, path, *inode, NULL);
	inode_drop(*inode);
	return 0;
}

static int sim_open(
    struct cairn_io *io, const char *path, enum cairn_open_mode mode, struct cairn_file **file)
{
	struct sim_disk *disk = disk_of(io);
	enum sim_call call = mode == CAIRN_OPEN_CREATE ? SIM_CREATE : SIM_OPEN;
	struct inode *inode = NULL;
	*file = NULL;
	int fault = begin(disk, call, path), rc = 0;
	if (takes_effect(disk, fault))
		rc = find_or_make(disk, path, mode == CAIRN_OPEN_CREATE, &inode);
	if (fault || rc)
		return end(fault ? fault : rc, path, call);
	struct sim_file *opened = need(calloc(1, sizeof *opened));
	*opened = (struct sim_file){
	    {io, need(strdup(path))}, inode_share(inode), mode != CAIRN_OPEN_READ, false};
	*file = &opened->base;
	disk->open_count++;
	return end(0, path, call);
}

static void sim_unmap_log(struct cairn_file *file)
{
	struct sim_file *f = file_of(file);
	if (f->log_mapped)
		f->inode->mapped = false;
	f->log_mapped = false;
}

static void sim_close(struct cairn_file *file)
{
	if (!file)
		return;
	inside++;
	sim_unmap_log(file);
	disk_of(file->io)->open_count--;
	inode_drop(file_of(file)->inode);
	free(file->path);
	free(file);
	inside--;
}

static int sim_status(struct cairn_file *file, struct cairn_file_status *status)
{
	const struct inode *inode = file_of(file)->inode;
	*status = (struct cairn_file_status){0, 0};
	int fault = begin(disk_of(file->io), SIM_STATUS, file->path);
	if (!fault)
		*status = (struct cairn_file_status){inode->seen->size, inode->links};
	return end(fault, file->path, SIM_STATUS);
}

static int sim_read(struct cairn_file *file, void *data, size_t size, uint64_t offset, size_t *done)
{
	const struct bytes *bytes = file_of(file)->inode->seen;
	*done = 0;
	int fault = begin(disk_of(file->io), SIM_READ, file->path);
	if (!fault && offset < bytes->size) {
		*done = bytes_within(bytes, (size_t)offset, size);
		memcpy(data, bytes->data + offset, *done);
	}
	return end(fault, file->path, SIM_READ);
}

static int sim_write(struct cairn_file *file, const void *data, size_t size, uint64_t offset)
{
	struct sim_disk *disk = disk_of(file->io);
	struct inode *inode = file_of(file)->inode;
	int rc = begin(disk, SIM_WRITE, file->path);
	size_t part = part_of(disk, rc, size);
	if (!rc && !file_of(file)->writable)
		rc = -EBADF;
	if (!rc)
		rc = check_room(disk, inode, offset + size);
	if (rc && check_room(disk, inode, offset + part))
		part = 0;
	if (part && file_of(file)->writable)
		memcpy(
		    inode_change(inode, (size_t)offset + part, false)->data + offset, data, part);
	return end(rc, file->path, SIM_WRITE);
}

static int sim_allocate(struct cairn_file *file, uint64_t size)
{
	struct sim_disk *disk = disk_of(file->io);
	struct inode *inode = file_of(file)->inode;
	int rc = begin(disk, SIM_ALLOCATE, file->path);
	size_t part = part_of(disk, rc, (size_t)size);
	if (!rc)
		rc = check_room(disk, inode, size);
	if (part && !check_room(disk, inode, part))
		inode_change(inode, part, false);
	return end(rc, file->path, SIM_ALLOCATE);
}

static int sim_truncate(struct cairn_file *file, uint64_t size)
{
	struct sim_disk *disk = disk_of(file->io);
	struct inode *inode = file_of(file)->inode;
	int fault = begin(disk, SIM_TRUNCATE, file->path);
	int rc = check_room(disk, inode, size);
	if (takes_effect(disk, fault) && !rc)
		inode_change(inode, (size_t)size, true);
	return end(fault ? fault : rc, file->path, SIM_TRUNCATE);
}

static int sim_sync(struct cairn_file *file)
{
	struct sim_disk *disk = disk_of(file->io);
	struct inode *inode = file_of(file)->inode;
	int fault = begin(disk, SIM_SYNC, file->path);
	if (fault && (disk->fault.partly || disk->fault.drop_pages))
		inode_fail_sync(inode, &disk->random, disk->fault.drop_pages);
	if (fault && (disk->bugs & SIM_BUG_RETRY_SYNC))
		fault = 0;
	if (!fault)
		inode_sync(inode);
	return end(fault, file->path, SIM_SYNC);
}

static void sim_start_writeback(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	(void)file;
	(void)offset;
	(void)size;
}

/* ---------------------------------------------------------------- mappings */

static int sim_map(struct cairn_file *file, size_t size, struct cairn_map *map)
{
	struct sim_disk *disk = disk_of(file->io);
	struct bytes *bytes = file_of(file)->inode->seen;
	*map = (struct cairn_map){NULL, 0};
	int fault = begin(disk, SIM_MAP, file->path);
	if (!fault && size == 0) {
		end(0, file->path, SIM_MAP);
		return cairn_error_at(CAIRN_INVALID, file->path, CAIRN_NO_OFFSET,
		    "a mapping of 0 bytes was asked for");
	}
	if (!fault && size > bytes->size) {
		end(0, file->path, SIM_MAP);
		return cairn_error_at(CAIRN_CORRUPT, file->path, bytes->size,
		    "the file ends here, %zu bytes were expected; restore it from a copy", size);
	}
	if (fault)
		return end(fault, file->path, SIM_MAP);
	disk->mappings = resize(disk->mappings, disk->mapping_count + 1, sizeof *disk->mappings);
	disk->mappings[disk->mapping_count++] = (struct mapping){bytes->data, bytes_share(bytes)};
	disk->open_count++;
	*map = (struct cairn_map){bytes->data, size};
	return end(0, file->path, SIM_MAP);
}

static void sim_unmap(struct cairn_io *io, struct cairn_map *map)
{
	struct sim_disk *disk = disk_of(io);
	inside++;
	size_t i = 0;
	while (i < disk->mapping_count && disk->mappings[i].data != map->data)
		i++;
	if (map->data && i == disk->mapping_count)
		abort(); /* not mapped */
	if (map->data) {
		bytes_drop(disk->mappings[i].bytes);
		disk->mappings[i] = disk->mappings[--disk->mapping_count];
		disk->open_count--;
	}
	*map = (struct cairn_map){NULL, 0};
	inside--;
}

static void sim_advise(struct cairn_io *io, const struct cairn_map *map, uint64_t offset,
    uint64_t size, enum cairn_advice advice)
{
	(void)io;
	(void)map;
	(void)offset;
	(void)size;
	(void)advice;
}

static int sim_map_log(struct cairn_file *file, size_t size, uint8_t **memory)
{
	struct sim_disk *disk = disk_of(file->io);
	struct sim_file *f = file_of(file);
	*memory = NULL;
	int rc = begin(disk, SIM_MAP_LOG, file->path);
	if (!rc && (size == 0 || size > f->inode->seen->size || f->inode->mapped))
		rc = -EINVAL;
	if (!rc && !disk->refuses_map_log) {
		*memory = inode_change(f->inode, size, false)->data;
		f->inode->mapped = f->log_mapped = true;
	}
	return end(rc, file->path, SIM_MAP_LOG);
}

static int sim_populate_log(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	(void)offset;
	(void)size;
	return end(begin(disk_of(file->io), SIM_POPULATE, file->path), file->path, SIM_POPULATE);
}

static void sim_settle_log(struct cairn_file *file, uint64_t offset, uint64_t size)
{
	(void)file;
	(void)offset;
	(void)size;
}

/* ---------------------------------------------------------------- directories */

static int sim_make_directory(struct cairn_io *io, const char *path)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_MAKE_DIRECTORY, path), rc = 0;
	if (names_find(&disk->seen, path))
		rc = -EEXIST;
	else if (!has_parent(&disk->seen, path))
		rc = -ENOENT;
	if (takes_effect(disk, fault) && !rc) {
		struct inode *inode = inode_new(disk, bytes_new(0), true);
		change_names(disk, path, inode, NULL);
		inode_drop(inode);
	}
	return end(fault ? fault : rc, path, SIM_MAKE_DIRECTORY);
}

static bool is_empty(const struct sim_disk *disk, const char *path)
{
	size_t size = strlen(path);
	for (size_t i = 0; i < disk->seen.count; i++)
		if (strncmp(disk->seen.list[i].path, path, size) == 0 &&
		    disk->seen.list[i].path[size] == '/')
			return false;
	return true;
}

static int sim_remove_directory(struct cairn_io *io, const char *path)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_REMOVE_DIRECTORY, path), rc = 0;
	if (!names_find(&disk->seen, path))
		rc = -ENOENT;
	else if (!is_directory(&disk->seen, path))
		rc = -ENOTDIR;
	else if (!is_empty(disk, path))
		rc = -ENOTEMPTY;
	if (takes_effect(disk, fault) && !rc)
		change_names(disk, path, NULL, NULL);
	return end(fault ? fault : rc, path, SIM_REMOVE_DIRECTORY);
}

static int sim_rename(struct cairn_io *io, const char *from, const char *to)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_RENAME, from);
	struct inode *inode = names_find(&disk->seen, from);
	int rc = !inode || !has_parent(&disk->seen, to) ? -ENOENT : 0;
	/* Two names of one file: rename leaves both. */
	if (takes_effect(disk, fault) && !rc && names_find(&disk->seen, to) != inode)
		change_names(disk, to, inode, from);
	return end(fault ? fault : rc, from, SIM_RENAME);
}

static int sim_link(struct cairn_io *io, const char *from, const char *to)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_LINK, to);
	struct inode *inode = names_find(&disk->seen, from);
	int rc = 0;
	if (!inode || !has_parent(&disk->seen, to))
		rc = -ENOENT;
	else if (names_find(&disk->seen, to))
		rc = -EEXIST;
	if (takes_effect(disk, fault) && !rc)
		change_names(disk, to, inode, NULL);
	return end(fault ? fault : rc, to, SIM_LINK);
}

static int sim_unlink(struct cairn_io *io, const char *path)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_UNLINK, path);
	int rc = 0;
	if (!names_find(&disk->seen, path))
		rc = -ENOENT;
	else if (is_directory(&disk->seen, path))
		rc = -EISDIR;
	if (takes_effect(disk, fault) && !rc)
		change_names(disk, path, NULL, NULL);
	return end(fault ? fault : rc, path, SIM_UNLINK);
}

static int sim_sync_directory(struct cairn_io *io, const char *path)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_SYNC_DIRECTORY, path);
	int rc = is_directory(&disk->seen, path) ? 0 : -ENOENT;
	bool skip = disk->bugs & SIM_BUG_SKIP_DIRECTORY_SYNC;
	if (takes_effect(disk, fault) && !rc && !skip)
		make_names_durable(disk, path);
	return end(fault ? fault : rc, path, SIM_SYNC_DIRECTORY);
}

static int sim_list(struct cairn_io *io, const char *path,
    int (*each)(void *context, const char *name), void *context)
{
	struct sim_disk *disk = disk_of(io);
	int rc = begin(disk, SIM_LIST, path);
	if (!rc && !is_directory(&disk->seen, path))
		rc = -ENOENT;
	struct names names = {0}; /* as they are now, whatever `each` does to them */
	if (!rc)
		names_copy(&names, &disk->seen);
	rc = end(rc, path, SIM_LIST);
	size_t size = strcmp(path, "/") == 0 ? 0 : strlen(path);
	for (size_t i = 0; !rc && i < names.count; i++) {
		const char *name = names.list[i].path;
		if (strncmp(name, path, size) == 0 && name[size] == '/' &&
		    !strchr(name + size + 1, '/'))
			rc = each(context, name + size + 1);
	}
	inside++;
	names_release(&names);
	inside--;
	return rc;
}

static int sim_free_space(struct cairn_io *io, const char *path, uint64_t *bytes)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_FREE_SPACE, path);
	*bytes = fault || disk->used >= disk->limit ? 0 : disk->limit - disk->used;
	return end(fault, path, SIM_FREE_SPACE);
}

/* ---------------------------------------------------------------- locks, clock, entropy */

static int refused_by_owner(const char *path)
{
	return cairn_error_at(CAIRN_LOCKED, path, CAIRN_NO_OFFSET,
	    "locked by pid %d (simulated); close it there first", 1);
}

static int sim_lock(struct cairn_io *io, const char *path, struct cairn_lock **lock)
{
	struct sim_disk *disk = disk_of(io);
	*lock = NULL;
	int rc = begin(disk, SIM_LOCK, path);
	struct inode *inode = names_find(&disk->seen, path);
	if (!rc && !inode)
		rc = find_or_make(disk, path, true, &inode);
	if (rc)
		return end(rc, path, SIM_LOCK);
	if (inode->locked) {
		end(0, path, SIM_LOCK);
		return refused_by_owner(path);
	}
	struct sim_lock *taken = need(calloc(1, sizeof *taken));
	*taken = (struct sim_lock){{io}, inode_share(inode)};
	inode->locked = true;
	disk->open_count++;
	*lock = &taken->base;
	return end(0, path, SIM_LOCK);
}

static int sim_probe_lock(struct cairn_io *io, const char *path)
{
	struct sim_disk *disk = disk_of(io);
	int rc = begin(disk, SIM_LOCK, path);
	const struct inode *inode = names_find(&disk->seen, path);
	rc = end(rc || inode ? rc : -ENOENT, path, SIM_LOCK);
	return rc || !inode->locked ? rc : refused_by_owner(path);
}

static void sim_unlock(struct cairn_lock *lock)
{
	struct sim_lock *taken = (struct sim_lock *)lock;
	inside++;
	taken->inode->locked = false;
	disk_of(lock->io)->open_count--;
	inode_drop(taken->inode);
	free(taken);
	inside--;
}

static uint64_t sim_now(struct cairn_io *io)
{
	return disk_of(io)->clock += CLOCK_TICK;
}

static int sim_entropy(struct cairn_io *io, void *data, size_t size)
{
	struct sim_disk *disk = disk_of(io);
	int fault = begin(disk, SIM_ENTROPY, "entropy");
	for (size_t i = 0; i < size && !fault; i++)
		((uint8_t *)data)[i] =
		    disk->bugs & SIM_BUG_SAME_ENTROPY ? 0x5a : (uint8_t)next_random(&disk->random);
	return end(fault, "entropy", SIM_ENTROPY);
}

/* ---------------------------------------------------------------- queues */

static struct sim_queue *queue_of(struct cairn_queue *queue)
{
	return (struct sim_queue *)queue;
}

static int sim_queue_open(struct cairn_io *io, unsigned depth, struct cairn_queue **queue)
{
	struct sim_disk *disk = disk_of(io);
	*queue = NULL;
	int fault = begin(disk, SIM_QUEUE_OPEN, "queue");
	if (!fault) {
		struct sim_queue *opened = need(calloc(1, sizeof *opened));
		opened->base.io = io;
		opened->depth = depth;
		opened->waiting = need(calloc(depth, sizeof(struct cairn_write_request *)));
		*queue = &opened->base;
		disk->open_count++;
	}
	return end(fault, "queue", SIM_QUEUE_OPEN);
}

/* Does one of the writes that wait, whichever. */
static void write_one(struct sim_queue *queue)
{
	struct sim_disk *disk = disk_of(queue->base.io);
	size_t which = next_random(&disk->random) % queue->waiting_count;
	struct cairn_write_request *request = queue->waiting[which];
	queue->waiting[which] = queue->waiting[--queue->waiting_count];
	request->result = sim_write(request->file, request->data, request->size, request->offset);
	queue->done =
	    resize(queue->done, queue->done_count + 1, sizeof(struct cairn_write_request *));
	queue->done[queue->done_count++] = request;
}

static int sim_queue_submit(struct cairn_queue *queue, struct cairn_write_request *request)
{
	struct sim_queue *q = queue_of(queue);
	int fault = begin(disk_of(queue->io), SIM_QUEUE_SUBMIT, request->file->path);
	if (!fault && q->waiting_count == q->depth)
		write_one(q);
	if (!fault)
		q->waiting[q->waiting_count++] = request;
	return end(fault, request->file->path, SIM_QUEUE_SUBMIT);
}

static int sim_queue_wait(struct cairn_queue *queue, struct cairn_write_request **request)
{
	struct sim_queue *q = queue_of(queue);
	*request = NULL;
	int fault = begin(disk_of(queue->io), SIM_QUEUE_WAIT, "queue");
	if (!fault && !q->done_count && q->waiting_count)
		write_one(q);
	if (!fault && q->done_count)
		*request = q->done[--q->done_count];
	return end(fault, "queue", SIM_QUEUE_WAIT);
}

static void sim_queue_close(struct cairn_queue *queue)
{
	struct sim_queue *q = queue_of(queue);
	inside++;
	while (q->waiting_count)
		write_one(q);
	disk_of(queue->io)->open_count--;
	free(q->waiting);
	free(q->done);
	free(q);
	inside--;
}

static const struct cairn_io_ops sim_ops = {
    .name = "simulated",
    .open = sim_open,
    .close = sim_close,
    .status = sim_status,
    .read = sim_read,
    .write = sim_write,
    .allocate = sim_allocate,
    .truncate = sim_truncate,
    .sync = sim_sync,
    .start_writeback = sim_start_writeback,
    .map = sim_map,
    .unmap = sim_unmap,
    .advise = sim_advise,
    .map_log = sim_map_log,
    .populate_log = sim_populate_log,
    .settle_log = sim_settle_log,
    .unmap_log = sim_unmap_log,
    .make_directory = sim_make_directory,
    .remove_directory = sim_remove_directory,
    .rename = sim_rename,
    .link = sim_link,
    .unlink = sim_unlink,
    .sync_directory = sim_sync_directory,
    .list = sim_list,
    .free_space = sim_free_space,
    .lock = sim_lock,
    .unlock = sim_unlock,
    .probe_lock = sim_probe_lock,
    .abandon_lock = sim_unlock,
    .now = sim_now,
    .entropy = sim_entropy,
    .queue_open = sim_queue_open,
    .queue_submit = sim_queue_submit,
    .queue_wait = sim_queue_wait,
    .queue_close = sim_queue_close,
};

/* ---------------------------------------------------------------- the disk */

struct sim_disk *sim_disk_new(uint64_t seed)
{
	struct sim_disk *disk = need(calloc(1, sizeof *disk));
	disk->io.ops = &sim_ops;
	disk->random = seed;
	disk->clock = UINT64_C(1000000000000);
	disk->limit = NO_LIMIT;
	return disk;
}

void sim_disk_free(struct sim_disk *disk)
{
	if (!disk)
		return;
	if (disk->open_count)
		abort(); /* something of it is still open */
	names_release(&disk->seen);
	names_release(&disk->durable);
	for (size_t i = 0; i < disk->change_count; i++)
		change_release(&disk->changes[i]);
	free(disk->changes);
	free(disk->mappings);
	free(disk);
}

struct cairn_io *sim_disk_io(struct sim_disk *disk)
{
	return &disk->io;
}

void sim_disk_watch(struct sim_disk *disk, sim_watcher *watcher, void *context)
{
	disk->watcher = watcher;
	disk->watcher_context = context;
}

void sim_disk_arm(struct sim_disk *disk, const struct sim_fault *fault)
{
	disk->fault = *fault;
	disk->calls = disk->faults = 0;
}

uint64_t sim_disk_faults(const struct sim_disk *disk)
{
	return disk->faults;
}

uint64_t sim_disk_calls(const struct sim_disk *disk)
{
	return disk->calls;
}

size_t sim_disk_open_count(const struct sim_disk *disk)
{
	return disk->open_count;
}

void sim_disk_limit(struct sim_disk *disk, uint64_t bytes)
{
	disk->limit = bytes;
}

uint64_t sim_disk_used(const struct sim_disk *disk)
{
	return disk->used;
}

void sim_disk_refuse_map_log(struct sim_disk *disk)
{
	disk->refuses_map_log = true;
}

uint64_t sim_disk_clock(const struct sim_disk *disk)
{
	return disk->clock;
}

void sim_disk_advance(struct sim_disk *disk, uint64_t nanoseconds)
{
	disk->clock += nanoseconds;
}

void sim_disk_plant(struct sim_disk *disk, unsigned bugs)
{
	disk->bugs = bugs;
}

/* ---------------------------------------------------------------- by hand */

const uint8_t *sim_disk_file(const struct sim_disk *disk, const char *path, size_t *size)
{
	const struct inode *inode = names_find(&disk->seen, path);
	*size = inode ? inode->seen->size : 0;
	return inode && !inode->directory ? inode->seen->data : NULL;
}

/* Both what programs see and what is durable. */
static void set_name(struct sim_disk *disk, const char *path, struct inode *inode)
{
	change_name(disk, path, inode);
	names_set(&disk->durable, path, inode);
}

void sim_disk_put(struct sim_disk *disk, const char *path, const void *data, size_t size)
{
	struct bytes *bytes = bytes_new(size);
	if (size)
		memcpy(bytes->data, data, size);
	struct inode *inode = inode_new(disk, bytes, false);
	set_name(disk, path, inode);
	inode_drop(inode);
}

bool sim_disk_remove(struct sim_disk *disk, const char *path)
{
	if (!names_find(&disk->seen, path))
		return false;
	set_name(disk, path, NULL);
	return true;
}

uint8_t *sim_disk_change(struct sim_disk *disk, const char *path, size_t *size)
{
	struct inode *inode = names_find(&disk->seen, path);
	*size = 0;
	if (!inode || inode->directory || inode->mapped)
		return NULL;
	/* One piece for all three views, changed in place. */
	bytes_replace(&inode->seen, bytes_copy(inode->seen));
	bytes_replace(&inode->believed, bytes_share(inode->seen));
	bytes_replace(&inode->durable, bytes_share(inode->seen));
	*size = inode->seen->size;
	return inode->seen->data;
}

void sim_disk_each(
    struct sim_disk *disk, void (*each)(void *context, const char *path), void *context)
{
	struct names names;
	names_copy(&names, &disk->seen);
	for (size_t i = 0; i < names.count; i++)
		if (!names.list[i].inode->directory)
			each(context, names.list[i].path);
	names_release(&names);
}

static int import_file(struct sim_disk *disk, const char *from, const char *to)
{
	FILE *file = fopen(from, "rb");
	struct stat found;
	if (!file)
		return -errno;
	int rc = fstat(fileno(file), &found) ? -errno : 0;
	size_t size = rc ? 0 : (size_t)found.st_size;
	uint8_t *data = need(malloc(size ? size : 1));
	if (!rc && fread(data, 1, size, file) != size)
		rc = -EIO;
	if (!rc)
		sim_disk_put(disk, to, data, size);
	free(data);
	fclose(file);
	return rc;
}

static void import_directory(struct sim_disk *disk, const char *path)
{
	if (is_directory(&disk->seen, path))
		return;
	struct inode *inode = inode_new(disk, bytes_new(0), true);
	set_name(disk, path, inode);
	inode_drop(inode);
}

int sim_disk_import(struct sim_disk *disk, const char *from, const char *to)
{
	DIR *directory = opendir(from);
	int rc = directory ? 0 : -errno;
	if (directory)
		import_directory(disk, to);
	for (struct dirent *entry; !rc && (entry = readdir(directory));) {
		char source[4096], target[4096];
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
		snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
		rc = import_file(disk, source, target);
	}
	if (directory)
		closedir(directory);
	return rc;
}

static int export_file(const struct bytes *bytes, const char *to)
{
	FILE *file = fopen(to, "wb");
	if (!file)
		return -errno;
	size_t written = fwrite(bytes->data, 1, bytes->size, file);
	return fclose(file) || written != bytes->size ? -EIO : 0;
}

int sim_disk_export(struct sim_disk *disk, const char *from, const char *to)
{
	size_t size = strlen(from);
	int rc = mkdir(to, 0777) && errno != EEXIST ? -errno : 0;
	for (size_t i = 0; !rc && i < disk->seen.count; i++) {
		const struct name *name = &disk->seen.list[i];
		char target[4096];
		bool within = strncmp(name->path, from, size) == 0 && name->path[size] == '/' &&
			      !strchr(name->path + size + 1, '/');
		if (!within || name->inode->directory)
			continue;
		snprintf(target, sizeof target, "%s%s", to, name->path + size);
		rc = export_file(name->inode->seen, target);
	}
	return rc;
}
