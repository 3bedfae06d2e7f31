/* exchange.h -- values that GPUs which share a model give each other in the middle of a step.  Each has memory that all of them store into
 * (args.exchange).  There is no flag and no barrier: a value and the number of the exchange, its tag, are one store of 8 bytes, and who
 * reads looks again until the tag is the one it waits for.
 *
 * Exchanges take two halves of the memory in turns.  That is enough: a GPU gives values of exchange n + 2 only behind all that it took of
 * n + 1, which the others have given only behind all that they took of n.
 *
 * The sum is taken in the order of the ranks, so that all GPUs get the same bits.  (Low-latency protocol: NCCL's "LL", Hu et al. 2025,
 * arXiv:2507.04786, section IV)
 *
 * The source has RANKS, how many GPUs there are; half: bytes of a half; most: rows of an exchange at most; cols: of a row. */
#ifndef FORGE_EXCHANGE_H
#define FORGE_EXCHANGE_H
#include "launch.h"

DEVICE uint32_t exchange_tag(const struct forge_kernel_args a) { return uniform(a.step->exchanged) + a.exchanges; }

/* Where the value of a rank for column c of row t lies, in the memory of any GPU. */
DEVICE uint64_t exchange_at(const uint32_t tag, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t rank, uint32_t t,
                            uint32_t c)
{
    return tag % 2 * half + 8 * (((uint64_t)rank * most + t) * cols + c);
}
/* One value for all GPUs, this one too. */
DEVICE void exchange_give(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                          uint32_t c, float y)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t at = exchange_at(tag, half, most, cols, a.rank, t, c), x = (uint64_t)tag << 32 | bits_of_f32(y);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) store_peer(a.exchange[rank] + at, x);
}
/* The same for all others: rows of a prompt, of which this one has its own. */
DEVICE void exchange_pass(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                          uint32_t c, float y)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t at = exchange_at(tag, half, most, cols, a.rank, t, c), x = (uint64_t)tag << 32 | bits_of_f32(y);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != a.rank) store_peer(a.exchange[rank] + at, x);
}
/* What lies there, seen as x before, as soon as it is what the exchange waits for. */
DEVICE float exchange_value(const struct forge_kernel_args a, const uint32_t tag, uint64_t at, uint64_t x)
{
    while ((uint32_t)(x >> 32) != tag) {
        poll_pause();
        x = load_peer(a.given + at);
    }
    return f32_of_bits((uint32_t)x);
}
/* Of column c of row t the sum over all ranks, all of which are asked for at once. */
DEVICE float exchange_sum(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                          uint32_t c)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t at = exchange_at(tag, half, most, cols, 0, t, c), apart = 8ull * most * cols;
    uint64_t x[RANKS];
    float sum = 0.0f;
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) x[rank] = load_peer(a.given + at + rank * apart);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) sum += exchange_value(a, tag, at + rank * apart, x[rank]);
    return sum;
}
/* The same with this one's own value. */
DEVICE float exchange_sum_with(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                               uint32_t c, float own)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t at = exchange_at(tag, half, most, cols, 0, t, c), apart = 8ull * most * cols;
    uint64_t x[RANKS];
    float sum = 0.0f;
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++)
        x[rank] = rank == a.rank ? (uint64_t)tag << 32 | bits_of_f32(own) : load_peer(a.given + at + rank * apart);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) sum += exchange_value(a, tag, at + rank * apart, x[rank]);
    return sum;
}
/* Of a row of which each GPU gave a part, one behind the other: column c of `all`; cols: of the largest part. */
DEVICE float exchange_one(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                          uint32_t c, const uint32_t all)
{
    const uint32_t tag = exchange_tag(a);
    uint32_t from = 0, first = 0;
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        const uint32_t begin = (uint32_t)((uint64_t)all * rank / RANKS);
        from = c >= begin ? rank : from;
        first = c >= begin ? begin : first;
    }
    const uint64_t at = exchange_at(tag, half, most, cols, from, t, c - first);
    return exchange_value(a, tag, at, load_peer(a.given + at));
}
#endif
