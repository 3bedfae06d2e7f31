/* attention_prefill_tmpl.c -- attention of the tokens of a prefill step over the KV cache, with a streaming softmax.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691)
 *
 *   attention_prefill(a, out, ..)   causal: token t, at position n_past + t, attends positions 0 .. n_past + t
 *   attention_prefill_all(..)       every token attends all positions of the cache and of the step
 *
 * The step's own K and V are in the cache already; nothing beyond position n_past + n_tokens - 1 is read.
 * A group takes one KV head and some tokens, one after another from group_y() on; its rows are (token, query head) with heads varying fastest, so that
 * K and V are read once for all heads that share them.  The latest tokens, which attend most, come first.
 * Two ways to compute, by ATTENTION_PREFILL_EXACT(KV_KIND, digits): f16 products on the matrix unit, where each wave has 16 or 32 rows to itself;
 * or f32 products, where threads / 16 neighbouring lanes have two rows.  LDS, grid and tokens of a group: attention_prefill_sizes.h. */
#include "attention_prefill.h"
#include "attention_prefill_exact.h"

#ifndef FORGE_ATTENTION_PREFILL
#define FORGE_ATTENTION_PREFILL

/* ---- K and V to LDS as f16 ---- */
DEVICE u32x4 prefill_f16(const struct kv_piece *piece)
{
    float x[8];
    if (KV_KIND == KV_KIND_f16) return piece->values[0];
    kv_values(x, piece);
    const u32x4 h = { f16x2_bits(x[0], x[1]), f16x2_bits(x[2], x[3]), f16x2_bits(x[4], x[5]), f16x2_bits(x[6], x[7]) };
    return h;
}

/* The rows of positions first .. into LDS at `to`: begun, and ended when those bytes are free (where copies reach LDS by themselves, free from the beginning). */
DEVICE void prefill_rows_begin(struct prefill_pieces *h, uint8_t *to, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        const uint32_t row = prefill_row(p, i), column = prefill_column(p);
        if (!prefill_has_piece(p, i)) continue;
        if (KV_KIND != KV_KIND_f16 || !COPIES_REACH_LDS) prefill_fetch(&h->piece[i], p, plane, first + row, column);
        else copy_begin(&h->copy[i], to + row * p->stride + 2 * column, plane + kv_bytes(p->kv_head, first + row, column, p->n_ctx, p->head_dim), first + row < p->end);
    }
    copy_commit();
}
DEVICE void prefill_rows_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        uint8_t *place = to + prefill_row(p, i) * p->stride + 2 * prefill_column(p);
        if (!prefill_has_piece(p, i)) continue;
        if (KV_KIND != KV_KIND_f16 || !COPIES_REACH_LDS) *(u32x4 *)(void *)place = prefill_f16(&h->piece[i]);
        else copy_end(&h->copy[i], place);
    }
}
/* With dimensions as rows of LDS, neighbouring threads take neighbouring pairs of rows: their writes fall into different banks. */
DEVICE uint32_t prefill_pair_row(const struct prefill *p)                         { return thread_x() % (p->positions / 2) * 2; }
DEVICE uint32_t prefill_pair_column(const struct prefill *p, const uint32_t turn) { return (thread_x() / (p->positions / 2) + turn * (p->threads / (p->positions / 2))) * 8; }
DEVICE uint32_t prefill_pair_turns(const struct prefill *p) { return (p->positions / 2 * (p->head_dim / 8) + p->threads - 1) / p->threads; }

