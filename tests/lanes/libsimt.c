/* libsimt.c -- the functions of libamdhip64 that runtime/device/hip.def names, on the host: kernels run through simt.c.
 * FORGE_HIP_LIBRARY=libsimt.so.  A module is a shared object of kernels compiled as host C; its symbol forge_simt_wave (uint32_t) says the
 * lanes of a wave.
 *
 * Memory starts as bytes 0xff with guards around it; copies have to stay inside one allocation, and their host side inside pinned memory.
 *   FORGE_SIMT_MEMORY=BYTES   size of the device (default 256 MiB: a measurement copies a quarter of it)
 *   FORGE_SIMT_DEFER=1        nothing runs before a query: shows who reuses pinned memory too early
 *   FORGE_SIMT_FAULT=N        launch N (from 1) fails, and everything after it
 *   FORGE_SIMT_ABORT=N        launch N ends the process by abort(), as AMD's runtime does
 *   FORGE_SIMT_SEED=N         groups and lanes in an order drawn from N
 *   FORGE_SIMT_VERSION=N      of the library (default 60200000)
 *   FORGE_SIMT_DEVICES=N      how many there are (default 1) */
#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simt.h"

enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NO_BINARY = 209, NOT_FOUND = 500, NOT_READY = 600, LAUNCH_FAILURE = 719 };
enum { GUARD_BYTES = 256, GUARD = 0xa5 };

#define EXPORT __attribute__((visibility("default")))

/* ---- memory ---- */

struct block { struct block *next; uint8_t *bytes; size_t n; bool host; };
static struct block *blocks;
static size_t in_use;

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoull(text, NULL, 0) : otherwise;
}

static void check_guards(const struct block *b)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (b->bytes[-1 - (ptrdiff_t)i] != GUARD || b->bytes[b->n + i] != GUARD) {
            fprintf(stderr, "libsimt: %zu bytes of %s memory were written beyond their end\n", b->n, b->host ? "host" : "device");
            abort();
        }
}

static int take(void **out, size_t n, bool host)
{
    const uint64_t limit = number_of("FORGE_SIMT_MEMORY", (uint64_t)256 << 20);
    if (n == 0 || (!host && (n > limit || in_use > limit - n))) return n == 0 ? INVALID : NO_MEMORY;
    struct block *b = malloc(sizeof *b);
    uint8_t *bytes = aligned_alloc(256, (n + 2 * GUARD_BYTES + 255) / 256 * 256);
    if (b == NULL || bytes == NULL) { free(b); free(bytes); return NO_MEMORY; }
    memset(bytes, GUARD, GUARD_BYTES);
    memset(bytes + GUARD_BYTES, SIMT_POISON, n);
    memset(bytes + GUARD_BYTES + n, GUARD, GUARD_BYTES);
    *b = (struct block){ blocks, bytes + GUARD_BYTES, n, host };
    blocks = b;
    if (!host) in_use += n;
    *out = b->bytes;
    return 0;
}

static int give(void *address, bool host)
{
    for (struct block **at = &blocks; *at != NULL; at = &(*at)->next) {
        struct block *b = *at;
        if (b->bytes != address || b->host != host) continue;
        check_guards(b);
        *at = b->next;
        if (!host) in_use -= b->n;
        free(b->bytes - GUARD_BYTES);
        free(b);
        return 0;
    }
    return INVALID;
}

static bool inside(const void *address, size_t n, bool host)
{
    for (const struct block *b = blocks; b != NULL; b = b->next)
        if (b->host == host && (const uint8_t *)address >= b->bytes && (const uint8_t *)address - b->bytes <= (ptrdiff_t)b->n &&
            n <= b->n - (size_t)((const uint8_t *)address - b->bytes))
            return true;
    fprintf(stderr, "libsimt: %zu bytes at %p are not inside %s\n", n, address,
            host ? "pinned memory of the host" : "one allocation of the device");
    return false;
}

/* ---- work: done at once, at the next query, or kept in a graph ---- */

struct module { void *library; uint32_t wave; };
struct function { simt_kernel *kernel; const struct module *module; };
struct event { double time; bool pending; };
enum kind { COPY, CLEAR, LAUNCH, RECORD };
struct op {
    enum kind kind;
    void *to; const void *from; size_t n; uint8_t value;
    const struct function *function; uint32_t grid_x, grid_y, threads, lds, cluster; struct forge_kernel_args args;
    struct event *event;
};
struct list { struct op *op; size_t n, capacity; };
struct stream { struct list waiting, *capture; };

