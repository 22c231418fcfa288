/*
 * format/manifest.c -- the bytes of MANIFEST, and how one replaces another.
 *
 * The fixed part:
 *	0    8  magic "cairn.mf"
 *	8    4  version, 1
 *	12   4  zeros
 *	16   8  size of the whole file
 *	24  16  store id
 *	40   8  hash seed of the store
 *	48   8  generation
 *	56   8  next file number
 *	64   4  format of new runs: 2 = KV02, 3 = KV03
 *	68   4  compression of new runs: 1 = none, 2 = LZ4
 *	72   4  point index of new runs: 1 = yes, 2 = no
 *	76   4  number of runs, at most 4096
 *	80   8  flushed sequence
 *	88   8  log: number of the first live segment, 0 = none
 *	96   8  log: salt of that segment
 *	104  8  log: ordinal of that segment
 *	112  8  log: position where replay starts
 *	120  8  log: durable position
 *	128  8  bytes written to the log over the store's life
 *	136  8  bytes written by flushes
 *	144  8  bytes written by merges
 * then the runs, newest first, each
 *	0    4  number of files, 1 to 65536
 *	4    4  checksum that stands in the header of its fractional index, 0 = it has none
 *	8    8  rent
 *	16   8  dead bytes
 *	24   8  number of the index, 0 = none
 *	32   8  size of the index, 0 = none
 * with its files behind it, in the order of their keys, each
 *	0    8  number
 *	8    8  size
 *	16   4  checksum that stands in the file's footer
 *	20   4  zeros
 * and at the end
 *	0    4  zeros
 *	4    4  checksum of all bytes before it
 *
 * Invariants.
 *	1. The first 24 bytes and the place of the checksum are the same in every version to come,
 * so a newer version is told from damage.
 *	2. File numbers are neither 0 nor at or above the next number, and none is named twice, the
 * log segment's included.
 *	3. A manifest is decoded once more before it replaces another: what cannot be read is never
 * published.
 *	4. Nothing is cleaned up after a failure: what a store leaves behind are temporary names,
 * which the next one and the next opening remove.
 *
 * Threads: no state. Two stores into one directory at once are the caller's mistake.
 */
#include "format/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/filename.h"

#define MAGIC_SIZE    8u
#define HEAD_SIZE     24u /* what all versions share */
#define FIXED_SIZE    152u
#define RUN_SIZE      40u
#define FILE_SIZE     24u
#define CHECKSUM_SIZE 4u
#define TAIL_SIZE     (4u + CHECKSUM_SIZE)

#define ADVICE        "; run cairn verify, then cairn repair"

static const char magic[MAGIC_SIZE + 1] = "cairn.mf";

static int out_of_memory(const char *path)
{
	return cairn_error_system(-ENOMEM, path, "malloc");
}

/* ---------------------------------------------------------------- encoding */

static size_t encoded_size(const struct cairn_manifest *manifest)
{
	size_t size = FIXED_SIZE + TAIL_SIZE;
	for (size_t i = 0; i < manifest->run_count; i++)
		size += RUN_SIZE + manifest->runs[i].file_count * FILE_SIZE;
	return size;
}

static void encode_fixed(
    const struct cairn_manifest *manifest, size_t size, struct cairn_output *out)
{
	cairn_output_bytes(out, magic, MAGIC_SIZE);
	cairn_output32(out, CAIRN_MANIFEST_VERSION);
	cairn_output_zeros(out, 4);
	cairn_output64(out, size);
	cairn_output_bytes(out, manifest->identity.store_id, sizeof manifest->identity.store_id);
	cairn_output64(out, manifest->identity.hash_seed);
	cairn_output64(out, manifest->generation);
	cairn_output64(out, manifest->next_number);
	cairn_output32(out, manifest->run_format);
	cairn_output32(out, manifest->compression);
	cairn_output32(out, manifest->point_index);
	cairn_output32(out, (uint32_t)manifest->run_count);
	cairn_output64(out, manifest->flushed_sequence);
	cairn_output64(out, manifest->log_number);
	cairn_output64(out, manifest->log_salt);
	cairn_output64(out, manifest->log_ordinal);
	cairn_output64(out, manifest->log_position);
	cairn_output64(out, manifest->log_durable);
	cairn_output64(out, manifest->log_bytes_written);
	cairn_output64(out, manifest->flush_bytes_written);
	cairn_output64(out, manifest->merge_bytes_written);
}

