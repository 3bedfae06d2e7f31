/* attention_prefill.h -- shared by all variants of attention_prefill_tmpl.c: the tokens and heads of a group, where its results go, and how
 * K and V are fetched. */
#ifndef FORGE_ATTENTION_PREFILL_H
#define FORGE_ATTENTION_PREFILL_H
#include "kv.h"
#include "mma.h"
#include "attention_prefill_sizes.h"
#ifdef ATTENTION_MORE                            /* some attention has a cap on its scores, or sinks */
#include "functions.h"
#endif

/* The score of a masked position: far below any real score, yet finite, so that the difference of two of them is not NaN. */
#define PREFILL_MASKED (-1e30f)
#define PREFILL_LOG2E  1.44269504f

/* Most that a lane holds, for all head_dim: tiles of rows, tiles of 16 dimensions, tiles of 16 positions, pieces of 8 columns in flight. */
enum { PREFILL_TILES = 2, PREFILL_DIMS = 16, PREFILL_SPANS = 8, PREFILL_PIECES = 16 };

/* The work of a group. */
struct prefill {
    uint32_t n_head, n_head_kv, head_dim, n_ctx, threads;       /* constants, as are the next two lines; n_ctx: rows of the cache */
    uint32_t exact, fours, causal, window, ring, tiles, positions, heads, tokens;       /* window, ring: kv.h; a window is causal */
    uint32_t q_registers, stride, v_stride;                     /* bytes; exact: floats */
    float    scale;                                             /* of scores, in units of log 2 */
#ifdef ATTENTION_MORE
    float    cap;                                               /* of scores, in units of log 2; 0: none */
    const float *sinks;                                         /* [n_head] a score without a value; or NULL */
#endif
    uint32_t kv_head, first_head, n_heads;                      /* the group's query heads: n_heads from first_head on, n_heads <= heads */
    uint32_t first_token, n_tokens, n_past;                     /* first_token: of the group */
    uint32_t begin, end;                                        /* positions that some row of the group attends */
};

/* Destination of results.  kind 0: rows of f32.  1, 2: rows of f16 or bf16 for a product (launch.h). */
struct prefill_out { uint8_t *rows; uint64_t stride; uint32_t kind; };

/* Row m of the group: its token, its query head, and whether it exists. */
DEVICE uint32_t prefill_token(const struct prefill *p, uint32_t m) { return p->first_token + m / p->heads; }
DEVICE uint32_t prefill_head(const struct prefill *p, uint32_t m)  { return p->first_head + m % p->heads; }
DEVICE uint32_t prefill_has(const struct prefill *p, uint32_t m)
{
    return m / p->heads < p->tokens && prefill_token(p, m) < p->n_tokens && m % p->heads < p->n_heads;
}
/* The last position that row m attends. */
DEVICE uint32_t prefill_last(const struct prefill *p, uint32_t m) { return p->causal ? p->n_past + prefill_token(p, m) : p->end - 1; }
/* The first position that row m attends. */
DEVICE uint32_t prefill_first(const struct prefill *p, uint32_t m)
{
    return p->window ? kv_window_begin(p->n_past + prefill_token(p, m), p->window) : 0;
}
/* All rows attend the positions below prefill_all_before(), except those before the window.  prefill_leaves(): whether, from position
 * `first` on, some row's window excludes positions. */
DEVICE uint32_t prefill_all_before(const struct prefill *p) { return p->causal ? p->n_past + p->first_token + 1 : p->end; }
DEVICE uint32_t prefill_leaves(const struct prefill *p, uint32_t first)
{
    return p->window && first < kv_window_begin(p->end - 1, p->window);
}

/* How far the largest score may exceed the current maximum before the maximum is updated (in units of log 2; the weight of the maximum is
 * 1).  So it mostly stays, and the sums need no rescaling. */
#define PREFILL_BEHIND 8.0f

/* With a window, rows begin at different positions.  prefill_begins(): whether some row may begin in this step; prefill_has_begun():
 * whether row m began before this step. */
DEVICE uint32_t prefill_begins(const struct prefill *p, uint32_t first)
{
    return p->window ? first <= kv_window_begin(p->end - 1, p->window) : first == 0;
}
DEVICE uint32_t prefill_has_begun(const struct prefill *p, uint32_t m, uint32_t first)
{
    return p->window ? prefill_first(p, m) < first : first != 0;
}

