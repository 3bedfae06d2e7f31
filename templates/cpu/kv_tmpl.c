/* kv_tmpl.c -- the KV cache: where an element lies, how it is written, and how it is read into registers.
 * Layout (docs/kernels.md): K [ctx/16][head_dim][16], V [ctx][head_dim], ctx = n_ctx rounded up to 16.  A layer has K of all KV heads, then
 * V of all KV heads.
 * q8_0: a K block of 16 positions has, per 32 dims, f16 d[16], int8 q[32][16]; a V row has, per 32 dims, f16 d, int8 q[32].
 * KV is the element type: f16, f32 (head_dim a multiple of 8) or q8_0 (a multiple of 32).  The file may be pasted once per type. */
#include "vec.h"

#ifndef KV                          /* default, so that the file compiles alone */
#define KV f16
#endif
#ifndef KV_KIND
#define KV_KIND_f16  1
#define KV_KIND_f32  2
#define KV_KIND_q8_0 3
#define KV_KIND      PASTE2(KV_KIND, KV)
DEVICE uint32_t kv_context(uint32_t n_ctx) { return (n_ctx + 15) / 16 * 16; }
#endif

#if KV_KIND != KV_KIND_f16 && KV_KIND != KV_KIND_f32 && KV_KIND != KV_KIND_q8_0
#error "KV is f16, f32 or q8_0"
#endif

#if KV_KIND == KV_KIND_f16 && !defined KV_F16
#define KV_F16
/* Bytes of one position of one head; the same for K and V. */
DEVICE uint64_t kv_row_bytes_f16(uint32_t head_dim) { return 2 * (uint64_t)head_dim; }
/* Dimensions that share one kv_k_scale; kv_load_k takes d within such a group. */
DEVICE uint32_t kv_group_dims_f16(void) { return 8; }
DEVICE vf kv_k_scale_f16(const uint8_t *block, uint32_t d) { (void)block; (void)d; return vf_set1(1.0f); }
/* Dimension d of the 16 positions of a K block. */
DEVICE vf kv_load_k_f16(const uint8_t *block, uint32_t d, vf unit) { (void)unit; return vf_load_f16(block + 32 * (uint64_t)d); }
/* Dimensions d .. d + width - 1 of a V row; width is 16 or 8. */
DEVICE vf kv_load_v_f16(const uint8_t *row, uint32_t d, uint32_t width)
{
    return width == 16 ? vf_load_f16(row + 2 * (uint64_t)d) : vf_load8_f16(row + 2 * (uint64_t)d);
}
DEVICE void kv_append_k_f16(uint8_t *k_head, const float *k, uint32_t position, uint32_t head_dim)
{
    uint8_t *block = k_head + (uint64_t)(position / 16) * 16 * kv_row_bytes_f16(head_dim) + 2 * (position % 16);
    for (uint32_t d = 0; d < head_dim; d += 8) {
        uint16_t h[8];
        vf_store8_f16(h, vf_load8(k + d));
        VEC_UNROLL
        for (uint32_t i = 0; i < 8; i++) __builtin_memcpy(block + 32 * (uint64_t)(d + i), &h[i], 2);
    }
}
DEVICE void kv_append_v_f16(uint8_t *v_head, const float *v, uint32_t position, uint32_t head_dim)
{
    uint8_t *row = v_head + position * kv_row_bytes_f16(head_dim);
    for (uint32_t d = 0; d < head_dim; d += 8) vf_store8_f16(row + 2 * (uint64_t)d, vf_load8(v + d));
}
#define KV_NEW
#endif

#if KV_KIND == KV_KIND_f32 && !defined KV_F32
#define KV_F32
DEVICE uint64_t kv_row_bytes_f32(uint32_t head_dim) { return 4 * (uint64_t)head_dim; }
DEVICE uint32_t kv_group_dims_f32(void) { return 8; }
DEVICE vf kv_k_scale_f32(const uint8_t *block, uint32_t d) { (void)block; (void)d; return vf_set1(1.0f); }
DEVICE vf kv_load_k_f32(const uint8_t *block, uint32_t d, vf unit)
{
    (void)unit;
    return vf_load((const float *)(const void *)(block + 64 * (uint64_t)d));
}
DEVICE vf kv_load_v_f32(const uint8_t *row, uint32_t d, uint32_t width)
{
    const float *p = (const float *)(const void *)(row + 4 * (uint64_t)d);
    return width == 16 ? vf_load(p) : vf_load8(p);
}
DEVICE void kv_append_k_f32(uint8_t *k_head, const float *k, uint32_t position, uint32_t head_dim)
{
    uint8_t *block = k_head + (uint64_t)(position / 16) * 16 * kv_row_bytes_f32(head_dim) + 4 * (position % 16);
    for (uint32_t d = 0; d < head_dim; d++) __builtin_memcpy(block + 64 * (uint64_t)d, &k[d], 4);
}
DEVICE void kv_append_v_f32(uint8_t *v_head, const float *v, uint32_t position, uint32_t head_dim)
{
    float *row = (float *)(void *)(v_head + position * kv_row_bytes_f32(head_dim));
    for (uint32_t d = 0; d < head_dim; d += 8) vf_store8(row + d, vf_load8(v + d));
}
#define KV_NEW
#endif

