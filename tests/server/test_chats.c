/* test_chats.c -- PROGRAM --serve with a chat template: OpenAI's chats.
 * test_chats PROGRAM, built with tests/server/chat.jinja */
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
#include <time.h>
#include "fixture.h"

static struct reply last;

#define CHATS "/v1/chat/completions"
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}}]"

static int start(void **state)
{
    (void)state;
    return fixture_start((const char *const[]){ "--slots", "3", "-s", "1", "--temp", "0", NULL });
}

static cJSON *asked(const char *path, const char *body, int status)
{
    reply_free(&last);
    last = post(server.port, path, body);
    if (last.status != status) fail_msg("%s %s: %d %s", path, body, last.status, last.body ? last.body : "no answer");
    cJSON *v = cJSON_Parse(last.body);
    if (!v) fail_msg("no JSON: %s", last.body);
    return v;
}

static void prompt_is(const char *body, const char *wanted)
{
    cJSON *v = asked("/apply-template", body, 200);
    assert_string_equal(in(v, "prompt")->valuestring, wanted);
    cJSON_Delete(v);
}

/* The template's input: contents as one text, arguments as objects, tools or no tools, variables of the request. */
static void prompts(void **state)
{
    (void)state;
    prompt_is("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "<user>hi\n<assistant>");
    prompt_is(
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"be\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]}]}",
        "<system>be\n<user>a\nb\n<assistant>");
    prompt_is(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
        "\"type\":"
        "\"function\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\": [1, 2]}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\","
        "\"content\":\"3\"}]," TOOLS "}",
        "[add <tool_call>]<user>x\n<assistant>{\"add\": {\"a\": [1, 2]}}\n<tool>3\n<assistant>");
    prompt_is("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"none\"," TOOLS "}", "<user>x\n<assistant>");
    prompt_is(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":{\"opening\":\"So\",\"add_generation_prompt\":1}}",
        "<user>x\n<assistant>So");
    prompt_is("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"Once upon\"}]}",
              "<user>x\n<assistant>Once upon");
    enum { LONGER = 60000 };                                 /* than the context: a prompt is made all the same */
    static char body[LONGER + 100], wanted[LONGER + 100];
    char *at = body + sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\""), *to = wanted + sprintf(wanted, "<user>");
    for (int i = 0; i < LONGER / 4; i++) { at += sprintf(at, "fox "); to += sprintf(to, "fox "); }
    strcpy(at, "x\"}]}");
    strcpy(to, "x\n<assistant>");
    prompt_is(body, wanted);
}

static void answers(void **state)
{
    (void)state;
    cJSON *v = asked(
        CHATS, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"max_tokens\":12,\"logprobs\":true,\"top_logprobs\":2,\"n\":2}",
        200);
    assert_string_equal(in(v, "object")->valuestring, "chat.completion");
    assert_string_equal(in(v, "choices.0.message.role")->valuestring, "assistant");
    assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "length");
    assert_int_equal(in(v, "usage.completion_tokens")->valueint, 24);
    assert_int_equal(cJSON_GetArraySize(in(v, "choices.1.logprobs.content")), 12);
    assert_int_equal(cJSON_GetArraySize(in(v, "choices.1.logprobs.content.3.top_logprobs")), 2);
    char *text = strdup(in(v, "choices.0.message.content")->valuestring), joined[1024] = "";
    assert_string_equal(text, in(v, "choices.1.message.content")->valuestring);        /* greedy */
    cJSON_Delete(v);
    reply_free(&last);
    last       = post(server.port, CHATS,
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"max_tokens\":12,\"stream\":true,\"stream_options\":"
                            "{\"include_usage\":true}}");
    int events = 0, roles = 0, ends = 0, usages = 0;
    for (const char *line = last.body; (line = strstr(line, "data: {")); events++) {
        cJSON *e = cJSON_Parse(line += 6);
        assert_string_equal(in(e, "object")->valuestring, "chat.completion.chunk");
        if (in(e, "choices.0.delta.role")) { assert_int_equal(events, 0); roles++; }
        if (cJSON_IsString(in(e, "choices.0.delta.content"))) strcat(joined, in(e, "choices.0.delta.content")->valuestring);
        if (cJSON_IsString(in(e, "choices.0.finish_reason"))) ends++;
        if (in(e, "usage")) { usages++; assert_int_equal(cJSON_GetArraySize(in(e, "choices")), 0); }
        cJSON_Delete(e);
    }
    assert_true(roles == 1 && ends == 1 && usages == 1 && strstr(last.body, "data: [DONE]\n"));
    assert_string_equal(joined, text);
    free(text);
}

/* The second turn of a conversation reads only the new tokens. */
static void turns(void **state)
{
    (void)state;
    char body[2048];
    cJSON *v = asked(
        CHATS,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You tell long stories of kings and of their daughters.\"},{\"role\":\"user\","
        "\"content\":\"Tell me of the king\"}],\"max_tokens\":20}",
        200);
    char *answer = cJSON_PrintUnformatted(in(v, "choices.0.message.content"));
    const int first = in(v, "usage.prompt_tokens")->valueint;
    cJSON_Delete(v);
    snprintf(
        body, sizeof body,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You tell long stories of kings and of their daughters.\"},{\"role\":\"user\","
        "\"content\":\"Tell me of the king\"},{\"role\":\"assistant\",\"content\":%s},{\"role\":\"user\",\"content\":\"Go "
        "on\"}],\"max_tokens\":3}",
        answer);
    v = asked(CHATS, body, 200);
    const int cached = in(v, "usage.prompt_tokens_details.cached_tokens")->valueint;
    if (cached < first) fail_msg("%d of %d tokens had been read", cached, first);
    cJSON_Delete(v);
    free(answer);
}

/* Guided answers satisfy their schema even if the model's text is poor. */
static void guided(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"p\",\"schema\":{\"type\":\"object\",\"properties\":{"
        "\"name\":{"
        "\"type\":\"string\",\"maxLength\":8},\"kind\":{\"enum\":[\"king\",\"fox\"]}},\"required\":[\"name\",\"kind\"],"
        "\"additionalProperties\":false}}}",
        "\"json_schema\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,\"maxItems\":2}",
        "\"grammar\":\"root ::= \\\"\\\\\\\"\\\" (\\\"yes\\\" | \\\"no\\\") \\\"\\\\\\\"\\\"\"",
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char body[1024];
        for (int stream = 0; stream < 2; stream++) {
            snprintf(body, sizeof body,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"temperature\":1,\"seed\":%zu,\"stream\":%s,%s}", i + 1,
                     stream ? "true" : "false", formats[i]);
            reply_free(&last);
            last = post(server.port, CHATS, body);
            if (last.status != 200) fail_msg("%s: %d %s", body, last.status, last.body);
            char *text = stream ? stream_text(last.body, 0) : NULL;
            cJSON *v      = stream ? NULL : cJSON_Parse(last.body),
                  *answer = cJSON_Parse(stream ? text : in(v, "choices.0.message.content")->valuestring);
            if (!answer) fail_msg("no JSON: %s", last.body);
            if (!stream) assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "stop");
            if (i == 0) assert_true(cJSON_IsString(in(answer, "name")) && (strcmp(in(answer, "kind")->valuestring, "king") == 0 ||
                                                                          strcmp(in(answer, "kind")->valuestring, "fox") == 0));
            if (i == 1) assert_true(cJSON_GetArraySize(answer) == 2 && cJSON_IsBool(in(answer, "1")));
            if (i == 2) assert_true(cJSON_IsString(answer));
            cJSON_Delete(answer);
            cJSON_Delete(v);
            free(text);
        }
    }
}

