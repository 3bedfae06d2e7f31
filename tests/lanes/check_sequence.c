/* check_sequence.c -- convolutions and recurrences over several steps, norms of heads and layer norms, rotations of any columns, and functions of single
 * values (templates/gpu/sequence.h, functions.h) against the scalar formulas.  Inputs end at an inaccessible page, outputs are written once.
 * tests/lanes/run_check.sh clang-19 sequence     (and with -DFAMILY=FAMILY_CDNA3) */
#include <math.h>
#include "check.h"
#include "templates/ref/ops.h"
#include "templates/gpu/sequence.h"
#include "templates/gpu/functions.h"

/* The case under test; kernels read it as they would read constants. */
static struct {
    uint32_t cols, taps, tap_stride, keep, threads, n_tokens, stride[5], y_cols;
    uint32_t heads, qk_heads, head_dim, value_dim, delta, modulo, by_row;
    uint32_t whole, unit, bf16, digits, n_rot, neox, first, block;
    float    eps;
    const float *in[5], *weight, *hi, *lo;
    float   *y;
    uint8_t *calls, *out16;
} c;

static bool fail(const char *what, uint32_t at, double got, double want)
{
    printf("%s: %u cols, %u taps, %u threads, %u tokens, heads %u/%u of %u and %u, delta %u, modulo %u, by row %u, whole %u, unit %u, weight %u, rot %u from %u: "
           "[%u] is %.9g, not %.9g\n", what, c.cols, c.taps, c.threads, c.n_tokens, c.heads, c.qk_heads, c.head_dim, c.value_dim, c.delta, c.modulo, c.by_row, c.whole,
           c.unit, c.weight != NULL, c.n_rot, c.first, at, got, want);
    return false;
}
static void sink(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    (void)a;
    c.y[(uint64_t)t * c.y_cols + r] = y;
    c.calls[(uint64_t)t * c.y_cols + r]++;
}
static bool near(double got, double want, double size) { return fabs(got - want) <= 3e-6 * (size + fabs(want)); }

/* Rows of n floats, stride apart. */
static struct room rows_new(uint32_t rows, uint32_t n, uint32_t stride, float size)
{
    struct room r = room_new(((uint64_t)(rows - 1) * stride + n) * 4 / 16 * 16 + 16);
    for (uint32_t t = 0; t < rows; t++) for (uint32_t k = 0; k < n; k++) ((float *)(void *)r.bytes)[(uint64_t)t * stride + k] = random_f32() * size;
    return r;
}
static float *floats_of(const struct room *r) { return (float *)(void *)r->bytes; }

/* ---- convolutions ---- */

static void kernel_conv(const struct forge_kernel_args a) { conv_rows(a, c.in[0], c.stride[0], c.weight, c.tap_stride, c.cols, c.taps, c.keep, c.threads, sink); }
static void kernel_keep(const struct forge_kernel_args a) { conv_keep(a, c.in[0], c.stride[0], c.cols, c.taps, c.threads); }

