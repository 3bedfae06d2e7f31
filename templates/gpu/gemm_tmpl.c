/* gemm_tmpl.c -- products of prefill on the matrix unit: y[token][row] = x[token] . w[row].  Included once per format and shape of a
 * group's tile, after formats/FORMAT.h, with FORMAT, GEMM_TOKENS, GEMM_ROWS and GEMM_THREADS defined (the last three are undefined at the
 * end).  Defines gemm_FORMAT_<tokens>x<rows>_<threads> and, for the two matrices of a GLU, gemm_pair_FORMAT_<tokens>x<rows>_<threads>.
 * GEMM_STAGES and GEMM_TOKEN_TILE are the same in the whole program.
 *
 * A group computes a tile of GEMM_TOKENS x GEMM_ROWS in steps of 64 columns.  x and weights of a step are in LDS as swizzled 16-bit rows of
 * 128 bytes; each wave multiplies its part of the tile.  While a step is multiplied, later steps are loaded: by asynchronous copies on
 * sm_90 (a ring of slots, gemm_sizes.h), through registers elsewhere.  Quantised weights stay packed in registers and are decoded to f16
 * one or two steps ahead.
 * sm_90a: if the shape allows (GEMM_GROUP), four waves multiply at once from LDS, and decode meanwhile.
 * Rows and tokens beyond the end are read as copies of the last ones; their results are not stored. */
#ifndef FORMAT
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#ifndef GEMM_TOKENS
#define GEMM_TOKENS 128
#endif
#ifndef GEMM_ROWS
#define GEMM_ROWS 128
#endif
#ifndef GEMM_THREADS
#define GEMM_THREADS 128
#endif
#include "launch.h"
#include "mma.h"
#include "gemm_sizes.h"
#include "row_stride.h"

#ifndef FORGE_GEMM_COMMON
#define FORGE_GEMM_COMMON
#ifndef GEMM_STAGES
#define GEMM_STAGES GEMM_STAGES_OF(FAMILY)
#endif
/* With more than one stage, neighbouring lanes load the packed units of this many neighbouring steps (1 or 2) of a row, because they are
 * neighbours in memory. */
#ifndef GEMM_UNIT_STEPS
#define GEMM_UNIT_STEPS 1
#endif
/* Which GEMM_TOKENS tokens a group takes.  By default x of the grid, so that groups that run together share rows of weights. */
#ifndef GEMM_TOKEN_TILE
#define GEMM_TOKEN_TILE group_x()
#endif
STATIC_ASSERT(!COPIES_REACH_LDS || GEMM_STAGES >= 2, "an asynchronous copy needs a slot that is not being read");
STATIC_ASSERT(COPIES_REACH_LDS || GEMM_STAGES <= 2, "copies through registers are one step ahead");

/* Constants of the shape.  GEMM_GROUP: four waves multiply together. */
#define GEMM_GROUP       (MMA_GROUP && GEMM_THREADS % 128 == 0 && GEMM_TOKENS % (GEMM_THREADS / 2) == 0 && GEMM_ROWS % MMA_GROUP_B == 0)
#define GEMM_TILES_T     (GEMM_TOKENS / 16 / G(GEMM_PARTS_T_))            /* 16 x 16 tiles of a wave: along tokens, along rows */
#define GEMM_TILES_R     (GEMM_ROWS / 16 / G(GEMM_PARTS_R_))
/* 16-byte pieces that a thread copies per step and plane, or one less. */
#define GEMM_X_COPIES    ((GEMM_TOKENS * 8 + GEMM_THREADS - 1) / GEMM_THREADS)
#define GEMM_W_COPIES    ((GEMM_ROWS * 8 + GEMM_THREADS - 1) / GEMM_THREADS)
#define GEMM_W_UNITS     ((GEMM_ROWS + GEMM_THREADS - 1) / GEMM_THREADS)  /* rows a thread decodes per step, if it has any */
/* 1: a lane has registers for two sets of operands besides the sums and the loads in flight, so that one set is loaded while the other is
 * multiplied. */
#define GEMM_AHEAD \
    (2 * MMA_WIDE * MMA_WORDS * (GEMM_TILES_T + GEMM_TILES_R) + MMA_ACC * GEMM_TILES_T * GEMM_TILES_R + \
     (COPIES_REACH_LDS ? 0 : 4 * GEMM_X_COPIES + 16 * GEMM_W_UNITS) \
     <= (COPIES_REACH_LDS ? 192 : 224))

/* The inputs of a group.  Pointers to the first token or row of its tile; `last`: number of the last one that exists, counted from
 * there. */
#ifdef SLICES
/* With a stack of matrices, row i of a tile belongs to an entry: token * slices + number of the token's slice.  list: the entries that use
 * this matrix; NULL: all tokens use it for their slice `slice`.  shared: the slices of a token share one row of x; otherwise each has its
 * own. */
