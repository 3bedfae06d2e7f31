/* iq1_s.c -- 256 weights: f16 d, 32 bytes of indices into a grid of eight values of -1, 0, 1; per 32 columns a 16-bit word: four times
 * three upper bits of an index, three bits of a scale, the sign of the offset. w = d (2 scale + 1) (grid +- 1/8). Kernels read codes of two
 * bits and, for 32 columns, four bits: the scale, and above it whether 1/8 is added or subtracted. */
#include "blocks.h"
#include "grids.h"

static uint32_t word(const uint8_t *b, uint32_t j) { return b[34 + 2 * j] | (uint32_t)b[35 + 2 * j] << 8; }

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t k = 0; k < 4; k++) codes_iq1(c + 2 * k, b[2 + 4 * i + k] | (word(b, i) >> 3 * k & 7) << 8);
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)((word(b, j) >> 12) ^ 8);
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const uint32_t scale = p->scale[i / 32];
    return weight_iq1(p->number[0], scale & 7, p->code[i], scale >> 3);
}

const struct coding coding_iq1_s = {
    .codes = codes, .scales = scales, .n_scales = 8, .scale_bits = 6, .weight = weight, .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } },
};
