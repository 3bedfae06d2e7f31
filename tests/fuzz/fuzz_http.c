/* fuzz_http.c -- libFuzzer: for any input of clients the server answers or closes; no slot stays busy, JSON is valid, /health works.
 * Three servers of programs (runtime/serve) run in this process: with chats; with chats and keys; with vectors.  The model writes texts of
 * a table, with noise.
 * First byte: bits 0-1: the server; 2-3: the client stays, stays and sends in pieces, leaves after sending, or leaves when the answer
 * begins; 4: the body is chunked; 5: the rest are the bytes to send; 6-7: number of clients that send the same at once, minus 1.  Without
 * bit 5 the rest is PATH BODY for a POST, or PATH for a GET.
 * Vocabulary: tiny-qwen2-a.gguf. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "compiler/chat/template.h"
#include "compiler/product/vocab.h"
#include "runtime/model/pool.h"
#include "runtime/serve/server.h"
#include "runtime/text/tokenize.h"

/* ---- a model that writes the texts below ---- */

enum { N_VOCAB = 512, N_CTX = 400, N_EMBD = 8, CHUNK = 64, MOST_SAID = 200, N_SLOTS = 2, N_WAITING = 1 };
static const char *const sayings[] = {
    "Once upon a time there was a king. \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
    "<think>\nwhy not</think>\nSo be it",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x\"]}}\n</tool_call>",
    "Well <tool_call>\n{\"name\": \"f\", \"argum",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": null}\n</tool_call> .",
    "\xe4\xb8",
    "",
};
enum { N_SAYINGS = sizeof sayings / sizeof *sayings };
static int32_t said[N_SAYINGS][MOST_SAID];
static uint32_t n_said[N_SAYINGS];
static const uint8_t *vocab;

/* The state of a position: its token, its distance from the end of the prompt, and the text of the answer. */
struct heard { int32_t token; uint32_t since, saying, unused; };

static void step(const struct forge_args *a, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads)
{
    struct heard *heard = (struct heard *)(void *)a->state;
    (void)launch;
    (void)thread;
    (void)n_threads;
    for (uint32_t t = 0; t < a->n_tokens; t++) {
        const uint32_t at = a->n_past + t;
        if (a->tokens[t] < 0 || a->tokens[t] >= N_VOCAB || at >= N_CTX) abort();
        heard[at] = (struct heard){ a->tokens[t], 0, at % N_SAYINGS, 0 };
        if (a->n_tokens == 1 && at > 0) heard[at] = (struct heard){ a->tokens[t], heard[at - 1].since + 1, heard[at - 1].saying, 0 };
    }
    for (uint32_t l = 0; l < a->n_logits; l++) {
        const struct heard *p = &heard[a->n_past + a->n_tokens - a->n_logits + l];
        const uint32_t n = n_said[p->saying];
        uint32_t h = (uint32_t)p->token * 0x9e3779b1u + p->since;
        float *x = a->logits + (size_t)l * N_VOCAB;
        for (uint32_t v = 0; v < N_VOCAB; v++) x[v] = (float)((h = h * 1664525u + 1013904223u) >> 8) * 0x1p-22f;
        x[p->since < n ? said[p->saying][p->since] : forge_vocab_eos(vocab)] += 6;
    }
}

static void rows(const struct forge_args *a, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads)
{
    (void)launch;
    (void)thread;
    (void)n_threads;
    for (uint32_t i = 0; i < a->n_logits * N_EMBD; i++) a->logits[i] = (float)(i + 1) + (float)a->tokens[0];
}

static const struct forge_launch steps = { .kernel = step, .name = "step" }, row_steps = { .kernel = rows, .name = "rows" };
static const struct forge_state states[1] = { { .kind = FORGE_STATE_KV, .bytes = N_CTX * sizeof(struct heard), .runs = 1, .rows = N_CTX,
                                                .row_bytes = sizeof(struct heard), .back = UINT32_MAX } };
