/*
 * tests/consumer/consumer.c -- a program that knows of cairn what is installed: writes a record,
 * closes, opens, reads it back. Its argument is a directory that is not there yet.
 */
#include <cairn.h>
#include <stdio.h>
#include <string.h>

static int write_record(const char *path, cairn_slice key, cairn_slice value)
{
	cairn *db;
	int rc = cairn_open(path, NULL, &db);
	if (rc)
		return rc;
	rc = cairn_put(db, key, value, CAIRN_SYNC);
	int closed = cairn_close(db);
	return rc ? rc : closed;
}

static int read_record(const char *path, cairn_slice key, void *buffer, size_t *size)
{
	cairn *db;
	cairn_options options;
	cairn_options_init(&options);
	options.must_exist = 1;
	int rc = cairn_open(path, &options, &db);
	if (rc)
		return rc;
	rc = cairn_get(db, key, buffer, *size, size);
	int closed = cairn_close(db);
	return rc ? rc : closed;
}

int main(int argc, char **argv)
{
	cairn_slice key = {"apple", 5};
	cairn_slice value = {"red", 3};
	char buffer[16];
	size_t size = sizeof buffer;

	if (argc != 2)
		return 2;
	int rc = write_record(argv[1], key, value);
	if (!rc)
		rc = read_record(argv[1], key, buffer, &size);
	if (rc) {
		fprintf(stderr, "%s: %s\n", cairn_strerror(rc), cairn_message(NULL));
		return 1;
	}
	return size != value.size || memcmp(buffer, value.data, size) != 0;
}
