/* attention_decode_tmpl.c -- attention of one token over the KV cache, with the positions split among groups.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2023, "Flash-Decoding for long-context inference")
 *
 * A group has the query heads of one KV head (or a cut of them, attention_sizes.h) and every splits-th block of positions.  So the launch
 * does not depend on the context, and the first rows of K can be loaded before the context is known.  `lanes` neighbouring lanes read a row
 * of K or V, 8 columns each; a wave reads `slots` rows at once and keeps up to `rows` such loads of K, and of V, in flight.
 *
 * A long context is cut into spans of neighbouring positions, each with its own groups: as many spans as have `span` positions, at most the
 * `spans` that the launch has groups for.  A short context has one span; the groups of other spans end before they wait for anything.
 *
 * Dot products are summed across lanes by halving: each exchange also halves the rows that a lane still works on.  At the end a lane has
 * the score of one row, computes its weight once and shares it through LDS.
 * Maximum and sums are kept per wave and merged at the end: waves merge in LDS; groups merge in the arena, where the last group does it.
 * If the splits of a span are a cluster, its groups merge in each other's LDS, each a share; shares of several spans merge in the arena,
 * where the last group of a share does it.
 *
 * If a family's matrix unit takes the rows as they lie (digits), steps are tiles there: attention_decode_matrix.h.
 *
 * Latency takes most of the time, so all independent loads are issued together.  If kernels begin before their predecessor has ended
 * (sm_90), only q and the new k and v wait for it; norms, n_past, rotations, K and V are loaded before (K and V wait, too, if another
 * kernel stores k and v).  Elsewhere the order is: q, new k and v, K rows that need no context | n_past | rotations, K, V.  Heads are
 * finished while rows are in flight; then follow scores, weights, values. */
#include "rope.h"
#ifdef ATTENTION_MORE                            /* some attention has a cap on its scores, or sinks */
#include "functions.h"
#endif

#ifndef ATTENTION_AHEAD                          /* rows of K per lane loaded before n_past is known */
#define ATTENTION_AHEAD 2
#endif
/* Both are finite, so that no difference is NaN.  NOTHING, the maximum of no scores, is below any score; MASKED, in place of a score, is so
 * far below NOTHING that its weight is 0. */
#define ATTENTION_NOTHING (-1e30f)
#define ATTENTION_MASKED  (-2e30f)

/* Upper limits: heads of a group; heads scored at once; rows in flight; twice as many with digits. */
enum { DECODE_HEADS = 8, DECODE_SCORED = 4, DECODE_ROWS = ATTENTION_MAX_ROWS, DECODE_PIECES = 2 * DECODE_ROWS };

/* Constants of the launch, then this lane's work. */
struct decode {
    uint32_t head_dim, n_head_kv, n_ctx, splits, threads, cluster, window, ring;       /* n_ctx: rows of the cache; window, ring: kv.h */
    uint32_t spans, least, digits;               /* least: positions of a span; digits: of f16 on the matrix unit, or 0 */
    uint32_t group, cuts, heads;                 /* query heads of a KV head, its cuts, query heads of this group */
    uint32_t lanes, slots, waves, rows, scored;  /* rows: in flight; scored: heads at once */
    uint32_t span, part, kv_head, first, split;  /* part: KV head and cut; first: query head */
    uint32_t begin;                              /* the first position it attends; positions count from there */
    uint32_t wave, slot, column;                 /* slot: row of a block of waves * slots; column: first of 8, 0 in idle lanes */
#ifdef ATTENTION_MORE
    float cap;                                   /* of scores, in units of log 2; 0: none */
    const float *sinks;                          /* [n_head] a score without a value; or NULL */
#endif
#ifdef ATTENTION_WIDE
    uint32_t wide;                               /* attention_wide.h: floats of LDS that waves take together; 0: as below */
#endif
};

/* Running softmax of a wave: the maximum, this lane's share of the sum of weights,
 * and its 8 columns of the sum of weight * v over the slot's rows. */
struct decode_state { float m[DECODE_HEADS], l[DECODE_HEADS], acc[DECODE_HEADS][8]; };

/* limit: positions from `limit` on, counted from decode.begin, do not exist; count: rows of a slot; spans: spans that have positions; n:
 * groups of this span with positions. */
struct decode_range { uint32_t limit, count, n, spans; };

/* Loaded ahead of use: heads of this wave, the new key and value. */
struct decode_inputs { struct head q[DECODE_HEADS], k, q_norm, k_norm; float v[8]; };

DEVICE void decode_init(struct decode *d, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim, const uint32_t n_ctx,
                        const uint32_t splits, const uint32_t spans, const uint32_t least, const uint32_t rows, const uint32_t digits,
                        const uint32_t threads, const uint32_t cluster, const uint32_t window, const uint32_t ring)
{
    d->head_dim = head_dim;
    d->n_head_kv = n_head_kv;
    d->n_ctx = kv_rows(n_ctx, ring);
    d->window = window;
    d->ring = ring;
    d->begin = 0;
    d->splits = splits;
    d->spans = spans;
    d->least = least;
    d->threads = threads;
    d->cluster = cluster;
    d->group = n_head / n_head_kv;
    d->cuts = ATTENTION_CUTS(n_head, n_head_kv, head_dim);
    d->heads = ATTENTION_HEADS(n_head, n_head_kv, head_dim);
    d->lanes = ATTENTION_LANES(head_dim);
    d->slots = WAVE / d->lanes;
    d->waves = threads / WAVE;
    d->rows = rows;
    d->digits = digits;
    d->scored = d->heads > 4 ? 2 : 4;
    const uint32_t units = n_head_kv * d->cuts, part = group_x() / splits;
    d->span = part / units;
    d->part = part % units;
    d->split = group_x() % splits;
    d->kv_head = d->part / d->cuts;
    d->first = d->kv_head * d->group + d->part % d->cuts * d->heads;
    d->wave = wave_id();
    d->slot = d->wave * d->slots + lane_id() / d->lanes;
    const uint32_t column = lane_id() % d->lanes * 8;
    d->column = column < head_dim ? column : 0;
#ifdef ATTENTION_WIDE
    d->wide = 0;
#endif
}

