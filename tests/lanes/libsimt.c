/* libsimt.c -- the functions of libamdhip64 that runtime/device/hip.def names, and the functions of peer access, on the host: simt.c runs
 * the kernels.  FORGE_HIP_LIBRARY=libsimt.so.  A module is a shared object of kernels compiled as host C; its symbol forge_simt_wave
 * (uint32_t) is the number of lanes of a wave.
 *
 * New memory is filled with bytes 0xff and has guards around it.  A copy must stay inside one allocation of the stream's device, or of a
 * device to which it has access; its host side must stay inside pinned memory.  The pointers in a launch's args.collective must point to
 * such memory too, and it must be fine-grained: a kernel does not see another GPU's stores to other memory (HIP only).
 *
 * A single device runs an operation at once, in the thread that puts it on a stream.  If there are several devices, each has a thread,
 * which runs the operations of all its streams in the order in which they were put, in parallel with the host and the other devices.  So
 * kernels of two devices can wait for each other.  Kernels of two streams of one device cannot, and a workgroup cannot wait for a later
 * workgroup of its launch.  If a device waits for a value that never comes, it waits forever, and functions that free its memory or code
 * wait too.  Kernels must be launched by a thread with the stream's device as its current device, and graphs on the device of their
 * capture; copies and queries may come from any thread.
 *   FORGE_SIMT_DEVICES=N      number of devices (default 1, at most 8)
 *   FORGE_SIMT_MEMORY=BYTES   memory of a device (default 256 MiB: a measurement copies a quarter of it).  A list is for several devices:
 *                             50000000,60000000; further devices have the last number
 *   FORGE_SIMT_DEFER=1        nothing runs before a query: this finds pinned memory that is reused too early
 *   FORGE_SIMT_FAULT=N        launch N (from 1) and everything after it fails
 *   FORGE_SIMT_ABORT=N        launch N ends the process with abort(), as AMD's runtime does
 *   FORGE_SIMT_FAIL_DEVICE=I  the device of these two launches (default 0); the other devices continue
 *   FORGE_SIMT_NO_PEER=1      no device can access the memory of another
 *   FORGE_SIMT_SEED=N         workgroups and lanes run in a random order with seed N
 *   FORGE_SIMT_LAUNCH_NS=N    events have the time of a device on which only launches take time, each N ns; else the real time
 *   FORGE_SIMT_LATER_NS=M     with it, launch number k takes N + k M ns
 *   FORGE_SIMT_VERSION=N      version of the library (default 60200000) */
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simt.h"

enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, NO_BINARY = 209, NO_PEER = 217, INVALID_HANDLE = 400,
       NOT_FOUND = 500, NOT_READY = 600, PEER_ALREADY = 704, LAUNCH_FAILURE = 719 };
enum { GUARD_BYTES = 256, GUARD = 0xa5, MOST_DEVICES = 8, FINE_GRAINED = 1, UNCACHED = 3, PORTABLE = 1 };

#define EXPORT __attribute__((visibility("default")))

/* ---- devices and their objects; all of them are protected by the lock ---- */

struct module { struct device *device; void *library; uint32_t wave; int file; };
struct function { simt_kernel *kernel; const struct module *module; };
/* recorded: how often the event was put on a stream; passed: the number of the last record that the stream has reached. */
struct event { struct event *next; bool used; struct device *device; struct stream *stream; double time; uint64_t recorded, passed; };
enum kind { COPY, CLEAR, LAUNCH, RECORD };
struct op {
    enum kind kind;
    struct stream *stream;
    void *to; const void *from; size_t n; uint8_t value;
    const struct function *function; uint32_t grid_x, grid_y, threads, lds, cluster; struct forge_kernel_args args;
    struct event *event; uint64_t number;
    uint64_t fault, abort; uint32_t seed;        /* launch: from the environment when it was put */
};
struct list { struct op *op; size_t at, n, capacity; };
/* n_begun: operations that the device's thread has received and not finished. */
struct stream { struct stream *next; bool used; struct device *device; struct list waiting, *capture; size_t n_begun; };
struct device {
    uint32_t peers;                              /* bit i: has access to the memory of device i */
    size_t   in_use;
    uint64_t n_launches;
    int      failure;
    bool     has_thread;
    struct list queue;                           /* the queue of its thread */
    size_t   n_begun;
    pthread_cond_t put, done;
};
struct block { struct block *next; struct device *device; uint8_t *bytes; size_t n; bool host, fine; };      /* host, fine: portable */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[MOST_DEVICES];
/* Streams and events are reused and never freed: the device's thread may still use them. */
static struct stream *streams;
static struct event *events;
static struct block *blocks;
static _Thread_local int current;

