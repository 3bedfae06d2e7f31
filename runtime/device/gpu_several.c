/* gpu_several.c -- steps of several sequences, and draws that wait for the host: those of engine_step_draw, each with its own options and
 * mask.  The parameters of a step are on the device (struct forge_gpu_step), so its launches do not depend on the sequences.
 *
 * The draws advance these parameters.  So the step of the drawn tokens can be put on the stream before the host has read any of them: it
 * runs while the host does its work between two tokens and makes the masks for the next ones.  `begun` records what is on the stream
 * then; the next step of the same sequences finds it there, even if some of them have ended. */
#include <string.h>

#include "runtime/run/finite.h"
#include "gpu_state.h"
#include "runtime/model/cost.h"
#include "runtime/model/state.h"

_Static_assert((int)FORGE_GPU_MAX_APART == (int)FORGE_MAX_COLUMNS, "an entry for each column");

/* ---- parameters ---- */

/* The parameters of the draw of row i of `begun`, for the first rank.  collective_base: number of the first collective after the step;
 * the draw is followed by another such step. */
static void set_draw(const struct gpu *g, struct forge_gpu_step *s, uint32_t i, uint32_t collective_base)
{
    const struct gpu_row *row = &g->begun.rows[i];
    *s = g->sampling;
    gpu_set_sampling(s, g->program, &row->options, &row->random);
    s->most_drafts = 0;
    s->mask = row->guided ? g->device_masks + (uint64_t)row->mask * g->mask_words : NULL;
    s->row = g->begun.n > 1 ? &g->step->rows[i] : NULL;
    s->history = row->sequence->history;
    s->n_past = row->n_past;
    s->far = row->sequence->far ? UINT32_MAX : 0;
    s->n_tokens = s->n_logits = 1;
    s->n_draws = g->begun.n;
    s->n_drawn = g->queued + i;
    s->collective_base = collective_base - g->decode_collectives;
    s->collectives = g->draw_collectives + (g->begun.n > 1 ? gpu_columns_collectives(g, g->begun.n, g->begun.n) : g->decode_collectives);
}

/* collective_base: as in set_draw. */
static enum forge_status upload_draws(struct gpu *r, const struct slot *slot, uint32_t collective_base, struct forge_error *error)
{
    const struct gpu *g = r->first;
    const uint32_t n = g->begun.n;
    for (uint32_t i = 0; i < n; i++) {
        set_draw(g, &slot->draws[i], i, collective_base);
        gpu_own_step(r, &slot->draws[i]);
    }
    return device_upload(&r->device, n > 1 ? &r->step[STEP_OF_DRAWS] : r->step, slot->draws, n * sizeof *slot->draws, error);
}

static enum forge_status changed_on(struct gpu *r, struct forge_error *error)
{
    const struct slot *s = &r->slots[r->first->n_steps % SLOTS];
    TRY(gpu_wait_event(r, s->event, error));
    TRY(upload_draws(r, s, r->first->collective_base, error));
    return device_record(&r->device, s->event, error);
}

/* Called if options have changed after a step that is running. */
static enum forge_status upload_changed(struct gpu *g, struct forge_error *error)
{
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, changed_on(r, error)));
    g->n_steps++;
    return FORGE_OK;
}