static void encode_run(const struct cairn_manifest_run *run, struct cairn_output *out)
{
	cairn_output32(out, (uint32_t)run->file_count);
	cairn_output32(out, run->index.checksum);
	cairn_output64(out, run->rent);
	cairn_output64(out, run->dead_bytes);
	cairn_output64(out, run->index.number);
	cairn_output64(out, run->index.size);
	for (size_t i = 0; i < run->file_count; i++) {
		cairn_output64(out, run->files[i].number);
		cairn_output64(out, run->files[i].size);
		cairn_output32(out, run->files[i].footer_checksum);
		cairn_output_zeros(out, 4);
	}
}

int cairn_manifest_encode(const struct cairn_manifest *manifest, struct cairn_buffer *out)
{
	size_t size = encoded_size(manifest);
	if (cairn_buffer_reserve(out, size) < 0)
		return cairn_error(-ENOMEM, "no memory for a manifest of %zu bytes", size);
	uint8_t *start = out->data + out->size;
	struct cairn_output bytes = cairn_output_of(start, size);
	encode_fixed(manifest, size, &bytes);
	for (size_t i = 0; i < manifest->run_count; i++)
		encode_run(&manifest->runs[i], &bytes);
	cairn_output_zeros(&bytes, TAIL_SIZE - CHECKSUM_SIZE);
	cairn_output32(&bytes, cairn_checksum(start, size - CHECKSUM_SIZE, 0));
	out->size += size;
	return 0;
}

/* ---------------------------------------------------------------- decoding */

/* The body on its way through a decoder: everything before the tail. */
struct reading {
	struct cairn_input in;
	const uint8_t *start;
	const char *path;
};

static uint64_t reading_offset(const struct reading *reading)
{
	return (uint64_t)(reading->in.next - reading->start);
}

static int ends_early(const struct reading *reading)
{
	return cairn_error_at(CAIRN_CORRUPT, reading->path, reading_offset(reading),
	    "the manifest ends within what it says it has" ADVICE);
}

static int padding_set(const struct reading *reading)
{
	return cairn_error_at(CAIRN_CORRUPT, reading->path, reading_offset(reading) - 4,
	    "padding is not zero" ADVICE);
}

/* What can be told from the first HEAD_SIZE bytes, before memory is taken for the rest. */
static int check_head(const uint8_t *head, uint64_t file_size, const char *path)
{
	if (memcmp(head, magic, MAGIC_SIZE) != 0)
		return cairn_error_at(
		    CAIRN_CORRUPT, path, 0, "expected \"%s\" here: not a manifest" ADVICE, magic);
	uint64_t size = cairn_get64(head + 16);
	if (size != file_size)
		return cairn_error_at(CAIRN_CORRUPT, path, 16,
		    "made with %" PRIu64 " bytes, has %" PRIu64 ADVICE, size, file_size);
	return 0;
}

/* Checksum before version: a version is believed only when the bytes are whole. */
static int check_frame(const uint8_t *bytes, size_t size, const char *path)
{
	if (size < HEAD_SIZE + CHECKSUM_SIZE)
		return cairn_error_at(
		    CAIRN_CORRUPT, path, 0, "%zu bytes are too few for a manifest" ADVICE, size);
	int rc = check_head(bytes, size, path);
	if (rc < 0)
		return rc;
	size_t covered = size - CHECKSUM_SIZE;
	if (cairn_get32(bytes + covered) != cairn_checksum(bytes, covered, 0))
		return cairn_error_at(CAIRN_CORRUPT, path, covered,
		    "the checksum does not match the %zu bytes before it" ADVICE, covered);
	uint32_t version = cairn_get32(bytes + MAGIC_SIZE);
	if (version != CAIRN_MANIFEST_VERSION)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, MAGIC_SIZE,
		    "manifest version %" PRIu32 "; this cairn reads version %u", version,
		    CAIRN_MANIFEST_VERSION);
	return 0;
}

static int decode_choice(
    struct reading *reading, const char *what, uint32_t least, uint32_t most, uint32_t *choice)
{
	uint64_t offset = reading_offset(reading);
	*choice = cairn_input32(&reading->in);
	if (reading->in.bad)
		return ends_early(reading);
	if (*choice < least || *choice > most)
		return cairn_error_at(CAIRN_UNSUPPORTED, reading->path, offset,
		    "%s %" PRIu32 "; this cairn knows %" PRIu32 " to %" PRIu32, what, *choice,
		    least, most);
	return 0;
}

