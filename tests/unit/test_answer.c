/* test_answer.c -- parses answers of models: the examples of tests/data/answer with their expected meaning, in pieces of any size, and
 * further cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/chat/answer.h"
#include "toolcalls.h"

/* ---- events ---- */

enum { TEXT = 1 << 17, CALLS = 64 };
static bool in_pieces;                                       /* arguments are reported in pieces */
struct told {
    char   content[TEXT], reasoning[TEXT];
    size_t n_content, n_reasoning, n_events;
    struct { char name[512], id[512], arguments[TEXT]; size_t n; } calls[CALLS];
    size_t n_calls, n_pieces;                                /* n_pieces: of arguments */
    bool   open;                                             /* a call has begun and not ended */
};

static void append(char *to, size_t *n, const char *text, size_t n_text)
{
    if (*n + n_text >= TEXT) fail_msg("too much text");
    memcpy(to + *n, text, n_text);
    to[*n += n_text] = 0;
}

static void collect(void *context, const struct answer_event *e)
{
    struct told *t = context;
    t->n_events++;
    switch (e->kind) {
    case ANSWER_CONTENT: assert_true(e->n && !t->open); append(t->content, &t->n_content, e->text, e->n); return;
    case ANSWER_REASONING: assert_true(e->n && !t->open); append(t->reasoning, &t->n_reasoning, e->text, e->n); return;
    case ANSWER_CALL:
        assert_true(!t->open && t->n_calls < CALLS && e->call == t->n_calls && e->n && e->n < 512 && e->n_id < 512);
        t->open = true;
        snprintf(t->calls[t->n_calls].name, 512, "%.*s", (int)e->n, e->text);
        snprintf(t->calls[t->n_calls].id, 512, "%.*s", (int)e->n_id, e->n_id ? e->id : "");
        t->calls[t->n_calls].n = 0;
        t->calls[t->n_calls].arguments[0] = 0;
        return;
    case ANSWER_ARGUMENTS:
        assert_true(t->open && e->call == t->n_calls);
        assert_true(e->n && (in_pieces || t->calls[t->n_calls].n == 0));
        for (size_t i = 0, step; i < e->n; i += step) assert_true((step = json_utf8(e->text + i, e->n - i)) > 0);
        append(t->calls[t->n_calls].arguments, &t->calls[t->n_calls].n, e->text, e->n);
        t->n_pieces++;
        return;
    case ANSWER_CALL_END:
        assert_true(t->open && e->call == t->n_calls++);
        t->open = false;
        return;
    }
}

static uint32_t seed;
static bool cut_off;                                         /* texts end because they were cut off */

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* ---- one answer ---- */

enum { WHOLE = 0, PIECES = -1 };                             /* else: bytes per piece */

static struct told *read_with(enum chat_family_id id, const struct json *offered, const char *prompt, const char *raw, size_t n,
    int pieces, size_t room)
{
    static struct told told;
    void *block = malloc(room);
    struct answer a;
    told.content[0] = told.reasoning[0] = 0;
    told.n_content = told.n_reasoning = told.n_calls = told.n_events = told.n_pieces = 0;
    told.open = false;
    answer_begin(&a, &(struct answer_options){ .family = chat_family(id), .tools = offered, .prompt = prompt, .n_prompt = strlen(prompt),
                                               .tell = collect, .context = &told, .room = block, .room_bytes = room });
    if (in_pieces) answer_in_pieces(&a);
    for (size_t at = 0; at < n; ) {
        size_t some = pieces == WHOLE ? n : pieces == PIECES ? 1 + draw(12) : (size_t)pieces;
        if (some > n - at) some = n - at;
        char *exact = malloc(some);
        memcpy(exact, raw + at, some);
        answer_feed(&a, exact, some);
        free(exact);
        at += some;
    }
    (cut_off ? answer_cut : answer_end)(&a);
    assert_false(told.open);
    free(block);
    return &told;
}

static const char *trimmed(char *text)
{
    static const char space[] = " \t\r\n";
    text += strspn(text, space);
    for (size_t n = strlen(text); n && strchr(space, text[n - 1]); ) text[--n] = 0;
    return text;
}

