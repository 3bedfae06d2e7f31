/* gpu.c -- opens a program for a GPU: memory, code, weights. */
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
#include "launcher.h"
#include "progress.h"
#include "runtime/model/state.h"
#include "runtime/model/weights.h"

enum {
    READERS = 4,                         /* threads that read the weights: one thread is slower than the bus */
};

/* The running GPU programs, only for the handler of SIGABRT, which belongs to the whole process. */
static struct gpu *watched;

/* ---- faults ---- */

/* AMD's runtime ends the process when a kernel faults.  This handler of SIGABRT prints the last launch of every running GPU program.  It
 * uses no stdio, because it runs in a signal handler. */
static void on_abort(int number)
{
    static const char begin[] = "the GPU failed; the launch that ran last: ";
    char text[400];
    (void)number;
    for (const struct gpu *g = watched; g; g = g->next_watched) {
        size_t n = 0;
        if (g->first->next) {                    /* AMD's runtime does not say here which of them failed */
            n = strlen(g->device.label);
            memcpy(text, g->device.label, n);
            memcpy(text + n, ": ", 2);
            n += 2;
        }
        memcpy(text + n, begin, sizeof begin);
        gpu_launch_name(g, text + n + sizeof begin - 1, 128);
        n = strlen(text);
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

/* Drivers wait for the device before they free memory.  If that could take for ever, freeing is left to the end of the process. */
static void gpu_close(struct gpu *g)
{
    if (!g) return;
    gpu_lead_end(g);
    const bool several = g->next != NULL, waits = !gpu_is_lost(g);
    if (g->pinned && waits && device_current(&g->device, NULL) == FORGE_OK) gpu_wait_all(g, NULL);
    for (const struct gpu *r = g; r; r = r->next) unwatch(r);
    gpu_machines_close(g);
    for (struct gpu *r = g, *next; r && waits; r = next) {
        next = r->next;
        if (several && r->device.stream) device_current(&r->device, NULL);
        gpu_give_memory(r);
        free(r->functions);
        free(r->graphs);
        free(r->names);
        free(r);
    }
}

/* Loads the code of one GPU if the GPU has enough memory. */
static enum forge_status open_rank(struct gpu *r, struct forge_error *error)
{
    TRY(gpu_turn_to(r, error));
    TRY(gpu_check_memory(&r->device, r->first->program, r->program, error));
    return gpu_load_code(&r->device, r->program->gpu, &r->module, r->functions, error);
}

/* Adds a rank to the list, still without a device. */
static enum forge_status add_rank(struct gpu **first, struct gpu **last, const struct forge_program *model, uint32_t rank,
                                  struct forge_error *error)
{
    struct gpu *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, FORGE_NO_MEMORY, "out of memory for a GPU's state");
    if (*last) (*last)->next = r;
    else *first = r;
    *last = r;
    r->first = *first;
    r->rank = rank;
    r->program = program_of_rank(model, rank);
    r->functions = calloc(r->program->gpu->n_kernels + 1u, sizeof *r->functions);
    return r->functions ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory for the list of kernels");
}

/* An older runtime may crash without a message of its own. */
static void warn_of_version(const struct gpu *r)
{
    const uint32_t least = r->program->gpu->least_driver;
    if (r == r->first && r->device.api == FORGE_GPU_HIP && (uint32_t)(100 * r->device.version_major + r->device.version_minor) < least)
        fprintf(stderr, "%s is older than the first that is known to run %s, HIP %u.%u\n", r->device.version_text, r->program->gpu->arch,
                least / 100, least % 100);
}

/* "2 x NAME (GPUs 0, 2)", or each name with its number. */
static enum forge_status name_all(struct gpu *g, struct forge_error *error)
{
    enum { BYTES = FORGE_GPU_MAX_RANKS * sizeof g->device.label + 32 };
    bool same = true;
    if (!g->next) return FORGE_OK;
    g->names = calloc(1, BYTES);
    if (!g->names) return error_set(error, FORGE_NO_MEMORY, "out of memory for the GPUs' names");
    for (const struct gpu *r = g; r; r = r->next) same &= strcmp(r->device.name, g->device.name) == 0;
    size_t n = same ? (size_t)snprintf(g->names, BYTES, "%u x %s (GPUs ", g->program->gpu->n_ranks, g->device.name) : 0;
    for (const struct gpu *r = g; r; r = r->next) {
        const char *comma = r != g ? ", " : "";
        n += (size_t)(same ? snprintf(g->names + n, BYTES - n, "%s%d%s", comma, r->device.index, r->next ? "" : ")")
                           : snprintf(g->names + n, BYTES - n, "%s%s", comma, r->device.label));
    }
    if (g->through_host) snprintf(g->names + n, BYTES - n, " through the host's memory");
    return FORGE_OK;
}

/* How many collectives a step makes. */
static void count_collectives(struct gpu *g)
{
    const struct forge_gpu *p = g->program->gpu;
    g->decode_collectives = gpu_collectives_of(p->decode, p->n_decode, 0, 0);
    if (p->sample.in_collective && p->sample.collectives >= g->decode_collectives)
        g->draw_collectives = p->sample.collectives + 1 - g->decode_collectives;
}

/* Opens the GPU of this process if every process has one GPU.  After the meeting, failures are reported to the other processes. */
static enum forge_status open_one(struct gpu **out, const struct forge_program *model, const struct forge_launcher *launcher,
                                  const struct forge_devices *devices, struct forge_error *error)
{
    struct gpu *g = NULL;
    uint64_t taken = 0;
    TRY(gpu_check_processes(model, launcher, devices, error));
    TRY(add_rank(out, &g, model, launcher->rank, error));
    TRY(gpu_machines_open(g, launcher, error));
    TRY(device_library(&g->device, model->gpu->api, error));
    const struct forge_devices own = gpu_device_of_process(&g->device, launcher, devices);
    TRY(gpu_select(&g->device, model, launcher->rank, &own, &taken, error));
    TRY(gpu_machines_meet(g, model, error));
    const enum forge_status status = open_rank(g, error);
    count_collectives(g);
    return gpu_machines_opened(g, model, status, error);
}

static enum forge_status open_all(struct gpu **out, const struct forge_program *model, const struct forge_devices *devices,
                                  struct forge_error *error)
{
    struct gpu *last = NULL;
    uint64_t taken = 0;
    struct forge_launcher launcher = { .n = 1 };
    TRY(gpu_check_ranks(model, error));
    if (program_ranks(model) > 1) TRY(launcher_find(&launcher, error));
    if (launcher.n > 1) return open_one(out, model, &launcher, devices, error);
    TRY(gpu_check_devices(model, devices, error));
    for (uint32_t rank = 0; rank < program_ranks(model); rank++) {
        TRY(add_rank(out, &last, model, rank, error));
        TRY(device_library(&last->device, model->gpu->api, error));
        TRY(gpu_select(&last->device, model, rank, devices, &taken, error));
    }
    for (struct gpu *r = *out; r; r = r->next)
        for (const struct gpu *other = *out; other; other = other->next)
            (*out)->through_host |= other != r && !gpu_reaches(&r->device, &other->device, NULL);
    for (struct gpu *r = *out; r; r = r->next) {
        warn_of_version(r);
        TRY(open_rank(r, error));
    }
    count_collectives(*out);
    return name_all(*out, error);
}

static enum forge_status gpu_open(struct gpu **out, const struct forge_program *program, const struct forge_devices *devices,
                                  struct forge_error *error)
{
    *out = NULL;
    const enum forge_status status = open_all(out, program, devices, error);
    if (status == FORGE_OK) return FORGE_OK;
    gpu_close(*out);
    *out = NULL;
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

/* Uploads the weights of one GPU.  fd < 0: the staging buffers already contain noise. */
static enum forge_status upload_weights(struct gpu *g, struct forge_pool *pool, const struct forge_weights_file *file,
                                        struct progress *progress, struct forge_error *error)
{
    const uint64_t bytes = g->program->weights_bytes;
    for (uint64_t at = 0, i = 0; at < bytes; i++) {
        const uint64_t left = gpu_weights_run(g, at), part = left < g->staging_bytes ? left : g->staging_bytes;
        TRY(gpu_wait_event(g, g->staged[i % 2], error));
        struct reading r = { file->fd, file->at + at, g->staging[i % 2], (size_t)part, 0 };
        if (file->fd >= 0) pool_run(pool, read_part, &r);
        if (r.failed == ENODATA) return error_set(error, FORGE_BAD_WEIGHTS, "the weights are cut short; copy or build the file again");
        if (r.failed) return error_set(error, FORGE_BAD_WEIGHTS, "cannot read the weights: %s", strerror(r.failed));
        TRY(gpu_said(g, device_upload(&g->device, gpu_weight_at(g, at), g->staging[i % 2], part, error)));
        TRY(gpu_said(g, device_record(&g->device, g->staged[i % 2], error)));
        at += part;
        progress_show(progress, part);
    }
    return gpu_wait_idle(g, error);
}

static void fill_noise(struct gpu *g)
{
    uint8_t noise[WEIGHTS_NOISE_BYTES];
    weights_noise(noise);
    for (size_t at = 0; at < g->staging_bytes; at += sizeof noise)
        for (int i = 0; i < 2; i++) memcpy(g->staging[i] + at, noise, sizeof noise);
}

/* file: the place of the model's image. */
static enum forge_status load_ranks(struct gpu *g, const struct forge_program *model, struct forge_pool *pool,
                                    const struct forge_weights_file *file, struct progress *progress, struct forge_error *error)
{
    for (struct gpu *r = g; r; r = r->next) {
        struct forge_weights_file own = { file->fd, file->at - model->weights_offset + r->program->weights_offset };
        if (own.fd < 0) fill_noise(r);
        else posix_fadvise(own.fd, (off_t)own.at, (off_t)r->program->weights_bytes, POSIX_FADV_SEQUENTIAL);
        TRY(upload_weights(r, pool, &own, progress, error));
    }
    return FORGE_OK;
}

static enum forge_status load_weights(struct gpu *g, const struct forge_program *model, const struct forge_weights_source *source,
                                      struct forge_error *error)
{
    struct forge_weights_file file = { -1, 0 };
    struct forge_pool *pool = NULL;
    uint64_t bytes = 0;
    if (!source->random) TRY(weights_locate(&file, source, model, error));
    for (const struct gpu *r = g; r; r = r->next) bytes += r->program->weights_bytes;
    struct progress progress = progress_of(bytes, source->progress);
    enum forge_status status = pool_open(&pool, threads_default(READERS), error);
    if (status == FORGE_OK && source->verify && !source->random) status = weights_verify(model, source, pool, error);
    if (status == FORGE_OK) status = load_ranks(g, model, pool, &file, &progress, error);
    progress_end(&progress);
    pool_close(pool);
    if (file.fd >= 0) close(file.fd);
    return status;
}

/* gpu_open has already checked the memory for one sequence. */
static enum forge_status check_room(struct gpu *r, uint32_t n_sequences, struct forge_error *error)
{
    const double mib = 1.0 / 1048576;
    const uint64_t needed = gpu_bytes_needed(r->first->program, r->program) + (n_sequences - 1) * r->program->state_bytes;
    uint64_t free, total;
    if (n_sequences == 1) return FORGE_OK;
    TRY(device_memory(&r->device, &free, &total, error));
    if (needed <= free) return FORGE_OK;
    return error_set(error, FORGE_NO_MEMORY, "%s has %.0f MiB of %.0f free, %u sequences need %.0f", r->device.label, (double)free * mib,
                     (double)total * mib, n_sequences, (double)needed * mib);
}

static enum forge_status take_memory(struct gpu *r, uint32_t n_sequences, struct forge_error *error)
{
    TRY(device_current(&r->device, error));
    TRY(check_room(r, n_sequences, error));
    if (r != r->first && !(r->graphs = calloc(n_sequences, sizeof *r->graphs)))
        return error_set(error, FORGE_NO_MEMORY, "out of memory for %u sequences", n_sequences);
    return gpu_take_memory(r, n_sequences, error);
}

/* With several GPUs: puts the name of the GPU before a message of its driver. */
static enum forge_status of_rank(const struct gpu *r, enum forge_status status, struct forge_error *error)
{
    char text[sizeof error->text];
    if (status == FORGE_OK || !error || !r->first->next || strstr(error->text, r->device.label)) return status;
    memcpy(text, error->text, sizeof text);
    return error_set(error, status, "%s: %.340s", r->device.label, text);
}

static enum forge_status load_all(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    for (struct gpu *r = g; r; r = r->next) TRY(of_rank(r, take_memory(r, e->n_sequences, error), error));
    for (struct gpu *r = g; r; r = r->next)
        for (const struct gpu *other = g; other; other = other->next) r->collectives[other->rank] = other->collective;
    if (g->machines) TRY(gpu_machines_take(g, e->program, error));
    enum forge_status status = load_weights(g, e->program, source, error);
    /* No rank may push values before the other ranks have cleared their memory. */
    if (status == FORGE_OK) status = gpu_wait_all(g, error);
    return status == FORGE_OK ? FORGE_OK : of_rank(g->failed ? g->failed : g, status, g->failed ? error : NULL);
}

static enum forge_status gpu_load(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    g->engine = e;
    enum forge_status status = load_all(e, source, error);
    if (g->machines) status = gpu_machines_loaded(g, e, source->random, status, error);
    if (status != FORGE_OK) return status;
    e->device_name = g->names ? g->names : g->device.name;
    /* Short sleeps are rounded up to this slack, which is 50 us by default. */
    prctl(PR_SET_TIMERSLACK, 1000);
    for (struct gpu *r = g; r; r = r->next) watch(r);
    return FORGE_OK;
}

const struct forge_gpu_runtime forge_gpu_runtime = {
    .open = gpu_open, .close = gpu_close, .check = gpu_check, .load = gpu_load,
    .sequence_open = lead_sequence_open, .sequence_close = lead_sequence_close, .sequence_copy = lead_sequence_copy,
    .state_clear = lead_state_clear, .state_read = lead_state_read, .state_write = lead_state_write, .history_write = lead_history_write,
    .step = lead_step, .several = lead_several, .several_begin = lead_several_begin, .several_draw = lead_several_draw, .wait = gpu_wait,
    .draw_begin = lead_draw_begin, .draw_next = lead_draw_next, .draft = gpu_draft, .timings = lead_timings, .follows = gpu_follows,
    .follow = gpu_follow, .copy_bandwidth = gpu_copy_bandwidth,
};
