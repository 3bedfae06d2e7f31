/* stage.c -- compares rows prepared for products, norms, elementwise operations and embedding rows (templates/gpu/stage.h, elementwise.h,
 * embed_tmpl.c) with the oracles of templates/ref.  Outputs are poisoned, and exactly the right bytes of them must be written. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/ref/ops.h"
#include "cases.h"
#include <stdio.h>

enum what { STAGED, NORMED, ELEMENTWISE, N_WHAT };
static struct { struct stage_case c; struct room *room, *out; uint32_t n_tokens, t0; } on;

/* Rows of floats at stride; size: largest magnitude. */
static struct room *rows_new(const char *name, uint32_t rows, uint32_t stride, float size)
{
    struct room *r = room_new(name, (uint64_t)rows * stride);
    for (uint32_t t = 0; t < rows; t++) random_row((float *)(void *)(r->bytes + (uint64_t)t * stride), on.c.cols, size);
    return r;
}
static const float *row_of(const struct room *r, uint32_t t)
{
    return (const float *)(const void *)(r->bytes + (uint64_t)t * on.c.x_stride);
}

static void launch(const char *kernel, const struct forge_gpu_step *step, uint32_t first, uint32_t grid_x, uint32_t lds_bytes)
{
    struct room *steps = room_new("the step", sizeof *step);
    memcpy(steps->bytes, step, sizeof *step);
    memcpy(on.room->bytes, &on.c, sizeof on.c);
    const struct forge_kernel_args args = { .weights = on.room->at, .step = steps->at, .first = first };
    machine_launch(&(struct launch){ kernel, grid_x, on.n_tokens - on.t0, on.c.threads, lds_bytes, 0 }, &args);
}

/* Checks that rows before t0, and bytes of a row from `bytes` on, are not written. */
static bool untouched(uint32_t bytes)
{
    for (uint64_t i = 0; i < on.out->size; i++) {
        const uint64_t t = i / on.c.out_stride, at = i % on.c.out_stride;
        if ((t < on.t0 || t >= on.n_tokens || at >= bytes) && on.out->bytes[i] != POISON)
            return bad("byte %llu of row %llu is written", (unsigned long long)at, (unsigned long long)t);
    }
    return true;
}

/* The expected values of a row, as floats. */
static void expected(float *want, enum what what, const float *x, const float *y, const float *weight)
{
    const uint32_t n = on.c.cols;
    if (what != ELEMENTWISE) {
        if (on.c.norm) rmsnorm_ref(want, x, weight, n, (double)on.c.eps);
        for (uint32_t i = 0; i < n && !on.c.norm; i++) want[i] = x[i];
        return;
    }
    switch (on.c.what) {
    case STAGE_ADD:  add_ref(want, x, y, n); break;
    case STAGE_BIAS: add_ref(want, x, weight, n); break;
    case STAGE_SILU: glu_silu_ref(want, x, y, n); break;
    case STAGE_GELU: glu_gelu_ref(want, x, y, n); break;
    }
}

static bool compare_row(uint32_t t, const float *want, enum what what)
{
    const uint8_t *row = on.out->bytes + (uint64_t)t * on.c.out_stride;
    const uint32_t width = what == STAGED ? (on.c.cols + 63) / 64 * 64 : on.c.cols;
    for (uint32_t k = 0; k < width; k++) {
        const double w = k < on.c.cols ? (double)want[k] : 0;
        double got, bound = 2e-6 * fabs(w) + 1e-6;
        if (what != STAGED) got = (double)((const float *)(const void *)row)[k];
        else {
            const uint32_t bits = ((const uint16_t *)(const void *)row)[k];
            got = on.c.bf16 ? (double)f32_of_bf16_bits(bits) : 64.0 * (double)f32_of_f16_bits(bits);
            bound = 2e-6 * fabs(w) + (on.c.bf16 ? 0x1p-8 * fabs(w) : 0x1p-11 * fabs(w) + 0x1p-18);
            if (k >= on.c.cols) bound = 0;
        }
        if (!close_to("value", (uint64_t)t * width + k, got, w, bound)) return false;
    }
    return true;
}