struct gemm_x { const uint8_t *x; uint32_t stride, last, first, slices, slice, shared; const uint32_t *list; };
DEVICE uint32_t gemm_entry(const struct gemm_x *x, uint32_t i)
{
    return x->list ? ((const GLOBAL uint32_t *)x->list)[i] : (x->first + i) * x->slices + x->slice;
}
#else
struct gemm_x { const uint8_t *x; uint32_t stride, last; };
#endif
/* With a pair, LDS rows come alternately, 16 at a time, from both matrices, so that neighbouring 16 x 16 tiles of a wave are gate and
 * up. */
struct gemm_w { const uint8_t *w, *up; uint32_t row_bytes, last, pair; };

DEVICE uint32_t min_u32(uint32_t x, uint32_t y) { return x < y ? x : y; }
DEVICE const uint8_t *gemm_row(const struct gemm_w *w, const uint32_t row)
{
    const uint8_t *from = w->pair && row / 16 % 2 ? w->up : w->w;
    return from + min_u32(w->pair ? row / 32 * 16 + row % 16 : row, w->last) * w->row_bytes;
}
/* Names of a format, and of a format and shape. */
#define GEMM_JOIN2(name, format) name##format
#define GEMM_JOIN(name, format)  GEMM_JOIN2(name, format)
#define GEMM_JOIN_SHAPE2(name, format, tokens, rows, threads) name##format##_##tokens##x##rows##_##threads
#define GEMM_JOIN_SHAPE(name, format, tokens, rows, threads)  GEMM_JOIN_SHAPE2(name, format, tokens, rows, threads)
#define GEMM_IS_BF16_bf16 1
#endif
#define F(name) GEMM_JOIN(name, FORMAT)
#ifdef GEMM_SLICES
#define G(name) GEMM_JOIN_SHAPE(name##slices_, FORMAT, GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS)
#else
#define G(name) GEMM_JOIN_SHAPE(name, FORMAT, GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS)
#endif

/* A group that is alone has products of two steps under way (gemm_sizes.h).  COPIES_AHEAD: how many steps ahead copies begin, in the slot
 * of the previous step or, if alone, of the step before that. */
enum { G(GEMM_ALONE_) = GEMM_IS_ALONE(GEMM_GROUP, F(UNIT_COLS_) == 8, GEMM_THREADS) };
enum { G(GEMM_STAGES_) = GEMM_RING(GEMM_STAGES, G(GEMM_ALONE_), GEMM_TOKENS) };
enum { G(GEMM_COPIES_AHEAD_) = G(GEMM_STAGES_) - 1 - G(GEMM_ALONE_) };
/* The number of parts in which the waves share tokens, columns of a step and rows. */
enum { G(GEMM_PARTS_T_) = GEMM_GROUP ? GEMM_THREADS / WAVE : GEMM_TOKEN_WAVES(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY) };
enum { G(GEMM_PARTS_K_) = GEMM_GROUP ? 1 : GEMM_K_WAVES(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY) };
STATIC_ASSERT(GEMM_TOKENS % 16 == 0 && GEMM_ROWS % 16 == 0 && G(GEMM_PARTS_T_) > 0, "each wave takes multiples of 16 tokens and rows");
enum { G(GEMM_PARTS_R_) = GEMM_THREADS / WAVE / G(GEMM_PARTS_T_) / G(GEMM_PARTS_K_) };

struct G(gemm_tile_) { struct mma_acc acc[GEMM_TILES_T][GEMM_TILES_R]; };
/* Whether this thread has a row in round i, if `threads` rows are taken per round and there are n.  Equal in a wave: rows are multiples of
 * 16, and 16, 8 or one threads copy a row. */
DEVICE uint32_t G(gemm_has_)(const uint32_t i, const uint32_t threads, const uint32_t n)
{
    return (i + 1) * threads <= n || i * threads + wave_id() * (WAVE * threads / GEMM_THREADS) < n;
}
/* The pieces of x that this thread copies for a step.  at: their place in the first step. */
DEVICE uint32_t G(gemm_x_at_)(const struct gemm_x *x, const uint32_t i)
{
#ifdef GEMM_SLICES
    const uint32_t entry = gemm_entry(x, min_u32(thread_x() / 8 + i * (GEMM_THREADS / 8), x->last));
    return (x->shared ? entry / x->slices : entry) * x->stride + thread_x() % 8 * 16;
#endif
    return min_u32(thread_x() / 8 + i * (GEMM_THREADS / 8), x->last) * x->stride + thread_x() % 8 * 16;
}
DEVICE void G(gemm_x_begin_)(struct copy *c, uint32_t *at, uint8_t *slot, const struct gemm_x *x, const uint32_t step)
{
    uint32_t all = step * GEMM_ROW_LDS;
    PIN_UNIFORM(all);
    const uint8_t *from = x->x + all;
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++) PIN_OFFSET(at[i]);
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++)
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_TOKENS))
            copy_begin(&c[i], slot + lds_piece(thread_x() / 8 + i * (GEMM_THREADS / 8), GEMM_ROW_LDS, thread_x() % 8, 1), from + at[i], 1);
}
DEVICE void G(gemm_x_end_)(const struct copy *c, uint8_t *slot)
{
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++)
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_TOKENS))
            copy_end(&c[i], slot + lds_piece(thread_x() / 8 + i * (GEMM_THREADS / 8), GEMM_ROW_LDS, thread_x() % 8, 1));
}

