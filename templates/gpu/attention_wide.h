/* attention_wide.h -- attention with heads of more than 256 columns, or with heads of K and V of different sizes, for decode and prefill.
 * V may be a view of K, as in latent attention (DeepSeek-AI 2024, arXiv:2405.04434).
 *
 *   attention_wide_decode(a, out, ..)    one token; the positions are split among groups as in attention_decode_tmpl.c
 *   attention_wide_prefill.h             the tokens of a prefill step
 *
 * Both multiply f16 on the matrix unit.  A group has the query heads of one KV head, of one or several tokens: rows of Q in LDS.  It takes
 * steps of 16 or 32 positions: K and V come to LDS; waves compute parts of the scores, each from a share of the columns; a few lanes for
 * each query add the parts, update its maximum and make weights; then waves add weights * V, each for a share of V's columns.  So the
 * registers of a wave hold a share of the sums, and scores and weights pass through LDS.
 * Decode's queries and weights are f16 plus the remainder that f16 leaves, 22 bits together (digits 2); prefill's are f16.  Values of q8_0
 * become f16.  Sizes: attention_wide_sizes.h. */
#ifndef FORGE_ATTENTION_WIDE_H
#define FORGE_ATTENTION_WIDE_H
#include "attention_decode_tmpl.c"
#include "attention_prefill.h"
#include "attention_wide_sizes.h"

/* Most that a lane holds: tiles of 16 queries, units of 64 columns of V, pieces of 8 columns in flight, digits; operands of Q. */
enum { WIDE_TILES = 4, WIDE_MOST_TURNS = 2, WIDE_PIECES = 18, WIDE_MOST_DIGITS = 2, WIDE_FOURS = WIDE_UNIT / 16, WIDE_MOST_HELD = 5 };

/* Constants of the launch, except `q`, `k` and `v`: byte places in LDS; strides in bytes. */
struct wide {
    uint32_t dim, value_dim, view, rows, digits, positions, threads, stages;
    uint32_t splits, split;                      /* step i has positions from begin + (i splits + split) positions on */
    uint32_t k_stride, v_stride, s_stride, w_stride;
    uint32_t q_at, k_at, v_at, s_at, w_at, f_at;
    uint32_t heads, held, fours;                 /* queries that exist; places, WIDE_HELD; products of four waves */
    uint32_t slices, parts, score_rows, sum_slices, sum_parts, turns;
    const uint8_t *k, *v;                        /* planes */
};
struct wide_pieces { struct kv_piece piece[WIDE_PIECES]; struct copy copy[WIDE_PIECES]; };
struct wide_loads { struct wide_pieces k, v; };
/* Sums of weights * V: element e of tile 4 u + i is query 16 t + mma_row(e) of the wave's share, and column wide_column() of unit u. */
struct wide_sums { struct mma_acc o[WIDE_TILES][WIDE_MOST_TURNS * WIDE_FOURS]; };
/* Of the query that this lane's team works on. */
struct wide_query { uint32_t row, first, last; float m, l; };

DEVICE void wide_init(struct wide *w, const uint32_t dim, const uint32_t value_dim, const uint32_t view, const uint32_t heads,
                      const uint32_t rows, const uint32_t digits, const uint32_t more, const uint8_t *k, const uint8_t *v)
{
    w->dim = dim, w->value_dim = value_dim, w->view = view, w->heads = heads, w->rows = rows, w->digits = digits;
    w->held = WIDE_HELD(KV_KIND, dim, value_dim, view, heads, rows, digits, more, FAMILY), w->fours = 0;
    w->positions = WIDE_POSITIONS(KV_KIND, dim, value_dim, view, heads, rows, digits, more, FAMILY);
    w->threads = WIDE_THREADS(FAMILY);
    w->stages = w->held ? w->held : WIDE_STAGES(KV_KIND, FAMILY);
    w->splits = 1, w->split = 0;
    w->k_stride = WIDE_STRIDE(dim), w->v_stride = view ? w->k_stride : WIDE_STRIDE(value_dim);
    w->s_stride = w->held ? WIDE_HELD_STRIDE : WIDE_SCORE_STRIDE(w->positions), w->w_stride = WIDE_STRIDE(w->positions);
    w->k_at = w->held ? 0 : WIDE_Q_BYTES(dim, rows, digits);
    w->q_at = w->held ? (w->stages - 1) * w->positions * w->k_stride : 0;
    w->v_at = view || w->stages == 1 ? w->k_at : w->k_at + w->stages * w->positions * w->k_stride;
    w->s_at = w->held ? w->stages * w->positions * (w->k_stride + (view ? 0 : w->v_stride))
                      : w->k_at + WIDE_KV_BYTES(KV_KIND, dim, value_dim, view, w->positions, FAMILY);
    w->w_at = w->s_at + (w->held ? WIDE_WAVES * heads * w->s_stride : WIDE_SCORE_BYTES(rows, w->positions, FAMILY));
    w->f_at = w->w_at + WIDE_WEIGHT_BYTES(rows, digits, w->positions);
    w->slices = WIDE_SCORE_SLICES(rows, FAMILY), w->parts = w->held ? WIDE_WAVES : WIDE_SCORE_PARTS(rows, FAMILY);
    w->score_rows = w->held ? heads : rows;
    w->sum_slices = WIDE_SUM_SLICES(rows, value_dim), w->sum_parts = WIDE_SUM_PARTS(value_dim), w->turns = WIDE_TURNS(value_dim);
    w->k = k, w->v = v;
}
/* For products of four waves: only what loading needs. */
DEVICE void wide_fours_init(struct wide *w, const uint32_t dim, const uint32_t value_dim, const uint32_t view, const uint8_t *k,
                            const uint8_t *v)
{
    w->dim = dim, w->value_dim = value_dim, w->view = view, w->fours = 1, w->digits = 1, w->stages = 2;
    w->rows = w->heads = w->positions = WIDE_FOURS_POSITIONS, w->threads = WIDE_THREADS(FAMILY);
    w->splits = 1, w->split = 0;
    w->q_at = 0, w->k_at = WIDE_FOURS_BYTES(dim), w->v_at = view ? w->k_at : 2 * w->k_at;
    w->k_stride = 2 * dim, w->v_stride = 2 * value_dim;
    w->k = k, w->v = v;
}
DEVICE float *wide_factors(const struct wide *w) { return (float *)(void *)(lds() + w->f_at); }

