/* gemv_tmpl.c -- decode: y = W x for one token.  Included once per (FORMAT, ROWS, LANES), and DEPTH if that is set too, after
 * formats/FORMAT.h; a program may hold several.
 *
 * A run of LANES neighbouring lanes is a *slot*.  It works on ROWS rows at a time, a *row group*; lane k takes their units k, k + LANES,
 * ... Slot s takes the row groups s, s + stride, ...  A *step* is DEPTH units of each of the ROWS rows for every lane.  While a step is
 * used, the next step, of the same row group or of the slot's next one, is loaded into the other of two named register buffers: copying one
 * buffer to the other would wait for all loads.
 *
 * All lanes of a wave take the same number of steps, so that they reach the sums over lanes together.  A lane without a unit uses the zero
 * entry of the activations; a slot without a row group computes one that is not stored.  The loads are in no branch and the loop has one
 * exit: on AMD a wait counts the loads issued since, and where paths with different counts join it becomes a wait for everything.
 *
 * With COLUMNS: y = W x for up to COLUMNS tokens; each gets the bits that it would get alone.  Weights are read and unpacked once. */
#ifndef FORMAT                                   /* alone: for editors, linters and tests */
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#ifndef ROWS                                     /* rows a slot works on at a time: 1 .. LANES */
#define ROWS 2
#endif
#ifndef LANES                                    /* lanes of a slot: 8, 16, .. WAVE */
#define LANES 32
#endif
#include "launch.h"
#include "acts.h"
#include "row_stride.h"
#ifdef SLICES
#include "slices.h"
#endif

#ifndef FORGE_GEMV_COMMON
#define FORGE_GEMV_COMMON
#define GEMV_PASTE4(name, format, rows, lanes) name##_##format##_##rows##x##lanes
#define GEMV_PASTE(name, format, rows, lanes) GEMV_PASTE4(name, format, rows, lanes)
#define GEMV_PASTE5(name, format, rows, lanes, depth) name##_##format##_##rows##x##lanes##x##depth
#define GEMV_PASTE_DEPTH(name, format, rows, lanes, depth) GEMV_PASTE5(name, format, rows, lanes, depth)
#define GEMV_COLUMNS2(name, columns) name##_columns##columns
#define GEMV_COLUMNS(name, columns) GEMV_COLUMNS2(name, columns)
#define GEMV_OF2(name, format) name##_##format
#define GEMV_OF(name, format) GEMV_OF2(name, format)

/* First slot of this lane among the slots of the whole grid of `groups` groups.  Neighbouring slots are in different groups, so that the
 * row groups of an incomplete last round are spread over the compute units. */
DEVICE uint32_t gemv_slot(const uint32_t groups, const uint32_t lanes)
{
    const uint32_t slot = (group_x() + groups * wave_id()) * (WAVE / lanes);
    return lanes == WAVE ? slot : slot + lane_id() / lanes;
}

/* Number of row groups per slot, the same for all slots of a wave.  The slots are consecutive modulo stride, so one of them has a row group
 * in the last, incomplete round if the first has one, or if they wrap around. */
DEVICE uint32_t gemv_rounds(uint32_t slot, uint32_t groups, const uint32_t stride, const uint32_t lanes)
{
    const uint32_t rest = groups % stride, before = lanes == WAVE ? 0 : lane_id() / lanes,
                   first = slot >= before ? slot - before : slot + stride - before;
    return groups / stride + (rest > 0 && (first < rest || first + WAVE / lanes > stride));
}

/* With COLUMNS: rows of tokens t0 .. t0 + n - 1 in LDS, `stride` bytes apart, n >= 1. */
struct gemv_columns { const uint8_t *lds; uint32_t stride, t0, n; };

/* One matrix of `rows` rows, or with paired 1 two matrices, with half of every row group each. */
struct gemv_matrices {
    const uint8_t *w, *w_pair;
    uint32_t       rows, paired;
#ifdef SLICES
    /* picked matrices; with SLICES_EACH each has rows / used rows; apart: as in gemv_stack() */
    uint32_t       used, id, apart;
#endif
};
#endif

#if defined(SLICES_EACH) || defined(SLICES_SUM)
/* A stack of matrices of which a token picks some.  SLICES_EACH: the rows of each picked matrix, one matrix after the other.  SLICES_SUM:
 * the sum of the picked matrices' products, as one matrix with the columns of all of them.  Lane l of every wave has the number of the lth
 * picked matrix (slices.h), so that no load waits for another load from memory. */
