/* gpu_timing.c -- how long each launch of a step takes.
 *
 * Decode: the time of a kernel alone is not what it adds to a token, because it begins while the previous kernel ends, and a clock between
 * two launches would separate them.  So the step is cut in two at each launch in turn, with a graph for each part, and the first part runs
 * between two events.  The time of a launch is the difference between the part that ends after it and the part that ends before it.  Every
 * cut runs whole steps, so caches contain what they contain in use, and the differences add up to the step.
 * Prefill: its kernels are long and never begin early, so there is an event between every two of them.
 * With GPUs that share a model, all run the steps, and the first one has the clocks.  With pipeline stages, the clocks are on the GPU
 * that runs the launch: all stages begin a step at the same time, with the token, so their clocks can be compared. */
#include <string.h>

#include "gpu_state.h"
#include "runtime/model/cost.h"
#include "runtime/run/timing.h"

enum { RUNS_LEAST = 4, RUNS_MOST = 24, STEP_RUNS = 16, PREFILL_RUNS = 5 };
_Static_assert(2 * RUNS_MOST <= TIMING_CLOCKS_LEAST, "a clock before each run and one after it");

/* A part of a decode step: its graph on each GPU, or NULL if launches are plain or the GPU has none. */
struct part { uint32_t from, to; void *graphs[FORGE_GPU_MAX_RANKS]; };

static enum forge_status part_put(struct gpu *g, const struct gpu_work *w, struct forge_error *error)
{
    (void)g;
    return gpu_launch_decode(w->sequence, w->from, w->to, error);
}

static void **part_graph(struct gpu *r, const struct gpu_work *w) { return &w->graphs[r->rank]; }

static struct gpu_work work_of(struct forge_sequence *q, struct part *p)
{
    return (struct gpu_work){ .put = part_put, .graph = part_graph, .sequence = q, .from = p->from, .to = p->to, .graphs = p->graphs };
}

static enum forge_status part_make(struct gpu *g, struct forge_sequence *q, struct part *p, struct forge_error *error)
{
    const struct gpu_work work = work_of(q, p);
    return p->from == p->to ? FORGE_OK : gpu_make(g, &work, q->engine->plain_launches, error);
}

static enum forge_status part_run(struct gpu *g, struct forge_sequence *q, struct part *p, struct forge_error *error)
{
    const struct gpu_work work = work_of(q, p);
    return p->from == p->to ? FORGE_OK : gpu_put(g, &work, q->engine->plain_launches, error);
}

static void part_free(struct gpu *g, struct part *p)
{
    for (struct gpu *r = g; r && !gpu_is_lost(g); r = r->next)
        if (gpu_turn_to(r, NULL) == FORGE_OK) device_graph_free(&r->device, p->graphs[r->rank]);
    memset(p->graphs, 0, sizeof p->graphs);
}

/* Sorts x. */
static double median(double *x, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const double moved = x[i];
        uint32_t to = i;
        for (; to > 0 && x[to - 1] > moved; to--) x[to] = x[to - 1];
        x[to] = moved;
    }
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* The state that both ways of measuring use. */
struct clock {
    struct gpu *g, *on;                          /* the first GPU, and the GPU that has the clocks */
    struct forge_sequence *q;
    const int32_t *tokens;
    struct forge_timings *timings;
    void   **events;                             /* [n_events] */
    double  *seconds;                            /* [n_events] */
    uint32_t n_events;
    double   seconds_before;                     /* prefill: the launches so far */
    bool     draws;                              /* decode: the draw is the last launch, so it advances the steps */
};

static void clock_close(struct clock *c)
{
    if (c->on && gpu_turn_to(c->on, NULL) == FORGE_OK)
        for (uint32_t i = 0; i < c->n_events; i++) device_event_free(&c->on->device, c->events[i]);
    c->n_events = 0;
}

/* Provides n events on GPU `on`. */
static enum forge_status clock_open(struct clock *c, struct gpu *on, uint32_t n, struct forge_error *error)
{
    if (c->on != on) clock_close(c);
    c->on = on;
    TRY(gpu_turn_to(on, error));
    for (; c->n_events < n; c->n_events++) TRY(device_event(&on->device, &c->events[c->n_events], error));
    return FORGE_OK;
}

