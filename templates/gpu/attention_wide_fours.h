/* attention_wide_fours.h -- prefill of attention_wide.h by products of four waves (mma.h: wgmma), for a cache of f16.
 *
 * Both sets of four waves have the same 64 queries.  Each computes all scores of a step of 64 positions, and the sums of its half of V's
 * columns.  So the scores are computed twice, but weights stay in registers and no set waits for the other's part.  LDS holds Q, K and V in
 * swizzled areas of 64 columns.  If V is a view of K, the next K comes while this one is read.  Otherwise the next K comes while weights
 * are multiplied, and V while scores are computed.  (Shah et al. 2024, "FlashAttention-3", arXiv:2407.08608; DeepSeek's FlashMLA divides
 * V's columns too.) */
#ifndef FORGE_ATTENTION_WIDE_FOURS_H
#define FORGE_ATTENTION_WIDE_FOURS_H
#include "attention_wide.h"
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)

enum { WIDE_FOURS_SPANS = WIDE_FOURS_POSITIONS / 16, WIDE_FOURS_DIMS = WIDE_FOURS_VALUES / 32,
       WIDE_FOURS_AREA = WIDE_FOURS_POSITIONS * SWIZZLED_ROW_BYTES };

/* Of a wave: 16 queries.  o: tiles of 16 columns. */
struct wide_fours {
    struct mma_acc s[WIDE_FOURS_SPANS], o[WIDE_FOURS_DIMS];
    struct mma_a weights[WIDE_FOURS_SPANS];
    float m[MMA_ROWS], l[MMA_ROWS];              /* maximum, the same in all lanes of a row; sum of this lane's weights */
};

/* This wave's first query. */
DEVICE uint32_t wide_fours_row(void) { return wave_id() % MMA_GROUP_WAVES * 16; }
/* The number of columns of a set, and the first column of this wave's set. */
DEVICE uint32_t wide_fours_half(const struct wide *w)   { return w->value_dim / 2; }
DEVICE uint32_t wide_fours_column(const struct wide *w) { return wave_id() / MMA_GROUP_WAVES * wide_fours_half(w); }

DEVICE void wide_fours_scores(struct wide_fours *x, const struct wide *w, uint32_t stage)
{
    const uint8_t *q = lds() + w->q_at, *k = lds() + w->k_at + stage * WIDE_FOURS_BYTES(w->dim);
    UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++) mma_zero(&x->s[j]);
    mma_group_begin();
    UNROLL for (uint32_t d = 0; d < w->dim / 16; d++)
        mma_group_half_f16(x->s, q + d / 4 * WIDE_FOURS_AREA, k + d / 4 * WIDE_FOURS_AREA, d % 4 * 2);
    mma_group_commit();
    mma_group_wait(0);
    UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++) mma_group_sum(&x->s[j]);
}

/* Masks what a query does not attend.  first: the step's first position.  The pin keeps values that only this function needs out of the
 * registers of the loop. */
DEVICE void wide_fours_mask(struct wide_fours *x, const struct prefill *p, uint32_t first)
{
    uint32_t m = wide_fours_row();
    PIN(m);
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        const uint32_t row = m + mma_row(mma_of_row(g, 0)), begin = prefill_first(p, row), last = prefill_last(p, row);
        UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++)
            UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                const uint32_t e = mma_of_row(g, n), position = first + 16 * j + mma_col(e);
                if (position > last || position < begin) x->s[j].x[e] = ATTENTION_MASKED;
            }
    }
}

/* Takes new maxima, and rescales the sums. */
DEVICE void wide_fours_move(struct wide_fours *x, const struct wide *w, const float top[MMA_ROWS])
{
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        const float m = max_f32(x->m[g], top[g]), factor = exp2_f32(x->m[g] - m);
        x->m[g] = m;
        x->l[g] *= factor;
        UNROLL for (uint32_t d = 0; d < wide_fours_half(w) / 16; d++)
            UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) x->o[d].x[mma_of_row(g, n)] *= factor;
    }
}
/* Scores to weights, as operands. */
DEVICE void wide_fours_weights(struct wide_fours *x, const struct wide *w, const struct prefill *p, uint32_t first)
{
    float top[MMA_ROWS];
    uint32_t moved = 0;
#ifdef ATTENTION_MORE
    UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS && p->cap != 0.0f; j++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) x->s[j].x[e] = softcap_f32(x->s[j].x[e], p->cap);
