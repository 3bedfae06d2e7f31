/* routes.c -- what is asked for by which path, by whom, and how it is answered: routes, keys, hosts, origins, errors. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/run/entropy.h"
#include "runtime/text/text.h"
#include "server.h"

/* A GET is answered at once; the body of a POST is read by the reader's thread. */
static const struct route {
    const char *path;                                        /* X*: every path that begins with X */
    void (*get)(struct server *s, struct http_request *r);   /* or post, and get is NULL */
    void (*post)(struct request *x);
    bool open;                                               /* without a key */
} routes[] = {
    { "/", page_get, NULL, true },
    { "/health", health_get, NULL, true },                   { "/v1/health", health_get, NULL, true },
    { "/v1/models", models_get, NULL, true },                { "/models", models_get, NULL, true },
    { "/v1/models/*", model_get, NULL, true },               { "/models/*", model_get, NULL, true },
    { "/props", props_get, NULL, false },                    { "/slots", slots_get, NULL, false },
    { "/metrics", metrics_get, NULL, false },
    { "/tokenize", NULL, tokenize_post, false },             { "/detokenize", NULL, detokenize_post, false },
    { "/v1/chat/completions", NULL, chats_post, false },     { "/apply-template", NULL, template_post, false },
    { "/v1/messages", NULL, messages_post, false },          { "/v1/messages/count_tokens", NULL, count_tokens_post, false },
    { "/v1/responses", NULL, responses_post, false },        { "/v1/completions", NULL, completions_post, false },
    { "/chat/completions", NULL, chats_post, false },        { "/responses", NULL, responses_post, false },
    { "/v1/chat/completions/input_tokens", NULL, chats_tokens_post, false },
    { "/chat/completions/input_tokens", NULL, chats_tokens_post, false },
    { "/v1/responses/input_tokens", NULL, responses_tokens_post, false },
    { "/responses/input_tokens", NULL, responses_tokens_post, false },
    { "/completion", NULL, native_post, false },             { "/completions", NULL, native_post, false },
    { "/infill", NULL, infill_post, false },                 { "/v1/embeddings", NULL, embeddings_post, false },
    { "/embedding", NULL, native_embeddings_post, false },   { "/embeddings", NULL, native_embeddings_post, false },
    { "/api/tags", ollama_tags_get, NULL, true },            { "/api/version", ollama_version_get, NULL, true },
    { "/api/ps", ollama_ps_get, NULL, false },               { "/api/show", NULL, ollama_show_post, false },
    { "/api/chat", NULL, ollama_chat_post, false },          { "/api/generate", NULL, ollama_generate_post, false },
    { "/api/embed", NULL, ollama_embed_post, false },        { "/api/embeddings", NULL, ollama_embeddings_post, false },
};
enum { N_ROUTES = sizeof routes / sizeof routes[0] };

/* ---- access ---- */

/* The time that it takes does not reveal how much of the key is right. */
static bool same_key(const char *given, const char *key)
{
    const size_t n = strlen(given), m = strlen(key);
    unsigned differs = n != m;
    for (size_t i = 0; i < n; i++) differs |= (unsigned)(given[i] ^ key[m ? i % m : 0]);
    return differs == 0;
}

static bool has_key(const struct server *s, struct http_request *r)
{
    const char *bearer = http_header(r, "Authorization"), *given = http_header(r, "X-Api-Key");
    bool found = s->n_keys == 0;
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) given = bearer + 7;
    for (size_t i = 0; i < s->n_keys && given; i++) found |= same_key(given, s->keys[i]);
    return found;
}

/* The host of "http://host:port" or "host:port". */
static size_t host_of(const char *text, const char **host)
{
    const char *scheme = strstr(text, "://");
    *host = scheme ? scheme + 3 : text;
    if (**host == '[') return strcspn(*host, "]") + 1;
    return strcspn(*host, ":/");
}

static bool is_host(const char *host, size_t n, const char *name) { return n == strlen(name) && strncasecmp(host, name, n) == 0; }

static bool is_this_machine(const char *host, size_t n)
{
    return is_host(host, n, "localhost") || is_host(host, n, "127.0.0.1") || is_host(host, n, "[::1]");
}

