/*
 * tests/fuzz_replay.c -- runs a fuzzing harness over files, without a fuzzer: those given as
 * arguments, and those in directories given as arguments.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz.h"

static size_t replayed;

static void replay_file(const char *path, size_t size)
{
	uint8_t *data = malloc(size ? size : 1);
	FILE *file = fopen(path, "rb");
	FUZZ_CHECK(data && file && fread(data, 1, size, file) == size);
	fclose(file);
	/* Names the one at which the process ends. */
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	replayed++;
}

static void replay(const char *path)
{
	struct stat status;
	FUZZ_CHECK(stat(path, &status) == 0);
	if (!S_ISDIR(status.st_mode)) {
		replay_file(path, (size_t)status.st_size);
		return;
	}
	DIR *directory = opendir(path);
	FUZZ_CHECK(directory);
	for (struct dirent *entry; (entry = readdir(directory));) {
		char inner[4096];
		snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			replay(inner);
	}
	closedir(directory);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%zu inputs\n", replayed);
	return replayed == 0;
}
