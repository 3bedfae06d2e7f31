/* choose.h -- the parts of a GPU plan that its kernel list does not contain: forms and places of values, and products. Below that, the
 * declarations shared by the files that make the list: choose.c (the list, operations on rows), choose_products.c, choose_attention.c,
 * choose_slices.c, values.c. */
#ifndef FORGEC_GPU_CHOOSE_H
#define FORGEC_GPU_CHOOSE_H
#include "compiler/plan/cost.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"
#include "groups.h"
#include "tiles.h"

/* Decode's attention. splits: workgroups that share a span of each KV head; spans: maximum number of spans; span: minimum positions of a
 * span; rows: rows of K or V that a lane has in flight; digits: on the matrix unit, 0: f32; threads: of a workgroup; resident: workgroups
 * per compute unit for which the registers must suffice; cluster: the splits run as a cluster. */
struct attention_shape { uint32_t splits, spans, span, rows, digits, threads, resident; bool cluster; };

/* GPU-specific planning of a group; see docs/gpu_internals.md. */
struct gpu_group {
    struct gpu_run runs[MAX_BRANCHES];
    uint32_t       n_runs;
    bool           needs_acts, needs_floats;        /* decode: forms of the input in LDS */
    uint64_t       floats_at;                       /* byte offset in LDS of the floats */
    bool           sums16;                          /* a format needs sums over 16 activations (SUMS16) */
    bool           needs_f16, needs_bf16;           /* prefill: forms of its input rows */
    struct buffer  stage_f16, stage_bf16;           /* the normed or converted input, if its producer does not store that form */
    struct buffer  picked, n_picked;                /* prefill, choice of experts: entries of each expert, and their number (slices.h) */
    struct buffer  rows;                            /* prefill, sum of experts: f32 rows of all experts */
    struct attention_shape attention;               /* in decode */
    /* decode: the product's kernel chooses its experts itself, and the router has no kernel */
    bool           chooses;
    uint64_t       route_at;                        /* byte offset of the choice in the kernel's LDS */
    uint32_t       chooser;                         /* router: the group that makes its choice; 0: it has a kernel of its own */
    uint32_t       series_first, series_last;       /* the groups of its series (series.c); both are the group itself if it is alone */
    uint32_t       strand;                          /* its strand in the series, from 0 */
};
struct gpu_plan {
    struct gpu_group *groups;                       /* [n_groups] */
    struct buffer    *f16, *bf16;                   /* [n_nodes]: prefill values kept in the form the products read */
    uint32_t          digits;                       /* digits of activations in decode's integer products, 8 bits each; 3 with --exact,
                                                     * which is as exact as f32 */
    struct gemm_refused refused;                    /* tiles of prefill products that did not fit the registers (build.c) */
    uint64_t          logits;                       /* arena: [logits_rows][n_vocab] f32 */
    uint32_t          logits_rows;
    uint64_t          parts_ml, zero, zero_bytes, sample_counters, draft_words, sample_scratch;     /* arena: see put_areas of emit.c */
    uint64_t          scores;                       /* arena: scores of attention in steps, [n_head][chunk][n_ctx] f32 */
    bool              has_slices, has_steps, has_more;     /* products with slices; attention in steps; other attention with cap or sinks */
    bool              has_wide, has_views;          /* attention with wide heads; attention in steps where V is a part of K */
    bool              has_several;                  /* a step of a few tokens may have tokens of several sequences */
    uint64_t          collective_half;              /* bytes of each half of the memory of collectives; collectives use the halves in turn
                                                     * (templates/gpu/collective.h); 0: one GPU */
    uint64_t          collective_flags, collective_values;    /* byte offsets in a half of flags and rows of a prompt */
};

/* The place where a kernel reads or writes the rows of a value. NONE: no rows, as for values in the KV cache; LOGITS: f32, rows from the
 * first token with logits on; GIVEN: f32 in the memory of collectives, stride in floats. Otherwise offset and stride are bytes. */
enum gpu_form { FORM_NONE, FORM_F32, FORM_F16, FORM_BF16, FORM_LOGITS, FORM_GIVEN };
struct gpu_place { const char *name, *symbol; enum gpu_form form; uint64_t offset, stride; uint32_t cols; };
/* The place where the kernel that makes n stores it. */
struct gpu_place gpu_written(const struct plan *p, const struct node *n, bool prefill);
/* The place, in f32, where all readers except prefill's products find n. */
struct gpu_place gpu_read(const struct plan *p, const struct node *n);
/* The rows that prefill's products of a group read, in bf16 or in f16. */
struct gpu_place gpu_stage(const struct plan *p, const struct group *g, bool bf16);
/* A value that is pushed value by value (by decode's kernels, and for prefill's logits): its place in the memory of collectives, the
 * maximum number of rows there, and whether its rows begin with the first token with logits. Other rows of prefill have a place in the
 * arena, from which a separate kernel pushes whole pieces. */
