/* tools/bench/histogram.c -- see histogram.h. */
#include "tools/bench/histogram.h"

/* Times below 32 have a bucket each. Of a larger one, the highest bit and the five below it. */
static unsigned bucket_of(uint64_t ns)
{
	const uint64_t most = (UINT64_C(1) << CAIRN_BENCH_TIME_BITS) - 1;
	if (ns > most)
		ns = most;
	if (ns >> CAIRN_BENCH_BUCKET_BITS == 0)
		return (unsigned)ns;
	unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - CAIRN_BENCH_BUCKET_BITS;
	return (shift << CAIRN_BENCH_BUCKET_BITS) + (unsigned)(ns >> shift);
}

static uint64_t last_of(unsigned bucket)
{
	if (bucket >> CAIRN_BENCH_BUCKET_BITS == 0)
		return bucket;
	unsigned shift = (bucket >> CAIRN_BENCH_BUCKET_BITS) - 1;
	uint64_t top = bucket - (shift << CAIRN_BENCH_BUCKET_BITS);
	return ((top + 1) << shift) - 1;
}

void cairn_bench_histogram_add(struct bench_histogram *histogram, uint64_t ns)
{
	histogram->count++;
	histogram->buckets[bucket_of(ns)]++;
	if (ns > histogram->max)
		histogram->max = ns;
}

void cairn_bench_histogram_merge(
    struct bench_histogram *histogram, const struct bench_histogram *other)
{
	histogram->count += other->count;
	if (other->max > histogram->max)
		histogram->max = other->max;
	for (unsigned i = 0; i < CAIRN_BENCH_BUCKETS; i++)
		histogram->buckets[i] += other->buckets[i];
}

uint64_t cairn_bench_histogram_at(const struct bench_histogram *histogram, double part)
{
	double wanted = part * (double)histogram->count;
	uint64_t seen = 0;
	for (unsigned i = 0; i < CAIRN_BENCH_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen && (double)seen >= wanted)
			return last_of(i) < histogram->max ? last_of(i) : histogram->max;
	}
	return histogram->max;
}
