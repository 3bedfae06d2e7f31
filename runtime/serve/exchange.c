/* exchange.c -- a request that the model answers: its body, its tasks, and what they bring as it comes. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/run/entropy.h"
#include "runtime/text/tokenize.h"
#include "server.h"

/* Memory that a body's JSON may take, for each of its bytes. */
enum { ROOM_PER_BYTE = 24, ROOM_LEAST = 64 << 10 };

/* ---- clients that leave ---- */

static void unwatch(struct exchange *x)
{
    if (x->closed) event_free(x->closed);
    x->closed = NULL;
}

static void cancel(struct exchange *x)
{
    for (uint32_t i = 0; i < x->n_tasks; i++) batch_cancel(x->server->batch, x->tasks[i]);
}

/* The connection has failed, by a write for instance: the request is gone. */
static void on_gone(struct evhttp_connection *connection, void *exchange)
{
    struct exchange *x = exchange;
    (void)connection;
    if (!evhttp_request_get_connection(x->request)) evhttp_request_free(x->request);      /* else the connection frees it */
    x->request = NULL;
    unwatch(x);
    cancel(x);
}

static void on_closed(evutil_socket_t fd, short what, void *exchange);

/* evhttp, which does not read while a request is answered, would not know of a client that leaves before it writes.  libevent tells of a
 * side that is closed as EV_CLOSED, of a connection that is reset as of one to be read. */
static void watch_for(struct exchange *x, evutil_socket_t fd, short what)
{
    unwatch(x);
    x->closed = event_new(x->server->base, fd, what, on_closed, x);
    if (x->closed) event_add(x->closed, NULL);
}

static void on_closed(evutil_socket_t fd, short what, void *exchange)
{
    char byte;
    const ssize_t n = what & EV_CLOSED ? 0 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) watch_for(exchange, fd, EV_CLOSED);           /* the next request waits already */
    else cancel(exchange);
}

static void watch(struct exchange *x)
{
    struct evhttp_connection *c = evhttp_request_get_connection(x->request);
    evhttp_connection_set_closecb(c, on_gone, x);
    watch_for(x, bufferevent_getfd(evhttp_connection_get_bufferevent(c)), EV_READ | EV_CLOSED);
}

struct evhttp_request *exchange_let_go(struct exchange *x)
{
    struct evhttp_request *r = x->request;
    if (r) evhttp_connection_set_closecb(evhttp_request_get_connection(r), NULL, NULL);
    x->request = NULL;
    unwatch(x);
    return r;
}

/* ---- from the first byte to the last ---- */

struct exchange *exchange_open(struct server *s, struct evhttp_request *r, const struct reply_kind *kind)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(r);
    const size_t n = evbuffer_get_length(input);
    struct exchange *x = calloc(1, sizeof *x);
    void *room = malloc(n * ROOM_PER_BYTE + ROOM_LEAST);
    char *body = malloc(n + 1);
    if (!x || !room || !body) {
        free(x);
        free(room);
        free(body);
        reply_error(s, r, kind->anthropic, 503, "out of memory for a request of %zu bytes", n);
        return NULL;
    }
    evbuffer_copyout(input, body, n);
    body[n] = 0;
    *x = (struct exchange){ .server = s, .request = r, .kind = kind, .created = time(NULL), .body = body,
                            .room = room_of(room, n * ROOM_PER_BYTE + ROOM_LEAST), .next = s->exchanges };
    s->exchanges = x;
    snprintf(x->id, sizeof x->id, "%016llx%08x", (unsigned long long)entropy(), (uint32_t)entropy());
    watch(x);
    struct json_error error;
    x->json = json_read(&x->room, body, n, &error);
    if (!x->json && !error.why) exchange_refuse(x, 413, "the body has more values than are taken");
    else if (!x->json) exchange_refuse(x, 400, "the body is no JSON: %s at byte %zu", error.why, error.at);
    else if (x->json->kind != JSON_OBJECT) exchange_refuse(x, 400, "the body is no JSON object");
    else return x;
    return NULL;
}

