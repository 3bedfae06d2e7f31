/* iq1_m.c -- 256 weights: 32 bytes of indices into a grid of eight values of -1, 0, 1; 16 bytes of nibbles: three upper bits of an index
 * and the sign of the offset; 8 bytes: four words, each with four scales of three bits for 16 columns each and, in the four bits above
 * them, a part of d, an f16 in four parts. w = d (2 scale + 1) (grid +- 1/8); the sign is for eight columns. Kernels read codes of two bits
 * and, for 16 columns, a byte: the scale, and for each eight columns whether 1/8 is added or subtracted. */
#include "blocks.h"
#include "grids.h"

static uint32_t word(const uint8_t *b, uint32_t j) { return b[48 + 2 * j] | (uint32_t)b[49 + 2 * j] << 8; }
static uint32_t nibble(const uint8_t *b, uint32_t eight) { return b[32 + eight / 2] >> 4 * (eight % 2) & 15u; }

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t k = 0; k < 4; k++) codes_iq1(c + 2 * k, b[4 * i + k] | (nibble(b, 4 * i + k) & 7) << 8);
}
static void scales(uint8_t v[16], const uint8_t *b)
{
    for (uint32_t j = 0; j < 16; j++)
        v[j] = (uint8_t)((word(b, j / 4) >> 3 * (j % 4) & 7) | (~nibble(b, 2 * j) & 8) | (~nibble(b, 2 * j + 1) & 8) << 1);
}
static uint16_t number(const uint8_t *b)
{
    uint32_t bits = 0;
    for (uint32_t j = 0; j < 4; j++) bits |= word(b, j) >> 12 << 4 * j;
    return (uint16_t)bits;
}
static float weight(const struct block_parts *p, uint32_t i)
{
    const uint32_t scale = p->scale[i / 16];
    return weight_iq1(p->number[0], scale & 7, p->code[i], scale >> (3 + i / 8 % 2) & 1);
}

const struct coding coding_iq1_m = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 8, .sums16 = true, .number = number, .weight = weight,
    .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } },
};
