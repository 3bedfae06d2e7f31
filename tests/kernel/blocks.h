/* blocks.h -- weights for tests: random GGUF blocks of any format, their values, and products of them in double. */
#ifndef FORGE_TESTS_BLOCKS_H
#define FORGE_TESTS_BLOCKS_H
#include "compiler/format/layout.h"
#include "half.h"
#include "registry.h"
#include "templates/ref/dequant.h"
#include "tests/number_put.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranges of floats, scales and minimums. */
enum numbers {
    NUMBERS_NEAR_ONE,                /* about 1; scales of blocks about 0.01 */
    NUMBERS_F16,                     /* weights stay below 65504, and small ones are subnormal f16 */
    NUMBERS_ANY,                     /* zeros, subnormal and large ones too */
};
/* Bytes of codes; constant bytes give the largest sums. */
enum codes { CODES_RANDOM, CODES_ZEROS, CODES_ONES, CODES_TOP, CODES_EXTREMES, N_CODES, CODES_ANY = N_CODES };
static inline const char *codes_name(enum codes codes)
{
    static const char *const names[] = { "random", "all 0x00", "all 0xff", "all 0x80", "extremes", "any" };
    return names[codes];
}

static inline float random_sign(void) { return random_below(2) ? -1.0f : 1.0f; }
/* Random sign, magnitude from 2^low to 2^high. */
static inline float random_between(int low, int high)
{
    return random_sign() * ldexpf(1.0f + (float)random_below(1 << 23) * 0x1p-23f, low + (int)random_below((uint32_t)(high - low)));
}
static inline float random_scale(enum numbers numbers)       /* of a block */
{
    const uint32_t kind = random_below(16);
    if (numbers == NUMBERS_NEAR_ONE) return random_f32() * 0.01f;
    if (numbers == NUMBERS_F16) return random_between(-22, 0);
    return kind == 0 ? 0 : kind == 1 ? random_between(-24, -14) : kind == 2 ? random_between(0, 6) : random_between(-12, -1);
}
static inline void random_number(uint8_t *p, const struct format *f, enum numbers numbers)
{
    const bool near_one = numbers == NUMBERS_NEAR_ONE, any = numbers == NUMBERS_ANY;
    const float x = near_one ? random_f32() : any && !random_below(64) ? 0x1p-140f : any ? random_normal() : random_between(-20, 15);
    const float h = f->coding || any ? random_scale(numbers) : near_one ? random_f32() : random_between(-24, 15);
    uint16_t half = half_of(h);
    const uint32_t low = any ? 110 : 100, high = any ? 130 : 160;
    switch (f->number) {
    case NUMBER_F32:  memcpy(p, &x, 4); break;
    case NUMBER_F16:  memcpy(p, &half, 2); break;
    case NUMBER_BF16:
        half = (uint16_t)(random_below(2) << 15 | (near_one ? 119 + random_below(8) : random_in(low, high - 1)) << 7 | random_below(128));
        memcpy(p, &half, 2);
        break;
    case NUMBER_E8M0:
        *p = (uint8_t)(near_one ? random_in(120, 127) : any ? (random_below(6) ? random_in(110, 139) : random_below(4))
                       : random_below(8) ? random_in(96, 135) : random_below(96));
        break;
    }
}
static inline void blocks_fill(uint8_t *out, const struct format *f, uint64_t n_blocks, enum numbers numbers, enum codes codes)
{
    static const uint8_t extremes[] = { 0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0 };
    for (uint64_t b = 0; b < n_blocks; b++, out += f->block_bytes) {
        const uint32_t any = random_below(24);
        const enum codes kind = codes != CODES_ANY ? codes : any < N_CODES ? (enum codes)any : CODES_RANDOM;
        for (uint32_t i = 0; i < f->block_bytes; i++)
            out[i] = kind == CODES_ZEROS ? 0x00 : kind == CODES_ONES ? 0xff : kind == CODES_TOP ? 0x80
                : kind == CODES_EXTREMES ? extremes[i % 6] : (uint8_t)random_u32();
        for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++) {
            uint8_t bits[4];
            random_number(bits, f, numbers);
            number_put(out, f, i, bits);
        }
    }
}