static void free_task(struct task *t)
{
    guide_close(t->guide);
    free(t->prompt);
    free(t->text);
    free(t->tokens);
    free(t->vector);
    free((void *)(uintptr_t)t->sample.biases);
    free(t);
}

void exchange_close(struct exchange *x)
{
    struct exchange **p = &x->server->exchanges;
    while (*p != x) p = &(*p)->next;
    *p = x->next;
    unwatch(x);
    for (uint32_t i = 0; i < x->n_tasks; i++) free_task(x->tasks[i]);
    for (uint32_t i = 0; i < MOST_CHOICES; i++) {
        out_free(&x->texts[i]);
        out_free(&x->tokens[i]);
    }
    free(x->tasks);
    free(x->room.bytes);
    free(x->body);
    out_free(&x->guide_text);
    if (x->free_more) x->free_more(x);
    free(x);
}

/* ---- the body ---- */

const struct json *body_member(const struct json *o, const char *name)
{
    const struct json *v = json_member(o, name);
    return v && v->kind == JSON_NULL ? NULL : v;
}

bool body_bool(struct exchange *x, const struct json *o, const char *name, bool *out)
{
    const struct json *v = body_member(o, name);
    if (!v) return true;
    if (!json_is_bool(v)) return exchange_refuse(x, 400, "'%s' must be true or false", name);
    *out = v->kind == JSON_TRUE;
    return true;
}

bool body_integer(struct exchange *x, const char *name, int64_t low, int64_t high, int64_t *out)
{
    const struct json *v = body_member(x->json, name);
    if (!v) return true;
    if (!json_integer(v, low, high, out))
        return exchange_refuse(x, 400, "'%s' must be an integer of %lld to %lld", name, (long long)low, (long long)high);
    return true;
}

bool body_real(struct exchange *x, const char *name, double low, double high, float *out)
{
    const struct json *v = body_member(x->json, name);
    double value;
    if (!v) return true;
    if (!json_real(v, &value) || value < low || value > high)
        return exchange_refuse(x, 400, "'%s' must be a number of %g to %g", name, low, high);
    *out = (float)value;
    return true;
}

int32_t *body_tokens(struct exchange *x, const char *name, const struct json *v, uint32_t flags, size_t *n)
{
    const struct forge_program *p = x->server->program;
    if (v->kind == JSON_ARRAY) {
        int32_t *ids = malloc((v->n + 1) * sizeof *ids);
        *n = 0;
        for (const struct json *m = v->first; m && ids; m = m->next) {
            int64_t id;
            if (!json_integer(m, 0, (int64_t)p->n_vocab - 1, &id)) {
                free(ids);
                exchange_refuse(x, 400, "'%s' as a list must have token ids of 0 to %u", name, p->n_vocab - 1);
                return NULL;
            }
            ids[(*n)++] = (int32_t)id;
        }
        if (!ids) exchange_refuse(x, 503, "out of memory for '%s'", name);
        return ids;
    }
    struct forge_tokens tokens;
    struct forge_error error;
    if (!p->vocab) {
        exchange_refuse(x, 400, "the model has no tokenizer: '%s' must be a list of token ids", name);
        return NULL;
    }
    const enum forge_status status = tokens_of_text(&tokens, p->vocab, v->text, v->n, flags, &error);
    if (status != FORGE_OK) {
        exchange_refuse(x, status == FORGE_NO_MEMORY ? 503 : 400, "%s", error.text);
        return NULL;
    }
    *n = tokens.n;
    return tokens.ids;
}

static bool add_stop(struct exchange *x, struct task *t, const struct json *v)
{
    if (v->kind != JSON_STRING) return exchange_refuse(x, 400, "'stop' must be a string or a list of strings");
    if (v->n == 0) return true;
    if (t->n_stops == TASK_MOST_STOPS) return exchange_refuse(x, 400, "'stop' has more than %d strings", TASK_MOST_STOPS);
    if (v->n > 4096) return exchange_refuse(x, 400, "'stop' has a string of %zu bytes; 4096 are taken", v->n);
    t->stops[t->n_stops].text = v->text;
    t->stops[t->n_stops++].n = v->n;
    return true;
}

