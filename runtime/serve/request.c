/* request.c -- requests that the model answers: their bodies, their tasks, and the results of the tasks as they arrive. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/run/entropy.h"
#include "runtime/text/tokenize.h"
#include "server.h"

/* Memory for a body's JSON, per byte of the body. */
enum { ROOM_PER_BYTE = 24, ROOM_LEAST = 64 << 10 };
enum { MOST_BIASES = 4096, MOST_AT_ONCE = 16 };              /* MOST_AT_ONCE: texts of a request that begin with it */

/* ---- clients that disconnect ---- */

static void on_gone(void *request)
{
    struct request *x = request;
    x->http = NULL;
    x->unwanted = true;
    for (uint32_t i = 0; !x->reading && i < x->n_tasks; i++) batch_cancel(x->server->batch, x->tasks[i]);
}

struct http_request *request_let_go(struct request *x)
{
    struct http_request *r = x->http;
    if (r) http_watch(r, NULL, NULL);
    x->http = NULL;
    return r;
}

/* ---- from the first byte to the last ---- */

void request_open(struct server *s, struct http_request *r, void (*read)(struct request *x), enum api_form form)
{
    const size_t n = http_body_bytes(r);
    struct request *x = calloc(1, sizeof *x);
    char *body = malloc(n + 1);
    if (!x || !body) {
        free(x);
        free(body);
        reply_error(s, r, form, 503, "out of memory for a request of %zu bytes", n);
        return;
    }
    http_body(r, body);
    body[n] = 0;
    *x = (struct request){ .server = s, .http = r, .read = read, .reading = true, .created = time(NULL), .began = seconds_now(),
                           .body = body, .n_body = n, .next = s->requests };
    s->requests = x;
    snprintf(x->id, sizeof x->id, "%016llx%08x", (unsigned long long)entropy(), (uint32_t)entropy());
    http_watch(r, on_gone, x);
    reader_give(s->reader, x);
}

bool request_read(struct request *x, const struct reply_kind *kind)
{
    const size_t n = x->n_body * ROOM_PER_BYTE + ROOM_LEAST;
    void *room = malloc(n);
    struct json_error error;
    x->kind = kind;
    if (!room) return request_refuse(x, 503, "out of memory for a request of %zu bytes", x->n_body);
    x->room = room_of(room, n);
    x->json = json_read(&x->room, x->body, x->n_body, &error);
    if (!x->json && !error.why) return request_refuse(x, 413, "the body has too many values");
    if (!x->json) return request_refuse(x, 400, "the body is not JSON (byte %zu): %s", error.at, error.why);
    if (x->json->kind != JSON_OBJECT) return request_refuse(x, 400, "the body is not a JSON object");
    return !kind->route || request_members(x, kind->route);
}

static void free_task(struct task *t)
{
    guide_close(t->guide);
    free(t->watch);
    free(t->prompt);
    free(t->text);
    free(t->tokens);
    free(t->vector);
    free((void *)(uintptr_t)t->sample.biases);
    free(t);
}

void request_close(struct request *x)
{
    struct request **p = &x->server->requests;
    while (*p != x) p = &(*p)->next;
    *p = x->next;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        free_task(x->tasks[i]);
        out_free(&x->texts[i].text);
        out_free(&x->texts[i].tokens);
    }
    free(x->tasks);
    free(x->texts);
    free(x->room.bytes);
    free(x->body);
    out_free(&x->early);
    out_free(&x->guide_text);
    out_free(&x->warnings);
    if (x->free_more) x->free_more(x);
    free(x);
}

/* ---- the body ---- */

const struct json *body_member(const struct json *o, const char *name)
{
    const struct json *v = json_member(o, name);
    return v && v->kind == JSON_NULL ? NULL : v;
}

bool body_bool(struct request *x, const struct json *o, const char *name, bool *out)
{
    const struct json *v = body_member(o, name);
    if (!v) return true;
    if (!json_is_bool(v)) return request_refuse(x, 400, "'%s' must be true or false", name);
    *out = v->kind == JSON_TRUE;
    return true;
}

