/* device_host.c -- runs kernels of tests/device on an NVIDIA GPU and compares with the host.  Plain C11, no CUDA headers: the driver is
 * opened by dlopen.
 *
 *   cc -O2 -I . tests/device/device_host.c -ldl -lm -o device_host
 *   device_host mma FILE.ptx          kernels_mma.c: who holds which element of a tile
 *   device_host sample FILE.ptx       kernels_sample.c: the tokens of runtime/run/sample.c, and how long a draw takes
 *
 * FILE.ptx is what KEEP=DIR tests/device/compile.sh leaves.  Exit code 1 after a difference, 77 without a GPU. */
#define _GNU_SOURCE
#include "runtime/run/sample.c"
#include "runtime/run/status.c"
#include "runtime/model/abi_gpu.h"
#include "templates/gpu/sample_sizes.h"
#include <dlfcn.h>
#include <stdio.h>

enum { NO_DEVICE = 77 };

/* ---- the driver: name in libcuda.so.1, parameters (CUDA driver API reference) ---- */

#define DRIVER_CALLS(X) \
    X(cuInit, unsigned) \
    X(cuDeviceGet, int *, int) \
    X(cuDeviceGetName, char *, int, int) \
    X(cuDevicePrimaryCtxRetain, void **, int) \
    X(cuCtxSetCurrent, void *) \
    X(cuModuleLoadData, void **, const void *) \
    X(cuModuleGetFunction, void **, void *, const char *) \
    X(cuFuncSetAttribute, void *, int, int) \
    X(cuMemAlloc_v2, uint64_t *, size_t) \
    X(cuMemHostAlloc, void **, size_t, unsigned) \
    X(cuMemHostGetDevicePointer_v2, uint64_t *, void *, unsigned) \
    X(cuMemcpyHtoD_v2, uint64_t, const void *, size_t) \
    X(cuMemcpyDtoH_v2, void *, uint64_t, size_t) \
    X(cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) \
    X(cuCtxSynchronize, void) \
    X(cuEventCreate, void **, unsigned) \
    X(cuEventRecord, void *, void *) \
    X(cuEventSynchronize, void *) \
    X(cuEventElapsedTime, float *, void *, void *) \
    X(cuGetErrorString, int, const char **)
#define FIELD(name, ...) int (*name)(__VA_ARGS__);
static struct { DRIVER_CALLS(FIELD) } cu;
enum { MAX_DYNAMIC_LDS = 8, HOST_MAPPED = 2 };   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_MEMHOSTALLOC_DEVICEMAP */

static void need(int result, const char *what)
{
    if (result == 0) return;
    const char *text = "?";
    cu.cuGetErrorString(result, &text);
    fprintf(stderr, "device_host: %s: error %d: %s\n", what, result, text);
    exit(1);
}

static struct {
    void    *module;
    uint64_t weights, arena, step, history;      /* device */
    void    *shared;                             /* host memory that the device sees: the ring, then mark */
    uint64_t shared_device;
} gpu;
enum { WEIGHT_BYTES = 1 << 20, ARENA_BYTES = 8 << 20, MARK_OFFSET = FORGE_GPU_RING * 8, SHARED_BYTES = MARK_OFFSET + 64 };
enum { SAMPLE_CTX = 4096 };                      /* n_ctx in kernels_sample.c */

static int open_device(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 0;
#define LOAD(name, ...)                                                                                                                    \
    *(void **)&cu.name = dlsym(library, #name); if (!cu.name) { fprintf(stderr, "device_host: no " #name "\n"); return 0; }
    DRIVER_CALLS(LOAD)
    int device;
    void *context;
    char name[100];
    if (cu.cuInit(0) || cu.cuDeviceGet(&device, 0)) return 0;
    need(cu.cuDeviceGetName(name, sizeof name, device), "name");
    need(cu.cuDevicePrimaryCtxRetain(&context, device), "context");
    need(cu.cuCtxSetCurrent(context), "context");
    need(cu.cuMemAlloc_v2(&gpu.weights, WEIGHT_BYTES), "memory");
    need(cu.cuMemAlloc_v2(&gpu.arena, ARENA_BYTES), "memory");
    need(cu.cuMemAlloc_v2(&gpu.step, sizeof(struct forge_gpu_step)), "memory");
    need(cu.cuMemAlloc_v2(&gpu.history, (SAMPLE_CTX + 1) * 4), "memory");
    need(cu.cuMemHostAlloc(&gpu.shared, SHARED_BYTES, HOST_MAPPED), "host memory");
    need(cu.cuMemHostGetDevicePointer_v2(&gpu.shared_device, gpu.shared, 0), "host memory");
    printf("device: %s\n", name);
    return 1;
}

static void load_module(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) { perror(path); exit(2); }
    static char text[16 << 20];
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    need(cu.cuModuleLoadData(&gpu.module, text), path);
}

