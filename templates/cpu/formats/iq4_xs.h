/* iq4_xs.h -- 4-bit indices into a table of signed bytes; per 256 columns half-float d and 8 six-bit scales, offset 32. */
#ifndef FORGE_FORMAT_iq4_xs
#define FORGE_FORMAT_iq4_xs
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq4_xs 0
#define IS_SUPER_iq4_xs 1
enum { BLOCK_iq4_xs = 256, CODE_BYTES_iq4_xs = 256, SCALE_BYTES_iq4_xs = 128, SUB_iq4_xs = 32, BITS_iq4_xs = 8, OFFSET_iq4_xs = DOT_FLIP,
       HAS_MIN_iq4_xs = 0, DIVIDE_iq4_xs = 1 };
/* kvalues_iq4nl in ggml-common.h */
#define T(v) (int8_t)(uint8_t)((v) + DOT_FLIP)
static const int8_t table_iq4_xs[16] = { T(-127), T(-104), T(-83), T(-65), T(-49), T(-35), T(-22), T(-10),
                                         T(1), T(13), T(25), T(38), T(53), T(69), T(89), T(113) };
#undef T
DEVICE void codes_iq4_xs(vi c[8], const uint8_t *p)
{
    plane_4_table(c, p, table_iq4_xs);
}
DEVICE const int8_t *factors_iq4_xs(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 8);
    less_32(room, 128);
    return room;
}
#endif
