/* cpu_pairs.c -- compares rows of one or two bfloat16 per value and their products (templates/cpu/bf16.h, tiles.h, gemm_pairs_tmpl.c) of
 * every weight format with double arithmetic: by tiles if the variant has tiles (avx2: in plain C), else by dot products of pairs.
 * Every buffer ends at an inaccessible page, outputs are poisoned. */
#include "blocks.h"
#include "pairs_unit.h"
#include "templates/cpu/tiles.h"
#include <stdio.h>

typedef void gemm_function(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                           uint32_t n_rows, uint32_t cols, uint8_t *scratch);
#define EACH_FORMAT "tests/kernel/cpu_pairs_instance.h"
#include "compiler/format/format.def"

struct kernels { const struct format *format; gemm_function *gemm; };
static const struct kernels kernels_all[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], check_gemm_pairs_##file },
#include "compiler/format/format.def"
};

static void check_row(const float *x, const uint8_t *row, uint32_t cols)
{
    for (uint32_t c = 0; c < cols; c++) {
        uint16_t bits;
        memcpy(&bits, row + 2 * c, 2);
        const float got = f32_from_bf16_bits(bits), want = bf16_ref(x[c]);
        if (isnan(x[c]) ? isnan(got) : got == want || (fabsf(x[c]) < 0x1p-126f && got == 0)) continue;
        bad("bf16_row: column %u of %.9g is %.9g, not %.9g", c, (double)x[c], (double)got, (double)want);
        return;
    }
}

/* The second part is the remainder, which is exact as a float, rounded. */
static void check_left(const float *x, const uint8_t *row, const uint8_t *left, uint32_t cols)
{
    for (uint32_t c = 0; c < cols; c++) {
        uint16_t near, bits;
        memcpy(&near, row + 2 * c, 2);
        memcpy(&bits, left + 2 * c, 2);
        const float got = f32_from_bf16_bits(bits), want = bf16_ref(x[c] - f32_from_bf16_bits(near));
        if (!isfinite(x[c]) || isinf(f32_from_bf16_bits(near)) || got == want || (fabsf(x[c]) < 0x1p-100f && fabsf(got - want) < 0x1p-120f))
            continue;
        bad("bf16_parts_row: column %u of %.9g leaves %.9g, not %.9g", c, (double)x[c], (double)got, (double)want);
        return;
    }
}

static void test_rows(void)
{
    const uint32_t cols = 32 * (1 + random_below(40));
    struct room *x = room_new("x", 4ull * cols), *row = room_new("row", XB_STRIDE(cols));
    for (uint32_t c = 0; c < cols; c++) {
        uint32_t bits = random_below(8) ? random_u32() : random_u32() & 0xffff8000u;      /* ties */
        if (random_below(64) == 0) bits |= 0x7f800000u;                                   /* infinities and NaN */
        memcpy(x->bytes + 4 * c, &bits, 4);
    }
    case_is("rows of %u", cols);
    bf16_row(row->bytes, room_floats(x), cols);
    check_row(room_floats(x), row->bytes, cols);
    struct room *parts = room_new("row of two parts", XB_PARTS_STRIDE(cols));
    bf16_parts_row(parts->bytes, room_floats(x), cols);
    check_row(room_floats(x), parts->bytes, cols);
    check_left(room_floats(x), parts->bytes, parts->bytes + XB_LEFT(cols), cols);
    rooms_free();
}

/* The value of x in the rows, in double. */
static struct room *random_rows(double *used, uint32_t tokens, uint32_t cols)
{
    struct room *rows = room_new("rows of x", tokens * XB_STRIDE((uint64_t)cols));
    float *x = malloc(4ull * cols);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) x[c] = random_normal() * (c / 32 % 7 == 3 ? 20.0f : 1.0f);
        bf16_row(rows->bytes + t * XB_STRIDE((uint64_t)cols), x, cols);
        for (uint32_t c = 0; c < cols; c++) used[(uint64_t)t * cols + c] = (double)bf16_ref(x[c]);
    }
    free(x);
    return rows;
}

/* Weights are rounded from floats that may differ in their last bit, so a weight at the border between two bfloat16 may be rounded either
 * way: the largest term changes by 2^-8 of itself. */
