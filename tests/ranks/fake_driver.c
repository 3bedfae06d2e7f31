/* fake_driver.c -- a driver of several fake GPUs with the functions of HIP and of CUDA (FORGE_HIP_LIBRARY, FORGE_CUDA_LIBRARY), to test the
 * runtime of programs with GPUs that wait for each other.  Streams run when the host queries one, or when one is full.  Kernels are the
 * functions below, and a kernel that waits for a value of another GPU blocks its stream.  An error that a real driver or GPU would not
 * tolerate ends the process: a call for one GPU while another is current, memory of another GPU, a collective that is left out or
 * overwritten, a host that waits for a value that cannot come.
 *
 *   FAKE_DEVICES=N           number of GPUs (2)               FAKE_ARCH=90,80      CUDA: architecture of each GPU (90)
 *   FAKE_ALONE=A,B           GPU A cannot access B's memory   FAKE_MEMORY=A,BYTES  memory of GPU A (16 MiB)
 *   FAKE_FAULT=A,N           launch N of GPU A fails          FAKE_HANG=A,N        launch N of GPU A never ends
 *   FAKE_QUEUE=N             maximum of launches on a stream (1024), without graphs
 *   FAKE_LOG=FILE            one line for each call
 * Compiled with -DFAKE_OLD it has no functions for several GPUs. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numbers.h"
#include "runtime/model/abi.h"

enum { INVALID = 1, NO_MEMORY = 2, NOT_READY = 600, ALREADY = 704, FAULT = 719, MOST = 4, MOST_OPS = 4096, MOST_BLOCKS = 256 };

enum op_kind { LAUNCH, COPY, CLEAR, RECORD };
struct op {
    enum op_kind kind;
    const char  *kernel, *code;
    uint32_t     grid_y;
    struct forge_kernel_args args;
    void        *to;
    const void  *from;
    size_t       bytes;
    bool         gave;                           /* the launch has pushed its values and waits for the sum */
};
struct graph { struct op *ops; uint32_t n; };
struct event { int device; uint32_t recorded, passed; };
struct block { uint8_t *bytes; size_t n; int device, owner; bool shared; };     /* device -1: host memory; owner: the GPU it is for */

static struct device {
    struct op *ops;                              /* [MOST_OPS], a ring of operations begun .. ended: */
    uint32_t begun, ended;
    struct graph *captured;
    bool     reaches[MOST], failed;
    uint32_t launched, collective_base;          /* collective_base: tag of the last value it pushed */
    size_t   used;
} devices[MOST];
static struct block blocks[MOST_BLOCKS];
static int current;

static const char *text_of(const char *name) { return getenv(name) ? getenv(name) : ""; }

/* The variable is "A,N": is A this device?  Then *n is N. */
static bool pair_of(const char *name, int device, unsigned long long *n)
{
    int first = -1;
    unsigned long long second;
    if (sscanf(text_of(name), "%d,%llu", &first, &second) != 2 || first != device) return false;
    *n = second;
    return true;
}

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "fake driver: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    _exit(99);
}

__attribute__((format(printf, 1, 2)))
static void note(const char *format, ...)
{
    static FILE *log;
    va_list args;
    if (!log && *text_of("FAKE_LOG") != 0 && !(log = fopen(text_of("FAKE_LOG"), "a"))) die("no log");
    if (!log) return;
    va_start(args, format);
    vfprintf(log, format, args);
    va_end(args);
    fputc('\n', log);
    fflush(log);
}

static int n_devices(void) { return *text_of("FAKE_DEVICES") ? atoi(text_of("FAKE_DEVICES")) : 2; }

/* ---- memory ---- */

static const struct block *block_of(const void *at, size_t n)
{
    for (int i = 0; i < MOST_BLOCKS; i++)
        if ((const uint8_t *)at >= blocks[i].bytes && (const uint8_t *)at + n <= blocks[i].bytes + blocks[i].n) return &blocks[i];
    die("%zu bytes at %p are nobody's", n, at);
}

/* Dies unless the memory is of this device; -1: of the host. */
static void belongs(const void *at, size_t n, int device)
{
    if (block_of(at, n)->device != device) die("memory of GPU %d where GPU %d works", block_of(at, n)->device, device);
}

/* Dies unless this is pinned host memory allocated for this GPU. */
static void is_pinned(const void *at, size_t n, int device)
{
    const struct block *b = block_of(at, n);
    if (b->device != -1 || b->owner != device) die("memory of the host that is for GPU %d", b->owner);
}

