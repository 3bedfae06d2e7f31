/* kernels.c -- the kernels of a plan -> WGSL modules: the template items that a kernel needs, its constants, and main. */
#include "kernels.h"
#include "compiler/source/about.h"
#include "compiler/front/token_lists.h"
#include "compiler/source/text.h"
#include "put.h"
#include <string.h>

/* ---- small pieces ---- */

void web_put(struct wgsl_writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_line(&w->body, &w->depth, w->kernel->name, fmt, args);
    va_end(args);
}

void web_use(struct wgsl_writer *w, const char *path, struct web_words words)
{
    const struct wgsl_word all[] = { { "FORMAT", words.format }, { "WEIGHTS", words.weights }, { "PAIR", words.pair },
                                     { "SINK", words.sink }, { "KV", words.kv }, { "STATE", words.state } };
    struct wgsl_word given[COUNT_OF(all)];
    uint32_t n = 0;
    for (uint32_t i = 0; i < COUNT_OF(all); i++) if (all[i].stands_for) given[n++] = all[i];
    wgsl_add(w->w, arena_printf(w->arena, "templates/webgpu/%s", path), given, n);
}

void web_constant(struct wgsl_writer *w, const char *name, uint32_t value) { text_printf(&w->head, "const %s = %uu;\n", name, value); }

struct text web_function_begin(struct wgsl_writer *w)
{
    const struct text outer = w->body;
    w->body = (struct text){ .arena = w->arena };
    return outer;
}

void web_function_end(struct wgsl_writer *w, struct text outer, const char *declaration)
{
    text_printf(&w->functions, "fn %s {\n%s}\n", declaration, text_str(&w->body));
    w->body = outer;
}

const char *web_vector_at(struct wgsl_writer *w, uint64_t offset)
{
    return arena_printf(w->arena, "forge_vector(%uu)", kernel_bound(w->launch, offset));
}

const char *web_vector(struct wgsl_writer *w, const struct weight *v)
{
    return v ? web_vector_at(w, w->plan->weight_offset[v->index]) : "NO_VECTOR";
}

const char *web_matrix(struct wgsl_writer *w, const struct web_part *part, const struct weight *m)
{
    const uint32_t slot = kernel_bound(w->launch, web_part_offset(w->plan, w->group, part, m));
    uint32_t before = 0;
    for (uint32_t i = 0; i < slot; i++) before += w->launch->bindings[i].is_matrix;
    return arena_printf(w->arena, "m%u", before);
}

uint32_t web_next_part(const struct wgsl_writer *w, uint32_t i)
{
    while (i < w->wg->n_parts && !web_part_of(w->plan, w->group, &w->wg->parts[i], w->launch)) i++;
    return i;
}

const char *web_row(struct wgsl_writer *w, struct web_place at, const char *t)
{
    if (at.form == WEB_LOGITS) return arena_printf(w->arena, "%uu + (%s - forge_first()) * %uu", (uint32_t)(at.offset / 4), t,
                                                   (uint32_t)(at.stride / 4));
    return arena_printf(w->arena, "%uu + %s * %uu", (uint32_t)(at.offset / 4), t, (uint32_t)(at.stride / 4));
}

const char *web_value(struct wgsl_writer *w, const struct node *n, const char *t) { return web_row(w, web_place_of(w->plan, n), t); }

/* A literal of WGSL, which needs no suffix. */
const char *web_float(struct wgsl_writer *w, double x)
{
    char *text = arena_strdup(w->arena, emit_float(w->arena, x));
    const size_t n = strlen(text);
    if (n && text[n - 1] == 'f') text[n - 1] = 0;
    return text;
}

/* ---- operations on rows ---- */

static void put_embed(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const char *format = n->weight->tensor->quant->file;
    web_put(w, "let row = text[step.n_past + t];");
    for (uint32_t i = web_next_part(w, 0); i < w->wg->n_parts; i = web_next_part(w, i + 1)) {
        const struct web_part *part = &w->wg->parts[i];
        const unsigned long long first = part->first, end = part->first + part->n;
        const bool whole = web_part_is_whole(w->plan, w->group, part);
        const char *m = web_matrix(w, part, n->weight);
        web_use(w, arena_printf(w->arena, "formats/%s.wgsl", format), (struct web_words){ .format = format, .weights = m });
        web_use(w, "rows.wgsl", (struct web_words){ .format = format, .weights = m });
        if (!whole) web_put(w, "if (row >= %lluu && row < %lluu) {", first, end);
        web_put(w, "embed_row_%s_%s(%s, 0u, row%s, %uu, group.x, groups.x, thread);", format, m, web_value(w, n, "t"),
                first ? arena_printf(w->arena, " - %lluu", first) : "", n->cols);
        if (!whole) web_put(w, "}");
    }
}

static void put_norm(struct wgsl_writer *w)
{
    const struct group *g = w->group;
    const struct node *n = g->norm ? g->norm : g->node, *from = g->norm ? g->input : n->inputs[0];
    const struct web_place to = g->norm ? web_place_in(n, &w->wg->normed) : web_place_of(w->plan, n);
    web_use(w, "rows.wgsl", (struct web_words){ 0 });
    web_put(w, "%s(%s, %s, %s, %uu, %s, thread);", n->op == OP_layernorm ? "layernorm_row" : "norm_row", web_row(w, to, "t"),
            web_value(w, from, "t"), web_vector(w, n->weight), n->cols, web_float(w, n->attr.eps));
}

/* ---- sampling: two modules ---- */

