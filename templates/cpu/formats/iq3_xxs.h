/* iq3_xxs.h -- 4-bit indices into a table of magnitudes with signs; per 256 columns half-float d and 8 odd scales below 32:
 * w = d / 2 scale value. */
#ifndef FORGE_FORMAT_iq3_xxs
#define FORGE_FORMAT_iq3_xxs
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq3_xxs 0
#define IS_SUPER_iq3_xxs 1
enum { BLOCK_iq3_xxs = 256, CODE_BYTES_iq3_xxs = 256, SCALE_BYTES_iq3_xxs = 128, SUB_iq3_xxs = 32, BITS_iq3_xxs = 6,
       OFFSET_iq3_xxs = 31, HAS_MIN_iq3_xxs = 0, DIVIDE_iq3_xxs = 2 };
/* 2 6 10 14 18 22 26 31 and their negatives, plus OFFSET_iq3_xxs: half of the levels of iq3xxs_grid in ggml-common.h. */
static const int8_t table_iq3_xxs[16] = { 33, 37, 41, 45, 49, 53, 57, 62, 29, 25, 21, 17, 13, 9, 5, 0 };
DEVICE void codes_iq3_xxs(vi c[8], const uint8_t *p)
{
    plane_4_table(c, p, table_iq3_xxs);
}
DEVICE const int8_t *factors_iq3_xxs(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 8);
    return room;
}
#endif
