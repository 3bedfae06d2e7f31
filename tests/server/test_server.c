/* test_server.c -- PROGRAM --serve with a text model: its answers to correct clients and to broken ones.
 * test_server PROGRAM */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fixture.h"


#define COMPLETIONS "/v1/completions"

static int start(void **state)
{
    (void)state;
    return fixture_start((const char *const[]){ "--slots", "4", "-s", "1", NULL });
}

/* The answer as JSON; anything but 200 fails. */
static cJSON *asked(const char *path, const char *body)
{
    struct reply r = body ? post(server.port, path, body) : ask(server.port, "GET", path, "", NULL);
    if (r.status != 200) fail_msg("%s %s: %d %s", path, body ? body : "", r.status, r.body ? r.body : "no answer");
    cJSON *v = cJSON_Parse(r.body);
    if (!v) fail_msg("no JSON: %s", r.body);
    reply_free(&r);
    return v;
}

static char *text_of(const char *body, int choice)
{
    char path[32];
    cJSON *v = asked(COMPLETIONS, body);
    snprintf(path, sizeof path, "choices.%d.text", choice);
    if (!cJSON_IsString(in(v, path))) fail_msg("no text: %s", cJSON_PrintUnformatted(v));
    char *text = strdup(in(v, path)->valuestring);
    cJSON_Delete(v);
    return text;
}

static double number_of(const cJSON *v, const char *path)
{
    const cJSON *n = in(v, path);
    if (!cJSON_IsNumber(n)) fail_msg("no number %s in %s", path, cJSON_PrintUnformatted(v));
    return n->valuedouble;
}

static struct child other(const char *const *arguments)
{
    const struct child c = child_start(program, arguments);
    if (!c.port) fail_msg("it does not start: %s", child_said(&(struct child){ c.pid, 0, c.err }));
    return c;
}

static void ends_well(struct child *c, int signal)
{
    kill(c->pid, signal);
    const int code = child_wait(c, 40);
    if (code) fail_msg("exit code %d: %s", code, child_said(c));
}

/* Waits until the server generates no text. */
static void wait_idle(void)
{
    for (const double since = now(); now() - since < 20; usleep(10000)) {
        cJSON *v = asked("/slots", NULL);
        bool busy = false;
        const cJSON *slot;
        cJSON_ArrayForEach(slot, v) busy |= cJSON_IsTrue(in(slot, "is_processing"));
        cJSON_Delete(v);
        if (!busy) return;
    }
    fail_msg("a slot is still busy after 20 s");
}

/* ---- answers ---- */

static void simple_answers(void **state)
{
    (void)state;
    cJSON *v = asked("/health", NULL);
    assert_string_equal(in(v, "status")->valuestring, "ok");
    cJSON_Delete(v);
    v = asked("/v1/models", NULL);
    assert_true(strlen(in(v, "data.0.id")->valuestring) > 0 && number_of(v, "data.0.meta.n_ctx") > 0);
    cJSON_Delete(v);
    v = asked("/props", NULL);
    assert_true(number_of(v, "default_generation_settings.params.seed") == 1 && number_of(v, "total_slots") == 4);
    cJSON_Delete(v);
    v = asked("/tokenize", "{\"content\":\"Once upon a \\u00e9\"}");
    char *tokens = cJSON_PrintUnformatted(in(v, "tokens")), *body;
    assert_true(asprintf(&body, "{\"tokens\":%s}", tokens) > 0);
    cJSON_Delete(v);
    v = asked("/detokenize", body);
    assert_string_equal(in(v, "content")->valuestring, "Once upon a \xc3\xa9");
    cJSON_Delete(v);
    free(tokens);
    free(body);
    struct reply r = ask(server.port, "GET", "/metrics", "", NULL);
    assert_true(r.status == 200 && strstr(r.body, "\nllamacpp:tokens_predicted_total ") && strstr(r.head, "text/plain"));
    assert_non_null(strstr(r.head, "Process-Start-Time-Unix: 1"));
    reply_free(&r);
    r = ask(server.port, "GET", "/", "", NULL);
    assert_true(r.status == 200 && strncmp(r.body, "<!doctype html>", 15) == 0 &&
                strstr(r.head, "Content-Security-Policy: default-src 'none'"));
    assert_true(!strstr(r.body, "src=\"http") && !strstr(r.body, "href=\"http"));
    reply_free(&r);
    r = ask(server.port, "HEAD", "/health", "", NULL);
    assert_true(r.status == 200 && r.n == 0);
    reply_free(&r);
}

/* The program's own text, without the server. */
static void same_text(void **state)
{
    (void)state;
    char command[4200], expected[4096];
    snprintf(command, sizeof command, "'%s' -q -p 'Once upon a time' -n 60 --temp 0", program);
    FILE *f = popen(command, "r");
    const size_t n = fread(expected, 1, sizeof expected - 1, f);
    pclose(f);
    expected[n] = 0;
    char *text = text_of("{\"prompt\":\"Once upon a time\",\"max_tokens\":60,\"temperature\":0}", 0);
    assert_string_equal(text, expected);
    struct reply r =
        post(server.port, COMPLETIONS, "{\"prompt\":\"Once upon a time\",\"max_tokens\":60,\"temperature\":0,\"stream\":true}");
    assert_true(r.status == 200 && strstr(r.head, "text/event-stream"));
    assert_non_null(strstr(r.body, "\ndata: [DONE]\n"));
    char *streamed = stream_text(r.body, 0);
    assert_string_equal(streamed, expected);
    free(streamed);
    free(text);
    reply_free(&r);
}

