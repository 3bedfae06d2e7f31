/* choose.h -- the parts of a WebGPU plan that its kernel list does not contain: places of values, and products. The kernels are WGSL
 * (templates/webgpu): kernels.c writes them, and emit.c writes their description for gpu.js. */
#ifndef FORGEC_WEB_CHOOSE_H
#define FORGEC_WEB_CHOOSE_H
#include "compiler/gpu/groups.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"

/* The part of a run's matrices, or of the embedding table, that one binding has: n rows from row `first` on, or n matrices of a stack; for
 * a pair, of both matrices. A matrix larger than a binding has several parts. launch: number of the group's launch that uses the part; a
 * launch has no more parts than a WebGPU kernel has bindings. */
struct web_part { uint32_t run, launch; uint64_t first, n; };
/* WebGPU-specific planning of a group. ints, floats: decode's products read their input as int8 or f32 in workgroup memory; from_arena: the
 * f32 input does not fit there and is read from the arena. */
struct web_group {
    struct gpu_run   runs[MAX_BRANCHES];
    uint32_t         n_runs;
    struct web_part *parts;                          /* [n_parts], by launch */
    uint32_t         n_parts, n_launches;
    bool             ints, floats, from_arena;
    struct buffer    normed;                         /* the normed input; exists only if a separate kernel norms it */
    struct buffer    staged, rows_in;                /* prefill: the input as int8, and the normed input as f32 */
    struct buffer    rows;                           /* sum of experts: the rows of all experts */
    struct buffer    list;                           /* prefill: the tokens of each expert (grouped.wgsl), in whose order rows are staged */
};

struct web_plan {
    struct web_group *groups;                        /* [n_groups] */
    uint64_t          logits;                        /* arena: [logits_rows][n_out] f32; embedding models: their result rows */
    uint32_t          logits_rows;
    uint64_t          maxima, scores, sample;        /* arena: attention's maxima and totals; scores of attention in steps; sampling */
};

/* The rows of a value: from byte `offset` of the arena on, stride bytes apart. NONE: in the state; LOGITS: rows begin with the first token
 * with logits. */
enum web_form { WEB_NONE, WEB_ROWS, WEB_LOGITS };
struct web_place { const char *name; enum web_form form; uint64_t offset, stride; uint32_t cols; };
struct web_place web_place_of(const struct plan *p, const struct node *n);
struct web_place web_place_in(const struct node *n, const struct buffer *b);
/* The rows that the group's products read. */
struct web_place web_input(const struct plan *p, const struct group *g);
/* Does the product's kernel norm its input itself? */
bool web_norms(const struct plan *p, const struct group *g);
/* Steps of more tokens than this use tiles, if the product has them. */
enum { WEB_FEW = 8 };
/* The number of row tiles of a part in prefill. */
uint32_t web_tiles(const struct plan *p, const struct group *g, const struct web_part *part);
/* The weight of a part: the weight of the run's first branch, or of its partner; NULL: no partner. */
const struct weight *web_part_weight(const struct plan *p, const struct group *g, const struct web_part *part, bool partner);
/* The byte offset in the image of the part of weight w, and its bytes. */
uint64_t web_part_offset(const struct plan *p, const struct group *g, const struct web_part *part, const struct weight *w);
struct binding web_part_binding(const struct plan *p, const struct group *g, const struct web_part *part, const struct weight *w);
/* The rows of a branch of run r that the part has: n rows from row `first` of the branch on. With slices: all rows of each slice. */
struct web_rows { uint64_t first, n; };
struct web_rows web_part_rows(const struct group *g, const struct gpu_run *r, const struct web_part *part, uint32_t branch);
/* Is the part the whole run? */
bool web_part_is_whole(const struct plan *p, const struct group *g, const struct web_part *part);
/* Does launch l use the part? */
bool web_part_of(const struct plan *p, const struct group *g, const struct web_part *part, const struct launch *l);
/* The f32 rows that prefill's products of floats read. */
struct web_place web_input_floats(const struct plan *p, const struct group *g);
/* Is attention four kernels over scores in memory? It is without fusion, for heads of more than ATTENTION_DIM_MOST columns, and for heads
 * of V that are wider than those of K: the fused kernels have their threads and workgroup memory from K. */
bool web_in_steps(const struct plan *p, const struct node *attention);
/* Does decode's attention norm, rotate and store the token's heads itself? */
bool web_turns(const struct plan *p, const struct group *g);
/* The number of splits of decode's attention. */
uint32_t web_splits(const struct plan *p, const struct node *attention);
#endif