static void *find_kernel(const char *name, uint32_t lds_bytes)
{
    void *function;
    need(cu.cuModuleGetFunction(&function, gpu.module, name), name);
    if (lds_bytes > 48 << 10) need(cu.cuFuncSetAttribute(function, MAX_DYNAMIC_LDS, (int)lds_bytes), "shared memory");
    return function;
}

static void launch(void *function, uint32_t groups, uint32_t threads, uint32_t lds_bytes, struct forge_kernel_args *args)
{
    void *parameters[] = { args };
    need(cu.cuLaunchKernel(function, groups, 1, 1, threads, 1, 1, lds_bytes, NULL, parameters, NULL), "launch");
}

static void upload(uint64_t to, const void *from, size_t bytes)   { need(cu.cuMemcpyHtoD_v2(to, from, bytes), "upload"); }
static void download(void *to, uint64_t from, size_t bytes)       { need(cu.cuMemcpyDtoH_v2(to, from, bytes), "download"); }
static void *on_device(uint64_t address) { return (void *)(uintptr_t)address; }

static struct forge_random random_numbers;
static double unit(void) { return random_unit(&random_numbers); }
static uint32_t below(uint32_t n) { return (uint32_t)(unit() * n); }
static float normal(void) { double s = -6; for (int i = 0; i < 12; i++) s += unit(); return (float)s; }

/* ---- kernels with one small input and one small output ---- */

/* `kind` says what the kernel computes; the first `outputs` floats of the arena are compared to `bound`. */
struct small_test {
    const char *kernel;
    uint32_t    groups, threads, lds_bytes, kind, outputs;
    double      bound;
};

/* Tiles of kernels_mma.c: 0 A B; 1 with B as [k][j]; 2 in bf16; 3 f16(A B) B; 4 largest and sum of the rows of A B; 5 four times A B. */
struct tiles { float a[16][16], b[16][16]; };    /* [i][k], [k][j] */

static const struct small_test mma_tests[] = {
    { "mma_rows_f16",  1, 32, 4096, 0, 256, 1e-5 },
    { "mma_trans_f16", 1, 32, 4096, 1, 256, 1e-5 },
    { "mma_rows_bf16", 1, 32, 4096, 2, 256, 1e-5 },
    { "mma_chain_f16", 1, 32, 4096, 3, 256, 2e-2 },
    { "mma_reduce",    1, 32, 4096, 4, 256, 1e-4 },
    { "mma_swizzled",  1, 32, 4096, 5, 256, 1e-4 },
    { "mma_wide_rows", 1, 32, 4096, 0, 256, 1e-5 },
    { "mma_wide_swizzled", 1, 32, 4096, 2, 256, 1e-5 },
};

static uint16_t bits16(float x, int bf16)        /* of values that are exact in both */
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if (bf16) return (uint16_t)(u >> 16);
    const _Float16 h = (_Float16)x;
    uint16_t v;
    memcpy(&v, &h, 2);
    return v;
}

/* n < 512: a single one in A or in B, the other numbered; then random tiles of eight significant bits. */
static void make_tiles(struct tiles *t, uint32_t n)
{
    for (uint32_t m = 0; m < 256; m++) {
        const float random_a = rintf((float)(2 * unit() - 1) * 128) / 128, random_b = rintf((float)(2 * unit() - 1) * 128) / 128;
        t->a[m / 16][m % 16] = n < 256 ? (float)(m == n) : n < 512 ? (float)m : random_a;
        t->b[m / 16][m % 16] = n < 256 ? (float)m : n < 512 ? (float)(m == n - 256) : random_b;
    }
}