/* The first token, in the group's tile, of this wave's tiles i. */
DEVICE uint32_t G(gemm_token_)(const uint32_t i)
{
    if (GEMM_GROUP) return (wave_id() / MMA_GROUP_WAVES * GEMM_TILES_T + i) * MMA_GROUP_A + wave_id() % MMA_GROUP_WAVES * 16;
    return (wave_id() / G(GEMM_PARTS_K_) / G(GEMM_PARTS_R_) * GEMM_TILES_T + i) * 16;
}
/* This wave's part of the rows, and of the columns of a step. */
DEVICE uint32_t G(gemm_part_r_)(void) { return wave_id() / G(GEMM_PARTS_K_) % G(GEMM_PARTS_R_); }
DEVICE uint32_t G(gemm_part_k_)(void) { return wave_id() % G(GEMM_PARTS_K_); }

struct G(gemm_operands_) { struct mma_wide_a a[GEMM_TILES_T]; struct mma_wide_b b[GEMM_TILES_R]; };
/* Loads a wave's operands of MMA_WIDE_COLS columns, from piece `piece` on, of its rows of x and of weights. */
DEVICE void G(gemm_load_)(struct G(gemm_operands_) *o, const uint8_t *x, const uint8_t *w, const uint32_t piece)
{
    UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_load_wide_b_swizzled(&o->b[r], w + r * (16 * GEMM_ROW_LDS), piece);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++) mma_load_wide_a_swizzled(&o->a[t], x + t * (16 * GEMM_ROW_LDS), piece);
}
/* Multiplies one step of 64 columns, or this wave's part of them.  weight_digits: planes of the weights.
 * Sums are pinned; otherwise the compiler would load all operands first, which needs more registers than there are. */
DEVICE void G(gemm_multiply_)(struct G(gemm_tile_) *y, const uint8_t *x, const uint8_t *w, const uint32_t weight_digits,
                              const uint32_t bf16)
{
    struct G(gemm_operands_) o[2];
    const uint32_t n_parts = GEMM_STEP_COLS / MMA_WIDE_COLS / G(GEMM_PARTS_K_), n_loads = n_parts * weight_digits,
                   first = G(gemm_part_k_)() * n_parts;
    x += G(gemm_token_)(0) * GEMM_ROW_LDS;
    w += G(gemm_part_r_)() * (GEMM_TILES_R * 16 * GEMM_ROW_LDS);
    UNROLL for (uint32_t n = 0; n < n_loads + GEMM_AHEAD; n++) {
        const uint32_t plane = n % weight_digits, m = n - GEMM_AHEAD;
        if (n < n_loads) G(gemm_load_)(&o[n % 2], x, w + plane * (GEMM_ROWS * GEMM_ROW_LDS), (first + n / weight_digits) * (2 * MMA_WIDE));
        if (n < GEMM_AHEAD) continue;
        UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
            UNROLL for (uint32_t k = 0; k < MMA_WIDE; k++)               /* outermost, so that no product waits for the product before */
                UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) {
                    if (bf16) mma_bf16(&y->acc[t][r], &o[m % 2].a[t].k[k], &o[m % 2].b[r].k[k]);
                    else mma_f16(&y->acc[t][r], &o[m % 2].a[t].k[k], &o[m % 2].b[r].k[k]);
                    mma_pin(&y->acc[t][r]);
                }
    }
}
/* The same by four waves at once; the products are still in flight afterwards. */
DEVICE void G(gemm_multiply_group_)(struct G(gemm_tile_) *y, const uint8_t *x, const uint8_t *w, const uint32_t weight_digits,
                                    const uint32_t bf16)
{
    x += wave_id() / MMA_GROUP_WAVES * (GEMM_TILES_T * MMA_GROUP_A * GEMM_ROW_LDS);
    mma_group_begin();
    UNROLL for (uint32_t plane = 0; plane < weight_digits; plane++)
        UNROLL for (uint32_t k = 0; k < 4; k++)
            UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
                UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r += 8) {
                    const uint8_t *a = x + t * (MMA_GROUP_A * GEMM_ROW_LDS);
                    const uint8_t *b = w + plane * (GEMM_ROWS * GEMM_ROW_LDS) + r * (16 * GEMM_ROW_LDS);
                    if (bf16) mma_group_bf16(&y->acc[t][r], a, b, 2 * k);
                    else mma_group_f16(&y->acc[t][r], a, b, 2 * k);
                }
    mma_group_commit();
}
DEVICE void G(gemm_wait_group_)(struct G(gemm_tile_) *y)
{
    mma_group_wait(0);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
        UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_group_sum(&y->acc[t][r]);
}
/* Adds up the sums of two waves that share columns.  Afterwards the first wave has tiles 0, 2 .. along tokens, the second tiles 1, 3 ..
 * The LDS of operands must be free. */
