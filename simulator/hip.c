/* hip.c -- the functions of libamdhip64 that runtime/device/hip.def names: memory of memory.c, modules of loader.c, launches of grid.c.
 * FORGE_HIP_LIBRARY=libgfxsim.so.  Streams: queue.c.  A finding makes the launch, and every call after it, fail with 719, as in HIP.
 *
 *   FORGE_GFXSIM_CHIP=gfx942  the chip to simulate: code for other chips is refused (default: any chip that there is code for)
 *   FORGE_GFXSIM_DEFER=1      nothing runs before a query: reveals programs that reuse pinned memory too early
 *   FORGE_GFXSIM_TRACE=1      a line on stderr for each launch; 2: its counters, too
 *   FORGE_GFXSIM_DEVICES, NO_PEER, PATIENCE (queue.c), MEMORY (memory.c), THREADS, SLICE, SEED, LIMIT (grid.c), IGNORE (report.c),
 *   STATS (stats.c), CHANNELS (channels.c) */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

/* The prototypes are those of hip_runtime_api.h, with void * for its types. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define EXPORT __attribute__((visibility("default")))

enum { EXTRA_POINTER = 1, EXTRA_SIZE = 2, EXTRA_END = 3 };
enum { MOST_THREADS = 1024, MOST_LDS = 65536 };

struct loaded { struct module *module; struct function *functions; };    /* [n_kernels] */

static void ready(void)
{
    static bool done;
    if (!done) memory_init();
    done = true;
}

static void *need(void *memory)
{
    if (memory != NULL) return memory;
    fputs("gfxsim: no memory of the host is left\n", stderr);
    abort();
}

static uint64_t at(const void *address) { return (uint64_t)(uintptr_t)address; }

/* ---- libamdhip64: the device ---- */

EXPORT int hipInit(unsigned flags)
{
    ready();
    return flags == 0 ? 0 : INVALID;
}

EXPORT int hipRuntimeGetVersion(int *version) { *version = 71500000; return 0; }
static bool is_device(int device) { return device >= 0 && (uint32_t)device < chips_count(); }

EXPORT int hipSetDevice(int device)
{
    if (!is_device(device)) return BAD_DEVICE;
    memory_chip = (uint32_t)device;
    return queue_failure();
}

EXPORT int hipGetDeviceCount(int *n)
{
    *n = (int)chips_count();
    if (*n == 1 && !chips_known()) *n = 0;
    return *n > 0 ? 0 : NO_DEVICE;
}

EXPORT int hipDeviceGetName(char *name, int bytes, int device)
{
    if (!is_device(device)) return BAD_DEVICE;
    const struct chip *c = chips_wanted((uint32_t)device);
    snprintf(name, (size_t)bytes, "gfxsim%s%s", c != NULL ? " " : "", c != NULL ? c->name : "");
    return 0;
}

/* The simulated device is on no bus. */
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) { (void)value, (void)attribute, (void)device; return INVALID; }

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    ready();
    *total = memory_size();
    *free_bytes = *total > memory_in_use() ? *total - memory_in_use() : 0;
    return queue_failure();
}

EXPORT int hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!is_device(device) || !is_device(peer)) return BAD_DEVICE;
    *can = device != peer && chips_peers();
    return queue_failure();
}

/* For the current device. */
EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    if (!is_device(peer)) return BAD_DEVICE;
    if (flags != 0) return INVALID;
    const int code = chips_open_peer(memory_chip, (uint32_t)peer);
    return queue_failure() != 0 ? queue_failure() : code;
}

EXPORT const char *hipGetErrorString(int code)
{
    switch (code) {
    case INVALID:        return "invalid argument";
    case NO_MEMORY:      return "out of memory";
    case NO_DEVICE:      return "no ROCm-capable device is detected";
    case BAD_DEVICE:     return "invalid device ordinal";
    case NO_BINARY:      return "no kernel image is available for execution on the device";
    case NO_PEERS:       return "peer access is not supported between these two devices";
    case PEERS_ALREADY:  return "peer access is already enabled";
    case NOT_FOUND:      return "named symbol not found";
    case NOT_READY:      return "device not ready";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default:             return "unknown error";
    }
}

/* ---- memory ---- */

static int alloc(void **out, size_t bytes, enum memory_kind kind)
{
    ready();
    if (queue_failure() != 0) return queue_failure();
    if (bytes == 0) return INVALID;
    *out = memory_alloc(bytes, kind);
    return *out != NULL ? 0 : NO_MEMORY;
}

/* Freeing waits for all work that was begun, because any device may use the host's memory. */
static int release(void *address, bool host)
{
    if (host) queue_finish_all();
    else queue_finish_device();
    if (address != NULL && !queue_free(address)) {
        fprintf(stderr, "gfxsim: no allocation begins at %p: it cannot be freed\n", address);
        return INVALID;
    }
    return queue_failure();
}

EXPORT int hipMalloc(void **out, size_t bytes) { return alloc(out, bytes, MEMORY_COARSE); }
EXPORT int hipFree(void *address) { return release(address, false); }
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned flags) { (void)flags; return alloc(out, bytes, MEMORY_HOST); }
EXPORT int hipHostFree(void *host) { return release(host, true); }

