/* attention_prefill_rows.h -- attention of prefill by f16 products whose rows are queries, S = Q K^T and O = P V, for mma.sync.  An
 * accumulator tile is operand A as it is, V is transposed while it is read, and copies reach LDS without registers. */
#ifndef FORGE_ATTENTION_PREFILL_ROWS_H
#define FORGE_ATTENTION_PREFILL_ROWS_H
#include "attention_prefill.h"
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)

/* ---- K and V to LDS ---- */
/* Copies the rows of positions first .. to LDS at `to`.  begin starts the loads; end needs those bytes to be free.  An f16 cache is copied
 * directly, so there they must be free from the beginning. */
DEVICE void prefill_rows_begin(struct prefill_pieces *h, uint8_t *to, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        const uint32_t row = prefill_row(p, i), column = prefill_column(p);
        if (!prefill_has_piece(p, i)) continue;
        if (KV_KIND != KV_KIND_f16) prefill_fetch(&h->piece[i], p, plane, first + row, column);
        else copy_begin(&h->copy[i], to + row * p->stride + 2 * column,
                        plane + kv_bytes(p->kv_head, kv_row(first + row, p->ring), column, p->n_ctx, p->head_dim), first + row < p->end);
    }
    copy_commit();
}
DEVICE void prefill_rows_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        uint8_t *place = to + prefill_row(p, i) * p->stride + 2 * prefill_column(p);
        if (!prefill_has_piece(p, i)) continue;
        if (KV_KIND != KV_KIND_f16) *(u32x4 *)(void *)place = prefill_f16(&h->piece[i]);
        else copy_end(&h->copy[i], place);
    }
}

/* ---- the rows of a wave ---- */
struct prefill_wave {
    struct mma_acc o[PREFILL_TILES][PREFILL_DIMS];              /* sum of weight * v */
    struct mma_acc s[PREFILL_TILES][PREFILL_SPANS];             /* scores of one step, less the maximum; then weights 2^s */
    struct mma_a   weights[PREFILL_TILES][PREFILL_SPANS];       /* as operands */
    struct mma_a   q[PREFILL_TILES][PREFILL_DIMS];              /* if Q is in registers */
    float          less[PREFILL_TILES][MMA_ROWS];               /* - maximum, the initial value of scores; the same in all lanes of a row */
    float          sum[PREFILL_TILES][MMA_ROWS];                /* of this lane's weights */
    float          factor[PREFILL_TILES][MMA_ROWS];             /* the factor for o after the last update of the maximum */
    const uint8_t *q_lds;                                       /* if Q is in LDS: first row of the wave */
};

DEVICE void prefill_wave_zero(struct prefill_wave *w, const struct prefill *p)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_zero(&w->o[t][d]);
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) w->less[t][g] = w->sum[t][g] = 0.0f;
    }
}
/* lds_kv: the LDS memory of K and V, free until the barrier at the end. */
DEVICE void prefill_wave_begin(struct prefill_wave *w, const struct prefill *p, uint8_t *lds_q, uint8_t *lds_kv, const uint8_t *q,
                               const uint64_t q_stride)
{
    const uint32_t m = wave_id() * 16 * p->tiles;
    uint8_t *mine = p->q_registers ? lds_kv + wave_id() * 16 * p->stride : lds_q + m * p->stride;
    w->q_lds = mine;
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        prefill_q_rows(p->q_registers ? mine : mine + 16 * t * p->stride, p, q, q_stride, m + 16 * t);
        if (p->q_registers) {
            UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_load_a(&w->q[t][d], mine + 32 * d, p->stride);
            wave_barrier();
        }
    }
    prefill_wave_zero(w, p);
    if (p->q_registers) barrier();
}

/* Operands are loaded PREFILL_AHEAD products before their use.  Sums are pinned; otherwise the compiler would load all operands first,
 * which needs more registers than there are. */
enum { PREFILL_AHEAD = 1 };

