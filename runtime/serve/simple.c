/* simple.c -- requests that are answered at once, and vectors of texts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/state.h"
#include "runtime/text/tokenize.h"
#include "server.h"

void health_get(struct server *s, struct evhttp_request *r)
{
    struct out o = { 0 };
    if (s->leaving) reply_error(s, r, false, 503, "the server is ending");
    else {
        out_text(&o, "{\"status\":\"ok\"}");
        reply_json(s, r, 200, &o);
    }
}

extern const char forge_page[];                              /* runtime/serve/page.html */

void page_get(struct server *s, struct evhttp_request *r)
{
    struct out o = { 0 };
    if (s->program->embedding) { reply_error(s, r, false, 404, "this model makes vectors of texts: POST /v1/embeddings"); return; }
    evhttp_add_header(evhttp_request_get_output_headers(r), "Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
                      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    out_text(&o, forge_page);
    reply_text(s, r, "text/html; charset=utf-8", &o);
}

void models_get(struct server *s, struct evhttp_request *r)
{
    struct out o = { 0 };
    out_text(&o, "{\"object\":\"list\",\"data\":[{\"id\":");
    put_model(&o, s);
    out_printf(&o,
               ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"forgec\",\"meta\":{\"n_vocab\":%u,\"n_ctx_train\":%u,\"n_ctx\":%u,"
               "\"n_embd\":%u,\"n_params\":%llu,\"size\":%llu}}]}",
               (long long)s->began, s->program->n_vocab, s->program->n_ctx, s->engine->n_ctx, s->program->n_embd,
               (unsigned long long)s->program->n_parameters, (unsigned long long)program_weights_bytes(s->program));
    reply_json(s, r, 200, &o);
}

void props_get(struct server *s, struct evhttp_request *r)
{
    const struct forge_sample_options *d = &s->options->sample;
    struct out o = { 0 };
    out_text(&o, "{\"model\":");
    put_model(&o, s);
    out_printf(&o,
               ",\"chat\":%s,\"target\":\"%s\",\"total_slots\":%d,\"default_generation_settings\":{\"n_ctx\":%u,\"params\":{"
               "\"temperature\":%.6g,\"top_k\":%d,\"top_p\":%.6g,\"min_p\":%.6g,\"repeat_penalty\":%.6g,\"repeat_last_n\":%d,"
               "\"presence_penalty\":%.6g,\"frequency_penalty\":%.6g}}}",
               s->program->chat ? "true" : "false", s->program->target, s->options->slots, s->engine->n_ctx, (double)d->temp, d->top_k,
               (double)d->top_p, (double)d->min_p, (double)d->repeat_penalty, d->repeat_last_n, (double)d->presence_penalty,
               (double)d->frequency_penalty);
    reply_json(s, r, 200, &o);
}

void slots_get(struct server *s, struct evhttp_request *r)
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

/* Prometheus' text format 0.0.4; llama.cpp's names where they mean the same. */
void metrics_get(struct server *s, struct evhttp_request *r)
{
    struct batch_numbers n;
    struct out o = { 0 };
    batch_numbers(s->batch, &n, NULL);
    put_metric(&o, "counter", "llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", (double)n.n_prompt);
    put_metric(&o, "counter", "llamacpp:prompt_seconds_total", "Prompt process time", n.prompt_seconds);
    put_metric(&o, "counter", "llamacpp:tokens_predicted_total", "Number of generation tokens processed.", (double)n.n_drawn);
    put_metric(&o, "counter", "llamacpp:tokens_predicted_seconds_total", "Predict process time", n.draw_seconds);
    put_metric(&o, "counter", "llamacpp:n_decode_total", "Steps of decoding", (double)n.n_steps);
    put_metric(&o, "counter", "llamacpp:n_busy_slots_per_decode", "Texts in a step of decoding, on average",
               n.n_steps ? (double)n.n_step_tokens / (double)n.n_steps : 0);
    put_metric(&o, "counter", "forge:prompt_tokens_cached_total", "Prompt tokens that had been read before", (double)n.n_cached);
    put_metric(&o, "counter", "forge:requests_total", "HTTP requests", (double)s->n_requests);
    put_metric(&o, "counter", "forge:requests_refused_total", "HTTP requests answered with an error", (double)s->n_refused);
    put_metric(&o, "counter", "forge:texts_total", "Texts and vectors that have ended", (double)n.n_finished);
    put_metric(&o, "gauge", "llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
               n.prompt_seconds > 0 ? (double)n.n_prompt / n.prompt_seconds : 0);
    put_metric(&o, "gauge", "llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
               n.draw_seconds > 0 ? (double)n.n_drawn / n.draw_seconds : 0);
    put_metric(&o, "gauge", "llamacpp:requests_processing", "Number of requests processing.", n.n_active);
    put_metric(&o, "gauge", "llamacpp:requests_deferred", "Number of requests deferred.", n.n_waiting);
    put_metric(&o, "gauge", "llamacpp:n_tokens_max", "Most tokens in a slot", n.most_past);
    reply_text(s, r, "text/plain; version=0.0.4", &o);
}

/* ---- tokens ---- */

static const struct reply_kind at_once = { NULL, NULL, NULL, false };

void tokenize_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &at_once);
    if (!x) return;
    const struct json *v = json_member(x->json, "content");
    bool add = false, special = true, pieces = false;
    if (!v || v->kind != JSON_STRING) { exchange_refuse(x, 400, "'content' must be a string"); return; }
    if (!body_bool(x, x->json, "add_special", &add) || !body_bool(x, x->json, "parse_special", &special) ||
        !body_bool(x, x->json, "with_pieces", &pieces)) return;
    struct forge_tokens tokens;
    struct forge_error error;
    if (tokens_of_text(&tokens, s->program->vocab, v->text, v->n, (add ? FORGE_TOK_ADD : 0u) | (special ? FORGE_TOK_SPECIAL : 0u),
                       &error)) {
        exchange_refuse(x, 400, "%s", error.text);
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
    exchange_reply(x, 200, &o);
    exchange_close(x);
}