#endif
#ifdef DEPTH
#define GEMV_NAME(name) GEMV_PASTE_DEPTH(name, FORMAT, ROWS, LANES, DEPTH)
#else
#define GEMV_NAME(name) GEMV_PASTE(name, FORMAT, ROWS, LANES)
#endif
#if defined(SLICES_EACH)
#define G(name) GEMV_NAME(name##_each)
#elif defined(SLICES_SUM)
#define G(name) GEMV_NAME(name##_sum)
#elif defined(COLUMNS)
#define G(name) GEMV_NAME(GEMV_COLUMNS(name, COLUMNS))
#else
#define G(name) GEMV_NAME(name)
#endif
#define X(name) GEMV_OF(name, FORMAT)

/* Units of a row in a step: at least 4 loads in flight per buffer and lane, 8 for floats, which need few other registers; more than 4 units
 * of a row would load too many activations at once. */
#ifdef DEPTH
#define STEP_UNITS DEPTH
#else
#define STEP_UNITS (X(UNIT_COLS) == 64 ? (3 + ROWS * X(LOADS)) / (ROWS * X(LOADS)) : ROWS < 2 ? 4 : (7 + ROWS) / ROWS)
#endif

/* The registers of one step. */
struct G(first) { struct X(unit) u[ROWS][STEP_UNITS]; };

/* What a slot has done and will do. */
struct G(gemv_state) {
    uint32_t lane;                               /* within the slot */
    uint32_t next_group, next_unit;              /* of the step to load next; its first unit in the row */
    uint32_t unit;                               /* first unit of the step to use next */
#ifdef COLUMNS
    uint32_t group;                              /* current row group */
    float    sum[COLUMNS * ROWS];                /* this lane's part of its rows, column by column */
#else
    uint32_t group, count;                       /* row groups group, group + stride, .. (count of them) are summed but not stored yet */
    float    sum[ROWS];                          /* this lane's part of the current rows */
    float    y, up;                              /* lane i has row i of the summed rows; up: of the second matrix, paired */
    float    more;                               /* the value to add to that row */
#if defined(SLICES_EACH) || defined(SLICES_SUM)
    uint32_t now, stride;                        /* current row group, and the distance to the next */
#endif
#endif
};

#define GEMV_UNITS(cols) (64 * ACTS_UNITS(cols) / X(UNIT_COLS))
/* Steps of a row, and units per row and lane in each step: at most STEP_UNITS, fewer if the same number of steps allows. */
DEVICE uint32_t G(gemv_steps)(const uint32_t cols) { return (GEMV_UNITS(cols) + LANES * (STEP_UNITS) - 1) / (LANES * (STEP_UNITS)); }
DEVICE uint32_t G(gemv_depth)(const uint32_t cols)
{
    return ((GEMV_UNITS(cols) + LANES - 1) / LANES + G(gemv_steps)(cols) - 1) / G(gemv_steps)(cols);
}

DEVICE uint32_t G(gemv_groups)(const struct gemv_matrices *m)
{
    const uint32_t each = m->paired ? ROWS / 2 : ROWS;
#ifdef SLICES_EACH
    return m->used * ((m->rows / m->used + each - 1) / each);
#endif
    return (m->rows + each - 1) / each;
}
#ifdef SLICES_EACH
/* The picked matrix of a row group, and the first of the group's rows in that matrix. */
DEVICE uint32_t G(gemv_pick)(const struct gemv_matrices *m, uint32_t group) { return group / (G(gemv_groups)(m) / m->used); }
DEVICE uint32_t G(gemv_first)(const struct gemv_matrices *m, uint32_t group)
{
    return group % (G(gemv_groups)(m) / m->used) * (m->paired ? ROWS / 2 : ROWS);
}
#endif

/* Loads the step of a slot at row group `group` from unit `unit` on.  After the last row group all lanes read the same place, which costs
 * next to nothing. */
DEVICE void G(gemv_load)(struct G(first) *s, const struct gemv_matrices *m, uint32_t group, uint32_t unit, uint32_t lane,
                         const uint32_t cols)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols), groups = G(gemv_groups)(m), each = m->paired ? ROWS / 2 : ROWS;
