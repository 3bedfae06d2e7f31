/* mxfp4.c -- 32 weights: a power of two (E8M0), 16 bytes of nibbles, which are E2M1 floats: OCP Microscaling Formats 1.0. Values are stored
 * doubled, so d is halved. */
#include "blocks.h"

static const int8_t values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { (void)i; codes_nibbles(c, b + 1); }
static float weight(const struct block_parts *p, uint32_t i) { return 0.5f * p->number[0] * (float)values[p->code[i]]; }

const struct coding coding_mxfp4 = { .codes = codes, .weight = weight, .cpu = { { 4, 0 } }, .gpu = { { GPU_ORDERED, 0 } } };
