/* check_matmul.c -- packer and matmul kernels of every weight format against double arithmetic.
 *   CC -std=c11 -O2 -ffp-contract=off ISA-FLAGS -Wno-psabi -I compiler tests/kernel/check_matmul.c compiler/format/pack_cpu.c templates/ref/dequant.c -lm
 * usage: check_matmul [-s SEED] [-n ROUNDS] [-f FORMAT] [-b]      -b: GB/s of gemv, GOP/s of gemm on one thread (compile with -O3 -DBENCH)
 * Every buffer ends at an unmapped page, so that reading or writing past an end faults; outputs are poisoned. */
#ifndef FORMAT
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "compiler/format/pack_cpu.h"
#include "compiler/front/gguf.h"
#include "templates/cpu/matmul.h"
#include "templates/ref/dequant.h"

typedef void gemv_function(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols);
typedef void gemm_function(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                           uint8_t *scratch);
struct kernels {
    const char *name;
    uint32_t    quant, is_float;
    uint64_t    (*packed_bytes)(uint32_t rows, uint32_t cols);
    gemv_function *gemv, *gemv_exact;
    gemm_function *gemm, *gemm_exact;
    void        (*row)(float *out, const uint8_t *w, uint32_t row, uint32_t cols);
    int         scale_at[2];         /* half floats of a block that must be sane numbers; -1: none */
    uint32_t    codes_at, codes_end; /* formats with a minimum: the bytes of the codes */
};
#ifdef BENCH                         /* the shapes that -b measures, with constant columns as in emitted code */
#define EACH_COLS(cols, CALL) switch (cols) { case 4096: CALL(4096); break; case 256: CALL(256); break; default: CALL(cols); } (void)0
#else
#define EACH_COLS(cols, CALL) CALL(cols)
#endif

#define FORMAT f32
#include "templates/cpu/formats/f32.h"
#include "check_matmul.c"
#define FORMAT f16
#include "templates/cpu/formats/f16.h"
#include "check_matmul.c"
#define FORMAT bf16
#include "templates/cpu/formats/bf16.h"
#include "check_matmul.c"
#define FORMAT q8_0
#include "templates/cpu/formats/q8_0.h"
#include "check_matmul.c"
#define FORMAT q4_0
#include "templates/cpu/formats/q4_0.h"
#include "check_matmul.c"
#define FORMAT q4_1
#include "templates/cpu/formats/q4_1.h"
#include "check_matmul.c"
#define FORMAT q5_0
#include "templates/cpu/formats/q5_0.h"
#include "check_matmul.c"
#define FORMAT q5_1
#include "templates/cpu/formats/q5_1.h"
#include "check_matmul.c"
#define FORMAT q2_K
#include "templates/cpu/formats/q2_K.h"
#include "check_matmul.c"
#define FORMAT q3_K
#include "templates/cpu/formats/q3_K.h"
#include "check_matmul.c"
#define FORMAT q4_K
#include "templates/cpu/formats/q4_K.h"
#include "check_matmul.c"
#define FORMAT q5_K
#include "templates/cpu/formats/q5_K.h"
#include "check_matmul.c"
#define FORMAT q6_K
#include "templates/cpu/formats/q6_K.h"
#include "check_matmul.c"
#define FORMAT iq4_nl
#include "templates/cpu/formats/iq4_nl.h"
#include "check_matmul.c"
#define FORMAT iq4_xs
#include "templates/cpu/formats/iq4_xs.h"
#include "check_matmul.c"
#define FORMAT mxfp4
#include "templates/cpu/formats/mxfp4.h"
#include "check_matmul.c"

#define KERNELS(lower, upper, d, m, codes, end) { #lower, QUANT_##upper, IS_FLOAT_##lower, check_bytes_##lower, check_gemv_##lower, check_gemv_exact_##lower, \
                                      check_gemm_##lower, check_gemm_exact_##lower, check_row_##lower, { d, m }, codes, end }
