/* Storyteller 7M for gfx1151, by forgec 0.1.0, clang 19.1.7
 * architecture llama: 8 layers, n_embd 256, head_dim 64, n_vocab 4096, 7.3 M parameters; GGUF 82cb600c9ae565298e0833dcbe66c16f
 * options: --fuse layer --ctx 1024 --kv f16
 * weights 7.833 MB, read per token 7.821 MB, KV cache 4096 bytes per token, arena 5.364 MB
 * compile alone: clang --target=x86_64-linux-gnu -x hip -std=c++20 --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 -ffp-contract=on -fuse-cuid=none -fno-hip-fp32-correctly-rounded-divide-sqrt -fgpu-flush-denormals-to-zero -munsafe-fp-atomics -mcode-object-version=5 --offload-arch=gfx1151 -DFORGE_NO_PDL -o model-gfx1151.co model-gfx1151.hip
 * weights: 58634ca419b7b697d38118ee8f085e53
 *
 *     54  sizes
 *     59  what the model takes from the appendix
 *    110  the model
 *    116  buffers: the arena, 5363968 bytes
 *    152  kernels
 *    639  launches
 *    652  appendix: everything that is used of the templates
 *    656  templates/gpu/machine/families.h
 *    689  templates/gpu/machine/words.h
 *    723  templates/gpu/machine/rdna3.h
 *    733  templates/gpu/machine/amd.h
 *    844  templates/gpu/machine/rdna3.h, continued
 *    862  templates/gpu/machine/fragments.h
 *    898  templates/gpu/machine/wmma.h
 *    953  templates/gpu/machine/rdna3.h, continued
 *    975  templates/gpu/machine/copy_registers.h
 *    990  runtime/model/abi_gpu.h
 *   1059  templates/gpu/dialect.h
 *   1206  templates/gpu/launch.h
 *   1242  templates/gpu/gemv_sizes.h
 *   1263  templates/gpu/acts_unit.h
 *   1335  templates/gpu/acts.h
 *   1606  templates/gpu/stage.h
 *   1657  templates/gpu/attention_sizes.h
 *   1694  templates/gpu/kv.h
 *   1837  templates/gpu/rope.h
 *   1974  templates/gpu/attention_decode_tmpl.c
 *   2734  templates/gpu/mma.h
 *   2830  templates/gpu/attention_prefill_sizes.h
 *   2876  templates/gpu/attention_prefill.h
 *   3066  templates/gpu/attention_prefill_columns.h
 *   3363  templates/gpu/attention_prefill_exact.h
 *   3514  templates/gpu/attention_prefill_tmpl.c
 *   3573  templates/gpu/sample_math.h
 *   3708  templates/gpu/sample_sizes.h
 *   3743  templates/gpu/sample_tmpl.c
 *   4652  templates/gpu/formats/q8_0.h
 *   4705  templates/gpu/row_stride.h
 *   4713  templates/gpu/gemm_sizes.h
 *   4764  templates/gpu/embed_tmpl.c
 *   4832  templates/gpu/gemm_tmpl.c
 *   5237  templates/gpu/gemv_tmpl.c
 */

#ifndef SECTION                                  /* the model, up to #elif; behind it the appendix, whose sections the model includes */

/* ==== sizes ==== */
#define KV f16
#define GEMM_STAGES 1
#define GEMM_UNIT_STEPS 1

/* ==== what the model takes from the appendix ==== */
#ifndef SOURCE_NAME
#define SOURCE_NAME __FILE_NAME__                /* this file; forgec compiles it from memory and tells where it is */
#endif
#define SECTION_COMMON 1
#define SECTION_EMBED 2
#define SECTION_GEMM 3
#define SECTION_GEMV 4

struct declared;                                 /* before it clangd refuses a file that includes itself */

#define SECTION SECTION_COMMON
#include SOURCE_NAME

#define FORMAT q8_0
#define SECTION SECTION_EMBED
#include SOURCE_NAME
#define GEMM_TOKENS 32
#define GEMM_ROWS 32
#define GEMM_THREADS 64
#define SECTION SECTION_GEMM
#include SOURCE_NAME
#define GEMM_TOKENS 112
#define GEMM_ROWS 32
#define GEMM_THREADS 64
#define SECTION SECTION_GEMM
#include SOURCE_NAME
#define GEMM_TOKENS 64
#define GEMM_ROWS 64
#define GEMM_THREADS 64
#define SECTION SECTION_GEMM
#include SOURCE_NAME
#define GEMM_TOKENS 32
#define GEMM_ROWS 112
#define GEMM_THREADS 64
#define SECTION SECTION_GEMM
#include SOURCE_NAME
#define ROWS 1
#define LANES 16
#define SECTION SECTION_GEMV
#include SOURCE_NAME
#define ROWS 1
#define LANES 32
#define SECTION SECTION_GEMV
#include SOURCE_NAME
#define ROWS 2
#define LANES 16
#define SECTION SECTION_GEMV
#include SOURCE_NAME
#undef FORMAT

/* ==== the model ==== */
/* 8 layers of 256 columns, 4096 tokens in the vocabulary, context 1024, prompts in steps of 1024 tokens
 * layers 0-7: 4 heads of 64 over 2 KV heads, reads all positions, kv of 1024 rows
 * state of a sequence: 4194304 bytes, of which a position takes 4096
 * weights: 75 tensors in 7833472 bytes, of which a token reads 7820560 */

/* ==== buffers: the arena, 5363968 bytes ==== */
/* A value has a row for each token of a step, in the same place in all layers; places overlap where they are not
 * wanted at once.  Behind each: its name, the columns of a row, and from which launch to which it lives. */
#define VALUE(name, t) FLOAT_ROW(AT_##name, STRIDE_##name, t)
#define AT_X                        0u
#define STRIDE_X                    1024u        /* x [256]: embed .. attn_output, ffn_down .. attn_output, ffn_down .. token_embd */
#define AT_ATTN_QKV_IN_F16          1048576u
#define STRIDE_ATTN_QKV_IN_F16      512u         /* attn_qkv in f16 [256]: attn_qkv */
#define AT_Q                        1572864u
#define STRIDE_Q                    1024u        /* q [256]: attn_qkv .. attention */
#define AT_K                        2621440u
#define STRIDE_K                    512u         /* k [128]: attn_qkv .. attention */
#define AT_V                        3145728u
#define STRIDE_V                    512u         /* v [128]: attn_qkv .. attention */
#define AT_KQV                      1048576u
#define STRIDE_KQV                  1024u        /* kqv [256]: attention .. attn_output */
#define AT_KQV_IN_F16               3670016u
#define STRIDE_KQV_IN_F16           512u         /* kqv in f16 [256]: attention .. attn_output */
#define AT_FFN_INP                  1049600u
#define STRIDE_FFN_INP              1024u        /* ffn_inp [256]: attn_output .. ffn_down */
#define AT_FFN_GATE_UP_IN_F16       0u
#define STRIDE_FFN_GATE_UP_IN_F16   512u         /* ffn_gate_up in f16 [256]: ffn_gate_up */
#define AT_GLU                      2098176u
#define STRIDE_GLU                  3072u        /* glu [768]: ffn_gate_up .. ffn_down */
#define AT_GLU_IN_F16               2101248u
#define STRIDE_GLU_IN_F16           1536u        /* glu in f16 [768]: ffn_gate_up .. ffn_down */
#define AT_TOKEN_EMBD_IN_F16        1048576u
#define STRIDE_TOKEN_EMBD_IN_F16    512u         /* token_embd in f16 [256]: token_embd */
#define ARENA_PARTS                 4194304u     /* attention's sums of each split of the positions */
#define ARENA_MAXIMA                4214784u     /* their maxima and totals */
#define ARENA_COUNTERS              4215552u     /* of the splits that are done; zero before the first launch */
#define ARENA_SAMPLE_COUNTERS       4215808u     /* the same of sampling */
#define ARENA_SAMPLE                4216064u     /* scratch of sampling */
#define ARENA_LOGITS                4315392u     /* f32, a row each of up to 64 tokens */
#define ARENA_LOGITS_STRIDE         16384u

/* ==== kernels ==== */
/* embed: 256 threads, 0 bytes of LDS; outside the layers, 2 launches, 272 bytes of weights, 0.00 us of reading
 * embed: rows of weight W_TOKEN_EMBD, Q8_0 4096 x 256 -> x f32 [256] at 0, stride 1024
 * weights of the launch: W_TOKEN_EMBD */
KERNEL(256, 1) embed(const struct forge_kernel_args a)
{
    enum { W_TOKEN_EMBD = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = first_token(a) + group_y();
    embed_row_q8_0(VALUE(X, t), WEIGHT(W_TOKEN_EMBD), token_of(a, t), /* cols */ 256, 256);
}

DEVICE void attn_q_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    VALUE(Q, t)[r] = y;
}

DEVICE void attn_k_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    r -= 256;
    VALUE(K, t)[r] = y;
}

DEVICE void attn_v_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    r -= 384;
    VALUE(V, t)[r] = y;
}

DEVICE void attn_qkv_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    if (r < 256) attn_q_row(a, t, r, y);
    else if (r < 384) attn_k_row(a, t, r, y);
    else attn_v_row(a, t, r, y);
}

/* attn_qkv: 256 threads, 1488 bytes of LDS; layers 0-7, 8 launches, 140288 bytes of weights, 0.66 us of reading
 * input x f32 [256] at 0, stride 1024, rmsnorm weight W_ATTN_NORM, eps 9.99999975e-06, as 2 digits
 * product of weight W_ATTN_Q, Q8_0 512 x 256, and digits
 *   attn_q, 256 rows -> q f32 [256] at 1572864, stride 1024
 *   attn_k, 128 rows -> k f32 [128] at 2621440, stride 512
 *   attn_v, 128 rows -> v f32 [128] at 3145728, stride 512
 * weights of the launch: W_ATTN_Q, W_ATTN_NORM */
KERNEL(256, 1) attn_qkv(const struct forge_kernel_args a)
{
    enum { W_ATTN_Q = 0, W_ATTN_NORM = 1 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 16);
    struct first_q8_0_1x16 first;
    struct row_quads row, norm_weight;
    pdl_wait();
    row_begin(&row, VALUE(X, 0), /* cols */ 256, 256);
    norm_begin(&norm_weight, VECTOR(W_ATTN_NORM), /* cols */ 256, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_1x16(&first, WEIGHT(W_ATTN_Q), 0, /* rows */ 512, /* cols */ 256, slot);
    COMPILER_FENCE();
    mark(a);
    norm_to_lds(lds(), &row, VALUE(X, 0), &norm_weight, VECTOR(W_ATTN_NORM), /* cols */ 256, 9.99999975e-06f, /* digits */ 2,
        /* sums16 */ 0, 256);
    gemv_q8_0_1x16(a, &first, WEIGHT(W_ATTN_Q), /* rows */ 512, /* cols */ 256, lds(), /* digits */ 2, slot, /* stride */ 640,
        /* addend */ 0, attn_qkv_row);
}

/* attention: 256 threads, 4752 bytes of LDS; layers 0-7, 8 launches, 512 bytes of weights, 524288 of the full state, 2.48 us of reading
 * heads of q: q f32 [256] at 1572864, stride 1024
 * heads of k: k f32 [128] at 2621440, stride 512, into the state
 * heads of v: v f32 [128] at 3145728, stride 512, into the state
 * rope with weights W_ANGLES_HIGH and W_ANGLES_LOW, 32 positions a row, 64 items, pairs 2i, 2i + 1
 * attention: 4 heads of 64 over 2 KV heads in f16, 1024 positions, scale 0.125
 * query q f32 [256] at 1572864, stride 1024 -> kqv f32 [256] at 1048576, stride 1024
 * parts at 4194304, maxima and totals at 4214784, counters at 4215552
 * weights of the launch: W_ANGLES_LOW, W_ANGLES_HIGH */
KERNEL(256, 1) attention(const struct forge_kernel_args a)
{
    enum { W_ANGLES_LOW = 0, W_ANGLES_HIGH = 1 };
    attention_decode(a, VALUE(KQV, 0),
        /* q, k, v */ VALUE(Q, 0), VALUE(K, 0), VALUE(V, 0),
        /* norms */ 0, 0, 0.0f,
        VECTOR(W_ANGLES_HIGH), VECTOR(W_ANGLES_LOW), /* n_rot */ 64, /* neox */ 0, /* block */ 32,
        /* parts */ FLOATS(ARENA_PARTS), FLOATS(ARENA_MAXIMA), (uint32_t *)(void *)BUFFER(ARENA_COUNTERS),
        /* heads */ 4, 2, /* head_dim */ 64, /* n_ctx */ 1024, 0.125f, /* splits */ 20, /* spans, of positions */ 1, 5120, /* rows */ 8,
        /* digits */ 0,
        /* threads */ 256, /* cluster */ 0, /* window, ring */ 0, 0, /* single, recalls */ 1, 0);
}

DEVICE void attn_output_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    VALUE(FFN_INP, t)[r] = y;
}

DEVICE float attn_output_addend(const struct forge_kernel_args a, uint32_t t, uint32_t r)
{
    return VALUE(X, t)[r];
}

/* attn_output: 256 threads, 1488 bytes of LDS; layers 0-7, 8 launches, 69632 bytes of weights, 0.33 us of reading
 * input kqv f32 [256] at 1048576, stride 1024, as 2 digits
 * product of weight W_ATTN_OUTPUT, Q8_0 256 x 256, and digits
 *   attn_output, 256 rows, add x f32 [256] at 0, stride 1024 -> ffn_inp f32 [256] at 1049600, stride 1024
 * weights of the launch: W_ATTN_OUTPUT */
KERNEL(256, 1) attn_output(const struct forge_kernel_args a)
{
    enum { W_ATTN_OUTPUT = 0 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 32);
    struct first_q8_0_1x32 first;
    struct row_quads row;
    pdl_wait();
    row_begin(&row, VALUE(KQV, 0), /* cols */ 256, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_1x32(&first, WEIGHT(W_ATTN_OUTPUT), 0, /* rows */ 256, /* cols */ 256, slot);
    COMPILER_FENCE();
    mark(a);
    row_to_lds(lds(), &row, VALUE(KQV, 0), /* cols */ 256, /* digits */ 2, /* sums16 */ 0, 256);
    gemv_q8_0_1x32(a, &first, WEIGHT(W_ATTN_OUTPUT), /* rows */ 256, /* cols */ 256, lds(), /* digits */ 2, slot, /* stride */ 320,
        attn_output_addend, attn_output_row);
}

DEVICE void ffn_gate_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y, float up)
{
    y = silu_f32(y) * up;
    VALUE(GLU, t)[r] = y;
}

/* ffn_gate_up: 256 threads, 1488 bytes of LDS; layers 0-7, 8 launches, 418816 bytes of weights, 1.98 us of reading
 * input ffn_inp f32 [256] at 1049600, stride 1024, rmsnorm weight W_FFN_NORM, eps 9.99999975e-06, as 2 digits
 * product of weights W_FFN_GATE and W_FFN_UP, Q8_0 768 x 256, and digits
 *   ffn_gate, 768 rows, beside ffn_up, glu_silu -> glu f32 [768] at 2098176, stride 3072
 * weights of the launch: W_FFN_GATE, W_FFN_UP, W_FFN_NORM */
KERNEL(256, 1) ffn_gate_up(const struct forge_kernel_args a)
{
    enum { W_FFN_GATE = 0, W_FFN_UP = 1, W_FFN_NORM = 2 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 16);
    struct first_q8_0_2x16 first;
    struct row_quads row, norm_weight;
    pdl_wait();
    row_begin(&row, VALUE(FFN_INP, 0), /* cols */ 256, 256);
    norm_begin(&norm_weight, VECTOR(W_FFN_NORM), /* cols */ 256, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_2x16(&first, WEIGHT(W_FFN_GATE), WEIGHT(W_FFN_UP), /* rows */ 768, /* cols */ 256, slot);
    COMPILER_FENCE();
    mark(a);
    norm_to_lds(lds(), &row, VALUE(FFN_INP, 0), &norm_weight, VECTOR(W_FFN_NORM), /* cols */ 256, 9.99999975e-06f, /* digits */ 2,
        /* sums16 */ 0, 256);
    gemv_pair_q8_0_2x16(a, &first, WEIGHT(W_FFN_GATE), WEIGHT(W_FFN_UP), /* rows */ 768, /* cols */ 256, lds(), /* digits */ 2, slot,
        /* stride */ 640, ffn_gate_row);
}

DEVICE void ffn_down_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    VALUE(X, t)[r] = y;
}

DEVICE float ffn_down_addend(const struct forge_kernel_args a, uint32_t t, uint32_t r)
{
    return VALUE(FFN_INP, t)[r];
}

/* ffn_down: 256 threads, 2640 bytes of LDS; layers 0-7, 8 launches, 208896 bytes of weights, 0.99 us of reading
 * input glu f32 [768] at 2098176, stride 3072, as 2 digits
 * product of weight W_FFN_DOWN, Q8_0 256 x 768, and digits
 *   ffn_down, 256 rows, add ffn_inp f32 [256] at 1049600, stride 1024 -> x f32 [256] at 0, stride 1024
 * weights of the launch: W_FFN_DOWN */
KERNEL(256, 1) ffn_down(const struct forge_kernel_args a)
{
    enum { W_FFN_DOWN = 0 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 32);
    struct first_q8_0_1x32 first;
    struct row_quads row;
    pdl_wait();
    row_begin(&row, VALUE(GLU, 0), /* cols */ 768, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_1x32(&first, WEIGHT(W_FFN_DOWN), 0, /* rows */ 256, /* cols */ 768, slot);
    COMPILER_FENCE();
    mark(a);
    row_to_lds(lds(), &row, VALUE(GLU, 0), /* cols */ 768, /* digits */ 2, /* sums16 */ 0, 256);
    gemv_q8_0_1x32(a, &first, WEIGHT(W_FFN_DOWN), /* rows */ 256, /* cols */ 768, lds(), /* digits */ 2, slot, /* stride */ 320,
        ffn_down_addend, ffn_down_row);
}

DEVICE void token_embd_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    FLOAT_ROW(ARENA_LOGITS, ARENA_LOGITS_STRIDE, t - first_token(a))[r] = y;
}

/* token_embd: 256 threads, 1488 bytes of LDS; outside the layers, 1 launch, 1115136 bytes of weights, 5.26 us of reading
 * input x f32 [256] at 0, stride 1024, rmsnorm weight W_OUTPUT_NORM, eps 9.99999975e-06, as 2 digits
 * product of weight W_TOKEN_EMBD, Q8_0 4096 x 256, and digits
 *   token_embd, 4096 rows -> head f32 [4096] at 4315392, stride 16384, from the first token with logits
 * weights of the launch: W_TOKEN_EMBD, W_OUTPUT_NORM */
KERNEL(256, 1) token_embd(const struct forge_kernel_args a)
{
    enum { W_TOKEN_EMBD = 0, W_OUTPUT_NORM = 1 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 16);
    struct first_q8_0_2x16 first;
    struct row_quads row, norm_weight;
    pdl_wait();
    row_begin(&row, VALUE(X, 0), /* cols */ 256, 256);
    norm_begin(&norm_weight, VECTOR(W_OUTPUT_NORM), /* cols */ 256, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_2x16(&first, WEIGHT(W_TOKEN_EMBD), 0, /* rows */ 4096, /* cols */ 256, slot);
    COMPILER_FENCE();
    mark(a);
    norm_to_lds(lds(), &row, VALUE(X, 0), &norm_weight, VECTOR(W_OUTPUT_NORM), /* cols */ 256, 9.99999975e-06f, /* digits */ 2,
        /* sums16 */ 0, 256);
    gemv_q8_0_2x16(a, &first, WEIGHT(W_TOKEN_EMBD), /* rows */ 4096, /* cols */ 256, lds(), /* digits */ 2, slot, /* stride */ 640,
        /* addend */ 0, token_embd_row);
}

/* sample_token: 512 threads, 28896 bytes of LDS; after a step
 * sample: logits f32 [4096] at 4315392, history of 1024, scratch at 4216064, counter at 4215808 */
KERNEL(512, 1) sample_token(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    sample(a, FLOATS(ARENA_LOGITS) + (uint64_t)(a.step->n_logits - 1) * 4096, /* n_vocab */ 4096, /* n_ctx */ 1024,
        BUFFER(ARENA_SAMPLE), (uint32_t *)(void *)BUFFER(ARENA_SAMPLE_COUNTERS), /* groups */ 64, 512);
}

/* attn_qkv_in: 256 threads, 128 bytes of LDS; layers 0-7, 8 launches, 1024 bytes of weights, 0.00 us of reading
 * rmsnorm weight W_ATTN_NORM, eps 9.99999975e-06: x f32 [256] at 0, stride 1024 -> attn_qkv in f16 [256] at 1048576, stride 512
 * weights of the launch: W_ATTN_NORM */
KERNEL(256, 1) attn_qkv_in(const struct forge_kernel_args a)
{
    enum { W_ATTN_NORM = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = first_token(a) + group_y();
    stage_rows(ROW(AT_ATTN_QKV_IN_F16, STRIDE_ATTN_QKV_IN_F16, t), VALUE(X, t), VECTOR(W_ATTN_NORM), /* cols */ 256, 9.99999975e-06f,
        /* norm */ 1, /* bf16 */ 0, 256);
}

/* attn_qkv_prefill_384: 64 threads, 8192 bytes of LDS; layers 0-7, 8 launches, 139264 bytes of weights, 0.66 us of reading
 * product of weight W_ATTN_Q, Q8_0 512 x 256, and attn_qkv in f16 [256] at 1048576, stride 512
 *   attn_q, 256 rows -> q f32 [256] at 1572864, stride 1024
 *   attn_k, 128 rows -> k f32 [128] at 2621440, stride 512
 *   attn_v, 128 rows -> v f32 [128] at 3145728, stride 512
 * weights of the launch: W_ATTN_Q */
KERNEL(64, 4) attn_qkv_prefill_384(const struct forge_kernel_args a)
{
    enum { W_ATTN_Q = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_32x32_64(a, WEIGHT(W_ATTN_Q), /* rows */ 512, /* cols */ 256, BUFFER(AT_ATTN_QKV_IN_F16), STRIDE_ATTN_QKV_IN_F16, tile, t0,
        a.step->n_tokens, attn_qkv_row);
}

/* attn_qkv_prefill: 64 threads, 18432 bytes of LDS; layers 0-7, 8 launches, 139264 bytes of weights, 0.66 us of reading
 * product of weight W_ATTN_Q, Q8_0 512 x 256, and attn_qkv in f16 [256] at 1048576, stride 512
 *   attn_q, 256 rows -> q f32 [256] at 1572864, stride 1024
 *   attn_k, 128 rows -> k f32 [128] at 2621440, stride 512
 *   attn_v, 128 rows -> v f32 [128] at 3145728, stride 512
 * weights of the launch: W_ATTN_Q */
KERNEL(64, 4) attn_qkv_prefill(const struct forge_kernel_args a)
{
    enum { W_ATTN_Q = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_112x32_64(a, WEIGHT(W_ATTN_Q), /* rows */ 512, /* cols */ 256, BUFFER(AT_ATTN_QKV_IN_F16), STRIDE_ATTN_QKV_IN_F16, tile, t0,
        a.step->n_tokens, attn_qkv_row);
}

/* heads_prefill: 256 threads, 2048 bytes of LDS; layers 0-7, 8 launches, 512 bytes of weights, 0.00 us of reading
 * heads of q: q f32 [256] at 1572864, stride 1024
 * heads of k: k f32 [128] at 2621440, stride 512, into the state
 * heads of v: v f32 [128] at 3145728, stride 512, into the state
 * rope with weights W_ANGLES_HIGH and W_ANGLES_LOW, 32 positions a row, 64 items, pairs 2i, 2i + 1
 * 4 and 2 heads of 64, 1024 positions
 * weights of the launch: W_ANGLES_LOW, W_ANGLES_HIGH */
KERNEL(256, 1) heads_prefill(const struct forge_kernel_args a)
{
    enum { W_ANGLES_LOW = 0, W_ANGLES_HIGH = 1 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = first_token(a) + group_y();
    qkv_finish(a, t, VALUE(Q, t), VALUE(K, t), VALUE(V, t),
        /* norms */ 0, 0, 0.0f,
        VECTOR(W_ANGLES_HIGH), VECTOR(W_ANGLES_LOW), /* n_rot */ 64, /* neox */ 0, /* block */ 32,
        /* heads */ 4, 2, /* head_dim */ 64, /* n_ctx */ 1024, 256, /* ring */ 0);
}

/* attention_chunk: 128 threads, 10240 bytes of LDS; layers 0-7, 8 launches, 524288 of the full state, 2.47 us of reading
 * attention: 4 heads of 64 over 2 KV heads in f16, 1024 positions, scale 0.125
 * query q f32 [256] at 1572864, stride 1024 -> kqv in f16 [256] at 3670016, stride 512 */
KERNEL(128, 2) attention_chunk(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    attention_prefill(a, BUFFER(AT_KQV_IN_F16), STRIDE_KQV_IN_F16, /* as */ 1, BUFFER(AT_Q), STRIDE_Q,
        /* heads */ 4, 2, /* head_dim */ 64, /* n_ctx */ 1024, 0.125f, /* digits */ 1, 128, /* in fours */ 0, /* window, ring */ 0, 0);
}

DEVICE void attn_output_rows(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    y += VALUE(X, t)[r];
    VALUE(FFN_INP, t)[r] = y;
}

/* attn_output_prefill_384: 64 threads, 8192 bytes of LDS; layers 0-7, 8 launches, 69632 bytes of weights, 0.33 us of reading
 * product of weight W_ATTN_OUTPUT, Q8_0 256 x 256, and kqv in f16 [256] at 3670016, stride 512
 *   attn_output, 256 rows, add x f32 [256] at 0, stride 1024 -> ffn_inp f32 [256] at 1049600, stride 1024
 * weights of the launch: W_ATTN_OUTPUT */
KERNEL(64, 4) attn_output_prefill_384(const struct forge_kernel_args a)
{
    enum { W_ATTN_OUTPUT = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_32x32_64(a, WEIGHT(W_ATTN_OUTPUT), /* rows */ 256, /* cols */ 256, BUFFER(AT_KQV_IN_F16), STRIDE_KQV_IN_F16, tile, t0,
        a.step->n_tokens, attn_output_rows);
}

/* attn_output_prefill: 64 threads, 18432 bytes of LDS; layers 0-7, 8 launches, 69632 bytes of weights, 0.33 us of reading
 * product of weight W_ATTN_OUTPUT, Q8_0 256 x 256, and kqv in f16 [256] at 3670016, stride 512
 *   attn_output, 256 rows, add x f32 [256] at 0, stride 1024 -> ffn_inp f32 [256] at 1049600, stride 1024
 * weights of the launch: W_ATTN_OUTPUT */
KERNEL(64, 4) attn_output_prefill(const struct forge_kernel_args a)
{
    enum { W_ATTN_OUTPUT = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_112x32_64(a, WEIGHT(W_ATTN_OUTPUT), /* rows */ 256, /* cols */ 256, BUFFER(AT_KQV_IN_F16), STRIDE_KQV_IN_F16, tile, t0,
        a.step->n_tokens, attn_output_rows);
}

/* ffn_gate_up_in: 256 threads, 128 bytes of LDS; layers 0-7, 8 launches, 1024 bytes of weights, 0.00 us of reading
 * rmsnorm weight W_FFN_NORM, eps 9.99999975e-06: ffn_inp f32 [256] at 1049600, stride 1024 -> ffn_gate_up in f16 [256] at 0, stride 512
 * weights of the launch: W_FFN_NORM */
KERNEL(256, 1) ffn_gate_up_in(const struct forge_kernel_args a)
{
    enum { W_FFN_NORM = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = first_token(a) + group_y();
    stage_rows(ROW(AT_FFN_GATE_UP_IN_F16, STRIDE_FFN_GATE_UP_IN_F16, t), VALUE(FFN_INP, t), VECTOR(W_FFN_NORM), /* cols */ 256,
        9.99999975e-06f, /* norm */ 1, /* bf16 */ 0, 256);
}

DEVICE void ffn_gate_rows(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y, float up)
{
    y = silu_f32(y) * up;
    ((uint16_t *)(void *)ROW(AT_GLU_IN_F16, STRIDE_GLU_IN_F16, t))[r] = (uint16_t)stage_f16(y);
}

/* ffn_gate_up_prefill_128: 64 threads, 8192 bytes of LDS; layers 0-7, 8 launches, 417792 bytes of weights, 1.97 us of reading
 * product of weights W_FFN_GATE and W_FFN_UP, Q8_0 768 x 256, and ffn_gate_up in f16 [256] at 0, stride 512
 *   ffn_gate, 768 rows, beside ffn_up, glu_silu -> glu in f16 [768] at 2101248, stride 1536
 * weights of the launch: W_FFN_GATE, W_FFN_UP */
KERNEL(64, 4) ffn_gate_up_prefill_128(const struct forge_kernel_args a)
{
    enum { W_FFN_GATE = 0, W_FFN_UP = 1 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_pair_q8_0_32x32_64(a, WEIGHT(W_FFN_GATE), WEIGHT(W_FFN_UP), /* rows */ 768, /* cols */ 256, BUFFER(AT_FFN_GATE_UP_IN_F16),
        STRIDE_FFN_GATE_UP_IN_F16, tile, t0, a.step->n_tokens, ffn_gate_rows);
}

/* ffn_gate_up_prefill: 64 threads, 16384 bytes of LDS; layers 0-7, 8 launches, 417792 bytes of weights, 1.97 us of reading
 * product of weights W_FFN_GATE and W_FFN_UP, Q8_0 768 x 256, and ffn_gate_up in f16 [256] at 0, stride 512
 *   ffn_gate, 768 rows, beside ffn_up, glu_silu -> glu in f16 [768] at 2101248, stride 1536
 * weights of the launch: W_FFN_GATE, W_FFN_UP */
KERNEL(64, 4) ffn_gate_up_prefill(const struct forge_kernel_args a)
{
    enum { W_FFN_GATE = 0, W_FFN_UP = 1 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_pair_q8_0_64x64_64(a, WEIGHT(W_FFN_GATE), WEIGHT(W_FFN_UP), /* rows */ 768, /* cols */ 256, BUFFER(AT_FFN_GATE_UP_IN_F16),
        STRIDE_FFN_GATE_UP_IN_F16, tile, t0, a.step->n_tokens, ffn_gate_rows);
}

DEVICE void ffn_down_rows(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    y += VALUE(FFN_INP, t)[r];
    VALUE(X, t)[r] = y;
}

/* ffn_down_prefill_384: 64 threads, 8192 bytes of LDS; layers 0-7, 8 launches, 208896 bytes of weights, 0.99 us of reading
 * product of weight W_FFN_DOWN, Q8_0 256 x 768, and glu in f16 [768] at 2101248, stride 1536
 *   ffn_down, 256 rows, add ffn_inp f32 [256] at 1049600, stride 1024 -> x f32 [256] at 0, stride 1024
 * weights of the launch: W_FFN_DOWN */
KERNEL(64, 4) ffn_down_prefill_384(const struct forge_kernel_args a)
{
    enum { W_FFN_DOWN = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_32x32_64(a, WEIGHT(W_FFN_DOWN), /* rows */ 256, /* cols */ 768, BUFFER(AT_GLU_IN_F16), STRIDE_GLU_IN_F16, tile, t0,
        a.step->n_tokens, ffn_down_rows);
}

/* ffn_down_prefill: 64 threads, 18432 bytes of LDS; layers 0-7, 8 launches, 208896 bytes of weights, 0.99 us of reading
 * product of weight W_FFN_DOWN, Q8_0 256 x 768, and glu in f16 [768] at 2101248, stride 1536
 *   ffn_down, 256 rows, add ffn_inp f32 [256] at 1049600, stride 1024 -> x f32 [256] at 0, stride 1024
 * weights of the launch: W_FFN_DOWN */
KERNEL(64, 4) ffn_down_prefill(const struct forge_kernel_args a)
{
    enum { W_FFN_DOWN = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_112x32_64(a, WEIGHT(W_FFN_DOWN), /* rows */ 256, /* cols */ 768, BUFFER(AT_GLU_IN_F16), STRIDE_GLU_IN_F16, tile, t0,
        a.step->n_tokens, ffn_down_rows);
}

/* token_embd_in: 256 threads, 128 bytes of LDS; outside the layers, 1 launch, 1024 bytes of weights, 0.00 us of reading
 * rmsnorm weight W_OUTPUT_NORM, eps 9.99999975e-06: x f32 [256] at 0, stride 1024 -> token_embd in f16 [256] at 1048576, stride 512
 * weights of the launch: W_OUTPUT_NORM */
KERNEL(256, 1) token_embd_in(const struct forge_kernel_args a)
{
    enum { W_OUTPUT_NORM = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t = first_token(a) + group_y();
    stage_rows(ROW(AT_TOKEN_EMBD_IN_F16, STRIDE_TOKEN_EMBD_IN_F16, t), VALUE(X, t), VECTOR(W_OUTPUT_NORM), /* cols */ 256, 9.99999975e-06f,
        /* norm */ 1, /* bf16 */ 0, 256);
}

/* token_embd_prefill: 64 threads, 18432 bytes of LDS; outside the layers, 1 launch, 1114112 bytes of weights, 5.26 us of reading
 * product of weight W_TOKEN_EMBD, Q8_0 4096 x 256, and token_embd in f16 [256] at 1048576, stride 512
 *   token_embd, 4096 rows -> head f32 [4096] at 4315392, stride 16384, from the first token with logits
 * weights of the launch: W_TOKEN_EMBD */
KERNEL(64, 4) token_embd_prefill(const struct forge_kernel_args a)
{
    enum { W_TOKEN_EMBD = 0 };
    pdl_launch();
    pdl_wait();
    mark(a);
    const uint32_t t0 = first_token(a), tile = group_y();
    gemm_q8_0_32x112_64(a, WEIGHT(W_TOKEN_EMBD), /* rows */ 4096, /* cols */ 256, BUFFER(AT_TOKEN_EMBD_IN_F16), STRIDE_TOKEN_EMBD_IN_F16,
        tile, t0, a.step->n_tokens, token_embd_row);
}

DEVICE void token_embd_rows(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    t = first_token(a) + group_y();
    FLOAT_ROW(ARENA_LOGITS, ARENA_LOGITS_STRIDE, t - first_token(a))[r] = y;
}

/* token_embd_one: 256 threads, 1488 bytes of LDS; outside the layers, 1 launch, 1115136 bytes of weights, 5.26 us of reading
 * input x f32 [256] at 0, stride 1024, rmsnorm weight W_OUTPUT_NORM, eps 9.99999975e-06, as 2 digits
 * product of weight W_TOKEN_EMBD, Q8_0 4096 x 256, and digits
 *   token_embd, 4096 rows -> head f32 [4096] at 4315392, stride 16384, from the first token with logits
 * weights of the launch: W_TOKEN_EMBD, W_OUTPUT_NORM */
KERNEL(256, 1) token_embd_one(const struct forge_kernel_args a)
{
    enum { W_TOKEN_EMBD = 0, W_OUTPUT_NORM = 1 };
    pdl_launch();
    uint32_t slot = gemv_slot(/* groups */ 40, /* lanes */ 16);
    struct first_q8_0_2x16 first;
    struct row_quads row, norm_weight;
    pdl_wait();
    row_begin(&row, VALUE(X, first_token(a) + group_y()), /* cols */ 256, 256);
    norm_begin(&norm_weight, VECTOR(W_OUTPUT_NORM), /* cols */ 256, 256);
    COMPILER_FENCE();
    gemv_begin_q8_0_2x16(&first, WEIGHT(W_TOKEN_EMBD), 0, /* rows */ 4096, /* cols */ 256, slot);
    COMPILER_FENCE();
    mark(a);
    norm_to_lds(lds(), &row, VALUE(X, first_token(a) + group_y()), &norm_weight, VECTOR(W_OUTPUT_NORM), /* cols */ 256, 9.99999975e-06f,
        /* digits */ 2, /* sums16 */ 0, 256);
    gemv_q8_0_2x16(a, &first, WEIGHT(W_TOKEN_EMBD), /* rows */ 4096, /* cols */ 256, lds(), /* digits */ 2, slot, /* stride */ 640,
        /* addend */ 0, token_embd_rows);
}

/* ==== launches ==== */
/* Of a token, in order:
 *   outside the layers: embed
 *   layers 0-7: attn_qkv, attention, attn_output, ffn_gate_up, ffn_down
 *   outside the layers: token_embd
 * Of a prompt's step; of a product's kernels for steps of different sizes one runs:
 *   outside the layers: embed
 *   layers 0-7: attn_qkv_in, attn_qkv_prefill_384, attn_qkv_prefill, heads_prefill, attention_chunk, attn_output_prefill_384,
 *     attn_output_prefill, ffn_gate_up_in, ffn_gate_up_prefill_128, ffn_gate_up_prefill, ffn_down_prefill_384, ffn_down_prefill
 *   outside the layers: token_embd_in, token_embd_prefill, token_embd_one
 * The tables, with grids and places of weights, are in the program's C source (--save-temps). */


/* ==== appendix: everything that is used of the templates ==== */
#elif SECTION == SECTION_COMMON
#undef SECTION

/* ==== templates/gpu/machine/families.h ==== */
/* families.h -- the families of GPUs that kernels are written for, and what differs between them in numbers: for the kernels (FAMILY,
 * which a machine file defines) and for forgec (struct profile).  Constant expressions, for #if and host C too.  A new family is a number
 * and a column. */

#define FAMILY_RDNA3  0u                         /* and RDNA 3.5: gfx1100 .. gfx1103, gfx1150 .. gfx1153 */
#define FAMILY_CDNA3  1u                         /* gfx942 */
#define FAMILY_OF(family, rdna3, cdna3, hopper) ((family) == FAMILY_RDNA3 ? (rdna3) : (family) == FAMILY_CDNA3 ? (cdna3) : (hopper))

/* Lanes of a wave. */
#define FAMILY_WAVE(family)             FAMILY_OF(family, 32u, 64u, 32u)

/* ---- the matrix unit: tiles of 16 rows, 16 columns and 16 k, one wave a tile ---- */
/* Elements of the tile of sums in a lane. */
#define FAMILY_MMA_ACC(family)          (256u / FAMILY_WAVE(family))
/* 32-bit words of an operand tile in a lane; how often the lanes hold each of its elements. */
#define FAMILY_MMA_WORDS(family)        FAMILY_OF(family, 8u, 2u, 4u)
#define FAMILY_MMA_COPIES(family)       (FAMILY_MMA_WORDS(family) * FAMILY_WAVE(family) / 128u)
/* Products that take what a lane reads of LDS by 16 bytes at a time. */
#define FAMILY_MMA_WIDE(family)         FAMILY_OF(family, 1u, 2u, 1u)

/* ---- memory ---- */
/* 1: copies go from global memory to LDS without passing through registers. */
#define FAMILY_COPIES_REACH_LDS(family) FAMILY_OF(family, 0, 0, 1)

/* ---- how kernels use it ---- */
/* gemm_tmpl.c: most waves that share the columns of a step.  2 pays where the matrix unit is fast for its LDS. */
#define FAMILY_GEMM_K_WAVES(family)     FAMILY_OF(family, 1u, 2u, 1u)
/* Prefill attention, heads of up to 128 dimensions: tiles of 16 rows of a wave, as many as registers hold. */
#define FAMILY_PREFILL_TILES(family)    FAMILY_OF(family, 1u, 2u, 2u)
/* Where copies pass through registers, heads of more than 128 dimensions: positions at a time. */
#define FAMILY_PREFILL_FEW(family)      FAMILY_OF(family, 16u, 32u, 32u)

/* ==== templates/gpu/machine/words.h ==== */
/* words.h -- types and conversions that are the same on all machines; the files of this folder begin with it. */

typedef __INT8_TYPE__ int8_t;   typedef __UINT8_TYPE__ uint8_t;   typedef __INT16_TYPE__ int16_t; typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t; typedef __UINT32_TYPE__ uint32_t; typedef __INT64_TYPE__ int64_t; typedef __UINT64_TYPE__ uint64_t;
#define DEVICE static inline __attribute__((device, always_inline, unused))
#define STATIC_ASSERT(c, m) static_assert(c, m)

typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef float    f32x2 __attribute__((ext_vector_type(2)));
typedef float    f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));

/* Orders the memory accesses around it in the compiler only. */
#define COMPILER_FENCE() __asm__ volatile("" ::: "memory")

DEVICE uint32_t bits_of_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
DEVICE float f32_of_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
/* Of the low half of u. */
DEVICE float f32_of_f16_bits(uint32_t u) { const uint16_t h = (uint16_t)u; f16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
DEVICE uint32_t f16_bits(float x) { const f16 h = (f16)x; uint16_t u; __builtin_memcpy(&u, &h, 2); return u; }
/* Round to nearest even; NaN is not kept. */
DEVICE uint32_t bf16_bits(float x) { uint32_t u = bits_of_f32(x); u += 0x7fffu + (u >> 16 & 1u); return u >> 16; }
DEVICE uint32_t f16x2_bits(float lo, float hi)
{
    f16x2 h = { (f16)lo, (f16)hi };
    uint32_t u;
    __builtin_memcpy(&u, &h, 4);
    return u;
}
DEVICE uint32_t bf16x2_bits(float lo, float hi) { return bf16_bits(lo) | bf16_bits(hi) << 16; }

/* ==== templates/gpu/machine/rdna3.h ==== */
/* rdna3.h -- RDNA 3 and 3.5: gfx1100 .. gfx1103, gfx1150 .. gfx1153.  They differ in nothing that kernels use. */

#if !defined(__GFX11__)
#error "this is the machine file of RDNA 3, gfx11: see docs/target.md, 'A new GPU family'"
#endif
#define FAMILY FAMILY_RDNA3
#define WAVE   32
#define SIMDS  2

/* ==== templates/gpu/machine/amd.h ==== */
/* amd.h -- the words that RDNA 3 and CDNA 3 share.  Included by their machine files, which define WAVE and SIMDS.  Facts behind these
 * lines: docs/gpu.md. */

#define WAVES_PER_SIMD(threads, groups) ((threads) * (groups) < WAVE * SIMDS ? 1 : (threads) * (groups) / (WAVE * SIMDS))
#define KERNEL(threads, groups) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads), \
    amdgpu_waves_per_eu(WAVES_PER_SIMD(threads, groups)))) void
#define GLOBAL __attribute__((address_space(1)))
#define UNROLL _Pragma("unroll")
#define DEPENDENT_LAUNCH 0
#define LOADS_IN_ORDER 1

/* ---- who am I ---- */
DEVICE uint32_t thread_x(void) { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t group_x(void)  { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t group_y(void)  { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE uint32_t lane_id(void)  { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEVICE uint32_t uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }

/* ---- LDS and barriers ---- */
extern "C" { extern __attribute__((shared, aligned(1024))) uint8_t forge_lds[]; }
DEVICE uint8_t *lds(void) { return forge_lds; }
/* Global loads stay in flight (the bare builtin waits for them on gfx11 and, on gfx942, does not wait for LDS). */
DEVICE void barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory"); }
DEVICE void wave_barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); __builtin_amdgcn_wave_barrier(); }

/* ---- no clusters: never called, a target says whether it has any ---- */
DEVICE void cluster_arrive(void)   { }
DEVICE void cluster_started(void)  { }
DEVICE void cluster_barrier(void)  { }
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x) { (void)p; (void)rank; (void)x; }
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)  { (void)p; (void)rank; (void)x; }

/* ---- kernels follow one another ---- */
DEVICE void pdl_launch(void) { }
DEVICE void pdl_wait(void)   { }

/* ---- memory ---- */
#define LOAD_WEIGHTS(T, p) (*(const GLOBAL T *)(p))
DEVICE u32x4    load_weights16(const void *p) { return LOAD_WEIGHTS(u32x4, p); }
DEVICE uint32_t load_weights4(const void *p)  { return LOAD_WEIGHTS(uint32_t, p); }
DEVICE u32x4    load_settled16(const void *p) { return *(const GLOBAL u32x4 *)p; }
DEVICE u32x2    load_settled8(const void *p)  { return *(const GLOBAL u32x2 *)p; }
DEVICE uint32_t load_settled4(const void *p)  { return *(const GLOBAL uint32_t *)p; }
DEVICE uint32_t load_settled2(const void *p)  { return *(const GLOBAL uint16_t *)p; }

#define PIN(x)     asm volatile("" : "+v"(x) :: "memory")
#define PIN_F32(x) PIN(x)
/* A base that is equal in all lanes stays in scalar registers and what a lane adds to it 32 bits wide, where the compiler would keep a
 * 64-bit address for each load of a loop and add to all of them at every step.  Both are variables that outlive the step. */
#define PIN_BASE(pointer)  asm volatile("" : "+s"(pointer))
#define PIN_OFFSET(offset) asm volatile("" : "+v"(offset))
/* Load instructions hold 4095 of `plane`; what is more is added to `at`, once for all rows, where clang would add it to 64-bit addresses
 * one by one. */
DEVICE const uint8_t *plane_at(const uint8_t *row, const uint32_t at, const uint32_t plane)
{
    uint32_t place = at + plane / 4096 * 4096;
    if (plane >= 4096) asm("" : "+v"(place));
    return row + place + plane % 4096;
}
DEVICE const uint8_t *quants_at(const uint8_t *row, const uint32_t at, const uint32_t plane) { return plane_at(row, at, plane); }

/* A volatile store would wait until it has arrived. */
DEVICE void store_host_u32(uint32_t *p, uint32_t x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE float load_shared_f32(const float *p)
{
    const uint32_t bits = __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return __builtin_bit_cast(float, bits);
}
DEVICE void store_shared_f32(float *p, float x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, __builtin_bit_cast(uint32_t, x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE uint32_t counter_add(uint32_t *counter)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    const uint32_t old = __hip_atomic_fetch_add((GLOBAL uint32_t *)counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return old;
}
DEVICE void acquire(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

/* ---- lanes ---- */
#define LANE_DPP_U32(x, ctrl) ((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)(x), ctrl, 0xf, 0xf, true))
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return (uint32_t)__builtin_amdgcn_ds_bpermute((int32_t)(lane * 4u), (int32_t)x); }
/* lane_xor_u32 within rows of 16 lanes: mask is 1, 2, 4 or 8. */
DEVICE uint32_t lane_xor_row_u32(uint32_t x, const uint32_t mask)
{
    if (mask == 1) return LANE_DPP_U32(x, 0xB1);                             /* quad_perm:[1,0,3,2] */
    if (mask == 2) return LANE_DPP_U32(x, 0x4E);                             /* quad_perm:[2,3,0,1] */
    if (mask == 4) return LANE_DPP_U32(LANE_DPP_U32(x, 0x141), 0x1B);        /* ^ 7, ^ 3: row_half_mirror, quad_perm:[3,2,1,0] */
    return LANE_DPP_U32(x, 0x128);                                           /* row_ror:8 */
}

/* ---- arithmetic ---- */
DEVICE float max_f32(float a, float b) { return __builtin_fmaxf(a, b); }        /* one instruction; of a NaN and a number the number */
DEVICE float min_f32(float a, float b) { return __builtin_fminf(a, b); }
DEVICE float exp2_f32(float x)  { return __builtin_amdgcn_exp2f(x); }
DEVICE float rcp_f32(float x)   { return __builtin_amdgcn_rcpf(x); }
DEVICE float rsqrt_f32(float x) { return __builtin_amdgcn_rsqf(x); }
DEVICE float round_f32(float x) { return __builtin_rintf(x); }
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector) { return __builtin_amdgcn_perm(hi, lo, selector); }
DEVICE uint32_t f16x2_bits_cut(float lo, float hi) { return __builtin_bit_cast(uint32_t, __builtin_amdgcn_cvt_pkrtz(lo, hi)); }
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, b), c, false);
}

/* ==== templates/gpu/machine/rdna3.h, continued ==== */
/* ---- waits: stores have a counter of their own ---- */
DEVICE void stores_done(void) { asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)\n\ts_waitcnt_vscnt null, 0x0" ::: "memory"); }

/* ---- lanes: two rows of 16 ---- */
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask)
{
    if (mask != 16) return lane_xor_row_u32(x, mask);
    x = (uint32_t)__builtin_amdgcn_permlanex16((int32_t)x, (int32_t)x, 0x76543210, (int32_t)0xfedcba98, false, false);
    asm volatile("" : "+v"(x));                  /* pinned: clang 19 would move it into a branch that not all lanes take */
    return x;
}
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return mask == 4 ? LANE_DPP_U32(x, 0x141) : lane_xor_u32(x, mask); }
DEVICE uint32_t wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w32(x != 0) != 0; }

/* ---- integer products: v_dot4_i32_iu8 ---- */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __builtin_amdgcn_sudot4(true, (int32_t)a, true, (int32_t)b, c, false); }

/* ==== templates/gpu/machine/fragments.h ==== */
/* fragments.h -- tiles of the matrix unit as registers: what the layouts (wmma.h, mfma.h, mma_sync.h) have in common.  A layout says which
 * lane and register has which row and column, and brings
 *   mma_row(), mma_col()                    of an element of the sums;
 *   MMA_ROWS, mma_of_row()                  in how many rows the elements of a lane lie, and which are of a row;
 *   mma_rows_a(), mma_rows_b()              operands from rows of LDS;
 *   mma_rows_wide_a(), mma_rows_wide_b()    of FAMILY_MMA_WIDE products, where that is more than one;
 *   mma_load_b_trans()                      operand B from rows of k;
 *   mma_a_of_acc() or mma_b_of_acc()        operands from sums (FAMILY_MMA_SUMS_ARE_A);
 * and where sums become operand B, for the attention of prefill,
 *   mma_k_of_acc()                          the order that mma_b_of_acc() gives k: which row of the sums is k number `slot`, where wide
 *                                           operands meet MMA_WIDE tiles of sums under each other;
 *   mma_row_together()                      the place of row i when rows are sorted by lanes: mma_row(e) goes to MMA_ACC (l / 16) + e;
 *   mma_b_of_halves()                       where lanes hold an operand twice (FAMILY_MMA_COPIES): B of what each half of a wave has. */

#define MMA_ACC   (256 / WAVE)                   /* elements of the sums in a lane */
enum { MMA_WORDS = FAMILY_MMA_WORDS(FAMILY) };    /* 32-bit words of an operand tile in a lane */
STATIC_ASSERT(WAVE == FAMILY_WAVE(FAMILY), "a family's fragments are spread over its waves");

struct mma_acc { float x[MMA_ACC]; };
struct mma_a   { uint32_t x[MMA_WORDS]; };
struct mma_b   { uint32_t x[MMA_WORDS]; };
/* Operands of MMA_WIDE_COLS columns of k, as many as a lane reads 16 bytes at a time.  Which columns the first product takes is the same
 * for A and B, and not said: both are loaded by mma_load_wide_*(). */
enum { MMA_WIDE = FAMILY_MMA_WIDE(FAMILY), MMA_WIDE_COLS = 16 * MMA_WIDE };
struct mma_wide_a { struct mma_a k[MMA_WIDE]; };
struct mma_wide_b { struct mma_b k[MMA_WIDE]; };

/* Where 16-byte piece `piece` of row `row` lies in LDS: with swizzle, pieces of neighbouring rows start in different banks though rows are
 * 128 bytes apart (SWIZZLED_ROW_BYTES); without, the caller pads its rows to an odd number of pieces. */
enum { SWIZZLED_ROW_BYTES = 128 };
DEVICE uint32_t lds_piece(const uint32_t row, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    return row * stride + (swizzle ? piece ^ row % 8 : piece) * 16;
}

/* ==== templates/gpu/machine/wmma.h ==== */
/* wmma.h -- the fragments of RDNA 3's WMMA, 16 x 16 x 16 (AMD "RDNA3 Instruction Set Architecture").  l: lane of 32.
 *   A word n: row l % 16, k = 2 n and, in the high half, 2 n + 1; the same in lane l + 16.  B: column l % 16 likewise.
 *   sums, register r: row 2 r + l / 16, column l % 16. */

DEVICE uint32_t mma_row(const uint32_t e) { return 2 * e + lane_id() / 16; }
DEVICE uint32_t mma_col(const uint32_t e) { (void)e; return lane_id() % 16; }
enum { MMA_ROWS = MMA_ACC };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return g + n; }

DEVICE void mma_rows(uint32_t x[8], const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    const uint32_t row = lane_id() % 16;
    const u32x4 low = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece, swizzle));
    const u32x4 high = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece ^ 1, swizzle));
    for (uint32_t n = 0; n < 4; n++) {
        x[n] = low[n];
        x[n + 4] = high[n];
    }
}
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}

/* A lane's rows follow one another in steps of two: the lower half of the wave has even ones. */
DEVICE uint32_t mma_k_of_acc(const uint32_t slot) { return slot / 16 * 16 + slot % 8 * 2 + slot / 8 % 2; }
DEVICE uint32_t mma_row_together(const uint32_t i) { return i % 2 * 8 + i / 2; }
/* Operand B of which the lower half of the wave has the first eight k and the upper the others. */
DEVICE void mma_b_of_halves(struct mma_b *f, const uint32_t mine[4])
{
    const uint32_t upper = lane_id() & 16;
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t other = lane_xor_u32(mine[n], 16);
        f->x[n] = upper ? other : mine[n];
        f->x[n + 4] = upper ? mine[n] : other;
    }
}
/* The sums, rounded to f16; order of k: 0, 2 .. 14, 1, 3 .. 15, because the lower half of the wave has even rows and the upper odd ones.
 * Returns sum and this lane's elements as they were rounded. */
DEVICE float mma_b_of_acc(struct mma_b *f, const struct mma_acc *c, float sum)
{
    uint32_t mine[4];
    for (uint32_t n = 0; n < 4; n++) {
        mine[n] = f16x2_bits_cut(c->x[2 * n], c->x[2 * n + 1]);
        sum = dot2_f16(mine[n], 0x3c003c00u, sum);
    }
    mma_b_of_halves(f, mine);
    return sum;
}

/* ==== templates/gpu/machine/rdna3.h, continued ==== */
/* ---- the matrix unit: v_wmma_f32_16x16x16 ---- */
typedef f16   mma_f16s __attribute__((ext_vector_type(16)));
typedef short mma_bf16s __attribute__((ext_vector_type(16)));
typedef float mma_f32s __attribute__((ext_vector_type(8)));
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_f16s x = __builtin_bit_cast(mma_f16s, *a), y = __builtin_bit_cast(mma_f16s, *b);
    const mma_f32s d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_bf16s x = __builtin_bit_cast(mma_bf16s, *a), y = __builtin_bit_cast(mma_bf16s, *b);
    const mma_f32s d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_pin(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
}

/* ==== templates/gpu/machine/copy_registers.h ==== */
/* copy_registers.h -- copies of 16 bytes from global memory to LDS that pass through registers (mma.h). */

struct copy { u32x4 v; };
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    const u32x4 zero = { 0, 0, 0, 0 };
    (void)to;
    c->v = zero;
    if (valid) c->v = *(const GLOBAL u32x4 *)(const void *)from;
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { *(u32x4 *)(void *)to = c->v; }
DEVICE void copy_commit(void) { }
DEVICE void copy_wait(const uint32_t n) { (void)n; }

/* ==== runtime/model/abi_gpu.h ==== */
/* abi_gpu.h -- what an emitted GPU kernel and the runtime share.  Included by abi.h and by the kernels: fixed-size types and structs only.
 * */

enum {
    FORGE_GPU_MAX_WEIGHTS = 12,                  /* tensors one launch may read */
    FORGE_GPU_MAX_APART = 8,                     /* sequences of a step */
    FORGE_GPU_MAX_RANKS = 8,                     /* GPUs that share a model */
};

/* A sequence of a step of several: its state, from args.state on; tokens before this step, and its token of it. */
struct forge_gpu_row { uint64_t state; uint32_t n_past; int32_t token; };

/* The one parameter of every kernel, by value.  All pointers are device pointers. */
struct forge_kernel_args {
    const uint8_t     *weights;                  /* weight image */
    uint8_t           *arena;                    /* activations */
    uint8_t           *state;                    /* of the sequence */
    struct forge_gpu_step *step;
    uint64_t           state_at;                 /* byte offset of the launch's state in it */
    uint32_t          *mark_at;                  /* host memory seen by the device, where group 0 writes mark */
    uint32_t           mark;                     /* number of the launch: names the kernel after a fault */
    uint32_t           first;                    /* 1: tail launch: only the last n_logits tokens matter (first_token) */
    uint64_t           weight[FORGE_GPU_MAX_WEIGHTS];
    /* of GPUs that share a model (templates/gpu/exchange.h) */
    uint8_t           *exchange[FORGE_GPU_MAX_RANKS];      /* of each, as this one reaches it: memory that all of them store into */
    const uint8_t     *given;                    /* that of this one, exchange[rank]: an array in registers has no index */
    uint32_t           rank;                     /* this one's number */
    uint32_t           exchanges;                /* that the step's launches before this one have made */
};

/* What changes from step to step; one of these in device memory, 64-byte aligned.  The host writes it before a prefill step and before a
 * run of decode steps; in such a run the sampling kernel advances it, so that no step waits for the host.  Where the model has a block that
 * drafts, one for its passes lies behind it, which the draw writes. */
struct forge_gpu_step {
    uint32_t n_past;                             /* tokens of the sequence before this step */
    uint32_t n_tokens;                           /* of this step; decode: 1, whatever stands here */
    uint32_t n_logits;                           /* logits wanted for the last n_logits of them; decode: 1 */
    uint32_t n_drawn;                            /* tokens drawn so far; goes on from run to run, so that no entry of the ring repeats */
    int32_t *history;                            /* [n_ctx + 1] device: token at each position; a step reads history[n_past ..], a draw
                                                  * writes history[n_past + 1] and then increments n_past */
    uint64_t *ring;                              /* [FORGE_GPU_RING] host memory seen by the device: draw number i (from 1) as i << 32 |
                                                  * token at i % RING; FORGE_GPU_NOT_FINITE: no token */
    const uint32_t *mask;                        /* [n_vocab / 32, rounded up] host memory seen by the device: 1 for each token that may
                                                  * be drawn; NULL: any */
    struct forge_gpu_row *row;                   /* of a draw behind a step of several sequences: its entry of that step's rows, which it
                                                  * advances as well; NULL: none */
    /* sampling; meanings as in runtime/run/sample.h */
    float    temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int32_t  top_k, repeat_last_n;
    uint32_t n_biases;
    /* speculation (templates/gpu/drafts.h): the host writes 0 but to most_drafts, and no guess */
    uint32_t n_drafts;                           /* the last n_drafts of the n_tokens, and of those with logits, are drafts */
    uint32_t most_drafts;                        /* of a step */
    uint32_t trust, misses;                      /* that tokens are as foretold; steps of which nothing was */
    uint32_t slot;                               /* of states that have several, the one from which the step goes on (sequence.h) */
    int32_t  guess;                              /* what the token drawn next is foretold to be; -1: nothing is */
    uint32_t apart;                              /* 1: its tokens are of as many sequences: each has an entry of rows */
    uint32_t n_draws;                            /* draws side by side, of which this is one: n_drawn goes on by so many */
    uint32_t exchanged;                          /* GPUs that share a model: exchanges since the start, from 1; a draw adds */
    uint32_t exchanges;                          /* those that a step of decode makes */
    uint64_t random[4];                          /* xoshiro256** */
    struct forge_gpu_row rows[FORGE_GPU_MAX_APART];
    struct { int32_t id; float bias; } biases[256];
};
enum { FORGE_GPU_RING = 1024 };
/* In the place of a token: the model's logits, before biases and penalties, were not all finite; history gets 0. */
#define FORGE_GPU_NOT_FINITE 0xffffffffu

/* ==== templates/gpu/dialect.h ==== */
/* dialect.h -- the few words a GPU template may use that are not plain C11.  One source, three compilations: HIP for AMD, CUDA for
 * NVIDIA (clang, no vendor headers), and C11 for tests/lanes, which runs the lanes of a group as fibers on the host.
 * What depends on the GPU stands in the file of its family in machine/, which choose.h finds; what those words mean stands here, with what
 * is built on them.
 *
 *   FAMILY, WAVE                the family (machine/families.h); lanes of a wave
 *   KERNEL(threads, groups)     declares a kernel; groups: how many groups of so many threads a compute unit should hold at once, which
 *                               bounds the registers.  The one parameter of every kernel is `a`
 *   GLOBAL                      of pointers to global memory
 *   UNROLL                      before a loop whose arrays are to become registers
 *   thread_x, group_x, group_y, lane_id       who am I
 *   uniform(x)                  x, which is equal in all lanes, in a scalar register where there are any
 *   lds()                       LDS (shared memory): all of it is dynamic; the plan knows the bytes, kernels divide it by constants
 *   barrier                     all threads of the group; LDS written before is visible after
 *   wave_barrier                the lanes of a wave see each other's LDS writes
 *   meet_*                      where there are products of bytes (FAMILY_MMA_BYTES): some waves of a group wait for each other, and work
 *                               between arriving and waiting.  meet_init(p, waves) by one thread, p: MEET_BYTES of LDS; others call the
 *                               rest after a barrier().  meet_arrive(p) by every lane; meet_wait(p, n) by every thread of the group:
 *                               until all have arrived n + 1 times, whose LDS writes are then seen
 *   cluster_*                   clusters: groups, neighbours in x, that run together and write each other's LDS; launched as such
 *                               (forge_gpu_launch.cluster), NVIDIA only.  cluster_arrive() once by every thread, early; cluster_started()
 *                               before the first store to another group; what was stored is seen after cluster_barrier().
 *                               cluster_store16(p, rank, x), _store8, _store4: p, in this group's LDS, is stored at the same place of
 *                               group `rank` of the cluster
 *   pdl_launch, pdl_wait        dependent launch: weights may be loaded before, everything an earlier kernel wrote only after pdl_wait().
 *                               Every thread calls both once; nothing is written to global memory before the wait.  No-ops but on NVIDIA
 *   DEPENDENT_LAUNCH            constant: is there time before pdl_wait()?  If not, what an earlier kernel wrote is asked for first,
 *                               because it is needed first where loads are waited for in order (LOADS_IN_ORDER)
 *   load_weights16, 8, 4, 2     read-only weights, aligned to their size
 *   load_settled16, 8, 4, 2     what an earlier step wrote: may be loaded before pdl_wait(), because the first launch of a step waits for
 *                               all of the step before (runtime/device/gpu_step.c)
 *   PIN(x), PIN_F32(x)          keeps a load where it stands: neither sunk to its use nor merged with a later one.  x: any 32-bit register
 *                               value
 *   PIN_BASE, PIN_OFFSET        keep an address as a base for all lanes and a lane's offset
 *   plane_at(row, at, plane)    byte `at` of the plane of a row that begins at byte `plane`, a constant; quants_at: of packed weights
 *   store_host_u32              to memory of the host, without waiting until it has arrived
 *   load_shared_f32, store_shared_f32         data that other groups of the same launch wrote: past the caches that are not coherent
 *   stores_done                 this thread's stores are where a counter_add() or store_flag() that follows makes them seen
 *   store_peer, load_peer       8 bytes at once of memory that several GPUs reach: to where they see it, from where they left it;
 *                               load_peer_f32: 4 of them
 *   store_flag(p, x), load_flag(p)            4 bytes of it that say that other values are there: who has loaded x sees all that the group
 *                               stored with store_peer before stores_done(), a barrier() and peer_release() by the thread that stores flags
 *   poll_pause                  between two looks at what another GPU will store
 *   counter_add                 release what this group wrote, count, acquire what others wrote; returns the count before
 *   acquire                     what others released is seen
 *   lane_get_u32(x, lane), lane_xor_u32(x, mask), lane_other_u32(x, mask)
 *                               x of another lane: of that number, of this one's ^ mask, a constant; lane_other: the same where lanes that
 *                               differ below bit `mask` have the same x
 *   wave_any(x), wave_first(x)  whether some lane of the wave has it, the first that has (one does); the same in all lanes
 *   wave_max_u32(x)             of all lanes
 *   lane_of_wave_u32(x, lane)   as lane_get_u32, of one lane for all
 *   dot4(a, b, c)               c + the products of four pairs of signed bytes
 *   max_f32, min_f32, exp2_f32, log2_f32, rcp_f32, rsqrt_f32, round_f32 (to nearest even)
 *   byte_perm(lo, hi, selector) bytes picked from {hi, lo}: selector byte i in 0..3 takes byte of lo, 4..7 of hi
 *   byte_align(lo, hi, n)       bytes n .. n + 3 of {hi, lo}, n in 0..5; what lies beyond the eighth byte is anything
 *   f16x2_bits_cut, dot2_f16    two floats as f16, rounded toward zero; c + the products of two pairs of f16 (where sums become an operand
 *                               B: mma.h)
 * and what mma.h lists. */

DEVICE uint32_t wave_id(void) { return uniform(thread_x() / WAVE); }

/* True in every thread of the group of n that comes here last; it then sees what all of them wrote with store_shared_f32 (or plainly)
 * before.  flag: 4 bytes of LDS.  counter: device memory, 0 before and after. */
DEVICE uint32_t last_to_arrive(uint32_t *counter, const uint32_t n, uint32_t *flag)
{
    stores_done();
    barrier();
    if (thread_x() == 0) {
        const uint32_t last = counter_add(counter) == n - 1;
        if (last) *counter = 0;
        *flag = last;
    }
    barrier();
    const uint32_t last = *flag;
    if (last) acquire();
    return last;
}

/* ---- lanes ---- */
DEVICE float lane_xor_f32(float x, const uint32_t mask) { return f32_of_bits(lane_xor_u32(bits_of_f32(x), mask)); }
DEVICE float lane_other_f32(float x, const uint32_t mask) { return f32_of_bits(lane_other_u32(bits_of_f32(x), mask)); }
/* Over each run of `lanes` lanes (a power of two, a constant): every lane gets the result, the same bits in all of them.  lanes_sums_f32:
 * of n values, a step of all of them at a time, because on AMD an exchange has to wait for the addition before it; from rows of 16 lanes
 * on a family may have its own way. */
DEVICE void lanes_sums_rows_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    UNROLL
    for (uint32_t mask = 16; mask < lanes; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
}
DEVICE void lanes_sums_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    UNROLL
    for (uint32_t mask = 1; mask < lanes && mask < 16; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
    lanes_sums_rows_f32(x, n, lanes);
}
DEVICE float lanes_sum_f32(float x, const uint32_t lanes)
{
    lanes_sums_f32(&x, 1, lanes);
    return x;
}
DEVICE uint32_t lanes_sum_u32(uint32_t x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x += lane_other_u32(x, mask);
    return x;
}
DEVICE float abs_f32(float x) { return __builtin_fabsf(x); }
DEVICE uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
DEVICE float lanes_max_f32(float x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x = max_f32(x, lane_other_f32(x, mask));
    return x;
}
DEVICE uint32_t lanes_max_u32(uint32_t x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x = max_u32(x, lane_other_u32(x, mask));
    return x;
}

/* ---- arithmetic ---- */
/* Floats in their order as integers, the same for -0 and 0; 0: NaN. */
DEVICE uint32_t order_of_f32(float x)
{
    const uint32_t u = bits_of_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0;
    if (u == 0x80000000u) return 0x80000000u;
    return u >> 31 ? ~u : u | 0x80000000u;
}
DEVICE float silu_f32(float x) { return x * rcp_f32(1.0f + exp2_f32(-1.44269504f * x)); }

/* ---- what a kernel knows ---- */
DEVICE const uint8_t *weight_of(const struct forge_kernel_args a, const uint32_t slot)
{
    __builtin_assume(a.weights != 0);
    return a.weights + a.weight[slot];
}
#define WEIGHT(slot)   weight_of(a, slot)
#define VECTOR(slot)   ((const float *)(const void *)WEIGHT(slot))
#define BUFFER(offset) (a.arena + (offset))
#define FLOATS(offset) ((float *)(void *)BUFFER(offset))
#define ROW(offset, stride, t) (BUFFER(offset) + (uint64_t)(stride) * (t))
#define FLOAT_ROW(offset, stride, t) ((float *)(void *)ROW(offset, stride, t))

/* ==== templates/gpu/launch.h ==== */
/* launch.h -- what every emitted GPU kernel uses: where its work begins, and where the rows of a product go. */

/* What is done with one value of a product: token t of the step, row r of the matrix (the column of the result).  Emitted per kernel,
 * inlined. */
typedef void row_sink(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y);
/* What is added to it before; asked for early, while the product is still on its way. */
typedef float row_addend(const struct forge_kernel_args a, uint32_t t, uint32_t r);
/* The same as row_sink for row r of two matrices at once: gate and up of a GLU. */
typedef void pair_sink(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up);

/* Tail launches of a prefill step work on its last n_logits tokens only. */
DEVICE uint32_t first_token(const struct forge_kernel_args a) { return a.first ? a.step->n_tokens - a.step->n_logits : 0; }

/* Where the step's token t stands in its text, which token it is, and where its sequence's state begins behind a.state.  SEVERAL: the
 * tokens of a step of a few may be of as many sequences.  _settled: known before pdl_wait(); t < FORGE_GPU_MAX_APART. */
DEVICE uint32_t position_of(const struct forge_kernel_args a, uint32_t t) { return uniform(a.step->n_past) + t; }
DEVICE int32_t token_of(const struct forge_kernel_args a, uint32_t t) { return a.step->history[a.step->n_past + t]; }
DEVICE uint64_t state_of(const struct forge_kernel_args a, uint32_t t) { (void)a; (void)t; return 0; }
DEVICE uint32_t position_settled(const struct forge_kernel_args a, uint32_t t) { return load_settled4(&a.step->n_past) + t; }
DEVICE uint64_t state_settled(const struct forge_kernel_args a, uint32_t t) { (void)a; (void)t; return 0; }

/* After pdl_wait(): tells the host which launch runs, for the message after a fault. */
DEVICE void mark(const struct forge_kernel_args a)
{
    if (group_x() == 0 && group_y() == 0 && thread_x() == 0) store_host_u32(a.mark_at, a.mark);
}

/* Activations of prefill's products are f16 times 2^-6: range 4 million, resolution 4e-6. */
#define STAGE_SCALE 0.015625f
#define STAGE_UNSCALE 64.0f
DEVICE float clamp_f32(float x, const float limit) { return x > limit ? limit : x < -limit ? -limit : x; }
/* The stored form of x. */
DEVICE uint32_t stage_f16(float x) { return f16_bits(clamp_f32(x * STAGE_SCALE, 65504.0f)); }
DEVICE uint32_t stage_bf16(float x) { return bf16_bits(x); }

/* ==== templates/gpu/gemv_sizes.h ==== */
/* gemv_sizes.h -- bytes of LDS that acts.h fills and gemv_tmpl.c reads.  Constant expressions of C, for the compiler's plan too.
 * All offsets are multiples of 16.
 *
 * acts:   128 bytes of scratch, then [digit][c 0..3][units of a plane][16]: 16 int8 of columns 64 unit + 16 c .., then [units + 1][4] f32
 *         {d0, d1, s0, s1}, then with sums16 [units + 1][4] f32.  All of the entry past the last unit is 0: lanes without a unit take it.
 * floats: 128 bytes of scratch, then two planes [pieces + 4][4] f32: columns 8 piece .. + 3 in the first, + 4 .. + 7 in the second.
 *         Those of the piece past the last are 0.
 *
 * A plane of acts is 2 units longer than a multiple of 8, a plane of floats 64 bytes longer than a multiple of 128: so a wave's writes fall
 * into different banks, as do its reads of pieces of 4 columns. */

#define ACTS_SCRATCH_BYTES 128                   /* a sum of each wave of the group */

#define ACTS_UNITS(cols) (((cols) + 63u) / 64u)
#define ACTS_PLANE_UNITS(cols) ((ACTS_UNITS(cols) + 6u) / 8u * 8u + 2u)
#define ACTS_SCALES(cols, digits) (ACTS_SCRATCH_BYTES + 64u * (digits) * ACTS_PLANE_UNITS(cols))
#define ACTS_SUMS(cols, digits) (ACTS_SCALES(cols, digits) + 16u * (ACTS_UNITS(cols) + 1u))

#define FLOATS_PLANE_BYTES(cols) (128u * ACTS_UNITS(cols) + 64u)

/* ==== templates/gpu/acts_unit.h ==== */
/* acts_unit.h -- a unit of 64 columns in a lane's registers: the activations,
 * and what the weight formats share to unpack and multiply theirs.
 * Layout of the packed rows: docs/gpu.md. */

/* 64 activations.  One digit: x = d q.  Two: x = d (256 q[1] + q[0]), three: x = d (65536 q[2] + 256 q[1] + q[0]), all int8.
 * d: one scale per block of 32 columns. */
struct acts_unit {
    u32x4 q[3][4];                               /* [digit][columns 16c .. 16c+15], int8 */
    f32x4 scale;                                 /* d0, d1, s0, s1: s_b = d_b * (sum of block b's quantised x) */
    f32x4 sum16;                                 /* [i] = d * (sum of columns 16i .. 16i+15); read by formats with SUMS16 only */
    uint32_t one;                                /* a constant: 0, or 1 + the only column that is not 0, which is 1 in one digit;
                                                  * then q is not read */
};

/* Bytes of a plane; constants in kernels, plan and packer alike.  U: units of a row.  S: superblocks of 256 columns. */
#define UNITS_OF(cols)  (((cols) + 63) / 64)
#define PLANE_BYTES(n)  (((n) + 15) / 16 * 16)

/* Pins of loaded registers.  On AMD a pin waits for its load: it belongs where the unit is about to be used,
 * after the next unit's loads. */
DEVICE void pin16(u32x4 *v)
{
    uint32_t x = v->x, y = v->y, z = v->z, w = v->w;
    PIN(x); PIN(y); PIN(z); PIN(w);
    v->x = x; v->y = y; v->z = z; v->w = w;
}

/* ---- integer products ---- */
/* sum + the products of 16 codes with piece c of a digit. */
DEVICE int32_t dot16(const u32x4 w, const struct acts_unit *x, const uint32_t digit, const uint32_t c, const int32_t sum)
{
    if (x->one) return (x->one - 1) / 16 == c ? sum + (int32_t)(int8_t)(w[(x->one - 1) / 4 % 4] >> 8 * ((x->one - 1) % 4)) : sum;
    const u32x4 q = x->q[digit][c];
    return dot4(w.w, q.w, dot4(w.z, q.z, dot4(w.y, q.y, dot4(w.x, q.x, sum))));
}
DEVICE float dot_block(const u32x4 w0, const u32x4 w1, const struct acts_unit *x, const uint32_t b, const uint32_t digits)
{
    int32_t low = dot16(w1, x, 0, 2 * b + 1, dot16(w0, x, 0, 2 * b, 0));
    if (digits > 1) low += 256 * dot16(w1, x, 1, 2 * b + 1, dot16(w0, x, 1, 2 * b, 0));
    return digits > 2 ? (float)low + 65536.0f * (float)dot16(w1, x, 2, 2 * b + 1, dot16(w0, x, 2, 2 * b, 0)) : (float)low;
}

/* ---- codes to f16 ---- */
DEVICE f16x2 f16x2_of_bits(const uint32_t u) { f16x2 h; __builtin_memcpy(&h, &u, 4); return h; }
DEVICE uint32_t bits_of_f16x2(const f16x2 h) { uint32_t u; __builtin_memcpy(&u, &h, 4); return u; }
/* Both halves the low (0) or high (1) half of u. */
DEVICE f16x2 both_f16(const uint32_t u, const uint32_t half) { return f16x2_of_bits(byte_perm(u, u, half ? 0x03020302u : 0x01000100u)); }
DEVICE f16x2 splat_f16(const float x) { const f16 h = (f16)x; const f16x2 both = { h, h }; return both; }
/* Bytes 2 pair and 2 pair + 1 of u as 1024 + byte: 0x6400 is 1024 and its last bit is 1. */
DEVICE f16x2 bytes_f16(const uint32_t u, const uint32_t pair)
{
    return f16x2_of_bits(byte_perm(u, 0x64646464u, pair ? 0x04030402u : 0x04010400u));
}

/* Unsigned bytes to f16: h = code scale [+ add], rounded once, where code = (byte - offset) unit is exact; unit: a power of two.
 * A scale that is itself a product, d sc, is given as f16(256 d sc) with a unit of 2^-8, so that small ones keep their bits: finite while
 * |d sc| < 255, and h is then within 2^-10 (|code d sc| + |add|) of the weight; 2^-24 where that is below f16's normal range. */
DEVICE void decode4(uint32_t h[2], const uint32_t bytes, const float offset, const float unit, const f16x2 scale)
{
    const f16x2 by = splat_f16(unit), less = splat_f16(-(1024.0f + offset) * unit);
    h[0] = bits_of_f16x2(__builtin_elementwise_fma(bytes_f16(bytes, 0), by, less) * scale);
    h[1] = bits_of_f16x2(__builtin_elementwise_fma(bytes_f16(bytes, 1), by, less) * scale);
}
DEVICE void decode16(uint32_t h[8], const u32x4 bytes, const float offset, const float unit, const f16x2 scale)
{
    decode4(h,     bytes.x, offset, unit, scale);
    decode4(h + 2, bytes.y, offset, unit, scale);
    decode4(h + 4, bytes.z, offset, unit, scale);
    decode4(h + 6, bytes.w, offset, unit, scale);
}

/* ==== templates/gpu/acts.h ==== */
/* acts.h -- a row of activations into LDS, where the products of decode read it: as int8 digits with a scale per 32 columns, or as floats.
 * The places of both: gemv_sizes.h.
 *
 * Every function that fills LDS is called by all `threads` threads of the group and ends with barrier();
 * nobody else may still use those bytes.
 * Columns from cols to the next multiple of 64 are zero.  Rows: f32, 16-byte aligned, written by an earlier kernel. */

/* A thread keeps so many times 4 columns of a row in registers.  Where loads are in order what follows waits behind the weights that are
 * asked for meanwhile. */
#define ROW_QUADS (LOADS_IN_ORDER ? 16 : 8)

/* A thread's part of a row: entry i is columns 4 e .. 4 e + 3, e = i * threads + thread. */
struct row_quads { f32x4 v[ROW_QUADS]; };

/* thread_x(), which the compiler then knows to be below `threads`: where a turn is complete it needs no comparisons. */
DEVICE uint32_t row_thread(const uint32_t threads)
{
    const uint32_t thread = thread_x();
    __builtin_assume(thread < threads);
    return thread;
}

DEVICE f32x4 row_quad(const float *row, uint32_t e, const uint32_t cols)
{
    f32x4 v = { 0, 0, 0, 0 };
    if (4 * e + 4 <= cols) return *((const GLOBAL f32x4 *)row + e);
    if (4 * e + 0 < cols) v.x = ((const GLOBAL float *)row)[4 * e + 0];
    if (4 * e + 1 < cols) v.y = ((const GLOBAL float *)row)[4 * e + 1];
    if (4 * e + 2 < cols) v.z = ((const GLOBAL float *)row)[4 * e + 2];
    return v;
}

/* The quads of turns first .. first + ROW_QUADS - 1, zeros beyond the row. */
DEVICE void row_load(struct row_quads *q, const float *row, uint32_t first, const uint32_t cols, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        if ((first + i) * threads * 4 < cols) q->v[i] = row_quad(row, (first + i) * threads + row_thread(threads), cols);
        else q->v[i] = (f32x4)(0.0f);
    }
}
DEVICE void norm_weight_load(struct row_quads *q, const float *weight, uint32_t first, const uint32_t cols, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) q->v[i] = (f32x4)(1.0f);
    if (weight) row_load(q, weight, first, cols, threads);
}

/* What can be loaded ahead of its use: of the activations after pdl_wait(), of the weights of a norm ([cols] f32,
 * or NULL: all 1) before it. */
DEVICE void row_begin(struct row_quads *q, const float *row, const uint32_t cols, const uint32_t threads)
{
    row_load(q, row, 0, cols, threads);
}
DEVICE void norm_begin(struct row_quads *q, const float *weight, const uint32_t cols, const uint32_t threads)
{
    norm_weight_load(q, weight, 0, cols, threads);
}

/* The sum of what each wave left in scratch. */
DEVICE float waves_sum_f32(const uint8_t *scratch, const uint32_t threads)
{
    const uint32_t waves = threads / WAVE, fours = waves / 4;
    const f32x4 *sums4 = (const f32x4 *)(const void *)scratch;
    const float *sums = (const float *)(const void *)scratch;
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < fours; i++) sum += (sums4[i].x + sums4[i].y) + (sums4[i].z + sums4[i].w);
#pragma unroll
    for (uint32_t i = 4 * fours; i < waves; i++) sum += sums[i];
    return sum;
}
/* The sum of x over all threads, the same bits in each.  scratch: ACTS_SCRATCH_BYTES, read until the next barrier(). */
DEVICE float group_sum_f32(float x, uint8_t *scratch, const uint32_t threads)
{
    x = lanes_sum_f32(x, WAVE);
    if (lane_id() == 0) ((float *)(void *)scratch)[wave_id()] = x;
    barrier();
    return waves_sum_f32(scratch, threads);
}

/* This thread's part of the sum of squares of a row; q: its first turns, as row_load() left them. */
DEVICE float row_squares(const struct row_quads *q, const float *row, const uint32_t cols, const uint32_t threads)
{
    f32x4 squares = q->v[0] * q->v[0];
    UNROLL
    for (uint32_t i = 1; i < ROW_QUADS; i++) if (i * threads * 4 < cols) squares += q->v[i] * q->v[i];
#pragma unroll 1
    for (uint32_t e = ROW_QUADS * threads + row_thread(threads); 4 * e < cols; e += threads) {
        const f32x4 v = row_quad(row, e, cols);
        squares += v * v;
    }
    return (squares.x + squares.y) + (squares.z + squares.w);
}
/* 1 / sqrt(mean(x^2) + eps) over the row, from the sum of its squares. */
DEVICE float norm_factor(const float squares, const uint32_t cols, const float eps)
{
    return rsqrt_f32(squares * (1.0f / (float)cols) + eps);
}
/* The same in all threads; q: as of row_squares(), scratch: as of group_sum_f32(). */
DEVICE float row_norm_factor(const struct row_quads *q, const float *row, const uint32_t cols, const float eps, uint8_t *scratch,
                             const uint32_t threads)
{
    return norm_factor(group_sum_f32(row_squares(q, row, cols, threads), scratch, threads), cols, eps);
}

/* Byte n of four integers. */
DEVICE uint32_t bytes_of(const u32x4 q, const uint32_t n)
{
    const uint32_t pair = 0x0400u + 0x0101u * n;
    return byte_perm(byte_perm(q.x, q.y, pair), byte_perm(q.z, q.w, pair), 0x05040100);
}
/* Bytes 0 and 1 of four integers. */
DEVICE void two_bytes_of(uint32_t bytes[2], const u32x4 q)
{
    const uint32_t xy = byte_perm(q.x, q.y, 0x05040100), zw = byte_perm(q.z, q.w, 0x05040100);
    bytes[0] = byte_perm(xy, zw, 0x06040200);
    bytes[1] = byte_perm(xy, zw, 0x07050301);
}

/* The scale of a block, and the sum of its columns and of the half of them that is this thread's. */
struct acts_block { float d, sum32, sum16; };

/* Four columns become digits, q = x / d to nearest even.  Eight lanes share a block of 32 columns.  d = max|x| / 127; with two digits
 * / 32639, the largest whose high digit fits; with three / 8355000: x / d is itself rounded, to a whole number more than that at worst.
 * max|x| counts as at least 1e-30, so that 1 / d does not overflow.  Bits of floats without their sign are in the floats' order,
 * and a NaN is above all of them.
 * place: of the first digit's four bytes; stored: whether this thread's are. */
DEVICE struct acts_block acts_put(uint8_t *place, const f32x4 v, const uint32_t stored, const uint32_t cols, const uint32_t digits)
{
    const float most = digits == 3 ? 8355000.0f : digits == 2 ? 32639.0f : 127.0f;
    const uint32_t sign = 0x80000000u, x = bits_of_f32(v.x) & ~sign, y = bits_of_f32(v.y) & ~sign, z = bits_of_f32(v.z) & ~sign,
                   w = bits_of_f32(v.w) & ~sign;
    const float top = f32_of_bits(max_u32(lanes_max_u32(max_u32(max_u32(x, y), max_u32(z, w)), 8), 0x0da24260u));       /* 1e-30 */
    const float to_q = most * rcp_f32(top), d = top * (1.0f / most);
    const uint32_t plane_bytes = 64 * ACTS_PLANE_UNITS(cols);
    uint32_t bytes[3], sum;
    u32x4 q;
    if (digits == 3) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) q[i] = (uint32_t)(int32_t)round_f32(v[i] * to_q);
        sum = q.x + q.y + q.z + q.w;
        bytes[0] = bytes_of(q, 0);
        bytes[1] = bytes_of(q + 128u, 1);
        bytes[2] = bytes_of(q + 32896u, 2);
    } else {                           /* 1.5 2^23 + q has q in its low bits; with two digits 128 more, so that the second one is rounded */
        const float one = digits == 2 ? 12583040.0f : 12582912.0f;
        UNROLL
        for (uint32_t i = 0; i < 4; i++) q[i] = bits_of_f32(v[i] * to_q + one);
        sum = q.x + q.y + q.z + q.w - 4 * bits_of_f32(one);
        if (digits == 2) {
            two_bytes_of(bytes, q);
            bytes[0] ^= 0x80808080u;
        }
        else bytes[0] = bytes_of(q, 0);
    }
    if (stored)
        UNROLL
        for (uint32_t i = 0; i < digits; i++) *(uint32_t *)(void *)(place + i * plane_bytes) = bytes[i];
    const uint32_t sum16 = lanes_sum_u32(sum, 4), sum32 = sum16 + lane_other_u32(sum16, 4);
    const struct acts_block b = { d, d * (float)(int32_t)sum32, d * (float)(int32_t)sum16 };
    return b;
}

/* The same for a row that stays floats. */
DEVICE void floats_put(uint8_t *x_lds, f32x4 v, uint32_t e, const uint32_t cols)
{
    if (e < 16 * ACTS_UNITS(cols)) *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + e % 2 * FLOATS_PLANE_BYTES(cols) + e / 2 * 16) = v;
}

/* What lanes without columns of their own read. */
DEVICE void row_put_end(uint8_t *x_lds, const uint32_t cols, const uint32_t digits, const uint32_t sums16)
{
    const f32x4 zero = { 0, 0, 0, 0 };
    const uint32_t units = ACTS_UNITS(cols);
    if (thread_x() < 4 * digits) *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + 16 * (thread_x() * ACTS_PLANE_UNITS(cols) + units)) = zero;
    if (thread_x() != 0) return;
    if (digits == 0) {
        *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + 128 * units) = zero;
        *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + FLOATS_PLANE_BYTES(cols) + 128 * units) = zero;
    } else {
        *(f32x4 *)(void *)(x_lds + ACTS_SCALES(cols, digits) + 16 * units) = zero;
        if (sums16) *(f32x4 *)(void *)(x_lds + ACTS_SUMS(cols, digits) + 16 * units) = zero;
    }
}

/* The turns first .. of a row that q holds, times factor and, where w is not NULL, times w.  The scales of all of them in the end: between
 * the digits of one turn and the next no branch stands, so that the turns overlap. */
DEVICE void row_put(uint8_t *x_lds, const struct row_quads *q, float factor, const struct row_quads *w, uint32_t first, const uint32_t cols,
                    const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const uint32_t thread = row_thread(threads), pieces = 16 * ACTS_UNITS(cols), turn_bytes = threads;
    uint8_t *place = x_lds + ACTS_SCRATCH_BYTES + thread / 4 % 4 * 16 * ACTS_PLANE_UNITS(cols) + 16 * (thread / 16) + 4 * (thread % 4) +
                     first * turn_bytes;
    struct acts_block block[ROW_QUADS];
    UNROLL
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        const uint32_t e = (first + i) * threads + thread;
        if ((first + i) * threads >= pieces) continue;
        const f32x4 v = w ? q->v[i] * factor * w->v[i] : q->v[i] * factor;
        if (digits == 0) floats_put(x_lds, v, e, cols);
        else block[i] = acts_put(place + i * turn_bytes, v, e < pieces, cols, digits);
    }
    if (digits == 0) return;
    float *scale = (float *)(void *)(x_lds + ACTS_SCALES(cols, digits) + 16 * (thread / 16) + first * turn_bytes);
    float *sums = (float *)(void *)(x_lds + ACTS_SUMS(cols, digits) + 16 * (thread / 16) + first * turn_bytes);
    if (thread % 8 == 0)
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            if ((first + i) * threads + thread >= pieces) continue;
            scale[i * turn_bytes / 4 + thread / 8 % 2] = block[i].d;
            scale[i * turn_bytes / 4 + thread / 8 % 2 + 2] = block[i].sum32;
        }
    if (sums16 && thread % 4 == 0)
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++)
            if ((first + i) * threads + thread < pieces) sums[i * turn_bytes / 4 + thread / 4 % 4] = block[i].sum16;
}

/* The row into LDS; q: as row_begin() left it.  digits 0: as floats. */
DEVICE void row_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const uint32_t cols, const uint32_t digits,
                       const uint32_t sums16, const uint32_t threads)
{
    row_put_end(x_lds, cols, digits, sums16);
    row_put(x_lds, q, 1.0f, (const struct row_quads *)0, 0, cols, digits, sums16, threads);
#pragma unroll 1
    for (uint32_t first = ROW_QUADS; first * threads < 16 * ACTS_UNITS(cols); first += ROW_QUADS) {
        struct row_quads more;
        row_load(&more, row, first, cols, threads);
        row_put(x_lds, &more, 1.0f, (const struct row_quads *)0, first, cols, digits, sums16, threads);
    }
    barrier();
}

/* The same after RMS norm: x / sqrt(mean(x^2) + eps) * weight  (Zhang & Sennrich 2019, arXiv:1910.07467).
 * w: as norm_begin() left it for the same weight. */
DEVICE void norm_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const struct row_quads *w, const float *weight,
                        const uint32_t cols, const float eps, const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const float factor = row_norm_factor(q, row, cols, eps, x_lds, threads);

    row_put_end(x_lds, cols, digits, sums16);
    row_put(x_lds, q, factor, w, 0, cols, digits, sums16, threads);
#pragma unroll 1
    for (uint32_t first = ROW_QUADS; first * threads < 16 * ACTS_UNITS(cols); first += ROW_QUADS) {
        struct row_quads more, more_weight;
        row_load(&more, row, first, cols, threads);
        norm_weight_load(&more_weight, weight, first, cols, threads);
        row_put(x_lds, &more, factor, &more_weight, first, cols, digits, sums16, threads);
    }
    barrier();
}

/* A unit, 0 .. units, of a row of `units` units in LDS; unit == units is zero. */
DEVICE void acts_load(struct acts_unit *x, const uint8_t *x_lds, uint32_t unit, const uint32_t units, const uint32_t digits,
                      const uint32_t sums16)
{
    const uint32_t cols = 64 * units, plane_bytes = 16 * ACTS_PLANE_UNITS(cols);
    const uint8_t *place = x_lds + 16 * unit;
    x->one = 0;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        x->q[0][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + c * plane_bytes);
        if (digits > 1) x->q[1][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (4 + c) * plane_bytes);
        if (digits > 2) x->q[2][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (8 + c) * plane_bytes);
    }
    x->scale = *(const f32x4 *)(const void *)(place + ACTS_SCALES(cols, digits));
    if (sums16) x->sum16 = *(const f32x4 *)(const void *)(place + ACTS_SUMS(cols, digits));
}

/* ==== templates/gpu/stage.h ==== */
/* stage.h -- rows brought into the form the next kernel reads: 16-bit rows for the products of prefill, with or without RMS norm,
 * and normed rows of f32.
 * One token a group.  LDS: ACTS_SCRATCH_BYTES. */

/* Columns 4 e .. of a row as f16 or bf16. */
DEVICE void stage_put(uint8_t *out, const f32x4 v, uint32_t e, const uint32_t bf16)
{
    const u32x2 high = { bf16 ? stage_bf16(v.x) | stage_bf16(v.y) << 16 : stage_f16(v.x) | stage_f16(v.y) << 16,
                         bf16 ? stage_bf16(v.z) | stage_bf16(v.w) << 16 : stage_f16(v.z) | stage_f16(v.w) << 16 };
    *(GLOBAL u32x2 *)(void *)(out + 8 * e) = high;
}
/* Columns 4 e .. of a row of f32. */
DEVICE void row_quad_put(float *row, const f32x4 v, uint32_t e, const uint32_t cols)
{
    if (4 * e + 4 <= cols) {
        *((GLOBAL f32x4 *)row + e) = v;
        return;
    }
    if (4 * e + 0 < cols) ((GLOBAL float *)row)[4 * e + 0] = v.x;
    if (4 * e + 1 < cols) ((GLOBAL float *)row)[4 * e + 1] = v.y;
    if (4 * e + 2 < cols) ((GLOBAL float *)row)[4 * e + 2] = v.z;
}

/* x [cols] f32, with norm 1: x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, arXiv:1910.07467), weight [cols] or NULL, goes to
 * out as f16 times 2^-6 or, with bf16, as bfloat16 (launch.h), zeros up to a multiple of 64 columns.
 * x, weight, out: multiples of 16 bytes.  All but pointers constants.  After pdl_wait(). */
DEVICE void stage_rows(uint8_t *out, const float *x, const float *weight, const uint32_t cols, const float eps, const uint32_t norm,
                       const uint32_t bf16, const uint32_t threads)
{
    struct row_quads q, w;
    float factor = 1.0f;
    row_load(&q, x, 0, cols, threads);
    if (norm) {
        norm_weight_load(&w, weight, 0, cols, threads);
        factor = row_norm_factor(&q, x, cols, eps, lds(), threads);
    }
#pragma unroll 1
    for (uint32_t first = 0; first * threads < 16 * UNITS_OF(cols); first += ROW_QUADS) {
        if (first > 0) {
            row_load(&q, x, first, cols, threads);
            if (norm) norm_weight_load(&w, weight, first, cols, threads);
        }
#pragma unroll
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            const uint32_t e = (first + i) * threads + thread_x();
            if (e < 16 * UNITS_OF(cols)) stage_put(out, norm ? q.v[i] * factor * w.v[i] : q.v[i], e, bf16);
        }
    }
}

/* ==== templates/gpu/attention_sizes.h ==== */
/* attention_sizes.h -- sizes of the KV cache and of decode attention, for the plan and for the kernels: macros of constants.
 * Counts are u32, bytes u64.  wave, threads: lanes of a wave and threads of a group of the target. */

/* How a cache keeps its values; numbered as enum kv_type of compiler/plan/plan.h. */
#define KV_KIND_f16  0u
#define KV_KIND_f32  1u
#define KV_KIND_q8_0 2u

/* Bytes of a row's values without its scales; of K, or of V, of all heads of a layer, where K is followed by V (docs/gpu.md). */
#define KV_VALUE_BYTES(kind, head_dim) ((head_dim) * ((kind) == KV_KIND_f16 ? 2u : (kind) == KV_KIND_f32 ? 4u : 1u))
#define KV_SCALE_BYTES(kind, head_dim) ((kind) == KV_KIND_q8_0 ? (head_dim) / 32u * 2u : 0u)
#define KV_PLANE_BYTES(kind, n_head_kv, n_ctx, head_dim) \
    (((uint64_t)(n_head_kv) * (n_ctx) * (KV_VALUE_BYTES(kind, head_dim) + KV_SCALE_BYTES(kind, head_dim)) + 15u) / 16u * 16u)

/* Decode attention.  The query heads of a KV head are done together, as many as registers hold: 8, or 4 of more than 128 dimensions;
 * more are cut into equal parts. */
#define ATTENTION_MAX_HEADS(head_dim) ((head_dim) > 128u ? 4u : 8u)
#define ATTENTION_CUTS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_MAX_HEADS(head_dim) - 1u) / ATTENTION_MAX_HEADS(head_dim))
/* Query heads of a group (the last cut may have fewer). */
#define ATTENTION_HEADS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_CUTS(n_head, n_head_kv, head_dim) - 1u) / ATTENTION_CUTS(n_head, n_head_kv, head_dim))

/* Neighbouring lanes that share a row of K or V, 8 columns each; a few idle when head_dim is not a power of two. */
#define ATTENTION_LANES(head_dim) ((head_dim) <= 32u ? 4u : (head_dim) <= 64u ? 8u : (head_dim) <= 128u ? 16u : 32u)
#define ATTENTION_MAX_ROWS 8u
#define ATTENTION_WAVE_FLOATS(heads, head_dim, wave) \
    ((heads) * ((head_dim) > (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS \
                ? (head_dim) : (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS))
/* Splits that can be a cluster, each of which merges a share of the fours of columns and gets that share from every split,
 * with maxima and totals. */
#define ATTENTION_MAX_CLUSTER 8u
#define ATTENTION_SHARE(heads, head_dim, splits) (((heads) * (head_dim) / 4u + (splits) - 1u) / (splits))
#define ATTENTION_RECEIVED_FLOATS(heads, head_dim, splits, cluster) \
    ((cluster) ? (splits) * (4u * ATTENTION_SHARE(heads, head_dim, splits) + 2u * (heads)) : 0u)

/* ==== templates/gpu/kv.h ==== */
/* kv.h -- the KV cache: where a value lies, how it is stored and how it comes back (docs/gpu.md "KV cache").
 * KV is the type of the cache: f16, f32 (head_dim a multiple of 8) or q8_0 (of 32); KV_KIND its number, a constant.
 *   kv_k(a), kv_v(a, ...)       K and V of the launch's layer: the `plane` of all functions here
 *   kv_fetch, kv_values         8 neighbouring columns of a row: asked for, and later as f32
 *   kv_load, kv_load_f16        both at once, as f32x4[2] or as four words of f16 pairs
 *   kv_encode, kv_put           8 columns rounded as the cache rounds them, and stored
 *   kv_store_row, kv_store_rows a wave stores one head of a token, a launch all heads
 *   kv_bytes                    where a row's 16-byte pieces begin, for copies of f16 and f32 rows
 * Everywhere: position < n_ctx, column a multiple of 8 below head_dim, kv_head < n_head_kv.
 *
 * window, ring: constants of attention over the last positions only.  window: a token attends so many positions, its own included; 0: all
 * of them.  ring: rows of the cache, where position p lies in row p % ring; 0: a row for each of n_ctx.  A step stores all of its tokens
 * before the first one attends, so ring is at least window + tokens of a step - 1.  For the functions above n_ctx is kv_rows() and position
 * is kv_row(). */

#define KV_KIND_OF_(kv) KV_KIND_##kv
#define KV_KIND_OF(kv)  KV_KIND_OF_(kv)
#define KV_KIND         KV_KIND_OF(KV)

/* 8 columns as stored.  f16: values[0]; f32: both; q8_0: 8 codes in values[0].xy and the f16 scale of their block. */
struct kv_piece { u32x4 values[2]; uint32_t scale; };

DEVICE uint32_t kv_rows(const uint32_t n_ctx, const uint32_t ring) { return ring ? ring : n_ctx; }
DEVICE uint32_t kv_row(uint32_t position, const uint32_t ring)     { return ring ? position % ring : position; }
/* The first position that a token at `position` attends. */
DEVICE uint32_t kv_window_begin(uint32_t position, const uint32_t window)
{
    return window && position >= window ? position + 1 - window : 0;
}

DEVICE uint8_t *kv_k(const struct forge_kernel_args a) { return a.state + a.state_at; }
DEVICE uint8_t *kv_v(const struct forge_kernel_args a, const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    return a.state + a.state_at + KV_PLANE_BYTES(KV_KIND, n_head_kv, n_ctx, head_dim);
}
/* Byte of a plane at which the value in this column lies. */
DEVICE uint64_t kv_bytes(uint32_t kv_head, uint32_t position, uint32_t column, const uint32_t n_ctx, const uint32_t head_dim)
{
    return (uint64_t)(kv_head * n_ctx + position) * KV_VALUE_BYTES(KV_KIND, head_dim) + KV_VALUE_BYTES(KV_KIND, column);
}
/* Byte of a plane at which the f16 scale of this column's block lies (q8_0). */
DEVICE uint64_t kv_scale_bytes(uint32_t kv_head, uint32_t position, uint32_t column, const uint32_t n_head_kv, const uint32_t n_ctx,
                               const uint32_t head_dim)
{
    return (uint64_t)n_head_kv * n_ctx * head_dim + ((uint64_t)(kv_head * n_ctx + position) * (head_dim / 32) + column / 32) * 2;
}

DEVICE void kv_fetch(struct kv_piece *piece, const uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column,
                     const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    const uint8_t *p = plane + kv_bytes(kv_head, position, column, n_ctx, head_dim);
    if (KV_KIND == KV_KIND_q8_0) {
        const u32x2 codes = load_settled8(p);
        piece->values[0].x = codes.x;
        piece->values[0].y = codes.y;
        piece->scale = load_settled2(plane + kv_scale_bytes(kv_head, position, column, n_head_kv, n_ctx, head_dim));
        return;
    }
    piece->values[0] = load_settled16(p);
    if (KV_KIND == KV_KIND_f32) piece->values[1] = load_settled16(p + 16);
}

DEVICE void kv_values(float x[8], const struct kv_piece *piece)
{
    const float scale = f32_of_f16_bits(piece->scale);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (KV_KIND == KV_KIND_f16)      x[i] = f32_of_f16_bits(piece->values[0][i / 2] >> 16 * (i % 2));
        else if (KV_KIND == KV_KIND_f32) x[i] = f32_of_bits(piece->values[i / 4][i % 4]);
        else                             x[i] = scale * (float)(int8_t)(piece->values[0][i / 4] >> 8 * (i % 4));
    }
}

/* 8 columns as the cache stores them.  q8_0: the 32 columns of a block are in 4 neighbouring lanes, and all lanes of the wave call;
 * scale max|x| / 127 as f16, codes made with the rounded scale. */
DEVICE void kv_encode(struct kv_piece *piece, const float x[8])
{
    if (KV_KIND == KV_KIND_f16)
        UNROLL
        for (uint32_t i = 0; i < 4; i++) piece->values[0][i] = f16x2_bits(x[2 * i], x[2 * i + 1]);
    if (KV_KIND == KV_KIND_f32)
        UNROLL
        for (uint32_t i = 0; i < 8; i++) piece->values[i / 4][i % 4] = bits_of_f32(x[i]);
    if (KV_KIND != KV_KIND_q8_0) return;
    float top = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 8; i++) top = max_f32(top, abs_f32(x[i]));
    piece->scale = f16_bits(lanes_max_f32(top, 4) * (1.0f / 127.0f));
    const float scale = f32_of_f16_bits(piece->scale), inverse = scale > 0.0f ? rcp_f32(scale) : 0.0f;
    UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t codes = 0;
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            codes |= ((uint32_t)(int32_t)round_f32(clamp_f32(x[4 * k + i] * inverse, 127.0f)) & 0xffu) << 8 * i;
        piece->values[0][k] = codes;
    }
}

DEVICE void kv_put(uint8_t *plane, uint32_t kv_head, uint32_t position, uint32_t column, const struct kv_piece *piece,
                   const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    uint8_t *p = plane + kv_bytes(kv_head, position, column, n_ctx, head_dim);
    if (KV_KIND == KV_KIND_q8_0) {
        const u32x2 codes = { piece->values[0].x, piece->values[0].y };
        *(GLOBAL u32x2 *)(void *)p = codes;
        if (column % 32 == 0)
            *(GLOBAL uint16_t *)(void *)(plane + kv_scale_bytes(kv_head, position, column, n_head_kv, n_ctx, head_dim)) =
                (uint16_t)piece->scale;
        return;
    }
    *(GLOBAL u32x4 *)(void *)p = piece->values[0];
    if (KV_KIND == KV_KIND_f32) *(GLOBAL u32x4 *)(void *)(p + 16) = piece->values[1];
}

/* Columns column .. + 7, a multiple of 8, of a row of f32, 16-byte aligned.  In LDS, lanes 4 to 7 of every eight neighbours take their
 * second half first: it lies in other banks than what the four lanes before them take. */
DEVICE void row_eight(float x[8], const float *row, uint32_t column)
{
    const uint32_t second = column / 32 % 2 * 4;
    const f32x4 a = *(const f32x4 *)(const void *)(row + column + second), b = *(const f32x4 *)(const void *)(row + column + 4 - second);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        x[i] = second ? b[i] : a[i];
        x[4 + i] = second ? a[i] : b[i];
    }
}

/* One wave stores one head.  row: [head_dim] f32, global or LDS (then written before a wave_barrier()). */
DEVICE void kv_store_row(uint8_t *plane, uint32_t kv_head, uint32_t position, const float *row,
                         const uint32_t n_head_kv, const uint32_t n_ctx, const uint32_t head_dim)
{
    for (uint32_t first = 0; first < head_dim; first += 8 * WAVE) {
        const uint32_t mine = first + 8 * lane_id(), column = mine < head_dim ? mine : 0;
        struct kv_piece piece;
        float x[8];
        row_eight(x, row, column);
        kv_encode(&piece, x);
        if (mine < head_dim) kv_put(plane, kv_head, position, column, &piece, n_head_kv, n_ctx, head_dim);
    }
}

/* ==== templates/gpu/rope.h ==== */
/* rope.h -- what is done with the heads of a token between their projection and attention: RMS norm of a head, and rotary position
 * embedding.  (Su et al. 2021, arXiv:2104.09864; Zhang & Sennrich 2019, arXiv:1910.07467)
 * One wave works on one head; a lane holds the pairs that turn together, so nothing moves between lanes but the norm's sum.
 * The image holds rotations, made in double arithmetic (compiler/build/image.c): hi [..][n_rot/2][2] cos, sin of position block * k times
 * the attention factor, lo [block][n_rot/2][2] of position k; the rotation of a position is the complex product of one row of each.
 * neox: pairs (i, i + n_rot/2), else (2i, 2i + 1); dimensions from n_rot on stay.  n_rot 0: no rotation, tables may be NULL. */

enum { HEAD_DIM_MAX = 256, HEAD_PAIRS = HEAD_DIM_MAX / 2 / WAVE };

/* Pair lane + WAVE * k in a[k], b[k]; pairs beyond the head are 0. */
struct head { float a[HEAD_PAIRS], b[HEAD_PAIRS]; };
/* Rows of the two tables as they were read. */
struct rotation { f32x2 hi[HEAD_PAIRS], lo[HEAD_PAIRS]; };

DEVICE uint32_t head_pairs(const uint32_t head_dim) { return (head_dim / 2 + WAVE - 1) / WAVE; }
/* Is pair lane + WAVE * k one of n?  A constant where it is one for every lane: loads are then not conditional. */
DEVICE uint32_t pair_exists(const uint32_t k, const uint32_t n) { return WAVE * (k + 1) <= n || lane_id() + WAVE * k < n; }
/* The two dimensions of pair i. */
DEVICE uint32_t pair_a(uint32_t i, const uint32_t n_rot, const uint32_t neox) { return neox && i < n_rot / 2 ? i : 2 * i; }
DEVICE uint32_t pair_b(uint32_t i, const uint32_t n_rot, const uint32_t neox) { return neox && i < n_rot / 2 ? i + n_rot / 2 : 2 * i + 1; }

/* x: [head_dim], global. */
DEVICE void head_load(struct head *h, const float *x, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t exists = pair_exists(k, head_dim / 2), i = exists ? lane_id() + WAVE * k : 0;
        const float a = ((const GLOBAL float *)x)[pair_a(i, n_rot, neox)], b = ((const GLOBAL float *)x)[pair_b(i, n_rot, neox)];
        h->a[k] = exists ? a : 0.0f;
        h->b[k] = exists ? b : 0.0f;
    }
}

DEVICE void rotation_load(struct rotation *r, const float *hi, const float *lo, uint32_t position, const uint32_t block,
                          const uint32_t head_dim, const uint32_t n_rot)
{
    if (n_rot == 0) return;
    const GLOBAL f32x2 *h = (const GLOBAL f32x2 *)(const void *)(hi + (uint64_t)(position / block) * n_rot);
    const GLOBAL f32x2 *l = (const GLOBAL f32x2 *)(const void *)(lo + (uint64_t)(position % block) * n_rot);
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t i = pair_exists(k, n_rot / 2) ? lane_id() + WAVE * k : 0;
        r->hi[k] = h[i];
        r->lo[k] = l[i];
    }
}

/* x = x / sqrt(mean(x^2) + eps) * weight, over the head. */
DEVICE void head_norm(struct head *h, const struct head *weight, float eps, const uint32_t head_dim)
{
    float sum = 0.0f;
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) sum += h->a[k] * h->a[k] + h->b[k] * h->b[k];
    const float factor = rsqrt_f32(lanes_sum_f32(sum, WAVE) * (1.0f / (float)head_dim) + eps);
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        h->a[k] *= factor * weight->a[k];
        h->b[k] *= factor * weight->b[k];
    }
}

DEVICE void head_rotate(struct head *h, const struct rotation *r, const uint32_t head_dim, const uint32_t n_rot)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        if (!pair_exists(k, n_rot / 2)) continue;
        const float c = r->hi[k].x * r->lo[k].x - r->hi[k].y * r->lo[k].y, s = r->hi[k].y * r->lo[k].x + r->hi[k].x * r->lo[k].y;
        const float a = h->a[k], b = h->b[k];
        h->a[k] = a * c - b * s;
        h->b[k] = a * s + b * c;
    }
}

/* The two dimensions of a pair to their places, which are neighbours without neox. */
DEVICE void head_put(float *a_at, float *b_at, float a, float b, const uint32_t neox)
{
    const f32x2 both = { a, b };
    if (!neox) *(f32x2 *)(void *)a_at = both;
    else *a_at = a, *b_at = b;
}

/* x: [head_dim], global or LDS. */
DEVICE void head_store(float *x, const struct head *h, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t i = lane_id() + WAVE * k;
        if (!pair_exists(k, head_dim / 2)) continue;
        head_put(x + pair_a(i, n_rot, neox), x + pair_b(i, n_rot, neox), h->a[k], h->b[k], neox);
    }
}

/* Norm, if there are weights ([head_dim] or NULL), then rotation. */
DEVICE void head_finish(struct head *h, const float *weight, float eps, const float *hi, const float *lo, uint32_t position,
                        const uint32_t block, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    struct rotation r;
    rotation_load(&r, hi, lo, position, block, head_dim, n_rot);
    if (weight) {
        struct head w;
        head_load(&w, weight, head_dim, n_rot, neox);
        head_norm(h, &w, eps, head_dim);
    }
    head_rotate(h, &r, head_dim, n_rot);
}

/* Prefill, a kernel's body for one token of the step at t: query heads are normed and rotated in place, keys normed, rotated and stored,
 * values stored.  q: [n_head][head_dim], k, v: [n_head_kv][head_dim], the token's rows, f32.  q_norm, k_norm: [head_dim] or NULL.
 * ring: kv.h.
 * grid_x: HEAD_GROUPS(n_head + 2 * n_head_kv, WAVE, threads); LDS: threads / WAVE * head_dim * 4 bytes. */
DEVICE void qkv_finish(const struct forge_kernel_args a, uint32_t t, float *q, const float *k, const float *v, const float *q_norm,
                       const float *k_norm, float eps, const float *hi, const float *lo, const uint32_t n_rot, const uint32_t neox,
                       const uint32_t block, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim, const uint32_t n_ctx,
                       const uint32_t threads, const uint32_t ring)
{
    const uint32_t item = group_x() * (threads / WAVE) + wave_id(), position = position_of(a, t), rows = kv_rows(n_ctx, ring);
    struct head h;
    if (item < n_head) {
        float *head = q + (uint64_t)item * head_dim;
        head_load(&h, head, head_dim, n_rot, neox);
        head_finish(&h, q_norm, eps, hi, lo, position, block, head_dim, n_rot, neox);
        head_store(head, &h, head_dim, n_rot, neox);
    } else if (item < n_head + n_head_kv) {
        float *row = (float *)(void *)lds() + wave_id() * head_dim;
        head_load(&h, k + (uint64_t)(item - n_head) * head_dim, head_dim, n_rot, neox);
        head_finish(&h, k_norm, eps, hi, lo, position, block, head_dim, n_rot, neox);
        head_store(row, &h, head_dim, n_rot, neox);
        wave_barrier();
        kv_store_row(kv_k(a) + state_of(a, t), item - n_head, kv_row(position, ring), row, n_head_kv, rows, head_dim);
    } else if (item < n_head + 2 * n_head_kv) {
        const uint32_t kv_head = item - n_head - n_head_kv;
        kv_store_row(kv_v(a, n_head_kv, rows, head_dim) + state_of(a, t), kv_head, kv_row(position, ring),
                     v + (uint64_t)kv_head * head_dim, n_head_kv, rows, head_dim);
    }
}

/* ==== templates/gpu/attention_decode_tmpl.c ==== */
/* attention_decode_tmpl.c -- attention of one token over the KV cache, the positions split among groups.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2023, "Flash-Decoding for long-context inference")
 *
 * A group has the query heads of one KV head (or a cut of them, attention_sizes.h) and every splits-th block of positions, so that the
 * launch does not depend on the context and the first rows of K can be asked for before the context is known.  A row of K or V is read by
 * `lanes` neighbouring lanes, 8 columns each; a wave reads `slots` rows at once and keeps up to `rows` such loads of K, and of V,
 * in flight.
 *
 * A long context is cut into spans, neighbouring positions, each of which has such groups: as many spans as have `span` positions, of the
 * `spans` that the launch has groups for.  A short one has one span, and the groups of the others end before they wait for anything.
 *
 * The dot products are added up across lanes by halves: each exchange also halves the rows that a lane still works on, so a lane
 * ends with the score of one row, computes its weight once and hands it round in LDS.
 * Maximum and sums run per wave; waves meet in LDS at the end, groups in the arena, where the last one merges, or, where the splits of a
 * span are a cluster, in each other's LDS, where each merges a share; shares of several spans meet in the arena, where the last one of a
 * share merges it.
 *
 * Where a family's matrix unit takes the rows as they lie (digits), steps are tiles there: attention_decode_matrix.h.
 *
 * The time is latency: everything that can be asked for together is.  Where kernels begin before their predecessor has ended (sm_90) only q
 * and the new k and v wait for it: norms, n_past, rotations, K and V are asked for before; where another kernel stores k and v, they wait,
 * too.  Elsewhere: q, new k and v, K rows that need no
 * context | n_past | rotations, K, V.  Heads are finished while rows are on their way; then scores, weights, values. */

#define ATTENTION_AHEAD 2
/* Finite, so that no difference is NaN: a maximum of nothing lies below any score,
 * what is no score so far below it that its weight is 0. */
#define ATTENTION_NOTHING (-1e30f)
#define ATTENTION_MASKED  (-2e30f)

/* At most: heads of a group; scored at once; rows in flight, with digits twice as many. */
enum { DECODE_HEADS = 8, DECODE_SCORED = 4, DECODE_ROWS = ATTENTION_MAX_ROWS, DECODE_PIECES = 2 * DECODE_ROWS };

/* Constants of the launch, then what this lane works on. */
struct decode {
    uint32_t head_dim, n_head_kv, n_ctx, splits, threads, cluster, window, ring;       /* n_ctx: rows of the cache; window, ring: kv.h */
    uint32_t spans, least, digits;               /* least: positions of a span; digits: of f16 on the matrix unit, or 0 */
    uint32_t group, cuts, heads;                 /* query heads of a KV head, its cuts, query heads of this group */
    uint32_t lanes, slots, waves, rows, scored;  /* rows: in flight; scored: heads at once */
    uint32_t span, part, kv_head, first, split;  /* part: KV head and cut; first: query head */
    uint32_t begin;                              /* the first position it attends: positions count from there */
    uint32_t wave, slot, column;                 /* slot: row of a block of waves * slots; column: first of 8, 0 in idle lanes */
};

/* Running softmax of a wave: the maximum, this lane's share of the sum of weights,
 * and its 8 columns of the sum of weight * v over the slot's rows. */
struct decode_state { float m[DECODE_HEADS], l[DECODE_HEADS], acc[DECODE_HEADS][8]; };

/* Positions limit .., from decode.begin on, are not there; a slot has `count` rows; so many spans have positions, and n groups of this
 * one. */
struct decode_range { uint32_t limit, count, n, spans; };

/* What is loaded before it is needed: heads of this wave, the new key and value. */
struct decode_inputs { struct head q[DECODE_HEADS], k, q_norm, k_norm; float v[8]; };

DEVICE void decode_init(struct decode *d, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim, const uint32_t n_ctx,
                        const uint32_t splits, const uint32_t spans, const uint32_t least, const uint32_t rows, const uint32_t digits,
                        const uint32_t threads, const uint32_t cluster, const uint32_t window, const uint32_t ring)
{
    d->head_dim = head_dim;
    d->n_head_kv = n_head_kv;
    d->n_ctx = kv_rows(n_ctx, ring);
    d->window = window;
    d->ring = ring;
    d->begin = 0;
    d->splits = splits;
    d->spans = spans;
    d->least = least;
    d->threads = threads;
    d->cluster = cluster;
    d->group = n_head / n_head_kv;
    d->cuts = ATTENTION_CUTS(n_head, n_head_kv, head_dim);
    d->heads = ATTENTION_HEADS(n_head, n_head_kv, head_dim);
    d->lanes = ATTENTION_LANES(head_dim);
    d->slots = WAVE / d->lanes;
    d->waves = threads / WAVE;
    d->rows = rows;
    d->digits = digits;
    d->scored = d->heads > 4 ? 2 : 4;
    const uint32_t units = n_head_kv * d->cuts, part = group_x() / splits;
    d->span = part / units;
    d->part = part % units;
    d->split = group_x() % splits;
    d->kv_head = d->part / d->cuts;
    d->first = d->kv_head * d->group + d->part % d->cuts * d->heads;
    d->wave = wave_id();
    d->slot = d->wave * d->slots + lane_id() / d->lanes;
    const uint32_t column = lane_id() % d->lanes * 8;
    d->column = column < head_dim ? column : 0;
}

DEVICE uint32_t decode_lane_idle(const struct decode *d) { return lane_id() % d->lanes * 8 >= d->head_dim; }
/* The last cut may have fewer heads: it works on its last one again and writes it once. */
DEVICE uint32_t decode_head(const struct decode *d, uint32_t h)
{
    const uint32_t head = d->first + h, last = (d->kv_head + 1) * d->group - 1;
    return head < last ? head : last;
}
/* Row `row` of this lane's slot: blocks of waves * slots positions go to the splits in turn. */
DEVICE uint32_t decode_position(const struct decode *d, uint32_t row)
{
    return (row * d->splits + d->split) * (d->waves * d->slots) + d->slot;
}

/* ---- LDS: q [heads][2][lanes][4]; per wave [heads][head_dim] or weights [heads][slots][rows]; from the splits of a cluster
 * [splits][share][4] and [splits][heads] m and l; per wave and head m and l; a flag ---- */
DEVICE float *decode_q(void) { return (float *)(void *)lds(); }
DEVICE float *decode_wave(const struct decode *d, uint32_t wave)
{
    return decode_q() + d->heads * d->lanes * 8 + wave * ATTENTION_WAVE_FLOATS(d->heads, d->head_dim, WAVE);
}
DEVICE uint32_t decode_share(const struct decode *d) { return ATTENTION_SHARE(d->heads, d->head_dim, d->splits); }
DEVICE float *decode_received(const struct decode *d, uint32_t split, uint32_t place)
{
    return decode_wave(d, d->waves) + 4 * (split * decode_share(d) + place);
}
DEVICE float *decode_received_ml(const struct decode *d, uint32_t split, uint32_t h)
{
    return decode_received(d, d->splits, 0) + 2 * (split * d->heads + h);
}
DEVICE float *decode_ml(const struct decode *d)
{
    return decode_wave(d, d->waves) + ATTENTION_RECEIVED_FLOATS(d->heads, d->head_dim, d->splits, d->cluster);
}
/* Column c of a head in LDS.  First and second fours of the lanes lie apart, so that lanes read neighbouring 16 bytes; the second ones
 * turned by four lanes, so that neighbouring columns are written into different banks. */
DEVICE uint32_t decode_q_place(const struct decode *d, uint32_t h, uint32_t c)
{
    const uint32_t second = c / 4 % 2, turned = d->lanes >= 8 ? 4 * second : 0;
    return h * d->lanes * 8 + second * d->lanes * 4 + (c / 8 ^ turned) * 4 + c % 4;
}
/* Column c of a wave's sums: neighbouring fours of columns change places where c / 32 is odd, and, where lanes write twos, the twos of a
 * four where c / 64 is: so that what lanes write together lies in different banks. */
DEVICE uint32_t decode_sums_turned(const struct decode *d, uint32_t c) { return WAVE / d->lanes == 4 ? c / 64 % 2 : 0; }
DEVICE uint32_t decode_sums_place(const struct decode *d, uint32_t c) { return c ^ (c / 32 % 2 * 4) ^ decode_sums_turned(d, c) * 2; }

/* ---- prologue ---- */
DEVICE void decode_load_norms(struct decode_inputs *in, const struct decode *d, const float *q_norm, const float *k_norm, uint32_t owner,
                              const uint32_t n_rot, const uint32_t neox)
{
    if (q_norm) head_load(&in->q_norm, q_norm, d->head_dim, n_rot, neox);
    if (owner && k_norm) head_load(&in->k_norm, k_norm, d->head_dim, n_rot, neox);
}

/* Waves take the heads in turn; the owner also takes the new key and value. */
DEVICE void decode_load_inputs(struct decode_inputs *in, const struct decode *d, const float *q, const float *k_new, const float *v_new,
                               uint32_t owner, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t i = 0; i * d->waves < d->heads; i++) {
        const uint32_t head = decode_head(d, d->wave + i * d->waves);
        head_load(&in->q[i], q + (uint64_t)head * d->head_dim, d->head_dim, n_rot, neox);
    }
    if (!owner) return;
    head_load(&in->k, k_new + (uint64_t)d->kv_head * d->head_dim, d->head_dim, n_rot, neox);
    const GLOBAL f32x4 *v = (const GLOBAL f32x4 *)(const void *)(v_new + (uint64_t)d->kv_head * d->head_dim + d->column);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) in->v[i] = v[i / 4][i % 4];
}

/* Norm, rotation and scale of this wave's query heads, into LDS; idle lanes' columns become 0. */
DEVICE void decode_finish_q(struct decode_inputs *in, const struct decode *d, const struct rotation *r, uint32_t normed, float eps,
                            float scale, const uint32_t n_rot, const uint32_t neox)
{
    float *q = decode_q();
    UNROLL
    for (uint32_t i = 0; i * d->waves < d->heads; i++) {
        const uint32_t h = d->wave + i * d->waves;
        struct head *x = &in->q[i];
        if (normed) head_norm(x, &in->q_norm, eps, d->head_dim);
        head_rotate(x, r, d->head_dim, n_rot);
        if (h >= d->heads) continue;
        UNROLL
        for (uint32_t k = 0; k < head_pairs(d->head_dim); k++) {
            const uint32_t pair = lane_id() + WAVE * k;
            if (!pair_exists(k, d->head_dim / 2)) continue;
            head_put(q + decode_q_place(d, h, pair_a(pair, n_rot, neox)), q + decode_q_place(d, h, pair_b(pair, n_rot, neox)),
                     x->a[k] * scale, x->b[k] * scale, neox);
        }
        for (uint32_t c = lane_id(); c < d->lanes * 8 - d->head_dim; c += WAVE) q[decode_q_place(d, h, d->head_dim + c)] = 0.0f;
    }
}

/* The owner's new key, normed, rotated and rounded as the cache rounds it; key and value are stored.  k, v: this lane's 8 columns,
 * as read back. */
DEVICE void decode_append(struct decode_inputs *in, float k[8], float v[8], uint8_t *k_plane, uint8_t *v_plane, const struct decode *d,
                          const struct rotation *r, uint32_t position, uint32_t normed, float eps, const uint32_t n_rot,
                          const uint32_t neox)
{
    float *row = decode_wave(d, d->wave);
    struct kv_piece k_piece, v_piece;
    if (normed) head_norm(&in->k, &in->k_norm, eps, d->head_dim);
    head_rotate(&in->k, r, d->head_dim, n_rot);
    head_store(row, &in->k, d->head_dim, n_rot, neox);
    wave_barrier();
    row_eight(k, row, d->column);
    wave_barrier();
    kv_encode(&k_piece, k);
    kv_encode(&v_piece, in->v);
    kv_values(k, &k_piece);
    kv_values(v, &v_piece);
    if (lane_id() >= d->lanes || decode_lane_idle(d) || d->part % d->cuts != 0) return;
    const uint32_t cache_row = kv_row(position, d->ring);
    kv_put(k_plane, d->kv_head, cache_row, d->column, &k_piece, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_put(v_plane, d->kv_head, cache_row, d->column, &v_piece, d->n_head_kv, d->n_ctx, d->head_dim);
}

/* The same of a key and value that another kernel has stored. */
DEVICE void decode_recall(float k[8], float v[8], const uint8_t *k_plane, const uint8_t *v_plane, const struct decode *d, uint32_t position)
{
    struct kv_piece k_piece, v_piece;
    const uint32_t row = kv_row(position, d->ring);
    kv_fetch(&k_piece, k_plane, d->kv_head, row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_fetch(&v_piece, v_plane, d->kv_head, row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    kv_values(k, &k_piece);
    kv_values(v, &v_piece);
}

/* ---- a step over `rows` rows of each slot ---- */
/* Rows from .. to - 1 of the step that begins with row `row`; those at `limit` or beyond read row 0. */
DEVICE void decode_fetch(struct kv_piece *x, const uint8_t *plane, const struct decode *d, uint32_t row, const uint32_t from,
                         const uint32_t to, uint32_t limit)
{
    UNROLL
    for (uint32_t r = from; r < to; r++) {
        const uint32_t position = decode_position(d, row + r);
        const uint32_t cache_row = kv_row(d->begin + (position < limit ? position : 0), d->ring);
        kv_fetch(&x[r], plane, d->kv_head, cache_row, d->column, d->n_head_kv, d->n_ctx, d->head_dim);
    }
}

/* Positions that a token attends but for the one that the kernel appends. */
DEVICE uint32_t decode_positions(const struct decode *d, uint32_t n_past, const uint32_t appends)
{
    return (appends ? n_past : n_past + 1) - kv_window_begin(n_past, d->window);
}
/* Of these many positions: spans that have some. */
DEVICE uint32_t decode_spans(const struct decode *d, uint32_t positions)
{
    if (d->spans == 1 || positions < 2 * d->least) return 1;
    return positions / d->least < d->spans ? positions / d->least : d->spans;
}

/* This group's range.  Spans are equal but for one block of all splits; each has at least two (ATTENTION_SPAN_LEAST), so that no split is
 * without positions. */
DEVICE void decode_divide(struct decode_range *range, struct decode *d, uint32_t n_past, const uint32_t appends)
{
    const uint32_t unit = d->waves * d->slots, all = unit * d->splits, positions = decode_positions(d, n_past, appends);
    uint32_t limit = positions;
    d->begin = kv_window_begin(n_past, d->window);
    range->spans = decode_spans(d, positions);
    if (range->spans > 1) {
        const uint32_t blocks = (positions + all - 1) / all, first = blocks * d->span / range->spans * all,
                       end = blocks * (d->span + 1) / range->spans * all;
        d->begin += first;
        limit = (end < positions ? end : positions) - first;
    }
    const uint32_t units = (limit + unit - 1) / unit;
    range->limit = limit;
    range->count = units > d->split ? (units - d->split + d->splits - 1) / d->splits : 0;
    range->n = units == 0 ? 1 : units < d->splits ? units : d->splits;
}

/* Columns column + 4 half .. + 3 of a query head; 0 in idle lanes. */
DEVICE f32x4 decode_read_q(const struct decode *d, uint32_t h, const uint32_t half)
{
    return *(const f32x4 *)(const void *)(decode_q() + decode_q_place(d, h, lane_id() % d->lanes * 8 + 4 * half));
}

/* Adds x over lanes that differ in `mask`; of n > 1 values a lane keeps the half that its bit chooses. */
DEVICE void fold(float *x, const uint32_t n, const uint32_t mask)
{
    const uint32_t upper = lane_id() & mask;
    if (n == 1) x[0] += lane_xor_f32(x[0], mask);
    UNROLL
    for (uint32_t i = 0; i < n / 2; i++) {
        const float low = x[i], high = x[i + n / 2], keep = upper ? high : low, give = upper ? low : high;
        x[i] = keep + lane_xor_f32(give, mask);
    }
}
/* How many of n values folds over the masks from .. below to leave in a lane, and the first of them. */
DEVICE uint32_t fold_left(const uint32_t n, const uint32_t from, const uint32_t to) { return to / from < n ? n / (to / from) : 1; }
DEVICE uint32_t fold_first(uint32_t n, const uint32_t from, const uint32_t to)
{
    uint32_t first = 0;
    UNROLL
    for (uint32_t mask = from; mask < to; mask *= 2) {
        n /= 2;
        if (lane_id() & mask) first += n;
    }
    return first;
}

/* s[i]: scores of head `head` + i of the rows that this lane keeps, out of `rows`; heads head .. head + scored - 1, as far as there are.
 * Half of the columns at a time, for the registers of q. */
DEVICE void decode_scores(float s[DECODE_SCORED][DECODE_ROWS], const struct decode *d, const struct kv_piece *k, const uint32_t rows,
                          const uint32_t head)
{
    const uint32_t heads = d->heads - head < d->scored ? d->heads - head : d->scored;
    UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        f32x4 q[DECODE_SCORED];
        UNROLL
        for (uint32_t h = 0; h < heads; h++) q[h] = decode_read_q(d, head + h, half);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            float x[8];
            kv_values(x, &k[r]);
            UNROLL
            for (uint32_t h = 0; h < heads; h++) {
                if (half == 0) s[h][r] = 0.0f;
                UNROLL
                for (uint32_t i = 0; i < 4; i++) s[h][r] += q[h][i] * x[4 * half + i];
            }
        }
    }
    UNROLL
    for (uint32_t mask = 1, left = rows; mask < d->lanes; mask *= 2) {
        UNROLL
        for (uint32_t h = 0; h < heads; h++) fold(s[h], left, mask);
        left = left > 1 ? left / 2 : 1;
    }
}

/* Their weights, in LDS at [head][slot][row]; the state moves to the new maximum.  limit: positions that exist; checked: some may not.
 * Lanes that keep the same row leave its weight to the first of them when they sum. */
DEVICE void decode_weights(struct decode_state *state, const struct decode *d, float s[DECODE_SCORED][DECODE_ROWS], uint32_t row,
                           const uint32_t rows, const uint32_t head, uint32_t limit, const uint32_t checked)
{
    const uint32_t kept = fold_left(rows, 1, d->lanes), first = fold_first(rows, 1, d->lanes), counts = lane_id() % d->lanes < rows;
    float *weight = decode_wave(d, d->wave) + lane_id() / d->lanes * rows + first;
    uint32_t exists[DECODE_ROWS];
    UNROLL
    for (uint32_t i = 0; i < kept; i++) exists[i] = !checked || decode_position(d, row + first + i) < limit;
    UNROLL
    for (uint32_t h = head; h < d->heads && h < head + d->scored; h++) {
        float top = state->m[h], score[DECODE_ROWS];
        UNROLL
        for (uint32_t i = 0; i < kept; i++) {
            score[i] = exists[i] ? s[h - head][i] : ATTENTION_MASKED;
            top = max_f32(top, score[i]);
        }
        UNROLL
        for (uint32_t mask = 1; mask < WAVE; mask *= 2)
            if (mask < rows || mask >= d->lanes) top = max_f32(top, lane_xor_f32(top, mask));
        const float factor = exp2_f32(state->m[h] - top);
        state->m[h] = top;
        state->l[h] *= factor;
        UNROLL
        for (uint32_t i = 0; i < kept; i++) {
            const float w = exp2_f32(score[i] - top);
            weight[h * d->slots * rows + i] = w;
            state->l[h] += counts ? w : 0.0f;
        }
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] *= factor;
    }
}

/* Scores and weights of all heads, a few at a time for the registers. */
DEVICE void decode_score(struct decode_state *state, const struct decode *d, const struct kv_piece *k, uint32_t row, const uint32_t rows,
                         uint32_t limit, const uint32_t checked)
{
    wave_barrier();
    UNROLL
    for (uint32_t head = 0; head < d->heads; head += d->scored) {
        float s[DECODE_SCORED][DECODE_ROWS];
        decode_scores(s, d, k, rows, head);
        decode_weights(state, d, s, row, rows, head, limit, checked);
        COMPILER_FENCE();
    }
}

DEVICE void decode_values(struct decode_state *state, const struct decode *d, const struct kv_piece *v, const uint32_t rows)
{
    const float *weight = decode_wave(d, d->wave) + lane_id() / d->lanes * rows;
    UNROLL
    for (uint32_t two = 0; two < rows; two += 2) {
        f32x2 w[DECODE_HEADS];
        UNROLL
        for (uint32_t h = 0; h < d->heads; h++) w[h] = *(const f32x2 *)(const void *)(weight + h * d->slots * rows + two);
        UNROLL
        for (uint32_t r = 0; r < 2; r++) {
            float x[8];
            kv_values(x, &v[two + r]);
            UNROLL
            for (uint32_t h = 0; h < d->heads; h++)
                UNROLL
                for (uint32_t i = 0; i < 8; i++) state->acc[h][i] += w[h][r] * x[i];
        }
    }
}

/* The last step of a split, which has at most `rows` rows left. */
DEVICE void decode_last(struct decode_state *state, const struct kv_piece *k, const struct kv_piece *v, const struct decode *d,
                        uint32_t row, const uint32_t rows, uint32_t limit)
{
    decode_score(state, d, k, row, rows, limit, 1);
    wave_barrier();
    decode_values(state, d, v, rows);
}

/* Rows of a split, `count` for each slot; k and v hold the first step's.  Steps before the last are whole: nothing in them is checked. */
DEVICE void decode_run(struct decode_state *state, struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane,
                       const struct decode *d, uint32_t count, uint32_t limit)
{
    uint32_t row = 0;
    if (count == 0) return;
#pragma clang loop unroll(disable)
    for (; row + d->rows < count; row += d->rows) {
        decode_score(state, d, k, row, d->rows, limit, 0);
        decode_fetch(k, k_plane, d, row + d->rows, 0, d->rows, limit);
        wave_barrier();
        decode_values(state, d, v, d->rows);
        COMPILER_FENCE();
        decode_fetch(v, v_plane, d, row + d->rows, 0, d->rows, limit);
    }
    if (count - row <= 2)                     decode_last(state, k, v, d, row, 2, limit);
    else if (d->rows > 4 && count - row <= 4) decode_last(state, k, v, d, row, 4, limit);
    else                                      decode_last(state, k, v, d, row, d->rows, limit);
}

/* The new token's score, in all lanes that share its row.  k: this lane's 8 columns. */
DEVICE float decode_new_score(const struct decode *d, uint32_t h, const float k[8])
{
    float s = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 8; i++) s += decode_read_q(d, h, i / 4)[i % 4] * k[i];
    s = lanes_sum_f32(s, d->lanes);
    return s;
}

/* The state after the new token alone, in the owner; else empty.  k, v: this lane's columns of it. */
DEVICE void decode_begin(struct decode_state *state, const struct decode *d, uint32_t owner, const float k[8], const float v[8])
{
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->m[h] = ATTENTION_NOTHING;
        state->l[h] = 0.0f;
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] = 0.0f;
    }
    if (!owner) return;
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->m[h] = decode_new_score(d, h, k);
        state->l[h] = lane_id() == 0 ? 1.0f : 0.0f;
        UNROLL
        for (uint32_t i = 0; i < 8; i++) state->acc[h][i] = lane_id() < d->lanes ? v[i] : 0.0f;
    }
}

/* ---- merging ---- */
/* The wave's sums into LDS: over its slots by halves, so that each slot writes other columns. */
DEVICE void decode_publish(struct decode_state *state, const struct decode *d)
{
    const uint32_t kept = fold_left(8, d->lanes, WAVE), first = fold_first(8, d->lanes, WAVE);
    float *sum = decode_wave(d, d->wave), *ml = decode_ml(d) + d->wave * d->heads * 2;
    wave_barrier();
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        state->l[h] = lanes_sum_f32(state->l[h], WAVE);
        UNROLL
        for (uint32_t mask = d->lanes, left = 8; mask < WAVE; mask *= 2) {
            fold(state->acc[h], left, mask);
            left = left > 1 ? left / 2 : 1;
        }
        float *at = sum + h * d->head_dim + decode_sums_place(d, d->column + first);
        const float *x = state->acc[h];
        const f32x2 two = { x[0], x[1] };
        const f32x4 four = { x[0], x[1], x[2], x[3] }, others = { x[4], x[5], x[6], x[7] };
        if (decode_lane_idle(d)) continue;
        if (kept == 1) *at = x[0];
        if (kept == 2) *(f32x2 *)(void *)at = two;
        if (kept >= 4) *(f32x4 *)(void *)at = four;
        if (kept == 8) *(f32x4 *)(void *)(sum + h * d->head_dim + decode_sums_place(d, d->column + 4)) = others;
    }
    if (lane_id() != 0) return;
    UNROLL
    for (uint32_t h = 0; h < d->heads; h++) {
        ml[2 * h] = state->m[h];
        ml[2 * h + 1] = state->l[h];
    }
}

/* Joins parts 0 .. n - 1 of `most` to x, whose maximum is m and total l: all are weighed by exp2 of their distance to the common
 * maximum. */
DEVICE void decode_join(f32x4 *x, float *m, float *l, const f32x4 *part, const f32x2 *ml, const uint32_t most, uint32_t n)
{
    float top = *m;
    UNROLL
    for (uint32_t k = 0; k < most; k++) top = max_f32(top, k < n ? ml[k].x : ATTENTION_NOTHING);
    const float keep = exp2_f32(*m - top);
    *x = *x * keep;
    *l = *l * keep;
    *m = top;
    UNROLL
    for (uint32_t k = 0; k < most; k++) {
        const float factor = k < n ? exp2_f32(ml[k].x - top) : 0.0f;
        *x += part[k] * factor;
        *l += ml[k].y * factor;
    }
}

/* Four columns of head h of the group, all waves together. */
DEVICE void decode_sum_waves(f32x4 *x, float *m, float *l, const struct decode *d, uint32_t h, uint32_t column)
{
    enum { BATCH = 8 };
    *m = ATTENTION_NOTHING;
    *l = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) (*x)[i] = 0.0f;
    UNROLL
    for (uint32_t base = 0; base < d->waves; base += BATCH) {
        const uint32_t most = d->waves - base < BATCH ? d->waves - base : BATCH;
        f32x4 part[BATCH];
        f32x2 ml[BATCH];
        UNROLL
        for (uint32_t k = 0; k < most; k++) {
            ml[k] = *(const f32x2 *)(const void *)(decode_ml(d) + 2 * ((base + k) * d->heads + h));
            part[k] = *(const f32x4 *)(const void *)(decode_wave(d, base + k) + h * d->head_dim + (decode_sums_place(d, column) & ~3u));
        }
        decode_join(x, m, l, part, ml, most, most);
    }
    const f32x4 turned = { x->z, x->w, x->x, x->y };
    if (decode_sums_turned(d, column)) *x = turned;
}

DEVICE void decode_write(float *out, const struct decode *d, uint32_t h, uint32_t column, const f32x4 x, float l)
{
    if (d->first + h >= (d->kv_head + 1) * d->group) return;
    *(GLOBAL f32x4 *)(void *)(out + (uint64_t)(d->first + h) * d->head_dim + column) = x * (1.0f / l);
}

/* Where sums of head 0 lie in memory, in rows of a head, those of the next part behind all heads; and maximum and total, in twos, those
 * of the next part `stride` further. */
struct decode_parts { float *sums, *ml; uint32_t row, two, stride; };

DEVICE void decode_leave(const struct decode_parts *parts, const struct decode *d, uint32_t part, uint32_t h, uint32_t column,
                         const f32x4 x, float m, float l, uint32_t first)
{
    const f32x2 two = { m, l };
    *(GLOBAL f32x4 *)(void *)(parts->sums + (uint64_t)(parts->row + part * d->heads + h) * d->head_dim + column) = x;
    if (first) *(GLOBAL f32x2 *)(void *)(parts->ml + 2 * (uint64_t)(parts->two + part * parts->stride + h)) = two;
}

/* n of these many parts at most of four columns of head h, in batches whose loads are in flight together.  The place of m and l may be the
 * same in all lanes; it is kept out of the scalar registers, whose cache on AMD would keep what it saw before. */
DEVICE void decode_merge(float *out, const struct decode_parts *parts, const struct decode *d, const uint32_t most, uint32_t n, uint32_t h,
                         uint32_t column)
{
    enum { BATCH = 16 };
    const uint32_t batch = most < BATCH ? most : BATCH;
    f32x4 x = { 0.0f, 0.0f, 0.0f, 0.0f };
    float x_m = ATTENTION_NOTHING, x_l = 0.0f;
    uint32_t head = h;
    PIN(head);
    for (uint32_t base = 0; base < n; base += BATCH) {
        f32x4 part[BATCH];
        f32x2 ml[BATCH];
        UNROLL
        for (uint32_t k = 0; k < batch; k++) {
            const uint32_t at = base + k < n ? base + k : 0, row = parts->row + at * d->heads + head;
            part[k] = *(const GLOBAL f32x4 *)(const void *)(parts->sums + (uint64_t)row * d->head_dim + column);
            ml[k] = *(const GLOBAL f32x2 *)(const void *)(parts->ml + 2 * (uint64_t)(parts->two + at * parts->stride + head));
        }
        decode_join(&x, &x_m, &x_l, part, ml, batch, n - base);
    }
    decode_write(out, d, h, column, x, x_l);
}

/* Item i, fours of columns of the heads one after another, goes to group i % splits of the cluster;
 * m and l of its head go with the first items. */
DEVICE void decode_send(const struct decode *d, uint32_t i, uint32_t h, uint32_t column, const f32x4 x, float m, float l)
{
    const f32x2 ml = { m, l };
    cluster_store16(decode_received(d, d->split, i / d->splits), i % d->splits, x);
    for (uint32_t rank = column / 4; rank < d->splits; rank += d->head_dim / 4)
        cluster_store8(decode_received_ml(d, d->split, h), rank, ml);
}

/* What the splits of the cluster sent of four columns at `place`, joined. */
DEVICE void decode_receive(f32x4 *x, float *m, float *l, const struct decode *d, uint32_t n, uint32_t place, uint32_t h)
{
    const f32x4 nothing = { 0.0f, 0.0f, 0.0f, 0.0f };
    f32x4 part[ATTENTION_MAX_CLUSTER];
    f32x2 ml[ATTENTION_MAX_CLUSTER];
    UNROLL
    for (uint32_t s = 0; s < d->splits; s++) {
        part[s] = *(const f32x4 *)(const void *)decode_received(d, s < n ? s : 0, place);
        ml[s] = *(const f32x2 *)(const void *)decode_received_ml(d, s < n ? s : 0, h);
    }
    *x = nothing;
    *m = ATTENTION_NOTHING;
    *l = 0.0f;
    decode_join(x, m, l, part, ml, d->splits, n);
}

/* A flag of the group in LDS. */
DEVICE uint32_t *decode_flag(const struct decode *d) { return (uint32_t *)(void *)(decode_ml(d) + d->waves * d->heads * 2); }

/* This group's share of what the first n splits of the cluster sent; with several spans merged by the last one that has it.  Sums of a
 * share lie beside those of the others, m and l are its own. */
DEVICE void decode_collect(float *out, float *parts, float *parts_ml, uint32_t *counters, const struct decode *d,
                           const struct decode_range *range)
{
    const uint32_t items = d->heads * d->head_dim / 4, first = d->part * d->spans;
    const struct decode_parts all = { parts, parts_ml, first * d->heads, (first * d->splits + d->split) * d->heads, d->splits * d->heads };
    for (uint32_t place = thread_x(); place < decode_share(d); place += d->threads) {
        const uint32_t i = place * d->splits + d->split, h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        if (i >= items) continue;
        decode_receive(&x, &m, &l, d, range->n, place, h);
        if (range->spans == 1) decode_write(out, d, h, column, x, l);
        else decode_leave(&all, d, d->span, h, column, x, m, l, column < 4 * d->splits);
    }
    if (range->spans == 1 || !last_to_arrive(counters + d->part * d->splits + d->split, range->spans, decode_flag(d))) return;
    for (uint32_t place = thread_x(); place < decode_share(d); place += d->threads) {
        const uint32_t i = place * d->splits + d->split;
        if (i < items) decode_merge(out, &all, d, d->spans, range->spans, 4 * i / d->head_dim, 4 * i % d->head_dim);
    }
}

DEVICE void decode_finish(float *out, float *parts, float *parts_ml, uint32_t *counters, const struct decode *d,
                          const struct decode_range *range)
{
    const uint32_t items = d->heads * d->head_dim / 4, n = range->spans * range->n, first = d->part * d->spans * d->splits * d->heads;
    const struct decode_parts all = { parts, parts_ml, first, first, d->heads };
    barrier();
    for (uint32_t i = thread_x(); i < items; i += d->threads) {
        const uint32_t h = 4 * i / d->head_dim, column = 4 * i % d->head_dim;
        f32x4 x;
        float m, l;
        decode_sum_waves(&x, &m, &l, d, h, column);
        if (n == 1) decode_write(out, d, h, column, x, l);
        else if (d->cluster) decode_send(d, i, h, column, x, m, l);
        else decode_leave(&all, d, d->span * d->splits + d->split, h, column, x, m, l, column == 0);
    }
    if (n == 1 || d->cluster || !last_to_arrive(counters + d->part, n, decode_flag(d))) return;
    for (uint32_t i = thread_x(); i < items; i += d->threads)
        decode_merge(out, &all, d, d->spans * d->splits, n, 4 * i / d->head_dim, 4 * i % d->head_dim);
}

/* ---- the rows of a group ---- */
/* Rows of K that need no context; on the matrix unit as many as half a tile has. */
DEVICE void decode_ask_ahead(struct kv_piece *k, const uint8_t *plane, const struct decode *d, const uint32_t ahead, uint32_t limit)
{
    decode_fetch(k, plane, d, 0, 0, ahead, limit);
}

/* What follows from the context, and the first step's rows and this position's rotation asked for; K rows that need no context first.  A
 * load that may not be needed is left out only where loads are not waited for in order: there the count of those in flight has to be
 * known. */
DEVICE void decode_ask(struct decode_range *range, struct kv_piece *k, struct kv_piece *v, struct rotation *r, const uint8_t *k_plane,
                       const uint8_t *v_plane, struct decode *d, uint32_t n_past, const uint32_t appends, const float *rope_hi,
                       const float *rope_lo, const uint32_t n_rot, const uint32_t block)
{
    const uint32_t ahead = d->window ? 0 : ATTENTION_AHEAD < d->rows ? ATTENTION_AHEAD : d->rows;
    if (d->span) decode_divide(range, d, n_past, appends);
    decode_ask_ahead(k, k_plane, d, ahead, d->span ? range->limit : d->n_ctx);
    if (!d->span) decode_divide(range, d, n_past, appends);
    const uint32_t limit = range->limit;
    rotation_load(r, rope_hi, rope_lo, n_past, block, d->head_dim, n_rot);
    COMPILER_FENCE();
    UNROLL
    for (uint32_t from = 0; from < d->rows; from += from ? from : 2) {
        const uint32_t to = from ? 2 * from : 2;
        if (DEPENDENT_LAUNCH && from >= range->count) continue;
        decode_fetch(k, k_plane, d, 0, from > ahead ? from : ahead, to, limit);
        decode_fetch(v, v_plane, d, 0, from, to, limit);
    }
    COMPILER_FENCE();
}

/* What this wave makes of its rows, into LDS. */
DEVICE void decode_rows(const struct decode *d, struct kv_piece *k, struct kv_piece *v, const uint8_t *k_plane, const uint8_t *v_plane,
                        const struct decode_range *range, uint32_t owner, const float k_new[8], const float v_new[8])
{
    struct decode_state state;
    decode_begin(&state, d, owner, k_new, v_new);
    decode_run(&state, k, v, k_plane, v_plane, d, range->count, range->limit);
    decode_publish(&state, d);
}

/* The position of this row of the grid. */
DEVICE uint32_t attention_at(const struct forge_kernel_args a, const uint32_t single)
{
    return single ? load_settled4(&a.step->n_past) : position_settled(a, group_y());
}

/* A whole kernel but its first line: calls pdl_launch(), pdl_wait() and mark() itself.
 * out: [n_head][head_dim] f32.  q: [n_head][head_dim], k_new, v_new: [n_head_kv][head_dim] f32, as projected (bias added).  The heads are
 * normed where q_norm, k_norm ([head_dim], NULL: none) say so, rotated (rope.h; n_rot 0: not),
 * and k and v appended to the cache at position n_past.
 * k_new NULL: q is only scaled, the cache has position n_past already; q_norm NULL and n_rot 0 then.  A grid of several rows: each is a
 * token, at its position (position_of), with parts and counters of its own; single: there is one.  recalls: k_new is NULL, but the token's
 * key and value are added where new ones are, so that sums have the same order.
 * scale: of q . k.  parts, parts_ml, counters: arena, ATTENTION_PARTS_BYTES, _ML_BYTES, _COUNTER_BYTES; the first two 16-byte aligned, not
 * needed where one group or one cluster has all positions of a part.  cluster 1: launched as clusters of `splits` groups, at most
 * ATTENTION_MAX_CLUSTER.  span: positions of a span, at least ATTENTION_SPAN_LEAST where there are several; rows: 2, 4 or 8, with digits
 * up to ATTENTION_MATRIX_ROWS.
 * digits: 0, or 2 where ATTENTION_ON_MATRIX.
 * window, ring: kv.h.  grid_x: ATTENTION_GROUPS; LDS: ATTENTION_LDS_BYTES; head_dim: a multiple of 8, at most 256. */
DEVICE void attention_decode(const struct forge_kernel_args a, float *out, const float *q, const float *k_new, const float *v_new,
                             const float *q_norm, const float *k_norm, const float eps,
                             const float *rope_hi, const float *rope_lo, const uint32_t n_rot, const uint32_t neox, const uint32_t block,
                             float *parts, float *parts_ml, uint32_t *counters, const uint32_t n_head, const uint32_t n_head_kv,
                             const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t splits, const uint32_t spans,
                             const uint32_t span, const uint32_t rows, const uint32_t digits,
                             const uint32_t threads, const uint32_t cluster, const uint32_t window, const uint32_t ring,
                             const uint32_t single, const uint32_t recalls)
{
    struct decode d;
    struct decode_inputs in;
    struct rotation r;
    struct kv_piece k[DECODE_PIECES], v[DECODE_PIECES];
    float k_mine[8], v_mine[8];
    struct decode_range range;
    uint32_t n_past = 0;
    pdl_launch();
    decode_init(&d, n_head, n_head_kv, head_dim, n_ctx, splits, spans, span, rows, digits, threads, cluster, window, ring);
    const uint64_t own = single ? 0 : state_settled(a, group_y());
    uint8_t *k_plane = kv_k(a) + own, *v_plane = kv_v(a, n_head_kv, kv_rows(n_ctx, ring), head_dim) + own;
    if (d.span) {                                /* an earlier step wrote n_past */
        n_past = attention_at(a, single);
        if (d.span >= decode_spans(&d, decode_positions(&d, n_past, k_new || recalls))) return;
    }
    if (cluster) cluster_arrive();
    const uint32_t owner = (k_new || recalls) && d.span == 0 && d.split == 0 && d.wave == d.waves - 1;
    decode_load_norms(&in, &d, q_norm, k_norm, owner, n_rot, neox);
    const uint32_t early = DEPENDENT_LAUNCH && k_new;      /* else a kernel before this one writes position n_past of the cache */
    if (early) {
        n_past = attention_at(a, single);
        decode_ask(&range, k, v, &r, k_plane, v_plane, &d, n_past, 1, rope_hi, rope_lo, n_rot, block);
    }
    pdl_wait();
    if (!early) n_past = attention_at(a, single);
    decode_load_inputs(&in, &d, q, k_new, v_new, owner && k_new, n_rot, neox);
    if (!early) decode_ask(&range, k, v, &r, k_plane, v_plane, &d, n_past, k_new || recalls, rope_hi, rope_lo, n_rot, block);
    mark(a);
    if (cluster) cluster_started();
    const uint32_t alone = range.spans * range.n == 1;
    if (d.split >= range.n && (!cluster || alone)) return;
    COMPILER_FENCE();

    if (!cluster || d.split < range.n) {
        decode_finish_q(&in, &d, &r, q_norm != 0, eps, scale * 1.44269504f, n_rot, neox);
        if (owner && recalls) decode_recall(k_mine, v_mine, k_plane, v_plane, &d, n_past);
        else if (owner) decode_append(&in, k_mine, v_mine, k_plane, v_plane, &d, &r, n_past, k_norm != 0, eps, n_rot, neox);
        barrier();
        decode_rows(&d, k, v, k_plane, v_plane, &range, owner, k_mine, v_mine);
        decode_finish(out, parts, parts_ml, counters, &d, &range);
    }
    if (!cluster || alone) return;
    cluster_barrier();
    decode_collect(out, parts, parts_ml, counters, &d, &range);
}

/* ==== templates/gpu/mma.h ==== */
/* mma.h -- products of 16 x 16 x 16 tiles on the matrix unit, one wave a tile: D[16 i][16 j] += A[16 i][16 k] B[16 k][16 j], A and B f16 or
 * bf16, sums f32.  The tile is spread over the lanes of a wave; which lane holds what stands at the head of the family's layout,
 * machine/wmma.h, mfma.h or mma_sync.h; templates ask mma_row() and mma_col() and let mma_load_*() read LDS.  All functions are called by
 * every lane of the wave.  Also here: copies from global memory to LDS, which some families do without registers.
 *
 * A machine file brings a layout (machine/fragments.h says what is in it) and
 *   mma_f16(c, a, b), mma_bf16        the product
 *   mma_narrow_f16(c, a, b)           where sums are operands A (FAMILY_MMA_SUMS_ARE_A): the product with the first 8 columns of B alone,
 *                                     the first two words of a lane; sums are the first four
 *   mma_bytes32(d, a, b), mma_bytes16 where there are products of bytes (FAMILY_MMA_BYTES): MMA_BYTES_ZERO + 16 rows of A, int8, times 8
 *                                     columns of B; of 32 k, or 16.  Lane 4g + q has word q of 16 bytes of k: of A those of row g, of
 *                                     row g + 8, then of the second 16 k; of B those of column g; sums e: row g + 8 (e / 2), column
 *                                     2q + e % 2.  ldmatrix(x, row, 0) loads them: lanes 8m .. name eight rows of 16 bytes for word m
 *   mma_pin(c)                        the sum is finished here: its products are not sunk below what follows, which would keep their
 *                                     operands' registers taken
 *   copy_begin() .. copy_end()        16 bytes from global memory to LDS: the destination must be free from the beginning on; it is filled
 *                                     after the end, copy_wait() and a barrier.  Between the two the bytes are on their way: to LDS where
 *                                     COPIES_REACH_LDS, which then need no copy_end(), elsewhere to the registers of struct copy.  valid
 *                                     0: zeros, `from` is not read
 *   copy_commit, copy_wait(n)         closes a group of copies of this thread; all but its last n groups are done */

enum { COPIES_REACH_LDS = FAMILY_COPIES_REACH_LDS(FAMILY) };

DEVICE void mma_zero(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) c->x[e] = 0.0f;
}

/* ---- operands from LDS ---- */
/* tile: in LDS, 16-byte aligned; stride: bytes between its rows, a multiple of 16.  A: element (i, k) at tile + i stride + 2 k.
 * B: element (k, j) at tile + j stride + 2 k, as rows of a weight matrix lie; transposed (mma_load_b_trans): at tile + k stride + 2 j. */
DEVICE void mma_load_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_b(f, tile, stride, 0, 0); }

/* The same for wide operands; swizzled: from rows of SWIZZLED_ROW_BYTES whose pieces lie where lds_piece() puts them; tile: its first row,
 * a multiple of 8 in the swizzled area, which is 128-byte aligned; piece: the first of the 2 MMA_WIDE that hold these columns, a multiple
 * of that. */
DEVICE void mma_rows_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_a(&f->k[0], tile, stride, piece, swizzle);
}
DEVICE void mma_rows_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_b(&f->k[0], tile, stride, piece, swizzle);
}
DEVICE void mma_load_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_b(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_a_swizzled(struct mma_wide_a *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_a(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}
DEVICE void mma_load_wide_b_swizzled(struct mma_wide_b *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_b(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}

/* ---- from one product to the next: the lanes that share rows of an accumulator that is operand A next, columns of one that is B ---- */
/* Over the lanes that hold the same column, so over 16 rows when a lane has first joined its own elements. */
DEVICE float mma_cols_max(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x = max_f32(x, lane_xor_f32(x, mask));
    return x;
}
DEVICE float mma_cols_sum(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x += lane_xor_f32(x, mask);
    return x;
}

/* ---- products of four waves at once, straight from LDS ---- */
/* Waves 4n .. 4n + 3 of a group multiply 64 rows of A by 128 of B; wave w has rows 16 (w % 4) .. of the result, as eight tiles of 16 x 16
 * side by side that look like those of one wave.  Both operands are swizzled rows (SWIZZLED_ROW_BYTES), which begin at multiples of
 * 1024 bytes.
 * What the group wrote to LDS is seen after mma_group_written() in every thread that wrote and a barrier(); mma_group_begin(), products,
 * mma_group_commit(); the sums and the operands are the caller's again after mma_group_wait(n), which leaves the last n commits under way,
 * and, for each tile, mma_group_sum().
 * mma_group_f16(c, a, b, piece): c[8]: this wave's tiles; a, b: the first rows; piece: even, the first of the two that hold these 16 k.
 * mma_group_weights_f16(c, a, rows, apart, tiles): A is this wave's 16 rows, in registers, B the 16 swizzled rows of k at `rows`, of 64
 * columns each, the next 64 `apart` bytes further; tiles of 16 columns: 4 or 8. */
enum { MMA_GROUP_WAVES = 4, MMA_GROUP_A = 64, MMA_GROUP_B = 128 };   /* rows of A and of B */
#define MMA_GROUP 0
DEVICE void mma_group_written(void) { }
DEVICE void mma_group_begin(void)   { }
DEVICE void mma_group_commit(void)  { }
DEVICE void mma_group_wait(const uint32_t n) { (void)n; }
DEVICE void mma_group_sum(struct mma_acc *c) { (void)c; }
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    (void)c; (void)a; (void)b; (void)piece;
}
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    (void)c; (void)a; (void)b; (void)piece;
}

/* ==== templates/gpu/attention_prefill_sizes.h ==== */
/* attention_prefill_sizes.h -- sizes of prefill attention, for the plan and for the kernels: macros of constants.
 * kind: KV_KIND_*; digits: of activations, 1 or 2; family: FAMILY_*; threads: of a group; fours: products are those of four waves. */

/* 1: sums of f32 products instead of the matrix unit.  An f32 cache is asked for by those who want its precision. */
#define ATTENTION_PREFILL_EXACT(kind, digits) ((digits) > 1u || (kind) == KV_KIND_f32)

/* The query heads of a KV head are stacked with the tokens into the rows of one tile, up to 16 heads; more are cut into equal parts. */
#define ATTENTION_PREFILL_CUTS(n_head, n_head_kv)  (((n_head) / (n_head_kv) + 15u) / 16u)
#define ATTENTION_PREFILL_HEADS(n_head, n_head_kv) \
    (((n_head) / (n_head_kv) + ATTENTION_PREFILL_CUTS(n_head, n_head_kv) - 1u) / ATTENTION_PREFILL_CUTS(n_head, n_head_kv))

/* Tiles of 16 rows of a wave: with 2 each K and V that a wave reads from LDS serves twice, if registers hold both sums. */
#define ATTENTION_PREFILL_TILES(head_dim, family, fours) ((head_dim) <= 128u && !(fours) ? FAMILY_PREFILL_TILES(family) : 1u)
/* Rows of a group, and positions whose K and V it takes at a time: as many as registers hold, and on AMD LDS. */
#define ATTENTION_PREFILL_EXACT_ROWS 32u
#define ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, fours) \
    (ATTENTION_PREFILL_EXACT(kind, digits) ? ATTENTION_PREFILL_EXACT_ROWS \
     : (threads) / FAMILY_WAVE(family) * 16u * ATTENTION_PREFILL_TILES(head_dim, family, fours))
#define ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, fours) \
    ((fours) ? 128u \
     : ATTENTION_PREFILL_EXACT(kind, digits) ? ((head_dim) > 128u ? 16u : 32u) \
     : FAMILY_COPIES_REACH_LDS(family) ? ((kind) == KV_KIND_f16 && (head_dim) <= 64u ? 64u : 32u) \
     : (head_dim) > 128u ? FAMILY_PREFILL_FEW(family) : 32u)

/* The launch: grid_x groups, and tokens of a group (grid_y = ceil(tokens / these)). */
#define ATTENTION_PREFILL_TOKENS(kind, digits, n_head, n_head_kv, head_dim, family, threads, fours) \
    (ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, fours) / ATTENTION_PREFILL_HEADS(n_head, n_head_kv))

/* Registers of a lane for the sums of a wave and for Q: Q stays there when there is room, else in LDS (FAMILY_MMA_*). */
#define ATTENTION_PREFILL_Q_IN_REGISTERS(kind, digits, head_dim, family) \
    (ATTENTION_PREFILL_TILES(head_dim, family, 0) \
     * (FAMILY_MMA_ACC(family) * ((head_dim) + ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, 0)) / 16u \
        + FAMILY_MMA_WORDS(family) * (head_dim) / 16u) <= 160u)

/* LDS rows of f16: of one position or query, and, where V is transposed (no asynchronous copies), of one dimension; an odd number of
 * 16-byte pieces. */
#define ATTENTION_PREFILL_STRIDE(n) ((n) * 2u + 16u)
#define ATTENTION_PREFILL_V_GAP 64u              /* bytes after 8 dimensions of transposed V */
/* Q, when it stays in LDS; else 16 rows of each wave pass through the places of K and V on their way to registers. */
#define ATTENTION_PREFILL_Q_BYTES(kind, digits, head_dim, family, threads) \
    (ATTENTION_PREFILL_Q_IN_REGISTERS(kind, digits, head_dim, family) \
     ? 0u : ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, 0) * ATTENTION_PREFILL_STRIDE(head_dim))
/* LDS rows of f32, for exact sums: an odd number of 16-byte pieces where n is a multiple of 8. */
#define ATTENTION_PREFILL_EXACT_STRIDE(n) ((n) + 4u)

/* ==== templates/gpu/attention_prefill.h ==== */
/* attention_prefill.h -- what both ways of attention_prefill_tmpl.c share: which tokens and heads a group has, where its results go,
 * how K and V are fetched. */

/* A score that takes no part: far below any real one, yet finite, so that differences of two of them are not NaN. */
#define PREFILL_MASKED (-1e30f)
#define PREFILL_LOG2E  1.44269504f

/* Most a lane holds, over all head_dim: tiles of rows, tiles of 16 dimensions, tiles of 16 positions, pieces of 8 columns on their way. */
enum { PREFILL_TILES = 2, PREFILL_DIMS = 16, PREFILL_SPANS = 8, PREFILL_PIECES = 16 };

/* What a group works on. */
struct prefill {
    uint32_t n_head, n_head_kv, head_dim, n_ctx, threads;       /* constants, as are the next two lines; n_ctx: rows of the cache */
    uint32_t exact, fours, causal, window, ring, tiles, positions, heads, tokens;       /* window, ring: kv.h; a window is causal */
    uint32_t q_registers, stride, v_stride;                     /* bytes; exact: floats */
    float    scale;                                             /* of scores, in units of log 2 */
    uint32_t kv_head, first_head, n_heads;                      /* query heads of the group: n_heads from first_head on, n_heads <= heads */
    uint32_t first_token, n_tokens, n_past;                     /* first_token: of the group */
    uint32_t begin, end;                                        /* positions some row of the group attends */
};

/* Where results go.  kind 0: rows of f32.  1, 2: rows of f16 or bf16 for a product (launch.h). */
struct prefill_out { uint8_t *rows; uint64_t stride; uint32_t kind; };

/* Row m of the group: its token, query head and whether there is such a row. */
DEVICE uint32_t prefill_token(const struct prefill *p, uint32_t m) { return p->first_token + m / p->heads; }
DEVICE uint32_t prefill_head(const struct prefill *p, uint32_t m)  { return p->first_head + m % p->heads; }
DEVICE uint32_t prefill_has(const struct prefill *p, uint32_t m)
{
    return m / p->heads < p->tokens && prefill_token(p, m) < p->n_tokens && m % p->heads < p->n_heads;
}
/* The last position that row m attends. */
DEVICE uint32_t prefill_last(const struct prefill *p, uint32_t m) { return p->causal ? p->n_past + prefill_token(p, m) : p->end - 1; }
/* The first. */
DEVICE uint32_t prefill_first(const struct prefill *p, uint32_t m)
{
    return p->window ? kv_window_begin(p->n_past + prefill_token(p, m), p->window) : 0;
}
/* All rows attend the positions below this, but for those that a window leaves behind: whether it does some from `first` on. */
DEVICE uint32_t prefill_all_before(const struct prefill *p) { return p->causal ? p->n_past + p->first_token + 1 : p->end; }
DEVICE uint32_t prefill_leaves(const struct prefill *p, uint32_t first)
{
    return p->window && first < kv_window_begin(p->end - 1, p->window);
}

/* By how much the largest score may exceed the maximum, weights 1, before the maximum follows: mostly it then stays,
 * and all sums with it. */
#define PREFILL_BEHIND 8.0f

/* With a window rows begin at different positions.  Whether one of the group may begin in this step; whether row m has begun
 * before it. */
DEVICE uint32_t prefill_begins(const struct prefill *p, uint32_t first)
{
    return p->window ? first <= kv_window_begin(p->end - 1, p->window) : first == 0;
}
DEVICE uint32_t prefill_has_begun(const struct prefill *p, uint32_t m, uint32_t first)
{
    return p->window ? prefill_first(p, m) < first : first != 0;
}

/* 0: the group has no tokens. */
DEVICE uint32_t prefill_begin(struct prefill *p, const struct forge_kernel_args a)
{
    const uint32_t cuts = ATTENTION_PREFILL_CUTS(p->n_head, p->n_head_kv), per_kv = p->n_head / p->n_head_kv,
                   cut = group_x() % cuts * p->heads;
    const uint32_t t0 = first_token(a), n_tokens = a.step->n_tokens, groups = (n_tokens - t0 + p->tokens - 1) / p->tokens;
    if (group_x() >= p->n_head_kv * cuts || group_y() >= groups) return 0;
    p->kv_head = group_x() / cuts;
    p->first_head = p->kv_head * per_kv + cut;
    p->n_heads = per_kv - cut < p->heads ? per_kv - cut : p->heads;
    p->first_token = t0 + (groups - 1 - group_y()) * p->tokens;
    p->n_tokens = n_tokens;
    p->n_past = a.step->n_past;
    p->begin = p->window ? kv_window_begin(p->n_past + p->first_token, p->window) : 0;
    p->end = p->n_past + (p->causal && p->first_token + p->tokens < n_tokens ? p->first_token + p->tokens : n_tokens);
    return 1;
}

/* ---- results ---- */
DEVICE void prefill_put(const struct prefill_out *out, uint32_t t, uint32_t column, float x)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        ((GLOBAL float *)(void *)row)[column] = x;
        return;
    }
    ((GLOBAL uint16_t *)(void *)row)[column] = (uint16_t)(out->kind == 1 ? stage_f16(x) : stage_bf16(x));
}
/* Columns column and column + 1; column is even. */
DEVICE void prefill_put2(const struct prefill_out *out, uint32_t t, uint32_t column, float x, float y)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        const f32x2 both = { x, y };
        *(GLOBAL f32x2 *)(void *)(row + 4 * column) = both;
        return;
    }
    *(GLOBAL uint32_t *)(void *)(row + 2 * column) = out->kind == 1 ? stage_f16(x) | stage_f16(y) << 16
                                                                    : stage_bf16(x) | stage_bf16(y) << 16;
}
/* Columns column .. column + 3; column is a multiple of 4.  x: means of f16 values,
 * so that f16 rows (launch.h) need not be kept from overflowing. */
DEVICE void prefill_put4(const struct prefill_out *out, uint32_t t, uint32_t column, f32x4 x)
{
    uint8_t *row = out->rows + t * out->stride;
    if (out->kind == 0) {
        *(GLOBAL f32x4 *)(void *)(row + 4 * column) = x;
        return;
    }
    if (out->kind == 1) x *= STAGE_SCALE;
    const u32x2 h = { out->kind == 1 ? f16x2_bits(x.x, x.y) : bf16x2_bits(x.x, x.y),
                      out->kind == 1 ? f16x2_bits(x.z, x.w) : bf16x2_bits(x.z, x.w) };
    *(GLOBAL u32x2 *)(void *)(row + 2 * column) = h;
}
/* A product reads its rows in units of 64 columns: the group of the last head writes the zeros. */
DEVICE void prefill_pad(const struct prefill *p, const struct prefill_out *out)
{
    const uint32_t cols = p->n_head * p->head_dim, pad = (cols + 63) / 64 * 64 - cols;
    if (pad == 0 || out->kind == 0 || p->first_head + p->n_heads < p->n_head) return;
    for (uint32_t i = thread_x(); i < p->tokens * pad; i += p->threads)
        if (p->first_token + i / pad < p->n_tokens) prefill_put(out, p->first_token + i / pad, cols + i % pad, 0.0f);
}

/* ---- K and V on their way to LDS ---- */
/* A piece is 8 columns of a row.  Neighbouring threads take neighbouring pieces of a row, from turn to turn the same columns of later rows,
 * so that a turn adds a constant to the addresses; the lanes of a row are a power of two, a few idle. */
struct prefill_pieces { struct kv_piece piece[PREFILL_PIECES]; struct copy copy[PREFILL_PIECES]; };

DEVICE uint32_t prefill_row_lanes(const struct prefill *p)
{
    return p->head_dim <= 16 ? 2 : p->head_dim <= 32 ? 4 : p->head_dim <= 64 ? 8 : p->head_dim <= 128 ? 16 : 32;
}
DEVICE uint32_t prefill_row(const struct prefill *p, const uint32_t turn)
{
    return thread_x() / prefill_row_lanes(p) + turn * (p->threads / prefill_row_lanes(p));
}
DEVICE uint32_t prefill_column(const struct prefill *p)                   { return thread_x() % prefill_row_lanes(p) * 8; }
DEVICE uint32_t prefill_turns(const struct prefill *p) { return (p->positions * prefill_row_lanes(p) + p->threads - 1) / p->threads; }
DEVICE uint32_t prefill_has_piece(const struct prefill *p, const uint32_t turn)
{
    return (p->threads <= p->positions * prefill_row_lanes(p) || prefill_row(p, turn) < p->positions) && prefill_column(p) < p->head_dim;
}
DEVICE void prefill_fetch(struct kv_piece *piece, const struct prefill *p, const uint8_t *plane, uint32_t position, uint32_t column)
{
    const u32x4 zero = { 0, 0, 0, 0 };
    piece->values[0] = zero;
    piece->scale = 0;
    if (position < p->end) kv_fetch(piece, plane, p->kv_head, kv_row(position, p->ring), column, p->n_head_kv, p->n_ctx, p->head_dim);
}
/* A piece as f16. */
DEVICE u32x4 prefill_f16(const struct kv_piece *piece)
{
    float x[8];
    if (KV_KIND == KV_KIND_f16) return piece->values[0];
    kv_values(x, piece);
    const u32x4 h = { f16x2_bits(x[0], x[1]), f16x2_bits(x[2], x[3]), f16x2_bits(x[4], x[5]), f16x2_bits(x[6], x[7]) };
    return h;
}

/* ---- Q ---- */
/* Where products are those of four waves: byte of this column of a row in LDS, whose rows are cut into areas of 64 columns, swizzled, of
 * `rows` rows each. */
DEVICE uint32_t prefill_fours_place(uint32_t row, uint32_t column, const uint32_t rows)
{
    return column / 64 * (rows * SWIZZLED_ROW_BYTES) + lds_piece(row, SWIZZLED_ROW_BYTES, column % 64 / 8, 1);
}
DEVICE uint32_t prefill_rows_of(const struct prefill *p) { return p->threads / WAVE * 16 * p->tiles; }

/* 16 rows of Q, from m on, times scale, as f16 rows of LDS, by one wave; with products of four waves `to` is where the group's begin. */
DEVICE void prefill_q_rows(uint8_t *to, const struct prefill *p, const uint8_t *q, const uint64_t q_stride, uint32_t m)
{
    const uint32_t per_row = p->head_dim / 8;
    for (uint32_t i = lane_id(); i < 16 * per_row; i += WAVE) {
        const uint32_t row = i / per_row, column = i % per_row * 8;
        u32x4 h = { 0, 0, 0, 0 };
        if (prefill_has(p, m + row)) {
            const GLOBAL f32x4 *from = (const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, m + row) * q_stride +
                                                                            (prefill_head(p, m + row) * p->head_dim + column) * 4);
            const f32x4 x = from[0] * p->scale, y = from[1] * p->scale;
            h.x = f16x2_bits(clamp_f32(x.x, 65504.0f), clamp_f32(x.y, 65504.0f));
            h.y = f16x2_bits(clamp_f32(x.z, 65504.0f), clamp_f32(x.w, 65504.0f));
            h.z = f16x2_bits(clamp_f32(y.x, 65504.0f), clamp_f32(y.y, 65504.0f));
            h.w = f16x2_bits(clamp_f32(y.z, 65504.0f), clamp_f32(y.w, 65504.0f));
        }
        *(u32x4 *)(void *)(to + (p->fours ? prefill_fours_place(m + row, column, prefill_rows_of(p)) : row * p->stride + 2 * column)) = h;
    }
    wave_barrier();
}

/* ==== templates/gpu/attention_prefill_columns.h ==== */
/* attention_prefill_columns.h -- attention of prefill by f16 products whose columns are queries, S^T = K Q^T and O^T = V^T P^T, for MFMA
 * and WMMA: a lane has scores of one query and tile alone, and a tile of weights becomes operand B where it is.
 *
 * A tile of scores has 16 positions, row i is position i.  As operand B its k are in another order, so V^T lies in LDS in that order, too:
 * slot k of a row is position mma_k_of_acc(k).  Row i of a tile of O^T is dimension mma_row_together(i), such that a lane has neighbouring
 * ones. */

/* Wide operands of a row (mma.h), and the products of one: fewer in the last where 16 dimensions are left. */
DEVICE uint32_t prefill_parts(const struct prefill *p) { return (p->head_dim + MMA_WIDE_COLS - 1) / MMA_WIDE_COLS; }
DEVICE uint32_t prefill_products(const struct prefill *p, const uint32_t part)
{
    return p->head_dim < MMA_WIDE_COLS * (part + 1) ? 1 : MMA_WIDE;
}
DEVICE void prefill_load_a(struct mma_wide_a *f, const struct prefill *p, const uint8_t *rows, const uint32_t part)
{
    if (prefill_products(p, part) == MMA_WIDE) mma_load_wide_a(f, rows + 2 * MMA_WIDE_COLS * part, p->stride);
    else mma_load_a(&f->k[0], rows + 2 * MMA_WIDE_COLS * part, p->stride);
}
DEVICE void prefill_load_b(struct mma_wide_b *f, const struct prefill *p, const uint8_t *rows, const uint32_t part)
{
    if (prefill_products(p, part) == MMA_WIDE) mma_load_wide_b(f, rows + 2 * MMA_WIDE_COLS * part, p->stride);
    else mma_load_b(&f->k[0], rows + 2 * MMA_WIDE_COLS * part, p->stride);
}

/* Where in V^T a dimension's row lies: after 8 of them comes a gap, so that the writes of lanes with neighbouring eights fall into
 * different banks. */
DEVICE uint32_t prefill_v_row(const struct prefill *p, uint32_t dimension)
{
    return dimension * p->v_stride + dimension / 8 * ATTENTION_PREFILL_V_GAP;
}

/* ---- K and V to LDS ---- */
/* A row beyond the last position is the last one again: such K is masked and such V has no weight. */
DEVICE void prefill_fetch_row(struct kv_piece *piece, const struct prefill *p, const uint8_t *plane, uint32_t first, uint32_t row,
                              uint32_t column)
{
    const uint32_t left = p->end - 1 - first, r = row < left ? row : left;
    if (KV_KIND != KV_KIND_f16 || p->ring) {
        kv_fetch(piece, plane, p->kv_head, kv_row(first + r, p->ring), column, p->n_head_kv, p->n_ctx, p->head_dim);
        return;
    }
    piece->values[0] = load_settled16(plane + kv_bytes(p->kv_head, first, 0, p->n_ctx, p->head_dim) + (r * p->head_dim + column) * 2);
}
DEVICE void prefill_k_begin(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++)
        if (prefill_has_piece(p, i)) prefill_fetch_row(&h->piece[i], p, plane, first, prefill_row(p, i), prefill_column(p));
}
DEVICE void prefill_k_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++)
        if (prefill_has_piece(p, i))
            *(u32x4 *)(void *)(to + prefill_row(p, i) * p->stride + 2 * prefill_column(p)) = prefill_f16(&h->piece[i]);
}
/* V's rows become columns: neighbouring threads take neighbouring pairs of slots. */
DEVICE uint32_t prefill_pair_slot(const struct prefill *p)                        { return thread_x() % (p->positions / 2) * 2; }
DEVICE uint32_t prefill_pair_column(const struct prefill *p, const uint32_t turn)
{
    return (thread_x() / (p->positions / 2) + turn * (p->threads / (p->positions / 2))) * 8;
}
DEVICE uint32_t prefill_pair_turns(const struct prefill *p) { return (p->positions / 2 * (p->head_dim / 8) + p->threads - 1) / p->threads; }
DEVICE uint32_t prefill_has_pair(const struct prefill *p, const uint32_t turn)
{
    return p->positions / 2 * (p->head_dim / 8) % p->threads == 0 || prefill_pair_column(p, turn) < p->head_dim;
}

DEVICE void prefill_v_begin(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t slot = prefill_pair_slot(p), column = prefill_pair_column(p, i);
        if (!prefill_has_pair(p, i)) continue;
        prefill_fetch_row(&h->piece[2 * i], p, plane, first, mma_k_of_acc(slot), column);
        prefill_fetch_row(&h->piece[2 * i + 1], p, plane, first, mma_k_of_acc(slot + 1), column);
    }
}
DEVICE void prefill_v_end(const struct prefill_pieces *h, uint8_t *to, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_pair_turns(p); i++) {
        const uint32_t column = prefill_pair_column(p, i);
        if (!prefill_has_pair(p, i)) continue;
        const u32x4 x = prefill_f16(&h->piece[2 * i]), y = prefill_f16(&h->piece[2 * i + 1]);
        UNROLL for (uint32_t k = 0; k < 4; k++) {
            uint8_t *place = to + prefill_v_row(p, column) + 2 * k * p->v_stride + 2 * prefill_pair_slot(p);
            *(uint32_t *)(void *)place = byte_perm(x[k], y[k], 0x05040100u);
            *(uint32_t *)(void *)(place + p->v_stride) = byte_perm(x[k], y[k], 0x07060302u);
        }
    }
}

/* ---- the queries of a wave: tile t has rows 16 t .. 16 t + 15 of the wave, a lane row l % 16 of each ---- */
struct prefill_columns {
    struct mma_acc o[PREFILL_TILES][PREFILL_DIMS];              /* sum of weight * v: element e of tile d is dimension
                                                                 * 16 d + MMA_ACC (l / 16) + e */
    struct mma_acc s[PREFILL_TILES][PREFILL_SPANS];             /* scores of one step, less the maximum: position 16 j + mma_row(e) */
    struct mma_acc less[PREFILL_TILES];                         /* every element is - maximum: what scores begin with */
    struct mma_b   weights[PREFILL_TILES][PREFILL_SPANS];       /* 2^s */
    struct mma_wide_b q[PREFILL_TILES][PREFILL_DIMS];           /* when Q is in registers */
    float          sum[PREFILL_TILES];                          /* of this lane's weights */
    const uint8_t *q_lds;                                       /* when Q is in LDS: first row of the wave */
};

/* Operands of Q, from global memory: a lane asks for its columns of every MMA_WIDE_COLS; where lanes hold an operand twice, for half of
 * them, and gets the others. */
DEVICE void prefill_q_load(struct prefill_columns *w, const struct prefill *p, const uint8_t *q, const uint64_t q_stride, const uint32_t t,
                           uint32_t m)
{
    const uint32_t g = lane_id() / 16, mine = prefill_has(p, m) ? m : 0;    /* a row that is not there is computed as the first, which is */
    const uint8_t *row = q + prefill_token(p, mine) * q_stride + prefill_head(p, mine) * p->head_dim * 4;
    UNROLL for (uint32_t part = 0; part < prefill_parts(p); part++) {
        const uint32_t run = 2 * MMA_WORDS / FAMILY_MMA_COPIES(FAMILY) * prefill_products(p, part);
        uint32_t h[4];
        UNROLL for (uint32_t n = 0; n < run / 4; n++) {
            const f32x4 x = *(const GLOBAL f32x4 *)(const void *)(row + (MMA_WIDE_COLS * part + run * g + 4 * n) * 4) * p->scale;
            h[2 * n] = f16x2_bits(clamp_f32(x.x, 65504.0f), clamp_f32(x.y, 65504.0f));
            h[2 * n + 1] = f16x2_bits(clamp_f32(x.z, 65504.0f), clamp_f32(x.w, 65504.0f));
        }
        mma_b_of_halves(&w->q[t][part].k[0], h);
    }
}
DEVICE void prefill_columns_begin(struct prefill_columns *w, const struct prefill *p, uint8_t *lds_q, const uint8_t *q,
                                  const uint64_t q_stride)
{
    const uint32_t m = wave_id() * 16 * p->tiles;
    w->q_lds = lds_q + m * p->stride;
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        if (p->q_registers) prefill_q_load(w, p, q, q_stride, t, m + 16 * t + mma_col(0));
        else prefill_q_rows(lds_q + (m + 16 * t) * p->stride, p, q, q_stride, m + 16 * t);
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++) mma_zero(&w->o[t][d]);
        mma_zero(&w->less[t]);
        mma_pin(&w->less[t]);
        w->sum[t] = 0.0f;
    }
}

/* Operands are loaded this many parts before their use; sums are pinned, lest the compiler load all of them first,
 * which takes more registers than there are. */
enum { PREFILL_PARTS_AHEAD = 2, PREFILL_PARTS_HELD = PREFILL_PARTS_AHEAD + 1 };

/* s = K Q^T - maximum */
DEVICE void prefill_column_scores(struct prefill_columns *w, const struct prefill *p, const uint8_t *k)
{
    struct mma_wide_a a[PREFILL_PARTS_HELD];
    struct mma_wide_b b[PREFILL_PARTS_HELD][PREFILL_TILES];
    const uint32_t spans = p->positions / 16, n_loads = spans * prefill_parts(p);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++) w->s[t][j] = w->less[t];
    UNROLL for (uint32_t n = 0; n < n_loads + PREFILL_PARTS_AHEAD; n++) {
        if (n < n_loads) {
            const uint32_t d = n / spans, j = n % spans;
            UNROLL for (uint32_t t = 0; t < p->tiles && j == 0 && !p->q_registers; t++)
                prefill_load_b(&b[d % PREFILL_PARTS_HELD][t], p, w->q_lds + 16 * t * p->stride, d);
            prefill_load_a(&a[n % PREFILL_PARTS_HELD], p, k + 16 * j * p->stride, d);
        }
        if (n < PREFILL_PARTS_AHEAD) continue;
        const uint32_t m = n - PREFILL_PARTS_AHEAD, d = m / spans;
        UNROLL for (uint32_t i = 0; i < prefill_products(p, d); i++)
            UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
                mma_f16(&w->s[t][m % spans], &a[m % PREFILL_PARTS_HELD].k[i],
                        p->q_registers ? &w->q[t][d].k[i] : &b[d % PREFILL_PARTS_HELD][t].k[i]);
                mma_pin(&w->s[t][m % spans]);
            }
    }
}

/* Scores of positions that a query does not attend.  first: of the step's positions.
 * The pin keeps what only this needs out of the registers of the loop. */
DEVICE void prefill_column_mask(struct prefill_columns *w, const struct prefill *p, uint32_t first)
{
    uint32_t m = wave_id() * 16 * p->tiles + mma_col(0);
    PIN(m);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        const int32_t last = (int32_t)(prefill_last(p, m + 16 * t) - first - mma_row(0));
        const int32_t begin = (int32_t)(prefill_first(p, m + 16 * t) - first - mma_row(0));
        UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const int32_t at = (int32_t)(16 * j + (mma_row(e) - mma_row(0)));
                if (at > last || (p->window && at < begin)) w->s[t][j].x[e] = PREFILL_MASKED;
            }
    }
}

/* The maximum moves, in a query's first step to that of the step, and the sums with it; before that step there is none. */
DEVICE void prefill_column_move(struct prefill_columns *w, const struct prefill *p, const uint32_t t, uint32_t first)
{
    float more = prefill_has_begun(p, (wave_id() * p->tiles + t) * 16 + mma_col(0), first) ? 0.0f : PREFILL_MASKED;
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) more = max_f32(more, w->s[t][j].x[e]);
    more = mma_cols_max(more);
    if (p->window && more <= 0.5f * PREFILL_MASKED) more = 0.0f;
    const float factor = exp2_f32(min_f32(-more, 0.0f));
    UNROLL for (uint32_t j = 0; j < p->positions / 16; j++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->s[t][j].x[e] -= more;
    UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->less[t].x[e] -= more;
    mma_pin(&w->less[t]);
    w->sum[t] *= factor;
    UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
        UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->o[t][d].x[e] *= factor;
}
/* Weights 2^s, as operands.  Scores are compared as integers, in the order of floats where these are positive. */
DEVICE void prefill_column_weights(struct prefill_columns *w, const struct prefill *p, uint32_t first)
{
    const uint32_t spans = p->positions / 16;
    const int32_t limit = prefill_begins(p, first) ? (-0x7fffffff - 1) : (int32_t)bits_of_f32(PREFILL_BEHIND);
    int32_t top = (-0x7fffffff - 1);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) {
                const int32_t s = (int32_t)bits_of_f32(w->s[t][j].x[e]);
                top = s > top ? s : top;
            }
    if (wave_any(top > limit))
        UNROLL for (uint32_t t = 0; t < p->tiles; t++) prefill_column_move(w, p, t, first);
    UNROLL for (uint32_t t = 0; t < p->tiles; t++)
        UNROLL for (uint32_t j = 0; j < spans; j++) {
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e++) w->s[t][j].x[e] = exp2_f32(w->s[t][j].x[e]);
            w->sum[t] = mma_b_of_acc(&w->weights[t][j], &w->s[t][j], w->sum[t]);
        }
}

/* o += V^T weights.  The first operands are asked for ahead of the weights. */
struct prefill_values { struct mma_wide_a a[PREFILL_PARTS_HELD]; };
DEVICE void prefill_v_load(struct prefill_values *x, const struct prefill *p, const uint8_t *v, const uint32_t n)
{
    const uint32_t dims = p->head_dim / 16, row = lane_id() % 16;        /* mma.h reads row l % 16 of rows v_stride apart */
    const uint8_t *rows = v + prefill_v_row(p, mma_row_together(row)) - row * p->v_stride;
    if (n < p->positions / MMA_WIDE_COLS * dims)
        mma_load_wide_a(&x->a[n % PREFILL_PARTS_HELD], rows + prefill_v_row(p, 16 * (n % dims)) + 2 * MMA_WIDE_COLS * (n / dims),
                        p->v_stride);
}
DEVICE void prefill_column_values_begin(struct prefill_values *x, const struct prefill *p, const uint8_t *v)
{
    UNROLL for (uint32_t n = 0; n < PREFILL_PARTS_AHEAD; n++) prefill_v_load(x, p, v, n);
    COMPILER_FENCE();
}
DEVICE void prefill_column_values(struct prefill_columns *w, struct prefill_values *x, const struct prefill *p, const uint8_t *v)
{
    const uint32_t dims = p->head_dim / 16;
    UNROLL for (uint32_t n = 0; n < p->positions / MMA_WIDE_COLS * dims; n++) {
        prefill_v_load(x, p, v, n + PREFILL_PARTS_AHEAD);
        UNROLL for (uint32_t i = 0; i < MMA_WIDE; i++)
            UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
                mma_f16(&w->o[t][n % dims], &x->a[n % PREFILL_PARTS_HELD].k[i], &w->weights[t][MMA_WIDE * (n / dims) + i]);
                mma_pin(&w->o[t][n % dims]);
            }
    }
}

DEVICE void prefill_columns_end(const struct prefill_columns *w, const struct prefill *p, const struct prefill_out *out)
{
    UNROLL for (uint32_t t = 0; t < p->tiles; t++) {
        const float inverse = rcp_f32(mma_cols_sum(w->sum[t]));
        const uint32_t m = (wave_id() * p->tiles + t) * 16 + mma_col(0);
        if (!prefill_has(p, m)) continue;
        UNROLL for (uint32_t d = 0; d < p->head_dim / 16; d++)
            UNROLL for (uint32_t e = 0; e < MMA_ACC; e += 4) {
                const float *o = w->o[t][d].x + e;
                const f32x4 x = { o[0], o[1], o[2], o[3] };
                prefill_put4(out, prefill_token(p, m), prefill_head(p, m) * p->head_dim + 16 * d + MMA_ACC * (lane_id() / 16) + e,
                             x * inverse);
            }
    }
}

/* K and V are on their way for a whole step. */
DEVICE void prefill_matrix(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                           const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    uint8_t *lds_q = lds(), *lds_k = lds_q + ATTENTION_PREFILL_Q_BYTES(KV_KIND, 1u, p->head_dim, FAMILY, p->threads);
    uint8_t *lds_v = lds_k + p->positions * p->stride;
    struct prefill_pieces pieces_k, pieces_v;
    struct prefill_columns w;
    struct prefill_values values;
    prefill_k_begin(&pieces_k, p, k, p->begin);
    prefill_v_begin(&pieces_v, p, v, p->begin);
    prefill_columns_begin(&w, p, lds_q, q, q_stride);
    prefill_k_end(&pieces_k, lds_k, p);
    if (p->begin + p->positions < p->end) prefill_k_begin(&pieces_k, p, k, p->begin + p->positions);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += p->positions) {
        const uint32_t next = first + p->positions;
        barrier();                               /* K is there; all waves are done with the V before */
        prefill_column_scores(&w, p, lds_k);
        prefill_v_end(&pieces_v, lds_v, p);
        if (next < p->end) prefill_v_begin(&pieces_v, p, v, next);
        barrier();                               /* V is there; all waves are done with K */
        if (next < p->end) prefill_k_end(&pieces_k, lds_k, p);
        if (next + p->positions < p->end) prefill_k_begin(&pieces_k, p, k, next + p->positions);
        prefill_column_values_begin(&values, p, lds_v);
        if (next > prefill_all_before(p) || prefill_leaves(p, first)) prefill_column_mask(&w, p, first);
        prefill_column_weights(&w, p, first);
        prefill_column_values(&w, &values, p, lds_v);
    }
    prefill_columns_end(&w, p, out);
}

/* ==== templates/gpu/attention_prefill_exact.h ==== */
/* attention_prefill_exact.h -- attention of prefill by f32 products, for exact results: threads / 16 neighbouring lanes have two rows. */

enum { PREFILL_EXACT_SPANS = 4, PREFILL_EXACT_QUADS = 8 };      /* a lane's positions of a step, and its runs of 4 dimensions */

/* Two neighbouring rows; lane l of prefill_lanes() has the scores of positions l, l + lanes, .. of a step and
 * dimensions 4 (l + lanes j) .. + 3. */
struct prefill_rows {
    f32x4    o[2][PREFILL_EXACT_QUADS];
    float    s[2][PREFILL_EXACT_SPANS];
    float    max[2], sum[2];                     /* sum: of this lane's weights */
    uint32_t row, lane;
};
DEVICE uint32_t prefill_lanes(const struct prefill *p) { return p->threads / (ATTENTION_PREFILL_EXACT_ROWS / 2); }

DEVICE void prefill_f32_fetch(struct prefill_pieces *h, const struct prefill *p, const uint8_t *plane, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        h->piece[i].values[1] = (u32x4)(0u);
        if (prefill_has_piece(p, i)) prefill_fetch(&h->piece[i], p, plane, first + prefill_row(p, i), prefill_column(p));
    }
}
DEVICE void prefill_f32_put(float *to, const struct prefill_pieces *h, const struct prefill *p)
{
    UNROLL for (uint32_t i = 0; i < prefill_turns(p); i++) {
        float x[8];
        if (!prefill_has_piece(p, i)) continue;
        kv_values(x, &h->piece[i]);
        const f32x4 low = { x[0], x[1], x[2], x[3] }, high = { x[4], x[5], x[6], x[7] };
        f32x4 *place = (f32x4 *)(void *)(to + prefill_row(p, i) * p->stride + prefill_column(p));
        place[0] = low;
        place[1] = high;
    }
}
DEVICE void prefill_f32_q(float *to, const struct prefill *p, const uint8_t *q, const uint64_t q_stride)
{
    const uint32_t per_row = p->head_dim / 4;
    for (uint32_t n = thread_x(); n < ATTENTION_PREFILL_EXACT_ROWS * per_row; n += p->threads) {
        const uint32_t m = n / per_row, column = n % per_row * 4;
        f32x4 x = { 0, 0, 0, 0 };
        if (prefill_has(p, m))
            x = *(const GLOBAL f32x4 *)(const void *)(q + prefill_token(p, m) * q_stride + (prefill_head(p, m) * p->head_dim + column) * 4);
        *(f32x4 *)(void *)(to + m * p->stride + column) = x * p->scale;
    }
}

DEVICE void prefill_f32_scores(struct prefill_rows *r, const struct prefill *p, const float *q, const float *k, uint32_t first)
{
    const uint32_t spans = p->positions / prefill_lanes(p);
    UNROLL for (uint32_t i = 0; i < spans; i++) r->s[0][i] = r->s[1][i] = 0.0f;
#pragma unroll 4
    for (uint32_t d = 0; d < p->head_dim; d += 4) {
        const f32x4 q0 = *(const f32x4 *)(const void *)(q + r->row * p->stride + d),
                    q1 = *(const f32x4 *)(const void *)(q + (r->row + 1) * p->stride + d);
        UNROLL for (uint32_t i = 0; i < spans; i++) {
            const f32x4 x = *(const f32x4 *)(const void *)(k + (r->lane + i * prefill_lanes(p)) * p->stride + d), y0 = q0 * x, y1 = q1 * x;
            r->s[0][i] += (y0.x + y0.y) + (y0.z + y0.w);
            r->s[1][i] += (y1.x + y1.y) + (y1.z + y1.w);
        }
    }
    UNROLL for (uint32_t m = 0; m < 2; m++)
        UNROLL for (uint32_t i = 0; i < spans; i++)
            if (first + r->lane + i * prefill_lanes(p) > prefill_last(p, r->row + m)
                || (p->window && first + r->lane + i * prefill_lanes(p) < prefill_first(p, r->row + m))) r->s[m][i] = PREFILL_MASKED;
}
/* Weights also go to LDS, [rows][v_stride], for the lanes of the row. */
DEVICE void prefill_f32_softmax(struct prefill_rows *r, const struct prefill *p, float *weights)
{
    const uint32_t spans = p->positions / prefill_lanes(p);
    UNROLL for (uint32_t m = 0; m < 2; m++) {
        float top = r->max[m];
        UNROLL for (uint32_t i = 0; i < spans; i++) top = max_f32(top, r->s[m][i]);
        top = lanes_max_f32(top, prefill_lanes(p));
        const float factor = exp2_f32(r->max[m] - top);
        r->max[m] = top;
        r->sum[m] *= factor;
        UNROLL for (uint32_t i = 0; i < spans; i++) {
            const float e = exp2_f32(r->s[m][i] - top);
            r->sum[m] += e;
            weights[(r->row + m) * p->v_stride + r->lane + i * prefill_lanes(p)] = e;
        }
        UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) r->o[m][j] *= factor;
    }
    wave_barrier();
}
DEVICE void prefill_f32_values(struct prefill_rows *r, const struct prefill *p, const float *weights, const float *v)
{
#pragma unroll 1
    for (uint32_t n = 0; n < p->positions; n += 4) {
        const f32x4 w0 = *(const f32x4 *)(const void *)(weights + r->row * p->v_stride + n);
        const f32x4 w1 = *(const f32x4 *)(const void *)(weights + (r->row + 1) * p->v_stride + n);
        UNROLL for (uint32_t i = 0; i < 4; i++)
            UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) {
                const uint32_t d = 4 * (r->lane + j * prefill_lanes(p));
                if (d >= p->head_dim) continue;
                const f32x4 x = *(const f32x4 *)(const void *)(v + (n + i) * p->stride + d);
                r->o[0][j] += w0[i] * x;
                r->o[1][j] += w1[i] * x;
            }
    }
    wave_barrier();
}
DEVICE void prefill_f32_end(const struct prefill_rows *r, const struct prefill *p, const struct prefill_out *out)
{
    UNROLL for (uint32_t m = 0; m < 2; m++) {
        const float inverse = rcp_f32(lanes_sum_f32(r->sum[m], prefill_lanes(p)));
        UNROLL for (uint32_t j = 0; j * prefill_lanes(p) * 4 < p->head_dim; j++) {
            const uint32_t d = 4 * (r->lane + j * prefill_lanes(p)), column = prefill_head(p, r->row + m) * p->head_dim + d;
            if (d >= p->head_dim || !prefill_has(p, r->row + m)) continue;
            const f32x4 x = r->o[m][j] * inverse;
            prefill_put2(out, prefill_token(p, r->row + m), column, x.x, x.y);
            prefill_put2(out, prefill_token(p, r->row + m), column + 2, x.z, x.w);
        }
    }
}

/* K and V take turns in the same place. */
DEVICE void prefill_f32(const struct prefill *p, const struct forge_kernel_args a, const struct prefill_out *out, const uint8_t *q,
                        const uint64_t q_stride)
{
    const uint8_t *k = kv_k(a), *v = kv_v(a, p->n_head_kv, p->n_ctx, p->head_dim);
    float *q_lds = (float *)(void *)lds(), *kv_lds = q_lds + ATTENTION_PREFILL_EXACT_ROWS * p->stride,
          *weights = kv_lds + p->positions * p->stride;
    struct prefill_pieces pieces;
    struct prefill_rows r;
    r.lane = thread_x() % prefill_lanes(p);
    r.row = thread_x() / prefill_lanes(p) * 2;
    UNROLL for (uint32_t m = 0; m < 2; m++) {
        r.max[m] = PREFILL_MASKED;
        r.sum[m] = 0.0f;
        UNROLL for (uint32_t j = 0; j < PREFILL_EXACT_QUADS; j++) r.o[m][j] = (f32x4)(0.0f);
    }
    prefill_f32_q(q_lds, p, q, q_stride);
    prefill_f32_fetch(&pieces, p, k, p->begin);
#pragma unroll 1
    for (uint32_t first = p->begin; first < p->end; first += p->positions) {
        prefill_f32_put(kv_lds, &pieces, p);
        barrier();
        prefill_f32_fetch(&pieces, p, v, first);
        prefill_f32_scores(&r, p, q_lds, kv_lds, first);
        barrier();
        prefill_f32_put(kv_lds, &pieces, p);
        prefill_f32_fetch(&pieces, p, k, first + p->positions);
        prefill_f32_softmax(&r, p, weights);
        barrier();
        prefill_f32_values(&r, p, weights, kv_lds);
        barrier();
    }
    prefill_f32_end(&r, p, out);
}

/* ==== templates/gpu/attention_prefill_tmpl.c ==== */
/* attention_prefill_tmpl.c -- attention of the tokens of a prefill step over the KV cache, with a streaming softmax.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691)
 *
 *   attention_prefill(a, out, ..)   causal: token t, at position n_past + t, attends positions 0 .. n_past + t, or the last
 *                                   `window` of them
 *   attention_prefill_all(..)       every token attends all positions of the cache and of the step
 *
 * The step's own K and V are in the cache already; nothing beyond position n_past + n_tokens - 1 is read.
 * A group takes one KV head and some tokens, one after another from group_y() on; its rows are (token, query head) with heads varying
 * fastest, so that K and V are read once for all heads that share them.  The latest tokens, which attend most, come first.
 * Two ways to compute, by ATTENTION_PREFILL_EXACT(KV_KIND, digits): f16 products on the matrix unit, where each wave has 16 or 32 rows to
 * itself, as columns of the products on AMD, as their rows on NVIDIA, with sm_90a four waves
 * together; or f32 products, where threads / 16 neighbouring lanes have two rows.
 * LDS, grid and tokens of a group: attention_prefill_sizes.h. */

/* ---- the kernel's body ---- */
/* causal: a constant, 1 or 0, which a window needs; the rest as below. */
DEVICE void attention_prefill_of(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                                 const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv,
                                 const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t digits,
                                 const uint32_t threads, const uint32_t fours, const uint32_t causal, const uint32_t window,
                                 const uint32_t ring)
{
    const struct prefill_out to = { out, out_stride, kind };
    struct prefill p;
    p.n_head = n_head, p.n_head_kv = n_head_kv, p.head_dim = head_dim, p.n_ctx = kv_rows(n_ctx, ring), p.threads = threads;
    p.causal = causal, p.window = window, p.ring = ring, p.fours = fours;
    p.exact = ATTENTION_PREFILL_EXACT(KV_KIND, digits);
    p.tiles = ATTENTION_PREFILL_TILES(head_dim, FAMILY, fours);
    p.positions = ATTENTION_PREFILL_POSITIONS(KV_KIND, digits, head_dim, FAMILY, fours);
    p.heads = ATTENTION_PREFILL_HEADS(n_head, n_head_kv);
    p.tokens = ATTENTION_PREFILL_TOKENS(KV_KIND, digits, n_head, n_head_kv, head_dim, FAMILY, threads, fours);
    p.q_registers = ATTENTION_PREFILL_Q_IN_REGISTERS(KV_KIND, digits, head_dim, FAMILY);
    p.stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(head_dim) : ATTENTION_PREFILL_STRIDE(head_dim);
    p.v_stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(p.positions) : ATTENTION_PREFILL_STRIDE(p.positions);
    p.scale = scale * PREFILL_LOG2E;
    if (!prefill_begin(&p, a)) return;
    if (p.exact) prefill_f32(&p, a, &to, q, q_stride);
    else prefill_matrix(&p, a, &to, q, q_stride);
    prefill_pad(&p, &to);
}

/* out: rows of [n_head][head_dim], row t of the step at out + t out_stride: f32 (kind 0), or f16 or bf16 for a product (kind 1, 2), zeros
 * up to a multiple of 64 columns.  q: rows f32 [n_head][head_dim], normed and rotated, row t at q + t q_stride.
 * Strides in bytes, multiples of 16.  head_dim: a multiple of 16 up to 256 (q8_0: of 32).  scale: of q . k.
 * digits: 2 asks for f32 products.
 * threads: 128 or 256, all of the group; 128 where gfx11 has more than 128 dimensions.  fours: 1 for products of four waves, where
 * ATTENTION_PREFILL_IN_FOURS and the machine has them.  window, ring: kv.h.  All but pointers constants.
 * After pdl_wait(). */
DEVICE void attention_prefill(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                              const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv,
                              const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t digits,
                              const uint32_t threads, const uint32_t fours, const uint32_t window, const uint32_t ring)
{
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, threads, fours, 1,
                         window, ring);
}

/* ==== templates/gpu/sample_math.h ==== */
/* sample_math.h -- what sampling needs beside the templates' own arithmetic: logits as integer keys, double exp and log (a GPU has no
 * libm), random numbers, and double sums over lanes. */

#define SAMPLE_NOTHING 0xffffffffu
#define SAMPLE_ELSEWHERE 0xfffffffeu                 /* another thread knows the token */

/* ---- keys: candidates in their order as integers: 32 bits of logit, 24 bits of id, a lower id being larger ---- */
#define SAMPLE_KEY_INFINITE 0xff800000u          /* of +inf */
#define SAMPLE_NOT_FINITE   0xffffffffffffffffu  /* above every key: stands for logits of which some are NaN or infinite */
#define SAMPLE_KEY_NEGATIVE 0x007fffffu          /* of -inf: what is greater counts */
DEVICE float    sample_value_of(uint64_t key)
{
    const uint32_t u = (uint32_t)(key >> 24);
    return f32_of_bits(u >> 31 ? u & 0x7fffffffu : ~u);
}
DEVICE uint64_t sample_key(float x, uint32_t id)    { return (uint64_t)order_of_f32(x) << 24 | (0xffffffu - id); }
DEVICE uint32_t sample_id_of(uint64_t key)          { return 0xffffffu - (uint32_t)(key & 0xffffffu); }

/* ---- arithmetic in double ---- */
/* e^x for x <= 0, 0 below e^-708: x = n ln 2 + r, |r| <= ln 2 / 2, the series of e^r to r^13; error about 1 ulp.
 * ln 2 in two parts: fdlibm, e_exp.c. */
DEVICE double sample_exp(double x)
{
    if (!(x > -708.0)) return 0.0;
    const double n = __builtin_rint(x * 1.44269504088896338700);
    const double r = __builtin_fma(n, -1.90821492927058770002e-10, __builtin_fma(n, -6.93147180369123816490e-01, x));
    double y = 1.0 / 6227020800.0;
    y = __builtin_fma(y, r, 1.0 / 479001600.0);
    y = __builtin_fma(y, r, 1.0 / 39916800.0);
    y = __builtin_fma(y, r, 1.0 / 3628800.0);
    y = __builtin_fma(y, r, 1.0 / 362880.0);
    y = __builtin_fma(y, r, 1.0 / 40320.0);
    y = __builtin_fma(y, r, 1.0 / 5040.0);
    y = __builtin_fma(y, r, 1.0 / 720.0);
    y = __builtin_fma(y, r, 1.0 / 120.0);
    y = __builtin_fma(y, r, 1.0 / 24.0);
    y = __builtin_fma(y, r, 1.0 / 6.0);
    y = __builtin_fma(y, r, 0.5);
    y = __builtin_fma(y, r, 1.0);
    y = __builtin_fma(y, r, 1.0);
    const uint64_t power = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    __builtin_memcpy(&scale, &power, 8);
    return y * scale;
}

/* ln x of a normal x in (0, 1]: x = 2^e m, m in [1/sqrt 2, sqrt 2); ln m = 2 artanh((m - 1) / (m + 1)) to the 23rd power. */
DEVICE double sample_log(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    const uint64_t above = u + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    const double e = (double)((int32_t)(above >> 52) - 1023);
    u -= (above & 0xfff0000000000000u) - 0x3ff0000000000000u;
    double m;
    __builtin_memcpy(&m, &u, 8);
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double y = 1.0 / 23.0;
    for (int32_t k = 21; k > 0; k -= 2) y = __builtin_fma(y, q, 1.0 / (double)k);
    return __builtin_fma(e, 0.693147180559945309417, 2.0 * s * y);
}

/* xoshiro256** 1.0, [0, 1), 53 bits.  (Blackman and Vigna 2018, arXiv:1805.01407) */
DEVICE double sample_random(uint64_t *s)
{
    const uint64_t five = s[1] * 5, result = (five << 7 | five >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return (double)(result >> 11) * 0x1p-53;
}

/* ---- lanes ---- */
DEVICE uint64_t sample_lane_u64(uint64_t x, uint32_t lane)
{
    const uint32_t low = lane_get_u32((uint32_t)x, lane), high = lane_get_u32((uint32_t)(x >> 32), lane);
    return (uint64_t)high << 32 | low;
}
DEVICE double sample_lane_f64(double x, uint32_t lane)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    u = sample_lane_u64(u, lane);
    __builtin_memcpy(&x, &u, 8);
    return x;
}
DEVICE uint64_t sample_wave_max(uint64_t x)
{
    for (uint32_t mask = 1; mask < WAVE; mask *= 2) {
        const uint64_t y = sample_lane_u64(x, lane_id() ^ mask);
        x = y > x ? y : x;
    }
    return x;
}
DEVICE double sample_wave_sum(double x)
{
    for (uint32_t mask = 1; mask < WAVE; mask *= 2) x += sample_lane_f64(x, lane_id() ^ mask);
    return x;
}
/* The first i with w[0] + ... + w[i] > at (or_equal: >= at), at = part of the sum + offset; the last with w > 0 when rounding leaves none.
 * w: [n] in LDS, >= 0.
 * *rest: at less what stands before i.  All lanes of a wave get the same. */
DEVICE uint32_t sample_find(const double *w, const uint32_t n, double part, double offset, uint32_t or_equal, double *rest)
{
    const uint32_t lane = lane_id(), run = (n + WAVE - 1) / WAVE, first = lane * run, last = first + run < n ? first + run : n;
    double sum = 0;
    for (uint32_t i = first; i < last; i++) sum += w[i];
    for (uint32_t d = 1; d < WAVE; d *= 2) {
        const double y = sample_lane_f64(sum, (lane - d) & (WAVE - 1));
        if (lane >= d) sum += y;
    }
    double before = sample_lane_f64(sum, (lane - 1) & (WAVE - 1));
    if (lane == 0) before = 0;
    const double at = part * sample_lane_f64(sum, WAVE - 1) + offset;
    uint32_t found = SAMPLE_NOTHING;
    double start = 0;
    for (uint32_t i = first; i < last; i++) {
        if (w[i] <= 0) continue;
        found = i;
        start = before;
        before += w[i];
        if (before > at || (or_equal && before == at)) break;
    }
    /* The lowest lane that passes `at`, else the last that holds anything. */
    const uint32_t passes = before > at || (or_equal && before == at);
    const uint32_t rank = found == SAMPLE_NOTHING ? 0 : passes ? 0x100u + (WAVE - lane) : 1 + lane;
    const uint32_t owner = (uint32_t)sample_wave_max(rank << 8 | lane) & 0xffu;
    *rest = at - sample_lane_f64(start, owner);
    return lane_get_u32(found, owner);
}

/* ==== templates/gpu/sample_sizes.h ==== */
/* sample_sizes.h -- bytes that sample_tmpl.c needs, and how it cuts the vocabulary.  Constant expressions of C,
 * for the compiler's plan too. */

/* A segment is a run of tokens whose maximum one wave finds at once.  Top-k needs more segments than k,
 * the group that arrives last reads all maxima. */
#define SAMPLE_MAX_SEGMENT 128u
#define SAMPLE_SEGMENT(n_vocab) ((n_vocab) <= 65536u ? 64u : SAMPLE_MAX_SEGMENT)
#define SAMPLE_SEGMENTS(n_vocab) (((n_vocab) + SAMPLE_SEGMENT(n_vocab) - 1u) / SAMPLE_SEGMENT(n_vocab))

/* A block is a run of segments that one group reads and, where the options may need it, sorts. */
#define SAMPLE_BLOCK_SEGMENTS 16u
#define SAMPLE_BLOCK(n_vocab) (SAMPLE_BLOCK_SEGMENTS * SAMPLE_SEGMENT(n_vocab))
#define SAMPLE_BLOCKS(n_vocab) (((n_vocab) + SAMPLE_BLOCK(n_vocab) - 1u) / SAMPLE_BLOCK(n_vocab))

/* Arena, 16-byte aligned; nothing in it is kept from step to step.  Any number of groups.  Four words of each segment, then of the
 * tokens of all blocks a key and two sums. */
#define SAMPLE_SCRATCH_SORTED(n_vocab) (16u * SAMPLE_SEGMENTS(n_vocab))
#define SAMPLE_SCRATCH_BYTES(n_vocab, groups) \
    (SAMPLE_SCRATCH_SORTED(n_vocab) + ((n_vocab) <= SAMPLE_LIST ? 0u : 24u * SAMPLE_BLOCK(n_vocab) * SAMPLE_BLOCKS(n_vocab)))
#define SAMPLE_COUNTERS 1u                       /* u32 of the arena's zero part */

/* LDS.  Tokens that are sorted there: more are never needed for the usual options. */
#define SAMPLE_LIST 1024u
/* Keys that divide what is left of all blocks: at least four times as many as blocks. */
#define SAMPLE_HEADS(n_vocab) (SAMPLE_BLOCKS(n_vocab) <= 64u ? 512u : 1024u)
#define SAMPLE_PIVOTS 8u
#define SAMPLE_BINS 256u
#define SAMPLE_LDS_FIXED 2624u                   /* words, maxima of the waves, eight sums of each wave */
#define SAMPLE_LDS_VALUES SAMPLE_LDS_FIXED
#define SAMPLE_LDS_WORK(n_vocab) (SAMPLE_LDS_VALUES + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
#define SAMPLE_LDS_PICKED (4u * (SAMPLE_BINS + 8u))
#define SAMPLE_LDS_KEYS(n_vocab) (SAMPLE_LDS_PICKED + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
#define SAMPLE_LDS_MASK(n_vocab) (SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab) + 24u * SAMPLE_LIST)

/* ==== templates/gpu/sample_tmpl.c ==== */
/* sample_tmpl.c -- from the logits of one token to the next one, in one launch: what runtime/run/sample.c does,
 * and the token it would draw.
 *
 * The vocabulary is cut into segments.  A wave applies biases, penalties and the mask to a segment and keeps its maximum; segments that
 * follow one another are a block, which one group does.
 * The group that arrives last has all maxima:
 *
 *   greedy       the largest maximum.
 *   top-k        the k-th largest maximum bounds the k-th largest logit from below, and only segments whose maximum reaches it are read
 *                again.  What reaches it there is sorted in LDS (a few dozen tokens more than k),
 *                and one thread goes through the chain in the order of sample.c.
 *   top-p alone  the same with a guess in place of k; the waves have also summed exp(logit) of their segments, so the whole is known.
 *   neither      tokens are drawn in the order of ids: by the segments' sums, then within one segment.
 *   otherwise    (a large k, a flat distribution): blocks of the vocabulary are sorted, with running sums, and the border is looked for in
 *                all of them at once.  Where the options let it be feared each group has sorted its blocks before it arrives; where they do
 *                not and it comes to it all the same (many equal logits), the last group sorts them all.
 *
 * Sums are in double, as there.  Differences to sample.c: exp and log of sample_math.h against libm's (an ulp), sample.c's float exp in the
 * total of top-p without top-k (1e-7), and the order of additions in the last two ways (1e-15).  A cut or a draw that falls that close to
 * the border between two tokens may take the other one. */

/* LDS: what is used all the time, then values [segments] f32, then what differs. */
DEVICE uint32_t *sample_words(void)  { return (uint32_t *)(void *)lds(); }                       /* [8]: see the enum */
DEVICE uint64_t *sample_maxima(void) { return (uint64_t *)(void *)(lds() + 64); }                /* [2][32]: of the waves, in turns */
DEVICE double   *sample_sums(void)   { return (double *)(void *)(lds() + 64 + 512); }            /* [waves][8] */
/* [segments] maxima; +0 never -0, NaN is -inf */
DEVICE float    *sample_values(void) { return (float *)(void *)(lds() + SAMPLE_LDS_VALUES); }
STATIC_ASSERT(SAMPLE_LDS_FIXED == 64 + 512 + 32 * 8 * 8, "LDS of sample_tmpl.c");
enum { SAMPLE_FLAG, SAMPLE_CUT, SAMPLE_N_PICKED, SAMPLE_N_LISTED, SAMPLE_TOKEN, SAMPLE_BOUND };

/* What all groups and what the last group need of *step, each read at once. */
struct sample_chances { float temp, top_p; int32_t top_k; };
struct sample_step {
    uint32_t  n_past, n_tokens, n_drawn, n_draws;
    int32_t  *history;
    uint64_t *ring;
    struct forge_gpu_row *row;
    struct sample_chances chances;
    float     min_p;
    uint64_t  random[4];
    uint32_t  exchanged;                         /* behind it */
};

/* Tokens before the one that is drawn first: drafts are drawn again. */
DEVICE uint32_t sample_end(const struct forge_gpu_step *step) { return step->n_past + step->n_tokens - step->n_drafts; }

/* The largest x of the group, in all threads.  A barrier stands between two calls with the same turn. */
DEVICE uint64_t sample_group_max(uint64_t x, const uint32_t turn, const uint32_t threads)
{
    uint64_t *maxima = sample_maxima() + 32 * turn;
    x = sample_wave_max(x);
    if (lane_id() == 0) maxima[wave_id()] = x;
    barrier();
#pragma unroll
    for (uint32_t w = 0; w < threads / WAVE; w++) x = maxima[w] > x ? maxima[w] : x;
    return x;
}
/* The sum of x over the group, in all threads.  A barrier stands between two calls. */
DEVICE double sample_group_sum(double x, const uint32_t threads)
{
    double *sums = sample_sums();
    x = sample_wave_sum(x);
    if (lane_id() == 0) sums[wave_id()] = x;
    barrier();
    x = 0;
    for (uint32_t w = 0; w < threads / WAVE; w++) x += sums[w];
    return x;
}
DEVICE uint32_t sample_count(uint32_t *count, uint32_t n) { return __atomic_fetch_add(count, n, __ATOMIC_RELAXED); }     /* in LDS */

/* ---- all groups: biases, penalties, maxima of the segments ---- */
/* x: [segment / WAVE] logits of the wave's segment s, element i at token s segment + i WAVE + lane; NaN beyond the vocabulary. */
DEVICE void sample_load(float *x, const float *logits, const uint32_t n_vocab, uint32_t s)
{
    for (uint32_t i = 0; i < SAMPLE_SEGMENT(n_vocab) / WAVE; i++) {
        const uint32_t id = s * SAMPLE_SEGMENT(n_vocab) + i * WAVE + lane_id();
        x[i] = id < n_vocab ? ((const GLOBAL float *)logits)[id] : f32_of_bits(0x7fc00000u);
    }
}

DEVICE void sample_bias(float *x, const struct forge_gpu_step *step, const uint32_t segment, uint32_t s)
{
    for (uint32_t k = 0; k < step->n_biases; k++) {
        const uint32_t at = (uint32_t)step->biases[k].id - s * segment - lane_id();
        for (uint32_t i = 0; i < segment / WAVE; i++)
            if (at == i * WAVE) x[i] += step->biases[k].bias;
    }
}

/* A negative logit is multiplied: dividing it would make the token likelier.  In double and rounded at every step: so these are the float
 * operations of sample.c, neither fused nor approximate. */
DEVICE float sample_penalised(float x, const struct forge_gpu_step *step, uint32_t count)
{
    const double penalty = (double)step->repeat_penalty;
    x = (float)(x <= 0 ? (double)x * penalty : (double)x / penalty);
    const float frequency = (float)((double)count * (double)step->frequency_penalty);
    return (float)((double)x - (double)(float)((double)frequency + (double)step->presence_penalty));
}

/* counts: [segment] of LDS, this wave's own. */
DEVICE void sample_penalise(float *x, const struct forge_gpu_step *step, uint32_t row, const uint32_t n_ctx, const uint32_t segment,
                            uint32_t s, uint32_t *counts)
{
    const uint32_t end = sample_end(step) + row, asked = (uint32_t)step->repeat_last_n;      /* -1: more than any context */
    const uint32_t window = asked < n_ctx ? asked : n_ctx;
    for (uint32_t i = 0; i < segment / WAVE; i++) counts[i * WAVE + lane_id()] = 0;
    wave_barrier();
    for (uint32_t p = end - (window < end ? window : end) + lane_id(); p < end; p += WAVE) {
        const uint32_t at = (uint32_t)((const GLOBAL int32_t *)step->history)[p] - s * segment;
        if (at < segment) sample_count(&counts[at], 1);
    }
    wave_barrier();
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t count = counts[i * WAVE + lane_id()];
        if (count > 0) x[i] = sample_penalised(x[i], step, count);
    }
    wave_barrier();
}

/* Bit i of words: may the i-th token of the block be drawn?  In LDS for all threads.  The host's memory is asked once for each word, by
 * neighbours at a time. */
DEVICE uint32_t *sample_mask_words(const uint32_t n_vocab) { return (uint32_t *)(void *)(lds() + SAMPLE_LDS_MASK(n_vocab)); }
DEVICE void sample_mask_load(const uint32_t *mask, const uint32_t n_vocab, uint32_t b, const uint32_t threads)
{
    const uint32_t from = b * (SAMPLE_BLOCK(n_vocab) / 32), all = (n_vocab + 31) / 32;
    barrier();                                   /* the block before has been masked */
    for (uint32_t i = thread_x(); i < SAMPLE_BLOCK(n_vocab) / 32; i += threads)
        if (from + i < all)
            sample_mask_words(n_vocab)[i] = bits_of_f32(load_shared_f32((const float *)(const void *)mask + from + i));
    barrier();
}
DEVICE void sample_mask(float *x, const uint32_t n_vocab, uint32_t s)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab), at = s % SAMPLE_BLOCK_SEGMENTS * segment;
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t bit = at + i * WAVE + lane_id();
        const uint32_t allowed = sample_mask_words(n_vocab)[bit / 32] >> bit % 32 & 1;
        if (s * segment + i * WAVE + lane_id() < n_vocab && !allowed) x[i] = -__builtin_inff();
    }
}

/* Over the lane's elements and the wave: the sum of e^((x - origin) inverse) of what is at least `least`. */
DEVICE double sample_segment_sum(const float *x, const uint32_t segment, float least, float origin, double inverse)
{
    double sum = 0;
    for (uint32_t i = 0; i < segment / WAVE; i++)
        if (x[i] >= least && x[i] > -__builtin_inff()) sum += sample_exp(((double)x[i] - (double)origin) * inverse);
    return sample_wave_sum(sum);
}

/* Scratch, shared by the groups: of every segment the two parts of the maximum's key,
 * and of the double sum of e^((x - maximum) inverse). */
DEVICE float *sample_shared(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s)
{
    return (float *)(void *)scratch + plane * SAMPLE_SEGMENTS(n_vocab) + s;
}
DEVICE void sample_put(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s, uint32_t bits)
{
    store_shared_f32(sample_shared(scratch, n_vocab, plane, s), f32_of_bits(bits));
}
DEVICE uint32_t sample_get(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s)
{
    return bits_of_f32(load_shared_f32(sample_shared(scratch, n_vocab, plane, s)));
}

/* 1 / temp, and not before it is known to be needed. */
DEVICE double sample_inverse(float temp)
{
    PIN_F32(temp);
    return 1.0 / (double)temp;
}

DEVICE uint32_t sample_has_top_k(const struct sample_chances o, const uint32_t n_vocab)
{
    return o.top_k > 0 && o.top_k < (int32_t)n_vocab;
}

/* masked: with the mask of its block in LDS. */
DEVICE void sample_segment(float *x, float *logits, const struct forge_gpu_step *step, uint32_t row, const struct sample_chances o,
                           uint32_t masked, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch, uint32_t s)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t bad = 0;                            /* a bias may be infinite, what the model computes may not */
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t beyond = s * segment + i * WAVE + lane_id() >= n_vocab;
        bad |= !beyond && (bits_of_f32(x[i]) & 0x7fffffffu) >= 0x7f800000u;
    }
    const uint32_t penalties = step->repeat_last_n != 0 &&
                               (step->repeat_penalty != 1.0f || step->presence_penalty != 0 || step->frequency_penalty != 0);
    if (step->n_biases > 0 || penalties || masked) {
        float was[SAMPLE_MAX_SEGMENT / WAVE];
        for (uint32_t i = 0; i < segment / WAVE; i++) was[i] = x[i];
        sample_bias(x, step, segment, s);
        if (penalties) sample_penalise(x, step, row, n_ctx, segment, s, (uint32_t *)(void *)lds() + segment * wave_id());
        if (masked) sample_mask(x, n_vocab, s);
        for (uint32_t i = 0; i < segment / WAVE; i++)
            if (bits_of_f32(x[i]) != bits_of_f32(was[i])) store_shared_f32(logits + s * segment + i * WAVE + lane_id(), x[i]);
    }
    uint64_t best = 0;
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint64_t key = sample_key(x[i], s * segment + i * WAVE + lane_id());
        best = key > best ? key : best;
    }
    best = sample_wave_max(bad ? SAMPLE_NOT_FINITE : best);
    double sum = 0;
    if (o.temp > 0 && !sample_has_top_k(o, n_vocab))
        sum = sample_segment_sum(x, segment, -__builtin_inff(), sample_value_of(best), o.top_p < 1 ? 1.0 : sample_inverse(o.temp));
    if (lane_id() == 0) {
        uint64_t bits;
        __builtin_memcpy(&bits, &sum, 8);
        sample_put(scratch, n_vocab, 0, s, (uint32_t)(best >> 24));
        sample_put(scratch, n_vocab, 1, s, (uint32_t)(best & 0xffffffu));
        sample_put(scratch, n_vocab, 2, s, (uint32_t)bits);
        sample_put(scratch, n_vocab, 3, s, (uint32_t)(bits >> 32));
    }
}

/* ---- blocks in order: what scratch has of them ---- */
enum { SAMPLE_FLAT, SAMPLE_SHARP, SAMPLE_COUNT };
/* [blocks][block] keys, each block's best first; those beyond the vocabulary are 0. */
DEVICE uint64_t *sample_sorted(uint8_t *scratch, const uint32_t n_vocab)
{
    return (uint64_t *)(void *)(scratch + SAMPLE_SCRATCH_SORTED(n_vocab));
}
/* [blocks][block], of each key the sum over its block up to it, itself included: SAMPLE_FLAT of e^(x - first), SAMPLE_SHARP of
 * e^((x - first) / temp), first being the block's largest logit. */
DEVICE double *sample_running(uint8_t *scratch, const uint32_t n_vocab, uint32_t what)
{
    return (double *)(void *)(sample_sorted(scratch, n_vocab) + (1 + what) * SAMPLE_BLOCKS(n_vocab) * SAMPLE_BLOCK(n_vocab));
}

/* Not through a pointer to uint64_t: clang would load the four bytes of a logit where they stand, which is no multiple of 4. */
DEVICE uint64_t sample_sorted_at(const uint64_t *sorted, uint32_t i)
{
    const u32x2 key = ((const GLOBAL u32x2 *)(const void *)sorted)[i];
    return (uint64_t)key.y << 32 | key.x;
}

DEVICE void sample_swap(uint64_t *x, uint64_t *y, uint32_t larger_first)
{
    const uint64_t a = *x, b = *y;
    const uint32_t swap = (a < b) == larger_first;
    *x = swap ? b : a;
    *y = swap ? a : b;
}
/* Sorts keys in LDS, the largest first, by Batcher's bitonic network; two of its stages at a time, in registers.  n: a power of two. */
DEVICE void sample_sort(uint64_t *keys, const uint32_t n, const uint32_t threads)
{
#pragma unroll 1
    for (uint32_t run = 2; run <= n; run *= 2) {
        uint32_t d = run / 2;
#pragma unroll 1
        for (; d > 1; d /= 4) {
            const uint32_t h = d / 2;
            barrier();
            for (uint32_t i = thread_x(); i < n / 4; i += threads) {
                const uint32_t at = 4 * i - 3 * (i & (h - 1)), larger_first = (at & run) == 0;
                uint64_t a = keys[at], b = keys[at + h], c = keys[at + 2 * h], e = keys[at + 3 * h];
                sample_swap(&a, &c, larger_first);
                sample_swap(&b, &e, larger_first);
                sample_swap(&a, &b, larger_first);
                sample_swap(&c, &e, larger_first);
                keys[at] = a;
                keys[at + h] = b;
                keys[at + 2 * h] = c;
                keys[at + 3 * h] = e;
            }
        }
        if (d == 0) continue;
        barrier();
        for (uint32_t i = thread_x(); i < n / 2; i += threads) {
            uint64_t a = keys[2 * i], b = keys[2 * i + 1];
            sample_swap(&a, &b, (2 * i & run) == 0);
            keys[2 * i] = a;
            keys[2 * i + 1] = b;
        }
    }
    barrier();
}

/* sums: a FLAT and a SHARP one of each thread become those over the threads up to it and `before`; before: over all. */
DEVICE void sample_scan(double *sums, double *before, const uint32_t threads)
{
    double *of_waves = sample_sums();
    for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) {
        for (uint32_t d = 1; d < WAVE; d *= 2) {
            const double y = sample_lane_f64(sums[what], (lane_id() - d) & (WAVE - 1));
            if (lane_id() >= d) sums[what] += y;
        }
        if (lane_id() == WAVE - 1) of_waves[8 * wave_id() + what] = sums[what];
    }
    barrier();
    double start[2] = { 0, 0 };
#pragma unroll 4
    for (uint32_t w = 0; w < threads / WAVE; w++)
        for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) {
            start[what] = w == wave_id() ? before[what] : start[what];
            before[what] += of_waves[8 * w + what];
        }
    for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) sums[what] += start[what];
    barrier();
}

/* Block b, whose logits this group has adjusted.  inverse: 1 / temp. */
DEVICE void sample_order(const float *logits, double inverse, const uint32_t n_vocab, uint8_t *scratch, uint32_t b, const uint32_t threads)
{
    const uint32_t block = SAMPLE_BLOCK(n_vocab), from = b * block;
    uint64_t *keys = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab));
    for (uint32_t i = thread_x(); i < block; i += 4 * threads) {
        float x[4];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t id = from + i + k * threads;
            x[k] = load_shared_f32(logits + (id < n_vocab ? id : 0));
        }
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t at = i + k * threads;
            if (at < block) keys[at] = from + at < n_vocab ? sample_key(x[k], from + at) : 0;
        }
    }
    sample_sort(keys, block, threads);
    const double first = (double)sample_value_of(keys[0]);
    double before[2] = { 0, 0 };
#pragma unroll 1
    for (uint32_t start = 0; start < block; start += threads) {
        const uint32_t i = start + thread_x();
        const uint64_t key = i < block ? keys[i] : 0;
        const double x = (double)sample_value_of(key) - first;               /* NaN, and nothing, where there is no finite logit */
        double sums[2] = { sample_exp(x), sample_exp(x * inverse) };
        sample_scan(sums, before, threads);
        if (i >= block) continue;
        ((GLOBAL uint64_t *)sample_sorted(scratch, n_vocab))[from + i] = key;
        ((GLOBAL double *)sample_running(scratch, n_vocab, SAMPLE_FLAT))[from + i] = sums[SAMPLE_FLAT];
        ((GLOBAL double *)sample_running(scratch, n_vocab, SAMPLE_SHARP))[from + i] = sums[SAMPLE_SHARP];
    }
}

/* May these options need blocks in order?  The list in LDS does for the usual k, and if a few tokens have most of the weight. */
DEVICE uint32_t sample_orders(const struct sample_chances o, const uint32_t n_vocab)
{
    const uint32_t half = SAMPLE_SEGMENTS(n_vocab) < SAMPLE_LIST ? SAMPLE_SEGMENTS(n_vocab) / 2 : SAMPLE_LIST / 2;
    if (!(o.temp > 0) || n_vocab <= SAMPLE_LIST) return 0;
    return sample_has_top_k(o, n_vocab) ? (uint32_t)o.top_k > half : o.top_p < 1;
}

/* row: of a step with drafts, the number of the token drawn from these logits. */
DEVICE void sample_segments(float *logits, const struct forge_gpu_step *step, uint32_t row, const uint32_t n_vocab, const uint32_t n_ctx,
                            uint8_t *scratch, const uint32_t groups, const uint32_t threads)
{
    const uint32_t waves = threads / WAVE;
    float x[SAMPLE_MAX_SEGMENT / WAVE];
    uint32_t s = group_x() * SAMPLE_BLOCK_SEGMENTS + wave_id();
    sample_load(x, logits, n_vocab, s);          /* before *step is looked at: both are on their way at once */
    const struct sample_chances o = { step->temp, step->top_p, step->top_k };
    const uint32_t *mask = step->mask;
    const uint32_t in_order = sample_orders(o, n_vocab);
    for (uint32_t b = group_x(); b < SAMPLE_BLOCKS(n_vocab); b += groups) {
        if (mask) sample_mask_load(mask, n_vocab, b, threads);
        for (uint32_t i = wave_id(); i < SAMPLE_BLOCK_SEGMENTS; i += waves) {
            if (s < SAMPLE_SEGMENTS(n_vocab)) sample_segment(x, logits, step, row, o, mask != 0, n_vocab, n_ctx, scratch, s);
            s = i + waves < SAMPLE_BLOCK_SEGMENTS ? s + waves : (b + groups) * SAMPLE_BLOCK_SEGMENTS + wave_id();
            sample_load(x, logits, n_vocab, s);
        }
        if (!in_order) continue;
        stores_done();
        barrier();
        sample_order(logits, sample_inverse(o.temp), n_vocab, scratch, b, threads);
    }
}

/* ---- the last group ---- */
DEVICE double sample_sum_of(uint8_t *scratch, const uint32_t n_vocab, uint32_t s)
{
    const uint64_t low = sample_get(scratch, n_vocab, 2, s), high = sample_get(scratch, n_vocab, 3, s), bits = high << 32 | low;
    double sum;
    __builtin_memcpy(&sum, &bits, 8);
    return sum;
}

/* The key of the likeliest token; fills values. */
DEVICE uint64_t sample_best(uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    uint64_t best = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads) {
        const uint32_t value = sample_get(scratch, n_vocab, 0, s), id = sample_get(scratch, n_vocab, 1, s);
        const uint64_t key = (uint64_t)value << 24 | id;
        best = key > best ? key : best;
        sample_values()[s] = value > SAMPLE_KEY_NEGATIVE ? sample_value_of(key) : -__builtin_inff();
    }
    return sample_group_max(best, 0, threads);
}

/* Logits from best downwards in bins: 0 .. 255 as far as the smallest maximum, 256 beyond.  Never decreases as x does. */
DEVICE uint32_t sample_bin(float x, float best, float scale)
{
    const float d = (best - x) * scale;
    return d < (float)SAMPLE_BINS ? (uint32_t)d : SAMPLE_BINS;
}

/* The sum of e^(x - best) over the segments whose maxima are in bins 0 .. cut. */
DEVICE double sample_total(uint8_t *scratch, uint32_t cut, float best, float scale, const uint32_t n_vocab, const uint32_t threads)
{
    double sum = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
        if (sample_bin(sample_values()[s], best, scale) <= cut)
            sum += sample_sum_of(scratch, n_vocab, s) * sample_exp((double)sample_values()[s] - (double)best);
    return sample_group_sum(sum, threads);
}

/* Bins per unit of logit. */
DEVICE float sample_scale(float best, const uint32_t n_vocab, const uint32_t threads)
{
    uint64_t low = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads) {
        const uint32_t key = order_of_f32(sample_values()[s]);
        if (key > SAMPLE_KEY_NEGATIVE && ~key > low) low = ~key;
    }
    low = sample_group_max(low, 1, threads);
    const float range = best - sample_value_of((uint64_t)~(uint32_t)low << 24);
    return ((float)SAMPLE_BINS - 1.0f) / (range > 1e-30f ? range : 1e-30f);
}

/* The first bin up to which there are `want` maxima, SAMPLE_BINS when there are fewer; in the word SAMPLE_CUT after a barrier.
 * By wave 0. */
DEVICE void sample_cut(const uint32_t *bins, uint32_t want)
{
    const uint32_t lane = lane_id(), run = SAMPLE_BINS / WAVE;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < run; i++) sum += bins[lane * run + i];
    const uint32_t mine = sum;
    for (uint32_t d = 1; d < WAVE; d *= 2) {
        const uint32_t y = lane_get_u32(sum, (lane - d) & (WAVE - 1));
        if (lane >= d) sum += y;
    }
    if (lane == WAVE - 1 && sum < want) sample_words()[SAMPLE_CUT] = SAMPLE_BINS;
    uint32_t before = sum - mine;
    if (before >= want || sum < want) return;
    for (uint32_t i = 0; i < run; i++) {
        before += bins[lane * run + i];
        if (before < want) continue;
        sample_words()[SAMPLE_CUT] = lane * run + i;
        return;
    }
}

/* Bins 0 .. cut hold `want` maxima; picks the segments there with maxima >= least, in LDS and SAMPLE_N_PICKED.  Returns cut. */
DEVICE uint32_t sample_pick(uint32_t want, float best, float least, float scale, const uint32_t n_vocab, const uint32_t threads)
{
    uint32_t *words = sample_words(), *bins = (uint32_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab)),
             *picked = bins + SAMPLE_LDS_PICKED / 4;
    for (uint32_t i = thread_x(); i < SAMPLE_BINS; i += threads) bins[i] = 0;
    if (thread_x() == 0) words[SAMPLE_CUT] = SAMPLE_BINS;
    if (thread_x() == 0) words[SAMPLE_N_PICKED] = 0;
    if (thread_x() == 0) words[SAMPLE_N_LISTED] = 0;
    barrier();
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab) && want > 0; s += threads) {
        const uint32_t bin = sample_bin(sample_values()[s], best, scale);
        if (bin < SAMPLE_BINS) sample_count(&bins[bin], 1);
    }
    barrier();
    if (wave_id() == 0 && want > 0) sample_cut(bins, want);
    barrier();
    const uint32_t cut = words[SAMPLE_CUT];
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
        if (sample_values()[s] >= least && sample_values()[s] > -__builtin_inff() && sample_bin(sample_values()[s], best, scale) <= cut)
            picked[sample_count(&words[SAMPLE_N_PICKED], 1)] = s;
    barrier();
    return cut;
}

/* Puts the keys of all tokens in bins 0 .. cut with logits >= least into keys; returns how many there are,
 * which may be more than SAMPLE_LIST. */
DEVICE uint32_t sample_list(uint64_t *keys, uint32_t cut, const float *logits, float best, float least, float scale,
                            const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t *words = sample_words(), *picked = (uint32_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_PICKED);
    const uint32_t n = words[SAMPLE_N_PICKED] * segment;
    for (uint32_t e = thread_x(); e < n; e += 8 * threads) {
        uint32_t id[8];
        float x[8];
        for (uint32_t i = 0; i < 8; i++)
            id[i] = e + i * threads < n ? picked[(e + i * threads) / segment] * segment + (e + i * threads) % segment : n_vocab;
        for (uint32_t i = 0; i < 8; i++) x[i] = load_shared_f32(logits + (id[i] < n_vocab ? id[i] : 0));
        for (uint32_t i = 0; i < 8; i++) {
            if (id[i] >= n_vocab || !(x[i] >= least && x[i] > -__builtin_inff()) || sample_bin(x[i], best, scale) > cut) continue;
            const uint32_t at = sample_count(&words[SAMPLE_N_LISTED], 1);
            if (at < SAMPLE_LIST) keys[at] = sample_key(x[i], id[i]);
        }
    }
    barrier();
    return words[SAMPLE_N_LISTED];
}

/* What is left of the options when the likeliest token is known. */
struct sample_chain {
    float    best, bound, top_p;                 /* bound: min-p's, or -inf */
    uint32_t k;                                  /* 0: no top-k */
    double   inverse, total, unit;               /* 1 / temp; total: e^(x - best) over the vocabulary, when k is 0;
                                                  * unit: the random number */
};

/* By one thread, in sample.c's order.  sorted: [n] keys, best first, flat: [n] e^(x - best), sharp: [n] e^((x - best) / temp).  complete:
 * nothing that counts is missing.  SAMPLE_NOTHING: more than these n tokens are needed. */
DEVICE uint32_t sample_walk(const struct sample_chain *c, const uint64_t *sorted, const double *flat, const double *sharp, uint32_t n,
                            uint32_t complete)
{
    uint32_t kept = n;
    if (c->top_p < 1) {
        double total = c->total, sum = 0;
        if (c->k > 0) {
            total = 0;
            for (uint32_t i = 0; i < n; i++) total += flat[i];
        }
        const double enough = (double)c->top_p * total;
        for (kept = 0; kept < n; ) {
            sum += flat[kept++];
            if (sum >= enough) break;
        }
        if (sum < enough && !complete) return SAMPLE_NOTHING;
    }
    while (kept > 1 && sample_value_of(sorted[kept - 1]) < c->bound) kept--;
    double total = 0;
    for (uint32_t i = 0; i < kept; i++) total += sharp[i];
    double at = c->unit * total;
    for (uint32_t i = 0; i < kept; i++)
        if ((at -= sharp[i]) < 0) return sample_id_of(sorted[i]);
    return sample_id_of(sorted[kept - 1]);
}

/* Of a list in LDS, or SAMPLE_NOTHING when it does not hold enough; known to all threads. */
DEVICE uint32_t sample_listed(const struct sample_chain *c, const float *logits, uint8_t *scratch, const uint32_t n_vocab,
                              const uint32_t threads)
{
    uint64_t *keys = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab)), *sorted = keys + SAMPLE_LIST;
    double *sharp = (double *)(void *)keys, *flat = (double *)(void *)(sorted + SAMPLE_LIST);
    const uint32_t quarter = (SAMPLE_SEGMENTS(n_vocab) + 3) / 4, guess = quarter < 256 ? quarter : 256;
    const uint32_t want = n_vocab <= SAMPLE_LIST ? 0 : c->k > 0 ? c->k : guess;        /* 0: all */
    const float scale = sample_scale(c->best, n_vocab, threads), least = c->k > 0 ? -__builtin_inff() : c->bound;
    const uint32_t cut = sample_pick(want, c->best, least, scale, n_vocab, threads);
    const uint32_t complete = c->k > 0 || sample_bin(c->bound, c->best, scale) <= cut;
    if (!complete && sample_total(scratch, cut, c->best, scale, n_vocab, threads) < (double)c->top_p * c->total) return SAMPLE_NOTHING;
    uint32_t n = sample_list(keys, cut, logits, c->best, least, scale, n_vocab, threads);
    if (n > SAMPLE_LIST) return SAMPLE_NOTHING;
    for (uint32_t i = thread_x(); i < n; i += threads) {
        const uint64_t key = keys[i];
        uint32_t rank = 0;
        for (uint32_t j = 0; j < n; j++) rank += keys[j] > key;
        sorted[rank] = key;
    }
    barrier();
    if (c->k > 0 && n > c->k) n = c->k;
    for (uint32_t i = thread_x(); i < n; i += threads) {
        const float x = sample_value_of(sorted[i]);
        flat[i] = c->top_p < 1 ? sample_exp((double)(x - c->best)) : 0;
        sharp[i] = sample_exp(((double)x - (double)c->best) * c->inverse);
    }
    barrier();
    if (thread_x() == 0) sample_words()[SAMPLE_TOKEN] = sample_walk(c, sorted, flat, sharp, n, complete);
    barrier();
    return sample_words()[SAMPLE_TOKEN];
}

/* Draws in the order of ids from all tokens >= bound.  Known to wave 0. */
DEVICE uint32_t sample_by_id(const struct sample_chain *c, const float *logits, uint8_t *scratch, const uint32_t n_vocab,
                             const uint32_t threads)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab), segments = SAMPLE_SEGMENTS(n_vocab);
    double *weights = (double *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab)), *tokens = weights + segments, rest;
    if (c->bound > -__builtin_inff()) {
        for (uint32_t s = wave_id(); s < segments; s += threads / WAVE) {
            double sum = 0;
            if (sample_values()[s] >= c->bound) {
                float x[SAMPLE_MAX_SEGMENT / WAVE];
                for (uint32_t i = 0; i < segment / WAVE; i++) {
                    const uint32_t id = s * segment + i * WAVE + lane_id();
                    x[i] = load_shared_f32(logits + (id < n_vocab ? id : 0));
                    if (id >= n_vocab) x[i] = -__builtin_inff();
                }
                sum = sample_segment_sum(x, segment, c->bound, c->best, c->inverse);
            }
            if (lane_id() == 0) weights[s] = sum;
        }
    } else
        for (uint32_t s = thread_x(); s < segments; s += threads)
            weights[s] = sample_sum_of(scratch, n_vocab, s) * sample_exp(((double)sample_values()[s] - (double)c->best) * c->inverse);
    barrier();
    if (wave_id() != 0) return SAMPLE_NOTHING;
    const uint32_t s = sample_find(weights, segments, c->unit, 0, 0, &rest);
    for (uint32_t i = lane_id(); i < segment; i += WAVE) {
        const uint32_t id = s * segment + i;
        const float x = load_shared_f32(logits + (id < n_vocab ? id : 0));
        tokens[i] = id < n_vocab && x >= c->bound && x > -__builtin_inff() ? sample_exp(((double)x - (double)c->best) * c->inverse) : 0;
    }
    wave_barrier();
    return s * segment + sample_find(tokens, segment, 0, rest, 0, &rest);
}

/* ---- the border in sorted blocks ----
 * A border is the first token, best first, with which the tokens from the best on weigh what is asked for: the k-th, the one that fills
 * top-p, the one that is drawn.  Of each block a range of its keys is left that may hold it.  In a round some keys of all ranges, evenly
 * spread, are sorted, some of these are pivots, and for every pivot and block a thread finds how many keys are above: with the running sums
 * that is what stands above the pivot.  The ranges shrink to what lies between the two pivots about the border, to a ninth or so.  When all
 * that is left is a list that can be sorted, the border is looked up in it.  128,256 tokens take three rounds and the list. */
/* What is looked through: of every block a range of its sorted keys.  The arrays are in LDS. */
struct sample_lists {
    const uint64_t *sorted;                      /* [blocks][block] in scratch */
    const double   *running;                     /* the same of what is weighed */
    uint32_t what;                               /* SAMPLE_COUNT: every token weighs 1 */
    uint32_t *low, *high;                        /* [blocks] */
    double   *scale;                             /* [blocks] what a block's sums are multiplied with */
    uint64_t *heads;                             /* [SAMPLE_HEADS] */
    double   *mass;                              /* [pivots][blocks]; at the end [SAMPLE_HEADS] */
    uint32_t *rank;                              /* [pivots][blocks] */
};

DEVICE void sample_open(struct sample_lists *l, uint8_t *scratch, const uint32_t n_vocab)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab);
    l->sorted = sample_sorted(scratch, n_vocab);
    l->heads = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab));
    l->scale = (double *)(void *)(l->heads + SAMPLE_HEADS(n_vocab));
    l->low = (uint32_t *)(void *)(l->scale + blocks);
    l->high = l->low + blocks;
    l->mass = (double *)(void *)(l->high + blocks);
    l->rank = (uint32_t *)(void *)(l->mass + SAMPLE_PIVOTS * blocks);
}

/* How many keys of a list are >= pivot, low .. high of them. */
DEVICE uint32_t sample_rank(const uint64_t *list, uint32_t low, uint32_t high, uint64_t pivot)
{
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        const uint32_t above = sample_sorted_at(list, middle) >= pivot;
        low = above ? middle + 1 : low;
        high = above ? high : middle;
    }
    return low;
}

/* What the first n keys of block s weigh. */
DEVICE double sample_weight(const struct sample_lists *l, const uint32_t n_vocab, uint32_t s, uint32_t n)
{
    if (n == 0 || l->what == SAMPLE_COUNT) return (double)n;
    return l->scale[s] * ((const GLOBAL double *)l->running)[s * SAMPLE_BLOCK(n_vocab) + n - 1];
}

/* Over mass[blocks], in all lanes of a wave. */
DEVICE double sample_mass(const double *mass, const uint32_t blocks)
{
    double sum = 0;
    for (uint32_t s = lane_id(); s < blocks; s += WAVE) sum += mass[s];
    return sample_wave_sum(sum);
}

/* Weighs by `what` from now on; returns what all ranges weigh from the best key on. */
DEVICE double sample_weigh(struct sample_lists *l, uint32_t what, float best, double inverse, uint8_t *scratch, const uint32_t n_vocab,
                           const uint32_t threads)
{
    l->what = what;
    l->running = sample_running(scratch, n_vocab, what == SAMPLE_SHARP ? SAMPLE_SHARP : SAMPLE_FLAT);
    for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads) {
        const float first = sample_value_of(sample_sorted_at(l->sorted, s * SAMPLE_BLOCK(n_vocab)));
        l->scale[s] = sample_exp(((double)first - (double)best) * inverse);
        l->mass[s] = sample_weight(l, n_vocab, s, l->high[s]);
    }
    barrier();
    return sample_mass(l->mass, SAMPLE_BLOCKS(n_vocab));
}

/* Every stride-th key of the ranges, sorted; how many. */
DEVICE uint32_t sample_heads(const struct sample_lists *l, uint32_t stride, const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), waves = threads / WAVE;
    uint32_t *count = &sample_words()[SAMPLE_N_LISTED];
    if (thread_x() == 0) *count = 0;
    barrier();
#pragma unroll 1
    for (uint32_t from = wave_id(); from < blocks; from += 4 * waves) {
        uint32_t longest = 0;
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t s = from + k * waves;
            if (s < blocks) longest = max_u32(longest, l->high[s] - l->low[s]);
        }
        for (uint32_t i = lane_id() * stride; i < longest; i += WAVE * stride) {
            uint64_t key[4];
            for (uint32_t k = 0; k < 4; k++) {
                const uint32_t s = from + k * waves, list = s < blocks ? s : 0, at = l->low[list] + i;
                key[k] = s < blocks && at < l->high[list] ? sample_sorted_at(l->sorted, list * SAMPLE_BLOCK(n_vocab) + at) : 0;
            }
            for (uint32_t k = 0; k < 4; k++)
                if (key[k] > 0) l->heads[sample_count(count, 1)] = key[k];
        }
    }
    barrier();
    const uint32_t n = *count;
    uint32_t size = 2;
    while (size < n) size *= 2;
    for (uint32_t i = n + thread_x(); i < size; i += threads) l->heads[i] = 0;
    sample_sort(l->heads, size, threads);
    return n;
}

/* Where pivot p stands among n heads. */
DEVICE uint32_t sample_pivot(uint32_t n, uint32_t p) { return (p + 1) * n / (SAMPLE_PIVOTS + 1); }

/* Narrows the ranges to what lies between two of the pivots, which are taken from n heads; returns what stands above the ranges. */
DEVICE double sample_narrow(const struct sample_lists *l, uint32_t n, uint32_t stride, double above, double asked, uint32_t or_equal,
                            const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), all = SAMPLE_PIVOTS * blocks;
    double *sums = sample_sums();
    uint32_t *counts = (uint32_t *)(void *)l->mass;        /* of the heads from a pivot to the next one, by block */
    for (uint32_t i = thread_x(); i < all; i += threads) counts[i] = 0;
    barrier();
    for (uint32_t i = thread_x(); i < n; i += threads) {
        uint32_t p = 0;
        while (p < SAMPLE_PIVOTS && sample_pivot(n, p) < i) p++;
        if (p < SAMPLE_PIVOTS) sample_count(&counts[p * blocks + sample_id_of(l->heads[i]) / SAMPLE_BLOCK(n_vocab)], 1);
    }
    barrier();
#pragma unroll 1
    for (uint32_t i = thread_x(); i < all; i += threads) {
        const uint32_t s = i % blocks;
        uint32_t heads = 0;
        for (uint32_t k = s; k <= i; k += blocks) heads += counts[k];
        const uint32_t low = l->low[s], end = low + heads * stride, high = end < l->high[s] ? end : l->high[s];
        l->rank[i] = sample_rank(l->sorted + s * SAMPLE_BLOCK(n_vocab), heads > 0 ? end - stride + 1 : low, high,
                                 l->heads[sample_pivot(n, i / blocks)]);
    }
    barrier();
    for (uint32_t i = thread_x(); i < all; i += threads) l->mass[i] = sample_weight(l, n_vocab, i % blocks, l->rank[i]);
    barrier();
    for (uint32_t p = wave_id(); p < SAMPLE_PIVOTS; p += threads / WAVE) {
        const double sum = sample_mass(l->mass + p * blocks, blocks);
        if (lane_id() == 0) sums[p] = sum;
    }
    barrier();
    uint32_t first = 0;                          /* the first pivot that reaches what is asked for */
    for (uint32_t p = 0; p < SAMPLE_PIVOTS; p++) first += first == p && !(sums[p] > asked || (or_equal && sums[p] == asked));
    for (uint32_t s = thread_x(); s < blocks; s += threads) {
        if (first < SAMPLE_PIVOTS) l->high[s] = l->rank[first * blocks + s];
        if (first > 0) l->low[s] = l->rank[(first - 1) * blocks + s];
    }
    above = first > 0 ? sums[first - 1] : above;
    barrier();
    return above;
}

/* The first token, best first, with which all from the best on weigh more than `asked` (or_equal: at least that).  The ranges, which are to
 * begin at 0, then end behind it. */
DEVICE uint64_t sample_select(const struct sample_lists *l, double asked, uint32_t or_equal, float best, double inverse,
                              const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), room = SAMPLE_HEADS(n_vocab);
    double above = 0, rest;
    uint32_t n;
    for (uint32_t s = thread_x(); s < blocks; s += threads) l->low[s] = 0;
    barrier();
#pragma unroll 1
    for (;;) {
        uint32_t left = 0;
        for (uint32_t s = lane_id(); s < blocks; s += WAVE) left += l->high[s] - l->low[s];
        left = lanes_sum_u32(left, WAVE);
        const uint32_t stride = left <= room ? 1 : (left + room - blocks - 1) / (room - blocks);
        n = sample_heads(l, stride, n_vocab, threads);
        if (stride == 1) break;
        above = sample_narrow(l, n, stride, above, asked, or_equal, n_vocab, threads);
    }
    for (uint32_t i = thread_x(); i < n; i += threads)
        l->mass[i] = l->what == SAMPLE_COUNT ? 1 : sample_exp(((double)sample_value_of(l->heads[i]) - (double)best) * inverse);
    barrier();
    const uint32_t found = sample_find(l->mass, n, 0, asked - above, or_equal, &rest);
    for (uint32_t s = thread_x(); s < blocks; s += threads) l->high[s] = l->low[s];
    barrier();
    for (uint32_t i = thread_x(); i <= found; i += threads) sample_count(&l->high[sample_id_of(l->heads[i]) / SAMPLE_BLOCK(n_vocab)], 1);
    barrier();
    return l->heads[found];
}

/* Any options in which the order of logits matters.  Known to all threads. */
DEVICE uint32_t sample_ordered(const struct sample_chain *c, uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t block = SAMPLE_BLOCK(n_vocab);
    struct sample_lists l;
    uint64_t key = 0;
    sample_open(&l, scratch, n_vocab);
    for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads) {
        const uint32_t left = n_vocab - s * block;
        l.high[s] = left < block ? left : block;
    }
    barrier();
#pragma unroll 1
    for (uint32_t stage = 0; stage < 3; stage++) {         /* top-k; top-p; the bound and the draw */
        const uint32_t what = stage == 0 ? SAMPLE_COUNT : stage == 1 ? SAMPLE_FLAT : SAMPLE_SHARP;
        if (what == SAMPLE_COUNT && c->k == 0) continue;
        if (what == SAMPLE_FLAT && !(c->top_p < 1)) continue;
        if (what == SAMPLE_SHARP && c->bound > -__builtin_inff())
            for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads)
                l.high[s] = sample_rank(l.sorted + s * block, 0, l.high[s], (uint64_t)order_of_f32(c->bound) << 24);
        const double inverse = what == SAMPLE_SHARP ? c->inverse : 1;
        const double total = sample_weigh(&l, what, c->best, inverse, scratch, n_vocab, threads);
        const double asked = what == SAMPLE_COUNT ? (double)c->k : what == SAMPLE_FLAT ? (double)c->top_p * total : c->unit * total;
        key = sample_select(&l, asked, what != SAMPLE_SHARP, c->best, inverse, n_vocab, threads);
    }
    return sample_id_of(key);
}

/* ---- the kernel ---- */
/* min-p's bound in the word SAMPLE_BOUND, the sum over the vocabulary in all threads when there is no top-k. */
DEVICE void sample_prepare(struct sample_chain *c, const struct sample_step *step, uint8_t *scratch, const uint32_t n_vocab,
                           const uint32_t threads)
{
    if (thread_x() == 0) {
        float bound = -__builtin_inff();
        if (step->min_p > 0) bound = c->best + (step->min_p < 1 ? (float)sample_log((double)step->min_p) : 0.0f);
        sample_words()[SAMPLE_BOUND] = bits_of_f32(bound);
    }
    c->total = c->k == 0 && c->top_p < 1 ? sample_total(scratch, SAMPLE_BINS, c->best, 0, n_vocab, threads) : 0;
    barrier();
    c->bound = f32_of_bits(sample_words()[SAMPLE_BOUND]);
}

DEVICE uint32_t sample_draw(struct sample_step *step, const float *logits, uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    const uint64_t best = sample_best(scratch, n_vocab, threads);
    const uint32_t value = (uint32_t)(best >> 24);
    if (value > SAMPLE_KEY_INFINITE) return FORGE_GPU_NOT_FINITE;
    const struct sample_chances o = step->chances;
    if (!(o.temp > 0) || value <= SAMPLE_KEY_NEGATIVE || value >= SAMPLE_KEY_INFINITE) return sample_id_of(best);
    struct sample_chain c;
    c.best = sample_value_of(best);
    c.top_p = o.top_p;
    c.k = sample_has_top_k(o, n_vocab) ? (uint32_t)o.top_k : 0;
    c.inverse = 1.0 / (double)o.temp;
    c.unit = sample_random(step->random);
    sample_prepare(&c, step, scratch, n_vocab, threads);
    if (c.k == 0 && !(c.top_p < 1)) return sample_by_id(&c, logits, scratch, n_vocab, threads);
    const uint32_t in_order = sample_orders(o, n_vocab);
    if (!in_order || c.k == 0) {
        const uint32_t token = sample_listed(&c, logits, scratch, n_vocab, threads);
        if (token != SAMPLE_NOTHING || n_vocab <= SAMPLE_LIST) return token;
    }
    if (!in_order) {
        for (uint32_t b = 0; b < SAMPLE_BLOCKS(n_vocab); b++) sample_order(logits, c.inverse, n_vocab, scratch, b, threads);
        stores_done();
        barrier();
        acquire();
    }
    return sample_ordered(&c, scratch, n_vocab, threads);
}

/* The token goes to its position, the random numbers and the counts of *step go on, and the host is told last.  Steps that are on the
 * stream already read the history: it gets a token whatever was drawn. */
DEVICE void sample_finish(struct forge_gpu_step *step, const struct sample_step *was, uint32_t token, const uint32_t n_ctx)
{
    const uint32_t at = was->n_past + was->n_tokens, number = was->n_drawn + 1;
    if (at <= n_ctx) ((GLOBAL int32_t *)was->history)[at] = token == FORGE_GPU_NOT_FINITE ? 0 : (int32_t)token;
    step->n_past = at;
    step->n_tokens = 1;
    step->n_logits = 1;
    step->slot = 0;
    step->n_drawn = was->n_drawn + was->n_draws;
    step->exchanged = was->exchanged;
    if (was->row) {
        ((GLOBAL struct forge_gpu_row *)was->row)->n_past = at;
        ((GLOBAL struct forge_gpu_row *)was->row)->token = token == FORGE_GPU_NOT_FINITE ? 0 : (int32_t)token;
    }
    step->random[0] = was->random[0];
    step->random[1] = was->random[1];
    step->random[2] = was->random[2];
    step->random[3] = was->random[3];
    ((volatile GLOBAL uint64_t *)was->ring)[number % FORGE_GPU_RING] = (uint64_t)number << 32 | token;
}

DEVICE struct sample_step sample_step_of(const struct forge_gpu_step *step)
{
    const struct sample_step was = { step->n_past, step->n_tokens, step->n_drawn, step->n_draws, step->history, step->ring, step->row,
                                     { step->temp, step->top_p, step->top_k }, step->min_p,
                                     { step->random[0], step->random[1], step->random[2], step->random[3] },
                                     step->exchanged + step->exchanges };
    return was;
}

/* Draws the token that follows the step from the logits of its last token, and advances *step to the decode step of that token.  Row r of
 * the launch, one of several sequences, draws from row r of the logits by a.step[r], scratch and counters of its own.  The random
 * state goes on as in sample.c, which does not draw when temp <= 0; logits that are NaN or infinite before biases and penalties:
 * FORGE_GPU_NOT_FINITE.  To be called after pdl_wait() by all threads.
 * logits: [n_vocab <= SAMPLE_MAX_VOCAB] f32 in the arena, changed by biases, penalties and the mask, which makes minus infinity of what
 * may not come.  scratch: SAMPLE_SCRATCH_BYTES of the arena, 16-byte aligned.
 * counters: SAMPLE_COUNTERS u32, 0 before and after.  The launch has `groups` groups of `threads` threads; best are as many
 * groups as SAMPLE_BLOCKS(n_vocab) and SAMPLE_BLOCK_SEGMENTS waves each.  At most 1024 threads; 512 need no more registers than there are.
 * LDS: SAMPLE_LDS_BYTES(n_vocab).  Returns the token to the thread that has it, SAMPLE_ELSEWHERE to others. */
DEVICE uint32_t sample(const struct forge_kernel_args a, float *logits, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch,
                       uint32_t *counters, const uint32_t groups, const uint32_t threads)
{
    const uint32_t row = group_y();
    struct forge_gpu_step *own = a.step + row;
    logits += (uint64_t)row * n_vocab;
    scratch += (uint64_t)row * SAMPLE_SCRATCH_BYTES(n_vocab, groups);
    sample_segments(logits, own, 0, n_vocab, n_ctx, scratch, groups, threads);
    if (!last_to_arrive(counters + row * SAMPLE_COUNTERS, groups, &sample_words()[SAMPLE_FLAG])) return SAMPLE_ELSEWHERE;
    struct sample_step step = sample_step_of(own);
    const uint32_t token = sample_draw(&step, logits, scratch, n_vocab, threads);
    if (thread_x() > 0) return SAMPLE_ELSEWHERE;
    sample_finish(own, &step, token, n_ctx);
    return token;
}

/* ==== templates/gpu/formats/q8_0.h ==== */
/* q8_0.h -- int8 codes, a half-float scale per 32 columns. */

#define ROW_BYTES_q8_0(cols) (UNITS_OF(cols) * 64 + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_q8_0 64
#define SUMS16_q8_0 0
#define LOADS_q8_0 5

struct unit_q8_0 { u32x4 q[4]; uint32_t scales; };          /* columns 16c .. 16c+15; f16 d0, d1 */

DEVICE void load_q8_0(struct unit_q8_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) u->q[c] = load_weights16(quants_at(row, unit * 16, c * units * 16));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 64));
}
DEVICE void pin_q8_0(struct unit_q8_0 *u)
{
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) pin16(&u->q[c]);
    PIN(u->scales);
}
DEVICE float value_q8_0(const struct unit_q8_0 *u, const float p[2], const struct acts_unit *x, const uint32_t unit)
{
    (void)unit;
    return p[0] * (f32_of_f16_bits(u->scales) * x->scale.x) + p[1] * (f32_of_f16_bits(u->scales >> 16) * x->scale.y);
}
DEVICE float dot_q8_0(const struct unit_q8_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p[2] = { dot_block(u->q[0], u->q[1], x, 0, digits), dot_block(u->q[2], u->q[3], x, 1, digits) };
    return value_q8_0(u, p, x, unit);
}
/* The exact weight, rounded once. */
DEVICE void decode_q8_0(uint32_t h[32], const struct unit_q8_0 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, u->q[c] ^ 0x80808080u, 128.0f, 1.0f, both_f16(u->scales, c / 2));
}
/* Half a unit, the block `half`, for a lane that decodes no more: 32 columns to h, as decode_q8_0() gives them. */
DEVICE void load_half_q8_0(struct unit_q8_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units, const uint32_t half)
{
#pragma unroll
    for (uint32_t c = 0; c < 2; c++) u->q[c] = load_weights16(row + ((2 * half + c) * units + unit) * 16);
    u->scales = load_weights4(row + units * 64 + unit * 4);
}
DEVICE void decode_half_q8_0(uint32_t h[16], const struct unit_q8_0 *u, const uint32_t unit, const uint32_t half)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 2; c++) decode16(h + 8 * c, u->q[c] ^ 0x80808080u, 128.0f, 1.0f, both_f16(u->scales >> 16 * half, 0));
}

/* ==== templates/gpu/row_stride.h ==== */
/* row_stride.h -- bytes from one row of packed weights to the next.  Constant expressions of C, for the packer too.
 *
 * Rows are as long as ROW_BYTES of their format says, unless the target has a row_period: rows whose bytes are a multiple of it would begin
 * in the same few channels of memory, so each of them gets 16 to 128 bytes more, at most a 64th of 1,024 and more (docs/gpu.md). */

#define ROW_STRIDE(bytes) (bytes)

/* ==== templates/gpu/gemm_sizes.h ==== */
/* gemm_sizes.h -- sizes of the prefill product that plan and kernels share.  Constant expressions, for host C too. */

/* LDS rows are 64 columns of 16 bits: 128 bytes, swizzled instead of padded, so that two groups of 128 x 128 with one stage fit into AMD's
 * 64 KiB. */
#define GEMM_STEP_COLS 64
#define GEMM_ROW_LDS   128

/* Slots of the ring of a group.  A group of products in fours that has a compute unit to itself has more of them, and products of two steps
 * under way, where weights are copied (1 for f16 and bf16): nobody else fills the pauses in which it waits.  What decodes weights gains
 * nothing by it. */
#define GEMM_IS_ALONE(joined, copied, threads) ((joined) && (copied) && (threads) == 256)
#define GEMM_RING(stages, alone, tokens)       ((alone) ? ((tokens) > 128 ? 4 : 6) : (stages))
/* Slots of weights: float formats are copied, stage by stage; packed units are decoded unit_steps (1 or 2) steps ahead, while
 * as many slots are read; f32 one step ahead.  f32 weights take two planes, a high and a low f16. */
#define GEMM_WEIGHT_SLOTS(ring, copied, weight_digits, unit_steps) \
    ((copied) || (ring) < 2 ? (ring) : (weight_digits) == 2 ? 2 : 2 * (unit_steps))

/* ---- how the waves of a group share its tile ----
 * GEMM_TOKEN_WAVES along the tokens, GEMM_K_WAVES along the columns of a step, the others along the rows, so that each has a whole number
 * of tiles of 16 x 16 and the group reads the least from LDS: in each step row_waves times x and token_waves times the weights.  Waves
 * that share columns add up their sums at the end: pays where a tile is small, and in some families only (FAMILY_GEMM_K_WAVES).
 * All take a group's tokens, rows and threads and the family (machine/families.h).  sm_90a shares otherwise where four waves multiply
 * together (gemm_tmpl.c).
 *
 * t, r: tiles of 16 along tokens and rows; w: waves; n: tiles along rows that stay together, 2 where rows of a pair take turns. */
#define GEMM_DIVIDES(t, r, w, token_waves, k_waves, n) \
    ((w) % ((token_waves) * (k_waves)) == 0 && (t) % (token_waves) == 0 && (r) * (token_waves) * (k_waves) % ((w) * (n)) == 0)
/* Token waves, and 16 more with two waves along the columns; 0: none.  Two need no more LDS at the end (t >= r) and registers than 4 x 4
 * tiles. */
#define GEMM_SPLIT_OF(t, r, w, family, n) \
    (FAMILY_GEMM_K_WAVES(family) > 1 && (t) * (r) < 16 * (w) && (t) >= (r) && GEMM_DIVIDES(t, r, w, 2, 2, n) ? 18 \
     : FAMILY_GEMM_K_WAVES(family) > 1 && (t) * (r) < 16 * (w) && GEMM_DIVIDES(t, r, w, 1, 2, n) ? 17 \
     : (w) >= 8 && (r) < (t) && GEMM_DIVIDES(t, r, w, 4, 1, n) ? 4 \
     : ((w) >= 4 || (r) < (t)) && GEMM_DIVIDES(t, r, w, 2, 1, n) ? 2 \
     : GEMM_DIVIDES(t, r, w, 1, 1, n) ? 1 : GEMM_DIVIDES(t, r, w, 2, 1, n) ? 2 : GEMM_DIVIDES(t, r, w, 4, 1, n) ? 4 \
     : GEMM_DIVIDES(t, r, w, 8, 1, n) ? 8 : 0)
/* 1: a tile can be shared so that the rows of a pair stay together; else, if at all, it is for single matrices. */
#define GEMM_SHARES_PAIRS(tokens, rows, threads, family) \
    (GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 2) != 0)
#define GEMM_SPLIT(tokens, rows, threads, family) \
    (GEMM_SHARES_PAIRS(tokens, rows, threads, family) \
     ? GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 2) \
     : GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 1))
/* 0: the tile cannot be shared. */
#define GEMM_TOKEN_WAVES(tokens, rows, threads, family) (GEMM_SPLIT(tokens, rows, threads, family) % 16)
#define GEMM_K_WAVES(tokens, rows, threads, family)     (1 + GEMM_SPLIT(tokens, rows, threads, family) / 16)

#elif SECTION == SECTION_EMBED
#undef SECTION

/* ==== templates/gpu/embed_tmpl.c ==== */
/* embed_tmpl.c -- rows of the embedding table as f32.  Included once per format with FORMAT defined and formats/FORMAT.h included before;
 * gives embed_row_FORMAT.
 * A weight is the product of its unit with activations of a single 1: the format's own arithmetic, which is exact to f32's rounding, where
 * its decoding for the matrix unit rounds to f16. */

#define EMBED_JOIN2(name, format) name##format
#define EMBED_JOIN(name, format)  EMBED_JOIN2(name, format)

/* Columns 16 piece .. of a row are one thread's: of one unit of 64 columns, or of some smaller ones.  A wave has the same quarter of WAVE
 * units, so that which bits are a column's is known where the kernel is compiled.  EMBED_GROUPS (gemv_sizes.h) has as many threads. */
struct embed_piece { uint32_t unit, quarter; };
DEVICE struct embed_piece embed_piece(const uint32_t threads)
{
    const uint32_t wave = group_x() * (threads / WAVE) + wave_id();
    const struct embed_piece p = { wave / 4 * WAVE + lane_id(), wave % 4 };
    return p;
}

#define F(name) EMBED_JOIN(name, FORMAT)

/* Weight in column c, a constant, of a unit. */
DEVICE float F(embed_)(const struct F(unit_) *u, const uint32_t c, const uint32_t unit)
{
    struct acts_unit x;
    x.one = c + 1;
    x.scale.x = 1.0f;
    x.scale.y = 1.0f;
    x.scale.z = c < 32 ? 1.0f : 0.0f;
    x.scale.w = c < 32 ? 0.0f : 1.0f;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) x.sum16[i] = c / 16 == i ? 1.0f : 0.0f;
    return F(dot_)(u, &x, unit, 1);
}

/* The quarter of a unit that begins with column c, a constant. */
DEVICE void F(embed_quarter_)(float *out, const struct F(unit_) *u, const uint32_t c, const uint32_t unit, const uint32_t cols)
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        f32x4 v;
        UNROLL
        for (uint32_t k = 0; k < 4; k++) v[k] = F(embed_)(u, c + 4 * i + k, unit);
        row_quad_put(out, v, 16 * unit + c / 4 + i, cols);
    }
}

/* out: [cols] f32, 16-byte aligned.  table: packed rows of cols weights, one per token.  grid_x: EMBED_GROUPS(cols, WAVE, threads).  cols,
 * threads: constants; threads: whole waves. */
DEVICE void F(embed_row_)(float *out, const uint8_t *table, const int32_t token, const uint32_t cols, const uint32_t threads)
{
    const uint8_t *row = table + (uint64_t)(uint32_t)token * ROW_STRIDE(F(ROW_BYTES_)(cols));
    const uint32_t units = (cols + F(UNIT_COLS_) - 1) / F(UNIT_COLS_);
    const struct embed_piece p = embed_piece(threads);
    struct F(unit_) u;
    if (p.unit >= units) return;
    F(load_)(&u, row, p.unit, units);
    F(pin_)(&u);                                 /* before the branches: all loads at once */
    if (p.quarter == 0) F(embed_quarter_)(out, &u, 0, p.unit, cols);
    if (p.quarter == 1) F(embed_quarter_)(out, &u, 16, p.unit, cols);
    if (p.quarter == 2) F(embed_quarter_)(out, &u, 32, p.unit, cols);
    if (p.quarter == 3) F(embed_quarter_)(out, &u, 48, p.unit, cols);
}
#undef F

#elif SECTION == SECTION_GEMM
#undef SECTION

/* ==== templates/gpu/gemm_tmpl.c ==== */
/* gemm_tmpl.c -- products of prefill on the matrix unit: y[token][row] = x[token] . w[row].  Included once per format and shape of a
 * group's tile, with FORMAT, GEMM_TOKENS, GEMM_ROWS and GEMM_THREADS defined (the last three are undefined at the end) and formats/FORMAT.h
 * included before; gives gemm_FORMAT_<tokens>x<rows>_<threads> and, for the two matrices of a GLU,
 * gemm_pair_FORMAT_<tokens>x<rows>_<threads>.
 * GEMM_STAGES and GEMM_TOKEN_TILE belong to the program.
 *
 * A group computes a tile of GEMM_TOKENS x GEMM_ROWS in steps of 64 columns: x and weights of a step lie in LDS as 16-bit rows of 128
 * bytes, swizzled; each wave multiplies its part of the tile.  While a step is multiplied, later ones are on their way: by asynchronous
 * copies on sm_90 (a ring of slots, gemm_sizes.h), through registers elsewhere.  Quantised weights wait packed in registers and are
 * decoded to f16 one or two steps ahead.
 * sm_90a: where the shape allows (GEMM_GROUP), four waves multiply at once from LDS, and decode meanwhile.
 * Rows and tokens beyond the end are read as copies of the last ones; what they give is not handed on. */

#ifndef FORGE_GEMM_COMMON
#define FORGE_GEMM_COMMON
/* Which GEMM_TOKENS tokens a group takes.  As x, so that groups that run together share rows of weights. */
#define GEMM_TOKEN_TILE group_x()
STATIC_ASSERT(!COPIES_REACH_LDS || GEMM_STAGES >= 2, "an asynchronous copy needs a slot that is not being read");
STATIC_ASSERT(COPIES_REACH_LDS || GEMM_STAGES <= 2, "copies through registers are one step ahead");

/* What follows from the shape.  GEMM_GROUP: four waves multiply together. */
#define GEMM_GROUP       (MMA_GROUP && GEMM_THREADS % 128 == 0 && GEMM_TOKENS % (GEMM_THREADS / 2) == 0 && GEMM_ROWS % MMA_GROUP_B == 0)
#define GEMM_TILES_T     (GEMM_TOKENS / 16 / G(GEMM_PARTS_T_))            /* 16 x 16 tiles of a wave: along tokens, along rows */
#define GEMM_TILES_R     (GEMM_ROWS / 16 / G(GEMM_PARTS_R_))
/* 16-byte pieces a thread brings per step and plane, or one less. */
#define GEMM_X_COPIES    ((GEMM_TOKENS * 8 + GEMM_THREADS - 1) / GEMM_THREADS)
#define GEMM_W_UNITS     ((GEMM_ROWS + GEMM_THREADS - 1) / GEMM_THREADS)  /* rows a thread decodes per step, if it has any */
/* 1: a lane's registers hold operands twice beside the sums and what is on its way,
 * so that one set is loaded while the other is multiplied. */
#define GEMM_AHEAD \
    (2 * MMA_WIDE * MMA_WORDS * (GEMM_TILES_T + GEMM_TILES_R) + MMA_ACC * GEMM_TILES_T * GEMM_TILES_R + \
     (COPIES_REACH_LDS ? 0 : 4 * GEMM_X_COPIES + 16 * GEMM_W_UNITS) \
     <= (COPIES_REACH_LDS ? 192 : 224))

/* What a group reads.  Pointers to the first token or row of its tile, numbers of the last one that exists, counted from there. */
struct gemm_x { const uint8_t *x; uint32_t stride, last; };
/* With a pair, LDS rows are taken in turns of 16 from the one and the other matrix,
 * so that neighbouring 16 x 16 tiles of a wave are gate and up. */
struct gemm_w { const uint8_t *w, *up; uint32_t row_bytes, last, pair; };

DEVICE uint32_t min_u32(uint32_t x, uint32_t y) { return x < y ? x : y; }
DEVICE const uint8_t *gemm_row(const struct gemm_w *w, const uint32_t row)
{
    const uint8_t *from = w->pair && row / 16 % 2 ? w->up : w->w;
    return from + min_u32(w->pair ? row / 32 * 16 + row % 16 : row, w->last) * w->row_bytes;
}
/* Names of a format, and of a format and shape. */
#define GEMM_JOIN2(name, format) name##format
#define GEMM_JOIN(name, format)  GEMM_JOIN2(name, format)
#define GEMM_JOIN_SHAPE2(name, format, tokens, rows, threads) name##format##_##tokens##x##rows##_##threads
#define GEMM_JOIN_SHAPE(name, format, tokens, rows, threads)  GEMM_JOIN_SHAPE2(name, format, tokens, rows, threads)
#endif
#define F(name) GEMM_JOIN(name, FORMAT)
#define G(name) GEMM_JOIN_SHAPE(name, FORMAT, GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS)

/* Alone, a group has products of two steps under way (gemm_sizes.h).  How many steps ahead copies begin: into the
 * slot of the step before, or, alone, of the one before that. */
enum { G(GEMM_ALONE_) = GEMM_IS_ALONE(GEMM_GROUP, F(UNIT_COLS_) == 8, GEMM_THREADS) };
enum { G(GEMM_STAGES_) = GEMM_RING(GEMM_STAGES, G(GEMM_ALONE_), GEMM_TOKENS) };
enum { G(GEMM_COPIES_AHEAD_) = G(GEMM_STAGES_) - 1 - G(GEMM_ALONE_) };
/* Into how many parts the waves share tokens, columns of a step and rows. */
enum { G(GEMM_PARTS_T_) = GEMM_GROUP ? GEMM_THREADS / WAVE : GEMM_TOKEN_WAVES(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY) };
enum { G(GEMM_PARTS_K_) = GEMM_GROUP ? 1 : GEMM_K_WAVES(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY) };
STATIC_ASSERT(GEMM_TOKENS % 16 == 0 && GEMM_ROWS % 16 == 0 && G(GEMM_PARTS_T_) > 0, "each wave takes multiples of 16 tokens and rows");
enum { G(GEMM_PARTS_R_) = GEMM_THREADS / WAVE / G(GEMM_PARTS_T_) / G(GEMM_PARTS_K_) };

struct G(gemm_tile_) { struct mma_acc acc[GEMM_TILES_T][GEMM_TILES_R]; };
/* Is there a row for this thread, when each has `most` of them in turn and all are n?  Equal in a wave: rows are multiples of 16, and 16,
 * 8 or one threads bring a row. */
DEVICE uint32_t G(gemm_has_)(const uint32_t i, const uint32_t threads, const uint32_t n)
{
    return (i + 1) * threads <= n || i * threads + wave_id() * (WAVE * threads / GEMM_THREADS) < n;
}
/* The pieces of x this thread brings for a step.  at: where they lie in the first one. */
DEVICE uint32_t G(gemm_x_at_)(const struct gemm_x *x, const uint32_t i)
{
    return min_u32(thread_x() / 8 + i * (GEMM_THREADS / 8), x->last) * x->stride + thread_x() % 8 * 16;
}
DEVICE void G(gemm_x_begin_)(struct copy *c, uint32_t *at, uint8_t *slot, const struct gemm_x *x, const uint32_t step)
{
    const uint8_t *from = x->x + step * GEMM_ROW_LDS;
    PIN_BASE(from);
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++) PIN_OFFSET(at[i]);
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++)
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_TOKENS))
            copy_begin(&c[i], slot + lds_piece(thread_x() / 8 + i * (GEMM_THREADS / 8), GEMM_ROW_LDS, thread_x() % 8, 1), from + at[i], 1);
}
DEVICE void G(gemm_x_end_)(const struct copy *c, uint8_t *slot)
{
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++)
        if (G(gemm_has_)(i, GEMM_THREADS / 8, GEMM_TOKENS))
            copy_end(&c[i], slot + lds_piece(thread_x() / 8 + i * (GEMM_THREADS / 8), GEMM_ROW_LDS, thread_x() % 8, 1));
}

/* The first token of this wave's tiles i, in the group's tile. */
DEVICE uint32_t G(gemm_token_)(const uint32_t i)
{
    if (GEMM_GROUP) return (wave_id() / MMA_GROUP_WAVES * GEMM_TILES_T + i) * MMA_GROUP_A + wave_id() % MMA_GROUP_WAVES * 16;
    return (wave_id() / G(GEMM_PARTS_K_) / G(GEMM_PARTS_R_) * GEMM_TILES_T + i) * 16;
}
/* Which part of the rows, and of the columns of a step, this wave has. */
DEVICE uint32_t G(gemm_part_r_)(void) { return wave_id() / G(GEMM_PARTS_K_) % G(GEMM_PARTS_R_); }
DEVICE uint32_t G(gemm_part_k_)(void) { return wave_id() % G(GEMM_PARTS_K_); }

struct G(gemm_operands_) { struct mma_wide_a a[GEMM_TILES_T]; struct mma_wide_b b[GEMM_TILES_R]; };
/* A wave's operands of MMA_WIDE_COLS columns (from piece `piece` on) from its rows of x and of weights. */
DEVICE void G(gemm_load_)(struct G(gemm_operands_) *o, const uint8_t *x, const uint8_t *w, const uint32_t piece)
{
    UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_load_wide_b_swizzled(&o->b[r], w + r * (16 * GEMM_ROW_LDS), piece);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++) mma_load_wide_a_swizzled(&o->a[t], x + t * (16 * GEMM_ROW_LDS), piece);
}
/* One step of 64 columns, or this wave's part of them.  weight_digits: planes of the weights.
 * Sums are pinned, lest the compiler load all operands first, which takes more registers than there are. */
DEVICE void G(gemm_multiply_)(struct G(gemm_tile_) *y, const uint8_t *x, const uint8_t *w, const uint32_t weight_digits,
                              const uint32_t bf16)
{
    struct G(gemm_operands_) o[2];
    const uint32_t n_parts = GEMM_STEP_COLS / MMA_WIDE_COLS / G(GEMM_PARTS_K_), n_loads = n_parts * weight_digits,
                   first = G(gemm_part_k_)() * n_parts;
    x += G(gemm_token_)(0) * GEMM_ROW_LDS;
    w += G(gemm_part_r_)() * (GEMM_TILES_R * 16 * GEMM_ROW_LDS);
    UNROLL for (uint32_t n = 0; n < n_loads + GEMM_AHEAD; n++) {
        const uint32_t plane = n % weight_digits, m = n - GEMM_AHEAD;
        if (n < n_loads) G(gemm_load_)(&o[n % 2], x, w + plane * (GEMM_ROWS * GEMM_ROW_LDS), (first + n / weight_digits) * (2 * MMA_WIDE));
        if (n < GEMM_AHEAD) continue;
        UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
            UNROLL for (uint32_t k = 0; k < MMA_WIDE; k++)               /* outside: no product waits for the one before it */
                UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) {
                    if (bf16) mma_bf16(&y->acc[t][r], &o[m % 2].a[t].k[k], &o[m % 2].b[r].k[k]);
                    else mma_f16(&y->acc[t][r], &o[m % 2].a[t].k[k], &o[m % 2].b[r].k[k]);
                    mma_pin(&y->acc[t][r]);
                }
    }
}
/* The same by four waves at once, on their way after it. */
DEVICE void G(gemm_multiply_group_)(struct G(gemm_tile_) *y, const uint8_t *x, const uint8_t *w, const uint32_t weight_digits,
                                    const uint32_t bf16)
{
    x += wave_id() / MMA_GROUP_WAVES * (GEMM_TILES_T * MMA_GROUP_A * GEMM_ROW_LDS);
    mma_group_begin();
    UNROLL for (uint32_t plane = 0; plane < weight_digits; plane++)
        UNROLL for (uint32_t k = 0; k < 4; k++)
            UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
                UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r += 8) {
                    const uint8_t *a = x + t * (MMA_GROUP_A * GEMM_ROW_LDS);
                    const uint8_t *b = w + plane * (GEMM_ROWS * GEMM_ROW_LDS) + r * (16 * GEMM_ROW_LDS);
                    if (bf16) mma_group_bf16(&y->acc[t][r], a, b, 2 * k);
                    else mma_group_f16(&y->acc[t][r], a, b, 2 * k);
                }
    mma_group_commit();
}
DEVICE void G(gemm_wait_group_)(struct G(gemm_tile_) *y)
{
    mma_group_wait(0);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
        UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_group_sum(&y->acc[t][r]);
}
/* Adds up the sums of two waves that share columns: afterwards the first has those of tiles 0, 2 .. along tokens, the second of 1, 3 ..
 * The LDS of operands is free. */
DEVICE void G(gemm_add_up_)(struct G(gemm_tile_) *y)
{
    const uint32_t second = G(gemm_part_k_)();
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t += 2) {
        uint8_t *to = lds() + wave_id() * (GEMM_TILES_R * MMA_ACC * WAVE * 4) + lane_id() * 16;
        const uint8_t *from = lds() + (wave_id() ^ 1) * (GEMM_TILES_R * MMA_ACC * WAVE * 4) + lane_id() * 16;
        barrier();
        UNROLL for (uint32_t i = t; i < t + 2 && i < GEMM_TILES_T; i++)
            if (i % 2 != second)
                UNROLL for (uint32_t e = 0; e < GEMM_TILES_R * MMA_ACC; e += 4) {
                    const float *x = y->acc[i][e / MMA_ACC].x + e % MMA_ACC;
                    const f32x4 v = { x[0], x[1], x[2], x[3] };
                    *(f32x4 *)(void *)(to + e * (WAVE * 4)) = v;
                }
        barrier();
        UNROLL for (uint32_t i = t; i < t + 2 && i < GEMM_TILES_T; i++)
            if (i % 2 == second)
                UNROLL for (uint32_t e = 0; e < GEMM_TILES_R * MMA_ACC; e += 4) {
                    const f32x4 v = *(const f32x4 *)(const void *)(from + e * (WAVE * 4));
                    UNROLL for (uint32_t n = 0; n < 4; n++) y->acc[i][e / MMA_ACC].x[e % MMA_ACC + n] += v[n];
                }
    }
}
/* Hands on a wave's values, all of a token before the next token's.  Rows beyond the last are asked for only where a tile can have some, so
 * that in most kernels a lane has one branch a token.  With `pairs`, neighbouring tiles are gate and up of the same rows,
 * else `sink` takes each value. */
DEVICE void G(gemm_hand_on_)(const struct forge_kernel_args a, const struct G(gemm_tile_) *y, const float scale, const uint32_t first_t,
                             const uint32_t first_r, const uint32_t n_tokens, const uint32_t rows, row_sink *sink, pair_sink *pairs)
{
    const uint32_t n = pairs ? 2 : 1, whole = rows % (GEMM_ROWS / n) == 0;
    const uint32_t r0 = first_r + G(gemm_part_r_)() * (GEMM_TILES_R / n * 16);
    UNROLL for (uint32_t i = 0; i < GEMM_TILES_T; i++) {
        if (i % G(GEMM_PARTS_K_) != G(gemm_part_k_)()) continue;
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            const uint32_t t = first_t + G(gemm_token_)(i) + mma_row(mma_of_row(g, 0));
            if (t >= n_tokens) continue;
            UNROLL for (uint32_t j = 0; j < GEMM_TILES_R; j += n)
                UNROLL for (uint32_t m = 0; m < MMA_ACC / MMA_ROWS; m++) {
                    const uint32_t e = mma_of_row(g, m), r = r0 + 16 * (j / n) + mma_col(e);
                    if (!whole && r >= rows) continue;
                    if (pairs) pairs(a, t, r, y->acc[i][j].x[e] * scale, y->acc[i][j + n - 1].x[e] * scale);
                    else sink(a, t, r, y->acc[i][j].x[e] * scale);
                }
        }
    }
}

enum { G(GEMM_BF16_) = 0 };
/* COPIED: the weights are copied as they are; DIGITS: their planes in LDS; SLOTS: of the ring; LEAD: how many turns of gemm_pass_ before
 * its own a step's weights begin to be decoded. */
enum { G(GEMM_COPIED_) = 0, G(GEMM_DIGITS_) = 1, G(GEMM_LEAD_) = G(GEMM_STAGES_) < 2 ? 1 : GEMM_UNIT_STEPS };
enum { G(GEMM_SLOTS_) = GEMM_WEIGHT_SLOTS(G(GEMM_STAGES_), G(GEMM_COPIED_), G(GEMM_DIGITS_), GEMM_UNIT_STEPS) };
DEVICE uint8_t *G(gemm_w_slot_)(uint8_t *slots, const uint32_t slot) { return slots + slot * (G(GEMM_DIGITS_) * GEMM_ROWS * GEMM_ROW_LDS); }

struct G(gemm_weights_) { struct F(unit_) u[GEMM_W_UNITS]; };
/* Packed units: begin loads those of a turn, end decodes them.  They stay packed until then: a pin where they are loaded would wait on AMD.
 * LEAD turns bring as many steps, of half the rows each when there are two, so that lanes 2l and 2l + 1 load 32 bytes from one row. */
DEVICE uint32_t G(gemm_unit_row_)(const uint32_t turn, const uint32_t i)
{
    return thread_x() / G(GEMM_LEAD_) + (turn % G(GEMM_LEAD_) * GEMM_W_UNITS + i) * (GEMM_THREADS / G(GEMM_LEAD_));
}
DEVICE uint32_t G(gemm_unit_step_)(const uint32_t turn) { return turn / G(GEMM_LEAD_) * G(GEMM_LEAD_) + thread_x() % G(GEMM_LEAD_); }
/* Where rows are at most half of the threads, and copies pass through registers, two threads share a unit: all waves decode,
 * half as long. */
enum { G(GEMM_HALVES_) = G(GEMM_STAGES_) == 1 && 2 * GEMM_ROWS <= GEMM_THREADS };
DEVICE void G(gemm_begin_half_)(struct F(unit_) *u, const struct gemm_w *w, const uint32_t step, const uint32_t units)
{
    const uint32_t half = thread_x() / (GEMM_THREADS / 2), row = thread_x() % (GEMM_THREADS / 2);
    if (step < units && row < GEMM_ROWS) F(load_half_)(u, gemm_row(w, row), step, units, half);
}
DEVICE void G(gemm_end_half_)(const struct F(unit_) *u, uint8_t *slot, const uint32_t step, const uint32_t units)
{
    const uint32_t half = thread_x() / (GEMM_THREADS / 2), row = thread_x() % (GEMM_THREADS / 2);
    if (step >= units || row >= GEMM_ROWS) return;
    uint32_t h[16];
    F(decode_half_)(h, u, step, half);
    UNROLL for (uint32_t n = 0; n < 4; n++) {
        const u32x4 v = { h[4 * n], h[4 * n + 1], h[4 * n + 2], h[4 * n + 3] };
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, 4 * half + n, 1)) = v;
    }
}
DEVICE void G(gemm_begin_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t turn, const uint32_t slot,
                           const uint32_t units)
{
    const uint32_t step = G(gemm_unit_step_)(turn);
    (void)slots; (void)slot;
    if (G(GEMM_HALVES_)) {
        G(gemm_begin_half_)(&n->u[0], w, step, units);
        return;
    }
    UNROLL for (uint32_t i = 0; i < GEMM_W_UNITS; i++)
        if (step < units && G(gemm_unit_row_)(turn, i) < GEMM_ROWS)
            F(load_)(&n->u[i], gemm_row(w, G(gemm_unit_row_)(turn, i)), step, units);
}
/* A decoded unit to its row.  Of two lanes that write the same row of two slots,
 * one begins in the middle: else both would want the same banks. */
DEVICE void G(gemm_store_)(uint8_t *slot, const uint32_t h[32], const uint32_t row)
{
    const uint32_t swap = G(GEMM_LEAD_) == 2 && thread_x() % 2;
    UNROLL for (uint32_t n = 0; n < 4; n++) {
        const u32x4 low = { h[4 * n], h[4 * n + 1], h[4 * n + 2], h[4 * n + 3] };
        const u32x4 high = { h[4 * n + 16], h[4 * n + 17], h[4 * n + 18], h[4 * n + 19] };
        u32x4 first = low, second = high;
        if (swap) {
            first = high;
            second = low;
        }
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, n ^ 4 * swap, 1)) = first;
        *(u32x4 *)(void *)(slot + lds_piece(row, GEMM_ROW_LDS, n ^ 4 ^ 4 * swap, 1)) = second;
    }
}
DEVICE void G(gemm_end_)(struct G(gemm_weights_) *n, uint8_t *slots, const struct gemm_w *w, const uint32_t turn, const uint32_t units)
{
    const uint32_t step = G(gemm_unit_step_)(turn);
    (void)w;
    if (G(GEMM_HALVES_)) {
        G(gemm_end_half_)(&n->u[0], G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_)), step, units);
        return;
    }
    UNROLL for (uint32_t i = 0; i < GEMM_W_UNITS; i++)
        if (step < units && G(gemm_unit_row_)(turn, i) < GEMM_ROWS) {
            uint32_t h[32];
            F(pin_)(&n->u[i]);
            F(decode_)(h, &n->u[i], step);
            G(gemm_store_)(G(gemm_w_slot_)(slots, step % G(GEMM_SLOTS_)), h, G(gemm_unit_row_)(turn, i));
        }
}

/* What is on its way, and where the slots are. */
struct G(gemm_ahead_) {
    struct copy x[GEMM_X_COPIES];
    uint32_t x_at[GEMM_X_COPIES];
    struct G(gemm_weights_) w;
    uint8_t *x_slots, *w_slots;
};
/* Slots are numbered round the ring: the slot of a step is its number modulo the slots. */
DEVICE uint8_t *G(gemm_x_slot_)(const struct G(gemm_ahead_) *n, const uint32_t slot)
{
    return n->x_slots + slot * (GEMM_TOKENS * GEMM_ROW_LDS);
}
/* Starts what goes to LDS by itself for `step`, in ring slot `slot`.  Always closes a group of copies, so that they can be counted. */
DEVICE void G(gemm_start_)(struct G(gemm_ahead_) *n, const struct gemm_x *x, const struct gemm_w *w, const uint32_t step,
                           const uint32_t slot, const uint32_t units)
{
    if (step < units) {
        G(gemm_x_begin_)(n->x, n->x_at, G(gemm_x_slot_)(n, slot), x, step);
        if (G(GEMM_COPIED_)) G(gemm_begin_)(&n->w, n->w_slots, w, step, slot, units);
    }
    copy_commit();
}
/* Takes what came through registers in turn `turn` to LDS and loads what the next one takes: x of step `turn`,
 * weights as gemm_end_ says. */
DEVICE void G(gemm_pass_)(struct G(gemm_ahead_) *n, const struct gemm_x *x, const struct gemm_w *w, const uint32_t step,
                          const uint32_t turn, const uint32_t units)
{
    if (!COPIES_REACH_LDS && step < units) G(gemm_x_end_)(n->x, G(gemm_x_slot_)(n, step % G(GEMM_STAGES_)));
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_end_)(&n->w, n->w_slots, w, turn, units);
    if (!COPIES_REACH_LDS && step + 1 < units) G(gemm_x_begin_)(n->x, n->x_at, n->x_slots, x, step + 1);
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_begin_)(&n->w, n->w_slots, w, turn + 1, 0, units);
}
/* The tile of products, not yet unscaled. */
DEVICE void G(gemm_run_)(struct G(gemm_tile_) *y, const struct gemm_x *x, const struct gemm_w *w, const uint32_t units)
{
    struct G(gemm_ahead_) n;
    n.x_slots = lds();
    n.w_slots = lds() + G(GEMM_STAGES_) * GEMM_TOKENS * GEMM_ROW_LDS;
    UNROLL for (uint32_t i = 0; i < GEMM_X_COPIES; i++) n.x_at[i] = G(gemm_x_at_)(x, i);
    UNROLL for (uint32_t t = 0; t < GEMM_TILES_T; t++)
        UNROLL for (uint32_t r = 0; r < GEMM_TILES_R; r++) mma_zero(&y->acc[t][r]);
    if (!COPIES_REACH_LDS || !G(GEMM_COPIED_)) G(gemm_begin_)(&n.w, n.w_slots, w, 0, 0, units);
    if (!COPIES_REACH_LDS) G(gemm_x_begin_)(n.x, n.x_at, n.x_slots, x, 0);
    else
        UNROLL for (uint32_t s = 0; s < G(GEMM_COPIES_AHEAD_); s++) G(gemm_start_)(&n, x, w, s, s, units);
    if (G(GEMM_LEAD_) == 2) {                    /* a turn of weights alone */
        G(gemm_end_)(&n.w, n.w_slots, w, 0, units);
        G(gemm_begin_)(&n.w, n.w_slots, w, 1, 0, units);
    }
    G(gemm_pass_)(&n, x, w, 0, G(GEMM_LEAD_) - 1, units);
    uint32_t slot = 0;
#pragma clang loop unroll(disable)
    for (uint32_t s = 0; s < units; s++) {
        const uint8_t *x_now = G(gemm_x_slot_)(&n, slot), *w_now = G(gemm_w_slot_)(n.w_slots, G(GEMM_COPIED_) ? slot : s % G(GEMM_SLOTS_));
        if (COPIES_REACH_LDS) copy_wait(G(GEMM_COPIES_AHEAD_) > 0 ? G(GEMM_COPIES_AHEAD_) - 1 : 0);
        if (GEMM_GROUP) mma_group_written();
        barrier();
        if (GEMM_GROUP) G(gemm_multiply_group_)(y, x_now, w_now, G(GEMM_DIGITS_), G(GEMM_BF16_));
        if (COPIES_REACH_LDS)
            G(gemm_start_)(&n, x, w, s + G(GEMM_COPIES_AHEAD_), (slot + G(GEMM_COPIES_AHEAD_)) % G(GEMM_STAGES_), units);
        if (G(GEMM_STAGES_) > 1) G(gemm_pass_)(&n, x, w, s + 1, s + G(GEMM_LEAD_), units);
        if (GEMM_GROUP) mma_group_wait(G(GEMM_ALONE_));
        else G(gemm_multiply_)(y, x_now, w_now, G(GEMM_DIGITS_), G(GEMM_BF16_));
        if (G(GEMM_STAGES_) == 1) {
            if (s + 1 == units) break;
            barrier();
            G(gemm_pass_)(&n, x, w, s + 1, s + 1, units);
        }
        slot = slot + 1 == G(GEMM_STAGES_) ? 0 : slot + 1;
    }
    if (GEMM_GROUP) G(gemm_wait_group_)(y);
    if (G(GEMM_PARTS_K_) > 1) G(gemm_add_up_)(y);
}
/* y[t][r] = x[t] . w[r] for this group's tokens, t0 + GEMM_TOKEN_TILE * GEMM_TOKENS on, below n_tokens, and rows tile * GEMM_ROWS on, below
 * rows; each goes to sink(a, t, r, y), from one thread once.
 * w: packed rows of `cols` columns (docs/gpu.md).  x: token t at x + t x_stride (a multiple of 16), 16-bit values in `cols` columns and
 * zeros up to a multiple of 64: bf16 for FORMAT bf16, else f16 times STAGE_SCALE.
 * tile: one that has rows.  LDS: GEMM_LDS_BYTES from its start; between two products in one kernel stands a barrier().  All GEMM_THREADS
 * threads call it, after pdl_wait(); groups without tokens return at once.  rows, cols, x_stride: constants. */
DEVICE void G(gemm_)(const struct forge_kernel_args a, const uint8_t *w, const uint32_t rows, const uint32_t cols, const uint8_t *x,
                     const uint32_t x_stride, uint32_t tile, uint32_t t0, uint32_t n_tokens, row_sink *sink)
{
    const uint32_t first_t = t0 + GEMM_TOKEN_TILE * GEMM_TOKENS, first_r = tile * GEMM_ROWS, row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols));
    const float scale = G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE;
    if (first_t >= n_tokens) return;
    struct G(gemm_tile_) y;
    const struct gemm_x from = { x + (uint64_t)first_t * x_stride, x_stride, n_tokens - 1 - first_t };
    const struct gemm_w of = { w + (uint64_t)first_r * row_bytes, w, row_bytes, rows - 1 - first_r, 0 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, scale, first_t, first_r, n_tokens, rows, sink, 0);
}
#if GEMM_SHARES_PAIRS(GEMM_TOKENS, GEMM_ROWS, GEMM_THREADS, FAMILY)
/* The same for two matrices of `rows` rows, GEMM_ROWS / 2 rows of each from tile * (GEMM_ROWS / 2) on: sink(a, t, r, gate, up). */
DEVICE void G(gemm_pair_)(const struct forge_kernel_args a, const uint8_t *gate, const uint8_t *up, const uint32_t rows,
                          const uint32_t cols, const uint8_t *x, const uint32_t x_stride, uint32_t tile, uint32_t t0, uint32_t n_tokens,
                          pair_sink *sink)
{
    const uint32_t first_t = t0 + GEMM_TOKEN_TILE * GEMM_TOKENS, first_r = tile * (GEMM_ROWS / 2);
    const uint32_t row_bytes = ROW_STRIDE(F(ROW_BYTES_)(cols));
    const float scale = G(GEMM_BF16_) ? 1.0f : STAGE_UNSCALE;
    if (first_t >= n_tokens) return;
    struct G(gemm_tile_) y;
    const struct gemm_x from = { x + (uint64_t)first_t * x_stride, x_stride, n_tokens - 1 - first_t };
    const struct gemm_w of = { gate + (uint64_t)first_r * row_bytes, up + (uint64_t)first_r * row_bytes, row_bytes, rows - 1 - first_r, 1 };
    G(gemm_run_)(&y, &from, &of, (cols + 63) / 64);
    G(gemm_hand_on_)(a, &y, scale, first_t, first_r, n_tokens, rows, 0, sink);
}
#endif
#undef F
#undef G
#undef GEMM_TOKENS
#undef GEMM_ROWS
#undef GEMM_THREADS

#elif SECTION == SECTION_GEMV
#undef SECTION

/* ==== templates/gpu/gemv_tmpl.c ==== */
/* gemv_tmpl.c -- decode: y = W x for one token.  Included once per (FORMAT, ROWS, LANES), and DEPTH where that is chosen too, after
 * formats/FORMAT.h; a program may hold several.
 *
 * A run of LANES neighbouring lanes is a *slot*: it works on ROWS rows at a time, lane k on their units k, k + LANES, ...  One such portion
 * of rows is a *row group*; slot s takes the row groups s, s + stride, ...  A *step* is DEPTH units of each of the ROWS rows for every
 * lane.  While a step is used the next one, of the same row group or of the slot's next, is on its way into the other of two named register
 * buffers: rotating one buffer into the other would wait for all loads.
 *
 * All lanes of a wave take equally many steps, so that they meet in the sums over lanes; a lane without a unit takes the zero entry of the
 * activations, a slot without a row group computes one that nobody stores.  The loads stand in no branch and the loop has one exit: on AMD
 * a wait counts the loads issued since, and where paths with different counts meet it becomes a wait for everything.
 *
 * With COLUMNS: y = W x for up to so many tokens, of which each gets the bits that it gets alone; weights are read and unpacked once. */

#ifndef FORGE_GEMV_COMMON
#define FORGE_GEMV_COMMON
#define GEMV_PASTE4(name, format, rows, lanes) name##_##format##_##rows##x##lanes
#define GEMV_PASTE(name, format, rows, lanes) GEMV_PASTE4(name, format, rows, lanes)
#define GEMV_OF2(name, format) name##_##format
#define GEMV_OF(name, format) GEMV_OF2(name, format)

/* First slot of this lane among those of the whole grid of `groups` groups.  Neighbours in number are in different groups, so that the
 * row groups of an incomplete last round are spread over the compute units. */
DEVICE uint32_t gemv_slot(const uint32_t groups, const uint32_t lanes)
{
    const uint32_t slot = (group_x() + groups * wave_id()) * (WAVE / lanes);
    return lanes == WAVE ? slot : slot + lane_id() / lanes;
}

/* How many row groups the slots of a wave go through, the same for all of them: consecutive modulo stride, one of them has a row group in
 * the last, incomplete round when the first has, or when they wrap. */
DEVICE uint32_t gemv_rounds(uint32_t slot, uint32_t groups, const uint32_t stride, const uint32_t lanes)
{
    const uint32_t rest = groups % stride, before = lanes == WAVE ? 0 : lane_id() / lanes,
                   first = slot >= before ? slot - before : slot + stride - before;
    return groups / stride + (rest > 0 && (first < rest || first + WAVE / lanes > stride));
}

/* One matrix of `rows` rows, or with paired 1 two of them, of which every row group has half. */
struct gemv_matrices {
    const uint8_t *w, *w_pair;
    uint32_t       rows, paired;
};
#endif

#define GEMV_NAME(name) GEMV_PASTE(name, FORMAT, ROWS, LANES)
#define G(name) GEMV_NAME(name)
#define X(name) GEMV_OF(name, FORMAT)

/* Units of a row in a step: at least 4 loads under way per buffer and lane, 8 of floats, which need little else; more than 4 units of a row
 * ask for too many activations at once. */
#define STEP_UNITS (X(UNIT_COLS) == 64 ? (3 + ROWS * X(LOADS)) / (ROWS * X(LOADS)) : ROWS < 2 ? 4 : (7 + ROWS) / ROWS)

/* The registers of one step. */
struct G(first) { struct X(unit) u[ROWS][STEP_UNITS]; };

/* What a slot has done and does next. */
struct G(gemv_state) {
    uint32_t lane;                               /* of the slot */
    uint32_t next_group, next_unit;              /* of the step that is loaded next; its first unit in the row */
    uint32_t unit;                               /* first unit of the step that is used next */
    uint32_t group, count;                       /* row groups group, group + stride, .. (count of them) are summed and not yet stored */
    float    sum[ROWS];                          /* this lane's part of the rows at work */
    float    y, up;                              /* lane i has row i of those summed; up: of the second matrix, paired */
    float    more;                               /* what is added to that row */
};

#define GEMV_UNITS(cols) (64 * ACTS_UNITS(cols) / X(UNIT_COLS))
/* Steps of a row, and units of a row and lane in each of them: at most STEP_UNITS, fewer where that many steps do with fewer. */
DEVICE uint32_t G(gemv_steps)(const uint32_t cols) { return (GEMV_UNITS(cols) + LANES * (STEP_UNITS) - 1) / (LANES * (STEP_UNITS)); }
DEVICE uint32_t G(gemv_depth)(const uint32_t cols)
{
    return ((GEMV_UNITS(cols) + LANES - 1) / LANES + G(gemv_steps)(cols) - 1) / G(gemv_steps)(cols);
}

DEVICE uint32_t G(gemv_groups)(const struct gemv_matrices *m)
{
    const uint32_t each = m->paired ? ROWS / 2 : ROWS;
    return (m->rows + each - 1) / each;
}

/* The step of a slot at row group `group` from unit `unit` on.  Beyond the last row group all lanes read one place,
 * which costs next to nothing. */
DEVICE void G(gemv_load)(struct G(first) *s, const struct gemv_matrices *m, uint32_t group, uint32_t unit, uint32_t lane,
                         const uint32_t cols)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols), groups = G(gemv_groups)(m), each = m->paired ? ROWS / 2 : ROWS;
    const uint32_t live = group < groups, first_row = (live ? group : groups - 1) * each, at = unit + (live ? lane : 0);
    const uint32_t row_bytes = ROW_STRIDE(X(ROW_BYTES)(cols));
    __builtin_assume(at < units + LANES);           /* then places within a row do not wrap: constants go into the load instructions */
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t i = first_row + r % each;
        const uint8_t *row = (r < each ? m->w : m->w_pair) + (uint64_t)(i < m->rows ? i : m->rows - 1) * row_bytes;
#pragma unroll
        for (uint32_t d = 0; d < STEP_UNITS; d++) {
            uint32_t u = at + d * LANES;
            if (units % (LANES * depth) != 0 && u >= units) u = units - 1;
            if (d < depth) X(load)(&s->u[r][d], row, u, units);
        }
    }
}

/* The activations that one unit of a row is multiplied with. */
struct G(act) {
    struct acts_unit x;
};

/* Those of unit `at` of a row in LDS, of `units` units in `cols` columns; at == units: zeros. */
DEVICE void G(gemv_act)(struct G(act) *act, const uint8_t *x_lds, uint32_t at, const uint32_t units, const uint32_t cols,
                        const uint32_t digits)
{
    acts_load(&act->x, x_lds, at, units, digits, X(SUMS16));
    (void)cols;
}

/* unit: number of u in its row. */
DEVICE float G(gemv_dot)(const struct X(unit) *u, const struct G(act) *act, uint32_t unit, const uint32_t digits)
{
    return X(dot)(u, &act->x, unit, digits);
}

/* sum[r] += the products of a step; unit: this lane's first. */
DEVICE void G(gemv_use)(float sum[ROWS], struct G(first) *s, uint32_t unit, const uint8_t *x_lds, const uint32_t cols,
                        const uint32_t digits)
{
    const uint32_t units = GEMV_UNITS(cols), depth = G(gemv_depth)(cols);
#pragma unroll
    for (uint32_t d = 0; d < STEP_UNITS; d++) {
        if (d >= depth) continue;
        const uint32_t i = unit + d * LANES, at = units % (LANES * depth) != 0 && i > units ? units : i;
        struct G(act) act;
        G(gemv_act)(&act, x_lds, at, units, cols, digits);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            X(pin)(&s->u[r][d]);
            sum[r] += G(gemv_dot)(&s->u[r][d], &act, i, digits);
            PIN_F32(sum[r]);
        }
    }
}

/* The slot's next step into s. */
DEVICE void G(gemv_next)(struct G(gemv_state) *k, struct G(first) *s, const struct gemv_matrices *m, const uint32_t cols,
                         const uint32_t stride)
{
    G(gemv_load)(s, m, k->next_group, k->next_unit, k->lane, cols);
    COMPILER_FENCE();
    k->next_unit += LANES * G(gemv_depth)(cols);
    if (k->next_unit == LANES * G(gemv_depth)(cols) * G(gemv_steps)(cols)) { k->next_unit = 0; k->next_group += stride; }
}

/* One step; after the last of a row its sum is there. */
DEVICE void G(gemv_step)(struct G(gemv_state) *k, struct G(first) *s, const struct gemv_matrices *m, const uint8_t *x_lds,
                         const uint32_t cols, const uint32_t digits)
{
    const uint32_t step_units = LANES * G(gemv_depth)(cols), each = m->paired ? ROWS / 2 : ROWS;
    G(gemv_use)(k->sum, s, k->unit + k->lane, x_lds, cols, digits);
    k->unit += step_units;
    if (k->unit != step_units * G(gemv_steps)(cols)) return;
    k->unit = 0;
    lanes_sums_f32(k->sum, ROWS, LANES);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t mine = k->lane == k->count * each + r % each;
        if (r < each) k->y  = mine ? k->sum[r] : k->y;
        else          k->up = mine ? k->sum[r] : k->up;
        k->sum[r] = 0;
    }
    k->count++;
}

/* The row that this lane stores of the row groups that come next. */
DEVICE uint32_t G(gemv_own_row)(const struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride)
{
    const uint32_t each = m->paired ? ROWS / 2 : ROWS;
    return (k->group + k->lane / each * stride) * each + k->lane % each;
}

/* What is added to the lane's row, before its sum is there: so its latency is not seen. */
DEVICE void G(gemv_add)(const struct forge_kernel_args a, struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride,
                        row_addend *addend)
{
    const uint32_t row = G(gemv_own_row)(k, m, stride);
    k->more = 0;
    if (addend && row < m->rows) k->more = addend(a, 0, row);
}

/* The rows that are summed and not yet stored go to the sink, one lane each.
 * Many at a time: on AMD a load in the sink waits for all loads before it. */
DEVICE void G(gemv_store)(const struct forge_kernel_args a, struct G(gemv_state) *k, const struct gemv_matrices *m, const uint32_t stride,
                          row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t row = G(gemv_own_row)(k, m, stride);
    if (k->lane / (m->paired ? ROWS / 2 : ROWS) < k->count && row < m->rows) {
        if (m->paired) sink_pair(a, 0, row, k->y, k->up);
        else sink(a, 0, row, k->y + k->more);
    }
    k->group += k->count * stride;
    k->count = 0;
}

DEVICE uint32_t G(gemv_run)(const struct forge_kernel_args a, const struct G(first) *f, const struct gemv_matrices *m, const uint32_t cols,
                            const uint8_t *x_lds, const uint32_t digits, uint32_t slot, const uint32_t stride, row_addend *addend,
                            row_sink *sink, pair_sink *sink_pair)
{
    const uint32_t groups = G(gemv_groups)(m), rounds = groups / stride, rest = groups % stride,
                   batch = LANES / (m->paired ? ROWS / 2 : ROWS),
                   left = uniform(gemv_rounds(slot, groups, stride, LANES) * G(gemv_steps)(cols));
    if (left > 0) {
        struct G(first) even, odd;
        struct G(gemv_state) k = { LANES == WAVE ? lane_id() : lane_id() % LANES, slot, 0, 0, slot, 0, { 0 }, 0, 0, 0 };
        G(gemv_add)(a, &k, m, stride, addend);
        if (f) even = *f;
        else G(gemv_load)(&even, m, slot, 0, k.lane, cols);
        k.next_unit = LANES * G(gemv_depth)(cols);
        if (G(gemv_steps)(cols) == 1) { k.next_unit = 0; k.next_group += stride; }
#pragma unroll 1
        for (uint32_t pairs = left / 2; pairs > 0; pairs--) {
            G(gemv_next)(&k, &odd, m, cols, stride);
            G(gemv_step)(&k, &even, m, x_lds, cols, digits);
            if (batch % 2 && rounds + (rest > 0) > batch && k.count == batch) {
                G(gemv_store)(a, &k, m, stride, sink, sink_pair);
                G(gemv_add)(a, &k, m, stride, addend);
            }
            G(gemv_next)(&k, &even, m, cols, stride);
            G(gemv_step)(&k, &odd, m, x_lds, cols, digits);
            if (rounds + (rest > 0) > batch && k.count == batch) {
                G(gemv_store)(a, &k, m, stride, sink, sink_pair);
                G(gemv_add)(a, &k, m, stride, addend);
            }
        }
        if (left % 2) G(gemv_step)(&k, &even, m, x_lds, cols, digits);
        G(gemv_store)(a, &k, m, stride, sink, sink_pair);
    }
    return slot < rest ? slot + stride - rest : slot - rest;
}

/* ---- what a kernel calls ----
 * cols, rows, digits, stride: constants.  x_lds: the row as acts.h puts it there, with the same cols and digits,
 * with sums16 when SUMS16_<FORMAT>.
 * slot: from gemv_slot(); stride: all slots of the grid, groups * threads / LANES.
 * f: what gemv_begin loaded for the same slot and matrices, before pdl_wait() if one likes, or NULL.
 * Each row's value goes to the sink once, with t = 0, from one lane; addend, which may be NULL, is asked for what is added to it before.
 * Result: the slot to go on with in the next matrix, so that its row groups begin where this one's ended. */
/* COLUMNS: t0 + c in the place of t = 0 for the row of column c. */
#define GEMV_X const uint8_t *
/* The first step of gemv, or with w_pair not NULL of gemv_pair. */
DEVICE void G(gemv_begin)(struct G(first) *f, const uint8_t *w, const uint8_t *w_pair, const uint32_t rows, const uint32_t cols,
                          uint32_t slot)
{
    const struct gemv_matrices m = { w, w_pair, rows, w_pair ? 1u : 0u };
    G(gemv_load)(f, &m, slot, 0, LANES == WAVE ? lane_id() : lane_id() % LANES, cols);
}
DEVICE uint32_t G(gemv)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *w, const uint32_t rows,
                        const uint32_t cols, GEMV_X x, const uint32_t digits, uint32_t slot, const uint32_t stride,
                        row_addend *addend, row_sink *sink)
{
    const struct gemv_matrices m = { w, w, rows, 0 };
    return G(gemv_run)(a, f, &m, cols, x, digits, slot, stride, addend, sink, (pair_sink *)0);
}

/* Two matrices of one shape, ROWS / 2 rows of each at a time: the two values of a row go to the sink together. */
DEVICE uint32_t G(gemv_pair)(const struct forge_kernel_args a, const struct G(first) *f, const uint8_t *gate, const uint8_t *up,
                             const uint32_t rows, const uint32_t cols, GEMV_X x, const uint32_t digits, uint32_t slot,
                             const uint32_t stride, pair_sink *sink)
{
    const struct gemv_matrices m = { gate, up, rows, 1 };
    return G(gemv_run)(a, f, &m, cols, x, digits, slot, stride, (row_addend *)0, (row_sink *)0, sink);
}

#undef G
#undef X
#undef GEMV_UNITS
#undef GEMV_X
#undef GEMV_NAME
#undef STEP_UNITS
#undef DEPTH
#undef COLUMNS
#undef LANES
#undef ROWS
#endif
