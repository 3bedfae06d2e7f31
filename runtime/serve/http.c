/* http.c -- see http.h. */
#include "http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_MICROSECONDS = 100000 };         /* until an accept is tried again */

/* BODY_BYTES: see http_options.patience.  AHEAD_BYTES: of further requests that arrive before the answer.  After the last answer
 * of a connection, what the client still sends is dropped for LINGER_SECONDS: closing at once would take the answer from it. */
enum { HEAD_BYTES = 32 << 10, MOST_HEADERS = 100, BODY_BYTES = 32 << 10, LINGER_SECONDS = 5, AHEAD_BYTES = 64 << 10 };

/* WAITS: nothing of the next request has arrived.  SIZE to TRAILER: of a chunked body.  FLUSHES: the answer is complete and leaves. */
enum state { WAITS, HEAD, BODY, SIZE, CHUNK, CHUNK_END, TRAILER, ANSWERS, FLUSHES, LINGERS };

/* A connection, with the request that came by it. */
struct http_request {
    struct http *http;
    struct http_request *next, **at;         /* at: the pointer to this one */
    struct bufferevent *io;
    struct event *timer;
    enum state state;
    size_t  scanned;                         /* bytes of the head in which its end is not */
    char   *head;                            /* the strings of the request point into it */
    const char *method, *path;
    struct { const char *name, *value; } headers[MOST_HEADERS];
    size_t  n_headers;
    struct evbuffer *body, *answer;          /* answer: headers of the answer */
    size_t  left, had;                       /* left: bytes of the body or the chunk that are to come; had: bytes at the last timer */
    bool    old, keep, half_closed;          /* old: HTTP/1.0; keep: the connection stays open after the answer */
    bool    streams, awaits;                 /* see http_begin(), http_await() */
    const char *ping;
    void  (*gone)(void *context);
    void   *context;
};

struct http {
    struct http_options options;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *again;
    struct http_request *first, **end;       /* first: it has waited longest */
    size_t n;
    bool   leaving;
};

/* ---- connections ---- */

static void enlist(struct http_request *r)
{
    struct http *h = r->http;
    r->next = NULL;
    r->at = h->end;
    *h->end = r;
    h->end = &r->next;
    h->n++;
}

static void unlist(struct http_request *r)
{
    *r->at = r->next;
    if (r->next) r->next->at = r->at;
    else r->http->end = r->at;
    r->http->n--;
}

/* Ends the connection, since its client cannot have the whole answer; its event comes later. */
void http_break(struct http_request *r) { shutdown(bufferevent_getfd(r->io), SHUT_RDWR); }

static void set_timer(struct http_request *r, int seconds)
{
    if (seconds <= 0) event_del(r->timer);
    else if (event_add(r->timer, &(struct timeval){ seconds, 0 }) != 0) http_break(r);      /* no memory */
}

static void tell(struct http_request *r)
{
    void (*gone)(void *context) = r->gone;
    r->gone = NULL;
    if (gone) gone(r->context);
}

static void forget(struct http_request *r)
{
    evbuffer_drain(r->body, evbuffer_get_length(r->body));
    evbuffer_drain(r->answer, evbuffer_get_length(r->answer));
    free(r->head);
    r->head = NULL;
    r->method = r->path = NULL;
    r->n_headers = r->scanned = r->left = r->had = 0;
    r->streams = r->awaits = false;
}

static void disconnect(struct http_request *r)
{
    tell(r);
    unlist(r);
    if (r->timer) event_free(r->timer);
    if (r->io) bufferevent_free(r->io);                      /* closes the file */
    if (r->body) evbuffer_free(r->body);
    if (r->answer) evbuffer_free(r->answer);
    free(r->head);
    free(r);
}

/* ---- answers ---- */

static const char *phrase(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
    }
}

static void put(struct http_request *r, struct evbuffer *out, const char *bytes, size_t n)
{
    if (evbuffer_add(out, bytes, n) != 0) http_break(r);
}