DEVICE uint32_t decode_lane_idle(const struct decode *d) { return lane_id() % d->lanes * 8 >= d->head_dim; }
/* The last cut may have fewer heads: it repeats its last head and writes it once. */
DEVICE uint32_t decode_head(const struct decode *d, uint32_t h)
{
    const uint32_t head = d->first + h, last = (d->kv_head + 1) * d->group - 1;
    return head < last ? head : last;
}
/* Position of row `row` of this lane's slot: the splits take blocks of waves * slots positions in turn. */
DEVICE uint32_t decode_position(const struct decode *d, uint32_t row)
{
    return (row * d->splits + d->split) * (d->waves * d->slots) + d->slot;
}

/* ---- LDS: q [heads][2][lanes][4]; per wave [heads][head_dim] or weights [heads][slots][rows]; from the splits of a cluster
 * [splits][share][4] and [splits][heads] m and l; per wave and head m and l; a flag ---- */
DEVICE float *decode_q(void) { return (float *)(void *)lds(); }
DEVICE float *decode_wave(const struct decode *d, uint32_t wave)
{
#ifdef ATTENTION_WIDE
    if (d->wide) return decode_q() + wave * d->wide;
#endif
    return decode_q() + d->heads * d->lanes * 8 + wave * ATTENTION_WAVE_FLOATS(d->heads, d->head_dim, WAVE);
}
DEVICE uint32_t decode_share(const struct decode *d) { return ATTENTION_SHARE(d->heads, d->head_dim, d->splits); }
DEVICE float *decode_received(const struct decode *d, uint32_t split, uint32_t place)
{
    return decode_wave(d, d->waves) + 4 * (split * decode_share(d) + place);
}
DEVICE float *decode_received_ml(const struct decode *d, uint32_t split, uint32_t h)
{
    return decode_received(d, d->splits, 0) + 2 * (split * d->heads + h);
}
DEVICE float *decode_ml(const struct decode *d)
{
    return decode_wave(d, d->waves) + ATTENTION_RECEIVED_FLOATS(d->heads, d->head_dim, d->splits, d->cluster);
}
/* Place of column c of a head in LDS.  The first and second fours of the lanes are apart, so that lanes read neighbouring 16 bytes; the
 * second fours are rotated by four lanes, so that neighbouring columns are written to different banks. */
DEVICE uint32_t decode_q_place(const struct decode *d, uint32_t h, uint32_t c)
{
    const uint32_t second = c / 4 % 2, turned = d->lanes >= 8 ? 4 * second : 0;
    return h * d->lanes * 8 + second * d->lanes * 4 + (c / 8 ^ turned) * 4 + c % 4;
}
/* Place of column c of a wave's sums.  Neighbouring fours of columns are swapped if c / 32 is odd; if lanes write twos, the twos of a four
 * are swapped if c / 64 is odd.  So values that are written together lie in different banks. */
DEVICE uint32_t decode_sums_turned(const struct decode *d, uint32_t c) { return WAVE / d->lanes == 4 ? c / 64 % 2 : 0; }
DEVICE uint32_t decode_sums_place(const struct decode *d, uint32_t c) { return c ^ (c / 32 % 2 * 4) ^ decode_sums_turned(d, c) * 2; }

/* ---- prologue ---- */

DEVICE void decode_load_norms(struct decode_inputs *in, const struct decode *d, const float *q_norm, const float *k_norm, uint32_t owner,
                              const uint32_t n_rot, const uint32_t neox)
{
    if (q_norm) head_load(&in->q_norm, q_norm, d->head_dim, n_rot, neox);
    if (owner && k_norm) head_load(&in->k_norm, k_norm, d->head_dim, n_rot, neox);
}

/* Waves take the heads in turn; the owner also takes the new key and value. */
DEVICE void decode_load_inputs(struct decode_inputs *in, const struct decode *d, const float *q, const float *k_new, const float *v_new,
                               uint32_t owner, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t i = 0; i * d->waves < d->heads; i++) {
        const uint32_t head = decode_head(d, d->wave + i * d->waves);
        head_load(&in->q[i], q + (uint64_t)head * d->head_dim, d->head_dim, n_rot, neox);
    }
    if (!owner) return;
    head_load(&in->k, k_new + (uint64_t)d->kv_head * d->head_dim, d->head_dim, n_rot, neox);
    const GLOBAL f32x4 *v = (const GLOBAL f32x4 *)(const void *)(v_new + (uint64_t)d->kv_head * d->head_dim + d->column);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) in->v[i] = v[i / 4][i % 4];
}