#endif
    if (first + WIDE_FOURS_POSITIONS > prefill_all_before(p) || prefill_leaves(p, first)) wide_fours_mask(x, p, first);
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        top[g] = ATTENTION_MASKED;
        UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++)
            UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) top[g] = max_f32(top[g], x->s[j].x[mma_of_row(g, n)]);
        top[g] = mma_rows_max(top[g]);
        moved |= top[g] > x->m[g] + PREFILL_BEHIND;
    }
    if (wave_any(moved)) wide_fours_move(x, w, top);
    UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++) {
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
            UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                float *s = &x->s[j].x[mma_of_row(g, n)];
                *s = exp2_f32(*s - x->m[g]);
                x->l[g] += *s;
            }
        mma_a_of_acc(&x->weights[j], &x->s[j]);
    }
}

/* sums += weights * V */
DEVICE void wide_fours_values(struct wide_fours *x, const struct wide *w, uint32_t stage)
{
    const uint32_t half = wide_fours_half(w), tiles = half % MMA_GROUP_B ? 4 : 8;
    const uint8_t *v = lds() + w->v_at + stage * WIDE_FOURS_BYTES(w->dim) + wide_fours_column(w) / 64 * WIDE_FOURS_AREA;
    mma_group_begin();
    UNROLL for (uint32_t j = 0; j < WIDE_FOURS_SPANS; j++)
        UNROLL for (uint32_t d = 0; d < half / 16; d += tiles)
            mma_group_weights_f16(&x->o[d], &x->weights[j], v + d / 4 * WIDE_FOURS_AREA + j * (16 * SWIZZLED_ROW_BYTES), WIDE_FOURS_AREA,
                                  tiles);
    mma_group_commit();
    mma_group_wait(0);
    UNROLL for (uint32_t d = 0; d < half / 16; d++) mma_group_sum(&x->o[d]);
}

DEVICE void wide_fours_end(const struct wide_fours *x, const struct wide *w, const struct prefill *p, const struct prefill_out *to)
{
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        const uint32_t m = wide_fours_row() + mma_row(mma_of_row(g, 0));
        float l = mma_rows_sum(x->l[g]);
#ifdef ATTENTION_MORE
        l += prefill_sink(p, m, x->m[g]);
#endif
        const float inverse = rcp_f32(l);
        if (!prefill_has(p, m)) continue;
        const uint32_t token = prefill_token(p, m), column = prefill_head(p, m) * w->value_dim + wide_fours_column(w);
        UNROLL for (uint32_t d = 0; d < wide_fours_half(w) / 16; d++)
            UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n += 2) {
                const uint32_t e = mma_of_row(g, n);
                prefill_put2(to, token, column + 16 * d + mma_col(e), x->o[d].x[e] * inverse, x->o[d].x[(e + 1) % MMA_ACC] * inverse);
            }
    }
    prefill_pad(p, to);
}

/* ---- parts of the positions ---- */
struct wide_fours_part { float *sums; uint32_t *counter; uint32_t n, number; };     /* sums: of the first part; parts, this one */

