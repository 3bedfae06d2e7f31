/* attention_decode_matrix.h -- the steps of attention_decode_tmpl.c on a matrix unit where sums have the layout of operand A (mma_sync.h).
 * If many query heads share a row, the vector unit limits decode.  For a cache of f16, or of q8_0 (its values become f16, as for prefill),
 * heads of 64 or 128 dimensions, and up to 8 heads.
 *
 * A wave works on tiles of 16 positions, which are a step's rows of its slots.  With l = 4g + q:
 *   scores  A: rows 0 .. 7 are the heads, 8 .. 15 their remainders after rounding to f16; B: columns are positions.  Lane l loads
 *           dimensions 8q .. 8q + 7 of each 32, of positions g and g + 8.  They are B as they are: k is numbered in this order, in A too.
 *           The lane gets head g, positions 2q, 2q + 1, 2q + 8, 2q + 9.
 *   values  A: rows are dimensions, k positions; B: columns are heads.  B has the weights where the scores were, as f16 and again as their
 *           remainders.  Lane l loads dimensions 8g .. 8g + 7 of each 64, of its positions; words of two positions are mixed to pairs of
 *           one dimension.  The lane gets these dimensions of heads 2q and 2q + 1.
 * Both operands that are rounded have 22 bits, and sums are f32. */
#ifndef FORGE_ATTENTION_DECODE_MATRIX_H
#define FORGE_ATTENTION_DECODE_MATRIX_H
#include "acts_unit.h"
#include "mma.h"

enum { MATRIX_POSITIONS = 16, MATRIX_CHUNKS = 4, MATRIX_BLOCKS = 2, MATRIX_TILES = 4 };     /* most per head: 32s, 64s; per step */

/* m: maximum of head g; l: sum over this lane's positions; sum[4 b + i]: dimensions 64b + 8g + 2i and + 1, of heads 2q and 2q + 1. */
struct decode_matrix { float m, l, sum[4 * MATRIX_BLOCKS][4]; struct mma_a q[2 * MATRIX_CHUNKS]; };
/* Weights of a tile: two words of f16, and their remainders after rounding. */
struct matrix_weights { uint32_t high[2], low[2]; };

DEVICE uint32_t matrix_chunks(const struct decode *d) { return d->head_dim / 32; }
DEVICE uint32_t matrix_blocks(const struct decode *d) { return d->head_dim / 64; }
DEVICE uint32_t matrix_tiles(const struct decode *d)  { return d->rows * d->slots / MATRIX_POSITIONS; }

/* Position p of tile t in the step that begins with row `row`, counted from decode.begin. */
DEVICE uint32_t matrix_position(const struct decode *d, uint32_t row, const uint32_t t, uint32_t p)
{
    return ((row + t * (MATRIX_POSITIONS / d->slots) + p / d->slots) * d->splits + d->split) * (d->waves * d->slots) + d->wave * d->slots
           + p % d->slots;
}
DEVICE void matrix_fetch(struct kv_piece *x, const uint8_t *plane, const struct decode *d, uint32_t position, uint32_t column,
                         uint32_t limit)
{
    const uint32_t cache_row = kv_row(d->begin + (position < limit ? position : 0), d->ring);
    kv_fetch(x, plane, d->kv_head, cache_row, column, d->n_head_kv, d->n_ctx, d->head_dim);
}
/* Fetch K or V of half tiles (8 positions) from .. to - 1. */
DEVICE void matrix_fetch_k(struct kv_piece *k, const uint8_t *plane, const struct decode *d, uint32_t row, const uint32_t from,
                           const uint32_t to, uint32_t limit)
{
    UNROLL
    for (uint32_t half = from; half < to; half++) {
        const uint32_t position = matrix_position(d, row, half / 2, lane_id() / 4 + 8 * (half % 2));
        UNROLL
        for (uint32_t c = 0; c < matrix_chunks(d); c++)
            matrix_fetch(&k[half * matrix_chunks(d) + c], plane, d, position, 32 * c + 8 * (lane_id() % 4), limit);
    }
}
DEVICE void matrix_fetch_v(struct kv_piece *v, const uint8_t *plane, const struct decode *d, uint32_t row, const uint32_t from,
                           const uint32_t to, uint32_t limit)
{
    UNROLL
    for (uint32_t half = from; half < to; half++)
        UNROLL
        for (uint32_t two = 0; two < 2; two++) {
            const uint32_t position = matrix_position(d, row, half / 2, lane_id() % 4 * 2 + two + 8 * (half % 2));
            UNROLL
            for (uint32_t b = 0; b < matrix_blocks(d); b++)
                matrix_fetch(&v[(2 * half + two) * matrix_blocks(d) + b], plane, d, position, 64 * b + 8 * (lane_id() / 4), limit);
        }
}
/* Loads of the first step; rows that the context does not have become 0. */
DEVICE void matrix_ask(struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane, const struct decode *d,
                       const uint32_t ahead, const struct decode_range *range)
{
    const struct kv_piece nothing = { { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } }, 0 };
    UNROLL
    for (uint32_t half = 0; half < 2 * matrix_tiles(d); half++) {
        if (half * (8 / d->slots) < range->count) {
            if (half >= ahead) matrix_fetch_k(k, k_plane, d, 0, half, half + 1, range->limit);
            matrix_fetch_v(v, v_plane, d, 0, half, half + 1, range->limit);
            continue;
        }
        UNROLL
        for (uint32_t c = 0; c < matrix_chunks(d); c++) if (half >= ahead) k[half * matrix_chunks(d) + c] = nothing;
        UNROLL
        for (uint32_t i = 0; i < 2 * matrix_blocks(d); i++) v[2 * half * matrix_blocks(d) + i] = nothing;
    }
}

