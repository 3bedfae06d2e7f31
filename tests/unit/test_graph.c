/* test_graph.c -- converts wiring text to nodes and back; errors with their place. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

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
    static const struct { const char *arch; uint32_t n_nodes; } rows[] = { { "llama", 3 + 2 * 17 }, { "qwen2", 3 + 2 * 20 },
                                                                          { "qwen3", 3 + 2 * 19 } };
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

/* ---- attributes ---- */

#define ATTENTION(attributes, inner) \
    TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n%v = matmul attn_v, %x\n%vc = store_v %v\n" \
    "%a = attention " attributes "%q, %kc, %vc\n%x = matmul attn_output, " inner "\n" TINY_OUTPUT

static const struct node *find(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) if (strcmp(g->nodes[i]->name, name) == 0) return g->nodes[i];
    fail_msg("no value %s", name);
    return NULL;
}

static void attributes_of_a_line(void **state)
{
    (void)state;
    const struct model *m = tiny_wired(a, &tiny_llama, ATTENTION("window=1024 scale=0.1 cap=3e1 ", "%a"));
    const struct graph *g = graph_build(a, m);
    const struct node_attrs *attr = &find(g, "1.a")->attr;
    assert_true(attr->window == 1024 && attr->scale == 0.1 && attr->cap == 30 && attr->head_dim == 32);
    assert_non_null(strstr(printed(g), "%1.a = attention head_dim=32 scale=0.1 cap=30 window=1024 causal=true %1.q, %1.kc, %1.vc"));
    assert_string_equal(printed(graph_parse(a, m, "again", printed(g))), printed(g));
    /* Attributes that a line does not give: a literal, a parameter, or a value derived from others. */
    g = graph_build(a, tiny_wired(a, &tiny_llama, ATTENTION("", "%a")));
    attr = &find(g, "0.a")->attr;
    assert_true(attr->window == 0 && attr->scale == 1 / sqrt(32) && attr->cap == 0);
    assert_true(find(g, "norm")->attr.eps == (double)1e-5f);
    assert_string_equal(printed(graph_parse(a, m, "again", printed(g))), printed(g));
}

#define OWN "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: true\n"

/* The wiring of ATTENTION with the architecture's own parameters. */
static struct model *with_parameters(const struct tiny *s, const char *parameters, const char *wiring)
{
    struct text t = { .arena = a };
    text_printf(&t, OWN "%sgraph: |\n", parameters);
    for (const char *p = wiring; *p; p += strcspn(p, "\n"), p += *p == '\n') text_printf(&t, "  %.*s\n", (int)strcspn(p, "\n"), p);
    return tiny_yaml(a, s, text_str(&t));
}

static void put_windows(struct text *t)          /* one per layer, and a pattern of layers */
{
    tiny_key(t, "llama.attention.sliding_window", GGUF_ARRAY);
    tiny_u32(t, GGUF_U32);
    tiny_u64(t, 2);
    tiny_u32(t, 7);
    tiny_u32(t, 9);
    tiny_pair_f32(t, "llama.logit_scale", 0.25f);
    tiny_key(t, "llama.attention.sliding_window_pattern", GGUF_ARRAY);
    tiny_u32(t, GGUF_BOOL);
    tiny_u64(t, 2);
    text_append(t, "\0\1", 2);
}

