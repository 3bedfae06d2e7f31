/* choose.h -- what a plan for a GPU holds beside its list of kernels: forms and places of values, and products.  Below that, what the files
 * that make the list share: choose.c (all of it, and operations on rows), choose_products.c, choose_attention.c, values.c. */
#ifndef FORGEC_GPU_CHOOSE_H
#define FORGEC_GPU_CHOOSE_H
#include "compiler/plan/cost.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"
#include "groups.h"
#include "tiles.h"

/* Decode's attention: groups of a span of each KV head, spans at most, positions of one at least, rows in flight, digits
 * on the matrix unit, threads, groups of a compute unit that registers are bounded by; do the splits run as a cluster? */
struct attention_shape { uint32_t splits, spans, span, rows, digits, threads, resident; bool cluster; };

/* What a plan for a GPU knows of a group; see docs/gpu.md. */
struct gpu_group {
    struct gpu_run runs[MAX_BRANCHES];
    uint32_t       n_runs;
    bool           needs_acts, needs_floats;        /* decode: forms of the input in LDS */
    uint64_t       floats_at;                       /* where the second of them begins */
    bool           sums16;
    bool           needs_f16, needs_bf16;           /* prefill: forms of its rows */
    struct buffer  stage_f16, stage_bf16;           /* where the input is normed or converted to, if its maker did not */
    struct buffer  picked, n_picked;                /* prefill, of a choice: entries of each expert, how many (templates/gpu/slices.h) */
    struct buffer  rows;                            /* prefill, of a sum of experts: rows of all of them, f32 */
    struct attention_shape attention;               /* in decode */
    /* decode: the product's kernel chooses its experts itself, and the router has none */
    bool           chooses;
    uint64_t       route_at;                        /* where in its LDS */
    uint32_t       chooser;                         /* of a router: the group that does; 0: it has its own kernel */
};
struct gpu_plan {
    struct gpu_group *groups;                       /* [n_groups] */
    struct buffer    *f16, *bf16;                   /* [n_nodes]: prefill values kept in the form the products read */
    uint32_t          digits;                       /* of activations in decode's integer products: 8 bits each; 3, as exact as floats,
                                                     * with --exact */
    struct gemm_refused refused;                    /* tiles of prefill products that did not fit the registers (build.c) */
    uint64_t          logits;                       /* arena: [logits_rows][n_vocab] f32 */
    uint32_t          logits_rows;
    uint64_t          parts_ml, zero, zero_bytes, sample_counters, draft_words, sample_scratch;
    uint64_t          scores;                       /* attention in steps: [n_head][chunk][n_ctx] f32 */
    bool              has_slices, has_steps, has_more;     /* a product with slices; attention in steps; another with a cap or sinks */
    bool              has_several;                  /* tokens of a step of a few may be of several sequences */
    uint64_t          exchange_half;                /* bytes of the memory into which GPUs that share the model store, for every second
                                                     * exchange (templates/gpu/exchange.h); 0: there is one GPU */
    uint64_t          exchange_flags, exchange_values;        /* where flags and rows of a prompt begin in it */
};

/* Where a kernel finds rows of a value, or leaves them.  NONE: in no row, as what goes into the KV cache; LOGITS: f32, rows from the first
 * token that has them; GIVEN: f32 in the memory of exchanges, stride floats a row. */
enum gpu_form { FORM_NONE, FORM_F32, FORM_F16, FORM_BF16, FORM_LOGITS, FORM_GIVEN };
struct gpu_place { const char *name, *symbol; enum gpu_form form; uint64_t offset, stride; uint32_t cols; };
/* Where the kernel that makes n leaves it. */
struct gpu_place gpu_written(const struct plan *p, const struct node *n, bool prefill);
/* Where others than products of prefill find it: in f32. */
struct gpu_place gpu_read(const struct plan *p, const struct node *n);
/* The rows that prefill's products of a group read; bf16: those in that form. */
struct gpu_place gpu_stage(const struct plan *p, const struct group *g, bool bf16);
/* Of a value that is given one by one: where in the memory of exchanges, rows that it has at most there; whether they begin with the first
 * token that has logits.  So decode's kernels give, and prefill's logits; other rows of prefill have a place of their own, from which a
 * kernel gives whole pieces. */
struct gpu_place gpu_given(const struct plan *p, const struct node *given);
uint32_t gpu_given_rows(const struct plan *p, const struct node *given);
bool gpu_gives_logits(const struct node *given);
/* Of GPUs in a row: bytes of the values that pass in a step, by operation `send` or `receive`, those before one of them or, NULL, all; and
 * of all memory of exchanges that a GPU has. */