__attribute__((format(printf, 3, 4)))
static void put_text(struct http_request *r, struct evbuffer *out, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const bool ok = evbuffer_add_vprintf(out, format, list) >= 0;
    va_end(list);
    if (!ok) http_break(r);
}

void http_add_header(struct http_request *r, const char *name, const char *value)
{
    put_text(r, r->answer, "%s: %s\r\n", name, value);
}

static void put_head(struct http_request *r, int status)
{
    char date[64];
    const time_t clock = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&clock, &utc));
    struct evbuffer *out = bufferevent_get_output(r->io);
    if (r->http->leaving || (r->streams && r->old)) r->keep = false;
    put_text(r, out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, phrase(status), date);
    if (evbuffer_add_buffer(out, r->answer) != 0) http_break(r);
    if (!r->keep) put_text(r, out, "Connection: close\r\n");
    else if (r->old) put_text(r, out, "Connection: keep-alive\r\n");
}

static void finish(struct http_request *r)
{
    r->gone = NULL;
    r->state = FLUSHES;
    set_timer(r, 0);
    forget(r);
    if (bufferevent_enable(r->io, EV_WRITE) != 0) http_break(r);         /* libevent does not say that it had no memory to wait for this */
    bufferevent_trigger(r->io, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);      /* in case all has left already */
}

void http_reply(struct http_request *r, int status, const char *body, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(r->io);
    const bool shown = n > 0 && !(r->method && strcmp(r->method, "HEAD") == 0);
    put_head(r, status);
    if (status != 204) put_text(r, out, "Content-Length: %zu\r\n", n);
    put(r, out, "\r\n", 2);
    if (shown) put(r, out, body, n);
    finish(r);
}

/* Answers with an error, after which the connection ends: where the next request begins is unknown.  Returns false. */
static bool refuse(struct http_request *r, int status, const char *why)
{
    r->state = ANSWERS;
    r->keep = false;
    set_timer(r, 0);
    r->http->options.refuse(r->http->options.owner, r, status, why);
    return false;
}

/* The client has closed its side.  It may still read a stream: a ping shows whether it has closed both. */
static void doubt(struct http_request *r)
{
    http_piece(r, r->ping, strlen(r->ping));
    set_timer(r, 1);
}

/* Nothing is sent before a whole answer, so nothing shows whether the client still reads. */
static void turn_away(struct http_request *r)
{
    tell(r);
    refuse(r, 400, "the client closed its side of the connection before it had the answer");
}

void http_begin(struct http_request *r, const char *ping)
{
    r->streams = true;
    r->ping = ping;
    put_head(r, 200);
    put_text(r, bufferevent_get_output(r->io), r->old ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n");
    if (r->half_closed) doubt(r);
    else set_timer(r, r->http->options.ping_seconds);
}

void http_piece(struct http_request *r, const char *bytes, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(r->io);
    if (n == 0) return;
    if (!r->old) put_text(r, out, "%zx\r\n", n);
    put(r, out, bytes, n);
    if (!r->old) put(r, out, "\r\n", 2);
    if (!r->half_closed) set_timer(r, r->http->options.ping_seconds);
}

void http_end(struct http_request *r)
{
    if (!r->old) put(r, bufferevent_get_output(r->io), "0\r\n\r\n", 5);
    finish(r);
}

void http_await(struct http_request *r)
{
    r->awaits = true;
    if (r->half_closed) turn_away(r);
}

/* ---- the request that has arrived ---- */

const char *http_method(const struct http_request *r) { return r->method; }
const char *http_path(const struct http_request *r) { return r->path; }
size_t http_body_bytes(const struct http_request *r) { return evbuffer_get_length(r->body); }
void http_body(struct http_request *r, char *to) { evbuffer_remove(r->body, to, evbuffer_get_length(r->body)); }

const char *http_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_headers; i++) if (strcasecmp(r->headers[i].name, name) == 0) return r->headers[i].value;
    return NULL;
}

void http_watch(struct http_request *r, void (*left)(void *context), void *context)
{
    r->gone = left;
    r->context = context;
}

