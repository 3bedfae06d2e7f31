/* places.h -- the first steps of a WebGPU plan: values and scratch memory get their places in the arena, matrices are divided into parts
 * that fit a binding. choose.c chooses the kernels for them; choose.h declares what the later stages read. */
#ifndef FORGEC_WEB_PLACES_H
#define FORGEC_WEB_PLACES_H
#include "choose.h"

/* A buffer of rows of cols f32, without a place. */
struct buffer web_buffer(uint32_t cols);
/* Writes the parts of the group's matrices, or of its embedding table, and the number of its launches into wg. Dies if a tile of rows, or
 * one matrix of a stack, does not fit a binding. */
void web_plan_parts(struct arena *a, const struct plan *p, const struct group *g, struct web_group *wg);
/* The number of rows of the part's run, or of matrices of its stack: all parts together. */
uint64_t web_part_most(const struct plan *p, const struct group *g, const struct web_part *part);
/* Places the rows of all values, then, behind them, the scratch memory of attention and sampling, and the logits. */
void web_place_values(struct arena *a, struct plan *p);
void web_place_areas(struct plan *p);
/* The number of workgroups that sample. */
uint32_t web_sample_groups(const struct plan *p);
#endif
