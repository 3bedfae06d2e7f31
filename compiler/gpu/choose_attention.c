/* choose_attention.c -- the kernels of attention: in decode one that also finishes the token's heads; in prefill one for heads, one for the
 * chunk; without fusion four steps over scores in memory. */
#include "choose.h"
#include "templates/gpu/attention_prefill_sizes.h"
#include "templates/gpu/attention_sizes.h"

typedef unsigned long long ull;

/* ---- which kernels ---- */

/* Decode and prefill compute heads of up to 256 items, of K and V alike; others take four steps. */
bool gpu_in_steps(const struct plan *p, const struct node *n)
{
    return p->fused->level == FUSE_NONE || n->attr.head_dim > 256 || n->attr.head_dim != n->inputs[2]->attr.head_dim;
}

/* ---- splits ---- */

static uint32_t planned_splits(const struct plan *p)
{
    uint32_t heads_kv = 1;
    for (uint32_t l = 0; l < p->model->n_layer; l++) if (p->model->layers[l].n_head_kv > heads_kv) heads_kv = p->model->layers[l].n_head_kv;
    const uint32_t splits = (p->profile->gpu.attention_splits + heads_kv - 1) / heads_kv, most = (p->options.n_ctx + 15) / 16;
    return splits < 1 ? 1 : splits > most ? most : splits;
}

void choose_splits(struct plan *p)
{
    const uint32_t planned = planned_splits(p), most = (p->options.n_ctx + 15) / 16;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        const struct kernel_choice *given = kernel_choice(p->options.choices, TEMPLATE_attention_decode, false, i, 0);
        const uint32_t splits = p->gpu->groups[i].splits = kernel_chosen(given, PARAM_SPLITS, planned);
        if (splits < 1 || splits > most)
            die_at(given->at, "splits is %u; a context of %u tokens can be split into 1 to %u parts, of 16 positions or more", splits,
                   p->options.n_ctx, most);
    }
}

/* ---- pieces ---- */

static const struct node *keys_of(const struct chooser *c) { return c->group->node->inputs[1]; }

/* Where positions lie, and which of them a token attends. */
static const char *positions_text(const struct chooser *c, const struct node *n)
{
    const struct state *s = plan_state(c->plan, n);
    const uint32_t window = plan_window(c->plan, n);
    const char *rows = arena_printf(c->arena, "%u positions%s", c->plan->options.n_ctx,
                                    state_ring(s) ? arena_printf(c->arena, " in a ring of %u", s->rows) : "");
    return window ? arena_printf(c->arena, "%s, window of %u", rows, window) : rows;
}

static void does_attention(const struct chooser *c, struct kernel_draft *d)
{
    const struct node *n = c->group->node;
    kernel_does(d, "attention: %u heads of %u over %u KV heads in %s, %s, scale %.9g", n->heads, n->attr.head_dim, keys_of(c)->heads,
                kv_type_name[c->plan->options.kv], positions_text(c, n), (double)(float)n->attr.scale);
    const uint32_t value_dim = n->inputs[2]->attr.head_dim;
    if (value_dim != n->attr.head_dim)
        kernel_does(d, "  heads of V have %u, %llu bytes behind K", value_dim, (ull)plan_values_at(c->plan, n));
    if (!n->attr.causal) kernel_does(d, "  every token sees all of the text");
    if (n->attr.cap != 0) kernel_does(d, "  scores held within %.9g", (double)(float)n->attr.cap);
    if (n->weight) kernel_does(d, "  sinks %s", choose_vector(c, d, n->weight));
}

/* Values in f32: what the projection left, or finished queries. */
static const struct node *query_of(const struct chooser *c)
{
    return c->group->has_heads ? c->group->heads[0].raw : c->group->node->inputs[0];
}

static struct kernel_draft begin_attention(const struct chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin(c, template, name);
    d.launch.state = plan_state(c->plan, c->group->node)->offset;
    return d;
}

