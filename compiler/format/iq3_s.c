/* iq3_s.c -- 256 weights: f16 d, 64 bytes of indices into a grid of four magnitudes each, 8 bytes of their ninth bits, 32 bytes of signs, 4
 * bytes of scale nibbles. w = d (2 scale + 1) magnitude, a scale for 32 columns. The magnitudes are 1, 3, ... 15. With the sign these are
 * 16 values in even steps, so codes of 4 bits represent them, w = d (2 scale + 1) (2 code - 15), and no kernel needs the grid. */
#include "blocks.h"
#include "grids.h"

/* 8 + digit for a positive weight, 7 - digit for a negative one. */
static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    const uint8_t *index = b + 2 + 8 * i;
    const uint32_t ninth = b[66 + i], signs = u32_at(b + 74 + 4 * i);
    for (uint32_t s = 0; s < 8; s++) {
        const uint32_t digits = nibbles_spread(grid_iq3_s[index[s] | (ninth >> s & 1) << 8]);
        c[s] = (digits | 0x08080808u) ^ bits_spread(signs >> 4 * s) * 15;
    }
}
/* Odd numbers below 32, the factors that the kernels use. */
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)(2 * (b[106 + j / 2] >> 4 * (j % 2) & 15) + 1);
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const float d = p->number[0] * (float)p->scale[i / 32];
    return d * (float)(2 * p->code[i] - 15);
}

const struct coding coding_iq3_s = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 6, .weight = weight,
    .cpu = { { 4, 0 } }, .gpu = { { GPU_NIBBLES, 0 } }, .gpu_flip = 0x08,
};
