/* q4_0.c -- 32 weights: f16 d, 16 bytes of nibbles.  w = d (code - 8). */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { (void)i; codes_nibbles(c, b + 2); }
static float weight(const struct block_parts *p, uint32_t i) { return p->number[0] * (float)(p->code[i] - 8); }

const struct coding coding_q4_0 = {
    .codes = codes, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_NIBBLES, 0 } }, .gpu_flip = 0x08,
};
