/* test_model.c -- inconsistent hyperparameters and tensors, and architecture files with mistakes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "compiler/base/resource.h"
#include "compiler/base/yaml.h"
#include "compiler/front/graph.h"
#include "templates/ref/ops.h"
#include "die_capture.h"
#include "tiny_model.h"

static struct arena *a;

static int setup(void **state) { (void)state; tiny_more = NULL; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; warn_handler = NULL; arena_destroy(a); return 0; }

/* ---- numbers of the file ---- */

static void numbers_out_of_range(void **state)
{
    (void)state;
    static struct tiny s;
#define REFUSED(change, expected) do { s = tiny_llama; s.matrix = QUANT_F16; change; assert_dies(tiny_model(a, &s), expected); } while (0)
    REFUSED(s.n_layer = 0, "block_count is 0; forgec supports 1 to 1024");
    REFUSED(s.n_layer = 1025, "block_count is 1025");
    REFUSED(s.n_embd = (1u << 20) + 1, "embedding_length is 1048577; forgec supports 1 to 1048576");
    REFUSED(s.n_ff = UINT32_MAX, "feed_forward_length is 4294967295");
    REFUSED(s.n_vocab = (1u << 24) + 1, "16777217");
    REFUSED(s.n_head = 4097, "head_count is 4097");
    REFUSED(s.n_head = 3, "head_count 3 in layer 0 is not a multiple of head_count_kv 2");
    REFUSED((s.n_head = 2, s.n_head_kv = 4), "head_count 2 in layer 0 is not a multiple of head_count_kv 4");
    REFUSED(s.head_dim = 33, "key_length is 33; it must be even");
    REFUSED(s.omit = "embedding_length", "the key llama.embedding_length is missing");
    REFUSED((s.omit = "attention.key_length", s.n_head = 6), "embedding_length 64 is not a multiple of head_count 6");
#undef REFUSED
}

static struct { const char *key; enum gguf_type type; uint32_t number; } extra;
static void put_number(struct text *t) { tiny_key(t, extra.key, extra.type); tiny_u32(t, extra.number); }
static void put_array(struct text *t)
{
    tiny_key(t, extra.key, GGUF_ARRAY);
    tiny_u32(t, extra.type);
    tiny_u64(t, extra.number);
    for (uint32_t i = 0; i < extra.number; i++) tiny_u32(t, 2);
}
static void put_word(struct text *t) { tiny_key(t, extra.key, GGUF_STRING); tiny_string(t, "longrope"); }

static void further_keys(void **state)
{
    (void)state;
    static const struct { const char *key; enum gguf_type type; uint32_t number; void (*put)(struct text *); const char *omit,
                         *expected; } rows[] = {
        { "llama.rope.dimension_count", GGUF_U32, 34, put_number, NULL,
         "rope.dimension_count is 34; it must be even and at most attention.key_length, 32" },
        { "llama.rope.dimension_count", GGUF_U32, 7, put_number, NULL, "rope.dimension_count is 7" },
        { "llama.rope.dimension_count", GGUF_I32, UINT32_MAX, put_number, NULL, "the number is negative" },
        { "llama.rope.dimension_count", GGUF_U32, 2, put_array, NULL, "is an array; expected one value" },
        { "llama.attention.value_length", GGUF_U32, 16, put_number, NULL,
         "tensor blk.0.attn_v.weight is 64 x 64; the hyperparameters ask for 32 x 64" },
        { "llama.vocab_size", GGUF_U32, 99, put_number, NULL, "tensor token_embd.weight is 100 x 64; the hyperparameters ask for 99 x 64" },
        { "llama.rope.freq_base", GGUF_F32, 0x7fc00000, put_number, NULL, "not a number" },
        { "llama.rope.freq_base", GGUF_U32, 1, put_number, NULL, "rope.freq_base is 1; forgec supports 2 to 1e+15" },
        { "llama.rope.scaling.type", 0, 0, put_word, NULL, "rope.scaling.type is \"longrope\", which architecture llama does not know" },
        { "llama.attention.head_count_kv", GGUF_U32, 1, put_array, "attention.head_count_kv", "has 1 items for 2 layers" },
        { "llama.attention.head_count_kv", GGUF_F32, 2, put_array, "attention.head_count_kv", "is an array of f32; expected integers" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static struct tiny s;
        s = tiny_llama;
        s.extra = rows[i].put;
        s.n_extra = 1;
        s.omit = rows[i].omit;
        extra.key = rows[i].key;
        extra.type = rows[i].type;
        extra.number = rows[i].number;
        assert_dies(tiny_model(a, &s), rows[i].expected);
    }
    struct tiny s = tiny_llama;
    s.extra = put_array;
    s.n_extra = 1;
    s.omit = "attention.head_count_kv";
    extra.key = "llama.attention.head_count_kv";
    extra.type = GGUF_U32;
    extra.number = 2;
    assert_int_equal(tiny_model(a, &s)->layers[1].n_head_kv, 2);
}

/* ---- keys that change a model's computation ---- */

enum { ONE, ITEMS };
struct key_row { const char *key; enum gguf_type type; double number; int form; const char *text, *expected; };
static const struct key_row *added;          /* [n_added] */
static uint32_t n_added;

static void put_scalar(struct text *t, const struct key_row *r, double number)
{
    const uint8_t truth = number != 0;
    const float single = (float)number;
    if (r->type == GGUF_STRING) tiny_string(t, r->text);
    else if (r->type == GGUF_BOOL) text_append(t, (const char *)&truth, 1);
    else if (r->type == GGUF_F32) text_append(t, (const char *)&single, sizeof single);
    else if (r->type == GGUF_F64) text_append(t, (const char *)&number, sizeof number);
    else tiny_u32(t, (uint32_t)(int64_t)number);
}

/* ITEMS: 0 and then the number. */
static void put_added(struct text *t)
{
    for (uint32_t i = 0; i < n_added; i++) {
        const struct key_row *r = &added[i];
        tiny_key(t, r->key, r->form == ONE ? r->type : GGUF_ARRAY);
        if (r->form == ITEMS) {
            tiny_u32(t, r->type);
            tiny_u64(t, 2);
            put_scalar(t, r, 0);
        }
        put_scalar(t, r, r->number);
    }
}

static char warned[4096];
static uint32_t n_warned;
static void keep_warning(const char *message)
{
    const size_t used = strlen(warned);
    snprintf(warned + used, sizeof warned - used, "%s\n", message);
    n_warned++;
}

/* A model of that architecture with these keys; its warnings are in warned. */
static struct model *with_keys(const char *arch, const struct key_row *rows, uint32_t n, const struct model_options *o)
{
    static struct tiny s;
    s = tiny_llama;
    s.arch = arch;
    s.extra = put_added;
    s.n_extra = n_added = n;
    added = rows;
    warned[0] = '\0';
    n_warned = 0;
    warn_handler = keep_warning;
    return model_describe(a, tiny_gguf(a, &s), o);
}

/* The scale of a matrix is never ignored; the scale of its input, which is not needed, is only mentioned. */
static void scales_of_matrices(void **state)
{
    (void)state;
    tiny_scalar = "blk.1.attn_q.scale";
    const struct model *m = tiny_model(a, &tiny_llama);
    const struct place here = { "test", 1, 1 };
    assert_null(model_weight(m, here, "attn_q", 0)->scale);
    assert_string_equal(model_weight(m, here, "attn_q", 1)->scale->name, tiny_scalar);
    assert_ptr_equal(model_weight(m, here, "attn_q", 1)->scale, model_weight(m, here, "attn_q_scale", 1));
    tiny_scalar = "blk.1.attn_q.input_scale";
    graph_build(a, with_keys("llama", NULL, 0, NULL));
    assert_int_equal(n_warned, 0);
    tiny_scalar = NULL;
}

/* ---- tensors that no wiring reads ---- */

static const char *more_names[6];             /* names of more tensors */
static void put_named(void)
{
    for (size_t i = 0; i < COUNT_OF(more_names) && more_names[i]; i++)
        tiny_tensor(more_names[i], QUANT_F32, 0, strstr(more_names[i], "attn_q.") ? 128 : 64);
}
/* Biases of q, k and v, with one of them missing. */
static void name_biases(void)
{
    for (uint32_t i = 0; i < 6; i++) more_names[i] = arena_printf(a, "blk.%u.attn_%c.bias", i / 3, "qkv"[i % 3]);
}

static void tensors_nobody_reads(void **state)
{
    (void)state;
    static const struct model *m;
    tiny_more = put_named;
    memset(more_names, 0, sizeof more_names);
    more_names[0] = "blk.1.attn_q_strange.weight";
    m = tiny_model(a, &tiny_llama);
    assert_dies(graph_build(a, m), "tiny: models/llama.yaml does not compute with tensor blk.1.attn_q_strange.weight: the program would be "
                "another model; convert the model again with a current converter, or give --ignore-tensor NAME (* for any letters) to "
                "build all the same");
    for (size_t i = 1; i < 5; i++) more_names[i] = arena_printf(a, "more.%zu", i);
    m = tiny_model(a, &tiny_llama);
    assert_dies(graph_build(a, m), "tensors blk.1.attn_q_strange.weight, more.1, more.2 and 2 more: ");
    /* An option forces it; then there is a warning, and the model records it. */
    static const char *names[] = { "more.*", "blk.*strange.w*t" };
    struct model_options o = { .ignored_tensors = names, .n_ignored_tensors = 2 };
    m = with_keys("llama", NULL, 0, &o);
    graph_build(a, m);
    assert_int_equal(m->n_ignored, 2);
    assert_string_equal(m->ignored[0].option, "--ignore-tensor");
    assert_string_equal(m->ignored[0].name, "more.*");
    assert_string_equal(m->ignored[0].value, "4 tensors");
    assert_string_equal(m->ignored[1].value, "F32 64");
    assert_int_equal(n_warned, 2);
    assert_non_null(strstr(warned, "more.*, 4 tensors, may be left out, as --ignore-tensor says: the program's results can be wrong"));
    o.n_ignored_tensors = 1;
    m = with_keys("llama", NULL, 0, &o);
    assert_dies(graph_build(a, m), "tensor blk.1.attn_q_strange.weight: ");
    static const char *const none[] = { "mor", "more", "more.", "ore.1", "more.1 ", "*more", "" };
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        o.ignored_tensors = &none[i];
        assert_dies(with_keys("llama", NULL, 0, &o), arena_printf(a, "--ignore-tensor %s: tiny has no such tensor", none[i]));
    }
    names[0] = "blk.0.attn_q.weight";
    o.ignored_tensors = names;
    m = with_keys("llama", NULL, 0, &o);
    assert_dies(graph_build(a, m), "--ignore-tensor blk.0.attn_q.weight: architecture llama reads this tensor; it cannot be ignored");
    /* A role that the wiring does not read does not count. */
    name_biases();
    graph_build(a, tiny_model(a, &tiny_llama));
    static const char *const yaml = "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n%sblocks:\n"
                                    "  k_heads: |\n    %%k_rope = rope %%k\n";
    tiny_reads_all = true;
    m = tiny_yaml(a, &tiny_llama, arena_printf(a, yaml, ""));
    assert_dies(graph_build(a, m), "%0.k_bias is never read");
    static const char *const plain = "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n%sgraph: |\n"
                                     "  input:\n    %%x = embed token_embd\n  layer:\n    %%n = rmsnorm attn_norm, %%x\n"
                                     "    %%q = matmul attn_q, %%n\n    %%k = matmul attn_k, %%n\n    %%kc = store_k %%k\n"
                                     "    %%v = matmul attn_v, %%n\n    %%vc = store_v %%v\n    %%a = attention %%q, %%kc, %%vc\n"
                                     "    %%z = matmul attn_output, %%a\n    %%f = rmsnorm ffn_norm, %%z\n    %%g = matmul ffn_gate, %%f\n"
                                     "    %%u = matmul ffn_up, %%f\n    %%y = glu_silu %%g, %%u\n    %%x = matmul ffn_down, %%y\n"
                                     "  output:\n    %%o = rmsnorm output_norm, %%x\n    %%l = matmul output, %%o\n";
    m = tiny_yaml(a, &tiny_llama, arena_printf(a, plain, ""));
    assert_dies(graph_build(a, m), "does not compute with tensors blk.0.attn_q.bias, blk.0.attn_k.bias, ");
    /* An architecture's file lists tensors that may be left out, with reasons. */
    graph_build(a, tiny_yaml(a, &tiny_llama, arena_printf(a, plain, "left_out:\n  \"blk.{l}.attn_*.bias\": \"none here\"\n")));
    static const char *const lists[] = { "left_out:\n  \"blk.{l}.attn_z.bias\": \"none here\"\n",
                                         "left_out:\n  \"blk.{l}0.attn_*.bias\": \"none here\"\n" };
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        m = tiny_yaml(a, &tiny_llama, arena_printf(a, plain, lists[i]));
        assert_dies(graph_build(a, m), "does not compute with tensors blk.0.attn_q.bias, blk.0.attn_k.bias, ");
    }
    assert_dies(tiny_yaml(a, &tiny_llama, arena_printf(a, plain, "left_out: [x]\n")), "llama.yaml:5:11: left_out is a map of tensors'");
    assert_dies(tiny_yaml(a, &tiny_llama, arena_printf(a, plain, "left_out: {x: \"\"}\n")), "the reason why x is left out is needed here");
    tiny_reads_all = false;
}