/* The byte of LDS, counted from the first row, where this column of a row lies; rows: of the area. */
DEVICE uint32_t wide_place(const struct wide *w, uint32_t row, uint32_t column, const uint32_t stride, const uint32_t rows)
{
    return w->fours ? prefill_fours_place(row, column, rows) : row * stride + 2 * column;
}

/* ---- Q ---- */
/* Eight columns of a row of Q as f16, and their remainders. */
DEVICE void wide_query_put(const struct wide *w, uint32_t row, uint32_t column, const f32x4 x[2])
{
    u32x4 high, low;
    UNROLL for (uint32_t n = 0; n < 4; n++) {
        const float a = clamp_f32(x[n / 2][n % 2 * 2], 65504.0f), b = clamp_f32(x[n / 2][n % 2 * 2 + 1], 65504.0f);
        high[n] = f16x2_bits(a, b);
        low[n] = f16x2_bits(a - f32_of_f16_bits(high[n]), b - f32_of_f16_bits(high[n] >> 16));
    }
    *(u32x4 *)(void *)(lds() + w->q_at + wide_place(w, row, column, w->k_stride, w->rows)) = high;
    if (w->digits > 1) *(u32x4 *)(void *)(lds() + w->q_at + (w->rows + row) * w->k_stride + 2 * column) = low;
}
/* Stores the group's queries, times scale; rows that do not exist are 0.  A few loads of a lane are under way together. */
DEVICE void wide_queries(const struct wide *w, const struct prefill *p, const uint8_t *q, const uint64_t q_stride)
{
    enum { AHEAD = 5 };
    const uint32_t per_row = w->dim / 8, n = w->rows * per_row;
    for (uint32_t base = thread_x(); base < n; base += AHEAD * w->threads) {
        f32x4 x[AHEAD][2];
        UNROLL for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t i = base + k * w->threads, row = i / per_row, column = i % per_row * 8;
            const f32x4 zero = { 0.0f, 0.0f, 0.0f, 0.0f };
            x[k][0] = x[k][1] = zero;
            if (i >= n || !prefill_has(p, row)) continue;
            const GLOBAL f32x4 *from = (const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, row) * q_stride +
                                                                            (prefill_head(p, row) * w->dim + column) * 4);
            x[k][0] = from[0];
            x[k][1] = from[1];
        }
        UNROLL for (uint32_t k = 0; k < AHEAD; k++) {
            const uint32_t i = base + k * w->threads;
            const f32x4 scaled[2] = { x[k][0] * p->scale, x[k][1] * p->scale };
            if (i < n) wide_query_put(w, i / per_row, i % per_row * 8, scaled);
        }
    }
}

/* ---- K and V to LDS ---- */
/* `turn`s piece of this thread, of rows of dim columns. */
DEVICE uint32_t wide_piece(const struct wide *w, const uint32_t turn) { return thread_x() + turn * w->threads; }
DEVICE uint32_t wide_piece_turns(const struct wide *w, const uint32_t dim)
{
    return (w->positions * dim / 8 + w->threads - 1) / w->threads;
}
DEVICE uint32_t wide_has_piece(const struct wide *w, const uint32_t dim, const uint32_t turn)
{
    return (turn + 1) * w->threads <= w->positions * dim / 8 || wide_piece(w, turn) < w->positions * dim / 8;
}
/* Starts loading the rows of positions first .. of a plane.  Positions that do not exist become 0 or repeat the last one.  to: where they
 * go; with two stages it must be free already. */
