/* engine.c -- one program on this machine: which program, its memory, its steps on CPU threads or through the GPU's runtime. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "runtime/device/cpu_features.h"
#include "runtime/device/memory.h"
#include "runtime/device/progress.h"
#include "finite.h"
#include "sample.h"
#include "runtime/device/gpu.h"
#include "runtime/model/cost.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "runtime/model/weights.h"
#include "runtime/model/xxh3.h"

/* From this size on, huge pages save more in address translation than it costs to zero whole 2 MiB pages at the first token. */
enum { HUGE_FROM_BYTES = 32 << 20 };

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* FORGE_OK, or the reason why a program cannot run here. */
static enum forge_status program_try(const struct forge_program *program, struct gpu **gpu, const struct forge_devices *devices,
                                     struct forge_error *error)
{
    char missing[256] = "";
    if (!cpu_has_all(program->features, missing, sizeof missing))
        return error_set(error, FORGE_WRONG_CPU, "target %s needs instructions this CPU lacks: %s", program->target, missing);
    return program->gpu && gpu ? program->gpu->runtime->open(gpu, program, devices, error) : FORGE_OK;
}

enum forge_status program_choose(const struct forge_program **out, struct gpu **gpu, const char *target,
                                 const struct forge_devices *devices, struct forge_error *error)
{
    char names[256] = "";
    size_t used = 0;
    enum forge_status status = FORGE_USAGE, refusal = FORGE_OK;
    struct forge_error reason = { "" };
    const struct forge_program *refused = NULL;          /* the first GPU program that cannot run */
    *out = NULL;
    if (gpu) *gpu = NULL;
    for (uint32_t i = 0; i < forge_n_programs; i++) {
        const struct forge_program *program = forge_programs[i];
        if (program->abi_version != FORGE_ABI_VERSION)
            return error_set(error, FORGE_FAILED, "%s was built for runtime interface %u, this runtime has %d", program->target,
                        program->abi_version, FORGE_ABI_VERSION);
        const int n = used < sizeof names ? snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", program->target) : 0;
        if (n > 0) used += (size_t)n;
        if (target && strcmp(target, program->target) != 0) continue;
        status = program_try(program, gpu, devices, error);
        if (status == FORGE_USAGE) {             /* an error in the command line: no other program is tried */
            if (!refused) return status;
            status = refusal;
            *error = reason;
            continue;
        }
        if (status == FORGE_OK) {
            /* A slower target in place of a GPU is always reported. */
            *out = program;
            return !refused ? error_set(error, FORGE_OK, "%s", "")
                 : error_set(error, FORGE_OK, "%s runs instead of %s: %.400s", program->target, refused->target, reason.text);
        }
        if (program->gpu && !refused) {
            refused = program;
            refusal = status;
            reason = *error;
        }
    }
    if (forge_n_programs == 0) return error_set(error, FORGE_FAILED, "this executable contains no program");
    if (status == FORGE_USAGE) return error_set(error, FORGE_USAGE, "no target '%s' in this program; it has %s", target, names);
    return status;
}

