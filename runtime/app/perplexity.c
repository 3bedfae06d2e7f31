/* perplexity.c -- how well the model predicts a text.  The definition is that of llama-perplexity: pieces of n_ctx tokens without
 * overlap; the first token of each is replaced by BOS if the model wants BOS; the tokens of the second half are scored, each predicted
 * from all tokens before it in its piece.  (llama.cpp tools/perplexity/perplexity.cpp) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

/* -log softmax(logits)[token] */
static double surprise(const float *logits, size_t n, int32_t token)
{
    float best = logits[0];
    for (size_t i = 1; i < n; i++) best = logits[i] > best ? logits[i] : best;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - best);
    return log(sum) - (double)(logits[token] - best);
}

struct score { double sum, squares; size_t n; };

static enum forge_status score_piece(struct forge_sequence *q, const int32_t *tokens, size_t n, float *logits, struct score *score,
                                     struct forge_error *error)
{
    const struct forge_engine *e = q->engine;
    const size_t chunk = engine_piece(e), n_vocab = e->program->n_vocab, first = n / 2;
    TRY(sequence_reset(q, error));
    sequence_expect(q, (uint32_t)n);
    for (size_t at = 0; at < n;) {
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        const size_t part = n - at < chunk ? n - at : chunk, end = at + part;
        const size_t from = at > first ? at : first;             /* logits before the second half are not computed */
        const size_t wanted = end > from ? end - from : 0;
        TRY(forge_prefill(q, tokens + at, (uint32_t)part, (uint32_t)wanted, logits, error));
        for (size_t i = from; i < end && i + 1 < n; i++) {
            const double s = surprise(logits + (i - from) * n_vocab, n_vocab, tokens[i + 1]);
            score->sum += s;
            score->squares += s * s;
            score->n++;
        }
        at = end;
    }
    return FORGE_OK;
}

static double deviation(const struct score *s)
{
    const double mean = s->sum / (double)s->n, variance = s->squares / (double)s->n - mean * mean;
    return s->n > 1 && variance > 0 ? sqrt(variance / (double)(s->n - 1)) * exp(mean) : 0;
}

static enum forge_status run_pieces(struct forge_engine *e, const struct forge_options *o, struct forge_tokens tokens, size_t n_ctx,
                                    struct forge_error *error)
{
    const struct forge_program *p = e->program;
    if (n_ctx > p->n_ctx)
        return error_set(error, FORGE_TOO_LONG,
                         "pieces of %zu tokens are longer than the context of %u that the program was built for; give -c N with less",
                    n_ctx, p->n_ctx);
    if (tokens.n < 2 * n_ctx)
        return error_set(error, FORGE_FAILED, "the text has %zu tokens; at least %zu are needed for pieces of %zu", tokens.n, 2 * n_ctx,
                         n_ctx);
    if (n_ctx < 4) return error_set(error, FORGE_USAGE, "pieces of %zu tokens are too short; give -c N with more", n_ctx);
    const size_t chunk = engine_piece(e);
    float *logits = malloc((chunk < n_ctx ? chunk : n_ctx) * p->n_vocab * sizeof *logits);
    if (!logits) return error_set(error, FORGE_NO_MEMORY, "out of memory for %zu x %u logits", chunk, p->n_vocab);
    const size_t n_pieces = tokens.n / n_ctx;
    const bool bos = vocab_adds_bos(p->vocab) && vocab_bos(p->vocab) >= 0 && !o->no_bos;
    struct score score = { 0 };
    const double start = seconds_now();
    struct forge_sequence *q = NULL;
    enum forge_status status = sequence_open(&q, e, error);
    for (size_t i = 0; i < n_pieces && status == FORGE_OK; i++) {
        int32_t *piece = tokens.ids + i * n_ctx;
        /* BOS replaces the first token, which is never scored. */
        if (bos) piece[0] = vocab_bos(p->vocab);
        status = score_piece(q, piece, n_ctx, logits, &score, error);
        if (status == FORGE_OK && !o->quiet)
            fprintf(stderr, "%s[%zu/%zu] %.4f", isatty(STDERR_FILENO) ? "\r" : i > 0 ? "\n" : "", i + 1, n_pieces,
                    exp(score.sum / (double)score.n));
    }
    sequence_close(q);
    free(logits);
    if (!o->quiet) fprintf(stderr, "\n");
    if (status != FORGE_OK) return status;
    if (!o->quiet)
        fprintf(stderr, "%zu pieces of %zu tokens, %.1f tok/s\n", n_pieces, n_ctx, (double)(n_pieces * n_ctx) / (seconds_now() - start));
    printf("PPL = %.4f +/- %.5f\n", exp(score.sum / (double)score.n), deviation(&score));
    return flush_stdout(error);
}

enum forge_status perplexity_run(struct forge_engine *e, const struct forge_options *o, struct forge_error *error)
{
    struct forge_tokens tokens = { NULL, 0 };
    if (o->tokens) {
        TRY(tokens_of_list(&tokens, o->tokens, e->program->n_vocab, error));
    } else {
        struct forge_bytes text = { NULL, 0 };
        TRY(prompt_read(&text, o, error));                        /* removes a newline at the end, like llama.cpp's -f */
        const enum forge_status status = tokens_of_text(&tokens, e->program->vocab, text.bytes, text.n, o->no_bos ? 0 : FORGE_TOK_ADD,
                                                        error);
        free(text.bytes);
        TRY(status);
    }
    const enum forge_status status = run_pieces(e, o, tokens, o->n_ctx > 0 ? (size_t)o->n_ctx : 512, error);
    free(tokens.ids);
    return status;
}
