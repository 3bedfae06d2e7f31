/* kv.h -- the KV cache: where a value lies, how it is stored and how it is read (docs/gpu_internals.md "KV cache").
 * KV is the type of the cache: f16, f32 (head_dim a multiple of 8) or q8_0 (of 32); KV_KIND is its number, a constant.
 *   kv_k(a), kv_v(a, ...)       K and V of the launch's layer: the `plane` of all functions here
 *   kv_fetch, kv_values         8 neighbouring columns of a row: fetch requests them, values gives them as f32 later
 *   kv_load, kv_load_f16        both at once, as f32x4[2] or as four words of f16 pairs
 *   kv_encode, kv_put           rounds 8 columns as the cache does, and stores them
 *   kv_store_row                a wave stores one head of a token
 *   kv_bytes                    where a row's 16-byte pieces begin, for copies of f16 and f32 rows
 * Everywhere: position < n_ctx, column a multiple of 8 below head_dim, kv_head < n_head_kv.
 *
 * window, ring: constants of attention with a sliding window.  window: the number of positions that a token attends, its own included; 0:
 * all of them.  ring: rows of the cache, where position p lies in row p % ring; 0: a row for each of n_ctx positions.  A step stores all of
 * its tokens before the first one attends, so ring is at least window + tokens of a step - 1.  With a ring, the functions above take
 * kv_rows() as n_ctx and kv_row() as position. */
#ifndef FORGE_KV_H
#define FORGE_KV_H
#include "launch.h"
#include "attention_sizes.h"

#ifndef KV_KIND
#ifndef KV                                       /* default, so that the file compiles alone */
#define KV f16
#endif
#define KV_KIND_OF_(kv) KV_KIND_##kv
#define KV_KIND_OF(kv)  KV_KIND_OF_(kv)
#define KV_KIND         KV_KIND_OF(KV)
#endif

/* 8 columns as stored.  f16: values[0]; f32: both; q8_0: 8 codes in values[0].xy and the f16 scale of their block. */
struct kv_piece { u32x4 values[2]; uint32_t scale; };

DEVICE uint32_t kv_rows(const uint32_t n_ctx, const uint32_t ring) { return ring ? ring : n_ctx; }
DEVICE uint32_t kv_row(uint32_t position, const uint32_t ring)     { return ring ? position % ring : position; }
/* The first position that a token at `position` attends. */
DEVICE uint32_t kv_window_begin(uint32_t position, const uint32_t window)
{
    return window && position >= window ? position + 1 - window : 0;
}

DEVICE uint8_t *kv_k(const struct forge_kernel_args a) { return a.state + a.state_at; }
DEVICE uint8_t *kv_v(const struct forge_kernel_args a, const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    return a.state + a.state_at + KV_PLANE_BYTES(KV_KIND, n_head_kv, n_ctx, head_dim);
}
/* Byte offset in a plane of the value in this column. */
DEVICE uint64_t kv_bytes(uint32_t kv_head, uint32_t position, uint32_t column, const uint32_t n_ctx, const uint32_t head_dim)
{
    return (uint64_t)(kv_head * n_ctx + position) * KV_VALUE_BYTES(KV_KIND, head_dim) + KV_VALUE_BYTES(KV_KIND, column);
}
/* Byte offset in a plane of the f16 scale of this column's block (q8_0). */
DEVICE uint64_t kv_scale_bytes(uint32_t kv_head, uint32_t position, uint32_t column, const uint32_t n_head_kv, const uint32_t n_ctx,
                               const uint32_t head_dim)
{
    return (uint64_t)n_head_kv * n_ctx * head_dim + ((uint64_t)(kv_head * n_ctx + position) * (head_dim / 32) + column / 32) * 2;
}

DEVICE void kv_fetch(struct kv_piece *piece, const uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column,
                     const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    const uint8_t *p = plane + kv_bytes(kv_head, position, column, n_ctx, head_dim);
    if (KV_KIND == KV_KIND_q8_0) {
        const u32x2 codes = load_settled8(p);
        piece->values[0].x = codes.x;
        piece->values[0].y = codes.y;
        piece->scale = load_settled2(plane + kv_scale_bytes(kv_head, position, column, n_head_kv, n_ctx, head_dim));
        return;
    }
    piece->values[0] = load_settled16(p);
    if (KV_KIND == KV_KIND_f32) piece->values[1] = load_settled16(p + 16);
}

