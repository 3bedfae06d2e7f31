/* plan.h -- every size and place the program needs: buffers in the arena, weights in the image, KV cache, units of work.
 * Writes no text. */
#ifndef FORGEC_PLAN_H
#define FORGEC_PLAN_H
#include "compiler/format/layout.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/state.h"
#include "compiler/base/profile.h"

enum kv_type { KV_TYPE_F16, KV_TYPE_F32, KV_TYPE_Q8_0 };
extern const char *const kv_type_name[];        /* "f16", "f32", "q8_0" */

/* Who drafts tokens: a look-up in the text, or the model's own block. */
enum spec_kind { SPEC_NONE, SPEC_NGRAM, SPEC_MTP };
extern const char *const spec_kind_name[];      /* "none", "ngram", "mtp" */

enum {
    ATTENTION_PARTS_FROM = 128,     /* positions; fewer are one range: attention_parts of templates/cpu/launch.h */
    ATTENTION_PARTS = 16,           /* ranges of positions one KV head can be cut into in decode; as in templates/cpu/launch.h */
    PREFILL_ATTENTION_TOKENS = 16,  /* query tokens that share loads of K and V */
};

enum split_kind { SPLIT_TENSOR, SPLIT_LAYER };
struct plan_options {
    uint32_t     n_ctx;           /* 0: see plan_context */
    enum kv_type kv;
    bool         exact;           /* float activations */
    uint32_t     max_threads;     /* 0: 64 */
    uint32_t     chunk;           /* tokens per prefill step; 0: the target's */
    uint32_t     columns;         /* GPU: steps of 2 to so many tokens are decode's for each of them; 0: prefill's */
    enum spec_kind spec;          /* GPU: how it speculates, columns - 1 drafts a step at most */
    uint32_t     ranks, rank;     /* GPUs that share the model, whose graph is that of this one (share.h, layers.h); 0: it is not shared */
    enum split_kind split;        /* how */
    bool         alone;           /* a step of a few tokens is of one sequence, also where the kernels could have several */
    const struct kernel_choices *choices;       /* of a plan that was read back, or NULL */
};

/* How a CPU's products read their input (docs/kernels.md): [cols] floats, or packed: quantised, or rounded to bfloat16. */
enum row_form { ROW_F32, ROW_Q8, ROW_BF16, ROW_FORMS };
extern const char *const row_form_name[ROW_FORMS];

/* A value in the arena: rows of tokens, `stride` bytes apart.  Packed rows: `pieces` of them, one behind the other, that products with
 * slices read each for itself. */
struct buffer {
    const char *name;             /* of its place, the same in all layers: "attn_norm", "ffn_gate_up in q8" */
    const char *symbol;           /* of place and stride in an emitted source: "ATTN_NORM" */
    bool     exists;
    uint64_t offset, stride;
    uint32_t cols, pieces;
    enum row_form form[2];        /* in decode, in prefill */
    bool     is_view;             /* of columns of another value's rows */
};

/* How a weight lies in the image. */
enum weight_form {
    WEIGHT_UNUSED,
    WEIGHT_VECTOR,                /* f32, whole vectors of the machine */
    WEIGHT_MATRIX,                /* packed rows; of one of slices: packed slices, one behind the other */
    WEIGHT_ROWS,                  /* f32 rows, each of whole vectors: what experts add, and positions */
    WEIGHT_COLUMNS,               /* f32 columns, each of whole vectors: the taps of a convolution */
};

struct group_plan {
    /* CPU, in decode and in prefill: do its matmuls read the input as floats, and packed in which form (ROW_F32: they do not)? */
    bool          needs_f32[2];
    enum row_form packed[2];
    bool          staged[2];                /* the input must be normed or packed first: in prefill by a kernel of its own */
    struct buffer stage_f32, stage_packed;  /* prefill only; of products with slices: a row for each slice and token */
    struct buffer order;                    /* of a choice, prefill only: which tokens each expert has (templates/cpu/experts_tmpl.c) */
    uint32_t      unit_rows[MAX_BRANCHES];  /* rows one piece of work covers */
};

/* One of the graph's rotations.  The rotation by a position is that by block * (position / block) after that by position % block. */
struct rotation_plan {
    uint32_t n_rot, block;
    uint64_t lo, hi;                        /* image: [block][n_rot] and [n_ctx / block + 1][n_rot] f32, cos and sin of each pair */
    uint64_t bytes;                         /* of both, from lo on */
    uint64_t table;                         /* arena of a CPU: [chunk][n_rot] f32 of the step's positions */
};

struct gpu_plan;                    /* compiler/gpu/choose.h */
struct web_plan;                    /* compiler/web/choose.h */

