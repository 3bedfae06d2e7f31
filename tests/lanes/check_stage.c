/* check_stage.c -- rows prepared for products, norms, elementwise operations and embedding rows of all formats (templates/gpu/stage.h,
 * elementwise.h, embed_tmpl.c) against double arithmetic and templates/ref/dequant.c.  Outputs are poisoned and must be written exactly
 * where they should be; inputs end at an inaccessible page.  tests/lanes/run_check.sh clang-19 stage     (and with -DFAMILY=FAMILY_CDNA3) */
#include <math.h>
#include "check_blocks.h"
#include "templates/gpu/elementwise.h"

#define EACH_FORMAT "tests/device/gpu_format.h"
#include "compiler/format/format.def"
#define EACH_FORMAT "templates/gpu/embed_tmpl.c"
#include "compiler/format/format.def"

enum { GUARD = 64 };

/* The case under test; kernels read it as they would read constants. */
static struct {
    uint32_t cols, n_tokens, threads, norm, bf16, what, x_stride, out_stride;
    float    eps;
    const uint8_t *x, *y, *table;
    const float   *weight;
    const int32_t *tokens;
    uint8_t *out;
} c;

static const float *row_x(uint32_t t) { return (const float *)(const void *)(c.x + (uint64_t)t * c.x_stride); }
static const float *row_y(uint32_t t) { return (const float *)(const void *)(c.y + (uint64_t)t * c.x_stride); }
static uint8_t *row_out(uint32_t t)   { return c.out + (uint64_t)t * c.out_stride; }
static float *floats_out(uint32_t t)  { return (float *)(void *)row_out(t); }

static void kernel_stage(const struct forge_kernel_args a)
{
    const uint32_t t = first_token(a) + group_y();
    stage_rows(row_out(t), row_x(t), c.weight, c.cols, c.eps, c.norm, c.bf16, c.threads);
}
static void kernel_norm(const struct forge_kernel_args a)
{
    const uint32_t t = first_token(a) + group_y();
    norm_row(floats_out(t), row_x(t), c.weight, c.cols, c.eps, c.threads);
}
static void kernel_elementwise(const struct forge_kernel_args a)
{
    const uint32_t t = first_token(a) + group_y();
    if (c.what == 0) add_row(floats_out(t), row_x(t), row_y(t), c.cols, c.threads);
    if (c.what == 1) bias_row(floats_out(t), row_x(t), c.weight, c.cols, c.threads);
    if (c.what == 2) glu_silu_row(floats_out(t), row_x(t), row_y(t), c.cols, c.threads);
    if (c.what == 3) glu_gelu_row(floats_out(t), row_x(t), row_y(t), c.cols, c.threads);
}
#define EMBED(format) \
    static void embed_##format##_rows(const struct forge_kernel_args a) \
    { \
        (void)a; \
        embed_row_##format(floats_out(group_y()), c.table, c.tokens[group_y()], c.cols, c.threads); \
    }
#define QUANT(name, file, ...) EMBED(file)
#include "compiler/format/format.def"

static simt_kernel *const embeds[] = {           /* as in format_table */
#define QUANT(name, file, ...) embed_##file##_rows,
#include "compiler/format/format.def"
};

/* Rows of floats at stride; size: largest magnitude. */
static struct room rows_new(uint32_t rows, uint32_t stride, float size)
{
    struct room r = room_new((uint64_t)rows * stride);
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t k = 0; k < c.cols; k++) ((float *)(void *)(r.bytes + (uint64_t)t * stride))[k] = random_f32() * size;
    return r;
}
static bool fail(const char *what, uint32_t t, uint32_t k, double got, double want)
{
    printf("%s: %u cols, %u tokens, %u threads, norm %u, weight %u, bf16 %u: [%u][%u] is %.9g, not %.9g\n", what, c.cols, c.n_tokens,
           c.threads, c.norm, c.weight != NULL, c.bf16, t, k, got, want);
    return false;
}
/* Nothing written in rows before t0, and in no row beyond `bytes`. */
static bool untouched(const char *what, const uint8_t *out, uint64_t total, uint32_t t0, uint32_t bytes)
{
    for (uint64_t i = 0; i < total; i++) {
        const uint64_t t = i / c.out_stride, at = i % c.out_stride;
        if ((t < t0 || t >= c.n_tokens || at >= bytes) && out[i] != SIMT_POISON)
            return fail(what, (uint32_t)t, (uint32_t)at, out[i], SIMT_POISON);
    }
    return true;
}
static double norm_factor(uint32_t t)
{
    double sum = 0;
    for (uint32_t k = 0; k < c.cols; k++) sum += (double)row_x(t)[k] * (double)row_x(t)[k];
    return c.norm ? 1.0 / sqrt(sum / c.cols + (double)c.eps) : 1.0;
}