DEVICE void wide_begin(struct wide_pieces *h, uint8_t *to, const struct wide *w, const struct prefill *p, const uint8_t *plane,
                       const uint32_t dim, const uint32_t stride, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < wide_piece_turns(w, dim); i++) {
        const uint32_t row = wide_piece(w, i) / (dim / 8), column = wide_piece(w, i) % (dim / 8) * 8, exists = first + row < p->end;
        if (!wide_has_piece(w, dim, i)) continue;
        if (w->stages > 1) {
            copy_begin(&h->copy[i], to + wide_place(w, row, column, stride, w->positions),
                       plane + kv_bytes(p->kv_head, kv_row(exists ? first + row : p->begin, p->ring), column, p->n_ctx, dim), exists);
            continue;
        }
        kv_fetch(&h->piece[i], plane, p->kv_head, kv_row(exists ? first + row : p->end - 1, p->ring), column, p->n_head_kv, p->n_ctx, dim);
    }
}
DEVICE void wide_end(const struct wide_pieces *h, uint8_t *to, const struct wide *w, const uint32_t dim, const uint32_t stride)
{
    UNROLL for (uint32_t i = 0; i < wide_piece_turns(w, dim); i++) {
        uint8_t *place = to + wide_piece(w, i) / (dim / 8) * stride + wide_piece(w, i) % (dim / 8) * 16;
        if (!wide_has_piece(w, dim, i)) continue;
        if (w->stages > 1) copy_end(&h->copy[i], place);
        else *(u32x4 *)(void *)place = prefill_f16(&h->piece[i]);
    }
}
DEVICE void wide_k_begin(struct wide_pieces *h, uint32_t stage, const struct wide *w, const struct prefill *p, uint32_t first)
{
    wide_begin(h, lds() + w->k_at + stage * w->positions * w->k_stride, w, p, w->k, w->dim, w->k_stride, first);
}
DEVICE void wide_v_begin(struct wide_pieces *h, uint32_t stage, const struct wide *w, const struct prefill *p, uint32_t first)
{
    if (w->view) return;
    wide_begin(h, lds() + w->v_at + stage * w->positions * w->v_stride, w, p, w->v, w->value_dim, w->v_stride, first);
}

/* ---- scores ---- */
/* Operands are loaded one part before their use, and sums are pinned: see attention_prefill_rows.h. */
DEVICE void wide_load_a(struct mma_wide_a *x, const struct wide *w, const uint8_t *rows, uint32_t part)
{
    const uint8_t *at = rows + 2 * MMA_WIDE_COLS * part;
    if (w->dim % MMA_WIDE_COLS == 0 || MMA_WIDE_COLS * (part + 1) <= w->dim) mma_load_wide_a(x, at, w->k_stride);
    else mma_load_a(&x->k[0], at, w->k_stride);
}
DEVICE void wide_load_b(struct mma_wide_b *x, const struct wide *w, const uint8_t *rows, uint32_t part)
{
    const uint8_t *at = rows + 2 * MMA_WIDE_COLS * part;
    if (w->dim % MMA_WIDE_COLS == 0 || MMA_WIDE_COLS * (part + 1) <= w->dim) mma_load_wide_b(x, at, w->k_stride);
    else mma_load_b(&x->k[0], at, w->k_stride);
}
/* This wave's part of the scores, from K in the given stage, to LDS: [part][query][position]. */
DEVICE void wide_scores(const struct wide *w, uint32_t stage)
{
    const uint32_t tiles = w->rows / 16 / w->slices, spans = w->positions / 16, operands = (w->dim + MMA_WIDE_COLS - 1) / MMA_WIDE_COLS;
    const uint32_t span = wave_id() % spans, part = wave_id() / spans % w->parts, slice = wave_id() / spans / w->parts;
    const uint32_t turns = (operands + w->parts - 1) / w->parts;
    if (slice >= w->slices) return;
    const uint8_t *q = lds() + w->q_at + slice * tiles * 16 * w->k_stride,
                  *k = lds() + w->k_at + (stage * w->positions + 16 * span) * w->k_stride;
    struct mma_wide_a a[2][WIDE_TILES][WIDE_MOST_DIGITS];
    struct mma_wide_b b[2];
    struct mma_acc s[WIDE_TILES];
    UNROLL for (uint32_t t = 0; t < tiles; t++) mma_zero(&s[t]);
    UNROLL for (uint32_t n = 0; n < turns + 1; n++) {
        const uint32_t next = part + n * w->parts, now = part + (n - 1) * w->parts;
        if (n < turns && (operands % w->parts == 0 || next < operands)) {
            UNROLL for (uint32_t t = 0; t < tiles; t++)
                UNROLL for (uint32_t g = 0; g < w->digits; g++)
                    wide_load_a(&a[n % 2][t][g], w, q + (g * w->rows + 16 * t) * w->k_stride, next);
            wide_load_b(&b[n % 2], w, k, next);
        }
        if (n == 0 || (operands % w->parts != 0 && now >= operands)) continue;
        UNROLL for (uint32_t i = 0; i < MMA_WIDE; i++) {
            if (w->dim % MMA_WIDE_COLS != 0 && MMA_WIDE_COLS * now + 16 * i >= w->dim) continue;
            UNROLL for (uint32_t g = 0; g < w->digits; g++)
                UNROLL for (uint32_t t = 0; t < tiles; t++) mma_f16(&s[t], &a[(n - 1) % 2][t][g].k[i], &b[(n - 1) % 2].k[i]);
        }
        UNROLL for (uint32_t t = 0; t < tiles; t++) mma_pin(&s[t]);
    }
    uint8_t *to = lds() + w->s_at + (part * w->rows + slice * tiles * 16) * w->s_stride + 16 * 4 * span;
    UNROLL for (uint32_t t = 0; t < tiles; t++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++)
            *(float *)(void *)(to + (16 * t + mma_row(e)) * w->s_stride + 4 * mma_col(e)) = s[t].x[e];
}

