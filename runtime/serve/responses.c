/* responses.c -- POST /v1/responses: OpenAI's second API for conversations.  Nothing is stored: previous_response_id is refused. */
#include <stdlib.h>
#include <string.h>

#include "guided.h"

enum { NO_ITEM = -1, MESSAGE_ITEM, REASONING_ITEM, CALL_ITEM };

/* ---- requests ---- */

/* A call belongs to the preceding message of the assistant. */
static bool add_call(struct request *x, struct json *list, const struct json *item)
{
    const struct json *name = json_member(item, "name"), *arguments = body_member(item, "arguments");
    struct json *last = list->first;
    if (!arguments) arguments = chat_json(x, "");
    if (!arguments) return chat_too_long(x);
    if (!name || name->kind != JSON_STRING || arguments->kind != JSON_STRING)
        return request_refuse(x, 400, "a function_call must have a name and its arguments as a text");
    while (last && last->next) last = last->next;
    if (!last || !json_is(json_member(last, "role"), "assistant")) last = chat_add_message(x, list, "assistant", chat_json(x, ""));
    if (!last) return false;
    struct json *calls = json_own(json_member(last, "tool_calls"));
    if (!calls) json_add(last, "tool_calls", calls = json_make(&x->room, JSON_ARRAY, NULL, 0));
    return chat_add_call(x, calls, json_member(item, "call_id"), name, arguments);
}

static bool add_item(struct request *x, struct json *list, const struct json *item)
{
    const struct json *type = json_member(item, "type"), *role = json_member(item, "role"), *content = json_member(item, "content");
    if (json_is(type, "reasoning")) return true;             /* of earlier turns; templates omit it */
    if (json_is(type, "function_call")) return add_call(x, list, item);
    if (json_is(type, "function_call_output")) {
        const struct json *output = json_member(item, "output"), *id = json_member(item, "call_id");
        struct json *m = chat_add_message(x, list, "tool", output ? json_same(&x->room, output) : chat_json(x, ""));
        if (!m) return false;
        if (id) json_add(m, "tool_call_id", json_same(&x->room, id));
        return !x->room.full || chat_too_long(x);
    }
    if (chat_is_foreign(type)) {
        request_warn(x, "an item of type '%.*s' is left out", (int)(type->n < 60 ? type->n : 60), type->text);
        return true;
    }
    if (!role || role->kind != JSON_STRING || !content || (type && !json_is(type, "message")))
        return request_refuse(x, 400, "an item of 'input' must be a message, a function_call or a function_call_output");
    const char *name = json_is(role, "assistant") ? "assistant" : json_is(role, "system") || json_is(role, "developer") ? "system" : "user";
    return chat_add_message(x, list, name, json_same(&x->room, content)) != NULL;
}

static struct json *messages_of(struct request *x)
{
    const struct json *input = json_member(x->json, "input"), *instructions = json_member(x->json, "instructions"),
                      *previous = json_member(x->json, "previous_response_id");
    struct json *list = json_make(&x->room, JSON_ARRAY, NULL, 0);
    if (previous && previous->kind != JSON_NULL) {
        request_refuse(x, 400, "'previous_response_id': responses are not stored; send the whole conversation as 'input'");
        return NULL;
    }
    if (!input || (input->kind != JSON_STRING && (input->kind != JSON_ARRAY || input->n == 0))) {
        request_refuse(x, 400, "'input' must be a text or a list of items");
        return NULL;
    }
    if (input->kind == JSON_ARRAY && !chat_few(x, input, "input")) return NULL;
    const bool instructed = instructions && instructions->kind == JSON_STRING && instructions->n > 0;
    if (instructed && !chat_add_message(x, list, "system", json_same(&x->room, instructions))) return NULL;
    if (input->kind == JSON_STRING && !chat_add_message(x, list, "user", json_same(&x->room, input))) return NULL;
    for (const struct json *i = input->kind == JSON_ARRAY ? input->first : NULL; i; i = i->next) if (!add_item(x, list, i)) return NULL;
    return list;
}

static bool tools_of(struct request *x, struct chat_tools *tools)
{
    const struct json *choice = json_member(x->json, "tool_choice");
    return chat_choose(x, tools, choice, json_member(choice, "name")) &&
           chat_list_tools(x, tools, json_member(x->json, "tools"), RESPONSES_API);
}

/* ---- answers ---- */

static void put_id(struct out *o, const struct chat_choice *c, const char *kind)
{
    out_printf(o, "\"id\":\"%s_%s%u\"", kind, c->request->id, c->n_blocks);
}