static bool check_rows(uint32_t what)            /* 0: staged, 1: normed, 2: elementwise */
{
    static const uint32_t widths[] = { 32, 64, 80, 96, 256, 576, 2048, 4160, 9000 };
    c.cols = random_in(0, 4) ? widths[random_in(0, 8)] : random_in(1, 500);
    c.n_tokens = random_in(1, 5);
    c.threads = 64u << random_in(0, 2);
    c.norm = what == 1 || (what == 0 && random_in(0, 1));
    c.bf16 = random_in(0, 1);
    c.what = random_in(0, 3);
    c.eps = 1e-5f;
    c.x_stride = (c.cols * 4 + 15) / 16 * 16 + 16 * random_in(0, 2);
    c.out_stride = (c.cols + 63) / 64 * (what ? 256 : 128) + 16 * random_in(0, 2);
    const float size = what == 0 && random_in(0, 3) == 0 ? 1e5f : 4.0f;
    struct room x = rows_new(c.n_tokens, c.x_stride, size), y = rows_new(c.n_tokens, c.x_stride, 2.0f),
        w = rows_new(1, (c.cols * 4 + 15) / 16 * 16, 2.0f);
    const uint64_t total = (uint64_t)(c.n_tokens + 1) * c.out_stride;
    struct room out = room_new(total);
    c.x = x.bytes, c.y = y.bytes, c.out = out.bytes;
    c.weight = what == 2 || random_in(0, 3) ? (const float *)(const void *)w.bytes : NULL;
    struct forge_gpu_step *step = calloc(1, sizeof *step);
    step->n_tokens = c.n_tokens;
    step->n_logits = random_in(1, c.n_tokens);
    const struct forge_kernel_args args = { .step = step, .first = random_in(0, 1) };
    const uint32_t t0 = args.first ? c.n_tokens - step->n_logits : 0, width = what ? c.cols : (c.cols + 63) / 64 * 64;
    simt_launch(what == 0 ? kernel_stage : what == 1 ? kernel_norm : kernel_elementwise, &args, 1, c.n_tokens - t0, c.threads, WAVE,
                ACTS_SCRATCH_BYTES, n_cases++);
    const char *name = what == 0 ? "stage_rows" : what == 1 ? "norm_row" : "elementwise";
    bool ok = untouched(name, c.out, total, t0, width * (what ? 4 : 2));
    for (uint32_t t = t0; t < c.n_tokens && ok; t++) {
        const double factor = norm_factor(t);
        for (uint32_t k = 0; k < width && ok; k++) {
            double want = 0, got = 0, bound = 0;
            if (k < c.cols) {
                const double v = (double)row_x(t)[k], u = (double)row_y(t)[k], g = (double)(c.weight ? c.weight[k] : 1.0f);
                if (what < 2) want = c.norm ? v * factor * g : v;
                else want = c.what == 0 ? v + u : c.what == 1 ? v + g : c.what == 2 ? v / (1 + exp(-v)) * u
                          : 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))) * u;
            }
            if (what) {
                got = (double)floats_out(t)[k];
                bound = 2e-6 * fabs(want) + 1e-6;
            } else {
                const uint32_t bits = ((const uint16_t *)(const void *)row_out(t))[k];
                got = c.bf16 ? (double)f32_of_bf16_bits(bits) : 64.0 * (double)f32_of_f16_bits(bits);
                bound = c.bf16 ? 0x1p-8 * fabs(want) : 0x1p-11 * fabs(want) + 0x1p-18;
                bound += 2e-6 * fabs(want);
                if (k >= c.cols) bound = 0;
            }
            if (!(fabs(got - want) <= bound)) ok = fail(name, t, k, got, want);
        }
    }
    room_free(&x), room_free(&y), room_free(&w), room_free(&out);
    free(step);
    return ok;
}

static bool check_embed(uint32_t place)
{
    const struct format *f = &format_table[place];
    const struct packing packing = packing_of(LAYOUT_GPU, f);
    const uint32_t grain = f->coding ? f->block_weights : 4, rows = random_in(1, 20);
    c.cols = grain * random_in(1, 2048 / grain);
    c.n_tokens = random_in(1, 4);
    c.threads = 64u << random_in(0, 2);
    c.out_stride = (c.cols * 4 + 15) / 16 * 16 + 16 * random_in(0, 2);
    c.norm = 0, c.bf16 = 0, c.weight = NULL;
    const uint64_t file_row = format_row_bytes(f, c.cols);
    uint8_t *file = malloc(rows * file_row);
    float *want = malloc(c.cols * sizeof *want);
    int32_t tokens[4];
    for (uint32_t i = 0; i < 4; i++) tokens[i] = (int32_t)random_in(0, rows - 1);
    random_blocks(file, f, rows * (file_row / f->block_bytes), 100, 140);
    struct room table = room_new(packing_bytes(packing, rows, c.cols)), out = room_new((uint64_t)c.n_tokens * c.out_stride);
    packing_write(packing, table.bytes, file, rows, c.cols, 0, rows);
    c.table = table.bytes, c.out = out.bytes, c.tokens = tokens;
    const struct forge_kernel_args args = { 0 };
    simt_launch(embeds[place], &args, EMBED_GROUPS(c.cols, WAVE, c.threads), c.n_tokens, c.threads, WAVE, 0, n_cases++);
    bool ok = untouched(f->name, c.out, (uint64_t)c.n_tokens * c.out_stride, 0, c.cols * 4);
    for (uint32_t t = 0; t < c.n_tokens && ok; t++) {
        dequantize_row_ref(f->id, want, file + (uint64_t)tokens[t] * file_row, c.cols);
        for (uint32_t k = 0; k < c.cols && ok; k++) {
            /* a difference may be rounded in other places */
            const double bound = !f->coding ? 0.0 : 0x1p-22 * (fabs((double)want[k]) + 0.01 * 64);
            if (!(fabs((double)floats_out(t)[k] - (double)want[k]) <= bound))
                ok = fail(f->name, t, k, (double)floats_out(t)[k], (double)want[k]);
        }
    }
    room_free(&table), room_free(&out);
    free(file), free(want);
    return ok;
}
int main(void)
{
    bool ok = true;
    for (uint32_t i = 0; i < 240; i++) ok &= check_rows(i % 3);
    for (uint32_t i = 0; i < 10; i++)
        for (uint32_t f = 0; f < FORMAT_COUNT; f++) ok &= check_embed(f);
    printf("check_stage: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
