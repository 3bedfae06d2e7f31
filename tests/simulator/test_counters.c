/* test_counters.c -- tests whether decode kernels read as many bytes as the build report says.
 *
 *   test_counters MODEL.gguf TARGET
 *   test_counters --planted RUN_KERNEL COUNTED.co CHIP
 *
 * The second form compares the instructions that counted.c plants with the counters, minus the counters of its kernel without them.
 *
 * The first form decodes a few tokens in the simulator.  For each kernel with weights it compares the bytes of 64-byte lines that its
 * launches read at least once with the weight bytes of the report: they may exceed these by 5 %, which leaves room for the activations.  In
 * narrow rows lanes load more bytes: lanes without their own columns load the same as their neighbours. */
#include "compiler/cli/counters.h"
#include "compiler/plan/kernel.h"
#include "compiler/build/program.h"
#include "compiler/build/spawn.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define TOKENS 3u

static double number(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(item)) die("the counters have no %s", key);
    return item->valuedouble;
}

static const cJSON *row_of(const cJSON *kernels, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, kernels) if (strcmp(cJSON_GetObjectItemCaseSensitive(row, "name")->valuestring, name) == 0) return row;
    die("kernel %s did not run", name);
}

/* True when counted and planned bytes of a kernel agree. */
static bool check_kernel(const struct kernel_list *k, uint32_t kernel, const cJSON *kernels)
{
    uint64_t weights = 0;
    uint32_t launches = 0;
    for (uint32_t i = 0; i < k->of[STEPS_DECODE].n; i++) {
        if (k->of[STEPS_DECODE].list[i].kernel != kernel) continue;
        launches++;
        weights += k->kernels[kernel].weight_bytes;
    }
    /* other kernels read about as many bytes of values and states as of weights */
    if (!k->kernels[kernel].operations || k->kernels[kernel].state_bytes) return true;
    const cJSON *row = row_of(kernels, k->kernels[kernel].name);
    const double unique = number(row, "unique_bytes") / TOKENS, loaded = number(row, "loaded_bytes") / TOKENS, planned = (double)weights,
                 more = unique / planned - 1;
    const bool ok = number(row, "launches") == (double)launches * TOKENS && more >= 0 && more <= 0.05 && loaded >= planned;
    printf("%-20s %3u launches, planned %9.0f bytes, read %9.0f (%+.1f %%), loaded by lanes %10.0f%s\n", k->kernels[kernel].name, launches,
           planned, unique, 100 * more, loaded, ok ? "" : "  FAILED");
    return ok;
}

/* ---- planted ---- */

enum { GROUPS = 3, THREADS = 128 };

static struct kernel_counters count_kernel(struct arena *a, struct workplace *w, char **argv, const char *name)
{
    const char *path = workplace_path(a, w, name);
    const char *const command[] = { "env", arena_printf(a, "FORGE_GFXSIM_STATS=%s", path), "FORGE_GFXSIM_TRACE=0", argv[2], "--chip",
                                    argv[4], argv[3], name, arena_printf(a, "%d", GROUPS), "1", arena_printf(a, "%d", THREADS), "4096",
                                    arena_printf(a, "buf:%d", GROUPS * THREADS * 4), NULL };
    struct spawn_job job = { .argv = command };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status) die("%s %s: exit code %d: %s", argv[3], name, job.status, job.messages);
    const struct counters c = counters_read(a, path);
    if (c.n_kernels != 1 || strcmp(c.kernels[0].name, name)) die("%s: not one kernel %s", path, name);
    return c.kernels[0];
}

