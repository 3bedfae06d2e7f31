/* gemm_sizes.h -- sizes of the prefill product that plan and kernels share.  Constant expressions, for host C too. */
#ifndef FORGE_GEMM_SIZES_H
#define FORGE_GEMM_SIZES_H

/* LDS rows are 64 columns of 16 bits: 128 bytes, swizzled instead of padded, so that two groups of 128 x 128 with one stage fit into AMD's 64 KiB. */
#define GEMM_STEP_COLS 64
#define GEMM_ROW_LDS   128

/* Slots of weights: float formats (f16, bf16) are copied, stage by stage; packed units are decoded unit_steps (1 or 2) steps ahead, while as many slots are
 * read; f32 one step ahead.  f32 weights take two planes, a high and a low f16. */
#define GEMM_WEIGHT_SLOTS(stages, copied, weight_digits, unit_steps) \
    ((copied) || (stages) < 2 ? (stages) : (weight_digits) == 2 ? 2 : 2 * (unit_steps))

/* LDS bytes of a group.  tokens, rows: of its tile; stages: slots of the ring (GEMM_STAGES);
 * weight_digits: 2 for f32, else 1; copied: 1 for f16 and bf16, else 0; unit_steps: GEMM_UNIT_STEPS. */
#define GEMM_LDS_BYTES(tokens, rows, stages, weight_digits, copied, unit_steps) \
    (GEMM_ROW_LDS * ((stages) * (tokens) + GEMM_WEIGHT_SLOTS(stages, copied, weight_digits, unit_steps) * (weight_digits) * (rows)))

/* Stages where copies go to LDS by themselves (sm_90), and where they pass through registers (AMD; 2 halves the barriers, if LDS allows). */
#define GEMM_STAGES_ASYNC     3
#define GEMM_STAGES_REGISTERS 1
#endif
