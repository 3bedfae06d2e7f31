/* attention_prefill_columns.h -- attention of prefill by f16 products whose columns are queries, S^T = K Q^T and O^T = V^T P^T, for MFMA
 * and WMMA.  A lane has the scores of a single query of a tile, and a tile of weights becomes operand B without moving.
 *
 * A tile of scores has 16 positions; row i is position i.  As operand B its k have another order, so V^T lies in LDS in this order, too:
 * slot k of a row is position mma_k_of_acc(k).  Row i of a tile of O^T is dimension mma_row_together(i), so that a lane has neighbouring
 * dimensions. */
#ifndef FORGE_ATTENTION_PREFILL_COLUMNS_H
#define FORGE_ATTENTION_PREFILL_COLUMNS_H
#include "attention_prefill.h"
#if !FAMILY_MMA_SUMS_ARE_A(FAMILY)

/* Wide operands (mma.h) per row, and the products per operand; the last operand has fewer if 16 dimensions remain. */
DEVICE uint32_t prefill_parts(const struct prefill *p) { return (p->head_dim + MMA_WIDE_COLS - 1) / MMA_WIDE_COLS; }
DEVICE uint32_t prefill_products(const struct prefill *p, const uint32_t part)
{
    return p->head_dim < MMA_WIDE_COLS * (part + 1) ? 1 : MMA_WIDE;
}
DEVICE void prefill_load_a(struct mma_wide_a *f, const struct prefill *p, const uint8_t *rows, const uint32_t part)
{
    if (prefill_products(p, part) == MMA_WIDE) mma_load_wide_a(f, rows + 2 * MMA_WIDE_COLS * part, p->stride);
    else mma_load_a(&f->k[0], rows + 2 * MMA_WIDE_COLS * part, p->stride);
}
DEVICE void prefill_load_b(struct mma_wide_b *f, const struct prefill *p, const uint8_t *rows, const uint32_t part)
{
    if (prefill_products(p, part) == MMA_WIDE) mma_load_wide_b(f, rows + 2 * MMA_WIDE_COLS * part, p->stride);
    else mma_load_b(&f->k[0], rows + 2 * MMA_WIDE_COLS * part, p->stride);
}

/* Byte offset of a dimension's row in V^T.  A gap follows every 8 rows, so that lanes that write neighbouring eights use different LDS
 * banks. */
DEVICE uint32_t prefill_v_row(const struct prefill *p, uint32_t dimension)
{
    return dimension * p->v_stride + dimension / 8 * ATTENTION_PREFILL_V_GAP;
}

/* ---- K and V to LDS ---- */
/* Rows after the last position repeat the last one: such rows of K are masked, and such rows of V have weight 0. */
DEVICE void prefill_fetch_row(struct kv_piece *piece, const struct prefill *p, const uint8_t *plane, uint32_t first, uint32_t row,
                              uint32_t column)
{
    const uint32_t left = p->end - 1 - first, r = row < left ? row : left;
    if (KV_KIND != KV_KIND_f16 || p->ring) {
        kv_fetch(piece, plane, p->kv_head, kv_row(first + r, p->ring), column, p->n_head_kv, p->n_ctx, p->head_dim);
        return;
    }
    piece->values[0] = load_settled16(plane + kv_bytes(p->kv_head, first, 0, p->n_ctx, p->head_dim) + (r * p->head_dim + column) * 2);
}
DEVICE void prefill_k_begin(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++)
        if (prefill_has_piece(p, i)) prefill_fetch_row(&h->piece[i], p, plane, first, prefill_row(p, i), prefill_column(p));
}
DEVICE void prefill_k_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++)
        if (prefill_has_piece(p, i))
            *(u32x4 *)(void *)(to + prefill_row(p, i) * p->stride + 2 * prefill_column(p)) = prefill_f16(&h->piece[i]);
}
/* Transposes V: neighbouring threads take neighbouring pairs of slots. */
DEVICE uint32_t prefill_pair_slot(const struct prefill *p)                        { return thread_x() % (p->positions / 2) * 2; }
DEVICE uint32_t prefill_pair_column(const struct prefill *p, const uint32_t turn)
{
    return (thread_x() / (p->positions / 2) + turn * (p->threads / (p->positions / 2))) * 8;
}
DEVICE uint32_t prefill_pair_turns(const struct prefill *p) { return (p->positions / 2 * (p->head_dim / 8) + p->threads - 1) / p->threads; }
DEVICE uint32_t prefill_has_pair(const struct prefill *p, const uint32_t turn)
{
    return p->positions / 2 * (p->head_dim / 8) % p->threads == 0 || prefill_pair_column(p, turn) < p->head_dim;
}

