/* cases.h -- the parameters of test kernels and the addresses of their results, for a test and for its kernels.  Addresses lie in rooms and
 * are as kernels see them. */
#ifndef FORGE_TESTS_CASES_H
#define FORGE_TESTS_CASES_H

/* ---- formats: a thread for each unit of each row (group_y) ---- */
struct formats_case {
    const uint8_t *rows;                         /* packed */
    uint32_t       row_bytes, units, steps;      /* units of 64 columns; steps: units of the format */
    uint32_t       digits;                       /* of acts */
    const struct acts_unit *acts;                /* [row][step]; formats of blocks */
    const float   *floats;                       /* [row][step][8]; formats of floats */
    float         *product;                      /* [row][step] */
    uint32_t      *decoded;                      /* [row][step][FORMATS_WORDS] as pairs of 16 bits; f32: two words, then the remainder */
};
#define FORMATS_WORDS 32

/* ---- gemv ---- */
/* GEMV_CHAIN: the next matrix begins at the slot where the previous matrix ended. */
enum gemv_mode { GEMV_PLAIN, GEMV_PAIR, GEMV_CHAIN, GEMV_MODES };
enum { GEMV_MATRICES = 3 };
enum gemv_wrong { GEMV_WRONG_ACTS, GEMV_WRONG_SLOT, GEMV_WRONG_ROW, GEMV_WRONGS };
struct gemv_case {
    uint32_t mode, rows[GEMV_MATRICES], cols, digits, norm, begin, threads, groups;      /* norm 2: with weights; begin: load early */
    float    eps;
    const float   *row, *norm_weight;            /* [cols] */
    const uint8_t *w[GEMV_MATRICES];             /* packed */
    float    *y[GEMV_MATRICES];                  /* [rows] */
    uint32_t *calls[GEMV_MATRICES];              /* [rows]: how often each value was stored */
    float    *seen;                              /* [cols]: the activations as they are in LDS; or NULL */
    uint32_t *wrong;                             /* [GEMV_WRONGS] */
};
/* Tiles: rows x lanes; some formats have more tiles (WAVE lanes: DEPTH 2 with 4 rows, 3 with 8). */
#define GEMV_TILES(X) X(2, 32) X(4, 8)
#define GEMV_ALL_TILES(X) GEMV_TILES(X) X(1, 16) X(3, 16) X(3, 32) X(8, 8) X(1, WAVE) X(4, WAVE)
#define GEMV_MORE_TILES_OF(file) (!strcmp(file, "f32") || !strcmp(file, "q8_0") || !strcmp(file, "q4_K"))
#define GEMV_MORE_TILES_f32 1
#define GEMV_MORE_TILES_q8_0 1
#define GEMV_MORE_TILES_q4_K 1
/* With -DMODELS: products of an 8B model with a part of their rows.  Name, mode, rows of three matrices, columns, norm. */
#define GEMV_MODELS(X) X(down, GEMV_PLAIN, 1024, 0, 0, 14336, 0) X(qkv, GEMV_CHAIN, 1024, 256, 256, 4096, 2) \
    X(gate_up, GEMV_PAIR, 1024, 1024, 0, 4096, 2)
#ifndef GEMV_MODEL_ROWS                          /* -D sets other values, for tests/device/compile.sh */
#define GEMV_MODEL_ROWS 2
#endif
#ifndef GEMV_MODEL_LANES
#define GEMV_MODEL_LANES 32
#endif
#ifndef GEMV_MODEL_THREADS
#define GEMV_MODEL_THREADS 512
#endif
#ifndef GEMV_MODEL_GROUPS                        /* of the launch */
#define GEMV_MODEL_GROUPS 8
#endif

/* ---- gemv_matrix ---- */
/* token: the first token; kernels alone_* compute only this token.  w, y: [n][rows]; calls: as in gemv_case; the rest: as in struct
 * gemv_matrix. */
struct gemv_matrix_case {
    uint32_t mode, rows[GEMV_MATRICES], cols, digits, norm, n, token, threads, groups, ranks, x_bytes, parts_at, exchange_at, ring_at,
             ring_bytes;
    float    eps;
    uint64_t x_stride;                           /* floats */
    const float   *x, *norm_weight;              /* [n][x_stride], [cols] */
    const uint8_t *w[GEMV_MATRICES];
    float    *y[GEMV_MATRICES];
    uint32_t *calls[GEMV_MATRICES];
};
/* Format, its file, lanes, stages, tokens. */
#define GEMV_MATRIX_SHAPES(X) X(Q4_K, q4_K, 32, 3, 8) X(Q4_K, q4_K, 8, 4, 3) X(Q6_K, q6_K, 16, 2, 5) X(Q8_0, q8_0, 32, 2, 8)

