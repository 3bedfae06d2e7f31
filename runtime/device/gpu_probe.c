/* gpu_probe.c -- kernels with known results (templates/gpu/probe.h): does this driver compute correctly?  Runtimes have replayed graphs
 * with old arguments of launches, started graphs before the preceding copy (github.com/ROCm/clr issue 279, ROCm/hip issues 3887, 3902),
 * read arguments from wrong places, and lost what one GPU stores into another's memory, and always reported success. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu_state.h"

enum { WORDS = 1024, PLAIN_LAUNCHES = 16, GRAPH_LAUNCHES = 256,  /* wrong graphs were seen from about 200 launches on */
       REPLAYS = 3, WORDS_BYTES = WORDS * sizeof(uint32_t) };
static const double PATIENCE_SECONDS = 60;

struct probe {
    struct forge_device *device;
    void     *function, *graph;
    uint8_t  *arena;                             /* device: [2][WORDS], read and written alternately by launches */
    struct forge_gpu_step *step;                 /* device */
    uint8_t  *pinned, *mark;                     /* pinned: on the host; mark: at its device address */
    uint32_t *words;                             /* [WORDS] in pinned, and: */
    struct forge_gpu_step *host_step;
};

static uint32_t first_word(uint32_t i) { return i * 2654435761u + 12345; }

/* The words after `launches` launches. */
static void expect(uint32_t *y, uint32_t launches, uint32_t key)
{
    uint32_t x[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) y[i] = first_word(i);
    for (uint32_t k = 0; k < launches; k++) {
        memcpy(x, y, sizeof x);
        for (uint32_t i = 0; i < WORDS; i++) y[i] = x[(5 * i + 1) % WORDS] * 0x9e3779b1u + key + k;
    }
}