/* ---- tensors that a file lacks ---- */

#define MISSING(name, why) \
    "tiny: tensor " name " is missing, " why "; the file was cut or edited: get it again, or convert the model again"

static void tensors_that_are_missing(void **state)
{
    (void)state;
    static const struct model *m;
    tiny_more = put_named;
    /* If two tensors belong together, either of them alone is refused. */
    static const struct { uint32_t absent; const char *expected; } pairs[] = {
        { 0, MISSING("blk.0.attn_q.bias", "which architecture llama needs beside blk.0.attn_k.bias") },
        { 1, MISSING("blk.0.attn_k.bias", "which architecture llama needs beside blk.0.attn_q.bias") },
        { 5, MISSING("blk.1.attn_v.bias", "which architecture llama needs beside blk.1.attn_q.bias") } };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        name_biases();
        more_names[pairs[i].absent] = "unread";
        m = tiny_model(a, &tiny_llama);
        assert_dies(graph_build(a, m), pairs[i].expected);
    }
    /* All layers must have it, or no layer. */
    memset(more_names, 0, sizeof more_names);
    more_names[0] = "blk.1.attn_output.bias";
    m = tiny_model(a, &tiny_llama);
    assert_dies(graph_build(a, m), MISSING("blk.0.attn_output.bias", "though the file has blk.1.attn_output.bias: architecture llama has "
                                           "it in every such layer or in none"));
    /* Required tensors. */
    memset(more_names, 0, sizeof more_names);
