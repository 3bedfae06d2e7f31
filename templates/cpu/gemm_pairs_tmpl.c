/* gemm_pairs_tmpl.c -- products with rows of bfloat16, in one part or two: weights become pairs of bfloat16 columns.  Included once per
 * format with FORMAT defined, after gemv_tmpl.c for the same format.  Contract: docs/kernels.md.  A panel of rows is decoded once for all
 * tokens, then multiplied by tiles.h. */
#ifndef FORMAT
#include "gemv_tmpl.c"
#endif
#include "tiles.h"

#define F(name) PASTE2(name, FORMAT)

/* A panel being made: blocks b0 .. b0 + n - 1 of 32 columns, for `groups` groups.  With two parts the remainders lie PARTS_LEFT bytes
 * further. */
struct F(panel) {
    uint8_t *to;
    const uint8_t *group;            /* the first group */
    uint64_t group_bytes;
    uint32_t cols, b0, n, groups, made;          /* made: pieces done, of n * groups */
#if !F(IS_FLOAT)
    const int8_t *small[GEMM_GROUPS];
    _Alignas(64) int8_t room[GEMM_GROUPS][512];
#endif
};
DEVICE void F(panel_begin)(struct F(panel) *p, uint8_t *to, const uint8_t *group, const uint32_t cols, const uint32_t b0, const uint32_t n,
                           const uint32_t groups)
{
    p->to = to;
    p->group = group;
    p->group_bytes = F(group_bytes)(cols);
    p->cols = cols;
    p->b0 = b0;
    p->n = n;
    p->groups = groups;
    p->made = 0;
#if !F(IS_FLOAT)
    UNROLL for (uint32_t g = 0; g < GEMM_GROUPS; g++) p->small[g] = 0;
#endif
}

/* Makes one piece: 32 columns of a group. */
DEVICE void F(panel_piece)(struct F(panel) *p, const uint32_t groups, const uint32_t parts)
{
    const uint32_t b = p->b0 + p->made / groups, g = p->made % groups;
    const uint8_t *group = p->group + g * p->group_bytes;
    uint8_t *to = p->to + 1024 * p->made++;
#if F(IS_FLOAT)
    const uint8_t *from = group + (uint64_t)b * 32 * 16 * F(ELEMENT_BYTES);
    UNROLL for (uint32_t k = 0; k < 16; k += 2) {
        vi pairs[2];
        UNROLL for (uint32_t i = 0; i < 2; i++) pairs[i] = F(pairs)(from + (k + i) * 32 * F(ELEMENT_BYTES));
        pairs_put(to, k, pairs[0], pairs[1]);
        if (parts < 2) continue;
        UNROLL for (uint32_t i = 0; i < 2; i++) {
            const uint8_t *const column = from + (k + i) * 32 * F(ELEMENT_BYTES);
            pairs[i] = pairs_left(pairs[i], F(weight)(column), F(weight)(column + 16 * F(ELEMENT_BYTES)));
        }
        pairs_put(to + PARTS_LEFT, k, pairs[0], pairs[1]);
    }
#else
    (void)parts;
    const uint32_t subs = 32 / F(SUB);
    vi codes[8];
    vf scale[2], min[2], zero[2];
    const uint8_t *s = F(scales_of)(&p->small[g], p->room[g], F(group_scales)(group, p->cols), b);
    F(codes_at)(codes, group + (uint64_t)b * F(CODE_BYTES), p->small[g], b % (F(BLOCK) / 32));
    F(scales_at)(scale, min, s, p->small[g], b % (F(BLOCK) / 32));
    UNROLL for (uint32_t j = 0; j < subs; j++) {                            /* the value of code 0 */
        const vf offset = vf_mul(scale[j], vf_set1(-(float)F(OFFSET)));
        zero[j] = F(HAS_MIN) ? min[j] : offset;
    }
    UNROLL for (uint32_t k = 0; k < 16; k += 2) {
        const uint32_t j = 2 * k / F(SUB);
        vf column[4];
        UNROLL for (uint32_t i = 0; i < 4; i++)
            column[i] = vf_fma(vf_from_vi(code_column(codes[k / 2], i, F(BITS))), scale[j], zero[j]);
        pairs_put(to, k, pairs_of(column[0], column[1]), pairs_of(column[2], column[3]));
    }
#endif
}
DEVICE void F(panel_finish)(struct F(panel) *p, const uint32_t groups, const uint32_t parts)
{
    while (p->made < p->n * groups) F(panel_piece)(p, groups, parts);
}
#if !F(IS_FLOAT)
_Static_assert(!F(HAS_MIN) || F(OFFSET) == 0, "a format has minimums or an offset");
#endif

