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

/* What the template gets: contents as one text, arguments as objects, tools or none, variables of the request. */
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

/* The second turn of a conversation reads what is new. */
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

/* Guided answers are what they must be, however little the model has to say. */
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

/* A call that must be: of any tool, or of one. */
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
    cJSON_Delete(arguments);
    cJSON_Delete(v);
    reply_free(&last);
    last = post(server.port, CHATS,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell\"}],\"tool_choice\":\"required\",\"stream\":true,\"parallel_tool_"
                "calls\":false," TWO_TOOLS "}");
    assert_true(last.status == 200 && strstr(last.body, "\"tool_calls\":[{\"index\":0,\"id\":\"call_") &&
                strstr(last.body, "\"finish_reason\":\"tool_calls\""));
}

/* ---- the same by the other APIs ---- */

#define ADD \
    "\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"a\"],\"additionalProperties\":false}"
#define ONCE "\"messages\":[{\"role\":\"user\",\"content\":\"Once\"}]"

/* What the model says of "Once" with the system's "be", by chats. */
static char *by_chats(void)
{
    cJSON *v = asked(CHATS, "{\"messages\":[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":\"Once\"}],"
                            "\"max_tokens\":9}", 200);
    char *text = strdup(in(v, "choices.0.message.content")->valuestring);
    cJSON_Delete(v);
    return text;
}

/* Names of a stream's events, one after the other; the same in a row count once. */
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
    v = asked("/v1/messages/count_tokens", "{" ONCE "}", 200);
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

/* Whatever is wrong in a request: an answer, or a refusal of it, and a server that goes on. */
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
        { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}]}", "arguments" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":1}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{}]}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"maybe\"}", "'tool_choice'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"required\"}", "'tools'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":{\"function\":{\"name\":\"no\"}}," TOOLS "}", "'no'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"xml\"}}", "'response_format'" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"json_schema\":{\"type\":\"thing\"}}", "json_schema" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"grammar\":\"root ::= nowhere\"}", "grammar" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cJSON *v = asked(CHATS, wrong[i].body, 400);
        if (!strstr(in(v, "error.message")->valuestring, wrong[i].says)) fail_msg("%s: %s", wrong[i].body, last.body);
        cJSON_Delete(v);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts), cmocka_unit_test(answers), cmocka_unit_test(turns), cmocka_unit_test(guided),
        cmocka_unit_test(forced_calls), cmocka_unit_test(messages), cmocka_unit_test(responses), cmocka_unit_test(refusals),
        cmocka_unit_test(spoiled_requests),
    };
    if (argc != 2) { fprintf(stderr, "usage: test_chats PROGRAM\n"); return 2; }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    const int failed = cmocka_run_group_tests(tests, start, fixture_stop);
    reply_free(&last);
    return failed;
}