DEVICE void wide_fours_begin(struct wide_fours *x, const struct wide *w)
{
    UNROLL for (uint32_t d = 0; d < wide_fours_half(w) / 16; d++) mma_zero(&x->o[d]);
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) x->m[g] = ATTENTION_NOTHING, x->l[g] = 0.0f;
}
/* Value n of this thread in a part. */
DEVICE GLOBAL float *wide_fours_kept(const struct wide *w, const struct wide_fours_part *part, uint32_t k, const uint32_t n)
{
    return (GLOBAL float *)part->sums + (uint64_t)k * (WIDE_FOURS_PART_BYTES(w->value_dim, FAMILY) / 4) + n * w->threads + thread_x();
}
DEVICE void wide_fours_leave(const struct wide_fours *x, const struct wide *w, const struct wide_fours_part *part)
{
    const uint32_t n = wide_fours_half(w) / 16 * MMA_ACC;
    UNROLL for (uint32_t i = 0; i < n; i++) *wide_fours_kept(w, part, part->number, i) = x->o[i / MMA_ACC].x[i % MMA_ACC];
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        *wide_fours_kept(w, part, part->number, n + 2 * g) = x->m[g];
        *wide_fours_kept(w, part, part->number, n + 2 * g + 1) = x->l[g];
    }
}
/* Adds part k.  The parts are added in their order, so the result does not depend on which one arrives last. */
DEVICE void wide_fours_join(struct wide_fours *x, const struct wide *w, const struct wide_fours_part *part, uint32_t k)
{
    const uint32_t n = wide_fours_half(w) / 16 * MMA_ACC;
    float factor[MMA_ROWS];
    UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
        const float its = *wide_fours_kept(w, part, k, n + 2 * g), m = max_f32(x->m[g], its), mine = exp2_f32(x->m[g] - m);
        factor[g] = exp2_f32(its - m);
        x->m[g] = m;
        x->l[g] = x->l[g] * mine + *wide_fours_kept(w, part, k, n + 2 * g + 1) * factor[g];
        UNROLL for (uint32_t d = 0; d < wide_fours_half(w) / 16; d++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC / MMA_ROWS; e++) x->o[d].x[mma_of_row(g, e)] *= mine;
    }
    UNROLL for (uint32_t d = 0; d < wide_fours_half(w) / 16; d++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC / MMA_ROWS; e++)
                x->o[d].x[mma_of_row(g, e)] += *wide_fours_kept(w, part, k, MMA_ACC * d + mma_of_row(g, e)) * factor[g];
}

/* The positions of this part.  Returns 0 if there are fewer parts. */
DEVICE uint32_t wide_fours_cut(struct wide_fours_part *part, struct prefill *p, const uint32_t splits, const uint32_t least)
{
    const uint32_t steps = (p->end - p->begin + WIDE_FOURS_POSITIONS - 1) / WIDE_FOURS_POSITIONS, fit = (p->end - p->begin) / least,
                   most = fit < 1 ? 1 : fit < splits ? fit : splits, each = (steps + most - 1) / most;
    part->n = (steps + each - 1) / each;
    if (part->number >= part->n) return 0;
    p->begin += part->number * each * WIDE_FOURS_POSITIONS;
    if (part->number + 1 < part->n) p->end = p->begin + each * WIDE_FOURS_POSITIONS;
    return 1;
}

/* The whole of attention_wide() after its first lines: K of the first step is under way. */
DEVICE void wide_fours_run(const struct wide *w, const struct prefill *p, const struct prefill_out *to,
                           const struct wide_fours_part *part)
{
    struct wide_pieces unused;
    struct wide_fours x;
    uint32_t stage = 0;
    wide_fours_begin(&x, w);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += WIDE_FOURS_POSITIONS) {
        const uint32_t next = first + WIDE_FOURS_POSITIONS;
        copy_wait(0);
        mma_group_written();
        barrier();                               /* K is complete; no wave uses V any more */
        if (!w->view) wide_v_begin(&unused, 0, w, p, first);
        else if (next < p->end) wide_k_begin(&unused, stage ^ 1, w, p, next);
        copy_commit();
        wide_fours_scores(&x, w, stage);
        if (!w->view) {
            barrier();                           /* no wave uses K any more */
            if (next < p->end) wide_k_begin(&unused, 0, w, p, next);
            copy_commit();
        }
        wide_fours_weights(&x, w, p, first);
        if (!w->view) {
            copy_wait(1);
            mma_group_written();
            barrier();                           /* V is complete */
        }
        wide_fours_values(&x, w, stage);
        stage ^= w->view;
    }
    if (part->n > 1) {
        wide_fours_leave(&x, w, part);
        if (!last_to_arrive(part->counter, part->n, (uint32_t *)(void *)lds())) return;
        wide_fours_begin(&x, w);
#pragma unroll 1
        for (uint32_t k = 0; k < part->n; k++) wide_fours_join(&x, w, part, k);
    }
    wide_fours_end(&x, w, p, to);
}
#endif
#endif
