/* iq4_nl.h -- 4-bit indices into a table of signed bytes, a half-float scale per 32. */
#ifndef FORGE_FORMAT_iq4_nl
#define FORGE_FORMAT_iq4_nl
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq4_nl 0
#define IS_SUPER_iq4_nl 0
enum { BLOCK_iq4_nl = 32, CODE_BYTES_iq4_nl = 256, SCALE_BYTES_iq4_nl = 32, SUB_iq4_nl = 32, BITS_iq4_nl = 8, OFFSET_iq4_nl = DOT_FLIP,
       HAS_MIN_iq4_nl = 0 };
/* kvalues_iq4nl in ggml-common.h */
#define T(v) (int8_t)(uint8_t)((v) + DOT_FLIP)
static const int8_t table_iq4_nl[16] = { T(-127), T(-104), T(-83), T(-65), T(-49), T(-35), T(-22), T(-10),
                                         T(1), T(13), T(25), T(38), T(53), T(69), T(89), T(113) };
#undef T
DEVICE void codes_iq4_nl(vi c[8], const uint8_t *p)
{
    plane_4_table(c, p, table_iq4_nl);
}
DEVICE void scales_iq4_nl(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    scale[0] = vf_load_f16(p);
}
#endif
