/* plan.h -- every size and place that the program needs: buffers in the arena, weights in the image, KV cache, units of work.
 * Writes no text. */
#ifndef FORGEC_PLAN_H
#define FORGEC_PLAN_H
#include "compiler/format/layout.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/state.h"
#include "compiler/base/target.h"

enum kv_type { KV_TYPE_F16, KV_TYPE_F32, KV_TYPE_Q8_0 };
extern const char *const kv_type_name[];        /* "f16", "f32", "q8_0", NULL */

/* Source of drafts: a look-up in the text (ngram), or the model's own block (mtp). */
enum spec_kind { SPEC_NONE, SPEC_NGRAM, SPEC_MTP };
extern const char *const spec_kind_name[];      /* "none", "ngram", "mtp", NULL */

enum {
    ATTENTION_PARTS_FROM = 128,     /* fewer positions are one range; as in attention_parts of templates/cpu/launch.h */
    ATTENTION_PARTS = 16,           /* maximum ranges of positions per KV head in decode; as in templates/cpu/launch.h */
    PREFILL_ATTENTION_TOKENS = 16,  /* query tokens that share loads of K and V */
};

enum split_kind { SPLIT_TENSOR, SPLIT_LAYER };
extern const char *const split_kind_name[];     /* "tensor", "layer", NULL */

struct plan_options {
    uint32_t     n_ctx;           /* 0: see plan_context */
    enum kv_type kv;
    bool         exact;           /* activations stay in f32 */
    bool         fast_bf16;       /* CPU with bfloat16 products: rounds to bfloat16 in prompts with F16 weights and in attention */
    uint32_t     max_threads;     /* 0: 64 */
    uint32_t     chunk;           /* tokens per prefill step; 0: the target's value */
    uint32_t     columns;         /* GPU: steps of 2 .. columns tokens compute each token as decode does; 0: they run as prefill */
    enum spec_kind spec;          /* GPU: speculative decoding, at most columns - 1 drafts per step */
    uint32_t     ranks, rank;     /* GPUs that share the model; the graph is that of `rank` (share.h, layers.h); 0: one GPU */
    enum split_kind split;        /* how they share it */
    bool         alone;           /* a step of a few tokens has one sequence, even if the kernels could serve several */
    const struct kernel_choices *choices;       /* from a plan that was read back, or NULL */
};

/* How a CPU's products read their input (docs/kernels.md): as [cols] floats, or packed: quantised, rounded to bfloat16, or as sums of two
 * bfloat16 values. */
enum row_form { ROW_F32, ROW_Q8, ROW_BF16, ROW_BF16_PARTS, ROW_FORMS };
extern const char *const row_form_name[ROW_FORMS];

/* A value in the arena: a row for each token, `stride` bytes apart. A packed row consists of `pieces` packed rows in sequence, which
 * products with slices read separately. */
struct buffer {
    const char *name;             /* of its place, the same in all layers: "attn_norm", "ffn_gate_up in q8" */
    const char *symbol;           /* of place and stride in an emitted source: "ATTN_NORM" */
    bool     exists;
    uint64_t offset, stride;      /* bytes */
    uint32_t cols, pieces;
    enum row_form form[2];        /* in decode, in prefill */
    bool     is_view;             /* it is a range of columns of another value */
};

/* The layout of a weight in the image. */
enum weight_form {
    WEIGHT_UNUSED,
    WEIGHT_VECTOR,                /* f32, padded to whole vectors of the machine */
    WEIGHT_MATRIX,                /* packed rows; a tensor with slices: packed slices in sequence */
    WEIGHT_ROWS,                  /* f32 rows, each padded to whole vectors: biases and factors of experts, learned positions */
    WEIGHT_COLUMNS,               /* f32 columns, each padded to whole vectors: the taps of a convolution */
};

