/* tq2_0.c -- 256 weights: 64 bytes of two-bit codes, f16 d.  w = d (code - 1). */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { codes_quarter_chunk(c, b, i); }
static float weight(const struct block_parts *p, uint32_t i) { return (float)(p->code[i] - 1) * p->number[0]; }

const struct coding coding_tq2_0 = { .codes = codes, .weight = weight, .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } }, .gpu_flip = 0x01 };
