/* gpu_trace.c -- what each launch leaves in memory, as a hash (--trace): two programs with the same launches can be compared launch by
 * launch. */
#include "runtime/model/state.h"
#include "runtime/model/xxh3.h"
#include "gpu_state.h"

static enum forge_status hash_bytes(struct gpu *r, const uint8_t *from, uint64_t bytes, uint64_t *hash, struct forge_error *error)
{
    for (uint64_t at = 0; at < bytes; ) {
        const uint64_t left = bytes - at, part = left < r->staging_bytes ? left : r->staging_bytes;
        TRY(gpu_said(r, device_download(&r->device, r->staging[0], from + at, part, error)));
        TRY(gpu_said(r, device_record(&r->device, r->staged[0], error)));
        TRY(gpu_wait_event(r, r->staged[0], error));
        *hash = *hash * 0x9e3779b97f4a7c15u + forge_xxh3(r->staging[0], part);
        at += part;
    }
    return FORGE_OK;
}

/* n: tokens of the sequence after the step. */
static enum forge_status hash_gpu(struct gpu *r, const struct forge_sequence *q, uint32_t n, uint64_t *hash, struct forge_error *error)
{
    const struct forge_program *p = r->program;
    const uint8_t *state = gpu_state_of(r, q);
    TRY(gpu_turn_to(r, error));
    TRY(hash_bytes(r, r->arena, p->arena_bytes, hash, error));
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state_runs runs = state_runs(&p->states[i], n);
        for (uint64_t k = 0; k < runs.n; k++) TRY(hash_bytes(r, state + runs.offset + k * runs.stride, runs.bytes, hash, error));
    }
    return FORGE_OK;
}

enum forge_status gpu_trace_begin(struct gpu *g, struct forge_error *error)
{
    for (struct gpu *r = g; r; r = r->next) {
        TRY(gpu_said(r, gpu_turn_to(r, error)));
        TRY(gpu_said(r, device_clear(&r->device, r->arena, r->program->arena_bytes, error)));
        TRY(gpu_said(r, device_clear(&r->device, r->state, r->program->state_bytes, error)));
    }
    return FORGE_OK;
}

enum forge_status gpu_trace(const struct forge_sequence *q, uint32_t number, uint32_t n_tokens, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct forge_trace *trace = q->engine->trace;
    const struct forge_gpu_launch *l = gpu_launch_numbered(gpu_owner(g, number)->program->gpu, number);
    uint64_t hash = 0;
    TRY(gpu_wait_all(g, error));
    for (struct gpu *r = g; r; r = r->next) TRY(hash_gpu(r, q, q->n_past + (n_tokens > 0 ? n_tokens : 1), &hash, error));
    trace->take(trace->context, l->name, l->layer, q->n_past, hash);
    return FORGE_OK;
}
