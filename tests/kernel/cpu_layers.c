/* cpu_layers.c -- compares the CPU's routers, experts, convolutions, recurrences and elementwise operations with the oracles of
 * templates/ref: random shapes, also with partial vectors at their ends. */
#include "cpu_ops.h"
#include "templates/cpu/experts_tmpl.c"
#include "templates/cpu/sequence_tmpl.c"
#include <stdlib.h>

enum { MOST = 200 };

/* ---- functions of values, in place ---- */
#define FUNCTION(name) static void call_##name(float *y, uint32_t n) { name(y, n); }
FUNCTION(silu)
FUNCTION(gelu)
FUNCTION(gelu_erf)
FUNCTION(sigmoid)
FUNCTION(softplus)
FUNCTION(relu_sqr)
static const struct function { const char *name; void (*f)(float *y, uint32_t n); double (*ref)(double x), floor; } functions[] = {
    { "silu", call_silu, silu_ref, 1e-6 }, { "gelu", call_gelu, gelu_ref, 1e-6 },
    { "gelu_erf", call_gelu_erf, gelu_erf_ref, 1e-6 }, { "sigmoid", call_sigmoid, sigmoid_ref, 1e-30 },
    { "softplus", call_softplus, softplus_ref, 1e-30 }, { "relu_sqr", call_relu_sqr, relu_sqr_ref, 1e-30 },
};
static void check_function(const struct function *f)
{
    const uint32_t n = 1 + random_below(70);
    case_is("%s of %u", f->name, n);
    float *y = random_row_new("y", n, random_below(3) ? 4 : 80), want[MOST];
    for (uint32_t i = 0; i < n; i++) want[i] = (float)f->ref((double)y[i]);
    f->f(y, n);
    same_row(f->name, y, want, n, f->floor, 2e-6);
}
static void check_functions(void)
{
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++) check_function(&functions[i]);
}

/* ---- rows ---- */
static void check_rows(void)
{
    const uint32_t n = 1 + random_below(70), each = 1 + random_below(9), first = random_below(40);
    case_is("rows of %u, runs of %u from %u", n, each, first);
    float *x = random_row_new("x", 2 * MOST, 12), *z = random_row_new("z", 2 * MOST, 12), *y = row_new("y", n), want[MOST];
    glu_oai_ref(want, x, z, 1.702, 7, n);
    glu_oai(y, x, z, 1.702f, 7, n);
    same_row("glu_oai", y, want, n, 1e-5, 2e-6);
    multiply(y, x, z, n);
    for (uint32_t i = 0; i < n; i++) want[i] = x[i] * z[i];
    same_row("multiply", y, want, n, 1e-30, 0);
    memcpy(y, x, n * sizeof *y);
    multiply_runs(y, z, first, each, n);
    for (uint32_t i = 0; i < n; i++) want[i] = x[i] * z[(first + i) / each];
    same_row("multiply_runs", y, want, n, 1e-30, 0);
    const float range = random_below(7) ? 1 : 0, eps = 1e-3f;          /* also a row of zeros */
    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * range;
    l2norm_ref(want, y, n, (double)eps);
    l2norm(y, n, eps);
    same_row("l2norm", y, want, n, 1e-7, 1e-6);
    for (uint32_t i = 0; i < n; i++) y[i] = x[i] + 20;
    layernorm_ref(want, y, z, NULL, n, (double)eps);
    layernorm(y, y, z, NULL, n, eps);
    same_row("layernorm", y, want, n, 12, 3e-6);
    take_parts(y, x, 2, each, each + 3, n);
    for (uint32_t i = 0; i < n; i++) want[i] = x[(2 + i / each) * (each + 3) + i % each];
    same_row("take_parts", y, want, n, 1e-30, 0);
    const uint32_t heads = n / (each + 2);
    if (heads) join_heads(y, x, z, 1, each, 2, heads * (each + 2));
    for (uint32_t i = 0; i < heads * (each + 2); i++) {
        const uint32_t head = 1 + i / (each + 2), at = i % (each + 2);
        want[i] = at < each ? x[head * each + at] : z[head * 2 + at - each];
    }
    same_row("join_heads", y, want, heads * (each + 2), 1e-30, 0);
    const uint32_t position = random_below(1u << 20), n_ctx = 1 + random_below(5000);
    const float t = temperature(position, 0.1f, n_ctx), t_ref = (float)(1 + (double)0.1f * log(1 + floor((double)position / n_ctx)));
    same_row("temperature", &t, &t_ref, 1, 1e-7, 3e-7);
}

/* ---- experts ---- */
static void check_route(void)
{
    const uint32_t n_sets = 1u << random_below(4), n_expert = n_sets * (2 + random_below(12)), sets_used = 1 + random_below(n_sets);
    const uint32_t most = n_expert / n_sets * sets_used, used = 1 + random_below(most < 8 ? most : 8), gating = 1 + random_below(3),
        norm = random_below(2);
    case_is("router: %u of %u experts, %u of %u sets, gating %u, norm %u", used, n_expert, sets_used, n_sets, gating, norm);
    float *logits = random_row_new("logits", n_expert, 4), *bias = random_row_new("biases", n_expert, 0.3f), space[3 * MOST],
        *choice = row_new("choice", 2 * used), want[16];
    uint8_t taken[MOST];
    const float *select = n_sets > 1 || random_below(2) ? bias : NULL;
    const struct route_ref r = { .n_expert = n_expert, .used = used, .gating = gating, .n_group = n_sets, .n_group_used = sets_used,
                                 .norm = norm, .by = 2.5, .select_bias = select };
    route_ref(want, &r, logits);
    route(choice, space, taken, logits, select, n_expert, used, gating, n_sets, sets_used, norm, 2.5f);
    same_row("expert", choice + used, want + used, used, 1, 0);
    same_row("share", choice, want, used, 1e-7, 3e-6);
    /* for any logits, the numbers must be valid experts, each at most once */
    for (uint32_t i = 0; i < n_expert; i++) if (random_below(2)) logits[i] = i % 2 ? NAN : INFINITY;
    route(choice, space, taken, logits, select, n_expert, used, gating, n_sets, sets_used, norm, 2.5f);
    for (uint32_t k = 0; k < used; k++) {
        if (!(choice[used + k] >= 0 && choice[used + k] < (float)n_expert)) bad("%g is no expert", (double)choice[used + k]);
        for (uint32_t i = 0; i < k; i++) if (choice[used + i] == choice[used + k]) bad("expert %g twice", (double)choice[used + k]);
    }
}

