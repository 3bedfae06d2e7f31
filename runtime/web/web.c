/* web.c -- what model.js calls of a model's module.  Functions of model.h whose arguments are structures take numbers here, since
 * JavaScript has no structures, and 64-bit results are 32-bit ones.  Memory is laid out by model.js; addresses are its numbers. */
#include "runtime/library/instance.h"

#define EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* model.js: what an answer says while web_answer_token reads it (struct model_event). */
__attribute__((import_module("env"), import_name("tell")))
void web_tell(uint32_t kind, uint32_t call, const char *text, uint32_t n, const char *id, uint32_t n_id);

/* ---- what model.js has as numbers ---- */

_Static_assert(sizeof(struct model_refusal) == 308 && offsetof(struct model_refusal, text) == 8, "REFUSAL_BYTES; line, column, text");
_Static_assert(offsetof(struct forge_sampling, repeat_penalty) == 12 && offsetof(struct forge_sampling, top_k) == 16 &&
               offsetof(struct forge_sampling, repeat_last_n) == 20, "the defaults of class Model");
_Static_assert(MODEL_MORE == 1 && MODEL_BAD_ARGUMENT == -1 && MODEL_BAD_WORKSPACE == -2 && MODEL_BAD_WEIGHTS == -3 &&
               MODEL_CONTEXT_FULL == -4 && MODEL_NO_TOKENIZER == -7 && MODEL_NO_ROOM == -8 && MODEL_NOT_FINITE == -13 &&
               MODEL_CANNOT_REWIND == -14 && MODEL_WRONG_KIND == -16 && MODEL_NO_TEMPLATE == -17 && MODEL_REFUSED == -18 &&
               MODEL_STUCK == -19, "statusCodes");
_Static_assert(MODEL_SPECIAL == 1 && MODEL_ADD_BOS == 2 && MODEL_GRAMMAR_GBNF == 0 && MODEL_GRAMMAR_SCHEMA == 1, "flags and kinds");
_Static_assert(MODEL_ANSWER_CONTENT == 0 && MODEL_ANSWER_REASONING == 1 && MODEL_ANSWER_CALL == 2 && MODEL_ANSWER_ARGUMENTS == 3 &&
               MODEL_ANSWER_CALL_END == 4, "EVENTS");

/* ---- what clang calls: instructions of their own ---- */

void *memcpy(void *to, const void *from, size_t n)  { return __builtin_memcpy(to, from, n); }
void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
void *memset(void *to, int byte, size_t n)          { return __builtin_memset(to, byte, n); }

/* ---- an instance: it is the beginning of its workspace ---- */

EXPORT(open) int web_open(void *workspace, uint32_t bytes, const void *weights, uint32_t weights_bytes)
{
    struct model *m;
    const struct model_options options = { .size = sizeof options, .weights = weights, .weights_bytes = weights_bytes };
    return model_open(&m, workspace, bytes, &options);
}

/* MODEL_OK when all tensors have the hashes of the build. */
EXPORT(verify) int web_verify(struct model *m)
{
    uint32_t at = 0;
    return model_verify(m, &at, UINT32_MAX, NULL);
}

EXPORT(prefill) int web_prefill(struct model *m, const int32_t *tokens, uint32_t n, float *logits)
{ return model_prefill(m, tokens, n, logits); }

/* The same of at most a chunk of tokens, with logits [n][n_vocab] after each of them; of a model of embeddings their rows [n][n_embd]. */
EXPORT(rows) int web_rows(struct model *m, const int32_t *tokens, uint32_t n, float *rows)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    const struct forge_program *p = m->program;
    if (!tokens || !rows || n == 0 || n > p->chunk) return MODEL_BAD_ARGUMENT;
    if (n > p->n_ctx - m->sequence->n_past) return MODEL_CONTEXT_FULL;
    for (uint32_t i = 0; i < n; i++) if (tokens[i] < 0 || (uint32_t)tokens[i] >= p->n_vocab) return MODEL_BAD_ARGUMENT;
    memcpy(m->sequence->tokens + m->sequence->n_past, tokens, n * sizeof *tokens);
    library_step_put(m, n, 0, rows);
    m->step.args.n_logits = n;
    const int status = library_step_run(m, UINT64_MAX);
    if (status == MODEL_OK && p->embedding) memcpy(rows, m->rows, (size_t)n * p->n_embd * sizeof *rows);       /* over the pooled vector */
    return status;
}

EXPORT(embed) int web_embed(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *vector)
{ return model_embed(m, tokens, n, flags, vector); }

EXPORT(n_past) uint32_t web_n_past(const struct model *m) { return model_n_past(m); }
EXPORT(reset) int web_reset(struct model *m, uint32_t n_past) { return model_reset(m, n_past); }
EXPORT(explain) const char *web_explain(int status) { return model_strerror(status); }