static int unlocked(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

/* A number of the environment; from a list number i, or the last. */
uint64_t simt_number(const char *name, int i, uint64_t otherwise);
uint64_t simt_number(const char *name, int i, uint64_t otherwise)
{
    const char *text = getenv(name), *comma;
    if (text == NULL || *text == 0) return otherwise;
    for (; i > 0 && (comma = strchr(text, ',')) != NULL; i--) text = comma + 1;
    return strtoull(text, NULL, 0);
}

static int n_devices(void)
{
    const uint64_t n = simt_number("FORGE_SIMT_DEVICES", 0, 1);
    return n < MOST_DEVICES ? (int)n : MOST_DEVICES;
}

static bool is_device(int device) { return device >= 0 && device < n_devices(); }
static int number_of(const struct device *d) { return (int)(d - devices); }

/* ---- memory ---- */

static void check_guards(const struct block *b)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (b->bytes[-1 - (ptrdiff_t)i] != GUARD || b->bytes[b->n + i] != GUARD) {
            fprintf(stderr, "libsimt: %zu bytes of %s memory were written beyond their end\n", b->n, b->host ? "host" : "device");
            abort();
        }
}

static uint64_t memory_of(const struct device *d) { return simt_number("FORGE_SIMT_MEMORY", number_of(d), (uint64_t)256 << 20); }

static int take(void **out, size_t n, bool host, bool fine)
{
    pthread_mutex_lock(&lock);
    struct device *d = &devices[current];
    const uint64_t limit = memory_of(d);
    if (d->failure != 0) return unlocked(d->failure);
    if (n == 0 || (!host && (n > limit || d->in_use > limit - n))) return unlocked(n == 0 ? INVALID : NO_MEMORY);
    struct block *b = malloc(sizeof *b);
    uint8_t *bytes = aligned_alloc(256, (n + 2 * GUARD_BYTES + 255) / 256 * 256);
    if (b == NULL || bytes == NULL) { free(b); free(bytes); return unlocked(NO_MEMORY); }
    memset(bytes, GUARD, GUARD_BYTES);
    memset(bytes + GUARD_BYTES, SIMT_POISON, n);
    memset(bytes + GUARD_BYTES + n, GUARD, GUARD_BYTES);
    *b = (struct block){ blocks, d, bytes + GUARD_BYTES, n, host, fine };
    blocks = b;
    if (!host) d->in_use += n;
    *out = b->bytes;
    return unlocked(0);
}

static struct block **find(const void *address, bool host)
{
    struct block **at = &blocks;
    while (*at != NULL && ((*at)->bytes != address || (*at)->host != host)) at = &(*at)->next;
    return at;
}

static void wait_idle(struct device *d);

static int give(void *address, bool host)
{
    pthread_mutex_lock(&lock);
    const struct block *there = *find(address, host);
    if (there == NULL) return unlocked(INVALID);
    wait_idle(there->device);
    struct block **at = find(address, host), *b = *at;
    if (b == NULL) return unlocked(INVALID);
    check_guards(b);
    *at = b->next;
    if (!host) b->device->in_use -= b->n;
    free(b->bytes - GUARD_BYTES);
    free(b);
    return unlocked(0);
}