static int take(void **out, size_t n, int device, bool shared)
{
    unsigned long long limit = 16 << 20;
    pair_of("FAKE_MEMORY", device, &limit);
    if (device >= 0 && devices[device].used + n > limit) return NO_MEMORY;
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].bytes) continue;
        blocks[i] = (struct block){ malloc(n), n, device, current, shared };
        memset(blocks[i].bytes, 0xff, n);
        if (device >= 0) devices[device].used += n;
        *out = blocks[i].bytes;
        if (shared) devices[current].collective_base = 0;        /* a new program begins */
        return 0;
    }
    die("too many allocations");
}

static bool run_all(void);

/* A driver waits for running work before it frees memory. */
static int give_back(void *at)
{
    run_all();
    if (!devices[current].failed && devices[current].begun != devices[current].ended) die("memory is freed under a kernel that waits");
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].bytes != at) continue;
        if (blocks[i].device >= 0 && blocks[i].device != current) die("memory of another GPU is freed");
        if (blocks[i].device >= 0) devices[blocks[i].device].used -= blocks[i].n;
        free(at);
        blocks[i] = (struct block){ 0 };
        return 0;
    }
    return INVALID;
}

/* ---- kernels ---- */

struct token { uint8_t *row; uint32_t past; };

static uint32_t row_bytes(const struct op *op) { return op->args.rank == 0 ? ROW_BYTES_0 : ROW_BYTES_1; }

static struct token token_at(const struct op *op, int device, uint32_t t)
{
    const struct forge_gpu_step *s = op->args.step;
    const uint32_t past = s->apart ? s->rows[t].n_past : s->n_past + t;
    uint8_t *row = op->args.state + (s->apart ? s->rows[t].state : 0) + op->args.state_at + (uint64_t)past * row_bytes(op);
    if (past >= N_CTX) die("position %u", past);
    belongs(row, row_bytes(op), device);
    return (struct token){ row, past };
}

/* A hash of up to five tokens that end with this one. */
static uint32_t hash_of(const struct op *op, struct token at)
{
    const uint32_t n = at.past < 4 ? at.past + 1 : 5;
    uint32_t h = 1;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t token;
        memcpy(&token, at.row - (uint64_t)i * row_bytes(op), 4);
        h = mix(h, token);
    }
    return h;
}

/* The tokens of a launch: all tokens of the step, or its last tokens. */
static uint32_t n_tokens(const struct op *op) { return op->grid_y; }
static uint32_t first_token(const struct op *op) { return op->args.first ? op->args.step->n_tokens - op->grid_y : 0; }

static float *values(const struct op *op) { return (float *)(void *)(op->args.arena + VALUES_AT); }
static uint32_t tag_of(const struct op *op) { return op->args.step->collective_base + op->args.collectives; }

static uint64_t *entry(const struct op *op, uint32_t to, uint32_t from, uint32_t t)
{
    uint8_t *at = op->args.collective[to] + tag_of(op) % 2 * HALF_BYTES + 8 * (from * CHUNK + t);
    if (!block_of(at, 8)->shared) die("a collective through memory that is not for it");
    return (uint64_t *)(void *)at;
}

static void give(struct op *op, int device, uint32_t t, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    for (uint32_t r = 0; r < 2; r++) {
        uint64_t *at = entry(op, r, op->args.rank, t);
        const int of = block_of(at, 8)->device;
        if (of >= 0 && of != device && !devices[device].reaches[of]) die("GPU %d does not reach GPU %d", device, of);
        if (*at >> 32 == UINT32_MAX) die("collective memory that was not cleared");
        *at = (uint64_t)tag_of(op) << 32 | bits;
    }
}

/* A launch must push the values of the next collective: none may be left out or repeated. */
static void count_collective(const struct op *op, int device)
{
    note("%d gives %u", device, tag_of(op));
    if (tag_of(op) != devices[device].collective_base + 1)
        die("GPU %d gives collective %u after %u", device, tag_of(op), devices[device].collective_base);
    devices[device].collective_base = tag_of(op);
}

static bool there(const struct op *op, uint32_t n)
{
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t t = 0; t < n; t++) {
            const uint32_t tag = (uint32_t)(*entry(op, op->args.rank, r, t) >> 32);
            if (tag != tag_of(op) && (int32_t)(tag - tag_of(op)) > 0) die("a value of collective %u is lost", tag_of(op));
            if (tag != tag_of(op)) return false;
        }
    return true;
}

