/* gpu.c -- the engine of a library for a GPU: the engine of programs (gpu_step.c, gpu_wait.c, gpu_memory.c, device.c) with its state in
 * the workspace.  Every instance has its own stream, weights and context on the device: a library has no variables that two instances
 * could share. */
#include "runtime/device/gpu_state.h"
#include "runtime/model/cost.h"
#include "runtime/model/state.h"
#include "runtime/run/timing.h"
#include "instance.h"
#include <string.h>
#include <time.h>

struct library_gpu {
    struct gpu            gpu;
    struct forge_engine   engine;
    struct forge_sequence first;                 /* the first sequence; the others lie in the memory of their sequences */
    bool                warm;                    /* all kernels of a decode step have run once; before that none are captured, because
                                                  * drivers load kernels late */
};
_Static_assert(sizeof(struct library_gpu) <= LIBRARY_GPU_BYTES && LIBRARY_GPU_BYTES % LIBRARY_ALIGN == 0,
               "the engine fits its part of the workspace");
_Static_assert(sizeof(struct forge_sequence) <= LIBRARY_GPU_SEQUENCE_BYTES, "a sequence fits its part of the workspace");

/* The program refers to it; a library does not use its members. */
const struct forge_gpu_runtime forge_gpu_runtime = { .step = gpu_step, .wait = gpu_wait };

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct forge_sequence *on_device(const struct library_sequence *q) { return (void *)q->memory; }

static int status_of(enum forge_status status)
{
    switch (status) {
    case FORGE_OK:        return MODEL_OK;
    case FORGE_NO_DEVICE:
    case FORGE_WRONG_GPU: return MODEL_NO_DEVICE;
    case FORGE_NO_MEMORY: return MODEL_NO_MEMORY;
    default:              return MODEL_DEVICE_FAILED;
    }
}

/* Once work is on the device, a failure leaves the device in an unknown state. */
static int running(struct model *m, enum forge_status status)
{
    if (status == FORGE_OK) return MODEL_OK;
    m->failed = true;
    m->step.busy = false;
    return MODEL_DEVICE_FAILED;
}

/* ---- opening ---- */

uint64_t library_engine_bytes(const struct forge_program *p) { return LIBRARY_GPU_ENGINE_BYTES(p->gpu->n_kernels); }
uint64_t library_engine_sequence_bytes(const struct forge_program *p) { (void)p; return LIBRARY_GPU_SEQUENCE_BYTES; }

static enum forge_status upload_weights(struct gpu *g, const uint8_t *weights)
{
    const uint64_t bytes = g->program->weights_bytes;
    for (uint64_t at = 0, i = 0; at < bytes; i++) {
        const uint64_t left = gpu_weights_run(g, at), part = left < g->staging_bytes ? left : g->staging_bytes;
        TRY(gpu_wait_event(g, g->staged[i % 2], NULL));
        memcpy(g->staging[i % 2], weights + at, (size_t)part);
        TRY(device_upload(&g->device, gpu_weight_at(g, at), g->staging[i % 2], part, NULL));
        TRY(device_record(&g->device, g->staged[i % 2], NULL));
        at += part;
    }
    return gpu_wait_idle(g, NULL);
}

static enum forge_status engine_begin(struct gpu *g, uint32_t n_sequences, const struct model_options *o)
{
    const struct forge_gpu *p = g->program->gpu;
    if (p->n_ranks > 1) return FORGE_WRONG_GPU;                  /* an instance has one GPU, also with a driver of the caller */
    if (o && o->device_symbol) TRY(device_functions(&g->device, p->api, o->device_symbol, o->device_context, NULL));
    else TRY(device_library(&g->device, p->api, NULL));
    TRY(device_select(&g->device, p->arch, DEVICE_ANY, p->code, NULL));
    TRY(gpu_check_memory(&g->device, g->program, g->program, NULL));
    TRY(gpu_load_code(&g->device, p, &g->module, g->functions, NULL));
    return gpu_take_memory(g, n_sequences, NULL);
}

/* Drivers wait for the device before they free memory.  While a launch hangs, nothing is freed.  wait: first wait for work that may
 * still run. */
