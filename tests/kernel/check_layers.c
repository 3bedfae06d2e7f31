/* check_layers.c -- the CPU kernels of routers, experts, convolutions, recurrences and elementwise operations against the oracles of
 * templates/ref: random shapes, the partial vectors at their ends among them.   check_layers [seed]: exit status 1 on a failure.
 *   clang-19 -std=c11 -O2 -march=x86-64-v3 -DFORGE_SIMD_AVX2 -Wno-psabi -I templates/cpu -I templates/ref tests/kernel/check_layers.c
 *   templates/ref/ops.c -lm
 * and the other instruction sets as in check_ops.c */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops.h"
#include "experts_tmpl.c"
#include "sequence_tmpl.c"

enum { ROUNDS = 300, MOST = 200 };

static uint64_t seed = 1;
static int      failures;

static uint32_t random_below(uint32_t n)
{
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * n >> 32);
}
static float random_f32(float range) { return range * ((float)random_below(1u << 24) * 0x1p-23f - 1.0f); }
static void random_row(float *x, uint32_t n, float range) { for (uint32_t i = 0; i < n; i++) x[i] = random_f32(range); }

/* Relative to |want| + floor. */
static void compare(const char *what, const float *got, const float *want, uint32_t n, double limit, double floor)
{
    for (uint32_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - (double)want[i]) / (fabs((double)want[i]) + floor);
        if (error <= limit) continue;
        if (failures++ < 20) printf("%s: [%u of %u] is %.9g, not %.9g\n", what, i, n, (double)got[i], (double)want[i]);
        return;
    }
}
static void expect(bool ok, const char *what)
{
    if (!ok && failures++ < 20) printf("%s\n", what);
}

/* A row of n values between ones that nobody may change. */
static float room[MOST + 2];
static float *row_of(uint32_t n)
{
    room[0] = room[n + 1] = 77;
    return room + 1;
}
static void untouched(uint32_t n, const char *what) { expect(room[0] == 77 && room[n + 1] == 77, what); }

static void check_function(const char *name, void (*f)(float *y, uint32_t n), double (*ref)(double x), double floor)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t n = 1 + random_below(70);
        float *y = row_of(n), want[MOST];
        random_row(y, n, round % 3 == 0 ? 80 : 4);
        for (uint32_t i = 0; i < n; i++) want[i] = (float)ref((double)y[i]);
        f(y, n);
        compare(name, y, want, n, 2e-6, floor);
        untouched(n, name);
    }
}
#define FUNCTION(name) static void call_##name(float *y, uint32_t n) { name(y, n); }
FUNCTION(silu)
FUNCTION(gelu)
FUNCTION(sigmoid)
FUNCTION(softplus)
FUNCTION(relu_sqr)

static void check_rows(void)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t n = 1 + random_below(70), each = 1 + random_below(9), first = random_below(40);
        float x[2 * MOST], z[2 * MOST], want[MOST], *y = row_of(n);
        random_row(x, 2 * MOST, 12);
        random_row(z, 2 * MOST, 12);
        glu_oai_ref(want, x, z, 1.702, 7, n);
        glu_oai(y, x, z, 1.702f, 7, n);
        compare("glu_oai", y, want, n, 2e-6, 1e-5);
        multiply(y, x, z, n);
        for (uint32_t i = 0; i < n; i++) want[i] = x[i] * z[i];
        compare("multiply", y, want, n, 0, 1e-30);
        memcpy(y, x, n * sizeof *y);
        multiply_runs(y, z, first, each, n);
        for (uint32_t i = 0; i < n; i++) want[i] = x[i] * z[(first + i) / each];
        compare("multiply_runs", y, want, n, 0, 1e-30);
        const float range = round % 7 ? 1 : 0, eps = 1e-3f;      /* of a row of zeros, too */
        for (uint32_t i = 0; i < n; i++) y[i] = x[i] * range;
        l2norm_ref(want, y, n, (double)eps);
        l2norm(y, n, eps);
        compare("l2norm", y, want, n, 1e-6, 1e-7);
        take_parts(y, x, 2, each, each + 3, n);
        for (uint32_t i = 0; i < n; i++) want[i] = x[(2 + i / each) * (each + 3) + i % each];
        compare("take_parts", y, want, n, 0, 1e-30);
        const uint32_t heads = n / (each + 2);
        if (heads) join_heads(y, x, z, 1, each, 2, heads * (each + 2));
        for (uint32_t i = 0; i < heads * (each + 2); i++) {
            const uint32_t head = 1 + i / (each + 2), at = i % (each + 2);
            want[i] = at < each ? x[head * each + at] : z[head * 2 + at - each];
        }
        compare("join_heads", y, want, heads * (each + 2), 0, 1e-30);
        untouched(n, "rows: written beside them");
        const uint32_t position = random_below(1u << 20), n_ctx = 1 + random_below(5000);
        const float t = temperature(position, 0.1f, n_ctx), t_ref = (float)(1 + (double)0.1f * log(1 + floor((double)position / n_ctx)));
        compare("temperature", &t, &t_ref, 1, 3e-7, 1e-7);
    }
}