bool body_integer(struct request *x, const char *name, int64_t low, int64_t high, int64_t *out)
{
    const struct json *v = body_member(x->json, name);
    if (!v) return true;
    if (!json_integer(v, low, high, out))
        return request_refuse(x, 400, "'%s' must be an integer of %lld to %lld", name, (long long)low, (long long)high);
    return true;
}

bool body_real(struct request *x, const char *name, double low, double high, float *out)
{
    const struct json *v = body_member(x->json, name);
    double value;
    if (!v) return true;
    if (!json_real(v, &value) || value < low || value > high)
        return request_refuse(x, 400, "'%s' must be a number of %g to %g", name, low, high);
    *out = (float)value;
    return true;
}

/* The tokens of a text, from malloc.  False: refused. */
static bool text_tokens(struct request *x, const char *name, const struct json *v, uint32_t flags, struct forge_tokens *tokens)
{
    const uint8_t *vocab = x->server->program->vocab;
    struct forge_error error;
    if (!vocab) return request_refuse(x, 400, "the model has no tokenizer: '%s' must be a list of token ids", name);
    const enum forge_status status = tokens_of_text(tokens, vocab, v->text, v->n, flags, &error);
    return status == FORGE_OK || request_refuse(x, status == FORGE_NO_MEMORY ? 503 : 400, "%s", error.text);
}

/* Adds the token or the text m to ids, which have room for `more` further tokens. */
static bool add_tokens(struct request *x, const char *name, const struct json *m, uint32_t flags, size_t more, int32_t **ids, size_t *n)
{
    const uint32_t n_vocab = x->server->program->n_vocab;
    struct forge_tokens tokens;
    int64_t id;
    if (m->kind != JSON_STRING) {
        if (!json_integer(m, 0, (int64_t)n_vocab - 1, &id))
            return request_refuse(x, 400, "'%s' as a list must have token ids of 0 to %u", name, n_vocab - 1);
        (*ids)[(*n)++] = (int32_t)id;
        return true;
    }
    if (!text_tokens(x, name, m, flags, &tokens)) return false;
    int32_t *all = realloc(*ids, (*n + tokens.n + more + 1) * sizeof *all);
    if (all) {
        memcpy(all + *n, tokens.ids, tokens.n * sizeof *all);
        *n += tokens.n;
        *ids = all;
    }
    free(tokens.ids);
    return all || request_refuse(x, 503, "out of memory for '%s'", name);
}

int32_t *body_tokens(struct request *x, const char *name, const struct json *v, uint32_t flags, size_t *n)
{
    if (v->kind != JSON_ARRAY) {
        struct forge_tokens tokens;
        if (!text_tokens(x, name, v, flags, &tokens)) return NULL;
        *n = tokens.n;
        return tokens.ids;
    }
    int32_t *ids = malloc((v->n + 1) * sizeof *ids);
    size_t left = v->n;
    *n = 0;
    if (!ids) request_refuse(x, 503, "out of memory for '%s'", name);
    for (const struct json *m = v->first; m && ids; m = m->next) {
        if (add_tokens(x, name, m, m == v->first ? flags : flags & ~(uint32_t)FORGE_TOK_ADD, --left, &ids, n)) continue;
        free(ids);
        return NULL;
    }
    return ids;
}

bool body_is_list(const struct json *v)
{
    if (v->kind != JSON_ARRAY || v->n == 0) return false;
    for (const struct json *m = v->first; m; m = m->next) if (m->kind == JSON_NUMBER) return false;
    return true;
}

static bool add_stop(struct request *x, struct task *t, const struct json *v)
{
    if (v->kind != JSON_STRING) return request_refuse(x, 400, "'stop' must be a string or a list of strings");
    if (v->n == 0) return true;
    if (t->n_stops == TASK_MOST_STOPS) return request_refuse(x, 400, "'stop' has more than %d strings", TASK_MOST_STOPS);
    if (v->n > 4096) return request_refuse(x, 400, "'stop' has a string of %zu bytes; the maximum is 4096", v->n);
    t->stops[t->n_stops].text = v->text;
    t->stops[t->n_stops++].n = v->n;
    return true;
}

