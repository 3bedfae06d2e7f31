/* sequence.c -- compares convolutions and recurrences over several steps, norms of heads and layer norms, rotations of any columns, and
 * functions of single values (templates/gpu/sequence.h, functions.h) with the oracles of templates/ref. */
#include "machine.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/slices_sizes.h"
#include "templates/ref/ops.h"
#include "cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_AT = 64 };
static struct { struct sequence_case c; struct room *room, *step, *state, *in[5], *weight, *y, *calls; } on;

/* Rows of n floats, stride apart. */
static struct room *rows_new(const char *name, uint32_t rows, uint32_t n, uint32_t stride, float size)
{
    struct room *r = room_new(name, ((uint64_t)(rows - 1) * stride + n) * 4);
    for (uint32_t t = 0; t < rows; t++) random_row(room_floats(r) + (uint64_t)t * stride, n, size);
    return r;
}
static void outputs_new(uint64_t n)
{
    on.room = room_new("the case", sizeof on.c), on.step = room_new("the step", sizeof(struct forge_gpu_step));
    on.y = room_new("the output", n * 4), on.calls = room_new("stores", n * 4);
    memset(on.calls->bytes, 0, n * 4);
    on.c.y = on.y->at, on.c.calls = on.calls->at;
}
static void launch(const char *kernel, uint32_t past, uint32_t n, uint32_t grid_x, uint32_t grid_y, uint32_t lds_bytes)
{
    const struct forge_gpu_step step = { .n_past = past, .n_tokens = n, .n_logits = 1 };
    memcpy(on.step->bytes, &step, sizeof step);
    memcpy(on.room->bytes, &on.c, sizeof on.c);
    const struct forge_kernel_args args = { .weights = on.room->at, .step = on.step->at, .state = on.state ? on.state->at : NULL,
                                            .state_at = STATE_AT };
    machine_launch(&(struct launch){ kernel, grid_x, grid_y, on.c.threads, lds_bytes, 0 }, &args);
}
/* Steps of `all` tokens: the first rows of a step. */
static uint32_t draw_tokens(uint32_t past, uint32_t all, uint32_t few, uint32_t many)
{
    const uint32_t n = random_in(1, random_below(2) ? few : many);
    return n < all - past ? n : all - past;
}
static bool same(const char *what, uint64_t i, double got, double want, double size)
{
    return close_to(what, i, got, want, 3e-6 * (size + fabs(want)));
}
static bool stored_once(uint64_t n)
{
    const uint32_t *calls = (const uint32_t *)(const void *)on.calls->bytes;
    for (uint64_t i = 0; i < n; i++)
        if (calls[i] != 1) return bad("value %llu is stored %u times", (unsigned long long)i, calls[i]);
    return true;
}

/* ---- convolutions ---- */
static void check_conv(void)
{
    enum { ALL = 200 };
    struct sequence_case *c = &on.c;
    c->cols = c->y_cols = random_in(1, 150), c->taps = random_in(2, 6), c->tap_stride = (c->cols + 15) / 16 * 16, c->threads = 64;
    c->stride[0] = c->cols + random_below(21);
    case_is("convolution of %u columns, %u taps", c->cols, c->taps);
    const struct room *x = rows_new("x", ALL, c->cols, c->stride[0], 2), *taps = rows_new("taps", c->taps, c->cols, c->tap_stride, 1);
    on.state = room_new("the state", STATE_AT + (uint64_t)(c->taps - 1) * c->cols * 4);
    outputs_new((uint64_t)ALL * c->cols);
    c->weight = taps->at;
    for (uint32_t past = 0, n; past < ALL; past += n) {
        n = draw_tokens(past, ALL, 3, 130);
        const uint32_t groups = (c->cols + c->threads - 1) / c->threads;
        c->in[0] = (const float *)x->at + (uint64_t)past * c->stride[0];
        c->y = (float *)on.y->at + (uint64_t)past * c->cols, c->calls = (uint32_t *)on.calls->at + (uint64_t)past * c->cols;
        c->keep = n == 1;
        launch("convolution", past, n, groups, (n + CONV_TOKENS - 1) / CONV_TOKENS, 0);
        if (!c->keep) launch("convolution_keep", past, n, groups, 1, 0);
    }
    bool ok = stored_once((uint64_t)ALL * c->cols);
    for (uint32_t i = 0; i < ALL * c->cols && ok; i++) {
        const uint32_t t = i / c->cols, k = i % c->cols;
        float w[8], earlier[8];
        for (uint32_t j = 0; j < c->taps; j++) w[j] = room_floats(taps)[j * c->tap_stride + k];
        for (uint32_t j = 0; j + 1 < c->taps; j++)
            earlier[j] = t + j + 1 >= c->taps ? room_floats(x)[(t + j + 1 - c->taps) * c->stride[0] + k] : 0;
        ok = same("conv", i, (double)room_floats(on.y)[i], (double)conv_ref(w, c->taps, earlier, room_floats(x)[t * c->stride[0] + k]), 4);
    }
    rooms_free();
}