/* The block that contains these bytes; device memory must be of device d, or of a device to which d has access. */
static const struct block *inside(const struct device *d, const void *address, size_t n, bool host)
{
    const struct device *other = NULL;
    for (const struct block *b = blocks; b != NULL; b = b->next) {
        if (b->host != host || (const uint8_t *)address < b->bytes || (const uint8_t *)address - b->bytes > (ptrdiff_t)b->n ||
            n > b->n - (size_t)((const uint8_t *)address - b->bytes)) continue;
        if (host || b->device == d || d->peers >> number_of(b->device) & 1) return b;
        other = b->device;
    }
    if (other != NULL)
        fprintf(stderr, "libsimt: %zu bytes at %p are memory of device %d, which device %d has no access to\n", n, address,
                number_of(other), number_of(d));
    else
        fprintf(stderr, "libsimt: %zu bytes at %p are not inside %s\n", n, address,
                host ? "pinned memory of the host" : "one allocation of the device");
    return NULL;
}

/* ---- work: runs at once, at the next query or in the device's thread, or is kept in a graph ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool may_begin(struct device *d, const struct op *op)
{
    if (d->failure == 0 && op->kind == LAUNCH) {
        d->n_launches++;
        if (d->n_launches == op->abort) abort();
        if (d->n_launches == op->fault) d->failure = LAUNCH_FAILURE;
    }
    return d->failure == 0;
}

/* Called without the lock, except if there is only one device. */
static void run(const struct op *op)
{
    switch (op->kind) {
    case COPY:   memcpy(op->to, op->from, op->n); break;
    case CLEAR:  memset(op->to, op->value, op->n); break;
    case LAUNCH:
        simt_launch_clusters(op->function->kernel, &op->args, op->grid_x, op->grid_y, op->threads, op->function->module->wave, op->lds,
                             op->seed, op->cluster);
        break;
    case RECORD: break;
    }
}

static double time_of(const struct device *d)
{
    const uint64_t n = d->n_launches, each = simt_number("FORGE_SIMT_LAUNCH_NS", 0, 0), later = simt_number("FORGE_SIMT_LATER_NS", 0, 0);
    return each > 0 ? 1e-9 * (double)(n * each + n * (n + 1) / 2 * later) : now();
}

static void record(const struct op *op)
{
    if (op->kind != RECORD) return;
    op->event->time = time_of(op->stream->device);
    op->event->passed = op->number;
}

static void push(struct list *l, const struct op *op)
{
    if (l->n == l->capacity && l->at > 0) {
        memmove(l->op, l->op + l->at, (l->n - l->at) * sizeof *l->op);
        l->n -= l->at;
        l->at = 0;
    }
    if (l->n == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        l->op = realloc(l->op, l->capacity * sizeof *l->op);
        if (l->op == NULL) abort();
    }
    l->op[l->n++] = *op;
}

static void *run_queue(void *device)
{
    struct device *d = device;
    simt_machine_new();
    pthread_mutex_lock(&lock);
    for (;;) {
        while (d->queue.at == d->queue.n) pthread_cond_wait(&d->put, &lock);
        const struct op op = d->queue.op[d->queue.at++];
        if (may_begin(d, &op)) {
            pthread_mutex_unlock(&lock);
            run(&op);
            pthread_mutex_lock(&lock);
            record(&op);
        }
        op.stream->n_begun--;
        d->n_begun--;
        pthread_cond_broadcast(&d->done);
    }
    return NULL;
}

/* Signals go to the host's threads, except the signals that a kernel raises itself. */
static void start_thread(struct device *d)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };
    sigset_t most, before;
    pthread_t thread;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&most, own[i]);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    if (pthread_cond_init(&d->put, NULL) != 0 || pthread_cond_init(&d->done, NULL) != 0 ||
        pthread_create(&thread, NULL, run_queue, d) != 0) {
        fprintf(stderr, "libsimt: cannot start the thread of device %d\n", number_of(d));
        abort();
    }
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    d->has_thread = true;
}

