/* sequences.c -- sequences of one program, and engines of one process, are independent: for any order, batch, fork or step back, each
 * sequence has the logits of a run alone, bit for bit.  If several share a step on a CPU, the logits are only near, because prefill's
 * kernels add in another order than decode's.  Usage: sequences [THREADS [WEIGHTS]]; linked with a program instead of its main(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/model/state.h"
#include "runtime/run/guide.h"
#include "runtime/run/session.h"

#ifndef STEPS
#define STEPS 12                                  /* 6 or more */
#endif
enum { N = 8 };

static struct forge_error error;
static float *truth[N][STEPS + 1], *logits[N];           /* [n_vocab]: after the prompt and after each token */
static int32_t tokens[N][STEPS];
static uint32_t n_vocab, checks;

static void must(enum forge_status status, enum forge_status wanted, const char *what)
{
    checks++;
    if (status == wanted) return;
    printf("sequences: %s: status %d, not %d: %s\n", what, (int)status, (int)wanted, error.text);
    exit(1);
}

static void same(const float *got, const float *want, const char *what, uint32_t q, uint32_t step)
{
    checks++;
    if (memcmp(got, want, n_vocab * sizeof *got) == 0) return;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
            printf("sequences: %s: sequence %u, step %u: logit %u is %.9g, alone %.9g\n", what, q, step, i, (double)got[i],
                   (double)want[i]);
            exit(1);
        }
}

/* tolerance: relative to the largest logit; a wrong state, position or neighbour changes logits far more. */
static void near(const float *got, const float *want, float tolerance, const char *what, uint32_t q, uint32_t step)
{
    float most = 0;
    checks++;
    for (uint32_t i = 0; i < n_vocab; i++) most = fmaxf(most, fabsf(want[i]));
    for (uint32_t i = 0; i < n_vocab; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance * most)) {
            printf("sequences: %s: sequence %u, step %u: logit %u is %.9g, alone %.9g, the largest %.9g\n", what, q, step, i,
                   (double)got[i], (double)want[i], (double)most);
            exit(1);
        }
}

static void *take(size_t bytes)
{
    void *p = malloc(bytes);
    if (p) return p;
    printf("sequences: out of memory\n");
    exit(2);
}

static void prompt(struct forge_sequence *q, uint32_t k, float *to)
{
    int32_t ids[3 + 2 * N];
    const uint32_t n = 3 + 2 * k;
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)((i * 7 + k * 13 + 1) % n_vocab);
    must(forge_step(q, ids, n, 1, to, &error), FORGE_OK, "prompt");
}

static void alone(struct forge_engine *e, uint32_t k)
{
    struct forge_sequence *q;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    for (uint32_t s = 0; s <= STEPS; s++) truth[k][s] = take(n_vocab * sizeof(float));
    prompt(q, k, truth[k][0]);
    for (uint32_t s = 0; s < STEPS; s++) {
        tokens[k][s] = argmax(truth[k][s], n_vocab);
        must(forge_step(q, &tokens[k][s], 1, 1, truth[k][s + 1], &error), FORGE_OK, "step");
    }
    sequence_close(q);
}

static void open_all(struct forge_engine *e, struct forge_sequence *q[N])
{
    for (uint32_t k = 0; k < N; k++) {
        must(sequence_open(&q[k], e, &error), FORGE_OK, "opening");
        prompt(q[k], k, logits[k]);
        same(logits[k], truth[k][0], "prompts one after the other", k, 0);
    }
}

static void close_all(struct forge_sequence *q[N])
{
    for (uint32_t k = 0; k < N; k++) sequence_close(q[k]);
}

/* The sequences take their steps in batches of n; the first sequence of a batch changes every time.  Some steps do not ask for logits, and
 * the first step of each sequence never does. */
