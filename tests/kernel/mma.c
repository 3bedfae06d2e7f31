/* mma.c -- compares the tile products of templates/gpu/mma.h with plain sums: one-hot tiles, which show a misplaced element, and random. */
#include "machine.h"
#include "templates/gpu/dialect.h"
#include <math.h>
#include <string.h>

enum { RANDOM_TILES = 50, LDS_BYTES = 4096 };
enum result { PRODUCT, CHAIN, REDUCED, FOUR_TIMES };       /* A B; f16(A B) B; maximum and sum of the rows of A B; 4 A B */
static const struct { const char *name; enum result result; bool transposed, bf16; double bound; } kernels[] = {
    { "mma_rows_f16", PRODUCT, false, false, 1e-5 },
    { "mma_trans_f16", PRODUCT, true, false, 1e-5 },       /* B stored as [k][j] */
    { "mma_rows_bf16", PRODUCT, false, true, 1e-5 },
    { "mma_chain_f16", CHAIN, false, false, 2e-2 },
    { "mma_reduce", REDUCED, false, false, 1e-4 },
    { "mma_swizzled", FOUR_TIMES, false, false, 1e-4 },
    { "mma_wide_rows", PRODUCT, false, false, 1e-5 },
    { "mma_wide_swizzled", PRODUCT, false, true, 1e-5 },
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

struct tiles { float a[16][16], b[16][16]; };    /* [i][k], [k][j] */

static void product_of(double d[16][16], const float a[16][16], const float b[16][16])
{
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 16; j++) {
            d[i][j] = 0.0;
            for (uint32_t k = 0; k < 16; k++) d[i][j] += (double)a[i][k] * (double)b[k][j];
        }
}

static void expected_of(double d[16][16], const struct tiles *t, enum result result)
{
    float rounded[16][16];
    product_of(d, t->a, t->b);
    for (uint32_t i = 0; i < 16; i++) {
        double largest = d[i][0], sum = 0.0;
        for (uint32_t j = 0; j < 16; j++) {
            rounded[i][j] = (float)(f16)(float)d[i][j];
            largest = fmax(largest, d[i][j]);
            sum += d[i][j];
        }
        for (uint32_t j = 0; j < 16; j++)
            if (result == REDUCED) d[i][j] = j % 2 ? sum : largest;
            else if (result == FOUR_TIMES) d[i][j] *= 4;
    }
    if (result == CHAIN) product_of(d, (const float(*)[16])rounded, t->b);
}

/* The tile's value in 16 bits, in which it is exact. */
static uint16_t stored(float x, bool bf16) { return (uint16_t)(bf16 ? bf16_bits(x) : f16_bits(x)); }

/* The case's tiles.  ONE_IN_A, ONE_IN_B: one tile is zero except a 1 at place n, the other has the numbers 0 .. 255, so that for A row
 * n / 16 of D is row n % 16 of B.  RANDOM: values with 8 bits of significand, exact in f16 and bf16. */
enum tiles_kind { ONE_IN_A, ONE_IN_B, RANDOM };
static void make_tiles(struct tiles *t, enum tiles_kind kind, uint32_t n)
{
    for (uint32_t m = 0; m < 256; m++) {
        const float one = m == n, number = (float)m, a = rintf(random_f32() * 128.0f) / 128.0f, b = rintf(random_f32() * 128.0f) / 128.0f;
        t->a[m / 16][m % 16] = kind == ONE_IN_A ? one : kind == ONE_IN_B ? number : a;
        t->b[m / 16][m % 16] = kind == ONE_IN_B ? one : kind == ONE_IN_A ? number : b;
    }
}

static void check_tiles(enum tiles_kind kind, uint32_t number)
{
    static const char *const kind_names[] = { "a one in A", "a one in B", "random" };
    for (uint32_t n = 0; n < N_KERNELS; n++) {
        if (!case_begin()) continue;
        case_is("%s, tile %u, %s", kernels[n].name, number, kind_names[kind]);
        struct tiles t;
        make_tiles(&t, kind, number);
        struct room *weights = room_new("tiles", sizeof(uint16_t[2][16][16])), *out = room_new("product", sizeof(float[16][16]));
        uint16_t (*w)[16][16] = (uint16_t (*)[16][16])(void *)weights->bytes;
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t k = 0; k < 16; k++) {
                w[0][i][k] = stored(t.a[i][k], kernels[n].bf16);
                w[1][i][k] = stored(kernels[n].transposed ? t.b[i][k] : t.b[k][i], kernels[n].bf16);
            }
        const struct forge_kernel_args args = { .weights = weights->at, .arena = out->at, .weight = { 0, sizeof w[0] } };
        machine_launch(&(struct launch){ kernels[n].name, 1, 1, WAVE, LDS_BYTES, 0 }, &args);
        double d[16][16];
        expected_of(d, &t, kernels[n].result);
        for (uint32_t e = 0; e < 256; e++)
            if (!close_to("element", e, (double)room_floats(out)[e], d[e / 16][e % 16], kernels[n].bound)) break;
        rooms_free();
    }
}

void test_mma(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        check_tiles(ONE_IN_A, n);
        check_tiles(ONE_IN_B, n);
    }
    for (uint32_t n = 0; n < rounds(RANDOM_TILES); n++) check_tiles(RANDOM, n);
}
