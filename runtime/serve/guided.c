/* guided.c -- constraints that requests put on their answers: grammars, JSON schemas, required tool calls. */
#include "guided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chat/forced.h"
#include "runtime/chat/schema.h"
#include "runtime/text/tokenize.h"
#include "watch.h"

enum { MOST_GRAMMAR = 4 << 20, MOST_WARNINGS = 8192 };       /* bytes of GBNF for the tools; of warnings */

/* Lines of text become warnings of the answer. */
static void pass_on(struct request *x, const struct text_out *lines)
{
    for (size_t at = 0, end; at < lines->n; at = end + 1) {
        for (end = at; end < lines->n && lines->bytes[end] != '\n'; ) end++;
        request_warn(x, "%.*s", (int)(end - at), lines->bytes + at);
    }
}

static bool is_true(const struct json *v) { return v && v->kind == JSON_TRUE; }

/* The schema of the request as source of a guide; *name: its name in messages; *strict: what cannot be enforced is refused. */
static bool schema_of(struct request *x, const struct json *format, struct guide_source *source, const char **name, bool *strict)
{
    const struct json *schema = body_member(x->json, "json_schema"),
                      *type = json_member(format, "type");
    *name = format ? "response_format" : "json_schema";
    *strict = is_true(json_member(format, "strict")) || is_true(json_member(json_member(format, "json_schema"), "strict"));
    if (format && json_is(type, "json_schema")) {
        schema = json_member(json_member(format, "json_schema"), "schema");
        if (!schema) schema = body_member(format, "schema");
        if (!schema) return request_refuse(x, 400, "'response_format' of type json_schema has no json_schema.schema");
    } else if (format && json_is(type, "json_object")) {
        schema = body_member(format, "schema");
        if (!schema) out_text(&x->guide_text, "{\"type\":\"object\"}");
    } else if (format && !json_is(type, "text")) {
        return request_refuse(x, 400, "'response_format' must be of type text, json_object or json_schema");
    }
    if (schema) out_json(&x->guide_text, schema);
    *source = (struct guide_source){ .kind = GUIDE_SCHEMA, .text = x->guide_text.bytes, .n = x->guide_text.n };
    return true;
}

/* ---- required calls ---- */