DEVICE void G(gemm_add_up_)(struct G(gemm_tile_) *y)
{
    const uint32_t second = G(gemm_part_k_)();
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t += 2) {
        uint8_t *to = lds() + wave_id() * (GEMM_TILES_R * MMA_ACC * WAVE * 4) + lane_id() * 16;
        const uint8_t *from = lds() + (wave_id() ^ 1) * (GEMM_TILES_R * MMA_ACC * WAVE * 4) + lane_id() * 16;
        barrier();
        UNROLL for (uint32_t i = t; i < t + 2 && i < GEMM_TILES_T; i++)
            if (i % 2 != second)
                UNROLL for (uint32_t e = 0; e < GEMM_TILES_R * MMA_ACC; e += 4) {
                    const float *x = y->acc[i][e / MMA_ACC].x + e % MMA_ACC;
                    const f32x4 v = { x[0], x[1], x[2], x[3] };
                    *(f32x4 *)(void *)(to + e * (WAVE * 4)) = v;
                }
        barrier();
        UNROLL for (uint32_t i = t; i < t + 2 && i < GEMM_TILES_T; i++)
            if (i % 2 == second)
                UNROLL for (uint32_t e = 0; e < GEMM_TILES_R * MMA_ACC; e += 4) {
                    const f32x4 v = *(const f32x4 *)(const void *)(from + e * (WAVE * 4));
                    UNROLL for (uint32_t n = 0; n < 4; n++) y->acc[i][e / MMA_ACC].x[e % MMA_ACC + n] += v[n];
                }
    }
}
/* Passes a wave's values to the sink, all of a token before the next token's.  Rows after the last are checked only if a tile can have
 * some, so that in most kernels a lane has one branch per token.  With `pairs`, neighbouring tiles are gate and up of the same rows;
 * otherwise `sink` takes each value. */
#ifdef GEMM_SLICES
DEVICE void G(gemm_hand_on_)(const struct forge_kernel_args a, const struct G(gemm_tile_) *y, const float scale, const struct gemm_x *x,
                             const uint32_t first_r, const uint32_t n_tokens, const uint32_t rows, row_sink *sink, pair_sink *pairs)
#else
DEVICE void G(gemm_hand_on_)(const struct forge_kernel_args a, const struct G(gemm_tile_) *y, const float scale, const uint32_t first_t,
                             const uint32_t first_r, const uint32_t n_tokens, const uint32_t rows, row_sink *sink, pair_sink *pairs)
#endif
{
    const uint32_t n = pairs ? 2 : 1, whole = rows % (GEMM_ROWS / n) == 0;
    const uint32_t r0 = first_r + G(gemm_part_r_)() * (GEMM_TILES_R / n * 16);
    UNROLL for (uint32_t i = 0; i < GEMM_TILES_T; i++) {
        if (i % G(GEMM_PARTS_K_) != G(gemm_part_k_)()) continue;
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
#ifdef GEMM_SLICES
            const uint32_t row = G(gemm_token_)(i) + mma_row(mma_of_row(g, 0));
            if (row >= n_tokens) continue;
            const uint32_t entry = gemm_entry(x, row), t = entry / x->slices, slice0 = entry % x->slices * rows;
#else
            const uint32_t t = first_t + G(gemm_token_)(i) + mma_row(mma_of_row(g, 0));
            if (t >= n_tokens) continue;
#endif
            UNROLL for (uint32_t j = 0; j < GEMM_TILES_R; j += n)
                UNROLL for (uint32_t m = 0; m < MMA_ACC / MMA_ROWS; m++) {
                    const uint32_t e = mma_of_row(g, m), r = r0 + 16 * (j / n) + mma_col(e);
                    if (!whole && r >= rows) continue;
#ifdef GEMM_SLICES
                    if (pairs) pairs(a, t, slice0 + r, y->acc[i][j].x[e] * scale, y->acc[i][j + n - 1].x[e] * scale);
                    else sink(a, t, slice0 + r, y->acc[i][j].x[e] * scale);
#else
                    if (pairs) pairs(a, t, r, y->acc[i][j].x[e] * scale, y->acc[i][j + n - 1].x[e] * scale);
                    else sink(a, t, r, y->acc[i][j].x[e] * scale);
#endif
                }
        }
    }
}

#if F(GEMM_IS_BF16_)
enum { G(GEMM_BF16_) = 1 };
#else
enum { G(GEMM_BF16_) = 0 };
#endif
/* COPIED: the weights are copied unchanged; DIGITS: their planes in LDS; SLOTS: of the ring; LEAD: how many turns of gemm_pass_ ahead of
 * its own turn the weights of a step begin to be decoded. */
#if F(UNIT_COLS_) == 8
enum { G(GEMM_COPIED_) = 1, G(GEMM_DIGITS_) = 1, G(GEMM_LEAD_) = 1 };
#elif F(UNIT_COLS_) == 64
enum { G(GEMM_COPIED_) = 0, G(GEMM_DIGITS_) = 1, G(GEMM_LEAD_) = G(GEMM_STAGES_) < 2 ? 1 : GEMM_UNIT_STEPS };
#else
enum { G(GEMM_COPIED_) = 0, G(GEMM_DIGITS_) = 2, G(GEMM_LEAD_) = 1 };
#endif
enum { G(GEMM_SLOTS_) = GEMM_WEIGHT_SLOTS(G(GEMM_STAGES_), G(GEMM_COPIED_), G(GEMM_DIGITS_), GEMM_UNIT_STEPS) };
DEVICE uint8_t *G(gemm_w_slot_)(uint8_t *slots, const uint32_t slot) { return slots + slot * (G(GEMM_DIGITS_) * GEMM_ROWS * GEMM_ROW_LDS); }

