/*
 * tools/inspect_manifest.c -- what a manifest says.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/log_record.h"
#include "format/manifest.h"
#include "tools/inspect.h"

#define CHECKSUM_SIZE 4u

static void print_choices(const struct cairn_manifest *manifest)
{
	cairn_inspect_field("run format", "KV%02" PRIu32, manifest->run_format);
	cairn_inspect_field(
	    "compression", "%s", manifest->compression == CAIRN_NO_COMPRESSION ? "none" : "LZ4");
	cairn_inspect_field(
	    "point index", "%s", manifest->point_index == CAIRN_POINT_INDEX ? "yes" : "no");
}

static void print_position(const char *name, uint64_t position)
{
	cairn_inspect_field(name, "%" PRIu64 ":%" PRIu64, cairn_log_position_ordinal(position),
	    cairn_log_position_offset(position));
}

static void print_log(const struct cairn_manifest *manifest)
{
	if (!manifest->log_number) {
		cairn_inspect_field("log", "none");
		return;
	}
	cairn_inspect_field("log", "%06" PRIu64 ".wal", manifest->log_number);
	cairn_inspect_field("log salt", "0x%016" PRIx64, manifest->log_salt);
	cairn_inspect_field("log ordinal", "%" PRIu64, manifest->log_ordinal);
	print_position("replay from", manifest->log_position);
	print_position("durable up to", manifest->log_durable);
}

static void print_run(const struct cairn_manifest_run *run, size_t i)
{
	printf("run %zu: %zu file%s, rent %" PRIu64 ", dead bytes %" PRIu64 "\n", i,
	    run->file_count, run->file_count == 1 ? "" : "s", run->rent, run->dead_bytes);
	for (size_t j = 0; j < run->file_count; j++) {
		const struct cairn_manifest_file *file = &run->files[j];
		printf("  %06" PRIu64 ".kv, %" PRIu64 " bytes, footer checksum 0x%08" PRIx32 "\n",
		    file->number, file->size, file->footer_checksum);
	}
	if (run->index.number)
		printf("  %06" PRIu64 ".ix, %" PRIu64 " bytes, header checksum 0x%08" PRIx32 "\n",
		    run->index.number, run->index.size, run->index.checksum);
}

static void print_manifest(const struct cairn_manifest *manifest)
{
	cairn_inspect_field("version", "%u", CAIRN_MANIFEST_VERSION);
	cairn_inspect_identity(&manifest->identity);
	cairn_inspect_field("generation", "%" PRIu64, manifest->generation);
	cairn_inspect_field("next file number", "%" PRIu64, manifest->next_number);
	print_choices(manifest);
	cairn_inspect_field("flushed sequence", "%" PRIu64, manifest->flushed_sequence);
	print_log(manifest);
	cairn_inspect_field("bytes written",
	    "log %" PRIu64 ", flushes %" PRIu64 ", merges %" PRIu64, manifest->log_bytes_written,
	    manifest->flush_bytes_written, manifest->merge_bytes_written);
	for (size_t i = 0; i < manifest->run_count; i++)
		print_run(&manifest->runs[i], i);
}

/* What a manifest says whose checksum or magic is wrong. */
static int decode_mended(const struct cairn_inspection *inspection, struct cairn_manifest *manifest)
{
	size_t size = inspection->size;
	uint8_t *copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, inspection->bytes, size);
	struct cairn_inspect_frame frame = {
	    .magic = "cairn.mf", .to = size - CHECKSUM_SIZE, .at = size - CHECKSUM_SIZE};
	cairn_inspect_mend(copy, &frame);
	int code = cairn_manifest_decode(manifest, copy, size, inspection->path);
	free(copy);
	return code;
}

int cairn_inspect_manifest(struct cairn_inspection *inspection)
{
	struct cairn_manifest manifest;
	const uint8_t *bytes = inspection->bytes;
	size_t size = inspection->size;
	int code = cairn_manifest_decode(&manifest, bytes, size, inspection->path);
	if (code == -ENOMEM)
		return code;
	if (size >= CHECKSUM_SIZE) {
		size_t covered = size - CHECKSUM_SIZE;
		uint32_t checksum = cairn_get32(bytes + covered);
		printf("checksum at %zu, 0x%08" PRIx32 " %s\n", covered, checksum,
		    cairn_inspect_verdict(checksum == cairn_checksum(bytes, covered, 0)));
	}
	if (code != 0) {
		cairn_inspect_failure(inspection);
		if (code == CAIRN_UNSUPPORTED || size < 8 + CHECKSUM_SIZE)
			return 0;
		code = decode_mended(inspection, &manifest);
		if (code != 0)
			return code == -ENOMEM ? code : 0;
		puts("what it says all the same, which nothing vouches for:");
	}
	print_manifest(&manifest);
	cairn_manifest_release(&manifest);
	return 0;
}