/* The columns of a piece as pairs of f16. */
DEVICE void matrix_words(uint32_t words[4], const struct kv_piece *piece)
{
    if (KV_KIND == KV_KIND_q8_0) {
        decode4(words, piece->values[0].x ^ 0x80808080u, 128.0f, 1.0f, both_f16(piece->scale, 0));
        decode4(words + 2, piece->values[0].y ^ 0x80808080u, 128.0f, 1.0f, both_f16(piece->scale, 0));
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < 4; i++) words[i] = piece->values[0][i];
}

/* Two floats as f16, and the remainders after rounding. */
DEVICE void matrix_split(uint32_t *high, uint32_t *low, float x, float y)
{
    *high = f16x2_bits(x, y);
    *low = f16x2_bits(x - f32_of_f16_bits(*high), y - f32_of_f16_bits(*high >> 16));
}

/* Initialises the state: the owner's contains the new token alone, others are empty.  Loads the heads from LDS.  k, v: this lane's columns
 * of the new token. */
DEVICE void matrix_begin(struct decode_matrix *x, const struct decode *d, uint32_t owner, const float k[8], const float v[8])
{
    const uint32_t g = lane_id() / 4, q = lane_id() % 4;
    x->m = ATTENTION_NOTHING;
    x->l = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 4 * matrix_blocks(d); i++)
        UNROLL
        for (uint32_t e = 0; e < 4; e++) x->sum[i][e] = 0.0f;
    UNROLL
    for (uint32_t j = 0; j < 2 * matrix_chunks(d); j++) {
        const f32x4 nothing = { 0.0f, 0.0f, 0.0f, 0.0f };
        f32x4 head = nothing;
        if (g < d->heads) head = *(const f32x4 *)(const void *)(decode_q() + decode_q_place(d, g, 32 * (j / 2) + 8 * q + 4 * (j % 2)));
        UNROLL
        for (uint32_t i = 0; i < 4; i++) head[i] = clamp_f32(head[i], 65504.0f);
        matrix_split(&x->q[j].x[0], &x->q[j].x[1], head.x, head.y);
        matrix_split(&x->q[j].x[2], &x->q[j].x[3], head.z, head.w);
    }
    if (!owner) return;
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        const float s = decode_new_score(d, h, k);
        if (h == g) x->m = s;
    }
    x->l = q == 0 ? 1.0f : 0.0f;
    UNROLL
    for (uint32_t b = 0; b < matrix_blocks(d); b++)
        UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            const float value = f32_of_bits(lane_get_u32(bits_of_f32(v[i]), 8 * b + g));
            x->sum[4 * b + i / 2][i % 2 * 2] = x->sum[4 * b + i / 2][i % 2 * 2 + 1] = value;
        }
}

/* s[t]: scores of this lane's positions of tile t. */
DEVICE void matrix_scores(float s[MATRIX_TILES][4], const struct decode_matrix *x, const struct decode *d, const struct kv_piece *k)
{
    UNROLL
    for (uint32_t t = 0; t < matrix_tiles(d); t++) {
        struct mma_acc c[2];                     /* for even and odd j, to halve the chain of dependent products */
        mma_zero(&c[0]);
        mma_zero(&c[1]);
        UNROLL
        for (uint32_t chunk = 0; chunk < matrix_chunks(d); chunk++) {
            uint32_t first[4], second[4];
            matrix_words(first, &k[2 * t * matrix_chunks(d) + chunk]);
            matrix_words(second, &k[(2 * t + 1) * matrix_chunks(d) + chunk]);
            UNROLL
            for (uint32_t j = 0; j < 2; j++) {
                const struct mma_b b = { { first[2 * j], first[2 * j + 1], second[2 * j], second[2 * j + 1] } };
                mma_f16(&c[j], &x->q[2 * chunk + j], &b);
            }
        }
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t e = i / 2 * 4 + i % 2;
            s[t][i] = c[0].x[e] + c[1].x[e] + (c[0].x[e + 2] + c[1].x[e + 2]);
#ifdef ATTENTION_MORE
            if (d->cap != 0.0f) s[t][i] = softcap_f32(s[t][i], d->cap);
#endif
        }
    }
}