/* Norm, rotation and scale of this wave's query heads, stored in LDS; columns of idle lanes become 0. */
DEVICE void decode_finish_q(struct decode_inputs *in, const struct decode *d, const struct rotation *r, uint32_t normed, float eps,
                            float scale, const uint32_t n_rot, const uint32_t neox)
{
    float *q = decode_q();
    UNROLL
    for (uint32_t i = 0; i * d->waves < d->heads; i++) {
        const uint32_t h = d->wave + i * d->waves;
        struct head *x = &in->q[i];
        if (normed) head_norm(x, &in->q_norm, eps, d->head_dim);
        head_rotate(x, r, d->head_dim, n_rot);
        if (h >= d->heads) continue;
        UNROLL
        for (uint32_t k = 0; k < head_pairs(d->head_dim); k++) {
            const uint32_t pair = lane_id() + WAVE * k;
            if (!pair_exists(k, d->head_dim / 2)) continue;
            head_put(q + decode_q_place(d, h, pair_a(pair, n_rot, neox)), q + decode_q_place(d, h, pair_b(pair, n_rot, neox)),
                     x->a[k] * scale, x->b[k] * scale, neox);
        }
        for (uint32_t c = lane_id(); c < d->lanes * 8 - d->head_dim; c += WAVE) q[decode_q_place(d, h, d->head_dim + c)] = 0.0f;
    }
}

/* The owner's new key is normed, rotated and rounded as the cache rounds it; then key and value are stored.  k, v: this lane's 8 columns as
 * read back from the cache. */