/* Q in registers: operands wave_id() + n WIDE_WAVES of the rows, as f16 and the remainder. */
struct wide_held { struct mma_wide_a a[WIDE_MOST_HELD][WIDE_MOST_DIGITS]; };
DEVICE uint32_t wide_operands(const struct wide *w) { return (w->dim + MMA_WIDE_COLS - 1) / MMA_WIDE_COLS; }
DEVICE uint32_t wide_held_turns(const struct wide *w) { return (wide_operands(w) + WIDE_WAVES - 1) / WIDE_WAVES; }
DEVICE uint32_t wide_holds(const struct wide *w, const uint32_t n)
{
    return (n + 1) * WIDE_WAVES <= wide_operands(w) || wave_id() + n * WIDE_WAVES < wide_operands(w);
}
/* Q is in LDS after the barrier. */
DEVICE void wide_hold(struct wide_held *h, const struct wide *w)
{
    barrier();
    UNROLL for (uint32_t n = 0; n < wide_held_turns(w); n++)
        UNROLL for (uint32_t g = 0; g < w->digits; g++)
            if (wide_holds(w, n)) wide_load_a(&h->a[n][g], w, lds() + w->q_at + g * w->rows * w->k_stride, wave_id() + n * WIDE_WAVES);
}
/* wide_scores() with these: a wave has all positions of a step.  Operands are loaded one turn before their use. */
DEVICE void wide_held_scores(const struct wide *w, const struct wide_held *h, uint32_t stage)
{
    const uint32_t tiles = w->positions / 16, turns = wide_held_turns(w);
    const uint8_t *k = lds() + w->k_at + stage * w->positions * w->k_stride;
    struct mma_wide_b b[2][WIDE_TILES];
    struct mma_acc s[WIDE_TILES];
    UNROLL for (uint32_t j = 0; j < tiles; j++) mma_zero(&s[j]);
    UNROLL for (uint32_t n = 0; n < turns + 1; n++) {
        UNROLL for (uint32_t j = 0; j < tiles; j++)
            if (n < turns && wide_holds(w, n)) wide_load_b(&b[n % 2][j], w, k + 16 * j * w->k_stride, wave_id() + n * WIDE_WAVES);
        if (n == 0 || !wide_holds(w, n - 1)) continue;
        UNROLL for (uint32_t i = 0; i < MMA_WIDE; i++)
            UNROLL for (uint32_t g = 0; g < w->digits; g++)
                UNROLL for (uint32_t j = 0; j < tiles; j++) mma_f16(&s[j], &h->a[n - 1][g].k[i], &b[(n - 1) % 2][j].k[i]);
        UNROLL for (uint32_t j = 0; j < tiles; j++) mma_pin(&s[j]);
    }
    UNROLL for (uint32_t e = 0; e < MMA_ACC; e += 2) {           /* where sums are operands A, the next column follows */
        uint8_t *to = lds() + w->s_at + (wave_id() * w->heads + mma_row(e)) * w->s_stride + 4 * mma_col(e);
        UNROLL for (uint32_t j = 0; j < tiles; j++) {
            const f32x2 two = { s[j].x[e], s[j].x[e + 1] };
            if (mma_row(e) < w->heads) *(f32x2 *)(void *)(to + 64 * j) = two;
        }
    }
}

/* ---- weights: neighbouring lanes are the team of a query ---- */
DEVICE uint32_t wide_team(const struct wide *w)
{
    return w->positions / 4 < w->threads / w->rows ? w->positions / 4 : w->threads / w->rows;
}
DEVICE void wide_query_begin(struct wide_query *q, const struct wide *w, const struct prefill *p)
{
    q->row = thread_x() / wide_team(w);
    q->first = prefill_first(p, q->row);
    q->last = prefill_last(p, q->row);
    q->m = ATTENTION_NOTHING;
    q->l = 0.0f;
}
/* Turns the scores of the step that begins with position `first` into weights, and leaves the factor for the sums of the steps before. */
DEVICE void wide_weights(struct wide_query *q, const struct wide *w, const struct prefill *p, uint32_t first)
{
    const uint32_t team = wide_team(w), fours = w->positions / 4 / team, lane = thread_x() % team;
    f32x4 s[WIDE_TILES];
    const uint32_t row = w->score_rows == w->rows || q->row < w->score_rows ? q->row : w->score_rows - 1;
    if (q->row >= w->rows) return;                   /* whole waves, as teams and their number are powers of two */
    float top = q->m;
    UNROLL for (uint32_t n = 0; n < fours; n++) {
        const uint32_t at = 4 * (lane + n * team), position = first + at;
        const uint8_t *from = lds() + w->s_at + row * w->s_stride + 4 * at;
        s[n] = *(const f32x4 *)(const void *)from;
        UNROLL for (uint32_t k = 1; k < w->parts; k++) s[n] += *(const f32x4 *)(const void *)(from + k * w->score_rows * w->s_stride);
        UNROLL for (uint32_t i = 0; i < 4; i++) {
#ifdef ATTENTION_MORE
            if (p->cap != 0.0f) s[n][i] = softcap_f32(s[n][i], p->cap);
#else
            (void)p;
#endif
            if (position + i > q->last || position + i < q->first) s[n][i] = ATTENTION_MASKED;
            top = max_f32(top, s[n][i]);
        }
    }
    top = lanes_max_f32(top, team);
    const float factor = exp2_f32(q->m - top);
    q->m = top;
    q->l *= factor;
    UNROLL for (uint32_t n = 0; n < fours; n++) {
        uint8_t *to = lds() + w->w_at + q->row * w->w_stride + 8 * (lane + n * team);
        u32x2 high, low;
        UNROLL for (uint32_t i = 0; i < 4; i++) {
            s[n][i] = exp2_f32(s[n][i] - top);
            q->l += s[n][i];
        }
        high.x = f16x2_bits(s[n].x, s[n].y);
        high.y = f16x2_bits(s[n].z, s[n].w);
        *(u32x2 *)(void *)to = high;
        if (w->digits == 1) continue;
        low.x = f16x2_bits(s[n].x - f32_of_f16_bits(high.x), s[n].y - f32_of_f16_bits(high.x >> 16));
        low.y = f16x2_bits(s[n].z - f32_of_f16_bits(high.y), s[n].w - f32_of_f16_bits(high.y >> 16));
        *(u32x2 *)(void *)(to + w->rows * w->w_stride) = low;
    }
    if (lane == 0) wide_factors(w)[q->row] = factor;
}

