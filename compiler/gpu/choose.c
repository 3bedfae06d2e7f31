/* choose.c -- the kernels of a GPU program and their launches.  A group becomes one kernel in decode; in prefill a product's input is first
 * brought into the 16-bit form that the matrix units read, and heads are finished in a kernel of their own. */
#include "choose.h"
#include "compiler/plan/machine.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/sample_sizes.h"

typedef unsigned long long ull;

/* ---- drafts ---- */

struct kernel_draft choose_begin(const struct chooser *c, enum kernel_template template, const char *name)
{
    return kernel_begin(c->list, template, name, c->plan->fused, c->group, c->prefill, c->prefill && c->tail);
}

struct kernel_draft choose_begin_rows(const struct chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin(c, template, name);
    d.kernel.param[PARAM_THREADS] = c->plan->profile->gpu.stage_threads;
    d.kernel.grid_tokens = 1;
    return d;
}

void choose_end(const struct chooser *c, struct kernel_draft *d)
{
    const struct profile *t = c->plan->profile;
    if (d->kernel.lds_bytes > t->lds_bytes)
        die("%s: kernel %s needs %u bytes of LDS, %s has %u for a group; this model is too wide for forgec's kernels on it, or the "
            "target's tiles are too large; a CPU target takes it", c->plan->model->gguf->path, d->kernel.name, d->kernel.lds_bytes,
            t->name, t->lds_bytes);
    kernel_end(c->list, d);
}

const struct kernel_choice *choose_given(const struct chooser *c, enum kernel_template template, uint32_t nth)
{
    return kernel_choice(c->plan->options.choices, template, c->prefill, c->index, nth);
}

/* The name of what stands at this offset of the image, of which the kernel reads so many bytes. */
static const char *name_at(struct kernel_draft *d, uint64_t offset, const char *role, uint64_t bytes)
{
    const uint32_t had = d->launch.n_weights, slot = kernel_weight(d, offset, role);
    if (d->launch.n_weights > had) d->kernel.weight_bytes += bytes;
    return d->launch.symbols[slot];
}

const char *choose_weight(const struct chooser *c, struct kernel_draft *d, const struct weight *w)
{
    return name_at(d, c->plan->weight_offset[w->index], w->role, 0);
}

const char *choose_vector(const struct chooser *c, struct kernel_draft *d, const struct weight *w)
{
    if (!w) return "no weight";
    return arena_printf(c->arena, "weight %s", name_at(d, c->plan->weight_offset[w->index], w->role, plan_weight_bytes(c->plan, w)));
}

const char *choose_rotation(const struct chooser *c, struct kernel_draft *d, const struct node *n)
{
    if (!n) return "no rotation";
    const struct rotation_plan *r = &c->plan->rotations[n->rotation];
    const uint64_t row = 4ull * r->n_rot;
    const char *lo = name_at(d, r->lo, "angles_low", row), *hi = name_at(d, r->hi, "angles_high", row);
    return arena_printf(c->arena, "rope with weights %s and %s, %u positions a row, %u items, pairs %s", hi, lo, r->block, n->attr.n_rot,
                        n->attr.neox ? "i, i + n/2" : "2i, 2i + 1");
}

const char *choose_text(const struct chooser *c, struct gpu_place at)
{
    const char *f32 = at.form == FORM_F32 || at.form == FORM_LOGITS ? " f32" : "";        /* the others say it in their name */
    if (at.form == FORM_NONE) return arena_printf(c->arena, "%s into the state", at.name);
    return arena_printf(c->arena, "%s%s [%u] at %llu, stride %llu%s", at.name, f32, at.cols, (ull)at.offset, (ull)at.stride,
                        at.form == FORM_LOGITS ? ", from the first token with logits" : "");
}

/* ---- operations on rows ---- */

/* The same in decode, where the one token is that of the only group. */
static struct kernel_draft choose_begin_both(const struct chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin_rows(c, template, name);
    d.kernel.prefill = false;
    return d;
}

static void choose_embed(const struct chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_embed, c->group->name);
    const uint32_t cols = (uint32_t)n->weight->cols;
    const char *name = choose_weight(c, &d, n->weight);
    d.kernel.weight_bytes = packing_row_bytes(plan_packing(c->plan, n->weight), cols);
    kernel_does(&d, "embed: rows of weight %s, %s %llu x %u -> %s", name, n->weight->tensor->quant->name, (ull)n->weight->rows, cols,
                choose_text(c, gpu_read(c->plan, n)));
    d.kernel.grid_x = EMBED_GROUPS(cols, c->plan->profile->wave, d.kernel.param[PARAM_THREADS]);
    choose_end(c, &d);
}

