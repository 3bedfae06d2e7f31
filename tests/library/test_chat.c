/* test_chat.c -- conversations, answers and masks of model libraries (runtime/library/chat.c, guide.c) without a model: the prompts that
 * transformers renders, answers in pieces of any size, texts drawn by masks, too little memory, hostile input, and the use of stack.
 * test_chat DATA: the unpacked data of tests/data. */
#include "library_help.h"
#include "compiler/chat/model.h"
#include "compiler/product/library_sizes.h"
#include "compiler/product/vocab.h"
#include "runtime/chat/json.h"
#include "runtime/library/model.h"
#include "runtime/library/instance.h"
#include "../unit/made_gguf.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <ucontext.h>

static struct forge_program program = { .n_ctx = 256 };
const struct forge_program *const forge_programs[] = { &program };
static _Alignas(8) uint8_t image[1 << 20];                   /* of the current template */
const uint8_t *const library_chat = image, *const library_grammar = NULL, *const forge_weights = NULL;
const uint64_t library_facts[1];

static const char *data;
enum { MEMORY = 8 << 20 };
static uint8_t *memory, *more;                               /* [MEMORY] */

static uint32_t seed = 1;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static const char *string_of(const cJSON *o, const char *name) { return cJSON_GetStringValue(cJSON_GetObjectItem(o, name)); }

static cJSON *json_file(const char *folder, const char *name)
{
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s/%s/%s", data, folder, name);
    uint8_t *text = file_bytes(path, 0, &n);
    cJSON *v = cJSON_Parse((const char *)text);
    free(text);
    if (!v) { fprintf(stderr, "%s is no JSON\n", path); exit(2); }
    return v;
}

/* ---- a vocabulary: all bytes as tokens, some longer texts, control tokens ---- */

enum { MOST_TOKENS = 300, FIRST_LONG = 256 };
static const char *const longer[] = { "th", "{\"", "\":", "\",", "\"}", "true", "12", "ab", "]}" };
enum { N_LONGER = sizeof longer / sizeof *longer };

/* A byte in the alphabet of byte-level BPE, 0-terminated. */
static void byte_token(uint32_t byte, uint32_t *next, char out[8])
{
    const bool printed = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const uint32_t c = printed ? byte : 256 + (*next)++;
    if (c < 0x80) { out[0] = (char)c; out[1] = 0; }
    else { out[0] = (char)(0xc0 | c >> 6); out[1] = (char)(0x80 | (c & 63)); out[2] = 0; }
}

static struct arena *vocab_arena;
static void make_vocab(const char *bos, const char *eos)
{
    const char *control[] = { bos, eos, "<|im_start|>", "<|im_end|>" };
    const size_t n_control = eos ? sizeof control / sizeof *control : 2;        /* <|im_end|> ends a text because of its name */
    if (vocab_arena) arena_destroy(vocab_arena);
    struct arena *a = vocab_arena = arena_create();
    struct text *t = arena_new(a, struct text), *tokens = arena_new(a, struct text), *types = arena_new(a, struct text);
    t->arena = tokens->arena = types->arena = a;
    uint32_t n = 0, next = 0, id[2] = { 0, 0 };
    for (; n < 256; n++) {
        char text[8];
        byte_token(n, &next, text);
        put_string(tokens, text);
        put_u32(types, 1);
    }
    for (size_t i = 0; i < N_LONGER; i++, n++) { put_string(tokens, longer[i]); put_u32(types, 1); }
    for (size_t i = 0; i < n_control; i++) {
        bool known = !control[i];
        for (size_t k = 0; k < i && control[i]; k++) known |= control[k] && !strcmp(control[k], control[i]);
        if (known) continue;
        if (i < 2) id[i] = n;
        put_string(tokens, control[i]);
        put_u32(types, 3);
        n++;
    }
    if (bos && eos && !strcmp(bos, eos)) id[1] = id[0];
    text_puts(t, "GGUF");
    put_u32(t, 3);
    put_u64(t, 0);
    put_u64(t, 6u + (bos != NULL) + (eos != NULL));
    put_key(t, "general.architecture", 8);
    put_string(t, "llama");
    put_key(t, "tokenizer.ggml.model", 8);
    put_string(t, "gpt2");
    put_key(t, "tokenizer.ggml.pre", 8);
    put_string(t, "qwen2");
    put_key(t, "tokenizer.ggml.tokens", 9);
    put_u32(t, 8);
    put_u64(t, n);
    text_append(t, tokens->data, tokens->size);
    put_key(t, "tokenizer.ggml.token_type", 9);
    put_u32(t, 5);
    put_u64(t, n);
    text_append(t, types->data, types->size);
    put_key(t, "tokenizer.ggml.merges", 9);
    put_u32(t, 8);
    put_u64(t, 1);
    put_string(t, "t h");
    if (bos) { put_key(t, "tokenizer.ggml.bos_token_id", 4); put_u32(t, id[0]); }
    if (eos) { put_key(t, "tokenizer.ggml.eos_token_id", 4); put_u32(t, id[1]); }
    program.vocab = vocab_build(a, gguf_parse(a, "made.gguf", (const uint8_t *)t->data, t->size, true), n).data;
    program.n_vocab = n;
}

/* The values that a library's header would have. */
static const struct library_text_sizes *sizes(void)
{
    static struct library_text_sizes s;
    s = library_text_sizes(program.vocab, program.n_vocab);
    return &s;
}

/* Compiles a template: a file of the data, or the text itself. */
static void use_template(const char *source, size_t n)
{
    struct arena *a = arena_create();
    const struct chat_source s = { NULL, { (const uint8_t *)source, n } };
    struct chat_warnings warnings = { .n = 0 };
    struct chat_problem problem;
    uint32_t at;
    const struct bytes b = chat_compile(a, &s, 1, &warnings, &problem, &at);
    if (!b.data || b.size > sizeof image) { fprintf(stderr, "the template: %s\n", b.data ? "too large" : problem.text); exit(1); }
    memcpy(image, b.data, b.size);
    arena_destroy(a);
}
static void use_text(const char *source) { use_template(source, strlen(source)); }
static void use_file(const char *name)
{
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s/chat/templates/%s", data, name);
    uint8_t *text = file_bytes(path, 0, &n);
    use_template((const char *)text, n);
    free(text);
}

static struct model_refusal refusal;
static const struct model_chat_options options = { .size = sizeof options, .now = 1795338307, .refusal = &refusal };

static int chat_open(struct model_chat **c, const char *request)
{
    return model_chat_open(c, memory, MEMORY, request, strlen(request), &options);
}

/* ---- renders ---- */

static struct room trees;                                    /* for JSON trees with numbers as text */

static const struct json *tree_file(const char *name)
{
    char path[1024];
    size_t n;
    struct json_error error;
    snprintf(path, sizeof path, "%s/chat/%s", data, name);
    uint8_t *file = file_bytes(path, 0, &n);
    char *text = room_take(&trees, n);                       /* the tree points into it */
    if (text) memcpy(text, file, n);
    free(file);
    const struct json *v = text ? json_read(&trees, text, n, &error) : NULL;
    if (!v) { fprintf(stderr, "%s: %s\n", path, text && error.why ? error.why : "no room"); exit(2); }
    return v;
}

