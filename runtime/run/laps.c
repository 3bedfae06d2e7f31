/* laps.c -- see laps.h.  On a CPU steps with and without clocks take turns. */
#include "laps.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "runtime/device/gpu.h"
#include "runtime/model/cost.h"
#include "sample.h"

/* MOVES_MOST: decode goes on for so many positions before it begins again; STEPS_MOST: the most that --profile -n gets on a GPU. */
enum { STEPS_LEAST = 3, MOVES_MOST = 64, STEPS_MOST = 512 };
static const double DISTURBED = 2;               /* times as long as it should */

static enum forge_status back_to(struct forge_sequence *q, const int32_t *tokens, uint32_t depth, float *logits, struct forge_error *error)
{
    if (q->n_past != depth && !sequence_rewind(q, depth)) TRY(sequence_reset(q, error));
    return q->n_past < depth ? forge_step(q, tokens + q->n_past, depth - q->n_past, 0, logits, error) : FORGE_OK;
}

/* CPU: a measurement of steps of n tokens behind depth. */
struct course {
    struct forge_sequence *q;
    const int32_t *tokens;
    float   *logits;
    uint32_t n, depth, moves;
    struct forge_clocks clocks;                  /* of the steps that count */
    uint64_t *sums, *before;                     /* [n_sums]: those of the clocks, and as they were before a step */
    size_t   n_sums;
    double   limit;                              /* seconds of a step that counts */
};

static enum forge_status course_step(struct course *c, bool clocked, double *seconds, struct forge_error *error)
{
    struct forge_engine *e = c->q->engine;
    if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
    if (c->q->n_past > c->depth + c->moves) TRY(back_to(c->q, c->tokens, c->depth, c->logits, error));
    e->clocks = clocked ? &c->clocks : NULL;
    const double start = seconds_now();
    const enum forge_status status = forge_step(c->q, c->tokens + c->q->n_past, c->n, 1, c->logits, error);
    *seconds = seconds_now() - start;
    e->clocks = NULL;
    return status;
}

/* The first steps find what others are held against: their median, which one of them that is disturbed does not change. */
static enum forge_status course_warm(struct course *c, struct forge_error *error)
{
    double x[3];
    for (uint32_t i = 0; i < 3; i++) TRY(course_step(c, false, &x[i], error));
    const double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    c->limit = DISTURBED * (x[2] < low ? low : x[2] > high ? high : x[2]);
    return FORGE_OK;
}

/* Both ways in turn.  A step that something else on the machine has held up does not count, unless most are. */
static enum forge_status run_steps(struct course *c, struct forge_laps *laps, uint32_t steps, struct forge_error *error)
{
    double spent = 0;
    uint32_t plain = 0, clocked = 0, runs = 0;
    TRY(course_warm(c, error));
    for (const double begin = seconds_now(); plain > clocked || (steps > 0 ? clocked < steps : clocked < STEPS_LEAST ||
         seconds_now() - begin < 2 * LAPS_SECONDS); runs++) {
        const bool clock = plain > clocked;
        double seconds;
        memcpy(c->before, c->sums, c->n_sums * sizeof *c->sums);
        TRY(course_step(c, clock, &seconds, error));
        if (seconds > c->limit && runs < 2 * (2 * plain + STEPS_LEAST)) memcpy(c->sums, c->before, c->n_sums * sizeof *c->sums);
        else if (clock) clocked++;
        else plain++, spent += seconds;
    }
    laps->n_steps = clocked;
    laps->step = spent / plain;
    return FORGE_OK;
}

static enum forge_status cpu_laps(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                                  float *logits, struct forge_error *error)
{
    const size_t count = (size_t)laps->n_threads * laps->n;
    const uint32_t room = q->engine->n_ctx - q->n_past, moves = n > 1 ? 0 : room <= MOVES_MOST ? room - 1 : MOVES_MOST;
    uint64_t *const sums = calloc(4 * count + 1, sizeof *sums);
    if (!sums) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    struct course c = { .q = q, .tokens = tokens, .logits = logits, .n = n, .depth = q->n_past, .moves = moves,
                        .clocks = { sums, sums + count, laps->n }, .sums = sums, .before = sums + 2 * count, .n_sums = 2 * count };
    const enum forge_status status = run_steps(&c, laps, steps, error);
    for (size_t i = 0; i < count && status == FORGE_OK; i++) {
        struct forge_lap *launch = &laps->launches[i % laps->n], *thread = &laps->threads[i / laps->n];
        const double work = 1e-9 * (double)c.clocks.work[i] / laps->n_steps, wait = 1e-9 * (double)c.clocks.wait[i] / laps->n_steps;
        launch->work += work / laps->n_threads;
        launch->wait += wait / laps->n_threads;
        thread->work += work;
        thread->wait += wait;
    }
    free(sums);
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
    *laps = (struct forge_laps){ .n_threads = p->gpu ? 0 : pool_threads(e->pool), .n_rows = 1, .each = laps->each };
    laps->n = p->gpu ? cost_launches(p->gpu, n).n + (n == 1) : step_launches(p, n).n;
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
