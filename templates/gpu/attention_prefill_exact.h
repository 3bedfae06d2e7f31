/* attention_prefill_exact.h -- attention of prefill by f32 products, for exact results; threads / 16 neighbouring lanes share two rows. */
#ifndef FORGE_ATTENTION_PREFILL_EXACT_H
#define FORGE_ATTENTION_PREFILL_EXACT_H
#include "attention_prefill.h"

enum { PREFILL_EXACT_SPANS = 4, PREFILL_EXACT_QUADS = 8 };      /* per lane: positions of a step; runs of 4 dimensions */

/* Two neighbouring rows.  Lane l of prefill_lanes() has the scores of positions l, l + lanes, .. of a step and the dimensions
 * 4 (l + lanes j) .. + 3. */
struct prefill_rows {
    f32x4    o[2][PREFILL_EXACT_QUADS];
    float    s[2][PREFILL_EXACT_SPANS];
    float    max[2], sum[2];                     /* sum: of this lane's weights */
    uint32_t row, lane;
};
DEVICE uint32_t prefill_lanes(const struct prefill *p) { return p->threads / (ATTENTION_PREFILL_EXACT_ROWS / 2); }

DEVICE void prefill_f32_fetch(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        h->piece[i].values[1] = (u32x4)(0u);
        if (prefill_has_piece(p, i)) prefill_fetch(&h->piece[i], p, plane, first + prefill_row(p, i), prefill_column(p));
    }
}
DEVICE void prefill_f32_put(float *to, const struct prefill_pieces *h, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        float x[8];
        if (!prefill_has_piece(p, i)) continue;
        kv_values(x, &h->piece[i]);
        const f32x4 low = { x[0], x[1], x[2], x[3] }, high = { x[4], x[5], x[6], x[7] };
        f32x4 *place = (f32x4 *)(void *)(to + prefill_row(p, i) * p->stride + prefill_column(p));
        place[0] = low;
        place[1] = high;
    }
}
DEVICE void prefill_f32_q(float *to, const struct prefill *p, const uint8_t *q, const uint64_t q_stride)
{
    const uint32_t per_row = p->head_dim / 4;
    for (uint32_t n = thread_x(); n < ATTENTION_PREFILL_EXACT_ROWS * per_row; n += p->threads) {
        const uint32_t m = n / per_row, column = n % per_row * 4;
        f32x4 x = { 0, 0, 0, 0 };
        if (prefill_has(p, m))
            x = *(const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, m) * q_stride + (prefill_head(p, m) * p->head_dim + column) * 4);
        *(f32x4 *)(void *)(to + m * p->stride + column) = x * p->scale;
    }
}