static int check_planted(char **argv)
{
    struct arena *a = arena_create();
    struct workplace *w = workplace_open(a);
    const struct kernel_counters with = count_kernel(a, w, argv, "planted"), without = count_kernel(a, w, argv, "plain");
    const bool cdna = with.wave == 64;
    const double lanes = with.wave, groups = GROUPS;
    /* in order: per wave; lds_cycles: per 32 lanes, 128 bytes */
    const struct { const char *name; double with, without, of_a_wave; } rows[] = {
#define ROW(member, of_a_wave) { #member, with.member, without.member, of_a_wave }
        ROW(nops, 7 * 4 + (cdna ? 5 : 0) + 3 * 2 + 1), ROW(multiply, 6 + 3), ROW(f64, 4), ROW(transcendental, 9),
        ROW(acc_moves, cdna ? 10 + 3 : 0), ROW(matrix, 14), ROW(matrix_flop[MATRIX_F16], 11 * 8192.0),
        ROW(matrix_flop[MATRIX_I8], 3 * (cdna ? 32768.0 : 8192.0)), ROW(matrix_flop[MATRIX_F8], 0), ROW(matrix_flop[MATRIX_F32], 0),
        ROW(matrix_flop[MATRIX_I4], 0), ROW(lds_accesses, 3 + 2 + 1 + 5), ROW(lds_moves, 4),
        ROW(lds_cycles, (3 + 2 * 2 + 4 + 5 + 4) * lanes / 32), ROW(lds_conflicts, 5 * lanes / 32), ROW(scratch, 2), ROW(barriers, 1),
#undef ROW
    };
    bool ok = with.launches == 1 && with.groups == groups && with.n_grids == 1 && with.grids[0].groups == groups &&
              with.grids[0].launches == 1 && !with.sampled && with.group_waves == THREADS / with.wave && with.pair == !cdna &&
              with.registers >= 24 && with.lds_bytes == 4096 && with.scratch_bytes > 0 && with.stored_bytes == 4 * GROUPS * THREADS;
    if (!ok) printf("shape of the launch: FAILED\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const double counted = (rows[i].with - rows[i].without) / with.waves;
        printf("%-26s %8.0f a wave%s\n", rows[i].name, counted, counted == rows[i].of_a_wave ? "" : "  FAILED");
        if (counted != rows[i].of_a_wave) printf("%-26s %8.0f planted\n", "", rows[i].of_a_wave);
        ok &= counted == rows[i].of_a_wave;
    }
    const bool loop = with.loop.instructions - without.loop.instructions == 5 && with.loop.nops - without.loop.nops == 1 &&
                      with.loop.acc_moves - without.loop.acc_moves == (cdna ? 1 : 0);
    printf("%-26s %8.0f instructions, %.0f nops, %.0f accumulator moves%s\n", "the planted loop",
           with.loop.instructions - without.loop.instructions, with.loop.nops - without.loop.nops,
           with.loop.acc_moves - without.loop.acc_moves, loop ? "" : "  FAILED");
    const double waits = (with.waits - without.waits) / with.waves;
    printf("%-26s %8.0f a wave%s\n", "waits", waits, waits >= 10 ? "" : "  FAILED");       /* clang adds some */
    workplace_close(w);
    return ok && loop && waits >= 10 ? 0 : 1;
}

int main(int argc, char **argv)
{
    cleanup_install_signals();
    if (argc == 5 && strcmp(argv[1], "--planted") == 0) return check_planted(argv);
    if (argc != 3) {
        fputs("usage: test_counters MODEL.gguf TARGET, or --planted RUN_KERNEL COUNTED.co CHIP\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    const struct build_options options = { .model_path = argv[1], .targets = { argv[2] }, .n_targets = 1, .fuse = FUSE_LAYER,
                                           .plan = { .n_ctx = 64, .kv = KV_TYPE_F16 }, .quiet = true };
    const struct model *m = model_describe(a, gguf_open(a, argv[1], false), NULL);
    const struct target *p = target_load(a, argv[2], NULL);
    const struct kernel_list *k = plan_make(a, graph_build(a, m), FUSE_LAYER, p, &options.plan)->kernels;
    struct workplace *w = workplace_open(a);
    struct runner runner = runner_simulate(a, &(struct build_options){ 0 }, p);
    runner.counters = workplace_path(a, w, "counters");
    static const char *const through_decode[] = { "-ub", "0", NULL };
    const char *program = program_build(a, w, &options, "program");
    program_logits(a, &runner, program, tokens_random(a, TOKENS, m->n_vocab, 1), TOKENS, m->n_vocab, through_decode);
    const struct bytes text = file_read(a, runner.counters);
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.size);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(root, "kernels");
    bool ok = cJSON_IsArray(kernels);
    for (uint32_t i = 0; ok && i < k->n_kernels; i++) {
        bool decodes = false;
        for (uint32_t j = 0; j < k->of[STEPS_DECODE].n; j++) decodes |= k->of[STEPS_DECODE].list[j].kernel == i;
        if (decodes) ok &= check_kernel(k, i, kernels);
    }
    cJSON_Delete(root);
    workplace_close(w);
    return ok ? 0 : 1;
}
