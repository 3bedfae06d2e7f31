/* agents.c -- agents, hostile clients and idle connections at once: every answer is whole and right in form, /health stays quick, and in
 * the end every slot is idle.
 *
 *   [FAULT_ACTION=often] agents PROGRAM SECONDS [AGENTS [HOSTILE [IDLE]]] [-- OPTIONS OF THE PROGRAM...]
 *
 * PROGRAM: built with --server and a chat template.  AGENTS (default 16): threads that have conversations with tools, by four APIs; some
 * messages are long, some answers are streams, some clients leave in the middle.  HOSTILE (default 2): threads that send damaged bodies and
 * damaged HTTP.  IDLE (default 100): connections that say nothing, come and go.  HEALTH_MS in the environment: the bound of the 99th
 * percentile of /health.  FAULT_ACTION: calls of the server's C library fail at times (tests/fault/fault.c, preloaded by FAULT_LIBRARY);
 * then any answer will do, but the server survives.  Prints one line for each group; exit code 1: something was wrong. */
#include <cjson/cJSON.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "client.h"

enum { MOST_TIMES = 1 << 20, TURNS = 4, LONG_TEXT = 3000, MOST_FAULTS = 20 };

static int port;
static double until;
static bool faulty;
static atomic_ulong answered, left, refused, hostile, idle, faults;

