/* cost.c -- see cost.h. */
#include "cost.h"
#include "machine.h"
#include "runtime/model/cost.h"
#include <math.h>

/* Experts have an error of their own, but use the constants of products. */
static const struct prediction *constants_of(const struct target *t, enum prediction_kind kind)
{
    return &t->prediction.of[kind == PREDICT_EXPERTS ? PREDICT_PRODUCTS : kind];
}

/* The fraction of the bandwidth that a kernel gets. */
static double share_of(const struct target *t, const struct prediction *c, const struct cost_work *w, double bandwidth_gb_s)
{
    const double wanted = t->prediction.latency_us * bandwidth_gb_s * 1e3, stride = t->prediction.stride_bytes;
    const double asked = w->in_flight > 0 && w->in_flight < wanted ? w->in_flight / wanted : 1;
    const bool strided = c->strided > 0 && stride > 0 && w->stride > 0 && fmod(w->stride, stride) == 0;
    return strided ? asked * c->strided : asked;
}

/* If no rate was measured, prefill's attention uses the rate of the matrix unit, an upper bound. */
static double rate_of(const struct target *t, const struct prediction *c, enum prediction_kind kind)
{
    if (c->rate_tops > 0 || kind != PREDICT_PREFILL_ATTENTION) return c->rate_tops;
    return t->rates.matrix[MATRIX_F16] * t->compute_units * t->rates.clock_ghz * 1e-3;
}

static double compute_of(const struct target *t, const struct prediction *c, const struct cost_work *w)
{
    const double clocks = w->copied ? c->copied : c->clocks, rate = rate_of(t, c, w->kind);
    const double by_rate = rate > 0 ? w->operations * fmax(w->uneven, 1) / (rate * 1e6) : 0;
    return fmax(by_rate, fmax(w->clocks_us * (clocks > 0 ? clocks : 1), w->issue_us));
}

static double micros_of(const struct target *t, const struct prediction *c, const struct cost_work *w, double bandwidth_gb_s)
{
    const double memory = w->bytes * fmax(w->uneven, 1) / (bandwidth_gb_s * 1e3 * share_of(t, c, w, bandwidth_gb_s));
    return c->start_us + c->row_us * w->cols * 1e-3 + fmax(c->chain_us, fmax(memory, compute_of(t, c, w)));
}

double cost_micros(const struct target *t, const struct cost_work *w)
{
    const struct prediction *c = constants_of(t, w->kind);
    const double bandwidth = c->bandwidth_gb_s > 0 ? c->bandwidth_gb_s : t->bandwidth_gb_s;
    if (bandwidth <= 0) return 0;
    if (!c->held_out) return t->launch_us + micros_of(t, c, w, bandwidth);
    if (w->bytes >= c->least_bytes) return micros_of(t, c, w, bandwidth);
    struct cost_work least = *w;
    least.bytes = c->least_bytes;
    const double smallest = micros_of(t, c, &least, bandwidth);
    return t->launch_us + fmax(0, smallest - t->launch_us) * w->bytes / c->least_bytes;
}

struct cost_trust cost_trust(const struct target *t, const struct cost_work *w)
{
    const struct prediction *c = &t->prediction.of[w->kind];
    return (struct cost_trust){ c->held_out ? c->error_percent : -1, w->bytes < c->least_bytes };
}

/* The counts as they will stand in the program's launch table. */
static struct forge_cost counts_of(const struct kernel *k)
{
    return (struct forge_cost){ k->weight_bytes, k->state_bytes, k->operations, k->attention, k->window };
}

double cost_kernel_bytes(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    const struct forge_program program = { .n_ctx = p->options.n_ctx };
    const struct forge_cost counts = counts_of(k);
    return (double)cost_bytes(&program, &counts, (struct cost_tokens){ n_past, tokens });
}

double cost_kernel_operations(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    const struct forge_embedding embedding = { .whole = !p->model->causal };
    const struct forge_program program = { .n_ctx = p->options.n_ctx, .embedding = &embedding };
    const struct forge_cost counts = counts_of(k);
    return (double)cost_operations(&program, &counts, (struct cost_tokens){ n_past, tokens });
}

struct cost_work cost_work_of(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    return machine_of(p->target->kind)->work(p, k, tokens, n_past);
}

double cost_kernel_micros(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    const struct cost_work w = cost_work_of(p, k, tokens, n_past);
    return cost_micros(p->target, &w);
}

static double launch_micros(const struct plan *p, uint32_t kernel, uint32_t tokens, uint32_t n_past, const double *issue_us)
{
    struct cost_work w = cost_work_of(p, &p->kernels->kernels[kernel], tokens, n_past);
    if (issue_us) w.issue_us = issue_us[kernel];
    return cost_micros(p->target, &w);
}

double cost_step_micros(const struct plan *p, bool prefill, uint32_t tokens, uint32_t n_past, const double *issue_us)
{
    const struct kernel_list *list = p->kernels;
    const struct launches *launches = &list->of[prefill ? STEPS_PREFILL : STEPS_DECODE];
    double us = 0;
    for (uint32_t i = 0; i < launches->n; i++) {
        const uint32_t of = launches->list[i].tail ? 1 : tokens, kernel = launches->list[i].kernel;
        if (kernel_runs(&list->kernels[kernel], of)) us += launch_micros(p, kernel, of, n_past, issue_us);
    }
    if (!prefill && list->sample.kernel != NO_KERNEL) us += launch_micros(p, list->sample.kernel, tokens, n_past, issue_us);
    return us;
}