static bool read_stops(struct request *x, struct task *t)
{
    const struct json *v = body_member(x->json, "stop");
    if (!v) v = body_member(x->json, "stop_sequences");
    if (!v) return true;
    if (v->kind != JSON_ARRAY) return add_stop(x, t, v);
    for (const struct json *m = v->first; m; m = m->next) if (!add_stop(x, t, m)) return false;
    return true;
}

/* vLLM's stop_token_ids and min_tokens. */
static bool read_ends(struct request *x, struct task *t)
{
    const struct json *v = body_member(x->json, "stop_token_ids");
    int64_t least = 0, id;
    if (!body_integer(x, "min_tokens", 0, INT32_MAX, &least)) return false;
    t->least = (uint32_t)least;
    if (!v) return true;
    if (v->kind != JSON_ARRAY || v->n > 1024) return request_refuse(x, 400, "'stop_token_ids' must be a list of at most 1024 token ids");
    int32_t *ends = room_array(&x->room, v->n, sizeof *ends);
    if (!ends) return request_refuse(x, 413, "the body has too many values");
    for (const struct json *m = v->first; m; m = m->next) {
        if (!json_integer(m, 0, (int64_t)x->server->program->n_vocab - 1, &id))
            return request_refuse(x, 400, "'stop_token_ids' must have token ids of 0 to %u", x->server->program->n_vocab - 1);
        ends[t->n_ends++] = (int32_t)id;
    }
    t->ends = ends;
    return true;
}

/* Adds a bias to each token of a text. */
static bool bias_text(struct request *x, struct task *t, struct forge_bias *to, const struct json *text, float value)
{
    struct forge_tokens tokens;
    struct forge_error error;
    if (!x->server->program->vocab || tokens_of_text(&tokens, x->server->program->vocab, text->text, text->n, 0, &error) != FORGE_OK)
        return request_refuse(x, 400, "a text of 'logit_bias' has no tokens");
    if (t->sample.n_biases + tokens.n > MOST_BIASES) {
        free(tokens.ids);
        return request_refuse(x, 400, "'logit_bias' has more than %d tokens", MOST_BIASES);
    }
    for (size_t i = 0; i < tokens.n; i++) to[t->sample.n_biases++] = (struct forge_bias){ tokens.ids[i], value };
    free(tokens.ids);
    return true;
}

static bool add_bias(struct request *x, struct task *t, struct forge_bias *to, const struct json *id, const char *name, size_t n_name,
                     const struct json *bias)
{
    const struct json named = { .kind = JSON_NUMBER, .text = name, .n = n_name }, text = { .kind = JSON_STRING, .text = name, .n = n_name };
    int64_t token;
    double value;
    bool digits = n_name > 0;
    for (size_t i = 0; i < n_name; i++) digits &= name[i] >= '0' && name[i] <= '9';
    if (!id) id = digits ? &named : &text;
    if (id && id->kind == JSON_STRING && bias && bias->kind == JSON_FALSE) return bias_text(x, t, to, id, -1e30f);
    if (id && id->kind == JSON_STRING && json_real(bias, &value) && value >= -1e30 && value <= 1e30)
        return bias_text(x, t, to, id, (float)value);
    if (!json_integer(id, 0, (int64_t)x->server->program->n_vocab - 1, &token))
        return request_refuse(x, 400, "'logit_bias' must name tokens by their ids, 0 to %u", x->server->program->n_vocab - 1);
    if (bias && bias->kind == JSON_FALSE) value = -1e30;
    else if (!json_real(bias, &value) || value < -1e30 || value > 1e30)
        return request_refuse(x, 400, "'logit_bias' of token %lld must be a number", (long long)token);
    to[t->sample.n_biases++] = (struct forge_bias){ (int32_t)token, (float)value };
    return true;
}

