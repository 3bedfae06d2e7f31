/* ollama.c -- Ollama's API: /api/chat, /api/generate, /api/embed, and routes that describe the model.  Streams are lines of JSON. */
#include <stdlib.h>
#include <string.h>

#include "runtime/chat/template.h"
#include "runtime/model/state.h"
#include "runtime/text/tokenize.h"
#include "guided.h"

/* ---- answers of the model ---- */

struct piece { const char *text; size_t n; };

static struct piece piece_of(const struct out *o) { return (struct piece){ o->bytes, o->n }; }

static void put_member(struct out *o, const char *name, struct piece p)
{
    out_printf(o, ",\"%s\":", name);
    out_string(o, p.text, p.n);
}

/* A time of RFC 3339. */
static void put_time(struct out *o, const char *name, time_t t)
{
    char text[32] = "";
    struct tm utc;
    if (gmtime_r(&t, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    out_printf(o, "\"%s\":\"%s\"", name, text);
}

static const struct reply_kind chats, texts;

/* Writes an answer, or a part of it, up to `done`.  calls: items of tool_calls. */
static void put_part(struct out *o, const struct request *x, struct piece content, struct piece thinking, struct piece calls)
{
    const bool chat = x->kind == &chats;
    out_text(o, "{\"model\":");
    put_model(o, x->server);
    out_text(o, ",");
    put_time(o, "created_at", time(NULL));
    if (chat) out_text(o, ",\"message\":{\"role\":\"assistant\"");
    put_member(o, chat ? "content" : "response", content);
    if (thinking.n > 0) put_member(o, "thinking", thinking);
    if (calls.n > 0) {
        out_text(o, ",\"tool_calls\":[");
        out_bytes(o, calls.text, calls.n);
        out_text(o, "]");
    }
    if (chat) out_text(o, "}");
    if (!x->started) put_warnings(o, x);
}

static void send_part(struct request *x, struct piece content, struct piece thinking, struct piece calls)
{
    struct out o = { 0 };
    put_part(&o, x, content, thinking, calls);
    out_text(&o, ",\"done\":false}");
    stream_event(x, NULL, &o);
    out_free(&o);
}

/* Sends a whole answer, or the last line of a stream. */
static void send_last(struct request *x, struct out *o)
{
    if (!x->stream) { request_reply(x, 200, o); return; }
    stream_event(x, NULL, o);
    stream_finish(x, NULL);
    out_free(o);
}

/* A call is written into c->arguments; when it is complete it becomes an item of c->calls. */
static void on_call(struct chat_choice *c, const struct answer_event *e)
{
    struct out *call = &c->arguments;
    if (e->kind == ANSWER_CALL) {
        chat_call_id(c, e, "call_");
        out_text(call, "{\"id\":");
        out_string(call, c->id, strlen(c->id));
        out_printf(call, ",\"function\":{\"index\":%u,\"name\":", e->call);
        out_string(call, e->text, e->n);
        out_text(call, ",\"arguments\":");
    } else if (e->kind == ANSWER_ARGUMENTS) out_bytes(call, e->text, e->n);
    else {
        if (!e->cut) {                                       /* the beginning of JSON cannot be a member */
            if (c->calls.n > 0) out_text(&c->calls, ",");
            out_bytes(&c->calls, call->bytes, call->n);
            out_text(&c->calls, "}}");
        }
        call->n = 0;
        if (!c->request->stream || c->calls.n == 0) return;
        send_part(c->request, (struct piece){ 0 }, (struct piece){ 0 }, piece_of(&c->calls));
        c->calls.n = 0;
    }
}

static void on_event(struct chat_choice *c, const struct answer_event *e)
{
    const struct piece none = { 0 }, p = { e->text, e->n };
    const bool content = e->kind == ANSWER_CONTENT;
    if (!content && e->kind != ANSWER_REASONING) on_call(c, e);
    else if (c->request->stream) send_part(c->request, content ? p : none, content ? none : p, none);
    else out_bytes(content ? &c->content : &c->reasoning, e->text, e->n);
}

/* Text of the model: of a conversation, or as it is (generate with `raw`). */
static void on_text(struct request *x, uint32_t choice, const char *text, size_t n)
{
    const struct piece none = { 0 };
    if (x->chat) chat_text(x, choice, text, n);
    else if (x->stream) send_part(x, (struct piece){ text, n }, none, none);
    else out_bytes(&x->texts[choice].text, text, n);
}

static void on_choice_ends(struct request *x, uint32_t choice) { if (x->chat) chat_finish(x, choice); }

static long long nanoseconds(double seconds) { return (long long)(1e9 * seconds); }

/* A request without messages or prompt, and so without a task, asks whether the model is loaded. */
static void say_loaded(struct request *x)
{
    const struct piece none = { 0 };
    struct out o = { 0 };
    put_part(&o, x, none, none, none);
    out_text(&o, ",\"done\":true,\"done_reason\":\"load\"}");
    send_last(x, &o);
}

static void on_ends(struct request *x)
{
    if (x->n_tasks == 0) { say_loaded(x); return; }
    const struct task *t = x->tasks[0];
    const struct chat_choice *c = x->chat ? &chat_of(x)->choices[0] : NULL;
    const struct piece none = { 0 };
    struct out o = { 0 };
    put_part(&o, x, piece_of(c ? &c->content : &x->texts[0].text), c ? piece_of(&c->reasoning) : none, c ? piece_of(&c->calls) : none);
    out_printf(&o,
               ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%u,"
               "\"prompt_eval_duration\":%lld,\"eval_count\":%u,\"eval_duration\":%lld}",
               finish_reason(t), nanoseconds(seconds_now() - x->began), t->n_prompt, nanoseconds(t->prompt_seconds), t->n_drawn,
               nanoseconds(t->draw_seconds));
    send_last(x, &o);
}

static const struct reply_kind chats = { on_text, on_choice_ends, on_ends, OLLAMA_FORM, 0 },
                               texts = { on_text, on_choice_ends, on_ends, OLLAMA_FORM, 0 };

/* ---- requests to the model ---- */

/* Checks the members of body and options.  *body: the body; x->json becomes the object of its options, under the names that tasks read. */
static bool read_options(struct request *x, uint32_t route, const struct json **body)
{
    static const char *const names[][2] = {
        { "temperature", "temperature" }, { "top_k", "top_k" }, { "top_p", "top_p" }, { "min_p", "min_p" }, { "seed", "seed" },
        { "stop", "stop" }, { "repeat_penalty", "repeat_penalty" }, { "repeat_last_n", "repeat_last_n" },
        { "presence_penalty", "presence_penalty" }, { "frequency_penalty", "frequency_penalty" }, { "num_predict", "n_predict" },
    };
    const struct json *options = body_member(x->json, "options");
    struct json *read = json_make(&x->room, JSON_OBJECT, NULL, 0);
    int64_t most;
    *body = x->json;
    if (!request_members(x, route)) return false;
    if (options && options->kind != JSON_OBJECT) return request_refuse(x, 400, "'options' must be an object");
    if (options) {
        x->json = options;
        if (!request_members(x, ROUTE_OLLAMA_OPTIONS)) return false;
    }
    for (size_t i = 0; options && i < sizeof names / sizeof *names; i++) {
        const struct json *v = body_member(options, names[i][0]);
        if (v && strcmp(names[i][0], "num_predict") == 0 && json_integer(v, INT32_MIN, 0, &most)) continue;      /* no limit */
        if (v) json_add(read, names[i][1], json_same(&x->room, v));
    }
    x->json = read;
    return !x->room.full || chat_too_long(x);
}

/* `think` as variables of templates; false: refused. */
static bool read_think(struct request *x, const struct json *body, struct json **variables)
{
    static const struct json on = { .kind = JSON_TRUE };
    const struct json *think = body_member(body, "think");
    const bool level = think && think->kind == JSON_STRING;
    if (think && !json_is_bool(think) && !json_is(think, "low") && !json_is(think, "medium") && !json_is(think, "high"))
        return request_refuse(x, 400, "'think' must be true, false, low, medium or high");
    *variables = chat_effort(x, level ? think : NULL, level ? &on : think);
    return *variables || chat_too_long(x);
}

/* `format`, json or a schema, as a response_format; NULL in *out: none.  False: refused. */
static bool read_format(struct request *x, const struct json *body, struct json **out)
{
    const struct json *format = body_member(body, "format");
    *out = NULL;
    if (!format || (format->kind == JSON_STRING && format->n == 0)) return true;
    if (format->kind != JSON_OBJECT && !json_is(format, "json")) return request_refuse(x, 400, "'format' must be json or a schema");
    *out = json_make(&x->room, JSON_OBJECT, NULL, 0);
    json_add(*out, "type", chat_json(x, format->kind == JSON_OBJECT ? "json_schema" : "json_object"));
    if (format->kind == JSON_OBJECT) json_add(*out, "schema", json_same(&x->room, format));
    return !x->room.full || chat_too_long(x);
}

/* Reads a request, which is a stream unless it says otherwise.  False: refused. */
static bool begin(struct request *x, const struct reply_kind *kind, uint32_t route, const struct json **body, struct json **think,
                  struct json **format)
{
    bool stream = true;
    if (!request_read(x, kind) || !read_options(x, route, body) || !body_bool(x, *body, "stream", &stream) ||
        !read_think(x, *body, think) || !read_format(x, *body, format))
        return false;
    x->stream = stream;
    return true;
}

static bool no_images(struct request *x, const struct json *from)
{
    const struct json *images = body_member(from, "images");
    return !images || images->n == 0 || request_refuse(x, 400, "'images' is not supported: this model reads text only");
}

static bool add_calls(struct request *x, struct json *message, const struct json *given)
{
    struct json *calls = json_make(&x->room, JSON_ARRAY, NULL, 0);
    if (given->kind != JSON_ARRAY) return request_refuse(x, 400, "'tool_calls' must be a list of calls");
    if (!chat_few(x, given, "tool_calls")) return false;
    for (const struct json *c = given->first; c && calls; c = c->next) {
        const struct json *function = json_member(c, "function"), *name = json_member(function, "name"),
                          *arguments = body_member(function, "arguments");
        if (!arguments) arguments = json_make(&x->room, JSON_OBJECT, NULL, 0);
        if (!arguments) break;
        if (!name || name->kind != JSON_STRING || arguments->kind != JSON_OBJECT)
            return request_refuse(x, 400, "a call of 'tool_calls' must have a function with a name and arguments, which are an object");
        if (!chat_add_call(x, calls, body_member(c, "id"), name, arguments)) return false;
    }
    if (calls && calls->n > 0) json_add(message, "tool_calls", calls);
    return !x->room.full || chat_too_long(x);
}

/* Converts the request's messages to OpenAI's form.  NULL: refused. */
static struct json *messages_of(struct request *x, const struct json *given)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    static const char *const names[][2] = { { "thinking", "reasoning_content" }, { "tool_name", "name" },
                                             { "tool_call_id", "tool_call_id" } };
    struct json *list = json_make(&x->room, JSON_ARRAY, NULL, 0);
    if (!chat_few(x, given, "messages")) return NULL;
    for (const struct json *m = given->first; m; m = m->next) {
        const struct json *content = body_member(m, "content"), *calls = body_member(m, "tool_calls");
        const char *role = NULL;
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) if (json_is(json_member(m, "role"), roles[i])) role = roles[i];
        if (!role || (content && content->kind != JSON_STRING)) {
            request_refuse(x, 400, "'messages': each has a role, system, user, assistant or tool, and a content, which is a text");
            return NULL;
        }
        if (!no_images(x, m)) return NULL;
        struct json *message = chat_add_message(x, list, role, content ? json_same(&x->room, content) : chat_json(x, ""));
        if (!message || (calls && !add_calls(x, message, calls))) return NULL;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const struct json *v = body_member(m, names[i][0]);
            if (v && v->kind == JSON_STRING && v->n > 0) json_add(message, names[i][1], json_same(&x->room, v));
        }
    }
    if (!x->room.full) return list;
    chat_too_long(x);
    return NULL;
}

