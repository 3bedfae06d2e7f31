/* native.c -- llama.cpp's own API: POST /completion, with the answer's form, which /infill shares. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guided.h"
#include "runtime/text/tokenize.h"

/* texts[i].text has the whole text; its first `offset` bytes have been sent. */

static void put_text(struct out *o, const struct out *text, size_t from, size_t to)
{
    out_string(o, to > from ? text->bytes + from : "", to - from);
}

static void put_tokens(struct out *o, const struct request_text *made, size_t bytes)
{
    out_text(o, "[");
    for (size_t at = 0; at < made->tokens.n; at += bytes)
        out_printf(o, at ? ",%d" : "%d", ((const struct task_token *)(const void *)(made->tokens.bytes + at))->id);
    out_text(o, "]");
}

static void put_probability(struct out *o, const struct request *x, int32_t id, float logprob)
{
    out_printf(o, "{\"id\":%d,\"token\":", id);
    put_token(o, x, id);
    out_text(o, ",\"bytes\":");
    put_token_bytes(o, x, id);
    out_printf(o, ",\"logprob\":%.6g", (double)logprob);
}

/* Writes the n bytes of tokens as ,"completion_probabilities":[...], if they are wanted. */
static void put_probabilities(struct out *o, const struct request *x, const struct task *t, const char *tokens, size_t n)
{
    if (!t->logprobs) return;
    out_text(o, ",\"completion_probabilities\":[");
    for (size_t at = 0; at < n; at += task_token_bytes(t)) {
        const struct task_token *token = (const void *)(tokens + at);
        if (at) out_text(o, ",");
        put_probability(o, x, token->id, token->logprob);
        out_text(o, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < t->n_top; k++) {
            if (k) out_text(o, ",");
            put_probability(o, x, token->top[k].id, token->top[k].logprob);
            out_text(o, "}");
        }
        out_text(o, "]}");
    }
    out_text(o, "]");
}

/* null is minus infinity. */
static void put_biases(struct out *o, const struct request *x, const struct task *t)
{
    const uint8_t *vocab = x->server->program->vocab;
    const char *separator = "";
    out_text(o, "[");
    for (size_t i = 0; i < t->sample.n_biases; i++, separator = ",") {
        out_printf(o, "%s{\"token\":%d,\"bias\":", separator, t->sample.biases[i].id);
        if (t->sample.biases[i].bias <= -1e30f) out_text(o, "null}");
        else out_printf(o, "%.6g}", (double)t->sample.biases[i].bias);
    }
    for (uint32_t id = 0; t->ignore_eos && vocab && id < x->server->program->n_vocab; id++) {
        if (!forge_vocab_is_eog(vocab, (int32_t)id)) continue;
        out_printf(o, "%s{\"token\":%u,\"bias\":null}", separator, id);
        separator = ",";
    }
    out_text(o, "]");
}

static int64_t wanted_tokens(const struct request *x)
{
    static const char *const names[] = { "max_tokens", "n_predict" };
    int64_t n = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names && n < 0; i++) json_integer(body_member(x->json, names[i]), -1, INT32_MAX, &n);
    return n;
}

static void put_settings(struct out *o, const struct request *x, const struct task *t)
{
    const struct forge_sample_options *d = &t->sample;
    const long long n_predict = wanted_tokens(x);
    out_printf(o,
               "{\"seed\":%llu,\"temperature\":%.6g,\"top_k\":%d,\"top_p\":%.6g,\"min_p\":%.6g,\"repeat_last_n\":%d,"
               "\"repeat_penalty\":%.6g,\"presence_penalty\":%.6g,\"frequency_penalty\":%.6g,\"max_tokens\":%lld,\"n_predict\":%lld,"
               "\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%u,\"stop\":[",
               (unsigned long long)d->seed, (double)d->temp, d->top_k, (double)d->top_p, (double)d->min_p, d->repeat_last_n,
               (double)d->repeat_penalty, (double)d->presence_penalty, (double)d->frequency_penalty, n_predict, n_predict,
               t->ignore_eos ? "true" : "false", x->stream ? "true" : "false", t->n_top);
    for (uint32_t i = 0; i < t->n_stops; i++) {
        if (i) out_text(o, ",");
        out_string(o, t->stops[i].text, t->stops[i].n);
    }
    out_text(o, "],\"logit_bias\":");
    put_biases(o, x, t);
    out_text(o, "}");
}

