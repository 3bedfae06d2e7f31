/* Opening a program for a GPU: memory, code, weights. */
#include "gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gpu_state.h"
#include "weights.h"

enum {
    READERS = 4,                         /* threads that read the weights: one does not keep up with the bus */
    PROGRESS_BYTES = 1 << 30,            /* loading more than this shows how far it is */
};

struct gpu the_gpu;

static uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

static uint64_t history_bytes(const struct forge_program *p) { return (p->n_ctx + 1u) * sizeof(int32_t); }

uint64_t gpu_bytes_needed(const struct forge_program *p)
{
    return p->weights_bytes + p->kv_bytes + p->arena_bytes + history_bytes(p) + sizeof(struct forge_gpu_step);
}

enum forge_status gpu_check_memory(struct forge_device *d, const struct forge_program *p, struct forge_error *error)
{
    uint64_t free, total;
    const uint64_t needed = gpu_bytes_needed(p);
    const double mib = 1.0 / 1048576;
    TRY(device_memory(d, &free, &total, error));
    if (needed <= free) return FORGE_OK;
    return error_set(error, FORGE_NO_MEMORY, "%s has %.0f MiB of %.0f free, the program needs %.0f: weights %.0f, KV cache %.0f (%u tokens), activations %.0f",
                     d->name, (double)free * mib, (double)total * mib, (double)needed * mib, (double)p->weights_bytes * mib, (double)p->kv_bytes * mib,
                     p->n_ctx, (double)p->arena_bytes * mib);
}

enum forge_status gpu_load_code(struct forge_device *d, const struct forge_gpu *p, void **module, void **functions, struct forge_error *error)
{
    *module = NULL;
    TRY(device_module(d, module, p->code, error));
    for (uint32_t i = 0; i < p->n_kernels; i++)
        TRY(device_function(d, &functions[i], *module, p->kernels[i].name, p->kernels[i].lds_bytes, error));
    return FORGE_OK;
}

static void release(struct gpu *g)
{
    struct forge_device *d = &g->device;
    if (d->library != NULL) {
        device_graph_free(d, g->draw_graph);
        device_graph_free(d, g->step_graph);
        for (int i = 0; i < SLOTS; i++) device_event_free(d, g->slots[i].event);
        for (int i = 0; i < 2; i++) device_event_free(d, g->staged[i]);
        device_host_free(d, g->pinned);
        device_free(d, g->history);
        device_free(d, g->step);
        device_free(d, g->kv);
        device_free(d, g->arena);
        device_free(d, g->weights);
        device_module_free(d, g->module);
        device_close(d);
    }
    free(g->functions);
    memset(g, 0, sizeof *g);
}

static enum forge_status gpu_probe(const struct forge_program *program, struct forge_error *error)
{
    struct gpu *g = &the_gpu;
    const struct forge_gpu *p = program->gpu;
    if (g->program == program) return FORGE_OK;
    release(g);
    g->functions = calloc(p->n_kernels + 1u, sizeof *g->functions);
    enum forge_status status = g->functions != NULL ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory");
    if (status == FORGE_OK) status = device_library(&g->device, p->api, error);
    if (status == FORGE_OK) status = device_select(&g->device, p->arch, error);
    if (status == FORGE_OK) status = gpu_check_memory(&g->device, program, error);
    if (status == FORGE_OK) status = gpu_load_code(&g->device, p, &g->module, g->functions, error);
    if (status != FORGE_OK) release(g);
    else g->program = program;
    return status;
}

/* One pinned block: mark, ring, slots, staging buffers. */
static enum forge_status take_pinned(struct gpu *g, struct forge_error *error)
{
    const struct forge_program *p = g->program;
    const uint64_t step_bytes = round_up(sizeof(struct forge_gpu_step), 64), tokens_bytes = round_up((p->chunk + 1u) * sizeof(int32_t), 64);
    const uint64_t ring_at = 4096, slots_at = ring_at + FORGE_GPU_RING * sizeof(uint64_t);
    const uint64_t staging_at = round_up(slots_at + SLOTS * (step_bytes + tokens_bytes), 4096);
    const uint64_t logits_bytes = (p->chunk + 1u) * (uint64_t)p->n_vocab * sizeof(float), most = logits_bytes > p->weights_bytes ? logits_bytes : p->weights_bytes;
    uint8_t *address;
    g->staging_bytes = most < STAGING_BYTES ? round_up(most, WEIGHTS_NOISE_BYTES) : STAGING_BYTES;
    TRY(device_host_alloc(&g->device, &g->pinned, &address, staging_at + 2 * g->staging_bytes, "pinned buffers of the host", error));
    memset(g->pinned, 0, (size_t)staging_at);
    g->mark = (volatile uint32_t *)(void *)g->pinned;
    g->device_mark = (uint32_t *)(void *)address;
    g->ring = (volatile uint64_t *)(void *)(g->pinned + ring_at);
    g->device_ring = (uint64_t *)(void *)(address + ring_at);
    for (uint64_t i = 0; i < SLOTS; i++) {
        uint8_t *at = g->pinned + slots_at + i * (step_bytes + tokens_bytes);
        g->slots[i].step = (struct forge_gpu_step *)(void *)at;
        g->slots[i].tokens = (int32_t *)(void *)(at + step_bytes);
        TRY(device_event(&g->device, &g->slots[i].event, error));
        TRY(device_record(&g->device, g->slots[i].event, error));
    }
    for (uint64_t i = 0; i < 2; i++) {
        g->staging[i] = g->pinned + staging_at + i * g->staging_bytes;
        TRY(device_event(&g->device, &g->staged[i], error));
        TRY(device_record(&g->device, g->staged[i], error));
    }
    return FORGE_OK;
}