#ifdef FORGE_MATRIX_TILES
/* Multiplies one or two tiles of tokens by a panel and makes pieces of the next panel meanwhile, because the vector unit is idle.  x_left:
 * bytes from a row's first part to its second.  Products of two second parts, about 2^-18 of the whole, are left out. */
DEVICE void F(panel_pass)(struct tiles *room, float *y, const uint32_t y_stride, const struct F(panel) *p, const uint8_t *x,
                          const uint64_t x_stride, const uint64_t x_left, const int high, struct F(panel) *next, uint32_t *credit,
                          const uint32_t steps, const uint32_t parts)
{
    const uint32_t groups = GEMM_GROUPS, pieces = next ? next->n * groups : 0;
    tiles_first(room, y, y_stride, p->b0 > 0, high, groups);
    for (uint32_t b = 0; b < p->n; b++) {
        const uint8_t *const weights = p->to + PAIRS_BYTES(groups) * (uint64_t)b, *const rows = x + 64 * (uint64_t)b;
        tiles_step(room, weights, rows, x_stride, high, groups);
        if (parts > 1) tiles_step(room, weights + PARTS_LEFT, rows, x_stride, high, groups);
        if (parts > 1) tiles_step(room, weights, rows + x_left, x_stride, high, groups);
        for (*credit += pieces; *credit >= steps && next->made < pieces; *credit -= steps) F(panel_piece)(next, groups, parts);
    }
    tiles_last(room, y, y_stride, high, groups);
}
/* Multiplies all tokens by a panel; next: the panel that is made meanwhile, or NULL. */
DEVICE void F(panel_times)(float *y, const uint32_t y_stride, const struct F(panel) *p, const uint8_t *x, const uint64_t x_stride,
                           const uint64_t x_left, const uint32_t n_tokens, struct F(panel) *next, const uint32_t parts)
{
    struct tiles room;
    const uint32_t steps = (n_tokens + 31) / 32 * p->n;
    uint32_t t = 0, credit = 0;
    if (n_tokens >= 32) tiles_begin(&room, 16, 16);
    for (; t + 32 <= n_tokens; t += 32)
        F(panel_pass)(&room, y + (uint64_t)t * y_stride, y_stride, p, x + t * x_stride, x_stride, x_left, 1, next, &credit, steps, parts);
    const uint32_t left = n_tokens - t;
    if (left) tiles_begin(&room, left < 16 ? left : 16, left > 16 ? left - 16 : 16);
    y += (uint64_t)t * y_stride;
    x += t * x_stride;
    if (left > 16) F(panel_pass)(&room, y, y_stride, p, x, x_stride, x_left, 1, next, &credit, steps, parts);
    else if (left) F(panel_pass)(&room, y, y_stride, p, x, x_stride, x_left, 0, next, &credit, steps, parts);
    tiles_end(&room);
    if (next) F(panel_finish)(next, GEMM_GROUPS, parts);
}
/* The same for one group, where groups do not fill a panel. */
DEVICE void F(panel_times_one)(float *y, const uint32_t y_stride, const struct F(panel) *p, const uint8_t *x, const uint64_t x_stride,
                               const uint64_t x_left, const uint32_t n_tokens, const uint32_t parts)
{
    struct tiles room;
    for (uint32_t t = 0; t < n_tokens; t += 16) {
        tiles_begin(&room, n_tokens - t < 16 ? n_tokens - t : 16, 16);
        tiles_first(&room, y + (uint64_t)t * y_stride, y_stride, p->b0 > 0, 0, 1);
        for (uint32_t b = 0; b < p->n; b++) {
            const uint8_t *const weights = p->to + 1024 * (uint64_t)b, *const rows = x + t * x_stride + 64 * (uint64_t)b;
            tiles_step(&room, weights, rows, x_stride, 0, 1);
            if (parts > 1) tiles_step(&room, weights + PARTS_LEFT, rows, x_stride, 0, 1);
            if (parts > 1) tiles_step(&room, weights, rows + x_left, x_stride, 0, 1);
        }
        tiles_last(&room, y + (uint64_t)t * y_stride, y_stride, 0, 1);
    }
    tiles_end(&room);
}
#else
DEVICE void F(panel_times)(float *y, const uint32_t y_stride, const struct F(panel) *p, const uint8_t *x, const uint64_t x_stride,
                           const uint64_t x_left, const uint32_t n_tokens, struct F(panel) *next, const uint32_t parts)
{
    pairs_tiles_two(y, y_stride, p->to, x, x_stride, p->n, p->b0 > 0, n_tokens);
    if (parts > 1) pairs_tiles_two(y, y_stride, p->to + PARTS_LEFT, x, x_stride, p->n, 1, n_tokens);
    if (parts > 1) pairs_tiles_two(y, y_stride, p->to, x + x_left, x_stride, p->n, 1, n_tokens);
    if (next) F(panel_finish)(next, GEMM_GROUPS, parts);
}
DEVICE void F(panel_times_one)(float *y, const uint32_t y_stride, const struct F(panel) *p, const uint8_t *x, const uint64_t x_stride,
                               const uint64_t x_left, const uint32_t n_tokens, const uint32_t parts)
{
    pairs_tiles_one(y, y_stride, p->to, x, x_stride, p->n, p->b0 > 0, n_tokens);
    if (parts > 1) pairs_tiles_one(y, y_stride, p->to + PARTS_LEFT, x, x_stride, p->n, 1, n_tokens);
    if (parts > 1) pairs_tiles_one(y, y_stride, p->to, x + x_left, x_stride, p->n, 1, n_tokens);
}
#endif

