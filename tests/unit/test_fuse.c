/* test_fuse.c -- the operations that become one kernel, as fuse_print shows them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/fuse.h"
#include "die_capture.h"
#include "runtime/model/abi.h"
#include "tiny_model.h"

static struct arena *a;
static const struct absorbs products = { .product_heads = true, .joined_rows = 16 },
                            attention = { .attention_heads = true, .attention_most = 32 };

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* The groups of layer 0, without numbers, names and layer. */
static const char *layer_0(const struct fused *f)
{
    struct text all = { .arena = a }, t = { .arena = a };
    fuse_print(&all, f);
    for (const char *p = text_str(&all); *p; p += strcspn(p, "\n") + 1)
        if (strncmp(p + 6, "0.", 2) == 0) text_printf(&t, "%.*s\n", (int)strcspn(strchr(p, ':') + 2, "\n"), strchr(p, ':') + 2);
    return text_str(&t);
}

static struct fused *fused_wiring(const char *layer)
{
    return fuse(a, graph_build(a, tiny_layers(a, layer)), FUSE_LAYER, &products);
}

static void architectures(void **state)
{
    (void)state;
    static const struct { const char *arch; uint32_t none, layer; const char *qkv; } rows[] = {
        { "llama", 3 + 2 * 17, 2 + 2 * 5, "rmsnorm matmul(attn_q) rope matmul(attn_k) rope store_k matmul(attn_v) store_v\n" },
        { "qwen2", 3 + 2 * 20, 2 + 2 * 5,
          "rmsnorm matmul(attn_q) bias rope matmul(attn_k) bias rope store_k matmul(attn_v) bias store_v\n" },
        { "qwen3", 3 + 2 * 19, 2 + 2 * 5,
          "rmsnorm matmul(attn_q) headnorm rope matmul(attn_k) headnorm rope store_k matmul(attn_v) store_v\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tiny s = tiny_llama;
        s.arch = rows[i].arch;
        const struct graph *g = graph_build(a, tiny_model(a, &s));
        assert_int_equal(fuse(a, g, FUSE_NONE, &products)->n_groups, rows[i].none);
        const struct fused *f = fuse(a, g, FUSE_LAYER, &products);
        assert_int_equal(f->n_groups, rows[i].layer);
        assert_string_equal(layer_0(f), arena_printf(a, "%s%s", rows[i].qkv, "attention\n"
            "matmul(attn_output) add\n"
            "rmsnorm matmul(ffn_gate) glu_silu matmul(ffn_up)\n"
            "matmul(ffn_down) add\n"));
        assert_string_equal(f->groups[1].name, "attn_qkv");
        assert_string_equal(f->groups[4].name, "ffn_gate_up");
    }
}

/* Attention and feed-forward in parallel: one norm, five siblings, both orders of the operands of add. */
static void parallel_block(void **state)
{
    (void)state;
    assert_string_equal(layer_0(fused_wiring("%n = rmsnorm attn_norm, %x\n" TINY_ATTENTION("%n") TINY_FFN("%n") "%s = add %d, %x\n%x = add "
        "%s, %ao\n")),
        "rmsnorm matmul(attn_q) rope matmul(attn_k) rope store_k matmul(attn_v) store_v matmul(ffn_gate) glu_silu matmul(ffn_up)\n"
        "attention\n"
        "matmul(attn_output)\n"
        "matmul(ffn_down) add add\n");
}

static void a_norm_with_other_readers_is_stored(void **state)
{
    (void)state;
    assert_string_equal(layer_0(fused_wiring("%n = rmsnorm ffn_norm, %x\n" TINY_FFN("%n") "%x = add %d, %n\n")),
        "rmsnorm\nmatmul(ffn_gate) glu_silu matmul(ffn_up)\nmatmul(ffn_down) add\n");
}

/* A value with two readers, also as both operands of one node, is not kept in registers. */
static void values_read_twice_are_stored(void **state)
{
    (void)state;
    assert_string_equal(layer_0(fused_wiring("%g = matmul ffn_gate, %x\n%y = glu_silu %g, %g\n%d = matmul ffn_down, %y\n%e = add %d, "
                                             "%x\n%x = add %e, %d\n")), "matmul(ffn_gate)\nglu_silu\nmatmul(ffn_down)\nadd\nadd\n");
}

/* Only biases may be between up and its glu: any other operation stays a separate kernel. */
static void glu_partners(void **state)
{
    (void)state;
    assert_string_equal(layer_0(fused_wiring("%g = matmul attn_q, %x\n%u = matmul attn_q, %x\n%r = rope %u\n%y = glu_silu %g, %r\n%x = "
                                             "matmul attn_output, %y\n")),
                                             "matmul(attn_q) matmul(attn_q) rope\nglu_silu\nmatmul(attn_output)\n");
    assert_string_equal(layer_0(fused_wiring("%g = matmul attn_q, %x\n%u = matmul attn_q, %x\n%r = rope %g\n%y = glu_silu %r, %u\n%x = "
                                             "matmul attn_output, %y\n")),
                                             "matmul(attn_q) rope glu_silu matmul(attn_q)\nmatmul(attn_output)\n");
    /* One glu per branch. */
    assert_string_equal(layer_0(fused_wiring("%g = matmul ffn_gate, %x\n%u = matmul ffn_up, %x\n%v = matmul ffn_up, %x\n"
                                             "%y = glu_silu %g, %u\n%z = glu_gelu %y, %v\n%x = matmul ffn_down, %z\n")),
        "matmul(ffn_gate) glu_silu matmul(ffn_up) matmul(ffn_up)\nglu_gelu\nmatmul(ffn_down)\n");
}

/* The sum of two branches of one kernel needs both results, so it is a separate kernel. */
static void add_of_two_fresh_branches(void **state)
{
    (void)state;
    assert_string_equal(layer_0(fused_wiring("%g = matmul ffn_gate, %x\n%u = matmul ffn_up, %x\n%y = add %g, %u\n%x = matmul ffn_down, "
                                             "%y\n")), "matmul(ffn_gate) matmul(ffn_up)\nadd\nmatmul(ffn_down)\n");
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct text t = { .arena = a };
    text_puts(&t, "%n = rmsnorm attn_norm, %x\n%s0 = matmul attn_q, %n\n");
    for (uint32_t i = 1; i < 20; i++)
        text_printf(&t, "%%m%u = matmul attn_q, %%n\n%%h%u = headnorm some_norm, %%m%u\n%%s%u = add %%s%u, %%h%u\n", i, i, i, i, i - 1, i);
    for (uint32_t i = 20; i < 40; i++) text_printf(&t, "%%s%u = add %%s%u, %%s0\n", i, i - 1);
    text_puts(&t, "%x = matmul attn_output, %s39\n");
    struct text yaml = { .arena = a };
    text_puts(&yaml, "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\n"
                     "tensors:\n  some_norm: {name: \"blk.{l}.attn_norm.weight\", shape: [head_dim]}\n"
                     "  attn_norm: {name: \"blk.{l}.attn_norm.weight\", shape: [n_embd]}\ngraph: |\n  input:\n    %x = embed token_embd\n  "
                     "layer:\n");
    for (const char *p = text_str(&t); *p; p += strcspn(p, "\n") + 1) text_printf(&yaml, "    %.*s\n", (int)strcspn(p, "\n"), p);
    text_puts(&yaml, "  output:\n    %norm = rmsnorm output_norm, %x\n    %logits = matmul output, %norm\n");
    struct tiny s = tiny_llama;
    s.head_dim = s.n_embd;               /* the same tensor is used for both norms */
    const struct fused *f = fuse(a, graph_build(a, tiny_yaml(a, &s, text_str(&yaml))), FUSE_LAYER, &products);
    uint32_t n_nodes = 0;
    for (uint32_t i = 0; i < f->n_groups; i++) {
        const struct group *g = &f->groups[i];
        uint32_t n_weights = g->norm && g->norm->weight;
        assert_true(g->n_branches <= MAX_BRANCHES);
        n_nodes += (g->norm ? 1u : 0u) + (g->node ? 1u : 0u);
        for (uint32_t b = 0; b < g->n_branches; b++) {
            assert_true(g->branches[b].n_chain <= MAX_CHAIN);
            n_nodes += (g->branches[b].matmul ? 1u : 0u) + g->branches[b].n_chain;
            n_weights += g->branches[b].matmul != NULL;
            for (uint32_t k = 0; k < g->branches[b].n_chain; k++) n_weights += g->branches[b].chain[k]->weight != NULL;
        }
        assert_true(n_weights <= FORGE_MAX_WEIGHTS);
    }
    assert_true(n_nodes >= f->graph->n_nodes);           /* no operation is lost; norms may be recomputed in several groups */
}

/* If products do not compute whole heads, attention finishes the heads, provided that no other operation reads them. */
static void heads_of_attention(void **state)
{
    (void)state;
    struct tiny s = tiny_llama;
    s.arch = "qwen3";
    const struct fused *f = fuse(a, graph_build(a, tiny_model(a, &s)), FUSE_LAYER, &attention);
    assert_string_equal(layer_0(f),
                        "rmsnorm matmul(attn_q) matmul(attn_k) matmul(attn_v)\nheadnorm rope headnorm rope store_k store_v attention\n"
                                    "matmul(attn_output) add\nrmsnorm matmul(ffn_gate) glu_silu matmul(ffn_up)\nmatmul(ffn_down) add\n");
    const struct group *g = &f->groups[2];
    assert_true(g->has_heads && !g->joins && g->projection == &f->groups[1]);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(g->heads[i].branch, i);
        assert_ptr_equal(g->heads[i].raw, g->projection->branches[i].result);
        assert_int_equal(fuse_group(f, g->node->inputs[i]), 2);
    }
    assert_true(g->heads[0].norm && g->heads[1].norm && !g->heads[2].norm && g->heads[0].rope && g->heads[1].rope && !g->heads[2].rope);
    assert_true(!g->heads[0].store && g->heads[1].store && g->heads[2].store);
    assert_int_equal(fuse_last_store(f), 7);
    for (uint32_t i = 0; i < f->graph->n_nodes; i++) assert_true(f->group_of[i] == NO_GROUP || f->group_of[i] < f->n_groups);
}