/* The same with dimensions as rows of LDS, for V where an operand is not transposed while it is read. */
DEVICE void prefill_columns_begin(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t row = prefill_pair_row(p), column = prefill_pair_column(p, i);
        if (column >= p->head_dim) continue;
        prefill_fetch(&h->piece[2 * i], p, plane, first + row, column);
        prefill_fetch(&h->piece[2 * i + 1], p, plane, first + row + 1, column);
    }
}
DEVICE void prefill_columns_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t column = prefill_pair_column(p, i);
        if (column >= p->head_dim) continue;
        const u32x4 x = prefill_f16(&h->piece[2 * i]), y = prefill_f16(&h->piece[2 * i + 1]);
        UNROLL for (uint32_t k = 0; k < 4; k++) {
            uint8_t *place = to + (column + 2 * k) * p->v_stride + 2 * prefill_pair_row(p);
            *(uint32_t *)(void *)place = byte_perm(x[k], y[k], 0x05040100u);
            *(uint32_t *)(void *)(place + p->v_stride) = byte_perm(x[k], y[k], 0x07060302u);
        }
    }
}
DEVICE void prefill_v_begin(struct prefill_pieces *h, uint8_t *to, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    if (COPIES_REACH_LDS) prefill_rows_begin(h, to, p, plane, first);
    else prefill_columns_begin(h, p, plane, first);
}
DEVICE void prefill_v_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    if (COPIES_REACH_LDS) prefill_rows_end(h, to, p);
    else prefill_columns_end(h, to, p);
}

/* ---- the rows of a wave ---- */
struct prefill_wave {
    struct mma_acc o[PREFILL_TILES][PREFILL_DIMS];              /* sum of weight * v */
    struct mma_acc s[PREFILL_TILES][PREFILL_SPANS];             /* scores of one step */
    struct mma_a   weights[PREFILL_TILES][PREFILL_SPANS];       /* of the same */
    struct mma_a   q[PREFILL_TILES][PREFILL_DIMS];              /* when Q is in registers */
    float          max[PREFILL_TILES][MMA_ROWS];                /* of the scores so far, the same in all lanes of a row */
    float          sum[PREFILL_TILES][MMA_ROWS];                /* of this lane's weights */
    const uint8_t *q_lds;                                       /* when Q is in LDS: first row of the wave */
};

/* 16 rows of Q, from m on, times scale, as f16 rows of LDS, by one wave. */
DEVICE void prefill_q_rows(uint8_t *to, const struct prefill *p, const uint8_t *q, const uint64_t q_stride, uint32_t m)
{
    const uint32_t per_row = p->head_dim / 8;
    for (uint32_t i = lane_id(); i < 16 * per_row; i += WAVE) {
        const uint32_t row = i / per_row, column = i % per_row * 8;
        u32x4 h = { 0, 0, 0, 0 };
        if (prefill_has(p, m + row)) {
            const GLOBAL f32x4 *from = (const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, m + row) * q_stride + (prefill_head(p, m + row) * p->head_dim + column) * 4);
            const f32x4 x = from[0] * p->scale, y = from[1] * p->scale;
            h.x = f16x2_bits(clamp_f32(x.x, 65504.0f), clamp_f32(x.y, 65504.0f));
            h.y = f16x2_bits(clamp_f32(x.z, 65504.0f), clamp_f32(x.w, 65504.0f));
            h.z = f16x2_bits(clamp_f32(y.x, 65504.0f), clamp_f32(y.y, 65504.0f));
            h.w = f16x2_bits(clamp_f32(y.z, 65504.0f), clamp_f32(y.w, 65504.0f));
        }
        *(u32x4 *)(void *)(to + row * p->stride + 2 * column) = h;
    }
    wave_barrier();
}
/* lds_kv: the places of K and V, free until the barrier at the end. */
DEVICE void prefill_wave_begin(struct prefill_wave *w, const struct prefill *p, uint8_t *lds_q, uint8_t *lds_kv, const uint8_t *q, const uint64_t q_stride)
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
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_zero(&w->o[t][d]);
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            w->max[t][g] = PREFILL_MASKED;
            w->sum[t][g] = 0.0f;
        }
    }
    if (p->q_registers) barrier();
}

/* Operands are loaded PREFILL_AHEAD products before their use; sums are pinned, lest the compiler load all of them first, which takes more registers than there are. */
enum { PREFILL_AHEAD = COPIES_REACH_LDS ? 1 : 2 };

/* s = Q K^T */
DEVICE void prefill_scores(struct prefill_wave *w, const struct prefill *p, const uint8_t *k)
{
    struct mma_a a[PREFILL_AHEAD + 1][PREFILL_TILES];
    struct mma_b b[PREFILL_AHEAD + 1];
    const uint32_t spans = p->positions / 16, n_loads = spans * (p->head_dim / 16);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++) mma_zero(&w->s[t][j]);
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
}

