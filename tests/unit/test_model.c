/* test_model.c -- hyperparameters and tensors that do not go together, and architecture files with mistakes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "../../compiler/model.h"
#include "die_capture.h"
#include "tiny_model.h"

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* ---- numbers of the file ---- */

static void numbers_out_of_range(void **state)
{
    (void)state;
    static struct tiny s;
#define REFUSED(change, expected) do { s = tiny_llama; s.matrix = QUANT_F16; change; assert_dies(tiny_model(a, &s), expected); } while (0)
    REFUSED(s.n_layer = 0, "block_count is 0; forgec takes 1 to 1024");
    REFUSED(s.n_layer = 1025, "block_count is 1025");
    REFUSED(s.n_embd = (1u << 20) + 1, "embedding_length is 1048577; forgec takes 1 to 1048576");
    REFUSED(s.n_ff = UINT32_MAX, "feed_forward_length is 4294967295");
    REFUSED(s.n_vocab = (1u << 24) + 1, "16777217");
    REFUSED(s.n_head = 4097, "head_count is 4097");
    REFUSED(s.n_head = 3, "head_count 3 in layer 0 is no multiple of head_count_kv 2");
    REFUSED((s.n_head = 2, s.n_head_kv = 4), "head_count 2 in layer 0 is no multiple of head_count_kv 4");
    REFUSED(s.head_dim = 33, "key_length is 33; it must be even");
    REFUSED(s.omit = "embedding_length", "the key llama.embedding_length is missing");
    REFUSED((s.omit = "attention.key_length", s.n_head = 6), "embedding_length 64 is no multiple of head_count 6");
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
    static const struct { const char *key; enum gguf_type type; uint32_t number; void (*put)(struct text *); const char *omit, *expected; } rows[] = {
        { "llama.rope.dimension_count", GGUF_U32, 34, put_number, NULL, "rope.dimension_count is 34; it must be even and at most key_length, 32" },
        { "llama.rope.dimension_count", GGUF_U32, 7, put_number, NULL, "rope.dimension_count is 7" },
        { "llama.rope.dimension_count", GGUF_I32, UINT32_MAX, put_number, NULL, "the number is negative" },
        { "llama.rope.dimension_count", GGUF_U32, 2, put_array, NULL, "is an array; expected one value" },
        { "llama.attention.value_length", GGUF_U32, 16, put_number, NULL, "value_length is 16 but key_length is 32" },
        { "llama.expert_count", GGUF_U32, 4, put_number, NULL, "a mixture of 4 experts" },
        { "llama.vocab_size", GGUF_U32, 99, put_number, NULL, "tensor token_embd.weight is 100 x 64; the hyperparameters ask for 99 x 64" },
        { "llama.rope.freq_base", GGUF_F32, 0x7fc00000, put_number, NULL, "not a number" },
        { "llama.rope.freq_base", GGUF_U32, 1, put_number, NULL, "the type is u32, f32 or f64 is needed" },
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

/* ---- mistakes in models/ARCH.yaml ---- */

#define HEAD  "architecture: llama\ninherits: transformer\nrope: normal\n"

static void mistakes_in_yaml(void **state)
{
    (void)state;
    static const struct { const char *yaml, *expected; } rows[] = {
        { "architecture: qwen2\ninherits: transformer\nrope: normal\n", "llama.yaml:1:15: the architecture is \"qwen2\" but the file is named after llama" },
        { "architecture: llama\nrope: normal\n", "parameter n_embd is missing" },
        { "architecture: llama\ninherits: transformer\n", "rope (normal or neox) is missing" },
        { "architecture: llama\ninherits: llama\nrope: normal\n", "inherits goes deeper than 4 files" },
        { "architecture: llama\ninherits: nowhere\n", "llama.yaml:2:11: there is no models/nowhere.yaml" },
        { "architecture: llama\ninherits: transformer\nrope: left\n", "llama.yaml:3:7: rope is \"left\"" },
        { HEAD "wave: 32\n", "llama.yaml:4:1: key \"wave\" is unknown" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: output}\n", "llama.yaml:5:11: else: output" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: nothing}\n", "else: nothing" },
        { HEAD "tensors:\n  output: {name: nothing, shape: [n_vocab, n_embd], else: attn_q}\n", "else: attn_q" },
        { HEAD "tensors:\n  output_norm: {name: output_norm.weight, shape: [n_zzz]}\n", "llama.yaml:5:16: unknown dimension n_zzz" },
        { HEAD "tensors:\n  output_norm: {name: output_norm.weight, shape: n_embd}\n", "shape is a list of one or two dimensions" },
        { HEAD "fused:\n  \"blk.{l}.x\": attn_q\ntensors:\n  attn_q: {name: nowhere, shape: [n_q, n_embd]}\n", "llama.yaml:5:16: a list of tensor roles is needed here" },
        { HEAD "fused:\n  \"blk.{l}.x\": [zzz]\ntensors:\n  attn_q: {name: nowhere, shape: [n_q, n_embd]}\n", "there is no tensor role zzz" },
        { HEAD "parameters:\n  rope_scaling: {values: [none]}\n", "the key rope_scaling is missing" },
        { HEAD "parameters:\n  n_embd: {default: n_head}\n", "\"n_head\" is not a number" },
        { HEAD "parameters:\n  n_layer: {default: n_embd_per_head}\n", "\"n_embd_per_head\" is not a number" },
        { HEAD "parameters:\n  n_head: {default: n_embd_per_head}\n", "\"n_embd_per_head\" is not a number" },
        { HEAD "parameters:\n  n_ff: {}\n", "the key n_ff is missing" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(tiny_yaml(a, &tiny_llama, rows[i].yaml), rows[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(further_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_in_yaml, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
