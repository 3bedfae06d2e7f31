/* gpu_step.c -- steps and draws.  The host's part of a step is small: it uploads the parameters, puts launches on the stream and waits.
 * Text is drawn on the device, a few tokens ahead of the host, which reads them from a ring in host memory; between two tokens nothing
 * waits for the host. */
#include <stdio.h>
#include <string.h>

#include "runtime/run/finite.h"
#include "gpu_state.h"
#include "runtime/model/cost.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "runtime/model/vocab.h"

/* Steps that are put on the stream before the token of the first has been read: as many as take AHEAD_SECONDS.  That is longer than a
 * terminal or a sleep delays the host. */
static const double AHEAD_SECONDS = 4e-3;
static const double ASK_SECONDS = 1e-3;          /* between two queries of the driver while waiting for a token */

/* ---- launches ---- */

/* The number of the launch that draws with drafts; the launches of a pass follow it. */
static uint32_t drafts_number(const struct forge_gpu *p) { return p->n_decode + 2 + p->n_prefill + p->n_columns; }

static enum forge_status launch_on(struct gpu *r, uint32_t step, const struct forge_sequence *q, uint32_t number, uint32_t n_tokens,
                                   uint32_t n_logits, bool dependent, struct forge_error *error)
{
    const struct forge_gpu *p = r->program->gpu;
    const struct forge_gpu_launch *l = gpu_launch_numbered(p, number);
    const struct forge_gpu_kernel *kernel = &p->kernels[l->kernel];
    if (!l->name || (n_tokens > 0 && !cost_launch_runs(l, n_tokens, n_logits))) return FORGE_OK;
    struct forge_kernel_args args = {
        .weights = r->weights, .arena = r->arena, .state = q ? gpu_state_of(r, q) : r->state, .step = &r->step[step], .state_at = l->state,
        .mark_at = r->device_mark, .mark = number, .first = n_tokens > 0 && l->tail > 0, .rank = r->rank, .collectives = l->collectives,
    };
    if (r->n_parts <= 1) memcpy(args.weight, l->weight, sizeof args.weight);
    else
        for (uint32_t i = 0; i < FORGE_GPU_MAX_WEIGHTS; i++) args.weight[i] = (uint64_t)(gpu_weight_at(r, l->weight[i]) - r->weights);
    memcpy(args.collective, r->collectives, sizeof args.collective);
    args.given = r->collectives[r->rank];
    const uint32_t tokens = n_tokens == 0 ? 1 : l->tail ? n_logits : n_tokens;
    const uint32_t grid_y = l->grid_tokens > 0 ? (tokens + l->grid_tokens - 1) / l->grid_tokens : 1;
    const uint32_t x = l->tokens_first ? grid_y : l->grid_x, y = l->tokens_first ? l->grid_x : grid_y;
    const bool begins = r->begins;
    r->begins = false;
    TRY(gpu_turn_to(r, error));
    if (r->first->machines) TRY(r->first->machines->pass(r, l, n_tokens, n_logits, false, error));
    TRY(device_launch(&r->device, r->functions[l->kernel], x, y, kernel->threads, kernel->lds_bytes, &args,
                      dependent && !begins && p->dependent_launch > 0 && !r->first->machines, l->cluster, error));
    return r->first->machines ? r->first->machines->pass(r, l, n_tokens, n_logits, true, error) : FORGE_OK;
}

enum forge_status gpu_launch_by(struct gpu *g, uint32_t step, const struct forge_sequence *q, uint32_t number, uint32_t n_tokens,
                                uint32_t n_logits, bool dependent, struct forge_error *error)
{
#ifndef FORGE_LIBRARY
    const bool traced = q && q->engine->trace;
    if (traced && g->begins && q->n_past == 0) TRY(gpu_trace_begin(g, error));
#endif
    for (struct gpu *r = g; r; r = r->next)
        if (!g->captured || g->captured == r)
            TRY(gpu_said(r, launch_on(r, step, q, number, n_tokens, n_logits, dependent, error)));
#ifndef FORGE_LIBRARY
    if (traced) return gpu_trace(q, number, n_tokens, error);
#endif
    return FORGE_OK;
}

enum forge_status gpu_launch(const struct forge_sequence *q, uint32_t number, uint32_t n_tokens, uint32_t n_logits, bool dependent,
                             struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    return gpu_launch_by(g, number > drafts_number(g->program->gpu), q, number, n_tokens, n_logits, dependent, error);
}

/* The first launch of a step waits for everything before it, on each GPU.  Then the other launches may read what earlier steps wrote
 * before they wait (load_settled). */
