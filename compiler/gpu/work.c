/* work.c -- the work of a launch, as far as the plan knows it, for predictions (compiler/plan/cost.h); see work.h. */
#include "work.h"
#include "choose.h"
#include <math.h>

/* ---- decode's products ---- */

/* The loads of a lane as in the template: bytes of a unit, units of a row, and units that a lane loads in a step (STEP_UNITS of
 * gemv_tmpl.c). */
struct step { double unit_bytes, units, depth; };
static struct step step_of(const struct plan *p, const struct gpu_run *r, uint64_t cols, const struct kernel *k)
{
    const bool floats = gpu_takes_floats(r->weight);
    const uint32_t rows = k->param[PARAM_ROWS], lanes = k->param[PARAM_LANES], depth = k->param[PARAM_DEPTH];
    const double row_bytes = (double)packing_row_bytes(plan_packing(p, r->weight), r->weight->cols), whole = (double)r->weight->cols;
    const double unit_cols = floats ? 16.0 / r->weight->tensor->quant->block_bytes : 64;
    struct step s = { .units = ceil((double)cols / unit_cols), .unit_bytes = floats ? 16 : row_bytes / ceil(whole / unit_cols) };
    const double loads = rows * (floats ? 1 : s.unit_bytes > 40 ? 4 : 2), wanted = floats ? 8 : 4;       /* LOADS_q8_0 and others */
    s.depth = depth ? depth : floats && rows < 2 ? 4 : ceil(wanted / loads);
    s.depth = fmin(s.depth, ceil(s.units / lanes));
    return s;
}

/* Columns of a run's rows; and the number of row groups that the slots divide among them. */
static uint64_t run_cols(const struct group *g, const struct gpu_run *r)
{
    return gpu_slices_of(g) == SLICES_SUM ? gpu_input_cols(g) : r->weight->cols;
}
static double run_groups(const struct kernel *k, const struct gpu_run *r)
{
    const struct group *g = k->group;
    const bool pair = g->branches[r->first].partner >= 0;
    const uint32_t matrices = gpu_slices_of(g) == SLICES_EACH ? plan_slices(g) : 1;
    return ceil((double)r->rows * (pair ? 2 : 1) / k->param[PARAM_ROWS]) * matrices;
}

/* Row groups go to the compute units in turn, and there to the slots (gemv_slot). */
static struct cost_work gemv_work(const struct plan *p, const struct kernel *k)
{
    const struct group *g = k->group;
    const struct gpu_group *gg = &p->gpu->groups[g - p->fused->groups];
    const uint32_t rows = k->param[PARAM_ROWS], lanes = k->param[PARAM_LANES];
    const double slots = (double)k->grid_x * k->param[PARAM_THREADS] / lanes;
    struct cost_work w = { .kind = gpu_slices_of(g) ? PREDICT_EXPERTS : PREDICT_PRODUCTS, .bytes = (double)k->weight_bytes,
                           .cols = gpu_input_cols(g) };
    double groups = 0, busiest = 0;
    for (uint32_t i = 0; i < gg->n_runs; i++) {
        const struct gpu_run *r = &gg->runs[i];
        const double n = run_groups(k, r);
        const struct step s = step_of(p, r, run_cols(g, r), k);
        groups += n;
        busiest += ceil(n / p->target->compute_units);
        w.in_flight = fmax(w.in_flight, fmin(n, slots) * rows * fmin(lanes, s.units) * s.depth * s.unit_bytes);
        w.stride = (double)packing_row_bytes(plan_packing(p, r->weight), r->weight->cols);
    }
    w.uneven = busiest * p->target->compute_units / groups;
    return w;
}

/* An iteration of a wave's loop for a run does two steps, one for each of its register buffers; the conditional instructions run once for
 * each row group (gemv_tmpl.c). */
