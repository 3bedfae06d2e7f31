/* gemv_kernels.c -- decode's products (templates/gpu/gemv_tmpl.c): a kernel for each format and tile, with the sizes of the case; with
 * -DMODELS the kernels of a program, with constants.  To see registers, spills and the compiled loop of all formats, or with -DONLY=q4_K of
 * one format:
 *   tests/device/compile.sh tests/kernel/gemv_kernels.c -DMODELS [-DGEMV_MODEL_ROWS=2 ...] [-DONLY=q4_K] */
#include "templates/gpu/dialect.h"
#ifndef MODELS                                   /* plain functions: inlined into each other, all formats take minutes to compile */
#undef DEVICE
#ifdef __CUDA__
#define DEVICE static __attribute__((device, unused))
#else
#define DEVICE static __attribute__((unused))
#endif
#endif
#include "kernel.h"
#include "templates/gpu/acts.h"
#include "cases.h"

#define C CASE(struct gemv_case)

DEVICE void store(const struct gemv_case *c, uint32_t matrix, uint32_t t, uint32_t r, float y)
{
    if (t != 0 || r >= c->rows[matrix]) {
        c->wrong[GEMV_WRONG_ROW] = 1;
        return;
    }
    c->y[matrix][r] = y;
    c->calls[matrix][r]++;
}
/* The arguments of the product's callbacks, and its results. */
DEVICE float addend(const struct forge_kernel_args a, uint32_t t, uint32_t r) { return C->begin ? (float)((t + r) % 7) : 0.0f; }
DEVICE void store0(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 0, t, r, y - addend(a, t, r)); }
DEVICE void store1(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 1, t, r, y); }
DEVICE void store2(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 2, t, r, y); }
DEVICE void store_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    store(C, 0, t, r, gate);
    store(C, 1, t, r, up);
}

/* Writes the row to LDS, with early loads or in one call. */
DEVICE void row_into_lds(const struct gemv_case *c, uint8_t *x, const uint32_t digits, const uint32_t sums16)
{
    const float *weight = c->norm == 2 ? c->norm_weight : 0;
    if (c->begin) {
        struct row_quads q, w;
        row_begin(&q, c->row, c->cols, c->threads);
        norm_begin(&w, weight, c->cols, c->threads);
        if (c->norm) norm_to_lds(x, &q, c->row, &w, weight, c->cols, c->eps, digits, sums16, c->threads);
        else row_to_lds(x, &q, c->row, c->cols, digits, sums16, c->threads);
    } else if (digits == 0) {
        if (c->norm) floats_of_norm(x, c->row, weight, c->cols, c->eps, c->threads);
        else floats_of_row(x, c->row, c->cols, c->threads);
    } else {
        if (c->norm) acts_of_norm(x, c->row, weight, c->cols, c->eps, digits, sums16, c->threads);
        else acts_of_row(x, c->row, c->cols, digits, sums16, c->threads);
    }
}

DEVICE void wrong_acts(const struct gemv_case *c) { c->wrong[GEMV_WRONG_ACTS] = 1; }
DEVICE double size_of(double x) { return x < 0 ? -x : x; }

/* Writes the values of a row of digits in LDS to `seen`, and checks its sums and padding. */
DEVICE void read_acts(const struct gemv_case *c, const uint8_t *row, const uint32_t digits, const uint32_t sums16)
{
    const uint32_t units = ACTS_UNITS(c->cols);
    for (uint32_t unit = 0; unit <= units; unit++) {
        struct acts_unit x;
        acts_load(&x, row, unit, units, digits, sums16);
        const float d[2] = { x.scale.x, x.scale.y }, s[2] = { x.scale.z, x.scale.w },
            s16[4] = { x.sum16.x, x.sum16.y, x.sum16.z, x.sum16.w };
        double total[2] = { 0, 0 }, size[2] = { 0, 0 };      /* sums of q and of |q| */
        for (uint32_t p = 0; p < 4; p++) {
            int8_t q[3][16] = { { 0 } };
            double total16 = 0, size16 = 0;
            for (uint32_t digit = 0; digit < digits; digit++) __builtin_memcpy(q[digit], &x.q[digit][p], 16);
            for (uint32_t i = 0; i < 16; i++) {
                /* the value of the digits */
                const int32_t value = 65536 * q[2][i] + 256 * q[1][i] + q[0][i], most = digits == 1 ? 127 : digits == 2 ? 32639 : 8355711;
                const uint32_t col = 64 * unit + 16 * p + i;
                if (unit < units && (value > most || value < -most)) wrong_acts(c);
                if (unit < units && col < c->cols) c->seen[col] = d[p / 2] * (float)value;
                else if (unit < units && value != 0) wrong_acts(c);
                total16 += value;
                size16 += size_of(value);
            }
            if (unit < units && sums16 && size_of((double)s16[p] - (double)d[p / 2] * total16) > 3e-7 * (double)d[p / 2] * size16)
                wrong_acts(c);
            if (unit == units && sums16 && s16[p] != 0) wrong_acts(c);
            total[p / 2] += total16;
            size[p / 2] += size16;
        }
        for (uint32_t b = 0; b < 2; b++) {
            if (unit < units && size_of((double)s[b] - (double)d[b] * total[b]) > 3e-7 * (double)d[b] * size[b]) wrong_acts(c);
            if (unit == units && (d[b] != 0 || s[b] != 0)) wrong_acts(c);
        }
    }
}
DEVICE void read_floats(const struct gemv_case *c, const uint8_t *row)
{
    const uint32_t padded = 64 * ACTS_UNITS(c->cols);
    for (uint32_t p = 0; p <= padded / 4; p++) {
        f32x4 four[1], eight[2];
        float x[4], same[4];
        floats_load4(four, row, p, c->cols);
        floats_load8(eight, row, p / 2, c->cols);
        __builtin_memcpy(x, &four[0], 16);
        __builtin_memcpy(same, &eight[p % 2], 16);
        for (uint32_t i = 0; i < 4; i++) {
            if (bits_of_f32(x[i]) != bits_of_f32(same[i])) wrong_acts(c);
            if (4 * p + i < c->cols) c->seen[4 * p + i] = x[i];
            else if (x[i] != 0) wrong_acts(c);
        }
    }
}

/* The kernels of a program: the numbers of GEMV_MODELS are constants. */
#define MODEL_1(name, ...) MODEL_OF(name, FORMAT, 1, __VA_ARGS__)
#define MODEL_2(name, ...) MODEL_OF(name, FORMAT, 2, __VA_ARGS__)
#define MODEL_OF(name, format, digits, ...) MODEL(name, format, digits, __VA_ARGS__)
#define MODEL(name, format, n_digits, a_mode, rows0, rows1, rows2, n_cols, a_norm) \
    TEST_KERNEL(GEMV_MODEL_THREADS, name##_##format##_##n_digits) \
    { \
        struct gemv_case c = *C; \
        c.mode = a_mode, c.rows[0] = rows0, c.rows[1] = rows1, c.rows[2] = rows2, c.cols = n_cols, c.digits = n_digits, c.norm = a_norm; \
        c.begin = 1, c.threads = GEMV_MODEL_THREADS, c.groups = GEMV_MODEL_GROUPS, c.eps = 1e-5f, c.seen = 0; \
        GEMV_PASTE(gemv_of, format, GEMV_MODEL_ROWS, GEMV_MODEL_LANES)(a, c); \
    }

#ifdef ONLY
#define FORMAT ONLY
#include "gemv_instance.h"
#else
#define EACH_FORMAT "tests/kernel/gemv_instance.h"
#include "compiler/format/format.def"
#endif