void gpu_list_begins(struct gpu *g)
{
    for (struct gpu *r = g; r; r = r->next) r->begins = true;
    if (g->machines) g->machines->begins = true;
}

enum forge_status gpu_launch_decode(const struct forge_sequence *q, uint32_t from, uint32_t to, struct forge_error *error)
{
    gpu_list_begins(q->engine->gpu);
    for (uint32_t i = from; i < to; i++) TRY(gpu_launch(q, i + 1, 0, 1, true, error));
    return FORGE_OK;
}

/* Launches a step of a few tokens; like in decode, it always has the same launches. */
enum forge_status gpu_launch_columns(struct gpu *g, const struct forge_sequence *q, uint32_t n, uint32_t n_logits,
                                     struct forge_error *error)
{
    const struct cost_launches all = cost_launches(g->program->gpu, n);
    gpu_list_begins(g);
    for (uint32_t i = 0; i < all.n; i++) TRY(gpu_launch_by(g, 0, q, all.number + i, n, n_logits, true, error));
    return FORGE_OK;
}

/* ---- graphs ---- */

static enum forge_status capture(struct gpu *r, const struct gpu_work *w, struct forge_error *error)
{
    void **graph = w->graph(r, w);
    if (*graph) return FORGE_OK;
    TRY(gpu_turn_to(r, error));
    TRY(device_capture_begin(&r->device, error));
    r->first->captured = r;
    const enum forge_status status = w->put(r->first, w, error);
    r->first->captured = NULL;
    if (status == FORGE_OK) return device_capture_end(&r->device, graph, error);
    device_capture_drop(&r->device);
    return status;
}

static enum forge_status launch_graph(struct gpu *r, const struct gpu_work *w, struct forge_error *error)
{
    TRY(gpu_turn_to(r, error));
    return device_graph_launch(&r->device, *w->graph(r, w), error);
}

/* A program prints why its launches are plain; a library prints nothing. */
static void no_graphs(struct gpu *g, const char *why)
{
    g->graphs_are = GRAPHS_NOT;
    if (g->engine) g->engine->plain_launches = true;
#ifndef FORGE_LIBRARY
    fprintf(stderr, "%s: kernels are launched one by one, as with --no-graph\n", why);
#else
    (void)why;
#endif
}

const char *gpu_bad_graphs(const struct forge_device *d, const char *arch)
{
    static const struct { const char *arch; int from, to; const char *what; } bad[] = {
#define BAD_GRAPHS(arch, from, to, what) { arch, from, to, what },
#include "bad_graphs.def"
#undef BAD_GRAPHS
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (d->api == FORGE_GPU_HIP && strcmp(bad[i].arch, arch) == 0 && d->version >= bad[i].from && d->version < bad[i].to)
            return bad[i].what;
    return NULL;
}

/* Called at the first step that would use a graph. */
static void judge_graphs(struct gpu *g)
{
    g->graphs_are = GRAPHS_MADE;
    for (const struct gpu *r = g; r && !(g->engine && g->engine->graphs_wanted); r = r->next) {
        const char *bad = gpu_bad_graphs(&r->device, r->program->gpu->arch);
        if (!bad) continue;
        no_graphs(g, bad);
        return;
    }
}

/* Values for other processes are sent by library calls whose arguments contain the number of the collective, so no graph can contain
 * them. */
static bool is_plain(struct gpu *g, bool plain)
{
    if (plain || !g->program->gpu->graph || g->machines) return true;
    if (g->graphs_are == GRAPHS_UNKNOWN) judge_graphs(g);
    return g->graphs_are == GRAPHS_NOT;
}

/* If the device has failed, no graph can be made either; then the driver's error is returned. */
static enum forge_status make_all(struct gpu *g, const struct gpu_work *w, struct forge_error *error)
{
    struct forge_error why = { "" };
    for (struct gpu *r = g; r; r = r->next) {
        const bool begins = r->begins;
        bool idle;
        if (capture(r, w, &why) == FORGE_OK) continue;
        TRY(gpu_said(r, gpu_turn_to(r, error)));
        TRY(gpu_said(r, device_idle(&r->device, &idle, error)));
        r->begins = begins;
        no_graphs(g, why.text);
        break;
    }
    return FORGE_OK;
}

enum forge_status gpu_make(struct gpu *g, const struct gpu_work *w, bool plain, struct forge_error *error)
{
    return is_plain(g, plain) ? FORGE_OK : make_all(g, w, error);
}

/* All graphs are made before any of them runs, because making one may wait for a device. */
enum forge_status gpu_put(struct gpu *g, const struct gpu_work *w, bool plain, struct forge_error *error)
{
    TRY(gpu_make(g, w, plain, error));
    if (is_plain(g, plain)) return w->put(g, w, error);
    struct forge_error why = { "" };
    bool idle;
    if (g->next) for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, launch_graph(r, w, error)));
    else if (launch_graph(g, w, &why) != FORGE_OK) {         /* nothing of the graph has begun */
        TRY(gpu_said(g, device_idle(&g->device, &idle, error)));
        no_graphs(g, why.text);
        return w->put(g, w, error);
    }
    return FORGE_OK;
}

