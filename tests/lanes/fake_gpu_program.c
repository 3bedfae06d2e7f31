/* fake_gpu_program.c -- a GPU program without a model, together with the CPU program of tests/cli/fake_program.c: both give the same
 * logits for the same tokens, so the same text.  It is compiled twice.  With -DFAKE_KERNELS -shared: the kernels, as a module of libsimt.
 * Without: the program, which contains that module (FAKE_MODULE, a path) and its weights (FAKE_IMAGE, a path).  FAKE_IMAGE_BYTES is the
 * size of the weights, a multiple of 4; the first FAKE_OFFSET bytes belong to no program. */
#ifndef FAKE_OFFSET
#define FAKE_OFFSET 4096
#endif
#define FAKE_VOCAB 300u
#define FAKE_CTX 1024u
#define LOGITS_ROWS 3u

#if defined(FAKE_KERNELS)
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "templates/gpu/launch.h"
#include "templates/gpu/sample_tmpl.c"
#include "tests/cli/fake_spoil.h"

/* Arena: [0, 4096) counters and a word that must be zero initially, then logits, then the sampler's scratch. */
#define LOGITS_AT 4096u
#define SCRATCH_AT (LOGITS_AT + LOGITS_ROWS * FAKE_VOCAB * 4u)
enum { GROUPS = 3, THREADS = 64 };

extern __attribute__((visibility("default"))) const uint32_t forge_simt_wave;
const uint32_t forge_simt_wave = WAVE;

static void die(const char *what)
{
    fprintf(stderr, "fake GPU program: %s\n", what);
    _exit(99);
}

/* FAKE_WEIGHTS names a file that begins with the bytes that the device must have received. */
static void check_weights(const struct forge_kernel_args a)
{
    const char *path = getenv("FAKE_WEIGHTS");
    if (path == NULL) return;
    const int fd = open(path, O_RDONLY);
    const off_t n = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    const uint8_t *bytes = n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED) die("cannot read FAKE_WEIGHTS");
    if (memcmp(a.weights, bytes + FAKE_OFFSET, (size_t)n - FAKE_OFFSET) != 0) die("the device has other weights than the file");
    munmap((void *)(uintptr_t)bytes, (size_t)n);
    close(fd);
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

/* Writes the step's tokens to the cache. */
KERNEL(THREADS, 1) fake_append(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = group_y();
    if (group_x() == 0 && thread_x() == 0) {
        if (a.state_at != 64 || a.weight[0] != 7) die("the launch has wrong arguments");
        if (a.weight[2] > 0 && (a.step->n_tokens < a.weight[1] || a.step->n_tokens > a.weight[2]))
            die("the launch is for steps of other sizes");
        if (a.step->n_past == 0 && t == 0) check_weights(a);
        const int32_t token = a.step->history[a.step->n_past + t];
        if (token < 0 || token >= (int32_t)FAKE_VOCAB || a.step->n_past + t >= FAKE_CTX) die("token or position out of range");
        ((uint32_t *)(void *)(a.state + a.state_at))[a.step->n_past + t] = (uint32_t)token;
    }
    if (FLOATS(0)[1] != 0) die("the counters were not zero initially");
}

/* Logits of the t-th token with logits. */
KERNEL(THREADS, 1) fake_head(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t wanted = a.step->n_logits, l = group_y();
    if (wanted > LOGITS_ROWS) die("the step has more logits than there is room for");
    if (a.first != (a.step->n_tokens > 1 || a.weight[1] == 1)) die("the first token of a tail launch is wrong");
    const uint32_t at = a.step->n_past + a.step->n_tokens - wanted + l;
    uint32_t h = 1;
    for (uint32_t t = at < 8 ? 0 : at - 8; t <= at; t++) h = mix(h, ((const uint32_t *)(const void *)(a.state + a.state_at))[t]);
    for (uint32_t v = group_x() * THREADS + thread_x(); v < FAKE_VOCAB; v += GROUPS * THREADS) {
        float x = (float)(mix(h, v) >> 8) * 0x1p-24f * 4;
        if ((v >= 'a' && v <= 'z') || v == ' ') x += 6;
        if (v >= 128 && v != 258) x -= 20;
        if (v == 257 && at > 200) x += 30;
        FLOATS(LOGITS_AT)[l * FAKE_VOCAB + v] = fake_spoiled(x, at, v);
    }
}

KERNEL(THREADS, 1) fake_sample(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    sample(a, FLOATS(LOGITS_AT) + (a.step->n_logits - 1) * FAKE_VOCAB, FAKE_VOCAB, FAKE_CTX, BUFFER(SCRATCH_AT),
           (uint32_t *)(void *)BUFFER(0), GROUPS, THREADS);
}

#else

#define forge_programs fake_cpu_programs
#define forge_n_programs fake_n_cpu_programs
#define forge_weights fake_cpu_weights
#define FAKE_EXTERNAL
#include "tests/cli/fake_program.c"
#undef forge_programs
#undef forge_n_programs
#undef forge_weights