/* ---- reading ---- */

/* tchar of RFC 9110. */
static bool is_token(const char *text)
{
    return *text && text[strspn(text, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == 0;
}

/* Cuts a line from the head; NULL: it has a control character, such as an end of line that is not CR LF. */
static char *take_line(char **at)
{
    char *line = *at, *end = line;
    while (((unsigned char)*end >= ' ' && *end != 127) || *end == '\t') end++;
    if (end[0] != '\r' || end[1] != '\n') return NULL;
    *end = 0;
    *at = end + 2;
    return line;
}

/* METHOD SP TARGET SP VERSION; the target is a path, an address with this path, or "*". */
static bool read_request_line(struct http_request *r, char *line, const char **authority)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version) return refuse(r, 400, "the request line is not METHOD PATH HTTP/1.1");
    *target++ = *version++ = 0;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return refuse(r, strncmp(version, "HTTP/", 5) == 0 ? 505 : 400, "the version of HTTP is not 1.1 or 1.0");
    r->old = version[7] == '0';
    if (!is_token(line)) return refuse(r, 400, "the method is not a word");
    if (strncasecmp(target, "http://", 7) == 0) {
        char *path = target + 7 + strcspn(target + 7, "/?");
        *authority = memmove(target, target + 7, (size_t)(path - target) - 7);
        target[path - target - 7] = 0;
        if (*path != '/') return refuse(r, 400, "the address of the request has no path");
        target = path;
    }
    for (const char *c = target; *c; c++)
        if (*c <= ' ' || *c >= 127 || *c == '#') return refuse(r, 400, "the path has a character that an address cannot have");
    if (*target != '/' && strcmp(target, "*") != 0) return refuse(r, 400, "the path does not begin with /");
    target[strcspn(target, "?")] = 0;
    r->method = line;
    r->path = target;
    return true;
}