#ifdef SLICES_EACH
    const uint32_t live = group < groups, at = unit + (live ? lane : 0), of = live ? group : groups - 1, rows = m->rows / m->used;
    const uint32_t pick = G(gemv_pick)(m, of), first_row = G(gemv_first)(m, of);
    const uint32_t matrix = (m->apart == SLICES_ALL ? pick : lane_get_u32(m->id, pick)) * rows;
#else
    const uint32_t live = group < groups, first_row = (live ? group : groups - 1) * each, at = unit + (live ? lane : 0);
#endif
#if defined(SLICES_SUM)
    const uint32_t row_bytes = ROW_STRIDE(X(ROW_BYTES)(cols / m->used));
#else
    const uint32_t row_bytes = ROW_STRIDE(X(ROW_BYTES)(cols));
#endif
    __builtin_assume(at < units + LANES);           /* places within a row then do not wrap, and constants go into load instructions */
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t i = first_row + r % each;
#if defined(SLICES_EACH)
        const uint8_t *row = (r < each ? m->w : m->w_pair) + (uint64_t)(matrix + (i < rows ? i : rows - 1)) * row_bytes;
#elif !defined(SLICES_SUM)
        const uint8_t *row = (r < each ? m->w : m->w_pair) + (uint64_t)(i < m->rows ? i : m->rows - 1) * row_bytes;
#endif
#pragma unroll
        for (uint32_t d = 0; d < STEP_UNITS; d++) {
            uint32_t u = at + d * LANES;
            if (units % (LANES * depth) != 0 && u >= units) u = units - 1;
#ifdef SLICES_SUM
            if (d >= depth) continue;
            const uint32_t one = units / m->used, matrix = lane_get_u32(m->id, u / one) * m->rows;
            const uint8_t *row = m->w + (uint64_t)(matrix + (i < m->rows ? i : m->rows - 1)) * row_bytes;
            X(load)(&s->u[r][d], row, u % one, one);
#else
            if (d < depth) X(load)(&s->u[r][d], row, u, units);
#endif
        }
    }
}

/* The activations that multiply one unit of a row. */
struct G(act) {
#if X(UNIT_COLS) == 64
    struct acts_unit x;
#else
    f32x4 x[X(UNIT_COLS) / 4];
#endif
};

/* Loads the activations of unit `at` of a row in LDS, of `units` units in `cols` columns; at == units: zeros. */
DEVICE void G(gemv_act)(struct G(act) *act, const uint8_t *x_lds, uint32_t at, const uint32_t units, const uint32_t cols,
                        const uint32_t digits)
{
#if X(UNIT_COLS) == 64
    acts_load(&act->x, x_lds, at, units, digits, X(SUMS16));
    (void)cols;
#elif X(UNIT_COLS) == 8
    floats_load8(act->x, x_lds, at, cols);
    (void)units, (void)digits;
#else
    floats_load4(act->x, x_lds, at, cols);
    (void)units, (void)digits;
#endif
}

/* unit: number of u in its row. */
DEVICE float G(gemv_dot)(const struct X(unit) *u, const struct G(act) *act, uint32_t unit, const uint32_t digits)
{
#if X(UNIT_COLS) == 64
    return X(dot)(u, &act->x, unit, digits);
#else
    (void)unit, (void)digits;
    return X(dotf)(u, act->x);
#endif
}

/* sum[r] += the products of a step; unit: this lane's first. */
#ifdef COLUMNS
DEVICE void G(gemv_use)(float *sum, struct G(first) *s, uint32_t unit, const struct gemv_columns *x, const uint32_t cols,
                        const uint32_t digits)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols);
#pragma unroll
    for (uint32_t d = 0; d < STEP_UNITS; d++) {
        if (d >= depth) continue;
        const uint32_t i = unit + d * LANES, at = units % (LANES * depth) != 0 && i > units ? units : i;
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) X(pin)(&s->u[r][d]);
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++) {
            if (c >= x->n) break;
            struct G(act) act;
            G(gemv_act)(&act, x->lds + c * x->stride, at, units, cols, digits);
#pragma unroll
            for (uint32_t r = 0; r < ROWS; r++) {
                sum[c * ROWS + r] += G(gemv_dot)(&s->u[r][d], &act, i, digits);
                PIN_F32(sum[c * ROWS + r]);
            }
        }
    }
}
#elif defined(SLICES_EACH) || defined(SLICES_SUM)
/* group: if each matrix has its own x, these follow each other in LDS, as one row. */
DEVICE void G(gemv_use)(float sum[ROWS], struct G(first) *s, uint32_t unit, const uint8_t *x_lds, const uint32_t cols,
                        const uint32_t digits, const struct gemv_matrices *m, uint32_t group)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols);