/* ---- recurrences ---- */
enum { RECUR_ALL = 40 };
/* want: [RECUR_ALL][y_cols] */
static void recur_expected(float *want)
{
    const struct sequence_case *c = &on.c;
    double *S = calloc((size_t)c->head_dim * c->value_dim, sizeof *S);
    for (uint32_t h = 0; h < c->heads; h++) {
        const uint32_t other = c->modulo ? h % c->qk_heads : h / (c->heads / c->qk_heads);
        memset(S, 0, sizeof *S * c->head_dim * c->value_dim);
        for (uint32_t t = 0; t < RECUR_ALL; t++) {
            const float *row[5];
            for (uint32_t i = 0; i < 5; i++) row[i] = room_floats(on.in[i]) + (uint64_t)t * c->stride[i];
            recur_ref(want + (uint64_t)t * c->y_cols + h * c->value_dim, S, row[0] + other * c->head_dim, row[1] + other * c->head_dim,
                      row[2] + h * c->value_dim, row[3] + (c->by_row ? h * c->head_dim : h), c->by_row, (double)row[4][h], c->delta,
                      c->head_dim, c->value_dim);
        }
    }
    free(S);
}
static void check_recur(void)
{
    static const uint32_t dims[] = { 4, 8, 12, 16, 24, 64, 128, 256 }, value_dims[] = { 4, 16, 20, 64 };
    struct sequence_case *c = &on.c;
    c->head_dim = dims[random_below(8)], c->value_dim = value_dims[random_below(4)], c->qk_heads = random_in(1, 3);
    c->heads = c->qk_heads * random_in(1, 2), c->delta = random_below(2), c->modulo = random_below(2), c->by_row = random_below(3) == 0;
    c->threads = 64u << random_below(2), c->y_cols = c->heads * c->value_dim;
    case_is("recurrence of %u heads of %u x %u, %u of q and k, delta %u, modulo %u, by row %u, %u threads", c->heads, c->head_dim,
            c->value_dim, c->qk_heads, c->delta, c->modulo, c->by_row, c->threads);
    const uint32_t sizes[5] = { c->qk_heads * c->head_dim, c->qk_heads * c->head_dim, c->y_cols, c->heads * (c->by_row ? c->head_dim : 1),
                                c->heads };
    static const char *const names[5] = { "q", "k", "v", "decays", "betas" };
    for (uint32_t i = 0; i < 5; i++) {
        c->stride[i] = (sizes[i] + 3) / 4 * 4 + 4 * random_below(6);
        on.in[i] = rows_new(names[i], RECUR_ALL, sizes[i], c->stride[i], i < 2 ? 1 / sqrtf((float)c->head_dim) : 1);
        for (uint64_t k = 0; i >= 3 && k < on.in[i]->size / 4; k++) {
            float *x = room_floats(on.in[i]) + k;
            *x = i == 3 ? -fabsf(*x) * 0.5f : fabsf(*x);
        }
    }
    on.state = room_new("the state", STATE_AT + 4ull * c->heads * c->head_dim * c->value_dim);
    const uint64_t n_y = (uint64_t)RECUR_ALL * c->y_cols;
    outputs_new(n_y);
    for (uint32_t past = 0, n; past < RECUR_ALL; past += n) {
        n = draw_tokens(past, RECUR_ALL, 1, 20);
        for (uint32_t i = 0; i < 5; i++) c->in[i] = (const float *)on.in[i]->at + (uint64_t)past * c->stride[i];
        c->y = (float *)on.y->at + (uint64_t)past * c->y_cols, c->calls = (uint32_t *)on.calls->at + (uint64_t)past * c->y_cols;
        launch("recurrence", past, n, RECUR_GROUPS(c->heads, c->head_dim, c->value_dim, c->threads), 1, 0);
    }
    float *want = calloc(n_y, sizeof *want);
    recur_expected(want);
    bool ok = stored_once(n_y);
    for (uint64_t i = 0; i < n_y && ok; i++) ok = same("recur", i, (double)room_floats(on.y)[i], (double)want[i], 4);
    free(want);
    rooms_free();
}