static bool check_conv(void)
{
    enum { ALL = 200 };
    c.cols = random_in(1, 150), c.taps = random_in(2, 6), c.tap_stride = (c.cols + 15) / 16 * 16, c.threads = 64, c.y_cols = c.cols;
    c.stride[0] = c.cols + random_in(0, 20);
    struct room x = rows_new(ALL, c.cols, c.stride[0], 2), taps = rows_new(c.taps, c.cols, c.tap_stride, 1), state = room_new((uint64_t)(c.taps - 1) * c.cols * 4 + 64);
    float *y = calloc((size_t)ALL * c.cols, sizeof *y), w[16], earlier[16];
    uint8_t *calls = calloc((size_t)ALL * c.cols, 1);
    bool ok = true;
    uint32_t past = 0;
    for (uint32_t n; past < ALL && ok; past += n) {
        n = random_in(0, 2) ? random_in(1, 3) : random_in(1, 130);
        n = n < ALL - past ? n : ALL - past;
        struct forge_gpu_step step = { .n_past = past, .n_tokens = n, .n_logits = 1 };
        const struct forge_kernel_args args = { .step = &step, .state = state.bytes, .state_at = 64 };
        const uint32_t groups = (c.cols + c.threads - 1) / c.threads;
        c.in[0] = floats_of(&x) + (uint64_t)past * c.stride[0], c.weight = floats_of(&taps), c.y = y + (uint64_t)past * c.cols, c.calls = calls + (uint64_t)past * c.cols;
        c.keep = n == 1, c.n_tokens = n;
        simt_launch(kernel_conv, &args, groups, (n + CONV_TOKENS - 1) / CONV_TOKENS, c.threads, WAVE, 0, n_cases++);
        if (!c.keep) simt_launch(kernel_keep, &args, groups, 1, c.threads, WAVE, 0, n_cases);
    }
    for (uint32_t i = 0; i < ALL * c.cols && ok; i++) {
        const uint32_t t = i / c.cols, k = i % c.cols;
        for (uint32_t j = 0; j < c.taps; j++) w[j] = floats_of(&taps)[j * c.tap_stride + k];
        for (uint32_t j = 0; j + 1 < c.taps; j++) earlier[j] = t + j + 1 >= c.taps ? floats_of(&x)[(t + j + 1 - c.taps) * c.stride[0] + k] : 0;
        const double want = (double)conv_ref(w, c.taps, earlier, floats_of(&x)[t * c.stride[0] + k]);
        if (calls[i] != 1) ok = fail("conv, stored", i, calls[i], 1);
        else if (!near((double)y[i], want, 4)) ok = fail("conv", i, (double)y[i], want);
    }
    room_free(&x), room_free(&taps), room_free(&state);
    free(y), free(calls);
    return ok;
}

/* ---- recurrences ---- */

static void kernel_recur(const struct forge_kernel_args a)
{
    const struct recur r = { c.heads, c.qk_heads, c.head_dim, c.value_dim, c.delta, c.modulo, c.by_row, c.stride[0], c.stride[1], c.stride[2], c.stride[3], c.stride[4] };
    recur_rows(a, c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], r, c.threads, sink);
}