/* ---- collectives ---- */

/* Collectives are numbered without gaps across all steps, so two consecutive collectives never use the same half of the memory
 * (templates/gpu/collective.h).  The parameters of a step contain the number of its first launch's collective.  If only a part of the
 * launches runs, that is the next number minus the collectives of the launches before the part. */
uint32_t gpu_collectives_of(const struct forge_gpu_launch *list, uint32_t to, uint32_t n, uint32_t n_logits)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < to; i++)
        if (list[i].in_collective && list[i].collectives >= made && (n == 0 || cost_launch_runs(&list[i], n, n_logits)))
            made = list[i].collectives + 1;
    return made;
}

uint32_t gpu_columns_collectives(const struct gpu *g, uint32_t n, uint32_t n_logits)
{
    const struct cost_launches all = cost_launches(g->program->gpu, n);
    return g->collective ? gpu_collectives_of(all.list, all.n, n, n_logits) : 0;
}

/* ---- steps ---- */

static void **columns_graph(struct gpu *r, const struct gpu_work *w) { return &r->columns_graphs[w->n_logits == 1][w->n]; }

static enum forge_status put_columns(struct gpu *g, const struct gpu_work *w, struct forge_error *error)
{
    return gpu_launch_columns(g, w->sequence, w->n, w->n_logits, error);
}

static enum forge_status columns(struct forge_sequence *q, uint32_t n, uint32_t n_logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct gpu_work work = { .put = put_columns, .graph = columns_graph, .sequence = q, .n = n, .n_logits = n_logits };
    const bool plain = is_plain(g, q->engine->plain_launches) || (n_logits != n && n_logits != 1);
    if (!plain && g->columns != q) gpu_forget_columns(g);
    if (!plain) g->columns = q;
    g->collective_base += gpu_columns_collectives(g, n, n_logits);
    return gpu_put(g, &work, plain, error);
}

/* rows: of a step that computed drafts; 0: after decode, or after a step that the host ran.  dependent: as in gpu_launch. */
static enum forge_status launch_drafts(const struct forge_sequence *q, uint32_t rows, bool dependent, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    return gpu_launch(q, drafts_number(p), rows, rows, dependent, error);
}

/* Runs a token through the MTP block, with the second parameter struct. */
static enum forge_status launch_pass(const struct forge_sequence *q, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    for (uint32_t i = 0; i < p->n_pass; i++) TRY(gpu_launch(q, drafts_number(p) + 1 + i, 0, 1, i > 0, error));
    return FORGE_OK;
}

static enum forge_status launch_store_draft(const struct forge_sequence *q, bool dependent, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    return gpu_launch(q, drafts_number(p) + 1 + p->n_pass, 0, 1, dependent, error);
}

static enum forge_status launch_passes(const struct forge_sequence *q, uint32_t passes, struct forge_error *error)
{
    for (uint32_t i = 0; i < passes; i++) {
        TRY(launch_pass(q, error));
        TRY(launch_store_draft(q, true, error));
    }
    return FORGE_OK;
}

static enum forge_status launch_step(const struct forge_sequence *q, enum step_kind kind, uint32_t passes, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    const uint32_t rows = kind == STEP_DRAFTS ? p->most_drafts + 1 : 0;
    if (rows > 0) TRY(gpu_launch_columns(q->engine->gpu, q, rows, rows, error));
    else {
        if (kind == STEP_AHEAD) TRY(gpu_launch_decode(q, p->n_decode, p->n_decode + 1, error));
        TRY(gpu_launch_decode(q, 0, p->n_decode + (kind == STEP_DRAW), error));
    }
    if (kind < STEP_LOOK) return FORGE_OK;
    TRY(launch_drafts(q, rows, true, error));
    return launch_passes(q, passes, error);
}

static enum forge_status put_step(struct gpu *g, const struct gpu_work *w, struct forge_error *error)
{
    (void)g;
    return launch_step(w->sequence, (enum step_kind)w->kind, w->n, error);
}

