/* client.h -- a program as a server and its clients, for tests: plain sockets, so that they can also be rude. */
#ifndef TESTS_SERVER_CLIENT_H
#define TESTS_SERVER_CLIENT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child { pid_t pid; int port, err; };                   /* err: the reading end of its stderr */
/* Starts program --serve --port 0 and these arguments, NULL-terminated; waits until it listens.  port 0: it has ended. */
struct child child_start(const char *program, const char *const *arguments);
/* Its exit code, 128 + a signal's number, or -1: it has not ended after so many seconds. */
int child_wait(struct child *c, double seconds);
/* What it said on stderr so far. */
const char *child_said(struct child *c);

struct reply { int status; char *head, *body; size_t n; };    /* body without chunks' frames, ends with 0; status 0: no answer */
/* headers: lines with \r\n, or "".  body NULL: none. */
struct reply ask(int port, const char *method, const char *path, const char *headers, const char *body);
struct reply post(int port, const char *path, const char *body);
void reply_free(struct reply *r);

/* The same in steps: a connection, bytes on it, the answer as it comes. */
int client_connect(int port);
void client_send(int fd, const char *bytes, size_t n);
void client_request(int fd, const char *method, const char *path, const char *headers, const char *body);
struct reply client_answer(int fd);
/* Bytes of the answer that are there within the time; -1: closed. */
ssize_t client_read(int fd, char *to, size_t room, double seconds);
double now(void);

/* The body with something wrong in it, from malloc: bytes changed, left out or repeated, words of JSON in places of others. */
char *spoiled(const char *body, unsigned *random);
#endif