static void begin(const struct op *op)
{
    struct device *d = op->stream->device;
    if (!d->has_thread && n_devices() > 1) start_thread(d);
    if (d->has_thread) {
        push(&d->queue, op);
        op->stream->n_begun++;
        d->n_begun++;
        pthread_cond_signal(&d->put);
    } else if (may_begin(d, op)) {
        run(op);
        record(op);
    }
}

static int put(struct stream *s, const struct op *like)
{
    struct op op = *like;
    struct device *d = s->device;
    if (d->failure != 0) return d->failure;
    op.stream = s;
    if (op.kind == RECORD) op.number = ++op.event->recorded, op.event->stream = s;
    if (op.kind == LAUNCH) {
        const bool fails = simt_number("FORGE_SIMT_FAIL_DEVICE", 0, 0) == (uint64_t)number_of(d);
        op.abort = fails ? simt_number("FORGE_SIMT_ABORT", 0, 0) : 0;
        op.fault = fails ? simt_number("FORGE_SIMT_FAULT", 0, 0) : 0;
        op.seed = (uint32_t)simt_number("FORGE_SIMT_SEED", 0, 0);
    }
    if (s->capture != NULL) push(s->capture, &op);
    else if (simt_number("FORGE_SIMT_DEFER", 0, 0)) push(&s->waiting, &op);
    else begin(&op);
    return d->failure;
}

static void begin_waiting(struct stream *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) begin(&s->waiting.op[i]);
    s->waiting.n = 0;
}

/* Waits until the device is idle.  Without a thread nothing runs in the background, and work that waits for a query keeps waiting. */
static void wait_idle(struct device *d)
{
    if (!d->has_thread) return;
    for (struct stream *s = streams; s != NULL; s = s->next)
        if (s->device == d) begin_waiting(s);
    while (d->n_begun > 0) pthread_cond_wait(&d->done, &lock);
}

static struct stream *stream_of(const void *stream)
{
    struct stream *s = streams;
    while (s != NULL && (s != stream || !s->used)) s = s->next;
    return s;
}

static struct event *event_of(const void *event)
{
    struct event *e = events;
    while (e != NULL && (e != event || !e->used)) e = e->next;
    return e;
}

/* ---- libamdhip64 ---- */

EXPORT int hipInit(unsigned flags) { return flags == 0 ? 0 : INVALID; }
EXPORT int hipRuntimeGetVersion(int *version) { *version = (int)simt_number("FORGE_SIMT_VERSION", 0, 60200000); return 0; }

/* The current device of the calling thread. */
EXPORT int hipSetDevice(int device)
{
    if (!is_device(device)) return INVALID_DEVICE;
    current = device;
    return 0;
}

EXPORT int hipGetDeviceCount(int *n)
{
    *n = n_devices();
    return *n > 0 ? 0 : NO_DEVICE;
}

EXPORT int hipDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "emulator of lanes");
    return is_device(device) ? 0 : INVALID_DEVICE;
}

/* The devices are on no bus. */
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) { (void)value, (void)attribute, (void)device; return INVALID; }

EXPORT int hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!is_device(device) || !is_device(peer)) return INVALID_DEVICE;
    *can = device != peer && !simt_number("FORGE_SIMT_NO_PEER", 0, 0);
    return 0;
}

/* Gives the calling thread's device access to the memory of device `peer`. */
EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    if (!is_device(peer) || peer == current) return INVALID_DEVICE;
    if (flags != 0) return INVALID;
    if (simt_number("FORGE_SIMT_NO_PEER", 0, 0)) return NO_PEER;
    pthread_mutex_lock(&lock);
    const bool already = devices[current].peers >> peer & 1;
    devices[current].peers |= 1u << peer;
    return unlocked(already ? PEER_ALREADY : 0);
}

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    pthread_mutex_lock(&lock);
    const struct device *d = &devices[current];
    *total = (size_t)memory_of(d);
    *free_bytes = *total > d->in_use ? *total - d->in_use : 0;
    return unlocked(d->failure);
}