/* Writes the open item.  Its text is in c->content; if it is a call, the name is in c->reasoning. */
static void put_item(struct out *o, const struct chat_choice *c, bool done)
{
    const char *status = done ? "completed" : "in_progress";
    if (c->open == MESSAGE_ITEM) {
        out_text(o, "{\"type\":\"message\",");
        put_id(o, c, "msg");
        out_printf(o, ",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[", status);
        if (done) {
            out_text(o, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
            out_string(o, c->content.bytes, c->content.n);
            out_text(o, "}");
        }
        out_text(o, "]}");
    } else if (c->open == REASONING_ITEM) {
        out_text(o, "{\"type\":\"reasoning\",");
        put_id(o, c, "rs");
        out_text(o, ",\"summary\":[],\"content\":[");
        if (done) {
            out_text(o, "{\"type\":\"reasoning_text\",\"text\":");
            out_string(o, c->content.bytes, c->content.n);
            out_text(o, "}");
        }
        out_printf(o, "],\"status\":\"%s\"}", status);
    } else {
        out_text(o, "{\"type\":\"function_call\",");
        put_id(o, c, "fc");
        out_text(o, ",\"call_id\":");
        out_string(o, c->id, strlen(c->id));
        out_text(o, ",\"name\":");
        out_string(o, c->reasoning.bytes, c->reasoning.n);
        out_text(o, ",\"arguments\":");
        out_string(o, c->content.bytes, done ? c->content.n : 0);
        out_printf(o, ",\"status\":\"%s\"}", status);
    }
}

/* Writes the response so far; status: in_progress, completed or incomplete. */
static void put_response(struct out *o, const struct request *x, const char *status)
{
    const struct chat_choice *c = &chat_of(x)->choices[0];
    const struct task *t = x->tasks[0];
    static const char *const echoed[] = { "instructions", "metadata", "tools", "tool_choice", "temperature", "top_p", "max_output_tokens",
                                          "reasoning", "text", "user" };
    out_printf(o,
               "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":null,\"incomplete_details\":",
               x->id, (long long)x->created, status);
    out_text(o, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    out_text(o, ",\"model\":");
    put_model(o, x->server);
    out_printf(o, ",\"parallel_tool_calls\":%s,\"previous_response_id\":null,\"store\":false,\"truncation\":\"disabled\"",
               chat_of(x)->parallel ? "true" : "false");
    for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++) {
        const struct json *m = json_member(x->json, echoed[i]);
        out_printf(o, ",\"%s\":", echoed[i]);
        if (m) out_json(o, m);
        else out_text(o, strcmp(echoed[i], "tools") == 0 ? "[]" : strcmp(echoed[i], "tool_choice") == 0 ? "\"auto\""
                         : strcmp(echoed[i], "metadata") == 0 ? "{}" : "null");
    }
    out_text(o, ",\"output\":[");
    out_bytes(o, c->calls.bytes, c->calls.n);
    out_text(o, "]");
    put_warnings(o, x);
    out_text(o, ",\"usage\":");
    if (t->end == TASK_RUNS) out_text(o, "null}");
    else
        out_printf(o,
                   "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},\"output_tokens\":%u,\"output_tokens_details\":"
                   "{\"reasoning_tokens\":0},\"total_tokens\":%u}}",
                   t->n_prompt, t->n_cached, t->n_drawn, t->n_prompt + t->n_drawn);
}

/* Sends a numbered event of the stream; `more`: further members. */
static void tell(struct chat_choice *c, const char *type, struct out *more)
{
    struct out o = { 0 };
    out_printf(&o, "{\"type\":\"%s\",\"sequence_number\":%u", type, c->n_events++);
    if (more->n > 0) out_text(&o, ",");
    out_bytes(&o, more->bytes, more->n);
    out_text(&o, "}");
    stream_event(c->request, type, &o);
    out_free(&o);
    more->n = 0;
}

static void tell_response(struct chat_choice *c, const char *type, const char *status)
{
    struct out o = { 0 };
    out_text(&o, "\"response\":");
    put_response(&o, c->request, status);
    tell(c, type, &o);
    out_free(&o);
}

static void put_place(struct out *o, const struct chat_choice *c)
{
    out_printf(o, "\"item_id\":\"%s_%s%u\",\"output_index\":%u", c->open == MESSAGE_ITEM ? "msg" : c->open == REASONING_ITEM ? "rs" : "fc",
               c->request->id, c->n_blocks, c->n_blocks - 1);
    if (c->open != CALL_ITEM) out_text(o, ",\"content_index\":0");
}

static void tell_text(struct chat_choice *c, const char *type, const char *member, const char *text, size_t n)
{
    struct out o = { 0 };
    put_place(&o, c);
    out_printf(&o, ",\"%s\":", member);
    out_string(&o, text, n);
    if (c->open == MESSAGE_ITEM) out_text(&o, ",\"logprobs\":[]");
    tell(c, type, &o);
    out_free(&o);
}

static void tell_part(struct chat_choice *c, const char *type, bool done)
{
    struct out o = { 0 };
    put_place(&o, c);
    out_text(&o, c->open == MESSAGE_ITEM ? ",\"part\":{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":"
                                         : ",\"part\":{\"type\":\"reasoning_text\",\"text\":");
    out_string(&o, c->content.bytes, done ? c->content.n : 0);
    out_text(&o, "}");
    tell(c, type, &o);
    out_free(&o);
}

static void tell_item(struct chat_choice *c, const char *type, bool done)
{
    struct out o = { 0 };
    out_printf(&o, "\"output_index\":%u,\"item\":", c->n_blocks - 1);
    put_item(&o, c, done);
    tell(c, type, &o);
    out_free(&o);
}

static void begin_stream(struct chat_choice *c)
{
    if (c->request->started || !c->request->stream) return;
    tell_response(c, "response.created", "in_progress");
    tell_response(c, "response.in_progress", "in_progress");
}

static void close_item(struct chat_choice *c)
{
    static const char *const done[] = {"response.output_text.done", "response.reasoning_text.done",
                                       "response.function_call_arguments.done"};
    if (c->open == NO_ITEM) return;
    if (c->request->stream) {
        tell_text(c, done[c->open], c->open == CALL_ITEM ? "arguments" : "text", c->content.bytes, c->content.n);
        if (c->open != CALL_ITEM) tell_part(c, "response.content_part.done", true);
        tell_item(c, "response.output_item.done", true);
    }
    if (c->calls.n > 0) out_text(&c->calls, ",");
    put_item(&c->calls, c, true);
    c->content.n = c->reasoning.n = 0;
    c->open = NO_ITEM;
}

static void open_item(struct chat_choice *c, int item)
{
    if (c->open == item && item != CALL_ITEM) return;
    begin_stream(c);
    close_item(c);
    c->open = item;
    c->n_blocks++;
}

static void on_event(struct chat_choice *c, const struct answer_event *e)
{
    static const char *const deltas[] = {"response.output_text.delta", "response.reasoning_text.delta",
                                         "response.function_call_arguments.delta"};
    const bool stream = c->request->stream;
    if (e->kind == ANSWER_CALL_END) { close_item(c); return; }
    if (e->kind == ANSWER_CALL) {
        chat_call_id(c, e, "call_");
        c->n_calls++;
        open_item(c, CALL_ITEM);
        out_bytes(&c->reasoning, e->text, e->n);
        if (stream) tell_item(c, "response.output_item.added", false);
        return;
    }
    const int item = e->kind == ANSWER_CONTENT ? MESSAGE_ITEM : e->kind == ANSWER_REASONING ? REASONING_ITEM : CALL_ITEM;
    if (item != CALL_ITEM && c->open != item) {
        open_item(c, item);
        if (stream) {
            tell_item(c, "response.output_item.added", false);
            tell_part(c, "response.content_part.added", false);
        }
    }
    out_bytes(&c->content, e->text, e->n);
    if (stream) tell_text(c, deltas[item], "delta", e->text, e->n);
}

static void on_ends(struct request *x)
{
    struct chat_choice *c = &chat_of(x)->choices[0];
    const char *status = x->tasks[0]->end == TASK_LENGTH ? "incomplete" : "completed";
    begin_stream(c);
    close_item(c);
    if (x->stream) {
        tell_response(c, x->tasks[0]->end == TASK_LENGTH ? "response.incomplete" : "response.completed", status);
        stream_finish(x, NULL);
        return;
    }
    struct out o = { 0 };
    put_response(&o, x, status);
    request_reply(x, 200, &o);
}

static const struct reply_kind kind = { chat_text, chat_finish, on_ends, OPENAI_FORM, ROUTE_RESPONSES };

/* False: refused. */
static bool begin(struct request *x)
{
    struct chat_tools tools;
    struct json *messages;
    if (!request_read(x, &kind)) return false;
    x->chat = true;
    if (!body_bool(x, x->json, "stream", &x->stream) || !tools_of(x, &tools) || !(messages = messages_of(x))) return false;
    const struct json *more = chat_effort(x, json_member(json_member(x->json, "reasoning"), "effort"), NULL);
    return chat_begin(x, messages, &tools, more, 1, on_event);
}

void responses_post(struct request *x)
{
    if (begin(x)) guided_tasks(x, body_member(json_member(x->json, "text"), "format"));
}

void responses_tokens_post(struct request *x)
{
    if (begin(x)) reply_tokens(x);
}