static enum forge_status record(const struct clock *c, uint32_t i, struct forge_error *error)
{
    TRY(gpu_said(c->on, gpu_turn_to(c->on, error)));
    return gpu_said(c->on, device_record(&c->on->device, c->events[i], error));
}

static enum forge_status between(const struct clock *c, uint32_t from, double *seconds, struct forge_error *error)
{
    TRY(gpu_turn_to(c->on, error));
    return device_seconds(&c->on->device, c->events[from], c->events[from + 1], seconds, error);
}

/* ---- decode ---- */

/* If the previous step had a draw, it has already set the parameters of this step. */
static enum forge_status next_step(const struct clock *c, uint32_t run, struct forge_error *error)
{
    if (run > 0 && (c->draws || !c->g->next)) return FORGE_OK;
    return gpu_upload_step(c->q, c->q->n_past, c->tokens + c->q->n_past, 1, 1, 0, error);
}

/* Records that one more step is on the streams, with a draw that nobody reads. */
static void step_put(const struct clock *c)
{
    struct gpu *g = c->g;
    g->collective_base += g->decode_collectives + (c->draws ? g->draw_collectives : 0);
    g->queued += c->draws;
    g->seen = g->queued;
}

/* Runs whole steps and measures their first part: the median. */
static enum forge_status time_parts(struct clock *c, struct part *first, struct part *rest, uint32_t runs, double *seconds,
                                    struct forge_error *error)
{
    for (uint32_t i = 0; i < runs; i++) {
        TRY(next_step(c, i, error));
        TRY(record(c, 2 * i, error));
        TRY(part_run(c->g, c->q, first, error));
        TRY(record(c, 2 * i + 1, error));
        TRY(part_run(c->g, c->q, rest, error));
        step_put(c);
    }
    TRY(gpu_wait_all(c->g, error));
    for (uint32_t i = 1; i < runs; i++) TRY(between(c, 2 * i, &c->seconds[i], error));     /* the first run waits for the host */
    *seconds = median(c->seconds + 1, runs - 1);
    return FORGE_OK;
}

/* Runs steps one after the other, as in use. */
static enum forge_status time_steps(struct clock *c, uint32_t runs, double *seconds, struct forge_error *error)
{
    struct gpu *g = c->g;
    struct part all = { .from = 0, .to = c->timings->n };
    enum forge_status status = part_make(g, c->q, &all, error);
    for (uint32_t i = 0; i < runs && status == FORGE_OK; i++) {
        status = next_step(c, i, error);
        if (status == FORGE_OK) status = part_run(g, c->q, &all, error);
        if (i == 0 && status == FORGE_OK) status = record(c, 0, error);
        step_put(c);
    }
    if (status == FORGE_OK) status = record(c, 1, error);
    if (status == FORGE_OK) status = gpu_wait_all(g, error);
    if (status == FORGE_OK) status = between(c, 0, seconds, error);
    *seconds /= runs - 1;
    part_free(g, &all);
    return status;
}

/* Number of launch i of a step of n tokens. */
static uint32_t number_of(const struct clock *c, uint32_t n, uint32_t i) { return cost_launches(c->g->program->gpu, n).number + i; }

static enum forge_status time_cut(struct clock *c, uint32_t cut, uint32_t runs, double *seconds, struct forge_error *error)
{
    TRY(clock_open(c, gpu_owner(c->g, number_of(c, 1, cut > 0 ? cut - 1 : 0)), 2 * runs, error));
    struct part first = { .from = 0, .to = cut }, rest = { .from = cut, .to = c->timings->n };
    enum forge_status status = part_make(c->g, c->q, &first, error);
    if (status == FORGE_OK) status = part_make(c->g, c->q, &rest, error);
    if (status == FORGE_OK) status = time_parts(c, &first, &rest, runs, seconds, error);
    part_free(c->g, &first);
    part_free(c->g, &rest);
    return status;
}