/* Heads with more items than attention can finish, and norms that are not per head. */
static void heads_of_another_kind(void **state)
{
    (void)state;
    static const char *const alone = "rmsnorm matmul(attn_q) matmul(attn_k) matmul(attn_v)\nrope\nrope\nstore_k\nstore_v\nattention\n";
    static const char *const norms =
        "%n = rmsnorm attn_norm, %x\n%q = matmul attn_q, %n\n%qn = headnorm %q\n%qr = rope %qn\n%k = matmul attn_k, %n\n%kr = rope %k\n"
        "%kc = store_k %kr\n%v = matmul attn_v, %n\n%vc = store_v %v\n%a = attention %qr, %kc, %vc\n%x = matmul attn_output, %a\n";
    static const char *const first =
        "%n = rmsnorm attn_norm, %x\n%q = matmul attn_q, %n\n%qr = rope n_rot=16 rot_first=8 %q\n%k = matmul attn_k, %n\n"
        "%kr = rope n_rot=16 rot_first=8 %k\n%kc = store_k %kr\n%v = matmul attn_v, %n\n%vc = store_v %v\n"
        "%a = attention %qr, %kc, %vc\n%x = matmul attn_output, %a\n";
    struct tiny s = tiny_llama;
    s.head_dim = 48;
    assert_memory_equal(layer_0(fuse(a, graph_build(a, tiny_model(a, &s)), FUSE_LAYER, &attention)), alone, strlen(alone));
    assert_non_null(strstr(layer_0(fuse(a, graph_build(a, tiny_layers(a, norms)), FUSE_LAYER, &attention)), "headnorm\nrope\nrope\n"));
    assert_memory_equal(layer_0(fuse(a, graph_build(a, tiny_layers(a, first)), FUSE_LAYER, &attention)), alone, strlen(alone));
    static const char *const centered =
        "%n = rmsnorm attn_norm, %x\n%q = matmul attn_q, %n\n%qn = layernorm_heads %q\n%qr = rope %qn\n%k = matmul attn_k, %n\n"
        "%kn = layernorm_heads %k\n%kr = rope %kn\n%kc = store_k %kr\n%v = matmul attn_v, %n\n%vc = store_v %v\n"
        "%a = attention %qr, %kc, %vc\n%x = matmul attn_output, %a\n";
    assert_string_equal(layer_0(fuse(a, graph_build(a, tiny_layers(a, centered)), FUSE_LAYER, &attention)),
                        "rmsnorm matmul(attn_q) matmul(attn_k) matmul(attn_v)\nlayernorm_heads\nrope\nlayernorm_heads\nrope\nstore_k\n"
                        "store_v\nattention\nmatmul(attn_output)\n");
    assert_string_equal(layer_0(fused_wiring(centered)),
                        "rmsnorm matmul(attn_q) layernorm_heads rope matmul(attn_k) layernorm_heads rope store_k matmul(attn_v) store_v\n"
                        "attention\nmatmul(attn_output)\n");
}

