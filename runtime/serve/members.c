/* members.c -- the members of a request's body: what is done, what is refused, and what is accepted with a warning (members.def). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/chat/grammar.h"
#include "server.h"

enum verdict { DONE, HINT, REFUSED };
enum { C = ROUTE_CHATS, T = ROUTE_COMPLETIONS, R = ROUTE_RESPONSES, M = ROUTE_MESSAGES, E = ROUTE_EMBEDDINGS,
       I = ROUTE_INFILL, N = ROUTE_NATIVE | I, A = C | T | R | M | E | N,
       L = ROUTE_OLLAMA_CHAT, G = ROUTE_OLLAMA_GENERATE, B = ROUTE_OLLAMA_EMBED, P = ROUTE_OLLAMA_OPTIONS };

static const struct member { const char *name; size_t n; uint32_t routes; enum verdict verdict; const char *value; } members[] = {
#define MEMBER(name, routes, verdict, value) { #name, sizeof #name - 1, routes, verdict, value },
#include "members.def"
#undef MEMBER
};

enum { MOST_WARNINGS = 16, MOST_LOGGED = 100 };

void request_warn(struct request *x, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (x->n_warnings++ >= MOST_WARNINGS) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (x->warnings.n > 0) out_text(&x->warnings, ",");
    out_string(&x->warnings, text, strlen(text));
    if (x->server->n_warned++ >= MOST_LOGGED) return;
    for (char *p = text; *p; p++) if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) *p = '?';      /* for terminals: only ASCII */
    fprintf(stderr, "warning: a request: %s\n", text);
    if (x->server->n_warned == MOST_LOGGED) fprintf(stderr, "warning: further warnings are only in the answers\n");
}

void put_warnings(struct out *o, const struct request *x)
{
    if (x->warnings.n == 0) return;
    out_text(o, ",\"warnings\":[");
    out_bytes(o, x->warnings.bytes, x->warnings.n);
    out_text(o, "]");
}

static const struct member *member_of(const struct json *m, uint32_t route)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].n == m->n_name && members[i].routes & route && memcmp(members[i].name, m->name, m->n_name) == 0)
            return &members[i];
    return NULL;
}

/* Does the member of a body ask for nothing?  value: as in members.def. */
static bool asks_nothing(const struct json *body, const struct json *m, const char *value)
{
    char text[64];
    struct text_out out = { text, sizeof text, 0, false };
    double number, other;
    const struct json *alike = *value == '=' && m->kind == JSON_NUMBER ? body_member(body, value + 1) : NULL;
    if (alike) return json_real(m, &number) && json_real(alike, &other) && number <= other && number >= other;
    if (*value == '=') value = "1";
    if (m->kind == JSON_NULL || m->kind == JSON_FALSE || (m->kind >= JSON_STRING && m->n == 0)) return true;
    const struct json same = { .kind = JSON_NUMBER, .text = value, .n = strlen(value) };
    if (m->kind == JSON_NUMBER) return *value && json_real(m, &number) && json_real(&same, &other) && !(number < other || number > other);
    json_put(&out, m, false);
    return *value && !out.full && out.n == strlen(value) && memcmp(text, value, out.n) == 0;
}

/* ---- vLLM's names for guides ---- */

static void add_member(struct request *x, const char *name, const struct json *v)
{
    struct json *copy = room_take(&x->room, sizeof *copy), **p = &((struct json *)(uintptr_t)x->json)->first;
    if (!copy) return;
    *copy = *v;
    copy->name = name;
    copy->n_name = strlen(name);
    copy->next = NULL;
    while (*p) p = &(*p)->next;
    *p = copy;
}

/* Adds the grammar that allows one of these strings. */
static bool add_choices(struct request *x, const char *name, const struct json *choices)
{
    size_t most = 16;
    const char *separator = "root ::= ";
    if (choices->kind != JSON_ARRAY || choices->n == 0) return request_refuse(x, 400, "'%s' must be a list of strings", name);
    for (const struct json *c = choices->first; c; c = c->next) {
        if (c->kind != JSON_STRING) return request_refuse(x, 400, "'%s' must be a list of strings", name);
        most += 6 * c->n + 8;
    }
    struct text_out out = { room_take(&x->room, most), most, 0, false };
    for (const struct json *c = out.bytes ? choices->first : NULL; c; c = c->next, separator = " | ") {
        text_out_put(&out, separator, strlen(separator));
        grammar_put_literal(&out, c->text, c->n);
    }
    if (!out.bytes || out.full) return request_refuse(x, 413, "'%s' is too long", name);
    add_member(x, "grammar", &(struct json){ .kind = JSON_STRING, .text = out.bytes, .n = out.n });
    return true;
}

/* Adds guided_json and the like, or the members of structured_outputs, under the names that guided_tasks reads. */
static bool add_guides(struct request *x)
{
    const struct json *outputs = body_member(x->json, "structured_outputs"), *from = outputs ? outputs : x->json;
    const struct json *schema = body_member(from, outputs ? "json" : "guided_json"), *object = body_member(outputs, "json_object"),
                      *choices = body_member(from, outputs ? "choice" : "guided_choice"),
                      *grammar = body_member(from, outputs ? "grammar" : "guided_grammar");
    static const struct json type = { .kind = JSON_STRING, .text = "object", .n = 6, .name = "type", .n_name = 4 },
                             any = { .kind = JSON_OBJECT, .n = 1, .first = (struct json *)(uintptr_t)&type };
    if (outputs && outputs->kind != JSON_OBJECT) return request_refuse(x, 400, "'structured_outputs' must be an object");
    if (body_member(outputs, "regex") || body_member(outputs, "structural_tag"))
        return request_refuse(x, 400, "'structured_outputs': regex and structural_tag are not supported");
    if (schema && schema->kind == JSON_STRING) {
        struct json_error error;
        schema = json_read(&x->room, schema->text, schema->n, &error);
        if (!schema) return request_refuse(x, 400, "the schema in a text is not JSON: %s", error.why ? error.why : "too many values");
    }
    if (object && object->kind == JSON_TRUE) schema = &any;
    if (schema) add_member(x, "json_schema", schema);
    if (grammar) add_member(x, "grammar", grammar);
    return !choices || add_choices(x, outputs ? "structured_outputs" : "guided_choice", choices);
}

/* ---- the list ---- */

bool request_members(struct request *x, uint32_t route)
{
    for (const struct json *m = x->json->first; m; m = m->next) {
        const struct member *known = member_of(m, route);
        const int n = (int)(m->n_name < 60 ? m->n_name : 60);
        if (!known) request_warn(x, "'%.*s' is unknown and has no effect", n, m->name);
        else if (known->verdict == REFUSED && !asks_nothing(x->json, m, known->value))
            return request_refuse(x, 400, "'%s' is not supported: this server cannot do what it asks for", known->name);
    }
    return add_guides(x);
}
