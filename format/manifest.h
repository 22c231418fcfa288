/*
 * format/manifest.h -- the small file that says what a store consists of.
 *
 * It is rewritten whole, to a temporary file, synced and renamed over MANIFEST: a reader sees the
 * old one or the new one. MANIFEST.old is a second link to the previous one, for repair only.
 */
#ifndef CAIRN_FORMAT_MANIFEST_H
#define CAIRN_FORMAT_MANIFEST_H

#include "format/buffer.h"
#include "format/fraction.h"
#include "format/identity.h"
#include "format/io.h"

#define CAIRN_MANIFEST_VERSION       1u
#define CAIRN_MANIFEST_RUNS_MAX      4096u
#define CAIRN_MANIFEST_RUN_FILES_MAX 65536u

/* One `.kv` file, bound by size and footer checksum. */
struct cairn_manifest_file {
	uint64_t number;
	uint64_t size;
	uint32_t footer_checksum;
};

/* One run: files with disjoint, ascending key ranges. */
struct cairn_manifest_run {
	struct cairn_manifest_file *files;
	size_t file_count;                /* >= 1 */
	uint64_t rent;                    /* see compaction/policy.h */
	uint64_t dead_bytes;              /* estimate: what newer runs shadow or delete */
	struct cairn_fraction_file index; /* its fractional index; number 0: none */
};

struct cairn_manifest {
	struct cairn_identity identity;
	uint64_t generation;  /* one more in every manifest written */
	uint64_t next_number; /* every file number in use is below it */
	/* The choices stored with the store: CAIRN_KV02 …, never 0. */
	uint32_t run_format;
	uint32_t compression;
	uint32_t point_index;
	/* Operations up to this sequence are in the runs. */
	uint64_t flushed_sequence;
	/* The log: first live segment (number 0 = there is none), where replay starts, what is
	 * durable for sure. */
	uint64_t log_number;
	uint64_t log_salt;
	uint64_t log_ordinal;
	uint64_t log_position;
	uint64_t log_durable;
	/* Bytes written over the store's life. */
	uint64_t log_bytes_written;
	uint64_t flush_bytes_written;
	uint64_t merge_bytes_written;
	struct cairn_manifest_run *runs; /* newest first */
	size_t run_count;
};

/* Appends the bytes of `manifest` to `out`. 0 or -ENOMEM. */
int cairn_manifest_encode(const struct cairn_manifest *manifest, struct cairn_buffer *out);

/*
 * 0; CAIRN_CORRUPT (checksum, impossible counts, trailing bytes; offset named) or CAIRN_UNSUPPORTED
 * (a newer version, both numbers named), with `path` in the message; -ENOMEM. The manifest is
 * released on failure. A count is believed only when the bytes for it are there.
 */
int cairn_manifest_decode(
    struct cairn_manifest *manifest, const void *data, size_t size, const char *path);

/* Reads DIRECTORY/MANIFEST. -ENOENT when there is none. */
int cairn_manifest_load(
    struct cairn_io *io, const char *directory, struct cairn_manifest *manifest);

/*
 * Makes it the store's manifest: MANIFEST.tmp written and synced, the old one linked as
 * MANIFEST.old (refused links are ordinary), rename, directory sync. *renamed tells a caller that
 * got a failure whether the rename had already happened, or may have: then the old or the new
 * manifest is what a crash leaves, and neither's files may be deleted.
 */
int cairn_manifest_store(struct cairn_io *io, const char *directory,
    const struct cairn_manifest *manifest, bool *renamed);

/* Frees what decode made and zeroes it. Zeroed is fine. */
void cairn_manifest_release(struct cairn_manifest *manifest);

#endif