EXPORT int hipMalloc(void **out, size_t bytes) { return take(out, bytes, false, false); }
EXPORT int hipExtMallocWithFlags(void **out, size_t bytes, unsigned flags)
{
    return flags == 0 || flags == FINE_GRAINED || flags == UNCACHED ? take(out, bytes, false, flags != 0) : INVALID;
}
EXPORT int hipFree(void *address) { return give(address, false); }
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned flags) { return take(out, bytes, true, flags & PORTABLE); }
EXPORT int hipHostFree(void *host) { return give(host, true); }
EXPORT int hipHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    pthread_mutex_lock(&lock);
    *out = host;
    return unlocked(flags == 0 && inside(NULL, host, 1, true) != NULL ? 0 : INVALID);
}

EXPORT int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    if (inside(s->device, to, bytes, false) == NULL) return unlocked(INVALID);
    return unlocked(put(s, &(struct op){ .kind = CLEAR, .to = to, .n = bytes, .value = value }));
}

static int copy(void *to, bool to_host, const void *from, bool from_host, size_t bytes, void *stream)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    if (inside(s->device, to, bytes, to_host) == NULL || inside(s->device, from, bytes, from_host) == NULL) return unlocked(INVALID);
    return unlocked(put(s, &(struct op){ .kind = COPY, .to = to, .from = from, .n = bytes }));
}

EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(to, false, from, true, bytes, stream); }
EXPORT int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(to, true, from, false, bytes, stream); }
EXPORT int hipMemcpyDtoDAsync(void *to, const void *from, size_t bytes, void *stream)
{
    return copy(to, false, from, false, bytes, stream);
}

EXPORT int hipStreamCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct stream *s = streams;
    while (s != NULL && (s->used || s->n_begun > 0)) s = s->next;
    if (s == NULL) {
        s = calloc(1, sizeof *s);
        if (s == NULL) return unlocked(NO_MEMORY);
        s->next = streams;
        streams = s;
    }
    s->used = true;
    s->device = &devices[current];
    *out = s;
    return unlocked(0);
}

EXPORT int hipStreamQuery(void *stream)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    const struct device *d = s->device;
    const bool waited = s->waiting.n > 0 && d->failure == 0;
    if (waited) begin_waiting(s);
    return unlocked(d->failure != 0 ? d->failure : waited || s->n_begun > 0 ? NOT_READY : 0);
}

/* Operations of the stream that the device's thread has received still run. */
EXPORT int hipStreamDestroy(void *stream)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    for (const struct block *b = blocks; b != NULL; b = b->next) check_guards(b);
    free(s->waiting.op);
    s->waiting = (struct list){ 0 };
    s->used = false;
    return unlocked(0);
}

EXPORT int hipEventCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct event *e = events;
    while (e != NULL && (e->used || e->passed != e->recorded)) e = e->next;
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL) return unlocked(NO_MEMORY);
        e->next = events;
        events = e;
    }
    e->used = true;
    e->device = &devices[current];
    e->stream = NULL;
    *out = e;
    return unlocked(0);
}

EXPORT int hipEventDestroy(void *event)
{
    pthread_mutex_lock(&lock);
    struct event *e = event_of(event);
    if (e != NULL) e->used = false;
    return unlocked(e != NULL ? 0 : INVALID_HANDLE);
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    pthread_mutex_lock(&lock);
    struct event *e = event_of(event);
    struct stream *s = stream_of(stream);
    if (e == NULL || s == NULL || e->device != s->device) return unlocked(INVALID_HANDLE);
    return unlocked(put(s, &(struct op){ .kind = RECORD, .event = e }));
}

EXPORT int hipEventQuery(void *event)
{
    pthread_mutex_lock(&lock);
    const struct event *e = event_of(event);
    if (e == NULL) return unlocked(INVALID_HANDLE);
    if (e->passed != e->recorded && e->stream != NULL) begin_waiting(e->stream);
    return unlocked(e->device->failure != 0 ? e->device->failure : e->passed != e->recorded ? NOT_READY : 0);
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *from, void *to)
{
    pthread_mutex_lock(&lock);
    const struct event *a = event_of(from), *b = event_of(to);
    if (a == NULL || b == NULL || a->device != b->device) return unlocked(INVALID_HANDLE);
    *milliseconds = (float)((b->time - a->time) * 1e3);
    return unlocked(a->passed != a->recorded || b->passed != b->recorded ? NOT_READY : 0);
}

