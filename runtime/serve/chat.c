/* chat.c -- see chat.h. */
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chat/chat_request.h"
#include "runtime/chat/tokens.h"
#include "runtime/run/entropy.h"
#include "runtime/run/rendering.h"
#include "runtime/text/tokenize.h"

enum { MOST_VARIABLES = 256 };

/* ---- making JSON ---- */

struct json *json_make(struct room *r, enum json_kind kind, const char *text, size_t n)
{
    struct json *v = room_take(r, sizeof *v);
    if (v) *v = (struct json){ .kind = kind, .text = text, .n = n };
    return v;
}

struct json *json_same(struct room *r, const struct json *v)
{
    struct json *copy = room_take(r, sizeof *copy);
    if (copy) *copy = *v;
    return copy;
}

void json_add(struct json *to, const char *name, struct json *member)
{
    if (!to || !member) return;
    member->name = name;
    member->n_name = name ? strlen(name) : 0;
    member->next = NULL;
    struct json **p = &to->first;
    while (*p) p = &(*p)->next;
    *p = member;
    to->n++;
}

/* ---- messages ---- */

bool chat_too_long(struct request *x) { return request_refuse(x, 413, "the messages have too many values"); }

struct json *chat_json(struct request *x, const char *text) { return json_make(&x->room, JSON_STRING, text, strlen(text)); }

struct json *chat_add_message(struct request *x, struct json *list, const char *role, struct json *content)
{
    struct json *m = json_make(&x->room, JSON_OBJECT, NULL, 0);
    json_add(m, "role", chat_json(x, role));
    json_add(m, "content", content);
    json_add(list, NULL, m);
    if (!x->room.full) return m;
    chat_too_long(x);
    return NULL;
}

bool chat_add_call(struct request *x, struct json *calls, const struct json *id, const struct json *name, const struct json *arguments)
{
    struct json *call = json_make(&x->room, JSON_OBJECT, NULL, 0), *function = json_make(&x->room, JSON_OBJECT, NULL, 0);
    if (id) json_add(call, "id", json_same(&x->room, id));
    json_add(call, "type", chat_json(x, "function"));
    json_add(function, "name", json_same(&x->room, name));
    json_add(function, "arguments", json_same(&x->room, arguments));
    json_add(call, "function", function);
    json_add(calls, NULL, call);
    return !x->room.full || chat_too_long(x);
}

bool chat_add_tool(struct request *x, struct json *tools, const struct json *t, const char *parameters)
{
    const char *const from[] = { "name", "description", parameters };
    static const char *const to[] = { "name", "description", "parameters" };
    struct json *tool = json_make(&x->room, JSON_OBJECT, NULL, 0), *function = json_make(&x->room, JSON_OBJECT, NULL, 0);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        const struct json *m = json_member(t, from[i]);
        if (m) json_add(function, to[i], json_same(&x->room, m));
    }
    json_add(tool, "type", chat_json(x, "function"));
    json_add(tool, "function", function);
    json_add(tools, NULL, tool);
    return !x->room.full || chat_too_long(x);
}

bool chat_few(struct request *x, const struct json *list, const char *name)
{
    return list->n <= CHAT_MOST_MEMBERS || request_refuse(x, 400, "'%s' has %zu members; the maximum is %d", name, list->n,
                                                                CHAT_MOST_MEMBERS);
}

struct json *chat_effort(struct request *x, const struct json *effort, const struct json *thinking)
{
    static const char *const names[] = { "enable_thinking", "thinking" };        /* of Qwen, GLM and others; of DeepSeek and Granite */
    struct json *v = json_make(&x->room, JSON_OBJECT, NULL, 0);
    const bool off = json_is(effort, "none") || (thinking && thinking->kind == JSON_FALSE), on = thinking && thinking->kind == JSON_TRUE;
    for (size_t i = 0; i < 2 && (off || on); i++) json_add(v, names[i], json_make(&x->room, off ? JSON_FALSE : JSON_TRUE, NULL, 0));
    if (effort && effort->kind == JSON_STRING && !off) json_add(v, "reasoning_effort", json_same(&x->room, effort));
    return v;
}

/* ---- tools ---- */

/* The function that a tool describes; NULL: it is another kind of tool. */
static const struct json *function_of(const struct json *tool, enum chat_api api)
{
    const struct json *type = body_member(tool, "type");
    switch (api) {
    case CHAT_API: return !type || json_is(type, "function") ? json_member(tool, "function") : NULL;
    case RESPONSES_API: return json_is(type, "function") ? tool : NULL;
    case MESSAGES_API: return !type || json_is(type, "custom") || json_is(type, "function") ? tool : NULL;
    }
    return NULL;
}