/* With a seed a text is always the same: alone, beside others, and again with its prefix already read. */
static void seeds(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"There was a king\",\"max_tokens\":40,\"temperature\":1.1,\"seed\":7,\"n\":3}";
    char *first[3];
    for (int i = 0; i < 3; i++) first[i] = text_of(body, i);
    assert_string_not_equal(first[0], first[1]);
    assert_string_not_equal(first[1], first[2]);
    int fds[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = client_connect(server.port);
        client_request(fds[i], "POST", COMPLETIONS, "", body);
    }
    for (int i = 0; i < 6; i++) {
        struct reply r = client_answer(fds[i]);
        assert_int_equal(r.status, 200);
        cJSON *v = cJSON_Parse(r.body);
        assert_string_equal(in(v, "choices.0.text")->valuestring, first[0]);
        assert_string_equal(in(v, "choices.2.text")->valuestring, first[2]);
        cJSON_Delete(v);
        reply_free(&r);
    }
    char *other = text_of("{\"prompt\":\"There was a king\",\"max_tokens\":40,\"temperature\":1.1,\"seed\":9}", 0);
    assert_string_equal(other, first[2]);                     /* each of n texts has the next seed */
    for (int i = 0; i < 3; i++) free(first[i]);
    free(other);
}

static void stops(void **state)
{
    (void)state;
    char *whole = text_of("{\"prompt\":\"Once upon a time\",\"max_tokens\":80,\"temperature\":0}", 0);
    for (size_t at = 5; at + 9 < strlen(whole); at += 23) {   /* at positions inside and between tokens */
        char stop[10], body[300], *quoted;
        snprintf(stop, sizeof stop, "%.8s", whole + at);
        cJSON *s = cJSON_CreateString(stop);
        quoted = cJSON_PrintUnformatted(s);
        snprintf(body, sizeof body,
                 "{\"prompt\":\"Once upon a time\",\"max_tokens\":80,\"temperature\":0,\"stop\":[\"\\u0001\",%s],\"stream\":true}", quoted);
        struct reply r = post(server.port, COMPLETIONS, body);
        char *text = stream_text(r.body, 0), *found = strstr(whole, stop);
        assert_true(strlen(text) == (size_t)(found - whole) && strncmp(text, whole, strlen(text)) == 0);
        assert_non_null(strstr(r.body, "\"finish_reason\":\"stop\""));
        free(text);
        free(quoted);
        cJSON_Delete(s);
        reply_free(&r);
    }
    free(whole);
}

/* Of two stop texts that a token has, the text ends before the first one, in any order of the request. */
static void first_of_stops(void **state)
{
    (void)state;
    char *whole = text_of("{\"prompt\":\"Once upon a time\",\"max_tokens\":20,\"temperature\":0}", 0);
    for (size_t at = 0; at < 12; at++) {
        const char pair[] = { whole[at], whole[at + 1], 0 };
        char body[200];
        if (strcspn(pair, "\"\\\n") < 2) continue;
        for (int swaps = 0; swaps < 2; swaps++) {
            snprintf(body, sizeof body, "{\"prompt\":\"Once upon a time\",\"max_tokens\":20,\"temperature\":0,\"stop\":[\"%c\",\"%c\"]}",
                     pair[swaps], pair[1 - swaps]);
            char *text = text_of(body, 0);
            assert_int_equal(strlen(text), strcspn(whole, pair));
            free(text);
        }
    }
    free(whole);
}

/* Characters of several tokens are sent whole. */
static void whole_characters(void **state)
{
    (void)state;
    static const char text[] = "\xc3\xa9\xf0\x9f\xa6\x94\xe2\x84\xb5";
    char body[200];
    snprintf(body, sizeof body, "{\"prompt\":\"Once\",\"max_tokens\":40,\"stream\":true,\"grammar\":\"root ::= \\\"%s\\\"\"}", text);
    struct reply r = post(server.port, COMPLETIONS, body);
    assert_int_equal(r.status, 200);
    char *got = stream_text(r.body, 0);
    assert_string_equal(got, text);
    free(got);
    reply_free(&r);
}

static void log_probabilities(void **state)
{
    (void)state;
    cJSON *v = asked(COMPLETIONS, "{\"prompt\":\"Once upon a time\",\"max_tokens\":12,\"temperature\":0,\"logprobs\":3}");
    const cJSON *l = in(v, "choices.0.logprobs");
    assert_int_equal(cJSON_GetArraySize(in(l, "tokens")), 12);
    char joined[512] = "";
    for (int i = 0; i < 12; i++) {
        char path[40];
        snprintf(path, sizeof path, "tokens.%d", i);
        assert_int_equal((int)strlen(joined), cJSON_GetArrayItem(in(l, "text_offset"), i)->valueint);
        strcat(joined, in(l, path)->valuestring);
        const double p = cJSON_GetArrayItem(in(l, "token_logprobs"), i)->valuedouble;
        const cJSON *top = cJSON_GetArrayItem(in(l, "top_logprobs"), i);
        assert_true(p < 0 && fabs(top->child->valuedouble - p) < 1e-4 && cJSON_GetArraySize(top) == 3);
        assert_true(top->child->valuedouble >= top->child->next->valuedouble);
    }
    assert_string_equal(joined, in(v, "choices.0.text")->valuestring);
    cJSON_Delete(v);
}

