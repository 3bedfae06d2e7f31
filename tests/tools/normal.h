/* normal.h -- random numbers for weights of test models; the same seed gives the same numbers on every machine. */
#ifndef TEST_NORMAL_H
#define TEST_NORMAL_H
#include <stdint.h>

static inline uint64_t random_u64(uint64_t *state)   /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Mean 0, variance 1: the sum of eight uniform numbers, in integers, so that every machine gets the same. */
static inline float random_normal(uint64_t *state)
{
    int32_t sum = 0;
    for (int i = 0; i < 2; i++)
        for (uint64_t bits = random_u64(state), k = 0; k < 4; k++, bits >>= 16) sum += (int32_t)(bits & 0xffff);
    return ((float)sum - 4 * 65535.0f) * (1.0f / 53509.6f);          /* sqrt(8 / 12) * 65536 */
}
#endif
