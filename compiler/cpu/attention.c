/* attention.c -- see attention.h. */
#define FORGE_SIMD_C
#include "attention.h"
#include "compiler/source/text.h"
#include "templates/cpu/attention_pairs.h"

typedef unsigned long long ull;

/* width, out: columns of the query's and the result's heads that belong to a KV head; sink: the sinks of KV head h, "0": no sinks. */
struct attention_text {
    const struct node *node;
    uint32_t           heads_kv, group, width, out, window;
    const char        *kv, *k_head, *v_head, *sizes, *sink;
};

static struct attention_text attention_text(const struct cpu_writer *w)
{
    struct arena *a = w->arena;
    const struct node *n = w->group->node;
    const struct state *state = plan_state(w->plan, n);
    const uint32_t rows = state->rows, head_dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim;
    const uint64_t behind = plan_values_at(w->plan, n);
    struct attention_text at = { .node = n, .heads_kv = n->inputs[1]->heads, .kv = kv_type_name[w->plan->options.kv] };
    at.group = n->heads / at.heads_kv;
    at.width = at.group * head_dim;
    at.out = at.group * value_dim;
    at.k_head = arena_printf(a, "kv_k_%s(STATE, h, %u, %u)", at.kv, head_dim, rows);
    at.v_head = arena_printf(a, "kv_v_%s(STATE, h, %u, %u, %u)", at.kv, at.heads_kv, head_dim, rows);
    if (behind) at.v_head = arena_printf(a, "kv_k_%s(STATE + %lluu, h, %u, %u)", at.kv, (ull)behind, value_dim, rows);     /* V alone */
    at.window = plan_window(w->plan, n);
    const char *scale = emit_float(a, n->attr.scale), *cap = n->attr.cap > 0 ? emit_float(a, n->attr.cap) : "0";
    const char *score = arena_printf(a, "%s, /* cap, ring */ %s, %u", scale, cap, state_ring(state));
    at.sink = n->weight ? arena_printf(a, "VECTOR(%s) + %u * h", weight_of(w, n->weight), at.group) : "0";
    at.sizes = arena_printf(a, "/* group */ %u, /* head_dim, value_dim */ %u, %u, %s", at.group, head_dim, value_dim, score);
    return at;
}

static const struct buffer *f32_of(const struct cpu_writer *w, const struct node *n) { return &w->plan->f32[n->index]; }

/* The arguments o, m and l (sums, maxima, totals) of part p for attention_part and attention_merge. */
static const char *parts_text(const struct cpu_writer *w, const struct attention_text *at)
{
    const ull m = (ull)ATTENTION_PARTS * at->node->cols * 4;
    const ull l = m + (ull)ATTENTION_PARTS * at->node->heads * 4;
    const char *maxima = arena_printf(w->arena, "PARTS(ARENA_PARTS + %lluu) + %u * p", m, at->group);
    const char *sums = arena_printf(w->arena, "%s, PARTS(ARENA_PARTS + %lluu) + %u * p", maxima, l, at->group);
    return arena_printf(w->arena, "PARTS(ARENA_PARTS) + %u * p, %s", at->out, sums);
}

/* Decode: packs y [group][value_dim] of KV head h, if the result is kept packed. */
static void put_row(struct cpu_writer *w, const struct attention_text *at)
{
    const struct buffer *q = &w->plan->packed[at->node->index];
    if (!q->exists) return;
    const char *block = arena_printf(w->arena, "(%u * h + c) / 32", at->out);
    put(w, "for (uint32_t c = 0; c < %u; c += 32)", at->out);
    put(w, "    %s", pack_block(w, q->form[0], byte_row(w, q), "y + c", block, q->cols));
}

static void put_y(struct cpu_writer *w, const struct attention_text *at)
{
    const struct buffer *f = f32_of(w, at->node);
    if (f->exists) put(w, "float *const y = %s + %u * h;", float_row(w, f), at->out);
    else put_scratch(w, "y", "SCRATCH_ROWS");
}

/* Declares positions first .. end - 1 of part i % parts: whole blocks of 16 of the cache, except a last block that is not full. */
static void put_part(struct cpu_writer *w)
{
    put(w, "const uint32_t part = i %% parts, each = (n_kv + 16 * parts - 1) / (16 * parts) * 16;");
    put(w, "const uint32_t first = part * each < n_kv ? part * each : n_kv, end = n_kv - first < each ? n_kv : first + each;");
}

/* The same for a sliding window; its first block may begin before the window. */
static void put_window_part(struct cpu_writer *w)
{
    put(w, "const uint32_t part = i %% parts, each = (n_kv - base + 16 * parts - 1) / (16 * parts) * 16;");
    put(w, "const uint32_t begin = base + part * each < n_kv ? base + part * each : n_kv, first = begin < oldest ? oldest : begin;");
    put(w, "const uint32_t end = n_kv - begin < each ? n_kv : begin + each;");
}

/* Declares the number of parts; for a sliding window also its oldest position and the start of that position's block. */
static void put_parts(struct cpu_writer *w, const struct attention_text *at)
{
    if (!at->window) {
        put(w, "const uint32_t n_kv = a->n_past + 1, parts = attention_parts(n_kv, %u, n_threads);", at->heads_kv);
        return;
    }
    put(w, "const uint32_t n_kv = a->n_past + 1, oldest = attention_first(a->n_past, /* window */ %u);", at->window);
    put(w, "const uint32_t base = oldest / 16 * 16, parts = attention_parts(n_kv - base, %u, n_threads);", at->heads_kv);
}