static const struct kernels kernels_all[] = {
    KERNELS(f32, F32, -1, -1, 0, 0),     KERNELS(f16, F16, -1, -1, 0, 0),      KERNELS(bf16, BF16, -1, -1, 0, 0),    KERNELS(q8_0, Q8_0, 0, -1, 0, 0),
    KERNELS(q4_0, Q4_0, 0, -1, 0, 0),    KERNELS(q4_1, Q4_1, 0, 2, 4, 20),      KERNELS(q5_0, Q5_0, 0, -1, 0, 0),     KERNELS(q5_1, Q5_1, 0, 2, 4, 24),
    KERNELS(q2_K, Q2_K, 80, 82, 16, 80),   KERNELS(q3_K, Q3_K, 108, -1, 0, 0),   KERNELS(q4_K, Q4_K, 0, 2, 16, 144),      KERNELS(q5_K, Q5_K, 0, 2, 16, 176),
    KERNELS(q6_K, Q6_K, 208, -1, 0, 0),  KERNELS(iq4_nl, IQ4_NL, 0, -1, 0, 0), KERNELS(iq4_xs, IQ4_XS, 0, -1, 0, 0), KERNELS(mxfp4, MXFP4, -1, -1, 0, 0),
};
static void block_shape_of(uint32_t quant, uint32_t *weights, uint32_t *bytes)
{
    switch (quant) {
#define QUANT(name, id, w, b) case id: *weights = w; *bytes = b; break;
#include "compiler/format/quant.def"
#undef QUANT
    }
}

/* ---- random numbers (xorshift64*) ---- */
static uint64_t random_state;
static uint32_t random_u32(void)
{
    random_state ^= random_state >> 12; random_state ^= random_state << 25; random_state ^= random_state >> 27;
    return (uint32_t)(random_state * 2685821657736338717u >> 32);
}
static uint32_t random_below(uint32_t n) { return random_u32() % n; }
static float random_float(void)          /* roughly normal */
{
    float s = 0;
    for (int i = 0; i < 6; i++) s += (float)random_u32() * 0x1p-32f - 0.5f;
    return s * 1.4f;
}
static uint16_t random_half(void)        /* a scale: usually 2^-12 .. 2^-1, at times zero, subnormal or large */
{
    const uint32_t kind = random_below(16), sign = random_below(2) << 15, mantissa = random_below(1024);
    return (uint16_t)(kind == 0 ? 0 : kind == 1 ? sign | mantissa : kind == 2 ? sign | (15 + random_below(6)) << 10 | mantissa
                                                                              : sign | (3 + random_below(11)) << 10 | mantissa);
}
static void random_block(uint8_t *b, const struct kernels *k, uint32_t bytes)
{
    if (k->quant == QUANT_F32) { const float f = random_below(64) ? random_float() : 0x1p-140f; memcpy(b, &f, 4); return; }
    if (k->quant == QUANT_F16) { const uint16_t h = random_half(); memcpy(b, &h, 2); return; }
    if (k->quant == QUANT_BF16) { const uint16_t h = (uint16_t)(random_below(2) << 15 | (110 + random_below(20)) << 7 | random_below(128)); memcpy(b, &h, 2); return; }
    const uint32_t kind = random_below(24);
    static const uint8_t extremes[] = { 0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0 };
    for (uint32_t i = 0; i < bytes; i++) b[i] = kind == 0 ? extremes[i % 6] : kind == 1 ? 0xff : kind == 2 ? 0x80 : kind == 3 ? 0 : (uint8_t)random_u32();
    for (int i = 0; i < 2; i++)
        if (k->scale_at[i] >= 0) { const uint16_t h = kind == 3 ? 0 : random_half(); memcpy(b + k->scale_at[i], &h, 2); }
    if (k->quant == QUANT_MXFP4) b[0] = (uint8_t)(kind < 4 ? kind : 110 + random_below(30));
}

/* ---- memory that ends at an unmapped page; kept until the end of a round ---- */
static struct { void *base; size_t bytes; } mappings[64];
static size_t n_mappings;
static void *guarded(size_t bytes, int fill)
{
    const size_t page = 65536, body = (bytes + page - 1) / page * page;          /* at least any machine's page */
    uint8_t *base = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + body, page, PROT_NONE)) { perror("mmap"); exit(1); }
    mappings[n_mappings].base = base;
    mappings[n_mappings++].bytes = body + page;
    memset(base, fill, body);
    return base + body - bytes;
}
static void guarded_free(void)
{
    while (n_mappings) { n_mappings--; munmap(mappings[n_mappings].base, mappings[n_mappings].bytes); }
}