static int decode_choices(struct cairn_manifest *manifest, struct reading *reading)
{
	int rc =
	    decode_choice(reading, "run format", CAIRN_KV02, CAIRN_KV03, &manifest->run_format);
	if (rc == 0)
		rc = decode_choice(reading, "compression", CAIRN_NO_COMPRESSION, CAIRN_LZ4,
		    &manifest->compression);
	if (rc == 0)
		rc = decode_choice(reading, "point index choice", CAIRN_POINT_INDEX,
		    CAIRN_NO_POINT_INDEX, &manifest->point_index);
	return rc;
}

static int decode_fixed(struct cairn_manifest *manifest, struct reading *reading, uint32_t *runs)
{
	struct cairn_input *in = &reading->in;
	cairn_input_bytes(in, 12);
	if (cairn_input32(in) != 0)
		return padding_set(reading);
	cairn_input64(in);
	const uint8_t *id = cairn_input_bytes(in, sizeof manifest->identity.store_id);
	if (id)
		memcpy(manifest->identity.store_id, id, sizeof manifest->identity.store_id);
	manifest->identity.hash_seed = cairn_input64(in);
	manifest->generation = cairn_input64(in);
	manifest->next_number = cairn_input64(in);
	int rc = decode_choices(manifest, reading);
	if (rc < 0)
		return rc;
	*runs = cairn_input32(in);
	manifest->flushed_sequence = cairn_input64(in);
	manifest->log_number = cairn_input64(in);
	manifest->log_salt = cairn_input64(in);
	manifest->log_ordinal = cairn_input64(in);
	manifest->log_position = cairn_input64(in);
	manifest->log_durable = cairn_input64(in);
	manifest->log_bytes_written = cairn_input64(in);
	manifest->flush_bytes_written = cairn_input64(in);
	manifest->merge_bytes_written = cairn_input64(in);
	return in->bad ? ends_early(reading) : 0;
}

static int decode_file(struct cairn_manifest_file *file, struct reading *reading)
{
	struct cairn_input *in = &reading->in;
	file->number = cairn_input64(in);
	file->size = cairn_input64(in);
	file->footer_checksum = cairn_input32(in);
	uint32_t padding = cairn_input32(in);
	if (in->bad)
		return ends_early(reading);
	return padding ? padding_set(reading) : 0;
}

static int decode_run(struct cairn_manifest_run *run, struct reading *reading)
{
	struct cairn_input *in = &reading->in;
	uint64_t offset = reading_offset(reading);
	uint32_t count = cairn_input32(in);
	run->index.checksum = cairn_input32(in);
	run->rent = cairn_input64(in);
	run->dead_bytes = cairn_input64(in);
	run->index.number = cairn_input64(in);
	run->index.size = cairn_input64(in);
	if (in->bad)
		return ends_early(reading);
	if (run->index.number == 0 && (run->index.size != 0 || run->index.checksum != 0))
		return cairn_error_at(
		    CAIRN_CORRUPT, reading->path, offset, "an index without a number" ADVICE);
	if (count == 0 || count > CAIRN_MANIFEST_RUN_FILES_MAX ||
	    count > cairn_input_left(in) / FILE_SIZE)
		return cairn_error_at(CAIRN_CORRUPT, reading->path, offset,
		    "a run of %" PRIu32 " files cannot be" ADVICE, count);
	run->files = calloc(count, sizeof *run->files);
	if (!run->files)
		return out_of_memory(reading->path);
	run->file_count = count;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = decode_file(&run->files[i], reading);
	return rc;
}

static int decode_runs(struct cairn_manifest *manifest, uint32_t count, struct reading *reading)
{
	if (count > CAIRN_MANIFEST_RUNS_MAX ||
	    count > cairn_input_left(&reading->in) / (RUN_SIZE + FILE_SIZE))
		return cairn_error_at(
		    CAIRN_CORRUPT, reading->path, 76, "%" PRIu32 " runs cannot be" ADVICE, count);
	if (count) {
		manifest->runs = calloc(count, sizeof *manifest->runs);
		if (!manifest->runs)
			return out_of_memory(reading->path);
		manifest->run_count = count;
	}
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = decode_run(&manifest->runs[i], reading);
	if (rc == 0 && cairn_input_left(&reading->in) > 0)
		rc = cairn_error_at(CAIRN_CORRUPT, reading->path, reading_offset(reading),
		    "%zu bytes behind the last run" ADVICE, cairn_input_left(&reading->in));
	return rc;
}