static bool read_stops(struct exchange *x, struct task *t)
{
    const struct json *v = body_member(x->json, "stop");
    if (!v) v = body_member(x->json, "stop_sequences");
    if (!v) return true;
    if (v->kind != JSON_ARRAY) return add_stop(x, t, v);
    for (const struct json *m = v->first; m; m = m->next) if (!add_stop(x, t, m)) return false;
    return true;
}

static bool add_bias(struct exchange *x, struct task *t, struct forge_bias *to, const struct json *id, const char *name, size_t n_name,
                     const struct json *bias)
{
    const struct json named = { .kind = JSON_NUMBER, .text = name, .n = n_name };
    int64_t token;
    double value;
    bool digits = n_name > 0;
    for (size_t i = 0; i < n_name; i++) digits &= name[i] >= '0' && name[i] <= '9';
    if (!id && digits) id = &named;
    if (!json_integer(id, 0, (int64_t)x->server->program->n_vocab - 1, &token))
        return exchange_refuse(x, 400, "'logit_bias' must name tokens by their ids, 0 to %u", x->server->program->n_vocab - 1);
    if (bias && bias->kind == JSON_FALSE) value = -1e30;
    else if (!json_real(bias, &value) || value < -1e30 || value > 1e30)
        return exchange_refuse(x, 400, "'logit_bias' of token %lld must be a number", (long long)token);
    to[t->sample.n_biases++] = (struct forge_bias){ (int32_t)token, (float)value };
    return true;
}

/* {"id": bias, ...}, or llama.cpp's [[id, bias], ...] */
static bool read_biases(struct exchange *x, struct task *t)
{
    const struct json *v = body_member(x->json, "logit_bias");
    if (!v || v->n == 0) return true;
    if (v->kind != JSON_OBJECT && v->kind != JSON_ARRAY)
        return exchange_refuse(x, 400, "'logit_bias' must be an object of token ids and numbers");
    if (v->n > 4096) return exchange_refuse(x, 400, "'logit_bias' has %zu tokens; 4096 are taken", v->n);
    struct forge_bias *to = malloc(v->n * sizeof *to);
    if (!to) return exchange_refuse(x, 503, "out of memory for 'logit_bias'");
    t->sample.biases = to;
    t->sample.n_biases = 0;
    for (const struct json *m = v->first; m; m = m->next) {
        const bool pair = v->kind == JSON_ARRAY;
        if (pair && (m->kind != JSON_ARRAY || m->n != 2))
            return exchange_refuse(x, 400, "'logit_bias' as a list has pairs of a token id and a number");
        if (!add_bias(x, t, to, pair ? m->first : NULL, m->name, m->n_name, pair ? m->first->next : m)) return false;
    }
    return true;
}

static bool read_sampling(struct exchange *x, struct task *t)
{
    struct forge_sample_options *o = &t->sample;
    int64_t top_k = o->top_k, last_n = o->repeat_last_n, seed = -1;
    if (!body_real(x, "temperature", 0, 100, &o->temp) || !body_real(x, "top_p", 0, 1, &o->top_p) ||
        !body_real(x, "min_p", 0, 1, &o->min_p) || !body_real(x, "presence_penalty", -100, 100, &o->presence_penalty) ||
        !body_real(x, "frequency_penalty", -100, 100, &o->frequency_penalty) ||
        !body_real(x, "repeat_penalty", 1e-3, 100, &o->repeat_penalty) || !body_integer(x, "top_k", INT32_MIN, INT32_MAX, &top_k) ||
        !body_integer(x, "repeat_last_n", -1, INT32_MAX, &last_n) || !body_integer(x, "seed", INT64_MIN, INT64_MAX, &seed))
        return false;
    o->top_k = (int32_t)top_k;
    o->repeat_last_n = (int32_t)last_n;
    if (seed != -1) o->seed = (uint64_t)seed;
    else if (!x->server->options->seed_given) o->seed = entropy();
    return true;
}

