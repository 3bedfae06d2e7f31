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
#include "runtime/chat/answer.h"
#include "runtime/chat/forced.h"
#include "runtime/chat/mask.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"
#include "toolcalls.h"

#define VALUES \
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n" \
    "value ::= object | \"[\" ws (value (\",\" ws value)*)? \"]\" ws | string | [-0-9.eE]+ ws | (\"true\" | \"false\" | \"null\") ws\n" \
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
    /* impossible grammars */
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(examples), cmocka_unit_test(referred), cmocka_unit_test(forms) };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
