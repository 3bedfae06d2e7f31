/* gemv_matrix_tmpl.c -- y = W x for up to COLUMNS tokens on the matrix unit; each token gets the bits of gemv_tmpl.c for that token alone.
 * Included once per (FORMAT, LANES, STAGES, COLUMNS), after formats/FORMAT.h; a program may hold several.
 *
 * In decode, lane l of the LANES that share a row sums its units l, l + LANES, ..., a *class*, in this order; then the classes are summed
 * as a tree.  Here a tile of 16 rows is multiplied by all tokens.  For each unit the matrix unit computes the integer sums, which are
 * exact, and a lane treats the sums that it holds, of some rows and tokens, as decode does, by the same expressions.  Sums are kept per
 * class and added by the same tree.
 *
 * Four neighbouring units are a *quad*.  The waves of a group are divided into slots of MATRIX_SPLIT() waves: a slot has a tile, each of
 * its waves some of the quads of classes, and at the end of a tile their sums are combined in LDS.  In a cluster of `ranks` groups each
 * group has some of the classes of all its slots' rows, and of the columns of activations, and the groups' sums are combined in LDS, too.
 *
 * Each wave copies the weights that it needs.  A *stage* is a quad of 16 rows: planes first, [plane][row][4 units][16 bytes], with the
 * units of a row rotated so that eight rows are in different banks; then the rest of the quad, [piece][row][16].  STAGES stages form a
 * ring; all but the one in use are in flight. */
#ifndef FORMAT                                   /* alone: for editors, linters and tests */
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#ifndef LANES                                    /* lanes that share a row in decode */
#define LANES 32
#endif
#ifndef STAGES                                   /* 2 or more */
#define STAGES 2
#endif
#ifndef COLUMNS                                  /* tokens: 1 to 8 */
#define COLUMNS 8
#endif
#include "launch.h"
#include "acts.h"
#include "mma.h"
#include "row_stride.h"

#ifndef FORGE_GEMV_MATRIX_COMMON
#define FORGE_GEMV_MATRIX_COMMON
#define GEMV_MATRIX_PASTE2(name, columns, format, lanes, stages) name##_matrix##columns##_##format##_##lanes##x##stages
#define GEMV_MATRIX_PASTE(name, columns, format, lanes, stages) GEMV_MATRIX_PASTE2(name, columns, format, lanes, stages)
#define GEMV_MATRIX_OF2(name, format) name##_##format
#define GEMV_MATRIX_OF(name, format) GEMV_MATRIX_OF2(name, format)

/* Constants of a kernel: groups of the grid, threads per group, groups per cluster that share the columns (ranks; 1: no cluster), lanes.
 * x_bytes: from a token's activations in LDS to the next token's.  parts_at: offset of twice MATRIX_PART_BYTES per wave; exchange_at: of
 * MATRIX_EXCHANGE_BYTES; ring_at: of the rings. */
struct gemv_matrix { uint32_t groups, threads, ranks, lanes, x_bytes, parts_at, exchange_at, ring_at, ring_bytes; };

/* One matrix, or two matrices with 8 rows each in every tile. */
struct gemv_matrix_rows { const uint8_t *w, *w_pair; uint32_t rows, paired; };

/* The stage that a wave loads next: its tile, its quad of classes among the wave's, its round of units, its place in the ring.
 * turn: turns of this group's slots so far, earlier products included. */
struct gemv_ahead { uint32_t tile, quad, round, place, turn; };

/* The slots of the grid take tiles in turn; neighbouring tiles go to different groups. */
DEVICE uint32_t gemv_matrix_split(const struct gemv_matrix *k) { return MATRIX_SPLIT(k->threads / WAVE, k->lanes / 4 / k->ranks); }
DEVICE uint32_t gemv_matrix_slots(const struct gemv_matrix *k) { return k->threads / WAVE / gemv_matrix_split(k); }
DEVICE uint32_t gemv_matrix_stride(const struct gemv_matrix *k) { return k->groups / k->ranks * gemv_matrix_slots(k); }
DEVICE uint32_t gemv_matrix_slot(const struct gemv_matrix *k)
{
    return group_x() / k->ranks + k->groups / k->ranks * (wave_id() / gemv_matrix_split(k));
}
DEVICE uint32_t gemv_matrix_tiles(const struct gemv_matrix_rows *m)
{
    const uint32_t each = m->paired ? MATRIX_TILE / 2 : MATRIX_TILE;
    return (m->rows + each - 1) / each;
}