DEVICE void prefill_v_begin(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t slot = prefill_pair_slot(p), column = prefill_pair_column(p, i);
        if (!prefill_has_pair(p, i)) continue;
        prefill_fetch_row(&h->piece[2 * i], p, plane, first, mma_k_of_acc(slot), column);
        prefill_fetch_row(&h->piece[2 * i + 1], p, plane, first, mma_k_of_acc(slot + 1), column);
    }
}
DEVICE void prefill_v_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t column = prefill_pair_column(p, i);
        if (!prefill_has_pair(p, i)) continue;
        const u32x4 x = prefill_f16(&h->piece[2 * i]), y = prefill_f16(&h->piece[2 * i + 1]);
        UNROLL for (uint32_t k = 0; k < 4; k++) {
            uint8_t *place = to + prefill_v_row(p, column) + 2 * k * p->v_stride + 2 * prefill_pair_slot(p);
            *(uint32_t *)(void *)place = byte_perm(x[k], y[k], 0x05040100u);
            *(uint32_t *)(void *)(place + p->v_stride) = byte_perm(x[k], y[k], 0x07060302u);
        }
    }
}

/* ---- the queries of a wave: tile t has rows 16 t .. 16 t + 15 of the wave; a lane has row l % 16 of each tile ---- */
struct prefill_columns {
    struct mma_acc o[PREFILL_TILES][PREFILL_DIMS];              /* sum of weight * v: element e of tile d is dimension
                                                                 * 16 d + MMA_ACC (l / 16) + e */
    struct mma_acc s[PREFILL_TILES][PREFILL_SPANS];             /* scores of one step, less the maximum: position 16 j + mma_row(e) */
    struct mma_acc less[PREFILL_TILES];                         /* every element is - maximum, the initial value of scores */
    struct mma_b   weights[PREFILL_TILES][PREFILL_SPANS];       /* 2^s */
    struct mma_wide_b q[PREFILL_TILES][PREFILL_DIMS];           /* if Q is in registers */
    float          sum[PREFILL_TILES];                          /* of this lane's weights */
    const uint8_t *q_lds;                                       /* if Q is in LDS: first row of the wave */
};

/* Loads operands of Q from global memory: a lane loads its columns of every MMA_WIDE_COLS.  Where two lanes hold the same operand, each
 * loads half of them and gets the others from the other lane. */
DEVICE void prefill_q_load(struct prefill_columns *w, const struct prefill *p, const uint8_t *q, const uint64_t q_stride, const uint32_t t,
                           uint32_t m)
{
    const uint32_t g = lane_id() / 16, mine = prefill_has(p, m) ? m : 0;    /* a missing row repeats row 0, which exists */
    const uint8_t *row = q + prefill_token(p, mine) * q_stride + prefill_head(p, mine) * p->head_dim * 4;
    UNROLL for (uint32_t part = 0; part < prefill_parts(p); part++) {
        const uint32_t run = 2 * MMA_WORDS / FAMILY_MMA_COPIES(FAMILY) * prefill_products(p, part);
        uint32_t h[4];
        UNROLL for (uint32_t n = 0; n < run / 4; n++) {
            const f32x4 x = *(const GLOBAL f32x4 *)(const void *)(row + (MMA_WIDE_COLS * part + run * g + 4 * n) * 4) * p->scale;
            h[2 * n] = f16x2_bits(clamp_f32(x.x, 65504.0f), clamp_f32(x.y, 65504.0f));
            h[2 * n + 1] = f16x2_bits(clamp_f32(x.z, 65504.0f), clamp_f32(x.w, 65504.0f));
        }
#if FAMILY_MMA_COPIES(FAMILY) == 2
        mma_b_of_halves(&w->q[t][part].k[0], h);
#else
        UNROLL for (uint32_t n = 0; n < run / 2; n++) w->q[t][part].k[n / MMA_WORDS].x[n % MMA_WORDS] = h[n];
#endif
    }
}
DEVICE void prefill_columns_begin(struct prefill_columns *w, const struct prefill *p, uint8_t *lds_q, const uint8_t *q,
                                  const uint64_t q_stride)
{
    const uint32_t m = wave_id() * 16 * p->tiles;
    w->q_lds = lds_q + m * p->stride;
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        if (p->q_registers) prefill_q_load(w, p, q, q_stride, t, m + 16 * t + mma_col(0));
        else prefill_q_rows(lds_q + (m + 16 * t) * p->stride, p, q, q_stride, m + 16 * t);
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_zero(&w->o[t][d]);
        mma_zero(&w->less[t]);
        mma_pin(&w->less[t]);
        w->sum[t] = 0.0f;
    }
}

/* Operands are loaded this many parts before their use.  Sums are pinned; otherwise the compiler would load all operands first, which needs
 * more registers than there are. */