static void batches(struct forge_engine *e, uint32_t n)
{
    struct forge_sequence *q[N];
    open_all(e, q);
    uint32_t done[N] = { 0 };
    const bool exact = e->program->gpu || n == 1 || e->program->n_columns == 0;
    for (uint32_t at = 0; at < N * STEPS; at += n) {
        struct forge_column columns[N];
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t k = (at + i) % N;
            columns[i] = (struct forge_column){ .sequence = q[k], .token = tokens[k][done[k]] };
            if (done[k] > 0 && (k + done[k]) % 3 > 0) columns[i].logits = logits[k];
        }
        must(engine_step(e, columns, n, &error), FORGE_OK, "a batch");
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t k = (at + i) % N;
            done[k]++;
            if (!columns[i].logits) continue;
            if (exact) same(logits[k], truth[k][done[k]], "batches", k, done[k]);
            else near(logits[k], truth[k][done[k]], 0.02f, "batches", k, done[k]);
        }
    }
    close_all(q);
}

static void go_on(struct forge_sequence *q, uint32_t k, uint32_t from, const char *what)
{
    for (uint32_t s = from; s < STEPS; s++) {
        must(forge_step(q, &tokens[k][s], 1, 1, logits[k], &error), FORGE_OK, what);
        same(logits[k], truth[k][s + 1], what, k, s + 1);
    }
}

static void forks(struct forge_engine *e)
{
    struct forge_sequence *q, *fork, *other;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    must(sequence_open(&fork, e, &error), FORGE_OK, "opening");
    must(sequence_open(&other, e, &error), FORGE_OK, "opening");
    prompt(q, 2, logits[2]);
    prompt(fork, 5, logits[5]);                                  /* to be forgotten */
    prompt(other, 3, logits[3]);
    for (uint32_t s = 0; s < 5; s++) must(forge_step(q, &tokens[2][s], 1, 0, logits[2], &error), FORGE_OK, "step");
    must(sequence_copy(fork, q, &error), FORGE_OK, "a fork");
    go_on(q, 2, 5, "the sequence that was forked");
    go_on(other, 3, 0, "its neighbour");
    go_on(fork, 2, 5, "the fork");
    const uint32_t n_prompt = 3 + 2 * 2;
    if (state_rewinds(e->program, fork->n_written, fork->n_past, n_prompt)) {
        must(sequence_rewind(fork, n_prompt) ? FORGE_OK : FORGE_FAILED, FORGE_OK, "a step back");
        go_on(fork, 2, 0, "after a step back");
    }
    must(sequence_rewind(fork, fork->n_past + 1) ? FORGE_OK : FORGE_USAGE, FORGE_USAGE, "a step forward");
    must(sequence_reset(fork, &error), FORGE_OK, "a reset");
    prompt(fork, 4, logits[4]);
    go_on(fork, 4, 0, "after a reset");
    sequence_close(q);
    sequence_close(fork);
    sequence_close(other);
}

static void refusals(struct forge_engine *e)
{
    struct forge_sequence *q[N + 1], *more;
    for (uint32_t k = 0; k <= N; k++) must(sequence_open(&q[k], e, &error), FORGE_OK, "opening");
    must(sequence_open(&more, e, &error), FORGE_TOO_LONG, "one sequence too many");
    struct forge_column columns[N + 1];
    for (uint32_t k = 0; k <= N; k++) columns[k] = (struct forge_column){ .sequence = q[k], .token = 1 };
    must(engine_step(e, columns, N + 1, &error), FORGE_USAGE, "a column too many");
    columns[1].sequence = q[0];
    must(engine_step(e, columns, 2, &error), FORGE_USAGE, "a sequence twice");
    must(engine_step(e, columns, 0, &error), FORGE_OK, "no columns");
    for (uint32_t k = 0; k <= N; k++) sequence_close(q[k]);
}

static const struct forge_sample_options greedy = { .top_p = 1, .repeat_penalty = 1 };
static const struct forge_random no_random = { { 1, 2, 3, 4 } };

/* Draws the first n tokens of sequence k after its prompt. */
static void draw(struct forge_sequence *q, uint32_t k, uint32_t n, bool last)
{
    int32_t token;
    must(engine_draw_begin(q, &greedy, &no_random, -1, STEPS, last, &error), FORGE_OK, "drawing");
    for (uint32_t s = 0; s < n; s++) {
        must(engine_draw_next(q, &token, &error), FORGE_OK, "drawing");
        must(token == tokens[k][s] && q->n_past == 3 + 2 * k + s ? FORGE_OK : FORGE_FAILED, FORGE_OK, "a token drawn");
    }
}