uint64_t gpu_passed_bytes(const struct plan *p, const struct node *up_to, enum op op);
uint64_t gpu_exchange_room(const struct plan *p);
/* Does the kernel take rows of a prompt in pieces? */
bool gpu_takes_rows(const struct kernel *k);
/* Does decode's product of the branch only add to the sum?  Then it asks early for what it adds. */
bool gpu_only_adds(const struct branch *b);
/* Is its 16-bit form bf16? */
bool gpu_takes_bf16(const struct weight *w);
/* The rows of a value, or of the tokens that experts have, in a buffer of the group's own. */
struct gpu_place gpu_own(const struct node *n, const struct buffer *b);
/* Does the kernel of the product choose its experts itself?  Only that of decode. */
static inline bool gpu_chooses(const struct gpu_group *gg, const struct kernel *k) { return gg->chooses && !k->prefill && !k->grid_tokens; }
/* Is a group's product, in prefill or decode, made by the template of decode's? */
bool gpu_by_gemv(const struct plan *p, bool prefill);
/* How that template is made: kernel.h tells what the numbers are.  Why a group's product cannot be made so, or NULL. */
struct gemv_shape { uint32_t rows, lanes, threads, resident, depth; };
const char *gpu_gemv_misfit(struct arena *a, const struct plan *p, const struct group *g, const struct gemv_shape *s);

/* Products on the matrix unit, a few tokens at once: LDS of a group (templates/gpu/gemv_sizes.h, gemv_matrix_tmpl.c), and bytes of a stage
 * of weights. */
struct matrix_lds { uint64_t x_bytes, parts_at, exchange_at, ring_at, ring_bytes, bytes; };
struct matrix_lds gpu_matrix_lds(const struct plan *p, const struct group *g, const struct kernel *k);
uint64_t gpu_matrix_stage(const struct plan *p, const struct weight *w);

/* What the plan of tiles needs to know of a group's products; weight_bytes: of all of them; parts: what the result points to. */
struct gemm_product gpu_product(const struct plan *p, const struct group *g, uint64_t weight_bytes, struct gemm_part parts[MAX_BRANCHES]);

/* choose_attention.c: why decode's attention cannot be made so; NULL: it can. */
const char *gpu_attention_misfit(struct arena *a, const struct plan *p, const struct node *n, const struct attention_shape *s);
/* Whether products of prefill's attention with so many threads are those of four waves. */
bool gpu_attention_in_fours(const struct plan *p, uint32_t digits, uint32_t head_dim, uint32_t threads);
/* work.c: cost_work_of() of a GPU. */
struct cost_work gpu_work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);

/* Makes plan->kernels, once more where tiles were refused. */
void gpu_plan_kernels(struct arena *a, struct plan *p);

/* ---- between the files that choose ---- */

struct chooser {
    struct arena       *arena;
    struct plan        *plan;
    struct kernel_list *list;
    /* the group at hand */
    const struct group *group;
    const struct gpu_group *gg;
    uint32_t            index;
    enum kernel_steps   steps;
    bool                prefill, tail;       /* prefill: steps are; values then have the forms that its products read */
};

/* values.c: all of the arena. */
void choose_values(struct arena *a, struct plan *p);
/* choose_attention.c: of each attention, before there are values. */
void choose_splits(struct arena *a, struct plan *p);
/* choose_products.c: forms, before there are values; matrices that are one product, once they have places. */
void choose_products(struct plan *p);

/* Is it the group that writes logits? */
bool choose_writes_logits(const struct chooser *c);
struct kernel_draft choose_begin(const struct chooser *c, enum kernel_template template, const char *name);
/* A kernel of one token per group. */
struct kernel_draft choose_begin_rows(const struct chooser *c, enum kernel_template template, const char *name);
/* Dies when it needs more LDS than there is. */
void choose_end(const struct chooser *c, struct kernel_draft *d);
/* What a plan that was read back sets; or NULL. */
const struct kernel_choice *choose_given(const struct chooser *c, enum kernel_template template, uint32_t nth);
/* Weights of a launch, by their names in the source: "W_ATTN_Q".  vector: w or NULL; a text for `does`: "weight W_ATTN_NORM",
 * "no weight"; its bytes count as read, as a row of each rotation table's do.  Those of matrices are the caller's to count. */
const char *choose_weight(const struct chooser *c, struct kernel_draft *d, const struct weight *w);
const char *choose_vector(const struct chooser *c, struct kernel_draft *d, const struct weight *w);
/* The rotation tables take two slots; n: NULL, nothing rotates. */
const char *choose_rotation(const struct chooser *c, struct kernel_draft *d, const struct node *n);
/* "q f32 [256] at 4096, stride 1024" */
const char *choose_text(const struct chooser *c, struct gpu_place at);

void choose_linear(const struct chooser *c);
void choose_attention(const struct chooser *c);
/* choose_slices.c */
void choose_route(const struct chooser *c);
/* What the choice of a router's node is, as text. */
const char *choose_route_text(const struct chooser *c, struct kernel_draft *d, const struct node *n);
void choose_slices_sum(const struct chooser *c);
/* choose.c: what a chain does from its operation `from` on to before `to`. */
void choose_chain(const struct chooser *c, struct kernel_draft *d, struct text *t, const struct branch *b, uint32_t from, uint32_t to);
#endif