/* OpenAI's names and llama.cpp's; -1 and absent: as far as the context goes. */
static bool read_length(struct exchange *x, struct task *t, uint32_t n_ctx)
{
    static const char *const names[] = { "max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict" };
    int64_t most = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names && most < 0; i++)
        if (!body_integer(x, names[i], -1, INT32_MAX, &most)) return false;
    const uint32_t left = n_ctx - t->n_prompt + 1;
    t->most = most < 0 || most > left ? left : (uint32_t)most;
    return true;
}

static bool read_logprobs(struct exchange *x, struct task *t)
{
    int64_t top = 0;
    const struct json *v = body_member(x->json, "logprobs");
    const int64_t most = TASK_MOST_TOP;
    if (x->chat) {
        if (!body_bool(x, x->json, "logprobs", &t->logprobs) || !body_integer(x, "top_logprobs", 0, most, &top)) return false;
    } else if (v && v->kind == JSON_TRUE) t->logprobs = true;
    else if (v && v->kind != JSON_FALSE) {
        if (!body_integer(x, "logprobs", 0, most, &top)) return false;
        t->logprobs = true;
    }
    t->n_top = t->logprobs ? (uint32_t)top : 0;
    if (t->n_top > x->server->program->n_vocab) t->n_top = x->server->program->n_vocab;
    return true;
}

struct task *exchange_add(struct exchange *x, int32_t *prompt, size_t n_prompt)
{
    const uint32_t n_ctx = x->server->engine->n_ctx;
    struct task *t = calloc(1, sizeof *t), **more = realloc(x->tasks, (x->n_tasks + 1) * sizeof *more);
    if (more) x->tasks = more;
    if (!t || !more) {
        free(t);
        free(prompt);
        exchange_refuse(x, 503, "out of memory");
        return NULL;
    }
    t->prompt = prompt;
    t->n_prompt = (uint32_t)n_prompt;
    t->keeps_prefix = true;
    t->sample = x->server->options->sample;
    t->sample.biases = NULL;
    t->sample.n_biases = 0;
    x->tasks[x->n_tasks++] = t;
    if (n_prompt > 0 && n_prompt <= n_ctx) return t;
    if (n_prompt == 0) exchange_refuse(x, 400, "a text without a token");
    else exchange_refuse(x, 400, "a text of %zu tokens, the context holds %u (context_length_exceeded)", n_prompt, n_ctx);
    return NULL;
}

struct task *exchange_task(struct exchange *x, int32_t *prompt, size_t n_prompt)
{
    const uint32_t n_ctx = x->server->engine->n_ctx;
    struct task *t = exchange_add(x, prompt, n_prompt);
    if (!t) return NULL;
    if (!read_sampling(x, t) || !read_length(x, t, n_ctx) || !read_stops(x, t) || !read_biases(x, t) || !read_logprobs(x, t) ||
        !body_bool(x, x->json, "ignore_eos", &t->ignore_eos) || !body_bool(x, x->json, "cache_prompt", &t->keeps_prefix)) return NULL;
    return t;
}

bool exchange_choices(struct exchange *x, int32_t *ids, size_t n, uint32_t choices)
{
    int32_t *copies[MOST_CHOICES] = { ids };
    bool ok = true;
    for (uint32_t i = 1; i < choices; i++) {
        copies[i] = malloc((n + 1) * sizeof *ids);
        if (copies[i]) memcpy(copies[i], ids, n * sizeof *ids);
        ok &= copies[i] != NULL;
    }
    if (!ok) exchange_refuse(x, 503, "out of memory for the prompt");
    for (uint32_t i = 0; i < choices; i++) {
        struct task *t = ok ? exchange_task(x, copies[i], n) : NULL;
        if (!ok) free(copies[i]);
        else if (!t) ok = false;
        else t->sample.seed += i;
    }
    return ok;
}

