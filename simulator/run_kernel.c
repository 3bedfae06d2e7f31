/* run_kernel.c -- runs a kernel of a code object on libgfxsim.so: prints findings, instructions by class, bytes and LDS conflicts.
 *
 *   run_kernel [--chip NAME] FILE.co KERNEL GRID_X GRID_Y THREADS LDS_BYTES ARGUMENT...
 *
 * An ARGUMENT is u32:5, f32:1.5, u64:7, or a buffer of the device, whose address is passed:
 *   buf:BYTES[:random|zero|undefined|FILE]   with these bytes (default: undefined, which is reported where it matters)
 *   out:BYTES:FILE                           undefined; written to FILE after the launch
 * Arguments are laid out in order, each at a multiple of its size; members of a structure passed by value are given one by one.
 * Exit code 1 after a finding.  FORGE_GFXSIM_* as in hip.c.
 *
 *   KEEP=/tmp/k tests/device/compile.sh tests/kernel/mma_kernels.c
 *   run_kernel /tmp/k/mma_kernels.gfx942.co mma_rows_f16 1 1 64 4096 buf:1024:random out:1024:d.f32 ... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The declarations of hip_runtime_api.h that are needed. */
int hipInit(unsigned flags);
int hipMalloc(void **out, size_t bytes);
int hipHostMalloc(void **out, size_t bytes, unsigned flags);
int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream);
int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream);
int hipStreamQuery(void *stream);
int hipModuleLoadData(void **out, const void *image);
int hipModuleGetFunction(void **out, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra);
const char *hipGetErrorString(int code);
enum { NOT_READY = 600, MOST_ARGUMENTS = 64 };

struct output { void *device; size_t bytes; const char *path; };
static struct output outputs[MOST_ARGUMENTS];
static size_t n_outputs, block_bytes;
static uint8_t block[8 * MOST_ARGUMENTS];

static _Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "run_kernel: %s: %s\n", what, why);
    exit(1);
}

static void check(int code, const char *what) { if (code != 0 && code != NOT_READY) stop(what, hipGetErrorString(code)); }

static uint8_t *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) stop(path, "cannot be read");
    *bytes = (size_t)ftell(f);
    uint8_t *data = malloc(*bytes + 1);
    rewind(f);
    if (data == NULL || fread(data, 1, *bytes, f) != *bytes) stop(path, "cannot be read");
    fclose(f);
    return data;
}

static void pass(const void *value, size_t bytes)
{
    block_bytes = (block_bytes + bytes - 1) / bytes * bytes;
    if (block_bytes + bytes > sizeof block) stop("arguments", "there are too many");
    memcpy(block + block_bytes, value, bytes);
    block_bytes += bytes;
}

static void fill(void *device, size_t bytes, const char *with)
{
    void *host;
    if (strcmp(with, "undefined") == 0) return;
    check(hipHostMalloc(&host, bytes, 0), with);
    memset(host, 0, bytes);
    if (strcmp(with, "random") == 0) {
        for (size_t i = 0; i < bytes; i++) ((uint8_t *)host)[i] = (uint8_t)(rand() >> 8);
    } else if (strcmp(with, "zero") != 0) {
        size_t n;
        uint8_t *data = read_file(with, &n);
        memcpy(host, data, n < bytes ? n : bytes);
        free(data);
    }
    check(hipMemcpyHtoDAsync(device, host, bytes, NULL), with);
}

static void parse_argument(char *text)
{
    char *colon = strchr(text, ':');
    if (colon == NULL) stop(text, "is not of the form KIND:VALUE");
    char *value = colon + 1, *more = strchr(value, ':');
    *colon = 0;
    if (more != NULL) *more++ = 0;
    if (strcmp(text, "u32") == 0) pass(&(uint32_t){ (uint32_t)strtoul(value, NULL, 0) }, 4);
    else if (strcmp(text, "u64") == 0) pass(&(uint64_t){ strtoull(value, NULL, 0) }, 8);
    else if (strcmp(text, "f32") == 0) pass(&(float){ strtof(value, NULL) }, 4);
    else if (strcmp(text, "buf") == 0 || strcmp(text, "out") == 0) {
        const size_t bytes = strtoull(value, NULL, 0);
        void *device;
        check(hipMalloc(&device, bytes), value);
        pass(&device, sizeof device);
        if (*text == 'b') fill(device, bytes, more != NULL ? more : "undefined");
        else if (more == NULL || n_outputs == MOST_ARGUMENTS) stop(value, "out:BYTES:FILE has no FILE");
        else outputs[n_outputs++] = (struct output){ device, bytes, more };
    } else stop(text, "is not a kind of argument");
}

static void save(const struct output *o)
{
    void *host;
    check(hipHostMalloc(&host, o->bytes, 0), o->path);
    check(hipMemcpyDtoHAsync(host, o->device, o->bytes, NULL), o->path);
    check(hipStreamQuery(NULL), o->path);
    FILE *f = fopen(o->path, "wb");
    if (f == NULL || fwrite(host, 1, o->bytes, f) != o->bytes || fclose(f) != 0) stop(o->path, "cannot be written");
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--chip") == 0) {
        setenv("FORGE_GFXSIM_CHIP", argv[2], 1);
        argc -= 2;
        argv += 2;
    }
    if (argc < 7) stop("usage", "run_kernel [--chip NAME] FILE.co KERNEL GRID_X GRID_Y THREADS LDS_BYTES ARGUMENT...");
    unsigned size[4];
    size_t bytes;
    void *module, *function;
    for (int i = 0; i < 4; i++) size[i] = (unsigned)strtoul(argv[3 + i], NULL, 0);
    setenv("FORGE_GFXSIM_TRACE", "2", 0);
    check(hipInit(0), "hipInit");
    check(hipModuleLoadData(&module, read_file(argv[1], &bytes)), argv[1]);
    check(hipModuleGetFunction(&function, module, argv[2]), argv[2]);
    for (int i = 7; i < argc; i++) parse_argument(argv[i]);
    void *extra[] = { (void *)1, block, (void *)2, &block_bytes, (void *)3 };
    check(hipModuleLaunchKernel(function, size[0], size[1], 1, size[2], 1, 1, size[3], NULL, NULL, extra), argv[2]);
    check(hipStreamQuery(NULL), argv[2]);
    for (size_t i = 0; i < n_outputs; i++) save(&outputs[i]);
    return 0;
}
