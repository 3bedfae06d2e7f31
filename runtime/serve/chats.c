/* chats.c -- POST /v1/chat/completions: OpenAI's chats; and POST /apply-template. */
#include <stdlib.h>
#include <string.h>

#include "guided.h"

static void put_head(struct out *o, const struct request *x, bool chunk)
{
    out_printf(o, "{\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion%s\",\"created\":%lld,\"model\":", x->id, chunk ? ".chunk" : "",
               (long long)x->created);
    put_model(o, x->server);
    put_fingerprint(o, x->server);
    out_text(o, ",\"choices\":[");
}

/* Sends a chunk with this delta and empties the delta; reason NULL: the text continues.  begins: the choice has no text yet. */
static void chunk(struct request *x, uint32_t choice, struct out *delta, const char *reason, bool begins)
{
    struct out o = { 0 };
    put_head(&o, x, true);
    out_printf(&o, "{\"index\":%u,\"delta\":{", choice);
    out_bytes(&o, delta->bytes, delta->n);
    out_text(&o, "},\"logprobs\":");
    if (begins) out_text(&o, "null");
    else put_logprobs(&o, x, choice);
    if (reason) out_printf(&o, ",\"finish_reason\":\"%s\"}]", reason);
    else out_text(&o, ",\"finish_reason\":null}]");
    if (begins && choice == 0) put_warnings(&o, x);
    out_text(&o, "}");
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
    chunk(c->request, c->index, &delta, NULL, true);
    out_free(&delta);
}

/* Writes a call as OpenAI's former `function_call`, of which a message has one. */
static void put_former_call(struct chat_choice *c, const struct answer_event *e, struct out *delta)
{
    const bool stream = c->request->stream;
    if (e->call > 0) return;
    if (e->kind == ANSWER_CALL) {
        out_text(stream ? delta : &c->calls, stream ? "\"function_call\":{\"name\":" : "{\"name\":");
        out_string(stream ? delta : &c->calls, e->text, e->n);
        if (stream) out_text(delta, ",\"arguments\":\"\"}");
        c->n_calls++;
    } else if (e->kind == ANSWER_ARGUMENTS && stream) {
        out_text(delta, "\"function_call\":{\"arguments\":");
        out_string(delta, e->text, e->n);
        out_text(delta, "}");
    } else if (e->kind == ANSWER_ARGUMENTS) out_bytes(&c->arguments, e->text, e->n);
    else if (!stream) {
        out_text(&c->calls, ",\"arguments\":");
        out_string(&c->calls, c->arguments.bytes, c->arguments.n);
        out_text(&c->calls, "}");
    }
}

static void put_call(struct chat_choice *c, const struct answer_event *e, struct out *delta)
{
    const bool stream = c->request->stream;
    struct out *to = stream ? delta : &c->calls;
    if (e->kind == ANSWER_CALL) {
        chat_call_id(c, e, "call_");
        if (stream) out_printf(to, "\"tool_calls\":[{\"index\":%u,\"id\":", e->call);
        else out_printf(to, "%s{\"id\":", c->n_calls ? "," : "");
        out_string(to, c->id, strlen(c->id));
        out_text(to, ",\"type\":\"function\",\"function\":{\"name\":");
        out_string(to, e->text, e->n);
        if (stream) out_text(to, ",\"arguments\":\"\"}}]");
        c->n_calls++;
    } else if (e->kind == ANSWER_ARGUMENTS && stream) {
        out_printf(to, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", e->call);
        out_string(to, e->text, e->n);
        out_text(to, "}}]");
    } else if (e->kind == ANSWER_ARGUMENTS) out_bytes(&c->arguments, e->text, e->n);
    else if (!stream) {
        out_text(to, ",\"arguments\":");
        out_string(to, c->arguments.bytes, c->arguments.n);
        out_text(to, "}}");
        c->arguments.n = 0;
    }
}

static void on_event(struct chat_choice *c, const struct answer_event *e)
{
    struct request *x = c->request;
    struct out delta = { 0 };
    if (e->kind != ANSWER_CONTENT && e->kind != ANSWER_REASONING) {
        if (chat_of(x)->former) put_former_call(c, e, &delta);
        else put_call(c, e, &delta);
    } else if (x->stream) {
        out_text(&delta, e->kind == ANSWER_CONTENT ? "\"content\":" : "\"reasoning_content\":");
        out_string(&delta, e->text, e->n);
    } else out_bytes(e->kind == ANSWER_CONTENT ? &c->content : &c->reasoning, e->text, e->n);
    if (delta.n > 0) {
        begin_stream(c);
        chunk(x, c->index, &delta, NULL, false);
    }
    out_free(&delta);
}

static const char *reason_of(const struct request *x, uint32_t choice)
{
    const char *reason = finish_reason(x->tasks[choice]), *call = chat_of(x)->former ? "function_call" : "tool_calls";
    const struct chat_choice *c = &chat_of(x)->choices[choice];
    return c->n_calls > 0 && !c->cut && strcmp(reason, "stop") == 0 ? call : reason;
}

static void on_choice_ends(struct request *x, uint32_t choice)
{
    struct out none = { 0 };
    chat_finish(x, choice);
    if (!x->stream) return;
    begin_stream(&chat_of(x)->choices[choice]);
    chunk(x, choice, &none, reason_of(x, choice), false);
}

static void put_message(struct out *o, struct request *x, uint32_t choice)
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
        const bool former = chat_of(x)->former;
        out_text(o, former ? ",\"function_call\":" : ",\"tool_calls\":[");
        out_bytes(o, c->calls.bytes, c->calls.n);
        if (!former) out_text(o, "]");
    }
    out_text(o, ",\"refusal\":null},\"logprobs\":");
    put_logprobs(o, x, choice);
    out_printf(o, ",\"finish_reason\":\"%s\"}", reason_of(x, choice));
}

