/* guided.c -- what requests say of the form of their answers: grammars, JSON schemas, calls that must be. */
#include "guided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chat/forced.h"
#include "runtime/chat/schema.h"
#include "runtime/text/tokenize.h"

enum { MOST_GRAMMAR = 4 << 20 };         /* bytes of GBNF that tools become at most */

/* The schema of the request as the text of a guide; *name: what it is called in messages. */
static bool schema_of(struct exchange *x, const struct json *format, struct guide_source *source, const char **name)
{
    const struct json *schema = body_member(x->json, "json_schema"),
                      *type = json_member(format, "type");
    *name = format ? "response_format" : "json_schema";
    if (format && json_is(type, "json_schema")) {
        schema = json_member(json_member(format, "json_schema"), "schema");
        if (!schema) schema = body_member(format, "schema");
        if (!schema) return exchange_refuse(x, 400, "'response_format' of type json_schema has no json_schema.schema");
    } else if (format && json_is(type, "json_object")) {
        schema = body_member(format, "schema");
        if (!schema) out_text(&x->guide_text, "{\"type\":\"object\"}");
    } else if (format && !json_is(type, "text")) {
        return exchange_refuse(x, 400, "'response_format' must be of type text, json_object or json_schema");
    }
    if (schema) out_json(&x->guide_text, schema);
    *source = (struct guide_source){ .kind = GUIDE_SCHEMA, .text = x->guide_text.bytes, .n = x->guide_text.n };
    return true;
}

/* ---- calls that must be ---- */

struct rules {
    const uint8_t *vocab;
    struct room *work;
    struct text_out *out;
    struct grammar_error error;
    uint32_t n;
    bool failed;
};

static int32_t control(void *context, const char *text, size_t n, size_t *used)
{
    const struct rules *r = context;
    for (*used = n < 64 ? n : 64; *used > 0; --*used) {
        const int32_t id = forge_vocab_find(r->vocab, text, *used);
        if (id >= 0 && forge_vocab_is_control(r->vocab, id)) return id;
    }
    return -1;
}

static void put(struct text_out *to, const char *text) { text_out_put(to, text, strlen(text)); }

static void add_rule(void *context, const char *name, const struct json *schema, const struct json *root)
{
    static const struct json object_type = { .kind = JSON_STRING, .text = "object", .n = 6, .name = "type", .n_name = 4 },
                             any = { .kind = JSON_OBJECT, .n = 1, .first = (struct json *)(uintptr_t)&object_type };
    struct rules *r = context;
    char prefix[16];
    (void)root;
    snprintf(prefix, sizeof prefix, "s%ux", r->n++);
    put(r->out, name);
    put(r->out, " ::= ");
    put(r->out, prefix);
    put(r->out, "root\n");
    if (!r->failed && !schema_grammar(r->work, schema ? schema : &any, prefix, r->out, &r->error)) r->failed = true;
}

/* Has the prompt opened the reasoning? */
static bool is_reasoning(const struct chat *c)
{
    const char *const *think = c->family->think;
    if (!think[0] || !think[1]) return false;
    const size_t n = strlen(think[0]), m = strlen(think[1]);
    for (size_t at = c->n_text; at-- > 0 && c->n_text - at < 512; ) {
        if (c->n_text - at >= m && memcmp(c->text + at, think[1], m) == 0) return false;
        if (c->n_text - at >= n && memcmp(c->text + at, think[0], n) == 0) return true;
    }
    return false;
}

static bool forced_calls(struct exchange *x, const struct chat *c, struct guide_source *source)
{
    const struct json *name = c->forced_name;
    const size_t work_bytes = schema_room(strlen(x->body));
    void *work_block = malloc(work_bytes);
    char *root = malloc(MOST_GRAMMAR), *more = malloc(MOST_GRAMMAR);
    struct room work = room_of(work_block, work_bytes);
    struct text_out out = { root, MOST_GRAMMAR, 0, false }, rules_out = { more, MOST_GRAMMAR, 0, false };
    struct rules rules = { .vocab = x->server->program->vocab, .work = &work, .out = &rules_out };
    const struct answer_force force  = {.family    = c->family,
                                        .tools     = c->tools,
                                        .name      = name ? name->text : NULL,
                                        .n_name    = name ? name->n : 0,
                                        .parallel  = c->parallel,
                                        .reasoning = is_reasoning(c),
                                        .control   = control,
                                        .rule      = add_rule,
                                        .context   = &rules};
    const bool memory = work_block && root && more, ok = memory && answer_forced(&force, &out);
    if (ok && !rules.failed && !rules_out.full) {
        out_bytes(&x->guide_text, root, out.n);
        out_bytes(&x->guide_text, more, rules_out.n);
    }
    free(work_block);
    free(root);
    free(more);
    if (!memory) return exchange_refuse(x, 503, "out of memory for 'tool_choice'");
    if (rules.failed) return exchange_refuse(x, 400, "the parameters of a tool: %s", rules.error.text);
    if (!ok && name) return exchange_refuse(x, 400, "'tool_choice': there is no tool '%.*s', or this model writes no calls",
                                            (int)(name->n < 64 ? name->n : 64), name->text);
    if (!ok || rules_out.full) return exchange_refuse(x, 400, "'tool_choice': this model writes no calls, or the tools are too large");
    *source = (struct guide_source){ .kind = GUIDE_GRAMMAR, .text = x->guide_text.bytes, .n = x->guide_text.n };
    return true;
}

/* ---- guides ---- */

bool guided_tasks(struct exchange *x, const struct json *format)
{
    struct server *s = x->server;
    const struct chat *c = x->chat ? chat_of(x) : NULL;
    const struct json *grammar = body_member(x->json, "grammar");
    const bool forced = c && c->forced;
    const char *name = "grammar";
    struct guide_source source = { .kind = GUIDE_GRAMMAR };
    if (forced) {
        if (!forced_calls(x, c, &source)) return false;
        name = "tool_choice";
    } else if (grammar) {
        if (grammar->kind != JSON_STRING) return exchange_refuse(x, 400, "'grammar' must be a text of GBNF");
        source.text = grammar->text;
        source.n = grammar->n;
    } else if (!schema_of(x, format ? format : body_member(x->json, "response_format"), &source, &name)) return false;
    if (x->guide_text.failed) return exchange_refuse(x, 503, "out of memory for '%s'", name);
    if (source.n == 0 && forge_grammar)
        source = (struct guide_source){ .kind = GUIDE_IMAGE, .text = (const char *)forge_grammar, .n = guide_image_bytes(forge_grammar) };
    if (source.n == 0) return true;
    struct forge_error error;
    enum forge_status status = s->lexicon ? FORGE_OK : guide_lexicon(&s->lexicon, s->program, &error);
    for (uint32_t i = 0; i < x->n_tasks && status == FORGE_OK; i++) {
        status = guide_open(&x->tasks[i]->guide, &source, s->lexicon, name, &error);
        if (c && !forced && is_reasoning(c)) x->tasks[i]->guide_after = c->family->think[1];
    }
    return status == FORGE_OK || exchange_refuse(x, status == FORGE_NO_MEMORY ? 503 : 400, "%s", error.text);
}