static void parameters_of_an_architecture(void **state)
{
    (void)state;
    const char *window = "  window: {key: \"{arch}.attention.sliding_window\", type: u32, per_layer: true, default: 5}\n";
    struct tiny s = tiny_llama;
    const struct graph *g = graph_build(a, with_parameters(&s, window, ATTENTION("window=window ", "%a")));
    assert_true(find(g, "0.a")->attr.window == 5 && find(g, "1.a")->attr.window == 5);
    s.extra = put_windows;
    s.n_extra = 3;
    const char *both = "  window: {key: \"{arch}.attention.sliding_window\", type: u32, per_layer: true, where: near, otherwise: 0}\n"
                       "  near: {key: \"{arch}.attention.sliding_window_pattern\", type: bool, per_layer: true, default: [true, false]}\n"
                       "  factor: {key: \"{arch}.logit_scale\", type: f64}\n";
    g = graph_build(a, with_parameters(&s, both, ATTENTION("window=window scale=factor ", "%a")));
    assert_true(find(g, "0.a")->attr.window == 0 && find(g, "1.a")->attr.window == 9 && find(g, "1.a")->attr.scale == 0.25);
    /* A key of an unused parameter must not count as read. */
    static const struct model *m;
    m = with_parameters(&s, both, ATTENTION("window=window ", "%a"));
    assert_dies(graph_build(a, m), "tiny has the key llama.logit_scale, parameter factor, which neither the graph nor a shape uses");
    m = with_parameters(&s, both, ATTENTION("scale=factor ", "%a"));
    assert_dies(graph_build(a, m), "parameter window, which neither");
    m = with_parameters(&s, both,
                        TINY_INPUT "layer:\noutput:\n%norm = rmsnorm output_norm, %x\n%q = matmul output, %norm\n"
                        "%l = rope head_dim=2 n_rot=window %q\n");
    assert_dies(graph_build(a, m), "window differs by layer, and this belongs to no layer");
}

/* Sizes that differ by layer: the first layer's tensors fit, the second's do not. */
static void sizes_by_layer(void **state)
{
    (void)state;
    static struct tiny s;
    s = tiny_llama;
    s.omit = "attention.key_length";
    assert_dies(with_parameters(&s, "  head_dim: {default: [32, 64], per_layer: true}\n", ATTENTION("", "%a")),
                "tensor blk.1.attn_q.weight is 128 x 64; the hyperparameters ask for 256 x 64");
    s.omit = "feed_forward_length";
    assert_dies(with_parameters(&s, "  n_ff: {default: [96, 95], per_layer: true}\n", ATTENTION("", "%a")),
                "tensor blk.1.ffn_gate.weight is 96 x 64; the hyperparameters ask for 95 x 64");
    /* A dimension that the architecture defines. */
    const char *own = "  wide: {type: u32, default: 128}\ntensors:\n  attn_q: {name: \"blk.{l}.attn_q.weight\", shape: [wide, n_embd]}\n";
    assert_int_equal(find(graph_build(a, with_parameters(&tiny_llama, own, ATTENTION("", "%a"))), "1.q")->cols, 128);
}