void ollama_chat_post(struct request *x)
{
    const struct json *body, *given, *choice;
    struct json *think, *format, *messages;
    struct chat_tools tools;
    if (!begin(x, &chats, ROUTE_OLLAMA_CHAT, &body, &think, &format)) return;
    given = body_member(body, "messages");
    if (given && given->kind != JSON_ARRAY) { request_refuse(x, 400, "'messages' must be a list of messages"); return; }
    if (!given || given->n == 0) return;                     /* no task: see say_loaded() */
    choice = body_member(body, "tool_choice");               /* as in OpenAI's chats; Ollama has none */
    if (!(messages = messages_of(x, given)) ||
        !chat_choose(x, &tools, choice, json_member(json_member(choice, "function"), "name")) ||
        !chat_list_tools(x, &tools, body_member(body, "tools"), CHAT_API)) return;
    x->chat = true;
    if (chat_begin(x, messages, &tools, think, 1, on_event)) guided_tasks(x, format);
}

/* Makes the task of a prompt that the template does not change.  suffix: the text after the wanted one, or NULL.  False: refused. */
static bool add_text(struct request *x, const struct json *prompt, const struct json *system, const struct json *suffix)
{
    size_t n;
    if (system) return request_refuse(x, 400, "'system' needs a chat template: without one, or with 'raw', the prompt is the whole text");
    if (suffix && !infill_possible(x, 400)) return false;
    int32_t *ids = suffix ? infill_between(x, prompt, suffix, &n) : body_tokens(x, "prompt", prompt, FORGE_TOK_ADD | FORGE_TOK_SPECIAL, &n);
    return ids && request_choices(x, ids, n, 1);
}

