/*
 * store/shadow.h -- how much of a run newer records hide, estimated by a sample of keys.
 *
 * One key in 16 is in the sample, by bits of its hash, so it is the same keys in every run and
 * estimates of different runs fit together. A new run counts for each of its sampled records the
 * newest of the other runs that has the key, too:
 *
 *	a flush asks the older runs: what it finds is hidden from now on
 *	a merge asks the newer ones: what it finds hides what it has written
 *
 * The question is put to the point index, and a fingerprint is answer enough: a line of memory for
 * one key in 16. Bytes are averages of the run.
 */
#ifndef CAIRN_STORE_SHADOW_H
#define CAIRN_STORE_SHADOW_H

#include "store/version.h"

struct cairn_shadow {
	const struct cairn_version *version;
	size_t first, count; /* the runs of it that are asked */
	uint64_t hash_seed;
	uint64_t *found; /* sampled keys, by run that had them */
};

/* 0 or -ENOMEM. The version must outlive it. */
int cairn_shadow_init(struct cairn_shadow *shadow, const struct cairn_version *version,
    size_t first, size_t count, uint64_t hash_seed);
void cairn_shadow_release(struct cairn_shadow *shadow);

/* A record with this key was written. */
void cairn_shadow_note(struct cairn_shadow *shadow, cairn_slice key);

/* What a run hides under newer ones: for the output of a merge. */
uint64_t cairn_shadow_of(const struct cairn_shadow *shadow, const struct cairn_run *output);

/* Adds what was found to the dead bytes of the runs of `current`, or takes it back. A run that was
 * merged meanwhile stands for what it became. [publish_lock] */
void cairn_shadow_charge(const struct cairn_shadow *shadow, const struct cairn_version *current);
void cairn_shadow_discharge(const struct cairn_shadow *shadow, const struct cairn_version *current);

#endif
