/* test_channels.c RUN_KERNEL CHANNELS.co -- the imbalance of memory channels for kernels with known loads (channels.c).  Compares the
 * resulting least times with reports for gfx1151: products with rows at distances of a multiple of 2,048 bytes, and the same with rows 128
 * bytes longer or read in another order (ROCm/vllm pull requests 978, f16, and 989, int4). */
#include "compiler/build/program.h"
#include "compiler/build/spawn.h"
#include "compiler/cli/least_times.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 20, THREADS = 512 };

struct rows { uint32_t rows, bytes, stride, piece; };

static const char *command_of_device, *code;

static struct kernel_times run(struct arena *a, struct workplace *w, const char *kernel, struct rows x)
{
    const struct target *p = target_load(a, "gfx1151", NULL);
    const char *path = workplace_path(a, w, "counters");
    const char *const command[] = { "env", arena_printf(a, "FORGE_GFXSIM_STATS=%s", path),
                                    arena_printf(a, "FORGE_GFXSIM_CHANNELS=%s",
                                                 runner_simulate(a, &(struct build_options){ 0 }, p).channels),
                                    command_of_device,
                                    "--chip", "gfx1151", code, kernel, arena_printf(a, "%d", GROUPS), "1",
                                    arena_printf(a, "%d", THREADS), "0", arena_printf(a, "buf:%llu:zero", 1ull * x.rows * x.stride),
                                    arena_printf(a, "buf:%d", GROUPS * THREADS * 4), arena_printf(a, "u64:%u", x.stride),
                                    arena_printf(a, "u32:%u", x.rows), arena_printf(a, "u32:%u", x.bytes),
                                    arena_printf(a, "u32:%u", x.piece), arena_printf(a, "u32:%d", GROUPS), NULL };
    struct spawn_job job = { .argv = command };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status) die("%s: exit code %d: %s", kernel, job.status, job.messages);
    struct counters *c = arena_new(a, struct counters);
    *c = counters_read(a, path);
    const struct step_times t = least_times(a, p, c, 1);
    if (t.missing || t.n_kernels != 1) die("%s: no least times: %s", kernel, t.missing ? t.missing : "not one kernel");
    return t.kernels[0];
}

static double imbalance(const struct kernel_times *t) { return channel_imbalance(t->counted->channel_bytes, t->counted->channel_busiest); }

/* 320 waves run in step, so that rows at distances of a multiple of 4,096 plus 128 bytes use all channels. */
static bool check_patterns(struct arena *a, struct workplace *w)
{
    static const struct { const char *kernel; struct rows x; double least, most; } cases[] = {
        { "rows", { 2560, 2048, 8192, 16 }, 16, 16 },   { "rows", { 2560, 2048, 4096, 16 }, 16, 16 },
        { "rows", { 2560, 2048, 2048, 16 }, 8, 8 },     { "rows", { 2560, 1024, 3072, 16 }, 4, 4 },
        { "rows", { 2560, 1024, 1024, 16 }, 4, 4 },     { "rows", { 2560, 512, 1536, 16 }, 2, 2 },
        { "rows", { 2560, 512, 768, 16 }, 1, 1 },       { "rows", { 2560, 2048, 4096 + 128, 16 }, 1, 1.01 },
        { "rows", { 2560, 2048, 2048 + 32, 16 }, 1, 1.1 },   { "rows", { 2560, 2048, 4096, 64 }, 4, 4 },
        { "lanes", { 10240, 256, 32768, 0 }, 16, 16 },
    };
    bool ok = true;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct kernel_times t = run(a, w, cases[i].kernel, cases[i].x);
        const double x = imbalance(&t);
        const bool holds = x >= cases[i].least - 1e-9 && x <= cases[i].most + 1e-9;
        printf("%-5s %5u x %5u bytes, %5u apart, a lane %2u: %5.2f%s\n", cases[i].kernel, cases[i].x.rows, cases[i].x.bytes,
               cases[i].x.stride, cases[i].x.piece, x, holds ? "" : "  FAILED");
        ok &= holds;
    }
    return ok;
}

/* The reported GiB/s, compared with the least times of both ways to read the same bytes. */
static bool check_reported(struct arena *a, struct workplace *w)
{
    static const struct { const char *name; uint32_t rows, bytes; struct rows better; double before, after; } cases[] = {
        { "f16, another order", 2560, 4096, { 2560, 4096, 4096, 64 }, 131, 211 },
        { "f16, another order", 2560, 8192, { 2560, 8192, 8192, 64 }, 152, 207 },
        { "f16, another order", 2560, 16384, { 2560, 16384, 16384, 64 }, 165, 211 },
        { "int4, 128 bytes more", 2048, 2048, { 2048, 2048, 2176, 16 }, 129.1, 149.4 },
        { "int4, 128 bytes more", 4096, 2048, { 4096, 2048, 2176, 16 }, 153.1, 170.3 },
        { "int4, 128 bytes more", 6144, 2048, { 6144, 2048, 2176, 16 }, 154.4, 183.3 },
        { "int4, 128 bytes more", 11008, 2048, { 11008, 2048, 2176, 16 }, 177.6, 182.3 },
        { "int4, 128 bytes more", 28672, 2048, { 28672, 2048, 2176, 16 }, 195.1, 195.7 },
    };
    double off = 0, worst = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct kernel_times before = run(a, w, "rows", (struct rows){ cases[i].rows, cases[i].bytes, cases[i].bytes, 16 });
        const struct kernel_times after = run(a, w, "rows", cases[i].better);
        const double model = before.us[PIPE_MEMORY] / after.us[PIPE_MEMORY], reported = cases[i].after / cases[i].before;
        printf("%-20s %5u x %5u bytes: imbalance %5.2f, then %4.2f; faster by %.2f, reported %.2f\n", cases[i].name, cases[i].rows,
               cases[i].bytes, imbalance(&before), imbalance(&after), model, reported);
        off += fabs(log(model / reported)) / COUNT_OF(cases);
        worst = fmax(worst, fabs(log(model / reported)));
    }
    printf("off by %.0f %% in the mean, at most %.0f %%\n", 100 * expm1(off), 100 * expm1(worst));
    return off < log(1.15) && worst < log(1.3);
}

int main(int argc, char **argv)
{
    cleanup_install_signals();
    if (argc != 3) {
        fputs("usage: test_channels RUN_KERNEL CHANNELS.co\n", stderr);
        return 2;
    }
    command_of_device = argv[1], code = argv[2];
    struct arena *a = arena_create();
    struct workplace *w = workplace_open(a);
    bool ok = check_patterns(a, w);
    ok &= check_reported(a, w);
    workplace_close(w);
    return ok ? 0 : 1;
}
