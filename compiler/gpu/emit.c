/* emit.c -- plan for a GPU -> two sources: the kernels, and the C that tells the runtime of them.  gpu/kernels.c writes the kernels. */
#include "emit.h"
#include "compiler/source/paste.h"
#include "compiler/source/text.h"
#include "compiler/base/family.h"
#include "kernels.h"
#include <string.h>

static void put_parameters(struct text *t, const struct plan *p)
{
    const struct profile *profile = p->profile;
    if (profile->gpu.gemv_depth) text_printf(t, "#define DEPTH %u\n", profile->gpu.gemv_depth);
    text_printf(t, "#define KV %s\n", kv_type_name[p->options.kv]);
    text_printf(t, "#define GEMM_STAGES %u\n#define GEMM_UNIT_STEPS %u\n\n", gemm_stages(profile), profile->gpu.gemm_unit_steps);
}

/* The formats of the matrices, and what each is read by. */
static void put_formats(struct paster *paster, const struct plan *p)
{
    const struct gpu_instances k = gpu_instances(paster->arena, p);
    struct arena *a = paster->arena;
    struct text *t = paster->out;
    bool used[QUANT_IDS] = { false };
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (!p->model->weights[i].is_vector && p->weight_offset[i] != UINT64_MAX) used[p->model->weights[i].tensor->quant->id] = true;
    for (uint32_t id = 0; id < COUNT_OF(used); id++) {
        if (!used[id]) continue;
        const char *format = quant_find(id)->file;
        emit_paste(paster, arena_printf(a, "templates/gpu/formats/%s.h", format), true);
        text_printf(t, "#define FORMAT %s\n", format);
        emit_paste(paster, "templates/gpu/embed_tmpl.c", false);
        for (uint32_t i = 0; i < k.n_gemms; i++) {
            if (strcmp(k.gemms[i].format, format)) continue;
            text_printf(t, "#define GEMM_TOKENS %u\n#define GEMM_ROWS %u\n#define GEMM_THREADS %u\n", k.gemms[i].tokens, k.gemms[i].rows, k.gemms[i].threads);
            emit_paste(paster, "templates/gpu/gemm_tmpl.c", false);
        }
        for (uint32_t i = 0; i < k.n_gemvs; i++) {
            if (strcmp(k.gemvs[i].format, format)) continue;
            text_printf(t, "#define ROWS %u\n#define LANES %u\n", k.gemvs[i].rows, k.gemvs[i].lanes);
            emit_paste(paster, "templates/gpu/gemv_tmpl.c", false);
        }
        text_puts(t, "#undef FORMAT\n\n");
    }
}

struct bytes emit_gpu(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    static const char *const always[] = { "launch.h", "acts.h", "stage.h", "elementwise.h", "kv.h", "rope.h", "attention_decode_tmpl.c", "attention_prefill_tmpl.c", "sample_tmpl.c" };
    struct text t = { .arena = a };
    emit_banner(&t, p, o);
    text_printf(&t, "/* weights: %s */\n", o->weights_hash);
    put_parameters(&t, p);
    struct paster paster = { .arena = a, .out = &t, .templates = o->templates, .machine = family_file(a, p->profile) };
    for (uint32_t i = 0; i < COUNT_OF(always); i++) emit_paste(&paster, arena_printf(a, "templates/gpu/%s", always[i]), true);
    if (p->fused->level == FUSE_NONE) emit_paste(&paster, "templates/gpu/attention_unfused.h", true);
    put_formats(&paster, p);
    if (strcmp(p->profile->api, "host") == 0) text_puts(&t, "const uint32_t forge_simt_wave = WAVE;           /* for tests/lanes/libsimt.c */\n\n");
    emit_gpu_kernels(a, &t, p);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* The rows of struct forge_gpu_launch. */
static void put_launch(struct text *t, const struct kernel_list *list, const struct launch *l)
{
    const struct kernel *k = &list->kernels[l->kernel];
    text_printf(t, "{ \"%s\", %u, ", l->name, l->kernel);
    if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
    else text_printf(t, "%u", l->layer);
    text_printf(t, ", %u, %u, %u, %u, %u, %u, %u, %llu, {", l->tail, k->grid_x, k->grid_tokens, k->tokens_first, k->param[PARAM_LEAST], k->param[PARAM_MOST],
                k->param[PARAM_CLUSTER], (unsigned long long)l->state);
    for (uint32_t i = 0; i < l->n_weights; i++) text_printf(t, "%s%llu", i ? ", " : " ", (unsigned long long)l->weights[i]);
    text_printf(t, "%s } }", l->n_weights ? "" : " 0");
}

static void put_launches(struct text *t, const char *table, const struct kernel_list *list, const struct launch *launches, uint32_t n)
{
    text_printf(t, "static const struct forge_gpu_launch %s[%u] = {\n", table, n);
    for (uint32_t i = 0; i < n; i++) {
        text_puts(t, "    ");
        put_launch(t, list, &launches[i]);
        text_puts(t, ",\n");
    }
    text_puts(t, "};\n\n");
}

struct bytes emit_gpu_program(struct arena *a, const struct plan *p, const struct emit_options *o, uint64_t code_bytes)
{
    typedef unsigned long long ull;
    const struct kernel_list *k = p->kernels;
    const struct profile *profile = p->profile;
    const struct gpu_plan *gpu = p->gpu;
    struct text t = { .arena = a };
    struct paster paster = { .arena = a, .out = &t };
    emit_paste(&paster, "runtime/model/abi.h", true);
    text_printf(&t, "static const struct forge_gpu_kernel kernels[%u] = {\n", k->n_kernels);
    for (uint32_t i = 0; i < k->n_kernels; i++) text_printf(&t, "    { \"%s\", %u, %u },\n", k->kernels[i].name, k->kernels[i].param[PARAM_THREADS], k->kernels[i].lds_bytes);
    text_puts(&t, "};\n");
    put_launches(&t, "decode_launches", k, k->decode, k->n_decode);
    put_launches(&t, "prefill_launches", k, k->prefill, k->n_prefill);
    text_printf(&t, "extern const uint8_t %s[];\nstatic const struct forge_gpu gpu = {\n", emit_code_symbol(a, profile));
    text_printf(&t, "    .runtime = &forge_gpu_runtime, .api = %s, .arch = \"%s\", .code = %s, .code_bytes = %lluu, .wave = %u, .dependent_launch = %u, .graph = %u,\n",
                strcmp(profile->api, "cuda") == 0 ? "FORGE_GPU_CUDA" : "FORGE_GPU_HIP", profile->arch, emit_code_symbol(a, profile), (ull)code_bytes, profile->wave, profile->dependent_launch, profile->graph);
    text_printf(&t, "    .n_kernels = %u, .n_decode = %u, .n_prefill = %u, .kernels = kernels, .decode = decode_launches, .prefill = prefill_launches,\n    .sample = ",
                k->n_kernels, k->n_decode, k->n_prefill);
    put_launch(&t, k, &k->sample);
    text_printf(&t, ",\n    .logits_offset = %lluu, .zero_offset = %lluu, .zero_bytes = %lluu,\n};\n", (ull)gpu->logits, (ull)gpu->zero, (ull)gpu->zero_bytes);
    emit_program(a, &t, p, o, ".gpu = &gpu,");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