static void multiply(double d[16][16], float a[16][16], float b[16][16])
{
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < 16; j++) {
            d[i][j] = 0;
            for (uint32_t k = 0; k < 16; k++) d[i][j] += (double)a[i][k] * (double)b[k][j];
        }
}

static void expect_tile(double d[16][16], struct tiles *t, uint32_t kind)
{
    multiply(d, t->a, t->b);
    float rounded[16][16];
    for (uint32_t i = 0; i < 16; i++) {
        double largest = d[i][0], sum = 0;
        for (uint32_t j = 0; j < 16; j++) {
            largest = fmax(largest, d[i][j]);
            sum += d[i][j];
            rounded[i][j] = (float)(_Float16)(float)d[i][j];
        }
        for (uint32_t j = 0; j < 16; j++)
            if (kind == 4) d[i][j] = j % 2 ? sum : largest;
            else if (kind == 5) d[i][j] *= 4;
    }
    if (kind == 3) multiply(d, rounded, t->b);
}

/* False after a message. */
static int check_tile(const struct small_test *test, void *function, struct tiles *t, uint32_t n)
{
    uint16_t weights[2][16][16];
    float d[16][16];
    double expected[16][16];
    const int bf16 = test->kind == 2, transposed = test->kind == 1;
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t k = 0; k < 16; k++) {
            weights[0][i][k] = bits16(t->a[i][k], bf16);
            weights[1][i][k] = bits16(transposed ? t->b[i][k] : t->b[k][i], bf16);
        }
    memset(d, 0xff, sizeof d);
    upload(gpu.weights, weights, sizeof weights);
    upload(gpu.arena, d, sizeof d);
    struct forge_kernel_args args = { .weights = on_device(gpu.weights), .arena = on_device(gpu.arena),
                                      .weight = { 0, sizeof weights[0] } };
    launch(function, test->groups, test->threads, test->lds_bytes, &args);
    download(d, gpu.arena, sizeof d);
    expect_tile(expected, t, test->kind);
    for (uint32_t e = 0; e < test->outputs; e++)
        if (!(fabs((double)d[e / 16][e % 16] - expected[e / 16][e % 16]) <= test->bound)) {
            printf("%s, tile %u: element (%u, %u) is %g, not %g\n", test->kernel, n, e / 16, e % 16, (double)d[e / 16][e % 16],
                   expected[e / 16][e % 16]);
            return 0;
        }
    return 1;
}

static uint32_t run_mma(void)
{
    uint32_t n_failed = 0;
    for (size_t k = 0; k < sizeof mma_tests / sizeof *mma_tests; k++) {
        void *function = find_kernel(mma_tests[k].kernel, mma_tests[k].lds_bytes);
        uint32_t n_wrong = 0;
        for (uint32_t n = 0; n < 562 && n_wrong < 5; n++) {
            struct tiles t;
            make_tiles(&t, n);
            n_wrong += !check_tile(&mma_tests[k], function, &t, n);
        }
        printf("%-16s %s\n", mma_tests[k].kernel, n_wrong ? "FAILED" : "ok");
        n_failed += n_wrong > 0;
    }
    return n_failed;
}

/* ---- sampling ---- */

struct sample_kernel { const char *name; uint32_t n_vocab, groups, threads; };
static const struct sample_kernel sample_kernels[] = {
    { "sample_128256", 128256, 64, 512 }, { "sample_151936", 151936, 80, 512 }, { "sample_262144", 262144, 128, 512 },
    { "sample_32000", 32000, 40, 512 }, { "sample_512", 512, 4, 256 },
};

static float *logits_buffer(void) { static float logits[1 << 19]; return logits; }

static void fill_logits(float *x, uint32_t n, uint32_t kind)
{
    const float width = kind == 0 ? 3.0f : kind == 1 ? 0.05f : 1.0f;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = normal() * width;
        if (kind == 2) x[i] = rintf(x[i] * 4) / 4;
        if (kind == 3 && below(10) == 0) x[i] = NAN;
    }
}