static enum forge_status wait_idle(struct forge_device *d, struct forge_error *error)
{
    const double since = seconds_now();
    for (bool idle = false;;) {
        TRY(device_idle(d, &idle, error));
        if (idle) return FORGE_OK;
        if (seconds_now() - since > PATIENCE_SECONDS)
            return error_set(error, FORGE_DEVICE_FAULT, "%s has not answered for %.0f seconds", d->label, PATIENCE_SECONDS);
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
}

/* ---- opening ---- */

static void probe_close(struct probe *p)
{
    if (!p->device || device_current(p->device, NULL) != FORGE_OK) return;
    device_graph_free(p->device, p->graph);
    device_free(p->device, p->arena);
    device_free(p->device, p->step);
    device_host_free(p->device, p->pinned);
}

static enum forge_status probe_open(struct probe *p, struct forge_device *d, void *module, struct forge_error *error)
{
    const uint64_t step_at = 64 + WORDS_BYTES, bytes = step_at + sizeof *p->host_step;
    memset(p, 0, sizeof *p);
    p->device = d;
    TRY(device_current(d, error));
    TRY(device_function(d, &p->function, module, FORGE_GPU_PROBE, 0, error));
    TRY(device_alloc(d, &p->arena, 2 * WORDS_BYTES, "test's values", error));
    TRY(device_alloc(d, &p->step, sizeof *p->step, "test's numbers", error));
    TRY(device_host_alloc(d, &p->pinned, &p->mark, bytes, "test's values on the host", error));
    memset(p->pinned, 0, (size_t)bytes);
    p->words = (uint32_t *)(void *)(p->pinned + 64);
    p->host_step = (struct forge_gpu_step *)(void *)(p->pinned + step_at);
    return FORGE_OK;
}

/* ---- launches ---- */

/* collective: memory of another GPU that the launch stores into as well; given: memory that it reads in place of the arena; NULL: not
 * used. */
static enum forge_status launch(struct probe *p, uint32_t number, uint8_t *collective, const uint8_t *given, struct forge_error *error)
{
    struct forge_kernel_args args = {
        .weights = p->arena, .arena = p->arena, .state = p->arena, .step = p->step, .mark_at = (uint32_t *)(void *)p->mark,
        .weight = { number % 2 * WORDS_BYTES, (number + 1) % 2 * WORDS_BYTES, WORDS, number, collective != NULL, given != NULL },
        .collective = { collective }, .given = given, .rank = 1,
    };
    return device_launch(p->device, p->function, WORDS / FORGE_GPU_PROBE_THREADS, 1, FORGE_GPU_PROBE_THREADS, 0, &args, false, 0, error);
}

static enum forge_status launch_all(struct probe *p, uint32_t launches, struct forge_error *error)
{
    for (uint32_t k = 0; k < launches; k++) TRY(launch(p, k, NULL, NULL, error));
    return FORGE_OK;
}

static enum forge_status upload_words(struct probe *p, struct forge_error *error)
{
    for (uint32_t i = 0; i < WORDS; i++) p->words[i] = first_word(i);
    TRY(device_upload(p->device, p->arena, p->words, WORDS_BYTES, error));
    return wait_idle(p->device, error);
}

static enum forge_status upload_key(struct probe *p, uint32_t key, struct forge_error *error)
{
    p->host_step->n_past = key;
    return device_upload(p->device, p->step, p->host_step, sizeof *p->step, error);
}

/* Compares the words after `launches` launches with `y`. */
static enum forge_status compare(struct probe *p, uint32_t launches, const uint32_t *y, const char *what, struct forge_error *error)
{
    TRY(device_download(p->device, p->words, p->arena + launches % 2 * WORDS_BYTES, WORDS_BYTES, error));
    TRY(wait_idle(p->device, error));
    for (uint32_t i = 0; i < WORDS; i++)
        if (p->words[i] != y[i])
            return error_set(error, FORGE_DEVICE_FAULT, "wrong values %s: word %u of %d is %08x, not %08x", what, i, WORDS, p->words[i],
                             y[i]);
    return FORGE_OK;
}

static enum forge_status try_plain(struct probe *p, struct forge_error *error)
{
    uint32_t y[WORDS];
    for (uint32_t key = 1; key <= REPLAYS; key++) {
        TRY(upload_words(p, error));
        TRY(upload_key(p, key, error));
        TRY(launch_all(p, PLAIN_LAUNCHES, error));
        expect(y, PLAIN_LAUNCHES, key);
        TRY(compare(p, PLAIN_LAUNCHES, y, "from a kernel that is launched as it should be: another version of the driver is needed",
                    error));
    }
    return FORGE_OK;
}

static enum forge_status make_graph(struct probe *p, struct forge_error *error)
{
    TRY(device_capture_begin(p->device, error));
    const enum forge_status status = launch_all(p, GRAPH_LAUNCHES, error);
    if (status == FORGE_OK) return device_capture_end(p->device, &p->graph, error);
    device_capture_drop(p->device);
    return status;
}

/* apart: wait for the copy before launching the graph. */
static enum forge_status try_graph(struct probe *p, bool apart, const char *what, struct forge_error *error)
{
    uint32_t y[WORDS];
    for (uint32_t key = 11; key < 11 + REPLAYS; key++) {
        TRY(upload_words(p, error));
        TRY(upload_key(p, key, error));
        if (apart) TRY(wait_idle(p->device, error));
        TRY(device_graph_launch(p->device, p->graph, error));
        expect(y, GRAPH_LAUNCHES, key);
        TRY(compare(p, GRAPH_LAUNCHES, y, what, error));
    }
    return FORGE_OK;
}

/* *made: graphs can be made; else no_graph says why not. */
static enum forge_status try_all(struct probe *p, bool graphs, bool *made, struct forge_error *no_graph, struct forge_error *error)
{
    bool idle;
    *made = false;
    TRY(try_plain(p, error));
    if (!graphs) return FORGE_OK;
    if (make_graph(p, no_graph) != FORGE_OK) return device_idle(p->device, &idle, error);
    *made = true;
    TRY(try_graph(p, true, "from graphs, which --no-graph avoids", error));
    return try_graph(p, false, "from graphs right after a copy to the GPU, which --no-graph avoids", error);
}

enum forge_status gpu_probe(struct forge_device *d, void *module, bool graphs, bool *made, struct forge_error *no_graph,
                            struct forge_error *error)
{
    struct probe p;
    enum forge_status status = probe_open(&p, d, module, error);
    if (status == FORGE_OK) status = try_all(&p, graphs, made, no_graph, error);
    probe_close(&p);
    return status;
}

/* ---- between two GPUs ---- */

/* memory: [WORDS] of 8 bytes, visible to both devices. */
static enum forge_status try_passing(struct probe *from, struct probe *to, uint8_t *memory, const char *what, struct forge_error *error)
{
    uint32_t y[WORDS];
    enum { KEY = 21, LAUNCHES = 1 };
    TRY(device_current(from->device, error));
    TRY(upload_words(from, error));
    TRY(upload_key(from, KEY, error));
    TRY(launch(from, 0, memory, NULL, error));
    TRY(wait_idle(from->device, error));
    TRY(device_current(to->device, error));
    TRY(upload_key(to, KEY, error));
    TRY(launch(to, 0, NULL, memory, error));
    expect(y, LAUNCHES, KEY);
    for (uint32_t i = 0; i < WORDS; i++) y[i] = y[i] * 0x9e3779b1u + KEY;
    return compare(to, LAUNCHES, y, what, error);
}

static enum forge_status try_pair(struct probe *from, struct probe *to, bool through_host, const char *what, struct forge_error *error)
{
    uint8_t *memory = NULL, *host = NULL;
    TRY(device_current(to->device, error));
    if (through_host) {
        TRY(device_host_alloc_shared(to->device, &host, &memory, WORDS * 8, "test's values", error));
        memset(host, 0, WORDS * 8);
    } else {
        TRY(device_alloc_shared(to->device, &memory, WORDS * 8, "test's values", error));
    }
    enum forge_status status = through_host ? FORGE_OK : device_clear(to->device, memory, WORDS * 8, error);
    if (status == FORGE_OK) status = wait_idle(to->device, error);
    if (status == FORGE_OK) status = try_passing(from, to, memory, what, error);
    if (device_current(to->device, NULL) == FORGE_OK) {
        if (through_host) device_host_free(to->device, host);
        else device_free(to->device, memory);
    }
    return status;
}

enum forge_status gpu_probe_pair(struct forge_device *from, void *from_module, struct forge_device *to, void *to_module, bool through_host,
                                 struct forge_error *error)
{
    struct probe a, b = { .device = NULL };
    char what[400];
    snprintf(what, sizeof what, "on the way from %s to %s%s", from->label, to->label,
             through_host ? " through the host's memory" : ", which FORGE_NO_PEER=1 avoids");
    enum forge_status status = probe_open(&a, from, from_module, error);
    if (status == FORGE_OK) status = probe_open(&b, to, to_module, error);
    if (status == FORGE_OK) status = try_pair(&a, &b, through_host, what, error);
    probe_close(&b);
    probe_close(&a);
    return status;
}