/* A long prompt is repeated: only its last token is read again, and the text is the same. */
static void prefixes(void **state)
{
    (void)state;
    char body[4096] = "{\"prompt\":\"", *text[2];
    for (int i = 0; i < 40; i++) strcat(body, "The king went to the forest and came home. ");
    strcat(body, "\",\"max_tokens\":30,\"temperature\":0}");
    for (int i = 0; i < 2; i++) {
        cJSON *v = asked(COMPLETIONS, body);
        const double n = number_of(v, "usage.prompt_tokens"), cached = number_of(v, "usage.prompt_tokens_details.cached_tokens");
        assert_true(i ? cached == n - 1 : cached < n / 2);
        text[i] = strdup(in(v, "choices.0.text")->valuestring);
        cJSON_Delete(v);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

/* ---- refusals ---- */

static void refuses(const char *path, const char *body, int status, const char *says)
{
    struct reply r = post(server.port, path, body);
    if (r.status != status || !strstr(r.body, says) || !strstr(r.body, "\"error\":{\"message\":"))
        fail_msg("%s %.80s: %d %s", path, body, r.status, r.body ? r.body : "no answer");
    cJSON *v = cJSON_Parse(r.body);
    assert_non_null(v);
    cJSON_Delete(v);
    reply_free(&r);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
    } wrong[] = {
        {"", "not JSON"},
        {"{", "not JSON"},
        {"[]", "not a JSON object"},
        {"{\"prompt\":\"\xff\"}", "UTF-8"},
        {"{}", "'prompt'"},
        {"{\"prompt\":1}", "'prompt'"},
        {"{\"prompt\":[\"a\",1,{}]}", "'prompt'"},
        {"{\"prompt\":[1,99999999]}", "'prompt'"},
        {"{\"prompt\":[-1]}", "'prompt'"},
        {"{\"prompt\":[]}", "has no token"},
        {"{\"prompt\":[[1],[]]}", "has no token"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "'suffix'"},
        {"{\"prompt\":\"a\",\"best_of\":2}", "'best_of'"},
        {"{\"prompt\":\"a\",\"best_of\":3,\"n\":2}", "'best_of'"},
        {"{\"prompt\":\"a\",\"echo\":1}", "'echo'"},
        {"{\"prompt\":\"a\",\"guided_choice\":[1]}", "'guided_choice'"},
        {"{\"prompt\":\"a\",\"temperature\":\"hot\"}", "'temperature'"},
        {"{\"prompt\":\"a\",\"temperature\":-1}", "'temperature'"},
        {"{\"prompt\":\"a\",\"temperature\":1e999}", "'temperature'"},
        {"{\"prompt\":\"a\",\"top_p\":2}", "'top_p'"},
        {"{\"prompt\":\"a\",\"max_tokens\":1.5}", "'max_tokens'"},
        {"{\"prompt\":\"a\",\"n\":0}", "'n'"},
        {"{\"prompt\":\"a\",\"n\":1000}", "'n'"},
        {"{\"prompt\":\"a\",\"stop\":1}", "'stop'"},
        {"{\"prompt\":\"a\",\"stop\":[[]]}", "'stop'"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"x\":\"y\"}}", "'logit_bias'"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"1\":\"x\"}}", "'logit_bias'"},
        {"{\"prompt\":\"a\",\"logit_bias\":[[1]]}", "'logit_bias'"},
        {"{\"prompt\":\"a\",\"stream\":1}", "'stream'"},
        {"{\"prompt\":\"a\",\"logprobs\":99}", "'logprobs'"},
        {"{\"prompt\":\"a\",\"seed\":\"x\"}", "'seed'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) refuses(COMPLETIONS, wrong[i].body, 400, wrong[i].says);
    refuses("/nope", "{}", 404, "/nope");
    refuses("/health", "{}", 405, "method");
    refuses("/v1/embeddings", "{\"input\":\"a\"}", 400, "not vectors");
    char *deep = malloc(4001), *longer = malloc(40100);
    memset(deep, '[', 4000);
    deep[4000] = 0;
    refuses(COMPLETIONS, deep, 400, "deeper");
    strcpy(longer, "{\"prompt\":\"");
    for (int i = 0; i < 9000; i++) strcat(longer + 4 * i, " the");
    strcat(longer, "\"}");
    refuses(COMPLETIONS, longer, 400, "\"code\":\"context_length_exceeded\"");
    free(deep);
    free(longer);
    char *many = malloc(16384);
    strcpy(many, "{\"input\":[\"a\"");
    for (int i = 0; i < 2048; i++) strcpy(many + 13 + 4 * i, ",\"a\"");
    strcat(many, "]}");
    refuses("/v1/embeddings", many, 400, "2049 texts");
    free(many);
    wait_idle();
}

/* The answer to bytes that a client sends: its status, and JSON with the error in OpenAI's form. */
static struct reply raw_error(const char *bytes, int status)
{
    struct reply r = client_raw(server.port, bytes);
    cJSON *v = r.status ? cJSON_Parse(r.body) : NULL;
    if (r.status != status || !cJSON_IsString(in(v, "error.message")) || !strstr(r.head, "\r\nx-request-id: req_"))
        fail_msg("%.200s: %d %s", bytes, r.status, r.body ? r.body : "no answer");
    cJSON_Delete(v);
    return r;
}

/* What RFC 9112 does not permit is refused, each with a status that says why. */
static void strict_http(void **state)
{
    (void)state;
#define POST "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
#define CHUNKS "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
#define RIGHT "{\"content\":\"a\"}"          /* 15 bytes, without a fault of their own */
    static const struct { const char *bytes; int status; } wrong[] = {
        { "GET /health HTTP/1.1\r\n\r\n", 400 },             { "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400 },
        { "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n", 400 },  { "GET /health\r\nHost: a\r\n\r\n", 400 },
        { "GET health HTTP/1.1\r\nHost: a\r\n\r\n", 400 },   { "GET /health HTTP/9.9\r\nHost: a\r\n\r\n", 505 },
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nA\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\nB: c\r\n\r\n", 400 },
        { "GET http://localhost/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400 },
        { POST "Content-Length: +15\r\n\r\n" RIGHT, 400 },  { POST "Content-Length: 15\r\nContent-Length: 15\r\n\r\n" RIGHT, 400 },
        { POST "Content-Length: 99999999999999999999\r\n\r\n", 413 },
        { POST "Transfer-Encoding: gzip\r\n\r\n" RIGHT, 501 },
        { POST "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\nf\r\n" RIGHT "\r\n0\r\n\r\n", 400 },
        { POST "Content-Length: 15\r\nExpect: a\r\n\r\n" RIGHT, 417 },
        { CHUNKS "zz\r\n", 400 },                           { CHUNKS "f;a=b\r\n" RIGHT "\r\n0\r\n\r\n", 400 },
        { CHUNKS "f\r\n" RIGHT "}\r\n0\r\n\r\n", 400 },     { CHUNKS "f\r\n" RIGHT "\r\n0\r\nA: b\r\n\r\n", 400 },
        { CHUNKS "fffffff\r\n", 413 },
        { "PUT /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405 },
        { "DELETE /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405 },
        { "PATCH /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct reply r = raw_error(wrong[i].bytes, wrong[i].status);
        assert_true(r.status != 405 || strstr(r.head, "\r\nAllow: "));
        reply_free(&r);
    }
    static const char *const right[] = { POST "Content-Length: 15\r\n\r\n" RIGHT,
                                         POST "Transfer-Encoding: chunked\r\n\r\nf\r\n" RIGHT "\r\n0\r\n\r\n" };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct reply r = client_raw(server.port, right[i]);
        if (r.status != 200) fail_msg("%s: %d %s", right[i], r.status, r.body);
        reply_free(&r);
    }
    char *huge = malloc(40100);
    strcpy(huge, "GET /health HTTP/1.1\r\nHost: localhost\r\nA: ");
    memset(huge + strlen(huge), 'a', 40000 - strlen(huge));
    strcpy(huge + 40000, "\r\n\r\n");
    struct reply r = raw_error(huge, 431);
    reply_free(&r);
    free(huge);
    static const struct { const char *body, *param, *code; } members[] = {
        { "{\"prompt\":\"a\",\"temperature\":-1}", "\"param\":\"temperature\"", "\"code\":null" },
        { "[]", "\"param\":null", "\"code\":null" },
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        r = post(server.port, COMPLETIONS, members[i].body);
        if (!strstr(r.body, members[i].param) || !strstr(r.body, members[i].code)) fail_msg("%s: %s", members[i].body, r.body);
        reply_free(&r);
    }
    r = ask(server.port, "PUT", "/v1/messages", "", "{}");   /* Anthropic's form */
    assert_true(r.status == 405 && strstr(r.body, "{\"type\":\"error\",\"error\":{\"type\":"));
    reply_free(&r);
}

/* What it permits is understood: requests one after another and at once, in chunks, byte by byte, of HTTP/1.0, with whole addresses. */
static void lawful_http(void **state)
{
    (void)state;
    static const char bytes[] =
        "\r\nGET /health HTTP/1.1\r\nhost:localhost\r\n\r\n"
        "GET http://LOCALHOST/health?a=b HTTP/1.1\r\nHost: localhost\r\nA:\t b \r\n\r\n"
        CHUNKS "A\r\n{\"content\"\r\n00005\r\n:\"a\"}\r\n0\r\n\r\n"
        "HEAD /health HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 015\r\nConnection: a, close\r\n\r\n{\"content\":\"a\"}";
    static const struct { const char *model; int status; } ids[] = { { "Storyteller%207M", 200 }, { "Storyteller%207", 404 }, { "", 404 } };
    int fds[2] = { client_connect(server.port), client_connect(server.port) };
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        client_send(fds[0], bytes + i, 1);
        if (i % 16 == 0) usleep(500);
    }
    client_send(fds[1], bytes, sizeof bytes - 1);
    for (int i = 0; i < 2; i++) {
        struct reply r = client_answer(fds[i]);
        int n = 0;
        for (const char *at = r.body; (at = strstr(at, "HTTP/1.1 200 OK\r\n")); at++) n++;
        if (r.status != 200 || n != 4) fail_msg("%d answers: %s", n + 1, r.body);
        reply_free(&r);
    }
    const int fd = client_connect(server.port);
    const char *head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\nExpect: 100-continue\r\n"
                       "Connection: close\r\n\r\n";
    char some[64];
    client_send(fd, head, strlen(head));
    assert_true(client_read(fd, some, 25, 20) == 25 && memcmp(some, "HTTP/1.1 100 Continue\r\n\r\n", 25) == 0);
    client_send(fd, "{\"content\":\"a\"}", 15);
    struct reply r = client_answer(fd);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/models/%s", ids[i].model);
        r = ask(server.port, "GET", path, "", NULL);
        if (r.status != ids[i].status) fail_msg("%s: %d %s", path, r.status, r.body);
        assert_true(r.status == 200 ? strstr(r.body, "\"id\":\"Storyteller 7M\"") : strstr(r.body, "\"code\":\"model_not_found\""));
        reply_free(&r);
    }
}

static void origins(void **state)
{
    (void)state;
    static const struct { const char *header; int status; } from[] = {
        { "Origin: http://evil.example\r\n", 403 }, { "Origin: http://localhost.evil.example:8080\r\n", 403 }, { "Origin: null\r\n", 403 },
        { "Origin: http://localhost:3000\r\n", 200 }, { "Origin: http://127.0.0.1\r\n", 200 }, { "Origin: http://[::1]:80\r\n", 200 },
    };
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        struct reply r = ask(server.port, "GET", "/health", from[i].header, NULL);
        if (r.status != from[i].status) fail_msg("%s: %d", from[i].header, r.status);
        /* Without this header the page cannot read the answer. */
        assert_int_equal(r.status == 200, strstr(r.head, "\r\nAccess-Control-Allow-Origin: http://") != NULL);
        reply_free(&r);
    }
}

/* A page whose name was made to point to this machine sends that name as Host. */
static void hosts(void **state)
{
    (void)state;
    static const struct { const char *host; int status; } to[] = {
        { "localhost", 200 }, { "LocalHost:1", 200 }, { "127.0.0.1:8080", 200 }, { "[::1]:80", 200 }, { "ours.example", 200 },
        { "evil.example", 403 }, { "localhost.evil.example", 403 }, { "", 403 },
    };
    struct child c = other((const char *const[]){ "--cors", "http://ours.example:3000", "--cors", "app://desk", "--alias", "we/us", NULL });
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        char bytes[128];
        snprintf(bytes, sizeof bytes, "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", to[i].host);
        struct reply r = client_raw(c.port, bytes);
        if (r.status != to[i].status) fail_msg("Host %s: %d", to[i].host, r.status);
        reply_free(&r);
    }
    /* What the clients of OpenAI and Anthropic ask for when they run in a page. */
    struct reply r = ask(c.port, "OPTIONS", COMPLETIONS, "Origin: app://desk\r\nAccess-Control-Request-Method: POST\r\n"
                         "Access-Control-Request-Headers: authorization,x-stainless-os\r\n", NULL);
    assert_true(r.status == 204 && strstr(r.head, "\r\nAccess-Control-Allow-Origin: app://desk\r\n") &&
                strstr(r.head, "\r\nAccess-Control-Allow-Headers: authorization,x-stainless-os\r\n"));
    reply_free(&r);
    r = ask(c.port, "GET", "/v1/models/we%2Fus", "", NULL);
    assert_true(r.status == 200 && strstr(r.body, "\"id\":\"we/us\""));
    reply_free(&r);
    ends_well(&c, SIGINT);
}

/* ---- rude clients ---- */

/* tokens_predicted_total of /metrics. */
static double tokens_made(void)
{
    static const char name[] = "\nllamacpp:tokens_predicted_total ";
    struct reply r = ask(server.port, "GET", "/metrics", "", NULL);
    const char *line = r.status == 200 ? strstr(r.body, name) : NULL;
    if (!line) fail_msg("no%sin %s", name, r.body ? r.body : "no answer");
    const double n = strtod(line + strlen(name), NULL);
    reply_free(&r);
    return n;
}

/* Texts of clients that have gone are not finished: 18 texts up to the end of the context would be 18 n_ctx tokens. */
static void clients_that_leave(void **state)
{
    (void)state;
    cJSON *models = asked("/v1/models", NULL);
    const double n_ctx = number_of(models, "data.0.meta.n_ctx"), before = tokens_made();
    cJSON_Delete(models);
    for (int i = 0; i < 12; i++) {
        const int fd = client_connect(server.port);
        char some[64];
        client_request(fd, "POST", COMPLETIONS, "", i % 2 ? "{\"prompt\":\"Once\",\"ignore_eos\":true,\"stream\":true}"
                                                          : "{\"prompt\":\"Once\",\"ignore_eos\":true,\"n\":2}");
        if (i % 3) client_read(fd, some, sizeof some, 0.02);
        close(fd);
    }
    wait_idle();
    const double made = tokens_made() - before;
    if (made > 18 * n_ctx / 4) fail_msg("%g tokens were made for clients that had left, of %g at most", made, 18 * n_ctx);
    char *text = text_of("{\"prompt\":\"Once upon a time\",\"max_tokens\":3,\"temperature\":0}", 0);
    assert_true(strlen(text) > 0);
    free(text);
}

static void half_requests(void **state)
{
    (void)state;
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{\"prompt\":";
    static const char *const garbage[] = {"\0\1\2\3\r\n\r\n",
                                          "GET / HTTP/9.9\r\n\r\n",
                                          "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
                                          "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                                          "\r\n\r\n\r\n",
                                          "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"};
    int fds[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = client_connect(server.port);
        if (i % 2) client_send(fds[i], head, (size_t)(i * 2) % sizeof head);
        else client_send(fds[i], garbage[i / 2 % 6], i / 2 % 6 ? strlen(garbage[i / 2 % 6]) : 8);
    }
    char *text = text_of("{\"prompt\":\"Once upon a time\",\"max_tokens\":3,\"temperature\":0}", 0);
    assert_true(strlen(text) > 0);
    free(text);
    for (int i = 0; i < 40; i++) close(fds[i]);
    char *big = malloc((18 << 20) + 1), line[128];
    memset(big, ' ', 18 << 20);
    big[18 << 20] = 0;
    const int fd = client_connect(server.port);
    snprintf(line, sizeof line, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 18 << 20);
    client_send(fd, line, strlen(line));
    client_send(fd, big, 18 << 20);
    struct reply r = client_answer(fd);
    assert_true(r.status == 413 && strstr(r.body, "request_too_large"));      /* the answer arrives although the body is not read */
    reply_free(&r);
    free(big);
}

/* ---- servers with other options ---- */

/* A client that closes its sending side may still read: a stream continues, and another answer says why it is an error. */
static void half_closed(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        const int fd = client_connect(server.port);
        client_request(fd, "POST", COMPLETIONS, "", stream ? "{\"prompt\":\"Once\",\"ignore_eos\":true,\"max_tokens\":200,\"stream\":true}"
                                                           : "{\"prompt\":\"Once\",\"ignore_eos\":true,\"max_tokens\":900}");
        shutdown(fd, SHUT_WR);
        struct reply r = client_answer(fd);
        if (r.status != (stream ? 200 : 400) || !strstr(r.body, stream ? "\ndata: [DONE]\n" : "closed its side"))
            fail_msg("stream %d: %d %s", stream, r.status, r.body);
        reply_free(&r);
    }
    wait_idle();
}

/* A client that sends a byte now and then is not waited for, in the head or in the body; a silent client is not waited for. */
static void slow_clients(void **state)
{
    (void)state;
    static const char *const begins[] = { "GET /health HTTP/1.1\r\nA: ",
                                          "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", "" };
    struct child c = other((const char *const[]){ "--timeout", "1", NULL });
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_connect(c.port);
        client_send(fds[i], begins[i], strlen(begins[i]));
    }
    for (int i = 0; i < 3; i++) {
        char answer[1024] = "";
        ssize_t n = 0;
        for (const double since = now(); n == 0 && now() - since < 20; ) {
            for (int k = 0; k < 2; k++) client_send(fds[k], "a", 1);
            n = client_read(fds[i], answer, sizeof answer - 1, 0.1);
        }
        if (i < 2 ? strncmp(answer, "HTTP/1.1 408 ", 13) != 0 : n != -1) fail_msg("%s: %zd %s", begins[i], n, answer);
        close(fds[i]);
    }
    ends_well(&c, SIGINT);
}

/* More connections than files: those that only wait make room, and when they have gone everything is as before. */
static void few_files(void **state)
{
    (void)state;
    int fds[100];
    child_files = 40;
    struct child c = other(NULL);
    child_files = 0;
    const int busy = client_connect(c.port);
    client_request(busy, "POST", COMPLETIONS, "", "{\"prompt\":\"Once\",\"ignore_eos\":true,\"max_tokens\":300,\"stream\":true}");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) {
            fds[i] = client_connect(c.port);
            client_send(fds[i], "GET /health HTTP/1.1\r\nA: ", (size_t)(i % 27));
        }
        for (int i = 0; i < 100; i++) {
            if (i % 20 == 0) {
                struct reply r = ask(c.port, "GET", "/health", "", NULL);
                assert_int_equal(r.status, 200);
                reply_free(&r);
            }
            close(fds[i]);
        }
    }
    struct reply r = client_answer(busy);
    assert_true(r.status == 200 && strstr(r.body, "[DONE]"));        /* a request that has its turn is not dropped */
    reply_free(&r);
    /* Not even one more file: the server does not accept, and accepts again later. */
    struct rlimit before;
    assert_int_equal(prlimit(c.pid, RLIMIT_NOFILE, NULL, &before), 0);
    assert_int_equal(prlimit(c.pid, RLIMIT_NOFILE, &(struct rlimit){ 3, before.rlim_max }, NULL), 0);
    const int waits = client_connect(c.port);
    client_request(waits, "GET", "/health", "", NULL);
    char some[16];
    assert_int_equal(client_read(waits, some, sizeof some, 0.3), 0);
    assert_int_equal(prlimit(c.pid, RLIMIT_NOFILE, &before, NULL), 0);
    r = client_answer(waits);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    ends_well(&c, SIGINT);
}

