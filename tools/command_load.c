/*
 * tools/command_load.c -- the command load: many records from a file or pipe, in batches.
 *
 * 1. A record is in the store or not as a whole, and so is a batch; records become part of it in
 * the order of the lines. `acknowledged` counts those whose batch was acknowledged.
 * 2. A batch is written before it would pass BATCH_BYTES; a record beyond that is written by
 * itself, so that a value of the largest size needs no batch around it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/records.h"

#define BATCH_BYTES     ((size_t)16 << 20) /* counted as cairn.h does: */
#define OPERATION_BYTES 32u

struct load {
	const struct cairn_tool_command *command;
	cairn *db;
	cairn_batch *batch;
	struct cairn_records records;
	bool progress;
	bool no_wait;
	uint64_t batch_records; /* in a full batch */
	size_t batch_bytes;     /* in the batch at hand */
	uint64_t acknowledged;
};

static int acknowledge(struct load *load, uint64_t records)
{
	load->acknowledged += records;
	if (!load->progress)
		return CAIRN_TOOL_GO_ON;
	printf("acknowledged %" PRIu64 "\n", load->acknowledged);
	return cairn_tool_flush(load->command, stdout, "standard output", CAIRN_TOOL_GO_ON);
}

static int write_batch(struct load *load)
{
	size_t count = cairn_batch_count(load->batch);
	if (count == 0)
		return CAIRN_TOOL_GO_ON;
	int code = cairn_write(load->db, load->batch, 0);
	if (code != CAIRN_OK)
		return cairn_tool_failed(load->command, load->db, code);
	cairn_batch_clear(load->batch);
	load->batch_bytes = 0;
	return acknowledge(load, count);
}

static int add_record(struct load *load, cairn_slice key, cairn_slice value)
{
	size_t bytes = key.size + value.size + OPERATION_BYTES;
	if (load->batch_bytes + bytes > BATCH_BYTES) {
		int status = write_batch(load);
		if (status != CAIRN_TOOL_GO_ON)
			return status;
	}
	if (bytes > BATCH_BYTES) {
		int code = cairn_put(load->db, key, value, 0);
		return code == CAIRN_OK
			   ? acknowledge(load, 1)
			   : cairn_records_fail(&load->records, cairn_tool_message(load->db, code));
	}
	int code = cairn_batch_put(load->batch, key, value);
	if (code != CAIRN_OK)
		return cairn_records_fail(&load->records, cairn_tool_message(NULL, code));
	load->batch_bytes += bytes;
	if (cairn_batch_count(load->batch) < load->batch_records)
		return CAIRN_TOOL_GO_ON;
	return write_batch(load);
}

static int load_records(struct load *load)
{
	cairn_slice key, value;
	int status = CAIRN_TOOL_GO_ON;
	while (status == CAIRN_TOOL_GO_ON) {
		status = cairn_records_next(&load->records, &key, &value);
		if (status == CAIRN_TOOL_FINE)
			return write_batch(load);
		if (status == CAIRN_TOOL_GO_ON)
			status = add_record(load, key, value);
	}
	return status;
}

/* Until what was loaded stands in runs and the cascade is at rest. */
static int settle(struct load *load)
{
	int code = cairn_flush(load->db);
	if (code == CAIRN_OK)
		code = cairn_wait(load->db);
	return code == CAIRN_OK ? CAIRN_TOOL_FINE
				: cairn_tool_failed(load->command, load->db, code);
}

static int load_into(struct load *load)
{
	load->batch = cairn_batch_new();
	if (!load->batch)
		return cairn_tool_fail(load->command, "%s", strerror(ENOMEM));
	int status = load_records(load);
	if (status != CAIRN_TOOL_GO_ON)
		cairn_tool_fail(load->command,
		    "stopped; the first %" PRIu64 " records are in the store", load->acknowledged);
	else
		status = load->no_wait ? CAIRN_TOOL_FINE : settle(load);
	cairn_batch_free(load->batch);
	return status;
}

static int run_load(const struct cairn_tool_command *command, int argc, char **argv)
{
	struct load load = {.command = command, .batch_records = 1000};
	bool hex = false, no_point_index = false;
	int format = CAIRN_RECORDS_TSV;
	char *operands[2];
	cairn_options store_options;
	cairn_tool_options_init(command, &store_options);
	const struct cairn_tool_option options[] = {
	    {.name = "--format", .choice = &format, .choices = cairn_records_formats},
	    {.name = "--batch", .number = &load.batch_records},
	    {.name = "--run-format",
		.choice = &store_options.run_format,
		.choices = cairn_tool_run_formats},
	    {.name = "--compression",
		.choice = &store_options.compression,
		.choices = cairn_tool_compressions},
	    {.name = "--no-point-index", .flag = &no_point_index},
	    {.name = "--hex", .flag = &hex},
	    {.name = "--progress", .flag = &load.progress},
	    {.name = "--no-wait", .flag = &load.no_wait},
	    {.name = NULL},
	};
	int status = cairn_tool_parse(command, argc, argv, options, 1, 2, operands);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	if (load.batch_records == 0)
		return cairn_tool_misuse(command, "--batch takes a number from 1");
	if (no_point_index)
		store_options.point_index = CAIRN_NO_POINT_INDEX;
	/* The input comes first: a misspelt file leaves no store behind. */
	status = cairn_records_open(&load.records, command, operands[1], format,
	    hex ? CAIRN_ESCAPE_HEX : CAIRN_ESCAPE_TEXT);
	if (status != CAIRN_TOOL_GO_ON)
		return status;
	status = cairn_tool_open(command, operands[0], CAIRN_TOOL_CREATE, &store_options, &load.db);
	if (status == CAIRN_TOOL_GO_ON)
		status = cairn_tool_close(command, load.db, load_into(&load));
	cairn_records_close(&load.records);
	return status;
}

const struct cairn_tool_command cairn_tool_load_commands[] = {
    {"load",
	"DIR [FILE|-] [--format tsv|lines|dump] [--batch N] [--run-format kv02|kv03]\n"
	"    [--compression none|lz4] [--no-point-index] [--hex] [--progress] [--no-wait]",
	"Reads records from FILE, or from standard input, and makes the store DIR when there is "
	"none.",
	CAIRN_RECORDS_FORMAT_HELP
	"  --batch N            write N records at once, all or none of them (1000); fewer when "
	"they\n"
	"                       would be more than 16 MiB\n"
	"  --run-format F       kv02 or kv03, for runs written from now on\n"
	"  --compression C      none or lz4, for runs written from now on\n"
	"  --no-point-index     no point index in runs written from now on\n"
	"  --hex                hexadecimal digits instead of text\n"
	"  --progress           print \"acknowledged N\" when N records are written\n"
	"  --no-wait            do not wait until all is flushed and merged\n\n"
	"A bad line ends the work; the batches before it stay in the store, and it says how many "
	"records\n"
	"those are.\n",
	run_load},
    {NULL, NULL, NULL, NULL, NULL},
};
