/* test_graph.c -- wiring text to nodes and back, and what is refused, with its place. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/front/graph.h"
#include "die_capture.h"
#include "tiny_model.h"

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static const char *printed(const struct graph *g)
{
    struct text t = { .arena = a };
    graph_print(&t, g);
    return text_str(&t);
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    static const struct { const char *arch; uint32_t n_nodes; } rows[] = { { "llama", 3 + 2 * 17 }, { "qwen2", 3 + 2 * 20 }, { "qwen3", 3 + 2 * 19 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tiny s = tiny_llama;
        s.arch = rows[i].arch;
        const struct model *m = tiny_model(a, &s);
        const struct graph *g = graph_build(a, m);
        assert_int_equal(g->n_nodes, rows[i].n_nodes);
        assert_int_equal(g->output->cols, 100);
        assert_string_equal(printed(graph_parse(a, m, "again", printed(g))), printed(g));
    }
}

static void absent_tensors_vanish(void **state)
{
    (void)state;
    const struct graph *g = graph_build(a, tiny_wired(a, &tiny_llama, TINY_INPUT "layer:  # one\n\n# a comment\n%b = bias attn_q_bias?, %x # none here\n%y = add %x, %b\n%x = add %y, %b\n" TINY_OUTPUT));
    assert_int_equal(g->n_nodes, 3 + 2 * 2);
    assert_ptr_equal(g->nodes[1]->inputs[0], g->nodes[0]);
    assert_ptr_equal(g->nodes[1]->inputs[1], g->nodes[0]);
    assert_int_equal(g->nodes[0]->n_readers, 3);
    assert_string_equal(g->nodes[3]->name, "1.y");
}

static void refused(const char *wiring, const char *expected)
{
    static struct model *m;
    if (!DIES(m = tiny_wired(a, &tiny_llama, wiring))) assert_dies(graph_build(a, m), expected);
    else if (!strstr(die_text, expected)) fail_msg("message \"%s\" lacks \"%s\"", die_text, expected);
}

static void errors_name_line_and_column(void **state)
{
    (void)state;
    static const struct { const char *wiring, *expected; } rows[] = {
        { TINY_INPUT "layer:\n%x = addd %x, %x\n" TINY_OUTPUT, "llama.yaml:8:8: unknown operation addd" },
        { TINY_INPUT "layer:\n%x = add %x, %zzz\n" TINY_OUTPUT, "llama.yaml:8:16: %zzz is not defined before" },
        { TINY_INPUT "layer:\n  %y = add %x\n" TINY_OUTPUT, "llama.yaml:8:5: add takes 2 values and 0 weights" },
        { TINY_INPUT "layer:\n%y = add %x, %x,\n" TINY_OUTPUT, "expected a tensor role" },
        { TINY_INPUT "layer:\n%y = add %x, %x, %x, %x\n" TINY_OUTPUT, "too many values" },
        { TINY_INPUT "layer:\n%y = add %x, %x extra\n" TINY_OUTPUT, "llama.yaml:8:19: expected the end of the line" },
        { TINY_INPUT "layer:\n%y add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:6: expected =" },
        { TINY_INPUT "layer:\n%3y = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:4: expected a value's name" },
        { TINY_INPUT "layer:\n%a.b = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:5: expected =" },
        { TINY_INPUT "layer:\ny = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:3: expected input:" },
        { TINY_INPUT "layer:\n%x = matmul attn_zzz, %x\n" TINY_OUTPUT, "llama.yaml:8:15: there is no tensor role attn_zzz" },
        { TINY_INPUT "layer:\n%x = bias attn_q_bias, %x\n" TINY_OUTPUT, "tensor attn_q_bias is optional: write attn_q_bias?" },
        { TINY_INPUT "layer:\n%y = add %x, %x\n%y = add %x, %x\n" TINY_OUTPUT, "llama.yaml:9:3: %y is defined twice" },
        { TINY_INPUT "layer:\n%y = add %x, %x\n" TINY_OUTPUT, "%0.y is never read" },
        { TINY_INPUT "layer:\n%x = matmul attn_norm, %x\n" TINY_OUTPUT, "llama.yaml:8:3: matmul takes a matrix; attn_norm is none" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%x = matmul attn_q, %q\n" TINY_OUTPUT, "%0.q has 128 columns; attn_q takes 64" },
        { TINY_INPUT "layers:\n%x = add %x, %x\n" TINY_OUTPUT, "llama.yaml:7:3: expected input:" },
        { TINY_INPUT "layer:\n%x = add %x, %x\nlayer:\n" TINY_OUTPUT, "llama.yaml:9:3: a second section layer:" },
        { TINY_INPUT TINY_OUTPUT, "no section layer:" },
        { "%x = embed token_embd\n" TINY_INPUT "layer:\n" TINY_OUTPUT, "llama.yaml:5:3: expected input:" },
        { "", "no section input:" },
        { TINY_INPUT "layer:\n" "output:\n%logits = rmsnorm output_norm, %x\n", "the last value, %logits, comes from rmsnorm" },
        { TINY_INPUT "layer:\n" "output:\n%logits = add %x, %x\n", "has 64 columns; logits have 100" },
        { "input:\n%x = embed attn_q\nlayer:\n" TINY_OUTPUT, "attn_q is a tensor of a layer" },
        { TINY_INPUT "layer:\n%z = embed attn_q\n%x = add %x, %z\n" TINY_OUTPUT, "tensor attn_q has 128 rows; 100 are needed here" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%n = headnorm attn_norm, %q\n%x = matmul attn_output, %n\n" TINY_OUTPUT, "tensor attn_norm has 64 items; 32 are needed here" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%n = rope attn_norm, %q\n%x = matmul attn_output, %n\n" TINY_OUTPUT, "tensor attn_norm has 64 items; 16 are needed here" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%kc = store_k %q\n%x = add %x, %x\n" TINY_OUTPUT, "%0.q has 128 columns; store_k takes 64" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%x = add %kc, %x\n" TINY_OUTPUT, "%0.kc lies in the KV cache" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%kd = store_k %x\n" TINY_OUTPUT, "a second store_k in layer 0" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%x = attention %x, %kc, %kc\n" TINY_OUTPUT, "attention reads a query, and a store_k and a store_v" },
        { "input:\n%x = embed token_embd\n%kc = store_k %x\nlayer:\n" TINY_OUTPUT, "store_k outside the layers" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) refused(rows[i].wiring, rows[i].expected);
}

static void embeddings_cannot_vanish(void **state)
{
    (void)state;
    static struct model *m;
    m = tiny_yaml(a, &tiny_llama, "architecture: llama\ninherits: transformer\nrope: normal\ntensors:\n  extra: {name: extra.weight, shape: [n_vocab, n_embd], optional: true}\n"
                                  "graph: |\n    input:\n      %x = embed extra?\n    layer:\n    output:\n      %l = matmul output, %x\n");
    assert_dies(graph_build(a, m), "llama.yaml:8:7: the tensor of embed is absent");
}

static void unrolled_text(void **state)
{
    (void)state;
    static struct model *m;
    m = tiny_model(a, &tiny_llama);
    static const struct { const char *text, *expected; } rows[] = {
        { "", "the graph is empty" },
        { "%x = embed token_embd\n%2.y = rmsnorm 0.attn_norm, %x\n", "t:2:2: expected LAYER.name with a layer below 2" },
        { "%x = embed token_embd\n%4294967296.y = rmsnorm 0.attn_norm, %x\n", "t:2:2: expected LAYER.name" },
        { "%x = embed token_embd\n%0y = rmsnorm 0.attn_norm, %x\n", "t:2:2: expected LAYER.name" },
        { "%x = embed token_embd\n%0.y = rmsnorm 99999999999.attn_norm, %x\n", "t:2:16: expected LAYER.name" },
        { "%x = embed token_embd\n%0.y = rmsnorm attn_norm, %x\n", "attn_norm is a tensor of a layer" },
        { "%x = embed token_embd\n%x = add %x, %x\n", "t:2:1: %x is defined twice" },
        { "\xff\xfe%x", "t:1:1: expected %value" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(graph_parse(a, m, "t", rows[i].text), rows[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_printed_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(absent_tensors_vanish, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_line_and_column, setup, teardown),
        cmocka_unit_test_setup_teardown(embeddings_cannot_vanish, setup, teardown),
        cmocka_unit_test_setup_teardown(unrolled_text, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
