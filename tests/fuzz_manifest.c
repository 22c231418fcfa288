/*
 * tests/fuzz_manifest.c -- any bytes as a MANIFEST.
 *
 * Input: a byte of which bit 0 says that size and checksum are to be made right, so that what is
 * behind them is reached; then the file.
 */
#include <string.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/manifest.h"
#include "tests/fuzz.h"
#include "tests/sim_io.h"

static void mend(uint8_t *bytes, size_t size)
{
	if (size < 28)
		return;
	cairn_put64(bytes + 16, size);
	cairn_put32(bytes + size - 4, cairn_checksum(bytes, size - 4, 0));
}

/* There is one encoding of every manifest: what was read is written to the same bytes. */
static void check_encoding(const struct cairn_manifest *manifest, const uint8_t *bytes, size_t size)
{
	struct cairn_buffer again = {0};
	FUZZ_CHECK(cairn_manifest_encode(manifest, &again) == 0);
	FUZZ_CHECK(again.size == size && memcmp(again.data, bytes, size) == 0);
	cairn_buffer_release(&again);
}

/* The file is judged as its bytes are. */
static void check_load(const uint8_t *bytes, size_t size, int expected)
{
	struct sim_disk *disk = sim_disk_new(1);
	struct cairn_io *io = sim_disk_io(disk);
	struct cairn_manifest manifest;
	FUZZ_CHECK(io->ops->make_directory(io, "/store") == 0);
	sim_disk_put(disk, "/store/MANIFEST", bytes, size);
	FUZZ_CHECK(cairn_manifest_load(io, "/store", &manifest) == expected);
	cairn_manifest_release(&manifest);
	FUZZ_CHECK(sim_disk_open_count(disk) == 0);
	sim_disk_free(disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	uint8_t *bytes = fuzz_copy(data + 1, --size);
	struct cairn_manifest manifest;
	if (data[0] & 1)
		mend(bytes, size);
	int rc = cairn_manifest_decode(&manifest, bytes, size, "/store/MANIFEST");
	FUZZ_CHECK(rc == 0 || rc == CAIRN_CORRUPT || rc == CAIRN_UNSUPPORTED);
	if (rc == 0)
		check_encoding(&manifest, bytes, size);
	else
		FUZZ_CHECK(strstr(cairn_error_text(), "/store/MANIFEST: at offset "));
	cairn_manifest_release(&manifest);
	check_load(bytes, size, rc);
	free(bytes);
	return 0;
}
