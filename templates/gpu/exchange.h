/* exchange.h -- values that GPUs which share a model give each other in the middle of a step.  Each has memory that all of them store into
 * (args.exchange).  Of a token there is no flag and no barrier: a value and the number of the exchange, its tag, are one store of 8 bytes,
 * and who reads looks again until the tag is the one it waits for.  (Low-latency protocol: NCCL's "LL", Hu et al. 2025, arXiv:2507.04786,
 * section IV)  Rows of a prompt take half the bytes: values alone, and one flag, the tag, behind each piece of them.
 *
 * Exchanges take two halves of the memory in turns.  That is enough: a GPU gives values of exchange n + 2 only behind all that it took of
 * n + 1, which the others have given only behind all that they took of n.
 *
 * The sum is taken in the order of the ranks, so that all GPUs get the same bits.
 *
 * The source has RANKS, how many GPUs there are; half: bytes of a half; most: rows of an exchange at most; cols: of a row. */
#ifndef FORGE_EXCHANGE_H
#define FORGE_EXCHANGE_H
#include "exchange_sizes.h"
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

/* ---- rows of a prompt ----
 * Values are stored and loaded at the scope of the system like all that passes between GPUs, two at a time, so that a wave's are a run.
 * When those of all threads of a group are where others see them, one of them stores the flag (store_flag); who has seen it (load_flag)
 * loads what is there, asking no value.  A piece is a group's of exchange_give_rows(): with more tokens there would be too few groups for a
 * short prompt, with fewer a flag, and the wait for the stores before it, for too few bytes. */
struct exchange_rows {
    uint64_t half, flags, values;                /* bytes of a half; where flags and values begin in it */
    uint32_t most, cols, threads;                /* tokens of a step at most; columns of a row; threads of a group */
};

DEVICE uint32_t exchange_tokens(const struct forge_kernel_args a) { return uniform(a.first ? a.step->n_logits : a.step->n_tokens); }
/* Tokens of the piece that this row of the grid works on. */
DEVICE uint32_t exchange_piece(const struct forge_kernel_args a)
{
    const uint32_t left = exchange_tokens(a) - group_y() * EXCHANGE_TOKENS;
    return left < EXCHANGE_TOKENS ? left : EXCHANGE_TOKENS;
}
/* The slot of a rank's part of the piece, and that of its sum. */
DEVICE uint32_t exchange_part(const struct exchange_rows *of, uint32_t rank)
{
    return rank * EXCHANGE_PARTS(RANKS, of->most) + (EXCHANGE_SHARED(RANKS) ? group_y() / RANKS : group_y());
}
DEVICE uint32_t exchange_whole(const struct exchange_rows *of)
{
    return (RANKS + group_y() % RANKS) * EXCHANGE_PARTS(RANKS, of->most) + group_y() / RANKS;
}
DEVICE uint64_t exchange_flag_at(const struct exchange_rows *of, const uint32_t tag, uint32_t slot, uint32_t run)
{
    return tag % 2 * of->half + of->flags + 4 * ((uint64_t)slot * EXCHANGE_RUNS(of->cols, of->threads) + run);
}
/* Column c of token i of the slot's piece. */
DEVICE uint64_t exchange_value_at(const struct exchange_rows *of, const uint32_t tag, uint32_t slot, const uint32_t i, uint32_t c)
{
    return tag % 2 * of->half + of->values + 4 * ((uint64_t)(slot * EXCHANGE_TOKENS + i) * EXCHANGE_STRIDE(of->cols) + c);
}
DEVICE void exchange_await(const struct forge_kernel_args a, const struct exchange_rows *of, const uint32_t tag, uint32_t slot,
                           uint32_t run)
{
    const uint8_t *flag = a.given + exchange_flag_at(of, tag, slot, run);
    while (load_flag(flag) != tag) poll_pause();
}

/* What a thread has of a piece: of each token columns c + 2 threads j and the one behind, c = exchange_column(). */
struct exchange_own { float x[EXCHANGE_TOKENS][2][2]; };
DEVICE uint32_t exchange_column(const struct exchange_rows *of) { return group_x() * EXCHANGE_RUN(of->threads) + 2 * thread_x(); }

