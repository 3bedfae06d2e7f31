/* test_calls.c -- PROGRAM --serve with a chat template: calls that the model begins by itself (tool_choice auto), and arguments in streams.
 * test_calls PROGRAM, built with tests/server/chat.jinja, whose calls stand in <tool_call>.  A prefill, or a bias, begins the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fixture.h"

static struct reply last;
static int bracket, brace, less;            /* the tokens >, { and < */

#define CHATS "/v1/chat/completions"
#define NUMBER "{\"type\":\"integer\",\"minimum\":0,\"maximum\":99}"
#define NUMBERS "\"type\":\"object\",\"properties\":{\"a\":" NUMBER ",\"b\":" NUMBER "},\"required\":[\"a\",\"b\"]," \
    "\"additionalProperties\":false"
#define FUNCTION(more) "{\"type\":\"function\",\"function\":{\"name\":\"add\"," more "}}"
#define ADD FUNCTION("\"parameters\":{" NUMBERS "}")
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}]"
#define SAY(prefill) "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"},{\"role\":\"assistant\",\"content\":\"" prefill "\"}]"

static cJSON *asked(const char *path, const char *body, int status)
{
    reply_free(&last);
    last = post(server.port, path, body);
    if (last.status != status) fail_msg("%s %s: %d %s", path, body, last.status, last.body ? last.body : "no answer");
    cJSON *v = cJSON_Parse(last.body);
    if (!v) fail_msg("no JSON: %s", last.body);
    return v;
}

static int start(void **state)
{
    (void)state;
    if (fixture_start((const char *const[]){ "--slots", "3", "-s", "1", "--temp", "0", NULL })) return 1;
    static int *const tokens[] = { &bracket, &brace, &less };
    static const char *const bodies[] = { "{\"content\":\">\"}", "{\"content\":\"{\"}", "{\"content\":\"<\"}" };
    for (size_t i = 0; i < 3; i++) {
        cJSON *v = asked("/tokenize", bodies[i], 200);
        *tokens[i] = in(v, "tokens.0")->valueint;
        cJSON_Delete(v);
    }
    return 0;
}

static bool is_sum(const char *text)
{
    cJSON *v = cJSON_Parse(text);
    const cJSON *a = in(v, "a"), *b = in(v, "b");
    const bool is = cJSON_IsNumber(a) && cJSON_IsNumber(b) && a->valueint >= 0 && a->valueint <= 99 && b->valueint <= 99 &&
                    cJSON_GetArraySize(v) == 2;
    cJSON_Delete(v);
    return is;
}

/* The model begins a call within its text: the call is held to the schema, and the text after it is free.  With one call alone the answer
 * ends after it. */
static void begun_in_text(void **state)
{
    (void)state;
    for (int parallel = 0; parallel < 2; parallel++) {
        char body[1024];
        snprintf(body, sizeof body, "{" SAY("So <tool_call") ",\"max_tokens\":70,\"parallel_tool_calls\":%s,\"logit_bias\":{\"%d\":100},"
                 "\"tools\":[" ADD "]}", parallel ? "true" : "false", bracket);
        cJSON *v = asked(CHATS, body, 200);
        const cJSON *content = in(v, "choices.0.message.content"), *calls = in(v, "choices.0.message.tool_calls");
        if (cJSON_GetArraySize(calls) != 1 || !is_sum(in(calls, "0.function.arguments")->valuestring)) fail_msg("%s", last.body);
        assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, parallel ? "length" : "tool_calls");
        assert_true(parallel ? strspn(content->valuestring, ">") == strlen(content->valuestring) : cJSON_IsNull(content));
        cJSON_Delete(v);
    }
    cJSON *v = asked(CHATS, "{" SAY("Say `<tool_call>") ",\"max_tokens\":8,\"tools\":[" ADD "]}", 200);      /* a quote is no call */
    assert_true(!in(v, "choices.0.message.tool_calls"));
    cJSON_Delete(v);
}