/* A tree sum of n values, neighbours first: n a power of two up to 8. */
DEVICE float gemv_matrix_tree(const float *from, const uint32_t n, const uint32_t stride)
{
    float v[8];
    UNROLL
    for (uint32_t i = 0; i < 8; i++) v[i] = i < n ? from[i * stride] : 0.0f;
    UNROLL
    for (uint32_t step = 1; step < n; step *= 2)
        UNROLL
        for (uint32_t i = 0; i + step < n; i += 2 * step) v[i] += v[i + step];
    return v[0];
}
/* A wave's sums of a tile, [8 tokens][16 rows]; to avoid bank conflicts, the halves of rows are swapped for every second pair of tokens.
 * Two buffers alternate between tiles. */
DEVICE float *gemv_matrix_part(const struct gemv_matrix *k, uint32_t turn, uint32_t wave)
{
    return (float *)(void *)(lds() + k->parts_at + (turn % 2 * (k->threads / WAVE) + wave) * MATRIX_PART_BYTES);
}
DEVICE uint32_t gemv_matrix_at(uint32_t row, uint32_t token) { return token * MATRIX_TILE + (row ^ token / 2 % 2 * 8); }
/* The sum over all waves of a slot, for tile row i and token t. */
DEVICE float gemv_matrix_of_waves(const struct gemv_matrix *k, uint32_t turn, uint32_t slot, uint32_t i, uint32_t t)
{
    const uint32_t split = gemv_matrix_split(k);
    return gemv_matrix_tree(gemv_matrix_part(k, turn, slot * split) + gemv_matrix_at(i, t), split, MATRIX_PART_BYTES / 4);
}
/* Where the waves of a slot wait for each other, waves without a slot too; with a cluster its groups wait for each other instead. */
DEVICE uint8_t *gemv_matrix_meet(const struct gemv_matrix *k, uint32_t slot) { return lds() + k->exchange_at + slot * MEET_BYTES; }
DEVICE struct gemv_ahead gemv_matrix_start(const struct gemv_matrix *k)
{
    const uint32_t split = gemv_matrix_split(k), waves = k->threads / WAVE, first = thread_x() * split;
    const struct gemv_ahead none = { 0, 0, 0, 0, 0 };
    if (k->ranks == 1 && first < waves) meet_init(gemv_matrix_meet(k, thread_x()), waves - first < split ? waves - first : split);
    return none;
}
/* The sums of a cluster's groups: [2 turns][slots][ranks][tokens][16 rows], for a group's share of the tokens, 8 / ranks. */
DEVICE float *gemv_matrix_exchange(const struct gemv_matrix *k, uint32_t turn, uint32_t slot)
{
    return (float *)(void *)(lds() + k->exchange_at) + (turn % 2 * gemv_matrix_slots(k) + slot) * (8 * MATRIX_TILE);
}
#endif

#define M(name) GEMV_MATRIX_PASTE(name, COLUMNS, FORMAT, LANES, STAGES)
#define X(name) GEMV_MATRIX_OF(name, FORMAT)
#define MATRIX_PLANES X(QUAD_PLANES)
#define MATRIX_EXTRAS ((X(ROW_BYTES)(256) - 64 * MATRIX_PLANES) / 16)

