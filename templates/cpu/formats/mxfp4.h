/* mxfp4.h -- 4-bit floats (E2M1) and a power-of-two scale byte (E8M0) per 32: OCP Microscaling Formats 1.0. */
#ifndef FORGE_FORMAT_mxfp4
#define FORGE_FORMAT_mxfp4
#include "templates/cpu/planes.h"

#define IS_FLOAT_mxfp4 0
#define IS_SUPER_mxfp4 0
enum { BLOCK_mxfp4 = 32, CODE_BYTES_mxfp4 = 256, SCALE_BYTES_mxfp4 = 16, SUB_mxfp4 = 32, BITS_mxfp4 = 5, OFFSET_mxfp4 = 12,
       HAS_MIN_mxfp4 = 0 };
/* Twice the values 0 0.5 1 1.5 2 3 4 6 and their negatives, plus OFFSET_mxfp4. */
static const int8_t table_mxfp4[16] = { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0 };
DEVICE void codes_mxfp4(vi c[8], const uint8_t *p)
{
    plane_4_table(c, p, table_mxfp4);
}
DEVICE void scales_mxfp4(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    /* 2^(e - 128), half of the scale because the table holds doubled values; for e = 0 and 1 this is a subnormal float. */
    const vi e = vi_load_u8(p), small = vi_less(e, vi_set1(2));
    const vi tiny = vi_shl(vi_add(e, vi_set1(1)), 21);
    const vi normal = vi_shl(vi_sub(e, vi_set1(1)), 23);
    scale[0] = vf_bits(vi_or(vi_and(small, tiny), vi_and(vi_xor(small, vi_set1(-1)), normal)));
}
#endif