/* Each API; the prefill is part of the call, wherever it ends. */
static void begun_before(void **state)
{
    (void)state;
    static const char *const prefills[] = {
        "<tool_call>", "<tool_call>\\n", "<tool_call>{\\\"name\\\": \\\"a",
        "<tool_call>\\n{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {\\\"a\\\": 4",
    };
    char body[2048];
    for (size_t i = 0; i < sizeof prefills / sizeof *prefills; i++) {
        snprintf(body, sizeof body, "{" SAY("%s") ",\"max_tokens\":60,\"n\":2,\"tools\":[" ADD "]}", prefills[i]);
        cJSON *v = asked(CHATS, body, 200);
        for (int k = 0; k < 2; k++) {
            const cJSON *call = in(v, k ? "choices.1.message.tool_calls.0.function" : "choices.0.message.tool_calls.0.function");
            if (!call || !is_sum(in(call, "arguments")->valuestring)) fail_msg("%s: %s", body, last.body);
        }
        cJSON_Delete(v);
        snprintf(body, sizeof body, "{" SAY("%s") ",\"max_tokens\":60,\"tools\":[{\"name\":\"add\",\"input_schema\":{" NUMBERS "}}],"
                 "\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}}", prefills[i]);
        v = asked("/v1/messages", body, 200);
        if (!cJSON_IsNumber(in(v, "content.0.input.b"))) fail_msg("%s: %s", body, last.body);
        assert_string_equal(in(v, "stop_reason")->valuestring, "tool_use");
        cJSON_Delete(v);
    }
}