static void put_prompt(struct out *o, const struct request *x, const struct task *t)
{
    const uint8_t *vocab = x->server->program->vocab;
    struct out text = { 0 };
    for (uint32_t i = 0; i < t->n_prompt && vocab; i++) {
        char bytes[512];
        const size_t n = forge_token_text(vocab, t->prompt[i], true, bytes, sizeof bytes);
        out_bytes(&text, bytes, n < sizeof bytes ? n : sizeof bytes);
    }
    out_string(o, text.bytes, text.n);
    out_free(&text);
}

/* Writes the members of a result that has ended, of which `from` bytes of text have been sent. */
static void put_result(struct out *o, const struct request *x, uint32_t i, size_t from)
{
    const struct task *t = x->tasks[i];
    const struct request_text *made = &x->texts[i];
    const struct json *tokens = json_member(x->json, "return_tokens");
    const int64_t wanted = wanted_tokens(x);
    const bool full = t->end == TASK_LENGTH && t->n_drawn == t->most && (wanted < 0 || t->n_drawn < wanted);      /* the context is */
    out_printf(o, "{\"index\":%u,\"content\":", i);
    put_text(o, &made->text, from, made->text.n);
    out_text(o, ",\"tokens\":");
    if (!x->stream && tokens && tokens->kind == JSON_TRUE) put_tokens(o, made, task_token_bytes(t));
    else out_text(o, "[]");
    out_printf(o, ",\"id_slot\":%u,\"stop\":true,\"model\":", t->slot);
    put_model(o, x->server);
    out_printf(o, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%u,\"generation_settings\":", t->n_drawn, t->n_prompt);
    put_settings(o, x, t);
    out_text(o, ",\"prompt\":");
    put_prompt(o, x, t);
    out_printf(o, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":",
               made->text.n && memchr(made->text.bytes, '\n', made->text.n) ? "true" : "false", full ? "true" : "false",
               t->end == TASK_LENGTH ? "limit" : t->end == TASK_STOPPED ? "word" : "eos");
    if (t->end == TASK_STOPPED) out_string(o, t->stops[t->stop].text, t->stops[t->stop].n);
    else out_text(o, "\"\"");
    out_printf(o, ",\"tokens_cached\":%u,", t->n_prompt + (t->n_drawn > 0 ? t->n_drawn - 1 : 0));
    put_timings(o, t);
    if (!x->stream) put_probabilities(o, x, t, made->tokens.bytes, made->tokens.n);
    put_warnings(o, x);
    out_text(o, "}");
}

/* The value at a path such as "timings/prompt_n"; NULL: there is no such value. */
static const struct json *value_at(const struct json *v, const char *path, size_t n)
{
    while (v) {
        const char *slash = memchr(path, '/', n);
        const size_t part = slash ? (size_t)(slash - path) : n;
        const struct json *m = v->kind == JSON_OBJECT ? v->first : NULL;
        while (m && (m->n_name != part || memcmp(m->name, path, part) != 0)) m = m->next;
        if (!slash) return m;
        v = m;
        path += part + 1;
        n -= part + 1;
    }
    return NULL;
}

/* Writes a result, or only its values that response_fields names. */
static void put_wanted(struct out *o, const struct request *x, uint32_t i, size_t from)
{
    enum { ROOM_PER_BYTE = 24, ROOM_LEAST = 64 << 10 };
    const struct json *fields = body_member(x->json, "response_fields");
    struct json_error error;
    struct out all = { 0 };
    if (!fields || fields->n == 0) { put_result(o, x, i, from); return; }
    put_result(&all, x, i, from);
    void *memory = malloc(all.n * ROOM_PER_BYTE + ROOM_LEAST);
    struct room room = room_of(memory, memory ? all.n * ROOM_PER_BYTE + ROOM_LEAST : 0);
    const struct json *v = memory && !all.failed ? json_read(&room, all.bytes, all.n, &error) : NULL;
    const char *separator = "";
    if (!v) o->failed = true;
    out_text(o, "{");
    for (const struct json *f = fields->first; f; f = f->next) {
        const struct json *m = value_at(v, f->text, f->n);
        if (!m) continue;
        out_text(o, separator);
        out_string(o, f->text, f->n);
        out_text(o, ":");
        out_json(o, m);
        separator = ",";
    }
    out_text(o, "}");
    free(memory);
    out_free(&all);
}

