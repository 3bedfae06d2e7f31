/* hip.c -- the functions of libamdhip64 that runtime/device/hip.def names: memory of memory.c, modules of loader.c, launches of grid.c.
 * FORGE_HIP_LIBRARY=libgfxsim.so.  Streams run at once; a finding makes the launch fail with 719, and every call after it, as HIP does.
 *
 *   FORGE_GFXSIM_CHIP=gfx942  which chip it is: code of others is refused (default: any that there is code for)
 *   FORGE_GFXSIM_DEFER=1      nothing runs before a query: shows who reuses pinned memory too early
 *   FORGE_GFXSIM_TRACE=1      a line on stderr for each launch; 2: its counters, too
 *   FORGE_GFXSIM_MEMORY=BYTES (memory.c), FORGE_GFXSIM_THREADS, SLICE, SEED, LIMIT (grid.c), IGNORE (report.c), STATS (stats.c),
 *   CHANNELS (channels.c) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gfxsim.h"

/* Their prototypes are those of hip_runtime_api.h, with void * for its types. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define EXPORT __attribute__((visibility("default")))

/* hip_runtime_api.h, ROCm 5.0 to 7. */
enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NO_BINARY = 209, NOT_FOUND = 500, NOT_READY = 600, LAUNCH_FAILURE = 719 };
enum { EXTRA_POINTER = 1, EXTRA_SIZE = 2, EXTRA_END = 3 };
enum { MOST_THREADS = 1024, MOST_LDS = 65536, MOST_COUNTED = 1 << 20 };

struct function { const struct kernel *kernel; uint8_t *kernarg; };      /* kernarg: device memory, one launch runs at a time */
struct loaded { struct module *module; struct function *functions; };    /* [n_kernels] */
struct event { struct stream *stream; double time; bool pending; };
enum kind { UPLOAD, DOWNLOAD, COPY, CLEAR, LAUNCH, RECORD };
struct op {
    enum kind kind;
    uint8_t  *to; const uint8_t *from; size_t n; uint8_t value;
    const struct function *function; uint32_t grid[3], threads[3], lds; uint8_t *args;       /* args: [explicit_bytes] of the kernel */
    struct event *event;
};
struct list { struct op *op; size_t n, capacity; };
struct stream { struct list waiting, *capture; struct stream *next; };

static struct stream default_stream, *streams = &default_stream;
static int failure;                              /* stays */
static uint32_t n_launches;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(void *memory)
{
    if (memory != NULL) return memory;
    fputs("gfxsim: no memory of the host is left\n", stderr);
    abort();
}

static const struct chip *wanted_chip(void)
{
    const char *name = getenv("FORGE_GFXSIM_CHIP");
    for (uint32_t i = 0; name != NULL && i < n_chips; i++)
        if (strcmp(chips[i].name, name) == 0) return &chips[i];
    return NULL;
}

static bool is_unknown_chip(void)
{
    const char *name = getenv("FORGE_GFXSIM_CHIP");
    return name != NULL && *name != 0 && wanted_chip() == NULL;
}

static void ready(void)
{
    static bool done;
    if (!done) memory_init();
    done = true;
}

/* ---- what is known of bytes ---- */

/* Bytes of [address, address + n) never written, the first of them in *first; counts no further than MOST_COUNTED. */
static size_t count_undefined(uint64_t address, size_t n, uint64_t *first)
{
    if (n == 0 || memory_defined(address, n)) return 0;
    if (n == 1) {
        if (address < *first) *first = address;
        return 1;
    }
    const size_t low = count_undefined(address, n / 2, first);
    return low < MOST_COUNTED ? low + count_undefined(address + n / 2, n - n / 2, first) : low;
}

static void copy_defined(uint64_t to, uint64_t from, size_t n)
{
    if (n > 1 && !memory_defined(from, n)) {
        copy_defined(to, from, n / 2);
        copy_defined(to + n / 2, from + n / 2, n - n / 2);
    } else if (n > 0) {
        memory_set_defined(to, n, memory_defined(from, n));
    }
}

static uint64_t at(const void *address) { return (uint64_t)(uintptr_t)address; }