/* A stream begins when its request is accepted, and a client that waits hears that the server lives. */
static void pings(void **state)
{
    (void)state;
    struct child c = other((const char *const[]){ "--slots", "1", "--sse-ping-interval", "1", NULL });
    int fds[2];
    char text[2][4096];
    for (int i = 0; i < 2; i++) {
        fds[i] = client_connect(c.port);
        /* Together the first ones take longer than the ping of the last one. */
        client_request(fds[i], "POST", COMPLETIONS, "", i ? "{\"prompt\":\"Once\",\"max_tokens\":1,\"stream\":true}"
                                                          : "{\"prompt\":\"Once\",\"ignore_eos\":true,\"n\":16}");
        usleep(20000);
    }
    size_t n = 0;
    for (const double since = now(); now() - since < 60 && n + 1 < sizeof text[1]; ) {
        const ssize_t got = client_read(fds[1], text[1] + n, sizeof text[1] - n - 1, 1);
        if (got < 0) break;
        n += (size_t)got;
        text[1][n] = 0;
        if (strstr(text[1], ": ping\n\n")) break;
    }
    text[1][n] = 0;
    const char *ping = strstr(text[1], ": ping\n\n"), *event = strstr(text[1], "data: ");
    if (strncmp(text[1], "HTTP/1.1 200 OK\r\n", 17) != 0 || !ping || (event && event < ping)) fail_msg("%s", text[1]);
    close(fds[0]);
    close(fds[1]);
    ends_well(&c, SIGINT);
}

