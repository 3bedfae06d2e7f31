/* libsimtccl.c -- the functions of librccl that runtime/device/nccl.def names, between processes of this machine that use devices of
 * libsimt: FORGE_RCCL_LIBRARY=libsimtccl.so beside FORGE_HIP_LIBRARY=libsimt.so.
 *
 * Process 0 listens at NCCL_COMM_ID and the others connect to it; then each pair of processes has a connection.  Sends and receives of a
 * group run concurrently when the group ends; a call outside a group runs at once.  Before that, the earlier work of their streams must
 * end; the driver's library is queried for this.  A message has its length, and a receiver that expects another number of bytes fails: so
 * do processes that do not make the same calls.  If a process has ended, calls and the query for errors report it.
 *   FORGE_SIMTCCL_VERSION=N   version of the library (default 22005); from 21600 to 22199 each process makes another id, as the real one
 *   FORGE_SIMTCCL_BEND=C:W:X  in messages of process 0 (2048 bytes) with C as second word of 8 bytes, word W becomes X */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, MOST = 8, MOST_OPS = 64, BYTES_TYPE = 1 };

struct id { uint64_t magic; char place[120]; };
struct comm { int n, rank, sockets[MOST], code; uint64_t magic; };
struct op { struct comm *comm; bool sends; int peer; uint8_t *at; uint64_t n, done; uint64_t length; uint32_t length_done; void *stream; };

static struct op ops[MOST_OPS];
static int n_ops, depth;

EXPORT int ncclGetVersion(int *version);
EXPORT int ncclGetUniqueId(struct id *id);
EXPORT int ncclCommInitRank(void **out, int n, struct id id, int rank);
EXPORT int ncclCommDestroy(void *comm);
EXPORT int ncclCommAbort(void *comm);
EXPORT int ncclCommGetAsyncError(void *comm, int *code);
EXPORT const char *ncclGetErrorString(int code);
EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream);
EXPORT int ncclRecv(void *to, size_t n, int type, int peer, void *comm, void *stream);

static void nap(void)
{
    const struct timespec t = { 0, 1000000 };
    nanosleep(&t, NULL);
}

/* ---- connections ---- */

static bool all_of(int fd, void *bytes, size_t n, bool sends)
{
    for (size_t at = 0; at < n;) {
        const ssize_t part = sends ? send(fd, (char *)bytes + at, n - at, MSG_NOSIGNAL) : recv(fd, (char *)bytes + at, n - at, 0);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return false;
        at += (size_t)part;
    }
    return true;
}

static struct sockaddr_in address_of(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Listens at *port; 0: at any free port, which is written to *port.  Returns the socket or -1. */
static int listen_at(uint16_t *port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in a = address_of(*port);
    socklen_t n = sizeof a;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, MOST) != 0 || getsockname(fd, (struct sockaddr *)&a, &n) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(a.sin_port);
    return fd;
}

/* Tries again until a process listens at the port. */
static int connect_to(uint16_t port)
{
    for (;; nap()) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in a = address_of(port);
        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        close(fd);
    }
}

struct hello { uint64_t magic; int32_t rank, n; uint16_t port; };

/* Process 0 accepts all others and sends each of them the ports of all. */
static int gather(struct comm *c, uint16_t port)
{
    uint16_t ports[MOST] = { 0 };
    const int fd = listen_at(&port);
    if (fd < 0) return SYSTEM_ERROR;
    for (int i = 1; i < c->n; i++) {
        struct hello h;
        const int to = accept(fd, NULL, NULL);
        if (to < 0 || !all_of(to, &h, sizeof h, false)) return SYSTEM_ERROR;
        if (h.magic != c->magic || h.n != c->n || h.rank <= 0 || h.rank >= c->n || c->sockets[h.rank] >= 0)
            return INVALID_USAGE;
        c->sockets[h.rank] = to;
        ports[h.rank] = h.port;
    }
    close(fd);
    for (int i = 1; i < c->n; i++) if (!all_of(c->sockets[i], ports, sizeof ports, true)) return REMOTE_ERROR;
    return OK;
}