static uint64_t page_up(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/* Zeroed memory; bytes may be 0. */
static enum forge_status map_memory(uint8_t **out, uint64_t bytes, const char *what, struct forge_error *error)
{
    *out = NULL;
    if (bytes == 0) return FORGE_OK;
    void *base = bytes > SIZE_MAX ? MAP_FAILED
               : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return error_set(error, FORGE_NO_MEMORY, "out of memory: %.1f MiB for the %s: %s", (double)bytes / 1048576, what, strerror(errno));
    if (bytes >= HUGE_FROM_BYTES) madvise(base, (size_t)bytes, MADV_HUGEPAGE);
    *out = base;
    return FORGE_OK;
}

/* ---- where weights lie ---- */

static void stay(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct numa *numa = context;
    numa_stay(numa, numa_node_of(numa, thread, n_threads));
}

/* Index of the copy of the weights that a thread reads. */
static uint32_t copy_of(const struct places *places, uint32_t thread, uint32_t n_threads)
{
    return places->n_copies > 1 ? numa_node_of(&places->numa, thread, n_threads) : 0;
}

struct copying { const struct forge_engine *engine; uint32_t part, n_parts; };

/* Every copy is made by the threads that will read it: each copies one part of its share. */
static void copy_weights(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct copying *copying = context;
    const struct forge_engine *e = copying->engine;
    const uint64_t bytes = e->program->weights_bytes;
    const uint32_t mine = copy_of(e->places, thread, n_threads);
    uint32_t before = 0, n = 0;
    for (uint32_t t = 0; t < n_threads; t++) {
        if (copy_of(e->places, t, n_threads) != mine) continue;
        before += t < thread;
        n++;
    }
    const uint64_t from = bytes * before / n, share = bytes * (before + 1) / n - from;
    const uint64_t begin = share * copying->part / copying->n_parts, end = share * (copying->part + 1) / copying->n_parts;
    memcpy((uint8_t *)e->places->copies[mine] + from + begin, e->weights + from + begin, (size_t)(end - begin));
}

/* Fills the copies, whose memory is allocated, and reads the weights from them from then on. */
static void read_copies(struct forge_engine *e, bool shows_progress)
{
    enum { PART_BYTES = 64 << 20 };
    const uint64_t bytes = e->program->weights_bytes;
    struct progress progress = progress_of(bytes, shows_progress);
    struct copying c = { e, 0, (uint32_t)(bytes / PART_BYTES) + 1 };
    for (; c.part < c.n_parts; c.part++) {
        pool_run(e->pool, copy_weights, &c);
        progress_show(&progress, bytes / c.n_parts);
    }
    progress_end(&progress);
    weights_unmap(e);
    e->weights = e->places->copies[0];
}

static enum forge_status place_weights(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    const enum forge_numa how = source->numa;
    struct places *places = e->places;
    const struct numa *numa = &places->numa;
    const uint64_t bytes = e->program->weights_bytes, there = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint32_t n = how == NUMA_REPLICATE && pool_threads(e->pool) >= numa->n ? numa->n : 1;
    if (bytes > there / n)
        return error_set(error, FORGE_NO_MEMORY, "--numa: %u cop%s of %.0f MiB of weights %s not fit into the %.0f MiB of this machine",
                         n, n == 1 ? "y" : "ies", (double)bytes / 1048576, n == 1 ? "does" : "do", (double)there / 1048576);
    for (places->n_copies = 0; places->n_copies < n; places->n_copies++)
        TRY(numa_map(&places->copies[places->n_copies], (size_t)bytes, numa, n > 1 ? places->n_copies : numa->n, "the weights", error));
    read_copies(e, source->progress);
    return FORGE_OK;
}

/* Large pages help only weights that are read from memory, not from a cache.  The file's pages stay in memory beside the copy until
 * others need that memory. */
static bool copy_pays(const struct forge_program *p)
{
    enum { FROM_BYTES = 64 << 20 };
    const uint64_t room = memory_room(""), beside = p->state_bytes + p->arena_bytes;
    return p->weights_bytes >= FROM_BYTES && room >= beside && p->weights_bytes <= (room - beside) / 4 * 3 && memory_has_large_pages("");
}

static enum forge_status enlarge_pages(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    const enum forge_pages pages = source->pages;
    uint8_t *copy;
    if (pages == PAGES_FILE || (pages == PAGES_AUTO && !copy_pays(e->program))) return FORGE_OK;
    const enum forge_status status = map_memory(&copy, e->program->weights_bytes, "copy of the weights (--pages file does without)", error);
    if (status != FORGE_OK) return pages == PAGES_LARGE ? status : FORGE_OK;
    e->places = calloc(1, sizeof *e->places);
    if (!e->places) {
        munmap(copy, (size_t)e->program->weights_bytes);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for a copy of the weights");
    }
    e->places->copies[e->places->n_copies++] = copy;
    read_copies(e, source->progress);
    return FORGE_OK;
}

static enum forge_status open_places(struct forge_engine *e, enum forge_numa how, struct forge_error *error)
{
    if (how == NUMA_NONE) return FORGE_OK;
    e->places = calloc(1, sizeof *e->places);
    if (!e->places) return error_set(error, FORGE_NO_MEMORY, "out of memory for the machine's nodes");
    numa_read(&e->places->numa, "/sys/devices/system/node");
    pool_stop_moving(e->pool);
    pool_run(e->pool, stay, &e->places->numa);
    return FORGE_OK;
}

static void close_places(struct forge_engine *e)
{
    for (uint32_t i = 0; e->places && i < e->places->n_copies; i++) munmap(e->places->copies[i], (size_t)e->program->weights_bytes);
    free(e->places);
}

static enum forge_status open_cpu(struct forge_engine *e, const struct forge_weights_source *source, uint32_t n_threads,
                                  struct forge_error *error)
{
    const struct forge_program *p = e->program;
    if (n_threads == 0 || n_threads > p->max_threads)
        return error_set(error, FORGE_USAGE, "%u threads are requested; the program was built for 1 to %u", n_threads, p->max_threads);
    TRY(pool_open(&e->pool, n_threads, error));
    TRY(open_places(e, source->numa, error));
    /* Pages that no step touches cost nothing, so every column can have its own activations. */
    const uint32_t n_columns = e->n_sequences < FORGE_MAX_COLUMNS ? e->n_sequences : FORGE_MAX_COLUMNS;
    e->arena_bytes = n_columns * page_up(p->arena_bytes);
    TRY(map_memory(&e->arena, e->arena_bytes, "activations", error));
    TRY(map_memory(&e->state, e->n_sequences * e->state_stride, "state", error));
    TRY(weights_open(e, source, error));
    if (source->numa != NUMA_NONE) return place_weights(e, source, error);
    return source->random ? FORGE_OK : enlarge_pages(e, source, error);
}

static enum forge_status open_gpu(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    const struct forge_gpu_runtime *runtime = e->program->gpu->runtime;
    if (!e->gpu) TRY(runtime->open(&e->gpu, e->program, NULL, error));
    return runtime->load(e, source, error);
}

/* After a failure the caller frees everything with engine_close. */
static enum forge_status open_parts(struct forge_engine *e, const struct forge_weights_source *source, uint32_t n_threads, uint32_t n_ctx,
                                    struct forge_error *error)
{
    const struct forge_program *program = e->program;
    e->sequences = calloc(e->n_sequences, sizeof *e->sequences);
    if (!e->sequences) return error_set(error, FORGE_NO_MEMORY, "out of memory for %u sequences", e->n_sequences);
    e->state_stride = page_up(program->state_bytes);
    e->n_ctx = n_ctx > 0 ? n_ctx : program->n_ctx;
    e->chunk = program->chunk;
    if (e->n_ctx > program->n_ctx)
        return error_set(error, FORGE_TOO_LONG, "a context of %u tokens is requested; the program was built for %u (forgec build "
                         "--ctx N makes it longer)", n_ctx, program->n_ctx);
    return program->gpu ? open_gpu(e, source, error) : open_cpu(e, source, n_threads, error);
}

enum forge_status engine_open(struct forge_engine *e, const struct forge_program *program, struct gpu *gpu,
                              const struct forge_weights_source *source, uint32_t n_threads, uint32_t n_ctx,
                              uint32_t n_sequences, struct forge_error *error)
{
    memset(e, 0, sizeof *e);
    e->program = program;
    e->gpu = gpu;
    e->n_sequences = n_sequences > 0 ? n_sequences : 1;
    const enum forge_status status = open_parts(e, source, n_threads, n_ctx, error);
    if (status != FORGE_OK) engine_close(e);
    return status;
}

void engine_close(struct forge_engine *e)
{
    for (uint32_t i = 0; e->sequences && i < e->n_sequences; i++) sequence_close(&e->sequences[i]);
    if (engine_draws(e)) e->program->gpu->runtime->close(e->gpu);
    weights_unmap(e);
    close_places(e);
    if (e->state) munmap(e->state, (size_t)(e->n_sequences * e->state_stride));
    if (e->arena) munmap(e->arena, (size_t)e->arena_bytes);
    free(e->sequences);
    pool_close(e->pool);
    memset(e, 0, sizeof *e);
}

/* ---- sequences ---- */

/* For programs with far_from, to compute a text again when it becomes longer than that: the tokens of the sequence, then the last token
 * drawn; and the state from which its run of draws continues. */
struct forge_again {
    struct forge_sample_options options;
    struct forge_random random;
    uint64_t left;               /* tokens left of the run's limit */
    bool     last, drawn;        /* drawn: the run has returned a token */
    int32_t  tokens[];           /* [n_ctx + 1] */
};

/* rank: of the GPUs that share the model. */
static enum forge_status clear_state(struct forge_sequence *q, uint32_t rank, uint64_t offset, uint64_t bytes, struct forge_error *error)
{
    const struct forge_program *p = q->engine->program;
    if (p->gpu) return p->gpu->runtime->state_clear(q, rank, offset, bytes, error);
    memset(q->state + offset, 0, (size_t)bytes);
    return FORGE_OK;
}

enum forge_status sequence_reset(struct forge_sequence *q, struct forge_error *error)
{
    const struct forge_program *p = q->engine->program;
    q->n_past = q->n_written = q->slot = q->expected = 0;
    q->far = false;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) {
        const struct forge_program *part = program_of_rank(p, rank);
        for (uint32_t i = 0; i < part->n_states; i++)
            if (state_begins_zero(&part->states[i])) TRY(clear_state(q, rank, part->states[i].offset, part->states[i].bytes, error));
    }
    return FORGE_OK;
}