/* ---- gemm ---- */
struct gemm_case {
    uint32_t rows, cols, n_tokens, t0, x_stride;
    const uint8_t *x, *w[2];                     /* [n_tokens] rows of 16-bit activations; packed */
    float    *y[2];                              /* [n_tokens][rows]; y[1]: the product with `up` of a pair */
    uint32_t *calls;                             /* [n_tokens][rows]: how often each value was stored */
    float    *decoded[2];                        /* [rows][units * 64]: the weights as the kernel multiplies them */
};
/* The tile of every format; -D sets another. */
#ifndef TILE_TOKENS
#define TILE_TOKENS 128
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 128
#endif
#ifndef TILE_THREADS
#define TILE_THREADS 128
#endif
/* More tiles, in which two threads share a unit: format, its file, tokens, rows, threads. */
#define GEMM_MORE_TILES(X) X(BF16, bf16, 48, 256, 256) X(Q4_K, q4_K, 64, 128, 256) X(Q6_K, q6_K, 64, 128, 256) X(Q8_0, q8_0, 64, 128, 256)
/* With -DMODELS: products of an 8B model, with a part of their rows. */
enum { GEMM_MODEL_ROWS = 512, GEMM_MODEL_COLS = 4096, GEMM_MODEL_STRIDE = 2 * GEMM_MODEL_COLS };

/* ---- stage: rows prepared for products, norms, elementwise operations, embedding rows ---- */
enum stage_what { STAGE_ADD, STAGE_BIAS, STAGE_SILU, STAGE_GELU, STAGE_WHATS };
struct stage_case {
    uint32_t cols, threads, norm, bf16, what, x_stride, out_stride;      /* strides in bytes */
    float    eps;
    const uint8_t *x, *y, *table;                /* table: packed embedding rows */
    const float   *weight;
    const int32_t *tokens;
    uint8_t *out;
};

/* ---- attention of decode and of prefill; the cache is args.state at args.state_at ---- */
struct attention_case {
    uint32_t kind;                               /* KV_KIND_*: the type of the cache */
    uint32_t n_head, n_head_kv, head_dim, n_ctx, n_rot, neox, block, splits, spans, span, rows, matrix, threads, cluster, n_tokens, window,
             ring;
    float    scale, eps;
    float   *q, *k_new, *v_new, *q_norm, *k_norm, *hi, *lo;      /* NULL: k and v are in the cache; no norms; no rotation */
    float   *out, *parts, *ml, *scores;
    uint32_t *counters, *halves;                 /* halves: results of kv_load_f16, [..][4]; out: results of kv_load, [..][8] */
    /* prefill only */
    uint32_t digits, causal, out_kind, fours;    /* out_kind: rows of f32, staged f16, bf16 */
    uint64_t out_stride, q_stride;
    /* with -DATTENTION_MORE, as in programs of models with caps or sinks */
    float    cap;                                /* of scores, 0: no cap */
    float   *sinks;                              /* [n_head]: a score without a value; or NULL */
    /* wide heads: columns of V; 1: V is the first of K; the plane of V */
    uint32_t value_dim, view;
    uint8_t *values;
};
/* With -DMODELS.  Name; query heads, KV heads, dimensions; norms; rotated dimensions, pairs; splits, spans of 1024 positions, threads; 1:
 * the splits are a cluster; digits on the matrix unit */
#define DECODE_MODELS(X) \
    X(llama_1b,  32,  8,  64, 0,  64, 0,  8, 2, 256, 0, 0) \
    X(llama_8b,  32,  8, 128, 0, 128, 0, 16, 1, 256, 0, 0) \
    X(qwen3_8b,  32,  8, 128, 1, 128, 1, 16, 1, 256, 0, 0) \
    X(qwen2_7b,  28,  4, 128, 0, 128, 1,  8, 3, 256, 0, 0) \
    X(llama_70b, 64,  8, 128, 0, 128, 0, 16, 1, 256, 0, 0) \
    X(qwen3_32b, 64,  8, 128, 1, 128, 1, 16, 1, 256, 0, 0) \
    X(phi_2,     32, 32,  96, 0,  32, 1,  4, 1, 128, 0, 0) \
    X(gemma_2b,   8,  1, 256, 0, 256, 1, 16, 1, 256, 0, 0) \
    X(tiny,       4,  4,  32, 0,   0, 0,  1, 1,  64, 0, 0)
