/* check_matmul.c -- packer and matmul kernels of every weight format against double arithmetic.
 *   CC -std=c11 -O2 -ffp-contract=off ISA-FLAGS -Wno-psabi -iquote . tests/kernel/check_matmul.c compiler/format/?*.c \
 *      templates/ref/dequant.c -lm
 * usage: check_matmul [-s SEED] [-n ROUNDS] [-f FORMAT] [-b]      -b: GB/s of gemv, GOP/s of gemm on one thread (compile with -O3 -DBENCH)
 * Every buffer ends at an unmapped page, so that reading or writing past an end faults; outputs are poisoned. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "compiler/format/layout.h"
#include "templates/cpu/matmul.h"
#include "templates/ref/dequant.h"
#include "tests/number_put.h"

typedef void gemv_function(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols);
typedef void gemm_function(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                           uint32_t n_rows, uint32_t cols, uint8_t *scratch);
struct kernels {
    const struct format *format;
    uint64_t    (*packed_bytes)(uint32_t rows, uint32_t cols);
    gemv_function *gemv, *gemv_exact;
    gemm_function *gemm, *gemm_exact;
    void        (*row)(float *out, const uint8_t *w, uint32_t row, uint32_t cols);
};
#ifdef BENCH                         /* the shapes that -b measures, with constant columns as in emitted code */
#define EACH_COLS(cols, CALL) switch (cols) { case 4096: CALL(4096); break; case 256: CALL(256); break; default: CALL(cols); } (void)0
#else
#define EACH_COLS(cols, CALL) CALL(cols)
#endif

#define EACH_FORMAT "tests/kernel/matmul_instance.h"
#include "compiler/format/format.def"

static const struct kernels kernels_all[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], check_bytes_##file, check_gemv_##file, check_gemv_exact_##file, \
                                 check_gemm_##file, check_gemm_exact_##file, check_row_##file },