#define BIAS(more) "  attn_output_bias: {name: \"blk.{l}.attn_output.bias\", shape: [n_embd]" more "}\n"
    static const struct { const char *yaml, *expected; } rows[] = {
        { BIAS(""), MISSING("blk.0.attn_output.bias", "which architecture llama needs in every layer") },
        { "  output: {name: output.weight, shape: [n_vocab, n_embd]}\n", MISSING("output.weight", "which architecture llama needs") },
        { BIAS(", where: second"), MISSING("blk.1.attn_output.bias", "which architecture llama needs in this layer") },
        { BIAS(", optional: true, where: second"), MISSING("blk.1.attn_output.bias", "which architecture llama needs in this layer") },
        { BIAS(", where: attn_output"),
          MISSING("blk.0.attn_output.bias", "which architecture llama needs beside blk.0.attn_output.weight") },
        { BIAS(", optional: maybe"), "llama.yaml:7:83: the value of optional must be true or all-or-none; leave it out for a tensor" },
        { BIAS(", where: nobody"), "where: nobody: it must be a parameter, or a role of the same layer or outside the layers" },
        { "  rope_freqs: {name: rope_freqs.weight, shape: [n_rot_half], where: attn_q}\n",
          "where: attn_q: it must be a parameter, or a role of the same layer or outside the layers" },
        { "  output: {name: output.weight, shape: [n_vocab, n_embd], where: token_embd, else: token_embd}\n",
          "where cannot be combined with else" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_dies(graph_build(a, tiny_yaml(a, &tiny_llama, arena_printf(a, "architecture: llama\ninherits: transformer\nparameters:\n"
                    "  rope_neox: false\n  second: {type: bool, default: layer == 1}\ntensors:\n%s", rows[i].yaml))), rows[i].expected);
    /* With the parameter 0 the tensor is not read. */
    more_names[0] = "blk.0.attn_output.bias";
    more_names[1] = "blk.1.attn_output.bias";
    tiny_reads_all = true;
    static const char *const second = "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n"
        "  second: {type: bool, default: layer == 1}\ntensors:\n" BIAS(", where: second");
#undef BIAS
    m = tiny_yaml(a, &tiny_llama, second);
    assert_dies(graph_build(a, m), "does not compute with tensor blk.0.attn_output.bias: ");
    more_names[0] = more_names[1];
    more_names[1] = NULL;
    graph_build(a, tiny_yaml(a, &tiny_llama, second));
    tiny_reads_all = false;
}

/* Gemma's additional norms. */
static void put_norms(void)
{
    static const struct { const char *name; uint32_t cols; } norms[] = { { "attn_q_norm", 32 }, { "attn_k_norm", 32 },
                                                                         { "post_attention_norm", 64 }, { "post_ffw_norm", 64 } };
    for (uint32_t l = 0; l < 2; l++)
        for (size_t i = 0; i < COUNT_OF(norms); i++)
            tiny_tensor(arena_printf(a, "blk.%u.%s.weight", l, norms[i].name), QUANT_F32, 0, norms[i].cols);
}

/* Which of two layers has a window, and the rotation of layers with a window. */
static void windows_of_layers(void **state)
{
    (void)state;
    static const struct key_row rows[][3] = {
        { { "gemma3.rope.freq_base", GGUF_F32, 1e6, ONE, NULL, NULL } },
        { { "gemma3.rope.freq_base", GGUF_F32, 1e6, ONE, NULL, NULL }, { "gemma3.attention.sliding_window", GGUF_U32, 16, ONE, NULL, NULL },
          { "gemma3.attention.sliding_window_pattern", GGUF_U32, 2, ONE, NULL, NULL } },
        { { "gemma2.attention.sliding_window", GGUF_U32, 16, ONE, NULL, NULL } },
        { { "gemma2.attention.sliding_window", GGUF_U32, 16, ONE, NULL, NULL },
          { "gemma2.attention.sliding_window_pattern", GGUF_U32, 1, ONE, NULL, NULL } } };
    static const struct { const char *arch; uint32_t n_keys, window[2], base[2]; } wanted[COUNT_OF(rows)] = {
        { "gemma3", 1, { 0, 0 }, { 1000000, 1000000 } }, { "gemma3", 3, { 16, 0 }, { 10000, 1000000 } },
        { "gemma2", 1, { 16, 0 }, { 10000, 10000 } },    { "gemma2", 2, { 0, 0 }, { 10000, 10000 } } };
    tiny_more = put_norms;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct graph *g = graph_build(a, with_keys(wanted[i].arch, rows[i], wanted[i].n_keys, NULL));
        uint32_t n = 0;
        for (uint32_t k = 0; k < g->n_nodes; k++) {
            const struct node *node = g->nodes[k];
            if (node->op == OP_rope) assert_true(node->attr.base == wanted[i].base[node->layer]);
            if (node->op == OP_attention) assert_int_equal(node->attr.window, wanted[i].window[node->layer]);
            n += node->op == OP_rope || node->op == OP_attention;
        }
        assert_int_equal(n, 6);
    }
}

/* A key promises experts, but there are no tensors of experts. */
static void experts_without_tensors(void **state)
{
    (void)state;
    static const struct key_row eight[] = { { "llama.expert_count", GGUF_U32, 8, ONE, NULL, NULL },
                                            { "llama.expert_used_count", GGUF_U32, 2, ONE, NULL, NULL } };
    static const struct key_row none[] = { { "llama.expert_count", GGUF_U32, 0, ONE, NULL, NULL }, eight[1] };
    static const struct key_row smollm3[] = { { "smollm3.expert_count", GGUF_U32, 8, ONE, NULL, NULL } };
    static const struct model *m;
    m = with_keys("llama", eight, 2, NULL);
    assert_dies(graph_build(a, m), "tiny: llama.expert_count is 8, but the file lacks the tensors for it; convert the model again");
    graph_build(a, with_keys("llama", none, 2, NULL));
    assert_dies(with_keys("smollm3", smollm3, 1, NULL), "smollm3.expert_count is 8; forgec does not support this value");
    /* The architecture decides how a router chooses, not the file. */
    static const struct key_row softmax[] = { { "gpt-oss.expert_gating_func", GGUF_U32, 1, ONE, NULL, NULL },
                                              { "gpt-oss.expert_count", GGUF_U32, 8, ONE, NULL, NULL },
                                              { "gpt-oss.expert_feed_forward_length", GGUF_U32, 64, ONE, NULL, NULL },
                                              { "gpt-oss.attention.sliding_window", GGUF_U32, 16, ONE, NULL, NULL } };
    assert_dies(with_keys("gpt-oss", softmax, 4, NULL), "gpt-oss.expert_gating_func is 1; forgec does not support this value, only "
                "0 or 3");
}

/* Converters write a scale of 0 for no scale. */
static void scales_of_zero(void **state)
{
    (void)state;
    static const struct { const char *arch, *key; } rows[] = {
        { "granite", "embedding_scale" }, { "granite", "residual_scale" }, { "granite", "logit_scale" }, { "granite", "attention.scale" },
        { "granitehybrid", "embedding_scale" }, { "granitehybrid", "residual_scale" }, { "granitehybrid", "logit_scale" },
        { "granitehybrid", "attention.scale" }, { "command-r", "logit_scale" }, { "cohere2", "logit_scale" },
        { "deepseek2", "expert_weights_scale" }, { "glm4moe", "expert_weights_scale" }, { "nemotron_h_moe", "expert_weights_scale" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *key = arena_printf(a, "%s.%s", rows[i].arch, rows[i].key);
        const struct yaml *y = NULL;
        struct bytes text;
        for (const char *file = rows[i].arch; !y && file; ) {
            assert_true(resource_find(a, NULL, arena_printf(a, "models/%s.yaml", file), &text));
            struct yaml *all = yaml_parse(a, file, (const char *)text.data, text.size), *params = yaml_get(all, "parameters");
            for (uint32_t k = 0; params && k < params->count && !y; k++) {
                const struct yaml *its = yaml_get(params->items[k], "key");
                if (its && strcmp(yaml_string(its) + strlen("{arch}."), rows[i].key) == 0) y = params->items[k];
            }
            const struct yaml *base = yaml_get(all, "inherits");
            file = base ? yaml_string(base) : NULL;
        }
        if (!y) fail_msg("%s: no parameter reads it", key);
        /* The neutral value, or attention's own value for it. */
        const bool own = strcmp(rows[i].key, "attention.scale") == 0;
        if (!own && (!yaml_get(y, "none") || yaml_f64(yaml_get(y, "none")) != 0 || yaml_f64(yaml_need(y, "default")) != 1))
            fail_msg("%s: 0 does not stand for the default, 1", key);
        if (own && yaml_f64(yaml_need(y, "default")) != 0) fail_msg("%s: its default is not 0", key);
    }
    static const char *const scales[] = { "granite.embedding_scale", "granite.residual_scale", "granite.logit_scale",
                                          "granite.attention.scale" };
    struct key_row zeros[4], others[4];
    for (size_t i = 0; i < 4; i++) {
        zeros[i] = (struct key_row){ scales[i], GGUF_F32, 0, ONE, NULL, NULL };
        others[i] = (struct key_row){ scales[i], GGUF_F32, 2, ONE, NULL, NULL };
    }
    struct text plain = { .arena = a }, zero = { .arena = a }, two = { .arena = a };
    const struct key_row one = { "granite.logit_scale", GGUF_F32, 1, ONE, NULL, NULL };
    graph_print(&plain, graph_build(a, with_keys("granite", &one, 1, NULL)));
    graph_print(&zero, graph_build(a, with_keys("granite", zeros, 4, NULL)));
    graph_print(&two, graph_build(a, with_keys("granite", others, 4, NULL)));
    assert_string_equal(text_str(&zero), text_str(&plain));
    static const char *const lines[] = { "%x = scale by=2 %e", "%0.attn_add = scale by=2 ", "%scaled = scale by=0.5 ", " scale=2 cap=0 " };
    for (size_t i = 0; i < COUNT_OF(lines); i++) assert_non_null(strstr(text_str(&two), lines[i]));
}

/* MTP blocks after the layers. */
static void draft_blocks(void **state)
{
    (void)state;
    static const struct key_row one[] = { { "llama.nextn_predict_layers", GGUF_U32, 1, ONE, NULL, NULL } };
    struct tiny s = tiny_llama;
    s.extra = put_added;
    s.n_extra = n_added = 1;
    added = one;
    warned[0] = '\0';
    n_warned = 0;
    warn_handler = keep_warning;
    tiny_scalar = "blk.0.strange";
    static const struct model *m;
    tiny_reads_all = true;
    m = tiny_yaml(a, &s, "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n"
                         "  n_block: {type: u32, key: \"{arch}.block_count\"}\n"
                         "  n_nextn: {type: u32, key: \"{arch}.nextn_predict_layers\", default: 0}\n  n_layer: n_block - n_nextn\n");
    tiny_reads_all = false;
    tiny_scalar = NULL;
    assert_int_equal(m->n_layer, 1);
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "tiny: 9 tensors of the draft (nextn) blocks are left out"));
    assert_dies(graph_build(a, m), "does not compute with tensor blk.0.strange: ");
}