/* Is this one of --cors? */
static bool is_permitted(const struct server *s, const char *origin)
{
    for (size_t i = 0; i < s->options->n_cors; i++) if (strcasecmp(s->options->cors[i], origin) == 0) return true;
    return false;
}

/* Other web pages must not use the server without their visitor's knowledge: requests without keys are simple requests. */
static bool origin_allowed(const struct server *s, struct http_request *r)
{
    const char *origin = http_header(r, "Origin"), *to = http_header(r, "Host"), *host, *own;
    if (!origin || is_permitted(s, origin) || is_permitted(s, "*")) return true;
    const size_t n = host_of(origin, &host);
    if (s->is_local) return is_this_machine(host, n);
    if (!to) return false;
    const size_t m = host_of(to, &own);
    return n == m && strncasecmp(host, own, n) == 0;
}

/* A foreign name can be made to point to this machine, and a page of this name is then, for its browser, of the same origin as the server.
 * Keys guard against that, and so does a Unix socket. */
static bool host_allowed(const struct server *s, struct http_request *r)
{
    const char *to = http_header(r, "Host"), *host, *other;
    if (!s->is_local || s->socket_path || s->n_keys > 0 || !to || is_permitted(s, "*")) return true;
    const size_t n = host_of(to, &host);
    if (is_this_machine(host, n) || is_host(host, n, s->options->host)) return true;
    for (size_t i = 0; i < s->options->n_cors; i++) {
        const size_t m = host_of(s->options->cors[i], &other);
        if (n == m && strncasecmp(host, other, n) == 0) return true;
    }
    return false;
}

/* ---- replies ---- */

static void common_headers(const struct server *s, struct http_request *r)
{
    const char *origin = http_header(r, "Origin");
    char id[32];
    if (origin) http_add_header(r, "Vary", "Origin");
    if (origin && origin_allowed(s, r)) {
        http_add_header(r, "Access-Control-Allow-Origin", is_permitted(s, "*") ? "*" : origin);
        http_add_header(r, "Access-Control-Expose-Headers", "x-request-id, request-id, retry-after");
    }
    snprintf(id, sizeof id, "req_%016llx", (unsigned long long)entropy());
    http_add_header(r, "x-request-id", id);                              /* OpenAI's name */
    http_add_header(r, "request-id", id);                                /* Anthropic's */
    http_add_header(r, "Cache-Control", "no-store");
    http_add_header(r, "X-Content-Type-Options", "nosniff");
}

static void reply_bytes(struct server *s, struct http_request *r, int code, const char *type, struct out *o)
{
    common_headers(s, r);
    http_add_header(r, "Content-Type", type);
    if (o->failed) {
        static const char text[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}";
        http_reply(r, 500, text, sizeof text - 1);
    } else http_reply(r, code, o->bytes, o->n);
    out_free(o);
}

void reply_json(struct server *s, struct http_request *r, int code, struct out *o)
{
    reply_bytes(s, r, code, "application/json; charset=utf-8", o);
}

void reply_text(struct server *s, struct http_request *r, const char *type, struct out *o) { reply_bytes(s, r, 200, type, o); }

static const char *error_type(int code)
{
    switch (code) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return code >= 500 ? "server_error" : "invalid_request_error";
    }
}

/* Writes the member that a message begins with: 'temperature' must be ... */
static void put_param(struct out *o, const char *text)
{
    const char *end = *text == '\'' ? strchr(text + 1, '\'') : NULL;
    out_text(o, ",\"param\":");
    if (end) out_string(o, text + 1, (size_t)(end - text) - 1);
    else out_text(o, "null");
}