#if KV_KIND == KV_KIND_q8_0 && !defined KV_Q8_0
#define KV_Q8_0
DEVICE uint64_t kv_row_bytes_q8_0(uint32_t head_dim) { return (uint64_t)(head_dim / 32) * 34; }
DEVICE uint32_t kv_group_dims_q8_0(void) { return 32; }
DEVICE vf kv_k_scale_q8_0(const uint8_t *block, uint32_t d) { return vf_load_f16(block + (uint64_t)(d / 32) * 544); }
DEVICE vf kv_load_k_q8_0(const uint8_t *block, uint32_t d, vf group_scale)
{
    const int8_t *q = (const int8_t *)(const void *)(block + (uint64_t)(d / 32) * 544 + 32 + 16 * (d % 32));
    return vf_mul(vf_from_vi(vi_load_i8(q)), group_scale);
}
DEVICE vf kv_load_v_q8_0(const uint8_t *row, uint32_t d, uint32_t width)
{
    const uint8_t *unit = row + (uint64_t)(d / 32) * 34;
    uint16_t h;
    (void)width;                                 /* always 16: head_dim is a multiple of 32 */
    __builtin_memcpy(&h, unit, 2);
#if defined FORGE_SIMD_C || defined FORGE_SIMD_WASM
    const float s = f32_from_f16_bits(h);
#else
    _Float16 f;
    __builtin_memcpy(&f, &h, 2);
    const float s = (float)f;
#endif
    return vf_mul(vf_from_vi(vi_load_i8((const int8_t *)(const void *)(unit + 2 + d % 32))), vf_set1(s));
}
/* Quantises 32 values to int8 and returns the scale max|x| / 127 as f16.  Codes use the rounded scale because readers do. */
DEVICE uint16_t kv_quantise_q8_0(int8_t *q, const float *x)
{
    const vf a = vf_load(x), b = vf_load(x + 16), limit = vf_set1(127.0f), low = vf_set1(-127.0f);
    const uint16_t d = f16_bits_from_f32(vf_hmax(vf_max(vf_abs(a), vf_abs(b))) / 127.0f);
    const float f = f32_from_f16_bits(d);
    const vf inverse = vf_set1(f > 0 ? 1.0f / f : 0.0f);
    vi_store_i8(q,      vi_from_vf(vf_max(vf_min(vf_mul(a, inverse), limit), low)));
    vi_store_i8(q + 16, vi_from_vf(vf_max(vf_min(vf_mul(b, inverse), limit), low)));
    return d;
}
DEVICE void kv_append_k_q8_0(uint8_t *k_head, const float *k, uint32_t position, uint32_t head_dim)
{
    uint8_t *block = k_head + (uint64_t)(position / 16) * 16 * kv_row_bytes_q8_0(head_dim);
    const uint32_t lane = position % 16;
    for (uint32_t d = 0; d < head_dim; d += 32, block += 544) {
        int8_t q[32];
        const uint16_t h = kv_quantise_q8_0(q, k + d);
        __builtin_memcpy(block + 2 * lane, &h, 2);
        for (uint32_t i = 0; i < 32; i++) block[32 + 16 * i + lane] = (uint8_t)q[i];
    }
}
DEVICE void kv_append_v_q8_0(uint8_t *v_head, const float *v, uint32_t position, uint32_t head_dim)
{
    uint8_t *unit = v_head + position * kv_row_bytes_q8_0(head_dim);
    for (uint32_t d = 0; d < head_dim; d += 32, unit += 34) {
        const uint16_t h = kv_quantise_q8_0((int8_t *)(void *)(unit + 2), v + d);
        __builtin_memcpy(unit, &h, 2);
    }
}
#define KV_NEW
#endif

#ifdef KV_NEW
#undef KV_NEW
DEVICE uint64_t PASTE2(kv_layer_bytes, KV)(uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx)
{
    return 2 * (uint64_t)n_head_kv * kv_context(n_ctx) * PASTE2(kv_row_bytes, KV)(head_dim);
}
/* Start of K (kv_k) and of V (kv_v) of one KV head in a layer that starts at `layer`. */
DEVICE uint8_t *PASTE2(kv_k, KV)(uint8_t *layer, uint32_t kv_head, uint32_t head_dim, uint32_t n_ctx)
{
    return layer + (uint64_t)kv_head * kv_context(n_ctx) * PASTE2(kv_row_bytes, KV)(head_dim);
}
DEVICE uint8_t *PASTE2(kv_v, KV)(uint8_t *layer, uint32_t kv_head, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx)
{
    return layer + ((uint64_t)n_head_kv + kv_head) * kv_context(n_ctx) * PASTE2(kv_row_bytes, KV)(head_dim);
}
#endif