static bool check_recur(void)
{
    enum { ALL = 40 };
    static const uint32_t dims[] = { 4, 8, 12, 16, 24, 64, 128, 256 }, value_dims[] = { 4, 16, 20, 64 };
    c.head_dim = dims[random_in(0, 7)], c.value_dim = value_dims[random_in(0, 3)], c.qk_heads = random_in(1, 3), c.heads = c.qk_heads * random_in(1, 2);
    c.delta = random_in(0, 1), c.modulo = random_in(0, 1), c.by_row = random_in(0, 2) == 0, c.threads = 64u << random_in(0, 1), c.y_cols = c.heads * c.value_dim;
    const uint32_t sizes[5] = { c.qk_heads * c.head_dim, c.qk_heads * c.head_dim, c.y_cols, c.heads * (c.by_row ? c.head_dim : 1), c.heads };
    struct room in[5], state = room_new(64 + 4ull * c.heads * c.head_dim * c.value_dim);
    for (uint32_t i = 0; i < 5; i++) {
        c.stride[i] = (sizes[i] + 3) / 4 * 4 + 4 * random_in(0, 5);
        in[i] = rows_new(ALL, sizes[i], c.stride[i], i < 2 ? 1 / sqrtf((float)c.head_dim) : 1);
        for (uint64_t k = 0; i == 3 && k < (uint64_t)ALL * c.stride[3] - (c.stride[3] - sizes[3]); k++) floats_of(&in[3])[k] = -fabsf(random_f32()) * 0.5f;
        for (uint64_t k = 0; i == 4 && k < (uint64_t)ALL * c.stride[4] - (c.stride[4] - sizes[4]); k++) floats_of(&in[4])[k] = fabsf(random_f32());
    }
    float *y = calloc((size_t)ALL * c.y_cols, sizeof *y), *want = calloc((size_t)ALL * c.y_cols, sizeof *want);
    uint8_t *calls = calloc((size_t)ALL * c.y_cols, 1);
    double *S = malloc(sizeof *S * c.head_dim * c.value_dim);
    for (uint32_t h = 0; h < c.heads; h++) {
        const uint32_t other = c.modulo ? h % c.qk_heads : h / (c.heads / c.qk_heads);
        memset(S, 0, sizeof *S * c.head_dim * c.value_dim);
        for (uint32_t t = 0; t < ALL; t++)
            recur_ref(want + t * c.y_cols + h * c.value_dim, S, floats_of(&in[0]) + t * c.stride[0] + other * c.head_dim,
                      floats_of(&in[1]) + t * c.stride[1] + other * c.head_dim, floats_of(&in[2]) + t * c.stride[2] + h * c.value_dim,
                      floats_of(&in[3]) + t * c.stride[3] + (c.by_row ? h * c.head_dim : h), c.by_row, (double)floats_of(&in[4])[t * c.stride[4] + h], c.delta, c.head_dim,
                      c.value_dim);
    }
    bool ok = true;
    for (uint32_t past = 0, n; past < ALL; past += n) {
        n = random_in(0, 1) ? 1 : random_in(1, 20);
        n = n < ALL - past ? n : ALL - past;
        struct forge_gpu_step step = { .n_past = past, .n_tokens = n, .n_logits = 1 };
        const struct forge_kernel_args args = { .step = &step, .state = state.bytes, .state_at = 64 };
        for (uint32_t i = 0; i < 5; i++) c.in[i] = floats_of(&in[i]) + (uint64_t)past * c.stride[i];
        c.y = y + (uint64_t)past * c.y_cols, c.calls = calls + (uint64_t)past * c.y_cols, c.n_tokens = n;
        simt_launch(kernel_recur, &args, RECUR_GROUPS(c.heads, c.head_dim, c.value_dim, c.threads), 1, c.threads, WAVE, 0, n_cases++);
    }
    for (uint32_t i = 0; i < ALL * c.y_cols && ok; i++) {
        if (calls[i] != 1) ok = fail("recur, stored", i, calls[i], 1);
        else if (!near((double)y[i], (double)want[i], 4)) ok = fail("recur", i, (double)y[i], (double)want[i]);
    }
    for (uint32_t i = 0; i < 5; i++) room_free(&in[i]);
    room_free(&state);
    free(y), free(want), free(calls), free(S);
    return ok;
}

/* ---- norms and rotations ---- */

static void kernel_heads(const struct forge_kernel_args a) { heads_normed(a, 0, c.in[0], c.weight, c.whole, c.unit, c.eps, c.head_dim, c.threads, sink); }
static void kernel_layernorm(const struct forge_kernel_args a) { (void)a; layernorm_row(c.y, c.in[0], c.weight, c.cols, c.eps, c.threads); }
static void kernel_stage(const struct forge_kernel_args a) { (void)a; stage_layernorm(c.out16, c.in[0], c.weight, c.cols, c.eps, c.bf16, c.threads); }
static void kernel_to_lds(const struct forge_kernel_args a)
{
    (void)a;
    layernorm_to_lds(lds(), c.in[0], c.weight, c.cols, c.eps, 0, 0, c.threads);
    for (uint32_t p = thread_x(); p < 16 * ACTS_UNITS(c.cols); p += c.threads) {
        f32x4 x[1];
        floats_load4(x, lds(), p, c.cols);
        for (uint32_t i = 0; i < 4; i++) {
            if (4 * p + i < c.cols) c.y[4 * p + i] = x[0][i];
            else if (x[0][i] != 0) c.calls[0] = 1;
        }
    }
}

