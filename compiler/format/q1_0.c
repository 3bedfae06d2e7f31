/* q1_0.c -- 128 weights: f16 d, 16 bytes of bits. w = d if the bit is set, else -d. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = bits_spread(u32_at(b + 2 + 4 * i) >> 4 * s);
}
static float weight(const struct block_parts *p, uint32_t i) { return p->code[i] ? p->number[0] : -p->number[0]; }

const struct coding coding_q1_0 = { .codes = codes, .weight = weight, .cpu = { { 1, 0 } }, .gpu = { { GPU_BITS, 0 } } };