#ifdef SLICES_EACH
    const uint32_t all = m->apart ? m->used * units : units, groups = G(gemv_groups)(m);
    const uint32_t first = m->apart ? G(gemv_pick)(m, group < groups ? group : groups - 1) * units : 0, one = units;
#else
    const uint32_t all = units, first = 0, one = units / m->used;
    (void)group;
#endif
#pragma unroll
    for (uint32_t d = 0; d < STEP_UNITS; d++) {
        if (d >= depth) continue;
        const uint32_t i = unit + d * LANES, at = i >= units ? all : first + i;
        struct G(act) act;
        G(gemv_act)(&act, x_lds, at, all, all * X(UNIT_COLS), digits);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            X(pin)(&s->u[r][d]);
            sum[r] += G(gemv_dot)(&s->u[r][d], &act, i % one, digits);
            PIN_F32(sum[r]);
        }
    }
}
#else
DEVICE void G(gemv_use)(float sum[ROWS], struct G(first) *s, uint32_t unit, const uint8_t *x_lds, const uint32_t cols,
                        const uint32_t digits)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols);
#pragma unroll
    for (uint32_t d = 0; d < STEP_UNITS; d++) {
        if (d >= depth) continue;
        const uint32_t i = unit + d * LANES, at = units % (LANES * depth) != 0 && i > units ? units : i;
        struct G(act) act;
        G(gemv_act)(&act, x_lds, at, units, cols, digits);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            X(pin)(&s->u[r][d]);
            sum[r] += G(gemv_dot)(&s->u[r][d], &act, i, digits);
            PIN_F32(sum[r]);
        }
    }
}
#endif

/* Loads the slot's next step into s. */
DEVICE void G(gemv_next)(struct G(gemv_state) *k, struct G(first) *s, const struct gemv_matrices *m, const uint32_t cols,
                         const uint32_t stride)
{
    G(gemv_load)(s, m, k->next_group, k->next_unit, k->lane, cols);
    COMPILER_FENCE();
    k->next_unit += LANES * G(gemv_depth)(cols);
    if (k->next_unit == LANES * G(gemv_depth)(cols) * G(gemv_steps)(cols)) { k->next_unit = 0; k->next_group += stride; }
}

#ifdef COLUMNS
/* Passes the rows of a group to the sink: a lane has one row of one column, as many columns at a time as there are lanes for. */
DEVICE void G(gemv_store)(const struct forge_kernel_args a, struct G(gemv_state) *k, const struct gemv_matrices *m,
                          const struct gemv_columns *x, row_addend *addend, row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t each = m->paired ? ROWS / 2 : ROWS, batch = LANES / each, row = k->group * each + k->lane % each;
#pragma unroll
    for (uint32_t first = 0; first < COLUMNS; first += batch) {
        const uint32_t column = first + k->lane / each;
        float y = 0, up = 0;
        if (first >= x->n) break;
#pragma unroll
        for (uint32_t c = first; c < first + batch && c < COLUMNS; c++) {
            if (c >= x->n) break;
            lanes_sums_f32(&k->sum[c * ROWS], ROWS, LANES);
#pragma unroll
            for (uint32_t r = 0; r < ROWS; r++) {
                const uint32_t mine = k->lane == (c - first) * each + r % each;
                if (r < each) y  = mine ? k->sum[c * ROWS + r] : y;
                else          up = mine ? k->sum[c * ROWS + r] : up;
                k->sum[c * ROWS + r] = 0;
            }
        }
        if (k->lane / each >= batch || column >= x->n || row >= m->rows) continue;
        if (m->paired) sink_pair(a, x->t0 + column, row, y, up);
        else sink(a, x->t0 + column, row, y + (addend ? addend(a, x->t0 + column, row) : 0.0f));
    }
}

