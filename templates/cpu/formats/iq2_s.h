/* iq2_s.h -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d and 16 scale nibbles:
 * w = d / 8 (2 nibble + 1) value. */
#ifndef FORGE_FORMAT_iq2_s
#define FORGE_FORMAT_iq2_s
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq2_s 0
#define IS_SUPER_iq2_s 1
enum { BLOCK_iq2_s = 256, CODE_BYTES_iq2_s = 192, SCALE_BYTES_iq2_s = 160, SUB_iq2_s = 16, BITS_iq2_s = 7,
       OFFSET_iq2_s = 43, HAS_MIN_iq2_s = 0, DIVIDE_iq2_s = 8 };
DEVICE void codes_iq2_s(vi c[8], const uint8_t *p)
{
    plane_2_levels(c, p);
}
DEVICE const int8_t *factors_iq2_s(int8_t *room, const uint8_t *p)
{
    odd_nibbles(room, p + 32);
    return room;
}
#endif
