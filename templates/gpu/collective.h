/* collective.h -- all-reduce and all-gather among the GPUs that share a model, inside a step's kernels.  Each GPU has memory that all of
 * them store into (args.collective).  Values of decode need no flag and no barrier: one store of 8 bytes has a value and the number of the
 * collective, its tag, and the reader polls until it sees the expected tag.  (Low-latency protocol: NCCL's "LL", Hu et al. 2025,
 * arXiv:2507.04786, section IV)  Rows of a prompt need half the bytes: values without tags, and one flag, the tag, after each piece of
 * them.
 *
 * Collectives alternate between two halves of the memory.  Two are enough: a GPU pushes values of collective n + 2 only after it has read
 * all values of n + 1, which the others pushed only after they had read all values of n.
 *
 * Parts are added in the order of the ranks, so that all GPUs get the same bits.
 *
 * The source defines RANKS, the number of GPUs.  half: bytes of a half; most: most rows of a collective; cols: columns of a row. */
#ifndef FORGE_COLLECTIVE_H
#define FORGE_COLLECTIVE_H
#include "collective_sizes.h"
#include "launch.h"

DEVICE uint32_t collective_tag(const struct forge_kernel_args a) { return uniform(a.step->collective_base) + a.collectives; }

/* Byte offset of the value of a rank for column c of row t; the same in the memory of every GPU. */
DEVICE uint64_t collective_at(const uint32_t tag, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t rank, uint32_t t,
                              uint32_t c)
{
    return tag % 2 * half + 8 * (((uint64_t)rank * most + t) * cols + c);
}
/* Stores one value in the memory of all GPUs, this one included. */
DEVICE void collective_push(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                            uint32_t c, float y)
{
    const uint32_t tag = collective_tag(a);
    const uint64_t at = collective_at(tag, half, most, cols, a.rank, t, c), x = (uint64_t)tag << 32 | bits_of_f32(y);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) store_peer(a.collective[rank] + at, x);
}
/* Polls the value at `at` until it has the tag; x: what was read there before. */
DEVICE float collective_value(const struct forge_kernel_args a, const uint32_t tag, uint64_t at, uint64_t x)
{
    while ((uint32_t)(x >> 32) != tag) {
        poll_pause();
        x = load_peer(a.given + at);
    }
    return f32_of_bits((uint32_t)x);
}
/* The sum over all ranks of column c of row t; the values of all ranks are requested at once. */
DEVICE float all_reduce_value(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                              uint32_t c)
{
    const uint32_t tag = collective_tag(a);
    const uint64_t at = collective_at(tag, half, most, cols, 0, t, c), apart = 8ull * most * cols;
    uint64_t x[RANKS];
    float sum = 0.0f;
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) x[rank] = load_peer(a.given + at + rank * apart);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) sum += collective_value(a, tag, at + rank * apart, x[rank]);
    return sum;
}
/* Column c of `all` columns of a row that is the concatenation of all GPUs' parts; cols: columns of the largest part. */
DEVICE float all_gather_value(const struct forge_kernel_args a, const uint64_t half, const uint32_t most, const uint32_t cols, uint32_t t,
                              uint32_t c, const uint32_t all)
{
    const uint32_t tag = collective_tag(a);
    uint32_t from = 0, first = 0;
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        const uint32_t begin = (uint32_t)((uint64_t)all * rank / RANKS);
        from = c >= begin ? rank : from;
        first = c >= begin ? begin : first;
    }
    const uint64_t at = collective_at(tag, half, most, cols, from, t, c - first);
    return collective_value(a, tag, at, load_peer(a.given + at));
}

/* ---- rows of a prompt ----
 * Values are stored and loaded at system scope, as all data between GPUs, two at a time, so that those of a wave are contiguous.
 * When the values of all threads of a group are visible to others, one thread stores the flag (store_flag).  A reader that has seen the
 * flag (load_flag) loads the values without checking each one.  A piece is the work of one group of collective_push_rows().  Pieces of more
 * tokens would leave too few groups for a short prompt; pieces of fewer tokens would need a flag, and a wait for the stores before it, for
 * too few bytes. */
