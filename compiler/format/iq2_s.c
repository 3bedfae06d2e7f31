/* iq2_s.c -- 256 weights: f16 d, 32 bytes of indices into a grid of eight magnitudes each, 32 bytes of signs, 8 bytes with the indices'
 * upper two bits, 8 bytes of scale nibbles. w = d (2 scale + 1) magnitude / 8, a scale for 16 columns. */
#include "blocks.h"
#include "grids.h"
#include <string.h>

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    const uint8_t *index = b + 2 + 4 * i, *signs = b + 34 + 4 * i;
    for (uint32_t k = 0; k < 4; k++) codes_iq2(c + 2 * k, grid_iq2_s[index[k] | (b[66 + i] >> 2 * k & 3) << 8], signs[k]);
}
/* Two nibbles per byte, as in the file. */
static void scales(uint8_t v[16], const uint8_t *b) { memcpy(v, b + 74, 8); }
static float weight(const struct block_parts *p, uint32_t i)
{
    return weight_iq2(p->number[0], 2 * (p->scale[i / 32] >> 4 * (i / 16 % 2) & 15u) + 1, p->code[i]);
}

const struct coding coding_iq2_s = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 8, .weight = weight,
    .cpu = { { 2, 0 }, { 1, 2 } }, .gpu = { { GPU_PAIRS, 0 }, { GPU_BITS, 2 } },
};