/* Copies a stage to LDS at `to`; does nothing after the last tile or the last unit of the row. */
DEVICE void M(gemv_ask)(uint8_t *to, const struct gemv_matrix_rows *m, uint32_t tile, uint32_t quad, const uint32_t cols)
{
    const uint32_t units = ACTS_UNITS(cols), row_bytes = ROW_STRIDE(X(ROW_BYTES)(cols)), lane = lane_id();
    if (tile < gemv_matrix_tiles(m) && 4 * quad < units) {
        struct copy c;
        UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            const uint32_t i = lane / 4 + 8 * h, row = m->paired ? tile * 8 + lane / 4 : tile * 16 + i;
            const uint8_t *from = (m->paired && h ? m->w_pair : m->w) + (uint64_t)(row < m->rows ? row : m->rows - 1) * row_bytes +
                                  quad * 64 + lane % 4 * 16;
            UNROLL
            for (uint32_t p = 0; p < MATRIX_PLANES; p++)
                copy_begin(&c, to + p * 1024 + i * 64 + (lane % 4 ^ i / 2 % 4) * 16, from + p * units * 16,
                           units % 4 == 0 || 4 * quad + lane % 4 < units);
        }
        UNROLL
        for (uint32_t first = 0; first < MATRIX_EXTRAS; first += 2) {
            const uint32_t i = lane % 16, e = first + lane / 16, row = m->paired ? tile * 8 + i % 8 : tile * 16 + i;
            const uint8_t *from = (m->paired && i / 8 ? m->w_pair : m->w) + (uint64_t)(row < m->rows ? row : m->rows - 1) * row_bytes;
            if (e < MATRIX_EXTRAS)
                copy_begin(&c, to + MATRIX_PLANES * 1024 + e * QUAD_EXTRA_BYTES + i * 16, from + X(quad_extra)(e, quad, units), 1);
        }
    }
    copy_commit();
}

/* Copies the wave's next stage to its ring. */
DEVICE void M(gemv_next)(struct gemv_ahead *ahead, const struct gemv_matrix *k, const struct gemv_matrix_rows *m, const uint32_t cols)
{
    const uint32_t split = gemv_matrix_split(k), quads = LANES / 4 / k->ranks, each = quads / split;
    const uint32_t rounds = (ACTS_UNITS(cols) + LANES - 1) / LANES;
    const uint32_t quad = group_x() % k->ranks * quads + wave_id() % split * each + ahead->quad;
    M(gemv_ask)(lds() + k->ring_at + wave_id() * k->ring_bytes + ahead->place * (16 * X(ROW_BYTES)(256)), m, ahead->tile,
                quad + ahead->round * (LANES / 4), cols);
    ahead->place = ahead->place + 1 == STAGES ? 0 : ahead->place + 1;
    if (++ahead->round < rounds) return;
    ahead->round = 0;
    if (++ahead->quad < each) return;
    ahead->quad = 0;
    ahead->tile += gemv_matrix_stride(k);
}

/* sum[i] += the products of unit i of a quad; element e belongs to row lane / 4 + 8 (e / 2), token lane % 4 * 2 + e % 2.  at: the stage;
 * own: number of its first unit within this group's activations, of `own_cols` columns. */
