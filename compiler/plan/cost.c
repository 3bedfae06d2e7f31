/* cost.c -- see cost.h. */
#include "cost.h"
#include "machine.h"
#include <math.h>

/* Of the bandwidth that a kernel gets. */
static double share_of(const struct profile *t, const struct cost_work *w, double bandwidth_gb_s)
{
    const struct prediction *c = &t->prediction.of[w->kind];
    const double wanted = t->prediction.latency_us * bandwidth_gb_s * 1e3, stride = t->prediction.stride_bytes;
    const double asked = w->in_flight > 0 && w->in_flight < wanted ? w->in_flight / wanted : 1;
    const bool strided = c->strided > 0 && stride > 0 && w->stride > 0 && fmod(w->stride, stride) == 0;
    return strided ? asked * c->strided : asked;
}

double cost_micros(const struct profile *t, const struct cost_work *w)
{
    const struct prediction *c = &t->prediction.of[w->kind];
    const double bandwidth = c->bandwidth_gb_s > 0 ? c->bandwidth_gb_s : t->bandwidth_gb_s;
    if (bandwidth <= 0) return 0;
    const double memory = w->bytes * (w->uneven > 1 ? w->uneven : 1) / (bandwidth * 1e3 * share_of(t, w, bandwidth));
    return c->start_us + fmax(c->chain_us, fmax(memory, w->compute_us));
}

double cost_state_bytes(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    if (!k->state_bytes || k->group->kind != GROUP_ATTENTION) return (double)k->state_bytes;
    const uint32_t rows = plan_state(p, k->group->node)->rows, window = plan_window(p, k->group->node);
    double positions = (double)n_past + tokens;
    if (window && tokens == 1 && positions > window) positions = window;
    return (double)k->state_bytes * (positions < rows ? positions : rows) / rows;
}

struct cost_work cost_work_of(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    return machine_of(p->profile->kind)->work(p, k, tokens, n_past);
}

double cost_kernel_micros(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    const struct cost_work w = cost_work_of(p, k, tokens, n_past);
    return cost_micros(p->profile, &w);
}

double cost_between_micros(const struct profile *t) { return t->prediction.between_us >= 0 ? t->prediction.between_us : t->launch_us; }

bool cost_runs(const struct kernel *k, uint32_t tokens)
{
    return !k->param[PARAM_MOST] || (tokens >= k->param[PARAM_LEAST] && tokens <= k->param[PARAM_MOST]);
}

double cost_step_micros(const struct plan *p, bool prefill, uint32_t tokens, uint32_t n_past)
{
    const struct kernel_list *list = p->kernels;
    const struct launch *launches = prefill ? list->prefill : list->decode;
    const uint32_t n = prefill ? list->n_prefill : list->n_decode;
    const double between = cost_between_micros(p->profile);
    double us = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t of = launches[i].tail ? 1 : tokens;
        if (cost_runs(&list->kernels[launches[i].kernel], of))
            us += between + cost_kernel_micros(p, &list->kernels[launches[i].kernel], of, n_past);
    }
    if (!prefill && list->sample.kernel != NO_KERNEL)
        us += between + cost_kernel_micros(p, &list->kernels[list->sample.kernel], tokens, n_past);
    return us;
}