#if F(UNIT_COLS_) == 8
struct G(gemm_weights_) { struct copy c[GEMM_W_COPIES]; };
/* 16-bit rows are copied unchanged: begin starts the copies of a step to slot `slot`, end completes them. */
DEVICE void G(gemm_begin_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t step, const uint32_t slot,
                           const uint32_t units)
{
    if (step >= units) return;
    UNROLL for (uint32_t i = 0; i < GEMM_W_COPIES; i++) {
        const uint32_t piece = thread_x() % 8, row = thread_x() / 8 + i * (GEMM_THREADS / 8);
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_ROWS))
            copy_begin(&n->c[i], G(gemm_w_slot_)(slots, slot) + lds_piece(row, GEMM_ROW_LDS, piece, 1),
                       gemm_row(w, row) + (step * 8 + piece) * 16, 1);
    }
}
DEVICE void G(gemm_end_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t step, const uint32_t units)
{
    (void)w;
    if (step >= units) return;
    UNROLL for (uint32_t i = 0; i < GEMM_W_COPIES; i++)
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_ROWS))
            copy_end(&n->c[i], G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_))
                     + lds_piece(thread_x() / 8 + i * (GEMM_THREADS / 8), GEMM_ROW_LDS, thread_x() % 8, 1));
}
#elif F(UNIT_COLS_) == 64
struct G(gemm_weights_) { struct F(unit_) u[GEMM_W_UNITS]; };
/* Packed units: begin loads those of a turn, end decodes them.  They stay packed until then, because a pin at the load would wait on AMD.
 * LEAD turns load as many steps; if there are two, each turn loads half of the rows of both, so that lanes 2l and 2l + 1 load 32 bytes from
 * one row. */
DEVICE uint32_t G(gemm_unit_row_)(const uint32_t turn, const uint32_t i)
{
    return thread_x() / G(GEMM_LEAD_) + (turn % G(GEMM_LEAD_) * GEMM_W_UNITS + i) * (GEMM_THREADS / G(GEMM_LEAD_));
}
DEVICE uint32_t G(gemm_unit_step_)(const uint32_t turn) { return turn / G(GEMM_LEAD_) * G(GEMM_LEAD_) + thread_x() % G(GEMM_LEAD_); }
/* If rows are at most half of the threads and copies pass through registers, two threads share a unit: then all waves decode, in half the
 * time. */
#if F(HALVES_)
enum { G(GEMM_HALVES_) = G(GEMM_STAGES_) == 1 && 2 * GEMM_ROWS <= GEMM_THREADS };
#else
enum { G(GEMM_HALVES_) = 0 };
#endif
DEVICE void G(gemm_begin_half_)(struct F(unit_) *u, const struct gemm_w *w, const uint32_t step, const uint32_t units)
{
    const uint32_t half = thread_x() / (GEMM_THREADS / 2), row = thread_x() % (GEMM_THREADS / 2);
#if F(HALVES_)
    if (step < units && row < GEMM_ROWS) F(load_half_)(u, gemm_row(w, row), step, units, half);
#else
    (void)u; (void)w; (void)step; (void)units; (void)half; (void)row;
#endif
}
DEVICE void G(gemm_end_half_)(const struct F(unit_) *u, uint8_t *slot, const uint32_t step, const uint32_t units)
{
    const uint32_t half = thread_x() / (GEMM_THREADS / 2), row = thread_x() % (GEMM_THREADS / 2);
#if F(HALVES_)
    if (step >= units || row >= GEMM_ROWS) return;
    uint32_t h[16];
    F(decode_half_)(h, u, step, half);
    UNROLL for (uint32_t n = 0; n < 4; n++) {
        const u32x4 v = { h[4 * n], h[4 * n + 1], h[4 * n + 2], h[4 * n + 3] };
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, 4 * half + n, 1)) = v;
    }
#else
    (void)u; (void)slot; (void)step; (void)units; (void)half; (void)row;
#endif
}
DEVICE void G(gemm_begin_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t turn, const uint32_t slot,
                           const uint32_t units)
{
    const uint32_t step = G(gemm_unit_step_)(turn);
    (void)slots; (void)slot;
    if (G(GEMM_HALVES_)) {
        G(gemm_begin_half_)(&n->u[0], w, step, units);
        return;
    }
    UNROLL for (uint32_t i = 0; i < GEMM_W_UNITS; i++)
        if (step < units && G(gemm_unit_row_)(turn, i) < GEMM_ROWS)
            F(load_)(&n->u[i], gemm_row(w, G(gemm_unit_row_)(turn, i)), step, units);
}
/* Stores a decoded unit in its row.  If two lanes write the same row of two slots, one begins in the middle; otherwise both would use the
 * same banks. */