/* One step; after the last step of a row its sums are complete. */
DEVICE void G(gemv_step)(const struct forge_kernel_args a, struct G(gemv_state) *k, struct G(first) *s, const struct gemv_matrices *m,
                         const struct gemv_columns *x, const uint32_t cols, const uint32_t digits, const uint32_t stride,
                         row_addend *addend, row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t step_units = LANES * G(gemv_depth)(cols);
    G(gemv_use)(k->sum, s, k->unit + k->lane, x, cols, digits);
    k->unit += step_units;
    if (k->unit != step_units * G(gemv_steps)(cols)) return;
    k->unit = 0;
    G(gemv_store)(a, k, m, x, addend, sink, sink_pair);
    k->group += stride;
}

DEVICE uint32_t G(gemv_run)(const struct forge_kernel_args a, const struct G(first) *f, const struct gemv_matrices *m, const uint32_t cols,
                            const struct gemv_columns *x, const uint32_t digits, uint32_t slot, const uint32_t stride, row_addend *addend,
                            row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t groups = G(gemv_groups)(m), rest = groups % stride,
                   left = uniform(gemv_rounds(slot, groups, stride, LANES) * G(gemv_steps)(cols));
    if (left > 0) {
        struct G(first) even, odd;
        struct G(gemv_state) k = { LANES == WAVE ? lane_id() : lane_id() % LANES, slot, 0, 0, slot, { 0 } };
        if (f) even = *f;
        else G(gemv_load)(&even, m, slot, 0, k.lane, cols);
        k.next_unit = LANES * G(gemv_depth)(cols);
        if (G(gemv_steps)(cols) == 1) { k.next_unit = 0; k.next_group += stride; }
#pragma unroll 1
        for (uint32_t pairs = left / 2; pairs > 0; pairs--) {
            G(gemv_next)(&k, &odd, m, cols, stride);
            G(gemv_step)(a, &k, &even, m, x, cols, digits, stride, addend, sink, sink_pair);
            G(gemv_next)(&k, &even, m, cols, stride);
            G(gemv_step)(a, &k, &odd, m, x, cols, digits, stride, addend, sink, sink_pair);
        }
        if (left % 2) G(gemv_step)(a, &k, &even, m, x, cols, digits, stride, addend, sink, sink_pair);
    }
    return slot < rest ? slot + stride - rest : slot - rest;
}
#else
/* One step; after the last step of a row its sum is complete. */
DEVICE void G(gemv_step)(struct G(gemv_state) *k, struct G(first) *s, const struct gemv_matrices *m, const uint8_t *x_lds,
                         const uint32_t cols, const uint32_t digits)
{
    const uint32_t step_units = LANES * G(gemv_depth)(cols), each = m->paired ? ROWS / 2 : ROWS;
#if defined(SLICES_EACH) || defined(SLICES_SUM)
    G(gemv_use)(k->sum, s, k->unit + k->lane, x_lds, cols, digits, m, k->now);
#else
    G(gemv_use)(k->sum, s, k->unit + k->lane, x_lds, cols, digits);
#endif
    k->unit += step_units;
    if (k->unit != step_units * G(gemv_steps)(cols)) return;
    k->unit = 0;
    lanes_sums_f32(k->sum, ROWS, LANES);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t mine = k->lane == k->count * each + r % each;
        if (r < each) k->y  = mine ? k->sum[r] : k->y;
        else          k->up = mine ? k->sum[r] : k->up;
        k->sum[r] = 0;
    }
    k->count++;
#if defined(SLICES_EACH) || defined(SLICES_SUM)
    k->now += k->stride;
#endif
}

/* The row, of the next row groups, that this lane stores. */
DEVICE uint32_t G(gemv_own_row)(const struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride)
{
    const uint32_t each = m->paired ? ROWS / 2 : ROWS;
#ifdef SLICES_EACH
    const uint32_t group = k->group + k->lane / each * stride, rows = m->rows / m->used, row = G(gemv_first)(m, group) + k->lane % each;
    return row < rows ? G(gemv_pick)(m, group) * rows + row : m->rows;
#endif
    return (k->group + k->lane / each * stride) * each + k->lane % each;
}

/* Loads the value to add to the lane's row before the sum is complete, which hides its latency. */
DEVICE void G(gemv_add)(const struct forge_kernel_args a, struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride,
                        row_addend *addend)
{
    const uint32_t row = G(gemv_own_row)(k, m, stride);
    k->more = 0;
    if (addend && row < m->rows) k->more = addend(a, 0, row);
}