DEVICE void decode_append(struct decode_inputs *in, float k[8], float v[8], uint8_t *k_plane, uint8_t *v_plane, const struct decode *d,
                          const struct rotation *r, uint32_t position, uint32_t normed, float eps, const uint32_t n_rot,
                          const uint32_t neox)
{
    float *row = decode_wave(d, d->wave);
    struct kv_piece k_piece, v_piece;
    if (normed) head_norm(&in->k, &in->k_norm, eps, d->head_dim);
    head_rotate(&in->k, r, d->head_dim, n_rot);
    head_store(row, &in->k, d->head_dim, n_rot, neox);
    wave_barrier();
    row_eight(k, row, d->column);
    wave_barrier();
    kv_encode(&k_piece, k);
    kv_encode(&v_piece, in->v);
    kv_values(k, &k_piece);
    kv_values(v, &v_piece);
    if (lane_id() >= d->lanes || decode_lane_idle(d) || d->part % d->cuts != 0) return;
    const uint32_t cache_row = kv_row(position, d->ring);
    kv_put(k_plane, d->kv_head, cache_row, d->column, &k_piece, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_put(v_plane, d->kv_head, cache_row, d->column, &v_piece, d->n_head_kv, d->n_ctx, d->head_dim);
}

/* The same for a key and value that another kernel has stored. */
DEVICE void decode_recall(float k[8], float v[8], const uint8_t *k_plane, const uint8_t *v_plane, const struct decode *d, uint32_t position)
{
    struct kv_piece k_piece, v_piece;
    const uint32_t row = kv_row(position, d->ring);
    kv_fetch(&k_piece, k_plane, d->kv_head, row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_fetch(&v_piece, v_plane, d->kv_head, row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_values(k, &k_piece);
    kv_values(v, &v_piece);
}

/* ---- a step over `rows` rows of each slot ---- */

/* Rows from .. to - 1 of the step that begins with row `row`; rows at `limit` or beyond read row 0. */
DEVICE void decode_fetch(struct kv_piece *x, const uint8_t *plane, const struct decode *d, uint32_t row, const uint32_t from,
                         const uint32_t to, uint32_t limit)
{
    UNROLL
    for (uint32_t r = from; r < to; r++) {
        const uint32_t position = decode_position(d, row + r);
        const uint32_t cache_row = kv_row(d->begin + (position < limit ? position : 0), d->ring);
        kv_fetch(&x[r], plane, d->kv_head, cache_row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    }
}

/* Positions that a token attends, without the position that the kernel appends. */
DEVICE uint32_t decode_positions(const struct decode *d, uint32_t n_past, const uint32_t appends)
{
    return (appends ? n_past : n_past + 1) - kv_window_begin(n_past, d->window);
}
/* Number of spans with positions. */
DEVICE uint32_t decode_spans(const struct decode *d, uint32_t positions)
{
    if (d->spans == 1 || positions < 2 * d->least) return 1;
    return positions / d->least < d->spans ? positions / d->least : d->spans;
}

/* This group's range.  The sizes of spans differ by at most one block of all splits.  Each span has at least two blocks
 * (ATTENTION_SPAN_LEAST), so that every split has positions. */
DEVICE void decode_divide(struct decode_range *range, struct decode *d, uint32_t n_past, const uint32_t appends)
{
    const uint32_t unit = d->waves * d->slots, all = unit * d->splits, positions = decode_positions(d, n_past, appends);
    uint32_t limit = positions;
    d->begin = kv_window_begin(n_past, d->window);
    range->spans = decode_spans(d, positions);
    if (range->spans > 1) {
        const uint32_t blocks = (positions + all - 1) / all, first = blocks * d->span / range->spans * all,
                       end = blocks * (d->span + 1) / range->spans * all;
        d->begin += first;
        limit = (end < positions ? end : positions) - first;
    }
    const uint32_t units = (limit + unit - 1) / unit;
    range->limit = limit;
    range->count = units > d->split ? (units - d->split + d->splits - 1) / d->splits : 0;
    range->n = units == 0 ? 1 : units < d->splits ? units : d->splits;
}

/* Columns column + 4 half .. + 3 of a query head; 0 in idle lanes. */
DEVICE f32x4 decode_read_q(const struct decode *d, uint32_t h, const uint32_t half)
{
    return *(const f32x4 *)(const void *)(decode_q() + decode_q_place(d, h, lane_id() % d->lanes * 8 + 4 * half));
}

/* Adds x over lanes that differ in `mask`; with n > 1 values a lane keeps the half that its bit selects. */
DEVICE void fold(float *x, const uint32_t n, const uint32_t mask)
{
    const uint32_t upper = lane_id() & mask;
    if (n == 1) x[0] += lane_xor_f32(x[0], mask);
    UNROLL
    for (uint32_t i = 0; i < n / 2; i++) {
        const float low = x[i], high = x[i + n / 2], keep = upper ? high : low, give = upper ? low : high;
        x[i] = keep + lane_xor_f32(give, mask);
    }
}
/* How many of n values a lane keeps after folds over the masks from .. below to, and the first of them. */
DEVICE uint32_t fold_left(const uint32_t n, const uint32_t from, const uint32_t to) { return to / from < n ? n / (to / from) : 1; }
DEVICE uint32_t fold_first(uint32_t n, const uint32_t from, const uint32_t to)
{
    uint32_t first = 0;
    UNROLL
    for (uint32_t mask = from; mask < to; mask *= 2) {
        n /= 2;
        if (lane_id() & mask) first += n;
    }
    return first;
}

/* s[i]: scores of head `head` + i for the rows, of `rows`, that this lane keeps; heads head .. head + scored - 1, as far as they exist.
 * Half of the columns at a time, to save registers of q. */
DEVICE void decode_scores(float s[DECODE_SCORED][DECODE_ROWS], const struct decode *d, const struct kv_piece *k, const uint32_t rows,
                          const uint32_t head)
{
    const uint32_t heads = d->heads - head < d->scored ? d->heads - head : d->scored;
    UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        f32x4 q[DECODE_SCORED];
        UNROLL
        for (uint32_t h = 0; h < heads; h++) q[h] = decode_read_q(d, head + h, half);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            float x[8];
            kv_values(x, &k[r]);
            UNROLL
            for (uint32_t h = 0; h < heads; h++) {
                if (half == 0) s[h][r] = 0.0f;
                UNROLL
                for (uint32_t i = 0; i < 4; i++) s[h][r] += q[h][i] * x[4 * half + i];
            }
        }
    }
    UNROLL
    for (uint32_t mask = 1, left = rows; mask < d->lanes; mask *= 2) {
        UNROLL
        for (uint32_t h = 0; h < heads; h++) fold(s[h], left, mask);
        left = left > 1 ? left / 2 : 1;
    }
#ifdef ATTENTION_MORE
    UNROLL
    for (uint32_t h = 0; h < heads && d->cap != 0.0f; h++)
        UNROLL
        for (uint32_t i = 0; i < fold_left(rows, 1, d->lanes); i++) s[h][i] = softcap_f32(s[h][i], d->cap);
#endif
}

/* Turns them into weights, in LDS at [head][slot][row], and rescales the state to the new maximum.  limit: positions that exist; checked:
 * some rows may not exist.  If several lanes keep the same row, only the first one adds its weight to the sum. */
DEVICE void decode_weights(struct decode_state *state, const struct decode *d, float s[DECODE_SCORED][DECODE_ROWS], uint32_t row,
                           const uint32_t rows, const uint32_t head, uint32_t limit, const uint32_t checked)
{
    const uint32_t kept = fold_left(rows, 1, d->lanes), first = fold_first(rows, 1, d->lanes), counts = lane_id() % d->lanes < rows;
    float *weight = decode_wave(d, d->wave) + lane_id() / d->lanes * rows + first;
    uint32_t exists[DECODE_ROWS];
    UNROLL
    for (uint32_t i = 0; i < kept; i++) exists[i] = !checked || decode_position(d, row + first + i) < limit;
    UNROLL
    for (uint32_t h = head; h < d->heads && h < head + d->scored; h++) {
        float top = state->m[h], score[DECODE_ROWS];
        UNROLL
        for (uint32_t i = 0; i < kept; i++) {
            score[i] = exists[i] ? s[h - head][i] : ATTENTION_MASKED;
            top = max_f32(top, score[i]);
        }
        UNROLL
        for (uint32_t mask = 1; mask < WAVE; mask *= 2)
            if (mask < rows || mask >= d->lanes) top = max_f32(top, lane_xor_f32(top, mask));
        const float factor = exp2_f32(state->m[h] - top);
        state->m[h] = top;
        state->l[h] *= factor;
        UNROLL
        for (uint32_t i = 0; i < kept; i++) {
            const float w = exp2_f32(score[i] - top);
            weight[h * d->slots * rows + i] = w;
            state->l[h] += counts ? w : 0.0f;
        }
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] *= factor;
    }
}

/* Scores and weights of all heads, a few at a time to save registers. */
DEVICE void decode_score(struct decode_state *state, const struct decode *d, const struct kv_piece *k, uint32_t row, const uint32_t rows,
                         uint32_t limit, const uint32_t checked)
{
    wave_barrier();
    UNROLL
    for (uint32_t head = 0; head < d->heads; head += d->scored) {
        float s[DECODE_SCORED][DECODE_ROWS];
        decode_scores(s, d, k, rows, head);
        decode_weights(state, d, s, row, rows, head, limit, checked);
        COMPILER_FENCE();
    }
}

DEVICE void decode_values(struct decode_state *state, const struct decode *d, const struct kv_piece *v, const uint32_t rows)
{
    const float *weight = decode_wave(d, d->wave) + lane_id() / d->lanes * rows;
    UNROLL
    for (uint32_t two = 0; two < rows; two += 2) {
        f32x2 w[DECODE_HEADS];
        UNROLL
        for (uint32_t h = 0; h < d->heads; h++) w[h] = *(const f32x2 *)(const void *)(weight + h * d->slots * rows + two);
        UNROLL
        for (uint32_t r = 0; r < 2; r++) {
            float x[8];
            kv_values(x, &v[two + r]);
            UNROLL
            for (uint32_t h = 0; h < d->heads; h++)
                UNROLL
                for (uint32_t i = 0; i < 8; i++) state->acc[h][i] += w[h][r] * x[i];
        }
    }
}

/* The last step of a split, which has at most `rows` rows left. */
DEVICE void decode_last(struct decode_state *state, const struct kv_piece *k, const struct kv_piece *v, const struct decode *d,
                        uint32_t row, const uint32_t rows, uint32_t limit)
{
    decode_score(state, d, k, row, rows, limit, 1);
    wave_barrier();
    decode_values(state, d, v, rows);
}

/* The rows of a split, `count` per slot; k and v hold the first step's.  Only the last step may be incomplete and is checked. */
DEVICE void decode_run(struct decode_state *state, struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane,
                       const struct decode *d, uint32_t count, uint32_t limit)
{
    uint32_t row = 0;
    if (count == 0) return;
#pragma clang loop unroll(disable)
    for (; row + d->rows < count; row += d->rows) {
        decode_score(state, d, k, row, d->rows, limit, 0);
        decode_fetch(k, k_plane, d, row + d->rows, 0, d->rows, limit);
        wave_barrier();
        decode_values(state, d, v, d->rows);
        COMPILER_FENCE();
        decode_fetch(v, v_plane, d, row + d->rows, 0, d->rows, limit);
    }
    if (count - row <= 2)                     decode_last(state, k, v, d, row, 2, limit);
    else if (d->rows > 4 && count - row <= 4) decode_last(state, k, v, d, row, 4, limit);
    else                                      decode_last(state, k, v, d, row, d->rows, limit);
}

/* The new token's score, in all lanes that share its row.  k: this lane's 8 columns. */
DEVICE float decode_new_score(const struct decode *d, uint32_t h, const float k[8])
{
    float s = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 8; i++) s += decode_read_q(d, h, i / 4)[i % 4] * k[i];
    s = lanes_sum_f32(s, d->lanes);
#ifdef ATTENTION_MORE
    if (d->cap != 0.0f) s = softcap_f32(s, d->cap);
#endif
    return s;
}

