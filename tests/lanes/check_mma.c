/* check_mma.c -- the tile products of templates/gpu/mma.h against plain sums: one-hot tiles, which show a misplaced element, and random
 * ones.  Compile three times: as it is, with -DFAMILY=FAMILY_RDNA3, with -DFAMILY=FAMILY_CDNA3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "simt.h"
#include "tests/device/kernels_mma.c"

enum { LDS_BYTES = 4096, RANDOM_TILES = 50 };
static uint32_t seed = 0x2545f491u, n_cases;

static float uniform_random(void)                /* -1 .. 1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed * (1.0f / 2147483648.0f);
}
struct tiles { float a[16][16], b[16][16]; };    /* [i][k], [k][j] */

static void product_of(double d[16][16], const float a[16][16], const float b[16][16])
{
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 16; j++) {
            d[i][j] = 0.0;
            for (uint32_t k = 0; k < 16; k++) d[i][j] += (double)a[i][k] * (double)b[k][j];
        }
}
static uint16_t stored(float x, bool bf16) { return (uint16_t)(bf16 ? bf16_bits(x) : f16_bits(x)); }

/* Runs a kernel on the tiles (their values must be exact in 16 bits); transposed: B goes to memory as [k][j]. */
static void run_kernel(float d[16][16], simt_kernel *kernel, const struct tiles *t, bool transposed, bool bf16)
{
    static _Alignas(16) uint16_t weights[2][16][16];
    static _Alignas(16) float arena[16][16];
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t k = 0; k < 16; k++) {
            weights[0][i][k] = stored(t->a[i][k], bf16);
            weights[1][i][k] = stored(transposed ? t->b[i][k] : t->b[k][i], bf16);
        }
    memset(arena, SIMT_POISON, sizeof arena);
    struct forge_kernel_args args = { .weights = (const uint8_t *)weights, .arena = (uint8_t *)arena, .weight = { 0, sizeof weights[0] } };
    simt_launch(kernel, &args, 1, 1, WAVE, WAVE, LDS_BYTES, n_cases);
    memcpy(d, arena, sizeof arena);
}
static bool compare(const char *name, const char *what, uint32_t number, float d[16][16], double expected[16][16], double bound)
{
    n_cases++;
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 16; j++)
            if (!(fabs((double)d[i][j] - expected[i][j]) <= bound)) {
                printf("%s, %s tile %u: element (%u, %u) is %g, not %g\n", name, what, number, i, j, (double)d[i][j], expected[i][j]);
                return false;
            }
    return true;
}
/* What each kernel has to give for the tiles. */
static bool check_all(const struct tiles *t, const char *what, uint32_t number)
{
    float d[16][16], rounded[16][16];
    double once[16][16], twice[16][16], reduced[16][16], four[16][16];
    product_of(once, t->a, t->b);
    for (uint32_t i = 0; i < 16; i++) {
        double largest = once[i][0], sum = 0.0;
        for (uint32_t j = 0; j < 16; j++) {
            rounded[i][j] = (float)(f16)(float)once[i][j];
            largest = fmax(largest, once[i][j]);
            sum += once[i][j];
            four[i][j] = 4.0 * once[i][j];
        }
        for (uint32_t j = 0; j < 16; j++) reduced[i][j] = j % 2 ? sum : largest;
    }
    product_of(twice, (const float(*)[16])rounded, t->b);
    bool ok = true;
    run_kernel(d, mma_rows_f16, t, false, false);  ok &= compare("mma_rows_f16", what, number, d, once, 1e-5);
    run_kernel(d, mma_trans_f16, t, true, false);  ok &= compare("mma_trans_f16", what, number, d, once, 1e-5);
    run_kernel(d, mma_rows_bf16, t, false, true);  ok &= compare("mma_rows_bf16", what, number, d, once, 1e-5);
    run_kernel(d, mma_chain_f16, t, false, false); ok &= compare("mma_chain_f16", what, number, d, twice, 2e-2);
    run_kernel(d, mma_reduce, t, false, false);    ok &= compare("mma_reduce", what, number, d, reduced, 1e-4);
    run_kernel(d, mma_swizzled, t, false, false);  ok &= compare("mma_swizzled", what, number, d, four, 1e-4);
    run_kernel(d, mma_wide_rows, t, false, false); ok &= compare("mma_wide_rows", what, number, d, once, 1e-5);
    run_kernel(d, mma_wide_swizzled, t, false, true); ok &= compare("mma_wide_swizzled", what, number, d, once, 1e-5);
    return ok;
}
int main(void)
{
    struct tiles t;
    bool ok = true;
    for (uint32_t n = 0; n < 256; n++) {                  /* a single one in A, a numbered B: D's row n / 16 is B's row n % 16 */
        memset(&t, 0, sizeof t);
        t.a[n / 16][n % 16] = 1.0f;
        for (uint32_t m = 0; m < 256; m++) t.b[m / 16][m % 16] = (float)m;
        ok &= check_all(&t, "one-hot A", n);
        memset(&t, 0, sizeof t);
        t.b[n / 16][n % 16] = 1.0f;
        for (uint32_t m = 0; m < 256; m++) t.a[m / 16][m % 16] = (float)m;
        ok &= check_all(&t, "one-hot B", n);
    }
    for (uint32_t n = 0; n < RANDOM_TILES; n++) {
        for (uint32_t m = 0; m < 256; m++) {              /* 8 bits of significand: exact in f16 and bf16 */
            t.a[m / 16][m % 16] = rintf(uniform_random() * 128.0f) / 128.0f;
            t.b[m / 16][m % 16] = rintf(uniform_random() * 128.0f) / 128.0f;
        }
        ok &= check_all(&t, "random", n);
    }
    printf("check_mma: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