static float sum_of(const struct op *op, uint32_t t)
{
    float sum = 0;
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t bits = (uint32_t)*entry(op, op->args.rank, r, t);
        float x;
        memcpy(&x, &bits, 4);
        sum += x;
    }
    return sum;
}

static void check_args(const struct op *op, int device)
{
    if (op->args.rank != (uint32_t)(op->code[strlen(op->code) - 1] - '0')) die("code of another rank");
    belongs(op->args.weights, op->args.rank == 0 ? WEIGHT_BYTES_0 : WEIGHT_BYTES_1, device);
    belongs(op->args.arena, 1, device);
    belongs(op->args.step, sizeof *op->args.step, device);
    belongs(op->args.state, 1, device);
    if (!op->args.step->apart) belongs(op->args.step->history, 4, device);
    is_pinned(op->args.step->ring, 8, device);
    is_pinned(op->args.mark_at, 4, device);
    const uint8_t *w = op->args.weights;
    for (uint32_t i = 0; i < (op->args.rank == 0 ? WEIGHT_BYTES_0 : WEIGHT_BYTES_1); i++)          /* or random weights */
        if (w[i] != (uint8_t)(0x50 + op->args.rank) && (w[i] < 0x28 || w[i] > 0x37)) die("weights of another GPU");
    *op->args.mark_at = op->args.mark;
}

static void append_tokens(const struct op *op, int device)
{
    const struct forge_gpu_step *s = op->args.step;
    for (uint32_t t = 0; t < n_tokens(op); t++) {
        const struct token at = token_at(op, device, t);
        const uint32_t token = (uint32_t)(s->apart ? s->rows[t].token : s->history[at.past]);
        if (token >= N_VOCAB) die("token %u", token);
        for (uint32_t i = 0; i < row_bytes(op); i += 4) memcpy(at.row + i, &token, 4);
    }
}

static void head(const struct op *op)
{
    float *logits = (float *)(void *)(op->args.arena + LOGITS_AT);
    if (n_tokens(op) > LOGITS_ROWS) die("more logits than there is room for");
    for (uint32_t t = 0; t < n_tokens(op); t++)
        for (uint32_t v = 0; v < N_VOCAB; v++) logits[t * N_VOCAB + v] = logit_of(values(op)[first_token(op) + t], v);
}

/* Draws the most probable token that the mask allows, and advances the step as sample_tmpl.c does. */
static void sample(const struct op *op, int device, uint32_t row)
{
    struct forge_gpu_step *s = &op->args.step[row];
    const float *logits = (const float *)(const void *)(op->args.arena + LOGITS_AT) + (s->n_logits - 1 + row) * N_VOCAB;
    int32_t best = -1;
    if (s->mask) is_pinned(s->mask, N_VOCAB / 8, device);
    for (uint32_t i = 0; i < s->n_past + s->n_tokens && !s->row; i++)           /* penalties read the history */
        if (memcmp(&s->history[i], op->args.state + op->args.state_at + (uint64_t)i * row_bytes(op), 4) != 0)
            die("token %u is not in the history of GPU %d", i, device);
    for (int32_t v = 0; v < N_VOCAB; v++)
        if ((!s->mask || s->mask[v / 32] >> v % 32 & 1) && (best < 0 || logits[v] > logits[best])) best = v;
    const uint32_t at = s->n_past + s->n_tokens, number = s->n_drawn + 1;
    if (at <= N_CTX) s->history[at] = best;
    s->n_past = at;
    s->n_tokens = s->n_logits = 1;
    s->n_drawn += s->n_draws;
    s->collective_base += s->collectives;
    if (s->row) s->row->n_past = at, s->row->token = best;
    s->ring[number % FORGE_GPU_RING] = (uint64_t)number << 32 | (uint32_t)best;
}

/* Runs a kernel; false: it waits. */
static bool run_kernel(struct op *op, int device)
{
    const uint32_t layer = (uint32_t)op->args.weight[0], n = n_tokens(op);
    if (!op->gave) check_args(op, device);
    if (strcmp(op->kernel, "append") == 0) append_tokens(op, device);
    else if (strcmp(op->kernel, "give") == 0) {
        count_collective(op, device);
        for (uint32_t t = 0; t < n; t++)
            give(op, device, t, part_of(op->args.rank, layer, hash_of(op, token_at(op, device, first_token(op) + t)),
                                        layer > 0 ? values(op)[first_token(op) + t] : 0));
    } else if (strcmp(op->kernel, "take") == 0) {
        if (!there(op, n)) return false;
        for (uint32_t t = 0; t < n; t++) values(op)[first_token(op) + t] = sum_of(op, t);
    } else if (strcmp(op->kernel, "head") == 0) head(op);
    else if (strcmp(op->kernel, "sample") == 0) {                /* the best token of each GPU's part of the vocabulary is exchanged too */
        if (!op->gave) {
            count_collective(op, device);
            for (uint32_t t = 0; t < op->grid_y; t++) give(op, device, t, 1);
            op->gave = true;
        }
        if (!there(op, op->grid_y)) return false;
        if (sum_of(op, 0) != 2) die("the draw's collective");
        for (uint32_t t = 0; t < op->grid_y; t++) sample(op, device, t);
    } else die("no kernel %s", op->kernel);
    return true;
}

