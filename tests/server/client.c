/* client.c -- see client.h. */
#include "client.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL); }

static char said[1 << 16];
static size_t n_said;

const char *child_said(struct child *c)
{
    for (ssize_t n; n_said + 1 < sizeof said && (n = read(c->err, said + n_said, sizeof said - 1 - n_said)) > 0; ) n_said += (size_t)n;
    said[n_said] = 0;
    return said;
}

unsigned child_files;

struct child child_start(const char *program, const char *const *arguments)
{
    int ends[2];
    const char *argv[64] = { program, "--serve", "--port", "0" };
    size_t n = 4;
    struct child c = { 0, 0, -1 };
    for (; arguments && *arguments && n < 63; arguments++) argv[n++] = *arguments;
    if (pipe2(ends, O_CLOEXEC)) return c;
    n_said = 0;
    if ((c.pid = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);                    /* a test that fails leaves no server behind, for which ctest would wait */
        dup2(ends[1], 2);
        if (child_files) setrlimit(RLIMIT_NOFILE, &(struct rlimit){ child_files, child_files });
        execv(program, (char *const *)(void *)argv);
        _exit(127);
    }
    close(ends[1]);
    c.err = ends[0];
    fcntl(c.err, F_SETFL, O_NONBLOCK);
    for (const double start = now(); now() - start < 60; pause_ms(5)) {
        const char *at = strstr(child_said(&c), "listening at ");
        if (at && strchr(at, '\n')) { c.port = strncmp(at + 13, "unix:", 5) == 0 ? -1 : atoi(strrchr(at, ':') + 1); return c; }
        siginfo_t info = { 0 };
        if (waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) break;
    }
    child_said(&c);
    return c;
}

int child_wait(struct child *c, double seconds)
{
    int status;
    for (const double start = now(); now() - start < seconds; pause_ms(5)) {
        child_said(c);
        if (waitpid(c->pid, &status, WNOHANG) != c->pid) continue;
        child_said(c);
        close(c->err);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
}

int client_connect(int port)
{
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

int client_connect_file(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(to.sun_path, path, sizeof to.sun_path - 1);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

void client_send(int fd, const char *bytes, size_t n)
{
    for (ssize_t part; n > 0 && (part = send(fd, bytes, n, MSG_NOSIGNAL)) > 0; n -= (size_t)part) bytes += part;
}

void client_request(int fd, const char *method, const char *path, const char *headers, const char *body)
{
    char *head = NULL;
    const int n = asprintf(&head, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\nContent-Type: application/json\r\n"
                           "Connection: close\r\n\r\n", method, path, headers, body ? strlen(body) : 0);
    client_send(fd, head, (size_t)n);
    free(head);
    if (body) client_send(fd, body, strlen(body));
}

ssize_t client_read(int fd, char *to, size_t room, double seconds)
{
    struct pollfd p = { fd, POLLIN, 0 };
    if (fd < 0) return -1;                                    /* it was not connected */
    if (poll(&p, 1, (int)(1000 * seconds)) <= 0) return 0;
    const ssize_t n = recv(fd, to, room, 0);
    return n > 0 ? n : -1;
}

/* Removes the frames of a chunked body, in place. */
static size_t unchunk(char *body, size_t n)
{
    size_t from = 0, to = 0;
    while (from < n) {
        char *end;
        const size_t size = strtoul(body + from, &end, 16);
        from = (size_t)(end - body) + 2;
        if (size == 0 || from + size > n) break;
        memmove(body + to, body + from, size);
        to += size;
        from += size + 2;
    }
    body[to] = 0;
    return to;
}

struct reply client_answer(int fd)
{
    size_t n = 0, room = 1 << 16;
    char *bytes = malloc(room);
    struct reply r = { 0, NULL, NULL, 0 };
    for (ssize_t got; bytes && (got = client_read(fd, bytes + n, room - n - 1, 60)) > 0; ) {
        n += (size_t)got;
        if (n + 1 == room) bytes = realloc(bytes, room *= 2);
    }
    close(fd);
    if (!bytes) return r;
    bytes[n] = 0;
    char *end = strstr(bytes, "\r\n\r\n");
    if (!end) { free(bytes); return r; }
    end[2] = 0;
    r.head = bytes;
    r.body = end + 4;
    r.n = n - (size_t)(r.body - bytes);
    r.status = atoi(bytes + 9);
    if (strcasestr(bytes, "\r\nTransfer-Encoding: chunked\r\n")) r.n = unchunk(r.body, r.n);
    return r;
}

struct reply ask(int port, const char *method, const char *path, const char *headers, const char *body)
{
    const int fd = client_connect(port);
    if (fd < 0) return (struct reply){ 0, NULL, NULL, 0 };
    client_request(fd, method, path, headers, body);
    return client_answer(fd);
}

struct reply client_raw(int port, const char *bytes)
{
    const int fd = client_connect(port);
    if (fd < 0) return (struct reply){ 0, NULL, NULL, 0 };
    client_send(fd, bytes, strlen(bytes));
    return client_answer(fd);
}

struct reply post(int port, const char *path, const char *body) { return ask(port, "POST", path, "", body); }

void reply_free(struct reply *r)
{
    free(r->head);
    *r = (struct reply){ 0, NULL, NULL, 0 };
}

char *spoiled(const char *body, unsigned *random)
{
    static const char *const words[] = {
        "null",        "true", "[]", "{}",     "\"\"", "-1",          "0",   "1e308", "99999999999999999999",
        "\"\\u0000\"", "[[[[", "}",  "\"x\":", ",",    "\"\\ud800\"", "0.5", "\xff",  "\xf0\x9f"};
    const size_t n = strlen(body), room = 3 * n + 64;
    char *text = calloc(1, room);
    memcpy(text, body, n);
    for (int times = 1 + rand_r(random) % 3; times > 0; times--) {
        const size_t length = strlen(text), at = length ? (size_t)rand_r(random) % length : 0, some = (size_t)rand_r(random) % 12;
        const size_t cut = some < length - at ? some : length - at;
        const char *word = words[(size_t)rand_r(random) % (sizeof words / sizeof *words)];
        switch (rand_r(random) % 4) {
        case 0: if (length) text[at] = (char)(1 + rand_r(random) % 255); break;
        case 1: memmove(text + at, text + at + cut, length - at - cut + 1); break;
        case 2:
            if (length + strlen(word) + 1 > room) break;
            memmove(text + at + strlen(word), text + at + cut, length - at - cut + 1);
            memcpy(text + at, word, strlen(word));
            break;
        case 3:
            if (length + cut + 1 > room) break;
            memmove(text + at + cut, text + at, length - at + 1);
            break;
        }
    }
    return text;
}
