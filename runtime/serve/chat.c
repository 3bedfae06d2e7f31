/* chat.c -- see chat.h. */
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chat/template.h"
#include "runtime/chat/tokens.h"
#include "runtime/run/entropy.h"
#include "runtime/text/tokenize.h"

/* Of a rendered prompt at most; the room of the template's own work grows as far. */
enum { FIRST_TEXT = 64 << 10, MOST_TEXT = 64 << 20, MOST_VARIABLES = 256 };

/* ---- JSON that is made ---- */

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

/* [{"type": "text", "text": T}, ...] as one text, a line break between two parts. */
static bool join_parts(struct exchange *x, struct json *content)
{
    size_t n = 0;
    for (const struct json *p = content->first; p; p = p->next) {
        const struct json *text = json_member(p, "text"), *type = json_member(p, "type");
        if (!text) text = json_member(p, "refusal");
        if (p->kind != JSON_OBJECT || !text || text->kind != JSON_STRING)
            return exchange_refuse(x, 400, "a part of a message's content is of type '%.*s'; this model reads text only",
                                   type && type->kind == JSON_STRING ? (int)(type->n < 40 ? type->n : 40) : 1,
                                   type && type->kind == JSON_STRING ? type->text : "?");
        n += text->n + 1;
    }
    char *joined = room_take(&x->room, n + 1);
    if (!joined) return exchange_refuse(x, 413, "the messages are too long");
    size_t at = 0;
    for (const struct json *p = content->first; p; p = p->next) {
        const struct json *text = json_member(p, "text");
        if (!text) text = json_member(p, "refusal");
        if (p != content->first) joined[at++] = '\n';
        memcpy(joined + at, text->text, text->n);
        at += text->n;
    }
    *content = (struct json){ .kind = JSON_STRING, .text = joined, .n = at, .next = content->next, .name = content->name,
                              .n_name = content->n_name };
    return true;
}

/* "arguments": "{...}" as the object it is. */
static bool open_arguments(struct exchange *x, const struct json *calls)
{
    if (calls->kind != JSON_ARRAY) return exchange_refuse(x, 400, "'tool_calls' must be a list");
    for (const struct json *c = calls->first; c; c = c->next) {
        const struct json *function = json_member(c, "function"), *name = json_member(function, "name");
        struct json *arguments = json_own(json_member(function, "arguments"));
        if (!name || name->kind != JSON_STRING) return exchange_refuse(x, 400, "a member of 'tool_calls' has no function with a name");
        if (!arguments || arguments->kind != JSON_STRING) continue;
        struct json_error error;
        static const char empty[] = "{}";
        const struct json *value = json_read(&x->room, arguments->n ? arguments->text : empty, arguments->n ? arguments->n : 2, &error);
        if (!value) return exchange_refuse(x, 400, "the arguments of a call of '%.*s' are no JSON: %s", (int)(name->n < 64 ? name->n : 64),
                                           name->text, error.why ? error.why : "too many values");
        const struct json place = *arguments;
        *arguments = *value;
        arguments->next = place.next;
        arguments->name = place.name;
        arguments->n_name = place.n_name;
    }
    return true;
}

bool chat_too_long(struct exchange *x) { return exchange_refuse(x, 413, "the messages have too many values"); }

struct json *chat_json(struct exchange *x, const char *text) { return json_make(&x->room, JSON_STRING, text, strlen(text)); }

struct json *chat_add_message(struct exchange *x, struct json *list, const char *role, struct json *content)
{
    struct json *m = json_make(&x->room, JSON_OBJECT, NULL, 0);
    json_add(m, "role", chat_json(x, role));
    json_add(m, "content", content);
    json_add(list, NULL, m);
    if (!x->room.full) return m;
    chat_too_long(x);
    return NULL;
}

bool chat_add_call(struct exchange *x, struct json *calls, const struct json *id, const struct json *name, const struct json *arguments)
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

bool chat_add_tool(struct exchange *x, struct json *tools, const struct json *t, const char *parameters)
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

bool chat_few(struct exchange *x, const struct json *list, const char *name)
{
    return list->n <= CHAT_MOST_MEMBERS || exchange_refuse(x, 400, "'%s' has %zu members; %d are taken", name, list->n, CHAT_MOST_MEMBERS);
}

bool chat_messages(struct exchange *x, struct json *messages)
{
    if (!messages || messages->kind != JSON_ARRAY || messages->n == 0)
        return exchange_refuse(x, 400, "'messages' must be a list of messages, and not empty");
    if (!chat_few(x, messages, "messages")) return false;
    for (struct json *m = messages->first; m; m = m->next) {
        struct json *role = json_own(json_member(m, "role")), *content = json_own(json_member(m, "content"));
        const struct json *calls = json_member(m, "tool_calls");
        if (!role || role->kind != JSON_STRING) return exchange_refuse(x, 400, "a message has no 'role'");
        if (json_is(role, "developer")) { role->text = "system"; role->n = 6; }
        if (content && content->kind == JSON_ARRAY && !join_parts(x, content)) return false;
        if (content && content->kind == JSON_NULL) {         /* templates would print None */
            content->kind = JSON_STRING;
            content->text = "";
            content->n = 0;
        }
        if (content && content->kind != JSON_STRING)
            return exchange_refuse(x, 400, "a message's 'content' must be a text or a list of parts");
        if (!content && !calls) return exchange_refuse(x, 400, "a message has no 'content'");
        if (calls && calls->kind != JSON_NULL && !open_arguments(x, calls)) return false;
        if (!content) {
            struct json *none = json_make(&x->room, JSON_STRING, "", 0);
            if (!none) return exchange_refuse(x, 413, "the messages are too long");
            json_add(m, "content", none);
        }
    }
    return true;
}