bool exchange_submit(struct exchange *x)
{
    const uint32_t n = x->tasks[0]->vector ? 1 : x->n_tasks;
    for (uint32_t i = 0; i < n; i++) {
        if (batch_submit(x->server->batch, x->tasks[i], false)) continue;
        for (uint32_t k = 0; k < i; k++) batch_cancel(x->server->batch, x->tasks[k]);
        for (uint32_t k = i; k < x->n_tasks; k++) x->tasks[k]->end = TASK_CANCELLED;
        if (i == 0) return exchange_refuse(x, 429, "too many requests wait; try again later");
        struct evhttp_request *r = exchange_let_go(x);      /* some run already: they have to end first */
        reply_error(x->server, r, x->kind->anthropic, 429, "too many requests wait; try again later");
        return false;
    }
    return true;
}

/* ---- what the model brings ---- */

/* What the task has had since the last time, taken out of it. */
struct news { char *text; size_t n_text; uint8_t *tokens; size_t n_tokens; bool ended; };

static struct news take(struct server *s, struct task *t)
{
    batch_lock(s->batch);
    const struct news n = { t->text, t->n_text, t->tokens, t->n_tokens, t->end != TASK_RUNS };
    if (t->changed) {
        t->text = NULL;
        t->tokens = NULL;
        t->n_text = t->text_room = t->n_tokens = t->tokens_room = 0;
    }
    const bool changed = t->changed;
    t->changed = false;
    batch_unlock(s->batch);
    return changed ? n : (struct news){ .ended = n.ended };
}

/* Vectors that are not wanted any more. */
static void skip_rest(struct exchange *x, enum task_end end)
{
    for (; x->n_ended < x->n_tasks; x->n_ended++) {
        x->tasks[x->n_ended]->end = end;
        x->tasks[x->n_ended]->told = true;
    }
}

static void update(struct exchange *x)
{
    struct server *s = x->server;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        struct task *t = x->tasks[i];
        if (t->told) continue;
        const struct news n = take(s, t);
        if (n.n_tokens > 0) out_bytes(&x->tokens[i], (const char *)n.tokens, n.n_tokens * task_token_bytes(t));
        if (x->request && (n.n_text > 0 || n.n_tokens > 0)) x->kind->text(x, i, n.text, n.n_text);
        free(n.text);
        free(n.tokens);
        if (!n.ended) continue;
        t->told = true;
        x->n_ended++;
        if (t->vector && x->n_ended < x->n_tasks) {
            if (x->request && t->end == TASK_ENDED) { batch_submit(s->batch, x->tasks[x->n_ended], true); return; }
            skip_rest(x, t->end);
        }
        if (x->request && (t->end != TASK_FAILED && t->end != TASK_CANCELLED)) x->kind->choice_ends(x, i);
    }
    if (x->n_ended < x->n_tasks) return;
    for (uint32_t i = 0; i < x->n_tasks && x->request; i++) {
        const struct task *t = x->tasks[i];
        if (t->end == TASK_FAILED) { exchange_refuse(x, 500, "%s", t->error.text); return; }
        if (t->end == TASK_CANCELLED) { exchange_refuse(x, 503, "the server is ending"); return; }
    }
    if (x->request) x->kind->ends(x);
    exchange_close(x);
}

void exchanges_update(struct server *s)
{
    for (struct exchange *x = s->exchanges, *next; x; x = next) {
        next = x->next;
        update(x);
    }
}

/* ---- parts of answers ---- */

const char *finish_reason(const struct task *t) { return t->end == TASK_LENGTH ? "length" : "stop"; }

void put_usage(struct out *o, const struct exchange *x)
{
    uint32_t drawn = 0;
    for (uint32_t i = 0; i < x->n_tasks; i++) drawn += x->tasks[i]->n_drawn;
    const struct task *t = x->tasks[0];
    out_printf(
        o, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
        t->n_prompt, drawn, t->n_prompt + drawn, t->n_cached);
}

static void put_rate(struct out *o, const char *name, uint32_t n, double seconds)
{
    out_printf(o, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.4f,\"%s_per_second\":%.3f", name, n, name, 1e3 * seconds, name,
               n > 0 ? 1e3 * seconds / n : 0.0, name, seconds > 0 ? n / seconds : 0.0);
}