/* Another process: connects to processes with lower numbers and accepts those with higher numbers. */
static int join(struct comm *c, uint16_t port)
{
    struct hello h = { c->magic, c->rank, c->n, 0 }, other;
    uint16_t ports[MOST];
    const int fd = listen_at(&h.port);
    c->sockets[0] = connect_to(port);
    if (fd < 0 || c->sockets[0] < 0) return SYSTEM_ERROR;
    if (!all_of(c->sockets[0], &h, sizeof h, true) || !all_of(c->sockets[0], ports, sizeof ports, false)) return REMOTE_ERROR;
    for (int i = 1; i < c->rank; i++) {
        c->sockets[i] = connect_to(ports[i]);
        if (!all_of(c->sockets[i], &h, sizeof h, true)) return REMOTE_ERROR;
    }
    for (int i = c->rank + 1; i < c->n; i++) {
        const int to = accept(fd, NULL, NULL);
        if (to < 0 || !all_of(to, &other, sizeof other, false)) return REMOTE_ERROR;
        c->sockets[other.rank] = to;
    }
    close(fd);
    return OK;
}

static int number_of(void)
{
    const char *text = getenv("FORGE_SIMTCCL_VERSION");
    return text ? atoi(text) : 22005;
}

int ncclGetVersion(int *version)
{
    *version = number_of();
    return OK;
}

int ncclGetUniqueId(struct id *id)
{
    const char *place = getenv("NCCL_COMM_ID");
    memset(id, 0, sizeof *id);
    if (!place || !strchr(place, ':')) return INVALID_ARGUMENT;          /* the real library then makes an id of this process */
    snprintf(id->place, sizeof id->place, "%s", place);
    id->magic = number_of() >= 21600 && number_of() < 22200 ? (uint64_t)getpid() : 0x0280028002800280;
    return OK;
}

