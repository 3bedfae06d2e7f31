/* iq2_xxs.c -- 256 weights: f16 d, per 32 columns two words: four bytes of indices into a grid of eight magnitudes each; four times seven
 * signs and a scale of four bits.  w = d (2 scale + 1) magnitude / 8. */
#include "blocks.h"
#include "grids.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    const uint8_t *index = b + 2 + 8 * i;
    for (uint32_t k = 0; k < 4; k++) codes_iq2(c + 2 * k, grid_iq2_xxs[index[k]], signs_of_seven(u32_at(index + 4) >> 7 * k));
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)(2 * (b[2 + 8 * j + 7] >> 4) + 1);
}
static float weight(const struct block_parts *p, uint32_t i) { return weight_iq2(p->number[0], p->scale[i / 32], p->code[i]); }

const struct coding coding_iq2_xxs = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 6, .weight = weight,
    .cpu = { { 2, 0 }, { 1, 2 } }, .gpu = { { GPU_PAIRS, 0 }, { GPU_BITS, 2 } },
};
