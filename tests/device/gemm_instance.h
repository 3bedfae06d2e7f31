/* gemm_instance.h -- gemm_tmpl.c for FORMAT, which the includer has defined, in the shape TILE_TOKENS x TILE_ROWS, TILE_THREADS threads. */
#include "tests/device/gpu_format.h"
#define GEMM_TOKENS TILE_TOKENS
#define GEMM_ROWS TILE_ROWS
#define GEMM_THREADS TILE_THREADS
#include "templates/gpu/gemm_tmpl.c"
