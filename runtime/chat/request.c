/* request.c -- see request.h. */
#include "request.h"

struct reader { struct room *room; struct request_error *error; };

/* why, with the first bytes of name [n] in quotes where there is one. */
static bool refuse(struct reader *r, const char *why, const struct json *name)
{
    struct text_out out = { r->error->text, sizeof r->error->text - 1, 0, false };
    text_out_put(&out, why, text_bytes(why));
    if (name && name->kind == JSON_STRING) {
        TEXT_OUT_WORDS(&out, ": '");
        for (size_t i = 0; i < name->n && i < 60; i++) text_out_char(&out, (uint8_t)name->text[i] < 0x20 ? '?' : name->text[i]);
        text_out_char(&out, '\'');
    }
    r->error->text[out.n] = 0;
    return false;
}
static bool no_room(struct reader *r) { return refuse(r, "the request needs more memory than there is for it", NULL); }

static bool refuse_json(struct reader *r, const char *text, const struct json_error *e)
{
    if (!e->why) return no_room(r);
    r->error->line = r->error->column = 1;
    for (size_t i = 0; i < e->at; i++) {
        r->error->column++;
        if (text[i] == '\n') { r->error->line++; r->error->column = 1; }
    }
    return refuse(r, e->why, NULL);
}

/* ---- the tree, which is there to be changed ---- */

/* The link to the member called name, or to the end of the members. */
static struct json **member_link(struct json *o, const char *name)
{
    const size_t n = text_bytes(name);
    struct json **p = &o->first;
    while (*p && !((*p)->n_name == n && memcmp((*p)->name, name, n) == 0)) p = &(*p)->next;
    return p;
}
static struct json *member(struct json *o, const char *name)
{
    return o && o->kind == JSON_OBJECT ? *member_link(o, name) : NULL;
}

/* The same, NULL for null too. */
static struct json *given(struct json *o, const char *name)
{
    struct json *v = member(o, name);
    return v && v->kind != JSON_NULL ? v : NULL;
}

/* v's value in the place of another's. */
static void put_value(struct json *to, struct json v)
{
    v.next = to->next;
    v.name = to->name;
    v.n_name = to->n_name;
    *to = v;
}

/* A member that has not been there. */
static struct json *member_new(struct reader *r, struct json *o, const char *name, enum json_kind kind)
{
    struct json *v = room_take(r->room, sizeof *v);
    if (!v) { no_room(r); return NULL; }
    *v = (struct json){ .kind = kind, .text = "", .name = name, .n_name = text_bytes(name) };
    *member_link(o, name) = v;
    o->n++;
    return v;
}

/* ---- messages ---- */

static struct json *part_text(struct json *part)
{
    struct json *text = member(part, "text");
    if (!text) text = member(part, "refusal");
    return text && text->kind == JSON_STRING ? text : NULL;
}

/* [{"type": "text", "text": T}, ...] as one text, a line break between two parts. */
static bool join_parts(struct reader *r, struct json *content)
{
    size_t n = 0;
    for (struct json *p = content->first; p; p = p->next) {
        const struct json *text = part_text(p);
        if (!text) return refuse(r, "a part of a message's content is no text, and this model reads text only", member(p, "type"));
        n += text->n + 1;
    }
    char *bytes = room_take(r->room, n);
    struct text_out joined = { bytes, n, 0, false };
    if (!bytes) return no_room(r);
    for (struct json *p = content->first; p; p = p->next) {
        const struct json *text = part_text(p);
        text_out_put(&joined, text->text, text->n);
        if (p->next) text_out_char(&joined, '\n');
    }
    put_value(content, (struct json){ .kind = JSON_STRING, .text = bytes, .n = joined.n });
    return true;
}

/* "arguments": "{...}" as the object it is. */
static bool open_arguments(struct reader *r, struct json *calls)
{
    static const char empty[] = "{}";
    if (calls->kind != JSON_ARRAY) return refuse(r, "'tool_calls' must be a list", NULL);
    for (struct json *call = calls->first; call; call = call->next) {
        struct json *function = member(call, "function"), *name = member(function, "name"), *arguments = member(function, "arguments");
        struct json_error wrong;
        if (!name || name->kind != JSON_STRING) return refuse(r, "a member of 'tool_calls' has no function with a name", NULL);
        if (!arguments || arguments->kind != JSON_STRING) continue;
        const struct json *value = json_read(r->room, arguments->n ? arguments->text : empty, arguments->n ? arguments->n : 2, &wrong);
        if (!value) return wrong.why ? refuse(r, "the arguments of a call are no JSON", name) : no_room(r);
        put_value(arguments, *value);
    }
    return true;
}

