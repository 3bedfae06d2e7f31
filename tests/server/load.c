/* load.c -- many clients at once, each asking for text after text: errors, rates, fairness, memory.
 *
 *   load PROGRAM|PORT CLIENTS SECONDS TOKENS [PROMPT-TOKENS] [-- OPTIONS OF THE PROGRAM...]
 *
 * PORT: of a running server.  A prompt is PROMPT-TOKENS token ids (default 8); the prompts of half of the clients begin alike.  Answers are
 * streams, unless the environment has WHOLE=1.  TEMPERATURE in the environment: default 0.8; use 0 for --random-weights, where thousands of
 * logits tie.  REQUEST: more members of each request, such as '"json_schema":{"type":"object"},'.  SIGTERM ends it earlier.
 * Prints one line; exit code 1: a request failed, memory grew, or the slowest client had less than half of the mean. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "client.h"

static int port, n_tokens, n_prompt = 8;
static const char *temperature = "0.8", *members = "",
                  *const stream = "\"stream\":true,\"stream_options\":{\"include_usage\":true},";
static double until;
static volatile sig_atomic_t enough;         /* SIGTERM: no more texts */
static bool whole;
struct client { pthread_t thread; int number; unsigned long texts, tokens, failed; };

/* Requests one text; returns the number of its tokens as its usage reports them, -1: it failed. */
static long one(struct client *c, unsigned *random)
{
    char *body = malloc(256 + strlen(members) + 12 * (size_t)n_prompt), *at = body, piece[16384];
    long tokens = -1;
    at += sprintf(at, "{\"prompt\":[");
    for (int i = 0; i < n_prompt; i++) {
        const int id = i < n_prompt / 2 && c->number % 2 ? 100 + i % 50 : (int)(rand_r(random) % 250) + 3;
        at += sprintf(at, i ? ",%d" : "%d", id);
    }
    sprintf(at, "],\"max_tokens\":%d,\"ignore_eos\":true,%s%s\"temperature\":%s,\"seed\":%u}", n_tokens, whole ? "" : stream, members,
            temperature, *random & 0xffff);
    const int fd = client_connect(port);
    if (fd < 0) { free(body); return -1; }
    client_request(fd, "POST", "/v1/completions", "", body);
    free(body);
    bool ok = false, done = false;
    for (ssize_t n; (n = client_read(fd, piece, sizeof piece - 1, 60)) > 0; ) {
        piece[n] = 0;
        ok |= strstr(piece, " 200 OK") != NULL;
        const char *count = strstr(piece, "\"completion_tokens\":");
        if (count) tokens = atol(count + 20);
        if (strstr(piece, "[DONE]")) done = true;
    }
    close(fd);
    return ok && (done || whole) ? tokens : -1;
}

static void *run(void *client)
{
    struct client *c = client;
    unsigned random = 12345u + 7919u * (unsigned)c->number;
    while (now() < until && !enough) {
        const long n = one(c, &random);
        if (n < 0) c->failed++;
        else { c->texts++; c->tokens += (unsigned long)n; }
    }
    return NULL;
}

static void on_enough(int number) { enough = number; }

static long resident_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

int main(int argc, char **argv)
{
    const char *arguments[48] = { NULL };
    int n = 0, k = 5;
    if (argc < 5) { fprintf(stderr, "usage: load PROGRAM CLIENTS SECONDS TOKENS [PROMPT-TOKENS] [-- OPTIONS]\n"); return 2; }
    if (argc > 5 && strcmp(argv[5], "--") != 0) { n_prompt = atoi(argv[5]); k++; }
    for (k++; k < argc && n < 47; k++) arguments[n++] = argv[k];
    const int clients = atoi(argv[2]);
    const bool runs = argv[1][strspn(argv[1], "0123456789")] == 0;
    if (getenv("TEMPERATURE")) temperature = getenv("TEMPERATURE");
    if (getenv("REQUEST")) members = getenv("REQUEST");
    whole = getenv("WHOLE") != NULL;
    const double seconds = atof(argv[3]);
    n_tokens = atoi(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_enough);
    struct child server = { 0 };
    if (runs) server.port = atoi(argv[1]);
    else server = child_start(argv[1], arguments);
    if (!server.port) { fprintf(stderr, "%s", child_said(&server)); return 1; }
    port = server.port;
    struct client *list = calloc((size_t)clients, sizeof *list);
    const double start = now();
    until = start + seconds;
    for (int i = 0; i < clients; i++) {
        list[i].number = i;
        pthread_create(&list[i].thread, NULL, run, &list[i]);
    }
    usleep((useconds_t)(seconds * 4e5));
    const long middle = runs ? 0 : resident_kib(server.pid);
    for (int i = 0; i < clients; i++) pthread_join(list[i].thread, NULL);
    const double took = now() - start;
    const long end = runs ? 0 : resident_kib(server.pid);
    unsigned long tokens = 0, texts = 0, failed = 0, least = (unsigned long)-1;
    for (int i = 0; i < clients; i++) {
        tokens += list[i].tokens;
        texts += list[i].texts;
        failed += list[i].failed;
        if (list[i].tokens < least) least = list[i].tokens;
    }
    if (!runs) kill(server.pid, SIGTERM);
    const int code = runs ? 0 : child_wait(&server, 40);
    const double share = tokens ? (double)least * clients / (double)tokens : 0;
    printf("%d clients, %.1f s: %lu texts, %lu failed, %.1f tokens/s, slowest client %.2f of the mean, memory %ld to %ld MiB,"
           " exit code %d\n",
           clients, took, texts, failed, (double)tokens / took, share, middle / 1024, end / 1024, code);
    free(list);
    return failed || code || end > middle + middle / 20 + 2048 || (clients > 1 && share < 0.5);
}
