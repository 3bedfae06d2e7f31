/* check_gemm.c -- products of prefill (templates/gpu/gemm_tmpl.c) against sums in double: all formats, single and paired, odd sizes,
 * every value handed to the sink exactly once, nothing read beyond x and the weights (they end at an inaccessible page).
 * tests/lanes/run_check.sh clang-19 gemm: as it is, with -DSIMT_MMA_GROUP, -DFAMILY=FAMILY_RDNA3,
 * -DFAMILY=FAMILY_CDNA3, with -DGEMM_UNIT_STEPS=2, and with other tiles (-DTILE_TOKENS= -DTILE_ROWS= -DTILE_THREADS= -DGEMM_STAGES=).
 * Some formats come in a second shape besides, where two threads share a unit. */
#include <math.h>
#include "check_blocks.h"

/* The shape of the instances; other ones by -D. */
#ifndef TILE_TOKENS
#define TILE_TOKENS 128
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 128
#endif
#ifndef TILE_THREADS
#define TILE_THREADS 128
#endif
#define EACH_FORMAT "tests/device/gemm_instance.h"
#include "compiler/format/format.def"
#define FORMAT bf16
#define GEMM_TOKENS 48
#define GEMM_ROWS 256
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q4_K
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q6_K
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q8_0
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT

#ifndef CASES
#define CASES 4                                  /* of each format */
#endif
enum { GUARD = 64 };

/* The case under test; kernels read it as they would read constants. */
static struct {
    uint32_t rows, cols, n_tokens, t0, x_stride;
    const uint8_t *x, *w[2];
    float    *y[2];                              /* [n_tokens][rows]; y[1]: up of a pair */
    uint8_t  *times;                             /* [n_tokens][rows]: how often the sink was called */
} c;

DEVICE void sink_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    (void)a;
    c.y[0][(uint64_t)t * c.rows + r] = y;
    c.times[(uint64_t)t * c.rows + r]++;
}
DEVICE void sink_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    (void)a;
    c.y[0][(uint64_t)t * c.rows + r] = gate;
    c.y[1][(uint64_t)t * c.rows + r] = up;
    c.times[(uint64_t)t * c.rows + r]++;
}
#define KERNELS2(format, shape) \
    static void product_##format##_##shape(const struct forge_kernel_args a) \
    { \
        gemm_##format##_##shape(a, c.w[0], c.rows, c.cols, c.x, c.x_stride, group_y(), c.t0, c.n_tokens, sink_row); \
    } \
    static void pair_##format##_##shape(const struct forge_kernel_args a) \
    { \
        gemm_pair_##format##_##shape(a, c.w[0], c.w[1], c.rows, c.cols, c.x, c.x_stride, group_y(), c.t0, c.n_tokens, sink_pair); \
    }
#define KERNELS1(format, shape)                  KERNELS2(format, shape)
#define SHAPE2(tokens, rows, threads)            tokens##x##rows##_##threads
#define SHAPE(tokens, rows, threads)             SHAPE2(tokens, rows, threads)
#define KERNELS(format)                          KERNELS1(format, SHAPE(TILE_TOKENS, TILE_ROWS, TILE_THREADS))
/* What the kernel has in LDS for 64 columns of a row; f32 keeps the weight itself, to 2^-22. */
#define DECODED(format) \
    static void decoded_##format(float *w, const uint8_t *row, uint32_t units) \
    { \
        for (uint32_t u = 0; u < units; u++) { \
            struct unit_##format unit; \
            uint32_t h[32]; \
            load_##format(&unit, row, u, units); \
            decode_##format(h, &unit, u); \
            for (uint32_t k = 0; k < 64; k++) w[64 * u + k] = f32_of_f16_bits(h[k / 2] >> 16 * (k % 2) & 0xffffu); \
        } \
    }
#define QUANT_FLOAT(name, file, ...) KERNELS(file)
#define QUANT_BLOCK(name, file, ...) KERNELS(file) DECODED(file)
#include "compiler/format/format.def"
KERNELS2(bf16, 48x256_256)
KERNELS2(q4_K, 64x128_256)
KERNELS2(q6_K, 64x128_256)
KERNELS2(q8_0, 64x128_256)