struct collective_rows {
    uint64_t half, flags, values;                /* bytes of a half; where flags and values begin in it */
    uint32_t most, cols, threads;                /* most tokens of a step; columns of a row; threads of a group */
};

DEVICE uint32_t collective_tokens(const struct forge_kernel_args a) { return uniform(a.first ? a.step->n_logits : a.step->n_tokens); }
/* Tokens of the piece that this row of the grid works on. */
DEVICE uint32_t collective_piece(const struct forge_kernel_args a)
{
    const uint32_t left = collective_tokens(a) - group_y() * COLLECTIVE_TOKENS;
    return left < COLLECTIVE_TOKENS ? left : COLLECTIVE_TOKENS;
}
/* The slot of a rank's part of the piece, and the slot of the piece's sum. */
DEVICE uint32_t collective_part(const struct collective_rows *of, uint32_t rank)
{
    return rank * COLLECTIVE_PARTS(RANKS, of->most) + (COLLECTIVE_SHARED(RANKS) ? group_y() / RANKS : group_y());
}
DEVICE uint32_t collective_whole(const struct collective_rows *of)
{
    return (RANKS + group_y() % RANKS) * COLLECTIVE_PARTS(RANKS, of->most) + group_y() / RANKS;
}
DEVICE uint64_t collective_flag_at(const struct collective_rows *of, const uint32_t tag, uint32_t slot, uint32_t run)
{
    return tag % 2 * of->half + of->flags + 4 * ((uint64_t)slot * COLLECTIVE_RUNS(of->cols, of->threads) + run);
}
/* Byte offset of column c of token i of the piece in this slot. */
DEVICE uint64_t collective_value_at(const struct collective_rows *of, const uint32_t tag, uint32_t slot, const uint32_t i, uint32_t c)
{
    return tag % 2 * of->half + of->values + 4 * ((uint64_t)(slot * COLLECTIVE_TOKENS + i) * COLLECTIVE_STRIDE(of->cols) + c);
}
DEVICE void collective_await(const struct forge_kernel_args a, const struct collective_rows *of, const uint32_t tag, uint32_t slot,
                             uint32_t run)
{
    const uint8_t *flag = a.given + collective_flag_at(of, tag, slot, run);
    while (load_flag(flag) != tag) poll_pause();
}

/* A thread's values of a piece: for each token columns c + 2 threads j and the next one, c = collective_column(). */
struct collective_own { float x[COLLECTIVE_TOKENS][2][2]; };
DEVICE uint32_t collective_column(const struct collective_rows *of) { return group_x() * COLLECTIVE_RUN(of->threads) + 2 * thread_x(); }

