/* iq2_s.h -- packed and read as IQ2_XS. The grid of IQ2_XS is smaller in the file and has fewer signs. */
#ifndef FORGE_GPU_iq2_s
#define FORGE_GPU_iq2_s
#include "templates/gpu/formats/iq2_xs.h"

#define ROW_BYTES_iq2_s ROW_BYTES_iq2_xs
#define UNIT_COLS_iq2_s UNIT_COLS_iq2_xs
#define SUMS16_iq2_s    SUMS16_iq2_xs
#define LOADS_iq2_s     LOADS_iq2_xs
#define unit_iq2_s      unit_iq2_xs
#define load_iq2_s      load_iq2_xs
#define pin_iq2_s       pin_iq2_xs
#define dot_iq2_s       dot_iq2_xs
#define decode_iq2_s    decode_iq2_xs
#endif
