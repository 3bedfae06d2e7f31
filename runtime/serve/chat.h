/* chat.h -- requests that are conversations: into the template's variables, tokens and a task; the model's text back into its parts.
 * OpenAI's chats, its responses and Anthropic's messages differ in what goes in and in how events are told. */
#ifndef FORGE_SERVE_CHAT_H
#define FORGE_SERVE_CHAT_H

#include "server.h"

#include "runtime/chat/answer.h"

struct chat_choice {
    struct answer answer;
    void    *room;                           /* of answer: ANSWER_ROOM bytes */
    struct exchange *exchange;
    uint32_t index;
    struct out content, reasoning, calls, arguments;     /* calls: items of OpenAI's tool_calls; arguments: of the call that is open */
    char     id[40];                         /* of the call that is open */
    uint32_t n_calls, n_blocks, n_events;    /* n_blocks: items or blocks that have begun */
    int      open;                           /* kind of the block that a stream is in; -1: none */
};

struct chat {
    const struct chat_family *family;
    const struct json *tools;                /* NULL: none */
    const struct json *forced_name;          /* of the only tool that may be called; NULL: any */
    bool        forced, parallel;            /* a tool must be called; several may be */
    const char *prefill;                     /* [n_prefill] what the answer begins with: the last message was the assistant's */
    size_t      n_prefill;
    char       *text;                        /* [n_text] the prompt as the template wrote it */
    size_t      n_text;
    void      (*event)(struct chat_choice *c, const struct answer_event *event);
    uint32_t    n_choices;
    struct chat_choice choices[];
};

/* Members of objects that are made here; names and texts are not copied.  NULL where the room is full.  member: of no object yet. */
struct json *json_make(struct room *r, enum json_kind kind, const char *text, size_t n);
void json_add(struct json *to, const char *name, struct json *member);
/* Trees of bodies are there to be changed. */
static inline struct json *json_own(const struct json *v) { return (struct json *)(uintptr_t)v; }
/* Another member of another object, with the same value. */
struct json *json_same(struct room *r, const struct json *v);

/* Lists that are made anew grow by walking to their ends: no more members than these.  False: refused and closed. */
enum { CHAT_MOST_MEMBERS = 8192 };
bool chat_few(struct exchange *x, const struct json *list, const char *name);

/* Members of a request that another API gives, in OpenAI's form.  Parts that came from json_make may be NULL; NULL or false: refused and
 * closed. */
bool chat_too_long(struct exchange *x);
struct json *chat_json(struct exchange *x, const char *text);
struct json *chat_add_message(struct exchange *x, struct json *list, const char *role, struct json *content);
/* id: NULL or not. */
bool chat_add_call(struct exchange *x, struct json *calls, const struct json *id, const struct json *name, const struct json *arguments);
/* t: {name, description, and under `parameters` a schema}. */
bool chat_add_tool(struct exchange *x, struct json *tools, const struct json *t, const char *parameters);

/* messages in OpenAI's form, changed in place to what templates expect: contents as one text, arguments of calls as objects.  False:
 * refused and closed. */
bool chat_messages(struct exchange *x, struct json *messages);
/* What a request says of tools, in any API: the list, which of them must be called. */
struct chat_tools { struct json *list; const struct json *forced_name; bool forced, parallel; };

/* The prompt of messages: rendered and tokenised, with a task for each choice.  more: variables beside them, or NULL.  False: refused and
 * closed. */
bool chat_begin(struct exchange *x, struct json *messages, const struct chat_tools *tools, const struct json *more, uint32_t choices,
                void (*event)(struct chat_choice *c, const struct answer_event *event));
static inline struct chat *chat_of(const struct exchange *x) { return x->more; }
/* c->id: the model's own, or one that is made. */
void chat_call_id(struct chat_choice *c, const struct answer_event *event);
/* For struct reply_kind. */
void chat_text(struct exchange *x, uint32_t choice, const char *text, size_t n);
/* Before the end of a choice is told: what was held back. */
void chat_finish(struct exchange *x, uint32_t choice);
void chat_free(struct exchange *x);
#endif
