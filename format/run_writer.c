/*
 * format/run_writer.c -- writes one `.kv` file, front to back.
 *
 * Terms. A *chunk* is 2 MiB of the file, starting at a multiple of 2 MiB: one write request and
 * its bytes. The chunk being filled is the *open* one; the others are free or under way.
 *
 * Invariants.
 * 1. Every byte of the file goes through `put`, in file order; `offset` counts them.
 * 2. A chunk under way is left alone until the queue hands its request back. Everything under way
 * is waited for before the chunks, the queue or the file go.
 * 3. The first failure is kept in `failed`, and nothing is done to the file after it but removing
 * it.
 * 4. A block's first key goes into the seek builder when the block is written, and the bounds are
 * the keys that were added: sections say what really is in the file.
 *
 * Threads. A writer belongs to one thread at a time.
 */
#include "format/run_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/kv02_block.h"
#include "format/point_index.h"
#include "format/seek_tree.h"

/* A huge page: a file system with large folios keeps what is written in such pieces so, and maps it
 * by one entry of the page table instead of 512. Gets at 1 GiB then take half the time. */
#define CHUNK_SIZE  2097152u
#define CHUNK_ALIGN 4096u /* of chunks in memory, for direct I/O */
#define CHUNKS      3u    /* the open one and those under way */
#define QUEUE_DEPTH 2u
#define KEEP_SIZE   1048576u /* room that only an oversized record needed is given back */
#define ALIGNMENT   128u     /* of sections and footer */

struct chunk {
	struct cairn_write_request request; /* first: the queue hands back its address */
	uint8_t *data;
	bool under_way;
};

struct cairn_run_writer {
	struct cairn_io *io;
	char *path;
	struct cairn_run_spec spec;
	struct cairn_file *file;
	struct cairn_queue *queue;
	struct chunk chunk[CHUNKS];
	unsigned open_chunk;
	size_t filled;   /* bytes in the open chunk */
	uint64_t offset; /* bytes of the file so far */
	int failed;
	uint32_t blocks_checksum; /* of the blocks so far */

	struct cairn_kv02_builder builder;
	struct cairn_buffer bytes; /* a finished block or section on its way into chunks */
	struct cairn_seek_builder *seek;
	struct cairn_point_builder point;
	uint64_t hash[CAIRN_BLOCK_RECORDS]; /* of the keys of the block being built */
	struct cairn_buffer first_key;
	struct cairn_buffer last_key;
	struct cairn_run_footer footer; /* counts as they grow */
};

static cairn_slice buffer_slice(const struct cairn_buffer *buffer)
{
	return cairn_slice_of(buffer->data, buffer->size);
}

/* Keeps the first failure. */
static int fail(struct cairn_run_writer *writer, int code)
{
	if (writer->failed == 0)
		writer->failed = code;
	return code;
}

static int out_of_memory(struct cairn_run_writer *writer)
{
	return fail(
	    writer, cairn_error_at(-ENOMEM, writer->path, CAIRN_NO_OFFSET, "not enough memory"));
}

/* Waits for one request. *none: nothing was under way. */
static int reap(struct cairn_run_writer *writer, bool *none)
{
	struct cairn_write_request *request;
	int code = writer->io->ops->queue_wait(writer->queue, &request);
	*none = code != 0 || !request;
	if (code != 0)
		return fail(writer, code);
	if (!request)
		return 0;
	struct chunk *chunk = (struct chunk *)request;
	chunk->under_way = false;
	if (request->result != 0)
		return fail(writer, cairn_error_system(request->result, writer->path, "write"));
	if (request->size == CHUNK_SIZE)
		writer->io->ops->start_writeback(writer->file, request->offset, request->size);
	return 0;
}

/* Sends the open chunk on its way and opens the next one that is free. */
static int submit(struct cairn_run_writer *writer)
{
	struct chunk *chunk = &writer->chunk[writer->open_chunk];
	chunk->request = (struct cairn_write_request){
	    .file = writer->file,
	    .data = chunk->data,
	    .size = writer->filled,
	    .offset = writer->offset - writer->filled,
	};
	int code = writer->io->ops->queue_submit(writer->queue, &chunk->request);
	if (code != 0)
		return fail(writer, code);
	chunk->under_way = true;
	writer->filled = 0;
	writer->open_chunk = (writer->open_chunk + 1) % CHUNKS;
	while (writer->chunk[writer->open_chunk].under_way) {
		bool none;
		code = reap(writer, &none);
		if (code != 0)
			return code;
	}
	return 0;
}