#define LISTED(values) "forgec does not support this value, only " values

static const struct key_row changing[] = {
    { "llama.attention.sliding_window", GGUF_U32, 4, ONE, NULL, "is 4; " LISTED("0 or at least the context, 64") },
    { "llama.attention.sliding_window", GGUF_U32, 63, ITEMS, NULL, "is [0, 63]; " LISTED("0 or at least") },
    { "llama.attn_logit_softcapping", GGUF_F32, 50, ONE, NULL, "is 50; " LISTED("0") },
    { "llama.final_logit_softcapping", GGUF_F32, 30, ONE, NULL, "is 30; " LISTED("0") },
    { "llama.router_logit_softcapping", GGUF_F32, 30, ONE, NULL, "is 30" },
    { "llama.attention.clamp_kqv", GGUF_F32, 8, ONE, NULL, "is 8; " LISTED("0") },
    { "llama.attention.max_alibi_bias", GGUF_F32, 8, ONE, NULL, "is 8; " LISTED("0") },
    { "llama.residual_scale", GGUF_F32, 0.22, ONE, NULL, "is 0.22; " LISTED("0 or 1") },
    { "llama.embedding_scale", GGUF_F32, 12, ONE, NULL, "is 12; " LISTED("0 or 1") },
    { "llama.logit_scale", GGUF_F64, 0.0625, ONE, NULL, "is 0.0625; " LISTED("0 or 1") },
    { "llama.logit_scale", GGUF_F32, -0.0625, ONE, NULL, "is -0.0625; " LISTED("0 or 1") },
    { "llama.logit_scale", GGUF_F32, NAN, ONE, NULL, "nan; " LISTED("0 or 1") },
    { "llama.attention.scale", GGUF_F32, 0.015625, ONE, NULL, "is 0.015625; " LISTED("0") },
    { "llama.attention.output_scale", GGUF_F32, 0.5, ONE, NULL, "is 0.5" },
    { "llama.attention.temperature_scale", GGUF_F32, 0.1, ONE, NULL, "is 0.1" },
    { "llama.use_parallel_residual", GGUF_BOOL, 1, ONE, NULL, "is true; " LISTED("false") },
    { "llama.hidden_activation", GGUF_STRING, 0, ONE, "gelu", "is \"gelu\"; " LISTED("silu") },
    { "llama.tensor_data_layout", GGUF_STRING, 0, ONE, "jploski", "is \"jploski\"; " LISTED("reference or Meta AI original pth") },
    { "llama.expert_group_count", GGUF_U32, 2, ONE, NULL, "is 2; " LISTED("0") },
    { "llama.rope.dimension_sections", GGUF_I32, 16, ITEMS, NULL, "is [0, 16]" },
    { "llama.rope.scaling.yarn_log_multiplier", GGUF_F32, 0.1, ONE, NULL, "is 0.1; " LISTED("0") },
    { "llama.rope.scaling.alpha", GGUF_F32, 1000, ONE, NULL, "is 1000; " LISTED("0 or 1") },
    /* not listed at all */
    { "llama.rope.freq_base_swa", GGUF_F32, 10000, ONE, NULL,
     "is 10000; models/llama.yaml neither reads this hyperparameter nor knows it as harmless" },
    { "llama.attention.layer_norm_epsilon", GGUF_F32, 1e-5, ONE, NULL, "models/llama.yaml neither reads" },
    { "llama.ssm.state_size", GGUF_U32, 1, ONE, NULL, "models/llama.yaml neither reads" },
    { "llama.ssm.state_size", GGUF_U32, 16, ITEMS, NULL, "is [0, 16]; models/llama.yaml neither reads" },
    { "llama.vision", GGUF_U32, 1, ONE, NULL, "models/llama.yaml neither reads" },
    { "llama.", GGUF_BOOL, 1, ONE, NULL, "models/llama.yaml neither reads" },
    /* a type that differs from the values' */
    { "llama.use_parallel_residual", GGUF_STRING, 0, ONE, "false", "is \"false\"; true or false is needed: false" },
    { "llama.attention.sliding_window", GGUF_STRING, 0, ONE, "0", "is \"0\"; a number is needed: 0 or at least the context, 64" },
    { "llama.attention.sliding_window", GGUF_BOOL, 0, ITEMS, NULL, "is [false, false]; a number is needed" },
    { "llama.tensor_data_layout", GGUF_U32, 1, ONE, NULL, "is 1; a text is needed" },
    /* of no architecture, or of another architecture */
    { "qwen2.logit_scale", GGUF_F32, 1, ONE, NULL, "is 1; it belongs to architecture qwen2, but general.architecture is llama" },
    { "granite.block_count", GGUF_U32, 2, ONE, NULL, "it belongs to architecture granite" },
    { "general.type", GGUF_STRING, 0, ONE, "adapter", "is \"adapter\"; forgec compiles only models" },
    { "general.type", GGUF_U32, 1, ONE, NULL, "is 1; forgec compiles only models" },
    { "adapter.type", GGUF_STRING, 0, ONE, "lora", "is \"lora\"; the file is an adapter" },
    { "general.quantization_version", GGUF_U32, 1, ONE, NULL, "is 1; forgec reads blocks of version 2" },
};

static void keys_that_change_the_arithmetic(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(changing); i++) {
        const char *key = changing[i].key;
        assert_dies(with_keys("llama", &changing[i], 1, NULL), changing[i].expected);
        assert_non_null(strstr(die_text, arena_printf(a, "tiny: %s is ", key)));
        assert_non_null(strstr(die_text, arena_printf(a, "to build all the same, give --ignore-key %s", key)));
        /* An option forces it; then there is a warning, and the model records it. */
        const struct model_options insist = { .ignored = &key, .n_ignored = 1 };
        const struct model *m = with_keys("llama", &changing[i], 1, &insist);
        assert_int_equal(m->n_ignored, 1);
        assert_string_equal(m->ignored[0].name, key);
        assert_int_equal(n_warned, 1);
        assert_non_null(strstr(warned, arena_printf(a, "%s is %s, which the program ignores", key, m->ignored[0].value)));
    }
}

/* The pooling of a text's vector, and models that are neither language nor embedding models. */
static void keys_of_embeddings(void **state)
{
    (void)state;
    static const struct key_row rows[] = { { "llama.pooling_type", GGUF_U32, 3, ONE, NULL, NULL },
                                           { "llama.attention.causal", GGUF_BOOL, 0, ONE, NULL, NULL },
                                           { "llama.pooling_type", GGUF_U32, 4, ONE, NULL, NULL },
                                           { "llama.pooling_type", GGUF_U32, 5, ONE, NULL, NULL },
                                           { "llama.attention.causal", GGUF_U32, 1, ONE, NULL, NULL } };
    const struct model *m = with_keys("llama", rows, 2, NULL);
    assert_true(m->pooling == 3 && !m->causal && m->n_out == m->n_embd);
    const struct graph *g = graph_build(a, m);
    assert_int_equal(g->output->op, OP_rmsnorm);
    for (uint32_t i = 0; i < g->n_nodes; i++) if (g->nodes[i]->op == OP_attention) assert_false(g->nodes[i]->attr.causal);
    m = with_keys("llama", rows, 1, NULL);
    assert_true(m->causal && graph_build(a, m)->output->op == OP_rmsnorm);
    assert_dies(with_keys("llama", &rows[1], 1, NULL), "it generates no text, and it has no pooling_type");
    assert_dies(with_keys("llama", &rows[2], 1, NULL), "pooling_type is 4, rank: the model scores pairs of texts (a reranker)");
    assert_dies(with_keys("llama", &rows[3], 1, NULL), "llama.pooling_type is 5; forgec supports 0 to 4");
    assert_dies(with_keys("llama", &rows[4], 1, NULL), "llama.attention.causal");
}