static bool check_heads(void)
{
    float want[1100];
    c.heads = random_in(1, 4), c.head_dim = random_in(0, 1) ? random_in(1, 300) : 64 * random_in(1, 16), c.whole = random_in(0, 1), c.unit = random_in(0, 1);
    c.eps = random_in(0, 1) ? 1e-6f : 0.3f, c.threads = 64u << random_in(0, 2), c.y_cols = c.cols = c.heads * c.head_dim;
    struct room x = rows_new(1, c.cols, c.cols, random_in(0, 5) ? 2 : 0), w = rows_new(1, c.cols, c.cols, 1);
    float *y = calloc(c.cols, sizeof *y);
    uint8_t *calls = calloc(c.cols, 1);
    c.in[0] = floats_of(&x), c.weight = random_in(0, 2) ? floats_of(&w) : NULL, c.y = y, c.calls = calls;
    const struct forge_kernel_args args = { 0 };
    simt_launch(kernel_heads, &args, c.heads, 1, c.threads, WAVE, ACTS_SCRATCH_BYTES, n_cases++);
    bool ok = true;
    for (uint32_t h = 0; h < c.heads; h++) {
        const float *of = c.weight ? c.weight + (c.whole ? h * c.head_dim : 0) : NULL;
        if (c.unit) l2norm_ref(want, c.in[0] + h * c.head_dim, c.head_dim, (double)c.eps);
        else rmsnorm_ref(want, c.in[0] + h * c.head_dim, of, c.head_dim, (double)c.eps);
        for (uint32_t i = 0; i < c.head_dim && ok; i++) {
            const double v = (double)want[i] * (c.unit && of ? (double)of[i] : 1), got = (double)y[h * c.head_dim + i];
            if (calls[h * c.head_dim + i] != 1) ok = fail("heads, stored", i, calls[h * c.head_dim + i], 1);
            else if (!near(got, v, 0.5)) ok = fail("heads", h * c.head_dim + i, got, v);
        }
    }
    room_free(&x), room_free(&w);
    free(y), free(calls);
    return ok;
}

static bool check_layernorm(void)
{
    c.cols = random_in(0, 1) ? random_in(2, 600) : 256 * random_in(1, 40), c.threads = 64u << random_in(0, 2), c.eps = 1e-5f, c.bf16 = random_in(0, 1);
    const uint32_t padded = (c.cols + 63) / 64 * 64, kind = random_in(0, 2);
    struct room x = rows_new(1, c.cols, c.cols, 2), w = rows_new(1, c.cols, c.cols, 1), y = room_new((c.cols * 4 + 15) / 16 * 16), out = room_new(padded * 2);
    float *want = malloc(sizeof *want * c.cols);
    uint8_t bad = 0;
    for (uint32_t i = 0; i < c.cols; i++) floats_of(&x)[i] += 3;
    c.in[0] = floats_of(&x), c.weight = random_in(0, 1) ? floats_of(&w) : NULL, c.y = floats_of(&y), c.out16 = out.bytes, c.calls = &bad;
    layernorm_ref(want, c.in[0], c.weight, NULL, c.cols, (double)c.eps);
    const struct forge_kernel_args args = { 0 };
    simt_launch(kind == 0 ? kernel_layernorm : kind == 1 ? kernel_stage : kernel_to_lds, &args, 1, 1, c.threads, WAVE, kind == 2 ? FLOATS_BYTES(c.cols) : ACTS_SCRATCH_BYTES,
                n_cases++);
    bool ok = !bad || fail("layernorm, padding", 0, 1, 0);
    for (uint32_t i = 0; i < (kind == 1 ? padded : c.cols) && ok; i++) {
        const uint32_t bits = kind == 1 ? ((const uint16_t *)(const void *)out.bytes)[i] : 0;
        const double v = i < c.cols ? (double)want[i] : 0;
        const double got = kind != 1 ? (double)c.y[i] : c.bf16 ? (double)f32_of_bf16_bits(bits) : 64.0 * (double)f32_of_f16_bits(bits);
        const double rounded = kind != 1 || i >= c.cols ? 0 : (c.bf16 ? 0x1p-8 : 0x1p-11) * fabs(v) + 0x1p-18;
        if (!(fabs(got - v) <= 1e-5 * (i < c.cols) + rounded)) ok = fail("layernorm", i, got, v);
    }
    room_free(&x), room_free(&w), room_free(&y), room_free(&out);
    free(want);
    return ok;
}

