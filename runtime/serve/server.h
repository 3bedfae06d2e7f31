/* server.h -- the program as an HTTP server: declarations that its parts share.  One thread does HTTP (libevent), another reads the bodies
 * of requests (reader.c), a third runs the model (batch.h). */
#ifndef FORGE_SERVER_H
#define FORGE_SERVER_H

#include <stdatomic.h>
#include <time.h>

#include "batch.h"
#include "http.h"
#include "out.h"
#include "runtime/run/session.h"

struct server;
struct request;

enum api_form { OPENAI_FORM, ANTHROPIC_FORM, OLLAMA_FORM };

/* How one kind of request is answered.  Called on the thread of HTTP. */
struct reply_kind {
    /* text: a choice has new text, which is valid only during the call.  choice_ends: the choice has ended. */
    void (*text)(struct request *x, uint32_t choice, const char *text, size_t n);
    void (*choice_ends)(struct request *x, uint32_t choice);
    void (*ends)(struct request *x);         /* all choices have ended, or the request has no task */
    enum api_form form;                      /* of errors and streams */
    uint32_t route;                          /* whose members a body may have; 0: they are not looked at */
};
enum { ROUTE_CHATS = 1, ROUTE_COMPLETIONS = 2, ROUTE_RESPONSES = 4, ROUTE_MESSAGES = 8, ROUTE_EMBEDDINGS = 16,
       ROUTE_OLLAMA_CHAT = 32, ROUTE_OLLAMA_GENERATE = 64, ROUTE_OLLAMA_EMBED = 128, ROUTE_OLLAMA_OPTIONS = 256,
       ROUTE_NATIVE = 512, ROUTE_INFILL = 1024 };

enum { MOST_CHOICES = 128, MOST_TEXTS = 1024 };               /* of one prompt; of a request */

/* What a task has made and the client has not got. */
struct request_text {
    struct out text, tokens;                 /* tokens: struct task_token, with logprobs */
    int64_t offset;                          /* characters of text before these tokens; native.c: bytes that have been sent */
};

/* A request with a body.  The reader's thread reads it, then the model's thread makes its texts, and the thread of HTTP sends them.  The
 * model's thread uses only the tasks (batch.h). */
struct request {
    struct server *server;
    struct http_request *http;               /* NULL: the client has gone, or has its answer; for the thread of HTTP alone */
    void   (*read)(struct request *x);       /* what the reader's thread calls: one of the routes below */
    bool     reading;                        /* until the thread of HTTP has the request back */
    atomic_bool unwanted;                    /* the client has gone */
    int      code;                           /* how reading ended: with this status, or 0: the tasks are to be submitted */
    struct out early;                        /* the answer with this status; for an error only its message */
    const struct reply_kind *kind;
    struct request *next, *next_read;        /* next_read: in a list of the reader */
    struct task **tasks;                     /* [n_tasks] */
    struct request_text *texts;              /* [n_tasks] */
    uint32_t n_tasks, n_sent, n_ended;       /* n_sent: submitted to the model */
    uint32_t n_choices;                      /* tasks for each prompt */
    bool     stream, streams, started;       /* wanted; the answer has begun as a stream; its first event has been sent */
    bool     usage, chat;                    /* usage: the last chunk contains it */
    char     id[48];
    time_t   created;
    double   began;                          /* seconds_now() */
    struct room room;                        /* memory of the body's JSON; freed with the request */
    char    *body;                           /* [n_body] */
    size_t   n_body;
    const struct json *json;
    struct out guide_text;                   /* text of schemas and grammars for guides */
    struct out warnings;                     /* JSON strings with commas: what of the request has no effect */
    uint32_t n_warnings;
    void    *more;                           /* data of the kind; free_more frees it */
    void   (*free_more)(struct request *x);
};

struct server {
    const struct forge_options *options;
    const struct forge_program *program;
    struct forge_engine *engine;
    struct batch *batch;
    struct event_base *base;
    struct http *http;
    struct reader *reader;
    struct request *requests;
    struct lexicon *lexicon;                 /* for guides; the reader makes it for the first one */
    const struct json *kwargs;               /* --chat-template-kwargs, or NULL */
    void    *kwargs_memory;
    char   **keys;                           /* [n_keys] */
    size_t   n_keys;
    bool     is_local;                       /* bound to the loopback interface or to a Unix socket */
    const char *socket_path;                 /* NULL: not a Unix socket */
    bool     leaving, draining;              /* /health returns 503; new requests are refused */
    int      wake_fd;
    uint64_t n_requests, n_refused, n_warned;
    time_t   began;
    struct forge_error *error;
    enum forge_status status;
};

