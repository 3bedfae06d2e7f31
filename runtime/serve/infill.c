/* infill.c -- text between two texts ("fill in the middle"), for models with tokens for it, and POST /infill of llama.cpp.
 * The prompt is that of llama.cpp (tools/server/server-common.cpp, format_prompt_infill), except that a SentencePiece vocabulary adds no
 * space inside of the text: CodeLlama and Codestral were trained so (facebookresearch/codellama, encode_infilling). */
#include <stdlib.h>
#include <string.h>

#include "guided.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"

/* llama.cpp takes at most 3/4 of a batch (-b 2048) of the text before, and 1/4 of the text after. */
enum { MOST_BATCH = 2048 };

/* Tokens from malloc. */
struct ids { int32_t *ids; size_t n; };

static bool ids_add(struct request *x, struct ids *to, const int32_t *ids, size_t n)
{
    int32_t *more = realloc(to->ids, (to->n + n + 1) * sizeof *more);
    if (!more) return request_refuse(x, 503, "out of memory for the prompt");
    to->ids = more;
    if (n) memcpy(to->ids + to->n, ids, n * sizeof *ids);
    to->n += n;
    return true;
}

/* Adds a token of the vocabulary; nothing if it has none. */
static bool ids_mark(struct request *x, struct ids *to, enum forge_fim which)
{
    const int32_t id = forge_vocab_fim(x->server->program->vocab, which);
    return id < 0 || ids_add(x, to, &id, 1);
}

static bool ids_text(struct request *x, struct ids *to, const char *text, size_t n, uint32_t flags)
{
    struct forge_tokens tokens;
    struct forge_error error;
    const enum forge_status status = tokens_of_text(&tokens, x->server->program->vocab, text, n, flags, &error);
    if (status != FORGE_OK) return request_refuse(x, status == FORGE_NO_MEMORY ? 503 : 400, "%s", error.text);
    const bool ok = ids_add(x, to, tokens.ids, tokens.n);
    free(tokens.ids);
    return ok;
}

/* Adds a text as it would follow other text: without the space that SentencePiece puts before the first word. */
static bool ids_following(struct request *x, struct ids *to, const char *text, size_t n, uint32_t flags)
{
    static const char before[] = "\xe2\x98\xba";            /* no merge of SentencePiece crosses it */
    const struct forge_vocab_header *h = (const void *)x->server->program->vocab;
    struct ids alone = { 0 }, both = { 0 };
    struct out o = { 0 };
    if (h->kind != FORGE_VOCAB_SPM || !(h->flags & FORGE_VOCAB_SPACE_PREFIX)) return ids_text(x, to, text, n, flags);
    out_text(&o, before);
    out_bytes(&o, text, n);
    const bool ok = !o.failed ? ids_text(x, &alone, before, sizeof before - 1, 0) && ids_text(x, &both, o.bytes, o.n, flags) &&
                                ids_add(x, to, both.ids + alone.n, both.n - alone.n)
                              : request_refuse(x, 503, "out of memory for the prompt");
    out_free(&o);
    free(alone.ids);
    free(both.ids);
    return ok;
}

bool infill_possible(struct request *x, int status)
{
    const uint8_t *vocab = x->server->program->vocab;
    const bool both = vocab && forge_vocab_fim(vocab, FORGE_FIM_PREFIX) >= 0 && forge_vocab_fim(vocab, FORGE_FIM_SUFFIX) >= 0;
    if (both && (forge_vocab_suffix_first(vocab) || forge_vocab_fim(vocab, FORGE_FIM_MIDDLE) >= 0)) return true;
    return request_refuse(x, status, "'%s': this model cannot fill in text: its vocabulary has no tokens for prefix, suffix and middle",
                          status == 400 ? "suffix" : "input_suffix");
}

/* Joins the parts, of which at most the last prefix->n and the first suffix->n tokens are wanted. */
static bool join(struct request *x, struct ids *to, const struct ids *extra, const struct ids *prefix, const struct ids *prompt,
                 const struct ids *suffix)
{
    const uint8_t *vocab = x->server->program->vocab;
    const int32_t bos = forge_vocab_bos(vocab);
    const bool first = forge_vocab_suffix_first(vocab);
    if (!ids_add(x, to, extra->ids, extra->n)) return false;
    if (forge_vocab_add_bos(vocab) && bos >= 0 && !ids_add(x, to, &bos, 1)) return false;
    if (first && !(ids_mark(x, to, FORGE_FIM_SUFFIX) && ids_add(x, to, suffix->ids, suffix->n))) return false;
    if (!ids_mark(x, to, FORGE_FIM_PREFIX) || !ids_add(x, to, prefix->ids, prefix->n) || !ids_add(x, to, prompt->ids, prompt->n))
        return false;
    return first || (ids_mark(x, to, FORGE_FIM_SUFFIX) && ids_add(x, to, suffix->ids, suffix->n) && ids_mark(x, to, FORGE_FIM_MIDDLE));
}