DEVICE void G(gemm_store_)(uint8_t *slot, const uint32_t h[32], const uint32_t row)
{
    const uint32_t swap = G(GEMM_LEAD_) == 2 && thread_x() % 2;
    UNROLL for (uint32_t n = 0; n < 4; n++) {
        const u32x4 low = { h[4 * n], h[4 * n + 1], h[4 * n + 2], h[4 * n + 3] };
        const u32x4 high = { h[4 * n + 16], h[4 * n + 17], h[4 * n + 18], h[4 * n + 19] };
        u32x4 first = low, second = high;
        if (swap) {
            first = high;
            second = low;
        }
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, n ^ 4 * swap, 1)) = first;
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, n ^ 4 ^ 4 * swap, 1)) = second;
    }
}
DEVICE void G(gemm_end_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t turn, const uint32_t units)
{
    const uint32_t step = G(gemm_unit_step_)(turn);
    (void)w;
    if (G(GEMM_HALVES_)) {
        G(gemm_end_half_)(&n->u[0], G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_)), step, units);
        return;
    }
    UNROLL for (uint32_t i = 0; i < GEMM_W_UNITS; i++)
        if (step < units && G(gemm_unit_row_)(turn, i) < GEMM_ROWS) {
            uint32_t h[32];
            F(pin_)(&n->u[i]);
            F(decode_)(h, &n->u[i], step);
            G(gemm_store_)(G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_)), h, G(gemm_unit_row_)(turn, i));
        }
}
#else
/* f32: pieces of 4 columns, each split into a high and a low f16 before it is stored. */
enum { G(GEMM_W_PIECES_) = (GEMM_ROWS * 16 + GEMM_THREADS - 1) / GEMM_THREADS };
struct G(gemm_weights_) { struct F(unit_) u[G(GEMM_W_PIECES_)]; };
DEVICE uint32_t G(gemm_piece_row_)(const uint32_t i) { return thread_x() / 16 + i * (GEMM_THREADS / 16); }
DEVICE void G(gemm_begin_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t step, const uint32_t slot,
                           const uint32_t units)
{
    (void)slots; (void)slot;
    UNROLL for (uint32_t i = 0; i < G(GEMM_W_PIECES_); i++)
        if (step < units && G(gemm_has_)(i, GEMM_THREADS / 16, GEMM_ROWS))
            F(load_)(&n->u[i], gemm_row(w, G(gemm_piece_row_)(i)), step * 16 + thread_x() % 16, units * 16);
}
DEVICE void G(gemm_end_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t step, const uint32_t units)
{
    const uint32_t part = thread_x() % 16;
    (void)w;
    UNROLL for (uint32_t i = 0; i < G(GEMM_W_PIECES_); i++)
        if (step < units && G(gemm_has_)(i, GEMM_THREADS / 16, GEMM_ROWS)) {
            uint32_t h[2], rest[2];
            F(pin_)(&n->u[i]);
            F(decode_)(h, &n->u[i], step * 16 + part);
            F(decode_rest_)(rest, &n->u[i], step * 16 + part);
            uint8_t *to = G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_))
                + lds_piece(G(gemm_piece_row_)(i), GEMM_ROW_LDS, part / 2, 1) + part % 2 * 8;
            const u32x2 high = { h[0], h[1] }, low = { rest[0], rest[1] };
            *(u32x2 *)(void *)to = high;
            *(u32x2 *)(void *)(to + GEMM_ROWS * GEMM_ROW_LDS) = low;
        }
}
#endif

/* Loads in flight, and where the slots are. */
struct G(gemm_ahead_) {
    struct copy x[GEMM_X_COPIES];
    uint32_t x_at[GEMM_X_COPIES];
    struct G(gemm_weights_) w;
    uint8_t *x_slots, *w_slots;
};
/* Slots form a ring: the slot of a step is its number modulo the number of slots. */
DEVICE uint8_t *G(gemm_x_slot_)(const struct G(gemm_ahead_) *n, const uint32_t slot)
{
    return n->x_slots + slot * (GEMM_TOKENS * GEMM_ROW_LDS);
}
/* Starts the asynchronous copies for `step` to ring slot `slot`.  Always closes a group of copies, so that they can be counted. */
DEVICE void G(gemm_start_)(struct G(gemm_ahead_) *n, const struct gemm_x *x, const struct gemm_w *w, const uint32_t step,
                           const uint32_t slot, const uint32_t units)
{
    if (step < units) {
        G(gemm_x_begin_)(n->x, n->x_at, G(gemm_x_slot_)(n, slot), x, step);
        if (G(GEMM_COPIED_)) G(gemm_begin_)(&n->w, n->w_slots, w, step, slot, units);
    }
    copy_commit();
}
/* Stores in LDS the data that turn `turn` loaded into registers, and loads the data of the next turn: x of step `turn`, weights as in
 * gemm_end_. */