/* Appends bytes to the file; NULL for zeros. */
static int put(struct cairn_run_writer *writer, const uint8_t *data, size_t size)
{
	while (size > 0) {
		size_t room = CHUNK_SIZE - writer->filled;
		size_t piece = size < room ? size : room;
		uint8_t *to = writer->chunk[writer->open_chunk].data + writer->filled;
		if (data) {
			memcpy(to, data, piece);
			data += piece;
		} else {
			memset(to, 0, piece);
		}
		size -= piece;
		writer->filled += piece;
		writer->offset += piece;
		if (writer->filled == CHUNK_SIZE) {
			int code = submit(writer);
			if (code != 0)
				return code;
		}
	}
	return 0;
}

static int put_alignment(struct cairn_run_writer *writer)
{
	return put(
	    writer, NULL, (size_t)(cairn_round_up(writer->offset, ALIGNMENT) - writer->offset));
}

static int put_header(struct cairn_run_writer *writer)
{
	uint8_t bytes[CAIRN_RUN_HEADER_SIZE];
	struct cairn_run_header header = {
	    .identity = writer->spec.identity,
	    .number = writer->spec.number,
	    .format = writer->footer.format,
	    .flags = writer->footer.flags,
	};
	cairn_run_header_encode(&header, bytes);
	return put(writer, bytes, sizeof bytes);
}

/* Frees everything but the file on disk. Writes still under way no longer matter, nor how they end.
 */
static void release(struct cairn_run_writer *writer)
{
	const struct cairn_io_ops *ops = writer->io->ops;
	if (writer->queue)
		ops->queue_close(writer->queue);
	if (writer->file)
		ops->close(writer->file);
	for (unsigned i = 0; i < CHUNKS; i++)
		free(writer->chunk[i].data);
	cairn_seek_builder_free(writer->seek);
	cairn_point_builder_release(&writer->point);
	cairn_kv02_builder_release(&writer->builder);
	cairn_buffer_release(&writer->bytes);
	cairn_buffer_release(&writer->first_key);
	cairn_buffer_release(&writer->last_key);
	free(writer->path);
	free(writer);
}

static int allocate_parts(struct cairn_run_writer *writer, const char *path)
{
	writer->path = strdup(path);
	if (!writer->path)
		return -ENOMEM;
	for (unsigned i = 0; i < CHUNKS; i++) {
		writer->chunk[i].data = aligned_alloc(CHUNK_ALIGN, CHUNK_SIZE);
		if (!writer->chunk[i].data)
			return -ENOMEM;
	}
	return cairn_seek_builder_new(&writer->seek);
}

/* Creates the file and reserves its blocks. */
static int create_file(struct cairn_run_writer *writer)
{
	const struct cairn_io_ops *ops = writer->io->ops;
	int code = ops->open(writer->io, writer->path, CAIRN_OPEN_CREATE, &writer->file);
	if (code != 0)
		return code;
	code = ops->queue_open(writer->io, QUEUE_DEPTH, &writer->queue);
	if (code == 0 && writer->spec.size_hint > 0)
		code = ops->allocate(writer->file, writer->spec.size_hint);
	return code;
}

int cairn_run_writer_open(struct cairn_io *io, const char *path, const struct cairn_run_spec *spec,
    struct cairn_run_writer **out)
{
	*out = NULL;
	if (spec->format != CAIRN_KV02)
		return cairn_error_at(CAIRN_UNSUPPORTED, path, CAIRN_NO_OFFSET,
		    "block format %d; this cairn writes %d (KV02)", spec->format, CAIRN_KV02);
	struct cairn_run_writer *writer = calloc(1, sizeof *writer);
	if (!writer)
		return cairn_error_at(-ENOMEM, path, CAIRN_NO_OFFSET, "not enough memory");
	writer->io = io;
	writer->spec = *spec;
	writer->builder.kinds = spec->kinds;
	writer->footer.number = spec->number;
	writer->footer.format = (uint32_t)spec->format;
	writer->footer.flags = spec->kinds ? CAIRN_RUN_KINDS : 0;

	int code = allocate_parts(writer, path);
	if (code != 0) {
		code = cairn_error_at(code, path, CAIRN_NO_OFFSET, "not enough memory");
		release(writer);
		return code;
	}
	code = create_file(writer);
	if (code == 0)
		code = put_header(writer);
	if (code != 0) {
		cairn_run_writer_abort(writer);
		return code;
	}
	*out = writer;
	return 0;
}

static int index_block(struct cairn_run_writer *writer)
{
	for (unsigned i = 0; i < writer->builder.count; i++)
		if (cairn_point_builder_add(&writer->point, writer->hash[i], writer->offset, i) !=
		    0)
			return out_of_memory(writer);
	return 0;
}