static void check_rows(enum what what)
{
    static const char *const kernels[N_WHAT] = { "stage_of_rows", "norm_of_rows", "elementwise" };
    static const uint32_t widths[] = { 32, 64, 80, 96, 256, 576, 2048, 4160, 9000 };
    struct stage_case *c = &on.c;
    *c = (struct stage_case){ .cols = random_below(5) ? widths[random_below(9)] : random_in(1, 500), .threads = 64u << random_below(3),
                              .norm = what == NORMED || (what == STAGED && random_below(2)), .bf16 = random_below(2),
                              .what = random_below(STAGE_WHATS), .eps = 1e-5f };
    on.n_tokens = random_in(1, 5);
    c->x_stride = (c->cols * 4 + 15) / 16 * 16 + 16 * random_below(3);
    c->out_stride = (c->cols + 63) / 64 * (what != STAGED ? 256 : 128) + 16 * random_below(3);
    const bool weighted = what == ELEMENTWISE || random_below(4), large = what == STAGED && random_below(4) == 0;
    const struct forge_gpu_step step = { .n_tokens = on.n_tokens, .n_logits = random_in(1, on.n_tokens) };
    const uint32_t first = random_below(2);
    on.t0 = first ? on.n_tokens - step.n_logits : 0;
    case_is("%s, operation %u: %u columns, %u tokens from %u, %u threads, norm %u, weighted %d, bf16 %u", kernels[what], c->what, c->cols,
            on.n_tokens, on.t0, c->threads, c->norm, weighted, c->bf16);
    const struct room *x = rows_new("x", on.n_tokens, c->x_stride, large ? 1e5f : 4.0f), *y = rows_new("y", on.n_tokens, c->x_stride, 2.0f),
        *w = rows_new("weights", 1, (c->cols * 4 + 15) / 16 * 16, 2.0f);
    on.room = room_new("the case", sizeof *c);
    on.out = room_new("the output", (uint64_t)(on.n_tokens + 1) * c->out_stride);
    c->x = x->at, c->y = y->at, c->weight = weighted ? w->at : NULL, c->out = on.out->at;
    launch(kernels[what], &step, first, 1, ACTS_SCRATCH_BYTES);
    float *want = malloc(c->cols * sizeof *want);
    bool ok = untouched(what == STAGED ? (c->cols + 63) / 64 * 128 : c->cols * 4);
    for (uint32_t t = on.t0; t < on.n_tokens && ok; t++) {
        expected(want, what, row_of(x, t), row_of(y, t), weighted ? room_floats(w) : NULL);
        ok = compare_row(t, want, what);
    }
    free(want);
    rooms_free();
}

static void check_embed(const struct format *f)
{
    const uint32_t grain = f->coding ? f->block_weights : 4, rows = random_in(1, 20);
    struct stage_case *c = &on.c;
    *c = (struct stage_case){ .cols = grain * random_in(1, 2048 / grain), .threads = 64u << random_below(3) };
    on.n_tokens = random_in(1, 4);
    on.t0 = 0;
    c->out_stride = (c->cols * 4 + 15) / 16 * 16 + 16 * random_below(3);
    case_is("embedding rows of %s: %u of %u columns, %u tokens, %u threads", f->name, rows, c->cols, on.n_tokens, c->threads);
    struct room *tokens = room_new("tokens", sizeof(int32_t[4]));
    for (uint32_t i = 0; i < 4; i++) ((int32_t *)(void *)tokens->bytes)[i] = (int32_t)random_below(rows);
    struct matrix table = matrix_new(f, LAYOUT_GPU, rows, c->cols, random_below(2) ? NUMBERS_F16 : NUMBERS_NEAR_ONE, CODES_RANDOM);
    on.room = room_new("the case", sizeof *c);
    on.out = room_new("the output", (uint64_t)on.n_tokens * c->out_stride);
    c->table = table.packed->at, c->tokens = tokens->at, c->out = on.out->at;
    const struct forge_gpu_step step = { .n_tokens = on.n_tokens };
    char kernel[32];
    snprintf(kernel, sizeof kernel, "embed_%s_rows", f->file);
    launch(kernel, &step, 0, EMBED_GROUPS(c->cols, WAVE, c->threads), 0);
    bool ok = untouched(c->cols * 4);
    for (uint32_t t = 0; t < on.n_tokens && ok; t++) {
        const uint64_t at = (uint64_t)((const int32_t *)(const void *)tokens->bytes)[t] * c->cols;
        const float *got = (const float *)(const void *)(on.out->bytes + (uint64_t)t * c->out_stride);
        for (uint32_t k = 0; k < c->cols && ok; k++)             /* a difference may be rounded in other places */
            ok = close_to("weight", at + k, (double)got[k], (double)table.weights[at + k],
                          f->coding ? 0x1p-22 * (double)table.sizes[at + k] + 0x1p-122 : 0.0);
    }
    matrix_free(&table);
    rooms_free();
}

void test_stage(void)
{
    for (uint32_t i = 0; i < rounds(240); i++)
        if (case_begin()) check_rows((enum what)(i % N_WHAT));
    for (uint32_t i = 0; i < rounds(10); i++)
        for (uint32_t f = 0; f < FORMAT_COUNT; f++)
            if (format_wanted(format_table[f].file) && case_begin()) check_embed(&format_table[f]);
}
