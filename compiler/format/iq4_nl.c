/* iq4_nl.c -- 32 weights: f16 d, 16 bytes of nibbles, indices into 16 values.  w = d value. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { (void)i; codes_nibbles(c, b + 2); }
static float weight(const struct block_parts *p, uint32_t i) { return p->number[0] * (float)values_iq4[p->code[i]]; }

const struct coding coding_iq4_nl = { .codes = codes, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_ORDERED, 0 } } };