DEVICE void M(gemv_use)(float sum[4][4], const uint8_t *at, const struct gemv_matrix *k, uint32_t quad, uint32_t own, const uint32_t cols,
                        const uint32_t digits)
{
    const uint32_t units = ACTS_UNITS(cols), own_cols = MATRIX_COLS(cols, LANES, k->ranks), lane = lane_id();
    const uint8_t *extra = at + MATRIX_PLANES * 1024 + lane / 4 * 16, *x_lds = lds() + own * 16;
    const uint8_t *word_rows = at + lane / 16 * 1024 + lane % 16 * 64;
    const uint8_t *digit_rows = x_lds + (lane % 8 < COLUMNS ? lane % 8 : 0) * k->x_bytes + ACTS_SCRATCH_BYTES +
                                lane / 8 * 16 * ACTS_PLANE_UNITS(own_cols);
    const uint8_t *scales[2];
    struct X(quad) extras[2];
    UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        const uint32_t token = lane % 4 * 2 + h;
        scales[h] = x_lds + (token < COLUMNS ? token : 0) * k->x_bytes;
        X(quad_load)(&extras[h], extra + h * 128, quad);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t unit = 4 * quad + i;
        uint32_t planes[(MATRIX_PLANES + 1) / 2][4], word[2][MATRIX_PLANES], q[3][4];
        struct X(unit) u[2];
        struct acts_unit x[2];
        if (units % 4 && unit >= units) break;
        if (X(SUM_COLS) == 16 && i == 2) wave_barrier();           /* registers cannot hold the loads of all four */
        UNROLL
        for (uint32_t p = 0; p < MATRIX_PLANES; p += 2)            /* with an odd number, the last plane twice */
            ldmatrix(planes[p / 2], word_rows + (lane / 16 && p + 1 == MATRIX_PLANES ? p * 1024 - 1024 : p * 1024) +
                                    (i ^ lane / 2 % 4) * 16, 0);
        UNROLL
        for (uint32_t p = 0; p < MATRIX_PLANES; p++) {
            word[0][p] = planes[p / 2][p % 2 * 2];
            word[1][p] = planes[p / 2][p % 2 * 2 + 1];
        }
        UNROLL
        for (uint32_t n = 0; n < digits; n++) ldmatrix(q[n], digit_rows + i * 16 + n * 64 * ACTS_PLANE_UNITS(own_cols), 0);
        UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            X(quad_unit)(&u[h], word[h], &extras[h], unit);
            x[h].scale = *(const f32x4 *)(const void *)(scales[h] + i * 16 + ACTS_SCALES(own_cols, digits));
        }
        float p[4][64 / X(SUM_COLS)];
        UNROLL
        for (uint32_t b = 0; b < 64 / X(SUM_COLS); b++) {
            uint32_t d[3][4];
#if X(SUM_COLS) == 32
            const uint32_t w[4] = { X(codes)(&u[0], 2 * b).x, X(codes)(&u[1], 2 * b).x, X(codes)(&u[0], 2 * b + 1).x,
                                    X(codes)(&u[1], 2 * b + 1).x };
#else
            const uint32_t w[2] = { X(codes)(&u[0], b).x, X(codes)(&u[1], b).x };
#endif
            UNROLL
            for (uint32_t n = 0; n < digits; n++) {
#if X(SUM_COLS) == 32
                mma_bytes32(d[n], w, &q[n][2 * b]);
#else
                mma_bytes16(d[n], w, q[n][b]);
#endif
            }
            UNROLL
            for (uint32_t e = 0; e < 4; e++) p[e][b] = sums_value(d[0][e], digits > 1 ? d[1][e] : 0, digits > 2 ? d[2][e] : 0, digits);
        }
        UNROLL
        for (uint32_t e = 0; e < 4; e++) sum[i][e] += X(value)(&u[e / 2], p[e], &x[e % 2], unit);
    }
}

/* The wave's part of a tile: its classes, summed as a tree. */
DEVICE void M(gemv_tile)(float v[4], struct gemv_ahead *ahead, uint32_t *place, const struct gemv_matrix *k,
                         const struct gemv_matrix_rows *m, const uint32_t cols, const uint32_t digits)
{
    const uint32_t split = gemv_matrix_split(k), quads = LANES / 4 / k->ranks, each = quads / split;
    const uint32_t rounds = (ACTS_UNITS(cols) + LANES - 1) / LANES;
    float half[3][4];                              /* of the tree, per level: the half that waits for the other */
#pragma unroll 1
    for (uint32_t j = 0; j < each; j++) {
        const uint32_t own = wave_id() % split * each + j, first = group_x() % k->ranks * quads + own;
        float sum[4][4] = { { 0 } };
#pragma unroll 1
        for (uint32_t r = 0; r < rounds; r++) {
            copy_wait(STAGES - 2);
            wave_barrier();
            M(gemv_next)(ahead, k, m, cols);
            const uint8_t *at = lds() + k->ring_at + wave_id() * k->ring_bytes + *place * (16 * X(ROW_BYTES)(256));
            const uint32_t quad = first + r * (LANES / 4);
            if (4 * quad < ACTS_UNITS(cols)) M(gemv_use)(sum, at, k, quad, 4 * (own + r * quads), cols, digits);
            *place = *place + 1 == STAGES ? 0 : *place + 1;
        }
        UNROLL
        for (uint32_t e = 0; e < 4; e++) v[e] = (sum[0][e] + sum[1][e]) + (sum[2][e] + sum[3][e]);
        UNROLL
        for (uint32_t level = 0, done = 0; 1u << level < each; level++) {
            const uint32_t second = j >> level & 1;
            UNROLL
            for (uint32_t e = 0; e < 4; e++) {
                if (!done && second) v[e] += half[level][e];
                if (!done && !second) half[level][e] = v[e];
            }
            done |= !second;
        }
    }
}