/* Prompts are read one after the other, short ones between: together they would all end at the end. */
static void order_of_prompts(void **state)
{
    (void)state;
    static const int lengths[] = { 900, 600, 20 };
    struct child c = other((const char *const[]){ "-t", "1", "-ub", "64", NULL });       /* a fast machine takes larger pieces */
    int fds[3], place[3], n = 0;
    kill(c.pid, SIGSTOP);                                     /* the three come at once */
    for (int i = 0; i < 3; i++) {
        char body[8192] = "{\"max_tokens\":1,\"prompt\":[";
        for (int k = 0; k < lengths[i]; k++) sprintf(body + strlen(body), k ? ",%d" : "%d", 300 + (7 * k + 31 * i) % 500);
        strcat(body, "]}");
        fds[i] = client_connect(c.port);
        client_request(fds[i], "POST", COMPLETIONS, "", body);
    }
    kill(c.pid, SIGCONT);
    bool answered[3] = { false };
    for (const double since = now(); n < 3 && now() - since < 60; )
        for (int k = 0; k < 3; k++) {
            const int i = (k + 2) % 3;                        /* as they should end, in case several have */
            char some[4096];
            if (answered[i] || client_read(fds[i], some, sizeof some, 0.001) == 0) continue;
            answered[i] = true;
            place[i] = n++;
            close(fds[i]);
        }
    assert_int_equal(n, 3);
    if (place[0] > place[1] || place[2] > place[1]) fail_msg("the prompts ended as %d, %d, %d", place[0], place[1], place[2]);
    ends_well(&c, SIGINT);
}