DEVICE void prefill_f32_scores(struct prefill_rows *r, const struct prefill *p, const float *q, const float *k, uint32_t first)
{
    const uint32_t spans = p->positions / prefill_lanes(p);
    UNROLL for (uint32_t i = 0; i < spans; i++) r->s[0][i] = r->s[1][i] = 0.0f;
#pragma unroll 4
    for (uint32_t d = 0; d < p->head_dim; d += 4) {
        const f32x4 q0 = *(const f32x4 *)(const void *)(q + r->row * p->stride + d),
                    q1 = *(const f32x4 *)(const void *)(q + (r->row + 1) * p->stride + d);
        UNROLL for (uint32_t i = 0; i < spans; i++) {
            const f32x4 x = *(const f32x4 *)(const void *)(k + (r->lane + i * prefill_lanes(p)) * p->stride + d), y0 = q0 * x, y1 = q1 * x;
            r->s[0][i] += (y0.x + y0.y) + (y0.z + y0.w);
            r->s[1][i] += (y1.x + y1.y) + (y1.z + y1.w);
        }
    }
#ifdef ATTENTION_MORE
    UNROLL for (uint32_t m = 0; m < 2 && p->cap != 0.0f; m++)
        UNROLL for (uint32_t i = 0; i < spans; i++) r->s[m][i] = softcap_f32(r->s[m][i], p->cap);
#endif
    UNROLL for (uint32_t m = 0; m < 2; m++)
        UNROLL for (uint32_t i = 0; i < spans; i++)
            if (first + r->lane + i * prefill_lanes(p) > prefill_last(p, r->row + m)
                || (p->window && first + r->lane + i * prefill_lanes(p) < prefill_first(p, r->row + m))) r->s[m][i] = PREFILL_MASKED;
}
/* Also stores the weights in LDS, [rows][v_stride], for the lanes of the row. */
DEVICE void prefill_f32_softmax(struct prefill_rows *r, const struct prefill *p, float *weights)
{
    const uint32_t spans = p->positions / prefill_lanes(p);
    UNROLL for (uint32_t m = 0; m < 2; m++) {
        float top = r->max[m];
        UNROLL for (uint32_t i = 0; i < spans; i++) top = max_f32(top, r->s[m][i]);
        top = lanes_max_f32(top, prefill_lanes(p));
        const float factor = exp2_f32(r->max[m] - top);
        r->max[m] = top;
        r->sum[m] *= factor;
        UNROLL for (uint32_t i = 0; i < spans; i++) {
            const float e = exp2_f32(r->s[m][i] - top);
            r->sum[m] += e;
            weights[(r->row + m) * p->v_stride + r->lane + i * prefill_lanes(p)] = e;
        }
        UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) r->o[m][j] *= factor;
    }
    wave_barrier();
}
DEVICE void prefill_f32_values(struct prefill_rows *r, const struct prefill *p, const float *weights, const float *v)
{
#pragma unroll 1
    for (uint32_t n = 0; n < p->positions; n += 4) {
        const f32x4 w0 = *(const f32x4 *)(const void *)(weights + r->row * p->v_stride + n);
        const f32x4 w1 = *(const f32x4 *)(const void *)(weights + (r->row + 1) * p->v_stride + n);
        UNROLL for (uint32_t i = 0; i < 4; i++)
            UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) {
                const uint32_t d = 4 * (r->lane + j * prefill_lanes(p));
                if (d >= p->head_dim) continue;
                const f32x4 x = *(const f32x4 *)(const void *)(v + (n + i) * p->stride + d);
                r->o[0][j] += w0[i] * x;
                r->o[1][j] += w1[i] * x;
            }
    }
    wave_barrier();
}
DEVICE void prefill_f32_end(const struct prefill_rows *r, const struct prefill *p, const struct prefill_out *out)
{
    UNROLL for (uint32_t m = 0; m < 2; m++) {
#ifdef ATTENTION_MORE
        const float inverse = rcp_f32(lanes_sum_f32(r->sum[m], prefill_lanes(p)) + prefill_sink(p, r->row + m, r->max[m]));
#else
        const float inverse = rcp_f32(lanes_sum_f32(r->sum[m], prefill_lanes(p)));
#endif
        UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) {
            const uint32_t d = 4 * (r->lane + j * prefill_lanes(p)), column = prefill_head(p, r->row + m) * p->head_dim + d;
            if (d >= p->head_dim || !prefill_has(p, r->row + m)) continue;
            const f32x4 x = r->o[m][j] * inverse;
            prefill_put2(out, prefill_token(p, r->row + m), column, x.x, x.y);
            prefill_put2(out, prefill_token(p, r->row + m), column + 2, x.z, x.w);
        }
    }
}

/* K and V alternate in the same LDS memory. */
DEVICE void prefill_f32(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                        const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    float *q_lds = (float *)(void *)lds(), *kv_lds = q_lds + ATTENTION_PREFILL_EXACT_ROWS * p->stride,
          *weights = kv_lds + p->positions * p->stride;
    struct prefill_pieces pieces;
    struct prefill_rows r;
    r.lane = thread_x() % prefill_lanes(p);
    r.row = thread_x() / prefill_lanes(p) * 2;
    UNROLL for (uint32_t m = 0; m < 2; m++) {
        r.max[m] = PREFILL_MASKED;
        r.sum[m] = 0.0f;
        UNROLL for (uint32_t j = 0; j < PREFILL_EXACT_QUADS; j++) r.o[m][j] = (f32x4)(0.0f);
    }
    prefill_f32_q(q_lds, p, q, q_stride);
    prefill_f32_fetch(&pieces, p, k, p->begin);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += p->positions) {
        prefill_f32_put(kv_lds, &pieces, p);
        barrier();
        prefill_f32_fetch(&pieces, p, v, first);
        prefill_f32_scores(&r, p, q_lds, kv_lds, first);
        barrier();
        prefill_f32_put(kv_lds, &pieces, p);
        prefill_f32_fetch(&pieces, p, k, first + p->positions);
        prefill_f32_softmax(&r, p, weights);
        barrier();
        prefill_f32_values(&r, p, weights, kv_lds);
        barrier();
    }
    prefill_f32_end(&r, p, out);
}
#endif