/* Initialises the state: the owner's contains the new token alone, others are empty.  k, v: this lane's columns of the new token. */
DEVICE void decode_begin(struct decode_state *state, const struct decode *d, uint32_t owner, const float k[8], const float v[8])
{
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->m[h] = ATTENTION_NOTHING;
        state->l[h] = 0.0f;
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] = 0.0f;
    }
    if (!owner) return;
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->m[h] = decode_new_score(d, h, k);
        state->l[h] = lane_id() == 0 ? 1.0f : 0.0f;
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] = lane_id() < d->lanes ? v[i] : 0.0f;
    }
}

/* ---- merging ---- */

/* Stores the wave's sums in LDS: it adds over its slots by halving, so that each slot writes other columns. */
DEVICE void decode_publish(struct decode_state *state, const struct decode *d)
{
    const uint32_t kept = fold_left(8, d->lanes, WAVE), first = fold_first(8, d->lanes, WAVE);
    float *sum = decode_wave(d, d->wave), *ml = decode_ml(d) + d->wave * d->heads * 2;
    wave_barrier();
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->l[h] = lanes_sum_f32(state->l[h], WAVE);
        UNROLL
        for (uint32_t mask = d->lanes, left = 8; mask < WAVE; mask *= 2) {
            fold(state->acc[h], left, mask);
            left = left > 1 ? left / 2 : 1;
        }
        float *at = sum + h * d->head_dim + decode_sums_place(d, d->column + first);
        const float *x = state->acc[h];
        const f32x2 two = { x[0], x[1] };
        const f32x4 four = { x[0], x[1], x[2], x[3] }, others = { x[4], x[5], x[6], x[7] };
        if (decode_lane_idle(d)) continue;
        if (kept == 1) *at = x[0];
        if (kept == 2) *(f32x2 *)(void *)at = two;
        if (kept >= 4) *(f32x4 *)(void *)at = four;
        if (kept == 8) *(f32x4 *)(void *)(sum + h * d->head_dim + decode_sums_place(d, d->column + 4)) = others;
    }
    if (lane_id() != 0) return;
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        ml[2 * h] = state->m[h];
        ml[2 * h + 1] = state->l[h];
    }
}

/* Merges parts 0 .. n - 1 of `most` into x, which has maximum m and total l; each part is weighted by exp2 of its distance to the common
 * maximum. */
DEVICE void decode_join(f32x4 *x, float *m, float *l, const f32x4 *part, const f32x2 *ml, const uint32_t most, uint32_t n)
{
    float top = *m;
    UNROLL
    for (uint32_t k = 0; k < most; k++) top = max_f32(top, k < n ? ml[k].x : ATTENTION_NOTHING);
    const float keep = exp2_f32(*m - top);
    *x = *x * keep;
    *l = *l * keep;
    *m = top;
    UNROLL
    for (uint32_t k = 0; k < most; k++) {
        const float factor = k < n ? exp2_f32(ml[k].x - top) : 0.0f;
        *x += part[k] * factor;
        *l += ml[k].y * factor;
    }
}

