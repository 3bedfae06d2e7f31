/* template.h -- a chat template's text for a conversation: what Jinja gives as Hugging Face transformers calls it.  No allocation but
 * from the room that the caller gives; time, memory and output are bounded whatever the template and its input do. */
#ifndef FORGE_CHAT_TEMPLATE_H
#define FORGE_CHAT_TEMPLATE_H
#include "json.h"

struct chat_input {
    const struct json *variables;          /* an object: messages, tools, add_generation_prompt, ...; an absent one is undefined */
    const struct json *more;               /* NULL, or an object whose members win over those of variables */
    const char *bos, *eos;                 /* bos_token, eos_token; NULL: undefined */
    int64_t now;                           /* seconds since 1970-01-01 of the local clock: strftime_now */
    uint64_t steps;                        /* most that are taken; 0: CHAT_STEPS, a second or two */
};

/* Text with where each byte comes from: input[i] is 1 where it is the conversation's, 0 where it is the template's. */
struct chat_text { char *bytes; uint8_t *input; size_t size, n; };      /* bytes, input: [size], the caller's */

enum { CHAT_STEPS = 50000000, CHAT_DEPTH = 600 };

enum chat_fault {
    CHAT_RAISED,                           /* raise_exception: text is the template's own sentence */
    CHAT_REFUSED,                          /* what Jinja refuses, or what is not supported */
    CHAT_LIMIT,                            /* more steps or a deeper nesting than is allowed */
    CHAT_NO_ROOM,                          /* the room is too small */
    CHAT_NO_SPACE,                         /* the text is too small */
};
struct chat_error { enum chat_fault fault; uint32_t line; char text[300]; };      /* line of the template, 0: none; text ends with 0 */

/* Template number i of the image; false: there are no more.  name: NULL: the default one; else [n_name]. */
struct chat_about { const char *name; size_t n_name; uint32_t bytes; uint64_t hash; };      /* of its source; XXH3-64 */
bool chat_about(const uint8_t *image, uint32_t i, struct chat_about *out);
/* The family (family.h) of the template that chat_render takes without a name. */
uint32_t chat_writes(const uint8_t *image, bool tools);
/* Of the image's templates, the one called name, NULL: the default one. */
bool chat_has(const uint8_t *image, const char *name);
/* image: compiler/chat/image.c made it.  name: NULL: `tool_use` where there are tools and a template of this name, else the default one.
 * work: written from work->used on, given back as it was.  text: written from 0 on.  False: *error says why; the text is of no use then.
 * Values of messages must be JSON_DEPTH deep at most (json_read sees to it). */
bool chat_render(const uint8_t *image, const char *name, const struct chat_input *in, struct room *work, struct chat_text *text,
                 struct chat_error *error);
/* The same with at most so many levels of nesting, each of which takes stack; chat_render's are CHAT_DEPTH. */
bool chat_render_within(uint32_t depth, const uint8_t *image, const char *name, const struct chat_input *in, struct room *work,
                        struct chat_text *text, struct chat_error *error);
/* Room that is enough for most: a multiple of what the variables take as JSON, of n bytes. */
static inline size_t chat_room(size_t n) { return 64 * n + ((size_t)1 << 20); }
#endif
