/* forced.h -- grammars of tool calls: a grammar that makes a model write calls, for tool_choice "required" or a named function; and one of
 * calls that the model has begun by itself (begun.h), for tool_choice "auto". */
#ifndef FORGE_CHAT_FORCED_H
#define FORGE_CHAT_FORCED_H
#include "family.h"
#include "json.h"

struct answer_force {
    const struct chat_family *family;
    const struct json *tools;                /* the array of a request, as in answer_options */
    const char *name;                        /* [n_name] the only function that may be called; NULL: any */
    size_t      n_name;
    bool        parallel;                    /* several calls, if the family allows them in a turn */
    const char *other;                       /* the name of a rule that the caller adds: the answer may be this instead of calls; NULL: it
                                              * must be calls.  Not with `begun` */
    bool        reasoning;                   /* the prompt has opened the reasoning: it continues, and is closed before the call.  Else:
                                              * it may be opened, if the family has marks for it */
    bool        begun;                       /* the root is not an answer, but the name of a beginning (begun.h) and the rest of the call
                                              * or of the block of calls */
    /* The control token with which text [n] begins, and the number of bytes it stands for; negative: none.  NULL: the vocabulary has
     * none.  A grammar must name such tokens explicitly, and marks often are control tokens. */
    int32_t   (*control)(void *context, const char *text, size_t n, size_t *used);
    /* Called for each rule that the grammar refers to and that the caller must add: args-N, the arguments of tool number N (schema: its
     * `parameters`; NULL: any object); or, if each argument is written separately, arg-N-M for property number M.  The rules are JSON
     * texts of the schema.  function: the tool's object with `name` and `parameters`, where "$ref" is resolved.  NULL: rules are not
     * reported. */
    void      (*rule)(void *context, const char *name, const struct json *schema, const struct json *function);
    void       *context;
};

/* Writes GBNF (docs/grammar.md) whose root is the whole answer after the prompt; answer.h reads what it allows as calls and reasoning.
 * False: the family has no calls, or (begun) nothing that only calls begin with; there is no such function, its name cannot be written, or
 * out is full. */
bool answer_forced(const struct answer_force *f, struct text_out *out);
#endif