/* ---- sums ---- */
DEVICE uint32_t wide_slice(const struct wide *w) { return wave_id() / w->sum_parts; }
DEVICE uint32_t wide_sum_tiles(const struct wide *w) { return w->rows / 16 / w->sum_slices; }
/* The first column of turn u of this wave. */
DEVICE uint32_t wide_unit(const struct wide *w, const uint32_t u) { return (wave_id() % w->sum_parts + u * w->sum_parts) * WIDE_UNIT; }
DEVICE uint32_t wide_has_unit(const struct wide *w, const uint32_t u)
{
    return w->value_dim % (w->turns * w->sum_parts * WIDE_UNIT) == 0 || wide_unit(w, u) < w->value_dim;
}
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
/* Tile i has columns 16 i .. of the unit. */
DEVICE uint32_t wide_column(const uint32_t i, const uint32_t e) { return 16 * i + mma_col(e); }
DEVICE void wide_load_v(struct mma_b b[WIDE_FOURS], const struct wide *w, const uint8_t *rows, uint32_t column)
{
    UNROLL for (uint32_t i = 0; i < WIDE_FOURS; i++)
        if (w->value_dim % WIDE_UNIT == 0 || column + 16 * i < w->value_dim)
            mma_load_b_trans(&b[i], rows + 2 * (column + 16 * i), w->v_stride);
}
#else
/* Tile i has columns i, 4 + i, 8 + i .. of the unit: a lane loads four neighbouring columns of each position and mixes words of two
 * positions to pairs of one column. */
DEVICE uint32_t wide_column(const uint32_t i, const uint32_t e) { return 4 * mma_col(e) + i; }
DEVICE void wide_load_v(struct mma_b b[WIDE_FOURS], const struct wide *w, const uint8_t *rows, uint32_t column)
{
    const uint32_t k = FAMILY_MMA_COPIES(FAMILY) == 1 ? lane_id() / 16 * (2 * MMA_WORDS) : 0, mine = column + 4 * (lane_id() % 16);
    const uint8_t *from = rows + k * w->v_stride + 2 * (w->value_dim % WIDE_UNIT == 0 || mine < w->value_dim ? mine : 0);
    UNROLL for (uint32_t n = 0; n < MMA_WORDS; n++) {
        const u32x2 x = *(const u32x2 *)(const void *)(from + 2 * n * w->v_stride),
                    y = *(const u32x2 *)(const void *)(from + (2 * n + 1) * w->v_stride);
        b[0].x[n] = byte_perm(x.x, y.x, 0x05040100u);
        b[1].x[n] = byte_perm(x.x, y.x, 0x07060302u);
        b[2].x[n] = byte_perm(x.y, y.y, 0x05040100u);
        b[3].x[n] = byte_perm(x.y, y.y, 0x07060302u);
    }
}
#endif
DEVICE void wide_sums_begin(struct wide_sums *x, const struct wide *w)
{
    UNROLL for (uint32_t t = 0; t < wide_sum_tiles(w); t++)
        UNROLL for (uint32_t i = 0; i < w->turns * WIDE_FOURS; i++) mma_zero(&x->o[t][i]);
}
/* sums = sums * factor + weights * V, from V in the given stage */
DEVICE void wide_values(struct wide_sums *x, const struct wide *w, uint32_t stage)
{
    const uint32_t tiles = wide_sum_tiles(w), first = wide_slice(w) * tiles * 16;
    const uint8_t *v = lds() + w->v_at + stage * w->positions * w->v_stride, *weights = lds() + w->w_at + first * w->w_stride;
    if (wide_slice(w) >= w->sum_slices) return;
    UNROLL for (uint32_t t = 0; t < tiles; t++) {
        float factor[MMA_ROWS];
        uint32_t moved = 0;
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            factor[g] = wide_factors(w)[first + 16 * t + mma_row(mma_of_row(g, 0))];
            moved |= factor[g] != 1.0f;
        }
        if (!wave_any(moved)) continue;
        UNROLL for (uint32_t i = 0; i < w->turns * WIDE_FOURS; i++)
            UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++)
                UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n++) x->o[t][i].x[mma_of_row(g, n)] *= factor[g];
    }
    UNROLL for (uint32_t j = 0; j < w->positions / 16; j++) {
        struct mma_a a[WIDE_TILES][WIDE_MOST_DIGITS];
        UNROLL for (uint32_t t = 0; t < tiles; t++)
            UNROLL for (uint32_t g = 0; g < w->digits; g++)
                mma_load_a(&a[t][g], weights + (g * w->rows + 16 * t) * w->w_stride + 32 * j, w->w_stride);
        UNROLL for (uint32_t u = 0; u < w->turns; u++) {
            struct mma_b b[WIDE_FOURS];
            if (!wide_has_unit(w, u)) continue;
            wide_load_v(b, w, v + 16 * j * w->v_stride, wide_unit(w, u));
            UNROLL for (uint32_t i = 0; i < WIDE_FOURS; i++)
                UNROLL for (uint32_t g = 0; g < w->digits; g++)
                    UNROLL for (uint32_t t = 0; t < tiles; t++) mma_f16(&x->o[t][WIDE_FOURS * u + i], &a[t][g], &b[i]);
            UNROLL for (uint32_t i = 0; i < WIDE_FOURS; i++)
                UNROLL for (uint32_t t = 0; t < tiles; t++) mma_pin(&x->o[t][WIDE_FOURS * u + i]);
        }
    }
}

