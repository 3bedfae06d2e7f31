/* gemm_instance.h -- gemm_tmpl.c for FORMAT in the tiles of cases.h. */
#include "gpu_format.h"
#define GEMM_TOKENS TILE_TOKENS
#define GEMM_ROWS TILE_ROWS
#define GEMM_THREADS TILE_THREADS
#include "templates/gpu/gemm_tmpl.c"
