/* emit.c -- plan for a CPU -> one C source: banner, required templates, a short function for each kernel, launch tables, program.
 * kernels.c writes the functions. */
#include "emit.h"
#include "compiler/source/about.h"
#include "compiler/source/buffers.h"
#include "compiler/source/document.h"
#include "compiler/source/text.h"
#include "choose.h"
#include "kernels.h"
#include <ctype.h>

/* A range of decode's launches: each and n_each of struct forge_launch. */
struct each { uint32_t first, n; };

/* The launches of decode that replace launch l of prefill or columns in a step of several sequences: those of the same group, if the result
 * depends on the sequence of a token and not only on the place where its rows are stored. n 0: l is not replaced. */
static struct each each_of(const struct kernel_list *list, const struct launch *l)
{
    const enum kernel_template template = list->kernels[l->kernel].template;
    struct each each = { 0, 0 };
    if (template != TEMPLATE_attention && template != TEMPLATE_conv && template != TEMPLATE_recur) return each;
    const struct launches *decode = &list->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n; i++) if (decode->list[i].group == l->group && each.n++ == 0) each.first = i;
    return each;
}

static void emit_launch(struct text *t, const struct kernel *k, const struct launch *l, struct each each)
{
    text_printf(t, "    { %s, \"%s\", ", k->name, l->name);
    if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
    else text_printf(t, "%u", l->layer);
    text_printf(t, ", %u, %u, %u, %u, %u, %u, %llu, {", l->tail, k->unless_divides, k->from_positions, k->joins_divides, each.first, each.n,
                (unsigned long long)l->state);
    for (uint32_t i = 0; i < l->n_bindings; i++) text_printf(t, "%s%llu", i ? ", " : " ", (unsigned long long)l->bindings[i].offset);
    text_puts(t, l->n_bindings ? " }, " : " 0 }, ");
    emit_cost(t, k);
    text_puts(t, " },\n");
}

static void emit_launches(struct text *t, const struct kernel_list *k, enum kernel_steps steps)
{
    const struct launches all = k->of[steps];
    text_printf(t, "static const struct forge_launch %s_launches[%u] = {\n", kernel_steps_name[steps], all.n);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct each each = steps != STEPS_DECODE ? each_of(k, &all.list[i]) : (struct each){ 0, 0 };
        emit_launch(t, &k->kernels[all.list[i].kernel], &all.list[i], each);
    }
    text_puts(t, "};\n\n");
}

/* "FORGE_SIMD_AVX2" */
static const char *simd_macro(struct arena *a, const struct simd *s)
{
    char *name = arena_printf(a, "FORGE_SIMD_%s", s->name);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    return name;
}

/* "FORGE_MATRIX_TILES" */
static const char *matrix_macro(struct arena *a, enum matrix_unit unit)
{
    char *name = arena_printf(a, "FORGE_MATRIX_%s", matrix_unit_name[unit]);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    return name;
}

/* Begins the document with the macros on which templates depend; formats are not among them. */
static void put_parameters(struct arena *a, struct document *d, const struct plan *p)
{
    const struct target *target = p->target;
    struct text t = { .arena = a };
    text_printf(&t, "#define %s\n", simd_macro(a, target->simd));
    if (target->matrix_unit) text_printf(&t, "#define %s\n", matrix_macro(a, target->matrix_unit));
    text_printf(&t, "#define GEMM_TOKENS %u\n#define GEMM_GROUPS %u\n", target->tile.gemm_tokens, target->tile.gemm_groups);
    if (streams_from_memory(p)) text_puts(&t, "#define FROM_MEMORY 1\n");
    text_printf(&t, "#define ATTENTION_BLOCK %u\n#define KV %s\n", target->tile.attention_block, kv_type_name[p->options.kv]);
    text_printf(&t, "#define SCRATCH_OFFSET %lluu\n", (unsigned long long)p->scratch_offset);
    text_printf(&t, "#define SCRATCH_STRIDE %lluu\n", (unsigned long long)p->scratch_stride);
    for (uint32_t i = 0; i < SIMD_COUNT; i++) document_known(d, simd_macro(a, &simd_table[i]), NULL);
    for (uint32_t i = 1; i < MATRIX_COUNT; i++) document_known(d, matrix_macro(a, i), NULL);
    document_begin(d, text_str(&t));
}