#define TWO_READERS(q, k) \
    "%n = rmsnorm attn_norm, %x\n%mq = matmul attn_q, %n\n%rq = rope %mq\n%mk = matmul attn_k, %n\n%rk = rope %mk\n%ck = store_k "         \
    "" k "\n%mv = matmul attn_v, %n\n%cv = store_v %mv\n"                                                                                  \
    "%kqv = attention " q ", %ck, %cv\n%s = add %kqv, %rq\n%x = matmul attn_output, %s\n"

/* A rotated query that an add reads too, or a rotation of only q or k, is a separate kernel. */
static void heads_that_attention_leaves(void **state)
{
    (void)state;
    static const char *const alone =
        "rmsnorm matmul(attn_q) matmul(attn_k) matmul(attn_v)\nrope\nrope\nstore_k\nstore_v\nattention\nadd\nmatmul(attn_output)\n";
    assert_string_equal(layer_0(fuse(a, graph_build(a, tiny_layers(a, TWO_READERS("%rq", "%rk"))), FUSE_LAYER, &attention)), alone);
    const char *one =
        "%n = rmsnorm attn_norm, %x\n%mq = matmul attn_q, %n\n%mk = matmul attn_k, %n\n%rk = rope %mk\n%ck = store_k %rk\n%mv = matmul "
        "attn_v, %n\n%cv = store_v %mv\n"
                      "%kqv = attention %mq, %ck, %cv\n%x = matmul attn_output, %kqv\n";
    assert_string_equal(layer_0(fuse(a, graph_build(a, tiny_layers(a, one)), FUSE_LAYER, &attention)),
                        "rmsnorm matmul(attn_q) matmul(attn_k) matmul(attn_v)\nrope\nstore_k\nstore_v\nattention\nmatmul(attn_output)\n");
}

