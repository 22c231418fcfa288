/*
 * tools/bench/histogram.h -- times in nanoseconds, counted in log-linear buckets: 32 of equal width
 * for each power of two, so that a bucket is at most 1/32 of its times wide.
 */
#ifndef CAIRN_TOOLS_BENCH_HISTOGRAM_H
#define CAIRN_TOOLS_BENCH_HISTOGRAM_H

#include <stdint.h>

#define CAIRN_BENCH_BUCKET_BITS 5u  /* 32 buckets for a power of two */
#define CAIRN_BENCH_TIME_BITS   40u /* 18 minutes; more is counted as that */
#define CAIRN_BENCH_BUCKETS \
	((CAIRN_BENCH_TIME_BITS - CAIRN_BENCH_BUCKET_BITS + 1) << CAIRN_BENCH_BUCKET_BITS)

/* Starts zeroed. */
struct bench_histogram {
	uint64_t count;
	uint64_t max;
	uint64_t buckets[CAIRN_BENCH_BUCKETS];
};

void cairn_bench_histogram_add(struct bench_histogram *histogram, uint64_t ns);
void cairn_bench_histogram_merge(
    struct bench_histogram *histogram, const struct bench_histogram *other);

/* A time that at least this part of all, 0 to 1, did not exceed: the end of its bucket, or the
 * largest time of all. 0 when there is none. */
uint64_t cairn_bench_histogram_at(const struct bench_histogram *histogram, double part);

#endif
