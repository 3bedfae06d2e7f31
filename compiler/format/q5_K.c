/* q5_K.c -- 256 weights: as Q4_K, with 32 bytes of fifth bits before the nibbles. */
#include "blocks.h"

static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    codes_half_chunk(c, b + 48, i);
    codes_top_bit(c, b + 16, i, 4);
}
static void scales(uint8_t v[16], const uint8_t *b) { scales_k4(v, b + 4); }

const struct coding coding_q5_K = {
    .codes = codes, .scales = scales, .n_scales = 16, .scale_bits = 6, .weight = weight_k4,
    .cpu = { { 4, 0 }, { 1, 4 } }, .gpu = { { GPU_NIBBLES, 0 }, { GPU_BITS, 4 } },
};