#define TWO_TOOLS                                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{"         \
    "\"type\":"                                                                                                                            \
    "\"integer\",\"minimum\":0,\"maximum\":99}},\"required\":[\"a\"],\"additionalProperties\":false}}},{\"type\":\"function\","            \
    "\"function\":{\"name\":"                                                                                                              \
    "\"stop\",\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}}}]"

/* A required call: of any tool, or of a given tool. */
static void forced_calls(void **state)
{
    (void)state;
    cJSON *v = asked(
        CHATS,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tool_choice\":\"required\",\"parallel_tool_calls\":false," TWO_TOOLS
        "}",
        200);
    assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "tool_calls");
    assert_true(cJSON_IsNull(in(v, "choices.0.message.content")) && in(v, "choices.0.message.tool_calls.0.id"));
    cJSON_Delete(v);
    v = asked(CHATS,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
              "\"add\"}}," TWO_TOOLS "}",
              200);
    assert_string_equal(in(v, "choices.0.message.tool_calls.0.function.name")->valuestring, "add");
    cJSON *arguments = cJSON_Parse(in(v, "choices.0.message.tool_calls.0.function.arguments")->valuestring);
    assert_true(cJSON_IsNumber(in(arguments, "a")) && in(arguments, "a")->valueint <= 99 && cJSON_GetArraySize(arguments) == 1);
    assert_int_equal(cJSON_GetArraySize(in(v, "choices.0.message.tool_calls")), 1);      /* a function that is named is called once */
    cJSON_Delete(arguments);
    cJSON_Delete(v);
    reply_free(&last);
    last = post(server.port, CHATS,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tool_choice\":\"required\",\"stream\":true,\"parallel_tool_"
                "calls\":false," TWO_TOOLS "}");
    assert_true(last.status == 200 && strstr(last.body, "\"tool_calls\":[{\"index\":0,\"id\":\"call_") &&
                strstr(last.body, "\"finish_reason\":\"tool_calls\""));
}

/* Without "strict", what cannot be enforced of a schema is passed over with a warning; with it, it is refused.  Function tools of
 * /v1/responses are strict if they do not say otherwise. */
static void strictness(void **state)
{
#define SET(strict) "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"p\"," strict "\"schema\":{\"type\":\"" \
    "array\"," \
    "\"items\":{\"enum\":[1,2]},\"maxItems\":2,\"uniqueItems\":true}}}"
#define SET_CALL(strict) "\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"tools\":[{\"type\":\"function\",\"function\":" \
    "{" strict \
    "\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n" \
        "\"},\"maxItems\":2," \
    "\"uniqueItems\":true}},\"required\":[\"a\"],\"$defs\":{\"n\":{\"enum\":[1,2]}}}}}]"
#define SET_TOOL(strict) "\"input\":\"Tell\",\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"tools\":[{\"type\":\"funct" \
    "ion\"," strict \
    "\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"max" \
        "Items\":2," \
    "\"uniqueItems\":true}},\"required\":[\"a\"]}}]"
#define TELL "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}]"
    static const struct { const char *path, *body; bool taken; } asks[] = {
        { CHATS, "{" TELL "," SET("") "}", true }, { CHATS, "{" TELL "," SET("\"strict\":false,") "}", true },
        { CHATS, "{" TELL "," SET("\"strict\":true,") "}", false }, { CHATS, "{" TELL "," SET_CALL("") "}", true },
        { CHATS, "{" TELL "," SET_CALL("\"strict\":true,") "}", false }, { "/v1/responses", "{" SET_TOOL("") "}", false },
        { "/v1/responses", "{" SET_TOOL("\"strict\":false,") "}", true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        cJSON *v = asked(asks[i].path, asks[i].body, asks[i].taken ? 200 : 400);
        const char *told = in(v, asks[i].taken ? "warnings.0" : "error.message")->valuestring;
        if (!strstr(told, "'uniqueItems' is a keyword that is not enforced")) fail_msg("%s: %s", asks[i].body, told);
        if (asks[i].taken) assert_int_equal(cJSON_GetArraySize(in(v, "warnings")), 1);
        cJSON_Delete(v);
    }
    /* Arguments are an object, whatever the schema of a tool is. */
    static const char *const open[] = { "{}", "true", "{\"description\":\"nothing\"}", "null" };
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char body[512];
        snprintf(body, sizeof body, "{" TELL ",\"max_tokens\":60,\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"tools"
            "\":[{\"type\":"
                 "\"function\",\"function\":{\"name\":\"add\",\"parameters\":%s}}],\"temperature\":0,\"stop\":[\"{\\\"name\\\": \\\""
                     "add\\\", "
                 "\\\"arguments\\\": {\"]}", open[i]);
        cJSON *v = asked(CHATS, body, 200);                  /* the stop is the only way on */
        assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "stop");
        cJSON_Delete(v);
    }
}

/* A choice of very many texts or of objects that differ somewhere works.  A grammar that is too wide is refused: before the first token,
 * or when the text comes to the place. */
static void wide(void **state)
{
    static const struct { const char *item; int n, code; } some[] = {
        { "{\"type\":\"object\",\"properties\":{\"p%d\":{\"type\":\"integer\"}},\"required\":[\"p%d\"]}", 4000, 200 },
        { "{\"properties\":{\"a\":{\"type\":\"boolean\"},\"q%d\":{\"type\":\"integer\"}},\"required\":[\"a\",\"q%d\"]}", 4000, 200 },
        { "{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":%d}},\"required\":[\"a\"]}", 2000, 200 },
        { "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":1%03d}},\"required\":[\"a\"]}", 500, 400 },
    };
    enum { MANY = 10000 };
    char *body = malloc(MANY * 80), *at = body + sprintf(body, "{" TELL ",\"json_schema\":{\"enum\":[");
    (void)state;
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        char *objects = malloc(MANY * 80), *to = objects + sprintf(objects, "{" TELL ",\"max_tokens\":30,\"json_schema\":{\"anyOf\":[");
        for (int i = 0; i < some[k].n; i++) {
            if (i) *to++ = ',';
            to += sprintf(to, some[k].item, i, i);
        }
        sprintf(to, "]}}");
        cJSON_Delete(asked(CHATS, objects, some[k].code));
        free(objects);
    }
    for (int i = 0; i < MANY; i++) at += sprintf(at, "%s\"word %d\"", i ? "," : "", i);
    sprintf(at, "]}}");
    cJSON *v = asked(CHATS, body, 200);
    assert_non_null(strstr(in(v, "choices.0.message.content")->valuestring, "\"word "));
    cJSON_Delete(v);
    at = body + sprintf(body, "{" TELL ",\"json_schema\":{\"anyOf\":[");
    for (int i = 0; i < MANY / 2; i++) at += sprintf(at, "%s{\"properties\":{\"k\":{\"const\":%d}}}", i ? "," : "", i);
    sprintf(at, "]}}");
    v = asked(CHATS, body, 400);
    assert_non_null(strstr(in(v, "error.message")->valuestring, "2048 alternatives"));
    cJSON_Delete(v);
    free(body);
}