/* A group's piece into a slot of some ranks: of rank `to`, or with to RANKS of all, of this one only if `self`. */
DEVICE void exchange_store(const struct forge_kernel_args a, const struct exchange_rows *of, const struct exchange_own *own, uint32_t slot,
                           uint32_t to, const uint32_t self)
{
    const uint32_t tag = exchange_tag(a), n = exchange_piece(a), c = exchange_column(of);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if ((to < RANKS && rank != to) || (rank == a.rank && !self)) continue;
        UNROLL
        for (uint32_t i = 0; i < EXCHANGE_TOKENS; i++)
            UNROLL
            for (uint32_t j = 0; j < 2; j++) {
                const uint32_t at = c + 2 * of->threads * j;
                const uint64_t x = (uint64_t)bits_of_f32(own->x[i][j][1]) << 32 | bits_of_f32(own->x[i][j][0]);
                if (i < n && at < of->cols) store_peer(a.exchange[rank] + exchange_value_at(of, tag, slot, i, at), x);
            }
    }
    stores_done();
    barrier();
    if (thread_x() != 0) return;
    peer_release();
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if ((to == RANKS || rank == to) && (rank != a.rank || self))
            store_flag(a.exchange[rank] + exchange_flag_at(of, tag, slot, group_x()), tag);
}
/* The part of a piece in `rows` [tokens][stride] that this group has: as often as there are other GPUs, or to the one that sums it. */
DEVICE void exchange_give_rows(const struct forge_kernel_args a, const struct exchange_rows of, const float *rows, const uint32_t stride)
{
    const uint32_t n = exchange_piece(a), c = exchange_column(&of), t = first_token(a) + group_y() * EXCHANGE_TOKENS;
    const uint32_t to = EXCHANGE_SHARED(RANKS) ? group_y() % RANKS : RANKS;
    struct exchange_own own;
    if (to == a.rank) return;
    UNROLL
    for (uint32_t i = 0; i < EXCHANGE_TOKENS; i++)
        UNROLL
        for (uint32_t j = 0; j < 2; j++) {
            const uint32_t at = c + 2 * of.threads * j;
            const float *p = rows + (uint64_t)(t + i) * stride + at;
            if (i < n && at < of.cols) __builtin_memcpy(own.x[i][j], __builtin_assume_aligned(p, 8), 8);
        }
    exchange_store(a, &of, &own, exchange_part(&of, a.rank), to, 0);
}
/* Where GPUs share the tokens: the sum of all parts of the piece, if it is this one's, to all of them. */
DEVICE void exchange_sum_rows(const struct forge_kernel_args a, const struct exchange_rows of, const float *rows, const uint32_t stride)
{
    const uint32_t tag = exchange_tag(a), n = exchange_piece(a), c = exchange_column(&of), t = first_token(a) + group_y() * EXCHANGE_TOKENS;
    struct exchange_own own;
    if (group_y() % RANKS != a.rank) return;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != a.rank) exchange_await(a, &of, tag, exchange_part(&of, rank), group_x());
    UNROLL
    for (uint32_t k = 0; k < 4 * EXCHANGE_TOKENS; k++) {
        const uint32_t i = k / 4, j = k / 2 % 2, e = k % 2, at = c + 2 * of.threads * j + e;
        float sum = 0.0f;
        UNROLL
        for (uint32_t rank = 0; rank < RANKS && i < n && at < of.cols; rank++)
            sum += rank == a.rank ? rows[(uint64_t)(t + i) * stride + at]
                : load_peer_f32(a.given + exchange_value_at(&of, tag, exchange_part(&of, rank), i, at));
        own.x[i][j][e] = sum;
    }
    exchange_store(a, &of, &own, exchange_whole(&of), RANKS, 1);
}
/* Of a piece's column r the sums of all ranks, as many as it has tokens.  Where GPUs do not share the tokens there are two: a + b is b + a,
 * so both get the same bits. */
DEVICE void exchange_take_rows(const struct forge_kernel_args a, const struct exchange_rows of, const float *rows, const uint32_t stride,
                               uint32_t r, float *sums)
{
    const uint32_t tag = exchange_tag(a), n = exchange_piece(a), t = first_token(a) + group_y() * EXCHANGE_TOKENS;
    const uint32_t run = uniform(r / EXCHANGE_RUN(of.threads));      /* of all threads: a group has a part of one */
    const uint32_t slot = EXCHANGE_SHARED(RANKS) ? exchange_whole(&of) : exchange_part(&of, 1 - a.rank);
    float own[EXCHANGE_TOKENS];
    UNROLL
    for (uint32_t i = 0; i < EXCHANGE_TOKENS; i++)
        own[i] = !EXCHANGE_SHARED(RANKS) && i < n ? rows[(uint64_t)(t + i) * stride + r] : 0.0f;
    exchange_await(a, &of, tag, slot, run);
    UNROLL
    for (uint32_t i = 0; i < EXCHANGE_TOKENS; i++) {
        const float x = i < n ? load_peer_f32(a.given + exchange_value_at(&of, tag, slot, i, r)) : 0.0f;
        sums[i] = EXCHANGE_SHARED(RANKS) ? x : own[i] + x;
    }
}
#endif
