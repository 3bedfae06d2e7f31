/* gpu_memory.c -- memory of a program on a GPU, for programs (gpu.c) and for libraries (runtime/library/gpu.c): code, weights, state,
 * pinned buffers. */
#include <stdio.h>
#include <string.h>

#include "gpu_state.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "runtime/model/weights.h"

static uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

static uint64_t history_bytes(const struct forge_program *p) { return (p->n_ctx + 1u) * sizeof(int32_t); }

uint64_t gpu_collective_bytes(const struct forge_program *p) { return p->gpu->n_ranks > 1 ? p->gpu->collective_bytes : 0; }

uint64_t gpu_bytes_needed(const struct forge_program *model, const struct forge_program *p)
{
    return p->weights_bytes + p->state_bytes + p->arena_bytes + history_bytes(model) + gpu_collective_bytes(p) +
           STEPS * sizeof(struct forge_gpu_step);
}

enum forge_status gpu_check_memory(struct forge_device *d, const struct forge_program *model, const struct forge_program *p,
                                   struct forge_error *error)
{
    uint64_t free, total;
    const uint64_t needed = gpu_bytes_needed(model, p);
    const double mib = 1.0 / 1048576;
    char collective[48] = "";
    TRY(device_memory(d, &free, &total, error));
    if (needed <= free) return FORGE_OK;
    /* With several GPUs each keeps a part of a token's states, described by its own table. */
    const uint64_t per_token = program_ranks(model) > 1 ? p->state_bytes / model->n_ctx : p->state_bytes_per_token;
    const uint32_t fits = state_fits(needed, per_token, model->n_ctx, free);
    if (gpu_collective_bytes(p) > 0)
        snprintf(collective, sizeof collective, ", collectives %.0f", (double)gpu_collective_bytes(p) * mib);
    char remedy[128] = "weights of fewer bits are needed";
    if (fits > 0) snprintf(remedy, sizeof remedy, "built with --ctx %u it fits, of --kv q8_0 with more", fits);
    return error_set(error, FORGE_NO_MEMORY,
                     "%s has %.0f MiB of %.0f free, the program needs %.0f: weights %.0f, state %.0f (%u tokens), activations %.0f%s; %s%s",
                     d->label, (double)free * mib, (double)total * mib, (double)needed * mib, (double)p->weights_bytes * mib,
                     (double)p->state_bytes * mib, model->n_ctx, (double)p->arena_bytes * mib, collective, remedy,
                     d->host_limits ? "; it shares the system's memory, of which no more is available"
                     : d->integrated ? "; --check shows how much memory the system gives the GPU" : "");
}

enum forge_status gpu_load_code(struct forge_device *d, const struct forge_gpu *p, void **module, void **functions,
                                struct forge_error *error)
{
    *module = NULL;
    TRY(device_module(d, module, p->code, error));
    for (uint32_t i = 0; i < p->n_kernels; i++)
        TRY(device_function(d, &functions[i], *module, p->kernels[i].name, p->kernels[i].lds_bytes, error));
    return FORGE_OK;
}