/* ---- the same by the other APIs ---- */

#define ADD \
    "\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"a\"],\"additionalProperties\":false}"
#define ONCE "\"messages\":[{\"role\":\"user\",\"content\":\"Once\"}]"

/* The model's answer to "Once" with the system message "be", through the chats API. */
static char *by_chats(void)
{
    cJSON *v = asked(CHATS, "{\"messages\":[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":\"Once\"}],"
                            "\"max_tokens\":9}", 200);
    char *text = strdup(in(v, "choices.0.message.content")->valuestring);
    cJSON_Delete(v);
    return text;
}

/* Names of a stream's events in order; equal consecutive names count once. */
static void events_are(const char *path, const char *body, const char *wanted)
{
    char names[2048] = "";
    reply_free(&last);
    last = post(server.port, path, body);
    for (const char *line = last.body; (line = strstr(line, "event: ")); ) {
        const size_t n = strcspn(line += 7, "\n");
        const char *before = strrchr(names, ' ');
        if (before && strlen(before + 1) == n && strncmp(before + 1, line, n) == 0) continue;
        snprintf(names + strlen(names), sizeof names - strlen(names), " %.*s", (int)n, line);
    }
    assert_string_equal(names, wanted);
}

static void messages(void **state)
{
    (void)state;
    static const char path[] = "/v1/messages";
#define CALL "\"tools\":[{\"name\":\"add\",\"input_schema\":{\"type\":\"object\"," ADD "}],\"max_tokens\":90,\"tool_choice\":{" \
    "\"type\":\"tool\",\"name\":\"add\",\"disable_parallel_tool_use\":true}}"
    char *text = by_chats(), stop[] = { text[strlen(text) / 2], 0 }, body[512];
    cJSON *v = asked(path, "{\"system\":\"be\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Once\"}]}],"
                           "\"max_tokens\":9}", 200);
    assert_string_equal(in(v, "content.0.text")->valuestring, text);
    assert_string_equal(in(v, "stop_reason")->valuestring, "max_tokens");
    assert_int_equal(in(v, "usage.output_tokens")->valueint, 9);
    cJSON_Delete(v);
    v = asked(path, "{\"system\":\"be\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\",\"source\":{\"type\":\"text\","
                    "\"media_type\":\"text/plain\",\"data\":\"Once\"}}]}],\"max_tokens\":9}", 200);
    assert_string_equal(in(v, "content.0.text")->valuestring, text);
    cJSON_Delete(v);
    v = asked("/v1/messages/count_tokens", "{" ONCE "}", 200);
    const int n_prompt = in(v, "input_tokens")->valueint;
    assert_true(n_prompt > 2);
    cJSON_Delete(v);
    v = asked("/v1/chat/completions/input_tokens", "{" ONCE "}", 200);
    assert_int_equal(in(v, "input_tokens")->valueint, n_prompt);
    assert_string_equal(in(v, "object")->valuestring, "response.input_tokens");
    cJSON_Delete(v);
    v = asked("/v1/responses/input_tokens", "{\"input\":\"Once\"}", 200);
    assert_true(in(v, "input_tokens")->valueint > 2);
    cJSON_Delete(v);
    cJSON *quoted = cJSON_CreateString(stop);
    char *printed = cJSON_PrintUnformatted(quoted);
    snprintf(body, sizeof body, "{\"system\":\"be\"," ONCE ",\"max_tokens\":9,\"stop_sequences\":[%s]}", printed);
    v = asked(path, body, 200);
    assert_string_equal(in(v, "stop_reason")->valuestring, "stop_sequence");
    assert_string_equal(in(v, "stop_sequence")->valuestring, stop);
    cJSON_Delete(v);
    cJSON_Delete(quoted);
    free(printed);
    free(text);
    v = asked(path, "{\"messages\":[{\"role\":\"user\",\"content\":\"Once\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\","
                    "\"id\":\"i\",\"name\":\"add\",\"input\":{\"a\":1}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                    "\"tool_use_id\":\"i\",\"content\":\"7\"}]}]," CALL, 200);
    assert_string_equal(in(v, "stop_reason")->valuestring, "tool_use");
    assert_true(cJSON_IsNumber(in(v, "content.0.input.a")) && strncmp(in(v, "content.0.id")->valuestring, "toolu_", 6) == 0);
    cJSON_Delete(v);
    events_are(path, "{\"stream\":true," ONCE "," CALL, " message_start content_block_start content_block_delta content_block_stop"
                                                        " message_delta message_stop");
    v = asked(path, "{" ONCE "}", 400);
    assert_string_equal(in(v, "type")->valuestring, "error");
    assert_string_equal(in(v, "error.type")->valuestring, "invalid_request_error");
    cJSON_Delete(v);
}

static void responses(void **state)
{
    (void)state;
    static const char path[] = "/v1/responses";
    char *text = by_chats();
    cJSON *v = asked(path, "{\"instructions\":\"be\",\"input\":\"Once\",\"max_output_tokens\":9}", 200);
    assert_string_equal(in(v, "status")->valuestring, "incomplete");
    assert_string_equal(in(v, "output.0.content.0.text")->valuestring, text);
    assert_int_equal(in(v, "usage.output_tokens")->valueint, 9);
    cJSON_Delete(v);
    free(text);
    v = asked(path, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Once\"}]},{\"type\":\"function_call\","
                    "\"call_id\":\"i\",\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"},{\"type\":\"function_call_output\",\"call_id\":"
                    "\"i\",\"output\":\"2\"}],\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"schema\":{\"enum\":["
                    "\"king\",\"fox\"]}}}}", 200);
    assert_string_equal(in(v, "status")->valuestring, "completed");
    const char *word = in(v, "output.0.content.0.text")->valuestring;
    assert_true(strcmp(word, "\"king\"") == 0 || strcmp(word, "\"fox\"") == 0);
    cJSON_Delete(v);
    events_are(path, "{\"stream\":true,\"input\":\"Once\",\"max_output_tokens\":5}",
               " response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta"
               " response.output_text.done response.content_part.done response.output_item.done response.incomplete");
    events_are(path, "{\"stream\":true,\"input\":\"Once\",\"parallel_tool_calls\":false,\"tool_choice\":\"required\",\"tools\":[{\"type\":"
                     "\"function\",\"name\":\"add\",\"parameters\":{\"type\":\"object\"," ADD "}]}",
               " response.created response.in_progress response.output_item.added response.function_call_arguments.delta"
               " response.function_call_arguments.done response.output_item.done response.completed");
    cJSON_Delete(asked(path, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", 400));
    cJSON_Delete(asked(path, "{\"input\":[{\"type\":\"image\"}]}", 400));
}

/* ---- what a request may contain ---- */

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}]"

