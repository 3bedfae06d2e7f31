/* serve.c -- the program as a server: its three threads, from the first request to a graceful end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server.h"

/* Called when the reader or the model's thread has results. */
static void on_wake(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) < 0 && errno != EAGAIN) return;
    requests_update(s);
    struct batch_numbers numbers;
    batch_numbers(s->batch, &numbers, NULL);
    if (numbers.failed) {                                    /* nothing can be computed any more; the service manager can restart the
                                                              * server */
        s->status = error_set(s->error, FORGE_DEVICE_FAULT, "the device has failed; the server ends");
        event_base_loopbreak(s->base);
    }
    if (s->draining && !s->requests) event_base_loopexit(s->base, &(struct timeval){ 1, 0 });       /* lets the last bytes leave */
}

static void on_grace_over(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    (void)fd;
    (void)what;
    event_base_loopbreak(s->base);
}

/* Takes no new connections or requests, and finishes those that run. */
static void drain(struct server *s)
{
    s->leaving = s->draining = true;
    http_leave(s->http);
    http_stop(s->http);
    if (!s->requests) { event_base_loopexit(s->base, NULL); return; }
    fprintf(stderr, "ending: requests that run have %d s\n", s->options->grace);
    event_base_once(s->base, -1, EV_TIMEOUT, on_grace_over, s, &(struct timeval){ s->options->grace, 0 });
}

static void on_drain(evutil_socket_t fd, short what, void *server)
{
    struct server *s = server;
    (void)fd;
    (void)what;
    if (!s->draining) drain(s);
}

/* SIGTERM: at first /health reports it, so that load balancers send no more requests here; then running requests are finished.  SIGINT,
 * and each further signal, goes to the next of these steps at once. */
static void on_signal(evutil_socket_t number, short what, void *server)
{
    struct server *s = server;
    (void)what;
    if (s->draining) event_base_loopbreak(s->base);
    else if (s->leaving || number == SIGINT || s->options->drain == 0) drain(s);
    else {
        s->leaving = true;
        http_leave(s->http);
        event_base_once(s->base, -1, EV_TIMEOUT, on_drain, s, &(struct timeval){ s->options->drain, 0 });
    }
}

/* Every connection is a file, so this allows as many as the system permits. */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* Signals are handled before the address is printed, because a reader of the address may send one at once. */
static enum forge_status loop(struct server *s, struct forge_error *error)
{
    struct event *const events[] = { event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s),
                                     evsignal_new(s->base, SIGTERM, on_signal, s), evsignal_new(s->base, SIGINT, on_signal, s) };
    enum { N = sizeof events / sizeof *events };
    bool ok = true;
    for (size_t i = 0; i < N; i++) ok = ok && events[i] && event_add(events[i], NULL) == 0;
    enum forge_status status = ok ? routes_open(s, error) : error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    if (status == FORGE_OK) {
        event_base_dispatch(s->base);
        status = s->status;
    }
    for (size_t i = 0; i < N; i++) if (events[i]) event_free(events[i]);
    return status;
}

uint32_t serve_sequences(const struct forge_program *program, const struct forge_options *options)
{
    return batch_sequences(program, (uint32_t)options->slots);
}

static enum forge_status read_kwargs(struct server *s, struct forge_error *error)
{
    const char *text = s->options->template_options;
    struct json_error wrong;
    if (!text) return FORGE_OK;
    const size_t bytes = 32 * strlen(text) + 4096;
    s->kwargs_memory = malloc(bytes);
    if (!s->kwargs_memory) return error_set(error, FORGE_NO_MEMORY, "out of memory for --chat-template-kwargs");
    struct room room = room_of(s->kwargs_memory, bytes);
    s->kwargs = json_read(&room, text, strlen(text), &wrong);
    if (!s->kwargs)
        return error_set(error, FORGE_USAGE, "--chat-template-kwargs: %s, at byte %zu", wrong.why ? wrong.why : "too long", wrong.at);
    if (s->kwargs->kind != JSON_OBJECT) return error_set(error, FORGE_USAGE, "--chat-template-kwargs: the JSON is not an object");
    return FORGE_OK;
}

enum forge_status serve_run(struct forge_engine *engine, const struct forge_options *options, struct forge_error *error)
{
    struct server s = { .options = options, .program = engine->program, .engine = engine, .began = time(NULL), .error = error,
                        .status = FORGE_OK };
    raise_files();
    signal(SIGPIPE, SIG_IGN);
    s.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s.wake_fd < 0) return error_set(error, FORGE_FAILED, "cannot make an eventfd: %s", strerror(errno));
    const struct batch_options wanted = { (uint32_t)options->slots, (uint32_t)options->most_waiting, s.wake_fd };
    enum forge_status status = batch_open(&s.batch, engine, &wanted, error);
    s.base = event_base_new();
    if (status == FORGE_OK && !s.base) status = error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    if (status == FORGE_OK) status = read_kwargs(&s, error);
    if (status == FORGE_OK) status = reader_open(&s, error);
    if (status == FORGE_OK) status = loop(&s, error);
    routes_close(&s);                                        /* disconnects clients that wait, and so cancels their tasks */
    reader_close(&s);
    if (s.batch) batch_close(s.batch);
    while (s.requests) request_close(s.requests);
    if (s.base) event_base_free(s.base);
    free(s.kwargs_memory);
    free(s.lexicon);
    close(s.wake_fd);
    return status;
}