static const struct forge_embedding embedding = { .pooling = FORGE_POOL_MEAN };

static const char template[] =
    "{%- if tools %}[{% for t in tools %}{{ t.function.name }} {% endfor %}<tool_call>]{% endif -%}\n"
    "{%- for m in messages -%}\n"
    "{%- if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('no such role: ' ~ m.role) }}{% endif -%}\n"
    "<|im_start|>{{ m.role }}\n{{ m.content }}\n"
    "{%- for c in m.tool_calls or [] %}{{ c.function.name|tojson ~ ': ' ~ c.function.arguments|tojson }}{% endfor %}<|im_end|>\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt %}<|im_start|>{{ opening }}{% if enable_thinking %}<think>{% endif %}{% endif -%}";

const char forge_page[] = "<!doctype html>";
static const _Alignas(64) uint8_t image[64] = { 1 };
const uint8_t *const forge_weights = image;
const struct forge_program *const forge_programs[] = { NULL };
const uint32_t forge_n_programs = 0;
const char *const forge_edited_source = NULL;

/* ---- the servers ---- */

enum { CHATS, KEYS, VECTORS, N_SERVERS };
static struct one {
    struct forge_program program;
    struct forge_engine engine;
    struct forge_options options;
    struct forge_error error;
    struct server server;
    int port;
} ones[N_SERVERS];

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "fuzz_http: %s\n", what);
    abort();
}

static void on_wake(evutil_socket_t fd, short what, void *server)
{
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) > 0) requests_update(server);
}

static void nothing(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    (void)context;
}

static int port_of(const struct http *h)
{
    struct sockaddr_storage a;
    socklen_t n;
    http_address(h, &a, &n);
    must(n > 0 && a.ss_family == AF_INET, "no port");
    return ntohs(((const struct sockaddr_in *)(const void *)&a)->sin_port);
}