/* ---- checks ---- */
static uint64_t n_failures;
static double worst_error;
static void fail(const struct kernels *k, const char *what, uint32_t rows, uint32_t cols, uint32_t tokens, uint32_t first, uint32_t n, const char *detail)
{
    if (n_failures++ < 20) printf("FAIL %s %s: %u x %u, %u tokens, rows %u + %u: %s\n", k->name, what, rows, cols, tokens, first, n, detail);
}
struct problem {
    const struct kernels *k;
    uint32_t rows, cols, tokens, first_row, n_rows, y_stride;
    const float *weights;            /* [rows][cols], dequantised */
    const float *scale_of;           /* [rows][cols]: largest magnitude of a term that makes the 32 weights around it */
};
/* y against x (double, [tokens][cols]): the error may be 2e-6 of the sum of |largest weight of the block * x|. */
static void compare(const struct problem *p, const char *what, const float *y, const double *x)
{
    char detail[160];
    for (uint32_t t = 0; t < p->tokens; t++)
        for (uint32_t i = 0; i < p->y_stride; i++) {
            const float got = y[(size_t)t * p->y_stride + i];
            uint32_t bits;
            memcpy(&bits, &got, 4);
            if (i >= p->n_rows) {
                if (bits == 0xaaaaaaaau) continue;
                fail(p->k, what, p->rows, p->cols, p->tokens, p->first_row, p->n_rows, "wrote beyond n_rows");
                return;
            }
            double exact = 0, size = 0;
            const uint32_t r = p->first_row + i;
            if (r < p->rows)
                for (uint32_t c = 0; c < p->cols; c++) {
                    exact += (double)p->weights[(size_t)r * p->cols + c] * x[(size_t)t * p->cols + c];
                    size  += (double)p->scale_of[(size_t)r * p->cols + c] * fabs(x[(size_t)t * p->cols + c]);
                }
            const double error = fabs((double)got - exact);
            if (error <= 2e-6 * size + 1e-36) { if (size > 1e-30 && error / size > worst_error) worst_error = error / size; continue; }
            snprintf(detail, sizeof detail, "token %u row %u is %.9g, should be %.9g (error %.2g of the sum of magnitudes)", t, r, (double)got, exact, error / size);
            fail(p->k, what, p->rows, p->cols, p->tokens, p->first_row, p->n_rows, detail);
            return;
        }
}
static void check(const struct kernels *k)
{
    uint32_t block = 1, bytes = 1;
    block_shape_of(k->quant, &block, &bytes);
    struct problem p = { .k = k };
    p.rows   = 1 + random_below(100);
    p.cols   = block * (1 + random_below(block == 1 ? 1400 : 1400 / block));
    if (random_below(8) == 0) p.cols = block * ((2300 + random_below(600)) / block);
    p.tokens = 1 + random_below(40);
    const uint32_t groups = (p.rows + 15) / 16;
    p.first_row = 16 * random_below(groups);
    p.n_rows    = 16 * (1 + random_below(groups - p.first_row / 16));
    p.y_stride  = p.n_rows + 16 * random_below(3);
    const size_t n_weights = (size_t)p.rows * p.cols;

    uint8_t *gguf = guarded(n_weights / block * bytes, 0xaa);
    for (size_t i = 0; i < n_weights / block; i++) random_block(gguf + i * bytes, k, bytes);
    float *weights = malloc(n_weights * 4), *scale_of = malloc(n_weights * 4);
    for (uint32_t r = 0; r < p.rows; r++)
        if (!dequantize_row_ref(k->quant, weights + (size_t)r * p.cols, gguf + (size_t)r * (p.cols / block) * bytes, p.cols)) { printf("no reference for %s\n", k->name); exit(1); }
    uint8_t *minimums = malloc(n_weights / block * bytes);               /* the same blocks with codes of zero: only the minimum is left */
    memcpy(minimums, gguf, n_weights / block * bytes);
    for (size_t i = 0; i < n_weights / block; i++) memset(minimums + i * bytes + k->codes_at, 0, k->codes_end - k->codes_at);
    if (k->codes_end) dequantize_row_ref(k->quant, scale_of, minimums, n_weights);
    for (size_t i = 0; i < n_weights; i++) scale_of[i] = k->codes_end ? fabsf(scale_of[i]) + fabsf(weights[i] - scale_of[i]) : fabsf(weights[i]);
    if (block > 1)
        for (size_t i = 0; i < n_weights; i += 32) {
            float top = 0;
            for (size_t c = i; c < i + 32; c++) top = fmaxf(top, scale_of[c]);
            for (size_t c = i; c < i + 32; c++) scale_of[c] = top;
        }
    free(minimums);
    p.weights = weights;
    p.scale_of = scale_of;

    /* pack in two pieces, as threads do */
    const uint64_t packed = k->packed_bytes(p.rows, p.cols), group_bytes = pack_group_bytes(k->quant, p.cols);
    if (packed != pack_bytes(k->quant, p.rows, p.cols)) { fail(k, "pack", p.rows, p.cols, 0, 0, 0, "packer and kernel disagree on the size"); goto done; }
    uint8_t *w = guarded(packed, 0xaa);
    const uint32_t split = random_below(groups + 1);
    pack_rows(w + split * group_bytes, k->quant, gguf, p.rows, p.cols, split, groups - split);
    pack_rows(w, k->quant, gguf, p.rows, p.cols, 0, split);

    float *out = guarded((size_t)p.cols * 4, 0xaa);
    for (uint32_t r = 0; r < p.rows; r++) {
        k->row(out, w, r, p.cols);
        for (uint32_t c = 0; c < p.cols; c++)
            if (memcmp(&out[c], &weights[(size_t)r * p.cols + c], 4)) {
                char detail[120];
                snprintf(detail, sizeof detail, "column %u is %.9g, should be %.9g", c, (double)out[c], (double)weights[(size_t)r * p.cols + c]);
                fail(k, "row", p.rows, p.cols, 0, r, 1, detail);
                goto done;
            }
    }

    const size_t f_stride = XF_STRIDE(p.cols), q_stride = XQ_STRIDE(p.cols);
    uint8_t *xf = guarded(p.tokens * f_stride, 0xff), *xq = guarded(p.tokens * q_stride, 0xff), *scratch = guarded(GEMM_SCRATCH, 0xff);
    double *x_exact = malloc((size_t)p.tokens * p.cols * 8), *x_quantised = malloc((size_t)p.tokens * p.cols * 8);
    for (uint32_t t = 0; t < p.tokens; t++) {
        float *x = (float *)(void *)(xf + t * f_stride);
        const uint32_t kind = random_below(8);
        for (uint32_t c = 0; c < p.cols; c++) {
            x[c] = kind == 0 ? 0 : kind == 1 ? (c % 2 ? 1.0f : -1.0f) : kind == 2 ? 1.0f : random_float() * (c / 32 % 7 == 3 ? 20.0f : 1.0f);
            if (kind == 3 && c / 32 % 3 == 0) x[c] = c % 5 ? 0 : 0x1p-130f;
            x_exact[(size_t)t * p.cols + c] = (double)x[c];
        }
        if (p.cols % 32) continue;
        quantize_row(xq + t * q_stride, x, p.cols);
        for (uint32_t c = 0; c < p.cols; c++) {
            float d, top = 0;
            memcpy(&d, xq + t * q_stride + XQ_SCALES(p.cols) + c / 32 * 4, 4);
            const int8_t q = (int8_t)xq[t * q_stride + c];
            x_quantised[(size_t)t * p.cols + c] = (double)d * (double)q;
            for (uint32_t i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[c / 32 * 32 + i]));
            if (top < 0x1p-100f) top = 0;
            if (q == -128 || fabs((double)d * 127 - (double)top) > 1e-6 * (double)top || (top > 0 && fabs((double)d * (double)q - (double)x[c]) > (double)d * 0.5001))
                { fail(k, "quantize_row", 1, p.cols, t, c, 0, "not the nearest code"); break; }
            int32_t sum = 0, sum_32 = 0;
            int16_t got, got_32;
            for (uint32_t i = 0; i < 16; i++) sum += (int8_t)xq[t * q_stride + c / 16 * 16 + i];
            for (uint32_t i = 0; i < 32; i++) sum_32 += (int8_t)xq[t * q_stride + c / 32 * 32 + i];
            memcpy(&got, xq + t * q_stride + XQ_SUMS(p.cols) + c / 16 * 2, 2);
            memcpy(&got_32, xq + t * q_stride + XQ_SUMS_32(p.cols) + c / 32 * 2, 2);
            if (sum != got || sum_32 != got_32) { fail(k, "quantize_row", 1, p.cols, t, c, 0, "wrong sum"); break; }
        }
    }
    const void *x = k->is_float ? xf : xq;
    const double *x_used = k->is_float ? x_exact : x_quantised;
    struct problem one = p;
    one.tokens = 1;
    one.y_stride = p.n_rows;
    float *y1 = guarded((size_t)p.n_rows * 4, 0xaa);
    k->gemv(y1, w, x, p.first_row, p.n_rows, p.cols);
    compare(&one, "gemv", y1, x_used);
    y1 = guarded((size_t)p.n_rows * 4, 0xaa);
    k->gemv_exact(y1, w, xf, p.first_row, p.n_rows, p.cols);
    compare(&one, "gemv_exact", y1, x_exact);
    float *y = guarded((size_t)p.tokens * p.y_stride * 4, 0xaa);
    k->gemm(y, p.y_stride, w, x, p.tokens, p.first_row, p.n_rows, p.cols, scratch);
    compare(&p, "gemm", y, x_used);
    y = guarded((size_t)p.tokens * p.y_stride * 4, 0xaa);
    memset(scratch, 0xff, GEMM_SCRATCH);
    k->gemm_exact(y, p.y_stride, w, xf, p.tokens, p.first_row, p.n_rows, p.cols, scratch);
    compare(&p, "gemm_exact", y, x_exact);
    free(x_exact);
    free(x_quantised);