static void rotations(void **state)
{
    (void)state;
    const char *wiring = TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope base=base %q\n%s = rope base=base n_rot=16 %r\n"
                         "%t = rope base=base neox=true %s\n"
                         "%x = matmul attn_output, %t\n" TINY_OUTPUT;
    const struct graph *g = graph_build(a,
                                        with_parameters(&tiny_llama, "  base: {type: f64, per_layer: true, default: [10000, 500000]}\n",
                                                        wiring));
    assert_int_equal(g->n_rotations, 4);
    static const struct { const char *name; uint32_t rotation, n_rot; double base; } rows[] = {
        { "0.r", 0, 32, 10000 }, { "0.s", 1, 16, 10000 }, { "0.t", 0, 32, 10000 }, { "1.r", 2, 32, 500000 }, { "1.s", 3, 16,
                                                                                                              500000 }, { "1.t", 2, 32,
                                                                                                                         500000 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct node *n = find(g, rows[i].name);
        assert_int_equal(n->rotation, rows[i].rotation);
        assert_true(g->rotations[n->rotation].attr.n_rot == rows[i].n_rot && g->rotations[n->rotation].attr.base == rows[i].base);
    }
}

static void absent_tensors_vanish(void **state)
{
    (void)state;
    const char *wiring = TINY_INPUT "layer:  # one\n\n# a comment\n%b = bias attn_q_bias?, %x # none here\n%y = add %x, %b\n"
                         "%x = add %y, %b\n" TINY_OUTPUT;
    const struct graph *g = graph_build(a, tiny_wired(a, &tiny_llama, wiring));
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
        { TINY_INPUT "layer:\n%y = add %x, %x, %x, %x, %x\n" TINY_OUTPUT, "llama.yaml:8:3: add takes 2 values and 0 weights" },
        { TINY_INPUT "layer:\n%y = add %x, %x, %x, %x, %x, %x\n" TINY_OUTPUT, "llama.yaml:8:32: too many values" },
        { TINY_INPUT "layer:\n%y = add %x, %x extra\n" TINY_OUTPUT, "llama.yaml:8:19: expected the end of the line" },
        { TINY_INPUT "layer:\n%y add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:6: expected =" },
        { TINY_INPUT "layer:\n%3y = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:4: expected a value's name" },
        { TINY_INPUT "layer:\n%a.b = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:5: expected =" },
        { TINY_INPUT "layer:\ny = add %x, %x\n" TINY_OUTPUT, "llama.yaml:8:3: expected input:" },
        { TINY_INPUT "layer:\n%x = matmul attn_zzz, %x\n" TINY_OUTPUT, "llama.yaml:8:15: there is no tensor role attn_zzz" },
        { TINY_INPUT "layer:\n%x = bias attn_q_bias, %x\n" TINY_OUTPUT, 
         "tensor blk.0.attn_q.bias (or blk.0.attn_qkv.bias) is missing, which architecture llama needs in every layer; " },
        { TINY_INPUT "layer:\n%y = add %x, %x\n%y = add %x, %x\n" TINY_OUTPUT, "llama.yaml:9:3: %y is defined twice" },
        { TINY_INPUT "layer:\n%y = add %x, %x\n" TINY_OUTPUT, "%0.y is never read" },
        { TINY_INPUT "layer:\n%x = matmul attn_norm, %x\n" TINY_OUTPUT,
          "llama.yaml:8:3: matmul takes a matrix; attn_norm is not a matrix" },
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
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%n = headnorm attn_norm, %q\n%x = matmul attn_output, %n\n" TINY_OUTPUT,
         "tensor attn_norm has 64 items; 32 are needed here" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%n = rope attn_norm, %q\n%x = matmul attn_output, %n\n" TINY_OUTPUT,
         "tensor attn_norm has 64 items; 16 are needed here" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%kc = store_k %q\n%x = add %x, %x\n" TINY_OUTPUT,
         "%0.q has 128 columns; store_k takes 64" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%x = add %kc, %x\n" TINY_OUTPUT, "%0.kc lies in the KV cache" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%kd = store_k %x\n" TINY_OUTPUT, "a second store_k in layer 0" },
        { TINY_INPUT "layer:\n%kc = store_k %x\n%x = attention %x, %kc, %kc\n" TINY_OUTPUT,
         "attention reads a query, and a store_k and a store_v" },
        { "input:\n%x = embed token_embd\n%kc = store_k %x\nlayer:\n" TINY_OUTPUT, "store_k outside the layers" },
        { ATTENTION("wndow=3 ", "%a"), "llama.yaml:13:18: attention has no attribute wndow; it has head_dim, scale, cap, window" },
        { TINY_INPUT "layer:\n%x = add eps=1 %x, %x\n" TINY_OUTPUT, "llama.yaml:8:12: add has no attribute eps; it has no attributes" },
        { ATTENTION("window=3 cap=1 window=3 ", "%a"), "llama.yaml:13:33: window is given twice" },
        { ATTENTION("window= ", "%a"), "llama.yaml:13:25: expected the value of window" },
        { ATTENTION("window=1.5 ", "%a"), "llama.yaml:13:25: window=1.5: a whole number is needed, or a parameter" },
        { ATTENTION("window=-1 ", "%a"), "window=-1: a whole number is needed" },
        { ATTENTION("window=true ", "%a"), "window=true: a whole number is needed" },
        { ATTENTION("window=4294967296 ", "%a"), "llama.yaml:13:25: window=4294967296 is 4294967296; it must be from 0 to 4294967295" },
        { ATTENTION("scale=0x1 ", "%a"), "scale=0x1: a number is needed" },
        { ATTENTION("scale=1e999 ", "%a"), "scale=1e999: a number is needed" },
        { ATTENTION("scale=nan ", "%a"), "scale=nan: there is no parameter of that name" },
        { ATTENTION("window=rope_base ", "%a"), "window=rope_base: a whole number is needed, and the parameter is a number" },
        { ATTENTION("head_dim=n_layer ", "%a"), "attention: heads of the query have 2 items, but heads of %0.kc have 32" },
        { ATTENTION("head_dim=window ", "%a"), "llama.yaml:13:27: head_dim=window is 0 in layer 0; it must be from 2 to 1048576" },
        { ATTENTION("window=3, ", "%a"), "expected" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope neox=1 %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT,
         "llama.yaml:9:18: neox=1: true or false is needed" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope n_rot=34 %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT,
         "n_rot is 34; it must be even and at most head_dim, 32" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope n_rot=7 %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT,
         "n_rot is 7; it must be even" },
        { TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%r = rope beta_slow=32 %q\n%x = matmul attn_output, %r\n" TINY_OUTPUT,
         "beta_fast is 32 and beta_slow 32" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) refused(rows[i].wiring, rows[i].expected);
}

