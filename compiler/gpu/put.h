/* put.h -- what the files that write kernels share: kernels.c (all of them, and operations on rows), put_values.c, put_products.c,
 * put_attention.c.  Nothing is decided
 * here: sizes, slots and places are those of the kernel, its launch and the plan. */
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
    /* of the kernel at hand */
    const struct kernel    *kernel;
    const struct launch    *launch;         /* whose weights have its slots */
    const struct group     *group;
    const struct gpu_group *gg;
    struct text             body;
    uint32_t                depth;
    uint64_t                named;          /* slots that the function at hand names: a set */
};

/* One line of the body, indented; a line that ends in "{" opens a level, one that begins with "}" closes it. */
void gpu_put(struct emitter *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "VECTOR(W_ATTN_NORM)", NULL: "0"; "WEIGHT(W_ATTN_Q)". */
const char *gpu_vector(struct emitter *e, const struct weight *w);
const char *gpu_weight(struct emitter *e, const struct weight *w);
/* A rotation's tables, "VECTOR(W_ANGLES_HIGH), VECTOR(W_ANGLES_LOW)", and what else kernels know of it. */
const char *gpu_tables(struct emitter *e, const struct node *rope);
const char *gpu_rotation(struct emitter *e, const struct node *rope);
/* Row t of a value in f32; "" where it has none. */
const char *gpu_row(struct emitter *e, struct gpu_place at, const char *t);
/* The plane of V that a store_v or attention uses. */
const char *gpu_values(struct emitter *e, const struct node *n, uint32_t heads, uint32_t rows, uint32_t head_dim);
/* Where the program speculates, of a kernel of several tokens: rows of the grid without one end. */
void gpu_put_idle(struct emitter *e);
/* The waits at the head of a kernel; with `t`, the one token of a group. */
void gpu_put_start(struct emitter *e);
void gpu_put_token(struct emitter *e);

/* DEVICE type NAME(parameters) { body } with the lines put between the two: the name of it, or of the same text under another name. */
struct function_draft { struct text body; uint32_t depth; uint64_t named; };
struct function_draft gpu_put_function_begin(struct emitter *e);
const char *gpu_put_function_end(struct emitter *e, const struct function_draft *d, const char *name, const char *type,
                                 const char *parameters);

/* What a function that takes a value of a row begins with. */
#define GPU_OF_ROW "const struct forge_kernel_args a, uint32_t t, uint32_t r"
/* put_values.c: operations from .. to - 1 of a branch's chain on y, and where y then goes: f32 rows, the 16-bit rows of a following
 * product, or the logits. */
void gpu_put_chain(struct emitter *e, const struct branch *b, uint32_t from, uint32_t to);
/* The partner's operations, on up. */
void gpu_put_partner(struct emitter *e, const struct branch *up);
void gpu_put_result(struct emitter *e, const struct node *n);
void gpu_put_values(struct emitter *e);
void gpu_put_map_heads(struct emitter *e);
void gpu_put_slices_sum(struct emitter *e);
void gpu_put_give(struct emitter *e);
void gpu_put_conv(struct emitter *e);
void gpu_put_conv_keep(struct emitter *e);
void gpu_put_recall(struct emitter *e);
/* Bytes from a slot of the state of n to the next, as an argument; 0: there is one. */
const char *gpu_slot_bytes(struct emitter *e, const struct node *n);
void gpu_put_recur(struct emitter *e);
void gpu_put_route(struct emitter *e);
/* Of a kernel that chooses its experts itself: `id`; what it leaves of the choice for others; and the numbers in LDS. */
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
/* "q4_K_2x32", "q4_K_128x64_256": the instance of a product's template. */
const char *gpu_gemv_name(struct arena *a, const struct kernel *k, const struct weight *w);
const char *gpu_gemv_matrix_name(struct arena *a, const struct kernel *k, const struct weight *w);
const char *gpu_gemm_name(struct arena *a, const struct kernel *k, const struct weight *w);
#endif
