/* attention_tmpl.c -- causal attention over the cache with an online softmax.  (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao 2022,
 * arXiv:2205.14135)
 * The queries of a tile belong to one KV head and share every load of K and V; they are heads of a group or tokens of a prompt.
 * For each block of ATTENTION_BLOCK positions: scores with lanes = positions, then softmax, then V with lanes = dimensions.  The
 * un-normalised output stays in `out` between blocks, so no array depends on head_dim. */
#include "vec.h"
#include "kv_tmpl.c"

#ifndef ATTENTION_BLOCK                          /* positions per step, a multiple of 64: 64 rows of K and V of 128 dims are 32 KB */
#define ATTENTION_BLOCK 64
#endif

#ifndef ATTENTION_COMMON
#define ATTENTION_COMMON
_Static_assert(ATTENTION_BLOCK % 64 == 0, "a step is whole rounds of up to 4 vectors of scores");

/* Most queries that share one load. */
enum { ATTENTION_TILE = VEC_ACCUMULATORS > 8 ? 8 : VEC_ACCUMULATORS };
/* The score of a masked position: far below any real score, yet finite, so that the difference of two of them is not NaN. */
#define ATTENTION_MASKED (-1e30f)

/* Values that all queries of a call share; a feature that the model does not have is 0. */
struct attention {
    uint32_t head_dim, value_dim;                /* of q and k; of v and the output */
    float    scale;                              /* of q . k */
    float    cap;                                /* score = cap * tanh(score / cap); 0: no cap */
    uint32_t ring;                               /* position p lies in row p % ring, a multiple of 16; 0: in row p */
};

/* Up to ATTENTION_TILE queries; query i attends the positions first[i] <= p < end[i]. */
struct attention_tile {
    const float *q[ATTENTION_TILE];              /* [head_dim] */
    float       *out[ATTENTION_TILE];            /* [value_dim], sum of exp(score - max) * v */
    float        max[ATTENTION_TILE];
    float        sum[ATTENTION_TILE];            /* of exp(score - max) */
    uint32_t     first[ATTENTION_TILE], end[ATTENTION_TILE];
};

/* The largest of 4, 2, 1 vectors per query for which `tile` queries have enough accumulators. */
DEVICE uint32_t attention_vectors(uint32_t tile)
{
    return tile * 4 <= VEC_ACCUMULATORS ? 4 : tile * 2 <= VEC_ACCUMULATORS ? 2 : 1;
}

/* Turns the scores of one query in one step into weights and updates its maximum and sum.  Returns the factor for the old sums.
 * weight: [ATTENTION_BLOCK], n are used; weight[0] has position base.  Lanes outside [first, end) may hold anything, NaN too. */
DEVICE float attention_softmax(float *weight, float *max, float *sum, uint32_t base, uint32_t n, uint32_t first, uint32_t end,
                               const struct attention *a)
{
    const uint32_t masked = base < first || base + n > end;
    const vf scale = vf_set1(a->scale), low = vf_set1(ATTENTION_MASKED);
    vf top = vf_set1(*max), total = vf_set1(0);
    for (uint32_t i = 0; i < n; i += 16) {
        vf s = vf_mul(vf_load(weight + i), scale);
        if (a->cap > 0) s = vf_mul(vf_set1(a->cap), vf_tanh(vf_mul(s, vf_set1(1.0f / a->cap))));
        if (masked) {
            const uint32_t p = base + i;
            if (p + 16 > end)  s = vf_first(s, low, end > p ? end - p : 0);
            if (p < first)     s = vf_first(low, s, first - p);
        }
        vf_store(weight + i, s);
        top = vf_max(top, s);
    }
    const float new_max = vf_hmax(top);
    for (uint32_t i = 0; i < n; i += 16) {
        vf e = vf_exp(vf_sub(vf_load(weight + i), vf_set1(new_max)));
        if (masked) {                            /* exp of a masked score is small but not 0, and 1 if all are masked */
            const uint32_t p = base + i;
            if (p + 16 > end)  e = vf_first(e, vf_set1(0), end > p ? end - p : 0);
            if (p < first)     e = vf_first(vf_set1(0), e, first - p);
        }
        vf_store(weight + i, e);
        total = vf_add(total, e);
    }
    const float factor = f32_exp(*max - new_max);
    *max = new_max;
    *sum = *sum * factor + vf_sum(total);
    return factor;
}