static bool add_turn(struct request *x, const struct json *prompt, const struct json *system, const struct json *think)
{
    const struct chat_tools tools = { .parallel = true };
    struct json *messages = json_make(&x->room, JSON_ARRAY, NULL, 0);
    if ((system && !chat_add_message(x, messages, "system", json_same(&x->room, system))) ||
        !chat_add_message(x, messages, "user", json_same(&x->room, prompt)))
        return false;
    x->chat = true;
    return chat_begin(x, messages, &tools, think, 1, on_event);
}

/* Refuses a member that is not a text. */
static bool body_text(struct request *x, const struct json *body, const char *name, const struct json **out)
{
    *out = body_member(body, name);
    return !*out || (*out)->kind == JSON_STRING || request_refuse(x, 400, "'%s' must be a string", name);
}

void ollama_generate_post(struct request *x)
{
    const struct forge_program *p = x->server->program;
    const struct json *body, *prompt, *system, *suffix;
    struct json *think, *format;
    bool raw = false;
    if (!begin(x, &texts, ROUTE_OLLAMA_GENERATE, &body, &think, &format) || !body_bool(x, body, "raw", &raw) ||
        !no_images(x, body)) return;
    if (!body_text(x, body, "prompt", &prompt) || !body_text(x, body, "system", &system) || !body_text(x, body, "suffix", &suffix)) return;
    if (system && system->n == 0) system = NULL;
    if (suffix && suffix->n == 0) suffix = NULL;
    if (p->embedding) { request_refuse(x, 400, "this is an embedding model: POST /api/embed"); return; }
    if (!prompt || (prompt->n == 0 && !suffix)) return;      /* no task: see say_loaded() */
    if (raw || suffix || !p->chat ? add_text(x, prompt, system, suffix) : add_turn(x, prompt, system, think)) guided_tasks(x, format);
}