#define EIGHT { "llama.expert_count", GGUF_U32, 8, ONE, NULL, NULL }
static void keys_that_change_nothing(void **state)
{
    (void)state;
    static const struct key_row rows[] = {
        { "llama.attention.sliding_window", GGUF_U32, 0, ONE, NULL, NULL },
        { "llama.attention.causal", GGUF_BOOL, 1, ONE, NULL, NULL },
        { "llama.attn_logit_softcapping", GGUF_F32, 0, ONE, NULL, NULL },
        { "llama.attention.clamp_kqv", GGUF_F64, 0, ONE, NULL, NULL },
        { "llama.residual_scale", GGUF_F32, 1, ONE, NULL, NULL },
        { "llama.logit_scale", GGUF_F32, 0, ONE, NULL, NULL },
        { "llama.use_parallel_residual", GGUF_BOOL, 0, ONE, NULL, NULL },
        { "llama.tensor_data_layout", GGUF_STRING, 0, ONE, "Meta AI original pth", NULL },
        { "llama.hidden_activation", GGUF_STRING, 0, ONE, "silu", NULL },
        { "llama.expert_used_count", GGUF_U32, 2, ONE, NULL, NULL },
        { "llama.expert_gating_func", GGUF_U32, 1, ONE, NULL, NULL },
        { "llama.expert_weights_norm", GGUF_BOOL, 1, ONE, NULL, NULL },
        { "llama.expert_weights_scale", GGUF_F32, 1, ONE, NULL, NULL },
        { "llama.expert_shared_feed_forward_length", GGUF_U32, 64, ONE, NULL, NULL },
        { "llama.rope.scaling.yarn_attn_factor", GGUF_F32, 0.5, ONE, NULL, NULL },
        { "llama.attention.sliding_window_pattern", GGUF_BOOL, 1, ITEMS, NULL, NULL },
        { "llama.rope.dimension_sections", GGUF_I32, 0, ITEMS, NULL, NULL },
        { "llama.rope.scaling.finetuned", GGUF_BOOL, 0, ONE, NULL, NULL },
        { "llama.attention.value_length", GGUF_U32, 32, ONE, NULL, NULL },
        { "general.type", GGUF_STRING, 0, ONE, "model", NULL },
        { "general.quantization_version", GGUF_U32, 2, ONE, NULL, NULL },
        { "general.license", GGUF_STRING, 0, ONE, "CC0", NULL },
        { "exotic.logit_scale", GGUF_F32, 7, ONE, NULL, NULL },
        /* values that mean "none", also of unknown keys */
        { "llama.ssm.state_size", GGUF_U32, 0, ONE, NULL, NULL },
        { "llama.ssm.kernels", GGUF_I32, 0, ITEMS, NULL, NULL },
        { "llama.moves", GGUF_BOOL, 0, ONE, NULL, NULL },
        { "llama.kind", GGUF_STRING, 0, ONE, "", NULL },
        { "llama.swin_norm", GGUF_U32, 0, ONE, NULL, NULL },
        { "llama.expert_group_count", GGUF_U32, 1, ONE, NULL, NULL },
        { "llama.expert_group_used_count", GGUF_U32, 1, ONE, NULL, NULL },
        { "llama.rope.scaling.attn_factor", GGUF_F32, 0, ONE, NULL, NULL },
        { "llama.rope.scaling.yarn_beta_fast", GGUF_F32, 0, ONE, NULL, NULL },
        { "llama.rope.scaling.yarn_beta_slow", GGUF_F32, 0, ONE, NULL, NULL },
        { "llama.rope.scaling.type", GGUF_STRING, 0, ONE, "", NULL },
        { "lama", GGUF_F32, 7, ONE, NULL, NULL },
    };
    const struct model *m = with_keys("llama", rows, COUNT_OF(rows), NULL);
    assert_int_equal(m->n_ignored + n_warned, 0);
    graph_build(a, m);
    /* If there are experts, the values are used as they are. */
    static const struct key_row experts[][2] = {
        { { "llama.expert_gating_func", GGUF_U32, 2, ONE, NULL, "is 2; " LISTED("0 or 1") }, EIGHT },
        { { "llama.expert_weights_norm", GGUF_BOOL, 0, ONE, NULL, "is false; " LISTED("true") }, EIGHT },
        { { "llama.expert_weights_scale", GGUF_F32, 2.5, ONE, NULL, "is 2.5; " LISTED("0 or 1") }, EIGHT } };
    for (size_t i = 0; i < COUNT_OF(experts); i++) {
        with_keys("llama", experts[i], 1, NULL);
        assert_dies(with_keys("llama", experts[i], 2, NULL), experts[i][0].expected);
    }
    static const struct key_row window[] = { { "llama.attention.sliding_window", GGUF_U32, 64, ITEMS, NULL, NULL } };
    with_keys("llama", window, 1, NULL);
    assert_dies(with_keys("llama", window, 1, &(struct model_options){ .n_ctx = 65 }), "at least the context, 65");
    with_keys("llama", window, 1, &(struct model_options){ .n_ctx = 8 });
    /* Weights in the order for llama's rotation are wrong for the other rotation. */
    static const struct key_row layout[] = { { "qwen2.tensor_data_layout", GGUF_STRING, 0, ONE, "Meta AI original pth", NULL } };
    assert_dies(with_keys("qwen2", layout, 1, NULL), "this value, only reference");
}

static void keys_to_ignore(void **state)
{
    (void)state;
    const char *key = "llama.logit_scalf";
    const struct model_options o = { .ignored = &key, .n_ignored = 1 };
    assert_dies(with_keys("llama", NULL, 0, &o), "--ignore-key llama.logit_scalf: tiny has no such key");
    key = "llama.block_count";
    assert_dies(with_keys("llama", NULL, 0, &o),
                "--ignore-key llama.block_count: architecture llama reads this key (n_block); it cannot be ignored");
    static const struct key_row two[] = {
        { "llama.logit_scale", GGUF_F32, 2, ONE, NULL, NULL }, { "llama.residual_scale", GGUF_F32, 2, ONE, NULL, NULL } };
    key = "llama.logit_scale";
    assert_dies(with_keys("llama", two, 2, &o), "tiny: llama.residual_scale is 2");
    static const struct key_row none[] = { { "llama.logit_scale", GGUF_F32, 1, ONE, NULL, NULL } };
    assert_int_equal(with_keys("llama", none, 1, &o)->n_ignored, 0);
    assert_string_equal(warned, "--ignore-key llama.logit_scale: forgec would not refuse this key of tiny; leave the option out\n");
}

/* A user's architecture that is llama without scales: the file has scales, and nothing reads them. */
static void inherited_keys(void **state)
{
    (void)state;
    static struct tiny s;
    s = tiny_llama;
    s.arch = "granite";
    s.extra = put_added;
    s.n_extra = n_added = 1;
    static const struct key_row scale[] = { { "granite.residual_scale", GGUF_F32, 0.22, ONE, NULL, NULL } };
#define GRANITE "architecture: granite\ninherits: transformer\nparameters: {rope_neox: false}\n"
    added = scale;
    assert_dies(tiny_yaml(a, &s, GRANITE), "granite.residual_scale is 0.22; " LISTED("0 or 1"));
    assert_dies(tiny_yaml(a, &s, "architecture: granite\ninherits: transformer\nparameters:\n  rope_neox: false\n"
                                 "  residual_scal: {key: \"{arch}.residual_scale\"}\n"),
                "granite.yaml:5:3: parameter \"residual_scal\" is unknown to forgec");
    const struct model *m = tiny_yaml(a, &s, "architecture: granite\ninherits: transformer\nparameters:\n  rope_neox: false\n"
                                             "  residual_scale: {key: \"{arch}.residual_scale\"}\n");
    assert_true(model_param(m, "residual_scale")->values[1] == (double)0.22f);
    assert_non_null(tiny_yaml(a, &s, GRANITE "harmless:\n  \"{arch}.residual_scale\": of no matter\n"));
    assert_non_null(tiny_yaml(a, &s, GRANITE "neutral:\n  granite.residual_scale: [0.22]\n"));
    assert_dies(tiny_yaml(a, &s, GRANITE "neutral:\n  granite.residual_scale: [0.21, 1]\n"), "this value, only 0.21 or 1");
}