static void open_server(struct one *o, const uint8_t *chat, bool keys, bool vectors)
{
    static const struct timeval second = { 1, 0 };
    o->program = (struct forge_program){
        .abi_version = FORGE_ABI_VERSION, .n_vocab = N_VOCAB, .n_ctx = N_CTX, .n_embd = N_EMBD, .n_layer = 1, .chunk = CHUNK,
        .max_logits = CHUNK, .max_threads = 1, .n_decode = 1, .n_prefill = 1, .decode = vectors ? &row_steps : &steps,
        .prefill = vectors ? &row_steps : &steps, .arena_bytes = 64, .weights_bytes = sizeof image,
        .state_bytes = N_CTX * sizeof(struct heard), .n_states = 1, .states = states, .model_name = "fake \"model\"",
        .architecture = "fake", .formats = "F32 1", .target = "fake", .options = "", .compiler = "by hand", .vocab = vocab, .chat = chat,
        .model_hash = "0", .embedding = vectors ? &embedding : NULL, .sampling = { -1, -1, -1, -1, -1, -1 } };
    o->options = (struct forge_options){ .host = "127.0.0.1", .slots = N_SLOTS, .most_waiting = N_WAITING, .max_body = 1, .grace = 1,
                                         .patience = 30, .seed_given = true,
                                         .sample = { .top_k = 40, .top_p = 1, .repeat_penalty = 1, .seed = 1 } };
    if (keys) {
        static const char list[] = "# keys\nkey1\n";
        char path[64];
        const int fd = memfd_create("keys", 0);
        must(write(fd, list, sizeof list - 1) > 0, "memfd");
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        o->options.api_key_path = strdup(path);
        o->options.cors[o->options.n_cors++] = "https://page.example";
    }
    must(engine_open(&o->engine, &o->program, NULL, &(struct forge_weights_source){ .path = NULL }, 1, 0,
                     batch_sequences(&o->program, N_SLOTS), &o->error) == FORGE_OK, o->error.text);
    struct server *s = &o->server;
    *s = (struct server){ .options = &o->options, .program = &o->program, .engine = &o->engine, .error = &o->error,
                          .base = event_base_new(), .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    must(batch_open(&s->batch, &o->engine, &(struct batch_options){ N_SLOTS, N_WAITING, s->wake_fd }, &o->error) == FORGE_OK &&
         reader_open(s, &o->error) == FORGE_OK && routes_open(s, &o->error) == FORGE_OK, o->error.text);
    event_add(event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s), NULL);
    event_add(event_new(s->base, -1, EV_PERSIST, nothing, NULL), &second);
    o->port = port_of(s->http);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct arena *a = arena_create();                          /* never freed: the images are in it */
    signal(SIGPIPE, SIG_IGN);                                  /* as serve_run() does */
    vocab = vocab_build(a, gguf_open(a, FORGEC_UNPACKED "/tokenizers/tiny-qwen2-a.gguf", true), 0).data;
    must(forge_vocab_n_tokens(vocab) <= N_VOCAB && forge_vocab_eos(vocab) >= 0, "another vocabulary");
    const struct chat_source source = { NULL, { (const uint8_t *)template, sizeof template - 1 } };
    struct chat_warnings warnings = { .n = 0 };
    struct chat_problem problem = { 0, NULL };
    uint32_t at;
    const struct bytes chat = chat_compile(a, &source, 1, &warnings, &problem, &at);
    must(chat.data, problem.text ? problem.text : "no template");
    for (size_t i = 0; i < N_SAYINGS; i++) {
        struct forge_tokens t;
        struct forge_error error;
        must(tokens_of_text(&t, vocab, sayings[i], strlen(sayings[i]), FORGE_TOK_SPECIAL, &error) == FORGE_OK, error.text);
        must(t.n <= MOST_SAID, "a saying is too long");
        for (size_t k = 0; k < t.n; k++) said[i][k] = t.ids[k];
        n_said[i] = (uint32_t)t.n;
        free(t.ids);
    }
    open_server(&ones[CHATS], chat.data, false, false);
    open_server(&ones[KEYS], chat.data, true, false);
    open_server(&ones[VECTORS], NULL, false, true);
    return 0;
}

/* ---- clients ---- */

enum leaving { STAYS, SENDS_SLOWLY, LEAVES_SENT, LEAVES_ANSWERED };
enum { MOST_CLIENTS = 4, MOST_ANSWER = 1 << 20 };
struct client { int fd; const char *bytes; size_t n, sent; enum leaving leaving; char *answer; size_t n_answer; };

static struct client connect_to(int port, const char *bytes, size_t n, enum leaving leaving)
{
    struct client c = { socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), bytes, n, 0, leaving, NULL, 0 };
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct linger none = { 1, 0 };                       /* closing resets the connection, so that ports do not run out */
    must(c.fd >= 0 && (connect(c.fd, (const struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS), strerror(errno));
    setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return c;
}

static bool leave(struct client *c)
{
    close(c->fd);
    c->fd = -1;
    return true;
}

/* Sends and reads what is possible; true: bytes moved or the client left. */
static bool go_on(struct client *c)
{
    if (c->fd < 0) return false;
    bool moved = false;
    const size_t left = c->n - c->sent, piece = c->leaving == SENDS_SLOWLY && left > 7 ? 7 : left;
    if (left > 0) {
        const ssize_t n = send(c->fd, c->bytes + c->sent, piece, MSG_NOSIGNAL);
        if (n > 0) c->sent += (size_t)n;
        if (n > 0) moved = true;
        else if (errno != EAGAIN) c->sent = c->n;
    }
    if (c->sent == c->n && c->leaving == LEAVES_SENT) {
        if (c->n % 2) return leave(c);                         /* resets the connection */
        shutdown(c->fd, SHUT_WR);
    }
    if (!c->answer) c->answer = malloc(MOST_ANSWER);
    const size_t room = MOST_ANSWER - 1 - c->n_answer;
    const ssize_t n = recv(c->fd, c->answer + c->n_answer, room, 0);
    if (n > 0) c->n_answer += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN) || (n > 0 && (c->leaving == LEAVES_ANSWERED || (size_t)n == room))) return leave(c);
    return moved || n > 0;
}