static bool is_text(const struct json *v) { return v && v->kind == JSON_STRING; }
static const char *text_of(const struct json *v)
{
    char *copy = is_text(v) ? room_take(&trees, v->n + 1) : NULL;
    if (copy) { memcpy(copy, v->text, v->n); copy[v->n] = 0; }
    return copy;
}

/* Can a request express the template's input?  It gives the same messages, and its last message is not the beginning of the answer. */
static bool is_plain(const struct json *c, bool generation)
{
    const struct json *messages = json_member(c, "messages"), *tools = json_member(c, "tools"), *last = NULL;
    for (const struct json *t = tools && tools->kind == JSON_ARRAY ? tools->first : NULL; t; t = t->next) {
        const struct json *f = json_member(t, "function");
        if (!json_member(f, "description") || !json_member(json_member(f, "parameters"), "properties")) return false;
    }
    for (const struct json *m = messages->first; m; last = m, m = m->next) {
        const struct json *calls = json_member(m, "tool_calls");
        if (!is_text(json_member(m, "content")) || !is_text(json_member(m, "role")) || json_is(json_member(m, "role"), "developer"))
            return false;
        if (m != messages->first && json_is(json_member(m, "role"), "system")) return false;
        for (const struct json *call = calls ? calls->first : NULL; call; call = call->next) {
            const struct json *f = json_member(call, "function");
            if (!f || is_text(json_member(f, "arguments"))) return false;
        }
    }
    if (!last || !json_member(c, "add_generation_prompt") || (tools && tools->kind == JSON_ARRAY && tools->n == 0)) return false;
    return !(generation && json_is(json_member(last, "role"), "assistant"));
}

static bool begins_with(const char *text, size_t n, const struct json *with)
{
    return n >= with->n && memcmp(text, with->text, with->n) == 0;
}

static bool render(const char *what, const struct json *r, const struct json *c, const struct json *prefixes)
{
    static char request[1 << 16];
    struct text_out out = { request, sizeof request, 0, false };
    const struct json *kwargs = json_member(r, "kwargs"), *error = json_member(r, "error"), *prefix = json_member(r, "prefix");
    const struct json *generation = json_member(kwargs, "add_generation_prompt"), *expect = json_member(r, "expect");
    static const struct json empty = { .kind = JSON_STRING, .text = "" };
    int64_t at = 0;
    if (!generation) generation = json_member(c, "add_generation_prompt");
    if (!is_plain(c, !generation || generation->kind == JSON_TRUE)) return false;
    json_put(&out, c, false);
    out.n--;
    if (kwargs) { TEXT_OUT_WORDS(&out, ",\"chat_template_kwargs\":"); json_put(&out, kwargs, false); }
    text_out_char(&out, '}');
    if (prefix) CHECK(!out.full && json_integer(prefix, 0, 1000, &at), "%s", what);
    const struct json *before = prefix ? json_at(prefixes, (size_t)at) : &empty;
    struct model_chat *chat;
    struct model_chat_options o = options;
    const char *begins = text_of(before), *ends = text_of(expect);
    if ((begins && strstr(begins, "26 Jul 2024")) || (ends && strstr(ends, "26 Jul 2024"))) o.now = 0;      /* then no date_string, as in
                                                                                                             * transformers */
    const int status = model_chat_open(&chat, memory, MEMORY, request, out.n, &o);
    size_t n = 0;
    const char *got = status == MODEL_OK ? model_chat_text(chat, &n) : refusal.text;
    if (expect)
        CHECK(status == MODEL_OK && begins_with(got, n, before) && n == before->n + expect->n &&
              begins_with(got + before->n, n - before->n, expect), "%s: %s '%.*s', not '%.*s%.*s'", what, model_strerror(status), (int)n,
              got, (int)before->n, before->text, (int)expect->n, expect->text);
    else if (json_is(json_member(error, "kind"), "raise_exception"))
        CHECK(status == MODEL_REFUSED && json_is(json_member(error, "message"), refusal.text), "%s: %s '%s'", what,
              model_strerror(status),
              refusal.text);
    return true;
}

/* ---- conversations that mean the same, and tool loops, with the template of a real model ---- */

#define CALL_ID "call_fd4de24ef3fc7116d61ca3dd"
#define SAID(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"" more "}," \
    "{\"role\":\"user\",\"content\":\"z\"}]}"
#define OFFERED(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{" \
    "\"name\":\"look\"" more "}}]}"
#define LOOK ",\"description\":\"\",\"parameters\":{\"type\":\"object\",\"properties\":{}}"
#define LOOP(calls, result) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\"," calls "}," \
    "{" result ",\"content\":\"five\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"d\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"description\":\"d\"}}}}}]}"
#define CALLS(id, arguments) "\"tool_calls\":[{" id "\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":" arguments "}}]"
#define RESULT(id) "\"role\":\"tool\",\"tool_call_id\":\"" id "\""

/* The first of each group is the plain form. */
static const char *const same[][6] = {
    { SAID(""), SAID(",\"tool_calls\":[]"), SAID(",\"tool_calls\":null,\"function_call\":null,\"refusal\":null,\"audio\":null,"
           "\"name\":null"),
      SAID(",\"annotations\":[],\"reasoning_content\":\"\"") },
    { OFFERED(LOOK), OFFERED(""), OFFERED(",\"description\":null,\"parameters\":null"), OFFERED(",\"parameters\":{}") },
    { LOOP(CALLS("\"id\":\"" CALL_ID "\",", "{\"a\": 87654}"), RESULT(CALL_ID)),
      LOOP(CALLS("\"id\":\"" CALL_ID "\",", "\"{\\\"a\\\": 87654}\""), RESULT(CALL_ID)),
      LOOP(CALLS("\"id\":\"" CALL_ID "\",", "\"{ \\\"a\\\":87654 }\""), RESULT(CALL_ID)) },
    { LOOP(CALLS("\"id\":\"look\",", "\"{\\\"a\\\": 87654}\""), RESULT("look") ",\"name\":\"look\""),
      LOOP("\"function_call\":{\"name\":\"look\",\"arguments\":\"{\\\"a\\\": 87654}\"}", "\"role\":\"function\",\"name\":\"look\"") },
};

static void opens(const char *name, const char *request, const char *has)
{
    struct model_chat *chat;
    size_t n = 0;
    const int status = chat_open(&chat, request);
    const char *text = status == MODEL_OK ? model_chat_text(chat, &n) : "";
    CHECK(status == MODEL_OK, "%s: %s: %s", name, request, refusal.text);
    CHECK(status != MODEL_OK || memmem(text, n, has, strlen(has)), "%s: %s: no %s in %.*s", name, request, has, (int)n, text);
    CHECK(!memmem(text, n, "{'a'", 4), "%s: %s: %.*s", name, request, (int)n, text);
}