/* Scores of positions that a row does not attend.  first: of the step's positions.  The pin keeps what only this needs out of the registers of the loop. */
DEVICE void prefill_mask(struct prefill_wave *w, const struct prefill *p, uint32_t first)
{
    uint32_t m = wave_id() * 16 * p->tiles;
    PIN(m);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            const int32_t last = (int32_t)(prefill_last(p, m + 16 * t + mma_row(mma_of_row(g, 0))) - first - mma_col(0));
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                    const uint32_t e = mma_of_row(g, n);
                    if ((int32_t)(16 * j + (mma_col(e) - mma_col(0))) > last) w->s[t][j].x[e] = PREFILL_MASKED;
                }
        }
}

/* Weights 2^(s - max), at once as operands, which take less room; sums so far move to the new maximum. */
DEVICE void prefill_softmax(struct prefill_wave *w, const struct prefill *p, uint8_t *scratch)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            float top = w->max[t][g];
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) top = max_f32(top, w->s[t][j].x[mma_of_row(g, n)]);
            top = mma_rows_max(top);
            const float factor = exp2_f32(w->max[t][g] - top);
            float sum = w->sum[t][g] * factor;
            w->max[t][g] = top;
            UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) {
                    const uint32_t e = mma_of_row(g, n);
                    w->s[t][j].x[e] = exp2_f32(w->s[t][j].x[e] - top);
                    sum += w->s[t][j].x[e];
                }
            w->sum[t][g] = sum;
            UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) w->o[t][d].x[mma_of_row(g, n)] *= factor;
        }
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++) mma_a_of_acc(&w->weights[t][j], &w->s[t][j], scratch);
    }
}

/* o += weights V */
DEVICE void prefill_values(struct prefill_wave *w, const struct prefill *p, const uint8_t *v)
{
    struct mma_b b[PREFILL_AHEAD + 1];
    const uint32_t dims = p->head_dim / 16, n_loads = p->positions / 16 * dims;
    UNROLL for (uint32_t n = 0; n < n_loads + PREFILL_AHEAD; n++) {
        if (n < n_loads) {
            const uint32_t j = n / dims, d = n % dims;
            if (COPIES_REACH_LDS) mma_load_b_trans(&b[n % (PREFILL_AHEAD + 1)], v + 16 * j * p->stride + 32 * d, p->stride);
            else mma_load_b(&b[n % (PREFILL_AHEAD + 1)], v + 16 * d * p->v_stride + 32 * j, p->v_stride);
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
            const float inverse = rcp_f32(mma_rows_sum(w->sum[t][g]));
            const uint32_t m = (wave_id() * p->tiles + t) * 16 + mma_row(mma_of_row(g, 0));
            if (!prefill_has(p, m)) continue;
            UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n += 2) {
                    const uint32_t e = mma_of_row(g, n), column = prefill_head(p, m) * p->head_dim + 16 * d + mma_col(e);
                    if (MMA_ACC > MMA_ROWS) prefill_put2(out, prefill_token(p, m), column, w->o[t][d].x[e] * inverse, w->o[t][d].x[(e + 1) % MMA_ACC] * inverse);
                    else prefill_put(out, prefill_token(p, m), column, w->o[t][d].x[e] * inverse);
                }
        }
}