void detokenize_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &at_once);
    if (!x) return;
    const struct json *v = json_member(x->json, "tokens");
    struct out text = { 0 }, o = { 0 };
    if (!s->program->vocab) { exchange_refuse(x, 400, "the model has no tokenizer"); return; }
    if (!v || v->kind != JSON_ARRAY) { exchange_refuse(x, 400, "'tokens' must be a list of token ids"); return; }
    for (const struct json *m = v->first; m; m = m->next) {
        int64_t id;
        char bytes[512];
        if (!json_integer(m, 0, (int64_t)s->program->n_vocab - 1, &id)) {
            out_free(&text);
            exchange_refuse(x, 400, "'tokens' must have ids of 0 to %u", s->program->n_vocab - 1);
            return;
        }
        const size_t n = forge_token_text(s->program->vocab, (int32_t)id, true, bytes, sizeof bytes);
        out_bytes(&text, bytes, n < sizeof bytes ? n : sizeof bytes);
    }
    out_text(&o, "{\"content\":");
    out_string(&o, text.bytes, text.n);
    out_text(&o, "}");
    out_free(&text);
    exchange_reply(x, 200, &o);
    exchange_close(x);
}

/* ---- vectors ---- */

static void no_text(struct exchange *x, uint32_t choice, const char *text, size_t n) { (void)x; (void)choice; (void)text; (void)n; }
static void no_end(struct exchange *x, uint32_t choice) { (void)x; (void)choice; }

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

static void vectors_end(struct exchange *x)
{
    const uint32_t n = x->server->program->n_embd;
    const bool base64 = json_is(json_member(x->json, "encoding_format"), "base64");
    struct out o = { 0 };
    uint32_t n_tokens = 0;
    out_text(&o, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        const float *v = x->tasks[i]->vector;
        n_tokens += x->tasks[i]->n_prompt;
        out_printf(&o, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
        if (base64) {
            out_text(&o, "\"");
            put_base64(&o, (const uint8_t *)v, n * sizeof *v);
            out_text(&o, "\"}");
        } else {
            for (uint32_t c = 0; c < n; c++) out_printf(&o, "%s%.9g", c ? "," : "[", (double)v[c]);
            out_text(&o, "]}");
        }
    }
    out_text(&o, "],\"model\":");
    put_model(&o, x->server);
    out_printf(&o, ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}", n_tokens, n_tokens);
    exchange_reply(x, 200, &o);
}

static const struct reply_kind vectors = { no_text, no_end, vectors_end, false };

static bool add_vector(struct exchange *x, const struct json *v)
{
    size_t n;
    if (v->kind != JSON_STRING && v->kind != JSON_ARRAY)
        return exchange_refuse(x, 400, "'input' must be a text, a list of token ids, or a list of such");
    int32_t *ids = body_tokens(x, "input", v, FORGE_TOK_ADD, &n);
    struct task *t = ids ? exchange_add(x, ids, n) : NULL;
    if (!t) return false;
    t->vector = malloc(x->server->program->n_embd * sizeof *t->vector);
    return t->vector || exchange_refuse(x, 503, "out of memory");
}

void embeddings_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &vectors);
    if (!x) return;
    const struct json *input = json_member(x->json, "input"), *format = json_member(x->json, "encoding_format");
    if (!s->program->embedding) { exchange_refuse(x, 400, "this model makes texts, not vectors"); return; }
    if (format && format->kind != JSON_NULL && !json_is(format, "float") && !json_is(format, "base64")) {
        exchange_refuse(x, 400, "'encoding_format' must be float or base64");
        return;
    }
    if (!input || (input->kind == JSON_ARRAY && input->n == 0)) {
        exchange_refuse(x, 400, "'input' must be a text, a list of token ids, or a list of such");
        return;
    }
    if (input->kind != JSON_ARRAY || input->first->kind == JSON_NUMBER) { if (!add_vector(x, input)) return; }
    else for (const struct json *m = input->first; m; m = m->next) if (!add_vector(x, m)) return;
    exchange_submit(x);
}