/* hipDeviceMallocDefault, Finegrained, Uncached. */
EXPORT int hipExtMallocWithFlags(void **out, size_t bytes, unsigned flags)
{
    const enum memory_kind kind = flags == 1 ? MEMORY_FINE : flags == 3 ? MEMORY_UNCACHED : MEMORY_COARSE;
    return flags == 0 || kind != MEMORY_COARSE ? alloc(out, bytes, kind) : INVALID;
}

EXPORT int hipHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    *out = host;
    return flags == 0 && memory_inside(at(host), 1, true) ? queue_failure() : INVALID;
}

static bool inside(const void *address, size_t bytes, bool host)
{
    if (memory_inside(at(address), bytes, host)) return true;
    char where[200];
    memory_describe(where, sizeof where, at(address));
    fprintf(stderr, "gfxsim: %zu bytes at %p are not inside %s: %s\n", bytes, address,
            host ? "pinned memory of the host" : "one allocation of the device", where);
    return false;
}

EXPORT int hipMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    if (!inside(to, bytes, false)) return INVALID;
    return queue_put(queue_stream(stream), &(struct op){ .kind = CLEAR, .to = to, .n = bytes, .value = value });
}

/* As in HIP, the call waits if the host's side is not pinned memory: such copies are not in graphs. */
static int copy(enum kind kind, void *to, const void *from, size_t bytes, void *stream)
{
    struct stream *s = queue_stream(stream);
    const struct op op = { .kind = kind, .to = to, .from = from, .n = bytes };
    const void *host = kind == DOWNLOAD ? to : from;
    const bool pageable = kind != COPY && at(host) - memory_base >= MEMORY_RANGE;
    if ((kind != DOWNLOAD || !pageable) && !inside(to, bytes, kind == DOWNLOAD)) return INVALID;
    if ((kind != UPLOAD || !pageable) && !inside(from, bytes, kind == UPLOAD)) return INVALID;
    if (!pageable) return queue_put(s, &op);
    if (s->capture != NULL) return INVALID;
    queue_put_now(s, &op);
    return queue_failure();
}

EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(UPLOAD, to, from, bytes, stream); }
EXPORT int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(DOWNLOAD, to, from, bytes, stream); }
EXPORT int hipMemcpyDtoDAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(COPY, to, from, bytes, stream); }

/* ---- streams, events ---- */

EXPORT int hipStreamCreateWithFlags(void **out, unsigned flags)
{
    struct stream *s = need(calloc(1, sizeof *s));
    (void)flags;
    s->device = memory_chip;
    queue_add_stream(s);
    *out = s;
    return queue_failure();
}

EXPORT int hipStreamQuery(void *stream)
{
    const bool done = queue_done(queue_stream(stream));
    return queue_failure() != 0 ? queue_failure() : done ? 0 : NOT_READY;
}

EXPORT int hipStreamDestroy(void *stream)
{
    if (stream == NULL) return INVALID;
    queue_remove_stream(stream);
    return queue_failure();
}

EXPORT int hipEventCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    *out = need(calloc(1, sizeof(struct event)));
    return queue_failure();
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    queue_record(event, queue_stream(stream));
    return queue_put(queue_stream(stream), &(struct op){ .kind = RECORD, .event = event });
}

EXPORT int hipEventQuery(void *event)
{
    const bool passed = queue_passed(event);
    return queue_failure() != 0 ? queue_failure() : passed ? 0 : NOT_READY;
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *from, void *to)
{
    const bool passed = queue_passed(from) && queue_passed(to);
    *milliseconds = (float)((((struct event *)to)->time - ((struct event *)from)->time) * 1e3);
    return queue_failure() != 0 ? queue_failure() : passed ? 0 : NOT_READY;
}

EXPORT int hipEventDestroy(void *event)
{
    queue_finish_all();
    free(event);
    return queue_failure();
}

/* ---- code ---- */

EXPORT int hipModuleLoadData(void **out, const void *image)
{
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    ready();
    if (queue_failure() != 0) return queue_failure();
    pthread_mutex_lock(&loading);                /* one host thread per device may load at the same time */
    struct module *m = module_load(image, 0);
    pthread_mutex_unlock(&loading);
    const struct chip *wanted = chips_wanted(memory_chip);
    if (m != NULL && (chips_count() == 0 || (wanted != NULL && m->chip != wanted))) {
        fprintf(stderr, "gfxsim: the code is for %s, FORGE_GFXSIM_CHIP is %s\n", m->chip->name, getenv("FORGE_GFXSIM_CHIP"));
        module_free(m);
        m = NULL;
    }
    if (m == NULL) return NO_BINARY;
    struct loaded *l = need(malloc(sizeof *l));
    l->module = m;
    l->functions = need(calloc(m->n_kernels + 1u, sizeof *l->functions));
    for (uint32_t i = 0; i < m->n_kernels; i++) l->functions[i] = (struct function){ .kernel = &m->kernels[i], .device = memory_chip };
    *out = l;
    return 0;
}