DEVICE void G(gemm_pass_)(struct G(gemm_ahead_) *n, const struct gemm_x *x, const struct gemm_w *w, const uint32_t step,
                          const uint32_t turn, const uint32_t units)
{
    if (!COPIES_REACH_LDS && step < units) G(gemm_x_end_)(n->x, G(gemm_x_slot_)(n, step % G(GEMM_STAGES_)));
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_end_)(&n->w, n->w_slots, w, turn, units);
    if (!COPIES_REACH_LDS && step + 1 < units) G(gemm_x_begin_)(n->x, n->x_at, n->x_slots, x, step + 1);
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_begin_)(&n->w, n->w_slots, w, turn + 1, 0, units);
}
/* Computes the tile of products, which still have the scale of x. */
DEVICE void G(gemm_run_)(struct G(gemm_tile_) *y, const struct gemm_x *x, const struct gemm_w *w, const uint32_t units)
{
    struct G(gemm_ahead_) n;
    n.x_slots = lds();
    n.w_slots = lds() + G(GEMM_STAGES_) * GEMM_TOKENS * GEMM_ROW_LDS;
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++) n.x_at[i] = G(gemm_x_at_)(x, i);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
        UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_zero(&y->acc[t][r]);
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_begin_)(&n.w, n.w_slots, w, 0, 0, units);
    if (!COPIES_REACH_LDS) G(gemm_x_begin_)(n.x, n.x_at, n.x_slots, x, 0);
    else
        UNROLL for (uint32_t s = 0; s < G(GEMM_COPIES_AHEAD_); s++) G(gemm_start_)(&n, x, w, s, s, units);
    if (G(GEMM_LEAD_) == 2) {                    /* a turn of weights alone */
        G(gemm_end_)(&n.w, n.w_slots, w, 0, units);
        G(gemm_begin_)(&n.w, n.w_slots, w, 1, 0, units);
    }
    G(gemm_pass_)(&n, x, w, 0, G(GEMM_LEAD_) - 1, units);
    uint32_t slot = 0;
#pragma clang loop unroll(disable)
    for (uint32_t s = 0; s < units; s++) {
        const uint8_t *x_now = G(gemm_x_slot_)(&n, slot), *w_now = G(gemm_w_slot_)(n.w_slots, G(GEMM_COPIED_) ? slot : s % G(GEMM_SLOTS_));
        if (COPIES_REACH_LDS) copy_wait(G(GEMM_COPIES_AHEAD_) > 0 ? G(GEMM_COPIES_AHEAD_) - 1 : 0);
        if (GEMM_GROUP) mma_group_written();
        barrier();
        if (GEMM_GROUP) G(gemm_multiply_group_)(y, x_now, w_now, G(GEMM_DIGITS_), G(GEMM_BF16_));
        if (COPIES_REACH_LDS)
            G(gemm_start_)(&n, x, w, s + G(GEMM_COPIES_AHEAD_), (slot + G(GEMM_COPIES_AHEAD_)) % G(GEMM_STAGES_), units);
        if (G(GEMM_STAGES_) > 1) G(gemm_pass_)(&n, x, w, s + 1, s + G(GEMM_LEAD_), units);
        if (GEMM_GROUP) mma_group_wait(G(GEMM_ALONE_));
        else G(gemm_multiply_)(y, x_now, w_now, G(GEMM_DIGITS_), G(GEMM_BF16_));
        if (G(GEMM_STAGES_) == 1) {
            if (s + 1 == units) break;
            barrier();
            G(gemm_pass_)(&n, x, w, s + 1, s + 1, units);
        }
        slot = slot + 1 == G(GEMM_STAGES_) ? 0 : slot + 1;
    }
    if (GEMM_GROUP) G(gemm_wait_group_)(y);
    if (G(GEMM_PARTS_K_) > 1) G(gemm_add_up_)(y);
}
#ifdef GEMM_SLICES
/* For a stack of matrices of `rows` rows: multiplies slice k of token t by its matrix; row r of the result goes to the sink as row
 * k * rows + r.  n_picked, picked: the number of entries that use each matrix, and these entries, [..][most]; or both NULL: matrix k is
 * slice k of every token.  x: a row of 16-bit values, as below, for each token (shared 1), or for each of its `slices` slices, one after
 * the other.  tile: counts the tiles of all matrices, matrix by matrix. */
