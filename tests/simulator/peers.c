/* peers.c -- correct and wrong kernels of two chips that exchange values through templates/gpu/collective.h; test_peers.c runs them.
 *
 * A half has one row of COLS columns; state: [COLS] floats, whole numbers below 1024.  In a round each rank pushes (rank + 1) * state +
 * column % 7 and reads the sum of both ranks; the new state is the sum % 1024. */
#define RANKS 2
#include "templates/gpu/collective.h"

/* HALF: two rows of pairs, or one row of pairs, VALUES and FLAGS. */
enum { THREADS = 64, GROUPS = 2, COLS = THREADS * GROUPS, HALF = 2 * RANKS * COLS * 8 };
#define PEERS(name) KERNEL(THREADS, 1) name(const struct forge_kernel_args a)

DEVICE uint32_t column(void) { return group_x() * THREADS + thread_x(); }
DEVICE float *state(const struct forge_kernel_args a) { return (float *)a.state + column(); }
DEVICE float value(const struct forge_kernel_args a) { return (float)(a.rank + 1) * *state(a) + (float)(column() % 7); }
DEVICE void keep(const struct forge_kernel_args a, float sum) { *state(a) = (float)((uint32_t)sum % 1024); }

PEERS(give) { collective_push(a, HALF, 1, COLS, 0, column(), value(a)); }
PEERS(take) { keep(a, all_reduce_value(a, HALF, 1, COLS, 0, column())); }

/* Polls without a pause. */
PEERS(take_at_once)
{
    const uint32_t tag = collective_tag(a);
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const uint8_t *p = a.collective[a.rank] + collective_at(tag, HALF, 1, COLS, rank, 0, column());
        uint64_t x = load_peer(p);
        while ((uint32_t)(x >> 32) != tag) x = load_peer(p);
        sum += f32_of_bits((uint32_t)x);
    }
    keep(a, sum);
}

/* Computes in registers for a long time before it pushes. */
PEERS(give_late)
{
    uint32_t x = a.rank;
    for (uint32_t k = 0; k < 30000; k++) asm volatile("v_add_u32 %0, %0, 1" : "+v"(x));
    collective_push(a, HALF, 1, COLS, 0, column(), value(a) + (float)(x - 30000 - a.rank));
}

/* Pushes two rows one after the other; the other workgroup reads them in the other order: a tag is valid only for its own value. */
PEERS(both)
{
    const uint32_t c = column(), other = (c + THREADS) % COLS;
    collective_push(a, HALF, 2, COLS, 0, c, value(a));
    collective_push(a, HALF, 2, COLS, 1, c, 1.0f);
    const float one = all_reduce_value(a, HALF, 2, COLS, 1, other), sum = all_reduce_value(a, HALF, 2, COLS, 0, other);
    ((float *)a.state)[other] = one == 2.0f ? (float)((uint32_t)sum % 1024) : -1.0f;
}