enum forge_status sequence_open(struct forge_sequence **out, struct forge_engine *e, struct forge_error *error)
{
    uint32_t i = 0;
    *out = NULL;
    while (i < e->n_sequences && e->sequences[i].engine) i++;
    if (i == e->n_sequences) return error_set(error, FORGE_TOO_LONG, "all %u sequences of the engine are open", e->n_sequences);
    struct forge_sequence *q = &e->sequences[i];
    *q = (struct forge_sequence){ .engine = e };
    if (e->program->gpu) e->program->gpu->runtime->sequence_open(q, i);
    else q->state = e->state + i * e->state_stride;
    enum forge_status status = sequence_reset(q, error);
    const size_t bytes = sizeof *q->again + (e->n_ctx + 1) * sizeof *q->again->tokens;
    if (status == FORGE_OK && e->program->far_from > 0 && !(q->again = calloc(1, bytes)))
        status = error_set(error, FORGE_NO_MEMORY, "out of memory for the tokens of a context of %u", e->n_ctx);
    if (status == FORGE_OK) *out = q;
    else sequence_close(q);
    return status;
}

void sequence_close(struct forge_sequence *q)
{
    if (!q || !q->engine) return;
    if (q->engine->program->gpu) q->engine->program->gpu->runtime->sequence_close(q);
    free(q->again);
    memset(q, 0, sizeof *q);
}

