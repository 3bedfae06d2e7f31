/* put_attention.c -- attention, and the heads that a projection made for it. */
#include "put.h"
#include "templates/webgpu/sizes.h"

static const struct node *keys_of(const struct wgsl_writer *w) { return w->group->node->inputs[1]; }
static const char *kv_of(const struct wgsl_writer *w) { return kv_type_name[w->plan->options.kv]; }

/* The number of rows of the cache that n uses. */
static uint32_t rows_of(const struct plan *p, const struct node *n)
{
    const uint32_t ring = state_ring(plan_state(p, n));
    return ring ? ring : p->options.n_ctx;
}

/* "kv_plane(0u, 8u, 4096u, 64u)": the plane of K or V. V begins after K or in a separate state. */
static const char *plane(struct wgsl_writer *w, const struct node *n, bool values, uint32_t heads, uint32_t head_dim)
{
    const uint32_t rows = rows_of(w->plan, n);
    const uint64_t apart = plan_values_at(w->plan, n);
    const char *at = !values ? "0u" : apart ? arena_printf(w->arena, "%lluu", (unsigned long long)apart / 4)
                   : arena_printf(w->arena, "kv_words_%s(%uu, %uu, %uu)", kv_of(w), heads, rows, head_dim);
    return arena_printf(w->arena, "kv_plane(%s, %uu, %uu, %uu)", at, heads, rows, head_dim);
}

/* ---- heads ---- */

/* How heads are stored. Two rows may share a word of scales, which workgroups of several tokens store at the same time: then by atomics
 * (kv.wgsl). */
static const char *stores_by(struct wgsl_writer *w, uint32_t head_dim)
{
    const bool atomics = w->plan->options.kv == KV_TYPE_Q8_0 && head_dim % 64;
    w->atomic_state |= atomics;
    return atomics ? "atomics" : "words";
}

static const char *use_heads(struct wgsl_writer *w, uint32_t head_dim)
{
    const char *by = stores_by(w, head_dim);
    web_constant(w, "HEADS_EACH", HEADS_EACH);
    web_constant(w, "HEAD_DIM", head_dim);
    web_use(w, "heads.wgsl", (struct web_words){ .kv = kv_of(w), .state = by });
    return by;
}

/* Declares the rotation `turns`. Returns arguments: the rows of q, k and v, the weights of the norms and their eps. */
static const char *put_raw(struct wgsl_writer *w, const char *t)
{
    const struct head_chain *h = w->group->heads;
    const struct node *rope = h[0].rope, *norm = h[0].norm ? h[0].norm : h[1].norm;
    const struct rotation_plan *r = rope ? &w->plan->rotations[rope->rotation] : NULL;
    web_put(w, "let turns = rotation(%s, %uu, %uu, %s);", r ? web_tables(w, rope) : "0u, 0u", r ? r->block : 1,
            r ? rope->attr.n_rot : 0, r && rope->attr.neox ? "true" : "false");
    return arena_printf(w->arena, "%s, %s, %s, %s, %s, %s", web_value(w, h[0].raw, t), web_value(w, h[1].raw, t), web_value(w, h[2].raw, t),
                        web_vector(w, h[0].norm ? h[0].norm->weight : NULL), web_vector(w, h[1].norm ? h[1].norm->weight : NULL),
                        web_float(w, norm ? norm->attr.eps : 0));
}

void web_put_heads(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const uint32_t dim = n->attr.head_dim;
    const char *by = use_heads(w, dim), *raw = put_raw(w, "t");
    web_put(w, "heads_finish_%s_%s(%s, turns, %s, %s, %uu, step.n_past + t, %uu, group.x, thread);", kv_of(w), by, raw,
            plane(w, n, false, keys_of(w)->heads, dim), plane(w, n, true, keys_of(w)->heads, dim), n->heads,
            state_ring(plan_state(w->plan, n)));
}

/* Stores rows of K or V without a norm or rotation. */
void web_put_store(struct wgsl_writer *w)
{
    const struct node *n = w->group->branches[0].chain[0];
    const char *by = use_heads(w, n->attr.head_dim);
    web_put(w, "heads_store_%s_%s(%s, %s, step.n_past + t, %uu, group.x, thread);", kv_of(w), by, web_value(w, n->inputs[0], "t"),
            plane(w, n, n->op == OP_store_v, n->heads, n->attr.head_dim), state_ring(plan_state(w->plan, n)));
}

/* ---- attention ---- */

static const char *attention_of(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    return arena_printf(w->arena, "attention(%uu, %s, %s, %s, %uu, %uu)", n->heads, web_float(w, n->attr.scale), web_float(w, n->attr.cap),
                        web_vector(w, n->weight), plan_window(w->plan, n), state_ring(plan_state(w->plan, n)));
}

static const struct node *query_of(const struct wgsl_writer *w)
{
    return w->group->has_heads ? w->group->heads[0].raw : w->group->node->inputs[0];
}

