/* gemv_instance.h -- kernels of FORMAT for gemv_kernels.c: in the tiles of cases.h, or with -DMODELS as in a program. */
#include "gpu_format.h"
#ifdef MODELS
#define SLOT_ROWS GEMV_MODEL_ROWS
#define SLOT_LANES GEMV_MODEL_LANES
#include "gemv_tile.h"
GEMV_MODELS(MODEL_1)
#if GEMV_OF(UNIT_COLS, FORMAT) == 64
GEMV_MODELS(MODEL_2)
#endif
#else
#define SLOT_ROWS 2
#define SLOT_LANES 32
#include "gemv_tile.h"
#define SLOT_ROWS 4
#define SLOT_LANES 8
#include "gemv_tile.h"
#if GEMV_OF(GEMV_MORE_TILES, FORMAT)
#define SLOT_ROWS 1
#define SLOT_LANES 16
#include "gemv_tile.h"
#define SLOT_ROWS 3
#define SLOT_LANES 16
#include "gemv_tile.h"
#define SLOT_ROWS 3
#define SLOT_LANES 32
#include "gemv_tile.h"
#define SLOT_ROWS 8
#define SLOT_LANES 8
#define SLOT_DEPTH 3
#include "gemv_tile.h"
#if WAVE == 64
#define SLOT_ROWS 1
#define SLOT_LANES 64
#include "gemv_tile.h"
#define SLOT_ROWS 4
#define SLOT_LANES 64
#else
#define SLOT_ROWS 1
#define SLOT_LANES 32
#include "gemv_tile.h"
#define SLOT_ROWS 4
#define SLOT_LANES 32
#endif
#define SLOT_DEPTH 2
#include "gemv_tile.h"
#endif
#endif