/* The runtime opened this library with local symbols; modules must find simt_barrier and the like in it. */
static void show_to_modules(void)
{
    Dl_info self;
    if (dladdr((void *)(uintptr_t)show_to_modules, &self) != 0) dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* The size is not passed: an ELF file ends with its table of sections.  The module's file stays open: otherwise the next module's file
 * would have the same name, and dlopen() would return the module that it knows by that name. */
static int load(struct module *m, const void *image, size_t bytes)
{
    char path[64];
    m->file = memfd_create("module", MFD_CLOEXEC);
    if (m->file < 0 || write(m->file, image, bytes) != (ssize_t)bytes) return NO_MEMORY;
    snprintf(path, sizeof path, "/proc/self/fd/%d", m->file);
    show_to_modules();
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const uint32_t *wave = m->library != NULL ? dlsym(m->library, "forge_simt_wave") : NULL;
    if (wave == NULL) {
        fprintf(stderr, "libsimt: %s\n", m->library != NULL ? "the module has no symbol forge_simt_wave" : dlerror());
        if (m->library != NULL) dlclose(m->library);
        return NO_BINARY;
    }
    m->wave = *wave;
    return 0;
}

EXPORT int hipModuleLoadData(void **out, const void *image)
{
    const Elf64_Ehdr *elf = image;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_type != ET_DYN) return NO_BINARY;
    static struct module modules[256];                                       /* they live as long as the process, also after a fault */
    static uint32_t n_modules;
    pthread_mutex_lock(&lock);
    struct module *m = &modules[n_modules];
    if (n_modules == 256) return unlocked(NO_MEMORY);
    const int code = load(m, image, elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize);
    if (code != 0) {
        if (m->file >= 0) close(m->file);
        return unlocked(code);
    }
    m->device = &devices[current];
    n_modules++;
    *out = m;
    return unlocked(0);
}

EXPORT int hipModuleUnload(void *module)
{
    struct module *m = module;
    pthread_mutex_lock(&lock);
    wait_idle(m->device);
    dlclose(m->library);
    close(m->file);
    return unlocked(0);
}

EXPORT int hipModuleGetFunction(void **out, void *module, const char *name)
{
    const struct module *m = module;
    void *address = dlsym(m->library, name);
    static struct function functions[4096];                                  /* they live as long as the process */
    static uint32_t n_functions;
    pthread_mutex_lock(&lock);
    if (address == NULL || n_functions == 4096) return unlocked(NOT_FOUND);
    struct function *f = &functions[n_functions++];
    memcpy(&f->kernel, &address, sizeof address);
    f->module = m;
    *out = f;
    return unlocked(0);
}

/* The block of pinned host memory with this address, if device d can access it; else NULL.  Pinned memory is fine-grained.  It is
 * accessible to the device that was current when it was allocated, and, if it is portable, to all. */
static const struct block *host_block(const struct device *d, const uint8_t *address)
{
    for (const struct block *b = blocks; b != NULL; b = b->next)
        if (b->host && address >= b->bytes && address < b->bytes + b->n && (b->fine || b->device == d)) return b;
    return NULL;
}

/* Checks that the device can access the memory of collectives of all ranks. */
static bool collectives(const struct device *d, const struct forge_kernel_args *args, bool fine)
{
    for (int i = 0; i < FORGE_GPU_MAX_RANKS; i++) {
        if (args->collective[i] == NULL || host_block(d, args->collective[i])) continue;
        const struct block *b = inside(d, args->collective[i], 1, false);
        if (b == NULL) return false;
        if (fine && !b->fine) { fprintf(stderr, "libsimt: collective[%d] is not fine-grained memory\n", i); return false; }
    }
    return true;
}