/* ---- blocks ---- */

/* Blocks, the text of that section, and a wiring whose lines begin at column 3. */
static struct model *with_blocks(const char *blocks, const char *wiring)
{
    return with_parameters(&tiny_llama, arena_printf(a, "  near: {type: bool, per_layer: true, default: [true, false]}\n"
                                                     "  ten: {type: u32, default: 10}\n%s", blocks), wiring);
}

static void blocks(void **state)
{
    (void)state;
    /* The lines of a block replace its use; conditions test a parameter of the layer, or whether the file has a tensor. */
    const char *lines = "blocks:\n  both: |\n    use one\n    use two # the other\n"
                        "  one: |\n    %y = add %x, %x\n\n  two: |\n    # a comment\n"
                        "    %z = add %y, %x\n  never: |\n    %y = nonsense\n";
    const struct model *m = with_blocks(lines, TINY_INPUT "layer:\nuse both\nuse never if attn_q_bias\nuse never unless ten\n"
                                        "%u = add %z, %y\nuse more if near\nuse less unless near\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "llama.yaml:27:7: there is no block more");
    lines = arena_printf(a, "%s  more: |\n    %%x = add %%u, %%z\n  less: |\n    %%x = add %%u, %%y\n", lines);
    m = with_blocks(lines, TINY_INPUT "layer:\nuse both\n  use\tnever if attn_q_bias # a comment\nuse never unless ten\n"
                    "%u = add %z, %y\nuse more if near\nuse less unless near\n" TINY_OUTPUT);
    const struct graph *g = graph_build(a, m);
    assert_int_equal(g->n_nodes, 3 + 2 * 4);
    assert_ptr_equal(find(g, "0.x")->inputs[1], find(g, "0.z"));
    assert_ptr_equal(find(g, "1.x")->inputs[1], find(g, "1.y"));
    assert_string_equal(printed(graph_parse(a, m, "again", printed(g))), printed(g));
    /* A file's block replaces the inherited block everywhere. */
    m = tiny_yaml(a, &tiny_llama, OWN "blocks:\n  dense_glu: |\n    %glu = glu_gelu %gate_bias, %up_bias\n");
    assert_int_equal(find(graph_build(a, m), "1.glu")->op, OP_glu_gelu);
    assert_int_equal(find(graph_build(a, tiny_model(a, &tiny_llama)), "1.glu")->op, OP_glu_silu);
}

static void mistakes_in_blocks(void **state)
{
    (void)state;
#define ONE "blocks:\n  one: |\n    %y = add %x, %x\n    %x = add %y, %zz\n"
    static const struct { const char *blocks, *layer, *expected; } rows[] = {
        { ONE, "use one\n", "llama.yaml:10:18: %zz is not defined before" },
        { ONE, "use\n", "llama.yaml:15:6: expected a block" },
        { ONE, "use \n", "llama.yaml:15:7: expected a block" },
        { ONE, "use 1\n", "llama.yaml:15:7: expected a block" },
        { ONE, "use two\n", "llama.yaml:15:7: there is no block two" },
        { ONE, "use one when near\n", "llama.yaml:15:11: expected if, unless or the end of the line" },
        { ONE, "use one, one\n", "llama.yaml:15:10: expected the end of the line" },
        { ONE, "use one if\n", "llama.yaml:15:13: expected a parameter or a tensor role" },
        { ONE, "use one if %x\n", "llama.yaml:15:14: expected a parameter or a tensor role" },
        { ONE, "use one unless farr\n", "llama.yaml:15:18: there is no tensor role farr" },
        { ONE, "use one if near near\n", "llama.yaml:15:19: expected the end of the line" },
        { "blocks:\n  again: |\n    use again\n", "use again\n", "llama.yaml:9:9: blocks use each other more than 8 deep" },
        { "blocks:\n  twice: |\n    %y = add %x, %x\n", "use twice\nuse twice\n", "llama.yaml:9:5: %y is defined twice" },
        { "blocks: [one]\n", "use one\n", "llama.yaml:7:9: blocks is a map of names and lines" },
        { "blocks:\n  one: [x]\n", "use one\n", "llama.yaml:8:8: a list stands here; a text is needed" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static struct model *m;
        const char *wiring = arena_printf(a, "%slayer:\n%s%s", TINY_INPUT, rows[i].layer, TINY_OUTPUT);
        if (!DIES(m = with_blocks(rows[i].blocks, wiring))) assert_dies(graph_build(a, m), rows[i].expected);
        else if (!strstr(die_text, rows[i].expected)) fail_msg("message \"%s\" lacks \"%s\"", die_text, rows[i].expected);
    }
    static struct model *m;
    m = with_blocks(ONE, "input:\nuse one if near\nlayer:\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "near differs by layer, and this belongs to no layer");
    m = with_blocks(ONE, "input:\nuse one if attn_q\nlayer:\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "attn_q is a tensor of a layer");
    m = with_blocks(ONE, "use one\n" TINY_INPUT "layer:\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "llama.yaml:12:3: expected input:");
    /* Unrolled text has no blocks. */
    m = tiny_model(a, &tiny_llama);
    assert_dies(graph_parse(a, m, "t", "use embedding\n"), "t:1:1: expected %value");
}

/* Blocks may nest eight deep, and their total size is limited. */
static void depth_of_blocks(void **state)
{
    (void)state;
    for (uint32_t deep = 8; deep <= 9; deep++) {
        struct text t = { .arena = a };
        text_puts(&t, "blocks:\n");
        for (uint32_t i = 1; i < deep; i++) text_printf(&t, "  b%u: |\n    use b%u\n", i, i + 1);
        text_printf(&t, "  b%u: |\n    %%x = add %%x, %%x\n", deep);
        static struct model *m;
        m = with_blocks(text_str(&t), TINY_INPUT "layer:\nuse b1\n" TINY_OUTPUT);
        if (deep == 8) assert_int_equal(graph_build(a, m)->n_nodes, 3 + 2);
        else assert_dies(graph_build(a, m), "blocks use each other more than 8 deep");
    }
    struct text t = { .arena = a };
    text_puts(&t, "blocks:\n  b8: |\n    # nothing\n");
    for (uint32_t i = 1; i < 8; i++) {
        text_printf(&t, "  b%u: |\n", i);
        for (uint32_t k = 0; k < 10; k++) text_printf(&t, "    use b%u\n", i + 1);
    }
    static struct model *m;
    m = with_blocks(text_str(&t), TINY_INPUT "layer:\nuse b1\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "with all its blocks and layers the wiring has more than 1048576 lines");
}

/* A key counts as read if a block that may be used names its parameter, but not if only other blocks do. */
static void keys_of_blocks(void **state)
{
    (void)state;
    static struct tiny s;
    static const struct model *m;
    s = tiny_llama;
    s.extra = put_windows;
    s.n_extra = 3;
    const char *text = "  window: {key: \"{arch}.attention.sliding_window\", type: u32, per_layer: true}\n"
                       "  pattern: {key: \"{arch}.attention.sliding_window_pattern\", type: bool, per_layer: true}\n"
                       "  factor: {key: \"{arch}.logit_scale\", type: f64}\n"
                       "blocks:\n  used: |\n    use inner if attn_q_bias\n    use inner if output_bias\n"
                       "  inner: |\n    %%y = scale by=factor %%x\n    %%w = attention window=window %%y\n  other: |\n    use %s\n";
    m = with_parameters(&s, arena_printf(a, text, "inner"), TINY_INPUT "layer:\nuse used if pattern\n%x = add %x, %x\n" TINY_OUTPUT);
    assert_non_null(graph_build(a, m));
    m = with_parameters(&s, arena_printf(a, text, "used"), TINY_INPUT "layer:\nuse inner_not if attn_q_bias\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "there is no block inner_not");
    m = with_parameters(&s, arena_printf(a, text, "used"), TINY_INPUT "layer:\n%x = add %x, %x\n" TINY_OUTPUT);
    assert_dies(graph_build(a, m), "parameter window, which neither the graph nor a shape uses");
}

static void embeddings_cannot_vanish(void **state)
{
    (void)state;
    static struct model *m;
    m = tiny_yaml(a, &tiny_llama, "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\n"
                                  "tensors:\n  extra: {name: extra.weight, shape: [n_vocab, n_embd], optional: true}\n"
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

static void put_wide(void)
{
    tiny_tensor("wide.weight", QUANT_Q8_0, (1ull << 32) + 64, 64);
    tiny_slices("stack.weight", QUANT_Q8_0, 4, 1 << 23, 64);
}

/* Columns are counted in 32 bits: an overflow must not lose any. */
static void too_many_columns(void **state)
{
    (void)state;
    static const struct { const char *line, *expected; } rows[] = {
        { "%w = matmul wide, %x\n", "%w would have 4294967360 columns; a value has at most 16777216" },
        { "%w = matmul stack, %x\n", "%w would have 33554432 columns" },
    };
    tiny_more = put_wide;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct model *m = tiny_yaml(a, &tiny_llama, arena_printf(a, OWN "tensors:\n"
            "  wide:  {name: wide.weight, shape: [4294967360, n_embd]}\n  stack: {name: stack.weight, shape: [4, 8388608, n_embd]}\n"
            "graph: |\n  input:\n    %%x = embed token_embd\n  layer:\n  output:\n    %s", rows[i].line));
        assert_dies(graph_build(a, m), rows[i].expected);
    }
    static const char *const stacks = OWN "tensors:\n  stack: {name: stack.weight, shape: [4294967300, 8388608, n_embd]}\n";
    assert_dies(tiny_yaml(a, &tiny_llama, stacks), "stack has 4294967300 matrices; forgec counts to 4294967295");
    tiny_more = NULL;
}

/* ---- the MTP block ---- */

static void put_nextn(void)
{
    tiny_tensor("blk.1.nextn.eh_proj.weight", QUANT_Q8_0, 64, 128);
    tiny_tensor("blk.1.nextn.enorm.weight", QUANT_F32, 0, 64);
    tiny_tensor("blk.1.nextn.hnorm.weight", QUANT_F32, 0, 64);
}

/* Two blocks; the second is an MTP block.  wiring: transformer.yaml's, or "graph: |" and another wiring. */
static struct model *with_draft(const char *wiring)
{
    struct tiny s = tiny_llama;
    s.n_layer = 2;
    tiny_more = put_nextn;
    tiny_drafts = true;
    tiny_reads_all = !*wiring;
    struct model *m = tiny_yaml(a, &s, arena_printf(a, OWN "  n_block: {type: u32, key: \"{arch}.block_count\"}\n"
                                                    "  n_nextn: {type: u32, default: 1}\n  n_layer: n_block - n_nextn\n%s", wiring));
    tiny_drafts = tiny_reads_all = false;
    tiny_more = NULL;
    return m;
}

static void block_that_drafts(void **state)
{
    (void)state;
    const struct model *m = with_draft("");
    assert_true(m->n_layer == 1 && m->n_described == 2);
    const struct graph *g = graph_build(a, m);
    assert_ptr_equal(g->output, find(g, "head"));
    assert_ptr_equal(g->draft, find(g, "1.head"));
    assert_ptr_equal(g->draft_from, find(g, "1.h_before"));
    assert_ptr_equal(g->draft_from->inputs[0], find(g, "norm"));
    assert_ptr_equal(g->draft_state, find(g, "1.norm"));
    assert_ptr_equal(find(g, "1.ffn_inp")->inputs[0], find(g, "1.e_h_proj"));
    assert_ptr_equal(graph_of_drafts(a, g)->output, g->draft);
    /* The operations that its state needs, up to attention, are before the logits; all others are after them. */
    assert_true(find(g, "norm")->index < g->draft_from->index && find(g, "1.kqv")->index < g->output->index);
    assert_true(find(g, "1.attn_out")->index > g->output->index);
    for (uint32_t i = 0; i < g->n_nodes; i++) assert_int_equal(g->nodes[i]->index, i);
    const struct graph *again = graph_parse(a, m, "again", printed(g));
    assert_string_equal(printed(again), printed(g));
    assert_string_equal(again->output->name, "head");
    assert_string_equal(again->draft_state->name, "1.norm");
    /* Without it the graph is only the trunk. */
    struct tiny s = tiny_llama;
    s.n_layer = 1;
    assert_null(graph_build(a, tiny_model(a, &s))->draft);
}

static void mistakes_of_drafts(void **state)
{
    (void)state;
    static const struct { const char *lines, *expected; } rows[] = {
        { "", "models/llama.yaml does not say how its draft (nextn) block is wired, so --spec mtp is not available" },
        { "draft:\n%e = embed token_embd\n%norm = rmsnorm output_norm, %e\n%l = matmul output, %norm\n",
          "the section draft has no operation previous" },
        { "draft:\n%h = previous %norm\n%g = previous %norm\n%y = add %h, %g\n%norm = rmsnorm output_norm, %y\n%l = matmul output, %norm\n",
          "the section draft has a second operation previous, %1.g" },
        { "draft:\n%h = previous %norm\n%n = rmsnorm output_norm, %h\n%l = matmul output, %n\n",
          "the section draft does not define %norm with as many columns as the trunk's" },
        { "draft:\n%h = previous %norm\n%norm = rmsnorm output_norm, %h\n%l = matmul attn_q, %norm\n",
          "the last value, %1.l, must be logits that the section draft computes" },
        { "draft:\n%h = previous %norm\n%b = part count=4 %h\n%r = recur head_dim=16 value_dim=16 %h, %h, %h, %h, %b\n"
          "%norm = rmsnorm output_norm, %r\n%l = matmul output, %norm\n",
          "the section draft cannot use recur, since what a draft adds to its state cannot be taken back" },
        { "draft:\n%h = previous %norm\nuse layers\n", "there is no block layers" },
        { "draft:\n%h = previous %norm\n%h = add %h, %h\n", "%h is defined twice" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text t = { .arena = a };
        text_puts(&t, "graph: |\n");
        const char *wiring = arena_printf(a, "%slayer:\n%%x = add %%x, %%x\n%s%s", TINY_INPUT, TINY_OUTPUT, rows[i].lines);
        for (const char *p = wiring; *p; p += strcspn(p, "\n"), p += *p == '\n') text_printf(&t, "  %.*s\n", (int)strcspn(p, "\n"), p);
        static const struct model *m;
        m = with_draft(text_str(&t));
        assert_dies(graph_build(a, m), rows[i].expected);
    }
    struct tiny s = tiny_llama;
    tiny_drafts = true;
    assert_dies(tiny_yaml(a, &s, OWN), "the file has no block that drafts tokens (nextn)");
    assert_dies(tiny_yaml(a, &s, OWN "  n_nextn: {type: u32, default: 0}\n"), "the file has no block that drafts tokens (nextn)");
    tiny_drafts = false;
    assert_dies(tiny_yaml(a, &s, OWN "tensors:\n  one: {name: one.weight, shape: [n_embd], else: two}\n"
                             "  two: {name: two.weight, shape: [n_embd], else: one}\n"), "else: two refers to itself");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_printed_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(attributes_of_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_of_an_architecture, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_by_layer, setup, teardown),
        cmocka_unit_test_setup_teardown(rotations, setup, teardown),
        cmocka_unit_test_setup_teardown(absent_tensors_vanish, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_line_and_column, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_in_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(depth_of_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_of_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(embeddings_cannot_vanish, setup, teardown),
        cmocka_unit_test_setup_teardown(unrolled_text, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(block_that_drafts, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_of_drafts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
