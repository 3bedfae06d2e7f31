/* client.h -- starts a program as a server and is its client, for tests.  Plain sockets allow broken requests too. */
#ifndef TESTS_SERVER_CLIENT_H
#define TESTS_SERVER_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child { pid_t pid; int port, err; };                   /* err: a pipe with its stderr */
/* Starts `program --serve --port 0` with these NULL-terminated arguments and waits until it listens.  port 0: it has ended; -1: it listens
 * at a Unix socket. */
extern unsigned child_files;                                  /* most files that a child may open; 0: as many as here */
struct child child_start(const char *program, const char *const *arguments);
/* Waits up to `seconds` for its end.  Returns its exit code, 128 + the number of a signal, or -1: it still runs. */
int child_wait(struct child *c, double seconds);
/* Its output on stderr so far; valid until the next call. */
const char *child_said(struct child *c);

struct reply { int status; char *head, *body; size_t n; };    /* body: without chunked frames, 0-terminated; status 0: no answer */
/* Sends a request and waits for the whole answer; reply_free() frees it.  headers: lines with \r\n, or "".  body NULL: no body. */
struct reply ask(int port, const char *method, const char *path, const char *headers, const char *body);
struct reply post(int port, const char *path, const char *body);
void reply_free(struct reply *r);

/* The same in steps: connect, send bytes, read the answer. */
int client_connect(int port);
int client_connect_file(const char *path);                    /* a Unix socket */
void client_send(int fd, const char *bytes, size_t n);
void client_request(int fd, const char *method, const char *path, const char *headers, const char *body);
struct reply client_answer(int fd);
struct reply client_raw(int port, const char *bytes);         /* sends these and waits for the answer, up to the end of the connection */
/* Reads bytes of the answer that arrive within `seconds`; -1: the connection is closed. */
ssize_t client_read(int fd, char *to, size_t room, double seconds);
double now(void);

/* A damaged copy of the body, from malloc: bytes changed, left out or repeated, words of JSON replaced by others. */
char *spoiled(const char *body, unsigned *random);
#endif
