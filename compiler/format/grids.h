/* grids.h -- the grids of the IQ formats: magnitudes of four (IQ3) or eight weights at a time. An entry has a digit of two bits (IQ1, IQ2)
 * or four bits (IQ3) for each column, with column 0 in the lowest bits; the digit is the index of the magnitude among the format's
 * levels. */
#ifndef FORGEC_GRIDS_H
#define FORGEC_GRIDS_H
#include <stdint.h>

extern uint16_t grid_iq1[2048];                  /* levels -1, 0, 1; IQ1_S and IQ1_M */
extern uint16_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024];       /* 8, 25, 43 */
extern uint16_t grid_iq3_xxs[256];               /* 4, 12, 20, 28, 36, 44, 52, 62 */
extern uint16_t grid_iq3_s[512];                 /* 1, 3, 5 .. 15 */

/* IQ2_XXS, IQ2_XS, IQ3_XXS: the signs of eight columns, of which seven are stored; the number of minus signs is even. */
static inline uint32_t signs_of_seven(uint32_t s)
{
    s &= 127;
    const uint32_t four = s ^ s >> 4, two = four ^ four >> 2;
    return s | ((two ^ two >> 1) & 1) << 7;
}
#endif
