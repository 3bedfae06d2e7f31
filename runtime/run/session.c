/* session.c -- runs a text: takes the prompt, draws tokens and prints them. */
#include "guide.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/model/state.h"
#include "runtime/text/tokenize.h"

/* Opens the guide that the options ask for; s->guide stays NULL if they ask for none. */
static enum forge_status open_guide(struct forge_session *s, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    const char *text = o->grammar ? o->grammar : o->schema, *path = o->grammar_path ? o->grammar_path : o->schema_path;
    const char *name = path ? path : o->grammar ? "--grammar" : o->schema ? "--json-schema" : "--choice";
    struct forge_bytes file = { NULL, 0 };
    const bool built_in = !text && !path && o->n_choices == 0;
    if (built_in && (!forge_grammar || o->ignore_eos)) return FORGE_OK;
    TRY(guide_lexicon(&s->lexicon, s->program, error));
    if (path) TRY(read_all(&file, path, error));
    const struct guide_source source = {
        .kind = built_in ? GUIDE_IMAGE : o->grammar || o->grammar_path ? GUIDE_GRAMMAR : o->n_choices > 0 ? GUIDE_CHOICES : GUIDE_SCHEMA,
        .text = built_in ? (const char *)forge_grammar : path ? file.bytes : text,
        .n = path ? file.n : text ? strlen(text) : o->n_choices, .choices = o->choices,
    };
    const enum forge_status status = guide_open(&s->guide, &source, s->lexicon, name, error);
    free(file.bytes);
    return status;
}

enum forge_status session_open(struct forge_session *s, const struct forge_options *options, struct forge_engine *engine,
                               volatile sig_atomic_t *stop, struct forge_error *error)
{
    const struct forge_program *p = engine->program;
    memset(s, 0, sizeof *s);
    s->options = options;
    s->program = p;
    s->engine = engine;
    s->stop = stop;
    s->pending = -1;
    stream_open(&s->out, STDOUT_FILENO);
    for (size_t i = 0; i < options->n_stops; i++) {
        const size_t n = strlen(options->stops[i]);
        if (n > s->longest_stop) s->longest_stop = n;
    }
    s->piece_bytes = s->longest_stop + vocab_token_bytes(p->vocab) + 64;
    s->piece = malloc(s->piece_bytes);
    s->logits = malloc((p->n_vocab + 16u) * sizeof *s->logits);
    if (!s->piece || !s->logits) {
        session_close(s);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the logits of %u tokens", p->n_vocab);
    }
    enum forge_status status = sampler_open(&s->sampler, &options->sample, p->n_vocab, engine->n_ctx, error);
    if (status == FORGE_OK) status = sequence_open(&s->sequence, engine, error);
    if (status == FORGE_OK) status = open_guide(s, error);
    if (status != FORGE_OK) session_close(s);
    return status;
}

void session_close(struct forge_session *s)
{
    sequence_close(s->sequence);
    sampler_close(s->sampler);
    guide_close(s->guide);
    free(s->lexicon);
    free(s->logits);
    free(s->piece);
    memset(s, 0, sizeof *s);
}

enum forge_status session_prompt(struct forge_session *s, const int32_t *tokens, size_t n, struct forge_error *error)
{
    const double start = seconds_now();
    TRY(forge_step(s->sequence, tokens, n, 1, s->logits, error));
    s->prompt_seconds += seconds_now() - start;
    s->n_prompt += n;
    for (size_t i = 0; i < n; i++) sampler_accept(s->sampler, tokens[i]);
    return FORGE_OK;
}

/* Prints a token.  *stopped: the text now ends with a stop text; the part of the token after it is not printed. */
static enum forge_status print_token(struct forge_session *s, int32_t id, bool *stopped, struct forge_error *error)
{
    *stopped = false;
    if (s->options->print_tokens) {
        char number[16];
        const int n = snprintf(number, sizeof number, s->n_printed++ > 0 ? " %d" : "%d", id);
        TRY(stream_write(&s->out, number, (size_t)n, error));
        if (s->longest_stop == 0 || !s->program->vocab) return FORGE_OK;
    }
    const size_t tail = s->n_tail;
    const size_t room = s->piece_bytes - tail, n = forge_token_text(s->program->vocab, id, false, s->piece + tail, room);
    size_t end = tail + (n < room ? n : room);
    for (size_t i = 0; i < s->options->n_stops; i++) {
        const size_t length = strlen(s->options->stops[i]);
        for (size_t at = 0; at + length <= end; at++)
            if (memcmp(s->piece + at, s->options->stops[i], length) == 0) {
                *stopped = true;
                end = at + length;
            }
    }
    if (!s->options->print_tokens && end > tail) TRY(stream_write(&s->out, s->piece + tail, end - tail, error));
    /* Keeps the text that the next token could complete: one byte less than the longest stop text. */
    s->n_tail = s->longest_stop > 0 ? s->longest_stop - 1 : 0;
    if (s->n_tail > end) s->n_tail = end;
    memmove(s->piece, s->piece + end - s->n_tail, s->n_tail);
    return FORGE_OK;
}

/* Is the text drawn on the device, many tokens ahead?  Not with a guide, because each mask depends on the token before. */
static bool draws_ahead(const struct forge_session *s) { return engine_draws(s->engine) && !s->guide; }