/* Heads as the projection left them, and what is done with them. */
static void does_heads(const struct chooser *c, struct kernel_draft *d)
{
    static const char *const names[] = { "q", "k", "v" };
    const struct head_chain *h = c->group->heads;
    const char *rotation = choose_rotation(c, d, h[0].rope), *norms[3] = { "" };
    for (uint32_t i = 2; i-- > 0;)
        norms[i] = h[i].norm ? arena_printf(c->arena, ", headnorm %s, eps %.9g", choose_vector(c, d, h[i].norm->weight),
                                            (double)(float)h[i].norm->attr.eps) : "";
    for (uint32_t i = 0; i < 3; i++)
        kernel_does(d, "heads of %s: %s%s%s", names[i], choose_text(c, gpu_read(c->plan, h[i].raw)), i < 2 ? norms[i] : "",
                    h[i].store ? ", into the state" : "");
    kernel_does(d, "%s", rotation);
}

/* Of a group of an attention kernel: whole waves; power: as many as a power of two. */
static uint32_t given_threads(const struct chooser *c, enum kernel_template template, uint32_t planned, uint32_t most, bool power)
{
    const struct kernel_choice *given = choose_given(c, template, 0);
    const uint32_t threads = kernel_chosen(given, PARAM_THREADS, planned), wave = c->plan->profile->wave;
    if (given && (threads < wave || threads > most || threads % wave || (power && (threads & (threads - 1)))))
        die_at(given->at, "threads is %u; this kernel has %u to %u of them on %s, a %s", threads, wave, most, c->plan->profile->name,
               power ? "power of two" : "multiple of the wave");
    return threads;
}

/* ---- decode ---- */

static void choose_decode(const struct chooser *c)
{
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    const struct profile *t = p->profile;
    const uint32_t heads_kv = keys_of(c)->heads, head_dim = n->attr.head_dim, splits = c->gg->splits,
                   threads = given_threads(c, TEMPLATE_attention_decode, t->gpu.attention_threads, 1024, false);
    const bool cluster = t->cluster && splits > 1 && splits <= ATTENTION_MAX_CLUSTER;
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_decode, c->group->name);
    if (c->group->has_heads) does_heads(c, &d);
    does_attention(c, &d);
    kernel_does(&d, "query %s -> %s", choose_text(c, gpu_read(p, query_of(c))), choose_text(c, gpu_written(p, n, false)));
    kernel_does(&d, "parts at %llu, maxima and totals at %llu, counters at %llu", (ull)p->parts_offset, (ull)p->gpu->parts_ml,
                (ull)p->gpu->zero);
    plan_count_attention(p, n, ATTENTION_ALL, &d.kernel);
    d.kernel.param[PARAM_THREADS] = threads;
    d.kernel.param[PARAM_SPLITS] = splits;
    d.kernel.param[PARAM_CLUSTER] = cluster ? splits : 0;
    d.kernel.grid_x = ATTENTION_GROUPS(n->heads, heads_kv, head_dim, splits);
    d.kernel.lds_bytes = ATTENTION_LDS_BYTES(n->heads, heads_kv, head_dim, t->wave, threads, splits, cluster);
    choose_end(c, &d);
}

/* ---- prefill ---- */

/* Heads of a chunk: normed, rotated and stored in one go. */
static void choose_heads(const struct chooser *c)
{
    const struct node *n = c->group->node;
    const uint32_t wave = c->plan->profile->wave;
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_heads, "heads_prefill");
    const uint32_t threads = d.kernel.param[PARAM_THREADS];
    d.launch.name = "heads";
    d.launch.state = plan_state(c->plan, c->group->node)->offset;
    does_heads(c, &d);
    kernel_does(&d, "%u and %u heads of %u, %s", n->heads, keys_of(c)->heads, n->attr.head_dim, positions_text(c, n));
    d.kernel.grid_x = HEAD_GROUPS(n->heads + 2 * keys_of(c)->heads, wave, threads);
    d.kernel.lds_bytes = threads / wave * n->attr.head_dim * 4;
    choose_end(c, &d);
}

