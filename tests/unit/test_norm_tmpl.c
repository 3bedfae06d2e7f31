/* test_norm_tmpl.c -- the CPU's norms of rows of any length, compiled as plain C, against their definitions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#define FORGE_SIMD_C
#include "templates/cpu/norm_tmpl.c"
#include "templates/ref/ops.h"

enum { MOST = 150 };
static uint32_t seed = 1;

/* In -size .. size. */
static void random_row(float *x, float size)
{
    for (uint32_t i = 0; i < MOST; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = ((float)(seed >> 8) * 0x1p-23f - 1) * size;
    }
}

static void check(const float *got, const float *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 3e-6f * (fabsf(want[i]) + 1)))
            fail_msg("%u columns: %g at %u, not %g", n, (double)got[i], i, (double)want[i]);
}

/* Rows with a mean of 4, with weights and biases or without them; the result is also written over the row. */
static void rows(void **state)
{
    (void)state;
    float x[MOST], w[MOST], b[MOST], y[MOST], want[MOST];
    for (uint32_t n = 1; n <= MOST; n++) {
        random_row(x, 3);
        random_row(w, 2);
        random_row(b, 2);
        for (uint32_t i = 0; i < MOST; i++) x[i] += 4;
        for (uint32_t has = 0; has < 4; has++) {
            const float *weights = has & 1 ? w : NULL, *biases = has & 2 ? b : NULL;
            layernorm_ref(want, x, weights, biases, n, 1e-5);
            layernorm(y, x, weights, biases, n, 1e-5f);
            check(y, want, n);
            memcpy(y, x, sizeof y);
            layernorm(y, y, weights, biases, n, 1e-5f);
            check(y, want, n);
            rmsnorm_ref(want, x, weights, n, 1e-5);
            rmsnorm(y, x, weights, n, 1e-5f);
            check(y, want, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