static enum forge_status several_on(struct gpu *r, const struct forge_column *c, uint32_t n, bool draws, struct forge_error *error)
{
    const struct gpu *g = r->first;
    const struct slot *s = &r->slots[g->n_steps % SLOTS];
    TRY(gpu_wait_event(r, s->event, error));
    *s->step = g->sampling;
    s->step->far = 0;
    s->step->n_tokens = s->step->n_logits = n;
    s->step->n_drawn = g->queued;
    s->step->apart = 1;
    s->step->collective_base = g->collective_base;
    for (uint32_t i = 0; i < n; i++) {
        const struct forge_sequence *q = c[i].sequence;
        s->step->rows[i].state = (uint64_t)(gpu_state_of(r, q) - r->state);
        s->step->rows[i].n_past = q->n_past;
        s->step->far |= (uint32_t)q->far << i;
        s->step->rows[i].token = s->tokens[i] = c[i].token;
    }
    gpu_own_step(r, s->step);
    TRY(device_upload(&r->device, r->step, s->step, sizeof *s->step, error));
    if (draws) TRY(upload_draws(r, s, g->collective_base + gpu_columns_collectives(g, n, n), error));
    for (uint32_t i = 0; i < n; i++)
        TRY(device_upload(&r->device, gpu_history_of(r, c[i].sequence) + c[i].sequence->n_past, &s->tokens[i], sizeof *s->tokens, error));
    return device_record(&r->device, s->event, error);
}

/* Uploads the parameters of a step of n sequences, and writes each sequence's token into its history. */
static enum forge_status upload_several(struct gpu *g, const struct forge_column *c, uint32_t n, bool draws, struct forge_error *error)
{
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, several_on(r, c, n, draws, error)));
    g->n_steps++;
    return FORGE_OK;
}

static enum forge_status collective_base_on(struct gpu *r, struct forge_error *error)
{
    const struct slot *s = &r->slots[r->first->n_steps % SLOTS];
    TRY(gpu_wait_event(r, s->event, error));
    s->step->collective_base = r->first->collective_base + r->first->draw_collectives;
    TRY(device_upload(&r->device, &r->step->collective_base, &s->step->collective_base, sizeof s->step->collective_base, error));
    return device_record(&r->device, s->event, error);
}

/* The draws advance the rows of the next step, but not the number of its collectives, which all rows share. */
static enum forge_status upload_collective_base(struct gpu *g, struct forge_error *error)
{
    if (!g->collective) return FORGE_OK;
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_said(r, collective_base_on(r, error)));
    g->n_steps++;
    return FORGE_OK;
}

/* ---- launches ---- */

/* Launches n draws side by side. */
static enum forge_status launch_draws(struct gpu *g, uint32_t n, struct forge_error *error)
{
    gpu_list_begins(g);
    return gpu_launch_by(g, STEP_OF_DRAWS, NULL, g->program->gpu->n_decode + 1, n, n, false, error);
}

/* kind 1: after the draws of the previous step. */
static enum forge_status put_several(struct gpu *g, const struct gpu_work *w, struct forge_error *error)
{
    if (w->kind) TRY(launch_draws(g, w->n, error));
    return gpu_launch_columns(g, NULL, w->n, w->n, error);
}

static void **several_graph(struct gpu *r, const struct gpu_work *w) { return &r->several_graphs[w->kind][w->n]; }

/* draws: first launch the draws of the previous step.  There is a graph for each n. */
static enum forge_status launch_several(const struct forge_engine *e, uint32_t n, bool draws, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    const struct gpu_work work = { .put = put_several, .graph = several_graph, .kind = draws, .n = n };
    if (draws) TRY(upload_collective_base(g, error));
    g->collective_base += gpu_columns_collectives(g, n, n) + (draws ? g->draw_collectives : 0);
    return gpu_put(g, &work, e->plain_launches, error);
}

/* ---- steps ---- */

static enum forge_status several(struct forge_engine *e, const struct forge_column *c, uint32_t n, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    TRY(device_current(&g->device, error));
    g->begun.n = 0;
    TRY(upload_several(g, c, n, false, error));
    TRY(launch_several(e, n, false, error));
    for (uint32_t i = 0; i < n; i++) if (c[i].logits) TRY(gpu_download_rows(g, i, 1, c[i].logits, error));
    return FORGE_OK;
}

enum forge_status gpu_several(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    e->gpu->run = NULL;
    e->gpu->last = NULL;
    return gpu_with_launch(e->gpu, several(e, columns, n, error), error);
}

static uint32_t most_together(const struct gpu *g)
{
    return g->program->gpu->several && g->program->gpu->most_columns > 1 ? g->program->gpu->most_columns : 1;
}

