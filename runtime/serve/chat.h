/* chat.h -- requests that are conversations: converts them to the template's variables, tokens and a task, and splits the model's text
 * into its parts.  OpenAI's chats and responses and Anthropic's messages differ in the form of requests and of events. */
#ifndef FORGE_SERVE_CHAT_H
#define FORGE_SERVE_CHAT_H

#include "server.h"

#include "runtime/chat/answer.h"

struct chat_choice {
    struct answer answer;
    void    *room;                           /* memory of answer: ANSWER_ROOM bytes */
    struct request *request;
    uint32_t index;
    struct out content, reasoning, calls, arguments;     /* calls: items of OpenAI's tool_calls; arguments: of the open call */
    char     id[40];                         /* of the open call */
    uint32_t n_calls, n_blocks, n_events;    /* n_blocks: items or blocks that have begun */
    int      open;                           /* kind of the stream's open block; -1: none */
    bool     cut;                            /* a call is not complete */
};

struct chat {
    const struct chat_family *family;
    const struct json *tools;                /* NULL: none */
    const struct json *forced_name;          /* the only tool that may be called; NULL: any */
    bool        forced, parallel, former;    /* forced: a tool must be called; parallel: several may be called; former: chat_tools */
    const char *prefill;                     /* [n_prefill] the beginning of the answer, if the last message was the assistant's */
    size_t      n_prefill;
    char       *text;                        /* [n_text] the prompt as the template wrote it */
    size_t      n_text;
    void      (*event)(struct chat_choice *c, const struct answer_event *event);
    uint32_t    n_choices;
    struct chat_choice choices[];
};

/* Making objects: names and texts are not copied.  NULL if the room is full.  member: must not belong to an object yet. */
struct json *json_make(struct room *r, enum json_kind kind, const char *text, size_t n);
void json_add(struct json *to, const char *name, struct json *member);
/* Trees of request bodies may be changed. */
static inline struct json *json_own(const struct json *v) { return (struct json *)(uintptr_t)v; }
/* A copy of the value as a member for another object. */
struct json *json_same(struct room *r, const struct json *v);

/* Lists that are rebuilt are walked to their ends for each new member, so they may not have more members than this.  False:
 * refused. */
enum { CHAT_MOST_MEMBERS = 8192 };
bool chat_few(struct request *x, const struct json *list, const char *name);

/* Converting requests of another API to OpenAI's form.  Values from json_make may be NULL.  NULL or false: refused. */
bool chat_too_long(struct request *x);
struct json *chat_json(struct request *x, const char *text);
struct json *chat_add_message(struct request *x, struct json *list, const char *role, struct json *content);
/* id: may be NULL. */
bool chat_add_call(struct request *x, struct json *calls, const struct json *id, const struct json *name, const struct json *arguments);
/* t: {name, description, and a schema as member `parameters`}. */
bool chat_add_tool(struct request *x, struct json *tools, const struct json *t, const char *parameters);

/* The tools of a request in any API: the list, and which of them may or must be called. */
struct chat_tools {
    struct json *list;                       /* NULL: none */
    const struct json *forced_name, *allowed;        /* allowed: the only tools that may be called, or NULL */
    bool forced, parallel, none, former;     /* former: the request is in the form of OpenAI's former `functions` */
};
enum chat_api { CHAT_API, RESPONSES_API, MESSAGES_API };
/* Reads the choice of OpenAI's APIs; named: the name in it, if it is an object.  Sets all but the list.  False: refused. */
bool chat_choose(struct request *x, struct chat_tools *tools, const struct json *choice, const struct json *named);
/* Sets the list: the tools of `given` that are functions, in the form of OpenAI's chats; others are left out with a warning.  False:
 * refused. */
bool chat_list_tools(struct request *x, struct chat_tools *tools, const struct json *given, enum chat_api api);
/* Is a part of a conversation, of this type, a call of a provider's own tool, or its result?  type: may be NULL. */
bool chat_is_foreign(const struct json *type);
/* Variables for chat_begin: how much the model shall think.  effort: a word or NULL; thinking: true, false or NULL. */
struct json *chat_effort(struct request *x, const struct json *effort, const struct json *thinking);

/* Renders and tokenises the prompt of messages, and makes a task for each choice.  messages: in OpenAI's form, changed in place to the
 * form of templates (chat_request.h).  more: further variables, or NULL.  choices 0: only the prompt's text.  False: refused. */
bool chat_begin(struct request *x, struct json *messages, const struct chat_tools *tools, const struct json *more, uint32_t choices,
                void (*event)(struct chat_choice *c, const struct answer_event *event));
/* How the answer is read: the family, tools and the end of the prompt before the prefill. */
struct answer_options chat_answer(const struct chat *c);
static inline struct chat *chat_of(const struct request *x) { return x->more; }
/* c->id: the model's own id, or a new one: prefix and 24 digits, or what the model's templates demand. */
void chat_call_id(struct chat_choice *c, const struct answer_event *event, const char *prefix);
/* For struct reply_kind. */
void chat_text(struct request *x, uint32_t choice, const char *text, size_t n);
/* Passes on the text that was held back, before the end of a choice is reported. */
void chat_finish(struct request *x, uint32_t choice);
void chat_free(struct request *x);
#endif