/* ---- vectors ---- */

static void vectors_end(struct request *x)
{
    struct out o = { 0 };
    uint32_t n_tokens = 0;
    out_text(&o, "{\"model\":");
    put_model(&o, x->server);
    out_text(&o, ",\"embeddings\":[");
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        if (i) out_text(&o, ",");
        put_vector(&o, x, i);
        n_tokens += x->tasks[i]->n_prompt;
    }
    out_printf(&o, "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%u",
               nanoseconds(seconds_now() - x->began), n_tokens);
    put_warnings(&o, x);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}

/* The former route, for one text. */
static void vector_ends(struct request *x)
{
    struct out o = { 0 };
    out_text(&o, "{\"embedding\":");
    put_vector(&o, x, 0);
    put_warnings(&o, x);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}

static const struct reply_kind vectors = { vectors_no_text, vectors_no_end, vectors_end, OLLAMA_FORM, ROUTE_OLLAMA_EMBED },
                               vector = { vectors_no_text, vectors_no_end, vector_ends, OLLAMA_FORM, ROUTE_OLLAMA_EMBED };

void ollama_embed_post(struct request *x)
{
    if (request_read(x, &vectors)) vectors_tasks(x, json_member(x->json, "input"));
}

void ollama_embeddings_post(struct request *x)
{
    if (!request_read(x, &vector)) return;
    const struct json *prompt = json_member(x->json, "prompt");
    if (!prompt || prompt->kind != JSON_STRING) request_refuse(x, 400, "'prompt' must be a string");
    else vectors_tasks(x, prompt);
}

