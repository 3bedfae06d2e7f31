/* iq3_xxs.c -- 256 weights: f16 d, 64 bytes of indices into a grid of four magnitudes each; per 32 columns a word: four times seven signs
 * and a scale of four bits. w = d (2 scale + 1) magnitude / 4. Eight magnitudes with a sign are a code of 4 bits, an index into 16 values:
 * kernels look up half of a magnitude in registers. */
#include "blocks.h"
#include "grids.h"

static const int8_t values[16] = { 2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31 };

static uint32_t word(const uint8_t *b, uint32_t j) { return u32_at(b + 66 + 4 * j); }

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    const uint8_t *index = b + 2 + 8 * i;
    for (uint32_t s = 0; s < 8; s++) {
        const uint32_t signs = signs_of_seven(word(b, i) >> 7 * (s / 2)) >> 4 * (s % 2);
        c[s] = nibbles_spread(grid_iq3_xxs[index[s]]) | bits_spread(signs) << 3;
    }
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)(2 * (word(b, j) >> 28) + 1);
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const float d = 0.5f * p->number[0] * (float)p->scale[i / 32];
    return d * (float)values[p->code[i]];
}

const struct coding coding_iq3_xxs = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 6, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_ORDERED, 0 } },
};