static void **step_graph(struct gpu *r, const struct gpu_work *w)
{
    const uint32_t kind = w->kind;
    return &gpu_graphs_of(r, w->sequence)[kind < STEP_LOOK ? kind : STEP_LOOK + (kind - STEP_LOOK) * FORGE_MAX_COLUMNS + w->n];
}

/* Runs a step whose launches never change; everything that changes is in *step.  So one graph, made once, serves all steps of a
 * sequence; with passes there is one for each number of passes.  The launches of STEP_DRAFTS are those for the most drafts: workgroups
 * for more tokens than the step has end at once. */
enum forge_status gpu_run_step(struct forge_sequence *q, enum step_kind kind, uint32_t passes, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct gpu_work work = { .put = put_step, .graph = step_graph, .sequence = q, .kind = kind, .n = passes };
    g->collective_base += g->decode_collectives + (kind == STEP_DRAW || kind == STEP_AHEAD ? g->draw_collectives : 0);
    return gpu_put(g, &work, q->engine->plain_launches, error);
}

void gpu_own_step(const struct gpu *r, struct forge_gpu_step *s)
{
    const struct gpu *first = r->first;
    if (r == first) return;
    s->history = (int32_t *)(void *)gpu_moved(s->history, first->history, r->history);
    s->ring = r->device_ring;
    s->mask = (const uint32_t *)(const void *)gpu_moved(s->mask, first->device_masks, (uint8_t *)(uintptr_t)r->device_masks);
    s->row = (struct forge_gpu_row *)(void *)gpu_moved(s->row, first->step, (uint8_t *)r->step);
}

/* Uploads the parameters of a step, copied from the first rank's slot, and its tokens to one rank. */
static enum forge_status upload_on(struct gpu *r, uint32_t step, const int32_t *tokens, struct forge_error *error)
{
    const uint32_t slot = r->first->n_steps % SLOTS;
    const struct slot *s = &r->slots[slot];
    if (r != r->first) {
        TRY(gpu_wait_event(r, s->event, error));
        *s->step = *r->first->slots[slot].step;
        gpu_own_step(r, s->step);
    }
    const uint32_t n = s->step->n_tokens, n_past = s->step->n_past;
    TRY(device_upload(&r->device, &r->step[step], s->step, sizeof *s->step, error));
    if (tokens) {
        memcpy(s->tokens, tokens, n * sizeof *tokens);
        TRY(device_upload(&r->device, s->step->history + n_past, s->tokens, n * sizeof *tokens, error));
    }
    return device_record(&r->device, s->event, error);
}

/* Like gpu_upload_step, but to the parameter struct `step` on the device.  slot: of the states; before: the number of collectives of the
 * step's launches that do not run after this upload. */
static enum forge_status upload_step(const struct forge_sequence *q, uint32_t step, uint32_t slot, uint32_t n_past, const int32_t *tokens,
                                     uint32_t n_tokens, uint32_t n_logits, uint32_t before, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct forge_gpu_step *s = g->slots[g->n_steps % SLOTS].step;
    TRY(gpu_wait_event(g, g->slots[g->n_steps % SLOTS].event, error));
    g->begun.n = 0;
    *s = g->sampling;
    s->history = q->history;
    s->n_past = n_past;
    s->n_tokens = n_tokens;
    s->n_logits = n_logits;
    s->slot = slot;
    s->far = q->far ? UINT32_MAX : 0;
    s->n_drawn = g->queued;                      /* the numbers continue, so that no old entry of the ring is taken for a new one */
    s->collective_base = g->collective_base - before;
    s->collectives = g->decode_collectives + g->draw_collectives;
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, upload_on(r, step, tokens, error)));
    g->n_steps++;
    return FORGE_OK;
}

enum forge_status gpu_upload_step(const struct forge_sequence *q, uint32_t n_past, const int32_t *tokens, uint32_t n_tokens,
                                  uint32_t n_logits, uint32_t before, struct forge_error *error)
{
    return upload_step(q, 0, q->slot, n_past, tokens, n_tokens, n_logits, before, error);
}

/* Reads logit rows first .. first + n - 1 from the arena of the GPU that has them, through the staging buffers; one buffer is emptied
 * while the other is filled. */