struct gpu_place gpu_given(const struct plan *p, const struct node *given);
uint32_t gpu_given_rows(const struct plan *p, const struct node *given);
bool gpu_pushes_logits(const struct node *given);
/* Pipeline parallel. gpu_passed_bytes: bytes of the values that a step passes by operation op (`send` or `receive`) before node up_to, or
 * of all if it is NULL. gpu_collective_room: bytes of a GPU's memory of collectives, also if tensor parallel. */
uint64_t gpu_passed_bytes(const struct plan *p, const struct node *up_to, enum op op);
uint64_t gpu_collective_room(const struct plan *p);
/* Does the kernel receive rows of a prompt in pieces? */
bool gpu_takes_rows(const struct kernel *k);
/* Does the branch add something to decode's sums, and do nothing else with them? Then the kernel loads the addends early. */
bool gpu_only_adds(const struct branch *b);
/* Does prefill's product with w read bf16 rows (else f16)? */
bool gpu_takes_bf16(const struct weight *w);
/* The rows of a value, or of the tokens of experts, in buffer b of the group. */
struct gpu_place gpu_own(const struct node *n, const struct buffer *b);
/* Does the kernel of the product choose its experts itself? Only decode's kernel can. */
static inline bool gpu_chooses(const struct gpu_group *gg, const struct kernel *k) { return gg->chooses && !k->prefill && !k->grid_tokens; }
/* Does decode's template (gemv) make a group's product, in prefill or in decode? */
bool gpu_by_gemv(const struct plan *p, bool prefill);
/* Parameters of that template (see kernel.h). gpu_gemv_misfit: why they do not fit a group's product, or NULL if they do. */
struct gpu_gemv_shape { uint32_t rows, lanes, threads, resident, depth; };
const char *gpu_gemv_misfit(struct arena *a, const struct plan *p, const struct group *g, const struct gpu_gemv_shape *s);

/* Products on the matrix unit for a few tokens at once: layout in bytes of a workgroup's LDS (templates/gpu/gemv_sizes.h,
 * gemv_matrix_tmpl.c), and bytes of a stage of weights. */
struct matrix_lds { uint64_t x_bytes, parts_at, exchange_at, ring_at, ring_bytes, bytes; };
struct matrix_lds gpu_matrix_lds(const struct plan *p, const struct group *g, const struct kernel *k);
uint64_t gpu_matrix_stage(const struct plan *p, const struct weight *w);

/* Is attention computed in four steps over scores in memory? It is without fusion and for heads that no other kernel can compute. */
bool gpu_in_steps(const struct plan *p, const struct node *attention);
/* series.c: the strands of a series, given the index of its first group; 1 for a group that is alone. */
uint32_t gpu_strands(const struct plan *p, uint32_t first);
/* Does group i, a norm or a map, read a value that group `made` makes? */
bool gpu_reads_group(const struct plan *p, uint32_t i, uint32_t made);

/* A group's products as gemm_plan() needs them. weight_bytes: of all products; parts: filled, and the result points to it. */
struct gemm_product gpu_product(const struct plan *p, const struct group *g, uint64_t weight_bytes, struct gemm_part parts[MAX_BRANCHES]);

/* wide.c: attention with heads of more than 256 items, or with heads of K and V of different sizes. gpu_is_wide: has n the kernels of
 * templates/gpu/attention_wide.h? gpu_wide: its sizes: columns of K and of V; view: V is the first columns of K; query heads and rows of a
 * workgroup, workgroups of a split, positions of a step, threads; of prefill: tokens of a workgroup, workgroups of these tokens, parts of
 * their positions at most, bytes of LDS, whether four waves multiply together. gpu_wide_lds: bytes of LDS in decode. */
struct gpu_wide {
    uint32_t dim, value_dim, view, heads, rows, units, positions, threads, prefill_tokens, prefill_groups, prefill_splits, prefill_lds;
    bool     fours;
};
bool gpu_is_wide(const struct plan *p, const struct node *n);
struct gpu_wide gpu_wide(const struct plan *p, const struct node *n);
uint32_t gpu_wide_lds(const struct plan *p, const struct gpu_wide *w, uint32_t splits, bool cluster);
/* Of decode's attention in one kernel: workgroups of a split; positions that a workgroup takes at a time; bytes in the arena for a token:
 * sums, their maxima and totals, counters. */