/* Takes all panels of a range of columns before the next range, so that this part of x stays in cache.  Two panels alternate in the
 * scratch; with two parts they are half as wide. */
DEVICE void F(panels)(float *y, uint32_t y_stride, const uint8_t *w, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows, uint32_t cols,
                      uint8_t *scratch, const uint32_t parts)
{
    enum { ROWS = 16 * GEMM_GROUPS };
    const uint64_t bytes = F(group_bytes)(cols), x_left = XB_LEFT((uint64_t)cols);
    const uint64_t x_stride = parts > 1 ? XB_PARTS_STRIDE((uint64_t)cols) : XB_STRIDE((uint64_t)cols);
    const uint32_t BLOCKS = GEMM_PAIRS_COLS / 32 / parts, blocks = cols / 32, rows = n_rows / ROWS * ROWS;
    struct F(panel) panels[2];
    uint32_t turn = 0;
    if (rows) {
        F(panel_begin)(&panels[0], scratch, w, cols, 0, blocks < BLOCKS ? blocks : BLOCKS, GEMM_GROUPS);
        F(panel_finish)(&panels[0], GEMM_GROUPS, parts);
    }
    for (uint32_t b0 = 0; b0 < blocks && rows; b0 += BLOCKS)
        for (uint32_t r = 0; r < rows; r += ROWS, turn = !turn) {
            const uint32_t next_r = r + ROWS < rows ? r + ROWS : 0, next_b = next_r ? b0 : b0 + BLOCKS;
            struct F(panel) *next = next_b < blocks ? &panels[!turn] : 0;
            if (next) F(panel_begin)(next, scratch + !turn * BLOCKS * PAIRS_BYTES(GEMM_GROUPS), w + next_r / 16 * bytes, cols, next_b,
                                     blocks - next_b < BLOCKS ? blocks - next_b : BLOCKS, GEMM_GROUPS);
            F(panel_times)(y + r, y_stride, &panels[turn], x + 64 * (uint64_t)b0, x_stride, x_left, n_tokens, next, parts);
        }
    for (uint32_t r = rows; r < n_rows; r += 16)
        for (uint32_t b0 = 0; b0 < blocks; b0 += BLOCKS) {
            F(panel_begin)(&panels[0], scratch, w + r / 16 * bytes, cols, b0, blocks - b0 < BLOCKS ? blocks - b0 : BLOCKS, 1);
            F(panel_finish)(&panels[0], 1, parts);
            F(panel_times_one)(y + r, y_stride, &panels[0], x + 64 * (uint64_t)b0, x_stride, x_left, n_tokens, parts);
        }
}
SHARED void F(gemm_pairs_groups)(float *y, uint32_t y_stride, const uint8_t *w, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                                 uint32_t cols, uint8_t *scratch)
{
    F(panels)(y, y_stride, w, x, n_tokens, n_rows, cols, scratch, 1);
}
DEVICE void F(gemm_pairs)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                          uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    F(gemm_pairs_groups)(y, y_stride, w + first_row / 16 * F(group_bytes)(cols), x, n_tokens, n_rows, cols, scratch);
}