/* The row of `begun`, from `from` on, that computes column c; begun.n if no row does. */
static uint32_t row_of(const struct gpu *g, const struct forge_column *c, uint32_t from)
{
    uint32_t i = from;
    for (; i < g->begun.n; i++) {
        const struct gpu_row *row = &g->begun.rows[i];
        if (row->sequence == c->sequence && row->n_past == c->sequence->n_past && row->token == c->token) break;
    }
    return i;
}

static bool is_begun(const struct gpu *g, const struct forge_column *c, uint32_t n)
{
    for (uint32_t i = 0, row = 0; i < n; i++, row++)
        if ((row = row_of(g, &c[i], row)) >= g->begun.n) return false;
    return n > 0;
}

/* first: the index of c[0] among all columns. */
static enum forge_status step_begin(struct forge_engine *e, const struct forge_column *c, uint32_t n, uint32_t first,
                                    struct forge_error *error)
{
    struct gpu *g = e->gpu;
    if (is_begun(g, c, n)) return FORGE_OK;
    g->begun.n = n;
    for (uint32_t i = 0; i < n; i++)
        g->begun.rows[i] = (struct gpu_row){ .sequence = c[i].sequence, .n_past = c[i].sequence->n_past, .token = c[i].token,
                                             .options = *c[i].options, .random = *c[i].random, .guided = c[i].guided, .mask = first + i };
    enum forge_status status;
    if (n > 1) {
        status = upload_several(g, c, n, true, error);
        if (status == FORGE_OK) status = launch_several(e, n, false, error);
    } else {
        set_draw(g, &g->sampling, 0, g->collective_base);
        status = gpu_upload_step(c->sequence, c->sequence->n_past, &c->token, 1, 1, 0, error);
        if (status == FORGE_OK) status = gpu_run_step(c->sequence, STEP_DECODE, 0, error);
        c->sequence->slot = 0;
    }
    g->begun.n = status == FORGE_OK ? n : 0;
    return status;
}

enum forge_status gpu_several_begin(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    const uint32_t most = most_together(g);
    enum forge_status status = device_current(&g->device, error);
    g->run = NULL;
    g->last = NULL;
    if (status == FORGE_OK) status = step_begin(e, columns, n < most ? n : most, 0, error);
    return gpu_with_launch(g, status, error);
}

/* ---- draws ---- */

/* Uploads what the draws of these rows need and the device does not have: masks, and options that differ from those of the previous
 * step.  A row without a column belongs to a text that has ended, and its options may no longer exist. */
static enum forge_status prepare_draws(struct gpu *g, const struct forge_column *c, uint32_t n, struct forge_error *error)
{
    const bool follows = g->machines && g->machines->follows;            /* a following process: the biases lie in the last message */
    bool changed = false;
    uint32_t i = 0;
    for (uint32_t r = 0; r < g->begun.n; r++) {
        struct gpu_row *row = &g->begun.rows[r];
        if (i == n || row_of(g, &c[i], r) != r) {
            row->options.n_biases = 0;
            continue;
        }
        if (follows || memcmp(&row->options, c[i].options, sizeof row->options) || memcmp(&row->random, c[i].random, sizeof row->random) ||
            row->guided != c[i].guided) {
            row->options = *c[i].options;
            row->random = *c[i].random;
            row->guided = c[i].guided;
            changed = true;
        }
        if (c[i].guided && c[i].mask)
            for (struct gpu *o = g; o; o = o->next)
                memcpy(o->masks + (size_t)row->mask * g->mask_words, c[i].mask, (g->program->n_vocab + 31) / 32 * sizeof *g->masks);
        i++;
    }
    return changed ? upload_changed(g, error) : FORGE_OK;
}