/* A text that takes long to read does not keep others waiting for /health; the next request waits, and has its answer. */
static void long_reading(void **state)
{
    (void)state;
    static const char words[] = "Once upon a time there was a fox. ";
    enum { TIMES = 200000 };
    char *body = malloc(TIMES * sizeof words + 64), some[64], *end = body + sprintf(body, "{\"content\":\"");
    for (int i = 0; i < TIMES; i++) end = stpcpy(end, words);
    strcpy(end, "\"}");
    const int busy = client_connect(server.port), next = client_connect(server.port);
    client_request(busy, "POST", "/tokenize", "", body);
    client_request(next, "POST", "/tokenize", "", "{\"content\":\"a\"}");
    for (int i = 0; i < 3; i++) {
        struct reply r = ask(server.port, "GET", "/health", "", NULL);
        assert_int_equal(r.status, 200);
        reply_free(&r);
        if (client_read(busy, some, sizeof some, 0) != 0) fail_msg("answer %d of /health came after the long text's", i);
    }
    struct reply second = client_answer(next), first = client_answer(busy);
    assert_int_equal(second.status, 200);
    assert_int_equal(first.status, 200);
    reply_free(&first);
    reply_free(&second);
    free(body);
}

static void unix_socket(void **state)
{
    (void)state;
    char folder[] = "/tmp/forge-socket.XXXXXX", path[64], host[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.sock", folder);
    snprintf(host, sizeof host, "unix:%s", path);
    for (int dies = 1; dies >= 0; dies--) {                   /* the socket of a server that was killed is in nobody's way */
        struct child c = other((const char *const[]){ "--host", dies ? host : path, NULL });
        const int fd = client_connect_file(path);
        assert_true(fd >= 0);
        client_request(fd, "GET", "/v1/models", "", NULL);
        struct reply r = client_answer(fd);
        assert_int_equal(r.status, 200);
        reply_free(&r);
        struct child second = child_start(program, (const char *const[]){ "--host", path, NULL });
        assert_true(second.port == 0 && child_wait(&second, 10) == 1);
        if (dies) { kill(c.pid, SIGKILL); child_wait(&c, 10); }
        else ends_well(&c, SIGTERM);
    }
    assert_int_equal(rmdir(folder), 0);                       /* the socket has gone */
}

static void keys(void **state)
{
    (void)state;
    char path[] = "/tmp/forge-keys.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(write(fd, "# ours\nfirst\n\n second \t\n", 24) == 24);
    close(fd);
    struct child c = other((const char *const[]){ "--api-key", path, "--host", "0.0.0.0", "--cors", "https://page.example", NULL });
    static const struct { const char *header; int status;
    } with[] = {
        {"", 401},
        {"Authorization: Bearer wrong\r\n", 401},
        {"Authorization: Bearer firs\r\n", 401},
        {"Authorization: Bearer first2\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"Authorization: Bearer first\r\n", 200},
        {"X-Api-Key: second\r\n", 200},
    };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct reply r = ask(c.port, "POST", COMPLETIONS, with[i].header, "{\"prompt\":\"Once\",\"max_tokens\":2}");
        if (r.status != with[i].status) fail_msg("%s: %d %s", with[i].header, r.status, r.body);
        assert_true(i > 0 || strstr(r.body, "authentication_error"));
        reply_free(&r);
    }
    struct reply r = ask(c.port, "GET", "/health", "", NULL);
    assert_int_equal(r.status, 200);
    reply_free(&r);
    r = ask(c.port, "OPTIONS", COMPLETIONS, "Origin: https://page.example\r\n", NULL);
    assert_true(r.status == 204 && strstr(r.head, "Access-Control-Allow-Origin: https://page.example") && strstr(r.head, "Authorization"));
    reply_free(&r);
    r = ask(c.port, "GET", "/health", "Origin: https://other.example\r\n", NULL);
    assert_int_equal(r.status, 403);
    reply_free(&r);
    ends_well(&c, SIGINT);
    unlink(path);
}

static void full_queue(void **state)
{
    (void)state;
    struct child c = other((const char *const[]){ "--slots", "1", "--queue", "1", NULL });
    const char *forever = "{\"prompt\":\"Once\",\"ignore_eos\":true,\"stream\":true,\"max_tokens\":900}";
    int fds[2], refused = 0;
    char some[64];
    for (int i = 0; i < 2; i++) {
        fds[i] = client_connect(c.port);
        client_request(fds[i], "POST", COMPLETIONS, "", forever);
        if (i == 0) while (client_read(fds[i], some, sizeof some, 1) == 0) {}
    }
    for (int i = 0; i < 4 && !refused; i++) {
        struct reply r = post(c.port, COMPLETIONS, "{\"prompt\":\"Once\",\"max_tokens\":1}");
        if (r.status == 429) {
            assert_true(strstr(r.body, "rate_limit_error") && strstr(r.head, "Retry-After"));
            refused++;
        }
        reply_free(&r);
    }
    close(fds[0]);
    struct reply r = client_answer(fds[1]);
    assert_true(r.status == 200 && strstr(r.body, "[DONE]"));        /* the waiting request was served */
    reply_free(&r);
    assert_true(refused > 0);
    ends_well(&c, SIGTERM);
}

/* SIGTERM: running requests are finished, new ones are refused, exit code 0; a client that never reads does not delay the end. */
static void graceful_end(void **state)
{
    (void)state;
    struct child c = other((const char *const[]){ "--grace", "20", "--drain", "0", NULL });
    char some[64];
    const int fd = client_connect(c.port);
    client_request(fd, "POST", COMPLETIONS, "",
                   "{\"prompt\":\"Once\",\"ignore_eos\":true,\"stream\":true,\"max_tokens\":600,\"temperature\":0}");
    while (client_read(fd, some, 9, 1) == 0) {}
    kill(c.pid, SIGTERM);
    for (int i = 0; i < 400; i++) {
        const int late = client_connect(c.port);
        if (late < 0) break;
        close(late);
        usleep(5000);
    }
    assert_true(client_connect(c.port) < 0);
    struct reply r = client_answer(fd);
    free(r.head);
    const int code = child_wait(&c, 30);
    if (code) fail_msg("exit code %d: %s", code, child_said(&c));
    c = other((const char *const[]){ "--grace", "0", "--drain", "0", NULL });
    const int silent = client_connect(c.port);
    client_request(silent, "POST", COMPLETIONS, "", "{\"prompt\":\"Once\",\"ignore_eos\":true,\"stream\":true}");
    usleep(20000);
    const double start = now();
    ends_well(&c, SIGTERM);
    assert_true(now() - start < 5);
    close(silent);
}

/* A load balancer can see that the server is ending before a request is refused. */
static void told_end(void **state)
{
    (void)state;
    struct child c = other((const char *const[]){ "--drain", "1", NULL });
    const double start = now();
    kill(c.pid, SIGTERM);
    struct reply r = { 0 };
    do {
        reply_free(&r);
        r = ask(c.port, "GET", "/health", "", NULL);
    } while (r.status == 200 && now() - start < 1);
    assert_int_equal(r.status, 503);
    reply_free(&r);
    r = post(c.port, COMPLETIONS, "{\"prompt\":\"Once\",\"max_tokens\":2}");
    assert_int_equal(r.status, 200);
    reply_free(&r);
    assert_int_equal(child_wait(&c, 10), 0);
    assert_true(now() - start >= 0.9);
    c = other((const char *const[]){ "--drain", "600", NULL });
    kill(c.pid, SIGTERM);
    usleep(100000);
    ends_well(&c, SIGTERM);
    c = other((const char *const[]){ "--drain", "600", NULL });
    ends_well(&c, SIGINT);
}

static void does_not_start(void **state)
{
    (void)state;
    static const struct { const char *arguments[4]; int code; const char *says;
    } wrong[] = {
        {{"--host", "0.0.0.0"}, 2, "--insecure"},
        {{"--host", "no.such.host.invalid"}, 2, "no.such.host.invalid"},
        {{"--api-key", "/nowhere/keys"}, 1, "/nowhere/keys"},
        {{"--slots", "0"}, 2, "--parallel"},
        {{"--api-key", "sk-something"}, 2, "--api-key takes a file"},
        {{"--port", "70000"}, 2, "--port"},
        {{"--bench"}, 2, "only one of"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct child c = child_start(program, wrong[i].arguments);
        assert_int_equal(c.port, 0);
        const int code = child_wait(&c, 10);
        if (code != wrong[i].code || !strstr(child_said(&c), wrong[i].says))
            fail_msg("%s: %d, %s", wrong[i].arguments[0], code, child_said(&c));
    }
    char port[16];
    snprintf(port, sizeof port, "%d", server.port);
    struct child c = child_start(program, (const char *const[]){ "--port", port, NULL });
    assert_true(c.port == 0 && child_wait(&c, 10) == 1 && strstr(child_said(&c), "cannot listen"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_answers), cmocka_unit_test(same_text), cmocka_unit_test(seeds), cmocka_unit_test(stops),
        cmocka_unit_test(first_of_stops), cmocka_unit_test(whole_characters), cmocka_unit_test(log_probabilities),
        cmocka_unit_test(prefixes), cmocka_unit_test(refusals), cmocka_unit_test(origins), cmocka_unit_test(hosts),
        cmocka_unit_test(strict_http), cmocka_unit_test(lawful_http), cmocka_unit_test(half_closed), cmocka_unit_test(slow_clients),
        cmocka_unit_test(few_files), cmocka_unit_test(pings), cmocka_unit_test(order_of_prompts), cmocka_unit_test(long_reading),
        cmocka_unit_test(unix_socket), cmocka_unit_test(clients_that_leave), cmocka_unit_test(half_requests), cmocka_unit_test(keys),
        cmocka_unit_test(full_queue), cmocka_unit_test(graceful_end), cmocka_unit_test(told_end), cmocka_unit_test(does_not_start),
    };
    if (argc != 2) { fprintf(stderr, "usage: test_server PROGRAM\n"); return 2; }
    program = argv[1];
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
