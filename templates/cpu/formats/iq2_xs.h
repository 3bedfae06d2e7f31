/* iq2_xs.h -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d and 16 scale nibbles:
 * w = d / 8 (2 nibble + 1) value. */
#ifndef FORGE_FORMAT_iq2_xs
#define FORGE_FORMAT_iq2_xs
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq2_xs 0
#define IS_SUPER_iq2_xs 1
enum { BLOCK_iq2_xs = 256, CODE_BYTES_iq2_xs = 192, SCALE_BYTES_iq2_xs = 160, SUB_iq2_xs = 16, BITS_iq2_xs = 7,
       OFFSET_iq2_xs = 43, HAS_MIN_iq2_xs = 0, DIVIDE_iq2_xs = 8 };
DEVICE void codes_iq2_xs(vi c[8], const uint8_t *p)
{
    plane_2_levels(c, p);
}
DEVICE const int8_t *factors_iq2_xs(int8_t *room, const uint8_t *p)
{
    odd_nibbles(room, p + 32);
    return room;
}
#endif