/* A member that is unknown has no effect, and the answer says so, as a stream does in its first event. */
static void unknown_members(void **state)
{
    (void)state;
    static const struct { const char *path, *body; } plain[] = {
        { CHATS, HI ",\"max_tokens\":2" }, { "/v1/completions", "\"prompt\":\"Once\",\"max_tokens\":2" },
        { "/v1/responses", "\"input\":\"Once\",\"max_output_tokens\":2" }, { "/v1/messages", HI ",\"max_tokens\":2" },
    };
    char body[512];
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        for (int unknown = 0; unknown < 2; unknown++) {
            snprintf(body, sizeof body, "{%s,\"user\":\"u\"%s}", plain[i].body, unknown ? ",\"flavour\":1,\"temper\\u0061ture\":0" : "");
            cJSON *v = asked(plain[i].path, body, 200);
            assert_int_equal(cJSON_GetArraySize(in(v, "warnings")), unknown);
            if (unknown) assert_non_null(strstr(in(v, "warnings.0")->valuestring, "'flavour'"));
            cJSON_Delete(v);
        }
    reply_free(&last);
    last = post(server.port, CHATS, "{" HI ",\"max_tokens\":2,\"stream\":true,\"flavour\":1}");
    assert_true(strstr(last.body, "warnings") && strstr(last.body, "warnings") < strstr(last.body, "\n\n"));
}

/* Ollama's API: what describes the model, whole answers and streams of lines, options under its names, errors as a text. */
static void ollama(void **state)
{
    (void)state;
#define OLLAMA_CALL "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"," ADD "}}]," \
    "\"tool_choice\":\"required\"}"
    reply_free(&last);
    last = ask(server.port, "GET", "/api/tags", "", NULL);
    cJSON *v = cJSON_Parse(last.body);
    assert_string_equal(in(v, "models.0.details.family")->valuestring, "llama");
    assert_true(in(v, "models.0.size")->valueint > 0 && cJSON_IsString(in(v, "models.0.name")));
    cJSON_Delete(v);
    reply_free(&last);
    last = ask(server.port, "GET", "/api/ps", "", NULL);
    v = cJSON_Parse(last.body);
    assert_true(in(v, "models.0.context_length")->valueint > 0);
    cJSON_Delete(v);
    reply_free(&last);
    last = ask(server.port, "GET", "/api/version", "", NULL);
    assert_int_equal(strncmp(last.body, "{\"version\":\"", 12), 0);
    v = asked("/api/show", "{\"model\":\"any\"}", 200);
    assert_true(cJSON_IsNumber(cJSON_GetObjectItem(in(v, "model_info"), "llama.context_length")));
    assert_string_equal(in(v, "capabilities.1")->valuestring, "tools");
    cJSON_Delete(v);

    v = asked("/api/chat", "{\"model\":\"any\",\"stream\":false,\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],"
                           "\"options\":{\"num_predict\":12,\"num_ctx\":99,\"flavour\":1}}", 200);
    char *text = strdup(in(v, "message.content")->valuestring), joined[1024] = "";
    assert_string_equal(in(v, "message.role")->valuestring, "assistant");
    assert_true(cJSON_IsTrue(in(v, "done")) && in(v, "eval_count")->valueint == 12 && in(v, "prompt_eval_count")->valueint > 1);
    assert_true(in(v, "total_duration")->valuedouble >= in(v, "eval_duration")->valuedouble);
    assert_string_equal(in(v, "done_reason")->valuestring, "length");
    assert_int_equal(strlen(in(v, "created_at")->valuestring), strlen("2026-01-01T00:00:00Z"));
    assert_true(cJSON_GetArraySize(in(v, "warnings")) == 1 && strstr(in(v, "warnings.0")->valuestring, "'flavour'"));
    cJSON_Delete(v);
    v = asked(CHATS, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"max_tokens\":12}", 200);
    assert_string_equal(in(v, "choices.0.message.content")->valuestring, text);
    cJSON_Delete(v);
    reply_free(&last);
    last = post(server.port, "/api/generate", "{\"prompt\":\"Tell\",\"options\":{\"num_predict\":12}}");        /* a stream */
    assert_non_null(strstr(last.head, "application/x-ndjson"));
    int ends = 0;
    for (char *line = strtok(last.body, "\n"); line; line = strtok(NULL, "\n")) {
        assert_int_equal(ends, 0);
        assert_non_null(v = cJSON_Parse(line));
        strcat(joined, in(v, "response")->valuestring);
        ends += cJSON_IsTrue(in(v, "done"));
        cJSON_Delete(v);
    }
    assert_int_equal(ends, 1);
    assert_string_equal(joined, text);
    free(text);
    v = asked("/api/generate", "{\"stream\":false,\"raw\":true,\"prompt\":\"Once upon\",\"options\":{\"num_predict\":3}}", 200);
    assert_string_equal(in(v, "response")->valuestring, " a time there");
    cJSON_Delete(v);
    v = asked("/api/generate", "{\"stream\":false,\"prompt\":\"\"}", 200);
    assert_string_equal(in(v, "done_reason")->valuestring, "load");
    cJSON_Delete(v);

    v = asked("/api/chat", "{\"stream\":false," ONCE ",\"format\":{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"fox\"]}},"
                           "\"required\":[\"k\"],\"additionalProperties\":false}}", 200);
    cJSON *answer = cJSON_Parse(in(v, "message.content")->valuestring);
    assert_string_equal(in(answer, "k")->valuestring, "fox");
    cJSON_Delete(answer);
    cJSON_Delete(v);
    v = asked("/api/chat", "{\"stream\":false,\"think\":false,\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
                           "\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"add\",\"arguments\":{\"a\":1}}}]},{\"role\":"
                           "\"tool\",\"tool_name\":\"add\",\"content\":\"3\"}]," OLLAMA_CALL, 200);
    assert_string_equal(in(v, "message.tool_calls.0.function.name")->valuestring, "add");
    assert_true(cJSON_IsNumber(in(v, "message.tool_calls.0.function.arguments.a")));
    cJSON_Delete(v);
    reply_free(&last);
    last = post(server.port, "/api/chat", "{" ONCE "," OLLAMA_CALL);
    assert_int_equal(last.status, 200);
    int calls = 0;
    for (char *line = strtok(last.body, "\n"); line; line = strtok(NULL, "\n")) {
        assert_non_null(v = cJSON_Parse(line));
        calls += cJSON_IsNumber(in(v, "message.tool_calls.0.function.arguments.a"));
        cJSON_Delete(v);
    }
    assert_true(calls > 0);

    static const struct { const char *path, *body, *why; int status; } refused[] = {
        { "/api/chat", ONCE ",\"options\":{\"temperature\":-1}", "'temperature'", 400 },
        { "/api/chat", ONCE ",\"think\":3", "'think'", 400 },
        { "/api/chat", ONCE ",\"format\":\"xml\"", "'format'", 400 }, { "/api/chat", ONCE ",\"options\":[]", "'options'", 400 },
        { "/api/chat", ONCE ",\"options\":{\"mirostat\":2}", "'mirostat'", 400 },
        { "/api/chat", "\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"aGk=\"]}]", "'images'", 400 },
        { "/api/chat", "\"messages\":[{\"role\":\"fox\",\"content\":\"x\"}]", "a role", 400 },
        { "/api/chat", "\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":1}}]}]", "'tool_calls'", 400 },
        { "/api/generate", "\"prompt\":\"a\",\"suffix\":\"b\"", "'suffix'", 400 }, { "/api/generate", "\"prompt\":1", "'prompt'", 400 },
        { "/api/generate", "\"prompt\":\"a\",\"raw\":true,\"system\":\"b\"", "'system'", 400 },
        { "/api/embed", "\"input\":\"a\"", "not vectors", 400 }, { "/api/embeddings", "\"prompt\":[]", "'prompt'", 400 },
        { "/api/pull", "\"model\":\"a\"", "there is no /api/pull", 404 },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char body[512];
        snprintf(body, sizeof body, "{%s}", refused[i].body);
        v = asked(refused[i].path, body, refused[i].status);
        if (!cJSON_IsString(in(v, "error")) || !strstr(in(v, "error")->valuestring, refused[i].why)) fail_msg("%s: %s", body, last.body);
        cJSON_Delete(v);
    }
}