/* ---- the steps of a group ---- */
/* Starts to load the first step, so that its latency and that of the queries overlap. */
DEVICE void wide_start(struct wide_loads *h, const struct wide *w, const struct prefill *p)
{
    wide_k_begin(&h->k, 0, w, p, p->begin + w->split * w->positions);
    wide_v_begin(&h->v, 0, w, p, p->begin + w->split * w->positions);
    copy_commit();
}
/* count: steps, at least one; h: the first step's loads.  Q is in LDS, or will be at the next barrier. */
DEVICE void wide_run(struct wide_sums *x, struct wide_query *q, struct wide_loads *h, const struct wide *w, const struct prefill *p,
                     uint32_t count)
{
    const uint32_t apart = w->positions * w->splits, late = w->stages == 1;
    uint32_t first = p->begin + w->split * w->positions, stage = 0;
    struct wide_held held;
    if (w->held) wide_hold(&held, w);
    wide_sums_begin(x, w);
    wide_query_begin(q, w, p);
    if (late) {
        wide_end(&h->k, lds() + w->k_at, w, w->dim, w->k_stride);
        if (count > 1) wide_k_begin(&h->k, 0, w, p, first + apart);
    }
#pragma unroll 1
    for (uint32_t i = 0; i < count; i++, first += apart) {
        const uint32_t more = i + 1 < count;
        if (!late) copy_wait(0);
        barrier();                               /* K, and with two stages V, is complete; no wave uses the other stage any more */
        if (!late && more) {
            wide_k_begin(&h->k, stage ^ 1, w, p, first + apart);
            wide_v_begin(&h->v, stage ^ 1, w, p, first + apart);
            copy_commit();
        }
        if (w->held) wide_held_scores(w, &held, stage);
        else wide_scores(w, stage);
        barrier();                               /* scores are complete */
        if (late && !w->view) {
            wide_end(&h->v, lds() + w->v_at, w, w->value_dim, w->v_stride);
            if (more) wide_v_begin(&h->v, 0, w, p, first + apart);
        }
        wide_weights(q, w, p, first);
        barrier();                               /* weights are complete */
        wide_values(x, w, stage);
        if (!late) stage ^= 1;
        if (!late || !more) continue;
        barrier();                               /* no wave uses K or V any more */
        wide_end(&h->k, lds() + w->k_at, w, w->dim, w->k_stride);
        if (i + 2 < count) wide_k_begin(&h->k, 0, w, p, first + 2 * apart);
    }
}

/* The same with Q in registers and four places.  The scores of a step and the sums of the step before come between the same barriers, so
 * that one's products hide the other's latencies. */
DEVICE void wide_held_run(struct wide_sums *x, struct wide_query *q, struct wide_loads *h, const struct wide *w, const struct prefill *p,
                          uint32_t count)
{
    enum { PLACES = 4, AHEAD = PLACES - 2 };
    const uint32_t apart = w->positions * w->splits;
    uint32_t first = p->begin + w->split * w->positions, before = 0, now = 0, next = AHEAD;      /* places */
    struct wide_held held;
    UNROLL for (uint32_t i = 1; i < AHEAD; i++) {
        if (i < count) wide_k_begin(&h->k, i, w, p, first + i * apart);
        if (i < count) wide_v_begin(&h->v, i, w, p, first + i * apart);
        copy_commit();
    }
    wide_hold(&held, w);
    wide_sums_begin(x, w);
    wide_query_begin(q, w, p);
#pragma unroll 1
    for (uint32_t i = 0; i < count; i++, first += apart) {
        copy_wait(AHEAD - 1);
        barrier();                               /* K and V are complete, and weights; no wave uses place `next` any more */
        if (i + AHEAD < count) wide_k_begin(&h->k, next, w, p, first + AHEAD * apart);
        if (i + AHEAD < count) wide_v_begin(&h->v, next, w, p, first + AHEAD * apart);
        copy_commit();
        wide_held_scores(w, &held, now);
        if (i > 0) wide_values(x, w, before);
        barrier();                               /* scores are complete; no wave uses weights any more */
        wide_weights(q, w, p, first);
        before = now;
        now = (now + 1) % PLACES;
        next = (next + 1) % PLACES;
    }
    barrier();
    wide_values(x, w, before);
}

