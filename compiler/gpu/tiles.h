/* tiles.h -- chooses the tiles of prefill's products for the number of compute units and of a step's tokens. */
#ifndef FORGEC_GPU_TILES_H
#define FORGEC_GPU_TILES_H
#include "compiler/base/target.h"

/* A workgroup's tile in tokens and rows, its threads, and the workgroups of a compute unit that its registers must allow. */
struct gemm_shape { uint32_t tokens, rows, threads, groups; };
/* A shape that serves steps of least .. most tokens. */
struct gemm_range { struct gemm_shape shape; uint32_t least, most; };
enum { GEMM_RANGES = 3, GEMM_REFUSED = 16 };
/* Shapes that must not be chosen, because one of their kernels did not fit the registers when clang compiled it. */
struct gemm_refused { struct gemm_shape shapes[GEMM_REFUSED]; uint32_t n; };

/* A matrix of `rows` rows; one launch multiplies all parts by the same tokens. pair: gate and up, with `rows` rows each. */
struct gemm_part { uint64_t rows; bool pair, copied; uint32_t digits; };        /* copied, digits: as in templates/gpu/gemm_sizes.h */
struct gemm_product {
    const struct gemm_part *parts;
    uint32_t                n_parts, cols;
    uint64_t                weight_bytes;
    bool                    shared;      /* the tokens are divided among experts: a step's tokens are then the mean of an expert */
};

/* Fills ranges with at most GEMM_RANGES shapes that together serve steps of 1 .. chunk tokens. A further range must save enough time to
 * pay. Returns the number of ranges. refused may be NULL. */
uint32_t gemm_plan(struct gemm_range ranges[GEMM_RANGES], const struct target *t, const struct gemm_product *p, uint32_t chunk,
                   const struct gemm_refused *refused);
/* Adds a tile to the refused ones. False if it is already there (the target's own tile is used even if refused when there is no other), or
 * if the list is full. */
bool gemm_refuse(struct gemm_refused *refused, uint32_t tokens, uint32_t rows, uint32_t threads);
/* The tile with its workgroups per compute unit: those of the target's own tile, or as many as have the same number of threads. */
struct gemm_shape gemm_with_groups(const struct target *t, struct gemm_shape s);
/* The number of tiles for the rows of a part. */
uint64_t gemm_part_tiles(const struct gemm_part *part, uint32_t tile_rows);
/* The number of tiles for all rows: workgroups for each tile of tokens. */
uint64_t gemm_row_tiles(const struct gemm_product *p, const struct gemm_shape *s);
/* The needed sums divided by the sums that all compute units could compute in the same number of rounds; 0 to 1. */
double gemm_fill(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens);
/* Estimated microseconds of a step's product with tiles of this shape, without its launch. gemm_plan compares these. */
double gemm_micros(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens);
/* Stages of a product that LDS holds at once. */
uint32_t gemm_stages(const struct target *t);
/* LDS bytes of a workgroup. */
uint32_t gemm_lds(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s);
/* Can gemm_tmpl.c be compiled for the shape, and does the shape fit the LDS? */
bool gemm_shape_works(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s);
#endif