/* Draws the first token after a prompt here, from its logits. */
static enum forge_status draw_here(struct forge_session *s, int32_t *id, bool *ended, struct forge_error *error)
{
    const uint32_t *bits;
    TRY(guide_mask(s->guide, &bits, ended, error));
    if (*ended) return FORGE_OK;
    guide_logits(bits, s->logits, s->program->n_vocab);
    *id = sampler_draw(s->sampler, s->logits);
    return FORGE_OK;
}

/* Draws on the device, after the step of the token before; the mask is made while that step runs. */
static enum forge_status draw_there(struct forge_session *s, int32_t *id, bool *ended, struct forge_error *error)
{
    struct forge_column c = { .sequence = s->sequence, .token = s->pending, .options = &s->options->sample,
                              .random = sampler_random(s->sampler), .guided = true };
    TRY(engine_step_begin(s->engine, &c, 1, error));
    TRY(guide_mask(s->guide, &c.mask, ended, error));
    TRY(engine_step_draw(s->engine, &c, 1, true, error));
    *id = c.drawn;
    if (s->options->sample.temp > 0 && !*ended) random_next(sampler_random(s->sampler));
    return FORGE_OK;
}

/* A guided token takes one random number if temp > 0, like any other, even if only one token is allowed.  *ended: no token follows. */
static enum forge_status draw_guided(struct forge_session *s, int32_t *id, bool *ended, struct forge_error *error)
{
    TRY(s->pending >= 0 ? draw_there(s, id, ended, error) : draw_here(s, id, ended, error));
    return *ended ? FORGE_OK : guide_accept(s->guide, *id, error);
}

/* The next token, from the logits of the last step, or from the GPU if it has drawn it already. */
static enum forge_status draw_token(struct forge_session *s, int32_t *id, bool *ended, struct forge_error *error)
{
    *ended = false;
    if (s->guide) {
        TRY(draw_guided(s, id, ended, error));
        if (*ended) return FORGE_OK;
    } else if (draws_ahead(s)) {
        TRY(engine_draw_next(s->sequence, id, error));
        if (s->options->sample.temp > 0) random_next(sampler_random(s->sampler));
    } else {
        *id = sampler_draw(s->sampler, s->logits);
    }
    sampler_accept(s->sampler, *id);
    s->n_drawn++;
    return FORGE_OK;
}

enum forge_status session_generate(struct forge_session *s, int64_t n_predict, bool last, enum forge_ending *ending,
                                   struct forge_error *error)
{
    const bool ahead = draws_ahead(s), there = engine_draws(s->engine);
    if (s->guide) TRY(guide_restart(s->guide, error));
    s->n_tail = s->n_heard = 0;
    s->pending = -1;
    *ending = ENDED_LIMIT;
    if (ahead && n_predict != 0)
        TRY(engine_draw_begin(s->sequence, &s->options->sample, sampler_random(s->sampler), -1, n_predict < 0 ? UINT64_MAX
                              : (uint64_t)n_predict, last, error));
    double start = 0;
    for (int64_t i = 0; n_predict < 0 || i < n_predict; i++) {
        if (*s->stop) { *ending = ENDED_INTERRUPT; break; }
        int32_t id;
        bool whole;
        TRY(draw_token(s, &id, &whole, error));
        s->pending = -1;                                         /* the token before it is in the context, on a GPU from now on */
        if (whole) { *ending = ENDED_TEXT; break; }
        if (s->heard) s->heard[s->n_heard++] = id;
        if (there) {                                             /* steps run while tokens are printed, so all time counts */
            const double now = seconds_now();
            if (i > 0) {
                s->decode_seconds += now - start;
                s->n_decoded++;
            }
            start = now;
        }
        if (!s->options->ignore_eos && vocab_is_end(s->program->vocab, id)) { *ending = ENDED_TEXT; break; }
        bool stopped;
        s->pending = id;
        TRY(print_token(s, id, &stopped, error));
        if (stopped) { *ending = ENDED_STOP; break; }
        if (i + 1 == n_predict) break;
        if (s->sequence->n_past == s->engine->n_ctx) { *ending = ENDED_CONTEXT; break; }
        if (!there) {
            start = seconds_now();
            TRY(forge_step(s->sequence, &id, 1, 1, s->logits, error));
            s->decode_seconds += seconds_now() - start;
            s->n_decoded++;
            s->pending = -1;
        }
    }
    return stream_end(&s->out, error);
}

void session_report(const struct forge_session *s)
{
    fprintf(stderr, "prompt %llu tokens", (unsigned long long)s->n_prompt);
    if (s->prompt_seconds > 0 && s->n_prompt > 0) fprintf(stderr, ", %.1f tok/s", (double)s->n_prompt / s->prompt_seconds);
    fprintf(stderr, "; text %llu tokens", (unsigned long long)s->n_drawn);
    if (s->decode_seconds > 0 && s->n_decoded > 0) {
        const double rate = (double)s->n_decoded / s->decode_seconds;
        fprintf(stderr, ", %.1f tok/s", rate);
        /* Several tokens share one reading of the weights. */
        if (s->engine->n_drafted == 0) fprintf(stderr, ", %.2f GB/s of weights", rate * (double)program_read_bytes(s->program) * 1e-9);
    }
    if (s->engine->speculates)
        fprintf(stderr, ", %llu of %llu drafts accepted", (unsigned long long)s->engine->n_accepted,
                (unsigned long long)s->engine->n_drafted);
    if (s->engine->device_name) fprintf(stderr, "; %s\n", s->engine->device_name);
    else fprintf(stderr, "; %u threads\n", pool_threads(s->engine->pool));
}