/* ---- streams ---- */

/* Runs one operation of a device; false: it has none, or waits. */
static bool run_one(int d)
{
    struct device *o = &devices[d];
    unsigned long long n;
    if (o->failed || o->begun == o->ended) return false;
    struct op *op = &o->ops[o->begun % MOST_OPS];
    if (op->kind == LAUNCH) {
        if (pair_of("FAKE_HANG", d, &n) && o->launched + 1 == n) { check_args(op, d); return false; }
        if (pair_of("FAKE_FAULT", d, &n) && o->launched + 1 == n) { check_args(op, d); o->failed = true; return true; }
        if (!run_kernel(op, d)) return false;
        o->launched++;
    } else if (op->kind == COPY) memcpy(op->to, op->from, op->bytes);
    else if (op->kind == CLEAR) memset(op->to, 0, op->bytes);
    else ((struct event *)op->to)->passed = (uint32_t)op->bytes;
    o->begun++;
    return true;
}

static bool run_all(void)
{
    bool any = false;
    for (bool more = true; more;) {
        more = false;
        for (int d = 0; d < MOST; d++) while (run_one(d)) more = any = true;
    }
    return any;
}

static int put(void *stream, const struct op *op, bool counts)
{
    const int d = (int)(intptr_t)stream - 1;
    struct device *o = &devices[d];
    const uint32_t most = *text_of("FAKE_QUEUE") ? (uint32_t)atoi(text_of("FAKE_QUEUE")) : 1024;
    if (d != current) die("work for GPU %d while GPU %d is the current one", d, current);
    if (o->failed) return FAULT;
    if (!o->ops && !(o->ops = malloc(MOST_OPS * sizeof *o->ops))) return NO_MEMORY;
    if (o->captured) {
        struct graph *g = o->captured;
        g->ops = realloc(g->ops, (g->n + 1) * sizeof *g->ops);
        g->ops[g->n++] = *op;
        return 0;
    }
    /* A full stream blocks the host. */
    if (counts && o->ended - o->begun >= most) run_all();
    if (counts && o->ended - o->begun >= most && !o->failed)
        die("the host waits for GPU %d, which waits for work that another has not got", d);
    if (o->ended - o->begun >= MOST_OPS) die("too much work");
    o->ops[o->ended++ % MOST_OPS] = *op;
    return o->failed ? FAULT : 0;
}

static int query(int d)
{
    run_all();
    if (devices[d].failed) return FAULT;
    return devices[d].begun == devices[d].ended ? 0 : NOT_READY;
}

/* ---- functions of HIP and CUDA ---- */

int hipInit(unsigned flags) { (void)flags; return 0; }
int hipRuntimeGetVersion(int *version) { *version = 60200000; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int hipGetDeviceCount(int *n) { *n = n_devices(); return 0; }

int hipDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, device < 2 ? "fake" : "other");
    return 0;
}

static int attribute(int *value, int id, int device)
{
    const char *arch = text_of("FAKE_ARCH");
    for (int i = 0; i < device && arch; i++) arch = strchr(arch, ',') ? strchr(arch, ',') + 1 : NULL;
    const int sm = arch && *arch ? atoi(arch) : 90;
    *value = id == 75 ? sm / 10 : id == 76 ? sm % 10 : 0;
    return id == 75 || id == 76 || id == 18 ? 0 : INVALID;
}
int cuDeviceGetAttribute(int *value, int id, int device) { return attribute(value, id, device); }
int hipDeviceGetAttribute(int *value, int id, int device) { (void)id, (void)device; *value = 0; return id == 16 ? 0 : INVALID; }

int hipSetDevice(int device) { current = device; return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(intptr_t)context - 1; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }

int hipMemGetInfo(size_t *free, size_t *total)
{
    unsigned long long limit = 16 << 20;
    pair_of("FAKE_MEMORY", current, &limit);
    *total = limit;
    *free = limit - devices[current].used;
    return 0;
}

int hipMalloc(void **out, size_t n) { return take(out, n, current, false); }
int cuMemAlloc_v2(void **out, size_t n) { return take(out, n, current, n == COLLECTIVE_BYTES); }
int hipFree(void *at) { return give_back(at); }
int hipHostMalloc(void **out, size_t n, unsigned flags) { return take(out, n, -1, flags & 1); }      /* portable */
int hipHostFree(void *at) { return give_back(at); }
int hipHostGetDevicePointer(void **out, void *host, unsigned flags) { (void)flags; *out = host; return 0; }

int hipMemsetD8Async(void *to, unsigned char value, size_t n, void *stream)
{
    belongs(to, n, current);
    return value ? INVALID : put(stream, &(struct op){ .kind = CLEAR, .to = to, .bytes = n }, true);
}

static int copy(void *to, const void *from, size_t n, void *stream, int to_device, int from_device)
{
    belongs(to, n, to_device);
    belongs(from, n, from_device);
    return put(stream, &(struct op){ .kind = COPY, .to = to, .from = from, .bytes = n }, true);
}
int hipMemcpyHtoDAsync(void *to, const void *from, size_t n, void *stream) { return copy(to, from, n, stream, current, -1); }
int hipMemcpyDtoHAsync(void *to, const void *from, size_t n, void *stream) { return copy(to, from, n, stream, -1, current); }
int hipMemcpyDtoDAsync(void *to, const void *from, size_t n, void *stream) { return copy(to, from, n, stream, current, current); }

int hipStreamCreateWithFlags(void **stream, unsigned flags) { (void)flags; *stream = (void *)(intptr_t)(current + 1); return 0; }
int hipStreamQuery(void *stream) { return query((int)(intptr_t)stream - 1); }
int hipStreamDestroy(void *stream) { (void)stream; return 0; }

int hipEventCreateWithFlags(void **out, unsigned flags)
{
    struct event *e = calloc(1, sizeof *e);
    (void)flags;
    e->device = current;
    *out = e;
    return 0;
}

int hipEventRecord(void *event, void *stream)
{
    struct event *e = event;
    if (e->device != current) die("an event of another GPU");
    return put(stream, &(struct op){ .kind = RECORD, .to = e, .bytes = ++e->recorded }, true);
}

int hipEventQuery(void *event)
{
    const struct event *e = event;
    const int code = query(e->device);
    return code == FAULT ? FAULT : e->passed == e->recorded ? 0 : NOT_READY;
}
int hipEventElapsedTime(float *ms, void *from, void *to) { (void)from, (void)to; *ms = 0.01f; return 0; }
int hipEventDestroy(void *event) { free(event); return 0; }

/* A module's code is a text that ends with the number of its rank. */
struct module { const char *code; int device; };
int hipModuleLoadData(void **module, const void *image)
{
    struct module *m = malloc(sizeof *m);
    *m = (struct module){ image, current };
    *module = m;
    return 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **log)
{
    (void)n, (void)options, (void)log;
    return hipModuleLoadData(module, image);
}
int hipModuleUnload(void *module) { free(module); return 0; }

struct function { const char *name; struct module module; };
int hipModuleGetFunction(void **function, void *module, const char *name)
{
    struct function *f = malloc(sizeof *f);
    *f = (struct function){ name, *(const struct module *)module };
    *function = f;
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute_, int value) { (void)function, (void)attribute_, (void)value; return 0; }
int cuFuncGetAttribute(int *value, int attribute_, void *function) { (void)attribute_, (void)function; *value = 0; return 0; }

static int launch(const void *function, unsigned grid_y, void *stream, void **extra)
{
    const struct function *f = function;
    struct op op = { .kind = LAUNCH, .kernel = f->name, .code = f->module.code, .grid_y = grid_y };
    if (f->module.device != current) die("a kernel of another GPU");
    memcpy(&op.args, extra[1], sizeof op.args);
    note("%d %s %s %u", current, devices[current].captured ? "captures" : "launches", f->name, op.args.collectives);
    return put(stream, &op, true);
}
int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned lds,
                          void *stream, void **parameters, void **extra)
{
    (void)x, (void)z, (void)bx, (void)by, (void)bz, (void)lds, (void)parameters;
    return launch(function, y, stream, extra);
}
struct config { uint32_t grid[3], block[3], lds; void *stream; };
int cuLaunchKernelEx(const struct config *config, void *function, void **parameters, void **extra)
{
    (void)parameters;
    return launch(function, config->grid[1], config->stream, extra);
}

