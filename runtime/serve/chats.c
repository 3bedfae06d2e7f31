/* chats.c -- POST /v1/chat/completions: OpenAI's chats; and POST /apply-template. */
#include <stdlib.h>
#include <string.h>

#include "guided.h"

static void put_head(struct out *o, const struct exchange *x, bool chunk)
{
    out_printf(o, "{\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion%s\",\"created\":%lld,\"model\":", x->id, chunk ? ".chunk" : "",
               (long long)x->created);
    put_model(o, x->server);
    out_text(o, ",\"choices\":[");
}

/* A chunk with this delta, which is emptied; reason NULL: it goes on. */
static void chunk(struct exchange *x, uint32_t choice, struct out *delta, const char *reason)
{
    struct out o = { 0 };
    put_head(&o, x, true);
    out_printf(&o, "{\"index\":%u,\"delta\":{", choice);
    out_bytes(&o, delta->bytes, delta->n);
    out_text(&o, "},\"logprobs\":");
    put_logprobs(&o, x, choice);
    if (reason) out_printf(&o, ",\"finish_reason\":\"%s\"}]}", reason);
    else out_text(&o, ",\"finish_reason\":null}]}");
    stream_event(x, NULL, &o);
    out_free(&o);
    delta->n = 0;
}

static void begin_stream(struct chat_choice *c)
{
    struct out delta = { 0 };
    if (c->open >= 0) return;
    c->open = 0;
    out_text(&delta, "\"role\":\"assistant\",\"content\":\"\"");
    chunk(c->exchange, c->index, &delta, NULL);
    out_free(&delta);
}