enum forge_status gpu_download_rows(struct gpu *first_gpu, uint32_t first, uint32_t n, float *logits, struct forge_error *error)
{
    struct gpu *g = gpu_with_logits(first_gpu);
    const uint64_t row = program_columns(g->program) * sizeof *logits, bytes = n * row, most = g->staging_bytes;
    const uint8_t *from = g->arena + g->program->gpu->logits_offset + first * row;
    uint8_t *to = (uint8_t *)(void *)logits;
    if (g->machines && g->program->gpu->pipeline) return g->machines->rows(g, from, bytes, to, error);
    if (g->machines && g->machines->follows) return FORGE_OK;        /* the leading process reads its own rows */
    TRY(gpu_turn_to(g, error));
    for (uint64_t at = 0, done = 0; done < bytes;) {
        while (at < bytes && at - done < 2 * most) {             /* fill both buffers */
            const uint64_t part = bytes - at < most ? bytes - at : most, k = at / most % 2;
            TRY(gpu_said(g, device_download(&g->device, g->staging[k], from + at, part, error)));
            TRY(gpu_said(g, device_record(&g->device, g->staged[k], error)));
            at += part;
        }
        const uint64_t part = bytes - done < most ? bytes - done : most, k = done / most % 2;
        TRY(gpu_wait_event(g, g->staged[k], error));
        memcpy(to + done, g->staging[k], (size_t)part);
        done += part;
    }
    return FORGE_OK;
}

static enum forge_status download_logits(struct gpu *g, uint32_t n, float *logits, struct forge_error *error)
{
    return gpu_download_rows(g, 0, n, logits, error);
}

/* Runs launches `from` .. `to` - 1 of a prefill step of n tokens.  They are not dependent launches: they fill the device for a long
 * time, so workgroups of the next kernel that start early would only take their place. */
static enum forge_status launch_prefill(const struct forge_sequence *q, uint32_t from, uint32_t to, uint32_t n, uint32_t n_logits,
                                        struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->gpu->program->gpu;
    gpu_list_begins(q->engine->gpu);
    for (uint32_t i = from; i < to; i++)
        TRY(gpu_launch(q, p->n_decode + 2 + i, n, n_logits, false, error));
    return FORGE_OK;
}

/* Runs a prefill step; its parameters are uploaded.  The arena has room for the logits of logits_rows tokens.  If there are more, the
 * launches that write logits run once for each part, as if the step ended there, and the logits of a part are read before the next. */
static enum forge_status prefill(struct forge_sequence *q, uint32_t n, uint32_t n_logits, float *logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct forge_gpu *p = gpu_with_logits(g)->program->gpu;
    uint32_t head = 0;
    while (head < p->n_prefill && p->prefill[head].tail != FORGE_TAIL_LOGITS) head++;
    /* Each time, the head's collectives get the numbers after those of the launches before it. */
    const struct forge_gpu_launch *list = g->program->gpu->prefill;
    const uint32_t before = gpu_collectives_of(list, head, n, n_logits), all = gpu_collectives_of(list, p->n_prefill, n, n_logits);
    TRY(launch_prefill(q, 0, head, n, n_logits, error));
    g->collective_base += before;
    for (uint32_t at = 0; at < n_logits; at += p->logits_rows) {
        const uint32_t left = n_logits - at, part = left < p->logits_rows ? left : p->logits_rows, end = n - left + part;
        if (part < n_logits) TRY(gpu_upload_step(q, q->n_past, NULL, end, part, before, error));
        TRY(launch_prefill(q, head, p->n_prefill, end, part, error));
        g->collective_base += all - before;
        TRY(download_logits(g, part, logits + (size_t)at * program_columns(g->program), error));
        g->last_logits = part;
    }
    return FORGE_OK;
}

enum forge_status gpu_step(struct forge_sequence *q, bool is_decode, const int32_t *tokens, uint32_t n, uint32_t n_logits, float *logits,
                           struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    enum forge_status status = device_current(&g->device, error);
    const uint32_t most = g->program->gpu->most_columns;
    is_decode |= n == 1 && most > 0;                         /* columns give the bits of decode */
    const bool few = !is_decode && n <= most;
    g->run = NULL;
    g->last = q;
    g->last_past = q->n_past;
    g->last_tokens = n;
    g->last_logits = is_decode ? 1 : few ? n_logits : 0;
    if (status == FORGE_OK) status = gpu_upload_step(q, q->n_past, tokens, n, is_decode ? 1 : n_logits, 0, error);
    if (status == FORGE_OK)
        status = is_decode ? gpu_run_step(q, STEP_DECODE, 0, error)
               : few ? columns(q, n, n_logits, error) : prefill(q, n, n_logits, logits, error);
    q->slot = 0;
    if (status == FORGE_OK && (is_decode || few) && n_logits > 0) status = download_logits(g, is_decode ? 1 : n_logits, logits, error);
    return gpu_with_launch(g, status, error);
}