__attribute__((format(printf, 1, 2)))
static void fault(const char *format, ...)
{
    va_list list;
    if (faulty) return;
    if (faults++ >= MOST_FAULTS) return;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

/* ---- agents ---- */

#define SCHEMA "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":9},\"days\":{\"type\":\"integer\"}}," \
               "\"required\":[\"city\"],\"additionalProperties\":false}"

static const struct api { const char *path, *tool, *list, *most, *end; } apis[] = {
    { "/v1/chat/completions",
      "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"Rain\",\"parameters\":" SCHEMA "}}",
      "messages", "\"max_tokens\":%d", "data: [DONE]\n\n" },
    { "/v1/messages", "{\"name\":\"weather\",\"description\":\"Rain\",\"input_schema\":" SCHEMA "}", "messages", "\"max_tokens\":%d",
      "event: message_stop\n" },
    { "/v1/responses", "{\"type\":\"function\",\"name\":\"weather\",\"strict\":false,\"parameters\":" SCHEMA "}", "input",
      "\"max_output_tokens\":%d", "event: response.completed\n" },
    { "/api/chat", "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"Rain\",\"parameters\":" SCHEMA "}}",
      "messages", "\"options\":{\"num_predict\":%d}", "\"done\":true" },
};

/* The body of a turn; messages: objects with commas. */
static char *body_of(const struct api *a, const char *messages, bool streams, unsigned *random)
{
    char *body = NULL, most[64];
    const char *at = strstr(a->most, "%d");
    snprintf(most, sizeof most, "%.*s%d%s", (int)(at - a->most), a->most, 1 + rand_r(random) % 24, at + 2);
    if (asprintf(&body, "{\"model\":\"m\",\"%s\":[%s],\"stream\":%s,\"tools\":[%s],%s}", a->list, messages,
                 streams ? "true" : "false", a->tool, most) < 0) abort();
    return body;
}

static void add_text(char **messages, const char *role, const char *text)
{
    char *more = NULL;
    if (asprintf(&more, "%s%s{\"role\":\"%s\",\"content\":\"%s\"}", *messages, **messages ? "," : "", role, text) < 0) abort();
    free(*messages);
    *messages = more;
}

/* Reads a part of the answer, or less, and goes. */
static void leave(int fd, unsigned *random)
{
    char some[512];
    const double wait = 0.001 * (rand_r(random) % 20);
    if (rand_r(random) % 2) client_read(fd, some, sizeof some, wait);
    close(fd);
}

static void check_answer(const struct api *a, const struct reply *r, bool streams)
{
    if (r->status == 429 || r->status == 400) { refused++; return; }     /* full, or longer than the context */
    answered++;
    if (r->status != 200) { fault("%s: %d %s", a->path, r->status, r->body ? r->body : "no answer"); return; }
    if (streams) {
        const bool failed = strstr(r->body, "event: response.incomplete\n") != NULL;
        if (!strstr(r->body, a->end) && !failed) fault("%s: the stream has no end: %s", a->path, r->body);
        return;
    }
    cJSON *v = cJSON_Parse(r->body);
    if (!v) fault("%s: no JSON: %s", a->path, r->body);
    cJSON_Delete(v);
}

static void *agent(void *number)
{
    unsigned random = 77u + 7919u * (unsigned)(size_t)number;
    while (now() < until) {
        const struct api *a = &apis[rand_r(&random) % 4];
        char *messages = strdup("");
        for (int turn = 0; turn < TURNS && now() < until; turn++) {
            char text[LONG_TEXT + 1];
            const size_t n = rand_r(&random) % 8 == 0 ? LONG_TEXT : 1 + (size_t)rand_r(&random) % 40;
            for (size_t i = 0; i < n; i++) text[i] = "etaoin shrdlu "[rand_r(&random) % 14];
            text[n] = 0;
            add_text(&messages, "user", text);
            const bool streams = rand_r(&random) % 2;
            char *body = body_of(a, messages, streams, &random);
            const int fd = client_connect(port);
            client_request(fd, "POST", a->path, "", body);
            free(body);
            if (rand_r(&random) % 5 == 0) {
                leave(fd, &random);
                left++;
                continue;
            }
            struct reply r = client_answer(fd);
            check_answer(a, &r, streams);
            reply_free(&r);
            add_text(&messages, "assistant", "well");
        }
        free(messages);
    }
    return NULL;
}

/* ---- hostile clients ---- */

static void *attacker(void *number)
{
    static const char *const raw[] = {
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{\"\r", "GET / HTTP/9\r\n\r\n", "\r\n\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    unsigned random = 5u + 104729u * (unsigned)(size_t)number;
    while (now() < until) {
        hostile++;
        if (rand_r(&random) % 8 == 0) {
            const char *bytes = raw[(size_t)rand_r(&random) % (sizeof raw / sizeof *raw)];
            const int fd = client_connect(port);
            client_send(fd, bytes, strlen(bytes));
            leave(fd, &random);
            continue;
        }
        const struct api *a = &apis[rand_r(&random) % 4];
        char *body = body_of(a, "{\"role\":\"user\",\"content\":\"hi\"}", rand_r(&random) % 2, &random), *bad = spoiled(body, &random);
        const int fd = client_connect(port);
        const double start = now();
        client_request(fd, "POST", a->path, "", bad);
        if (rand_r(&random) % 4 == 0) leave(fd, &random);
        else {
            struct reply r = client_answer(fd);
            const bool slow = now() - start > 50;            /* the damage may have taken the limit of the answer's length */
            if ((r.status == 0 && !slow) || (r.status >= 500 && r.status != 503))
                fault("a damaged body: %d %s: %s", r.status, r.body ? r.body : "", bad);
            reply_free(&r);
        }
        free(body);
        free(bad);
    }
    return NULL;
}

/* ---- connections that say nothing ---- */

static void *sleeper(void *connections)
{
    const size_t n = (size_t)connections;
    int *fds = calloc(n, sizeof *fds);
    unsigned random = 3;
    for (size_t i = 0; i < n; i++) fds[i] = -1;
    while (now() < until && n > 0) {
        const size_t i = (size_t)rand_r(&random) % n;
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = client_connect(port);
        if (fds[i] >= 0 && rand_r(&random) % 2) client_send(fds[i], "GET /he", 7);
        idle++;
        usleep(500);
    }
    for (size_t i = 0; i < n; i++) if (fds[i] >= 0) close(fds[i]);
    free(fds);
    return NULL;
}

/* ---- /health ---- */

static double *times;
static size_t n_times;

static void *doctor(void *nothing)
{
    (void)nothing;
    while (now() < until && n_times < MOST_TIMES) {
        const double start = now();
        struct reply r = ask(port, "GET", "/health", "", NULL);
        times[n_times++] = now() - start;
        if (r.status != 200) fault("/health: %d", r.status);
        reply_free(&r);
        usleep(5000);
    }
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In the end no slot works. */
static void check_idle(void)
{
    for (const double start = now(); now() - start < 60; usleep(50000)) {
        struct reply r = ask(port, "GET", "/slots", "", NULL);
        const bool works = !r.body || strstr(r.body, "\"is_processing\":true") != NULL;
        reply_free(&r);
        if (!works) return;
    }
    fault("a slot still works, a minute after the last client");
}

static void check_chat(void)
{
    unsigned random = 1;
    char *body = body_of(&apis[0], "{\"role\":\"user\",\"content\":\"hi\"}", false, &random);
    struct reply r = ask(port, "POST", apis[0].path, "", body);
    if (r.status != 200) fault("the last chat: %d %s", r.status, r.body ? r.body : "no answer");
    reply_free(&r);
    free(body);
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    const char *arguments[48] = { NULL };
    int counts[3] = { 16, 2, 100 }, k = 3, n = 0;
    if (argc < 3) { fprintf(stderr, "usage: agents PROGRAM SECONDS [AGENTS [HOSTILE [IDLE]]] [-- OPTIONS]\n"); return 2; }
    for (; k < argc && k < 6 && strcmp(argv[k], "--") != 0; k++) counts[k - 3] = atoi(argv[k]);
    for (k++; k < argc && n < 47; k++) arguments[n++] = argv[k];
    signal(SIGPIPE, SIG_IGN);
    const char *library = getenv("FAULT_LIBRARY");
    if (library && *library) setenv("LD_PRELOAD", library, 1);
    struct child server = child_start(argv[1], arguments);
    unsetenv("LD_PRELOAD");
    if (!server.port || counts[0] + counts[1] > MOST) { fprintf(stderr, "%s", child_said(&server)); return 2; }
    port = server.port;
    until = now() + atof(argv[2]);
    faulty = library && *library;
    if (faulty) kill(server.pid, SIGUSR2);
    times = calloc(MOST_TIMES, sizeof *times);
    pthread_t threads[MOST + 2];
    int n_threads = 0;
    for (int i = 0; i < counts[0]; i++) pthread_create(&threads[n_threads++], NULL, agent, (void *)(size_t)i);
    for (int i = 0; i < counts[1]; i++) pthread_create(&threads[n_threads++], NULL, attacker, (void *)(size_t)i);
    pthread_create(&threads[n_threads++], NULL, sleeper, (void *)(size_t)counts[2]);
    pthread_create(&threads[n_threads++], NULL, doctor, NULL);
    for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
    if (faulty) kill(server.pid, SIGUSR2);
    faulty = false;
    check_idle();
    check_chat();
    kill(server.pid, SIGTERM);
    const int code = child_wait(&server, 60);
    if (code != 0) fault("the server ended with %d: %s", code, child_said(&server));
    qsort(times, n_times, sizeof *times, by_time);
    const double p99 = n_times ? times[n_times - 1 - n_times / 100] : 0;
    if (getenv("HEALTH_MS") && 1e3 * p99 > atof(getenv("HEALTH_MS"))) fault("/health is too slow");
    printf("agents: %lu answers, %lu left, %lu refused; %lu hostile requests; %lu idle connections\n", answered, left, refused, hostile,
           idle);
    printf("/health: %zu times, half within %.2f ms, 99 %% within %.2f ms, all within %.2f ms; %lu faults\n", n_times,
           n_times ? 1e3 * times[n_times / 2] : 0, 1e3 * p99, n_times ? 1e3 * times[n_times - 1] : 0, faults);
    free(times);
    return faults > 0;
}
