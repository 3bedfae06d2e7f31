/* iq4_xs.c -- 256 weights: f16 d, 8 six-bit scales (2 bytes of upper pairs, 4 of lower nibbles), 128 bytes of nibbles, indices into 16
 * values. w = d (scale - 32) value, a scale for 32 columns. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { codes_nibbles(c, b + 8 + 16 * i); }
static void scales(uint8_t v[16], const uint8_t *b)
{
    const uint32_t high = (uint32_t)b[2] | (uint32_t)b[3] << 8;
    for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)((b[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4);
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const float d = p->number[0] * (float)(p->scale[i / 32] - 32);
    return d * (float)values_iq4[p->code[i]];
}

const struct coding coding_iq4_xs = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 6, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_ORDERED, 0 } },
};