void gpu_set_sampling(struct forge_gpu_step *s, const struct forge_program *p, const struct forge_sample_options *o,
                      const struct forge_random *random)
{
    uint32_t n_suppressed;
    const uint32_t *suppressed = vocab_image_suppressed(p->vocab, &n_suppressed);
    s->temp = o->temp;
    s->top_k = o->top_k;
    s->top_p = o->top_p;
    s->min_p = o->min_p;
    s->repeat_penalty = o->repeat_penalty;
    s->presence_penalty = o->presence_penalty;
    s->frequency_penalty = o->frequency_penalty;
    s->repeat_last_n = o->repeat_last_n;
    s->n_biases = (uint32_t)o->n_biases + n_suppressed;
    for (size_t i = 0; i < o->n_biases; i++) {
        s->biases[i].id = o->biases[i].id;
        s->biases[i].bias = o->biases[i].bias;
    }
    for (uint32_t i = 0; i < n_suppressed; i++) {
        s->biases[o->n_biases + i].id = (int32_t)suppressed[i];
        s->biases[o->n_biases + i].bias = -__builtin_inff();
    }
    memcpy(s->random, random->s, sizeof s->random);
    s->guess = -1;
    s->mask = NULL;
    s->row = NULL;
    s->n_draws = 1;
}

/* ---- the MTP block alone ---- */

/* Runs a pass for each token.  Between passes, the block's own row is kept as after a draft, but with the given token in place of the
 * draft. */
static enum forge_status draft(const struct forge_sequence *q, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    TRY(device_current(&g->device, error));
    TRY(gpu_upload_step(q, q->n_past, NULL, 1, 1, 0, error));
    for (uint32_t i = 0; i < n; i++) {
        TRY(upload_step(q, 1, i > 0 ? g->program->gpu->most_columns : q->slot, q->n_past + i, &tokens[i], 1, 1, 0, error));
        TRY(launch_pass(q, error));
        TRY(download_logits(g, 1, logits + (size_t)i * g->program->n_vocab, error));
        TRY(launch_store_draft(q, false, error));
    }
    return FORGE_OK;
}

enum forge_status gpu_draft(struct forge_sequence *q, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error)
{
    q->engine->gpu->run = NULL;
    q->engine->gpu->last = NULL;                 /* the drafts' logits overwrite the last step's */
    return gpu_with_launch(q->engine->gpu, draft(q, tokens, n, logits, error), error);
}

enum forge_status gpu_wait(struct forge_sequence *q, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    enum forge_status status = device_current(&g->device, error);
    if (status == FORGE_OK) status = gpu_wait_all(g, error);
    return gpu_with_launch(g, status, error);
}

/* ---- drawing ahead ---- */

/* The most tokens that the next step may give, from what is left of the run: its limit, and the context or the positions that states can
 * be rewound; 0: do not start a step now.  The token that is read next leaves run_base + (seen - run_first) + 1 tokens in the context; a
 * step beyond that may have to be rewound.  One step with drafts can always be rewound, because states have slots. */
static uint32_t next_most(const struct forge_sequence *q)
{
    const struct gpu *g = q->engine->gpu;
    const bool alone = g->run_drafts && g->run_steps == g->run_ended;
    const uint64_t beyond = (uint64_t)g->run_base + (g->seen - g->run_first) + 1 + g->run_back, most_past = sequence_end(q),
                   end = beyond < most_past && !alone ? beyond : most_past, drawn = g->queued - g->run_first;
    const uint64_t of_limit = g->run_limit > drawn ? g->run_limit - drawn : 0, of_end = end > g->run_past ? end - g->run_past : 0,
                   left = of_limit < of_end ? of_limit : of_end;
    const uint32_t most = g->program->gpu->n_pass > 0 ? g->ready + 1 : g->foreseen ? g->program->gpu->most_drafts + 1 : 1;
    return most <= left ? most : left > 0 && g->run_steps - g->run_ended < LEAST_AHEAD ? 1 : 0;
}

/* Drafts for the step after the next one.  The next step gives at least one token, so there are never more drafts than tokens left in
 * the run. */
static uint32_t next_passes(const struct gpu *g)
{
    const uint64_t drawn = g->queued - g->run_first, left = g->run_limit > drawn + 2 ? g->run_limit - drawn - 2 : 0;
    if (!g->run_drafts || g->program->gpu->n_pass == 0) return 0;
    return g->passes < left ? g->passes : (uint32_t)left;
}

/* The number of drafts that the block makes adapts to the last step: one more if all were accepted, one less if none was. */
static void adapt_passes(struct gpu *g, uint32_t drafts, uint32_t right)
{
    if (drafts == 0) return;
    g->passes = drafts + (right == drafts) - (right == 0 && drafts > 1);
    if (g->passes > g->program->gpu->most_drafts) g->passes = g->program->gpu->most_drafts;
}