/* Writes the block that was being built. */
static int put_block(struct cairn_run_writer *writer)
{
	struct cairn_kv02_builder *builder = &writer->builder;
	if (writer->offset / 8 > UINT32_MAX)
		return fail(writer, cairn_error_at(CAIRN_TOO_LARGE, writer->path, writer->offset,
					"a run file holds 32 GiB at most; write several"));
	cairn_slice first_key = cairn_kv02_builder_first_key(builder);
	if (cairn_seek_builder_add(writer->seek, first_key, writer->offset) != 0)
		return out_of_memory(writer);
	int code = writer->spec.point_index ? index_block(writer) : 0;
	if (code != 0)
		return code;
	writer->bytes.size = 0;
	if (cairn_kv02_builder_finish(builder, writer->offset, &writer->bytes) != 0)
		return out_of_memory(writer);
	writer->footer.blocks++;
	writer->blocks_checksum =
	    cairn_checksum(writer->bytes.data, writer->bytes.size, writer->blocks_checksum);
	code = put(writer, writer->bytes.data, writer->bytes.size);
	if (writer->bytes.capacity > KEEP_SIZE)
		cairn_buffer_release(&writer->bytes);
	return code;
}

/* Whether the record may come next. */
static int check_record(struct cairn_run_writer *writer, const struct cairn_record *record)
{
	const char *wrong = NULL;
	int code = CAIRN_INVALID;
	bool tombstone = record->kind == CAIRN_KIND_DELETE;
	if (record->key.size > CAIRN_KEY_MAX || record->value.size > CAIRN_VALUE_MAX) {
		code = CAIRN_TOO_LARGE;
		wrong = "a key or value is larger than its limit";
	} else if (record->kind != CAIRN_KIND_PUT && !tombstone) {
		wrong = "a record is neither put nor delete";
	} else if (tombstone && !writer->spec.kinds) {
		wrong = "a tombstone comes into a run without kinds";
	} else if (tombstone && record->value.size > 0) {
		wrong = "a tombstone has a value";
	} else if (writer->footer.records > 0 &&
		   cairn_key_compare(record->key, buffer_slice(&writer->last_key)) <= 0) {
		wrong = "a key is not above the one before it";
	}
	if (!wrong)
		return 0;
	return fail(writer, cairn_error_at(code, writer->path, CAIRN_NO_OFFSET,
				"record %" PRIu64 ": %s", writer->footer.records, wrong));
}

static int keep_key(struct cairn_buffer *kept, cairn_slice key)
{
	kept->size = 0;
	return key.size ? cairn_buffer_append(kept, key.data, key.size) : 0;
}

int cairn_run_writer_add(struct cairn_run_writer *writer, const struct cairn_record *record)
{
	if (writer->failed != 0)
		return writer->failed;
	int code = check_record(writer, record);
	if (code != 0)
		return code;
	if (cairn_kv02_builder_full(&writer->builder, record->key.size, record->value.size)) {
		code = put_block(writer);
		if (code != 0)
			return code;
	}
	if (writer->spec.point_index)
		writer->hash[writer->builder.count] =
		    cairn_key_hash(record->key, writer->spec.identity.hash_seed);
	if (cairn_kv02_builder_add(&writer->builder, record) != 0)
		return out_of_memory(writer);
	if (writer->footer.records == 0 && keep_key(&writer->first_key, record->key) != 0)
		return out_of_memory(writer);
	if (keep_key(&writer->last_key, record->key) != 0)
		return out_of_memory(writer);
	writer->footer.records++;
	writer->footer.tombstones += record->kind == CAIRN_KIND_DELETE;
	writer->footer.key_bytes += record->key.size;
	writer->footer.value_bytes += record->value.size;
	return 0;
}

uint64_t cairn_run_writer_size(const struct cairn_run_writer *writer)
{
	return writer->offset + writer->builder.keys.size + writer->builder.values.size;
}

uint64_t cairn_run_writer_records(const struct cairn_run_writer *writer)
{
	return writer->footer.records;
}

cairn_slice cairn_run_writer_last_key(const struct cairn_run_writer *writer)
{
	return buffer_slice(&writer->last_key);
}

/* Names the section that began at `offset` and ends here, and aligns for the next. */
static int end_section(struct cairn_run_writer *writer, enum cairn_run_section section,
    uint64_t offset, uint32_t checksum)
{
	writer->footer.extent[writer->footer.extents++] = (struct cairn_run_extent){
	    .section = (uint32_t)section,
	    .checksum = checksum,
	    .offset = offset,
	    .size = writer->offset - offset,
	};
	return put_alignment(writer);
}

/* Writes `bytes` as a section. */
static int put_bytes(
    struct cairn_run_writer *writer, enum cairn_run_section section, uint32_t checksum)
{
	uint64_t offset = writer->offset;
	int code = put(writer, writer->bytes.data, writer->bytes.size);
	return code != 0 ? code : end_section(writer, section, offset, checksum);
}