/* Members that mean absent: the prompt is the same as without them. */
static void absent_members(void **state)
{
    (void)state;
    static const struct { const char *path, *body, *tokens, *other[4]; } same[] = {
        { CHATS "/input_tokens", HI, "input_tokens", { HI ",\"n\":2,\"stream\":true,\"stop\":null" } },
        { "/v1/responses/input_tokens", "\"input\":\"Tell\"", "input_tokens", { "\"input\":\"Tell\",\"instructions\":\"\"" } },
        { "/v1/messages/count_tokens", HI, "input_tokens",
          { HI ",\"system\":\"\"", HI ",\"system\":[],\"tools\":[],\"tool_choice\":null", HI ",\"system\":null,\"thinking\":null,"
               "\"stop_sequences\":null",
            "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Tell\"},{"
            "\"type\":\"web_search_tool_result\",\"content\":[]}]}]" } },
        { "/v1/responses", "\"input\":\"Tell\",\"max_output_tokens\":1", "usage.input_tokens",
          { "\"input\":\"Tell\",\"max_output_tokens\":1,\"instructions\":\"\",\"text\":{\"format\":null},\"reasoning\":null,\"tools\":null",
            "\"input\":[{\"role\":\"user\",\"content\":\"Tell\"},{\"type\":\"web_search_call\",\"id\":\"w\"}],\"max_output_tokens\":1" } },
        { CHATS, HI ",\"max_tokens\":1", "usage.prompt_tokens",
          { HI ",\"max_tokens\":1,\"tools\":[],\"documents\":null,\"chat_template_kwargs\":null,\"reasoning_effort\":null,"
               "\"stop\":[],\"logit_bias\":{},"
            "\"response_format\":null,\"stream_options\":null,\"functions\":null,\"tool_choice\":null,\"parallel_tool_calls\":null" } },
    };
    char body[1024];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        snprintf(body, sizeof body, "{%s}", same[i].body);
        cJSON *v = asked(same[i].path, body, 200);
        const int n = in(v, same[i].tokens)->valueint;
        cJSON_Delete(v);
        for (size_t k = 0; k < 4 && same[i].other[k]; k++) {
            snprintf(body, sizeof body, "{%s}", same[i].other[k]);
            v = asked(same[i].path, body, 200);
            if (in(v, same[i].tokens)->valueint != n) fail_msg("%s: %d tokens, not %d", body, in(v, same[i].tokens)->valueint, n);
            cJSON_Delete(v);
        }
    }
    prompt_is("{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":null},{\"role\":\"assistant\",\"content\":[],\"tool_calls\":[],"
              "\"function_call\":null},{\"role\":\"user\",\"content\":null}],\"tools\":[{\"type\":\"function\",\"function\":{"
              "\"name\":\"add\","
              "\"description\":null,\"parameters\":null,\"strict\":null}}]}", "[add <tool_call>]<user>x\n<assistant>\n<user>\n<assistant>");
}

/* Tools that are not functions are left out with a warning, and are not offered to the model. */
static void other_tools(void **state)
{
    (void)state;
    static const struct { const char *path, *body, *says; } some[] = {
        { CHATS, HI ",\"max_tokens\":2,\"tools\":[{\"type\":\"custom\",\"custom\":{\"name\":\"c\"}}]", "'c'" },
        { "/v1/responses", "\"input\":\"Tell\",\"max_output_tokens\":2,\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\","
          "\"name\":"
                           "\"f\",\"parameters\":null,\"strict\":null}]", "'web_search'" },
        { "/v1/responses", "\"input\":\"Tell\",\"max_output_tokens\":2,\"tools\":[{\"type\":\"namespace\",\"name\":\"n\","
          "\"tools\":[]}]", "'n'" },
        { "/v1/messages", HI ",\"max_tokens\":2,\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]", "'web_search'" },
    };
    char body[512];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        snprintf(body, sizeof body, "{%s}", some[i].body);
        cJSON *v = asked(some[i].path, body, 200);
        assert_int_equal(cJSON_GetArraySize(in(v, "warnings")), 1);
        if (!strstr(in(v, "warnings.0")->valuestring, some[i].says)) fail_msg("%s: %s", body, last.body);
        cJSON_Delete(v);
    }
    prompt_is("{" HI ",\"tools\":[{\"type\":\"web_search\",\"name\":\"w\"},{\"type\":\"function\",\"function\":{\"name\":\"add\"}}]}",
              "[add <tool_call>]<user>Tell\n<assistant>");
    cJSON *v = asked("/v1/messages/count_tokens", "{" HI "}", 200), *other = asked("/v1/messages/count_tokens", "{" HI ",\"tools\":[{"
                     "\"type\":\"bash_20250124\",\"name\":\"bash\"}]}", 200);
    assert_int_equal(in(v, "input_tokens")->valueint, in(other, "input_tokens")->valueint);
    cJSON_Delete(v);
    cJSON_Delete(other);
    cJSON_Delete(asked(CHATS, "{" HI ",\"tool_choice\":\"required\",\"tools\":[{\"type\":\"custom\"}]}", 400));
}