/* If a target's kernels need gate and up in the same format, gate and up of different formats are two products and a separate glu. */
static void gates_of_two_formats(void **state)
{
    (void)state;
    const struct absorbs alike = { .attention_heads = true, .attention_most = 32, .gates_alike = true };
    struct model *m = tiny_model(a, &tiny_llama);
    struct gguf_tensor *up = (struct gguf_tensor *)(uintptr_t)gguf_tensor_find(m->gguf, "blk.0.ffn_up.weight");
    const char *whole = "rmsnorm matmul(ffn_gate) glu_silu matmul(ffn_up)\n",
               *parts = "rmsnorm matmul(ffn_gate) matmul(ffn_up)\nglu_silu\n";
    assert_non_null(strstr(layer_0(fuse(a, graph_build(a, m), FUSE_LAYER, &alike)), whole));
    up->quant = format_of(QUANT_Q4_0);
    assert_non_null(strstr(layer_0(fuse(a, graph_build(a, m), FUSE_LAYER, &alike)), parts));
    assert_non_null(strstr(layer_0(fuse(a, graph_build(a, m), FUSE_LAYER, &products)), whole));
}

/* Threads continue from heads to attention without a barrier only if every unit of rows is a head. */
static void joined_attention(void **state)
{
    (void)state;
    const struct graph *g = graph_build(a, tiny_model(a, &tiny_llama));
    assert_true(fuse(a, g, FUSE_LAYER, &products)->groups[2].joins == (g->model->layers[0].head_dim % 16 == 0));
    assert_false(fuse(a, g, FUSE_LAYER, &(struct absorbs){ .product_heads = true })->groups[2].joins);
    assert_false(fuse(a, g, FUSE_LAYER, &(struct absorbs){ .product_heads = true,
                                                           .joined_rows = 2 * g->model->layers[0].head_dim })->groups[2].joins);
    assert_true(fuse(a, g, FUSE_LAYER, &(struct absorbs){ .product_heads = true,
                                                          .joined_rows = g->model->layers[0].head_dim })->groups[2].joins);
    const char *parallel = "%n = rmsnorm attn_norm, %x\n" TINY_ATTENTION("%n") TINY_FFN("%n") "%s = add %d, %x\n%x = add %s, %ao\n";
    assert_false(fused_wiring(parallel)->groups[2].joins);             /* gate and up are computed with the heads */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(architectures, setup, teardown),
        cmocka_unit_test_setup_teardown(parallel_block, setup, teardown),
        cmocka_unit_test_setup_teardown(gates_of_two_formats, setup, teardown),
        cmocka_unit_test_setup_teardown(a_norm_with_other_readers_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(values_read_twice_are_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(glu_partners, setup, teardown),
        cmocka_unit_test_setup_teardown(add_of_two_fresh_branches, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_of_attention, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_of_another_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_that_attention_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(joined_attention, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
