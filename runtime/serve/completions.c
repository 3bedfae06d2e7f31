/* completions.c -- POST /v1/completions: a text goes on. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenize.h"
#include "guided.h"

static void put_head(struct out *o, const struct exchange *x)
{
    out_printf(o, "{\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", x->id, (long long)x->created);
    put_model(o, x->server);
    out_text(o, ",\"choices\":[");
}

static void put_choice(struct out *o, struct exchange *x, uint32_t choice, const char *text, size_t n, bool ended)
{
    out_printf(o, "{\"index\":%u,\"text\":", choice);
    out_string(o, text, n);
    out_text(o, ",\"logprobs\":");
    put_logprobs(o, x, choice);
    if (ended) out_printf(o, ",\"finish_reason\":\"%s\"}", finish_reason(x->tasks[choice]));
    else out_text(o, ",\"finish_reason\":null}");
}

static void chunk(struct exchange *x, uint32_t choice, const char *text, size_t n, bool ended)
{
    struct out o = { 0 };
    put_head(&o, x);
    put_choice(&o, x, choice, text, n, ended);
    out_text(&o, "]}");
    stream_event(x, NULL, &o);
    out_free(&o);
}

static void on_text(struct exchange *x, uint32_t choice, const char *text, size_t n)
{
    if (x->stream) chunk(x, choice, text, n, false);
    else out_bytes(&x->texts[choice], text, n);
}

static void on_choice_ends(struct exchange *x, uint32_t choice)
{
    if (x->stream) chunk(x, choice, "", 0, true);
}

static void on_ends(struct exchange *x)
{
    struct out o = { 0 };
    put_head(&o, x);
    for (uint32_t i = 0; i < x->n_tasks && !x->stream; i++) {
        if (i) out_text(&o, ",");
        put_choice(&o, x, i, x->texts[i].bytes ? x->texts[i].bytes : "", x->texts[i].n, true);
    }
    put_end(x, &o);
}

static const struct reply_kind kind = { on_text, on_choice_ends, on_ends, false };

void completions_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &kind);
    if (!x) return;
    if (s->program->embedding) { exchange_refuse(x, 400, "this model makes vectors of texts: POST /v1/embeddings"); return; }
    const struct json *prompt = json_member(x->json, "prompt"), *options = json_member(x->json, "stream_options");
    int64_t choices = 1;
    if (prompt && prompt->kind == JSON_ARRAY && prompt->n == 1 && prompt->first->kind != JSON_NUMBER) prompt = prompt->first;
    if (!prompt || (prompt->kind != JSON_STRING && prompt->kind != JSON_ARRAY)) {
        exchange_refuse(x, 400, "'prompt' must be a string or a list of token ids");
        return;
    }
    if (!body_bool(x, x->json, "stream", &x->stream) || !body_integer(x, "n", 1, MOST_CHOICES, &choices)) return;
    if (options && options->kind == JSON_OBJECT && !body_bool(x, options, "include_usage", &x->usage)) return;
    size_t n;
    int32_t *ids = body_tokens(x, "prompt", prompt, FORGE_TOK_ADD | FORGE_TOK_SPECIAL, &n);
    if (!ids) return;
    if (exchange_choices(x, ids, n, (uint32_t)choices) && guided_tasks(x, NULL)) exchange_submit(x);
}