/* ---- the prompt ---- */

/* The last message, if it is the assistant's with a text alone, is how the answer begins. */
static void take_prefill(struct chat *c, struct json *messages)
{
    struct json **last = &messages->first;
    while ((*last)->next) last = &(*last)->next;
    const struct json *content = json_member(*last, "content");
    if (messages->n < 2 || !json_is(json_member(*last, "role"), "assistant") || json_member(*last, "tool_calls") || content->n == 0) return;
    c->prefill = content->text;
    c->n_prefill = content->n;
    *last = NULL;
    messages->n--;
}

static struct json *variables_of(struct exchange *x, struct json *messages, struct json *tools, const struct json *more)
{
    struct json *v = json_make(&x->room, JSON_OBJECT, NULL, 0);
    const struct json *given[] = { x->server->kwargs, json_member(x->json, "chat_template_kwargs"), more };
    static const char *const passed[] = { "documents", "reasoning_effort" };
    json_add(v, "messages", json_same(&x->room, messages));
    json_add(v, "tools", tools ? json_same(&x->room, tools) : json_make(&x->room, JSON_NULL, NULL, 0));
    json_add(v, "add_generation_prompt", json_make(&x->room, JSON_TRUE, NULL, 0));
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const struct json *m = json_member(x->json, passed[i]);
        if (m && m->kind != JSON_NULL) json_add(v, passed[i], json_same(&x->room, m));
    }
    for (size_t i = 0; i < 3 && v; i++)
        for (const struct json *m = given[i] && given[i]->kind == JSON_OBJECT ? given[i]->first : NULL; m; m = m->next) {
            struct json *copy = json_same(&x->room, m);
            if (!copy) break;
            copy->next = NULL;
            struct json **p = &v->first;                     /* what is given wins over what stands there already */
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

/* Text of the conversation, with where it comes from; false: refused and closed. */
static bool render(struct exchange *x, const struct json *variables, struct chat_text *out)
{
    const struct forge_program *p = x->server->program;
    const int32_t bos = forge_vocab_bos(p->vocab), eos = forge_vocab_eos(p->vocab);
    char bos_text[256] = "", eos_text[256] = "";
    if (bos >= 0) forge_token_text(p->vocab, bos, true, bos_text, sizeof bos_text - 1);        /* zeros stand behind */
    if (eos >= 0) forge_token_text(p->vocab, eos, true, eos_text, sizeof eos_text - 1);
    const struct chat_input input = { .variables = variables, .bos = bos >= 0 ? bos_text : NULL, .eos = eos >= 0 ? eos_text : NULL,
                                      .now = local_seconds() };
    const size_t body = strlen(x->body);
    struct chat_error error;
    for (size_t room = FIRST_TEXT + 2 * body; ; room *= 4) {
        const size_t work_bytes = chat_room(body) * (room / FIRST_TEXT);
        void *work_block = malloc(work_bytes);
        struct room work = room_of(work_block, work_bytes);
        *out = (struct chat_text){ malloc(room), malloc(room), room, 0 };
        const bool ok = work_block && out->bytes && out->input && chat_render(p->chat, NULL, &input, &work, out, &error);
        const bool again = !ok && work_block && out->bytes && out->input && (error.fault == CHAT_NO_ROOM || error.fault == CHAT_NO_SPACE);
        free(work_block);
        if (ok) return true;
        const bool memory = !out->bytes || !out->input || !work_block;
        free(out->bytes);
        free(out->input);
        if (memory) return exchange_refuse(x, 503, "out of memory for the prompt");
        if (again && room < MOST_TEXT) continue;
        if (error.fault == CHAT_RAISED) return exchange_refuse(x, 400, "the model's chat template refuses the messages: %s", error.text);
        return exchange_refuse(x, 400, "the model's chat template cannot take the messages: %s (line %u)", error.text, error.line);
    }
}

/* The prompt's tokens, from malloc; false: refused and closed. */
static bool tokens_of(struct exchange *x, const struct chat_text *text, int32_t **ids, size_t *n)
{
    const uint8_t *vocab = x->server->program->vocab;
    const size_t scratch_bytes = forge_tokenize_scratch(text->n), most = FORGE_TOK_MOST(text->n);
    void *scratch = malloc(scratch_bytes + 1);
    *ids = malloc(most * sizeof **ids);
    const int64_t got = scratch && *ids ? chat_tokenize(vocab, text, *ids, most, scratch, scratch_bytes) : FORGE_TOK_NO_SCRATCH;
    free(scratch);
    if (got >= 0) { *n = (size_t)got; return true; }
    free(*ids);
    return exchange_refuse(x, 503, "out of memory for the prompt's tokens");
}

static void tell(void *choice, const struct answer_event *event)
{
    struct chat_choice *c = choice;
    chat_of(c->exchange)->event(c, event);
}

static void begin_answers(struct chat *c)
{
    enum { TAIL = 512 };                                     /* of the prompt: it may have opened the reasoning */
    const size_t tail = c->n_text < TAIL ? c->n_text : TAIL;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct chat_choice *one = &c->choices[i];
        const struct answer_options o = { .family = c->family, .tools = c->tools,
                                          .prompt = c->text + c->n_text - tail, .n_prompt = tail, .tell = tell, .context = one,
                                          .room = one->room, .room_bytes = ANSWER_ROOM };
        answer_begin(&one->answer, &o);
    }
}

