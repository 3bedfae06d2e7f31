/* emit.c -- plan for a GPU -> two sources: the kernels, and C that describes them to the runtime. kernels.c writes the kernels. */
#include "emit.h"
#include "compiler/source/about.h"
#include "compiler/source/buffers.h"
#include "compiler/source/document.h"
#include "compiler/source/paste.h"
#include "compiler/source/text.h"
#include "compiler/base/family.h"
#include "kernels.h"
#include <string.h>

static bool pads_rows(const struct plan *p)
{
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (p->weight_form[i] == WEIGHT_MATRIX && packing_pad_bytes(plan_packing(p, &p->model->weights[i]), p->model->weights[i].cols))
            return true;
    return false;
}

/* Begins the document with the macros on which templates depend; formats are not among them. */
static void put_parameters(struct arena *a, struct document *d, const struct plan *p)
{
    const struct target *target = p->target;
    struct text t = { .arena = a };
    if (pads_rows(p)) text_printf(&t, "#define ROW_PERIOD %u\n", target->row_period);
    text_printf(&t, "#define KV %s\n", kv_type_name[p->options.kv]);
    if (p->gpu->has_more) text_puts(&t, "#define ATTENTION_MORE 1\n");
    if (p->gpu->has_wide) text_puts(&t, "#define ATTENTION_WIDE 1\n");
    if (p->gpu->has_views) text_puts(&t, "#define ATTENTION_VIEWS 1\n");
    if (p->gpu->has_slices) text_puts(&t, "#define SLICES 1\n");
    if (p->gpu->has_several) text_puts(&t, "#define SEVERAL 1\n");
    if (p->options.ranks) text_printf(&t, "#define RANKS %u\n", p->options.ranks);
    text_printf(&t, "#define GEMM_STAGES %u\n#define GEMM_UNIT_STEPS %u\n", gemm_stages(target), target->gpu.gemm_unit_steps);
    document_begin(d, text_str(&t));
}

static const char *number(struct arena *a, uint32_t n) { return arena_printf(a, "%u", n); }

/* Gives the document the macros that the compiler and the flags of build/cc.c define for the target. */
static void tell_compiler(struct arena *a, struct document *d, const struct target *target)
{
    const bool hip = strcmp(target->api, "hip") == 0, cuda = strcmp(target->api, "cuda") == 0;
    document_known(d, "FORGE_ABI_H", NULL);
    document_known(d, "__HIP__", hip ? "1" : NULL);
    document_known(d, "__CUDA__", cuda ? "1" : NULL);
    document_known(d, "FORGE_STREAM_NT", strcmp(target->load_hint, "stream") == 0 ? "1" : NULL);
    document_known(d, "FORGE_NO_PDL", target->dependent_launch ? NULL : "1");
    if (hip || cuda) return;
    document_known(d, "FAMILY", number(a, target->family));
}

/* Adds the functions that read matrices of one format; embeds: the embedding table has this format. */
static void use_format(struct arena *a, struct document *d, const char *format, bool embeds, const struct gpu_instances *k)
{
    const struct document_parameter embed = { "FORMAT", format };
    document_use(d, arena_printf(a, "templates/gpu/formats/%s.h", format));
    if (embeds) document_instance(d, "templates/gpu/embed_tmpl.c", &embed, 1, NULL);
    for (uint32_t i = 0; i < k->n_gemms; i++) {
        const struct gpu_gemm *g = &k->gemms[i];
        const struct document_parameter shape[] = { { "FORMAT", format },
                                                    { "GEMM_TOKENS", number(a, g->tokens) },
                                                    { "GEMM_ROWS", number(a, g->rows) },
                                                    { "GEMM_THREADS", number(a, g->threads) },
                                                    { "GEMM_SLICES", "1" } };
        if (strcmp(g->format, format) == 0) document_instance(d, "templates/gpu/gemm_tmpl.c", shape, COUNT_OF(shape) - !g->slices, NULL);
    }
    for (uint32_t i = 0; i < k->n_gemvs; i++) {
        const struct gpu_gemv *g = &k->gemvs[i];
        const struct document_parameter ring[] = { { "FORMAT", format }, { "LANES", number(a, g->lanes) },
                                                   { "STAGES", number(a, g->depth) }, { "COLUMNS", number(a, g->columns) } };
        struct document_parameter shape[6] = { { "FORMAT", format }, { "ROWS", number(a, g->rows) }, { "LANES", number(a, g->lanes) } };
        uint32_t n = 3;
        if (g->depth) shape[n++] = (struct document_parameter){ "DEPTH", number(a, g->depth) };
        if (g->columns) shape[n++] = (struct document_parameter){ "COLUMNS", number(a, g->columns) };
        if (g->slices) shape[n++] = (struct document_parameter){ g->slices == SLICES_SUM ? "SLICES_SUM" : "SLICES_EACH", "1" };
        if (strcmp(g->format, format)) continue;
        if (g->matrix) document_instance(d, "templates/gpu/gemv_matrix_tmpl.c", ring, COUNT_OF(ring), NULL);
        else document_instance(d, "templates/gpu/gemv_tmpl.c", shape, n, NULL);
    }
}