/* True when it may be copied. */
static bool check_download(const void *from, size_t bytes)
{
    uint64_t first = UINT64_MAX;
    const size_t n = ignored(FINDING_UNDEFINED) ? 0 : count_undefined(at(from), bytes, &first);
    char where[200];
    if (n == 0) return true;
    memory_describe(where, sizeof where, first);
    fprintf(stderr, "gfxsim: %s%zu bytes copied to the host at %p were never written; the first of them is %s\n",
            n >= MOST_COUNTED ? "more than " : "", n, (void *)(uintptr_t)first, where);
    return false;
}

/* ---- launches ---- */

static uint64_t hidden_value(const struct launch *l, enum hidden_kind kind)
{
    switch (kind) {
    case HIDDEN_BLOCK_COUNT_X: case HIDDEN_BLOCK_COUNT_Y: case HIDDEN_BLOCK_COUNT_Z: return l->grid[kind - HIDDEN_BLOCK_COUNT_X];
    case HIDDEN_GROUP_SIZE_X: case HIDDEN_GROUP_SIZE_Y: case HIDDEN_GROUP_SIZE_Z:    return l->threads[kind - HIDDEN_GROUP_SIZE_X];
    case HIDDEN_GRID_DIMS:        return 3;      /* what HIP says of every launch */
    case HIDDEN_DYNAMIC_LDS_SIZE: return l->dynamic_lds;
    default:                      return 0;      /* HIP's grids are whole groups and begin at 0 */
    }
}

/* Explicit arguments, then those that LLVM adds (AMDGPUUsage, code object V5 metadata); what is between them stays undefined. */
static void fill_kernarg(const struct launch *l, const uint8_t *args)
{
    const struct kernel *k = l->kernel;
    memset(l->kernarg, 0xff, k->kernarg_bytes);
    memory_set_defined(at(l->kernarg), k->kernarg_bytes, false);
    memcpy(l->kernarg, args, k->explicit_bytes);
    memory_set_defined(at(l->kernarg), k->explicit_bytes, true);
    for (uint32_t i = 0; i < k->n_hidden; i++) {
        const struct hidden_arg *h = &k->hidden[i];
        const uint64_t value = hidden_value(l, h->kind);
        if ((uint64_t)h->offset + h->size > k->kernarg_bytes) continue;
        memset(l->kernarg + h->offset, 0, h->size);
        memcpy(l->kernarg + h->offset, &value, h->size < sizeof value ? h->size : sizeof value);
        memory_set_defined(at(l->kernarg + h->offset), h->size, true);
    }
}

static uint64_t sum(const uint64_t *x, uint32_t n)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++) all += x[i];
    return all;
}

static void trace(const struct launch *l, double seconds, uint64_t level)
{
    static const char *const names[N_CLASSES] = { "salu", "branch", "wait", "barrier", "smem", "valu", "trans", "dot", "matrix", "lds",
                                                  "load", "store", "atomic", "scratch", "other" };
    const struct counters *c = &l->counters;
    fprintf(stderr, "gfxsim: launch %u: %s, %u,%u,%u groups of %u,%u,%u: %" PRIu64 " instructions, %.2f ms%s\n", l->number, l->kernel->name,
            l->grid[0], l->grid[1], l->grid[2], l->threads[0], l->threads[1], l->threads[2], sum(c->instructions, N_CLASSES), seconds * 1e3,
            l->failed != 0 ? ", failed" : "");
    if (level < 2) return;
    for (uint32_t i = 0; i < N_CLASSES; i++)
        if (c->instructions[i] > 0)
            fprintf(stderr, "gfxsim:   %-8s %12" PRIu64 ", lanes idle %" PRIu64 "\n", names[i], c->instructions[i], c->lanes_idle[i]);
    fprintf(stderr,
            "gfxsim:   loaded %" PRIu64 " bytes, stored %" PRIu64 ", scalar %" PRIu64 "; LDS: %" PRIu64 " loads, %" PRIu64 " stores, "
            "%" PRIu64 " conflicts; "
            "%" PRIu64 " barriers, %" PRIu64 " waves\n", c->loaded_bytes, c->stored_bytes, c->scalar_bytes, c->lds_loads, c->lds_stores,
            c->lds_conflicts, c->barriers,
            c->waves);
}