/* One pinned block: mark, ring, slots, staging buffers. */
static enum forge_status take_pinned(struct gpu *g, struct forge_error *error)
{
    const struct forge_program *p = g->first->program;
    const uint64_t draws_at = round_up(sizeof(struct forge_gpu_step), 64),
                   step_bytes = draws_at + round_up(FORGE_MAX_COLUMNS * sizeof(struct forge_gpu_step), 64),
                   tokens_bytes = round_up((p->chunk + 1u) * sizeof(int32_t), 64);
    /* Masks have a few KB; a draw reads them from here faster than a copy would take. */
    const bool draws = p->gpu->runtime->several_draw && !p->embedding;
    g->mask_words = draws ? (uint32_t)round_up(p->n_vocab, 1024) / 32 : 0;
    const uint64_t ring_at = 4096, slots_at = ring_at + FORGE_GPU_RING * sizeof(uint64_t);
    const uint64_t masks_at = round_up(slots_at + SLOTS * (step_bytes + tokens_bytes), 128);
    const uint64_t rows_at = masks_at + FORGE_MAX_COLUMNS * g->mask_words * sizeof *g->masks;
    const uint64_t staging_at = round_up(rows_at + (draws ? FORGE_MAX_COLUMNS * sizeof *g->begun.rows : 0), 4096);
    const uint64_t logits_bytes = (p->gpu->logits_rows + 1u) * (uint64_t)program_columns(p) * sizeof(float);
    const uint64_t weights_bytes = g->program->weights_bytes, most = logits_bytes > weights_bytes ? logits_bytes : weights_bytes;
    uint8_t *address;
    g->staging_bytes = most < STAGING_BYTES ? round_up(most, WEIGHTS_NOISE_BYTES) : STAGING_BYTES;
    TRY(device_host_alloc(&g->device, &g->pinned, &address, staging_at + 2 * g->staging_bytes, "pinned buffers of the host", error));
    memset(g->pinned, 0, (size_t)staging_at);
    g->mark = (volatile uint32_t *)(void *)g->pinned;
    g->device_mark = (uint32_t *)(void *)address;
    g->ring = (volatile uint64_t *)(void *)(g->pinned + ring_at);
    g->device_ring = (uint64_t *)(void *)(address + ring_at);
    g->masks = (uint32_t *)(void *)(g->pinned + masks_at);
    g->begun.rows = (struct gpu_row *)(void *)(g->pinned + rows_at);
    g->device_masks = (const uint32_t *)(const void *)(address + masks_at);
    for (uint64_t i = 0; i < SLOTS; i++) {
        uint8_t *at = g->pinned + slots_at + i * (step_bytes + tokens_bytes);
        g->slots[i].step = (struct forge_gpu_step *)(void *)at;
        g->slots[i].draws = (struct forge_gpu_step *)(void *)(at + draws_at);
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

/* ---- weights ---- */

void gpu_give_weights(struct gpu *g)
{
    for (uint32_t i = 0; i < g->n_parts; i++) device_free(&g->device, g->parts[i].at);
    g->n_parts = 0;
    g->weights = NULL;
}

static enum forge_status take_part(struct gpu *g, uint64_t from, uint64_t to, struct forge_error *error)
{
    struct gpu_part *part = &g->parts[g->n_parts];
    TRY(device_alloc(&g->device, &part->at, to - from, "weights", error));
    part->from = from;
    if (g->n_parts++ == 0 || part->at < g->weights) g->weights = part->at;
    return FORGE_OK;
}

/* Allocates parts that begin where the image may be cut.  Each is as large as possible up to `most` bytes, but extends at least to the
 * next cut. */
static enum forge_status take_parts(struct gpu *g, uint64_t most, struct forge_error *error)
{
    const struct forge_program *p = g->program;
    const uint32_t n = p->gpu->n_cuts;
    for (uint64_t from = 0, to, i = 0; from < p->weights_bytes; from = to) {
        to = i < n ? p->gpu->cuts[i++] : p->weights_bytes;
        for (; to < p->weights_bytes; i++) {
            const uint64_t next = i < n ? p->gpu->cuts[i] : p->weights_bytes;
            if (next - from > most) break;
            to = next;
        }
        if (g->n_parts == MOST_PARTS) return error_set(error, FORGE_NO_MEMORY, "the weights would be in more than %d parts", MOST_PARTS);
        TRY(take_part(g, from, to, error));
    }
    return FORGE_OK;
}

/* Runtimes have refused more than 64 GiB at once, and even less: github.com/ROCm/rocm-systems pull request 1731, ggml-org/llama.cpp
 * issue 19764. */
enum forge_status gpu_take_weights(struct gpu *g, struct forge_error *error)
{
    const uint64_t bytes = g->program->weights_bytes;
    uint64_t free, total;
    g->n_parts = 0;
    g->weights = NULL;
    if (bytes == 0) return FORGE_OK;
    enum forge_status status = take_part(g, 0, bytes, error);
    if (status != FORGE_NO_MEMORY || g->program->gpu->n_cuts == 0) return status;
    if (device_memory(&g->device, &free, &total, NULL) != FORGE_OK || free < bytes) return status;
    for (uint64_t n = 2; status == FORGE_NO_MEMORY && n <= MOST_PARTS; n *= 2) {
        gpu_give_weights(g);
        status = take_parts(g, (bytes + n - 1) / n, error);
    }
    if (status != FORGE_OK) gpu_give_weights(g);
    return status;
}

enum forge_status gpu_take_memory(struct gpu *g, uint32_t n_sequences, struct forge_error *error)
{
    const struct forge_program *p = g->program;
    struct forge_device *d = &g->device;
    TRY(take_pinned(g, error));
    TRY(gpu_take_weights(g, error));
    TRY(device_alloc(d, &g->arena, p->arena_bytes > 0 ? p->arena_bytes : 1, "activations", error));
    g->state_stride = round_up(p->state_bytes, 256);
    g->history_stride = round_up(history_bytes(g->first->program), 64);
    const uint64_t state_bytes = n_sequences * g->state_stride, tokens_bytes = n_sequences * g->history_stride;
    if (state_bytes > 0) TRY(device_alloc(d, &g->state, state_bytes, "state", error));
    TRY(device_alloc(d, &g->step, STEPS * sizeof *g->step, "step", error));
    TRY(device_alloc(d, &g->history, tokens_bytes, "tokens", error));
    /* A masked product with the previous contents of this memory could be NaN. */
    if (state_bytes > 0) TRY(device_clear(d, g->state, state_bytes, error));
    if (p->gpu->zero_bytes > 0) TRY(device_clear(d, g->arena + p->gpu->zero_offset, p->gpu->zero_bytes, error));
    TRY(device_clear(d, g->history, tokens_bytes, error));
    const uint64_t collective_bytes = gpu_collective_bytes(g->program);
    if (collective_bytes > 0) {
        /* no collective has the number 0 */
        if (g->first->through_host) {
            TRY(device_host_alloc_shared(d, &g->pinned_collective, &g->collective, collective_bytes, "collectives between GPUs", error));
            memset(g->pinned_collective, 0, (size_t)collective_bytes);
        } else {
            TRY(device_alloc_shared(d, &g->collective, collective_bytes, "collectives between GPUs", error));
            TRY(device_clear(d, g->collective, collective_bytes, error));
        }
    }
    g->collective_base = 1;
    g->sampling.ring = g->device_ring;
    g->sampling.n_draws = 1;
    return FORGE_OK;
}

void gpu_give_memory(struct gpu *g)
{
    struct forge_device *d = &g->device;
    if (!d->library) return;
    for (int i = 0; i < SLOTS; i++) device_event_free(d, g->slots[i].event);
    for (int i = 0; i < 2; i++) device_event_free(d, g->staged[i]);
    device_host_free(d, g->pinned);
    if (g->pinned_collective) device_host_free(d, g->pinned_collective);
    else device_free(d, g->collective);
    device_free(d, g->history);
    device_free(d, g->step);
    for (uint32_t n = 0; n <= FORGE_MAX_COLUMNS; n++)
        for (int i = 0; i < 2; i++) device_graph_free(d, g->several_graphs[i][n]);
    device_free(d, g->state);
    device_free(d, g->arena);
    gpu_give_weights(g);
    device_module_free(d, g->module);
    device_close(d);
}

/* ---- sequences ---- */

void gpu_sequence_open(struct forge_sequence *q, uint32_t index)
{
    const struct gpu *g = q->engine->gpu;
    q->state = g->state + index * g->state_stride;
    q->history = (int32_t *)(void *)(g->history + index * g->history_stride);
}

/* The history of a sequence has the same offset on all ranks. */
int32_t *gpu_history_of(const struct gpu *r, const struct forge_sequence *q)
{
    return (int32_t *)(void *)gpu_moved(q->history, r->first->history, r->history);
}

uint8_t *gpu_state_of(const struct gpu *r, const struct forge_sequence *q)
{
    if (r == r->first) return q->state;
    return r->state + (uint64_t)((const uint8_t *)q->history - r->first->history) / r->history_stride * r->state_stride;
}

void **gpu_graphs_of(const struct gpu *r, struct forge_sequence *q)
{
    return r == r->first ? q->graphs : r->graphs[(uint64_t)((const uint8_t *)q->history - r->first->history) / r->history_stride];
}

void gpu_forget_columns(struct gpu *g)
{
    for (struct gpu *r = g; r; r = r->next) {
        if (gpu_turn_to(r, NULL) != FORGE_OK) continue;
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t n = 0; n <= FORGE_MAX_COLUMNS; n++) device_graph_free(&r->device, r->columns_graphs[i][n]);
        memset(r->columns_graphs, 0, sizeof r->columns_graphs);
    }
    g->columns = NULL;
}

void gpu_sequence_close(struct forge_sequence *q)
{
    struct gpu *g = q->engine->gpu;
    g->begun.n = 0;
    if (g->last == q) g->last = NULL;
    if (g->run == q) g->run = NULL;
    /* The graph may be running. */
    if (device_current(&g->device, NULL) == FORGE_OK && !gpu_is_lost(g)) gpu_wait_all(g, NULL);
    for (struct gpu *r = g; r && !gpu_is_lost(g); r = r->next) {
        void **graphs = gpu_graphs_of(r, q);
        if (gpu_turn_to(r, NULL) != FORGE_OK) continue;
        for (size_t i = 0; i < SEQUENCE_GRAPHS; i++) device_graph_free(&r->device, graphs[i]);
        memset(graphs, 0, SEQUENCE_GRAPHS * sizeof *graphs);
    }
    if (g->columns == q && !gpu_is_lost(g)) gpu_forget_columns(g);
}

enum forge_status gpu_state_clear(struct forge_sequence *q, uint32_t rank, uint64_t offset, uint64_t bytes, struct forge_error *error)
{
    struct gpu *r = gpu_rank(q->engine->gpu, rank);
    TRY(gpu_said(r, device_current(&r->device, error)));
    return bytes > 0 ? gpu_said(r, device_clear(&r->device, gpu_state_of(r, q) + offset, bytes, error)) : FORGE_OK;
}

static enum forge_status copy_on(struct gpu *r, const struct forge_sequence *to, const struct forge_sequence *from,
                                 struct forge_error *error)
{
    uint8_t *const state = gpu_state_of(r, to), *const other = gpu_state_of(r, from);
    TRY(device_current(&r->device, error));
    for (uint32_t i = 0; i < r->program->n_states; i++) {
        const struct state_runs runs = state_runs(&r->program->states[i], from->n_past);
        for (uint64_t k = 0; k < runs.n; k++) {
            const uint64_t at = runs.offset + k * runs.stride;
            TRY(device_copy(&r->device, state + at, other + at, runs.bytes, error));
        }
    }
    if (from->n_past == 0) return FORGE_OK;
    return device_copy(&r->device, gpu_history_of(r, to), gpu_history_of(r, from), from->n_past * sizeof *to->history, error);
}

enum forge_status gpu_sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error)
{
    struct gpu *g = from->engine->gpu;
    g->begun.n = 0;
    if (g->last == to) g->last = NULL;
    if (g->run == to) g->run = NULL;
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, copy_on(r, to, from, error)));
    return FORGE_OK;
}