/* out = out / sum, with the sink (a logit without a value) in the denominator. */
DEVICE void attention_normalise(float *out, float max, float sum, const float *sink, uint32_t value_dim)
{
    float factor = 1.0f;
    if (sink) {
        const float top = max > *sink ? max : *sink;
        factor = f32_exp(max - top);
        sum = sum * factor + f32_exp(*sink - top);
    }
    const vf f = vf_set1(sum > 0 ? factor / sum : 0.0f);
    uint32_t d = 0;
    for (; d + 16 <= value_dim; d += 16) vf_store(out + d, vf_mul(vf_load(out + d), f));
    if (d < value_dim) vf_store8(out + d, vf_mul(vf_load8(out + d), f));
}

/* First position that a query at `position` attends with a sliding window of `window` positions, its own included (0: no window). */
DEVICE uint32_t attention_first(uint32_t position, uint32_t window)
{
    return window && position + 1 > window ? position + 1 - window : 0;
}

/* Joins parts of the positions: out[group][value_dim] from o[n_parts][group][value_dim], m and l[n_parts][group] of attention_part().
 * sink: [group] or NULL.  Exact: every part is rescaled to the common maximum.  Empty parts have l = 0. */
DEVICE void attention_merge(float *out, const float *o, const float *m, const float *l, uint32_t n_parts, uint32_t group,
                            uint32_t value_dim, const float *sink)
{
    for (uint32_t g = 0; g < group; g++) {
        float max = ATTENTION_MASKED, sum = 0;
        for (uint32_t k = 0; k < n_parts; k++) if (m[k * group + g] > max) max = m[k * group + g];
        for (uint32_t k = 0; k < n_parts; k++) sum += l[k * group + g] * f32_exp(m[k * group + g] - max);
        float *row = out + (uint64_t)g * value_dim;
        for (uint32_t k = 0; k < n_parts; k++) {
            const float *part = o + ((uint64_t)k * group + g) * value_dim;
            const vf f = vf_set1(f32_exp(m[k * group + g] - max));
            uint32_t d = 0;
            for (; d + 16 <= value_dim; d += 16) {
                const vf v = vf_mul(vf_load(part + d), f);
                vf_store(row + d, k ? vf_add(vf_load(row + d), v) : v);
            }
            if (d < value_dim) {
                const vf v = vf_mul(vf_load8(part + d), f);
                vf_store8(row + d, k ? vf_add(vf_load8(row + d), v) : v);
            }
        }
        attention_normalise(row, max, sum, sink ? sink + g : 0, value_dim);
    }
}
#endif

/* Dot products of `tile` queries with `blocks` x 16 positions of K.  weight: [tile][ATTENTION_BLOCK], at the first of these positions. */
DEVICE void PASTE2(attention_scores, KV)(float *weight, const struct attention_tile *t, const uint8_t *k_block, uint32_t head_dim,
                                         uint32_t tile, uint32_t blocks)
{
    const uint64_t block_bytes = 16 * PASTE2(kv_row_bytes, KV)(head_dim);
    const uint32_t group = PASTE2(kv_group_dims, KV)();
    vf sum[ATTENTION_TILE][4];
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        VEC_UNROLL
        for (uint32_t b = 0; b < blocks; b++) sum[i][b] = vf_set1(0);
    }
    for (uint32_t d0 = 0; d0 < head_dim; d0 += group) {
        vf scale[4];
        VEC_UNROLL
        for (uint32_t b = 0; b < blocks; b++) scale[b] = PASTE2(kv_k_scale, KV)(k_block + b * block_bytes, d0);
        for (uint32_t d = d0; d < d0 + group; d++) {
            vf k[4];
            VEC_UNROLL
            for (uint32_t b = 0; b < blocks; b++) k[b] = PASTE2(kv_load_k, KV)(k_block + b * block_bytes, d, scale[b]);
            VEC_UNROLL
            for (uint32_t i = 0; i < tile; i++) {
                const vf q = vf_set1(t->q[i][d]);
                VEC_UNROLL
                for (uint32_t b = 0; b < blocks; b++) sum[i][b] = vf_fma(k[b], q, sum[i][b]);
            }
        }
    }
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        VEC_UNROLL
        for (uint32_t b = 0; b < blocks; b++) vf_store(weight + i * ATTENTION_BLOCK + 16 * b, sum[i][b]);
    }
}

