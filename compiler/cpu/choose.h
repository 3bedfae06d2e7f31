/* choose.h -- the kernel list of a CPU program, and questions about the plan that both the list and the emitted text ask. */
#ifndef FORGEC_CPU_CHOOSE_H
#define FORGEC_CPU_CHOOSE_H
#include "compiler/plan/plan.h"

/* Everywhere below `form` is 0 for decode and for steps of several sequences, 1 for prefill. */

/* list.c: the kernels and launches of p, which has all places. The list lies in a. */
struct kernel_list *cpu_kernels(struct arena *a, const struct plan *p);
/* The form in which the product with w, a branch of group g, reads its input. */
enum row_form product_form(const struct plan *p, const struct group *g, const struct weight *w, uint32_t form);
/* The number of bfloat16 values that stand for each value in a prompt's attention (templates/cpu/attention_pairs.h); 0: f32. */
uint32_t attention_parts(const struct plan *p);
/* The arithmetic of products, for the program's --info: "tokens q8 and f32, prompts bf16 and f32, their attention bf16". */
const char *cpu_arithmetic(struct arena *a, const struct plan *p);
/* Do steps of several sequences have separate kernels? They do if prefill reads other forms than decode. */
bool has_columns(const struct plan *p);
/* Is the weight image larger than the caches of the target? */
bool streams_from_memory(const struct plan *p);
/* Prefill steps of at most this many tokens use the kernels of steps of several sequences, too. */
uint32_t few_tokens(const struct plan *p);
/* The rows that the group's stage makes of its input; NULL: it makes no such rows. */
const struct buffer *stage_f32(const struct group_plan *gp, uint32_t form);
const struct buffer *stage_packed(const struct group_plan *gp, uint32_t form);
/* The attention to which threads continue from projection g without a barrier; NULL: no such attention. The projection's decode kernel then
 * makes whole heads, KV head by KV head. */
const struct group *joined_attention(const struct plan *p, const struct group *g);
/* The second value of operation i of the branch's chain, an operation on two values: the value that the branch does not make. */
const struct node *chain_operand(const struct branch *b, uint32_t i);
/* Does the branch contain the sum over experts? */
bool branch_sum(const struct branch *b);
/* Columns of the rows that are divided into units; for products with slices the columns of one slice. */
uint32_t branch_cols(const struct group *g, const struct branch *b);
/* For a map on the rows of experts: columns of one expert's row; 0: g is not such a map. */
uint32_t slice_rows(const struct group *g);
/* The table of a chunk's tokens, sorted by expert; NULL: the slices belong to heads, and every token is multiplied with every slice. */
const struct buffer *order_of(const struct plan *p, const struct group *g);
/* The rows that a products kernel of prefill reads: those of its stage, or else the value itself. */
const struct buffer *prefill_f32(const struct plan *p, const struct group *g);
const struct buffer *prefill_packed(const struct plan *p, const struct group *g);
/* Bytes from one packed row of b to the next. */
uint64_t packed_row_stride(const struct buffer *b, uint32_t form);
#endif
