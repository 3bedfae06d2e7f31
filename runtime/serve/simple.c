/* simple.c -- requests that are answered at once, and vectors of texts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/state.h"
#include "runtime/text/tokenize.h"
#include "server.h"

void health_get(struct server *s, struct http_request *r)
{
    struct out o = { 0 };
    if (s->leaving) reply_error(s, r, OPENAI_FORM, 503, "the server is ending");
    else {
        out_text(&o, "{\"status\":\"ok\"}");
        reply_json(s, r, 200, &o);
    }
}

extern const char forge_page[];                              /* runtime/serve/page.html */

void page_get(struct server *s, struct http_request *r)
{
    struct out o = { 0 };
    if (s->program->embedding) { reply_error(s, r, OPENAI_FORM, 404, "this is an embedding model: POST /v1/embeddings"); return; }
    http_add_header(r, "Content-Security-Policy",
                    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
                    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    out_text(&o, forge_page);
    reply_text(s, r, "text/html; charset=utf-8", &o);
}

static void put_card(struct out *o, const struct server *s)
{
    out_text(o, "{\"id\":");
    put_model(o, s);
    out_printf(o,
               ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"forgec\",\"meta\":{\"n_vocab\":%u,\"n_ctx_train\":%u,\"n_ctx\":%u,"
               "\"n_embd\":%u,\"n_params\":%llu,\"size\":%llu}}",
               (long long)s->began, s->program->n_vocab, s->program->n_ctx, s->engine->n_ctx, s->program->n_embd,
               (unsigned long long)s->program->n_parameters, (unsigned long long)program_weights_bytes(s->program));
}

void models_get(struct server *s, struct http_request *r)
{
    struct out o = { 0 };
    out_text(&o, "{\"object\":\"list\",\"data\":[");
    put_card(&o, s);
    out_text(&o, "]}");
    reply_json(s, r, 200, &o);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Is a part of a path, with %XX, this text? */
static bool is_written(const char *part, const char *text)
{
    for (; *part && *text; part++, text++) {
        const bool coded = *part == '%' && hex_digit(part[1]) >= 0 && hex_digit(part[2]) >= 0;
        if ((coded ? (char)(16 * hex_digit(part[1]) + hex_digit(part[2])) : *part) != *text) return false;
        if (coded) part += 2;
    }
    return *part == *text;
}

/* .../models/NAME */
void model_get(struct server *s, struct http_request *r)
{
    const char *name = strstr(http_path(r), "models/") + strlen("models/");
    struct out o = { 0 };
    if (!is_written(name, model_name(s))) {
        reply_error(s, r, OPENAI_FORM, 404, "there is no model %.200s here (model_not_found)", name);
        return;
    }
    put_card(&o, s);
    reply_json(s, r, 200, &o);
}

void props_get(struct server *s, struct http_request *r)
{
    const struct forge_sample_options *d = &s->options->sample;
    struct out o = { 0 };
    out_text(&o, "{\"model\":");
    put_model(&o, s);
    out_printf(&o,
               ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat\":%s,\"target\":\"%s\",\"total_slots\":%d,"
               "\"default_generation_settings\":{\"n_ctx\":%u,\"params\":{"
               "\"seed\":%llu,\"temperature\":%.6g,\"top_k\":%d,\"top_p\":%.6g,\"min_p\":%.6g,\"repeat_penalty\":%.6g,\"repeat_last_n\":%d,"
               "\"presence_penalty\":%.6g,\"frequency_penalty\":%.6g}}}",
               s->program->chat ? "true" : "false", s->program->target, s->options->slots, s->engine->n_ctx,
               s->options->seed_given ? (unsigned long long)d->seed : 0xffffffffull, (double)d->temp, d->top_k,      /* llama.cpp: random */
               (double)d->top_p, (double)d->min_p, (double)d->repeat_penalty, d->repeat_last_n, (double)d->presence_penalty,
               (double)d->frequency_penalty);
    reply_json(s, r, 200, &o);
}

void slots_get(struct server *s, struct http_request *r)
{
    struct batch_slot slots[256];
    struct batch_numbers n;
    struct out o = { 0 };
    batch_numbers(s->batch, &n, slots);
    out_text(&o, "[");
    for (uint32_t i = 0; i < n.n_slots; i++)
        out_printf(&o, "%s{\"id\":%u,\"n_ctx\":%u,\"is_processing\":%s,\"n_past\":%u,\"n_prompt_tokens\":%u,\"n_decoded\":%u}",
                   i ? "," : "", i, n.n_ctx, slots[i].active ? "true" : "false", slots[i].n_past, slots[i].n_prompt, slots[i].n_drawn);
    out_text(&o, "]");
    reply_json(s, r, 200, &o);
}

static void put_metric(struct out *o, const char *kind, const char *name, const char *help, double value)
{
    out_printf(o, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

/* Prometheus text format 0.0.4; uses llama.cpp's names where the meaning is the same. */
void metrics_get(struct server *s, struct http_request *r)
{
    struct batch_numbers n;
    struct out o = { 0 };
    char began[24];
    batch_numbers(s->batch, &n, NULL);
    snprintf(began, sizeof began, "%lld", (long long)s->began);
    http_add_header(r, "Process-Start-Time-Unix", began);    /* llama.cpp's */
    put_metric(&o, "counter", "llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", (double)n.n_prompt);
    put_metric(&o, "counter", "llamacpp:prompt_seconds_total", "Prompt process time", n.prompt_seconds);
    put_metric(&o, "counter", "llamacpp:tokens_predicted_total", "Number of generation tokens processed.", (double)n.n_drawn);
    put_metric(&o, "counter", "llamacpp:tokens_predicted_seconds_total", "Predict process time", n.draw_seconds);
    put_metric(&o, "counter", "llamacpp:n_decode_total", "Steps of decoding", (double)n.n_steps);
    put_metric(&o, "gauge", "llamacpp:n_busy_slots_per_decode", "Texts in a step of decoding, on average",
               n.n_steps ? (double)n.n_step_tokens / (double)n.n_steps : 0);
    put_metric(&o, "counter", "llamacpp:prompt_tokens_cached_total", "Prompt tokens that had been read before", (double)n.n_cached);
    put_metric(&o, "counter", "forge:requests_total", "HTTP requests", (double)s->n_requests);
    put_metric(&o, "counter", "forge:requests_refused_total", "HTTP requests answered with an error", (double)s->n_refused);
    put_metric(&o, "counter", "forge:texts_total", "Texts and vectors that have ended", (double)n.n_finished);
    put_metric(&o, "gauge", "llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
               n.prompt_seconds > 0 ? (double)n.n_prompt / n.prompt_seconds : 0);
    put_metric(&o, "gauge", "llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
               n.draw_seconds > 0 ? (double)n.n_step_tokens / n.draw_seconds : 0);
    put_metric(&o, "gauge", "llamacpp:requests_processing", "Number of requests processing.", n.n_active);
    put_metric(&o, "gauge", "llamacpp:requests_deferred", "Number of requests deferred.", n.n_waiting);
    put_metric(&o, "gauge", "llamacpp:n_tokens_max", "Most tokens in a slot", n.most_past);
    reply_text(s, r, "text/plain; version=0.0.4", &o);
}

/* ---- tokens ---- */

static const struct reply_kind at_once = { NULL, NULL, NULL, OPENAI_FORM, 0 };

void tokenize_post(struct request *x)
{
    const struct server *s = x->server;
    if (!request_read(x, &at_once)) return;
    const struct json *v = json_member(x->json, "content");
    bool add = false, special = true, pieces = false;
    if (!v || v->kind != JSON_STRING) { request_refuse(x, 400, "'content' must be a string"); return; }
    if (!body_bool(x, x->json, "add_special", &add) || !body_bool(x, x->json, "parse_special", &special) ||
        !body_bool(x, x->json, "with_pieces", &pieces)) return;
    struct forge_tokens tokens;
    struct forge_error error;
    if (tokens_of_text(&tokens, s->program->vocab, v->text, v->n, (add ? FORGE_TOK_ADD : 0u) | (special ? FORGE_TOK_SPECIAL : 0u),
                       &error)) {
        request_refuse(x, 400, "%s", error.text);
        return;
    }
    struct out o = { 0 };
    out_text(&o, "{\"tokens\":[");
    for (size_t i = 0; i < tokens.n; i++) {
        char text[512];
        const size_t n = pieces ? forge_token_text(s->program->vocab, tokens.ids[i], true, text, sizeof text) : 0;
        if (i) out_text(&o, ",");
        if (!pieces) { out_printf(&o, "%d", tokens.ids[i]); continue; }
        out_printf(&o, "{\"id\":%d,\"piece\":", tokens.ids[i]);
        out_string(&o, text, n < sizeof text ? n : sizeof text);
        out_text(&o, "}");
    }
    out_text(&o, "]}");
    free(tokens.ids);
    request_reply(x, 200, &o);
}

void detokenize_post(struct request *x)
{
    const struct server *s = x->server;
    if (!request_read(x, &at_once)) return;
    const struct json *v = json_member(x->json, "tokens");
    struct out text = { 0 }, o = { 0 };
    if (!s->program->vocab) { request_refuse(x, 400, "the model has no tokenizer"); return; }
    if (!v || v->kind != JSON_ARRAY) { request_refuse(x, 400, "'tokens' must be a list of token ids"); return; }
    for (const struct json *m = v->first; m; m = m->next) {
        int64_t id;
        char bytes[512];
        if (!json_integer(m, 0, (int64_t)s->program->n_vocab - 1, &id)) {
            out_free(&text);
            request_refuse(x, 400, "'tokens' must have ids of 0 to %u", s->program->n_vocab - 1);
            return;
        }
        const size_t n = forge_token_text(s->program->vocab, (int32_t)id, true, bytes, sizeof bytes);
        out_bytes(&text, bytes, n < sizeof bytes ? n : sizeof bytes);
    }
    out_text(&o, "{\"content\":");
    out_string(&o, text.bytes, text.n);
    out_text(&o, "}");
    out_free(&text);
    request_reply(x, 200, &o);
}

/* ---- vectors ---- */

enum { MOST_INPUTS = 2048 };                  /* of one request; OpenAI's limit */

void vectors_no_text(struct request *x, uint32_t choice, const char *text, size_t n) { (void)x; (void)choice; (void)text; (void)n; }
void vectors_no_end(struct request *x, uint32_t choice) { (void)x; (void)choice; }

static void put_base64(struct out *o, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t v = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0);
        const char     four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=',
                              i + 2 < n ? digits[v & 63] : '='};
        out_bytes(o, four, 4);
    }
}

void put_vector(struct out *o, const struct request *x, uint32_t task)
{
    const float *v = x->tasks[task]->vector;
    for (uint32_t c = 0; c < x->server->program->n_embd; c++) out_printf(o, "%s%.9g", c ? "," : "[", (double)v[c]);
    out_text(o, "]");
}

static void vectors_end(struct request *x)
{
    const bool base64 = json_is(json_member(x->json, "encoding_format"), "base64");
    struct out o = { 0 };
    uint32_t n_tokens = 0;
    out_text(&o, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        n_tokens += x->tasks[i]->n_prompt;
        out_printf(&o, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
        if (base64) {
            out_text(&o, "\"");
            put_base64(&o, (const uint8_t *)x->tasks[i]->vector, x->server->program->n_embd * sizeof(float));
            out_text(&o, "\"}");
        } else {
            put_vector(&o, x, i);
            out_text(&o, "}");
        }
    }
    out_text(&o, "],\"model\":");
    put_model(&o, x->server);
    out_printf(&o, ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}", n_tokens, n_tokens);
    put_warnings(&o, x);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}

static const struct reply_kind vectors = { vectors_no_text, vectors_no_end, vectors_end, OPENAI_FORM, ROUTE_EMBEDDINGS };

static bool add_vector(struct request *x, const struct json *v)
{
    size_t n;
    if (v->kind != JSON_STRING && v->kind != JSON_ARRAY)
        return request_refuse(x, 400, "'input' must be a string, an array of token ids, or an array of strings or such arrays");
    int32_t *ids = body_tokens(x, "input", v, FORGE_TOK_ADD, &n);
    struct task *t = ids ? request_add(x, ids, n) : NULL;
    if (!t) return false;
    t->vector = malloc(x->server->program->n_embd * sizeof *t->vector);
    return t->vector || request_refuse(x, 503, "out of memory for a vector");
}

bool vectors_tasks(struct request *x, const struct json *input)
{
    const struct forge_program *p = x->server->program;
    int64_t width = p->n_embd;
    const bool several = input && body_is_list(input);
    if (several && input->n > MOST_INPUTS)
        return request_refuse(x, 400, "'input' has %zu texts; the maximum is %d", input->n, MOST_INPUTS);
    if (!p->embedding) return request_refuse(x, 400, "this model generates text, not vectors");
    if (!body_integer(x, "dimensions", 1, INT32_MAX, &width)) return false;
    if (width != p->n_embd) return request_refuse(x, 400, "'dimensions' must be %u, the width of this model's vectors", p->n_embd);
    if (!input || (input->kind == JSON_ARRAY && input->n == 0))
        return request_refuse(x, 400, "'input' must be a string, an array of token ids, or an array of strings or such arrays");
    if (!several) return add_vector(x, input);
    for (const struct json *m = input->first; m; m = m->next) if (!add_vector(x, m)) return false;
    return true;
}

void embeddings_post(struct request *x)
{
    if (!request_read(x, &vectors)) return;
    const struct json *format = json_member(x->json, "encoding_format");
    if (format && format->kind != JSON_NULL && !json_is(format, "float") && !json_is(format, "base64"))
        request_refuse(x, 400, "'encoding_format' must be float or base64");
    else vectors_tasks(x, json_member(x->json, "input"));
}

/* llama.cpp's form has a list of vectors for each text: the vectors of its tokens if they are not pooled, else one. */
static void native_vectors_end(struct request *x)
{
    struct out o = { 0 };
    out_text(&o, "[");
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        out_printf(&o, "%s{\"index\":%u,\"embedding\":[", i ? "," : "", i);
        put_vector(&o, x, i);
        out_text(&o, "]}");
    }
    out_text(&o, "]");
    request_reply(x, 200, &o);
}

static const struct reply_kind native_vectors = { vectors_no_text, vectors_no_end, native_vectors_end, OPENAI_FORM, ROUTE_EMBEDDINGS };

void native_embeddings_post(struct request *x)
{
    if (!request_read(x, &native_vectors)) return;
    const struct json *input = body_member(x->json, "input");
    vectors_tasks(x, input ? input : body_member(x->json, "content"));
}
