/* request.h -- a conversation as OpenAI's API has it, into what a chat template expects.  No allocation but from the caller's room. */
#ifndef FORGE_CHAT_REQUEST_H
#define FORGE_CHAT_REQUEST_H
#include "json.h"

/* Trees in the room, which point into the request's text where nothing is escaped. */
struct chat_request {
    const struct json *variables, *more;     /* of struct chat_input; more: chat_template_kwargs, or NULL */
    const struct json *tools;                /* not empty, or NULL: none may be called */
    const char *prefill;                     /* [n_prefill] what the answer begins with */
    size_t      n_prefill;
};
struct request_error { uint32_t line, column; char text[200]; };       /* from 1; 0: of no place; text: one sentence, with its zero */

/* text: [n] an object with `messages` and, if they are there, `tools`, `tool_choice` ("none": as without tools), `documents`,
 * `reasoning_effort`, `add_generation_prompt` (else true), `chat_template_kwargs`; other members mean nothing.  Contents become one text,
 * arguments of calls objects.  Where an answer is to be generated, a last message of the assistant that is text alone is its beginning.
 * False: *error says why, or the room is full. */
bool chat_request_read(struct room *room, const char *text, size_t n, struct chat_request *out, struct request_error *error);
#endif