void put_timings(struct out *o, const struct task *t)
{
    out_printf(o, "\"timings\":{\"cache_n\":%u,", t->n_cached);
    put_rate(o, "prompt", t->n_prompt - t->n_cached, t->prompt_seconds);
    out_text(o, ",");
    put_rate(o, "predicted", t->n_drawn, t->draw_seconds);
    out_text(o, "}");
}

void put_model(struct out *o, const struct server *s) { out_string(o, s->program->model_name, strlen(s->program->model_name)); }

void put_end(struct exchange *x, struct out *o)
{
    out_text(o, "],");
    put_usage(o, x);
    out_text(o, ",");
    put_timings(o, x->tasks[0]);
    out_text(o, "}");
    if (!x->stream) { exchange_reply(x, 200, o); return; }
    if (x->usage) stream_event(x, NULL, o);
    stream_finish(x, "[DONE]");
    out_free(o);
}

/* The bytes of a token, none where the model has no tokenizer; at most size are written. */
static size_t token_bytes(const struct exchange *x, int32_t id, char *to, size_t size)
{
    const uint8_t *vocab = x->server->program->vocab;
    const size_t n = vocab ? forge_token_text(vocab, id, true, to, size) : 0;
    return n < size ? n : size;
}

static void put_token(struct out *o, const struct exchange *x, int32_t id)
{
    char text[512];
    out_string(o, text, token_bytes(x, id, text, sizeof text));
}

static void put_bytes(struct out *o, const struct exchange *x, int32_t id)
{
    char text[512];
    const size_t n = token_bytes(x, id, text, sizeof text);
    out_text(o, "[");
    for (size_t i = 0; i < n; i++) out_printf(o, i ? ",%u" : "%u", (uint8_t)text[i]);
    out_text(o, "]");
}

static void put_chat_token(struct out *o, const struct exchange *x, int32_t id, float logprob)
{
    out_text(o, "{\"token\":");
    put_token(o, x, id);
    out_printf(o, ",\"logprob\":%.6g,\"bytes\":", (double)logprob);
    put_bytes(o, x, id);
}

void put_logprobs(struct out *o, struct exchange *x, uint32_t choice)
{
    const struct task *t = x->tasks[choice];
    const size_t bytes = task_token_bytes(t), n = x->tokens[choice].n / bytes;
    const struct task_token *token;
#define EACH_TOKEN(i) \
    for (size_t i = 0; i < n && (token = (const void *)(x->tokens[choice].bytes + i * bytes), i == 0 || (out_text(o, ","), true)); i++)
    if (!t->logprobs) { out_text(o, "null"); return; }
    if (x->chat) {
        out_text(o, "{\"content\":[");
        EACH_TOKEN(i) {
            put_chat_token(o, x, token->id, token->logprob);
            out_text(o, ",\"top_logprobs\":[");
            for (uint32_t k = 0; k < t->n_top; k++) {
                if (k) out_text(o, ",");
                put_chat_token(o, x, token->top[k].id, token->top[k].logprob);
                out_text(o, "}");
            }
            out_text(o, "]}");
        }
        out_text(o, "],\"refusal\":null}");
    } else {
        out_text(o, "{\"tokens\":[");
        EACH_TOKEN(i) put_token(o, x, token->id);
        out_text(o, "],\"token_logprobs\":[");
        EACH_TOKEN(i) out_printf(o, "%.6g", (double)token->logprob);
        out_text(o, "],\"top_logprobs\":[");
        EACH_TOKEN(i) {
            out_text(o, "{");
            for (uint32_t k = 0; k < t->n_top; k++) {
                if (k) out_text(o, ",");
                put_token(o, x, token->top[k].id);
                out_printf(o, ":%.6g", (double)token->top[k].logprob);
            }
            out_text(o, "}");
        }
        out_text(o, "],\"text_offset\":[");
        EACH_TOKEN(i) {
            out_printf(o, "%zu", x->offsets[choice]);
            if (x->server->program->vocab)
                x->offsets[choice] += forge_token_text(x->server->program->vocab, token->id, t->special, NULL, 0);
        }
        out_text(o, "]}");
    }
#undef EACH_TOKEN
    x->tokens[choice].n = 0;
}
