/* web.c -- functions that model.js calls in a model's module.  Functions of model.h with structures as arguments take numbers here,
 * because JavaScript has no structures; 64-bit results become 32-bit results.  model.js lays out the memory; it treats addresses as
 * numbers. */
#include "runtime/library/instance.h"
#include "runtime/web/vocab.h"

#define EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* ---- values that model.js contains as numbers ---- */

_Static_assert(sizeof(struct model_refusal) == 308 && offsetof(struct model_refusal, text) == 8, "REFUSAL_BYTES; line, column, text");
_Static_assert(offsetof(struct forge_sampling, repeat_penalty) == 12 && offsetof(struct forge_sampling, top_k) == 16 &&
               offsetof(struct forge_sampling, repeat_last_n) == 20, "the defaults of class Model");
_Static_assert(MODEL_MORE == 1 && MODEL_BAD_ARGUMENT == -1 && MODEL_BAD_WORKSPACE == -2 && MODEL_BAD_WEIGHTS == -3 &&
               MODEL_CONTEXT_FULL == -4 && MODEL_NO_TOKENIZER == -7 && MODEL_NO_ROOM == -8 && MODEL_NOT_FINITE == -13 &&
               MODEL_CANNOT_REWIND == -14 && MODEL_WRONG_KIND == -16 && MODEL_NO_TEMPLATE == -17 && MODEL_REFUSED == -18 &&
               MODEL_STUCK == -19, "statusCodes");
_Static_assert(MODEL_SPECIAL == 1 && MODEL_ADD_BOS == 2 && MODEL_GRAMMAR_GBNF == 0 && MODEL_GRAMMAR_SCHEMA == 1, "flags and kinds");

/* ---- functions that clang calls; each is one instruction ---- */

void *memcpy(void *to, const void *from, size_t n)  { return __builtin_memcpy(to, from, n); }
void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
void *memset(void *to, int byte, size_t n)          { return __builtin_memset(to, byte, n); }

EXPORT(explain) const char *web_explain(int status) { return model_strerror(status); }

/* Defaults that the model's file suggests; negative numbers: not given. */
EXPORT(suggested) const struct forge_sampling *web_suggested(void) { return &library_program()->sampling; }

/* ---- text ---- */

/* Must be called first. */
EXPORT(complete) void web_complete(void)
{
    const struct forge_program *p = library_program();
    if (p->vocab) vocab_complete((uint8_t *)(uintptr_t)p->vocab);          /* constant from now on */
}

EXPORT(encode) int32_t web_encode(const char *text, uint32_t n, uint32_t flags, int32_t *out, uint32_t capacity, void *scratch,
                                  uint32_t scratch_bytes)
{ return (int32_t)model_encode(text, n, flags, out, capacity, scratch, scratch_bytes); }

EXPORT(decode) int32_t web_decode(int32_t token, char *out, uint32_t capacity) { return (int32_t)model_decode(token, out, capacity); }
EXPORT(bos) int32_t web_bos(void) { return model_bos(); }
EXPORT(eos) int32_t web_eos(void) { return model_eos(); }
EXPORT(is_end) int web_is_end(int32_t token) { return model_is_end(token); }

/* ---- grammars: *used is the part of the memory that must be kept ---- */

EXPORT(lexicon_open) int web_lexicon_open(void *memory, uint32_t bytes, size_t *used)
{
    struct model_lexicon *lexicon;
    return model_lexicon_open(&lexicon, memory, bytes, used);
}

/* *out: the grammar, which need not be at the beginning of the memory. */
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