bool sequence_rewind(struct forge_sequence *q, uint32_t to)
{
    if (!state_rewinds(q->engine->program, q->n_written, q->n_past, to)) return false;
    if (to == 0 && q->n_past > 0) return sequence_reset(q, NULL) == FORGE_OK;
    q->n_past = to;
    q->expected = 0;
    return true;
}

void sequence_expect(struct forge_sequence *q, uint32_t n_tokens) { q->expected = n_tokens; }

static enum forge_status check_whole(const struct forge_sequence *q, struct forge_error *error)
{
    if (state_rewinds(q->engine->program, q->n_written, q->n_past, q->n_past)) return FORGE_OK;
    return error_set(error, FORGE_FAILED, "%u tokens were drawn after the %u of the sequence, and the model's states cannot take them "
                     "back: reset the sequence", q->n_written - q->n_past, q->n_past);
}

enum forge_status sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error)
{
    const struct forge_program *p = from->engine->program;
    if (to == from) return FORGE_OK;
    TRY(check_whole(from, error));
    TRY(sequence_reset(to, error));
    if (p->gpu) TRY(p->gpu->runtime->sequence_copy(to, from, error));
    for (uint32_t i = 0; !p->gpu && i < p->n_states; i++) {
        const struct state_runs r = state_runs(&p->states[i], from->n_past);
        for (uint64_t k = 0; k < r.n; k++)
            memcpy(to->state + r.offset + k * r.stride, from->state + r.offset + k * r.stride, (size_t)r.bytes);
    }
    to->n_past = from->n_past;
    to->n_written = from->n_written;
    to->slot = from->slot;
    to->far = from->far;
    if (to->again) memcpy(to->again->tokens, from->again->tokens, from->n_past * sizeof *to->again->tokens);
    return FORGE_OK;
}

/* ---- sequences as bytes ---- */

enum { PIECE_BYTES = 1 << 20 };

/* buffer: [PIECE_BYTES] for states on a GPU; on a CPU a piece is the state's own memory. */
static enum forge_status move_piece(struct forge_sequence *q, uint32_t rank, bool in, uint64_t at, size_t n, uint8_t *buffer,
                                    sequence_piece *move, void *context, struct forge_error *error)
{
    const struct forge_gpu *gpu = q->engine->program->gpu;
    if (!gpu) return move(context, q->state + at, n, error);
    if (!in) TRY(gpu->runtime->state_read(q, rank, buffer, at, n, error));
    TRY(move(context, buffer, n, error));
    return in ? gpu->runtime->state_write(q, rank, at, buffer, n, error) : FORGE_OK;
}

static enum forge_status move_part(struct forge_sequence *q, uint32_t rank, uint32_t n_past, bool in, uint8_t *buffer, sequence_piece *move,
                                   void *context, struct forge_error *error)
{
    const struct forge_program *p = program_of_rank(q->engine->program, rank);
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state_runs r = state_runs(&p->states[i], n_past);
        for (uint64_t k = 0; k < r.n; k++)
            for (uint64_t at = 0; at < r.bytes; at += PIECE_BYTES) {
                const uint64_t n = r.bytes - at < PIECE_BYTES ? r.bytes - at : PIECE_BYTES;
                TRY(move_piece(q, rank, in, r.offset + k * r.stride + at, (size_t)n, buffer, move, context, error));
            }
    }
    return FORGE_OK;
}

/* Several GPUs: the parts of the ranks one after the other, each as large as its own program says. */
static enum forge_status move_states(struct forge_sequence *q, uint32_t n_past, bool in, sequence_piece *move, void *context,
                                     struct forge_error *error)
{
    const struct forge_program *p = q->engine->program;
    uint8_t *buffer = p->gpu ? malloc(PIECE_BYTES) : NULL;
    enum forge_status status = p->gpu && !buffer ? error_set(error, FORGE_NO_MEMORY, "out of memory for a part of the state") : FORGE_OK;
    for (uint32_t rank = 0; rank < program_ranks(p) && status == FORGE_OK; rank++)
        status = move_part(q, rank, n_past, in, buffer, move, context, error);
    free(buffer);
    return status;
}

enum forge_status sequence_save(struct forge_sequence *q, sequence_piece *put, void *context, struct forge_error *error)
{
    TRY(check_whole(q, error));
    return move_states(q, q->n_past, false, put, context, error);
}

enum forge_status sequence_restore(struct forge_sequence *q, const int32_t *tokens, uint32_t n_past, uint32_t n_written, uint32_t slot,
                                   bool far, sequence_piece *get, void *context, struct forge_error *error)
{
    const struct forge_program *p = q->engine->program;
    TRY(sequence_reset(q, error));
    if (n_past > q->engine->n_ctx || n_written < n_past || n_written > p->n_ctx || slot > (p->gpu ? p->gpu->most_drafts : 0) ||
        !state_rewinds(p, n_written, n_past, n_past) || (p->far_from > 0 ? !far && n_past > p->far_from : far))
        return error_set(error, FORGE_USAGE, "a sequence of %u tokens, with %u written, cannot be restored into slot %u", n_past, n_written,
            slot);
    enum forge_status status = move_states(q, n_past, true, get, context, error);
    if (status == FORGE_OK && p->gpu) status = p->gpu->runtime->history_write(q, tokens, n_past, error);
    if (status != FORGE_OK) {
        sequence_reset(q, NULL);
        return status;
    }
    q->n_past = n_past;
    q->n_written = n_written;
    q->slot = slot;
    q->far = far;
    if (q->again) memcpy(q->again->tokens, tokens, n_past * sizeof *tokens);
    return FORGE_OK;
}