EXPORT int hipModuleUnload(void *module)
{
    struct loaded *l = module;
    queue_finish_all();
    for (uint32_t i = 0; i < l->module->n_kernels; i++)
        if (l->functions[i].kernarg != NULL) memory_free(l->functions[i].kernarg);
    module_free(l->module);
    free(l->functions);
    free(l);
    return queue_failure();
}

EXPORT int hipModuleGetFunction(void **out, void *module, const char *name)
{
    const struct loaded *l = module;
    for (uint32_t i = 0; i < l->module->n_kernels; i++) {
        struct function *f = &l->functions[i];
        if (strcmp(f->kernel->name, name) != 0) continue;
        const uint32_t current = memory_chip;
        memory_chip = f->device;
        if (f->kernarg == NULL && f->kernel->kernarg_bytes > 0) f->kernarg = memory_alloc(f->kernel->kernarg_bytes, MEMORY_COARSE);
        memory_chip = current;
        if (f->kernarg == NULL && f->kernel->kernarg_bytes > 0) return NO_MEMORY;
        *out = f;
        return queue_failure();
    }
    return queue_failure() != 0 ? queue_failure() : NOT_FOUND;
}

/* Returns the reason why the launch is refused, or NULL. */
static const char *launch_fault(const struct stream *s, const struct op *op, void **parameters, void **extra)
{
    const struct kernel *k = op->function->kernel;
    const uint64_t threads = (uint64_t)op->threads[0] * op->threads[1] * op->threads[2], most = k->most_threads > 0 ? k->most_threads
        : MOST_THREADS;
    for (int i = 0; i < 3; i++)
        if (op->grid[i] == 0 || op->threads[i] == 0 || op->threads[i] > MOST_THREADS) return "the grid or the group is empty or too large";
    if ((uint64_t)op->grid[0] * op->grid[1] > UINT32_MAX || (uint64_t)op->grid[0] * op->grid[1] * op->grid[2] * 32 > UINT32_MAX)
        return "more groups than are simulated";
    if (op->function->device != s->device) return "the module is of another device than the stream";
    if (threads > most || threads > MOST_THREADS) return "more threads than the kernel was compiled for";
    if (op->lds > MOST_LDS || k->lds_bytes + op->lds > MOST_LDS) return "more than 64 KiB of LDS";
    if (parameters != NULL) return "parameters are passed singly; gfxsim takes them as one block";
    if (k->explicit_bytes == 0 && extra == NULL) return NULL;
    if (extra == NULL || extra[0] != (void *)EXTRA_POINTER || extra[2] != (void *)EXTRA_SIZE || extra[4] != (void *)EXTRA_END)
        return "the block of parameters is not described";
    if (*(const size_t *)extra[3] < k->explicit_bytes) return "the block of parameters is shorter than the kernel's";
    return NULL;
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    const struct op op = { .kind = LAUNCH, .function = function, .grid = { grid_x, grid_y, grid_z },
                           .threads = { block_x, block_y, block_z }, .lds = shared_bytes, .args = extra != NULL ? extra[1] : (void *)"" };
    struct stream *s = queue_stream(stream);
    const char *fault = launch_fault(s, &op, parameters, extra);
    if (queue_failure() != 0) return queue_failure();
    if (fault == NULL) return queue_put(s, &op);
    fprintf(stderr, "gfxsim: %s, %u,%u,%u groups of %u,%u,%u threads, %u bytes of LDS: %s\n", op.function->kernel->name, grid_x, grid_y,
            grid_z, block_x, block_y, block_z, shared_bytes, fault);
    return INVALID;
}

/* ---- graphs ---- */

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    struct stream *s = stream;
    (void)mode;
    if (queue_failure() != 0) return queue_failure();
    if (s == NULL || s->capture != NULL) return INVALID;
    s->capture = need(calloc(1, sizeof *s->capture));
    return 0;
}

EXPORT int hipStreamEndCapture(void *stream, void **graph)
{
    struct stream *s = stream;
    if (s == NULL || s->capture == NULL) return INVALID;
    *graph = s->capture;
    s->capture = NULL;
    return queue_failure();
}

EXPORT int hipGraphInstantiate(void **exec, void *graph, void **node, char *log, size_t log_bytes)
{
    const struct list *from = graph;
    (void)node, (void)log, (void)log_bytes;
    if (queue_failure() != 0) return queue_failure();
    struct list *to = need(calloc(1, sizeof *to));
    for (size_t i = 0; i < from->n; i++) list_push(to, &from->op[i]);
    *exec = to;
    return 0;
}

EXPORT int hipGraphLaunch(void *exec, void *stream)
{
    const struct list *l = exec;
    int code = queue_failure();
    for (size_t i = 0; i < l->n && code == 0; i++) code = queue_put(queue_stream(stream), &l->op[i]);
    return code;
}

EXPORT int hipGraphDestroy(void *graph) { return list_free(graph); }
EXPORT int hipGraphExecDestroy(void *exec) { return list_free(exec); }
