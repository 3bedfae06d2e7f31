/* q5_0.c -- 32 weights: f16 d, 4 bytes of fifth bits, 16 bytes of nibbles.  w = d (code - 16). */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    (void)i;
    codes_nibbles(c, b + 6);
    codes_fifth_bits(c, b + 2);
}
static float weight(const struct block_parts *p, uint32_t i) { return p->number[0] * (float)(p->code[i] - 16); }

const struct coding coding_q5_0 = {
    .codes = codes, .weight = weight, .cpu = { { 4, 0 }, { 1, 4 } }, .gpu = { { GPU_NIBBLES, 1 }, { GPU_BITS, 0 } }, .gpu_flip = 0x10,
};