static void step_queued(struct forge_sequence *q, uint32_t most)
{
    struct gpu *g = q->engine->gpu;
    g->most[g->run_steps++ % MOST_AHEAD] = (uint8_t)most;
    g->queued += most;
}

/* Keeps enough steps on the stream for AHEAD_SECONDS. */
static enum forge_status queue_steps(struct forge_sequence *q, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const double step_seconds = g->run_ended > 0 ? (seconds_now() - g->run_start) / g->run_ended : 1;
    const double fill = AHEAD_SECONDS / step_seconds + 1;
    uint32_t ahead = fill < (double)MOST_AHEAD ? (uint32_t)fill : MOST_AHEAD;
    if (ahead < LEAST_AHEAD || g->machines) ahead = LEAST_AHEAD;         /* all processes that share a model must queue the same steps */
    for (uint32_t most; g->run_steps - g->run_ended < ahead && (most = next_most(q)) > 0;) {
        const uint32_t passes = next_passes(g);
        TRY(gpu_run_step(q, !g->run_drafts ? STEP_DRAW : most > 1 ? STEP_DRAFTS : STEP_LOOK, passes, error));
        g->ready = passes;
        step_queued(q, most);
        g->run_past += most;
        if (q->n_written < g->run_past) q->n_written = g->run_past;
    }
    return FORGE_OK;
}

static enum forge_status draw_begin(struct forge_sequence *q, int32_t first, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    TRY(device_current(&g->device, error));
    g->seen = g->run_first = g->queued;          /* forget the rest of the previous run */
    g->run_steps = g->run_ended = g->step_seen = 0;
    g->foreseen = false;
    g->ready = 0;
    if (g->passes == 0) g->passes = 1;
    g->run_written = q->n_written;
    g->run = q;
    if (first >= 0) {
        TRY(gpu_upload_step(q, q->n_past, &first, 1, 1, 0, error));
        g->run_past = q->n_past;
    } else {
        if (g->last != q || g->last_logits == 0 || g->last_past + g->last_tokens != q->n_past)
            return error_set(error, FORGE_FAILED, "there are no logits to draw from");
        TRY(gpu_upload_step(q, g->last_past, NULL, g->last_tokens, g->last_logits, g->decode_collectives, error));
        const uint32_t passes = next_passes(g);
        if (g->run_drafts) TRY(launch_drafts(q, 0, false, error));
        else TRY(gpu_launch_decode(q, g->program->gpu->n_decode, g->program->gpu->n_decode + 1, error));
        g->collective_base += g->draw_collectives;
        TRY(launch_passes(q, passes, error));
        g->ready = passes;
        step_queued(q, 1);
        g->run_past = q->n_past;
    }
    g->last_logits = 0;                          /* the draw changes them */
    g->run_base = first >= 0 ? q->n_past : q->n_past - 1;
    g->run_at = q->n_past;
    g->run_start = seconds_now();
    return queue_steps(q, error);
}

enum forge_status gpu_draw_begin(struct forge_sequence *q, const struct forge_sample_options *options, const struct forge_random *random,
                                 int32_t first, uint64_t limit, bool last, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    g->run_drafts = q->engine->speculates && g->program->gpu->most_drafts > 0;
    gpu_set_sampling(&g->sampling, g->program, options, random);
    g->sampling.most_drafts = g->run_drafts ? g->program->gpu->most_drafts : 0;
    g->run_limit = limit;
    g->run_back = last ? UINT32_MAX : state_back(q->engine->program);
    return gpu_with_launch(g, draw_begin(q, first, error), error);
}

/* Polls the ring.  The stream is queried now and then, because after a fault no entry comes. */
enum forge_status gpu_wait_draw(struct gpu *g, uint32_t number, uint32_t *token, struct forge_error *error)
{
    const volatile uint64_t *entry = &g->ring[number % FORGE_GPU_RING];
    const double since = seconds_now();
    for (double asked = since;;) {
        const uint64_t x = *entry;
        if ((uint32_t)(x >> 32) == number) {
            *token = (uint32_t)x;
            return FORGE_OK;
        }
        const double now = seconds_now();
        if (now - asked > ASK_SECONDS) {
            bool idle;
            TRY(gpu_said(g, gpu_turn_to(g, error)));
            TRY(gpu_said(g, device_idle(&g->device, &idle, error)));
            if (idle && (uint32_t)(*entry >> 32) != number) return error_set(error, FORGE_DEVICE_FAULT, "the GPU drew no token");
            asked = now;
        }
        TRY(gpu_wait_more(g, since, error));
    }
}