/* Two readers could take one of two each. */
static bool is_single(const char *name)
{
    static const char *const names[] = { "Host", "Content-Length", "Transfer-Encoding", "Content-Type", "Authorization", "X-Api-Key",
                                         "Origin", "Expect" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

static bool read_header(struct http_request *r, char *line)
{
    char *value = line ? strchr(line, ':') : NULL;
    if (!value) return refuse(r, 400, "a header is not NAME: VALUE in one line");
    *value++ = 0;
    if (!is_token(line)) return refuse(r, 400, "the name of a header is not a word");
    value += strspn(value, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) value[--n] = 0;
    if (is_single(line) && http_header(r, line)) return refuse(r, 400, "a header that may occur once occurs twice");
    if (r->n_headers == MOST_HEADERS) return refuse(r, 431, "the request has more than 100 headers");
    r->headers[r->n_headers].name = line;
    r->headers[r->n_headers++].value = value;
    return true;
}

/* Is this word in a header that is a list?  list may be NULL. */
static bool has_word(const char *list, const char *word)
{
    for (const char *at = list; at && *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (strcspn(at, ", \t") == strlen(word) && strncasecmp(at, word, strlen(word)) == 0) return true;
    }
    return false;
}

/* How the body is sent, and whether the connection stays open. */
static bool read_framing(struct http_request *r, const char *authority)
{
    const char *length = http_header(r, "Content-Length"), *coding = http_header(r, "Transfer-Encoding"), *host = http_header(r, "Host");
    const char *connection = http_header(r, "Connection"), *expected = http_header(r, "Expect");
    if (!host && !r->old) return refuse(r, 400, "the request has no Host");
    if (host && authority && strcasecmp(host, authority) != 0) return refuse(r, 400, "Host and the address of the request differ");
    if (coding && (length || r->old)) return refuse(r, 400, "Transfer-Encoding excludes Content-Length and HTTP/1.0");
    if (coding && strcasecmp(coding, "chunked") != 0) return refuse(r, 501, "a Transfer-Encoding other than chunked");
    if (length && (!*length || length[strspn(length, "0123456789")])) return refuse(r, 400, "Content-Length is not a number");
    if (expected && strcasecmp(expected, "100-continue") != 0) return refuse(r, 417, "Expect is not 100-continue");
    r->left = 0;
    for (; length && *length; length++) {
        r->left = 10 * r->left + (size_t)(*length - '0');
        if (r->left > r->http->options.most_body) return refuse(r, 413, "the body is larger than --max-body permits");
    }
    r->state = coding ? SIZE : BODY;
    r->keep = r->old ? has_word(connection, "keep-alive") : !has_word(connection, "close");
    return true;
}

static bool read_lines(struct http_request *r, char *at)
{
    const char *authority = NULL;
    char *line = take_line(&at);
    if (!line) return refuse(r, 400, "the request line has a control character");
    if (!read_request_line(r, line, &authority)) return false;
    while (*at) if (!read_header(r, take_line(&at))) return false;
    return read_framing(r, authority);
}

/* Reads the head when it is complete. */
static bool read_head(struct http_request *r, struct evbuffer *in)
{
    const size_t n = evbuffer_get_length(in);
    struct evbuffer_ptr from;
    evbuffer_ptr_set(in, &from, r->scanned, EVBUFFER_PTR_SET);
    const ev_ssize_t end = evbuffer_search(in, "\r\n\r\n", 4, &from).pos;
    if (end > HEAD_BYTES || (end < 0 && n > HEAD_BYTES)) return refuse(r, 431, "the head of the request has more than 32 KiB");
    if (end < 0) {
        r->scanned = n > 3 ? n - 3 : 0;
        return false;
    }
    r->head = calloc(1, (size_t)end + 3);
    if (!r->head) return refuse(r, 503, "out of memory");
    evbuffer_remove(in, r->head, (size_t)end + 2);
    evbuffer_drain(in, 2);
    if (!read_lines(r, r->head)) return false;
    const bool body = r->state == SIZE || r->left > 0;
    const enum state state = r->state;
    r->state = ANSWERS;
    const bool keep = r->keep;
    r->keep = keep && !body;                                 /* an answer before the body is the last one */
    if (!r->http->options.admit(r->http->options.owner, r)) return false;
    r->keep = keep;
    r->state = state;
    if (body && http_header(r, "Expect") && !r->old && evbuffer_get_length(in) == 0)
        put_text(r, bufferevent_get_output(r->io), "HTTP/1.1 100 Continue\r\n\r\n");
    return true;
}

static bool take(struct http_request *r)
{
    r->state = ANSWERS;
    set_timer(r, 0);
    r->http->options.take(r->http->options.owner, r);
    return false;
}

/* Moves what has arrived of the body or the chunk; true: all of it has. */
static bool read_bytes(struct http_request *r, struct evbuffer *in)
{
    const size_t n = evbuffer_get_length(in), part = n < r->left ? n : r->left;
    if (part > 0 && evbuffer_remove_buffer(in, r->body, part) != (int)part) return refuse(r, 503, "out of memory for the body");
    r->left -= part;
    return r->left == 0;
}

/* A chunk's size: hexadecimal digits and CR LF, without extensions. */
static bool read_size(struct http_request *r, struct evbuffer *in)
{
    char line[12] = "";
    const size_t n = (size_t)evbuffer_copyout(in, line, sizeof line - 1), digits = strspn(line, "0123456789abcdefABCDEF");
    if (digits > 8 || (digits < n && (digits == 0 || line[digits] != '\r')) || (digits + 1 < n && line[digits + 1] != '\n'))
        return refuse(r, 400, "the size of a chunk is not a number of up to 8 hexadecimal digits");
    if (digits + 2 > n) return false;
    evbuffer_drain(in, digits + 2);
    r->left = strtoul(line, NULL, 16);
    if (r->left > r->http->options.most_body - evbuffer_get_length(r->body))
        return refuse(r, 413, "the body is larger than --max-body permits");
    r->state = r->left > 0 ? CHUNK : TRAILER;
    return true;
}

/* CR LF, after a chunk, and after the last one, where trailers are not accepted. */
static bool read_end(struct http_request *r, struct evbuffer *in)
{
    char two[2];
    const ev_ssize_t n = evbuffer_copyout(in, two, 2);
    if ((n > 0 && two[0] != '\r') || (n > 1 && two[1] != '\n'))
        return refuse(r, 400, r->state == TRAILER ? "the chunked body has a trailer" : "a chunk is longer than its size");
    if (n < 2) return false;
    evbuffer_drain(in, 2);
    if (r->state == TRAILER) return take(r);
    r->state = SIZE;
    return true;
}

/* Reads what has arrived of the present part; true: there may be more to read. */
static bool step(struct http_request *r, struct evbuffer *in)
{
    char two[2];
    switch (r->state) {
    case WAITS:                                              /* empty lines before a request mean nothing */
        if (evbuffer_copyout(in, two, 2) < 2) return false;
        if (memcmp(two, "\r\n", 2) == 0) { evbuffer_drain(in, 2); return true; }
        r->state = HEAD;
        set_timer(r, r->http->options.patience);
        return true;
    case HEAD:
        if (!read_head(r, in)) return false;
        set_timer(r, r->http->options.patience);
        return true;
    case BODY: return read_bytes(r, in) && take(r);
    case SIZE: return read_size(r, in);
    case CHUNK:
        if (!read_bytes(r, in)) return false;
        r->state = CHUNK_END;
        return true;
    case CHUNK_END: case TRAILER: return read_end(r, in);
    case ANSWERS: case FLUSHES: return false;                /* the next request waits */
    case LINGERS: evbuffer_drain(in, evbuffer_get_length(in)); return false;
    }
    return false;
}

/* ---- events ---- */

static void on_read(struct bufferevent *io, void *request)
{
    struct evbuffer *in = bufferevent_get_input(io);
    while (step(request, in)) {}
    /* Not by a watermark: libevent 2.1.12 ends the program if there is no memory for one. */
    if (evbuffer_get_length(in) >= AHEAD_BYTES) bufferevent_disable(io, EV_READ);
    else if (bufferevent_enable(io, EV_READ) != 0) http_break(request);
}

/* The output is empty: the next request, or the end of the connection. */
static void on_write(struct bufferevent *io, void *request)
{
    struct http_request *r = request;
    if (r->state != FLUSHES || evbuffer_get_length(bufferevent_get_output(io)) > 0) return;
    if (r->half_closed) { disconnect(r); return; }
    if (!r->keep) {
        shutdown(bufferevent_getfd(io), SHUT_WR);
        r->state = LINGERS;
        set_timer(r, LINGER_SECONDS);
    } else {
        unlist(r);
        enlist(r);
        r->state = WAITS;
        set_timer(r, r->http->options.patience);
    }
    on_read(io, r);
}

/* The client has closed its side.  Whether it still reads is unknown until bytes are sent: a stream gets a ping. */
static void half_close(struct http_request *r)
{
    if (r->state != ANSWERS && r->state != FLUSHES) { disconnect(r); return; }
    r->half_closed = true;
    r->keep = false;
    if (r->state == FLUSHES) return;
    if (r->streams) doubt(r);
    else if (r->awaits) turn_away(r);
}

static void on_event(struct bufferevent *io, short what, void *request)
{
    (void)io;
    if (what & BEV_EVENT_EOF) half_close(request);
    else disconnect(request);                                /* an error, or a client that does not read */
}

static void on_time(evutil_socket_t fd, short what, void *request)
{
    struct http_request *r = request;
    struct pollfd p = { bufferevent_getfd(r->io), 0, 0 };
    (void)fd;
    (void)what;
    switch (r->state) {
    case WAITS: case LINGERS: disconnect(r); return;
    case HEAD: refuse(r, 408, "the head of the request arrives too slowly"); return;
    case ANSWERS:
        if (!r->streams) return;
        if (r->half_closed && poll(&p, 1, 0) > 0) { disconnect(r); return; }     /* it had closed both sides */
        http_piece(r, r->ping, strlen(r->ping));
        if (r->half_closed) set_timer(r, r->http->options.ping_seconds);
        return;
    case FLUSHES: return;
    default: break;
    }
    const size_t n = evbuffer_get_length(r->body);
    if (n < r->had + BODY_BYTES) { refuse(r, 408, "the body of the request arrives too slowly"); return; }
    r->had = n;
    set_timer(r, r->http->options.patience);
}

/* ---- accepting ---- */

/* Is there room for another connection?  If not, the connection that has waited longest for its client is closed. */
static bool make_room(struct http *h)
{
    struct http_request *r = h->first;
    if (h->n < h->options.most_connections) return true;
    while (r && (r->state == ANSWERS || r->state == FLUSHES)) r = r->next;
    if (r) disconnect(r);
    return r != NULL;
}

static void pause(struct http *h, long microseconds)
{
    evconnlistener_disable(h->listener);
    event_add(h->again, &(struct timeval){ 0, microseconds });
}

static void on_again(evutil_socket_t fd, short what, void *http)
{
    struct http *h = http;
    (void)fd;
    (void)what;
    if (!h->listener) return;
    if (make_room(h)) evconnlistener_enable(h->listener);
    else pause(h, WAIT_MICROSECONDS);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int n, void *http)
{
    struct http *h = http;
    const int one = 1;
    (void)listener;
    (void)from;
    (void)n;
    struct http_request *r = calloc(1, sizeof *r);
    if (!r) { evutil_closesocket(fd); return; }
    r->http = h;
    enlist(r);
    r->io = bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    r->timer = evtimer_new(h->base, on_time, r);
    r->body = evbuffer_new();
    r->answer = evbuffer_new();
    if (!r->io) evutil_closesocket(fd);
    if (!r->io || !r->timer || !r->body || !r->answer) { disconnect(r); return; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);          /* fails for a Unix socket, which has no such delay */
    bufferevent_setcb(r->io, on_read, on_write, on_event, r);
    bufferevent_set_timeouts(r->io, NULL, &(struct timeval){ h->options.patience, 0 });
    set_timer(r, r->http->options.patience);
    if (bufferevent_enable(r->io, EV_READ | EV_WRITE) != 0) { disconnect(r); return; }
    if (h->n >= h->options.most_connections) pause(h, 0);    /* what has arrived is read before one is chosen to be closed */
}

/* Too many files are open, or memory is short: an accept would fail again at once. */
static void on_accept_error(struct evconnlistener *listener, void *http)
{
    (void)listener;
    pause(http, WAIT_MICROSECONDS);
}

enum forge_status http_listen(struct http **out, struct event_base *base, const struct sockaddr *address, socklen_t n,
                              const struct http_options *options, struct forge_error *error)
{
    struct http *h = calloc(1, sizeof *h);
    *out = NULL;
    if (!h) return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    h->options = *options;
    h->base = base;
    h->end = &h->first;
    h->again = evtimer_new(base, on_again, h);
    if (!h->again) {
        free(h);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    }
    h->listener = evconnlistener_new_bind(base, on_accept, h, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 512,
                                          address, (int)n);
    if (!h->listener) {
        const int code = errno;
        http_free(h);
        return error_set(error, FORGE_FAILED, "%s", strerror(code));
    }
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    *out = h;
    return FORGE_OK;
}

void http_address(const struct http *h, struct sockaddr_storage *address, socklen_t *n)
{
    *n = sizeof *address;
    if (getsockname(evconnlistener_get_fd(h->listener), (struct sockaddr *)address, n) != 0) *n = 0;
}

void http_leave(struct http *h) { h->leaving = true; }

void http_stop(struct http *h)
{
    if (h->listener) evconnlistener_free(h->listener);
    h->listener = NULL;
}

void http_free(struct http *h)
{
    if (!h) return;
    http_stop(h);
    while (h->first) disconnect(h->first);
    event_free(h->again);
    free(h);
}