int hipStreamBeginCapture(void *stream, int mode)
{
    (void)mode;
    if ((int)(intptr_t)stream - 1 != current) die("a capture on another GPU");
    devices[current].captured = calloc(1, sizeof(struct graph));
    return 0;
}
int hipStreamEndCapture(void *stream, void **graph)
{
    *graph = devices[(intptr_t)stream - 1].captured;
    devices[(intptr_t)stream - 1].captured = NULL;
    return 0;
}
int hipGraphInstantiate(void **exec, void *graph, void **node, char *log, size_t bytes)
{
    (void)node, (void)log, (void)bytes;
    *exec = graph;
    return 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) { (void)flags; *exec = graph; return 0; }
int hipGraphLaunch(void *exec, void *stream)
{
    const struct graph *g = exec;
    int code = 0;
    note("%d graph of %u", current, g->n);
    for (uint32_t i = 0; i < g->n && code == 0; i++) code = put(stream, &g->ops[i], false);
    return code;
}
int hipGraphDestroy(void *graph) { (void)graph; return 0; }          /* the executable graph is the same object */
int hipGraphExecDestroy(void *exec) { free(((struct graph *)exec)->ops); free(exec); return 0; }

const char *hipGetErrorString(int code)
{
    return code == FAULT ? "unspecified launch failure" : code == NO_MEMORY ? "out of memory" : "error";
}
int cuGetErrorName(int code, const char **name) { *name = hipGetErrorString(code); return 0; }

#ifndef FAKE_OLD
int hipDeviceCanAccessPeer(int *yes, int device, int peer)
{
    unsigned long long alone;
    note("%d asks for %d", device, peer);
    *yes = device != peer && !(pair_of("FAKE_ALONE", device, &alone) && (int)alone == peer);
    return 0;
}
static int reach(int peer)
{
    if (devices[current].reaches[peer]) return ALREADY;
    devices[current].reaches[peer] = true;
    note("%d reaches %d", current, peer);
    return 0;
}
int hipDeviceEnablePeerAccess(int peer, unsigned flags) { return flags ? INVALID : reach(peer); }
int cuCtxEnablePeerAccess(void *peer, unsigned flags) { return flags ? INVALID : reach((int)(intptr_t)peer - 1); }
int cuDeviceCanAccessPeer(int *yes, int device, int peer) { return hipDeviceCanAccessPeer(yes, device, peer); }
int hipExtMallocWithFlags(void **out, size_t n, unsigned flags) { return flags == 3 ? take(out, n, current, true) : INVALID; }
#endif

#define ALIAS(name, of) extern __typeof__(of) name __attribute__((alias(#of)));
ALIAS(cuInit, hipInit)
ALIAS(cuDeviceGetCount, hipGetDeviceCount)
ALIAS(cuDeviceGetName, hipDeviceGetName)
ALIAS(cuMemGetInfo_v2, hipMemGetInfo)
ALIAS(cuMemFree_v2, hipFree)
ALIAS(cuMemHostAlloc, hipHostMalloc)
ALIAS(cuMemFreeHost, hipHostFree)
ALIAS(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer)
ALIAS(cuMemsetD8Async, hipMemsetD8Async)
ALIAS(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)
ALIAS(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)
ALIAS(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)
ALIAS(cuStreamCreate, hipStreamCreateWithFlags)
ALIAS(cuStreamQuery, hipStreamQuery)
ALIAS(cuStreamDestroy_v2, hipStreamDestroy)
ALIAS(cuEventCreate, hipEventCreateWithFlags)
ALIAS(cuEventRecord, hipEventRecord)
ALIAS(cuEventQuery, hipEventQuery)
ALIAS(cuEventElapsedTime, hipEventElapsedTime)
ALIAS(cuEventDestroy_v2, hipEventDestroy)
ALIAS(cuModuleUnload, hipModuleUnload)
ALIAS(cuModuleGetFunction, hipModuleGetFunction)
ALIAS(cuLaunchKernel, hipModuleLaunchKernel)
ALIAS(cuStreamBeginCapture_v2, hipStreamBeginCapture)
ALIAS(cuStreamEndCapture, hipStreamEndCapture)
ALIAS(cuGraphLaunch, hipGraphLaunch)
ALIAS(cuGraphDestroy, hipGraphDestroy)
ALIAS(cuGraphExecDestroy, hipGraphExecDestroy)
