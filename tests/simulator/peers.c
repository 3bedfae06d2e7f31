/* peers.c -- kernels of two chips that give each other values through templates/gpu/exchange.h, right and wrong ones; test_peers.c runs
 * them.
 *
 * One row of COLS columns in a half; state: [COLS] floats, whole numbers below 1024.  A round: each rank gives (rank + 1) * state + column
 * % 7, takes the sum of both, and the state becomes the sum % 1024. */
#define RANKS 2
#include "templates/gpu/exchange.h"

enum { THREADS = 64, GROUPS = 2, COLS = THREADS * GROUPS, HALF = 2 * RANKS * COLS * 8 };
#define PEERS(name) KERNEL(THREADS, 1) name(const struct forge_kernel_args a)

DEVICE uint32_t column(void) { return group_x() * THREADS + thread_x(); }
DEVICE float *state(const struct forge_kernel_args a) { return (float *)a.state + column(); }
DEVICE float value(const struct forge_kernel_args a) { return (float)(a.rank + 1) * *state(a) + (float)(column() % 7); }
DEVICE void keep(const struct forge_kernel_args a, float sum) { *state(a) = (float)((uint32_t)sum % 1024); }

PEERS(give) { exchange_give(a, HALF, 1, COLS, 0, column(), value(a)); }
PEERS(take) { keep(a, exchange_sum(a, HALF, 1, COLS, 0, column())); }

/* Looks again without a pause. */
PEERS(take_at_once)
{
    const uint32_t tag = exchange_tag(a);
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const uint8_t *p = a.exchange[a.rank] + exchange_at(tag, HALF, 1, COLS, rank, 0, column());
        uint64_t x = load_peer(p);
        while ((uint32_t)(x >> 32) != tag) x = load_peer(p);
        sum += f32_of_bits((uint32_t)x);
    }
    keep(a, sum);
}

/* Works long before it gives: registers only, nothing that anyone sees. */
PEERS(give_late)
{
    uint32_t x = a.rank;
    for (uint32_t k = 0; k < 30000; k++) asm volatile("v_add_u32 %0, %0, 1" : "+v"(x));
    exchange_give(a, HALF, 1, COLS, 0, column(), value(a) + (float)(x - 30000 - a.rank));
}

/* Two rows given one after the other, taken by the other group in the other order: a tag stands for its own value alone. */
PEERS(both)
{
    const uint32_t c = column(), other = (c + THREADS) % COLS;
    exchange_give(a, HALF, 2, COLS, 0, c, value(a));
    exchange_give(a, HALF, 2, COLS, 1, c, 1.0f);
    const float one = exchange_sum(a, HALF, 2, COLS, 1, other), sum = exchange_sum(a, HALF, 2, COLS, 0, other);
    ((float *)a.state)[other] = one == 2.0f ? (float)((uint32_t)sum % 1024) : -1.0f;
}

/* Value and tag one after the other. */
DEVICE void give_parts(const struct forge_kernel_args a, const uint32_t waits)
{
    const uint32_t tag = exchange_tag(a);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        GLOBAL uint32_t *p = (GLOBAL uint32_t *)(a.exchange[rank] + exchange_at(tag, HALF, 1, COLS, a.rank, 0, column()));
        __hip_atomic_store(p, bits_of_f32(value(a)), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        if (waits) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
        __hip_atomic_store(p + 1, tag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}
PEERS(give_in_turn) { give_parts(a, 1); }

/* ---- wrong ones ---- */

PEERS(give_torn) { give_parts(a, 0); }           /* the tag may come first */

DEVICE void give_by(const struct forge_kernel_args a, const uint32_t agent)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t x = (uint64_t)tag << 32 | bits_of_f32(value(a));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t *p = (uint64_t *)(a.exchange[rank] + exchange_at(tag, HALF, 1, COLS, a.rank, 0, column()));
        if (agent) __hip_atomic_store((GLOBAL uint64_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        else *(GLOBAL uint64_t *)p = x;
    }
}
PEERS(give_agent) { give_by(a, 1); }
PEERS(give_plain) { give_by(a, 0); }

DEVICE void take_by(const struct forge_kernel_args a, const uint32_t agent)
{
    const uint32_t tag = exchange_tag(a);
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const GLOBAL uint64_t *p = (const GLOBAL uint64_t *)(a.exchange[a.rank] + exchange_at(tag, HALF, 1, COLS, rank, 0, column()));
        uint64_t x;
        do {
            poll_pause();
            x = agent ? __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
                : __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WAVEFRONT);
        } while ((uint32_t)(x >> 32) != tag);
        sum += f32_of_bits((uint32_t)x);
    }
    keep(a, sum);
}
PEERS(take_agent) { take_by(a, 1); }
PEERS(take_plain) { take_by(a, 0); }
