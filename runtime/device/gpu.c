/* gpu.c -- opening a program for a GPU: memory, code, weights. */
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
#include "runtime/model/weights.h"

enum {
    READERS = 4,                         /* threads that read the weights: one does not keep up with the bus */
    PROGRESS_BYTES = 1 << 30,            /* loading more than this shows how far it is */
};

/* Those that run, only for the handler of SIGABRT, which is the process's. */
static struct gpu *watched;

/* ---- faults ---- */

/* AMD's runtime ends the process when a kernel faults; this handler of SIGABRT says which, of every GPU program that runs.  No stdio: it
 * runs in a signal. */
static void on_abort(int number)
{
    static const char begin[] = "the GPU failed; the launch that ran last: ";
    char text[256];
    (void)number;
    for (const struct gpu *g = watched; g; g = g->next_watched) {
        memcpy(text, begin, sizeof begin);
        gpu_launch_name(g, text + sizeof begin - 1, 128);
        const size_t n = strlen(text);
        text[n] = '\n';
        if (write(STDERR_FILENO, text, n + 1) < 0) break;
    }
    _exit(FORGE_DEVICE_FAULT);
}

static void watch(struct gpu *g)
{
    g->next_watched = watched;
    watched = g;
    signal(SIGABRT, on_abort);
}

static void unwatch(const struct gpu *g)
{
    struct gpu **at = &watched;
    while (*at && *at != g) at = &(*at)->next_watched;
    if (!*at) return;
    *at = g->next_watched;
    if (!watched) signal(SIGABRT, SIG_DFL);
}

/* ---- opening ---- */

static void gpu_close(struct gpu *g)
{
    if (!g) return;
    if (g->pinned && device_current(&g->device, NULL) == FORGE_OK) gpu_wait_idle(g, NULL);
    unwatch(g);
    gpu_give_memory(g);
    free(g->functions);
    free(g);
}

static enum forge_status open_device(struct gpu *g, int number, struct forge_error *error)
{
    const struct forge_gpu *p = g->program->gpu;
    TRY(device_library(&g->device, p->api, error));
    TRY(device_select(&g->device, p->arch, number, error));
    TRY(gpu_check_memory(&g->device, g->program, error));
    return gpu_load_code(&g->device, p, &g->module, g->functions, error);
}

static enum forge_status gpu_open(struct gpu **out, const struct forge_program *program, int number, struct forge_error *error)
{
    *out = NULL;
    struct gpu *g = calloc(1, sizeof *g);
    if (!g) return error_set(error, FORGE_NO_MEMORY, "out of memory");
    g->program = program;
    g->functions = calloc(program->gpu->n_kernels + 1u, sizeof *g->functions);
    const enum forge_status status = g->functions ? open_device(g, number, error) : error_set(error, FORGE_NO_MEMORY, "out of memory");
    if (status == FORGE_OK) *out = g;
    else gpu_close(g);
    return status;
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
static enum forge_status upload_weights(struct gpu *g, struct forge_pool *pool, const struct forge_weights_file *file, bool progress,
                                        struct forge_error *error)
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
    if (status == FORGE_OK && source->verify && !source->random) status = weights_verify(g->program, source, pool, error);
    if (status == FORGE_OK) status = upload_weights(g, pool, &file, source->progress, error);
    pool_close(pool);
    if (file.fd >= 0) close(file.fd);
    return status;
}

/* gpu_open has looked for the room of one sequence. */
static enum forge_status check_room(struct gpu *g, uint32_t n_sequences, struct forge_error *error)
{
    const double mib = 1.0 / 1048576;
    const uint64_t needed = gpu_bytes_needed(g->program) + (n_sequences - 1) * g->program->state_bytes;
    uint64_t free, total;
    if (n_sequences == 1) return FORGE_OK;
    TRY(device_memory(&g->device, &free, &total, error));
    if (needed <= free) return FORGE_OK;
    return error_set(error, FORGE_NO_MEMORY, "%s has %.0f MiB of %.0f free, %u sequences need %.0f", g->device.name, (double)free * mib,
                     (double)total * mib, n_sequences, (double)needed * mib);
}

static enum forge_status gpu_load(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    TRY(device_current(&g->device, error));
    TRY(check_room(g, e->n_sequences, error));
    TRY(gpu_take_memory(g, e->n_sequences, error));
    TRY(load_weights(g, source, error));
    e->device_name = g->device.name;
    /* Short sleeps are rounded up to this, and it is 50 us otherwise. */
    prctl(PR_SET_TIMERSLACK, 1000);
    watch(g);
    return FORGE_OK;
}

const struct forge_gpu_runtime forge_gpu_runtime = {
    .open = gpu_open, .close = gpu_close, .check = gpu_check, .load = gpu_load,
    .sequence_open = gpu_sequence_open, .sequence_close = gpu_sequence_close, .sequence_copy = gpu_sequence_copy,
    .state_clear = gpu_state_clear, .state_read = gpu_state_read, .state_write = gpu_state_write, .history_write = gpu_history_write,
    .step = gpu_step, .several = gpu_several, .several_begin = gpu_several_begin, .several_draw = gpu_several_draw, .wait = gpu_wait,
    .draw_begin = gpu_draw_begin, .draw_next = gpu_draw_next, .draft = gpu_draft, .laps = gpu_laps, .copy_bandwidth = gpu_copy_bandwidth,
};
