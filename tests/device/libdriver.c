/* libdriver.c -- a HIP library that calls another HIP library and adds faults that AMD's runtimes have had.  FORGE_HIP_LIBRARY=libdriver.so
 *   DRIVER_OF=FILE              the other library (libsimt.so, libgfxsim.so)
 *   DRIVER_FAIL=NAME:CODE,...   calls of NAME return CODE and do nothing
 *   DRIVER_VERSION=N            version of the library, as hipRuntimeGetVersion returns it
 *   DRIVER_MOST=BYTES           largest allocation
 *   DRIVER_FREE=BYTES           free memory
 *   DRIVER_PCI=DOMAIN:BUS:SLOT,...   of each device; DRIVER_INTEGRATED=01...
 *   DRIVER_GFX=gfx1151,...      name in the properties of each device
 *   DRIVER_STALE=1              a graph runs before the copy that was put before it
 *   DRIVER_LOST=N               the Nth launch of each graph does nothing
 *   DRIVER_MIXED=1              two consecutive launches of a graph both have the arguments of the second
 *   DRIVER_WRONG=1              launches read their arguments from other bytes than the caller's
 *   DRIVER_NO_STORES=1          a kernel's stores into another device's memory are lost */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/abi_gpu.h"

#define EXPORT __attribute__((visibility("default")))

static void *real(const char *name)
{
    static void *library;
    if (!library) library = dlopen(getenv("DRIVER_OF"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "libdriver: %s\n", dlerror());
        abort();
    }
    return dlsym(library, name);
}

static unsigned long long number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : 0;
}

/* Entry i of a list with commas, or NULL. */
static const char *entry(const char *name, int i)
{
    const char *text = getenv(name);
    for (; text && i > 0; i--) {
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    return text && *text ? text : NULL;
}

static int failing(const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0;; i++) {
        const char *e = entry("DRIVER_FAIL", i);
        if (!e) return 0;
        if (strncmp(e, name, n) == 0 && e[n] == ':') return atoi(e + n + 1);
    }
}

typedef void *any;
#define CALL(name, types, ...) ((int (*) types)real(name))(__VA_ARGS__)
#define PASS(name) \
    EXPORT int name(any a, any b, any c, any d, any e) \
    { \
        const int code = failing(#name); \
        return code ? code : CALL(#name, (any, any, any, any, any), a, b, c, d, e); \
    }

PASS(hipInit) PASS(hipGetDeviceCount) PASS(hipDeviceGetName) PASS(hipSetDevice) PASS(hipFree) PASS(hipHostFree)
PASS(hipHostGetDevicePointer) PASS(hipMemsetD8Async) PASS(hipMemcpyDtoHAsync) PASS(hipMemcpyDtoDAsync) PASS(hipStreamCreateWithFlags)
PASS(hipStreamDestroy) PASS(hipEventCreateWithFlags) PASS(hipEventRecord) PASS(hipEventQuery) PASS(hipEventDestroy)
PASS(hipModuleLoadData) PASS(hipModuleUnload) PASS(hipModuleGetFunction) PASS(hipGraphInstantiate) PASS(hipGraphDestroy)
PASS(hipGraphExecDestroy) PASS(hipDeviceCanAccessPeer) PASS(hipDeviceEnablePeerAccess) PASS(hipEventElapsedTime) PASS(hipHostMalloc)

EXPORT const char *hipGetErrorString(int code) { return ((const char *(*)(int))real("hipGetErrorString"))(code); }

EXPORT int hipRuntimeGetVersion(int *version)
{
    const int code = CALL("hipRuntimeGetVersion", (int *), version);
    if (number("DRIVER_VERSION")) *version = (int)number("DRIVER_VERSION");
    return code;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    enum { INTEGRATED = 16, BUS = 67, SLOT = 68, DOMAIN = 69 };
    const char *pci = entry("DRIVER_PCI", device), *integrated = getenv("DRIVER_INTEGRATED");
    unsigned domain, bus, slot;
    if (attribute == INTEGRATED) {
        *value = integrated && strlen(integrated) > (size_t)device && integrated[device] == '1';
        return 0;
    }
    if (pci && attribute >= BUS && attribute <= DOMAIN && sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) == 3) {
        *value = (int)(attribute == BUS ? bus : attribute == SLOT ? slot : domain);
        return 0;
    }
    return CALL("hipDeviceGetAttribute", (int *, int, int), value, attribute, device);
}

EXPORT int hipGetDevicePropertiesR0600(void *out, int device)
{
    enum { BYTES = 1472, GFX_AT = 1160 };
    const char *gfx = entry("DRIVER_GFX", device);
    if (!gfx) return 1;
    memset(out, 0, BYTES);
    snprintf(out, 256, "AMD Radeon Graphics");
    snprintf((char *)out + GFX_AT, 256, "%.*s:sramecc-:xnack-", (int)strcspn(gfx, ","), gfx);
    return 0;
}

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    const int code = CALL("hipMemGetInfo", (size_t *, size_t *), free_bytes, total);
    if (number("DRIVER_FREE")) *free_bytes = *total = number("DRIVER_FREE");
    return code;
}