/* Each token gets an event; the text of tokens that arrive together comes with the last one. */
static void on_text(struct request *x, uint32_t choice, const char *text, size_t n)
{
    const struct task *t = x->tasks[choice];
    struct request_text *made = &x->texts[choice];
    const size_t bytes = task_token_bytes(t);
    out_bytes(&made->text, text, n);
    if (!x->stream) return;
    for (size_t at = 0; at < made->tokens.n; at += bytes) {
        const struct task_token *token = (const void *)(made->tokens.bytes + at);
        const bool last = at + bytes == made->tokens.n;
        const size_t sent = (size_t)made->offset;
        struct out o = { 0 };
        out_printf(&o, "{\"index\":%u,\"content\":", choice);
        put_text(&o, &made->text, sent, last ? made->text.n : sent);
        out_printf(&o, ",\"tokens\":[%d],\"stop\":false,\"id_slot\":%u", token->id, t->slot);
        put_probabilities(&o, x, t, made->tokens.bytes + at, bytes);
        out_text(&o, "}");
        stream_event(x, NULL, &o);
        out_free(&o);
        if (last) made->offset = (int64_t)made->text.n;
    }
    made->tokens.n = 0;
}

static void on_choice_ends(struct request *x, uint32_t choice)
{
    struct out o = { 0 };
    if (!x->stream) return;
    put_wanted(&o, x, choice, (size_t)x->texts[choice].offset);
    stream_event(x, NULL, &o);
    out_free(&o);
}

static void on_ends(struct request *x)
{
    const struct json *prompt = body_member(x->json, "prompt");
    const bool list = x->kind->route == ROUTE_NATIVE && prompt && body_is_list(prompt);
    struct out o = { 0 };
    if (x->stream) { stream_finish(x, NULL); return; }
    if (list) out_text(&o, "[");
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        if (i) out_text(&o, ",");
        put_wanted(&o, x, i, 0);
    }
    if (list) out_text(&o, "]");
    request_reply(x, 200, &o);
}

static const struct reply_kind completion = { on_text, on_choice_ends, on_ends, OPENAI_FORM, ROUTE_NATIVE },
                               infill = { on_text, on_choice_ends, on_ends, OPENAI_FORM, ROUTE_INFILL };

bool native_read(struct request *x, uint32_t route)
{
    if (!request_read(x, route == ROUTE_INFILL ? &infill : &completion)) return false;
    if (x->server->program->embedding) return request_refuse(x, 400, "this is an embedding model: POST /v1/embeddings");
    const struct json *fields = body_member(x->json, "response_fields");
    bool tokens = false;
    if (fields && fields->kind != JSON_ARRAY) return request_refuse(x, 400, "'response_fields' must be a list of strings");
    for (const struct json *f = fields ? fields->first : NULL; f; f = f->next)
        if (f->kind != JSON_STRING) return request_refuse(x, 400, "'response_fields' must be a list of strings");
    return body_bool(x, x->json, "stream", &x->stream) && body_bool(x, x->json, "return_tokens", &tokens);
}

bool native_add(struct request *x, int32_t *ids, size_t n)
{
    int64_t n_probs = 0;
    float most_ms = 0;
    if (x->n_tasks >= MOST_TEXTS) {
        free(ids);
        return request_refuse(x, 400, "'prompt' asks for more than %d texts", MOST_TEXTS);
    }
    if (!request_choices(x, ids, n, 1) || !body_integer(x, "n_probs", 0, TASK_MOST_TOP, &n_probs) ||
        !body_real(x, "t_max_predict_ms", -1e9, 1e9, &most_ms)) return false;
    struct task *t = x->tasks[x->n_tasks - 1];
    t->told_ids = true;
    t->most_seconds = most_ms / 1000;
    if (n_probs > 0) {
        t->logprobs = true;
        t->n_top = n_probs < x->server->program->n_vocab ? (uint32_t)n_probs : x->server->program->n_vocab;
    }
    return true;
}

/* A prompt, or its text as {"prompt_string": TEXT}. */
static bool add_prompt(struct request *x, const struct json *prompt)
{
    const struct json *data = json_member(prompt, "multimodal_data");
    size_t n;
    if (data && data->n > 0) return request_refuse(x, 400, "'multimodal_data' is not supported: the model reads text only");
    if (prompt && prompt->kind == JSON_OBJECT) prompt = json_member(prompt, "prompt_string");
    if (!prompt || (prompt->kind != JSON_STRING && prompt->kind != JSON_ARRAY))
        return request_refuse(x, 400, "'prompt' must be a string, a list of token ids and strings, or a list of prompts");
    int32_t *ids = body_tokens(x, "prompt", prompt, FORGE_TOK_ADD | FORGE_TOK_SPECIAL, &n);
    return ids && native_add(x, ids, n);
}

void native_post(struct request *x)
{
    if (!native_read(x, ROUTE_NATIVE)) return;
    const struct json *prompt = body_member(x->json, "prompt");
    const bool several = prompt && body_is_list(prompt);
    for (const struct json *p = several ? prompt->first : prompt; p || !several; p = p->next) {
        if (!add_prompt(x, p)) return;
        if (!several) break;
    }
    guided_tasks(x, NULL);
}