#include "templates/gpu/sample_sizes.h"

#ifndef FAKE_GPU_ARCH
#define FAKE_GPU_ARCH "simt"
#endif
#ifndef FAKE_GPU_API
#define FAKE_GPU_API FORGE_GPU_HIP
#endif

#define INCLUDE_FILE(symbol, path) \
    __asm__(".section .rodata\n.balign 4096\n.globl " #symbol "\n" #symbol ":\n.incbin \"" path "\"\n.previous\n"); \
    extern const uint8_t symbol[]
INCLUDE_FILE(fake_module, FAKE_MODULE);
#ifdef FAKE_IMAGE
INCLUDE_FILE(fake_image, FAKE_IMAGE);
const uint8_t *const forge_weights = fake_image;
#else
const uint8_t *const forge_weights = NULL;
#endif

enum { LOGITS_AT = 4096, SCRATCH_AT = LOGITS_AT + LOGITS_ROWS * N_VOCAB * 4, THREADS = 64 };

static const struct forge_gpu_kernel kernels[] = {
    { "fake_append", THREADS, 0 }, { "fake_head", THREADS, 0 }, { "fake_sample", THREADS, SAMPLE_LDS_BYTES(N_VOCAB) },
};
static const struct forge_gpu_launch gpu_decode[] = {
    { .name = "append", .kernel = 0, .layer = 3, .grid_x = 1, .state = 64, .weight = { 7 } },
    { .name = "head", .kernel = 1, .layer = 0xffffffff, .grid_x = 3, .cluster = 3, .state = 64 },
};
static const struct forge_gpu_launch gpu_prefill[] = {
    { .name = "append", .kernel = 0, .layer = 3, .grid_x = 1, .grid_tokens = 1, .tokens_least = 1, .tokens_most = 3, .state = 64,
      .weight = { 7, 1, 3 } },
    { .name = "append", .kernel = 0, .layer = 3, .grid_x = 1, .grid_tokens = 1, .tokens_least = 4, .tokens_most = CHUNK, .state = 64,
      .weight = { 7, 4, CHUNK } },
    { .name = "head", .kernel = 1, .layer = 0xffffffff, .tail = FORGE_TAIL_LOGITS, .grid_x = 3, .grid_tokens = 1, .state = 64,
      .weight = { 0, 1 } },
};
static const struct forge_state gpu_states[1] = {
    { .kind = FORGE_STATE_KV, .offset = 64, .bytes = N_CTX * 4, .runs = 1, .rows = N_CTX, .row_bytes = 4, .back = UINT32_MAX } };

static const struct forge_gpu gpu = {
    .runtime = &forge_gpu_runtime, .api = FAKE_GPU_API, .arch = FAKE_GPU_ARCH, .code = fake_module, .wave = 32,
    .dependent_launch = FAKE_GPU_API == FORGE_GPU_CUDA, .graph = 1, .n_kernels = 3, .n_decode = 2, .n_prefill = 3,
    .kernels = kernels, .decode = gpu_decode, .prefill = gpu_prefill,
    .sample = { .name = "sample", .kernel = 2, .layer = 0xffffffff, .grid_x = 3 }, .logits_offset = LOGITS_AT, .logits_rows = LOGITS_ROWS,
    .zero_offset = 0, .zero_bytes = 64,
};
static const struct forge_program gpu_program = {
    .abi_version = FORGE_ABI_VERSION, .n_vocab = N_VOCAB, .n_ctx = N_CTX, .n_embd = 8, .n_layer = 4, .chunk = CHUNK, .max_logits = CHUNK,
        .gpu = &gpu,
    .arena_bytes = SCRATCH_AT + SAMPLE_SCRATCH_BYTES(N_VOCAB, 3), .state_bytes = 64 + N_CTX * 4, .n_states = 1, .states = gpu_states,
        .weights_bytes = FAKE_IMAGE_BYTES - FAKE_OFFSET,
    .weights_offset = FAKE_OFFSET, .read_bytes = 1 << 20, .state_bytes_per_token = 4, .n_parameters = 1000000,
        .model_name = "fake \"model\"", .architecture = "fake",
    .formats = "F32 1", .model_hash = "0123456789abcdef0123456789abcdef", .weights_hash = "fedcba9876543210fedcba9876543210",
        .target = FAKE_GPU_ARCH,
    .options = "--fuse layer", .compiler = "by hand", .vocab = (const uint8_t *)&vocab, .sampling = { -1, -1, -1, -1, -1, -1 },
};
const struct forge_program *const forge_programs[] = { &gpu_program,
#ifndef FAKE_GPU_ONLY
    &fake
#endif
};
const uint32_t forge_n_programs = sizeof forge_programs / sizeof *forge_programs;
#endif