static void put_sample(struct wgsl_writer *w, bool draw)
{
    const struct plan *p = w->plan;
    const uint32_t logits = (uint32_t)(p->web->logits / 4), scratch = (uint32_t)(p->web->sample / 4);
    web_use(w, "sample.wgsl", (struct web_words){ 0 });
    text_puts(&w->head, "@group(0) @binding(6) var<storage, read_write> sampling: array<u32>;\n"
                        "@group(0) @binding(7) var<storage, read_write> next: array<u32>;\n");
    web_constant(w, "N_VOCAB", p->model->n_vocab);
    web_constant(w, "GROUPS", w->kernel->grid_x);
    text_printf(&w->head, "fn sample_suppressed(id: u32) -> bool { return ");
    const struct token_list never = suppressed_tokens(w->arena, p->model->gguf);
    for (uint32_t i = 0; i < never.n; i++) text_printf(&w->head, "%sid == %uu", i ? " || " : "", never.ids[i]);
    text_puts(&w->head, never.n ? "; }\n" : "false; }\n");
    if (draw) web_put(w, "sample_draw_token(%uu, %uu, thread);", logits, scratch);
    else web_put(w, "sample_scan_span(%uu, %uu, group.x, step.n_past + step.n_tokens, thread);", logits, scratch);
}

/* ---- kernels ---- */

static void put_body(struct wgsl_writer *w, bool draw)
{
    switch (w->kernel->template) {
    case TEMPLATE_embed:             put_embed(w); break;
    case TEMPLATE_norm:              put_norm(w); break;
    case TEMPLATE_map:               web_put_map(w); break;
    case TEMPLATE_gemv:              web_put_gemv(w); break;
    case TEMPLATE_picked:            web_put_list(w); break;
    case TEMPLATE_stage:             web_put_stage(w); break;
    case TEMPLATE_gemm:              web_put_gemm(w); break;
    case TEMPLATE_heads:             web_put_heads(w); break;
    case TEMPLATE_attention_decode:
    case TEMPLATE_attention_merge:
    case TEMPLATE_attention_prefill:
    case TEMPLATE_scores:
    case TEMPLATE_mask:
    case TEMPLATE_softmax:
    case TEMPLATE_weighted_sum:      web_put_attention(w); break;
    case TEMPLATE_route:             web_put_route(w); break;
    case TEMPLATE_conv:
    case TEMPLATE_conv_keep:
    case TEMPLATE_recur:             web_put_sequence(w); break;
    case TEMPLATE_sample:            put_sample(w, draw); break;
    default: die("%s is not a WebGPU kernel; this is a mistake in forgec, please report it", w->kernel->name);
    }
}

/* Arrays have their sizes if these are known: then the bounds checks that drivers add cost less. Matrices are bindings from FIRST_MATRIX
 * on. */
enum { FIRST_MATRIX = 6 };
#define BINDINGS \
    "@group(0) @binding(0) var<storage, read_write> arena: array<u32, %llu>;\n" \
    "@group(0) @binding(1) var<storage, read_write> state: array<%s>;\n" \
    "@group(0) @binding(2) var<uniform> step: forge_step;\n" \
    "@group(0) @binding(3) var<uniform> launch: forge_launch;\n" \
    "@group(0) @binding(4) var<storage, read> vectors: array<vec4u>;\n" \
    "@group(0) @binding(5) var<storage, read_write> text: array<u32>;\n"

const char *web_kernel(struct arena *a, const struct plan *p, uint32_t k, bool draw, const char *templates)
{
    return web_launch_kernel(a, p, kernel_first_launch(p->kernels, k), draw, templates);
}

const char *web_launch_kernel(struct arena *a, const struct plan *p, const struct launch *l, bool draw, const char *templates)
{
    const struct kernel *kernel = &p->kernels->kernels[l->kernel];
    struct wgsl_writer w = { .arena = a, .plan = p, .kernel = kernel, .launch = l, .w = wgsl_new(a, templates),
                        .head = { .arena = a }, .functions = { .arena = a }, .body = { .arena = a }, .depth = 1 };
    w.group = w.launch->group == NO_GROUP ? NULL : &p->fused->groups[w.launch->group];
    w.wg = w.launch->group == NO_GROUP ? NULL : &p->web->groups[w.launch->group];
    web_use(&w, "launch.wgsl", (struct web_words){ 0 });
    web_constant(&w, "THREADS", kernel->param[PARAM_THREADS]);
    put_body(&w, draw);
    struct text module = { .arena = a }, out = { .arena = a };
    text_printf(&module, BINDINGS, (unsigned long long)p->arena_bytes / 4, w.atomic_state ? "atomic<u32>" : "u32");
    uint32_t matrices = 0;
    for (uint32_t i = 0; i < w.launch->n_bindings; i++)
        if (w.launch->bindings[i].is_matrix)
            text_printf(&module, "@group(0) @binding(%u) var<storage, read> m%u: array<vec4u, %llu>;\n", FIRST_MATRIX + matrices, matrices,
                        (unsigned long long)w.launch->bindings[i].bytes / 16), matrices++;
    text_puts(&module, text_str(&w.head));
    text_puts(&module, text_str(&w.functions));
    text_puts(&module, "@compute @workgroup_size(THREADS)\nfn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: "
                       "vec3u, @builtin(local_invocation_index) thread: u32) {\n");
    text_printf(&module, "%s%s}\n", kernel->grid_tokens == 1 ? "    let t = forge_token(group.y);\n" : "", text_str(&w.body));
    wgsl_add_text(w.w, kernel->name, text_str(&module), NULL, 0);
    wgsl_want(w.w, "main");
    text_printf(&out, "/* %s: %s\n", kernel->name, about_kernel(a, p, l->kernel));
    emit_comment_lines(&out, kernel->does);
    text_puts(&out, " */\n");
    wgsl_write(w.w, &out);
    return text_str(&out);
}