/* Four columns of head h of the group, summed over all waves. */
DEVICE void decode_sum_waves(f32x4 *x, float *m, float *l, const struct decode *d, uint32_t h, uint32_t column)
{
    enum { BATCH = 8 };
    *m = ATTENTION_NOTHING;
    *l = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) (*x)[i] = 0.0f;
    UNROLL
    for (uint32_t base = 0; base < d->waves; base += BATCH) {
        const uint32_t most = d->waves - base < BATCH ? d->waves - base : BATCH;
        f32x4 part[BATCH];
        f32x2 ml[BATCH];
        UNROLL
        for (uint32_t k = 0; k < most; k++) {
            ml[k] = *(const f32x2 *)(const void *)(decode_ml(d) + 2 * ((base + k) * d->heads + h));
            part[k] = *(const f32x4 *)(const void *)(decode_wave(d, base + k) + h * d->head_dim + (decode_sums_place(d, column) & ~3u));
        }
        decode_join(x, m, l, part, ml, most, most);
    }
    const f32x4 turned = { x->z, x->w, x->x, x->y };
    if (decode_sums_turned(d, column)) *x = turned;
}

DEVICE void decode_write(float *out, const struct decode *d, uint32_t h, uint32_t column, const f32x4 x, float l)
{
    if (d->first + h >= (d->kv_head + 1) * d->group) return;
    *(GLOBAL f32x4 *)(void *)(out + (uint64_t)(d->first + h) * d->head_dim + column) = x * (1.0f / l);
}

/* Places of parts in memory.  sums: rows of one head; head 0 of part 0 has row `row`, each part has rows for all heads of a group.  ml:
 * pairs of maximum and total; head 0 of part 0 has pair `two`, parts are `stride` pairs apart. */
struct decode_parts { float *sums, *ml; uint32_t row, two, stride; };

DEVICE void decode_leave(const struct decode_parts *parts, const struct decode *d, uint32_t part, uint32_t h, uint32_t column,
                         const f32x4 x, float m, float l, uint32_t first)
{
    const f32x2 two = { m, l };
    *(GLOBAL f32x4 *)(void *)(parts->sums + (uint64_t)(parts->row + part * d->heads + h) * d->head_dim + column) = x;
    if (first) *(GLOBAL f32x2 *)(void *)(parts->ml + 2 * (uint64_t)(parts->two + part * parts->stride + h)) = two;
}

/* Merges n of at most this many parts of four columns of head h, in batches with loads in flight together.  The place of m and l may be the
 * same in all lanes; it is kept out of scalar registers, because on AMD their cache could return old values. */
DEVICE void decode_merge(float *out, const struct decode_parts *parts, const struct decode *d, const uint32_t most, uint32_t n, uint32_t h,
                         uint32_t column)
{
    enum { BATCH = 16 };
    const uint32_t batch = most < BATCH ? most : BATCH;
    f32x4 x = { 0.0f, 0.0f, 0.0f, 0.0f };
    float x_m = ATTENTION_NOTHING, x_l = 0.0f;
    uint32_t head = h;
    PIN(head);
    for (uint32_t base = 0; base < n; base += BATCH) {
        f32x4 part[BATCH];
        f32x2 ml[BATCH];
        UNROLL
        for (uint32_t k = 0; k < batch; k++) {
            const uint32_t at = base + k < n ? base + k : 0, row = parts->row + at * d->heads + head;
            part[k] = *(const GLOBAL f32x4 *)(const void *)(parts->sums + (uint64_t)row * d->head_dim + column);
            ml[k] = *(const GLOBAL f32x2 *)(const void *)(parts->ml + 2 * (uint64_t)(parts->two + at * parts->stride + head));
        }
        decode_join(&x, &x_m, &x_l, part, ml, batch, n - base);
    }
    decode_write(out, d, h, column, x, x_l);
}

/* Sends item i (four columns; heads follow each other) to group i % splits of the cluster; the first items also send m and l of their
 * head. */
DEVICE void decode_send(const struct decode *d, uint32_t i, uint32_t h, uint32_t column, const f32x4 x, float m, float l)
{
    const f32x2 ml = { m, l };
    cluster_store16(decode_received(d, d->split, i / d->splits), i % d->splits, x);
    for (uint32_t rank = column / 4; rank < d->splits; rank += d->head_dim / 4)
        cluster_store8(decode_received_ml(d, d->split, h), rank, ml);
}

/* Merges the four columns at `place` that the splits of the cluster sent. */
DEVICE void decode_receive(f32x4 *x, float *m, float *l, const struct decode *d, uint32_t n, uint32_t place, uint32_t h)
{
    const f32x4 nothing = { 0.0f, 0.0f, 0.0f, 0.0f };
    f32x4 part[ATTENTION_MAX_CLUSTER];
    f32x2 ml[ATTENTION_MAX_CLUSTER];
    UNROLL
    for (uint32_t s = 0; s < d->splits; s++) {
        part[s] = *(const f32x4 *)(const void *)decode_received(d, s < n ? s : 0, place);
        ml[s] = *(const f32x2 *)(const void *)decode_received_ml(d, s < n ? s : 0, h);
    }
    *x = nothing;
    *m = ATTENTION_NOTHING;
    *l = 0.0f;
    decode_join(x, m, l, part, ml, d->splits, n);
}

/* A flag of the group in LDS. */
DEVICE uint32_t *decode_flag(const struct decode *d) { return (uint32_t *)(void *)(decode_ml(d) + d->waves * d->heads * 2); }

/* Merges this group's share of the data from the first n splits of the cluster.  With several spans the last group of a share merges these.
 * Sums of a share lie beside the sums of other shares; each share has its own m and l. */