static uint64_t n_launches;
static int failure;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_launch(const struct op *op)
{
    n_launches++;
    if (n_launches == number_of("FORGE_SIMT_ABORT", 0)) abort();
    if (n_launches == number_of("FORGE_SIMT_FAULT", 0)) failure = LAUNCH_FAILURE;
    if (failure != 0) return;
    simt_launch_clusters(op->function->kernel, &op->args, op->grid_x, op->grid_y, op->threads, op->function->module->wave, op->lds,
                         (uint32_t)number_of("FORGE_SIMT_SEED", 0), op->cluster);
}

static void run_op(const struct op *op)
{
    if (failure != 0) return;
    switch (op->kind) {
    case COPY:   memcpy(op->to, op->from, op->n); break;
    case CLEAR:  memset(op->to, op->value, op->n); break;
    case LAUNCH: run_launch(op); break;
    case RECORD: op->event->time = now(); op->event->pending = false; break;
    }
}

static void push(struct list *l, const struct op *op)
{
    if (l->n == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        l->op = realloc(l->op, l->capacity * sizeof *l->op);
        if (l->op == NULL) abort();
    }
    l->op[l->n++] = *op;
}

static int put(struct stream *s, const struct op *op)
{
    if (failure != 0) return failure;
    if (s->capture != NULL) push(s->capture, op);
    else if (number_of("FORGE_SIMT_DEFER", 0)) push(&s->waiting, op);
    else run_op(op);
    return failure;
}

static void run_waiting(struct stream *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) run_op(&s->waiting.op[i]);
    s->waiting.n = 0;
}

static struct stream *the_stream;

/* ---- libamdhip64 ---- */

EXPORT int hipInit(unsigned flags) { return flags == 0 ? 0 : INVALID; }
EXPORT int hipRuntimeGetVersion(int *version) { *version = (int)number_of("FORGE_SIMT_VERSION", 60200000); return 0; }
EXPORT int hipSetDevice(int device) { return device == 0 ? 0 : INVALID; }

EXPORT int hipGetDeviceCount(int *n)
{
    *n = (int)number_of("FORGE_SIMT_DEVICES", 1);
    return *n > 0 ? 0 : NO_DEVICE;
}

EXPORT int hipDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "emulator of lanes");
    return device == 0 ? 0 : INVALID;
}

/* It is on no bus. */
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) { (void)value, (void)attribute, (void)device; return INVALID; }

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = (size_t)number_of("FORGE_SIMT_MEMORY", (uint64_t)256 << 20);
    *free_bytes = *total > in_use ? *total - in_use : 0;
    return failure;
}

EXPORT int hipMalloc(void **out, size_t bytes) { return failure != 0 ? failure : take(out, bytes, false); }
EXPORT int hipFree(void *address) { return give(address, false); }
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned flags) { (void)flags; return failure != 0 ? failure : take(out, bytes, true); }
EXPORT int hipHostFree(void *host) { return give(host, true); }
EXPORT int hipHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    *out = host;
    return flags == 0 && inside(host, 1, true) ? 0 : INVALID;
}

EXPORT int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    return inside(to, bytes, false) ? put(stream, &(struct op){ .kind = CLEAR, .to = to, .n = bytes, .value = value }) : INVALID;
}

static int copy(void *to, bool to_host, const void *from, bool from_host, size_t bytes, void *stream)
{
    if (!inside(to, bytes, to_host) || !inside(from, bytes, from_host)) return INVALID;
    return put(stream, &(struct op){ .kind = COPY, .to = to, .from = from, .n = bytes });
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
    *out = the_stream = calloc(1, sizeof *the_stream);
    return *out != NULL ? 0 : NO_MEMORY;
}

EXPORT int hipStreamQuery(void *stream)
{
    struct stream *s = stream;
    if (s->waiting.n > 0 && failure == 0) { run_waiting(s); return failure != 0 ? failure : NOT_READY; }
    return failure;
}

EXPORT int hipStreamDestroy(void *stream)
{
    struct stream *s = stream;
    for (const struct block *b = blocks; b != NULL; b = b->next) check_guards(b);
    free(s->waiting.op);
    free(s);
    the_stream = NULL;
    return 0;
}

EXPORT int hipEventCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof(struct event));
    return *out != NULL ? 0 : NO_MEMORY;
}
EXPORT int hipEventDestroy(void *event) { free(event); return 0; }

EXPORT int hipEventRecord(void *event, void *stream)
{
    struct event *e = event;
    e->pending = true;
    return put(stream, &(struct op){ .kind = RECORD, .event = e });
}