/* KV heads are divided among the threads. If they do not divide evenly, ranges of positions are divided, too (see attention_merge). */
static void put_decode(struct cpu_writer *w)
{
    const struct attention_text at = attention_text(w);
    put(w, "if (l->tail && !a->n_logits) return;");
    put_parts(w, &at);
    put(w, "const struct span s = share(%u * parts, thread, n_threads);", at.heads_kv);
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t h = i / parts;");
    put(w, "const float *const q = %s + %u * h;", float_row(w, f32_of(w, at.node->inputs[0])), at.width);
    put(w, "if (parts > 1) {");
    if (at.window) put_window_part(w);
    else put_part(w);
    put(w, "const uint32_t p = %u * h + part;", ATTENTION_PARTS);
    put(w, "attention_part_%s(%s, q, %s, %s, first, end, %s);", at.kv, parts_text(w, &at), at.k_head, at.v_head, at.sizes);
    put(w, "continue;");
    put(w, "}");
    put_y(w, &at);
    put(w, "attention_decode_%s(y, q, %s, %s, n_kv, %s, /* window, sink */ %u, %s);", at.kv, at.k_head, at.v_head, at.sizes, at.window,
        at.sink);
    put_row(w, &at);
    put(w, "}");
}

void put_attention_merge(struct cpu_writer *w)
{
    const struct attention_text at = attention_text(w);
    put_parts(w, &at);
    put(w, "if (parts == 1 || (l->tail && !a->n_logits)) return;");
    put(w, "const struct span s = share(%u, thread, n_threads);", at.heads_kv);
    put(w, "for (uint32_t h = s.first; h < s.last; h++) {");
    put_y(w, &at);
    put(w, "const uint32_t p = %u * h;", ATTENTION_PARTS);
    put(w, "attention_merge(y, %s, parts, %u, %u, /* sink */ %s);", parts_text(w, &at), at.group, at.out / at.group, at.sink);
    put_row(w, &at);
    put(w, "}");
}

/* Divides tiles of `tokens` (an expression) tokens of one KV head among the threads. parts: bfloat16 values that stand for each value in
 * products of pairs; 0: f32. */
static void put_tiles(struct cpu_writer *w, const struct attention_text *at, const char *tokens, uint32_t parts)
{
    const struct buffer *q = f32_of(w, at->node->inputs[0]), *f = f32_of(w, at->node), *packed = &w->plan->packed[at->node->index];
    const bool causal = at->node->attr.causal;
    const uint32_t y_stride = f->exists ? (uint32_t)(f->stride / 4) : at->out, q_stride = (uint32_t)(q->stride / 4);
    put(w, "const uint32_t tiles = (a->n_tokens - t0 + %s - 1) / %s;", tokens, tokens);
    put_work(w, arena_printf(w->arena, "%u * tiles", at->heads_kv));
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t h = i / tiles, t = t0 + i %% tiles * %s;", tokens);
    put(w, "const uint32_t n = a->n_tokens - t < %s ? a->n_tokens - t : %s;", tokens, tokens);
    if (f->exists) put(w, "float *const y = %s + %u * h;", float_row(w, f), at->out);
    else put_scratch(w, "y", "SCRATCH_ROWS");
    put(w, "const float *const q = %s + %u * h;", float_row(w, q), at->width);
    const char *how = parts ? "pairs" : causal ? "prefill" : "all";
    put(w, "attention_%s_%s(y, /* stride */ %u, q, /* stride */ %u,", how, at->kv, y_stride, q_stride);
    put(w, "    %s, %s,", at->k_head, at->v_head);
    if (parts) put(w, "    a->n_past + t, /* all */ %s, n, %s, /* window, sink */ %u, %s, /* parts */ %u, SCRATCH(0));",
                   causal ? "0" : "a->n_past + a->n_tokens", at->sizes, at->window, at->sink, parts);
    else if (causal) put(w, "    a->n_past + t, /* first */ 0, n, %s, /* window, sink */ %u, %s);", at->sizes, at->window, at->sink);
    else put(w, "    /* end */ a->n_past + a->n_tokens, n, %s, /* sink */ %s);", at->sizes, at->sink);
    if (packed->exists) {
        put(w, "for (uint32_t k = 0; k < n; k++)");
        put(w, "    for (uint32_t c = 0; c < %u; c += 32)", at->out);
        const char *row = packed_row(w, packed, "t + k");
        const char *y = arena_printf(w->arena, "y + %u * k + c", at->out), *block = arena_printf(w->arena, "(%u * h + c) / 32", at->out);
        put(w, "        %s", pack_block(w, packed->form[w->form], row, y, block, packed->cols));
    }
    put(w, "}");
    put(w, "}");
}

static void put_prefill(struct cpu_writer *w)
{
    const struct attention_text at = attention_text(w);
    put(w, "const uint32_t t0 = first_token(a, l);");
    const uint32_t parts = attention_parts(w->plan);
    if (parts)
        put(w, "const uint32_t tokens = pairs_share(a->n_tokens - t0, /* group, KV heads */ %u, %u, n_threads);", at.group, at.heads_kv);
    put_tiles(w, &at, parts ? "tokens" : arena_printf(w->arena, "%u", PREFILL_ATTENTION_TOKENS), parts);
}

void put_attention(struct cpu_writer *w)
{
    if (w->many) put_prefill(w);
    else put_decode(w);
}
