/* q2_0.c -- 64 weights: f16 d, 16 bytes of two-bit codes, four columns per byte. w = d (code - 1). */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = pairs_spread(b[2 + 8 * i + s]);
}
static float weight(const struct block_parts *p, uint32_t i) { return (float)(p->code[i] - 1) * p->number[0]; }

const struct coding coding_q2_0 = { .codes = codes, .weight = weight, .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } }, .gpu_flip = 0x01 };
