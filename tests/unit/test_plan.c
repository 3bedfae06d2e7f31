/* test_plan.c -- places and sizes: rules that hold for every plan of any model and options. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/cpu/choose.h"
#include "compiler/cpu/emit.h"
#include "compiler/product/header.h"
#include "compiler/build/image.h"
#include "compiler/plan/plan.h"
#include "die_capture.h"
#include "tiny_plans.h"
#include <math.h>

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static struct plan *plan_for(const struct model *m, const char *target)
{
    return plan_make(a, graph_build(a, m), FUSE_LAYER, target_load(a, target, NULL), &(struct plan_options){ 0 });
}

static struct plan *plan_of(const struct model *m, enum fuse_level level, struct plan_options o)
{
    return plan_make(a, graph_build(a, m), level, target_load(a, "portable", NULL), &o);
}

/* ---- the arena ---- */

struct range { const char *name; uint64_t begin, end; uint32_t born, dies; };

/* Groups without a barrier between them in decode run at the same time. */
static uint32_t overlapping_group(const struct plan *p, uint32_t group)
{
    return group + 1 < p->fused->n_groups && p->fused->groups[group + 1].joins ? group + 1 : group;
}

static uint32_t last_read(const struct plan *p, const struct node *n, bool through_norm)
{
    uint32_t last = through_norm ? 0 : overlapping_group(p, fuse_group(p->fused, n));
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        const uint32_t at = fuse_group(p->fused, r) == NO_GROUP ? last_read(p, r, true) : overlapping_group(p, fuse_group(p->fused, r));
        if (at > last) last = at;
    }
    return last;
}

static void check_arena(const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    const uint32_t n_groups = p->fused->n_groups, forever = n_groups;
    struct range *ranges = arena_array(a, struct range, 2 * g->n_nodes + 2 * n_groups + 2 + g->n_rotations);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t form = 0; form < 2; form++) {
            const struct buffer *b = form ? &p->packed[i] : &p->f32[i];
            if (b->exists)
                ranges[n++] = (struct range){ g->nodes[i]->name, b->offset, b->offset + b->stride * p->chunk, p->fused->group_of[i],
                                              last_read(p, g->nodes[i], false) };
        }
    for (uint32_t i = 0; i < n_groups; i++)
        for (uint32_t form = 0; form < 2; form++) {
            const struct buffer *b = form ? &p->groups[i].stage_packed : &p->groups[i].stage_f32;
            if (b->exists) ranges[n++] = (struct range){ "stage", b->offset, b->offset + b->stride * p->chunk, i, i };
        }
    for (uint32_t i = 0; i < g->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        ranges[n++] = (struct range){ "rotation", r->table, r->table + (uint64_t)p->chunk * r->n_rot * 4, 0, forever };
    }
    ranges[n++] = (struct range){ "parts", p->parts_offset, p->scratch_offset, 0, forever };
    ranges[n++] = (struct range){ "scratch", p->scratch_offset, p->scratch_offset + p->scratch_stride * p->options.max_threads, 0,
                                  forever };
    for (uint32_t i = 0; i < n; i++) {
        const struct range *x = &ranges[i];
        assert_int_equal(x->begin % 64, 0);
        assert_true(x->begin <= x->end && x->end <= p->arena_bytes);
        for (uint32_t k = 0; k < i; k++) {
            const struct range *y = &ranges[k];
            const bool meet = x->born <= y->dies && y->born <= x->dies, overlap = x->begin < y->end && y->begin < x->end;
            if (meet && overlap) fail_msg("%s and %s lie at the same place at the same time", x->name, y->name);
        }
    }
}

/* Decode and prefill may pack a row in different forms, for which a buffer has one place: rows of either form fit. */
static void check_forms(const struct buffer *b, uint32_t *differ)
{
    if (!b->exists) return;
    for (uint32_t form = 0; form < 2; form++) assert_true(packed_row_stride(b, form) <= b->stride);
    *differ += packed_row_stride(b, 0) < packed_row_stride(b, 1);
}

static void rows_of_both_forms(void **state)
{
    (void)state;
    static const enum quant formats[] = { QUANT_F16, QUANT_BF16, QUANT_Q8_0, QUANT_Q4_0 };
    uint32_t differ = 0;
    for (size_t i = 0; i < 2 * COUNT_OF(formats); i++) {
        struct tiny s = tiny_llama;
        s.matrix = formats[i / 2];
        s.n_embd = 256;                          /* short rows are as long in both forms */
        s.n_ff = 512;
        const struct plan *p = plan_for(tiny_model(a, &s), i % 2 ? "sapphire-rapids" : "x86-64-v4");
        for (uint32_t k = 0; k < p->fused->graph->n_nodes; k++) check_forms(&p->packed[k], &differ);
        for (uint32_t k = 0; k < p->fused->n_groups; k++) check_forms(&p->groups[k].stage_packed, &differ);
    }
    assert_true(differ > 0);
}

