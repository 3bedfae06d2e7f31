/* test_forced.c -- grammars that force models to write calls: they accept the calls of each family in tests/data/answer and nothing
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compiler/product/vocab.h"
#include "runtime/chat/begun.h"
#include "runtime/chat/forced.h"
#include "runtime/chat/mask.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"
#include "toolcalls.h"

#define VALUES \
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\"\n" \
    "value ::= object ws | \"[\" ws (value (\",\" ws value)*)? \"]\" ws | string | [-0-9.eE]+ ws | (\"true\" | \"false\" | \"null\") ws\n" \
    "string ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" .)* \"\\\"\" ws\nws ::= [ \\n]*\n"

static char grammar_text[1 << 18];
static uint8_t block[1 << 24];
static struct lexicon lexicon;
static void *memory;
static struct text_out *rules;

static void add_rule(void *context, const char *name, const struct json *schema, const struct json *function)
{
    char line[64];
    const bool whole = strncmp(name, "args-", 5) == 0;
    (void)context;
    assert_true(whole == (schema == json_member(function, "parameters")));
    text_out_put(rules, line, (size_t)snprintf(line, sizeof line, "%s ::= %s\n", name, whole ? "object" : "value"));
}

/* False: there is no grammar. */
static bool open_grammar(struct mask *m, struct answer_force force)
{
    static char rule_bytes[1 << 16];
    struct text_out out = { grammar_text, sizeof grammar_text, 0, false }, more = { rule_bytes, sizeof rule_bytes, 0, false };
    struct grammar_error error;
    struct room r = room_of(block, sizeof block);
    rules = &more;
    force.rule = add_rule;
    if (!answer_forced(&force, &out)) return false;
    text_out_put(&out, rule_bytes, more.n);
    TEXT_OUT_WORDS(&out, VALUES);
    assert_false(out.full || more.full);
    const struct grammar *g = grammar_read(&r, out.bytes, out.n, NULL, &error);
    if (!g) fail_msg("%s: %u:%u %s in\n%.*s", force.family->name, error.line, error.column, error.text, (int)out.n, out.bytes);
    assert_int_equal(mask_open(m, g, &lexicon, memory, mask_usual(&lexicon)), MASK_OK);
    return true;
}

static bool accepts(struct mask *m, const char *text)
{
    assert_int_equal(mask_restart(m), MASK_OK);
    return mask_text(m, text, strlen(text), NULL) == MASK_OK && mask_may_end(m);
}

static bool opens_reasoning(const struct chat_family *f, const char *prompt)
{
    return f->think[0] && strstr(prompt, f->think[0]);
}

/* Forms that are read but that the grammars do not allow: missing marks, built-in tools, Python's words, JSON on many lines or on one
 * line. */
