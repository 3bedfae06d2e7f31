/* choose.h -- a CPU's list of kernels, and what it and their text both ask of the plan. */
#ifndef FORGEC_CPU_CHOOSE_H
#define FORGEC_CPU_CHOOSE_H
#include "compiler/plan/plan.h"

/* list.c: the kernels, when all places are known. */
struct kernel_list *cpu_kernels(struct arena *a, const struct plan *p);
/* In which form the product with w, one of group g, reads its input: form 0 in decode and in steps of several texts, 1 in prefill. */
enum row_form product_form(const struct plan *p, const struct group *g, const struct weight *w, uint32_t form);
/* Is attention of a prompt one in products of bfloat16 pairs, where its tokens are not too few (templates/cpu/attention_pairs.h)? */
bool attention_pairs(const struct plan *p);
/* Do steps of several texts have kernels of their own, as prefill reads other forms than decode? */
bool has_columns(const struct plan *p);
/* Is the weight image larger than the caches of the profile? */
bool streams_from_memory(const struct plan *p);
/* Steps of a prompt of up to so many tokens that take them, too. */
uint32_t few_tokens(const struct plan *p);
/* The rows that the group's stage makes of its input in such a form; NULL: it makes none. */
const struct buffer *stage_f32(const struct group_plan *gp, uint32_t form);
const struct buffer *stage_packed(const struct group_plan *gp, uint32_t form);
/* The attention that threads go on to from this projection without a barrier; NULL: none.  The projection's decode kernel makes whole
 * heads, KV head by KV head. */
const struct group *joined_attention(const struct plan *p, const struct group *g);
/* The other value of the add that is operation i of the branch's chain. */
const struct node *chain_operand(const struct branch *b, uint32_t i);
/* Does the branch end the rows of experts by their sum? */
bool branch_sum(const struct branch *b);
/* Columns of the rows that units are counted in: of slices those of one. */
uint32_t branch_cols(const struct group *g, const struct branch *b);
/* A map on the rows of experts: columns of one's; 0: it is none. */
uint32_t slice_rows(const struct group *g);
/* The tokens of a chunk expert by expert; NULL: the slices are those of heads, each of which all tokens meet. */
const struct buffer *order_of(const struct plan *p, const struct group *g);
/* The rows that a products kernel of prefill reads: those of its stage, else the value's own. */
const struct buffer *prefill_f32(const struct plan *p, const struct group *g);
const struct buffer *prefill_packed(const struct plan *p, const struct group *g);
/* Bytes from one packed row of b to the next in steps that keep such a form. */
uint64_t packed_row_stride(const struct buffer *b, uint32_t form);
#endif