DEVICE void prefill_scores_begin(struct prefill_wave *w, const struct prefill *p)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) w->s[t][j].x[mma_of_row(g, n)] = w->less[t][g];
}
#ifdef ATTENTION_MORE
DEVICE void prefill_cap(struct prefill_wave *w, const struct prefill *p)
{
    if (p->cap == 0.0f) return;
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                    float *s = &w->s[t][j].x[mma_of_row(g, n)];
                    *s = softcap_f32(*s - w->less[t][g], p->cap) + w->less[t][g];
                }
}
#else
DEVICE void prefill_cap(struct prefill_wave *w, const struct prefill *p) { (void)w, (void)p; }
#endif
/* s = Q K^T - maximum */
DEVICE void prefill_scores(struct prefill_wave *w, const struct prefill *p, const uint8_t *k)
{
    struct mma_a a[PREFILL_AHEAD + 1][PREFILL_TILES];
    struct mma_b b[PREFILL_AHEAD + 1];
    const uint32_t spans = p->positions / 16, n_loads = spans * (p->head_dim / 16);
    prefill_scores_begin(w, p);
    UNROLL for (uint32_t n = 0; n < n_loads + PREFILL_AHEAD; n++) {
        if (n < n_loads) {
            const uint32_t d = n / spans, j = n % spans;
            UNROLL for (uint32_t t = 0; t < p->tiles && j == 0 && !p->q_registers; t++)
                mma_load_a(&a[d % (PREFILL_AHEAD + 1)][t], w->q_lds + 16 * t * p->stride + 32 * d, p->stride);
            mma_load_b(&b[n % (PREFILL_AHEAD + 1)], k + 16 * j * p->stride + 32 * d, p->stride);
        }
        if (n < PREFILL_AHEAD) continue;
        const uint32_t m = n - PREFILL_AHEAD, d = m / spans;
        UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
            mma_f16(&w->s[t][m % spans], p->q_registers ? &w->q[t][d] : &a[d % (PREFILL_AHEAD + 1)][t], &b[m % (PREFILL_AHEAD + 1)]);
            mma_pin(&w->s[t][m % spans]);
        }
    }
    prefill_cap(w, p);
}

/* Masks scores of positions that a row does not attend.  first: the step's first position.
 * The pin keeps values that only this function needs out of the registers of the loop. */
DEVICE void prefill_mask(struct prefill_wave *w, const struct prefill *p, uint32_t first)
{
    uint32_t m = wave_id() * 16 * p->tiles;
    PIN(m);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            const uint32_t row = m + 16 * t + mma_row(mma_of_row(g, 0));
            const int32_t last = (int32_t)(prefill_last(p, row) - first - mma_col(0));
            const int32_t begin = (int32_t)(prefill_first(p, row) - first - mma_col(0));
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                    const uint32_t e = mma_of_row(g, n);
                    const int32_t at = (int32_t)(16 * j + (mma_col(e) - mma_col(0)));
                    if (at > last || (p->window && at < begin)) w->s[t][j].x[e] = PREFILL_MASKED;
                }
        }
}

/* Updates the maximum (a row's first step initialises it) and the sums; sets w->factor, by which prefill_follow() must rescale o. */
DEVICE void prefill_move(struct prefill_wave *w, const struct prefill *p, uint32_t first)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            const uint32_t m = (wave_id() * p->tiles + t) * 16 + mma_row(mma_of_row(g, 0));
            float more = prefill_has_begun(p, m, first) ? 0.0f : PREFILL_MASKED;
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) more = max_f32(more, w->s[t][j].x[mma_of_row(g, n)]);
            more = mma_rows_max(more);
            if (p->window && more <= 0.5f * PREFILL_MASKED) more = 0.0f;
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) w->s[t][j].x[mma_of_row(g, n)] -= more;
            w->less[t][g] -= more;
            w->factor[t][g] = exp2_f32(min_f32(-more, 0.0f));
            w->sum[t][g] *= w->factor[t][g];
        }
}
/* Turns scores into weights 2^s.  Returns 1 if the maximum changed, so that prefill_follow() must follow.  Scores are compared as integers,
 * which have the order of floats where these are positive. */
DEVICE uint32_t prefill_softmax(struct prefill_wave *w, const struct prefill *p, uint32_t first)
{
    const int32_t limit = prefill_begins(p, first) ? (-0x7fffffff - 1) : (int32_t)bits_of_f32(PREFILL_BEHIND);
    int32_t top = (-0x7fffffff - 1);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const int32_t s = (int32_t)bits_of_f32(w->s[t][j].x[e]);
                top = s > top ? s : top;
            }
    const uint32_t moved = wave_any(top > limit);
    if (moved) prefill_move(w, p, first);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                    float *s = &w->s[t][j].x[mma_of_row(g, n)];
                    *s = exp2_f32(*s);
                    w->sum[t][g] += *s;
                }
    return moved;
}
DEVICE void prefill_follow(struct prefill_wave *w, const struct prefill *p)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
            UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) w->o[t][d].x[mma_of_row(g, n)] *= w->factor[t][g];
}
DEVICE void prefill_weights(struct prefill_wave *w, const struct prefill *p)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++) mma_a_of_acc(&w->weights[t][j], &w->s[t][j]);
}