/* ---- routes.c ---- */

/* Listens where the options say. */
enum forge_status routes_open(struct server *s, struct forge_error *error);
void routes_close(struct server *s);

/* Ends the request with this JSON; frees o. */
void reply_json(struct server *s, struct http_request *r, int code, struct out *o);
/* Answers 200 with a text of another type; the page gets its content security policy. */
void reply_text(struct server *s, struct http_request *r, const char *type, struct out *o);
/* Answers with an error in this form.  A message about a member of the body begins with its name in quotes, which
 * becomes OpenAI's "param"; a message may end with a word in parentheses, which becomes "code". */
__attribute__((format(printf, 5, 6)))
void reply_error(struct server *s, struct http_request *r, enum api_form form, int code, const char *format, ...);
/* reply_json for a struct request; on any thread. */
void request_reply(struct request *x, int code, struct out *o);
/* Begins the answer as a stream, unless it has begun. */
void stream_begin(struct request *x);
/* Sends a piece of a stream: "data: " and the text, a named event, or for Ollama a line; empties data. */
void stream_event(struct request *x, const char *name, struct out *data);
/* Ends a stream; last: a line of data before the end, or NULL. */
void stream_finish(struct request *x, const char *last);

/* ---- request.c: requests that the model answers ---- */

/* Opens a request for r and lets the reader's thread call `read`.  form: of an error. */
void request_open(struct server *s, struct http_request *r, void (*read)(struct request *x), enum api_form form);
void request_close(struct request *x);
/* Submits the tasks of a request that has been read, or sends the answer that it has already. */
void request_go_on(struct request *x);
/* Refuses the request; returns false, so that the caller can return it.  While the request is read, the first call counts, and the request
 * stays valid; later the request is closed. */
__attribute__((format(printf, 3, 4)))
bool request_refuse(struct request *x, int code, const char *format, ...);
/* Reads the body as JSON and looks at its members. */
bool request_read(struct request *x, const struct reply_kind *kind);
/* Makes a task with sampling, stops and length from the body.  prompt: from malloc; the task owns it.  NULL: refused. */
struct task *request_task(struct request *x, int32_t *prompt, size_t n_prompt);
/* Makes `choices` tasks with one prompt and consecutive seeds; owns ids.  Each call for a request has the same number.  False: refused. */
bool request_choices(struct request *x, int32_t *ids, size_t n, uint32_t choices);
/* Adds a task.  If it fails, it frees what it has and returns NULL: refused. */
struct task *request_add(struct request *x, int32_t *prompt, size_t n_prompt);
/* Sends what the model has done since the last call. */
void requests_update(struct server *s);
/* The request has its answer: it no longer watches the connection.  Returns its r, or NULL. */
struct http_request *request_let_go(struct request *x);

/* ---- reader.c: the thread that reads requests ---- */

/* The reader's list is first come, first served.  It is short: a connection has one request. */
enum forge_status reader_open(struct server *s, struct forge_error *error);
/* Waits for the request that is being read, if there is one; others stay unread. */
void reader_close(struct server *s);
void reader_give(struct reader *reader, struct request *x);
/* The requests that have been read since the last call, linked by next_read; wake_fd is written when there are new ones. */
struct request *reader_take(struct reader *reader);

/* ---- members.c ---- */

/* Looks for members that the route does not know or cannot do, and brings those of vLLM to the names that guided_tasks reads.  False:
 * refused. */
bool request_members(struct request *x, uint32_t route);
/* Part of the request has no effect: says so in the answer and on stderr. */
__attribute__((format(printf, 2, 3)))
void request_warn(struct request *x, const char *format, ...);
/* Writes ,"warnings":[...] if there are any. */
void put_warnings(struct out *o, const struct request *x);

/* ---- members of bodies, for the reader; false: refused ---- */

/* NULL: absent or null. */
const struct json *body_member(const struct json *o, const char *name);

bool body_bool(struct request *x, const struct json *o, const char *name, bool *out);
bool body_integer(struct request *x, const char *name, int64_t low, int64_t high,
                  int64_t *out);      /* *out is unchanged if the member is absent or null */
bool body_real(struct request *x, const char *name, double low, double high, float *out);

