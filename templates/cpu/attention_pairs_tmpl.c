/* attention_pairs_tmpl.c -- attention of a prompt with products of bfloat16 pairs (bf16.h, tiles.h).  Contract: docs/kernels.md.
 * A block of ATTENTION_BLOCK positions is converted once for all queries of a call: K to a panel of pairs of dimensions, V to a panel of
 * pairs of positions.  Scores, softmax and sums are floats; a weight is rounded to bfloat16, and the sum of weights uses rounded values.
 * May be pasted once per cache type, after attention_tmpl.c for the same type. */
#include "attention_tmpl.c"
#include "attention_pairs.h"
#include "tiles.h"

#ifndef ATTENTION_PAIRS_COMMON
#define ATTENTION_PAIRS_COMMON
/* Positions whose scores are computed at once: whole pairs and whole panels. */
enum { PAIRS_STEP = GEMM_GROUPS % 2 ? 32 * GEMM_GROUPS : 16 * GEMM_GROUPS };

/* Values that all queries of a call share, besides struct attention. */
struct pairs_queries {
    uint32_t past, group, window;
    uint32_t all;                                /* positions that all tokens attend; 0: causal */
};
DEVICE uint32_t pairs_first(const struct pairs_queries *q, uint32_t query)
{
    return q->all ? 0 : attention_first(q->past + query / q->group, q->window);
}
DEVICE uint32_t pairs_end(const struct pairs_queries *q, uint32_t query) { return q->all ? q->all : q->past + query / q->group + 1; }

/* Byte offset of 32 columns, from 32 * b on, of a group of 16 in panels of `blocks` times 32 columns.  Groups that fill no panel are stored
 * one by one after the panels. */
DEVICE uint64_t pairs_at(uint32_t g, uint32_t groups, uint32_t b, uint32_t blocks)
{
    const uint32_t first = g / GEMM_GROUPS * GEMM_GROUPS;
    if (groups - first < GEMM_GROUPS) return 1024 * ((uint64_t)g * blocks + b);
    return 1024 * ((uint64_t)first * blocks + b * GEMM_GROUPS + g - first);
}

#ifdef FORGE_MATRIX_TILES
/* y[n][16 * groups] (+)= `blocks` times 32 columns of a panel times rows of bfloat16.  Writes n rows rounded up to a multiple of 16. */
DEVICE void pairs_panel(struct tiles *room, float *y, uint32_t y_stride, const uint8_t *panel, const uint8_t *x, uint64_t x_stride,
                        uint32_t blocks, const int add, uint32_t n, const uint32_t groups)
{
    for (uint32_t t = 0; t < n; t += 32) {
        const int high = n - t > 16;
        tiles_first(room, y + (uint64_t)t * y_stride, y_stride, add, high, groups);
        for (uint32_t b = 0; b < blocks; b++)
            tiles_step(room, panel + PAIRS_BYTES(groups) * b, x + t * x_stride + 64 * b, x_stride, high, groups);
        tiles_last(room, y + (uint64_t)t * y_stride, y_stride, high, groups);
    }
}
#else
struct tiles { uint8_t none; };
DEVICE void tiles_begin(struct tiles *r, const uint32_t few, const uint32_t high) { (void)r, (void)few, (void)high; }
DEVICE void tiles_end(struct tiles *r) { (void)r; }
DEVICE void pairs_panel(struct tiles *room, float *y, uint32_t y_stride, const uint8_t *panel, const uint8_t *x, uint64_t x_stride,
                        uint32_t blocks, const int add, uint32_t n, const uint32_t groups)
{
    (void)room;
    if (groups > 1) pairs_tiles_two(y, y_stride, panel, x, x_stride, blocks, add, n);
    else            pairs_tiles_one(y, y_stride, panel, x, x_stride, blocks, add, n);
}
#endif

