/* messages.c -- POST /v1/messages and /v1/messages/count_tokens: Anthropic's API. */
#include <stdlib.h>
#include <string.h>

#include "guided.h"

enum { NO_BLOCK = -1, TEXT_BLOCK, THINKING_BLOCK, TOOL_BLOCK };

static const struct reply_kind kind;

/* ---- requests ---- */

static bool add_call(struct request *x, struct json *calls, const struct json *block)
{
    const struct json *name = json_member(block, "name"), *input = body_member(block, "input");
    if (!input) input = json_make(&x->room, JSON_OBJECT, NULL, 0);
    if (!input) return chat_too_long(x);
    if (!name || name->kind != JSON_STRING || input->kind != JSON_OBJECT)
        return request_refuse(x, 400, "a tool_use block must have a name and an input, which is an object");
    return chat_add_call(x, calls, json_member(block, "id"), name, input);
}

static bool add_blocks(struct request *x, struct json *list, const char *role, const struct json *blocks)
{
    struct json *texts = json_make(&x->room, JSON_ARRAY, NULL, 0), *calls = json_make(&x->room, JSON_ARRAY, NULL, 0);
    const struct json *thinking = NULL;
    if (!chat_few(x, blocks, "content")) return false;
    for (const struct json *b = blocks->first; b && texts && calls; b = b->next) {
        const struct json *type = json_member(b, "type"), *content = json_member(b, "content"), *id = json_member(b, "tool_use_id");
        const struct json *source = json_member(b, "source"), *words = json_member(source, "data");
        if (json_is(type, "text")) json_add(texts, NULL, json_same(&x->room, b));
        else if (json_is(type, "document") && json_is(json_member(source, "type"), "text") && words && words->kind == JSON_STRING)
            json_add(texts, NULL, json_same(&x->room, words));
        else if (json_is(type, "thinking")) thinking = json_member(b, "thinking");
        else if (json_is(type, "redacted_thinking")) continue;
        else if (json_is(type, "tool_use")) { if (!add_call(x, calls, b)) return false; }
        else if (json_is(type, "tool_result")) {             /* a message of its own, before the user's other content */
            struct json *m = chat_add_message(x, list, "tool", content ? json_same(&x->room, content) : chat_json(x, ""));
            if (!m) return false;
            if (id) json_add(m, "tool_call_id", json_same(&x->room, id));
        } else if (chat_is_foreign(type)) {
            request_warn(x, "a content block of type '%.*s' is left out", (int)(type->n < 60 ? type->n : 60), type->text);
        } else {
            return request_refuse(x, 400,
                                  "a content block is of type '%.*s'; this model reads text, tool_use, tool_result and documents of text",
                                  type && type->kind == JSON_STRING ? (int)(type->n < 40 ? type->n : 40) : 1,
                                  type && type->kind == JSON_STRING ? type->text : "?");
        }
    }
    if (x->room.full) return chat_too_long(x);
    if (texts->n == 0 && calls->n == 0 && !thinking) return true;
    struct json *m = chat_add_message(x, list, role, texts->n > 0 ? texts : chat_json(x, ""));
    if (!m) return false;
    if (calls->n > 0) json_add(m, "tool_calls", calls);
    if (thinking) json_add(m, "reasoning_content", json_same(&x->room, thinking));
    return !x->room.full || chat_too_long(x);
}

/* Converts the request's messages to OpenAI's form. */
static struct json *messages_of(struct request *x)
{
    const struct json *system = json_member(x->json, "system"), *given = json_member(x->json, "messages");
    struct json *list = json_make(&x->room, JSON_ARRAY, NULL, 0);
    if (!given || given->kind != JSON_ARRAY || given->n == 0) {
        request_refuse(x, 400, "'messages' must be a list of messages, and not empty");
        return NULL;
    }
    if (!chat_few(x, given, "messages")) return NULL;
    if (system && system->n > 0 && !chat_add_message(x, list, "system", json_same(&x->room, system))) return NULL;
    for (const struct json *m = given->first; m; m = m->next) {
        const struct json *role = json_member(m, "role"), *content = json_member(m, "content");
        const char        *name = json_is(role, "user")        ? "user"
                                  : json_is(role, "assistant") ? "assistant"
                                  : json_is(role, "system")    ? "system"
                                                               : NULL;
        if (!name || !content || (content->kind != JSON_STRING && content->kind != JSON_ARRAY)) {
            request_refuse(x, 400, "a message must have a role, user or assistant, and a content, a text or a list of blocks");
            return NULL;
        }
        if (content->kind == JSON_ARRAY) { if (!add_blocks(x, list, name, content)) return NULL; }
        else if (!chat_add_message(x, list, name, json_same(&x->room, content))) return NULL;
    }
    return list;
}