/* Each API has its own way to say that the model shall not think. */
static void thinking(void **state)
{
    (void)state;
    static const char *const off[] = { "\"reasoning_effort\":\"none\"", "\"enable_thinking\":false", "\"reasoning\":{\"effort\":\"none\"}",
                                       "\"chat_template_kwargs\":{\"enable_thinking\":false}",
                                       "\"reasoning_effort\":\"none\",\"add_generation_prompt\":true" };
    char body[512];
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        snprintf(body, sizeof body, "{" HI ",%s}", off[i]);
        prompt_is(body, "<user>Tell\n<assistant>(no thinking)");
    }
    prompt_is("{" HI ",\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":true}}", "<user>Tell\n<assistant>");
    prompt_is("{" HI ",\"reasoning_effort\":\"low\"}", "<user>Tell\n<assistant>");
    int n[6];
    static const char *const counted[] = { "", ",\"thinking\":{\"type\":\"disabled\"}", ",\"output_config\":{\"effort\":\"none\"}" };
    for (size_t i = 0; i < 3; i++) {
        snprintf(body, sizeof body, "{" HI "%s}", counted[i]);
        cJSON *v = asked("/v1/messages/count_tokens", body, 200);
        n[i] = in(v, "input_tokens")->valueint;
        snprintf(body, sizeof body, "{\"input\":\"Tell\",\"max_output_tokens\":1%s}", i ? ",\"reasoning\":{\"effort\":\"none\"}" : "");
        cJSON_Delete(v);
        v = asked("/v1/responses", body, 200);
        n[3 + i] = in(v, "usage.input_tokens")->valueint;
        cJSON_Delete(v);
    }
    assert_true(n[1] > n[0] && n[2] == n[1] && n[3] == n[0] && n[4] == n[1] && n[5] == n[1]);
}

/* A grammar is that of the text behind the reasoning, which the prompt may have begun or ended. */
static void grammar_after_reasoning(void **state)
{
    (void)state;
    static const struct { const char *opening; bool guided; } prompts[] = {
        { "", true }, { "<think>", false }, { "<think>Hm", false }, { "<think>Hm</think>", true }, { "<think>a</think><think>", false },
    };
    char body[512];
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        snprintf(body, sizeof body, "{" HI ",\"max_tokens\":8,\"grammar\":\"root ::= \\\"yes\\\"\","
                 "\"chat_template_kwargs\":{\"opening\":\"%s\"}}", prompts[i].opening);
        cJSON *v = asked(CHATS, body, 200);
        const cJSON *text = in(v, "choices.0.message.content");
        assert_int_equal(cJSON_IsString(text) && strcmp(text->valuestring, "yes") == 0, prompts[i].guided);
        assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, prompts[i].guided ? "stop" : "length");
        cJSON_Delete(v);
    }
}

/* How a conversation continues: a beginning of the answer, a new message, or nothing. */
static void continuations(void **state)
{
    (void)state;
#define SO "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"So\"}]"
    prompt_is("{" SO "}", "<user>x\n<assistant>So");
    prompt_is("{" SO ",\"continue_final_message\":true,\"add_generation_prompt\":false}", "<user>x\n<assistant>So");
    prompt_is("{" SO ",\"continue_final_message\":false}", "<user>x\n<assistant>So\n<assistant>");
    prompt_is("{" SO ",\"add_generation_prompt\":false}", "<user>x\n<assistant>So\n");
    cJSON_Delete(asked(CHATS, "{" HI ",\"continue_final_message\":true}", 400));
    cJSON_Delete(asked(CHATS, "{" SO ",\"continue_final_message\":true,\"add_generation_prompt\":true}", 400));
}

/* OpenAI's former functions: the answer has the form that belongs to them. */
static void former_functions(void **state)
{
    (void)state;
#define FORMER HI ",\"temperature\":1,\"functions\":[{\"name\":\"add\",\"parameters\":{\"type\":\"object\"," ADD "}],\"function_call\":{" \
    "\"name\":\"add\"}"
    cJSON *v = asked(CHATS, "{" FORMER "}", 200);
    assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "function_call");
    assert_string_equal(in(v, "choices.0.message.function_call.name")->valuestring, "add");
    cJSON *arguments = cJSON_Parse(in(v, "choices.0.message.function_call.arguments")->valuestring);
    assert_true(cJSON_IsNumber(in(arguments, "a")) && !in(v, "choices.0.message.tool_calls"));
    cJSON_Delete(arguments);
    cJSON_Delete(v);
    reply_free(&last);
    last = post(server.port, CHATS, "{" FORMER ",\"stream\":true}");
    assert_true(strstr(last.body, "\"function_call\":{\"name\":\"add\"") && strstr(last.body, "\"finish_reason\":\"function_call\""));
    prompt_is("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"function_call\":{\"name\":"
              "\"add\",\"arguments\":\"{\\\"a\\\": 1}\"}},{\"role\":\"function\",\"name\":\"add\",\"content\":\"3\"}]}",
              "<user>x\n<assistant>{\"add\": {\"a\": 1}}\n<tool>3\n<assistant>");
}

/* tool_choice of type allowed_tools, in both of OpenAI's forms; the arguments of a call are an object, whatever the schema leaves out. */
static void allowed_tools(void **state)
{
    (void)state;
    cJSON *v = asked(CHATS, "{" HI ",\"temperature\":1," TWO_TOOLS ",\"parallel_tool_calls\":false,\"tool_choice\":{"
                            "\"type\":\"allowed_tools\","
                            "\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":{"
                            "\"name\":\"stop\"}}]}}}", 200);
    assert_string_equal(in(v, "choices.0.message.tool_calls.0.function.name")->valuestring, "stop");
    cJSON_Delete(v);
    v = asked("/v1/responses", "{\"input\":\"Tell\",\"parallel_tool_calls\":false,\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":"
                               "\"required\",\"tools\":[{\"type\":\"function\",\"name\":\"stop\"}]},\"tools\":[{"
                               "\"type\":\"function\",\"name\":"
                               "\"add\"},{\"type\":\"function\",\"name\":\"stop\",\"parameters\":{\"type\":\"object\",\"properties\":{},"
                               "\"additionalProperties\":false}}]}", 200);
    assert_string_equal(in(v, "output.0.name")->valuestring, "stop");
    cJSON_Delete(v);
    static const char *const any[] = { "{}", "{\"description\":\"d\"}", "null", "true", "{\"type\":[\"object\",\"null\"]}" };
    char body[512];
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        snprintf(body, sizeof body, "{" HI ",\"temperature\":1,\"seed\":3,\"max_tokens\":60,\"tool_choice\":\"required\","
                                    "\"parallel_tool_calls\":false,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                    "\"parameters\":"
                                    "%s}}]}", any[i]);
        v = asked(CHATS, body, 200);
        const cJSON *arguments = in(v, "choices.0.message.tool_calls.0.function.arguments");
        if (!arguments || arguments->valuestring[0] != '{') fail_msg("%s: %s", body, last.body);
        cJSON_Delete(v);
    }
}