/* Every pair (token, expert) has a row; an expert's rows are contiguous and in the order of the tokens. */
static void check_order(void)
{
    enum { TOKENS = 20, USED = 3, EXPERTS = 7, PAIRS = TOKENS * USED };
    const uint32_t n = 1 + random_below(TOKENS), t0 = random_below(n + 1);
    float choices[TOKENS * 8];
    struct room *room = room_new("the order", sizeof(uint32_t[EXPERTS + 1 + 2 * PAIRS]));
    uint32_t *order = (uint32_t *)(void *)room->bytes;
    const uint32_t *pairs = order + EXPERTS + 1, *rows = pairs + PAIRS;
    case_is("order of %u tokens from %u", n, t0);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t k = 0; k < USED; k++) choices[8 * t + USED + k] = (float)((random_below(3) + 2 * k) % EXPERTS);
    expert_order(order, choices, 8, t0, n, EXPERTS, USED, PAIRS);
    if (order[0] != 0 || order[EXPERTS] != (n - t0) * USED) { bad("rows are lost"); return; }
    for (uint32_t t = t0; t < n; t++)
        for (uint32_t k = 0; k < USED; k++) {
            const uint32_t pair = t * USED + k, e = (uint32_t)choices[8 * t + USED + k], row = rows[pair];
            if (row < order[e] || row >= order[e + 1] || pairs[row] != pair) { bad("row %u is another expert's", row); return; }
            if (row != order[e] && pairs[row - 1] >= pair) { bad("tokens change places at row %u", row); return; }
        }
}

/* ---- sequences ---- */
static void check_conv(void)
{
    const uint32_t n = 1 + random_below(50), n_taps = 2 + random_below(5), cols = n + random_below(20), stride = cols + random_below(3);
    case_is("convolution of %u of %u columns, %u taps", n, cols, n_taps);
    float *taps = random_row_new("taps", n_taps * stride, 1), *earlier = row_new("the state", (n_taps - 1) * cols), x[6][MOST],
        *y = row_new("y", n), want[MOST], column[8], before[8];
    memset(earlier, 0, (n_taps - 1) * cols * sizeof *earlier);
    for (uint32_t t = 0; t < 6; t++) {
        random_row(x[t], n, 2);
        conv_step(y, x[t], earlier, taps, n_taps, cols, stride, n);
        for (uint32_t c = 0; c < n; c++) {
            for (uint32_t k = 0; k < n_taps; k++) column[k] = taps[k * stride + c];
            for (uint32_t k = 0; k + 1 < n_taps; k++) before[k] = t + k + 1 >= n_taps ? x[t + k + 1 - n_taps][c] : 0;
            want[c] = conv_ref(column, n_taps, before, x[t][c]);
        }
        same_row("conv_step", y, want, n, 1, 1e-6);
    }
    for (uint32_t k = 0; k + 1 < n_taps; k++)
        for (uint32_t c = n; c < cols; c++) if (earlier[k * cols + c] != 0) { bad("another column's state changes"); return; }
}

static void check_recur(void)
{
    enum { DIM = 48, VALUES = 40 };
    const uint32_t dim = 1 + random_below(DIM), value_dim = 1 + random_below(VALUES), delta = random_below(2), by_channel = random_below(2);
    case_is("recurrence of %u x %u, delta %u, by channel %u", dim, value_dim, delta, by_channel);
    float *S = row_new("the state", dim * value_dim), *y = row_new("y", value_dim);
    double *S_ref = calloc((size_t)dim * value_dim, sizeof *S_ref);
    memset(S, 0, dim * value_dim * sizeof *S);
    for (uint32_t t = 0; t < 8; t++) {
        float q[DIM], k[DIM], v[VALUES], decay[DIM], want[VALUES];
        random_row(q, dim, 1);
        random_row(k, dim, 0.2f);
        random_row(v, value_dim, 2);
        for (uint32_t i = 0; i < dim; i++) decay[i] = -fabsf(random_f32());
        const float beta = fabsf(random_f32());
        recur_ref(want, S_ref, q, k, v, decay, by_channel, (double)beta, delta, dim, value_dim);
        const uint32_t half = value_dim / 2;                             /* columns do not depend on each other */
        recur_step(y, S, value_dim, q, k, v, decay, by_channel, beta, delta, dim, half);
        recur_step(y + half, S + half, value_dim, q, k, v + half, decay, by_channel, beta, delta, dim, value_dim - half);
        same_row("recur_step", y, want, value_dim, 1, 4e-6);
    }
    free(S_ref);
}

void test_cpu_layers(void)
{
    static void (*const checks[])(void) = { check_functions, check_rows, check_route, check_order, check_conv, check_recur };
    static const uint32_t times[] = { 300, 300, 1200, 300, 300, 300 };
    for (uint32_t i = 0; i < sizeof times / sizeof *times; i++)
        for (uint32_t k = 0; k < rounds(times[i]); k++) {
            if (!case_begin()) continue;
            checks[i]();
            rooms_free();
        }
}
