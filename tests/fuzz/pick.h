/* pick.h -- random choices of a mutator, which depend only on libFuzzer's seed. */
#ifndef FORGEC_PICK_H
#define FORGEC_PICK_H
#include <stdint.h>

static uint64_t random_state;
static inline void pick_from(unsigned seed) { random_state = ((uint64_t)seed + 1) * 0x9e3779b97f4a7c15u | 1; }
static inline uint32_t pick(uint32_t n)                        /* 0 .. n - 1; n > 0 */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20) % n;
}
#endif