/* ---- steps ---- */

struct launches {
    const struct forge_args *args;
    const struct forge_launch *launch;   /* [n] */
    uint32_t n;
    const struct forge_launch *decode;   /* step of several sequences: launches that replace those which process sequences one by one */
    struct forge_pool *pool;
    const struct forge_clocks *clocks;
    const struct forge_engine *engine;
};

/* Adds the time since *at to *sum and sets *at to now. */
static void clock_add(uint64_t *sum, uint64_t *at)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (sum) *sum += now - *at;
    *at = now;
}

/* The args with the copy of the weights that is nearest to the thread. */
static struct forge_args args_of(const struct launches *l, uint32_t thread, uint32_t n_threads)
{
    struct forge_args args = *l->args;
    const struct places *places = l->engine->places;
    if (places) args.weights = places->copies[copy_of(places, thread, n_threads)];
    return args;
}

/* The hash of the memory that launches write. */
static uint64_t memory_hash(const struct forge_engine *e, const struct forge_args *args)
{
    const struct forge_program *p = e->program;
    uint64_t hash = forge_xxh3(args->arena, p->arena_bytes);
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state_runs r = state_runs(&p->states[i], args->n_past + args->n_tokens);
        for (uint64_t k = 0; k < r.n; k++) hash = hash * 0x9e3779b97f4a7c15u + forge_xxh3(args->state + r.offset + k * r.stride, r.bytes);
    }
    if (args->n_logits > 0)
        hash = hash * 0x9e3779b97f4a7c15u + forge_xxh3(args->logits, (uint64_t)args->n_logits * program_columns(p) * sizeof *args->logits);
    return hash;
}

/* A whole step is one job, so threads are woken once per token and not once per launch. */
static void run_launches(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct launches *l = context;
    const struct forge_clocks *clocks = l->clocks;
    uint64_t *work = clocks ? clocks->work + (size_t)thread * clocks->n_launches : NULL, at = 0;
    uint64_t *wait = clocks ? clocks->wait + (size_t)thread * clocks->n_launches : NULL;
    const struct forge_args args = args_of(l, thread, n_threads);
    uint32_t before = 0;
    const struct forge_trace *trace = l->engine->trace;
    if (clocks) clock_add(NULL, &at);
    for (uint32_t i = 0, ran = 0; i < l->n; i++) {
        const uint32_t joins = l->launch[i].joins_divides;
        if (launch_left_out(&l->launch[i], l->args->n_past, n_threads)) continue;
        if (ran++ > 0 && (joins == 0 || joins % n_threads > 0)) {
            pool_barrier(l->pool, thread);
            if (clocks) clock_add(&wait[before], &at);
        }
        l->launch[i].kernel(&args, &l->launch[i], thread, n_threads);
        if (clocks) clock_add(&work[i], &at);
        if (trace) trace->take(trace->context, l->launch[i].name, l->launch[i].layer, args.n_past, memory_hash(l->engine, &args));
        before = i;
    }
    if (!clocks || l->n == 0) return;
    pool_barrier(l->pool, thread);
    clock_add(&wait[before], &at);
}

/* The same for a step of several sequences.  Here joins_divides does not save a barrier, because rows are divided among threads
 * differently from decode. */
static void run_several_launches(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct launches *l = context;
    const struct forge_args args = args_of(l, thread, n_threads), *const a = &args;
    uint32_t longest = 0;
    for (uint32_t c = 0; c < a->n_tokens; c++) if (a->columns[c].n_past > longest) longest = a->columns[c].n_past;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct forge_launch *all = &l->launch[i], *first = all->n_each ? l->decode + all->each : all;
        for (uint32_t k = 0; k < (all->n_each ? all->n_each : 1); k++) {
            if (launch_left_out(&first[k], longest, n_threads)) continue;
            if (i + k > 0) pool_barrier(l->pool, thread);
            if (first == all) all->kernel(a, all, thread, n_threads);
            else for (uint32_t c = 0; c < a->n_tokens; c++) first[k].kernel(&a->columns[c], &first[k], thread, n_threads);
        }
    }
}

/* logits: [n_logits][program_columns] of the last tokens of the sequence.  Every step is checked here, because a token or score that was
 * computed from NaN looks like any other result. */