static int run_launch(const struct op *op)
{
    const struct kernel *k = op->function->kernel;
    const uint64_t level = setting("FORGE_GFXSIM_TRACE", 0);
    const char *stats = getenv("FORGE_GFXSIM_STATS");
    struct launch *l = need(calloc(1, sizeof *l));
    l->kernel = k;
    l->chip = k->module->chip;
    l->number = ++n_launches;
    memcpy(l->grid, op->grid, sizeof l->grid);
    memcpy(l->threads, op->threads, sizeof l->threads);
    l->stats = level > 1 || (stats != NULL && *stats != 0);
    if (l->stats) l->channels = channels_setting();
    l->dynamic_lds = op->lds;
    l->kernarg = op->function->kernarg;
    fill_kernarg(l, op->args);
    const double start = now();
    const int code = launch_run(l);
    if (level > 0) trace(l, now() - start, level);
    free(l);
    return code;
}

/* ---- work: done at once, at the next query, or kept in a graph ---- */

static void run_op(const struct op *op)
{
    if (failure != 0) return;
    switch (op->kind) {
    case UPLOAD:
        memcpy(op->to, op->from, op->n);
        memory_set_defined(at(op->to), op->n, true);
        break;
    case DOWNLOAD:
        if (setting("FORGE_GFXSIM_SAMPLE", 0) > 0) memset(op->to, 0, op->n);     /* what a sample of groups leaves behind means nothing, and
                                                                                  * may be NaN */
        else memcpy(op->to, op->from, op->n);
        if (!check_download(op->from, op->n)) failure = LAUNCH_FAILURE;
        break;
    case COPY:
        memmove(op->to, op->from, op->n);
        copy_defined(at(op->to), at(op->from), op->n);
        break;
    case CLEAR:
        memset(op->to, op->value, op->n);
        memory_set_defined(at(op->to), op->n, true);
        break;
    case LAUNCH: failure = run_launch(op); break;
    case RECORD:
        op->event->time = now();
        op->event->pending = false;
        break;
    }
}

/* Keeps op with its own copy of the arguments. */
static void push(struct list *l, const struct op *op)
{
    if (l->n == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        l->op = need(realloc(l->op, l->capacity * sizeof *l->op));
    }
    struct op *copy = &l->op[l->n++];
    *copy = *op;
    if (op->kind != LAUNCH) return;
    copy->args = need(malloc(op->function->kernel->explicit_bytes + 1u));
    memcpy(copy->args, op->args, op->function->kernel->explicit_bytes);
}

static void empty(struct list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->op[i].kind == LAUNCH) free(l->op[i].args);
    l->n = 0;
}

static int free_list(struct list *l)
{
    empty(l);
    free(l->op);
    free(l);
    return failure;
}

static struct stream *stream_of(void *stream) { return stream != NULL ? stream : &default_stream; }

static int put(void *stream, const struct op *op)
{
    struct stream *s = stream_of(stream);
    if (failure != 0) return failure;
    if (s->capture != NULL) push(s->capture, op);
    else if (setting("FORGE_GFXSIM_DEFER", 0) != 0) push(&s->waiting, op);
    else run_op(op);
    return failure;
}

static void run_waiting(struct stream *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) run_op(&s->waiting.op[i]);
    empty(&s->waiting);
}

static void run_all_waiting(void)
{
    for (struct stream *s = streams; s != NULL; s = s->next) run_waiting(s);
}

/* ---- libamdhip64: the device ---- */

EXPORT int hipInit(unsigned flags)
{
    ready();
    return flags == 0 ? 0 : INVALID;
}

EXPORT int hipRuntimeGetVersion(int *version) { *version = 60200000; return 0; }
EXPORT int hipSetDevice(int device) { return device == 0 ? failure : INVALID; }

EXPORT int hipGetDeviceCount(int *n)
{
    *n = !is_unknown_chip();
    if (*n == 0) fprintf(stderr, "gfxsim: FORGE_GFXSIM_CHIP=%s is no chip known here\n", getenv("FORGE_GFXSIM_CHIP"));
    return *n > 0 ? 0 : NO_DEVICE;
}

EXPORT int hipDeviceGetName(char *name, int bytes, int device)
{
    const struct chip *c = wanted_chip();
    snprintf(name, (size_t)bytes, "gfxsim%s%s", c != NULL ? " " : "", c != NULL ? c->name : "");
    return device == 0 ? 0 : INVALID;
}

/* It is on no bus. */
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) { (void)value, (void)attribute, (void)device; return INVALID; }

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    ready();
    *total = memory_size();
    *free_bytes = *total > memory_in_use() ? *total - memory_in_use() : 0;
    return failure;
}

