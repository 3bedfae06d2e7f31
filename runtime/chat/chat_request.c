/* chat_request.c -- see chat_request.h. */
#include "chat_request.h"
#include "template.h"
#include "text.h"

struct request_reader { struct room *room; struct chat_request_error *error; };

/* Sets the error to `why`; if name is given, with its first bytes in quotes. */
static bool refuse(struct request_reader *r, const char *why, const struct json *name)
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
static bool no_room(struct request_reader *r) { return refuse(r, "the request needs more memory than there is for it", NULL); }

static bool refuse_json(struct request_reader *r, const char *text, const struct json_error *e)
{
    if (!e->why) return no_room(r);
    r->error->line = r->error->column = 1;
    for (size_t i = 0; i < e->at; i++) {
        r->error->column++;
        if (text[i] == '\n') { r->error->line++; r->error->column = 1; }
    }
    return refuse(r, e->why, NULL);
}

/* ---- the tree, which may be changed ---- */

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

/* The same, but also NULL if the value is null. */
static struct json *given(struct json *o, const char *name)
{
    struct json *v = member(o, name);
    return v && v->kind != JSON_NULL ? v : NULL;
}

/* Replaces the value of `to` by v. */
static void put_value(struct json *to, struct json v)
{
    v.next = to->next;
    v.name = to->name;
    v.n_name = to->n_name;
    *to = v;
}

/* Adds a member that does not exist yet. */
static struct json *member_new(struct request_reader *r, struct json *o, const char *name, enum json_kind kind)
{
    struct json *v = room_take(r->room, sizeof *v);
    if (!v) { no_room(r); return NULL; }
    *v = (struct json){ .kind = kind, .text = "", .name = name, .n_name = text_bytes(name) };
    *member_link(o, name) = v;
    o->n++;
    return v;
}

/* Removes the member at this link. */
static void member_remove(struct json *o, struct json **link)
{
    *link = (*link)->next;
    o->n--;
}

/* ---- ids ---- */

void chat_short_id(const char *text, size_t n, char id[CHAT_ID_BYTES])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t hash = 0xcbf29ce484222325u;                     /* FNV-1a, then the end of MurmurHash3, which spreads it over all bits */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    hash ^= hash >> 33;
    for (int i = 0; i < CHAT_ID_BYTES; i++, hash /= 62) id[i] = digits[hash % 62];
}

static bool is_short_id(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z'))) return false;
    return n == CHAT_ID_BYTES;
}

/* Gives the member `name`, an id, 9 letters and digits. */
static bool shorten_id(struct request_reader *r, struct json *o, const char *name)
{
    struct json *id = member(o, name);
    if (!id && !(id = member_new(r, o, name, JSON_STRING))) return false;
    if (id->kind == JSON_STRING && is_short_id(id->text, id->n)) return true;
    char *bytes = room_take(r->room, CHAT_ID_BYTES);
    if (!bytes) return no_room(r);
    chat_short_id(id->text, id->text ? id->n : 0, bytes);
    put_value(id, (struct json){ .kind = JSON_STRING, .text = bytes, .n = CHAT_ID_BYTES });
    return true;
}

/* ---- messages ---- */

static struct json *part_text(struct json *part)
{
    struct json *text = part->kind == JSON_STRING ? part : member(part, "text");
    if (!text) text = member(part, "refusal");
    return text && text->kind == JSON_STRING ? text : NULL;
}

