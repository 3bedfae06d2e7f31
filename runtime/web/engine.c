/* engine.c -- functions that model.js calls in a module that computes the model itself; see web.c. */
#include "runtime/library/freestanding.h"
#include "runtime/library/instance.h"

#define EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* ---- an instance is at the beginning of its workspace ---- */

EXPORT(open) int web_open(void *workspace, uint32_t bytes, const void *weights, uint32_t weights_bytes)
{
    struct model *m;
    const struct model_options options = { .size = sizeof options, .weights = weights, .weights_bytes = weights_bytes };
    return model_open(&m, workspace, bytes, &options);
}

/* MODEL_OK if all tensors have the hashes of the build. */
EXPORT(verify) int web_verify(struct model *m)
{
    uint32_t at = 0;
    return model_verify(m, &at, UINT32_MAX, NULL);
}

/* expected: the least number of tokens that the text will have (model.js passes a prompt in pieces). */
EXPORT(prefill) int web_prefill(struct model *m, const int32_t *tokens, uint32_t n, float *logits, uint32_t expected)
{
    if (instance_ready(m) == MODEL_OK) m->sequence->expected = expected;
    return model_prefill(m, tokens, n, logits);
}

/* The same for at most a chunk of tokens, with logits [n][n_vocab] after each of them; embedding model: their rows [n][n_embd]. */
EXPORT(rows) int web_rows(struct model *m, const int32_t *tokens, uint32_t n, float *rows, uint32_t expected)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    const struct forge_program *p = m->program;
    if (!tokens || !rows || n == 0 || n > p->chunk) return MODEL_BAD_ARGUMENT;
    if (n > p->n_ctx - m->sequence->n_past) return MODEL_CONTEXT_FULL;
    for (uint32_t i = 0; i < n; i++) if (tokens[i] < 0 || (uint32_t)tokens[i] >= p->n_vocab) return MODEL_BAD_ARGUMENT;
    struct library_sequence *q = m->sequence;
    const uint32_t before = q->n_past, end = before + n > expected ? before + n : expected;
    int status = MODEL_OK;
    q->expected = end;
    if (before > 0 && library_turns(m, n)) {                     /* a separate step without logits */
        status = library_context_empty(m);
        q->expected = end;
        if (status == MODEL_OK) status = library_step_put(m, before, 0, NULL);
        if (status == MODEL_OK) status = library_step_run(m, UINT64_MAX);
        if (status != MODEL_OK) return status;
    }
    memcpy(m->sequence->tokens + m->sequence->n_past, tokens, n * sizeof *tokens);
    status = library_step_put(m, n, 0, rows);
    if (status != MODEL_OK) return status;
    m->step.args.n_logits = n;
    status = library_step_run(m, UINT64_MAX);
    if (status == MODEL_OK && p->embedding) memcpy(rows, m->rows, (size_t)n * p->n_embd * sizeof *rows);       /* overwrites the pooled
                                                                                                                * vector */
    return status;
}

EXPORT(embed) int web_embed(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *vector)
{ return model_embed(m, tokens, n, flags, vector); }

EXPORT(n_past) uint32_t web_n_past(const struct model *m) { return model_n_past(m); }
EXPORT(reset) int web_reset(struct model *m, uint32_t n_past) { return model_reset(m, n_past); }

/* seed: at most 53 bits; 0 continues the random numbers. */
EXPORT(sample) int32_t web_sample(struct model *m, float *logits, float temperature, int32_t top_k, float top_p, float min_p,
                                  float repeat_penalty, int32_t repeat_last_n, double seed)
{
    const struct model_sampling sampling = { .size = sizeof sampling, .temperature = temperature, .top_k = top_k, .top_p = top_p,
                                             .min_p = min_p, .repeat_penalty = repeat_penalty, .repeat_last_n = repeat_last_n,
                                             .seed = (uint64_t)seed };
    return model_sample(m, logits, &sampling);
}
