/* q8_0.c -- 32 weights: f16 d, 32 signed bytes.  w = d code. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    (void)i;
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(b + 2 + 4 * s);
}
static float weight(const struct block_parts *p, uint32_t i) { return p->number[0] * (float)(int8_t)p->code[i]; }

const struct coding coding_q8_0 = { .codes = codes, .weight = weight, .matrix = true, .cpu = { { 8, 0 } }, .gpu = { { GPU_BYTES, 0 } } };
