/* sizes.h -- bytes of workgroup memory and of the arena that the kernels of templates/webgpu need, and how they divide their work.
 * Constant expressions of C, for the compiler's plan. */
#ifndef FORGE_WEBGPU_SIZES_H
#define FORGE_WEBGPU_SIZES_H

/* acts.wgsl: bytes of a row of `units` units of 64 columns, as int8 and as floats. */
#define ACTS_BYTES(units) (80u * (units) + 64u)
#define FLOATS_BYTES(units) (256u * (units))
/* gemv.wgsl: sums of the lanes, of pairs, and the memory that the group shares. */
#define GEMV_BYTES(threads, rows) (9u * (threads) * (rows) + 12u * (threads) + 64u)

/* stage.wgsl: bytes of a row of `units` units.  gemm.wgsl: rows of a tile, rows of each matrix of a pair, tokens; workgroup memory with
 * int8 and with floats. */
#define STAGED_BYTES(units) (80u * (units))
#define TILE_ROWS 64u
#define TILE_PAIRS 32u
#define TILE_TOKENS(threads) ((threads) / 2u)
#define TILE_BYTES(threads) ((threads) > 128u ? 16384u : 11264u)
#define TILE_FLOAT_BYTES(threads) ((threads) > 128u ? 12288u : 8192u)

/* heads.wgsl: heads per workgroup. */
#define HEADS_EACH 2u
/* attention.wgsl: query heads per KV head; most and actual query heads of a workgroup; workgroups per KV head; rows of parts. */
#define ATTENTION_GROUP(heads, heads_kv) ((heads) / (heads_kv))
#define ATTENTION_MOST(head_dim) ((head_dim) > 128u ? 4u : 8u)
#define ATTENTION_HEADS(heads, heads_kv, head_dim) \
    (ATTENTION_GROUP(heads, heads_kv) < ATTENTION_MOST(head_dim) ? ATTENTION_GROUP(heads, heads_kv) : ATTENTION_MOST(head_dim))
#define ATTENTION_CUTS(heads, heads_kv, head_dim) \
    ((ATTENTION_GROUP(heads, heads_kv) + ATTENTION_HEADS(heads, heads_kv, head_dim) - 1u) / ATTENTION_HEADS(heads, heads_kv, head_dim))
#define ATTENTION_ROWS(heads, heads_kv, head_dim) \
    ((heads_kv) * ATTENTION_CUTS(heads, heads_kv, head_dim) * ATTENTION_HEADS(heads, heads_kv, head_dim))
/* Query heads that it loads at a time; threads of a workgroup of at most `most`; most columns of K and of V; longest context that one split
 * has alone. */
#define ATTENTION_HEADS_EACH(head_dim) ((head_dim) > 256u ? 1u : (head_dim) > 128u ? 4u : 8u)
#define ATTENTION_THREADS(most, head_dim) ((head_dim) > 256u && (most) > 64u ? 64u : (most))
#define ATTENTION_DIM_MOST 576u
#define ATTENTION_ALONE 256u
/* attention_chunk.wgsl: rows of a workgroup, each a token and head; threads; workgroups that share the query heads of a KV head for a
 * token; tokens per workgroup. */
#define CHUNK_ROWS(head_dim) ((head_dim) > 256u ? 16u : (head_dim) > 128u ? 32u : 64u)
#define CHUNK_THREADS 128u
#define CHUNK_BYTES(head_dim) ((head_dim) > 256u ? 16384u : 14848u)
#define CHUNK_SHARES(heads, heads_kv, head_dim) \
    ((ATTENTION_GROUP(heads, heads_kv) + CHUNK_ROWS(head_dim) - 1u) / CHUNK_ROWS(head_dim))
#define CHUNK_TOKENS(heads, heads_kv, head_dim) \
    (ATTENTION_GROUP(heads, heads_kv) > CHUNK_ROWS(head_dim) ? 1u : CHUNK_ROWS(head_dim) / ATTENTION_GROUP(heads, heads_kv))

/* sample.wgsl: fewest tokens per workgroup; most workgroups; scratch in the arena. */
#define SAMPLE_SPAN 256u
#define SAMPLE_MOST_GROUPS 1024u
#define SAMPLE_SCRATCH_BYTES(groups) (8u * (groups))
#endif