/* ---- the model ---- */

static void put_count(struct out *o, uint64_t n)
{
    if (n >= 1000000000) out_printf(o, "%.1fB", 1e-9 * (double)n);
    else if (n >= 1000000) out_printf(o, "%.1fM", 1e-6 * (double)n);
    else out_printf(o, "%.1fK", 1e-3 * (double)n);
}

static void put_details(struct out *o, const struct forge_program *p)
{
    out_printf(o, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":\"%s\",\"families\":[\"%s\"],\"parameter_size\":\"",
               p->architecture, p->architecture);
    put_count(o, p->n_parameters);
    out_printf(o, "\",\"quantization_level\":\"%.*s\"}", (int)strcspn(p->formats, " ,"), p->formats);     /* of most tensors */
}

/* {"models":[{... without the last braces. */
static void put_list(struct out *o, const struct server *s)
{
    const struct forge_program *p = s->program;
    out_text(o, "{\"models\":[{\"name\":");
    put_model(o, s);
    out_text(o, ",\"model\":");
    put_model(o, s);
    out_printf(o, ",\"size\":%llu,\"digest\":\"%s\",", (unsigned long long)program_weights_bytes(p), p->model_hash);
    put_details(o, p);
}

void ollama_tags_get(struct server *s, struct http_request *r)
{
    struct out o = { 0 };
    put_list(&o, s);
    out_text(&o, ",");
    put_time(&o, "modified_at", s->began);
    out_text(&o, "}]}");
    reply_json(s, r, 200, &o);
}

void ollama_ps_get(struct server *s, struct http_request *r)
{
    struct out o = { 0 };
    put_list(&o, s);
    out_printf(&o, ",\"expires_at\":\"9999-12-31T23:59:59Z\",\"size_vram\":%llu,\"context_length\":%u}]}",      /* it is never unloaded */
               (unsigned long long)(s->program->gpu ? program_weights_bytes(s->program) : 0), s->engine->n_ctx);
    reply_json(s, r, 200, &o);
}

void ollama_version_get(struct server *s, struct http_request *r)
{
    const char *space = strchr(s->program->compiler, ' '), *version = space ? space + 1 : "";      /* "forgec VERSION, ..." */
    struct out o = { 0 };
    out_text(&o, "{\"version\":");
    out_string(&o, version, strcspn(version, ","));
    out_text(&o, "}");
    reply_json(s, r, 200, &o);
}

static void put_capabilities(struct out *o, const struct forge_program *p)
{
    const struct chat_family *family = p->chat ? chat_family(chat_writes(p->chat, true)) : NULL;
    out_text(o, p->embedding ? "\"capabilities\":[\"embedding\"" : "\"capabilities\":[\"completion\"");
    if (family && family->shape != CHAT_NO_CALLS) out_text(o, ",\"tools\"");
    if (family && family->think[0]) out_text(o, ",\"thinking\"");
    out_text(o, "]");
}

static const struct reply_kind at_once = { NULL, NULL, NULL, OLLAMA_FORM, 0 };

void ollama_show_post(struct request *x)
{
    const struct forge_program *p = x->server->program;
    struct out o = { 0 };
    if (!request_read(x, &at_once)) return;
    out_text(&o, "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",");        /* clients rely on them */
    put_details(&o, p);
    out_printf(&o, ",\"model_info\":{\"general.architecture\":\"%s\",\"general.name\":", p->architecture);
    out_string(&o, p->model_name, strlen(p->model_name));
    out_printf(&o, ",\"general.parameter_count\":%llu,\"%s.context_length\":%u,\"%s.embedding_length\":%u,\"%s.block_count\":%u},",
               (unsigned long long)p->n_parameters, p->architecture, p->n_ctx, p->architecture, p->n_embd, p->architecture, p->n_layer);
    put_capabilities(&o, p);
    out_text(&o, ",");
    put_time(&o, "modified_at", x->server->began);
    out_text(&o, "}");
    request_reply(x, 200, &o);
}