static void compare(const struct matrix *m, const float *scale_of, const struct room *y, uint32_t y_stride, const double *x,
                    uint32_t tokens, uint32_t first_row, uint32_t n_rows)
{
    float *row = malloc(4ull * m->cols);
    for (uint32_t i = 0; i < y_stride; i++) {
        const uint32_t r = first_row + i;
        for (uint32_t c = 0; r < m->rows && c < m->cols; c++) row[c] = bf16_ref(m->weights[(uint64_t)r * m->cols + c]);
        for (uint32_t t = 0; t < tokens; t++) {
            const uint64_t at = (uint64_t)t * y_stride + i;
            uint32_t bits;
            memcpy(&bits, y->bytes + 4 * at, 4);
            if (i >= n_rows) {
                if (bits != 0xffffffffu) { bad("wrote beyond n_rows"); free(row); return; }
                continue;
            }
            double sum = 0, size = 0, most = 0;
            for (uint32_t c = 0; r < m->rows && c < m->cols; c++) {
                const double term = (double)row[c] * x[(uint64_t)t * m->cols + c];
                const double parts = (double)scale_of[(uint64_t)r * m->cols + c] * fabs(x[(uint64_t)t * m->cols + c]);
                sum += term;
                size += parts;
                most = fmax(most, parts);
            }
            if (!close_to("y", at, (double)room_floats(y)[at], sum, 3e-6 * size + most / 128 + 1e-30)) { free(row); return; }
        }
    }
    free(row);
}

/* Two parts hold F16 weights exactly and 16 bits of x; one kind of product of parts is left out. */
static void check_parts(const struct matrix *m, const char *name, gemm_function *gemm, uint32_t tokens, uint32_t first, uint32_t n,
                        uint32_t stride)
{
    const uint32_t cols = m->cols;
    struct room *rows = room_new("rows of two parts", tokens * XB_PARTS_STRIDE((uint64_t)cols)),
        *scratch = room_new("scratch", GEMM_SCRATCH), *y = room_new("y of two parts", 4ull * tokens * stride);
    float *x = malloc(4ull * tokens * cols);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) x[(uint64_t)t * cols + c] = random_normal() * (c / 32 % 7 == 3 ? 20.0f : 1.0f);
        bf16_parts_row(rows->bytes + t * XB_PARTS_STRIDE((uint64_t)cols), x + (uint64_t)t * cols, cols);
    }
    gemm(room_floats(y), stride, m->packed->bytes, rows->bytes, tokens, first, n, cols, scratch->bytes);
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t r = first + i;
            double sum = 0, size = 0, square = 0;
            for (uint32_t c = 0; r < m->rows && c < cols; c++) {
                const double term = (double)m->weights[(uint64_t)r * cols + c] * (double)x[(uint64_t)t * cols + c];
                sum += term;
                size += fabs(term);
                square += term * term;
            }
            const uint64_t at = (uint64_t)t * stride + i;
            if (!close_to(name, at, (double)room_floats(y)[at], sum, 3e-7 * size + 0x1p-14 * sqrt(square) + 1e-30)) { free(x); return; }
        }
    free(x);
}

static void check(const struct kernels *k)
{
    const struct format *f = k->format;
    const uint32_t block = f->block_weights > 32 ? f->block_weights : 32, rows = 1 + random_below(100), panels = (rows + 15) / 16;
    const uint32_t cols = block * (1 + random_below((random_below(6) ? 800 : 1800) / block)), tokens = 1 + random_below(70);
    const uint32_t first = 16 * random_below(panels), n = 16 * (1 + random_below(panels - first / 16)), stride = n + 16 * random_below(3);
    case_is("%s: %u x %u, %u tokens, rows %u + %u", f->name, rows, cols, tokens, first, n);
    struct matrix m = matrix_new(f, LAYOUT_CPU, rows, cols, NUMBERS_NEAR_ONE, CODES_ANY);
    double *x = malloc(8ull * tokens * cols);
    struct room *xb = random_rows(x, tokens, cols), *scratch = room_new("scratch", GEMM_SCRATCH),
        *y = room_new("y", 4ull * tokens * stride);
    k->gemm(room_floats(y), stride, m.packed->bytes, xb->bytes, tokens, first, n, cols, scratch->bytes);
    compare(&m, m.sizes, y, stride, x, tokens, first, n);
    if (f->id == QUANT_BF16 || f->id == QUANT_F16) {
        struct room *one = room_new("y of a token", 4ull * n);
        (f->id == QUANT_BF16 ? gemv_pairs_bf16 : gemv_pairs_f16)(room_floats(one), m.packed->bytes, xb->bytes, first, n, cols);
        compare(&m, m.sizes, one, n, x, 1, first, n);
    }
    if (f->id == QUANT_F16) check_parts(&m, "F16 of two parts", gemm_parts_f16, tokens, first, n, stride);
    if (f->id == QUANT_BF16) check_parts(&m, "BF16 times two parts", gemm_parts_bf16, tokens, first, n, stride);
    if (f->id == QUANT_F32) check_parts(&m, "F32 of two parts", gemm_parts_f32, tokens, first, n, stride);
    free(x);
    matrix_free(&m);
    rooms_free();
}

