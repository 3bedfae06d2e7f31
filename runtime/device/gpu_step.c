/* gpu_step.c -- steps and draws.  The host's part of a step is small: it uploads the step's numbers, puts launches on the stream and waits.
 * Text is drawn on the device, a few tokens ahead of the host, which reads them from a ring in its own memory; nothing waits for the host
 * between two tokens. */
#include <string.h>

#include "runtime/run/finite.h"
#include "gpu_state.h"
#include "runtime/model/cost.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"

/* Steps put on the stream before the token of the first has been read: as many as take AHEAD_SECONDS, which is longer than a terminal or a
 * sleep holds the host up. */
static const double AHEAD_SECONDS = 4e-3;
static const double ASK_SECONDS = 1e-3;          /* between two questions to the driver while a token is awaited */

/* ---- launches ---- */

/* The number of the draw of drafts; those behind it are of a pass. */
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
        .mark_at = r->device_mark, .mark = number, .first = n_tokens > 0 && l->tail > 0, .rank = r->rank, .exchanges = l->exchanges,
    };
    memcpy(args.weight, l->weight, sizeof args.weight);
    memcpy(args.exchange, r->exchanges, sizeof args.exchange);
    args.given = r->exchanges[r->rank];
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
    for (struct gpu *r = g; r; r = r->next)
        if (!g->captured || g->captured == r)
            TRY(gpu_said(r, launch_on(r, step, q, number, n_tokens, n_logits, dependent, error)));
    return FORGE_OK;
}

enum forge_status gpu_launch(const struct forge_sequence *q, uint32_t number, uint32_t n_tokens, uint32_t n_logits, bool dependent,
                             struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    return gpu_launch_by(g, number > drafts_number(g->program->gpu), q, number, n_tokens, n_logits, dependent, error);
}

/* The first launch of a step waits for all that was before, on each GPU: the others may then read what earlier steps wrote before they wait
 * (load_settled). */
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

/* A few tokens at once: the same launches each time, as decode is. */
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
    return status == FORGE_OK ? device_capture_end(&r->device, graph, error) : status;
}

static enum forge_status launch_graph(struct gpu *r, const struct gpu_work *w, struct forge_error *error)
{
    TRY(gpu_turn_to(r, error));
    return device_graph_launch(&r->device, *w->graph(r, w), error);
}

/* Values that other processes get leave by calls of a library, which have the number of the exchange: no graph has that. */
static bool is_plain(const struct gpu *g, bool plain) { return plain || !g->program->gpu->graph || g->machines; }

enum forge_status gpu_make(struct gpu *g, const struct gpu_work *w, bool plain, struct forge_error *error)
{
    if (is_plain(g, plain)) return FORGE_OK;
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, capture(r, w, error)));
    return FORGE_OK;
}

/* All graphs are made before any runs: making one may wait for a device. */
enum forge_status gpu_put(struct gpu *g, const struct gpu_work *w, bool plain, struct forge_error *error)
{
    if (is_plain(g, plain)) return w->put(g, w, error);
    TRY(gpu_make(g, w, plain, error));
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, launch_graph(r, w, error)));
    return FORGE_OK;
}

/* ---- exchanges ---- */

/* Their numbers go on without a gap, whatever runs, so that two that follow each other never take the same half of the memory
 * (templates/gpu/exchange.h).  A step's numbers say what its first launch's exchange has: where only a part of the launches runs, less than
 * the next one by as many as the launches before it would make. */
uint32_t gpu_exchanges_of(const struct forge_gpu_launch *list, uint32_t to, uint32_t n, uint32_t n_logits)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < to; i++)
        if (list[i].exchanging && list[i].exchanges >= made && (n == 0 || cost_launch_runs(&list[i], n, n_logits)))
            made = list[i].exchanges + 1;
    return made;
}