/* Reads {"id": bias, ...}, or llama.cpp's [[id, bias], ...].  A text in place of an id stands for its tokens. */
static bool read_biases(struct request *x, struct task *t)
{
    const struct json *v = body_member(x->json, "logit_bias");
    if (!v || v->n == 0) return true;
    if (v->kind != JSON_OBJECT && v->kind != JSON_ARRAY)
        return request_refuse(x, 400, "'logit_bias' must be an object of token ids and numbers");
    if (v->n > MOST_BIASES) return request_refuse(x, 400, "'logit_bias' has %zu tokens; the maximum is %d", v->n, MOST_BIASES);
    struct forge_bias *to = malloc(MOST_BIASES * sizeof *to);
    if (!to) return request_refuse(x, 503, "out of memory for 'logit_bias'");
    t->sample.biases = to;
    t->sample.n_biases = 0;
    for (const struct json *m = v->first; m; m = m->next) {
        const bool pair = v->kind == JSON_ARRAY;
        if (t->sample.n_biases == MOST_BIASES) return request_refuse(x, 400, "'logit_bias' has more than %d tokens", MOST_BIASES);
        if (pair && (m->kind != JSON_ARRAY || m->n != 2))
            return request_refuse(x, 400, "'logit_bias' as a list has pairs of a token id and a number");
        if (!add_bias(x, t, to, pair ? m->first : NULL, m->name, m->n_name, pair ? m->first->next : m)) return false;
    }
    return true;
}

static bool read_sampling(struct request *x, struct task *t)
{
    struct forge_sample_options *o = &t->sample;
    int64_t top_k = o->top_k, last_n = o->repeat_last_n, seed = -1;
    if (!body_real(x, "temperature", 0, 100, &o->temp) || !body_real(x, "top_p", 0, 1, &o->top_p) ||
        !body_real(x, "min_p", 0, 1, &o->min_p) || !body_real(x, "presence_penalty", -100, 100, &o->presence_penalty) ||
        !body_real(x, "frequency_penalty", -100, 100, &o->frequency_penalty) ||
        !body_real(x, "repetition_penalty", 1e-3, 100, &o->repeat_penalty) ||
        !body_real(x, "repeat_penalty", 1e-3, 100, &o->repeat_penalty) || !body_integer(x, "top_k", INT32_MIN, INT32_MAX, &top_k) ||
        !body_integer(x, "repeat_last_n", -1, INT32_MAX, &last_n) || !body_integer(x, "seed", INT64_MIN, INT64_MAX, &seed))
        return false;
    o->top_k = (int32_t)top_k;
    o->repeat_last_n = (int32_t)last_n;
    if (seed != -1) o->seed = (uint64_t)seed;
    else if (!x->server->options->seed_given) o->seed = entropy();
    return true;
}

/* Names of OpenAI and of llama.cpp; -1 or absent: up to the end of the context. */
static bool read_length(struct request *x, struct task *t, uint32_t n_ctx)
{
    static const char *const names[] = { "max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict" };
    int64_t most = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names && most < 0; i++)
        if (!body_integer(x, names[i], -1, INT32_MAX, &most)) return false;
    const uint32_t left = n_ctx - t->n_prompt + 1;
    t->most = most < 0 || most > left ? left : (uint32_t)most;
    return true;
}

static bool read_logprobs(struct request *x, struct task *t)
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

struct task *request_add(struct request *x, int32_t *prompt, size_t n_prompt)
{
    const uint32_t n_ctx = x->server->engine->n_ctx;
    struct task *t = calloc(1, sizeof *t), **more = realloc(x->tasks, (x->n_tasks + 1) * sizeof *more);
    struct request_text *texts = realloc(x->texts, (x->n_tasks + 1) * sizeof *texts);
    if (more) x->tasks = more;
    if (texts) x->texts = texts;
    if (!t || !more || !texts) {
        free(t);
        free(prompt);
        request_refuse(x, 503, "out of memory for a text of the request");
        return NULL;
    }
    t->prompt = prompt;
    t->n_prompt = (uint32_t)n_prompt;
    t->keeps_prefix = true;
    t->sample = x->server->options->sample;
    t->sample.biases = NULL;
    t->sample.n_biases = 0;
    x->texts[x->n_tasks] = (struct request_text){ 0 };
    x->tasks[x->n_tasks++] = t;
    if (n_prompt > 0 && n_prompt <= n_ctx) return t;
    if (n_prompt == 0) request_refuse(x, 400, "the text has no token");
    else request_refuse(x, 400, "the text has %zu tokens; the context holds %u (context_length_exceeded)", n_prompt, n_ctx);
    return NULL;
}