/* An answer as one line: [reasoning], content, NAME(arguments)#id. */
static const char *line_of(const struct told *t)
{
    static char line[4 * TEXT];
    int n = snprintf(line, sizeof line, "%s%s%s%s", t->n_reasoning ? "[" : "", t->reasoning, t->n_reasoning ? "]" : "", t->content);
    for (size_t k = 0; k < t->n_calls; k++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s(%s)%s%s", t->calls[k].name, t->calls[k].arguments,
            t->calls[k].id[0] ? "#" : "",
                      t->calls[k].id);
    return line;
}

static bool same_trimmed(const char *text, const char *wanted)
{
    char *copy = strdup(text);
    const bool same = strcmp(trimmed(copy), wanted) == 0;
    free(copy);
    return same;
}

static bool is_like(const struct told *t, const cJSON *parsed)
{
    const cJSON *calls = cJSON_GetObjectItem(parsed, "tool_calls");
    bool same = same_trimmed(t->content, text_of(parsed, "content")) && same_trimmed(t->reasoning, text_of(parsed, "reasoning_content")) &&
                (size_t)cJSON_GetArraySize(calls) == t->n_calls;
    for (size_t i = 0; i < t->n_calls && same; i++) {
        const cJSON *want = cJSON_GetArrayItem(calls, (int)i);
        cJSON *got = cJSON_Parse(t->calls[i].arguments);
        same = got && cJSON_Compare(got, cJSON_GetObjectItem(want, "arguments"), true) &&
               strcmp(t->calls[i].name, text_of(want, "name")) == 0 && strcmp(t->calls[i].id, text_of(want, "id")) == 0;
        cJSON_Delete(got);
    }
    return same;
}

static void examples_of(const cJSON *family, enum chat_family_id id)
{
    static const int ways[] = { WHOLE, 1, PIECES, PIECES, PIECES };
    const cJSON *example;
    cJSON_ArrayForEach(example, cJSON_GetObjectItem(family, "examples")) {
        const char *raw = text_of(example, "raw");
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const uint32_t used = seed;
            const struct told *t = read_with(id, tools, text_of(example, "generation_prompt"), raw, strlen(raw), ways[i], ANSWER_ROOM);
            if (!is_like(t, cJSON_GetObjectItem(example, "parsed")))
                fail_msg("%s, %s (way %zu, seed %u): %s\nof: %s", text_of(family, "family"), text_of(example, "what"), i, used,
                    line_of(t), raw);
        }
    }
}

static void examples(void **state)
{
    (void)state;
    const cJSON *family;
    size_t n = 0;
    cJSON_ArrayForEach(family, cJSON_GetObjectItem(data, "families")) {
        examples_of(family, family_of(text_of(family, "family")));
        n++;
    }
    assert_true(n == sizeof names / sizeof *names);
}

#define WEATHER "{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Lund\"}}"
#define CALLED "get_weather({\"location\":\"Lund\"})"

static const char *line_in_pieces(enum chat_family_id id, const char *prompt, const char *raw, int way, size_t *n)
{
    in_pieces = true;
    const struct told *t = read_with(id, tools, prompt, raw, strlen(raw), way, ANSWER_ROOM);
    in_pieces = false;
    *n = t->n_pieces;
    return line_of(t);
}

/* Calls in pieces are the same calls. */
static void pieces(void **state)
{
    static const int ways[] = { WHOLE, 1, PIECES, PIECES, PIECES };
    static const char *const whole[] = {                     /* other families have JSON, and their arguments come in pieces */
        "qwen3-coder", "qwen3.5", "nemotron-3-nano", "deepseek-v3.2", "deepseek-v4", "glm-4.6", "glm-4.7", "lfm2", "lfm2.5-thinking",
        "kimi-k3", "minimax-m2", "minimax-m3", "gemma-4", "seed-oss", "minicpm-5", "muse-glimmer", "mistral-nemo",
    };
    static char wanted[4 * TEXT];
    const cJSON *family, *example;
    (void)state;
    cJSON_ArrayForEach(family, cJSON_GetObjectItem(data, "families")) {
        const enum chat_family_id id = family_of(text_of(family, "family"));
        size_t most = 0, n;
        bool comes_whole = false;
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) comes_whole |= strcmp(whole[i], text_of(family, "family")) == 0;
        cJSON_ArrayForEach(example, cJSON_GetObjectItem(family, "examples")) {
            const char *raw = text_of(example, "raw"), *prompt = text_of(example, "generation_prompt");
            strcpy(wanted, line_of(read_with(id, tools, prompt, raw, strlen(raw), WHOLE, ANSWER_ROOM)));
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                const char *line = line_in_pieces(id, prompt, raw, ways[i], &n);
                if (strcmp(line, wanted)) fail_msg("%s:\n%s\n%s\nof: %s", text_of(family, "family"), line, wanted, raw);
                if (n > most) most = n;
            }
        }
        if ((most <= 2) != comes_whole) fail_msg("%s: arguments in %zu pieces", text_of(family, "family"), most);
    }
