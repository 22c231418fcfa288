/*
 * format/rank.h -- how many of some neighbouring words are at most a query: the inner loop of every
 * search by order.
 *
 * Words are u64, little endian. There are two ways to count, with the
 * same answers: with AVX2, where the processor has it, and portable code, which compilers turn into
 * something slower. A search is compiled twice, with `wide` a constant, and asks cairn_rank_wide()
 * once.
 */
#ifndef CAIRN_FORMAT_RANK_H
#define CAIRN_FORMAT_RANK_H

#include "format/bytes.h"

#if defined __x86_64__ && defined __GNUC__
#define CAIRN_RANK_HAS_WIDE 1
#include <immintrin.h>
#define CAIRN_RANK_TARGET __attribute__((target("avx2,popcnt")))
#else
#define CAIRN_RANK_HAS_WIDE 0
#define CAIRN_RANK_TARGET
#endif

/* For the body of a search that is compiled twice. */
#define CAIRN_RANK_INLINE static inline __attribute__((always_inline))

/* Set by tests, before anything else runs: the portable way everywhere. */
extern bool cairn_rank_portable_only;

/* Whether the wide way may be taken. */
static inline bool cairn_rank_wide(void)
{
#if CAIRN_RANK_HAS_WIDE
	return CAIRN_LIKELY(__builtin_cpu_supports("avx2")) && !cairn_rank_portable_only;
#else
	return false;
#endif
}

static inline unsigned cairn_rank_portable(
    const uint8_t *words, uint64_t from, unsigned count, uint64_t query)
{
	const uint8_t *word = words + from * 8;
	unsigned rank = 0;
	for (unsigned i = 0; i < count; i++)
		rank += cairn_get64(word + (size_t)i * 8) <= query;
	return rank;
}

#if CAIRN_RANK_HAS_WIDE
/* Bit i: whether word i of the four at `words` is above the query, both moved by half the range,
 * since comparisons are signed. */
CAIRN_RANK_TARGET static inline uint64_t cairn_rank_above(const uint8_t *words, __m256i query)
{
	__m256i four = _mm256_loadu_si256((const __m256i *)(const void *)words);
	__m256i moved = _mm256_xor_si256(four, _mm256_set1_epi64x(INT64_MIN));
	__m256i above = _mm256_cmpgt_epi64(moved, query);
	return (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(above));
}

/* Eight at a time, and those behind the last masked away: few counts take a second round. */
CAIRN_RANK_TARGET static inline unsigned cairn_rank_avx2(
    const uint8_t *words, uint64_t from, unsigned count, uint64_t query)
{
	const __m256i moved =
	    _mm256_xor_si256(_mm256_set1_epi64x((int64_t)query), _mm256_set1_epi64x(INT64_MIN));
	const uint8_t *word = words + from * 8;
	uint64_t above = cairn_rank_above(word, moved) | cairn_rank_above(word + 32, moved) << 4;
	for (unsigned i = 8; i < count; i += 8)
		above |= cairn_rank_above(word + (size_t)i * 8, moved) << i |
			 cairn_rank_above(word + (size_t)i * 8 + 32, moved) << (i + 4);
	return (unsigned)__builtin_popcountll(~above & ((UINT64_C(1) << count) - 1));
}
#endif

/*
 * How many of the words from … from + count - 1 are <= query; `count` <= 56. Up to seven words more
 * are read, or eight when there are none.
 */
CAIRN_RANK_INLINE unsigned cairn_rank(
    const uint8_t *words, uint64_t from, unsigned count, uint64_t query, bool wide)
{
#if CAIRN_RANK_HAS_WIDE
	if (wide)
		return cairn_rank_avx2(words, from, count, query);
#endif
	(void)wide;
	return cairn_rank_portable(words, from, count, query);
}

#endif