/* Passes a tile's sums to the sink, one per token and row, or row of a pair; more: the values to add to them. */
DEVICE void M(gemv_finish)(const struct forge_kernel_args a, const struct gemv_matrix *k, const struct gemv_matrix_rows *m, uint32_t tile,
                           uint32_t turn, uint32_t t0, uint32_t n, const float *more, row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t split = gemv_matrix_split(k), slot = wave_id() / split, thread = thread_x() - slot * split * WAVE,
                   rank = group_x() % k->ranks, each = m->paired ? MATRIX_TILE / 2 : MATRIX_TILE, tokens = 8 / k->ranks,
                   share = tokens * MATRIX_TILE;
    if (k->ranks > 1) {
        if (tile < gemv_matrix_tiles(m))
            for (uint32_t o = thread; o < 8 * MATRIX_TILE; o += split * WAVE)
                cluster_store4(gemv_matrix_exchange(k, turn, slot) + rank * share + o % share, o / share,
                               gemv_matrix_of_waves(k, turn, slot, o % MATRIX_TILE, o / MATRIX_TILE));
        cluster_barrier();
    }
    UNROLL
    for (uint32_t i = 0; i * split * WAVE < tokens * each; i++) {
        const uint32_t o = thread + i * split * WAVE, at = o % each, token = rank * tokens + o / each, row = tile * each + at;
        if (o >= tokens * each || token >= n || row >= m->rows) continue;
        float y[2];
        for (uint32_t h = 0; h <= m->paired; h++)
            y[h] = k->ranks > 1 ? gemv_matrix_tree(gemv_matrix_exchange(k, turn, slot) + o / each * MATRIX_TILE + at + 8 * h, k->ranks,
                                                   share)
                                : gemv_matrix_of_waves(k, turn, slot, at + 8 * h, token);
        if (m->paired) sink_pair(a, t0 + token, row, y[0], y[1]);
        else sink(a, t0 + token, row, y[0] + more[i]);
    }
}