static int shown(const struct json *v) { return v && v->kind == JSON_STRING ? (int)(v->n < 60 ? v->n : 60) : 1; }
static const char *text_or(const struct json *v, const char *other) { return v && v->kind == JSON_STRING ? v->text : other; }

static bool add_function(struct request *x, struct json *list, const struct json *tool, enum chat_api api)
{
    const struct json *function = function_of(tool, api), *name = json_member(function, "name"), *type = body_member(tool, "type");
    if (!function && type && type->kind == JSON_STRING && !json_is(type, "function")) {
        name = json_member(tool, "name");
        if (!name) name = json_member(json_member(tool, "custom"), "name");
        request_warn(x, "the tool '%.*s' of type '%.*s' is left out: only functions can be called", shown(name ? name : type),
                     text_or(name ? name : type, "?"), shown(type), type->text);
        return true;
    }
    if (!name || name->kind != JSON_STRING) return request_refuse(x, 400, "a member of 'tools' is not a function with a name");
    if (api != CHAT_API) return chat_add_tool(x, list, tool, json_member(tool, "input_schema") ? "input_schema" : "parameters");
    json_add(list, NULL, json_same(&x->room, tool));
    return true;
}

bool chat_is_foreign(const struct json *type)
{
    static const char *const ends[] = { "_call", "_call_output", "_tool_use", "_tool_result" };
    for (size_t i = 0; type && type->kind == JSON_STRING && i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (type->n > n && memcmp(type->text + type->n - n, ends[i], n) == 0) return true;
    }
    return false;
}

static bool is_allowed(const struct json *allowed, const struct json *tool)
{
    const struct json *name = json_member(json_member(tool, "function"), "name");
    for (const struct json *a = allowed->first; a; a = a->next) {
        const struct json *inner = json_member(a, "function"), *other = json_member(inner ? inner : a, "name");
        if (other && other->kind == JSON_STRING && other->n == name->n && memcmp(other->text, name->text, name->n) == 0) return true;
    }
    return false;
}

bool chat_list_tools(struct request *x, struct chat_tools *tools, const struct json *given, enum chat_api api)
{
    const struct json *allowed = tools->allowed;
    if (given && given->kind != JSON_NULL) {
        if (given->kind != JSON_ARRAY) return request_refuse(x, 400, "'tools' must be a list of functions");
        if (!chat_few(x, given, "tools")) return false;
        tools->list = json_make(&x->room, JSON_ARRAY, NULL, 0);
        for (const struct json *t = given->first; t && tools->list; t = t->next)
            if (!add_function(x, tools->list, t, api)) return false;
        if (x->room.full) return chat_too_long(x);
    }
    for (struct json **p = allowed && tools->list ? &tools->list->first : NULL; p && *p; ) {
        if (is_allowed(allowed, *p)) { p = &(*p)->next; continue; }
        *p = (*p)->next;
        tools->list->n--;
    }
    if (tools->list && tools->list->n == 0) tools->list = NULL;
    if (tools->forced && !tools->list) return request_refuse(x, 400, "'tool_choice' asks for a call, and there are no 'tools' for it");
    if (tools->none) tools->list = NULL;
    return true;
}

bool chat_choose(struct request *x, struct chat_tools *tools, const struct json *choice, const struct json *named)
{
    const struct json *type = json_member(choice, "type");
    *tools = (struct chat_tools){ .parallel = true };
    if (!body_bool(x, x->json, "parallel_tool_calls", &tools->parallel)) return false;
    if (!choice || choice->kind == JSON_NULL || json_is(choice, "auto")) return true;
    if (json_is(choice, "none")) { tools->none = true; return true; }
    if (json_is(choice, "required")) { tools->forced = true; return true; }
    if (json_is(type, "allowed_tools")) {                    /* OpenAI's chats and responses write it in two ways */
        const struct json *inner = json_member(choice, "allowed_tools"), *from = inner ? inner : choice, *mode = json_member(from, "mode");
        tools->allowed = json_member(from, "tools");
        tools->forced = json_is(mode, "required");
        if (!tools->allowed || tools->allowed->kind != JSON_ARRAY || (!tools->forced && !json_is(mode, "auto")))
            return request_refuse(x, 400, "'tool_choice' of type allowed_tools must have a mode, auto or required, and tools");
        return true;
    }
    tools->forced = true;
    tools->forced_name = named;
    tools->parallel = false;                                 /* OpenAI: "call exactly one specific function" */
    if (choice->kind != JSON_OBJECT) return request_refuse(x, 400, "'tool_choice' must be auto, none, required or a function");
    return (named && named->kind == JSON_STRING) || request_refuse(x, 400, "'tool_choice' as an object must have a function with a name");
}