EXPORT const char *hipGetErrorString(int code)
{
    switch (code) {
    case INVALID:        return "invalid argument";
    case NO_MEMORY:      return "out of memory";
    case NO_DEVICE:      return "no ROCm-capable device is detected";
    case NO_BINARY:      return "no kernel image is available for execution on the device";
    case NOT_FOUND:      return "named symbol not found";
    case NOT_READY:      return "device not ready";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default:             return "unknown error";
    }
}

/* ---- memory ---- */

static int alloc(void **out, size_t bytes, bool host)
{
    ready();
    if (failure != 0) return failure;
    if (bytes == 0) return INVALID;
    *out = memory_alloc(bytes, host);
    return *out != NULL ? 0 : NO_MEMORY;
}

/* Freeing waits for all that was begun. */
static int release(void *address)
{
    run_all_waiting();
    if (address != NULL && !memory_free(address)) {
        fprintf(stderr, "gfxsim: no allocation begins at %p: it cannot be freed\n", address);
        return INVALID;
    }
    return failure;
}

EXPORT int hipMalloc(void **out, size_t bytes) { return alloc(out, bytes, false); }
EXPORT int hipFree(void *address) { return release(address); }
EXPORT int hipHostMalloc(void **out, size_t bytes, unsigned flags) { (void)flags; return alloc(out, bytes, true); }
EXPORT int hipHostFree(void *host) { return release(host); }

EXPORT int hipHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    *out = host;
    return flags == 0 && memory_inside(at(host), 1, true) ? failure : INVALID;
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
    return inside(to, bytes, false) ? put(stream, &(struct op){ .kind = CLEAR, .to = to, .n = bytes, .value = value }) : INVALID;
}

/* As HIP does, the call waits where the host's side is not pinned memory: such copies are not in graphs. */
static int copy(enum kind kind, void *to, const void *from, size_t bytes, void *stream)
{
    struct stream *s = stream_of(stream);
    const struct op op = { .kind = kind, .to = to, .from = from, .n = bytes };
    const void *host = kind == DOWNLOAD ? to : from;
    const bool pageable = kind != COPY && at(host) - memory_base >= MEMORY_RANGE;
    if ((kind != DOWNLOAD || !pageable) && !inside(to, bytes, kind == DOWNLOAD)) return INVALID;
    if ((kind != UPLOAD || !pageable) && !inside(from, bytes, kind == UPLOAD)) return INVALID;
    if (!pageable) return put(stream, &op);
    if (s->capture != NULL) return INVALID;
    run_waiting(s);
    run_op(&op);
    return failure;
}

EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(UPLOAD, to, from, bytes, stream); }
EXPORT int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(DOWNLOAD, to, from, bytes, stream); }
EXPORT int hipMemcpyDtoDAsync(void *to, const void *from, size_t bytes, void *stream) { return copy(COPY, to, from, bytes, stream); }

/* ---- streams, events ---- */

EXPORT int hipStreamCreateWithFlags(void **out, unsigned flags)
{
    struct stream *s = need(calloc(1, sizeof *s));
    (void)flags;
    s->next = streams;
    streams = s;
    *out = s;
    return failure;
}

EXPORT int hipStreamQuery(void *stream)
{
    struct stream *s = stream_of(stream);
    const bool waiting = s->waiting.n > 0;
    run_waiting(s);
    return failure != 0 ? failure : waiting ? NOT_READY : 0;
}

EXPORT int hipStreamDestroy(void *stream)
{
    struct stream *s = stream;
    if (s == NULL) return INVALID;
    run_waiting(s);
    for (struct stream **from = &streams; *from != NULL; from = &(*from)->next)
        if (*from == s) {
            *from = s->next;
            break;
        }
    free(s->waiting.op);
    free(s);
    return failure;
}

EXPORT int hipEventCreateWithFlags(void **out, unsigned flags)
{
    (void)flags;
    *out = need(calloc(1, sizeof(struct event)));
    return failure;
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    struct event *e = event;
    e->pending = true;
    e->stream = stream_of(stream);
    return put(stream, &(struct op){ .kind = RECORD, .event = e });
}

EXPORT int hipEventQuery(void *event)
{
    const struct event *e = event;
    const bool pending = e->pending;
    if (pending) run_waiting(e->stream);
    return failure != 0 ? failure : e->pending ? NOT_READY : 0;
}

EXPORT int hipEventElapsedTime(float *milliseconds, void *from, void *to)
{
    const struct event *a = from, *b = to;
    *milliseconds = (float)((b->time - a->time) * 1e3);
    return failure != 0 ? failure : a->pending || b->pending ? NOT_READY : 0;
}

