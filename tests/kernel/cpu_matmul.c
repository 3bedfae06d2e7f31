/* cpu_matmul.c -- compares the CPU's packer and matmul kernels (templates/cpu/matmul.h) of every weight format with double arithmetic.
 * Every buffer ends at an inaccessible page, outputs are poisoned. */
#include "blocks.h"
#include "templates/cpu/matmul.h"
#include <stdio.h>

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
#ifdef BENCH                         /* with FLAGS=-DBENCH, --bench's shapes have constant columns as in emitted code */
#define EACH_COLS(cols, CALL) switch (cols) { case 4096: CALL(4096); break; case 256: CALL(256); break; default: CALL(cols); } (void)0
#else
#define EACH_COLS(cols, CALL) CALL(cols)
#endif

#define EACH_FORMAT "tests/kernel/cpu_matmul_instance.h"
#include "compiler/format/format.def"

static const struct kernels kernels_all[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], check_bytes_##file, check_gemv_##file, check_gemv_exact_##file, \
                                 check_gemm_##file, check_gemm_exact_##file, check_row_##file },
#include "compiler/format/format.def"
};
static bool is_float(const struct kernels *k) { return k->format->coding == NULL; }

/* ---- checks ---- */
struct problem {
    const struct kernels *k;
    uint32_t tokens, first_row, n_rows, y_stride;
    struct matrix m;
    float   *scale_of;               /* [rows][cols]: the largest magnitude of a term of the 32 weights of the block */
};
/* Compares y with the product with x (double, [tokens][cols]): the error may be 2e-6 of the sum of |largest weight of the block * x|. */
static bool compare(const struct problem *p, const char *what, const struct room *y, uint32_t tokens, uint32_t y_stride, const double *x)
{
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < y_stride; i++) {
            const uint64_t at = (uint64_t)t * y_stride + i, row = (uint64_t)(p->first_row + i) * p->m.cols;
            if (i >= p->n_rows) {
                uint32_t bits;
                memcpy(&bits, y->bytes + 4 * at, 4);
                if (bits != 0xffffffffu) return bad("%s wrote beyond n_rows", what);
                continue;
            }
            const struct dot want = p->first_row + i < p->m.rows
                ? dot_ref(p->m.weights + row, p->scale_of + row, x + (uint64_t)t * p->m.cols, p->m.cols) : (struct dot){ 0, 0 };
            if (!close_to(what, at, (double)room_floats(y)[at], want.sum, 2e-6 * want.size + 1e-36)) return false;
        }
    return true;
}
static struct problem random_problem(const struct kernels *k)
{
    const uint32_t block = k->format->block_weights, rows = 1 + random_below(100), panels = (rows + 15) / 16;
    uint32_t cols = block * (1 + random_below(1400 / block));
    if (random_below(8) == 0) cols = block * ((2300 + random_below(600)) / block);
    struct problem p = { .k = k, .tokens = 1 + random_below(40), .first_row = 16 * random_below(panels) };
    p.n_rows   = 16 * (1 + random_below(panels - p.first_row / 16));
    p.y_stride = p.n_rows + 16 * random_below(3);
    case_is("%s: %u x %u, %u tokens, rows %u + %u", k->format->name, rows, cols, p.tokens, p.first_row, p.n_rows);
    p.m = matrix_new(k->format, LAYOUT_CPU, rows, cols, NUMBERS_ANY, CODES_ANY);
    p.scale_of = malloc((uint64_t)rows * cols * sizeof(float));
    memcpy(p.scale_of, p.m.sizes, (uint64_t)rows * cols * sizeof(float));
    for (uint64_t i = 0; k->format->coding && i < (uint64_t)rows * cols; i += 32) {
        float top = 0;
        for (uint64_t c = i; c < i + 32; c++) top = fmaxf(top, p.m.sizes[c]);
        for (uint64_t c = i; c < i + 32; c++) p.scale_of[c] = top;
    }
    return p;
}
static bool check_rows(const struct problem *p)
{
    struct room *out = room_new("a row", (uint64_t)p->m.cols * 4);
    for (uint32_t r = 0; r < p->m.rows; r++) {
        const float *want = p->m.weights + (uint64_t)r * p->m.cols;
        p->k->row(room_floats(out), p->m.packed->bytes, r, p->m.cols);
        for (uint32_t c = 0; c < p->m.cols; c++)
            if (memcmp(out->bytes + 4 * c, &want[c], 4))
                return bad("row %u, column %u is %.9g, not %.9g", r, c, (double)room_floats(out)[c], (double)want[c]);
    }
    return true;
}
static void random_x(float *x, uint32_t cols)
{
    const uint32_t kind = random_below(8);
    for (uint32_t c = 0; c < cols; c++) {
        x[c] = kind == 0 ? 0 : kind == 1 ? (c % 2 ? 1.0f : -1.0f) : kind == 2 ? 1.0f : random_normal() * (c / 32 % 7 == 3 ? 20.0f : 1.0f);
        if (kind == 3 && c / 32 % 3 == 0) x[c] = c % 5 ? 0 : 0x1p-130f;
    }
}
/* Is code c of a quantised row the nearest code, and are the sums of its block right? */
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
/* Rows of activations, [tokens][cols]: floats, quantised, and the values of both in double. */
struct activations { struct room *floats, *codes; double *exact, *quantised; };
static struct activations activations_new(const struct problem *p)
{
    const uint32_t cols = p->m.cols;
    const uint64_t f_stride = XF_STRIDE(cols), q_stride = XQ_STRIDE(cols), n = (uint64_t)p->tokens * cols;
    struct activations a = { room_new("activations", p->tokens * f_stride), room_new("codes", p->tokens * q_stride), malloc(n * 8),
                             malloc(n * 8) };
    for (uint32_t t = 0; t < p->tokens; t++) {
        float *x = (float *)(void *)(a.floats->bytes + t * f_stride);
        uint8_t *xq = a.codes->bytes + t * q_stride;
        random_x(x, cols);
        for (uint32_t c = 0; c < cols; c++) a.exact[(uint64_t)t * cols + c] = (double)x[c];
        if (cols % 32) continue;
        quantize_row(xq, x, cols);
        for (uint32_t c = 0; c < cols; c++) {
            float d;
            memcpy(&d, xq + XQ_SCALES(cols) + c / 32 * 4, 4);
            a.quantised[(uint64_t)t * cols + c] = (double)d * (double)(int8_t)xq[c];
            const char *wrong = quantised_wrongly(xq, x, cols, c);
            if (wrong) { bad("quantize_row, token %u, column %u: %s", t, c, wrong); break; }
        }
    }
    return a;
}
/* Do `tokens` rows of y, from first_token on, have the same bits as the rows of ys? */
static void same_bits(const struct problem *p, const char *what, const struct room *ys, uint32_t first_token, const struct room *y,
                      uint32_t y_stride, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < p->n_rows; i++) {
            const uint8_t *one = y->bytes + 4 * ((uint64_t)t * y_stride + i);
            const uint8_t *all = ys->bytes + 4 * ((uint64_t)(first_token + t) * p->y_stride + i);
            float a, b;
            memcpy(&a, one, 4);
            memcpy(&b, all, 4);
            if (memcmp(one, all, 4) == 0 || (isnan(a) && isnan(b))) continue;
            bad("%s: token %u, row %u: %.9g, beside all others %.9g", what, first_token + t, i, (double)a, (double)b);
            return;
        }
}
/* A token's bits must not depend on how many other tokens a call has; with weights in blocks, decode gives the same bits too. */
static void check_apart(const struct problem *p, const uint8_t *x, const struct room *ys, const struct room *scratch)
{
    const struct kernels *k = p->k;
    const uint64_t x_stride = is_float(k) ? XF_STRIDE((uint64_t)p->m.cols) : XQ_STRIDE((uint64_t)p->m.cols);
    const uint32_t first = random_below(p->tokens), left = p->tokens - first, n = 1 + random_below(left < 10 ? left : 10);
    struct room *some = room_new("y of some tokens", (uint64_t)n * p->n_rows * 4),
        *one = room_new("y of one token", (uint64_t)p->n_rows * 4);
    k->gemm(room_floats(some), p->n_rows, p->m.packed->bytes, x + first * x_stride, n, p->first_row, p->n_rows, p->m.cols, scratch->bytes);
    same_bits(p, "gemm of some", ys, first, some, p->n_rows, n);
    if (is_float(k)) return;
    k->gemv(room_floats(one), p->m.packed->bytes, x + first * x_stride, p->first_row, p->n_rows, p->m.cols);
    same_bits(p, "gemv", ys, first, one, p->n_rows, 1);
}
static void check_products(const struct problem *p)
{
    const struct activations a = activations_new(p);
    const struct kernels *k = p->k;
    const void *x = is_float(k) ? a.floats->bytes : a.codes->bytes;
    const double *used = is_float(k) ? a.exact : a.quantised;
    const uint8_t *w = p->m.packed->bytes;
    const uint32_t first = p->first_row, n = p->n_rows, cols = p->m.cols, stride = p->y_stride;
    struct room *scratch = room_new("scratch", GEMM_SCRATCH), *y = room_new("y", (uint64_t)n * 4),
        *ys = room_new("y of tokens", (uint64_t)p->tokens * stride * 4);
    k->gemv(room_floats(y), w, x, first, n, cols);
    compare(p, "gemv", y, 1, n, used);
    rooms_poison(y);
    k->gemv_exact(room_floats(y), w, a.floats->bytes, first, n, cols);
    compare(p, "gemv_exact", y, 1, n, a.exact);
    k->gemm(room_floats(ys), stride, w, x, p->tokens, first, n, cols, scratch->bytes);
    compare(p, "gemm", ys, p->tokens, stride, used);
    check_apart(p, x, ys, scratch);
    rooms_poison(ys);
    rooms_poison(scratch);
    k->gemm_exact(room_floats(ys), stride, w, a.floats->bytes, p->tokens, first, n, cols, scratch->bytes);
    compare(p, "gemm_exact", ys, p->tokens, stride, a.exact);
    free(a.exact);
    free(a.quantised);
}
static void check(const struct kernels *k)
{
    struct problem p = random_problem(k);
    if (p.m.packed->size != k->packed_bytes(p.m.rows, p.m.cols)) bad("packer and kernel disagree on the size");
    else if (check_rows(&p)) check_products(&p);
    matrix_free(&p.m);
    free(p.scale_of);
    rooms_free();
}
void test_cpu_matmul(void)
{
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        for (uint32_t r = 0; r < rounds(20); r++)
            if (format_wanted(kernels_all[i].format->file) && case_begin()) check(&kernels_all[i]);
}