/* ---- the prompt ---- */

/* more: variables that the request asks for in its API's own form. */
static struct json *variables_of(struct request *x, struct json *messages, struct json *tools, const struct json *more, bool generates)
{
    struct json *v = json_make(&x->room, JSON_OBJECT, NULL, 0);
    const struct json *given[] = { x->server->kwargs, more, json_member(x->json, "chat_template_kwargs") };
    const struct json *documents = body_member(x->json, "documents");
    json_add(v, "messages", json_same(&x->room, messages));
    json_add(v, "tools", tools ? json_same(&x->room, tools) : json_make(&x->room, JSON_NULL, NULL, 0));
    json_add(v, "add_generation_prompt", json_make(&x->room, generates ? JSON_TRUE : JSON_FALSE, NULL, 0));
    if (documents) json_add(v, "documents", json_same(&x->room, documents));
    for (size_t i = 0; i < 3 && v; i++)
        for (const struct json *m = given[i] && given[i]->kind == JSON_OBJECT ? given[i]->first : NULL; m; m = m->next) {
            struct json *copy = json_same(&x->room, m);
            if (!copy) break;
            copy->next = NULL;
            struct json **p = &v->first;                     /* the request's value wins over one that exists already */
            while (*p && ((*p)->n_name != m->n_name || memcmp((*p)->name, m->name, m->n_name) != 0)) p = &(*p)->next;
            if (*p) { copy->next = (*p)->next; *p = copy; }
            else { *p = copy; v->n++; }
        }
    return x->room.full ? NULL : v;
}

static int64_t local_seconds(void)
{
    const time_t t = time(NULL);
    struct tm local;
    localtime_r(&t, &local);
    return (int64_t)t + local.tm_gmtoff;
}

/* The text of the conversation with the origin of its parts. */
static enum rendering render(const struct request *x, const struct json *variables, struct chat_text *out, struct chat_error *error)
{
    const struct forge_program *p = x->server->program;
    const int32_t bos = forge_vocab_bos(p->vocab), eos = forge_vocab_eos(p->vocab);
    char bos_text[256] = "", eos_text[256] = "";
    if (bos >= 0) forge_token_text(p->vocab, bos, true, bos_text, sizeof bos_text - 1);        /* zero bytes follow */
    if (eos >= 0) forge_token_text(p->vocab, eos, true, eos_text, sizeof eos_text - 1);
    const struct chat_input input = { .variables = variables, .bos = bos >= 0 ? bos_text : NULL, .eos = eos >= 0 ? eos_text : NULL,
                                      .now = local_seconds(), .family_variables = true };
    const bool is_read = chat_of(x)->n_choices > 0;           /* else the text itself is the answer, however long it is */
    const size_t most = is_read ? text_bytes_most(p->vocab, x->server->engine->n_ctx) : SIZE_MAX;
    return render_conversation(p->chat, &input, strlen(x->body), most, out, error);
}

/* Renders the messages as they are, then in forms that the template may accept instead.  False: refused. */
static bool prompt_of(struct request *x, struct json *messages, const struct chat_tools *tools, const struct json *more, bool generates,
                      struct chat_text *out)
{
    struct chat_error error, first = { .text = "" };
    for (uint32_t tries = 0; ; tries++) {
        const struct json *variables = variables_of(x, messages, tools->list, more, generates);
        const enum rendering got = variables ? render(x, variables, out, &error) : RENDERING_NO_MEMORY;
        if (got == RENDERED) {
            if (tries > 0 || !chat_loses_system(messages, out->bytes, out->n) || !chat_messages_relax(&x->room, messages)) return true;
            free(out->bytes);
            free(out->input);
            continue;
        }
        if (!variables) return chat_too_long(x);
        if (got == RENDERING_TOO_LONG)
            return request_refuse(x, 400, "the text is longer than the %u tokens that the context holds (context_length_exceeded)",
                                  x->server->engine->n_ctx);
        if (got == RENDERING_NO_MEMORY) return request_refuse(x, 503, "out of memory for the prompt");
        if (!first.text[0]) first = error;
        if ((error.fault == CHAT_RAISED || error.fault == CHAT_REFUSED) && chat_messages_relax(&x->room, messages)) continue;
        if (x->room.full) return chat_too_long(x);
        if (first.fault == CHAT_RAISED) return request_refuse(x, 400, "the model's chat template refuses the messages: %s", first.text);
        return request_refuse(x, 400, "the model's chat template cannot take the messages: %s (line %u)", first.text, first.line);
    }
}