/* out[d ...] = out * factor + sum over n rows of weight * V, for `vectors` x `width` dimensions from d on; fresh: out is not read. */
DEVICE void PASTE2(attention_values, KV)(const struct attention_tile *t, const float *weight, const float *factor, uint32_t fresh,
                                         const uint8_t *v_row, uint32_t n, uint32_t d, uint32_t value_dim,
                                         uint32_t tile, uint32_t vectors, uint32_t width)
{
    const uint64_t row_bytes = PASTE2(kv_row_bytes, KV)(value_dim);
    vf sum[ATTENTION_TILE][4];
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        VEC_UNROLL
        for (uint32_t c = 0; c < vectors; c++) {
            const float *out = t->out[i] + d + 16 * c;
            sum[i][c] = fresh ? vf_set1(0) : vf_mul(width == 16 ? vf_load(out) : vf_load8(out), vf_set1(factor[i]));
        }
    }
    for (uint32_t p = 0; p < n; p++) {
        vf v[4];
        VEC_UNROLL
        for (uint32_t c = 0; c < vectors; c++) v[c] = PASTE2(kv_load_v, KV)(v_row + p * row_bytes, d + 16 * c, width);
        VEC_UNROLL
        for (uint32_t i = 0; i < tile; i++) {
            const vf w = vf_set1(weight[i * ATTENTION_BLOCK + p]);
            VEC_UNROLL
            for (uint32_t c = 0; c < vectors; c++) sum[i][c] = vf_fma(v[c], w, sum[i][c]);
        }
    }
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        VEC_UNROLL
        for (uint32_t c = 0; c < vectors; c++) {
            float *out = t->out[i] + d + 16 * c;
            if (width == 16) vf_store(out, sum[i][c]);
            else             vf_store8(out, sum[i][c]);
        }
    }
}

/* Runs `tile` queries over their positions; leaves out, max and sum un-normalised.  K lanes after the last position are read and masked
 * (they lie in the cache, whose length is a multiple of 16); V rows after it are not read. */
DEVICE void PASTE2(attention_run, KV)(struct attention_tile *t, const uint8_t *k_head, const uint8_t *v_head, const struct attention *a,
                                      uint32_t tile, const uint32_t align)
{
    const uint32_t head_dim = a->head_dim, value_dim = a->value_dim, vectors = attention_vectors(tile);
    const uint64_t row_bytes = PASTE2(kv_row_bytes, KV)(head_dim), value_bytes = PASTE2(kv_row_bytes, KV)(value_dim);
    float weight[ATTENTION_TILE * ATTENTION_BLOCK] __attribute__((aligned(64))), factor[ATTENTION_TILE];
    uint32_t first = t->first[0], end = t->end[0], fresh = 1;
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        t->max[i] = ATTENTION_MASKED;
        t->sum[i] = 0;
        if (t->first[i] < first) first = t->first[i];
        if (t->end[i] > end) end = t->end[i];
    }
    if (first >= end) {
        for (uint32_t i = 0; i < tile; i++) for (uint32_t d = 0; d < value_dim; d += 8) vf_store8(t->out[i] + d, vf_set1(0));
        return;
    }
    uint32_t base = first / align * align;
    if (a->ring && base < first / a->ring * a->ring) base = first / a->ring * a->ring;
    for (uint32_t n; base < end; base += n, fresh = 0) {
        const uint32_t left = end - base, row = a->ring ? base % a->ring : base;
        n = left < ATTENTION_BLOCK ? (left + 15) / 16 * 16 : ATTENTION_BLOCK;
        if (n > ATTENTION_BLOCK - base % align) n = ATTENTION_BLOCK - base % align;
        if (a->ring && a->ring - row < n) n = a->ring - row;
        uint32_t i = 0;
        for (; i + 16 * vectors <= n; i += 16 * vectors)
            PASTE2(attention_scores, KV)(weight + i, t, k_head + (row + i) * row_bytes, head_dim, tile, vectors);
        if (vectors > 1)
            for (; i < n; i += 16) PASTE2(attention_scores, KV)(weight + i, t, k_head + (row + i) * row_bytes, head_dim, tile, 1);

        VEC_UNROLL
        for (uint32_t k = 0; k < tile; k++)
            factor[k] = attention_softmax(weight + k * ATTENTION_BLOCK, &t->max[k], &t->sum[k], base, n, t->first[k], t->end[k], a);

        const uint32_t skip = first > base ? first - base : 0, rows = (left < n ? left : n) - skip;
        const uint8_t *v_row = v_head + (row + skip) * value_bytes;
        uint32_t d = 0;
        for (; d + 16 * vectors <= value_dim; d += 16 * vectors)
            PASTE2(attention_values, KV)(t, weight + skip, factor, fresh, v_row, rows, d, value_dim, tile, vectors, 16);
        if (vectors > 1)
            for (; d + 16 <= value_dim; d += 16)
                PASTE2(attention_values, KV)(t, weight + skip, factor, fresh, v_row, rows, d, value_dim, tile, 1, 16);
        if (d < value_dim) PASTE2(attention_values, KV)(t, weight + skip, factor, fresh, v_row, rows, d, value_dim, tile, 1, 8);
    }
}