DEVICE void decode_collect(float *out, float *parts, float *parts_ml, uint32_t *counters, const struct decode *d,
                           const struct decode_range *range)
{
    const uint32_t items = d->heads * d->head_dim / 4, first = d->part * d->spans;
    const struct decode_parts all = { parts, parts_ml, first * d->heads, (first * d->splits + d->split) * d->heads, d->splits * d->heads };
    for (uint32_t place = thread_x(); place < decode_share(d); place += d->threads) {
        const uint32_t i = place * d->splits + d->split, h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        if (i >= items) continue;
        decode_receive(&x, &m, &l, d, range->n, place, h);
        if (range->spans == 1) decode_write(out, d, h, column, x, l);
        else decode_leave(&all, d, d->span, h, column, x, m, l, column < 4 * d->splits);
    }
    if (range->spans == 1 || !last_to_arrive(counters + d->part * d->splits + d->split, range->spans, decode_flag(d))) return;
    for (uint32_t place = thread_x(); place < decode_share(d); place += d->threads) {
        const uint32_t i = place * d->splits + d->split;
        if (i < items) decode_merge(out, &all, d, d->spans, range->spans, 4 * i / d->head_dim, 4 * i % d->head_dim);
    }
}

DEVICE void decode_finish(float *out, float *parts, float *parts_ml, uint32_t *counters, const struct decode *d,
                          const struct decode_range *range)
{
    const uint32_t items = d->heads * d->head_dim / 4, n = range->spans * range->n, first = d->part * d->spans * d->splits * d->heads;
    const struct decode_parts all = { parts, parts_ml, first, first, d->heads };
    barrier();
    for (uint32_t i = thread_x(); i < items; i += d->threads) {
        const uint32_t h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        decode_sum_waves(&x, &m, &l, d, h, column);
#ifdef ATTENTION_MORE
        if (d->sinks && d->span == 0 && d->split == 0) {         /* every head's sink once; it adds only its weight */
            const float sink = ((const GLOBAL float *)d->sinks)[decode_head(d, h)] * 1.44269504f, top = max_f32(m, sink);
            x *= exp2_f32(m - top);
            l = l * exp2_f32(m - top) + exp2_f32(sink - top);
            m = top;
        }
#endif
        if (n == 1) decode_write(out, d, h, column, x, l);
        else if (d->cluster) decode_send(d, i, h, column, x, m, l);
        else decode_leave(&all, d, d->span * d->splits + d->split, h, column, x, m, l, column == 0);
    }
    if (n == 1 || d->cluster || !last_to_arrive(counters + d->part, n, decode_flag(d))) return;
    for (uint32_t i = thread_x(); i < items; i += d->threads)
        decode_merge(out, &all, d, d->spans * d->splits, n, 4 * i / d->head_dim, 4 * i % d->head_dim);
}

#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
#include "attention_decode_matrix.h"
#endif

/* ---- the rows of a group ---- */

/* Loads rows of K that need no context; on the matrix unit up to half a tile. */
DEVICE void decode_ask_ahead(struct kv_piece *k, const uint8_t *plane, const struct decode *d, const uint32_t ahead, uint32_t limit)
{
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
    if (d->digits) {
        matrix_fetch_k(k, plane, d, 0, 0, ahead > 0, limit);
        return;
    }
#endif
    decode_fetch(k, plane, d, 0, 0, ahead, limit);
}

/* Computes the ranges that follow from the context, and loads the first step's rows and this position's rotation, K rows that need no
 * context first.  A load that may not be needed is skipped only if loads need not be waited for in order: otherwise the number in flight
 * must be known. */
DEVICE void decode_ask(struct decode_range *range, struct kv_piece *k, struct kv_piece *v, struct rotation *r, const uint8_t *k_plane,
                       const uint8_t *v_plane, struct decode *d, uint32_t n_past, const uint32_t appends, const float *rope_hi,
                       const float *rope_lo, const uint32_t n_rot, const uint32_t block)
{
    const uint32_t ahead = d->window ? 0 : ATTENTION_AHEAD < d->rows ? ATTENTION_AHEAD : d->rows;
    if (d->span) decode_divide(range, d, n_past, appends);
    decode_ask_ahead(k, k_plane, d, ahead, d->span ? range->limit : d->n_ctx);
    if (!d->span) decode_divide(range, d, n_past, appends);
    const uint32_t limit = range->limit;
    rotation_load(r, rope_hi, rope_lo, n_past, block, d->head_dim, n_rot);
    COMPILER_FENCE();
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
    if (d->digits) {
        matrix_ask(k, v, k_plane, v_plane, d, ahead > 0, range);
        COMPILER_FENCE();
        return;
    }
#endif
    UNROLL
    for (uint32_t from = 0; from < d->rows; from += from ? from : 2) {
        const uint32_t to = from ? 2 * from : 2;
        if (DEPENDENT_LAUNCH && from >= range->count) continue;
        decode_fetch(k, k_plane, d, 0, from > ahead ? from : ahead, to, limit);
        decode_fetch(v, v_plane, d, 0, from, to, limit);
    }
    COMPILER_FENCE();
}

/* Computes this wave's sums over its rows and stores them in LDS. */
DEVICE void decode_rows(const struct decode *d, struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane,
                        const struct decode_range *range, uint32_t owner, const float k_new[8], const float v_new[8])
{
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
    if (d->digits) {
        struct decode_matrix matrix;
        matrix_begin(&matrix, d, owner, k_new, v_new);
        matrix_run(&matrix, k, v, k_plane, v_plane, d, range->count, range->limit);
        matrix_publish(&matrix, d);
        return;
    }
#endif
    struct decode_state state;
    decode_begin(&state, d, owner, k_new, v_new);
    decode_run(&state, k, v, k_plane, v_plane, d, range->count, range->limit);
    decode_publish(&state, d);
}