static bool read_message(struct reader *r, struct json *m)
{
    struct json *role = member(m, "role"), *content = member(m, "content"), *calls = given(m, "tool_calls");
    if (!role || role->kind != JSON_STRING) return refuse(r, "a message has no 'role'", NULL);
    if (json_is(role, "developer")) { role->text = "system"; role->n = 6; }
    if (!content && !calls) return refuse(r, "a message has no 'content'", role);
    if (!content && !(content = member_new(r, m, "content", JSON_STRING))) return false;
    if (content->kind == JSON_NULL) put_value(content, (struct json){ .kind = JSON_STRING, .text = "" });     /* would be printed: None */
    if (content->kind == JSON_ARRAY && !join_parts(r, content)) return false;
    if (content->kind != JSON_STRING) return refuse(r, "a message's 'content' must be a text or a list of parts", role);
    return !calls || open_arguments(r, calls);
}

/* The last message, if it is the assistant's and text alone, goes. */
static void take_prefill(struct json *messages, struct chat_request *out)
{
    struct json **last = &messages->first;
    while ((*last)->next) last = &(*last)->next;
    const struct json *content = member(*last, "content");
    if (messages->n < 2 || !json_is(member(*last, "role"), "assistant") || member(*last, "tool_calls") || content->n == 0) return;
    out->prefill = content->text;
    out->n_prefill = content->n;
    *last = NULL;
    messages->n--;
}

/* ---- the request ---- */

static bool read_tools(struct reader *r, struct json *o, struct chat_request *out)
{
    struct json *tools = given(o, "tools");
    if (!tools) return member(o, "tools") || member_new(r, o, "tools", JSON_NULL);
    if (tools->kind != JSON_ARRAY) return refuse(r, "'tools' must be a list of functions", NULL);
    for (struct json *t = tools->first; t; t = t->next) {
        struct json *function = member(t, "function");
        const struct json *name = member(function ? function : t, "name");
        if (!name || name->kind != JSON_STRING) return refuse(r, "a member of 'tools' is no function with a name", NULL);
    }
    if (tools->n == 0 || json_is(member(o, "tool_choice"), "none")) put_value(tools, (struct json){ .kind = JSON_NULL });
    else out->tools = tools;
    return true;
}

/* Only what a template may see stays of the object. */
static void keep_variables(struct json *o)
{
    static const char *const names[] = { "messages", "tools", "add_generation_prompt", "documents", "reasoning_effort" };
    enum { ALWAYS = 3, MOST = sizeof names / sizeof *names };
    struct json *kept[MOST], **to = &o->first;
    for (size_t i = 0; i < MOST; i++) kept[i] = i < ALWAYS ? member(o, names[i]) : given(o, names[i]);
    o->n = 0;
    for (size_t i = 0; i < MOST; i++) {
        if (!kept[i]) continue;
        *to = kept[i];
        to = &kept[i]->next;
        o->n++;
    }
    *to = NULL;
}

bool chat_request_read(struct room *room, const char *text, size_t n, struct chat_request *out, struct request_error *error)
{
    struct reader r = { room, error };
    struct json_error wrong;
    *out = (struct chat_request){ 0 };
    *error = (struct request_error){ 0 };
    struct json *o = json_read(room, text, n, &wrong);
    if (!o) return refuse_json(&r, text, &wrong);
    struct json *messages = member(o, "messages"), *kwargs = given(o, "chat_template_kwargs"), *prompt = given(o, "add_generation_prompt");
    if (!messages || messages->kind != JSON_ARRAY || messages->n == 0)
        return refuse(&r, "'messages' must be a list of messages, and not empty", NULL);
    if (kwargs && kwargs->kind != JSON_OBJECT) return refuse(&r, "'chat_template_kwargs' must be an object", NULL);
    if (prompt && !json_is_bool(prompt)) return refuse(&r, "'add_generation_prompt' must be true or false", NULL);
    for (struct json *m = messages->first; m; m = m->next) if (!read_message(&r, m)) return false;
    if (!read_tools(&r, o, out)) return false;
    if (!prompt) {
        prompt = member(o, "add_generation_prompt");
        if (prompt) prompt->kind = JSON_TRUE;
        else if (!member_new(&r, o, "add_generation_prompt", JSON_TRUE)) return false;
    }
    const struct json *wins = member(kwargs, "add_generation_prompt");
    if (!wins) wins = prompt;
    if (!wins || wins->kind == JSON_TRUE) take_prefill(messages, out);
    keep_variables(o);
    out->variables = o;
    out->more = kwargs;
    return true;
}