static bool tools_of(struct request *x, struct chat_tools *tools)
{
    const struct json *choice = json_member(x->json, "tool_choice"), *type = json_member(choice, "type"),
                      *single = json_member(choice, "disable_parallel_tool_use");
    *tools = (struct chat_tools){ .forced = json_is(type, "any") || json_is(type, "tool"), .none = json_is(type, "none"),
                                  .parallel = !single || single->kind != JSON_TRUE };
    if (json_is(type, "tool")) {
        tools->forced_name = json_member(choice, "name");
        if (!tools->forced_name || tools->forced_name->kind != JSON_STRING)
            return request_refuse(x, 400, "'tool_choice' of type tool has no name");
    }
    return chat_list_tools(x, tools, json_member(x->json, "tools"), MESSAGES_API);
}

/* The form that the answer must have, as a response_format; NULL: none. */
static const struct json *format_of(const struct request *x)
{
    const struct json *format = body_member(json_member(x->json, "output_config"), "format");
    return format ? format : body_member(x->json, "output_format");
}

/* Variables for how much the model shall think. */
static struct json *effort_of(struct request *x)
{
    static const struct json on = { .kind = JSON_TRUE }, off = { .kind = JSON_FALSE };
    const struct json *type = json_member(json_member(x->json, "thinking"), "type");
    return chat_effort(x, json_member(json_member(x->json, "output_config"), "effort"),
                       json_is(type, "disabled") ? &off : json_is(type, "enabled") || json_is(type, "adaptive") ? &on : NULL);
}

/* ---- answers ---- */

static const char *stop_reason(const struct request *x, const struct json **sequence)
{
    const struct task *t = x->tasks[0];
    const struct json *stops = json_member(x->json, "stop_sequences");
    *sequence = NULL;
    if (t->end == TASK_LENGTH) return "max_tokens";
    if (chat_of(x)->choices[0].n_calls > 0 && !chat_of(x)->choices[0].cut) return "tool_use";
    if (t->end == TASK_STOPPED && stops && stops->kind == JSON_ARRAY)      /* t->stops continues with texts that end the model's turns */
        for (const struct json *s = stops->first; s; s = s->next)
            if (s->n == t->stops[t->stop].n && memcmp(s->text, t->stops[t->stop].text, s->n) == 0) *sequence = s;
    return *sequence ? "stop_sequence" : "end_turn";
}

static void put_stop(struct out *o, const struct request *x)
{
    const struct json *sequence;
    out_printf(o, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(x, &sequence));
    if (sequence) out_string(o, sequence->text, sequence->n);
    else out_text(o, "null");
}

static void put_head(struct out *o, const struct request *x)
{
    out_printf(o, "\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", x->id);
    put_model(o, x->server);
}

static void put_count(struct out *o, const struct request *x, uint32_t drawn)
{
    const struct task *t = x->tasks[0];
    out_printf(o, "\"usage\":{\"input_tokens\":%u,\"cache_read_input_tokens\":%u,\"output_tokens\":%u}", t->n_prompt - t->n_cached,
               t->n_cached, drawn);
}


static void close_block(struct chat_choice *c)
{
    struct out o = { 0 };
    if (c->open == NO_BLOCK) return;
    out_printf(&o, "{\"type\":\"content_block_stop\",\"index\":%u}", c->n_blocks - 1);
    stream_event(c->request, "content_block_stop", &o);
    out_free(&o);
    c->open = NO_BLOCK;
}

