/* cpu_rows.c -- norms and elementwise operations of the CPU against the oracles of templates/ref: edge and random sizes. */
#include "cpu_ops.h"
#include "templates/cpu/norm_tmpl.c"
#include "templates/cpu/elementwise_tmpl.c"
#include "templates/cpu/glu_tmpl.c"

static void check_rows(uint32_t n, float range)
{
    float *x = random_row_new("x", n, range), *w = random_row_new("w", n, 2), *b = random_row_new("b", n, 1), *y = row_new("y", n),
        *want = row_new("want", n);
    case_is("n %u, values up to %g", n, (double)range);
    for (uint32_t i = 0; i < n; i++) x[i] += range;                                /* a mean far from 0 */
    rmsnorm(y, x, w, n, 1e-5f);         rmsnorm_ref(want, x, w, n, 1e-5);          same_row("rmsnorm", y, want, n, 1e-3, 1e-6);
    rmsnorm(y, x, NULL, n, 1e-6f);      rmsnorm_ref(want, x, NULL, n, 1e-6);       same_row("rmsnorm", y, want, n, 1e-3, 1e-6);
    layernorm(y, x, w, b, n, 1e-5f);    layernorm_ref(want, x, w, b, n, 1e-5);     same_row("layernorm", y, want, n, 1, 2e-6);
    layernorm(y, x, w, NULL, n, 1e-5f); layernorm_ref(want, x, w, NULL, n, 1e-5);  same_row("layernorm", y, want, n, 1, 2e-6);
    add(y, x, b, n);                    add_ref(want, x, b, n);                    same_row("add", y, want, n, 1e-30, 1e-7);
    memcpy(y, x, 4 * (size_t)n);
    add_bias(y, b, n);                                                             same_row("add_bias", y, want, n, 1e-30, 1e-7);
    scale(y, x, 0.37f, n);              scale_ref(want, x, (double)0.37f, n);      same_row("scale", y, want, n, 1e-30, 1e-7);
    random_row(x, n, range * 4);
    softcap(y, x, 30, n);               softcap_ref(want, x, 30, n);               same_row("softcap", y, want, n, 1e-30, 2e-6);
    random_row(x, n, range);
    glu_silu(y, x, b, n);               glu_silu_ref(want, x, b, n);               same_row("glu_silu", y, want, n, 0.1, 1e-6);
    glu_gelu(y, x, b, n);               glu_gelu_ref(want, x, b, n);               same_row("glu_gelu", y, want, n, 0.1, 1e-6);
    memcpy(y, x, 4 * (size_t)n);
    glu_gelu(y, y, b, n);                                                          same_row("glu_gelu in place", y, want, n, 0.1, 1e-6);
    for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? 1e4f : -1e4f;                  /* far beyond exp's range */
    glu_silu(y, x, b, n);               glu_silu_ref(want, x, b, n);               same_row("glu_silu, large", y, want, n, 0.1, 1e-6);
    glu_gelu(y, x, b, n);               glu_gelu_ref(want, x, b, n);               same_row("glu_gelu, large", y, want, n, 0.1, 1e-6);
    rooms_free();
}

void test_cpu_rows(void)
{
    static const uint32_t sizes[] = { 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 127, 128, 288, 896, 2048, 4096, 5120 };
    for (uint32_t i = 0; i < rounds(60); i++)
        if (case_begin()) check_rows(i < sizeof sizes / sizeof *sizes ? sizes[i] : 1 + random_below(700), i % 3 ? 12.0f : 0.02f);
}

void bench_cpu_rows(void)
{
    enum { N = 4096 };
    double s;
    case_begin();
    float *x = random_row_new("x", N, 3), *w = random_row_new("w", N, 1), *y = row_new("y", N);
    BEST(s, 500, rmsnorm(y, x, w, N, 1e-5f)); printf("rmsnorm  %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, glu_silu(y, x, w, N));       printf("glu_silu %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, glu_gelu(y, x, w, N));       printf("glu_gelu %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, add(y, x, w, N));            printf("add      %d: %5.0f ns\n", N, s * 1e9);
    rooms_free();
}