/* ---- the image ---- */

static void check_image(const struct plan *p)
{
    const struct model *m = p->model;
    const struct graph *g = p->fused->graph;
    uint64_t end = 0;
    for (uint32_t i = 0; i < g->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        const uint64_t row = (uint64_t)r->n_rot * 4;
        assert_true(r->n_rot == g->rotations[i].attr.n_rot && (uint64_t)r->block * r->block >= p->options.n_ctx);
        assert_true(r->lo % 64 == 0 && r->hi % 64 == 0 && r->lo >= end && r->hi >= r->lo + r->block * row);
        end = r->hi + (p->options.n_ctx / r->block + 1) * row;
        assert_true(r->lo + r->bytes == end);
    }
    uint32_t *order = arena_array(a, uint32_t, m->n_weights), n = 0;
    for (uint32_t i = 0; i < m->n_weights; i++)
        if (p->weight_offset[i] != UINT64_MAX) order[n++] = i;
    for (uint32_t i = 1; i < n; i++)                                              /* by place */
        for (uint32_t k = i; k && p->weight_offset[order[k]] < p->weight_offset[order[k - 1]]; k--) {
            const uint32_t swap = order[k];
            order[k] = order[k - 1];
            order[k - 1] = swap;
        }
    for (uint32_t i = 0; i < n; i++) {
        const struct weight *w = &m->weights[order[i]];
        const uint64_t at = p->weight_offset[order[i]];
        assert_int_equal(at % 64, 0);
        assert_true(at >= end);
        end = at + (w->is_vector ? (w->cols + 15) / 16 * 16 * 4
                    : packing_bytes(packing_of(LAYOUT_CPU, w->tensor->quant, 0), w->rows, w->cols));
    }
    assert_true(end <= p->image_hashes && p->image_hashes - end < 64);
    assert_true(p->image_bytes >= p->image_hashes + 24 + 8 * p->n_tensors && p->image_bytes - p->image_hashes < 24 + 8 * p->n_tensors + 64);
    const struct plan_tensor *tensors = plan_tensors(a, p);
    assert_int_equal(p->n_tensors, n + g->n_rotations);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const struct plan_tensor *t = &tensors[i];
        const bool turns = i < g->n_rotations;
        assert_true(i == 0 || t->offset >= tensors[i - 1].offset + tensors[i - 1].bytes);
        assert_true(turns ? !t->weight && t->rotation == i : t->weight == &m->weights[order[i - g->n_rotations]]);
        assert_true(t->offset == (turns ? p->rotations[i].lo : p->weight_offset[t->weight->index]));
    }
    assert_true(tensors[p->n_tensors - 1].offset + tensors[p->n_tensors - 1].bytes == end);
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *node = p->fused->graph->nodes[i];
        if (node->weight && node->op != OP_rope) assert_true(p->weight_offset[node->weight->index] != UINT64_MAX);
    }
}

/* States are one after the other, each large enough for its rows; every attention and store uses the right state. */
static void check_states(const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    uint64_t ends = 0, token = 0;
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state *s = &p->states[i];
        assert_true(s->offset % 64 == 0 && s->offset >= ends && s->rows >= p->options.n_ctx && s->back == UINT32_MAX);
        assert_true(s->bytes >= s->runs * s->row_bytes * s->rows && s->token_bytes == s->runs * s->row_bytes);
        ends = s->offset + s->bytes;
        token += s->token_bytes;
    }
    assert_true(p->state_bytes == ends && p->state_bytes_per_token == token && token > 0);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        if (n->op == OP_store_k || n->op == OP_store_v || n->op == OP_attention)
            assert_true(plan_state(p, n)->layer == n->layer &&
                        plan_state(p, n)->runs == 2 * (n->op == OP_attention ? n->inputs[1] : n)->heads);
    }
}

static void check_all(const struct plan *p)
{
    check_arena(p);
    check_image(p);
    check_states(p);
}

static void invariants(void **state)
{
    (void)state;
    tiny_plans(a, check_all);
}

/* ---- sizes ---- */

