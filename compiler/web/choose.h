/* choose.h -- what a plan for WebGPU holds beside its list of kernels: places of values, and products.  Its kernels are WGSL
 * (templates/webgpu); kernels.c writes them, emit.c what gpu.js is told. */
#ifndef FORGEC_WEB_CHOOSE_H
#define FORGEC_WEB_CHOOSE_H
#include "compiler/gpu/groups.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"

/* What a kernel binds of a run's matrices, or of the embedding's: so many rows from `first` on, or of a stack so many matrices; a pair's of
 * both.  launch: which of the group's launches, each with as many bindings as kernels of WebGPU have. */
struct web_part { uint32_t run, launch; uint64_t first, n; };
/* Where decode's products find their input: as int8 or floats in workgroup memory; from_arena: floats that have no room there. */
struct web_group {
    struct gpu_run   runs[MAX_BRANCHES];
    uint32_t         n_runs;
    struct web_part *parts;                          /* [n_parts], by launch */
    uint32_t         n_parts, n_launches;
    bool             ints, floats, from_arena;
    struct buffer    normed;                         /* where the input's norm has a kernel of its own; else it does not exist */
    struct buffer    staged, rows_in;                /* prefill: the input as int8, and normed as floats */
    struct buffer    rows;                           /* of a sum of experts: all of their rows */
    struct buffer    list;                           /* prefill: the tokens of each expert (grouped.wgsl), whose rows are staged then */
};

struct web_plan {
    struct web_group *groups;                        /* [n_groups] */
    uint64_t          logits;                        /* arena: [logits_rows][n_out] f32, of a model of embeddings its rows */
    uint32_t          logits_rows;
    uint64_t          maxima, scores, sample;        /* arena: attention's maxima and totals, scores in steps; scratch of sampling */
};

/* Where rows of a value lie: from `offset` of the arena on.  NONE: in the state; LOGITS: from the first token that has them. */
enum web_form { WEB_NONE, WEB_ROWS, WEB_LOGITS };
struct web_place { const char *name; enum web_form form; uint64_t offset, stride; uint32_t cols; };
struct web_place web_place_of(const struct plan *p, const struct node *n);
struct web_place web_place_in(const struct node *n, const struct buffer *b);
/* The rows that the group's products read. */
struct web_place web_input(const struct plan *p, const struct group *g);
/* Does the product's kernel norm its input itself? */
bool web_norms(const struct plan *p, const struct group *g);
/* Steps of more tokens have tiles of prefill, where there are some. */
enum { WEB_FEW = 8 };
/* Row tiles of a part of prefill's products. */
uint32_t web_tiles(const struct plan *p, const struct group *g, const struct web_part *part);
/* The part's weight: of a run the first branch's; partner: of its pair; NULL: it has none. */
const struct weight *web_part_weight(const struct plan *p, const struct group *g, const struct web_part *part, bool partner);
/* The part of weight w: its place in the image, its bytes. */
uint64_t web_part_offset(const struct plan *p, const struct group *g, const struct web_part *part, const struct weight *w);
uint64_t web_part_bytes(const struct plan *p, const struct group *g, const struct web_part *part);
/* Rows of a branch of the run that the part has: the first of them, how many.  Of experts: of each of them. */
struct web_rows { uint64_t first, n; };
struct web_rows web_part_rows(const struct group *g, const struct gpu_run *r, const struct web_part *part, uint32_t branch);
/* Is it all of its run? */
bool web_part_is_whole(const struct plan *p, const struct group *g, const struct web_part *part);
/* Is it the launch's? */
bool web_part_of(const struct plan *p, const struct group *g, const struct web_part *part, const struct launch *l);
/* The f32 rows that prefill's products of floats read. */
struct web_place web_input_floats(const struct plan *p, const struct group *g);
/* Does decode's attention norm, rotate and store the token's heads itself? */
bool web_turns(const struct plan *p, const struct group *g);
/* Splits of decode's attention. */
uint32_t web_splits(const struct plan *p, const struct node *attention);
#endif
