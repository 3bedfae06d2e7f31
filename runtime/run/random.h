/* random.h -- xoshiro256** 1.0, seeded by splitmix64. (Blackman and Vigna 2018, arXiv:1805.01407; public domain) */
#ifndef FORGE_RANDOM_H
#define FORGE_RANDOM_H
#include <stdint.h>

static inline uint64_t xoshiro_rotate(uint64_t x, int k) { return x << k | x >> (64 - k); }

static inline void xoshiro_seed(uint64_t s[4], uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        s[i] = z ^ z >> 31;
    }
}

static inline uint64_t xoshiro_next(uint64_t s[4])
{
    const uint64_t result = xoshiro_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = xoshiro_rotate(s[3], 45);
    return result;
}
#endif