/* What ends a turn in the texts of this family, beside the tokens of the vocabulary that end one. */
static void add_ends(struct task *t, const struct chat_family *family)
{
    for (size_t i = 0; i < CHAT_ENDS && family->ends[i] && t->n_stops < TASK_MOST_STOPS; i++) {
        t->stops[t->n_stops].text = family->ends[i];
        t->stops[t->n_stops++].n = strlen(family->ends[i]);
    }
}

bool chat_begin(struct exchange *x, struct json *messages, const struct chat_tools *tools, const struct json *more, uint32_t choices,
                void (*event)(struct chat_choice *c, const struct answer_event *event))
{
    const struct forge_program *p = x->server->program;
    if (p->embedding) return exchange_refuse(x, 400, "this model makes vectors of texts: POST /v1/embeddings");
    if (!p->chat || !p->vocab) return exchange_refuse(x, 400, "this model has no chat template; POST /v1/completions continues texts");
    struct chat *c = calloc(1, sizeof *c + choices * sizeof c->choices[0]);
    if (!c) return exchange_refuse(x, 503, "out of memory");
    x->more = c;
    x->free_more = chat_free;
    c->n_choices = choices;
    c->event = event;
    c->tools = tools->list;
    c->forced = tools->forced;
    c->forced_name = tools->forced_name;
    c->parallel = tools->parallel;
    for (uint32_t i = 0; i < choices; i++) {
        c->choices[i].exchange = x;
        c->choices[i].index = i;
        c->choices[i].open = -1;
        if (!(c->choices[i].room = malloc(ANSWER_ROOM))) return exchange_refuse(x, 503, "out of memory");
    }
    c->family = chat_family(chat_writes(p->chat, tools->list != NULL));
    take_prefill(c, messages);
    const struct json *kwargs = json_member(x->json, "chat_template_kwargs");
    if (kwargs && kwargs->n > MOST_VARIABLES)
        return exchange_refuse(x, 400, "'chat_template_kwargs' has more than %d members", MOST_VARIABLES);
    const struct json *variables = variables_of(x, messages, tools->list, more);
    if (!variables) return chat_too_long(x);
    struct chat_text text;
    if (!render(x, variables, &text)) return false;
    c->text = text.bytes;
    c->n_text = text.n;
    if (c->n_prefill > 0) {                                  /* the answer has begun: text of the conversation */
        char *bytes = realloc(text.bytes, text.n + c->n_prefill);
        uint8_t *input = realloc(text.input, text.n + c->n_prefill);
        if (bytes) c->text = text.bytes = bytes;
        if (input) text.input = input;
        if (!bytes || !input) { free(text.input); return exchange_refuse(x, 503, "out of memory for the prompt"); }
        memcpy(bytes + text.n, c->prefill, c->n_prefill);
        memset(input + text.n, 1, c->n_prefill);
        c->n_text = text.size = text.n += c->n_prefill;
    }
    int32_t *ids;
    size_t n;
    const bool ok = tokens_of(x, &text, &ids, &n);
    free(text.input);
    if (!ok) return false;
    begin_answers(c);
    if (!exchange_choices(x, ids, n, choices)) return false;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        x->tasks[i]->special = true;
        add_ends(x->tasks[i], c->family);
    }
    return true;
}

/* ---- what comes back ---- */

void chat_text(struct exchange *x, uint32_t choice, const char *text, size_t n)
{
    answer_feed(&chat_of(x)->choices[choice].answer, text, n);
}
void chat_finish(struct exchange *x, uint32_t choice) { answer_end(&chat_of(x)->choices[choice].answer); }

void chat_free(struct exchange *x)
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

/* An id that the model did not write: "call_" and 24 digits; of families whose templates demand nine, the model writes its own. */
void chat_call_id(struct chat_choice *c, const struct answer_event *e)
{
    if (e->n_id > 0) snprintf(c->id, sizeof c->id, "%.*s", (int)e->n_id, e->id);
    else snprintf(c->id, sizeof c->id, "call_%016llx%08x", (unsigned long long)entropy(), (uint32_t)entropy());
}
