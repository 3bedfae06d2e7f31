/* test_counters.c -- do decode kernels read what the build report says they read?
 *
 *   test_counters MODEL.gguf TARGET
 *
 * Decodes a few tokens in the simulator and compares, for each kernel with weights, the bytes of 64-byte lines that its launches read at least once with the
 * weight bytes of the report: at most 5 % apart, which leaves room for the activations.  What lanes load is more where rows are narrow: lanes without
 * columns of their own load what their neighbours do. */
#include "compiler/emit_gpu_kernel.h"
#include "compiler/program.h"
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
static bool check_kernel(const struct gpu_kernels *k, uint32_t kernel, const cJSON *kernels)
{
    uint64_t weights = 0;
    uint32_t launches = 0;
    for (uint32_t i = 0; i < k->n_decode; i++) {
        if (k->decode[i].kernel != kernel) continue;
        launches++;
        weights += k->decode[i].weight_bytes;
    }
    if (weights == 0) return true;
    const cJSON *row = row_of(kernels, k->kernels[kernel].name);
    const double unique = number(row, "unique_bytes") / TOKENS, loaded = number(row, "loaded_bytes") / TOKENS, planned = (double)weights, more = unique / planned - 1;
    const bool ok = number(row, "launches") == (double)launches * TOKENS && more >= 0 && more <= 0.05 && loaded >= planned;
    printf("%-20s %3u launches, planned %9.0f bytes, read %9.0f (%+.1f %%), loaded by lanes %10.0f%s\n", k->kernels[kernel].name, launches, planned, unique, 100 * more, loaded,
           ok ? "" : "  FAILED");
    return ok;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: test_counters MODEL.gguf TARGET\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    cleanup_install_signals();
    const struct build_options options = { .model_path = argv[1], .targets = { argv[2] }, .n_targets = 1, .fuse = FUSE_LAYER, .plan = { .n_ctx = 64, .kv = KV_TYPE_F16 }, .quiet = true };
    const struct model *m = model_describe(a, gguf_open(a, argv[1], false), NULL);
    const struct profile *p = profile_load(a, argv[2], NULL);
    const struct gpu_kernels *k = emit_gpu_kernels(a, plan_make(a, fuse(a, graph_build(a, m), FUSE_LAYER), p, &options.plan));
    struct workplace *w = workplace_open(a);
    struct runner runner = runner_simulate(a, p);
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
        for (uint32_t j = 0; j < k->n_decode; j++) decodes |= k->decode[j].kernel == i;
        if (decodes) ok &= check_kernel(k, i, kernels);
    }
    cJSON_Delete(root);
    workplace_close(w);
    return ok ? 0 : 1;
}