/* Writes the code that a message ends with: ... (context_length_exceeded) */
static void put_code(struct out *o, const char *text)
{
    const size_t n = strlen(text);
    const char *open = strrchr(text, '(');
    const size_t length = open ? strspn(open + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    out_text(o, ",\"code\":");
    if (length > 0 && open + 1 + length == text + n - 1) out_string(o, open + 1, length);
    else out_text(o, "null");
}

static void put_error(struct out *o, enum api_form form, int code, const char *text)
{
    const char *type = error_type(code);
    if (form == OLLAMA_FORM) out_text(o, "{\"error\":");
    else if (form == ANTHROPIC_FORM)
        out_printf(o, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", code == 500 ? "api_error" : type);
    else out_text(o, "{\"error\":{\"message\":");
    out_string(o, text, strlen(text));
    if (form == ANTHROPIC_FORM && strstr(text, THREAD_UNSUPPORTED))       /* their client then sends whole conversations */
        out_text(o, ",\"details\":{\"error_code\":\"" THREAD_UNSUPPORTED "\",\"unsupported\":[\"thread\"]}");
    if (form != OPENAI_FORM) { out_text(o, form == OLLAMA_FORM ? "}" : "}}"); return; }
    out_printf(o, ",\"type\":\"%s\"", type);
    put_param(o, text);
    put_code(o, text);
    out_text(o, "}}");
}

void reply_error(struct server *s, struct http_request *r, enum api_form form, int code, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    struct out o = { 0 };
    put_error(&o, form, code, text);
    if (code == 429 || code == 503) http_add_header(r, "Retry-After", "1");
    s->n_refused++;
    reply_json(s, r, code, &o);
}

void request_reply(struct request *x, int code, struct out *o)
{
    if (x->reading) {
        x->code = code;
        x->early = *o;
        *o = (struct out){ 0 };
        return;
    }
    struct http_request *r = request_let_go(x);
    if (r) reply_json(x->server, r, code, o);
    else out_free(o);
}

bool request_refuse(struct request *x, int code, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (x->reading) {
        if (x->code == 0) out_text(&x->early, text);
        if (x->code == 0) x->code = code;
        return false;
    }
    if (x->streams) {
        struct out o = { 0 };
        put_error(&o, x->kind->form, code, text);
        stream_event(x, x->kind->form == ANTHROPIC_FORM ? "error" : NULL, &o);
        stream_finish(x, NULL);
        out_free(&o);
    } else {
        struct http_request *r = request_let_go(x);
        if (r) reply_error(x->server, r, x->kind->form, code, "%s", text);
    }
    request_close(x);
    return false;
}

void stream_finish(struct request *x, const char *last)
{
    struct out o = { 0 };
    if (last) {
        out_text(&o, last);
        stream_event(x, NULL, &o);
    }
    struct http_request *r = request_let_go(x);
    if (r) http_end(r);
    out_free(&o);
}

void stream_begin(struct request *x)
{
    static const struct { const char *type, *ping; } forms[] = {
        [OPENAI_FORM]    = { "text/event-stream; charset=utf-8", ": ping\n\n" },
        [ANTHROPIC_FORM] = { "text/event-stream; charset=utf-8", "event: ping\ndata: {\"type\":\"ping\"}\n\n" },
        [OLLAMA_FORM]    = { "application/x-ndjson", " " },  /* white space before the next line */
    };
    if (!x->http || x->streams) return;
    common_headers(x->server, x->http);
    http_add_header(x->http, "Content-Type", forms[x->kind->form].type);
    http_add_header(x->http, "X-Accel-Buffering", "no");
    http_begin(x->http, forms[x->kind->form].ping);
    x->streams = true;
}

void stream_event(struct request *x, const char *name, struct out *data)
{
    const bool lines = x->kind->form == OLLAMA_FORM;
    struct out o = { 0 };
    stream_begin(x);
    if (name) out_printf(&o, "event: %s\n", name);
    if (!lines) out_text(&o, "data: ");
    out_bytes(&o, data->bytes, data->n);
    out_text(&o, lines ? "\n" : "\n\n");
    if (x->http && (o.failed || data->failed)) http_break(x->http);
    else if (x->http) http_piece(x->http, o.bytes, o.n);
    x->started = true;
    out_free(&o);
    data->n = 0;
}

/* ---- requests ---- */

static void preflight(struct server *s, struct http_request *r)
{
    const char *wanted = http_header(r, "Access-Control-Request-Headers");
    struct out none = { 0 };
    http_add_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    http_add_header(r, "Access-Control-Allow-Headers", wanted ? wanted : "Authorization, Content-Type");
    if (http_header(r, "Access-Control-Request-Private-Network")) http_add_header(r, "Access-Control-Allow-Private-Network", "true");
    http_add_header(r, "Access-Control-Max-Age", "86400");
    reply_bytes(s, r, 204, "text/plain", &none);
}

static bool is_path(const char *path, const struct route *route)
{
    const size_t n = strlen(route->path) - 1;
    return route->path[n] == '*' ? strncmp(path, route->path, n) == 0 : strcmp(path, route->path) == 0;
}

/* The route of a request; NULL: it has no such method.  allow: the methods of its path, or NULL: there is no such path. */
static const struct route *route_of(const struct http_request *r, const char **allow)
{
    const char *method = http_method(r);
    *allow = NULL;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!is_path(http_path(r), &routes[i])) continue;
        const bool get = routes[i].get != NULL;
        *allow = get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        if (strcmp(method, get ? "GET" : "POST") == 0 || (get && strcmp(method, "HEAD") == 0)) return &routes[i];
    }
    return NULL;
}