#if F(IS_FLOAT)
SHARED void F(gemm_parts_groups)(float *y, uint32_t y_stride, const uint8_t *w, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                                 uint32_t cols, uint8_t *scratch)
{
    F(panels)(y, y_stride, w, x, n_tokens, n_rows, cols, scratch, 2);
}
DEVICE void F(gemm_parts)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                          uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    F(gemm_parts_groups)(y, y_stride, w + first_row / 16 * F(group_bytes)(cols), x, n_tokens, n_rows, cols, scratch);
}
/* One token and `groups` groups; several sums hide the latency of the products. */
DEVICE void F(stream_pairs)(float *y, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t groups)
{
    enum { SUMS = 4 };
    const uint32_t chains = SUMS / groups, bytes = 32 * F(ELEMENT_BYTES);
    const uint64_t group_bytes = F(group_bytes)(cols);
    const uint8_t *const end = p + group_bytes;
    vf sum[SUMS];
    UNROLL for (uint32_t i = 0; i < SUMS; i++) sum[i] = vf_set1(0);
    for (uint32_t c = 0; c < cols; c += 32, p += 16 * bytes) {
        const uint8_t *const next = ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes);
        UNROLL for (uint32_t k = 0; k < 16; k++)
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                const uint64_t at = k * bytes + g * group_bytes;
                const uint32_t i = k % chains * groups + g;
                if (FROM_MEMORY) prefetch(next + at, bytes);
                sum[i] = dot_pairs(sum[i], F(pairs)(p + at), x + 2 * c + 4 * k);
            }
    }
    UNROLL for (uint32_t g = 0; g < groups; g++) {
        UNROLL for (uint32_t i = 1; i < chains; i++) sum[g] = vf_add(sum[g], sum[i * groups + g]);
        vf_store(y + 16 * g, sum[g]);
    }
}
SHARED void F(gemv_pairs_groups)(float *y, const uint8_t *p, const uint8_t *x, uint32_t n_rows, uint32_t cols)
{
    enum { GROUPS = GEMV_GROUPS };
    uint32_t r = 0;
    for (; r + 16 * GROUPS <= n_rows; r += 16 * GROUPS, p += GROUPS * F(group_bytes)(cols)) F(stream_pairs)(y + r, p, x, cols, GROUPS);
    for (; r < n_rows; r += 16, p += F(group_bytes)(cols)) F(stream_pairs)(y + r, p, x, cols, 1);
}
DEVICE void F(gemv_pairs)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_pairs_groups)(y, w + first_row / 16 * F(group_bytes)(cols), x, n_rows, cols);
}
#endif
#undef F