static bool check_rotation(void)
{
    c.head_dim = random_in(2, 300), c.heads = random_in(1, 3), c.n_rot = 2 * random_in(1, c.head_dim / 2), c.first = random_in(0, c.head_dim - c.n_rot), c.neox = random_in(0, 1);
    c.block = 16;
    const uint32_t position = random_in(0, 200), n = c.heads * c.head_dim;
    const struct rope_ref r = { .n_rot = c.n_rot, .neox = c.neox, .freq_base = 10000, .freq_scale = 1, .attn_factor = 1 };
    struct room x = rows_new(1, n, n, 1), hi = room_new((200 / 16 + 1) * c.n_rot * 4ull), lo = room_new(16 * c.n_rot * 4ull);
    float *want = malloc(sizeof *want * n);
    for (uint32_t table = 0; table < 2; table++)
        for (uint32_t k = 0; k < (table ? 16u : 200 / 16 + 1); k++)
            for (uint32_t i = 0; i < c.n_rot / 2; i++) {
                double cosine, sine;
                rope_pair_ref(&cosine, &sine, &r, i, table ? k : 16 * k);
                float *row = floats_of(table ? &lo : &hi) + k * c.n_rot + 2 * i;
                row[0] = (float)cosine, row[1] = (float)sine;
            }
    memcpy(want, x.bytes, sizeof *want * n);
    for (uint32_t h = 0; h < c.heads; h++) rope_ref(want + h * c.head_dim + c.first, &r, position);
    bool ok = true;
    n_cases++;
    for (uint32_t i = 0; i < n && ok; i++) {
        const double got = (double)rotated_f32(floats_of(&x), i, floats_of(&hi), floats_of(&lo), position, c.n_rot, c.neox, c.block, c.head_dim, c.first);
        if (!near(got, (double)want[i], 1)) ok = fail("rotation", i, got, (double)want[i]);
    }
    room_free(&x), room_free(&hi), room_free(&lo);
    free(want);
    return ok;
}

/* ---- values ---- */

static bool check_value(float x, float u)
{
    float want;
    const float cap = 0.5f + fabsf(u) * 30;
    const struct { const char *what; double got, want; } rows[] = {
        { "sigmoid", (double)sigmoid_f32(x), sigmoid_ref((double)x) }, { "softplus", (double)softplus_f32(x), softplus_ref((double)x) },
        { "relu_sqr", (double)relu_sqr_f32(x), relu_sqr_ref((double)x) }, { "silu", (double)silu_f32(x), silu_ref((double)x) },
        { "gelu", (double)gelu_f32(x), gelu_ref((double)x) }, { "softcap", (double)softcap_f32(x, cap), (double)cap * tanh((double)x / (double)cap) },
        { "glu_oai", (double)glu_oai_f32(x, u, 1.702f, 7), (glu_oai_ref(&want, &x, &u, 1.702, 7, 1), (double)want) },
        { "temperature", (double)temperature_f32((uint32_t)fabsf(x * 1000), 0.1f, 128), 1 + 0.1 * log(1 + floor(floor(fabs((double)(x * 1000))) / 128)) },
    };
    n_cases++;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(fabs(rows[i].got - rows[i].want) <= 4e-6 * fabs(rows[i].want) + (i == 4 ? 1e-11 : 1e-30))) {      /* 1 + tanh loses what gelu has */
            printf("%s of %.9g, %.9g is %.9g, not %.9g\n", rows[i].what, (double)x, (double)u, rows[i].got, rows[i].want);
            return false;
        }
    return true;
}

int main(void)
{
    bool ok = true;
    for (uint32_t i = 0; i < 12; i++) ok &= check_conv();
    for (uint32_t i = 0; i < 30; i++) ok &= check_recur();
    for (uint32_t i = 0; i < 40; i++) ok &= check_heads() && check_layernorm() && check_rotation();
    for (uint32_t i = 0; i < 2000; i++) ok &= check_value(random_f32() * (i % 3 ? 8 : i % 2 ? 0.05f : 30), random_f32() * 9);
    printf("check_sequence: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