static void use_formats(struct arena *a, struct document *d, const struct plan *p)
{
    const struct gpu_instances k = gpu_instances(a, p);
    bool used[QUANT_IDS] = { false }, embeds[QUANT_IDS] = { false };
    for (uint32_t i = 0; i < p->fused->n_groups; i++)
        if (p->fused->groups[i].kind == GROUP_EMBED) embeds[p->fused->groups[i].node->weight->tensor->quant->id] = true;
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (p->weight_form[i] == WEIGHT_MATRIX && p->weight_offset[i] != UINT64_MAX) used[p->model->weights[i].tensor->quant->id] = true;
    for (uint32_t id = 0; id < COUNT_OF(used); id++) if (used[id]) use_format(a, d, quant_find(id)->file, embeds[id], &k);
}

/* The parts of the arena after the values. */
static void put_areas(struct text *t, const struct plan *p)
{
    const struct gpu_plan *g = p->gpu;
    emit_area(t, "PARTS", p->parts_offset, "attention's sums of each split of the positions");
    emit_area(t, "MAXIMA", g->parts_ml, "their maxima and totals");
    emit_area(t, "COUNTERS", g->zero, "of the splits that are done; zero before the first launch");
    if (!p->model->pooling) {
        emit_area(t, "SAMPLE_COUNTERS", g->sample_counters, "the same of sampling");
        if (p->options.spec) emit_area(t, "DRAFT_WORDS", g->draft_words, "the same of steps with drafts, and what their rows drew");
        emit_area(t, "SAMPLE", g->sample_scratch, "scratch of sampling");
    }
    if (g->has_steps) emit_area(t, "SCORES", g->scores, "attention's scores of all heads and tokens of a step");
    emit_area(t, "LOGITS", g->logits, arena_printf(t->arena, "f32, a row each of up to %u tokens", g->logits_rows));
    text_printf(t, "#define ARENA_LOGITS_STRIDE         %lluu\n\n", 4ull * p->model->n_out);
}

struct bytes emit_gpu(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    static const char *const always[] = { "launch.h", "acts.h", "stage.h", "elementwise.h", "kv.h", "rope.h", "attention_decode_tmpl.c",
                                          "attention_prefill_tmpl.c", "sample_tmpl.c", "drafts.h",
                                          "functions.h", "sequence.h", "slices.h", "probe.h" };
    struct document *d = document_new(a, o->templates);
    struct text head = { .arena = a }, model = { .arena = a };
    emit_banner(&head, p, o);
    text_printf(&head, " * weights: %s\n", o->weights_hash);
    tell_compiler(a, d, p->target);
    document_machine(d, family_file(a, p->target));
    put_parameters(a, d, p);
    for (uint32_t i = 0; i < COUNT_OF(always); i++) document_use(d, arena_printf(a, "templates/gpu/%s", always[i]));
    if (p->gpu->has_wide) document_use(d, "templates/gpu/attention_wide_prefill.h");
    if (p->gpu->has_steps) document_use(d, "templates/gpu/attention_unfused.h");
    if (p->options.ranks) document_use(d, p->options.split == SPLIT_LAYER ? "templates/gpu/layers.h" : "templates/gpu/collective.h");
    use_formats(a, d, p);
    if (strcmp(p->target->api, "host") == 0)
        text_puts(&model, "const uint32_t forge_simt_wave = WAVE;           /* for tests/lanes/libsimt.c */\n\n");
    about_model(a, &model, p);
    emit_buffers(a, &model, p, "FLOAT_ROW(AT_##name, STRIDE_##name, t)");
    put_areas(&model, p);
    text_puts(&model, "/* ==== kernels ==== */\n");
    emit_gpu_kernels(a, &model, p);
    text_printf(&model, "/* %s: %d threads; what --check tries the driver by */\nKERNEL(%d, 1) %s(const struct forge_kernel_args a)\n{\n"
                "    pdl_launch();\n    pdl_wait();\n    mark(a);\n    probe(a);\n}\n\n",
                FORGE_GPU_PROBE, FORGE_GPU_PROBE_THREADS, FORGE_GPU_PROBE_THREADS, FORGE_GPU_PROBE);
    about_launches(a, &model, p);
    return document_print(d, text_str(&head), text_str(&model));
}

