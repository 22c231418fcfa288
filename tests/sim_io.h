/*
 * tests/sim_io.h -- a simulated disk behind format/io.h: what was synced, what was not, and what a
 * crash leaves of the difference.
 *
 * A disk holds files (inodes), names, and changes of names that no directory sync has covered. Of
 * each file it knows what programs see, what the kernel believes to be on the disk, and what is
 * there. sim_disk_crash makes the disk that a machine finds after a crash at this moment; the disk
 * that it was made from goes on. So a workload runs once, and a hook before each of its calls can
 * look at every crash that could happen there.
 *
 * All is deterministic: the clock moves by a microsecond whenever it is read, random bytes come
 * from the seed, queued writes are done in an order from the seed. Nothing is shared between disks
 * but bytes that do not change.
 *
 * Threads: a disk belongs to one thread. Paths are absolute ("/store/000001.wal"); "/" exists.
 */
#ifndef CAIRN_TESTS_SIM_IO_H
#define CAIRN_TESTS_SIM_IO_H

#include "format/io.h"

struct sim_disk;

struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *disk); /* no file of it is open */

/* The interface to it, valid while the disk is. Its name is "simulated". */
struct cairn_io *sim_disk_io(struct sim_disk *disk);

/* ---------------------------------------------------------------- crashes */

/* What becomes of that which no sync covers. What one does cover always stays. */
enum sim_loss {
	/* The process was killed; nothing happened to the machine, which has still to write what
	 * was not synced. Of the others nothing is left to write. */
	SIM_LOSE_NOTHING,
	SIM_LOSE_ALL,     /* files as of their last sync, names as of their directory's */
	SIM_LOSE_TAIL,    /* of each file's changed bytes a prefix stays; of name changes as well */
	SIM_LOSE_SECTORS, /* each 512 bytes and each change of a name by a coin of its own */
	SIM_LOSE_PAGES,   /* each 4 KiB likewise */
	SIM_LOSE_NAMES,   /* all bytes stay; each change of a name by a coin */
	SIM_LOSE_BYTES,   /* all changes of names stay; each 512 bytes by a coin */
	SIM_LOSSES
};

/* The disk after a crash now. The same disk, loss and seed give the same result. */
struct sim_disk *sim_disk_crash(const struct sim_disk *disk, enum sim_loss loss, uint64_t seed);

/* Of all that a restarted machine could see on the disk: equal for equal disks. */
uint64_t sim_disk_fingerprint(const struct sim_disk *disk);

/* ---------------------------------------------------------------- calls, and their failures */

enum sim_call {
	SIM_OPEN,   /* of a file that exists */
	SIM_CREATE, /* the same call, for a new file */
	SIM_STATUS,
	SIM_READ,
	SIM_WRITE, /* by a queue as well; that one fails in its request */
	SIM_ALLOCATE,
	SIM_TRUNCATE,
	SIM_SYNC,
	SIM_MAP,
	SIM_MAP_LOG,
	SIM_POPULATE,
	SIM_MAKE_DIRECTORY,
	SIM_REMOVE_DIRECTORY,
	SIM_RENAME,
	SIM_LINK,
	SIM_UNLINK,
	SIM_SYNC_DIRECTORY,
	SIM_LIST,
	SIM_FREE_SPACE,
	SIM_LOCK,
	SIM_ENTROPY,
	SIM_QUEUE_OPEN,
	SIM_QUEUE_SUBMIT,
	SIM_QUEUE_WAIT,
	SIM_CALLS
};

const char *sim_call_name(enum sim_call call);

/* The calls that change what a crash would leave. */
static const unsigned sim_changes = 1u << SIM_CREATE | 1u << SIM_WRITE | 1u << SIM_ALLOCATE |
				    1u << SIM_TRUNCATE | 1u << SIM_SYNC | 1u << SIM_MAKE_DIRECTORY |
				    1u << SIM_REMOVE_DIRECTORY | 1u << SIM_RENAME | 1u << SIM_LINK |
				    1u << SIM_UNLINK | 1u << SIM_SYNC_DIRECTORY;