/* Adds the formats of the matrices and the products that read them. */
static void use_formats(struct arena *a, struct document *d, const struct plan *p)
{
    bool used[QUANT_IDS] = { false };
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (p->weight_form[i] == WEIGHT_MATRIX) used[p->model->weights[i].tensor->quant->id] = true;
    for (uint32_t id = 0; id < COUNT_OF(used); id++) {
        if (!used[id]) continue;
        const struct document_parameter format = { "FORMAT", quant_find(id)->file };
        document_use(d, arena_printf(a, "templates/cpu/formats/%s.h", format.value));
        document_instance(d, "templates/cpu/gemv_tmpl.c", &format, 1, NULL);
        document_instance(d, "templates/cpu/gemm_tmpl.c", &format, 1, NULL);
        if (p->target->matrix_unit && !p->options.exact) document_instance(d, "templates/cpu/gemm_pairs_tmpl.c", &format, 1, NULL);
    }
}

/* The parts of the arena after the values. */
static void put_areas(struct arena *a, struct text *t, const struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        const char *what = arena_printf(a, "f32 [%u] of each token of a step: cosines and sines", r->n_rot);
        emit_area(t, arena_printf(a, "ROTATION_%u", i + 1), r->table, what);
    }
    emit_area(t, "PARTS", p->parts_offset, "attention's sums, maxima and totals of ranges of positions");
    text_puts(t, "/* In a thread's scratch: rows of products, or of attention. */\n");
    text_printf(t, "#define SCRATCH_ROWS                %lluu\n\n", (unsigned long long)p->scratch_y);
}

struct bytes emit_cpu(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    static const char *const always[] = { "launch.h",         "norm_tmpl.c", "rope_tmpl.c",       "kv_tmpl.c",
                                          "attention_tmpl.c", "glu_tmpl.c",  "elementwise_tmpl.c",
                                          "activation_tmpl.c", "experts_tmpl.c", "sequence_tmpl.c" };
    const struct kernel_list *k = p->kernels;
    struct document *d = document_new(a, o->templates);
    struct text head = { .arena = a }, model = { .arena = a };
    emit_banner(&head, p, o);
    put_parameters(a, d, p);
    document_use(d, "runtime/model/abi.h");
    for (uint32_t i = 0; i < COUNT_OF(always); i++) document_use(d, arena_printf(a, "templates/cpu/%s", always[i]));
    if (attention_parts(p)) document_use(d, "templates/cpu/attention_pairs_tmpl.c");
    use_formats(a, d, p);
    about_model(a, &model, p);
    emit_buffers(a, &model, p, "FLOAT_ROW(BUFFER(AT_##name), STRIDE_##name, t)");
    put_areas(a, &model, p);
    text_puts(&model, "/* ==== kernels ==== */\n");
    emit_cpu_kernels(a, &model, p);
    text_puts(&model, "/* ==== launches ==== */\n");
    emit_launches(&model, k, STEPS_DECODE);
    emit_launches(&model, k, STEPS_PREFILL);
    if (k->of[STEPS_COLUMNS].n) emit_launches(&model, k, STEPS_COLUMNS);
    text_puts(&model, "/* ==== data for the runtime ==== */\n");
    const enum kernel_steps several = k->of[STEPS_COLUMNS].n ? STEPS_COLUMNS : STEPS_PREFILL;
    const char *counts = arena_printf(a, ".n_decode = %u, .n_prefill = %u, .n_columns = %u, .few = %u,", k->of[STEPS_DECODE].n,
                                      k->of[STEPS_PREFILL].n, p->model->causal ? k->of[several].n : 0, few_tokens(p));
    counts = arena_printf(a, "%s .arithmetic = \"%s\",", counts, cpu_arithmetic(a, p));
    emit_program(a, &model, p, o, arena_printf(a, "%s .decode = decode_launches, .prefill = prefill_launches, .columns = %s_launches,",
                                               counts, kernel_steps_name[several]));
    return document_print(d, text_str(&head), text_str(&model));
}
