/* q3_K.c -- 256 weights: 32 bytes of top bits, 64 bytes of the lower two bits, 16 six-bit scales in 12 bytes, f16 d. w = d (scale - 32)
 * (code - 4), a scale for 16 columns. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    codes_quarter_chunk(c, b + 32, i);
    codes_top_bit(c, b, i, 2);
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    const uint8_t *s = b + 96;
    for (uint32_t j = 0; j < 16; j++) v[j] = (uint8_t)((s[j % 8] >> 4 * (j / 8) & 15) | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4);
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const float d = p->number[0] * (float)(p->scale[i / 16] - 32);
    return d * (float)(p->code[i] - 4);
}

const struct coding coding_q3_K = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 6, .weight = weight,
    .cpu = { { 2, 0 }, { 1, 2 } }, .gpu = { { GPU_PAIRS, 1 }, { GPU_BITS, 0 } }, .gpu_flip = 0x04,
};
