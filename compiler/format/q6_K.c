/* q6_K.c -- 256 weights: 128 bytes of low nibbles, 64 bytes of top bit pairs, 16 signed bytes of scales, f16 d. w = d scale (code - 32), a
 * scale for 16 columns. 128 columns share 64 bytes of nibbles and 32 bytes of pairs. */
#include "blocks.h"
#include <string.h>

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    const uint8_t *low = b + 64 * (i / 4) + 32 * (i % 2), *high = b + 128 + 32 * (i / 4);
    for (uint32_t s = 0; s < 8; s++)
        c[s] = (u32_at(low + 4 * s) >> 4 * (i % 4 / 2) & 0x0f0f0f0f) | (u32_at(high + 4 * s) >> 2 * (i % 4) & 0x03030303) << 4;
}
static void scales(uint8_t v[16], const uint8_t *b) { memcpy(v, b + 192, 16); }
static float weight(const struct block_parts *p, uint32_t i)
{
    const float d = p->number[0] * (float)(int8_t)p->scale[i / 16];
    return d * (float)(p->code[i] - 32);
}

const struct coding coding_q6_K = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 8, .weight = weight, .matrix = true,
    .cpu = { { 4, 0 }, { 2, 4 } }, .gpu = { { GPU_NIBBLES, 2 }, { GPU_PAIRS, 0 } }, .gpu_flip = 0x20,
};