#define DECODE_CLUSTER_MODELS(X) \
    X(llama_1b_cluster,  32,  8,  64, 0,  64, 0,  8, 2, 256, 1, 0) \
    X(llama_8b_cluster,  32,  8, 128, 0, 128, 0,  8, 2, 256, 1, 0) \
    X(qwen3_8b_cluster,  32,  8, 128, 1, 128, 1,  8, 1, 256, 1, 0) \
    X(llama_70b_cluster, 64,  8, 128, 0, 128, 0,  8, 4, 256, 1, 0) \
    X(gemma_2b_cluster,   8,  1, 256, 0, 256, 1,  8, 8, 256, 1, 0) \
    X(llama_1b_matrix,   32,  8,  64, 0,  64, 0,  8, 2, 256, 1, 2) \
    X(llama_8b_matrix,   32,  8, 128, 0, 128, 0,  8, 2, 256, 1, 2) \
    X(llama_70b_matrix,  64,  8, 128, 0, 128, 0,  8, 2, 256, 1, 2) \
    X(qwen3_30b_matrix,  32,  4, 128, 1, 128, 1,  8, 4, 256, 1, 2)
enum { DECODE_MODELS_CTX = 8192, DECODE_MODELS_BLOCK = 256, DECODE_MODELS_SPAN = 1024 };
/* Name; query heads, KV heads, dimensions; digits; kind of rows out.  PREFILL_LARGE_MODELS are for 128 threads. */
#define PREFILL_MODELS(X) \
    X(prefill_32,  32,  8,  32, 1, 1) \
    X(prefill_64,  32,  8,  64, 1, 1) \
    X(prefill_80,  32, 32,  80, 1, 1) \
    X(prefill_96,  32, 32,  96, 1, 1) \
    X(prefill_128, 32,  8, 128, 1, 1) \
    X(exact_128,   32,  8, 128, 2, 1) \
    X(exact_256,    8,  4, 256, 2, 0)
#define PREFILL_LARGE_MODELS(X) X(prefill_256, 8, 4, 256, 1, 2)
/* Name; query heads, KV heads, columns of K and of V, view; splits, spans of 1024 positions; 1: the splits are a cluster */
#define WIDE_MODELS(X) \
    X(wide_glm,      20,  1, 576, 512, 1,  8, 4, 0) \
    X(wide_deepseek, 16,  1, 576, 512, 1,  8, 4, 0) \
    X(wide_gemma,    16,  2, 512, 512, 0,  8, 2, 0) \
    X(wide_mimo,     32,  4, 192, 128, 0,  4, 2, 0)
#define WIDE_CLUSTER_MODELS(X) \
    X(wide_glm_cluster,   20, 1, 576, 512, 1, 8, 8, 1) \
    X(wide_gemma_cluster, 16, 2, 512, 512, 0, 8, 4, 1)
enum { WIDE_MODELS_OUT_STRIDE = 20480, WIDE_MODELS_Q_STRIDE = 49152, WIDE_MODELS_PARTS = 3, WIDE_MODELS_PART = 64 };
enum { PREFILL_MODELS_CTX = 4096, PREFILL_MODELS_OUT_STRIDE = 16384, PREFILL_MODELS_Q_STRIDE = 16384 };
#ifndef PREFILL_THREADS                          /* threads for the models: 256 or 128 */
#define PREFILL_THREADS 128
#endif

/* ---- sequence: convolutions, recurrences, norms of heads, layer norms, rotations, functions of values ---- */
struct sequence_case {
    uint32_t cols, taps, tap_stride, keep, threads, stride[5], y_cols;
    uint32_t heads, qk_heads, head_dim, value_dim, delta, modulo, by_row;
    uint32_t whole, how, bf16, n_rot, neox, first, block, position;
    float    eps;
    const float *in[5], *weight, *hi, *lo;
    float   *y;                                  /* [token][y_cols] */
    uint32_t *calls;                             /* as y: how often each value was stored; [0]: padding that is not 0 */
    uint8_t *out16;
};
enum { SEQUENCE_FUNCTIONS = 9 };

/* ---- slices: routers, tokens of experts, products with a part of a stack of matrices ---- */
struct slices_case {
    uint32_t used, experts, rows, cols, apart, digits, threads, groups, pair;
    uint32_t gating, n_sets, n_sets_used, norm, most, stride;        /* sets of experts: a router may first choose sets */
    uint32_t x_stride, shared;
    float    by;
    const float   *logits, *bias, *x, *times;
    float         *choice;                       /* [token][stride]: weights, then numbers of the experts */
    uint32_t      *n_picked, *picked;
    const uint8_t *w[2], *x16;
    float         *y[2];                         /* [token][y_stride] */
    uint32_t      *calls, y_stride;
};

/* ---- sample ---- */
struct sample_case { uint32_t n_vocab, n_ctx, groups, threads; float *logits; uint8_t *scratch; uint32_t *counter; };
/* With -DMODELS: n_vocab, groups, threads. */
#define SAMPLE_MODELS_CTX 4096
#define SAMPLE_MODELS(X) X(128256, 64, 512) X(151936, 80, 512) X(262144, 128, 512) X(32000, 40, 512) X(512, 4, 256)
#endif
