/* pairs_unit.h -- for tests of products of bfloat16 pairs: selects tiles if the variant has them (avx2: in plain C), else dot products; and
 * rounds a value. */
#ifndef FORGE_TESTS_PAIRS_UNIT_H
#define FORGE_TESTS_PAIRS_UNIT_H
#include "runtime/device/tile_permission.h"
#include <math.h>
#include <stdbool.h>
#if defined(__AMX_BF16__) || (defined(FORGE_SIMD_AVX2) && !defined(PAIRS_DOT))
#define FORGE_MATRIX_TILES
#else
#define FORGE_MATRIX_DOT
#endif
#define GEMM_TOKENS 12
#define GEMM_GROUPS 2

static inline bool tiles_are_here(void)
{
#ifdef __AMX_BF16__
    return tile_permission();
#else
    return true;
#endif
}

/* The nearest bfloat16, ties to even; subnormal values may become zero. */
static inline float bf16_ref(float x)
{
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    frexpf(x, &exponent);
    const int step = exponent - 8 < -133 ? -133 : exponent - 8;
    return (float)ldexp(nearbyint(ldexp((double)x, -step)), step);
}
#endif