static void check_route(void)
{
    for (uint32_t round = 0; round < 4 * ROUNDS; round++) {
        const uint32_t n_group = 1u << random_below(4), n_expert = n_group * (2 + random_below(12));
        const uint32_t n_used = 1 + random_below(n_group), most = n_expert / n_group * n_used, used = 1 + random_below(most < 8 ? most : 8);
        const uint32_t gating = 1 + random_below(3), norm = random_below(2);
        float logits[MOST], bias[MOST], space[3 * MOST], choice[16], want[16];
        uint8_t taken[MOST];
        random_row(logits, n_expert, 4);
        random_row(bias, n_expert, 0.3f);
        const float *select = n_group > 1 || random_below(2) ? bias : NULL;
        const struct route_ref r = { .n_expert = n_expert, .used = used, .gating = gating, .n_group = n_group, .n_group_used = n_used,
                                     .norm = norm, .by = 2.5, .select_bias = select };
        route_ref(want, &r, logits);
        route(choice, space, taken, logits, select, n_expert, used, gating, n_group, n_used, norm, 2.5f);
        expect(memcmp(choice + used, want + used, used * sizeof *choice) == 0, "route: other experts");
        compare("route", choice, want, used, 3e-6, 1e-7);
        /* whatever the logits are, the numbers are those of experts, each once */
        for (uint32_t i = 0; i < n_expert; i++) if (random_below(2)) logits[i] = i % 2 ? NAN : INFINITY;
        route(choice, space, taken, logits, select, n_expert, used, gating, n_group, n_used, norm, 2.5f);
        for (uint32_t k = 0; k < used; k++) {
            expect(choice[used + k] >= 0 && choice[used + k] < (float)n_expert, "route: no expert");
            for (uint32_t i = 0; i < k; i++) expect(choice[used + i] != choice[used + k], "route: an expert twice");
        }
    }
}

/* Every pair has a row, rows of an expert are its own and in the order of the tokens. */
static void check_order(void)
{
    enum { TOKENS = 20, USED = 3, EXPERTS = 7, PAIRS = TOKENS * USED };
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t n = 1 + random_below(TOKENS), t0 = random_below(n + 1);
        float choices[TOKENS * 8];
        uint32_t order[EXPERTS + 1 + 2 * PAIRS];
        const uint32_t *pairs = order + EXPERTS + 1, *rows = pairs + PAIRS;
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t k = 0; k < USED; k++) choices[8 * t + USED + k] = (float)((random_below(3) + 2 * k) % EXPERTS);
        expert_order(order, choices, 8, t0, n, EXPERTS, USED, PAIRS);
        expect(order[0] == 0 && order[EXPERTS] == (n - t0) * USED, "expert_order: rows are lost");
        for (uint32_t t = t0; t < n; t++)
            for (uint32_t k = 0; k < USED; k++) {
                const uint32_t pair = t * USED + k, e = (uint32_t)choices[8 * t + USED + k], row = rows[pair];
                expect(row >= order[e] && row < order[e + 1] && pairs[row] == pair, "expert_order: a row of another expert");
                expect(row == order[e] || pairs[row - 1] < pair, "expert_order: tokens change places");
            }
    }
}

static void check_conv(void)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t n = 1 + random_below(50), n_taps = 2 + random_below(5), cols = n + random_below(20), stride = cols + random_below(3);
        float taps[8 * MOST], earlier[8 * MOST] = { 0 }, x[6][MOST], *y = row_of(n), want[MOST], column[8], before[8];
        random_row(taps, 8 * MOST, 1);
        for (uint32_t t = 0; t < 6; t++) {
            random_row(x[t], n, 2);
            conv_step(y, x[t], earlier, taps, n_taps, cols, stride, n);
            for (uint32_t c = 0; c < n; c++) {
                for (uint32_t k = 0; k < n_taps; k++) column[k] = taps[k * stride + c];
                for (uint32_t k = 0; k + 1 < n_taps; k++) before[k] = t + k + 1 >= n_taps ? x[t + k + 1 - n_taps][c] : 0;
                want[c] = conv_ref(column, n_taps, before, x[t][c]);
            }
            compare("conv_step", y, want, n, 1e-6, 1);
        }
        untouched(n, "conv_step: written beside the row");
        for (uint32_t k = 0; k + 1 < n_taps; k++)
            for (uint32_t c = n; c < cols; c++) expect(earlier[k * cols + c] == 0, "conv_step: another column's state changes");
    }
}

static void check_recur(void)
{
    enum { DIM = 48, VALUES = 40 };
    static float S[DIM * VALUES];
    static double S_ref[DIM * VALUES];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t dim = 1 + random_below(DIM), value_dim = 1 + random_below(VALUES), delta = random_below(2),
                       by_channel = random_below(2);
        memset(S, 0, sizeof S);
        memset(S_ref, 0, sizeof S_ref);
        for (uint32_t t = 0; t < 8; t++) {
            float q[DIM], k[DIM], v[VALUES], decay[DIM], *y = row_of(value_dim), want[VALUES];
            random_row(q, dim, 1);
            random_row(k, dim, 0.2f);
            random_row(v, value_dim, 2);
            for (uint32_t i = 0; i < dim; i++) decay[i] = -fabsf(random_f32(1));
            const float beta = fabsf(random_f32(1));
            recur_ref(want, S_ref, q, k, v, decay, by_channel, (double)beta, delta, dim, value_dim);
            const uint32_t half = value_dim / 2;                             /* columns do not depend on each other */
            recur_step(y, S, value_dim, q, k, v, decay, by_channel, beta, delta, dim, half);
            recur_step(y + half, S + half, value_dim, q, k, v + half, decay, by_channel, beta, delta, dim, value_dim - half);
            compare("recur_step", y, want, value_dim, 4e-6, 1);
            untouched(value_dim, "recur_step: written beside the row");
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) seed = strtoull(argv[1], NULL, 10) * 2 + 1;
    check_function("silu", call_silu, silu_ref, 1e-6);
    check_function("gelu", call_gelu, gelu_ref, 1e-6);
    check_function("sigmoid", call_sigmoid, sigmoid_ref, 1e-30);
    check_function("softplus", call_softplus, softplus_ref, 1e-30);
    check_function("relu_sqr", call_relu_sqr, relu_sqr_ref, 1e-30);
    check_rows();
    check_route();
    check_order();
    check_conv();
    check_recur();
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