/* ---- norms and rotations ---- */
static void check_heads(void)
{
    struct sequence_case *c = &on.c;
    c->heads = random_in(1, 4), c->head_dim = random_below(2) ? random_in(1, 300) : 64 * random_in(1, 16), c->whole = random_below(2);
    c->how = random_below(3), c->eps = random_below(2) ? 1e-6f : 0.3f, c->threads = 64u << random_below(3);
    c->y_cols = c->cols = c->heads * c->head_dim;
    const bool weighted = random_below(3) > 0;
    case_is("norms of %u heads of %u, whole %u, how %u, weighted %d, eps %g, %u threads", c->heads, c->head_dim, c->whole, c->how,
            weighted, (double)c->eps, c->threads);
    const struct room *x = rows_new("x", 1, c->cols, c->cols, random_below(6) ? 2 : 0), *w = rows_new("weights", 1, c->cols, c->cols, 1);
    outputs_new(c->cols);
    c->in[0] = x->at, c->weight = weighted ? w->at : NULL;
    launch("norm_of_heads", 0, 1, 1, 1, 0);
    float want[1100];
    bool ok = stored_once(c->cols);
    for (uint32_t i = 0; i < c->cols && ok; i++) {
        const uint32_t h = i / c->head_dim, d = i % c->head_dim;
        const float *row = room_floats(x) + h * c->head_dim, *of = weighted ? room_floats(w) + (c->whole ? h * c->head_dim : 0) : NULL;
        if (d == 0 && c->how == HEADS_UNIT) l2norm_ref(want, row, c->head_dim, (double)c->eps);
        if (d == 0 && c->how == HEADS_RMS) rmsnorm_ref(want, row, of, c->head_dim, (double)c->eps);
        if (d == 0 && c->how == HEADS_CENTERED) layernorm_ref(want, row, of, NULL, c->head_dim, (double)c->eps);
        ok = same("heads", i, (double)room_floats(on.y)[i], (double)want[d] * (c->how == HEADS_UNIT && of ? (double)of[d] : 1), 0.5);
    }
    rooms_free();
}

static void check_layernorm(void)
{
    static const char *const kernels[] = { "layernorm", "layernorm_staged", "layernorm_in_lds" };
    struct sequence_case *c = &on.c;
    c->cols = random_below(2) ? random_in(2, 600) : 256 * random_in(1, 40), c->threads = 64u << random_below(3), c->eps = 1e-5f;
    c->bf16 = random_below(2);
    const uint32_t padded = (c->cols + 63) / 64 * 64, kind = random_below(3);
    const bool weighted = random_below(2);
    case_is("%s of %u columns, weighted %d, bf16 %u, %u threads", kernels[kind], c->cols, weighted, c->bf16, c->threads);
    struct room *x = rows_new("x", 1, c->cols, c->cols, 2), *w = rows_new("weights", 1, c->cols, c->cols, 1),
        *out = room_new("16-bit output", padded * 2);
    for (uint32_t i = 0; i < c->cols; i++) room_floats(x)[i] += 3;
    outputs_new(c->cols);
    c->in[0] = x->at, c->weight = weighted ? w->at : NULL, c->out16 = out->at;
    launch(kernels[kind], 0, 1, 1, 1, kind == 2 ? FLOATS_BYTES(c->cols) : ACTS_SCRATCH_BYTES);
    float *want = malloc(sizeof *want * c->cols);
    layernorm_ref(want, room_floats(x), weighted ? room_floats(w) : NULL, NULL, c->cols, (double)c->eps);
    bool ok = !*(const uint32_t *)(const void *)on.calls->bytes || bad("padding that is not 0");
    for (uint32_t i = 0; i < (kind == 1 ? padded : c->cols) && ok; i++) {
        const uint32_t bits = ((const uint16_t *)(const void *)out->bytes)[kind == 1 ? i : 0];
        const double v = i < c->cols ? (double)want[i] : 0;
        const double got = kind != 1 ? (double)room_floats(on.y)[i] : c->bf16 ? (double)f32_of_bf16_bits(bits)
            : 64.0 * (double)f32_of_f16_bits(bits);
        const double rounded = kind != 1 || i >= c->cols ? 0 : (c->bf16 ? 0x1p-8 : 0x1p-11) * fabs(v) + 0x1p-18;
        ok = close_to("value", i, got, v, 1e-5 * (i < c->cols) + rounded);
    }
    free(want);
    rooms_free();
}

