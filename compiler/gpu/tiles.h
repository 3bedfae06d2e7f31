/* tiles.h -- the tiles of prefill's products, by the number of compute units and of the tokens of a step. */
#ifndef FORGEC_GPU_TILES_H
#define FORGEC_GPU_TILES_H
#include "compiler/base/profile.h"

/* A group's tile in tokens and rows, its threads, and the groups of a compute unit that its registers are bounded by. */
struct gemm_shape { uint32_t tokens, rows, threads, groups; };
/* It serves steps of least .. most tokens. */
struct gemm_range { struct gemm_shape shape; uint32_t least, most; };
enum { GEMM_RANGES = 3, GEMM_REFUSED = 16 };
/* Shapes that are not to be chosen, because clang found no registers for one of their kernels. */
struct gemm_refused { struct gemm_shape shapes[GEMM_REFUSED]; uint32_t n; };

/* Matrices of `rows` rows that one launch multiplies by the same tokens; pair: gate and up, `rows` of each. */
struct gemm_part { uint64_t rows; bool pair, copied; uint32_t digits; };        /* copied, digits: as in templates/gpu/gemm_sizes.h */
struct gemm_product {
    const struct gemm_part *parts;
    uint32_t                n_parts, cols;
    uint64_t                weight_bytes;
    bool                    shared;      /* out among experts; a step's tokens are then the mean of one */
};

/* Shapes for steps of 1 .. chunk tokens, at most GEMM_RANGES of them, each for so long a range that it pays; returns how many.
 * refused: or NULL. */
uint32_t gemm_plan(struct gemm_range ranges[GEMM_RANGES], const struct profile *t, const struct gemm_product *p, uint32_t chunk,
                   const struct gemm_refused *refused);
/* Adds a launch's tile of so many threads; false: it is there already (a target's own tile is taken where no other may be),
 * or there is no room. */
bool gemm_refuse(struct gemm_refused *refused, uint32_t tokens, uint32_t rows, uint32_t threads);
/* The tile with its groups: as the target's own, or as many as take the same threads. */
struct gemm_shape gemm_with_groups(const struct profile *t, struct gemm_shape s);
/* Tiles of rows of a part, in tiles of so many rows. */
uint64_t gemm_part_tiles(const struct gemm_part *part, uint32_t tile_rows);
/* Tiles of rows: the groups of every GEMM tile of tokens. */
uint64_t gemm_row_tiles(const struct gemm_product *p, const struct gemm_shape *s);
/* Sums that are wanted over those that the compute units could have done in the same number of rounds; 0 to 1. */
double gemm_fill(const struct profile *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens);
/* Estimated time of a step's product with tiles of this shape, without its launch, in microseconds: what gemm_plan compares. */
double gemm_micros(const struct profile *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens);
/* Steps of a product that are in LDS at once. */
uint32_t gemm_stages(const struct profile *t);
/* LDS bytes of a group. */
uint32_t gemm_lds(const struct profile *t, const struct gemm_product *p, const struct gemm_shape *s);
/* Can gemm_tmpl.c be compiled for the shape, and does it fit the LDS? */
bool gemm_shape_works(const struct profile *t, const struct gemm_product *p, const struct gemm_shape *s);
#endif