#ifdef ATTENTION_MORE
/* The weight of row m's sink, relative to the maximum; it is added to the sum of weights. */
DEVICE float prefill_sink(const struct prefill *p, uint32_t m, float max)
{
    if (!p->sinks) return 0.0f;
    return exp2_f32(((const GLOBAL float *)p->sinks)[prefill_has(p, m) ? prefill_head(p, m) : 0] * PREFILL_LOG2E - max);
}
#endif
/* group: of the query heads, below ATTENTION_PREFILL_GROUPS.  Returns 0 if the group has no tokens. */
DEVICE uint32_t prefill_begin(struct prefill *p, const struct forge_kernel_args a, uint32_t group)
{
    const uint32_t cuts = ATTENTION_PREFILL_CUTS(p->n_head, p->n_head_kv), per_kv = p->n_head / p->n_head_kv,
                   cut = group % cuts * p->heads;
    const uint32_t t0 = first_token(a), n_tokens = a.step->n_tokens, groups = (n_tokens - t0 + p->tokens - 1) / p->tokens;
    if (group >= p->n_head_kv * cuts || group_y() >= groups) return 0;
    p->kv_head = group / cuts;
    p->first_head = p->kv_head * per_kv + cut;
    p->n_heads = per_kv - cut < p->heads ? per_kv - cut : p->heads;
    p->first_token = t0 + (groups - 1 - group_y()) * p->tokens;
    p->n_tokens = n_tokens;
    p->n_past = a.step->n_past;
    p->begin = p->window ? kv_window_begin(p->n_past + p->first_token, p->window) : 0;
    p->end = p->n_past + (p->causal && p->first_token + p->tokens < n_tokens ? p->first_token + p->tokens : n_tokens);
    return 1;
}

/* ---- results ---- */
DEVICE void prefill_put(const struct prefill_out *out, uint32_t t, uint32_t column, float x)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        ((GLOBAL float *)(void *)row)[column] = x;
        return;
    }
    ((GLOBAL uint16_t *)(void *)row)[column] = (uint16_t)(out->kind == 1 ? stage_f16(x) : stage_bf16(x));
}
/* Columns column and column + 1; column is even. */
DEVICE void prefill_put2(const struct prefill_out *out, uint32_t t, uint32_t column, float x, float y)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        const f32x2 both = { x, y };
        *(GLOBAL f32x2 *)(void *)(row + 4 * column) = both;
        return;
    }
    *(GLOBAL uint32_t *)(void *)(row + 2 * column) = out->kind == 1 ? stage_f16(x) | stage_f16(y) << 16
                                                                    : stage_bf16(x) | stage_bf16(y) << 16;
}
/* Columns column .. column + 3; column is a multiple of 4.  x: means of f16 values, so rows of f16 (launch.h) need no protection from
 * overflow. */
DEVICE void prefill_put4(const struct prefill_out *out, uint32_t t, uint32_t column, f32x4 x)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        *(GLOBAL f32x4 *)(void *)(row + 4 * column) = x;
        return;
    }
    if (out->kind == 1) x *= STAGE_SCALE;
    const u32x2 h = { out->kind == 1 ? f16x2_bits(x.x, x.y) : bf16x2_bits(x.x, x.y),
                      out->kind == 1 ? f16x2_bits(x.z, x.w) : bf16x2_bits(x.z, x.w) };
    *(GLOBAL u32x2 *)(void *)(row + 2 * column) = h;
}
/* Products read rows in units of 64 columns: the group of the last head writes the zeros that fill the last unit. */
DEVICE void prefill_pad(const struct prefill *p, const struct prefill_out *out)
{
    const uint32_t cols = p->n_head * p->head_dim, pad = (cols + 63) / 64 * 64 - cols;
    if (pad == 0 || out->kind == 0 || p->first_head + p->n_heads < p->n_head) return;
    for (uint32_t i = thread_x(); i < p->tokens * pad; i += p->threads)
        if (p->first_token + i / pad < p->n_tokens) prefill_put(out, p->first_token + i / pad, cols + i % pad, 0.0f);
}

/* ---- copying K and V to LDS ---- */
/* A piece is 8 columns of a row.  Neighbouring threads copy neighbouring pieces of a row, and each turn the same columns of later rows, so
 * that addresses grow by a constant.  The number of lanes per row is a power of two, so a few may idle. */