/* The prompt's tokens, from malloc; false: refused. */
static bool tokens_of(struct request *x, const struct chat_text *text, int32_t **ids, size_t *n)
{
    const uint8_t *vocab = x->server->program->vocab;
    const size_t scratch_bytes = forge_tokenize_scratch(text->n), most = FORGE_TOK_MOST(text->n);
    void *scratch = malloc(scratch_bytes + 1);
    *ids = malloc(most * sizeof **ids);
    const int64_t got = scratch && *ids ? chat_tokenize(vocab, text, *ids, most, scratch, scratch_bytes) : FORGE_TOK_NO_SCRATCH;
    free(scratch);
    if (got >= 0) { *n = (size_t)got; return true; }
    free(*ids);
    return request_refuse(x, 503, "out of memory for the prompt's tokens");
}

static void tell(void *choice, const struct answer_event *event)
{
    struct chat_choice *c = choice;
    c->cut |= event->kind == ANSWER_CALL_END && event->cut;
    chat_of(c->request)->event(c, event);
}

struct answer_options chat_answer(const struct chat *c)
{
    enum { TAIL = 512 };                                     /* end of the prompt, in which reasoning may have been opened */
    const size_t n = c->n_text - c->n_prefill, tail = n < TAIL ? n : TAIL;
    return (struct answer_options){ .family = c->family, .tools = c->tools, .prompt = c->text + n - tail, .n_prompt = tail };
}

static void begin_answers(struct chat *c)
{
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct chat_choice *one = &c->choices[i];
        struct answer_options o = chat_answer(c);
        o.tell = tell;
        o.context = one;
        o.room = one->room;
        o.room_bytes = ANSWER_ROOM;
        answer_begin(&one->answer, &o);
        answer_prefill(&one->answer, c->prefill, c->n_prefill);
    }
}

/* Adds the texts that end a turn in this family, in addition to the tokens of the vocabulary that end it. */
static void add_ends(struct task *t, const struct chat_family *family)
{
    for (size_t i = 0; i < CHAT_ENDS && family->ends[i] && t->n_stops < TASK_MOST_STOPS; i++) {
        t->stops[t->n_stops].text = family->ends[i];
        t->stops[t->n_stops++].n = strlen(family->ends[i]);
    }
}

/* Brings messages and tools to the form of templates.  False: refused. */
static bool read_chat(struct request *x, struct json *messages, struct json *tools, const struct chat_family *family)
{
    struct chat_request_error error;
    if (messages && messages->kind == JSON_ARRAY && !chat_few(x, messages, "messages")) return false;
    if ((!tools || chat_tools_read(&x->room, tools, &error)) && chat_messages_read(&x->room, messages, family, &error)) return true;
    return x->room.full ? chat_too_long(x) : request_refuse(x, 400, "%s", error.text);
}

/* *generates: the prompt ends where the assistant's message begins.  *prefill: the beginning of that message, or NULL. */
static bool read_prefill(struct request *x, struct json *messages, const struct json **prefill, bool *generates)
{
    const bool asked = body_member(x->json, "continue_final_message"), generate_asked = body_member(x->json, "add_generation_prompt");
    bool continues = true;
    *generates = true;
    *prefill = NULL;
    if (!body_bool(x, x->json, "add_generation_prompt", generates) || !body_bool(x, x->json, "continue_final_message", &continues))
        return false;
    if (asked && continues && generate_asked && *generates)
        return request_refuse(x, 400, "'continue_final_message' and 'add_generation_prompt' cannot both be true");
    if (asked && continues) *generates = true;
    if (continues && *generates) *prefill = chat_take_prefill(messages);
    return *prefill || !asked || !continues ||
           request_refuse(x, 400, "'continue_final_message': the last message must be the assistant's, and only text");
}