/* size: x y z of the grid in workgroups, then x y z of a workgroup in threads.  cluster: workgroups of a cluster, 1: no cluster.  fine:
 * collectives need fine-grained memory. */
int simt_put_launch(void *function, const unsigned *size, unsigned shared_bytes, unsigned cluster, void *stream, const void *args,
                    size_t bytes, bool fine);
int simt_put_launch(void *function, const unsigned *size, unsigned shared_bytes, unsigned cluster, void *stream, const void *args,
                    size_t bytes, bool fine)
{
    struct op op = { .kind = LAUNCH, .function = function, .grid_x = size[0], .grid_y = size[1], .threads = size[3], .lds = shared_bytes,
                     .cluster = cluster };
    if (size[0] == 0 || size[1] == 0 || size[2] != 1 || size[3] == 0 || size[4] != 1 || size[5] != 1 || bytes != sizeof op.args)
        return INVALID;
    if (cluster == 0 || cluster > SIMT_MAX_CLUSTER || size[0] % cluster != 0) return INVALID;
    memcpy(&op.args, args, sizeof op.args);
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL || s->device != &devices[current] || s->device != op.function->module->device) return unlocked(INVALID_HANDLE);
    return unlocked(collectives(s->device, &op.args, fine) ? put(s, &op) : INVALID);
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    const unsigned size[] = { grid_x, grid_y, grid_z, block_x, block_y, block_z };
    if (shared_bytes > SIMT_LDS_BYTES || parameters != NULL || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3)
        return INVALID;
    return simt_put_launch(function, size, shared_bytes, 1, stream, extra[1], *(const size_t *)extra[3], true);
}

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    (void)mode;
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL || s->capture != NULL) return unlocked(s == NULL ? INVALID_HANDLE : INVALID);
    s->capture = calloc(1, sizeof *s->capture);
    return unlocked(s->capture != NULL ? 0 : NO_MEMORY);
}

EXPORT int hipStreamEndCapture(void *stream, void **graph)
{
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    *graph = s->capture;
    s->capture = NULL;
    return unlocked(*graph != NULL ? s->device->failure : INVALID);
}

EXPORT int hipGraphInstantiate(void **exec, void *graph, void **node, char *log, size_t log_bytes)
{
    const struct list *from = graph;
    struct list *to = calloc(1, sizeof *to);
    (void)node, (void)log, (void)log_bytes;
    if (to == NULL) return NO_MEMORY;
    for (size_t i = 0; i < from->n; i++) push(to, &from->op[i]);
    *exec = to;
    return 0;
}

EXPORT int hipGraphLaunch(void *exec, void *stream)
{
    const struct list *l = exec;
    pthread_mutex_lock(&lock);
    struct stream *s = stream_of(stream);
    if (s == NULL) return unlocked(INVALID_HANDLE);
    for (size_t i = 0; i < l->n; i++) {
        const int code = l->op[i].stream->device == s->device ? put(s, &l->op[i]) : INVALID_HANDLE;
        if (code != 0) return unlocked(code);
    }
    return unlocked(0);
}

static int free_list(struct list *l)
{
    free(l->op);
    free(l);
    return 0;
}
EXPORT int hipGraphDestroy(void *graph) { return free_list(graph); }
EXPORT int hipGraphExecDestroy(void *exec) { return free_list(exec); }

EXPORT const char *hipGetErrorString(int code)
{
    switch (code) {
    case INVALID:        return "invalid argument";
    case NO_MEMORY:      return "out of memory";
    case NO_DEVICE:      return "no device";
    case INVALID_DEVICE: return "invalid device ordinal";
    case NO_BINARY:      return "no kernel image is available for execution on the device";
    case NO_PEER:        return "peer access is not supported between these two devices";
    case INVALID_HANDLE: return "invalid resource handle";
    case NOT_FOUND:      return "named symbol not found";
    case PEER_ALREADY:   return "peer access is already enabled";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default:             return "error";
    }
}
