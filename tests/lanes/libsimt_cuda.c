/* libsimt_cuda.c -- the functions of runtime/device/cuda.def, which call the functions of libsimt.c and are linked into the same library:
 * FORGE_CUDA_LIBRARY=libsimt.so.  Modules are shared objects here too, not PTX.  The device is an sm_90, or FORGE_SIMT_SM=NN, a list for
 * several devices.  Each thread has its own current context. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 1, INVALID_DEVICE = 101, OTHER_CONTEXT = 201, MOST_DEVICES = 8 };
enum { SHARED_BYTES_FREE = 48 << 10, SHARED_BYTES_MOST = 227 << 10, MAX_FUNCTIONS = 512 };

uint64_t simt_number(const char *, int, uint64_t);
int hipSetDevice(int), hipDeviceCanAccessPeer(int *, int, int), hipDeviceEnablePeerAccess(int, unsigned);
int hipInit(unsigned), hipGetDeviceCount(int *), hipDeviceGetName(char *, int, int), hipMemGetInfo(size_t *, size_t *),
    hipMalloc(void **, size_t);
int hipFree(void *), hipHostMalloc(void **, size_t, unsigned), hipHostFree(void *), hipHostGetDevicePointer(void **, void *, unsigned);
int hipMemsetD8Async(void *, unsigned char, size_t, void *), hipMemcpyHtoDAsync(void *, const void *, size_t, void *);
int hipMemcpyDtoHAsync(void *, const void *, size_t, void *), hipMemcpyDtoDAsync(void *, const void *, size_t, void *);
int hipStreamCreateWithFlags(void **, unsigned), hipStreamQuery(void *), hipStreamDestroy(void *),
    hipEventCreateWithFlags(void **, unsigned);
int hipEventRecord(void *, void *), hipEventQuery(void *), hipEventElapsedTime(float *, void *, void *), hipEventDestroy(void *);
int hipModuleLoadData(void **, const void *), hipModuleUnload(void *), hipModuleGetFunction(void **, void *, const char *);
int simt_put_launch(void *, const unsigned *, unsigned, unsigned, void *, const void *, size_t, bool), hipStreamBeginCapture(void *, int),
    hipStreamEndCapture(void *, void **);
int hipGraphInstantiate(void **, void *, void **, char *, size_t), hipGraphLaunch(void *, void *), hipGraphDestroy(void *),
    hipGraphExecDestroy(void *);

#define SAME(cuda, hip, parameters, arguments) EXPORT int cuda parameters; EXPORT int cuda parameters { return hip arguments; }
SAME(cuInit, hipInit, (unsigned f), (f))
SAME(cuDeviceGetCount, hipGetDeviceCount, (int *n), (n))
SAME(cuDeviceGetName, hipDeviceGetName, (char *s, int n, int d), (s, n, d))
SAME(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, (int *c, int d, int e), (c, d, e))
SAME(cuMemGetInfo_v2, hipMemGetInfo, (size_t *f, size_t *t), (f, t))
SAME(cuMemFree_v2, hipFree, (void *p), (p))
SAME(cuMemFreeHost, hipHostFree, (void *p), (p))
SAME(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer, (void **d, void *h, unsigned f), (d, h, f))
SAME(cuMemsetD8Async, hipMemsetD8Async, (void *p, unsigned char v, size_t n, void *s), (p, v, n, s))
SAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, (void *d, const void *h, size_t n, void *s), (d, h, n, s))
SAME(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, (void *h, const void *d, size_t n, void *s), (h, d, n, s))
SAME(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, (void *d, const void *e, size_t n, void *s), (d, e, n, s))
SAME(cuStreamQuery, hipStreamQuery, (void *s), (s))
SAME(cuStreamDestroy_v2, hipStreamDestroy, (void *s), (s))
SAME(cuEventRecord, hipEventRecord, (void *e, void *s), (e, s))
SAME(cuEventQuery, hipEventQuery, (void *e), (e))
SAME(cuEventElapsedTime, hipEventElapsedTime, (float *t, void *a, void *b), (t, a, b))
SAME(cuEventDestroy_v2, hipEventDestroy, (void *e), (e))
SAME(cuModuleUnload, hipModuleUnload, (void *m), (m))
SAME(cuModuleGetFunction, hipModuleGetFunction, (void **f, void *m, const char *s), (f, m, s))
SAME(cuStreamBeginCapture_v2, hipStreamBeginCapture, (void *s, int m), (s, m))
SAME(cuStreamEndCapture, hipStreamEndCapture, (void *s, void **g), (s, g))
SAME(cuGraphInstantiateWithFlags, hipGraphInstantiate, (void **e, void *g, unsigned long long f), (e, g, NULL, NULL, (size_t)f))
SAME(cuGraphLaunch, hipGraphLaunch, (void *e, void *s), (e, s))
SAME(cuGraphDestroy, hipGraphDestroy, (void *g), (g))
SAME(cuGraphExecDestroy, hipGraphExecDestroy, (void *e), (e))

/* ---- contexts, which HIP does not have: nothing can be created without one ---- */