double gpu_issue_micros(const struct plan *p, const struct kernel *k, const struct kernel_issues *counted)
{
    const struct target *t = p->target;
    if (k->template != TEMPLATE_gemv || k->grid_tokens || target_missing_rate(t)) return 0;
    const struct gpu_group *gg = &p->gpu->groups[k->group - p->fused->groups];
    if (counted->n_loops != gg->n_runs) return 0;
    const double slots = (double)t->wave / k->param[PARAM_LANES], clocks = t->compute_units * t->rates.vector * t->rates.clock_ghz * 1e3;
    double issues = counted->outside * k->grid_x * k->param[PARAM_THREADS] / t->wave;
    for (uint32_t i = 0; i < gg->n_runs; i++) {
        const struct step s = step_of(p, &gg->runs[i], run_cols(k->group, &gg->runs[i]), k);
        const double groups = run_groups(k, &gg->runs[i]) / slots, steps = ceil(s.units / (k->param[PARAM_LANES] * s.depth));
        issues += groups * (counted->loops[i].always * steps + counted->loops[i].sometimes) / 2;
    }
    return issues / clocks * gemv_work(p, k).uneven;
}

/* ---- prefill ---- */

/* With a choice of experts, each expert gets its share of the tokens. */
static struct cost_work gemm_work(const struct plan *p, const struct kernel *k, uint32_t tokens)
{
    const struct group *g = k->group;
    struct gemm_part parts[MAX_BRANCHES];
    const struct gemm_product product = gpu_product(p, g, k->weight_bytes, parts);
    const struct gemm_shape shape = { k->param[PARAM_TOKENS], k->param[PARAM_ROWS], k->param[PARAM_THREADS], k->param[PARAM_RESIDENT] };
    const uint32_t each = g->choice ? (uint32_t)(((uint64_t)tokens * plan_slices(g) + gpu_matrices(g) - 1) / gpu_matrices(g)) : tokens;
    return (struct cost_work){ .kind = PREDICT_PREFILL, .bytes = (double)k->weight_bytes, .copied = parts[0].copied,
                               .clocks_us = gemm_micros(p->target, &product, &shape, each) };
}

static enum prediction_kind kind_of(const struct kernel *k, uint32_t tokens)
{
    if (k->prefill || tokens > 1) return k->template == TEMPLATE_attention_prefill ? PREDICT_PREFILL_ATTENTION : PREDICT_PREFILL_OTHERS;
    return k->template == TEMPLATE_attention_decode ? PREDICT_ATTENTION : PREDICT_OTHERS;
}

/* Compute units divided by the workgroups that have positions, at least 1: compute units without such a workgroup have no work. */
static double attention_uneven(const struct plan *p, const struct kernel *k, uint32_t n_past)
{
    const struct node *n = k->group->node;
    const uint32_t positions = k->window && n_past > k->window ? k->window : n_past,
                   block = gpu_attention_block(p, n, k->param[PARAM_THREADS]), blocks = (positions + block - 1) / block,
                   splits = k->param[PARAM_SPLITS],
                   spans = positions / k->param[PARAM_SPAN];
    const double units = gpu_attention_units(p, n), compute_units = p->target->compute_units,
                 groups = spans > 1 ? units * splits * fmin(spans, k->param[PARAM_SPANS]) : units * fmin(fmax(blocks, 1), splits);
    return fmax(compute_units / groups, 1);
}

struct cost_work gpu_work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    if (k->template == TEMPLATE_gemv && !k->grid_tokens) return gemv_work(p, k);
    if (k->template == TEMPLATE_gemm) return gemm_work(p, k, tokens);
    const bool matrix = k->template == TEMPLATE_attention_decode && k->param[PARAM_DIGITS] > 0;      /* its products add no time */
    return (struct cost_work){ .kind = kind_of(k, tokens), .bytes = cost_kernel_bytes(p, k, tokens, n_past),
                               .uneven = k->template == TEMPLATE_attention_decode ? attention_uneven(p, k, n_past) : 0,
                               .operations = matrix ? 0 : cost_kernel_operations(p, k, tokens, n_past) };
}