/* y[n][16 * groups] (+)= the first `blocks` times 32 columns of panels that have `of` times 32 columns. */
DEVICE void pairs_product(struct tiles *room, float *y, uint32_t y_stride, const uint8_t *panels, const uint8_t *x, uint64_t x_stride,
                          uint32_t blocks, uint32_t of, const int add, uint32_t n, uint32_t groups)
{
    uint32_t g = 0;
    for (; g + GEMM_GROUPS <= groups; g += GEMM_GROUPS)
        pairs_panel(room, y + 16 * g, y_stride, panels + 1024 * (uint64_t)g * of, x, x_stride, blocks, add, n, GEMM_GROUPS);
    for (; GEMM_GROUPS > 1 && g < groups; g++)
        pairs_panel(room, y + 16 * g, y_stride, panels + 1024 * (uint64_t)g * of, x, x_stride, blocks, add, n, 1);
}

/* The same for operands in parts; second parts lie panels_left and x_left bytes after the first. */
DEVICE void pairs_products(struct tiles *room, float *y, uint32_t y_stride, const uint8_t *panels, uint64_t panels_left, const uint8_t *x,
                           uint64_t x_left, uint64_t x_stride, uint32_t blocks, uint32_t of, const int add, uint32_t n, uint32_t groups,
                           const uint32_t parts)
{
    pairs_product(room, y, y_stride, panels, x, x_stride, blocks, of, add, n, groups);
    if (parts < 2) return;
    pairs_product(room, y, y_stride, panels + panels_left, x, x_stride, blocks, of, 1, n, groups);
    pairs_product(room, y, y_stride, panels, x + x_left, x_stride, blocks, of, 1, n, groups);
}

/* Stores 32 floats as bfloat16; with two parts their rounding remainders go `left` bytes further. */
DEVICE void pairs_put_row(uint8_t *to, const float *x32, uint64_t left, const uint32_t parts)
{
    if (parts > 1) bf16_parts(to, to + left, vf_load(x32), vf_load(x32 + 16));
    else bf16_block(to, x32, 0);
}
/* Stores rows of floats as rows of bfloat16, padded with zeros to multiples of 32 columns and 16 rows. */
DEVICE void pairs_rows(uint8_t *to, uint64_t left, const float *q, uint32_t q_stride, uint32_t queries, uint32_t group, uint32_t head_dim,
                       const uint32_t parts)
{
    const uint32_t dims = (head_dim + 31) / 32 * 32;
    for (uint32_t i = 0; i < (queries + 15) / 16 * 16; i++, to += XB_STRIDE(dims)) {
        const float *x = q + (uint64_t)(i / group) * q_stride + (uint64_t)(i % group) * head_dim;
        if (i >= queries) {
            for (uint32_t part = 0; part < parts; part++) __builtin_memset(to + part * left, 0, 2 * dims);
            continue;
        }
        for (uint32_t d = 0; d < dims; d += 32) {
            float last[32] = { 0 };
            if (d + 32 > head_dim) __builtin_memcpy(last, x + d, 4 * (head_dim % 32));
            pairs_put_row(to + 2 * d, d + 32 > head_dim ? last : x + d, left, parts);
        }
    }
}

/* 2^x per lane with relative error 2.6e-6, so that rounding to bfloat16 nearly always gives the nearest one.  x <= 0; below -126 it counts
 * as -126. */
DEVICE vf pairs_exp2(vf x)
{
    x = vf_max(x, vf_set1(-126.0f));
    const vf magic = vf_set1(0x1.8p23f), whole = vf_add(x, magic), r = vf_sub(x, vf_sub(whole, magic));
    vf p = vf_fma(vf_set1(0.00957010190f), r, vf_set1(0.0559178603f));
    p = vf_fma(p, r, vf_set1(0.240247448f));
    p = vf_fma(p, r, vf_set1(0.693121815f));
    p = vf_fma(p, r, vf_set1(0.999999261f));
    vi n, bits;
    __builtin_memcpy(&n, &whole, 64);
    __builtin_memcpy(&bits, &p, 64);
    return vf_bits(vi_add(bits, vi_shl(n, 23)));
}
DEVICE vf pairs_between(vf x, vf outside, uint32_t p, uint32_t first, uint32_t end)
{
    if (p + 16 > end)  x = vf_first(x, outside, end > p ? end - p : 0);
    if (p < first)     x = vf_first(outside, x, first - p);
    return x;
}