static void choose_norm(const struct chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_norm, c->group->name);
    kernel_does(&d, "rmsnorm: %s, eps %.9g: %s -> %s", choose_vector(c, &d, n->weight), (double)(float)n->attr.eps,
                choose_text(c, gpu_read(c->plan, c->group->input)), choose_text(c, gpu_read(c->plan, n)));
    d.kernel.lds_bytes = ACTS_SCRATCH_BYTES;
    choose_end(c, &d);
}

/* What the operation works with beside its first operand. */
static const char *operation_text(const struct chooser *c, struct kernel_draft *d, const struct node *n)
{
    const uint32_t head_dim = n->attr.head_dim, heads = head_dim ? n->cols / head_dim : 0;
    const char *of_heads = arena_printf(c->arena, "%u heads of %u", heads, head_dim);
    switch (n->op) {
    case OP_bias:     return choose_vector(c, d, n->weight);
    case OP_add:
    case OP_glu_silu:
    case OP_glu_gelu: return choose_text(c, gpu_read(c->plan, n->inputs[1]));
    case OP_headnorm: return arena_printf(c->arena, "%s, eps %.9g, %s", choose_vector(c, d, n->weight), (double)(float)n->attr.eps,
                                          of_heads);
    case OP_rope:     return arena_printf(c->arena, "%s, %s", choose_rotation(c, d, n), of_heads);
    case OP_store_k:
    case OP_store_v:  return arena_printf(c->arena, "%s, %u positions, ring %u", of_heads, c->plan->options.n_ctx,
                                          state_ring(plan_state(c->plan, n)));
    default: die("%%%s: forgec has no GPU kernel for %s; a CPU target computes it", n->name, op_info[n->op].name);
    }
}

/* One operation on finished rows; what stores into the cache writes no row. */
static void choose_map(const struct chooser *c)
{
    const struct node *n = c->group->branches[0].chain[0];
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_map, c->group->name);
    kernel_does(&d, "%s: %s: %s -> %s", op_info[n->op].name, operation_text(c, &d, n), choose_text(c, gpu_read(c->plan, n->inputs[0])),
                choose_text(c, gpu_written(c->plan, n, c->prefill)));
    if (n->op == OP_store_k || n->op == OP_store_v) d.launch.state = plan_state(c->plan, n)->offset;
    if (n->attr.head_dim) d.kernel.grid_x = HEAD_GROUPS(n->cols / n->attr.head_dim, c->plan->profile->wave, d.kernel.param[PARAM_THREADS]);
    choose_end(c, &d);
}

static void choose_sample(struct chooser *c)
{
    const struct plan *p = c->plan;
    const struct profile *t = p->profile;
    const uint32_t n_vocab = p->model->n_vocab;
    c->group = NULL;
    struct kernel_draft d = choose_begin(c, TEMPLATE_sample, "sample_token");
    d.launch.name = "sample";
    kernel_does(&d, "sample: logits f32 [%u] at %llu, history of %u, scratch at %llu, counter at %llu", n_vocab, (ull)p->gpu->logits,
                p->options.n_ctx, (ull)p->gpu->sample_scratch, (ull)p->gpu->sample_counters);
    d.kernel.param[PARAM_THREADS] = t->gpu.sample_threads;
    d.kernel.grid_x = t->gpu.sample_groups;
    d.kernel.lds_bytes = SAMPLE_LDS_BYTES(n_vocab);
    choose_end(c, &d);
    c->list->sample = c->list->decode[--c->list->n_decode];
}

/* ---- all of them ---- */

static void choose_group(const struct chooser *c)
{
    switch (c->group->kind) {
    case GROUP_EMBED:     choose_embed(c); break;
    case GROUP_NORM:      choose_norm(c); break;
    case GROUP_MAP:       choose_map(c); break;
    case GROUP_LINEAR:    choose_linear(c); break;
    case GROUP_ATTENTION: choose_attention(c); break;
    case GROUP_SLICES:
    case GROUP_ROUTE:
    case GROUP_SEQUENCE:  die("%s: no kernel of a GPU; this is a mistake in forgec, please report it", c->group->name);
    }
}

void gpu_plan_kernels(struct arena *a, struct plan *p)
{
    const struct fused *f = p->fused;
    const uint32_t last_store = fuse_last_store(f);
    p->kernels = kernel_list_new(a);
    struct chooser c = { .arena = a, .plan = p, .list = p->kernels };
    for (uint32_t pass = 0; pass < 2; pass++) {
        c.prefill = pass == 1;
        for (c.index = 0; c.index < f->n_groups; c.index++) {
            c.group = &f->groups[c.index];
            c.gg = &p->gpu->groups[c.index];
            c.tail = c.index > last_store;
            choose_group(&c);
        }
        if (!c.prefill) choose_sample(&c);
    }
}