/* The tokens of v, from malloc; flags: of forge_tokenize.  v: a string, or a list of token ids and strings, of which only the first gets
 * BOS.  NULL: refused. */
int32_t *body_tokens(struct request *x, const char *name, const struct json *v, uint32_t flags, size_t *n);
/* Is v a list of several prompts?  A list with a number is a single prompt. */
bool body_is_list(const struct json *v);

/* ---- llama.cpp's own API: native.c ---- */

/* Reads the body of a request that is answered in llama.cpp's form.  False: refused. */
bool native_read(struct request *x, uint32_t route);
/* Adds the task of one prompt; owns ids.  False: refused. */
bool native_add(struct request *x, int32_t *ids, size_t n);

/* ---- text between two texts: infill.c ---- */

/* Can the model fill in text?  False: refused with this status. */
bool infill_possible(struct request *x, int status);
/* The prompt for the text between a prefix and a suffix, which are whole, from malloc.  NULL: refused. */
int32_t *infill_between(struct request *x, const struct json *prefix, const struct json *suffix, size_t *n);

/* ---- the routes ---- */

/* POST: called by the reader's thread.  If it has neither refused nor answered, the tasks are submitted. */
void chats_post(struct request *x);
void chats_tokens_post(struct request *x);
void template_post(struct request *x);
void messages_post(struct request *x);
void count_tokens_post(struct request *x);
void responses_post(struct request *x);
void responses_tokens_post(struct request *x);
void completions_post(struct request *x);
void native_post(struct request *x);
void infill_post(struct request *x);
void embeddings_post(struct request *x);
void native_embeddings_post(struct request *x);
void ollama_chat_post(struct request *x);
void ollama_generate_post(struct request *x);
void ollama_embed_post(struct request *x);
void ollama_embeddings_post(struct request *x);
void ollama_show_post(struct request *x);
void tokenize_post(struct request *x);
void detokenize_post(struct request *x);

/* GET: called on the thread of HTTP. */
void ollama_tags_get(struct server *s, struct http_request *r);
void ollama_ps_get(struct server *s, struct http_request *r);
void ollama_version_get(struct server *s, struct http_request *r);
void page_get(struct server *s, struct http_request *r);
void models_get(struct server *s, struct http_request *r);
void model_get(struct server *s, struct http_request *r);
void health_get(struct server *s, struct http_request *r);
void props_get(struct server *s, struct http_request *r);
void slots_get(struct server *s, struct http_request *r);
void metrics_get(struct server *s, struct http_request *r);

/* ---- vectors: simple.c ---- */

/* For struct reply_kind: vectors have no text. */
void vectors_no_text(struct request *x, uint32_t choice, const char *text, size_t n);
void vectors_no_end(struct request *x, uint32_t choice);
/* Makes a task for each text of `input`, which may be NULL.  False: refused. */
bool vectors_tasks(struct request *x, const struct json *input);
/* Writes the vector of a task as a JSON array. */
void put_vector(struct out *o, const struct request *x, uint32_t task);

/* ---- parts of answers ---- */

/* OpenAI's "stop" or "length". */
const char *finish_reason(const struct task *t);
/* Writes "usage":{...} and "timings":{...} of tasks that have ended. */
void put_usage(struct out *o, const struct request *x);
void put_timings(struct out *o, const struct task *t);
/* The model's name: --alias, else the file's. */
const char *model_name(const struct server *s);
/* Writes it as JSON. */
void put_model(struct out *o, const struct server *s);
/* Writes ,"system_fingerprint":"..." of OpenAI's answers: the build, "b", forgec's version and the target. */
void put_fingerprint(struct out *o, const struct server *s);
/* Answers with the number of tokens of the prompt, in OpenAI's form. */
void reply_tokens(struct request *x);
/* The word of Anthropic's API for a thread that the server does not hold; in the text of a refusal. */
#define THREAD_UNSUPPORTED "thread_unsupported_request"
/* Ends an answer of OpenAI's chats or completions after the choices: o is the whole answer, or the last chunk of a stream; frees o. */
void put_end(struct request *x, struct out *o);
/* Writes OpenAI's logprobs, of chats or completions, for tokens of the choice that have not been sent yet. */
void put_logprobs(struct out *o, struct request *x, uint32_t choice);
/* Writes the text of a token; its bytes as a list of numbers. */
void put_token(struct out *o, const struct request *x, int32_t id);
void put_token_bytes(struct out *o, const struct request *x, int32_t id);

#endif