/* The token of this entry is the last one of its step, so further tokens that the step might have given are no longer expected. */
static void step_ended(struct forge_engine *e, uint32_t entry)
{
    struct gpu *g = e->gpu;
    const uint32_t spared = g->most[g->run_ended++ % MOST_AHEAD] - g->step_seen;
    g->queued -= spared;
    g->run_past -= spared;
    if (g->run_drafts) {
        e->n_drafted += FORGE_GPU_DRAFTS(entry);
        e->n_accepted += g->step_seen - 1;
        g->foreseen = entry & FORGE_GPU_FORESEEN;
        adapt_passes(g, FORGE_GPU_DRAFTS(entry), g->step_seen - 1);
    }
    g->step_seen = 0;
}

static enum forge_status draw_next(struct forge_sequence *q, int32_t *token, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const uint32_t n_vocab = g->program->n_vocab;
    uint32_t entry = 0;
    if (g->run != q || g->run_at != q->n_past) return error_set(error, FORGE_FAILED, "the run of draws was ended by another step");
    TRY(device_current(&g->device, error));
    TRY(queue_steps(q, error));
    if (g->queued == g->seen)
        return error_set(error, FORGE_TOO_LONG, "no token is left to draw: the context holds %u", q->engine->n_ctx);
    TRY(gpu_wait_draw(g, g->seen + 1, &entry, error));
    if (entry == FORGE_GPU_NOT_FINITE)
        return error_set(error, FORGE_BAD_WEIGHTS, NOT_FINITE_TEXT("logits"), g->run_base + (g->seen + 1 - g->run_first),
                         "seen by the draw on the GPU");
    const uint32_t drawn = g->run_drafts ? entry & FORGE_GPU_TOKEN : entry;
    if (drawn >= n_vocab) return error_set(error, FORGE_DEVICE_FAULT, "the GPU drew token %u, but the vocabulary has %u", drawn, n_vocab);
    g->seen++;
    q->slot = g->step_seen++;
    if (!g->run_drafts || entry & FORGE_GPU_ENDS_STEP) step_ended(q->engine, entry);
    q->n_past = g->run_at = g->run_base + (g->seen - g->run_first);
    if (g->run_drafts && g->run_steps - g->run_ended == (g->step_seen > 0))      /* no step runs beyond this one */
        q->n_written = g->run_written > q->n_past ? g->run_written : q->n_past;
    *token = (int32_t)drawn;
    return FORGE_OK;
}

enum forge_status gpu_draw_next(struct forge_sequence *q, int32_t *token, struct forge_error *error)
{
    return gpu_with_launch(q->engine->gpu, draw_next(q, token, error), error);
}

/* ---- measuring ---- */

static enum forge_status time_copies(struct gpu *g, uint8_t *to, const uint8_t *from, uint64_t bytes, double *best,
                                     struct forge_error *error)
{
    void *const start = g->staged[0], *const end = g->staged[1];
    const int repeat = 4;
    for (int i = 0; i < 4; i++) {                /* the first copy warms up */
        double seconds;
        TRY(device_record(&g->device, start, error));
        for (int k = 0; k < repeat; k++) TRY(device_copy(&g->device, to, from, bytes, error));
        TRY(device_record(&g->device, end, error));
        TRY(gpu_wait_event(g, end, error));
        TRY(device_seconds(&g->device, start, end, &seconds, error));
        const double gb_s = seconds > 0 ? 2.0 * repeat * (double)bytes / seconds * 1e-9 : 0;
        if (i > 0 && gb_s > *best) *best = gb_s;
    }
    return FORGE_OK;
}

enum forge_status gpu_copy_bandwidth(struct forge_engine *e, double *gb_s, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    uint8_t *from = NULL, *to = NULL;
    uint64_t free, total;
    *gb_s = 0;
    TRY(device_current(&g->device, error));
    TRY(device_memory(&g->device, &free, &total, error));
    const uint64_t bytes = free / 4 < 1u << 29 ? free / 4 / 4096 * 4096 : 1u << 29;
    if (bytes < 1u << 20 || device_alloc(&g->device, &from, bytes, "measurement", NULL) != FORGE_OK) return FORGE_OK;
    enum forge_status status = FORGE_OK;
    if (device_alloc(&g->device, &to, bytes, "measurement", NULL) == FORGE_OK) {
        status = device_clear(&g->device, from, bytes, error);
        if (status == FORGE_OK) status = time_copies(g, to, from, bytes, gb_s, error);
    }
    device_free(&g->device, to);
    device_free(&g->device, from);
    return status;
}