/* Passes the rows that are summed but not stored to the sink, one per lane.
 * Many at a time: on AMD a load in the sink waits for all loads before it. */
DEVICE void G(gemv_store)(const struct forge_kernel_args a, struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride,
                          row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t row = G(gemv_own_row)(k, m, stride);
    if (k->lane / (m->paired ? ROWS / 2 : ROWS) < k->count && row < m->rows) {
        if (m->paired) sink_pair(a, 0, row, k->y, k->up);
        else sink(a, 0, row, k->y + k->more);
    }
    k->group += k->count * stride;
    k->count = 0;
}

DEVICE uint32_t G(gemv_run)(const struct forge_kernel_args a, const struct G(first) *f, const struct gemv_matrices *m, const uint32_t cols,
                            const uint8_t *x_lds, const uint32_t digits, uint32_t slot, const uint32_t stride, row_addend *addend,
                            row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t groups = G(gemv_groups)(m), rounds = groups / stride, rest = groups % stride,
                   batch = LANES / (m->paired ? ROWS / 2 : ROWS),
                   left = uniform(gemv_rounds(slot, groups, stride, LANES) * G(gemv_steps)(cols));
    if (left > 0) {
        struct G(first) even, odd;
        struct G(gemv_state) k = { LANES == WAVE ? lane_id() : lane_id() % LANES, slot, 0, 0, slot, 0, { 0 }, 0, 0, 0 };
#if defined(SLICES_EACH) || defined(SLICES_SUM)
        k.now = slot;
        k.stride = stride;
#endif
        G(gemv_add)(a, &k, m, stride, addend);
        if (f) even = *f;
        else G(gemv_load)(&even, m, slot, 0, k.lane, cols);
        k.next_unit = LANES * G(gemv_depth)(cols);
        if (G(gemv_steps)(cols) == 1) { k.next_unit = 0; k.next_group += stride; }
#pragma unroll 1
        for (uint32_t pairs = left / 2; pairs > 0; pairs--) {
            G(gemv_next)(&k, &odd, m, cols, stride);
            G(gemv_step)(&k, &even, m, x_lds, cols, digits);
            if (batch % 2 && rounds + (rest > 0) > batch && k.count == batch) {
                G(gemv_store)(a, &k, m, stride, sink, sink_pair);
                G(gemv_add)(a, &k, m, stride, addend);
            }
            G(gemv_next)(&k, &even, m, cols, stride);
            G(gemv_step)(&k, &odd, m, x_lds, cols, digits);
            if (rounds + (rest > 0) > batch && k.count == batch) {
                G(gemv_store)(a, &k, m, stride, sink, sink_pair);
                G(gemv_add)(a, &k, m, stride, addend);
            }
        }
        if (left % 2) G(gemv_step)(&k, &even, m, x_lds, cols, digits);
        G(gemv_store)(a, &k, m, stride, sink, sink_pair);
    }
    return slot < rest ? slot + stride - rest : slot - rest;
}
#endif

/* ---- functions for kernels ----
 * cols, rows, digits, stride: constants.  x_lds: the row as acts.h stores it, with the same cols and digits, and with sums16 if
 * SUMS16_<FORMAT>.
 * slot: from gemv_slot(); stride: all slots of the grid, groups * threads / LANES.
 * f: loaded by gemv_begin for the same slot and matrices, possibly before pdl_wait(); or NULL.
 * Each row's value goes to the sink once, with t = 0, from one lane; addend, which may be NULL, returns a value to add before.
 * Result: the slot to use for the next matrix, so that its row groups begin where this one's ended. */

#if defined(SLICES_EACH) || defined(SLICES_SUM)
/* For a stack of matrices of which `used` are picked; lane l has the number of the lth as id.  each: rows: of one matrix; row r of matrix k
 * of the choice goes to the sink as k * rows + r.
 * apart: SLICES_SHARED: x is one row for all matrices; SLICES_APART: it has columns for each of them, one matrix after the other, as
 * slices_to_lds() stores them; SLICES_ALL: the same, with all matrices in order, and id is not used.
 * sum: y[rows] = the sum of all products; cols: of all matrices together, a multiple of 64 for each (slices_to_lds()). */