static void choose_chunk(const struct chooser *c)
{
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    const struct profile *t = p->profile;
    const bool whole = n->attr.head_dim % 16 == 0;               /* the matrix unit's tiles */
    const uint32_t kv = (uint32_t)p->options.kv, digits = p->options.exact || !whole ? 2 : 1,
                   threads = given_threads(c, TEMPLATE_attention_prefill, t->gpu.attention_prefill_threads, 8 * t->wave, true);
    const uint32_t heads_kv = keys_of(c)->heads, head_dim = n->attr.head_dim;
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_prefill, "attention_chunk");
    does_attention(c, &d);
    kernel_does(&d, "query %s -> %s", choose_text(c, gpu_read(p, query_of(c))), choose_text(c, gpu_written(p, n, true)));
    plan_count_attention(p, n, ATTENTION_ALL, &d.kernel);
    d.kernel.param[PARAM_THREADS] = threads;
    d.kernel.param[PARAM_DIGITS] = digits;
    d.kernel.param[PARAM_TOKENS] = ATTENTION_PREFILL_TOKENS(kv, digits, n->heads, heads_kv, head_dim, t->family, threads);
    d.kernel.param[PARAM_RESIDENT] = ATTENTION_PREFILL_RESIDENT(t->family, threads);
    d.kernel.grid_x = ATTENTION_PREFILL_GROUPS(n->heads, heads_kv);
    d.kernel.grid_tokens = d.kernel.param[PARAM_TOKENS];
    d.kernel.lds_bytes = ATTENTION_PREFILL_LDS_BYTES(kv, digits, head_dim, t->family, threads);
    choose_end(c, &d);
}

/* ---- without fusion ---- */

static void choose_step(const struct chooser *c, enum kernel_template template, uint32_t lds_bytes)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin_attention(c, template, arena_printf(c->arena, "attn_%s", template_info[template].name));
    const struct plan *p = c->plan;
    d.kernel.prefill = false;                                /* it serves both */
    d.launch.name = arena_printf(c->arena, "attention_%s", template_info[template].name);
    does_attention(c, &d);
    kernel_does(&d, "scores f32 of %u rows at %llu", p->chunk, (ull)p->gpu->scores);
    if (template == TEMPLATE_scores) kernel_does(&d, "query %s", choose_text(c, gpu_read(p, n->inputs[0])));
    if (template == TEMPLATE_weighted_sum) kernel_does(&d, "-> %s", choose_text(c, gpu_read(p, n)));
    if (template == TEMPLATE_scores) plan_count_attention(p, n, ATTENTION_SCORES, &d.kernel);
    if (template == TEMPLATE_weighted_sum) plan_count_attention(p, n, ATTENTION_SUM, &d.kernel);
    d.kernel.param[PARAM_THREADS] = p->profile->gpu.attention_threads;
    d.kernel.grid_x = n->heads;
    d.kernel.grid_tokens = 1;
    d.kernel.lds_bytes = lds_bytes;
    choose_end(c, &d);
}

static void choose_unfused(const struct chooser *c)
{
    const struct profile *t = c->plan->profile;
    choose_step(c, TEMPLATE_scores, 0);
    if (c->group->node->attr.causal) choose_step(c, TEMPLATE_mask, 0);
    choose_step(c, TEMPLATE_softmax, SOFTMAX_LDS_BYTES(t->wave, t->gpu.attention_threads));
    choose_step(c, TEMPLATE_weighted_sum, WEIGHTED_SUM_LDS_BYTES(c->group->node->inputs[2]->attr.head_dim, t->gpu.attention_threads));
}

void choose_attention(const struct chooser *c)
{
    if (gpu_in_steps(c->plan, c->group->node)) { choose_unfused(c); return; }
    if (!c->prefill) { choose_decode(c); return; }
    if (c->group->has_heads) choose_heads(c);
    choose_chunk(c);
}