uint32_t gpu_columns_exchanges(const struct gpu *g, uint32_t n, uint32_t n_logits)
{
    const struct cost_launches all = cost_launches(g->program->gpu, n);
    return g->exchange ? gpu_exchanges_of(all.list, all.n, n, n_logits) : 0;
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
    g->exchanged += gpu_columns_exchanges(g, n, n_logits);
    return gpu_put(g, &work, plain, error);
}

/* rows: of a step that computed drafts; 0: of decode, or of what the host ran before.  dependent: as of gpu_launch. */
static enum forge_status launch_drafts(const struct forge_sequence *q, uint32_t rows, bool dependent, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    return gpu_launch(q, drafts_number(p), rows, rows, dependent, error);
}

/* A token through the block that drafts, by the second struct of numbers. */
static enum forge_status launch_pass(const struct forge_sequence *q, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    for (uint32_t i = 0; i < p->n_pass; i++) TRY(gpu_launch(q, drafts_number(p) + 1 + i, 0, 1, i > 0, error));
    return FORGE_OK;
}

static enum forge_status launch_take(const struct forge_sequence *q, bool dependent, struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->program->gpu;
    return gpu_launch(q, drafts_number(p) + 1 + p->n_pass, 0, 1, dependent, error);
}

static enum forge_status launch_passes(const struct forge_sequence *q, uint32_t passes, struct forge_error *error)
{
    for (uint32_t i = 0; i < passes; i++) {
        TRY(launch_pass(q, error));
        TRY(launch_take(q, true, error));
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

/* A step whose launches are always the same, what changes is in *step: so one graph serves all of a sequence, made once and never
 * changed; of those with passes one for each number of them.  Of STEP_DRAFTS they are those of the most drafts: groups for more tokens than
 * the step has end at once. */
enum forge_status gpu_run_step(struct forge_sequence *q, enum step_kind kind, uint32_t passes, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct gpu_work work = { .put = put_step, .graph = step_graph, .sequence = q, .kind = kind, .n = passes };
    g->exchanged += g->decode_exchanges + (kind == STEP_DRAW || kind == STEP_AHEAD ? g->draw_exchanges : 0);
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

/* The numbers of a step as they are in the first GPU's slot, and its tokens, on their way to one. */
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

/* As gpu_upload_step, to one of the structs on the device; slot: of the states; before: exchanges that the step's launches would make which
 * do not run behind this. */
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
    s->n_drawn = g->queued;                      /* numbers go on, so that no entry of the ring is taken for a new one */
    s->exchanged = g->exchanged - before;
    s->exchanges = g->decode_exchanges + g->draw_exchanges;
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, upload_on(r, step, tokens, error)));
    g->n_steps++;
    return FORGE_OK;
}

enum forge_status gpu_upload_step(const struct forge_sequence *q, uint32_t n_past, const int32_t *tokens, uint32_t n_tokens,
                                  uint32_t n_logits, uint32_t before, struct forge_error *error)
{
    return upload_step(q, 0, q->slot, n_past, tokens, n_tokens, n_logits, before, error);
}

/* Rows first .. first + n - 1 of those in the arena of the GPU that has them, through the staging buffers; one is emptied
 * while the other is filled. */