/* users: how often it is retained. */
struct context { int device, users; };
static struct context contexts[MOST_DEVICES];
static _Thread_local struct context *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The context of a device, after adding `more` to its users. */
static struct context *context_of(int device, int more)
{
    int n = 0;
    if (hipGetDeviceCount(&n) != 0 || device < 0 || device >= n) return NULL;
    pthread_mutex_lock(&lock);
    contexts[device].device = device;
    contexts[device].users += more;
    pthread_mutex_unlock(&lock);
    return &contexts[device];
}

static bool has_context(void)
{
    pthread_mutex_lock(&lock);
    const bool has = current != NULL && current->users > 0;
    pthread_mutex_unlock(&lock);
    return has;
}

#define MADE(cuda, hip, parameters, arguments) \
    EXPORT int cuda parameters; EXPORT int cuda parameters { return has_context() ? hip arguments : OTHER_CONTEXT; }

MADE(cuMemAlloc_v2, hipMalloc, (void **p, size_t n), (p, n))
MADE(cuMemHostAlloc, hipHostMalloc, (void **p, size_t n, unsigned f), (p, n, f))
MADE(cuStreamCreate, hipStreamCreateWithFlags, (void **s, unsigned f), (s, f))
MADE(cuEventCreate, hipEventCreateWithFlags, (void **e, unsigned f), (e, f))

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = context_of(device, 1);
    return *context != NULL ? 0 : INVALID_DEVICE;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    const struct context *c = context_of(device, -1);
    if (c == current) current = NULL;
    return c != NULL ? 0 : INVALID_DEVICE;
}

EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuCtxSetCurrent(void *context)
{
    current = context;
    return current != NULL ? hipSetDevice(current->device) : 0;
}

/* Gives the current context's device access to the memory of the other context's device. */
EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags);
EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    const struct context *peer = context;
    if (!has_context() || peer == NULL || peer == current) return OTHER_CONTEXT;
    return hipDeviceEnablePeerAccess(peer->device, flags);
}

EXPORT int cuGetErrorName(int code, const char **name);
EXPORT int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return code >= 0 ? 0 : INVALID; }

EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDriverGetVersion(int *version) { *version = (int)simt_number("FORGE_SIMT_CUDA", 0, 12080); return 0; }

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int n = 0;
    const int sm = (int)simt_number("FORGE_SIMT_SM", device, 90);
    if (hipGetDeviceCount(&n) != 0 || device < 0 || device >= n) return INVALID_DEVICE;
    if (attribute != 75 && attribute != 76) return INVALID;
    *value = attribute == 75 ? sm / 10 : sm % 10;
    return 0;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned n, const int *options, void **values);
EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned n, const int *options, void **values)
{
    if (!has_context() || n != 2 || options[0] != 5 || options[1] != 6 || (uintptr_t)values[1] < 16) return INVALID;
    const int code = hipModuleLoadData(module, image);
    if (code != 0) strcpy(values[0], "no such PTX\n");
    return code;
}

static struct { void *function; int bytes; } shared[MAX_FUNCTIONS];

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function);
EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)function;
    *value = (int)simt_number("FORGE_SIMT_LOCAL", 0, 0);
    return attribute == 3 ? 0 : INVALID;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value)
{
    size_t i = 0;
    if (attribute != 8 || value > SHARED_BYTES_MOST) return INVALID;
    pthread_mutex_lock(&lock);
    while (i < MAX_FUNCTIONS - 1 && shared[i].function != NULL && shared[i].function != function) i++;
    shared[i].function = function;
    shared[i].bytes = value;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int launch(void *function, const unsigned *size, unsigned bytes, unsigned cluster, void *stream, void **parameters, void **extra)
{
    int allowed = SHARED_BYTES_FREE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_FUNCTIONS && shared[i].function != NULL; i++)
        if (shared[i].function == function && shared[i].bytes > allowed) allowed = shared[i].bytes;
    pthread_mutex_unlock(&lock);
    if ((int)bytes > allowed || parameters != NULL || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != NULL) return INVALID;
    return simt_put_launch(function, size, bytes, cluster, stream, extra[1], *(const size_t *)extra[3], false);
}

EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned bytes, void *s,
                          void **p, void **extra);
EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned bytes, void *s,
                          void **p, void **extra)
{
    const unsigned size[6] = { gx, gy, gz, bx, by, bz };
    return launch(f, size, bytes, 1, s, p, extra);
}

/* CUlaunchConfig and CUlaunchAttribute. */
struct attribute { int id; char pad[4]; union { int allowed; unsigned cluster[3]; char bytes[64]; } value; };
struct config { unsigned size[6], shared_bytes; void *stream; const struct attribute *attributes; unsigned n_attributes; };

EXPORT int cuLaunchKernelEx(const struct config *c, void *function, void **parameters, void **extra);
EXPORT int cuLaunchKernelEx(const struct config *c, void *function, void **parameters, void **extra)
{
    unsigned cluster = 1;
    for (unsigned i = 0; i < c->n_attributes; i++) {
        const struct attribute *a = &c->attributes[i];
        if (a->id == 4 && a->value.cluster[1] == 1 && a->value.cluster[2] == 1) cluster = a->value.cluster[0];
        else if (a->id != 6 || a->value.allowed != 1) return INVALID;
    }
    return launch(function, c->size, c->shared_bytes, cluster, c->stream, parameters, extra);
}
