/* sample_math.h -- arithmetic of sampling: logits as integer keys, double exp and log (a GPU has no libm), random numbers, and double sums
 * over lanes. */
#ifndef FORGE_SAMPLE_MATH_H
#define FORGE_SAMPLE_MATH_H
#include "dialect.h"

#define SAMPLE_NOTHING 0xffffffffu
#define SAMPLE_ELSEWHERE 0xfffffffeu                 /* another thread has the token */

/* ---- keys: candidates as integers in their order: 32 bits of logit, 24 bits of id; a lower id gives a larger key ---- */

#define SAMPLE_KEY_INFINITE 0xff800000u          /* key of +inf */
#define SAMPLE_NOT_FINITE   0xffffffffffffffffu  /* above every key: some logits are NaN or infinite */
#define SAMPLE_KEY_NEGATIVE 0x007fffffu          /* key of -inf: greater keys count */
DEVICE float    sample_value_of(uint64_t key)
{
    const uint32_t u = (uint32_t)(key >> 24);
    return f32_of_bits(u >> 31 ? u & 0x7fffffffu : ~u);
}
DEVICE uint64_t sample_key(float x, uint32_t id)    { return (uint64_t)order_of_f32(x) << 24 | (0xffffffu - id); }
DEVICE uint32_t sample_id_of(uint64_t key)          { return 0xffffffu - (uint32_t)(key & 0xffffffu); }

/* ---- arithmetic in double ---- */

/* e^x for x <= 0; 0 below e^-708.  x = n ln 2 + r, |r| <= ln 2 / 2, the series of e^r to r^13; error about 1 ulp.
 * ln 2 in two parts: fdlibm, e_exp.c. */
DEVICE double sample_exp(double x)
{
    if (!(x > -708.0)) return 0.0;
    const double n = __builtin_rint(x * 1.44269504088896338700);
    const double r = __builtin_fma(n, -1.90821492927058770002e-10, __builtin_fma(n, -6.93147180369123816490e-01, x));
    double y = 1.0 / 6227020800.0;
    y = __builtin_fma(y, r, 1.0 / 479001600.0);
    y = __builtin_fma(y, r, 1.0 / 39916800.0);
    y = __builtin_fma(y, r, 1.0 / 3628800.0);
    y = __builtin_fma(y, r, 1.0 / 362880.0);
    y = __builtin_fma(y, r, 1.0 / 40320.0);
    y = __builtin_fma(y, r, 1.0 / 5040.0);
    y = __builtin_fma(y, r, 1.0 / 720.0);
    y = __builtin_fma(y, r, 1.0 / 120.0);
    y = __builtin_fma(y, r, 1.0 / 24.0);
    y = __builtin_fma(y, r, 1.0 / 6.0);
    y = __builtin_fma(y, r, 0.5);
    y = __builtin_fma(y, r, 1.0);
    y = __builtin_fma(y, r, 1.0);
    const uint64_t power = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    __builtin_memcpy(&scale, &power, 8);
    return y * scale;
}

/* ln x of a normal x in (0, 1]: x = 2^e m, m in [1/sqrt 2, sqrt 2); ln m = 2 artanh((m - 1) / (m + 1)), its series to the 23rd power. */
DEVICE double sample_log(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    const uint64_t above = u + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    const double e = (double)((int32_t)(above >> 52) - 1023);
    u -= (above & 0xfff0000000000000u) - 0x3ff0000000000000u;
    double m;
    __builtin_memcpy(&m, &u, 8);
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double y = 1.0 / 23.0;
    for (int32_t k = 21; k > 0; k -= 2) y = __builtin_fma(y, q, 1.0 / (double)k);
    return __builtin_fma(e, 0.693147180559945309417, 2.0 * s * y);
}

/* xoshiro256** 1.0; 53 bits in [0, 1).  (Blackman and Vigna 2018, arXiv:1805.01407) */
DEVICE double sample_random(uint64_t *s)
{
    const uint64_t five = s[1] * 5, result = (five << 7 | five >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return (double)(result >> 11) * 0x1p-53;
}

/* ---- lanes ---- */

DEVICE uint64_t sample_lane_u64(uint64_t x, uint32_t lane)
{
    const uint32_t low = lane_get_u32((uint32_t)x, lane), high = lane_get_u32((uint32_t)(x >> 32), lane);
    return (uint64_t)high << 32 | low;
}
DEVICE double sample_lane_f64(double x, uint32_t lane)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    u = sample_lane_u64(u, lane);
    __builtin_memcpy(&x, &u, 8);
    return x;
}
DEVICE uint64_t sample_wave_max(uint64_t x)
{
    for (uint32_t mask = 1; mask < WAVE; mask *= 2) {
        const uint64_t y = sample_lane_u64(x, lane_id() ^ mask);
        x = y > x ? y : x;
    }
    return x;
}
DEVICE double sample_wave_sum(double x)
{
    for (uint32_t mask = 1; mask < WAVE; mask *= 2) x += sample_lane_f64(x, lane_id() ^ mask);
    return x;
}
/* The first i with w[0] + ... + w[i] > at (or_equal: >= at), where at = part of the sum + offset; if rounding leaves no such i, the last
 * with w > 0.  w: [n] in LDS, >= 0.
 * *rest: at minus the sum before i.  All lanes of a wave get the same result. */
DEVICE uint32_t sample_find(const double *w, const uint32_t n, double part, double offset, uint32_t or_equal, double *rest)
{
    const uint32_t lane = lane_id(), run = (n + WAVE - 1) / WAVE, first = lane * run, last = first + run < n ? first + run : n;
    double sum = 0;
    for (uint32_t i = first; i < last; i++) sum += w[i];
    for (uint32_t d = 1; d < WAVE; d *= 2) {
        const double y = sample_lane_f64(sum, (lane - d) & (WAVE - 1));
        if (lane >= d) sum += y;
    }
    double before = sample_lane_f64(sum, (lane - 1) & (WAVE - 1));
    if (lane == 0) before = 0;
    const double at = part * sample_lane_f64(sum, WAVE - 1) + offset;
    uint32_t found = SAMPLE_NOTHING;
    double start = 0;
    for (uint32_t i = first; i < last; i++) {
        if (w[i] <= 0) continue;
        found = i;
        start = before;
        before += w[i];
        if (before > at || (or_equal && before == at)) break;
    }
    /* The lowest lane that passes `at`, else the last lane with a weight > 0. */
    const uint32_t passes = before > at || (or_equal && before == at);
    const uint32_t rank = found == SAMPLE_NOTHING ? 0 : passes ? 0x100u + (WAVE - lane) : 1 + lane;
    const uint32_t owner = (uint32_t)sample_wave_max(rank << 8 | lane) & 0xffu;
    *rest = at - sample_lane_f64(start, owner);
    return lane_get_u32(found, owner);
}
#endif