static bool is_other_form(const char *family, const char *what)
{
    static const char *const others[][2] = {
        { "qwen3-coder", "opening tag left out" }, { "gpt-oss", "recipient in the role header" }, { "llama3-json", "built-in tool" },
        { "lfm2", "two calls" }, { "lfm2.5-thinking", "two calls" }, { "command-r-plus", "" }, { "muse-glimmer", "two calls" },
        { "minimax-m1", "two calls" }, { "minimax-m3", "two calls" }, { "gemma-4", "two calls" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(family, others[i][0]) == 0 && strncmp(what, others[i][1], strlen(others[i][1])) == 0) return true;
    return false;
}

static void examples(void **state)
{
    (void)state;
    const cJSON *family, *example;
    size_t n_accepted = 0;
    cJSON_ArrayForEach(family, cJSON_GetObjectItem(data, "families")) {
        const char *name = text_of(family, "family");
        const struct chat_family *f = chat_family(family_of(name));
        cJSON_ArrayForEach(example, cJSON_GetObjectItem(family, "examples")) {
            const cJSON *parsed = cJSON_GetObjectItem(example, "parsed");
            const char *raw = text_of(example, "raw"), *what = text_of(example, "what");
            const int n_calls = cJSON_GetArraySize(cJSON_GetObjectItem(parsed, "tool_calls"));
            const bool wanted = n_calls && !*text_of(parsed, "content") && !is_other_form(name, what);
            struct answer_force force = { .family = f, .tools = tools, .parallel = true,
                                          .reasoning = opens_reasoning(f, text_of(example, "generation_prompt")) };
            struct mask m;
            assert_true(open_grammar(&m, force));
            if (accepts(&m, raw) != wanted) fail_msg("%s, %s: %s\n%s", name, what, wanted ? "refused" : "accepted", raw);
            n_accepted += wanted;
            force.parallel = false;
            assert_true(open_grammar(&m, force));
            if (accepts(&m, raw) != (wanted && n_calls == 1)) fail_msg("%s, %s: one call\n%s", name, what, raw);
            force.name = "now";
            force.n_name = 3;
            assert_true(open_grammar(&m, force));
            const cJSON *call = cJSON_GetArrayItem(cJSON_GetObjectItem(parsed, "tool_calls"), 0);
            const bool is_now = wanted && n_calls == 1 && strcmp(text_of(call, "name"), "now") == 0;
            if (accepts(&m, raw) != is_now) fail_msg("%s, %s: now\n%s", name, what, raw);
        }
    }
    assert_true(n_accepted > 110);
}

/* Parameters that are a reference: their properties are found, and the rules get the function in which references are resolved. */
static void referred(void **state)
{
    static const char text[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"$ref\":\"#/$defs/P\",\"$defs"
        "\":{\"P\":{\"type\":"
                               "\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/A\"}},\"required\":[\"a\"]},\"A\":{\"type\":\"i"
                                   "nteger\"}}}}}]";
    static uint8_t bytes[1 << 14];
    struct room r = room_of(bytes, sizeof bytes);
    struct json_error error;
    struct mask m;
    (void)state;
    const struct answer_force force = { .family = chat_family(family_of("qwen3-coder")), .tools = json_read(&r, text,
        sizeof text - 1, &error) };
    assert_non_null(force.tools);
    assert_true(open_grammar(&m, force));
    assert_true(accepts(&m, "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"));
    assert_false(accepts(&m, "<tool_call>\n<function=f>\n</function>\n</tool_call>"));
}

static int32_t fake_control(void *context, const char *text, size_t n, size_t *used)
{
    (void)context;
    *used = 12;
    return n >= 12 && memcmp(text, "[TOOL_CALLS]", 12) == 0 ? 5 : -1;
}

static void forms(void **state)
{
    (void)state;
    struct mask m;
    struct answer_force force = { .family = chat_family(CHAT_lfm2), .tools = tools };
    assert_true(open_grammar(&m, force));
    static const char *const accepted[] = {
        "[get_weather(location=\"a\")]", "[get_weather(location=\"a\", days=1)]", "[find_files(root=\"\", filter={})]", "[now()]",
    };
    static const char *const refused[] = {
        "[get_weather()]", "[get_weather(days=1)]", "[get_weather(location=\"a\", )]", "[now(),]", "[f()]", "[]", "",
    };
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "<|tool_call_start|>%s<|tool_call_end|>", accepted[i]);
        assert_true(accepts(&m, text));
    }
    for (size_t i = 0; i < 7; i++) {
        snprintf(text, sizeof text, "<|tool_call_start|>%s<|tool_call_end|>", refused[i]);
        assert_false(accepts(&m, text));
    }
    /* strings end at the first mark, after any text */
    force.family = chat_family(CHAT_qwen3_coder);
    assert_true(open_grammar(&m, force));
    assert_true(accepts(&m, "<tool_call>\n<function=get_weather>\n<parameter=location>\n<<\n\n</parameter\n</\n</parameter>\n"
                            "</function>\n</tool_call>"));
    assert_false(accepts(&m, "<tool_call>\n<function=get_weather>\n<parameter=location>\na</parameter>\n</function>\n</tool_call>"));
    /* control tokens by number */
    struct text_out out = { grammar_text, sizeof grammar_text, 0, false };
    force.family = chat_family(CHAT_mistral_args);
    force.control = fake_control;
    assert_true(answer_forced(&force, &out));
    out.bytes[out.n] = 0;
    assert_true(strstr(out.bytes, "<[5]> \"get_weather\"") && !strstr(out.bytes, "TOOL_CALLS"));
    /* calls, or something else */
    force = (struct answer_force){ .family = chat_family(CHAT_hermes), .tools = tools, .other = "object" };
    assert_true(open_grammar(&m, force));
    assert_true(accepts(&m, "{\"a\": 1}") && accepts(&m, "<think>a</think>\n{\"a\": 1}"));
    assert_true(accepts(&m, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    assert_false(accepts(&m, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>{\"a\": 1}") || accepts(&m, "[]"));
    force.family = chat_family(CHAT_harmony);
    assert_true(open_grammar(&m, force));
    assert_true(accepts(&m, "<|channel|>final <|constrain|>json<|message|>{}") && accepts(&m, "<|channel|>final<|message|>{}"));
    assert_true(accepts(&m, "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}"));
    /* impossible grammars */
    force = (struct answer_force){ .family = chat_family(CHAT_mistral_args), .tools = tools };
    force.name = "unknown";
    force.n_name = 7;
    assert_false(answer_forced(&force, &out));
    force.name = NULL;
    force.family = chat_family(CHAT_plain);
    assert_false(answer_forced(&force, &out));
    force.family = chat_family(CHAT_hermes);
    force.tools = NULL;
    assert_false(answer_forced(&force, &out));
    force.tools = tools;
    out = (struct text_out){ grammar_text, 100, 0, false };
    assert_false(answer_forced(&force, &out));
}

/* ---- calls that the model begins by itself ---- */

static void ignore(void *context, const struct answer_event *event) { (void)context, (void)event; }

struct follower {
    struct answer answer;
    struct mask *mask;
    uint64_t room[ANSWER_ROOM_LEAST / 8];
    uint32_t n_begun, n_ended, n_refused, n_tried;
};

static void follow_from(struct follower *w, const struct chat_family *f, const char *prompt, struct mask *m)
{
    *w = (struct follower){ .mask = m };
    answer_begin(&w->answer, &(struct answer_options){ .family = f, .tools = tools, .prompt = prompt, .n_prompt = strlen(prompt),
                                                       .tell = ignore, .room = w->room, .room_bytes = sizeof w->room });
}

/* Reads text as a server does, in pieces of `piece` bytes: free text by the parser, a call that has begun by the mask. */
static void follow(struct follower *w, const char *raw, size_t piece)
{
    const size_t n = strlen(raw);
    bool guided = false;
    for (size_t at = 0, some; at < n; at += some) {
        struct begun b;
        size_t used;
        some = guided ? 1 : piece < n - at ? piece : n - at;
        if (guided) {
            if (mask_text(w->mask, raw + at, 1, NULL) != MASK_OK) { w->n_refused++; guided = false; }
        } else {
            answer_feed(&w->answer, raw + at, some);
            if (!w->answer.in_call || w->answer.n_begun == w->n_tried || !begun_call(&w->answer, &b)) continue;
            w->n_tried = w->answer.n_begun;
            w->n_begun++;
            assert_int_equal(mask_restart(w->mask), MASK_OK);
            if (mask_text(w->mask, b.name, strlen(b.name), NULL) != MASK_OK) fail_msg("no rule for the beginning %s", b.name);
            guided = mask_text(w->mask, b.rest, b.n_rest, &used) == MASK_OK;
            if (!guided && mask_is_complete(w->mask)) {      /* the piece is longer than the call */
                guided = true;
                some -= b.n_rest - used;
            }
            w->n_refused += !guided;
        }
        if (!guided || !mask_is_complete(w->mask)) continue;
        w->n_ended++;
        guided = false;
        begun_call_ends(&w->answer);
    }
}

/* Forms that the grammars leave out: values in the syntax of the language, built-in tools, lists in a fence. */
static bool is_free_form(const char *family, const char *what)
{
    static const char *const others[][2] = {
        { "lfm2", "two calls" }, { "lfm2.5-thinking", "two calls" }, { "minimax-m3", "two calls" }, { "gemma-4", "two calls" },
        { "llama3-json", "built-in tool" }, { "command-r-plus", "" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(family, others[i][0]) == 0 && strncmp(what, others[i][1], strlen(others[i][1])) == 0) return true;
    return false;
}

/* A guide begins with each call, or block of calls, of the examples, allows all of it, and ends with it. */
static void begun(void **state)
{
    (void)state;
    const cJSON *family, *example;
    uint32_t n_guided = 0;
    cJSON_ArrayForEach(family, cJSON_GetObjectItem(data, "families")) {
        const char *name = text_of(family, "family");
        const struct chat_family *f = chat_family(family_of(name));
        struct mask m;
        const struct answer_force force = { .family = f, .tools = tools, .parallel = true, .begun = true };
        assert_true(open_grammar(&m, force) == (f != chat_family(CHAT_command_r_plus)));
        cJSON_ArrayForEach(example, cJSON_GetObjectItem(family, "examples")) {
            const bool calls = cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(example, "parsed"), "tool_calls")) > 0;
            const char *raw = text_of(example, "raw"), *what = text_of(example, "what");
            if (is_free_form(name, what)) continue;
            for (size_t piece = 1; piece < 8; piece += 3) {
                struct follower w;
                follow_from(&w, f, text_of(example, "generation_prompt"), &m);
                follow(&w, raw, piece);
                if (w.n_refused > 0 || w.n_ended != w.n_begun || calls != (w.n_begun > 0))
                    fail_msg("%s, %s: %u guides begin, %u end, %u refuse\n%s", name, what, w.n_begun, w.n_ended, w.n_refused, raw);
                n_guided += w.n_begun;
            }
        }
    }
    assert_true(n_guided > 400);
}

/* Where guides begin, and what they refuse; b: a guide begins, e: it ends, x: it refuses. */
static void beginnings(void **state)
{
    (void)state;
    static const struct { enum chat_family_id id; const char *prompt, *raw, *wanted; } texts[] = {
        { CHAT_hermes, "", "Write `<tool_call>` or '<tool_call>' first", "" },
        { CHAT_hermes, "", "<think>a <tool_call></think>b", "" },
        { CHAT_hermes, "<think>\n", "a <tool_call></think>b\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", "be" },
        { CHAT_hermes, "", "So <tool_call>\n{\"name\": \"fly\"", "bx" },
        { CHAT_hermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\", \"arguments\": {}}</tool_call>.",
          "be" },
        { CHAT_qwen3_coder, "", "The tag <function=f> is", "bx" },
        { CHAT_qwen3_coder, "", "<function=now>\n</function>\n<tool_call>\n<function=now>\n</function>\n</tool_call>", "bebe" },
        { CHAT_firefunction_2, "", "import functools or functools.reduce", "" },
        { CHAT_firefunction_2, "", "functools[{\"name\": \"now\", \"arguments\": {}}]", "be" },
        { CHAT_llama_3, "", "{\"name\": \"Bob\", \"age\": 3}", "" },
        { CHAT_llama_3, "", " {\"type\": \"function\",\n\"name\": \"now\", \"parameters\": {}}", "be" },
        { CHAT_llama_3, "", "<|python_tag|>{\"name\":\"now\",\"arguments\":{}}", "be" },
        { CHAT_llama_3, "", "See {\"name\": \"now\", \"parameters\": {}}", "" },
        { CHAT_functionary_3_2, ">>>", "all\nnow\n{}", "" },
        { CHAT_functionary_3_2, ">>>", "all\na\n>>>now\n{}>>>now\n{}", "bebe" },
        { CHAT_functionary_3_2, ">>>", "now\nand", "bx" },
        { CHAT_harmony, "<|start|>assistant", "<|channel|>final<|message|>to=functions.now", "" },
        { CHAT_harmony, "<|start|>assistant", "<|channel|>analysis to=python code<|message|>to=functions.now", "" },
        { CHAT_harmony, "<|start|>assistant", " to=functions.now<|channel|>commentary json<|message|>{}<|call|>", "be" },
        { CHAT_harmony, "<|start|>assistant", "<|channel|>commentary to=functions.fly<|message|>{}", "bx" },
        { CHAT_gigachat_3, "", "a<|message_sep|>b", "" },
        { CHAT_solar, "", "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>"
          "<|tool_call:begin|>a2<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>", "bebe" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct answer_force force = { .family = chat_family(texts[i].id), .tools = tools, .parallel = true, .begun = true };
        struct mask m;
        struct follower w;
        char got[16] = "";
        assert_true(open_grammar(&m, force));
        follow_from(&w, force.family, texts[i].prompt, &m);
        follow(&w, texts[i].raw, 1);
        for (uint32_t k = 0; k < w.n_begun; k++) strcat(got, k < w.n_ended ? "be" : w.n_refused ? "bx" : "b");
        if (strcmp(got, texts[i].wanted)) fail_msg("%s: %s, not %s", texts[i].raw, got, texts[i].wanted);
    }
}

static struct arena *a;                  /* lives until the end */

static int set_up(void **state)
{
    a = arena_create();
    const uint8_t *vocab = vocab_build(a, gguf_open(a, FORGEC_UNPACKED "/tokenizers/tiny-granite-a.gguf", true), 0).data;
    const size_t bytes = lexicon_room(vocab, forge_vocab_n_tokens(vocab));
    struct room r = room_of(malloc(bytes), bytes);
    if (!lexicon_make(&lexicon, vocab, forge_vocab_n_tokens(vocab), &r)) return -1;
    memory = malloc(mask_usual(&lexicon));
    return load(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(examples), cmocka_unit_test(referred), cmocka_unit_test(forms),
                                        cmocka_unit_test(begun), cmocka_unit_test(beginnings) };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