/* The least integer not below x, as a float; |x| < 2^22. */
DEVICE float pairs_whole(float x)
{
    const float near = x + 0x1.8p23f - 0x1.8p23f;
    return near < x ? near + 1 : near;
}

/* Turns one query's scores of n positions from base on (n a multiple of 32) into weights in bfloat16.  If the largest score grows, the
 * query's sums are rescaled.  Scores are multiplied by log2 e and the largest one is rounded up to an integer: sums are then scaled by a
 * power of two, so a weight rounds the same way whatever the largest score was.  Lanes outside [first, end) may hold anything, NaN too. */
DEVICE void pairs_weights(uint8_t *weight, uint64_t left, float *score, float *max, float *sum, float *out, uint32_t values, uint32_t base,
                          uint32_t n, uint32_t first, uint32_t end, const struct attention *a, const uint32_t parts)
{
    static const uint16_t ones[2] = { 0x3f80, 0x3f80 };
    const uint32_t masked = base < first || base + n > end;
    const vf low = vf_set1(ATTENTION_MASKED), scale = vf_set1(a->cap > 0 ? a->scale / a->cap : a->scale * 1.44269504f);
    vf top = vf_set1(*max);
    for (uint32_t i = 0; i < n; i += 16) {
        vf s = vf_mul(vf_load(score + i), scale);
        if (a->cap > 0) s = vf_mul(vf_tanh(s), vf_set1(a->cap * 1.44269504f));
        if (masked) s = pairs_between(s, low, base + i, first, end);
        vf_store(score + i, s);
        top = vf_max(top, s);
    }
    const float largest = vf_hmax(top), new_max = largest > *max ? pairs_whole(largest) : *max;
    vf total = vf_load(sum);
    if (new_max > *max) {
        const float moves = *max - new_max;
        const vf factor = vf_bits(vi_set1(moves > -126.0f ? (int32_t)(127.0f + moves) << 23 : 0));
        *max = new_max;
        total = vf_mul(total, factor);
        for (uint32_t d = 0; d < values; d += 16) vf_store(out + d, vf_mul(vf_load(out + d), factor));
    }
    top = vf_set1(new_max);
    for (uint32_t i = 0; i < n; i += 32) {
        vf one = pairs_exp2(vf_sub(vf_load(score + i), top)), two = pairs_exp2(vf_sub(vf_load(score + i + 16), top));
        if (masked) {
            one = pairs_between(one, vf_set1(0), base + i, first, end);
            two = pairs_between(two, vf_set1(0), base + i + 16, first, end);
        }
        const vi both = bf16_two(one, two);
        __builtin_memcpy(weight + 2 * i, &both, 64);
        total = dot_pairs(total, both, (const uint8_t *)ones);
        if (parts < 2) continue;
        const vi behind = bf16_two(vf_sub(one, vf_load_bf16(weight + 2 * i)), vf_sub(two, vf_load_bf16(weight + 2 * i + 32)));
        __builtin_memcpy(weight + left + 2 * i, &behind, 64);
        total = dot_pairs(total, behind, (const uint8_t *)ones);
    }
    vf_store(sum, total);
}

/* out[value_dim] = sums / sum, with the sink (a logit without a value) in the denominator.  It divides instead of multiplying by an
 * inverse: a weight times a value is exact, so a token that attends only itself gets exactly its value. */
DEVICE void pairs_normalise(float *out, const float *sums, float max, float sum, const float *sink, uint32_t value_dim)
{
    if (sink) sum += f32_exp(*sink - max * 0.693147181f);
    const vf by = vf_set1(sum > 0 ? sum : 1.0f);
    uint32_t d = 0;
    for (; d + 16 <= value_dim; d += 16) vf_store(out + d, vf_div(vf_load(sums + d), by));
    if (d < value_dim) vf_store8(out + d, vf_div(vf_load8(sums + d), by));
}
#endif

/* Stores K as pairs of dimensions, n positions (a multiple of 16).  Dimensions after head_dim are zero; positions are padded with zeros to
 * a multiple of 32.  With two parts the remainders go `left` bytes further. */