/* Steps that were computed ahead leave no trace when a text ends after any number of tokens: the last token drawn is the next to append. */
static void ends(struct forge_engine *e)
{
    for (uint32_t n = 0; n < STEPS; n += 1 + n / 3) {
        struct forge_sequence *q, *copy;
        must(sequence_open(&q, e, &error), FORGE_OK, "opening");
        must(sequence_open(&copy, e, &error), FORGE_OK, "opening");
        prompt(q, 1, logits[1]);
        draw(q, 1, n, false);
        must(sequence_copy(copy, q, &error), FORGE_OK, "copying what draws");
        go_on(q, 1, n > 0 ? n - 1 : 0, "after the end of a text");
        go_on(copy, 1, n > 0 ? n - 1 : 0, "a copy taken there");
        must(engine_draw_next(q, &tokens[1][0], &error), FORGE_FAILED, "a run that the sequence's own step ended");
        sequence_close(q);
        sequence_close(copy);
    }
}

/* After the last text of a sequence: steps may have gone so far ahead that states cannot go back; then everything is refused until a
 * reset. */
static void last_text(struct forge_engine *e)
{
    struct forge_sequence *q, *copy;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    must(sequence_open(&copy, e, &error), FORGE_OK, "opening");
    prompt(q, 1, logits[1]);
    draw(q, 1, 3, true);
    if (state_back(e->program) > 0) go_on(q, 1, 2, "after a last text");
    else {
        const struct forge_column column = { .sequence = q, .token = 1 };
        must(forge_step(q, &tokens[1][2], 1, 0, NULL, &error), FORGE_FAILED, "a step after a last text");
        must(strstr(error.text, "reset the sequence") ? FORGE_OK : FORGE_FAILED, FORGE_OK, "its sentence");
        must(forge_step(q, tokens[1], 3, 0, NULL, &error), FORGE_FAILED, "a prompt behind a last text");
        must(engine_step(e, &column, 1, &error), FORGE_FAILED, "a batch after a last text");
        must(engine_draw_begin(q, &greedy, &no_random, 1, 1, true, &error), FORGE_FAILED, "draws after a last text");
        must(sequence_copy(copy, q, &error), FORGE_FAILED, "a copy of it");
        must(sequence_rewind(q, q->n_past) ? FORGE_FAILED : FORGE_OK, FORGE_OK, "a step back in it");
    }
    must(sequence_rewind(q, 0) ? FORGE_OK : FORGE_FAILED, FORGE_OK, "back to the beginning");
    prompt(q, 4, logits[4]);
    go_on(q, 4, 0, "after a last text");
    sequence_close(q);
    sequence_close(copy);
}

/* A run of draws belongs to one sequence and ends with any other step. */
static void draws(struct forge_engine *e)
{
    struct forge_sequence *q, *other;
    int32_t token;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    must(sequence_open(&other, e, &error), FORGE_OK, "opening");
    prompt(q, 1, logits[1]);
    draw(q, 1, 4, false);
    prompt(other, 6, logits[6]);
    same(logits[6], truth[6][0], "after draws of another sequence", 6, 0);
    must(engine_draw_next(q, &token, &error), FORGE_FAILED, "a run that another step ended");
    must(engine_draw_begin(q, &greedy, &no_random, -1, STEPS, false, &error), FORGE_FAILED, "logits that another step replaced");
    must(forge_step(q, &tokens[1][3], 1, 1, logits[1], &error), FORGE_OK, "going on");
    same(logits[1], truth[1][4], "going on after draws", 1, 4);
    must(sequence_reset(q, &error), FORGE_OK, "a reset");
    prompt(q, 1, logits[1]);
    draw(q, 1, 2, false);
    must(sequence_reset(q, &error), FORGE_OK, "a reset");
    must(engine_draw_next(q, &token, &error), FORGE_FAILED, "a run of tokens that are forgotten");
    sequence_close(q);
    sequence_close(other);
}

/* Each of several sequences, with its own options and random numbers, draws the tokens that it draws alone, for any number of sequences in
 * a step. */