DEVICE uint32_t M(gemv_run)(const struct forge_kernel_args a, struct gemv_ahead *begun, const struct gemv_matrix *k,
                            const struct gemv_matrix_rows *m, const uint32_t cols, const uint32_t digits, uint32_t t0, uint32_t n,
                            uint32_t slot, row_addend *addend, row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t split = gemv_matrix_split(k), stride = gemv_matrix_stride(k), tiles = gemv_matrix_tiles(m), rest = tiles % stride;
    const uint32_t of_group = wave_id() / split, busy = of_group < gemv_matrix_slots(k), thread = thread_x() - of_group * split * WAVE,
                   tokens = 8 / k->ranks, turns = (tiles + stride - 1) / stride, apart = k->ranks > 1;
    struct gemv_ahead ahead = *begun;
    uint32_t place = 0;
    float more[4] = { 0 };
    if (apart) cluster_barrier();                  /* all groups run, and have read the previous product's sums */
#pragma unroll 1
    for (uint32_t i = 0; i < turns + !apart; i++) {
        const uint32_t tile = slot + i * stride, live = busy && tile < tiles, turn = begun->turn + i;
        float v[4], later[4] = { 0 };
        UNROLL
        for (uint32_t j = 0; j * split * WAVE < tokens * MATRIX_TILE; j++) {
            const uint32_t o = thread + j * split * WAVE, token = group_x() % k->ranks * tokens + o / MATRIX_TILE,
                           row = tile * MATRIX_TILE + o % MATRIX_TILE;
            if (addend && live && o < tokens * MATRIX_TILE && token < n && row < m->rows) later[j] = addend(a, t0 + token, row);
        }
        if (live) M(gemv_tile)(v, &ahead, &place, k, m, cols, digits);
        if (!apart && i > 0) {                     /* the previous tile: its other waves have had time since then */
            meet_wait(gemv_matrix_meet(k, of_group), turn - 1);
            M(gemv_finish)(a, k, m, busy ? tile - stride : tiles, turn - 1, t0, n, more, sink, sink_pair);
        }
        if (live)
            UNROLL
            for (uint32_t e = 0; e < 4; e++)
                gemv_matrix_part(k, turn, wave_id())[gemv_matrix_at(lane_id() / 4 + 8 * (e / 2), lane_id() % 4 * 2 + e % 2)] = v[e];
        if (apart) {
            barrier();                             /* the previous tile is stored, too */
            M(gemv_finish)(a, k, m, busy ? tile : tiles, turn, t0, n, later, sink, sink_pair);
        }
        else if (i < turns) meet_arrive(gemv_matrix_meet(k, of_group));
        UNROLL
        for (uint32_t j = 0; j < 4; j++) more[j] = later[j];
    }
    begun->turn += turns;
    copy_wait(0);
    return slot < rest ? slot + stride - rest : slot - rest;
}

/* ---- functions for kernels ----
 * k, cols, rows, digits: constants.  Activations: as columns_to_lds() stores them.
 * slot: from gemv_matrix_slot(), or the result of the previous product.  begun: from gemv_matrix_start(), once and before
 * columns_to_lds(); then for each product the result of gemv_begin for the same slot and matrices, which may be called before pdl_wait().
 * Every thread of the group calls all of them.
 * Each row's value of tokens t0 .. t0 + n - 1 goes to the sink once; addend, which may be NULL, returns a value to add before. */

DEVICE void M(gemv_begin)(struct gemv_ahead *begun, const struct gemv_matrix *k, const uint8_t *w, const uint8_t *w_pair,
                          const uint32_t rows, const uint32_t cols, uint32_t slot)
{
    const struct gemv_matrix_rows m = { w, w_pair, rows, w_pair ? 1u : 0u };
    const struct gemv_ahead first = { wave_id() / gemv_matrix_split(k) < gemv_matrix_slots(k) ? slot : ~0u, 0, 0, 0, begun->turn };
    *begun = first;
    for (uint32_t i = 1; i < STAGES; i++) M(gemv_next)(begun, k, &m, cols);
}
DEVICE uint32_t M(gemv)(const struct forge_kernel_args a, struct gemv_ahead *begun, const struct gemv_matrix *k, const uint8_t *w,
                        const uint32_t rows, const uint32_t cols, const uint32_t digits, uint32_t t0, uint32_t n, uint32_t slot,
                        row_addend *addend, row_sink *sink)
{
    const struct gemv_matrix_rows m = { w, 0, rows, 0 };
    return M(gemv_run)(a, begun, k, &m, cols, digits, t0, n, slot, addend, sink, (pair_sink *)0);
}
/* Two matrices of one shape: the two values of a row go to the sink together. */
DEVICE uint32_t M(gemv_pair)(const struct forge_kernel_args a, struct gemv_ahead *begun, const struct gemv_matrix *k, const uint8_t *gate,
                             const uint8_t *up, const uint32_t rows, const uint32_t cols, const uint32_t digits, uint32_t t0, uint32_t n,
                             uint32_t slot, pair_sink *sink)
{
    const struct gemv_matrix_rows m = { gate, up, rows, 1 };
    return M(gemv_run)(a, begun, k, &m, cols, digits, t0, n, slot, (row_addend *)0, (row_sink *)0, sink);
}

#undef M
#undef X
#undef MATRIX_PLANES
#undef MATRIX_EXTRAS
#undef COLUMNS
#undef STAGES
#undef LANES
