/* slices_instance.h -- products with slices of FORMAT for slices_kernels.c. */
#include "gpu_format.h"
#define ROWS 2
#define LANES 8
#define SLICES_EACH 1
#include "templates/gpu/gemv_tmpl.c"
#define ROWS 3
#define LANES 16
#define SLICES_SUM 1
#include "templates/gpu/gemv_tmpl.c"
#define GEMM_TOKENS 32
#define GEMM_ROWS 64
#define GEMM_THREADS 128
#define GEMM_SLICES 1
#include "templates/gpu/gemm_tmpl.c"
