/* attention_prefill_fours.h -- attention of prefill by products of four waves (mma.h: wgmma), for a cache of f16 and heads of 64 or 128.
 * Rows, weights and sums of a wave are those of attention_prefill_rows.h, with 16 rows per wave.  LDS holds Q and two steps of K and V.
 *
 * The scores of a step are computed while the values of the previous step are added up, and are turned into weights meanwhile.  (Shah et
 * al. 2024, "FlashAttention-3", arXiv:2407.08608, section 3.2) */
#ifndef FORGE_ATTENTION_PREFILL_FOURS_H
#define FORGE_ATTENTION_PREFILL_FOURS_H
#include "attention_prefill_rows.h"
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)

/* Copies the rows of positions first .. to LDS at `to`. */
DEVICE void prefill_fours_copy(uint8_t *to, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    struct copy unused;
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        const uint32_t row = prefill_row(p, i), column = prefill_column(p), position = first + row;
        copy_begin(&unused, to + prefill_fours_place(row, column, p->positions),
                   plane + kv_bytes(p->kv_head, kv_row(position, p->ring), column, p->n_ctx, p->head_dim), position < p->end);
    }
    copy_commit();
}

DEVICE void prefill_fours_scores(struct prefill_wave *w, const struct prefill *p, const uint8_t *q, const uint8_t *k)
{
    const uint8_t *mine = q + wave_id() / MMA_GROUP_WAVES * ((uint32_t)MMA_GROUP_A * SWIZZLED_ROW_BYTES);
    prefill_scores_begin(w, p);
    mma_group_begin();
    UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
        mma_group_f16(w->s[0], mine + d / 4 * (prefill_rows_of(p) * SWIZZLED_ROW_BYTES), k + d / 4 * (p->positions * SWIZZLED_ROW_BYTES),
                      d % 4 * 2);
    mma_group_commit();
}
DEVICE void prefill_fours_values(struct prefill_wave *w, const struct prefill *p, const uint8_t *v)
{
    mma_group_begin();
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
        mma_group_weights_f16(w->o[0], &w->weights[0][j], v + j * (16 * SWIZZLED_ROW_BYTES), p->positions * SWIZZLED_ROW_BYTES,
                              p->head_dim / 16);
    mma_group_commit();
}
/* Turns the scores of positions first .. into weights; they are complete when all commits but the last n are. */
DEVICE uint32_t prefill_fours_softmax(struct prefill_wave *w, const struct prefill *p, uint32_t first, const uint32_t n)
{
    mma_group_wait(n);
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++) mma_group_sum(&w->s[0][j]);
    prefill_cap(w, p);
    if (first + p->positions > prefill_all_before(p) || prefill_leaves(p, first)) prefill_mask(w, p, first);
    return prefill_softmax(w, p, first);
}
DEVICE void prefill_fours_sums(struct prefill_wave *w, const struct prefill *p)
{
    mma_group_wait(0);
    UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_group_sum(&w->o[0][d]);
}

/* K and V are loaded one step ahead. */
DEVICE void prefill_fours(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                          const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    const uint32_t step = p->positions * p->head_dim * 2;
    uint8_t *lds_q = lds(), *lds_k = lds_q + prefill_rows_of(p) * p->head_dim * 2, *lds_v = lds_k + 2 * step;
    struct prefill_wave w;
    uint32_t first = p->begin, odd = 0;
    prefill_fours_copy(lds_k, p, k, first);
    prefill_fours_copy(lds_v, p, v, first);
    prefill_q_rows(lds_q, p, q, q_stride, wave_id() * 16);
    prefill_wave_zero(&w, p);
    copy_wait(1);
    mma_group_written();
    barrier();
    if (first + p->positions < p->end) prefill_fours_copy(lds_k + step, p, k, first + p->positions);
    prefill_fours_scores(&w, p, lds_q, lds_k);
    prefill_fours_softmax(&w, p, first, 0);
    prefill_weights(&w, p);
#pragma unroll 1
    for (uint32_t next = first + p->positions; next < p->end; next += p->positions) {
        copy_wait(0);
        mma_group_written();
        barrier();                               /* the next K and this V are complete; no wave uses earlier ones */
        prefill_fours_copy(lds_v + (odd ^ 1) * step, p, v, next);
        if (next + p->positions < p->end) prefill_fours_copy(lds_k + odd * step, p, k, next + p->positions);
        prefill_fours_scores(&w, p, lds_q, lds_k + (odd ^ 1) * step);
        prefill_fours_values(&w, p, lds_v + odd * step);
        const uint32_t moved = prefill_fours_softmax(&w, p, next, 1);
        prefill_fours_sums(&w, p);
        if (moved) prefill_follow(&w, p);
        prefill_weights(&w, p);
        odd ^= 1;
    }
    copy_wait(0);
    mma_group_written();
    barrier();
    prefill_fours_values(&w, p, lds_v + odd * step);
    prefill_fours_sums(&w, p);
    prefill_wave_end(&w, p, out);
}
#endif
#endif