/* Heads head .. head + tile - 1 of a group over positions [first, end). */
DEVICE void PASTE2(attention_heads, KV)(float *o, float *m, float *l, const float *q, const uint8_t *k_head, const uint8_t *v_head,
                                        uint32_t first, uint32_t end, uint32_t head, const struct attention *a, uint32_t tile)
{
    struct attention_tile t;
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        t.q[i] = q + (uint64_t)(head + i) * a->head_dim;
        t.out[i] = o + (uint64_t)(head + i) * a->value_dim;
        t.first[i] = first;
        t.end[i] = end;
    }
    PASTE2(attention_run, KV)(&t, k_head, v_head, a, tile, /* align */ 16);
    VEC_UNROLL
    for (uint32_t i = 0; i < tile; i++) {
        m[head + i] = t.max[i];
        l[head + i] = t.sum[i];
    }
}

/* The `group` query heads of one KV head over the positions first <= p < end, un-normalised: o[group][value_dim] = sum of exp(s - m) v,
 * m[group] the largest score, l[group] = sum of exp(s - m).  An empty range gives o = 0, l = 0.  q: [group][head_dim].
 * group, head_dim and value_dim must be constants because they determine the register tile. */
DEVICE void PASTE2(attention_part, KV)(float *o, float *m, float *l, const float *q, const uint8_t *k_head, const uint8_t *v_head,
                                       uint32_t first, uint32_t end, uint32_t group, uint32_t head_dim, uint32_t value_dim,
                                       float scale_qk, float cap, uint32_t ring)
{
    const struct attention a = { head_dim, value_dim, scale_qk, cap, ring };
    const uint32_t tiles = (group + ATTENTION_TILE - 1) / ATTENTION_TILE, tile = (group + tiles - 1) / tiles;   /* even shares: 9 = 5 + 4 */
    uint32_t head = 0;
    for (; head + tile <= group; head += tile) PASTE2(attention_heads, KV)(o, m, l, q, k_head, v_head, first, end, head, &a, tile);
    if (group % tile) PASTE2(attention_heads, KV)(o, m, l, q, k_head, v_head, first, end, head, &a, group % tile);
}

/* One token at position n_kv - 1, the `group` query heads of one KV head.  out: [group][value_dim], q: [group][head_dim].
 * scale_qk: factor of q . k; cap: of the scores, 0: none; ring: rows of a ring-buffer cache, else 0; window: positions attended, including
 * the token's own, 0: all; sink: [group] or NULL.
 * group, head_dim and value_dim must be constants. */
DEVICE void PASTE2(attention_decode, KV)(float *out, const float *q, const uint8_t *k_head, const uint8_t *v_head, uint32_t n_kv,
                                         uint32_t group, uint32_t head_dim, uint32_t value_dim, float scale_qk, float cap, uint32_t ring,
                                         uint32_t window, const float *sink)
{
    const struct attention a = { head_dim, value_dim, scale_qk, cap, ring };
    const uint32_t tiles = (group + ATTENTION_TILE - 1) / ATTENTION_TILE, tile = (group + tiles - 1) / tiles;
    const uint32_t first = attention_first(n_kv - 1, window);
    float m[ATTENTION_TILE], l[ATTENTION_TILE];
    for (uint32_t head = 0; head < group; head += tile) {
        float *o = out + (uint64_t)head * value_dim;
        const float *qh = q + (uint64_t)head * head_dim;
        const uint32_t left = group - head;
        if (group % tile == 0 || left >= tile) PASTE2(attention_heads, KV)(o, m, l, qh, k_head, v_head, first, n_kv, 0, &a, tile);
        else                                   PASTE2(attention_heads, KV)(o, m, l, qh, k_head, v_head, first, n_kv, 0, &a, group % tile);
        for (uint32_t i = 0; i < (left < tile ? left : tile); i++)
            attention_normalise(o + (uint64_t)i * value_dim, m[i], l[i], sink ? sink + head + i : 0, value_dim);
    }
}

