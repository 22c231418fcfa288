/*
 * store/shadow.c -- see shadow.h.
 */
#include "store/shadow.h"

#include <errno.h>
#include <stdlib.h>

#include "format/checksum.h"
#include "format/error.h"

#define SAMPLE      16u
#define SAMPLE_BITS UINT64_C(0xf0000) /* of a hash; a point index gives them no meaning */

int cairn_shadow_init(struct cairn_shadow *shadow, const struct cairn_version *version,
    size_t first, size_t count, uint64_t hash_seed)
{
	*shadow = (struct cairn_shadow){version, first, count, hash_seed, NULL};
	shadow->found = calloc(count + 1, sizeof *shadow->found);
	return shadow->found ? 0 : cairn_error(-ENOMEM, "out of memory for a run");
}

void cairn_shadow_release(struct cairn_shadow *shadow)
{
	free(shadow->found);
	shadow->found = NULL;
}

/* A failure counts as no: a damaged run is for those to report who need its records. */
static bool has(const struct cairn_run *run, cairn_slice key, uint64_t hash)
{
	struct cairn_run_probe probe;
	struct cairn_record record;
	int rc = cairn_run_probe(run->reader, hash, false, &probe);
	if (rc == 0 && probe.by_order)
		rc = cairn_run_settle(run->reader, key, hash, &probe, &record);
	return rc == 0;
}

void cairn_shadow_note(struct cairn_shadow *shadow, cairn_slice key)
{
	uint64_t hash = cairn_key_hash(key, shadow->hash_seed);
	if (hash & SAMPLE_BITS)
		return;
	for (size_t i = 0; i < shadow->count; i++) {
		if (has(shadow->version->runs[shadow->first + i], key, hash)) {
			shadow->found[i]++;
			return;
		}
	}
}

/* That many sampled records of a run, and the others that they stand for. */
static uint64_t bytes_of(const struct cairn_run *run, uint64_t sampled)
{
	double size = (double)run->file.size / (double)cairn_run_footer(run->reader)->records;
	return (uint64_t)((double)(sampled * SAMPLE) * size);
}

uint64_t cairn_shadow_of(const struct cairn_shadow *shadow, const struct cairn_run *output)
{
	uint64_t sampled = 0;
	for (size_t i = 0; i < shadow->count; i++)
		sampled += shadow->found[i];
	return bytes_of(output, sampled);
}

/* What `run` is in `current`, given the place behind the runs in front of it; NULL: it was merged
 * away to nothing. */
static struct cairn_run *heir(
    const struct cairn_version *current, const struct cairn_run *run, size_t *place)
{
	size_t found = cairn_version_place(current, run);
	if (found < current->count) {
		*place = found + 1;
		return current->runs[found];
	}
	return *place < current->count ? current->runs[*place] : NULL;
}

static void charge(
    const struct cairn_shadow *shadow, const struct cairn_version *current, bool back)
{
	size_t place = 0;
	for (size_t i = 0; i < shadow->count; i++) {
		const struct cairn_run *run = shadow->version->runs[shadow->first + i];
		struct cairn_run *target = heir(current, run, &place);
		uint64_t bytes = bytes_of(run, shadow->found[i]);
		if (target && back)
			atomic_fetch_sub(&target->dead_bytes, bytes);
		else if (target)
			atomic_fetch_add(&target->dead_bytes, bytes);
	}
}

void cairn_shadow_charge(const struct cairn_shadow *shadow, const struct cairn_version *current)
{
	charge(shadow, current, false);
}

void cairn_shadow_discharge(const struct cairn_shadow *shadow, const struct cairn_version *current)
{
	charge(shadow, current, true);
}
