/* http.c -- routes, keys, origins, limits: HTTP/1.1 by libevent. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/text/text.h"
#include "server.h"

/* Of one request: a header block, and seconds without a byte in either direction. */
enum { HEADER_BYTES = 32 << 10, SILENT_SECONDS = 30 };

typedef void handler(struct server *s, struct evhttp_request *r);
static const struct route { enum evhttp_cmd_type method; const char *path; handler *call; bool open; } routes[] = {
    { EVHTTP_REQ_GET,  "/", page_get, true },
    { EVHTTP_REQ_GET,  "/health", health_get, true },            { EVHTTP_REQ_GET,  "/v1/health", health_get, true },
    { EVHTTP_REQ_GET,  "/v1/models", models_get, true },         { EVHTTP_REQ_GET,  "/models", models_get, true },
    { EVHTTP_REQ_GET,  "/props", props_get, false },             { EVHTTP_REQ_GET,  "/slots", slots_get, false },
    { EVHTTP_REQ_GET,  "/metrics", metrics_get, false },
    { EVHTTP_REQ_POST, "/tokenize", tokenize_post, false },      { EVHTTP_REQ_POST, "/detokenize", detokenize_post, false },
    { EVHTTP_REQ_POST, "/v1/chat/completions", chats_post, false }, { EVHTTP_REQ_POST, "/apply-template", template_post, false },
    { EVHTTP_REQ_POST, "/v1/messages", messages_post, false }, { EVHTTP_REQ_POST, "/v1/messages/count_tokens", count_tokens_post, false },
    { EVHTTP_REQ_POST, "/v1/responses", responses_post, false },
    { EVHTTP_REQ_POST, "/v1/completions", completions_post, false },
    { EVHTTP_REQ_POST, "/v1/embeddings", embeddings_post, false },
};
enum { N_ROUTES = sizeof routes / sizeof routes[0] };

/* ---- replies ---- */

static void header(struct evhttp_request *r, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(r), name, value);
}

static void common_headers(const struct server *s, struct evhttp_request *r)
{
    if (s->options->cors) {
        header(r, "Access-Control-Allow-Origin", s->options->cors);
        header(r, "Vary", "Origin");
    }
    header(r, "Cache-Control", "no-store");
    header(r, "X-Content-Type-Options", "nosniff");
    if (s->leaving) header(r, "Connection", "close");
}

static void reply_bytes(struct server *s, struct evhttp_request *r, int code, const char *type, struct out *o)
{
    common_headers(s, r);
    header(r, "Content-Type", type);
    if (o->failed) {
        out_free(o);
        code = 500;
        out_text(o, "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}");
    }
    struct evbuffer *body = evbuffer_new();
    if (body && evhttp_request_get_command(r) != EVHTTP_REQ_HEAD) evbuffer_add(body, o->bytes, o->n);
    evhttp_send_reply(r, code, NULL, body);
    if (body) evbuffer_free(body);
    out_free(o);
}

void reply_json(struct server *s, struct evhttp_request *r, int code, struct out *o)
{
    reply_bytes(s, r, code, "application/json; charset=utf-8", o);
}

void reply_text(struct server *s, struct evhttp_request *r, const char *type, struct out *o) { reply_bytes(s, r, 200, type, o); }

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