/* What the model's file suggests; negative numbers: nothing. */
EXPORT(suggested) const struct forge_sampling *web_suggested(void) { return &library_program()->sampling; }

/* seed: 53 bits at most, 0 goes on with the random numbers. */
EXPORT(sample) int32_t web_sample(struct model *m, float *logits, float temperature, int32_t top_k, float top_p, float min_p,
                                  float repeat_penalty, int32_t repeat_last_n, double seed)
{
    const struct model_sampling sampling = { .size = sizeof sampling, .temperature = temperature, .top_k = top_k, .top_p = top_p,
                                             .min_p = min_p, .repeat_penalty = repeat_penalty, .repeat_last_n = repeat_last_n,
                                             .seed = (uint64_t)seed };
    return model_sample(m, logits, &sampling);
}

/* ---- text ---- */

EXPORT(encode) int32_t web_encode(const char *text, uint32_t n, uint32_t flags, int32_t *out, uint32_t capacity, void *scratch,
                                  uint32_t scratch_bytes)
{ return (int32_t)model_encode(text, n, flags, out, capacity, scratch, scratch_bytes); }

EXPORT(decode) int32_t web_decode(int32_t token, char *out, uint32_t capacity) { return (int32_t)model_decode(token, out, capacity); }
EXPORT(bos) int32_t web_bos(void) { return model_bos(); }
EXPORT(eos) int32_t web_eos(void) { return model_eos(); }
EXPORT(is_end) int web_is_end(int32_t token) { return model_is_end(token); }

/* ---- conversations: what is opened lies at the beginning of the memory it is given ---- */

EXPORT(chat_open) int web_chat_open(void *memory, uint32_t bytes, const char *request, uint32_t n, double now,
                                    struct model_refusal *refusal)
{
    struct model_chat *chat;
    const struct model_chat_options options = { .size = sizeof options, .now = (int64_t)now, .refusal = refusal };
    return model_chat_open(&chat, memory, bytes, request, n, &options);
}

/* Bytes of the prompt's text: it has no more tokens. */
EXPORT(chat_bytes) uint32_t web_chat_bytes(const struct model_chat *chat)
{
    size_t n = 0;
    return model_chat_text(chat, &n) ? (uint32_t)n : 0;
}

EXPORT(chat_tokens) int32_t web_chat_tokens(struct model_chat *chat, int32_t *out, uint32_t capacity)
{ return (int32_t)model_chat_tokens(chat, out, capacity); }

static void tell(void *context, const struct model_event *e)
{
    (void)context;
    web_tell(e->kind, e->call, e->text, (uint32_t)e->n, e->id, (uint32_t)e->n_id);
}

EXPORT(answer_open) int web_answer_open(void *memory, uint32_t bytes, const struct model_chat *chat)
{
    struct model_answer *answer;
    return model_answer_open(&answer, memory, bytes, chat, tell, NULL);
}

EXPORT(answer_token) int web_answer_token(struct model_answer *answer, int32_t token) { return model_answer_token(answer, token); }
EXPORT(answer_end) int web_answer_end(struct model_answer *answer) { return model_answer_end(answer); }
EXPORT(answer_in_reasoning) int web_answer_in_reasoning(const struct model_answer *answer)
{ return model_answer_in_reasoning(answer); }

/* ---- grammars: *used is what of the memory is kept ---- */

EXPORT(lexicon_open) int web_lexicon_open(void *memory, uint32_t bytes, size_t *used)
{
    struct model_lexicon *lexicon;
    return model_lexicon_open(&lexicon, memory, bytes, used);
}

/* *out: the grammar, which need not be at the beginning. */
EXPORT(grammar_open) int web_grammar_open(const struct model_grammar **out, void *memory, uint32_t bytes, uint32_t kind, const char *text,
                                          uint32_t n, size_t *used, struct model_refusal *refusal)
{ return model_grammar_open(out, memory, bytes, kind, text, n, used, refusal); }

EXPORT(grammar_built_in) const struct model_grammar *web_grammar_built_in(void) { return model_grammar_built_in(); }

EXPORT(mask_open) int web_mask_open(void *memory, uint32_t bytes, const struct model_grammar *grammar, const struct model_lexicon *lexicon)
{
    struct model_mask *mask;
    return model_mask_open(&mask, memory, bytes, grammar, lexicon);
}

EXPORT(mask_logits) int web_mask_logits(struct model_mask *mask, float *logits) { return model_mask_logits(mask, logits); }
EXPORT(mask_token) int web_mask_token(struct model_mask *mask, int32_t token) { return model_mask_token(mask, token); }
EXPORT(mask_may_end) int web_mask_may_end(const struct model_mask *mask) { return model_mask_may_end(mask); }