/* Sums to rows of floats in LDS, as decode_finish() reads them, and maxima and totals. */
DEVICE void wide_publish(const struct wide_sums *x, struct wide_query *q, const struct wide *w, const struct decode *d)
{
    const uint32_t tiles = wide_sum_tiles(w), first = wide_slice(w) * tiles * 16;
    float *sums = decode_wave(d, 0), *ml = decode_ml(d);
    barrier();                                   /* no wave reads what the steps left in LDS */
    q->l = lanes_sum_f32(q->l, wide_team(w));
    if (thread_x() % wide_team(w) == 0 && q->row < d->heads) {
        ml[2 * q->row] = q->m;
        ml[2 * q->row + 1] = q->l;
    }
    if (wide_slice(w) >= w->sum_slices) return;
    UNROLL for (uint32_t t = 0; t < tiles; t++)
        UNROLL for (uint32_t u = 0; u < w->turns; u++)
            UNROLL for (uint32_t i = 0; i < WIDE_FOURS; i++)
                UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                    const uint32_t h = first + 16 * t + mma_row(e), column = wide_unit(w, u) + wide_column(i, e);
                    if (h < d->heads && (w->value_dim % (w->turns * w->sum_parts * WIDE_UNIT) == 0 || column < w->value_dim))
                        sums[h * w->value_dim + decode_sums_place(d, column)] = x->o[t][WIDE_FOURS * u + i].x[e];
                }
}

/* Gathers n of at most `most` parts of four columns of head h, as decode_merge(). */
DEVICE void wide_gather(f32x4 *x, float *m, float *l, const struct decode_parts *parts, const struct decode *d, const uint32_t most,
                        uint32_t n, uint32_t h, uint32_t column)
{
    const f32x4 nothing = { 0.0f, 0.0f, 0.0f, 0.0f };
    uint32_t head = h;
    PIN(head);
    *x = nothing;
    *m = ATTENTION_NOTHING;
    *l = 0.0f;
    for (uint32_t base = 0; base < n; base += WIDE_BUNDLE) {
        f32x4 part[WIDE_BUNDLE];
        f32x2 ml[WIDE_BUNDLE];
        UNROLL for (uint32_t k = 0; k < WIDE_BUNDLE && k < most; k++) {
            const uint32_t at = base + k < n ? base + k : 0, row = parts->row + at * d->heads + head;
            part[k] = *(const GLOBAL f32x4 *)(const void *)(parts->sums + (uint64_t)row * d->head_dim + column);
            ml[k] = *(const GLOBAL f32x2 *)(const void *)(parts->ml + 2 * (uint64_t)(parts->two + at * parts->stride + head));
        }
        decode_join(x, m, l, part, ml, most < WIDE_BUNDLE ? most : WIDE_BUNDLE, n - base);
    }
}
/* decode_finish() without clusters, for many splits of wide heads: the last split of each bundle to arrive merges the bundle, and the last
 * bundle merges these results, so that no group reads all parts. */
DEVICE void wide_finish(float *out, float *sums, float *sums_ml, uint32_t *counters, const struct decode *d,
                        const struct decode_range *range)
{
    const uint32_t items = d->heads * d->head_dim / 4, n = range->spans * range->n, all = d->spans * d->splits,
                   first = d->part * WIDE_PARTS(d->splits, d->spans, 0u) * d->heads, at = d->span * d->splits + d->split;
    const uint32_t bundles = (n + WIDE_BUNDLE - 1) / WIDE_BUNDLE, mine = at / WIDE_BUNDLE,
                   begun = mine * WIDE_BUNDLE, size = n - begun < WIDE_BUNDLE ? n - begun : WIDE_BUNDLE;
    const struct decode_parts parts = { sums, sums_ml, first, first, d->heads };
    const struct decode_parts of_bundle = { sums, sums_ml, first + begun * d->heads, first + begun * d->heads, d->heads };
    const struct decode_parts merged = { sums, sums_ml, first + all * d->heads, first + all * d->heads, d->heads };
    uint32_t *counter = counters + d->part * WIDE_COUNTERS(d->splits, d->spans, 0u);
    barrier();
    for (uint32_t i = thread_x(); i < items; i += d->threads) {
        const uint32_t h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        decode_sum_waves(&x, &m, &l, d, h, column);
#ifdef ATTENTION_MORE
        if (d->sinks && d->span == 0 && d->split == 0) {
            const float sink = ((const GLOBAL float *)d->sinks)[decode_head(d, h)] * 1.44269504f, top = max_f32(m, sink);
            x *= exp2_f32(m - top);
            l = l * exp2_f32(m - top) + exp2_f32(sink - top);
            m = top;
        }
#endif
        if (n == 1) decode_write(out, d, h, column, x, l);
        else decode_leave(&parts, d, at, h, column, x, m, l, column == 0);
    }
    if (n == 1 || !last_to_arrive(counter + 1 + mine, size, decode_flag(d))) return;
    for (uint32_t i = thread_x(); i < items; i += d->threads) {
        const uint32_t h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        wide_gather(&x, &m, &l, &of_bundle, d, all < WIDE_BUNDLE ? all : WIDE_BUNDLE, size, h, column);
        if (bundles == 1) decode_write(out, d, h, column, x, l);
        else decode_leave(&merged, d, mine, h, column, x, m, l, column == 0);
    }
    if (bundles == 1 || !last_to_arrive(counter, bundles, decode_flag(d))) return;
    for (uint32_t i = thread_x(); i < items; i += d->threads) {
        const uint32_t h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        wide_gather(&x, &m, &l, &merged, d, WIDE_BUNDLES(d->splits, d->spans), bundles, h, column);
        decode_write(out, d, h, column, x, l);
    }
}