/* May the next step run before its tokens are known here?  Yes, if all its sequences continue and can be rewound from there. */
static bool goes_ahead(const struct forge_engine *e, uint32_t n)
{
    const struct gpu *g = e->gpu;
    if (n < g->begun.n || state_back(e->program) < 1) return false;
    for (uint32_t i = 0; i < n; i++) if (g->begun.rows[i].n_past + 2 > sequence_end(g->begun.rows[i].sequence)) return false;
    return true;
}

static enum forge_status queue_draws(struct forge_engine *e, const struct forge_column *c, uint32_t n, bool ahead,
                                     struct forge_error *error)
{
    struct gpu *g = e->gpu;
    const struct forge_gpu *p = g->program->gpu;
    const uint32_t rows = g->begun.n;
    if (rows > 1 && ahead) TRY(launch_several(e, rows, true, error));
    else if (rows > 1) TRY(launch_draws(g, rows, error));
    else if (ahead) TRY(gpu_run_step(c->sequence, STEP_AHEAD, 0, error));
    else TRY(gpu_launch_decode(c->sequence, p->n_decode, p->n_decode + 1, error));
    if (!ahead) g->collective_base += g->draw_collectives;
    for (uint32_t i = 0; i < n && ahead; i++)
        if (c[i].sequence->n_written < c[i].sequence->n_past + 2) c[i].sequence->n_written = c[i].sequence->n_past + 2;
    return FORGE_OK;
}

static enum forge_status read_draw(struct gpu *g, struct forge_column *c, uint32_t number, struct forge_error *error)
{
    uint32_t entry = 0;
    TRY(gpu_wait_draw(g, number, &entry, error));
    if (entry == FORGE_GPU_NOT_FINITE)
        return error_set(error, FORGE_BAD_WEIGHTS, NOT_FINITE_TEXT("logits"), c->sequence->n_past + 1, "seen by the draw on the GPU");
    if (entry >= g->program->n_vocab)
        return error_set(error, FORGE_DEVICE_FAULT, "the GPU drew token %u, but the vocabulary has %u", entry, g->program->n_vocab);
    c->drawn = c->guided && !c->mask ? -1 : (int32_t)entry;
    return FORGE_OK;
}

/* Called when the draws have been read and the next step is running. */
static void go_on(struct gpu *g, const struct forge_column *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct gpu_row *row = &g->begun.rows[i];
        row->n_past++;
        row->token = c[i].drawn;
        if (row->options.temp > 0) random_next(&row->random);
    }
}

/* Computes as many columns in one step as the program can, or one after the other; the host waits when all are on the stream. */
static enum forge_status several_draw(struct forge_engine *e, struct forge_column *c, uint32_t n, bool more, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    const uint32_t most = most_together(g);
    uint32_t numbers[FORGE_MAX_COLUMNS];
    bool ahead = false;
    TRY(device_current(&g->device, error));
    for (uint32_t at = 0, part; at < n; at += part) {
        part = n - at < most ? n - at : most;
        TRY(step_begin(e, &c[at], part, at, error));
        TRY(prepare_draws(g, &c[at], part, error));
        ahead = more && part == n && goes_ahead(e, n);
        TRY(queue_draws(e, &c[at], part, ahead, error));
        for (uint32_t i = 0, row = 0; i < part; i++, row++) {
            row = row_of(g, &c[at + i], row);
            numbers[at + i] = g->queued + row + 1;
        }
        g->queued += g->begun.n;
        if (!ahead) g->begun.n = 0;
    }
    g->seen = g->queued;
    for (uint32_t i = 0; i < n; i++) TRY(read_draw(g, &c[i], numbers[i], error));
    if (ahead) go_on(g, c, n);
    return FORGE_OK;
}

enum forge_status gpu_several_draw(struct forge_engine *e, struct forge_column *columns, uint32_t n, bool more, struct forge_error *error)
{
    e->gpu->run = NULL;
    e->gpu->last = NULL;
    const enum forge_status status = several_draw(e, columns, n, more, error);
    if (status != FORGE_OK) e->gpu->begun.n = 0;
    return gpu_with_launch(e->gpu, status, error);
}