static void put_error(struct out *o, bool anthropic, int code, const char *text)
{
    if (anthropic)
        out_printf(o, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", code == 500 ? "api_error" : error_type(code));
    else out_text(o, "{\"error\":{\"message\":");
    out_string(o, text, strlen(text));
    if (anthropic) out_text(o, "}}");
    else out_printf(o, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}", error_type(code), code);
}

void reply_error(struct server *s, struct evhttp_request *r, bool anthropic, int code, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    struct out o = { 0 };
    put_error(&o, anthropic, code, text);
    if (code == 429 || code == 503) header(r, "Retry-After", "1");
    s->n_refused++;
    reply_json(s, r, code, &o);
}

void exchange_reply(struct exchange *x, int code, struct out *o)
{
    struct evhttp_request *r = exchange_let_go(x);
    if (r) reply_json(x->server, r, code, o);
    else out_free(o);
}

bool exchange_refuse(struct exchange *x, int code, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (x->started) {
        struct out o = { 0 };
        put_error(&o, x->kind->anthropic, code, text);
        stream_event(x, x->kind->anthropic ? "error" : NULL, &o);
        stream_finish(x, NULL);
        out_free(&o);
    } else {
        struct evhttp_request *r = exchange_let_go(x);
        if (r) reply_error(x->server, r, x->kind->anthropic, code, "%s", text);
    }
    exchange_close(x);
    return false;
}

void stream_finish(struct exchange *x, const char *last)
{
    struct out o = { 0 };
    if (last) {
        out_text(&o, last);
        stream_event(x, NULL, &o);
    }
    struct evhttp_request *r = exchange_let_go(x);
    if (r) evhttp_send_reply_end(r);
    out_free(&o);
}

void stream_event(struct exchange *x, const char *name, struct out *data)
{
    if (!x->request) { data->n = 0; return; }
    if (!x->started) {
        common_headers(x->server, x->request);
        header(x->request, "Content-Type", "text/event-stream; charset=utf-8");
        header(x->request, "X-Accel-Buffering", "no");
        evhttp_send_reply_start(x->request, 200, "OK");
        x->started = true;
    }
    struct evbuffer *b = evbuffer_new();
    if (b) {
        if (name) evbuffer_add_printf(b, "event: %s\n", name);
        evbuffer_add(b, "data: ", 6);
        evbuffer_add(b, data->bytes, data->n);
        evbuffer_add(b, "\n\n", 2);
        evhttp_send_reply_chunk(x->request, b);
        evbuffer_free(b);
    }
    data->n = 0;
}

/* ---- who may ask ---- */

static const char *input_header(struct evhttp_request *r, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(r), name);
}

/* In a time that does not tell how much of it is right. */
static bool same_key(const char *given, const char *key)
{
    const size_t n = strlen(given), m = strlen(key);
    unsigned differs = n != m;
    for (size_t i = 0; i < n; i++) differs |= (unsigned)(given[i] ^ key[m ? i % m : 0]);
    return differs == 0;
}