/* Copies on one GPU through a staging buffer, which is pinned; no other work is in flight. */
static enum forge_status move(struct gpu *g, uint8_t *device, uint8_t *to, const uint8_t *from, uint64_t bytes, struct forge_error *error)
{
    TRY(gpu_said(g, device_current(&g->device, error)));
    TRY(gpu_wait_idle(g, error));
    for (uint64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < g->staging_bytes ? bytes - at : g->staging_bytes;
        if (from) memcpy(g->staging[0], from + at, (size_t)n);
        TRY(gpu_said(g, from ? device_upload(&g->device, device + at, g->staging[0], n, error)
                             : device_download(&g->device, g->staging[0], device + at, n, error)));
        TRY(gpu_wait_idle(g, error));
        if (to) memcpy(to + at, g->staging[0], (size_t)n);
    }
    return FORGE_OK;
}

enum forge_status gpu_state_read(struct forge_sequence *q, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                 struct forge_error *error)
{
    struct gpu *r = gpu_rank(q->engine->gpu, rank);
    return move(r, gpu_state_of(r, q) + offset, to, NULL, bytes, error);
}

enum forge_status gpu_state_write(struct forge_sequence *q, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                  struct forge_error *error)
{
    struct gpu *r = gpu_rank(q->engine->gpu, rank);
    return move(r, gpu_state_of(r, q) + offset, NULL, from, bytes, error);
}

enum forge_status gpu_history_write(struct forge_sequence *q, const int32_t *tokens, uint32_t n, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    if (g->last == q) g->last = NULL;
    if (g->run == q) g->run = NULL;
    for (struct gpu *r = g; r; r = r->next)
        TRY(move(r, (uint8_t *)(void *)gpu_history_of(r, q), NULL, (const uint8_t *)(const void *)tokens, n * sizeof *tokens, error));
    return FORGE_OK;
}
