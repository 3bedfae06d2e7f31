/* timing.c -- see timing.h.  On a CPU, steps with and without clocks alternate. */
#include "timing.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "runtime/device/gpu.h"
#include "runtime/model/cost.h"
#include "sample.h"

/* MOVES_MOST: decode continues for this many positions before it starts again; STEPS_MOST: the largest --profile -n on a GPU. */
enum { STEPS_LEAST = 3, MOVES_MOST = 64, STEPS_MOST = 512 };
static const double DISTURBED = 2;               /* a step is disturbed if it takes this many times as long as usual */

static enum forge_status back_to(struct forge_sequence *q, const int32_t *tokens, uint32_t depth, float *logits, struct forge_error *error)
{
    if (q->n_past != depth && !sequence_rewind(q, depth)) TRY(sequence_reset(q, error));
    return q->n_past < depth ? forge_step(q, tokens + q->n_past, depth - q->n_past, 0, logits, error) : FORGE_OK;
}

/* CPU: measures steps of n tokens after position `depth`. */
struct course {
    struct forge_sequence *q;
    const int32_t *tokens;
    float   *logits;
    uint32_t n, depth, moves;
    struct forge_clocks clocks;                  /* of the steps that count */
    uint64_t *sums, *before;                     /* [n_sums]: the sums of the clocks, and their values before a step */
    size_t   n_sums;
    double   limit;                              /* a step that takes more seconds does not count */
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

/* The first steps find the limit for the others from their median, which one disturbed step does not change. */
static enum forge_status course_warm(struct course *c, struct forge_error *error)
{
    double x[3];
    for (uint32_t i = 0; i < 3; i++) TRY(course_step(c, false, &x[i], error));
    const double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    c->limit = DISTURBED * (x[2] < low ? low : x[2] > high ? high : x[2]);
    return FORGE_OK;
}

/* Alternates steps with and without clocks.  A step that was held up by something else on the machine does not count, unless most steps
 * were. */
static enum forge_status run_steps(struct course *c, struct forge_timings *timings, uint32_t steps, struct forge_error *error)
{
    double spent = 0;
    uint32_t plain = 0, clocked = 0, runs = 0;
    TRY(course_warm(c, error));
    for (const double begin = seconds_now(); plain > clocked || (steps > 0 ? clocked < steps : clocked < STEPS_LEAST ||
         seconds_now() - begin < 2 * timings->least_seconds); runs++) {
        const bool clock = plain > clocked;
        double seconds;
        memcpy(c->before, c->sums, c->n_sums * sizeof *c->sums);
        TRY(course_step(c, clock, &seconds, error));
        if (seconds > c->limit && runs < 2 * (2 * plain + STEPS_LEAST)) memcpy(c->sums, c->before, c->n_sums * sizeof *c->sums);
        else if (clock) clocked++;
        else plain++, spent += seconds;
    }
    timings->n_steps = clocked;
    timings->step = spent / plain;
    return FORGE_OK;
}

static enum forge_status cpu_timings(struct forge_timings *timings, struct forge_sequence *q, const int32_t *tokens, uint32_t n,
                                     uint32_t steps, float *logits, struct forge_error *error)
{
    const size_t count = (size_t)timings->n_threads * timings->n;
    const uint32_t room = q->engine->n_ctx - q->n_past, moves = n > 1 ? 0 : room <= MOVES_MOST ? room - 1 : MOVES_MOST;
    uint64_t *const sums = calloc(4 * count + 1, sizeof *sums);
    if (!sums) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    struct course c = { .q = q, .tokens = tokens, .logits = logits, .n = n, .depth = q->n_past, .moves = moves,
                        .clocks = { sums, sums + count, timings->n }, .sums = sums, .before = sums + 2 * count, .n_sums = 2 * count };
    const enum forge_status status = run_steps(&c, timings, steps, error);
    for (size_t i = 0; i < count && status == FORGE_OK; i++) {
        struct forge_timing *launch = &timings->launches[i % timings->n], *thread = &timings->threads[i / timings->n];
        const double work = 1e-9 * (double)c.clocks.work[i] / timings->n_steps, wait = 1e-9 * (double)c.clocks.wait[i] / timings->n_steps;
        launch->work += work / timings->n_threads;
        launch->wait += wait / timings->n_threads;
        thread->work += work;
        thread->wait += wait;
    }
    free(sums);
    return status;
}

/* Draws one token, which leaves sampling options on the device. */
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

static void took(struct forge_timings *timings, uint32_t i, double seconds) { timings->launches[i].work += seconds; }

static enum forge_status device_timings(struct forge_timings *timings, struct forge_sequence *q, const int32_t *tokens, uint32_t n,
                                        uint32_t steps, float *logits, struct forge_error *error)
{
    const uint32_t most = timings->n + 1 > 2 * STEPS_MOST ? timings->n + 1 : 2 * STEPS_MOST;
    timings->events = calloc(most, sizeof *timings->events);
    timings->seconds = calloc(most, sizeof *timings->seconds);
    timings->n_clocks = most;
    timings->took = took;
    if (!timings->events || !timings->seconds) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    if (n == 1) TRY(draw_one(q, tokens, logits, error));
    return q->engine->program->gpu->runtime->timings(q, tokens, n, steps, timings, error);
}

enum forge_status timings_take(struct forge_timings *timings, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                               float *logits, struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const struct forge_program *p = e->program;
    *timings = (struct forge_timings){ .n_threads = p->gpu ? 0 : pool_threads(e->pool), .n_rows = 1, .each = timings->each,
                                        .least_seconds = timings->least_seconds };
    timings->n = p->gpu ? cost_launches(p->gpu, n).n + (n == 1) : step_launches(p, n).n;
    timings->launches = calloc(timings->n + 1, sizeof *timings->launches);
    timings->threads = calloc(timings->n_threads + 1, sizeof *timings->threads);
    if (!timings->launches || !timings->threads) return error_set(error, FORGE_NO_MEMORY, "out of memory for the clocks");
    return p->gpu ? device_timings(timings, q, tokens, n, steps, logits, error) : cpu_timings(timings, q, tokens, n, steps, logits, error);
}

void timings_free(struct forge_timings *timings)
{
    free(timings->launches);
    free(timings->threads);
    free(timings->events);
    free(timings->seconds);
}