static bool has_key(const struct server *s, struct evhttp_request *r)
{
    const char *bearer = input_header(r, "Authorization"), *given = input_header(r, "X-Api-Key");
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

/* A page of a browser that is not ours may not use the server behind its visitor's back (requests without keys are simple ones; a name
 * may be made to point to this machine). */
static bool origin_allowed(const struct server *s, struct evhttp_request *r)
{
    const char *origin = input_header(r, "Origin"), *cors = s->options->cors, *to = input_header(r, "Host"), *host, *own;
    if (!origin) return true;
    if (cors && (strcmp(cors, "*") == 0 || strcasecmp(cors, origin) == 0)) return true;
    const size_t n = host_of(origin, &host);
    if (s->is_local) return is_host(host, n, "localhost") || is_host(host, n, "127.0.0.1") || is_host(host, n, "[::1]");
    if (!to) return false;
    const size_t m = host_of(to, &own);
    return n == m && strncasecmp(host, own, n) == 0;
}

static void preflight(struct server *s, struct evhttp_request *r)
{
    struct out none = { 0 };
    header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    header(r, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, Anthropic-Version, Anthropic-Beta");
    header(r, "Access-Control-Max-Age", "86400");
    reply_bytes(s, r, 204, "text/plain", &none);
}

static void on_request(struct evhttp_request *r, void *server)
{
    struct server *s = server;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const enum evhttp_cmd_type method = evhttp_request_get_command(r);
    const struct route *found = NULL;
    bool known = false;
    const int one = 1;
    setsockopt(bufferevent_getfd(evhttp_connection_get_bufferevent(evhttp_request_get_connection(r))), IPPROTO_TCP, TCP_NODELAY, &one,
               sizeof one);
    s->n_requests++;
    for (size_t i = 0; i < N_ROUTES && path; i++) {
        if (strcmp(path, routes[i].path) != 0) continue;
        known = true;
        if (method == routes[i].method || (method == EVHTTP_REQ_HEAD && routes[i].method == EVHTTP_REQ_GET)) found = &routes[i];
    }
    const bool anthropic = path && strncmp(path, "/v1/messages", 12) == 0;
    if (!origin_allowed(s, r)) reply_error(s, r, anthropic, 403, "this page's origin may not use the server; --cors ORIGIN allows it");
    else if (method == EVHTTP_REQ_OPTIONS) preflight(s, r);
    else if (!known) reply_error(s, r, anthropic, 404, "there is no %.200s here", path ? path : "such path");
    else if (!found) reply_error(s, r, anthropic, 405, "%.200s does not take this method", path);
    else if (!found->open && !has_key(s, r)) reply_error(s, r, anthropic, 401, "no valid key: send Authorization: Bearer KEY");
    else if (s->draining && !found->open) reply_error(s, r, anthropic, 503, "the server is ending");
    else found->call(s, r);
}

/* ---- opening ---- */

static enum forge_status read_keys(struct server *s, struct forge_error *error)
{
    struct forge_bytes text;
    if (!s->options->api_key_path) return FORGE_OK;
    TRY(read_all(&text, s->options->api_key_path, error));
    for (char *line = strtok(text.bytes, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        while (*line == ' ' || *line == '\t') line++;
        if (*line == 0 || *line == '#') continue;
        char **more = realloc(s->keys, (s->n_keys + 1) * sizeof *more);
        if (more) s->keys = more;
        if (!more || !(s->keys[s->n_keys] = strdup(line))) { free(text.bytes); return error_set(error, FORGE_NO_MEMORY, "out of memory"); }
        s->n_keys++;
    }
    free(text.bytes);
    return s->n_keys > 0 ? FORGE_OK : error_set(error, FORGE_USAGE, "--api-key %s: the file has no key; one stands on each line",
                                                s->options->api_key_path);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Too many files are open: the next try is a moment later, not at once and always. */
static void on_accept_again(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    (void)fd;
    (void)what;
    if (!s->draining) evconnlistener_enable(evhttp_bound_socket_get_listener(s->listener));
}

static void on_accept_error(struct evconnlistener *listener, void *server)
{
    struct server *s = server;
    evconnlistener_disable(listener);
    event_base_once(s->base, -1, EV_TIMEOUT, on_accept_again, s, &(struct timeval){ 0, 100000 });
}

static enum forge_status bind_to(struct server *s, const struct addrinfo *a, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    s->is_local = is_loopback(a->ai_addr);
    if (!s->is_local && s->n_keys == 0 && !o->insecure)
        return error_set(error, FORGE_USAGE,
                         "--host %s: others could use the server without a key; give --api-key FILE, or --insecure if that is "
                         "wanted",
                         o->host);
    struct evconnlistener *l = evconnlistener_new_bind(
        s->base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 512, a->ai_addr, (int)a->ai_addrlen);
    if (!l) return error_set(error, FORGE_FAILED, "cannot listen at %s port %d: %s", o->host, o->port, strerror(errno));
    evconnlistener_set_error_cb(l, on_accept_error);
    struct sockaddr_storage got;
    socklen_t n = sizeof got;
    char port[16] = "", host[128] = "";
    if (getsockname(evconnlistener_get_fd(l), (struct sockaddr *)&got, &n) == 0)
        getnameinfo((struct sockaddr *)&got, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    s->listener = evhttp_bind_listener(s->http, l);
    if (!s->listener) {
        evconnlistener_free(l);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    }
    fprintf(stderr, strchr(host, ':') ? "listening at http://[%s]:%s\n" : "listening at http://%s:%s\n", host, port);
    return FORGE_OK;
}

enum forge_status http_open(struct server *s, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    TRY(read_keys(s, error));
    s->http = evhttp_new(s->base);
    if (!s->http) return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    evhttp_set_gencb(s->http, on_request, s);
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_OPTIONS);
    evhttp_set_max_headers_size(s->http, HEADER_BYTES);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)o->max_body << 20);
    evhttp_set_timeout(s->http, SILENT_SECONDS);
    evhttp_set_default_content_type(s->http, NULL);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list;
    char port[16];
    snprintf(port, sizeof port, "%d", o->port);
    const int code = getaddrinfo(o->host, port, &hints, &list);
    if (code) return error_set(error, FORGE_USAGE, "--host %s: %s", o->host, gai_strerror(code));
    const enum forge_status status = bind_to(s, list, error);
    freeaddrinfo(list);
    return status;
}

void http_close(struct server *s)
{
    if (s->http) evhttp_free(s->http);
    for (size_t i = 0; i < s->n_keys; i++) free(s->keys[i]);
    free(s->keys);
}