/* The unfused attention keeps all scores of a step: at most 256 MiB of them. */
static void limit_chunk(struct plan *p)
{
    uint32_t heads = 1;
    for (uint32_t l = 0; l < p->model->n_layer; l++) if (p->model->layers[l].n_head > heads) heads = p->model->layers[l].n_head;
    const uint64_t fits = (256ull << 20) / (4ull * heads * p->options.n_ctx);
    if (p->chunk > fits) p->chunk = fits ? (uint32_t)fits : 1;
}

/* Logits of a step are kept: of LOGITS_LEAST tokens, of more as far as they take LOGITS_BYTES. */
static void limit_logits(struct plan *p)
{
    enum { LOGITS_LEAST = 512, LOGITS_BYTES = 256 << 20 };
    const uint32_t fits = LOGITS_BYTES / (4 * p->model->n_vocab), most = fits > LOGITS_LEAST ? fits : LOGITS_LEAST;
    p->max_logits = p->chunk < most ? p->chunk : most;
}

/* Operations, and forms of them, that the kernels compute. */
static bool has_kernel(const struct node *n)
{
    switch (n->op) {
    case OP_embed: case OP_matmul: case OP_bias: case OP_glu_silu: case OP_glu_gelu: case OP_add:
    case OP_store_k: case OP_store_v: case OP_attention: return true;
    case OP_rmsnorm: return n->weight != NULL;
    case OP_headnorm: return n->weight && n->weight->cols == n->attr.head_dim;
    case OP_rope: return n->attr.rot_first == 0;
    default: return false;
    }
}

/* What is particular about an operation that has kernels in its other forms. */
static const char *form_text(const struct node *n)
{
    if ((n->op == OP_rmsnorm || n->op == OP_headnorm) && !n->weight) return " without a weight";
    if (n->op == OP_headnorm) return " with weights of its own for each head";
    return n->op == OP_rope ? " of columns that do not begin the head" : "";
}

static void check_attention(const struct plan *p, const struct node *n)
{
    const char *path = p->model->gguf->path, *target = p->profile->name;
    const uint32_t dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim;
    if (n->attr.cap != 0)
        die("%s: %%%s is attention with a cap of %g on its scores; forgec has no GPU kernels for caps; a CPU target takes it", path,
            n->name, n->attr.cap);
    if (dim != value_dim)
        die("%s: %%%s: heads of V have %u items where those of Q and K have %u; no kernel for that on %s yet; a CPU target takes it", path,
            n->name, value_dim, dim, target);
    if (n->weight) die("%s: %%%s: no kernel for attention with sinks on %s yet; a CPU target takes it", path, n->name, target);
    if (n->inputs[1]->layer != n->layer)
        die("%s: %%%s: no kernel for attention to keys of another layer on %s yet; a CPU target takes it", path, n->name, target);
}

static void check(const struct plan *p, const struct graph *g)
{
    const char *path = p->model->gguf->path, *target = p->profile->name;
    if (p->model->n_vocab > SAMPLE_MAX_VOCAB)
        die("%s: a vocabulary of %u tokens is beyond what the GPU kernels are made for (%u); a CPU target takes it", path,
            p->model->n_vocab, SAMPLE_MAX_VOCAB);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        const struct weight *w = n->weight;
        if (!has_kernel(n))
            die("%s: %%%s: no kernel for %s%s on %s yet; a CPU target takes it", path, n->name, op_info[n->op].name, form_text(n), target);
        if (w && w->run < w->rows && w->stride != w->run)
            die("%s: %%%s: no kernel for %llu of every %llu rows of tensor %s on %s yet; a CPU target takes it", path, n->name,
                (unsigned long long)w->run, (unsigned long long)w->stride, w->name, target);
        if (n->op == OP_attention) check_attention(p, n);
    }
}

static void choose(struct arena *a, struct plan *p)
{
    p->gpu = arena_new(a, struct gpu_plan);
    if (p->fused->level == FUSE_NONE) limit_chunk(p);
    limit_logits(p);
    p->gpu->digits = p->options.exact ? 3 : p->profile->activation_digits;
    p->gpu->groups = arena_array(a, struct gpu_group, p->fused->n_groups);
    choose_products(p);
    choose_splits(p);
    choose_values(a, p);
    gpu_plan_kernels(a, p);
}

extern const struct machine machine_gpu;
const struct machine machine_gpu = { .name = "GPU", .layout = LAYOUT_GPU, .image_align = 128, .state_align = 256, .head_unit = 16,
                                     .head_most = 256, .absorbs = { .attention_heads = true, .gates_alike = true }, .check = check,
                                     .choose = choose };