int ncclCommInitRank(void **out, int n, struct id id, int rank)
{
    const char *colon = strrchr(id.place, ':');
    struct comm *c = calloc(1, sizeof *c);
    if (!c || !colon || n > MOST || rank >= n) return INVALID_ARGUMENT;
    c->n = n;
    c->rank = rank;
    c->magic = id.magic;
    for (int i = 0; i < MOST; i++) c->sockets[i] = -1;
    const uint16_t port = (uint16_t)atoi(colon + 1);
    const int code = rank == 0 ? gather(c, port) : join(c, port), on = 1;
    for (int i = 0; i < n; i++) if (c->sockets[i] >= 0) setsockopt(c->sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *out = c;
    return code;
}

int ncclCommDestroy(void *comm)
{
    struct comm *c = comm;
    for (int i = 0; i < c->n; i++) if (c->sockets[i] >= 0) close(c->sockets[i]);
    free(c);
    return OK;
}

int ncclCommAbort(void *comm) { return ncclCommDestroy(comm); }

/* A read from a closed connection shows that its process has ended. */
int ncclCommGetAsyncError(void *comm, int *code)
{
    struct comm *c = comm;
    char byte;
    for (int i = 0; i < c->n && c->code == OK; i++) {
        const ssize_t n = c->sockets[i] >= 0 ? recv(c->sockets[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) c->code = REMOTE_ERROR;
    }
    *code = c->code;
    return OK;
}

const char *ncclGetErrorString(int code)
{
    return code == REMOTE_ERROR ? "remote process exited or there was a network error" : code == INVALID_USAGE ? "invalid usage"
         : code == INVALID_ARGUMENT ? "invalid argument" : code == SYSTEM_ERROR ? "unhandled system error" : "no error";
}

/* ---- sends and receives ---- */

/* Waits for the earlier work of the stream; ends if the driver reports a failure. */
static void wait_for(void *stream)
{
    static int (*query)(void *stream);
    if (!query) {
        void *driver = dlopen(getenv("FORGE_HIP_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
        void *address = driver ? dlsym(driver, "hipStreamQuery") : NULL;
        if (!address) abort();
        memcpy(&query, &address, sizeof address);
    }
    while (query(stream) == 600) nap();
}

static bool done(const struct op *o) { return o->length_done == sizeof o->length && o->done == o->n; }

/* Transfers as many bytes as possible without waiting; false: the process has ended, or it sends another length. */
static bool go_on(struct op *o, int fd, int *code)
{
    while (!done(o)) {
        const bool head = o->length_done < sizeof o->length;
        uint8_t *at = head ? (uint8_t *)&o->length + o->length_done : o->at + o->done;
        const size_t n = head ? sizeof o->length - o->length_done : (size_t)(o->n - o->done);
        const ssize_t part = o->sends ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);
        if (part < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (part <= 0) { *code = REMOTE_ERROR; return false; }
        if (head) o->length_done += (uint32_t)part;
        else o->done += (uint64_t)part;
        if (!o->sends && o->length_done == sizeof o->length && o->length != o->n) {
            fprintf(stderr, "libsimtccl: process %d expects %llu bytes from process %d, which sends %llu\n", o->comm->rank,
                (unsigned long long)o->n,
                    o->peer, (unsigned long long)o->length);
            *code = INVALID_USAGE;
            return false;
        }
    }
    return true;
}

static void bend(const struct op *o)
{
    enum { MESSAGE_BYTES = 2048, COMMAND_AT = 8 };
    const char *text = getenv("FORGE_SIMTCCL_BEND");
    char *end;
    uint64_t command;
    if (!text || !o->sends || o->comm->rank != 0 || o->n != MESSAGE_BYTES) return;
    memcpy(&command, o->at + COMMAND_AT, sizeof command);
    if (strtoull(text, &end, 0) != command || *end != ':') return;
    const uint64_t word = strtoull(end + 1, &end, 0), value = strtoull(end + 1, NULL, 0);
    memcpy(o->at + 8 * word, &value, sizeof value);
}

/* Runs all operations: per connection and direction one at a time, in order. */
static int run(void)
{
    int code = OK;
    for (int i = 0; i < n_ops; i++) wait_for(ops[i].stream);
    for (int i = 0; i < n_ops; i++) bend(&ops[i]);
    for (bool all = false; !all && code == OK;) {
        struct pollfd polls[MOST_OPS];
        int n = 0;
        all = true;
        for (int i = 0; i < n_ops && code == OK; i++) {
            struct op *o = &ops[i];
            const int fd = o->comm->sockets[o->peer];
            bool first = !done(o);
            for (int k = 0; k < i; k++) first &= ops[k].peer != o->peer || ops[k].sends != o->sends || done(&ops[k]);
            if (first && !go_on(o, fd, &code)) break;
            if (done(o)) continue;
            all = false;
            if (first) polls[n++] = (struct pollfd){ .fd = fd, .events = o->sends ? POLLOUT : POLLIN };
        }
        if (!all && code == OK) poll(polls, (nfds_t)n, 10);
    }
    if (n_ops > 0 && code != OK) ops[0].comm->code = code;
    n_ops = 0;
    return code;
}

int ncclGroupStart(void) { depth++; return OK; }

int ncclGroupEnd(void) { return --depth == 0 ? run() : OK; }

static int add(struct op op, int type)
{
    const bool there = op.peer >= 0 && op.peer < op.comm->n && op.peer != op.comm->rank;
    if (type != BYTES_TYPE || !there || n_ops == MOST_OPS) return INVALID_ARGUMENT;
    if (op.comm->code != OK) return op.comm->code;
    if (op.sends) op.length = op.n;
    ops[n_ops++] = op;
    return depth == 0 ? run() : OK;
}

int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream)
{
    return add((struct op){ .comm = comm, .sends = true, .peer = peer, .at = (uint8_t *)(uintptr_t)from, .n = n, .stream = stream }, type);
}

int ncclRecv(void *to, size_t n, int type, int peer, void *comm, void *stream)
{
    return add((struct op){ .comm = comm, .peer = peer, .at = to, .n = n, .stream = stream }, type);
}