void test_cpu_pairs(void)
{
    if (!tiles_are_here()) { bad("the kernel does not permit the tiles of AMX"); return; }
    for (uint32_t r = 0; r < rounds(20); r++) if (case_begin()) test_rows();
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        for (uint32_t r = 0; r < rounds(12); r++)
            if (format_wanted(kernels_all[i].format->file) && case_begin()) check(&kernels_all[i]);
}

/* ---- speed ---- */

/* parts: of a row of x and of weights */
static double speed(const struct kernels *k, uint32_t rows, uint32_t cols, uint32_t tokens, uint32_t parts)
{
    const struct packing packing = packing_of(LAYOUT_CPU, k->format, 0);
    const uint64_t bytes = packing_bytes(packing, rows, cols), group = packing_group_bytes(packing, cols);
    uint8_t *gguf = malloc(16 * format_row_bytes(k->format, cols)), *w = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    const uint64_t x_stride = parts > 1 ? XB_PARTS_STRIDE((uint64_t)cols) : XB_STRIDE((uint64_t)cols);
    gemm_function *const gemm = parts > 1 ? gemm_parts_f16 : k->gemm;
    uint8_t *x = aligned_alloc(4096, (tokens * x_stride + 4095) / 4096 * 4096);
    uint8_t *scratch = aligned_alloc(4096, (GEMM_SCRATCH + 4095) / 4096 * 4096);
    float *row = malloc(4ull * cols), *y = aligned_alloc(4096, 4ull * 32 * (tokens + 32) * 32);
    blocks_fill(gguf, k->format, 16 * format_row_bytes(k->format, cols) / k->format->block_bytes, NUMBERS_NEAR_ONE, CODES_RANDOM);
    packing_write(packing, w, gguf, 16, cols, 0, 1);
    for (uint32_t i = 1; i < rows / 16; i++) memcpy(w + i * group, w, group);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) row[c] = random_normal();
        (parts > 1 ? bf16_parts_row : bf16_row)(x + t * x_stride, row, cols);
    }
    double best = 1e9, spent = 0;
    for (int i = 0; i < 600 && (i < 6 || spent < 0.2); i++) {
        const double t = now_s();
        for (uint32_t r = 0; r < rows; r += 32) gemm(y, 32, w, x, tokens, r, 32, cols, scratch);      /* units of rows as in programs */
        const double e = now_s() - t;
        spent += e;
        if (e < best) best = e;
    }
    free(gguf); free(w); free(x); free(scratch); free(row); free(y);
    return 2.0 * rows * cols * tokens / best * 1e-9;
}

void bench_cpu_pairs(void)
{
    static const uint32_t tokens[] = { 1, 2, 4, 8, 16, 32, 128, 512 };
    printf("GOP/s: gemm_pairs of 1024 x 4096 with 1, 2, 4, 8, 16, 32, 128, 512 tokens; 1024 x 2048 with 128; F16, 2: of two parts\n");
    if (!tiles_are_here()) return;
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        if (!format_wanted(kernels_all[i].format->file)) continue;
        const struct format *f = kernels_all[i].format;
        for (uint32_t parts = 1; parts <= (f->id == QUANT_F16 ? 2 : 1); parts++) {
            printf("%-7s", parts > 1 ? "F16, 2" : f->name);
            for (uint32_t t = 0; t < 8; t++) printf(" %8.0f", speed(&kernels_all[i], 1024, 4096, tokens[t], parts));
            printf(" %8.0f\n", speed(&kernels_all[i], 1024, 2048, 128, parts));
            fflush(stdout);
        }
    }
}