int32_t *infill_between(struct request *x, const struct json *prefix, const struct json *suffix, size_t *n)
{
    struct ids before = { 0 }, after = { 0 }, none = { 0 }, all = { 0 };
    const bool ok = ids_text(x, &before, prefix->text, prefix->n, 0) && ids_following(x, &after, suffix->text, suffix->n, 0) &&
                    join(x, &all, &none, &before, &none, &after);
    free(before.ids);
    free(after.ids);
    if (!ok) free(all.ids);
    *n = all.n;
    return ok ? all.ids : NULL;
}

/* Adds the files of input_extra. */
static bool add_extra(struct request *x, struct ids *to, const struct json *list)
{
    static const char snippet[] = "\n\n--- snippet ---\n\n", project[] = "myproject\n", name[] = "filename\n";
    const uint8_t *vocab = x->server->program->vocab;
    const bool files = forge_vocab_fim(vocab, FORGE_FIM_FILE) >= 0;
    if (forge_vocab_fim(vocab, FORGE_FIM_REPOSITORY) >= 0 &&
        !(ids_mark(x, to, FORGE_FIM_REPOSITORY) && ids_text(x, to, project, sizeof project - 1, 0))) return false;
    for (const struct json *m = list ? list->first : NULL; m; m = m->next) {
        const struct json *text = json_member(m, "text"), *file = json_member(m, "filename");
        if (!text || text->kind != JSON_STRING || (file && file->kind != JSON_STRING))
            return request_refuse(x, 400, "'input_extra' must be a list of {\"filename\": text, \"text\": text}");
        struct out o = { 0 };
        if (file) out_bytes(&o, file->text, file->n);
        else out_text(&o, "tmp");
        out_text(&o, "\n");
        const bool ok = files ? ids_mark(x, to, FORGE_FIM_FILE) && ids_text(x, to, o.bytes, o.n, 0)
                              : ids_text(x, to, snippet, sizeof snippet - 1, 0);
        out_free(&o);
        if (!ok || !ids_text(x, to, text->text, text->n, 0)) return false;
    }
    return !files || (ids_mark(x, to, FORGE_FIM_FILE) && ids_text(x, to, name, sizeof name - 1, 0));
}

/* Leaves the end of the text before, the beginning of the text after, and as much of the end of the files as the context has room for,
 * beside an answer of `most` tokens. */
static void shorten(const struct request *x, struct ids *extra, struct ids *prefix, const struct ids *prompt, struct ids *suffix,
                    size_t most)
{
    const size_t n_ctx = x->server->engine->n_ctx, answer = most < n_ctx / 4 ? most : n_ctx / 4, room = n_ctx - answer,
                 batch = room < MOST_BATCH ? room : MOST_BATCH, after = batch / 4 > 2 + prompt->n ? batch / 4 - 2 - prompt->n : 0;
    if (prefix->n > 3 * (batch / 4)) {
        const size_t dropped = prefix->n - 3 * (batch / 4);
        memmove(prefix->ids, prefix->ids + dropped, (prefix->n -= dropped) * sizeof *prefix->ids);
    }
    if (suffix->n > after) suffix->n = after;
    const size_t used = prefix->n + prompt->n + suffix->n + 4, left = room > used ? room - used : 0;
    if (extra->n > left) {
        memmove(extra->ids, extra->ids + extra->n - left, left * sizeof *extra->ids);
        extra->n = left;
    }
}

static bool add_task(struct request *x, const struct json *prefix, const struct json *prompt, const struct json *suffix)
{
    struct ids extra = { 0 }, before = { 0 }, begun = { 0 }, after = { 0 }, all = { 0 };
    int64_t most = -1;
    const bool ok = add_extra(x, &extra, body_member(x->json, "input_extra")) && ids_text(x, &before, prefix->text, prefix->n, 0) &&
                    (!prompt || ids_following(x, &begun, prompt->text, prompt->n, FORGE_TOK_SPECIAL)) &&
                    ids_following(x, &after, suffix->text, suffix->n, 0) && body_integer(x, "n_predict", -1, INT32_MAX, &most);
    if (ok) shorten(x, &extra, &before, &begun, &after, most < 0 ? SIZE_MAX : (size_t)most);
    const bool joined = ok && join(x, &all, &extra, &before, &begun, &after);
    free(extra.ids);
    free(before.ids);
    free(begun.ids);
    free(after.ids);
    if (joined) return native_add(x, all.ids, all.n);
    free(all.ids);
    return false;
}

void infill_post(struct request *x)
{
    if (!native_read(x, ROUTE_INFILL) || !infill_possible(x, 501)) return;
    const struct json *prefix = body_member(x->json, "input_prefix"), *suffix = body_member(x->json, "input_suffix"),
                      *prompt = body_member(x->json, "prompt"), *extra = body_member(x->json, "input_extra");
    if (!prefix || prefix->kind != JSON_STRING || !suffix || suffix->kind != JSON_STRING)
        request_refuse(x, 400, "'%s' must be a string", prefix && prefix->kind == JSON_STRING ? "input_suffix" : "input_prefix");
    else if (prompt && prompt->kind != JSON_STRING) request_refuse(x, 400, "'prompt' must be a string");
    else if (extra && extra->kind != JSON_ARRAY)
        request_refuse(x, 400, "'input_extra' must be a list of {\"filename\": text, \"text\": text}");
    else if (add_task(x, prefix, prompt, suffix)) guided_tasks(x, NULL);
}