struct group_plan {
    /* CPU, in decode and in prefill: do its matmuls read the input as floats, and in which packed form (ROW_F32: in none)? */
    bool          needs_f32[2];
    enum row_form packed[2];
    bool          staged[2];                /* the input must be normed or packed first; prefill has a separate kernel for it */
    struct buffer stage_f32, stage_packed;  /* prefill only; products with slices: a row for each slice and token */
    struct buffer order;                    /* choice of experts, prefill only: the tokens of each expert (templates/cpu/experts_tmpl.c) */
    uint32_t      unit_rows[MAX_BRANCHES];  /* rows of one piece of work, for each branch */
};

/* One of the graph's rotations. The rotation by a position is the rotation by position % block, followed by that by
 * block * (position / block). */
struct rotation_plan {
    uint32_t n_rot, block;
    uint64_t lo, hi;                        /* image offsets: [block][n_rot] and [n_ctx / block + 1][n_rot] f32, cos and sin of each pair */
    uint64_t lo_far, hi_far;                /* bytes from these to the tables for long texts (far of struct node); 0: no such tables */
    uint64_t bytes;                         /* of all its tables, from lo on */
    uint64_t table;                         /* CPU: arena offset of [chunk][n_rot] f32, cos and sin of the step's positions */
};

/* The table of a rotation as a launch binds it: of the positions in a block, or of the blocks. */
struct binding rotation_table(const struct rotation_plan *r, bool of_blocks);

struct gpu_plan;                    /* compiler/gpu/choose.h */
struct web_plan;                    /* compiler/web/choose.h */

struct plan {
    const struct fused   *fused;
    const struct model   *model;
    const struct target *target;
    struct plan_options   options;          /* defaults filled in */
    uint32_t              chunk;            /* tokens per prefill step */
    uint32_t              max_logits;       /* maximum number of tokens with logits per step */
    struct buffer        *f32, *packed;     /* [n_nodes]: the forms in which a value is kept */
    struct group_plan    *groups;           /* [fused->n_groups] */
    struct gpu_plan      *gpu;              /* NULL: not a GPU target */
    struct web_plan      *web;              /* NULL: not a WebGPU target */
    uint64_t              parts_offset;     /* arena: partial results of decode attention */
    uint64_t              scratch_offset, scratch_stride;   /* arena: scratch memory, one part for each thread */
    uint64_t              scratch_y;        /* offset in the scratch of row results (after staging rows or GEMM panels) */
    uint64_t              arena_bytes;
    const struct arena_plan *places;        /* of values in the arena, with their lifetimes */
    struct kernel_list   *kernels;          /* kernels and launches that the emitters print */
    struct state         *states;           /* [n_states], in the order of the layers */
    uint32_t              n_states;
    uint64_t              state_bytes, state_bytes_per_token;     /* of a sequence; growth per position */
    enum weight_form     *weight_form;      /* [n_weights] */
    uint64_t             *weight_offset;    /* [n_weights] in the image, in the order of first use; UINT64_MAX: not in the image */
    bool                 *weight_held;      /* [n_weights] its rows are a part of another weight's rows and lie there */
    struct rotation_plan *rotations;        /* [fused->graph->n_rotations] */
    uint32_t              n_tensors;        /* of plan_tensors */
    uint64_t              image_hashes;     /* offset in the image of the tensors' hashes, after all tensors (runtime/model/abi.h) */
    uint64_t              image_bytes;
    uint64_t              read_bytes;       /* weight bytes that the launches of one decode step read */
};

enum { CHUNK_MOST = 4096 };                 /* the same limit as for prefill_chunk of a target */

/* o->n_ctx if it is not 0, else the context that the model was trained for, at most 8192. */
uint32_t plan_context(const struct model *m, const struct plan_options *o);
/* The plan of a program for graph g and target p; it lies in a. Dies if the target's kernels cannot serve the model or the options. */
struct plan *plan_make(struct arena *a, const struct graph *g, enum fuse_level level, const struct target *p,
                       const struct plan_options *o);