static void draws_together(struct forge_engine *e)
{
    static int32_t drawn[N][STEPS];
    struct forge_sample_options options[N];
    struct forge_random random[N];
    struct forge_sequence *q[N];
    open_all(e, q);
    for (uint32_t k = 0; k < N; k++) {
        options[k] = (struct forge_sample_options){ .temp = k % 4 == 3 ? 0 : 0.5f + (float)k, .top_k = 3 * (int32_t)k, .repeat_last_n = 8,
                                                    .top_p = k & 1 ? 0.9f : 1, .repeat_penalty = k & 2 ? 1.3f : 1 };
        random_seed(&random[k], k);
        must(engine_draw_begin(q[k], &options[k], &random[k], tokens[k][0], STEPS - 1, false, &error), FORGE_OK, "drawing alone");
        for (uint32_t s = 1; s < STEPS; s++) must(engine_draw_next(q[k], &drawn[k][s], &error), FORGE_OK, "drawing alone");
        drawn[k][0] = tokens[k][0];
    }
    close_all(q);
    open_all(e, q);
    for (uint32_t s = 1; s < STEPS; s++) {
        const uint32_t n = 1 + (s * 5 + 2) % N;
        for (uint32_t at = 0; at < N; at += n) {
            struct forge_column columns[N];
            const uint32_t part = N - at < n ? N - at : n;
            for (uint32_t i = 0; i < part; i++)
                columns[i] = (struct forge_column){ .sequence = q[at + i], .token = drawn[at + i][s - 1], .options = &options[at + i],
                                                    .random = &random[at + i] };
            must(engine_step_draw(e, columns, part, s % 3 > 0, &error), FORGE_OK, "drawing together");
            for (uint32_t i = 0; i < part; i++) {
                const uint32_t k = at + i;
                if (options[k].temp > 0) random_next(&random[k]);
                checks++;
                if (columns[i].drawn == drawn[k][s]) continue;
                printf("sequences: draws together, %u in a step: sequence %u, token %u is %d, alone %d\n", part, k, s, columns[i].drawn,
                       drawn[k][s]);
                exit(1);
            }
        }
    }
    close_all(q);
}

/* ---- draws by masks ---- */

enum { MASKED = 4 };                                     /* number of sequences */
static uint32_t *masks[MASKED][STEPS];                   /* NULL: any token */
static int32_t masked[MASKED][STEPS];
static struct forge_sampler *samplers[MASKED];

static struct forge_sample_options options_of(uint32_t k)
{
    return (struct forge_sample_options){ .temp = k == 3 ? 0 : 0.7f + (float)k, .top_k = 5 * (int32_t)k, .repeat_last_n = 8,
                                          .top_p = k & 1 ? 0.9f : 1, .repeat_penalty = k & 2 ? 1.3f : 1, .seed = k };
}

static void open_sampler(uint32_t k)
{
    const struct forge_sample_options o = options_of(k);
    must(sampler_open(&samplers[k], &o, n_vocab, 100, &error), FORGE_OK, "a sampler");
    for (uint32_t i = 0; i < 3 + 2 * k; i++) sampler_accept(samplers[k], (int32_t)((i * 7 + k * 13 + 1) % n_vocab));
    sampler_accept(samplers[k], tokens[k][0]);
}

/* Makes masks (of a few tokens, of one, of every second; sequence 2 has none up to step 2) and lets the host draw from the logits. */
static void draw_masked(struct forge_engine *e, uint32_t k)
{
    struct forge_sequence *q;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    prompt(q, k, logits[k]);
    open_sampler(k);
    masked[k][0] = tokens[k][0];
    for (uint32_t s = 1; s < STEPS; s++) {
        must(forge_step(q, &masked[k][s - 1], 1, 1, logits[k], &error), FORGE_OK, "a step");
        if (k != 0 && (k != 2 || s > 2)) {
            uint32_t *bits = masks[k][s] = take((n_vocab + 31) / 32 * sizeof *bits);
            for (uint32_t i = 0; i < n_vocab; i++) {
                const bool may = (s % 3 == 0 ? i % 2 : s % 3 == 1 ? i % 29 == k : i == 17 * k + s) != 0;
                bits[i / 32] = (i % 32 ? bits[i / 32] : 0) | (uint32_t)may << i % 32;
            }
            guide_logits(bits, logits[k], n_vocab);
        }
        masked[k][s] = sampler_draw(samplers[k], logits[k]);
        sampler_accept(samplers[k], masked[k][s]);
    }
    sampler_close(samplers[k]);
    sequence_close(q);
}