EXPORT int hipEventQuery(void *event)
{
    const struct event *e = event;
    if (e->pending && the_stream != NULL) run_waiting(the_stream);
    return failure != 0 ? failure : e->pending ? NOT_READY : 0;
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *from, void *to)
{
    const struct event *a = from, *b = to;
    *milliseconds = (float)((b->time - a->time) * 1e3);
    return a->pending || b->pending ? NOT_READY : 0;
}

/* Modules find simt_barrier and its like in this library, which the runtime has opened for itself only. */
static void show_to_modules(void)
{
    Dl_info self;
    if (dladdr((void *)(uintptr_t)show_to_modules, &self) != 0) dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* The size is not passed: an ELF file ends with its table of sections. */
EXPORT int hipModuleLoadData(void **out, const void *image)
{
    char path[64];
    const Elf64_Ehdr *elf = image;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_type != ET_DYN) return NO_BINARY;
    const size_t bytes = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
    static struct module modules[256];                                       /* they live as long as the process, also after a fault */
    static uint32_t n_modules;
    struct module *m = &modules[n_modules];
    const int fd = memfd_create("module", MFD_CLOEXEC);
    if (n_modules == 256 || fd < 0 || write(fd, image, bytes) != (ssize_t)bytes) return NO_MEMORY;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    show_to_modules();
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(fd);
    const uint32_t *wave = m->library != NULL ? dlsym(m->library, "forge_simt_wave") : NULL;
    if (wave == NULL) {
        fprintf(stderr, "libsimt: %s\n", m->library != NULL ? "the module has no forge_simt_wave" : dlerror());
        return NO_BINARY;
    }
    m->wave = *wave;
    n_modules++;
    *out = m;
    return 0;
}

EXPORT int hipModuleUnload(void *module)
{
    struct module *m = module;
    dlclose(m->library);
    return 0;
}

EXPORT int hipModuleGetFunction(void **out, void *module, const char *name)
{
    const struct module *m = module;
    void *address = dlsym(m->library, name);
    static struct function functions[4096];                                  /* they live as long as the process */
    static uint32_t n_functions;
    if (address == NULL || n_functions == 4096) return NOT_FOUND;
    struct function *f = &functions[n_functions++];
    memcpy(&f->kernel, &address, sizeof address);
    f->module = m;
    *out = f;
    return 0;
}

/* size: of the grid in groups, then of a group in threads, x y z.  cluster: groups of one, 1: none. */
int simt_put_launch(void *function, const unsigned *size, unsigned shared_bytes, unsigned cluster, void *stream, const void *args,
                    size_t bytes);
int simt_put_launch(void *function, const unsigned *size, unsigned shared_bytes, unsigned cluster, void *stream, const void *args,
                    size_t bytes)
{
    struct op op = { .kind = LAUNCH, .function = function, .grid_x = size[0], .grid_y = size[1], .threads = size[3], .lds = shared_bytes,
                     .cluster = cluster };
    if (size[0] == 0 || size[1] == 0 || size[2] != 1 || size[3] == 0 || size[4] != 1 || size[5] != 1 || bytes != sizeof op.args)
        return INVALID;
    if (cluster == 0 || cluster > SIMT_MAX_CLUSTER || size[0] % cluster != 0) return INVALID;
    memcpy(&op.args, args, sizeof op.args);
    return put(stream, &op);
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    const unsigned size[] = { grid_x, grid_y, grid_z, block_x, block_y, block_z };
    if (shared_bytes > SIMT_LDS_BYTES || parameters != NULL || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3)
        return INVALID;
    return simt_put_launch(function, size, shared_bytes, 1, stream, extra[1], *(const size_t *)extra[3]);
}

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    struct stream *s = stream;
    (void)mode;
    if (s->capture != NULL) return INVALID;
    s->capture = calloc(1, sizeof *s->capture);
    return s->capture != NULL ? 0 : NO_MEMORY;
}

EXPORT int hipStreamEndCapture(void *stream, void **graph)
{
    struct stream *s = stream;
    *graph = s->capture;
    s->capture = NULL;
    return *graph != NULL ? failure : INVALID;
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
    for (size_t i = 0; i < l->n; i++) {
        const int code = put(stream, &l->op[i]);
        if (code != 0) return code;
    }
    return 0;
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
    case NO_BINARY:      return "no kernel image is available for execution on the device";
    case NOT_FOUND:      return "named symbol not found";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default:             return "error";
    }
}
