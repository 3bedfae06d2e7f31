/* streams.c -- how fast threads read BF16 weights from memory: by plain loads, and by decode's kernel of templates/cpu, as compiled here.
 *   streams [THREADS] [MIB]                     1 thread, 1024 MiB
 * cc: clang.  -DFROM_MEMORY=1 asks for lines ahead, -DGEMV_GROUPS=N reads N groups of rows side by side:
 *   clang-19 -O2 -march=native -ffp-contract=off -D_GNU_SOURCE -iquote . -DFORGE_MATRIX_DOT -DFROM_MEMORY=1 -DGEMV_GROUPS=4 \
 *       tests/bench/streams.c runtime/device/threads.c runtime/run/status.c -lpthread -o streams */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/device/threads.h"
#include "templates/cpu/formats/bf16.h"
#define FORMAT bf16
#include "templates/cpu/gemv_tmpl.c"
#include "templates/cpu/gemm_pairs_tmpl.c"

enum { COLS = 2048, UNIT = 64, ROUNDS = 5 };     /* rows of a call, as an emitted program has it */

struct job { const uint8_t *weights; const uint8_t *x; uint32_t units; int loads; float sink[FORGE_MAX_THREADS * 32]; };

static uint64_t unit_bytes(void) { return UNIT / 16 * group_bytes_bf16(COLS); }

static float by_loads(const uint8_t *p, uint64_t n)
{
    vf sum[4] = { vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0) };
    for (uint64_t i = 0; i < n; i += 256)
        UNROLL for (uint32_t k = 0; k < 4; k++) sum[k] = vf_add(sum[k], vf_load((const float *)(const void *)(p + i + 64 * k)));
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

static void read_share(void *context, uint32_t thread, uint32_t n_threads)
{
    struct job *j = context;
    _Alignas(64) float y[UNIT];
    for (uint64_t u = (uint64_t)j->units * thread / n_threads, end = (uint64_t)j->units * (thread + 1) / n_threads; u < end; u++) {
        if (j->loads) y[0] = by_loads(j->weights + u * unit_bytes(), unit_bytes());
        else gemv_pairs_bf16(y, j->weights, j->x, (uint32_t)u * UNIT, UNIT, COLS);
        j->sink[32 * thread] += y[0];
    }
}

static double best(struct forge_pool *pool, struct job *j)
{
    double gb_s = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec t[2];
        clock_gettime(CLOCK_MONOTONIC, &t[0]);
        pool_run(pool, read_share, j);
        clock_gettime(CLOCK_MONOTONIC, &t[1]);
        const double s = (double)(t[1].tv_sec - t[0].tv_sec) + 1e-9 * (double)(t[1].tv_nsec - t[0].tv_nsec);
        const double now = (double)(j->units * unit_bytes()) * 1e-9 / s;
        if (i > 0 && now > gb_s) gb_s = now;         /* the first warms up */
    }
    return gb_s;
}

int main(int argc, char **argv)
{
    const uint32_t n_threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    const uint64_t mib = argc > 2 ? (uint64_t)atoi(argv[2]) : 1024;
    static struct job j;
    struct forge_pool *pool;
    struct forge_error error;
    if (pool_open(&pool, n_threads, &error) != FORGE_OK) { fprintf(stderr, "streams: %s\n", error.text); return 1; }
    j.units = (uint32_t)((mib << 20) / unit_bytes());
    if (j.units < n_threads) { fprintf(stderr, "streams: %llu MiB are too few\n", (unsigned long long)mib); return 2; }
    const size_t bytes = (size_t)(j.units * unit_bytes()) + GEMV_AHEAD;
    uint8_t *weights = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static _Alignas(64) uint8_t x[XB_STRIDE(COLS)];
    if (weights == MAP_FAILED) { perror("streams"); return 1; }
    madvise(weights, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; i += 2) memcpy(weights + i, &(uint16_t){ (uint16_t)(0x3c00 + i / 2 % 251) }, 2);
    for (size_t i = 0; i < sizeof x; i += 2) memcpy(x + i, &(uint16_t){ (uint16_t)(0x3c00 + i / 2 % 127) }, 2);
    j.weights = weights, j.x = x;
    j.loads = 1;
    const double loads = best(pool, &j);
    j.loads = 0;
    const double kernel = best(pool, &j);
    printf("%u threads: plain loads %.1f GB/s, %d groups side by side, %s: %.1f GB/s, %.0f %%\n", n_threads, loads, GEMV_GROUPS,
           FROM_MEMORY ? "asked for ahead" : "as they come", kernel, 100 * kernel / loads);
    pool_close(pool);
    return 0;
}