static void largest_sizes(void **state)
{
    (void)state;
    struct tiny s = tiny_llama;
    s.n_embd = 1u << 20, s.n_ff = 1u << 22, s.n_head = 4096, s.n_head_kv = 1, s.head_dim = 4096, s.n_vocab = 1u << 24;
    const struct model *m = tiny_model(a, &s);
    const struct plan *p = plan_of(m, FUSE_LAYER, (struct plan_options){ .n_ctx = 1u << 16, .max_threads = 1024 });
    check_all(p);
    assert_true(p->image_bytes > UINT64_C(34) << 40);
    static struct model *wide;
    s.n_head_kv = 4096;
    wide = tiny_model(a, &s);
    assert_dies(plan_of(wide, FUSE_LAYER, ((struct plan_options){ .n_ctx = 1u << 24 })), "more than 64 TB");
}

/* Offsets have 64 bits; sizes that overflow the kernels' 32 bits are refused. */
static void beyond_32_bits(void **state)
{
    (void)state;
    static struct tiny s;
    static struct model *m;
    static const struct graph *volatile graph;
    static const struct plan_options far = { .n_ctx = 1u << 24 };
    s = tiny_llama;
    s.n_ff = 1u << 22;
    m = tiny_model(a, &s);
    graph = graph_build(a, m);
    assert_dies(plan_make(a, graph, FUSE_LAYER, target_load(a, "gfx1151", NULL), &far),
                "a token's glu is 8388608 bytes; 2048 tokens are more than the GPU kernels can count");
    s = tiny_llama;
    s.n_vocab = 1u << 17, s.n_head = s.n_head_kv = 512, s.n_embd = 1u << 15;
    m = tiny_model(a, &s);
    graph = graph_build(a, m);
    assert_true(plan_of(m, FUSE_LAYER, far)->state_bytes > UINT32_MAX && plan_of(m, FUSE_LAYER, far)->image_bytes > UINT32_MAX);
    assert_dies(plan_make(a, graph, FUSE_LAYER, target_load(a, "gfx1151", NULL), &far),
                "512 heads (%0.k_cache) of 16777216 positions are more rows than the GPU kernels can count; choose --ctx 8388607 or "
                "smaller");
    struct weight *w = (struct weight *)(uintptr_t)model_weight(m, (struct place){ "test", 1, 1 }, "ffn_up", 0);
    w->rows = (uint64_t)UINT32_MAX + 1;
    assert_dies(plan_make(a, graph, FUSE_LAYER, target_load(a, "portable", NULL), &far),
                "tensor blk.0.ffn_up.weight has 4294967296 rows in all its matrices; forgec's kernels support at most 4294967295");
}

static void refusals(void **state)
{
    (void)state;
    static struct model *m;
    static struct tiny s;
    s = tiny_llama;
    s.head_dim = 20;
    s.matrix = QUANT_F16;
    m = tiny_model(a, &s);
    assert_dies(plan_of(m, FUSE_LAYER, (struct plan_options){ 0 }), "not a multiple of 8");
    m = tiny_layers(a, TURNS("%q1 = rope base=100 %q\n%q2 = rope base=200 %q1\n%q3 = rope base=300 %q2\n%q4 = rope base=400 %q3\n"
                             "%q5 = rope base=500 %q4\n%qr = rope base=600 %q5\n"));
    assert_dies(plan_of(m, FUSE_LAYER, (struct plan_options){ 0 }), "rotate in 7 different ways; forgec's CPU kernels take at most 5");
    for (s.head_dim = 40; s.head_dim <= 48; s.head_dim += 8) {
        m = tiny_model(a, &s);
        plan_of(m, FUSE_LAYER, (struct plan_options){ 0 });
        assert_dies(plan_of(m, FUSE_LAYER, (struct plan_options){ .kv = KV_TYPE_Q8_0 }), "multiple of 32");
    }
}

/* GPU kernels compute every graph, except heads larger than theirs.  V's heads are twice as wide here: attn_q's rows are used as V.  If V's
 * heads have another size than K's, each layer has two states, one after the other. */
static void values_behind_keys(void **state)
{
    (void)state;
    struct tiny s = tiny_llama;
    s.n_ff = 256;
    s.n_layer = 2;
    const struct model *m = tiny_wired(a, &s, TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n"
                                       "%v = matmul attn_q, %x\n%vc = store_v head_dim=64 %v\n%a = attention %q, %kc, %vc\n"
                                       "%x = matmul ffn_down, %a\n" TINY_OUTPUT);
    const struct plan *p = plan_of(m, FUSE_LAYER, (struct plan_options){ 0 });
    uint32_t n_attention = 0;
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *n = p->fused->graph->nodes[i];
        if (n->op != OP_attention) continue;
        assert_int_equal(plan_values_at(p, n), plan_state(p, n)->bytes);
        n_attention++;
    }
    assert_int_equal(n_attention, 2);
}