/* With tools and a form for the answer, the model chooses between a call and an answer of that form. */
static void or_answer(void **state)
{
#define FOX "{\"type\":\"object\",\"properties\":{\"fox\":" NUMBER "},\"required\":[\"fox\"],\"additionalProperties\":false}"
    static const struct { const char *path, *body, *call, *answer; } asks[] = {
        { CHATS, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"f\",\"strict\":true,\"schema\":" FOX "}},"
          "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tools\":[" ADD "]",
          "choices.0.message.tool_calls.0.function.arguments", "choices.0.message.content" },
        { "/v1/responses", "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"f\",\"schema\":" FOX "}},\"input\":\"Tell\","
          "\"tools\":[{\"type\":\"function\",\"name\":\"add\",\"parameters\":{" NUMBERS "}}]",
          "output.0.arguments", "output.0.content.0.text" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        for (int call = 0; call < 2; call++) {
            char body[2048];
            snprintf(body, sizeof body, "{%s,\"max_tokens\":70,\"parallel_tool_calls\":false,\"logit_bias\":{\"%d\":100}}", asks[i].body,
                     call ? less : brace);
            cJSON *v = asked(asks[i].path, body, 200);
            const cJSON *text = in(v, call ? asks[i].call : asks[i].answer);
            cJSON *answer = text ? cJSON_Parse(text->valuestring) : NULL;
            if (!text || !(call ? is_sum(text->valuestring) : cJSON_IsNumber(in(answer, "fox")))) fail_msg("%s: %s", body, last.body);
            cJSON_Delete(answer);
            cJSON_Delete(v);
        }
    cJSON *v = asked(CHATS, "{" HELLO ",\"tools\":[" ADD "],\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":true,"
                            "\"schema\":{\"type\":\"array\",\"uniqueItems\":true}}}}", 400);
    assert_true(strncmp(in(v, "error.message")->valuestring, "response_format: ", 17) == 0);
    cJSON_Delete(v);
}

/* As for calls that must be: a warning for what cannot be enforced, and a refusal if the tool is strict.  A schema that cannot be read at
 * all, or a tool of /v1/responses that does not say that it is strict, does not fail the request. */
static void strictness(void **state)
{
#define SET "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}"
#define LOST "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/none\"}},\"required\":[\"a\"]}"
#define INPUT "\"input\":\"Tell\",\"max_output_tokens\":3,\"tools\":[{\"type\":\"function\",\"name\":\"add\","
#define HI SAY("Hi") ",\"max_tokens\":3,\"tools\":["
    static const struct { const char *path, *body, *says; bool taken; } asks[] = {
        { CHATS, "{" HI FUNCTION(SET) "]}", "'uniqueItems' is a keyword that is not enforced", true },
        { CHATS, "{" HI FUNCTION(SET ",\"strict\":true") "]}", "'uniqueItems' is a keyword that is not enforced", false },
        { CHATS, "{" HI FUNCTION(LOST) "]}", "the parameters of the tool 'add' are not enforced: ", true },
        { CHATS, "{" HI FUNCTION(LOST ",\"strict\":true") "]}", "the parameters of the tool 'add': ", false },
        { "/v1/responses", "{" INPUT SET "}]}", "'uniqueItems' is a keyword that is not enforced", true },
        { "/v1/responses", "{" INPUT SET ",\"strict\":true}]}", "'uniqueItems' is a keyword that is not enforced", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        cJSON *v = asked(asks[i].path, asks[i].body, asks[i].taken ? 200 : 400);
        const cJSON *told = in(v, asks[i].taken ? "warnings.0" : "error.message");
        if (!told || !strstr(told->valuestring, asks[i].says)) fail_msg("%s: %s", asks[i].body, last.body);
        cJSON_Delete(v);
    }
}

/* The values of these members in the events of a stream, joined; *n: their number. */
static char *joined(const char *body, const char *path, int *n)
{
    char *text = calloc(1, strlen(body) + 1);
    *n = 0;
    for (const char *line = strstr(body, "data: {"); line; line = strstr(line + 1, "data: {")) {
        cJSON *v = cJSON_Parse(line + strlen("data: "));
        const cJSON *part = in(v, path);
        if (cJSON_IsString(part) && *part->valuestring) { strcat(text, part->valuestring); ++*n; }
        cJSON_Delete(v);
    }
    return text;
}

/* Streams carry the arguments while they are made, and the same as an answer without stream. */
static void streams(void **state)
{
#define TEXT "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":200,\"maxLength\":260}},\"required\":[\"a\"]"
#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"max_tokens\":%d,"
#define TOOL "{\"name\":\"add\",\"input_schema\":{" TEXT "}}"
    static const struct { const char *path, *body, *whole, *delta; } asks[] = {
        { CHATS, ASK "\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"tools\":[" FUNCTION("\"parameters\":{" TEXT "}") "]",
          "choices.0.message.tool_calls.0.function.arguments", "choices.0.delta.tool_calls.0.function.arguments" },
        { CHATS, ASK "\"function_call\":{\"name\":\"add\"},\"functions\":[{\"name\":\"add\",\"parameters\":{" TEXT "}}]",
          "choices.0.message.function_call.arguments", "choices.0.delta.function_call.arguments" },
        { "/v1/responses", "\"input\":\"Tell\",\"max_output_tokens\":%d,\"tool_choice\":\"required\",\"parallel_tool_calls\":false,"
          "\"tools\":[{\"type\":\"function\",\"name\":\"add\",\"parameters\":{" TEXT "}}]", "output.0.arguments", "delta" },
        { "/v1/messages", ASK "\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true},\"tools\":[" TOOL "]", NULL,
          "delta.partial_json" },
    };
    static const int most[] = { 300, 60 };                   /* 60: the call is cut off */
    char body[2048];
    int n, most_pieces = 0;
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        char *first = NULL;                                  /* the same model writes the same call for each API */
        for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
            const int used = snprintf(body, sizeof body, "{\"stream\":false,");
            snprintf(body + used, sizeof body - (size_t)used, asks[i].body, most[k]);
            strcat(body, "}");
            cJSON *v = asked(asks[i].path, body, 200);
            const char *text = asks[i].whole ? in(v, asks[i].whole)->valuestring : first;
            if (!first) first = strdup(text);
            memcpy(strstr(body, "false,"), "true, ", 6);
            reply_free(&last);
            last = post(server.port, asks[i].path, body);
            char *streamed = joined(last.body, asks[i].delta, &n);
            if (last.status != 200 || strcmp(streamed, text) || strcmp(first, text)) fail_msg("%s\n%s\n%s", body, text, last.body);
            if (n > most_pieces) most_pieces = n;            /* a busy machine may join pieces */
            cJSON *whole = cJSON_Parse(streamed);
            assert_true((k == 0) == (whole != NULL));
            cJSON_Delete(whole);
            cJSON_Delete(v);
            free(streamed);
        }
        free(first);
    }
    assert_true(most_pieces > 2);
}

/* A text that ends the answer within a call leaves a call that is not complete: the reason does not say that it may be run. */
static void stopped(void **state)
{
    (void)state;
    cJSON *v = asked(CHATS, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tool_choice\":\"required\","
                            "\"stop\":[\"\\\"b\\\"\"],\"tools\":[" ADD "]}", 200);
    assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "stop");
    assert_true(strncmp(in(v, "choices.0.message.tool_calls.0.function.arguments")->valuestring, "{\"a\":", 5) == 0);
    cJSON_Delete(v);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(begun_in_text), cmocka_unit_test(begun_before), cmocka_unit_test(or_answer),
                                        cmocka_unit_test(strictness),
                                        cmocka_unit_test(streams), cmocka_unit_test(stopped) };
    if (argc != 2) { fprintf(stderr, "usage: test_calls PROGRAM\n"); return 2; }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    const int failed = cmocka_run_group_tests(tests, start, fixture_stop);
    reply_free(&last);
    return failed;
}