/* Joins [{"type": "text", "text": T}, ...] to one text, with a line break between two parts. */
static bool join_parts(struct request_reader *r, struct json *content)
{
    size_t n = 0;
    for (struct json *p = content->first; p; p = p->next) {
        const struct json *text = part_text(p);
        if (!text) return refuse(r, "a part of a message's content is not a string, and this model reads text only", member(p, "type"));
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

/* Makes the arguments of a call an object: reads "{...}"; another value becomes {"arguments": it}, so that the conversation can continue
 * after a call that the model wrote wrong. */
static bool open_arguments(struct request_reader *r, struct json *arguments)
{
    struct json_error wrong;
    if (arguments->kind == JSON_STRING && arguments->n > 0) {
        const struct json *value = json_read(r->room, arguments->text, arguments->n, &wrong);
        if (value) put_value(arguments, *value);
        else if (!wrong.why) return no_room(r);
    } else if (arguments->kind == JSON_STRING) arguments->kind = JSON_NULL;
    if (arguments->kind == JSON_NULL) put_value(arguments, (struct json){ .kind = JSON_OBJECT });
    if (arguments->kind == JSON_OBJECT) return true;
    const struct json value = *arguments;
    put_value(arguments, (struct json){ .kind = JSON_OBJECT });
    struct json *inner = member_new(r, arguments, "arguments", value.kind);
    if (inner) put_value(inner, value);
    return inner;
}

/* Removes members that are null. */
static void remove_nulls(struct json *o)
{
    for (struct json **p = &o->first; *p; ) {
        if ((*p)->kind == JSON_NULL) member_remove(o, p);
        else p = &(*p)->next;
    }
}

static bool read_calls(struct request_reader *r, struct json *calls, const struct chat_family *family)
{
    if (calls->kind != JSON_ARRAY) return refuse(r, "'tool_calls' must be a list", NULL);
    for (struct json *call = calls->first; call; call = call->next) {
        struct json *function = member(call, "function"), *name = member(function, "name"), *arguments = member(function, "arguments");
        if (!name || name->kind != JSON_STRING) return refuse(r, "a member of 'tool_calls' has no function with a name", NULL);
        if (!arguments && !(arguments = member_new(r, function, "arguments", JSON_NULL))) return false;
        if (!open_arguments(r, arguments)) return false;
        remove_nulls(call);
        if (family->flags & CHAT_NINE && !shorten_id(r, call, "id")) return false;
    }
    return true;
}

/* Removes members that are null, "" or [], except the content. */
static void remove_empty(struct json *m)
{
    for (struct json **p = &m->first; *p; ) {
        const struct json *v = *p;
        const bool empty = v->kind == JSON_NULL || ((v->kind == JSON_STRING || v->kind == JSON_ARRAY) && v->n == 0);
        if (empty && !(v->n_name == 7 && memcmp(v->name, "content", 7) == 0)) member_remove(m, p);
        else p = &(*p)->next;
    }
}

/* Makes OpenAI's former `function_call` a list of one call, whose id is the function's name. */
static bool read_former_call(struct request_reader *r, struct json *m)
{
    struct json **link = member_link(m, "function_call"), *function = *link, *name = member(function, "name");
    if (!function || member(m, "tool_calls")) return true;
    if (!name || name->kind != JSON_STRING) return refuse(r, "'function_call' has no name", NULL);
    member_remove(m, link);
    struct json *calls = member_new(r, m, "tool_calls", JSON_ARRAY), *call = calls ? room_take(r->room, sizeof *call) : NULL;
    if (!call) return no_room(r);
    *call = (struct json){ .kind = JSON_OBJECT };
    calls->first = call;
    calls->n = 1;
    struct json *id = member_new(r, call, "id", JSON_STRING), *type = member_new(r, call, "type", JSON_STRING),
                *inner = member_new(r, call, "function", JSON_OBJECT);
    if (!id || !type || !inner) return false;
    put_value(id, *name);
    put_value(type, (struct json){ .kind = JSON_STRING, .text = "function", .n = 8 });
    put_value(inner, *function);
    return true;
}

/* A result of a former call: its id is the function's name. */
static bool read_former_result(struct request_reader *r, struct json *m, struct json *role)
{
    struct json *name = member(m, "name"), *id = member(m, "tool_call_id");
    put_value(role, (struct json){ .kind = JSON_STRING, .text = "tool", .n = 4 });
    if (!name || id) return true;
    if (!(id = member_new(r, m, "tool_call_id", JSON_STRING))) return false;
    put_value(id, *name);
    return true;
}

static bool read_message(struct request_reader *r, struct json *m, const struct chat_family *family)
{
    if (m->kind == JSON_OBJECT) remove_empty(m);
    struct json *role = member(m, "role");
    if (!role || role->kind != JSON_STRING) return refuse(r, "a message has no 'role'", NULL);
    if (json_is(role, "developer")) put_value(role, (struct json){ .kind = JSON_STRING, .text = "system", .n = 6 });
    if (json_is(role, "function") && !read_former_result(r, m, role)) return false;
    if (!read_former_call(r, m)) return false;
    struct json *content = member(m, "content"), *calls = member(m, "tool_calls");
    if (!content && !calls) return refuse(r, "a message has no 'content'", role);
    if (!content && !(content = member_new(r, m, "content", JSON_STRING))) return false;
    if (content->kind == JSON_NULL) put_value(content, (struct json){ .kind = JSON_STRING, .text = "" });     /* would be printed as None */
    if (content->kind == JSON_ARRAY && !join_parts(r, content)) return false;
    if (content->kind != JSON_STRING) return refuse(r, "a message's 'content' must be a text or a list of parts", role);
    if (family->flags & CHAT_NINE && json_is(role, "tool") && !shorten_id(r, m, "tool_call_id")) return false;
    return !calls || read_calls(r, calls, family);
}

bool chat_messages_read(struct room *room, struct json *messages, const struct chat_family *family, struct chat_request_error *error)
{
    struct request_reader r = { room, error };
    *error = (struct chat_request_error){ 0 };
    if (!messages || messages->kind != JSON_ARRAY || messages->n == 0)
        return refuse(&r, "'messages' must be a list of messages, and not empty", NULL);
    for (struct json *m = messages->first; m; m = m->next) if (!read_message(&r, m, family)) return false;
    return true;
}

const struct json *chat_take_prefill(struct json *messages)
{
    struct json **last = &messages->first;
    while ((*last)->next) last = &(*last)->next;
    const struct json *content = member(*last, "content");
    if (messages->n < 2 || !json_is(member(*last, "role"), "assistant") || member(*last, "tool_calls") || content->n == 0) return NULL;
    member_remove(messages, last);
    return content;
}

/* ---- what a template refused ---- */

/* Joins all system messages to one at the beginning, with an empty line between two.  False: there is no other than the first. */
static bool join_systems(struct room *room, struct json *messages)
{
    size_t n = 0, n_later = 0;
    for (struct json *m = messages->first; m; m = m->next) {
        if (!json_is(member(m, "role"), "system")) continue;
        n += member(m, "content")->n + 2;
        n_later += m != messages->first;
    }
    char *bytes = n_later ? room_take(room, n) : NULL;
    struct text_out joined = { bytes, n, 0, false };
    struct json *first = NULL;
    if (!bytes) return false;
    for (struct json **p = &messages->first; *p; ) {
        struct json *m = *p;
        if (!json_is(member(m, "role"), "system")) { p = &m->next; continue; }
        const struct json *content = member(m, "content");
        if (joined.n > 0) TEXT_OUT_WORDS(&joined, "\n\n");
        text_out_put(&joined, content->text, content->n);
        if (!first) first = m;
        member_remove(messages, p);
    }
    put_value(member(first, "content"), (struct json){ .kind = JSON_STRING, .text = bytes, .n = joined.n });
    first->next = messages->first;
    messages->first = first;
    messages->n++;
    return true;
}

bool chat_loses_system(struct json *messages, const char *text, size_t n)
{
    enum { MOST = 64 };                                      /* bytes to look for: bounds the time */
    const struct json *last = NULL;
    for (struct json *m = messages->first ? messages->first->next : NULL; m; m = m->next)
        if (json_is(member(m, "role"), "system")) last = member(m, "content");
    if (!last) return false;
    const size_t skip = text_space_prefix(last->text, last->n), left = last->n - skip, some = left < MOST ? left : MOST;
    const size_t words = some - text_space_suffix(last->text + skip, some);
    for (size_t i = 0; i + words <= n; i++) if (memcmp(text + i, last->text + skip, words) == 0) return false;
    return true;
}

/* An upper bound of the bytes that json_put writes with spaces. */
static size_t json_most_bytes(const struct json *v)
{
    size_t n = (v->kind == JSON_STRING || v->kind == JSON_NUMBER ? 6 * v->n : 0) + 6 * v->n_name + 12;
    for (const struct json *m = v->kind >= JSON_ARRAY ? v->first : NULL; m; m = m->next) n += json_most_bytes(m);
    return n;
}

/* False: all arguments are texts. */
static bool close_arguments(struct room *room, struct json *messages)
{
    bool changed = false;
    for (struct json *m = messages->first; m; m = m->next) {
        const struct json *calls = member(m, "tool_calls");
        for (struct json *call = calls ? calls->first : NULL; call; call = call->next) {
            struct json *arguments = member(member(call, "function"), "arguments");
            if (arguments->kind == JSON_STRING) continue;
            const size_t most = json_most_bytes(arguments);
            struct text_out text = { room_take(room, most), most, 0, false };
            if (!text.bytes) return false;
            json_put(&text, arguments, true);
            put_value(arguments, (struct json){ .kind = JSON_STRING, .text = text.bytes, .n = text.n });
            changed = true;
        }
    }
    return changed;
}

bool chat_messages_relax(struct room *room, struct json *messages)
{
    return join_systems(room, messages) || (!room->full && close_arguments(room, messages));
}

/* ---- tools ---- */

/* Sets the type of the parameters to object.  False: they are of another type. */
static bool set_object(struct request_reader *r, struct json *parameters, const struct json *name)
{
    struct json *type = given(parameters, "type");
    bool fine = !type || json_is(type, "object");
    for (const struct json *t = type && type->kind == JSON_ARRAY ? type->first : NULL; t; t = t->next) fine |= json_is(t, "object");
    if (!fine) return refuse(r, "the parameters of a tool must be an object", name);
    if (!type) type = member(parameters, "type");
    if (!type && !(type = member_new(r, parameters, "type", JSON_STRING))) return false;
    put_value(type, (struct json){ .kind = JSON_STRING, .text = "object", .n = 6 });
    return given(parameters, "properties") || member(parameters, "$ref") || member(parameters, "anyOf") || member(parameters, "oneOf") ||
           member(parameters, "allOf") || member_new(r, parameters, "properties", JSON_OBJECT);
}

static bool read_tool(struct request_reader *r, struct json *t)
{
    struct json *function = member(t, "function");
    if (!function) function = t;
    struct json *name = member(function, "name");
    if (!name || name->kind != JSON_STRING) return refuse(r, "a member of 'tools' is not a function with a name", NULL);
    remove_nulls(function);
    struct json *description = member(function, "description"), *parameters = member(function, "parameters");
    if (!description) {                                      /* after the name, where it usually stands */
        description = room_take(r->room, sizeof *description);
        if (!description) return no_room(r);
        *description = (struct json){ .kind = JSON_STRING, .text = "", .name = "description", .n_name = 11, .next = name->next };
        name->next = description;
        function->n++;
    }
    if (!parameters && !(parameters = member_new(r, function, "parameters", JSON_TRUE))) return false;
    if (parameters->kind == JSON_TRUE) put_value(parameters, (struct json){ .kind = JSON_OBJECT });
    if (parameters->kind != JSON_OBJECT) return refuse(r, "the parameters of a tool must be a schema", name);
    return set_object(r, parameters, name);
}

bool chat_tools_read(struct room *room, struct json *tools, struct chat_request_error *error)
{
    struct request_reader r = { room, error };
    *error = (struct chat_request_error){ 0 };
    if (tools->kind != JSON_ARRAY) return refuse(&r, "'tools' must be a list of functions", NULL);
    for (struct json *t = tools->first; t; t = t->next) if (!read_tool(&r, t)) return false;
    return true;
}

/* ---- the request ---- */

static bool read_tools(struct request_reader *r, struct json *o, struct chat_request *out)
{
    struct json *tools = given(o, "tools");
    if (!tools) return member(o, "tools") || member_new(r, o, "tools", JSON_NULL);
    if (!chat_tools_read(r->room, tools, r->error)) return false;
    if (tools->n == 0 || json_is(member(o, "tool_choice"), "none")) put_value(tools, (struct json){ .kind = JSON_NULL });
    else out->tools = tools;
    return true;
}

/* Keeps only those members of the object that a template may see. */
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

bool chat_request_read(struct room *room, const uint8_t *image, const char *text, size_t n, struct chat_request *out,
                       struct chat_request_error *error)
{
    struct request_reader r = { room, error };
    struct json_error wrong;
    *out = (struct chat_request){ 0 };
    *error = (struct chat_request_error){ 0 };
    struct json *o = json_read(room, text, n, &wrong);
    if (!o) return refuse_json(&r, text, &wrong);
    struct json *kwargs = given(o, "chat_template_kwargs"), *prompt = given(o, "add_generation_prompt");
    out->messages = member(o, "messages");
    if (kwargs && kwargs->kind != JSON_OBJECT) return refuse(&r, "'chat_template_kwargs' must be an object", NULL);
    if (prompt && !json_is_bool(prompt)) return refuse(&r, "'add_generation_prompt' must be true or false", NULL);
    if (!read_tools(&r, o, out)) return false;
    out->family = chat_family(chat_writes(image, out->tools != NULL));
    if (!chat_messages_read(room, out->messages, out->family, error)) return false;
    if (!prompt) {
        prompt = member(o, "add_generation_prompt");
        if (prompt) prompt->kind = JSON_TRUE;
        else if (!member_new(&r, o, "add_generation_prompt", JSON_TRUE)) return false;
    }
    const struct json *wins = member(kwargs, "add_generation_prompt");
    if (!wins) wins = prompt;
    const struct json *prefill = !wins || wins->kind == JSON_TRUE ? chat_take_prefill(out->messages) : NULL;
    if (prefill) { out->prefill = prefill->text; out->n_prefill = prefill->n; }
    keep_variables(o);
    out->variables = o;
    out->more = kwargs;
    return true;
}