static void contexts(void **state)
{
    (void)state;
    static const struct key_row yarn[] = {
        { "llama.rope.scaling.type", GGUF_STRING, 0, ONE, "yarn", NULL }, { "llama.rope.scaling.factor", GGUF_F32, 4, ONE, NULL, NULL },
        { "llama.rope.scaling.original_context_length", GGUF_U32, 32, ONE, NULL, NULL } };
    with_keys("llama", NULL, 0, &(struct model_options){ .n_ctx = 64 });
    assert_int_equal(n_warned, 0);
    with_keys("llama", NULL, 0, &(struct model_options){ .n_ctx = 65 });
    assert_int_equal(n_warned, 1);
    assert_non_null(strstr(warned, "a context of 65 tokens is longer than the 64 that the model was trained for"));
    assert_non_null(strstr(warned, "--ctx 64 avoids this"));
    with_keys("llama", yarn, 3, &(struct model_options){ .n_ctx = 128 });
    assert_int_equal(n_warned, 0);
    with_keys("llama", yarn, 3, &(struct model_options){ .n_ctx = 129 });
    assert_non_null(strstr(warned, "longer than the 128 (32, stretched 4 times by its YaRN scaling) that"));
    with_keys("llama", yarn + 1, 1, &(struct model_options){ .n_ctx = 256 });
    assert_int_equal(n_warned, 0);
    with_keys("llama", yarn + 1, 1, &(struct model_options){ .n_ctx = 257 });
    assert_non_null(strstr(warned, "longer than the 256 (64, stretched 4 times by its linear scaling) that"));
}

/* ---- rotations ---- */