/* Tokens first_token .. first_token + n_tokens - 1 of a batch, all already in the cache; token t of the batch is at position n_past + t.
 * out, q: rows of token 0 of the batch, out_stride and q_stride floats apart; a row has the `group` heads of this KV head side by side.
 * Other parameters as in attention_decode().  Fastest if group * n_tokens is a multiple of ATTENTION_TILE: a partial last tile repeats its
 * last query. */
DEVICE void PASTE2(attention_prefill, KV)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride,
                                          const uint8_t *k_head, const uint8_t *v_head, uint32_t n_past, uint32_t first_token,
                                          uint32_t n_tokens, uint32_t group, uint32_t head_dim, uint32_t value_dim, float scale_qk,
                                          float cap, uint32_t ring, uint32_t window, const float *sink)
{
    const struct attention a = { head_dim, value_dim, scale_qk, cap, ring };
    const uint32_t queries = group * n_tokens;
    for (uint32_t query = 0; query < queries; query += ATTENTION_TILE) {
        struct attention_tile t;
        const uint32_t used = queries - query < ATTENTION_TILE ? queries - query : ATTENTION_TILE;
        VEC_UNROLL
        for (uint32_t i = 0; i < ATTENTION_TILE; i++) {
            const uint32_t j = query + (i < used ? i : used - 1), token = first_token + j / group, head = j % group;
            t.q[i]     = q   + (uint64_t)token * q_stride   + (uint64_t)head * head_dim;
            t.out[i]   = out + (uint64_t)token * out_stride + (uint64_t)head * value_dim;
            t.first[i] = attention_first(n_past + token, window);
            t.end[i]   = n_past + token + 1;
        }
        PASTE2(attention_run, KV)(&t, k_head, v_head, &a, ATTENTION_TILE, /* align */ ATTENTION_BLOCK);
        for (uint32_t i = 0; i < used; i++)
            attention_normalise(t.out[i], t.max[i], t.sum[i], sink ? sink + (query + i) % group : 0, value_dim);
    }
}

/* n_tokens tokens that all attend the positions below `end`, later ones included; out and q: rows of the first token.  Other parameters as
 * in attention_prefill(). */
DEVICE void PASTE2(attention_all, KV)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride, const uint8_t *k_head,
                                      const uint8_t *v_head, uint32_t end, uint32_t n_tokens, uint32_t group, uint32_t head_dim,
                                      uint32_t value_dim, float scale_qk, float cap, uint32_t ring, const float *sink)
{
    const struct attention a = { head_dim, value_dim, scale_qk, cap, ring };
    const uint32_t queries = group * n_tokens;
    for (uint32_t query = 0; query < queries; query += ATTENTION_TILE) {
        struct attention_tile t;
        const uint32_t last = queries - 1 - query, used = last < ATTENTION_TILE ? last + 1 : ATTENTION_TILE;
        VEC_UNROLL
        for (uint32_t i = 0; i < ATTENTION_TILE; i++) {
            const uint32_t j = query + (i < last ? i : last);
            t.q[i] = q + (uint64_t)(j / group) * q_stride + (uint64_t)(j % group) * head_dim;
            t.out[i] = out + (uint64_t)(j / group) * out_stride + (uint64_t)(j % group) * value_dim;
            t.first[i] = 0;
            t.end[i] = end;
        }
        PASTE2(attention_run, KV)(&t, k_head, v_head, &a, ATTENTION_TILE, /* align */ ATTENTION_BLOCK);
        for (uint32_t i = 0; i < used; i++)
            attention_normalise(t.out[i], t.max[i], t.sum[i], sink ? sink + (query + i) % group : 0, value_dim);
    }
}