/* bytes, rounded up to a multiple of `to`. */
uint64_t plan_align(uint64_t bytes, uint64_t to);
/* The packing in which the target's kernels read a matrix. */
struct packing plan_packing(const struct plan *p, const struct weight *w);
/* Bytes of a tensor in the image. */
uint64_t plan_weight_bytes(const struct plan *p, const struct weight *w);
/* Bytes of one slice of a matrix, or of the whole matrix if it has no slices. */
uint64_t plan_slice_bytes(const struct plan *p, const struct weight *w);
/* Floats from one row of WEIGHT_ROWS, or one column of WEIGHT_COLUMNS, to the next. */
uint64_t plan_weight_stride(const struct plan *p, const struct weight *w);
/* Bytes of the weight of n that one token reads. */
uint64_t plan_bytes_read(const struct plan *p, const struct node *n);
/* GROUP_SLICES: the number of slices that a token is multiplied with. */
uint32_t plan_slices(const struct group *g);
/* The number of slots of a state that every token replaces: one for the state without drafts and one for the state after each draft of a
 * step. plan_slots_of: the same for the state of n; `previous` in the block that drafts has one slot more at the end, for the row that a
 * draft leaves to the next draft. */
uint32_t plan_slots(const struct plan *p);
uint32_t plan_slots_of(const struct plan *p, const struct node *n);
/* Does each slice of a product with slices read its own part of the input row? */
bool plan_reads_pieces(const struct node *product);
/* The contents of the image, sorted by offset: tables of rotations, then packed tensors; [p->n_tensors]. There are only zeros between them.
 * weight NULL: the tables of a rotation. */
struct plan_tensor { const char *name; const struct weight *weight; uint32_t rotation; uint64_t offset, bytes; };
const struct plan_tensor *plan_tensors(struct arena *a, const struct plan *p);
/* A weight as a launch binds it whole. */
struct binding plan_binding(const struct plan *p, const struct weight *w);
/* Predicted time to read this many bytes at the target's bandwidth, in microseconds; 0 if the bandwidth is not known. */
double plan_micros(const struct plan *p, uint64_t bytes);
/* Positions that attention reads, the token's own included; 0: all positions, also if the window covers the whole context. */
uint32_t plan_window(const struct plan *p, const struct node *n);
/* Does attention n, or the attention that reads store n of V, find V in the first columns of the one head of K, as in latent attention?
 * Then V has no state and no store. Not on a CPU. */
bool plan_values_in_keys(const struct plan *p, const struct node *n);
/* The state that a store_k, store_v, attention, conv, previous or recur uses. If K and V have separate states, it is that of K, and the
 * next one is that of V. Dies if there is no state. */
const struct state *plan_state(const struct plan *p, const struct node *n);
/* Bytes from the state that plan_state returns to the separate state of V; 0 if V has none. */
uint64_t plan_values_at(const struct plan *p, const struct node *n);
/* Sets in k the state bytes that a launch of the node reads with a full context, and its operations. For attention, part says whether the
 * launch computes the scores, the sum of V, or both. Operations are counted as in the definition (as for products): exponentials and the
 * like are not counted. */
enum attention_part { ATTENTION_SCORES = 1, ATTENTION_SUM = 2, ATTENTION_ALL = 3 };
void plan_count_attention(const struct plan *p, const struct node *n, enum attention_part part, struct kernel *k);
void plan_count_sequence(const struct plan *p, const struct node *n, struct kernel *k);
/* The last group that needs the value in its place in the arena. */
uint32_t plan_last_reader(const struct plan *p, const struct node *n);
/* Does the value leave its kernel through the arena? Values in the KV cache and logits do not. */
bool plan_needs_buffer(const struct plan *p, const struct node *n);
/* "3.attn_norm" -> "attn_norm" */
const char *plan_value_name(const struct node *n);
#endif
