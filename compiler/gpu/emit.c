/* emit.c -- plan for a GPU -> two sources: the kernels, and the C that tells the runtime of them.  gpu/kernels.c writes the kernels. */
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

/* What templates depend on besides formats. */
static void put_parameters(struct arena *a, struct document *d, const struct plan *p)
{
    const struct profile *profile = p->profile;
    struct text t = { .arena = a };
    if (pads_rows(p)) text_printf(&t, "#define ROW_PERIOD %u\n", profile->row_period);
    text_printf(&t, "#define KV %s\n", kv_type_name[p->options.kv]);
    if (p->gpu->has_more) text_puts(&t, "#define ATTENTION_MORE 1\n");
    if (p->gpu->has_slices) text_puts(&t, "#define SLICES 1\n");
    if (p->gpu->has_several) text_puts(&t, "#define SEVERAL 1\n");
    if (p->options.ranks) text_printf(&t, "#define RANKS %u\n", p->options.ranks);
    text_printf(&t, "#define GEMM_STAGES %u\n#define GEMM_UNIT_STEPS %u\n", gemm_stages(profile), profile->gpu.gemm_unit_steps);
    document_begin(d, text_str(&t));
}

static const char *number(struct arena *a, uint32_t n) { return arena_printf(a, "%u", n); }

/* What the compiler and the flags of build/cc.c define for the target. */
static void tell_compiler(struct arena *a, struct document *d, const struct profile *profile)
{
    const bool hip = strcmp(profile->api, "hip") == 0, cuda = strcmp(profile->api, "cuda") == 0;
    document_known(d, "FORGE_ABI_H", NULL);
    document_known(d, "__HIP__", hip ? "1" : NULL);
    document_known(d, "__CUDA__", cuda ? "1" : NULL);
    document_known(d, "FORGE_STREAM_NT", strcmp(profile->load_hint, "stream") == 0 ? "1" : NULL);
    document_known(d, "FORGE_NO_PDL", profile->dependent_launch ? NULL : "1");
    if (hip || cuda) return;
    document_known(d, "FAMILY", number(a, profile->family));
}

/* What reads the matrices of one format; embeds: one of them is a table of tokens. */
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

/* The arena beyond the values. */
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
                                          "functions.h", "sequence.h", "slices.h" };
    struct document *d = document_new(a, o->templates);
    struct text head = { .arena = a }, model = { .arena = a };
    emit_banner(&head, p, o);
    text_printf(&head, " * weights: %s\n", o->weights_hash);
    tell_compiler(a, d, p->profile);
    document_machine(d, family_file(a, p->profile));
    put_parameters(a, d, p);
    for (uint32_t i = 0; i < COUNT_OF(always); i++) document_use(d, arena_printf(a, "templates/gpu/%s", always[i]));
    if (p->gpu->has_steps) document_use(d, "templates/gpu/attention_unfused.h");
    if (p->options.ranks) document_use(d, p->options.split == SPLIT_LAYER ? "templates/gpu/layers.h" : "templates/gpu/exchange.h");
    use_formats(a, d, p);
    if (strcmp(p->profile->api, "host") == 0)
        text_puts(&model, "const uint32_t forge_simt_wave = WAVE;           /* for tests/lanes/libsimt.c */\n\n");
    about_model(a, &model, p);
    emit_buffers(a, &model, p, "FLOAT_ROW(AT_##name, STRIDE_##name, t)");
    put_areas(&model, p);
    text_puts(&model, "/* ==== kernels ==== */\n");
    emit_gpu_kernels(a, &model, p);
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

/* The rows of struct forge_gpu_launch. */
static void put_launch(struct text *t, const struct kernel_list *list, const struct launch *l)
{
    const struct kernel *k = &list->kernels[l->kernel];
    text_printf(t, "{ \"%s\", %u, ", l->name, l->kernel);
    if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
    else text_printf(t, "%u", l->layer);
    text_printf(t, ", %u, %u, %u, %u, %u, %u, %u, %u, %u, ", l->logits ? FORGE_TAIL_LOGITS : l->tail,
                k->grid_x, k->grid_tokens, k->tokens_first, k->param[PARAM_LEAST], k->param[PARAM_MOST], k->param[PARAM_CLUSTER],
                l->exchanges, l->exchanging);
    put_pass(t, &l->pass);
    text_printf(t, ", %llu, {", (unsigned long long)l->state);
    for (uint32_t i = 0; i < l->n_weights; i++) text_printf(t, "%s%llu", i ? ", " : " ", (unsigned long long)l->weights[i]);
    text_printf(t, "%s }, ", l->n_weights ? "" : " 0");
    emit_cost(t, k);
    text_puts(t, " }");
}

static uint32_t all_launches(const struct kernel_list *list, const struct emit_options *o, enum kernel_steps steps)
{
    return o->spans[steps].all ? o->spans[steps].all : kernel_launches_of(list, steps).n;
}

/* Of GPUs in a row the places of the others' launches stay empty. */
static void put_launches(struct text *t, const struct kernel_list *list, const struct emit_options *o, enum kernel_steps steps)
{
    const struct launches l = kernel_launches_of(list, steps);
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

/* Of the first rank: the programs of all. */
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
    const struct profile *profile = p->profile;
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
    const char *code = emit_code_symbol(a, profile, o->code_rank);
    text_printf(&t, "extern const uint8_t %s[];\nstatic const struct forge_gpu gpu = {\n", code);
    text_printf(&t, "    .runtime = &forge_gpu_runtime, .api = %s, .arch = \"%s\", .code = %s, .code_bytes = %lluu, .wave = %u, "
                    ".dependent_launch = %u, .graph = %u,\n",
                strcmp(profile->api, "cuda") == 0 ? "FORGE_GPU_CUDA" : "FORGE_GPU_HIP", profile->arch, code, (ull)code_bytes,
                profile->wave, profile->dependent_launch, profile->graph);
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
    if (k->n_pass) {
        text_printf(&t, "    .n_pass = %u, .pass = pass_launches, .take = ", k->n_pass);
        put_launch(&t, k, &k->take);
        text_puts(&t, ",\n");
    }
    if (p->options.spec) {
        text_printf(&t, "    .most_drafts = %u, .drafts = ", p->options.columns - 1);
        put_launch(&t, k, &k->drafts);
        text_puts(&t, ",\n");
    }
    if (o->ranks)
        text_printf(&t, "    .n_ranks = %u, .ranks = %s, .in_row = %u, .exchange_bytes = %lluu,\n", o->ranks, o->rank ? "0" : "ranks",
                    p->options.split == SPLIT_LAYER,
                    (ull)gpu_exchange_room(p));
    text_printf(&t, "    .logits_offset = %lluu, .logits_rows = %u, .zero_offset = %lluu, .zero_bytes = %lluu,\n};\n", (ull)gpu->logits,
                gpu->logits_rows, (ull)gpu->zero, (ull)gpu->zero_bytes);
    emit_program(a, &t, p, o, ".gpu = &gpu,");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