enum forge_status gpu_download_rows(struct gpu *first_gpu, uint32_t first, uint32_t n, float *logits, struct forge_error *error)
{
    struct gpu *g = gpu_with_logits(first_gpu);
    const uint64_t row = program_columns(g->program) * sizeof *logits, bytes = n * row, most = g->staging_bytes;
    const uint8_t *from = g->arena + g->program->gpu->logits_offset + first * row;
    uint8_t *to = (uint8_t *)(void *)logits;
    if (g->machines && g->program->gpu->in_row) return g->machines->rows(g, from, bytes, to, error);
    if (g->machines && g->machines->follows) return FORGE_OK;        /* the process that leads reads its own */
    TRY(gpu_turn_to(g, error));
    for (uint64_t at = 0, done = 0; done < bytes;) {
        while (at < bytes && at - done < 2 * most) {             /* both buffers under way */
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

/* Launches `from` .. `to` - 1 of a prefill step of n tokens.  They fill the device for long: groups of the next kernel that come early
 * would only take their place. */
static enum forge_status launch_prefill(const struct forge_sequence *q, uint32_t from, uint32_t to, uint32_t n, uint32_t n_logits,
                                        struct forge_error *error)
{
    const struct forge_gpu *p = q->engine->gpu->program->gpu;
    gpu_list_begins(q->engine->gpu);
    for (uint32_t i = from; i < to; i++)
        TRY(gpu_launch(q, p->n_decode + 2 + i, n, n_logits, false, error));
    return FORGE_OK;
}

/* A prefill step whose numbers are uploaded.  The arena has room for logits of logits_rows tokens: of more, the launches that write them
 * run for one part after the other, as if the step ended with it, and its logits are read before the next. */
static enum forge_status prefill(struct forge_sequence *q, uint32_t n, uint32_t n_logits, float *logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const struct forge_gpu *p = gpu_with_logits(g)->program->gpu;
    uint32_t head = 0;
    while (head < p->n_prefill && p->prefill[head].tail != FORGE_TAIL_LOGITS) head++;
    /* The head's exchanges have the numbers behind those of the launches before it, each time. */
    const struct forge_gpu_launch *list = g->program->gpu->prefill;
    const uint32_t before = gpu_exchanges_of(list, head, n, n_logits), all = gpu_exchanges_of(list, p->n_prefill, n, n_logits);
    TRY(launch_prefill(q, 0, head, n, n_logits, error));
    g->exchanged += before;
    for (uint32_t at = 0; at < n_logits; at += p->logits_rows) {
        const uint32_t left = n_logits - at, part = left < p->logits_rows ? left : p->logits_rows, end = n - left + part;
        if (part < n_logits) TRY(gpu_upload_step(q, q->n_past, NULL, end, part, before, error));
        TRY(launch_prefill(q, head, p->n_prefill, end, part, error));
        g->exchanged += all - before;
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
    is_decode |= n == 1 && most > 0;                         /* what columns are for: the bits of decode */
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

void gpu_set_sampling(struct forge_gpu_step *s, const struct forge_sample_options *o, const struct forge_random *random)
{
    s->temp = o->temp;
    s->top_k = o->top_k;
    s->top_p = o->top_p;
    s->min_p = o->min_p;
    s->repeat_penalty = o->repeat_penalty;
    s->presence_penalty = o->presence_penalty;
    s->frequency_penalty = o->frequency_penalty;
    s->repeat_last_n = o->repeat_last_n;
    s->n_biases = (uint32_t)o->n_biases;
    for (size_t i = 0; i < o->n_biases; i++) {
        s->biases[i].id = o->biases[i].id;
        s->biases[i].bias = o->biases[i].bias;
    }
    memcpy(s->random, random->s, sizeof s->random);
    s->guess = -1;
    s->mask = NULL;
    s->row = NULL;
    s->n_draws = 1;
}

/* ---- the block that drafts, alone ---- */

/* A pass for each; between them the block's own row is kept as behind a draft, of which the token given takes the place. */
static enum forge_status draft(const struct forge_sequence *q, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    TRY(device_current(&g->device, error));
    TRY(gpu_upload_step(q, q->n_past, NULL, 1, 1, 0, error));
    for (uint32_t i = 0; i < n; i++) {
        TRY(upload_step(q, 1, i > 0 ? g->program->gpu->most_columns : q->slot, q->n_past + i, &tokens[i], 1, 1, 0, error));
        TRY(launch_pass(q, error));
        TRY(download_logits(g, 1, logits + (size_t)i * g->program->n_vocab, error));
        TRY(launch_take(q, false, error));
    }
    return FORGE_OK;
}

enum forge_status gpu_draft(struct forge_sequence *q, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error)
{
    q->engine->gpu->run = NULL;
    q->engine->gpu->last = NULL;                 /* the drafts' logits take their place */
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

/* How many tokens the next step may give, by what is left of the run: limit, and context or the states' patience; 0: none now.  The token
 * that is read next leaves run_base + (seen - run_first) + 1 in the context: a step beyond that may have to be taken back.  What one step
 * with drafts changes can be: states have slots. */
static uint32_t next_most(const struct forge_sequence *q)
{
    const struct gpu *g = q->engine->gpu;
    const bool alone = g->run_drafts && g->run_steps == g->run_ended;
    const uint64_t beyond = (uint64_t)g->run_base + (g->seen - g->run_first) + 1 + g->run_back, n_ctx = q->engine->n_ctx,
                   end = beyond < n_ctx && !alone ? beyond : n_ctx, drawn = g->queued - g->run_first;
    const uint64_t of_limit = g->run_limit > drawn ? g->run_limit - drawn : 0, of_end = end > g->run_past ? end - g->run_past : 0,
                   left = of_limit < of_end ? of_limit : of_end;
    const uint32_t most = g->program->gpu->n_pass > 0 ? g->ready + 1 : g->foreseen ? g->program->gpu->most_drafts + 1 : 1;
    return most <= left ? most : left > 0 && g->run_steps - g->run_ended < LEAST_AHEAD ? 1 : 0;
}

/* Drafts for the step behind the next one, which itself gives a token at least: no more than are left of the run. */
static uint32_t next_passes(const struct gpu *g)
{
    const uint64_t drawn = g->queued - g->run_first, left = g->run_limit > drawn + 2 ? g->run_limit - drawn - 2 : 0;
    if (!g->run_drafts || g->program->gpu->n_pass == 0) return 0;
    return g->passes < left ? g->passes : (uint32_t)left;
}

/* How many drafts the block makes follows from how those of a step did: all of them right, and there is one more; none, and one less. */
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

/* Keeps the stream filled with what takes AHEAD_SECONDS. */
static enum forge_status queue_steps(struct forge_sequence *q, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    const double step_seconds = g->run_ended > 0 ? (seconds_now() - g->run_start) / g->run_ended : 1;
    const double fill = AHEAD_SECONDS / step_seconds + 1;
    uint32_t ahead = fill < (double)MOST_AHEAD ? (uint32_t)fill : MOST_AHEAD;
    if (ahead < LEAST_AHEAD || g->machines) ahead = LEAST_AHEAD;         /* processes that share a model all put the same */
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
    g->seen = g->run_first = g->queued;          /* what is left of the run before is forgotten */
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
        TRY(gpu_upload_step(q, g->last_past, NULL, g->last_tokens, g->last_logits, g->decode_exchanges, error));
        const uint32_t passes = next_passes(g);
        if (g->run_drafts) TRY(launch_drafts(q, 0, false, error));
        else TRY(gpu_launch_decode(q, g->program->gpu->n_decode, g->program->gpu->n_decode + 1, error));
        g->exchanged += g->draw_exchanges;
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
    gpu_set_sampling(&g->sampling, options, random);
    g->sampling.most_drafts = g->run_drafts ? g->program->gpu->most_drafts : 0;
    g->run_limit = limit;
    g->run_back = last ? UINT32_MAX : state_back(q->engine->program);
    return gpu_with_launch(g, draw_begin(q, first, error), error);
}

/* The stream is asked now and then: after a fault no entry comes. */
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

/* The token of this entry is the last of its step: what the step might have given beyond it is no longer on its way. */
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
    if (drawn >= n_vocab) return error_set(error, FORGE_DEVICE_FAULT, "the GPU drew token %u, the vocabulary has %u", drawn, n_vocab);
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
    for (int i = 0; i < 4; i++) {                /* the first one warms up */
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