static enum forge_status take_memory(struct gpu *g, struct forge_error *error)
{
    const struct forge_program *p = g->program;
    struct forge_device *d = &g->device;
    TRY(take_pinned(g, error));
    if (p->weights_bytes > 0) TRY(device_alloc(d, &g->weights, p->weights_bytes, "weights", error));
    TRY(device_alloc(d, &g->arena, p->arena_bytes > 0 ? p->arena_bytes : 1, "activations", error));
    if (p->kv_bytes > 0) TRY(device_alloc(d, &g->kv, p->kv_bytes, "KV cache", error));
    TRY(device_alloc(d, &g->step, sizeof *g->step, "step", error));
    TRY(device_alloc(d, &g->history, history_bytes(p), "tokens", error));
    if (p->kv_bytes > 0) TRY(device_clear(d, g->kv, p->kv_bytes, error));        /* a masked product with what was there before could be NaN */
    if (p->gpu->zero_bytes > 0) TRY(device_clear(d, g->arena + p->gpu->zero_offset, p->gpu->zero_bytes, error));
    return device_clear(d, g->history, history_bytes(p), error);
}

/* ---- weights ---- */

struct reading { int fd; uint64_t at; uint8_t *to; size_t bytes; _Atomic int failed; };

static void read_part(void *context, uint32_t thread, uint32_t n_threads)
{
    struct reading *r = context;
    const size_t end = r->bytes * (thread + 1) / n_threads;
    for (size_t at = r->bytes * thread / n_threads; at < end;) {
        const ssize_t n = pread(r->fd, r->to + at, end - at, (off_t)(r->at + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) { r->failed = n < 0 ? errno : ENODATA; return; }
        at += (size_t)n;
    }
}

/* fd < 0: the staging buffers hold noise already. */
static enum forge_status upload_weights(struct gpu *g, struct forge_pool *pool, const struct forge_weights_file *file, bool progress, struct forge_error *error)
{
    const uint64_t bytes = g->program->weights_bytes;
    progress = progress && bytes >= PROGRESS_BYTES && isatty(STDERR_FILENO);
    for (uint64_t at = 0, i = 0; at < bytes; i++) {
        const uint64_t left = bytes - at, part = left < g->staging_bytes ? left : g->staging_bytes;
        TRY(gpu_wait_event(g, g->staged[i % 2], error));
        struct reading r = { file->fd, file->at + at, g->staging[i % 2], (size_t)part, 0 };
        if (file->fd >= 0) pool_run(pool, read_part, &r);
        if (r.failed == ENODATA) return error_set(error, FORGE_BAD_WEIGHTS, "the weights are cut short");
        if (r.failed) return error_set(error, FORGE_BAD_WEIGHTS, "cannot read the weights: %s", strerror(r.failed));
        TRY(device_upload(&g->device, g->weights + at, g->staging[i % 2], part, error));
        TRY(device_record(&g->device, g->staged[i % 2], error));
        at += part;
        if (progress) fprintf(stderr, "\rloading weights %3u %%", (unsigned)(at * 100 / bytes));
    }
    const enum forge_status status = gpu_wait_idle(g, error);
    if (progress) fprintf(stderr, "\r                     \r");
    return status;
}

static enum forge_status load_weights(struct gpu *g, const struct forge_weights_source *source, struct forge_error *error)
{
    struct forge_weights_file file = { -1, 0 };
    struct forge_pool *pool = NULL;
    if (source->random) {
        uint8_t noise[WEIGHTS_NOISE_BYTES];
        weights_noise(noise);
        for (size_t at = 0; at < g->staging_bytes; at += sizeof noise)
            for (int i = 0; i < 2; i++) memcpy(g->staging[i] + at, noise, sizeof noise);
    } else {
        TRY(weights_locate(&file, source, g->program, error));
        posix_fadvise(file.fd, (off_t)file.at, (off_t)g->program->weights_bytes, POSIX_FADV_SEQUENTIAL);
    }
    enum forge_status status = pool_open(&pool, threads_default(READERS), error);
    if (status == FORGE_OK) status = upload_weights(g, pool, &file, source->progress, error);
    pool_close(pool);
    if (file.fd >= 0) close(file.fd);
    return status;
}

static enum forge_status gpu_open(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    struct gpu *g = &the_gpu;
    TRY(gpu_probe(e->program, error));
    enum forge_status status = take_memory(g, error);
    if (status == FORGE_OK) status = load_weights(g, source, error);
    if (status != FORGE_OK) {
        release(g);
        return status;
    }
    g->sampling.history = g->history;
    g->sampling.ring = g->device_ring;
    e->device_name = g->device.name;
    /* Short sleeps are rounded up to this, and it is 50 us otherwise. */
    prctl(PR_SET_TIMERSLACK, 1000);
    signal(SIGABRT, gpu_on_abort);
    return FORGE_OK;
}

static void gpu_close(struct forge_engine *e)
{
    struct gpu *g = &the_gpu;
    (void)e;
    if (g->program != NULL && g->pinned != NULL) gpu_wait_idle(g, NULL);
    signal(SIGABRT, SIG_DFL);
    release(g);
}

const struct forge_gpu_runtime forge_gpu_runtime = {
    .probe = gpu_probe, .check = gpu_check, .open = gpu_open, .close = gpu_close, .step = gpu_step, .wait = gpu_wait,
    .draw_begin = gpu_draw_begin, .draw_next = gpu_draw_next, .copy_bandwidth = gpu_copy_bandwidth,
};
