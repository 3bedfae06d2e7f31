/* chat.c -- functions that model.js calls in the module of a model with a chat template; see web.c.  An opened object lies at the
 * beginning of the memory that it is given. */
#include "runtime/library/instance.h"

#define EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* In model.js: receives the events of an answer while web_answer_token runs (struct model_event). */
__attribute__((import_module("env"), import_name("tell")))
void web_tell(uint32_t kind, uint32_t call, const char *text, uint32_t n, const char *id, uint32_t n_id);

_Static_assert(MODEL_ANSWER_CONTENT == 0 && MODEL_ANSWER_REASONING == 1 && MODEL_ANSWER_CALL == 2 && MODEL_ANSWER_ARGUMENTS == 3 &&
               MODEL_ANSWER_CALL_END == 4, "EVENTS");

EXPORT(chat_open) int web_chat_open(void *memory, uint32_t bytes, const char *request, uint32_t n, double now,
                                    struct model_refusal *refusal)
{
    struct model_chat *chat;
    const struct model_chat_options options = { .size = sizeof options, .now = (int64_t)now, .refusal = refusal };
    return model_chat_open(&chat, memory, bytes, request, n, &options);
}

/* Bytes of the prompt's text; it has at most as many tokens. */
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