struct task *request_task(struct request *x, int32_t *prompt, size_t n_prompt)
{
    const uint32_t n_ctx = x->server->engine->n_ctx;
    struct task *t = request_add(x, prompt, n_prompt);
    if (!t) return NULL;
    if (!read_sampling(x, t) || !read_length(x, t, n_ctx) || !read_stops(x, t) || !read_ends(x, t) || !read_biases(x, t) ||
        !read_logprobs(x, t) || !body_bool(x, x->json, "ignore_eos", &t->ignore_eos) ||
        !body_bool(x, x->json, "cache_prompt", &t->keeps_prefix)) return NULL;
    return t;
}

bool request_choices(struct request *x, int32_t *ids, size_t n, uint32_t choices)
{
    int32_t *copies[MOST_CHOICES] = { ids };
    bool ok = true;
    x->n_choices = choices;
    for (uint32_t i = 1; i < choices; i++) {
        copies[i] = malloc((n + 1) * sizeof *ids);
        if (copies[i]) memcpy(copies[i], ids, n * sizeof *ids);
        ok &= copies[i] != NULL;
    }
    if (!ok) request_refuse(x, 503, "out of memory for the prompt");
    for (uint32_t i = 0; i < choices; i++) {
        struct task *t = ok ? request_task(x, copies[i], n) : NULL;
        if (!ok) free(copies[i]);
        else if (!t) ok = false;
        else t->sample.seed += i;
    }
    return ok;
}

static void submit(struct request *x)
{
    const uint32_t most = x->n_tasks > 0 && x->tasks[0]->vector ? 1 : MOST_AT_ONCE;
    while (x->n_sent < x->n_tasks && x->n_sent < most && batch_submit(x->server->batch, x->tasks[x->n_sent], false)) x->n_sent++;
    if (x->n_sent > 0 || x->n_tasks == 0) {                  /* the other tasks follow when one ends */
        if (x->stream) stream_begin(x);
        else http_await(x->http);
        return;
    }
    for (uint32_t i = 0; i < x->n_tasks; i++) x->tasks[i]->end = TASK_CANCELLED;
    request_refuse(x, 429, "too many requests wait; try again later (rate_limit_exceeded)");
}

void request_go_on(struct request *x)
{
    x->reading = false;
    if (!x->http) request_close(x);
    else if (x->code == 0) submit(x);
    else if (x->code != 200) request_refuse(x, x->code, "%.*s", (int)x->early.n, x->early.n ? x->early.bytes : "out of memory");
    else {
        request_reply(x, x->code, &x->early);
        request_close(x);
    }
}

/* ---- results of the model ---- */

/* The results of a task since the last time, taken out of the task. */
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

/* A task has ended: the next one begins, or the rest is no longer wanted. */
static void send_next(struct request *x, enum task_end end)
{
    if (x->n_sent == x->n_tasks) return;
    if (x->http && end != TASK_FAILED && end != TASK_CANCELLED) { batch_submit(x->server->batch, x->tasks[x->n_sent++], true); return; }
    for (; x->n_sent < x->n_tasks; x->n_sent++, x->n_ended++) {
        x->tasks[x->n_sent]->end = end;
        x->tasks[x->n_sent]->told = true;
    }
}