static enum forge_status check_logits(const struct forge_sequence *q, const float *logits, uint32_t n_logits, struct forge_error *error)
{
    const struct forge_program *p = q->engine->program;
    const size_t columns = program_columns(p);
    char what[64];
    for (uint32_t i = 0; i < n_logits; i++) {
        const float *row = logits + i * columns;
        const size_t bad = first_not_finite(row, columns);
        if (bad == columns) continue;
        snprintf(what, sizeof what, "%s of %s %zu", finite_bits(row[bad]) > 0x7f800000u ? "NaN" : row[bad] > 0 ? "+infinity"
                 : "-infinity", p->embedding ? "column" : "token", bad);
        return error_set(error, FORGE_BAD_WEIGHTS, p->embedding ? NOT_FINITE_TEXT("rows") : NOT_FINITE_TEXT("logits"),
                         q->n_past - n_logits + i + 1, what);
    }
    return FORGE_OK;
}

static void append(struct forge_sequence *q, uint32_t n)
{
    q->n_past += n;
    if (q->n_written < q->n_past) q->n_written = q->n_past;
}

/* A part of a prompt without logits only has to update the state. */
static void many_launches(struct launches *list, struct step_launches step, uint32_t n_logits)
{
    list->launch = step.list;
    list->n = step.n;
    for (uint32_t i = 0; n_logits == 0 && i < list->n; i++)
        if (list->launch[i].tail) list->n = i;
}

/* of: tokens of the prompt to which these tokens belong; 0: one token for the decode launches. */
static enum forge_status run_step(struct forge_sequence *q, size_t of, const int32_t *tokens, uint32_t n, uint32_t n_logits, float *logits,
                                  struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const struct forge_program *p = e->program;
    if (p->gpu) {
        TRY(p->gpu->runtime->step(q, of == 0, tokens, n, n_logits, logits, error));
        append(q, n);
        return check_logits(q, logits, n_logits, error);
    }
    struct forge_args args = {
        .weights = e->weights, .arena = e->arena, .parts = e->arena, .state = q->state, .tokens = tokens, .logits = logits,
        .n_tokens = n, .n_past = q->n_past, .n_logits = n_logits, .turns = pool_turns(e->pool), .far = q->far,
    };
    struct launches list = { &args, p->decode, p->n_decode, NULL, e->pool, e->clocks, e };
    if (of) many_launches(&list, prompt_launches(p, of), n_logits);
    pool_run(e->pool, run_launches, &list);
    append(q, n);
    return check_logits(q, logits, n_logits, error);
}

static enum forge_status check_room(const struct forge_sequence *q, size_t n, struct forge_error *error)
{
    const uint32_t n_ctx = q->engine->n_ctx;
    TRY(check_whole(q, error));
    if (n <= n_ctx - q->n_past) return FORGE_OK;
    return error_set(error, FORGE_TOO_LONG, "%zu tokens do not fit: the context holds %u, %u of them used", n, n_ctx, q->n_past);
}

/* Records tokens that are in the context from now on, or that were drawn after it. */
static void note(struct forge_sequence *q, const int32_t *tokens, size_t n)
{
    if (q->again) memcpy(q->again->tokens + q->n_past, tokens, n * sizeof *tokens);
}

static enum forge_status read_tokens(struct forge_sequence *q, const int32_t *tokens, uint32_t n, struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const uint32_t chunk = e->chunk > 0 ? e->chunk : 1;
    for (uint32_t at = 0, part; at < n; at += part) {
        part = n - at < chunk ? n - at : chunk;
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        TRY(run_step(q, e->chunk > 0 ? n : 0, tokens + at, part, 0, NULL, error));
    }
    return FORGE_OK;
}

/* Before a step of n tokens: if the step makes the text need another rotation (far) than was used so far, the text is computed again.
 * After a failure the sequence is empty. */
static enum forge_status settle(struct forge_sequence *q, size_t n, struct forge_error *error)
{
    const uint32_t far_from = q->engine->program->far_from, n_past = q->n_past, expected = q->expected;
    const bool far = far_from > 0 && (q->n_past + n > far_from || expected > far_from);
    if (far == q->far) return FORGE_OK;
    if (n_past > 0) TRY(sequence_reset(q, error));
    q->far = far;
    const enum forge_status status = n_past > 0 ? read_tokens(q, q->again->tokens, n_past, error) : FORGE_OK;
    if (status != FORGE_OK) sequence_reset(q, NULL);
    else q->expected = expected;
    return status;
}

static enum forge_status prefill(struct forge_sequence *q, size_t of, const int32_t *tokens, uint32_t n, uint32_t n_logits, float *logits,
                                 struct forge_error *error)
{
    TRY(check_room(q, n, error));
    TRY(settle(q, n, error));
    note(q, tokens, n);
    if (q->engine->chunk > 0) return run_step(q, of, tokens, n, n_logits, logits, error);
    for (uint32_t i = 0; i < n; i++) {
        const bool wanted = n - i <= n_logits;
        float *to = wanted ? logits + (size_t)(n_logits - (n - i)) * program_columns(q->engine->program) : logits;
        TRY(run_step(q, 0, tokens + i, 1, wanted, to, error));
    }
    return FORGE_OK;
}

enum forge_status forge_prefill(struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t n_logits, float *logits,
                                struct forge_error *error)
{
    return prefill(q, n, tokens, n, n_logits, logits, error);
}