static void degenerate_rotations(void **state)
{
    (void)state;
    static const struct key_row rows[] = {
        { "llama.rope.freq_base", GGUF_F32, 1, ONE, NULL, "rope.freq_base is 1; forgec supports 2 to 1e+15" },
        { "llama.rope.freq_base", GGUF_F32, 1e-6, ONE, NULL, "rope.freq_base is 9.99" },
        { "llama.rope.scaling.factor", GGUF_F32, 1e-6, ONE, NULL,
         "the rotation's scaling factor is 1e-06; it must be 0 (none) or at least 1" },
        { "llama.rope.scaling.factor", GGUF_F32, 1e6, ONE, NULL, "factor is 1000000; forgec supports 0 to 65536" },
        { "llama.rope.scaling.factor", GGUF_F32, -4, ONE, NULL, "factor is -4" },
        { "llama.rope.scale_linear", GGUF_F32, 0.5, ONE, NULL, "the rotation's scaling factor is 0.5" },
        { "llama.rope.scaling.attn_factor", GGUF_F32, 0.001, ONE, NULL, "attn_factor is 0.0010" },
        { "llama.rope.scaling.yarn_beta_fast", GGUF_F32, 1e-4, ONE, NULL, "yarn_beta_fast is 9.99" },
        { "llama.rope.scaling.yarn_beta_slow", GGUF_F32, 1e-4, ONE, NULL, "yarn_beta_slow is 9.99" },
        { "llama.rope.scaling.yarn_beta_slow", GGUF_F32, 32, ONE, NULL,
         "yarn_beta_fast is 32 and yarn_beta_slow 32; the fast one must be larger" },
        { "llama.rope.scaling.yarn_ext_factor", GGUF_F32, -0.5, ONE, NULL, "yarn_ext_factor is -0.5; it must be -1" },
        { "llama.rope.scaling.yarn_ext_factor", GGUF_F32, 2, ONE, NULL, "yarn_ext_factor is 2; forgec supports -1 to 1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(with_keys("llama", &rows[i], 1, NULL), rows[i].expected);
    static const struct key_row both[] = {
        { "llama.rope.scaling.factor", GGUF_F32, 4, ONE, NULL, NULL }, { "llama.rope.scale_linear", GGUF_F32, 2, ONE, NULL, NULL } };
    assert_dies(with_keys("llama", both, 2, NULL), "rope.scaling.factor is 4 but rope.scale_linear is 2");
}

/* The YaRN keys of a file change the frequencies as in the scalar oracle. */
static void yarn_keys(void **state)
{
    (void)state;
    static const struct key_row rows[] = {
        { "llama.rope.scaling.type", GGUF_STRING, 0, ONE, "yarn", NULL }, { "llama.rope.scaling.factor", GGUF_F32, 4, ONE, NULL, NULL },
        { "llama.rope.scaling.attn_factor", GGUF_F32, 1.5, ONE, NULL, NULL }, { "llama.rope.scaling.yarn_beta_fast", GGUF_F32, 6, ONE, NULL,
                                                                               NULL },
        { "llama.rope.scaling.yarn_beta_slow", GGUF_F32, 0.5, ONE, NULL, NULL }, { "llama.rope.scaling.yarn_ext_factor", GGUF_F32, 0.75,
                                                                                  ONE, NULL, NULL },
        { "llama.rope.scaling.original_context_length", GGUF_U32, 512, ONE, NULL, NULL } };
    struct rope_ref r = { .n_rot = 32, .freq_base = 10000, .freq_scale = 0.25, .ext_factor = 0.75, .attn_factor = 1.5, .beta_fast = 6,
                         .beta_slow = 0.5, .n_ctx_orig = 512 };
    double freq[16], plain[16];
    const struct graph *yarn = graph_build(a, with_keys("llama", rows, COUNT_OF(rows), NULL)), *other = graph_build(a,
                                                                                                                    with_keys("llama", rows,
                                                                                                                              3, NULL));
    assert_int_equal(yarn->n_rotations, 1);
    const double magnitude = model_rope_frequencies(&yarn->rotations[0].attr, NULL, freq);
    model_rope_frequencies(&other->rotations[0].attr, NULL, plain);
    bool differs = false;
    for (uint32_t i = 0; i < 16; i++) {
        double c, s;
        rope_pair_ref(&c, &s, &r, i, 3);
        assert_true(fabs(c - magnitude * cos(3 * freq[i])) < 1e-12 && fabs(s - magnitude * sin(3 * freq[i])) < 1e-12);
        differs = differs || freq[i] != plain[i];
    }
    assert_true(differs);
}

/* ---- mistakes in models/ARCH.yaml ---- */

#define HEAD  "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\n"
#define PARAMETERS "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n"

static void mistakes_in_yaml(void **state)
{
    (void)state;
    static const struct { const char *yaml, *expected; } rows[] = {
        { "architecture: qwen2\ninherits: transformer\nparameters: {rope_neox: false}\n",
         "llama.yaml:1:15: the architecture is \"qwen2\" but the file is named after llama" },
        { "architecture: llama\nparameters: {rope_neox: false}\n", "parameter n_layer is missing" },
        { "architecture: llama\ninherits: transformer\n", "parameter rope_neox is missing; add it under parameters" },
        { "architecture: llama\ninherits: llama\nparameters: {rope_neox: false}\n", "inherits goes deeper than 6 files" },
        { "architecture: llama\ninherits: nowhere\n", "llama.yaml:2:11: there is no models/nowhere.yaml" },
        { "architecture: llama\ninherits: transformer\nrope: neox\n", "llama.yaml:3:1: key \"rope\" is unknown" },
        { "architecture: llama\ninherits: transformer\nparameters: {rope_neox: left}\n",
         "llama.yaml:3:25: \"left\" is neither true nor false" },
        { HEAD "wave: 32\n", "llama.yaml:4:1: key \"wave\" is unknown" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: output}\n", "llama.yaml:5:11: else: output" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: nothing}\n", "else: nothing" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: attn_q}\n", "else: attn_q" },
        { HEAD "tensors:\n  output_norm: {name: output_norm.weight, shape: [n_zzz]}\n", "llama.yaml:5:16: unknown dimension n_zzz" },
        { HEAD "tensors:\n  output_norm: {name: output_norm.weight, shape: n_embd}\n", "shape must be a list of one to three dimensions" },
        { HEAD "fused:\n  \"blk.{l}.x\": attn_q\ntensors:\n  attn_q: {name: nowhere, shape: [n_q, n_embd]}\n",
         "llama.yaml:5:16: a list of tensor roles is needed here" },
        { HEAD "fused:\n  \"blk.{l}.x\": [zzz]\ntensors:\n  attn_q: {name: nowhere, shape: [n_q, n_embd]}\n",
         "there is no tensor role zzz" },
        { PARAMETERS "  rope_scaling: {values: [none]}\n", "the key rope_scaling is missing" },
        { PARAMETERS "  n_embd: {default: n_embd_per_head}\n", "llama.yaml:5:11: n_embd depends on itself" },
        { PARAMETERS "  n_layer: {default: n_layer + 1}\n", "llama.yaml:5:22: n_layer depends on itself" },
        { PARAMETERS "  n_head: {default: n_embd_pr_head}\n", "\"n_embd_pr_head\" is not a number" },
        { PARAMETERS "  n_head: {default: 1.5}\n", "llama.yaml:5:21: 1.5 is not a whole number" },
        { PARAMETERS "  n_head: {default: rope_base}\n", "rope_base is a f64; a u32 is needed here" },
        { PARAMETERS "  n_ff: {}\n", "the key n_ff is missing" },
        { PARAMETERS "  n_ff: [1]\n", "a parameter is a plain value, or a map with key and default" },
        { PARAMETERS "  n_embd: {key: \"{arch}.embedding_length\", per_layer: true}\n", "n_embd is one value for the whole model" },
        { PARAMETERS "  n_fff: {default: 1}\n",
         "llama.yaml:5:3: parameter \"n_fff\" is unknown to forgec; a parameter of the architecture's own needs a type" },
        { PARAMETERS "  mine: {type: u16, default: 1}\n", "llama.yaml:5:16: type is \"u16\"; it can be u32, f64 or bool" },
        { PARAMETERS "  n_q: {type: u32, default: 1}\n", "llama.yaml:5:3: n_q means something else already" },
        { PARAMETERS "  \"3\": {type: u32, default: 1}\n", "a parameter's name is letters, digits and _" },
        { PARAMETERS "  mine: {type: u32, default: 1, least: -1}\n", "a u32 is 0 to 4294967295" },
        { PARAMETERS "  mine: {type: u32, default: 7, least: 8}\n", "mine is 7; forgec supports 8 to 4294967295" },
        { PARAMETERS "  mine: {type: f64, default: mine}\n", "mine depends on itself" },
        { PARAMETERS "  mine: {type: u32, default: [1, 2]}\n",
         "mine takes one value; a list, repeated over the layers, needs per_layer: true" },
        { PARAMETERS "  mine: {type: u32, default: 1, where: rope_neox}\n",
            "where and otherwise belong together; add the missing key" },
        { PARAMETERS "  mine: {type: u32, default: 1, where: neox, otherwise: 2}\n", "llama.yaml:5:40: there is no parameter neox" },
        { PARAMETERS "  mine: {type: u32, default: 1, values: [none]}\n", "key \"values\" is unknown" },
        { HEAD "harmless: [llama.x]\n", "harmless is a map of keys and reasons" },
        { HEAD "harmless:\n  llama.x: \"\"\n", "the reason why llama.x is harmless is needed here" },
        { HEAD "neutral:\n  llama.x: 1\n", "llama.yaml:5:12: a list of the values that change nothing is needed here" },
        { HEAD "neutral:\n  llama.x: []\n", "a list of the values that change nothing" },
        { HEAD "neutral:\n  llama.x: [1e]\n", "\"1e\" is not a number" },
        { HEAD "neutral:\n  llama.x: [1]\nharmless:\n  llama.x: why\n", "llama.x stands under harmless, too" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(tiny_yaml(a, &tiny_llama, rows[i].yaml), rows[i].expected);
}

/* ---- three dimensions, and rows of a tensor ---- */

static void put_slices(void)
{
    tiny_slices("slices", QUANT_F32, 2, 3, 32);
    tiny_slices("pair", QUANT_F32, 2, 5, 32);
    tiny_tensor("rows", QUANT_F32, 12, 32);
    tiny_tensor("rows_f16", QUANT_F16, 12, 32);
    tiny_tensor("rows_q8", QUANT_Q8_0, 12, 32);
}

#define SLICES "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n  two: {type: u32, default: 2}\n"
#define ROLE(text) SLICES "tensors:\n  mine: {" text "}\n"

static const struct model *with_slices(const char *yaml)
{
    static struct tiny s;
    s = (struct tiny){ "llama", 32, 32, 2, 2, 16, 100, QUANT_F32, 1, NULL, 0, NULL, true };
    tiny_more = put_slices;
    return tiny_yaml(a, &s, yaml);
}

/* Row r of the role is row `from` of the tensor. */
static void is_row(const struct model *m, const char *role, uint64_t r, const char *name, uint64_t from)
{
    const struct weight *w = model_weight(m, (struct place){ "t", 1, 1 }, role, NO_LAYER);
    float *row = arena_array(a, float, w->cols);
    assert_true(weight_row(w, r) == from && strcmp(w->name, name) == 0);
    weight_to_float(row, w, r, 1);
    assert_memory_equal(row, w->tensor->data + from * w->cols * sizeof *row, w->cols * sizeof *row);
}

static void slices_and_rows(void **state)
{
    (void)state;
    const struct model *m = with_slices(ROLE("name: slices, shape: [two, 2 * two - 1, n_embd]"));
    const struct weight *w = model_weight(m, (struct place){ "t", 1, 1 }, "mine", NO_LAYER);
    assert_true(w->slices == 2 && w->rows == 6 && w->cols == 32 && !w->is_vector && m->n_parameters >= 6 * 32);
    for (uint64_t r = 0; r < 6; r++) is_row(m, "mine", r, "slices", r);
    /* Parts of each slice. */
    m = with_slices(SLICES "tensors:\n  a: {name: none, shape: [2, 2, n_embd]}\n  b: {name: none, shape: [2, 3, n_embd]}\n"
                           "fused:\n  pair: [a, b]\n");
    for (uint64_t r = 0; r < 4; r++) is_row(m, "a", r, "pair", r / 2 * 5 + r % 2);
    for (uint64_t r = 0; r < 6; r++) is_row(m, "b", r, "pair", r / 3 * 5 + 2 + r % 3);
    /* All rows at once give the same result for any runs. */
    w = model_weight(m, (struct place){ "t", 1, 1 }, "b", NO_LAYER);
    float rows[6][32], row[32];
    weight_to_float(rows[0], w, 0, 6);
    for (uint64_t r = 0; r < 6; r++) {
        weight_to_float(row, w, r, 1);
        assert_memory_equal(row, rows[r], sizeof row);
    }
    m = with_slices(ROLE("name: rows, shape: [4 * two, n_embd], rows: {count: two, first: 1, every: two + 1}"));
    for (uint64_t r = 0; r < 8; r++) is_row(m, "mine", r, "rows", r / 2 * 3 + 1 + r % 2);
}

/* Stacks of three slices of 4 rows, which are rows of another tensor, or its transposed rows. */
static void parts_of_a_tensor(void **state)
{
    (void)state;
    static const struct { const char *name; enum quant made; } of[] = { { "rows", QUANT_F32 }, { "rows_f16", QUANT_F16 },
                                                                        { "rows_q8", QUANT_F32 } };
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        const char *yaml = arena_printf(a, SLICES "  three: {type: u32, default: 3}\n  four: {type: u32, default: 4}\ntensors:\n"
            "  all: {name: %s, shape: [12, n_embd]}\n"
            "  up: {name: none, shape: [three, three, n_embd], part_of: {name: %s, count: three, first: 1, every: four}}\n"
            "  turned: {name: none, shape: [3, n_embd, 2], part_of: {name: %s, count: 2, first: 2, every: 4, transposed: true}}\n",
            of[i].name, of[i].name, of[i].name);
        const struct model *m = with_slices(yaml);
        const struct place at = { "t", 1, 1 };
        const struct weight *all = model_weight(m, at, "all", NO_LAYER), *up = model_weight(m, at, "up", NO_LAYER);
        const struct weight *turned = model_weight(m, at, "turned", NO_LAYER);
        float rows[12][32], row[32], column[32][2];
        weight_to_float(rows[0], all, 0, 12);
        assert_true(up->slices == 3 && up->rows == 9 && up->cols == 32 && up->tensor == all->tensor);
        for (uint64_t r = 0; r < 9; r++) {
            weight_to_float(row, up, r, 1);
            assert_memory_equal(row, rows[r / 3 * 4 + 1 + r % 3], sizeof row);
        }
        assert_true(turned->slices == 3 && turned->rows == 96 && turned->cols == 2 && turned->tensor->quant == format_of(of[i].made));
        assert_true(turned->tensor->made_of == all->tensor && strcmp(turned->name, of[i].name) == 0);
        for (uint64_t s = 0; s < 3; s++) {
            weight_to_float(column[0], turned, s * 32, 32);
            for (uint64_t c = 0; c < 32; c++)
                for (uint64_t r = 0; r < 2; r++) assert_memory_equal(&column[c][r], &rows[s * 4 + 2 + r][c], sizeof(float));
        }
    }
    static const struct { const char *yaml, *expected; } wrong[] = {
        { ROLE("name: none, shape: [3, 3, n_embd], part_of: {name: rows, count: 3, first: 2, every: 4}"),
          "mine: its 3 rows cannot be 3 of every 4, from 2" },
        { ROLE("name: none, shape: [3, 3, n_embd], part_of: {name: rows, count: 2, first: 1, every: 4}"),
          "mine: its 3 rows cannot be 2 of every 4, from 1" },
        { ROLE("name: none, shape: [4, 3, n_embd], part_of: {name: rows, count: 3, first: 1, every: 4}"),
          "tensor rows is 12 x 32; the hyperparameters ask for 16 x 32" },
        { ROLE("name: none, shape: [3, 16, 3], part_of: {name: rows, count: 3, first: 1, every: 4, transposed: true}"),
          "tensor rows is 12 x 32; the hyperparameters ask for 12 x 16" },
        { ROLE("name: none, shape: [3, n_embd], part_of: {name: rows, count: 3, first: 1, every: 4}"),
          "part_of is for a stack of matrices" },
        { ROLE("name: none, shape: [3, 3, n_embd], part_of: {name: rows, count: 3, every: 4}"), "key \"first\" is missing" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) assert_dies(with_slices(wrong[i].yaml), wrong[i].expected);
}

static void mistakes_in_slices(void **state)
{
    (void)state;
    static const struct { const char *yaml, *expected; } rows[] = {
        { ROLE("name: slices, shape: [3, 3, n_embd]"), "tensor slices is 2 x 3 x 32; the hyperparameters ask for 3 x 3 x 32" },
        { ROLE("name: slices, shape: [2, 4, n_embd]"), "tensor slices is 2 x 3 x 32; the hyperparameters ask for 2 x 4 x 32" },
        { ROLE("name: slices, shape: [6, n_embd]"), "tensor slices is 2 x 3 x 32; the hyperparameters ask for 6 x 32" },
        { ROLE("name: rows, shape: [3, 4, n_embd]"), "tensor rows is 12 x 32; the hyperparameters ask for 3 x 4 x 32" },
        { ROLE("name: slices, shape: [1, 2, 3, n_embd]"), "llama.yaml:7:31: shape must be a list of one to three dimensions" },
        { ROLE("name: slices, shape: []"), "shape must be a list of one to three dimensions" },
        { ROLE("name: slices, shape: [2, 3 - two * 2, n_embd]"), "llama.yaml:7:9: the dimension 3 - two * 2 comes to -1" },
        { ROLE("name: slices, shape: [2, n_embd / 3, n_embd]"), "the dimension n_embd / 3 comes to 10.6667" },
        { ROLE("name: none, optional: true, shape: [2, 3 * n_zz, 2]"), "llama.yaml:7:9: \"3 * n_zz\": there is no parameter n_zz" },
        { ROLE("name: none, optional: true, shape: [2 *, 2]"), "llama.yaml:7:9: \"2 *\": expected a number or a name" },
        { ROLE("name: none, optional: true, shape: [2 * rope_base, 2]"), "there is no parameter rope_base" },
        { ROLE("name: slices, shape: [2, 3, n_embd], rows: {count: 1, first: 0, every: 2}"),
         "llama.yaml:7:53: rows is for a matrix" },
        { ROLE("name: rows, shape: [8, n_embd], rows: {count: 2, every: 3}"), "key \"first\" is missing" },
        { ROLE("name: rows, shape: [8, n_embd], rows: {count: 2, first: 1, each: 3}"), "key \"each\" is unknown" },
        { ROLE("name: rows, shape: [8, n_embd], rows: {count: 0, first: 1, every: 3}"),
         "mine: its 8 rows cannot be 0 of every 3, from 1" },
        { ROLE("name: rows, shape: [8, n_embd], rows: {count: 2, first: 2, every: 3}"), "its 8 rows cannot be 2 of every 3, from 2" },
        { ROLE("name: rows, shape: [8, n_embd], rows: {count: 3, first: 0, every: 3}"), "its 8 rows cannot be 3 of every 3, from 0" },
        { ROLE("name: rows, shape: [2 * 2e15, n_embd], rows: {count: 1, first: 0, every: 2 * 2e15}"),
         "its 4000000000000000 rows cannot be" },
        { ROLE("name: rows, shape: [6, n_embd], rows: {count: 2, first: 0, every: 3}"),
         "tensor rows is 12 x 32; the hyperparameters ask for 9 x 32" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(with_slices(rows[i].yaml), rows[i].expected);
}

/* Parameters that are computed from others, per layer and before the number of layers is known. */
static void expressions(void **state)
{
    (void)state;
    const struct model *m = with_slices(SLICES "  three: {type: u32, default: two + 1}\n  odd: {type: bool, default: layer % 2 == 1}\n"
                                        "  share: {type: f64, default: 1 / sqrt(three + head_dim - 3)}\n"
                                        "  n_more: {type: u32, default: 3}\n  n_layer: {key: \"{arch}.block_count\", default: 1}\n"
                                        "  long_ctx: {type: bool, default: n_ctx > 63}\n");
    assert_true(model_param(m, "three")->values[0] == 3 && model_param(m, "odd")->values[0] == 0);
    assert_true(model_param(m, "share")->values[0] == 0.25 && model_param(m, "long_ctx")->values[0] == 1);
    static const struct { const char *line, *expected; } rows[] = {
        { "  mine: {type: u32, default: two / 4}\n", "llama.yaml:6:30: two / 4 is not a whole number" },
        { "  mine: {type: u32, default: two - 3}\n", "mine is -1; forgec supports 0 to 4294967295" },
        { "  mine: {type: u32, default: two + zz}\n", "llama.yaml:6:30: \"two + zz\": there is no parameter zz" },
        { "  mine: {type: u32, default: mine + 1}\n", "llama.yaml:6:30: mine depends on itself" },
        { "  mine: {type: f64, default: 1 / (two - 2)}\n", "\"1 / (two - 2)\" is not a finite number" },
        { "  mine: {type: bool, default: two + two}\n", "mine is 4; forgec supports 0 to 1" },
        { "  mine: {type: u32, default: (two}\n", "\"(two\": expected ) at \"its end\"" },
        { "  min: {type: u32, default: 1}\n", "llama.yaml:6:3: min means something else already" },
        { "  layer: {type: u32, default: 1}\n", "layer means something else already" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(with_slices(arena_printf(a, "%s%s", SLICES, rows[i].line)), rows[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scales_of_matrices, setup, teardown),
        cmocka_unit_test_setup_teardown(tensors_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(tensors_that_are_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(experts_without_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(windows_of_layers, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_of_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(further_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_that_change_the_arithmetic, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_of_embeddings, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_that_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_to_ignore, setup, teardown),
        cmocka_unit_test_setup_teardown(inherited_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(contexts, setup, teardown),
        cmocka_unit_test_setup_teardown(degenerate_rotations, setup, teardown),
        cmocka_unit_test_setup_teardown(yarn_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_in_yaml, setup, teardown),
        cmocka_unit_test_setup_teardown(draft_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(slices_and_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_of_a_tensor, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_in_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(expressions, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
