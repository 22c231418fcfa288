/* tools/bench/pass.c -- see pass.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/bench/pass.h"
#include "tools/bench/workload.h"

int cairn_bench_wrong(const struct bench_pass *pass, uint64_t record, const char *what)
{
	char key[CAIRN_BENCH_KEY_MOST];
	cairn_bench_key(&pass->keys, record, key);
	fprintf(stderr, "cairn-bench: WRONG ANSWER: %s: %s: record %llu, key %.*s: %s\n",
	    pass->engine->name, pass->workload->name, (unsigned long long)record,
	    (int)pass->keys.key_size, key, what);
	return CAIRN_BENCH_WRONG;
}

static int system_failed(const char *what, const char *path)
{
	fprintf(stderr, "cairn-bench: %s %s: %s\n", what, path, strerror(errno));
	return CAIRN_BENCH_FAILED;
}

int cairn_bench_pass_open(struct bench_pass *pass)
{
	const struct bench_options *options = pass->options;
	struct bench_place place = {.directory = options->directory,
	    .records = options->records,
	    .key_size = options->key_size,
	    .value_size = options->value_size,
	    .sync_mode = options->sync_mode,
	    .variant = options->variant};
	void *store;
	int rc = pass->engine->open(&place, &store);
	if (rc)
		return rc;
	pass->store = store;
	return pass->engine->session_open(store, &pass->session);
}

int cairn_bench_pass_close(struct bench_pass *pass)
{
	void *store = pass->store;
	if (pass->session)
		pass->engine->session_close(pass->session);
	pass->session = NULL;
	pass->store = NULL;
	return store ? pass->engine->close(store) : 0;
}

int cairn_bench_pass_fresh(struct bench_pass *pass)
{
	int rc = cairn_bench_pass_close(pass);
	if (rc)
		return rc;
	if (cairn_bench_remove(pass->options->directory) || mkdir(pass->options->directory, 0777))
		return system_failed("make", pass->options->directory);
	cairn_bench_keys_forget(&pass->keys);
	pass->user_bytes = 0;
	cairn_bench_usage(&pass->made);
	return cairn_bench_pass_open(pass);
}

static uint64_t live_bytes(const struct bench_keys *keys)
{
	uint64_t present = 0;
	for (uint32_t i = 0; i < keys->count; i++)
		present += cairn_bench_version(keys, i) != 0;
	return present * (keys->key_size + keys->value_size);
}

/* The footprint at the end of a workload. */
static void take_stock(struct bench_pass *pass, const struct bench_usage *before)
{
	struct bench_phase *phase = pass->phase;
	struct bench_usage after;
	cairn_bench_usage(&after);
	double wall = (double)(after.wall_ns - before->wall_ns);
	double busy = (double)(after.busy_ns - before->busy_ns);
	double ours = (double)(after.cpu_ns - before->cpu_ns);
	phase->seconds = wall * 1e-9;
	phase->others = busy > ours ? (busy - ours) / wall : 0;
	phase->bytes_written = after.bytes_written - before->bytes_written;
	phase->total_written = after.bytes_written - pass->made.bytes_written;
	phase->total_user_bytes = pass->user_bytes;
	phase->live_bytes = live_bytes(&pass->keys);
	phase->disk_bytes = cairn_bench_disk_bytes(pass->options->directory);
	cairn_bench_memory_now(&phase->memory);
}

static int run_phase(struct bench_pass *pass)
{
	const struct bench_workload *workload = pass->workload;
	struct bench_usage before;
	int rc = 0;
	if (!cairn_bench_can(pass->engine, workload))
		return 0; /* and the phase stays CAIRN_BENCH_NOT_RUN */
	if (workload->fresh)
		rc = cairn_bench_pass_fresh(pass);
	if (rc)
		return rc;
	pass->phase->state = CAIRN_BENCH_COMPLETE;
	cairn_bench_reset_peak();
	cairn_bench_usage(&before);
	rc = workload->run(pass);
	if (!rc)
		take_stock(pass, &before);
	return rc;
}

int cairn_bench_pass(const struct bench_engine *engine, const struct bench_options *options,
    struct bench_phase *phases)
{
	struct bench_pass pass = {.engine = engine, .options = options};
	memset(phases, 0, options->phase_count * sizeof *phases);
	cairn_bench_keys_init(
	    &pass.keys, options->seed, options->records, options->key_size, options->value_size);
	int rc = cairn_bench_pass_fresh(&pass);
	for (size_t i = 0; !rc && i < options->phase_count; i++) {
		pass.workload = options->phases[i];
		pass.phase = &phases[i];
		pass.phase_number = (unsigned)i;
		rc = run_phase(&pass);
	}
	int closed = cairn_bench_pass_close(&pass);
	if (!rc)
		rc = closed;
	cairn_bench_keys_release(&pass.keys);
	if (cairn_bench_remove(options->directory) && !rc)
		rc = system_failed("remove", options->directory);
	return rc;
}