static enum api_form form_of(const struct http_request *r)
{
    const char *path = http_path(r);
    if (path && strncmp(path, "/v1/messages", 12) == 0) return ANTHROPIC_FORM;
    return path && strncmp(path, "/api/", 5) == 0 ? OLLAMA_FORM : OPENAI_FORM;
}

/* Everything that can be refused before the body has been read. */
static bool on_admit(void *server, struct http_request *r)
{
    struct server *s = server;
    const char *allow, *path = http_path(r);
    const struct route *route = route_of(r, &allow);
    const enum api_form form = form_of(r);
    s->n_requests++;
    if (!host_allowed(s, r))
        reply_error(s, r, form, 403, "%.200s is no name of this server; --cors http://NAME or keys allow it", http_header(r, "Host"));
    else if (!origin_allowed(s, r))
        reply_error(s, r, form, 403, "this page's origin may not use the server; --cors ORIGIN allows it");
    else if (strcmp(http_method(r), "OPTIONS") == 0) preflight(s, r);
    else if (!allow) reply_error(s, r, form, 404, "there is no %.200s here", path);
    else if (!route) {
        http_add_header(r, "Allow", allow);
        reply_error(s, r, form, 405, "%.200s does not take this method", path);
    } else if (!route->open && !has_key(s, r))
        reply_error(s, r, form, 401, "no valid key: send Authorization: Bearer KEY (invalid_api_key)");
    else if (s->draining && !route->open) reply_error(s, r, form, 503, "the server is ending");
    else return true;
    return false;
}

static void on_take(void *server, struct http_request *r)
{
    const char *allow;
    const struct route *route = route_of(r, &allow);
    if (route->get) route->get(server, r);
    else request_open(server, r, route->post, form_of(r));
}

static void on_refuse(void *server, struct http_request *r, int status, const char *why)
{
    reply_error(server, r, form_of(r), status, "%s", why);
}

/* ---- opening ---- */