DEVICE uint32_t G(gemm_take_)(struct gemm_x *from, uint32_t *first_r, uint32_t *matrix, const uint32_t rows_each, const uint8_t *x,
                              const uint32_t x_stride, const uint32_t rows, const uint32_t slices, const uint32_t shared,
                              const uint32_t *n_picked,
                              const uint32_t *picked, const uint32_t most, uint32_t tile, uint32_t t0, uint32_t n_tokens)
{
    const uint32_t tiles = (rows + rows_each - 1) / rows_each, first = GEMM_TOKEN_TILE * GEMM_TOKENS;
    *matrix = tile / tiles;
    *first_r = tile % tiles * rows_each;
    const uint32_t n = n_picked ? uniform(((const GLOBAL uint32_t *)n_picked)[*matrix]) : n_tokens - t0;
    if (first >= n) return 0;
    const uint32_t *list = picked ? picked + *matrix * most + first : 0;
    const struct gemm_x made = { x, x_stride, n - 1 - first, t0 + first, slices, *matrix, shared, list };
    *from = made;
    return n - first;
}
DEVICE void G(gemm_)(const struct forge_kernel_args a, const uint8_t *w, const uint32_t rows, const uint32_t cols, const uint8_t *x,
                     const uint32_t x_stride, const uint32_t slices, const uint32_t shared, const uint32_t *n_picked,
                     const uint32_t *picked, const uint32_t most, uint32_t tile, uint32_t t0, uint32_t n_tokens, row_sink *sink)
{
    const uint32_t row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols));
    struct gemm_x from;
    uint32_t first_r, matrix;
    const uint32_t n = G(gemm_take_)(&from, &first_r, &matrix, GEMM_ROWS, x, x_stride, rows, slices, shared, n_picked, picked, most, tile,
                                     t0, n_tokens);
    if (n == 0) return;
    struct G(gemm_tile_) y;
    const struct gemm_w of = { w + (uint64_t)(matrix * rows + first_r) * row_bytes, w, row_bytes, rows - 1 - first_r, 0 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE, &from, first_r, n, rows, sink, 0);
}
#if GEMM_SHARES_PAIRS(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY)
DEVICE void G(gemm_pair_)(const struct forge_kernel_args a, const uint8_t *gate, const uint8_t *up, const uint32_t rows,
                          const uint32_t cols,
                          const uint8_t *x, const uint32_t x_stride, const uint32_t slices, const uint32_t shared, const uint32_t *n_picked,
                          const uint32_t *picked, const uint32_t most, uint32_t tile, uint32_t t0, uint32_t n_tokens, pair_sink *sink)
{
    const uint32_t row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols)), each = GEMM_ROWS / 2;
    struct gemm_x from;
    uint32_t first_r, matrix;
    const uint32_t n = G(gemm_take_)(&from, &first_r, &matrix, each, x, x_stride, rows, slices, shared, n_picked, picked, most, tile, t0,
                                     n_tokens);
    if (n == 0) return;
    const uint64_t at = (uint64_t)(matrix * rows + first_r) * row_bytes;
    struct G(gemm_tile_) y;
    const struct gemm_w of = { gate + at, up + at, row_bytes, rows - 1 - first_r, 1 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE, &from, first_r, n, rows, 0, sink);
}
#endif
#undef GEMM_SLICES
#else
/* y[t][r] = x[t] . w[r] for this group's tokens, from t0 + GEMM_TOKEN_TILE * GEMM_TOKENS on, below n_tokens, and for rows from
 * tile * GEMM_ROWS on, below rows; each value goes to sink(a, t, r, y) once, from one thread.
 * w: packed rows of `cols` columns (docs/gpu_internals.md).  x: token t at x + t x_stride (a multiple of 16), 16-bit values in `cols`
 * columns and zeros up to a multiple of 64: bf16 for FORMAT bf16, else f16 times STAGE_SCALE.
 * tile: must have rows.  LDS: GEMM_LDS_BYTES from its start; two products in one kernel need a barrier() between them.  All GEMM_THREADS
 * threads call it, after pdl_wait(); groups without tokens return at once.  rows, cols, x_stride: constants. */
DEVICE void G(gemm_)(const struct forge_kernel_args a, const uint8_t *w, const uint32_t rows, const uint32_t cols, const uint8_t *x,
                     const uint32_t x_stride, uint32_t tile, uint32_t t0, uint32_t n_tokens, row_sink *sink)
{
    const uint32_t first_t = t0 + GEMM_TOKEN_TILE * GEMM_TOKENS, first_r = tile * GEMM_ROWS, row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols));
    const float scale = G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE;
    if (first_t >= n_tokens) return;
    struct G(gemm_tile_) y;
    const struct gemm_x from = { x + (uint64_t)first_t * x_stride, x_stride, n_tokens - 1 - first_t };
    const struct gemm_w of = { w + (uint64_t)first_r * row_bytes, w, row_bytes, rows - 1 - first_r, 0 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, scale, first_t, first_r, n_tokens, rows, sink, 0);
}
#if GEMM_SHARES_PAIRS(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY)
/* The same for two matrices of `rows` rows, GEMM_ROWS / 2 rows of each from tile * (GEMM_ROWS / 2) on: sink(a, t, r, gate, up). */
DEVICE void G(gemm_pair_)(const struct forge_kernel_args a, const uint8_t *gate, const uint8_t *up, const uint32_t rows,
                          const uint32_t cols, const uint8_t *x, const uint32_t x_stride, uint32_t tile, uint32_t t0, uint32_t n_tokens,
                          pair_sink *sink)
{
    const uint32_t first_t = t0 + GEMM_TOKEN_TILE * GEMM_TOKENS, first_r = tile * (GEMM_ROWS / 2);
    const uint32_t row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols));
    const float scale = G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE;
    if (first_t >= n_tokens) return;
    struct G(gemm_tile_) y;
    const struct gemm_x from = { x + (uint64_t)first_t * x_stride, x_stride, n_tokens - 1 - first_t };
    const struct gemm_w of = { gate + (uint64_t)first_r * row_bytes, up + (uint64_t)first_r * row_bytes, row_bytes, rows - 1 - first_r, 1 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, scale, first_t, first_r, n_tokens, rows, 0, sink);
}
#endif
#endif
#undef F
#undef G
#undef GEMM_TOKENS
#undef GEMM_ROWS
#undef GEMM_THREADS