/* The number of runs: one more than are counted. */
static uint32_t runs_of(const struct forge_timings *timings, uint32_t steps, uint32_t room)
{
    const double fit = timings->least_seconds / (timings->step * (timings->n + 1));
    const uint32_t fitting = fit < (double)RUNS_MOST ? (uint32_t)fit : RUNS_MOST, wanted = steps > 0 ? steps + 1 : fitting,
                   most = steps > 0 ? timings->n_clocks / 2 : RUNS_MOST,
                   runs = wanted < RUNS_LEAST ? RUNS_LEAST : wanted < most ? wanted : most;
    return runs < room ? runs : room;
}

/* Identifies the kernel of a launch among all ranks. */
static uint32_t kernel_at(const struct clock *c, uint32_t launch)
{
    const uint32_t number = number_of(c, 1, launch);
    const struct gpu *r = gpu_owner(c->g, number);
    return r->rank << 16 | gpu_launch_numbered(r->program->gpu, number)->kernel;
}

/* Only the first `each` launches of a kernel are measured. */
static bool is_measured(const struct clock *c, uint32_t launch)
{
    uint32_t before = 0;
    if (c->timings->each == 0) return true;
    for (uint32_t i = 0; i < launch; i++) before += kernel_at(c, i) == kernel_at(c, launch);
    return before < c->timings->each;
}

static double mean_of_kernel(const struct clock *c, uint32_t launch)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < launch && n < c->timings->each; i++) {
        if (kernel_at(c, i) != kernel_at(c, launch)) continue;
        sum += c->timings->launches[i].work;
        n++;
    }
    return sum / n;
}

static enum forge_status decode_timings(struct clock *c, uint32_t steps, struct forge_error *error)
{
    const struct forge_engine *e = c->q->engine;
    struct forge_timings *timings = c->timings;
    const uint32_t room = c->draws ? e->n_ctx - c->q->n_past : UINT32_MAX;
    if (room < RUNS_LEAST) return error_set(error, FORGE_TOO_LONG, "%u tokens after %u do not fit: the context holds %u", RUNS_LEAST,
                                            c->q->n_past, e->n_ctx);
    TRY(clock_open(c, c->g, 2, error));
    for (uint32_t i = 0; i < 2; i++)             /* the first warms up */
        TRY(time_steps(c, room < STEP_RUNS ? room : STEP_RUNS, &timings->step, error));
    const uint32_t runs = runs_of(timings, steps, room);
    double before = 0;
    uint32_t cut = UINT32_MAX;                   /* the cut that `before` belongs to */
    for (uint32_t i = 0; i < timings->n; i++) {
        double now = 0;
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        if (!is_measured(c, i)) continue;
        if (cut != i) TRY(time_cut(c, i, runs, &before, error));
        TRY(time_cut(c, i + 1, runs, &now, error));
        timings->took(timings, i, now - before);
        before = now;
        cut = i + 1;
    }
    for (uint32_t i = 0; i < timings->n; i++) if (!is_measured(c, i)) timings->took(timings, i, mean_of_kernel(c, i));
    timings->n_steps = runs - 1;
    return FORGE_OK;
}

/* ---- prefill ---- */

/* Records one event before launch `begin`, then one after each launch up to `to` - 1, or only after launch `to` - 1. */
static enum forge_status run_prefill(struct clock *c, uint32_t n, uint32_t begin, uint32_t from, uint32_t to, bool each,
                                     struct forge_error *error)
{
    struct gpu *g = c->g;
    const struct cost_launches all = cost_launches(g->program->gpu, n);
    const uint32_t n_rows = c->timings->n_rows;
    TRY(gpu_upload_step(c->q, c->q->n_past, c->tokens + c->q->n_past, n, n_rows, 0, error));
    for (uint32_t i = 0; i < all.n; i++) {
        if (i == begin) TRY(record(c, 0, error));
        TRY(gpu_launch(c->q, all.number + i, n, n_rows, false, error));
        if (i >= from && i < to && (each || i + 1 == to)) TRY(record(c, each ? i - from + 1 : 1, error));
    }
    g->collective_base += gpu_collectives_of(all.list, all.n, n, n_rows);
    return gpu_wait_all(g, error);
}