struct rules {
    const struct request *request;
    const uint8_t *vocab;
    struct room *work;
    struct text_out *out, *warnings;
    struct grammar_error error;
    const struct json *at;               /* the function whose schema is wrong */
    uint32_t n, steps;
    bool failed, lenient;                /* lenient: a schema that is wrong, or too large, does not fail the request */
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

/* Does the tool ask that everything in its schema be enforced?  In the request tools have the form of its API.  silent: if it does not
 * say. */
static bool is_strict(const struct request *x, const struct json *function, bool silent)
{
    const struct json *tools = json_member(x->json, "tools"), *name = json_member(function, "name"), *strict = NULL;
    for (const struct json *t = tools && tools->kind == JSON_ARRAY ? tools->first : NULL; t; t = t->next) {
        const struct json *inner = json_member(t, "function"), *other = json_member(inner ? inner : t, "name");
        if (!name || !other || other->kind != JSON_STRING || other->n != name->n || memcmp(other->text, name->text, name->n) != 0) continue;
        strict = json_member(inner ? inner : t, "strict");
        if (!strict) strict = json_member(t, "strict");
    }
    return json_is_bool(strict) ? strict->kind == JSON_TRUE : silent;
}

/* Arguments are an object, even if the schema allows other values: `all` becomes the schema that says so. */
static const struct json *as_object(const struct json *schema, struct json all[5])
{
    static const char *const type = "type", *const object = "object";
    if (schema && json_is(json_member(schema, type), object)) return schema;
    all[0] = (struct json){ .kind = JSON_STRING, .text = object, .n = strlen(object), .name = type, .n_name = strlen(type) };
    all[1] = (struct json){ .kind = JSON_OBJECT, .n = 1, .first = &all[0] };
    if (!schema || schema->kind == JSON_NULL || schema->kind == JSON_TRUE) return &all[1];
    all[2] = *schema;
    all[2].next = NULL;
    all[1].next = &all[2];
    all[3] = (struct json){ .kind = JSON_ARRAY, .n = 2, .first = &all[1], .name = "allOf", .n_name = 5 };
    all[4] = (struct json){ .kind = JSON_OBJECT, .n = 1, .first = &all[3] };
    return &all[4];
}

/* The arguments of a tool whose schema cannot be read are free: `anything` is their schema. */
static bool be_lenient(struct rules *r, const struct json *function, const struct json *anything, const struct schema_options *options,
                       size_t begin)
{
    const struct json *name = json_member(function, "name");
    char line[320];
    const size_t before = r->warnings->n;
    const int n = snprintf(line, sizeof line, "the parameters of the tool '%.*s' are not enforced: %s\n",
                           (int)(name->n < 64 ? name->n : 64), name->text, r->error.text);
    if (!r->lenient || !options->warnings) return false;
    text_out_put(r->warnings, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    if (r->warnings->full) r->warnings->n = before;
    r->out->n = begin;
    r->work->full = false;
    return schema_grammar(r->work, anything, options, r->out, &r->error);
}

static void add_rule(void *context, const char *name, const struct json *schema, const struct json *function)
{
    static const struct json anything = { .kind = JSON_TRUE };
    struct rules *r = context;
    struct json all[5];
    char prefix[16];
    const struct json *root = json_member(function, "parameters");
    const bool strict = is_strict(r->request, function, r->request->kind->route == ROUTE_RESPONSES && !r->lenient);
    const struct schema_options options = { .prefix = prefix, .root = root, .work = &r->steps, .warnings = strict ? NULL : r->warnings };
    const bool whole = strncmp(name, "args", 4) == 0;
    const size_t mark = r->work->used;
    snprintf(prefix, sizeof prefix, "s%ux", r->n++);
    put(r->out, name);
    put(r->out, " ::= ");
    put(r->out, prefix);
    put(r->out, "root\n");
    if (r->failed) return;
    const size_t begin = r->out->n;
    r->failed = !schema_grammar(r->work, whole ? as_object(schema, all) : schema, &options, r->out, &r->error);
    r->work->used = mark;
    if (r->failed) r->failed = !be_lenient(r, function, whole ? as_object(NULL, all) : &anything, &options, begin);
    r->work->used = mark;
    if (r->failed) r->at = function;
}

/* Does the prompt end within reasoning? */
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

/* What the answer may be instead of calls: a schema as text of JSON, with its name in messages. */
struct other { const struct guide_source *schema; const char *name; bool strict; };

/* Writes the rule `answer`.  False: refused. */
static bool add_answer(struct request *x, struct rules *r, const struct other *o)
{
    struct json_error wrong;
    const struct schema_options options = { .prefix = "a", .warnings = o->strict ? NULL : r->warnings };
    const struct json *schema = json_read(r->work, o->schema->text, o->schema->n, &wrong);
    if (!schema) return request_refuse(x, 503, "out of memory for '%s'", o->name);
    put(r->out, "answer ::= aroot\n");
    return schema_grammar(r->work, schema, &options, r->out, &r->error) || r->out->full ||
           request_refuse(x, 400, "%s: %s", o->name, r->error.text);
}

/* begun: calls are free to begin or not.  other: NULL, or the answer may be this.  With either, *source stays as it is if the grammar
 * cannot hold calls. */
static bool calls_of(struct request *x, const struct chat *c, bool begun, const struct other *other, struct guide_source *source)
{
    const bool optional = begun || other;
    const struct json *name = c->forced_name;
    const size_t work_bytes = schema_room(strlen(x->body));
    void *work_block = malloc(work_bytes);
    char *root = malloc(MOST_GRAMMAR), *more = malloc(MOST_GRAMMAR);
    struct room work = room_of(work_block, work_bytes);
    struct text_out out = { root, MOST_GRAMMAR, 0, false }, rules_out = { more, MOST_GRAMMAR, 0, false };
    char lines[MOST_WARNINGS];
    struct text_out warnings = { lines, sizeof lines, 0, false };
    struct rules rules = { .request = x, .vocab = x->server->program->vocab, .work = &work, .out = &rules_out, .warnings = &warnings,
                           .steps = SCHEMA_WORK, .lenient = optional };
    const struct answer_force force  = {.family    = c->family,
                                        .tools     = c->tools,
                                        .name      = name ? name->text : NULL,
                                        .n_name    = name ? name->n : 0,
                                        .parallel  = c->parallel,
                                        .begun     = begun,
                                        .other     = other ? "answer" : NULL,
                                        .reasoning = is_reasoning(c),
                                        .control   = control,
                                        .rule      = add_rule,
                                        .context   = &rules};
    const bool memory = work_block && root && more, ok = memory && answer_forced(&force, &out);
    const bool refused = ok && other && !rules.failed && !rules_out.full && !add_answer(x, &rules, other);
    if (ok && !rules.failed && !rules_out.full && !refused) {
        x->guide_text.n = 0;
        out_bytes(&x->guide_text, root, out.n);
        out_bytes(&x->guide_text, more, rules_out.n);
    }
    free(work_block);
    free(root);
    free(more);
    if (refused) return false;
    if (!memory) return request_refuse(x, 503, "out of memory for 'tool_choice'");
    if (rules.failed && !(optional && rules_out.full)) {
        const struct json *of = json_member(rules.at, "name");
        return request_refuse(x, 400, "the parameters of the tool '%.*s': %s", (int)(of->n < 64 ? of->n : 64), of->text, rules.error.text);
    }
    if (optional && (!ok || rules_out.full)) {
        if (out.full || rules_out.full) request_warn(x, "'tools': calls are not enforced, because the schemas are too large together");
        return true;
    }
    pass_on(x, &warnings);
    if (!ok && name) return request_refuse(x, 400, "'tool_choice': there is no tool '%.*s', or this model writes no calls",
                                           (int)(name->n < 64 ? name->n : 64), name->text);
    if (!ok || rules_out.full) return request_refuse(x, 400, "'tool_choice': this model writes no calls, or the tools are too large");
    *source = (struct guide_source){ .kind = GUIDE_GRAMMAR, .text = x->guide_text.bytes, .n = x->guide_text.n };
    return true;
}

/* ---- guides ---- */

/* Opens a task's guide of calls that the model begins by itself; a grammar that is too large leaves them free. */
static enum forge_status watch_calls(struct request *x, uint32_t task, const struct guide_source *source, struct forge_error *error)
{
    const struct chat *c = chat_of(x);
    struct task *t = x->tasks[task];
    const struct answer_options o = chat_answer(c);
    const enum forge_status status = guide_open(&t->guide, source, x->server->lexicon, "tools", error);
    if (status == FORGE_USAGE) {
        request_warn(x, "'tools': calls are not enforced: %s", error->text);
        return FORGE_OK;
    }
    if (status != FORGE_OK) return status;
    t->watch = watch_open(&o, c->prefill, c->n_prefill, !c->parallel);
    return t->watch ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory for 'tools'");
}

bool guided_tasks(struct request *x, const struct json *format)
{
    struct server *s = x->server;
    struct chat *c = x->chat ? chat_of(x) : NULL;
    const struct json *grammar = body_member(x->json, "grammar");
    const bool forced = c && c->forced;
    bool begun = false, called = forced;     /* called: the guide knows calls */
    const char *name = "grammar";
    bool strict = true;
    char lines[MOST_WARNINGS];
    struct text_out warnings = { lines, sizeof lines, 0, false };
    struct guide_source source = { .kind = GUIDE_GRAMMAR };
    if (forced) {
        if (!calls_of(x, c, false, NULL, &source)) return false;
        name = "tool_choice";
    } else if (grammar) {
        if (grammar->kind != JSON_STRING) return request_refuse(x, 400, "'grammar' must be a text of GBNF");
        source.text = grammar->text;
        source.n = grammar->n;
    } else if (!schema_of(x, format ? format : body_member(x->json, "response_format"), &source, &name, &strict)) return false;
    if (c && c->tools && !forced && !grammar && (source.n > 0 || !forge_grammar)) {
        const struct guide_source schema = source;
        const struct other other = { &schema, name, strict };
        begun = source.n == 0;
        if (!calls_of(x, c, begun, begun ? NULL : &other, &source)) return false;
        called = source.kind == GUIDE_GRAMMAR;
    }
    if (x->guide_text.failed) return request_refuse(x, 503, "out of memory for '%s'", name);
    if (source.n == 0 && forge_grammar)
        source = (struct guide_source){ .kind = GUIDE_IMAGE, .text = (const char *)forge_grammar, .n = guide_image_bytes(forge_grammar) };
    if (source.n == 0) return true;
    struct forge_error error;
    enum forge_status status = s->lexicon ? FORGE_OK : guide_lexicon(&s->lexicon, s->program, &error);
    source.warnings = strict ? NULL : &warnings;
    for (uint32_t i = 0; i < x->n_tasks && status == FORGE_OK && (i == 0 || x->tasks[0]->guide); i++) {
        if (i == 1) source = guide_shared(x->tasks[0]->guide);
        status = begun ? watch_calls(x, i, &source, &error) : guide_open(&x->tasks[i]->guide, &source, s->lexicon, name, &error);
        if (c && !called && is_reasoning(c)) x->tasks[i]->guide_after = c->family->think[1];
    }
    if (status != FORGE_OK) return request_refuse(x, status == FORGE_NO_MEMORY ? 503 : 400, "%s", error.text);
    for (uint32_t i = 0; i < x->n_tasks && called; i++)
        if (x->tasks[i]->guide) answer_in_pieces(&c->choices[i].answer);
    pass_on(x, &warnings);
    return true;
}