static int put_section(struct cairn_run_writer *writer, enum cairn_run_section section)
{
	const struct cairn_buffer *bytes = &writer->bytes;
	return put_bytes(writer, section, cairn_checksum(bytes->data, bytes->size, 0));
}

static int put_seek_section(struct cairn_run_writer *writer)
{
	writer->bytes.size = 0;
	if (cairn_seek_builder_finish(
		writer->seek, buffer_slice(&writer->last_key), &writer->bytes) != 0)
		return out_of_memory(writer);
	return put_section(writer, CAIRN_SECTION_SEEK);
}

static int put_point_section(struct cairn_run_writer *writer)
{
	uint32_t checksum;
	writer->bytes.size = 0;
	if (cairn_point_builder_finish(&writer->point, &writer->bytes, &checksum) != 0)
		return out_of_memory(writer);
	return put_bytes(writer, CAIRN_SECTION_POINT, checksum);
}

static int put_bounds_section(struct cairn_run_writer *writer)
{
	const struct cairn_buffer *keys[] = {&writer->first_key, &writer->last_key};
	struct cairn_buffer *bytes = &writer->bytes;
	bytes->size = 0;
	for (unsigned i = 0; i < 2; i++) {
		if (cairn_buffer_reserve(bytes, 4 + keys[i]->size) != 0)
			return out_of_memory(writer);
		struct cairn_output out =
		    cairn_output_of(bytes->data + bytes->size, 4 + keys[i]->size);
		cairn_output32(&out, (uint32_t)keys[i]->size);
		cairn_output_bytes(&out, keys[i]->data, keys[i]->size);
		bytes->size += cairn_output_size(&out);
	}
	return put_section(writer, CAIRN_SECTION_BOUNDS);
}

static int put_footer(struct cairn_run_writer *writer)
{
	uint8_t bytes[CAIRN_RUN_FOOTER_SIZE];
	writer->footer.prefix_size = (uint32_t)cairn_key_common(
	    buffer_slice(&writer->first_key), buffer_slice(&writer->last_key));
	cairn_run_footer_encode(&writer->footer, bytes);
	return put(writer, bytes, sizeof bytes);
}

/* Everything behind the last record. */
static int put_rest(struct cairn_run_writer *writer)
{
	int code = put_block(writer);
	if (code == 0)
		code = end_section(
		    writer, CAIRN_SECTION_BLOCKS, CAIRN_RUN_HEADER_SIZE, writer->blocks_checksum);
	if (code == 0)
		code = put_seek_section(writer);
	if (code == 0 && writer->spec.point_index)
		code = put_point_section(writer);
	if (code == 0)
		code = put_bounds_section(writer);
	if (code == 0)
		code = put_footer(writer);
	if (code == 0 && writer->filled > 0)
		code = submit(writer);
	return code;
}

/* Waits for every write, cuts what was reserved too much, syncs. */
static int settle(struct cairn_run_writer *writer)
{
	const struct cairn_io_ops *ops = writer->io->ops;
	bool none = false;
	while (!none) {
		int code = reap(writer, &none);
		if (code != 0)
			return code;
	}
	int code = ops->truncate(writer->file, writer->offset);
	return code != 0 ? code : ops->sync(writer->file);
}

int cairn_run_writer_finish(struct cairn_run_writer *writer, uint64_t sequence_low,
    uint64_t sequence_high, struct cairn_run_footer *footer, uint64_t *size)
{
	*footer = (struct cairn_run_footer){0};
	*size = 0;
	int code = writer->failed;
	if (code == 0 && writer->footer.records == 0)
		code = cairn_error_at(CAIRN_INVALID, writer->path, CAIRN_NO_OFFSET,
		    "a run needs one record at least");
	if (code == 0 && sequence_low > sequence_high)
		code = cairn_error_at(CAIRN_INVALID, writer->path, CAIRN_NO_OFFSET,
		    "the sequence interval is upside down");
	writer->footer.sequence_low = sequence_low;
	writer->footer.sequence_high = sequence_high;
	if (code == 0)
		code = put_rest(writer);
	if (code == 0)
		code = settle(writer);
	if (code != 0) {
		cairn_run_writer_abort(writer);
		return code;
	}
	*footer = writer->footer;
	*size = writer->offset;
	release(writer);
	return 0;
}

void cairn_run_writer_abort(struct cairn_run_writer *writer)
{
	if (!writer)
		return;
	struct cairn_io *io = writer->io;
	char *path = writer->file ? writer->path : NULL;
	if (path)
		writer->path = NULL;
	release(writer);
	if (path)
		(void)cairn_io_remove_remains(io, path, cairn_error_code());
	free(path);
}