uint32_t engine_piece(const struct forge_engine *e)
{
    const uint32_t most = e->chunk < e->program->max_logits ? e->chunk : e->program->max_logits;
    return most > 0 ? most : 1;
}

enum forge_status forge_read(struct forge_sequence *q, const int32_t *tokens, size_t n, size_t of, uint32_t n_logits, float *logits,
                             struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    TRY(check_room(q, n, error));
    const uint32_t expected = q->expected;
    const size_t end = q->n_past + n > of ? q->n_past + n : of;
    if (expected < end) sequence_expect(q, (uint32_t)end);
    enum forge_status status = settle(q, n, error);
    if (status == FORGE_OK && n == 1 && (of == 1 || e->program->gpu)) {
        note(q, tokens, n);
        sequence_expect(q, expected);
        return run_step(q, 0, tokens, 1, n_logits, logits, error);
    }
    const size_t chunk = e->chunk > 0 ? e->chunk : 1;
    for (size_t at = 0, part; at < n && status == FORGE_OK; at += part) {
        const size_t left = n - at;
        part = left < chunk ? left : chunk;
        if (e->stop && *e->stop) status = error_set(error, FORGE_INTERRUPTED, "interrupted");
        else status = prefill(q, of, tokens + at, (uint32_t)part, part == left ? n_logits : 0, logits, error);
    }
    sequence_expect(q, expected);
    if (status != FORGE_OK) return status;
    return e->program->gpu && n_logits == 0 ? e->program->gpu->runtime->wait(q, error) : FORGE_OK;
}

enum forge_status forge_step(struct forge_sequence *q, const int32_t *tokens, size_t n, uint32_t n_logits, float *logits,
                             struct forge_error *error)
{
    return forge_read(q, tokens, n, n, n_logits, logits, error);
}

enum forge_status forge_embed(struct forge_sequence *q, const int32_t *tokens, uint32_t n, bool normalize, float *rows, float *vector,
                              struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const uint32_t pooling = e->program->embedding->pooling, n_embd = e->program->n_embd, piece = engine_piece(e);
    TRY(sequence_reset(q, error));
    TRY(check_room(q, n, error));
    sequence_expect(q, n);
    for (uint32_t at = 0; at < n; at += piece) {
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        const uint32_t part = n - at < piece ? n - at : piece, n_rows = pool_rows(pooling, at, part, n);
        if (n == 1) TRY(forge_step(q, tokens, 1, n_rows, rows, error));
        else TRY(forge_prefill(q, tokens + at, part, n_rows, rows, error));
        pool_add(vector, pooling, rows, n_rows, at, n_embd);
        if (pooling == FORGE_POOL_CLS) break;                  /* later rows change nothing */
    }
    pool_end(vector, pooling, n, n_embd, normalize);
    return FORGE_OK;
}

/* ---- several sequences in a step ---- */

/* Checks the columns and prepares their sequences for the step. */
static enum forge_status check_columns(const struct forge_engine *e, const struct forge_column *c, uint32_t n, struct forge_error *error)
{
    if (n > FORGE_MAX_COLUMNS) return error_set(error, FORGE_USAGE, "a step has %u sequences; the maximum is %u", n, FORGE_MAX_COLUMNS);
    for (uint32_t i = 0; i < n; i++) {
        if (c[i].sequence->engine != e) return error_set(error, FORGE_USAGE, "column %u of a step belongs to another engine", i);
        for (uint32_t k = 0; k < i; k++)
            if (c[k].sequence == c[i].sequence)
                return error_set(error, FORGE_USAGE, "columns %u and %u of a step are the same sequence", k, i);
        TRY(check_room(c[i].sequence, 1, error));
    }
    for (uint32_t i = 0; i < n; i++) {
        TRY(settle(c[i].sequence, 1, error));
        note(c[i].sequence, &c[i].token, 1);
    }
    return FORGE_OK;
}

/* On a CPU: reads the weights once for the tokens of all sequences.  The tokens with logits are the last rows, as in a prompt. */
static void run_columns(struct forge_engine *e, const struct forge_column *columns, uint32_t n)
{
    const struct forge_program *p = e->program;
    struct forge_args args[FORGE_MAX_COLUMNS];
    int32_t tokens[FORGE_MAX_COLUMNS];
    uint32_t row = 0, n_logits = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        const struct forge_column *c = &columns[i % n];
        if ((c->logits != NULL) != (i >= n)) continue;
        tokens[row] = c->token;
        args[row] = (struct forge_args){
            .weights = e->weights, .arena = e->arena, .parts = e->arena + row * page_up(p->arena_bytes), .state = c->sequence->state,
            .tokens = &tokens[row], .logits = c->logits, .n_tokens = 1, .n_past = c->sequence->n_past, .n_logits = i >= n, .row = row,
            .far = c->sequence->far,
        };
        row++;
        n_logits += i >= n;
    }
    const struct forge_args all = { .weights = e->weights, .arena = e->arena, .tokens = tokens, .n_tokens = n, .n_logits = n_logits,
                                    .columns = args, .turns = pool_turns(e->pool) };
    struct launches list = { .args = &all, .decode = p->decode, .pool = e->pool, .engine = e };
    many_launches(&list, (struct step_launches){ p->columns, p->n_columns }, n_logits);
    pool_run(e->pool, run_several_launches, &list);
}