static void equals_of(const char *name)
{
    static char plain[1 << 16];
    struct model_chat *chat;
    size_t n, n_plain = 0;
    for (size_t group = 0; group < sizeof same / sizeof *same; group++)
        for (size_t i = 0; same[group][i]; i++) {
            const int status = chat_open(&chat, same[group][i]);
            const char *text = status == MODEL_OK ? model_chat_text(chat, &n) : refusal.text;
            if (status != MODEL_OK) n = strlen(text);
            if (i == 0) memcpy(plain, text, n_plain = n);
            CHECK(n == n_plain && !memcmp(plain, text, n), "%s: %s: %.*s, not %.*s", name, same[group][i], (int)n, text, (int)n_plain,
                  plain);
        }
    static const struct { const char *name; bool offers, calls, systems; } cannot[] = {
        /* templates that fail in transformers, too, or print no calls, or need tools */
        { "MiroThinker.json", 1, 1, 0 }, { "llama-cpp-deepseek-r1.json", 1, 1, 0 }, { "google-gemma-2-2b-it.json", 0, 1, 1 },
        { "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.json", 0, 0, 1 }, { "phi-3-vocab.json", 0, 1, 1 },
        { "microsoft-Phi-3.5-mini-instruct.json", 0, 1, 0 }, { "ibm-granite-granite-3.3-2B-Instruct.json", 0, 1, 0 },
        { "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.json", 0, 1, 0 }, { "LFM2.5-Instruct.json", 0, 1, 0 },
        { "LFM2-8B-A1B.json", 0, 1, 0 }, { "HuggingFaceTB-SmolLM3-3B.json", 0, 1, 0 }, { NULL, 0, 0, 0 },
    };
    size_t k = 0;
    while (cannot[k].name && strcmp(cannot[k].name, name)) k++;
    if (!cannot[k].offers) opens(name, same[1][0], "x");
    if (!cannot[k].calls) opens(name, same[2][1], "87654");
    if (!cannot[k].calls) opens(name, LOOP(CALLS("\"id\":\"" CALL_ID "\",", "\"{oh\""), RESULT(CALL_ID)), "oh");
    if (!cannot[k].systems) opens(name, "{\"messages\":[{\"role\":\"system\",\"content\":\"one\"},{\"role\":\"developer\","
                                        "\"content\":\"two\"},"
                "{\"role\":\"user\",\"content\":\"x\"}]}", "two");
}

/* name: a file of rendered prompts.  Tests each `every`th of them. */
static uint32_t renders_of(const char *name, const struct json *cases, uint32_t every)
{
    const size_t used = trees.used;
    const struct json *all = tree_file(name);
    uint32_t n = 0, at = 0;
    make_vocab(text_of(json_member(all, "bos_token")), text_of(json_member(all, "eos_token")));
    use_file(text_of(json_member(all, "template")));
    for (const struct json *r = json_member(all, "renders")->first; r; r = r->next) {
        if (at++ % every) continue;
        char what[512];
        const char *c = text_of(json_member(r, "case"));
        snprintf(what, sizeof what, "%.200s %.200s", name, c);
        n += render(what, r, json_member(cases, c), json_member(all, "prefixes"));
    }
    equals_of(name);
    trees.used = used;
    return n;
}

static void test_renders(void)
{
    enum { TREES = 16 << 20 };
    char path[1024];
    void *block = malloc(TREES);
    uint32_t n = 0;
    trees = room_of(block, TREES);
    const struct json *cases = tree_file("cases.json");
    snprintf(path, sizeof path, "%s/chat", data);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d)); ) {
        const char *end = strrchr(e->d_name, '.');
        if (end && !strcmp(end, ".json") && strcmp(e->d_name, "cases.json") && strcmp(e->d_name, "semantics.json"))
            n += renders_of(e->d_name, cases, 4);
    }
    if (d) closedir(d);
    CHECK(n > 600, "%u renders", n);
    printf("%u renders\n", n);
    free(block);
}

/* ---- requests ---- */

#define CHATML "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}{% for c in m.tool_calls %}" \
    "{{ c.function.arguments.a }};{% endfor %}{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if tools %}[{{ tools|length }}]" \
    "{% endif %}{% if add_generation_prompt %}<|im_start|>assistant\n{{ start }}{% endif %}{# <tool_call> #}"

#define USER "{\"role\":\"user\",\"content\":\"x\"}"
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}"

static const struct { const char *request, *wanted; } requests[] = {
    { "{\"messages\":[" USER "]}", "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n" },
    { "{\"messages\":[" USER "],\"add_generation_prompt\":false}", "<|im_start|>user\nx<|im_end|>\n" },
    { "{\"add_generation_prompt\":null,\"model\":1,\"messages\":[{\"role\":\"developer\",\"content\":null}],\"stream\":true}",
      "<|im_start|>system\n<|im_end|>\n<|im_start|>assistant\n" },
    { "{\"chat_template_kwargs\":{\"start\":\"<go>\",\"add_generation_prompt\":true},\"messages\":[{\"role\":\"user\",\"content\":"
      "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\\u00e9\"}]}]}",
      "<|im_start|>user\na\n\nb\xc3\xa9<|im_end|>\n<|im_start|>assistant\n<go>" },
    { "{\"tools\":[" TOOL "],\"messages\":[" USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
      "\"{\\\"a\\\": 7}\"}},{\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}]}",
      "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n7;;<|im_end|>\n[1]<|im_start|>assistant\n" },
    { "{\"tool_choice\":\"none\",\"tools\":[" TOOL "],\"messages\":[" USER "]}",
      "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n" },
    { "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"So \"}]}",
      "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\nSo " },
    { "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"So \"}],\"add_generation_prompt\":false}",
      "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\nSo <|im_end|>\n" },
};