struct plan {
    const struct fused   *fused;
    const struct model   *model;
    const struct profile *profile;
    struct plan_options   options;          /* defaults filled in */
    uint32_t              chunk;            /* tokens per prefill step */
    uint32_t              max_logits;       /* of them with logits */
    struct buffer        *f32, *packed;     /* [n_nodes]: the forms in which a value is kept */
    struct group_plan    *groups;           /* [fused->n_groups] */
    struct gpu_plan      *gpu;              /* NULL: no GPU, */
    struct web_plan      *web;              /* NULL: not WebGPU */
    uint64_t              parts_offset;     /* arena: partial results of decode attention */
    uint64_t              scratch_offset, scratch_stride;   /* arena, per thread */
    uint64_t              scratch_y;        /* offset in the scratch of row results (after staging rows or GEMM panels) */
    uint64_t              arena_bytes;
    const struct arena_plan *places;        /* of values in the arena, with their lifetimes */
    struct kernel_list   *kernels;          /* what emit prints */
    struct state         *states;           /* [n_states], in the order of the layers */
    uint32_t              n_states;
    uint64_t              state_bytes, state_bytes_per_token;     /* of a sequence; that a position adds */
    enum weight_form     *weight_form;      /* [n_weights] */
    uint64_t             *weight_offset;    /* [n_weights] in the image; image order = order of first use */
    bool                 *weight_held;      /* [n_weights] its rows are some of another weight's and lie among those */
    struct rotation_plan *rotations;        /* [fused->graph->n_rotations] */
    uint32_t              n_tensors;        /* plan_tensors */
    uint64_t              image_hashes;     /* image: behind the tensors, their hashes (runtime/model/abi.h) */
    uint64_t              image_bytes;
    uint64_t              read_bytes;       /* of the image, per decoded token: by the launches of decode */
};

enum { CHUNK_MOST = 4096 };                 /* as prefill_chunk of a target */

/* The context asked for, else what the model was trained for, at most 8192. */
uint32_t plan_context(const struct model *m, const struct plan_options *o);
/* The program for g and p.  Dies when the model or the options are beyond what the target's kernels are made for. */
struct plan *plan_make(struct arena *a, const struct graph *g, enum fuse_level level, const struct profile *p,
                       const struct plan_options *o);
uint64_t plan_align(uint64_t bytes, uint64_t to);
/* How the target's kernels read a matrix; bytes of a tensor in the image. */
struct packing plan_packing(const struct plan *p, const struct weight *w);
uint64_t plan_weight_bytes(const struct plan *p, const struct weight *w);
/* Of one slice, or of the whole where it is none. */
uint64_t plan_slice_bytes(const struct plan *p, const struct weight *w);
/* Floats from one row, or column, of WEIGHT_ROWS or WEIGHT_COLUMNS to the next. */
uint64_t plan_weight_stride(const struct plan *p, const struct weight *w);
/* What one token reads of the weight of n. */
uint64_t plan_bytes_read(const struct plan *p, const struct node *n);
/* Of a group of products with slices: how many of them a token meets, and whether each has a row of the input for itself. */
uint32_t plan_slices(const struct group *g);
/* Of a state that every token replaces: its bytes are as many slots, one for the state after each draft of a step, and one without.
 * plan_slots_of: of that of n, where what a draft's own row leaves for the next draft has one behind them. */
uint32_t plan_slots(const struct plan *p);
uint32_t plan_slots_of(const struct plan *p, const struct node *n);
bool plan_reads_pieces(const struct node *product);
/* What the image holds, in its order: the rotations' tables, then tensors as packed; [p->n_tensors], and nothing but zeros between them.
 * weight NULL: the tables of a rotation. */
struct plan_tensor { const char *name; const struct weight *weight; uint32_t rotation; uint64_t offset, bytes; };
const struct plan_tensor *plan_tensors(struct arena *a, const struct plan *p);
/* Predicted time of reading so many bytes, in microseconds, at the target's bandwidth; 0 where that is not known. */
double plan_micros(const struct plan *p, uint64_t bytes);
/* Positions that attention reads, the token's own included; 0: all, also where the window hides none of the context. */
uint32_t plan_window(const struct plan *p, const struct node *n);
/* The state that a store_k, store_v, attention, conv or recur uses; of K and V in states of their own that of K, and V's is the next. */
const struct state *plan_state(const struct plan *p, const struct node *n);
/* Bytes from the state that plan_state gives to that of V, where it is one of its own; else 0. */
uint64_t plan_values_at(const struct plan *p, const struct node *n);
/* What a launch of the attention n, of a recur or of a conv reads of the state with a full context, and computes, into k; of attention
 * its scores, the sum of V, or both.  Operations are those of the definition, as of products: exponentials and the like are not counted. */
enum attention_part { ATTENTION_SCORES = 1, ATTENTION_SUM = 2, ATTENTION_ALL = 3 };
void plan_count_attention(const struct plan *p, const struct node *n, enum attention_part part, struct kernel *k);
void plan_count_sequence(const struct plan *p, const struct node *n, struct kernel *k);
/* The last group that needs the value in its place. */
uint32_t plan_last_reader(const struct plan *p, const struct node *n);
/* A value that leaves its kernel through the arena (the KV cache and the logits do not). */
bool plan_needs_buffer(const struct plan *p, const struct node *n);
/* "3.attn_norm" -> "attn_norm" */
const char *plan_value_name(const struct node *n);
#endif