/* first: `from` is the first launch of its GPU, which waits for the previous GPUs. */
static enum forge_status clock_prefill(struct clock *c, uint32_t n, uint32_t from, uint32_t to, bool first, struct forge_error *error)
{
    const double earlier = first ? c->seconds_before : 0;
    TRY(run_prefill(c, n, first ? 0 : from, from, to, true, error));
    for (uint32_t i = from; i < to; i++) {
        double seconds;
        TRY(between(c, i - from, &seconds, error));
        if (i == from) seconds = seconds > earlier ? seconds - earlier : 0;
        c->seconds_before += seconds;
        c->timings->took(c->timings, i, seconds / (double)PREFILL_RUNS);
    }
    return FORGE_OK;
}

/* Measures as many launches at once as there are events, in as many steps as needed; each pipeline stage with its own clocks. */
static enum forge_status clock_each(struct clock *c, uint32_t n, struct forge_error *error)
{
    const struct forge_timings *timings = c->timings;
    const uint32_t most = timings->n_clocks - 1;
    c->seconds_before = 0;
    for (uint32_t from = 0, to; from < timings->n; from = to) {
        struct gpu *on = gpu_owner(c->g, number_of(c, n, from));
        const bool first = from == 0 || gpu_owner(c->g, number_of(c, n, from - 1)) != on;
        for (to = from + 1; to < timings->n && to - from < most && gpu_owner(c->g, number_of(c, n, to)) == on; ) to++;
        TRY(clock_open(c, on, to - from + 1, error));
        TRY(clock_prefill(c, n, from, to, first, error));
    }
    return FORGE_OK;
}

static enum forge_status prefill_timings(struct clock *c, uint32_t n, struct forge_error *error)
{
    double plain[PREFILL_RUNS];
    struct forge_timings *timings = c->timings;
    TRY(clock_open(c, gpu_with_logits(c->g), 2, error));
    TRY(run_prefill(c, n, 0, 0, timings->n, false, error));
    for (uint32_t r = 0; r < PREFILL_RUNS; r++) {
        if (c->q->engine->stop && *c->q->engine->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        TRY(clock_open(c, gpu_with_logits(c->g), 2, error));
        TRY(run_prefill(c, n, 0, 0, timings->n, false, error));
        TRY(between(c, 0, &plain[r], error));
        TRY(clock_each(c, n, error));
    }
    timings->step = median(plain, PREFILL_RUNS);
    timings->n_steps = PREFILL_RUNS;
    return FORGE_OK;
}

static enum forge_status find_spills(const struct clock *c, uint32_t n_tokens, uint32_t launch, uint32_t *bytes, struct forge_error *error)
{
    const uint32_t number = number_of(c, n_tokens, launch);
    struct gpu *r = gpu_owner(c->g, number);
    TRY(gpu_turn_to(r, error));
    return device_spills(&r->device, r->functions[gpu_launch_numbered(r->program->gpu, number)->kernel], bytes, error);
}

enum forge_status gpu_timings(struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_timings *timings,
                              struct forge_error *error)
{
    struct clock c = { .g = q->engine->gpu, .q = q, .tokens = tokens, .timings = timings, .events = timings->events,
                       .seconds = timings->seconds };
    enum forge_status status = device_current(&c.g->device, error);
    c.draws = n == 1 && timings->n > c.g->program->gpu->n_decode;
    c.g->run = NULL;
    c.g->last = NULL;
    if (status == FORGE_OK) status = n == 1 ? decode_timings(&c, steps, error) : prefill_timings(&c, n, error);
    clock_close(&c);
    for (uint32_t i = 0; timings->launches && i < timings->n && status == FORGE_OK; i++)
        status = find_spills(&c, n, i, &timings->launches[i].spills, error);
    gpu_turn_to(c.g, NULL);
    return gpu_with_launch(c.g, status, error);
}