/* A file number and the offset where it stands. */
struct named {
	uint64_t number;
	uint64_t offset;
};

static int named_compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t collect_named(const struct cairn_manifest *manifest, struct named *named)
{
	size_t count = 0;
	uint64_t offset = FIXED_SIZE;
	if (manifest->log_number)
		named[count++] = (struct named){manifest->log_number, 88};
	for (size_t i = 0; i < manifest->run_count; i++) {
		const struct cairn_manifest_run *run = &manifest->runs[i];
		if (run->index.number)
			named[count++] = (struct named){run->index.number, offset + 24};
		offset += RUN_SIZE;
		for (size_t j = 0; j < run->file_count; j++, offset += FILE_SIZE)
			named[count++] = (struct named){run->files[j].number, offset};
	}
	return count;
}

static int check_named(const struct named *named, size_t count, uint64_t next, const char *path)
{
	for (size_t i = 0; i < count; i++) {
		if (named[i].number == 0 || named[i].number >= next)
			return cairn_error_at(CAIRN_CORRUPT, path, named[i].offset,
			    "file number %" PRIu64 " where the next one is %" PRIu64 ADVICE,
			    named[i].number, next);
		if (i > 0 && named[i].number == named[i - 1].number)
			return cairn_error_at(CAIRN_CORRUPT, path, named[i].offset,
			    "file number %" PRIu64 " stands at offset %" PRIu64 " already" ADVICE,
			    named[i].number, named[i - 1].offset);
	}
	return 0;
}

static int check_numbers(const struct cairn_manifest *manifest, const char *path)
{
	size_t count = 1;
	for (size_t i = 0; i < manifest->run_count; i++)
		count += manifest->runs[i].file_count + 1;
	struct named *named = calloc(count, sizeof *named);
	if (!named)
		return out_of_memory(path);
	count = collect_named(manifest, named);
	qsort(named, count, sizeof *named, named_compare);
	int rc = check_named(named, count, manifest->next_number, path);
	free(named);
	return rc;
}

int cairn_manifest_decode(
    struct cairn_manifest *manifest, const void *data, size_t size, const char *path)
{
	*manifest = (struct cairn_manifest){0};
	int rc = check_frame(data, size, path);
	if (rc < 0)
		return rc;
	if (size < FIXED_SIZE + TAIL_SIZE)
		return cairn_error_at(CAIRN_CORRUPT, path, size - CHECKSUM_SIZE,
		    "the manifest ends within its fixed part" ADVICE);
	struct reading reading = {cairn_input_of(data, size - TAIL_SIZE), data, path};
	uint32_t runs = 0;
	rc = decode_fixed(manifest, &reading, &runs);
	if (rc == 0)
		rc = decode_runs(manifest, runs, &reading);
	if (rc == 0 && cairn_get32((const uint8_t *)data + size - TAIL_SIZE) != 0)
		rc = cairn_error_at(
		    CAIRN_CORRUPT, path, size - TAIL_SIZE, "padding is not zero" ADVICE);
	if (rc == 0)
		rc = check_numbers(manifest, path);
	if (rc < 0)
		cairn_manifest_release(manifest);
	return rc;
}

void cairn_manifest_release(struct cairn_manifest *manifest)
{
	for (size_t i = 0; i < manifest->run_count; i++)
		free(manifest->runs[i].files);
	free(manifest->runs);
	*manifest = (struct cairn_manifest){0};
}

/* ---------------------------------------------------------------- the file */

static int load_file(struct cairn_file *file, struct cairn_buffer *bytes)
{
	struct cairn_file_status status;
	int rc = file->io->ops->status(file, &status);
	if (rc < 0)
		return rc;
	uint8_t head[HEAD_SIZE];
	rc = cairn_io_read_exactly(file, head, sizeof head, 0);
	if (rc == 0)
		rc = check_head(head, status.size, file->path);
	if (rc < 0)
		return rc;
	if (cairn_buffer_reserve(bytes, status.size) < 0)
		return out_of_memory(file->path);
	rc = cairn_io_read_exactly(file, bytes->data, status.size, 0);
	if (rc == 0)
		bytes->size = status.size;
	return rc;
}