/* Stores a group's piece into a slot: of rank `to`, or of all ranks if to is RANKS; on this GPU only if `self`. */
DEVICE void collective_store(const struct forge_kernel_args a, const struct collective_rows *of, const struct collective_own *own,
                             uint32_t slot, uint32_t to, const uint32_t self)
{
    const uint32_t tag = collective_tag(a), n = collective_piece(a), c = collective_column(of);
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if ((to < RANKS && rank != to) || (rank == a.rank && !self)) continue;
        UNROLL
        for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++)
            UNROLL
            for (uint32_t j = 0; j < 2; j++) {
                const uint32_t at = c + 2 * of->threads * j;
                const uint64_t x = (uint64_t)bits_of_f32(own->x[i][j][1]) << 32 | bits_of_f32(own->x[i][j][0]);
                if (i < n && at < of->cols) store_peer(a.collective[rank] + collective_value_at(of, tag, slot, i, at), x);
            }
    }
    stores_done();
    barrier();
    if (thread_x() != 0) return;
    peer_release();
    UNROLL
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if ((to == RANKS || rank == to) && (rank != a.rank || self))
            store_flag(a.collective[rank] + collective_flag_at(of, tag, slot, group_x()), tag);
}
/* Pushes this group's piece of `rows` [tokens][stride] to all other GPUs or, if GPUs share the tokens, to the GPU that sums it. */
DEVICE void collective_push_rows(const struct forge_kernel_args a, const struct collective_rows of, const float *rows,
                                 const uint32_t stride)
{
    const uint32_t n = collective_piece(a), c = collective_column(&of), t = first_token(a) + group_y() * COLLECTIVE_TOKENS;
    const uint32_t to = COLLECTIVE_SHARED(RANKS) ? group_y() % RANKS : RANKS;
    struct collective_own own;
    if (to == a.rank) return;
    UNROLL
    for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++)
        UNROLL
        for (uint32_t j = 0; j < 2; j++) {
            const uint32_t at = c + 2 * of.threads * j;
            const float *p = rows + (uint64_t)(t + i) * stride + at;
            if (i < n && at < of.cols) __builtin_memcpy(own.x[i][j], __builtin_assume_aligned(p, 8), 8);
        }
    collective_store(a, &of, &own, collective_part(&of, a.rank), to, 0);
}
/* Where GPUs share the tokens: if the piece is this GPU's, sums all parts of it and pushes the sum to all GPUs. */
DEVICE void collective_sum_rows(const struct forge_kernel_args a, const struct collective_rows of, const float *rows, const uint32_t stride)
{
    const uint32_t tag = collective_tag(a), n = collective_piece(a), c = collective_column(&of),
        t = first_token(a) + group_y() * COLLECTIVE_TOKENS;
    struct collective_own own;
    if (group_y() % RANKS != a.rank) return;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != a.rank) collective_await(a, &of, tag, collective_part(&of, rank), group_x());
    UNROLL
    for (uint32_t k = 0; k < 4 * COLLECTIVE_TOKENS; k++) {
        const uint32_t i = k / 4, j = k / 2 % 2, e = k % 2, at = c + 2 * of.threads * j + e;
        float sum = 0.0f;
        UNROLL
        for (uint32_t rank = 0; rank < RANKS && i < n && at < of.cols; rank++)
            sum += rank == a.rank ? rows[(uint64_t)(t + i) * stride + at]
                : load_peer_f32(a.given + collective_value_at(&of, tag, collective_part(&of, rank), i, at));
        own.x[i][j][e] = sum;
    }
    collective_store(a, &of, &own, collective_whole(&of), RANKS, 1);
}
/* sums: column r of the all-reduced piece, for each of its tokens.  If GPUs do not share the tokens, there are two GPUs: a + b equals
 * b + a, so both get the same bits. */
DEVICE void collective_read_rows(const struct forge_kernel_args a, const struct collective_rows of, const float *rows,
                                 const uint32_t stride, uint32_t r, float *sums)
{
    const uint32_t tag = collective_tag(a), n = collective_piece(a), t = first_token(a) + group_y() * COLLECTIVE_TOKENS;
    const uint32_t run = uniform(r / COLLECTIVE_RUN(of.threads));    /* the same in all threads: a group has a part of one run */
    const uint32_t slot = COLLECTIVE_SHARED(RANKS) ? collective_whole(&of) : collective_part(&of, 1 - a.rank);
    float own[COLLECTIVE_TOKENS];
    UNROLL
    for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++)
        own[i] = !COLLECTIVE_SHARED(RANKS) && i < n ? rows[(uint64_t)(t + i) * stride + r] : 0.0f;
    collective_await(a, &of, tag, slot, run);
    UNROLL
    for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++) {
        const float x = i < n ? load_peer_f32(a.given + collective_value_at(&of, tag, slot, i, r)) : 0.0f;
        sums[i] = COLLECTIVE_SHARED(RANKS) ? x : own[i] + x;
    }
}
#endif