static bool is_idle(struct one *o)
{
    struct batch_numbers n;
    batch_numbers(o->server.batch, &n, NULL);
    return !o->server.requests && n.n_active == 0 && n.n_waiting == 0;
}

/* Runs clients and server until all are idle. */
static void talk(struct one *o, struct client *c, uint32_t n)
{
    int quiet = 0;
    for (const double since = seconds_now(); quiet < 3; ) {
        bool moved = false;
        for (uint32_t i = 0; i < n; i++) moved |= go_on(&c[i]);
        const bool waits = !moved && o->server.requests;       /* waits for the model; its thread wakes this thread */
        event_base_loop(o->server.base, waits ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
        quiet = moved || o->server.requests ? 0 : quiet + 1;
        must(seconds_now() - since < 20, "an answer takes longer than 20 s");
    }
    for (uint32_t i = 0; i < n; i++) if (c[i].fd >= 0) leave(&c[i]);
    for (const double since = seconds_now(); !is_idle(o); event_base_loop(o->server.base, EVLOOP_NONBLOCK))
        must(seconds_now() - since < 20, "a slot is still busy after 20 s");
    event_base_loop(o->server.base, EVLOOP_NONBLOCK);
}

/* ---- answers ---- */

static void check_json(const char *text, size_t n)
{
    static uint8_t tree[1 << 22];
    struct room r = room_of(tree, sizeof tree);
    struct json_error error;
    if (json_read(&r, text, n, &error) || !error.why) return;
    fprintf(stderr, "%.*s\n%s at byte %zu\n", (int)n, text, error.why, error.at);
    abort();
}

/* Checks one complete answer to one request. */
static void check_answer(struct client *c)
{
    c->answer[c->n_answer] = 0;
    const int status = strncmp(c->answer, "HTTP/1.1 ", 9) == 0 ? atoi(c->answer + 9) : 0;
    char *body = strstr(c->answer, "\r\n\r\n");
    if (!body || status < 200 || status == 500) fprintf(stderr, "%.2000s\n", c->answer);
    must(body && status >= 200 && status != 500, "no answer, or 500");
    body[2] = 0;                                               /* the end of the head */
    body += 4;
    const size_t n = c->n_answer - (size_t)(body - c->answer);
    if (strstr(c->answer, "Content-Type: application/json")) { check_json(body, n); return; }
    const bool lines = strstr(c->answer, "Content-Type: application/x-ndjson") != NULL;
    if (!lines && !strstr(c->answer, "Content-Type: text/event-stream")) return;
    for (const char *line = body; lines && (line = strstr(line, "\n{")); ) {
        const char *end = strchr(++line, '\n');
        must(end, "a line without an end");
        check_json(line, (size_t)(end - line));
        line = end;
    }
    for (const char *line = body; !lines && (line = strstr(line, "\ndata: ")); ) {
        line += 7;
        const char *end = strstr(line, "\n\n");
        must(end, "an event without an end");
        if (strncmp(line, "[DONE]", 6) != 0) check_json(line, (size_t)(end - line));
    }
    must(c->n_answer > 5 && strcmp(c->answer + c->n_answer - 5, "0\r\n\r\n") == 0, "a stream without an end");
}

static void check_health(struct one *o)
{
    static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct client c = connect_to(o->port, request, sizeof request - 1, STAYS);
    talk(o, &c, 1);
    must(c.n_answer > 12 && memcmp(c.answer, "HTTP/1.1 200", 12) == 0, "/health does not answer");
    free(c.answer);
}

/* ---- inputs ---- */

/* PATH BODY as a request; NULL: the path could be more than one. */
static char *request_of(const uint8_t *data, size_t size, bool keys, bool chunks, size_t *n)
{
    const uint8_t *space = memchr(data, ' ', size);
    const size_t path = space ? (size_t)(space - data) : size, body = space ? size - path - 1 : 0;
    for (size_t i = 0; i < path; i++) if (data[i] <= ' ' || data[i] >= 127) return NULL;
    char *to = malloc(2 * size + 512);
    int at = sprintf(to, "%s %.*s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n", space ? "POST" : "GET", (int)path,
                     (const char *)data, keys ? "Authorization: Bearer key1\r\n" : "");
    if (!chunks) at += sprintf(to + at, "Content-Length: %zu\r\n\r\n", body);
    else at += sprintf(to + at, "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t from = 0, piece; from < body; from += piece) {
        piece = chunks && body - from > 100 ? 100 : body - from;
        if (chunks) at += sprintf(to + at, "%zx\r\n", piece);
        memcpy(to + at, space + 1 + from, piece);
        at += (int)piece;
        if (chunks) at += sprintf(to + at, "\r\n");
    }
    if (chunks) at += sprintf(to + at, "0\r\n\r\n");
    *n = (size_t)at;
    return to;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t n_inputs;
    if (size < 2) return 0;
    const uint8_t flags = data[0];
    struct one *o = &ones[(flags & 3) % N_SERVERS];
    const enum leaving leaving = flags >> 2 & 3;
    const bool raw = flags & 32;
    size_t n = size - 1;
    char *made = raw ? NULL : request_of(data + 1, n, o == &ones[KEYS], flags & 16, &n);
    if (!raw && (!made || made[strcspn(made, " ") + 1] != '/')) { free(made); return 0; }
    struct client clients[MOST_CLIENTS];
    const uint32_t n_clients = 1 + (flags >> 6);
    for (uint32_t i = 0; i < n_clients; i++) clients[i] = connect_to(o->port, raw ? (const char *)data + 1 : made, n, leaving);
    talk(o, clients, n_clients);
    for (uint32_t i = 0; i < n_clients; i++) {
        if (made && leaving < LEAVES_SENT && clients[i].n_answer < MOST_ANSWER - 1) check_answer(&clients[i]);
        free(clients[i].answer);
    }
    if (raw || n_inputs++ % 8 == 0) check_health(o);
    free(made);
    return 0;
}

/* ---- mutations ---- */

static const char *const names[] = {
    "messages", "role", "content", "type", "text", "tools", "tool_choice", "function", "name", "parameters", "arguments", "tool_calls",
    "tool_call_id", "id", "parallel_tool_calls", "response_format", "json_schema", "schema", "strict", "stream", "stream_options",
    "include_usage", "n", "max_tokens", "max_completion_tokens", "n_predict", "stop", "stop_sequences", "logprobs", "top_logprobs", "seed",
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n", "logit_bias",
    "ignore_eos", "cache_prompt", "grammar", "prompt", "input", "instructions", "max_output_tokens", "previous_response_id", "call_id",
    "output", "reasoning", "format", "system", "input_schema", "disable_parallel_tool_use", "tool_use_id", "thinking", "reasoning_content",
    "reasoning_effort", "chat_template_kwargs", "documents", "enable_thinking", "opening", "encoding_format", "content", "add_special",
    "parse_special", "with_pieces", "tokens", "properties", "required", "items", "enum", "additionalProperties", "$ref", "$defs", "anyOf",
    "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "const", "metadata", "user", "refusal", "model",
    "options", "num_predict", "think", "raw", "tool_name",
};
static const char *const values[] = {
    "null", "true", "false", "0", "1", "-1", "2", "16", "17", "20", "21", "400", "511", "512", "0.5", "1e-5", "1e308", "-0", "1e400",
    "2147483647", "-2147483648", "9223372036854775807", "18446744073709551616", "\"\"", "\"a\"", "\"\\u0000\"", "\"\\ud800\"", "\"{}\"",
    "\"user\"", "\"assistant\"", "\"system\"", "\"developer\"", "\"tool\"", "\"function\"", "\"auto\"", "\"none\"", "\"required\"",
    "\"any\"", "\"f\"", "\"text\"", "\"json_object\"", "\"json_schema\"", "\"tool_use\"", "\"tool_result\"", "\"thinking\"",
    "\"redacted_thinking\"", "\"function_call\"", "\"function_call_output\"", "\"reasoning\"", "\"message\"", "\"input_text\"",
    "\"<|im_end|>\"", "\"<think>\"", "\"</think>\"", "\"<tool_call>\"", "\"base64\"", "\"float\"", "\"high\"", "\"\\u00e9\\ud83d\\ude00\"",
    "\"root ::= [a-z]+ | \\\"x\\\" root\"", "\"root ::= \\\"yes\\\" | \\\"no\\\"\"", "\"{\\\"a\\\": 1}\"",
    "[]", "{}", "[[]]", "[0]", "[1, 2, 3]",
    "[[5, -100]]", "{\"5\": 100, \"6\": false}", "[\"a\", \"e\", \" \"]", "{\"role\": \"user\", \"content\": \"hi\"}",
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": "
    "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": [1, 2]}\"}}]}",
    "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"3\"}", "{\"type\": \"text\", \"text\": \"a\"}",
    "{\"type\": \"tool_use\", \"id\": \"i\", \"name\": \"f\", \"input\": {\"a\": 1}}",
    "{\"type\": \"tool_result\", \"tool_use_id\": \"i\", \"content\": [{\"type\": \"text\", \"text\": \"7\"}]}",
    "{\"type\": \"thinking\", \"thinking\": \"hm\", \"signature\": \"\"}", "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}",
    "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"type\": \"object\"}}", "{\"name\": \"f\", \"input_schema\": {}}",
    "{\"type\": \"tool\", \"name\": \"f\"}", "{\"type\": \"any\", \"disable_parallel_tool_use\": true}",
    "{\"type\": \"function_call\", \"call_id\": \"c\", \"name\": \"f\", \"arguments\": \"{}\"}",
    "{\"type\": \"function_call_output\", \"call_id\": \"c\", \"output\": \"7\"}", "{\"type\": \"json_object\"}",
    "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"p\", \"schema\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
    "\"integer\", \"minimum\": 0}}, \"required\": [\"a\"], \"additionalProperties\": false}}}",
    "{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"minItems\": 2, \"maxItems\": 2}", "{\"$ref\": \"#\"}",
    "{\"enable_thinking\": true, \"opening\": \"So\"}", "{\"include_usage\": true}", "{\"enum\": [\"x\", 1, null]}",
};
#include "mutate_json.h"

static const char *const paths[] = {
    "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/completions", "/v1/embeddings",
    "/apply-template", "/tokenize", "/detokenize", "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    pick_from(seed);
    const uint8_t *space = size > 1 ? memchr(data + 1, ' ', size - 1) : NULL;
    if (!space || data[0] & 32 || pick(16) == 0) return LLVMFuzzerMutate(data, size, max_size);
    const size_t from = (size_t)(space - data) + 1;
    if (pick(8) == 0) data[0] = (uint8_t)(pick(256) & ~32u);
    if (pick(24) == 0) {                                       /* the same body to another path */
        const char *path = paths[pick(sizeof paths / sizeof *paths)];
        const size_t n = strlen(path), body = size - from;
        if (n + 2 + body > max_size) return size;
        memmove(data + n + 2, data + from, body);
        memcpy(data + 1, path, n);
        data[n + 1] = ' ';
        return n + 2 + body;
    }
    return from + mutate_json(data + from, size - from, max_size - from);
}