enum { PREFILL_PARTS_AHEAD = 2, PREFILL_PARTS_HELD = PREFILL_PARTS_AHEAD + 1 };

/* s = K Q^T - maximum */
DEVICE void prefill_column_scores(struct prefill_columns *w, const struct prefill *p, const uint8_t *k)
{
    struct mma_wide_a a[PREFILL_PARTS_HELD];
    struct mma_wide_b b[PREFILL_PARTS_HELD][PREFILL_TILES];
    const uint32_t spans = p->positions / 16, n_loads = spans * prefill_parts(p);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++) w->s[t][j] = w->less[t];
    UNROLL for (uint32_t n = 0; n < n_loads + PREFILL_PARTS_AHEAD; n++) {
        if (n < n_loads) {
            const uint32_t d = n / spans, j = n % spans;
            UNROLL for (uint32_t t = 0; t < p->tiles && j == 0 && !p->q_registers; t++)
                prefill_load_b(&b[d % PREFILL_PARTS_HELD][t], p, w->q_lds + 16 * t * p->stride, d);
            prefill_load_a(&a[n % PREFILL_PARTS_HELD], p, k + 16 * j * p->stride, d);
        }
        if (n < PREFILL_PARTS_AHEAD) continue;
        const uint32_t m = n - PREFILL_PARTS_AHEAD, d = m / spans;
        UNROLL for (uint32_t i = 0; i < prefill_products(p, d); i++)
            UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
                mma_f16(&w->s[t][m % spans], &a[m % PREFILL_PARTS_HELD].k[i],
                        p->q_registers ? &w->q[t][d].k[i] : &b[d % PREFILL_PARTS_HELD][t].k[i]);
                mma_pin(&w->s[t][m % spans]);
            }
    }
#ifdef ATTENTION_MORE
    UNROLL for (uint32_t t = 0; t < p->tiles && p->cap != 0.0f; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const float less = w->less[t].x[e];
                w->s[t][j].x[e] = softcap_f32(w->s[t][j].x[e] - less, p->cap) + less;
            }
#endif
}

/* Masks scores of positions that a query does not attend.  first: the step's first position.
 * The pin keeps values that only this function needs out of the registers of the loop. */
DEVICE void prefill_column_mask(struct prefill_columns *w, const struct prefill *p, uint32_t first)
{
    uint32_t m = wave_id() * 16 * p->tiles + mma_col(0);
    PIN(m);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        const int32_t last = (int32_t)(prefill_last(p, m + 16 * t) - first - mma_row(0));
        const int32_t begin = (int32_t)(prefill_first(p, m + 16 * t) - first - mma_row(0));
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const int32_t at = (int32_t)(16 * j + (mma_row(e) - mma_row(0)));
                if (at > last || (p->window && at < begin)) w->s[t][j].x[e] = PREFILL_MASKED;
            }
    }
}

/* Updates the maximum and rescales the sums.  A query's first step initialises the maximum from this step alone. */
DEVICE void prefill_column_move(struct prefill_columns *w, const struct prefill *p, const uint32_t t, uint32_t first)
{
    float more = prefill_has_begun(p, (wave_id() * p->tiles + t) * 16 + mma_col(0), first) ? 0.0f : PREFILL_MASKED;
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) more = max_f32(more, w->s[t][j].x[e]);
    more = mma_cols_max(more);
    if (p->window && more <= 0.5f * PREFILL_MASKED) more = 0.0f;
    const float factor = exp2_f32(min_f32(-more, 0.0f));
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->s[t][j].x[e] -= more;
    UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->less[t].x[e] -= more;
    mma_pin(&w->less[t]);
    w->sum[t] *= factor;
    UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->o[t][d].x[e] *= factor;
}
/* Turns scores into weights 2^s, as operands.  Scores are compared as integers, which have the order of floats where these are positive. */
DEVICE void prefill_column_weights(struct prefill_columns *w, const struct prefill *p, uint32_t first)
{
    const uint32_t spans = p->positions / 16;
    const int32_t limit = prefill_begins(p, first) ? (-0x7fffffff - 1) : (int32_t)bits_of_f32(PREFILL_BEHIND);
    int32_t top = (-0x7fffffff - 1);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const int32_t s = (int32_t)bits_of_f32(w->s[t][j].x[e]);
                top = s > top ? s : top;
            }
    if (wave_any(top > limit))
        UNROLL for (uint32_t t = 0; t < p->tiles; t++) prefill_column_move(w, p, t, first);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++) {
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->s[t][j].x[e] = exp2_f32(w->s[t][j].x[e]);
            w->sum[t] = mma_b_of_acc(&w->weights[t][j], &w->s[t][j], w->sum[t]);
        }
}

