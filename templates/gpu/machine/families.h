/* families.h -- the families of GPUs that kernels are written for, and their numbers: for the kernels (FAMILY, defined by a machine file)
 * and for forgec (struct target).  Constant expressions, for #if and host C too.  A new family needs a number and a column. */
#ifndef FORGE_FAMILIES_H
#define FORGE_FAMILIES_H

#define FAMILY_RDNA3  0u                         /* and RDNA 3.5: gfx1100 .. gfx1103, gfx1150 .. gfx1153 */
#define FAMILY_CDNA3  1u                         /* gfx942 */
#define FAMILY_HOPPER 2u                         /* sm_90, sm_90a; later GPUs run its PTX */
#define N_FAMILIES    3u
#define FAMILY_OF(family, rdna3, cdna3, hopper) ((family) == FAMILY_RDNA3 ? (rdna3) : (family) == FAMILY_CDNA3 ? (cdna3) : (hopper))

/* Lanes of a wave. */
#define FAMILY_WAVE(family)             FAMILY_OF(family, 32u, 64u, 32u)

/* ---- the matrix unit: tiles of 16 rows, 16 columns and 16 k, one wave per tile ---- */
/* Elements of the tile of sums per lane. */
#define FAMILY_MMA_ACC(family)          (256u / FAMILY_WAVE(family))
/* 32-bit words of an operand tile per lane; how many lanes hold each of its elements. */
#define FAMILY_MMA_WORDS(family)        FAMILY_OF(family, 8u, 2u, 4u)
#define FAMILY_MMA_COPIES(family)       (FAMILY_MMA_WORDS(family) * FAMILY_WAVE(family) / 128u)
/* Products whose operands a lane reads from LDS with one load of 16 bytes. */
#define FAMILY_MMA_WIDE(family)         FAMILY_OF(family, 1u, 2u, 1u)
/* 1: the registers of a tile of sums, rounded to f16, are an operand A, with the tile's columns as k; 0: they become an operand B, with its
 * rows as k. */
#define FAMILY_MMA_SUMS_ARE_A(family)   FAMILY_OF(family, 0, 0, 1)
/* 1: the vector unit issues products and is busy during them. */
#define FAMILY_MMA_IS_VECTOR(family)    FAMILY_OF(family, 1, 0, 0)
/* 1: there are products of bytes (mma_bytes32). */
#define FAMILY_MMA_BYTES(family)        FAMILY_OF(family, 0, 0, 1)

/* ---- memory ---- */
/* 1: copies go from global memory to LDS without passing through registers. */
#define FAMILY_COPIES_REACH_LDS(family) FAMILY_OF(family, 0, 0, 1)

/* ---- how kernels use it ---- */
/* gemm_tmpl.c: most waves that share the columns of a step.  2 pays if the matrix unit is fast relative to LDS. */
#define FAMILY_GEMM_K_WAVES(family)     FAMILY_OF(family, 1u, 2u, 1u)
/* Prefill attention, heads of up to 128 dimensions: tiles of 16 rows per wave, as many as registers hold. */
#define FAMILY_PREFILL_TILES(family)    FAMILY_OF(family, 1u, 2u, 2u)
/* Positions at a time if copies pass through registers and heads have more than 128 dimensions. */
#define FAMILY_PREFILL_FEW(family)      FAMILY_OF(family, 16u, 32u, 32u)
#endif