done:
    free(weights);
    free(scale_of);
    guarded_free();
}

/* ---- speed ---- */
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + (double)t.tv_nsec * 1e-9; }
/* Rows that make a packed matrix of about `bytes`; its contents repeat one random group. */
static uint8_t *bench_matrix(const struct kernels *k, uint32_t rows, uint32_t cols)
{
    uint32_t block = 1, bytes = 1;
    block_shape_of(k->quant, &block, &bytes);
    const size_t row_bytes = cols / block * bytes;
    uint8_t *gguf = malloc(16 * row_bytes), *w = aligned_alloc(4096, (pack_bytes(k->quant, rows, cols) + 4095) / 4096 * 4096);
    for (size_t i = 0; i < 16 * row_bytes / bytes; i++) random_block(gguf + i * bytes, k, bytes);
    const uint64_t group = pack_group_bytes(k->quant, cols);
    pack_rows(w, k->quant, gguf, 16, cols, 0, 1);
    for (uint32_t g = 1; g < rows / 16; g++) memcpy(w + g * group, w, group);
    free(gguf);
    return w;
}
static void *bench_x(const struct kernels *k, uint32_t tokens, uint32_t cols)
{
    const size_t stride = k->is_float ? XF_STRIDE(cols) : XQ_STRIDE(cols);
    uint8_t *x = aligned_alloc(4096, (tokens * stride + 4095) / 4096 * 4096);
    float *row = malloc(cols * 4);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) row[c] = random_float();
        if (k->is_float) memcpy(x + t * stride, row, cols * 4);
        else             quantize_row(x + t * stride, row, cols);
    }
    free(row);
    return x;
}
static double bench_gemv(const struct kernels *k, double target_bytes, uint32_t cols)
{
    const uint64_t group = pack_group_bytes(k->quant, cols);
    const uint32_t rows = (uint32_t)(target_bytes / (double)group) * 16;
    uint8_t *w = bench_matrix(k, rows, cols);
    void *x = bench_x(k, 1, cols);
    float *y = aligned_alloc(64, (rows * 4 + 63) / 64 * 64);
    double best = 1e9, spent = 0;
    for (int i = 0; i < 600 && (i < 6 || spent < 0.4); i++) {        /* many windows of half a millisecond: some are undisturbed */
        const double t = now();
        double e;
        int n = 0;
        do { k->gemv(y, w, x, 0, rows, cols); n++; } while ((e = now() - t) < 4e-4);
        spent += e;
        if (e / n < best) best = e / n;
    }
    free(w); free(x); free(y);
    return (double)(rows / 16 * group) / best * 1e-9;
}
static double bench_gemm(const struct kernels *k, gemm_function *gemm, int exact, uint32_t rows, uint32_t cols, uint32_t tokens)
{
    struct kernels kind = *k;
    if (exact) kind.is_float = 1;
    uint8_t *w = bench_matrix(k, rows, cols), *scratch = aligned_alloc(4096, (GEMM_SCRATCH + 4095) / 4096 * 4096);
    void *x = bench_x(&kind, tokens, cols);
    float *y = aligned_alloc(64, (size_t)rows * tokens * 4);
    double best = 1e9, spent = 0;
    for (int i = 0; i < 600 && (i < 6 || spent < 0.3); i++) {
        const double t = now();
        gemm(y, rows, w, x, tokens, 0, rows, cols, scratch);
        const double e = now() - t;
        spent += e;
        if (e < best) best = e;
    }
    free(w); free(x); free(y); free(scratch);
    return 2.0 * rows * cols * tokens / best * 1e-9;
}
static void bench(const struct kernels *k)
{
    printf("%-7s", k->name);
    printf(" %8.1f", bench_gemv(k, 0.5e6, 256));
    printf(" %8.1f", bench_gemv(k, 4e6, 4096));
    printf(" %8.1f", bench_gemv(k, 200e6, 4096));
    fflush(stdout);
    static const uint32_t tokens[] = { 2, 4, 8, 32, 128 };
    for (int i = 0; i < 5; i++) printf(" %8.0f", bench_gemm(k, k->gemm, 0, tokens[i] < 128 ? 1024 : 4096, 4096, tokens[i]));
    printf(" %8.0f %8.0f\n", bench_gemm(k, k->gemm, 0, 768, 256, 128), bench_gemm(k, k->gemm_exact, 1, 1024, 4096, 128));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL);
    int rounds = 20, benchmark = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-b")) benchmark = 1;
        else if (!strcmp(argv[i], "-s") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "-n") && i + 1 < argc) rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-f") && i + 1 < argc) only = argv[++i];
        else { fprintf(stderr, "usage: check_matmul [-s SEED] [-n ROUNDS] [-f FORMAT] [-b]\n"); return 2; }
    }
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    if (benchmark) printf("GB/s: gemv of 0.5 MB (256 columns), 4 MB, 200 MB (4096 columns); GOP/s: gemm of 4096 columns x 2, 4, 8, 32, 128 tokens, 768 x 256 x 128, exact x 128\n");
    for (size_t i = 0; i < COUNT_OF(kernels_all); i++) {
        const struct kernels *k = &kernels_all[i];
        if (only && strcmp(only, k->name)) continue;
        if (benchmark) { bench(k); continue; }
        worst_error = 0;
        const uint64_t before = n_failures;
        for (int r = 0; r < rounds; r++) check(k);
        printf("%-7s %s, worst error %.1e\n", k->name, n_failures == before ? "ok" : "FAILED", worst_error);
        fflush(stdout);
    }
    if (!benchmark) printf("seed %llu: %llu failures\n", (unsigned long long)seed, (unsigned long long)n_failures);
    return n_failures ? 1 : 0;
}
#else
/* One format: the always-inline kernels as functions. */
#include "templates/cpu/gemv_tmpl.c"
#include "templates/cpu/gemm_tmpl.c"
static uint64_t PASTE2(check_bytes, FORMAT)(uint32_t rows, uint32_t cols) { return PASTE2(packed_bytes, FORMAT)(rows, cols); }
static void PASTE2(check_row, FORMAT)(float *out, const uint8_t *w, uint32_t row, uint32_t cols) { PASTE2(row, FORMAT)(out, w, row, cols); }
static void PASTE2(check_gemv, FORMAT)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
#define CALL(cols) PASTE2(gemv, FORMAT)(y, w, x, first_row, n_rows, cols)
    EACH_COLS(cols, CALL);
#undef CALL
}
static void PASTE2(check_gemv_exact, FORMAT)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    PASTE2(gemv_exact, FORMAT)(y, w, x, first_row, n_rows, cols);
}
static void PASTE2(check_gemm, FORMAT)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                                       uint8_t *scratch)
{
#define CALL(cols) PASTE2(gemm, FORMAT)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch)
    EACH_COLS(cols, CALL);
#undef CALL
}
static void PASTE2(check_gemm_exact, FORMAT)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                                             uint8_t *scratch)
{
    PASTE2(gemm_exact, FORMAT)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch);
}
#undef FORMAT
#endif