/* o += V^T weights.  The first operands are loaded before the weights are computed. */
struct prefill_values { struct mma_wide_a a[PREFILL_PARTS_HELD]; };
DEVICE void prefill_v_load(struct prefill_values *x, const struct prefill *p, const uint8_t *v, const uint32_t n)
{
    const uint32_t dims = p->head_dim / 16, row = lane_id() % 16;        /* mma.h reads row l % 16 of rows v_stride apart */
    const uint8_t *rows = v + prefill_v_row(p, mma_row_together(row)) - row * p->v_stride;
    if (n < p->positions / MMA_WIDE_COLS * dims)
        mma_load_wide_a(&x->a[n % PREFILL_PARTS_HELD], rows + prefill_v_row(p, 16 * (n % dims)) + 2 * MMA_WIDE_COLS * (n / dims),
                        p->v_stride);
}
DEVICE void prefill_column_values_begin(struct prefill_values *x, const struct prefill *p, const uint8_t *v)
{
    UNROLL for (uint32_t n = 0; n < PREFILL_PARTS_AHEAD; n++) prefill_v_load(x, p, v, n);
    COMPILER_FENCE();
}
DEVICE void prefill_column_values(struct prefill_columns *w, struct prefill_values *x, const struct prefill *p, const uint8_t *v)
{
    const uint32_t dims = p->head_dim / 16;
    UNROLL for (uint32_t n = 0; n < p->positions / MMA_WIDE_COLS * dims; n++) {
        prefill_v_load(x, p, v, n + PREFILL_PARTS_AHEAD);
        UNROLL for (uint32_t i = 0; i < MMA_WIDE; i++)
            UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
                mma_f16(&w->o[t][n % dims], &x->a[n % PREFILL_PARTS_HELD].k[i], &w->weights[t][MMA_WIDE * (n / dims) + i]);
                mma_pin(&w->o[t][n % dims]);
            }
    }
}

DEVICE void prefill_columns_end(const struct prefill_columns *w, const struct prefill *p, const struct prefill_out *out)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
#ifdef ATTENTION_MORE
        const uint32_t row = (wave_id() * p->tiles + t) * 16 + mma_col(0);
        const float inverse = rcp_f32(mma_cols_sum(w->sum[t]) + prefill_sink(p, row, -w->less[t].x[0]));
#else
        const float inverse = rcp_f32(mma_cols_sum(w->sum[t]));
#endif
        const uint32_t m = (wave_id() * p->tiles + t) * 16 + mma_col(0);
        if (!prefill_has(p, m)) continue;
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e += 4) {
                const float *o = w->o[t][d].x + e;
                const f32x4 x = { o[0], o[1], o[2], o[3] };
                prefill_put4(out, prefill_token(p, m), prefill_head(p, m) * p->head_dim + 16 * d + MMA_ACC * (lane_id() / 16) + e,
                             x * inverse);
            }
    }
}

/* K and V are loaded one step ahead. */
DEVICE void prefill_matrix(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                           const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    uint8_t *lds_q = lds(), *lds_k = lds_q + ATTENTION_PREFILL_Q_BYTES(KV_KIND, 1u, p->head_dim, FAMILY, p->threads);
    uint8_t *lds_v = lds_k + p->positions * p->stride;
    struct prefill_pieces pieces_k, pieces_v;
    struct prefill_columns w;
    struct prefill_values values;
    prefill_k_begin(&pieces_k, p, k, p->begin);
    prefill_v_begin(&pieces_v, p, v, p->begin);
    prefill_columns_begin(&w, p, lds_q, q, q_stride);
    prefill_k_end(&pieces_k, lds_k, p);
    if (p->begin + p->positions < p->end) prefill_k_begin(&pieces_k, p, k, p->begin + p->positions);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += p->positions) {
        const uint32_t next = first + p->positions;
        barrier();                               /* K is complete; no wave uses the previous V any more */
        prefill_column_scores(&w, p, lds_k);
        prefill_v_end(&pieces_v, lds_v, p);
        if (next < p->end) prefill_v_begin(&pieces_v, p, v, next);
        barrier();                               /* V is complete; no wave uses K any more */
        if (next < p->end) prefill_k_end(&pieces_k, lds_k, p);
        if (next + p->positions < p->end) prefill_k_begin(&pieces_k, p, k, next + p->positions);
        prefill_column_values_begin(&values, p, lds_v);
        if (next > prefill_all_before(p) || prefill_leaves(p, first)) prefill_column_mask(&w, p, first);
        prefill_column_weights(&w, p, first);
        prefill_column_values(&w, &values, p, lds_v);
    }
    prefill_columns_end(&w, p, out);
}
#endif
#endif
