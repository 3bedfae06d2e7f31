/* laps.c -- see laps.h.  On a CPU steps with and without clocks take turns. */
#include "laps.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "runtime/device/gpu.h"
#include "sample.h"

/* MOVES_MOST: decode goes on for so many positions before it begins again; STEPS_MOST: the most that --profile -n gets on a GPU. */
enum { STEPS_LEAST = 3, MOVES_MOST = 64, STEPS_MOST = 512 };

static enum forge_status back_to(struct forge_sequence *q, const int32_t *tokens, uint32_t depth, float *logits, struct forge_error *error)
{
    if (q->n_past != depth && !sequence_rewind(q, depth)) TRY(sequence_reset(q, error));
    return q->n_past < depth ? forge_step(q, tokens + q->n_past, depth - q->n_past, 0, logits, error) : FORGE_OK;
}

/* Both ways in turn. */
static enum forge_status run_steps(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                                   const struct forge_clocks *clocks, float *logits, struct forge_error *error)
{
    struct forge_engine *e = q->engine;
    const uint32_t depth = q->n_past, room = e->n_ctx - depth, moves = n > 1 ? 0 : room < MOVES_MOST ? room - 1 : MOVES_MOST;
    const double begin = seconds_now();
    double spent = 0;
    uint32_t runs = 0;
    for (;; runs++) {
        const uint32_t each = runs / 2;          /* one of which warms up */
        const bool enough = steps > 0 ? each > steps : each > STEPS_LEAST && seconds_now() - begin > 2 * LAPS_SECONDS;
        if (enough && !(runs & 1)) break;
        const bool warming = runs < 2;
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        if (q->n_past > depth + moves || (n > 1 && q->n_past > depth)) TRY(back_to(q, tokens, depth, logits, error));
        e->clocks = runs & 1 && !warming ? clocks : NULL;
        const double start = seconds_now();
        TRY(forge_step(q, tokens + q->n_past, n, 1, logits, error));
        if (!e->clocks && !warming) spent += seconds_now() - start;
    }
    laps->n_steps = (runs - 2) / 2;
    laps->step = spent / laps->n_steps;
    return FORGE_OK;
}

static enum forge_status cpu_laps(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                                  float *logits, struct forge_error *error)
{
    struct forge_engine *e = q->engine;
    const size_t count = (size_t)laps->n_threads * laps->n;
    struct forge_clocks clocks = { calloc(count + 1, sizeof *clocks.work), calloc(count + 1, sizeof *clocks.wait), laps->n };
    enum forge_status status = FORGE_OK;
    if (!clocks.work || !clocks.wait) status = error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    else status = run_steps(laps, q, tokens, n, steps, &clocks, logits, error);
    e->clocks = NULL;
    for (size_t i = 0; i < count && status == FORGE_OK; i++) {
        struct forge_lap *launch = &laps->launches[i % laps->n], *thread = &laps->threads[i / laps->n];
        const double work = 1e-9 * (double)clocks.work[i] / laps->n_steps, wait = 1e-9 * (double)clocks.wait[i] / laps->n_steps;
        launch->work += work / laps->n_threads;
        launch->wait += wait / laps->n_threads;
        thread->work += work;
        thread->wait += wait;
    }
    free(clocks.work);
    free(clocks.wait);
    return status;
}

/* A draw tells the device how to draw. */
static enum forge_status draw_one(struct forge_sequence *q, const int32_t *tokens, float *logits, struct forge_error *error)
{
    static const struct forge_sample_options greedy = { .top_p = 1, .repeat_penalty = 1 };
    const struct forge_random random = { { 1, 2, 3, 4 } };
    const uint32_t depth = q->n_past;
    int32_t token;
    TRY(engine_draw_begin(q, &greedy, &random, tokens[depth], 1, true, error));
    TRY(engine_draw_next(q, &token, error));
    return back_to(q, tokens, depth, logits, error);
}

static void took(struct forge_laps *laps, uint32_t i, double seconds) { laps->launches[i].work += seconds; }

static enum forge_status device_laps(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                                     float *logits, struct forge_error *error)
{
    const uint32_t most = laps->n + 1 > 2 * STEPS_MOST ? laps->n + 1 : 2 * STEPS_MOST;
    laps->events = calloc(most, sizeof *laps->events);
    laps->seconds = calloc(most, sizeof *laps->seconds);
    laps->n_clocks = most;
    laps->took = took;
    if (!laps->events || !laps->seconds) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    if (n == 1) TRY(draw_one(q, tokens, logits, error));
    return q->engine->program->gpu->runtime->laps(q, tokens, n, steps, laps, error);
}

enum forge_status laps_take(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                            float *logits, struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const struct forge_program *p = e->program;
    *laps = (struct forge_laps){ .n_threads = p->gpu ? 0 : pool_threads(e->pool), .n_rows = 1 };
    laps->n = p->gpu ? n == 1 ? p->gpu->n_decode + 1 : p->gpu->n_prefill : n == 1 ? p->n_decode : p->n_prefill;
    laps->launches = calloc(laps->n + 1, sizeof *laps->launches);
    laps->threads = calloc(laps->n_threads + 1, sizeof *laps->threads);
    if (!laps->launches || !laps->threads) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    return p->gpu ? device_laps(laps, q, tokens, n, steps, logits, error) : cpu_laps(laps, q, tokens, n, steps, logits, error);
}

void laps_free(struct forge_laps *laps)
{
    free(laps->launches);
    free(laps->threads);
    free(laps->events);
    free(laps->seconds);
}