static void put_pass(struct text *t, const struct forge_gpu_pass *pass)
{
    if (pass->to == FORGE_PASS_NONE) {
        text_puts(t, "{ 0 }");
        return;
    }
    text_printf(t, "{ %u, %llu, {", pass->to, (unsigned long long)pass->turn);
    for (size_t i = 0; i < COUNT_OF(pass->areas) && pass->areas[i].tokens; i++)
        text_printf(t, "%s { %llu, %llu, %llu, %u }", i ? "," : "", (unsigned long long)pass->areas[i].at,
                    (unsigned long long)pass->areas[i].apart, (unsigned long long)pass->areas[i].each, pass->areas[i].tokens);
    text_puts(t, " } }");
}

/* An initializer of struct forge_gpu_launch. */
static void put_launch(struct text *t, const struct kernel_list *list, const struct launch *l)
{
    const struct kernel *k = &list->kernels[l->kernel];
    text_printf(t, "{ \"%s\", %u, ", l->name, l->kernel);
    if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
    else text_printf(t, "%u", l->layer);
    text_printf(t, ", %u, %u, %u, %u, %u, %u, %u, %u, %u, ", l->logits ? FORGE_TAIL_LOGITS : l->tail,
                k->grid_x, k->grid_tokens, k->tokens_first, k->param[PARAM_LEAST], k->param[PARAM_MOST], k->param[PARAM_CLUSTER],
                l->collectives, l->in_collective);
    put_pass(t, &l->pass);
    text_printf(t, ", %llu, {", (unsigned long long)l->state);
    for (uint32_t i = 0; i < l->n_bindings; i++) text_printf(t, "%s%llu", i ? ", " : " ", (unsigned long long)l->bindings[i].offset);
    text_printf(t, "%s }, ", l->n_bindings ? "" : " 0");
    emit_cost(t, k);
    text_puts(t, " }");
}

static uint32_t all_launches(const struct kernel_list *list, const struct emit_options *o, enum kernel_steps steps)
{
    return o->spans[steps].all ? o->spans[steps].all : list->of[steps].n;
}

/* Pipeline parallel: the table has places for the launches of all stages; those of other stages stay empty. */
static void put_launches(struct text *t, const struct kernel_list *list, const struct emit_options *o, enum kernel_steps steps)
{
    const struct launches l = list->of[steps];
    if (!all_launches(list, o, steps)) return;
    text_printf(t, "static const struct forge_gpu_launch %s_launches[%u] = {\n", kernel_steps_name[steps], all_launches(list, o, steps));
    for (uint32_t i = 0; i < l.n; i++) {
        struct text line = { .arena = t->arena };
        if (o->spans[steps].before && !i) text_printf(&line, "    [%u] = ", o->spans[steps].before);
        else text_puts(&line, "    ");
        put_launch(&line, list, &l.list[i]);
        text_puts(&line, ",");
        emit_folded(t, text_str(&line), "      ");
    }
    text_puts(t, "};\n\n");
}

/* Is there a tensor at this offset inside a run of matrices (gpu_run)? The image must not be cut there, because kernels read the run as one
 * matrix. */
static bool inside_run(const struct plan *p, uint64_t offset)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        for (uint32_t k = 0; k < p->gpu->groups[i].n_runs; k++) {
            const struct gpu_run *r = &p->gpu->groups[i].runs[k];
            for (uint32_t b = r->first + 1; b < r->last; b++) {
                const int32_t partner = g->branches[b].partner;
                if (p->weight_offset[g->branches[b].matmul->weight->index] == offset) return true;
                if (partner >= 0 && p->weight_offset[g->branches[partner].matmul->weight->index] == offset) return true;
            }
        }
    }
    return false;
}

static uint32_t put_cuts(struct text *t, const struct plan *p)
{
    const struct plan_tensor *list = plan_tensors(t->arena, p);
    struct text line = { .arena = t->arena };
    uint32_t n = 0;
    for (uint32_t i = 1; i < p->n_tensors; i++)
        if (!inside_run(p, list[i].offset)) text_printf(&line, "%s%lluu", n++ ? ", " : "    ", (unsigned long long)list[i].offset);
    if (!n) return 0;
    text_printf(t, "static const uint64_t cuts[%u] = {\n", n);
    emit_folded(t, text_str(&line), "    ");
    text_puts(t, "};\n");
    return n;
}