struct prefill_pieces { struct kv_piece piece[PREFILL_PIECES]; struct copy copy[PREFILL_PIECES]; };

DEVICE uint32_t prefill_row_lanes(const struct prefill *p)
{
    return p->head_dim <= 16 ? 2 : p->head_dim <= 32 ? 4 : p->head_dim <= 64 ? 8 : p->head_dim <= 128 ? 16 : 32;
}
DEVICE uint32_t prefill_row(const struct prefill *p, const uint32_t turn)
{
    return thread_x() / prefill_row_lanes(p) + turn * (p->threads / prefill_row_lanes(p));
}
DEVICE uint32_t prefill_column(const struct prefill *p)                   { return thread_x() % prefill_row_lanes(p) * 8; }
DEVICE uint32_t prefill_turns(const struct prefill *p) { return (p->positions * prefill_row_lanes(p) + p->threads - 1) / p->threads; }
DEVICE uint32_t prefill_has_piece(const struct prefill *p, const uint32_t turn)
{
    return (p->threads <= p->positions * prefill_row_lanes(p) || prefill_row(p, turn) < p->positions) && prefill_column(p) < p->head_dim;
}
DEVICE void prefill_fetch(struct kv_piece *piece, const struct prefill *p, const uint8_t *plane, uint32_t position, uint32_t column)
{
    const u32x4 zero = { 0, 0, 0, 0 };
    piece->values[0] = zero;
    piece->scale = 0;
    if (position < p->end) kv_fetch(piece, plane, p->kv_head, kv_row(position, p->ring), column, p->n_head_kv, p->n_ctx, p->head_dim);
}
/* A piece as f16. */
DEVICE u32x4 prefill_f16(const struct kv_piece *piece)
{
    float x[8];
    if (KV_KIND == KV_KIND_f16) return piece->values[0];
    kv_values(x, piece);
    const u32x4 h = { f16x2_bits(x[0], x[1]), f16x2_bits(x[2], x[3]), f16x2_bits(x[4], x[5]), f16x2_bits(x[6], x[7]) };
    return h;
}

/* ---- Q ---- */
/* For products of four waves: byte offset of this column of a row in LDS.  Rows are cut into swizzled areas of 64 columns; each area has
 * `rows` rows. */
DEVICE uint32_t prefill_fours_place(uint32_t row, uint32_t column, const uint32_t rows)
{
    return column / 64 * (rows * SWIZZLED_ROW_BYTES) + lds_piece(row, SWIZZLED_ROW_BYTES, column % 64 / 8, 1);
}
DEVICE uint32_t prefill_rows_of(const struct prefill *p) { return p->threads / WAVE * 16 * p->tiles; }

/* One wave stores 16 rows of Q, from m on, times scale, as f16 rows in LDS; with products of four waves `to` is where the group's rows
 * begin. */
DEVICE void prefill_q_rows(uint8_t *to, const struct prefill *p, const uint8_t *q, const uint64_t q_stride, uint32_t m)
{
    const uint32_t per_row = p->head_dim / 8;
    for (uint32_t i = lane_id(); i < 16 * per_row; i += WAVE) {
        const uint32_t row = i / per_row, column = i % per_row * 8;
        u32x4 h = { 0, 0, 0, 0 };
        if (prefill_has(p, m + row)) {
            const GLOBAL f32x4 *from = (const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, m + row) * q_stride +
                                                                            (prefill_head(p, m + row) * p->head_dim + column) * 4);
            const f32x4 x = from[0] * p->scale, y = from[1] * p->scale;
            h.x = f16x2_bits(clamp_f32(x.x, 65504.0f), clamp_f32(x.y, 65504.0f));
            h.y = f16x2_bits(clamp_f32(x.z, 65504.0f), clamp_f32(x.w, 65504.0f));
            h.z = f16x2_bits(clamp_f32(y.x, 65504.0f), clamp_f32(y.y, 65504.0f));
            h.w = f16x2_bits(clamp_f32(y.z, 65504.0f), clamp_f32(y.w, 65504.0f));
        }
        *(u32x4 *)(void *)(to + (p->fours ? prefill_fours_place(m + row, column, prefill_rows_of(p)) : row * p->stride + 2 * column)) = h;
    }
    wave_barrier();
}
#endif
