/* groups.h -- questions about a group of operations that the back ends for GPUs and for WebGPU share. */
#ifndef FORGEC_GPU_GROUPS_H
#define FORGEC_GPU_GROUPS_H
#include "compiler/plan/plan.h"

/* Is the weight's format one of floats (not of blocks)? */
bool gpu_takes_floats(const struct weight *w);
/* The value on which operation `index` of a chain works; for an operation on two values, the other value. */
const struct node *gpu_operand(const struct branch *b, uint32_t index);
const struct node *gpu_addend(const struct branch *b, uint32_t index);
/* Products with slices. gpu_sum_at: index in the chain of the sum over experts; n_chain: there is no sum. gpu_input_cols: columns of the
 * input in LDS or as 16-bit rows; with pieces the columns of all pieces, each padded to whole units. gpu_matrices: matrices of a stack.
 * gpu_apart: where each slice of a token finds its input (SLICES_* of templates/gpu/slices.h). */
enum gpu_slices { SLICES_NONE, SLICES_EACH, SLICES_SUM };
enum gpu_slices gpu_slices_of(const struct group *g);
uint32_t gpu_sum_at(const struct branch *b);
uint32_t gpu_input_cols(const struct group *g);
uint32_t gpu_matrices(const struct group *g);
uint32_t gpu_apart(const struct group *g);
/* Matrices of one format that are contiguous in the image are one product: branches first .. last - 1 of their group. weight: the first
 * matrix, of a pair that of the gate. rows: of the whole run, of one slice if the product has slices. */
struct gpu_run { uint32_t first, last; uint64_t rows; const struct weight *weight; };
/* Fills runs [MAX_BRANCHES] with the products of a group, without partners. Returns their number. */
uint32_t gpu_runs(const struct plan *p, const struct group *g, struct gpu_run *runs);
/* Rows of a matrix, or of one of its slices. */
uint32_t gpu_slice_rows(const struct group *g, const struct weight *w);
/* "4096 positions in a ring of 1552, window of 1024": the places of positions, and the positions that a token attends. */
const char *gpu_positions_text(struct arena *a, const struct plan *p, const struct node *attention);
/* The kind of kernel for a map, which is an operation on rows of finished values. */
enum gpu_map {
    MAP_ROWS,           /* a special function on rows or heads */
    MAP_HEADS,          /* head_normed(), then a chain of operations on single values */
    MAP_VALUES,         /* a chain of operations on single values */
};
enum gpu_map gpu_map_of(const struct group *g);
/* Does the group store V, where V is a part of the stored K? Then it has no kernel. */
bool gpu_stores_nothing(const struct plan *p, const struct group *g);
#endif