/* For speculative decoding on a GPU, a state that cannot be rewound exists once for each token of a step. */
static void states_of_drafts(void **state)
{
    (void)state;
    const struct model *m = tiny_layers(a, "%y = previous %x\n%x = add %x, %y\n");
    const struct graph *g = graph_build(a, m);
    const struct target *t = target_load(a, "gfx1151", NULL);
    const struct plan *one = plan_make(a, g, FUSE_LAYER, t, &(struct plan_options){ 0 });
    const struct plan *four = plan_make(a, g, FUSE_LAYER, t, &(struct plan_options){ .spec = SPEC_NGRAM, .columns = 4 });
    assert_true(one->n_states > 0);
    assert_int_equal(four->n_states, one->n_states);
    for (uint32_t i = 0; i < one->n_states; i++) assert_int_equal(four->states[i].bytes, 4 * one->states[i].bytes);
    static const char *const others[] = { "portable", "wasm32", "webgpu" };
    for (uint32_t i = 0; i < COUNT_OF(others); i++)
        assert_dies(plan_make(a, g, FUSE_LAYER, target_load(a, others[i], NULL), &(struct plan_options){ 0 }),
                    arena_printf(a, "target %s has no kernel for previous", others[i]));
}

static void limits(void **state)
{
    (void)state;
    static const struct { const char *v, *attention, *down; } rows[] = {
        { "attn_v, %x\n%vc = store_v", "cap=30", "attn_output" },
        { "attn_q, %x\n%vc = store_v head_dim=64", "", "ffn_down" },
        { "attn_v, %x\n%s = silu %v\n%vc = store_v %s\n#", "", "attn_output" },
    };
    static struct model *m;
    static struct tiny s;
    s = tiny_llama;
    s.n_ff = 256;                        /* as wide as attention's result */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *layer = arena_printf(a, "%%q = matmul attn_q, %%x\n%%k = matmul attn_k, %%x\n%%kc = store_k %%k\n%%v = matmul %s %%v\n"
                                            "%%a = attention %s %%q, %%kc, %%vc\n%%x = matmul %s, %%a\n", rows[i].v, rows[i].attention,
                                            rows[i].down);
        m = tiny_wired(a, &s, arena_printf(a, "%slayer:\n%s%s", TINY_INPUT, layer, TINY_OUTPUT));
        assert_true(plan_for(m, "gfx1151")->kernels->n_kernels > 0);
    }
    s = tiny_llama;
    s.head_dim = 1024;
    assert_true(plan_for(tiny_model(a, &s), "gfx1151")->kernels->n_kernels > 0);
    s.head_dim = 1056;
    m = tiny_model(a, &s);
    plan_of(m, FUSE_LAYER, (struct plan_options){ 0 });
    assert_dies(plan_for(m, "gfx1151"), "a head size of 1056 (%0.k_cache)");
}

