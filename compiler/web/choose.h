/* choose.h -- what a plan for WebGPU holds beside its list of kernels: places of values, and products.  Its kernels are WGSL
 * (templates/webgpu); kernels.c writes them, emit.c what gpu.js is told. */
#ifndef FORGEC_WEB_CHOOSE_H
#define FORGEC_WEB_CHOOSE_H
#include "compiler/gpu/groups.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"

/* Where decode's products find their input: as int8 or floats in workgroup memory; from_arena: floats that have no room there. */
struct web_group {
    struct gpu_run runs[MAX_BRANCHES];
    uint32_t       n_runs;
    bool           ints, floats, from_arena;
    struct buffer  normed;                           /* where the input's norm has a kernel of its own; else it does not exist */
    struct buffer  staged, rows_in;                  /* prefill: the input as int8, and normed as floats */
    struct buffer  rows;                             /* of a sum of experts: all of their rows */
};

struct web_plan {
    struct web_group *groups;                        /* [n_groups] */
    uint64_t          logits;                        /* arena: [logits_rows][n_out] f32 */
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
/* Row tiles of run i of prefill's products. */
uint32_t web_tiles(const struct group *g, const struct gpu_run *r);
/* The f32 rows that prefill's products of floats read. */
struct web_place web_input_floats(const struct plan *p, const struct group *g);
/* Does decode's attention norm, rotate and store the token's heads itself? */
bool web_turns(const struct plan *p, const struct group *g);
/* Splits of decode's attention. */
uint32_t web_splits(const struct plan *p, const struct node *attention);
#endif
