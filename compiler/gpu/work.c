/* work.c -- what a launch has to do, for predictions (compiler/plan/cost.h), from what the plan knows: no machine code is read. */
#include "choose.h"
#include <math.h>

/* ---- decode's products ---- */

/* The loads of a lane: bytes of a unit, units of a row and lane in a step (gemv_tmpl.c: STEP_UNITS), all as the template takes them. */
struct step { double unit_bytes, units, depth; };
static struct step step_of(const struct plan *p, const struct gpu_run *r, uint64_t cols, const struct kernel *k)
{
    const bool floats = gpu_takes_floats(r->weight);
    const uint32_t rows = k->param[PARAM_ROWS], lanes = k->param[PARAM_LANES], depth = k->param[PARAM_DEPTH];
    const double row_bytes = (double)packing_row_bytes(plan_packing(p, r->weight), r->weight->cols);
    struct step s = { .units = floats ? ceil(row_bytes / 16) : ceil((double)cols / 64) };
    s.unit_bytes = row_bytes / ceil(floats ? row_bytes / 16 : (double)r->weight->cols / 64);
    const double loads = rows * fmax(1, round(s.unit_bytes / 16)), wanted = floats ? 8 : 4;
    s.depth = depth ? depth : floats && rows < 2 ? 4 : ceil(wanted / loads);
    s.depth = fmin(s.depth, ceil(s.units / lanes));
    return s;
}

/* Row groups are dealt out to the compute units in turn, and to their slots (gemv_slot). */
static struct cost_work gemv_work(const struct plan *p, const struct kernel *k)
{
    const struct group *g = k->group;
    const struct gpu_group *gg = &p->gpu->groups[g - p->fused->groups];
    const uint32_t rows = k->param[PARAM_ROWS], lanes = k->param[PARAM_LANES], slices = g->kind == GROUP_SLICES ? plan_slices(g) : 1;
    const bool sums = gpu_slices_of(g) == SLICES_SUM;
    const double slots = (double)k->grid_x * k->param[PARAM_THREADS] / lanes;
    struct cost_work w = { .kind = gpu_slices_of(g) ? PREDICT_EXPERTS : PREDICT_PRODUCTS, .bytes = (double)k->weight_bytes,
                           .cols = gpu_input_cols(g) };
    double groups = 0, busiest = 0;
    for (uint32_t i = 0; i < gg->n_runs; i++) {
        const struct gpu_run *r = &gg->runs[i];
        const bool pair = g->branches[r->first].partner >= 0;
        const double n = ceil((double)r->rows * (pair ? 2 : 1) / rows) * (sums ? 1 : slices);
        const struct step s = step_of(p, r, sums ? gpu_input_cols(g) : r->weight->cols, k);
        groups += n;
        busiest += ceil(n / p->profile->compute_units);
        w.in_flight = fmax(w.in_flight, fmin(n, slots) * rows * fmin(lanes, s.units) * s.depth * s.unit_bytes);
        w.stride = (double)packing_row_bytes(plan_packing(p, r->weight), r->weight->cols);
    }
    w.uneven = busiest * p->profile->compute_units / groups;
    return w;
}

/* ---- prefill ---- */

/* Of a choice's tokens each expert gets its share. */
static struct cost_work gemm_work(const struct plan *p, const struct kernel *k, uint32_t tokens)
{
    const struct group *g = k->group;
    struct gemm_part parts[MAX_BRANCHES];
    const struct gemm_product product = gpu_product(p, g, k->weight_bytes, parts);
    const struct gemm_shape shape = { k->param[PARAM_TOKENS], k->param[PARAM_ROWS], k->param[PARAM_THREADS], k->param[PARAM_RESIDENT] };
    const uint32_t each = g->choice ? (uint32_t)(((uint64_t)tokens * plan_slices(g) + gpu_matrices(g) - 1) / gpu_matrices(g)) : tokens;
    return (struct cost_work){ .kind = PREDICT_PREFILL, .bytes = (double)k->weight_bytes, .copied = parts[0].copied,
                               .clocks_us = gemm_micros(p->profile, &product, &shape, each) };
}

static enum prediction_kind kind_of(const struct kernel *k, uint32_t tokens)
{
    if (k->prefill || tokens > 1) return k->template == TEMPLATE_attention_prefill ? PREDICT_PREFILL_ATTENTION : PREDICT_PREFILL_OTHERS;
    return k->template == TEMPLATE_attention_decode ? PREDICT_ATTENTION : PREDICT_OTHERS;
}

struct cost_work gpu_work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    if (k->template == TEMPLATE_gemv && !k->grid_tokens) return gemv_work(p, k);
    if (k->template == TEMPLATE_gemm) return gemm_work(p, k, tokens);
    return (struct cost_work){ .kind = kind_of(k, tokens), .bytes = cost_kernel_bytes(p, k, tokens, n_past),
                               .operations = cost_kernel_operations(p, k, tokens, n_past) };
}
