/* emit.c -- plan for a CPU -> one C source: the banner, the templates it needs, one short function per distinct kernel,
 * the launch tables, the program.  kernels.c writes the functions. */
#include "emit.h"
#include "compiler/source/paste.h"
#include "compiler/source/text.h"
#include "kernels.h"
#include <ctype.h>

static void emit_launch(struct text *t, const struct kernel *k, const struct launch *l)
{
    text_printf(t, "    { %s, \"%s\", ", k->name, l->name);
    if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
    else text_printf(t, "%u", l->layer);
    text_printf(t, ", %u, %u, %u, %llu, {", l->tail, k->unless_divides, k->joins_divides, (unsigned long long)l->state);
    for (uint32_t i = 0; i < l->n_weights; i++) text_printf(t, "%s%llu", i ? ", " : " ", (unsigned long long)l->weights[i]);
    text_puts(t, l->n_weights ? " } },\n" : " 0 } },\n");
}

static void emit_launches(struct text *t, const struct kernel_list *k, const char *table, const struct launch *launches, uint32_t n)
{
    text_printf(t, "static const struct forge_launch %s[%u] = {\n", table, n);
    for (uint32_t i = 0; i < n; i++) emit_launch(t, &k->kernels[launches[i].kernel], &launches[i]);
    text_puts(t, "};\n\n");
}

struct bytes emit_cpu(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    struct text t = { .arena = a };
    const struct profile *profile = p->profile;
    emit_banner(&t, p, o);
    text_puts(&t, "#define FORGE_SIMD_");
    for (const char *c = profile->simd; *c; c++) text_printf(&t, "%c", toupper((unsigned char)*c));
    text_printf(&t, "\n#define GEMM_TOKENS %u\n#define GEMM_GROUPS %u\n", profile->tile.gemm_tokens, profile->tile.gemm_groups);
    text_printf(&t, "#define ATTENTION_BLOCK %u\n#define KV %s\n", profile->tile.attention_block, kv_type_name[p->options.kv]);
    text_printf(&t, "#define SCRATCH_OFFSET %lluu\n", (unsigned long long)p->scratch_offset);
    text_printf(&t, "#define SCRATCH_STRIDE %lluu\n\n", (unsigned long long)p->scratch_stride);

    struct paster paster = { .arena = a, .out = &t, .templates = o->templates };
    static const char *const always[] = { "launch.h",         "norm_tmpl.c", "rope_tmpl.c",       "kv_tmpl.c",
                                          "attention_tmpl.c", "glu_tmpl.c",  "elementwise_tmpl.c" };
    emit_paste(&paster, "runtime/model/abi.h", true);
    for (uint32_t i = 0; i < COUNT_OF(always); i++) emit_paste(&paster, arena_printf(a, "templates/cpu/%s", always[i]), true);
    bool used[QUANT_IDS] = { false };
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (!p->model->weights[i].is_vector) used[p->model->weights[i].tensor->quant->id] = true;
    for (uint32_t id = 0; id < COUNT_OF(used); id++) {
        if (!used[id]) continue;
        const char *format = quant_find(id)->file;
        text_printf(&t, "#define FORMAT %s\n", format);
        emit_paste(&paster, arena_printf(a, "templates/cpu/formats/%s.h", format), true);
        emit_paste(&paster, "templates/cpu/gemv_tmpl.c", false);
        emit_paste(&paster, "templates/cpu/gemm_tmpl.c", false);
        text_puts(&t, "#undef FORMAT\n\n");
    }
    const struct kernel_list *k = p->kernels;
    emit_cpu_kernels(a, &t, p);
    emit_launches(&t, k, "decode_launches", k->decode, k->n_decode);
    emit_launches(&t, k, "prefill_launches", k->prefill, k->n_prefill);
    const char *counts = arena_printf(a, ".n_decode = %u, .n_prefill = %u,", k->n_decode, k->n_prefill);
    emit_program(a, &t, p, o, arena_printf(a, "%s .decode = decode_launches, .prefill = prefill_launches,", counts));
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
