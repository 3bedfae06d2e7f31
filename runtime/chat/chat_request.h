/* chat_request.h -- converts a conversation in the form of OpenAI's API to the form that a chat template expects.  Allocates only from
 * the caller's room. */
#ifndef FORGE_CHAT_REQUEST_H
#define FORGE_CHAT_REQUEST_H
#include "family.h"
#include "json.h"

/* Trees in the room; they point into the request's text where it has no escapes. */
struct chat_request {
    const struct json *variables, *more;     /* for struct chat_input; more: chat_template_kwargs, or NULL */
    struct json *messages;                   /* in variables */
    const struct json *tools;                /* not empty, or NULL: no tool may be called */
    const struct chat_family *family;        /* of the template that the request gets */
    const char *prefill;                     /* [n_prefill] the beginning of the answer */
    size_t      n_prefill;
};
struct chat_request_error { uint32_t line, column; char text[200]; };  /* from 1; 0: no place; text: one sentence, zero-terminated */

/* text: [n] an object with `messages` and optionally `tools`, `tool_choice` ("none": as without tools), `documents`, `reasoning_effort`,
 * `add_generation_prompt` (default true), `chat_template_kwargs`; other members are ignored.  image: of the templates (template.h).
 * Messages and tools are read as by the functions below.  If an answer is to be generated and the last message is the assistant's with
 * only text, it is the beginning of the answer.  False: *error says why, or the room is full. */
bool chat_request_read(struct room *room, const uint8_t *image, const char *text, size_t n, struct chat_request *out,
                       struct chat_request_error *error);

/* The parts of chat_request_read, for requests that are trees already.  They change the trees in place. */

/* messages: each content becomes one text; arguments of calls become objects; members that are null, "" or [] are removed, because they
 * mean the same as absent ones; `function_call` and the role `function`, OpenAI's former calls, become `tool_calls` and `tool`.  Ids of
 * calls get the form that the family's templates demand: the same id always gives the same one.  False: *error says why, or the room is
 * full. */
bool chat_messages_read(struct room *room, struct json *messages, const struct chat_family *family, struct chat_request_error *error);
/* tools: a list of {"type": "function", "function": F}, or of F alone.  Each function gets a description and the schema of an object if it
 * has none.  False: as above. */
bool chat_tools_read(struct room *room, struct json *tools, struct chat_request_error *error);
/* Removes the last message if it is the assistant's and has only text, and returns this text; NULL: it is another message. */
const struct json *chat_take_prefill(struct json *messages);
/* A template has refused the messages: changes them to a form that it may accept.  The first time all system messages become one message,
 * at the beginning; the second time arguments of calls become text.  False: nothing is left to try, or the room is full. */
bool chat_messages_relax(struct room *room, struct json *messages);

/* Does the text that a template made, [n], lack words of the system?  Some templates print only the first system message. */
bool chat_loses_system(struct json *messages, const char *text, size_t n);

/* The id of 9 letters and digits that stands for text [n] (CHAT_NINE). */
enum { CHAT_ID_BYTES = 9 };
void chat_short_id(const char *text, size_t n, char id[CHAT_ID_BYTES]);
#endif
