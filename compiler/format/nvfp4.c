/* nvfp4.c -- 64 weights: 4 bytes of scales, which are unsigned floats of four exponent bits and three mantissa bits (E4M3); 32 bytes of
 * nibbles, which are E2M1 floats, low nibbles first within 16 columns. w = scale / 2 value, a scale for 16 columns; values are stored
 * doubled. A scale of 0x7f, NaN elsewhere, is 0. A tensor beside it may scale the whole matrix; that is not part of the format. */
#include "blocks.h"
#include <math.h>

static const int8_t values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(b + 4 + 16 * i + 8 * (s / 4) + 4 * (s % 2)) >> 4 * (s / 2 % 2) & 0x0f0f0f0fu;
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 4; j++) v[j] = b[j] == 0x7f ? 0 : b[j] & 0x7f;
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const int e = p->scale[i / 16] >> 3, m = p->scale[i / 16] & 7;
    const float scale = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
    return 0.5f * scale * (float)values[p->code[i]];
}

const struct coding coding_nvfp4 = {
    .codes = codes, .scales = scales, .n_scales = 4, .scale_bits = 8, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_ORDERED, 0 } },
};