#define NOW "<tool_call>{\"name\": \"now\", \"arguments\": "
    static const struct { enum chat_family_id id; const char *raw, *wanted; } texts[] = {
        { CHAT_hermes, NOW "{ \"a\" : [ 1 , -2.5e+3 ,true,null], \"b\\u0041\\/\": {} , \"\\n\": \"\" }}</tool_call>\nb",
          "bnow({\"a\":[1,-2.5e+3,true,null],\"bA/\":{},\"\\n\":\"\"})" },
        { CHAT_hermes, NOW "{\"a\": \"\\u00e9\\ud83d\\ude00\\ud83d\\u0041\\ude00\\ud83d\\n\\ud83d\\ud83d\\ude00 \\ud83dx\\u0000é\"}}",
          "now({\"a\":\"é😀�A��\\n�😀 �x\\u0000é\"})" },
        { CHAT_hermes, "<tool_call>[" WEATHER ",\n" WEATHER "]</tool_call>", CALLED CALLED },
        { CHAT_hermes, NOW "{}, \"note\": \"}\\\"}\", \"more\": {\"b\": [1]}}</tool_call>b", "bnow({})" },
        { CHAT_hermes, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"now\"}</tool_call>", "now({\"a\":1})" },
        { CHAT_hermes, "<tool_call>{\"name\": \"fly\", \"arguments\": {\"a\": 1}}</tool_call>", "fly({\"a\":1})" },
        { CHAT_hermes, "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "now({\"a\":1})" },
        { CHAT_apertus, "<|tools_prefix|>[{\"now\": {}, \"get_weather\": {\"a\": 1}}]<|tools_suffix|>", "now({})get_weather({\"a\":1})" },
        { CHAT_command_r7b, "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}}]<|END_ACTION|>",
          "now({})#0" },
        { CHAT_harmony, "<|channel|>commentary to=now <|constrain|>json<|message|>{\"a\": 1}<|call|>", "now({\"a\":1})" },
        /* what is no JSON, or never ends, ends the call */
        { CHAT_hermes, NOW "{oops}}</tool_call>", "oops}}</tool_call>now({)" },
        { CHAT_hermes, NOW "{\"a\": 01}} b", "1}} bnow({\"a\":0)" },
        { CHAT_hermes, NOW "{\"a\": \"b\\", "now({\"a\":\"b)" },
        { CHAT_hermes, NOW "{\"a\": 1}", "now({\"a\":1})" },
        { CHAT_mistral_args, "[TOOL_CALLS]now[ARGS]{\"a\": \"x", "now({\"a\":\"x)" },
    };
    for (size_t i = 0, n; i < sizeof texts / sizeof *texts; i++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            const char *line = line_in_pieces(texts[i].id, "", texts[i].raw, ways[k], &n);
            if (strcmp(line, texts[i].wanted)) fail_msg("%s\n gives  %s\n wanted %s", texts[i].raw, line, texts[i].wanted);
        }
}

/* Nothing is reported of what the reader knows, except in a call. */
static void prefills(void **state)
{
    static const struct { enum chat_family_id id; const char *known, *raw, *wanted; } texts[] = {
        { CHAT_hermes, "a <", "b", "b" }, { CHAT_hermes, "a <tool", " b", " b" }, { CHAT_hermes, "a <tool", "_call>" WEATHER, CALLED },
        { CHAT_hermes, "<tool_call>" WEATHER "</tool_call> <tool_call>{\"name\": \"get_wea",
          "ther\", \"arguments\": {\"location\": \"Lund\"}}", CALLED },
        { CHAT_hermes, "<tool_call>{\"name\": ", "1}", "1}" }, { CHAT_hermes, "<think>a", "b</think>c", "[b]c" },
        { CHAT_hermes, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"loca", "tion\": \"Lund\"}}</tool_call>d", "d" CALLED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int k = 0; k < 2; k++) {
            static struct told told;
            static uint64_t room[ANSWER_ROOM_LEAST / 8];
            struct answer a;
            told = (struct told){ .n_calls = 0 };
            answer_begin(&a, &(struct answer_options){ .family = chat_family(texts[i].id), .tools = tools, .prompt = "", .tell = collect,
                                                       .context = &told, .room = room, .room_bytes = sizeof room });
            answer_prefill(&a, texts[i].known, strlen(texts[i].known));
            in_pieces = k > 0;
            if (k) answer_in_pieces(&a);
            for (const char *p = texts[i].raw; *p; p++) answer_feed(&a, p, 1);
            answer_end(&a);
            in_pieces = false;
            if (strcmp(line_of(&told), texts[i].wanted)) fail_msg("%s|%s: %s", texts[i].known, texts[i].raw, line_of(&told));
        }
}

static void answer_is(enum chat_family_id id, const char *prompt, const char *raw, const char *wanted)
{
    const int ways[] = { WHOLE, 1, PIECES };
    for (int i = 0; i < 3; i++) {
        const struct told *t = read_with(id, tools, prompt, raw, strlen(raw), ways[i], ANSWER_ROOM);
        if (strcmp(line_of(t), wanted)) fail_msg("%s: %s\n gives  %s\n wanted %s", chat_family(id)->name, raw, line_of(t), wanted);
    }
}

/* Text that is not a call is content, and text inside reasoning is never a call. */
static void no_calls(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Say <tool_call> and <b>", "<tool_call>\n{\"name\": \"now\", \"arguments\": {oops}}\n</tool_call>",
        "<tool_call>{\"name\": \"now\"", "  ", "a < b, <tool", "<tool_call>[1, 2]</tool_call>", "\n indented\n", "so <think> is a tag",
        "<tool_call>{\"name\": \"\"}</tool_call>", "</tool_call>",
        "<tool_call>{\"name\": \"no\\nname\"}</tool_call>", "<tool_call><tool_call><tool_call>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) answer_is(CHAT_hermes, "", texts[i], texts[i]);
    answer_is(CHAT_hermes, "", "<think>a <tool_call>\n" WEATHER "</tool_call></think>b", "[a <tool_call>\n" WEATHER "</tool_call>]b");
    answer_is(CHAT_hermes, "<think>\n", "a\n</think>\n\nb <think>c", "[a\n]b <think>c");
    answer_is(CHAT_hermes, "<think>\n\n</think>\n\n", "a", "a");
    answer_is(CHAT_hermes, "", "</think>\n\na </think>", "a </think>");
    answer_is(CHAT_hermes, "", "<think>never closed", "[never closed]");
    answer_is(CHAT_plain, "", "<think>a</think><tool_call>" WEATHER, "[a]<tool_call>" WEATHER);
    answer_is(CHAT_qwen3_coder, "", "The tag <function=f> is", "The tag <function=f> is");
    answer_is(CHAT_qwen3_coder, "", "<tool_call>\n<function=now>\n<parameter=a>\nnever closed",
              "<tool_call>\n<function=now>\n<parameter=a>\nnever closed");
    answer_is(CHAT_llama_3, "", "{\"a\": 1}", "{\"a\": 1}");
    answer_is(CHAT_llama_3, "", "{\"name\": \"Lund\", \"parameters\": {}}", "{\"name\": \"Lund\", \"parameters\": {}}");
    answer_is(CHAT_llama_3, "", "See {\"name\": \"now\", \"parameters\": {}}", "See {\"name\": \"now\", \"parameters\": {}}");
    answer_is(CHAT_harmony, "<|start|>assistant", "No header, to=day", "No header, to=day");
    answer_is(CHAT_functionary_3_2, ">>>", "Hello there\nall", "Hello there\nall");
    answer_is(CHAT_functionary_3_2, ">>>", "all\na >> b\nc", "a >> b\nc");
    answer_is(CHAT_lfm2, "", "<|tool_call_start|>[f(1)]<|tool_call_end|>", "<|tool_call_start|>[f(1)]<|tool_call_end|>");
    answer_is(CHAT_gemma_4, "", "call:now{} <|tool_call>call:now{a}<tool_call|>", "call:now{} <|tool_call>call:now{a}<tool_call|>");
    answer_is(CHAT_granite_3, "", "<think>a</think><response>b</response>", "[a]b");
    answer_is(CHAT_apriel, "", "Here are my reasoning steps:\na\n[BEGIN FINAL RESPONSE]\nb", "[a\n]b");
    answer_is(CHAT_muse, "<|start|>assistant", " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>to=self<|eot|>",
              "[a]to=self");
    struct told *t = read_with(CHAT_hermes, NULL, "", "<tool_call>" WEATHER "</tool_call>", strlen("<tool_call>" WEATHER "</tool_call>"),
        1, ANSWER_ROOM);
    assert_string_equal(t->content, "<tool_call>" WEATHER "</tool_call>");
}

/* Mistakes of models. */
static void sloppy(void **state)
{
    (void)state;
    answer_is(CHAT_hermes, "", "<tool_call>\n" WEATHER "\n", CALLED);
    answer_is(CHAT_hermes, "", "<tool_call>\n" WEATHER "\n</tool_call>\n\nThere.", "There." CALLED);
    answer_is(CHAT_hermes, "", "<tool_call>" WEATHER "</tool_call> {\"name\": 1}", "{\"name\": 1}" CALLED);
    answer_is(CHAT_hermes, "", "<tool_call>```json\n[" WEATHER ",\n" WEATHER "]\n```</tool_call>", CALLED CALLED);
    answer_is(CHAT_hermes, "", "<tool_call>[]</tool_call>", "");
    answer_is(CHAT_hermes, "", "<tool_call>{\"name\": \"now\"}</tool_call>", "now({})");
    answer_is(CHAT_hermes, "", "<tool_call>{\"name\": \"now\", \"parameters\": \"{\\\"a\\\": 1}\"}</tool_call>", "now({\"a\":1})");
    answer_is(CHAT_hermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": \"a\"}</tool_call>", "now(\"a\")");
    answer_is(CHAT_hermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"</tool_call>}\"}}</tool_call>",
              "now({\"a\":\"</tool_call>}\"})");
    answer_is(CHAT_qwen3_coder, "",
              "<tool_call>\n<function=get_weather>\n<parameter=location>\n2\n</parameter>\n<parameter=days>\n 2\n</parameter>\n"
              "</tool_call> \n",
              "get_weather({\"location\":\"2\",\"days\":2})");
    answer_is(CHAT_qwen3_coder, "", "<function=write_file><parameter=text>a</parameter>\n b\n\n</parameter></function>",
              "write_file({\"text\":\"a</parameter>\\n b\\n\"})");
    answer_is(CHAT_qwen3_coder, "",
              "<tool_call><function=find_files><parameter=hidden>True</parameter><parameter=filter>none</parameter>"
              "<parameter=x>[1]</parameter>",
              "find_files({\"hidden\":true,\"filter\":\"none\",\"x\":[1]})");
    answer_is(CHAT_qwen3_coder, "", "<tool_call>" WEATHER "</tool_call>", CALLED);
    answer_is(CHAT_glm, "", "<tool_call>now</tool_call>a<tool_call>now\n<arg_key>a b</arg_key><arg_value></arg_value></tool_call>",
              "anow({})now({\"a b\":\"\"})");
    answer_is(CHAT_minicpm_5, "", "<function name=\"write_file\"><param name=\"text\"><![CDATA[</param></function>]]></param></function>",
              "write_file({\"text\":\"</param></function>\"})");
    answer_is(CHAT_deepseek_v4, "", "<｜DSML｜invoke name=\"f\">\n"
              "<｜DSML｜parameter name=\"a\" string=\"true\">1</｜DSML｜parameter>\n"
              "<｜DSML｜parameter name=\"b\" string=\"false\">\"1\"</｜DSML｜parameter></｜DSML｜invoke>",
              "f({\"a\":\"1\",\"b\":\"1\"})");
    answer_is(CHAT_kimi_k3, "",
              "<|open|>call tool=\"now\" index=\"1\"<|sep|><|open|>json type=\"object\"<|sep|>{\"a\": 1}<|close|>json<|sep|>"
              "<|close|>call<|sep|>", "now({\"a\":1})");
    answer_is(CHAT_minimax_m3, "",
              "]<]minimax[>[<invoke name=\"find_files\">]<]minimax[>[<filter>\n]<]minimax[>[<suffix>]<]minimax[>[</suffix>\n"
              "]<]minimax[>[</filter>]<]minimax[>[</invoke>",
              "find_files({\"filter\":{\"suffix\":[]}})");
    answer_is(CHAT_minimax_m3, "", "]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>{\"b\": [1]}]<]minimax[>[</a>]<]minimax[>[</invoke>",
              "f({\"a\":{\"b\":[1]}})");
    answer_is(CHAT_llama_3, "", " \n{\"type\": \"function\", \"name\": \"now\", \"parameters\": null}\n", "now({})");
    answer_is(CHAT_llama_3, "", "<|python_tag|>print(\"a\")\nb(2)", "python({\"code\":\"print(\\\"a\\\")\\nb(2)\"})");
    answer_is(CHAT_llama_3, "", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "now({})");
    answer_is(CHAT_functionary_3_1, "", "Code:<|python_tag|>1 + 1", "Code:python({\"code\":\"1 + 1\"})");
    answer_is(CHAT_functionary_3_2, ">>>", "now\n{}>>>all\nb", "bnow({})");
    answer_is(CHAT_harmony, "<|start|>assistant", "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
              "python({\"code\":\"print(1)\"})");
    answer_is(CHAT_harmony, "<|start|>assistant<|channel|>final<|message|>", "a<|return|>", "a");
    answer_is(CHAT_harmony, "<|start|>assistant", "<|channel|>commentary to=functions.now<|message|>", "now({})");
    answer_is(CHAT_harmony, "<|start|>assistant", "<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "[a]b");
    answer_is(CHAT_lfm2, "", "<|tool_call_start|>a.b(x='it\\'s \\x41', y=[None, -1.5, (True,)], z={'k': false}), now()<|tool_call_end|> ok",
              "oka.b({\"x\":\"it's \\u0041\",\"y\":[null,-1.5,[true]],\"z\":{\"k\":false}})now({})");
    answer_is(CHAT_lfm2, "", "<|tool_call_start|>[" WEATHER "]<|tool_call_end|>", CALLED);
    answer_is(CHAT_gemma_4, "", "<|tool_call>call:f{a:<|\"|>}{<|\"|>, b : { <|\"|>c d<|\"|> : [1e3,true,null,word] }}<tool_call|>b",
              "bf({\"a\":\"}{\",\"b\":{\"c d\":[1e3,true,null,\"word\"]}})");
    answer_is(CHAT_mistral_args, "", "[TOOL_CALLS][" WEATHER "]", CALLED);
    answer_is(CHAT_mistral_args, "", "[TOOL_CALLS]now[ARGS][TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]now[ARGS]now({})");
    answer_is(CHAT_kimi_k2, "",
              "<|tool_call_begin|>functions.now:12<|tool_call_argument_begin|> {} <|tool_call_end|> <|tool_calls_section_end|>",
              "now({})#functions.now:12");
    answer_is(CHAT_deepseek_r1, "",
              "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```\n<｜tool▁call▁end｜>\nand",
              "andnow({})");
    answer_is(CHAT_command_r7b, "<|START_THINKING|>", "a<|END_THINKING|>b<|START_ACTION|>[{\"tool_name\": \"now\", \"tool_call_id\": 3}]",
              "[a]bnow({})#3");
    answer_is(CHAT_apertus, "", "<|tools_prefix|>[{\"now\": {}, \"f\": {\"a\": 1}}]<|tools_suffix|>", "now({})f({\"a\":1})");
}

/* Text without marks is reported at once, except a beginning of a possible mark. */
static void at_once(void **state)
{
    (void)state;
    enum { LONGEST = 40 };                                   /* a mark */
    static const char text[] = "It is 9 degrees in Lund, so take a coat. An umbrella, too: a < b [see there] and no more than that.";
    uint8_t *block = malloc(ANSWER_ROOM);
    struct told *t = malloc(sizeof *t);
    for (uint32_t id = 0; id < CHAT_N_FAMILIES; id++) {
        struct answer a;
        *t = (struct told){ .n_content = 0 };
        answer_begin(&a, &(struct answer_options){ .family = chat_family(id), .tools = tools, .prompt = "", .tell = collect, .context = t,
            .room = block,
                                                   .room_bytes = ANSWER_ROOM });
        for (size_t i = 0; i < sizeof text - 1; i++) {
            answer_feed(&a, text + i, 1);
            if (t->n_content + LONGEST < i + 1) fail_msg("%s: %zu of %zu bytes", chat_family(id)->name, t->n_content, i + 1);
        }
        assert_true(t->n_content == sizeof text - 1 && memcmp(t->content, text, sizeof text - 1) == 0);
        answer_end(&a);
    }
    free(t);
    free(block);
}

/* A call that a limit of tokens cuts off is a call, with the beginning of its arguments; text without the name of a tool stays text. */
static void cut(void **state)
{
    (void)state;
    static const struct { enum chat_family_id id; const char *raw, *wanted; } texts[] = {
        { CHAT_hermes, "So\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Lu",
          "So\nget_weather({\"location\": \"Lu)" },
        { CHAT_hermes, "<tool_call>\n{\"name\": \"get_weather\", \"argu", "get_weather()" },
        { CHAT_hermes, "<tool_call>\n{\"name\": \"get_wea", "<tool_call>\n{\"name\": \"get_wea" },
        { CHAT_hermes, "<tool_call>\n{\"name\": \"fly\", \"arguments\": {", "<tool_call>\n{\"name\": \"fly\", \"arguments\": {" },
        { CHAT_hermes, "<tool_call>" WEATHER "</tool_call>\n<tool_call>{\"name\": \"now\", \"arguments\": {\"a",
          "get_weather({\"location\":\"Lund\"})now({\"a)" },
        { CHAT_mistral_nemo, "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {\"a\": [1, ", "now({\"a\": [1, )" },
        { CHAT_command_r7b, "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {\"a\"",
          "now({\"a\")#0" },
        { CHAT_apertus, "<|tools_prefix|>[{\"now\": {\"a\": 1, ", "now({\"a\": 1, )" },
        { CHAT_llama_3, "{\"name\": \"now\", \"parameters\": {\"a\": tr", "now({\"a\": tr)" },
        { CHAT_llama_3, "{\"name\": \"Bob\", \"parameters\": {\"a\": tr", "{\"name\": \"Bob\", \"parameters\": {\"a\": tr" },
        { CHAT_mistral_args, "[TOOL_CALLS]now[ARGS]{\"a\": \"x", "now({\"a\": \"x)" },
        { CHAT_mistral_args, "[TOOL_CALLS]now[ARGS]", "now()" },
        { CHAT_kimi_k2, "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{\"a\"",
          "now({\"a\")#functions.now:0" },
        { CHAT_harmony, "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{\"a\": 1", "now({\"a\": 1)" },
        { CHAT_qwen3_coder, "<tool_call>\n<function=get_weather>\n<parameter=location>\nLund\n</parameter>\n<parameter=x>\n1",
          "get_weather({\"location\":\"Lund\")" },
        { CHAT_qwen3_coder, "<tool_call>\n<function=now>\n", "now({)" },
        { CHAT_glm, "<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>Lund</arg_value>\n",
          "get_weather({\"location\":\"Lund\")" },
        { CHAT_minimax_m3, "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"now\">]<]minimax[>[<a>1", "now({)" },
        { CHAT_lfm2, "<|tool_call_start|>[now(a=1, b=\"", "now({)" },
        { CHAT_gemma_4, "<|tool_call>call:now{a:1, b:<|\"|>x", "now({)" },
    };
    cut_off = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int pieces = PIECES; pieces <= 1; pieces++) {
            const char *line = line_of(read_with(texts[i].id, tools, "", texts[i].raw, strlen(texts[i].raw), pieces, ANSWER_ROOM));
            if (strcmp(line, texts[i].wanted)) fail_msg("%s: %s, not %s", texts[i].raw, line, texts[i].wanted);
        }
    cut_off = false;
}

/* A call that is too long for the room is reported completely as text; the next call is a call again. */
static void rooms(void **state)
{
    (void)state;
    static char raw[1 << 16];
    for (size_t n = 100; n < 40000; n = n * 3 / 2) {
        const int head = snprintf(raw, sizeof raw, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"");
        memset(raw + head, 'x', n);
        snprintf(raw + (size_t)head + n, sizeof raw - (size_t)head - n, "\"}}</tool_call>");
        const size_t n_raw = strlen(raw);
        snprintf(raw + n_raw, sizeof raw - n_raw, "\n<tool_call>" WEATHER "</tool_call>");
        for (size_t room = ANSWER_ROOM_LEAST; room <= ANSWER_ROOM; room *= 2) {
            const bool fits = n_raw < room / 4;
            const struct told *t = read_with(CHAT_hermes, tools, "", raw, strlen(raw), PIECES, room);
            if (fits && n + 64 < room / 4) assert_true(t->n_calls == 2 && t->n_content == 0 && strlen(t->calls[0].arguments) == n + 8);
            if (!fits && n > room / 4) assert_true(t->n_calls == 1 && t->n_content == n_raw + 1 && memcmp(t->content, raw, n_raw) == 0);
            assert_string_equal(t->calls[t->n_calls - 1].arguments, "{\"location\":\"Lund\"}");
        }
    }
}

/* Random text from pieces of the examples: the events have the same text however it is cut. */
static void cuttings(void **state)
{
    (void)state;
    static char raw[1 << 14], whole[4 * TEXT];
    for (int round = 0; round < 2000; round++) {
        const uint32_t used = seed;
        const cJSON *family = cJSON_GetArrayItem(cJSON_GetObjectItem(data, "families"), (int)draw(sizeof names / sizeof *names));
        const cJSON *list = cJSON_GetObjectItem(family, "examples");
        size_t n = 0;
        for (uint32_t i = 0, parts = 1 + draw(4); i < parts; i++) {
            const char *from = text_of(cJSON_GetArrayItem(list, (int)draw((uint32_t)cJSON_GetArraySize(list))), "raw");
            const size_t most = strlen(from), at = draw(2) ? 0 : draw((uint32_t)most),
                some = draw(2) ? most - at : draw((uint32_t)(most - at) + 1);
            memcpy(raw + n, from + at, some);
            n += some;
        }
        const enum chat_family_id id = family_of(text_of(family, "family"));
        for (int way = 0; way < 3; way++) {
            const struct told *t = read_with(id, tools, "", raw, n, way == 0 ? WHOLE : way == 1 ? 1 : PIECES, ANSWER_ROOM);
            if (way == 0) strcpy(whole, line_of(t));
            else if (strcmp(whole, line_of(t)))
                fail_msg("%s, seed %u: %.*s\n whole %s\n cut   %s", chat_family(id)->name, used, (int)n, raw, whole, line_of(t));
        }
    }
}

/* Templates must select the families of the data; templates without data select the families of this table. */
static void templates(void **state)
{
    (void)state;
    static const struct { const char *template; enum chat_family_id id; } others[] = {
        { "Bielik-11B-v3.0-Instruct", CHAT_hermes }, { "GLM-5.2", CHAT_glm }, { "MiroThinker", CHAT_hermes },
        { "google-gemma-2-2b-it", CHAT_plain },
        { "microsoft-Phi-3.5-mini-instruct", CHAT_plain }, { "phi-3-vocab", CHAT_plain }, { "poolside-Laguna-XS-2.1", CHAT_glm },
        { "stepfun-ai-Step-3.5-Flash", CHAT_qwen3_coder }, { "tencent-Hy3", CHAT_hunyuan_3 },
    };
    static char text[1 << 17], path[1024];
    const size_t n_others = sizeof others / sizeof *others;
    size_t n_read = 0;
    for (size_t i = 0; i < n_others + sizeof names / sizeof *names; i++) {
        const cJSON *family = i < n_others ? NULL : cJSON_GetArrayItem(cJSON_GetObjectItem(data, "families"), (int)(i - n_others));
        const cJSON *also = cJSON_GetObjectItem(family, "also");
        for (int k = -1; k < cJSON_GetArraySize(also); k++) {
            const char *name = !family ? others[i].template : k < 0 ? text_of(family, "template")
                             : cJSON_GetStringValue(cJSON_GetArrayItem(also, k));
            const enum chat_family_id wanted = family ? family_of(text_of(family, "family")) : others[i].id;
            snprintf(path, sizeof path, FORGEC_UNPACKED "/chat/templates/%s.jinja", name);
            FILE *f = fopen(path, "rb");
            if (!f) continue;                                /* some families have no template here */
            const size_t n = fread(text, 1, sizeof text, f);
            fclose(f);
            n_read++;
            const enum chat_family_id id = chat_family_of(text, n);
            if (id != wanted) fail_msg("%s: %s", name, chat_family(id)->name);
        }
    }
    assert_true(n_read >= 52);
    assert_true(chat_family_of("", 0) == CHAT_plain);
    assert_true(chat_family_of("<think>", 7) == CHAT_plain && chat_family_of("[THINK]", 7) == CHAT_plain_brackets);
}

int main(void)
{
    seed = (uint32_t)time(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples), cmocka_unit_test(pieces), cmocka_unit_test(prefills), cmocka_unit_test(no_calls),
        cmocka_unit_test(sloppy), cmocka_unit_test(at_once),
            cmocka_unit_test(rooms), cmocka_unit_test(cut),
        cmocka_unit_test(cuttings), cmocka_unit_test(templates),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