static bool refuses(size_t bytes) { return number("DRIVER_MOST") && bytes > number("DRIVER_MOST"); }
EXPORT int hipMalloc(void **out, size_t bytes) { return refuses(bytes) ? 2 : CALL("hipMalloc", (void **, size_t), out, bytes); }
EXPORT int hipExtMallocWithFlags(void **out, size_t bytes, unsigned flags)
{
    return refuses(bytes) ? 2 : CALL("hipExtMallocWithFlags", (void **, size_t, unsigned), out, bytes, flags);
}

/* ---- work ---- */

static struct { void *to, *stream; const void *from; size_t n; } kept;       /* a copy that waits for the next graph */
static bool captures;
static unsigned n_captured;
static struct { bool is; void *function, *stream; unsigned size[6], shared; struct forge_kernel_args args; } before;

static int upload(void *to, const void *from, size_t n, void *stream)
{
    return CALL("hipMemcpyHtoDAsync", (void *, const void *, size_t, void *), to, from, n, stream);
}

static int give_kept(void)
{
    if (!kept.to) return 0;
    const int code = upload(kept.to, kept.from, kept.n, kept.stream);
    kept.to = NULL;
    return code;
}

EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t n, void *stream)
{
    const int code = give_kept();
    if (code || !number("DRIVER_STALE")) return code ? code : upload(to, from, n, stream);
    kept.to = to, kept.from = from, kept.n = n, kept.stream = stream;
    return 0;
}

EXPORT int hipStreamQuery(void *stream)
{
    const int failed = failing("hipStreamQuery"), code = failed ? failed : give_kept();
    return code ? code : CALL("hipStreamQuery", (void *), stream);
}

EXPORT int hipGraphLaunch(void *exec, void *stream)
{
    const int failed = failing("hipGraphLaunch"), code = failed ? failed : CALL("hipGraphLaunch", (void *, void *), exec, stream);
    return code ? code : give_kept();
}

/* Memory of the current device that no kernel reads. */
static uint8_t *elsewhere(void)
{
    void *memory = NULL;
    if (CALL("hipExtMallocWithFlags", (void **, size_t, unsigned), &memory, 1 << 16, 3)) abort();
    return memory;
}

static int launch(void *function, const unsigned *s, unsigned shared, void *stream, struct forge_kernel_args *args)
{
    size_t bytes = sizeof *args;
    void *extra[] = { (void *)1, args, (void *)2, &bytes, (void *)3 };
    return CALL("hipModuleLaunchKernel", (any, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, any, any *, any *),
                function, s[0], s[1], s[2], s[3], s[4], s[5], shared, stream, NULL, extra);
}

static int give_before(const struct forge_kernel_args *with)
{
    if (!before.is) return 0;
    before.is = false;
    if (with) before.args = *with;
    return launch(before.function, before.size, before.shared, before.stream, &before.args);
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra)
{
    const unsigned size[] = { grid_x, grid_y, grid_z, block_x, block_y, block_z };
    struct forge_kernel_args args;
    (void)parameters;
    if (!captures) {
        const int code = give_kept();
        if (code) return code;
    }
    memcpy(&args, extra[1], sizeof args);
    for (uint32_t r = 0; number("DRIVER_NO_STORES") && r < (uint32_t)FORGE_GPU_MAX_RANKS; r++)
        if (r != args.rank && args.collective[r]) args.collective[r] = elsewhere();
    if (number("DRIVER_WRONG")) args.weight[3]++;
    if (captures && number("DRIVER_LOST") && ++n_captured == number("DRIVER_LOST")) return 0;
    if (captures && number("DRIVER_MIXED")) {
        if (before.is && before.function == function) return give_before(&args) || launch(function, size, shared, stream, &args);
        const int code = give_before(NULL);
        before.is = true, before.function = function, before.shared = shared, before.stream = stream, before.args = args;
        memcpy(before.size, size, sizeof size);
        return code;
    }
    return launch(function, size, shared, stream, &args);
}

EXPORT int hipStreamBeginCapture(void *stream, int mode)
{
    const int failed = failing("hipStreamBeginCapture");
    const int code = failed ? failed : CALL("hipStreamBeginCapture", (void *, int), stream, mode);
    captures = code == 0;
    n_captured = 0;
    return code;
}

EXPORT int hipStreamEndCapture(void *stream, void **graph)
{
    const int failed = failing("hipStreamEndCapture");
    if (!failed) give_before(NULL);
    captures = before.is = false;
    return failed ? failed : CALL("hipStreamEndCapture", (void *, void **), stream, graph);
}
