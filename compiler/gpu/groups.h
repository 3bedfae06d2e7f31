/* groups.h -- what the kernels of all GPUs, WebGPU's too, ask of a group of operations. */
#ifndef FORGEC_GPU_GROUPS_H
#define FORGEC_GPU_GROUPS_H
#include "compiler/plan/plan.h"

/* Are its weights no blocks? */
bool gpu_takes_floats(const struct weight *w);
/* The value that operation `index` of a chain works on; and of an operation of two values in it the other one. */
const struct node *gpu_operand(const struct branch *b, uint32_t index);
const struct node *gpu_addend(const struct branch *b, uint32_t index);
/* Products with slices.  Where in the chain experts' rows are summed; n_chain: nowhere.  Columns of the input in LDS or as 16-bit rows:
 * of all pieces, each filled up to whole units.  Matrices of a stack; where each slice of a token finds its input (SLICES_* of
 * templates/gpu/slices.h). */
enum gpu_slices { SLICES_NONE, SLICES_EACH, SLICES_SUM };
enum gpu_slices gpu_slices_of(const struct group *g);
uint32_t gpu_sum_at(const struct branch *b);
uint32_t gpu_input_cols(const struct group *g);
uint32_t gpu_matrices(const struct group *g);
uint32_t gpu_apart(const struct group *g);
/* Matrices of one format that lie one behind the other in the image are one product: branches first .. last - 1 of their group;
 * of a pair the gate's.  rows: of it; with slices of one of them. */
struct gpu_run { uint32_t first, last; uint64_t rows; const struct weight *weight; };
/* The products of a group, partners left out, into runs [MAX_BRANCHES]; returns how many. */
uint32_t gpu_runs(const struct plan *p, const struct group *g, struct gpu_run *runs);
/* Rows of a matrix, or of one of its slices. */
uint32_t gpu_slice_rows(const struct group *g, const struct weight *w);
/* "4096 positions in a ring of 1552, window of 1024": where they lie, and which of them a token attends. */
const char *gpu_positions_text(struct arena *a, const struct plan *p, const struct node *attention);
/* Is attention computed in steps over scores in memory, because no other kernel takes such heads? */
bool gpu_in_steps(const struct plan *p, const struct node *attention);
/* An operation on rows that is no chain of operations on single values: how its kernel is made. */
enum gpu_map {
    MAP_ROWS,           /* a function of rows or heads of its own */
    MAP_HEADS,          /* heads_normed(), then a chain of values */
    MAP_VALUES,         /* a chain of values */
};
enum gpu_map gpu_map_of(const struct group *g);
#endif