/* The table of all ranks' programs, for the first rank. */
static void put_ranks(struct text *t, const struct emit_options *o)
{
    for (uint32_t r = 0; r < o->ranks; r++) text_printf(t, "extern const struct forge_program %s;\n", o->symbols[r]);
    text_printf(t, "static const struct forge_program *const ranks[%u] = {", o->ranks);
    for (uint32_t r = 0; r < o->ranks; r++) text_printf(t, " &%s,", o->symbols[r]);
    text_puts(t, " };\n");
}

struct bytes emit_gpu_program(struct arena *a, const struct plan *p, const struct emit_options *o, uint64_t code_bytes)
{
    typedef unsigned long long ull;
    const struct kernel_list *k = p->kernels;
    const struct target *target = p->target;
    const struct gpu_plan *gpu = p->gpu;
    struct text t = { .arena = a };
    struct paster paster = { .arena = a, .out = &t };
    emit_paste(&paster, "runtime/model/abi.h");
    text_printf(&t, "static const struct forge_gpu_kernel kernels[%u] = {\n", k->n_kernels);
    for (uint32_t i = 0; i < k->n_kernels; i++)
        text_printf(&t, "    { \"%s\", %u, %u },\n", k->kernels[i].name, k->kernels[i].param[PARAM_THREADS], k->kernels[i].lds_bytes);
    text_puts(&t, "};\n");
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++) put_launches(&t, k, o, steps);
    if (o->ranks && !o->rank) put_ranks(&t, o);
    const uint32_t n_cuts = put_cuts(&t, p);
    const char *code = emit_code_symbol(a, target, o->code_rank);
    text_printf(&t, "extern const uint8_t %s[];\nstatic const struct forge_gpu gpu = {\n", code);
    text_printf(&t, "    .runtime = &forge_gpu_runtime, .api = %s, .arch = \"%s\", .code = %s, .code_bytes = %lluu, .wave = %u, "
                    ".dependent_launch = %u, .graph = %u,\n",
                strcmp(target->api, "cuda") == 0 ? "FORGE_GPU_CUDA" : "FORGE_GPU_HIP", target->arch, code, (ull)code_bytes,
                target->wave, target->dependent_launch, target->graph);
    text_printf(&t, "    .n_kernels = %u, .n_decode = %u, .n_prefill = %u, .kernels = kernels, .decode = decode_launches, "
                    ".prefill = prefill_launches,\n",
                k->n_kernels, all_launches(k, o, STEPS_DECODE), all_launches(k, o, STEPS_PREFILL));
    if (all_launches(k, o, STEPS_COLUMNS))
        text_printf(&t, "    .most_columns = %u, .n_columns = %u, .columns = columns_launches, .several = %u,\n", p->options.columns,
                    all_launches(k, o, STEPS_COLUMNS), p->gpu->has_several);
    if (!p->model->pooling) {
        text_puts(&t, "    .sample = ");
        put_launch(&t, k, &k->sample);
        text_puts(&t, ",\n");
    }
    if (k->of[STEPS_PASS].n) {
        text_printf(&t, "    .n_pass = %u, .pass = pass_launches, .take = ", k->of[STEPS_PASS].n);
        put_launch(&t, k, &k->take);
        text_puts(&t, ",\n");
    }
    if (p->options.spec) {
        text_printf(&t, "    .most_drafts = %u, .drafts = ", p->options.columns - 1);
        put_launch(&t, k, &k->drafts);
        text_puts(&t, ",\n");
    }
    if (o->ranks)
        text_printf(&t, "    .n_ranks = %u, .ranks = %s, .pipeline = %u, .collective_bytes = %lluu,\n", o->ranks, o->rank ? "0" : "ranks",
                    p->options.split == SPLIT_LAYER,
                    (ull)gpu_collective_room(p));
    text_printf(&t, "    .logits_offset = %lluu, .logits_rows = %u, .zero_offset = %lluu, .zero_bytes = %lluu,\n", (ull)gpu->logits,
                gpu->logits_rows, (ull)gpu->zero, (ull)gpu->zero_bytes);
    text_printf(&t, "    .n_cuts = %u, .cuts = %s, .probe = 1, .least_driver = %u,\n};\n", n_cuts, n_cuts ? "cuts" : "0",
                target->least_driver);
    emit_program(a, &t, p, o, ".gpu = &gpu,");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