struct instance {
    const struct format *format;
    const char *shape;
    uint32_t tokens, tile_rows, threads;
    simt_kernel *product, *pair;
    void (*decoded)(float *w, const uint8_t *row, uint32_t units);
};
#define KERNELS_OF2(n, shape) product_##n##_##shape, pair_##n##_##shape
#define KERNELS_OF(n, shape)  KERNELS_OF2(n, shape)
#define SHAPED(n, t, r, th)   t, r, th, KERNELS_OF(n, SHAPE(t, r, th))
#define TILE(n)               SHAPED(n, TILE_TOKENS, TILE_ROWS, TILE_THREADS)
#define SECOND(t, r, th, n)    ", second shape", SHAPED(n, t, r, th)
static const struct instance instances[] = {
#define QUANT_FLOAT(name, file, ...) { &format_table[PLACE_##name], "", TILE(file), NULL },
#define QUANT_BLOCK(name, file, ...) { &format_table[PLACE_##name], "", TILE(file), decoded_##file },
#include "compiler/format/format.def"
    { &format_table[PLACE_BF16], SECOND(48, 256, 256, bf16), NULL },
    { &format_table[PLACE_Q4_K], SECOND(64, 128, 256, q4_K), decoded_q4_K },
    { &format_table[PLACE_Q6_K], SECOND(64, 128, 256, q6_K), decoded_q6_K },
    { &format_table[PLACE_Q8_0], SECOND(64, 128, 256, q8_0), decoded_q8_0 },
};