static void on_ends(struct request *x)
{
    struct out o = { 0 };
    put_head(&o, x, x->stream);
    for (uint32_t i = 0; i < x->n_tasks && !x->stream; i++) {
        if (i) out_text(&o, ",");
        put_message(&o, x, i);
    }
    put_end(x, &o);
}

static const struct reply_kind kind = { chat_text, on_choice_ends, on_ends, OPENAI_FORM, ROUTE_CHATS };

/* The tools of the request, or OpenAI's former `functions` and `function_call`. */
static bool tools_of(struct request *x, struct chat_tools *tools)
{
    const struct json *list = body_member(x->json, "tools"), *former = body_member(x->json, "functions");
    const bool is_former = !list && former;
    const struct json *choice = json_member(x->json, is_former ? "function_call" : "tool_choice");
    if (!chat_choose(x, tools, choice, json_member(is_former ? choice : json_member(choice, "function"), "name"))) return false;
    if (!is_former) return chat_list_tools(x, tools, list, CHAT_API);
    tools->former = true;
    tools->parallel = false;
    return chat_list_tools(x, tools, former, MESSAGES_API);
}

static struct json *effort_of(struct request *x)
{
    const struct json *effort = body_member(x->json, "reasoning_effort");
    return chat_effort(x, effort ? effort : json_member(json_member(x->json, "reasoning"), "effort"),
                       json_member(x->json, "enable_thinking"));
}

/* False: refused. */
static bool begin(struct request *x)
{
    if (!request_read(x, &kind)) return false;
    struct json *messages = json_own(json_member(x->json, "messages"));
    const struct json *options = json_member(x->json, "stream_options");
    struct chat_tools tools;
    int64_t choices = 1;
    x->chat = true;
    if (!body_bool(x, x->json, "stream", &x->stream) || !body_integer(x, "n", 1, MOST_CHOICES, &choices)) return false;
    if (options && options->kind == JSON_OBJECT && !body_bool(x, options, "include_usage", &x->usage)) return false;
    return tools_of(x, &tools) && chat_begin(x, messages, &tools, effort_of(x), (uint32_t)choices, on_event);
}

void chats_post(struct request *x)
{
    if (begin(x)) guided_tasks(x, NULL);
}

void chats_tokens_post(struct request *x)
{
    if (begin(x)) reply_tokens(x);
}

static const struct reply_kind at_once = { NULL, NULL, NULL, OPENAI_FORM, ROUTE_CHATS };

void template_post(struct request *x)
{
    if (!request_read(x, &at_once)) return;
    struct json *messages = json_own(json_member(x->json, "messages"));
    struct chat_tools tools;
    x->chat = true;
    if (!tools_of(x, &tools) || !chat_begin(x, messages, &tools, effort_of(x), 0, on_event)) return;
    struct out o = { 0 };
    out_text(&o, "{\"prompt\":");
    out_string(&o, chat_of(x)->text, chat_of(x)->n_text);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}