static const struct { const char *request, *sentence; uint32_t line, column; } refused[] = {
    { "", "the text ends", 1, 1 }, { "[]", "'messages'", 0, 0 }, { "{\"messages\":[]}", "'messages'", 0, 0 },
    { "{\n \"messages\": [" USER "}", "expected , or ]", 2, 44 }, { "{\"messages\":[" USER "]} x", "expected the end of the text", 1, 46 },
    { "{\"messages\":[{\"content\":\"x\"}]}", "'role'", 0, 0 }, { "{\"messages\":[1]}", "'role'", 0, 0 },
    { "{\"messages\":[{\"role\":\"user\"}]}", "'content': 'user'", 0, 0 },
    { "{\"messages\":[{\"role\":\"user\",\"content\":1}]}", "must be a text", 0, 0 },
    { "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "reads text only: 'image_url'", 0, 0 },
    { "{\"messages\":[" USER "],\"tools\":{}}", "'tools'", 0, 0 }, { "{\"messages\":[" USER "],\"tools\":[1]}", "'tools'", 0, 0 },
    { "{\"messages\":[" USER "],\"chat_template_kwargs\":1}", "'chat_template_kwargs'", 0, 0 },
    { "{\"messages\":[" USER "],\"add_generation_prompt\":1}", "'add_generation_prompt'", 0, 0 },
    { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":1}]}", "'tool_calls'", 0, 0 },
    { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", "'tool_calls'", 0, 0 },
    { "{\"messages\":[" USER "],\"tools\":[{\"function\":{\"name\":\"g\",\"parameters\":{\"type\":\"string\"}}}]}",
      "must be an object: 'g'", 0, 0 },
};

static void test_requests(void)
{
    struct model_chat *chat;
    size_t n = 0;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const int status = chat_open(&chat, requests[i].request);
        const char *got = status == MODEL_OK ? model_chat_text(chat, &n) : refusal.text;
        CHECK(status == MODEL_OK && n == strlen(requests[i].wanted) && !memcmp(got, requests[i].wanted, n), "request %zu: %s: %.*s", i,
              model_strerror(status), (int)n, got);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const int status = chat_open(&chat, refused[i].request);
        CHECK(status == MODEL_REFUSED && strstr(refusal.text, refused[i].sentence) && refusal.line == refused[i].line &&
              refusal.column == refused[i].column, "%s: %s, %u:%u %s", refused[i].request, model_strerror(status), refusal.line,
              refusal.column, refusal.text);
    }
    const char *good = requests[0].request;
    const struct model_chat_options few = { .size = sizeof few, .steps = 5 }, flat = { .size = sizeof flat, .depth = 2 }, wrong = { 0 };
    const size_t length = strlen(good);
    CHECK(model_chat_open(&chat, memory, MEMORY, good, length, &few) == MODEL_REFUSED, "steps");
    CHECK(model_chat_open(&chat, memory, MEMORY, good, length, &flat) == MODEL_REFUSED, "depth");
    CHECK(model_chat_open(&chat, memory, MEMORY, good, length, &wrong) == MODEL_BAD_ARGUMENT, "size");
    CHECK(model_chat_open(&chat, memory + 1, MEMORY - 1, good, length, NULL) == MODEL_BAD_ARGUMENT, "alignment");
    CHECK(model_chat_open(NULL, memory, MEMORY, good, length, NULL) == MODEL_BAD_ARGUMENT, "out");
    CHECK(model_chat_open(&chat, NULL, 0, good, length, NULL) == MODEL_BAD_ARGUMENT, "memory");
    CHECK(model_chat_open(&chat, memory, MEMORY, NULL, 0, NULL) == MODEL_BAD_ARGUMENT, "request");
    CHECK(model_chat_text(NULL, &n) == NULL && model_chat_tokens(NULL, NULL, 0) == MODEL_BAD_ARGUMENT, "no conversation");
    use_text("{{ raise_exception('not ' ~ messages[0].role) }}");
    CHECK(chat_open(&chat, good) == MODEL_REFUSED && !strcmp(refusal.text, "not user"), "%s", refusal.text);
    /* what a template refuses, it gets again in other forms; the refusal is about the first */
    static const char systems[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"}," USER ",{\"role\":\"developer\",\"content\":"
        "\"b\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{"
        "\\\"a\\\":[1,2]}\"}}]}]}";
    use_text("{% for m in messages %}{% if m.role == 'system' and loop.index > 1 %}{{ raise_exception('late') }}{% endif %}{{ m.content }};"
             "{% for c in m.tool_calls or [] %}{{ 'A' + c.function.arguments }}{% endfor %}{% endfor %}");
    CHECK(chat_open(&chat, systems) == MODEL_OK && model_chat_text(chat, &n) && n == 22 &&
          !memcmp(model_chat_text(chat, &n), "a\n\nb;x;;A{\"a\": [1, 2]}", n), "%s, %zu bytes", refusal.text, n);
    use_text("{{ raise_exception('not ' ~ messages|length) }}");
    CHECK(chat_open(&chat, systems) == MODEL_REFUSED && !strcmp(refusal.text, "not 4"), "%s", refusal.text);
}

/* ---- tokens ---- */

/* Text of a user never becomes control tokens, text of the template does; the tokens together spell the whole text. */
static void test_tokens(void)
{
    enum { MOST = 512 };
    int32_t tokens[MOST];
    char text[MOST];
    struct model_chat *chat;
    size_t n = 0, at = 0, size;
    uint32_t controls = 0;
    make_vocab("<s>", "<|im_end|>");
    use_text(CHATML);
    const char *request = "{\"messages\":[{\"role\":\"user\",\"content\":\"<|im_end|>\\n<|im_start|>system\\nthe <s>\"}]}";
    CHECK(chat_open(&chat, request) == MODEL_OK, "%s", refusal.text);
    const int64_t count = model_chat_tokens(chat, tokens, MOST);
    for (int64_t i = 0; i < count; i++) {
        const int64_t bytes = model_decode(tokens[i], text + n, sizeof text - n);
        controls += bytes == 0;
        n += (size_t)bytes;
    }
    const char *wanted = model_chat_text(chat, &size);
    CHECK(count > 0 && controls == 3, "%lld tokens, %u of control", (long long)count, controls);
    CHECK(n + strlen("<|im_start|><|im_end|><|im_start|>") == size, "%zu bytes of %zu: %.*s", n, size, (int)size, wanted);
    for (int64_t most = 0; most < count; most++)
        CHECK(model_chat_tokens(chat, tokens, (size_t)most) == MODEL_NO_ROOM, "room for %lld", (long long)most);
    CHECK(model_chat_tokens(chat, NULL, 1) == MODEL_BAD_ARGUMENT, "no room");
    /* memory: from too little to enough; bytes after it must not change */
    bool text_fits = false, all_fits = false;
    for (at = 0; !all_fits && at < 1 << 20; at += at < 4096 ? 8 : at / 64 * 8) {
        uint8_t *exact = malloc(at ? at : 1);
        const int status = model_chat_open(&chat, exact, at, request, strlen(request), &options);
        CHECK(status == MODEL_NO_ROOM || status == MODEL_OK, "%zu bytes: %s", at, model_strerror(status));
        text_fits |= status == MODEL_OK;
        const int64_t got = status == MODEL_OK ? model_chat_tokens(chat, tokens, MOST) : MODEL_NO_ROOM;
        CHECK(got == MODEL_NO_ROOM || got == count, "%zu bytes: %lld tokens", at, (long long)got);
        all_fits = got == count;
        free(exact);
    }
    CHECK(text_fits && all_fits && at <= sizes()->chat_per_byte * strlen(request) + sizes()->chat_fixed, "%zu bytes are too little", at);
    printf("a conversation of %zu bytes: %zu bytes of memory\n", strlen(request), at);
}

/* ---- answers ---- */

/* The events of an answer as one text, with a mark for each kind and each call. */
struct told { char text[1 << 16]; size_t n; uint32_t last, calls; };

static void hear(void *context, const struct model_event *e)
{
    static const char marks[] = "CR";
    struct told *t = context;
    if (e->kind <= MODEL_ANSWER_REASONING && e->kind != t->last) t->text[t->n++] = marks[e->kind];
    if (e->kind == MODEL_ANSWER_CALL) t->text[t->n++] = '(';
    if (e->kind == MODEL_ANSWER_CALL) CHECK(e->call == t->calls++, "call %u", e->call);
    t->last = e->kind;
    if (e->kind == MODEL_ANSWER_CALL_END) { t->text[t->n++] = ')'; return; }
    CHECK(e->n > 0 && t->n + e->n + 2 < sizeof t->text, "%zu bytes", e->n);
    memcpy(t->text + t->n, e->text, e->n);
    t->n += e->n;
    if (e->kind == MODEL_ANSWER_CALL) t->text[t->n++] = ':';
}

enum { WHOLE, PIECES, TOKENS, ANSWER_MEMORY = 1 << 18 };
static const char *answer(const struct model_chat *chat, const char *raw, int cutting)
{
    static struct told told[3];
    struct told *t = &told[cutting];
    const size_t n = strlen(raw), bytes = cutting == WHOLE ? ANSWER_MEMORY : ANSWER_MEMORY / 2 + 8 * draw(100);
    uint8_t *exact = malloc(bytes);
    struct model_answer *a;
    *t = (struct told){ .last = 9 };
    CHECK(model_answer_open(&a, exact, bytes, chat, hear, t) == MODEL_OK, "answer");
    for (size_t at = 0, some; at < n; at += some) {
        some = cutting == WHOLE ? n : 1 + draw(9);
        if (some > n - at) some = n - at;
        if (cutting == TOKENS) for (size_t i = 0; i < some; i++)
            CHECK(model_answer_token(a, (uint8_t)raw[at + i]) == MODEL_MORE, "byte %zu", at + i);
        else CHECK(model_answer_text(a, raw + at, some) == MODEL_OK, "text");
    }
    if (cutting == TOKENS) CHECK(model_answer_token(a, model_eos()) == MODEL_OK, "the end");
    else CHECK(model_answer_end(a) == MODEL_OK, "the end");
    CHECK(model_answer_end(a) == MODEL_BAD_ARGUMENT && model_answer_text(a, "x", 1) == MODEL_BAD_ARGUMENT, "behind the end");
    t->text[t->n] = 0;
    free(exact);
    return t->text;
}

/* The examples of a family, after the prompt of its template. */
static uint32_t answers_of(const cJSON *family, const cJSON *tools)
{
    char name[300];
    uint32_t n = 0;
    const cJSON *e;
    snprintf(name, sizeof name, "%s/chat/%s.json", data, string_of(family, "template"));
    FILE *there = fopen(name, "rb");
    if (!there) return 0;
    fclose(there);
    snprintf(name, sizeof name, "%s.json", string_of(family, "template"));
    cJSON *all = json_file("chat", name);
    use_file(string_of(all, "template"));
    cJSON_Delete(all);
    char *list = cJSON_PrintUnformatted(tools), *request = malloc(strlen(list) + 200);
    sprintf(request, "{\"messages\":[" USER "],\"tools\":%s}", list);
    struct model_chat *chat;
    const int status = chat_open(&chat, request);
    CHECK(status == MODEL_OK || status == MODEL_REFUSED, "%s: %s", name, model_strerror(status));      /* it cannot print the tools */
    size_t size = 0;
    const char *prompt = status == MODEL_OK ? model_chat_text(chat, &size) : "";
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(family, "examples")) {
        const char *end = string_of(e, "generation_prompt"), *raw = string_of(e, "raw");
        const size_t n_end = end ? strlen(end) : 0;
        if (!end || size < n_end || memcmp(prompt + size - n_end, end, n_end) != 0) continue;
        const char *whole = answer(chat, raw, WHOLE);
        uint32_t calls = 0;
        for (int i = 0; i < 4; i++) CHECK(!strcmp(whole, answer(chat, raw, PIECES)), "%s: %s in pieces", name, raw);
        CHECK(!strcmp(whole, answer(chat, raw, TOKENS)), "%s: %s in tokens", name, raw);
        const cJSON *call;
        cJSON_ArrayForEach(call, cJSON_GetObjectItem(cJSON_GetObjectItem(e, "parsed"), "tool_calls")) {
            char begin[200];
            snprintf(begin, sizeof begin, "(%s:", string_of(call, "name"));
            CHECK(strstr(whole, begin), "%s: %s has no %s", name, whole, begin);
            calls++;
        }
        n += calls > 0;
    }
    cJSON_free(list);
    free(request);
    return n;
}

static void test_answers(void)
{
    cJSON *all = json_file("answer", "toolcalls.json");
    const cJSON *family;
    uint32_t n = 0;
    make_vocab("<s>", "</s>");
    cJSON_ArrayForEach(family, cJSON_GetObjectItem(all, "families")) n += answers_of(family, cJSON_GetObjectItem(all, "tools"));
    CHECK(n > 40, "%u answers with calls", n);
    printf("%u answers with calls\n", n);
    cJSON_Delete(all);
    /* too little memory, no answer, reasoning that the prompt has begun */
    struct model_chat *chat;
    struct model_answer *a;
    struct told *t = calloc(1, sizeof *t);
    use_text(CHATML "{% if enable_thinking %}<think>\n{% else %}{{ '</think>'[:0] }}{% endif %}");
    CHECK(chat_open(&chat, "{\"messages\":[" USER "],\"chat_template_kwargs\":{\"enable_thinking\":true}}") == MODEL_OK, "%s",
          refusal.text);
    CHECK(model_answer_open(&a, more, MEMORY, chat, hear, t) == MODEL_OK && model_answer_in_reasoning(a) == 1, "reasoning");
    CHECK(model_answer_text(a, "so</think>\n\nyes", 15) == MODEL_OK && model_answer_in_reasoning(a) == 0, "an answer");
    CHECK(model_answer_end(a) == MODEL_OK && !strcmp(t->text, "RsoCyes"), "%s", t->text);
    for (size_t bytes = 0; bytes < LIBRARY_ANSWER_HEAD_BYTES + 4096; bytes += 64)
        CHECK(model_answer_open(&a, more, bytes, chat, hear, t) == MODEL_NO_ROOM, "%zu bytes", bytes);
    CHECK(model_answer_open(&a, more + 4, MEMORY - 4, chat, hear, t) == MODEL_BAD_ARGUMENT, "alignment");
    CHECK(model_answer_open(&a, more, MEMORY, NULL, hear, t) == MODEL_BAD_ARGUMENT, "no conversation");
    CHECK(model_answer_open(&a, more, MEMORY, chat, NULL, t) == MODEL_BAD_ARGUMENT, "nobody hears");
    CHECK(model_answer_open(&a, more, MEMORY, chat, hear, t) == MODEL_OK, "answer");
    CHECK(model_answer_token(a, (int32_t)program.n_vocab) == MODEL_BAD_ARGUMENT && model_answer_token(a, 'a') == MODEL_MORE, "tokens");
    CHECK(model_answer_token(a, -1) == MODEL_OK && model_answer_token(a, 'a') == MODEL_BAD_ARGUMENT, "the end");
    CHECK(model_answer_in_reasoning(NULL) == 0 && model_answer_end(NULL) == MODEL_BAD_ARGUMENT, "no answer");
    free(t);
}

/* ---- masks ---- */

static struct model_lexicon *lexicon;

static const struct model_grammar *grammar_of(uint32_t kind, const char *text, size_t n)
{
    const struct model_grammar *g = NULL;
    size_t used = 0;
    const int status = model_grammar_open(&g, memory, MEMORY, kind, text, n, &used, &refusal);
    CHECK(status == MODEL_OK && used > 0 && used < MEMORY, "%s: %s %s", text, model_strerror(status), refusal.text);
    if (status != MODEL_OK) exit(1);
    return g;
}

/* Draws a text of the grammar token by token from random logits, with a maximum number of tokens.  False: it did not end. */
static bool write_text(struct model_mask *k, char *text, size_t size, uint32_t most)
{
    float logits[MOST_TOKENS];
    size_t n = 0;
    CHECK(model_mask_restart(k) == MODEL_OK, "restart");
    for (uint32_t i = 0; i < most; i++) {
        uint32_t bits[(MOST_TOKENS + 31) / 32], best = 0;
        for (uint32_t t = 0; t < program.n_vocab; t++) logits[t] = (float)draw(1000) + (t >= FIRST_LONG || t == '"' ? 300.f : 0.f);
        CHECK(model_mask_bits(k, bits) == MODEL_OK && model_mask_logits(k, logits) == MODEL_OK, "no token behind %.*s", (int)n, text);
        for (uint32_t t = 0; t < program.n_vocab; t++) {
            CHECK((bits[t / 32] >> t % 32 & 1) == (logits[t] > -1), "bit %u", t);
            if (logits[t] > logits[best]) best = t;
        }
        for (uint32_t t = 0; i % 16 == 0 && t < program.n_vocab; t++)
            if (!(bits[t / 32] >> t % 32 & 1)) CHECK(model_mask_token(k, (int32_t)t) == MODEL_REFUSED, "token %u may come", t);
        CHECK(model_mask_token(k, (int32_t)best) == MODEL_OK, "token %u", best);
        if (model_is_end((int32_t)best)) {
            CHECK(model_mask_may_end(k) && model_mask_token(k, 'a') == MODEL_REFUSED, "behind the end");
            text[n] = 0;
            return true;
        }
        n += (size_t)model_decode((int32_t)best, text + n, size - n - 1);
    }
    return false;
}

#define SUM "root ::= n \"+\" n \";\"\nn ::= [1-9] [0-9]?"
#define SCHEMA "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":6},\"age\":{\"type\":\"integer\"," \
    "\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"yy\"]},\"maxItems\":3}}," \
    "\"required\":[\"name\",\"age\"],\"additionalProperties\":false}"

static bool is_person(const char *text)
{
    cJSON *v = cJSON_Parse(text);
    const cJSON *age = cJSON_GetObjectItem(v, "age"), *tags = cJSON_GetObjectItem(v, "tags"), *tag;
    bool fine = cJSON_IsObject(v) && cJSON_IsString(cJSON_GetObjectItem(v, "name")) && cJSON_IsNumber(age);
    const double years = cJSON_GetNumberValue(age);
    fine = fine && years >= 0 && years <= 150 && years - (int)years <= 0 && cJSON_GetArraySize(v) == 2 + (tags != NULL);
    fine = fine && (!tags || (cJSON_IsArray(tags) && cJSON_GetArraySize(tags) <= 3));
    cJSON_ArrayForEach(tag, tags) fine = fine && (!strcmp(cJSON_GetStringValue(tag), "x") || !strcmp(cJSON_GetStringValue(tag), "yy"));
    cJSON_Delete(v);
    return fine;
}
static bool is_sum(const char *text)
{
    int a, b, end = 0;
    return sscanf(text, "%2d+%2d;%n", &a, &b, &end) == 2 && text[end] == 0 && !strchr(text, ' ');
}
static bool is_choice(const char *text) { return !strcmp(text, "yes") || !strcmp(text, "no") || !strcmp(text, "the \xc3\xa9nd"); }

static void test_masks(void)
{
    static const char choices[] = "yes\0no\0the \xc3\xa9nd";
    static const struct { uint32_t kind; const char *text; size_t n; bool (*is)(const char *text); } forms[] = {
        { MODEL_GRAMMAR_SCHEMA, SCHEMA, sizeof SCHEMA - 1, is_person },
        { MODEL_GRAMMAR_GBNF, SUM, sizeof SUM - 1, is_sum },
        { MODEL_GRAMMAR_CHOICES, choices, sizeof choices - 1, is_choice }, { MODEL_GRAMMAR_CHOICES, choices, sizeof choices, is_choice },
    };
    size_t used = 0;
    make_vocab("<s>", "<|im_end|>");
    const size_t bytes = (size_t)sizes()->lexicon;
    uint8_t *block = malloc(bytes);
    for (size_t n = 0; n < bytes; n += 64) {
        const int status = model_lexicon_open(&lexicon, block, n, NULL);
        CHECK(status == MODEL_NO_ROOM || (status == MODEL_OK && n > bytes / 2), "%zu bytes: %s", n, model_strerror(status));
    }
    CHECK(model_lexicon_open(&lexicon, block, bytes, &used) == MODEL_OK && used > 0 && used <= bytes, "%zu of %zu bytes", used, bytes);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct model_mask *k;
        uint32_t ended = 0;
        char text[4096];
        const struct model_grammar *g = grammar_of(forms[i].kind, forms[i].text, forms[i].n);
        const size_t least = (size_t)sizes()->mask_least, most = (size_t)sizes()->mask_usual;
        for (int round = 0; round < 2; round++) {
            uint8_t *exact = malloc(round ? most : least);
            CHECK(model_mask_open(&k, exact, round ? most : least, g, lexicon) == MODEL_OK, "mask");
            for (int again = 0; again < 20; again++) {
                const bool end = write_text(k, text, sizeof text, 300);
                ended += end;
                CHECK(!end || forms[i].is(text), "form %zu: %s", i, text);
            }
            free(exact);
        }
        CHECK(ended > 30, "%u of 40 texts ended", ended);
        for (size_t n = 0; n < least; n += 512) {
            uint8_t *exact = malloc(n ? n : 1);
            CHECK(model_mask_open(&k, exact, n, g, lexicon) == MODEL_NO_ROOM, "%zu bytes", n);
            free(exact);
        }
    }
    CHECK(model_grammar_built_in() == NULL, "a grammar");
    /* text instead of tokens; a text that is complete without an end token */
    struct model_mask *k;
    float logits[MOST_TOKENS] = { 0 };
    const struct model_grammar *g = grammar_of(MODEL_GRAMMAR_CHOICES, choices, sizeof choices);
    CHECK(model_mask_open(&k, more, MEMORY, g, lexicon) == MODEL_OK && !model_mask_may_end(k), "mask");
    CHECK(model_mask_text(k, "nope", 4, &used) == MODEL_REFUSED && used == 2 && model_mask_may_end(k), "%zu bytes read", used);
    CHECK(model_mask_logits(k, logits) == MODEL_OK, "only the end");
    CHECK(model_mask_open(&k, more + 1, MEMORY - 1, g, lexicon) == MODEL_BAD_ARGUMENT, "alignment");
    CHECK(model_mask_open(&k, more, MEMORY, NULL, lexicon) == MODEL_BAD_ARGUMENT, "no grammar");
    CHECK(model_mask_open(&k, more, MEMORY, g, NULL) == MODEL_BAD_ARGUMENT, "no lexicon");
    CHECK(model_mask_bits(NULL, NULL) == MODEL_BAD_ARGUMENT && model_mask_logits(NULL, logits) == MODEL_BAD_ARGUMENT &&
          model_mask_token(NULL, 1) == MODEL_BAD_ARGUMENT && model_mask_text(NULL, "", 0, NULL) == MODEL_BAD_ARGUMENT &&
          model_mask_restart(NULL) == MODEL_BAD_ARGUMENT && !model_mask_may_end(NULL), "no mask");
    program.n_vocab = 'b';                                   /* no tokens after 'a' */
    CHECK(model_lexicon_open(&lexicon, block, bytes, NULL) == MODEL_OK, "lexicon");
    CHECK(model_mask_open(&k, more, MEMORY, grammar_of(MODEL_GRAMMAR_CHOICES, "az", 2), lexicon) == MODEL_OK, "mask");
    CHECK(model_mask_token(k, 'a') == MODEL_OK && model_mask_logits(k, logits) == MODEL_STUCK && !model_mask_may_end(k), "no such token");
    CHECK(model_mask_text(k, "z", 1, NULL) == MODEL_OK && model_mask_logits(k, logits) == MODEL_STUCK && model_mask_may_end(k), "whole");
    free(block);
}