/* Stores the value, then its tag. */
DEVICE void give_parts(const struct forge_kernel_args a, const uint32_t waits)
{
    const uint32_t tag = collective_tag(a);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        GLOBAL uint32_t *p = (GLOBAL uint32_t *)(a.collective[rank] + collective_at(tag, HALF, 1, COLS, a.rank, 0, column()));
        __hip_atomic_store(p, bits_of_f32(value(a)), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        if (waits) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
        __hip_atomic_store(p + 1, tag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    }
}
PEERS(give_in_turn) { give_parts(a, 1); }

/* Values without tags, after the pairs of a half, and one flag per rank.  One workgroup with twice the threads: the upper half of its waves
 * stores two values per lane, and its first lane stores the flag. */
#define ROWS(name) KERNEL(2 * THREADS, 1) name(const struct forge_kernel_args a)
enum { VALUES = RANKS * COLS * 8, FLAGS = VALUES + RANKS * COLS * 4 };

DEVICE float value_of(const struct forge_kernel_args a, uint32_t c)
{
    return (float)(a.rank + 1) * ((const float *)a.state)[c] + (float)(c % 7);
}
DEVICE void give_rows_by(const struct forge_kernel_args a, const uint32_t waits, const uint32_t plain)
{
    const uint32_t tag = collective_tag(a), c = 2 * (thread_x() % THREADS);
    const uint64_t x = (uint64_t)bits_of_f32(value_of(a, c + 1)) << 32 | bits_of_f32(value_of(a, c));
    for (uint32_t rank = 0; rank < RANKS && thread_x() >= THREADS; rank++)
        store_peer(a.collective[rank] + tag % 2 * HALF + VALUES + 4 * (a.rank * COLS + c), x);
    if (waits) stores_done();
    barrier();
    peer_release();
    for (uint32_t rank = 0; rank < RANKS && thread_x() == 0; rank++) {
        uint8_t *flag = a.collective[rank] + tag % 2 * HALF + FLAGS + 4 * a.rank;
        if (plain) *(GLOBAL uint32_t *)flag = tag;
        else store_flag(flag, tag);
    }
}
ROWS(give_rows) { give_rows_by(a, 1, 0); }

DEVICE void await_rows(const struct forge_kernel_args a, uint32_t rank)
{
    const uint8_t *flag = a.given + collective_tag(a) % 2 * HALF + FLAGS + 4 * rank;
    while (load_flag(flag) != collective_tag(a)) poll_pause();
}
DEVICE const uint8_t *row_of(const struct forge_kernel_args a, uint32_t rank)
{
    return a.given + collective_tag(a) % 2 * HALF + VALUES + 4 * (rank * COLS + thread_x());
}
DEVICE void keep_row(const struct forge_kernel_args a, float sum) { ((float *)a.state)[thread_x()] = (float)((uint32_t)sum % 1024); }
DEVICE float sum_rows(const struct forge_kernel_args a)
{
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) sum += load_peer_f32(row_of(a, rank));
    return sum;
}
ROWS(take_rows)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) await_rows(a, rank);
    keep_row(a, sum_rows(a));
}
/* One thread polls for all threads. */
ROWS(take_rows_behind)
{
    if (thread_x() == 0) for (uint32_t rank = 0; rank < RANKS; rank++) await_rows(a, rank);
    barrier();
    keep_row(a, sum_rows(a));
}

/* ---- wrong kernels ---- */

ROWS(give_rows_early) { give_rows_by(a, 0, 0); } /* the flag may come first */
ROWS(give_rows_plain) { give_rows_by(a, 1, 1); }

/* Reads long after all values have arrived, but without polling the flag. */
ROWS(take_rows_unasked)
{
    uint32_t x = 0;
    for (uint32_t k = 0; k < 60000; k++) asm volatile("v_add_u32 %0, %0, 0" : "+v"(x));
    keep_row(a, sum_rows(a) + (float)x);
}
/* Only one thread polls, and the others do not wait for it. */
ROWS(take_rows_beside)
{
    if (thread_x() == 0) for (uint32_t rank = 0; rank < RANKS; rank++) await_rows(a, rank);
    uint32_t x = 0;
    for (uint32_t k = 0; k < 60000; k++) asm volatile("v_add_u32 %0, %0, 0" : "+v"(x));
    keep_row(a, sum_rows(a) + (float)x);
}
ROWS(take_rows_plain)
{
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) await_rows(a, rank);
    for (uint32_t rank = 0; rank < RANKS; rank++) sum += *(const GLOBAL float *)row_of(a, rank);
    keep_row(a, sum);
}
ROWS(take_rows_flag_plain)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const GLOBAL uint32_t *flag = (const GLOBAL uint32_t *)(a.given + collective_tag(a) % 2 * HALF + FLAGS + 4 * rank);
        while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WAVEFRONT) != collective_tag(a)) poll_pause();
    }
    keep_row(a, sum_rows(a));
}

PEERS(give_torn) { give_parts(a, 0); }           /* the tag may come first */

DEVICE void give_by(const struct forge_kernel_args a, const uint32_t agent)
{
    const uint32_t tag = collective_tag(a);
    const uint64_t x = (uint64_t)tag << 32 | bits_of_f32(value(a));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t *p = (uint64_t *)(a.collective[rank] + collective_at(tag, HALF, 1, COLS, a.rank, 0, column()));
        if (agent) __hip_atomic_store((GLOBAL uint64_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        else *(GLOBAL uint64_t *)p = x;
    }
}
PEERS(give_agent) { give_by(a, 1); }
PEERS(give_plain) { give_by(a, 0); }

DEVICE void take_by(const struct forge_kernel_args a, const uint32_t agent)
{
    const uint32_t tag = collective_tag(a);
    float sum = 0.0f;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const GLOBAL uint64_t *p = (const GLOBAL uint64_t *)(a.collective[a.rank] + collective_at(tag, HALF, 1, COLS, rank, 0, column()));
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