DEVICE void kv_values(float x[8], const struct kv_piece *piece)
{
    const float scale = f32_of_f16_bits(piece->scale);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (KV_KIND == KV_KIND_f16)      x[i] = f32_of_f16_bits(piece->values[0][i / 2] >> 16 * (i % 2));
        else if (KV_KIND == KV_KIND_f32) x[i] = f32_of_bits(piece->values[i / 4][i % 4]);
        else                             x[i] = scale * (float)(int8_t)(piece->values[0][i / 4] >> 8 * (i % 4));
    }
}

DEVICE void kv_load(f32x4 x[2], const uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column,
                    const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    struct kv_piece piece;
    float value[8];
    kv_fetch(&piece, plane, kv_head, position, column, n_head_kv, n_ctx, head_dim);
    kv_values(value, &piece);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) x[i / 4][i % 4] = value[i];
}

/* h: word i has column `column` + 2i in the low and column + 2i + 1 in the high half. */
DEVICE void kv_load_f16(uint32_t h[4], const uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column,
                        const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    struct kv_piece piece;
    float value[8];
    kv_fetch(&piece, plane, kv_head, position, column, n_head_kv, n_ctx, head_dim);
    if (KV_KIND != KV_KIND_f16) kv_values(value, &piece);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) h[i] = KV_KIND == KV_KIND_f16 ? piece.values[0][i] : f16x2_bits(value[2 * i], value[2 * i + 1]);
}

/* 8 columns as the cache stores them.  q8_0: the 32 columns of a block are in 4 neighbouring lanes, so all lanes of the wave must call;
 * the scale is max|x| / 127 as f16, and codes use the rounded scale. */
DEVICE void kv_encode(struct kv_piece *piece, const float x[8])
{
    if (KV_KIND == KV_KIND_f16)
        UNROLL
        for (uint32_t i = 0; i < 4; i++) piece->values[0][i] = f16x2_bits(x[2 * i], x[2 * i + 1]);
    if (KV_KIND == KV_KIND_f32)
        UNROLL
        for (uint32_t i = 0; i < 8; i++) piece->values[i / 4][i % 4] = bits_of_f32(x[i]);
    if (KV_KIND != KV_KIND_q8_0) return;
    float top = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 8; i++) top = max_f32(top, abs_f32(x[i]));
    piece->scale = f16_bits(lanes_max_f32(top, 4) * (1.0f / 127.0f));
    const float scale = f32_of_f16_bits(piece->scale), inverse = scale > 0.0f ? rcp_f32(scale) : 0.0f;
    UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t codes = 0;
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            codes |= ((uint32_t)(int32_t)round_f32(clamp_f32(x[4 * k + i] * inverse, 127.0f)) & 0xffu) << 8 * i;
        piece->values[0][k] = codes;
    }
}

DEVICE void kv_put(uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column, const struct kv_piece *piece,
                   const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    uint8_t *p = plane + kv_bytes(kv_head, position, column, n_ctx, head_dim);
    if (KV_KIND == KV_KIND_q8_0) {
        const u32x2 codes = { piece->values[0].x, piece->values[0].y };
        *(GLOBAL u32x2 *)(void *)p = codes;
        if (column % 32 == 0)
            *(GLOBAL uint16_t *)(void *)(plane + kv_scale_bytes(kv_head, position, column, n_head_kv, n_ctx, head_dim)) =
                (uint16_t)piece->scale;
        return;
    }
    *(GLOBAL u32x4 *)(void *)p = piece->values[0];
    if (KV_KIND == KV_KIND_f32) *(GLOBAL u32x4 *)(void *)(p + 16) = piece->values[1];
}

/* Columns column .. + 7 (a multiple of 8) of a row of f32, 16-byte aligned.  In LDS, lanes 4 to 7 of every eight read their second half
 * first, so that they use other banks than the four lanes before them. */
DEVICE void row_eight(float x[8], const float *row, uint32_t column)
{
    const uint32_t second = column / 32 % 2 * 4;
    const f32x4 a = *(const f32x4 *)(const void *)(row + column + second), b = *(const f32x4 *)(const void *)(row + column + 4 - second);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        x[i] = second ? b[i] : a[i];
        x[4 + i] = second ? a[i] : b[i];
    }
}

/* One wave stores one head.  row: [head_dim] f32, global or LDS (written before a wave_barrier()). */
DEVICE void kv_store_row(uint8_t *plane, uint32_t kv_head, uint32_t position, const float *row,
                         const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    for (uint32_t first = 0; first < head_dim; first += 8 * WAVE) {
        const uint32_t mine = first + 8 * lane_id(), column = mine < head_dim ? mine : 0;
        struct kv_piece piece;
        float x[8];
        row_eight(x, row, column);
        kv_encode(&piece, x);
        if (mine < head_dim) kv_put(plane, kv_head, position, column, &piece, n_head_kv, n_ctx, head_dim);
    }
}
#endif
