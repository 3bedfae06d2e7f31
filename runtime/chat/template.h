/* template.h -- the text of a chat template for a conversation: the result of Jinja as Hugging Face transformers calls it.  Allocates
 * only from the room of the caller; time, memory and output are bounded for any template and input. */
#ifndef FORGE_CHAT_TEMPLATE_H
#define FORGE_CHAT_TEMPLATE_H
#include "json.h"

struct chat_input {
    const struct json *variables;          /* an object: messages, tools, add_generation_prompt, ...; an absent member is undefined */
    const struct json *more;               /* NULL, or an object whose members override those of variables */
    const char *bos, *eos;                 /* bos_token, eos_token; NULL: undefined */
    int64_t now;                           /* seconds since 1970-01-01 of the local clock: strftime_now; 0: there is no clock */
    uint64_t steps;                        /* most steps; 0: CHAT_STEPS, a second or two */
    bool family_variables;                 /* also those that llama.cpp gives the templates of a family, unless they are given: Llama 3
                                            * date_string, Firefunction 2 datetime and functions */
};

/* Text and the origin of each byte: input[i] is 1 if byte i is from the conversation, 0 if it is from the template. */
struct chat_text { char *bytes; uint8_t *input; size_t size, n; };      /* bytes, input: [size], the caller's */

enum { CHAT_STEPS = 50000000, CHAT_DEPTH = 600 };

enum chat_fault {
    CHAT_RAISED,                           /* raise_exception: text is the template's own sentence */
    CHAT_REFUSED,                          /* something that Jinja refuses, or that is not supported */
    CHAT_LIMIT,                            /* more steps or deeper nesting than allowed */
    CHAT_NO_ROOM,                          /* the room is too small */
    CHAT_NO_SPACE,                         /* the text's memory is too small */
};
struct chat_error { enum chat_fault fault; uint32_t line; char text[300]; };      /* line of the template, 0: none; text is
                                                                                   * zero-terminated */

/* Template number i of the image; false: there is no such template.  name NULL: the default template; else [n_name]. */
struct chat_about { const char *name; size_t n_name; uint32_t bytes; uint64_t hash; };      /* of its source; XXH3-64 */
bool chat_about(const uint8_t *image, uint32_t i, struct chat_about *out);
/* The family (family.h) of the template that chat_render uses without a name. */
uint32_t chat_writes(const uint8_t *image, bool tools);
/* Does the image have a template called name?  NULL: the default template. */
bool chat_has(const uint8_t *image, const char *name);
/* image: from compiler/chat/image.c.  name NULL: `tool_use` if there are tools and a template with this name, else the default template.
 * work: used from work->used on and released afterwards.  text: written from 0 on.  False: *error says why; the text is then invalid.
 * Values of messages must be at most JSON_DEPTH deep (json_read ensures this). */
bool chat_render(const uint8_t *image, const char *name, const struct chat_input *in, struct room *work, struct chat_text *text,
                 struct chat_error *error);
/* The same with at most `depth` levels of nesting, each of which takes stack; chat_render allows CHAT_DEPTH. */
bool chat_render_within(uint32_t depth, const uint8_t *image, const char *name, const struct chat_input *in, struct room *work,
                        struct chat_text *text, struct chat_error *error);
/* A room that suffices for most: a multiple of the n bytes of the variables as JSON. */
static inline size_t chat_room(size_t n) { return 64 * n + ((size_t)1 << 20); }
#endif