/* o += weights V */
DEVICE void prefill_values(struct prefill_wave *w, const struct prefill *p, const uint8_t *v)
{
    struct mma_b b[PREFILL_AHEAD + 1];
    const uint32_t dims = p->head_dim / 16, n_loads = p->positions / 16 * dims;
    UNROLL for (uint32_t n = 0; n < n_loads + PREFILL_AHEAD; n++) {
        if (n < n_loads) {
            const uint32_t j = n / dims, d = n % dims;
            mma_load_b_trans(&b[n % (PREFILL_AHEAD + 1)], v + 16 * j * p->stride + 32 * d, p->stride);
        }
        if (n < PREFILL_AHEAD) continue;
        const uint32_t m = n - PREFILL_AHEAD;
        UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
            mma_f16(&w->o[t][m % dims], &w->weights[t][m / dims], &b[m % (PREFILL_AHEAD + 1)]);
            mma_pin(&w->o[t][m % dims]);
        }
    }
}

DEVICE void prefill_wave_end(const struct prefill_wave *w, const struct prefill *p, const struct prefill_out *out)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
#ifdef ATTENTION_MORE
            const uint32_t row = (wave_id() * p->tiles + t) * 16 + mma_row(mma_of_row(g, 0));
            const float inverse = rcp_f32(mma_rows_sum(w->sum[t][g]) + prefill_sink(p, row, -w->less[t][g]));
#else
            const float inverse = rcp_f32(mma_rows_sum(w->sum[t][g]));
#endif
            const uint32_t m = (wave_id() * p->tiles + t) * 16 + mma_row(mma_of_row(g, 0));
            if (!prefill_has(p, m)) continue;
            UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n += 2) {
                    const uint32_t e = mma_of_row(g, n), column = prefill_head(p, m) * p->head_dim + 16 * d + mma_col(e);
                    prefill_put2(out, prefill_token(p, m), column, w->o[t][d].x[e] * inverse, w->o[t][d].x[(e + 1) % MMA_ACC] * inverse);
                }
        }
}

/* K and V are loaded one step ahead into a double buffer.  If the cache passes through registers, K and V use these one after the other. */
DEVICE void prefill_matrix(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                           const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    const uint32_t rows = p->positions * p->stride, together = KV_KIND == KV_KIND_f16;
    uint8_t *lds_q = lds(), *lds_k = lds_q + ATTENTION_PREFILL_Q_BYTES(KV_KIND, 1u, p->head_dim, FAMILY, p->threads),
            *lds_v = lds_k + 2 * rows;
    uint32_t at = 0;                             /* offset of this step's rows */
    struct prefill_pieces pieces;
    struct prefill_wave w;
    prefill_wave_begin(&w, p, lds_q, lds_k, q, q_stride);
    prefill_rows_begin(&pieces, lds_k, p, k, p->begin);
    prefill_rows_end(&pieces, lds_k, p);
    prefill_rows_begin(&pieces, lds_v, p, v, p->begin);
    prefill_rows_end(&pieces, lds_v, p);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += p->positions) {
        const uint32_t next = first + p->positions, more = next < p->end, other = rows - at;
        copy_wait(0);
        barrier();                               /* K and V are complete; no wave uses the previous ones */
        if (more) prefill_rows_begin(&pieces, lds_k + other, p, k, next);
        if (together & more) prefill_rows_begin(&pieces, lds_v + other, p, v, next);
        prefill_scores(&w, p, lds_k + at);
        if (more > together) {
            prefill_rows_end(&pieces, lds_k + other, p);
            prefill_rows_begin(&pieces, lds_v + other, p, v, next);
        }
        if (next > prefill_all_before(p) || prefill_leaves(p, first)) prefill_mask(&w, p, first);
        if (prefill_softmax(&w, p, first)) prefill_follow(&w, p);
        prefill_weights(&w, p);
        prefill_values(&w, p, lds_v + at);
        if (more) prefill_rows_end(&pieces, lds_v + other, p);
        at = other;
    }
    prefill_wave_end(&w, p, out);
}
#endif
#endif