/* ---- speed ---- */
/* The number of rows of a packed matrix of about `bytes`; its contents repeat 16 random rows. */
static uint8_t *bench_matrix(const struct kernels *k, uint32_t rows, uint32_t cols)
{
    const struct packing packing = packing_of(LAYOUT_CPU, k->format, 0);
    const size_t bytes = 16 * format_row_bytes(k->format, cols);
    uint8_t *gguf = malloc(bytes), *w = aligned_alloc(4096, (packing_bytes(packing, rows, cols) + 4095) / 4096 * 4096);
    blocks_fill(gguf, k->format, bytes / k->format->block_bytes, NUMBERS_ANY, CODES_RANDOM);
    const uint64_t panel = packing_group_bytes(packing, cols);
    packing_write(packing, w, gguf, 16, cols, 0, 1);
    for (uint32_t i = 1; i < rows / 16; i++) memcpy(w + i * panel, w, panel);
    free(gguf);
    return w;
}
static void *bench_x(bool floats, uint32_t tokens, uint32_t cols)
{
    const size_t stride = floats ? XF_STRIDE(cols) : XQ_STRIDE(cols);
    uint8_t *x = aligned_alloc(4096, (tokens * stride + 4095) / 4096 * 4096);
    float *row = malloc(cols * 4);
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t c = 0; c < cols; c++) row[c] = random_normal();
        if (floats) memcpy(x + t * stride, row, cols * 4);
        else        quantize_row(x + t * stride, row, cols);
    }
    free(row);
    return x;
}
static double gemv_speed(const struct kernels *k, double target_bytes, uint32_t cols)
{
    const uint64_t panel = packing_group_bytes(packing_of(LAYOUT_CPU, k->format, 0), cols);
    const uint32_t rows = (uint32_t)(target_bytes / (double)panel) * 16;
    uint8_t *w = bench_matrix(k, rows, cols);
    void *x = bench_x(is_float(k), 1, cols);
    float *y = aligned_alloc(64, (rows * 4 + 63) / 64 * 64);
    double best = 1e9, spent = 0;
    for (int i = 0; i < 600 && (i < 6 || spent < 0.4); i++) {        /* many intervals of 0.5 ms: some are undisturbed */
        const double t = now_s();
        double e;
        int n = 0;
        do { k->gemv(y, w, x, 0, rows, cols); n++; } while ((e = now_s() - t) < 4e-4);
        spent += e;
        if (e / n < best) best = e / n;
    }
    free(w); free(x); free(y);
    return (double)(rows / 16 * panel) / best * 1e-9;
}
static double gemm_speed(const struct kernels *k, gemm_function *gemm, int exact, uint32_t rows, uint32_t cols, uint32_t tokens)
{
    uint8_t *w = bench_matrix(k, rows, cols), *scratch = aligned_alloc(4096, (GEMM_SCRATCH + 4095) / 4096 * 4096);
    void *x = bench_x(exact || is_float(k), tokens, cols);
    float *y = aligned_alloc(64, (size_t)rows * tokens * 4);
    double best = 1e9, spent = 0;
    for (int i = 0; i < 600 && (i < 6 || spent < 0.3); i++) {
        const double t = now_s();
        gemm(y, rows, w, x, tokens, 0, rows, cols, scratch);
        const double e = now_s() - t;
        spent += e;
        if (e < best) best = e;
    }
    free(w); free(x); free(y); free(scratch);
    return 2.0 * rows * cols * tokens / best * 1e-9;
}
static void bench_format(const struct kernels *k)
{
    printf("%-7s", k->format->name);
    printf(" %8.1f", gemv_speed(k, 0.5e6, 256));
    printf(" %8.1f", gemv_speed(k, 4e6, 4096));
    printf(" %8.1f", gemv_speed(k, 200e6, 4096));
    fflush(stdout);
    static const uint32_t tokens[] = { 2, 4, 8, 32, 128 };
    for (int i = 0; i < 5; i++) printf(" %8.0f", gemm_speed(k, k->gemm, 0, tokens[i] < 128 ? 1024 : 4096, 4096, tokens[i]));
    printf(" %8.0f %8.0f\n", gemm_speed(k, k->gemm, 0, 768, 256, 128), gemm_speed(k, k->gemm_exact, 1, 1024, 4096, 128));
    fflush(stdout);
}

void bench_cpu_matmul(void)
{
    printf("GB/s: gemv of 0.5 MB (256 columns), 4 MB, 200 MB (4096 columns); GOP/s: gemm of 4096 columns x 2, 4, 8, 32, 128 tokens, "
           "768 x 256 x 128, exact x 128\n");
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        if (format_wanted(kernels_all[i].format->file)) bench_format(&kernels_all[i]);
}