static void update(struct request *x)
{
    struct server *s = x->server;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        struct task *t = x->tasks[i];
        if (t->told) continue;
        const struct news n = take(s, t);
        if (n.n_tokens > 0) out_bytes(&x->texts[i].tokens, (const char *)n.tokens, n.n_tokens * task_token_bytes(t));
        if (x->http && (n.n_text > 0 || n.n_tokens > 0)) x->kind->text(x, i, n.text, n.n_text);
        free(n.text);
        free(n.tokens);
        if (!n.ended) continue;
        t->told = true;
        x->n_ended++;
        send_next(x, t->end);
        if (x->http && (t->end != TASK_FAILED && t->end != TASK_CANCELLED)) x->kind->choice_ends(x, i);
    }
    if (x->n_ended < x->n_tasks) return;
    for (uint32_t i = 0; i < x->n_tasks && x->http; i++) {
        const struct task *t = x->tasks[i];
        if (t->end == TASK_FAILED) { request_refuse(x, t->refused ? 400 : 500, "%s", t->error.text); return; }
        if (t->end == TASK_CANCELLED) { request_refuse(x, 503, "the server is ending"); return; }
    }
    if (x->http) x->kind->ends(x);
    request_close(x);
}

void requests_update(struct server *s)
{
    for (struct request *x = reader_take(s->reader), *next; x; x = next) {
        next = x->next_read;
        request_go_on(x);
    }
    for (struct request *x = s->requests, *next; x; x = next) {
        next = x->next;
        if (!x->reading) update(x);
    }
}

/* ---- parts of answers ---- */

const char *finish_reason(const struct task *t) { return t->end == TASK_LENGTH ? "length" : "stop"; }

void put_usage(struct out *o, const struct request *x)
{
    uint32_t drawn = 0, prompts = 0, cached = 0;
    for (uint32_t i = 0; i < x->n_tasks; i++) drawn += x->tasks[i]->n_drawn;
    for (uint32_t i = 0; i < x->n_tasks; i += x->n_choices) {
        prompts += x->tasks[i]->n_prompt;
        cached += x->tasks[i]->n_cached;
    }
    out_printf(
        o, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
        prompts, drawn, prompts + drawn, cached);
}

/* timed: those of the n tokens whose making took the seconds. */
static void put_rate(struct out *o, const char *name, uint32_t n, uint32_t timed, double seconds)
{
    out_printf(o, "\"%s_n\":%u,\"%s_ms\":%.12g,\"%s_per_token_ms\":%.12g,\"%s_per_second\":%.12g", name, n, name, 1e3 * seconds, name,
               timed > 0 ? 1e3 * seconds / timed : 0.0, name, seconds > 0 ? timed / seconds : 0.0);
}

void put_timings(struct out *o, const struct task *t)
{
    const uint32_t n_read = t->n_prompt - t->n_cached;
    out_printf(o, "\"timings\":{\"cache_n\":%u,", t->n_cached);
    put_rate(o, "prompt", n_read, n_read, t->prompt_seconds);
    out_text(o, ",");
    put_rate(o, "predicted", t->n_drawn, t->n_drawn > 0 ? t->n_drawn - 1 : 0, t->draw_seconds);     /* the prompt gave the first */
    out_text(o, "}");
}

const char *model_name(const struct server *s) { return s->options->alias ? s->options->alias : s->program->model_name; }

void put_model(struct out *o, const struct server *s) { out_string(o, model_name(s), strlen(model_name(s))); }

void put_fingerprint(struct out *o, const struct server *s)
{
    const char *space = strchr(s->program->compiler, ' '), *version = space ? space + 1 : "";      /* "forgec VERSION, ..." */
    out_printf(o, ",\"system_fingerprint\":\"b%.*s-%s\"", (int)strcspn(version, ","), version, s->program->target);
}

void reply_tokens(struct request *x)
{
    struct out o = { 0 };
    out_printf(&o, "{\"object\":\"response.input_tokens\",\"input_tokens\":%u}", x->tasks[0]->n_prompt);
    request_reply(x, 200, &o);
}