int cairn_manifest_load(struct cairn_io *io, const char *directory, struct cairn_manifest *manifest)
{
	*manifest = (struct cairn_manifest){0};
	struct cairn_buffer bytes = {0};
	struct cairn_file *file = NULL;
	char *path = cairn_filename(directory, CAIRN_FILE_MANIFEST, 0);
	int rc = path ? io->ops->open(io, path, CAIRN_OPEN_READ, &file) : out_of_memory(directory);
	if (rc < 0)
		goto done;
	rc = load_file(file, &bytes);
	io->ops->close(file);
	if (rc == 0)
		rc = cairn_manifest_decode(manifest, bytes.data, bytes.size, path);
done:
	cairn_buffer_release(&bytes);
	free(path);
	return rc;
}

static int check_readable(const struct cairn_buffer *bytes, const char *path)
{
	struct cairn_manifest again;
	int rc = cairn_manifest_decode(&again, bytes->data, bytes->size, path);
	if (rc == 0)
		cairn_manifest_release(&again);
	return rc;
}

/* One that an earlier store left behind, perhaps unsynced, is worth nothing. */
static int write_temporary(struct cairn_io *io, const char *path, const struct cairn_buffer *bytes)
{
	struct cairn_file *file = NULL;
	io->ops->unlink(io, path);
	int rc = io->ops->open(io, path, CAIRN_OPEN_CREATE, &file);
	if (rc < 0)
		return rc;
	rc = io->ops->write(file, bytes->data, bytes->size, 0);
	if (rc == 0)
		rc = io->ops->sync(file);
	io->ops->close(file);
	return rc < 0 ? cairn_io_remove_remains(io, path, rc) : 0;
}

/*
 * Links the current manifest as MANIFEST.old, by way of a temporary name so that there is an old
 * one at every moment. A rename between two names of one file does nothing and leaves both, hence
 * the last unlink. Only repair looks at it: a file system without links, or the first manifest of a
 * store, goes without.
 */
static void keep_current_as_old(struct cairn_io *io, const char *directory, const char *current)
{
	char *temporary =
	    cairn_filename(directory, CAIRN_FILE_TEMPORARY, CAIRN_TEMPORARY_MANIFEST_OLD);
	char *old = cairn_filename(directory, CAIRN_FILE_MANIFEST_OLD, 0);
	if (temporary && old) {
		io->ops->unlink(io, temporary);
		if (io->ops->link(io, current, temporary) == 0)
			io->ops->rename(io, temporary, old);
		io->ops->unlink(io, temporary);
	}
	free(temporary);
	free(old);
}

/* Whether a rename that failed with `code` had its effect all the same, as far as can be seen. Its
 * message stays. */
static bool has_moved(struct cairn_io *io, const char *from, int code)
{
	char text[CAIRN_ERROR_TEXT_MAX];
	struct cairn_file *file = NULL;
	snprintf(text, sizeof text, "%s", cairn_error_text());
	bool there = io->ops->open(io, from, CAIRN_OPEN_READ, &file) == 0;
	if (there)
		io->ops->close(file);
	cairn_error(code, "%s", text);
	return !there;
}

int cairn_manifest_store(struct cairn_io *io, const char *directory,
    const struct cairn_manifest *manifest, bool *renamed)
{
	*renamed = false;
	struct cairn_buffer bytes = {0};
	char *path = cairn_filename(directory, CAIRN_FILE_MANIFEST, 0);
	char *temporary = cairn_filename(directory, CAIRN_FILE_TEMPORARY, CAIRN_TEMPORARY_MANIFEST);
	int rc = path && temporary ? 0 : out_of_memory(directory);
	if (rc == 0)
		rc = cairn_manifest_encode(manifest, &bytes);
	if (rc == 0)
		rc = check_readable(&bytes, temporary);
	if (rc == 0)
		rc = write_temporary(io, temporary, &bytes);
	if (rc < 0)
		goto done;
	keep_current_as_old(io, directory, path);
	rc = io->ops->rename(io, temporary, path);
	*renamed = rc == 0 || has_moved(io, temporary, rc);
	if (rc == 0)
		rc = io->ops->sync_directory(io, directory);
done:
	cairn_buffer_release(&bytes);
	free(temporary);
	free(path);
	return rc;
}
