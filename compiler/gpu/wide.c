/* wide.c -- attention with wide heads, or with heads of K and V of different sizes (templates/gpu/attention_wide.h): which attention it
 * is, and its sizes. Also sizes that this attention and the usual attention have in common. */
#include "choose.h"
#include "compiler/base/family.h"
#include "templates/gpu/attention_wide_sizes.h"

static uint32_t per_kv(const struct node *n) { return n->heads / n->inputs[1]->heads; }

/* Workgroups that a step of a whole chunk has for each part of the positions. */
static uint32_t prefill_units(const struct plan *p, const struct gpu_wide *w)
{
    return w->prefill_groups * ((p->chunk + w->prefill_tokens - 1) / w->prefill_tokens);
}

/* Parts of the positions in a step of a whole chunk. Workgroups take turns on the compute units, and those of the last turn leave some of
 * them without work; more and smaller workgroups leave fewer. */
static uint32_t prefill_splits(const struct plan *p, const struct node *n, const struct gpu_wide *w)
{
    enum { MOST = 4 };
    const uint32_t units = prefill_units(p, w), among = p->target->compute_units;
    uint32_t best = 1;
    if (!w->fours || plan_window(p, n) || !n->attr.causal || p->options.n_ctx < 2 * WIDE_FOURS_LEAST) return 1;
    double least = (units + among - 1) / among;
    for (uint32_t splits = 2; splits <= MOST; splits++) {
        const double turns = (double)((units * splits + among - 1) / among) / splits;       /* of the time for all positions */
        if (turns > 0.9 * least) continue;
        least = turns;
        best = splits;
    }
    return best;
}

struct gpu_wide gpu_wide(const struct plan *p, const struct node *n)
{
    const uint32_t kv = (uint32_t)p->options.kv, heads_kv = n->inputs[1]->heads, family = p->target->family;
    struct gpu_wide w = { .dim = n->attr.head_dim, .value_dim = n->inputs[2]->attr.head_dim, .view = plan_values_in_keys(p, n),
                          .heads = WIDE_HEADS(n->heads, heads_kv), .rows = WIDE_ROWS,
                          .units = WIDE_GROUPS(n->heads, heads_kv), .threads = WIDE_THREADS(family) };
    w.positions = WIDE_POSITIONS(kv, w.dim, w.value_dim, w.view, w.heads, w.rows, WIDE_DIGITS,
                                 WIDE_MORE_BYTES(w.heads, w.value_dim, family), family);
    w.prefill_tokens = WIDE_PREFILL_TOKENS(n->heads, heads_kv, w.dim, family);
    w.prefill_groups = ATTENTION_PREFILL_GROUPS(n->heads, heads_kv);
    w.fours = family_multiplies_in_fours(p->target) && WIDE_IN_FOURS(kv, w.dim, w.value_dim, family);
    w.prefill_splits = w.prefill_tokens ? prefill_splits(p, n, &w) : 1;
    w.prefill_lds = WIDE_PREFILL_BYTES(kv, w.dim, w.value_dim, w.view, family, w.fours);
    return w;
}

uint32_t gpu_wide_lds(const struct plan *p, const struct gpu_wide *w, uint32_t splits, bool cluster)
{
    return WIDE_DECODE_BYTES((uint32_t)p->options.kv, w->dim, w->value_dim, w->view, w->heads, w->rows, splits, cluster,
                             p->target->family);
}

bool gpu_is_wide(const struct plan *p, const struct node *n)
{
    enum { UNIT = 16, MOST_VALUES = 1024, MOST_PIECES = 10 };       /* columns of an operand of K, twice those of a piece of V; the most
                                                                     * that a lane has registers for */
    const struct target *t = p->target;
    const uint32_t dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim;
    if (t->kind != TARGET_GPU || p->fused->level == FUSE_NONE || p->options.exact || p->options.kv == KV_TYPE_F32) return false;
    if ((dim <= 256 && dim == value_dim) || dim % UNIT || value_dim % (UNIT / 2) || value_dim > MOST_VALUES || per_kv(n) == 0) return false;
    const struct gpu_wide w = gpu_wide(p, n);
    const uint32_t larger = dim > value_dim ? dim : value_dim, pieces = w.positions > 16 ? 32 : 16;
    return pieces * larger / 8 <= MOST_PIECES * w.threads && w.prefill_tokens > 0 && w.prefill_lds <= t->lds_bytes
           && gpu_wide_lds(p, &w, t->cluster ? ATTENTION_MAX_CLUSTER : 1, t->cluster) <= t->lds_bytes;
}

/* ---- what both kinds of attention have ---- */

uint32_t gpu_attention_units(const struct plan *p, const struct node *n)
{
    if (gpu_is_wide(p, n)) return gpu_wide(p, n).units;
    return ATTENTION_UNITS(n->heads, n->inputs[1]->heads, n->attr.head_dim);
}

uint32_t gpu_attention_block(const struct plan *p, const struct node *n, uint32_t threads)
{
    return gpu_is_wide(p, n) ? gpu_wide(p, n).positions : threads / ATTENTION_LANES(n->attr.head_dim);
}

struct attention_areas gpu_wide_parts(const struct plan *p, const struct node *n)
{
    const struct gpu_wide w = gpu_wide(p, n);
    if (w.prefill_splits < 2) return (struct attention_areas){ 0 };
    const uint64_t units = prefill_units(p, &w);
    return (struct attention_areas){ .parts = units * w.prefill_splits * WIDE_FOURS_PART_BYTES(w.value_dim, p->target->family),
                                     .counters = 4 * units };
}

struct attention_areas gpu_attention_areas(const struct plan *p, const struct node *n, const struct attention_shape *s)
{
    const uint32_t kv = n->inputs[1]->heads, dim = n->attr.head_dim;
    if (gpu_is_wide(p, n)) {
        const struct gpu_wide w = gpu_wide(p, n);
        return (struct attention_areas){ WIDE_PARTS_BYTES(w.units, w.heads, w.value_dim, s->splits, s->spans, s->cluster),
                                         WIDE_ML_BYTES(w.units, w.heads, s->splits, s->spans, s->cluster),
                                         WIDE_COUNTER_BYTES(w.units, s->splits, s->spans, s->cluster) };
    }
    return (struct attention_areas){ ATTENTION_PARTS_BYTES(n->heads, kv, dim, s->splits, s->spans, s->cluster),
                                     ATTENTION_ML_BYTES(n->heads, kv, dim, s->splits, s->spans),
                                     ATTENTION_COUNTER_BYTES(n->heads, kv, dim, s->splits, s->cluster) };
}