static void on_event(struct chat_choice *c, const struct answer_event *e)
{
    struct exchange *x = c->exchange;
    struct out delta = { 0 };
    switch (e->kind) {
    case ANSWER_CONTENT:
    case ANSWER_REASONING:
        if (!x->stream) { out_bytes(e->kind == ANSWER_CONTENT ? &c->content : &c->reasoning, e->text, e->n); break; }
        out_text(&delta, e->kind == ANSWER_CONTENT ? "\"content\":" : "\"reasoning_content\":");
        out_string(&delta, e->text, e->n);
        break;
    case ANSWER_CALL: {
        chat_call_id(c, e);
        struct out *to = x->stream ? &delta : &c->calls;
        if (x->stream) out_printf(to, "\"tool_calls\":[{\"index\":%u,\"id\":", e->call);
        else out_printf(to, "%s{\"id\":", c->n_calls ? "," : "");
        out_string(to, c->id, strlen(c->id));
        out_text(to, ",\"type\":\"function\",\"function\":{\"name\":");
        out_string(to, e->text, e->n);
        if (x->stream) out_text(to, ",\"arguments\":\"\"}}]");
        c->n_calls++;
        break;
    }
    case ANSWER_ARGUMENTS:
        if (!x->stream) { out_bytes(&c->arguments, e->text, e->n); break; }
        out_printf(&delta, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", e->call);
        out_string(&delta, e->text, e->n);
        out_text(&delta, "}}]");
        break;
    case ANSWER_CALL_END:
        if (x->stream) break;
        out_text(&c->calls, ",\"arguments\":");
        out_string(&c->calls, c->arguments.bytes, c->arguments.n);
        out_text(&c->calls, "}}");
        c->arguments.n = 0;
        break;
    }
    if (delta.n > 0) {
        begin_stream(c);
        chunk(x, c->index, &delta, NULL);
    }
    out_free(&delta);
}

static const char *reason_of(const struct exchange *x, uint32_t choice)
{
    const char *reason = finish_reason(x->tasks[choice]);
    return chat_of(x)->choices[choice].n_calls > 0 && strcmp(reason, "stop") == 0 ? "tool_calls" : reason;
}

static void on_choice_ends(struct exchange *x, uint32_t choice)
{
    struct out none = { 0 };
    chat_finish(x, choice);
    if (!x->stream) return;
    begin_stream(&chat_of(x)->choices[choice]);
    chunk(x, choice, &none, reason_of(x, choice));
}

static void put_message(struct out *o, struct exchange *x, uint32_t choice)
{
    const struct chat_choice *c = &chat_of(x)->choices[choice];
    out_printf(o, "{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":", choice);
    if (c->content.n > 0 || c->n_calls == 0) out_string(o, c->content.bytes, c->content.n);
    else out_text(o, "null");
    if (c->reasoning.n > 0) {
        out_text(o, ",\"reasoning_content\":");
        out_string(o, c->reasoning.bytes, c->reasoning.n);
    }
    if (c->n_calls > 0) {
        out_text(o, ",\"tool_calls\":[");
        out_bytes(o, c->calls.bytes, c->calls.n);
        out_text(o, "]");
    }
    out_text(o, ",\"refusal\":null},\"logprobs\":");
    put_logprobs(o, x, choice);
    out_printf(o, ",\"finish_reason\":\"%s\"}", reason_of(x, choice));
}

static void on_ends(struct exchange *x)
{
    struct out o = { 0 };
    put_head(&o, x, x->stream);
    for (uint32_t i = 0; i < x->n_tasks && !x->stream; i++) {
        if (i) out_text(&o, ",");
        put_message(&o, x, i);
    }
    put_end(x, &o);
}

static const struct reply_kind kind = { chat_text, on_choice_ends, on_ends, false };

/* The tools of the request; list NULL: there are none, or they may not be called. */
static bool tools_of(struct exchange *x, struct chat_tools *tools)
{
    struct json *list = json_own(json_member(x->json, "tools"));
    const struct json *choice = json_member(x->json, "tool_choice");
    *tools = (struct chat_tools){ .parallel = true };
    if (!body_bool(x, x->json, "parallel_tool_calls", &tools->parallel)) return false;
    tools->forced = json_is(choice, "required") || (choice && choice->kind == JSON_OBJECT);
    if (choice && choice->kind == JSON_OBJECT) {
        tools->forced_name = json_member(json_member(choice, "function"), "name");
        if (!tools->forced_name || tools->forced_name->kind != JSON_STRING)
            return exchange_refuse(x, 400, "'tool_choice' as an object must have a function with a name");
    }
    if (choice && choice->kind != JSON_NULL && !tools->forced && !json_is(choice, "auto") && !json_is(choice, "none"))
        return exchange_refuse(x, 400, "'tool_choice' must be auto, none, required or a function");
    if (!list || list->kind == JSON_NULL || (list->kind == JSON_ARRAY && list->n == 0))
        return !tools->forced || exchange_refuse(x, 400, "'tool_choice' asks for a call, and there are no 'tools'");
    if (list->kind != JSON_ARRAY) return exchange_refuse(x, 400, "'tools' must be a list of functions");
    for (const struct json *t = list->first; t; t = t->next) {
        const struct json *function = json_member(t, "function");
        if (!json_is(json_member(t, "type"), "function") || !function || !json_member(function, "name") ||
            json_member(function, "name")->kind != JSON_STRING)
            return exchange_refuse(x, 400, "a member of 'tools' is no function with a name");
    }
    if (!json_is(choice, "none")) tools->list = list;
    return true;
}

void chats_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &kind);
    if (!x) return;
    struct json *messages = json_own(json_member(x->json, "messages"));
    const struct json *options = json_member(x->json, "stream_options");
    struct chat_tools tools;
    int64_t choices = 1;
    x->chat = true;
    if (!body_bool(x, x->json, "stream", &x->stream) || !body_integer(x, "n", 1, MOST_CHOICES, &choices)) return;
    if (options && options->kind == JSON_OBJECT && !body_bool(x, options, "include_usage", &x->usage)) return;
    if (!tools_of(x, &tools) || !chat_messages(x, messages)) return;
    if (chat_begin(x, messages, &tools, NULL, (uint32_t)choices, on_event) && guided_tasks(x, NULL)) exchange_submit(x);
}

static const struct reply_kind at_once = { NULL, NULL, NULL, false };

void template_post(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = exchange_open(s, r, &at_once);
    if (!x) return;
    struct json *messages = json_own(json_member(x->json, "messages"));
    struct chat_tools tools;
    x->chat = true;
    if (!tools_of(x, &tools) || !chat_messages(x, messages) || !chat_begin(x, messages, &tools, NULL, 1, on_event)) return;
    struct out o = { 0 };
    out_text(&o, "{\"prompt\":");
    out_string(&o, chat_of(x)->text, chat_of(x)->n_text);
    out_text(&o, "}");
    exchange_reply(x, 200, &o);
    exchange_close(x);
}