/* Keys that are only read through windows are in a ring with the rows that a step needs, if that is less than the context. */
static void rings(void **state)
{
    (void)state;
    static const struct { uint32_t window, chunk; enum state_kind kind; uint32_t rows; } rows[] = {
        { 0, 8, STATE_KV, 64 }, { 64, 8, STATE_KV, 64 }, { 5, 8, STATE_RING, 16 }, { 9, 8, STATE_RING, 16 }, { 10, 8, STATE_RING, 32 },
        { 40, 9, STATE_RING, 48 }, { 41, 9, STATE_KV, 64 }, { 5, 64, STATE_KV, 64 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *attention = arena_printf(a, "%%a = attention window=%u %%q, %%kc, %%vc\n", rows[i].window);
        const struct model *m = tiny_layers(a, arena_printf(a, "%%q = matmul attn_q, %%x\n%%k = matmul attn_k, %%x\n%%kc = store_k %%k\n"
            "%%v = matmul attn_v, %%x\n%%vc = store_v %%v\n%s%%x = matmul attn_output, %%a\n", attention));
        const struct plan *p = plan_of(m, FUSE_LAYER, (struct plan_options){ .n_ctx = 64, .chunk = rows[i].chunk });
        const struct state *s = &p->states[0];
        assert_true(p->chunk == rows[i].chunk && s->kind == rows[i].kind && s->rows == rows[i].rows);
        assert_true(s->bytes >= s->runs * s->row_bytes * s->rows && state_ring(s) == (s->kind == STATE_RING ? s->rows : 0));
        /* the window, the token itself, and the tokens of a step */
        assert_true(s->kind == STATE_RING ? s->back >= rows[i].chunk && s->back + rows[i].window == s->rows + 1 : s->back == UINT32_MAX);
    }
}

/* ---- everything that changes the image changes its hash ---- */

static void image_hashes(void **state)
{
    (void)state;
    const struct model *m = tiny_model(a, &tiny_llama);
    struct tiny s = tiny_llama;
    const char *first = image_hash(a, plan_of(m, FUSE_LAYER, (struct plan_options){ 0 }), "x");
    assert_string_equal(first, image_hash(a, plan_of(m, FUSE_LAYER, (struct plan_options){ .max_threads = 7, .kv = KV_TYPE_F32 }), "x"));
    assert_string_not_equal(first, image_hash(a, plan_of(m, FUSE_LAYER, (struct plan_options){ 0 }), "y"));
    assert_string_not_equal(first, image_hash(a, plan_of(m, FUSE_LAYER, (struct plan_options){ .n_ctx = 32 }), "x"));
    const struct model *same =
        tiny_wired(a, &s, TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT);
    const struct model *other =
        tiny_wired(a, &s, TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope base=20000 %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT);
    assert_string_not_equal(image_hash(a, plan_of(other, FUSE_LAYER, (struct plan_options){ 0 }), "x"),
                            image_hash(a, plan_of(same, FUSE_LAYER, (struct plan_options){ 0 }), "x"));
}

/* ---- emitted text ---- */

static void put_name(struct text *t) { tiny_key(t, "general.name", GGUF_STRING); tiny_string(t, "*/ int x; /* \"\\\n?\?/"); }
static void put_bear(struct text *t) { tiny_key(t, "general.name", GGUF_STRING); tiny_string(t, "B\xc3\xa4r */ \xe2\x80\xae\xff"); }
static void put_nan(struct text *t) { tiny_pair_f32(t, "general.sampling.temp", NAN); }
static void put_huge(struct text *t) { tiny_pair_f32(t, "general.sampling.top_p", 3e38f); }
static void put_large(struct text *t) { tiny_key(t, "general.sampling.top_k", GGUF_U64); tiny_u64(t, UINT64_MAX); }
static void put_words(struct text *t) { tiny_key(t, "general.sampling.top_k", GGUF_STRING); tiny_string(t, "many"); }

static const char *emitted(void (*extra)(struct text *))
{
    struct tiny s = tiny_llama;
    s.extra = extra;
    s.n_extra = 1;
    const struct emit_options o = { .model_hash = "0", .weights_hash = "0", .options = "", .compiler = "", .compile_command = "" };
    return (const char *)emit_cpu(a, plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ 0 }), &o).data;
}

static void metadata_cannot_leave_its_place(void **state)
{
    (void)state;
    const char *text = emitted(put_name);
    assert_int_equal(strncmp(text, "/* *\\x2F int x; /\\x2A \\x22\\x5C\\x0A?\\x3F/ for portable", 48), 0);
    assert_null(strstr(text, "*/ int x"));
    assert_dies(emitted(put_nan), "general.sampling.temp");
    assert_dies(emitted(put_huge), "general.sampling.top_p is 3e+38");
    assert_dies(emitted(put_large), "general.sampling.top_k is 1.84467e+19");
    assert_dies(emitted(put_words), "general.sampling.top_k");
}

/* Letters stay, control characters are escaped once: in the source, in the output of a program, in a library's header. */
static void names_keep_their_letters(void **state)
{
    (void)state;
    static const char comment[] = "B\xc3\xa4r *\\x2F \\xE2\\x80\\xAE\\xFF for portable";
    const char *text = emitted(put_bear);
    assert_int_equal(strncmp(text + 3, comment, strlen(comment)), 0);
    assert_non_null(strstr(text, ".model_name = \"B\\303\\244r *\\134x2F \\134xE2"));
    struct tiny s = tiny_llama;
    s.extra = put_bear;
    s.n_extra = 1;
    const struct plan *p = plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ 0 });
    const struct library l = { .plan = p, .prefix = "bear", .product = "bear.o", .embedded = true, .build_hash = "0" };
    const char *header = (const char *)emit_header(a, &l).data;
    assert_non_null(strstr(header, arena_printf(a, "bear.h -- %s", comment)));
    assert_non_null(strstr(header, "\"B\\303\\244r *\\134x2F"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(invariants, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_of_both_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(largest_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(beyond_32_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(values_behind_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(states_of_drafts, setup, teardown),
        cmocka_unit_test_setup_teardown(limits, setup, teardown),
        cmocka_unit_test_setup_teardown(rings, setup, teardown),
        cmocka_unit_test_setup_teardown(image_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_cannot_leave_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(names_keep_their_letters, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
