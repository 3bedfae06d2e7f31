/* iq2_xxs.h -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d and 8 odd scales below 32:
 * w = d / 8 scale value. */
#ifndef FORGE_FORMAT_iq2_xxs
#define FORGE_FORMAT_iq2_xxs
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq2_xxs 0
#define IS_SUPER_iq2_xxs 1
enum { BLOCK_iq2_xxs = 256, CODE_BYTES_iq2_xxs = 192, SCALE_BYTES_iq2_xxs = 128, SUB_iq2_xxs = 32, BITS_iq2_xxs = 7,
       OFFSET_iq2_xxs = 43, HAS_MIN_iq2_xxs = 0, DIVIDE_iq2_xxs = 8 };
DEVICE void codes_iq2_xxs(vi c[8], const uint8_t *p)
{
    plane_2_levels(c, p);
}
DEVICE const int8_t *factors_iq2_xxs(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 8);
    return room;
}
#endif
