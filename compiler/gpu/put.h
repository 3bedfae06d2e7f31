/* put.h -- declarations shared by the files that write kernels: kernels.c (the list, operations on rows), put_values.c, put_products.c,
 * put_attention.c. They decide nothing: sizes, slots and places come from the kernel, its launch and the plan. */
#ifndef FORGEC_GPU_PUT_H
#define FORGEC_GPU_PUT_H
#include "choose.h"

struct gpu_function { const char *name, *body; };

struct emitter {
    struct arena           *arena;
    const struct plan      *plan;
    struct text            *out;
    struct gpu_function    *functions;
    uint32_t                n_functions, function_capacity;
    /* of the current kernel */
    const struct kernel    *kernel;
    const struct launch    *launch;         /* its weights have the kernel's slots */
    const struct group     *group;
    const struct gpu_group *gg;
    struct text             body;
    uint32_t                depth;          /* of open braces */
    uint64_t                named;          /* set of slots that the current function names */
    bool                    series;         /* the group is a part of a kernel that has begun: `t` is declared */
};

/* Appends one indented line to the body. A line that ends with "{" opens a level, a line that begins with "}" closes it. */
void gpu_put(struct emitter *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "VECTOR(W_ATTN_NORM)", "0" if w is NULL; "WEIGHT(W_ATTN_Q)". */
const char *gpu_vector(struct emitter *e, const struct weight *w);
const char *gpu_weight(struct emitter *e, const struct weight *w);
/* Arguments of a rotation: the tables for token t, "VECTOR(W_ANGLES_HIGH), VECTOR(W_ANGLES_LOW)", and its other arguments. */
const char *gpu_tables(struct emitter *e, const struct node *rope, const char *t);
const char *gpu_rotation(struct emitter *e, const struct node *rope);
/* Row t of a value in f32; "" if it has no rows. */
const char *gpu_row(struct emitter *e, struct gpu_place at, const char *t);
/* The plane of V that a store_v or attention uses. */
const char *gpu_values(struct emitter *e, const struct node *n, uint32_t heads, uint32_t rows, uint32_t head_dim);
/* In programs that speculate, a kernel for several tokens: workgroups without a token return. */
void gpu_put_idle(struct emitter *e);
/* The waits at the start of a kernel; gpu_put_token also declares `t`, the token of a workgroup. */
void gpu_put_start(struct emitter *e);
void gpu_put_token(struct emitter *e);

/* Between the two calls: lines for each head of a row, which is `item`; a wave has one head at a time. */
void gpu_put_each_head(struct emitter *e, uint32_t heads);
void gpu_put_heads_end(struct emitter *e);

/* Writes DEVICE type NAME(parameters) { body }, where the body is the lines put between the two calls. Returns the function's name. If a
 * function with the same text exists under another name, nothing is written and that name is returned. */
struct function_draft { struct text body; uint32_t depth; uint64_t named; };
struct function_draft gpu_put_function_begin(struct emitter *e);
const char *gpu_put_function_end(struct emitter *e, const struct function_draft *d, const char *name, const char *type,
                                 const char *parameters);

/* The first parameters of a function that gets a value of a row. */
#define GPU_OF_ROW "const struct forge_kernel_args a, uint32_t t, uint32_t r"
/* put_values.c: operations from .. to - 1 of a branch's chain on y; gpu_put_result stores y: in f32 rows, in 16-bit rows for a later
 * product, or as logits. */
void gpu_put_chain(struct emitter *e, const struct branch *b, uint32_t from, uint32_t to);
/* The partner's operations, on up. */
void gpu_put_partner(struct emitter *e, const struct branch *up);
void gpu_put_result(struct emitter *e, const struct node *n);
void gpu_put_values(struct emitter *e);
void gpu_put_map_heads(struct emitter *e);
void gpu_put_slices_sum(struct emitter *e);
void gpu_put_push(struct emitter *e);
void gpu_put_conv(struct emitter *e);
void gpu_put_conv_keep(struct emitter *e);
void gpu_put_recall(struct emitter *e);
/* Bytes from a slot of the state of n to the next, as an argument; 0: one slot. */
const char *gpu_slot_bytes(struct emitter *e, const struct node *n);
void gpu_put_recur(struct emitter *e);
void gpu_put_route(struct emitter *e);
/* A kernel that chooses its experts itself. gpu_put_route_group makes the choice and declares `id`, the number of the expert that the lane
 * stands for; gpu_put_route_keep stores the choice for other kernels; gpu_route_ids returns the place of the experts' numbers in LDS. */
void gpu_put_route_group(struct emitter *e, const struct node *route);
void gpu_put_route_keep(struct emitter *e, const struct node *route);
const char *gpu_route_ids(struct emitter *e);
void gpu_put_picked(struct emitter *e);

void gpu_put_gemv(struct emitter *e);
void gpu_put_gemv_columns(struct emitter *e);
void gpu_put_gemv_matrix(struct emitter *e);
void gpu_put_gemm(struct emitter *e);
void gpu_put_stage(struct emitter *e, bool bf16);
void gpu_put_heads(struct emitter *e);
void gpu_put_attention_decode(struct emitter *e);
void gpu_put_attention_prefill(struct emitter *e);
void gpu_put_attention_step(struct emitter *e);
/* The instance of a product's template: "q4_K_2x32", "q4_K_128x64_256". */
const char *gpu_gemv_name(struct arena *a, const struct kernel *k, const struct weight *w);
const char *gpu_gemv_matrix_name(struct arena *a, const struct kernel *k, const struct weight *w);
const char *gpu_gemm_name(struct arena *a, const struct kernel *k, const struct weight *w);
#endif