DEVICE struct gemv_matrices G(gemv_stack)(const uint8_t *w, const uint8_t *w_pair, uint32_t id, const uint32_t used, const uint32_t apart,
                                          const uint32_t rows)
{
#ifdef SLICES_EACH
    const struct gemv_matrices m = { w, w_pair ? w_pair : w, used * rows, w_pair ? 1u : 0u, used, id, apart };
#else
    const struct gemv_matrices m = { w, w_pair ? w_pair : w, rows, 0, used, id, apart };
#endif
    return m;
}
DEVICE void G(gemv_begin)(struct G(first) *f, const uint8_t *w, const uint8_t *w_pair, uint32_t id, const uint32_t used,
                          const uint32_t apart, const uint32_t rows, const uint32_t cols, uint32_t slot)
{
    const struct gemv_matrices m = G(gemv_stack)(w, w_pair, id, used, apart, rows);
    G(gemv_load)(f, &m, slot, 0, LANES == WAVE ? lane_id() : lane_id() % LANES, cols);
}
DEVICE uint32_t G(gemv)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *w, uint32_t id, const uint32_t used,
                        const uint32_t apart, const uint32_t rows, const uint32_t cols, const uint8_t *x_lds, const uint32_t digits,
                        uint32_t slot, const uint32_t stride, row_addend *addend, row_sink *sink)
{
    const struct gemv_matrices m = G(gemv_stack)(w, 0, id, used, apart, rows);
    return G(gemv_run)(a, f, &m, cols, x_lds, digits, slot, stride, addend, sink, (pair_sink *)0);
}
#ifdef SLICES_EACH
DEVICE uint32_t G(gemv_pair)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *gate, const uint8_t *up,
                             uint32_t id,
                             const uint32_t used, const uint32_t apart, const uint32_t rows, const uint32_t cols, const uint8_t *x_lds,
                             const uint32_t digits, uint32_t slot, const uint32_t stride, pair_sink *sink)
{
    const struct gemv_matrices m = G(gemv_stack)(gate, up, id, used, apart, rows);
    return G(gemv_run)(a, f, &m, cols, x_lds, digits, slot, stride, (row_addend *)0, (row_sink *)0, sink);
}
#endif
#undef SLICES_EACH
#undef SLICES_SUM
#else
/* COLUMNS: the row of column c goes to the sink with t0 + c instead of t = 0. */
#ifdef COLUMNS
#define GEMV_X const struct gemv_columns *
#else
#define GEMV_X const uint8_t *
#endif
/* Loads the first step of gemv or, if w_pair is not NULL, of gemv_pair. */
DEVICE void G(gemv_begin)(struct G(first) *f, const uint8_t *w, const uint8_t *w_pair, const uint32_t rows, const uint32_t cols,
                          uint32_t slot)
{
    const struct gemv_matrices m = { w, w_pair, rows, w_pair ? 1u : 0u };
    G(gemv_load)(f, &m, slot, 0, LANES == WAVE ? lane_id() : lane_id() % LANES, cols);
}
DEVICE uint32_t G(gemv)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *w, const uint32_t rows,
                        const uint32_t cols, GEMV_X x, const uint32_t digits, uint32_t slot, const uint32_t stride,
                        row_addend *addend, row_sink *sink)
{
    const struct gemv_matrices m = { w, w, rows, 0 };
    return G(gemv_run)(a, f, &m, cols, x, digits, slot, stride, addend, sink, (pair_sink *)0);
}

/* Two matrices of one shape, ROWS / 2 rows of each at a time: the two values of a row go to the sink together. */
DEVICE uint32_t G(gemv_pair)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *gate, const uint8_t *up,
                             const uint32_t rows, const uint32_t cols, GEMV_X x, const uint32_t digits, uint32_t slot,
                             const uint32_t stride, pair_sink *sink)
{
    const struct gemv_matrices m = { gate, up, rows, 1 };
    return G(gemv_run)(a, f, &m, cols, x, digits, slot, stride, (row_addend *)0, (row_sink *)0, sink);
}
#endif

#undef G
#undef X
#undef GEMV_UNITS
#undef GEMV_X
#undef GEMV_NAME
#undef STEP_UNITS
#undef DEPTH
#undef COLUMNS
#undef LANES
#undef ROWS