/* The division of a launch as attention_decode_tmpl.c makes it: its groups, ranges and merges, where a step of positions is one row. */
DEVICE void wide_divide(struct decode *d, const struct wide *w, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t n_ctx,
                        const uint32_t splits, const uint32_t spans, const uint32_t least, const uint32_t cluster, const uint32_t window,
                        const uint32_t ring)
{
    decode_init(d, n_head, n_head_kv, w->value_dim, n_ctx, splits, spans, least, 2, 0, w->threads, cluster, window, ring);
    const uint32_t cuts = WIDE_CUTS(n_head, n_head_kv), units = n_head_kv * cuts, part = group_x() / splits;
    d->cuts = cuts;
    d->heads = WIDE_HEADS(n_head, n_head_kv);
    d->waves = 1;
    d->slots = w->positions;
    d->span = part / units;
    d->part = part % units;
    d->kv_head = d->part / cuts;
    d->first = d->kv_head * d->group + d->part % cuts * d->heads;
    d->wide = WIDE_SUMS_FLOATS(KV_KIND, w->dim, w->value_dim, w->view, d->heads, w->rows, FAMILY);
}

/* A whole kernel except its first line, as attention_decode(): calls pdl_launch(), pdl_wait() and mark() itself.  The cache has the token's
 * position already.  out: [n_head][value_dim] f32; q: [n_head][dim] f32, normed and rotated; dim: a multiple of 16, value_dim of 8.
 * v: the plane of V, with a view K's.  parts, parts_ml, counters: WIDE_PARTS_BYTES, _ML_BYTES, _COUNTER_BYTES.  Other parameters as there;
 * span is at least WIDE_SPAN_LEAST if there are several.  KV_KIND is not f32.  grid_x: WIDE_GROUPS * splits * spans; threads:
 * WIDE_THREADS; LDS: WIDE_DECODE_BYTES. */
DEVICE void attention_wide_decode(const struct forge_kernel_args a, float *out, const float *q, const uint8_t *v, float *parts,
                                  float *parts_ml, uint32_t *counters, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t dim,
                                  const uint32_t value_dim, const uint32_t view, const uint32_t n_ctx, const float scale,
                                  const uint32_t splits, const uint32_t spans, const uint32_t span,
#ifdef ATTENTION_MORE
                                  const float cap, const float *sinks,
#endif
                                  const uint32_t cluster, const uint32_t window, const uint32_t ring, const uint32_t single)
{
    const uint64_t own = single ? 0 : state_settled(a, group_y());
    struct wide w;
    struct decode d;
    struct decode_range range;
    struct prefill p;
    struct wide_sums sums;
    struct wide_query query;
    struct wide_loads loads;
    pdl_launch();
    wide_init(&w, dim, value_dim, view, WIDE_HEADS(n_head, n_head_kv), WIDE_ROWS, WIDE_DIGITS,
              WIDE_MORE_BYTES(WIDE_HEADS(n_head, n_head_kv), value_dim, FAMILY), kv_k(a) + own, v + own);
    wide_divide(&d, &w, n_head, n_head_kv, n_ctx, splits, spans, span, cluster, window, ring);
    const uint32_t n_past = attention_at(a, single);         /* an earlier step wrote it */
    if (d.span >= decode_spans(&d, decode_positions(&d, n_past, 0))) return;
#ifdef ATTENTION_MORE
    d.cap = 0.0f;
    d.sinks = sinks;
    p.cap = cap * PREFILL_LOG2E;
    p.sinks = 0;
#endif
    if (cluster) cluster_arrive();
    decode_divide(&range, &d, n_past, 0);
    const uint32_t alone = range.spans * range.n == 1, left = (d.kv_head + 1) * d.group - d.first;
    p.n_head = n_head, p.n_head_kv = n_head_kv, p.head_dim = dim, p.n_ctx = d.n_ctx, p.threads = w.threads, p.causal = 1;
    p.window = 0, p.ring = ring, p.heads = d.heads, p.tokens = 1;
    p.scale = scale * PREFILL_LOG2E;
    p.kv_head = d.kv_head, p.first_head = d.first, p.n_heads = left < d.heads ? left : d.heads;
    p.first_token = 0, p.n_tokens = 1, p.n_past = n_past;
    p.begin = d.begin, p.end = d.begin + range.limit;
    w.splits = splits, w.split = d.split;
    /* The last position is new: an earlier kernel of this step stores it.  Others may be loaded before. */
    const uint32_t works = d.split < range.n,
                   early = works & single & (uint32_t)DEPENDENT_LAUNCH & (p.begin + (d.split + 1) * w.positions <= n_past);
    if (early) wide_start(&loads, &w, &p);
    pdl_wait();
    mark(a);
    if (cluster) cluster_started();
    if (!works && (!cluster || alone)) return;
    if (works) {
        if (!early) wide_start(&loads, &w, &p);
        wide_queries(&w, &p, (const uint8_t *)q, 0);
        p.n_past = p.end - 1;                                /* the last position that the group's rows attend */
        if (w.held > 2) wide_held_run(&sums, &query, &loads, &w, &p, range.count);
        else wide_run(&sums, &query, &loads, &w, &p, range.count);
        wide_publish(&sums, &query, &w, &d);
        if (cluster) decode_finish(out, parts, parts_ml, counters, &d, &range);
        else wide_finish(out, parts, parts_ml, counters, &d, &range);
    }
    if (!cluster || alone) return;
    cluster_barrier();
    decode_collect(out, parts, parts_ml, counters, &d, &range);
}
#endif