/*
 * Called before each call of the kinds in sim_changes takes effect, `path` being the file or
 * directory (of a rename the source). It may make and use other disks; NULL ends the watch.
 */
typedef void sim_watcher(
    void *context, struct sim_disk *disk, enum sim_call call, const char *path);
void sim_disk_watch(struct sim_disk *disk, sim_watcher *watcher, void *context);

struct sim_fault {
	uint64_t call;  /* which one fails, counted from 1 when armed; 0: none */
	unsigned kinds; /* 1u << enum sim_call: those that are counted; 0: all */
	int code;       /* what it returns: -EIO, -ENOSPC, -EINTR, … */
	bool for_ever;  /* so do all counted calls after it */
	/* A write or allocate that fails has done a random part of its work before; any other call
	 * that changes something, all of it or nothing, by a coin. A failed read has no effect. */
	bool partly;
	/* A sync that fails writes a random part, and the kernel forgets that the rest was to be
	 * written: programs still see it, and no later sync writes it. */
	bool drop_pages;
};

/* Counting starts anew. */
void sim_disk_arm(struct sim_disk *disk, const struct sim_fault *fault);
/* How many calls failed since then, and how many were counted. */
uint64_t sim_disk_faults(const struct sim_disk *disk);
uint64_t sim_disk_calls(const struct sim_disk *disk);

/* Files, maps, locks and queues that are open. */
size_t sim_disk_open_count(const struct sim_disk *disk);

/* Whether the calling thread is inside a call: failing allocations must spare the simulation. */
bool sim_disk_busy(void);

/* ---------------------------------------------------------------- what kind of disk it is */

/* The room on it, from now on; unlimited at first. A change that would pass it gets -ENOSPC. */
void sim_disk_limit(struct sim_disk *disk, uint64_t bytes);
uint64_t sim_disk_used(const struct sim_disk *disk);

/* A file system on which logs are better written than mapped. */
void sim_disk_refuse_map_log(struct sim_disk *disk);

uint64_t sim_disk_clock(const struct sim_disk *disk);
void sim_disk_advance(struct sim_disk *disk, uint64_t nanoseconds);

/* Bugs of a store that this layer can stand in for: the checkers are checked with them. */
enum sim_bug {
	SIM_BUG_SKIP_DIRECTORY_SYNC = 1, /* sync_directory succeeds and does nothing */
	SIM_BUG_RETRY_SYNC = 2,          /* a sync that failed is called again, and believed */
	SIM_BUG_SAME_ENTROPY = 4,        /* all "random" bytes are equal: every segment one salt */
};
void sim_disk_plant(struct sim_disk *disk, unsigned bugs);

/* ---------------------------------------------------------------- by hand */

/* The bytes of a file, NULL when there is none. Valid until the file changes. */
const uint8_t *sim_disk_file(const struct sim_disk *disk, const char *path, size_t *size);
/* Puts a file there, or replaces the one that is, durable at once; no directory is made. */
void sim_disk_put(struct sim_disk *disk, const char *path, const void *data, size_t size);
/* Removes a name, durably. False when there is none. */
bool sim_disk_remove(struct sim_disk *disk, const char *path);
/* The bytes of a file that is not open, to be changed in place, durably. */
uint8_t *sim_disk_change(struct sim_disk *disk, const char *path, size_t *size);

/* Calls `each` with every path of a file (not of directories), in the order of names. */
void sim_disk_each(
    struct sim_disk *disk, void (*each)(void *context, const char *path), void *context);

/* Copies a directory of this machine, with the files in it, to the disk, or back. 0 or -errno. */
int sim_disk_import(struct sim_disk *disk, const char *from, const char *to);
int sim_disk_export(struct sim_disk *disk, const char *from, const char *to);

#endif
