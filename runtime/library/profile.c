/* profile.c -- where the time of a step goes: the engine measures launches (library_timings), and this file sums them up for each
 * kernel. */
#include "instance.h"
#include "runtime/model/cost.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "freestanding.h"

enum { STEPS_BY_DEFAULT = 8 };

int library_step_try(struct model *m, const int32_t *tokens, uint32_t n, float *logits)
{
    struct library_sequence *const q = m->sequence;
    const uint32_t n_past = q->n_past;
    int status = model_begin(m, tokens, n, logits);
    if (status == MODEL_OK)
        while ((status = model_step_budget(m, UINT32_MAX)) == MODEL_MORE) {}
    if (status == MODEL_OK) q->n_past = m->program->embedding ? 0 : n_past;
    return status;
}

static bool same_text(const char *a, const char *b)
{
    while (*a != 0 && *a == *b) a++, b++;
    return *a == *b;
}

static struct model_timing *timing_of(struct model_profiling *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->n_timings; i++)
        if (same_text(profile->timings[i].name, name)) return &profile->timings[i];
    struct model_timing *timing = &profile->timings[profile->n_timings++];
    *timing = (struct model_timing){ .name = name };
    return timing;
}

/* Sums up the launches that ran by name.  In place: the row of a kernel never comes after its first launch. */
static void timings_join(const struct model *m, struct model_profiling *profile, uint32_t n_launches, uint32_t n, uint32_t n_rows)
{
    const struct forge_program *p = m->program;
    profile->n_timings = 0;
    for (uint32_t i = 0; i < n_launches; i++) {
        const struct model_timing one = profile->timings[i];
        const struct cost_launch l = cost_launch(p, i, n, m->sequence->n_past, n_rows, p->max_threads);
        const struct cost_tokens t = cost_tokens(m->sequence->n_past, n, n_rows, l.tail);
        if (one.launches == 0) continue;
        struct model_timing *timing = timing_of(profile, l.name);
        timing->launches++;
        timing->work += one.work;
        timing->wait += one.wait;
        timing->bytes += cost_bytes(p, l.cost, t);
        timing->operations += cost_operations(p, l.cost, t);
    }
    for (uint32_t i = 0; i < profile->n_timings; i++) {
        profile->timings[i].work /= profile->n_steps;
        profile->timings[i].wait /= profile->n_steps;
    }
}

/* Computes the tokens before the step again if the measured steps replaced their state. */
static int context_restore(struct model *m)
{
    const struct library_sequence *q = m->sequence;
    const uint32_t n_past = q->n_past;
    if (n_past > 0 && state_rewinds(m->program, q->n_written, n_past, n_past)) return MODEL_OK;
    const int status = library_context_empty(m);
    if (status != MODEL_OK || n_past == 0) return status;
    const int put = library_step_put(m, n_past, 0, NULL);
    return put != MODEL_OK ? put : library_step_run(m, UINT64_MAX);
}

LIBRARY_PUBLIC int model_profile(struct model *m, const int32_t *tokens, uint32_t n, float *logits, struct model_profiling *profile)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    const struct forge_program *p = m->program;
    const uint32_t most = p->chunk > 1 ? p->chunk : 1;
    if (!logits || !profile || profile->size != sizeof *profile || !profile->timings || (!p->gpu && !profile->clock) || n > most)
        return MODEL_BAD_ARGUMENT;
    const uint32_t n_launches = p->gpu ? cost_launches(p->gpu, n).n : step_launches(p, n).n;
    memset(profile->timings, 0, n_launches * sizeof *profile->timings);
    profile->step = 0;
    if (profile->n_steps == 0) profile->n_steps = STEPS_BY_DEFAULT;
    /* The first step warms up; it also refuses invalid tokens and steps that do not fit. */
    int status = library_step_try(m, tokens, n, logits);
    if (status != MODEL_OK) return status;
    const uint32_t n_rows = p->embedding ? pool_rows(p->embedding->pooling, 0, n, n) : 1;
    status = library_timings(m, tokens, n, n_rows, logits, profile);
    if (status != MODEL_OK) return status;
    timings_join(m, profile, n_launches, n, n_rows);
    return context_restore(m);
}