#include "compiler/format/format.def"
};
static bool is_float(const struct kernels *k) { return k->format->coding == NULL; }

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
static uint8_t random_exponent(uint32_t kind) { return (uint8_t)(kind < 4 ? kind : 110 + random_below(30)); }
static void put_u16(uint8_t *p, uint32_t bits) { memcpy(p, &(uint16_t){ (uint16_t)bits }, 2); }
/* kind 3: zero, the first few: the smallest. */
static void random_number(uint8_t *p, enum number number, uint32_t kind)
{
    switch (number) {
    case NUMBER_F32:  memcpy(p, &(float){ random_below(64) ? random_float() : 0x1p-140f }, 4); break;
    case NUMBER_F16:  put_u16(p, kind == 3 ? 0 : random_half()); break;
    case NUMBER_BF16: put_u16(p, random_below(2) << 15 | (110 + random_below(20)) << 7 | random_below(128)); break;
    case NUMBER_E8M0: *p = random_exponent(kind); break;
    }
}
static void random_block(uint8_t *b, const struct format *f)
{
    const uint32_t kind = random_below(24);
    static const uint8_t extremes[] = { 0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0 };
    for (uint32_t i = 0; i < f->block_bytes; i++)
        b[i] = kind == 0 ? extremes[i % 6] : kind == 1 ? 0xff : kind == 2 ? 0x80 : kind == 3 ? 0 : (uint8_t)random_u32();
    for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++) {
        uint8_t bits[4];
        random_number(bits, f->number, kind);
        number_put(b, f, i, bits);
    }
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
static void fail(const struct kernels *k, const char *what, uint32_t rows, uint32_t cols, uint32_t tokens, uint32_t first,
                 uint32_t n, const char *detail)
{
    if (n_failures++ < 20) printf("FAIL %s %s: %u x %u, %u tokens, rows %u + %u: %s\n",
                                  k->format->name, what, rows, cols, tokens, first, n, detail);
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
            if (error <= 2e-6 * size + 1e-36) {
                if (size > 1e-30 && error / size > worst_error) worst_error = error / size;
                continue;
            }
            snprintf(detail, sizeof detail, "token %u row %u is %.9g, should be %.9g (error %.2g of the sum of magnitudes)",
                     t, r, (double)got, exact, error / size);
            fail(p->k, what, p->rows, p->cols, p->tokens, p->first_row, p->n_rows, detail);
            return;
        }
}
static struct problem random_problem(const struct kernels *k)
{
    const uint32_t block = k->format->block_weights;
    struct problem p = { .k = k };
    p.rows   = 1 + random_below(100);
    p.cols   = block * (1 + random_below(block == 1 ? 1400 : 1400 / block));
    if (random_below(8) == 0) p.cols = block * ((2300 + random_below(600)) / block);
    p.tokens = 1 + random_below(40);
    const uint32_t groups = (p.rows + 15) / 16;
    p.first_row = 16 * random_below(groups);
    p.n_rows    = 16 * (1 + random_below(groups - p.first_row / 16));
    p.y_stride  = p.n_rows + 16 * random_below(3);
    return p;
}
/* out[n]: the weights with number i of every block zero. */
static void weights_without(float *out, const struct format *f, const uint8_t *gguf, size_t n, int i)
{
    const size_t n_blocks = n / f->block_weights;
    uint8_t *copy = malloc(n_blocks * f->block_bytes);
    memcpy(copy, gguf, n_blocks * f->block_bytes);
    for (size_t b = 0; b < n_blocks; b++) memset(copy + b * f->block_bytes + f->number_at[i], 0, 2);
    dequantize_row_ref(f->id, out, copy, n);
    free(copy);
}
/* With minimums a weight has two terms, each of which may be larger than it. */
static float *term_sizes(const struct format *f, const uint8_t *gguf, const float *weights, size_t n)
{
    float *size = malloc(n * 4), *minimum = malloc(n * 4);
    for (size_t i = 0; i < n; i++) size[i] = fabsf(weights[i]);
    if (f->coding && f->number_at[1] >= 0) {
        weights_without(size, f, gguf, n, 1);
        weights_without(minimum, f, gguf, n, 0);
        for (size_t i = 0; i < n; i++) size[i] = fabsf(size[i]) + fabsf(minimum[i]);
    }
    for (size_t i = 0; f->coding && i < n; i += 32) {
        float top = 0;
        for (size_t c = i; c < i + 32; c++) top = fmaxf(top, size[c]);
        for (size_t c = i; c < i + 32; c++) size[c] = top;
    }
    free(minimum);
    return size;
}
/* In two pieces, as threads do.  NULL: packer and kernel disagree on the size. */
static uint8_t *packed_new(const struct problem *p, const uint8_t *gguf)
{
    const struct packing packing = packing_of(LAYOUT_CPU, p->k->format);
    const uint64_t bytes = packing_bytes(packing, p->rows, p->cols);
    const uint32_t groups = (p->rows + 15) / 16, split = random_below(groups + 1);
    if (bytes != p->k->packed_bytes(p->rows, p->cols)) {
        fail(p->k, "pack", p->rows, p->cols, 0, 0, 0, "packer and kernel disagree on the size");
        return NULL;
    }
    uint8_t *w = guarded(bytes, 0xaa);
    packing_write(packing, w + split * packing_group_bytes(packing, p->cols), gguf, p->rows, p->cols, split, groups - split);
    packing_write(packing, w, gguf, p->rows, p->cols, 0, split);
    return w;
}
static bool check_rows(const struct problem *p, const uint8_t *w)
{
    float *out = guarded((size_t)p->cols * 4, 0xaa);
    for (uint32_t r = 0; r < p->rows; r++) {
        const float *want = p->weights + (size_t)r * p->cols;
        p->k->row(out, w, r, p->cols);
        for (uint32_t c = 0; c < p->cols; c++)
            if (memcmp(&out[c], &want[c], 4)) {
                char detail[120];
                snprintf(detail, sizeof detail, "column %u is %.9g, should be %.9g", c, (double)out[c], (double)want[c]);
                fail(p->k, "row", p->rows, p->cols, 0, r, 1, detail);
                return false;
            }
    }
    return true;
}
static void random_x(float *x, uint32_t cols)
{
    const uint32_t kind = random_below(8);
    for (uint32_t c = 0; c < cols; c++) {
        x[c] = kind == 0 ? 0 : kind == 1 ? (c % 2 ? 1.0f : -1.0f) : kind == 2 ? 1.0f : random_float() * (c / 32 % 7 == 3 ? 20.0f : 1.0f);
        if (kind == 3 && c / 32 % 3 == 0) x[c] = c % 5 ? 0 : 0x1p-130f;
    }
}
/* Is code c of a quantised row the nearest, and are the sums around it right? */
static const char *quantised_wrongly(const uint8_t *xq, const float *x, uint32_t cols, uint32_t c)
{
    float d, top = 0;
    int16_t got, got_32;
    int32_t sum = 0, sum_32 = 0;
    const int8_t q = (int8_t)xq[c];
    memcpy(&d, xq + XQ_SCALES(cols) + c / 32 * 4, 4);
    for (uint32_t i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[c / 32 * 32 + i]));
    if (top < 0x1p-100f) top = 0;
    if (q == -128 || fabs((double)d * 127 - (double)top) > 1e-6 * (double)top) return "not the nearest code";
    if (top > 0 && fabs((double)d * (double)q - (double)x[c]) > (double)d * 0.5001) return "not the nearest code";
    for (uint32_t i = 0; i < 16; i++) sum += (int8_t)xq[c / 16 * 16 + i];
    for (uint32_t i = 0; i < 32; i++) sum_32 += (int8_t)xq[c / 32 * 32 + i];
    memcpy(&got, xq + XQ_SUMS(cols) + c / 16 * 2, 2);
    memcpy(&got_32, xq + XQ_SUMS_32(cols) + c / 32 * 2, 2);
    return sum != got || sum_32 != got_32 ? "wrong sum" : NULL;
}
/* Rows of activations: as floats, quantised, and what both mean, [tokens][cols]. */
struct activations { uint8_t *floats, *codes; double *exact, *quantised; };
static struct activations activations_new(const struct problem *p)
{
    const size_t f_stride = XF_STRIDE(p->cols), q_stride = XQ_STRIDE(p->cols), n = (size_t)p->tokens * p->cols;
    struct activations a = { guarded(p->tokens * f_stride, 0xff), guarded(p->tokens * q_stride, 0xff), malloc(n * 8), malloc(n * 8) };
    for (uint32_t t = 0; t < p->tokens; t++) {
        float *x = (float *)(void *)(a.floats + t * f_stride);
        uint8_t *xq = a.codes + t * q_stride;
        random_x(x, p->cols);
        for (uint32_t c = 0; c < p->cols; c++) a.exact[(size_t)t * p->cols + c] = (double)x[c];
        if (p->cols % 32) continue;
        quantize_row(xq, x, p->cols);
        for (uint32_t c = 0; c < p->cols; c++) {
            float d;
            memcpy(&d, xq + XQ_SCALES(p->cols) + c / 32 * 4, 4);
            a.quantised[(size_t)t * p->cols + c] = (double)d * (double)(int8_t)xq[c];
            const char *wrong = quantised_wrongly(xq, x, p->cols, c);
            if (wrong) { fail(p->k, "quantize_row", 1, p->cols, t, c, 0, wrong); break; }
        }
    }
    return a;
}
static void check_products(const struct problem *p, const uint8_t *w)
{
    const struct activations a = activations_new(p);
    const void *x = is_float(p->k) ? a.floats : a.codes;
    const double *used = is_float(p->k) ? a.exact : a.quantised;
    uint8_t *scratch = guarded(GEMM_SCRATCH, 0xff);
    struct problem one = *p;
    one.tokens = 1;
    one.y_stride = p->n_rows;
    float *y = guarded((size_t)p->n_rows * 4, 0xaa);
    p->k->gemv(y, w, x, p->first_row, p->n_rows, p->cols);
    compare(&one, "gemv", y, used);
    y = guarded((size_t)p->n_rows * 4, 0xaa);
    p->k->gemv_exact(y, w, a.floats, p->first_row, p->n_rows, p->cols);
    compare(&one, "gemv_exact", y, a.exact);
    y = guarded((size_t)p->tokens * p->y_stride * 4, 0xaa);
    p->k->gemm(y, p->y_stride, w, x, p->tokens, p->first_row, p->n_rows, p->cols, scratch);
    compare(p, "gemm", y, used);
    y = guarded((size_t)p->tokens * p->y_stride * 4, 0xaa);
    memset(scratch, 0xff, GEMM_SCRATCH);
    p->k->gemm_exact(y, p->y_stride, w, a.floats, p->tokens, p->first_row, p->n_rows, p->cols, scratch);
    compare(p, "gemm_exact", y, a.exact);
    free(a.exact);
    free(a.quantised);
}
static void check(const struct kernels *k)
{
    const struct format *f = k->format;
    struct problem p = random_problem(k);
    const size_t n = (size_t)p.rows * p.cols;
    uint8_t *gguf = guarded(n / f->block_weights * f->block_bytes, 0xaa);
    for (size_t i = 0; i < n / f->block_weights; i++) random_block(gguf + i * f->block_bytes, f);
    float *weights = malloc(n * 4);
    dequantize_row_ref(f->id, weights, gguf, n);
    float *sizes = term_sizes(f, gguf, weights, n);
    p.weights = weights;
    p.scale_of = sizes;
    uint8_t *w = packed_new(&p, gguf);
    if (w && check_rows(&p, w)) check_products(&p, w);
    free(weights);
    free(sizes);
    guarded_free();
}