void put_end(struct request *x, struct out *o)
{
    out_text(o, "],");
    put_usage(o, x);
    out_text(o, ",");
    put_timings(o, x->tasks[0]);
    put_warnings(o, x);
    out_text(o, "}");
    if (!x->stream) { request_reply(x, 200, o); return; }
    if (x->usage) stream_event(x, NULL, o);
    stream_finish(x, "[DONE]");
    out_free(o);
}

/* The bytes of a token, or 0 bytes if the model has no tokenizer; writes at most size bytes. */
static size_t token_bytes(const struct request *x, int32_t id, char *to, size_t size)
{
    const uint8_t *vocab = x->server->program->vocab;
    const size_t n = vocab ? forge_token_text(vocab, id, true, to, size) : 0;
    return n < size ? n : size;
}

void put_token(struct out *o, const struct request *x, int32_t id)
{
    char text[512];
    out_string(o, text, token_bytes(x, id, text, sizeof text));
}

void put_token_bytes(struct out *o, const struct request *x, int32_t id)
{
    char text[512];
    const size_t n = token_bytes(x, id, text, sizeof text);
    out_text(o, "[");
    for (size_t i = 0; i < n; i++) out_printf(o, i ? ",%u" : "%u", (uint8_t)text[i]);
    out_text(o, "]");
}

static void put_chat_token(struct out *o, const struct request *x, int32_t id, float logprob)
{
    out_text(o, "{\"token\":");
    put_token(o, x, id);
    out_printf(o, ",\"logprob\":%.6g,\"bytes\":", (double)logprob);
    put_token_bytes(o, x, id);
}

/* Characters that begin in the text of a token. */
static int64_t characters(const struct request *x, int32_t id, bool special)
{
    const uint8_t *vocab = x->server->program->vocab;
    char text[512];
    int64_t count = 0;
    const size_t n = vocab ? forge_token_text(vocab, id, special, text, sizeof text) : 0;
    for (size_t i = 0; i < n && i < sizeof text; i++) count += ((uint8_t)text[i] & 0xc0) != 0x80;
    return count;
}

/* {"text": logprob, ...}.  Of tokens with the same text, such as parts of characters, only the most probable one. */
static void put_top(struct out *o, const struct request *x, const struct task_token *token, uint32_t n_top)
{
    struct out all[TASK_MOST_TOP] = { { 0 } };
    out_text(o, "{");
    for (uint32_t k = 0; k < n_top; k++) {
        uint32_t same = 0;
        put_token(&all[k], x, token->top[k].id);
        while (all[same].n != all[k].n || (all[k].n && memcmp(all[same].bytes, all[k].bytes, all[k].n) != 0)) same++;
        if (same == k) {
            if (k) out_text(o, ",");
            out_bytes(o, all[k].bytes, all[k].n);
            out_printf(o, ":%.6g", (double)token->top[k].logprob);
        }
    }
    for (uint32_t k = 0; k < n_top; k++) out_free(&all[k]);
    out_text(o, "}");
}

void put_logprobs(struct out *o, struct request *x, uint32_t choice)
{
    const struct task *t = x->tasks[choice];
    struct request_text *made = &x->texts[choice];
    const size_t bytes = task_token_bytes(t), n = made->tokens.n / bytes;
    const struct task_token *token;
#define EACH_TOKEN(i) \
    for (size_t i = 0; i < n && (token = (const void *)(made->tokens.bytes + i * bytes), i == 0 || (out_text(o, ","), true)); i++)
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
        EACH_TOKEN(i) {
            if (isnan(token->logprob)) out_text(o, "null");
            else out_printf(o, "%.6g", (double)token->logprob);
        }
        out_text(o, "],\"top_logprobs\":[");
        EACH_TOKEN(i) {
            if (isnan(token->logprob)) out_text(o, "null");
            else put_top(o, x, token, t->n_top);
        }
        out_text(o, "],\"text_offset\":[");
        EACH_TOKEN(i) {
            out_printf(o, "%lld", made->offset > 0 ? (long long)made->offset : 0);
            made->offset += characters(x, token->id, t->special);
        }
        out_text(o, "]}");
    }
#undef EACH_TOKEN
    made->tokens.n = 0;
}
