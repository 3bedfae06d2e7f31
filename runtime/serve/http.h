/* http.h -- HTTP/1.1 as RFC 9112 writes it: connections, the requests that come by them one after another, and answers, whole or in
 * pieces.  A request that is written in another way is refused, so that a proxy before the server cannot read the same bytes differently.
 * All functions are called on the thread of the event loop. */
#ifndef FORGE_HTTP_H
#define FORGE_HTTP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "runtime/run/status.h"

struct http;                                 /* an address and its connections */
struct http_request;                         /* valid until it has its answer, or until its client has gone */

struct http_options {
    size_t most_body;                        /* bytes of a request's body */
    size_t most_connections;
    int    patience;                         /* seconds: in which a head must arrive, and each 32 KiB of a body; a connection may be idle
                                              * and its client may fail to read as long */
    int    ping_seconds;                     /* a stream that is silent for this time gets a ping; 0: never */
    void  *owner;                            /* of the functions below, each of which may answer */
    bool (*admit)(void *owner, struct http_request *r);      /* the head has arrived; false: the request has been answered */
    void (*take)(void *owner, struct http_request *r);       /* the whole request has arrived: answer it now or later */
    void (*refuse)(void *owner, struct http_request *r, int status, const char *why);    /* answer with this error, now; the request may
                                                                                          * have no path */
};

/* Listens at an address. */
enum forge_status http_listen(struct http **out, struct event_base *base, const struct sockaddr *address, socklen_t n,
                              const struct http_options *options, struct forge_error *error);
/* The address at which it listens. */
void http_address(const struct http *h, struct sockaddr_storage *address, socklen_t *n);
/* From now on every answer is the last one of its connection. */
void http_leave(struct http *h);
/* Takes no further connections. */
void http_stop(struct http *h);
/* Closes all connections; the functions that watch requests are called. */
void http_free(struct http *h);

/* ---- a request ---- */

const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r);         /* as written, without a query; NULL: the request has no path */
const char *http_header(const struct http_request *r, const char *name);      /* NULL: absent */
size_t http_body_bytes(const struct http_request *r);
void http_body(struct http_request *r, char *to);            /* takes the body out; to: [http_body_bytes()] */
/* left is called once if the client goes before it has its whole answer; r is then no longer valid.  NULL: nobody is told. */
void http_watch(struct http_request *r, void (*left)(void *context), void *context);

/* ---- its answer ---- */

/* Adds a header to the answer; before the functions below. */
void http_add_header(struct http_request *r, const char *name, const char *value);
/* Answers. */
void http_reply(struct http_request *r, int status, const char *body, size_t n);
/* The answer comes later, and whole: a client that closes its side is refused, because it may have gone. */
void http_await(struct http_request *r);
/* Answers 200 in pieces.  ping: a piece that means nothing, for times of silence; it must stay valid. */
void http_begin(struct http_request *r, const char *ping);
void http_piece(struct http_request *r, const char *bytes, size_t n);
void http_end(struct http_request *r);
/* Ends the connection without the rest of the answer, as there is no memory for it; the request stays valid until `left` is called. */
void http_break(struct http_request *r);

#endif