/* A call that the limit of tokens cuts off is a call, with the beginning of its arguments. */
static void cut_calls(void **state)
{
    (void)state;
#define LONG "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":200}},\"required\":[\"a\"]," \
    "\"additionalProperties\":false}"
    cJSON *v = asked(CHATS, "{" HI ",\"max_tokens\":40,\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":{"
                            "\"name\":"
                            "\"add\",\"parameters\":{" LONG "}}]}", 200);
    assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, "length");
    const char *arguments = in(v, "choices.0.message.tool_calls.0.function.arguments")->valuestring;
    assert_true(strncmp(arguments, "{", 1) == 0 && !strchr(arguments, '}') && cJSON_IsNull(in(v, "choices.0.message.content")));
    cJSON_Delete(v);
    v = asked("/v1/messages", "{" HI ",\"max_tokens\":40,\"tool_choice\":{\"type\":\"any\"},\"tools\":[{\"name\":\"add\",\"input_schema\":{"
                              LONG "}]}", 200);
    assert_string_equal(in(v, "stop_reason")->valuestring, "max_tokens");
    assert_true(cJSON_IsObject(in(v, "content.0.input")));
    cJSON_Delete(v);
}

/* The other names of guides: Anthropic's, and vLLM's. */
static void other_guides(void **state)
{
    (void)state;
#define FOX "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"king\",\"fox\"]}},\"required\":[\"kind\"]," \
    "\"additionalProperties\":false}"
    static const struct { const char *path, *body, *text; } some[] = {
        { "/v1/messages", "\"max_tokens\":60,\"output_config\":{\"format\":{\"type\":\"json_schema\","
          "\"schema\":" FOX "}}", "content.0.text" },
        { "/v1/messages", "\"max_tokens\":60,\"output_format\":{\"type\":\"json_schema\",\"schema\":" FOX "}", "content.0.text" },
        { CHATS, "\"guided_json\":" FOX, "choices.0.message.content" },
        { CHATS, "\"structured_outputs\":{\"json\":" FOX "}", "choices.0.message.content" },
        { CHATS, "\"guided_choice\":[\"{\\\"kind\\\":\\\"fox\\\"}\",\"{\\\"kind\\\":\\\"king\\\"}\"]", "choices.0.message.content" },
        { CHATS, "\"structured_outputs\":{\"grammar\":\"root ::= \\\"{"
                 "\\\\\\\"kind\\\\\\\":\\\\\\\"fox\\\\\\\"}\\\"\"}", "choices.0.message.content" },
    };
    char body[1024];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        snprintf(body, sizeof body, "{" HI ",%s}", some[i].body);
        cJSON *v = asked(some[i].path, body, 200), *answer = cJSON_Parse(in(v, some[i].text)->valuestring);
        if (!cJSON_IsString(in(answer, "kind"))) fail_msg("%s: %s", body, last.body);
        cJSON_Delete(answer);
        cJSON_Delete(v);
    }
    cJSON_Delete(asked(CHATS, "{" HI ",\"structured_outputs\":{\"regex\":\"a+\"}}", 400));
}

/* The log probabilities of a stream stand in the chunk with their text; the first chunk, which has the role alone, has none. */
static void streamed_logprobs(void **state)
{
    (void)state;
    char text[1024] = "", tokens[1024] = "";
    reply_free(&last);
    last = post(server.port, CHATS, "{" HI ",\"max_tokens\":12,\"stream\":true,\"logprobs\":true}");
    for (const char *line = last.body; (line = strstr(line, "data: {")); ) {
        cJSON *e = cJSON_Parse(line += 6);
        const cJSON *content = in(e, "choices.0.delta.content"), *list = in(e, "choices.0.logprobs.content"), *one;
        if (in(e, "choices.0.delta.role")) assert_true(cJSON_IsNull(in(e, "choices.0.logprobs")));
        if (cJSON_IsString(content)) strcat(text, content->valuestring);
        cJSON_ArrayForEach(one, list) strcat(tokens, in(one, "token")->valuestring);
        if (cJSON_IsString(content) && *content->valuestring && !in(e, "choices.0.delta.role")) assert_string_equal(tokens, text);
        cJSON_Delete(e);
    }
    assert_true(strlen(text) > 5);
}

/* Several prompts in one request: each gets the text that it gets alone. */
static void several_prompts(void **state)
{
    (void)state;
    static const char path[] = "/v1/completions", *const prompts[] = { "Once", "The king", "A fox ran" };
    char body[512], *alone[3];
    int n_prompt = 0;
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":6,\"echo\":true}", prompts[i]);
        cJSON *v = asked(path, body, 200);
        alone[i] = strdup(in(v, "choices.0.text")->valuestring);
        assert_true(strncmp(alone[i], prompts[i], strlen(prompts[i])) == 0 && strlen(alone[i]) > strlen(prompts[i]));
        n_prompt += in(v, "usage.prompt_tokens")->valueint;
        cJSON_Delete(v);
    }
    for (int stream = 0; stream < 2; stream++) {
        snprintf(body, sizeof body, "{\"prompt\":[\"Once\",\"The king\",\"A fox ran\"],\"n\":2,\"max_tokens\":6,\"echo\":true,"
                                    "\"stream\":%s}",
                 stream ? "true" : "false");
        reply_free(&last);
        last = post(server.port, path, body);
        assert_int_equal(last.status, 200);
        cJSON *v = stream ? NULL : cJSON_Parse(last.body);
        for (int i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "choices.%d.text", i);
            char *text = stream ? stream_text(last.body, i) : strdup(in(v, name)->valuestring);
            assert_string_equal(text, alone[i / 2]);
            free(text);
        }
        if (!stream) assert_int_equal(in(v, "usage.prompt_tokens")->valueint, n_prompt);
        cJSON_Delete(v);
    }
    cJSON *v = asked(path, "{\"prompt\":[[5,6],[7]],\"max_tokens\":0,\"echo\":true}", 200);
    assert_int_equal(cJSON_GetArraySize(in(v, "choices")), 2);
    assert_int_equal(in(v, "usage.completion_tokens")->valueint, 0);
    cJSON_Delete(v);
    char *many = malloc(1 << 16);                            /* more than slots and the queue hold */
    char *end = many + sprintf(many, "{\"max_tokens\":1,"
                                        "\"prompt\":[\"a\"");
    for (int i = 1; i < 100; i++) end += sprintf(end, ",\"a\"");
    strcpy(end, "]}");
    v = asked(path, many, 200);
    assert_int_equal(cJSON_GetArraySize(in(v, "choices")), 100);
    cJSON_Delete(v);
    free(many);
    for (int i = 0; i < 3; i++) free(alone[i]);
}

/* Tokens that end a text, a least number of tokens before its end, and biases of a text's tokens. */
static void ends_and_biases(void **state)
{
    (void)state;
#define ONLY "\"prompt\":\"Once\",\"max_tokens\":9,\"logit_bias\":{\"300\":1000}"
    static const struct { const char *body, *reason; int drawn; } some[] = {
        { ONLY, "length", 9 }, { ONLY ",\"stop_token_ids\":[7,300]", "stop", 1 },
        { ONLY ",\"stop_token_ids\":[300],\"min_tokens\":4", "stop", 5 }, { ONLY ",\"stop_token_ids\":null,\"min_tokens\":0", "length", 9 },
    };
    char body[512];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        snprintf(body, sizeof body, "{%s}", some[i].body);
        cJSON *v = asked("/v1/completions", body, 200);
        assert_string_equal(in(v, "choices.0.finish_reason")->valuestring, some[i].reason);
        assert_int_equal(in(v, "usage.completion_tokens")->valueint, some[i].drawn);
        cJSON_Delete(v);
    }
    cJSON *v = asked("/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":1,\"logit_bias\":[[\"king\",1000]]}", 200);
    const char *text = in(v, "choices.0.text")->valuestring;
    assert_true(*text && strstr("king", text));
    cJSON_Delete(v);
    cJSON_Delete(asked("/v1/completions", "{\"prompt\":\"Once\",\"stop_token_ids\":[-1]}", 400));
}