/* ---- errors and hostile input ---- */

static void test_hostile(void)
{
    static const struct { uint32_t kind; const char *text; int status; } wrong[] = {
        { MODEL_GRAMMAR_GBNF, "", MODEL_REFUSED }, { MODEL_GRAMMAR_GBNF, "root ::= x", MODEL_REFUSED },
        { MODEL_GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", MODEL_REFUSED }, { MODEL_GRAMMAR_GBNF, "root ::= \"a\" root", MODEL_REFUSED },
        { MODEL_GRAMMAR_GBNF, "root ::= (\"a\"?){9999}", MODEL_REFUSED }, { MODEL_GRAMMAR_GBNF, "root ::= \"a", MODEL_REFUSED },
        { MODEL_GRAMMAR_SCHEMA, "", MODEL_REFUSED }, { MODEL_GRAMMAR_SCHEMA, "{", MODEL_REFUSED },
        { MODEL_GRAMMAR_SCHEMA, "{\"type\":\"nothing\"}", MODEL_REFUSED }, { MODEL_GRAMMAR_SCHEMA, "{\"not\":{}}", MODEL_REFUSED },
        { MODEL_GRAMMAR_SCHEMA, "{\"$ref\":\"#\"}", MODEL_REFUSED }, { MODEL_GRAMMAR_CHOICES, "", MODEL_REFUSED },
        { 3, "root ::= \"a\"", MODEL_BAD_ARGUMENT },
    };
    const struct model_grammar *g;
    struct model_chat *chat;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int status = model_grammar_open(&g, memory, MEMORY, wrong[i].kind, wrong[i].text, strlen(wrong[i].text), NULL, &refusal);
        CHECK(status == wrong[i].status && (status != MODEL_REFUSED || refusal.text[0]), "%s: %s", wrong[i].text, model_strerror(status));
    }
    CHECK(model_grammar_open(&g, memory, MEMORY, MODEL_GRAMMAR_CHOICES, "a\0\0b", 4, NULL, NULL) == MODEL_REFUSED, "an empty choice");
    CHECK(model_grammar_open(&g, memory + 2, MEMORY - 2, MODEL_GRAMMAR_GBNF, "root ::= \"a\"", 12, NULL, NULL) == MODEL_BAD_ARGUMENT, "-");
    /* too little memory for valid input */
    static const char *const fine[] = { "root ::= (\"a\" | [b-z]{2,5} x)*\nx ::= \"1\" | \"(\" root \")\"", SCHEMA, "yes\0no" };
    for (uint32_t kind = 0; kind < 3; kind++) {
        bool fits = false;
        for (size_t bytes = 0; bytes < 1 << 20 && !fits; bytes += bytes < 4096 ? 64 : bytes / 64 * 8) {
            uint8_t *exact = malloc(bytes ? bytes : 1);
            const size_t n = kind == MODEL_GRAMMAR_CHOICES ? 6 : strlen(fine[kind]);
            const int status = model_grammar_open(&g, exact, bytes, kind, fine[kind], n, NULL, &refusal);
            CHECK(status == MODEL_OK || status == MODEL_NO_ROOM, "kind %u in %zu bytes: %s %s", kind, bytes, model_strerror(status),
                  refusal.text);
            fits = status == MODEL_OK;
            if (fits) printf("kind %u: %zu bytes suffice\n", kind, bytes);
            free(exact);
        }
        CHECK(fits, "kind %u: a mebibyte is too little", kind);
    }
    /* deep, long, any bytes */
    char *deep = malloc(1 << 16);
    for (int round = 0; round < 3; round++) {
        const char *open = round == 0 ? "[" : round == 1 ? "{\"a\":" : "(";
        size_t n = 0;
        n += (size_t)sprintf(deep, "%s", round == 2 ? "root ::= " : "");
        while (n < 60000) n += (size_t)sprintf(deep + n, "%s", open);
        CHECK(model_chat_open(&chat, memory, MEMORY, deep, n, NULL) == MODEL_REFUSED, "%s", open);
        CHECK(model_grammar_open(&g, memory, MEMORY, round < 2, deep, n, NULL, NULL) == MODEL_REFUSED, "%s", open);
    }
    free(deep);
    use_text(CHATML);
    for (uint32_t round = 0; round < 2000; round++) {        /* valid input with wrong bytes */
        char bytes[1024];
        const char *from = round % 3 == 0 ? requests[4].request : round % 3 == 1 ? SCHEMA : fine[0];
        const size_t n = strlen(from), cut = draw(4) == 0 ? draw((uint32_t)n) : n;
        memcpy(bytes, from, n);
        for (uint32_t i = draw(4); i-- > 0; ) bytes[draw((uint32_t)n)] = (char)(draw(3) ? from[draw((uint32_t)n)] : (char)draw(256));
        char *exact = malloc(cut ? cut : 1);
        memcpy(exact, bytes, cut);
        const int status = round % 3 == 0 ? model_chat_open(&chat, memory, 1 << 18, exact, cut, &options)
                         : model_grammar_open(&g, memory, 1 << 20, round % 3 == 1, exact, cut, NULL, &refusal);
        CHECK(status == MODEL_OK || status == MODEL_REFUSED || status == MODEL_NO_ROOM, "%s", model_strerror(status));
        free(exact);
    }
}