static void give_back(struct model *m, bool wait)
{
    struct library_gpu *library = m->device;
    struct gpu *g = &library->gpu;
    bool idle = true;
    if (g->device.stream && (!wait || gpu_wait_idle(g, NULL) != FORGE_OK) && device_idle(&g->device, &idle, NULL) == FORGE_OK && !idle)
        return;
    for (uint32_t i = 0; i < m->n_sequences; i++) {
        struct forge_sequence *q = on_device(library_sequence(m, i));
        if (q->engine) gpu_sequence_close(q);
    }
    gpu_give_memory(g);
}

static void sequences_open(struct model *m)
{
    struct library_gpu *g = m->device;
    for (uint32_t i = 0; i < m->n_sequences; i++) {
        struct forge_sequence *q = on_device(library_sequence(m, i));
        q->engine = &g->engine;
        gpu_sequence_open(q, i);
    }
}

int library_engine_open(struct model *m, uint8_t *at, const struct model_options *options)
{
    struct library_gpu *g = (void *)at;
    memset(g, 0, sizeof *g);
    m->device = g;
    g->gpu.program = m->program;
    g->gpu.first = &g->gpu;
    g->gpu.functions = (void *)(at + LIBRARY_GPU_BYTES);
    g->engine = (struct forge_engine){ .program = m->program, .gpu = &g->gpu, .n_ctx = m->program->n_ctx, .chunk = m->program->chunk };
    m->first.memory = (void *)&g->first;
    for (uint32_t i = 0; i < m->n_sequences; i++) *on_device(library_sequence(m, i)) = (struct forge_sequence){ 0 };
    enum forge_status status = engine_begin(&g->gpu, m->n_sequences, options);
    if (status == FORGE_OK) {
        sequences_open(m);
        status = upload_weights(&g->gpu, m->weights);
    }
    if (status != FORGE_OK) give_back(m, true);
    return status_of(status);
}

void library_engine_close(struct model *m)
{
    struct library_gpu *g = m->device;
    const bool current = device_current(&g->gpu.device, NULL) == FORGE_OK;
    give_back(m, current && !m->failed);
}

/* ---- steps ---- */

void library_step_begin(struct model *m) { (void)m; }

/* Runs the next tokens that go through the kernels together.  If no logits were requested, work may still run afterwards. */
static enum forge_status piece_run(struct model *m, uint32_t left, uint32_t *n, bool *waited)
{
    const struct forge_program *p = m->program;
    struct library_gpu *g = m->device;
    struct begun_step *s = &m->step;
    *n = p->gpu->n_prefill == 0 ? 1 : left < p->chunk ? left : p->chunk;
    const uint32_t n_rows = library_rows(m, *n);
    *waited = n_rows > 0;
    struct forge_sequence *q = on_device(m->sequence);
    library_written(m, s->args.n_past + *n);
    q->n_past = s->args.n_past;
    q->far = s->args.far;
    g->engine.plain_launches = !g->warm;
    g->warm |= *n == 1;
    TRY(gpu_step(q, *n == 1, m->sequence->tokens + s->args.n_past, *n, n_rows, s->args.logits, NULL));
    library_pool(m, n_rows);
    return FORGE_OK;
}

int library_step_run(struct model *m, uint64_t n_tiles)
{
    struct library_gpu *g = m->device;
    struct begun_step *s = &m->step;
    const uint32_t end = m->sequence->n_past + s->n_tokens;
    enum forge_status status = device_current(&g->gpu.device, NULL);
    bool waited = true;
    for (; status == FORGE_OK && n_tiles > 0 && s->args.n_past < end; n_tiles--) {
        uint32_t n = 0;
        status = piece_run(m, end - s->args.n_past, &n, &waited);
        s->args.n_past += n;
    }
    if (status == FORGE_OK && !waited) status = gpu_wait(on_device(m->sequence), NULL);
    if (status != FORGE_OK) return running(m, status);
    if (s->args.n_past < end) return MODEL_MORE;
    m->sequence->n_past = end;
    s->busy = false;
    return MODEL_OK;
}

