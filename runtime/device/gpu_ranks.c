/* gpu_ranks.c -- GPUs that share a model: do their programs belong together, and which GPUs of the machine are used? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_state.h"
#include "runtime/model/state.h"

/* What the runtime assumes of every rank: it has the launches of the first rank, in the same order. */
static bool belongs(const struct forge_program *model, const struct forge_program *p)
{
    const struct forge_gpu *g = model->gpu, *o = p ? p->gpu : NULL;
    return o && o->api == g->api && o->n_decode == g->n_decode && o->n_prefill == g->n_prefill && o->n_columns == g->n_columns &&
           o->pipeline == g->pipeline && (p->chunk == model->chunk || !g->pipeline) &&
           (o->collective_bytes == g->collective_bytes || g->pipeline) && (p->state_bytes == 0 || p->n_states > 0);
}

enum forge_status gpu_check_ranks(const struct forge_program *model, struct forge_error *error)
{
    const struct forge_gpu *g = model->gpu;
    if (g->n_ranks <= 1) return FORGE_OK;
    if (g->n_ranks > FORGE_GPU_MAX_RANKS)
        return error_set(error, FORGE_FAILED, "the program is for %u GPUs; this runtime supports at most %d", g->n_ranks,
            FORGE_GPU_MAX_RANKS);
    if (g->most_drafts > 0) return error_set(error, FORGE_FAILED, "a program for several GPUs cannot speculate: build it without --spec");
    if (g->ranks[0] != model || g->collective_bytes == 0 || model->embedding)
        return error_set(error, FORGE_FAILED, "the program is for %u GPUs in a form that this runtime does not know", g->n_ranks);
    for (uint32_t rank = 1; rank < g->n_ranks; rank++)
        if (!belongs(model, g->ranks[rank]))
            return error_set(error, FORGE_FAILED, "the programs of GPUs 0 and %u of the model do not belong together", rank);
    return FORGE_OK;
}

enum forge_status gpu_check_devices(const struct forge_program *model, const struct forge_devices *devices, struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    if (!devices || devices->n == 0 || devices->n == n) return FORGE_OK;
    return error_set(error, FORGE_USAGE, "--devices names %u GPU%s, %s needs %u", devices->n, devices->n == 1 ? "" : "s", model->target, n);
}

/* The names of all GPUs of the machine, and how many of them run code for arch. */
static uint32_t count_fitting(struct forge_device *d, const char *arch, char *names, size_t bytes)
{
    uint32_t n = 0;
    size_t used = 0;
    for (int i = 0; i < d->n_devices; i++) {
        device_describe(d, i);
        n += device_runs(d, arch);
        const int more = used < bytes ? snprintf(names + used, bytes - used, "%s%s (%s)", i > 0 ? ", " : "", d->name,
                                                 d->arch[0] != 0 ? d->arch : "?") : 0;
        if (more > 0) used += (size_t)more;
    }
    return n;
}

bool gpu_reaches(struct forge_device *d, const struct forge_device *other, struct forge_error *error)
{
    const char *no = getenv("FORGE_NO_PEER");
    if (no && *no && strcmp(no, "0") != 0) return error_set(error, FORGE_WRONG_GPU, "FORGE_NO_PEER is set") == FORGE_OK;
    return device_reach(d, other, error) == FORGE_OK;
}

enum forge_status gpu_select(struct forge_device *d, const struct forge_program *model, uint32_t rank,
                             const struct forge_devices *devices, uint64_t *taken, struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    const struct forge_gpu *p = program_of_rank(model, rank)->gpu;
    const char *arch = p->arch;
    char names[200] = "";
    d->taken = *taken;
    const enum forge_status status = device_select(d, arch, devices && devices->n > 0 ? devices->number[rank] : DEVICE_ANY, p->code,
                                                    error);
    if (status == FORGE_WRONG_GPU && n > 1 && !(devices && devices->n > 0)) {
        const uint32_t there = count_fitting(d, arch, names, sizeof names);
        return error_set(error, (uint32_t)d->n_devices < n ? FORGE_NO_DEVICE : FORGE_WRONG_GPU,
                         "the program needs %u GPUs, number %u of them %s; this machine has %d, %u that fit%s: %s", n, rank + 1, arch,
                         d->n_devices, there, there == 1 ? "s" : "", names);
    }
    if (status != FORGE_OK) return status;
    if (n > 1) snprintf(d->label, sizeof d->label, "%s (GPU %d)", d->name, d->index);
    if (d->index < 64) *taken |= (uint64_t)1 << d->index;
    return FORGE_OK;
}
