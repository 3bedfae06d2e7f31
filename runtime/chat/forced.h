/* forced.h -- a grammar that makes a model write calls of tools: what tool_choice "required", or a named function, asks for. */
#ifndef FORGE_CHAT_FORCED_H
#define FORGE_CHAT_FORCED_H
#include "family.h"
#include "json.h"

struct answer_force {
    const struct chat_family *family;
    const struct json *tools;                /* the array of a request, as in answer_options */
    const char *name;                        /* [n_name] of the only function that may be called; NULL: any */
    size_t      n_name;
    bool        parallel;                    /* several calls, where the family can have them in a turn */
    bool        reasoning;                   /* the prompt has opened the reasoning: it is written on, and closed before the call.  Else: it
                                                may be opened, where the family has marks for it */
    /* The control token that text [n] begins with, and the bytes it stands for; negative: none.  NULL: the vocabulary has none.  A grammar
     * must name such tokens, marks often are some. */
    int32_t   (*control)(void *context, const char *text, size_t n, size_t *used);
    /* Called for each rule that the grammar refers to and that the caller has to add: args-N, the arguments of tool number N (schema: its
     * `parameters`; NULL: any object), or arg-N-M, where each argument stands for itself, property number M of these.  They are JSON texts
     * of the schema.  root: what "$ref" within it is looked up in.  NULL: the rules are not told. */
    void      (*rule)(void *context, const char *name, const struct json *schema, const struct json *root);
    void       *context;
};

/* GBNF (docs/grammar.md), its root the whole answer behind the prompt; answer.h reads what it lets through as calls and reasoning.
 * False: the family has no calls, there is no such function, its name cannot be written, or out is full. */
bool answer_forced(const struct answer_force *f, struct text_out *out);
#endif