static enum forge_status read_keys(struct server *s, struct forge_error *error)
{
    struct forge_bytes text;
    if (!s->options->api_key_path) return FORGE_OK;
    if (strncmp(s->options->api_key_path, "sk-", 3) == 0 && access(s->options->api_key_path, F_OK) != 0)
        return error_set(error, FORGE_USAGE, "--api-key takes a file with a key on each line; what it was given looks like a key");
    TRY(read_all(&text, s->options->api_key_path, error));
    for (char *line = strtok(text.bytes, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        while (*line == ' ' || *line == '\t') line++;
        for (size_t n = strlen(line); n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--) line[n - 1] = 0;
        if (*line == 0 || *line == '#') continue;
        char **more = realloc(s->keys, (s->n_keys + 1) * sizeof *more);
        if (more) s->keys = more;
        if (!more || !(s->keys[s->n_keys] = strdup(line)))
            { free(text.bytes); return error_set(error, FORGE_NO_MEMORY, "out of memory for the keys"); }
        s->n_keys++;
    }
    free(text.bytes);
    return s->n_keys > 0 ? FORGE_OK : error_set(error, FORGE_USAGE, "--api-key %s: the file has no key; write one key on each line",
                                                s->options->api_key_path);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Each connection is a file.  Some files are left for the program. */
static size_t most_connections(int open_file)
{
    enum { SPARE = 8 };
    struct rlimit files;
    const int next = dup(open_file);                         /* the first number that is free */
    if (next >= 0) close(next);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    return files.rlim_cur > (rlim_t)next + SPARE ? (size_t)files.rlim_cur - (size_t)next - SPARE : 1;
}

static enum forge_status listen_at(struct server *s, const struct sockaddr *a, socklen_t n, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    const struct http_options wanted = { .most_body = (size_t)o->max_body << 20, .most_connections = most_connections(s->wake_fd),
                                         .patience = o->patience, .ping_seconds = o->ping, .owner = s,
                                         .admit = on_admit, .take = on_take, .refuse = on_refuse };
    struct forge_error why;
    const enum forge_status status = http_listen(&s->http, s->base, a, n, &wanted, &why);
    if (status == FORGE_OK) return status;
    if (s->socket_path) return error_set(error, status, "cannot listen at %s: %s", s->socket_path, why.text);
    return error_set(error, status, "cannot listen at %s port %d: %s", o->host, o->port, why.text);
}

static enum forge_status listen_by_name(struct server *s, const struct addrinfo *a, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    s->is_local = is_loopback(a->ai_addr);
    if (!s->is_local && s->n_keys == 0 && !o->insecure)
        return error_set(error, FORGE_USAGE,
                         "--host %s: others could use the server without a key; give --api-key FILE, or --insecure if that is "
                         "wanted",
                         o->host);
    TRY(listen_at(s, a->ai_addr, a->ai_addrlen, error));
    struct sockaddr_storage got;
    socklen_t n;
    char port[16] = "", host[128] = "";
    http_address(s->http, &got, &n);
    getnameinfo((struct sockaddr *)&got, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    fprintf(stderr, strchr(host, ':') ? "listening at http://[%s]:%s\n" : "listening at http://%s:%s\n", host, port);
    return FORGE_OK;
}

/* unix:PATH, or PATH.sock as for llama-server; NULL: no Unix socket. */
static const char *socket_path(const char *host)
{
    const size_t n = strlen(host);
    if (strncmp(host, "unix:", 5) == 0) return host + 5;
    return n > 5 && strcmp(host + n - 5, ".sock") == 0 ? host : NULL;
}

/* Removes a socket that a server left which did not end well: nobody listens there. */
static void remove_dead(const struct sockaddr_un *a)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED) unlink(a->sun_path);
    if (fd >= 0) close(fd);
}

static enum forge_status listen_in_file(struct server *s, const char *path, struct forge_error *error)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    if (*path == 0 || strlen(path) >= sizeof a.sun_path)
        return error_set(error, FORGE_USAGE, "--host %s: the path of a Unix socket has 1 to %zu bytes", s->options->host,
                         sizeof a.sun_path - 1);
    strcpy(a.sun_path, path);
    remove_dead(&a);
    s->is_local = true;
    s->socket_path = path;
    TRY(listen_at(s, (const struct sockaddr *)&a, sizeof a, error));
    fprintf(stderr, "listening at unix:%s\n", path);
    return FORGE_OK;
}

enum forge_status routes_open(struct server *s, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    TRY(read_keys(s, error));
    if (socket_path(o->host)) return listen_in_file(s, socket_path(o->host), error);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list;
    char port[16];
    snprintf(port, sizeof port, "%d", o->port);
    const int code = getaddrinfo(o->host, port, &hints, &list);
    if (code) return error_set(error, FORGE_USAGE, "--host %s: %s", o->host, gai_strerror(code));
    const enum forge_status status = listen_by_name(s, list, error);
    freeaddrinfo(list);
    return status;
}

void routes_close(struct server *s)
{
    if (s->http && s->socket_path) unlink(s->socket_path);
    http_free(s->http);
    for (size_t i = 0; i < s->n_keys; i++) free(s->keys[i]);
    free(s->keys);
}
