/* q4_1.c -- 32 weights: f16 d, f16 m, 16 bytes of nibbles.  w = d code + m. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { (void)i; codes_nibbles(c, b + 4); }
static float weight(const struct block_parts *p, uint32_t i)
{
    const float t = p->number[0] * (float)p->code[i];
    return t + p->number[1];
}

const struct coding coding_q4_1 = { .codes = codes, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_NIBBLES, 0 } } };