/* V of a step is on its way while its scores are computed, K of the next one while V is used. */
DEVICE void prefill_matrix(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q, const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    uint8_t *lds_q = lds(), *lds_k = lds_q + ATTENTION_PREFILL_Q_BYTES(KV_KIND, 1u, p->head_dim, WAVE, p->threads, COPIES_REACH_LDS);
    uint8_t *lds_v = lds_k + p->positions * p->stride;
    uint8_t *scratch = lds_k + ATTENTION_PREFILL_KV_BYTES(KV_KIND, 1u, p->head_dim, WAVE, p->threads, COPIES_REACH_LDS)
                     + wave_id() * ATTENTION_PREFILL_SCRATCH_BYTES(COPIES_REACH_LDS);
    struct prefill_pieces pieces_k, pieces_v;
    struct prefill_wave w;
    prefill_wave_begin(&w, p, lds_q, lds_k, q, q_stride);
    prefill_rows_begin(&pieces_k, lds_k, p, k, 0);
    prefill_rows_end(&pieces_k, lds_k, p);
#pragma unroll 1
    for (uint32_t first = 0; first < p->end; first += p->positions) {
        copy_wait(0);
        barrier();                               /* K is there; all waves are done with the V before */
        prefill_v_begin(&pieces_v, lds_v, p, v, first);
        prefill_scores(&w, p, lds_k);
        prefill_v_end(&pieces_v, lds_v, p);
        copy_wait(0);
        barrier();                               /* V is there; all waves are done with K */
        const uint32_t next = first + p->positions;
        if (next < p->end) prefill_rows_begin(&pieces_k, lds_k, p, k, next);
        if (next > (p->causal ? p->n_past + p->first_token + 1 : p->end)) prefill_mask(&w, p, first);
        prefill_softmax(&w, p, scratch);
        prefill_values(&w, p, lds_v);
        if (next < p->end) prefill_rows_end(&pieces_k, lds_k, p);
    }
    prefill_wave_end(&w, p, out);
}

/* ---- the kernel's body ---- */
/* causal: a constant, 1 or 0; the rest as below. */
DEVICE void attention_prefill_of(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                                 const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim,
                                 const uint32_t n_ctx, const float scale, const uint32_t digits, const uint32_t threads, const uint32_t causal)
{
    const struct prefill_out to = { out, out_stride, kind };
    struct prefill p;
    p.n_head = n_head, p.n_head_kv = n_head_kv, p.head_dim = head_dim, p.n_ctx = n_ctx, p.threads = threads, p.causal = causal;
    p.exact = ATTENTION_PREFILL_EXACT(KV_KIND, digits);
    p.tiles = ATTENTION_PREFILL_TILES(head_dim, WAVE, COPIES_REACH_LDS);
    p.positions = ATTENTION_PREFILL_POSITIONS(KV_KIND, digits, head_dim, WAVE, COPIES_REACH_LDS);
    p.heads = ATTENTION_PREFILL_HEADS(n_head, n_head_kv);
    p.tokens = ATTENTION_PREFILL_TOKENS(KV_KIND, digits, n_head, n_head_kv, head_dim, WAVE, threads, COPIES_REACH_LDS);
    p.q_registers = ATTENTION_PREFILL_Q_IN_REGISTERS(KV_KIND, digits, head_dim, WAVE, COPIES_REACH_LDS);
    p.stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(head_dim) : ATTENTION_PREFILL_STRIDE(head_dim);
    p.v_stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(p.positions) : ATTENTION_PREFILL_STRIDE(p.positions);
    p.scale = scale * PREFILL_LOG2E;
    if (!prefill_begin(&p, a)) return;
    if (p.exact) prefill_f32(&p, a, &to, q, q_stride);
    else prefill_matrix(&p, a, &to, q, q_stride);
    prefill_pad(&p, &to);
}

/* out: rows of [n_head][head_dim], row t of the step at out + t out_stride: f32 (kind 0), or f16 or bf16 for a product (kind 1, 2), zeros up to a
 * multiple of 64 columns.  q: rows f32 [n_head][head_dim], normed and rotated, row t at q + t q_stride.
 * Strides in bytes, multiples of 16.  head_dim: a multiple of 16 up to 256 (q8_0: of 32).  scale: of q . k.  digits: 2 asks for f32 products.
 * threads: 128 or 256, all of the group; 128 where gfx11 has more than 128 dimensions.  All but pointers constants.  After pdl_wait(). */
DEVICE void attention_prefill(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                              const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim,
                              const uint32_t n_ctx, const float scale, const uint32_t digits, const uint32_t threads)
{
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, threads, 1);
}
DEVICE void attention_prefill_all(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                                  const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim,
                                  const uint32_t n_ctx, const float scale, const uint32_t digits, const uint32_t threads)
{
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, threads, 0);
}
#endif
