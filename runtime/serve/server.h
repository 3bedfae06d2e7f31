/* server.h -- the program as an HTTP server: what its parts share.  One thread does HTTP (libevent), another the model (batch.h). */
#ifndef FORGE_SERVER_H
#define FORGE_SERVER_H

#include <event2/event.h>
#include <event2/http.h>
#include <time.h>

#include "batch.h"
#include "out.h"
#include "runtime/run/session.h"

struct server;
struct exchange;

/* How one kind of request is answered.  Called on the server's thread. */
struct reply_kind {
    /* Of the choice: text has come; it is the caller's until this returns.  last: it has ended. */
    void (*text)(struct exchange *x, uint32_t choice, const char *text, size_t n);
    void (*choice_ends)(struct exchange *x, uint32_t choice);
    void (*ends)(struct exchange *x);        /* all choices have */
    bool anthropic;                          /* the form of errors */
};

enum { MOST_CHOICES = 16 };

/* A request that is being answered by the model. */
struct exchange {
    struct server *server;
    struct evhttp_request *request;          /* NULL: the client has gone */
    struct event *closed;                    /* waits for the client to go */
    const struct reply_kind *kind;
    struct exchange *next;
    struct task **tasks;                     /* [n_tasks] */
    uint32_t n_tasks, n_ended;
    struct out texts[MOST_CHOICES];          /* without a stream: the whole text */
    struct out tokens[MOST_CHOICES];         /* struct task_token that have not been told of yet, with logprobs */
    size_t   offsets[MOST_CHOICES];          /* bytes of text before them */
    bool     stream, started, usage, chat;   /* usage: a last chunk tells it */
    char     id[48];
    time_t   created;
    struct room room;                        /* of the body's JSON: freed with the exchange */
    char    *body;
    const struct json *json;
    struct out guide_text;                   /* of schemas and grammars that guide */
    void    *more;                           /* of the kind, whose free_more frees it */
    void   (*free_more)(struct exchange *x);
};

struct server {
    const struct forge_options *options;
    const struct forge_program *program;
    struct forge_engine *engine;
    struct batch *batch;
    struct event_base *base;
    struct evhttp *http;
    struct exchange *exchanges;
    struct lexicon *lexicon;                 /* of guides; made at the first one */
    const struct json *kwargs;               /* --chat-template-kwargs, or NULL */
    void    *kwargs_memory;
    char   **keys;                           /* [n_keys] */
    size_t   n_keys;
    bool     is_local;                       /* bound to the loopback */
    struct evhttp_bound_socket *listener;
    bool     leaving, draining;              /* /health says 503; nothing new is taken */
    int      wake_fd;
    uint64_t n_requests, n_refused;
    time_t   began;
    struct forge_error *error;
    enum forge_status status;
};

/* ---- http.c ---- */

enum forge_status http_open(struct server *s, struct forge_error *error);
void http_close(struct server *s);

/* Ends the request with this JSON; o is freed. */
void reply_json(struct server *s, struct evhttp_request *r, int code, struct out *o);
/* 200 with another type of text; the page has its policy. */
void reply_text(struct server *s, struct evhttp_request *r, const char *type, struct out *o);
/* The same with an error in OpenAI's shape, or Anthropic's. */
__attribute__((format(printf, 5, 6)))
void reply_error(struct server *s, struct evhttp_request *r, bool anthropic, int code, const char *format, ...);
/* The same of an exchange. */
void exchange_reply(struct exchange *x, int code, struct out *o);
/* A piece of a stream: "data: " and the text, or a named event; data is empty then. */
void stream_event(struct exchange *x, const char *name, struct out *data);
/* The end of a stream; last: a line of data before it, or NULL. */
void stream_finish(struct exchange *x, const char *last);

/* ---- exchange.c: requests that the model answers ---- */

/* The body of the request as JSON, in an exchange of its own; NULL: it has been refused. */
struct exchange *exchange_open(struct server *s, struct evhttp_request *r, const struct reply_kind *kind);
void exchange_close(struct exchange *x);
/* Refuses it and closes it; false, to be returned. */
__attribute__((format(printf, 3, 4)))
bool exchange_refuse(struct exchange *x, int code, const char *format, ...);
/* A task with what the body says of sampling, stops and lengths; prompt: from malloc, its own from then on.  NULL: refused and closed. */
struct task *exchange_task(struct exchange *x, int32_t *prompt, size_t n_prompt);
/* So many tasks of one prompt, with seeds one after the other; ids are its own.  False: refused and closed. */
bool exchange_choices(struct exchange *x, int32_t *ids, size_t n, uint32_t choices);
/* A task more; it frees what it has when that fails: NULL, refused and closed. */
struct task *exchange_add(struct exchange *x, int32_t *prompt, size_t n_prompt);
/* The tasks go to the model, those of vectors one after the other; false: refused and closed. */
bool exchange_submit(struct exchange *x);
/* What the model has done since the last time. */
void exchanges_update(struct server *s);
/* The exchange has its answer: what happens to the connection from now on is not its concern.  The request, or NULL. */
struct evhttp_request *exchange_let_go(struct exchange *x);

/* ---- members of bodies: false: refused and closed ---- */

/* NULL: absent or null. */
const struct json *body_member(const struct json *o, const char *name);

bool body_bool(struct exchange *x, const struct json *o, const char *name, bool *out);
bool body_integer(struct exchange *x, const char *name, int64_t low, int64_t high,
                  int64_t *out);      /* *out stays where it is absent or null */
bool body_real(struct exchange *x, const char *name, double low, double high, float *out);

/* The tokens of v, a string or a list of token ids, from malloc; flags: of forge_tokenize.  NULL: refused and closed. */
int32_t *body_tokens(struct exchange *x, const char *name, const struct json *v, uint32_t flags, size_t *n);

/* ---- the kinds ---- */

void chats_post(struct server *s, struct evhttp_request *r);
void template_post(struct server *s, struct evhttp_request *r);
void messages_post(struct server *s, struct evhttp_request *r);
void count_tokens_post(struct server *s, struct evhttp_request *r);
void responses_post(struct server *s, struct evhttp_request *r);
void completions_post(struct server *s, struct evhttp_request *r);
void embeddings_post(struct server *s, struct evhttp_request *r);
void page_get(struct server *s, struct evhttp_request *r);
void models_get(struct server *s, struct evhttp_request *r);
void health_get(struct server *s, struct evhttp_request *r);
void props_get(struct server *s, struct evhttp_request *r);
void slots_get(struct server *s, struct evhttp_request *r);
void metrics_get(struct server *s, struct evhttp_request *r);
void tokenize_post(struct server *s, struct evhttp_request *r);
void detokenize_post(struct server *s, struct evhttp_request *r);

/* "stop", "length" of OpenAI */
const char *finish_reason(const struct task *t);
/* "usage":{...} and "timings":{...} of tasks that have ended. */
void put_usage(struct out *o, const struct exchange *x);
void put_timings(struct out *o, const struct task *t);
/* The model's name as JSON. */
void put_model(struct out *o, const struct server *s);
/* Of OpenAI's chats and completions, behind the choices: o, which is freed, is the answer, or the last chunk of a stream. */
void put_end(struct exchange *x, struct out *o);
/* What tokens of the choice have not been told of yet, as OpenAI's logprobs: of chats, or of completions. */
void put_logprobs(struct out *o, struct exchange *x, uint32_t choice);

#endif