/* Runs several sequences in one step of the device. */
static enum forge_status run_together(struct forge_engine *e, const struct forge_column *c, uint32_t n, struct forge_error *error)
{
    if (e->program->gpu) TRY(e->program->gpu->runtime->several(e, c, n, error));
    else run_columns(e, c, n);
    for (uint32_t i = 0; i < n; i++) append(c[i].sequence, 1);
    for (uint32_t i = 0; i < n; i++) TRY(check_logits(c[i].sequence, c[i].logits, c[i].logits ? 1 : 0, error));
    return FORGE_OK;
}

/* The most sequences in a step of the program. */
static uint32_t most_together(const struct forge_engine *e)
{
    const struct forge_program *p = e->program;
    if (p->gpu) return p->gpu->several ? p->gpu->most_columns : 1;
    if (!p->n_columns || e->chunk < 2) return 1;
    return p->chunk < FORGE_MAX_COLUMNS ? p->chunk : FORGE_MAX_COLUMNS;
}

enum forge_status engine_step(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    TRY(check_columns(e, columns, n, error));
    const uint32_t most = most_together(e);
    enum forge_status status = FORGE_OK;
    for (uint32_t at = 0, part; at < n && (status == FORGE_OK || status == FORGE_BAD_WEIGHTS); at += part) {
        const struct forge_column *c = &columns[at];
        struct forge_error *first = status == FORGE_OK ? error : NULL;
        part = n - at < most ? n - at : most;
        const enum forge_status s = part > 1 ? run_together(e, c, part, first)
                                             : run_step(c->sequence, 0, &c->token, 1, c->logits ? 1 : 0, c->logits, first);
        if (status == FORGE_OK || s == FORGE_DEVICE_FAULT) status = s;
    }
    return status;
}

enum forge_status engine_step_begin(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    TRY(check_columns(e, columns, n, error));
    return n > 0 ? e->program->gpu->runtime->several_begin(e, columns, n, error) : FORGE_OK;
}

enum forge_status engine_step_draw(struct forge_engine *e, struct forge_column *columns, uint32_t n, bool more, struct forge_error *error)
{
    TRY(check_columns(e, columns, n, error));
    if (n > 0) TRY(e->program->gpu->runtime->several_draw(e, columns, n, more, error));
    for (uint32_t i = 0; i < n; i++) append(columns[i].sequence, 1);
    return FORGE_OK;
}

bool engine_draws(const struct forge_engine *e) { return e->program && e->program->gpu; }

enum forge_status engine_draw_begin(struct forge_sequence *q, const struct forge_sample_options *options, const struct forge_random *random,
                                    int32_t first, uint64_t limit, bool last, struct forge_error *error)
{
    TRY(check_whole(q, error));
    if (first >= 0) {
        TRY(settle(q, 1, error));
        note(q, &first, 1);
    }
    if (q->again) {
        q->again->options = *options;
        q->again->random = *random;
        q->again->left = limit;
        q->again->last = last;
        q->again->drawn = false;
    }
    return q->engine->program->gpu->runtime->draw_begin(q, options, random, first, limit, last, error);
}

enum forge_status engine_draft(struct forge_sequence *q, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error)
{
    TRY(check_whole(q, error));
    if (n > q->engine->n_ctx - q->n_past) return error_set(error, FORGE_TOO_LONG, "the context of %u tokens is full", q->engine->n_ctx);
    return q->engine->program->gpu->runtime->draft(q, tokens, n, logits, error);
}

/* Called when the step of the last drawn token makes the text longer than far_from: the run of draws ends there, and a new one continues
 * it. */
static enum forge_status draw_on(struct forge_sequence *q, struct forge_error *error)
{
    struct forge_again *r = q->again;
    const struct forge_sample_options options = r->options;
    const struct forge_random random = r->random;
    return engine_draw_begin(q, &options, &random, r->tokens[q->n_past], r->left, r->last, error);
}

enum forge_status engine_draw_next(struct forge_sequence *q, int32_t *token, struct forge_error *error)
{
    struct forge_again *r = q->again;
    if (r && r->drawn && q->n_past == sequence_end(q) && q->n_past < q->engine->n_ctx) TRY(draw_on(q, error));
    TRY(q->engine->program->gpu->runtime->draw_next(q, token, error));
    if (!r) return FORGE_OK;
    note(q, token, 1);
    r->drawn = true;
    r->left -= r->left < UINT64_MAX;
    if (r->options.temp > 0) random_next(&r->random);
    return FORGE_OK;
}

const char *engine_longer(const struct forge_engine *e)
{
    return e->n_ctx < e->program->n_ctx ? "-c N makes it longer" : "forgec build --ctx N makes it longer";
}