EXPORT int hipEventDestroy(void *event)
{
    run_all_waiting();
    free(event);
    return failure;
}

/* ---- code ---- */

EXPORT int hipModuleLoadData(void **out, const void *image)
{
    ready();
    if (failure != 0) return failure;
    struct module *m = module_load(image, 0);
    const struct chip *wanted = wanted_chip();
    if (m != NULL && (is_unknown_chip() || (wanted != NULL && m->chip != wanted))) {
        fprintf(stderr, "gfxsim: the code is for %s, FORGE_GFXSIM_CHIP is %s\n", m->chip->name, getenv("FORGE_GFXSIM_CHIP"));
        module_free(m);
        m = NULL;
    }
    if (m == NULL) return NO_BINARY;
    struct loaded *l = need(malloc(sizeof *l));
    l->module = m;
    l->functions = need(calloc(m->n_kernels + 1u, sizeof *l->functions));
    for (uint32_t i = 0; i < m->n_kernels; i++) l->functions[i].kernel = &m->kernels[i];
    *out = l;
    return 0;
}

EXPORT int hipModuleUnload(void *module)
{
    struct loaded *l = module;
    run_all_waiting();
    for (uint32_t i = 0; i < l->module->n_kernels; i++)
        if (l->functions[i].kernarg != NULL) memory_free(l->functions[i].kernarg);
    module_free(l->module);
    free(l->functions);
    free(l);
    return failure;
}

EXPORT int hipModuleGetFunction(void **out, void *module, const char *name)
{
    const struct loaded *l = module;
    for (uint32_t i = 0; i < l->module->n_kernels; i++) {
        struct function *f = &l->functions[i];
        if (strcmp(f->kernel->name, name) != 0) continue;
        if (f->kernarg == NULL && f->kernel->kernarg_bytes > 0) f->kernarg = memory_alloc(f->kernel->kernarg_bytes, false);
        if (f->kernarg == NULL && f->kernel->kernarg_bytes > 0) return NO_MEMORY;
        *out = f;
        return failure;
    }
    return failure != 0 ? failure : NOT_FOUND;
}

/* NULL: the launch can be done. */
static const char *launch_fault(const struct op *op, void **parameters, void **extra)
{
    const struct kernel *k = op->function->kernel;
    const uint64_t threads = (uint64_t)op->threads[0] * op->threads[1] * op->threads[2], most = k->most_threads > 0 ? k->most_threads
        : MOST_THREADS;
    for (int i = 0; i < 3; i++)
        if (op->grid[i] == 0 || op->threads[i] == 0 || op->threads[i] > MOST_THREADS) return "the grid or the group is empty or too large";
    if ((uint64_t)op->grid[0] * op->grid[1] > UINT32_MAX || (uint64_t)op->grid[0] * op->grid[1] * op->grid[2] * 32 > UINT32_MAX)
        return "more groups than are simulated";
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
    const char *fault = launch_fault(&op, parameters, extra);
    if (failure != 0) return failure;
    if (fault == NULL) return put(stream, &op);
    fprintf(stderr, "gfxsim: %s, %u,%u,%u groups of %u,%u,%u threads, %u bytes of LDS: %s\n", op.function->kernel->name, grid_x, grid_y,
            grid_z, block_x, block_y, block_z, shared_bytes, fault);
    return INVALID;
}

/* ---- graphs ---- */

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    struct stream *s = stream;
    (void)mode;
    if (failure != 0) return failure;
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
    return failure;
}

EXPORT int hipGraphInstantiate(void **exec, void *graph, void **node, char *log, size_t log_bytes)
{
    const struct list *from = graph;
    (void)node, (void)log, (void)log_bytes;
    if (failure != 0) return failure;
    struct list *to = need(calloc(1, sizeof *to));
    for (size_t i = 0; i < from->n; i++) push(to, &from->op[i]);
    *exec = to;
    return 0;
}

EXPORT int hipGraphLaunch(void *exec, void *stream)
{
    const struct list *l = exec;
    int code = failure;
    for (size_t i = 0; i < l->n && code == 0; i++) code = put(stream, &l->op[i]);
    return code;
}

EXPORT int hipGraphDestroy(void *graph) { return free_list(graph); }
EXPORT int hipGraphExecDestroy(void *exec) { return free_list(exec); }