DEVICE void PASTE2(pairs_keys, KV)(uint8_t *to, uint64_t left, const uint8_t *k_block, uint32_t n, uint32_t head_dim, const uint32_t parts)
{
    const uint64_t block_bytes = 16 * PASTE2(kv_row_bytes, KV)(head_dim);
    const uint32_t group = PASTE2(kv_group_dims, KV)(), blocks = (head_dim + 31) / 32, groups = (n + 31) / 32 * 2;
    const vi none = vi_set1(0);
    for (uint32_t g = 0; g < groups; g++, k_block += block_bytes)
        for (uint32_t d = 0; d < 32 * blocks; d += 8) {
            uint8_t *panel = to + pairs_at(g, groups, d / 32, blocks);
            const vf scale = d < head_dim && 16 * g < n ? PASTE2(kv_k_scale, KV)(k_block, d / group * group) : vf_set1(0);
            VEC_UNROLL
            for (uint32_t i = 0; i < 8; i += 4) {
                vi pairs[2] = { none, none }, behind[2] = { none, none };
                VEC_UNROLL
                for (uint32_t k = 0; k < 2 && d < head_dim && 16 * g < n; k++) {
                    const uint32_t at = d + i + 2 * k;
                    const vf one = PASTE2(kv_load_k, KV)(k_block, at, scale), two = PASTE2(kv_load_k, KV)(k_block, at + 1, scale);
                    pairs[k] = pairs_of(one, two);
                    if (parts > 1) behind[k] = pairs_left(pairs[k], one, two);
                }
                pairs_put(panel, (d % 32 + i) / 2, pairs[0], pairs[1]);
                if (parts > 1) pairs_put(panel + left, (d % 32 + i) / 2, behind[0], behind[1]);
            }
        }
}

/* Stores rows skip .. n - 1 of V as pairs of positions.  Rows before them, and after them up to a multiple of 32, are zero.  With two parts
 * as pairs_keys(). */
DEVICE void PASTE2(pairs_values, KV)(uint8_t *to, uint64_t left, const uint8_t *v_row, uint32_t skip, uint32_t n, uint32_t value_dim,
                                     const uint32_t parts)
{
    const uint64_t row_bytes = PASTE2(kv_row_bytes, KV)(value_dim);
    const uint32_t blocks = (n + 31) / 32, groups = (value_dim + 15) / 16;
    for (uint32_t p = 0; p < 32 * blocks; p += 4)
        for (uint32_t g = 0; g < groups; g++) {
            const uint32_t width = value_dim - 16 * g < 16 ? 8 : 16;
            vf row[4];
            VEC_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                row[i] = p + i >= skip && p + i < n ? PASTE2(kv_load_v, KV)(v_row + (p + i) * row_bytes, 16 * g, width) : vf_set1(0);
            uint8_t *const panel = to + pairs_at(g, groups, p / 32, blocks);
            const vi one = pairs_of(row[0], row[1]), two = pairs_of(row[2], row[3]);
            pairs_put(panel, p % 32 / 2, one, two);
            if (parts > 1) pairs_put(panel + left, p % 32 / 2, pairs_left(one, row[0], row[1]), pairs_left(two, row[2], row[3]));
        }
}

/* Attention of n_tokens tokens from position n_past on, all already in the cache.  all: 0 (causal), or the number of positions that every
 * token attends.  out, q: rows of the first token; scratch: pairs_room(group * n_tokens, ...).end bytes, 64-byte aligned.  Other parameters
 * as in attention_prefill.  Blocks begin at multiples of ATTENTION_BLOCK, so a token's result does not depend on the tokens beside it.
 * parts: 1, or 2: every value is the sum of two bfloat16; products of two second parts, about 2^-18 of the whole, are left out. */