/* Step s of the sequences whose bits are set in `of`. */
static void step_masked(struct forge_engine *e, struct forge_sequence *const q[MASKED], uint32_t of, uint32_t s, bool begin, bool more)
{
    struct forge_column c[MASKED];
    struct forge_sample_options options[MASKED];
    uint32_t which[MASKED], n = 0;
    for (uint32_t k = 0; k < MASKED; k++) {
        options[k] = options_of(k);
        if (!(of >> k & 1)) continue;
        c[n] = (struct forge_column){ .sequence = q[k], .token = masked[k][s - 1], .options = &options[k],
                                      .random = sampler_random(samplers[k]), .guided = masks[k][s] };
        which[n++] = k;
    }
    if (begin) must(engine_step_begin(e, c, n, &error), FORGE_OK, "beginning a step");
    for (uint32_t i = 0; i < n; i++) c[i].mask = masks[which[i]][s];
    must(engine_step_draw(e, c, n, more, &error), FORGE_OK, "drawing by masks");
    for (uint32_t i = 0; i < n; i++, checks++) {
        const uint32_t k = which[i];
        if (options[k].temp > 0) random_next(sampler_random(samplers[k]));
        if (c[i].drawn == masked[k][s] && q[k]->n_past == 3 + 2 * k + s) continue;
        printf("sequences: draws by masks: sequence %u of %x, token %u is %d, on the host %d\n", k, of, s, c[i].drawn, masked[k][s]);
        exit(1);
    }
}

/* The draws are the host's, whether or not the engine is told in advance about the next step, and whichever texts end. */
static void draws_masked(struct forge_engine *e)
{
    static const struct { uint32_t of[6]; bool begin, more; } orders[] = {           /* of[s]: the sequences of step s, as bits */
        { { 0, 2, 2, 2, 2, 2 }, true, true },      { { 0, 4, 4, 4, 4, 4 }, true, false }, { { 0, 7, 7, 5, 5, 4 }, true, true },
        { { 0, 14, 14, 14, 6, 2 }, false, true },  { { 0, 15, 15 }, true, true },
    };
    for (uint32_t k = 0; k < MASKED; k++) draw_masked(e, k);
    for (uint32_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct forge_sequence *q[MASKED];
        for (uint32_t k = 0; k < MASKED; k++) {
            must(sequence_open(&q[k], e, &error), FORGE_OK, "opening");
            prompt(q[k], k, logits[k]);
            open_sampler(k);
        }
        uint32_t s = 1;
        for (; s < 6 && orders[i].of[s]; s++) step_masked(e, q, orders[i].of[s], s, orders[i].begin, orders[i].more);
        /* Steps that ran ahead leave no trace. */
        for (uint32_t k = 0; k < MASKED && orders[i].of[s - 1] >> k & 1; k++) {
            struct forge_sequence *copy;
            must(sequence_open(&copy, e, &error), FORGE_OK, "opening");
            must(sequence_copy(copy, q[k], &error), FORGE_OK, "copying what draws");
            must(forge_step(copy, &masked[k][s - 1], 1, 1, logits[0], &error), FORGE_OK, "a copy");
            must(forge_step(q[k], &masked[k][s - 1], 1, 1, logits[1], &error), FORGE_OK, "going on");
            same(logits[0], logits[1], "a copy of what draws by masks", k, s);
            sequence_close(copy);
        }
        for (uint32_t k = 0; k < MASKED; k++) {
            sampler_close(samplers[k]);
            sequence_close(q[k]);
        }
    }
    /* A text that its guide ends draws nothing. */
    struct forge_sequence *q;
    struct forge_random random = no_random;
    must(sequence_open(&q, e, &error), FORGE_OK, "opening");
    prompt(q, 1, logits[1]);
    struct forge_column c = { .sequence = q, .token = tokens[1][0], .options = &greedy, .random = &random, .guided = true };
    must(engine_step_draw(e, &c, 1, true, &error), FORGE_OK, "a draw of nothing");
    must(c.drawn == -1 ? FORGE_OK : FORGE_FAILED, FORGE_OK, "nothing drawn");
    go_on(q, 1, 1, "after a draw of nothing");
    sequence_close(q);
}