/* exact: what the file says, [rows][units * 64]; used: what the kernel multiplies. */
static void weights_new(struct room *packed, float *exact, float *used, const struct instance *in)
{
    const struct packing packing = packing_of(LAYOUT_GPU, in->format);
    const uint64_t file_row = format_row_bytes(in->format, c.cols), row_bytes = packing_group_bytes(packing, c.cols),
        width = UNITS_OF(c.cols) * 64;
    uint8_t *file = malloc(c.rows * file_row);
    random_blocks(file, in->format, c.rows * (file_row / in->format->block_bytes), 120, 127);
    *packed = room_new(c.rows * row_bytes);
    packing_write(packing, packed->bytes, file, c.rows, c.cols, 0, c.rows);
    for (uint32_t r = 0; r < c.rows; r++) {
        memset(exact + r * width, 0, width * sizeof *exact);
        dequantize_row_ref(in->format->id, exact + r * width, file + r * file_row, c.cols);
        if (in->decoded) in->decoded(used + r * width, packed->bytes + r * row_bytes, (uint32_t)(width / 64));
        else memcpy(used + r * width, exact + r * width, width * sizeof *used);
    }
    free(file);
}
/* value: [n_tokens][width], what x means. */
static void activations_new(struct room *x, double *value, bool bf16)
{
    const uint32_t width = UNITS_OF(c.cols) * 64;
    *x = room_new((uint64_t)(c.n_tokens - 1) * c.x_stride + 2 * width);
    for (uint32_t t = 0; t < c.n_tokens; t++)
        for (uint32_t k = 0; k < width; k++) {
            const float v = k < c.cols ? random_f32() : 0.0f;
            const uint16_t bits = (uint16_t)(bf16 ? bf16_bits(v) : f16_bits(v * STAGE_SCALE));
            memcpy(x->bytes + (uint64_t)t * c.x_stride + 2 * k, &bits, 2);
            value[(uint64_t)t * width + k] = bf16 ? (double)f32_of_bf16_bits(bits) : (double)f32_of_f16_bits(bits) * 64.0;
        }
}
/* used: to 1e-5 of the sum of magnitudes; exact: to 2^-9 of the largest weight's product, as random roundings add up. */
static bool compare(const struct instance *f, const char *what, const float *y, const double *x, const float *exact, const float *used)
{
    const uint32_t width = UNITS_OF(c.cols) * 64;
    double largest = 0.0;
    for (uint64_t i = 0; i < (uint64_t)c.rows * width; i++) largest = fmax(largest, fabs((double)exact[i]));
    for (uint32_t t = c.t0; t < c.n_tokens; t++)
        for (uint32_t r = 0; r < c.rows; r++) {
            double sum = 0.0, size = 0.0, file = 0.0, squares = 0.0;
            for (uint32_t k = 0; k < c.cols; k++) {
                const double v = x[(uint64_t)t * width + k];
                sum += v * (double)used[(uint64_t)r * width + k];
                size += fabs(v * (double)used[(uint64_t)r * width + k]);
                file += v * (double)exact[(uint64_t)r * width + k];
                squares += v * v;
            }
            const double got = (double)y[(uint64_t)t * c.rows + r];
            if (!(fabs(got - sum) <= 1e-5 * size + 1e-7) || !(fabs(got - file) <= 0x1p-9 * largest * sqrt(squares) + 1e-5 * size + 1e-7)) {
                printf("%s%s %s: %u rows, %u cols, %u tokens from %u, stride %u: y[%u][%u] is %g, not %g (file: %g)\n", f->format->name,
                       f->shape, what, c.rows, c.cols, c.n_tokens, c.t0, c.x_stride, t, r, got, sum, file);
                return false;
            }
        }
    return true;
}
static bool check_case(const struct instance *f, bool pair)
{
    const uint32_t block = f->format->block_weights;
    const uint32_t grain = block == 1 ? 4 : block, width_max = block == 256 ? 2 : 512 / grain;
    c.rows = random_in(0, 3) ? random_in(1, random_in(0, 1) ? 300 : 40) : random_in(1, 2) * (f->tile_rows / 2);
    c.cols = grain * random_in(grain < 32 ? 32 / grain : 1, width_max);
    c.n_tokens = random_in(1, random_in(0, 1) ? 200 : 20);
    c.t0 = random_in(0, 2) ? 0 : random_in(0, c.n_tokens - 1);
    c.x_stride = UNITS_OF(c.cols) * 128 + 16 * random_in(0, 3);
    const uint64_t width = UNITS_OF(c.cols) * 64, n_y = (uint64_t)c.n_tokens * c.rows, tile_rows = pair ? f->tile_rows / 2 : f->tile_rows;
    struct room x, w[2];
    float *exact[2], *used[2];
    double *value = malloc(c.n_tokens * width * sizeof *value);
    for (uint32_t i = 0; i < 2; i++) {
        exact[i] = malloc(c.rows * width * sizeof(float));
        used[i] = malloc(c.rows * width * sizeof(float));
        weights_new(&w[i], exact[i], used[i], f);
        c.w[i] = w[i].bytes;
        c.y[i] = malloc(n_y * sizeof(float));
        memset(c.y[i], SIMT_POISON, n_y * sizeof(float));
    }
    activations_new(&x, value, f->format->number == NUMBER_BF16);
    c.x = x.bytes;
    c.times = calloc(n_y + GUARD, 1);
    const struct forge_kernel_args args = { 0 };
    const uint32_t lds_bytes = GEMM_LDS_BYTES(f->tokens, f->tile_rows, GEMM_STAGES, f->format->number == NUMBER_F32 ? 2 : 1,
                                              f->format->block_bytes == 2, GEMM_UNIT_STEPS);
    simt_launch(pair ? f->pair : f->product, &args, (c.n_tokens + f->tokens - 1) / f->tokens + random_in(0, 1),
                (uint32_t)((c.rows + tile_rows - 1) / tile_rows), f->threads, WAVE, lds_bytes, n_cases++);
    bool ok = compare(f, pair ? "gate" : "product", c.y[0], value, exact[0], used[0]);
    if (pair) ok &= compare(f, "up", c.y[1], value, exact[1], used[1]);
    for (uint64_t i = 0; i < n_y + GUARD && ok; i++)
        if (c.times[i] != (i >= (uint64_t)c.t0 * c.rows && i < n_y)) {
            printf("%s%s: %u rows, %u cols, %u tokens from %u: value %u was handed on %u times\n", f->format->name, f->shape, c.rows,
                   c.cols, c.n_tokens, c.t0, (uint32_t)i, c.times[i]);
            ok = false;
        }
    for (uint32_t i = 0; i < 2; i++) { free(exact[i]); free(used[i]); free(c.y[i]); room_free(&w[i]); }
    room_free(&x);
    free(value);
    free(c.times);
    return ok;
}
int main(void)
{
    bool ok = true;
    for (uint32_t i = 0; i < CASES; i++)
        for (uint32_t f = 0; f < sizeof instances / sizeof *instances; f++) ok &= check_case(&instances[f], i % 2);
    printf("check_gemm: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
