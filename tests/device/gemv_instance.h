/* gemv_instance.h -- the decode products of FORMAT for kernels_gemv.c. */
#include "tests/device/gpu_format.h"
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/gemv_tmpl.c"
#if GEMV_OF(UNIT_COLS, FORMAT) == 64
ALL_DIGITS(FORMAT)
#else
KERNELS(FORMAT, 1)
#endif