/* For any fault in a request the server answers or refuses it, and keeps running. */
static void spoiled_requests(void **state)
{
    (void)state;
    static const struct { const char *path, *body;
    } good[] = {
        {CHATS,
         "{\"messages\":[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
         "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":"
         "\"{\\\"a\\\":1}\"}}]}],\"max_tokens\":3,\"tool_choice\":\"auto\",\"logprobs\":true,\"top_logprobs\":2,\"n\":2," TOOLS "}"},
        {CHATS, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3,\"stream\":true,\"response_format\":{\"type\":"
                "\"json_schema\","
                "\"json_schema\":{\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"b\"]}}}}},\"chat_template_kwargs\":{"
                "\"x\":1}}"},
        {"/v1/completions",
         "{\"prompt\":\"Once\",\"max_tokens\":3,\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"5\":-100},\"seed\":5,\"temperature\":0.5,"
         "\"top_p\":0.9,\"top_k\":5,\"grammar\":\"root ::= [a-z]+ (\\\" \\\" root)?\"}"},
        {"/v1/messages",
         "{\"max_tokens\":3,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"7\"},{\"type\":\"text\",\"text\":\"t\"}]}],\"tools\":[{\"name\":\"add\","
         "\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"auto\"}}"},
        {"/v1/responses",
         "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]},{\"type\":\"function_call\",\"name\":"
         "\"add\",\"call_id\":\"1\",\"arguments\":\"{}\"}],\"max_output_tokens\":3,\"stream\":true,\"text\":{\"format\":{\"type\":\"text\"}"
         "}}"},
        {"/api/chat",
         "{\"stream\":true,\"think\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[{"
         "\"function\":{\"name\":\"add\",\"arguments\":{\"a\":1}}}]}],\"format\":\"json\",\"options\":{\"num_predict\":3}," TOOLS "}"},
        {"/api/generate", "{\"prompt\":\"a\",\"system\":\"b\",\"raw\":false,\"options\":{\"num_predict\":3,\"stop\":[\"x\"]}}"},
        {"/tokenize", "{\"content\":\"Once upon\",\"with_pieces\":true}"},
        {"/detokenize", "{\"tokens\":[1,2,3]}"},
    };
    unsigned seed = getenv("SEED") ? (unsigned)strtoul(getenv("SEED"), NULL, 10) : (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    for (int i = 0; i < 400; i++) {
        const size_t k = (size_t)rand_r(&seed) % (sizeof good / sizeof *good);
        char *body = spoiled(good[k].body, &seed);
        reply_free(&last);
        last = post(server.port, good[k].path, body);
        if (last.status != 200 && last.status != 400 && last.status != 413)
            fail_msg("%s %s: %d %s%s", good[k].path, body, last.status, last.body ? last.body : "no answer", child_said(&server));
        free(body);
    }
    cJSON_Delete(asked(CHATS, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"max_tokens\":2}", 200));
}

static void refusals(void **state)
{
    (void)state;
    static const struct { const char *body, *says; } wrong[] = {
        { "{}", "'messages'" }, { "{\"messages\":[]}", "'messages'" }, { "{\"messages\":\"x\"}", "'messages'" },
        { "{\"messages\":[{\"content\":\"x\"}]}", "'role'" }, { "{\"messages\":[{\"role\":\"user\"}]}", "'content'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":1}]}", "'content'" }, { "{\"messages\":[1]}", "'role'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "image_url" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":[1]}]}", "reads text" },
        { "{\"messages\":[{\"role\":\"bad\",\"content\":\"x\"}]}", "no such role" },
        { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", "function" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":1}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"maybe\"}", "'tool_choice'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"required\"}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":{\"function\":{\"name\":\"no\"}}," TOOLS "}", "'no'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"xml\"}}", "'response_format'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"json_schema\":{\"type\":\"thing\"}}", "json_schema" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"grammar\":\"root ::= nowhere\"}", "grammar" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"best_of\":2}", "'best_of'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"modalities\":[\"text\",\"audio\"]}", "'modalities'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":\"x\"}", "'chat_template_kwargs'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":{\"type\":\"allowed_tools\"},"
          "" TOOLS "}", "allowed_tools" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cJSON *v = asked(CHATS, wrong[i].body, 400);
        if (!strstr(in(v, "error.message")->valuestring, wrong[i].says)) fail_msg("%s: %s", wrong[i].body, last.body);
        cJSON_Delete(v);
    }
}

/* A conversation that has no place in the context is the client's fault, however long it is: clients shorten it then. */
static void long_conversations(void **state)
{
    (void)state;
    enum { WORDS = 800000 };
    static const char begin[] = "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"", end[] = "\"}]}";
    static const char *const routes[] = { CHATS, "/v1/messages", "/v1/messages/count_tokens" };
    char *body = malloc(5 * WORDS + sizeof begin + sizeof end), *to = body + sizeof begin - 1;
    memcpy(body, begin, sizeof begin);
    for (int i = 0; i < WORDS; i++, to += 5) memcpy(to, "word ", 5);
    memcpy(to, end, sizeof end);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        cJSON *v = asked(routes[i], body, 400);
        if (!strstr(in(v, "error.message")->valuestring, "context_length_exceeded")) fail_msg("%s: %s", routes[i], last.body);
        cJSON_Delete(v);
    }
    free(body);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts), cmocka_unit_test(answers), cmocka_unit_test(turns), cmocka_unit_test(guided),
        cmocka_unit_test(forced_calls), cmocka_unit_test(strictness), cmocka_unit_test(wide), cmocka_unit_test(messages),
            cmocka_unit_test(responses), cmocka_unit_test(refusals), cmocka_unit_test(ollama),
        cmocka_unit_test(unknown_members), cmocka_unit_test(absent_members), cmocka_unit_test(other_tools), cmocka_unit_test(thinking),
        cmocka_unit_test(grammar_after_reasoning), cmocka_unit_test(continuations), cmocka_unit_test(long_conversations),
        cmocka_unit_test(former_functions), cmocka_unit_test(allowed_tools), cmocka_unit_test(cut_calls), cmocka_unit_test(other_guides),
        cmocka_unit_test(streamed_logprobs), cmocka_unit_test(several_prompts), cmocka_unit_test(ends_and_biases),
        cmocka_unit_test(spoiled_requests),
    };
    if (argc != 2) { fprintf(stderr, "usage: test_chats PROGRAM\n"); return 2; }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    const int failed = cmocka_run_group_tests(tests, start, fixture_stop);
    reply_free(&last);
    return failed;
}