/* ---- steps with clocks ---- */

struct library_timings { struct forge_timings timings; struct model_timing *to; uint32_t n_steps; };

static void took(struct forge_timings *timings, uint32_t i, double seconds)
{
    const struct library_timings *l = (void *)timings;
    struct model_timing *timing = &l->to[i];
    timing->work += (int64_t)(1e9 * seconds * l->n_steps);
}

/* The first step only warms up; steps are captured from the second on. */
int library_timings(struct model *m, const int32_t *tokens, uint32_t n, uint32_t n_rows, float *logits, struct model_profiling *profile)
{
    const struct cost_launches all = cost_launches(m->program->gpu, n);
    void *events[TIMING_CLOCKS_LEAST];
    double seconds[TIMING_CLOCKS_LEAST];
    struct library_timings l = { { .n = all.n, .n_rows = n_rows, .events = events,
                                   .seconds = seconds, .n_clocks = TIMING_CLOCKS_LEAST, .took = took },
                              profile->timings, profile->n_steps };
    int status = library_step_try(m, tokens, n, logits);
    const double start = seconds_now();
    for (uint32_t i = 0; i < profile->n_steps && status == MODEL_OK; i++) status = library_step_try(m, tokens, n, logits);
    if (status != MODEL_OK) return status;
    profile->step = (int64_t)(1e9 * (seconds_now() - start) / profile->n_steps);
    struct forge_sequence *q = on_device(m->sequence);
    q->n_past = m->sequence->n_past;
    for (uint32_t i = 0; i < l.timings.n; i++) profile->timings[i].launches = n == 1 || cost_launch_runs(&all.list[i], n, n_rows);
    return running(m, gpu_timings(q, m->sequence->tokens, n, profile->n_steps, &l.timings, NULL));
}

/* ---- states as bytes ---- */

/* Runs lie without gaps in the staging buffer, as in the saved state, so the buffer is filled or emptied as a whole.  to: where the
 * state is read to, else NULL; from: where it is written from. */
static enum forge_status copy_runs(struct model *m, const struct state_runs *runs, uint8_t *to, const uint8_t *from)
{
    struct library_gpu *library = m->device;
    struct gpu *g = &library->gpu;
    const uint64_t bytes = runs->n * runs->bytes;
    TRY(device_current(&g->device, NULL));
    TRY(gpu_wait_idle(g, NULL));
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t left = bytes - at, whole = left < g->staging_bytes ? left : g->staging_bytes;
        if (from) memcpy(g->staging[0], from + at, (size_t)whole);
        for (uint64_t done = 0; done < whole;) {
            const uint64_t run = (at + done) / runs->bytes, in_run = (at + done) % runs->bytes, rest = runs->bytes - in_run;
            const uint64_t part = rest < whole - done ? rest : whole - done;
            uint8_t *state = on_device(m->sequence)->state + runs->offset + run * runs->stride + in_run, *staged = g->staging[0] + done;
            if (to) TRY(device_download(&g->device, staged, state, part, NULL));
            else TRY(device_upload(&g->device, state, staged, part, NULL));
            done += part;
        }
        TRY(gpu_wait_idle(g, NULL));
        if (to) memcpy(to + at, g->staging[0], (size_t)whole);
        at += whole;
    }
    return FORGE_OK;
}

int library_state_read(struct model *m, const struct state_runs *runs, uint8_t *to)
{
    return running(m, copy_runs(m, runs, to, NULL));
}

int library_state_write(struct model *m, const struct state_runs *runs, const uint8_t *from)
{
    return running(m, copy_runs(m, runs, NULL, from));
}

int library_state_clear(struct model *m, uint64_t offset, uint64_t bytes)
{
    return running(m, gpu_state_clear(on_device(m->sequence), 0, offset, bytes, NULL));
}

int library_state_copy(struct model *m, struct library_sequence *to, const struct library_sequence *from)
{
    on_device(from)->n_past = from->n_past;
    return running(m, gpu_sequence_copy(on_device(to), on_device(from), NULL));
}
