/* nvfp4.h -- 4-bit floats (E2M1) and unsigned scale bytes (E4M3) per 16. */
#ifndef FORGE_FORMAT_nvfp4
#define FORGE_FORMAT_nvfp4
#include "templates/cpu/planes.h"

#define IS_FLOAT_nvfp4 0
#define IS_SUPER_nvfp4 0
enum { BLOCK_nvfp4 = 32, CODE_BYTES_nvfp4 = 256, SCALE_BYTES_nvfp4 = 32, SUB_nvfp4 = 16, BITS_nvfp4 = 5,
       OFFSET_nvfp4 = 12, HAS_MIN_nvfp4 = 0 };
/* Twice the values 0 0.5 1 1.5 2 3 4 6 and their negatives, plus OFFSET_nvfp4. */
static const int8_t table_nvfp4[16] = { 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0 };
DEVICE void codes_nvfp4(vi c[8], const uint8_t *p)
{
    plane_4_table(c, p, table_nvfp4);
}
DEVICE void scales_nvfp4(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    /* Half of the scale, because the table holds doubled values: 2^(e - 8) (1 + m / 8), and 2^-10 m if e is 0. */
    UNROLL for (uint32_t j = 0; j < 2; j++) {
        const vi em = vi_load_u8(p + 16 * j), small = vi_less(em, vi_set1(8)), normal = vi_add(vi_shl(em, 20), vi_set1(119 << 23));
        const vf tiny = vf_mul(vf_from_vi(vi_and(em, small)), vf_set1(0x1p-10f));
        scale[j] = vf_add(tiny, vf_bits(vi_and(vi_xor(small, vi_set1(-1)), normal)));
    }
}
#endif