static void begin_message(struct chat_choice *c)
{
    struct request *x = c->request;
    struct out o = { 0 };
    if (x->started) return;
    out_text(&o, "{\"type\":\"message_start\",\"message\":{");
    put_head(&o, x);
    out_text(&o, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    put_count(&o, x, 0);
    put_warnings(&o, x);
    out_text(&o, "}}");
    stream_event(x, "message_start", &o);
    out_free(&o);
}

/* e: the call, if the block is a tool's. */
static void open_block(struct chat_choice *c, int block, const struct answer_event *e)
{
    struct out o = { 0 };
    if (c->open == block && block != TOOL_BLOCK) return;
    begin_message(c);
    close_block(c);
    out_printf(&o, "{\"type\":\"content_block_start\",\"index\":%u,\"content_block\":", c->n_blocks++);
    if (block == TEXT_BLOCK) out_text(&o, "{\"type\":\"text\",\"text\":\"\"}}");
    else if (block == THINKING_BLOCK) out_text(&o, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}");
    else {
        out_text(&o, "{\"type\":\"tool_use\",\"id\":");
        out_string(&o, c->id, strlen(c->id));
        out_text(&o, ",\"name\":");
        out_string(&o, e->text, e->n);
        out_text(&o, ",\"input\":{}}}");
    }
    stream_event(c->request, "content_block_start", &o);
    out_free(&o);
    c->open = block;
}

static void delta(struct chat_choice *c, const char *type, const char *member, const struct answer_event *e)
{
    struct out o = { 0 };
    out_printf(&o, "{\"type\":\"content_block_delta\",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", c->n_blocks - 1, type, member);
    out_string(&o, e->text, e->n);
    out_text(&o, "}}");
    stream_event(c->request, "content_block_delta", &o);
    out_free(&o);
}

/* In an answer without stream, finished blocks are in c->calls in their order; the open block is in c->content. */
static void end_whole(struct chat_choice *c)
{
    if (c->open == NO_BLOCK) return;
    if (c->n_blocks++ > 0) out_text(&c->calls, ",");
    if (c->open == TOOL_BLOCK) {
        out_bytes(&c->calls, c->reasoning.bytes, c->reasoning.n);
        out_bytes(&c->calls, c->content.n ? c->content.bytes : "{}", c->content.n ? c->content.n : 2);
        out_text(&c->calls, "}");
    } else {
        out_text(&c->calls,
                 c->open == TEXT_BLOCK ? "{\"type\":\"text\",\"text\":" : "{\"type\":\"thinking\",\"signature\":\"\",\"thinking\":");
        out_string(&c->calls, c->content.bytes, c->content.n);
        out_text(&c->calls, "}");
    }
    c->content.n = c->reasoning.n = 0;
    c->open = NO_BLOCK;
}

static void on_whole(struct chat_choice *c, const struct answer_event *e)
{
    const int block = e->kind == ANSWER_CONTENT ? TEXT_BLOCK : e->kind == ANSWER_REASONING ? THINKING_BLOCK : TOOL_BLOCK;
    if (c->open != block || e->kind == ANSWER_CALL) end_whole(c);
    c->open = block;
    if (e->kind == ANSWER_CALL) {
        out_text(&c->reasoning, "{\"type\":\"tool_use\",\"id\":");
        out_string(&c->reasoning, c->id, strlen(c->id));
        out_text(&c->reasoning, ",\"name\":");
        out_string(&c->reasoning, e->text, e->n);
        out_text(&c->reasoning, ",\"input\":");
    } else if (e->kind != ANSWER_CALL_END) out_bytes(&c->content, e->text, e->n);
    else if (e->cut) c->content.n = 0;                       /* the beginning of JSON cannot be a member */
}

static void on_event(struct chat_choice *c, const struct answer_event *e)
{
    if (e->kind == ANSWER_CALL) {
        c->n_calls++;
        chat_call_id(c, e, "toolu_");
    }
    if (!c->request->stream) { on_whole(c, e); return; }
    switch (e->kind) {
    case ANSWER_CONTENT:   open_block(c, TEXT_BLOCK, NULL); delta(c, "text_delta", "text", e); break;
    case ANSWER_REASONING: open_block(c, THINKING_BLOCK, NULL); delta(c, "thinking_delta", "thinking", e); break;
    case ANSWER_CALL:      open_block(c, TOOL_BLOCK, e); break;
    case ANSWER_ARGUMENTS: delta(c, "input_json_delta", "partial_json", e); break;
    case ANSWER_CALL_END:  close_block(c); break;
    }
}

static void on_ends(struct request *x)
{
    struct chat_choice *c = &chat_of(x)->choices[0];
    struct out o = { 0 };
    if (x->stream) {
        begin_message(c);
        close_block(c);
        out_text(&o, "{\"type\":\"message_delta\",\"delta\":{");
        put_stop(&o, x);
        out_printf(&o, "},\"usage\":{\"output_tokens\":%u}}", x->tasks[0]->n_drawn);
        stream_event(x, "message_delta", &o);
        out_text(&o, "{\"type\":\"message_stop\"}");
        stream_event(x, "message_stop", &o);
        stream_finish(x, NULL);
        out_free(&o);
        return;
    }
    end_whole(c);
    out_text(&o, "{");
    put_head(&o, x);
    out_text(&o, ",\"content\":[");
    out_bytes(&o, c->calls.bytes, c->calls.n);
    out_text(&o, "],");
    put_stop(&o, x);
    out_text(&o, ",");
    put_count(&o, x, x->tasks[0]->n_drawn);
    put_warnings(&o, x);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}

static const struct reply_kind kind = { chat_text, chat_finish, on_ends, ANTHROPIC_FORM, ROUTE_MESSAGES };

/* ---- routes ---- */

/* False: refused. */
static bool begin(struct request *x)
{
    struct chat_tools tools;
    struct json *messages;
    if (!request_read(x, &kind)) return false;
    if (body_member(x->json, "thread"))
        return request_refuse(x, 400, "'thread': conversations are not stored; send all messages (" THREAD_UNSUPPORTED ")");
    x->chat = true;
    return body_bool(x, x->json, "stream", &x->stream) && tools_of(x, &tools) && (messages = messages_of(x)) &&
           chat_begin(x, messages, &tools, effort_of(x), 1, on_event);
}

void messages_post(struct request *x)
{
    if (!begin(x)) return;
    const struct json *most = json_member(x->json, "max_tokens");
    if (!most || most->kind != JSON_NUMBER) request_refuse(x, 400, "'max_tokens' must be an integer");
    else guided_tasks(x, format_of(x));
}

void count_tokens_post(struct request *x)
{
    if (!begin(x)) return;
    struct out o = { 0 };
    out_printf(&o, "{\"input_tokens\":%u}", x->tasks[0]->n_prompt);
    request_reply(x, 200, &o);
}