DEVICE void PASTE2(attention_pairs, KV)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride, const uint8_t *k_head,
                                        const uint8_t *v_head, uint32_t n_past, uint32_t all, uint32_t n_tokens, uint32_t group,
                                        uint32_t head_dim, uint32_t value_dim, float scale_qk, float cap, uint32_t ring, uint32_t window,
                                        const float *sink, const uint32_t parts, uint8_t *scratch)
{
    const struct attention a = { head_dim, value_dim, scale_qk, cap, ring };
    const struct pairs_queries of = { n_past, group, window, all };
    const uint32_t queries = group * n_tokens, rows = (queries + 15) / 16 * 16;
    const uint32_t dims = (head_dim + 31) / 32 * 32, values = (value_dim + 15) / 16 * 16;
    const uint64_t row_bytes = PASTE2(kv_row_bytes, KV)(head_dim), value_bytes = PASTE2(kv_row_bytes, KV)(value_dim);
    const uint64_t q_bytes = XB_STRIDE((uint64_t)dims), weight_bytes = XB_STRIDE((uint64_t)ATTENTION_BLOCK);
    const struct pairs_room r = pairs_room(queries, head_dim, value_dim, ATTENTION_BLOCK, parts);
    float *const sums = (float *)(void *)(scratch + r.out), *const sum = (float *)(void *)(scratch + r.sum);
    float *const max = (float *)(void *)(scratch + r.max), *const score = (float *)(void *)(scratch + r.score);
    const uint32_t first = pairs_first(&of, 0), end = pairs_end(&of, queries - 1);
    struct tiles room;
    pairs_rows(scratch + r.q, r.q_bytes, q, q_stride, queries, group, head_dim, parts);
    __builtin_memset(sums, 0, 4 * (uint64_t)rows * values);
    __builtin_memset(sum, 0, 64 * (uint64_t)rows);
    for (uint32_t i = 0; i < rows; i++) max[i] = ATTENTION_MASKED;
    tiles_begin(&room, 16, 16);
    uint32_t base = first / ATTENTION_BLOCK * ATTENTION_BLOCK;
    if (ring && base < first / ring * ring) base = first / ring * ring;
    for (uint32_t n; base < end; base += n) {
        const uint32_t row = ring ? base % ring : base, whole = ATTENTION_BLOCK - base % ATTENTION_BLOCK;
        n = end - base < whole ? end - base : whole;
        if (ring && ring - row < n) n = ring - row;
        PASTE2(pairs_keys, KV)(scratch + r.k, r.k_bytes, k_head + row * row_bytes, n, head_dim, parts);
        PASTE2(pairs_values, KV)(scratch + r.v, r.v_bytes, v_head + row * value_bytes, first > base ? first - base : 0, n, value_dim,
                                 parts);
        for (uint32_t i = 0, some; i < queries; i += some) {
            some = queries - i < PAIRS_TOGETHER ? queries - i : PAIRS_TOGETHER;
            const uint32_t last = pairs_end(&of, i + some - 1), of_block = (n + 31) / 32 * 32;
            if (last <= base || pairs_first(&of, i) >= base + n) continue;
            const uint32_t near = (last - base + PAIRS_STEP - 1) / PAIRS_STEP * PAIRS_STEP, cols = near < of_block ? near : of_block;
            const uint8_t *const query = scratch + r.q + i * q_bytes;
            pairs_products(&room, score, ATTENTION_BLOCK, scratch + r.k, r.k_bytes, query, r.q_bytes, q_bytes, dims / 32, dims / 32, 0,
                           some, cols / 16, parts);
            for (uint32_t k = 0; k < some; k++) {
                const uint32_t its_end = pairs_end(&of, i + k);
                pairs_weights(scratch + r.weight + k * weight_bytes, r.weight_bytes, score + k * ATTENTION_BLOCK, &max[i + k],
                              sum + 16 * (i + k), sums + (uint64_t)(i + k) * values, values, base, cols, pairs_first(&of, i + k),
                              its_end < base + n ? its_end : base + n, &a, parts);
            }
            pairs_products(&room, sums + (uint64_t)i * values, values, scratch + r.v, r.v_bytes, scratch + r.weight, r.weight_bytes,
                           weight_bytes, cols / 32, of_block / 32, 1, some, values / 16, parts);
        }
    }
    tiles_end(&room);
    for (uint32_t i = 0; i < queries; i++)
        pairs_normalise(out + (uint64_t)(i / group) * out_stride + (uint64_t)(i % group) * value_dim, sums + (uint64_t)i * values, max[i],
                        vf_sum(vf_load(sum + 16 * i)), sink ? sink + i % group : 0, value_dim);
}
