/* completions.c -- POST /v1/completions: continues a text. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenize.h"
#include "guided.h"

static void put_head(struct out *o, const struct request *x)
{
    out_printf(o, "{\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", x->id, (long long)x->created);
    put_model(o, x->server);
    put_fingerprint(o, x->server);
    out_text(o, ",\"choices\":[");
}

static void put_choice(struct out *o, struct request *x, uint32_t choice, const char *text, size_t n, bool ended)
{
    out_printf(o, "{\"index\":%u,\"text\":", choice);
    out_string(o, text, n);
    out_text(o, ",\"logprobs\":");
    put_logprobs(o, x, choice);
    if (ended) out_printf(o, ",\"finish_reason\":\"%s\"}", finish_reason(x->tasks[choice]));
    else out_text(o, ",\"finish_reason\":null}");
}

static void chunk(struct request *x, uint32_t choice, const char *text, size_t n, bool ended)
{
    struct out o = { 0 };
    put_head(&o, x);
    put_choice(&o, x, choice, text, n, ended);
    out_text(&o, "]}");
    stream_event(x, NULL, &o);
    out_free(&o);
}

/* In a stream texts[choice] has the prompt, if it is to be repeated, until the first piece is sent. */
static void on_text(struct request *x, uint32_t choice, const char *text, size_t n)
{
    struct out *all = &x->texts[choice].text;
    out_bytes(all, text, n);
    if (!x->stream) return;
    chunk(x, choice, all->bytes, all->n, false);
    all->n = 0;
}

static void on_choice_ends(struct request *x, uint32_t choice)
{
    if (x->stream) chunk(x, choice, x->texts[choice].text.bytes, x->texts[choice].text.n, true);
}

static void on_ends(struct request *x)
{
    struct out o = { 0 };
    put_head(&o, x);
    for (uint32_t i = 0; i < x->n_tasks && !x->stream; i++) {
        if (i) out_text(&o, ",");
        put_choice(&o, x, i, x->texts[i].text.bytes, x->texts[i].text.n, true);
    }
    put_end(x, &o);
}

static const struct reply_kind kind = { on_text, on_choice_ends, on_ends, OPENAI_FORM, ROUTE_COMPLETIONS };

/* Characters of a text that is UTF-8. */
static int64_t characters(const struct out *text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text->n; i++) count += ((uint8_t)text->bytes[i] & 0xc0) != 0x80;
    return count;
}

/* Puts the prompt before each of its texts.  The offsets of tokens begin below 0 if their text has more characters than the prompt, such as
 * the space that SentencePiece adds. */
static void echo(struct request *x, const struct json *prompt, uint32_t first)
{
    const uint8_t *vocab = x->server->program->vocab;
    for (uint32_t i = first; i < x->n_tasks; i++) {
        struct task *t = x->tasks[i];
        struct out pieces = { 0 }, *text = &x->texts[i].text;
        for (uint32_t k = 0; k < t->n_prompt && vocab; k++) {
            char bytes[512];
            const size_t n = forge_token_text(vocab, t->prompt[k], false, bytes, sizeof bytes);
            out_bytes(&pieces, bytes, n < sizeof bytes ? n : sizeof bytes);
        }
        if (prompt->kind == JSON_STRING) out_bytes(text, prompt->text, prompt->n);
        else out_bytes(text, pieces.bytes, pieces.n);
        x->texts[i].offset = characters(text) - characters(&pieces);
        t->told_prompt = t->logprobs;
        out_free(&pieces);
    }
}

/* The tokens of a prompt, from malloc.  NULL: refused. */
static int32_t *prompt_tokens(struct request *x, const struct json *prompt, size_t *n)
{
    const struct json *suffix = body_member(x->json, "suffix");
    if (!suffix || (suffix->kind == JSON_STRING && suffix->n == 0))
        return body_tokens(x, "prompt", prompt, FORGE_TOK_ADD | FORGE_TOK_SPECIAL, n);
    if (suffix->kind != JSON_STRING || prompt->kind != JSON_STRING)
        request_refuse(x, 400, "'suffix' must be a string, and 'prompt' with it a string or a list of strings");
    else if (infill_possible(x, 400)) return infill_between(x, prompt, suffix, n);
    return NULL;
}

/* Adds the tasks of one prompt; false: refused. */
static bool add_prompt(struct request *x, const struct json *prompt, uint32_t choices, bool echoes)
{
    const uint32_t first = x->n_tasks;
    size_t n;
    if (prompt->kind != JSON_STRING && prompt->kind != JSON_ARRAY)
        return request_refuse(x, 400, "'prompt' must be a string, a list of token ids, or a list of strings or such lists");
    if (first + choices > MOST_TEXTS) return request_refuse(x, 400, "'prompt' and 'n' ask for more than %d texts", MOST_TEXTS);
    int32_t *ids = prompt_tokens(x, prompt, &n);
    if (!ids || !request_choices(x, ids, n, choices)) return false;
    if (echoes) echo(x, prompt, first);
    return true;
}

void completions_post(struct request *x)
{
    if (!request_read(x, &kind)) return;
    if (x->server->program->embedding) { request_refuse(x, 400, "this is an embedding model: POST /v1/embeddings"); return; }
    const struct json *prompt = body_member(x->json, "prompt"), *options = json_member(x->json, "stream_options");
    int64_t choices = 1;
    bool echoes = false;
    if (!prompt) { request_refuse(x, 400, "'prompt' must be a string, a list of token ids, or a list of strings or such lists"); return; }
    if (!body_bool(x, x->json, "stream", &x->stream) || !body_integer(x, "n", 1, MOST_CHOICES, &choices) ||
        !body_bool(x, x->json, "echo", &echoes)) return;
    if (options && options->kind == JSON_OBJECT && !body_bool(x, options, "include_usage", &x->usage)) return;
    const struct json *suffix = body_member(x->json, "suffix"), *logprobs = body_member(x->json, "logprobs");
    if (echoes && suffix && suffix->n > 0 && logprobs && logprobs->kind != JSON_FALSE) {
        request_refuse(x, 400, "'suffix' with 'echo' and 'logprobs' is not supported: the prompt's tokens do not follow the text");
        return;
    }
    const bool several = body_is_list(prompt);
    for (const struct json *p = several ? prompt->first : prompt; p; p = several ? p->next : NULL)
        if (!add_prompt(x, p, (uint32_t)choices, echoes)) return;
    guided_tasks(x, NULL);
}
