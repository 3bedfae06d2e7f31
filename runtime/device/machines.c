/* machines.c -- NCCL or RCCL between processes that share a model. */
#include "machines.h"
#include "driver_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/model/xxh3.h"
#include "runtime/run/engine.h"

/* Constants of nccl.h. */
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1, NCCL_FIRST_VERSION = 2700, NCCL_RANDOM_FROM = 21600,
       NCCL_RANDOM_BEFORE = 22200 };
enum { FIRST_BYTES = 2048,                       /* size of the first part of a message, sent alone; a longer message has a second part */
       CONNECT_BYTES = 65536 };                  /* sent to every other process when they meet */
static const double MEET_SECONDS = 120, SPIN_SECONDS = 50e-6, NAP_LEAST = 5e-6, NAP_MOST = 1e-3, ASK_SECONDS = 1e-3, CLOSE_SECONDS = 5;

struct nccl_id { uint64_t magic; char bytes[120]; };
_Static_assert(sizeof(struct nccl_id) == 128, "ncclUniqueId of nccl.h");

struct nccl {
    int (*version)(int *version);
    int (*unique_id)(struct nccl_id *id);
    int (*init)(void **comm, int n, struct nccl_id id, int rank);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*async_error)(void *comm, int *code);
    const char *(*error_text)(int code);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *from, size_t n, int type, int peer, void *comm, void *stream);
    int (*receive)(void *to, size_t n, int type, int peer, void *comm, void *stream);
    const char *(*last_error)(void *comm);       /* NULL: older than 2.13 */
};

struct machines {
    struct nccl call;
    const char *name;                            /* "NCCL" */
    char     library[64], place[300];
    int      version;
    uint32_t n, rank;
    void    *comm;
    struct forge_device *device;
    uint8_t *message, *on_device;                /* [bytes], pinned; [bytes] */
    uint64_t bytes;
    void    *passed;                             /* event: the stream has passed the message */
};

struct symbol { size_t at; const char *name; };
#define SYMBOL(member, symbol) { offsetof(struct nccl, member), #symbol },
static const struct symbol symbols[] = {
#include "nccl.def"
};
#undef SYMBOL

static const struct library { const char *name; enum driver_library file; } libraries[] = {
    [FORGE_GPU_HIP] = { "RCCL", DRIVER_RCCL }, [FORGE_GPU_CUDA] = { "NCCL", DRIVER_NCCL },
};

/* ---- messages ---- */

static enum forge_status fail(const struct machines *m, int code, const char *what, struct forge_error *error)
{
    const char *more = m->call.last_error ? m->call.last_error(m->comm) : NULL;
    const size_t n = more ? strcspn(more, "\n") : 0;
    return error_set(error, FORGE_DEVICE_FAULT, "%s: %s says: %.100s (%d)%s%.*s", what, m->name, m->call.error_text(code), code,
                     n > 0 ? ", " : "", n < 200 ? (int)n : 200, n > 0 ? more : "");
}

#define CALL(m, what, expression) \
    do { const int code_ = (m)->call.expression; if (code_ != NCCL_SUCCESS) return fail(m, code_, what, error); } while (0)

/* ---- opening ---- */

static enum forge_status find_library(struct machines *m, const struct library *l, struct forge_error *error)
{
    char broken[300], file[256];
    void *library = driver_open(l->file, file, sizeof file, broken, sizeof broken);
    if (!library && *broken != 0) return error_set(error, FORGE_NO_DEVICE, "%s cannot be loaded: %s", l->name, broken);
    if (!library) return error_set(error, FORGE_NO_DEVICE, "%u processes share the model: %s", m->n,
                                   driver_missing(l->file));
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address)
            return error_set(error, FORGE_NO_DEVICE, "%s has no %s: it is too old or another library", l->name, symbols[i].name);
        memcpy((char *)&m->call + symbols[i].at, &address, sizeof address);
    }
    void *last_error = dlsym(library, "ncclGetLastError");
    memcpy(&m->call.last_error, &last_error, sizeof last_error);
    CALL(m, "the meeting of the processes", version(&m->version));
    const int version = m->version;
    const int major = version < 10000 ? version / 1000 : version / 10000, minor = version / 100 % (version < 10000 ? 10 : 100);
    snprintf(m->library, sizeof m->library, "%s %d.%d.%d", l->name, major, minor, version % 100);
    if (version < NCCL_FIRST_VERSION) return error_set(error, FORGE_NO_DEVICE, "%s is too old: 2.7 is needed", m->library);
    return FORGE_OK;
}