/* w: [n], the values of the blocks.  size: [n] or NULL, the sum of the magnitudes of each weight's terms.  In formats with minimums a
 * weight is the difference of two terms, which may both be larger than the weight; a term is |w| with the block's other number zero. */
static inline void blocks_read(float *w, float *size, const struct format *f, const uint8_t *blocks, uint64_t n)
{
    dequantize_row_ref(f->id, w, blocks, n);
    for (uint64_t i = 0; i < n && size; i++) size[i] = fabsf(w[i]);
    if (!size || !f->coding || f->number_at[1] < 0) return;
    const uint64_t n_blocks = n / f->block_weights;
    uint8_t *copy = malloc(n_blocks * f->block_bytes);
    float *part = malloc(n * sizeof *part);
    for (uint64_t i = 0; i < n; i++) size[i] = 0;
    for (int k = 0; k < 2; k++) {
        memcpy(copy, blocks, n_blocks * f->block_bytes);
        for (uint64_t b = 0; b < n_blocks; b++) memset(copy + b * f->block_bytes + f->number_at[1 - k], 0, 2);
        dequantize_row_ref(f->id, part, copy, n);
        for (uint64_t i = 0; i < n; i++) size[i] += fabsf(part[i]);
    }
    free(copy);
    free(part);
}

/* sum: a row of a matrix times activations.  size: the measure for its rounding, the sum of |size * x|, or of |w * x| if size is NULL. */
struct dot { double sum, size; };
static inline struct dot dot_ref(const float *w, const float *size, const double *x, uint64_t n)
{
    struct dot d = { 0, 0 };
    for (uint64_t i = 0; i < n; i++) {
        d.sum += (double)w[i] * x[i];
        d.size += fabs((double)(size ? size[i] : w[i]) * x[i]);
    }
    return d;
}

/* The packing for which the test's kernels are compiled: with -DROW_PERIOD=N some rows are padded (templates/gpu/row_stride.h). */
static inline struct packing packing_here(enum layout layout, const struct format *f)
{
#if defined(ROW_PERIOD)
    return packing_of(layout, f, layout == LAYOUT_GPU ? ROW_PERIOD : 0);
#else
    return packing_of(layout, f, 0);
#endif
}

/* A matrix of a case: packed as kernels read it, and its values. */
struct matrix {
    const struct format *format;
    struct room *packed;
    uint32_t     rows, cols;
    float       *weights, *sizes;                /* [rows][cols] */
};
static inline struct matrix matrix_new(const struct format *f, enum layout layout, uint32_t rows, uint32_t cols, enum numbers numbers,
                                       enum codes codes)
{
    const struct packing packing = packing_here(layout, f);
    const uint64_t n = (uint64_t)rows * cols, row_bytes = format_row_bytes(f, cols);
    struct matrix m = { .format = f, .packed = room_new("packed weights", packing_bytes(packing, rows, cols)), .rows = rows, .cols = cols,
                        .weights = malloc(n * sizeof(float)), .sizes = malloc(n * sizeof(float)) };
    uint8_t *file = malloc(rows * row_bytes + 1), *blocks = file + 1;            /* an odd address: unaligned */
    blocks_fill(blocks, f, rows * (row_bytes / f->block_bytes), numbers, codes);
    const uint32_t panel = packing.layout->group_rows, panels = (rows + panel - 1) / panel, split = random_below(panels + 1);
    packing_write(packing, m.packed->bytes + split * packing_group_bytes(packing, cols), blocks, rows, cols, split, panels - split);
    packing_write(packing, m.packed->bytes, blocks, rows, cols, 0, split);      /* in two pieces, as threads do */
    const uint64_t pad = packing_pad_bytes(packing, cols), stride = packing_group_bytes(packing, cols);
    for (uint32_t r = 1; pad && r <= panels; r++) memset(m.packed->bytes + r * stride - pad, 0xff, pad);      /* padding is not read */
    blocks_read(m.weights, m.sizes, f, blocks, n);
    free(file);
    return m;
}
static inline void matrix_free(struct matrix *m) { free(m->weights); free(m->sizes); }
/* Largest magnitude of a weight. */
static inline double matrix_largest(const struct matrix *m)
{
    double largest = 0;
    for (uint64_t i = 0; i < (uint64_t)m->rows * m->cols; i++) largest = fmax(largest, fabs((double)m->weights[i]));
    return largest;
}
#endif