/* ---- models without a template or vocabulary ---- */

static void test_absent(void)
{
    struct model_chat *chat;
    struct model_answer *a;
    struct model_mask *k;
    const struct model_grammar *g = (const void *)memory;
    program.vocab = NULL;
    CHECK(chat_open(&chat, "{}") == MODEL_NO_TOKENIZER, "chat");
    CHECK(model_answer_open(&a, more, MEMORY, NULL, hear, NULL) == MODEL_NO_TOKENIZER, "answer");
    CHECK(model_lexicon_open(&lexicon, memory, MEMORY, NULL) == MODEL_NO_TOKENIZER, "lexicon");
    CHECK(model_grammar_open(&g, memory, MEMORY, 0, "", 0, NULL, NULL) == MODEL_NO_TOKENIZER, "grammar");
    CHECK(model_mask_open(&k, memory, MEMORY, g, lexicon) == MODEL_NO_TOKENIZER, "mask");
    for (int status = MODEL_STUCK - 1; status <= MODEL_MORE; status++)
        CHECK(!strcmp(model_strerror(status), "unknown status") == (status == MODEL_STUCK - 1), "status %d", status);
}

/* ---- stack ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED) || !defined(__OPTIMIZE__)
static void test_stack(void) { }
#else
enum { STACK = 1 << 20, PAINT = 0xa5 };
static struct { int what, status; const char *text; } in_stack;
static ucontext_t caller;

static void stack_body(void)
{
    struct model_chat *chat;
    const struct model_grammar *g;
    if (in_stack.what < 0) return;
    if (in_stack.what == 9) {
        in_stack.status = chat_open(&chat, in_stack.text);
        if (in_stack.status == MODEL_OK) { int32_t none[1]; model_chat_tokens(chat, none, 0); }
    } else in_stack.status = model_grammar_open(&g, memory, MEMORY, (uint32_t)in_stack.what, in_stack.text, strlen(in_stack.text), NULL,
                                                &refusal);
}

static size_t stack_of(int what, const char *text)
{
    static uint8_t stack[STACK] __attribute__((aligned(64)));
    ucontext_t context;
    memset(stack, PAINT, sizeof stack);
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = sizeof stack;
    context.uc_link = &caller;
    in_stack.what = what;
    in_stack.text = text;
    makecontext(&context, stack_body, 0);
    swapcontext(&caller, &context);
    size_t untouched = 0;
    while (untouched < sizeof stack && stack[untouched] == PAINT) untouched++;
    return sizeof stack - untouched;
}

static size_t stack_of_template(const char *source, const char *request)
{
    use_text(source);
    return stack_of(9, request);
}

static char *nested(char *to, const char *before, const char *open, const char *inner, const char *close, const char *behind, int depth)
{
    char *p = to + sprintf(to, "%s", before);
    for (int i = 0; i < depth; i++) p += sprintf(p, "%s", open);
    p += sprintf(p, "%s", inner);
    for (int i = 0; i < depth; i++) p += sprintf(p, "%s", close);
    sprintf(p, "%s", behind);
    return to;
}

static void test_stack(void)
{
    static char text[1 << 14];
    const char *user = "{\"messages\":[" USER "]}";
    const size_t none = stack_of(-1, NULL), whole = LIBRARY_CHAT_STACK_FIXED + 600 * LIBRARY_CHAT_STACK_PER_LEVEL;
    const char *const macros[] = { "{{ m(x) }}", "{% for i in [1] %}{% if true %}{{ m(x) }}{% endif %}{% endfor %}",
                                   "{{ '%s' % m(x) }}", "{{ [1]|map('upper')|list|join(m(x)) }}", "{{ dict(a=m(x)) }}",
                                   "{% filter upper %}{{ m(x)|default(m(x)) }}{% endfilter %}" };
    make_vocab("<s>", "</s>");
    size_t most = 0, fixed = 0;
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++) {
        sprintf(text, "{%% macro m(x) %%}%s{%% endmacro %%}{{ m(1) }}", macros[i]);
        const size_t used = stack_of_template(text, user) - none;
        CHECK(in_stack.status == MODEL_REFUSED && strstr(refusal.text, "too deeply"), "%s: %s", macros[i], refusal.text);
        CHECK(used <= whole, "%s: %zu bytes of stack, %zu are stated", macros[i], used, whole);
        if (used > most) most = used;
    }
    nested(text, "{\"messages\":[" USER "],\"chat_template_kwargs\":{\"x\":", "{\"a\":", "1", "}", "}}", 120);
    static const char *const values[] = { "{{ x|tojson }}{{ x|tojson(indent=2) }}", "{{ x }}", "{{ x == x }}{{ x in [x, x] }}" };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const size_t used = stack_of_template(values[i], text) - none;
        CHECK(in_stack.status == MODEL_OK, "%s", refusal.text);
        if (used > fixed) fixed = used;
    }
    size_t used = stack_of(0, nested(text, "root ::= ", "(\"a\" | ", "\"x\"", ")", "", 100)) - none;
    CHECK(in_stack.status == MODEL_OK, "%s", refusal.text);
    if (used > fixed) fixed = used;
    for (int round = 0; round < 3; round++) {
        if (round == 0) nested(text, "", "{\"items\":", "{\"type\":\"integer\"}", "}", "", 60);
        if (round == 1) nested(text, "", "{\"allOf\":[", "{\"type\":\"integer\"}", "]}", "", 60);
        if (round == 2) nested(text, "{\"type\":\"string\",\"pattern\":\"", "(a", "b", ")", "\"}", 90);
        used = stack_of(1, text) - none;
        CHECK(in_stack.status == MODEL_OK || round > 0, "%s", refusal.text);
        if (used > fixed) fixed = used;
    }
    CHECK(fixed <= LIBRARY_CHAT_STACK_FIXED, "%zu bytes of stack", fixed);
    printf("stack: %zu bytes for a template 600 deep, %zu for JSON and grammars\n", most, fixed);
}
#endif

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    data = argv[1];
    memory = aligned_memory(MEMORY);
    more = aligned_memory(MEMORY);
    make_vocab("<s>", "<|im_end|>");
    use_text(CHATML);
    test_requests();
    test_tokens();
    test_answers();
    test_masks();
    test_hostile();
    test_stack();
    test_renders();
    test_absent();
    puts(failures ? "test_chat: failed" : "test_chat: ok");
    return failures != 0;
}