/* NCCL_COMM_ID is the library's own variable: all processes get the same id from it, and rank 0 listens at that address. */
static enum forge_status find_place(struct machines *m, struct forge_error *error)
{
    const char *id = getenv("NCCL_COMM_ID"), *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (id && *id != 0) snprintf(m->place, sizeof m->place, "%s", id);
    else if (host && port && *host != 0) snprintf(m->place, sizeof m->place, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    else
        return error_set(error, FORGE_USAGE, "%u processes share the model and have no place to meet: set NCCL_COMM_ID=HOST:PORT, an "
                         "address of process 0's machine and a free port, or MASTER_ADDR and MASTER_PORT", m->n);
    const char *colon = strrchr(m->place, ':');
    char *end = NULL;
    const long number = colon && colon != m->place ? strtol(colon + 1, &end, 10) : 0;
    if (number < 1 || number > 65535 || *end != 0)
        return error_set(error, FORGE_USAGE, "the processes cannot meet at '%.100s': NCCL_COMM_ID is HOST:PORT", m->place);
    setenv("NCCL_COMM_ID", m->place, 1);
    return FORGE_OK;
}

enum forge_status machines_open(struct machines **out, uint32_t api, const struct forge_launcher *launcher, struct forge_error *error)
{
    struct machines *m = *out = calloc(1, sizeof *m);
    if (!m) return error_set(error, FORGE_NO_MEMORY, "out of memory for the list of processes");
    m->n = launcher->n;
    m->rank = launcher->rank;
    m->name = libraries[api].name;
    TRY(find_place(m, error));
    return find_library(m, &libraries[api], error);
}

const char *machines_library(const struct machines *m) { return m->library; }
const char *machines_place(const struct machines *m) { return m->place; }
uint32_t machines_rank(const struct machines *m) { return m->rank; }
uint32_t machines_count(const struct machines *m) { return m->n; }
uint64_t machines_bytes(const struct machines *m) { return m->bytes; }

/* ---- values ---- */

static enum forge_status pass_part(struct machines *m, const struct machines_part *p, struct forge_error *error)
{
    void *const stream = m->device->stream;
    if (p->from) CALL(m, "a transfer between processes", send(p->from, (size_t)p->bytes, NCCL_UINT8, (int)p->with, m->comm, stream));
    if (p->to) CALL(m, "a transfer between processes", receive(p->to, (size_t)p->bytes, NCCL_UINT8, (int)p->with, m->comm, stream));
    return FORGE_OK;
}

enum forge_status machines_transfer(struct machines *m, const struct machines_part *parts, uint32_t n, struct forge_error *error)
{
    enum forge_status status = FORGE_OK;
    CALL(m, "a transfer between processes", group_start());
    for (uint32_t i = 0; i < n && status == FORGE_OK; i++) status = pass_part(m, &parts[i], error);
    const int code = m->call.group_end();
    return status != FORGE_OK ? status : code == NCCL_SUCCESS ? FORGE_OK : fail(m, code, "a transfer between processes", error);
}

/* ---- waiting ---- */

static void nap(double since)
{
    double seconds = (seconds_now() - since) / 32;
    if (seconds < SPIN_SECONDS / 32) return;
    seconds = seconds < NAP_LEAST ? NAP_LEAST : seconds > NAP_MOST ? NAP_MOST : seconds;
    const struct timespec t = { 0, (long)(seconds * 1e9) };
    nanosleep(&t, NULL);
}

enum forge_status machines_ask(struct machines *m, struct forge_error *error)
{
    int code = NCCL_SUCCESS;
    if (m->call.async_error(m->comm, &code) != NCCL_SUCCESS || code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS) return FORGE_OK;
    return fail(m, code, "another process has gone", error);
}

/* Waits until the stream has passed the message; seconds 0: no limit. */
static enum forge_status wait_passed(struct machines *m, double seconds, struct forge_error *error)
{
    const double since = seconds_now();
    for (double asked = since;;) {
        bool passed;
        TRY(device_passed(m->device, m->passed, &passed, error));
        if (passed) return FORGE_OK;
        const double now = seconds_now();
        if (seconds > 0 && now - since > seconds)
            return error_set(error, FORGE_DEVICE_FAULT, "the other processes have not answered for %.0f seconds", seconds);
        if (now - asked > ASK_SECONDS) {
            TRY(machines_ask(m, error));
            asked = now;
        }
        nap(since);
    }
}

/* ---- meeting ---- */

/* The library waits for all processes without a time limit, so it runs in a thread that is abandoned if they do not come. */
struct meeting { struct machines *m; enum forge_status status; struct forge_error error; _Atomic int done; };

/* Two processes connect when they first send something to each other.  All do so now: so the memory that this takes is gone before other
 * memory is allocated, and a network that blocks connections is detected. */
static enum forge_status connect_all(struct machines *m, struct forge_error *error)
{
    struct machines_part parts[FORGE_GPU_MAX_RANKS];
    uint32_t n = 0;
    for (uint32_t r = 0; r < m->n; r++)
        if (r != m->rank) parts[n++] = (struct machines_part){ r, m->on_device + (uint64_t)m->rank * CONNECT_BYTES,
                                                               m->on_device + (uint64_t)r * CONNECT_BYTES, CONNECT_BYTES };
    return machines_transfer(m, parts, n, error);
}

/* A connection begins with a secret number.  The library draws it, except with NCCL_COMM_ID, because then no process could send it to
 * the others.  So it is made here from something that the processes know and strangers do not: FORGE_MEET_KEY, or else the names that
 * launchers give to a job.  0: none of these is set. */
static uint64_t meeting_number(bool *by_key)
{
    static const char *const jobs[] = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID" };
    char text[512] = "";
    const char *key = getenv("FORGE_MEET_KEY");
    *by_key = key && *key != 0;
    if (*by_key) return forge_xxh3(key, strlen(key));
    for (size_t i = 0, used = 0; i < sizeof jobs / sizeof *jobs && used < sizeof text; i++) {
        const char *job = getenv(jobs[i]);
        if (job) used += (size_t)snprintf(text + used, sizeof text - used, "%s=%s;", jobs[i], job);
    }
    return *text != 0 ? forge_xxh3(text, strlen(text)) : 0;
}

static enum forge_status meet_here(struct machines *m, struct forge_error *error)
{
    struct nccl_id id;
    memset(&id, 0, sizeof id);
    TRY(device_current(m->device, error));
    CALL(m, "the meeting of the processes", unique_id(&id));
    /* From 2.16 to 2.21 each process draws the number with which its connections begin, although NCCL_COMM_ID gives all processes the
     * same id otherwise (struct ncclBootstrapHandle, src/bootstrap.cc).  Older versions have no such number, and in later ones it is a
     * public constant. */
    bool by_key;
    const uint64_t number = meeting_number(&by_key);
    if (m->version >= NCCL_RANDOM_FROM && m->version < NCCL_RANDOM_BEFORE) id.magic = number > 0 ? number : 1;
    else if (m->version >= NCCL_RANDOM_BEFORE && by_key) id.magic = number;
    CALL(m, "the meeting of the processes", init(&m->comm, (int)m->n, id, (int)m->rank));
    return connect_all(m, error);
}

static void *meet(void *at)
{
    struct meeting *w = at;
    w->status = meet_here(w->m, &w->error);
    w->done = 1;
    return NULL;
}

static double meet_seconds(void)
{
    const char *text = getenv("FORGE_MEET_SECONDS");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : MEET_SECONDS;
}

static enum forge_status meet_all(struct machines *m, struct forge_error *error)
{
    struct meeting *w = calloc(1, sizeof *w);
    pthread_t thread;
    const double since = seconds_now(), limit = meet_seconds();
    if (!w) return error_set(error, FORGE_NO_MEMORY, "out of memory for the meeting of %u processes", m->n);
    w->m = m;
    if (pthread_create(&thread, NULL, meet, w) != 0) {
        free(w);
        return error_set(error, FORGE_FAILED, "cannot start a thread for the meeting of %u processes", m->n);
    }
    pthread_detach(thread);
    while (!w->done && seconds_now() - since < limit) nap(since);
    if (!w->done)
        return error_set(error, FORGE_DEVICE_FAULT, "%u processes did not meet at %.100s within %.0f seconds: do all of them run, "
                         "and reach that address?", m->n, m->place, limit);
    const enum forge_status status = w->status;
    if (status != FORGE_OK && error) *error = w->error;
    free(w);
    return status;
}

enum forge_status machines_meet(struct machines *m, struct forge_device *device, uint64_t message_bytes, struct forge_error *error)
{
    uint8_t *address;
    m->device = device;
    m->bytes = message_bytes > m->n * (uint64_t)CONNECT_BYTES ? message_bytes : m->n * (uint64_t)CONNECT_BYTES;
    TRY(device_alloc(device, &m->on_device, m->bytes, "messages between processes", error));
    TRY(device_clear(device, m->on_device, m->bytes, error));
    TRY(device_host_alloc(device, &m->message, &address, m->bytes, "messages between processes", error));
    memset(m->message, 0, (size_t)m->bytes);
    TRY(device_event(device, &m->passed, error));
    TRY(device_record(device, m->passed, error));
    TRY(meet_all(m, error));
    TRY(device_record(device, m->passed, error));
    return wait_passed(m, meet_seconds(), error);
}

/* ---- closing ---- */

/* Waits until everything has left this process before the library closes its connections. */
static bool is_through(struct machines *m)
{
    return device_current(m->device, NULL) == FORGE_OK && device_record(m->device, m->passed, NULL) == FORGE_OK &&
           wait_passed(m, CLOSE_SECONDS, NULL) == FORGE_OK;
}

void machines_close(struct machines *m, bool lost)
{
    if (!m) return;
    if (lost) return;                            /* both abort and the driver wait for the stream, where a kernel may wait for values for
                                                  * ever */
    if (m->comm && is_through(m)) m->call.destroy(m->comm);
    else if (m->comm) m->call.abort(m->comm);
    if (m->device && m->device->library) {
        device_event_free(m->device, m->passed);
        device_host_free(m->device, m->message);
        device_free(m->device, m->on_device);
    }
    free(m);
}

/* ---- messages ---- */

enum forge_status machines_message(struct machines *m, uint8_t **out, struct forge_error *error)
{
    TRY(device_current(m->device, error));
    TRY(wait_passed(m, 0, error));
    *out = m->message;
    return FORGE_OK;
}

static enum forge_status send_to(struct machines *m, uint32_t to, uint64_t at, uint64_t bytes, struct forge_error *error)
{
    CALL(m, "a message between processes", send(m->on_device + at, (size_t)bytes, NCCL_UINT8, (int)to, m->comm, m->device->stream));
    return FORGE_OK;
}

static enum forge_status receive_from(struct machines *m, uint32_t from, uint64_t at, uint64_t bytes, struct forge_error *error)
{
    CALL(m, "a message between processes", receive(m->on_device + at, (size_t)bytes, NCCL_UINT8, (int)from, m->comm, m->device->stream));
    return FORGE_OK;
}

static enum forge_status send_part(struct machines *m, uint64_t at, uint64_t bytes, struct forge_error *error)
{
    enum forge_status status = FORGE_OK;
    CALL(m, "a message between processes", group_start());
    for (uint32_t r = 1; r < m->n && status == FORGE_OK; r++) status = send_to(m, r, at, bytes, error);
    const int code = m->call.group_end();
    return status != FORGE_OK ? status : code == NCCL_SUCCESS ? FORGE_OK : fail(m, code, "a message between processes", error);
}

/* The message begins with its length. */
enum forge_status machines_send(struct machines *m, uint64_t bytes, struct forge_error *error)
{
    memcpy(m->message, &bytes, sizeof bytes);
    TRY(device_upload(m->device, m->on_device, m->message, bytes, error));
    TRY(device_record(m->device, m->passed, error));
    TRY(send_part(m, 0, FIRST_BYTES, error));
    return bytes > FIRST_BYTES ? send_part(m, FIRST_BYTES, bytes - FIRST_BYTES, error) : FORGE_OK;
}

static enum forge_status receive_part(struct machines *m, uint64_t at, uint64_t bytes, struct forge_error *error)
{
    TRY(receive_from(m, 0, at, bytes, error));
    TRY(device_download(m->device, m->message + at, m->on_device + at, bytes, error));
    TRY(device_record(m->device, m->passed, error));
    return wait_passed(m, 0, error);
}

enum forge_status machines_receive(struct machines *m, struct forge_error *error)
{
    uint64_t bytes;
    TRY(device_current(m->device, error));
    TRY(receive_part(m, 0, FIRST_BYTES, error));
    memcpy(&bytes, m->message, sizeof bytes);
    if (bytes < sizeof bytes || bytes > m->bytes)
        return error_set(error, FORGE_DEVICE_FAULT, "a message of %llu bytes came; the maximum is %llu", (unsigned long long)bytes,
                         (unsigned long long)m->bytes);
    return bytes > FIRST_BYTES ? receive_part(m, FIRST_BYTES, bytes - FIRST_BYTES, error) : FORGE_OK;
}

enum forge_status machines_gather(struct machines *m, uint64_t bytes, double seconds, struct forge_error *error)
{
    TRY(device_current(m->device, error));
    if (m->rank > 0) {
        TRY(device_upload(m->device, m->on_device, m->message, bytes, error));
        TRY(device_record(m->device, m->passed, error));
        return send_to(m, 0, 0, bytes, error);
    }
    enum forge_status status = FORGE_OK;
    CALL(m, "a report of the other processes", group_start());
    for (uint32_t r = 1; r < m->n && status == FORGE_OK; r++) status = receive_from(m, r, r * bytes, bytes, error);
    const int code = m->call.group_end();
    if (status == FORGE_OK && code != NCCL_SUCCESS) status = fail(m, code, "a report of the other processes", error);
    if (status == FORGE_OK) status = device_download(m->device, m->message + bytes, m->on_device + bytes, (m->n - 1) * bytes, error);
    if (status == FORGE_OK) status = device_record(m->device, m->passed, error);
    return status == FORGE_OK ? wait_passed(m, seconds, error) : status;
}

enum forge_status machines_fetch(struct machines *m, uint32_t from, const uint8_t *device, uint64_t bytes, struct forge_error *error)
{
    if (bytes > m->bytes && m->rank != from)
        return error_set(error, FORGE_DEVICE_FAULT, "a piece of %llu bytes is longer than the longest message", (unsigned long long)bytes);
    if (m->rank == from) {
        CALL(m, "a state on its way to another process", send(device, (size_t)bytes, NCCL_UINT8, 0, m->comm, m->device->stream));
        return FORGE_OK;
    }
    if (m->rank > 0) return FORGE_OK;
    TRY(receive_from(m, from, 0, bytes, error));
    TRY(device_download(m->device, m->message, m->on_device, bytes, error));
    TRY(device_record(m->device, m->passed, error));
    return wait_passed(m, 0, error);
}