/* Turns scores into weights and rescales the state to the new maximum. */
DEVICE void matrix_weigh(struct matrix_weights w[MATRIX_TILES], struct decode_matrix *x, const struct decode *d,
                         const struct kv_piece *k, uint32_t row, uint32_t limit, const uint32_t checked)
{
    float s[MATRIX_TILES][4], top = x->m;
    matrix_scores(s, x, d, k);
    UNROLL
    for (uint32_t t = 0; t < matrix_tiles(d); t++)
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            if (checked && matrix_position(d, row, t, lane_id() % 4 * 2 + i % 2 + i / 2 * 8) >= limit) s[t][i] = ATTENTION_MASKED;
            top = max_f32(top, s[t][i]);
        }
    UNROLL
    for (uint32_t mask = 1; mask < 4; mask *= 2) top = max_f32(top, lane_xor_f32(top, mask));
    if (wave_any(top > x->m)) {
        const float factor = exp2_f32(x->m - top);
        x->l *= factor;
        UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            const float other = f32_of_bits(lane_get_u32(bits_of_f32(factor), 4 * (lane_id() % 4 * 2 + e)));
            UNROLL
            for (uint32_t i = 0; i < 4 * matrix_blocks(d); i++) {
                x->sum[i][e] *= other;
                x->sum[i][2 + e] *= other;
            }
        }
        x->m = top;
    }
    UNROLL
    for (uint32_t t = 0; t < matrix_tiles(d); t++) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            s[t][i] = exp2_f32(s[t][i] - top);
            x->l += s[t][i];
        }
        UNROLL
        for (uint32_t i = 0; i < 2; i++) matrix_split(&w[t].high[i], &w[t].low[i], s[t][2 * i], s[t][2 * i + 1]);
    }
}

DEVICE void matrix_values(struct decode_matrix *x, const struct decode *d, const struct matrix_weights w[MATRIX_TILES],
                          const struct kv_piece *v)
{
    UNROLL
    for (uint32_t t = 0; t < matrix_tiles(d); t++)
        UNROLL
        for (uint32_t b = 0; b < matrix_blocks(d); b++) {
            uint32_t words[4][4];                /* positions 2q, 2q + 1, 2q + 8, 2q + 9 */
            UNROLL
            for (uint32_t p = 0; p < 4; p++) matrix_words(words[p], &v[(4 * t + p) * matrix_blocks(d) + b]);
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const struct mma_a a = { { byte_perm(words[0][i], words[1][i], 0x05040100u),
                                           byte_perm(words[0][i], words[1][i], 0x07060302u),
                                           byte_perm(words[2][i], words[3][i], 0x05040100u),
                                           byte_perm(words[2][i], words[3][i], 0x07060302u) } };
                mma_narrow_f16(x->sum[4 * b + i], &a, w[t].high);
                mma_narrow_f16(x->sum[4 * b + i], &a, w[t].low);
            }
        }
}

/* As decode_run(). */
DEVICE void matrix_run(struct decode_matrix *x, struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane,
                       const struct decode *d, uint32_t count, uint32_t limit)
{
    const uint32_t halves = 2 * matrix_tiles(d);
    struct matrix_weights w[MATRIX_TILES];
    uint32_t row = 0;
    if (count == 0) return;
#pragma clang loop unroll(disable)
    for (; row + d->rows < count; row += d->rows) {
        matrix_weigh(w, x, d, k, row, limit, 0);
        matrix_fetch_k(k, k_plane, d, row + d->rows, 0, halves, limit);
        COMPILER_FENCE();
        matrix_values(x, d, w, v);
        COMPILER_FENCE();
        matrix_fetch_v(v, v_plane, d, row + d->rows, 0, halves, limit);
    }
    matrix_weigh(w, x, d, k, row, limit, 1);
    matrix_values(x, d, w, v);
}

/* As decode_publish(). */
DEVICE void matrix_publish(struct decode_matrix *x, const struct decode *d)
{
    const uint32_t g = lane_id() / 4, q = lane_id() % 4;
    float *sum = decode_wave(d, d->wave), *ml = decode_ml(d) + d->wave * d->heads * 2;
    x->l = lanes_sum_f32(x->l, 4);
    UNROLL
    for (uint32_t e = 0; e < 2; e++) {
        if (2 * q + e >= d->heads) continue;
        UNROLL
        for (uint32_t i = 0; i < 2 * matrix_blocks(d); i++) {
            const uint32_t column = 64 * (i / 2) + 8 * g + 4 * (i % 2);
            const f32x4 four = { x->sum[2 * i][e], x->sum[2 * i][2 + e], x->sum[2 * i + 1][e], x->sum[2 * i + 1][2 + e] };
            *(f32x4 *)(void *)(sum + (2 * q + e) * d->head_dim + decode_sums_place(d, column)) = four;
        }
    }
    if (q != 0 || g >= d->heads) return;
    ml[2 * g] = x->m;
    ml[2 * g + 1] = x->l;
}
#endif