/* ---- speed ---- */
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + (double)t.tv_nsec * 1e-9; }
/* Rows that make a packed matrix of about `bytes`; its contents repeat one random group. */
static uint8_t *bench_matrix(const struct kernels *k, uint32_t rows, uint32_t cols)
{
    const struct packing packing = packing_of(LAYOUT_CPU, k->format);
    const size_t bytes = 16 * format_row_bytes(k->format, cols);
    uint8_t *gguf = malloc(bytes), *w = aligned_alloc(4096, (packing_bytes(packing, rows, cols) + 4095) / 4096 * 4096);
    for (size_t i = 0; i < bytes / k->format->block_bytes; i++) random_block(gguf + i * k->format->block_bytes, k->format);
    const uint64_t group = packing_group_bytes(packing, cols);
    packing_write(packing, w, gguf, 16, cols, 0, 1);
    for (uint32_t g = 1; g < rows / 16; g++) memcpy(w + g * group, w, group);
    free(gguf);
    return w;
}
static void *bench_x(bool floats, uint32_t tokens, uint32_t cols)
{
    const size_t stride = floats ? XF_STRIDE(cols) : XQ_STRIDE(cols);
    uint8_t *x = aligned_alloc(4096, (tokens * stride + 4095) / 4096 * 4096);
    float *row = malloc(cols * 4);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) row[c] = random_float();
        if (floats) memcpy(x + t * stride, row, cols * 4);
        else        quantize_row(x + t * stride, row, cols);
    }
    free(row);
    return x;
}
static double bench_gemv(const struct kernels *k, double target_bytes, uint32_t cols)
{
    const uint64_t group = packing_group_bytes(packing_of(LAYOUT_CPU, k->format), cols);
    const uint32_t rows = (uint32_t)(target_bytes / (double)group) * 16;
    uint8_t *w = bench_matrix(k, rows, cols);
    void *x = bench_x(is_float(k), 1, cols);
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
    uint8_t *w = bench_matrix(k, rows, cols), *scratch = aligned_alloc(4096, (GEMM_SCRATCH + 4095) / 4096 * 4096);
    void *x = bench_x(exact || is_float(k), tokens, cols);
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
    printf("%-7s", k->format->name);
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
    if (benchmark)
        printf("GB/s: gemv of 0.5 MB (256 columns), 4 MB, 200 MB (4096 columns); GOP/s: gemm of 4096 columns x 2, 4, 8, 32, 128 tokens, "
               "768 x 256 x 128, exact x 128\n");
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const struct kernels *k = &kernels_all[i];
        if (only && strcmp(only, k->format->file)) continue;
        if (benchmark) { bench(k); continue; }
        worst_error = 0;
        const uint64_t before = n_failures;
        for (int r = 0; r < rounds; r++) check(k);
        printf("%-7s %s, worst error %.1e\n", k->format->name, n_failures == before ? "ok" : "FAILED", worst_error);
        fflush(stdout);
    }
    if (!benchmark) printf("seed %llu: %llu failures\n", (unsigned long long)seed, (unsigned long long)n_failures);
    return n_failures ? 1 : 0;
}