struct attention_areas { uint64_t parts, ml, counters; };
uint32_t gpu_attention_units(const struct plan *p, const struct node *n);
uint32_t gpu_attention_block(const struct plan *p, const struct node *n, uint32_t threads);
struct attention_areas gpu_attention_areas(const struct plan *p, const struct node *n, const struct attention_shape *s);
/* The same of a step of prefill with wide heads, for the parts of positions. */
struct attention_areas gpu_wide_parts(const struct plan *p, const struct node *n);

/* choose_attention.c: why shape s does not fit decode's attention n; NULL: it fits. */
const char *gpu_attention_misfit(struct arena *a, const struct plan *p, const struct node *n, const struct attention_shape *s);
/* Does prefill's attention with this many threads multiply with four waves together? */
bool gpu_attention_in_fours(const struct plan *p, uint32_t digits, uint32_t head_dim, uint32_t threads);
/* work.c: cost_work_of() for a GPU. */
struct cost_work gpu_work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);

/* Makes p->kernels; called again after tiles were refused. */
void gpu_plan_kernels(struct arena *a, struct plan *p);

/* ---- declarations for the files that make the list ---- */

struct gpu_chooser {
    struct arena       *arena;
    struct plan        *plan;
    struct kernel_list *list;
    /* the current group */
    const struct group *group;
    const struct gpu_group *gg;
    uint32_t            index;
    enum kernel_steps   steps;
    bool                prefill, tail;       /* prefill: steps is STEPS_PREFILL; values then have the forms that its products read */
    struct kernel_draft *series;             /* the kernel of the current series, or NULL: choose_begin and choose_end continue it */
};

/* values.c: gives everything in the arena its place. */
void choose_values(struct arena *a, struct plan *p);
/* choose_attention.c: the shape of decode's attention in each group; before choose_values. */
void choose_splits(struct arena *a, struct plan *p);
/* choose_products.c: forms of inputs, runs of matrices and choices of experts; before choose_values. */
void choose_products(struct plan *p);
/* series.c: which groups are a series; before choose_values. */
void choose_series(struct plan *p);

/* Does the group write logits? */
bool choose_writes_logits(const struct gpu_chooser *c);
/* A norm or map of its own, or as a part of c->series. */
void choose_norm(const struct gpu_chooser *c);
void choose_map(const struct gpu_chooser *c);
/* series.c: the kernel of the series that begins with the current group. */
void choose_series_kernel(struct gpu_chooser *c);
struct kernel_draft choose_begin(const struct gpu_chooser *c, enum kernel_template template, const char *name);
/* A kernel with one token for each workgroup. */
struct kernel_draft choose_begin_rows(const struct gpu_chooser *c, enum kernel_template template, const char *name);
/* Dies if the kernel needs more LDS than the target has. */
void choose_end(const struct gpu_chooser *c, struct kernel_draft *d);
/* The nth choice for the template and the current group in a plan that was read back; or NULL. */
const struct kernel_choice *choose_given(const struct gpu_chooser *c, enum kernel_template template, uint32_t nth);
/* Weights of a launch by their names in the source, "W_ATTN_Q". choose_vector: a text for `does`, "weight W_ATTN_NORM", or "no weight" if w
 * is NULL. The bytes of a vector count as read, and so does a row of each rotation table; the caller counts the bytes of matrices. */
const char *choose_weight(const struct gpu_chooser *c, struct kernel_draft *d, const struct weight *w);
const char *choose_vector(const struct gpu_chooser *c, struct kernel_draft *d, const struct weight *w);
/* The same for the two tables of a rotation, which take two slots; n NULL: no rotation. */
const char *choose_rotation(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n);
/* "q f32 [256] at 4096, stride 1024" */
const char *choose_text(const struct gpu_chooser *c, struct gpu_place at);

void choose_linear(const struct gpu_chooser *c);
void choose_attention(const struct gpu_chooser *c);
/* choose_slices.c */
void choose_route(const struct gpu_chooser *c);
/* The choice of a router's node as text for `does`. */
const char *choose_route_text(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n);
void choose_slices_sum(const struct gpu_chooser *c);
/* choose.c: appends operations from .. to - 1 of a chain to t. */
void choose_chain(const struct gpu_chooser *c, struct kernel_draft *d, struct text *t, const struct branch *b, uint32_t from, uint32_t to);
#endif