static void use_attention(struct wgsl_writer *w, const char *path)
{
    const struct node *n = w->group->node;
    web_constant(w, "HEADS", ATTENTION_HEADS(n->heads, keys_of(w)->heads, n->attr.head_dim));
    web_constant(w, "HEADS_EACH", ATTENTION_HEADS_EACH(n->attr.head_dim));
    web_constant(w, "ATTENTION_ALONE", ATTENTION_ALONE);
    web_constant(w, "HEAD_DIM", n->attr.head_dim);
    web_constant(w, "VALUE_DIM", n->inputs[2]->attr.head_dim);
    web_constant(w, "VALUES_IN_KEYS", plan_values_in_keys(w->plan, n));
    web_use(w, path, (struct web_words){ .kv = kv_of(w), .state = "words" });
}

static void put_planes(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    web_put(w, "let k = %s;", plane(w, n, false, keys_of(w)->heads, n->attr.head_dim));
    web_put(w, "let v = %s;", plan_values_in_keys(w->plan, n) ? "k"
            : plane(w, n, true, keys_of(w)->heads, n->inputs[2]->attr.head_dim));
}

static void put_decode(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const uint32_t splits = w->kernel->param[PARAM_SPLITS], cuts = ATTENTION_CUTS(n->heads, keys_of(w)->heads, n->attr.head_dim);
    use_attention(w, "attention.wgsl");
    put_planes(w);
    const char *to = arena_printf(w->arena, "k, v, %s, %uu, %uu, step.n_past", web_value(w, n, "0u"),
                                  (uint32_t)(w->plan->parts_offset / 4), (uint32_t)(w->plan->web->maxima / 4));
    if (web_turns(w->plan, w->group)) {
        web_put(w, "let raw = raw_heads(%s);", put_raw(w, "0u"));
        web_put(w, "attention_whole_%s_words(%s, raw, turns, %s, group.x / %uu, group.x %% %uu, %uu, thread);", kv_of(w),
                attention_of(w), to, splits, splits, splits);
    } else
        web_put(w, "attention_decode_%s(%s, %s, %s, group.x / %uu, group.x / %uu %% %uu, group.x %% %uu, %uu, thread);", kv_of(w),
                attention_of(w), web_value(w, query_of(w), "0u"), to, splits * cuts, splits, cuts, splits, splits);
}

static void put_merge(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    use_attention(w, "attention.wgsl");
    web_put(w, "attention_merge(%s, %uu, %uu, %uu, %uu, %uu, group.x, thread);", web_value(w, n, "0u"),
            (uint32_t)(w->plan->parts_offset / 4), (uint32_t)(w->plan->web->maxima / 4), n->heads, keys_of(w)->heads,
            web_splits(w->plan, n));
}

static void put_chunk(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const uint32_t heads_kv = keys_of(w)->heads, shares = CHUNK_SHARES(n->heads, heads_kv, n->attr.head_dim);
    const struct web_place q = web_place_of(w->plan, query_of(w)), out = web_place_of(w->plan, n);
    use_attention(w, "attention_chunk.wgsl");
    web_constant(w, "CHUNK_ROWS", CHUNK_ROWS(n->attr.head_dim));
    put_planes(w);
    web_put(w, "let tokens = chunk(%uu, %uu, %uu, %uu, step.n_past, step.n_tokens, select(0u, forge_first(), launch.tail == 1u), %s);",
            (uint32_t)(q.offset / 4), (uint32_t)(q.stride / 4), (uint32_t)(out.offset / 4), (uint32_t)(out.stride / 4),
            n->attr.causal ? "true" : "false");
    web_put(w, "attention_chunk_%s(tokens, %s, k, v, group.x / %uu, group.y * %uu + group.x %% %uu, thread);", kv_of(w), attention_of(w),
            shares, shares, shares);
}

static void put_step(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const enum kernel_template template = w->kernel->template;
    use_attention(w, "attention_steps.wgsl");
    if (template == TEMPLATE_scores || template == TEMPLATE_weighted_sum) put_planes(w);
    web_put(w, "let s = steps(%uu, %uu, %uu, step.n_past, step.n_tokens);", (uint32_t)(w->plan->web->scores / 4), w->plan->chunk,
            (uint32_t)plan_align(w->plan->options.n_ctx, 4));
    if (template == TEMPLATE_scores)
        web_put(w, "steps_scores_%s(s, %s, k, %s, group.x, t, 0u, 1u, thread);", kv_of(w), attention_of(w),
                web_value(w, n->inputs[0], "t"));
    else if (template == TEMPLATE_mask) web_put(w, "steps_mask(s, group.x, t, thread);");
    else if (template == TEMPLATE_softmax) web_put(w, "steps_softmax(s, %s, group.x, t, thread);", attention_of(w));
    else web_put(w, "steps_sum_%s(s, %s, v, %s, group.x, t, thread);", kv_of(w), attention_of(w), web_value(w, n, "t"));
}

void web_put_attention(struct wgsl_writer *w)
{
    switch (w->kernel->template) {
    case TEMPLATE_attention_decode:  put_decode(w); break;
    case TEMPLATE_attention_merge:   put_merge(w); break;
    case TEMPLATE_attention_prefill: put_chunk(w); break;
    default:                         put_step(w); break;
    }
}
