/* q2_K.c -- 256 weights: 16 bytes, each with a scale in the low and a minimum in the high nibble; 64 bytes of two-bit codes; f16 d, f16
 * dmin. w = d scale code - dmin min, a scale and a minimum for 16 columns. */
#include "blocks.h"
#include <string.h>

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { codes_quarter_chunk(c, b + 16, i); }
static void scales(uint8_t v[16], const uint8_t *b) { memcpy(v, b, 16); }
static float weight(const struct block_parts *p, uint32_t i)
{
    const int s = p->scale[i / 16];
    const float d = p->number[0] * (float)(s & 15), m = p->number[1] * (float)(s >> 4), t = d * (float)p->code[i];
    return t - m;
}

const struct coding coding_q2_K = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 8, .sums16 = true, .weight = weight,
    .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } },
};