static int all_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static struct forge_sample_options random_options(void)
{
    static const float temps[] = { 0, 0.8f, 0.8f, 1, 2 }, top_ps[] = { 1, 0.95f, 0.95f, 0.5f, 0.999f },
        min_ps[] = { 0, 0.05f, 0.05f, 0.2f };
    static const int32_t top_ks[] = { 0, 40, 40, 5, 600, 5000 };
    return (struct forge_sample_options){ .temp = temps[below(5)], .top_k = top_ks[below(6)], .top_p = top_ps[below(5)],
                                          .min_p = min_ps[below(4)], .repeat_penalty = below(2) ? 1.0f : 1.2f,
                                          .repeat_last_n = below(2) ? 64 : -1, .presence_penalty = below(2) ? 0.0f : 0.3f,
                                          .frequency_penalty = below(2) ? 0.0f : 0.1f, .seed = random_next(&random_numbers) };
}

static void upload_step(const struct forge_sample_options *o, uint32_t n_past)
{
    struct forge_gpu_step s = { .n_past = n_past, .n_tokens = 1, .n_logits = 1, .history = on_device(gpu.history),
                                .ring = on_device(gpu.shared_device), .temp = o->temp, .top_p = o->top_p, .min_p = o->min_p,
                                .repeat_penalty = o->repeat_penalty, .presence_penalty = o->presence_penalty,
                                .frequency_penalty = o->frequency_penalty, .top_k = o->top_k, .repeat_last_n = o->repeat_last_n };
    struct forge_random random;
    random_seed(&random, o->seed);
    memcpy(s.random, random.s, sizeof s.random);
    upload(gpu.step, &s, sizeof s);
}

static void print_options(const char *name, const struct forge_sample_options *o)
{
    printf("%s: temp %g top-k %d top-p %g min-p %g repeat %g last %d presence %g frequency %g: ", name, (double)o->temp, o->top_k,
           (double)o->top_p, (double)o->min_p, (double)o->repeat_penalty, o->repeat_last_n, (double)o->presence_penalty,
           (double)o->frequency_penalty);
}

static struct forge_kernel_args sample_args(void)
{
    return (struct forge_kernel_args){ .arena = on_device(gpu.arena), .step = on_device(gpu.step),
                                       .mark_at = on_device(gpu.shared_device + MARK_OFFSET), .mark = 3 };
}

/* One draw on both; 1 after a difference. */
static uint32_t check_draw(const struct sample_kernel *k, void *function, uint32_t n)
{
    float *logits = logits_buffer();
    const struct forge_sample_options o = random_options();
    const uint32_t n_past = below(300);
    int32_t history[SAMPLE_CTX + 1] = { 0 };
    struct forge_sampler *sampler;
    if (sampler_open(&sampler, &o, k->n_vocab, SAMPLE_CTX, NULL) != FORGE_OK) abort();
    for (uint32_t i = 0; i <= n_past; i++) sampler_accept(sampler, history[i] = (int32_t)below(below(2) ? 30 : k->n_vocab));
    fill_logits(logits, k->n_vocab, n % 4);
    const int finite = all_finite(logits, k->n_vocab);
    const uint32_t zero = 0;
    upload(gpu.arena, &zero, 4);
    upload(gpu.arena + 64, logits, k->n_vocab * sizeof *logits);
    upload(gpu.history, history, sizeof history);
    upload_step(&o, n_past);
    struct forge_kernel_args args = sample_args();
    launch(function, k->groups, k->threads, SAMPLE_LDS_BYTES(k->n_vocab), &args);
    need(cu.cuCtxSynchronize(), k->name);
    const int32_t want = sampler_draw(sampler, logits);
    struct forge_gpu_step after;
    uint32_t counter;
    download(&after, gpu.step, sizeof after);
    download(history, gpu.history, sizeof history);
    download(&counter, gpu.arena, 4);
    const uint64_t told = ((const volatile uint64_t *)gpu.shared)[1];
    /* the CPU's sampler draws in spite of NaN */
    const int same_state = !finite || !memcmp(after.random, sampler->random.s, sizeof after.random);
    sampler_close(sampler);
    const int advanced = history[n_past + 1] == (finite ? want : 0) && after.n_past == n_past + 1 && after.n_drawn == 1 && counter == 0;
    if (told == (UINT64_C(1) << 32 | (finite ? (uint32_t)want : FORGE_GPU_NOT_FINITE)) && advanced && same_state) return 0;
    print_options(k->name, &o);
    printf("token %d in the history, %u of draw %u in the ring, not %d; n_past %u of %u, counter %u, random state %s\n",
           history[n_past + 1], (unsigned)told, (unsigned)(told >> 32), want, after.n_past, n_past + 1, counter,
           same_state ? "right" : "wrong");
    return 1;
}

