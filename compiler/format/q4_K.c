/* q4_K.c -- 256 weights: f16 d, f16 dmin, 8 six-bit scales and minimums in 12 bytes, 128 bytes of nibbles. w = d scale code - dmin min, a
 * scale and a minimum for 32 columns. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i) { codes_half_chunk(c, b + 16, i); }
static void scales(uint8_t v[16], const uint8_t *b) { scales_k4(v, b + 4); }

const struct coding coding_q4_K = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 6, .weight = weight_k4, .matrix = true,
    .cpu = { { 4, 0 } }, .gpu = { { GPU_NIBBLES, 0 } },
};