/* ---- texts that are interrupted ---- */

static volatile sig_atomic_t stop;
static uint32_t until_stop;                              /* > 0: writes to stdout until a simulated Ctrl-C; they are not shown */

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fd != STDOUT_FILENO || until_stop == 0) return syscall(SYS_write, fd, bytes, n);
    stop = --until_stop == 0;
    return (ssize_t)n;
}

/* When Ctrl-C or a limit ends a text after n tokens, exactly the printed tokens are in the context or pending. */
static void interrupted(struct forge_engine *e, uint32_t n, bool limit)
{
    const struct forge_options options = { .print_tokens = true, .ignore_eos = true, .sample = greedy };
    struct forge_session s;
    enum forge_ending ending;
    const uint32_t n_prompt = 3 + 2 * 4;
    must(session_open(&s, &options, e, &stop, &error), FORGE_OK, "opening a session");
    prompt(s.sequence, 4, s.logits);
    stop = n == 0 && !limit;
    until_stop = limit ? UINT32_MAX : n;
    must(session_generate(&s, limit ? n : STEPS, false, &ending, &error), FORGE_OK, "a text");
    until_stop = 0;
    stop = 0;
    must(ending == (limit ? ENDED_LIMIT : ENDED_INTERRUPT) ? FORGE_OK : FORGE_FAILED, FORGE_OK, "its ending");
    must(s.sequence->n_past + (s.pending >= 0) == n_prompt + n ? FORGE_OK : FORGE_FAILED, FORGE_OK, "the tokens that were printed");
    must(s.pending < 0 || s.pending == tokens[4][n - 1] ? FORGE_OK : FORGE_FAILED, FORGE_OK, "the token pending");
    if (s.pending >= 0) must(forge_step(s.sequence, &s.pending, 1, 0, s.logits, &error), FORGE_OK, "the token pending");
    go_on(s.sequence, 4, n, limit ? "after a limit" : "after Ctrl-C");
    session_close(&s);
}

static struct forge_engine engines[2];

static void open_engine(struct forge_engine *e, uint32_t n_threads, const char *weights)
{
    const struct forge_program *program;
    const struct forge_weights_source source = { .path = weights };
    struct gpu *gpu;
    must(program_choose(&program, &gpu, NULL, NULL, &error), FORGE_OK, "choosing a program");
    must(engine_open(e, program, gpu, &source, n_threads, 0, N + 1, &error), FORGE_OK, "opening an engine");
    e->speculates = program->gpu && program->gpu->most_drafts > 0;
}

int main(int argc, char **argv)
{
    const uint32_t n_threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    const char *weights = argc > 2 ? argv[2] : NULL;
    struct forge_engine *e = &engines[0];
    open_engine(e, n_threads, weights);
    n_vocab = e->program->n_vocab;
    for (uint32_t k = 0; k < N; k++) logits[k] = take(n_vocab * sizeof(float));
    for (uint32_t k = 0; k < N; k++) alone(e, k);
    for (uint32_t n = 1; n <= N; n *= 2) batches(e, n);
    forks(e);
    refusals(e);
    for (uint32_t n = 0; n < STEPS; n += 1 + n / 3) {
        interrupted(e, n, false);
        interrupted(e, n, true);
    }
    if (engine_draws(e)) {
        draws(e);
        draws_together(e);
        draws_masked(e);
        ends(e);
        last_text(e);
    }
    open_engine(&engines[1], n_threads, weights);                /* both at once */
    batches(&engines[1], 4);
    batches(e, 2);
    forks(&engines[1]);
    engine_close(e);
    batches(&engines[1], 8);
    engine_close(&engines[1]);
    printf("sequences: %u checks\n", checks);
    return 0;
}