/* The position of this row of the grid. */
DEVICE uint32_t attention_at(const struct forge_kernel_args a, const uint32_t single)
{
    return single ? load_settled4(&a.step->n_past) : position_settled(a, group_y());
}

/* A whole kernel except its first line: calls pdl_launch(), pdl_wait() and mark() itself.
 * out: [n_head][head_dim] f32.  q: [n_head][head_dim], k_new, v_new: [n_head_kv][head_dim] f32, as projected (bias added).  The heads are
 * normed by q_norm and k_norm ([head_dim]; NULL: no norm), rotated (rope.h; n_rot 0: not), and k and v are appended to the cache at
 * position n_past.
 * k_new NULL: q is only scaled, and the cache has position n_past already; q_norm must be NULL and n_rot 0.  In a grid of several rows each
 * row is a token, at its position (position_of), with parts and counters of its own; single: there is one row.  recalls: k_new is NULL, but
 * the token's key and value are added where new ones would be, so that sums have the same order.
 * scale: of q . k.  parts, parts_ml, counters: arena, ATTENTION_PARTS_BYTES, _ML_BYTES, _COUNTER_BYTES; the first two are 16-byte aligned
 * and not needed if one group or one cluster has all positions of a part.  cluster 1: launched as clusters of `splits` groups, at most
 * ATTENTION_MAX_CLUSTER.  span: positions of a span, at least ATTENTION_SPAN_LEAST if there are several spans; rows: 2, 4 or 8, with digits
 * up to ATTENTION_MATRIX_ROWS.
 * digits: 0, or 2 if ATTENTION_ON_MATRIX.
 * window, ring: kv.h.  grid_x: ATTENTION_GROUPS; LDS: ATTENTION_LDS_BYTES; head_dim: a multiple of 8, at most 256. */
DEVICE void attention_decode(const struct forge_kernel_args a, float *out, const float *q, const float *k_new, const float *v_new,
                             const float *q_norm, const float *k_norm, const float eps,
                             const float *rope_hi, const float *rope_lo, const uint32_t n_rot, const uint32_t neox, const uint32_t block,
                             float *parts, float *parts_ml, uint32_t *counters, const uint32_t n_head, const uint32_t n_head_kv,
                             const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t splits, const uint32_t spans,
                             const uint32_t span, const uint32_t rows, const uint32_t digits,
#ifdef ATTENTION_MORE                            /* cap: of scores, 0: none; sinks: [n_head] a score without a value, or NULL */
                             const float cap, const float *sinks,
#endif
                             const uint32_t threads, const uint32_t cluster, const uint32_t window, const uint32_t ring,
                             const uint32_t single, const uint32_t recalls)
{
    struct decode d;
    struct decode_inputs in;
    struct rotation r;
    struct kv_piece k[DECODE_PIECES], v[DECODE_PIECES];
    float k_mine[8], v_mine[8];
    struct decode_range range;
    uint32_t n_past = 0;
    pdl_launch();
    decode_init(&d, n_head, n_head_kv, head_dim, n_ctx, splits, spans, span, rows, digits, threads, cluster, window, ring);
    const uint64_t own = single ? 0 : state_settled(a, group_y());
    uint8_t *k_plane = kv_k(a) + own, *v_plane = kv_v(a, n_head_kv, kv_rows(n_ctx, ring), head_dim) + own;
    if (d.span) {                                /* an earlier step wrote n_past */
        n_past = attention_at(a, single);
        if (d.span >= decode_spans(&d, decode_positions(&d, n_past, k_new || recalls))) return;
    }
#ifdef ATTENTION_MORE
    d.cap = cap * 1.44269504f;
    d.sinks = sinks;
#endif
    if (cluster) cluster_arrive();
    const uint32_t owner = (k_new || recalls) && d.span == 0 && d.split == 0 && d.wave == d.waves - 1;
    decode_load_norms(&in, &d, q_norm, k_norm, owner, n_rot, neox);
    const uint32_t early = DEPENDENT_LAUNCH && k_new;      /* otherwise an earlier kernel writes position n_past of the cache */
    if (early) {
        n_past = attention_at(a, single);
        decode_ask(&range, k, v, &r, k_plane, v_plane, &d, n_past, 1, rope_hi, rope_lo, n_rot, block);
    }
    pdl_wait();
    if (!early) n_past = attention_at(a, single);
    decode_load_inputs(&in, &d, q, k_new, v_new, owner && k_new, n_rot, neox);
    if (!early) decode_ask(&range, k, v, &r, k_plane, v_plane, &d, n_past, k_new || recalls, rope_hi, rope_lo, n_rot, block);
    mark(a);
    if (cluster) cluster_started();
    const uint32_t alone = range.spans * range.n == 1;
    if (d.split >= range.n && (!cluster || alone)) return;
    COMPILER_FENCE();

    if (!cluster || d.split < range.n) {
        decode_finish_q(&in, &d, &r, q_norm != 0, eps, scale * 1.44269504f, n_rot, neox);
        if (owner && recalls) decode_recall(k_mine, v_mine, k_plane, v_plane, &d, n_past);
        else if (owner) decode_append(&in, k_mine, v_mine, k_plane, v_plane, &d, &r, n_past, k_norm != 0, eps, n_rot, neox);
        barrier();
        decode_rows(&d, k, v, k_plane, v_plane, &range, owner, k_mine, v_mine);
        decode_finish(out, parts, parts_ml, counters, &d, &range);
    }
    if (!cluster || alone) return;
    cluster_barrier();
    decode_collect(out, parts, parts_ml, counters, &d, &range);
}
