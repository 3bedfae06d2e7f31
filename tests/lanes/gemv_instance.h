/* gemv_instance.h -- kernels of FORMAT for check_gemv.c: two shapes, and all of them for some formats. */
#include "tests/device/gpu_format.h"
#define ALL_SHAPES_f32 1
#define ALL_SHAPES_q8_0 1
#define ALL_SHAPES_q4_K 1
#define ROWS 2
#define LANES 32
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 2, 32)
#define ROWS 4
#define LANES 8
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 4, 8)
#if GEMV_OF(ALL_SHAPES, FORMAT)
#define ROWS 1
#define LANES 16
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 1, 16)
#define ROWS 3
#define LANES 16
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 3, 16)
#define ROWS 3
#define LANES 32
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 3, 32)
#define ROWS 8
#define LANES 8
#define DEPTH 3
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 8, 8)
#define ROWS 1
#define LANES WAVE
#include "templates/gpu/gemv_tmpl.c"
#if WAVE == 64
CHECK_KERNEL(FORMAT, 1, 64)
#define ROWS 4
#define LANES 64
#define DEPTH 2
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 4, 64)
#else
CHECK_KERNEL(FORMAT, 1, 32)
#define ROWS 4
#define LANES 32
#define DEPTH 2
#include "templates/gpu/gemv_tmpl.c"
CHECK_KERNEL(FORMAT, 4, 32)
#endif
#endif