bool chat_begin(struct request *x, struct json *messages, const struct chat_tools *tools, const struct json *more, uint32_t choices,
                void (*event)(struct chat_choice *c, const struct answer_event *event))
{
    const struct forge_program *p = x->server->program;
    if (p->embedding) return request_refuse(x, 400, "this is an embedding model: POST /v1/embeddings");
    if (!p->chat || !p->vocab) return request_refuse(x, 400, "this model has no chat template; POST /v1/completions continues texts");
    struct chat *c = calloc(1, sizeof *c + choices * sizeof c->choices[0]);
    if (!c) return request_refuse(x, 503, "out of memory for the answers");
    x->more = c;
    x->free_more = chat_free;
    c->n_choices = choices;
    c->event = event;
    c->tools = tools->list;
    c->forced = tools->forced;
    c->forced_name = tools->forced_name;
    c->parallel = tools->parallel;
    c->former = tools->former;
    for (uint32_t i = 0; i < choices; i++) {
        c->choices[i].request = x;
        c->choices[i].index = i;
        c->choices[i].open = -1;
        if (!(c->choices[i].room = malloc(ANSWER_ROOM))) return request_refuse(x, 503, "out of memory for an answer");
    }
    c->family = chat_family(chat_writes(p->chat, tools->list != NULL));
    const struct json *kwargs = body_member(x->json, "chat_template_kwargs");
    const struct json *prefill;
    bool generates;
    if (kwargs && kwargs->kind != JSON_OBJECT) return request_refuse(x, 400, "'chat_template_kwargs' must be an object");
    if (kwargs && kwargs->n > MOST_VARIABLES)
        return request_refuse(x, 400, "'chat_template_kwargs' has more than %d members", MOST_VARIABLES);
    if (!read_chat(x, messages, tools->list, c->family) || !read_prefill(x, messages, &prefill, &generates)) return false;
    if (prefill) { c->prefill = prefill->text; c->n_prefill = prefill->n; }
    struct chat_text text;
    if (!prompt_of(x, messages, tools, more, generates, &text)) return false;
    c->text = text.bytes;
    c->n_text = text.n;
    if (c->n_prefill > 0) {                                  /* the answer has begun: the prefill becomes text of the conversation */
        char *bytes = realloc(text.bytes, text.n + c->n_prefill);
        uint8_t *input = realloc(text.input, text.n + c->n_prefill);
        if (bytes) c->text = text.bytes = bytes;
        if (input) text.input = input;
        if (!bytes || !input) { free(text.input); return request_refuse(x, 503, "out of memory for the prompt"); }
        memcpy(bytes + text.n, c->prefill, c->n_prefill);
        memset(input + text.n, 1, c->n_prefill);
        c->n_text = text.size = text.n += c->n_prefill;
    }
    if (choices == 0) { free(text.input); return true; }
    int32_t *ids;
    size_t n;
    const bool ok = tokens_of(x, &text, &ids, &n);
    free(text.input);
    if (!ok) return false;
    begin_answers(c);
    if (!request_choices(x, ids, n, choices)) return false;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        x->tasks[i]->special = true;
        add_ends(x->tasks[i], c->family);
    }
    return true;
}

/* ---- events of the answer ---- */

void chat_text(struct request *x, uint32_t choice, const char *text, size_t n)
{
    answer_feed(&chat_of(x)->choices[choice].answer, text, n);
}
void chat_finish(struct request *x, uint32_t choice)
{
    struct answer *a = &chat_of(x)->choices[choice].answer;
    if (x->tasks[choice]->end == TASK_LENGTH) answer_cut(a);
    else answer_end(a);
}

void chat_free(struct request *x)
{
    struct chat *c = chat_of(x);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct chat_choice *one = &c->choices[i];
        free(one->room);
        out_free(&one->content);
        out_free(&one->reasoning);
        out_free(&one->calls);
        out_free(&one->arguments);
    }
    free(c->text);
    free(c);
}

void chat_call_id(struct chat_choice *c, const struct answer_event *e, const char *prefix)
{
    const int n = e->n_id > 0 ? snprintf(c->id, sizeof c->id, "%.*s", (int)e->n_id, e->id)
                              : snprintf(c->id, sizeof c->id, "%s%016llx%08x", prefix, (unsigned long long)entropy(), (uint32_t)entropy());
    if (e->n_id > 0 || !(chat_of(c->request)->family->flags & CHAT_NINE)) return;
    chat_short_id(c->id, (size_t)n, c->id);
    c->id[CHAT_ID_BYTES] = 0;
}