static void check_rotation(void)
{
    enum { BLOCK = 16, MOST = 200, BLOCKS = MOST / BLOCK + 1 };
    struct sequence_case *c = &on.c;
    c->head_dim = random_in(2, 300), c->heads = random_in(1, 3), c->n_rot = 2 * random_in(1, c->head_dim / 2);
    c->first = random_in(0, c->head_dim - c->n_rot), c->neox = random_below(2), c->block = BLOCK, c->position = random_in(0, MOST);
    c->cols = c->heads * c->head_dim, c->threads = 64;
    case_is("%u of %u dimensions from %u of %u heads rotated, neox %u, position %u", c->n_rot, c->head_dim, c->first, c->heads, c->neox,
            c->position);
    const struct rope_ref r = { .n_rot = c->n_rot, .neox = c->neox, .freq_base = 10000, .freq_scale = 1, .attn_factor = 1 };
    struct room *x = rows_new("x", 1, c->cols, c->cols, 1), *hi = room_new("rotations of blocks", BLOCKS * c->n_rot * 4),
        *lo = room_new("rotations within a block", BLOCK * c->n_rot * 4);
    for (uint32_t table = 0; table < 2; table++)
        for (uint32_t k = 0; k < (table ? (uint32_t)BLOCK : (uint32_t)BLOCKS); k++)
            for (uint32_t i = 0; i < c->n_rot / 2; i++) {
                double cosine, sine;
                rope_pair_ref(&cosine, &sine, &r, i, table ? k : BLOCK * k);
                float *pair = room_floats(table ? lo : hi) + k * c->n_rot + 2 * i;
                pair[0] = (float)cosine, pair[1] = (float)sine;
            }
    outputs_new(c->cols);
    c->in[0] = x->at, c->hi = hi->at, c->lo = lo->at;
    launch("rotations", 0, 1, (c->cols + 63) / 64, 1, 0);
    float *want = malloc(sizeof *want * c->cols);
    memcpy(want, x->bytes, sizeof *want * c->cols);
    for (uint32_t h = 0; h < c->heads; h++) rope_ref(want + h * c->head_dim + c->first, &r, c->position);
    for (uint32_t i = 0; i < c->cols; i++) if (!same("rotation", i, (double)room_floats(on.y)[i], (double)want[i], 1)) break;
    free(want);
    rooms_free();
}

/* ---- functions of values ---- */
static void check_functions(void)
{
    static const char *const names[SEQUENCE_FUNCTIONS] = { "sigmoid", "softplus", "relu_sqr", "silu", "gelu", "softcap", "glu_oai",
                                                           "temperature", "gelu_erf" };
    struct sequence_case *c = &on.c;
    c->cols = 2000, c->threads = 64;
    case_is("functions of values");
    struct room *x = room_new("x", c->cols * 4), *u = rows_new("u", 1, c->cols, c->cols, 9);
    for (uint32_t i = 0; i < c->cols; i++) room_floats(x)[i] = random_f32() * (i % 3 ? 8 : i % 2 ? 0.05f : 30);
    outputs_new((uint64_t)c->cols * SEQUENCE_FUNCTIONS);
    c->in[0] = x->at, c->in[1] = u->at;
    launch("functions", 0, 1, (c->cols + 63) / 64, 1, 0);
    for (uint32_t i = 0; i < c->cols; i++) {
        const float xi = room_floats(x)[i], ui = room_floats(u)[i], cap = 0.5f + fabsf(ui) * 30;
        float glu;
        glu_oai_ref(&glu, &xi, &ui, 1.702, 7, 1);
        const double v = (double)xi, want[SEQUENCE_FUNCTIONS] = {
            sigmoid_ref(v), softplus_ref(v), relu_sqr_ref(v), silu_ref(v), gelu_ref(v), (double)cap * tanh(v / (double)cap), (double)glu,
            1 + 0.1 * log(1 + floor(floor((double)fabsf(xi * 1000)) / 128)), gelu_erf_ref(v) };
        for (uint32_t k = 0; k < SEQUENCE_FUNCTIONS; k++)                    /* 1 + tanh cancels where gelu is small */
            if (!close_to(names[k], i, (double)room_floats(on.y)[i * SEQUENCE_FUNCTIONS + k], want[k],
                          4e-6 * fabs(want[k]) + (k == 4 || k == 8 ? 1e-11 : 1e-30))) { rooms_free(); return; }
    }
    rooms_free();
}

void test_sequence(void)
{
    static void (*const checks[])(void) = { check_conv, check_recur, check_heads, check_layernorm, check_rotation, check_functions };
    static const uint32_t times[] = { 12, 30, 40, 40, 40, 1 };
    for (uint32_t i = 0; i < sizeof times / sizeof *times; i++)
        for (uint32_t k = 0; k < rounds(times[i]); k++) {
            if (!case_begin()) continue;
            memset(&on, 0, sizeof on);
            checks[i]();
        }
}