/* Microseconds a launch takes among many. */
static double time_draws(const struct sample_kernel *k, void *function, const struct forge_sample_options *o, uint32_t kind)
{
    enum { LAUNCHES = 300 };
    float *logits = logits_buffer(), ms;
    void *begin, *end;
    fill_logits(logits, k->n_vocab, kind);
    upload(gpu.arena + 64, logits, k->n_vocab * sizeof *logits);
    upload_step(o, 100);
    need(cu.cuEventCreate(&begin, 0), "event");
    need(cu.cuEventCreate(&end, 0), "event");
    struct forge_kernel_args args = sample_args();
    for (uint32_t i = 0; i < LAUNCHES + 20; i++) {
        if (i == 20) need(cu.cuEventRecord(begin, NULL), "event");
        launch(function, k->groups, k->threads, SAMPLE_LDS_BYTES(k->n_vocab), &args);
    }
    need(cu.cuEventRecord(end, NULL), "event");
    need(cu.cuEventSynchronize(end), k->name);
    need(cu.cuEventElapsedTime(&ms, begin, end), "event");
    return (double)ms * 1e3 / LAUNCHES;
}

static void time_kernel(const struct sample_kernel *k, void *function)
{
    static const struct { const char *name; uint32_t kind; struct forge_sample_options o; } ways[] = {
        { "greedy",          0, { .top_p = 1, .repeat_penalty = 1 } },
        { "default",         0, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 } },
        { "penalties",       0, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.1f,
                                  .repeat_last_n = 64 } },
        { "top-p",           0, { .temp = 1, .top_p = 0.9f, .repeat_penalty = 1 } },
        { "temperature",     0, { .temp = 1, .top_p = 1, .repeat_penalty = 1 } },
        { "min-p",           0, { .temp = 1, .top_p = 1, .min_p = 0.1f, .repeat_penalty = 1 } },
        { "top-p of a flat", 1, { .temp = 1, .top_p = 0.9f, .repeat_penalty = 1 } },
    };
    printf("%s, us a launch:", k->name);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        printf("%s %s %.2f", i ? "," : "", ways[i].name, time_draws(k, function, &ways[i].o, ways[i].kind));
    putchar('\n');
}

/* A cut or a draw within rounding of the border between two tokens may differ: 1 in 1000. */
static uint32_t run_sample(void)
{
    uint32_t n_failed = 0;
    for (size_t k = 0; k < sizeof sample_kernels / sizeof *sample_kernels; k++) {
        void *function = find_kernel(sample_kernels[k].name, SAMPLE_LDS_BYTES(sample_kernels[k].n_vocab));
        const uint32_t n_draws = sample_kernels[k].n_vocab > 10000 ? 150 : 1000;
        uint32_t n_differ = 0;
        for (uint32_t n = 0; n < n_draws && n_differ < 5; n++) n_differ += check_draw(&sample_kernels[k], function, n);
        printf("%-16s %u of %u draws differ\n", sample_kernels[k].name, n_differ, n_draws);
        n_failed += n_differ * 1000 > n_draws;
        time_kernel(&sample_kernels[k], function);
    }
    return n_failed;
}

static const struct { const char *name; uint32_t (*run)(void); } suites[] = { { "mma", run_mma }, { "sample", run_sample } };

int main(int argc, char **argv)
{
    if (argc != 3) { fputs("usage: device_host mma|sample FILE.ptx\n", stderr); return 2; }
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
        if (strcmp(suites[i].name, argv[1])) continue;
        if (!open_device()) { puts("skipped: no NVIDIA GPU"); return NO_DEVICE; }
        random_seed(&random_numbers, 1);
        load_module(argv[2]);
        const uint32_t n_failed = suites[i].run();
        printf("device_host %s: %u kernels failed\n", argv[1], n_failed);
        return n_failed > 0;
    }
    fprintf(stderr, "device_host: no tests called \"%s\"\n", argv[1]);
    return 2;
}
